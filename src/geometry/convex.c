// Contacts of curved convex shapes from the normal that the search found: the deepest point, and where flat features meet
// (a line or a face on a face, a line along a line) further points that keep a resting body at rest.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/oracle/test_geometry.py.
#include "geometry/convex.h"

#include "base/assert.h"
#include "geometry/standing.h"

enum { MAX_POLYGON = 16, DISC_SIDES = 6 };
// Cosine and sine of k pi / DISC_SIDES, as cos and sin round them: corners of a hexagon and, between them, middles of its sides.
static const double disc_turn[2 * DISC_SIDES][2] = {{1.0, 0.0},
                                                    {0.8660254037844387, 0.49999999999999994},
                                                    {0.5000000000000001, 0.8660254037844386},
                                                    {6.123233995736766e-17, 1.0},
                                                    {-0.4999999999999998, 0.8660254037844387},
                                                    {-0.8660254037844385, 0.5000000000000003},
                                                    {-1.0, 1.2246467991473532e-16},
                                                    {-0.8660254037844388, -0.4999999999999997},
                                                    {-0.5000000000000004, -0.8660254037844384},
                                                    {-1.8369701987210297e-16, -1.0},
                                                    {0.49999999999999933, -0.866025403784439},
                                                    {0.8660254037844384, -0.5000000000000004}};
#define NEARLY 0.9998  // cosine within which a face whose normal is not n still gives contacts (about one degree)

typedef struct convex_pair {
  const NUM(pbShape) *shape[2];
  num radius[2];  // of spheres and capsules
  num n[3], dist;
  num point[2][3];  // supports on the surfaces, in the world
  bool flat[2];
  double margin, scale;
  int most;  // contacts that are wanted
} convex_pair;

static num core_radius(const NUM(pbShape) *shape) {
  return shape->type == pb_geomSphere || shape->type == pb_geomCapsule ? shape->size[0] : 0;
}

// Supports a, b of the cores at n, in the world.
static void supports(const convex_pair *p, const pbConvexNormal *found, const num n[3], num a[3], num b[3]) {
  for (int k = 0; k < 2; k++) {
    const NUM(pbShape) *shape = p->shape[k];
    num m[3], local[3], *out = k ? b : a;

    m3_tmulv(m, shape->mat, n);
    if (k) v3_neg(m, m);
    core_support(shape->type, shape->size, m, k ? found->sign2 : found->sign1, local);

    m3_mulv(out, shape->mat, local);
    v3_addto(out, shape->pos);
  }
}

// The set_ functions give the unit normal in the number type. Where it is a solution (of tangent . (a - b) = 0), one Newton step
// from the real solution with the real Hessian: its imaginary part is the derivative of the implicit function.

// Stationary on a circle: one Newton step along t = e x n.
static void set_circle_normal(convex_pair *p, const pbConvexNormal *found) {
  num *n = p->n, e[3], t[3], x[3], a[3], b[3];
  m3_col(e, p->shape[found->shape]->mat, found->axis1);
  v3_addscl(n, e, -v3_dot(n, e));
  v3_normalize(n);
  v3_cross(t, e, n);

  supports(p, found, n, a, b);
  v3_sub(x, a, b);
  v3_addscl(n, t, -found->inverse[0] * v3_dot(x, t));
  v3_normalize(n);
}

// Stationary on the sphere: one Newton step in the tangent plane, gradient g, inverse Hessian from the search.
static void set_sphere_normal(convex_pair *p, const pbConvexNormal *found) {
  const double *inverse = found->inverse;
  num *n = p->n, g[2] = {0, 0}, x[3], a[3], b[3];
  supports(p, found, n, a, b);
  v3_sub(x, a, b);
  for (int i = 0; i < 3; i++) {
    g[0] += found->tangent[0][i] * x[i];
    g[1] += found->tangent[1][i] * x[i];
  }

  num u = -(inverse[0] * g[0] + inverse[1] * g[1]), v = -(inverse[1] * g[0] + inverse[2] * g[1]);
  for (int i = 0; i < 3; i++) n[i] += u * found->tangent[0][i] + v * found->tangent[1][i];
  v3_normalize(n);
}

