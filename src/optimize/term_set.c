// A set of terms: its memory, which states they look at, what a rollout is to write for them and which cotangents it takes.
// Tests: tests/unit/test_task.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"
#include "model/policy_data.h"
#include "optimize/task.h"

void pbTermSet_Begin(pbTermSet *set, pbContext *ctx, const pbModel *m, int steps) {
  PB_ASSERT(steps >= 0);
  *set = (pbTermSet){.ctx = ctx,
                     .model = m,
                     .steps = steps,
                     .nx = pbModel_StateSize(m),
                     .n = pbModel_TangentSize(m),
                     .nv = m->nv,
                     .na = m->na,
                     .nu = pb_controls(m),
                     .ns = m->nsensordata,
                     .nbody = m->nbody,
                     .nsite = m->nsite,
                     .np = 3 * pbModel_PointCount(m)};
  if (m->policy) {
    set->ncommand = m->policy->commands;
    set->nheld = m->policy->held;
    set->held_at = state_layout(m).policy + m->policy->memory;
  }

  // Where the observed fields begin in a state.
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, "qpos") == 0) set->qpos_at = f.offset;
    if (strcmp(f.name, "qvel") == 0) set->qvel_at = f.offset;
    if (strcmp(f.name, "act") == 0) set->act_at = f.offset;
    if (strcmp(f.name, "points") == 0) set->points_at = f.offset;
  }
}

static void free_formula(pbContext *ctx, pbFormula *f);

