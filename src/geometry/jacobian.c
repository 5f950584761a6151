// Jacobians of contact points by the pose of shape 2 and by both sizes. Closed forms for planes, balls and capsules, each the
// differential of the formula above it (the primals are in pair.c, box.c and primitive.h); the other pairs take the complex
// step of the primal, column by column, in the double program alone. Test: tests/unit/test_geometry.c.
#include "geometry/box.h"
#include "geometry/pair.h"
#include "geometry/polytope_contact.h"
#include "geometry/primitive.h"
#include "model/model.h"

#include "base/assert.h"
#include "geometry/rate.h"
#if !PB_IS_COMPLEX
#include "geometry/searched.h"
#endif

// ---- planes -------------------------------------------------------------------------------------------------------
static void plane_sphere(const NUM(pbShape) *plane, pbContactJacobian *j) {
  num n[3];
  row point[3];

  m3_col(n, plane->mat, 2);
  memset(point, 0, sizeof point);
  for (int i = 0; i < 3; i++) point[i][MOVE + i] = 1;

  plane_rate(n, point, SIZE2, j);
}

// point = p2 +- half axis, hint = axis
static void plane_capsule(const NUM(pbShape) *plane, const NUM(pbShape) *capsule, double margin, int count,
                          pbContactJacobian *j) {
  num n[3], axis[3], dif[3], lever[3];
  row hint[3];

  m3_col(n, plane->mat, 2);
  m3_col(axis, capsule->mat, 2);
  rotation_rate(hint, axis);

  // Which of the two ends the primal found: both, or the upper or the lower one alone.
  v3_sub(dif, capsule->pos, plane->pos);
  v3_along(dif, dif, axis, capsule->size[1]);
  bool first = re(v3_dot(dif, n)) <= margin + re(capsule->size[0]);  // the upper end made a contact

  for (int k = 0; k < count; k++) {
    num side = first && k == 0 ? 1 : -1;
    row point[3];

    v3_scale(lever, axis, side * capsule->size[1]);
    rigid_rate(point, lever);

    for (int i = 0; i < 3; i++) point[i][SIZE2 + 1] = side * axis[i];
    plane_rate(n, point, SIZE2, &j[k]);
    memcpy(&j[k].d[HINT], hint, sizeof hint);
  }
}

// point = p2 + R P, P = -S^2 m / l, m = R' n, l = |S m|
static void plane_ellipsoid(const NUM(pbShape) *plane, const NUM(pbShape) *e, pbContactJacobian *j) {
  num n[3], m[3], p[3], lever[3], l2 = 0;
  const num *s = e->size;

  m3_col(n, plane->mat, 2);
  m3_tmulv(m, e->mat, n);

  for (int i = 0; i < 3; i++) l2 += s[i] * s[i] * m[i] * m[i];
  num inv = re(l2) > 0 ? 1 / num_sqrt(l2) : 0;

  // Everything in the ellipsoid's frame, where d m_i = (axis_i x n) by rotation: dl, and the point of the primal.
  row point[3], dm[3] = {0}, dl = {0};
  for (int i = 0; i < 3; i++) {
    num axis[3], moment[3];
    m3_col(axis, e->mat, i);
    v3_cross(moment, axis, n);
    v3_copy(dm[i], moment);

    p[i] = -s[i] * s[i] * m[i] * inv;
    for (int c = 0; c < 3; c++) dl[c] += s[i] * s[i] * m[i] * inv * dm[i][c];
    dl[SIZE2 + i] = s[i] * m[i] * m[i] * inv;
  }

  // The point rotates with the shape, and moves in its frame: P_i = -s_i^2 m_i / l.
  m3_mulv(lever, e->mat, p);
  rigid_rate(point, lever);
  for (int i = 0; i < 3; i++) {
    num axis[3];
    row dp;

    m3_col(axis, e->mat, i);

    for (int c = 0; c < COLUMNS; c++) dp[c] = -s[i] * s[i] * dm[i][c] * inv - p[i] * inv * dl[c];
    dp[SIZE2 + i] -= 2 * s[i] * m[i] * inv;
    add_rate(point, axis, dp);
  }

  plane_rate(n, point, -1, j);
}

// A cylinder on a plane, as pbPlane_Cylinder sees it. axis points to the plane; down = radius u, u = m / |m|,
// m = (n x axis) x axis = axis (n . axis) - n; side = u x axis (unit) times radius sqrt(3) / 2.
typedef struct standing_cylinder {
  num n[3], axis[3], u[3], side[3], radius, half;
  row daxis[3], du[3], dside[3];
  bool upright;
} standing_cylinder;

