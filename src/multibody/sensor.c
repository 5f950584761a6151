// Sensors, by MuJoCo's types.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include "base/assert.h"
#include "math/vec.h"
#include "model/equality_data.h"
#include "multibody/distance_sensor.h"
#include "multibody/energy.h"
#include "multibody/inertia.h"
#include "multibody/kink.h"
#include "multibody/ray_sensor.h"
#include "multibody/sensor.h"
#include "multibody/spatial.h"

#define TINY 1e-15  // MuJoCo's mjMINVAL

// ---- frames -----------------------------------------------------------------------------------------------------------
static void camera_pose(const NUM(pbWork) *w, int camera, NUM(pbSensorFrame) *f) {
  num q[4];
  f->body = w->m->cam_bodyid[camera];
  f->pos = f->own;
  f->mat = f->own + 3;
  m3_mulv(f->own, w->xmat + 9 * f->body, w->p.cam_pos + 3 * camera);
  v3_addto(f->own, w->xpos + 3 * f->body);

  quat_mul(q, w->xquat + 4 * f->body, w->p.cam_quat + 4 * camera);
  quat_to_mat(f->own + 3, q);
}

// Without its offset.
static inline void frame_pose(const NUM(pbWork) *w, int objtype, int objid, NUM(pbSensorFrame) *f) {
  // What the object's frame is: MuJoCo takes a body's inertial frame unless its own is asked for.
  switch (objtype) {
    case pb_refSite:
      f->body = w->m->site_bodyid[objid];
      f->pos = w->site_xpos + 3 * objid;
      f->mat = w->site_xmat + 9 * objid;
      break;
    case pb_refGeom:
      f->body = w->m->geom_bodyid[objid];
      f->pos = w->geom_xpos + 3 * objid;
      f->mat = w->geom_xmat + 9 * objid;
      break;
    case pb_refBody:
      f->body = objid;
      f->pos = w->xipos + 3 * objid;
      f->mat = w->ximat + 9 * objid;
      break;
    case pb_refCamera: camera_pose(w, objid, f); break;
    default:
      f->body = objid;
      f->pos = w->xpos + 3 * objid;
      f->mat = w->xmat + 9 * objid;
  }
}

void NUM(pbSensor_Frame)(const NUM(pbWork) *w, int objtype, int objid, NUM(pbSensorFrame) *f) {
  frame_pose(w, objtype, objid, f);
  body_offset(w, f->body, f->pos, f->d);
}

void NUM(pbSensor_Quat)(const NUM(pbWork) *w, int objtype, int objid, num q[4]) {
  switch (objtype) {
    case pb_refSite: quat_mul(q, w->xquat + 4 * w->m->site_bodyid[objid], w->p.site_quat + 4 * objid); break;
    case pb_refGeom: quat_mul(q, w->xquat + 4 * w->m->geom_bodyid[objid], w->p.geom_quat + 4 * objid); break;
    case pb_refBody: quat_mul(q, w->xquat + 4 * objid, w->p.body_iquat + 4 * objid); break;
    case pb_refCamera: quat_mul(q, w->xquat + 4 * w->m->cam_bodyid[objid], w->p.cam_quat + 4 * objid); break;
    default: quat_copy(q, w->xquat + 4 * objid);
  }
}

void NUM(pbSensor_Velocity)(const NUM(pbWork) *w, const NUM(pbSensorFrame) *f, num v[3]) {
  const num *V = w->V + 6 * f->body;
  PB_POINTVEL(v, V, f->d);
}

void NUM(pbSensor_Acceleration)(const NUM(pbWork) *w, const NUM(pbSensorFrame) *f, num a[3]) {
  const num *A = w->A + 6 * f->body;
  num v[3];
  NUM(pbSensor_Velocity)(w, f, v);
  PB_POINTVEL(a, A, f->d);
  v3_addcross(a, w->V + 6 * f->body, v);
}

