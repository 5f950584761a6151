// Attached points: their positions follow from the bodies' accelerations, so rows of an element's Hessian for them go through J = dx/da.
#include <string.h>

#include "deform/deform.h"

void pbAttached_Clear(pbDeformWork *w) {
  pbAttachedTerms *r = w->attached;
  size_t n = (size_t)r->n;

  memset(r->A, 0, n * n * sizeof(double));
  memset(r->B, 0, n * 3 * (size_t)w->d->nfree * sizeof(double));
}

// B[:, b] += scale J_a' H_ab for an attached point a and a free point b (fixed axes have no column).
static void with_point(pbDeformWork *w, int attached, int point, const double *H, int n, double scale) {
  const pbDeform *d = w->d;
  pbAttachedTerms *r = w->attached;
  const double *J = r->J + (size_t)(3 * attached * r->n);
  int block = d->unknown[point], width = 3 * d->nfree;

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
static void with_attached(pbAttachedTerms *r, int a, int b, const double *H, int n, double scale) {
  const double *Ja = r->J + (size_t)(3 * a * r->n), *Jb = r->J + (size_t)(3 * b * r->n);
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
    for (int b = 0; attached >= 0 && b < points; b++) {
      const double *block = H + 3 * a * n + 3 * b;
      if (d->attached_of[vertex[b]] >= 0) with_attached(w->attached, attached, d->attached_of[vertex[b]], block, n, scale);
      else if (d->unknown[vertex[b]] >= 0) with_point(w, attached, vertex[b], block, n, scale);
    }
  }
}
