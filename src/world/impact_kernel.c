#include "world/impact_kernel.h"

#include "contact/contact.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// ---- what touches ---------------------------------------------------------------------------------------------------
// Body velocities alone, without the forces they make.
static void push_velocities(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memset(w->V, 0, 6 * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    num *V = w->V + 6 * b;
    memcpy(V, w->V + 6 * m->body_parentid[b], 6 * sizeof(num));
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
      const num *S = w->S + 6 * i;
      PB_AXPY6(V, w->qvel[i], S);
    }
  }
}

// Velocity of the point of geom 2 less that of geom 1.
static void slip(const NUM(pbWork) *w, const NUM(pbContact) *c, num u[3]) {
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  const num *V1 = w->V + 6 * b1, *V2 = w->V + 6 * b2;
  num d[3], u1[3];
  body_offset(w, b1, c->pos, d);
  PB_POINTVEL(u1, V1, d);
  body_offset(w, b2, c->pos, d);
  PB_POINTVEL(u, V2, d);
  v3_subfrom(u, u1);
}

int NUM(pbImpact_Look)(NUM(pbWork) *w, double reach, int most, pbTouch *touch) {
  int count = 0;
  NUM(pbStage_Kinematics)(w);
  push_velocities(w);
  for (int k = 0, n = NUM(pbContact_Near)(w, reach); k < n; k++) {
    w->ncon = 0;
    if (NUM(pbContact_Pair)(w, w->near[k], reach) != pb_ok || count + w->ncon > most) return -1;
    for (int i = 0; i < w->ncon; i++) {
      const NUM(pbContact) *c = w->contact + i;
      num u[3];
      slip(w, c, u);
      touch[count++] = (pbTouch){w->near[k], i, re(c->dist) - re(c->margin), re(v3_dot(c->frame, u))};
    }
  }
  return count;
}

double NUM(pbImpact_Gap)(NUM(pbWork) *w, int candidate, double reach) {
  double gap = reach;
  NUM(pbStage_Kinematics)(w);
  w->ncon = 0;
  if (NUM(pbContact_Pair)(w, candidate, reach) != pb_ok) return reach;
  for (int i = 0; i < w->ncon; i++) gap = fmin(gap, re(w->contact[i].dist) - re(w->contact[i].margin));
  return gap;
}

// ---- rows -----------------------------------------------------------------------------------------------------------
static bool moves(const NUM(pbWork) *w, int i, int body) {
  int end = w->t->body_dofend[body];
  while (end > i) end = w->m->dof_parentid[end];
  return end == i;
}

// Velocities along the axes of the contact's frame, tangents times friction: 3 x nv.
static void contact_rows(const NUM(pbWork) *w, const NUM(pbContact) *c, num *J) {
  int nv = w->m->nv, b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  num d1[3], d2[3];
  body_offset(w, b1, c->pos, d1), body_offset(w, b2, c->pos, d2);
  for (int i = 0; i < nv; i++) {
    bool first = moves(w, i, b1), second = moves(w, i, b2);
    for (int k = 0; k < 3; k++) J[k * nv + i] = 0;
    if (first == second) continue;
    const num *S = w->S + 6 * i, *d = second ? d2 : d1;
    num u[3];
    PB_POINTVEL(u, S, d);
    for (int k = 0; k < 3; k++) {
      num along = v3_dot(c->frame + 3 * k, u) * (k ? c->friction[k - 1] : 1);
      J[k * nv + i] = second ? along : -along;
    }
  }
}

static num dot(const num *a, const num *b, int n) {
  num s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

static void mobility(const NUM(pbWork) *w, NUM(pbStrike) *s) {
  int nv = w->m->nv;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) s->A[i][j] = dot(s->J + i * nv, s->X + j * nv, nv);
  }
}

// Turn the two tangents to the principal directions of their mobility (one rotation of Jacobi's), the larger first; count
// those that can be moved at all. A scene in the plane has one.
static void principal_tangents(const NUM(pbWork) *w, NUM(pbStrike) *s) {
  double a = re(s->A[1][1]), b = re(s->A[1][2]), d = re(s->A[2][2]), angle = 0.5 * atan2(2 * b, a - d);
  int nv = w->m->nv;
  s->cos = cos(angle), s->sin = sin(angle);
  for (int i = 0; i < nv; i++) {
    num *J = s->J + i, *X = s->X + i, j1 = J[nv], j2 = J[2 * nv], x1 = X[nv], x2 = X[2 * nv];
    J[nv] = s->cos * j1 + s->sin * j2, J[2 * nv] = s->cos * j2 - s->sin * j1;
    X[nv] = s->cos * x1 + s->sin * x2, X[2 * nv] = s->cos * x2 - s->sin * x1;
  }
  mobility(w, s);
}

