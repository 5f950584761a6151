// Adhesion, of actuators on bodies: the mean over the body's contacts of what draws their sides together, those in the gap
// included.
// Tests: tests/oracle/test_adhesion.py, tests/conformance/test_lists.c.
#include <pullback/actuators.h>

#include "bodies/actuator.h"
#include "bodies/load_moment.h"
#include "eval/constraints.h"
#include "math/vec.h"
#include "multibody/contact_gap.h"

static void moment(NUM(pbConstraints) *w, int u, int *used) {
  const pbModel *m = w->m;
  int count = count_adhering(w, u);
  num *dense = w->tmp;
  w->act_length[u] = 0;
  if (!count) return;

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  for (int k = 0; k < w->ncon; k++) {
    const NUM(pbContact) *c = w->contact + k;
    if (!adheres(&w->mechanism, u, c)) continue;

    // Along the normal, from the first to the second.
    pbPointLoad load = {.body = m->geom_bodyid[c->geom1], .point = c->pos};
    v3_copy(load.force, c->frame);
    add_load_moment(&w->mechanism, &load, 1. / count, -1, dense);
    load.body = m->geom_bodyid[c->geom2];
    add_load_moment(&w->mechanism, &load, -1. / count, -1, dense);
  }

  for (int i = 0; i < m->nv; i++) {
    if (!num_is(dense[i], 0)) put_moment(&w->mechanism, used, i, dense[i]);
  }
}

PB_TRANSMISSION(adhesion, NULL, .moment_constrained = moment);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"
#include "contact/row_adjoint.h"
#include "multibody/spatial.h"

// -1 / n sum of n contacts' normal rows, whether or not they are constraints.
// W = share n . (velocity of body 2 - velocity of body 1) at the contact's point, under a->X.
static void pull_contact(LANE(pbAdjoint) *a, int contact, num share) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + contact;
  const int body[2] = {w->m->geom_bodyid[c->geom1], w->m->geom_bodyid[c->geom2]};
  num F[3], d[3];
  lane v[3], u[3] = {0}, omega[3] = {0}, bar[10] = {0};
  v3_scale(F, c->frame, share);

  // Its wrench on both, and their motion against each other.
  for (int side = 0; side < 2; side++) {
    num sign = side ? 1 : -1, *field = a->F + 6 * body[side];
    const lane *X = a->X + 6 * body[side];
    body_offset(&w->mechanism, body[side], c->pos, d);
    PB_ADDWRENCH(field, sign, d, F);

    PB_POINTVEL(v, X, d);
    for (int k = 0; k < 3; k++) {
      u[k] += sign * v[k];
      omega[k] += sign * X[k];
    }
  }

  // The point and the normal, to the geoms.
  PB_CROSS(bar + 1, F, omega);
  for (int k = 0; k < 3; k++) bar[4 + k] = share * u[k];
  LANE(pbContact_PairJacobians)(a, contact - c->point, w->m->contact.onset);
  LANE(pbContact_PullPair)(a, contact, bar);
}

void LANE(pbAdhesion_Pull)(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  if (!m->topology->adheres || m->disableflags & pb_disActuation) return;

  for (int u = 0; u < m->nu; u++) {
    int count = m->actuator_trntype[u] == pb_trnBody ? count_adhering(w, u) : 0;
    if (!count) continue;

    // Of the force on the dofs, and of the velocity where a sensor looks at it.
    for (int i = 0; i < m->nv; i++) a->c[i] = w->actuator_force[u] * a->lam_act[i] + a->act_vel[u] * w->qvel[i];
    LANE(pbSweep_Push)(&w->mechanism, a->c, a->X);
    memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(num));
    for (int c = 0; c < w->ncon; c++) {
      if (adheres(&w->mechanism, u, w->contact + c)) pull_contact(a, c, -1. / count);
    }
    LANE(pbSweep_PullExtra)(a, a->c);
  }
  memset(a->c, 0, (size_t)m->nv * sizeof(lane));
}

// By its contacts, after all other actuators (pbAdhesion_Pull).
static void pull(LANE(pbAdjoint) *a, int u, lane length) {
  (void)a;
  (void)u;
  (void)length;
}
PB_TRANSMISSION_PULL(adhesion, pull);
#endif
