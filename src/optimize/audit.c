// The audit of what an optimizer found (include/pullback/audit.h): several starts, each run again at finer steps, with a tight
// solver, another contact method and other parameters, with an energy ledger. Tests: tests/oracle/test_audit.py,
// tests/hostile/test_audit.c, validation/K109.py.
#include <pullback/actuators.h>
#include <pullback/audit.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/suggest.h"
#include "elementary/elementary.h"
#include "model/model.h"
#include "optimize/audit.h"
#include "optimize/task.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "world/policy_step.h"

typedef struct Audit {
  pbTask *task;
  pbAuditOptions o;  // no zeros
  pbAuditReport *report;
  pbFineModel twin;  // the task's model with the settings of the kind of run at hand
  size_t starts, trajectories, n;
  double *offset;      // (starts, trajectories, n): what the initial states are moved by
  double *factor;      // (starts, perturbed numbers): of the parameters perturbed
  size_t perturbed;    // their number
  double *theta, *x0;  // of the run at hand
  double *objective;   // starts: of the kind of run at hand
  bool *good;          // starts: it ran
  // nu + 1: largest force in the kind of run at hand; what it may be. Last of what the policy puts on joints and bodies.
  double *torque, *limit;
  double *memory, *watched;  // watched: of a pbAuditWatch
  const double *z;           // what is audited
  pbOutputTarget *silent;    // outputs of a policy that puts out zeros
  bool at_rest;              // the reference: controls of zero, such a policy
  int done;
} Audit;

static pbStatus fail(const Audit *a, pbStatus status, const char *text) {
  return pbContext_Fail(a->task->ctx, status, "%s: %s", a->task->name, text);
}

// ---- options ----------------------------------------------------------------------------------------------------------------
static const char *const default_fields[] = {"body_mass", "dof_damping", "geom_friction"};
static const double default_relative[] = {0.1, 0.1, 0.1};

static const char *other_method(const pbModel *m) { return m->contact.method == pb_contactCones ? "soft" : "cones"; }

static void or_default(double *value, double other) {
  if (*value == 0) *value = other;
}

static pbAuditOptions complete(const pbTask *task, const pbAuditOptions *given) {
  pbAuditOptions o = given ? *given : (pbAuditOptions){0};
  if (o.starts == 0) o.starts = PB_AUDIT_STARTS;
  if (!o.unit) o.unit = "";
  if (!o.method) o.method = other_method(task->model);

  or_default(&o.factor, 1);
  or_default(&o.tolerance, 0.1);
  or_default(&o.stop_angle, pbAudit_DefaultAngle());
  or_default(&o.stop_length, pbAudit_DefaultLength());
  or_default(&o.ledger, 0.01);

  // What is known least of a robot.
  if (o.fields == 0) {
    o.field = default_fields;
    o.relative = default_relative;
    o.fields = sizeof default_fields / sizeof *default_fields;
  }

  return o;
}

static pbStatus check_numbers(const Audit *a) {
  const pbAuditOptions *o = &a->o;
  const struct {
    const char *name;
    double value;
  } all[] = {{"tolerance", o->tolerance}, {"ledger", o->ledger}, {"stop angle", o->stop_angle}, {"stop length", o->stop_length}};

  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].value > 0 && isfinite(all[i].value)) continue;
    return pbContext_Fail(a->task->ctx, pb_bad_argument, "%s: audit: expected a positive %s, found %g", a->task->name,
                          all[i].name, all[i].value);
  }

  if (o->starts < PB_AUDIT_STARTS)
    return pbContext_Fail(a->task->ctx, pb_bad_argument, "%s: audit: a verdict takes at least %d starts, found %d", a->task->name,
                          PB_AUDIT_STARTS, o->starts);

  if (o->kept_count < 0 || o->kept_count > pb_auditReference)
    return fail(a, pb_bad_argument, "audit: too many kinds of runs kept");

  // Zero stands for the actuators' own, and for what follows from sizes.
  if (!(o->torque >= 0) || !(o->joint_torque >= 0)) return fail(a, pb_bad_argument, "audit: expected a torque >= 0");
  if (!(o->penetration >= 0) || !(o->absolute >= 0))
    return fail(a, pb_bad_argument, "audit: expected a penetration and an absolute tolerance >= 0");
  if (!isfinite(o->factor)) return fail(a, pb_bad_argument, "audit: expected a finite factor");
  return pb_ok;
}

