// A controller of one's own in C, as a part of the model: balances the pole of the cart, and its gains are found by the gradient
// through the physics. The same controller as one line of text gives the same gradient.
//   build/release/examples/controller [examples/cartpole/cartpole.xml]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

// ---- the controller: push = tanh(gain . (rail, rail', -sin(hinge), hinge')) -------------------------------------------
enum { seen = 4 };
static const double start[seen] = {0.05, 0.1, 1, 0.2};  // they hold the pole for a while
static const pbPolicySlice gains = {.name = "gain", .rows = 1, .cols = seen, .start = start};

// What is observed is the columns of o: rail, hinge, and their velocities. z: what the gains act on.
static double features(int batch, const double *gain, const double *o, int b, double z[seen]) {
  double sum = 0;
  z[0] = o[b];
  z[1] = o[2 * batch + b];
  z[2] = -sin(o[batch + b]);
  z[3] = o[3 * batch + b];
  for (int i = 0; i < seen; i++) sum += gain[i] * z[i];
  return tanh(sum);
}

static pbStatus decide(const void *self, int batch, const double *gain, const double *o, const double *m, double *out,
                       double *m_next, void *work) {
  double z[seen];
  for (int b = 0; b < batch; b++) out[b] = features(batch, gain, o, b, z);
  (void)self;
  (void)m;
  (void)m_next;
  (void)work;
  return pb_ok;
}

// Cotangents are added to, those of observations and of gains.
static pbStatus pull_back(const void *self, int batch, const double *gain, const double *o, const double *m,
                          const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *gain_bar,
                          double *kept, int kept_stride, void *work) {
  for (int b = 0; b < batch; b++) {
    double z[seen], push = features(batch, gain, o, b, z), bar = out_bar[b] * (1 - push * push);
    o_bar[b] += bar * gain[0];
    o_bar[batch + b] -= bar * gain[2] * cos(o[batch + b]);
    o_bar[2 * batch + b] += bar * gain[1];
    o_bar[3 * batch + b] += bar * gain[3];
    for (int i = 0; gain_bar && i < seen; i++) gain_bar[i] += bar * z[i];
  }
  (void)self;
  (void)m;
  (void)m_next_bar;
  (void)m_bar;
  (void)kept;
  (void)kept_stride;
  (void)work;
  return pb_ok;
}

static size_t no_work(const void *self, int batch) { return (void)self, (void)batch, (size_t)0; }

static const pbPolicyFunction controller = {.name = "balance",
                                            .observations = 4,
                                            .outputs = 1,
                                            .slice = &gains,
                                            .slices = 1,
                                            .work_bytes = no_work,
                                            .forward = decide,
                                            .pull = pull_back};

// ---- the closed loop ------------------------------------------------------------------------------------------------
enum { steps = 480, states = steps + 1 };  // 2 s
typedef struct Loop {
  pbModel *model;
  pbRollout *rollout;
  double *theta, *theta_bar, *x0, *x, *bar;
  size_t gain;  // where the gains stand in theta
  int qpos;     // where positions stand in a state
} Loop;

static pbStatus open_loop(pbContext *ctx, const char *path, const pbPolicyFunction *function, const char *slice, Loop *l) {
  static const pbObserveDef observe[] = {{.kind = pb_observeQpos}, {.kind = pb_observeQvel}};
  const pbPolicyDef policy = {.observe = observe, .observe_count = 2, .decide = function};
  pbRolloutPlan plan;
  pbParam param;
  PB_TRY(pbModel_Load(ctx, path, NULL, &l->model));
  PB_TRY(pbModel_SetPolicy(l->model, &policy));
  PB_TRY(pbModel_Param(ctx, l->model, slice, &param));
  PB_TRY(pbRollout_Plan(ctx, l->model, steps, 0, &plan));
  PB_TRY(pbRollout_Create(ctx, l->model, &plan, NULL, &l->rollout));

  size_t params = pbModel_ParamSize(l->model), state = (size_t)pbModel_StateSize(l->model);
  l->gain = param.offset;
  l->theta = calloc(2 * params + (states + 1) * state + states * 2, sizeof *l->theta);
  if (!l->theta) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  memcpy(l->theta, pbModel_DefaultParams(l->model), params * sizeof *l->theta);
  l->theta_bar = l->theta + params;
  l->x0 = l->theta_bar + params;
  l->x = l->x0 + state;
  l->bar = l->x + states * state;

  // Almost upright.
  PB_TRY(pbState_Init(ctx, l->model, l->theta, -1, l->x0));
  for (int k = 0; k < pbModel_StateFieldCount(l->model); k++) {
    pbStateField field = pbModel_StateFieldAt(l->model, k);
    if (!strcmp(field.name, "qpos")) l->qpos = field.offset;
  }
  l->x0[l->qpos + 1] = acos(-1.) + 0.2;
  return pb_ok;
}

