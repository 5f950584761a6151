#include "mesh/mesh.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"

pbStatus pbMesh_NoMemory(pbContext *ctx, const char *name) {
  return pbContext_Fail(ctx, pb_no_memory, "%.400s: no memory for the mesh", name);
}

void pbCells_Clear(pbContext *ctx, pbCells *cells) {
  pbContext_Free(ctx, cells->vertex);
  pbContext_Free(ctx, cells->group);
  *cells = (pbCells){0};
}

pbStatus pbCells_Room(pbContext *ctx, const char *name, int count, int nodes, pbCells *cells) {
  *cells = (pbCells){.count = count};
  if (!count) return pb_ok;
  cells->vertex = pbContext_AllocArray(ctx, (size_t)count * (size_t)nodes, sizeof(int));
  cells->group = pbContext_AllocArray(ctx, (size_t)count, sizeof(int));
  if (cells->vertex && cells->group) return pb_ok;
  pbCells_Clear(ctx, cells);
  return pbMesh_NoMemory(ctx, name);
}

static pbStatus rooms(pbMesh *m, const char *name, const int64_t *counts) {
  m->name = pbContext_CopyText(m->ctx, name);
  m->point = pbContext_AllocArray(m->ctx, (size_t)m->points, 3 * sizeof(double));
  if (!m->name || !m->point) return pbMesh_NoMemory(m->ctx, name);
  for (int k = 0; counts && k < pb_cellKindCount; k++)
    PB_TRY(pbCells_Room(m->ctx, name, (int)counts[k], pb_cellShape[k].nodes, &m->cells[k]));
  return pb_ok;
}

pbStatus pbMesh_Create(pbContext *ctx, const char *name, int64_t points, const int64_t counts[pb_cellKindCount], pbMesh **mesh) {
  bool fits = points >= 0 && points <= PB_MESH_MOST;
  for (int k = 0; counts && k < pb_cellKindCount; k++) fits = fits && counts[k] >= 0 && counts[k] <= PB_MESH_MOST;
  if (!fits)
    return pbContext_Fail(ctx, pb_capacity, "%.400s: a mesh has at most %d points and cells of a kind", name, PB_MESH_MOST);
  pbMesh *m = pbContext_Alloc(ctx, sizeof *m);
  if (!m) return pbMesh_NoMemory(ctx, name);
  m->ctx = ctx;
  m->points = (int)points;
  pbStatus status = rooms(m, name, counts);
  if (status != pb_ok) {
    pbMesh_Destroy(m);
    return status;
  }
  *mesh = m;
  return pb_ok;
}

void pbMesh_Destroy(pbMesh *m) {
  if (!m) return;
  for (int k = 0; k < pb_cellKindCount; k++) pbCells_Clear(m->ctx, &m->cells[k]);
  for (int i = 0; i < m->groups; i++) pbContext_Free(m->ctx, m->group[i].name);
  pbContext_Free(m->ctx, m->group);
  pbContext_Free(m->ctx, m->point);
  pbContext_Free(m->ctx, m->name);
  pbContext_Free(m->ctx, m);
}

// ---- groups -------------------------------------------------------------------------------------------------------------

static pbStatus add_group(pbMesh *m, int dimension, int number, char *name) {
  pbMeshGroup *grown = pbContext_Resize(m->ctx, m->group, ((size_t)m->groups + 1) * sizeof *grown);
  if (!grown) return pbMesh_NoMemory(m->ctx, m->name);
  m->group = grown;
  grown[m->groups++] = (pbMeshGroup){dimension, number, name};
  return pb_ok;
}

pbStatus pbMesh_NameGroup(pbMesh *m, int dimension, int number, const char *name) {
  char *copy = pbContext_CopyText(m->ctx, name);
  if (!copy) return pbMesh_NoMemory(m->ctx, m->name);
  for (int i = 0; i < m->groups; i++) {
    if (m->group[i].dimension != dimension || m->group[i].number != number) continue;
    pbContext_Free(m->ctx, m->group[i].name);
    m->group[i].name = copy;
    return pb_ok;
  }
  pbStatus status = add_group(m, dimension, number, copy);
  if (status != pb_ok) pbContext_Free(m->ctx, copy);
  return status;
}

const pbMeshGroup *pbMesh_FindGroup(const pbMesh *m, const char *name) {
  for (int i = 0; i < m->groups; i++)
    if (!strcmp(m->group[i].name, name)) return &m->group[i];
  return NULL;
}

static pbStatus no_group(pbContext *ctx, const pbMesh *m, const char *name) {
  char list[512] = "";
  size_t n = 0;
  for (int i = 0; i < m->groups && n < sizeof list; i++)
    n += (size_t)snprintf(list + n, sizeof list - n, "%s'%.100s'", i ? ", " : "", m->group[i].name);
  return pbContext_Fail(ctx, pb_bad_input, "%.400s: no group '%.100s'; there %s %s", m->name, name, m->groups ? "are" : "is",
                        m->groups ? list : "none");
}

