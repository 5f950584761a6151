#include "impact/impact_kernel.h"

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

// Turn the two tangents to the principal directions of their mobility (one rotation of Jacobi's), the larger first, and count
// those that can be moved at all: a scene in the plane has one.
static void principal_tangents(const NUM(pbWork) *w, const NUM(pbContact) *c, pbStruck *t, num *J, num *X) {
  int nv = w->m->nv;
  double A[3][3], mu = fmax(re(c->friction[0]), re(c->friction[1]));
  for (int i = 0; i < 9; i++) A[i / 3][i % 3] = re(dot(J + i / 3 * nv, X + i % 3 * nv, nv));
  double mean = 0.5 * (A[1][1] + A[2][2]), half = 0.5 * (A[1][1] - A[2][2]), spread = hypot(half, A[1][2]);
  double angle = 0.5 * atan2(2 * A[1][2], A[1][1] - A[2][2]), least = 1e-13 * fmax(A[0][0] * mu * mu, mean);
  t->cos = cos(angle), t->sin = sin(angle);
  for (int i = 0; i < nv; i++) {
    num j1 = J[nv + i], j2 = J[2 * nv + i], x1 = X[nv + i], x2 = X[2 * nv + i];
    J[nv + i] = t->cos * j1 + t->sin * j2, J[2 * nv + i] = t->cos * j2 - t->sin * j1;
    X[nv + i] = t->cos * x1 + t->sin * x2, X[2 * nv + i] = t->cos * x2 - t->sin * x1;
  }
  t->n = c->dim == 1 || !(mean + spread > least) ? 1 : !(mean - spread > least) ? 2 : 3;
}

// Add the rows of a contact.
static void add_contact(NUM(pbWork) *w, NUM(pbStrike) *s, int point) {
  int nv = w->m->nv;
  const NUM(pbContact) *c = w->contact + point;
  pbStruck *t = s->contact + s->count++;
  num *J = s->J + s->n * nv, *X = s->X + s->n * nv;
  *t = (pbStruck){.point = point, .first = s->n};
  contact_rows(w, c, J);
  memcpy(X, J, 3 * (size_t)nv * sizeof(num));
  for (int k = 0; k < 3; k++) NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, X + k * nv);
  principal_tangents(w, c, t, J, X);
  s->n += t->n;
}

static void set_mobility(const NUM(pbWork) *w, NUM(pbStrike) *s) {
  int nv = w->m->nv;
  for (int i = 0; i < s->n; i++) {
    s->before[i] = dot(s->J + i * nv, w->qvel, nv);
    for (int j = 0; j < s->n; j++) s->A[i][j] = dot(s->J + i * nv, s->X + j * nv, nv);
  }
}

// ---- the law of impact ----------------------------------------------------------------------------------------------
// Normal: after + e before; tangents: after (sticking), or friction at its limit against slip, impulse_t + impulse_n after_t /
// |after_t|. Open: the impulse.
void NUM(pbStrike_Law)(const NUM(pbStrike) *s, int c, num C[3], num by_after[3][3], num by_impulse[3][3]) {
  const pbStruck *t = s->contact + c;
  const num *after = s->after + t->first, *impulse = s->impulse + t->first;
  int n = t->n;
  memset(by_after, 0, 9 * sizeof(num)), memset(by_impulse, 0, 9 * sizeof(num));
  for (int i = 0; i < n && t->open; i++) C[i] = impulse[i], by_impulse[i][i] = 1;
  if (t->open) return;
  C[0] = after[0] + s->used * s->before[t->first];
  by_after[0][0] = 1;
  num speed = t->slides ? num_sqrt(dot(after + 1, after + 1, n - 1)) : 1;
  for (int i = 1; i < n; i++) {
    C[i] = after[i], by_after[i][i] = 1;
    if (!t->slides) continue;
    num d = after[i] / speed;
    C[i] = impulse[i] + impulse[0] * d;
    by_impulse[i][i] = 1, by_impulse[i][0] = d;
    for (int j = 1; j < n; j++) by_after[i][j] = impulse[0] / speed * ((i == j) - d * after[j] / speed);
  }
}

