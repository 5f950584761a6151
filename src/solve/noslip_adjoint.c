// The way back through the sweeps against slip (noslip.h), with the branch of each block frozen. With a0, f0 Newton's solution, f
// the forces after the sweeps, qacc = a0 + M^-1 J'(f - f0), w = M^-1 (cotangent of qacc), G the cotangent of A = J M^-1 J', and x
// that of the residuals that the sweeps begin with:
//
//   W = w . J'(f - f0) - w . M (qacc - a0)      at held forces
//     + sum of G_ij J_i M^-1 J_j'               that is, over rows i, dJ_i u_i - 1/2 z_i . dM u_i with z_i = M^-1 J_i' and
//                                               u_i = sum over j of (G_ij + G_ji) z_j: entries of M have cotangents,
//                                               sums of z_i u_i, and the rows' motions give some to axes on their way
//     + x . (J a0 - aref)                       with the rows of Newton's method (row_adjoint.c)
//
// What falls to a0 and f0 is pulled as without sweeps.
// Tests: tests/conformance/test_step.c, tests/oracle/test_noslip.py, tests/python/test_noslip_meetings.py.
#include "base/assert.h"
#include "contact/potential.h"
#include "contact/row_adjoint.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "math/vec.h"
#include "multibody/force_adjoint.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"
#include "solve/noslip_adjoint.h"

typedef NUM(pbSlipUpdate) slip_update;
typedef NUM(pbSlipBlock) slip_block;
typedef LANE(pbSlipBar) slip_bar;

// ---- the ellipsoid --------------------------------------------------------------------------------------------------
typedef struct ellipsoid_bar {
  lane A[25], b[5], r, la, mu[5];
} ellipsoid_bar;

// x := (A + la)^-1 x in every lane.
static void solve_lanes(const slip_block *s, double la, lane *x) {
  for (int l = 0; l < PB_LANES; l++) {
    double column[5];

    // Out, solved, and back.
    for (int i = 0; i < s->n; i++) column[i] = ((const double *)(x + i))[l];
    bool regular = NUM(pbSlip_Solve)(s, la, column);
    PB_ASSERT(regular);
    (void)regular;
    for (int i = 0; i < s->n; i++) ((double *)(x + i))[l] = column[i];
  }
}

// v = -(A + la)^-1 b: the cotangent of v (changed) to A, la and b.
static void pull_solve(const slip_block *s, double la, const double *v, lane *v_bar, ellipsoid_bar *bar) {
  PB_ASSERT(s->n >= 2 && s->n <= 5);
  solve_lanes(s, la, v_bar);

  for (int i = 0; i < s->n; i++) {
    bar->b[i] -= v_bar[i];
    bar->la -= v_bar[i] * v[i];
    for (int j = 0; j < s->n; j++) bar->A[i * s->n + j] -= v_bar[i] * v[j];
  }
}

// la+ = la + N / D with N = v . v - r^2, D = 2 v . q, q = (A + la)^-1 v: bar->la is the cotangent of la+, on return that of la.
static void pull_multiplier(const slip_block *s, double la, ellipsoid_bar *bar) {
  double v[5], q[5], N = -s->r * s->r, D = 0;
  lane v_bar[5];
  int n = s->n;
  PB_ASSERT(n <= 5);

  // v, q and the step as they were.
  for (int i = 0; i < n; i++) v[i] = -s->b[i];
  if (!NUM(pbSlip_Solve)(s, la, v)) return;
  memcpy(q, v, sizeof q);
  if (!NUM(pbSlip_Solve)(s, la, q)) return;
  for (int i = 0; i < n; i++) {
    N += v[i] * v[i];
    D += 2 * v[i] * q[i];
  }

  // D by A: -2 q . dA q
  lane N_bar = bar->la / D, D_bar = -bar->la * N / (D * D);
  bar->r -= 2 * s->r * N_bar;
  for (int i = 0; i < n; i++) {
    v_bar[i] = 2 * v[i] * N_bar + 4 * q[i] * D_bar;
    bar->la -= 2 * D_bar * q[i] * q[i];
    for (int j = 0; j < n; j++) bar->A[i * n + j] -= 2 * D_bar * q[i] * q[j];
  }
  pull_solve(s, la, v, v_bar, bar);
}