// du = (1 - u u') d(axis slope) / |m|; upright, u rotates with the cylinder.
static void steepest_rate(standing_cylinder *s, num slope, num inverse_length) {
  if (s->upright) {
    rotation_rate(s->du, s->u);
    return;
  }

  row dslope, along;

  // d (axis slope) by the product rule; the part along u drops out with the normalization.
  dot_rate(dslope, s->n, s->daxis);
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) s->du[i][c] = inverse_length * (s->daxis[i][c] * slope + s->axis[i] * dslope[c]);
  }

  dot_rate(along, s->u, s->du);
  for (int c = 0; c < COLUMNS; c++) along[c] = -along[c];
  add_rate(s->du, s->u, along);
}

// d (u x axis)
static void side_rate(standing_cylinder *s) {
  v3_cross(s->side, s->u, s->axis);
  memset(s->dside, 0, sizeof s->dside);
  for (int i = 0; i < 3; i++) {
    int a = (i + 1) % 3, b = (i + 2) % 3;
    for (int c = 0; c < 3; c++) {
      s->dside[i][c] = s->du[a][c] * s->axis[b] - s->du[b][c] * s->axis[a] + s->u[a] * s->daxis[b][c] - s->u[b] * s->daxis[a][c];
    }
  }
}

static void stand_cylinder(const NUM(pbShape) *plane, const NUM(pbShape) *cylinder, standing_cylinder *s) {
  num level[3], steepest[3];
  s->radius = cylinder->size[0];
  s->half = cylinder->size[1];
  m3_col(s->n, plane->mat, 2);
  m3_col(s->axis, cylinder->mat, 2);
  if (re(v3_dot(s->n, s->axis)) > 0) v3_neg(s->axis, s->axis);
  num slope = v3_dot(s->n, s->axis);
  rotation_rate(s->daxis, s->axis);

  // The steepest radius, as pair.c has it; without one, MuJoCo takes the cylinder's x axis.
  v3_cross(level, s->n, s->axis);
  v3_cross(steepest, level, s->axis);
  num length2 = v3_dot(steepest, steepest), inverse_length = 1 / num_sqrt(length2);
  s->upright = re(length2) < PB_UPRIGHT * PB_UPRIGHT;
  if (re(length2) >= PB_TINY * PB_TINY) {
    v3_scale(s->u, steepest, inverse_length);
  } else {
    m3_col(s->u, cylinder->mat, 0);
  }

  steepest_rate(s, slope, inverse_length);
  side_rate(s);
}

// The point p2 + x[0] down + x[1] half axis + x[2] side.
static void standing_point_rate(const standing_cylinder *s, const num x[3], pbContactJacobian *j) {
  const num *n = s->n;
  num lateral = x[2] * (sqrt(3.0) / 2);
  row point[3], dist;
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) point[i][c] = x[0] * s->radius * s->du[i][c] + x[1] * s->half * s->daxis[i][c];
    point[i][MOVE + i] += 1;
    point[i][SIZE2] += x[0] * s->u[i];
    point[i][SIZE2 + 1] += x[1] * s->axis[i];
  }
  dot_rate(dist, n, point);

  // The sideways part is level, so that the distance does not feel it, unless the cylinder is upright.
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < 3; c++) point[i][c] += lateral * s->radius * s->dside[i][c];
    point[i][SIZE2] += lateral * s->side[i];
  }
  if (s->upright) dot_rate(dist, n, point);

  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) j->d[POS + i][c] = point[i][c] - 0.5 * n[i] * dist[c];
  }
  memcpy(j->d[DIST], dist, sizeof dist);
}

static void plane_cylinder(const NUM(pbShape) *plane, const NUM(pbShape) *cylinder, int count, pbContactJacobian *j) {
  static const num points[4][3] = {{1, 1, 0}, {1, -1, 0}, {-0.5, 1, 1}, {-0.5, 1, -1}};
  standing_cylinder s;
  stand_cylinder(plane, cylinder, &s);

  // The two beside the lowest come together: of an even number the second is the other rim's.
  bool other_rim = count % 2 == 0;
  for (int k = 0; k < count; k++) standing_point_rate(&s, points[k == 0 || other_rim ? k : k + 1], &j[k]);
}