// K, row-major with pb_strikeRows columns, and C.
static void linearised_law(const NUM(pbStrike) *s, num *K, num *C) {
  for (int c = 0; c < s->count; c++) {
    num by_after[3][3], by_impulse[3][3], own[3];
    int first = s->contact[c].first, n = s->contact[c].n;
    NUM(pbStrike_Law)(s, c, own, by_after, by_impulse);
    for (int i = 0; i < n; i++) {
      num *row = K + (first + i) * pb_strikeRows;
      C[first + i] = own[i];
      for (int j = 0; j < s->n; j++) {
        row[j] = 0;
        for (int k = 0; k < n; k++) row[j] += by_after[i][k] * s->A[first + k][j];
      }
      for (int j = 0; j < n; j++) row[first + j] += by_impulse[i][j];
    }
  }
}

// K (n x n) = L U with rows and columns permuted, the largest entry left as pivot; the rank is returned.
static int eliminate(int n, num *K, int *rows, int *columns) {
  double largest = 0;
  for (int i = 0; i < n; i++) rows[i] = columns[i] = i;
#define AT(i, j) K[rows[i] * pb_strikeRows + columns[j]]
  for (int k = 0; k < n; k++) {
    int r = k, c = k;
    for (int i = k; i < n; i++) {
      for (int j = k; j < n; j++) {
        if (fabs(re(AT(i, j))) > (1 + 1e-9) * fabs(re(AT(r, c))))
          r = i, c = j;  // the first of those that are equal but for rounding
      }
    }
    int t = rows[k];
    rows[k] = rows[r], rows[r] = t;
    t = columns[k], columns[k] = columns[c], columns[c] = t;
    double pivot = fabs(re(AT(k, k)));
    largest = fmax(largest, pivot);
    if (!(pivot > 1e-12 * largest)) return k;
    for (int i = k + 1; i < n; i++) {
      num f = AT(i, k) /= AT(k, k);
      for (int j = k + 1; j < n; j++) AT(i, j) -= f * AT(k, j);
    }
  }
  return n;
}

static void solve(int n, num *K, num *x, bool transposed) {
  int rows[pb_strikeRows], columns[pb_strikeRows], rank = eliminate(n, K, rows, columns);
  num y[pb_strikeRows];
  for (int i = 0; i < rank; i++) y[i] = x[transposed ? columns[i] : rows[i]];
  for (int i = 0; i < rank; i++) {  // L, or U'
    for (int j = 0; j < i; j++) y[i] -= (transposed ? AT(j, i) : AT(i, j)) * y[j];
    if (transposed) y[i] /= AT(i, i);
  }
  for (int i = rank - 1; i >= 0; i--) {  // U, or L'
    for (int j = i + 1; j < rank; j++) y[i] -= (transposed ? AT(j, i) : AT(i, j)) * y[j];
    if (!transposed) y[i] /= AT(i, i);
  }
  memset(x, 0, (size_t)n * sizeof(num));
  for (int i = 0; i < rank; i++) x[transposed ? rows[i] : columns[i]] = y[i];
}
#undef AT

void NUM(pbStrike_Solve)(const NUM(pbStrike) *s, num *x, bool transposed) {
  num K[pb_strikeRows * pb_strikeRows], C[pb_strikeRows];
  linearised_law(s, K, C);
  solve(s->n, K, x, transposed);
}

static void velocities_after(NUM(pbStrike) *s) {
  for (int i = 0; i < s->n; i++) s->after[i] = s->before[i] + dot(s->A[i], s->impulse, s->n);
}

num NUM(pbStrike_Gain)(const NUM(pbStrike) *s) { return dot(s->impulse, s->before, s->n) + dot(s->impulse, s->after, s->n); }

