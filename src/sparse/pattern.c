// Patterns of symmetric block matrices, and products with them (sparse.h). Test: tests/unit/test_sparse.c.
#include "sparse/sparse.h"

#include <limits.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"

// Blocks are sorted by two rounds of counting: by row, then by column, which keeps the rows ascending.
typedef struct Lists {
  size_t total;
  int *row, *column, *row_sorted, *column_sorted;
  size_t *begin;  // n + 1
} Lists;

// A stable sort of pairs (a, b) by their key.
static void sort_by_key(const int *key, size_t count, int n, size_t *begin, const int *a, const int *b, int *a_out, int *b_out) {
  memset(begin, 0, sizeof *begin * ((size_t)n + 1));
  for (size_t k = 0; k < count; k++) begin[key[k] + 1]++;
  for (int i = 0; i < n; i++) begin[i + 1] += begin[i];

  for (size_t k = 0; k < count; k++) {
    size_t at = begin[key[k]]++;
    a_out[at] = a[k];
    b_out[at] = b[k];
  }
}

static void put_pair(Lists *l, int row, int column) {
  l->row[l->total] = row;
  l->column[l->total++] = column;
}

static pbStatus take_pairs(pbContext *ctx, int n, const pbSparsePattern *base, const int *pairs, size_t count, Lists *l) {
  for (size_t k = 0; k < count; k++) {
    int i = pairs[2 * k], j = pairs[2 * k + 1];
    if (i < 0 || j < 0 || i >= n || j >= n)
      return pbContext_Fail(ctx, pb_bad_input, "pair %zu of a sparse pattern is (%d, %d): not in 0 .. %d", k, i, j, n - 1);
    if (i != j) put_pair(l, i > j ? i : j, i > j ? j : i);
  }

  // The diagonal always, and what is below it in the base.
  for (int j = 0; j < n; j++) {
    put_pair(l, j, j);
    if (!base) continue;
    for (int s = base->begin[j] + 1; s < base->begin[j + 1]; s++) put_pair(l, base->row[s], j);
  }
  return pb_ok;
}

static bool repeated(const Lists *l, size_t k) { return k > 0 && l->row[k] == l->row[k - 1] && l->column[k] == l->column[k - 1]; }

// Rows of each column in range and ascending, the diagonal first: sparse.h.
static bool is_pattern(const pbSparsePattern *p) {
  for (int j = 0; j < p->n; j++) {
    const int *row = p->row + p->begin[j];
    int count = p->begin[j + 1] - p->begin[j];
    if (count < 1 || row[0] != j || !pb_ascending(row, count) || row[count - 1] >= p->n) return false;
  }
  return true;
}

static pbStatus fill_pattern(pbContext *ctx, pbSparsePattern *p, Lists *l) {
  sort_by_key(l->row, l->total, p->n, l->begin, l->row, l->column, l->row_sorted, l->column_sorted);
  sort_by_key(l->column_sorted, l->total, p->n, l->begin, l->row_sorted, l->column_sorted, l->row, l->column);

  size_t slots = 0;
  for (size_t k = 0; k < l->total; k++) slots += !repeated(l, k);

  // Places of numbers are ints.
  if (slots > INT_MAX / 9) return pbContext_Fail(ctx, pb_capacity, "%zu blocks in a sparse pattern: too many", slots);

  p->begin = pbContext_AllocArray(ctx, (size_t)p->n + 1, sizeof *p->begin);
  p->row = pbContext_AllocArray(ctx, slots + 1, sizeof *p->row);
  if (!p->begin || !p->row) return pbContext_Fail(ctx, pb_no_memory, "no memory for a sparse pattern of %zu blocks", slots);

  for (size_t k = 0; k < l->total; k++) {
    // Sorted by column, then row: repeated pairs follow each other.
    if (!repeated(l, k)) p->row[p->slots++] = l->row[k];
    p->begin[l->column[k] + 1] = p->slots;
  }
  PB_ASSERT(p->slots == (int)slots && p->begin[p->n] == p->slots);
  PB_VALIDATE(is_pattern(p));
  return pb_ok;
}

