// Orientations in the forms that a file may state them, principal axes of inertia, composition of frames.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "elementary/elementary.h"
#include "math/vec.h"

double pbPose_Normalize(double *v, int n) {
  double sum = 0;
  // The threshold is on the square, as in MuJoCo's compiler.
  for (int i = 0; i < n; i++) sum += v[i] * v[i];
  if (!(sum >= PB_TINY)) return 0;
  double length = sqrt(sum);
  if (fabs(length - 1) > PB_TINY) {  // what is unit already keeps its bits
    for (int i = 0; i < n; i++) v[i] /= length;
  }
  return length;
}

void pbPose_MulQuat(double r[4], const double a[4], const double b[4]) {
  quat_mul(r, a, b);
  pbPose_Normalize(r, 4);
}

static bool is_identity(const double q[4]) { return q[0] == 1 && q[1] == 0 && q[2] == 0 && q[3] == 0; }

void pbPose_Rotate(double r[3], const double v[3], const double quat[4]) {
  if (is_identity(quat)) {
    v3_copy(r, v);
  } else {
    quat_rotate(r, quat, v);
  }
}

void pbPose_Compose(const double pos[3], const double quat[4], double child_pos[3], double child_quat[4]) {
  double rotated[3];

  // Quaternions that are exactly one leave the bits of points alone.
  pbPose_Rotate(rotated, child_pos, quat);
  v3_add(child_pos, pos, rotated);
  pbPose_MulQuat(child_quat, quat, child_quat);
}

void pbPose_FromZ(double quat[4], const double z[3]) {
  const double up[3] = {0, 0, 1};
  double axis[3];
  v3_cross(axis, up, z);
  double sine = pbPose_Normalize(axis, 3);

  // Along the z axis, either way, every axis in the plane rotates to z.
  if (sine < 1e-10) v3_set(axis, 1, 0, 0);
  PB_VALIDATE(pb_isUnit(z, 3));
  quat_axisangle(quat, axis, pbAtan2(sine, z[2]));
}

// ---- stated orientations ------------------------------------------------------------------------------------------
static const char *from_axisangle(const double value[4], double unit, double quat[4]) {
  double axis[3] = {value[0], value[1], value[2]};
  if (pbPose_Normalize(axis, 3) < PB_TINY) return "the axis of axisangle is too short";
  quat_axisangle(quat, axis, value[3] * unit);
  return NULL;
}

static int largest_of(double a, double b, double c) {
  if (a > b && a > c) return 0;
  return b > c ? 1 : 2;
}

// Quaternion of the frame with the given axes, from the largest of its four components, so that no division is by a small one
// (Shepperd 1978).
static void from_axes(const double x[3], const double y[3], const double z[3], double quat[4]) {
  const double *m[3] = {x, y, z};  // m[column][row]

  if (x[0] + y[1] + z[2] > 0) {
    quat[0] = 0.5 * sqrt(1 + x[0] + y[1] + z[2]);
    for (int k = 0; k < 3; k++) {
      int i = (k + 1) % 3, j = (k + 2) % 3;
      quat[1 + k] = 0.25 * (m[i][j] - m[j][i]) / quat[0];
    }
  } else {
    // The trace is small: k is the largest entry of the diagonal.
    int k = largest_of(x[0], y[1], z[2]);
    int i = (k + 1) % 3;
    int j = (k + 2) % 3;
    double largest = 0.5 * sqrt(1 + m[k][k] - m[i][i] - m[j][j]);
    quat[1 + k] = largest;
    quat[0] = 0.25 * (m[i][j] - m[j][i]) / largest;
    quat[1 + i] = 0.25 * (m[i][k] + m[k][i]) / largest;
    quat[1 + j] = 0.25 * (m[j][k] + m[k][j]) / largest;
  }

  pbPose_Normalize(quat, 4);
}

static const char *from_xyaxes(const double value[6], double quat[4]) {
  double x[3], y[3], z[3];
  v3_copy(x, value);
  v3_copy(y, value + 3);
  if (pbPose_Normalize(x, 3) < PB_TINY) return "the x axis is too short";

  // Gram-Schmidt: y keeps its direction in the plane of both.
  v3_addscl(y, x, -v3_dot(x, y));
  if (pbPose_Normalize(y, 3) < PB_TINY) return "the y axis is too short, or parallel to the x axis";

  v3_cross(z, x, y);
  pbPose_Normalize(z, 3);
  from_axes(x, y, z, quat);
  return NULL;
}

