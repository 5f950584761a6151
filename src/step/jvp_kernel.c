// Forward derivatives by complex step of the same source: value in the real part, derivative in the imaginary part.
// Tests: tests/conformance/test_step.c.
#include "model/exposed.h"
#include "model/joint.h"
#include "number/number.h"

#if PB_IS_COMPLEX
#include <string.h>

#include "base/assert.h"
#include "base/context.h"

#include "eval/contact.h"
#include "eval/row.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/policy_data.h"
#include "model/sphere.h"
#include "model/state_layout.h"
#include "step/integrate.h"
#include "step/jvp.h"
#include "step/jvp_parts.h"
#include "step/kernels.h"

// Parameters of the model itself, which is all that kernels read: those of a policy are its own, at the end.
static size_t own_params(const pbModel *m) {
  bool last = m->policy && m->policy->theta + m->policy->theta_size == m->ntheta;
  return last ? m->policy->theta : m->ntheta;
}

// The handle lies at the start of the block, theta behind it.
static size_t handle_bytes(const pbModel *m) {
  return (sizeof(pbJvp) + 63 + (own_params(m) + (size_t)m->nv) * sizeof(num) + 63) & ~(size_t)63;
}

pbStatus pbJvp_Create(pbContext *ctx, const pbModel *m, pbRoom room, void **block) {
  pbJvp *j = *block = pbContext_Alloc(ctx, handle_bytes(m));
  if (!j) return pb_no_memory;
  j->second = NULL;
  j->theta = (num *)((char *)j + ((sizeof(pbJvp) + 63) & ~(size_t)63));
  j->couple = j->theta + own_params(m);
  PB_ASSERT((char *)(j->couple + m->nv) <= (char *)j + handle_bytes(m));

  pbStatus status = pbWork_Open_c(&j->w, ctx, m, room);
  if (status == pb_ok) return pb_ok;
  pbJvp_Destroy(ctx, j);
  *block = NULL;
  return status;
}

void pbJvp_Destroy(pbContext *ctx, void *block) {
  pbJvp *j = block;
  if (!j) return;
  PB_ASSERT(!j->second);
  pbWork_Close_c(&j->w);
  pbContext_Free(ctx, j);
}

// ---- scale ----------------------------------------------------------------------------------------------------------
static double largest_entry(double most, const double *v, size_t n) {
  if (!v) return most;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
  return most;
}

// The imaginary step is right for directions of about unit size, so any other is brought there by a power of two, which
// changes no bit of what comes out.
void pbJvp_SetScale(pbJvp *j, const pbDirection *d) {
  const pbModel *m = j->w.m;
  double most = largest_entry(0, d->x, (size_t)pbModel_TangentSize(m));
  int exponent = 0;
  most = largest_entry(most, d->ctrl, (size_t)m->nu);
  most = largest_entry(most, d->qfrc, (size_t)m->nv);
  most = largest_entry(most, d->xfrc, 6 * (size_t)m->nbody);
  most = largest_entry(most, d->mocap_pos, 3 * (size_t)m->nmocap);
  most = largest_entry(most, d->mocap_rot, 3 * (size_t)m->nmocap);
  most = largest_entry(most, d->mocap_vel, 6 * (size_t)m->nmocap);
  most = largest_entry(most, d->theta, own_params(m));

  if (isfinite(most)) frexp(most, &exponent);
  if (exponent > 1000) exponent = 1000;  // both factors are normal numbers
  if (exponent < -1000) exponent = -1000;

  j->shrink = ldexp(1, -exponent);
  j->grow = ldexp(1, exponent);
  PB_ASSERT(j->shrink * j->grow == 1);
}

// ---- in -------------------------------------------------------------------------------------------------------------
// out = value + i step slope, either of which may be missing.
void pbJvp_Blend(const pbJvp *j, num *out, const double *value, const double *slope, int n) {
  for (int i = 0; i < n; i++) out[i] = num_make(value ? value[i] : 0, slope ? pbJvp_StepIn(j, slope[i]) : 0);
}

