// What every call does with its scratch: the checks of what comes in, an evaluation in double, and its report.
// Tests: tests/unit/test_guess.c.
#include "step/scratch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "model/exposed.h"
#include "model/sphere.h"

const char *pbScratch_Error(const pbScratch *s) { return s->error; }
pbReport pbScratch_Report(const pbScratch *s) { return s->report; }
const char *pbScratch_WorstRow(const pbScratch *s) { return s->worst_row; }

pbStatus pbScratch_Fail(pbScratch *s, pbStatus status, const char *format, ...) {
  s->failures++;
  va_list args;
  va_start(args, format);
  vsnprintf(s->error, sizeof s->error, format, args);
  va_end(args);
  return status;
}

// ---- what comes in ------------------------------------------------------------------------------------------------------
// A theta like the last one, as a cheap comparison tells: finite, and with the same directions, which were of length one.
static bool resembles_last_theta(const pbScratch *s, const double *theta) {
  return s->unit_before && isfinite(s->variant->sum(theta, s->model->ntheta)) && pbSphere_Same(s->model, theta, s->theta_unit);
}

// theta as kernels read it: as it is, or with its directions normalized.
static pbStatus check_theta(pbScratch *s, const double *theta) {
  char text[640];
  bool unit;
  s->theta = theta;

  // The model's own parameters are const, but for settings that are checked where they are set.
  bool own = theta == s->model->theta0;
  if (own && s->defaults_unit) return pb_ok;
  if (resembles_last_theta(s, theta)) return pb_ok;

  s->unit_before = false;
  if (!pbModel_Readable(s->model, theta, &unit, text, sizeof text)) return pbScratch_Fail(s, pb_bad_input, "%s", text);

  pbSphere_Normalize(s->model, theta, s->theta_unit);
  s->unit_before = unit;
  if (own) s->defaults_unit = unit;
  if (!unit) s->theta = s->theta_unit;
  return pb_ok;
}

bool pbScratch_Stale(const pbScratch *s, const pbModel *m) { return s->model != m || s->revision != m->revision; }

static pbStatus check_model(pbScratch *s, const pbModel *m) {
  if (!pbScratch_Stale(s, m)) return pb_ok;
  return pbScratch_Fail(s, pb_bad_argument, "this scratch was made for %s; make it anew",
                        s->model != m ? "another model" : "the model as it was before its options or contact settings changed");
}

pbStatus pbScratch_Trust(pbScratch *s, const pbModel *m, const double *theta) {
  s->trusted = NULL;
  PB_TRY(check_model(s, m));
  PB_TRY(check_theta(s, theta));
  s->trusted = theta;
  return pb_ok;
}

pbStatus pbScratch_Enter(pbScratch *s, const pbModel *m, const double **theta) {
  PB_TRY(check_model(s, m));
  if (*theta == s->theta_unit) return pb_ok;  // of a call that came through here

  // A theta that a rollout vouches for is looked at once.
  if (!s->trusted || *theta != s->trusted) {
    s->trusted = NULL;
    PB_TRY(check_theta(s, *theta));
  }
  *theta = s->theta;
  return pb_ok;
}

pbStatus pbScratch_CheckRecord(pbScratch *s, const double *record) {
  if (record[tape_revision(s->model)] == s->model->revision) return pb_ok;
  return pbScratch_Fail(
      s, pb_bad_argument,
      "this tape record was made for the model as it was before its options or contact settings changed, or by no step "
      "of this model; make it anew");
}

static void copy_or_clear(double *to, const double *from, int n) {
  if (from) memcpy(to, from, (size_t)n * sizeof(double));
  else memset(to, 0, (size_t)n * sizeof(double));
}

