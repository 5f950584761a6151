// Convex hulls by qhull, and their faces as polygons.
// Tests: tests/oracle/test_solids.py, tests/oracle/test_mesh_contact.py.
#include <pullback/solid.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/own.h"
#include "elementary/elementary.h"
#include "math/vec.h"

#ifdef PB_HAVE_QHULL
#include <libqhull_r/qhull_ra.h>
#endif

#define LEAST_LENGTH 1e-15  // of edges and normals, as in MuJoCo
#define KEY_ANGLE    0.01   // rad: directions are told apart by azimuth and polar angle in steps of this

void pbHull_Destroy(pbHull *hull) {
  if (!hull) return;

  pbContext_Free(hull->ctx, hull->corner);
  pbContext_Free(hull->ctx, hull->triangle);
  pbContext_Free(hull->ctx, hull->first);
  pbContext_Free(hull->ctx, hull->around);
  pbContext_Free(hull->ctx, hull);
}

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "no memory for a convex hull"); }

// ---- what has no hull -------------------------------------------------------------------------------------------------
// A point at some distance from the first, -1: there is none.
static int find_second(const double *point, int points) {
  double edge[3];
  for (int i = 1; i < points; i++) {
    v3_sub(edge, point + 3 * i, point);
    if (v3_norm(edge) > LEAST_LENGTH) return i;
  }
  return -1;
}

// A unit normal of a plane through the first two and another; false: all are on a line.
static bool find_normal(const double *point, int points, int second, double normal[3]) {
  double u[3], v[3];
  PB_ASSERT(second > 0 && second < points);
  v3_sub(u, point + 3 * second, point);

  // The first third point that is not on the line.

  for (int i = 1; i < points; i++) {
    v3_sub(v, point + 3 * i, point);
    v3_cross(normal, u, v);
    double length = v3_norm(normal);
    if (!(v3_norm(v) > LEAST_LENGTH && length > LEAST_LENGTH * v3_norm(u) * v3_norm(v))) continue;

    v3_scale(normal, normal, 1 / length);
    return true;
  }
  return false;
}

static bool leave_plane(const double *point, int points, int second, const double normal[3]) {
  double edge[3], offset[3];
  v3_sub(edge, point + 3 * second, point);

  for (int i = 0; i < points; i++) {
    v3_sub(offset, point + 3 * i, point);
    if (fabs(v3_dot(normal, offset)) > LEAST_LENGTH * v3_norm(edge)) return true;
  }
  return false;
}

static pbStatus check_points(pbContext *ctx, const double *point, int points, int most) {
  if (most < 0 || (most > 0 && most < 4))
    return pbContext_Fail(ctx, pb_bad_argument, "a hull of at most %d corners: at least 4 are needed", most);
  if (points < 4) return pbContext_Fail(ctx, pb_bad_input, "a hull of %d points: at least 4 are needed", points);

  for (int i = 0; i < 3 * points; i++) {
    if (!isfinite(point[i])) return pbContext_Fail(ctx, pb_bad_argument, "point %d is not finite", i / 3);
  }

  double normal[3];
  int second = find_second(point, points);
  if (second < 0) return pbContext_Fail(ctx, pb_bad_input, "all %d points are at one place: there is no convex hull", points);
  if (!find_normal(point, points, second, normal))
    return pbContext_Fail(ctx, pb_bad_input, "all %d points are on a line: there is no convex hull (a thin capsule?)", points);
  if (!leave_plane(point, points, second, normal))
    return pbContext_Fail(ctx, pb_bad_input, "all %d points are in a plane: there is no convex hull (a thin box?)", points);

  return pb_ok;
}

// ---- qhull ------------------------------------------------------------------------------------------------------------
#ifdef PB_HAVE_QHULL
static pbStatus take_corners(pbHull *hull, qhT *qh) {
  // qhull's list, point by point.
  vertexT *vertex;
  hull->corner = pbContext_AllocArray(hull->ctx, (size_t)qh->num_vertices, sizeof *hull->corner);
  if (!hull->corner) return no_memory(hull->ctx);

  FORALLvertices hull->corner[hull->corners++] = qh_pointid(qh, vertex->point);
  return pb_ok;
}

