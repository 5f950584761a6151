// The law of impact of Newton and Coulomb for the contacts of one impact: its equations, the search for which contacts are
// open, stick or slide, Newton's method to rounding, and the cap on restitution that keeps an impact from making energy.
// Tests: tests/unit/test_impact.c.
#include "impact/impact_kernel.h"

#include "base/assert.h"
#include "elementary/elementary.h"
#include "math/vec.h"

static num dot(const num *a, const num *b, int n) {
  num s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

// ---- the law ----------------------------------------------------------------------------------------------------------
// Normal: after + e before. Tangents: after (sticking), or friction at its limit against slip, impulse_t + impulse_n after_t /
// |after_t|. Open: the impulse.
void NUM(pbImpact_Law)(const NUM(pbImpact) *s, int c, NUM(pbImpactLaw) *law) {
  const pbImpactContact *t = s->contact + c;
  const num *after = s->after + t->first;
  const num *impulse = s->impulse + t->first;
  int n = t->n;

  memset(law->by_after, 0, sizeof law->by_after);
  memset(law->by_impulse, 0, sizeof law->by_impulse);

  // Open: no impulse
  if (t->open) {
    for (int i = 0; i < n; i++) {
      law->C[i] = impulse[i];
      law->by_impulse[i][i] = 1;
    }
    return;
  }

  // Closed: Newton's restitution along the normal
  law->C[0] = after[0] + s->used * s->before[t->first];
  law->by_after[0][0] = 1;
  // Sticking: no slip after
  if (!t->slides) {
    for (int i = 1; i < n; i++) {
      law->C[i] = after[i];
      law->by_after[i][i] = 1;
    }
    return;
  }

  // Sliding: friction at its limit, against the slip after. Rows are scaled by friction, so the cone is round with slope one.
  num speed = num_sqrt(dot(after + 1, after + 1, n - 1));
  for (int i = 1; i < n; i++) {
    num d = after[i] / speed;
    law->C[i] = impulse[i] + impulse[0] * d;
    law->by_impulse[i][i] = 1;
    law->by_impulse[i][0] = d;
    for (int j = 1; j < n; j++) law->by_after[i][j] = impulse[0] / speed * ((i == j) - d * after[j] / speed);
  }
}

// K = dC/d(after) A + dC/d(impulse), row-major with pb_impactRows columns, and C.
static void linearize_law(const NUM(pbImpact) *s, num *K, num *C) {
  for (int c = 0; c < s->count; c++) {
    NUM(pbImpactLaw) law;
    int first = s->contact[c].first;
    int n = s->contact[c].n;
    NUM(pbImpact_Law)(s, c, &law);
    for (int i = 0; i < n; i++) {
      // after = before + A impulse, so slopes by `after` go through A
      num *row = K + (first + i) * pb_impactRows;
      C[first + i] = law.C[i];
      for (int j = 0; j < s->n; j++) {
        row[j] = 0;
        for (int k = 0; k < n; k++) row[j] += law.by_after[i][k] * s->A[first + k][j];
      }
      for (int j = 0; j < n; j++) row[first + j] += law.by_impulse[i][j];
    }
  }
}

// ---- linear systems of low rank -------------------------------------------------------------------------------------------
// K = L U with rows and columns permuted: complete pivoting (Golub and Van Loan 3.4.8), which finds the rank.
typedef struct factor {
  num *K;
  int n, rank;
  int rows[pb_impactRows], columns[pb_impactRows];
} factor;

static num *entry(const factor *f, int i, int j) { return f->K + f->rows[i] * pb_impactRows + f->columns[j]; }

// The largest entry from (k, k) on becomes the pivot: the first of those that are equal but for rounding.
static void choose_pivot(factor *f, int k) {
  int row = k;
  int column = k;

  for (int i = k; i < f->n; i++) {
    for (int j = k; j < f->n; j++) {
      if (!(fabs(re(*entry(f, i, j))) > (1 + 1e-9) * fabs(re(*entry(f, row, column))))) continue;
      row = i;
      column = j;
    }
  }

  // Rows and columns change places by their numbers alone.
  int old_row = f->rows[k];
  int old_column = f->columns[k];
  f->rows[k] = f->rows[row];
  f->rows[row] = old_row;
  f->columns[k] = f->columns[column];
  f->columns[column] = old_column;
}

// Are rows and columns each numbers from 0 to n - 1, once?
static bool is_permuted(const factor *f) {
  bool row[pb_impactRows] = {false}, column[pb_impactRows] = {false};
  for (int i = 0; i < f->n; i++) {
    row[f->rows[i]] = true;
    column[f->columns[i]] = true;
  }
  for (int i = 0; i < f->n; i++) {
    if (!row[i] || !column[i]) return false;
  }
  return true;
}

static void eliminate(factor *f) {
  double largest = 0;

  for (int i = 0; i < f->n; i++) {
    f->rows[i] = i;
    f->columns[i] = i;
  }

  for (f->rank = 0; f->rank < f->n; f->rank++) {
    int k = f->rank;
    choose_pivot(f, k);
    double pivot = fabs(re(*entry(f, k, k)));
    largest = fmax(largest, pivot);
    // What is left is rounding: the rank is k.
    if (!(pivot > 1e-12 * largest)) return;

    for (int i = k + 1; i < f->n; i++) {
      num multiplier = *entry(f, i, k) /= *entry(f, k, k);
      for (int j = k + 1; j < f->n; j++) *entry(f, i, j) -= multiplier * *entry(f, k, j);
    }
  }
}

// x := K^-1 x or K^-T x, with zeros where K has no pivots.
static void solve(int n, num *K, num *x, bool transposed) {
  factor f = {.K = K, .n = n};
  num y[pb_impactRows];

  PB_ASSERT(n >= 1 && n <= pb_impactRows);
  eliminate(&f);
  PB_VALIDATE(is_permuted(&f));
  const int *in = transposed ? f.columns : f.rows;
  const int *out = transposed ? f.rows : f.columns;
  for (int i = 0; i < f.rank; i++) y[i] = x[in[i]];

  // L, or U'
  for (int i = 0; i < f.rank; i++) {
    for (int j = 0; j < i; j++) y[i] -= (transposed ? *entry(&f, j, i) : *entry(&f, i, j)) * y[j];
    if (transposed) y[i] /= *entry(&f, i, i);
  }

  // U, or L'
  for (int i = f.rank - 1; i >= 0; i--) {
    for (int j = i + 1; j < f.rank; j++) y[i] -= (transposed ? *entry(&f, j, i) : *entry(&f, i, j)) * y[j];
    if (!transposed) y[i] /= *entry(&f, i, i);
  }

  // Redundant impulses are zero.
  memset(x, 0, (size_t)n * sizeof(num));
  for (int i = 0; i < f.rank; i++) x[out[i]] = y[i];
}

void NUM(pbImpact_SolveLaw)(const NUM(pbImpact) *s, num *x, bool transposed) {
  num K[pb_impactRows * pb_impactRows], C[pb_impactRows];
  linearize_law(s, K, C);
  solve(s->n, K, x, transposed);
}

// ---- energy and the cap on restitution --------------------------------------------------------------------------------
num NUM(pbImpact_Gain)(const NUM(pbImpact) *s) { return dot(s->impulse, s->before, s->n) + dot(s->impulse, s->after, s->n); }

// Slopes of the law by the restitution in it, those of closed normals; and of the gain by the impulses, 2 after.
void NUM(pbImpact_Border)(const NUM(pbImpact) *s, num *by_restitution, num *gain_by) {
  for (int i = 0; i < s->n; i++) {
    by_restitution[i] = 0;
    gain_by[i] = 2 * s->after[i];
  }
  for (int c = 0; c < s->count; c++) {
    const pbImpactContact *t = s->contact + c;
    if (!t->open) by_restitution[t->first] = s->before[t->first];
  }
}

// Twice the energy made, over what impulses and velocities could do at most.
static double relative_gain(const NUM(pbImpact) *s) {
  double most = 0;
  for (int i = 0; i < s->n; i++) most += fabs(re(s->impulse[i])) * (fabs(re(s->before[i])) + fabs(re(s->after[i])));
  return most > 0 ? re(NUM(pbImpact_Gain)(s)) / most : 0;
}

// after = before + A impulse
static void set_after(NUM(pbImpact) *s) {
  for (int i = 0; i < s->n; i++) s->after[i] = s->before[i] + dot(s->A[i], s->impulse, s->n);
}

// ---- Newton's method --------------------------------------------------------------------------------------------------------
// C, the misfit of the law, becomes the step of the impulses; the restitution moves too, so that the gain is none: the bordered
// system
//   [K  b] [dp]   [C   ]
//   [g' 0] [de] = [gain]       b: by_restitution, g: gain_by
static void step_capped(NUM(pbImpact) *s, num *C) {
  num by[pb_impactRows], slope[pb_impactRows];

  NUM(pbImpact_Border)(s, by, slope);
  NUM(pbImpact_SolveLaw)(s, by, false);
  // The restitution's step from the second row, then the impulses' from the first
  num change = (NUM(pbImpact_Gain)(s) - dot(slope, C, s->n)) / dot(slope, by, s->n);
  for (int i = 0; i < s->n; i++) C[i] += change * by[i];
  s->used += change;
}

// One step of Newton's method on the impulses; from a solution in real numbers it gives that in complex ones.
static void newton_step(NUM(pbImpact) *s) {
  num K[pb_impactRows * pb_impactRows], C[pb_impactRows];

  set_after(s);
  linearize_law(s, K, C);
  solve(s->n, K, C, false);
  if (s->capped) step_capped(s, C);
  for (int i = 0; i < s->n; i++) s->impulse[i] -= C[i];
  set_after(s);
}

// To rounding, and on to complex numbers.
static void polish(NUM(pbImpact) *s) {
  for (int k = 0; k < 3; k++) newton_step(s);
}

// ---- is it a solution? ------------------------------------------------------------------------------------------------------
static double norm2(const num *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += re(x[i]) * re(x[i]);
  return sum;
}

static double largest(const num *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(re(x[i])));
  return most;
}

