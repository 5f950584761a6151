// What holds of the contacts of hulls, asked where a build checks invariants (PB_VALIDATE): the depth is the least over all
// directions, and the points of both shapes are in them. By other ways than the search's: slow. In doubles.
// Tests: tests/unit/test_poses.c, tests/unit/test_polytope.c, tests/oracle/test_polytopes.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "geometry/polytope.h"

#include "geometry/polytope_contact.h"

#define CLOSE   1e-9   // of the scale
#define UNEVEN  1e-7   // of the scale: of faces whose corners are in single precision; no face is less flat for the depth
#define CERTAIN 1e-10  // of the scale: of a polytope that bounds the depth from below
#define ENDS    1e-7   // of the scale: how far apart points of a round shape are whose depths differ by less than 1e-14 of it

// How far corners of a hull's polygons are from their planes, which single precision leaves.
double pbPolytope_Unevenness(const pbSupport *s) {
  const pbMeshHull *h = s->hull;
  double most = 0;
  if (!h) return 0;

  for (int f = 0; f < h->polygons; f++) {
    const int *around = h->around + h->first[f];
    int sides = h->first[f + 1] - h->first[f];
    const double *a = h->corner + 3 * around[0];
    double u[3], v[3], n[3];
    v3_sub(u, h->corner + 3 * around[sides / 3], a);
    v3_sub(v, h->corner + 3 * around[2 * sides / 3], a);
    v3_cross(n, u, v);
    v3_normalize(n);
    for (int k = 0; k < sides; k++) {
      v3_sub(u, h->corner + 3 * around[k], a);
      most = fmax(most, fabs(v3_dot(n, u)));
    }
  }
  return most;
}

// dist: of the cores, without their radii.
bool pbPolytope_IsLeast(const pbPolytopePair *given, const pbPolytopeNormal *found, double dist) {
  pbPolytopePair pair = *given;
  pair.grown = NULL;
  pbDifference simplex[4], facet[3];
  double v[3], n[3], depth, slack = CLOSE * given->scale;
  int count = 0;
  for (int k = 0; k < 2; k++) slack += 4 * fmin(pbPolytope_Unevenness(&pair.shape[k]), UNEVEN * given->scale);

  // The normal gives it. Of two polytopes apart it follows from what carries it, which may differ by rounding.
  if (!found->is_round && dist > 0) return true;
  if (!(fabs(pbPolytope_Sigma(&pair, found->n) + dist) <= slack)) return false;

  // From outside, the direction of the nearest point of the difference (as far apart as it says itself: of faces that touch but for
  // rounding the search may stop early); from inside, what bounds its facets.
  pair.gap = CERTAIN * CERTAIN * pair.scale;
  switch (pbPolytope_Gjk(&pair, INFINITY, simplex, &count, v)) {
    case pb_gjkApart: return false;
    case pb_gjkNear:
      v3_scale(n, v, -1 / v3_norm(v));
      return dist >= -pbPolytope_Sigma(&pair, n) - slack;  // that it is not more the normal says
    default: break;
  }
  if (!pbPolytope_Epa(&pair, CERTAIN * pair.scale, simplex, count, facet, n, &depth)) return true;
  return -dist <= depth + slack;
}

// Beyond the highest corner of a polygon.
static double over_hull(const pbMeshHull *h, const double x[3]) {
  double worst = -INFINITY;
  for (int f = 0; f < h->polygons; f++) {
    double high = -INFINITY;
    for (int k = h->first[f]; k < h->first[f + 1]; k++)
      high = fmax(high, v3_dot(h->normal + 3 * f, h->corner + 3 * h->around[k]));
    worst = fmax(worst, v3_dot(h->normal + 3 * f, x) - high);
  }
  return worst;
}

static double over_ellipsoid(const double size[3], const double x[3]) {
  double value = 0, slope2 = 0;
  for (int i = 0; i < 3; i++) {
    double along = x[i] / size[i];
    value += along * along;
    slope2 += along * along / (size[i] * size[i]);
  }
  return slope2 > 0 ? (value - 1) / (2 * sqrt(slope2)) : -size[0];
}

// How far a point is outside of a shape (of an ellipsoid to first order), less than 0 inside. A hull that is stretched says 0.
double pbPolytope_Outside(const pbSupport *s, const double point[3]) {
  double d[3], x[3];
  const double *size = s->size;

  v3_sub(d, point, s->pos);
  m3_tmulv(x, s->mat, d);
  if (s->moved) return 0;
  if (s->hull) return over_hull(s->hull, x);
  switch (s->type) {
    case pb_geomCapsule: x[2] -= fmax(-size[1], fmin(x[2], size[1])); return v3_norm(x) - size[0];
    case pb_geomCylinder: return fmax(sqrt(x[0] * x[0] + x[1] * x[1]) - size[0], fabs(x[2]) - size[1]);
    case pb_geomEllipsoid: return over_ellipsoid(size, x);
    case pb_geomBox: return fmax(fabs(x[0]) - size[0], fmax(fabs(x[1]) - size[1], fabs(x[2]) - size[2]));
    default: return v3_norm(x) - size[0];
  }
}

// The two points of each contact lie in their shapes: to rounding, the unevenness of faces, and of edges that count as parallel
// what they are beside each other. Of hulls that touch to rounding the normal is rounding too.
bool pbPolytope_AreWithin(const pbTouch_r *p, const pbManifold_r *m, int count, const pbContactPoint_r *contacts) {
  bool lines = count == 2;
  for (int k = 0; k < 2; k++)
    lines = lines && (p->found->flat[k].sides == 2 || (p->found->is_round && k != p->found->round.body));
  double slack = CLOSE * p->found->scale + 8 * m->tie + (m->edges || lines ? 5e-4 * p->found->scale : 0);
  if (p->found->is_round) slack += ENDS * p->found->scale;
  if (!p->found->is_round && fabs(p->found->dist) < 1e-7 * p->found->scale) return true;
  pbSupport shape[2];
  for (int k = 0; k < 2; k++) {
    to_support(p->shape[k], &shape[k]);
    slack += 8 * pbPolytope_Unevenness(&shape[k]);
  }

  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < count; i++) {
      double point[3];
      v3_along(point, contacts[i].pos, contacts[i].normal, (k ? 0.5 : -0.5) * contacts[i].dist);
      if (!(pbPolytope_Outside(&shape[k], point) <= slack)) return false;
    }
  }
  return true;
}

#else
typedef int polytope_check_is_for_doubles;
#endif
