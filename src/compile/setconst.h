// Constants that follow from the reference configuration qpos0, as mj_setConst of MuJoCo 4.0 derives them.
//
// The kernel (setconst.c) is compiled for both number types. What it works out beside theta stays in its work memory for the
// compiler (compile_finish.c): poses, the factor of the mass matrix, rows of tendons and actuators.
#ifndef PB_SETCONST_H
#define PB_SETCONST_H

#include "base/arena.h"
#include "geometry/wrap.h"
#include "model/model.h"
#include "model/par.h"
#include "model/tendon_path.h"
#include "number/number.h"

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
#define PB_OVERFLOW_TEXT \
  "the mass matrix is not finite at degree of freedom %d (joint '%s'): a position, a length or a mass is too large"
#define PB_DERIVE_LIMIT ((size_t)384 << 20)  // most bytes of work memory

PB_NODISCARD pbStatus pbDerive_MakePlan(pbContext *ctx, const pbModel *m, pbDerivePlan *plan);  // constants.c
void pbDerive_FreePlan(pbContext *ctx, pbDerivePlan *plan);

// A cotangent of the derived entries, with what the pullback of M^-1 needs frozen. For a weight r' M^-1 r with x = M^-1 r:
//   d (r' M^-1 r) = 2 x . dr - x' dM x,
// so at frozen x all weights together are the scalar  2 sum c x . r - <C, M>,  C = sum c x x', which has no inverse in it.
typedef struct pbFrozen {
  const double *bar;  // ntheta: cotangents of the derived entries, zero elsewhere
  double *C;          // as M: lower triangles
  // For each body with general weights 6 x (dofs of its chain, last first): 2 c x for the three forces and torques; for each
  // tendon its touched dofs: 2 c x.
  double *x_body, *x_tendon;
  // For each actuator with a cotangent of its acceleration |x|, x = M^-1 r: c y with y = M^-1 x / |x|, since
  // d |x| = y . dr - y' dM x; its share of C is c (y x' + x y') / 2.
  double *x_actuator;
} pbFrozen;

#include "compile/setconst_number.h"

// setconst_poses.c: the path of a piece of a tendon around its geom, at the poses; false: it is straight.
bool NUM(pbDerive_Wraps)(const pbModel *m, const NUM(pbPar) *p, const NUM(pbDerive) *w, const pbPiece *piece,
                         NUM(pbWrapPath) *path);

#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "compile/setconst_number.h"
#include "number/complex_end.h"

// May constants be derived from theta[start .. start + count)? Of a model with a design they may from all.
bool pbConstants_Read(const pbModel *m, size_t start, size_t count);
// pbModel_SetConstantsVjp where gradients by theta[i] are wanted for wanted[i] alone (others may stay behind); NULL: by all.
PB_NODISCARD pbStatus pbConstants_Pull(pbContext *ctx, const pbModel *m, const double *theta, const bool *wanted,
                                       double *theta_bar);

_Static_assert(sizeof(pbDerive_c) == sizeof(pbDerive_r), "pointers and the plan");

// Plan and work memory on the heap; Destroy only after a Create that worked.
PB_NODISCARD pbStatus pbDerive_Create(pbContext *ctx, const pbModel *m, pbDerive_r *w, void **memory);
void pbDerive_Destroy(pbContext *ctx, pbDerive_r *w, void *memory);
int pbDerive_Overflow(const pbModel *m, const pbDerive_r *w);  // after a run: a dof whose mass is not finite; -1: none
#endif

#endif
