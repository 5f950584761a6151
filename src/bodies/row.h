// What a file of src/bodies/rows offers: rows of one kind and, below them, their pullback. Kinds are rows of PB_ROW_KINDS
// (model/row_kinds.h), equalities of PB_EQUALITY_TABLE (pullback/equalities.h). A file is compiled for each kind of lane, rows
// and pullback together, and for the forward program in complex numbers, the rows alone. It builds rows by
// contact/row_build.h: Jacobian, pos, margin, diagApprox, bounds, and where solref and solimp are; the rest of a row's numbers
// follows from these.
#ifndef PB_BODIES_ROW_H
#define PB_BODIES_ROW_H

#include "base/assert.h"
#include "eval/constraints.h"
#include "eval/lane.h"
#include "eval/row.h"

typedef struct LANE(pbRowFile) {
  void (*make)(NUM(pbConstraints) *w);                // all rows of a kind
  void (*hold)(NUM(pbConstraints) *w, int equality);  // or those of an equality
} LANE(pbRowFile);

#define PB_ROW(file, ...) const LANE(pbRowFile) LANE(pbRowFile_##file) = {__VA_ARGS__}

#endif