// f_i = v_i mu_i scale, scale = r / |v| where v was put on the ball. f_bar: cotangent of the forces.
static void pull_ellipsoid(const slip_block *s, const double *mu, const lane *f_bar, ellipsoid_bar *bar) {
  int n = s->n;
  double square = 0;
  lane v_bar[5], scale_bar = PB_LANE_ZERO;
  memset(bar, 0, sizeof *bar);

  // Through the scale to its factors.
  for (int i = 0; i < n; i++) {
    square += s->v[i] * s->v[i];
    bar->mu[i] = f_bar[i] * s->v[i] * s->scale;
    v_bar[i] = f_bar[i] * mu[i] * s->scale;
    scale_bar += f_bar[i] * mu[i] * s->v[i];
  }

  if (s->updates) {
    double length = sqrt(square > 1e-15 ? square : 1e-15);
    double by_v = square > 1e-15 ? s->r / (square * length) : 0;
    bar->r += scale_bar / length;
    for (int i = 0; i < n; i++) v_bar[i] -= scale_bar * by_v * s->v[i];
  }

  // The search for the multiplier, from its end.
  pull_solve(s, s->la[s->at], s->v, v_bar, bar);
  for (int k = s->at - 1; k >= 0; k--) pull_multiplier(s, s->la[k], bar);
}

// ---- a block --------------------------------------------------------------------------------------------------------
// Tangents of an elliptic cone: T is the cotangent of the forces after, f_old those before.
static void pull_several(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const slip_update *u, const lane *T, const double *f_old,
                         slip_bar *row) {
  const NUM(pbWork) *w = a->work;
  const slip_block *s = &u->block;
  const double *mu = w->contact[r->contact].friction;
  ellipsoid_bar bar;
  int n = u->n, all = w->slip.n;
  PB_ASSERT(u->at + n <= all);

  pull_ellipsoid(s, mu, T, &bar);
  row->normal += bar.r;

  // b_i = mu_i (x_i - A_ij f_j), scaled entries mu_i A_ij mu_j
  for (int i = 0; i < n; i++) {
    lane slope = bar.b[i] * mu[i];
    bar.mu[i] += bar.b[i] * s->b[i] / mu[i];
    a->slip->x[u->at + i] += slope;

    for (int j = 0; j < n; j++) {
      double A = s->A[i * n + j] / (mu[i] * mu[j]);
      lane entry = bar.A[i * n + j] * mu[i] * mu[j] - slope * f_old[u->at + j];
      a->slip->f[u->at + j] -= A * slope;
      bar.mu[i] += bar.A[i * n + j] * A * mu[j];
      bar.mu[j] += bar.A[i * n + j] * A * mu[i];
      bool floored = i == j && w->slip.A[(u->at + i) * all + u->at + i] < 1e-10;
      if (!floored) a->slip->G[(u->at + i) * all + u->at + j] += entry;
    }
  }
  for (int i = 0; i < n; i++) row->friction[i] += bar.mu[i];
}

// One number: free, or at a bound, whose cotangent goes to what it is made of.
static void pull_one(LANE(pbAdjoint) *a, const NUM(pbRow) *r, int i, const slip_update *u, lane T, const double *f_old,
                     slip_bar *row) {
  const NUM(pbWork) *w = a->work;
  int at = u->at;
  double A = w->slip.A[at * w->slip.n + at];

  if (u->zone == pb_slipFree) {
    bool floored = r->kind == pb_rowFriction && A < 1e-15;
    if (floored) A = 1e-15;

    // f = f_old - x / A
    a->slip->f[at] += T;
    a->slip->x[at] -= T / A;
    if (!floored) a->slip->G[at * w->slip.n + at] -= T * (u->f[0] - f_old[at]) / A;
    return;
  }

  // At a bound, with its sign.
  PB_ASSERT(u->zone == pb_slipAbove || u->zone == pb_slipBelow);
  lane bound = u->zone == pb_slipAbove ? T : -T;
  if (r->kind == pb_rowFriction) {
    row->bound += bound;
    return;
  }

  // mu times the sum of the edges' forces
  double edge[2];
  NUM(pbSlip_Edges)(w, r, i + 1, edge);
  row->friction[i] += bound * (edge[0] + edge[1]);
  row->edges[i] += bound * w->contact[r->contact].friction[i];
}