// Quaternions and axes move on their unit spheres: take the radial part out of the imaginary parts.
void pbJvp_Project(num *v, int rows, int cols) {
  for (int r = 0; r < rows; r++, v += cols) {
    double s = 0, n = 0;
    for (int c = 0; c < cols; c++) {
      s += re(v[c]) * im(v[c]);
      n += re(v[c]) * re(v[c]);
    }
    if (!(n > 0)) continue;
    for (int c = 0; c < cols; c++) v[c] = num_make(re(v[c]), im(v[c]) - re(v[c]) * s / n);
  }
}

void pbJvp_LoadTheta(pbJvp *j, const double *theta, const double *direction) {
  const pbModel *m = j->w.m;
  size_t count = own_params(m);

  for (size_t i = 0; i < count; i++) j->theta[i] = num_make(theta[i], direction ? pbJvp_StepIn(j, direction[i]) : 0);
  if (direction) {
    const pbTopology *t = j->w.t;
    for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++) {
      PB_ASSERT(r->at + r->size <= count);
      pbJvp_Project(j->theta + r->at, 1, r->size);
    }
  }
  par_view(&j->w.p, m, j->theta);
  exposed_view(m, j->theta, j->w.own_hull, j->w.own_terrain, j->w.own_real);
}

// q := q exp(r), the rotation r the imaginary part of (1, i r / 2).
static void rotate(const pbJvp *j, num q[4], const double r[3]) {
  num rotation[4] = {1};
  for (int i = 0; i < 3; i++) rotation[1 + i] = num_make(0, 0.5 * pbJvp_StepIn(j, r[i]));
  quat_mul(q, q, rotation);
}

// qpos with a tangent: rotations by q (1, i t / 2); q of its length, so that kinematics gets the bits that the plain program got.
void pbJvp_LoadPosition(pbJvp *j, const double *qpos, const double *tangent) {
  const pbModel *m = j->w.m;
  pbJvp_Blend(j, j->w.qpos, qpos, NULL, m->nq);
  if (!tangent) return;

  for (int k = 0; k < m->njnt; k++) {
    num *q = j->w.qpos + m->jnt_qposadr[k];
    const double *t = tangent + m->jnt_dofadr[k];
    int type = m->jnt_type[k], n = pbJoint_PlainCount(type);
    for (int i = 0; i < n; i++) q[i] = num_make(re(q[i]), pbJvp_StepIn(j, t[i]));
    if (!pbJoint_HasRotation(type)) continue;

    q += n;
    t += n;
    rotate(j, q, t);
  }
}

// Poses of mocap bodies, after theta: the model's move with it.
void pbJvp_LoadMocap(pbJvp *j, const pbInput *input, const pbDirection *d) {
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  const double *pos = input ? input->mocap_pos : NULL, *quat = input ? input->mocap_quat : NULL;
  const double none[3] = {0};
  w->mocap_moves = false;
  if (!m->nmocap) return;

  // A body that rests now may still be set in motion by the direction.
  const double *vel = input ? input->mocap_vel : NULL;
  pbJvp_Blend(j, w->mocap_vel, vel, d->mocap_vel, 6 * m->nmocap);
  w->mocap_moves = vel || d->mocap_vel;

  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;
    num *x = w->mocap_pos + 3 * k, *q = w->mocap_quat + 4 * k;

    if (pos) pbJvp_Blend(j, x, pos + 3 * k, NULL, 3);
    else v3_copy(x, w->p.body_pos + 3 * b);
    if (quat) pbJvp_Blend(j, q, quat + 4 * k, NULL, 4);
    else quat_copy(q, w->p.body_quat + 4 * b);

    const double *along = d->mocap_pos ? d->mocap_pos + 3 * k : none;
    for (int i = 0; i < 3; i++) x[i] += num_make(0, pbJvp_StepIn(j, along[i]));
    if (d->mocap_rot) rotate(j, q, d->mocap_rot + 3 * k);
  }
}

// ---- out ------------------------------------------------------------------------------------------------------------
void pbJvp_Imaginary(const pbJvp *j, double *out, const num *x, int n) {
  if (!out) return;
  for (int i = 0; i < n; i++) out[i] = pbJvp_StepOut(j, im(x[i]));
}