// qhull's facets are turned by their own mark.
static pbStatus take_triangles(pbHull *hull, qhT *qh) {
  facetT *facet;
  vertexT *vertex, **vertexp;
  hull->triangle = pbContext_AllocArray(hull->ctx, 3 * (size_t)qh->num_facets, sizeof *hull->triangle);
  if (!hull->triangle) return no_memory(hull->ctx);

  FORALLfacets {
    static const int straight[3] = {0, 1, 2}, turned[3] = {1, 0, 2};
    const int *place = facet->toporient ? turned : straight;
    int *row = hull->triangle + 3 * (size_t)hull->triangles++, n = 0;
    FOREACHvertex_(facet->vertices) {
      if (n < 3) row[place[n]] = qh_pointid(qh, vertex->point);
      n++;
    }
    if (n != 3) return pbContext_Fail(hull->ctx, pb_bad_input, "the hull has a face that could not be split into triangles");
  }
  return pb_ok;
}

// What qhull has to say goes into a text of ours.
static pbStatus run_qhull(pbHull *hull, const double *point, int points, int most) {
  char command[64] = "qhull Qt", *text = NULL;
  size_t size = 0;
  if (most) snprintf(command, sizeof command, "qhull Qt Q9 TA%d", most - 4);

  FILE *messages = open_memstream(&text, &size);
  if (!messages) return no_memory(hull->ctx);

  // qhull reads the points and leaves them.
  qhT state;
  memset(&state, 0, sizeof state);
  qh_zero(&state, messages);
  int failed = qh_new_qhull(&state, 3, points, pb_own(point), False, command, NULL, messages);
  fclose(messages);

  pbStatus status = pb_ok;
  if (failed == qh_ERRmem) status = no_memory(hull->ctx);
  else if (failed) status = pbContext_Fail(hull->ctx, pb_bad_input, "qhull finds no hull: %.200s", text ? text : "");
  if (status == pb_ok) status = take_corners(hull, &state);
  if (status == pb_ok) status = take_triangles(hull, &state);

  int kept, blocks;
  state.NOerrexit = True;
  qh_freeqhull(&state, !qh_ALL);
  qh_memfreeshort(&state, &kept, &blocks);
  free(text);
  return status;
}
#else
static pbStatus run_qhull(pbHull *hull, const double *point, int points, int most) {
  (void)point;
  (void)points;
  (void)most;
  return pbContext_Fail(hull->ctx, pb_unsupported, "convex hulls were not built in, which takes qhull (PULLBACK_QHULL)");
}
#endif

// ---- polygons ---------------------------------------------------------------------------------------------------------
typedef struct side {  // of a triangle
  int from, to, triangle;
  int64_t key;  // of the triangle's direction
  int next;     // side that goes on where this one ends, -1: none
  bool inner;   // the neighbour across has the same direction
  bool done;
} side;

// Direction of a triangle, rounded; false: it has none.
static bool direction_of(const double *point, const int v[3], int64_t *key) {
  double a[3], b[3], n[3];
  v3_sub(a, point + 3 * v[1], point + 3 * v[0]);
  v3_sub(b, point + 3 * v[2], point + 3 * v[0]);
  v3_cross(n, a, b);
  double length = v3_norm(n);
  if (length < LEAST_LENGTH) return false;

  // At the poles the azimuth means nothing; adding zero takes the sign from a negative one.
  v3_scale(n, n, 1 / length);
  double azimuth = 0, polar = n[2] < 0 ? round(M_PI / KEY_ANGLE) : 0;
  if (fabs(n[2]) <= 1 - 1e-7) {
    azimuth = round(pbAtan2(n[1] + 0.0, n[0] + 0.0) / KEY_ANGLE);
    polar = round(pbAcos(n[2]) / KEY_ANGLE);
  }
  *key = (int64_t)azimuth * 4096 + (int64_t)polar;
  return true;
}

