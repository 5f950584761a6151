// An energy of your own: a net whose links stiffen as they stretch hangs in its weight. What moves its middle?
//   build/release/examples/energy
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

#define TRY(call) \
  if ((call) != pb_ok) return fprintf(stderr, "%s\n", pbContext_Error(ctx)), 1

// ---- the energy: this text is all that forces, Hessians, steps and gradients are made from --------------------------------
static const pbEnergyParameter parameters[] = {{.name = "k", .unit = "N", .rows = 1, .cols = 1},
                                               {.name = "harden", .unit = "1", .rows = 1, .cols = 1}};
static const pbEnergyDef link = {"link", "l0 = norm(X1 - X0); e = norm(x1 - x0)/l0 - 1; l0*k*(e^2/2 + harden*e^4/4)", 2, 2,
                                 parameters};

// ---- a net of them -----------------------------------------------------------------------------------------------------
enum { N = 11, MIDDLE = N * N / 2 };

static pbStatus build(pbDeformable *net) {
  double rest[N * N][3], start[N * N][3], mass[N * N], k = 50, harden = 20;
  int links[2 * N * (N - 1)][2], count = 0, group, corners[] = {0, N - 1, N * (N - 1), N * N - 1};
  for (int i = 0; i < N * N; i++) {
    double x = (double)(i % N) / (N - 1), y = (double)(i / N) / (N - 1);
    rest[i][0] = x;
    rest[i][1] = y;
    rest[i][2] = 0;
    start[i][0] = x;
    start[i][1] = y;
    start[i][2] = -0.3 * (x * (1 - x) + y * (1 - y));  // flat it would have no stiffness downwards
    mass[i] = 0.01;
    if (i % N < N - 1) {
      links[count][0] = i;
      links[count++][1] = i + 1;
    }
    if (i / N < N - 1) {
      links[count][0] = i;
      links[count++][1] = i + N;
    }
  }
  PB_TRY(pbDeformable_AddPoints(net, N * N, rest[0], mass, start[0], NULL, NULL));
  PB_TRY(pbDeformable_AddEnergy(net, "net", &link, count, links[0], &group));
  PB_TRY(pbDeformable_SetParameter(net, group, "k", 1, &k));
  PB_TRY(pbDeformable_SetParameter(net, group, "harden", 1, &harden));
  PB_TRY(pbDeformable_Fix(net, 4, corners, pb_fixAll));
  return pbDeformable_SetOptions(net, &(pbDeformOptions){.scheme = pb_schemeStatic});
}

// Height of the middle in equilibrium; theta_bar (may be NULL) becomes its derivative by every parameter.
static pbStatus hang(pbContext *ctx, const pbModel *model, const double *theta, double *z, double *theta_bar) {
  pbRollout *rollout;
  pbRolloutPlan plan;
  double *x0 = calloc((size_t)pbModel_StateSize(model), sizeof *x0), *x1 = calloc((size_t)pbModel_StateSize(model), sizeof *x1);
  double *cotangent = calloc(3 * N * N, sizeof *cotangent);
  PB_TRY(pbRollout_Plan(ctx, model, 1, 0, &plan));
  PB_TRY(pbRollout_Create(ctx, model, &plan, NULL, &rollout));
  PB_TRY(pbState_Init(ctx, model, theta, -1, x0));
  PB_TRY(pbRollout_Forward(rollout, theta, x0, &(pbRolloutInput){0}, &(pbRolloutOutput){.final_state = x1}));
  for (int i = 0; i < pbModel_StateFieldCount(model); i++) {
    pbStateField field = pbModel_StateFieldAt(model, i);
    if (!strcmp(field.name, "points")) *z = x1[field.offset + 3 * MIDDLE + 2];
  }
  cotangent[3 * MIDDLE + 2] = 1;
  pbRolloutBar bar = {.points = {.data = cotangent, .count = 1}};
  pbCertificate certificate;
  if (theta_bar) PB_TRY(pbRollout_Vjp(rollout, &bar, &(pbVjpOptions){0}, &(pbRolloutGradient){.theta = theta_bar}, &certificate));
  pbRollout_Destroy(rollout);
  free(x0);
  free(x1);
  free(cotangent);
  return pb_ok;
}

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec;
  pbModel *model;
  pbDeformable *net;
  TRY(pbSpec_Create(ctx, &spec));
  TRY(pbSpec_Compile(spec, &model));
  TRY(pbDeformable_Create(ctx, &net));
  TRY(build(net));
  TRY(pbModel_SetDeformable(model, net));

  size_t size = pbModel_ParamSize(model);
  double z, *theta = calloc(size, sizeof *theta), *theta_bar = calloc(size, sizeof *theta_bar);
  for (size_t i = 0; i < size; i++) theta[i] = pbModel_DefaultParams(model)[i];
  TRY(hang(ctx, model, theta, &z, theta_bar));
  printf("the middle hangs at z = %.6f m\n", z);
  const char *names[] = {"net.k", "net.harden", "gravity"};
  for (int i = 0; i < 3; i++) {
    pbParam p;
    TRY(pbModel_Param(ctx, model, names[i], &p));
    double up, down, *value = theta + p.offset + (i == 2 ? 2 : 0), at = *value, step = 1e-5 * (at < 0 ? -at : at);
    *value = at + step;
    TRY(hang(ctx, model, theta, &up, NULL));
    *value = at - step;
    TRY(hang(ctx, model, theta, &down, NULL));
    *value = at;
    printf("by %-10s % .9g, by differences % .9g\n", names[i], theta_bar[value - theta], (up - down) / (2 * step));
  }
  free(theta);
  free(theta_bar);
  pbDeformable_Destroy(net);
  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
  pbContext_Destroy(ctx);
  return 0;
}
