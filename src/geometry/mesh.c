// Contacts of convex hulls of meshes with planes and balls, each with its Jacobian. Corners and order are those of MuJoCo 4.0.0.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/oracle/test_geometry.py.
#include "base/assert.h"
#include "geometry/hull.h"
#include "geometry/primitive.h"
#include "geometry/tie.h"
#include "model/model.h"

// A world vector's real part in the shape's frame.
static void to_shape(const NUM(pbShape) *shape, const num v[3], double local[3]) {
  for (int k = 0; k < 3; k++) {
    local[k] = re(shape->mat[k]) * re(v[0]) + re(shape->mat[3 + k]) * re(v[1]) + re(shape->mat[6 + k]) * re(v[2]);
  }
}

// ---- planes -------------------------------------------------------------------------------------------------------------
// Of the corners with which a hull lies on a plane (pbHull_OnPlane, the deepest first): those within the margin of the plane, and
// of all but the deepest those that are not above the mesh's position. touching: their numbers; lever: each from the mesh's
// position, world axes, m. Returns how many.
static int corners_on_plane(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, int touching[PB_HULL_ON_PLANE],
                            num lever[PB_HULL_ON_PLANE][3]) {
  int candidate[PB_HULL_ON_PLANE], count = 0;
  num normal[3], dif[3];
  double up[3];  // the normal in the mesh's frame
  pbHullView view;

  hull_view(mesh, &view);
  m3_col(normal, plane->mat, 2);
  v3_sub(dif, mesh->pos, plane->pos);
  double height = re(v3_dot(normal, dif));

  // Most meshes are farther above than their radius; its billionth is for rounding.
  if (!(height - view.radius <= margin + 1e-9 * view.radius)) return 0;
  to_shape(mesh, normal, up);
  int candidates = pbHull_OnPlane(&view, up, candidate);

  for (int k = 0; k < candidates; k++) {
    hull_lever(mesh, candidate[k], lever[count]);
    double drop = re(v3_dot(normal, lever[count]));  // of the corner over the mesh's position
    bool reaches = height + drop <= margin, first = k == 0;
    if (!reaches || (!first && drop > 0)) continue;
    touching[count++] = candidate[k];
  }
  return count;
}

int NUM(pbPlane_Mesh)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, NUM(pbContactPoint) *contacts) {
  num lever[PB_HULL_ON_PLANE][3], normal[3], dif[3];
  int corner[PB_HULL_ON_PLANE], count = corners_on_plane(plane, mesh, margin, corner, lever);
  m3_col(normal, plane->mat, 2);

  for (int k = 0; k < count; k++) {
    num point[3];
    v3_add(point, mesh->pos, lever[k]);
    v3_sub(dif, point, plane->pos);
    num dist = v3_dot(normal, dif);

    contacts[k].dist = dist;
    v3_copy(contacts[k].normal, normal);
    v3_along(contacts[k].pos, point, normal, -0.5 * dist);
    v3_zero(contacts[k].hint);
  }
  return count;
}

// ---- balls --------------------------------------------------------------------------------------------------------------
// Where the ball's center is nearest to the hull: seen from the mesh's origin, and the unit normal into the hull with the
// distance of the center along it, negative inside.
typedef struct ball_on_hull {
  num nearest[3], normal[3], height;
  num along[3];  // of two corners: unit vector from one to the other
} ball_on_hull;

static void meet_point(const num center[3], ball_on_hull *b) {
  v3_sub(b->normal, b->nearest, center);
  b->height = v3_normalize(b->normal);
}

static void meet_edge(const num center[3], const num a[3], const num end[3], ball_on_hull *b) {
  num dif[3];
  v3_sub(b->along, end, a);
  v3_normalize(b->along);

  // Across from the center.
  v3_sub(dif, center, a);
  v3_along(b->nearest, a, b->along, v3_dot(dif, b->along));
  meet_point(center, b);
}