// Lower case letters are intrinsic rotations (about axes that move along), capitals extrinsic ones (about fixed axes).
static const char *from_euler(const char sequence[3], const double value[3], double unit, double quat[4]) {
  quat_identity(quat);
  for (int i = 0; i < 3; i++) {
    static const char letters[] = "xyzXYZ";
    char letter = sequence[i];
    const char *at = letter ? strchr(letters, letter) : NULL;

    if (!at) return "eulerseq may only hold the letters x y z X Y Z";
    int axis = (int)(at - letters) % 3;
    double rotation[4] = {pbCos(value[i] * unit / 2), 0, 0, 0};
    rotation[1 + axis] = pbSin(value[i] * unit / 2);

    // An intrinsic rotation is applied first, on the right; an extrinsic one last, on the left.
    if (letter >= 'x') {
      pbPose_MulQuat(quat, quat, rotation);
    } else {
      pbPose_MulQuat(quat, rotation, quat);
    }
  }
  return NULL;
}

static const char *from_zaxis(const double value[3], double quat[4]) {
  double z[3];
  v3_copy(z, value);
  if (pbPose_Normalize(z, 3) < PB_TINY) return "the z axis is too short";
  pbPose_FromZ(quat, z);
  return NULL;
}

static bool all_finite(const double *v, int n) {
  for (int i = 0; i < n; i++) {
    if (!isfinite(v[i])) return false;
  }
  return true;
}

// Entries of a stated orientation other than a quaternion.
static int value_count(int alt) {
  if (alt == pb_altXyaxes) return 6;
  return alt == pb_altAxisangle ? 4 : 3;
}

const char *pbPose_Orientation(const pbCompilerSettings *settings, const pbPose *pose, double quat[4]) {
  double unit = settings->degree ? PB_DEGREE : 1;
  if (pose->alt != pb_altNone && !all_finite(pose->value, value_count(pose->alt))) return "the orientation is not finite";

  switch (pose->alt) {
    case pb_altAxisangle: return from_axisangle(pose->value, unit, quat);
    case pb_altXyaxes: return from_xyaxes(pose->value, quat);
    case pb_altZaxis: return from_zaxis(pose->value, quat);
    case pb_altEuler: return from_euler(settings->eulerseq, pose->value, unit, quat);
    default: break;
  }

  memcpy(quat, pose->quat, 4 * sizeof(double));
  if (!all_finite(quat, 4)) return "the orientation is not finite";
  return pbPose_Normalize(quat, 4) > 0 ? NULL : "the quaternion is zero";
}

// ---- principal axes -----------------------------------------------------------------------------------------------
// Cyclic choice of the largest entry, Jacobi's method (Golub and Van Loan, Matrix Computations, section 8.5), with the rotations
// accumulated in a quaternion, as in MuJoCo.
enum { JACOBI_ROTATIONS = 500 };
// Smaller off-diagonal entries, relative to the largest eigenvalue, count as zero in MuJoCo 4.0: of bodies, and of meshes.
#define BODY_EPS  4e-15
#define MESH_EPS  1e-7
#define ORDER_EPS 1e-12  // and eigenvalues closer than this as equal

// Off-diagonal entry of largest size: row, column, and the axis of a rotation in their plane.
static void largest_entry(const double D[9], int *row, int *col, int *axis) {
  double xy = fabs(D[1]), xz = fabs(D[2]), yz = fabs(D[5]);
  if (xy > xz && xy > yz) {
    *row = 0;
    *col = 1;
    *axis = 2;
  } else if (xz > yz) {
    *row = 0;
    *col = 2;
    *axis = 1;
  } else {
    *row = 1;
    *col = 2;
    *axis = 0;
  }
}

// One rotation. False when the matrix in the frame of `quat` is diagonal to rounding.
static bool rotate_jacobi(double eps, const double mat[9], double quat[4], double diagonal[3]) {
  double R[9], T[9], D[9], rotation[4] = {0, 0, 0, 0};
  int row, col, axis;

  // D = R' mat R
  quat_to_mat(R, quat);
  m3_tmul(T, R, mat);
  m3_mul(D, T, R);
  for (int i = 0; i < 3; i++) diagonal[i] = D[4 * i];

  largest_entry(D, &row, &col, &axis);
  double off = D[3 * row + col];
  double scale = fmax(fmax(fabs(D[0]), fabs(D[4])), fabs(D[8]));
  if (!(fabs(off) > eps * scale)) return false;

  // tan of the angle that makes the entry zero, the smaller of the two solutions of t^2 + 2 tau t - 1 = 0.
  double tau = (D[4 * col] - D[4 * row]) / (2 * off);
  double t = tau >= 0 ? 1 / (tau + sqrt(1 + tau * tau)) : -1 / (-tau + sqrt(1 + tau * tau));
  double c = 1 / sqrt(1 + t * t);

  // The quaternion has half that angle.
  rotation[0] = sqrt(0.5 + 0.5 * c);
  rotation[1 + axis] = (axis == 1 ? 0.5 : -0.5) * t * c / rotation[0];
  pbPose_Normalize(rotation, 4);
  pbPose_MulQuat(quat, quat, rotation);
  return true;
}

