// The sparse matrix of a step and its factor, with room for what contacts couple.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"
#include "sparse/krylov.h"

enum { restart = 40 };  // of GMRES
static size_t krylov_room(const pbDeform *d) {
  return pbGmres_WorkSize(3 * d->nfree, restart) + 3 * (size_t)d->nfree * sizeof(double) + 64;
}

pbStatus pbDeformMatrix_Create(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  if (!d->nfree) return pb_ok;
  m->base_values = pbContext_AllocArray(w->ctx, 9 * (size_t)d->pattern->slots, sizeof(double));
  m->base_work = pbContext_Alloc(w->ctx, pbSparseAnalysis_WorkSize(d->analysis));
  if (d->unsymmetric) {
    m->base_upper = pbContext_AllocArray(w->ctx, 9 * (size_t)d->pattern->slots, sizeof(double));
    m->krylov = pbContext_Alloc(w->ctx, krylov_room(d));
  }
  if (!m->base_values || !m->base_work || (d->unsymmetric && (!m->base_upper || !m->krylov)))
    return pbContext_Fail(w->ctx, pb_no_memory, "no memory for a matrix of %d points", d->nfree);
  return pbSparseFactor_Create(w->ctx, d->analysis, &m->base_factor);
}

static void drop_own(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  pbSparseFactor_Destroy(m->own_factor);
  pbSparseAnalysis_Destroy(m->own_analysis);
  pbSparsePattern_Destroy(m->own);
  pbContext_Free(w->ctx, m->own_memory);
  m->own_factor = NULL, m->own_analysis = NULL, m->own = NULL, m->own_memory = NULL;
  m->pair_count = 0;
}

void pbDeformMatrix_Destroy(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  drop_own(w);
  pbSparseFactor_Destroy(m->base_factor);
  void *all[] = {m->base_upper, m->krylov, m->symmetric, m->base_values, m->base_work, m->pairs, m->wanted};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(w->ctx, all[i]);
}

// ---- blocks of contacts -----------------------------------------------------------------------------------------------
static int by_column(const void *a, const void *b) {
  const int *x = a, *y = b;
  return x[1] != y[1] ? (x[1] > y[1]) - (x[1] < y[1]) : (x[0] > y[0]) - (x[0] < y[0]);
}

static pbStatus no_memory(pbDeformWork *w) { return pbDeform_Fail(w, pb_no_memory, "no memory for the matrix of contacts"); }

static bool room(pbContext *ctx, int **list, size_t *held, size_t count) {
  if (count <= *held) return true;
  size_t more = count + count / 2;
  int *grown = pbContext_Resize(ctx, *list, 2 * more * sizeof(int));
  if (!grown) return false;
  *list = grown, *held = more;
  return true;
}

// Blocks that contacts couple and the elements do not, sorted, each once.
static pbStatus want(pbDeformWork *w) {
  pbDeformMatrix *m = &w->matrix;
  size_t count = pbDeformContact_Pairs(w, NULL), kept = 0;
  if (!room(w->ctx, &m->wanted, &m->wanted_room, count + 1)) return no_memory(w);
  pbDeformContact_Pairs(w, m->wanted);
  qsort(m->wanted, count, 2 * sizeof(int), by_column);
  for (size_t k = 0; k < count; k++) {
    const int *p = m->wanted + 2 * k;
    if (kept && !memcmp(p, m->wanted + 2 * (kept - 1), 2 * sizeof(int))) continue;
    if (pbSparse_Slot(w->d->pattern, p[0], p[1]) >= 0) continue;
    memmove(m->wanted + 2 * kept++, p, 2 * sizeof(int));
  }
  m->wanted_count = kept;
  return pb_ok;
}

static size_t blocks(const pbSparsePattern *p) { return 9 * (size_t)p->slots * sizeof(double); }

static pbStatus make_own(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  drop_own(w);
  pbStatus status = pbSparsePattern_Create(w->ctx, d->nfree, d->pattern, m->wanted, m->wanted_count, &m->own);
  if (status == pb_ok) status = pbSparseAnalysis_Create(w->ctx, m->own, NULL, &m->own_analysis);
  if (status == pb_ok) status = pbSparseFactor_Create(w->ctx, m->own_analysis, &m->own_factor);
  if (status != pb_ok) return no_memory(w);
  size_t values = blocks(m->own) * (d->unsymmetric ? 2 : 1), map = ((size_t)d->pattern->slots + 1) * sizeof(int);
  size_t all = values + ((map + 7) & ~(size_t)7) + pbSparseAnalysis_WorkSize(m->own_analysis);
  if (!(m->own_memory = pbContext_Alloc(w->ctx, all)) || !room(w->ctx, &m->pairs, &m->pair_room, m->wanted_count + 1))
    return no_memory(w);
  memcpy(m->pairs, m->wanted, 2 * m->wanted_count * sizeof(int));
  m->pair_count = m->wanted_count;
  int *slot = (int *)((char *)m->own_memory + values);
  for (int column = 0; column < d->nfree; column++) {
    for (int k = d->pattern->begin[column]; k < d->pattern->begin[column + 1]; k++)
      slot[k] = pbSparse_Slot(m->own, d->pattern->row[k], column);
  }
  return pb_ok;
}

