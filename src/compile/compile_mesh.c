// Meshes that geoms name: their properties, once for each; vertices and hulls in the frame of their principal axes.
// Tests: tests/oracle/test_solids.py, tests/oracle/test_mesh_contact.py.
#include "compile/compile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "math/vec.h"

// ---- points -----------------------------------------------------------------------------------------------------------
// What takes points of a file to the frame of the principal axes.
typedef struct mesh_frame {
  double turn[9], back[4];  // of refquat; into the principal axes
  const pbMeshDef *def;
  const pbMeshProperties *properties;
} mesh_frame;

static mesh_frame open_frame(const pbMeshWork *work) {
  mesh_frame f = {.def = work->def, .properties = &work->properties};
  double turn[4];

  // Of any length in a file.
  memcpy(turn, work->def->refquat, sizeof turn);
  pbPose_Normalize(turn, 4);
  quat_to_mat(f.turn, turn);

  // The properties' axes are seen from the moved points.
  quat_conj(f.back, work->properties.quat);
  return f;
}

// As the properties' points are moved, then into the principal axes.
static void place_point(const mesh_frame *f, int i, double x[3]) {
  PB_ASSERT(i >= 0 && 3 * i < f->def->vertex.count);

  // refpos, refquat, scale, in this order.
  v3_sub(x, f->def->vertex.data + 3 * (size_t)i, f->def->refpos);
  m3_tmulv(x, f->turn, x);
  for (int k = 0; k < 3; k++) x[k] = f->def->scale[k] * x[k] - f->properties->center[k];

  quat_rotate(x, f->back, x);
}

static void find_bounds(pbMeshWork *work) {
  double x[3], low[3], high[3];
  mesh_frame f = open_frame(work);

  // Of all points, those inside as well.
  for (int i = 0; i < work->def->vertex.count / 3; i++) {
    place_point(&f, i, x);

    for (int k = 0; k < 3; k++) {
      low[k] = i ? fmin(low[k], x[k]) : x[k];
      high[k] = i ? fmax(high[k], x[k]) : x[k];
    }
  }

  // Middle and half sides; the least box about the center.
  for (int k = 0; k < 3; k++) {
    work->aabb[k] = (low[k] + high[k]) / 2;
    work->aabb[3 + k] = (high[k] - low[k]) / 2;
    work->size[k] = fmax(fabs(low[k]), fabs(high[k]));
  }
}

// ---- properties and hulls ---------------------------------------------------------------------------------------------
static pbStatus check_mesh(const pbCompiler *c, const pbMeshDef *d) {
  if (!d->vertex.count) return PB_AT(c, d, "mesh", "has no points");
  if (d->vertex.count % 3) return PB_AT(c, d, "mesh", "its points have %d numbers, expected three each", d->vertex.count);
  if (d->face.count % 3) return PB_AT(c, d, "mesh", "its faces have %d numbers, expected three each", d->face.count);
  if (d->vertex.count < 12) return PB_AT(c, d, "mesh", "has %d points, expected at least 4", d->vertex.count / 3);
  if (d->maxhullvert != -1 && d->maxhullvert < 4)
    return PB_AT(c, d, "mesh", "maxhullvert is %d, expected at least 4", d->maxhullvert);
  return pb_ok;
}

// The text of the error gets the place of the mesh.
static pbStatus blame_mesh(const pbCompiler *c, const pbMeshDef *d, pbStatus status) {
  char text[512];
  snprintf(text, sizeof text, "%s", pbContext_Error(c->ctx));
  status = status == pb_bad_argument ? pb_bad_input : status;
  return pbSpec_Fail(c->spec, status, &d->place, "mesh", d->name, "%s", text);
}

