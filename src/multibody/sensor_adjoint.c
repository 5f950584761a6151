// Gradients of sensors: each function pulls the cotangent of a sensor's value to what the value was made of. Primal: sensor.c;
// tests: tests/conformance/test_step.c, tests/oracle.
#include "base/assert.h"
#include "multibody/distance_sensor.h"
#include "multibody/ray_sensor.h"
#include "multibody/sensor_adjoint.h"

// ---- sensors of sites and frames --------------------------------------------------------------------------------------
// g = mat y, y' = mat' g
static void to_world(lane g[3], const double *mat, const lane y[3]) {
  for (int k = 0; k < 3; k++) g[k] = mat[3 * k] * y[0] + mat[3 * k + 1] * y[1] + mat[3 * k + 2] * y[2];
}

// y = mat' v: the frame's axes take G x v, the vector G.
static void site_adjoint(LANE(pbAdjoint) *a, int type, int site, const lane y[3]) {
  const NUM(pbWork) *w = a->w;
  frame_bar s;
  frame_bar_at(a, pb_refSite, site, &s);
  int b = s.f.body;
  const double *hold = w->cfrc_int + 6 * b, *d = s.f.d;
  double v[3];
  lane G[3], motion[6] = {0};

  to_world(G, s.f.mat, y);
  switch (type) {
    case pb_sensAccelerometer:
      NUM(pbSensor_Acceleration)(w, &s.f, v);
      pull_acceleration(a, &s, G);
      break;
    case pb_sensVelocimeter:
      NUM(pbSensor_Velocity)(w, &s.f, v);
      pull_velocity(a, &s, G);
      break;
    case pb_sensGyro:
      for (int k = 0; k < 3; k++) v[k] = w->V[6 * b + k];
      for (int k = 0; k < 3; k++) a->FV[6 * b + k] += G[k];
      break;
    case pb_sensForce:
      for (int k = 0; k < 3; k++) v[k] = hold[3 + k];
      for (int k = 0; k < 3; k++) motion[3 + k] = G[k];
      LANE(pbSensor_PullHold)(a, b, motion);
      break;
    case pb_sensTorque:  // tau - d x f: the motion rotates about the site
      for (int k = 0; k < 3; k++) v[k] = hold[k];
      PB_ADDCROSS(v, -1, d, hold + 3);
      for (int k = 0; k < 3; k++) motion[k] = G[k];
      PB_CROSS(motion + 3, d, G);
      LANE(pbSensor_PullHold)(a, b, motion);
      PB_ADDCROSS(s.force, 1, G, hold + 3);
      break;
    default:
      for (int k = 0; k < 3; k++) v[k] = w->p.magnetic[k];
      for (int k = 0; k < 3; k++) PB_THETA(a, magnetic, k, G[k]);
  }

  PB_ADDCROSS(s.torque, 1, G, v);
  frame_bar_done(a, &s);
}

// r = a* b (conjugate of a), and r = a b*
static void quat_left(lane r[4], const double *p, const lane *b) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - p[2] * b[3] + p[3] * b[2];
  r[2] = p[0] * b[2] - p[2] * b[0] - p[3] * b[1] + p[1] * b[3];
  r[3] = p[0] * b[3] - p[3] * b[0] - p[1] * b[2] + p[2] * b[1];
}
static void quat_right(lane r[4], const lane *b, const double *p) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - (b[2] * p[3] - b[3] * p[2]);
  r[2] = p[0] * b[2] - p[2] * b[0] - (b[3] * p[1] - b[1] * p[3]);
  r[3] = p[0] * b[3] - p[3] * b[0] - (b[1] * p[2] - b[2] * p[1]);
}