static pbStatus check_objective(const Audit *a) {
  char text[160];
  if (!a->o.objective) return pb_ok;

  pbSuggest near = pbSuggest_For(a->o.objective);
  for (int i = 0; i < pbTask_TermCount(a->task); i++) {
    const char *name;
    double value, deviation;
    pbTask_Term(a->task, i, &name, &value, &deviation);
    if (strcmp(name, a->o.objective) == 0) return pb_ok;
    pbSuggest_Offer(&near, name);
  }

  return pbContext_Fail(a->task->ctx, pb_bad_argument, "%s: audit: the loss has no term '%.80s'%s", a->task->name, a->o.objective,
                        pbSuggest_Write(&near, text, sizeof text));
}

// The largest force that the model lets an actuator have; infinite where it says none.
static double own_limit(const Audit *a, int u) {
  const pbModel *m = a->task->model;
  const double *theta = a->task->theta_used, *range = NULL;
  int joint = m->actuator_trnid[2 * u];
  bool on_joint = m->actuator_trntype[u] == pb_trnJoint || m->actuator_trntype[u] == pb_trnJointInParent;

  // Its own range, or that of the joint it drives.
  if (m->actuator_forcelimited[u]) range = theta + (m->actuator_forcerange - m->theta0) + 2 * u;
  else if (on_joint && m->jnt_actfrclimited[joint]) range = theta + (m->jnt_actfrcrange - m->theta0) + 2 * joint;
  return range ? fmax(fabs(range[0]), fabs(range[1])) : INFINITY;
}

// A word that is no method is a mistake; one that this model does not take is told in the report.
static pbStatus check_method(Audit *a) {
  char why[300];
  PB_TRY(pbTask_Fine(a->task, 1, &a->twin));
  if (pbModel_SetContact(&a->twin.model, "method", a->o.method) == pb_ok) return pb_ok;

  // The context's own text is written over.
  snprintf(why, sizeof why, "%.290s", pbContext_Error(a->task->ctx));

  return pbContext_Fail(a->task->ctx, pb_bad_argument, "%s: audit: %s", a->task->name, why);
}

// What a policy puts on degrees of freedom or bodies knows no range.
static pbStatus limit_policy(Audit *a) {
  const pbPolicyModel *p = a->task->model->policy;
  a->limit[a->task->model->nu] = a->o.torque > 0 ? a->o.torque : INFINITY;
  if (a->o.torque > 0 || !p || !(p->reaches[pb_outputForce] || p->reaches[pb_outputWrench])) return pb_ok;
  return fail(a, pb_bad_argument, "audit: the limit of what the policy puts on joints or bodies is unknown; state \"torque\"");
}

static pbStatus find_limits(Audit *a) {
  const pbModel *m = a->task->model;

  for (int u = 0; u < m->nu; u++) {
    a->limit[u] = a->o.torque > 0 ? a->o.torque : own_limit(a, u);
    if (isfinite(a->limit[u])) continue;

    const char *name = pbModel_Name(m, pb_objActuator, u);
    return pbContext_Fail(a->task->ctx, pb_bad_argument,
                          "%s: audit: the limit of actuator '%s' is unknown: it has no forcerange; state \"torque\"",
                          a->task->name, name ? name : "");
  }

  return limit_policy(a);
}

// ---- starts and parameters --------------------------------------------------------------------------------------------------
static double spread_of(const Audit *a, size_t i) {
  size_t nv = (size_t)a->task->model->nv;
  if (a->o.spread) return a->o.spread[i];
  if (pbTask_Sampled(a->task)) return 0;
  return i >= nv && i < 2 * nv ? 0.05 : 0;
}