static int compare_sides(const void *a, const void *b) {
  const side *x = *(side *const *)a, *y = *(side *const *)b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

static side *find_side(side **sorted, int count, int from, int to) {
  side wanted = {.from = from, .to = to}, *pointer = &wanted;
  side **found = bsearch(&pointer, sorted, (size_t)count, sizeof *sorted, compare_sides);
  return found ? *found : NULL;
}

// Sides of all triangles that have a direction, in the triangles' order.
static int list_sides(const pbHull *hull, const double *point, side *sides, side **sorted) {
  int count = 0;

  // Three a triangle, so that a triangle's are found by division.
  for (int t = 0; t < hull->triangles; t++) {
    const int *v = hull->triangle + 3 * t;
    int64_t key;
    if (!direction_of(point, v, &key)) continue;
    for (int k = 0; k < 3; k++) sides[count++] = (side){v[k], v[(k + 1) % 3], t, key, -1, false, false};
  }

  for (int i = 0; i < count; i++) sorted[i] = &sides[i];
  qsort(sorted, (size_t)count, sizeof *sorted, compare_sides);
  return count;
}

// The side on a polygon's rim that follows: round the end of this one, over inner sides.
static int follow(side *sides, side **sorted, int count, int i) {
  for (int turns = 0; turns < count; turns++) {
    // The next side of the same triangle.
    int first = i - i % 3, next = first + (i - first + 1) % 3;
    if (!sides[next].inner) return next;

    const side *across = find_side(sorted, count, sides[next].to, sides[next].from);
    PB_ASSERT(across);
    i = (int)(across - sides);
  }
  return -1;
}

static void join_sides(side *sides, side **sorted, int count) {
  // Inner ones first: rims go round their ends.
  for (int i = 0; i < count; i++) {
    const side *across = find_side(sorted, count, sides[i].to, sides[i].from);
    sides[i].inner = across && across->key == sides[i].key;
  }
  for (int i = 0; i < count; i++) {
    if (!sides[i].inner) sides[i].next = follow(sides, sorted, count, i);
  }
}

// Rims in the order of their first sides.
static void walk_rims(pbHull *hull, side *sides, int count) {
  int n = 0;

  for (int i = 0; i < count; i++) {
    if (sides[i].inner || sides[i].done) continue;

    // Once round.
    int from = n;
    PB_ASSERT(from <= 3 * hull->triangles);
    for (int k = i; k >= 0 && !sides[k].done; k = sides[k].next) {
      sides[k].done = true;
      hull->around[n++] = sides[k].from;
    }

    // Two sides there and back enclose nothing.
    if (n - from < 3) n = from;
    else hull->first[++hull->polygons] = n;
  }
}

static pbStatus make_polygons(pbHull *hull, const double *point) {
  // No more corners than sides.
  size_t most = 3 * (size_t)hull->triangles;
  hull->first = pbContext_AllocArray(hull->ctx, most + 1, sizeof *hull->first);
  hull->around = pbContext_AllocArray(hull->ctx, most + 1, sizeof *hull->around);
  side *sides = pbContext_AllocArray(hull->ctx, most + 1, sizeof *sides);
  side **sorted = pbContext_AllocArray(hull->ctx, most + 1, sizeof *sorted);

  bool room = hull->first && hull->around && sides && sorted;
  if (room) {
    hull->first[0] = 0;
    int count = list_sides(hull, point, sides, sorted);
    join_sides(sides, sorted, count);
    walk_rims(hull, sides, count);
  }

  pbContext_Free(hull->ctx, sides);
  pbContext_Free(hull->ctx, sorted);
  return room ? pb_ok : no_memory(hull->ctx);
}

pbStatus pbHull_Create(pbContext *ctx, const double *point, int points, int most, pbHull **hull) {
  PB_TRY(check_points(ctx, point, points, most));
  pbHull *made = pbContext_AllocArray(ctx, 1, sizeof *made);
  if (!made) return no_memory(ctx);
  *made = (pbHull){.ctx = ctx};

  pbStatus status = run_qhull(made, point, points, most);
  if (status == pb_ok) status = make_polygons(made, point);
  if (status == pb_ok) *hull = made;
  else pbHull_Destroy(made);
  return status;
}