// Is the law of a contact met to rounding, and is what was assumed of it so: open contacts part as restitution wants, closed
// ones push, sticking ones stay in the cone?
static bool contact_is_met(const NUM(pbImpact) *s, int c, double speed, double impulse) {
  NUM(pbImpactLaw) law;
  const pbImpactContact *t = s->contact + c;

  NUM(pbImpact_Law)(s, c, &law);
  for (int i = 0; i < t->n; i++) {
    // Equations between impulses are measured by impulses, those between velocities by speeds.
    bool of_impulse = t->open || (i && t->slides);
    if (!(fabs(re(law.C[i])) <= 1e-9 * (of_impulse ? impulse : speed))) return false;
  }

  double push = re(s->impulse[t->first]);
  double target = -re(s->used) * re(s->before[t->first]);
  if (t->open) return !(re(s->after[t->first]) < target - 1e-9 * speed);
  if (!(push > 0)) return false;
  double friction = sqrt(norm2(s->impulse + t->first + 1, t->n - 1));
  return t->slides || !(friction > (1 + 1e-9) * push);
}

static bool is_met(const NUM(pbImpact) *s) {
  double speed = largest(s->before, s->n);
  double impulse = largest(s->impulse, s->n);

  if (s->capped && !(fabs(relative_gain(s)) <= 1e-12)) return false;
  for (int c = 0; c < s->count; c++) {
    if (!contact_is_met(s, c, speed, impulse)) return false;
  }
  return true;
}