// All starts at once, so that each kind of run has the same.
static pbStatus draw_starts(Audit *a) {
  pbRng rng = pbRng_Seed(a->o.seed ^ 0xa0d17u);
  bool any = false;

  for (size_t i = 0; i < a->starts * a->trajectories * a->n; i++) {
    double spread = spread_of(a, i % a->n);
    if (!(spread >= 0 && isfinite(spread))) return fail(a, pb_bad_argument, "audit: a spread is no number >= 0");
    a->offset[i] = spread * (a->o.uniform ? 2 * pbRng_Uniform(&rng) - 1 : pbRng_Normal(&rng));
    any |= spread > 0;
  }

  if (!any && !pbTask_Sampled(a->task))
    return fail(a, pb_bad_argument, "audit: all starts would be the same; state a \"spread\"");

  // Within +-1, to be scaled.
  for (size_t i = 0; i < a->starts * a->perturbed; i++) a->factor[i] = 2 * pbRng_Uniform(&rng) - 1;
  return pb_ok;
}

static pbStatus count_perturbed(Audit *a) {
  pbParam p;

  for (int i = 0; i < a->o.fields; i++) {
    PB_TRY(pbModel_Param(a->task->ctx, a->task->model, a->o.field[i], &p));
    if (!(a->o.relative[i] >= 0 && a->o.relative[i] < 1))
      return fail(a, pb_bad_argument, "audit: parameters are perturbed by 0 <= relative < 1");
    a->perturbed += (size_t)p.rows * (size_t)p.cols;
  }

  return pb_ok;
}

static pbStatus perturb(const Audit *a, size_t start) {
  const double *draw = a->factor + start * a->perturbed;
  pbParam p;

  // The draws of a start follow one another in the order of the fields.
  for (int i = 0; i < a->o.fields; i++) {
    PB_TRY(pbModel_Param(a->task->ctx, a->task->model, a->o.field[i], &p));
    size_t count = (size_t)p.rows * (size_t)p.cols;
    for (size_t k = 0; k < count; k++) a->theta[p.offset + k] *= 1 + a->o.relative[i] * *draw++;
  }

  // Derived constants follow where the task says so.
  return a->task->recompute ? pbModel_SetConstants(a->task->ctx, a->task->model, a->theta) : pb_ok;
}

// ---- one run ---------------------------------------------------------------------------------------------------------------
typedef struct Pass {  // a kind of run on one trajectory
  pbAuditRun kind;
  int divide;
  pbTrajectory *trajectory;
  pbRollout *rollout;
  pbTermSet terms;  // borrows terms and buffers of the trajectory's; its rows are the same states, further apart
  int *rows;
  double *ctrl, *command;  // rows of all steps; command NULL: the policy observes none
  pbRolloutInput poses;    // of mocap bodies; nothing else
} Pass;

static double value_of_terms(const pbTermSet *set, const char *name) {
  double value = 0;
  for (int i = 0; i < set->count; i++) value += strcmp(set->terms[i].name, name) == 0 ? set->terms[i].value : 0;
  return value;
}

// The value of what is audited, of the run that the buffers hold.
static pbStatus add_objective(const Audit *a, Pass *p, double *objective) {
  double loss = pbTermSet_Value(&p->terms, p->trajectory->ctrl_now, false, NULL);
  if (p->terms.fault[0]) return fail(a, p->terms.failure, p->terms.fault);

  // The whole loss, or all terms of a name.
  double value = a->o.objective ? 0 : loss;
  if (a->o.objective) value = value_of_terms(&p->terms, a->o.objective);
  *objective += a->o.factor * value;

  return isfinite(*objective) ? pb_ok : fail(a, pb_not_finite, "the objective is not finite");
}

static pbStatus ledger_failed(const Audit *a, const pbRollout *r, pbStatus status) {
  return status == pb_ok ? pb_ok : fail(a, status, pbScratch_Error(r->scratch));
}

static void add_ledger(pbAuditRow *row, const pbLedger *l, double *delivered) {
  row->work += l->actuators + l->applied;
  row->energy += l->kinetic + l->potential;
  row->taken += pbLedger_Taken(l);
  row->remainder += fabs(l->remainder);

  // By what the gap of each would be taken.
  double gap = pbLedger_Gap(l);
  if (gap > 0) *delivered += fabs(l->remainder) / gap;
}

