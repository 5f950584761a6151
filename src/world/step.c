// The public step: scratch, state, forward evaluation.
#include <pullback/world.h>

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "math/vec.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "impact/impact.h"
#include "step/integrate.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "model/sphere.h"
#include "step/vjp.h"

// ---- state ----------------------------------------------------------------------------------------------------------
int pbModel_StateSize(const pbModel *m) { return state_layout(m).size; }

int pbModel_StateFieldCount(const pbModel *m) { return 5 + (m->deform ? pbDeform_FieldCount(m->deform) : 0); }

pbStateField pbModel_StateFieldAt(const pbModel *m, int index) {
  pbStateLayout s = state_layout(m);
  switch (index) {
    case 0: return (pbStateField){"time", s.time, 1};
    case 1: return (pbStateField){"qpos", s.qpos, m->nq};
    case 2: return (pbStateField){"qvel", s.qvel, m->nv};
    case 3: return (pbStateField){"act", s.act, m->na};
    case 4: return (pbStateField){"qacc_warmstart", s.warm, m->nv};
    default: return m->deform ? pbDeform_FieldAt(m->deform, index - 5, s.deform) : (pbStateField){NULL, 0, 0};
  }
}

static char *put_entry(const char *field, int i, const char *kind, const char *name, char *text, size_t size) {
  if (name && *name) snprintf(text, size, "%s[%d] (%s '%.100s')", field, i, kind, name);
  else snprintf(text, size, "%s[%d]", field, i);
  return text;
}

static char *put_dof(const pbModel *m, const char *field, int i, char *text, size_t size) {
  return put_entry(field, i, "joint", pbModel_Name(m, pb_objDof, i), text, size);
}

static char *put_activation(const pbModel *m, int i, char *text, size_t size) {
  int u = 0;
  while (u < m->nu && (m->actuator_actadr[u] < 0 || i >= m->actuator_actadr[u] + m->actuator_actnum[u])) u++;
  return put_entry("act", i, "actuator", pbModel_Name(m, pb_objActuator, u), text, size);
}

char *pbState_EntryName(const pbModel *m, int entry, char *text, size_t size) {
  pbStateLayout s = state_layout(m);
  if (entry >= s.deform) return pbDeform_EntryName(m->deform, entry - s.deform, text, size);
  if (entry >= s.warm) return put_dof(m, "qacc_warmstart", entry - s.warm, text, size);
  if (entry >= s.act) return put_activation(m, entry - s.act, text, size);
  if (entry >= s.qvel) return put_dof(m, "qvel", entry - s.qvel, text, size);
  snprintf(text, size, "time");
  if (entry < s.qpos) return text;
  int joint = m->njnt - 1;
  while (m->jnt_qposadr[joint] > entry - s.qpos) joint--;
  return put_entry("qpos", entry - s.qpos, "joint", pbModel_Name(m, pb_objJoint, joint), text, size);
}

char *pbState_TangentName(const pbModel *m, int entry, char *text, size_t size) {
  if (entry >= 2 * m->nv + m->na) return pbDeform_EntryName(m->deform, entry - 2 * m->nv - m->na, text, size);
  if (entry >= 2 * m->nv) return put_activation(m, entry - 2 * m->nv, text, size);
  bool velocity = entry >= m->nv;
  return put_dof(m, velocity ? "qvel" : "qpos", velocity ? entry - m->nv : entry, text, size);
}

pbStatus pbState_Init(pbContext *ctx, const pbModel *m, const double *theta, int key, double *x) {
  pbStateLayout s = state_layout(m);
  memset(x, 0, (size_t)s.size * sizeof(double));
  if (m->deform) pbDeform_Init(m->deform, x + s.deform);
  if (key < 0) {
    memcpy(x + s.qpos, theta + (m->qpos0 - m->theta0), (size_t)m->nq * sizeof(double));
    return pb_ok;
  }
  if (key >= m->nkey) return pbContext_Fail(ctx, pb_bad_argument, "keyframe %d: the model has %d keyframes", key, m->nkey);
  x[s.time] = m->key_time[key];
  memcpy(x + s.qpos, m->key_qpos + (size_t)key * (size_t)m->nq, (size_t)m->nq * sizeof(double));
  memcpy(x + s.qvel, m->key_qvel + (size_t)key * (size_t)m->nv, (size_t)m->nv * sizeof(double));
  memcpy(x + s.act, m->key_act + (size_t)key * (size_t)m->na, (size_t)m->na * sizeof(double));
  return pb_ok;
}

