// Where the motion bends by a parameter (pbBend): ends of ranges, clamps of the kernels, ties of mixed contact parameters.
// Tests: tests/unit/test_kinks.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/model.h"
#include "model/param.h"
#include "model/topology.h"

// Ends of a value beyond which another takes its place (bodies/rows/friction.c, contact/contact.c).
typedef struct Clamp {
  double least, most;
} Clamp;

static const double least_friction = 1e-5;  // PB_LEAST_FRICTION

static Clamp clamp_of(const pbParam *p, pbKink kink, int column) {
  static const Clamp impedance[5] = {{1e-4, 0.9999}, {1e-4, 0.9999}, {0, INFINITY}, {1e-4, 0.9999}, {1, INFINITY}};
  if (kink == pb_kinkImpedance) return impedance[column];
  if (kink == pb_kinkFriction || kink == pb_kinkMixedFriction) return (Clamp){least_friction, INFINITY};
  if (kink == pb_kinkFluid && column == 0) return (Clamp){0, INFINITY};
  return (Clamp){p->lower, p->upper};
}

// Does a contact of the two geoms read the field from one of them by comparing their values? Friction and restitution under
// mixing by maximum or minimum; solref in its direct format, of which the lesser counts. Means and priorities do not compare
// values.
static bool takes_extreme(const pbModel *m, const double *theta, pbKink kink, int geom1, int geom2) {
  bool extreme = m->contact.mixing == pb_mixingMaximum || m->contact.mixing == pb_mixingMinimum;
  if (kink == pb_kinkMixedRestitution) return extreme;
  if (m->geom_priority[geom1] != m->geom_priority[geom2]) return false;
  if (kink == pb_kinkMixedFriction) return extreme;
  const double *solref = theta + (m->geom_solref - m->theta0);

  return kink == pb_kinkMixedReference && !(solref[2 * geom1] > 0 && solref[2 * geom2] > 0);
}

// A delay acts where samples are kept and, held from one to the next, jumps from step to step. On a line it has a slope on either
// side of every whole step (half of one under Runge-Kutta), of which derivatives are that of shorter delays; on a spline one.
static pbBend bend_of_delay(const pbModel *m, const double *theta, const pbParam *p, int row) {
  const int *history = (p->rows_are == pb_objSensor ? m->sensor_history : m->actuator_history) + 2 * row;
  double delay = theta[p->offset + (size_t)row], step = theta[m->timestep - m->theta0] * (pb_staged(m) ? 0.5 : 1);
  pbBend bend = {.at = delay};

  // What keeps no samples acts at once, whatever its delay.
  if (history[0] < 1 || history[1] == pb_interpZoh || delay <= 0) bend.kind = pb_bendFlat;
  else if (history[1] == pb_interpLinear && fabs(delay / step - round(delay / step)) < 1e-9) bend.kind = pb_bendUpper;
  return bend;
}

static bool find_tie(const pbModel *m, const double *theta, const pbParam *p, pbKink kink, int row, int column, pbBend *bend) {
  if (kink < pb_kinkMixedFriction) return false;
  const double *values = theta + p->offset;

  for (int c = 0; c < m->topology->ncandidate; c++) {
    const pbCandidate *pair = m->topology->candidate + c;
    if (pair->pair >= 0 || (pair->geom1 != row && pair->geom2 != row)) continue;

    // Both geoms have the same value and one of them counts: which one depends on the smallest change of either.
    int other = pair->geom1 == row ? pair->geom2 : pair->geom1;
    bool level = values[other * p->cols + column] == values[row * p->cols + column];
    if (!level || !takes_extreme(m, theta, kink, row, other)) continue;

    bend->kind = pb_bendTie;
    bend->other = p->offset + (size_t)(other * p->cols + column);
    return true;
  }
  return false;
}

static pbBendKind kind_at_end(Clamp c, double value) {
  if (value == c.least) return pb_bendLower;
  return value == c.most ? pb_bendUpper : pb_bendNone;
}

pbBend pbBend_At(const pbModel *m, const double *theta, const pbParam *p, int row, int column) {
  PB_ASSERT(row >= 0 && row < p->rows && column >= 0 && column < p->cols);
  double value = theta[p->offset + (size_t)(row * p->cols + column)];
  const pbParamRow *facts = pbParam_Named(p->name);
  pbKink kink = facts ? facts->kink : pb_kinkSmooth;
  if (kink == pb_kinkDelay) return bend_of_delay(m, theta, p, row);
  Clamp c = clamp_of(p, kink, column);
  pbBend bend = {.at = value};

  // Beyond an end the value has no effect; at an end it has a slope on one side.
  if (value < c.least || value > c.most) {
    bend.kind = pb_bendFlat;
    bend.at = value < c.least ? c.least : c.most;
  } else if (!find_tie(m, theta, p, kink, row, column, &bend)) {
    bend.kind = kind_at_end(c, value);
  }

  return bend;
}
