// Gradients of contact sensors: forces to their rows, distances, points, frames and velocities to the geoms. Counts, and which
// contacts are taken, have none. Primal: contact_sensor.c; tests: tests/oracle/test_sensors.py.
#include "base/assert.h"
#include "contact/contact_sensor.h"
#include "contact/row_adjoint.h"
#include "math/vec.h"
#include "multibody/sensor_adjoint.h"
#include "multibody/spatial.h"

// Cotangents of what one contact has, in its own frame, before anything is flipped; v: of its six velocities.
typedef struct contact_bar {
  lane f[6], dist, pos[3], axis[3][3], v[6];
  bool moved;  // more than f
} contact_bar;

static void take_local(lane to[3], const lane *y, bool flip) {
  for (int k = 0; k < 3; k++) to[k] += flip && k == 2 ? -y[k] : y[k];
}

static void take_axis(lane to[3], const lane *y, bool flip) {
  for (int k = 0; k < 3; k++) to[k] += flip ? -y[k] : y[k];
}

static const lane *gather(int data, bool flip, const lane *y, contact_bar *bar) {
  memset(bar, 0, sizeof *bar);
  for (int bit = 0; bit < PB_CONTACT_FIELDS; bit++) {
    int field = data & 1 << bit;
    if (!field) continue;

    // Counts have none.
    switch (field) {
      case pb_contactForce: take_local(bar->f, y, flip); break;
      case pb_contactTorque: take_local(bar->f + 3, y, flip); break;
      case pb_contactDist: bar->dist += y[0]; break;
      case pb_contactPos: take_axis(bar->pos, y, false); break;
      case pb_contactNormal: take_axis(bar->axis[0], y, flip); break;
      case pb_contactTangent: take_axis(bar->axis[1], y, flip); break;
      case pb_contactLinvel: take_local(bar->v, y, flip); break;
      case pb_contactAngvel: take_local(bar->v + 3, y, flip); break;
      default: break;
    }
    bar->moved = bar->moved || (field >= pb_contactDist && !is_zero(y, pb_contactSize[bit]));
    y += pb_contactSize[bit];
  }
  return y;
}

// v = frame (u2 - u1), frame (omega2 - omega1): to the bodies' motions, the point and the axes.
static void pull_motion(LANE(pbAdjoint) *a, int contact, contact_bar *bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + contact;
  const int body[2] = {w->m->geom_bodyid[c->geom1], w->m->geom_bodyid[c->geom2]};
  double u[3], omega[3], d[3];
  lane F[3] = {0}, T[3] = {0};
  NUM(pbContactSensor_Motion)(w, contact, u, omega);

  // The cotangent as a force at the point and a torque, in world axes.
  for (int k = 0; k < 3; k++) {
    for (int e = 0; e < 3; e++) {
      F[e] += c->frame[3 * k + e] * bar->v[k];
      T[e] += c->frame[3 * k + e] * bar->v[3 + k];
      bar->axis[k][e] += bar->v[k] * u[e] + bar->v[3 + k] * omega[e];
    }
  }

  PB_ADDCROSS(bar->pos, 1, F, omega);

  for (int side = 0; side < 2; side++) {
    double sign = side ? 1 : -1;
    lane *FV = a->FV + 6 * body[side];
    body_offset(w, body[side], c->pos, d);
    PB_ADDWRENCH(FV, sign, d, F);
    for (int k = 0; k < 3; k++) FV[k] += sign * T[k];
  }
}

static void pull_contact(LANE(pbAdjoint) *a, int contact, contact_bar *bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + contact;
  const NUM(pbRow) *row = NUM(pbContactSensor_Row)(w, contact);
  PB_ASSERT(c->point <= contact);

  if (row) {
    lane *f = a->force + 6 * (row - w->row);
    a->has_force = true;
    for (int k = 0; k < row->dim; k++) f[k] += bar->f[k];
  }
  if (!bar->moved) return;

  // The rest is the pair's: velocities first, which see the point and the axes, too.
  lane rows[10];
  pull_motion(a, contact, bar);

  LANE(pbContact_PairJacobians)(a, contact - c->point, w->m->contact.onset);
  rows[0] = bar->dist;
  memcpy(rows + 1, bar->pos, sizeof bar->pos);
  memcpy(rows + 4, bar->axis[0], sizeof bar->axis[0]);
  LANE(pbContact_PullFrame)(c, rows + 4, bar->axis[1], bar->axis[2], rows + 7);
  LANE(pbContact_PullPair)(a, contact, rows);
}

// ---- sums -----------------------------------------------------------------------------------------------------------------
// force = sum F_j, torque = sum T_j + (p_j - p) x F_j, p = sum |F_j| p_j / sum |F_j|
typedef struct net_bar {
  lane force[3], torque[3], point[3];
} net_bar;