// Calls for each rotation of the state: its first quaternion entry and its first dof.
typedef struct rotation_walk {
  int joint, q, dof;
} rotation_walk;

static bool next_rotation(const pbModel *m, rotation_walk *r) {
  for (r->joint++; r->joint < m->njnt; r->joint++) {
    int type = m->jnt_type[r->joint], shift = type == pb_jntFree ? 3 : 0;
    if (type != pb_jntFree && type != pb_jntBall) continue;
    r->q = m->jnt_qposadr[r->joint] + shift;
    r->dof = m->jnt_dofadr[r->joint] + shift;
    return true;
  }
  return false;
}

// A step normalises quaternions of states, so it leaves them at length one; what it is given may have any length in range.
bool pbState_Readable(const pbModel *m, const double *x, char *text, size_t size) {
  pbStateLayout s = state_layout(m);
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    const double *q = x + s.qpos + r.q;
    double squared = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    if (squared >= 1e-12 && squared <= 1e12) continue;
    double length = pbSphere_Length(q, 4);
    if (isnan(squared) || !isfinite(length)) continue;  // that is another mistake
    char first[160];
    snprintf(text, size, "%s and the three entries behind it: a quaternion of length %.3g; states may have lengths from %g to %g",
             pbState_EntryName(m, s.qpos + r.q, first, sizeof first), length, PB_SPHERE_SHORTEST, PB_SPHERE_LONGEST);
    return false;
  }
  return true;
}

void pbState_Difference(const pbModel *m, const double *a, const double *b, double *out) {
  pbStateLayout s = state_layout(m);
  for (int j = 0; j < m->njnt; j++) {
    int n = m->jnt_type[j] == pb_jntBall ? 0 : m->jnt_type[j] == pb_jntFree ? 3 : 1;
    for (int k = 0; k < n; k++) out[m->jnt_dofadr[j] + k] = b[s.qpos + m->jnt_qposadr[j] + k] - a[s.qpos + m->jnt_qposadr[j] + k];
  }
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double qa[4], qb[4];
    quat_copy(qa, a + s.qpos + r.q), quat_copy(qb, b + s.qpos + r.q);
    quat_normalize(qa), quat_normalize(qb);
    quat_conj(qa, qa);
    quat_mul(qa, qa, qb);
    quat_log(out + r.dof, qa);
  }
  for (int i = 0; i < m->nv + m->na; i++) out[m->nv + i] = b[s.qvel + i] - a[s.qvel + i];
  for (int i = 0; i < m->deform_tangent; i++) out[2 * m->nv + m->na + i] = b[s.deform + i] - a[s.deform + i];
}

void pbState_Move(const pbModel *m, double *x, const double *tangent, double eps) {
  pbStateLayout s = state_layout(m);
  pbIntegrate_Position_r(m, x + s.qpos, tangent, eps);
  for (int i = 0; i < m->nv + m->na; i++) x[s.qvel + i] += eps * tangent[m->nv + i];
  for (int i = 0; i < m->deform_tangent; i++) x[s.deform + i] += eps * tangent[2 * m->nv + m->na + i];
}

// A tangent t of a rotation moves its quaternion by q (0, t) / 2.
void pbState_TangentFromAmbient(const pbModel *m, const double *x, const double *qpos_bar, double *dq_bar) {
  const double *q = x + 1;
  for (int j = 0; j < m->njnt; j++) {
    int n = m->jnt_type[j] == pb_jntBall ? 0 : m->jnt_type[j] == pb_jntFree ? 3 : 1;
    for (int k = 0; k < n; k++) dq_bar[m->jnt_dofadr[j] + k] = qpos_bar[m->jnt_qposadr[j] + k];
  }
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double u[4], t[4];
    quat_copy(u, q + r.q);
    quat_normalize(u);
    quat_conj(u, u);
    quat_mul(t, u, qpos_bar + r.q);
    for (int k = 0; k < 3; k++) dq_bar[r.dof + k] = 0.5 * t[1 + k];
  }
}