static void pull_update(LANE(pbAdjoint) *a, int index, int i, const slip_update *u, const double *f_old) {
  const NUM(pbWork) *w = a->work;
  const NUM(pbRow) *r = w->row + index;
  int n = w->slip.n;
  lane T[5];

  // Residuals of all have moved by A times the change of these forces.
  for (int c = 0; c < u->n; c++) {
    lane g = PB_LANE_ZERO;
    double change = u->f[c] - f_old[u->at + c];
    // A is symmetric, and of G only that part counts.
    const double *A = w->slip.A + (u->at + c) * n;
    lane *G = a->slip->G + (u->at + c) * n;
    for (int j = 0; j < n; j++) {
      g += A[j] * a->slip->x[j];
      G[j] += a->slip->x[j] * change;
    }

    // The change is the force after less that before.
    T[c] = a->slip->f[u->at + c] + g;
    a->slip->f[u->at + c] = -g;
  }

  // From the forces after the block to what they were made of.
  if (u->zone == pb_slipKept) {
    for (int c = 0; c < u->n; c++) a->slip->f[u->at + c] += T[c];
  } else if (u->zone == pb_slipEllipsoid) {
    pull_several(a, r, u, T, f_old, a->slip_row + index);
  } else if (u->zone != pb_slipZero) {
    pull_one(a, r, i, u, T[0], f_old, a->slip_row + index);
  }
}

// ---- losses of zero -------------------------------------------------------------------------------------------------
// They make no rows, but the rows they would make take part (multibody/kink.h): each force is the loss against its sign in every
// sweep, at the accelerations of its turn, and when it turns it moves the residuals of all. Nothing else moves.
static inline bool losses_count(const LANE(pbAdjoint) *a) { return PB_WANTS(a, pb_wantLoss) && loss_acts(a->w->m); }

static int loss_count(const NUM(pbWork) *w) { return w->m->nv + w->m->ntendon; }

// J x of the row that a loss would make.
static lane loss_rate(const NUM(pbWork) *w, int id, const lane *x) {
  int tendon = id - w->m->nv;
  if (tendon < 0) return x[id];

  lane sum = PB_LANE_ZERO;
  for (int i = w->ten_start[tendon]; i < w->ten_start[tendon + 1]; i++) sum += w->ten_J[i] * x[w->ten_dofs[i]];
  return sum;
}

// A unit of each force moves the accelerations by M^-1 J'.
static void begin_losses(LANE(pbAdjoint) *a) {
  if (!losses_count(a)) return;

  for (int id = 0; id < loss_count(a->work); id++)
    a->slip_loss[id] = a->work->slip.n ? loss_rate(a->work, id, a->slip->w) : PB_LANE_ZERO;
}

// What is left is that of the forces before the sweeps, without what Newton's own adjoint counts.
static void end_losses(LANE(pbAdjoint) *a) {
  if (!losses_count(a) || !a->work->slip.n) return;

  for (int id = 0; id < loss_count(a->work); id++) a->slip_loss[id] -= loss_rate(a->work, id, a->slip->w);
}

// Signs of those before `end`, at their turn: accelerations in w->tmp. Returns which come next.
static int note_losses(LANE(pbAdjoint) *a, int s, int next, int end) {
  const NUM(pbWork) *w = a->work;
  if (!losses_count(a)) return next;

  for (; next < end; next++) a->slip->sign[next] = NUM(pbSlip_LossSign)(w, next, s, w->tmp);
  return next;
}

// Sweep s, those from `first` on that come before `end`, which were not pulled yet; in reverse.
static void pull_losses(LANE(pbAdjoint) *a, int first, int end) {
  const NUM(pbWork) *w = a->work;
  int n = w->slip.n, nv = w->m->nv;
  if (first >= end || !losses_count(a)) return;

  // The accelerations that the residuals' cotangents stand for: M^-1 J'x.
  lane *u = a->slip->u;
  memset(u, 0, (size_t)nv * sizeof *u);
  for (int j = 0; j < n; j++) {
    for (int d = 0; d < nv; d++) u[d] += w->slip.Z[j * nv + d] * a->slip->x[j];
  }

  for (int id = end - 1; id >= first; id--) {
    if (a->slip->sign[id] == pb_slipNoLoss) continue;

    // The force is set anew: what moved the residuals is its change, so the one before counts against it.
    lane g = loss_rate(w, id, u), bar = a->slip_loss[id] + g;
    a->slip_loss[id] = -g;
    if (id < nv) LANE(pbLoss_PullParameters)(a, id, -a->slip->sign[id] * PB_LANE0(bar));
    else PB_THETA(a, tendon_frictionloss, id - nv, -a->slip->sign[id] * bar);
  }
}

