// The check of a model's derivatives: what it draws.
// Tests: tests/oracle/test_check.py.
#include <math.h>
#include <string.h>

#include "check/check.h"

// Unit vectors move on their spheres: direction -= value <value, direction> / <value, value>.
static void keep_unit_length(const double *value, double *direction, int n) {
  double along = pbCheck_Dot(value, direction, (size_t)n);
  double size = pbCheck_Dot(value, value, (size_t)n);
  if (!(size > 0)) return;

  for (int i = 0; i < n; i++) direction[i] -= value[i] * along / size;
}

static void keep_joint_quaternions(const pbCheck *d, const pbParam *p, double *direction) {
  pbField type, address;
  if (!pbModel_Field(d->r->model, "jnt_type", &type) || !pbModel_Field(d->r->model, "jnt_qposadr", &address)) return;

  for (int j = 0; j < type.rows; j++) {
    if (type.integers[j] != pb_jntFree && type.integers[j] != pb_jntBall) continue;
    size_t at = p->offset + (size_t)address.integers[j] + (type.integers[j] == pb_jntFree ? 3 : 0);
    keep_unit_length(d->theta + at, direction + at, 4);
  }
}

// Relative to the values: zeros (no friction, no margin) stay zero, where many fields have their kinks.
void pbCheck_DrawParameter(pbCheck *d, const pbParam *p, double *direction) {
  const double *theta = d->theta;
  size_t count = (size_t)p->rows * (size_t)p->cols;
  for (size_t i = 0; i < count; i++) direction[p->offset + i] = pbRng_Normal(&d->rng) * fabs(theta[p->offset + i]);

  pbField eq_type = {0};
  bool weld = p->moves == pb_movesWelds && pbModel_Field(d->r->model, "eq_type", &eq_type);

  for (int r = 0; r < p->rows; r++) {
    size_t at = p->offset + (size_t)r * (size_t)p->cols;
    if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) keep_unit_length(theta + at, direction + at, p->cols);

    // in a weld's data the relative quaternion follows anchor and position
    if (weld && eq_type.integers[r] == 1) keep_unit_length(theta + at + 6, direction + at + 6, 4);

    // midpoint and power of solimp: exponents with kinks at their defaults
    if (strstr(p->name, "solimp")) direction[at + 3] = direction[at + 4] = 0;
  }

  if (p->moves == pb_movesPositions) keep_joint_quaternions(d, p, direction);
}

void pbCheck_DrawTheta(pbCheck *d) {
  memset(d->theta_direction, 0, d->r->ntheta * sizeof *d->theta_direction);
  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    pbCheck_DrawParameter(d, &p, d->theta_direction);
  }
}