static void count_rows(const NUM(pbContact) *c, NUM(pbStrike) *s) {
  double mu = fmax(re(c->friction[0]), re(c->friction[1])), least = 1e-13 * re(s->A[0][0]) * mu * mu;
  double first = re(s->A[1][1]), second = re(s->A[2][2]);
  s->n = c->dim == 1 || !(first > least) ? 1 : !(second > fmax(least, 1e-13 * first)) ? 2 : 3;
}

// ---- the law of impact ----------------------------------------------------------------------------------------------
bool NUM(pbStrike_Solve)(int n, num A[3][3], num *x) {
  for (int k = 0; k < n; k++) {
    int p = k;
    for (int i = k + 1; i < n; i++) p = fabs(re(A[i][k])) > fabs(re(A[p][k])) ? i : p;
    if (re(A[p][k]) == 0) return false;
    for (int j = 0; j < n && p != k; j++) {
      num t = A[k][j];
      A[k][j] = A[p][j], A[p][j] = t;
    }
    num t = x[k];
    x[k] = x[p], x[p] = t;
    for (int i = k + 1; i < n; i++) {
      num f = A[i][k] / A[k][k];
      for (int j = k; j < n; j++) A[i][j] -= f * A[k][j];
      x[i] -= f * x[k];
    }
  }
  for (int k = n - 1; k >= 0; k--) {
    for (int j = k + 1; j < n; j++) x[k] -= A[k][j] * x[j];
    x[k] /= A[k][k];
  }
  return true;
}

// Velocities after the impulse.
static void velocities_after(NUM(pbStrike) *s) {
  for (int i = 0; i < s->n; i++) s->after[i] = s->before[i] + dot(s->A[i], s->impulse, s->n);
}

// The law: C(before, after, impulse) = 0. Normal: after + e before; tangents: after (sticking), or friction at its limit against
// slip, impulse_t + impulse_n after_t / |after_t|. Its slopes by `after` and `impulse`; that by `before` is e in the first entry.
void NUM(pbStrike_Law)(const NUM(pbStrike) *s, num C[3], num by_after[3][3], num by_impulse[3][3]) {
  int n = s->n;
  memset(by_after, 0, 9 * sizeof(num)), memset(by_impulse, 0, 9 * sizeof(num));
  C[0] = s->after[0] + s->restitution * s->before[0];
  by_after[0][0] = 1;
  num speed = 0;
  for (int i = 1; i < n; i++) speed += s->after[i] * s->after[i];
  speed = s->slides ? num_sqrt(speed) : 0;
  for (int i = 1; i < n; i++) {
    C[i] = s->after[i], by_after[i][i] = 1;
    if (!s->slides) continue;
    num d = s->after[i] / speed;
    C[i] = s->impulse[i] + s->impulse[0] * d;
    by_impulse[i][i] = 1, by_impulse[i][0] = d;
    for (int j = 1; j < n; j++) by_after[i][j] = s->impulse[0] / speed * ((i == j) - d * s->after[j] / speed);
  }
}

// One step of Newton's method on the impulse; from a solution in real numbers it gives that in complex ones.
static bool refine(NUM(pbStrike) *s) {
  num C[3], by_after[3][3], by_impulse[3][3];
  velocities_after(s);
  NUM(pbStrike_Law)(s, C, by_after, by_impulse);
  for (int i = 0; i < s->n; i++) {
    for (int j = 0; j < s->n; j++) {
      for (int k = 0; k < s->n; k++) by_impulse[i][j] += by_after[i][k] * s->A[k][j];
    }
  }
  if (!NUM(pbStrike_Solve)(s->n, by_impulse, C)) return false;
  for (int i = 0; i < s->n; i++) s->impulse[i] -= C[i];
  velocities_after(s);
  return true;
}

// Sticking: no slip after. False where that takes more friction than there is.
static bool sticks(NUM(pbStrike) *s) {
  double friction = 0;
  s->slides = false;
  for (int i = 0; i < s->n; i++) s->impulse[i] = 0;
  if (!refine(s)) return false;
  for (int i = 1; i < s->n; i++) friction += re(s->impulse[i]) * re(s->impulse[i]);
  return re(s->impulse[0]) > 0 && friction <= re(s->impulse[0]) * re(s->impulse[0]);
}

