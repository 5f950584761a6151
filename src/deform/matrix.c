// The sparse matrix of a step and its factor, with room for what contacts couple.
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"
#include "sparse/krylov.h"

enum { restart = 40 };  // of GMRES

// GMRES and, behind it, a right-hand side.
static size_t krylov_room(const pbDeform *d) {
  return pbGmres_WorkSize(3 * d->nfree, restart) + 3 * (size_t)d->nfree * sizeof(double) + 64;
}

static size_t block_bytes(const pbSparsePattern *p) { return 9 * (size_t)p->slots * sizeof(double); }

// Bytes that hold a matrix like that of the elements twice over, analysis and factor included.
static size_t usual_room(const pbDeform *d) {
  size_t slots = (size_t)d->pattern->slots;
  size_t values = block_bytes(d->pattern) * (d->unsymmetric ? 3 : 1);  // lower, upper and symmetric part
  size_t analysis = 64 * sizeof(int) * (slots + (size_t)d->nfree);
  size_t factor = pbSparseFactor_Bytes(d->analysis) + pbSparseAnalysis_WorkSize(d->analysis);

  return 2 * (values + analysis + factor) + ((size_t)1 << 20);
}

// Pairs of blocks that all stencils together can couple, in all terms of a scheme.
static size_t most_pairs(const pbDeformWork *w) {
  size_t count = 1, terms = sizeof w->scheme->weight / sizeof *w->scheme->weight;
  for (int type = 0; type < pb_stencilTypes; type++) {
    size_t points = (size_t)pbStencil_Points[type];
    count += terms * points * (points - 1) / 2 * pbBarrier_Room(w->barrier, type);
  }

  return count;
}

// Not zeroed, so not touched before they are used.
static pbStatus make_pairs(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  size_t room = most_pairs(w), bytes = 2 * room * sizeof(int);

  if (room <= m->pair_room) return pb_ok;
  int *pairs = pbContext_Resize(w->ctx, NULL, bytes), *wanted = pbContext_Resize(w->ctx, NULL, bytes);

  if (!pairs || !wanted) {
    pbContext_Free(w->ctx, pairs);
    pbContext_Free(w->ctx, wanted);
    return pb_no_memory;
  }

  // The pairs of `own` are still those of the matrix at hand; the wanted ones are found again.
  if (m->pair_count) memcpy(pairs, m->pairs, 2 * m->pair_count * sizeof(int));
  pbContext_Free(w->ctx, m->pairs);
  pbContext_Free(w->ctx, m->wanted);
  m->pairs = pairs;
  m->wanted = wanted;
  m->pair_room = room;

  return pb_ok;
}

static pbStatus create_matrix(pbDeformWork *w, size_t bytes) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  size_t values = block_bytes(d->pattern);

  m->base_values = pbContext_Alloc(w->ctx, values);
  m->base_work = pbContext_Alloc(w->ctx, pbSparseAnalysis_WorkSize(d->analysis));
  if (!m->base_values || !m->base_work) return pb_no_memory;

  // Forces without potential: upper blocks, the symmetric part for the preconditioner, and room for GMRES.
  if (d->unsymmetric) {
    m->base_upper = pbContext_Alloc(w->ctx, values);
    m->base_symmetric = pbContext_Alloc(w->ctx, values);
    m->krylov = pbContext_Alloc(w->ctx, krylov_room(d));
    if (!m->base_upper || !m->base_symmetric || !m->krylov) return pb_no_memory;
  }

  // The factor of the elements; contacts build theirs in the pool.
  PB_TRY(pbSparseFactor_Create(w->ctx, d->analysis, &m->base_factor));

  if (!w->barrier) return pb_ok;
  PB_TRY(make_pairs(w));

  return pbReserve_Create(w->ctx, bytes ? bytes : usual_room(d), &m->reserve);
}

pbStatus pbDeformMatrix_Create(pbDeformWork *w, size_t bytes) {
  pbStatus status = w->d->nfree ? create_matrix(w, bytes) : pb_ok;
  if (status == pb_ok) return pb_ok;
  return pbContext_Fail(w->ctx, status, "no memory for a matrix of %d points", w->d->nfree);
}

// The matrix of contacts lives in the pool altogether: it goes with it.
static void drop_own(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  if (m->reserve) pbReserve_Reset(m->reserve);
  m->own_factor = NULL;
  m->own_analysis = NULL;
  m->own = NULL;
  m->own_memory = NULL;
  m->pair_count = 0;
}

