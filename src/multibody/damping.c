// Damping of joints and tendons, with what actuators reflect to them.
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "eval/mechanism.h"
#include "math/vec.h"
#include "multibody/damping.h"

// Damping that actuators reflect to a joint's dof or a tendon: actuator_damping gear^2, with its polynomial.
static inline void add_reflected_damping(const NUM(pbMechanism) *w, const int *start, const int *list, int i, num c[3]) {
  for (int k = start[i]; k < start[i + 1]; k++) {
    int u = list[k];
    if (num_is(w->p.actuator_damping[u], 0) && num_is(w->p.actuator_dampingpoly[2 * u], 0) &&
        num_is(w->p.actuator_dampingpoly[2 * u + 1], 0))
      continue;
    num gear2 = w->p.actuator_gear[6 * u] * w->p.actuator_gear[6 * u];
    c[0] += w->p.actuator_damping[u] * gear2;
    c[1] += w->p.actuator_dampingpoly[2 * u] * gear2;
    c[2] += w->p.actuator_dampingpoly[2 * u + 1] * gear2;
  }
}

void NUM(pbDof_Damping)(const NUM(pbMechanism) *w, int dof, num c[3]) {
  c[0] = w->p.dof_damping[dof];
  c[1] = w->p.dof_dampingpoly[2 * dof];
  c[2] = w->p.dof_dampingpoly[2 * dof + 1];
  add_reflected_damping(w, w->t->dof_actuator_start, w->t->dof_actuator, dof, c);
}

void NUM(pbTendon_Damping)(const NUM(pbMechanism) *w, int tendon, num c[3]) {
  c[0] = w->p.tendon_damping[tendon];
  c[1] = w->p.tendon_dampingpoly[2 * tendon];
  c[2] = w->p.tendon_dampingpoly[2 * tendon + 1];
  add_reflected_damping(w, w->t->ten_actuator_start, w->t->ten_actuator, tendon, c);
}
