// The pullback of a step, each part below the line of step.c and newton.c that it is the derivative of.
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "base/mutate.h"
#include "deform/deform.h"
#include "sparse/krylov.h"

// h v+ = new x+ + sum next[i] e[i]:  l = x_bar+ + new/h v_bar+ is the cotangent of x+,
static void finish_vjp(pbDeformWork *w, const double *next_bar) {
  pbDeformState at = pbDeform_State(w->d);
  PB_VALIDATE(pb_allFinite(next_bar, (size_t)at.tangent));

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    w->adjoint[i] = next_bar[at.x + i];
    if (!pbDeform_IsFixed(w->d, i)) w->adjoint[i] += w->scheme->new / w->in.h *next_bar[at.v + i];
  }
}

// and the rest goes to the past.
void pbDeform_VjpPast(pbDeformWork *w, const double *next, const double *next_bar, double *state_bar, const pbDeformBar *bar) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double h = w->in.h, sum = 0;

  for (int i = 0; i < n; i++) {
    double vb = next_bar[at.v + i];

    // x1+ = x, v1+ = v.
    if (at.tangent > 2 * n) {
      state_bar[at.x + i] += next_bar[at.x1 + i];
      state_bar[at.v + i] += next_bar[at.v1 + i];
    }

    // A fixed coordinate keeps its velocity: v+ = v.
    if (pbDeform_IsFixed(d, i)) {
      state_bar[at.v + i] += vb;
      continue;
    }

    // v+ = (new x+ + sum next[i] e[i]) / h, of which x+ had its share in finish_vjp.
    state_bar[at.x + i] += s->next[pb_pastX] / h * vb;
    state_bar[at.v + i] += s->next[pb_pastV] * vb;

    if (s->history) {
      state_bar[at.x1 + i] += s->next[pb_pastX1] / h * vb;
      state_bar[at.v1 + i] += s->next[pb_pastV1] * vb;
    }

    // By h: the terms with h v inside less the whole over h.
    double past = s->next[pb_pastV] * w->v[i] + (s->history ? s->next[pb_pastV1] * w->v1[i] : 0);

    sum += vb * (past - next[at.v + i]) / h;
  }

  if (bar->h) *bar->h += sum;
}

// ago = sum coefficient[i] e[i], for cotangents in w->ago_bar.
static void ago_vjp(pbDeformWork *w, const double *coefficient, double *state_bar, double *h_bar) {
  pbDeformState at = pbDeform_State(w->d);
  double h = w->in.h, sum = 0;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double g = w->ago_bar[i];

    // e = (x, h v, x1): x is y here.
    w->y_bar[i] += coefficient[pb_pastX] * g;
    state_bar[at.v + i] += coefficient[pb_pastV] * h * g;
    sum += coefficient[pb_pastV] * w->v[i] * g;
    if (w->scheme->history) state_bar[at.x1 + i] += coefficient[pb_pastX1] * g;
  }

  if (h_bar) *h_bar += sum;
}

// r = M (x - xhat) + c h^2 (...): with w = H^-T l, -w . dr for everything but x. Masses gather in mass_bar.
// The terms of r that do not come from energies: masses, gravity and h.
static void inertia_vjp(pbDeformWork *w, const pbDeformBar *bar) {
  const pbSchemeTable *s = w->scheme;
  double gravity = pbDeform_Scale(w) * pbScheme_ConstantWeight(s), inertia = 0;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double lam = w->adjoint[i], dx = s->inertia ? w->x[i] - w->xhat[i] : 0;
    w->mass_bar[i / 3] -= lam * (dx - gravity * w->in.gravity[i % 3]);
    if (bar->gravity) bar->gravity[i % 3] += gravity * w->mass[i / 3] * lam;
    inertia += lam * w->mass[i / 3] * dx;
  }

  // By the factor c h^2: at the solution M dx = -c h^2 (...), so c h^2 (...) . w = -inertia.
  if (bar->h && s->inertia) *bar->h += 2 / w->in.h * inertia;
}