// y = r* o: o rotates by y (0, t/2), r by -(0, t/2) y, each in its own axes.
static void framequat_adjoint(LANE(pbAdjoint) *a, int i, const lane bar[4]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  frame_bar o, ref;
  double qo[4], y[4];
  lane t[4], half[3];

  // The value y = r* o; bar to the first frame through the second, and the other way round.
  bool relative = m->sensor_refid[i] >= 0;
  frame_bar_at(a, m->sensor_objtype[i], m->sensor_objid[i], &o);
  NUM(pbSensor_Quat)(w, o.type, o.id, qo);
  memcpy(y, qo, sizeof y);
  if (relative) {
    double r[4];
    frame_bar_at(a, m->sensor_reftype[i], m->sensor_refid[i], &ref);
    NUM(pbSensor_Quat)(w, ref.type, ref.id, r);
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
static void linvel_adjoint(LANE(pbAdjoint) *a, frame_bar *o, frame_bar *ref, const lane G[3], double z[3]) {
  NUM(pbSensor_Velocity)(a->w, &o->f, z);
  pull_velocity(a, o, G);
  if (!ref) return;

  // The reference frame's own velocity, and its rotation of the arm.
  const double *wr = a->w->V + 6 * ref->f.body;
  double u[3], arm[3];
  lane back[3], *FV = a->FV + 6 * ref->f.body;
  for (int k = 0; k < 3; k++) back[k] = -G[k];
  pull_velocity(a, ref, back);
  NUM(pbSensor_Velocity)(a->w, &ref->f, u);
  for (int k = 0; k < 3; k++) arm[k] = o->f.pos[k] - ref->f.pos[k];

  for (int k = 0; k < 3; k++) z[k] = z[k] - u[k];
  PB_ADDCROSS(z, 1, arm, wr);
  PB_ADDCROSS(o->force, 1, wr, G);
  PB_ADDCROSS(ref->force, -1, wr, G);
  PB_ADDCROSS(FV, 1, G, arm);
}

static void frame_adjoint(LANE(pbAdjoint) *a, int i, int type, const lane y[3]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  frame_bar o, ref;
  lane G[3];
  double z[3] = {0};  // the sensor's vector before it is rotated into the reference frame
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
      for (int k = 0; k < 3; k++) z[k] = o.f.pos[k] - ref.f.pos[k];
      for (int k = 0; k < 3; k++) ref.force[k] += -G[k];
      break;
    case pb_sensFramexaxis:
    case pb_sensFrameyaxis:
    case pb_sensFramezaxis:
      for (int k = 0; k < 3; k++) z[k] = o.f.mat[3 * k + type - pb_sensFramexaxis];
      PB_ADDCROSS(o.torque, 1, z, G);
      break;
    case pb_sensFramelinvel: linvel_adjoint(a, &o, relative ? &ref : NULL, G, z); break;
    case pb_sensFrameangvel:
      for (int k = 0; k < 3; k++) a->FV[6 * o.f.body + k] += G[k];
      if (!relative) break;
      for (int k = 0; k < 3; k++) z[k] = w->V[6 * o.f.body + k] - w->V[6 * ref.f.body + k];
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

// ---- images -----------------------------------------------------------------------------------------------------------
// y = resolution / 2 -+ lens p / depth, p the site and depth its third number in the camera's frame.
static void projection_adjoint(LANE(pbAdjoint) *a, int i, const lane bar[2]) {
  const NUM(pbWork) *w = a->w;
  int camera = w->m->sensor_refid[i];
  const double *lens = w->m->cam_lens + 4 * camera;
  frame_bar s, c;
  double from[3], p[3];
  lane p_bar[3], G[3];
  frame_bar_at(a, pb_refSite, w->m->sensor_objid[i], &s);
  frame_bar_at(a, pb_refCamera, camera, &c);
  for (int k = 0; k < 3; k++) from[k] = s.f.pos[k] - c.f.pos[k];
  for (int k = 0; k < 3; k++) p[k] = c.f.mat[k] * from[0] + c.f.mat[3 + k] * from[1] + c.f.mat[6 + k] * from[2];

  // Beside the camera the depth stands still.
  bool beside = fabs(p[2]) < TINY;
  double depth = p[2];
  if (beside) depth = p[2] < 0 ? -TINY : TINY;

  p_bar[0] = -bar[0] * (lens[0] / depth);
  p_bar[1] = bar[1] * (lens[1] / depth);
  p_bar[2] = -(p_bar[0] * p[0] + p_bar[1] * p[1]) / depth;
  if (beside) p_bar[2] = PB_LANE_ZERO;
  to_world(G, c.f.mat, p_bar);

  for (int k = 0; k < 3; k++) {
    s.force[k] = G[k];
    c.force[k] = -G[k];
  }
  PB_CROSS(c.torque, G, from);
  frame_bar_done(a, &s);
  frame_bar_done(a, &c);
}

// ---- subtrees ---------------------------------------------------------------------------------------------------------
// com = sum m x / M
static void com_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *com = w->subtree_com + 3 * b;
  double M = w->p.body_subtreemass[b];
  for (int j = b; j < w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(w->m, j, b) || (M < TINY && j > b)) continue;
    frame_bar s;
    frame_bar_at(a, pb_refBody, j, &s);

    double share = M < TINY ? 1 : w->p.body_mass[j] / M;
    for (int k = 0; k < 3; k++) s.force[k] = g[k] * share;
    if (M >= TINY) PB_THETA(a, body_mass, j, PB_DOT3(s.f.pos, g) / M);
    frame_bar_done(a, &s);
  }

  if (M >= TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(com, g) / M);
}

// vel = sum m v / M
static void linvel_of_subtree_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *vel = w->subtree_linvel + 3 * b;
  double M = fmax(TINY, w->p.body_subtreemass[b]);
  for (int j = b; j < w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(w->m, j, b)) continue;
    frame_bar s;
    lane share[3];
    double v[3];
    frame_bar_at(a, pb_refBody, j, &s);
    NUM(pbSensor_Velocity)(w, &s.f, v);
    for (int k = 0; k < 3; k++) share[k] = g[k] * (w->p.body_mass[j] / M);
    pull_velocity(a, &s, share);
    PB_THETA(a, body_mass, j, PB_DOT3(v, g) / M);
    frame_bar_done(a, &s);
  }

  if (M > TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(vel, g) / M);
}