// Tangent of the state after the step; a rotation's is twice the vector part of conj(q) dq.
static void read_next(const pbJvp *j, double *next) {
  const pbModel *m = j->w.m;
  for (int k = 0; k < m->njnt; k++) {
    const num *q = j->w.qpos + m->jnt_qposadr[k];
    double *t = next + m->jnt_dofadr[k];
    int type = m->jnt_type[k], n = pbJoint_PlainCount(type);
    pbJvp_Imaginary(j, t, q, n);
    if (!pbJoint_HasRotation(type)) continue;

    q += n;
    t += n;
    double a[4] = {re(q[0]), -re(q[1]), -re(q[2]), -re(q[3])}, d[4] = {im(q[0]), im(q[1]), im(q[2]), im(q[3])};
    t[0] = pbJvp_StepOut(j, 2 * (a[0] * d[1] + a[1] * d[0] + a[2] * d[3] - a[3] * d[2]));
    t[1] = pbJvp_StepOut(j, 2 * (a[0] * d[2] - a[1] * d[3] + a[2] * d[0] + a[3] * d[1]));
    t[2] = pbJvp_StepOut(j, 2 * (a[0] * d[3] + a[1] * d[2] - a[2] * d[1] + a[3] * d[0]));
  }

  pbJvp_Imaginary(j, next + m->nv, j->w.qvel, m->nv);
  pbJvp_Imaginary(j, next + 2 * m->nv, j->w.act, m->na);
}

// Controls of all stages of Runge-Kutta; later ones are those of the start where the step does not say.
static void load_stages(pbJvp *j, const pbStepRecord *step) {
  num *rows = j->w.rk_ctrl, *ctrl = j->w.ctrl;
  int nu = j->w.m->nu;
  memcpy(rows, ctrl, (size_t)nu * sizeof(num));
  if (step->ctrl_later) {
    pbJvp_Blend(j, rows + nu, step->ctrl_later, step->ctrl_later_tangent, 2 * nu);
    return;
  }
  memcpy(rows + nu, ctrl, (size_t)nu * sizeof(num));
  memcpy(rows + 2 * nu, ctrl, (size_t)nu * sizeof(num));
}

void pbJvp_Load(pbJvp *j, const pbStepRecord *step, const pbDirection *d) {
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  const pbInput *input = step->input;
  const double *x = step->record;
  pbStateLayout at = state_layout(m);

  // The state, then inputs.
  pbJvp_SetScale(j, d);
  pbJvp_LoadTheta(j, step->theta, d->theta);
  pbJvp_LoadPosition(j, x + at.qpos, d->x);
  pbJvp_Blend(j, w->qvel, x + at.qvel, d->x ? d->x + m->nv : NULL, m->nv);
  pbJvp_Blend(j, w->act, x + at.act, d->x ? d->x + 2 * m->nv : NULL, m->na);

  pbJvp_Blend(j, w->ctrl, input ? input->ctrl : NULL, d->ctrl, m->nu);
  if (pb_staged(m)) load_stages(j, step);
  pbJvp_Blend(j, w->qfrc_applied, input ? input->qfrc : NULL, d->qfrc, m->nv);
  pbJvp_Blend(j, w->xfrc_applied, input ? input->xfrc : NULL, d->xfrc, 6 * m->nbody);
  pbJvp_LoadMocap(j, input, d);
  *w->time = x[at.time];

  // What a coupled step adds to the objective.
  w->couple_S = j->couple_S;
  if (w->couple_S) {
    pbJvp_Blend(j, j->couple, j->couple_g, j->couple_g_tangent, m->nv);
    w->couple_g = j->couple;
    w->couple_at = j->couple_at;
  }
}

pbStatus pbJvp_Run(void *block, const pbStepRecord *step, double *stages, const pbDirection *d, bool integrate,
                   const pbStepTangent *out) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  bool sense = out->sensordata || out->xpos || out->site_xpos;
  pbJvp_Load(j, step, d);
  PB_TRY(pbStep_Run_c(w, stages, true, sense, integrate));

  // Out come imaginary parts.
  if (out->next) read_next(j, out->next);
  pbJvp_Imaginary(j, out->sensordata, w->sensordata, m->nsensordata);
  pbJvp_Imaginary(j, out->xpos, w->observed_xpos, 3 * m->nbody);
  pbJvp_Imaginary(j, out->site_xpos, w->observed_site, 3 * m->nsite);
  return pb_ok;
}