pbStatus pbDeformMatrix_Grow(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  if (!m->reserve) return pb_ok;

  PB_TRY(make_pairs(w));

  // Twice as much, or as much as a request that failed.
  size_t size = pbReserve_Size(m->reserve), wanted = pbReserve_Wanted(m->reserve);
  if (!wanted) return pb_ok;
  PB_TRY(pbReserve_Grow(m->reserve, wanted > 2 * size ? wanted : 2 * size));
  drop_own(w);

  return pb_ok;
}

void pbDeformMatrix_Destroy(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  pbReserve_Destroy(m->reserve);
  pbSparseFactor_Destroy(m->base_factor);
  void *all[] = {m->base_upper, m->base_symmetric, m->krylov, m->base_values, m->base_work, m->pairs, m->wanted};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(w->ctx, all[i]);
}

// ---- blocks of contacts -----------------------------------------------------------------------------------------------
// By column, then by row.
static bool pair_less(const int *a, const int *b) { return a[1] != b[1] ? a[1] < b[1] : a[0] < b[0]; }

static void swap_pairs(int *a, int *b) {
  int pair[2];
  memcpy(pair, a, sizeof pair);
  memcpy(a, b, sizeof pair);
  memcpy(b, pair, sizeof pair);
}

// Heapsort (Williams 1964), by column: the C library's sort may allocate.
static void sort_pairs(int *pairs, size_t count) {
  size_t top = count / 2, end = count;
  while (end > 1) {
    // First the heap is built from its last parent up, then its largest pair goes to the end, again and again.
    if (top > 0) {
      top--;
    } else {
      end--;
      swap_pairs(pairs, pairs + 2 * end);
    }

    for (size_t parent = top, child; (child = 2 * parent + 1) < end; parent = child) {
      if (child + 1 < end && pair_less(pairs + 2 * child, pairs + 2 * child + 2)) child++;
      if (!pair_less(pairs + 2 * parent, pairs + 2 * child)) break;
      swap_pairs(pairs + 2 * parent, pairs + 2 * child);
    }
  }
}

// Blocks that contacts couple in any of the terms at x and the elements do not, sorted, each once: what touches on the way may
// have parted at its end. The contacts of the first term are at hand afterwards.
static pbStatus find_wanted_pairs(pbDeformWork *w, const double *x) {
  pbDeformMatrix *m = &w->matrix;
  size_t count = 0, distinct = 0;
  for (int t = w->scheme->terms - 1; t >= 0; t--) {
    PB_TRY(pbDeformContact_Update(w, pbDeform_At(w, x, t)));
    count += pbDeformContact_Pairs(w, m->wanted + 2 * count);
  }
  PB_ASSERT(count <= m->pair_room);

  sort_pairs(m->wanted, count);
  for (size_t k = 0; k < count; k++) {
    const int *p = m->wanted + 2 * k;
    if (distinct && !memcmp(p, m->wanted + 2 * (distinct - 1), 2 * sizeof(int))) continue;
    if (pbSparse_Slot(w->d->pattern, p[0], p[1]) >= 0) continue;
    memmove(m->wanted + 2 * distinct, p, 2 * sizeof(int));
    distinct++;
  }

  m->wanted_count = distinct;
  return pb_ok;
}

static size_t align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

typedef struct OwnParts {  // offsets in own_memory; the values of the lower blocks are at its start
  size_t upper, symmetric, slot, work, all;
} OwnParts;

static OwnParts own_parts(const pbDeformWork *w) {
  const pbDeformMatrix *m = &w->matrix;
  size_t values = align(block_bytes(m->own)), more = w->d->unsymmetric ? values : 0;

  OwnParts p = {.upper = values, .symmetric = values + more, .slot = values + 2 * more};
  p.work = p.slot + align(((size_t)w->d->pattern->slots + 1) * sizeof(int));
  p.all = p.work + pbSparseAnalysis_WorkSize(m->own_analysis);

  return p;
}

static pbStatus build_own(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  pbContext *ctx = pbReserve_Context(m->reserve);

  PB_TRY(pbSparsePattern_Create(ctx, d->nfree, d->pattern, m->wanted, m->wanted_count, &m->own));
  PB_TRY(pbSparseAnalysis_Create(ctx, m->own, NULL, &m->own_analysis));
  PB_TRY(pbSparseFactor_Create(ctx, m->own_analysis, &m->own_factor));

  OwnParts at = own_parts(w);
  m->own_memory = pbContext_Alloc(ctx, at.all);
  if (!m->own_memory) return pb_no_memory;

  // The elements' blocks, found in the larger pattern.
  int *slot = (int *)(void *)((char *)m->own_memory + at.slot);

  for (int column = 0; column < d->nfree; column++) {
    for (int k = d->pattern->begin[column]; k < d->pattern->begin[column + 1]; k++) {
      slot[k] = pbSparse_Slot(m->own, d->pattern->row[k], column);
      PB_ASSERT(slot[k] >= 0);
    }
  }

  memcpy(m->pairs, m->wanted, 2 * m->wanted_count * sizeof(int));
  m->pair_count = m->wanted_count;
  return pb_ok;
}