// ---- touch ------------------------------------------------------------------------------------------------------------
// Where a x^2 + 2 b x + c <= 0, intersected with [x[0], x[1]].
static bool clip_quadratic(double a, double b, double c, double x[2]) {
  if (a < TINY) return c <= 0;

  // Between the roots.
  double det = b * b - a * c;
  if (det < 0) return false;
  x[0] = fmax(x[0], (-b - sqrt(det)) / a);
  x[1] = fmin(x[1], (-b + sqrt(det)) / a);
  return x[0] <= x[1];
}

// Where |p + x d| <= s
static bool clip_slab(double p, double d, double s, double x[2]) {
  if (fabs(d) <= TINY) return fabs(p) <= s;
  double a = (-s - p) / d, b = (s - p) / d;
  x[0] = fmax(x[0], fmin(a, b));
  x[1] = fmin(x[1], fmax(a, b));
  return x[0] <= x[1];
}

// Within a ball on the axis.
static bool clip_ball(const double p[3], const double d[3], double shift, double radius, double x[2]) {
  double z = p[2] - shift;
  return clip_quadratic(d[0] * d[0] + d[1] * d[1] + d[2] * d[2], p[0] * d[0] + p[1] * d[1] + z * d[2],
                        p[0] * p[0] + p[1] * p[1] + z * z - radius * radius, x);
}

static bool clip_tube(const double p[3], const double d[3], const double size[3], double x[2]) {
  return clip_quadratic(d[0] * d[0] + d[1] * d[1], p[0] * d[0] + p[1] * d[1], p[0] * p[0] + p[1] * p[1] - size[0] * size[0], x) &&
         clip_slab(p[2], d[2], size[1], x);
}

// Does the ray p + x d, x >= 0, in the shape's frame, meet the solid shape?
static bool ray_meets(int type, const double size[3], double p[3], double d[3]) {
  double x[2] = {0, INFINITY}, top[2] = {0, INFINITY}, bottom[2] = {0, INFINITY};
  switch (type) {
    case pb_geomEllipsoid:
      for (int k = 0; k < 3; k++) {
        p[k] /= size[k];
        d[k] /= size[k];
      }
      return clip_ball(p, d, 0, 1, x);

    // A tube and two balls.
    case pb_geomCapsule:
      return clip_tube(p, d, size, x) || clip_ball(p, d, size[1], size[0], top) || clip_ball(p, d, -size[1], size[0], bottom);
    case pb_geomCylinder: return clip_tube(p, d, size, x);

    // Within three slabs.
    case pb_geomBox:
      return clip_slab(p[0], d[0], size[0], x) && clip_slab(p[1], d[1], size[1], x) && clip_slab(p[2], d[2], size[2], x);
    default: return clip_ball(p, d, 0, size[0], x);
  }
}

bool NUM(pbSensor_Touches)(const NUM(pbWork) *w, const NUM(pbRow) *row, int site) {
  if (row->kind != pb_rowContact || !(re(row->f[0]) > 0)) return false;

  // Only contacts of the site's own body count.
  const NUM(pbContact) *c = w->contact + row->contact;
  int body = w->m->site_bodyid[site], second = w->m->geom_bodyid[c->geom2];
  if (body != second && body != w->m->geom_bodyid[c->geom1]) return false;

  // The force's line from the contact point, seen from the site: away from the body that it presses.
  double sign = body == second ? -1 : 1, p[3] = {0}, d[3] = {0}, size[3];
  for (int k = 0; k < 3; k++) {
    size[k] = re(w->p.site_size[3 * site + k]);
    for (int a = 0; a < 3; a++) {
      double e = re(w->site_xmat[9 * site + 3 * a + k]);
      p[k] += e * (re(c->pos[a]) - re(w->site_xpos[3 * site + a]));
      d[k] += e * sign * re(c->frame[a]);
    }
  }

  return ray_meets(w->m->site_type[site], size, p, d);
}

// ---- tendons as loads on bodies ---------------------------------------------------------------------------------------
num NUM(pbSensor_Coupling)(const NUM(pbWork) *w, int e, int tendon) {
  const pbModel *m = w->m;
  if (m->eq_type[e] != pb_eqTendon) return 0;

  num s = m->eq_obj1id[e] == tendon ? 1 : 0;

  // L1 - L1_0 = P(L2 - L2_0): the second tendon counts by -P'.
  int other = m->eq_obj2id[e];
  if (other != tendon) return s;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(e);
  num x = w->ten_length[other] - w->p.tendon_length0[other];
  return s - (c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])));
}