// Spin R diag(I) R' w of one body, cotangent g.
static void spin_adjoint(LANE(pbAdjoint) *a, frame_bar *s, const lane g[3]) {
  const double *R = s->f.mat, *I = a->w->p.body_inertia + 3 * s->id, *V = a->w->V + 6 * s->f.body;
  double wl[3], spin[3];
  lane gl[3], Jg[3];
  for (int k = 0; k < 3; k++) wl[k] = R[k] * V[0] + R[3 + k] * V[1] + R[6 + k] * V[2];
  for (int k = 0; k < 3; k++) gl[k] = R[k] * g[0] + R[3 + k] * g[1] + R[6 + k] * g[2];
  for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * s->id + k, gl[k] * wl[k]);

  // Beside the diagonal, where a design has them.
  int products = a->w->m->ndesignbody ? 3 : 0;
  for (int k = 0; k < products; k++) {
    int i = (k + 1) % 3, j = (k + 2) % 3;
    PB_THETA(a, body_products, 3 * s->id + k, gl[i] * wl[j] + gl[j] * wl[i]);
  }
  for (int k = 0; k < 3; k++) wl[k] = wl[k] * I[k];
  for (int k = 0; k < 3; k++) gl[k] = gl[k] * I[k];
  for (int k = 0; k < 3; k++) spin[k] = R[3 * k] * wl[0] + R[3 * k + 1] * wl[1] + R[3 * k + 2] * wl[2];

  // By the angular velocity: the inertia is symmetric. By the orientation: both sides of it rotate.
  to_world(Jg, R, gl);
  for (int k = 0; k < 3; k++) a->FV[6 * s->f.body + k] += Jg[k];
  PB_ADDCROSS(s->torque, 1, spin, g);
  PB_ADDCROSS(s->torque, 1, Jg, V);
}

