// Contact sensors: forces, points, frames and velocities of the contacts that a sensor takes (contact/contact_sensor.h).
// Derivative: forces to their rows, the rest to the geoms. Counts, and which contacts are taken, have none.
// Tests: tests/oracle/test_sensors.py, tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "contact/contact_sensor.h"

#include "bodies/sensor.h"
#include "eval/constraints.h"
#include "eval/contact.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// Numbers of each of pb_contact*, by its bit.
static const int contact_size[] = {
#define X(name, bit, word, size) [bit] = (size),
    PB_CONTACT_DATA(X)
#undef X
};
enum { CONTACT_FIELDS = sizeof contact_size / sizeof *contact_size };

// The sum of all contacts that a sensor takes: forces, torques about the point and that point, the mean of theirs weighed by
// forces. total: sum of the weights.
typedef struct net_force {
  num force[3], torque[3], point[3], total;
} net_force;
// Motion of the second geom's body less the first's at the contact's point: velocity, angular velocity (world axes).
static void motion_at(const NUM(pbConstraints) *w, int contact, num u[3], num omega[3]) {
  const NUM(pbContact) *c = w->contact + contact;
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  const num *V1 = w->V + 6 * b1, *V2 = w->V + 6 * b2;
  num d1[3], d2[3], u1[3];
  PB_ASSERT(contact >= 0 && contact < w->ncon);

  // At the point, about the reference points of both trees.
  body_offset(&w->mechanism, b1, c->pos, d1);
  body_offset(&w->mechanism, b2, c->pos, d2);
  PB_POINTVEL(u1, V1, d1);
  PB_POINTVEL(u, V2, d2);

  v3_subfrom(u, u1);
  v3_sub(omega, V2, V1);
}

// A vector in the contact's frame. Flipped that turns about its third axis, and what acts changes sign: the third alone is
// another.
static void put_local(num *y, const num v[3], bool flip) {
  v3_copy(y, v);
  if (flip) y[2] = -y[2];
}

static void put_axis(num *y, const num axis[3], bool flip) { v3_scale(y, axis, flip ? -1 : 1); }

// One of pb_contact*.
static void put_field(const NUM(pbConstraints) *w, pbTaken t, int field, num *y) {
  const NUM(pbContact) *c = w->contact + t.contact;
  num f[6], u[3], omega[3], v[3];

  // What stands in the contact itself, or in its row.
  switch (field) {
    case pb_contactDist: y[0] = c->dist; return;
    case pb_contactPos: v3_copy(y, c->pos); return;
    case pb_contactNormal: put_axis(y, c->frame, t.flip); return;
    case pb_contactTangent: put_axis(y, c->frame + 3, t.flip); return;
    case pb_contactForce:
      NUM(pbContactSensor_Force)(w, t.contact, f);
      put_local(y, f, t.flip);
      return;
    case pb_contactTorque:
      NUM(pbContactSensor_Force)(w, t.contact, f);
      put_local(y, f + 3, t.flip);
      return;
    default: break;
  }

  // How its bodies move against each other there.
  motion_at(w, t.contact, u, omega);
  m3_mulv(v, c->frame, field == pb_contactLinvel ? u : omega);
  put_local(y, v, t.flip);
}

static num *write_contact(const NUM(pbConstraints) *w, int sensor, pbTaken t, int found, num *y) {
  PB_ASSERT(t.contact >= 0 && t.contact < w->ncon && found > 0);

  for (int bit = 0; bit < CONTACT_FIELDS; bit++) {
    int field = w->m->sensor_intprm[3 * sensor] & 1 << bit;
    if (!field) continue;

    // How many there are stands with each.
    if (field == pb_contactFound) y[0] = found;
    else put_field(w, t, field, y);
    y += contact_size[bit];
  }
  return y;
}

