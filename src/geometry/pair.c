// Contacts of planes, balls and capsules, and the table of all pairs. The conventions (order of contacts, ties, frozen
// directions in degenerate cases) are MuJoCo's (engine_collision_primitive.c), so that contact sets agree one by one.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/oracle/test_geometry.py.
#include "geometry/pair.h"

#include "base/assert.h"
#include "geometry/primitive.h"
#include "geometry/search.h"
#include "model/model.h"

static int plane_sphere(const NUM(pbShape) *plane, const NUM(pbShape) *sphere, double margin, NUM(pbContactPoint) *contacts) {
  num normal[3];
  m3_col(normal, plane->mat, 2);
  return plane_ball(plane->pos, normal, sphere->pos, sphere->size[0], margin, contacts);
}

// The two ends as balls; the hint asks for the first tangent along the axis.
static int plane_capsule(const NUM(pbShape) *plane, const NUM(pbShape) *capsule, double margin, NUM(pbContactPoint) *contacts) {
  num normal[3], axis[3], end[3];
  int count = 0;

  m3_col(normal, plane->mat, 2);
  m3_col(axis, capsule->mat, 2);

  for (int side = 1; side >= -1; side -= 2) {
    v3_along(end, capsule->pos, axis, side * capsule->size[1]);
    if (plane_ball(plane->pos, normal, end, capsule->size[0], margin, &contacts[count])) v3_copy(contacts[count++].hint, axis);
  }
  return count;
}

// Deepest point of the surface: center - S^2 n / |S n| in the ellipsoid's frame.
static int plane_ellipsoid(const NUM(pbShape) *plane, const NUM(pbShape) *ellipsoid, double margin,
                           NUM(pbContactPoint) *contacts) {
  num normal[3], local[3], point[3], world[3], dif[3];
  const num *size = ellipsoid->size;

  m3_col(normal, plane->mat, 2);
  m3_tmulv(local, ellipsoid->mat, normal);
  // local = S R' n, so that |local| is the support's distance from the center.
  for (int i = 0; i < 3; i++) local[i] *= size[i];
  num len = v3_norm(local), inv = re(len) > 0 ? num_div(-1, len) : 0;
  for (int i = 0; i < 3; i++) point[i] = local[i] * size[i] * inv;

  m3_mulv(world, ellipsoid->mat, point);
  v3_addto(world, ellipsoid->pos);
  v3_sub(dif, world, plane->pos);

  num dist = v3_dot(dif, normal);
  if (!(re(dist) <= margin)) return 0;

  contacts->dist = dist;
  v3_copy(contacts->normal, normal);
  v3_along(contacts->pos, world, normal, -0.5 * dist);
  v3_zero(contacts->hint);
  return 1;
}

static void plane_point(const num point[3], const num normal[3], num dist, NUM(pbContactPoint) *contact) {
  contact->dist = dist;
  v3_copy(contact->normal, normal);
  v3_along(contact->pos, point, normal, -0.5 * dist);
  v3_zero(contact->hint);
}

// v keeps its value and rotates with a shape; its length follows that of `size`, where it is not zero.
static void rotate_with(const num mat[9], num size, num v[3]) {
  double local[3] = {0}, growth = re(size) > 0 ? im(size) / re(size) : 0;
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < 3; i++) local[k] += re(mat[3 * i + k]) * re(v[i]);
  }

  for (int i = 0; i < 3; i++) {
    double slope = growth * re(v[i]);
    for (int k = 0; k < 3; k++) slope += im(mat[3 * i + k]) * local[k];
    v[i] = num_make(re(v[i]), slope);
  }
}

// A cylinder on a plane: its axis toward the plane, as long as half of it, and its steepest radius.
typedef struct standing_cylinder {
  num normal[3], axis[3], down[3];
  num radius, height, along;  // height of the center; the axis' part along the normal
  bool upright;
} standing_cylinder;

static void stand_cylinder(const NUM(pbShape) *plane, const NUM(pbShape) *cylinder, standing_cylinder *s) {
  num dif[3], level[3];
  s->radius = cylinder->size[0];
  m3_col(s->normal, plane->mat, 2);
  m3_col(s->axis, cylinder->mat, 2);
  num slope = v3_dot(s->normal, s->axis);
  if (re(slope) > 0) {
    v3_neg(s->axis, s->axis);
    slope = -slope;
  }
  v3_sub(dif, cylinder->pos, plane->pos);
  s->height = v3_dot(dif, s->normal);

  // The steepest radius, -normal without its part along the axis: by cross products, so that it is at right angles to the axis
  // however little that is tilted. Standing upright, MuJoCo takes the cylinder's x axis.
  v3_cross(level, s->normal, s->axis);
  v3_cross(s->down, level, s->axis);
  num len2 = v3_dot(s->down, s->down);
  if (re(len2) >= PB_TINY * PB_TINY) {
    v3_scale(s->down, s->down, num_div(s->radius, num_sqrt(len2)));
  } else {
    m3_col(s->down, cylinder->mat, 0);
    v3_scale(s->down, s->down, s->radius);
  }
  s->upright = re(len2) < PB_UPRIGHT * PB_UPRIGHT;
  if (PB_IS_COMPLEX && s->upright) rotate_with(cylinder->mat, s->radius, s->down);

  s->along = slope * cylinder->size[1];
  v3_scale(s->axis, s->axis, cylinder->size[1]);
}

