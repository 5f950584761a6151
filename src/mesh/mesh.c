// Meshes: their memory and groups, and points dropped and joined. Generators: generate.c, ball.c; checks: check.c; what
// follows from cells: cells.c. Tests: tests/unit/test_mesh.c.
#include "mesh/mesh.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
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

static pbStatus allocate_arrays(pbMesh *m, const char *name, const int64_t *counts) {
  m->name = pbContext_CopyText(m->ctx, name);
  m->point = pbContext_AllocArray(m->ctx, (size_t)m->points, 3 * sizeof(double));
  if (!m->name || !m->point) return pbMesh_NoMemory(m->ctx, name);
  if (!counts) return pb_ok;

  for (int k = 0; k < pb_cellKindCount; k++) {
    PB_TRY(pbCells_Room(m->ctx, name, (int)counts[k], pb_cellShape[k].nodes, &m->cells[k]));
  }
  return pb_ok;
}

static bool count_fits(int64_t count) { return count >= 0 && count <= PB_MESH_MOST; }

pbStatus pbMesh_Create(pbContext *ctx, const char *name, int64_t points, const int64_t counts[pb_cellKindCount], pbMesh **mesh) {
  bool fits = count_fits(points);
  for (int k = 0; k < pb_cellKindCount; k++) fits = fits && (!counts || count_fits(counts[k]));
  if (!fits)
    return pbContext_Fail(ctx, pb_capacity, "%.400s: a mesh has at most %d points and cells of a kind", name, PB_MESH_MOST);

  pbMesh *m = pbContext_Alloc(ctx, sizeof *m);
  if (!m) return pbMesh_NoMemory(ctx, name);

  // From here on the destructor can take it apart.
  m->ctx = ctx;
  m->points = (int)points;
  pbStatus status = allocate_arrays(m, name, counts);
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
  // A name that is there already is replaced.

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
  for (int i = 0; i < m->groups; i++) {
    if (!strcmp(m->group[i].name, name)) return &m->group[i];
  }
  return NULL;
}

static pbStatus no_such_group(pbContext *ctx, const pbMesh *m, const char *name) {
  char list[512] = "";
  size_t n = 0;
  for (int i = 0; i < m->groups && n < sizeof list; i++) {
    n += (size_t)snprintf(list + n, sizeof list - n, "%s'%.100s'", i ? ", " : "", m->group[i].name);
  }
  return pbContext_Fail(ctx, pb_bad_input, "%.400s: no group '%.100s'; there %s %s", m->name, name, m->groups ? "are" : "is",
                        m->groups ? list : "none");
}

// Marks the points of a group's cells.
static void mark_group(const pbMesh *m, const pbMeshGroup *group, int *marked) {
  for (int k = 0; k < pb_cellKindCount; k++) {
    if (pb_cellShape[k].dimension != group->dimension) continue;
    int nodes = pb_cellShape[k].nodes;
    for (int i = 0; i < m->cells[k].count * nodes; i++) {
      if (m->cells[k].group[i / nodes] == group->number) marked[m->cells[k].vertex[i]] = 1;
    }
  }
}

pbStatus pbMesh_GroupPoints(pbContext *ctx, const pbMesh *m, const char *name, pbCells *points) {
  const pbMeshGroup *group = pbMesh_FindGroup(m, name);
  if (!group) return no_such_group(ctx, m, name);
  int *marked = pbContext_AllocArray(ctx, (size_t)m->points, sizeof *marked), count = 0;
  if (!marked) return pbMesh_NoMemory(ctx, m->name);

  // Ascending, each once.
  mark_group(m, group, marked);
  for (int i = 0; i < m->points; i++) count += marked[i];
  pbStatus status = pbCells_Room(ctx, m->name, count, 1, points);
  if (status == pb_ok) {
    count = 0;
    for (int i = 0; i < m->points; i++) {
      if (marked[i]) points->vertex[count++] = i;
    }
    PB_ASSERT(count == points->count);
  }
  pbContext_Free(ctx, marked);
  return status;
}

// ---- points dropped and joined --------------------------------------------------------------------------------------------

static bool has_repeated(const int *row, int nodes) {
  for (int k = 0; k < nodes; k++) {
    for (int j = 0; j < k; j++) {
      if (row[j] == row[k]) return true;
    }
  }
  return false;
}

