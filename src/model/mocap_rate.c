// Velocities of mocap bodies by where they stand and stood a step before, and their derivatives. With the pose's rotation R and
// that before, R0, the turn D = R R0' = exp(phi) of the world's frame gives w = phi / h. A rotation of a body in its own frame,
// R exp(r), turns D to D exp(R0 r): so dphi = Jr(phi)^-1 R0 (r - r0), Jr the right Jacobian of the exponential map.
// Tests: tests/unit/test_mocap_rate.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "deform/deform.h"
#include "elementary/elementary.h"
#include "math/vec.h"
#include "model/equality.h"
#include "model/mocap.h"
#include "model/model.h"
#include "model/topology.h"

// One body's turn in a step: rotation vector, R0 and the inverse of Jr' as far as they are asked for.
typedef struct Turn {
  double phi[3];
  double before[9];  // R0
  double cross;      // Jr^-1 = 1 + [phi] / 2 + cross [phi]^2
} Turn;

static void unit_quat(const double *quat, double *out) {
  double length = sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3]);
  // Of no length: the step that takes it says so.
  for (int i = 0; i < 4; i++) out[i] = length > 0 ? quat[i] / length : i == 0;
}

static Turn turn_of(const double *before, const double *quat) {
  Turn t = {.cross = 1. / 12};
  double q0[4], q[4], way[4];

  unit_quat(before, q0);
  quat_to_mat(t.before, q0);

  // What does not turn does so to the bit.
  bool same = before[0] == quat[0] && before[1] == quat[1] && before[2] == quat[2] && before[3] == quat[3];
  if (same) return t;

  unit_quat(quat, q);
  const double back[4] = {q0[0], -q0[1], -q0[2], -q0[3]};
  quat_mul(way, q, back);
  quat_log(t.phi, way);

  // Near zero by its series
  double angle = sqrt(v3_dot(t.phi, t.phi));
  if (angle > 1e-3) t.cross = 1 / (angle * angle) - (1 + pbCos(angle)) / (2 * angle * pbSin(angle));
  else t.cross += angle * angle / 720;
  return t;
}

// Jr(phi)^-1 u, transposed: of -phi.
static void turn_rate(const Turn *t, double sign, const double *u, double *out) {
  double once[3], twice[3];

  v3_cross(once, t->phi, u);
  v3_cross(twice, t->phi, once);
  for (int i = 0; i < 3; i++) out[i] = u[i] + sign * 0.5 * once[i] + t->cross * twice[i];
}

static void rate_of(const double *pos0, const double *quat0, const double *pos, const double *quat, double h, double *velocity) {
  PB_ASSERT(h > 0);
  Turn t = turn_of(quat0, quat);

  for (int i = 0; i < 3; i++) {
    velocity[i] = (pos[i] - pos0[i]) / h;
    velocity[3 + i] = t.phi[i] / h;
  }
}

void pbMocap_Rate(const pbModel *m, const pbMocapPath *p, double *velocity) {
  for (int k = 0; k < m->nmocap; k++)
    rate_of(p->pos[0] + 3 * k, p->quat[0] + 4 * k, p->pos[1] + 3 * k, p->quat[1] + 4 * k, p->h, velocity + 6 * k);
}

static double difference(const double *const both[2], int i) { return (both[1] ? both[1][i] : 0) - (both[0] ? both[0][i] : 0); }

void pbMocap_PushRate(const pbModel *m, const pbMocapPath *p, const pbMocapTangent *d, double *velocity) {
  for (int k = 0; k < m->nmocap; k++) {
    Turn t = turn_of(p->quat[0] + 4 * k, p->quat[1] + 4 * k);
    double r[3], u[3], turned[3];

    for (int i = 0; i < 3; i++) r[i] = difference(d->rot, 3 * k + i);
    m3_mulv(u, t.before, r);
    turn_rate(&t, 1, u, turned);

    // A longer step is a slower motion.
    for (int i = 0; i < 3; i++) {
      double moved = p->pos[1][3 * k + i] - p->pos[0][3 * k + i];
      velocity[6 * k + i] = (difference(d->pos, 3 * k + i) - moved / p->h * d->h) / p->h;
      velocity[6 * k + 3 + i] = (turned[i] - t.phi[i] / p->h * d->h) / p->h;
    }
  }
}

// The cotangent of the difference goes to both.
static void add_difference(double *const both[2], int i, double value) {
  if (both[1]) both[1][i] += value;
  if (both[0]) both[0][i] -= value;
}

void pbMocap_PullRate(const pbModel *m, const pbMocapPath *p, const double *bar, const pbMocapBar *to) {
  for (int k = 0; k < m->nmocap; k++) {
    Turn t = turn_of(p->quat[0] + 4 * k, p->quat[1] + 4 * k);
    const double *moved = bar + 6 * k, *turned = moved + 3;
    double u[3], r[3];

    turn_rate(&t, -1, turned, u);
    m3_tmulv(r, t.before, u);

    for (int i = 0; i < 3; i++) {
      double way = p->pos[1][3 * k + i] - p->pos[0][3 * k + i];
      add_difference(to->pos, 3 * k + i, moved[i] / p->h);
      add_difference(to->rot, 3 * k + i, r[i] / p->h);
      if (to->h) *to->h -= (moved[i] * way + turned[i] * t.phi[i]) / (p->h * p->h);
    }
  }
}

void pbMocap_Flow(const pbModel *m, const double *quat, const double *velocity, double *pos, double *rot) {
  for (int k = 0; k < m->nmocap; k++) {
    double unit[4], R[9];
    unit_quat(quat + 4 * k, unit);
    quat_to_mat(R, unit);
    v3_copy(pos + 3 * k, velocity + 6 * k);
    m3_tmulv(rot + 3 * k, R, velocity + 6 * k + 3);
  }
}