void pbState_AmbientFromTangent(const pbModel *m, const double *x, const double *dq_bar, double *qpos_bar) {
  const double *q = x + 1;
  for (int j = 0; j < m->njnt; j++) {
    int n = m->jnt_type[j] == pb_jntBall ? 0 : m->jnt_type[j] == pb_jntFree ? 3 : 1;
    for (int k = 0; k < n; k++) qpos_bar[m->jnt_qposadr[j] + k] = dq_bar[m->jnt_dofadr[j] + k];
  }
  for (rotation_walk r = {.joint = -1}; next_rotation(m, &r);) {
    double u[4], t[3];
    quat_copy(u, q + r.q);
    quat_normalize(u);
    v3_scale(t, dq_bar + r.dof, 2);
    quat_mulaxis(qpos_bar + r.q, u, t);
  }
}

// ---- scratch --------------------------------------------------------------------------------------------------------
enum { id_size = 3 };  // geom1, geom2, hit

// Cotangents, and what comes of them, of a row of a Jacobian of deformables.
static size_t jacobian_row(const pbModel *m) {
  return m->deform ? 2 * (size_t)pbModel_TangentSize(m) + (size_t)pb_controls(m) + (size_t)m->nsensordata : 0;
}

static pbStatus allocate(pbScratch *s, int contacts, const pbCapacity *capacity) {
  const pbModel *m = s->model;
  pbContext *ctx = s->ctx;
  const pbDeformCapacity room = {capacity ? capacity->stencils : 0, capacity ? capacity->matrix : 0};
  pbWork_r probe;
  void *block = pbContext_Alloc(ctx, pbWork_Carve_r(&probe, m, contacts, NULL) + 64);
  if (!block) return pb_no_memory;
  pbWork_Carve_r(&s->w, m, contacts, block);
  s->complex_work = pbContext_Alloc(ctx, pbJvp_Size(m, contacts));
  s->adjoint_one = pbContext_Alloc(ctx, s->variant->vjp_size(m, contacts, false));
  s->adjoint_lanes = pbContext_Alloc(ctx, s->variant->vjp_size(m, contacts, true));
  s->stages = pbContext_Alloc(ctx, (size_t)(pb_stages(m) * m->nv + 1) * sizeof(double));
  s->seeds = pbContext_Alloc(ctx, pb_lanesMost * (size_t)(4 * m->nv + 2 * m->na + m->nsensordata + m->nu + 1) * sizeof(double));
  s->row = pbContext_AllocArray(ctx, jacobian_row(m), sizeof(double));
  s->state = pbContext_Alloc(ctx, (size_t)pbModel_StateSize(m) * sizeof(double));
  size_t rows = (size_t)(contacts + m->topology->max_blocks + 1), n = (size_t)pbModel_TangentSize(m);
  s->events = pbContext_Alloc(ctx, 2 * rows * sizeof *s->events);
  s->event_numbers = pbContext_Alloc(ctx, (rows + 2 * n) * sizeof(double));
  s->event_columns = pbContext_Alloc(ctx, (pb_hard(m) ? pbEvents_Room(m) : 1) * sizeof(double));
  s->event_parent = pbContext_Alloc(ctx, rows * sizeof(int));
  s->ids = pbContext_Alloc(ctx, (size_t)(contacts + 1) * id_size * sizeof(int));
  s->ids_before = pbContext_Alloc(ctx, (size_t)(contacts + 1) * id_size * sizeof(int));
  s->theta_unit = pbContext_AllocArray(ctx, m->ntheta + 1, sizeof(double));
  s->theta_way = pbContext_AllocArray(ctx, m->ntheta + 1, sizeof(double));
  s->theta_aside = pbContext_Alloc(ctx, (size_t)(4 * m->topology->nsphere + 1) * sizeof(double));
  if (!s->complex_work || !s->adjoint_one || !s->adjoint_lanes || !s->stages || !s->seeds || !s->row || !s->state || !s->events ||
      !s->event_numbers || !s->event_columns || !s->event_parent || !s->ids || !s->ids_before || !s->theta_unit ||
      !s->theta_way || !s->theta_aside)
    return pb_no_memory;
  pbJvp_Carve(s->complex_work, m, contacts);
  s->variant->vjp_carve(s->adjoint_one, m, contacts, false);
  s->variant->vjp_carve(s->adjoint_lanes, m, contacts, true);
  if (m->contact.method == pb_contactImpact) PB_TRY(pbImpacts_Create(s, contacts));
  if (m->deform) PB_TRY(pbDeformWork_Create(ctx, m->deform, &room, &s->deform));
  if (m->deform && m->deform->nrider) PB_TRY(pbCouple_Create(s));
  if (pb_coupled(m)) s->deform->riders = &s->couple->riders;
  return pbScratch_InspectCreate(s);
}