// Force of servos on a dof: of rows, not in qfrc_actuator.
static num servo_force(const NUM(pbWork) *w, int dof) {
  num sum = 0;
  for (int u = 0; u < w->m->nu; u++) {
    if (!w->m->actuator_servo[u]) continue;
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) sum += w->mom[a] * w->actuator_force[u];
    }
  }
  return sum;
}

static num tendon_row_force(const NUM(pbWork) *w, const NUM(pbRow) *r, int tendon) {
  switch (r->kind) {
    case pb_rowEquality: return NUM(pbSensor_Coupling)(w, r->equality, tendon) * r->f[0];
    case pb_rowFriction: return r->tendon == tendon ? r->f[0] : 0;
    case pb_rowLimit: return r->tendon == tendon ? -r->side * r->f[0] : 0;
    default: return 0;
  }
}

static num spring_and_damper(const NUM(pbWork) *w, int k) {
  num force = 0;

  if (!(w->m->disableflags & pb_disSpring)) {
    num x = tendon_stretch(w, k);
    num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
    force -= x * pb_polynomialForce(c, x, false);
  }
  if (!(w->m->disableflags & pb_disDamper)) {
    num c[3];
    NUM(pbTendon_Damping)(w, k, c);
    force -= w->ten_velocity[k] * pb_polynomialForce(c, w->ten_velocity[k], true);
  }
  return force;
}

num NUM(pbSensor_Tension)(const NUM(pbWork) *w, int k) {
  const pbModel *m = w->m;
  num force = spring_and_damper(w, k), armature = NUM(pbTendon_Armature)(w, k);
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == k)
      force += w->p.actuator_gear[6 * u] * w->actuator_force[u];
  }

  for (int r = 0; r < w->nrow; r++) force += tendon_row_force(w, w->row + r, k);

  // A loss of zero makes no row; what it would do is a slope.
  num loss = w->p.tendon_frictionloss[k];
  if (PB_IS_COMPLEX && loss_acts(m) && !(re(loss) > 0)) force += num_make(0, -loss_sign(w, m->nv + k, w->qacc) * im(loss));

  // Armature resists the acceleration of the length, J a + dJ/dt v.
  if (re(armature) != 0 || im(armature) != 0) {
    num rate = NUM(pbTendon_Dot)(w, k);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) rate += w->ten_J[a] * w->qacc[w->ten_dofs[a]];
    force -= armature * rate;
  }
  return force;
}

// ---- interaction forces -----------------------------------------------------------------------------------------------
// The load (force at a point, torque) on a body, taken off what holds it.
static void take_load(NUM(pbWork) *w, int body, const num point[3], const num force[3], const num torque[3], double sign) {
  num d[3], *F = w->cfrc_int + 6 * body;
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  if (body == 0) return;

  body_offset(w, body, point, d);
  PB_ADDWRENCH(F, -sign, d, force);
  if (!torque) return;
  for (int k = 0; k < 3; k++) F[k] -= sign * torque[k];
}

static void inertial_wrench(NUM(pbWork) *w, int b) {
  num *F = w->cfrc_int + 6 * b, momentum[6] = {0}, force[3];
  const num *V = w->V + 6 * b, *A = w->A + 6 * b;
  // A body that cannot move is held against its weight alone.
  if (w->t->body_tree[b] < 0) {
    v3_scale(force, A + 3, -w->p.body_mass[b]);
    take_load(w, b, w->xipos + 3 * b, force, NULL, 1);
    return;
  }

  // I A + V x* I V
  const num *I = w->inert + 10 * b;
  PB_ADDINERT(F, 1, I, A);
  PB_ADDINERT(momentum, 1, I, V);
  PB_ADDMXF(F, 1, V, momentum);
}

