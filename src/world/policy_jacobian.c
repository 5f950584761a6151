// Jacobians of a step with a policy. With o what the policy observes, y what it puts out and z what it keeps (memory, what is
// held), the closed loop is x+ = f(x, u + y), y = g(o(x), z), z+ = k(o(x), z), so
//
//   A = df/dx + df/du G,   G = dg/do do/dx + dg/dz,   and below it dk/do do/dx + dk/dz
//
// The open step's Jacobians are those of any step (by pairs of dofs where they can be). G and its like have a row for each number
// that the policy puts out or keeps: the functions' own pullback of unit cotangents, some columns at a time, and one pullback of
// observations for as many rows as there are lanes, in which no force is. So nothing is pulled through the whole step row by row.
// Tests: tests/conformance/test_policy.c.
#include "world/policy_jacobian.h"

#include <string.h>

#include "base/assert.h"
#include "step/scratch.h"
#include "world/open_jacobian.h"

typedef pbClosedRoom room;

// Columns by poses of mocap bodies.
static unsigned poses_of(unsigned by) { return by & (pb_byMocapPos | pb_byMocapRot); }

// ---- the policy -------------------------------------------------------------------------------------------------------------
// A function with what it saw, and which rows are its own: of its memory from `memory` on, of what it puts out from `outputs` on;
// out_bar: those of all rows by what it puts out (NULL: unit cotangents of its own rows).
typedef struct part {
  const pbPolicyFunction *function;
  const double *param, *o, *m, *out_bar;
  int memory, outputs;
} part;

// So many columns from row `first` on.
static void put_columns(const room *r, const part *f, int first, int count) {
  int o = f->function->observations, m = f->function->memory, out = f->function->outputs;
  PB_ASSERT(count >= 1 && count <= pb_pulledColumns);

  for (int l = 0; l < count; l++) {
    int row = first + l;
    const double *given = f->out_bar ? f->out_bar + (size_t)row * (size_t)out : NULL;
    for (int i = 0; i < o; i++) r->o[i * count + l] = f->o[i];
    for (int i = 0; i < m; i++) r->m[i * count + l] = f->m[i];
    for (int i = 0; i < m; i++) r->m_next_bar[i * count + l] = row == f->memory + i;
    for (int i = 0; i < out; i++) r->out_bar[i * count + l] = given ? given[i] : row == f->outputs + i;
  }

  // Functions add.
  memset(r->o_bar, 0, (size_t)(o * count) * sizeof(double));
  memset(r->m_bar, 0, (size_t)(m * count) * sizeof(double));
}

static pbStatus pull_columns(pbScratch *s, const part *f, int first, int count) {
  const room *r = &s->policy->closed;
  const pbPolicyFunction *function = pbPolicy_OfRows(f->function);
  put_columns(r, f, first, count);
  pbStatus status = function->pull(function->self, count, f->param, r->o, r->m, r->out_bar, r->m_next_bar, r->o_bar, r->m_bar,
                                   NULL, NULL, count, r->function_work);
  return status == pb_ok ? pb_ok : pbPolicy_Failed(s, function, status);
}

// What one of so many columns has, of `size` numbers from the first on.
static void add_column(const double *columns, int count, int column, int size, double *to) {
  for (int i = 0; i < size; i++) to[i] += columns[i * count + column];
}

// Rows of act: to what is held, to what it observes, to its memory before.
static pbStatus pull_act(pbScratch *s, const pbStepRecord *step, int first, int end) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const room *r = &k->closed;
  int n = pbModel_TangentSize(s->model), own = p->decide_memory, seen = p->acted;
  const double *before = step->record + state_layout(s->model).policy;
  // Each of its own rows has a unit cotangent.
  const part act = {p->act, step->theta + p->act_theta, k->act_input, before + own, NULL, own, pbPolicy_KeptRows(p)};
  PB_ASSERT(first <= end && end <= pbPolicy_AllRows(p));

  for (int at = first; at < end; at += pb_pulledColumns) {
    int count = end - at < pb_pulledColumns ? end - at : pb_pulledColumns;
    PB_TRY(pull_columns(s, &act, at, count));

    // Numbers of a row stand side by side.
    for (int l = 0; l < count; l++) {
      int row = at + l;
      add_column(r->o_bar, count, l, p->held, r->held + row * p->held);
      add_column(r->o_bar + p->held * count, count, l, seen, r->observation + row * p->observing + p->observed);
      add_column(r->m_bar, count, l, p->act->memory, r->by_state + row * n + tangent_policy(s->model) + own);
    }
  }

  return pb_ok;
}

// Between decisions memory and what is held stay as they are.
static void pull_kept(const pbScratch *s) {
  const pbPolicyModel *p = s->model->policy;
  const room *r = &s->policy->closed;
  int n = pbModel_TangentSize(s->model), rows = pbPolicy_AllRows(p);
  PB_ASSERT(!s->policy->decides);

  for (int row = 0; row < rows; row++) {
    double *to = r->by_state + row * n + tangent_policy(s->model);
    if (row < p->decide_memory) to[row] += 1;
    for (int i = 0; i < p->held; i++) to[p->memory + i] += r->held[row * p->held + i];
  }
}