pbMeshSolid pbCompile_Solid(const pbMeshDef *d) {
  pbMeshSolid solid = {.points = d->vertex.count / 3,
                       .triangles = d->face.count / 3,
                       .point = d->vertex.data,
                       .triangle = d->face.data,
                       .inertia = (pbMeshInertia)d->inertia,
                       .most = d->maxhullvert < 0 ? 0 : d->maxhullvert};
  memcpy(solid.scale, d->scale, sizeof solid.scale);
  memcpy(solid.refpos, d->refpos, sizeof solid.refpos);
  memcpy(solid.refquat, d->refquat, sizeof solid.refquat);
  return solid;
}

static pbStatus measure(pbCompiler *c, const pbMeshDef *d, pbMeshWork *work) {
  PB_TRY(check_mesh(c, d));
  pbMeshSolid solid = pbCompile_Solid(d);
  pbStatus status = pbMesh_Properties(c->ctx, &solid, &work->properties);
  if (status != pb_ok) return blame_mesh(c, d, status);

  work->def = d;
  find_bounds(work);
  work->measured = true;
  return pb_ok;
}

static pbStatus make_hull(pbCompiler *c, pbMeshWork *work) {
  const pbMeshDef *d = work->def;
  if (!(d->scale[0] && d->scale[1] && d->scale[2])) return PB_AT(c, d, "mesh", "a scale of 0 leaves nothing that could touch");

  pbStatus status =
      pbHull_Create(c->ctx, d->vertex.data, d->vertex.count / 3, d->maxhullvert < 0 ? 0 : d->maxhullvert, &work->hull);
  return status == pb_ok ? pb_ok : blame_mesh(c, d, status);
}

pbStatus pbCompile_Mesh(pbCompiler *c, const pbGeomDef *geom, const pbMeshWork **mesh) {
  int index;
  PB_ASSERT(geom->type == pb_geomMesh);
  PB_TRY(pbCompile_Resolve(c, pb_refMesh, geom->mesh, &geom->place, "geom", geom->name, &index));

  // Several geoms may share it.
  pbMeshWork *work = &c->meshes[index];
  if (!work->measured) PB_TRY(measure(c, &c->spec->meshes[index], work));
  work->done = true;
  int i = (int)(geom - c->spec->geoms);
  bool bare = pbSpec_HasRays(c->spec) && !work->def->face.count;
  if (!work->hull && (bare || pbSpec_GeomTouches(c->spec, i) || pbSpec_GeomMeasured(c->spec, i))) PB_TRY(make_hull(c, work));
  *mesh = work;
  return pb_ok;
}

// ---- primitives fitted to meshes --------------------------------------------------------------------------------------

// Half sides of the box of uniform density with these moments.
static void inertia_box(const pbMeshProperties *p, double half[3]) {
  const double *I = p->moments;
  double sum = I[0] + I[1] + I[2];

  // Moments of unit density: half^2 = 3/2 (I1 + I2 - I0) / volume, and what rounding makes negative is flat.
  for (int k = 0; k < 3; k++) half[k] = sqrt(fmax(0, 6 * (sum - 2 * I[k]) / p->volume)) / 2;
}

// MuJoCo's sizes by half sides: those of the inertia box, or of the bounds (`around`), which the shape then encloses.
// What the type has no use for stays as it is.
static void fit_size(int type, const double half[3], bool around, double size[3]) {
  double across = around ? fmax(half[0], half[1]) : (half[0] + half[1]) / 2;

  // The z axis of the mesh's frame is that of least moment, along which round shapes lie.
  switch (type) {
    case pb_geomSphere: size[0] = around ? fmax(across, half[2]) : (half[0] + half[1] + half[2]) / 3; break;
    case pb_geomCapsule:
      size[0] = across;
      size[1] = around ? half[2] - across : fmax(0, half[2] - across / 2);
      break;
    case pb_geomCylinder:
      size[0] = across;
      size[1] = half[2];
      break;
    default: v3_copy(size, half); break;  // of ellipsoids and boxes
  }
}