enum { most_hard_contacts = 512 };  // memory grows with their square

static int default_contacts(const pbModel *m) {
  int most = m->topology->max_contacts;
  return pb_hard(m) && most > most_hard_contacts ? most_hard_contacts : most;
}

static void forget_gain(pbReport *report) {
  report->gains = 0, report->gain = 0;
  report->gaining[0] = report->gaining[1] = -1;
}

pbStatus pbScratch_Create(pbContext *ctx, const pbModel *m, const pbCapacity *capacity, pbScratch **scratch) {
  *scratch = NULL;
  if (capacity && capacity->stencils < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "a capacity of %d stencils; 0 means in keeping with the surfaces",
                          capacity->stencils);
  if (capacity && capacity->contacts < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "a capacity of %d contacts; 0 means what the model's pairs can make",
                          capacity->contacts);
  PB_TRY(pbModel_CheckContact(ctx, m));
  PB_TRY(pbModel_CheckDeform(ctx, m));
  int contacts = capacity && capacity->contacts > 0 ? capacity->contacts : default_contacts(m);
  if (m->contact.method == pb_contactImpact && contacts < PB_MAX_HITS) contacts = PB_MAX_HITS;  // it looks at pairs from afar
  if ((double)contacts * 16 * (m->nv + 32) > INT_MAX)  // counts of rows' entries are ints
    return pbContext_Fail(ctx, pb_no_memory, "out of memory for a scratch with %d contacts", contacts);
  pbScratch *s = pbContext_Alloc(ctx, sizeof *s);
  if (!s) return pbContext_Fail(ctx, pb_no_memory, "out of memory for a scratch");
  s->ctx = ctx;
  s->model = m;
  s->revision = m->revision;
  s->variant = pbVariant_Best();
  s->contacts_before = -1;
  s->report.approach = INFINITY;
  forget_gain(&s->report);
  s->report.penetrating[0] = s->report.penetrating[1] = -1;
  pbStatus status = allocate(s, contacts, capacity);
  if (status != pb_ok) {
    pbScratch_Destroy(s);
    return pbContext_Fail(ctx, status, "out of memory for a scratch with %d contacts", contacts);
  }
  *scratch = s;
  return pb_ok;
}

void pbScratch_Destroy(pbScratch *s) {
  if (!s) return;
  pbContext *ctx = s->ctx;
  pbScratch_InspectDestroy(s);
  pbImpacts_Destroy(s);
  pbCouple_Destroy(s);
  pbDeformWork_Destroy(s->deform);
  pbContext_Free(ctx, s->w.memory);
  pbContext_Free(ctx, s->complex_work);
  pbContext_Free(ctx, s->adjoint_one);
  pbContext_Free(ctx, s->adjoint_lanes);
  pbContext_Free(ctx, s->stages);
  pbContext_Free(ctx, s->seeds);
  pbContext_Free(ctx, s->row);
  pbContext_Free(ctx, s->state);
  pbContext_Free(ctx, s->events);
  pbContext_Free(ctx, s->event_numbers);
  pbContext_Free(ctx, s->event_columns);
  pbContext_Free(ctx, s->event_parent);
  pbContext_Free(ctx, s->ids);
  pbContext_Free(ctx, s->ids_before);
  pbContext_Free(ctx, s->theta_unit);
  pbContext_Free(ctx, s->theta_way);
  pbContext_Free(ctx, s->theta_aside);
  pbContext_Free(ctx, s);
}

bool pbScratch_Grow(pbScratch *s, pbStatus *status) {
  if (*status != pb_capacity || !s->deform || !s->deform->lacks) return false;
  pbStatus grown = pbDeformWork_Grow(s->deform);
  if (grown != pb_ok) {
    *status = pbScratch_Fail(s, grown, "%s", s->deform->error);
    return false;
  }
  s->report.grown++;
  return true;
}

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
// A theta like the last one, as a cheap look tells: finite, and with the same directions, which were of length one.
static bool as_before(const pbScratch *s, const double *theta) {
  return s->unit_before && isfinite(s->variant->sum(theta, s->model->ntheta)) && pbSphere_Same(s->model, theta, s->theta_unit);
}