// Slopes of the law by the restitution in it, those of closed normals; and of the gain by the impulses, 2 after.
void NUM(pbStrike_Border)(const NUM(pbStrike) *s, num *by_restitution, num *gain_by) {
  for (int i = 0; i < s->n; i++) by_restitution[i] = 0, gain_by[i] = 2 * s->after[i];
  for (int c = 0; c < s->count; c++) {
    const pbStruck *t = s->contact + c;
    if (!t->open) by_restitution[t->first] = s->before[t->first];
  }
}

// C, the misfit of the law, becomes the step of the impulses; the restitution moves too, so that the gain is none.
static void step_capped(NUM(pbStrike) *s, num *C) {
  num by[pb_strikeRows], slope[pb_strikeRows];
  NUM(pbStrike_Border)(s, by, slope);
  NUM(pbStrike_Solve)(s, by, false);
  num change = (NUM(pbStrike_Gain)(s) - dot(slope, C, s->n)) / dot(slope, by, s->n);
  for (int i = 0; i < s->n; i++) C[i] += change * by[i];
  s->used += change;
}

// One step of Newton's method on the impulses; from a solution in real numbers it gives that in complex ones.
static void refine(NUM(pbStrike) *s) {
  num K[pb_strikeRows * pb_strikeRows], C[pb_strikeRows];
  velocities_after(s);
  linearised_law(s, K, C);
  solve(s->n, K, C, false);
  if (s->capped) step_capped(s, C);
  for (int i = 0; i < s->n; i++) s->impulse[i] -= C[i];
  velocities_after(s);
}

// Twice the energy made, over what impulses and velocities could do at most.
static double relative_gain(const NUM(pbStrike) *s) {
  double most = 0;
  for (int i = 0; i < s->n; i++) most += fabs(re(s->impulse[i])) * (fabs(re(s->before[i])) + fabs(re(s->after[i])));
  return most > 0 ? re(NUM(pbStrike_Gain)(s)) / most : 0;
}

// Is the law met to rounding, with every contact in its place?
static bool met(const NUM(pbStrike) *s) {
  double speed = 0, impulse = 0;
  for (int i = 0; i < s->n; i++) speed = fmax(speed, fabs(re(s->before[i]))), impulse = fmax(impulse, fabs(re(s->impulse[i])));
  if (s->capped && !(fabs(relative_gain(s)) <= 1e-12)) return false;
  for (int c = 0; c < s->count; c++) {
    num C[3], by_after[3][3], by_impulse[3][3];
    NUM(pbStrike_Law)(s, c, C, by_after, by_impulse);
    for (int i = 0; i < s->contact[c].n; i++) {
      bool of_impulse = s->contact[c].open || (i && s->contact[c].slides);
      if (!(fabs(re(C[i])) <= 1e-9 * (of_impulse ? impulse : speed))) return false;
    }
    const pbStruck *t = s->contact + c;
    double friction = 0, push = re(s->impulse[t->first]), aim = -re(s->used) * re(s->before[t->first]);
    for (int i = t->first + 1; i < t->first + t->n; i++) friction += re(s->impulse[i]) * re(s->impulse[i]);
    if (t->open ? re(s->after[t->first]) < aim - 1e-9 * speed : !(push > 0)) return false;
    if (!t->open && !t->slides && sqrt(friction) > (1 + 1e-9) * push) return false;
  }
  return true;
}

// ---- one contact, the others' impulses given ------------------------------------------------------------------------
typedef struct block {
  int n;
  double A[3][3], u[3], target;  // velocities without its impulse; the normal one it shall have
  double impulse[3];
  bool open, slides;
} block;

// Sticking: no slip after. False where that takes more friction than there is. The tangents' mobility is diagonal.
static bool sticks(block *b) {
  double A = b->A[0][0], r = b->target - b->u[0], friction = 0;
  for (int i = 1; i < b->n; i++) A -= b->A[0][i] * b->A[i][0] / b->A[i][i], r += b->A[0][i] * b->u[i] / b->A[i][i];
  b->impulse[0] = r / A;
  for (int i = 1; i < b->n; i++) {
    b->impulse[i] = -(b->u[i] + b->A[i][0] * b->impulse[0]) / b->A[i][i];
    friction += b->impulse[i] * b->impulse[i];
  }
  return b->impulse[0] > 0 && friction <= b->impulse[0] * b->impulse[0];
}