// ---- one contact, the others' impulses given ------------------------------------------------------------------------
typedef struct block {
  int n;
  double A[3][3], u[3];  // velocities without its impulse
  double target;         // the normal velocity it shall have
  double impulse[3];
  bool open, slides;
} block;

// Sticking: no slip after. False where that takes more friction than there is, or where nothing can do it: what is led slips in a
// direction that nothing moves in, or normal and slip move as one (a bead on a wire at a tilted plane). The tangents' mobility is
// diagonal.
static bool sticks(block *b) {
  const double rounding = 1e-11;

  // The tangents eliminated
  double A = b->A[0][0];
  double r = b->target - b->u[0];
  for (int i = 1; i < b->n; i++) {
    if (!(b->A[i][i] > 1e-24 * b->A[0][0])) return false;
    A -= b->A[0][i] * b->A[i][0] / b->A[i][i];
    r += b->A[0][i] * b->u[i] / b->A[i][i];
  }
  if (!(A > rounding * b->A[0][0])) return false;

  double friction = 0;
  b->impulse[0] = r / A;
  for (int i = 1; i < b->n; i++) {
    b->impulse[i] = -(b->u[i] + b->A[i][0] * b->impulse[0]) / b->A[i][i];
    friction += b->impulse[i] * b->impulse[i];
  }

  return b->impulse[0] > 0 && friction <= b->impulse[0] * b->impulse[0];
}