// ---- sweeps ---------------------------------------------------------------------------------------------------------
// What residuals change by with force i; and accelerations, where losses of zero ask.
static void move_residuals(const LANE(pbAdjoint) *a, int i, double change, double *x) {
  const NUM(pbWork) *w = a->work;
  const double *A = w->slip.A + i * w->slip.n, *z = w->slip.Z + i * w->m->nv;
  PB_ASSERT(i < w->slip.n);

  for (int j = 0; j < w->slip.n; j++) x[j] += A[j] * change;
  if (!losses_count(a)) return;
  for (int d = 0; d < w->m->nv; d++) w->tmp[d] += z[d] * change;
}

// Updates of sweep s in their order; residuals in w->slip.x. Returns how many there are.
static int repeat_sweep(LANE(pbAdjoint) *a, int s) {
  const NUM(pbWork) *w = a->work;
  int n = w->slip.n, count = 0, loss = 0;
  const double *first = w->slip.f, *before = w->slip.f + s * n;
  double *x = w->slip.x;

  // Where it began: the residuals of Newton's solution, moved by what the forces have changed since.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < pb_slip_count(r); i++) x[r->at + i] = r->x[pb_slip_first(r) + i];
  }
  memcpy(w->tmp, w->slip.qacc, (size_t)w->m->nv * sizeof(double));
  for (int j = 0; j < n; j++) move_residuals(a, j, before[j] - first[j], x);

  // Then block by block.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!NUM(pbSlip_Goes)(w, r, s)) continue;
    loss = note_losses(a, s, loss, pb_slip_losses(w, r));

    for (int i = 0; i < pb_slip_count(r); i += pb_slip_together(w->m, r)) {
      slip_update *u = a->slip->update + count++;
      PB_ASSERT(count <= n);
      NUM(pbSlip_Update)(w, r, i, before, x, u);
      for (int c = 0; c < u->n; c++) {
        move_residuals(a, u->at + c, u->f[c] - before[u->at + c], x);
      }
    }
  }
  note_losses(a, s, loss, loss_count(w));
  return count;
}

static void pull_sweep(LANE(pbAdjoint) *a, int s) {
  const NUM(pbWork) *w = a->work;
  int count = repeat_sweep(a, s), loss = loss_count(w);

  for (int k = w->nrow - 1; k >= 0; k--) {
    const NUM(pbRow) *r = w->row + k;
    if (!NUM(pbSlip_Goes)(w, r, s)) continue;
    if (r->kind == pb_rowFriction) {
      pull_losses(a, r->id, loss);
      loss = r->id;
    }

    int step = pb_slip_together(w->m, r);
    for (int i = pb_slip_count(r) - step; i >= 0; i -= step) {
      pull_update(a, k, i, a->slip->update + --count, w->slip.f + s * w->slip.n);
    }
  }
  PB_ASSERT(count == 0);
  pull_losses(a, 0, loss);
}

// ---- Newton's solution ----------------------------------------------------------------------------------------------
// Sums of two edges, e = D phi(x_e): to the row's residual, friction and D.
static void pull_edges(LANE(pbAdjoint) *a, const NUM(pbRow) *r, slip_bar *row) {
  const NUM(pbWork) *w = a->work;
  const double *mu = w->contact[r->contact].friction;
  for (int k = 1; k < r->dim; k++) {
    lane bar = row->edges[k - 1];

    for (int side = 0; side < 2; side++) {
      double sign = side ? -1 : 1, phi, slope;
      if (!pb_side(r->x[0] + sign * mu[k - 1] * r->x[k], w->m->contact.kappa, &phi, &slope)) continue;

      row->x[0] -= bar * r->edge_D * slope;
      row->x[k] -= bar * r->edge_D * slope * sign * mu[k - 1];
      row->friction[k - 1] -= bar * r->edge_D * slope * sign * r->x[k];
      row->log_D += bar * r->edge_D * phi;
    }
  }
}