static pbStatus run_forward(Audit *a, Pass *p, pbAuditRow *row, pbAuditWatch *watch) {
  pbRollout *r = p->rollout;
  pbRolloutInput input = p->poses;
  input.ctrl = p->ctrl;
  input.command = p->command;
  pbRolloutOutput output = pbTermSet_Output(&p->terms);
  output.rows = p->rows;
  output.final_state = r->x_final;

  // The first row of controls acts at the first state, the last at the last.
  size_t steps = (size_t)(p->trajectory->steps * p->divide), last = steps ? steps - 1 : 0,
         nmocap = (size_t)a->task->model->nmocap;
  const pbInput first = {.ctrl = p->ctrl,
                         .command = p->command,
                         .mocap_pos = input.mocap_pos,
                         .mocap_quat = input.mocap_quat,
                         .mocap_vel = input.mocap_vel};
  pbInput at_end = first;
  at_end.ctrl += last * (size_t)pb_controls(a->task->model);
  if (input.mocap_pos) at_end.mocap_pos += last * 3 * nmocap;
  if (input.mocap_quat) at_end.mocap_quat += last * 4 * nmocap;
  if (input.mocap_vel) at_end.mocap_vel += last * 6 * nmocap;
  if (row->has_ledger)
    PB_TRY(ledger_failed(a, r, pbLedger_Begin(&a->twin.model, a->theta, a->x0, &first, r->scratch, watch->ledger)));

  PB_TRY(pbRollout_Forward(r, a->theta, a->x0, &input, &output));
  PB_TRY(pbAuditWatch_End(watch, r->x_final));

  if (!row->has_ledger) return pb_ok;
  return ledger_failed(a, r, pbLedger_End(&a->twin.model, a->theta, r->x_final, &at_end, r->scratch, watch->ledger));
}

// Parameters, initial state and commands of a start: the task's draws, if it has any, of iterations that no training has; then
// what the audit moves them by.
static pbStatus make_start(Audit *a, Pass *p, size_t start, size_t t) {
  pbTask *task = a->task;
  const int64_t iteration = task->sample.iteration;
  task->sample.iteration = -1 - (int64_t)start - (int64_t)(a->o.seed % 1000000007u) * 1000003;
  pbStatus status = pbTask_BeginWorld(task, (int)t, 0);
  task->sample.iteration = iteration;
  PB_TRY(status);

  memcpy(a->theta, task->theta_used, task->ntheta * sizeof(double));
  if (p->kind == pb_auditPerturbed) PB_TRY(perturb(a, start));
  memcpy(a->x0, pbTrajectory_Start(p->trajectory), (size_t)p->terms.nx * sizeof(double));
  pbFineModel_Start(&a->twin, p->divide, a->x0);
  pbState_Move(task->model, a->x0, a->offset + (start * a->trajectories + t) * a->n, 1);

  // Commands at the same times.
  size_t divide = (size_t)p->divide, count = (size_t)p->trajectory->steps * divide, n = (size_t)task->commands;
  p->terms.command = p->trajectory->command;
  p->terms.commands_by_step = true;
  if (!p->command) return pb_ok;
  for (size_t k = 0; k < count * n; k++) p->command[k] = p->terms.command[k / n / divide * n + k % n];
  return pb_ok;
}