// Forces act on the second geom's body along the frame, on the first's against it.
static void contact_load(NUM(pbWork) *w, const NUM(pbRow) *r) {
  const NUM(pbContact) *c = w->contact + r->contact;
  num force[3] = {0}, torque[3] = {0};

  // Three forces, then three torques, about the same axes.
  for (int k = 0; k < r->dim; k++) v3_addscl(k < 3 ? force : torque, c->frame + 3 * (k % 3), r->f[k]);
  take_load(w, w->m->geom_bodyid[c->geom1], c->pos, force, torque, -1);
  take_load(w, w->m->geom_bodyid[c->geom2], c->pos, force, torque, 1);
}

// Connect and weld: force f at both points; torque whose power is f . 0.5 scale vec(conj(q2) (w1 - w2) q1).
static void equality_load(NUM(pbWork) *w, const NUM(pbRow) *r) {
  int body[2], type = w->m->eq_type[r->equality];
  num p1[3], p2[3], q1[4], q2[4], t[4], c[4];
  if (type != pb_eqConnect && type != pb_eqWeld) return;

  NUM(pbEquality_Ends)(w, r->equality, body, p1, p2, q1, q2);
  num torque[3] = {0};
  if (type == pb_eqWeld) {
    quat_mulaxis(t, q2, r->f + 3);
    quat_conj(c, q1);
    quat_mul(t, t, c);
    v3_scale(torque, t + 1, 0.5 * w->p.eq_data[pbWeld_Torquescale(r->equality)]);
  }

  take_load(w, body[0], p1, r->f, torque, 1);
  take_load(w, body[1], p2, r->f, torque, -1);
}

// A path pulls at the ends of each of its pieces; where it goes around a geom, as much against it on the geom's body.
static void tendon_load(NUM(pbWork) *w, int k) {
  const pbModel *m = w->m;
  if (!pb_isSpatial(m, k)) return;

  num tension = NUM(pbSensor_Tension)(w, k);
  pbPiece p = pb_pathOf(m, k);
  while (pb_nextPiece(m, k, &p)) {
    num divisor = p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley], force[3];
    int body[2] = {m->site_bodyid[p.site[0]], m->site_bodyid[p.site[1]]};
    const num *x[2] = {w->site_xpos + 3 * p.site[0], w->site_xpos + 3 * p.site[1]};

    // Around the geom.
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(w, &p);
    PB_ASSERT(re(divisor) != 0);
    if (path) {
      for (int e = 0; e < 2; e++) {
        v3_scale(force, path->end[e], tension / divisor);
        take_load(w, body[e], x[e], force, NULL, 1);
        take_load(w, m->geom_bodyid[p.geom], x[e], force, NULL, -1);
      }

      continue;
    }

    // Straight, unless within one body.
    if (body[0] == body[1]) continue;
    v3_sub(force, x[1], x[0]);
    v3_normalize(force);
    v3_scale(force, force, tension / divisor);
    take_load(w, body[0], x[0], force, NULL, -1);
    take_load(w, body[1], x[1], force, NULL, 1);
  }
}

// What holds each body: inertia of it and all below, less the loads (as MuJoCo's mj_rnePostConstraint counts them: applied
// forces on bodies, contacts, connect, weld, spatial tendons; not fluid, gravity compensation, sites' actuators).
static void interaction_wrenches(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memset(w->cfrc_int, 0, 6 * (size_t)m->nbody * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    inertial_wrench(w, b);
    take_load(w, b, w->xipos + 3 * b, w->xfrc_applied + 6 * b, w->xfrc_applied + 6 * b + 3, 1);
  }
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind == pb_rowContact) contact_load(w, w->row + k);
    if (w->row[k].kind == pb_rowEquality) equality_load(w, w->row + k);
  }
  for (int k = 0; k < m->ntendon; k++) tendon_load(w, k);

  // Sums over subtrees, from the leaves; those on the world are about its origin.
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b], tree = w->t->body_tree[b];
    PB_ASSERT(parent < b);
    num *F = w->cfrc_int + 6 * b, *Fp = w->cfrc_int + 6 * parent;
    PB_AXPY6(Fp, 1, F);
    if (tree >= 0 && w->t->body_tree[parent] < 0) {  // there about the origin
      const double *ref = w->ref + 3 * tree;
      PB_ADDCROSS(Fp, 1, ref, F + 3);
    }
  }
}