// One contact's share, p's cotangent being whole.
static void gather_share(const LANE(pbAdjoint) *a, pbTaken t, const NUM(pbNetForce) *net, const net_bar *n, contact_bar *bar) {
  const NUM(pbContact) *c = a->w->contact + t.contact;
  const NUM(pbRow) *row = NUM(pbContactSensor_Row)(a->w, t.contact);
  double sign = t.flip ? -1 : 1, F[3] = {0}, arm[3], size;
  lane F_bar[3], by_size = PB_LANE_ZERO;
  memset(bar, 0, sizeof *bar);
  if (!row) return;
  PB_ASSERT(row->dim <= 6 && net->total >= 0);

  // What acts, and where.
  for (int k = 0; k < row->dim && k < 3; k++) v3_addscl(F, c->frame + 3 * k, sign * row->f[k]);
  size = v3_norm(F);
  v3_sub(arm, c->pos, net->point);

  for (int k = 0; k < 3; k++) F_bar[k] = n->force[k];
  PB_ADDCROSS(F_bar, 1, n->torque, arm);
  PB_CROSS(bar->pos, F, n->torque);
  if (net->total > TINY) {
    by_size = PB_DOT3(arm, n->point) / net->total;
    for (int k = 0; k < 3; k++) bar->pos[k] += n->point[k] * (size / net->total);
  }

  bar->moved = true;
  for (int k = 0; k < row->dim; k++) {
    const double *axis = c->frame + 3 * (k % 3);
    const lane *g = k < 3 ? F_bar : n->torque;
    bar->f[k] = sign * PB_DOT3(axis, g);
    if (k < 3 && size > 0) bar->f[k] += by_size * (row->f[k] / size);
    for (int e = 0; e < 3; e++) bar->axis[k % 3][e] += sign * row->f[k] * g[e];
  }
}

static const lane *take_part(lane to[3], const lane *y, bool there) {
  if (!there) return y;
  for (int k = 0; k < 3; k++) to[k] = y[k];
  return y + 3;
}

static void pull_net(LANE(pbAdjoint) *a, int sensor, const lane *y) {
  const NUM(pbWork) *w = a->w;
  int data = w->m->sensor_intprm[3 * sensor];
  NUM(pbNetForce) net;
  net_bar n;

  memset(&n, 0, sizeof n);

  // Of the others no number moves.
  if (data & pb_contactFound) y++;
  y = take_part(n.force, y, data & pb_contactForce);
  y = take_part(n.torque, y, data & pb_contactTorque);
  if (data & pb_contactDist) y++;
  take_part(n.point, y, data & pb_contactPos);

  // The point of all moves the arms.
  NUM(pbContactSensor_Net)(w, sensor, &net);
  PB_ADDCROSS(n.point, -1, net.force, n.torque);

  pbTaken t = {.contact = -1};
  for (t = NUM(pbContactSensor_Next)(w, sensor, t); t.contact >= 0; t = NUM(pbContactSensor_Next)(w, sensor, t)) {
    contact_bar bar;
    gather_share(a, t, &net, &n, &bar);
    pull_contact(a, t.contact, &bar);
  }
}

// ---- all ------------------------------------------------------------------------------------------------------------------
static void pull_sensor(LANE(pbAdjoint) *a, int i, const lane *y) {
  const NUM(pbWork) *w = a->w;
  const int *prm = w->m->sensor_intprm + 3 * i;

  if (is_zero(y, w->m->sensor_dim[i])) return;
  if (prm[1] == pb_reduceNetforce) {
    pull_net(a, i, y);
    return;
  }

  pbTaken t = {.contact = -1};

  for (int slot = 0; slot < prm[2]; slot++) {
    contact_bar bar;
    t = NUM(pbContactSensor_Next)(w, i, t);
    if (t.contact < 0) return;
    y = gather(prm[0], t.flip, y, &bar);
    pull_contact(a, t.contact, &bar);
  }
}

void LANE(pbContactSensors_Adjoint)(LANE(pbAdjoint) *a, const lane *bar) {
  const pbModel *m = a->w->m;
  if (!m->topology->has_contact_sensors || m->disableflags & pb_disSensor) return;
#if PB_LANES == 1
  LANE(pbContact_ClearMeshes)(a);
#endif
  for (int i = 0; i < m->nsensor; i++) {
    if (m->sensor_type[i] == pb_sensContact) pull_sensor(a, i, bar + m->sensor_adr[i]);
  }
#if PB_LANES == 1
  LANE(pbContact_PullMeshes)(a, m->contact.onset);
#endif
}