// point = p2 + R (+-size)
static void plane_box(const NUM(pbShape) *plane, const NUM(pbShape) *box, double margin, int count, pbContactJacobian *j) {
  num n[3], dif[3];
  m3_col(n, plane->mat, 2);
  v3_sub(dif, box->pos, plane->pos);
  num height = v3_dot(dif, n);

  // The corners in the primal's order, those that it takes: below the center, and within the margin.
  for (int corner = 0, k = 0; corner < 8 && k < count; corner++) {
    num vec[3], lever[3];
    for (int i = 0; i < 3; i++) vec[i] = corner & (1 << i) ? box->size[i] : -box->size[i];
    m3_mulv(lever, box->mat, vec);
    num drop = v3_dot(n, lever);
    if (!(re(height + drop) <= margin) || re(drop) > 0) continue;

    row point[3];
    rigid_rate(point, lever);
    for (int i = 0; i < 3; i++) {
      for (int s = 0; s < 3; s++) point[i][SIZE2 + s] = corner & (1 << s) ? box->mat[3 * i + s] : -box->mat[3 * i + s];
    }

    plane_rate(n, point, -1, &j[k++]);
  }
}

// ---- balls and capsules -------------------------------------------------------------------------------------------
static void sphere_sphere(const NUM(pbShape) *s1, const NUM(pbShape) *s2, const NUM(pbContactPoint) *contact,
                          pbContactJacobian *j) {
  row c2[3] = {0};

  for (int i = 0; i < 3; i++) c2[i][MOVE + i] = 1;
  ball_rate(contact, contact->dist + s1->size[0] + s2->size[0], s1->size[0], NULL, c2, SIZE1, SIZE2, j);
}

// c2 = p2 + x a, x = a . (p1 - p2) clamped to +-half
static void sphere_axis(const NUM(pbShape) *sphere, const NUM(pbShape) *shape, bool clamps, const NUM(pbContactPoint) *contact,
                        pbContactJacobian *j) {
  num a[3], dif[3], lever[3], moment[3], half = shape->size[1];
  row c2[3], dx = {0};

  m3_col(a, shape->mat, 2);
  v3_sub(dif, sphere->pos, shape->pos);
  num x = v3_dot(a, dif);

  // Clamped, the nearest point stays with the segment's end; else d x = (a x dif) . rotation - a . translation.
  if (clamps && (re(x) < -re(half) || re(x) > re(half))) {
    x = re(x) < 0 ? -half : half;
    dx[SIZE2 + 1] = re(x) < 0 ? -1 : 1;
  } else {
    v3_cross(moment, a, dif);
    for (int k = 0; k < 3; k++) {
      dx[ROT + k] = moment[k];
      dx[MOVE + k] = -a[k];
    }
  }

  v3_scale(lever, a, x);
  rigid_rate(c2, lever);
  add_rate(c2, a, dx);
  ball_rate(contact, contact->dist + sphere->size[0] + shape->size[0], sphere->size[0], NULL, c2, SIZE1, SIZE2, j);
}

// Cap: N = +-axis, dist = N . (p1 - p2) - half - r, normal = -N, pos = p1 - N (dist / 2 + r)
static void sphere_cap(const NUM(pbShape) *sphere, const num n[3], const num dif[3], const NUM(pbContactPoint) *contact,
                       pbContactJacobian *j) {
  row dn[3], dist = {0};
  num moment[3], reach = 0.5 * contact->dist + sphere->size[0];

  rotation_rate(dn, n);
  v3_cross(moment, n, dif);
  for (int k = 0; k < 3; k++) {
    dist[ROT + k] = moment[k];
    dist[MOVE + k] = -n[k];
  }

  // By the sizes: the ball's radius, and the half length of the cylinder.
  dist[SIZE1] = dist[SIZE2 + 1] = -1;
  memcpy(j->d[DIST], dist, sizeof dist);

  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      j->d[NORMAL + i][c] = -dn[i][c];
      j->d[POS + i][c] = -dn[i][c] * reach - 0.5 * n[i] * dist[c];
    }
    j->d[POS + i][SIZE1] -= n[i];
  }
}

