#include "deform/project.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

// A := J' A J, V := V J with J a rotation in the plane (p, q) that makes A[p][q] zero.
static void rotate(double *A, double *V, int n, int p, int q) {
  double theta = 0.5 * (A[q * n + q] - A[p * n + p]) / A[p * n + q];
  double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1), s = t * c;
  for (int k = 0; k < n; k++) {
    double a = A[k * n + p], b = A[k * n + q];
    A[k * n + p] = c * a - s * b, A[k * n + q] = s * a + c * b;
  }
  for (int k = 0; k < n; k++) {
    double a = A[p * n + k], b = A[q * n + k];
    A[p * n + k] = c * a - s * b, A[q * n + k] = s * a + c * b;
    a = V[k * n + p], b = V[k * n + q];
    V[k * n + p] = c * a - s * b, V[k * n + q] = s * a + c * b;
  }
}

static double off_diagonal(const double *A, int n) {
  double sum = 0;
  for (int p = 0; p < n; p++) {
    for (int q = p + 1; q < n; q++) sum += A[p * n + q] * A[p * n + q];
  }
  return sum;
}

// Most matrices need nothing: elimination without a negative pivot says so for a fraction of the cost.
static bool semidefinite(const double *A, int n, double *L) {
  double most = 0;
  memcpy(L, A, (size_t)(n * n) * sizeof *L);
  for (int i = 0; i < n; i++) most = fmax(most, fabs(A[i * n + i]));
  for (int k = 0; k < n; k++) {
    double pivot = L[k * n + k];
    bool none = fabs(pivot) <= 1e-10 * most;  // a rigid motion: the rest of its column must vanish too
    if (!none && pivot < 0) return false;
    for (int i = k + 1; i < n; i++) {
      double f = L[i * n + k];
      if (none && fabs(f) > 1e-9 * most) return false;
      for (int j = k + 1; j <= i && !none; j++) L[i * n + j] -= f * L[j * n + k] / pivot;
    }
  }
  return true;
}

void pbProject_Definite(double *A, int n, double *room) {
  double *D = room, *V = room + n * n, all = 0;
  bool positive = true;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) A[i * n + j] = A[j * n + i] = 0.5 * (A[i * n + j] + A[j * n + i]);
  }
  if (semidefinite(A, n, room)) return;
  memcpy(D, A, (size_t)(n * n) * sizeof *A);
  memset(V, 0, (size_t)(n * n) * sizeof *V);
  for (int i = 0; i < n; i++) V[i * n + i] = 1;
  for (int i = 0; i < n * n; i++) all += A[i] * A[i];
  for (int sweep = 0; sweep < 30 && off_diagonal(D, n) > 1e-24 * all; sweep++) {
    for (int p = 0; p < n; p++) {
      for (int q = p + 1; q < n; q++) {
        if (fabs(D[p * n + q]) > 1e-300) rotate(D, V, n, p, q);
      }
    }
  }
  for (int i = 0; i < n; i++) positive = positive && D[i * n + i] >= 0;
  if (positive) return;
  memset(A, 0, (size_t)(n * n) * sizeof *A);
  for (int k = 0; k < n; k++) {
    double value = fabs(D[k * n + k]);
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) A[i * n + j] += value * V[i * n + k] * V[j * n + k];
    }
  }
}