// ---- subtrees ---------------------------------------------------------------------------------------------------------
bool NUM(pbSensor_Below)(const pbModel *m, int j, int b) {
  while (j > b) j = m->body_parentid[j];
  return j == b;
}

// Centers of mass and their velocities; massless subtrees: the body's own.
static void subtree_motion(const NUM(pbWork) *w) {
  const pbModel *m = w->m;
  num d[3], v[3];
  for (int b = 0; b < m->nbody; b++) {
    const num *V = w->V + 6 * b;
    body_offset(w, b, w->xipos + 3 * b, d);
    PB_POINTVEL(v, V, d);
    v3_scale(w->subtree_com + 3 * b, w->xipos + 3 * b, w->p.body_mass[b]);
    v3_scale(w->subtree_linvel + 3 * b, v, w->p.body_mass[b]);
  }

  // A body's sums are whole when all below it have added theirs; then they are divided by its mass.
  for (int b = m->nbody - 1; b >= 0; b--) {
    num *com = w->subtree_com + 3 * b, *vel = w->subtree_linvel + 3 * b, mass = w->p.body_subtreemass[b];

    // Massless subtrees stand at their body, without velocity.
    if (b) {
      v3_addto(w->subtree_com + 3 * m->body_parentid[b], com);
      v3_addto(w->subtree_linvel + 3 * m->body_parentid[b], vel);
    }

    if (re(mass) < TINY) v3_copy(com, w->xipos + 3 * b);
    else v3_scale(com, com, num_div(1, mass));
    v3_scale(vel, vel, num_div(1, num_max(TINY, mass)));
  }
}

// Angular momentum of a subtree about its center of mass, in MuJoCo's sum over the tree written out: with x, v, m, h position,
// velocity, mass, spin of bodies and c, s, M those of subtrees,
//   sum h + m (x - c_b) x v  -  sum (M_i - m_i - sum of M of i's children) c_i x s_i   (m of the world: 0);
// the second sum vanishes where body_subtreemass is what its name says, but not its derivative.
static void angular_momentum(const NUM(pbWork) *w, int b, num L[3]) {
  const pbModel *m = w->m;
  v3_zero(L);
  for (int j = b; j < m->nbody; j++) {
    if (!NUM(pbSensor_Below)(m, j, b)) continue;
    const num *V = w->V + 6 * j, *R = w->ximat + 9 * j;
    num d[3], v[3], arm[3], spin[3], mass = j ? w->p.body_mass[j] : 0, excess = mass - w->p.body_subtreemass[j];

    // Spin of the body, and its orbit about the center of mass.
    body_offset(w, j, w->xipos + 3 * j, d);
    PB_POINTVEL(v, V, d);

    m3_tmulv(spin, R, V);
    spin_of(w, j, spin);
    m3_mulv(spin, R, spin);
    v3_addto(L, spin);
    v3_sub(arm, w->xipos + 3 * j, w->subtree_com + 3 * b);
    PB_ADDCROSS(L, mass, arm, v);

    // What the sum's recursion leaves where masses of subtrees are not sums of masses.
    for (int c = j + 1; c < m->nbody; c++) {
      if (m->body_parentid[c] == j) excess += w->p.body_subtreemass[c];
    }
    const num *com = w->subtree_com + 3 * j, *vel = w->subtree_linvel + 3 * j;
    PB_ADDCROSS(L, excess, com, vel);
  }
}

// ---- values -----------------------------------------------------------------------------------------------------------
const NUM(pbRow) *NUM(pbSensor_Limit)(const NUM(pbWork) *w, int id) {
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind == pb_rowLimit && w->row[k].id == id) return w->row + k;
  }
  return NULL;
}

