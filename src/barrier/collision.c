// What can collide: checked lists of primitives, the triangles around each vertex, and what belongs to no triangle.
// Tests: tests/unit/test_barrier.c.
#include <stdlib.h>
#include <string.h>

#include "barrier/parts.h"
#include "base/assert.h"
#include "base/context.h"

static int compare_edges(const void *a, const void *b) {
  const int *p = a, *q = b;
  if (p[0] != q[0]) return p[0] > q[0] ? 1 : -1;
  return (p[1] > q[1]) - (p[1] < q[1]);
}

int pbCollision_Edges(const int *triangle, int triangles, int *edge) {
  // Each edge of each triangle, smaller vertex first.
  for (int k = 0; k < 3 * triangles; k++) {
    int a = triangle[k], b = triangle[k % 3 == 2 ? k - 2 : k + 1];
    edge[2 * k] = a < b ? a : b;
    edge[2 * k + 1] = a < b ? b : a;
  }

  // Sorted, so that equal ones are neighbors, of which one stays.
  qsort(edge, 3 * (size_t)triangles, 2 * sizeof *edge, compare_edges);
  int count = 0;

  for (int k = 0; k < 3 * triangles; k++) {
    if (count && compare_edges(edge + 2 * (count - 1), edge + 2 * k) == 0) continue;
    edge[2 * count] = edge[2 * k];
    edge[2 * count + 1] = edge[2 * k + 1];
    count++;
  }

  return count;
}

static int compare_ints(const void *a, const void *b) {
  const int *p = a, *q = b;
  return (*p > *q) - (*p < *q);
}

int pbCollision_Points(const int *primitive, int count, int size, int *point) {
  size_t all = (size_t)count * (size_t)size;
  int found = 0;

  memcpy(point, primitive, all * sizeof *point);
  qsort(point, all, sizeof *point, compare_ints);

  for (size_t k = 0; k < all; k++) {
    if (!found || point[found - 1] != point[k]) point[found++] = point[k];
  }

  PB_VALIDATE(pb_ascending(point, found));
  return found;
}

// ---- creation -------------------------------------------------------------------------------------------------------
// Vertices of one primitive: there, each once, and all of one group.
static pbStatus check_primitive(pbContext *ctx, const pbCollisionDef *d, const char *name, int i, int size, const int *v) {
  for (int k = 0; k < size; k++) {
    if (v[k] < 0 || v[k] >= d->vertices)
      return pbContext_Fail(ctx, pb_bad_input, "collision: %s %d has vertex %d; there are %d", name, i, v[k], d->vertices);

    for (int l = 0; l < k; l++) {
      if (v[l] == v[k]) return pbContext_Fail(ctx, pb_bad_input, "collision: %s %d has vertex %d twice", name, i, v[k]);
    }

    if (d->group[v[k]] < 0 || d->group[v[k]] != d->group[v[0]])
      return pbContext_Fail(ctx, pb_bad_input, "collision: %s %d has vertex %d of group %d and vertex %d of group %d", name, i,
                            v[0], d->group[v[0]], v[k], d->group[v[k]]);
  }

  return pb_ok;
}

static pbStatus check_list(pbContext *ctx, const pbCollisionDef *d, const char *name, int count, int size, const int *list) {
  if (count < 0 || (count > 0 && !list))
    return pbContext_Fail(ctx, pb_bad_argument, "collision: %d %ss without a list", count, name);

  for (int i = 0; i < count; i++) PB_TRY(check_primitive(ctx, d, name, i, size, list + (size_t)i * (size_t)size));
  return pb_ok;
}

// Which groups collide with which: the same from both sides.
static pbStatus check_symmetry(pbContext *ctx, const pbCollisionDef *d) {
  if (!d->collide) return pb_ok;

  for (int a = 0; a < d->groups; a++) {
    for (int b = 0; b < a; b++) {
      if (d->collide[a * d->groups + b] != d->collide[b * d->groups + a])
        return pbContext_Fail(ctx, pb_bad_input, "collision: group %d with %d is not as %d with %d", a, b, b, a);
    }
  }

  return pb_ok;
}

static pbStatus check_def(pbContext *ctx, const pbCollisionDef *d) {
  if (d->vertices < 0 || d->groups < 0 || d->groups > 32768 || (d->vertices > 0 && !d->group))
    return pbContext_Fail(ctx, pb_bad_argument, "collision: %d vertices, %d groups", d->vertices, d->groups);

  for (int v = 0; v < d->vertices; v++) {
    if (d->group[v] < -1 || d->group[v] >= d->groups)
      return pbContext_Fail(ctx, pb_bad_input, "collision: vertex %d is of group %d; there are %d", v, d->group[v], d->groups);
  }

  PB_TRY(check_symmetry(ctx, d));

  // In the plane triangles have no inside to be in.
  if (d->planar && d->triangles)
    return pbContext_Fail(ctx, pb_bad_input, "collision: planar, and %d triangles; a planar body collides by its boundary edges",
                          d->triangles);

  PB_TRY(check_list(ctx, d, "point", d->points, 1, d->point));
  PB_TRY(check_list(ctx, d, "edge", d->edges, 2, d->edge));
  PB_TRY(check_list(ctx, d, "triangle", d->triangles, 3, d->triangle));

  return check_list(ctx, d, "plane", d->planes, 3, d->plane);
}