// Jl the left Jacobian of the exponential map, exp(phi + dphi) = exp(Jl(phi) dphi) exp(phi): with the orientation there R = exp(s
// w) R0 a change dw turns it by R' Jl(s w) s dw in its own frame.
void pbMocap_PullMove(const pbModel *m, const double *quat, const double *velocity, double span, const double *pos_bar,
                      const double *rot_bar, double *velocity_bar) {
  for (int k = 0; k < m->nmocap; k++) {
    double unit[4], R[9], phi[3], turned[3], once[3], twice[3];
    unit_quat(quat + 4 * k, unit);
    quat_to_mat(R, unit);
    v3_scale(phi, velocity + 6 * k + 3, span);
    double angle = sqrt(v3_dot(phi, phi));

    // Jl' = Jr: 1 - (1 - cos) / angle^2 [phi] + (angle - sin) / angle^3 [phi]^2
    double first = 0.5 - angle * angle / 24, second = 1. / 6 - angle * angle / 120;
    if (angle > 1e-3) {
      first = (1 - pbCos(angle)) / (angle * angle);
      second = (angle - pbSin(angle)) / (angle * angle * angle);
    }
    m3_mulv(turned, R, rot_bar + 3 * k);
    v3_cross(once, phi, turned);
    v3_cross(twice, phi, once);
    for (int i = 0; i < 3; i++) {
      velocity_bar[6 * k + i] += span * pos_bar[3 * k + i];
      velocity_bar[6 * k + 3 + i] += span * (turned[i] - first * once[i] + second * twice[i]);
    }
  }
}

// ---- jumps ------------------------------------------------------------------------------------------------------------------
// A step is swept along straight lines: beyond a quarter turn they say nothing of the way, and what goes far beyond the scene
// within a step was put there.
bool pbMocap_Jumps(const pbModel *m, const double *velocity, double h) {
  static const double quarter = PB_PI / 2, scenes = 4;
  double size = m->deform ? fmax(m->stat_extent[0], m->deform->size) : m->stat_extent[0];
  double moved = h * sqrt(v3_dot(velocity, velocity)), turned = h * sqrt(v3_dot(velocity + 3, velocity + 3));
  return !(moved <= scenes * size && turned <= quarter);
}

static bool carries_body(const pbModel *m, int mocap, int body) { return m->body_mocapid[m->body_rootid[body]] == mocap; }

static bool carries_geom(const pbModel *m, int mocap, int geom) { return carries_body(m, mocap, m->geom_bodyid[geom]); }

static bool carries_end(const pbModel *m, int mocap, int equality, int id) {
  if (id < 0 || !pbEquality_HasEnds(m->eq_type[equality])) return false;
  return carries_body(m, mocap, m->eq_objtype[equality] == pb_objSite ? m->site_bodyid[id] : id);
}

bool pbMocap_Meets(const pbModel *m, int mocap) {
  const pbTopology *t = m->topology;

  for (int b = 0; b < m->nbody; b++) {
    if (m->body_dofnum[b] > 0 && carries_body(m, mocap, b)) return true;
  }
  for (int i = 0; i < t->ncandidate; i++) {
    const pbCandidate *c = t->candidate + i;
    if (carries_geom(m, mocap, c->geom1) || carries_geom(m, mocap, c->geom2)) return true;
  }
  for (int i = 0; i < m->neq; i++) {
    if (carries_end(m, mocap, i, m->eq_obj1id[i]) || carries_end(m, mocap, i, m->eq_obj2id[i])) return true;
  }
  for (int i = 0; m->deform && i < m->deform->nattached; i++) {
    if (carries_body(m, mocap, m->deform->attached_body[i])) return true;
  }
  return false;
}

bool pbMocap_Counts(const pbModel *m) {
  return m->deform || m->contact.method == pb_contactImpact || m->contact.mocap_motion == pb_mocapFollowed;
}

bool pbMocap_Settle(const pbModel *m, double h, bool counts, double *velocity, char *text, size_t size) {
  char name[160];

  for (int i = 0; i < m->nmocap; i++) {
    double *v = velocity + 6 * i;
    if (!pbMocap_Jumps(m, v, h)) continue;
    if (counts && pbMocap_Meets(m, i)) {
      pbMocap_Name(m, i, name, sizeof name);
      snprintf(
          text, size,
          "the path of %s jumps: by %.3g m and %.3g rad in a step, from where it stood before; what it touches or holds cannot "
          "follow (mocap_vel says how it moves there, the pose before row 0 where it comes from)",
          name, h * sqrt(v3_dot(v, v)), h * sqrt(v3_dot(v + 3, v + 3)));
      return false;
    }
    memset(v, 0, 6 * sizeof *v);
  }
  return true;
}

pbStatus pbModel_MocapVelocity(pbContext *ctx, const pbModel *m, const double *theta, const double *pos_before,
                               const double *quat_before, const double *pos, const double *quat, double *velocity) {
  double h = theta[m->timestep - m->theta0];
  char text[400];

  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;

    // What is not given is the model's.
    const double *own_pos = theta + (m->body_pos - m->theta0) + 3 * b;
    const double *own_quat = theta + (m->body_quat - m->theta0) + 4 * b;
    rate_of(pos_before ? pos_before + 3 * k : own_pos, quat_before ? quat_before + 4 * k : own_quat, pos ? pos + 3 * k : own_pos,
            quat ? quat + 4 * k : own_quat, h, velocity + 6 * k);
  }

  if (pbMocap_Settle(m, h, pbMocap_Counts(m), velocity, text, sizeof text)) return pb_ok;
  return ctx ? pbContext_Fail(ctx, pb_bad_input, "%s", text) : pb_bad_input;
}