pbStatus pbCompile_Fit(pbCompiler *c, const pbGeomDef *geom, double pos[3], double quat[4], double size[3]) {
  double half[3], center[3] = {0, 0, 0}, place[3], axes[4];
  bool around = c->spec->compiler.fitaabb;
  int index;
  if (!pbSpec_GeomFits(c->spec, (int)(geom - c->spec->geoms))) return pb_ok;
  PB_TRY(pbCompile_Resolve(c, pb_refMesh, geom->mesh, &geom->place, "geom", geom->name, &index));

  // Measured alone: it is in the model where another geom has its shape.
  pbMeshWork *work = &c->meshes[index];
  if (!work->measured) PB_TRY(measure(c, &c->spec->meshes[index], work));

  // Bounds have a middle of their own.
  if (around) {
    memcpy(center, work->aabb, sizeof center);
    memcpy(half, work->aabb + 3, sizeof half);
  } else {
    inertia_box(&work->properties, half);
  }

  fit_size(geom->type, half, around, size);
  v3_scale(size, size, geom->fitscale);

  // What is stated is the pose of the mesh's file.
  quat_rotate(place, work->properties.quat, center);
  v3_addto(place, work->properties.center);
  memcpy(axes, work->properties.quat, sizeof axes);
  pbPose_Compose(pos, quat, place, axes);
  memcpy(pos, place, sizeof place);
  memcpy(quat, axes, sizeof axes);
  return pb_ok;
}

// ---- the model --------------------------------------------------------------------------------------------------------
// Numbers of a hull's graph: counts, then for each corner where its neighbors begin and which vertex it is, then the neighbors
// with -1 behind each corner's, then the triangles.
static size_t graph_size(const pbHull *h) { return 2 + 3 * (size_t)h->corners + 6 * (size_t)h->triangles; }

// What rays meet: its own faces; where it has none those of its hull.
static int face_count(const pbCompiler *c, const pbMeshWork *work) {
  if (!pbSpec_HasRays(c->spec)) return 0;
  return work->def->face.count ? work->def->face.count / 3 : work->hull->triangles;
}

pbStatus pbCompile_CountMeshes(pbCompiler *c) {
  double vertices = 0, graph = 0, polygons = 0, around = 0, faces = 0;

  // Ids in the order of the spec, without those that are only seen.
  for (int i = 0; i < c->spec->nmesh; i++) {
    pbMeshWork *work = &c->meshes[i];
    const pbHull *h = work->hull;

    work->def = &c->spec->meshes[i];
    work->id = work->done ? c->m->nmesh++ : -1;
    if (!work->done) continue;

    // Of one that touches nothing no hull.
    int points = work->def->vertex.count / 3;
    vertices += points;
    faces += face_count(c, work);
    if (!h) continue;

    graph += (double)graph_size(h);
    polygons += h->polygons;
    around += h->first[h->polygons];
  }

  // Each polygon at a corner is a corner of a polygon.
  if (vertices + graph + polygons + around + 3 * faces > 1e9)
    return pbContext_Fail(c->ctx, pb_no_memory, "meshes take too much memory");
  c->m->nmeshvert = (int)vertices;
  c->m->nmeshgraph = (int)graph;
  c->m->nmeshface = (int)faces;
  c->m->nmeshpoly = (int)polygons;
  c->m->nmeshpolyvert = c->m->nmeshpolymap = (int)around;
  return pb_ok;
}

// Where the next numbers of each table go.
typedef struct mesh_cursor {
  int vertex, graph, polygon, around, face;
} mesh_cursor;

static bool mirrors(const pbMeshDef *d) { return !(d->scale[0] * d->scale[1] * d->scale[2] > 0); }

static void add_neighbor(int *list, int *count, int corner) {
  for (int k = 0; k < *count; k++) {
    if (list[k] == corner) return;
  }
  list[(*count)++] = corner;
}

