// The force with which contacts press on the zone of a site.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include "bodies/sensor.h"
#include "eval/constraints.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "math/vec.h"

// Where a x^2 + 2 b x + c <= 0, intersected with [x[0], x[1]].
static bool clip_quadratic(double a, double b, double c, double x[2]) {
  if (a < TINY) return c <= 0;

  // Between the roots.
  double det = b * b - a * c;
  if (det < 0) return false;
  x[0] = fmax(x[0], (-b - sqrt(det)) / a);
  x[1] = fmin(x[1], (-b + sqrt(det)) / a);
  return x[0] <= x[1];
}

// Where |p + x d| <= s
static bool clip_slab(double p, double d, double s, double x[2]) {
  if (fabs(d) <= TINY) return fabs(p) <= s;
  double a = (-s - p) / d, b = (s - p) / d;
  x[0] = fmax(x[0], fmin(a, b));
  x[1] = fmin(x[1], fmax(a, b));
  return x[0] <= x[1];
}

// Within a ball on the axis.
static bool clip_ball(const double p[3], const double d[3], double shift, double radius, double x[2]) {
  double z = p[2] - shift;
  return clip_quadratic(d[0] * d[0] + d[1] * d[1] + d[2] * d[2], p[0] * d[0] + p[1] * d[1] + z * d[2],
                        p[0] * p[0] + p[1] * p[1] + z * z - radius * radius, x);
}

static bool clip_tube(const double p[3], const double d[3], const double size[3], double x[2]) {
  return clip_quadratic(d[0] * d[0] + d[1] * d[1], p[0] * d[0] + p[1] * d[1], p[0] * p[0] + p[1] * p[1] - size[0] * size[0], x) &&
         clip_slab(p[2], d[2], size[1], x);
}

// Does the ray p + x d, x >= 0, in the shape's frame, meet the solid shape?
static bool ray_meets(int type, const double size[3], double p[3], double d[3]) {
  double x[2] = {0, INFINITY}, top[2] = {0, INFINITY}, bottom[2] = {0, INFINITY};
  switch (type) {
    case pb_geomEllipsoid:
      for (int k = 0; k < 3; k++) {
        p[k] /= size[k];
        d[k] /= size[k];
      }
      return clip_ball(p, d, 0, 1, x);

    // A tube and two balls.
    case pb_geomCapsule:
      return clip_tube(p, d, size, x) || clip_ball(p, d, size[1], size[0], top) || clip_ball(p, d, -size[1], size[0], bottom);
    case pb_geomCylinder: return clip_tube(p, d, size, x);

    // Within three slabs.
    case pb_geomBox:
      return clip_slab(p[0], d[0], size[0], x) && clip_slab(p[1], d[1], size[1], x) && clip_slab(p[2], d[2], size[2], x);
    default: return clip_ball(p, d, 0, size[0], x);
  }
}

// Does this row's contact press on the zone?
static bool touches(const NUM(pbConstraints) *w, const NUM(pbRow) *row, int site) {
  if (row->kind != pb_rowContact || !(re(row->f[0]) > 0)) return false;

  // Only contacts of the site's own body count.
  const NUM(pbContact) *c = w->contact + row->contact;
  int body = w->m->site_bodyid[site], second = w->m->geom_bodyid[c->geom2];
  if (body != second && body != w->m->geom_bodyid[c->geom1]) return false;

  // The force's line from the contact point, seen from the site: away from the body that it presses.
  double sign = body == second ? -1 : 1, p[3] = {0}, d[3] = {0}, size[3];
  for (int k = 0; k < 3; k++) {
    size[k] = re(w->p.site_size[3 * site + k]);
    for (int a = 0; a < 3; a++) {
      double e = re(w->site_xmat[9 * site + 3 * a + k]);
      p[k] += e * (re(c->pos[a]) - re(w->site_xpos[3 * site + a]));
      d[k] += e * sign * re(c->frame[a]);
    }
  }

  return ray_meets(w->m->site_type[site], size, p, d);
}

static void value(const NUM(pbConstraints) *w, int i, num *y) {
  for (int k = 0; k < w->nrow; k++) {
    if (touches(w, w->row + k, w->m->sensor_objid[i])) y[0] += w->row[k].f[0];
  }
}
PB_SENSOR_VALUE(touch, NULL, .value_constrained = value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_row_adjoint.h"

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  for (int k = 0; k < w->nrow; k++) {
    if (touches(w, w->row + k, w->m->sensor_objid[i])) pull_force(a, w->row + k, bar[0]);
  }
}
PB_SENSOR_PULL(touch, pull);
#endif
