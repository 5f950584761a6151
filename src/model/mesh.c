// Hulls of meshes for contacts, from the tables of a compiled model.
// Tests: tests/oracle/test_solids.py, tests/oracle/test_mesh_contact.py.
#include "model/mesh.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/topology.h"

// Entries of the integer tables of a hull: starts of polygons, their corners, starts and polygons at corners, starts and
// neighbors, triangles, starts of climbs and of blocks.
static size_t table_size(const pbModel *m, int mesh) {
  const int *graph = m->mesh_graph + m->mesh_graphadr[mesh];
  size_t corners = (size_t)graph[0], edges = 3 * (size_t)graph[1], around = 0;  // edges: from either end

  // Corners of polygons, which are polygons at corners.
  for (int p = 0; p < m->mesh_polynum[mesh]; p++) around += (size_t)m->mesh_polyvertnum[m->mesh_polyadr[mesh] + p];
  return (size_t)m->mesh_polynum[mesh] + 2 * around + 3 * corners + 2 * edges + 4 + PB_HULL_STARTS;
}

// Corners in the order of the graph, then normals of polygons: copies, for parameters that are added move the model's tables.
// position[v]: the corner that vertex v is.
static double *take_reals(const pbModel *m, int mesh, pbMeshHull *hull, int *position, double *next) {
  const int *graph = m->mesh_graph + m->mesh_graphadr[mesh], *vertex = graph + 2 + graph[0];
  hull->corners = graph[0];
  hull->corner = next;
  hull->vertex = vertex;

  // The vertices inside the hull are left out.
  for (int i = 0; i < hull->corners; i++) {
    const double *x = m->mesh_vert + 3 * (size_t)(m->mesh_vertadr[mesh] + vertex[i]);
    position[vertex[i]] = i;
    memcpy(next, x, 3 * sizeof *x);

    hull->radius = fmax(hull->radius, sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]));
    next += 3;
  }

  size_t normals = 3 * (size_t)m->mesh_polynum[mesh];
  hull->normal = next;
  if (normals) memcpy(next, m->mesh_polynormal + 3 * (size_t)m->mesh_polyadr[mesh], normals * sizeof *next);
  return next + normals;
}

static int *take_polygons(const pbModel *m, int mesh, pbMeshHull *hull, const int *position, int *next) {
  int adr = m->mesh_polyadr[mesh], *first = next, *around = next + m->mesh_polynum[mesh] + 1, n = 0;
  hull->polygons = m->mesh_polynum[mesh];

  // Vertices become corners.
  for (int p = 0; p < hull->polygons; p++) {
    const int *vertex = m->mesh_polyvert + m->mesh_polyvertadr[adr + p];
    first[p] = n;

    for (int k = 0; k < m->mesh_polyvertnum[adr + p]; k++) around[n++] = position[vertex[k]];
  }

  first[hull->polygons] = n;
  hull->first = first;
  hull->around = around;
  return around + n;
}

// Polygons at each corner.
static int *take_faces(const pbModel *m, int mesh, pbMeshHull *hull, int *next) {
  const int *graph = m->mesh_graph + m->mesh_graphadr[mesh], *vertex = graph + 2 + graph[0];
  int *first = next, *face = next + hull->corners + 1, n = 0;

  for (int i = 0; i < hull->corners; i++) {
    int v = m->mesh_vertadr[mesh] + vertex[i];
    first[i] = n;
    for (int k = 0; k < m->mesh_polymapnum[v]; k++) face[n++] = m->mesh_polymap[m->mesh_polymapadr[v] + k];
  }

  first[hull->corners] = n;
  hull->first_face = first;
  hull->face = face;
  return face + n;
}

