// A Riccati sweep through the steps of a trajectory, and back. Cost and memory of a step depend on the size of the state and of
// the controls alone, not on how many unknowns there are in all.
// Tests: tests/unit/test_sweep.c.
#include "control/riccati.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "linalg/product.h"

// ---- memory ---------------------------------------------------------------------------------------------------------
enum { alignment = 64, pieces = 13 };

// Products of rows that begin `size` apart.
static pbProductShape shape_of(const pbRiccati *s, int m, int n, bool transposed) {
  return (pbProductShape){.m = m, .n = n, .k = s->n, .a_transposed = transposed, .lda = s->size, .ldb = s->size, .ldc = s->size};
}

static size_t product_bytes(const pbRiccati *s) {
  pbProductShape a = shape_of(s, s->size, s->size, false), b = shape_of(s, s->size, s->size, true);
  size_t one = pbProduct_WorkBytes(&a), other = pbProduct_WorkBytes(&b);
  return (one > other ? one : other) + alignment;
}

// Pieces of `base` (NULL: none is there yet); returns their sum.
static size_t lay_out(pbRiccati *s, size_t rows, double *base) {
  size_t n = (size_t)s->n, slots = (size_t)s->slots, size = n + slots, steps = (size_t)s->steps;
  size_t starts = (size_t)s->start_count, entries = (size_t)s->entry_count, total = 0;
  const struct {
    double **to;
    size_t count;
  } all[pieces] = {{&s->start, starts * n},
                   {&s->F, steps * n * size},
                   {&s->G, rows * size},
                   {&s->r, rows},
                   {&s->P, size * size},
                   {&s->Y, n * size},
                   {&s->Z, slots * slots},
                   {&s->q, size},
                   {&s->before, size},
                   {&s->gain, entries * (size + 1)},
                   {&s->S, starts * starts},
                   {&s->s, starts},
                   {&s->start_gain, starts * (starts + 1)}};

  // one after the other
  for (int i = 0; i < pieces; i++) {
    if (base) *all[i].to = base + total;
    total += all[i].count;
  }

  return total;
}

pbStatus pbRiccati_Create(pbContext *ctx, pbRiccati *s, size_t rows) {
  size_t starts = (size_t)s->start_count, entries = (size_t)s->entry_count;
  PB_ASSERT(s->steps > 0 && s->n > 0);
  s->size = s->n + s->slots;

  // Sizes whose product is no size_t are refused as memory that is not there.
  double most = (double)SIZE_MAX / 64, numbers = (double)s->size * ((double)s->steps * s->n + (double)rows + s->entry_count);
  size_t count = lay_out(s, rows, NULL);
  s->numbers = numbers < most ? pbContext_AllocArray(ctx, count + product_bytes(s) / sizeof(double) + 1, sizeof(double)) : NULL;
  s->integers = pbContext_AllocArray(ctx, starts + (size_t)s->size, sizeof(int));
  s->entries = pbContext_AllocArray(ctx, entries + 1, sizeof *s->entries);
  s->first = pbContext_AllocArray(ctx, (size_t)s->steps + 2, sizeof *s->first);
  s->linear = pbContext_AllocArray(ctx, rows + 1, sizeof *s->linear);
  if (!s->numbers || !s->integers || !s->entries || !s->first || !s->linear)
    return pbContext_Fail(ctx, pb_no_memory, "no memory for a sweep through %d steps", s->steps);

  // products want their memory aligned
  lay_out(s, rows, s->numbers);
  s->product = (void *)(((uintptr_t)(s->numbers + count) + alignment - 1) / alignment * alignment);
  s->start_unknown = s->integers;
  s->at = s->integers + starts;

  return pb_ok;
}

void pbRiccati_Free(pbContext *ctx, pbRiccati *s) {
  pbContext_Free(ctx, s->numbers);
  pbContext_Free(ctx, s->integers);
  pbContext_Free(ctx, s->entries);
  pbContext_Free(ctx, s->first);
  pbContext_Free(ctx, s->linear);
  *s = (pbRiccati){0};
}

// ---- one step -------------------------------------------------------------------------------------------------------
static const double *step_at(const pbRiccati *s, int k) { return s->F + (size_t)k * (size_t)s->n * (size_t)s->size; }