// Neighbors of each corner by the triangles, which are listed by corners first: position[v] is the corner of vertex v.
static void store_graph(const pbHull *h, bool mirror, int *graph, int *position) {
  int *adr = graph + 2, *vertex = adr + h->corners, *edge = vertex + h->corners;
  int *triangle = edge + h->corners + 3 * h->triangles, used = 0;

  graph[0] = h->corners;
  graph[1] = h->triangles;

  // A scale that mirrors turns triangles round.
  for (int t = 0; t < h->triangles; t++) {
    const int *v = h->triangle + 3 * t;
    triangle[3 * t] = v[0];
    triangle[3 * t + 1] = v[mirror ? 2 : 1];
    triangle[3 * t + 2] = v[mirror ? 1 : 2];
  }

  for (int i = 0; i < h->corners; i++) position[h->corner[i]] = i;
  for (int i = 0; i < h->corners; i++) vertex[i] = h->corner[i];
  for (int k = 0; k < 3 * h->triangles; k++) adr[position[h->triangle[k]]]++;

  // Each corner has as many triangles as neighbors, so each list's room is known.
  for (int i = 0; i < h->corners; i++) {
    int room = adr[i] + 1;
    adr[i] = used;
    used += room;
  }

  // A triangle makes its corners neighbors of each other.
  for (int k = 0; k < used; k++) edge[k] = -1;
  for (int t = 0; t < h->triangles; t++) {
    for (int k = 0; k < 3; k++) {
      int *list = edge + adr[position[h->triangle[3 * t + k]]], count = 0;
      while (list[count] >= 0) count++;

      add_neighbor(list, &count, position[h->triangle[3 * t + (k + 1) % 3]]);
      add_neighbor(list, &count, position[h->triangle[3 * t + (k + 2) % 3]]);
    }
  }
}

// Outward, by the vector area of corners that are not rounded yet, as in MuJoCo.
static void polygon_normal(const mesh_frame *f, const int *around, int count, double normal[3]) {
  double p[3], a[3], b[3], area[3];
  PB_ASSERT(count >= 3);

  // Triangles from the first corner.
  place_point(f, around[0], p);
  place_point(f, around[1], b);
  v3_subfrom(b, p);
  v3_zero(normal);

  for (int k = 2; k < count; k++) {
    v3_copy(a, b);
    place_point(f, around[k], b);
    v3_subfrom(b, p);
    v3_cross(area, a, b);
    v3_addto(normal, area);
  }

  v3_normalize(normal);
}

static void store_polygons(pbModel *m, const pbMeshWork *work, const mesh_frame *f, const mesh_cursor *at) {
  const pbHull *h = work->hull;
  bool mirror = mirrors(work->def);
  m->mesh_polynum[work->id] = h->polygons;

  for (int p = 0; p < h->polygons; p++) {
    int from = h->first[p], count = h->first[p + 1] - from, *around = m->mesh_polyvert + at->around + from;
    m->mesh_polyvertadr[at->polygon + p] = at->around + from;
    m->mesh_polyvertnum[at->polygon + p] = count;

    // Turned round where the mesh is mirrored; the first corner stays.
    for (int k = 0; k < count; k++) around[k] = h->around[from + (mirror && k ? count - k : k)];
    polygon_normal(f, around, count, m->mesh_polynormal + 3 * (size_t)(at->polygon + p));
  }
}

// Polygons around each vertex, in their order.
static void store_polygon_map(pbModel *m, const pbMeshWork *work, const mesh_cursor *at) {
  const pbHull *h = work->hull;
  int *number = m->mesh_polymapnum + at->vertex, *adr = m->mesh_polymapadr + at->vertex, used = at->around;

  // How many at each vertex, and where they begin.
  for (int k = 0; k < h->first[h->polygons]; k++) number[h->around[k]]++;
  for (int i = 0; i < work->def->vertex.count / 3; i++) {
    adr[i] = used;
    used += number[i];
    number[i] = 0;
  }

  // Counted again as they are put in.
  for (int p = 0; p < h->polygons; p++) {
    for (int k = h->first[p]; k < h->first[p + 1]; k++) {
      int v = h->around[k];
      m->mesh_polymap[adr[v] + number[v]++] = p;
    }
  }
}