void pbScratch_Load(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  pbWork_r *w = &s->w;

  // The evaluation goes where it is to be cached, once.
  pbWork_MoveTo_r(w, s->cache_at);
  s->cache_at = NULL;

  PB_VALIDATE(pb_allFinite(theta, m->ntheta));
  par_view(&w->p, m, theta);
  exposed_view(m, theta, w->own_hull, w->own_terrain, w->own_real);
  *w->time = x[at.time];
  copy_or_clear(w->qpos, x + at.qpos, m->nq);
  copy_or_clear(w->qvel, x + at.qvel, m->nv);
  copy_or_clear(w->act, x + at.act, m->na);
  copy_or_clear(w->qacc_warmstart, x + at.warm, m->nv);
  w->sensed = false;
  pbScratch_LoadInput(s, input);
}

// Poses of mocap bodies; those that no input says are the model's.
static void load_mocap(pbWork_r *w, const pbInput *input) {
  const pbModel *m = w->m;
  const double *pos = input ? input->mocap_pos : NULL, *quat = input ? input->mocap_quat : NULL;

  w->mocap_own_pos = !pos;
  w->mocap_own_quat = !quat;
  w->mocap_moves = false;
  if (!m->nmocap) return;

  const double *vel = input ? input->mocap_vel : NULL;
  copy_or_clear(w->mocap_vel, vel, 6 * m->nmocap);
  int given = vel ? 6 * m->nmocap : 0;
  for (int i = 0; i < given; i++) w->mocap_moves = w->mocap_moves || vel[i] != 0;

  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;
    memcpy(w->mocap_pos + 3 * k, pos ? pos + 3 * k : w->p.body_pos + 3 * b, 3 * sizeof(double));
    memcpy(w->mocap_quat + 4 * k, quat ? quat + 4 * k : w->p.body_quat + 4 * b, 4 * sizeof(double));
  }
}

// Controls of all stages of Runge-Kutta.
static void load_stages(pbScratch *s) {
  size_t nu = (size_t)s->model->nu, bytes = nu * sizeof(double);
  const double *later = s->ctrl_later;
  memcpy(s->w.rk_ctrl, s->w.ctrl, bytes);
  for (size_t i = 0; i < 2; i++) memcpy(s->w.rk_ctrl + (i + 1) * nu, later ? later + i * nu : s->w.ctrl, bytes);
}

void pbScratch_LoadInput(pbScratch *s, const pbInput *input) {
  const pbModel *m = s->model;
  pbWork_r *w = &s->w;
  copy_or_clear(w->ctrl, input ? input->ctrl : NULL, m->nu);
  if (pb_staged(m)) load_stages(s);
  copy_or_clear(w->qfrc_applied, input ? input->qfrc : NULL, m->nv);
  copy_or_clear(w->xfrc_applied, input ? input->xfrc : NULL, 6 * m->nbody);
  load_mocap(w, input);
}

// ---- evaluation -----------------------------------------------------------------------------------------------------
// Is every block of rows a sorted list of the model's dofs, within what was used of the lists of all? Has it a positive
// regularization?
static bool rows_are_valid(const pbWork_r *w) {
  for (const pbRow_r *r = w->row; r < w->row + w->nrow; r++) {
    const int *dofs = w->row_dofs + r->dofs;

    if (r->dim < 1 || r->dim > 6) return false;
    if (r->dofs + r->n > w->ndofs_used || r->J + r->dim * r->n > w->nJ_used) return false;
    if (!pb_ascending(dofs, r->n) || !pb_allWithin(dofs, r->n, 0, w->m->nv)) return false;
    if (!(r->R[0] >= 0)) return false;
  }
  return true;
}

void pbScratch_ForgetGain(pbScratch *s) {
  pbReport *report = &s->report;
  report->gains = 0;
  report->gain = 0;
  report->gaining[0] = report->gaining[1] = -1;
}

static void find_penetration(pbScratch *s) {
  pbReport *r = &s->report;

  r->penetration = 0;
  r->penetrating[0] = r->penetrating[1] = -1;
  for (int i = 0; i < s->w.ncon; i++) {
    const pbContact_r *c = s->w.contact + i;
    if (!(-c->dist > r->penetration)) continue;
    r->penetration = -c->dist;
    r->penetrating[0] = c->geom1;
    r->penetrating[1] = c->geom2;
  }
}

