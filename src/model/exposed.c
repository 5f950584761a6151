// Vertices of meshes and heights of fields as parameters, on request (exposed.h).
#include "model/exposed.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "deform/deform.h"

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
