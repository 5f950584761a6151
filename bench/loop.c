// A closed loop against the same step with given controls: a quadruped of 16 servos (bench/robot.xml) with a network from 81 numbers
// to 16 in every step, all of whose weights get gradients, and the robot alone with the controls that the network gave. Medians of
// interleaved runs; required: at most 1.25 times the time, forward and pullback each.
//
//   build/release/bench/loop [MODEL [STEPS]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/pullback.h>

enum { runs = 15, outputs = 16, clocks = 2 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(pbContext *ctx, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "loop: %s\n", pbContext_Error(ctx));
  exit(1);
}

typedef struct World {
  pbModel *m;
  pbRollout *rollout;
  double *x0, *states, *ctrl_bar, *theta_bar, *x_bar;
  double forward[runs], pullback[runs];
} World;

static void prepare(pbContext *ctx, World *w, int steps) {
  pbRolloutPlan plan;
  need(ctx, pbRollout_Plan(ctx, w->m, steps, 0, &plan));
  need(ctx, pbRollout_Create(ctx, w->m, &plan, NULL, &w->rollout));
  w->x0 = calloc((size_t)pbModel_StateSize(w->m), sizeof(double));
  w->states = calloc((size_t)(steps + 1) * (size_t)pbModel_StateSize(w->m), sizeof(double));
  w->ctrl_bar = calloc((size_t)steps * outputs, sizeof(double));
  w->theta_bar = calloc(pbModel_ParamSize(w->m), sizeof(double));
  w->x_bar = calloc((size_t)pbModel_TangentSize(w->m), sizeof(double));
  need(ctx, pbState_Init(ctx, w->m, pbModel_DefaultParams(w->m), -1, w->x0));
}

static void run(pbContext *ctx, World *w, const double *ctrl, bool weights, int turn) {
  const double ahead[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  pbRolloutInput input = {.ctrl = ctrl};
  pbRolloutOutput output = {.states = w->states};
  pbRolloutBar bar = {.qpos = {.data = ahead, .count = 1}};
  pbRolloutGradient gradient = {.x0 = w->x_bar, .ctrl = weights ? NULL : w->ctrl_bar, .theta = weights ? w->theta_bar : NULL};

  double start = now();
  need(ctx, pbRollout_Forward(w->rollout, pbModel_DefaultParams(w->m), w->x0, &input, &output));
  double middle = now();
  need(ctx, pbRollout_Vjp(w->rollout, &bar, NULL, &gradient, NULL));
  w->pullback[turn] = now() - middle;
  w->forward[turn] = middle - start;
}

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static double median(double *x) {
  qsort(x, runs, sizeof *x, by_size);
  return x[runs / 2];
}

static pbNetwork *close_loop(pbContext *ctx, pbModel *m) {
  static const int height[] = {2};
  static const int rest[] = {0, 1, 2, 3, 4, 5};
  pbObserveDef row[40] = {{.kind = pb_observeSensor, .object = "height", .component = height, .components = 1}};
  int rows = 1;
  (void)rest;

  // All sensors but the height's other two coordinates, by name
  for (int i = 0; pbModel_Name(m, pb_objSensor, i); i++) {
    const char *name = pbModel_Name(m, pb_objSensor, i);
    if (strcmp(name, "height") != 0) row[rows++] = (pbObserveDef){.kind = pb_observeSensor, .object = name};
  }
  row[rows++] = (pbObserveDef){.kind = pb_observeCommand, .count = clocks};

  const pbLayerDef layers[] = {{.kind = pb_layerDense, .size = outputs, .gain = .2},
                               {.kind = pb_layerActivation, .activation = pb_activationTanh}};
  pbNetwork *network;
  need(ctx, pbNetwork_Create(ctx, 1 + 6 + 72 + clocks, layers, 2, 1, false, &network));
  const pbPolicyDef def = {.observe = row, .observe_count = rows, .decide = pbNetwork_Function(network)};
  need(ctx, pbModel_SetPolicy(m, &def));
  return network;
}

int main(int argc, char **argv) {
  const char *file = argc > 1 ? argv[1] : "bench/robot.xml";
  int steps = argc > 2 ? atoi(argv[2]) : 1000;
  pbContext *ctx = pbContext_Create(NULL);
  World closed = {0}, open = {0};
  need(ctx, pbModel_Load(ctx, file, NULL, &closed.m));
  need(ctx, pbModel_Load(ctx, file, NULL, &open.m));
  pbNetwork *network = close_loop(ctx, closed.m);
  prepare(ctx, &closed, steps);
  prepare(ctx, &open, steps);
  static const char *const weights[] = {"policy.0.weight", "policy.0.bias"};
  need(ctx, pbRollout_WantParameters(closed.rollout, weights, 2, false));
  need(ctx, pbRollout_WantParameters(open.rollout, NULL, 0, false));

  // What the network gave stands in the states after.
  double *ctrl = calloc((size_t)steps * outputs, sizeof *ctrl);
  run(ctx, &closed, NULL, true, 0);
  size_t nx = (size_t)pbModel_StateSize(closed.m);
  for (int k = 0; k < steps; k++)
    memcpy(ctrl + k * outputs, closed.states + (size_t)(k + 2) * nx - 1 - outputs, outputs * sizeof *ctrl);

  for (int turn = 0; turn < runs; turn++) {
    run(ctx, &open, ctrl, false, turn);
    run(ctx, &closed, NULL, true, turn);
  }
  size_t bodies = (size_t)pbModel_StateSize(open.m);
  bool same = memcmp(open.states + (size_t)steps * bodies, closed.states + (size_t)steps * nx, bodies * sizeof(double)) == 0;

  double f[2] = {median(open.forward), median(closed.forward)}, b[2] = {median(open.pullback), median(closed.pullback)};
  printf("%d steps, same final state: %s\n", steps, same ? "yes" : "no");
  printf("forward:  %.2f us a step with given controls, %.2f with the network: %.3f\n", 1e6 * f[0] / steps, 1e6 * f[1] / steps,
         f[1] / f[0]);
  printf("pullback: %.2f us a step with given controls, %.2f with the network: %.3f\n", 1e6 * b[0] / steps, 1e6 * b[1] / steps,
         b[1] / b[0]);

  World *both[] = {&closed, &open};
  for (int i = 0; i < 2; i++) {
    pbRollout_Destroy(both[i]->rollout);
    pbModel_Destroy(both[i]->m);
    free(both[i]->x0);
    free(both[i]->states);
    free(both[i]->ctrl_bar);
    free(both[i]->theta_bar);
    free(both[i]->x_bar);
  }
  free(ctrl);
  pbNetwork_Destroy(network);
  pbContext_Destroy(ctx);
  return same && f[1] <= 1.25 * f[0] && b[1] <= 1.25 * b[0] ? 0 : 1;
}
