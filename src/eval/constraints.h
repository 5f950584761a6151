// What a mechanism touches, and the rows that hold it: what rows of constraints, sensors of contact and
// solvers read.
#ifndef PB_CONSTRAINTS_H
#define PB_CONSTRAINTS_H

#include <pullback/base.h>

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

  // Lists of contacts and rows are a block of their own, which grows (multibody/work_room.c).
  void *lists;
  int most_con;       // contacts that there may be at most
  bool searches;      // are there pairs that go by a search?
  pbContext *grower;  // where more room comes from; NULL: there is what there is
};

// What lists for so many contacts hold: max_con, max_row, max_dofs, max_J.
void NUM(pbConstraints_Count)(NUM(pbConstraints) *w, int contacts);
// Room for so many contacts. Pointers into the lists move, what is in them goes along. pb_capacity beyond what there may be.
PB_NODISCARD pbStatus NUM(pbConstraints_Reserve)(NUM(pbConstraints) *w, int contacts);

#endif