// Start `start` of one trajectory. Adds to its objective and to the row.
static pbStatus run_start(Audit *a, Pass *p, size_t start, size_t t, pbAuditRow *row, double *delivered) {
  pbParam h;
  pbLedger ledger;
  PB_TRY(pbModel_Param(a->task->ctx, a->task->model, "timestep", &h));

  PB_TRY(make_start(a, p, start, t));
  a->theta[h.offset] /= p->divide;
  row->timestep = a->theta[h.offset];

  // Runs are watched one after another, all with the same memory.
  pbAuditWatch watch = {.ctx = a->task->ctx,
                        .model = &a->twin.model,
                        .o = &a->o,
                        .theta = a->theta,
                        .rollout = p->rollout,
                        .ledger = row->has_ledger ? &ledger : NULL,
                        .overlap = &row->overlap,
                        .given_way = &row->given_way,
                        .at_joint = &row->at_joint,
                        .torque = a->torque};

  pbAuditWatch_Begin(&watch, a->watched);
  p->rollout->watch = pbAuditWatch_Step;
  p->rollout->watcher = &watch;
  pbStatus status = run_forward(a, p, row, &watch);
  pbAuditWatch_Free(&watch);
  PB_TRY(status);

  if (row->has_ledger) {
    row->power = fmax(row->power, ledger.power);
    add_ledger(row, &ledger, delivered);
  }

  return add_objective(a, p, &a->objective[start]);
}

// ---- one kind of run --------------------------------------------------------------------------------------------------------
static const char *const row_names[pb_auditRunCount] = {"as trained",       "h/2",      "h/4", "tight solver", "",
                                                        "other parameters", "reference"};
static const int divides[pb_auditRunCount] = {1, 2, 4, 1, 1, 1, 1};

// A failure of the simulation counts against the answer; anything else ends the audit. What is reported beside the verdict may be
// refused as well: a method that the model does not take, parameters that are none of a body.
static bool is_failure_of_run(const pbAuditRow *row, pbStatus status) {
  if (status == pb_ok || status == pb_no_memory || status == pb_interrupted) return false;
  return !row->counts || status == pb_not_finite || status == pb_no_convergence || status == pb_singular || status == pb_capacity;
}

static void note_failure(Audit *a, pbAuditRow *row, size_t start) {
  // A start with several trajectories fails once.
  if (!a->good[start]) return;
  a->good[start] = false;
  row->failed++;
  if (row->failed_start >= 0) return;
  row->failed_start = (int)start;
  snprintf(row->why, sizeof row->why, "%.280s", pbContext_Error(a->task->ctx));
}

static pbStatus begin_pass(Audit *a, pbAuditRun kind, pbTrajectory *tr, Pass *p) {
  pbContext *ctx = a->task->ctx;
  size_t nu = (size_t)pb_controls(a->task->model), steps = (size_t)tr->steps * (size_t)divides[kind];
  size_t commands = tr->command ? (size_t)a->task->commands : 0, poses = pbPoses_Numbers(a->task, tr);
  pbRolloutPlan plan;
  *p = (Pass){.kind = kind, .divide = divides[kind], .trajectory = tr, .terms = tr->terms};
  if (steps > INT32_MAX) return fail(a, pb_bad_argument, "audit: too many steps");

  p->rows = pbContext_AllocArray(ctx, (size_t)tr->terms.row_count + 1, sizeof *p->rows);
  p->ctrl = pbContext_AllocArray(ctx, steps * (nu + commands + poses) + 1, sizeof *p->ctrl);
  if (!p->rows || !p->ctrl) return fail(a, pb_no_memory, "no memory for the audit");

  if (commands) p->command = p->ctrl + steps * nu;

  // States at the same times, controls held over the shorter steps.
  for (int i = 0; i < tr->terms.row_count; i++) p->rows[i] = tr->terms.rows[i] * p->divide;
  for (size_t i = 0; i < steps * nu; i++) p->ctrl[i] = tr->ctrl_now[i / nu / (size_t)p->divide * nu + i % nu];
  pbPoses_Fine(a->task, tr, p->divide, p->ctrl + steps * (nu + commands), &p->poses);

  PB_TRY(pbRollout_PlanSlots(ctx, &a->twin.model, (int)steps, 0, 1, &plan));

  return pbRollout_Create(ctx, &a->twin.model, &plan, NULL, &p->rollout);
}

static void end_pass(const Audit *a, Pass *p) {
  pbRollout_Destroy(p->rollout);
  pbContext_Free(a->task->ctx, p->rows);
  pbContext_Free(a->task->ctx, p->ctrl);
}