static void set_normal(convex_pair *p, const pbConvexNormal *found) {
  num *n = p->n, e1[3], e2[3];
  for (int i = 0; i < 3; i++) n[i] = found->n[i];

  switch (found->kind) {
    case pb_normalFace:
      m3_col(n, p->shape[found->shape]->mat, found->axis1);
      v3_scale(n, n, found->sign);
      break;
    case pb_normalCross:
      m3_col(e1, p->shape[0]->mat, found->axis1);
      m3_col(e2, p->shape[1]->mat, found->axis2);
      v3_cross(n, e1, e2);
      v3_normalize(n);
      v3_scale(n, n, found->sign);
      break;
    case pb_normalCircle: set_circle_normal(p, found); break;
    case pb_normalSphere: set_sphere_normal(p, found); break;
    case pb_normalFixed: break;
  }
}

// Normal, distance and the supports on the surfaces, radii included.
static void set_supports(convex_pair *p, const pbConvexNormal *found) {
  num x[3];
  set_normal(p, found);

  supports(p, found, p->n, p->point[0], p->point[1]);
  v3_addscl(p->point[0], p->n, p->radius[0]);
  v3_addscl(p->point[1], p->n, -p->radius[1]);

  v3_sub(x, p->point[1], p->point[0]);
  p->dist = v3_dot(p->n, x);

  p->flat[0] = support_is_flat(p->shape[0]->type, found->sign1);
  p->flat[1] = support_is_flat(p->shape[1]->type, found->sign2);
}

static void put_contact(NUM(pbContactPoint) *contact, num dist, const num pos[3], const num normal[3]) {
  contact->dist = dist;
  v3_copy(contact->pos, pos);
  v3_copy(contact->normal, normal);
  v3_zero(contact->hint);
}

// Midway between the surfaces at the support that is a point (both: their middle).
static void put_deepest(const convex_pair *p, NUM(pbContactPoint) *contact) {
  num pos[3];
  if (p->flat[0] == p->flat[1]) {
    v3_add(pos, p->point[0], p->point[1]);
    v3_scale(pos, pos, 0.5);
  } else {
    v3_along(pos, p->point[p->flat[0] ? 1 : 0], p->n, (p->flat[0] ? -0.5 : 0.5) * p->dist);
  }
  put_contact(contact, p->dist, pos, p->n);
}

static bool is_near(const convex_pair *p, const NUM(pbContactPoint) *contacts, int count, const num pos[3], double relative) {
  for (int k = 0; k < count; k++) {
    num d[3];
    v3_sub(d, pos, contacts[k].pos);
    if (re(v3_dot(d, d)) < relative * relative * p->scale * p->scale) return true;
  }
  return false;
}

// ---- a face ---------------------------------------------------------------------------------------------------------
// The reference face: its plane and region, in the world.
typedef struct face {
  num center[3], normal[3], u[3], v[3];  // normal: outward
  num half_u, half_v;                    // rectangle; disc: half_u is the radius
  bool disc;
} face;

// Face of a shape with outward normal sign * axis a.
static void make_face(const NUM(pbShape) *ref, int a, double sign, face *f) {
  int u = (a + 1) % 3, v = (a + 2) % 3;
  f->disc = ref->type == pb_geomCylinder;
  PB_ASSERT(a >= 0 && a < 3 && fabs(sign) == 1 && (!f->disc || a == 2));

  m3_col(f->normal, ref->mat, a);
  v3_scale(f->normal, f->normal, sign);
  v3_along(f->center, ref->pos, f->normal, f->disc ? ref->size[1] : ref->size[a]);

  m3_col(f->u, ref->mat, u);
  m3_col(f->v, ref->mat, v);
  f->half_u = f->disc ? ref->size[0] : ref->size[u];
  f->half_v = f->disc ? ref->size[0] : ref->size[v];
}

// The face (of either shape) whose normal is n, or nearly so. Returns its shape, -1: there is none.
static int reference_face(const convex_pair *p, const pbConvexNormal *found, face *f) {
  if (found->kind == pb_normalFace) {
    make_face(p->shape[found->shape], found->axis1, found->shape ? -found->sign : found->sign, f);
    return found->shape;
  }

  // A normal of another kind: the face whose axis is nearest to it.
  double best = NEARLY, sign = 1;
  int shape = -1, axis = 0;
  for (int k = 0; k < 2; k++) {
    int type = p->shape[k]->type;
    if (type != pb_geomBox && type != pb_geomCylinder) continue;

    for (int a = type == pb_geomBox ? 0 : 2; a < 3; a++) {
      num e[3];
      m3_col(e, p->shape[k]->mat, a);
      double cosine = re(v3_dot(e, p->n));
      if (fabs(cosine) > best) {
        best = fabs(cosine);
        shape = k;
        axis = a;
        sign = (cosine > 0) != (k == 1) ? 1 : -1;
      }
    }
  }

  if (shape >= 0) make_face(p->shape[shape], axis, sign, f);

  return shape;
}