// inside: the triangle is counterclockwise seen from outside, else the center is outside of it.
static void meet_triangle(const num center[3], num x[3][3], bool inside, ball_on_hull *b) {
  num u[3], v[3], dif[3];
  v3_sub(u, x[1], x[0]);
  v3_sub(v, x[2], x[0]);
  v3_cross(b->normal, v, u);
  v3_normalize(b->normal);

  v3_sub(dif, x[0], center);
  b->height = v3_dot(b->normal, dif);

  // From outside, a triangle's corners may come in either order.
  if (!inside && re(b->height) < 0) {
    v3_neg(b->normal, b->normal);
    b->height = -b->height;
  }
  v3_along(b->nearest, center, b->normal, b->height);
}

static double re_norm(const num v[3]) { return sqrt(re(v[0]) * re(v[0]) + re(v[1]) * re(v[1]) + re(v[2]) * re(v[2])); }

static pbHullNearest find_nearest(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh) {
  num dif[3];
  double center[3];
  pbHullView view;

  hull_view(mesh, &view);
  v3_sub(dif, sphere->pos, mesh->pos);
  to_shape(mesh, dif, center);
  double away = fmax(re_norm(sphere->pos), re_norm(mesh->pos));
  return pbHull_Nearest(&view, center, pb_rounding(view.radius + re(sphere->size[0]), away));
}

static void meet(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh, const pbHullNearest *found, ball_on_hull *b) {
  num center[3], x[3][3] = {0};
  v3_sub(center, sphere->pos, mesh->pos);
  for (int i = 0; i < found->count; i++) hull_lever(mesh, found->corner[i], x[i]);

  PB_ASSERT(found->count >= 1 && found->count <= 3);
  v3_copy(b->nearest, x[0]);

  if (found->count == 3) meet_triangle(center, x, found->inside, b);
  else if (found->count == 2) meet_edge(center, x[0], x[1], b);
  else meet_point(center, b);
}

int NUM(pbSphere_Mesh)(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh, double margin, NUM(pbContactPoint) *contact) {
  num dif[3], radius = sphere->size[0];
  v3_sub(dif, sphere->pos, mesh->pos);

  pbHullView view;
  hull_view(mesh, &view);
  double reach = margin + re(radius) + view.radius;
  if (!(re(v3_dot(dif, dif)) <= reach * reach * (1 + 1e-9))) return 0;

  ball_on_hull b;
  pbHullNearest found = find_nearest(sphere, mesh);
  meet(sphere, mesh, &found, &b);

  // The surfaces are the radius nearer.
  if (!(re(b.height) - re(radius) <= margin)) return 0;

  contact->dist = b.height - radius;
  v3_copy(contact->normal, b.normal);
  v3_along(contact->pos, sphere->pos, b.normal, radius + 0.5 * contact->dist);
  v3_zero(contact->hint);
  return 1;
}

// ---- Jacobians ------------------------------------------------------------------------------------------------------------
#include "geometry/rate.h"

void NUM(pbPlane_MeshRates)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, int count, pbContactJacobian *j) {
  num lever[PB_HULL_ON_PLANE][3], n[3];
  row point[3];

  // The same corners as the primal's, fixed to the mesh.
  m3_col(n, plane->mat, 2);
  int corner[PB_HULL_ON_PLANE], found = corners_on_plane(plane, mesh, margin, corner, lever);

  for (int k = 0; k < count && k < found; k++) {
    rigid_rate(point, lever[k]);
    plane_rate(n, point, -1, &j[k]);
  }
}

// A face as a plane that moves with the mesh: height = normal . (nearest - center).
static void face_rate(const num n[3], const num dif[3], num reach, pbContactJacobian *j) {
  row dn[3];
  num moment[3];
  rotation_rate(dn, n);

  // d height = n . (translation + rotation x (face - origin)) + (rotation x n) . (face - center); dif = origin - center
  v3_cross(moment, n, dif);
  for (int k = 0; k < 3; k++) {
    j->d[DIST][ROT + k] = moment[k];
    j->d[DIST][MOVE + k] = n[k];
  }
  j->d[DIST][SIZE1] = -1;

  // pos = center + n (r + dist / 2), where d (r + dist / 2) by the radius is 1/2.
  for (int i = 0; i < 3; i++) {
    memcpy(j->d[NORMAL + i], dn[i], sizeof(row));
    for (int c = 0; c < COLUMNS; c++) j->d[POS + i][c] = dn[i][c] * reach + 0.5 * n[i] * j->d[DIST][c];
    j->d[POS + i][SIZE1] += n[i];
  }
}