// Tells how far it is; nonzero: the caller wants to stop.
static bool is_stopped(Audit *a, double began) {
  int total = (int)(pb_auditRunCount * a->trajectories * a->starts);
  const pbProgress now = {
      .phase = "audit", .done = a->done++, .total = total, .seconds = pb_seconds() - began, .left = -1, .value = NAN};
  return a->o.progress && a->o.progress(a->o.user, &now);
}

static pbStatus run_pass(Audit *a, Pass *p, size_t t, pbAuditRow *row, double *delivered) {
  double began = pb_seconds();

  // A start that has failed on another trajectory is not run on.
  for (size_t start = 0; start < a->starts; start++) {
    if (is_stopped(a, began)) return fail(a, pb_interrupted, "interrupted");
    if (!a->good[start]) continue;

    pbStatus status = run_start(a, p, start, t, row, delivered);
    if (is_failure_of_run(row, status)) note_failure(a, row, start);
    else PB_TRY(status);
  }

  return pb_ok;
}

// Settings of the kind of run, on a copy of the model.
static pbStatus make_twin(Audit *a, pbAuditRun kind) {
  PB_TRY(pbTask_Fine(a->task, divides[kind], &a->twin));
  if (kind == pb_auditTight) a->twin.model.tolerance = 0;
  if (kind == pb_auditReference && a->at_rest && a->twin.model.policy) a->twin.policy.target = a->silent;
  return kind == pb_auditMethod ? pbModel_SetContact(&a->twin.model, "method", a->o.method) : pb_ok;
}

// A row before anything is seen.
static pbAuditRow empty_row(const Audit *a, pbAuditRun kind) {
  pbAuditRow row = {.counts = kind < pb_auditMethod, .failed_start = -1};
  row.overlap.limit = row.given_way.limit = row.at_joint.limit = 1;
  snprintf(row.name, sizeof row.name, kind == pb_auditMethod ? "method %.38s" : "%.38s",
           kind == pb_auditMethod ? a->o.method : row_names[kind]);

  return row;
}

static void summarize(const Audit *a, pbAuditRow *row, double delivered) {
  double sum = 0, squares = 0;
  row->least = INFINITY;
  row->most = -INFINITY;

  // Over the starts that ran to their end.
  for (size_t i = 0; i < a->starts; i++) {
    if (!a->good[i]) continue;
    row->ran++;
    sum += a->objective[i];
    row->least = fmin(row->least, a->objective[i]);
    row->most = fmax(row->most, a->objective[i]);
  }

  // Deviation of the starts from their mean.
  row->mean = row->ran ? sum / row->ran : NAN;
  for (size_t i = 0; i < a->starts; i++) squares += a->good[i] ? pbPow(a->objective[i] - row->mean, 2) : 0;
  row->deviation = row->ran > 1 ? sqrt(squares / (row->ran - 1)) : 0;

  row->gap = delivered > 0 ? row->remainder / delivered : 0;
  double *means[] = {&row->work, &row->energy, &row->taken, &row->remainder};
  for (int i = 0; i < 4; i++) *means[i] /= row->ran ? row->ran : 1;
}

// The actuator nearest to its limit.
static void note_torque(const Audit *a, pbAuditRow *row) {
  double most = -1;

  // By the part of what each may do.
  int nu = a->task->model->nu;
  for (int u = 0; u <= nu; u++) {
    double part = isfinite(a->limit[u]) ? a->torque[u] / a->limit[u] : -1;
    if (!(part > most)) continue;
    most = part;
    row->torque = a->torque[u];
    row->torque_limit = a->limit[u];
    const char *name = u < nu ? pbModel_Name(a->task->model, pb_objActuator, u) : "policy";
    snprintf(row->actuator, sizeof row->actuator, "%.90s", name ? name : "");
  }
}

static pbStatus run_trajectories(Audit *a, pbAuditRun kind, pbAuditRow *row, double *delivered) {
  PB_TRY(make_twin(a, kind));
  row->has_ledger = !a->twin.model.deform && a->twin.model.contact.method != pb_contactImpact;

  for (size_t t = 0; t < a->trajectories; t++) {
    Pass pass;
    pbStatus status = begin_pass(a, kind, &a->task->trajectories[t], &pass);
    if (status == pb_ok) status = run_pass(a, &pass, t, row, delivered);
    end_pass(a, &pass);
    PB_TRY(status);
  }

  return pb_ok;
}

