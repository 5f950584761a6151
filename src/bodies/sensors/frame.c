// Poses, axes, velocities and accelerations of frames, relative to a reference frame where one is given.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/spatial.h"

// Velocity of the frame relative to the reference frame, in world axes.
static void relative_velocity(const NUM(pbMechanism) *w, int type, const NUM(pbFrame) *f, const NUM(pbFrame) *ref, num v[3]) {
  num u[3], arm[3];

  if (type == pb_sensFrameangvel) {
    v3_copy(v, w->V + 6 * f->body);
    if (ref) v3_subfrom(v, w->V + 6 * ref->body);
    return;
  }
  NUM(pbFrame_Velocity)(w, f, v);
  if (!ref) return;
  NUM(pbFrame_Velocity)(w, ref, u);
  v3_subfrom(v, u);
  v3_sub(arm, f->pos, ref->pos);
  v3_addcross(v, arm, w->V + 6 * ref->body);
}

// Relative to a reference frame where one is given; accelerations never are.
static void value(const NUM(pbMechanism) *w, int i, num *y) {
  const pbModel *m = w->m;
  int type = m->sensor_type[i];
  int objtype = m->sensor_objtype[i], objid = m->sensor_objid[i], reftype = m->sensor_reftype[i], refid = m->sensor_refid[i];
  NUM(pbFrame) f, ref;
  bool relative = refid >= 0 && type != pb_sensFramelinacc && type != pb_sensFrameangacc;

  // Offsets serve velocities and accelerations alone.
  bool moves = type >= pb_sensFramelinvel && type != pb_sensFrameangvel && type != pb_sensFrameangacc;
  NUM(pbFrame_Pose)(w, objtype, objid, &f);
  if (relative) NUM(pbFrame_Pose)(w, reftype, refid, &ref);
  if (moves) {
    body_offset(w, f.body, f.pos, f.d);
    if (relative) body_offset(w, ref.body, ref.pos, ref.d);
  }
  switch (type) {
    // The orientation is not a vector: nothing is left to rotate.
    case pb_sensFramequat:
      NUM(pbFrame_Quat)(w, objtype, objid, y);
      if (relative) {
        num q[4];
        NUM(pbFrame_Quat)(w, reftype, refid, q);
        quat_conj(q, q);
        quat_mul(y, q, y);
      }
      return;

    case pb_sensFramepos:
      v3_copy(y, f.pos);
      if (relative) v3_subfrom(y, ref.pos);
      break;
    case pb_sensFramexaxis:
    case pb_sensFrameyaxis:
    case pb_sensFramezaxis: m3_col(y, f.mat, type - pb_sensFramexaxis); break;
    case pb_sensFramelinacc: NUM(pbFrame_Acceleration)(w, &f, y); break;
    case pb_sensFrameangacc: v3_copy(y, w->A + 6 * f.body); break;
    default: relative_velocity(w, type, &f, relative ? &ref : NULL, y);
  }

  if (relative) m3_tmulv(y, ref.mat, y);
}
PB_SENSOR_VALUE(frame, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// y = r* o: o rotates by y (0, t/2), r by -(0, t/2) y, each in its own axes.
static void pull_quat(LANE(pbAdjoint) *a, int i, const lane bar[4]) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  frame_bar o, ref;
  num qo[4], y[4];
  lane t[4], half[3];

  // The value y = r* o; bar to the first frame through the second, and the other way round.
  bool relative = m->sensor_refid[i] >= 0;
  frame_bar_at(a, m->sensor_objtype[i], m->sensor_objid[i], &o);
  NUM(pbFrame_Quat)(w, o.type, o.id, qo);
  memcpy(y, qo, sizeof y);
  if (relative) {
    num r[4];
    frame_bar_at(a, m->sensor_reftype[i], m->sensor_refid[i], &ref);
    NUM(pbFrame_Quat)(w, ref.type, ref.id, r);
    y[0] = r[0] * qo[0] + r[1] * qo[1] + r[2] * qo[2] + r[3] * qo[3];
    y[1] = r[0] * qo[1] - r[1] * qo[0] - r[2] * qo[3] + r[3] * qo[2];
    y[2] = r[0] * qo[2] - r[2] * qo[0] - r[3] * qo[1] + r[1] * qo[3];
    y[3] = r[0] * qo[3] - r[3] * qo[0] - r[1] * qo[2] + r[2] * qo[1];

    quat_right(t, bar, y);
    for (int k = 0; k < 3; k++) half[k] = -0.5 * t[1 + k];
    to_world(ref.torque, ref.f.mat, half);
    frame_bar_done(a, &ref);
  }
  quat_left(t, y, bar);
  for (int k = 0; k < 3; k++) half[k] = 0.5 * t[1 + k];
  to_world(o.torque, o.f.mat, half);
  frame_bar_done(a, &o);
}

