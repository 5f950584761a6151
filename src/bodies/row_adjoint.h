// What a file of src/bodies/rows offers on the way back (row.h). Where PB_HAS_PULLBACK (eval/lane.h).
#ifndef PB_BODIES_ROW_ADJOINT_H
#define PB_BODIES_ROW_ADJOINT_H

#include "bodies/row.h"
#include "contact/row_adjoint.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

typedef struct LANE(pbRowPull) {
  // Jacobian, residual and J v in aref (bar: f, z, pos) to what they were made of: positions, velocities, body fields, theta.
  void (*pull)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar);
  // diagApprox, bounds and margin to theta; what all kinds share has been there. NULL with several lanes.
  void (*parameters)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar);
  // J x under a field X of all bodies (nbody x 6). NULL: its rows see joints and tendons.
  void (*relative)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *X, lane out[6]);
  // The cotangent of pos alone, the fields held: of kinds that events begin and end with. NULL: of none.
  void (*distance)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos);
  // Before all rows: what makes no row, but has a slope. NULL: nothing.
  void (*begin)(LANE(pbAdjoint) *a);
} LANE(pbRowPull);

#define PB_ROW_PULL(file, ...) const LANE(pbRowPull) LANE(pbRowPull_##file) = {__VA_ARGS__}
#if PB_LANES == 1
#define PB_ROW_PARAMETERS(function) .parameters = function
#else
#define PB_ROW_PARAMETERS(function) .parameters = NULL
#endif

// What the files share.
// y = J lam and what sensors ask besides.
static inline void pull_functional(const LANE(pbAdjoint) *a, int index, lane *y) {
  const NUM(pbRow) *r = a->constraints->row + index;
  LANE(pbRow_Times)(a->constraints, r, a->lam, y);
  for (int i = 0; i < r->dim; i++) y[i] += a->y0[6 * index + i];
}

// One row on joints: aref has -b J v. On tendons that is a part of pbRow_TendonEntries.
static inline void pull_joint_velocity(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  lane bz = -r->b * bar->z[0];
  LANE(pbRow_AddForce)(a->constraints, r, &bz, a->v);
}

#endif