// Rim: c2 = p2 + side half a + radius rho, rho = (dif - a x) / |.|, x = a . dif, dif = p1 - p2
static void sphere_rim(const NUM(pbShape) *sphere, const NUM(pbShape) *cylinder, const num a[3], const num dif[3],
                       const NUM(pbContactPoint) *contact, pbContactJacobian *j) {
  num x = v3_dot(a, dif), rho[3], lever[3], moment[3], side = re(x) > 0 ? 1 : -1;
  row c2[3], da[3], drad[3], along, dx = {0};

  v3_along(rho, dif, a, -x);
  num len = v3_norm(rho), inv = 1 / len;
  v3_scale(rho, rho, inv);

  // The radial vector before it is normalized: d (dif - a x), with d dif = -translation.
  v3_cross(moment, a, dif);
  for (int k = 0; k < 3; k++) {
    dx[ROT + k] = moment[k];
    dx[MOVE + k] = -a[k];
  }
  rotation_rate(da, a);
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) drad[i][c] = -da[i][c] * x - a[i] * dx[c];
    drad[i][MOVE + i] -= 1;
  }

  // The rim's point: along the axis it rotates with the cylinder, radially it follows d rho = (1 - rho rho') d rad / len.
  dot_rate(along, rho, drad);
  v3_scale(lever, a, side * cylinder->size[1]);
  rigid_rate(c2, lever);
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) c2[i][c] += cylinder->size[0] * inv * (drad[i][c] - rho[i] * along[c]);
    c2[i][SIZE2] = rho[i];
    c2[i][SIZE2 + 1] = side * a[i];
  }

  ball_rate(contact, contact->dist + sphere->size[0], sphere->size[0], NULL, c2, SIZE1, -1, j);
}

static void sphere_cylinder(const NUM(pbShape) *sphere, const NUM(pbShape) *cylinder, const NUM(pbContactPoint) *contact,
                            pbContactJacobian *j) {
  num a[3], dif[3], radial[3];
  m3_col(a, cylinder->mat, 2);
  v3_sub(dif, sphere->pos, cylinder->pos);
  num x = v3_dot(a, dif);
  v3_along(radial, dif, a, -x);

  cylinder_zone zone = cylinder_zone_of(re(x), re(v3_dot(radial, radial)), re(cylinder->size[0]), re(cylinder->size[1]));
  // The zones of the primal: against the axis, the cap's plane, the rim.
  if (zone == zone_side) {
    sphere_axis(sphere, cylinder, false, contact, j);
  } else if (zone == zone_cap) {
    v3_scale(a, a, re(x) > 0 ? 1 : -1);
    sphere_cap(sphere, a, dif, contact, j);
  } else {
    sphere_rim(sphere, cylinder, a, dif, contact, j);
  }
}

// Stationary points along unit axes at lengths s1, s2 with b = a1 . a2:
//   s1 - b s2 = u = a1 . (p2 - p1),  s2 - b s1 = v = a2 . (p1 - p2); a clamped one is +-half instead of its equation, at a tie
// the mean of both
static void segment_rates(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, const num a1[3], const num a2[3],
                          const segment_pair *near, row ds1, row ds2) {
  num dif[3], moment_v[3], moment_b[3], b = v3_dot(a1, a2), s1 = near->x1 * shape1->size[1], s2 = near->x2 * shape2->size[1];
  row r1 = {0}, r2 = {0};  // du + db s2, dv + db s1

  v3_sub(dif, shape1->pos, shape2->pos);
  v3_cross(moment_v, a2, dif);
  v3_cross(moment_b, a2, a1);
  for (int k = 0; k < 3; k++) {
    r1[ROT + k] = moment_b[k] * s2;
    r1[MOVE + k] = a1[k];
    r2[ROT + k] = moment_v[k] + moment_b[k] * s1;
    r2[MOVE + k] = -a2[k];
  }

  PB_ASSERT(near->share1 >= 0 && near->share1 <= 1 && near->share2 >= 0 && near->share2 <= 1);

  // Both inside their segments: the 2x2 system above with determinant 1 - b^2.
  memset(ds1, 0, sizeof(row));
  memset(ds2, 0, sizeof(row));
  if (near->share1 == 1 && near->share2 == 1) {
    num inv = 1 / v3_dot(moment_b, moment_b);  // 1 - b^2
    for (int c = 0; c < COLUMNS; c++) {
      ds1[c] = (r1[c] + b * r2[c]) * inv;
      ds2[c] = (r2[c] + b * r1[c]) * inv;
    }
    return;
  }

  // Otherwise each follows the other's end, or is at its own.
  num at1 = near->share1 < 1 ? near->x1 : 0, at2 = near->share2 < 1 ? near->x2 : 0;
  for (int c = 0; c < COLUMNS; c++) {
    num end1 = c == SIZE1 + 1 ? at1 : 0, end2 = c == SIZE2 + 1 ? at2 : 0;
    if (near->share1 > 0) ds1[c] = near->share1 * (r1[c] + b * end2);
    if (near->share2 > 0) ds2[c] = near->share2 * (r2[c] + b * end1);
    ds1[c] += (1 - near->share1) * end1;
    ds2[c] += (1 - near->share2) * end2;
  }
}