static void lay_out(pbArena *a, pbCollision *c) {
  c->group = pbArena_Take(a, (size_t)c->vertices, sizeof(int));
  c->point = pbArena_Take(a, (size_t)c->points, sizeof(int));
  c->edge = pbArena_Take(a, 2 * (size_t)c->edges, sizeof(int));
  c->triangle = pbArena_Take(a, 3 * (size_t)c->triangles, sizeof(int));
  c->plane = pbArena_Take(a, 3 * (size_t)c->planes, sizeof(int));
  c->collide = pbArena_Take(a, (size_t)c->groups * (size_t)c->groups, sizeof(bool));
  c->star = pbArena_Take(a, (size_t)c->vertices + 1, sizeof(int));
  c->star_triangle = pbArena_Take(a, 3 * (size_t)c->triangles, sizeof(int));
  c->bare_point = pbArena_Take(a, (size_t)c->points, sizeof(int));
  c->lone_point = pbArena_Take(a, (size_t)c->points, sizeof(int));
  c->bare_edge = pbArena_Take(a, (size_t)c->edges, sizeof(int));
}

static void copy_list(int *to, const int *from, size_t count) {
  if (count) memcpy(to, from, count * sizeof *to);
}

// Triangles around each vertex, in order: counted, summed to where each vertex's begin, then put there (a counting sort).
static void make_stars(pbCollision *c) {
  int corners = 3 * c->triangles;

  memset(c->star, 0, ((size_t)c->vertices + 1) * sizeof *c->star);
  for (int k = 0; k < corners; k++) c->star[c->triangle[k] + 1]++;
  for (int v = 0; v < c->vertices; v++) c->star[v + 1] += c->star[v];

  for (int k = 0; k < corners; k++) {
    int place = c->star[c->triangle[k]]++;
    c->star_triangle[place] = k / 3;
  }

  // Each had moved to the end of its star, where the next begins.
  for (int v = c->vertices; v > 0; v--) c->star[v] = c->star[v - 1];
  c->star[0] = 0;
  PB_ASSERT(c->star[c->vertices] == corners);
}

static bool in_triangle(const pbCollision *c, int triangle, int v) {
  const int *t = c->triangle + 3 * triangle;
  return t[0] == v || t[1] == v || t[2] == v;
}

static bool edge_is_bare(const pbCollision *c, const int *edge) {
  for (int k = c->star[edge[0]]; k < c->star[edge[0] + 1]; k++) {
    if (in_triangle(c, c->star_triangle[k], edge[1])) return false;
  }

  return true;
}

// Bare: in no triangle; lone: in no edge either.
static pbStatus find_bare(pbCollision *c) {
  bool *has_edge = pbContext_AllocArray(c->ctx, (size_t)c->vertices + 1, sizeof(bool));
  if (!has_edge) return pb_no_memory;

  for (int i = 0; i < c->edges; i++) {
    has_edge[c->edge[2 * i]] = true;
    has_edge[c->edge[2 * i + 1]] = true;
    if (edge_is_bare(c, c->edge + 2 * i)) c->bare_edge[c->bare_edges++] = i;
  }

  for (int i = 0; i < c->points; i++) {
    // A vertex with triangles around it is bare of none.
    int v = c->point[i];
    if (c->star[v + 1] > c->star[v]) continue;
    c->bare_point[c->bare_points++] = i;
    if (!has_edge[v]) c->lone_point[c->lone_points++] = i;
  }

  pbContext_Free(c->ctx, has_edge);
  return pb_ok;
}

static pbStatus fill_collision(pbCollision *c, const pbCollisionDef *d) {
  pbArena a = pbArena_Measure();
  lay_out(&a, c);
  c->memory = a.failed ? NULL : pbContext_Alloc(c->ctx, pbArena_Needed(&a));
  if (!c->memory) return pb_no_memory;

  a = pbArena_Over(c->memory, pbArena_Needed(&a));
  lay_out(&a, c);

  copy_list(c->group, d->group, (size_t)d->vertices);
  copy_list(c->point, d->point, (size_t)d->points);
  copy_list(c->edge, d->edge, 2 * (size_t)d->edges);
  copy_list(c->triangle, d->triangle, 3 * (size_t)d->triangles);
  copy_list(c->plane, d->plane, 3 * (size_t)d->planes);
  for (int k = 0; k < d->groups * d->groups; k++) c->collide[k] = !d->collide || d->collide[k];

  make_stars(c);
  PB_TRY(find_bare(c));

  return pbCollision_MakeEnergies(c);
}

pbStatus pbCollision_Create(pbContext *ctx, const pbCollisionDef *d, pbCollision **collision) {
  *collision = NULL;
  PB_TRY(check_def(ctx, d));

  pbCollision *c = pbContext_Alloc(ctx, sizeof *c);
  if (!c) return pbContext_Fail(ctx, pb_no_memory, "collision: out of memory");

  // Lists are copied: the definition may go.
  *c = (pbCollision){.ctx = ctx,
                     .vertices = d->vertices,
                     .groups = d->groups,
                     .points = d->points,
                     .edges = d->edges,
                     .triangles = d->triangles,
                     .planes = d->planes,
                     .planar = d->planar,
                     .friction = d->friction};

  pbStatus status = fill_collision(c, d);
  if (status == pb_ok) *collision = c;
  else pbCollision_Destroy(c);

  return status == pb_no_memory ? pbContext_Fail(ctx, status, "collision: out of memory") : status;
}

void pbCollision_Destroy(pbCollision *c) {
  if (!c) return;
  for (int type = 0; type < pb_stencilTypes; type++) {
    pbEnergy_Destroy(c->contact_energy[type]);
    pbEnergy_Destroy(c->friction_energy[type]);
  }

  pbContext_Free(c->ctx, c->memory);
  pbContext_Free(c->ctx, c);
}