// Term t of the energies, at z = b x + (1 - b) y.
static pbStatus term_vjp(pbDeformWork *w, int t, double *state_bar, const pbDeformBar *bar, double *time_bar) {
  const pbSchemeTable *s = w->scheme;
  int n = 3 * w->d->npoint;
  double b = s->at[t], at_time = 0, span_bar = 0;
  const double *z = pbDeform_At(w, w->x, t), *ago = pbDeform_Ago(w, t);

  memset(w->past_bar, 0, (size_t)n * sizeof(double));
  if (w->barrier) PB_TRY(pbDeformContact_Update(w, z));

  // What stands for the start of the step is y itself, or a combination of the past, whose cotangent is gathered apart.
  pbEvaluation at = {.z = z, .y = w->y, .ago = ago, .span = s->span * w->in.h, .time = w->in.time + b * w->in.h};
  pbEvaluationBar points = {
      .z = w->past_bar, .y = w->y_bar, .ago = w->y_bar, .span = bar->h ? &span_bar : NULL, .time = &at_time};
  if (ago == w->ago) {
    points.ago = w->ago_bar;
    memset(w->ago_bar, 0, (size_t)n * sizeof(double));
  }

  PB_TRY(pbDeform_Pull(w, &at, -pbDeform_Scale(w) * s->weight[t] * b, w->adjoint, &points, bar));

  // span = s h, ago = sum coefficient[i] e[i], time = time at the start + b h.
  if (bar->h) *bar->h += s->span * span_bar;
  if (ago == w->ago) ago_vjp(w, s->ago[t], state_bar, bar->h);
  *time_bar += at_time;
  if (bar->h) *bar->h += b * at_time;

  for (int i = 0; i < n; i++) {  // z = b x + (1 - b) y
    w->z_bar[i] += b * w->past_bar[i];
    w->y_bar[i] += (1 - b) * w->past_bar[i];
  }

  return pb_ok;
}

// r = M (x - xhat) + c h^2 (...): with w = H^-T l, -w . dr for everything but x. Masses gather in mass_bar.
static pbStatus residual_vjp(pbDeformWork *w, double *state_bar, const pbDeformBar *bar, double *time_bar) {
  memset(w->z_bar, 0, 3 * (size_t)w->d->npoint * sizeof(double));
  inertia_vjp(w, bar);

  for (int t = 0; t < w->scheme->terms; t++) PB_TRY(term_vjp(w, t, state_bar, bar, time_bar));
  return pb_ok;
}

// a = M^-1 force(y; y - h v) for cotangents accel_bar (in w->adjoint).
static pbStatus acceleration_vjp(pbDeformWork *w, double *state_bar, const pbDeformBar *bar, double *time_bar) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double sum = 0;

  // a = force / m + gravity: by mass, gravity and force; points without mass have a = 0.
  for (int i = 0; i < n; i++) {
    double m = w->mass[i / 3], share = m > 0 ? w->adjoint[i] / m : 0;
    w->mass_bar[i / 3] -= share * (w->accel[i] - (m > 0 ? w->in.gravity[i % 3] : 0));
    if (bar->gravity && m > 0) bar->gravity[i % 3] += w->adjoint[i];
    w->adjoint[i] = share;
    w->point[i] = w->y[i] - w->in.h * w->v[i];
  }

  memset(w->z_bar, 0, (size_t)n * sizeof(double));
  memset(w->past_bar, 0, (size_t)n * sizeof(double));
  if (w->barrier) PB_TRY(pbDeformContact_Update(w, w->y));

  // Friction and damping of the step that led to y: its start is y - h v.
  pbEvaluation start = {.z = w->y, .y = w->point, .ago = w->point, .span = w->in.h, .time = w->in.time};
  pbEvaluationBar points = {.z = w->z_bar, .y = w->past_bar, .ago = w->past_bar, .span = bar->h, .time = time_bar};

  PB_TRY(pbDeform_Pull(w, &start, -1, w->adjoint, &points, bar));
  for (int i = 0; i < n; i++) {
    state_bar[at.x + i] += w->z_bar[i] + w->past_bar[i];
    state_bar[at.v + i] -= w->in.h * w->past_bar[i];
    sum -= w->v[i] * w->past_bar[i];
  }

  if (bar->h) *bar->h += sum;

  return pb_ok;
}

// xhat = sum start[i] e[i], for cotangents M w; what goes to the acceleration is left in w->adjoint.
static void start_vjp(pbDeformWork *w, double *state_bar, double *h_bar) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double h = w->in.h, sum = 0;

  for (int i = 0; i < n; i++) {
    // The cotangent of xhat is M w.
    double g = s->inertia ? w->mass[i / 3] * w->adjoint[i] : 0;
    state_bar[at.x + i] += s->start[pb_pastX] * g;
    state_bar[at.v + i] += s->start[pb_pastV] * h * g;
    sum += g * s->start[pb_pastV] * w->v[i];

    if (s->history) {
      state_bar[at.x1 + i] += s->start[pb_pastX1] * g;
      state_bar[at.v1 + i] += s->start[pb_pastV1] * h * g;
      sum += g * s->start[pb_pastV1] * w->v1[i];
    }

    // By h^2 a: what goes to a waits in w->adjoint for acceleration_vjp.
    sum += 2 * h * s->start[pb_pastA] * g * w->accel[i];
    w->adjoint[i] = h * h * s->start[pb_pastA] * g;
  }

  if (h_bar) *h_bar += sum;
}

