// Points on bodies and the forces on them, with derivatives along a direction by complex step.
#include "model/joint.h"
#include "number/number.h"

#if PB_IS_COMPLEX

#include "couple/attach.h"
#include "couple/attach_jvp.h"
#include "math/vec.h"
#include "step/integrate.h"
#include "step/jvp_parts.h"

size_t pbJvp_RideRoom(const pbModel *m, int count) { return (6 * (size_t)(count + m->nbody) + 2 * (size_t)m->nv) * sizeof(num); }

void pbJvp_RideTheta(void *block, const double *theta, const double *direction) {
  pbJvp *j = block;
  j->shrink = j->grow = 1;
  pbJvp_LoadTheta(j, theta, direction);
}

void pbJvp_RidePoke(void *block, const double *theta, size_t entry, int col, int cols, bool unit, double slope) {
  pbJvp *j = block;
  num *row = j->theta + entry - col;
  for (int c = 0; c < cols; c++) row[c] = num_make(theta[entry - (size_t)col + (size_t)c], c == col ? pbJvp_StepIn(j, slope) : 0);
  if (unit) pbJvp_Project(row, 1, cols);
}

// out = Jr(turn)' x, Jr the right Jacobian of the exponential.
static void right_jacobian(const num turn[3], const num x[3], num out[3]) {
  num t2 = v3_dot(turn, turn), b, c, y[3], yy[3];
  if (re(t2) < 1e-4) {  // series
    b = 0.5 - t2 / 24 * (1 - t2 / 30), c = 1. / 6 - t2 / 120 * (1 - t2 / 42);
  } else {
    num t = num_sqrt(t2);
    b = (1 - num_cos(t)) / t2, c = (t - num_sin(t)) / (t2 * t);
  }
  v3_cross(y, turn, x), v3_cross(yy, turn, y);
  for (int k = 0; k < 3; k++) out[k] = x[k] + b * y[k] + c * yy[k];
}

// tau by positions to tau by accelerations: h^2 times the derivative of the turn, where there is one.
static void by_acceleration(const pbModel *m, const num *u, num h, num *tau) {
  for (int k = 0; k < m->njnt; k++) {
    int dof = m->jnt_dofadr[k], type = m->jnt_type[k], n = pbJoint_PlainCount(type);
    if (pbJoint_HasRotation(type)) {
      num turn[3], t[3];
      v3_scale(turn, u + dof + n, h);
      right_jacobian(turn, tau + dof + n, t);
      v3_copy(tau + dof + n, t);
    }
  }
  for (int i = 0; i < m->nv; i++) tau[i] *= h * h;
}

static void both(const pbJvp *j, const num *z, int n, double *value, double *slope) {
  for (int i = 0; value && i < n; i++) value[i] = re(z[i]);
  pbJvp_Imaginary(j, slope, z, n);
}

void pbJvp_Ride(void *block, const pbRide *r, const pbRideWay *way, double *x, double *x_way, double *tau, double *tau_way) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  int n = 3 * r->at->count, nv = m->nv;
  num *local = r->room, *place = local + n, *wrench = place + n, *torque = wrench + 6 * m->nbody, *u = torque + nv;
  num h = w->p.timestep[0];
  pbJvp_LoadPosition(j, r->qpos, way->q);
  pbJvp_Blend(j, u, r->qvel, way->v, nv);
  for (int i = 0; i < nv; i++) u[i] += h * num_make(r->acc ? r->acc[i] : 0, way->acc ? pbJvp_StepIn(j, way->acc[i]) : 0);
  if (!r->start) pbIntegrate_Position_c(m, w->qpos, u, h);
  pbStage_Kinematics_c(w);
  pbJvp_Blend(j, local, r->local, way->local, n);
  pbAttach_Places_c(w, r->at, local, place);
  both(j, place, n, x, x_way);
  if (!r->force) return;
  pbAttach_Force_c(w, r->at, place, r->force, wrench, torque);
  by_acceleration(m, u, h, torque);
  both(j, torque, nv, tau, tau_way);
}

#endif