// To the cotangent of Newton's accelerations: J'(x - K y0).
static void pull_newton(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    slip_bar *row = a->slip_row + k;
    lane *y0 = a->y0 + 6 * k, z[6];
    if (!r->zone) continue;

    // Forces and residuals of Newton's solution, as the sweeps have used them.
    int first = pb_slip_first(r);
    for (int i = 0; i < pb_slip_count(r); i++) {
      y0[first + i] = a->slip->f[r->at + i];
      row->x[first + i] += a->slip->x[r->at + i];
    }
    y0[0] += row->normal;
    if (pb_pyramidal(w->m, r)) pull_edges(a, r, row);

    // A force moves with the acceleration by -K J.
    LANE(pbRow_HessianTimes)(r, y0, z);
    for (int i = 0; i < r->dim; i++) z[i] = row->x[i] - z[i];
    LANE(pbRow_AddForce)(&w->constraints, r, z, a->qacc);
  }
}

LANE(pbSolution) LANE(pbSlip_Solution)(LANE(pbAdjoint) *a, const NUM(pbWork) *w) {
  NUM(pbAccelerations)(&w->mechanism, w->slip.qacc, a->slip->A);

  // The sweeps have changed the forces of what slides alone.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    double *f = a->slip->force + 6 * k;
    memcpy(f, r->f, sizeof r->f);
    for (int i = 0; i < pb_slip_count(r); i++) f[pb_slip_first(r) + i] = w->slip.f[r->at + i];
  }
  return (LANE(pbSolution)){.qacc = w->slip.qacc, .A = a->slip->A, .force = a->slip->force};
}

void LANE(pbSlip_Pull)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  int n = w->slip.n, nv = w->m->nv;

  // Nothing has been collected yet; w.
  memset(a->slip_row, 0, (size_t)w->nrow * sizeof *a->slip_row);
  memset(a->slip->G, 0, (size_t)(n * n) * sizeof(lane));
  memset(a->slip->x, 0, (size_t)n * sizeof(lane));
  memcpy(a->slip->w, a->qacc, (size_t)nv * sizeof(lane));
  if (n) LANE(pbSweep_Solve)(&w->t->M, w->LD, w->Dinv, a->slip->w);
  begin_losses(a);

  // Cotangents of the forces after the sweeps: z . (cotangent of qacc), and what sensors ask.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    for (int i = 0; i < pb_slip_count(r); i++) {
      // As much as the acceleration moves with the force.
      lane by_qacc = PB_LANE_ZERO;
      for (int d = 0; d < nv; d++) by_qacc += w->slip.Z[(r->at + i) * nv + d] * a->qacc[d];
      a->slip->f[r->at + i] = by_qacc + a->y0[6 * k + pb_slip_first(r) + i];
      a->slip->z[r->at + i] = by_qacc;
    }
  }

  for (int s = w->slip.sweeps - 1; s >= 0; s--) pull_sweep(a, s);
  for (int i = 0; i < n; i++) a->slip->f[i] -= a->slip->z[i];
  end_losses(a);

  // What sensors see moves with the accelerations after the sweeps: kept apart.
  a->slip->seen = !a->fresh;
  if (a->slip->seen) {
    for (int i = 0; i < 6 * w->m->nbody; i++) a->slip->FA[i] = a->FA[i] + a->FVa[i];
  }

  pull_newton(a);
}

// ---- pairs of fields ------------------------------------------------------------------------------------------------
// c times the functional of one of a contact's rows under the field X: wrenches on the field to F, the rest to the contact's
// point and axes.
typedef struct contact_bar {
  lane point[3], axis[3][3];
} contact_bar;

static void pull_functional(LANE(pbAdjoint) *a, const NUM(pbRow) *r, int row, double c, const lane *X, double *F,
                            contact_bar *bar) {
  const NUM(pbWork) *w = a->work;
  const NUM(pbContact) *contact = w->contact + r->contact;
  int b1 = w->m->geom_bodyid[contact->geom1], b2 = w->m->geom_bodyid[contact->geom2];
  const double *axis = contact->frame + 3 * (row % 3);
  double d1[3], d2[3], force[3];
  lane u1[3], u[3], spin[3], turn[3];

  // The field's relative motion at the point.
  body_offset(&w->mechanism, b1, contact->pos, d1);
  body_offset(&w->mechanism, b2, contact->pos, d2);
  PB_POINTVEL(u1, X + 6 * b1, d1);
  PB_POINTVEL(u, X + 6 * b2, d2);
  for (int e = 0; e < 3; e++) {
    u[e] -= u1[e];
    spin[e] = X[6 * b2 + e] - X[6 * b1 + e];
    force[e] = c * axis[e];
  }

  // Rows 0 to 2 are along the axes, rows 3 to 5 about them.
  if (row < 3) {
    PB_ADDWRENCH(F + 6 * b1, -1, d1, force);
    PB_ADDWRENCH(F + 6 * b2, 1, d2, force);
    PB_CROSS(turn, force, spin);
    for (int e = 0; e < 3; e++) bar->point[e] += turn[e];
  }
  for (int e = 0; e < 3; e++) {
    if (row >= 3) F[6 * b1 + e] -= force[e];
    if (row >= 3) F[6 * b2 + e] += force[e];
    bar->axis[row % 3][e] += c * (row < 3 ? u[e] : spin[e]);
  }
}

