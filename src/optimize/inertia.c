// Mass, center and inertia of a body as ten unknowns without bounds: the log-Cholesky factor of its pseudo-inertia (Rucker &
// Wensing, IEEE Robotics and Automation Letters 7(2), 2022). Any ten numbers are a body that can be:
// z = (a, d1, d2, d3, s12, s23, s13, t) with mass m = exp(2 a), center t, and second moments m L L' about it, L upper triangular
// with exp(d) on its diagonal.
// Tests: tests/unit/test_inertia.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "optimize/inertia.h"
#include "optimize/optimizer.h"

// Moments that are equal have any axes: what tells them apart is this part of their sum, or derivatives by the axes say nothing.
static const double apart = 1e-7;
// A rod or plate without thickness has none of this.
static const double thickness = 1e-9;

const char *const pbInertia_Names[PB_INERTIA] = {"mass", "x", "y", "z", "xx", "yy", "zz", "xy", "xz", "yz"};
const char *const pbInertia_Unknowns[PB_INERTIA] = {"density", "spread x", "spread y", "spread z", "skew xy",
                                                    "skew yz", "skew xz",  "x",        "y",        "z"};

// ---- small matrices, row-major ----------------------------------------------------------------------------------------
static void outer(const double L[9], double S[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) S[3 * i + j] = L[3 * i] * L[3 * j] + L[3 * i + 1] * L[3 * j + 1] + L[3 * i + 2] * L[3 * j + 2];
  }
}

// dS = dL L' + L dL'
static void outer_by(const double L[9], const double dL[9], double dS[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      double sum = 0;
      for (int k = 0; k < 3; k++) sum += dL[3 * i + k] * L[3 * j + k] + L[3 * i + k] * dL[3 * j + k];
      dS[3 * i + j] = sum;
    }
  }
}

// Moments of inertia from second moments, and back but for the factor: I = tr(S) 1 - S.
static void moments(const double S[9], double I[9]) {
  double trace = S[0] + S[4] + S[8];
  for (int i = 0; i < 9; i++) I[i] = (i % 4 == 0 ? trace : 0) - S[i];
}

static void second_moments(const double I[9], double S[9]) {
  double half = 0.5 * (I[0] + I[4] + I[8]);
  for (int i = 0; i < 9; i++) S[i] = (i % 4 == 0 ? half : 0) - I[i];
}

static const int place[6] = {0, 4, 8, 1, 2, 5};  // of xx, yy, zz, xy, xz, yz

static void unpack(const double six[6], double I[9]) {
  for (int k = 0; k < 6; k++) I[place[k]] = I[3 * (place[k] % 3) + place[k] / 3] = six[k];
}

// R' A R
static void rotate_in(const double R[9], const double A[9], double out[9]) {
  double AR[9];
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) AR[3 * i + j] = A[3 * i] * R[j] + A[3 * i + 1] * R[3 + j] + A[3 * i + 2] * R[6 + j];
  }

  // R' (A R)
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) out[3 * i + j] = R[i] * AR[j] + R[3 + i] * AR[3 + j] + R[6 + i] * AR[6 + j];
  }
}

// R A R'
static void rotate_out(const double R[9], const double A[9], double out[9]) {
  const double T[9] = {R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8]};
  rotate_in(T, A, out);
}

// ---- from unknowns to values --------------------------------------------------------------------------------------------
static void factor(const double *z, double L[9]) {
  const double given[9] = {pbExp(z[1]), z[4], z[6], 0, pbExp(z[2]), z[5], 0, 0, pbExp(z[3])};
  memcpy(L, given, sizeof given);
}

void pbInertia_Values(const double *z, double *value) {
  double L[9], S[9], I[9], mass = pbExp(2 * z[0]);
  factor(z, L);
  outer(L, S);
  moments(S, I);

  // the center stands for itself
  value[0] = mass;
  memcpy(value + 1, z + 7, 3 * sizeof *z);
  for (int k = 0; k < 6; k++) value[4 + k] = mass * I[place[k]];
}