// P := E'P E above its diagonal, E = (F; 0 1). With P = (X U; U' W), F = (A B) and Y = X F + (0 U) that is A'Y and, of the slots
// alone, B'Y + U'B + W.
static void pull_matrix(pbRiccati *s, const double *F) {
  enum { block = 16 };
  size_t n = (size_t)s->n, slots = (size_t)s->slots, size = (size_t)s->size;
  double *W = s->P + n * size + n;

  // Y, and U'B + W where W stands.
  for (size_t i = 0; i < n; i++) {
    memset(s->Y + i * size, 0, n * sizeof *s->Y);
    memcpy(s->Y + i * size + n, s->P + i * size + n, slots * sizeof *s->Y);
  }

  // X F onto (0 U), B of the slots onto W
  pbProductShape of_state = shape_of(s, s->n, s->size, false), of_slots = shape_of(s, s->slots, s->slots, false);
  pbProduct_Add(&of_state, s->P, F, s->Y, s->product);
  pbProduct_Add(&of_slots, s->P + n * size, F + n, W, s->product);

  of_slots.a_transposed = true;
  pbProduct_Add(&of_slots, F + n, s->Y + n, W, s->product);

  // Some rows at a time, from their diagonal on.
  memset(s->P, 0, n * size * sizeof *s->P);
  for (int i = 0; i < s->n; i += block) {
    int rows = s->n - i < block ? s->n - i : block;
    pbProductShape shape = shape_of(s, rows, s->size - i, true);
    pbProduct_Add(&shape, F + i, s->Y + i, s->P + (size_t)i * size + i, s->product);
  }
}

void pbRiccati_PullVector(pbRiccati *s, int k, double *v) {
  size_t n = (size_t)s->n, size = (size_t)s->size;
  const double *F = step_at(s, k);

  // the slots keep theirs
  memcpy(s->before, v, size * sizeof *v);
  memset(v, 0, n * sizeof *v);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < size; j++) v[j] += F[i * size + j] * s->before[i];
  }
}

// P := E'P E, q := E'q: from the next state to this one.
static void pull_step(pbRiccati *s, int k) {
  size_t size = (size_t)s->size;
  pull_matrix(s, step_at(s, k));

  // what is above the diagonal, below it
  for (size_t i = 1; i < size; i++) {
    for (size_t j = 0; j < i; j++) s->P[i * size + j] = s->P[j * size + i];
  }

  pbRiccati_PullVector(s, k, s->q);
}

// The residuals of state k: P += G'G, q += G'r; what is zero is passed over.
static void add_rows(pbRiccati *s, int k) {
  size_t size = (size_t)s->size;
  for (size_t which = s->first[k]; which < s->first[k + 1]; which++) {
    const double *row = s->G + which * size;
    int count = 0;
    for (int i = 0; i < s->size; i++) {
      if (row[i] != 0) s->at[count++] = i;
    }

    // products of what is there alone
    for (int a = 0; a < count; a++) {
      double by = row[s->at[a]], *P = s->P + (size_t)s->at[a] * size;
      s->q[s->at[a]] += by * s->r[which];
      if (s->linear[which]) continue;
      for (int b = 0; b < count; b++) P[s->at[b]] += by * row[s->at[b]];
    }
  }
}

// The same of q alone.
static void add_slopes(pbRiccati *s, int k) {
  size_t size = (size_t)s->size;
  for (size_t which = s->first[k]; which < s->first[k + 1]; which++) {
    for (size_t i = 0; i < size; i++) s->q[i] += s->G[which * size + i] * s->r[which];
  }
}

// ---- one unknown ----------------------------------------------------------------------------------------------------
typedef struct Pass {
  double *g, *diagonal;  // wanted of what is seen, or NULL:
  double lambda;         // minimize
  const double *D;
  const bool *held;
} Pass;