pbStatus pbDeformMatrix_Begin(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  if (!d->nfree) return pb_ok;
  m->wanted_count = 0;
  if (w->barrier) PB_TRY(want(w));
  if (m->wanted_count == 0) {
    m->pattern = d->pattern, m->analysis = d->analysis, m->factor = m->base_factor;
    m->values = m->base_values, m->upper = m->base_upper, m->work = m->base_work, m->slot = NULL;
  } else {
    bool same = m->own && m->pair_count == m->wanted_count && !memcmp(m->pairs, m->wanted, 2 * m->pair_count * sizeof(int));
    if (!same) PB_TRY(make_own(w));
    size_t values = blocks(m->own) * (d->unsymmetric ? 2 : 1), map = ((size_t)d->pattern->slots + 1) * sizeof(int);
    m->pattern = m->own, m->analysis = m->own_analysis, m->factor = m->own_factor, m->values = m->own_memory;
    m->upper = d->unsymmetric ? m->values + 9 * (size_t)m->own->slots : NULL;
    m->slot = (int *)((char *)m->own_memory + values);
    m->work = (char *)m->own_memory + values + ((map + 7) & ~(size_t)7);
  }
  memset(m->values, 0, blocks(m->pattern));
  if (m->upper) memset(m->upper, 0, blocks(m->pattern));
  return pb_ok;
}

// ---- values -----------------------------------------------------------------------------------------------------------
void pbDeformMatrix_Add(pbDeformWork *w, int points, const int *vertex, const int *slot, const double *H, double scale) {
  int n = 3 * points;
  if (w->riders) pbRiders_Add(w, points, vertex, H, scale);
  for (int a = 0; a < points; a++) {
    for (int b = 0; b < points; b++) {
      if (slot[a * points + b] < 0) continue;
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
void pbDeformMatrix_Finish(pbDeformWork *w) {
  const pbDeform *d = w->d;
  const pbSparsePattern *p = w->matrix.pattern;
  for (int column = 0; column < p->n; column++) {
    for (int k = p->begin[column]; k < p->begin[column + 1]; k++) {
      int r = d->fixed[d->point[p->row[k]]], c = d->fixed[d->point[column]];
      double *block = w->matrix.values + 9 * (size_t)k, *upper = w->matrix.upper ? w->matrix.upper + 9 * (size_t)k : NULL;
      for (int i = 0; i < 9 && (r || c); i++) {
        if ((r >> (i / 3) & 1) || (c >> (i % 3) & 1)) block[i] = p->row[k] == column && i % 4 == 0;
        if (upper && ((c >> (i / 3) & 1) || (r >> (i % 3) & 1))) upper[i] = 0;
      }
    }
  }
}

static pbStatus symmetric_part(pbDeformWork *w, const double **values) {
  pbDeformMatrix *m = &w->matrix;
  const pbSparsePattern *p = m->pattern;
  double *sum = pbContext_Resize(w->ctx, m->symmetric, blocks(p));
  if (!sum) return no_memory(w);
  *values = m->symmetric = sum;
  for (int column = 0; column < p->n; column++) {
    for (int k = p->begin[column]; k < p->begin[column + 1]; k++) {
      const double *lower = m->values + 9 * (size_t)k, *other = p->row[k] == column ? lower : m->upper + 9 * (size_t)k;
      for (int i = 0; i < 9; i++) sum[9 * (size_t)k + (size_t)i] = 0.5 * (lower[i] + other[3 * (i % 3) + i / 3]);
    }
  }
  return pb_ok;
}

// Unsymmetric matrices by GMRES with the factor of the symmetric part: friction is all that differs.
pbStatus pbDeformMatrix_Solve(pbDeformWork *w, bool transposed, double *x) {
  pbDeformMatrix *m = &w->matrix;
  int n = 3 * w->d->nfree;
  if (!m->upper) {
    if (n) pbSparse_Solve(m->factor, 1, x, x, m->work);
    return pb_ok;
  }
  pbSparseMatrix matrix = {m->pattern, m->values, m->upper};
  pbSparseInverse inverse = {m->factor, m->work};
  pbKrylov k = {n, pbLinear_Matrix(&matrix), pbLinear_Inverse(&inverse), 2e-15, 120, restart, transposed};
  pbKrylovReport report;
  double *b = m->krylov;
  memcpy(b, x, (size_t)n * sizeof *b);
  pbSparse_Solve(m->factor, 1, x, x, m->work);
  pbStatus status = pbGmres_Solve(NULL, &k, b, x, b + n, &report);
  if (status == pb_ok || (status == pb_no_convergence && report.residual < 1e-9)) return pb_ok;
  return pbDeform_Fail(w, status, "the unsymmetric matrix of friction: GMRES ends with a residual of %.3g", report.residual);
}

pbStatus pbDeformMatrix_Factor(pbDeformWork *w, int *negative) {
  pbDeformMatrix *m = &w->matrix;
  int block = 0;
  *negative = 0;
  if (!w->d->nfree) return pb_ok;
  pbDeformMatrix_Finish(w);
  const double *values = m->values;
  if (m->upper) PB_TRY(symmetric_part(w, &values));
  pbStatus status = pbSparse_Factor(NULL, m->factor, values, m->work, &block);
  if (status == pb_ok) {
    *negative = pbSparseFactor_Inertia(m->factor).negative;
    return pb_ok;
  }
  int point = w->d->point[block];
  const double *x = w->x + 3 * point;
  if (status == pb_not_finite) return pbDeform_Fail(w, status, "the matrix of the step is not finite at point %d", point);
  return pbDeform_Fail(
      w, status,
      "the matrix of the step is singular at point %d (%.6g %.6g %.6g): nothing holds it, or the equilibrium is not "
      "isolated",
      point, x[0], x[1], x[2]);
}
