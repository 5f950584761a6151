// All of one evaluation: beside the mechanism and its constraints what solvers, integrators and observers work with. Sources
// below these do without it (names.h): each kernel is compiled several times.
#ifndef PB_WORK_H
#define PB_WORK_H

#include "eval/constraints.h"
#include "eval/found.h"
#include "eval/room.h"

struct NUM(pbWork) {
  union {
    NUM(pbConstraints);
    NUM(pbConstraints) constraints;
  };

  // solve
  bool replay;              // the solution is known (qacc_warmstart): no iterations, only its factor
  bool need_cross;          // rows couple branches of the tree (H is joined)
  pbTreePattern H, joined;  // pattern of M + J'KJ: that of M, or joined where rows couple branches
  size_t joined_room;       // entries that joined and H_LD have room for, in a block of their own
  void *joined_block;
  num *H_LD, *H_Dinv;
  bool factor_current;  // the factor is that at the solution
  num *Ma, *Mstep;      // nv: M qacc, M step
  int iterations;
  double residual;

  // hard contact (solve/dual.h): n numbers of all rows side by side, at most max (0: the method needs none)
  struct {
    const pbFound *known;  // the forces, where they are known; NULL: they are searched for
    double kappa;          // smooths the laws on the way to a solution, 0 there
    bool condensed;        // LU is of H over the dofs, with blocks Binv and K for each row, not of T over the active rows
    double *Binv, *K, *h;  // 36 per row, 36 per row, 2 nv
    int n, max, count;     // count: rows that are not held at zero
    double *A, *LU, *Z, *b, *rho, *f, *x;  // n x n, count x count, nv x n, n each
    double *diagonal, *trial, *trial_x, *after, *from, *path, *origin, *nearest, *weight, *softness,
        *step;           // n each, path 4 n, step 2 n
    int *active, *perm;  // count each
    int max_rows;
    void *block;
  } dual;
  int worst_row;  // that fits its law worst, where the solve did not converge

  // sweeps against slip (solve/noslip.h): of n numbers at most max (0: none are asked for)
  struct {
    int n, max, sweeps;      // how many were done
    num *A, *Z, *x;          // n x n, n x nv, n: J M^-1 J', rows M^-1 J', residuals
    num *f;                  // (noslip_iterations + 1) x n: Newton's forces, then those after each sweep
    num *qacc;               // nv: of Newton's solution
    int *island, *ended;     // nv each, by trees: the first of those that rows connect; how many sweeps it had
    double *gain, *inertia;  // nv each, by island: of a sweep; trace of M
    int *sign;               // nv + ntendon: of losses of zero, against which their force is (complex program)
    void *block;
  } slip;

  // integrator
  num *Mhat, *Mhat_Dinv;  // t->M.size, nv: M + h B or M - h D, factored
  num *damp;              // nv: B of Euler, or unused
  num *free_A;            // njnt x 36: M - h D + h dbias/dv of standalone free bodies (implicitfast)

  // Runge-Kutta: the state at the start, velocities, accelerations and activation rates of the stages
  num *q0, *v0, *a0;        // nq, nv, na
  num *rk_ctrl;             // 3 x nu: controls at the start, in the middle and at the end (pb_staged)
  num *rk_v, *rk_a, *rk_d;  // 4 x nv, 4 x nv, 4 x na (the first stage also for the other integrators)

  num *impact_J;  // 48 x nv: rows of the contacts of an impact, and these by M^-1 (contact method impact)

  // what is observed at the start of the step (a later stage overwrites xpos)
  num *observed_xpos, *observed_site;  // nbody x 3, nsite x 3

  // what a policy observes (step/observe_kernel.c): all numbers, and room for those of a row
  num *observation, *observed_row;
  bool sensed;  // positions and velocities of the state in the work are there already: the next evaluation goes on from them

  pbContext *owner;                  // whose memory it is
  void *memory;                      // the block everything lies in but for what grows
  size_t cached_from, cached_bytes;  // part of it that a pullback reads besides rows and the factor of H,
  char *cached_at;                   // and where that part is now (pbWork_MoveTo)
  char error[200];                   // what went wrong
};

// An evaluation with its memory, and the end of it. After a failure Close gives back what there is already (w was zero before).
PB_NODISCARD pbStatus NUM(pbWork_Open)(NUM(pbWork) *w, pbContext *ctx, const pbModel *m, pbRoom room);
void NUM(pbWork_Close)(NUM(pbWork) *w);
// Size of the block of what does not grow, and carving it (the same code: memory NULL counts).
size_t NUM(pbWork_Carve)(NUM(pbWork) *w, const pbModel *m, void *memory);
// Room for entries of the joined pattern; for n numbers of `rows` rows of hard contact; for n numbers of rows that slide. What
// they held is lost where they grow.
PB_NODISCARD pbStatus NUM(pbWork_ReserveJoined)(NUM(pbWork) *w, size_t entries);
PB_NODISCARD pbStatus NUM(pbWork_ReserveDual)(NUM(pbWork) *w, int n, int rows);
PB_NODISCARD pbStatus NUM(pbWork_ReserveSlip)(NUM(pbWork) *w, int n);
// Put what a pullback reads into another block of cached_bytes (aligned to 64; NULL: back to its own place), without what is in
// it.
void NUM(pbWork_MoveTo)(NUM(pbWork) *w, void *block);

#endif