// Minimizes x'P x + 2 q'x + damping x_i^2 over x_i: P and q of the rest, and x_i = -gain (x, 1).
static bool eliminate(double *P, double *q, size_t size, size_t i, double damping, double *gain) {
  const double *row = P + i * size;
  double pivot = row[i] + damping;
  PB_ASSERT(i < size);
  if (!(pivot > 0)) return false;

  for (size_t j = 0; j < size; j++) gain[j] = j == i ? 0 : row[j] / pivot;
  gain[size] = q[i] / pivot;

  // P - p p' / pivot, q - p q_i / pivot; row and column i are the caller's to clear.
  for (size_t j = 0; j < size; j++) {
    double by = row[j];
    if (j == i || by == 0) continue;
    for (size_t k = 0; k < size; k++) P[j * size + k] -= by * gain[k];
    q[j] -= by * gain[size];
  }

  return true;
}

// Entry i, which is this unknown, is done with: seen, held at zero, or minimized over.
static bool enter(const Pass *pass, double *P, double *q, int size, int i, int unknown, double *gain) {
  size_t width = (size_t)size, at = (size_t)i;
  PB_ASSERT(i >= 0 && i < size);
  if (pass->g) {
    pass->g[unknown] = q[i];
    pass->diagonal[unknown] = P[at * width + at];
  } else if (pass->held[unknown]) {
    memset(gain, 0, (width + 1) * sizeof *gain);
  } else if (!eliminate(P, q, width, at, pass->lambda * pass->D[unknown], gain)) {
    return false;
  }

  // The slot is empty for the knot before it.
  memset(P + at * width, 0, width * sizeof *P);
  for (size_t j = 0; j < width; j++) P[j * width + at] = 0;
  q[i] = 0;

  return true;
}

// ---- backwards ------------------------------------------------------------------------------------------------------
// S = M P M', s = M q: by the unknowns of the initial state, of which M has the rows.
void pbRiccati_BeginStart(pbRiccati *s) {
  size_t n = (size_t)s->n, size = (size_t)s->size, count = (size_t)s->start_count;
  for (size_t a = 0; a < count; a++) {
    const double *of_a = s->start + a * n;
    memset(s->before, 0, n * sizeof *s->before);
    s->s[a] = 0;

    // M q, and a row of M P
    for (size_t i = 0; i < n; i++) {
      if (of_a[i] == 0) continue;
      s->s[a] += of_a[i] * s->q[i];
      for (size_t j = 0; j < n; j++) s->before[j] += of_a[i] * s->P[i * size + j];
    }

    // times M'
    for (size_t b = 0; b < count; b++) {
      double sum = 0;
      for (size_t j = 0; j < n; j++) sum += s->before[j] * s->start[b * n + j];
      s->S[a * count + b] = sum;
    }
  }
}

void pbRiccati_BeginLast(pbRiccati *s) {
  size_t size = (size_t)s->size;
  memset(s->P, 0, size * size * sizeof *s->P);
  memset(s->q, 0, size * sizeof *s->q);
  add_rows(s, s->steps);
}

void pbRiccati_PullBack(pbRiccati *s, int k) {
  PB_ASSERT(k >= 0 && k < s->steps);
  pull_step(s, k);
  add_rows(s, k);

  size_t entries = (size_t)s->size * (size_t)s->size;
  if (!s->hessians) return;
  for (size_t i = 0; i < entries; i++) s->P[i] += s->C[(size_t)k * entries + i];
}

static bool go_back(pbRiccati *s, const Pass *pass) {
  size_t size = (size_t)s->size;
  pbRiccati_BeginLast(s);

  // Through the step, what is seen before it, then the knots that enter there.
  int e = 0;
  for (int k = s->steps - 1; k >= 0; k--) {
    pbRiccati_PullBack(s, k);
    for (; e < s->entry_count && s->entries[e].step == k; e++) {
      const pbRiccatiEntry *in = &s->entries[e];
      if (!enter(pass, s->P, s->q, s->size, s->n + in->slot, in->unknown, s->gain + (size_t)e * (size + 1))) return false;
    }
  }

  // The knots of the first step are done with: what is left is of the state alone.
  PB_ASSERT(e == s->entry_count);
  pbRiccati_BeginStart(s);
  for (int a = 0; a < s->start_count; a++) {
    double *gain = s->start_gain + (size_t)a * (size_t)(s->start_count + 1);
    if (!enter(pass, s->S, s->s, s->start_count, a, s->start_unknown[a], gain)) return false;
  }

  return true;
}