static pbStatus make_own(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  drop_own(w);
  m->made++;
  pbStatus status = build_own(w);

  if (status == pb_ok) return pb_ok;

  // Most likely the pool is too small: pbDeformWork_Grow helps.
  drop_own(w);
  if (status != pb_no_memory)
    return pbDeform_Fail(w, status, "the matrix of contacts: %s", pbContext_Error(pbReserve_Context(m->reserve)));

  return pbDeform_Lacks(w, "the matrix of %zu pairs of points in contact needs more than %zu bytes", m->wanted_count,
                        pbReserve_Size(m->reserve));
}

static void use_base(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;

  m->pattern = d->pattern;
  m->analysis = d->analysis;
  m->factor = m->base_factor;
  m->values = m->base_values;
  m->upper = m->base_upper;
  m->symmetric = m->base_symmetric;
  m->work = m->base_work;
  m->slot = NULL;
}

static void use_own(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  OwnParts at = own_parts(w);
  char *memory = m->own_memory;
  PB_ASSERT(m->own && m->own_factor && memory);

  m->pattern = m->own;
  m->analysis = m->own_analysis;
  m->factor = m->own_factor;
  m->values = (double *)(void *)memory;
  m->upper = w->d->unsymmetric ? (double *)(void *)(memory + at.upper) : NULL;
  m->symmetric = w->d->unsymmetric ? (double *)(void *)(memory + at.symmetric) : NULL;
  m->slot = (int *)(void *)(memory + at.slot);
  m->work = memory + at.work;
}

pbStatus pbDeformMatrix_Begin(pbDeformWork *w, const double *x) {
  pbDeformMatrix *m = &w->matrix;
  if (!w->d->nfree) return pb_ok;

  m->wanted_count = 0;
  if (w->barrier) PB_TRY(find_wanted_pairs(w, x));

  // The pattern of the elements where contacts need nothing else; else one of their own, which is made again where they differ.
  if (m->wanted_count == 0) {
    use_base(w);
  } else {
    bool same = m->own && m->pair_count == m->wanted_count && !memcmp(m->pairs, m->wanted, 2 * m->pair_count * sizeof(int));
    if (!same) PB_TRY(make_own(w));
    use_own(w);
  }

  memset(m->values, 0, block_bytes(m->pattern));
  if (m->upper) memset(m->upper, 0, block_bytes(m->pattern));
  return pb_ok;
}

// ---- values -----------------------------------------------------------------------------------------------------------
void pbDeformMatrix_Add(pbDeformWork *w, int points, const int *vertex, const int *slot, const double *H, double scale) {
  int n = 3 * points;
  if (w->attached) pbAttached_Add(w, points, vertex, H, scale);

  for (int a = 0; a < points; a++) {
    for (int b = 0; b < points; b++) {
      if (slot[a * points + b] < 0) continue;
      PB_ASSERT(slot[a * points + b] < w->matrix.pattern->slots);
      size_t at = 9 * (size_t)slot[a * points + b];

      for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
          w->matrix.values[at + (size_t)(3 * i + j)] += scale * H[(3 * a + i) * n + 3 * b + j];
          if (w->matrix.upper && a != b) w->matrix.upper[at + (size_t)(3 * i + j)] += scale * H[(3 * b + i) * n + 3 * a + j];
        }
      }
    }
  }
}

// ---- factor -----------------------------------------------------------------------------------------------------------
// The rows and columns of fixed axes to those of the identity, in one block. rows, columns: bits of fixed axes.
static void fix_axes(double *lower, double *upper, int rows, int columns, bool diagonal) {
  for (int i = 0; i < 9; i++) {
    if ((rows >> (i / 3) & 1) || (columns >> (i % 3) & 1)) lower[i] = diagonal && i % 4 == 0;
    if (upper && ((columns >> (i / 3) & 1) || (rows >> (i % 3) & 1))) upper[i] = 0;
  }
}

