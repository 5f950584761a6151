// The motion of deformables as files for other programs: VTU series and glTF.
#include <string.h>

#include "cli.h"

typedef struct Motion {
  const cliRun *run;
  const pbArray *time, *points, *velocity;
  pbMesh *mesh;
  pbCells skin;
} Motion;

static pbStatus write_frames(const Motion *m, pbVtuWriter *writer) {
  size_t width = 3 * (size_t)m->mesh->points;
  for (size_t k = 0; k < m->time->count; k++) {
    pbVtuArray velocity = {"velocity", 3, m->velocity->reals + k * width};
    pbVtuFrame frame = {.time = m->time->reals[k], .x = m->points->reals + k * width, .point_arrays = 1, .point = &velocity};
    PB_TRY(pbVtuWriter_Write(writer, &frame));
  }
  return pbVtuWriter_Finish(writer);
}

static pbStatus write_vtu(const Motion *m, const char *path) {
  pbVtuWriter *writer;
  PB_TRY(pbVtuWriter_Create(m->run->ctx, path, m->mesh, &writer));
  pbStatus status = write_frames(m, writer);
  pbVtuWriter_Destroy(writer);
  return status;
}

static pbStatus write_glb(Motion *m, const char *path) {
  PB_TRY(pbMesh_Skin(m->run->ctx, m->mesh, &m->skin));
  const pbCells *edges = &m->mesh->cells[pb_cellEdge];
  pbGlbPart part = {.name = "deformables",
                    .triangles = m->skin.count ? &m->skin : NULL,
                    .edges = edges->count ? edges : NULL,
                    .points = m->mesh->points,
                    .x = m->points->reals,
                    .colour = {0.25, 0.5, 0.8, 1}};
  pbGlb glb = {.frames = (int)m->time->count, .time = m->time->reals, .parts = 1, .part = &part};
  if (!part.triangles && !part.edges)
    return pbContext_Fail(m->run->ctx, pb_unsupported, "--glb: the deformables have neither triangles nor edges to draw");
  return pbGlb_Write(m->run->ctx, path, &glb);
}

pbStatus cliMotion_Write(const cliRun *run, const pbArrays *set) {
  const char *vtu = run->app->args.text[opt_vtu], *glb = run->app->args.text[opt_glb];
  Motion m = {.run = run,
              .time = pbArrays_Find(set, "time"),
              .points = pbArrays_Find(set, "points"),
              .velocity = pbArrays_Find(set, "point_velocity")};
  if (!vtu && !glb) return pb_ok;
  if (!m.points) return pbContext_Fail(run->ctx, pb_bad_argument, "--%s: the model has no deformables", vtu ? "vtu" : "glb");
  PB_TRY(pbModel_PointMesh(run->ctx, run->model, run->theta, &m.mesh));
  cliSignals_Hold();
  pbStatus status = vtu ? write_vtu(&m, vtu) : pb_ok;
  if (status == pb_ok && glb) status = write_glb(&m, glb);
  cliSignals_Release();
  pbCells_Clear(run->ctx, &m.skin);
  pbMesh_Destroy(m.mesh);
  return status;
}
