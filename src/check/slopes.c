// The check of a model's derivatives, a few steps: those of all states and all sensors by state, control and parameters, in
// reverse and forward mode, against one-sided slopes. Parameters go field by field, in sets of entries that move together: those
// with a size of their own, zeros, those at a bound. These move into their domain, any other to both sides, where the mean of
// both counts: at a tie that is the even share. What does not settle as the move shrinks (a jump, an onset) is left out.
// Tests: tests/oracle/test_check.py, tests/oracle/test_cli.py.
#include <float.h>
#include <math.h>
#include <string.h>

#include "check/check.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "probe/probe.h"

enum { most_bends = 6, most_blamed = 60, most_steps = 3 };
static const double slope_limit = 1e-4;

typedef struct Slopes {
  pbCheck *d;
  pbCheckTest *by[by_theta + 1][seen_count];  // NULL: there is nothing of the kind, or it is tested step by step
} Slopes;

// Sets of a parameter's entries, each moved by itself: with a size of their own, zero, at a bound.
typedef enum Set { inside, zeros, edges, set_count } Set;

// ---- friction losses -------------------------------------------------------------------------------------------------

bool pbCheck_Drowns(const pbCheck *d, double e) {
  const pbModel *m = d->r->model;
  const pbParam *p = d->dry;
  double mass = 0;

  // what all bodies weigh: the solver's forces are exact to rounding of the largest
  for (int i = 0; i < m->nbody; i++) mass += m->body_mass[i];
  double weight = mass * pbProbe_Norm(m->gravity, 3);

  for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++) {
    double move = fabs(e * d->direction.of[by_theta][p->offset + i]) / 4;
    if (move > 0 && move < 16 * DBL_EPSILON * weight) return true;
  }
  return false;
}

// Does a loss of the least move hold what moves: less than half of a joint's velocity is left, or more than that comes to it?
static bool is_held(const pbCheck *d, size_t dof) {
  static const double rest_speed = 1e-10;  // what is slower is at rest: there losses hold, and their slope is zero
  size_t nx = (size_t)d->r->nx, at = (size_t)state_layout(d->r->model).qvel + dof;
  bool held = false;

  for (size_t k = 1; k <= (size_t)d->r->plan.steps; k++) {
    double own = d->rows[in_states][k * nx + at], moved = d->moved_states[k * nx + at];
    held = held || (fabs(own) > rest_speed && fabs(moved - own) > 0.5 * fabs(own));
  }
  return held;
}

// Takes joints out of the direction that the least friction loss of the comparison would hold, because a lesser force moves them:
// the slope there is that of still smaller losses, which no difference shows. How many.
static int leave_held(pbCheck *d, const pbParam *p) {
  double value[seen_count];
  int count = 0;
  if (strncmp(p->name, "dof_", 4) != 0) return 0;

  // the least move of all comparisons
  pbCheck_Move(d, 1e-8 / 4, false, value);
  for (size_t i = 0; i < (size_t)(p->rows * p->cols); i++) {
    double *move = d->direction.of[by_theta] + p->offset + i;
    if (*move == 0 || !is_held(d, i / (size_t)p->cols)) continue;
    *move = 0;
    count++;
  }
  return count;
}

// ---- sets of a parameter ---------------------------------------------------------------------------------------------

// Of joints those that add to the level of a loss, too (multibody/friction_law.h).
static bool is_friction(const pbParam *p) {
  static const char *const levels[] = {"dof_stiction", "dof_frictionload", "dof_stictionload", "dof_stictionquad"};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (!strcmp(p->name, levels[i])) return true;
  }
  return strstr(p->name, "frictionloss") != NULL;
}

// Limits of forces and ends of ranges: a value exactly at its limit may take either side.
static bool has_limits(const pbParam *p) {
  return strncmp(p->name, "actuator_", 9) == 0 || strstr(p->name, "range") || strcmp(p->name, "sensor_cutoff") == 0;
}

static pbBend bend_at(const pbCheck *d, const pbParam *p, int i) {
  return pbBend_At(d->r->model, d->theta, p, i / p->cols, i % p->cols);
}