// Friction at its limit against the direction at an angle: the impulse, and the slip across it. True where that slip is along it.
static bool slides_along(block *b, double angle, double *across) {
  double d[2] = {pbCos(angle), pbSin(angle)};

  if (b->n == 2) {  // one direction of slip: the angle is its sign
    d[0] = angle;
    d[1] = 0;
  }

  double A = b->A[0][0];
  for (int i = 1; i < b->n; i++) A -= b->A[0][i] * d[i - 1];
  b->impulse[0] = (b->target - b->u[0]) / A;
  for (int i = 1; i < b->n; i++) b->impulse[i] = -b->impulse[0] * d[i - 1];

  double along = 0;
  double u[2] = {0};
  for (int i = 1; i < b->n; i++) {
    u[i - 1] = b->u[i];
    for (int j = 0; j < b->n; j++) u[i - 1] += b->A[i][j] * b->impulse[j];
    along += d[i - 1] * u[i - 1];
  }
  *across = d[0] * u[1] - d[1] * u[0];
  return b->impulse[0] > 0 && along > 0;
}

// Bisection of the slip across between two angles, at the first of which it is `across`.
static bool bisect_angle(block *b, double from, double to, double across) {
  double middle_across;

  for (int i = 0; i < 60; i++) {
    double middle = 0.5 * (from + to);
    // The half in which the sign changes
    slides_along(b, middle, &middle_across);
    if ((middle_across > 0) == (across > 0)) from = middle;
    else to = middle;
  }

  return slides_along(b, from, &middle_across);
}

// Slip in the plane: the direction nearest to the slip before the impact along which friction at its limit leaves it. With one
// direction of slip: its sign.
static bool slides(block *b) {
  enum { parts = 128 };
  double start_across, end_across;
  if (b->n == 2) {
    double sign = b->u[1] < 0 ? -1 : 1;
    return slides_along(b, sign, &end_across) || slides_along(b, -sign, &end_across);
  }

  // Parts of the circle from the slip before, to one side and the other
  double before = pbAtan2(b->u[2], b->u[1]);
  for (int k = 0; k < parts; k++) {
    double side = k % 2 ? -1 : 1;
    int part = k / 2;
    double from = before + side * part * 2 * PB_PI / parts;
    double to = from + side * 2 * PB_PI / parts;
    bool from_start = slides_along(b, from, &start_across);
    bool from_end = slides_along(b, to, &end_across);
    // A root of the slip across lies in this part.
    bool changes_sign = (start_across > 0) != (end_across > 0);
    if ((from_start || from_end) && changes_sign && bisect_angle(b, from, to, start_across)) return true;
  }

  return false;
}

// Open, sticking or sliding, whichever is consistent.
static bool solve_block(block *b) {
  b->open = b->u[0] >= b->target;
  b->slides = false;
  if (b->open) {
    memset(b->impulse, 0, sizeof b->impulse);
    return true;
  }
  // Sticking first: it is unique where it is consistent.
  if (sticks(b)) return true;
  b->slides = true;
  return slides(b);
}