// theta as kernels read it.
static pbStatus look_at(pbScratch *s, const double *theta) {
  char text[640];
  s->theta = theta;
  if (as_before(s, theta)) return pb_ok;
  s->unit_before = false;
  bool unit;
  if (!pbModel_Readable(s->model, theta, &unit, text, sizeof text)) return pbScratch_Fail(s, pb_bad_input, "%s", text);
  pbSphere_Normalize(s->model, theta, s->theta_unit);
  s->unit_before = unit;
  if (!unit) s->theta = s->theta_unit;
  return pb_ok;
}

static pbStatus check_state(pbScratch *s, const double *x) {
  char text[400];
  return pbState_Readable(s->model, x, text, sizeof text) ? pb_ok : pbScratch_Fail(s, pb_bad_input, "%s", text);
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
  PB_TRY(look_at(s, theta));
  s->trusted = theta;
  return pb_ok;
}

pbStatus pbScratch_Enter(pbScratch *s, const pbModel *m, const double **theta) {
  PB_TRY(check_model(s, m));
  if (*theta == s->theta_unit) return pb_ok;  // of a call that came through here
  if (!s->trusted || *theta != s->trusted) {
    s->trusted = NULL;
    PB_TRY(look_at(s, *theta));
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

static void load(double *to, const double *from, int n) {
  if (from) memcpy(to, from, (size_t)n * sizeof(double));
  else memset(to, 0, (size_t)n * sizeof(double));
}

void pbScratch_Load(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  pbWork_r *w = &s->w;
  pbWork_Place_r(w, s->place);
  s->place = NULL;
  par_view(&w->p, m, theta);
  w->time = x[at.time];
  load(w->qpos, x + at.qpos, m->nq);
  load(w->qvel, x + at.qvel, m->nv);
  load(w->act, x + at.act, m->na);
  load(w->qacc_warmstart, x + at.warm, m->nv);
  load(w->ctrl, input ? input->ctrl : NULL, m->nu);
  load(w->qfrc_applied, input ? input->qfrc : NULL, m->nv);
  load(w->xfrc_applied, input ? input->xfrc : NULL, 6 * m->nbody);
}

// ---- forward --------------------------------------------------------------------------------------------------------
// Contacts that appeared or went since the last step, both lists in the order of the candidates. With an onset they fade in: none.
static void count_events(pbScratch *s) {
  int n = s->model->contact.onset > 0 ? 0 : s->w.ncon, *t = s->ids;
  for (int i = 0; i < n; i++) {
    const pbContact_r *c = s->w.contact + i;
    t[id_size * i] = c->geom1, t[id_size * i + 1] = c->geom2, t[id_size * i + 2] = c->hit;
  }
  s->report.onsets = s->report.releases = 0;
  if (s->contacts_before >= 0) {
    int same = 0;
    for (int i = 0, j = 0; i < n; i++) {
      for (int k = j; k < s->contacts_before; k++) {
        if (memcmp(t + id_size * i, s->ids_before + id_size * k, id_size * sizeof(int))) continue;
        same++, j = k + 1;
        break;
      }
    }
    s->report.onsets = n - same;
    s->report.releases = s->contacts_before - same;
  }
  s->contacts_before = n;
  s->ids = s->ids_before;
  s->ids_before = t;
}

static void find_penetration(pbScratch *s) {
  pbReport *r = &s->report;
  r->penetration = 0, r->penetrating[0] = r->penetrating[1] = -1;
  for (int i = 0; i < s->w.ncon; i++) {
    const pbContact_r *c = s->w.contact + i;
    if (!(-c->dist > r->penetration)) continue;
    r->penetration = -c->dist, r->penetrating[0] = c->geom1, r->penetrating[1] = c->geom2;
  }
}

static double without_sign(double x) { return isnan(x) ? (double)NAN : x; }  // "-nan" is no help in a message

// -1: all are finite.
static int first_not_finite(const double *x, int n) {
  bool good = true;
  for (int i = 0; i < n; i++) good &= x[i] - x[i] == 0;
  if (good) return -1;
  int i = 0;
  while (isfinite(x[i])) i++;
  return i;
}

pbStatus pbScratch_Explain(pbScratch *s, pbStatus status) {
  const pbWork_r *w = &s->w;
  switch (status) {
    case pb_capacity:
      return pbScratch_Fail(s, status, "more than %d contacts at time %.9g%s", w->max_con, w->time,
                            pb_hard(s->model) ? " (hard methods hold 512, or the capacity given)" : "");
    case pb_singular: return pbScratch_ExplainSingular(s);
    case pb_no_convergence: return pbScratch_ExplainHard(s);
    default: return pbScratch_Fail(s, status, "%s at time %.9g", pbStatus_Text(status), w->time);
  }
}

pbStatus pbScratch_Run(pbScratch *s, bool sense, bool integrate) {
  pbStatus status = s->variant->run(&s->w, s->stages, false, sense, integrate);
  if (status != pb_ok) return pbScratch_Explain(s, status);
  s->report.contacts = s->w.ncon;
  s->report.rows = s->w.nrow;
  s->report.iterations = s->w.iterations;
  s->report.residual = s->w.residual;
  forget_gain(&s->report);  // of impacts, which note theirs after their flights
  find_penetration(s);
  pbScratch_NoteSolve(s);
  if (integrate) PB_TRY(pbScratch_CheckStiffness(s));
  int nv = s->model->nv, bad = first_not_finite(s->stages, pb_stages(s->model) * nv);
  char name[160];
  if (bad < 0) return pb_ok;
  return pbScratch_Fail(s, pb_not_finite, "the acceleration %s is %g at time %.9g: a force or a parameter is beyond bounds",
                        put_dof(s->model, "qacc", bad % nv, name, sizeof name), without_sign(s->stages[bad]), s->w.time);
}

void pbScratch_State(const pbScratch *s, double time, double *x) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  const pbWork_r *w = &s->w;
  x[at.time] = time;
  load(x + at.qpos, w->qpos, m->nq);
  load(x + at.qvel, w->qvel, m->nv);
  load(x + at.act, w->act, m->na);
  load(x + at.warm, w->qacc, m->nv);
}

// The state after a step to s->state.
static pbStatus advance(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense) {
  if (s->impacts) return pbImpacts_Step(s, theta, x, input, sense, s->state);
  if (pb_coupled(s->model)) return pbCouple_Step(s, theta, x, input, sense, s->state);
  pbScratch_Load(s, theta, x, input);
  PB_TRY(pbScratch_Run(s, sense, true));
  pbScratch_State(s, x[state_layout(s->model).time] + s->w.p.timestep[0], s->state);
  return pb_ok;
}

pbStatus pbStep_Forward(const pbModel *m, const double *theta, double *x, const pbInput *input, pbScratch *s,
                        double *sensordata) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(check_state(s, x));
  pbStateLayout at = state_layout(m);
  double *next = s->state;
  PB_TRY(advance(s, theta, x, input, sensordata != NULL));
  if (pb_coupled(m)) pbScratch_NoteDeform(s);
  else if (m->deform) PB_TRY(pbScratch_DeformStep(s, theta, x, input, next));
  int bad = first_not_finite(next, at.size);
  char name[160];
  if (bad >= 0)
    return pbScratch_Fail(s, pb_not_finite, "%s becomes %g after time %.9g: the state grows beyond bounds",
                          pbState_EntryName(m, bad, name, sizeof name), without_sign(next[bad]), x[at.time]);
  if (!s->impacts) count_events(s);
  memcpy(x, next, (size_t)at.size * sizeof(double));
  if (sensordata) load(sensordata, s->w.sensordata, m->nsensordata);
  return pb_ok;
}