// What is fixed goes on with its velocity: x+ = x + h v. In a coupled step points on bodies follow these: couple/couple_vjp.c.
static void fixed_vjp(pbDeformWork *w, const double *next_bar, double *state_bar, double *h_bar) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);

  for (int i = 0; i < 3 * d->npoint; i++) {
    bool coupled = w->attached && d->attached_of[i / 3] >= 0;
    if (!pbDeform_IsFixed(d, i) || coupled) continue;

    // Its own cotangent, and what other points' energies felt of it.
    double g = next_bar[at.x + i] + w->z_bar[i];
    state_bar[at.x + i] += g;
    state_bar[at.v + i] += w->in.h * g;
    if (h_bar) *h_bar += g * w->v[i];
  }
}

void pbDeform_VjpBegin(pbDeformWork *w, const double *state, const double *next, const double *next_bar) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  size_t bytes = 3 * (size_t)d->npoint * sizeof(double);

  // All that is gathered across the parts starts from zero.
  if (w->scheme->history) memcpy(w->v1, state + at.v1, bytes);
  memcpy(w->x, next + at.x, bytes);
  memset(w->mass_bar, 0, (size_t)d->npoint * sizeof(double));
  memset(w->y_bar, 0, bytes);
  memset(w->z_bar, 0, bytes);
  finish_vjp(w, next_bar);
}

pbStatus pbDeform_VjpEnd(pbDeformWork *w, const double *next_bar, double *state_bar, const pbDeformBar *bar) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  double time_bar = 0;

  // In the order opposite to that of the step: the solution, what is fixed, what the past predicts, masses.
  if (w->scheme->implicit) PB_TRY(residual_vjp(w, state_bar, bar, &time_bar));
  fixed_vjp(w, next_bar, state_bar, bar->h);
  for (int i = 0; i < 3 * d->npoint; i++) state_bar[at.x + i] += w->y_bar[i];
  start_vjp(w, state_bar, bar->h);

  if (pbScheme_NeedsAcceleration(w->scheme)) PB_TRY(acceleration_vjp(w, state_bar, bar, &time_bar));
  if (bar->theta) PB_TRY(pbDeform_MassesVjp(w, w->mass_bar, bar->theta));

  // Time at the start of the step is a number of steps times h.
  if (bar->time) *bar->time += time_bar;
  if (bar->h) *bar->h += w->in.ticks * time_bar;

  return pb_ok;
}

// ---- the adjoint system -----------------------------------------------------------------------------------------------
// What pbDeform_SaveFactor leaves: this, the pairs that contacts couple, then the factor.
typedef struct CachedHead {
  size_t pairs;
} CachedHead;

// Pairs that contacts add to the elements' pattern in the matrix at hand.
static size_t contact_pairs(const pbDeformMatrix *m) { return m->own && m->pattern == m->own ? m->pair_count : 0; }

size_t pbDeform_FactorBytes(const pbDeformWork *w) {
  const pbDeformMatrix *m = &w->matrix;
  if (!w->preconditioner_valid || !w->d->nfree) return 0;

  return sizeof(CachedHead) + 2 * contact_pairs(m) * sizeof(int) + pbSparseFactor_SavedBytes(m->analysis);
}

void pbDeform_SaveFactor(const pbDeformWork *w, void *memory) {
  const pbDeformMatrix *m = &w->matrix;
  CachedHead head = {contact_pairs(m)};
  char *to = (char *)memory + sizeof head;

  PB_ASSERT(w->preconditioner_valid);
  memcpy(memory, &head, sizeof head);
  if (head.pairs) memcpy(to, m->pairs, 2 * head.pairs * sizeof(int));
  pbSparseFactor_Save(m->factor, to + 2 * head.pairs * sizeof(int));
}

// The cached factor, where contacts couple the same points there as at the solution, whose matrix is at hand.
static bool load_cached(pbDeformWork *w, const void *memory) {
  pbDeformMatrix *m = &w->matrix;
  CachedHead head;
  const char *from = (const char *)memory + sizeof head;
  size_t pairs = contact_pairs(m);

  memcpy(&head, memory, sizeof head);
  if (pairs != head.pairs || (pairs && memcmp(m->pairs, from, 2 * pairs * sizeof(int)))) return false;

  pbSparseFactor_Load(m->factor, from + 2 * pairs * sizeof(int));

  return true;
}