// Cells by new numbers (-1: gone). Dropped are those that name a point that is gone, or (where `once`) come to name a point
// twice.
static void renumber_cells(pbCells *c, int nodes, const int *to, bool once) {
  int kept = 0;
  for (int i = 0; i < c->count; i++) {
    int row[pb_mostNodes];
    bool keep = true;
    for (int k = 0; k < nodes; k++) {
      // The row by new numbers.
      row[k] = to[c->vertex[i * nodes + k]];
      keep = keep && row[k] >= 0;
    }
    if (once && has_repeated(row, nodes) && !has_repeated(c->vertex + i * nodes, nodes)) keep = false;
    if (!keep) continue;

    PB_ASSERT(kept <= i);  // rows move towards the front
    memcpy(c->vertex + kept * nodes, row, (size_t)nodes * sizeof *row);
    c->group[kept++] = c->group[i];
  }
  c->count = kept;
}

pbStatus pbMesh_DropUnused(pbMesh *m) {
  int *to = pbContext_AllocArray(m->ctx, (size_t)m->points, sizeof *to);
  if (!to) return pbMesh_NoMemory(m->ctx, m->name);

  // Marks first, new numbers then.
  for (int k = pb_cellEdge; k < pb_cellKindCount; k++) {
    for (int i = 0; i < m->cells[k].count * pb_cellShape[k].nodes; i++) to[m->cells[k].vertex[i]] = 1;
  }

  int kept = 0;
  for (int i = 0; i < m->points; i++) {
    if (to[i]) memmove(m->point + 3 * kept, m->point + 3 * i, 3 * sizeof(double));
    to[i] = to[i] ? kept++ : -1;
  }
  m->points = kept;

  for (int k = 0; k < pb_cellKindCount; k++) renumber_cells(&m->cells[k], pb_cellShape[k].nodes, to, false);
  PB_VALIDATE(pbMesh_IsNumbered(m));
  pbContext_Free(m->ctx, to);
  return pb_ok;
}

// Slot of a point among `slots` (a power of two): the same for the same place, 0 and -0 alike.
static size_t slot_of(const double *x, size_t slots) {
  uint64_t h = 0;
  for (int k = 0; k < 3; k++) {
    // The bits of 0 and -0 differ.
    double value = x[k] == 0 ? 0 : x[k];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    h = (h ^ bits) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  return (size_t)h & (slots - 1);
}

static bool same_position(const double *a, const double *b) { return a[0] == b[0] && a[1] == b[1] && a[2] == b[2]; }

// New numbers, by a hash table with linear probing that holds numbers from 1 on; the points that stay move up.
static void join_points(pbMesh *m, int *slot, size_t slots, int *to) {
  int kept = 0;
  for (int i = 0; i < m->points; i++) {
    size_t s = slot_of(m->point + 3 * i, slots);

    // Empty, or the point that was first there.
    while (slot[s] && !same_position(m->point + 3 * (slot[s] - 1), m->point + 3 * i)) s = (s + 1) & (slots - 1);

    if (!slot[s]) {
      memmove(m->point + 3 * kept, m->point + 3 * i, 3 * sizeof(double));
      slot[s] = ++kept;
    }
    to[i] = slot[s] - 1;
  }
  m->points = kept;
}

pbStatus pbMesh_Weld(pbMesh *m) {
  size_t slots = 16;  // at most half full
  while (slots < 2 * (size_t)m->points) slots *= 2;
  int *to = pbContext_AllocArray(m->ctx, (size_t)m->points, sizeof *to);
  int *slot = pbContext_AllocArray(m->ctx, slots, sizeof *slot);

  bool fits = to && slot;
  if (fits) {
    join_points(m, slot, slots, to);
    for (int k = 0; k < pb_cellKindCount; k++) {
      renumber_cells(&m->cells[k], pb_cellShape[k].nodes, to, k == pb_cellTriangle);
    }
    PB_VALIDATE(pbMesh_IsNumbered(m));
  }

  pbContext_Free(m->ctx, to);
  pbContext_Free(m->ctx, slot);
  return fits ? pb_ok : pbMesh_NoMemory(m->ctx, m->name);
}