static int *take_neighbors(const pbModel *m, int mesh, pbMeshHull *hull, int *next) {
  const int *graph = m->mesh_graph + m->mesh_graphadr[mesh], *adr = graph + 2, *edge = graph + 2 + 2 * graph[0];
  int *first = next, *list = next + hull->corners + 1, n = 0;

  // Each list of the graph ends with -1.
  for (int i = 0; i < hull->corners; i++) {
    first[i] = n;
    for (int k = adr[i]; edge[k] >= 0; k++) list[n++] = edge[k];
  }

  first[hull->corners] = n;
  hull->first_next = first;
  hull->next = list;
  return list + n;
}

// Their coordinates, four by four; of a corner with n neighbors at most (n + 3) / 4 blocks.
static double *take_blocks(pbMeshHull *hull, int *first, double *next) {
  enum { together = PB_HULL_BLOCK };
  int n = 0;
  hull->first_block = first;
  hull->block = next;

  for (int i = 0; i < hull->corners; i++) {
    int from = hull->first_next[i], last = hull->first_next[i + 1] - 1;
    first[i] = n;

    // What is left of the last block repeats the last neighbor.
    for (int k = from; k <= last; k += together, n++) {
      for (int e = 0; e < 3 * together; e++) {
        int at = k + e % together < last ? k + e % together : last;
        *next++ = hull->corner[3 * hull->next[at] + e / together];
      }
    }
  }

  PB_ASSERT(4 * n <= 3 * (hull->corners + hull->triangles));
  first[hull->corners] = n;
  return next;
}

static size_t block_reals(const int *graph) {
  // (n + 3) / 4 blocks of 12 reals over all corners, where the sum of n is three times the triangles.
  return 9 * ((size_t)graph[0] + (size_t)graph[1]);
}

static int *take_triangles(const pbModel *m, int mesh, pbMeshHull *hull, const int *position, int *next) {
  const int *graph = m->mesh_graph + m->mesh_graphadr[mesh];
  const int *vertex = graph + 2 + 3 * graph[0] + 3 * graph[1];
  hull->triangles = graph[1];
  hull->triangle = next;
  for (int k = 0; k < 3 * graph[1]; k++) next[k] = position[vertex[k]];
  return next + 3 * graph[1];
}

pbStatus pbModel_MakeHulls(const pbModel *m, pbTopology *t) {
  size_t reals = 0, ints = 0;

  // Of those that may touch.
  for (int i = 0; i < m->nmesh; i++) {
    if (m->mesh_graphadr[i] < 0) continue;
    const int *graph = m->mesh_graph + m->mesh_graphadr[i];
    reals += 3 * (size_t)(graph[0] + m->mesh_polynum[i]) + block_reals(graph);
    ints += table_size(m, i);
  }

  // Positions of all vertices behind the tables.
  t->hull = pbContext_AllocArray(m->ctx, (size_t)m->nmesh + 1, sizeof *t->hull);
  t->hull_reals = pbContext_AllocArray(m->ctx, reals + 1, sizeof *t->hull_reals);
  t->hull_ints = pbContext_AllocArray(m->ctx, ints + (size_t)m->nmeshvert + 1, sizeof *t->hull_ints);
  if (!t->hull || !t->hull_reals || !t->hull_ints)
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for hulls of meshes");

  // One after the other.
  double *next_real = t->hull_reals;
  int *next = t->hull_ints, *position = t->hull_ints + ints;
  for (int i = 0; i < m->nmesh; i++) {
    pbMeshHull *hull = &t->hull[i];
    if (m->mesh_graphadr[i] < 0) continue;

    next_real = take_reals(m, i, hull, position, next_real);
    next = take_polygons(m, i, hull, position, next);
    next = take_faces(m, i, hull, next);
    next = take_neighbors(m, i, hull, next);
    next = take_triangles(m, i, hull, position, next);
    next_real = take_blocks(hull, next, next_real);
    next += hull->corners + 1;
    pbMeshHull_SetBox(hull);
    pbMeshHull_SetStarts(hull, next);
    next += PB_HULL_STARTS;
  }

  PB_ASSERT(next <= t->hull_ints + ints && next_real <= t->hull_reals + reals);
  return pb_ok;
}