static bool is_bound(const pbBend *b) { return b->kind == pb_bendLower || b->kind == pb_bendUpper; }

static Set set_of(const pbCheck *d, const pbParam *p, int i) {
  pbBend bend = bend_at(d, p, i);
  if (is_bound(&bend)) return edges;

  // nothing depends on it: in no set
  if (bend.kind == pb_bendFlat) return set_count;
  return d->theta[p->offset + (size_t)i] == 0 ? zeros : inside;
}

// How far entries at zero move where their field has no value: what acts on joints by their inertia.
static double unit_of(const pbCheck *d, const pbParam *p) {
  pbField size;
  bool joints = strncmp(p->name, "dof_", 4) == 0 || strncmp(p->name, "jnt_stiffness", 13) == 0;
  return joints && pbModel_Field(d->r->model, "stat_meaninertia", &size) ? size.reals[0] : 0.1;
}

// A rest band of no width moves as one: its ends cannot pass each other. Of shares of loads that are zero one moves alone: the
// size of their difference bends there (multibody/friction_law.h).
static void join_bands(const pbParam *p, const double *value, double *direction) {
  bool band = !strcmp(p->name, "tendon_lengthspring");
  bool load = !strcmp(p->name, "dof_frictionload") || !strcmp(p->name, "dof_stictionload");
  if (!band && !load) return;

  for (int r = 0; r < p->rows; r++) {
    bool same = value[2 * r] == value[2 * r + 1];
    if (band && same) direction[2 * r + 1] = direction[2 * r];
    if (load && same && value[2 * r] == 0) direction[2 * r + 1] = 0;
  }
}

// Random direction of the entries of one set; returns their number. Zeros move by a part of the field's largest value.
static int draw_set(pbCheck *d, const pbParam *p, int number, Set set) {
  double *direction = d->direction.of[by_theta] + p->offset, most = 0, unit = unit_of(d, p);
  const double *value = d->theta + p->offset;
  int count = 0, entries = p->rows * p->cols;

  pbVectors_Clear(&d->direction);
  pbTheta_Draw(d->r->model, d->theta, number, pb_drawEach, &d->rng, d->direction.of[by_theta]);

  // entries at zero move as far as the others of their field are large
  for (int i = 0; i < entries; i++) most = fmax(most, fabs(value[i]));

  for (int i = 0; i < entries; i++) {
    pbBend bend = bend_at(d, p, i);
    double size = 0.5 + pbRng_Uniform(&d->rng);

    // entries of the other sets stand still
    if (set_of(d, p, i) != set) direction[i] = 0;
    else if (set == zeros) direction[i] = 0.1 * (most > 0 ? fmin(most, 1) : unit) * pbRng_Normal(&d->rng);
    else if (set == edges) direction[i] = size * (bend.at != 0 ? fabs(bend.at) : unit) * (bend.kind == pb_bendUpper ? -1 : 1);
    count += direction[i] != 0;
  }

  join_bands(p, value, direction);
  return count;
}

// Those of another test, "remark; remark".
static void add_remarks(pbCheckTest *t, const char *words) {
  while (*words) {
    const char *end = strstr(words, "; ");
    size_t n = end ? (size_t)(end - words) : strlen(words);
    pbCheck_AddWords(t, "", "%.*s", (int)n, words);
    words += end ? n + 2 : n;
  }
}