pbStatus pbSparsePattern_Create(pbContext *ctx, int n, const pbSparsePattern *base, const int *pairs, size_t count,
                                pbSparsePattern **pattern) {
  *pattern = NULL;
  if (n < 0 || n > INT_MAX / 9 || (base && base->n != n) || count > SIZE_MAX / 64)
    return pbContext_Fail(ctx, pb_bad_argument, "a sparse pattern of %d rows, %zu pairs%s", n, count,
                          base && base->n != n ? ", over a pattern of another size" : "");
  // Rows and columns, unsorted and sorted by row.

  size_t most = count + (size_t)n + (size_t)(base ? base->slots : 0);
  pbSparsePattern *p = pbContext_Alloc(ctx, sizeof *p);
  int *memory = pbContext_AllocArray(ctx, 4 * most + 1, sizeof *memory);
  Lists l = {.begin = pbContext_AllocArray(ctx, (size_t)n + 1, sizeof *l.begin)};

  pbStatus status = pb_no_memory;
  if (p && memory && l.begin) {
    *p = (pbSparsePattern){.ctx = ctx, .n = n};
    l.row = memory;
    l.column = memory + most;
    l.row_sorted = memory + 2 * most;
    l.column_sorted = memory + 3 * most;
    status = take_pairs(ctx, n, base, pairs, count, &l);
    if (status == pb_ok) status = fill_pattern(ctx, p, &l);
    if (status != pb_ok) pbSparsePattern_Destroy(p);
  } else {
    pbContext_Fail(ctx, status, "no memory for a sparse pattern of %zu pairs", count);
    pbContext_Free(ctx, p);
  }

  pbContext_Free(ctx, memory);
  pbContext_Free(ctx, l.begin);
  if (status == pb_ok) *pattern = p;
  return status;
}

void pbSparsePattern_Destroy(pbSparsePattern *p) {
  if (!p) return;
  pbContext *ctx = p->ctx;
  pbContext_Free(ctx, p->begin);
  pbContext_Free(ctx, p->row);
  pbContext_Free(ctx, p);
}

int pbSparse_Slot(const pbSparsePattern *p, int i, int j) {
  int row = i > j ? i : j, column = i > j ? j : i, low = p->begin[column], high = p->begin[column + 1] - 1;
  PB_ASSERT(column >= 0 && row < p->n);

  // Bisection in the column's rows.
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (p->row[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return p->row[low] == row ? low : -1;
}

// y += B x, y += B' x
static void add_product(const double *B, const double *x, double *y) {
  for (int r = 0; r < 3; r++) y[r] += B[3 * r] * x[0] + B[3 * r + 1] * x[1] + B[3 * r + 2] * x[2];
}
static void add_transposed(const double *B, const double *x, double *y) {
  for (int c = 0; c < 3; c++) y[c] += B[c] * x[0] + B[3 + c] * x[1] + B[6 + c] * x[2];
}

void pbSparse_Multiply(const pbSparsePattern *p, const double *values, const double *upper, bool transposed, const double *x,
                       double *y) {
  PB_ASSERT(x != y && values != upper);
  memset(y, 0, sizeof *y * 3 * (size_t)p->n);
  for (int j = 0; j < p->n; j++) {
    const double *xj = x + 3 * j;

    // The diagonal block, whole.
    double yj[3] = {0};
    int s = p->begin[j];
    (transposed ? add_transposed : add_product)(values + 9 * s, xj, yj);

    // Each block below the diagonal with its counterpart above: its transpose, or what `upper` has.
    for (s++; s < p->begin[j + 1]; s++) {
      const double *B = values + 9 * s, *xi = x + 3 * p->row[s];
      double *yi = y + 3 * p->row[s];
      if (!upper) {
        add_product(B, xj, yi);
        add_transposed(B, xi, yj);
      } else if (transposed) {
        add_transposed(upper + 9 * s, xj, yi);
        add_transposed(B, xi, yj);
      } else {
        add_product(B, xj, yi);
        add_product(upper + 9 * s, xi, yj);
      }
    }
    for (int r = 0; r < 3; r++) y[3 * j + r] += yj[r];
  }
}