pbStatus pbStep_Observe(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s,
                        double *sensordata) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(check_state(s, x));
  pbScratch_Load(s, theta, x, input);
  if (s->impacts) pbImpacts_Forget(s);
  PB_TRY(pbScratch_Run(s, true, false));
  if (sensordata) load(sensordata, s->w.sensordata, m->nsensordata);
  return pb_ok;
}

// ---- tape -----------------------------------------------------------------------------------------------------------
enum { no_revision = -1 };

int pbTape_Size(const pbModel *m) {
  return tape_stages(m) + pb_stages(m) * m->nv + (m->contact.method == pb_contactImpact) + pb_deformRecord(m);
}

void pbTape_Record(const pbModel *m, const double *x_before, const pbScratch *s, double *record) {
  int stages = tape_stages(m);
  memcpy(record, x_before, (size_t)pbModel_StateSize(m) * sizeof(double));
  record[tape_revision(m)] = s->model == m ? s->revision : no_revision;
  if (pbScratch_Stale(s, m)) return;  // no step of this model can have succeeded with it
  memcpy(record + stages, s->stages, (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  if (s->impacts) record[stages + pb_stages(m) * m->nv] = pbImpacts_Count(s);
  if (m->deform) pbScratch_DeformRecord(s, record + pbTape_Size(m) - pb_deformRecord(m));
}
