// Which contacts a sensor takes. Values and derivative: bodies/sensors/contact.c.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include "contact/contact_sensor.h"

#include "base/assert.h"
#include "contact/contact.h"
#include "eval/row.h"
#include "math/vec.h"
#include "multibody/frame.h"

// ---- which contacts -----------------------------------------------------------------------------------------------------
// Does one end of a contact fit one side of a sensor?
static bool fits(const pbModel *m, int type, int id, int geom) {
  int body = m->geom_bodyid[geom];
  PB_ASSERT(geom >= 0 && geom < m->ngeom);

  switch (type) {
    case pb_refGeom: return id == geom;
    case pb_refBody: return id == body;
    case pb_refXbody: return pb_isBelow(m, body, id);
    default: return true;  // nothing is asked for; of a site its space alone
  }
}

static bool is_inside(const NUM(pbConstraints) *w, int site, const NUM(pbContact) *c) {
  num from[3], local[3];

  v3_sub(from, c->pos, w->site_xpos + 3 * site);
  m3_tmulv(local, w->site_xmat + 9 * site, from);
  return NUM(pbFrame_InSite)(&w->mechanism, site, local);
}

// 1: as it is, -1: flipped, 0: not taken.
static int taken_side(const NUM(pbConstraints) *w, int i, int contact) {
  const pbModel *m = w->m;
  const NUM(pbContact) *c = w->contact + contact;
  int type[2] = {m->sensor_objtype[i], m->sensor_reftype[i]}, id[2] = {m->sensor_objid[i], m->sensor_refid[i]};

  // Within reach, and within the site's shape where one is given.
  if (!within_gap(&w->mechanism, c)) return 0;
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

const NUM(pbRow) *NUM(pbContactSensor_Row)(const NUM(pbConstraints) *w, int contact) {
  // Rows of contacts are the last, in their order.
  for (int k = w->nrow - 1; k >= 0 && w->row[k].kind == pb_rowContact && w->row[k].contact >= contact; k--) {
    if (w->row[k].contact == contact) return w->row + k;
  }
  return NULL;
}

void NUM(pbContactSensor_Force)(const NUM(pbConstraints) *w, int contact, num f[6]) {
  const NUM(pbRow) *row = NUM(pbContactSensor_Row)(w, contact);
  memset(f, 0, 6 * sizeof *f);
  if (row) memcpy(f, row->f, (size_t)row->dim * sizeof *f);
}

static double key_of(const NUM(pbConstraints) *w, int i, int contact) {
  num f[6];
  switch (w->m->sensor_intprm[3 * i + 1]) {
    case pb_reduceMindist: return re(w->contact[contact].dist);

    // The greatest force comes first.
    case pb_reduceMaxforce: NUM(pbContactSensor_Force)(w, contact, f); return -re(v3_dot(f, f));
    default: return 0;
  }
}

pbTaken NUM(pbContactSensor_Next)(const NUM(pbConstraints) *w, int sensor, pbTaken last) {
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

int NUM(pbContactSensor_Count)(const NUM(pbConstraints) *w, int sensor) {
  int count = 0;
  for (int c = 0; c < w->ncon; c++) count += taken_side(w, sensor, c) != 0;
  return count;
}