// m (x - c) x v of one body, cotangent g.
static void orbit_adjoint(LANE(pbAdjoint) *a, frame_bar *s, const double *c, const lane g[3]) {
  double mass = a->w->p.body_mass[s->id], arm[3], v[3], swing[3];
  lane gv[3] = {0};
  for (int k = 0; k < 3; k++) arm[k] = s->f.pos[k] - c[k];
  NUM(pbSensor_Velocity)(a->w, &s->f, v);

  PB_CROSS(swing, arm, v);
  PB_THETA(a, body_mass, s->id, PB_DOT3(swing, g));
  PB_ADDCROSS(s->force, mass, v, g);
  PB_ADDCROSS(gv, mass, g, arm);
  pull_velocity(a, s, gv);
}

// Excess of mass e c x vel of subtree j (see sensor.c); e = m_j + sum of children's M - M_j.
static void excess_adjoint(LANE(pbAdjoint) *a, int j, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *c = w->subtree_com + 3 * j, *vel = w->subtree_linvel + 3 * j;
  double swing[3], mass = w->p.body_subtreemass[j], e = (j ? w->p.body_mass[j] : 0) - mass;
  PB_CROSS(swing, c, vel);

  lane each = PB_DOT3(swing, g);
  if (j) PB_THETA(a, body_mass, j, each);
  PB_THETA(a, body_subtreemass, j, -each);
  for (int i = j + 1; i < w->m->nbody; i++) {
    if (w->m->body_parentid[i] != j) continue;
    e += w->p.body_subtreemass[i];
    PB_THETA(a, body_subtreemass, i, each);
  }

  // By the center of mass and its velocity, which are sums of their own.
  lane gc[3] = {0}, gs[3] = {0};
  if (fabs(e) > 1e-12 * mass) {
    PB_ADDCROSS(gc, e, vel, g);
    PB_ADDCROSS(gs, e, g, c);
    linvel_of_subtree_adjoint(a, j, gs);
  }
  if (j == b) PB_ADDCROSS(gc, fmax(TINY, mass), g, vel);  // c_b in the orbits: -sum m v x g
  if (j == b || fabs(e) > 1e-12 * mass) com_adjoint(a, j, gc);
}

static void angmom_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  for (int j = b; j < a->w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(a->w->m, j, b)) continue;
    frame_bar s;
    frame_bar_at(a, pb_refBody, j, &s);
    spin_adjoint(a, &s, g);
    orbit_adjoint(a, &s, a->w->subtree_com + 3 * b, g);
    frame_bar_done(a, &s);
    excess_adjoint(a, j, b, g);
  }
}

// ---- sensors of joints, tendons, actuators, rows ----------------------------------------------------------------------
// Axis v / |v| of a ball joint's rotation vector v, cotangent c, to the tangent: inverse right Jacobian, transposed.
static void ball_axis_adjoint(const LANE(pbAdjoint) *a, int j, const lane c[3], lane *out) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(w, j);
  double angle = fmax(w->p.jnt_range[2 * j], w->p.jnt_range[2 * j + 1]) - row->pos[0], v[3], g;
  lane p[3], t[3];

  if (angle < 1e-8) return;
  for (int k = 0; k < 3; k++) v[k] = -angle * w->row_J[row->J + k];

  // By v / |v|, then by the tangent.
  lane along = PB_DOT3(v, c) / (angle * angle);
  for (int k = 0; k < 3; k++) p[k] = (c[k] - along * v[k]) / angle;

  g = (1 - 0.5 * angle / tan(0.5 * angle)) / (angle * angle);
  for (int k = 0; k < 3; k++) out[k] += p[k];
  PB_ADDCROSS(out, -0.5, v, p);
  PB_CROSS(t, v, p);
  PB_ADDCROSS(out, g, v, t);
}

static void joint_limit_adjoint(LANE(pbAdjoint) *a, int type, int j, lane bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(w, j);
  if (!row) return;

  const int *dofs = w->row_dofs + row->dofs;
  const double *J = w->row_J + row->J;

  // Its force, its velocity J v, or its distance; of a ball joint J is the axis of its rotation vector.
  if (type == pb_sensJointlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensJointlimitvel) {
    lane c[3] = {0};
    for (int i = 0; i < row->n; i++) a->v[dofs[i]] += bar * J[i];
    if (row->n != 3) return;
    for (int k = 0; k < 3; k++) c[k] = bar * -w->qvel[dofs[k]];
    ball_axis_adjoint(a, j, c, a->q + dofs[0]);
  } else {
    const double *range = w->p.jnt_range + 2 * j;
    int side = row->n == 3 ? range[0] < range[1] : row->side > 0;
    double sign = row->n == 3 ? 1 : row->side;
    for (int i = 0; i < row->n; i++) a->q[dofs[i]] += bar * J[i];
    PB_THETA(a, jnt_range, 2 * j + side, bar * sign);
    PB_THETA(a, jnt_margin, j, -bar);
  }
}