static void store_faces(pbModel *m, const pbMeshWork *work, const mesh_cursor *at, int faces) {
  const int *vertex = work->def->face.count ? work->def->face.data : work->hull->triangle;
  bool mirror = mirrors(work->def);
  m->mesh_faceadr[work->id] = at->face;
  m->mesh_facenum[work->id] = faces;

  int *out = m->mesh_face + 3 * (size_t)at->face;
  for (int i = 0; i < faces; i++) {
    for (int k = 0; k < 3; k++) out[3 * i + k] = vertex[3 * i + (mirror && k ? 3 - k : k)];
  }
}

static void store_mesh(pbModel *m, const pbMeshWork *work, const mesh_cursor *at) {
  mesh_frame f = open_frame(work);
  int id = work->id, points = work->def->vertex.count / 3;

  // What was taken away from the points that are stored.
  memcpy(m->mesh_pos + 3 * id, work->properties.center, 3 * sizeof(double));
  memcpy(m->mesh_quat + 4 * id, work->properties.quat, 4 * sizeof(double));
  memcpy(m->mesh_scale + 3 * id, work->def->scale, 3 * sizeof(double));
  memcpy(m->mesh_refpos + 3 * id, work->def->refpos, 3 * sizeof(double));
  memcpy(m->mesh_refquat + 4 * id, work->def->refquat, 4 * sizeof(double));
  pbPose_Normalize(m->mesh_refquat + 4 * id, 4);

  // Parameters may get other defaults; these stay.
  memcpy(m->mesh_scale0 + 3 * id, m->mesh_scale + 3 * id, 3 * sizeof(double));
  memcpy(m->mesh_refpos0 + 3 * id, m->mesh_refpos + 3 * id, 3 * sizeof(double));
  memcpy(m->mesh_refquat0 + 4 * id, m->mesh_refquat + 4 * id, 4 * sizeof(double));

  m->mesh_vertadr[id] = at->vertex;
  m->mesh_vertnum[id] = points;

  // Single precision is what MuJoCo keeps.
  double *x = m->mesh_vert + 3 * (size_t)at->vertex;
  for (int i = 0; i < points; i++) place_point(&f, i, x + 3 * (size_t)i);
  for (int k = 0; k < 3 * points; k++) x[k] = (float)x[k];

  m->mesh_graphadr[id] = work->hull ? at->graph : -1;
  m->mesh_polyadr[id] = at->polygon;
  if (!work->hull) return;

  // The table of the polygons' numbers holds positions of corners until they are counted.
  store_graph(work->hull, mirrors(work->def), m->mesh_graph + at->graph, m->mesh_polymapnum + at->vertex);
  memset(m->mesh_polymapnum + at->vertex, 0, (size_t)points * sizeof(int));
  store_polygons(m, work, &f, at);
  store_polygon_map(m, work, at);
}

void pbCompile_StoreMeshes(pbCompiler *c) {
  mesh_cursor at = {0, 0, 0, 0, 0};

  for (int i = 0; i < c->spec->nmesh; i++) {
    const pbMeshWork *work = &c->meshes[i];
    if (work->id < 0) continue;
    store_mesh(c->m, work, &at);
    int faces = face_count(c, work);
    if (faces) store_faces(c->m, work, &at, faces);

    // Behind it the next.
    at.face += faces;
    at.vertex += work->def->vertex.count / 3;
    if (!work->hull) continue;

    at.graph += (int)graph_size(work->hull);
    at.polygon += work->hull->polygons;
    at.around += work->hull->first[work->hull->polygons];
  }
}

void pbCompile_DropMeshes(pbCompiler *c) {
  if (!c->meshes) return;
  for (int i = 0; i < c->spec->nmesh; i++) pbHull_Destroy(c->meshes[i].hull);
}
