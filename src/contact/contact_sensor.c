// Contact sensors. Derivative: contact_sensor_adjoint.c.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include "contact/contact_sensor.h"

#include "base/assert.h"
#include "contact/contact.h"
#include "math/vec.h"
#include "multibody/sensor.h"
#include "multibody/spatial.h"

#define TINY 1e-15  // MuJoCo's mjMINVAL

// ---- which contacts -----------------------------------------------------------------------------------------------------
// Does one end of a contact fit one side of a sensor?
static bool fits(const pbModel *m, int type, int id, int geom) {
  int body = m->geom_bodyid[geom];
  PB_ASSERT(geom >= 0 && geom < m->ngeom);

  switch (type) {
    case pb_refGeom: return id == geom;
    case pb_refBody: return id == body;
    case pb_refXbody: return NUM(pbSensor_Below)(m, body, id);
    default: return true;  // nothing is asked for; of a site its space alone
  }
}

static bool is_inside(const NUM(pbWork) *w, int site, const NUM(pbContact) *c) {
  num from[3], local[3];

  v3_sub(from, c->pos, w->site_xpos + 3 * site);
  m3_tmulv(local, w->site_xmat + 9 * site, from);
  return NUM(pbSensor_InSite)(w, site, local);
}

// 1: as it is, -1: flipped, 0: not taken.
static int taken_side(const NUM(pbWork) *w, int i, int contact) {
  const pbModel *m = w->m;
  const NUM(pbContact) *c = w->contact + contact;
  int type[2] = {m->sensor_objtype[i], m->sensor_reftype[i]}, id[2] = {m->sensor_objid[i], m->sensor_refid[i]};

  // Within reach, and within the site's shape where one is given.
  if (!within_gap(w, c)) return 0;
  if (type[0] == pb_refSite && !is_inside(w, id[0], c)) return 0;

  // fit[side][end]: each side needs an end.
  bool fit[2][2];
  for (int side = 0; side < 2; side++) {
    fit[side][0] = fits(m, type[side], id[side], c->geom1);
    fit[side][1] = fits(m, type[side], id[side], c->geom2);
    if (!fit[side][0] && !fit[side][1]) return 0;
  }

  // Away from the first side, towards the second.
  if (type[0] != pb_refNone && type[1] != pb_refNone) {
    bool regular = fit[0][0] && fit[1][1], reverse = fit[0][1] && fit[1][0];
    if (!regular && !reverse) return 0;
    return regular ? 1 : -1;
  }
  if (type[0] != pb_refNone) return fit[0][0] ? 1 : -1;
  return type[1] == pb_refNone || fit[1][1] ? 1 : -1;
}

const NUM(pbRow) *NUM(pbContactSensor_Row)(const NUM(pbWork) *w, int contact) {
  // Rows of contacts are the last, in their order.
  for (int k = w->nrow - 1; k >= 0 && w->row[k].kind == pb_rowContact && w->row[k].contact >= contact; k--) {
    if (w->row[k].contact == contact) return w->row + k;
  }
  return NULL;
}

// Forces, then torques, along the axes of the frame.
static void contact_force(const NUM(pbWork) *w, int contact, num f[6]) {
  const NUM(pbRow) *row = NUM(pbContactSensor_Row)(w, contact);
  memset(f, 0, 6 * sizeof *f);
  if (row) memcpy(f, row->f, (size_t)row->dim * sizeof *f);
}

static double key_of(const NUM(pbWork) *w, int i, int contact) {
  num f[6];
  switch (w->m->sensor_intprm[3 * i + 1]) {
    case pb_reduceMindist: return re(w->contact[contact].dist);

    // The greatest force comes first.
    case pb_reduceMaxforce: contact_force(w, contact, f); return -re(v3_dot(f, f));
    default: return 0;
  }
}

pbTaken NUM(pbContactSensor_Next)(const NUM(pbWork) *w, int sensor, pbTaken last) {
  pbTaken best = {.contact = -1};

  // Behind the last one, before all others.
  for (int c = 0; c < w->ncon; c++) {
    int side = taken_side(w, sensor, c);
    if (!side) continue;

    double key = key_of(w, sensor, c);

    bool past = last.contact < 0 || key > last.key || (key == last.key && c > last.contact);
    if (past && (best.contact < 0 || key < best.key)) best = (pbTaken){.contact = c, .flip = side < 0, .key = key};
  }
  return best;
}