static void tendon_limit_adjoint(LANE(pbAdjoint) *a, int type, int k, lane bar) {
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(a->w, a->w->m->njnt + k);
  if (!row) return;

  double side = row->side;
  if (type == pb_sensTendonlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensTendonlimitvel) {
    a->ten_vel[k] -= bar * side;
  } else {
    a->ten_len[k] -= bar * side;
    PB_THETA(a, tendon_range, 2 * k + (side > 0), bar * side);
    PB_THETA(a, tendon_margin, k, -bar);
  }
}

static void ballquat_adjoint(LANE(pbAdjoint) *a, int j, const lane bar[4]) {
  const double *q = a->w->qpos + a->w->m->jnt_qposadr[j];
  double y[4], n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  lane t[4];

  if (n < TINY) return;
  for (int k = 0; k < 4; k++) y[k] = q[k] / n;
  quat_left(t, y, bar);
  for (int k = 0; k < 3; k++) a->q[a->w->m->jnt_dofadr[j] + k] += 0.5 * t[1 + k];
}

static void scalar_adjoint(LANE(pbAdjoint) *a, int type, int id, const lane *bar) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  switch (type) {
    case pb_sensTouch:
      for (int k = 0; k < w->nrow; k++) {
        if (NUM(pbSensor_Touches)(w, w->row + k, id)) pull_force(a, w->row + k, bar[0]);
      }
      break;

    // Numbers that a stage left.
    case pb_sensJointpos: a->q[m->jnt_dofadr[id]] += bar[0]; break;
    case pb_sensJointvel: a->v[m->jnt_dofadr[id]] += bar[0]; break;
    case pb_sensTendonpos: a->ten_len[id] += bar[0]; break;
    case pb_sensTendonvel: a->ten_vel[id] += bar[0]; break;
    case pb_sensActuatorpos: a->act_len[id] += bar[0]; break;
    case pb_sensActuatorvel:
      if (!(m->disableflags & pb_disActuation)) a->act_vel[id] += bar[0];
      break;
    case pb_sensActuatorfrc: a->act_force[id] += bar[0]; break;
    case pb_sensJointactuatorfrc: a->qfrc_actuator[m->jnt_dofadr[id]] += bar[0]; break;

    // Sums over actuators; rotations; limits.
    case pb_sensTendonactuatorfrc:
      for (int u = 0; u < m->nu; u++) {
        if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == id) a->act_force[u] += bar[0];
      }
      break;
    case pb_sensBallquat: ballquat_adjoint(a, id, bar); break;
    case pb_sensBallangvel:
      for (int k = 0; k < 3; k++) a->v[m->jnt_dofadr[id] + k] += bar[k];
      break;
    case pb_sensJointlimitpos:
    case pb_sensJointlimitvel:
    case pb_sensJointlimitfrc: joint_limit_adjoint(a, type, id, bar[0]); break;
    case pb_sensTendonlimitpos:
    case pb_sensTendonlimitvel:
    case pb_sensTendonlimitfrc: tendon_limit_adjoint(a, type, id, bar[0]); break;
    default: break;  // the clock: on the steps before this one (rollout/clock.c)
  }
}

