// Vertices of meshes and heights of fields as parameters, on request (exposed.h).
// Tests: tests/conformance/test_step.c, tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py.
#include "model/exposed.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "deform/deform.h"
#include "math/vec.h"

// What can be exposed, by the beginnings of names.
typedef struct kind {
  const char *prefix, *word;
  pbObject of;
} kind;
static const kind kinds[] = {{"mesh_vert:", "mesh", pb_objMesh}, {"hfield_data:", "height field", pb_objHfield}};
enum { KINDS = sizeof kinds / sizeof *kinds };

void pbExposed_Destroy(pbModel *m) {
  for (int i = 0; i < m->nexposed; i++) pbContext_Free(m->ctx, m->exposed[i].name);
  pbContext_Free(m->ctx, m->exposed);
}

// ---- what a name means ----------------------------------------------------------------------------------------------------
static pbStatus find(const pbModel *m, const char *name, pbExposed *e) {
  const kind *k = kinds;
  while (k < kinds + KINDS && strncmp(name, k->prefix, strlen(k->prefix)) != 0) k++;
  if (k == kinds + KINDS)
    return pbContext_Fail(m->ctx, pb_bad_argument, "what is exposed: expected mesh_vert:NAME or hfield_data:NAME, found '%.100s'",
                          name);

  const char *own = name + strlen(k->prefix);
  pbSuggest near = pbSuggest_For(own);
  char hint[256];
  e->of = k->of;
  e->id = pbModel_Id(m, k->of, own);
  if (e->id >= 0) return pb_ok;

  // Those that are only seen are not kept.
  for (int i = 0; i < m->names_count[k->of]; i++) pbSuggest_Offer(&near, pbModel_Name(m, k->of, i));
  return pbContext_Fail(m->ctx, pb_bad_argument, "no %s '%.100s' that anything depends on%s", k->word, own,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus check_mesh(const pbModel *m, const char *name, int mesh) {
  if (!m->topology->hull[mesh].corners)
    return pbContext_Fail(m->ctx, pb_unsupported, "'%.100s': the mesh has no convex hull, for nothing of it may touch", name);

  // Surfaces of deformables have corners of their own (attach_local).
  int attached = m->deform ? m->deform->nattached : 0;
  for (int i = 0; i < attached; i++) {
    int geom = m->deform->attached_geom[i];

    if (geom >= 0 && m->geom_dataid[geom] == mesh && m->geom_type[geom] == pb_geomMesh)
      return pbContext_Fail(m->ctx, pb_unsupported, "'%.100s': the mesh is a surface of deformables", name);
  }
  return pb_ok;
}

static pbStatus check(const pbModel *m, const char *name, const pbExposed *e) {
  if (pb_exposedOf(m, e->of, e->id) >= 0) return pbContext_Fail(m->ctx, pb_bad_argument, "'%.100s' is exposed already", name);
  if (m->policy)
    return pbContext_Fail(m->ctx, pb_bad_argument, "'%.100s' cannot be exposed: the model has a policy already", name);
  return e->of == pb_objMesh ? check_mesh(m, name, e->id) : pb_ok;
}

// Its table, and where the model has it.
static const double *compiled_values(const pbModel *m, pbExposed *e) {
  bool mesh = e->of == pb_objMesh;
  e->rows = mesh ? m->mesh_vertnum[e->id] : m->hfield_nrow[e->id];
  e->cols = mesh ? 3 : m->hfield_ncol[e->id];
  return mesh ? m->mesh_vert + 3 * (size_t)m->mesh_vertadr[e->id] : m->hfield_data + m->hfield_adr[e->id];
}

pbStatus pbModel_Expose(pbModel *m, const char *name) {
  pbExposed added = {.offset = m->ntheta};

  PB_TRY(find(m, name, &added));
  PB_TRY(check(m, name, &added));
  (void)compiled_values(m, &added);

  // On failure the model stays as it was.
  size_t count = (size_t)added.rows * (size_t)added.cols;
  added.name = pbContext_CopyText(m->ctx, name);
  pbExposed *all = pbContext_AllocArray(m->ctx, (size_t)m->nexposed + 1, sizeof *all);
  pbStatus status = added.name && all ? pbModel_GrowParams(m, count)
                                      : pbContext_Fail(m->ctx, pb_no_memory, "no memory to expose '%.100s'", name);
  if (status != pb_ok) {
    pbContext_Free(m->ctx, added.name);
    pbContext_Free(m->ctx, all);
    return status;
  }

  // The model's own, which have moved, are where it begins.
  memcpy(m->theta0 + added.offset, compiled_values(m, &added), count * sizeof(double));
  if (m->nexposed) memcpy(all, m->exposed, (size_t)m->nexposed * sizeof *all);

  // Scratches made before do not fit.
  all[m->nexposed] = added;

  pbContext_Free(m->ctx, m->exposed);
  m->exposed = all;
  m->nexposed++;
  m->revision++;
  return pb_ok;
}

// ---- convexity ------------------------------------------------------------------------------------------------------------
// Corners of faces need not stay in a plane, but an edge between two faces must stay one of the hull. Where it sinks, searches go
// wrong by no more than it sinks.
#define HULL_DENT      1e-3  // of the radius: how far it may, so that nearly flat edges may turn a little
#define HULL_THICKNESS 1e-9  // of the radius: least distance of a face from the middle of all corners

// A hull with the points of its mesh, and as it was compiled.
typedef struct changed_hull {
  const pbMeshHull *hull;
  const double *point, *compiled;  // of all vertices
} changed_hull;

// Where it is no more convex.
typedef struct dent {
  double depth;   // m
  int corner[4];  // the edge's two, and one of either face beside it
} dent;

static const double *point_of(const changed_hull *c, const double *point, int corner) {
  return point + 3 * c->hull->vertex[corner];
}

// How far the line through p and q, on the faces left and right of the edge from a to b, passes above it; negative: below.
static double rise_above(const double *a, const double *b, const double *p, const double *q) {
  double ab[3], ap[3], aq[3], pq[3], normal[3], across[3];
  v3_sub(ab, b, a);
  v3_sub(ap, p, a);
  v3_sub(aq, q, a);
  v3_sub(pq, q, p);
  v3_cross(normal, ab, ap);
  v3_cross(across, ab, pq);

  // The distance of the two lines; of parallel ones there is none to speak of.
  double length = v3_norm(across);
  return length > 0 ? v3_dot(normal, aq) / length : 0;
}

static double rise_at(const changed_hull *c, const double *point, const int corner[4]) {
  return rise_above(point_of(c, point, corner[0]), point_of(c, point, corner[1]), point_of(c, point, corner[2]),
                    point_of(c, point, corner[3]));
}

// The face on the other side of the edge from a to b, -1: there is none.
static int face_beyond(const pbMeshHull *h, int a, int b) {
  for (int k = h->first_face[a]; k < h->first_face[a + 1]; k++) {
    int first = h->first[h->face[k]], count = h->first[h->face[k] + 1] - first;

    // It has the edge the other way around.
    for (int i = 0; i < count; i++) {
      if (h->around[first + i] == b && h->around[first + (i + 1) % count] == a) return h->face[k];
    }
  }
  return -1;
}

// All corners of both faces against their edge; what was compiled like that counts as level.
static void look_at_edge(const changed_hull *c, int a, int b, int left, int right, dent *deepest) {
  const pbMeshHull *h = c->hull;

  for (int i = h->first[left]; i < h->first[left + 1]; i++) {
    for (int j = h->first[right]; j < h->first[right + 1]; j++) {
      dent d = {.corner = {a, b, h->around[i], h->around[j]}};

      // The edge's own ends are level with it.
      bool ends = d.corner[2] == a || d.corner[2] == b || d.corner[3] == a || d.corner[3] == b;
      if (ends) continue;

      d.depth = rise_at(c, c->point, d.corner);
      if (d.depth > deepest->depth && d.depth > 2 * rise_at(c, c->compiled, d.corner)) *deepest = d;
    }
  }
}

static dent find_dent(const changed_hull *c) {
  const pbMeshHull *h = c->hull;
  dent deepest = {.depth = HULL_DENT * h->radius, .corner = {-1}};

  for (int p = 0; p < h->polygons; p++) {
    int first = h->first[p], count = h->first[p + 1] - first;

    // Each edge once, from the face of lower number.
    for (int i = 0; i < count; i++) {
      int a = h->around[first + i], b = h->around[first + (i + 1) % count], beyond = face_beyond(h, a, b);
      if (beyond > p) look_at_edge(c, a, b, p, beyond, &deepest);
    }
  }
  return deepest;
}

// A face that has the middle of all corners not below it; -1: none.
static int find_flat(const changed_hull *c) {
  const pbMeshHull *h = c->hull;
  double middle[3] = {0}, normal[3], dif[3];

  // The middle is inside of every convex hull.
  for (int i = 0; i < h->corners; i++) v3_addscl(middle, point_of(c, c->point, i), 1.0 / h->corners);

  for (int p = 0; p < h->polygons; p++) {
    int first = h->first[p], count = h->first[p + 1] - first;
    v3_zero(normal);

    // Twice the vector area.
    for (int i = 0; i < count; i++) {
      double cross[3];
      v3_cross(cross, point_of(c, c->point, h->around[first + i]), point_of(c, c->point, h->around[first + (i + 1) % count]));
      v3_addto(normal, cross);
    }

    v3_normalize(normal);
    v3_sub(dif, point_of(c, c->point, h->around[first]), middle);
    if (!(v3_dot(normal, dif) > HULL_THICKNESS * h->radius)) return p;
  }
  return -1;
}

// Of some corners the vertex that has moved most.
static int moved_most(const changed_hull *c, const int *corner, int count) {
  double most = -1;
  int vertex = -1;

  for (int k = 0; k < count; k++) {
    double move[3];
    v3_sub(move, point_of(c, c->point, corner[k]), point_of(c, c->compiled, corner[k]));
    if (!(v3_norm(move) > most)) continue;

    most = v3_norm(move);
    vertex = c->hull->vertex[corner[k]];
  }
  return vertex;
}

static pbStatus check_hull(pbContext *ctx, const pbExposed *e, const changed_hull *c) {
  const pbMeshHull *h = c->hull;
  dent d = find_dent(c);

  // Named is what moved, whichever of the four it is.
  if (d.corner[0] >= 0)
    return pbContext_Fail(
        ctx, pb_bad_input,
        "%s:%d: no convex hull any more with the faces that were compiled: the edge from vertex %d to %d is %.3g m "
        "below the line from vertex %d to %d",
        e->name, moved_most(c, d.corner, 4), h->vertex[d.corner[0]], h->vertex[d.corner[1]], d.depth, h->vertex[d.corner[2]],
        h->vertex[d.corner[3]]);

  int flat = find_flat(c);
  if (flat < 0) return pb_ok;
  const int *around = h->around + h->first[flat];
  return pbContext_Fail(ctx, pb_bad_input, "%s:%d: no convex hull any more: nothing is below the face of vertices %d, %d, %d",
                        e->name, moved_most(c, around, h->first[flat + 1] - h->first[flat]), h->vertex[around[0]],
                        h->vertex[around[1]], h->vertex[around[2]]);
}

pbStatus pbExposed_CheckHulls(pbContext *ctx, const pbModel *m, const double *theta) {
  for (int i = 0; i < m->nexposed; i++) {
    const pbExposed *e = &m->exposed[i];
    if (e->of != pb_objMesh) continue;

    changed_hull c = {.hull = &m->topology->hull[e->id],
                      .point = theta + e->offset,
                      .compiled = m->mesh_vert + 3 * (size_t)m->mesh_vertadr[e->id]};

    // As compiled they are convex.
    size_t bytes = 3 * (size_t)e->rows * sizeof(double);
    if (memcmp(c.point, c.compiled, bytes) != 0) PB_TRY(check_hull(ctx, e, &c));
  }
  return pb_ok;
}