static pbStatus pull_decide(pbScratch *s, const pbStepRecord *step) {
  const pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const room *r = &k->closed;
  int n = pbModel_TangentSize(s->model), tail = tangent_policy(s->model), rows = pbPolicy_AllRows(p);
  const double *before = step->record + state_layout(s->model).policy;
  // Every row has what it has found by what is held.
  const part decide = {p->decide, step->theta + p->theta, k->observation, before, r->held, 0, p->memory};

  for (int at = 0; at < rows; at += pb_pulledColumns) {
    int count = rows - at < pb_pulledColumns ? rows - at : pb_pulledColumns;
    PB_TRY(pull_columns(s, &decide, at, count));

    // To what it observes, to its memory before.
    for (int l = 0; l < count; l++) {
      int row = at + l;
      add_column(r->o_bar, count, l, p->observed, r->observation + row * p->observing);
      add_column(r->m_bar, count, l, p->decide_memory, r->by_state + row * n + tail);
    }
  }

  return pb_ok;
}

// Every row, up to what the policy observes.
static pbStatus pull_functions(pbScratch *s, const pbStepRecord *step) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const room *r = &k->closed;
  int rows = pbPolicy_AllRows(p), n = pbModel_TangentSize(s->model);
  // What is held next, by itself; pullbacks add to the rest.
  memset(r->by_state, 0, (size_t)(rows * n) * sizeof(double));
  memset(r->observation, 0, (size_t)(rows * p->observing) * sizeof(double));
  memset(r->held, 0, (size_t)(rows * p->held) * sizeof(double));
  for (int i = 0; i < p->held; i++) r->held[(p->memory + i) * p->held + i] = 1;

  // Act first: its rows by what is held go on to decide.
  if (p->act) {
    pbPolicy_JoinActInput(k);
    PB_TRY(pull_act(s, step, p->decide_memory, p->memory));
    PB_TRY(pull_act(s, step, pbPolicy_KeptRows(p), rows));
  }
  if (k->decides) PB_TRY(pull_decide(s, step));
  else pull_kept(s);

  // What was held is observed without an evaluation.
  for (int row = 0; row < rows; row++) pbPolicy_PullHeld(s->model, r->observation + row * p->observing, r->by_state + row * n);
  return pb_ok;
}

// What it observes, to the state and to poses of mocap bodies. Between decisions nothing is observed but by what acts.
static pbStatus pull_observations(pbScratch *s, const pbStepRecord *open, const pbJacobian *out) {
  const pbModel *m = s->model;
  const pbPolicyModel *p = m->policy;
  const room *r = &s->policy->closed;
  unsigned by = poses_of(out->by);
  int n = pbModel_TangentSize(m), poses = pb_inputColumns(m, by), first = s->policy->decides ? 0 : p->decide_memory;

  memset(r->by_pose, 0, (size_t)(pbPolicy_AllRows(p) * poses) * sizeof(double));
  if (!p->evaluates || (!s->policy->decides && !p->act)) return pb_ok;

  // Several rows side by side
  const pbObservedRows seen = {.count = pbPolicy_AllRows(p) - first,
                               .n = n,
                               .by = by,
                               .observation = r->observation + (size_t)(first * p->observing),
                               .A = r->by_state + (size_t)(first * n),
                               .B = poses ? r->by_pose + (size_t)(first * poses) : NULL,
                               .room = r->lanes};
  return pbStep_JacobianObserved(s, open, &seen);
}

// ---- the chain rule ---------------------------------------------------------------------------------------------------------
// Rows of the open step, of the state or of sensors, and those of the closed loop that are made of them; NULL: not wanted.
typedef struct chain {
  int rows;
  const double *open_A, *open_B;
  double *A, *B;
} chain;

// How the rows follow what the policy puts out.
static void follow_outputs(const pbScratch *s, const chain *c, unsigned by) {
  const pbModel *m = s->model;
  const pbPolicyModel *p = m->policy;
  int columns = pb_inputColumns(m, by), at[pb_outputKindCount];
  at[pb_outputControl] = 0;
  at[pb_outputForce] = pb_inputColumns(m, by & pb_byGiven);
  at[pb_outputWrench] = pb_inputColumns(m, by & (pb_byGiven | pb_byForce));
  PB_ASSERT(c->open_B && columns > 0);

  for (int i = 0; i < c->rows; i++) {
    const double *row = c->open_B + (size_t)i * (size_t)columns;
    double *to = s->policy->closed.reach + (size_t)i * (size_t)p->outputs;
    for (int o = 0; o < p->outputs; o++) {
      const pbOutputTarget *t = p->target + o;
      to[o] = t->scale * row[at[t->kind] + t->index];
    }
  }
}