void pbInertia_ValuesBy(const double *z, double *J) {
  double L[9], value[PB_INERTIA];
  factor(z, L);
  pbInertia_Values(z, value);
  memset(J, 0, PB_INERTIA * PB_INERTIA * sizeof *J);

  // The mass is a factor of all moments; the center stands for itself.
  J[0] = 2 * value[0];
  for (int k = 0; k < 6; k++) J[(4 + k) * PB_INERTIA] = 2 * value[4 + k];
  for (int k = 0; k < 3; k++) J[(1 + k) * PB_INERTIA + 7 + k] = 1;

  // Entries of L, those of the diagonal by their logarithms.
  static const int entry[6] = {0, 4, 8, 1, 5, 2};
  for (int c = 0; c < 6; c++) {
    double dL[9] = {0}, dS[9], dI[9];
    dL[entry[c]] = c < 3 ? L[entry[c]] : 1;
    outer_by(L, dL, dS);
    moments(dS, dI);
    for (int k = 0; k < 6; k++) J[(4 + k) * PB_INERTIA + 1 + c] = value[0] * dI[place[k]];
  }
}

// L L' = S / m from the last row up: L is upper triangular. False where a pivot is none.
static bool factorize(const double S[9], double mass, double least, double L[9]) {
  memset(L, 0, 9 * sizeof *L);
  for (int j = 2; j >= 0; j--) {
    for (int i = j; i >= 0; i--) {
      double sum = S[3 * i + j] / mass;
      for (int k = j + 1; k < 3; k++) sum -= L[3 * i + k] * L[3 * j + k];

      // a pivot on the diagonal
      if (i == j && !(sum > least)) return false;
      L[3 * i + j] = i == j ? sqrt(sum) : sum / L[3 * j + j];
    }
  }

  return true;
}

// Of second moments that are none, as of a rod or plate without thickness, the least that there is; false below that.
static bool thicken(const double I[9], double trace, double S[9]) {
  double A[9], V[9], root[3], D[9] = {0};
  memcpy(A, I, sizeof A);
  pbVec_Eigen(A, V, root, 3);

  // about each principal axis: what is missing by more than rounding is no body
  for (int k = 0; k < 3; k++) {
    double second = trace - root[k] * root[k];
    if (second < -thickness * trace) return false;
    D[4 * k] = fmax(second, 2 * thickness * trace);
  }

  rotate_out(V, D, S);

  return true;
}

bool pbInertia_Start(const double *value, double *z) {
  double I[9], S[9], L[9], mass = value[0];
  unpack(value + 4, I);
  second_moments(I, S);

  // as it is, or thickened where it has no extent
  double trace = S[0] + S[4] + S[8], least = thickness * trace / mass;
  if (!(mass > 0) || !(trace > 0) || !isfinite(trace)) return false;
  if (!factorize(S, mass, least, L) && !(thicken(I, trace, S) && factorize(S, mass, 0, L))) return false;

  const double given[PB_INERTIA] = {0.5 * pbLog(mass), pbLog(L[0]), pbLog(L[4]), pbLog(L[8]), L[1], L[5], L[2],
                                    value[1],          value[2],    value[3]};
  memcpy(z, given, sizeof given);

  return true;
}

// ---- from values to the model's numbers -----------------------------------------------------------------------------------
typedef struct Axes {
  double R[9], D[3];  // principal axes, in columns, and moments, no two of them equal
} Axes;

static void find_axes(const double *value, Axes *axes) {
  double I[9], root[3], *R = axes->R;
  unpack(value + 4, I);
  pbVec_Eigen(I, R, root, 3);
  for (int k = 0; k < 3; k++) axes->D[k] = root[k] * root[k];

  // A right-handed frame.
  double det = R[0] * (R[4] * R[8] - R[5] * R[7]) - R[1] * (R[3] * R[8] - R[5] * R[6]) + R[2] * (R[3] * R[7] - R[4] * R[6]);
  for (int i = 0; i < 3; i++) R[3 * i + 2] *= det < 0 ? -1 : 1;

  // moments apart: moving one may meet the third, so twice
  double *D = axes->D, least = apart * (D[0] + D[1] + D[2]);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++) {
      int j = (i + 1) % 3, low = D[i] <= D[j] ? i : j, high = low == i ? j : i;
      double missing = least - (D[high] - D[low]);
      if (missing > 0) D[high] += missing;
    }
  }

  // Of a rod without thickness the larger one is then more than the others together.
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3, low = D[j] < D[k] ? j : k;
    double more = D[i] - D[j] - D[k];
    if (more > 0) D[low] += more + 1e-15 * D[i];
  }
}