// Marks the points of a group's cells.
static void mark_group(const pbMesh *m, const pbMeshGroup *group, int *marked) {
  for (int k = 0; k < pb_cellKindCount; k++) {
    int nodes = pb_cellShape[k].nodes;
    for (int i = 0; pb_cellShape[k].dimension == group->dimension && i < m->cells[k].count * nodes; i++)
      if (m->cells[k].group[i / nodes] == group->number) marked[m->cells[k].vertex[i]] = 1;
  }
}

pbStatus pbMesh_GroupPoints(pbContext *ctx, const pbMesh *m, const char *name, pbCells *points) {
  const pbMeshGroup *group = pbMesh_FindGroup(m, name);
  if (!group) return no_group(ctx, m, name);
  int *marked = pbContext_AllocArray(ctx, (size_t)m->points, sizeof *marked), count = 0;
  if (!marked) return pbMesh_NoMemory(ctx, m->name);
  mark_group(m, group, marked);
  for (int i = 0; i < m->points; i++) count += marked[i];
  pbStatus status = pbCells_Room(ctx, m->name, count, 1, points);
  count = 0;
  for (int i = 0; status == pb_ok && i < m->points; i++)
    if (marked[i]) points->vertex[count++] = i;
  pbContext_Free(ctx, marked);
  return status;
}

// ---- points dropped and joined --------------------------------------------------------------------------------------------

// Cells by new numbers (-1: gone). Those that name a point that is gone, or (where `once`) a point twice, are dropped.
static void renumber(pbCells *c, int nodes, const int *to, bool once) {
  int kept = 0;
  for (int i = 0; i < c->count; i++) {
    int row[pb_mostNodes];
    bool keep = true;
    for (int k = 0; k < nodes; k++) {
      row[k] = to[c->vertex[i * nodes + k]];
      keep = keep && row[k] >= 0;
      for (int j = 0; once && j < k; j++) keep = keep && row[j] != row[k];
    }
    if (!keep) continue;
    memcpy(c->vertex + kept * nodes, row, (size_t)nodes * sizeof *row);
    c->group[kept++] = c->group[i];
  }
  c->count = kept;
}

pbStatus pbMesh_DropUnused(pbMesh *m) {
  int *to = pbContext_AllocArray(m->ctx, (size_t)m->points, sizeof *to);
  if (!to) return pbMesh_NoMemory(m->ctx, m->name);
  for (int k = pb_cellEdge; k < pb_cellKindCount; k++)
    for (int i = 0; i < m->cells[k].count * pb_cellShape[k].nodes; i++) to[m->cells[k].vertex[i]] = 1;
  int kept = 0;
  for (int i = 0; i < m->points; i++) {
    if (to[i]) memmove(m->point + 3 * kept, m->point + 3 * i, 3 * sizeof(double));
    to[i] = to[i] ? kept++ : -1;
  }
  m->points = kept;
  for (int k = 0; k < pb_cellKindCount; k++) renumber(&m->cells[k], pb_cellShape[k].nodes, to, false);
  pbContext_Free(m->ctx, to);
  return pb_ok;
}

// Slot of a point among `slots` (a power of two): the same for the same place, 0 and -0 alike.
static size_t slot_of(const double *x, size_t slots) {
  uint64_t h = 0;
  for (int k = 0; k < 3; k++) {
    double value = x[k] == 0 ? 0 : x[k];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    h = (h ^ bits) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return (size_t)h & (slots - 1);
}

static bool same_place(const double *a, const double *b) { return a[0] == b[0] && a[1] == b[1] && a[2] == b[2]; }

// New numbers; the points that stay move up.
static void join(pbMesh *m, int *slot, size_t slots, int *to) {
  int kept = 0;
  for (int i = 0; i < m->points; i++) {
    size_t s = slot_of(m->point + 3 * i, slots);
    while (slot[s] && !same_place(m->point + 3 * (slot[s] - 1), m->point + 3 * i)) s = (s + 1) & (slots - 1);
    if (!slot[s]) {
      memmove(m->point + 3 * kept, m->point + 3 * i, 3 * sizeof(double));
      slot[s] = ++kept;
    }
    to[i] = slot[s] - 1;
  }
  m->points = kept;
}

pbStatus pbMesh_Weld(pbMesh *m) {
  size_t slots = 16;
  while (slots < 2 * (size_t)m->points) slots *= 2;
  int *to = pbContext_AllocArray(m->ctx, (size_t)m->points, sizeof *to);
  int *slot = pbContext_AllocArray(m->ctx, slots, sizeof *slot);
  bool fits = to && slot;
  if (fits) {
    join(m, slot, slots, to);
    for (int k = 0; k < pb_cellKindCount; k++) renumber(&m->cells[k], pb_cellShape[k].nodes, to, k == pb_cellTriangle);
  }
  pbContext_Free(m->ctx, to);
  pbContext_Free(m->ctx, slot);
  return fits ? pb_ok : pbMesh_NoMemory(m->ctx, m->name);
}