static void pull_contact(LANE(pbAdjoint) *a, const NUM(pbRow) *r, contact_bar *bar) {
  lane all[10];

  memset(all, 0, sizeof all);
  memcpy(all + 1, bar->point, sizeof bar->point);
  memcpy(all + 4, bar->axis[0], sizeof bar->axis[0]);
  LANE(pbContact_PullFrame)(a->constraints->contact + r->contact, all + 4, bar->axis[1], bar->axis[2], all + 7);
  LANE(pbContact_PullPair)(a, r->contact, all);
}

// The row of a tendon's dry friction is its Jacobian.
static void pull_tendon_row(LANE(pbAdjoint) *a, const NUM(pbRow) *r, double c, const lane *rate) {
  const NUM(pbWork) *w = a->work;
  if (r->kind != pb_rowFriction || r->tendon < 0) return;

  for (int i = 0; i < r->n; i++) {
    int dof = w->row_dofs[r->dofs + i];
    LANE(pbTendon_Other)(a, r->tendon)[dof] += c * rate[dof];
  }
}

// u_i of number `row`; false: it is zero.
static bool pair_rates(const LANE(pbAdjoint) *a, int row, lane *u) {
  const NUM(pbWork) *w = a->work;
  int n = w->slip.n, nv = w->m->nv;
  bool any = false;
  memset(u, 0, (size_t)nv * sizeof(lane));

  for (int j = 0; j < n; j++) {
    const double *z = w->slip.Z + j * nv;
    lane g = a->slip->G[row * n + j] + a->slip->G[j * n + row];
    for (int l = 0; l < PB_LANES; l++) any = any || ((const double *)&g)[l] != 0;
    for (int d = 0; d < nv; d++) u[d] += g * z[d];
  }
  return any;
}

// -1/2 z_i . dM u_i: the sum of all over rows is symmetric, so one triangle has twice its half.
static void add_mass_pair(LANE(pbAdjoint) *a, const lane *u, const double *z) {
  const pbTreePattern *tree = &a->w->t->M;
  for (int k = 0; k < tree->n; k++) {
    const int *chain = tree->chain + tree->adr[k];
    lane *M = a->slip->M + tree->adr[k];
    int depth = tree->depth[k];

    for (int d = 0; d < depth; d++) M[d] -= z[k] * u[chain[d]];
    M[depth] -= 0.5 * z[k] * u[k];
  }
}

// The body's motion by rates u: along its way to the root.
static void motion_by(const NUM(pbWork) *w, int body, const lane *u, lane X[6]) {
  LANE(pbLane_Zero6)(X);
  for (int i = w->t->body_dofend[body]; i >= 0; i = w->m->dof_parentid[i]) PB_AXPY6(X, u[i], w->S + 6 * i);
}

// dJ_i u_i of a contact.
static void pull_contact_row(LANE(pbAdjoint) *a, const NUM(pbRow) *r, int row, const lane *u, contact_bar *bar) {
  const NUM(pbWork) *w = a->work;
  const NUM(pbContact) *contact = w->contact + r->contact;
  const int body[2] = {w->m->geom_bodyid[contact->geom1], w->m->geom_bodyid[contact->geom2]};
  PB_ASSERT(body[0] != body[1]);
  for (int e = 0; e < 2; e++) {
    motion_by(w, body[e], u, a->X + 6 * body[e]);
    memset(a->F + 6 * body[e], 0, 6 * sizeof(double));
  }

  // Wrenches on both bodies' motions: on the axes that these are made of.
  pull_functional(a, r, row, 1, a->X, a->F, bar);
  for (int e = 0; e < 2; e++) {
    const double *F = a->F + 6 * body[e];
    for (int i = w->t->body_dofend[body[e]]; i >= 0; i = w->m->dof_parentid[i]) PB_AXPY6(a->slip->S + 6 * i, u[i], F);
  }
}

