// Columns of Jacobians by inputs: those of pullback/world.h, and behind them what a policy may reach besides.
#ifndef PB_COLUMNS_H
#define PB_COLUMNS_H

#include <pullback/world.h>

#include "model/model.h"

enum {
  pb_byGiven = pb_byControl | pb_byMocapPos | pb_byMocapRot,  // what a caller may ask for
  pb_byForce = 8,                                             // nv: forces of dofs
  pb_byWrench = 16,                                           // 6 nbody: forces and torques on bodies
};

static inline int pb_inputColumns(const pbModel *m, unsigned by) {
  int columns = pbModel_Columns(m, by);
  if (by & pb_byForce) columns += m->nv;
  if (by & pb_byWrench) columns += 6 * m->nbody;
  return columns;
}

#endif