static void close_loop(Loop *l) {
  pbRollout_Destroy(l->rollout);
  pbModel_Destroy(l->model);
  free(l->theta);
}

// Mean of rail^2 + (hinge - pi)^2 over all states, and its gradient by the gains.
static pbStatus loss(Loop *l, double *value, double gradient[seen]) {
  pbRolloutOutput output = {.states = l->x};
  PB_TRY(pbRollout_Forward(l->rollout, l->theta, l->x0, NULL, &output));
  *value = 0;
  for (int k = 0; k < states; k++) {
    const double *q = l->x + (size_t)k * (size_t)pbModel_StateSize(l->model) + l->qpos;
    double off[2] = {q[0], q[1] - acos(-1.)};
    for (int i = 0; i < 2; i++) {
      *value += off[i] * off[i] / states;
      l->bar[2 * k + i] = 2 * off[i] / states;
    }
  }

  memset(l->theta_bar, 0, pbModel_ParamSize(l->model) * sizeof *l->theta_bar);
  pbRolloutBar bar = {.qpos = {.data = l->bar, .count = states}};
  PB_TRY(pbRollout_Vjp(l->rollout, &bar, NULL, &(pbRolloutGradient){.theta = l->theta_bar}, NULL));
  memcpy(gradient, l->theta_bar + l->gain, seen * sizeof *gradient);
  return pb_ok;
}

// Steps against the sign of the gradient (Rprop, Riedmiller & Braun 1993): longer while it stays, shorter where it turns.
static pbStatus train(Loop *l, int iterations) {
  double value, gradient[seen], before[seen] = {0}, length[seen] = {0.05, 0.05, 0.05, 0.05};
  for (int k = 0; k <= iterations; k++) {
    PB_TRY(loss(l, &value, gradient));
    const double *gain = l->theta + l->gain;
    if (k % 10 == 0) printf("%3d  loss %.6f  gains %.3f %.3f %.3f %.3f\n", k, value, gain[0], gain[1], gain[2], gain[3]);
    for (int i = 0; i < seen; i++) {
      length[i] *= gradient[i] * before[i] < 0 ? 0.5 : 1.2;
      l->theta[l->gain + (size_t)i] -= copysign(length[i], gradient[i]);
      before[i] = gradient[i];
    }
  }
  return pb_ok;
}

// The same controller as text; its parameters are the gains.
static pbStatus compare(pbContext *ctx, const char *path, Loop *own) {
  const char *const formula[] = {"a = p0*x0 + p1*x2 - p2*sin(x1) + p3*x3; 1 - 2/(exp(2*a) + 1)"};
  const pbLayerDef layer = {.kind = pb_layerFormula, .formula = formula, .formulas = 1, .parameter = start, .parameters = seen};
  pbNetwork *network = NULL;
  Loop text = {0};
  double value[2], gradient[2][seen], worst = 0;
  PB_TRY(pbNetwork_Create(ctx, 4, &layer, 1, 0, false, &network));

  pbStatus status = open_loop(ctx, path, pbNetwork_Function(network), "policy.0.parameter", &text);
  memcpy(own->theta + own->gain, start, sizeof start);
  if (status == pb_ok) status = loss(own, &value[0], gradient[0]);
  if (status == pb_ok) status = loss(&text, &value[1], gradient[1]);
  if (status == pb_ok) {
    for (int i = 0; i < seen; i++) worst = fmax(worst, fabs(gradient[0][i] - gradient[1][i]) / fabs(gradient[0][i]));
    printf("as a formula: the gradient differs by %.0e\n", worst);
  }

  close_loop(&text);
  pbNetwork_Destroy(network);
  return status;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "examples/cartpole/cartpole.xml";
  pbContext *ctx = pbContext_Create(NULL);
  Loop loop = {0};
  pbStatus status = open_loop(ctx, path, &controller, "policy.gain", &loop);
  if (status == pb_ok) status = train(&loop, 60);
  if (status == pb_ok) status = compare(ctx, path, &loop);
  if (status != pb_ok) fprintf(stderr, "%s: %s\n", pbStatus_Text(status), pbContext_Error(ctx));

  close_loop(&loop);
  pbContext_Destroy(ctx);
  return pbStatus_ExitCode(status);
}