// Force and torque of a contact on what the sensor's second side is of, in world axes; the force's size.
static num contact_wrench(const NUM(pbConstraints) *w, pbTaken t, num force[3], num torque[3]) {
  const NUM(pbContact) *c = w->contact + t.contact;
  num f[6];
  NUM(pbContactSensor_Force)(w, t.contact, f);
  m3_tmulv(force, c->frame, f);
  m3_tmulv(torque, c->frame, f + 3);

  // On the other body it is opposite.
  if (t.flip) {
    v3_neg(force, force);
    v3_neg(torque, torque);
  }
  return v3_is_zero(f) ? 0 : v3_norm(f);
}

static void sum_net(const NUM(pbConstraints) *w, int sensor, net_force *net) {
  const pbTaken start = {.contact = -1};
  num force[3], torque[3], arm[3];
  memset(net, 0, sizeof *net);

  // The mean point first.
  for (pbTaken t = NUM(pbContactSensor_Next)(w, sensor, start); t.contact >= 0; t = NUM(pbContactSensor_Next)(w, sensor, t)) {
    num weight = contact_wrench(w, t, force, torque);
    v3_addscl(net->point, w->contact[t.contact].pos, weight);
    net->total += weight;
  }
  v3_scale(net->point, net->point, num_div(1, num_max(TINY, net->total)));

  // About the point.
  for (pbTaken t = NUM(pbContactSensor_Next)(w, sensor, start); t.contact >= 0; t = NUM(pbContactSensor_Next)(w, sensor, t)) {
    contact_wrench(w, t, force, torque);
    v3_sub(arm, w->contact[t.contact].pos, net->point);
    v3_addto(net->force, force);
    v3_addto(net->torque, torque);
    v3_addcross(net->torque, arm, force);
  }
}

// World axes stand for the frame; zeros where nothing is taken.
static void write_net(const NUM(pbConstraints) *w, int sensor, num *y) {
  static const num x[3] = {1, 0, 0}, z[3] = {0, 1, 0};
  net_force net;
  num found = NUM(pbContactSensor_Count)(w, sensor), none = 0;
  if (!(re(found) > 0)) return;
  sum_net(w, sensor, &net);
  const num *parts[] = {&found, net.force, net.torque, &none, net.point, x, z};

  // In the order of their bits; velocities do not go with sums.
  for (int bit = 0; bit < 7; bit++) {
    if (!(w->m->sensor_intprm[3 * sensor] & 1 << bit)) continue;
    memcpy(y, parts[bit], (size_t)contact_size[bit] * sizeof *y);
    y += contact_size[bit];
  }
}

static void value(const NUM(pbConstraints) *w, int i, num *y) {
  const pbModel *m = w->m;
  if (m->sensor_intprm[3 * i + 1] == pb_reduceNetforce) {
    write_net(w, i, y);
    return;
  }

  // Slots that are left over stay zero.
  int found = NUM(pbContactSensor_Count)(w, i);
  pbTaken t = {.contact = -1};

  for (int slot = 0; slot < m->sensor_intprm[3 * i + 2]; slot++) {
    t = NUM(pbContactSensor_Next)(w, i, t);
    if (t.contact < 0) return;
    y = write_contact(w, i, t, found, y);
  }
}
PB_SENSOR_VALUE(contact, NULL, .value_constrained = value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_row_adjoint.h"
#include "contact/row_adjoint.h"

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
  for (int bit = 0; bit < CONTACT_FIELDS; bit++) {
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
    bar->moved = bar->moved || (field >= pb_contactDist && !is_zero(y, contact_size[bit]));
    y += contact_size[bit];
  }
  return y;
}

// v = frame (u2 - u1), frame (omega2 - omega1): to the bodies' motions, the point and the axes.
static void pull_motion(LANE(pbAdjoint) *a, int contact, contact_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + contact;
  const int body[2] = {w->m->geom_bodyid[c->geom1], w->m->geom_bodyid[c->geom2]};
  num u[3], omega[3], d[3];
  lane F[3] = {0}, T[3] = {0};
  motion_at(w, contact, u, omega);

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
    num sign = side ? 1 : -1;
    lane *FV = a->FV + 6 * body[side];
    body_offset(&w->mechanism, body[side], c->pos, d);
    PB_ADDWRENCH(FV, sign, d, F);
    for (int k = 0; k < 3; k++) FV[k] += sign * T[k];
  }
}