void pbDeformMatrix_Finish(pbDeformWork *w) {
  const pbDeform *d = w->d;
  const pbDeformMatrix *m = &w->matrix;
  const pbSparsePattern *p = m->pattern;

  for (int column = 0; column < p->n; column++) {
    for (int k = p->begin[column]; k < p->begin[column + 1]; k++) {
      int row = p->row[k], row_axes = d->fixed[d->point[row]], column_axes = d->fixed[d->point[column]];
      if (!row_axes && !column_axes) continue;
      fix_axes(m->values + 9 * (size_t)k, m->upper ? m->upper + 9 * (size_t)k : NULL, row_axes, column_axes, row == column);
    }
  }
}

// (A + A')/2, as lower blocks.
static const double *symmetric_part(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  const pbSparsePattern *p = m->pattern;
  double *sum = m->symmetric;

  for (int column = 0; column < p->n; column++) {
    for (int k = p->begin[column]; k < p->begin[column + 1]; k++) {
      const double *lower = m->values + 9 * (size_t)k, *other = p->row[k] == column ? lower : m->upper + 9 * (size_t)k;
      for (int i = 0; i < 9; i++) sum[9 * (size_t)k + (size_t)i] = 0.5 * (lower[i] + other[3 * (i % 3) + i / 3]);
    }
  }

  return sum;
}

// Unsymmetric matrices by GMRES with the factor of the symmetric part: friction is all that differs.
pbStatus pbDeformMatrix_Solve(pbDeformWork *w, bool transposed, double *x) {
  pbDeformMatrix *m = &w->matrix;
  int n = 3 * w->d->nfree;

  if (!m->upper) {
    if (n) pbSparse_Solve(m->factor, 1, x, x, m->work);
    return pb_ok;
  }

  // As an unsymmetric matrix, preconditioned.
  pbSparseMatrix matrix = {m->pattern, m->values, m->upper};
  pbSparseInverse inverse = {m->factor, m->work};
  pbKrylov k = {.n = n,
                .matrix = pbLinear_Matrix(&matrix),
                .precondition = pbLinear_Inverse(&inverse),
                .tolerance = 2e-15,
                .iterations = 120,
                .restart = restart,
                .transposed = transposed};
  pbKrylovReport report;
  double *b = m->krylov;

  // From the solution of the symmetric part; the tolerance is as far as rounding may let it, so a little short of it will do.
  memcpy(b, x, (size_t)n * sizeof *b);
  pbSparse_Solve(m->factor, 1, x, x, m->work);

  pbStatus status = pbGmres_Solve(NULL, &k, b, x, b + n, &report);
  if (status == pb_ok || (status == pb_no_convergence && report.residual < 1e-9)) return pb_ok;

  return pbDeform_Fail(w, status, "the unsymmetric matrix of friction: GMRES ends with a residual of %.3g", report.residual);
}

// Where it is, in the terms of the scene.
static pbStatus refuse_singular(pbDeformWork *w, pbStatus status, int block) {
  int point = w->d->point[block];
  const double *x = w->x + 3 * point;

  return pbDeform_Fail(
      w, status,
      "the matrix of the step is singular at point %d (%.6g %.6g %.6g): nothing holds it, or the equilibrium is not "
      "isolated%s",
      point, x[0], x[1], x[2], pbDeform_Loose(w->d));
}

pbStatus pbDeformMatrix_Factor(pbDeformWork *w, int *negative) {
  pbDeformMatrix *m = &w->matrix;
  int block = 0;

  *negative = 0;

  if (!w->d->nfree) return pb_ok;

  // Indefinite matrices have a factor too; only a pivot that vanishes fails.
  pbDeformMatrix_Finish(w);
  const double *values = m->upper ? symmetric_part(w) : m->values;
  pbStatus status = pbSparse_Factor(NULL, m->factor, values, m->work, &block);

  if (status == pb_ok) {
    *negative = pbSparseFactor_Inertia(m->factor).negative;
    return pb_ok;
  }

  if (status == pb_not_finite)
    return pbDeform_Fail(w, status, "the matrix of the step is not finite at point %d", w->d->point[block]);
  return refuse_singular(w, status, block);
}

pbStatus pbDeformMatrix_RefuseRounding(pbDeformWork *w) {
  static const double least = 1e-12;
  if (!w->d->nfree) return pb_ok;

  pbSparseInertia inertia = pbSparseFactor_Inertia(w->matrix.factor);
  return inertia.smallest < least ? refuse_singular(w, pb_singular, inertia.block) : pb_ok;
}