// Friction at its limit against the direction at an angle: the impulse, and the slip across it. True where that slip is along it.
static bool slides_along(block *b, double angle, double *across) {
  double d[2] = {b->n == 2 ? angle : cos(angle), b->n == 2 ? 0 : sin(angle)}, A = b->A[0][0], along = 0, u[2] = {0};
  for (int i = 1; i < b->n; i++) A -= b->A[0][i] * d[i - 1];
  b->impulse[0] = (b->target - b->u[0]) / A;
  for (int i = 1; i < b->n; i++) b->impulse[i] = -b->impulse[0] * d[i - 1];
  for (int i = 1; i < b->n; i++) {
    u[i - 1] = b->u[i];
    for (int j = 0; j < b->n; j++) u[i - 1] += b->A[i][j] * b->impulse[j];
    along += d[i - 1] * u[i - 1];
  }
  *across = d[0] * u[1] - d[1] * u[0];
  return b->impulse[0] > 0 && along > 0;
}

// Slip in the plane: the direction nearest to the slip before the impact along which friction at its limit leaves it. With one
// direction of slip: its sign.
static bool slides(block *b) {
  enum { parts = 128 };
  double f0, f1, f, from = atan2(b->u[2], b->u[1]), sign = b->u[1] < 0 ? -1 : 1;
  if (b->n == 2) return slides_along(b, sign, &f) || slides_along(b, -sign, &f);
  for (int k = 0; k < parts; k++) {
    double side = k % 2 ? -1 : 1, from_k = from + side * (k / 2) * 2 * PB_PI / parts, to = from_k + side * 2 * PB_PI / parts;
    bool good0 = slides_along(b, from_k, &f0), good1 = slides_along(b, to, &f1);
    if (!(good0 || good1) || (f0 > 0) == (f1 > 0)) continue;
    for (int i = 0; i < 60; i++) {
      double middle = 0.5 * (from_k + to);
      slides_along(b, middle, &f);
      if ((f > 0) == (f0 > 0)) from_k = middle;
      else to = middle;
    }
    if (slides_along(b, from_k, &f)) return true;
  }
  return false;
}

static bool solve_block(block *b) {
  b->open = b->u[0] >= b->target, b->slides = false;
  if (b->open) b->impulse[0] = b->impulse[1] = b->impulse[2] = 0;
  if (b->open || sticks(b)) return true;
  b->slides = true;
  return slides(b);
}

// All stick: of the impulses that stop all slip those of least size, but for 1e-9. False where one pulls or is beyond the cone.
static bool all_stick(NUM(pbStrike) *s) {
  num K[pb_strikeRows * pb_strikeRows];
  double trace = 0;
  for (int i = 0; i < s->n; i++) trace += re(s->A[i][i]);
  for (int c = 0; c < s->count; c++) {
    pbStruck *t = s->contact + c;
    t->open = t->slides = false;
    for (int i = t->first; i < t->first + t->n; i++) {
      for (int j = 0; j < s->n; j++) K[i * pb_strikeRows + j] = re(s->A[i][j]) + (i == j) * 1e-9 * trace;
      s->impulse[i] = -(i == t->first ? 1 + re(s->used) : 1) * re(s->before[i]);
    }
  }
  solve(s->n, K, s->impulse, false);
  for (int c = 0; c < s->count; c++) {
    double friction = 0, push = re(s->impulse[s->contact[c].first]);
    for (int i = 1; i < s->contact[c].n; i++) {
      double x = re(s->impulse[s->contact[c].first + i]);
      friction += x * x;
    }
    if (!(push > 0 && friction <= push * push)) return false;
  }
  return true;
}