// Names the entries of a set that are wrong by themselves: the first two of some dozens. *none: all are right alone.
static pbStatus blame_entries(pbCheck *d, const pbComparison *together, const pbParam *p, Set set, bool *none) {
  int tried = 0, named = 0;
  *none = false;
  if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) return pb_ok;  // no entry of these moves alone

  for (int i = 0; i < p->rows * p->cols && tried < most_blamed && named < 2; i++) {
    char name[120];
    pbStanding found[seen_count];
    bool wrong;
    size_t entry = p->offset + (size_t)i;
    double *alone = d->direction.of[by_theta] + entry;
    pbBend bend = bend_at(d, p, i);
    if (set_of(d, p, i) != set) continue;

    // alone, into its domain
    pbVectors_Clear(&d->direction);
    *alone = (set == inside ? fabs(d->theta[entry]) : unit_of(d, p)) * (bend.kind == pb_bendUpper ? -1 : 1);
    if (d->dry && leave_held(d, p)) continue;

    // by tests of its own, whose words go to those of all
    pbCheckTest own[seen_count];
    pbComparison c = *together;
    c.name = pbModel_ParamName(d->r->model, entry, name, sizeof name);
    c.alone = alone;
    for (int k = 0; k < seen_count; k++) {
      own[k] = (pbCheckTest){.limit = slope_limit, .holds = true};
      c.test[k] = c.test[k] ? &own[k] : NULL;
    }
    PB_TRY(pbCheck_Compare(d, &c, found, &wrong));

    for (int k = 0; k < seen_count; k++) {
      if (!own[k].holds) add_remarks(together->test[k], own[k].words);
      named += !own[k].holds;
    }
    tried++;
  }
  *none = named == 0 && tried < most_blamed;
  return pb_ok;
}

// For the report, where a gradient is right: the first entry of a field at a bound (bounds), or tied to another.
static void note_bend(const Slopes *s, const pbParam *p, bool bounds) {
  static const char what[] = "at a bound or tie";
  pbCheck *d = s->d;
  char name[90], other[90];

  for (int i = 0; i < p->rows * p->cols && d->bends < most_bends; i++) {
    pbBend bend = bend_at(d, p, i);
    size_t entry = p->offset + (size_t)i;
    if (bounds ? !is_bound(&bend) || d->bar[in_states].of[by_theta][entry] == 0 : bend.kind != pb_bendTie) continue;

    d->bends++;
    pbModel_ParamName(d->r->model, entry, name, sizeof name);
    if (bounds) {
      pbCheck_AddFinding(d, what, name, "is at its bound %.4g; the gradient is that towards %s values.", bend.at,
                         bend.kind == pb_bendLower ? "larger" : "smaller");
    } else {
      pbCheck_AddFinding(d, what, name,
                         "has the same value %.4g as %s, and only one of the two acts: the slopes to both sides differ, and the "
                         "gradient is half of each. Move one of them, or both together.",
                         bend.at, pbModel_ParamName(d->r->model, bend.other, other, sizeof other));
    }
    return;
  }
}

// Where shapes touch, the least move or rotation may change which of their features meet; the differences by step say more there.
static const char *excuse(const pbCheck *d, const pbParam *p) {
  static const char *const poses[] = {"geom_pos",  "geom_quat", "geom_size", "body_pos",
                                      "body_quat", "jnt_pos",   "jnt_axis",  "qpos0"};
  if (!d->touching) return NULL;

  for (size_t i = 0; i < sizeof poses / sizeof *poses; i++) {
    if (strcmp(p->name, poses[i]) == 0) return "where shapes touch, whose features may change";
  }
  return NULL;
}

// One set of a parameter's entries.
static pbStatus compare_set(Slopes *s, const pbParam *p, int number, Set set) {
  pbCheck *d = s->d;
  pbCheckTest **tests = s->by[by_theta], before[seen_count];
  pbStanding found[seen_count];
  bool wrong = false, none = false;
  if (!draw_set(d, p, number, set)) return pb_ok;

  pbComparison c = {.test = {tests[in_states], tests[in_sensors]},
                    .name = p->name,
                    .excused = excuse(d, p),
                    .side = set == edges,
                    .strict = !has_limits(p),
                    .modes = true,
                    .step = -1};

  // to be put back where each entry holds alone
  for (int k = 0; k < seen_count; k++) before[k] = tests[k] ? *tests[k] : (pbCheckTest){0};
  d->dry = set == edges && is_friction(p) ? p : NULL;
  int held = d->dry ? leave_held(d, p) : 0;
  pbWords dofs = pbWords_Of("of %d degree%s of freedom holds what a lesser force moves", held, held == 1 ? "" : "s");
  if (held) pbCheck_LeaveOut(tests[in_states], p->name, dofs.text, -1);
  PB_TRY(pbCheck_Compare(d, &c, found, &wrong));
  if (wrong) PB_TRY(blame_entries(d, &c, p, set, &none));
  d->dry = NULL;

  // Losses of joints at rest, limits that several values are at: moved together they bend (each resists what the others do), and
  // no linear map has that; alone each holds.
  if (none && (has_limits(p) || is_friction(p))) {
    for (int k = 0; k < seen_count; k++)
      if (tests[k]) *tests[k] = before[k];
    pbCheck_LeaveOut(tests[in_states], p->name, "moved together bends: each alone holds", -1);
    return pb_ok;
  }

  // what a user should know of a gradient that is right
  if (set == edges && p->lower == 0 && is_friction(p)) note_bend(s, p, true);
  if (found[in_states].known && found[in_states].bent && !wrong) note_bend(s, p, false);
  return pb_ok;
}