// Sensors of joints, tendons, actuators, rows.
// They read one number that a stage left, but for limits, which read their row where it is active.
static void scalar_value(const NUM(pbWork) *w, int type, int id, num *y) {
  const pbModel *m = w->m;
  const NUM(pbRow) *r;
  switch (type) {
    case pb_sensTouch:
      for (int k = 0; k < w->nrow; k++) {
        if (NUM(pbSensor_Touches)(w, w->row + k, id)) y[0] += w->row[k].f[0];
      }
      return;

    // Numbers that a stage left.
    case pb_sensJointpos: y[0] = w->qpos[m->jnt_qposadr[id]]; return;
    case pb_sensJointvel: y[0] = w->qvel[m->jnt_dofadr[id]]; return;
    case pb_sensTendonpos: y[0] = w->ten_length[id]; return;
    case pb_sensTendonvel: y[0] = w->ten_velocity[id]; return;
    case pb_sensActuatorpos: y[0] = w->act_length[id]; return;
    case pb_sensActuatorvel: y[0] = w->act_velocity[id]; return;
    case pb_sensActuatorfrc: y[0] = w->actuator_force[id]; return;
    case pb_sensJointactuatorfrc: y[0] = w->qfrc_actuator[m->jnt_dofadr[id]] + servo_force(w, m->jnt_dofadr[id]); return;

    // Sums over actuators, rotations, the clock.
    case pb_sensTendonactuatorfrc:
      for (int u = 0; u < m->nu; u++) {
        if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == id) y[0] += w->actuator_force[u];
      }
      return;
    case pb_sensBallquat:
      quat_copy(y, w->qpos + m->jnt_qposadr[id]);
      quat_normalize(y);
      return;
    case pb_sensBallangvel: v3_copy(y, w->qvel + m->jnt_dofadr[id]); return;
    case pb_sensClock: y[0] = w->time; return;
    default: break;
  }

  bool joint = type <= pb_sensJointlimitfrc;
  // Limits that are not active have no row: zero.
  r = NUM(pbSensor_Limit)(w, joint ? id : m->njnt + id);
  if (!r) return;
  if (type == pb_sensJointlimitpos || type == pb_sensTendonlimitpos) y[0] = r->pos[0] - r->margin;
  if (type == pb_sensJointlimitvel || type == pb_sensTendonlimitvel) y[0] = r->vel[0];
  if (type == pb_sensJointlimitfrc || type == pb_sensTendonlimitfrc) y[0] = r->f[0];
}

// Sensors in a site's own frame.
static void site_value(const NUM(pbWork) *w, int type, int site, num y[3]) {
  NUM(pbSensorFrame) f;
  num v[3];
  NUM(pbSensor_Frame)(w, pb_refSite, site, &f);

  // A vector in world axes, then in the site's.
  const num *hold = w->cfrc_int + 6 * f.body;
  switch (type) {
    case pb_sensAccelerometer: NUM(pbSensor_Acceleration)(w, &f, v); break;
    case pb_sensVelocimeter: NUM(pbSensor_Velocity)(w, &f, v); break;
    case pb_sensGyro: v3_copy(v, w->V + 6 * f.body); break;
    case pb_sensForce: v3_copy(v, hold + 3); break;
    case pb_sensTorque:
      v3_copy(v, hold);
      PB_ADDCROSS(v, -1, f.d, hold + 3);
      break;
    default: v3_copy(v, w->p.magnetic);
  }

  m3_tmulv(y, f.mat, v);
}

// Velocity of the frame relative to the reference frame, in world axes.
static void relative_velocity(const NUM(pbWork) *w, int type, const NUM(pbSensorFrame) *f, const NUM(pbSensorFrame) *ref,
                              num v[3]) {
  num u[3], arm[3];

  if (type == pb_sensFrameangvel) {
    v3_copy(v, w->V + 6 * f->body);
    if (ref) v3_subfrom(v, w->V + 6 * ref->body);
    return;
  }
  NUM(pbSensor_Velocity)(w, f, v);
  if (!ref) return;
  NUM(pbSensor_Velocity)(w, ref, u);
  v3_subfrom(v, u);
  v3_sub(arm, f->pos, ref->pos);
  v3_addcross(v, arm, w->V + 6 * ref->body);
}