static void chain_state(const pbScratch *s, const chain *c) {
  const room *r = &s->policy->closed;
  int open = pb_openSize(s->model), n = pbModel_TangentSize(s->model), outputs = s->model->policy->outputs;
  size_t width = (size_t)n;

  // What is kept has no share in the open step.
  for (int i = 0; i < c->rows; i++) {
    double *row = c->A + (size_t)i * width;
    memcpy(row, c->open_A + (size_t)i * (size_t)open, (size_t)open * sizeof(double));
    memset(row + open, 0, (size_t)(n - open) * sizeof(double));
  }

  // A = df/dx + df/du G
  const pbProductShape shape = pbPolicy_Shape(c->rows, outputs, n, n);
  pbProduct_Add(&shape, r->reach, r->by_state + (size_t)pbPolicy_OutputRow(s->model->policy) * width, c->A, r->work);
}

// by: of the open step's columns; out: those that were asked for.
static void chain_inputs(const pbScratch *s, const chain *c, unsigned by, unsigned out) {
  const pbModel *m = s->model;
  const room *r = &s->policy->closed;
  int columns = pbModel_Columns(m, out), poses = pb_inputColumns(m, poses_of(out)), controls = columns - poses;
  int open = pb_inputColumns(m, by), from = pb_inputColumns(m, by & pb_byControl);
  PB_ASSERT(controls >= 0 && !(out & ~by));

  // As the open step has them; poses are seen by the policy, too.
  for (int i = 0; i < c->rows; i++) {
    double *row = c->B + (size_t)i * (size_t)columns;
    const double *given = c->open_B + (size_t)i * (size_t)open;
    memcpy(row, given, (size_t)controls * sizeof(double));
    memcpy(row + controls, given + from, (size_t)poses * sizeof(double));
  }
  if (!poses) return;

  const pbProductShape shape = pbPolicy_Shape(c->rows, m->policy->outputs, poses, columns);
  const double *seen = r->by_pose + (size_t)(pbPolicy_OutputRow(m->policy) * poses);
  pbProduct_Add(&shape, r->reach, seen, c->B + controls, r->work);
}

static void chain_rows(const pbScratch *s, const chain *c, unsigned by, unsigned out) {
  if (!c->A && !c->B) return;
  follow_outputs(s, c, by);
  if (c->A) chain_state(s, c);
  if (c->B) chain_inputs(s, c, by, out);
}

// What is held by the controls that were given beside what went out.
static void hear(const pbPolicyModel *p, size_t columns, double *held) {
  for (int i = 0; i < p->outputs; i++) {
    const pbOutputTarget *t = &p->target[i];
    if (t->kind == pb_outputControl && t->scale != 0) held[(size_t)i * columns + (size_t)t->index] += 1 / t->scale;
  }
}

// Rows of what the policy keeps.
static void kept_state(const pbScratch *s, const pbStepRecord *step, const pbJacobian *out) {
  const pbModel *m = s->model;
  const room *r = &s->policy->closed;
  int kept = pbPolicy_KeptRows(m->policy), n = pbModel_TangentSize(m);
  int columns = pbModel_Columns(m, out->by), poses = pb_inputColumns(m, poses_of(out->by));
  size_t first = (size_t)pb_openSize(m);
  if (out->A) memcpy(out->A + first * (size_t)n, r->by_state, (size_t)(kept * n) * sizeof(double));
  if (!out->B) return;

  // Controls alone are heard, and poses seen.
  double *rows = out->B + first * (size_t)columns;
  memset(rows, 0, (size_t)(kept * columns) * sizeof(double));
  for (int i = 0; i < kept; i++) {
    memcpy(rows + (i + 1) * columns - poses, r->by_pose + i * poses, (size_t)poses * sizeof(double));
  }
  bool hears = out->by & pb_byControl && pbPolicy_HearsNow(s, step->record);
  if (hears) hear(m->policy, (size_t)columns, rows + m->policy->memory * columns);
}

pbStatus pbPolicy_Jacobian(pbScratch *s, const pbStepRecord *step, const pbJacobian *out) {
  const pbModel *m = s->model;
  unsigned by = pbPolicy_Reached(m->policy, out->by);
  bool of_state = out->A || out->B, of_sensors = out->C || out->D;
  if (!of_state && !of_sensors) return pb_ok;
  PB_TRY(pbPolicy_MakeJacobian(s));

  // The open step first: its evaluation is what the policy has seen.
  const room *r = &s->policy->closed;
  const pbStepRecord open = pbPolicy_Open(s, step);
  const pbJacobian of_open = {by, out->A ? r->A : NULL, of_state ? r->B : NULL, out->C ? r->C : NULL, of_sensors ? r->D : NULL};
  PB_TRY(pbStep_JacobianOpen(s, &open, &of_open));

  PB_TRY(pull_functions(s, step));
  PB_TRY(pull_observations(s, &open, out));
  chain_rows(s, &(chain){pb_openSize(m), r->A, r->B, out->A, out->B}, by, out->by);
  chain_rows(s, &(chain){m->nsensordata, r->C, r->D, out->C, out->D}, by, out->by);
  kept_state(s, step, out);
  return pb_ok;
}
