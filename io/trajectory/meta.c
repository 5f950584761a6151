// "meta" of trajectory files: which run it is, how well it went, and what the numbers mean.
// Tests: tests/oracle/test_task_run.py, tests/oracle/test_cli.py.
#include <stdlib.h>
#include <string.h>

#include <pullback/deform.h>
#include <pullback/describe.h>
#include <pullback/trajectory.h>

#include "io/file.h"

static void meta_names(const pbModel *model, pbJson *j, const char *key, pbObject kind, const char *size) {
  int count = pbModel_Size(model, size);
  pbJson_OpenLine(j, key, '[');
  for (int i = 0; i < count; i++) {
    const char *name = pbModel_Name(model, kind, i);
    pbJson_Text(j, NULL, name ? name : "");
  }
  pbJson_Close(j, ']');
}

void pbStepNotes_DescribeGain(const pbStepNotes *n, pbJson *j) {
  pbJson_Open(j, "energy_made", '{');
  pbJson_Integer(j, "impacts", n->gains);
  pbJson_Number(j, "joules", n->gain);
  pbJson_Integer(j, "step", n->gain_step);
  pbJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) pbJson_Integer(j, NULL, n->gaining[i]);
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

static void meta_deformables(const pbModel *model, pbJson *j) {
  pbJson_Open(j, "deformables", '{');
  pbJson_Integer(j, "points", pbModel_PointCount(model));
  pbModel_DescribePoints(model, j);
  pbJson_Close(j, '}');
}

static void meta_solver(const pbStepNotes *n, pbJson *j) {
  pbJson_Open(j, "solver", '{');
  pbJson_Number(j, "worst_residual", n->worst_residual);
  pbJson_Integer(j, "step", n->worst_residual_step);
  pbJson_Integer(j, "unconverged", n->unconverged);
  pbJson_Text(j, "worst_row", n->worst_row);
  pbJson_Number(j, "worst_condition", n->worst_condition);
  pbJson_Close(j, '}');
}

static void meta_penetration(const pbStepNotes *n, pbJson *j) {
  pbJson_Open(j, "penetration", '{');
  pbJson_Number(j, "depth", n->penetration);
  pbJson_Integer(j, "step", n->penetration_step);
  pbJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) pbJson_Integer(j, NULL, n->penetrating[i]);
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

static void meta_all_names(const pbModel *model, pbJson *j) {
  pbJson_Open(j, "names", '{');
  meta_names(model, j, "body", pb_objBody, "nbody");
  meta_names(model, j, "joint", pb_objJoint, "njnt");
  meta_names(model, j, "geom", pb_objGeom, "ngeom");
  meta_names(model, j, "site", pb_objSite, "nsite");
  meta_names(model, j, "actuator", pb_objActuator, "nu");
  meta_names(model, j, "sensor", pb_objSensor, "nsensor");
  pbJson_Close(j, '}');
}

void pbSimulation_Describe(pbContext *ctx, const pbSimulation *s, const pbStepNotes *notes, pbJson *j) {
  // which run this is
  pbJson_Text(j, "program", "pullback");
  pbJson_Text(j, "version", pbVersion());
  pbJson_Text(j, "command", s->command);
  pbJson_Text(j, "model", pbFile_Called(s->path));
  if (s->trajectory >= 0) pbJson_Integer(j, "trajectory", s->trajectory);

  pbParam timestep;
  pbJson_Integer(j, "steps", s->steps);
  if (pbModel_Param(ctx, s->model, "timestep", &timestep) == pb_ok) pbJson_Number(j, "timestep", s->theta[timestep.offset]);

  // how well it went
  meta_solver(notes, j);
  meta_penetration(notes, j);
  if (notes->gains) pbStepNotes_DescribeGain(notes, j);

  pbJson_Text(j, "constants", s->recompute ? "recompute" : "keep");
  pbModel_DescribeContact(s->model, j);

  // what the numbers mean
  pbJson_Open(j, "units", '{');
  pbJson_Text(j, "time", "s");
  pbJson_Text(j, "qpos", "m|rad|quaternion");
  pbJson_Text(j, "qvel", "m/s|rad/s");
  pbJson_Close(j, '}');

  meta_all_names(s->model, j);
  if (pbModel_PointCount(s->model)) meta_deformables(s->model, j);
}

long pbSimulation_Every(const pbArrays *trajectory) {
  static const char key[] = "\"every\":";  // within a text quotes are escaped
  const pbArray *meta = pbArrays_Find(trajectory, "meta");
  bool told = meta && meta->type == pb_arrayText && meta->count == 1;

  const char *text = told ? strstr(meta->text, key) : NULL;
  long every = text ? strtol(text + strlen(key), NULL, 10) : 1;
  return every > 1 ? every : 1;
}