static void pull_contact(LANE(pbAdjoint) *a, int contact, contact_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
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
static void gather_share(const LANE(pbAdjoint) *a, pbTaken t, const net_force *net, const net_bar *n, contact_bar *bar) {
  const NUM(pbContact) *c = a->constraints->contact + t.contact;
  const NUM(pbRow) *row = NUM(pbContactSensor_Row)(a->constraints, t.contact);
  num sign = t.flip ? -1 : 1, F[3] = {0}, arm[3], size;
  lane F_bar[3], by_size = PB_LANE_ZERO;
  memset(bar, 0, sizeof *bar);
  if (!row) return;
  PB_ASSERT(row->dim <= 6 && re(net->total) >= 0);

  // What acts, and where.
  for (int k = 0; k < row->dim && k < 3; k++) v3_addscl(F, c->frame + 3 * k, sign * row->f[k]);
  size = v3_norm(F);
  v3_sub(arm, c->pos, net->point);

  for (int k = 0; k < 3; k++) F_bar[k] = n->force[k];
  PB_ADDCROSS(F_bar, 1, n->torque, arm);
  PB_CROSS(bar->pos, F, n->torque);
  if (re(net->total) > TINY) {
    by_size = PB_DOT3(arm, n->point) / net->total;
    for (int k = 0; k < 3; k++) bar->pos[k] += n->point[k] * (size / net->total);
  }

  bar->moved = true;
  for (int k = 0; k < row->dim; k++) {
    const num *axis = c->frame + 3 * (k % 3);
    const lane *g = k < 3 ? F_bar : n->torque;
    bar->f[k] = sign * PB_DOT3(axis, g);
    if (k < 3 && re(size) > 0) bar->f[k] += by_size * (row->f[k] / size);
    for (int e = 0; e < 3; e++) bar->axis[k % 3][e] += sign * row->f[k] * g[e];
  }
}

static const lane *take_part(lane to[3], const lane *y, bool there) {
  if (!there) return y;
  for (int k = 0; k < 3; k++) to[k] = y[k];
  return y + 3;
}

static void pull_net(LANE(pbAdjoint) *a, int sensor, const lane *y) {
  const NUM(pbConstraints) *w = a->constraints;
  int data = w->m->sensor_intprm[3 * sensor];
  net_force net;
  net_bar n;

  memset(&n, 0, sizeof n);

  // Of the others no number moves.
  if (data & pb_contactFound) y++;
  y = take_part(n.force, y, data & pb_contactForce);
  y = take_part(n.torque, y, data & pb_contactTorque);
  if (data & pb_contactDist) y++;
  take_part(n.point, y, data & pb_contactPos);

  // The point of all moves the arms.
  sum_net(w, sensor, &net);
  PB_ADDCROSS(n.point, -1, net.force, n.torque);

  pbTaken t = {.contact = -1};
  for (t = NUM(pbContactSensor_Next)(w, sensor, t); t.contact >= 0; t = NUM(pbContactSensor_Next)(w, sensor, t)) {
    contact_bar bar;
    gather_share(a, t, &net, &n, &bar);
    pull_contact(a, t.contact, &bar);
  }
}

// ---- all ------------------------------------------------------------------------------------------------------------------
static void pull(LANE(pbAdjoint) *a, int i, const lane *y) {
  const NUM(pbConstraints) *w = a->constraints;
  const int *prm = w->m->sensor_intprm + 3 * i;

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

// Meshes that touch are pulled back together.
static void begin(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  LANE(pbContact_ClearMeshes)(a);
#else
  (void)a;
#endif
}

static void end(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  LANE(pbContact_PullMeshes)(a, a->w->m->contact.onset);
#else
  (void)a;
#endif
}
PB_SENSOR_PULL(contact, pull, .begin = begin, .end = end);
#endif