// The lower rim's two points at +-120 degrees from the lowest, at this height; level with each other unless upright.
static void put_third_points(const standing_cylinder *s, const num center[3], num height, NUM(pbContactPoint) *contacts) {
  num side[3], base[3], point[3];
  v3_cross(side, s->down, s->axis);
  v3_normalize(side);
  v3_scale(side, side, s->radius * (sqrt(3.0) / 2));
  v3_along(base, center, s->down, -0.5);
  v3_addto(base, s->axis);

  num lift = num_make(0, s->upright ? im(v3_dot(side, s->normal)) : 0);
  v3_add(point, base, side);
  plane_point(point, s->normal, PB_IS_COMPLEX ? height + lift : height, &contacts[0]);
  v3_sub(point, base, side);
  plane_point(point, s->normal, PB_IS_COMPLEX ? height - lift : height, &contacts[1]);
}

// Up to four points: the lowest of the rim, the same on the other rim (lying), two more of the lower rim (standing).
int NUM(pbPlane_Cylinder)(const NUM(pbShape) *plane, const NUM(pbShape) *cylinder, double margin, NUM(pbContactPoint) *contacts) {
  standing_cylinder s;
  num point[3];
  stand_cylinder(plane, cylinder, &s);

  // Heights of the lowest points of both rims, and of the two beside the lowest.
  num drop = v3_dot(s.down, s.normal);
  num low = s.height + s.along + drop, other = s.height - s.along + drop, third = s.height + s.along - 0.5 * drop;
  if (!(re(low) <= margin)) return 0;

  int count = 0;
  v3_add(point, cylinder->pos, s.down);
  v3_addto(point, s.axis);
  plane_point(point, s.normal, low, &contacts[count++]);

  if (re(other) <= margin) {
    v3_add(point, cylinder->pos, s.down);
    v3_subfrom(point, s.axis);
    plane_point(point, s.normal, other, &contacts[count++]);
  }
  if (re(third) <= margin) {
    put_third_points(&s, cylinder->pos, third, &contacts[count]);
    count += 2;
  }
  return count;
}

// Corners below the center, in binary order, four at most.
static int plane_box(const NUM(pbShape) *plane, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts) {
  num normal[3], dif[3], local[3];

  m3_col(normal, plane->mat, 2);
  v3_sub(dif, box->pos, plane->pos);
  num height = v3_dot(dif, normal);

  // Most boxes are far above: the extent along the normal tells at once. The tests below decide.
  m3_tmulv(local, box->mat, normal);
  double reach = 0;
  for (int i = 0; i < 3; i++) reach += fabs(re(local[i])) * re(box->size[i]);
  if (!(re(height) - reach <= margin + 1e-9 * reach)) return 0;

  int count = 0;
  for (int i = 0; i < 8 && count < 4; i++) {
    num vec[3] = {i & 1 ? box->size[0] : -box->size[0], i & 2 ? box->size[1] : -box->size[1],
                  i & 4 ? box->size[2] : -box->size[2]};

    num corner[3];
    m3_mulv(corner, box->mat, vec);
    num drop = v3_dot(normal, corner);
    if (!(re(height) + re(drop) <= margin) || re(drop) > 0) continue;

    v3_addto(corner, box->pos);
    plane_point(corner, normal, height + drop, &contacts[count++]);
  }
  return count;
}

static int sphere_sphere(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, NUM(pbContactPoint) *contacts) {
  return ball_ball(s1->pos, s1->mat, s1->size[0], s2->pos, s2->mat, s2->size[0], margin, contacts);
}

static int sphere_capsule(const NUM(pbShape) *sphere, const NUM(pbShape) *capsule, double margin, NUM(pbContactPoint) *contacts) {
  num axis[3], dif[3], center[3], half = capsule->size[1];

  m3_col(axis, capsule->mat, 2);
  v3_sub(dif, sphere->pos, capsule->pos);
  // Nearest point of the axis.
  num x = num_clip(v3_dot(axis, dif), -half, half);
  v3_along(center, capsule->pos, axis, x);
  return ball_ball(sphere->pos, sphere->mat, sphere->size[0], center, capsule->mat, capsule->size[0], margin, contacts);
}

