// The path of a tendon's piece as it was observed: straight, or around a sphere or cylinder. Tests: tests/oracle/test_view.py.
#include <math.h>
#include <string.h>

#include "elementary/elementary.h"
#include "io/view/scene.h"

int pbScenePiece_Points(const pbScenePiece *p) { return p->geom < 0 ? 2 : SCENE_ARC + 3; }

// Row of a quantity of the last evaluation; NULL where there is none.
static const double *observed(const pbScene *scene, const char *name, int row) {
  const double *data = NULL;
  int rows = 0, cols = 0;
  if (!pbScratch_Field(scene->scratch, name, &data, &rows, &cols) || row >= rows) return NULL;
  return data + (size_t)row * (size_t)cols;
}

static void place(const pbScene *scene, int body, const double at[3], double x[3]) {
  const double *pos = observed(scene, "xpos", body), *quat = observed(scene, "xquat", body);
  memcpy(x, at, 3 * sizeof *x);
  if (!pos || !quat) return;

  pbScene_Rotate(x, quat, at);
  for (int k = 0; k < 3; k++) x[k] += pos[k];
}

static double dot(const double a[3], const double b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// v less its part along a unit vector, which is returned; NULL: all of it.
static double take_along(double v[3], const double *axis) {
  if (!axis) return 0;
  double along = dot(v, axis);
  for (int k = 0; k < 3; k++) v[k] -= along * axis[k];
  return along;
}

static bool normalize(double v[3]) {
  double length = sqrt(dot(v, v));
  if (!(length > 0)) return false;
  for (int k = 0; k < 3; k++) v[k] /= length;
  return true;
}

// From touch[0] to touch[1] about the center of a geom; on a cylinder (axis) it rises evenly.
static void put_arc(const double touch[6], double angle, const double center[3], const double *axis, double *x) {
  double from[3], to[3], across[3], low, high;
  for (int k = 0; k < 3; k++) from[k] = touch[k] - center[k];
  for (int k = 0; k < 3; k++) to[k] = touch[3 + k] - center[k];
  low = take_along(from, axis);
  high = take_along(to, axis);

  // the direction in which it leaves: beyond half a turn away from where it ends
  double radius = sqrt(dot(from, from));
  bool turns = normalize(from);
  memcpy(across, to, sizeof across);
  take_along(across, from);
  turns = normalize(across) && turns;
  double sign = pbSin(angle) < 0 ? -1 : 1;

  for (int i = 0; i <= SCENE_ARC; i++, x += 3) {
    double share = (double)i / SCENE_ARC, a = turns ? share * angle : 0, rise = low + share * (high - low);
    for (int k = 0; k < 3; k++) {
      x[k] = center[k] + radius * (pbCos(a) * from[k] + sign * pbSin(a) * across[k]);
      if (axis) x[k] += rise * axis[k];
    }
  }
}

void pbScene_Path(const pbScene *scene, const pbScenePiece *p, double *x) {
  int points = pbScenePiece_Points(p);
  double *end = x + 3 * (points - 1);
  place(scene, p->end[0].body, p->end[0].at, x);
  place(scene, p->end[1].body, p->end[1].at, end);
  if (points == 2) return;

  // nothing in the way: along the line
  const double *turn = observed(scene, "wrap_turn", p->station), *touch = observed(scene, "wrap_points", p->station);
  for (int i = 1; i < points - 1; i++) {
    for (int k = 0; k < 3; k++) x[3 * i + k] = x[k] + (end[k] - x[k]) * i / (points - 1);
  }
  if (!turn || !touch || *turn == 0) return;

  // the geom's place now
  pbSceneShape s = pbScene_Shape(scene, p->geom);
  double center[3], tip[3], axis[3], up[3] = {0, 0, 1};
  pbScene_Rotate(up, s.quat, up);
  for (int k = 0; k < 3; k++) up[k] += s.pos[k];
  place(scene, s.body, s.pos, center);
  place(scene, s.body, up, tip);
  for (int k = 0; k < 3; k++) axis[k] = tip[k] - center[k];

  // infinite: it touches at one point
  put_arc(touch, isfinite(*turn) ? fabs(*turn) : 0, center, s.type == pb_geomCylinder ? axis : NULL, x + 3);
}
