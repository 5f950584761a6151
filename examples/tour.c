// Five minutes in C: a ball is thrown at the floor. Where does it come down, and what moves that place?
//   build/release/examples/tour
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

static const char text[] =
    "<mujoco>"
    "  <option timestep='0.002' integrator='Euler' cone='elliptic'/>"
    "  <worldbody>"
    "    <geom name='floor' type='plane' size='0 0 1' friction='0.5' solref='-20000 -20'/>"
    "    <body name='ball' pos='0 0 0.5'>"
    "      <freejoint/>"
    "      <geom name='ball' type='sphere' size='0.05' mass='0.2' friction='0.5' solref='-20000 -20'/>"
    "    </body>"
    "  </worldbody>"
    "</mujoco>";

enum { steps = 500 };

static int fail(pbContext *ctx, pbStatus status) {
  fprintf(stderr, "%s: %s\n", pbStatus_Text(status), pbContext_Error(ctx));
  return pbStatus_ExitCode(status);
}

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec;
  pbModel *model;
  pbRollout *rollout;
  pbRolloutPlan plan;
  pbStatus status;

  // A model: from a file it is pbModel_Load(ctx, "ball.xml", NULL, &model).
  if ((status = pbSpec_ParseMjcf(ctx, text, strlen(text), "ball", &spec)) != pb_ok) return fail(ctx, status);
  if ((status = pbSpec_Compile(spec, &model)) != pb_ok) return fail(ctx, status);

  // What it will cost is known before anything runs; all memory is had here.
  if ((status = pbRollout_Plan(ctx, model, steps, 0, &plan)) != pb_ok) return fail(ctx, status);
  if ((status = pbRollout_Create(ctx, model, &plan, NULL, &rollout)) != pb_ok) return fail(ctx, status);
  printf("tape of %d steps: %zu bytes\n", steps, plan.full_bytes);

  // Parameters are one flat vector, an argument of every call; the state is another. qvel: linear, then angular velocity.
  const double *theta = pbModel_DefaultParams(model);
  double *x0 = calloc((size_t)pbModel_StateSize(model), sizeof *x0), *x1 = calloc((size_t)pbModel_StateSize(model), sizeof *x1);
  if ((status = pbState_Init(ctx, model, theta, -1, x0)) != pb_ok) return fail(ctx, status);
  int qvel = 0;
  for (int i = 0; i < pbModel_StateFieldCount(model); i++) {
    pbStateField field = pbModel_StateFieldAt(model, i);
    if (!strcmp(field.name, "qvel")) qvel = field.offset;
  }
  x0[qvel] = 1;
  x0[qvel + 2] = -2;

  pbRolloutInput input = {0};
  pbRolloutOutput output = {.final_state = x1};
  if ((status = pbRollout_Forward(rollout, theta, x0, &input, &output)) != pb_ok) return fail(ctx, status);
  printf("after %d steps: x = %.4f m, z = %.4f m\n", steps, x1[1], x1[3]);

  // Pull d(x) back: through every bounce to the throw and to every number of the model.
  double cotangent[6] = {1};
  double *start_bar = calloc((size_t)pbModel_TangentSize(model), sizeof *start_bar);
  double *theta_bar = calloc(pbModel_ParamSize(model), sizeof *theta_bar);
  pbRolloutBar bar = {.qpos = {.data = cotangent, .count = 1}};
  pbRolloutGradient gradient = {.x0 = start_bar, .theta = theta_bar};
  pbVjpOptions options = {.spot_check = pb_checkFull, .seed = 1};
  pbCertificate certificate;
  if ((status = pbRollout_Vjp(rollout, &bar, &options, &gradient, &certificate)) != pb_ok) return fail(ctx, status);

  const double *v = start_bar + pbModel_Size(model, "nv");
  printf("by the throw: dx/dvx = %.4f s, dx/dvz = %.4f s, by its spin: dx/dwy = %.5f m s\n", v[0], v[2], v[4]);
  const char *names[] = {"gravity", "geom_friction:floor", "geom_size:ball", "geom_solref:floor"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    pbParam p;
    if ((status = pbModel_Param(ctx, model, names[k], &p)) != pb_ok) return fail(ctx, status);
    printf("by %-20s", names[k]);
    for (int i = 0; i < p.rows * p.cols; i++) printf(" % .6g", theta_bar[p.offset + (size_t)i]);
    printf("\n");
  }

  // What the gradient says of itself.
  printf("solver residual %.1e, contacts came %ld times and went %ld times, difference quotient off by %.1e\n",
         certificate.worst_residual, (long)certificate.onsets, (long)certificate.releases, certificate.spot_error);

  free(theta_bar);
  free(start_bar);
  free(x1);
  free(x0);
  pbRollout_Destroy(rollout);
  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
  pbContext_Destroy(ctx);
  return 0;
}