void pbJvp_Sense(void *block, const pbStepRecord *step, const pbDirection *d, double *tangent) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  pbJvp_Load(j, step, d);
  pbObserve_Sense_c(w);
  w->sensed = false;  // what comes next begins anew
  pbJvp_Imaginary(j, tangent, w->observation, w->m->policy->observing);
}

void pbJvp_KnowForces(void *block, const pbFound *found) {
  pbJvp *j = block;
  j->w.dual.known = found;
}

void pbJvp_Couple(void *block, const double *S, const double *g, const double *g_tangent, const double *at) {
  pbJvp *j = block;
  j->couple_S = S;
  j->couple_g = g;
  j->couple_g_tangent = g_tangent;
  j->couple_at = at;
}

void pbJvp_Acceleration(const void *block, double *tangent) {
  const pbJvp *j = block;
  pbJvp_Imaginary(j, tangent, j->w.qacc, j->w.m->nv);
}

void pbJvp_Stages(const void *block, double *tangents) {
  const pbJvp *j = block;
  pbJvp_Imaginary(j, tangents, j->w.rk_a, 3 * j->w.m->nv);
}

void pbJvp_Distances(const void *block, double *distances) {
  const pbJvp *j = block;
  for (int k = 0; k < j->w.nrow; k++) distances[k] = pbJvp_StepOut(j, im(j->w.row[k].pos[0] - j->w.row[k].margin));
}

// ---- what else is known of a run ------------------------------------------------------------------------------------------
// Forces of the rows of contacts, as pbScratch_Field has them: of each contact six numbers.
static void contact_forces(const pbJvp *j, double *out) {
  const pbWork_c *w = &j->w;
  memset(out, 0, 6 * (size_t)w->ncon * sizeof *out);

  for (int k = 0; k < w->nrow; k++) {
    const pbRow_c *r = w->row + k;
    if (r->kind != pb_rowContact) continue;
    PB_ASSERT(r->dim <= 6 && r->contact >= 0 && r->contact < w->ncon);
    pbJvp_Imaginary(j, out + 6 * r->contact, r->f, r->dim);
  }
}

static bool contact_field(const pbJvp *j, const char *name, double *out) {
  const pbWork_c *w = &j->w;
  if (!strcmp(name, "contact_force")) {
    contact_forces(j, out);
    return true;
  }

  bool dist = !strcmp(name, "contact_dist"), pos = !strcmp(name, "contact_pos"), frame = !strcmp(name, "contact_frame");
  for (int i = 0; i < w->ncon; i++) {
    const pbContact_c *c = w->contact + i;
    if (dist) pbJvp_Imaginary(j, out + i, &c->dist, 1);
    if (pos) pbJvp_Imaginary(j, out + 3 * i, c->pos, 3);
    if (frame) pbJvp_Imaginary(j, out + 9 * i, c->frame, 9);
  }
  return dist || pos || frame;
}

bool pbJvp_Field(void *block, const char *name, double *out) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  if (!strncmp(name, "site_", 5)) pbStage_AllSites_c(&w->mechanism);
  if (!strncmp(name, "geom_", 5)) pbStage_AllGeoms_c(&w->mechanism);

  const struct {
    const char *name;
    const num *values;
    int count;
  } fields[] = {
      {"xpos", w->xpos, 3 * m->nbody},
      {"xquat", w->xquat, 4 * m->nbody},
      {"xmat", w->xmat, 9 * m->nbody},
      {"xipos", w->xipos, 3 * m->nbody},
      {"ximat", w->ximat, 9 * m->nbody},
      {"xanchor", w->xanchor, 3 * m->njnt},
      {"xaxis", w->xaxis, 3 * m->njnt},
      {"geom_xpos", w->geom_xpos, 3 * m->ngeom},
      {"geom_xmat", w->geom_xmat, 9 * m->ngeom},
      {"site_xpos", w->site_xpos, 3 * m->nsite},
      {"site_xmat", w->site_xmat, 9 * m->nsite},
      {"qacc", w->qacc, m->nv},
      {"qfrc_actuator", w->qfrc_actuator, m->nv},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (strcmp(fields[i].name, name)) continue;
    pbJvp_Imaginary(j, out, fields[i].values, fields[i].count);
    return true;
  }
  return contact_field(j, name, out);
}

#endif
