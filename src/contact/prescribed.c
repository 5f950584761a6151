// The relative velocity at a contact that the paths of mocap bodies prescribe.
// Tests: tests/unit/test_mocap_rate.c, tests/python/test_prescribed.py.
#include "contact/prescribed.h"

#include "math/vec.h"

// Adds a side's velocity of the point and angular velocity.
static void add_side(const NUM(pbConstraints) *w, int geom, const num *point, double sign, num u[3], num o[3]) {
  int k = pb_carrier(w->m, geom);
  if (k < 0) return;

  // v + turn x arm, of the point that touches.
  const num *velocity = w->mocap_vel + 6 * k, *turn = velocity + 3;
  num arm[3], across[3];
  v3_sub(arm, point, w->mocap_pos + 3 * k);
  v3_cross(across, turn, arm);
  for (int i = 0; i < 3; i++) {
    u[i] += sign * (velocity[i] + across[i]);
    o[i] += sign * turn[i];
  }
}

void NUM(pbContact_Prescribed)(const NUM(pbConstraints) *w, const NUM(pbContact) *c, num out[6]) {
  num u[3] = {0}, o[3] = {0};

  // Geom 2 against geom 1, as the rows of J have it.
  add_side(w, c->geom1, c->pos, -1, u, o);
  add_side(w, c->geom2, c->pos, 1, u, o);

  // In the frame of the contact: normal, then tangents.
  for (int k = 0; k < 3; k++) {
    out[k] = v3_dot(c->frame + 3 * k, u);
    out[3 + k] = v3_dot(c->frame + 3 * k, o);
  }
}
