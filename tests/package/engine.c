// The engine without file formats: a pendulum described in C, some steps of it, and the gradient of where it ends.
#include <math.h>
#include <pullback/pullback.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 20 };

static pbStatus compile(pbContext *ctx, pbModel **model) {
  pbSpec *spec;
  PB_TRY(pbSpec_Create(ctx, &spec));

  pbBodyDef body = pbBodyDef_Default();
  body.name = "rod";
  int rod = pbSpec_AddBody(spec, &body);

  pbJointDef joint = pbJointDef_Default();
  joint.body = rod;
  joint.type = pb_jntHinge;
  joint.axis[1] = 1;
  joint.axis[2] = 0;
  pbSpec_AddJoint(spec, &joint);

  pbGeomDef geom = pbGeomDef_Default();
  geom.body = rod;
  geom.type = pb_geomSphere;
  geom.size[0] = 0.1;
  geom.pose.pos[0] = 1;
  pbSpec_AddGeom(spec, &geom);

  pbStatus status = pbSpec_Compile(spec, model);
  pbSpec_Destroy(spec);
  return status;
}

// The angle after STEPS steps from an initial speed; its derivative by that speed where it is wanted.
static pbStatus swing(pbContext *ctx, const pbModel *model, double speed, double *angle, double *slope) {
  pbRolloutPlan plan;
  pbRollout *rollout;
  double x[8] = {0}, end[8], seed[1] = {1}, start_bar[2] = {0};
  if (pbModel_StateSize(model) > 8) return pb_capacity;
  PB_TRY(pbRollout_Plan(ctx, model, STEPS, 0, &plan));
  PB_TRY(pbRollout_Create(ctx, model, &plan, NULL, &rollout));

  const double *theta = pbModel_DefaultParams(model);
  pbStatus status = pbState_Init(ctx, model, theta, -1, x);
  x[2] = speed;  // time, angle, speed, ...
  pbRolloutOutput output = {.final_state = end};
  if (status == pb_ok) status = pbRollout_Forward(rollout, theta, x, NULL, &output);
  if (status == pb_ok) *angle = end[1];

  pbRolloutBar bar = {.qpos = {.data = seed, .count = 1}};
  pbRolloutGradient gradient = {.x0 = start_bar};
  if (status == pb_ok && slope) status = pbRollout_Vjp(rollout, &bar, NULL, &gradient, NULL);
  if (status == pb_ok && slope) *slope = start_bar[1];

  pbRollout_Destroy(rollout);
  return status;
}

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = NULL;
  double angle, slope = NAN, before, after, h = 1e-5;
  if (!ctx) return 1;

  pbStatus status = compile(ctx, &model);
  if (status == pb_ok) status = swing(ctx, model, 0.5, &angle, &slope);
  if (status == pb_ok) status = swing(ctx, model, 0.5 - h, &before, NULL);
  if (status == pb_ok) status = swing(ctx, model, 0.5 + h, &after, NULL);
  double quotient = status == pb_ok ? (after - before) / (2 * h) : NAN;

  if (status != pb_ok) fprintf(stderr, "%s\n", pbContext_Error(ctx));
  else printf("angle %.6f, by the initial speed %.9f s (differences: %.9f s)\n", angle, slope, quotient);
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
  return status == pb_ok && fabs(slope - quotient) < 1e-8 ? 0 : 1;
}
