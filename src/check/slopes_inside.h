// What the differences of a short rollout share (check_slopes.c, and check_slope_sets.c for parameters).
#ifndef PB_SLOPES_INSIDE_H
#define PB_SLOPES_INSIDE_H

#include "check/check.h"

enum { slope_tests = 4, most_bends = 6 };

typedef enum Kind { by_state, by_control, by_parameter } Kind;
typedef enum Seen { in_states, in_sensors, seen_count } Seen;

typedef struct Slopes {
  pbCheck *d;
  pbCheckTest *tests[slope_tests];  // NULL: nothing of the kind in the model
  int first_test, bend_count;
  pbRollout *rollout;
  int steps;
  bool touching, tied;       // there are contacts, some of which have no derivative of every direction
  double size[seen_count];   // of the terms of a functional, for what rounding leaves of its differences
  double noise[seen_count];  // what it changes by where every parameter moves by some units in its last place
  size_t nx, nt, nv, na, nu, ns, np, points;
  const pbParam *dry;                                   // the friction loss that leaves its bound 0, or NULL
  double *states, *sensors, *states_try, *sensors_try;  // (steps + 1) rows
  double *w[seen_count];                                // cotangents: (steps + 1, nt), (steps + 1, ns)
  double *split;                                        // the first by quantity
  double *x_bar[seen_count], *u_bar[seen_count], *theta_bar[seen_count];
  double *x_direction, *u_direction, *theta_direction, *x_start, *x, *u, *theta, *theta_near, *change, *tangent, *memory;
} Slopes;

// How a gradient stands to the slopes of both sides (one: only to the right). strict: at a bend, to their mean.
typedef struct Verdict {
  bool known, bent, drowned;  // drowned: rounding alone hides the slopes
  double gradient, right, left, error;
} Verdict;

// What is compared along the directions that are set.
typedef struct Comparison {
  Kind kind;
  bool one;             // into the domain only, as at a bound
  bool strict;          // at a bend the mean of both slopes
  const char *name;     // of the parameter, or NULL
  const char *excused;  // why a disagreement is left out; NULL: it is not
} Comparison;

void pbSlopes_ClearDirections(Slopes *s);
// Derivatives of both functionals by forward mode along the direction that is set, which is shortened where it moves too far.
pbStatus pbSlopes_Push(Slopes *s, double ahead[seen_count]);
// Compares along the direction that is set, at the first step size that agrees with the gradient, else at the most certain one.
void pbSlopes_Measure(Slopes *s, bool one, bool strict, Verdict v[seen_count], double limit);
// Takes joints out of the direction that the least friction loss of the comparison would hold, because a lesser force moves them:
// the slope there is that of still smaller losses, which no difference shows. How many.
int pbSlopes_LeaveHeld(Slopes *s, const pbParam *p);
// Slopes against reverse mode, forward mode against reverse mode. *wrong: one of them disagrees.
pbStatus pbSlopes_Compare(Slopes *s, const Comparison *c, Verdict v[seen_count], bool *wrong);
// Which test a functional's slope belongs to; NULL: none.
pbCheckTest *pbSlopes_TestOf(Slopes *s, Kind kind, Seen seen);
const char *pbSlopes_Place(const Verdict *v, bool one);
void pbSlopes_AddWords(pbCheckTest *t, const char *before, const char *name, const char *what);
// All parameters, set by set.
pbStatus pbSlopes_Parameters(Slopes *s);

#endif
