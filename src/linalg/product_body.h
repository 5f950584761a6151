// Products over numbers of type `real`, included by product_kernel.c once for each.
static void OF(multiply)(const pbProductShape *shape, const real *A, const real *B, real *C, void *work) {
  (void)work;

  // From an entry to the next one down and to the right.
  size_t a_row = shape->a_transposed ? 1 : (size_t)shape->lda, a_column = shape->a_transposed ? (size_t)shape->lda : 1;
  size_t b_row = shape->b_transposed ? 1 : (size_t)shape->ldb, b_column = shape->b_transposed ? (size_t)shape->ldb : 1;

  for (size_t i = 0; i < (size_t)shape->m; i++) {
    real *row = C + i * (size_t)shape->ldc;
    for (size_t p = 0; p < (size_t)shape->k; p++) {
      // Rank one, row by row: a row of C gets its sums in ascending order.
      real a = A[i * a_row + p * a_column];
      const real *b = B + p * b_row;

      for (size_t j = 0; j < (size_t)shape->n; j++) row[j] += a * b[j * b_column];
    }
  }
}