// ---- all --------------------------------------------------------------------------------------------------------------
static void sensor_adjoint(LANE(pbAdjoint) *a, int i, const lane *bar) {
  int type = a->w->m->sensor_type[i], id = a->w->m->sensor_objid[i];
  PB_ASSERT(i >= 0 && i < a->w->m->nsensor);

  // Every type by what it is of: subtrees, frames, sites, and the rest by one number.
  if (type == pb_sensSubtreecom) {
    com_adjoint(a, id, bar);
  } else if (type == pb_sensSubtreelinvel) {
    linvel_of_subtree_adjoint(a, id, bar);
  } else if (type == pb_sensSubtreeangmom) {
    angmom_adjoint(a, id, bar);
  } else if (type == pb_sensFramequat) {
    framequat_adjoint(a, i, bar);
  } else if (type >= pb_sensFramepos && type <= pb_sensFrameangacc) {
    frame_adjoint(a, i, type, bar);
  } else if (type >= pb_sensAccelerometer && type <= pb_sensMagnetometer) {
    site_adjoint(a, type, id, bar);
  } else if (type == pb_sensCamprojection) {
    projection_adjoint(a, i, bar);
  } else if (type == pb_sensPotential) {
    LANE(pbEnergy_PullPotential)(a, bar[0]);
  } else if (type == pb_sensKinetic) {
    LANE(pbEnergy_PullKinetic)(a, bar[0]);
  } else if (pb_measuresDistance(type)) {
    LANE(pbDistance_Adjoint)(a, i, bar);
  } else {
    scalar_adjoint(a, type, id, bar);
  }
}

// Values at the cutoff: what reaches them goes to sensor_cutoff. first: which of its numbers bar begins with.
static void pull_cutoff(LANE(pbAdjoint) *a, int i, int first, int dim, lane *bar) {
  const NUM(pbWork) *w = a->w;
  double cutoff = w->p.sensor_cutoff[i];
  int datatype = w->m->sensor_datatype[i];
  if (w->m->sensor_type[i] == pb_sensFromto) return;
  if (!(cutoff > 0) || (datatype != pb_dataReal && datatype != pb_dataPositive)) return;

  for (int k = 0; k < dim; k++) {
    double y = w->sensordata[w->m->sensor_adr[i] + first + k];
    int side = y >= cutoff;
    if (y <= -cutoff && datatype == pb_dataReal) side = -1;
    if (!side) continue;
    PB_THETA(a, sensor_cutoff, i, bar[k] * (double)side);
    bar[k] = (lane){0};
  }
}

// The force of a servo is that of its row.
static void pull_servo_forces(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind != pb_rowServo) continue;
    int u = w->row[k].actuator;
    lane bar = a->act_force[u];
    for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) bar += w->mom[i] * a->qfrc_actuator[w->mom_dofs[i]];
    pull_force(a, w->row + k, bar);
  }
}

// Rays one by one, of others all their numbers.
static void pull_parts(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const pbModel *m = a->w->m;
  bool rays = m->sensor_type[i] == pb_sensRangefinder;
  int count = rays ? NUM(pbRay_Count)(m, i) : 1, size = m->sensor_dim[i] / count;
  PB_ASSERT(size <= PB_SENSOR_MOST && m->sensor_adr[i] + count * size <= m->nsensordata);

  for (int part = 0; part < count; part++) {
    lane y[PB_SENSOR_MOST] = {0};
    for (int k = 0; k < size; k++) y[k] = bar[part * size + k];
    if (is_zero(y, size)) continue;

    pull_cutoff(a, i, part * size, size, y);
    if (rays) LANE(pbRay_Adjoint)(a, i, part, y);
    else sensor_adjoint(a, i, y);
  }
}

void LANE(pbSensor_Adjoint)(LANE(pbAdjoint) *a, const lane *bar) {
  const pbModel *m = a->w->m;
  bool holds = false;
  if (m->disableflags & pb_disSensor) return;
  for (int i = 0; i < m->nsensor; i++) {
    if (m->sensor_type[i] == pb_sensContact || is_zero(bar + m->sensor_adr[i], m->sensor_dim[i])) continue;
    holds = holds || m->sensor_type[i] == pb_sensForce || m->sensor_type[i] == pb_sensTorque;
    pull_parts(a, i, bar + m->sensor_adr[i]);
  }

  // Tendons load bodies under motions that all sensors have given.
  if (holds) LANE(pbSensor_PullTendons)(a);
  pull_servo_forces(a);
}
