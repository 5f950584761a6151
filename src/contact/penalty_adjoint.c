// Penalty forces by depth, velocity and parameters (penalty.h):
//   y . f = N (y_0 - W),   W = sum of friction_j^2 y_j v_j / slide,   slide^2 = sum of (friction_j v_j)^2 + (friction_1 slip)^2
// Tests: tests/unit/test_contact.c.
#include "contact/penalty.h"

#include "contact/row_adjoint.h"

void LANE(pbPenalty_Pull)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, LANE(pbRowBar) *bar) {
  const num *friction = w->contact[r->contact].friction;
  const num *v = r->vel;
  double slip = w->m->contact.slip;
  num stiffness = w->p.contact_stiffness[0];
  num damping = w->p.contact_damping[0];
  NUM(pbNormalForce) N = NUM(pbPenalty_Normal)(stiffness, damping, w->m->contact.width, r->margin - r->pos[0], v[0]);
  num slide = NUM(pbPenalty_Slide)(r->dim, friction, slip, v);

  // By the normal force.
  lane W = PB_LANE_ZERO;
  for (int j = 1; j < r->dim; j++) W += friction[j - 1] * friction[j - 1] * v[j] / slide * bar->y[j];
  lane y = bar->y[0] - W;
  bar->pos[0] -= y * N.by_depth;
  bar->margin += y * N.by_depth;
  bar->vel[0] += y * N.by_speed;
  bar->stiffness += y * N.by_stiffness;
  bar->damping += y * N.by_damping;

  // By sliding velocity and friction, which enter W themselves and in slide; only the first friction multiplies slip there.
  for (int j = 1; j < r->dim; j++) {
    num mu = friction[j - 1];
    num each = N.force / slide;
    double rest = j == 1 ? slip : 0;
    bar->vel[j] -= each * mu * mu * (bar->y[j] - W * (v[j] / slide));
    bar->friction[j - 1] -= each * mu * (2 * v[j] * bar->y[j] - W * ((v[j] * v[j] + rest * rest) / slide));
  }
}