double pbScratch_WithoutSign(double x) { return isnan(x) ? (double)NAN : x; }  // "-nan" is no help in a message

// -1: all are finite. Most often they are, which a loop without branches tells.
int pbScratch_FirstNotFinite(const double *x, int n) {
  // x - x is zero for finite numbers alone.
  bool good = true;
  for (int i = 0; i < n; i++) good &= x[i] - x[i] == 0;
  if (good) return -1;

  int i = 0;
  while (isfinite(x[i])) i++;
  return i;
}

// How many contacts there is room for where that is less than pairs can make.
static const char *room_of_method(const pbModel *m) {
  if (pb_noslip(m)) return " (with noslip_iterations there is room for 256, or the capacity given)";
  return pb_hard(m) ? " (hard methods hold 512, or the capacity given)" : "";
}

pbStatus pbScratch_Explain(pbScratch *s, pbStatus status) {
  const pbWork_r *w = &s->w;

  switch (status) {
    case pb_capacity:
      return pbScratch_Fail(s, status, "more than %d contacts at time %.9g%s", w->most_con, *w->time, room_of_method(s->model));
    case pb_singular: return pbScratch_ExplainSingular(s);
    case pb_no_convergence: return pbScratch_ExplainHard(s);
    default: return pbScratch_Fail(s, status, "%s at time %.9g", pbStatus_Text(status), *w->time);
  }
}

// -1: all accelerations that were found are finite. An evaluation alone finds those of the first stage (with noslip two of them);
// in the others' places is what an earlier step left, perhaps one that failed.
static int first_bad_solution(const pbScratch *s, bool integrate) {
  const pbModel *m = s->model;
  int nv = m->nv, found = pb_stages(m) * nv;
  if (integrate) return pbScratch_FirstNotFinite(s->stages, pb_solutions(m) * nv);

  int bad = pbScratch_FirstNotFinite(s->stages, nv);
  return bad < 0 && pb_noslip(m) ? pbScratch_FirstNotFinite(s->stages + found, nv) : bad;
}

pbStatus pbScratch_Run(pbScratch *s, bool sense, bool integrate) {
  pbStatus status = s->variant->run(&s->w, s->stages, false, sense, integrate);
  if (status != pb_ok) return pbScratch_Explain(s, status);
  PB_ASSERT(s->w.ncon <= s->w.max_con && s->w.nrow <= s->w.max_row);
  PB_VALIDATE(rows_are_valid(&s->w));

  s->report.contacts = s->w.ncon;
  s->report.rows = s->w.nrow;
  s->report.iterations = s->w.iterations;
  s->report.residual = s->w.residual;
  pbScratch_ForgetGain(s);  // method impact notes its own after its flights

  // Notes that cost a look at contacts and rows.
  if (integrate && pb_hard(s->model)) pbScratch_NoteBounces(s);
  find_penetration(s);
  pbScratch_NoteSolve(s);
  if (integrate) PB_TRY(pbScratch_CheckStiffness(s));

  int nv = s->model->nv, bad = first_bad_solution(s, integrate);
  char name[160];
  if (bad < 0) return pb_ok;
  return pbScratch_Fail(s, pb_not_finite, "the acceleration %s is %g at time %.9g: a force or a parameter is beyond bounds",
                        pbState_DofName(s->model, "qacc", bad % nv, name, sizeof name), pbScratch_WithoutSign(s->stages[bad]),
                        *s->w.time);
}

void pbScratch_State(const pbScratch *s, double time, double *x) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  const pbWork_r *w = &s->w;

  x[at.time] = time;
  copy_or_clear(x + at.qpos, w->qpos, m->nq);
  copy_or_clear(x + at.qvel, w->qvel, m->nv);
  copy_or_clear(x + at.act, w->act, m->na);
  copy_or_clear(x + at.warm, w->qacc, m->nv);
}

int pbTape_Size(const pbModel *m) { return tape_policy(m) + pb_policyRecord(m) + pb_deformRecord(m); }
