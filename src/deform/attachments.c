// Attached points: their positions follow from the bodies' accelerations, so rows of an element's Hessian for them go through J =
// dx/da.
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "deform/deform.h"

void pbAttached_Clear(pbDeformWork *w) {
  pbAttachedTerms *r = w->attached;
  size_t n = (size_t)r->n;

  memset(r->A, 0, n * n * sizeof(double));
  memset(r->B, 0, n * 3 * (size_t)w->d->nfree * sizeof(double));
}

// B[:, b] += scale J_a' H_ab for an attached point a and a free point b (fixed axes have no column).
static void add_with_free(pbDeformWork *w, int attached, int point, const double *H, int n, double scale) {
  const pbDeform *d = w->d;
  pbAttachedTerms *r = w->attached;
  const double *J = r->J + (size_t)(3 * attached * r->n);
  int block = d->unknown[point], width = 3 * d->nfree;

  PB_ASSERT(attached >= 0 && attached < d->nattached && block >= 0 && block < d->nfree);

  for (int k = 0; k < r->n; k++) {
    for (int j = 0; j < 3; j++) {
      if (d->fixed[point] >> j & 1) continue;

      double sum = 0;
      for (int i = 0; i < 3; i++) sum += J[i * r->n + k] * H[i * n + j];
      r->B[(size_t)k * (size_t)width + (size_t)(3 * block + j)] += scale * sum;
    }
  }
}

// A += scale J_a' H_ab J_b.
static void add_with_attached(pbAttachedTerms *r, int a, int b, const double *H, int n, double scale) {
  const double *Ja = r->J + (size_t)(3 * a * r->n), *Jb = r->J + (size_t)(3 * b * r->n);

  // Row i of H_ab times J_b, one column at a time, then the outer product with row i of J_a.
  for (int i = 0; i < 3; i++) {
    for (int l = 0; l < r->n; l++) {
      double HJ = 0;

      for (int j = 0; j < 3; j++) HJ += H[i * n + j] * Jb[j * r->n + l];
      for (int k = 0; k < r->n; k++) r->A[k * r->n + l] += scale * Ja[i * r->n + k] * HJ;
    }
  }
}

void pbAttached_Add(pbDeformWork *w, int points, const int *vertex, const double *H, double scale) {
  const pbDeform *d = w->d;
  int n = 3 * points;

  for (int a = 0; a < points; a++) {
    int attached = d->attached_of[vertex[a]];
    if (attached < 0) continue;

    // Blocks of H by rows of attached points; those of free points alone are in the sparse matrix.
    for (int b = 0; b < points; b++) {
      const double *block = H + 3 * a * n + 3 * b;
      int other = d->attached_of[vertex[b]];

      if (other >= 0) add_with_attached(w->attached, attached, other, block, n, scale);
      else if (d->unknown[vertex[b]] >= 0) add_with_free(w, attached, vertex[b], block, n, scale);
    }
  }
}