// ---- all contacts -------------------------------------------------------------------------------------------------------
// All contacts stick: impulses that stop all slip. Where redundant contacts leave them open, nearly those of least norm, since A
// is regularized by 1e-9 of its trace. False where an impulse pulls or is beyond its cone.
static bool all_stick(NUM(pbImpact) *s) {
  num K[pb_impactRows * pb_impactRows];
  // A impulse = -before, along normals -(1 + restitution) before
  double trace = 0;

  for (int i = 0; i < s->n; i++) trace += re(s->A[i][i]);

  for (int c = 0; c < s->count; c++) {
    pbImpactContact *t = s->contact + c;
    t->open = false;
    t->slides = false;
    for (int i = t->first; i < t->first + t->n; i++) {
      for (int j = 0; j < s->n; j++) K[i * pb_impactRows + j] = re(s->A[i][j]) + (i == j) * 1e-9 * trace;
      s->impulse[i] = -(i == t->first ? 1 + re(s->used) : 1) * re(s->before[i]);
    }
  }
  solve(s->n, K, s->impulse, false);

  // Where slip cannot be stopped no impulses do it.
  double speed = largest(s->before, s->n);
  set_after(s);
  for (int c = 0; c < s->count; c++) {
    const pbImpactContact *t = s->contact + c;
    for (int i = t->first; i < t->first + t->n; i++) {
      double target = i == t->first ? -re(s->used) * re(s->before[i]) : 0;
      if (!(fabs(re(s->after[i]) - target) <= 1e-3 * speed)) return false;
    }
  }

  for (int c = 0; c < s->count; c++) {
    const pbImpactContact *t = s->contact + c;
    double push = re(s->impulse[t->first]);
    // Each pushes, within its cone?
    if (!(push > 0 && norm2(s->impulse + t->first + 1, t->n - 1) <= push * push)) return false;
  }

  return true;
}

// A contact with the impulses of the others as they are.
static block block_of(const NUM(pbImpact) *s, int c) {
  const pbImpactContact *t = s->contact + c;
  block b = {.n = t->n, .target = -re(s->used) * re(s->before[t->first])};

  for (int i = 0; i < t->n; i++) {
    int row = t->first + i;
    b.u[i] = re(s->before[row]);
    for (int j = 0; j < s->n; j++) {
      bool own = j >= t->first && j < t->first + t->n;
      // Its own block of A, and the velocity that all others leave it
      if (own) b.A[i][j - t->first] = re(s->A[row][j]);
      else b.u[i] += re(s->A[row][j]) * re(s->impulse[j]);
    }
  }

  return b;
}

// Projected Gauss-Seidel by blocks: contacts one by one until none changes. False: that does not converge.
static bool solve_contacts(NUM(pbImpact) *s) {
  if (s->count > 1 && all_stick(s)) return true;
  for (int i = 0; i < s->n; i++) s->impulse[i] = 0;

  for (int sweep = 0; sweep < 2000; sweep++) {
    double change = 0;
    double most = 0;
    for (int c = 0; c < s->count; c++) {
      pbImpactContact *t = s->contact + c;
      block b = block_of(s, c);
      // A block without a solution of Coulomb's law ends the search.
      if (!solve_block(&b)) return false;
      t->open = b.open;
      t->slides = b.slides;

      for (int i = 0; i < t->n; i++) {
        change = fmax(change, fabs(b.impulse[i] - re(s->impulse[t->first + i])));
        most = fmax(most, fabs(b.impulse[i]));
        s->impulse[t->first + i] = b.impulse[i];
      }
    }
    // One contact needs no second sweep.
    if (s->count == 1 || change <= 1e-10 * most) return true;
  }

  return false;
}

// The restitution at which an impact that would make energy makes none, by bisection. With no restitution none does: the
// normal's share is -p'Ap / 2 or less, and friction's power on the slip after is not positive. So there is one between 0 and
// the contact's.
static bool cap_restitution(NUM(pbImpact) *s) {
  double low = 0;
  double high = re(s->restitution);

  for (int i = 0; i < 60; i++) {
    s->used = 0.5 * (low + high);
    if (!solve_contacts(s)) return false;
    set_after(s);
    if (relative_gain(s) > 0) high = re(s->used);
    else low = re(s->used);
  }

  // The end of the bisection that makes no energy; Newton's method finds the rest of the digits.
  PB_ASSERT(low >= 0 && low <= high);
  s->used = low;
  if (!solve_contacts(s)) return false;
  s->capped = true;
  polish(s);
  return true;
}

bool NUM(pbImpact_FindImpulses)(NUM(pbImpact) *s, bool may_cap) {
  s->capped = false;
  s->used = s->restitution;
  if (!solve_contacts(s)) return false;
  polish(s);
  if (may_cap && relative_gain(s) > 1e-12 && !cap_restitution(s)) return false;
  return is_met(s);
}