static void to_quaternion(const double R[9], double q[4]) {
  // The largest of the four first (Shepperd 1978).
  double trace = R[0] + R[4] + R[8], most = trace;
  int k = -1;
  for (int i = 0; i < 3; i++) {
    if (R[4 * i] > most) {
      most = R[4 * i];
      k = i;
    }
  }

  // the real part is the largest
  if (k < 0) {
    q[0] = 0.5 * sqrt(1 + trace);
    q[1] = (R[7] - R[5]) / (4 * q[0]);
    q[2] = (R[2] - R[6]) / (4 * q[0]);
    q[3] = (R[3] - R[1]) / (4 * q[0]);
    return;
  }

  // or that of axis k
  int i = (k + 1) % 3, j = (k + 2) % 3;
  double size = 0.5 * sqrt(1 + R[4 * k] - R[4 * i] - R[4 * j]);
  q[1 + k] = size;
  q[0] = (R[3 * j + i] - R[3 * i + j]) / (4 * size);
  q[1 + i] = (R[3 * i + k] + R[3 * k + i]) / (4 * size);
  q[1 + j] = (R[3 * j + k] + R[3 * k + j]) / (4 * size);
}

void pbInertia_Put(const double *value, double *number) {
  Axes axes;
  find_axes(value, &axes);

  // mass and center are the model's own numbers
  memcpy(number, value, 4 * sizeof *number);
  to_quaternion(axes.R, number + 4);
  memcpy(number + 8, axes.D, sizeof axes.D);
}

// q exp(w) by w at 0: columns of dq, half of q times each unit vector.
static void quaternion_by(const double q[4], double Q[12]) {
  const double given[12] = {-q[1], -q[2], -q[3], q[0], -q[3], q[2], q[3], q[0], -q[1], -q[2], q[1], q[0]};
  for (int i = 0; i < 12; i++) Q[i] = 0.5 * given[i];
}

// In the principal frame dI_12 = -w3 (D2 - D1), dI_13 = w2 (D3 - D1), dI_23 = -w1 (D3 - D2), dI_ii = dD_i.
void pbInertia_Pull(const double *value, const double *bar, double *value_bar) {
  Axes axes;
  double q[4], Q[12], w[3] = {0}, in[9], I[9];
  const double *D = axes.D;
  find_axes(value, &axes);
  to_quaternion(axes.R, q);
  quaternion_by(q, Q);

  // to the rotation of the axes, then to the tensor in them
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < 4; i++) w[k] += Q[3 * i + k] * bar[4 + i];
  }

  in[0] = bar[8];
  in[4] = bar[9];
  in[8] = bar[10];
  in[1] = in[3] = -0.5 * w[2] / (D[1] - D[0]);
  in[2] = in[6] = 0.5 * w[1] / (D[2] - D[0]);
  in[5] = in[7] = -0.5 * w[0] / (D[2] - D[1]);

  rotate_out(axes.R, in, I);

  // Entries off the diagonal stand twice.
  for (int k = 0; k < 4; k++) value_bar[k] += bar[k];
  for (int k = 0; k < 6; k++) value_bar[4 + k] += (k < 3 ? 1 : 2) * I[place[k]];
}

void pbInertia_Push(const double *value, const double *by, double *number) {
  Axes axes;
  double q[4], Q[12], I[9], in[9];
  const double *D = axes.D;
  find_axes(value, &axes);
  to_quaternion(axes.R, q);
  quaternion_by(q, Q);

  // the tensor's move, in the principal frame
  unpack(by + 4, I);
  rotate_in(axes.R, I, in);

  const double w[3] = {-in[5] / (D[2] - D[1]), in[2] / (D[2] - D[0]), -in[1] / (D[1] - D[0])};

  memcpy(number, by, 4 * sizeof *number);
  for (int i = 0; i < 4; i++) number[4 + i] = Q[3 * i] * w[0] + Q[3 * i + 1] * w[1] + Q[3 * i + 2] * w[2];
  for (int k = 0; k < 3; k++) number[8 + k] = in[4 * k];
}