static void free_term(pbContext *ctx, pbTerm *t) {
  free_formula(ctx, t->formula);
  pbHosted_Free(ctx, t->hosted);
  pbReading_Free(ctx, t->reading);
  pbMultipliers_Free(ctx, t->constraint);
  void *all[] = {t->name, t->parts, t->steps, t->target, t->factor, t->sigma};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

static void free_formula(pbContext *ctx, pbFormula *f) {
  if (!f) return;
  for (int i = 0; i < f->input_count; i++) free_term(ctx, &f->inputs[i]);
  pbExpression_Destroy(f->expression);

  void *all[] = {f->inputs, f->in, f->value, f->slope, f};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

bool pbTerm_NormalizeTarget(const pbTerm *t, double *row) {
  for (int i = 0; i < t->part_count; i++) {
    double *q = row + t->parts[i].target, norm = 0;
    if (t->parts[i].axis < 0) continue;

    // one for each of the three parts that use it: the first of them does it, for the others nothing is left to do
    for (int k = 0; k < 4; k++) norm += q[k] * q[k];
    if (isnan(norm)) q[0] = q[1] = q[2] = q[3] = NAN;
    if (norm <= 1e-12 || isinf(norm)) return false;
    for (int k = 0; k < 4; k++) q[k] /= sqrt(norm);
  }

  return true;
}

void pbTermSet_DropLast(pbTermSet *set) {
  pbTerm *last = &set->terms[--set->count];
  free_term(set->ctx, last);
  *last = (pbTerm){0};
}

void pbTermSet_Free(pbTermSet *set) {
  if (set->terms) {
    for (int i = 0; i < set->count; i++) free_term(set->ctx, &set->terms[i]);
  }

  // Rows, what Forward wrote, cotangents.
  void *all[] = {set->terms,        set->rows,
                 set->states,       set->sensordata,
                 set->xpos,         set->site_xpos,
                 set->bar_q,        set->bar_v,
                 set->bar_a,        set->bar_sensor,
                 set->bar_xpos,     set->bar_site,
                 set->bar_points,   set->bar_point_velocity,
                 set->bar_decision, set->bar_last,
                 set->timestep_bar};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(set->ctx, all[i]);
  *set = (pbTermSet){0};
}

static pbStatus allocate_rows(const pbTermSet *set, bool wanted, int width, double **data) {
  if (!wanted) return pb_ok;

  *data = pbContext_AllocArray(set->ctx, (size_t)set->row_count * (size_t)width + 1, sizeof(double));
  if (*data) return pb_ok;
  return pbContext_Fail(set->ctx, pb_no_memory, "no memory for what the loss observes (%d states)", set->row_count);
}

static void note_uses(pbTermSet *set, const pbTerm *t) {
  const pbFormula *f = t->formula;
  for (int q = 0; q < pb_quantityCount; q++) set->uses[q] |= t->hosted && t->hosted->sees[q];
  if (!f) {
    if (!t->hosted) set->uses[t->quantity] = true;
    return;
  }

  for (int i = 0; i < f->input_count; i++) {
    PB_ASSERT(f->inputs[i].quantity < pb_quantityCount && f->inputs[i].part_count <= 3);
    set->uses[f->inputs[i].quantity] = true;
  }
}

// The states that any term observes, ascending.
static pbStatus collect_rows(pbTermSet *set) {
  char *mark = pbContext_Alloc(set->ctx, (size_t)set->steps + 1);
  if (!mark) return pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");

  for (int i = 0; i < set->count; i++) {
    const pbTerm *t = &set->terms[i];
    PB_ASSERT(pb_allWithin(t->steps, t->step_count, 0, set->steps + 1));
    note_uses(set, t);
    pbReading_Mark(set, t, mark);
  }

  // Count them, then list them.
  for (int k = 0; k <= set->steps; k++) set->row_count += mark[k];
  set->rows = pbContext_AllocArray(set->ctx, (size_t)set->row_count + 1, sizeof(int));
  if (set->rows) {
    int at = 0;
    for (int k = 0; k <= set->steps; k++) {
      if (mark[k]) set->rows[at++] = k;
    }
  }
  pbContext_Free(set->ctx, mark);

  return set->rows ? pb_ok : pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");
}

pbStatus pbTermSet_Finish(pbTermSet *set) {
  pbTermSet_Read(set);
  PB_TRY(collect_rows(set));
  const bool *u = set->uses;

  // What Forward writes.
  bool positions = u[pb_observedQpos] || u[pb_observedPoints];
  bool velocities = u[pb_observedQvel] || u[pb_observedPointVelocity];
  PB_TRY(allocate_rows(set, positions || velocities || u[pb_observedAct] || u[pb_observedDecision], set->nx, &set->states));
  PB_TRY(allocate_rows(set, u[pb_observedSensor], set->ns, &set->sensordata));
  PB_TRY(allocate_rows(set, u[pb_observedBody], 3 * set->nbody, &set->xpos));
  PB_TRY(allocate_rows(set, u[pb_observedSite], 3 * set->nsite, &set->site_xpos));

  // The cotangents of it.
  PB_TRY(allocate_rows(set, u[pb_observedQpos], set->nv, &set->bar_q));
  PB_TRY(allocate_rows(set, u[pb_observedQvel], set->nv, &set->bar_v));
  PB_TRY(allocate_rows(set, u[pb_observedAct], set->na, &set->bar_a));
  PB_TRY(allocate_rows(set, u[pb_observedSensor], set->ns, &set->bar_sensor));
  PB_TRY(allocate_rows(set, u[pb_observedBody], 3 * set->nbody, &set->bar_xpos));
  PB_TRY(allocate_rows(set, u[pb_observedDecision], set->nheld, &set->bar_decision));
  PB_TRY(allocate_rows(set, u[pb_observedLast], set->nheld, &set->bar_last));
  PB_TRY(allocate_rows(set, u[pb_observedPoints], set->np, &set->bar_points));
  PB_TRY(allocate_rows(set, u[pb_observedPointVelocity], set->np, &set->bar_point_velocity));

  return allocate_rows(set, u[pb_observedSite], 3 * set->nsite, &set->bar_site);
}

pbRolloutOutput pbTermSet_Output(const pbTermSet *set) {
  return (pbRolloutOutput){.states = set->states,
                           .sensordata = set->sensordata,
                           .xpos = set->xpos,
                           .site_xpos = set->site_xpos,
                           .rows = set->rows,
                           .row_count = set->row_count};
}

pbRolloutBar pbTermSet_Bar(const pbTermSet *s) {
  int count = s->row_count;
  const int *rows = s->rows;

  return (pbRolloutBar){{s->bar_q, count, rows},
                        {s->bar_v, count, rows},
                        {s->bar_a, count, rows},
                        {s->bar_sensor, count, rows},
                        {s->bar_xpos, count, rows},
                        {s->bar_site, count, rows},
                        {s->bar_points, count, rows},
                        {s->bar_point_velocity, count, rows},
                        {NULL, 0, NULL}};
}