static void disc_corner(const num center[3], const num u[3], const num v[3], num radius, int k, num out[3]) {
  v3_along(out, center, u, radius * disc_turn[2 * k][0]);
  v3_addscl(out, v, radius * disc_turn[2 * k][1]);
}

// The face of a box that looks against `outward`, m in the box's frame.
static int box_polygon(const NUM(pbShape) *box, const num m[3], num out[][3]) {
  int a = 0;
  for (int i = 1; i < 3; i++) {
    if (fabs(re(m[i])) > fabs(re(m[a]))) a = i;
  }

  // Its corners in order around it.
  int iu = (a + 1) % 3, iv = (a + 2) % 3;
  num axis[3], u[3], v[3], center[3];
  m3_col(axis, box->mat, a);
  m3_col(u, box->mat, iu);
  m3_col(v, box->mat, iv);
  v3_along(center, box->pos, axis, re(m[a]) > 0 ? -box->size[a] : box->size[a]);

  for (int k = 0; k < 4; k++) {
    v3_along(out[k], center, u, k == 0 || k == 3 ? box->size[iu] : -box->size[iu]);
    v3_addscl(out[k], v, k < 2 ? box->size[iv] : -box->size[iv]);
  }

  return 4;
}

// The cap that looks down, as a hexagon.
static int disc_polygon(const NUM(pbShape) *cylinder, const num m[3], num out[][3]) {
  num axis[3], u[3], v[3], center[3];
  m3_col(axis, cylinder->mat, 2);
  m3_col(u, cylinder->mat, 0);
  m3_col(v, cylinder->mat, 1);
  v3_along(center, cylinder->pos, axis, re(m[2]) > 0 ? -cylinder->size[1] : cylinder->size[1]);
  for (int k = 0; k < DISC_SIDES; k++) disc_corner(center, u, v, cylinder->size[0], k, out[k]);

  return DISC_SIDES;
}

// Corners of the flat feature of the other shape that faces the plane: a line (2), a rectangle (4), a disc as a hexagon
// fixed in the shape (6). 0: it has none.
static int incident_polygon(const NUM(pbShape) *shape, const num outward[3], num out[][3]) {
  num m[3], axis[3], u[3], center[3];
  bool cylinder = shape->type == pb_geomCylinder;
  m3_tmulv(m, shape->mat, outward);
  if (shape->type == pb_geomBox) return box_polygon(shape, m, out);
  if (!cylinder && shape->type != pb_geomCapsule) return 0;
  if (cylinder && fabs(re(m[2])) > 0.7) return disc_polygon(shape, m, out);

  // The lowest line of the side: straight down from the axis, for a cylinder at right angles to it.
  m3_col(axis, shape->mat, 2);
  v3_neg(u, outward);
  if (cylinder) {
    v3_addscl(u, axis, m[2]);
    v3_normalize(u);
  }
  v3_along(center, shape->pos, u, shape->size[0]);
  v3_along(out[0], center, axis, shape->size[1]);
  v3_along(out[1], center, axis, -shape->size[1]);

  return 2;
}

// Keep the part of a polygon where c . (x, y) <= limit (Sutherland and Hodgman).
static int clip(int n, const num (*in)[3], num (*out)[3], double cx, double cy, num limit) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    const num *p = in[k], *q = in[k + 1 == n ? 0 : k + 1];
    num dp = cx * p[0] + cy * p[1] - limit, dq = cx * q[0] + cy * q[1] - limit;

    if (re(dp) <= 0 && count < MAX_POLYGON) v3_copy(out[count++], p);
    if (((re(dp) < 0 && re(dq) > 0) || (re(dp) > 0 && re(dq) < 0)) && count < MAX_POLYGON) {
      num step[3];
      v3_sub(step, q, p);
      v3_along(out[count++], p, step, num_div(dp, dp - dq));
    }
  }

  return count;
}

// Whether the deepest point of the incident shape lies over the face (where faces are parallel but for rounding it may not).
static bool over_face(const convex_pair *p, const face *f, const num point[3]) {
  num d[3];
  double slack = 1e-6 * p->scale;
  v3_sub(d, point, f->center);

  double x = re(v3_dot(d, f->u)), y = re(v3_dot(d, f->v));
  if (f->disc) return sqrt(x * x + y * y) <= re(f->half_u) + slack;

  return fabs(x) <= re(f->half_u) + slack && fabs(y) <= re(f->half_v) + slack;
}