// The same without: factored again, then the matrix at the solution beside that factor.
static pbStatus factor_nearby(pbDeformWork *w, const double *x, bool *same) {
  pbDeformMatrix *m = &w->matrix;
  int negative;
  double value;

  PB_TRY(pbDeform_Look(w, x, &value, NULL, true, 0));
  PB_TRY(pbDeformMatrix_Factor(w, &negative));

  // Only as long as the pattern stays is the factor one of the matrix at the solution's size.
  const pbSparseFactor *factor = m->factor;
  unsigned made = m->made;

  PB_TRY(pbDeform_Look(w, w->x, &value, NULL, true, 0));
  *same = m->factor == factor && m->made == made;

  return pb_ok;
}

// adjoint := H^-T adjoint by the factor of a matrix nearby; false where that does not converge.
// x := H^-T x by conjugate gradients, with the factor of a matrix nearby as preconditioner; false where that does not converge.
static bool solve_near(pbDeformWork *w, double *x) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  int n = 3 * d->nfree;
  double *packed = w->rhs, *b = w->gradient;
  pbSparseMatrix matrix = {m->pattern, m->values, NULL};
  pbSparseInverse inverse = {m->factor, m->work};
  pbKrylov k = {.n = n,
                .matrix = pbLinear_Matrix(&matrix),
                .precondition = pbLinear_Inverse(&inverse),
                .tolerance = 1e-15,  // as far as rounding lets it
                .iterations = 8};
  pbKrylovReport report;

  // The right-hand side packed by blocks, fixed coordinates zero.
  pbDeformMatrix_Finish(w);
  for (int i = 0; i < d->nfree; i++) {
    for (int c = 0; c < 3; c++) b[3 * i + c] = d->fixed[d->point[i]] >> c & 1 ? 0 : x[3 * d->point[i] + c];
  }

  // From the solution with the factor alone.
  pbSparse_Solve(m->factor, 1, b, packed, m->work);
  pbStatus status = pbCg_Solve(NULL, &k, b, packed, w->cg_work, &report);

  // Rounding may end it a little short of the tolerance: good enough, and no worse than a factorization's own.
  bool at_rounding = status == pb_no_convergence && report.iterations < k.iterations && report.residual < 1e-8;

  if (status != pb_ok && !at_rounding) return false;
  memset(x, 0, 3 * (size_t)d->npoint * sizeof(double));

  for (int i = 0; i < d->nfree; i++) memcpy(x + 3 * d->point[i], packed + 3 * i, 3 * sizeof(double));

  return true;
}

static pbStatus solve_adjoint(pbDeformWork *w, const pbDeformPreconditioner *near) {
  double value;
  // Of an equilibrium the matrix at the solution is factored: its pivots tell whether there is a derivative.
  bool same = near->x && !w->d->unsymmetric && w->d->nfree && w->scheme->inertia;

  // A factor of the matrix nearby that is cached, or made again there, or (the last two lines) one of the matrix at the solution.
  if (same && near->cached) {
    PB_TRY(pbDeform_Look(w, w->x, &value, NULL, true, 0));
    same = load_cached(w, near->cached);
  } else if (same) {
    PB_TRY(factor_nearby(w, near->x, &same));
  }

  if (same && solve_near(w, w->adjoint)) return pb_ok;
  PB_TRY(pbDeform_Factor(w));

  return pbDeform_Solve(w, true, w->adjoint);
}

static pbStatus vjp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                    const pbDeformPreconditioner *near, const double *next_bar, double *state_bar, const pbDeformBar *bar) {
  const pbDeform *d = w->d;

  PB_TRY(pbDeform_Begin(w, in, state));
  pbDeform_VjpBegin(w, state, next, next_bar);

  // w = H^-T l; of an explicit scheme x+ = xhat, and the mass takes the place of H.
  if (w->scheme->implicit) {
    PB_TRY(solve_adjoint(w, near));
  } else {
    for (int i = 0; i < 3 * d->npoint; i++)
      w->adjoint[i] = pbDeform_IsFixed(d, i) || w->mass[i / 3] <= 0 ? 0 : w->adjoint[i] / w->mass[i / 3];
  }

  if (w->lacks) return pb_capacity;  // before anything is added
  PB_MUTE(pb_muteScheme, (int)d->options.scheme, w->adjoint, 3 * d->npoint);
  pbDeformLead_PullBegin(w, state_bar);
  pbDeform_VjpPast(w, next, next_bar, state_bar, bar);
  pbStatus status = pbDeform_VjpEnd(w, next_bar, state_bar, bar);
  pbDeformLead_PullEnd(w, state_bar, bar);

  return status;
}

pbStatus pbDeform_Vjp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                      const pbDeformPreconditioner *near, const double *next_bar, double *state_bar, const pbDeformBar *bar) {
  return pbDeform_Settle(w, vjp(w, in, state, next, near, next_bar, state_bar, bar));
}