// The nearest point of an edge slides along it: a . (center - point) = 0.
static void edge_rate(const ball_on_hull *b, row point[3]) {
  const num *a = b->along;
  num moment[3], across[3];
  row slide = {0};

  v3_scale(across, b->normal, -b->height);
  v3_cross(moment, a, across);
  v3_addcross(moment, a, b->nearest);

  for (int k = 0; k < 3; k++) {
    slide[ROT + k] = moment[k];
    slide[MOVE + k] = -a[k];
  }
  add_rate(point, a, slide);
}

void NUM(pbSphere_MeshRates)(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh, const NUM(pbContactPoint) *contact,
                             pbContactJacobian *j) {
  ball_on_hull b;
  pbHullNearest found = find_nearest(sphere, mesh);
  meet(sphere, mesh, &found, &b);

  if (found.count == 3) {
    num dif[3];
    v3_sub(dif, mesh->pos, sphere->pos);
    face_rate(b.normal, dif, sphere->size[0] + 0.5 * contact->dist, j);
    return;
  }

  // A corner, or a point that slides along an edge.
  row point[3];
  rigid_rate(point, b.nearest);
  if (found.count == 2) edge_rate(&b, point);
  ball_rate(contact, b.height, sphere->size[0], NULL, point, SIZE1, -1, j);
}

#if !PB_IS_COMPLEX
// Of a corner x of the hull: dist = n . (point - plane), pos = point - n dist / 2, d point = mat d e x, so that
//   d dist = n . d point,  d pos = d point - n (n . d point) / 2
// The plane's normal has none.
void NUM(pbPlane_PullStrain)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, int count,
                             const pbContactBar *bar, double strain_bar[6]) {
  double lever[PB_HULL_ON_PLANE][3], n[3];
  int corner[PB_HULL_ON_PLANE], found = corners_on_plane(plane, mesh, margin, corner, lever);
  m3_col(n, plane->mat, 2);
  memset(strain_bar, 0, 6 * sizeof *strain_bar);

  for (int k = 0; k < count && k < found; k++) {
    const double *r = bar[k].row;
    double world[3], g[3], x[3];
    v3_along(world, r + 1, n, r[0] - 0.5 * v3_dot(n, r + 1));
    m3_tmulv(g, mesh->mat, world);
    hull_corner(mesh, corner[k], x);

    // g . e x
    for (int i = 0; i < 3; i++) {
      int a = (i + 1) % 3, b = (i + 2) % 3;
      strain_bar[i] += g[i] * x[i];
      strain_bar[3 + i] += 0.5 * (g[a] * x[b] + g[b] * x[a]);
    }
  }
}

int NUM(pbMesh_Touching)(const NUM(pbShape) *other, const NUM(pbShape) *mesh, double margin, int *corner) {
  double lever[PB_HULL_ON_PLANE][3];
  if (other->type == pb_geomPlane) return corners_on_plane(other, mesh, margin, corner, lever);

  pbHullNearest found = find_nearest(other, mesh);
  PB_ASSERT(found.count >= 1 && found.count <= 3);
  memcpy(corner, found.corner, (size_t)found.count * sizeof *corner);
  return found.count;
}

int NUM(pbMesh_Feature)(const NUM(pbShape) *other, const NUM(pbShape) *mesh) {
  int corner[PB_HULL_ON_PLANE], count = 0;
  if (other->type == pb_geomPlane) {
    double normal[3], n[3];
    pbHullView view;

    hull_view(mesh, &view);
    m3_col(normal, other->mat, 2);
    to_shape(mesh, normal, n);
    count = pbHull_OnPlane(&view, n, corner);
  } else {
    pbHullNearest found = find_nearest(other, mesh);
    count = found.count;
    memcpy(corner, found.corner, sizeof found.corner);
  }

  // A number for the corners, whatever their order.
  unsigned feature = (unsigned)count;
  for (int k = 0; k < count; k++) {
    unsigned mixed = ((unsigned)corner[k] + 1) * 2654435761u;
    feature += (mixed ^ mixed >> 13) * 2654435761u;
  }
  return (int)(feature & 0x7fffffff);
}
#endif