// Swaps two adjacent eigenvalues that stand in increasing order, by a rotation of 90 degrees about the third axis.
static void order_pair(double quat[4], double diagonal[3], int i) {
  double scale = fmax(fmax(diagonal[0], diagonal[1]), diagonal[2]);
  if (!(diagonal[i] + ORDER_EPS * scale < diagonal[i + 1])) return;

  double smaller = diagonal[i];
  diagonal[i] = diagonal[i + 1];
  diagonal[i + 1] = smaller;

  double rotation[4] = {0.70710678118654752, 0, 0, 0};
  rotation[1 + (i + 2) % 3] = rotation[0];
  pbPose_MulQuat(quat, quat, rotation);
}

static void principal(double eps, const double full[6], double quat[4], double diagonal[3]) {
  const double mat[9] = {full[0], full[3], full[4], full[3], full[1], full[5], full[4], full[5], full[2]};
  quat_identity(quat);
  int rotations = 0;
  while (rotations < JACOBI_ROTATIONS && rotate_jacobi(eps, mat, quat, diagonal)) rotations++;

  PB_VALIDATE(pb_isUnit(quat, 4));

  // Decreasing order, by three exchanges.
  order_pair(quat, diagonal, 0);
  order_pair(quat, diagonal, 1);
  order_pair(quat, diagonal, 0);
}

const char *pbPose_Principal(const double full[6], double quat[4], double diagonal[3]) {
  if (!all_finite(full, 6)) return "the inertia is not finite";

  principal(BODY_EPS, full, quat, diagonal);
  return diagonal[2] < PB_TINY ? "the inertia must have positive eigenvalues" : NULL;
}

void pbPose_PrincipalOfMesh(const double full[6], double quat[4], double diagonal[3]) {
  principal(MESH_EPS, full, quat, diagonal);
}

// ---- rigid parts --------------------------------------------------------------------------------------------------
// R diag R' + m (|r|^2 1 - r r'), entry by entry (parallel axis theorem).
void pbPose_AddInertia(double total[6], double mass, const double diagonal[3], const double quat[4], const double r[3]) {
  static const int row[6] = {0, 1, 2, 0, 0, 1}, col[6] = {0, 1, 2, 1, 2, 2};
  double R[9];
  quat_to_mat(R, quat);

  for (int e = 0; e < 6; e++) {
    int i = row[e], j = col[e];
    double sum = 0;
    for (int k = 0; k < 3; k++) sum += R[3 * i + k] * diagonal[k] * R[3 * j + k];
    total[e] += sum + mass * ((i == j ? v3_dot(r, r) : 0) - r[i] * r[j]);
  }
}

// ---- end points ---------------------------------------------------------------------------------------------------
const char *pbPose_FromTo(int type, const double fromto[6], double pos[3], double quat[4], double size[3]) {
  bool solid = type == pb_geomEllipsoid || type == pb_geomBox;
  double along[3];

  if (!solid && type != pb_geomCapsule && type != pb_geomCylinder)
    return "fromto is for capsules, cylinders, ellipsoids and boxes";
  if (!all_finite(fromto, 6)) return "fromto is not finite";
  if (pos[0] || pos[1] || pos[2]) return "pos and fromto cannot both be given";

  // The z axis goes from the second point to the first, as in MuJoCo.
  v3_sub(along, fromto, fromto + 3);
  size[1] = pbPose_Normalize(along, 3) / 2;
  if (size[1] < PB_TINY) return "the points of fromto are too close";

  // Radius and half length; of ellipsoids and boxes, the first size twice.
  if (solid) {
    size[2] = size[1];
    size[1] = size[0];
  }

  v3_add(pos, fromto, fromto + 3);
  v3_scale(pos, pos, 0.5);
  pbPose_FromZ(quat, along);
  return NULL;
}