int NUM(pbContactSensor_Count)(const NUM(pbWork) *w, int sensor) {
  int count = 0;
  for (int c = 0; c < w->ncon; c++) count += taken_side(w, sensor, c) != 0;
  return count;
}

// ---- what is written ------------------------------------------------------------------------------------------------------
void NUM(pbContactSensor_Motion)(const NUM(pbWork) *w, int contact, num u[3], num omega[3]) {
  const NUM(pbContact) *c = w->contact + contact;
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  const num *V1 = w->V + 6 * b1, *V2 = w->V + 6 * b2;
  num d1[3], d2[3], u1[3];
  PB_ASSERT(contact >= 0 && contact < w->ncon);

  // At the point, about the reference points of both trees.
  body_offset(w, b1, c->pos, d1);
  body_offset(w, b2, c->pos, d2);
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
static void put_field(const NUM(pbWork) *w, pbTaken t, int field, num *y) {
  const NUM(pbContact) *c = w->contact + t.contact;
  num f[6], u[3], omega[3], v[3];

  // What stands in the contact itself, or in its row.
  switch (field) {
    case pb_contactDist: y[0] = c->dist; return;
    case pb_contactPos: v3_copy(y, c->pos); return;
    case pb_contactNormal: put_axis(y, c->frame, t.flip); return;
    case pb_contactTangent: put_axis(y, c->frame + 3, t.flip); return;
    case pb_contactForce:
      contact_force(w, t.contact, f);
      put_local(y, f, t.flip);
      return;
    case pb_contactTorque:
      contact_force(w, t.contact, f);
      put_local(y, f + 3, t.flip);
      return;
    default: break;
  }

  // How its bodies move against each other there.
  NUM(pbContactSensor_Motion)(w, t.contact, u, omega);
  m3_mulv(v, c->frame, field == pb_contactLinvel ? u : omega);
  put_local(y, v, t.flip);
}

static num *write_contact(const NUM(pbWork) *w, int sensor, pbTaken t, int found, num *y) {
  PB_ASSERT(t.contact >= 0 && t.contact < w->ncon && found > 0);

  for (int bit = 0; bit < PB_CONTACT_FIELDS; bit++) {
    int field = w->m->sensor_intprm[3 * sensor] & 1 << bit;
    if (!field) continue;

    // How many there are stands with each.
    if (field == pb_contactFound) y[0] = found;
    else put_field(w, t, field, y);
    y += pb_contactSize[bit];
  }
  return y;
}

// Force and torque of a contact on what the sensor's second side is of, in world axes; the force's size.
static num contact_wrench(const NUM(pbWork) *w, pbTaken t, num force[3], num torque[3]) {
  const NUM(pbContact) *c = w->contact + t.contact;
  num f[6];
  contact_force(w, t.contact, f);
  m3_tmulv(force, c->frame, f);
  m3_tmulv(torque, c->frame, f + 3);

  // On the other body it is opposite.
  if (t.flip) {
    v3_neg(force, force);
    v3_neg(torque, torque);
  }
  return v3_is_zero(f) ? 0 : v3_norm(f);
}

void NUM(pbContactSensor_Net)(const NUM(pbWork) *w, int sensor, NUM(pbNetForce) *net) {
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
static void write_net(const NUM(pbWork) *w, int sensor, num *y) {
  static const num x[3] = {1, 0, 0}, z[3] = {0, 1, 0};
  NUM(pbNetForce) net;
  num found = NUM(pbContactSensor_Count)(w, sensor), none = 0;
  if (!(re(found) > 0)) return;
  NUM(pbContactSensor_Net)(w, sensor, &net);
  const num *parts[] = {&found, net.force, net.torque, &none, net.point, x, z};

  // In the order of their bits; velocities do not go with sums.
  for (int bit = 0; bit < 7; bit++) {
    if (!(w->m->sensor_intprm[3 * sensor] & 1 << bit)) continue;
    memcpy(y, parts[bit], (size_t)pb_contactSize[bit] * sizeof *y);
    y += pb_contactSize[bit];
  }
}

static void read_sensor(const NUM(pbWork) *w, int i) {
  const pbModel *m = w->m;
  num *y = w->sensordata + m->sensor_adr[i];
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

void NUM(pbStage_ContactSensors)(NUM(pbWork) *w) {
  if (w->m->disableflags & pb_disSensor) return;
  for (int i = 0; i < w->m->nsensor; i++) {
    if (w->m->sensor_type[i] == pb_sensContact) read_sensor(w, i);
  }
}
