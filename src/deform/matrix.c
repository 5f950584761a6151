// The sparse matrix of a step and its factor, with room for what contacts couple.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"

pbStatus pbDeformMatrix_Create(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  if (!d->nfree) return pb_ok;
  m->base_values = pbContext_AllocArray(w->ctx, 9 * (size_t)d->pattern->slots, sizeof(double));
  m->base_work = pbContext_Alloc(w->ctx, pbSparseAnalysis_WorkSize(d->analysis));
  if (!m->base_values || !m->base_work)
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
  void *all[] = {m->base_values, m->base_work, m->pairs, m->wanted};
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

static pbStatus make_own(pbDeformWork *w) {
  const pbDeform *d = w->d;
  pbDeformMatrix *m = &w->matrix;
  drop_own(w);
  pbStatus status = pbSparsePattern_Create(w->ctx, d->nfree, d->pattern, m->wanted, m->wanted_count, &m->own);
  if (status == pb_ok) status = pbSparseAnalysis_Create(w->ctx, m->own, NULL, &m->own_analysis);
  if (status == pb_ok) status = pbSparseFactor_Create(w->ctx, m->own_analysis, &m->own_factor);
  if (status != pb_ok) return no_memory(w);
  size_t values = 9 * (size_t)m->own->slots * sizeof(double), map = ((size_t)d->pattern->slots + 1) * sizeof(int);
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
    m->values = m->base_values, m->work = m->base_work, m->slot = NULL;
  } else {
    bool same = m->own && m->pair_count == m->wanted_count && !memcmp(m->pairs, m->wanted, 2 * m->pair_count * sizeof(int));
    if (!same) PB_TRY(make_own(w));
    size_t values = 9 * (size_t)m->own->slots * sizeof(double), map = ((size_t)d->pattern->slots + 1) * sizeof(int);
    m->pattern = m->own, m->analysis = m->own_analysis, m->factor = m->own_factor, m->values = m->own_memory;
    m->slot = (int *)((char *)m->own_memory + values);
    m->work = (char *)m->own_memory + values + ((map + 7) & ~(size_t)7);
  }
  memset(m->values, 0, 9 * (size_t)m->pattern->slots * sizeof(double));
  return pb_ok;
}

// ---- factor -----------------------------------------------------------------------------------------------------------
void pbDeformMatrix_Finish(pbDeformWork *w) {
  const pbDeform *d = w->d;
  const pbSparsePattern *p = w->matrix.pattern;
  for (int column = 0; column < p->n; column++) {
    for (int k = p->begin[column]; k < p->begin[column + 1]; k++) {
      int r = d->fixed[d->point[p->row[k]]], c = d->fixed[d->point[column]];
      double *block = w->matrix.values + 9 * (size_t)k;
      for (int i = 0; i < 9 && (r || c); i++) {
        if ((r >> (i / 3) & 1) || (c >> (i % 3) & 1)) block[i] = p->row[k] == column && i % 4 == 0;
      }
    }
  }
}

pbStatus pbDeformMatrix_Factor(pbDeformWork *w, int *negative) {
  pbDeformMatrix *m = &w->matrix;
  int block = 0;
  *negative = 0;
  if (!w->d->nfree) return pb_ok;
  pbDeformMatrix_Finish(w);
  pbStatus status = pbSparse_Factor(w->ctx, m->factor, m->values, m->work, &block);
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