void pbRiccati_Gradient(pbRiccati *s, double *g, double *costates) {
  memset(s->q, 0, (size_t)s->size * sizeof *s->q);
  add_slopes(s, s->steps);

  // A slot is empty for the knot before the one that acted.
  int e = 0;
  for (int k = s->steps - 1; k >= 0; k--) {
    if (costates) memcpy(costates + (size_t)k * (size_t)s->n, s->q, (size_t)s->n * sizeof *s->q);
    pbRiccati_PullVector(s, k, s->q);
    add_slopes(s, k);
    for (; e < s->entry_count && s->entries[e].step == k; e++) {
      double *q = &s->q[s->n + s->entries[e].slot];
      g[s->entries[e].unknown] = *q;
      *q = 0;
    }
  }

  for (int a = 0; a < s->start_count; a++) {
    double sum = 0;
    for (int i = 0; i < s->n; i++) sum += s->start[(size_t)a * (size_t)s->n + (size_t)i] * s->q[i];
    g[s->start_unknown[a]] = sum;
  }
}

// ---- forwards -------------------------------------------------------------------------------------------------------
static double minus_gain(const double *gain, const double *x, int size) {
  double sum = gain[size];
  for (int i = 0; i < size; i++) sum += gain[i] * x[i];
  return -sum;
}

// The initial state by p into x; find (else NULL) is p, and found: the unknown that was minimized over last is the first.
static void start_forward(pbRiccati *s, const double *p, double *find, double *x) {
  PB_ASSERT(!find || find == p);
  memset(x, 0, (size_t)s->size * sizeof *x);
  memset(s->s, 0, (size_t)s->start_count * sizeof *s->s);

  for (int a = s->start_count - 1; a >= 0; a--) {
    const double *motion = s->start + (size_t)a * (size_t)s->n;
    int unknown = s->start_unknown[a];
    if (find) find[unknown] = minus_gain(s->start_gain + (size_t)a * (size_t)(s->start_count + 1), s->s, s->start_count);
    s->s[a] = p[unknown];
    for (int i = 0; i < s->n; i++) x[i] += motion[i] * p[unknown];
  }
}

static double squares_at(const pbRiccati *s, int k, const double *x) {
  double sum = 0;
  for (size_t which = s->first[k]; which < s->first[k + 1]; which++) {
    const double *row = s->G + which * (size_t)s->size;
    double moved = 0;
    for (int i = 0; i < s->size; i++) moved += row[i] * x[i];
    sum += moved * moved;
  }

  return sum;
}

// Through the steps with p; returns |J p|^2. find (else NULL) is p, and found: then 0.
static double go_forward(pbRiccati *s, const double *p, double *find) {
  size_t size = (size_t)s->size;
  double *x = s->q, sum = 0;
  int e = s->entry_count - 1;
  start_forward(s, p, find, x);

  // knots enter where they were eliminated, in the opposite order
  for (int k = 0; k < s->steps; k++) {
    for (; e >= 0 && s->entries[e].step == k; e--) {
      const pbRiccatiEntry *in = &s->entries[e];
      if (find) find[in->unknown] = minus_gain(s->gain + (size_t)e * (size + 1), x, s->size);
      x[s->n + in->slot] = p[in->unknown];
    }

    if (!find) sum += squares_at(s, k, x);

    // To the next state; the knots stay.
    const double *F = step_at(s, k);
    memcpy(s->before, x, size * sizeof *x);
    for (size_t i = 0; i < (size_t)s->n; i++) {
      x[i] = 0;
      for (size_t j = 0; j < size; j++) x[i] += F[i * size + j] * s->before[j];
    }
  }

  return find ? 0 : sum + squares_at(s, s->steps, x);
}

void pbRiccati_Look(pbRiccati *s, double *g, double *diagonal) {
  bool seen = go_back(s, &(Pass){.g = g, .diagonal = diagonal});
  PB_ASSERT(seen);
  (void)seen;
}

bool pbRiccati_Solve(pbRiccati *s, double lambda, const double *D, const bool *held, double *p) {
  PB_ASSERT(lambda > 0);
  if (!go_back(s, &(Pass){.lambda = lambda, .D = D, .held = held})) return false;
  go_forward(s, p, p);
  return true;
}

double pbRiccati_Squared(pbRiccati *s, const double *p) { return go_forward(s, p, NULL); }