static bool capsule_capsule(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, int count,
                            const NUM(pbContactPoint) *contacts, pbContactJacobian *j) {
  num a1[3], a2[3], axis1[3], axis2[3];
  m3_col(a1, s1->mat, 2);
  m3_col(a2, s2->mat, 2);
  v3_scale(axis1, a1, s1->size[1]);
  v3_scale(axis2, a2, s2->size[1]);

  segment_pair near[2];
  int found = nearest_on_segments(s1->pos, axis1, s2->pos, axis2, near);
  for (int i = 0, k = 0; i < found && k < count; i++) {
    num p1[3], p2[3], lever[3];
    NUM(pbContactPoint) contact;
    // The nearest points of the primal, and whether it made a contact of them.
    v3_along(p1, s1->pos, axis1, near[i].x1);
    v3_along(p2, s2->pos, axis2, near[i].x2);
    if (!ball_ball(p1, s1->mat, s1->size[0], p2, s2->mat, s2->size[0], margin, &contact)) continue;
    num len = contacts[k].dist + s1->size[0] + s2->size[0];
    if (re(len) < PB_TINY) return false;

    row ds1, ds2, c1[3] = {0}, c2[3];
    segment_rates(s1, s2, a1, a2, &near[i], ds1, ds2);
    add_rate(c1, a1, ds1);

    v3_scale(lever, axis2, near[i].x2);
    rigid_rate(c2, lever);
    add_rate(c2, a2, ds2);

    ball_rate(&contacts[k], len, s1->size[0], c1, c2, SIZE1, SIZE2, &j[k]);
    k++;
  }
  return true;
}

#if !PB_IS_COMPLEX
// ---- complex step -------------------------------------------------------------------------------------------------
// How many of its sizes a shape uses.
static int size_count(int type) {
  static const signed char counts[] = {0, 0, 1, 2, 3, 2, 3};
  return type >= 0 && type <= pb_geomBox ? counts[type] : 0;
}

static void seed_column(const NUM(pbShape) *shape2, int column, pbShape_c *c1, pbShape_c *c2) {
  if (column < MOVE) {  // R -> (1 + i step [e_k]) R
    int a = (column + 1) % 3, b = (column + 2) % 3;
    for (int k = 0; k < 3; k++) {
      __imag__ c2->mat[3 * a + k] = -PB_IMAG_STEP * shape2->mat[3 * b + k];
      __imag__ c2->mat[3 * b + k] = PB_IMAG_STEP * shape2->mat[3 * a + k];
    }
  } else if (column < SIZE1) {  // p -> p + i step e_k
    __imag__ c2->pos[column - MOVE] = PB_IMAG_STEP;
  } else if (column < SIZE2) {
    __imag__ c1->size[column - SIZE1] = PB_IMAG_STEP;
  } else {
    __imag__ c2->size[column - SIZE2] = PB_IMAG_STEP;
  }
}

static void by_complex_step(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const pbSearched *found,
                            int count, pbContactJacobian *j) {
  int used1 = size_count(shape1->type), used2 = size_count(shape2->type);
  bool polytope = found->kind == pb_searchedPolytope;
  if (polytope && NUM(pbPolytope_Rates)(shape1, shape2, margin, &found->facet, count, j)) return;

  for (int column = 0; column < COLUMNS; column++) {
    if (column >= SIZE1 + used1 && column < SIZE2) continue;
    if (column >= SIZE2 + used2) continue;

    pbShape_c c1, c2;
    pbContactPoint_c contacts[PB_MAX_CONTACT_POINTS];
    lift_shape(shape1, &c1);
    lift_shape(shape2, &c2);
    seed_column(shape2, column, &c1, &c2);
    int made = collide_again(found, &c1, &c2, margin, count, contacts);

    PB_ASSERT(made <= PB_MAX_CONTACT_POINTS);
    for (int k = 0; k < count && k < made; k++) {
      const double *value = (const double *)&contacts[k];  // real and imaginary parts of the ten rows
      for (int r = 0; r < 10; r++) j[k].d[r][column] = value[2 * r + 1] / PB_IMAG_STEP;
    }
  }
}