static pbStatus run_kind(Audit *a, pbAuditRun kind) {
  pbAuditRow *row = &a->report->row[kind];
  double delivered = 0;
  *row = empty_row(a, kind);

  // Sums over trajectories begin at zero.
  for (size_t i = 0; i < a->starts; i++) {
    a->good[i] = true;
    a->objective[i] = 0;
  }
  memset(a->torque, 0, (size_t)(a->task->model->nu + 1) * sizeof *a->torque);

  // What cannot be had at all is no fault of the answer.
  pbStatus status = run_trajectories(a, kind, row, &delivered);
  if (is_failure_of_run(row, status) && !row->counts) {
    snprintf(row->why, sizeof row->why, "%.280s", pbContext_Error(a->task->ctx));
    return pb_ok;
  }
  PB_TRY(status);

  summarize(a, row, delivered);
  note_torque(a, row);

  return pb_ok;
}

// ---- the whole --------------------------------------------------------------------------------------------------------------
static pbStatus allocate(Audit *a) {
  size_t forces = (size_t)a->task->model->nu + 1, nx = (size_t)a->task->trajectories[0].terms.nx;
  // Lengths of the arrays, in the order of the pieces.
  const size_t sizes[] = {
      a->starts * a->trajectories * a->n,  a->starts * a->perturbed, a->task->ntheta, nx, a->starts, forces, forces,
      pbAuditWatch_Numbers(a->task->model)};
  double **const pieces[] = {&a->offset, &a->factor, &a->theta, &a->x0, &a->objective, &a->torque, &a->limit, &a->watched};
  enum { count = sizeof sizes / sizeof *sizes };
  size_t total = 1;
  for (int i = 0; i < count; i++) total += sizes[i];

  a->memory = pbContext_AllocArray(a->task->ctx, total, sizeof(double));
  a->good = pbContext_AllocArray(a->task->ctx, a->starts, sizeof *a->good);
  if (!a->memory || !a->good) return fail(a, pb_no_memory, "no memory for the audit");

  // Side by side in one block.
  double *next = a->memory;
  for (int i = 0; i < count; i++) {
    *pieces[i] = next;
    next += sizes[i];
  }

  return pb_ok;
}

static void begin_report(const Audit *a) {
  pbAuditReport *r = a->report;
  *r = (pbAuditReport){.starts = a->o.starts,
                       .seed = a->o.seed,
                       .tolerance = a->o.tolerance,
                       .absolute = a->o.absolute,
                       .better = a->o.factor > 0 ? -1 : 1,
                       .gained = NAN,
                       .ledger = a->o.ledger};
  snprintf(r->objective, sizeof r->objective, "%.90s", a->o.objective ? a->o.objective : "loss");
  snprintf(r->unit, sizeof r->unit, "%.30s", a->o.unit);

  if (a->task->model->deform) snprintf(r->why_no_ledger, sizeof r->why_no_ledger, "worlds with deformables have none");
  else if (a->task->model->contact.method == pb_contactImpact)
    snprintf(r->why_no_ledger, sizeof r->why_no_ledger, "contact method impact has none: velocities jump within a step");
}

// ---- the reference ------------------------------------------------------------------------------------------------------------
// Other unknowns than the task's start are compared with it; else what is done with doing nothing. False: nothing is done.
static bool choose_reference(Audit *a, bool *same) {
  const pbTask *task = a->task;
  bool acts = task->model->policy != NULL;
  *same = task->n == 0 || memcmp(a->z, task->start, (size_t)task->n * sizeof(double)) == 0;
  a->at_rest = *same;

  for (size_t t = 0; t < a->trajectories; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    size_t numbers = (size_t)tr->steps * (size_t)pb_controls(task->model);
    for (size_t i = 0; i < numbers; i++) acts |= tr->ctrl_now[i] != 0;
  }

  return acts || !*same;
}