static int sphere_cylinder(const NUM(pbShape) *sphere, const NUM(pbShape) *cylinder, double margin,
                           NUM(pbContactPoint) *contacts) {
  num axis[3], dif[3], center[3], radial[3], radius = cylinder->size[0], half = cylinder->size[1];

  m3_col(axis, cylinder->mat, 2);
  v3_sub(dif, sphere->pos, cylinder->pos);
  // The center in the cylinder: x along the axis, radial across it.
  num x = v3_dot(axis, dif);
  v3_along(radial, dif, axis, -x);
  num radial2 = v3_dot(radial, radial);
  double reach = margin + re(sphere->size[0]);

  if (!(fabs(re(x)) <= re(half) + reach)) return 0;
  // Side, as a ball on the axis; cap, as a plane; rim, as a ball of radius zero.
  cylinder_zone zone = cylinder_zone_of(re(x), re(radial2), re(radius), re(half));
  if (zone == zone_side) {
    v3_along(center, cylinder->pos, axis, x);
    return ball_ball(sphere->pos, sphere->mat, sphere->size[0], center, cylinder->mat, radius, margin, contacts);
  }

  num side = re(x) > 0 ? 1 : -1;
  if (zone == zone_cap) {
    num origin[3], normal[3];
    v3_scale(normal, axis, side);
    v3_along(origin, cylinder->pos, normal, half);
    int count = plane_ball(origin, normal, sphere->pos, sphere->size[0], margin, contacts);
    if (count) v3_neg(contacts->normal, contacts->normal);
    return count;
  }

  num length = re(radial2) > 0 ? num_sqrt(radial2) : 1;
  v3_along(center, cylinder->pos, axis, side * half);
  v3_addscl(center, radial, num_div(radius, length));
  return ball_ball(sphere->pos, sphere->mat, sphere->size[0], center, cylinder->mat, 0, margin, contacts);
}

static int sphere_box(const NUM(pbShape) *sphere, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts) {
  return NUM(pbSphere_Box)(sphere->pos, sphere->size[0], box, margin, contacts);
}

static void half_axis(const NUM(pbShape) *capsule, num axis[3]) {
  m3_col(axis, capsule->mat, 2);
  v3_scale(axis, axis, capsule->size[1]);
}

static int capsule_capsule(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, NUM(pbContactPoint) *contacts) {
  num axis1[3], axis2[3], dif[3];

  v3_sub(dif, s2->pos, s1->pos);
  double reach = margin + re(s1->size[0]) + re(s2->size[0]) + re(s1->size[1]) + re(s2->size[1]);
  if (!(re(v3_dot(dif, dif)) <= reach * reach * (1 + 1e-9))) return 0;

  half_axis(s1, axis1);
  half_axis(s2, axis2);

  segment_pair nearest[2];
  int found = nearest_on_segments(s1->pos, axis1, s2->pos, axis2, nearest), count = 0;
  for (int k = 0; k < found; k++) {
    // Balls about the nearest points.
    num c1[3], c2[3];
    v3_along(c1, s1->pos, axis1, nearest[k].x1);
    v3_along(c2, s2->pos, axis2, nearest[k].x2);
    count += ball_ball(c1, s1->mat, s1->size[0], c2, s2->mat, s2->size[0], margin, &contacts[count]);
  }
  return count;
}

// Pairs in closed form.
static int collide_closed(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbContactPoint) *contacts) {
#define PAIR(a, b) ((a)*8 + (b))

  switch (PAIR(shape1->type, shape2->type)) {
    case PAIR(pb_geomPlane, pb_geomSphere): return plane_sphere(shape1, shape2, margin, contacts);
    case PAIR(pb_geomPlane, pb_geomCapsule): return plane_capsule(shape1, shape2, margin, contacts);
    case PAIR(pb_geomPlane, pb_geomEllipsoid): return plane_ellipsoid(shape1, shape2, margin, contacts);
    case PAIR(pb_geomPlane, pb_geomCylinder): return NUM(pbPlane_Cylinder)(shape1, shape2, margin, contacts);
    case PAIR(pb_geomPlane, pb_geomBox): return plane_box(shape1, shape2, margin, contacts);
    case PAIR(pb_geomSphere, pb_geomSphere): return sphere_sphere(shape1, shape2, margin, contacts);
    case PAIR(pb_geomSphere, pb_geomCapsule): return sphere_capsule(shape1, shape2, margin, contacts);
    case PAIR(pb_geomSphere, pb_geomCylinder): return sphere_cylinder(shape1, shape2, margin, contacts);
    case PAIR(pb_geomSphere, pb_geomBox): return sphere_box(shape1, shape2, margin, contacts);
    case PAIR(pb_geomCapsule, pb_geomCapsule): return capsule_capsule(shape1, shape2, margin, contacts);
    case PAIR(pb_geomCapsule, pb_geomBox): return NUM(pbCapsule_Box)(shape1, shape2, margin, contacts);
    case PAIR(pb_geomBox, pb_geomBox): return NUM(pbBox_Box)(shape1, shape2, margin, contacts);

    case PAIR(pb_geomPlane, pb_geomMesh): return NUM(pbPlane_Mesh)(shape1, shape2, margin, contacts);
    case PAIR(pb_geomSphere, pb_geomMesh): return NUM(pbSphere_Mesh)(shape1, shape2, margin, contacts);

    default: return 0;
  }
#undef PAIR
}

