// Volume, inertia and bounds of the primitive shapes.
// Sizes are MuJoCo's: radius; radius and half length; semi-axes; half sides.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "compile/compile.h"
#include "elementary/elementary.h"
#include "number/number.h"

static double sq(double x) { return x * x; }
static double larger_of(double a, double b) { return a > b ? a : b; }

const char *pbPrimitive_CheckSize(int type, const double size[3]) {
  static const int count[8] = {0, 0, 1, 2, 3, 2, 3, 0};  // sizes that a type has
  static const char *const wrong[3] = {"the first size must be positive", "the second size must be positive",
                                       "the third size must be positive"};

  for (int i = 0; i < 3; i++) {
    if (!isfinite(size[i])) return "a size is not finite";
  }

  // Of a plane, half sizes of zero are infinite; the third is the spacing of a grid.
  if (type == pb_geomPlane) return size[2] > 0 ? NULL : "the third size of a plane must be positive";

  for (int i = 0; i < count[type & 7]; i++) {
    if (!(size[i] > 0)) return wrong[i];
  }
  return NULL;
}

// Thomsen's approximation of an ellipsoid's surface, 4 pi (mean of (a b)^p)^(1/p) with p = 1.6075 (error below 1.1 %).
static double ellipsoid_surface(const double s[3]) {
  double p = 1.6075;
  double sum = pbPow(s[0] * s[1], p) + pbPow(s[1] * s[2], p) + pbPow(s[2] * s[0], p);
  return 4 * PB_PI * pbPow(sum / 3, 1 / p);
}

double pbPrimitive_Volume(int type, const double s[3], bool shell) {
  double r = s[0];
  double length = 2 * s[1];

  // Of a shell the area.
  switch (type) {
    case pb_geomSphere: return shell ? 4 * PB_PI * r * r : 4 * PB_PI * r * r * r / 3;
    case pb_geomCapsule: return shell ? 4 * PB_PI * r * r + 2 * PB_PI * r * length : PB_PI * (r * r * length + 4 * r * r * r / 3);
    case pb_geomCylinder: return shell ? 2 * PB_PI * r * r + 2 * PB_PI * r * length : PB_PI * r * r * length;
    case pb_geomEllipsoid: return shell ? ellipsoid_surface(s) : 4 * PB_PI * s[0] * s[1] * s[2] / 3;
    case pb_geomHfield:
    case pb_geomBox: return shell ? 8 * (s[0] * s[1] + s[1] * s[2] + s[2] * s[0]) : 8 * s[0] * s[1] * s[2];
    default: return 0;
  }
}

// ---- inertia about the center, principal axes ---------------------------------------------------------------------
// A cylinder with a half ball at each end; mass is shared by surface or by volume.
static void capsule_inertia(double r, double half, bool shell, double mass, double I[3]) {
  double length = 2 * half;
  double ends =
      shell ? mass * 4 * PB_PI * r * r / (4 * PB_PI * r * r + 2 * PB_PI * r * length) : mass * 4 * r / (4 * r + 3 * length);
  double tube = mass - ends;

  // Both ends as one ball, and what shifting its halves outwards adds (parallel axis theorem, by way of each half's center).
  double ball, shift;
  if (shell) {
    I[0] = tube * (6 * r * r + length * length) / 12;
    I[2] = tube * r * r;
    ball = 2 * ends * r * r / 3;
    shift = ends * (sq(half + r / 2) - sq(r / 2));  // the center of a half shell is at r / 2
  } else {
    I[0] = tube * (3 * r * r + length * length) / 12;
    I[2] = tube * r * r / 2;
    ball = 2 * ends * r * r / 5;
    shift = ends * length * (3 * r + 2 * length) / 8;  // the center of a half ball is at 3 r / 8
  }

  I[0] += ball + shift;
  I[1] = I[0];
  I[2] += ball;
}

// Of a shell: a tube and two disks, with mass shared by surface.
static void cylinder_inertia(double r, double half, bool shell, double mass, double I[3]) {
  double length = 2 * half;
  if (!shell) {
    // A solid cylinder.
    I[0] = I[1] = mass * (3 * r * r + length * length) / 12;
    I[2] = mass * r * r / 2;
    return;
  }

  double disk_area = PB_PI * r * r;

  // Mass by area.
  double disk = mass * disk_area / (2 * disk_area + 2 * PB_PI * r * length);
  double tube = mass - 2 * disk;
  I[0] = I[1] = tube * (6 * r * r + length * length) / 12 + 2 * (disk * r * r / 4 + disk * half * half);
  I[2] = tube * r * r + disk * r * r;
}

