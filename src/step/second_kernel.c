// The pullback of a step in complex numbers: state, inputs and cotangents have derivatives along one direction, and so has what
// it gives. Values come in and go out as plain numbers. Tests: tests/unit/test_second.c.
#include "step/second.h"

#include "number/number.h"

#if PB_IS_COMPLEX
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "eval/work.h"
#include "step/jvp_parts.h"
#include "step/vjp.h"

enum { pair_next, pair_sensordata, pair_xpos, pair_site_xpos, pair_given };  // what comes in
enum { pair_x, pair_ctrl, pair_qfrc, pair_xfrc, pair_mocap_pos, pair_mocap_rot, pair_mocap_vel, pair_gotten };

// Pairs of a value and a derivative.
typedef struct pbSecondRoom {
  void *adjoint;
  num *given[pair_given], *gotten[pair_gotten];
} pbSecondRoom;

static void count_pairs(const pbModel *m, int given[pair_given], int gotten[pair_gotten]) {
  int n = pbModel_TangentSize(m);

  // in the order of the enumerations above
  const int in[pair_given] = {n, m->nsensordata, 3 * m->nbody, 3 * m->nsite};
  const int out[pair_gotten] = {n, m->nu, m->nv, 6 * m->nbody, 3 * m->nmocap, 3 * m->nmocap, 6 * m->nmocap};
  memcpy(given, in, sizeof in);
  memcpy(gotten, out, sizeof out);
}

static void lay_out(pbArena *arena, const pbModel *m, pbSecondRoom *s) {
  int given[pair_given], gotten[pair_gotten];

  // The handle itself, at the start.
  pbArena_Take(arena, 1, sizeof *s);
  count_pairs(m, given, gotten);

  for (int i = 0; i < pair_given; i++) s->given[i] = pbArena_Take(arena, (size_t)given[i], sizeof(num));
  for (int i = 0; i < pair_gotten; i++) s->gotten[i] = pbArena_Take(arena, (size_t)gotten[i], sizeof(num));
}

pbStatus pbSecond_Make(pbContext *ctx, void *handle) {
  pbJvp *j = handle;
  pbSecondRoom probe;
  if (j->second) return pb_ok;

  // How much it takes; then where it lies.
  pbArena measure = pbArena_Measure();
  lay_out(&measure, j->w.m, &probe);
  size_t needed = pbArena_Needed(&measure);
  void *memory = needed == SIZE_MAX ? NULL : pbContext_Alloc(ctx, needed);
  if (!memory) return pb_no_memory;
  pbArena arena = pbArena_Over(memory, needed);
  pbSecondRoom *s = memory;
  lay_out(&arena, j->w.m, s);
  PB_ASSERT(!arena.failed);

  // Cotangents grow with the evaluation by themselves.
  pbStatus status = pbVjp_Create_lanes_c(ctx, &j->w, &s->adjoint);
  if (status == pb_ok) j->second = s;
  else pbContext_Free(ctx, memory);
  return status;
}

void pbSecond_Drop(pbContext *ctx, void *handle) {
  pbJvp *j = handle;
  pbSecondRoom *s = j ? j->second : NULL;
  if (!s) return;
  pbVjp_Destroy_lanes_c(ctx, s->adjoint);
  pbContext_Free(ctx, s);
  j->second = NULL;
}

const char *pbSecond_Error(const void *handle) { return ((const pbJvp *)handle)->w.error; }

// NULL where neither is given: zero.
static const double *pair(const pbJvp *j, num *room, const double *value, const double *tangent, int n) {
  if (!value && !tangent) return NULL;
  PB_ASSERT(n >= 0);

  pbJvp_Blend(j, room, value, tangent, n);
  return (const double *)room;
}

static double *cleared(num *room, const double *wanted, int n) {
  if (!wanted) return NULL;
  memset(room, 0, (size_t)n * sizeof *room);
  return (double *)room;
}

static void add_tangent(const pbJvp *j, double *to, const num *from, int n) {
  if (!to) return;
  for (int i = 0; i < n; i++) to[i] += pbJvp_StepOut(j, im(from[i]));
}

static void add_values(double *to, const num *from, int n) {
  for (int i = 0; i < n; i++) to[i] += re(from[i]);
}

pbStatus pbSecond_Run(pbContext *ctx, void *handle, const pbStepRecord *step, const double *stages, const double *moved,
                      const pbSecond *second, double *bar) {
  pbJvp *j = handle;
  const pbModel *m = j->w.m;
  int given[pair_given], gotten[pair_gotten], nv = m->nv;
  PB_TRY(pbSecond_Make(ctx, j));
  const pbSecondRoom *s = j->second;
  count_pairs(m, given, gotten);

  // The state and the inputs, with the direction.
  *j->w.error = 0;
  pbJvp_Load(j, step, second->direction);
  if (moved) pbJvp_Blend(j, j->w.rk_a, stages, moved, 3 * nv);

  // Cotangents, with how they change.
  const pbObservationBar *seen = &second->observed, *tangent = &second->observed_tangent;
  const double *next = pair(j, s->given[pair_next], second->next, second->next_tangent, given[pair_next]);
  pbPullback p = {
      .q_next = next,
      .v_next = next ? next + 2 * nv : NULL,
      .act_next = next ? next + 4 * nv : NULL,
      .knows_stages = moved != NULL,
      .sensordata = pair(j, s->given[pair_sensordata], seen->sensordata, tangent->sensordata, given[pair_sensordata]),
      .xpos = pair(j, s->given[pair_xpos], seen->xpos, tangent->xpos, given[pair_xpos]),
      .site_xpos = pair(j, s->given[pair_site_xpos], seen->site_xpos, tangent->site_xpos, given[pair_site_xpos]),
  };

  // Results.
  const pbInputBar *input = &second->input;
  const double *const wanted = second->x ? second->x : bar;
  double *const outs[pair_gotten] = {second->x,        input->ctrl,      input->qfrc,     input->xfrc,
                                     input->mocap_pos, input->mocap_rot, input->mocap_vel};
  double *pairs[pair_gotten];
  for (int i = 0; i < pair_gotten; i++) pairs[i] = cleared(s->gotten[i], i == pair_x ? wanted : outs[i], gotten[i]);
  double *x = pairs[pair_x];
  p.q = x;
  p.v = x ? x + 2 * nv : NULL;
  p.act = x ? x + 4 * nv : NULL;
  p.ctrl = pairs[pair_ctrl];
  p.qfrc = pairs[pair_qfrc];
  p.xfrc = pairs[pair_xfrc];
  p.mocap_pos = pairs[pair_mocap_pos];
  p.mocap_rot = pairs[pair_mocap_rot];
  p.mocap_vel = pairs[pair_mocap_vel];

  PB_TRY(pbVjp_Run_lanes_c(s->adjoint, &j->w, stages, &p));
  for (int i = 0; i < pair_gotten; i++) add_tangent(j, outs[i], s->gotten[i], gotten[i]);
  if (bar) add_values(bar, s->gotten[pair_x], gotten[pair_x]);
  return pb_ok;
}

#endif
