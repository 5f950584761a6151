// Cells of meshes, for files and pictures; no physics depends on them.
// Tests: tests/unit/test_deform.c, tests/unit/test_surface.c.
#include "deform/cells.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "deform/deform.h"

void pbCellSets_Free(pbContext *ctx, pbCellSets *sets) {
  for (int i = 0; i < sets->count; i++) {
    pbContext_Free(ctx, sets->list[i].name);
    pbContext_Free(ctx, sets->list[i].vertex);
  }

  pbContext_Free(ctx, sets->list);
  *sets = (pbCellSets){0};
}

pbStatus pbCellSets_Add(pbContext *ctx, pbCellSets *sets, const char *name, pbCellKind kind, int count, const int *vertex) {
  size_t entries = (size_t)count * (size_t)pbCellKind_Nodes(kind);
  pbCellSet *grown = pbContext_Resize(ctx, sets->list, ((size_t)sets->count + 1) * sizeof *grown);

  if (!grown) return pbContext_Fail(ctx, pb_no_memory, "no memory for cells");
  sets->list = grown;
  pbCellSet *set = &grown[sets->count++];

  // Counted before it is complete: what is there of it is freed with the others.
  *set = (pbCellSet){.name = pbContext_CopyText(ctx, name),
                     .kind = kind,
                     .count = count,
                     .vertex = pbContext_AllocArray(ctx, entries + 1, sizeof(int))};
  if (!set->name || !set->vertex) return pbContext_Fail(ctx, pb_no_memory, "no memory for cells");
  memcpy(set->vertex, vertex, entries * sizeof(int));

  return pb_ok;
}

pbStatus pbDeformable_AddCells(pbDeformable *d, const char *name, pbCellKind kind, int count, const int *vertex) {
  for (int i = 0; i < count * pbCellKind_Nodes(kind); i++) {
    if (vertex[i] < 0 || vertex[i] >= d->npoint)
      return pbContext_Fail(d->ctx, pb_bad_argument, "%s: cell %d has the point %d; there are %d", name,
                            i / pbCellKind_Nodes(kind), vertex[i], d->npoint);
  }

  return pbCellSets_Add(d->ctx, &d->cells, name, kind, count, vertex);
}

// Number of the mesh's group of that name and dimension, made where there is none; 0: no memory.
static int group_number(pbMesh *mesh, const pbCellSet *set) {
  for (int i = 0; i < mesh->groups; i++) {
    if (!strcmp(mesh->group[i].name, set->name) && mesh->group[i].dimension == pbCellKind_Dimension(set->kind))
      return mesh->group[i].number;
  }
  int number = mesh->groups + 1;
  return pbMesh_NameGroup(mesh, pbCellKind_Dimension(set->kind), number, set->name) == pb_ok ? number : 0;
}

// Cells of all sets, those of a kind one set after the other, to the mesh that has room for them.
static pbStatus fill_mesh(pbMesh *mesh, const pbCellSets *sets) {
  int filled[pb_cellKindCount] = {0};
  for (const pbCellSet *set = sets->list; set < sets->list + sets->count; set++) {
    pbCells *cells = &mesh->cells[set->kind];
    int nodes = pbCellKind_Nodes(set->kind), *first = &filled[set->kind], number = group_number(mesh, set);

    // Cells of a kind are one list in the mesh, whatever set they come from.
    if (!number) return pb_no_memory;
    memcpy(cells->vertex + *first * nodes, set->vertex, (size_t)(set->count * nodes) * sizeof(int));
    for (int i = 0; i < set->count; i++) cells->group[*first + i] = number;
    *first += set->count;
    PB_ASSERT(*first <= cells->count);
  }

  return pb_ok;
}

pbStatus pbCellSets_Mesh(pbContext *ctx, const pbCellSets *sets, int points, const double *rest, pbMesh **mesh) {
  int64_t counts[pb_cellKindCount] = {0};

  for (int i = 0; i < sets->count; i++) counts[sets->list[i].kind] += sets->list[i].count;
  PB_TRY(pbMesh_Create(ctx, "deformables", points, counts, mesh));
  if (points) memcpy((*mesh)->point, rest, 3 * (size_t)points * sizeof *rest);
  pbStatus status = fill_mesh(*mesh, sets);
  if (status == pb_ok) return pb_ok;
  pbMesh_Destroy(*mesh);
  *mesh = NULL;

  return status;
}
