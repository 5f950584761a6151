// The energy ledger (include/pullback/ledger.h): work of every kind of force during the step that a scratch has just made, and
// the energy of a state. Tests: tests/unit/test_ledger.c.
#include <pullback/ledger.h>

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "bodies/actuators.h"
#include "eval/row.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/damping.h"
#include "multibody/energy.h"
#include "multibody/fluid.h"
#include "multibody/kink.h"
#include "multibody/polynomial.h"
#include "multibody/spatial.h"
#include "step/integrate.h"
#include "step/scratch.h"

// ---- energy of a state ----------------------------------------------------------------------------------------------
static double potential_energy(const pbWork_r *w) {
  return pbEnergy_Gravity_r(&w->mechanism, true) + pbEnergy_Springs_r(&w->mechanism);  // what cannot move is no part of it
}

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// ---- work of a step -------------------------------------------------------------------------------------------------
// A velocity that forces are multiplied with and the time that they act; change: the velocities' over the step, with which
// forces treated implicitly grew, NULL where none are.
typedef struct Motion {
  const double *velocity, *change;
  double time;
} Motion;

static double work_of(const pbWork_r *w, const double *force, const Motion *by) {
  return by->time * dot(force, by->velocity, w->m->nv);
}

static double along(const int *dofs, const double *row, int n, const double *v) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += row[i] * v[dofs[i]];
  return sum;
}

static double moment_along(const pbWork_r *w, int u, const double *v) {
  int at = w->mom_start[u];
  PB_ASSERT(u >= 0 && u < w->m->nu && at <= w->mom_start[u + 1]);
  return along(w->mom_dofs + at, w->mom + at, w->mom_start[u + 1] - at, v);
}

static bool fast(const pbWork_r *w) { return w->m->integrator == pb_intImplicitfast; }

// Each actuator as it acted: implicitfast adds the slope of its force by the velocity.
static double actuator_work(const pbWork_r *w, int u, const Motion *by, pbLedger *l) {
  double force = w->actuator_force[u];

  // With the slope it is the force at the velocity after the step.
  if (by->change && fast(w)) force += pbActuator_Slope_r(&w->mechanism, u) * moment_along(w, u, by->change);
  if (fabs(force) > l->force) {
    l->force = fabs(force);
    l->force_actuator = u;
  }

  return by->time * force * moment_along(w, u, by->velocity);
}

// Their sum is that of their forces on the joints, whose limits may hold it below that of the actuators.
static void add_actuators(const pbWork_r *w, const Motion *by, pbLedger *l) {
  double total = work_of(w, w->qfrc_actuator, by), each = 0, positive = 0;
  if (w->m->disableflags & pb_disActuation) return;

  for (int u = 0; u < w->m->nu; u++) {
    double work = actuator_work(w, u, by, l);
    each += work;
    positive += fmax(work, 0);
    if (w->m->actuator_servo[u]) total += work;  // of rows, not in qfrc_actuator

    // What implicitfast adds to the forces on the joints.
    if (by->change && fast(w))
      total +=
          by->time * pbActuator_Slope_r(&w->mechanism, u) * moment_along(w, u, by->change) * moment_along(w, u, by->velocity);
  }

  l->actuators += total;
  l->delivered += fmax(positive + total - each, 0);
  l->power = fmax(l->power, fabs(total) / by->time);
}

// What stands in qfrc_smooth beside bias, passive forces and actuators; and gravity compensation that no actuator makes.
static void add_applied(const pbWork_r *w, const Motion *by, pbLedger *l) {
  const pbModel *m = w->m;
  double work = 0;

  for (int i = 0; i < m->nv; i++) {
    double passive = w->qfrc_spring[i] + w->qfrc_damper[i] + w->qfrc_fluid[i];
    work += by->time * by->velocity[i] * (w->qfrc_smooth[i] + w->qfrc_bias[i] - w->qfrc_actuator[i] - passive);
  }

  l->applied += work;
  l->delivered += fmax(work, 0);
}

// Dampers as they acted: Euler those of joints, implicitfast also those of tendons, with the slope by the velocity.
static double implicit_dampers(const pbWork_r *w, const Motion *by) {
  const pbModel *m = w->m;
  double work = 0, c[3];
  if (!w->damped || (m->disableflags & pb_disDamper)) return 0;

  // f(v + change) = f(v) + slope change, as the integrator's matrix has it.
  for (int i = 0; i < m->nv; i++) {
    pbDof_Damping_r(&w->mechanism, i, c);
    work -= by->time * by->velocity[i] * pb_polynomialSlope(c, w->v0[i], true) * by->change[i];
  }

  for (int k = 0; fast(w) && k < m->ntendon; k++) {
    int at = w->ten_start[k], n = w->ten_start[k + 1] - at;
    pbTendon_Damping_r(&w->mechanism, k, c);
    double slope = pb_polynomialSlope(c, w->ten_velocity[k], true);
    work -= by->time * slope * along(w->ten_dofs + at, w->ten_J + at, n, by->change) *
            along(w->ten_dofs + at, w->ten_J + at, n, by->velocity);
  }

  return work;
}

// Velocity of a body by velocities of the degrees of freedom.
static void body_motion(const pbWork_r *w, int body, const double *v, double X[6]) {
  PB_ASSERT(body > 0 && body < w->m->nbody);
  memset(X, 0, 6 * sizeof *X);
  for (int i = w->t->body_dofend[body]; i >= 0; i = w->m->dof_parentid[i]) {
    for (int k = 0; k < 6; k++) X[k] += w->S[6 * i + k] * v[i];
  }
}