// The others: the best normal by search.
bool NUM(pbPair_Search)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, pbSearched *out) {
  if (out->kind == pb_searchedConvex) {
    pbCore core1, core2;
    to_core(shape1, &core1);
    to_core(shape2, &core2);
    return pbConvex_Search(&core1, &core2, margin, &out->normal);
  }

  pbPolytopePair pair;
  PB_ASSERT(out->kind == pb_searchedPolytope);
  to_support(shape1, &pair.shape[0]);
  to_support(shape2, &pair.shape[1]);
  return pbPolytope_Search(&pair, margin, &out->facet);
}

int NUM(pbPair_CollideKeeping)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, pbSearched *kept,
                               NUM(pbContactPoint) *contacts) {
  pbSearched room, *found = kept ? kept : &room;
  pbSearchKind kind = pbSearch_KindOf(shape1->type, shape2->type);
  if (kind == pb_searchedNothing) return collide_closed(shape1, shape2, margin, contacts);

  found->kind = kind;
  if (!NUM(pbPair_Search)(shape1, shape2, margin, found)) return 0;
  if (kind == pb_searchedConvex)
    return NUM(pbConvex_Contacts)(shape1, shape2, margin, &found->normal, PB_MAX_CONTACT_POINTS, contacts);
  return NUM(pbPolytope_Contacts)(shape1, shape2, margin, &found->facet, contacts);
}

int NUM(pbPair_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbContactPoint) *contacts) {
  return NUM(pbPair_CollideKeeping)(shape1, shape2, margin, NULL, contacts);
}

#if !PB_IS_COMPLEX
static int capsules_feature(const NUM(pbShape) *s1, const NUM(pbShape) *s2) {
  double axis1[3], axis2[3];
  segment_pair nearest[2];
  half_axis(s1, axis1);
  half_axis(s2, axis2);
  int found = nearest_on_segments(s1->pos, axis1, s2->pos, axis2, nearest), feature = found;

  for (int k = 0; k < found; k++) {
    // A tie: the slopes are the mean of two features.
    if (nearest[k].share1 == 0.5 || nearest[k].share2 == 0.5) return -1;
    feature = 4 * feature + 2 * (nearest[k].share1 > 0) + (nearest[k].share2 > 0);
  }
  return feature;
}

static bool is_upright(const NUM(pbShape) *cylinder, const double normal[3]) {
  double axis[3], across[3];
  m3_col(axis, cylinder->mat, 2);
  v3_cross(across, normal, axis);
  return v3_dot(across, across) < PB_UPRIGHT * PB_UPRIGHT;
}

// A cylinder on a box or a cylinder.
static int standing_feature(const NUM(pbShape) *s1, const NUM(pbShape) *s2) {
  pbSearched found = {.kind = pb_searchedConvex};
  if (s2->type < pb_geomCylinder || !NUM(pbPair_Search)(s1, s2, INFINITY, &found)) return 0;

  // Either of them.
  const double *n = found.normal.n;
  bool second = s2->type == pb_geomCylinder && is_upright(s2, n);
  return second || is_upright(s1, n) ? -1 : 0;
}

int NUM(pbPair_Feature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2) {
  bool hulls = shape2->type == pb_geomMesh && shape1->type > pb_geomSphere;
  if (shape1->type == pb_geomHfield || hulls) return NUM(pbPolytope_Feature)(shape1, shape2);
  if (shape1->type == pb_geomCapsule && shape2->type == pb_geomCapsule) return capsules_feature(shape1, shape2);
  if (shape1->type == pb_geomBox && shape2->type == pb_geomBox) return NUM(pbBox_Feature)(shape1, shape2);
  if (shape2->type == pb_geomMesh) return NUM(pbMesh_Feature)(shape1, shape2);
  if (shape1->type == pb_geomCylinder) return standing_feature(shape1, shape2);
  if (shape1->type != pb_geomPlane || (shape2->type != pb_geomCylinder && shape2->type != pb_geomCapsule)) return 0;

  // Upright, any point of a cylinder's rim may be the lowest, and a capsule's axis gives no tangent.
  double normal[3];
  m3_col(normal, shape1->mat, 2);
  return is_upright(shape2, normal) ? -1 : 0;
}
#endif