// z = v - v_r + arm x w_r; cotangent G
static void pull_linvel(LANE(pbAdjoint) *a, frame_bar *o, frame_bar *ref, const lane G[3], num z[3]) {
  NUM(pbFrame_Velocity)(a->w, &o->f, z);
  pull_velocity(a, o, G);
  if (!ref) return;

  // The reference frame's own velocity, and its rotation of the arm.
  const num *wr = a->w->V + 6 * ref->f.body;
  num u[3], arm[3];
  lane back[3], *FV = a->FV + 6 * ref->f.body;
  for (int k = 0; k < 3; k++) back[k] = -G[k];
  pull_velocity(a, ref, back);
  NUM(pbFrame_Velocity)(a->w, &ref->f, u);
  v3_sub(arm, o->f.pos, ref->f.pos);

  v3_sub(z, z, u);
  v3_addcross(z, arm, wr);
  PB_ADDCROSS(o->force, 1, wr, G);
  PB_ADDCROSS(ref->force, -1, wr, G);
  PB_ADDCROSS(FV, 1, G, arm);
}

static void pull_vector(LANE(pbAdjoint) *a, int i, int type, const lane y[3]) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  frame_bar o, ref;
  lane G[3];
  num z[3] = {0};  // the sensor's vector before it is rotated into the reference frame
  bool relative = m->sensor_refid[i] >= 0 && type != pb_sensFramelinacc && type != pb_sensFrameangacc;
  frame_bar_at(a, m->sensor_objtype[i], m->sensor_objid[i], &o);

  // In world axes.
  for (int k = 0; k < 3; k++) G[k] = y[k];
  if (relative) {
    frame_bar_at(a, m->sensor_reftype[i], m->sensor_refid[i], &ref);
    to_world(G, ref.f.mat, y);
  }
  switch (type) {
    case pb_sensFramepos:
      for (int k = 0; k < 3; k++) o.force[k] += G[k];
      if (!relative) break;
      v3_sub(z, o.f.pos, ref.f.pos);
      for (int k = 0; k < 3; k++) ref.force[k] += -G[k];
      break;
    case pb_sensFramexaxis:
    case pb_sensFrameyaxis:
    case pb_sensFramezaxis:
      for (int k = 0; k < 3; k++) z[k] = o.f.mat[3 * k + type - pb_sensFramexaxis];
      PB_ADDCROSS(o.torque, 1, z, G);
      break;
    case pb_sensFramelinvel: pull_linvel(a, &o, relative ? &ref : NULL, G, z); break;
    case pb_sensFrameangvel:
      for (int k = 0; k < 3; k++) a->FV[6 * o.f.body + k] += G[k];
      if (!relative) break;
      v3_sub(z, w->V + 6 * o.f.body, w->V + 6 * ref.f.body);
      for (int k = 0; k < 3; k++) a->FV[6 * ref.f.body + k] += -G[k];
      break;
    case pb_sensFramelinacc: pull_acceleration(a, &o, G); break;
    default:
      for (int k = 0; k < 3; k++) a->FA[6 * o.f.body + k] += G[k];
  }
  frame_bar_done(a, &o);

  if (!relative) return;
  PB_ADDCROSS(ref.torque, 1, G, z);
  frame_bar_done(a, &ref);
}

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  int type = a->w->m->sensor_type[i];
  if (type == pb_sensFramequat) pull_quat(a, i, bar);
  else pull_vector(a, i, type, bar);
}
PB_SENSOR_PULL(frame, pull);
#endif
