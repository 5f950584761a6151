// What a mechanism touches, and the rows that hold it: what rows of constraints, sensors of contact and
// solvers read.
#ifndef PB_CONSTRAINTS_H
#define PB_CONSTRAINTS_H

#include "eval/mechanism.h"

struct NUM(pbConstraints) {
  union {
    NUM(pbMechanism);
    NUM(pbMechanism) mechanism;
  };

  int *near;  // t->ncandidate: candidates that may touch
  int ncon, max_con;
  NUM(pbContact) *contact;
  struct pbSearched *searched;  // max_con: of pairs that go by a search what it found, at the first contact (geometry/search.h)
  int nrow, max_row, ndofs_used, max_dofs, nJ_used, max_J;
  NUM(pbRow) *row;
  int *row_dofs;
  num *row_J;
  num *qfrc_constraint;  // nv: of all rows
};

#endif