static double implicit_fluid(const pbWork_r *w, const Motion *by) {
  double work = 0;
  if (!fast(w) || !w->has_fluid) return 0;

  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || w->p.body_mass[b] < 1e-15) continue;
    double B[36] = {0}, X[6], Y[6];

    // The body's damping between both motions of the body.
    pbFluid_Damping_r(&w->mechanism, b, B);
    body_motion(w, b, by->velocity, X);
    body_motion(w, b, by->change, Y);
    for (int r = 0; r < 6; r++) work += by->time * X[r] * dot(B + 6 * r, Y, 6);
  }

  return work;
}

static void add_passive(const pbWork_r *w, const Motion *by, pbLedger *l) {
  l->dampers -= work_of(w, w->qfrc_damper, by);
  l->fluid -= work_of(w, w->qfrc_fluid, by);

  // RK4 treats nothing implicitly.
  if (!by->change) return;
  l->dampers -= implicit_dampers(w, by);
  l->fluid -= implicit_fluid(w, by);
}

// Forces of constraints by the velocity of their rows.
static double row_work(const pbWork_r *w, const pbRow_r *r, const Motion *by) {
  double work = 0;
  PB_ASSERT(r->dofs + r->n <= w->ndofs_used && r->J + r->dim * r->n <= w->nJ_used);
  for (int k = 0; k < r->dim; k++)
    work += by->time * r->f[k] * along(w->row_dofs + r->dofs, w->row_J + r->J + k * r->n, r->n, by->velocity);
  return work;
}

static void add_rows(const pbWork_r *w, const Motion *by, pbLedger *l) {
  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    double taken = -row_work(w, r, by);

    switch (r->kind) {
      case pb_rowEquality: l->equalities += taken; break;
      case pb_rowFriction: l->friction += taken; break;
      case pb_rowServo: break;  // an actuator's
      case pb_rowLimit: l->limits += taken; break;
      case pb_rowContact: l->contacts += taken; break;
    }
  }
}

static void add_motion(const pbWork_r *w, const Motion *by, pbLedger *l) {
  add_actuators(w, by, l);
  add_applied(w, by, l);
  add_passive(w, by, l);
  add_rows(w, by, l);
}

static void add_stages(pbScratch *s, pbLedger *l) {
  pbWork_r *w = &s->w;
  for (int k = 0; k < 4; k++) {
    // The step's own solutions are there again, so nothing is iterated, and nothing can fail that did not.
    pbStatus status = pbStep_Stage_r(w, s->stages, k, false);
    PB_ASSERT(status == pb_ok);
    (void)status;
    add_motion(w, &(Motion){w->qvel, NULL, pb_rkWeight[k] * w->p.timestep[0]}, l);
  }
}

// Velocities have moved on from v0, and all else of the evaluation is of the state before the step.
static void add_step(pbWork_r *w, pbLedger *l) {
  double h = w->p.timestep[0], *mean = w->tmp, *change = w->step;
  for (int i = 0; i < w->m->nv; i++) {
    mean[i] = (w->v0[i] + w->qvel[i]) / 2;
    change[i] = w->qvel[i] - w->v0[i];
  }

  add_motion(w, &(Motion){mean, change, h}, l);
}

void pbLedger_Add(pbScratch *s, pbLedger *l) {
  PB_ASSERT(!s->impacts && !s->deform);
  l->time += s->w.p.timestep[0];

  if (s->model->integrator == pb_intRK4) add_stages(s, l);
  else add_step(&s->w, l);
}

// ---- the whole ------------------------------------------------------------------------------------------------------
static pbStatus measure(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s,
                        double *kinetic, double *potential) {
  PB_TRY(pbStep_Observe(m, theta, x, input, s, NULL));

  // The mass matrix and the positions of that evaluation.
  *kinetic = pbEnergy_Kinetic_r(&s->w.mechanism);
  *potential = potential_energy(&s->w);
  return pb_ok;
}

pbStatus pbLedger_Begin(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s, pbLedger *l) {
  double potential;

  if (m->deform) return pbScratch_Fail(s, pb_unsupported, "no energy ledger is kept of worlds with deformables");
  if (s->impacts)
    return pbScratch_Fail(s, pb_unsupported,
                          "no energy ledger is kept with contact method impact: velocities jump within a step");

  *l = (pbLedger){.force_actuator = -1};
  PB_TRY(measure(m, theta, x, input, s, &l->begin_kinetic, &potential));
  l->begin = l->begin_kinetic + potential;
  return pb_ok;
}

double pbLedger_Taken(const pbLedger *l) { return l->dampers + l->fluid + l->friction + l->limits + l->equalities + l->contacts; }

pbStatus pbLedger_End(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s, pbLedger *l) {
  double kinetic, potential;
  PB_TRY(measure(m, theta, x, input, s, &kinetic, &potential));

  l->kinetic = kinetic - l->begin_kinetic;
  l->potential = potential - (l->begin - l->begin_kinetic);
  l->remainder = l->kinetic + l->potential + pbLedger_Taken(l) - l->actuators - l->applied;
  return pb_ok;
}

double pbLedger_Gap(const pbLedger *l) {
  static const double nothing = 1e-6;  // of what was turned over: rounding of forces that are not there
  double turned = fabs(pbLedger_Taken(l)) + fabs(l->kinetic) + fabs(l->potential) + l->begin_kinetic;
  double work = l->delivered > nothing * turned ? l->delivered : turned;
  return work > 0 ? fabs(l->remainder) / work : 0;
}