// Contacts in turn, until none changes. False: they do not settle.
static bool settle(NUM(pbStrike) *s) {
  if (s->count > 1 && all_stick(s)) return true;
  for (int i = 0; i < s->n; i++) s->impulse[i] = 0;
  for (int sweep = 0; sweep < 2000; sweep++) {
    double change = 0, most = 0;
    for (int c = 0; c < s->count; c++) {
      pbStruck *t = s->contact + c;
      block b = {.n = t->n, .target = -re(s->used) * re(s->before[t->first])};
      for (int i = 0; i < t->n; i++) {
        b.u[i] = re(s->before[t->first + i]);
        for (int j = 0; j < s->n; j++) {
          bool own = j >= t->first && j < t->first + t->n;
          if (own) b.A[i][j - t->first] = re(s->A[t->first + i][j]);
          else b.u[i] += re(s->A[t->first + i][j]) * re(s->impulse[j]);
        }
      }
      if (!solve_block(&b)) return false;
      t->open = b.open, t->slides = b.slides;
      for (int i = 0; i < t->n; i++) {
        change = fmax(change, fabs(b.impulse[i] - re(s->impulse[t->first + i])));
        most = fmax(most, fabs(b.impulse[i]));
        s->impulse[t->first + i] = b.impulse[i];
      }
    }
    if (s->count == 1 || change <= 1e-10 * most) return true;
  }
  return false;
}

// To rounding, and on to complex numbers.
static void polish(NUM(pbStrike) *s) {
  for (int k = 0; k < 3; k++) refine(s);
}

// The restitution at which an impact that would make energy makes none. With no restitution none does: the normal's share is
// -p'Ap / 2 or less, and friction's power on the slip after is not positive. So there is one between 0 and the contact's.
static bool cap(NUM(pbStrike) *s) {
  double low = 0, high = re(s->restitution);
  for (int i = 0; i < 60; i++) {
    s->used = 0.5 * (low + high);
    if (!settle(s)) return false;
    velocities_after(s);
    if (relative_gain(s) > 0) high = re(s->used);
    else low = re(s->used);
  }
  s->used = low;
  if (!settle(s)) return false;
  s->capped = true;
  polish(s);
  return true;
}

// Contact `point` and, if asked, all others of the pair that approach.
static bool strike_together(NUM(pbWork) *w, int point, bool together, NUM(pbStrike) *s) {
  int nv = w->m->nv;
  s->count = s->n = 0, s->capped = false, s->used = s->restitution;
  s->J = w->impact_J, s->X = w->impact_J + pb_strikeRows * nv;
  add_contact(w, s, point);
  for (int i = 0; together && i < w->ncon && s->count < pb_strikeMost; i++) {
    num u[3];
    slip(w, w->contact + i, u);
    if (i != point && re(v3_dot(w->contact[i].frame, u)) < -PB_REST) add_contact(w, s, i);
  }
  set_mobility(w, s);
  if (!settle(s)) return false;
  polish(s);
  bool may_cap = w->m->contact.restitution_law == pb_restitutionCapped;
  if (may_cap && relative_gain(s) > 1e-12 && !cap(s)) return false;
  return met(s);
}

pbStatus NUM(pbImpact_Strike)(NUM(pbWork) *w, int candidate, int point, NUM(pbStrike) *s) {
  int nv = w->m->nv;
  NUM(pbStage_Kinematics)(w);
  NUM(pbStage_Tendon)(w);
  NUM(pbStage_Inertia)(w);
  push_velocities(w);
  w->ncon = 0;
  PB_TRY(NUM(pbContact_Pair)(w, candidate, PB_TOUCH));
  if (point >= w->ncon) return pb_no_convergence;
  memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));
  if (NUM(pbTree_Factor)(&w->t->M, w->LD, w->Dinv) >= 0) return pb_singular;
  s->gap = w->contact[point].dist - w->contact[point].margin, s->restitution = w->contact[point].restitution;
  if (!strike_together(w, point, true, s) && !strike_together(w, point, false, s)) return pb_no_convergence;
  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) w->qvel[i] += s->X[k * nv + i] * s->impulse[k];
  }
  return pb_ok;
}

pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int point) {
  NUM(pbStrike) s;
  return NUM(pbImpact_Strike)(w, candidate, point, &s);
}
