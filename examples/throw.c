// A rollout through contact and its gradient in C: where a thrown ball comes to lie, by how it is thrown and by friction.
//   build/release/examples/throw [examples/ball/ball.xml]
#include <pullback/pullback.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 500 };

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "examples/ball/ball.xml";
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = NULL;
  pbRollout *rollout = NULL;
  pbRolloutPlan plan;
  double *x = NULL, *theta_bar = NULL;
  pbStatus status = pbModel_Load(ctx, path, NULL, &model);
  if (!status) status = pbRollout_Plan(ctx, model, STEPS, 0, &plan);
  if (!status) status = pbRollout_Create(ctx, model, &plan, NULL, &rollout);
  if (status) goto done;

  const double *theta = pbModel_DefaultParams(model);
  x = calloc((size_t)pbModel_StateSize(model) * 2, sizeof *x);
  theta_bar = calloc(pbModel_ParamSize(model), sizeof *theta_bar);
  if (!x || !theta_bar) status = pb_no_memory;
  if (status) goto done;
  double *end = x + pbModel_StateSize(model);
  status = pbState_Init(ctx, model, theta, -1, x);
  if (status) goto done;
  for (int k = 0; k < pbModel_StateFieldCount(model); k++) {
    pbStateField field = pbModel_StateFieldAt(model, k);
    if (!strcmp(field.name, "qvel")) {  // 8 m/s forward, 20 rad/s backspin
      x[field.offset] = 8;
      x[field.offset + 4] = -20;
    }
  }
  pbRolloutOutput output = {.final_state = end};
  status = pbRollout_Forward(rollout, theta, x, NULL, &output);

  // How the last place along x depends on the start (tangent space: places, turns, velocities, spins) and on every parameter.
  double seed[6] = {1}, x_bar[12] = {0};
  pbRolloutBar bar = {.qpos = {.data = seed, .count = 1}};
  pbRolloutGradient gradient = {.x0 = x_bar, .theta = theta_bar};
  pbCertificate certificate;
  if (!status) status = pbRollout_Vjp(rollout, &bar, NULL, &gradient, &certificate);
  if (status) goto done;
  for (int k = 0; k < pbModel_StateFieldCount(model); k++) {
    pbStateField field = pbModel_StateFieldAt(model, k);
    if (!strcmp(field.name, "qpos")) printf("lies at x = %.6f m\n", end[field.offset]);
  }
  printf("by its velocity: %.6f s, by its spin: %.6f m s\n", x_bar[6], x_bar[10]);
  for (int k = 0; k < pbModel_ParamCount(model); k++) {
    pbParam param = pbModel_ParamAt(model, k);
    if (!strcmp(param.name, "pair_friction")) printf("by the friction of ball and ground: %.6f m\n", theta_bar[param.offset]);
    if (!strcmp(param.name, "gravity")) printf("by gravity upwards: %.6f s^2\n", theta_bar[param.offset + 2]);
  }
  printf("worst residual of a step %.1e, %lld contact onsets\n", certificate.worst_residual, (long long)certificate.onsets);

done:
  if (status) fprintf(stderr, "%s\n", pbContext_Error(ctx));
  free(x);
  free(theta_bar);
  pbRollout_Destroy(rollout);
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
  return status ? 1 : 0;
}