// ---- all of them -----------------------------------------------------------------------------------------------------

// A random direction of all controls, into the range of those at its end. Whether there is one.
static bool draw_controls(pbCheck *d) {
  double *direction = d->direction.of[by_ctrl];
  bool one = false;
  pbVectors_Clear(&d->direction);

  for (size_t i = 0; i < d->direction.size[by_ctrl]; i++) {
    double span, move = pbRng_Normal(&d->rng);
    int nu = d->r->nu, side = pbCheck_ControlSide(d, d->from + (int)i / nu, (int)i % nu, &span);
    direction[i] = side ? side * fabs(move) : move;
    one = one || side;
  }
  return one;
}

static pbStatus compare_all(Slopes *s) {
  pbCheck *d = s->d;
  pbStanding found[seen_count];
  bool wrong;
  int from = pbCheck_Resume(d, pb_ofSlopes);

  for (int i = from > 0 ? from : 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    pbCheck_Mark(d, pb_ofSlopes, i);
    PB_TRY(pbCheck_GoOn(d, "slopes of a rollout", i, pbModel_ParamCount(d->r->model)));
    for (Set set = 0; set < set_count; set++) PB_TRY(compare_set(s, &p, i, set));
  }

  // states by state and control are tested step by step: here the sensors alone
  pbComparison c = {.test = {[in_sensors] = s->by[by_state][in_sensors]}, .modes = true, .step = -1};
  if (!c.test[in_sensors]) return pb_ok;

  pbVectors_Clear(&d->direction);
  pbCheck_DrawPart(d, by_state);
  PB_TRY(pbCheck_Compare(d, &c, found, &wrong));
  c.test[in_sensors] = s->by[by_ctrl][in_sensors];
  if (!c.test[in_sensors]) return pb_ok;

  c.side = draw_controls(d);
  return pbCheck_Compare(d, &c, found, &wrong);
}

pbStatus pbCheck_Slopes(pbCheck *d) {
  static const struct {
    pbBy by;
    pbSeen seen;
    const char *name;
  } tests[] = {{by_theta, in_states, "differences, states by parameters"},
               {by_state, in_sensors, "differences, sensors by state"},
               {by_ctrl, in_sensors, "differences, sensors by control"},
               {by_theta, in_sensors, "differences, sensors by parameters"}};
  Slopes s = {.d = d};
  if (pbCheck_Skips(d, pb_ofSlopes)) return pb_ok;

  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    bool there = (tests[i].seen == in_states || d->r->ns) && (tests[i].by != by_ctrl || d->r->nu);
    if (there) s.by[tests[i].by][tests[i].seen] = pbCheck_AddTest(d, tests[i].name, slope_limit);
  }

  // a step of deformables is worth many of bodies
  int most = d->r->np ? 2 : most_steps;
  PB_TRY(pbCheck_Stretch(d, 0, d->steps < most ? d->steps : most));
  PB_TRY(pbCheck_DrawFunctionals(d, pb_allRows, NULL));
  d->tied = pbCheck_FirstTie(d) >= 0;
  return compare_all(&s);
}