static void ellipsoid_inertia(const double s[3], double mass, double I[3]) {
  I[0] = mass * (s[1] * s[1] + s[2] * s[2]) / 5;
  I[1] = mass * (s[0] * s[0] + s[2] * s[2]) / 5;
  I[2] = mass * (s[0] * s[0] + s[1] * s[1]) / 5;
}

// A shell as the difference of two ellipsoids, one a little larger (MuJoCo's 1e-6 m, so that the numbers agree).
static void ellipsoid_shell_inertia(const double s[3], double mass, double I[3]) {
  double big[3] = {s[0] + 1e-6, s[1] + 1e-6, s[2] + 1e-6}, inner[3], outer[3];
  double volume = 4 * PB_PI * s[0] * s[1] * s[2] / 3;
  double big_volume = 4 * PB_PI * big[0] * big[1] * big[2] / 3;
  double density = mass / (big_volume - volume);

  ellipsoid_inertia(s, volume * density, inner);
  ellipsoid_inertia(big, big_volume * density, outer);
  for (int i = 0; i < 3; i++) I[i] = outer[i] - inner[i];
}

// Six rectangles, with mass shared by surface.
static void box_shell_inertia(const double s[3], double mass, double I[3]) {
  double total = 0;

  // Surface of all six.
  for (int i = 0; i < 3; i++) {
    I[i] = 0;
    total += 8 * s[i] * s[(i + 1) % 3];
  }

  // Two sides have axis n as their normal: thin plates at distance s[n] from the center.
  for (int n = 0; n < 3; n++) {
    int a = (n + 1) % 3, b = (n + 2) % 3;
    double side = mass * 4 * s[a] * s[b] / total;

    I[n] += 2 * side * (sq(2 * s[a]) + sq(2 * s[b])) / 12;
    I[a] += 2 * (side * sq(2 * s[b]) / 12 + side * s[n] * s[n]);
    I[b] += 2 * (side * sq(2 * s[a]) / 12 + side * s[n] * s[n]);
  }
}

void pbPrimitive_Inertia(int type, const double s[3], bool shell, double mass, double I[3]) {
  switch (type) {
    case pb_geomSphere: I[0] = I[1] = I[2] = 2 * mass * s[0] * s[0] / (shell ? 3 : 5); return;
    case pb_geomCapsule: capsule_inertia(s[0], s[1], shell, mass, I); return;
    case pb_geomCylinder: cylinder_inertia(s[0], s[1], shell, mass, I); return;
    case pb_geomEllipsoid:
      if (shell) {
        ellipsoid_shell_inertia(s, mass, I);
      } else {
        ellipsoid_inertia(s, mass, I);
      }
      return;
    case pb_geomHfield:
    case pb_geomBox:
      if (shell) {
        box_shell_inertia(s, mass, I);
      } else {
        I[0] = mass * (s[1] * s[1] + s[2] * s[2]) / 3;
        I[1] = mass * (s[0] * s[0] + s[2] * s[2]) / 3;
        I[2] = mass * (s[0] * s[0] + s[1] * s[1]) / 3;
      }
      return;
    default: I[0] = I[1] = I[2] = 0;
  }
}

// ---- bounds -------------------------------------------------------------------------------------------------------
double pbPrimitive_Radius(int type, const double s[3]) {
  switch (type) {
    case pb_geomSphere: return s[0];
    case pb_geomCapsule: return s[0] + s[1];
    case pb_geomCylinder: return sqrt(s[0] * s[0] + s[1] * s[1]);
    case pb_geomEllipsoid: return larger_of(larger_of(s[0], s[1]), s[2]);
    case pb_geomBox: return sqrt(s[0] * s[0] + s[1] * s[1] + s[2] * s[2]);
    default: return 0;
  }
}

void pbPrimitive_Box(int type, const double s[3], double aabb[6]) {
  const double far = 1e10;
  double half[3] = {s[0], s[1], s[2]};
  memset(aabb, 0, 6 * sizeof *aabb);

  // Half sides along the axes; what a shape does not use stays as stated.
  switch (type) {
    case pb_geomSphere: half[1] = half[2] = s[0]; break;
    case pb_geomCapsule:
      half[1] = s[0];
      half[2] = s[0] + s[1];
      break;
    case pb_geomCylinder:
      half[1] = s[0];
      half[2] = s[1];
      break;
    case pb_geomPlane:
      half[0] = half[1] = far;
      half[2] = far / 2;
      aabb[2] = -far / 2;
      break;
    default: break;
  }

  memcpy(aabb + 3, half, sizeof half);
}
