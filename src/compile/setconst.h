// Constants that follow from the reference configuration qpos0, as mj_setConst of MuJoCo 4.0 derives them.
//
// The kernel (setconst.c) is compiled for both number types. What it works out beside theta stays in its work memory for the
// compiler (compile_finish.c): poses, the factor of the mass matrix, rows of tendons and actuators.
#ifndef PB_SETCONST_H
#define PB_SETCONST_H

#include "base/arena.h"
#include "model/model.h"

// The mass matrix in dense blocks, one per kinematic tree.
typedef struct pbDerivePlan {
  int ncomp, max_size;
  int *comp;       // nv: block of a dof
  int *local;      // nv: its index there; leaves first, so that factoring a tree makes no fill
  int *size;       // ncomp
  int *start;      // ncomp: first dof
  size_t *block;   // ncomp: first entry in M
  size_t entries;  // of M
} pbDerivePlan;

#define PB_SINGULAR_TEXT \
  "the mass matrix is singular at joint '%s' in the reference configuration: joints move the same way, or lack inertia"
#define PB_DERIVE_LIMIT ((size_t)384 << 20)  // most bytes of work memory

PB_NODISCARD pbStatus pbDerive_MakePlan(pbContext *ctx, const pbModel *m, pbDerivePlan *plan);  // constants.c
void pbDerive_FreePlan(pbContext *ctx, pbDerivePlan *plan);

#define PB_DERIVE_FIELDS(num)                                                                                  \
  num *xpos, *xquat, *xmat; /* nbody x 3, 4, 9 */                                                              \
  num *xipos, *ximat;       /* nbody x 3, 9 */                                                                 \
  num *com;                 /* nbody x 3: centre of mass of the subtree, times its mass until it is divided */ \
  num *xanchor, *xaxis;     /* njnt x 3 */                                                                     \
  num *inertia;             /* nbody x 10 about com of the root, composite after derive */                     \
  num *cdof;                /* nv x 6: rotation, velocity of the reference point */                            \
  num *M;                   /* plan.entries: lower triangles, then Cholesky factors */                         \
  num *M0;                  /* nv: diagonal of M without tendons */                                            \
  num *diagonal;            /* nv: diagonal of M */                                                            \
  num *site_xpos;           /* nsite x 3 */                                                                    \
  num *ten_length;          /* ntendon */                                                                      \
  num *row;                 /* nv: one row of a Jacobian */                                                    \
  num *jac;                 /* 6 x max_size */                                                                 \
  int *touched;             /* nv: dofs of the row that may be non-zero */                                     \
  bool *mark;               /* nv */

typedef struct pbDerive_r {
  PB_DERIVE_FIELDS(double) pbDerivePlan plan;
} pbDerive_r;
typedef struct pbDerive_c {
  PB_DERIVE_FIELDS(_Complex double) pbDerivePlan plan;
} pbDerive_c;

// Plan and work memory on the heap; Destroy only after a Create that worked.
PB_NODISCARD pbStatus pbDerive_Create(pbContext *ctx, const pbModel *m, pbDerive_r *w, void **memory);
void pbDerive_Destroy(pbContext *ctx, pbDerive_r *w, void *memory);

// Arrays for a plan that is already made.
void pbDerive_Layout_r(pbArena *arena, const pbModel *m, pbDerive_r *w);
void pbDerive_Layout_c(pbArena *arena, const pbModel *m, pbDerive_c *w);

// Poses at qpos (nq), sites, lengths of tendons.
void pbDerive_Poses_r(const pbModel *m, const double *theta, const double *qpos, pbDerive_r *w);
void pbDerive_Poses_c(const pbModel *m, const _Complex double *theta, const _Complex double *qpos, pbDerive_c *w);

// Everything at qpos0, written into the derived entries of theta: body_subtreemass, body_invweight0, dof_invweight0,
// tendon_length0, tendon_invweight0, eq_data of connects and of welds that take the relative pose from qpos0, virtual mass and
// inertia in geom_fluid of geoms with the ellipsoid fluid model.
// -1, or a dof at which the mass matrix is singular; its pivot is then replaced by 1e-15, as in MuJoCo.
int pbDerive_Run_r(const pbModel *m, double *theta, pbDerive_r *w);
int pbDerive_Run_c(const pbModel *m, _Complex double *theta, pbDerive_c *w);

// A cotangent of the derived entries, with what the pullback of M^-1 needs frozen. For a weight r' M^-1 r with x = M^-1 r:
//   d (r' M^-1 r) = 2 x . dr - x' dM x,
// so at frozen x all weights together are the scalar  2 sum c x . r - <C, M>,  C = sum c x x', which has no inverse in it.
typedef struct pbFrozen {
  const double *bar;  // ntheta: cotangents of the derived entries, zero elsewhere
  double *C;          // as M: lower triangles
  double
      *x_body;  // for each body with general weights 6 x (dofs of its chain, last first): 2 c x for the three forces and torques
  double *x_tendon;  // for each tendon its touched dofs: 2 c x
} pbFrozen;

// bar . derived(theta), up to a constant: value and slope equal those of the derived entries at the theta it was frozen at.
// Writes derived entries of theta.
double pbDerive_Power_r(const pbModel *m, double *theta, const pbFrozen *f, pbDerive_r *w);
_Complex double pbDerive_Power_c(const pbModel *m, _Complex double *theta, const pbFrozen *f, pbDerive_c *w);

// After Run: row of a tendon's Jacobian into w->row (nv; only the touched entries are written, the others are zero), their
// number is returned. The caller clears by pbDerive_ClearRow.
int pbDerive_TendonRow_r(const pbModel *m, const double *theta, pbDerive_r *w, int tendon);
int pbDerive_TendonRow_c(const pbModel *m, const _Complex double *theta, pbDerive_c *w, int tendon);
void pbDerive_ClearRow_r(pbDerive_r *w, int touched);
void pbDerive_ClearRow_c(pbDerive_c *w, int touched);
// After Run: adds direction . (velocity of a point fixed to a body) and turn . (angular velocity) to the row; the new count.
int pbDerive_AddPoint_r(const pbModel *m, pbDerive_r *w, int body, const double *point, const double *force, const double *torque,
                        double scale, int touched);
int pbDerive_AddPoint_c(const pbModel *m, pbDerive_c *w, int body, const _Complex double *point, const _Complex double *force,
                        const _Complex double *torque, _Complex double scale, int touched);
// Solve M x = row for the dofs of one component: x has plan.size[comp] entries; half: only the first triangle, |x|^2 = row' M^-1
// row.
void pbDerive_Solve_r(const pbDerive_r *w, int comp, double *x, bool half);
void pbDerive_Solve_c(const pbDerive_c *w, int comp, _Complex double *x, bool half);

#endif
