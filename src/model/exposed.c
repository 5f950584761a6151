// Vertices of meshes as parameters, on request (exposed.h).
#include "model/exposed.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "deform/deform.h"

static const char prefix[] = "mesh_vert:";

void pbExposed_Destroy(pbModel *m) {
  for (int i = 0; i < m->nexposed; i++) pbContext_Free(m->ctx, m->exposed[i].name);
  pbContext_Free(m->ctx, m->exposed);
}

static pbStatus find_mesh(const pbModel *m, const char *name, int *mesh) {
  size_t length = sizeof prefix - 1;
  if (strncmp(name, prefix, length) != 0)
    return pbContext_Fail(m->ctx, pb_bad_argument, "what is exposed: expected mesh_vert:NAME, found '%.100s'", name);

  pbSuggest near = pbSuggest_For(name + length);
  char hint[256];
  *mesh = pbModel_Id(m, pb_objMesh, name + length);
  if (*mesh >= 0) return pb_ok;

  // Those that are only seen are not kept.
  for (int i = 0; i < m->nmesh; i++) pbSuggest_Offer(&near, pbModel_Name(m, pb_objMesh, i));
  return pbContext_Fail(m->ctx, pb_bad_argument, "no mesh '%.100s' that anything depends on%s", name + length,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus check(const pbModel *m, const char *name, int mesh) {
  if (pb_exposedMesh(m, mesh) >= 0) return pbContext_Fail(m->ctx, pb_bad_argument, "'%.100s' is exposed already", name);
  if (!m->topology->hull[mesh].corners)
    return pbContext_Fail(m->ctx, pb_unsupported, "'%.100s': the mesh has no convex hull, for nothing of it may touch", name);
  if (m->policy)
    return pbContext_Fail(m->ctx, pb_bad_argument, "'%.100s' cannot be exposed: the model has a policy already", name);

  // Surfaces of deformables have corners of their own (attach_local).
  int attached = m->deform ? m->deform->nattached : 0;
  for (int i = 0; i < attached; i++) {
    int geom = m->deform->attached_geom[i];

    if (geom >= 0 && m->geom_dataid[geom] == mesh && m->geom_type[geom] == pb_geomMesh)
      return pbContext_Fail(m->ctx, pb_unsupported, "'%.100s': the mesh is a surface of deformables", name);
  }
  return pb_ok;
}

pbStatus pbModel_Expose(pbModel *m, const char *name) {
  int mesh;

  PB_TRY(find_mesh(m, name, &mesh));
  PB_TRY(check(m, name, mesh));

  // On failure the model stays as it was.
  int rows = m->mesh_vertnum[mesh];
  size_t bytes = 3 * (size_t)rows * sizeof(double);
  pbExposed added = {.id = mesh, .rows = rows, .offset = m->ntheta, .name = pbContext_CopyText(m->ctx, name)};

  pbExposed *all = pbContext_AllocArray(m->ctx, (size_t)m->nexposed + 1, sizeof *all);
  pbStatus status = added.name && all ? pbModel_GrowParams(m, 3 * (size_t)rows)
                                      : pbContext_Fail(m->ctx, pb_no_memory, "no memory to expose '%.100s'", name);
  if (status != pb_ok) {
    pbContext_Free(m->ctx, added.name);
    pbContext_Free(m->ctx, all);
    return status;
  }

  // The model's own are where it begins.
  memcpy(m->theta0 + added.offset, m->mesh_vert + 3 * (size_t)m->mesh_vertadr[mesh], bytes);
  if (m->nexposed) memcpy(all, m->exposed, (size_t)m->nexposed * sizeof *all);

  // Scratches made before do not fit.
  all[m->nexposed] = added;

  pbContext_Free(m->ctx, m->exposed);
  m->exposed = all;
  m->nexposed++;
  m->revision++;
  return pb_ok;
}
