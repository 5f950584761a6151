// What the step with impacts (impact.c) and its derivatives (impact_derivative.c) have in common.
#ifndef PB_IMPACT_PARTS_H
#define PB_IMPACT_PARTS_H

#include <string.h>

#include "impact/impact.h"
#include "impact/variants.h"
#include "step/scratch.h"

enum { pb_maxImpacts = 128 };  // in a step

// From `start` for a time to `end`; there, but for the last of a step, is an impact at a contact point of a candidate.
typedef struct pbFlight {
  double time, begun;  // begun: time of the step that was over at its start
  int candidate, point;
  bool timed;  // the time of the impact moves with the gap; false: the geoms overlapped at the start, and it is there
  double *start, *end, *stages;
} pbFlight;

// Contacts near touch at one state.
typedef struct pbTouches {
  pbTouch *list;
  int count;
} pbTouches;

struct pbImpacts {
  int count, simultaneous;  // of the last step
  int gains, gaining[2];    // impacts that made energy, geoms of the worst, and its joules
  double approach, residual, gain;
  bool converged;  // every solve of its flights
  pbFlight flight[pb_maxImpacts + 1];
  pbTouches now, then;                 // at a flight's start, and at its end
  int most;                            // in a list
  double *theta, *direction, *unused;  // ntheta: theta with a flight's time step; one of its directions; a gradient not wanted
  double *stages;                      // of the evaluation at the start of the step
  double *x_bar, *pulled, *by_time, *slope;  // tangent size, and nv: cotangents, motion by a flight's time, slope of a gap
  double *v_bar, *tangent, *moved;
  double timestep;          // of the step
  double *pose_bar, *flow;  // 12 and 6 nmocap: cotangents of poses and velocities at an impact; how poses flow
};

static inline size_t pb_timestepAt(const pbModel *m) { return (size_t)(m->timestep - m->theta0); }
static inline size_t pb_stateBytes(const pbModel *m) { return (size_t)pbModel_StateSize(m) * sizeof(double); }
static inline size_t pb_stageBytes(const pbModel *m) { return (size_t)(pb_solutions(m) * m->nv) * sizeof(double); }
static inline size_t pb_tangentBytes(const pbModel *m) { return (size_t)pbModel_TangentSize(m) * sizeof(double); }

static inline void pbImpacts_SetTime(pbScratch *s, double time) { s->impacts->theta[pb_timestepAt(s->model)] = time; }

// What is left of the step after a part of it, negative: bodies that are led stand so far before the pose of the step.
static inline double pb_spanAt(const pbImpacts *p, double over) { return over - p->timestep; }

// All flights of the step from x; sense: sensors of its start are left in the work.
PB_NODISCARD pbStatus pbImpacts_Fly(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense);

#endif
