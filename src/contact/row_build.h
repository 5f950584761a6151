// What the files of src/bodies/rows make rows with.
#ifndef PB_ROW_BUILD_H
#define PB_ROW_BUILD_H

#include "eval/constraints.h"
#include "eval/row.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// A new row at the end, 1 <= dim <= 6, of no dofs yet; all zero that its kind may leave.
NUM(pbRow) *NUM(pbRow_New)(NUM(pbConstraints) *w, pbRowKind kind, int id, int dim);
// Its dofs are known (n, ascending, in row_dofs at r->dofs): claims them, and room for J (dim x n), to be filled.
num *NUM(pbRow_Claim)(NUM(pbConstraints) *w, NUM(pbRow) *r, int n);
// J, pos, margin, diag and bounds are set: the rest, by solref and solimp (of theta; contacts, which have their own: NULL). As in
// MuJoCo a row that nothing moves is left out, and w->nrow as it was before it.
void NUM(pbRow_Finish)(NUM(pbConstraints) *w, NUM(pbRow) *r, const num *solref, const num *solimp);
// One row along a dof or a tendon with its diag, J times sign.
NUM(pbRow) *NUM(pbRow_OfDof)(NUM(pbConstraints) *w, pbRowKind kind, int id, int dof, double sign);
NUM(pbRow) *NUM(pbRow_OfTendon)(NUM(pbConstraints) *w, pbRowKind kind, int id, int tendon, double sign);

// Ascending dofs that move body1 or body2 (without those that move both, if asked). Returns their number.
int NUM(pbRow_Chains)(const NUM(pbConstraints) *w, int body1, int body2, bool skip_common, int *dofs);
// Is dof i among those that move the body? The chain of the body's last dof names them by depth.
static inline bool pb_moves(const NUM(pbConstraints) *w, int i, int body) {
  int end = w->t->body_dofend[body];
  if (end < i) return false;
  const pbTreePattern *tree = &w->t->M;
  int depth = tree->depth[i];
  return depth <= tree->depth[end] && tree->chain[tree->adr[end] + depth] == i;
}

// Column of dof i: velocity of the point of body (lin) and angular velocity (ang), times sign, added.
static inline void pb_add_column(const NUM(pbConstraints) *w, int i, const num offset[3], double sign, num lin[3], num ang[3]) {
  const num *S = w->S + 6 * i;
  num u[3];
  PB_POINTVEL(u, S, offset);
  v3_addscl(lin, u, sign);
  v3_addscl(ang, S, sign);
}

#endif