// Friction at its limit against the direction d: the impulse, and the slip across d. True where that slip is along d.
static bool try_direction(NUM(pbStrike) *s, const double d[2], double *across) {
  double A0 = re(s->A[0][0]), along = 0, u[2] = {0};
  for (int i = 1; i < s->n; i++) A0 -= re(s->A[0][i]) * d[i - 1];
  double p = -(1 + re(s->restitution)) * re(s->before[0]) / A0;
  s->impulse[0] = p;
  for (int i = 1; i < s->n; i++) s->impulse[i] = -p * d[i - 1];
  for (int i = 1; i < s->n; i++) {
    u[i - 1] = re(s->before[i]);
    for (int j = 0; j < s->n; j++) u[i - 1] += re(s->A[i][j]) * re(s->impulse[j]);
    along += d[i - 1] * u[i - 1];
  }
  *across = d[0] * u[1] - d[1] * u[0];
  return p > 0 && along > 0;
}

// Slip in the plane: the direction nearest to the slip before the impact along which friction at its limit leaves it.
static bool slides_in_plane(NUM(pbStrike) *s) {
  enum { parts = 128 };
  double from = atan2(re(s->before[2]), re(s->before[1])), f0, f1, f;
  for (int k = 0; k < parts; k++) {
    double side = k % 2 ? -1 : 1, a = from + side * (k / 2) * 2 * PB_PI / parts, b = a + side * 2 * PB_PI / parts;
    bool good0 = try_direction(s, (double[2]){cos(a), sin(a)}, &f0), good1 = try_direction(s, (double[2]){cos(b), sin(b)}, &f1);
    if (!(good0 || good1) || (f0 > 0) == (f1 > 0)) continue;
    for (int i = 0; i < 60; i++) {
      double m = 0.5 * (a + b);
      try_direction(s, (double[2]){cos(m), sin(m)}, &f);
      if ((f > 0) == (f0 > 0)) a = m;
      else b = m;
    }
    if (try_direction(s, (double[2]){cos(a), sin(a)}, &f)) return true;
  }
  return false;
}

static bool slides(NUM(pbStrike) *s) {
  double across;
  s->slides = true;
  if (s->n == 3) return slides_in_plane(s);
  double sign = re(s->before[1]) < 0 ? -1 : 1;
  return try_direction(s, (double[2]){sign, 0}, &across) || try_direction(s, (double[2]){-sign, 0}, &across);
}

pbStatus NUM(pbImpact_Strike)(NUM(pbWork) *w, int candidate, int hit, NUM(pbStrike) *s) {
  const pbModel *m = w->m;
  int nv = m->nv;
  NUM(pbStage_Kinematics)(w);
  NUM(pbStage_Tendon)(w);
  NUM(pbStage_Inertia)(w);
  w->ncon = 0;
  PB_TRY(NUM(pbContact_Pair)(w, candidate, PB_TOUCH));
  if (hit >= w->ncon) return pb_no_convergence;
  memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));
  if (NUM(pbTree_Factor)(&w->t->M, w->LD, w->Dinv) >= 0) return pb_singular;
  const NUM(pbContact) *c = w->contact + hit;
  s->gap = c->dist - c->margin, s->restitution = c->restitution;
  s->J = w->rk_v, s->X = w->rk_a;
  contact_rows(w, c, s->J);
  memcpy(s->X, s->J, 3 * (size_t)nv * sizeof(num));
  for (int k = 0; k < 3; k++) NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, s->X + k * nv);
  mobility(w, s);
  principal_tangents(w, s);
  count_rows(c, s);
  for (int k = 0; k < s->n; k++) s->before[k] = dot(s->J + k * nv, w->qvel, nv);
  if (!sticks(s) && !slides(s)) return pb_no_convergence;
  for (int k = 0; k < 3; k++) {  // to rounding, and on to complex numbers
    if (!refine(s)) return pb_no_convergence;
  }
  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) w->qvel[i] += s->X[k * nv + i] * s->impulse[k];
  }
  return pb_ok;
}

pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int hit) {
  NUM(pbStrike) s;
  return NUM(pbImpact_Strike)(w, candidate, hit, &s);
}