static pbStatus make_silent(Audit *a) {
  const pbPolicyModel *p = a->task->model->policy;
  if (!p) return pb_ok;

  a->silent = pbContext_AllocArray(a->task->ctx, (size_t)p->outputs + 1, sizeof *a->silent);
  if (!a->silent) return fail(a, pb_no_memory, "no memory for the audit");
  for (int i = 0; i < p->outputs; i++) a->silent[i] = (pbOutputTarget){.kind = p->target[i].kind, .index = p->target[i].index};
  return pb_ok;
}

static void clear_controls(const Audit *a) {
  for (size_t t = 0; t < a->trajectories; t++) {
    const pbTrajectory *tr = &a->task->trajectories[t];
    memset(tr->ctrl_now, 0, (size_t)tr->steps * (size_t)pb_controls(a->task->model) * sizeof(double));
  }
}

// What was gained over it. One that cannot be run is none.
static pbStatus run_reference(Audit *a) {
  pbAuditRow *row = &a->report->row[pb_auditReference];
  bool same;
  *row = empty_row(a, pb_auditReference);
  snprintf(row->why, sizeof row->why, "there is none: neither another start, nor controls, nor a policy");
  if (!choose_reference(a, &same)) return pb_ok;

  // The unknowns are those of the answer again at the end.
  if (same) clear_controls(a);
  else PB_TRY(pbTask_Apply(a->task, a->task->start));
  pbStatus status = same ? make_silent(a) : pb_ok;
  if (status == pb_ok) status = run_kind(a, pb_auditReference);
  a->at_rest = false;
  a->task->same = false;
  PB_TRY(pbTask_Apply(a->task, a->z));

  if (status == pb_ok && row->ran && !row->failed) a->report->gained = a->report->row[pb_auditTrained].mean - row->mean;
  return status;
}

// A kind of run that was made before an interruption.
static void take_row(Audit *a, pbAuditRun kind) {
  a->report->row[kind] = a->o.kept[kind];
  a->done += (int)(a->trajectories * a->starts);
}

static pbStatus run_all(Audit *a, const double *z) {
  PB_TRY(check_numbers(a));
  PB_TRY(check_objective(a));
  PB_TRY(check_method(a));
  PB_TRY(count_perturbed(a));
  PB_TRY(allocate(a));
  PB_TRY(draw_starts(a));

  // What is audited: parameters, initial states and controls at z.
  a->task->same = false;
  PB_TRY(pbTask_Apply(a->task, z));
  PB_TRY(find_limits(a));
  begin_report(a);

  a->z = z;
  for (int kind = 0; kind < pb_auditReference; kind++) {
    if (kind < a->o.kept_count) take_row(a, (pbAuditRun)kind);
    else PB_TRY(run_kind(a, (pbAuditRun)kind));
    a->report->made = kind + 1;

    // Without an answer to compare with there is nothing to audit.
    const pbAuditRow *row = &a->report->row[kind];
    if (kind == pb_auditTrained && row->failed)
      return pbContext_Fail(a->task->ctx, pb_not_finite, "%s: audit: start %d fails as trained: %s", a->task->name,
                            row->failed_start, row->why);
  }

  PB_TRY(run_reference(a));
  a->report->made = pb_auditRunCount;
  pbAuditReport_Judge(a->report);

  return pb_ok;
}

pbStatus pbTask_Audit(pbTask *task, const double *z, const pbAuditOptions *options, pbAuditReport *report) {
  Audit a = {.task = task,
             .o = complete(task, options),
             .report = report,
             .starts = 0,
             .trajectories = (size_t)task->trajectory_count,
             .n = (size_t)pbModel_TangentSize(task->model)};
  a.starts = (size_t)(a.o.starts > 0 ? a.o.starts : 0);
  PB_ASSERT(task->trajectory_count > 0);

  pbStatus status = run_all(&a, z);
  pbContext_Free(task->ctx, a.memory);
  pbContext_Free(task->ctx, a.good);
  pbContext_Free(task->ctx, a.silent);

  return status;
}