static void pull_row_pairs(LANE(pbAdjoint) *a, const NUM(pbRow) *r) {
  const NUM(pbWork) *w = a->work;
  contact_bar bar;
  memset(&bar, 0, sizeof bar);

  for (int i = 0; i < pb_slip_count(r); i++) {
    // without cotangents there is nothing to do
    lane *u = a->slip->u;
    if (!pair_rates(a, r->at + i, u)) continue;

    add_mass_pair(a, u, w->slip.Z + (r->at + i) * w->m->nv);
    if (r->kind == pb_rowContact) pull_contact_row(a, r, pb_slip_first(r) + i, u, &bar);
    else pull_tendon_row(a, r, 1, u);
  }
  if (r->kind == pb_rowContact && r->zone) pull_contact(a, r, &bar);
}

// The pairs of all rows that slide.
static void pull_pairs(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  memset(a->slip->M, 0, (size_t)w->t->M.size * sizeof(lane));
  memset(a->slip->S, 0, 6 * (size_t)w->m->nv * sizeof(lane));
  for (int k = 0; k < w->nrow; k++) pull_row_pairs(a, w->row + k);

  LANE(pbForce_ArmatureMass)(a, a->slip->M);
  LANE(pbSweep_PullMass)(a, a->slip->M, a->slip->S, a->slip->I);
}

// X += sign (Vx - Vl): motions that force and torque sensors give.
static void add_sensor_motions(LANE(pbAdjoint) *a, double sign) {
  if (!a->has_Vs) return;
  for (int i = 0; i < 6 * a->w->m->nbody; i++) a->X[i] += sign * (a->Vx[i] - a->Vl[i]);
}

// w . J'(f - f0) and, for sensors, the same forces under the motions that these give.
static void pull_changed_forces(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  const double *before = w->slip.f, *after = w->slip.f + w->slip.sweeps * w->slip.n;
  LANE(pbSweep_Push)(&w->mechanism, a->slip->w, a->X);
  add_sensor_motions(a, 1);
  memset(a->F, 0, 6 * (size_t)w->m->nbody * sizeof(double));

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    contact_bar bar;
    memset(&bar, 0, sizeof bar);
    if (!r->zone) continue;

    // Forces that changed, on the rows that they act by.

    for (int i = 0; i < pb_slip_count(r); i++) {
      double change = after[r->at + i] - before[r->at + i];
      if (r->kind == pb_rowContact) pull_functional(a, r, pb_slip_first(r) + i, change, a->X, a->F, &bar);
      else pull_tendon_row(a, r, change, a->slip->w);
    }
    if (r->kind == pb_rowContact && r->dim > 1) pull_contact(a, r, &bar);
  }
  LANE(pbSweep_PullExtra)(a, a->slip->w);
}

// (mu - w) . M (qacc - a0), and what sensors see of qacc - a0.
static void pull_changed_accelerations(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  int nv = w->m->nv, bodies = 6 * w->m->nbody;
  double *change = w->tmp;

  for (int i = 0; i < nv; i++) {
    change[i] = w->qacc[i] - w->slip.qacc[i];
    a->slip->u[i] = (a->damped ? a->mu[i] : PB_LANE_ZERO) - a->slip->w[i];
  }

  // Motions of bodies under both; sensors give bodies motions of their own.
  LANE(pbSweep_Push)(&w->mechanism, a->slip->u, a->X);
  add_sensor_motions(a, -1);
  LANE(pbSweep_PushPlain)(&w->mechanism, change, a->slip->Y);

  memset(a->F, 0, (size_t)bodies * sizeof(double));
  memset(a->slip->Fz, 0, (size_t)bodies * sizeof(lane));
  if (a->slip->seen) memcpy(a->slip->Fz, a->slip->FA, (size_t)bodies * sizeof(lane));
  LANE(pbSweep_InertiaPair)(a, 1, a->X, a->slip->Y, a->slip->Fz);
  LANE(pbForce_ArmaturePair)(a, 1, a->slip->u, change);
  LANE(pbSweep_PullPair)(a, a->slip->u, change, a->slip->Fz);
}

void LANE(pbSlip_Power)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->work;
  if (!w->slip.n) return;

  pull_pairs(a);
  pull_changed_forces(a);
  pull_changed_accelerations(a);
}