#endif

// Whether the closed form divides by a distance of centers that is zero; the complex step has the finite value then.
static bool is_singular(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, const NUM(pbContactPoint) *contact) {
  return re(contact->dist + shape1->size[0] + shape2->size[0]) < PB_TINY;
}

// Closed forms where there are any and nothing in them is divided by zero; else false.
static bool by_closed_form(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                           const NUM(pbContactPoint) *contacts, pbContactJacobian *jacobians) {
#define PAIR(a, b) ((a)*8 + (b))
  switch (PAIR(shape1->type, shape2->type)) {
    case PAIR(pb_geomPlane, pb_geomSphere): plane_sphere(shape1, jacobians); return true;
    case PAIR(pb_geomPlane, pb_geomCapsule): plane_capsule(shape1, shape2, margin, count, jacobians); return true;
    case PAIR(pb_geomPlane, pb_geomEllipsoid): plane_ellipsoid(shape1, shape2, jacobians); return true;
    case PAIR(pb_geomPlane, pb_geomCylinder): plane_cylinder(shape1, shape2, count, jacobians); return true;
    case PAIR(pb_geomPlane, pb_geomBox): plane_box(shape1, shape2, margin, count, jacobians); return true;
    case PAIR(pb_geomSphere, pb_geomSphere):
      if (is_singular(shape1, shape2, contacts)) return false;
      sphere_sphere(shape1, shape2, contacts, jacobians);
      return true;
    case PAIR(pb_geomSphere, pb_geomCapsule):
      if (is_singular(shape1, shape2, contacts)) return false;
      sphere_axis(shape1, shape2, true, contacts, jacobians);
      return true;
    case PAIR(pb_geomSphere, pb_geomCylinder):
      if (fabs(re(contacts->dist + shape1->size[0])) < PB_TINY || is_singular(shape1, shape2, contacts)) return false;
      sphere_cylinder(shape1, shape2, contacts, jacobians);
      return true;
    case PAIR(pb_geomSphere, pb_geomBox): NUM(pbSphere_BoxRates)(shape1, shape2, contacts, jacobians); return true;
    case PAIR(pb_geomCapsule, pb_geomBox): NUM(pbCapsule_BoxRates)(shape1, shape2, margin, count, jacobians); return true;
    case PAIR(pb_geomBox, pb_geomBox): NUM(pbBox_BoxRates)(shape1, shape2, margin, count, jacobians); return true;
    case PAIR(pb_geomPlane, pb_geomMesh): NUM(pbPlane_MeshRates)(shape1, shape2, margin, count, jacobians); return true;
    case PAIR(pb_geomSphere, pb_geomMesh): NUM(pbSphere_MeshRates)(shape1, shape2, contacts, jacobians); return true;
    case PAIR(pb_geomCapsule, pb_geomCapsule):
      if (capsule_capsule(shape1, shape2, margin, count, contacts, jacobians)) return true;
      memset(jacobians, 0, (size_t)count * sizeof *jacobians);
      return false;
    default: return false;
  }
#undef PAIR
}

bool NUM(pbPair_Jacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const struct pbSearched *kept,
                          int count, const NUM(pbContactPoint) *contacts, pbContactJacobian *jacobians) {
  if (count <= 0) return true;
  PB_ASSERT(count <= PB_MAX_CONTACT_POINTS);

  memset(jacobians, 0, (size_t)count * sizeof *jacobians);
  if (by_closed_form(shape1, shape2, margin, count, contacts, jacobians)) return true;

#if PB_IS_COMPLEX
  (void)kept;
  return false;
#else
  pbSearched room;
  const pbSearched *found = search(shape1, shape2, margin, kept, &room);
  if (found) by_complex_step(shape1, shape2, margin, found, count, jacobians);
  return true;
#endif
}

#if !PB_IS_COMPLEX
void NUM(pbPolytope_Jacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                              pbContactJacobian *jacobians) {
  pbSearched found = {.kind = pb_searchedPolytope};
  memset(jacobians, 0, (size_t)count * sizeof *jacobians);
  if (NUM(pbPair_Search)(shape1, shape2, margin, &found)) by_complex_step(shape1, shape2, margin, &found, count, jacobians);
}
#endif