// Clip to the face; poly holds (x, y, height) in the face's frame. A disc is clipped as a hexagon, half a side ahead of the
// incident one. Returns the number of corners, and the buffer with the result.
static int clip_to_face(const face *f, int n, num poly[2][MAX_POLYGON][3], int *which) {
  static const double right_angles[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  int sides = f->disc ? DISC_SIDES : 4;
  *which = 0;
  for (int k = 0; k < sides; k++) {
    double cx = right_angles[k & 3][0], cy = right_angles[k & 3][1];
    num limit = k % 2 ? f->half_v : f->half_u;
    if (f->disc) {
      cx = disc_turn[2 * k + 1][0];
      cy = disc_turn[2 * k + 1][1];
      limit = f->half_u * disc_turn[1][0];
    }

    // Back and forth between two buffers.
    n = clip(n, poly[*which], poly[!*which], cx, cy, limit);
    *which = !*which;
  }

  return n;
}

// A cylinder that stands with all of its disc over the face; seen along the face's normal, as it would stand upright.
static bool stands_over(const convex_pair *p, const face *f, const NUM(pbShape) *other) {
  num d[3], axis[3];
  if (other->type != pb_geomCylinder) return false;
  m3_col(axis, other->mat, 2);
  double along = re(v3_dot(axis, f->normal)), radius = re(other->size[0]), slack = 1e-9 * p->scale;
  if (!(fabs(along) > PB_STANDING)) return false;

  // The middle of the cap that faces it.
  v3_along(d, other->pos, axis, along > 0 ? -other->size[1] : other->size[1]);
  v3_subfrom(d, f->center);

  // In a disc, in a rectangle.
  double x = re(v3_dot(d, f->u)), y = re(v3_dot(d, f->v));
  if (f->disc) return sqrt(x * x + y * y) + radius <= re(f->half_u) + slack;

  return fabs(x) + radius <= re(f->half_u) + slack && fabs(y) + radius <= re(f->half_v) + slack;
}

static int face_contacts(const convex_pair *p, const pbConvexNormal *found, NUM(pbContactPoint) *contacts) {
  face f;
  num corners[MAX_POLYGON][3], poly[2][MAX_POLYGON][3], normal[3];
  int ref = reference_face(p, found, &f), other = !ref, which, count = 0;
  if (ref < 0) return 0;

  PB_ASSERT(ref == 0 || ref == 1);
  if (stands_over(p, &f, p->shape[other])) {
    return stand_on_plane(f.center, f.normal, p->shape[other], ref, p->margin, p->most, contacts);
  }

  // The deepest point first, unless it is one of many (flat on flat). Alone it is also what is left where nothing faces it.
  bool deepest = !p->flat[0] || !p->flat[1];
  if (found->kind == pb_normalFace) deepest = !p->flat[other] && over_face(p, &f, p->point[other]);
  if (deepest) put_deepest(p, &contacts[count++]);
  if (count == p->most) return count;

  int n = incident_polygon(p->shape[other], f.normal, corners);
  if (!n) return count;

  for (int k = 0; k < n; k++) {
    num d[3];
    v3_sub(d, corners[k], f.center);
    v3_set(poly[0][k], v3_dot(d, f.u), v3_dot(d, f.v), v3_dot(d, f.normal));
  }
  n = clip_to_face(&f, n, poly, &which);
  PB_ASSERT(n >= 0 && n <= MAX_POLYGON);

  // Then the corners that are left, each midway between the surfaces.
  v3_scale(normal, f.normal, ref ? -1 : 1);
  for (int k = 0; k < n && count < p->most; k++) {
    const num *q = poly[which][k];
    num pos[3];
    if (!(re(q[2]) <= p->margin)) continue;

    v3_along(pos, f.center, f.u, q[0]);
    v3_addscl(pos, f.v, q[1]);
    v3_addscl(pos, f.normal, 0.5 * q[2]);
    if (!is_near(p, contacts, count, pos, 1e-6)) put_contact(&contacts[count++], q[2], pos, normal);
  }

  return count;
}

// ---- a line on a line -----------------------------------------------------------------------------------------------
typedef struct line {
  num center[3], axis[3], half, radius;
} line;

// The straight line of a shape that supports n: the axis of a capsule or cylinder with its radius, an edge of a box.
static bool support_line(const NUM(pbShape) *shape, const signed char sign[3], line *l) {
  int a = 2;
  // A box: the edge along the one axis whose corner sign is open.
  if (shape->type == pb_geomBox) {
    int zeros = 0;
    num local[3];
    for (int i = 0; i < 3; i++) {
      if (!sign[i]) {
        a = i;
        zeros++;
      }
      local[i] = sign[i] * shape->size[i];
    }

    if (zeros != 1) return false;
    m3_mulv(l->center, shape->mat, local);
    v3_addto(l->center, shape->pos);
    l->half = shape->size[a];
    l->radius = 0;
  } else if ((shape->type == pb_geomCylinder || shape->type == pb_geomCapsule) && !sign[2]) {
    v3_copy(l->center, shape->pos);
    l->half = shape->size[1];
    l->radius = shape->size[0];
  } else {
    return false;
  }

  m3_col(l->axis, shape->mat, a);

  return true;
}

// Crossing lines: the points of both that are nearest, lines taken as infinite.
static bool put_crossing(const convex_pair *p, const line *l1, const line *l2, NUM(pbContactPoint) *contact) {
  num cross[3], dif[3], pos[3];
  v3_cross(cross, l1->axis, l2->axis);
  num det = v3_dot(cross, cross);
  if (!(re(det) > 1e-14)) return false;

  v3_sub(dif, l2->center, l1->center);
  num b = v3_dot(l1->axis, l2->axis), u = v3_dot(l1->axis, dif), v = -v3_dot(l2->axis, dif);
  num s = num_div(u + b * v, det);  // s - b t = u, t - b s = v
  v3_along(pos, l1->center, l1->axis, s);
  v3_addscl(pos, p->n, l1->radius + 0.5 * p->dist);
  put_contact(contact, p->dist, pos, p->n);

  return true;
}

// Nearly parallel: further contacts at the ends of the overlap, as between parallel capsules.
static int put_overlap(const convex_pair *p, const line *l1, const line *l2, NUM(pbContactPoint) *contacts, int count) {
  if (!(fabs(re(v3_dot(l1->axis, l2->axis))) > 0.995)) return count;
  for (int end = -1; end <= 1; end += 2) {
    num dif[3], p1[3], p2[3], s = end * l1->half, t;

    // The end of line 1 and the point of line 2 across from it, or the end of line 2 and the point of line 1.
    v3_along(p1, l1->center, l1->axis, s);
    v3_sub(dif, p1, l2->center);
    t = v3_dot(dif, l2->axis);
    if (re(t) > re(l2->half) || re(t) < -re(l2->half)) {
      t = re(t) > 0 ? l2->half : -l2->half;
      v3_along(p2, l2->center, l2->axis, t);
      v3_sub(dif, p2, l1->center);
      s = v3_dot(dif, l1->axis);
      if (!(fabs(re(s)) <= re(l1->half))) continue;
      v3_along(p1, l1->center, l1->axis, s);
    }

    v3_along(p2, l2->center, l2->axis, t);
    NUM(pbContactPoint) contact;
    if (!ball_ball(p1, p->shape[0]->mat, l1->radius, p2, p->shape[1]->mat, l2->radius, p->margin, &contact)) continue;

    // Kept where the normal is near that of the pair and no contact is there yet.
    if (re(v3_dot(contact.normal, p->n)) > 0.5 && !is_near(p, contacts, count, contact.pos, 1e-3)) contacts[count++] = contact;
  }

  return count;
}

static int line_contacts(const convex_pair *p, const pbConvexNormal *found, NUM(pbContactPoint) *contacts) {
  line l1, l2;
  int count = 0;
  if (!support_line(p->shape[0], found->sign1, &l1) || !support_line(p->shape[1], found->sign2, &l2)) return 0;

  if (found->kind == pb_normalCross && put_crossing(p, &l1, &l2, contacts)) count = 1;
  if (count == p->most) return count;

  return put_overlap(p, &l1, &l2, contacts, count);
}

int NUM(pbConvex_Contacts)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const pbConvexNormal *found,
                           int most, NUM(pbContactPoint) *contacts) {
  convex_pair p = {.shape = {shape1, shape2}, .margin = margin, .scale = found->scale, .most = most};

  p.radius[0] = core_radius(shape1);
  p.radius[1] = core_radius(shape2);
  set_supports(&p, found);
  if (!(re(p.dist) <= margin)) return 0;

  // Most special first: line on line, something flat on a face, and the deepest point alone where neither gives contacts.
  int count = 0;
  if (found->kind != pb_normalFace && p.flat[0] && p.flat[1]) count = line_contacts(&p, found, contacts);
  if (!count) count = face_contacts(&p, found, contacts);
  if (!count) put_deepest(&p, &contacts[count++]);
  PB_ASSERT(count >= 1 && count <= PB_MAX_CONTACT_POINTS);

  return count;
}
