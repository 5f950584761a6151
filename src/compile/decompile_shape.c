// Meshes and height fields of a model with parameters, and where the geoms that have their shape stand: a file, which may have
// any frame, gives the frame of a geom by the center and the axes of its mass.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "compile/decompile.h"
#include "compile/spec_pool.h"
#include "math/vec.h"
#include "model/exposed.h"

#define OF(field, width, i) (d->theta + (d->m->field - d->m->theta0) + (size_t)(width) * (size_t)(i))

// ---- frames -----------------------------------------------------------------------------------------------------------
typedef struct frame {
  double pos[3], quat[4];
} frame;

// Origin of a geom's frame in that of its file, and its axes.
static frame frame_of_mesh(const pbDecompiler *d, int mesh) {
  frame f;
  bool design = d->m->ndesignmesh > 0;

  // In a design it moves with the mesh.
  memcpy(f.pos, design ? OF(mesh_center, 3, mesh) : d->m->mesh_pos + 3 * mesh, sizeof f.pos);
  memcpy(f.quat, design ? OF(mesh_axes, 4, mesh) : d->m->mesh_quat + 4 * mesh, sizeof f.quat);
  return f;
}

// As the compiler places a geom whose file is at `file`.
static frame place(const frame *file, const frame *inside) {
  frame f = *inside;
  pbPose_Compose(file->pos, file->quat, f.pos, f.quat);
  return f;
}

static double distance(const frame *a, const frame *b) {
  double most = 0;

  for (int k = 0; k < 3; k++) most = fmax(most, fabs(a->pos[k] - b->pos[k]));
  for (int k = 0; k < 4; k++) most = fmax(most, fabs(a->quat[k] - b->quat[k]));
  return most;
}

// The frame of the file from which the compiler comes to `wanted`: to the bit where rounding allows it.
static frame find_file(const frame *wanted, const frame *inside) {
  enum { rounds = 8 };
  frame file, best, back;
  double turn[4], nearest = INFINITY;

  // As far as rounding goes at once.
  quat_conj(back.quat, inside->quat);
  pbPose_MulQuat(file.quat, wanted->quat, back.quat);
  pbPose_Rotate(back.pos, inside->pos, file.quat);
  v3_sub(file.pos, wanted->pos, back.pos);
  best = file;

  // What is missed is put back, in the frame of the file.
  for (int i = 0; i < rounds && nearest > 0; i++) {
    frame made = place(&file, inside);
    double off = distance(&made, wanted);
    if (off < nearest) best = file;
    nearest = fmin(nearest, off);

    // q := q + (wanted - made) / axes
    for (int k = 0; k < 4; k++) made.quat[k] = wanted->quat[k] - made.quat[k];
    quat_mul(turn, made.quat, back.quat);
    for (int k = 0; k < 4; k++) file.quat[k] += turn[k];
    for (int k = 0; k < 3; k++) file.pos[k] += wanted->pos[k] - made.pos[k];
  }
  return best;
}

// As it stands there, where that leads to the same: so a file that was written is written again byte by byte.
static bool stands_right(const pbDecompiler *d, int geom, const frame *wanted, const frame *inside, frame *file) {
  const pbGeomDef *def = &d->m->source->geoms[geom];
  // Other forms of orientations have other bits.
  if (def->pose.alt != pb_altNone || !isnan(def->fromto[0])) return false;

  memcpy(file->pos, def->pose.pos, sizeof file->pos);
  memcpy(file->quat, def->pose.quat, sizeof file->quat);
  pbPose_Normalize(file->quat, 4);

  frame made = place(file, inside);
  return distance(&made, wanted) <= 1e-15 * (1 + v3_norm(wanted->pos));
}

static int exposed_field(const pbModel *m, int geom) {
  return m->geom_type[geom] == pb_geomHfield && m->geom_dataid[geom] >= 0 ? pb_exposedOf(m, pb_objHfield, m->geom_dataid[geom])
                                                                          : -1;
}

bool pbDecompile_IsShaped(const pbModel *m, int geom) {
  return (m->geom_type[geom] == pb_geomMesh && m->geom_dataid[geom] >= 0) || exposed_field(m, geom) >= 0;
}

// Heights of a file begin at zero.
static double lowest_of(const pbDecompiler *d, const pbExposed *e, double *highest) {
  const double *height = d->theta + e->offset;
  double least = height[0];
  *highest = height[0];
  PB_ASSERT(e->rows * e->cols > 0);

  for (int i = 1; i < e->rows * e->cols; i++) {
    least = fmin(least, height[i]);
    *highest = fmax(*highest, height[i]);
  }
  return least;
}

void pbDecompile_PlaceShape(const pbDecompiler *d, int geom, pbPose *pose) {
  frame wanted, file, inside = {.quat = {1, 0, 0, 0}};
  int field = exposed_field(d->m, geom), shape = d->m->geom_dataid[geom];
  double highest;
  PB_ASSERT(shape >= 0);
  memcpy(wanted.pos, OF(geom_pos, 3, geom), sizeof wanted.pos);
  memcpy(wanted.quat, OF(geom_quat, 4, geom), sizeof wanted.quat);

  if (field >= 0) {
    // The field of the file is that much higher.
    file = wanted;
    inside.pos[2] = lowest_of(d, &d->m->exposed[field], &highest) * d->m->hfield_size[4 * shape + 2];
    file = place(&wanted, &inside);
  } else {
    inside = frame_of_mesh(d, shape);
    if (!stands_right(d, geom, &wanted, &inside, &file)) file = find_file(&wanted, &inside);
  }

  // As a file has it.
  *pose = (pbPose){.alt = pb_altNone};
  memcpy(pose->pos, file.pos, sizeof pose->pos);
  memcpy(pose->quat, file.quat, sizeof pose->quat);
}

