// Sweeps against slip (MuJoCo's noslip_iterations), after the soft method's Newton: friction forces once more, without what
// softness regularizes, at the normal forces that Newton's method found. Block by block in the order of rows, each at the least
// of its own quadratic within its bounds, the others held, with x = J a - aref at the forces so far and A = J M^-1 J':
//
//   dry friction          f = f - x / A, between -loss and loss
//   contact, pyramidal    each tangent f_k = f_k - x_k / A_kk, between -mu_k s_k and mu_k s_k, s_k the sum of its edges' forces
//   contact, elliptic     all tangents together, within the ellipsoid |f_k / mu_k| <= f_0 (pbSlip_Ellipsoid)
//
// As many sweeps as asked for, which have not converged; those of an island of trees end earlier where a sweep gains less than
// noslip_tolerance. The derivative goes back through them (noslip_adjoint.c).
#ifndef PB_NOSLIP_H
#define PB_NOSLIP_H

#include "eval/row.h"
#include "eval/work.h"

enum { PB_SLIP_NEWTON = 20 };  // most iterations for the multiplier of an ellipsoid

// What became of a block.
typedef enum pbSlipZone {
  pb_slipFree,       // one number, within its bounds
  pb_slipBelow,      // at the lower one
  pb_slipAbove,      // at the upper one
  pb_slipEllipsoid,  // several, by their multiplier
  pb_slipZero,       // no force: nothing presses, or nothing moves
  pb_slipKept        // as it was: the new one is no better
} pbSlipZone;

// A contact's tangents in coordinates in which their ellipsoid is a ball of radius r: v = -(A + la)^-1 b, on the ball by a factor
// where the multiplier la is not zero. What its derivative needs of the search for la is kept.
typedef struct NUM(pbSlipBlock) {
  int n;
  int updates;         // of la; 0: none was needed
  int at;              // of which of them v is
  bool held;           // A is singular but for rounding: there is no force
  num A[25], b[5], r;  // scaled
  num la[21], v[5];    // v: before it is put on the ball
  num scale;           // puts it there; 1: it is inside
} NUM(pbSlipBlock);

// A block in a sweep: what it becomes.
typedef struct NUM(pbSlipUpdate) {
  int at, n;  // its numbers: at, ..., at + n - 1
  pbSlipZone zone;
  num f[5];
  num bound;               // of one number: of its force
  double gain;             // by how much it lowers the cost
  NUM(pbSlipBlock) block;  // of several: the ellipsoid
} NUM(pbSlipUpdate);

// Sweeps from Newton's solution, which goes to w->slip: qacc, forces of rows, qfrc_constraint and Ma are those after them.
PB_NODISCARD pbStatus NUM(pbSlip_Sweep)(NUM(pbWork) *w);
// The block that begins at number i of a row's, at forces f and residuals x (slip.n each). Changes nothing but u.
void NUM(pbSlip_Update)(const NUM(pbWork) *w, const NUM(pbRow) *r, int i, const num *f, const num *x, NUM(pbSlipUpdate) *u);
// Does a row's island take part in sweep s? Rows that do not slide never do.
bool NUM(pbSlip_Goes)(const NUM(pbWork) *w, const NUM(pbRow) *r, int s);
// x := (A + la)^-1 x. False where that is singular but for rounding.
bool NUM(pbSlip_Solve)(const NUM(pbSlipBlock) *s, num la, num *x);
// Forces of the two edges of tangent k > 0 of a pyramid, at the row's x.
void NUM(pbSlip_Edges)(const NUM(pbWork) *w, const NUM(pbRow) *r, int k, num edge[2]);

// A loss of zero (id: dof, or nv + tendon) makes no row, but has a slope (multibody/kink.h): the sign against which its force
// would be in sweep s at accelerations a (nv). pb_slipNoLoss: there is a row, or its island has ended: the force stays.
enum { pb_slipNoLoss = 2 };
int NUM(pbSlip_LossSign)(const NUM(pbWork) *w, int id, int s, const num *a);
// The losses of zero in front of a row that slides, of all: those rows stand in the order of their ids before those of contacts.
static inline int pb_slip_losses(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  return r->kind == pb_rowFriction ? r->id : w->m->nv + w->m->ntendon;
}

// How many numbers of a block of rows slide, and the first of them in its basis.
static inline int pb_slip_count(const NUM(pbRow) *r) {
  if (r->kind == pb_rowFriction) return 1;
  return r->kind == pb_rowContact ? r->dim - 1 : 0;
}
static inline int pb_slip_first(const NUM(pbRow) *r) { return r->kind == pb_rowContact; }
// How many of them go together.
static inline int pb_slip_together(const pbModel *m, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact && m->cone == pb_coneElliptic ? r->dim - 1 : 1;
}

#endif