// Relative to a reference frame where one is given; accelerations never are.
static void frame_value(const NUM(pbWork) *w, int i, int type, num y[4]) {
  const pbModel *m = w->m;
  int objtype = m->sensor_objtype[i], objid = m->sensor_objid[i], reftype = m->sensor_reftype[i], refid = m->sensor_refid[i];
  NUM(pbSensorFrame) f, ref;
  bool relative = refid >= 0 && type != pb_sensFramelinacc && type != pb_sensFrameangacc;

  // Offsets serve velocities and accelerations alone.
  bool moves = type >= pb_sensFramelinvel && type != pb_sensFrameangvel && type != pb_sensFrameangacc;
  frame_pose(w, objtype, objid, &f);
  if (relative) frame_pose(w, reftype, refid, &ref);
  if (moves) {
    body_offset(w, f.body, f.pos, f.d);
    if (relative) body_offset(w, ref.body, ref.pos, ref.d);
  }
  switch (type) {
    // The orientation is not a vector: nothing is left to rotate.
    case pb_sensFramequat:
      NUM(pbSensor_Quat)(w, objtype, objid, y);
      if (relative) {
        num q[4];
        NUM(pbSensor_Quat)(w, reftype, refid, q);
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
    case pb_sensFramelinacc: NUM(pbSensor_Acceleration)(w, &f, y); break;
    case pb_sensFrameangacc: v3_copy(y, w->A + 6 * f.body); break;
    default: relative_velocity(w, type, &f, relative ? &ref : NULL, y);
  }

  if (relative) m3_tmulv(y, ref.mat, y);
}

// Is the point within the site's shape?
static bool is_inside(int type, const double size[3], const double p[3]) {
  double z = fmax(fabs(p[2]) - size[1], 0), across = p[0] * p[0] + p[1] * p[1], sum = 0;
  switch (type) {
    case pb_geomCapsule: return across + z * z < size[0] * size[0];
    case pb_geomCylinder: return fabs(p[2]) < size[1] && across < size[0] * size[0];
    case pb_geomBox: return fabs(p[0]) < size[0] && fabs(p[1]) < size[1] && fabs(p[2]) < size[2];
    case pb_geomEllipsoid:
      for (int k = 0; k < 3; k++) sum += p[k] * p[k] / (size[k] * size[k]);
      return sum < 1;
    default: return across + p[2] * p[2] < size[0] * size[0];
  }
}

bool NUM(pbSensor_InSite)(const NUM(pbWork) *w, int site, const num local[3]) {
  const num *own = w->p.site_size + 3 * site;
  const double p[3] = {re(local[0]), re(local[1]), re(local[2])}, size[3] = {re(own[0]), re(own[1]), re(own[2])};
  return is_inside(w->m->site_type[site], size, p);
}

// 1 or 0: it jumps, and has no slope.
static num inside_value(const NUM(pbWork) *w, int i) {
  const pbModel *m = w->m;
  int object = m->sensor_objid[i], site = m->sensor_refid[i];
  NUM(pbSensorFrame) f;
  num from[3], local[3];
  frame_pose(w, m->sensor_objtype[i], object, &f);

  // Of a body without mass that carries some its center.
  bool carries = m->sensor_objtype[i] == pb_refBody && object > 0 && re(w->p.body_mass[object]) < TINY &&
                 re(w->p.body_subtreemass[object]) >= TINY;
  v3_sub(from, carries ? w->subtree_com + 3 * object : f.pos, w->site_xpos + 3 * site);
  m3_tmulv(local, w->site_xmat + 9 * site, from);
  return NUM(pbSensor_InSite)(w, site, local) ? 1 : 0;
}

// Where a site is seen in a camera's image, in pixels from its upper left corner.
static void projection(const NUM(pbWork) *w, int i, num y[2]) {
  const pbModel *m = w->m;
  int camera = m->sensor_refid[i];
  NUM(pbSensorFrame) f;
  num p[3];
  frame_pose(w, pb_refCamera, camera, &f);
  v3_sub(p, w->site_xpos + 3 * m->sensor_objid[i], f.pos);
  m3_tmulv(p, f.mat, p);

  // The view is along -z. Beside the camera there is no image: far away.
  num depth = p[2];
  if (fabs(re(depth)) < TINY) depth = re(depth) < 0 ? -TINY : TINY;

  for (int k = 0; k < 2; k++) {
    double sign = k ? 1 : -1;
    y[k] = 0.5 * m->cam_resolution[2 * camera + k] + sign * m->cam_lens[4 * camera + k] * num_div(p[k], depth);
  }
}

static void sensor_value(const NUM(pbWork) *w, int i, num y[PB_SENSOR_MOST]) {
  int type = w->m->sensor_type[i], id = w->m->sensor_objid[i];
  PB_ASSERT(w->m->sensor_dim[i] >= 1 && w->m->sensor_dim[i] <= PB_SENSOR_MOST);

  if (type == pb_sensSubtreecom) {
    v3_copy(y, w->subtree_com + 3 * id);
  } else if (type == pb_sensSubtreelinvel) {
    v3_copy(y, w->subtree_linvel + 3 * id);
  } else if (type == pb_sensSubtreeangmom) {
    angular_momentum(w, id, y);
  } else if (type >= pb_sensFramepos && type <= pb_sensFrameangacc) {
    frame_value(w, i, type, y);
  } else if (type >= pb_sensAccelerometer && type <= pb_sensMagnetometer) {
    site_value(w, type, id, y);
  } else if (type == pb_sensCamprojection) {
    projection(w, i, y);
  } else if (type == pb_sensPotential) {
    y[0] = NUM(pbEnergy_Gravity)(w, false) + NUM(pbEnergy_Springs)(w);
  } else if (type == pb_sensKinetic) {
    y[0] = NUM(pbEnergy_Kinetic)(w);
  } else if (type == pb_sensInsidesite) {
    y[0] = inside_value(w, i);
  } else if (pb_measuresDistance(type)) {
    NUM(pbDistance_Read)(w, i, y);
  } else {
    scalar_value(w, type, id, y);
  }
}

static num apply_cutoff(int datatype, num cutoff, num y) {
  if (!(re(cutoff) > 0)) return y;
  if (datatype == pb_dataReal) return num_clip(y, -cutoff, cutoff);
  return datatype == pb_dataPositive && re(y) > re(cutoff) ? cutoff : y;
}

void NUM(pbSensor_Share)(const NUM(pbWork) *w) {
  const pbModel *m = w->m;
  bool subtrees = false;
  for (int i = 0; i < m->nsensor; i++) {
    subtrees = subtrees || (m->sensor_type[i] >= pb_sensSubtreecom && m->sensor_type[i] <= pb_sensInsidesite);
  }
  if (subtrees) subtree_motion(w);
}

// Numbers side by side, each held within the cutoff.
static void clip_values(const NUM(pbWork) *w, int i, num *y) {
  num cutoff = w->p.sensor_cutoff[i];
  if (!(re(cutoff) > 0) || w->m->sensor_type[i] == pb_sensFromto) return;
  for (int k = 0; k < w->m->sensor_dim[i]; k++) y[k] = apply_cutoff(w->m->sensor_datatype[i], cutoff, y[k]);
}

void NUM(pbSensor_Read)(const NUM(pbWork) *w, int i) {
  const pbModel *m = w->m;
  num y[PB_SENSOR_MOST] = {0}, *out = w->sensordata + m->sensor_adr[i];

  if (m->sensor_type[i] == pb_sensContact) return;  // after contacts: contact/contact_sensor.c

  // As many rays as there are pixels.
  if (m->sensor_type[i] == pb_sensRangefinder) {
    if (!(m->disableflags & pb_disSensor)) NUM(pbRay_Read)(w, i, out);
  } else {
    if (!(m->disableflags & pb_disSensor)) sensor_value(w, i, y);
    memcpy(out, y, (size_t)m->sensor_dim[i] * sizeof *y);
  }
  clip_values(w, i, out);
}

void NUM(pbStage_Sensors)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  bool holds = false;
  memset(w->sensordata, 0, (size_t)m->nsensordata * sizeof(num));
  if (m->disableflags & pb_disSensor) return;
  for (int i = 0; i < m->nsensor; i++) {
    holds = holds || m->sensor_type[i] == pb_sensForce || m->sensor_type[i] == pb_sensTorque;
  }

  // What several sensors share, where one asks for it.
  if (holds) interaction_wrenches(w);
  NUM(pbSensor_Share)(w);
  for (int i = 0; i < m->nsensor; i++) NUM(pbSensor_Read)(w, i);
}