// ---- meshes -----------------------------------------------------------------------------------------------------------
// Vertices that are parameters, in the frame of the file as its scale and reference leave it:
//   y = D y0 + S R' (refpos0 - refpos),  D = S R' R0 / S0 (multibody/mesh_map.c)
typedef struct mesh_motion {
  double now[9], before[9];  // rotations of the reference now, and as compiled
} mesh_motion;

static void move_vertex(const pbDecompiler *d, int mesh, const mesh_motion *map, const double vertex[3], double y[3]) {
  const pbModel *m = d->m;
  double x[3], from[3];

  // From the frame of the geoms to that of the file, scaled and moved as compiled.
  quat_rotate(x, m->mesh_quat + 4 * mesh, vertex);
  v3_addto(x, m->mesh_pos + 3 * mesh);

  // Back to the file, and through the reference again.
  for (int k = 0; k < 3; k++) x[k] /= m->mesh_scale0[3 * mesh + k];
  m3_mulv(from, map->before, x);
  v3_addto(from, m->mesh_refpos0 + 3 * mesh);
  v3_subfrom(from, OF(mesh_refpos, 3, mesh));
  m3_tmulv(y, map->now, from);
  for (int k = 0; k < 3; k++) y[k] *= OF(mesh_scale, 3, mesh)[k];
}

static pbStatus put_vertices(pbDecompiler *d, int mesh, const pbExposed *e, pbMeshDef *def) {
  double *vertex = pbSpecPool_Take(d->spec->pool, 3 * (size_t)e->rows, sizeof *vertex);
  mesh_motion map;
  if (!vertex) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a spec");
  quat_to_mat(map.now, OF(mesh_refquat, 4, mesh));
  quat_to_mat(map.before, d->m->mesh_refquat0 + 4 * mesh);

  for (int i = 0; i < e->rows; i++) move_vertex(d, mesh, &map, d->theta + e->offset + 3 * i, vertex + 3 * i);

  // MuJoCo keeps single precision.
  for (int i = 0; i < 3 * e->rows; i++) vertex[i] = (float)vertex[i];

  // All that the file has said of the mesh is in the points.
  def->vertex = (pbReals){vertex, 3 * e->rows};
  def->file = def->content_type = "";
  memcpy(def->scale, (double[3]){1, 1, 1}, sizeof def->scale);
  memset(def->refpos, 0, sizeof def->refpos);
  memcpy(def->refquat, (double[4]){1, 0, 0, 0}, sizeof def->refquat);
  return pb_ok;
}

static pbStatus put_mesh(pbDecompiler *d, int mesh) {
  const pbModel *m = d->m;
  pbMeshDef *def = pbSpec_FindMesh(d->spec, pbModel_Name(m, pb_objMesh, mesh));
  PB_ASSERT(def);  // geoms name it

  // Vertices that are parameters, and not as they were.
  int i = pb_exposedMesh(m, mesh);
  const pbExposed *e = i < 0 ? NULL : &m->exposed[i];
  size_t size = e ? 3 * (size_t)e->rows * sizeof(double) : 0;

  if (e && memcmp(d->theta + e->offset, m->mesh_vert + 3 * (size_t)m->mesh_vertadr[mesh], size) != 0)
    return put_vertices(d, mesh, e, def);

  // The same points, seen otherwise.
  memcpy(def->scale, OF(mesh_scale, 3, mesh), sizeof def->scale);
  memcpy(def->refpos, OF(mesh_refpos, 3, mesh), sizeof def->refpos);
  memcpy(def->refquat, OF(mesh_refquat, 4, mesh), sizeof def->refquat);
  return pb_ok;
}

// ---- height fields ----------------------------------------------------------------------------------------------------
// Heights of a file are scaled to 0 .. 1: elevation, base and place make good for it.
static pbStatus put_heights(pbDecompiler *d, const pbExposed *e) {
  pbHfieldDef *def = pbSpec_FindHfield(d->spec, pbModel_Name(d->m, pb_objHfield, e->id));
  const double *size = d->m->hfield_size + 4 * e->id, *height = d->theta + e->offset;
  size_t count = (size_t)e->rows * (size_t)e->cols;
  double highest, least = lowest_of(d, e, &highest);
  PB_ASSERT(def);
  if (!memcmp(height, d->m->hfield_data + d->m->hfield_adr[e->id], count * sizeof *height)) return pb_ok;

  double *elevation = pbSpecPool_Take(d->spec->pool, count, sizeof *elevation);
  if (!elevation) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a spec");
  for (size_t i = 0; i < count; i++) elevation[i] = (float)height[i];  // as MuJoCo keeps them

  def->elevation = (pbReals){elevation, (int)count};
  def->file = def->content_type = "";
  def->nrow = e->rows;
  def->ncol = e->cols;
  def->size[2] = highest > least ? size[2] * (highest - least) : size[2];
  def->size[3] = size[3] + size[2] * least;
  return pb_ok;
}

pbStatus pbDecompile_Shapes(pbDecompiler *d) {
  for (int i = 0; i < d->m->nmesh; i++) PB_TRY(put_mesh(d, i));

  // Heights are those of the file, unless they are parameters.
  for (int i = 0; i < d->m->nexposed; i++) {
    if (d->m->exposed[i].of == pb_objHfield) PB_TRY(put_heights(d, &d->m->exposed[i]));
  }
  return pb_ok;
}
