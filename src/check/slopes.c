// The check of a model's derivatives, a few steps: those of all states and all sensors by state, control and parameters, in
// reverse and forward mode, against one-sided slopes. Parameters go field by field, in sets of entries that move together: those
// with a size of their own, zeros, those at a bound. These move into their domain, any other to both sides, where the mean of
// both counts: at a tie that is the even share. What does not settle as the move shrinks (a jump, an onset) is left out.
// Tests: tests/oracle/test_check.py, tests/oracle/test_cli.py.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "probe/probe.h"

enum { slope_tests = 4, most_bends = 6, most_blamed = 60, most_steps = 3 };
static const double slope_limit = 1e-4, dot_limit = 1e-9;

typedef struct Slopes {
  pbCheck *d;
  pbCheckTest *states_by_theta, *sensors_by[by_theta + 1];  // NULL: there is nothing of the kind
  int bends;                                                // told
} Slopes;

// Sets of a parameter's entries, each moved by itself: with a size of their own, zero, at a bound.
typedef enum Set { inside, zeros, edges, set_count } Set;

// What is compared along the direction that is set.
typedef struct Comparison {
  pbBy part;
  bool one;             // into the domain only, as at a bound
  bool strict;          // at a bend the mean of both slopes
  const char *name;     // of the parameter, or NULL
  const char *excused;  // why a disagreement is left out; NULL: it is not
} Comparison;

// ---- comparisons -----------------------------------------------------------------------------------------------------

// States by their state and control are tested step by step.
static pbCheckTest *test_of(const Slopes *s, pbBy part, pbSeen seen) {
  if (seen == in_sensors) return s->sensors_by[part];
  return part == by_theta ? s->states_by_theta : NULL;
}

// Moves belong to the model: where what is set would move a state by more than itself (a torque on a body of 1e-13 kg m^2), it is
// set that much smaller.
static void shorten_direction(pbCheck *d, double ahead[seen_count]) {
  const pbRollout *r = d->r;
  double most = 0;
  size_t count = (size_t)(r->plan.steps + 1) * (size_t)r->n;
  for (size_t i = 0; i < count; i++) most = fmax(most, fabs(d->tangent[in_states][i]));
  if (most <= 1 || isinf(most)) return;

  pbVectors_Divide(&d->direction, most);
  for (size_t i = 0; i < r->ntheta; i++) d->direction.of[by_theta][i] /= most;
  for (int k = 0; k < seen_count; k++) ahead[k] /= most;
}

static const char *place_of(const pbStanding *f, bool one) {
  if (f->bent) return "at a tie or kink";
  return one ? "at its bound" : "";
}

static void leave_out(pbCheckTest *t, const char *name, const char *why) {
  t->skipped++;
  pbCheck_AddWords(t, "left out: ", "%s%s%s", name ? name : "", name ? " " : "", why);
}

static void disagree(pbCheckTest *t, const char *before, const char *name, const char *what) {
  // of a test that fails nothing else is told
  if (t->holds) t->words[0] = 0;
  t->holds = false;
  pbCheck_AddWords(t, before, "%s%s%s", name ? name : "", name ? " " : "", what);
}

// One functional; true where it holds or says nothing.
static bool count_standing(const Comparison *c, const pbStanding *f, pbCheckTest *t) {
  if (!f->known) {
    leave_out(t, c->name,
              f->drowned ? "is too small to see beside rounding"
                         : "does not settle: a jump, an onset, or a sensor that looks elsewhere");
    return true;
  }
  if (f->error > t->limit && c->excused) {
    leave_out(t, c->name, c->excused);
    return true;
  }

  t->tried++;
  if (!(f->error <= t->worst)) t->worst = f->error;
  if (f->error <= t->limit) return true;
  disagree(t, "disagrees: ", c->name, place_of(f, c->one));
  return false;
}

// Slopes against reverse mode, forward mode against reverse mode. *wrong: one of them disagrees.
static pbStatus compare(Slopes *s, const Comparison *c, pbStanding found[seen_count], bool *wrong) {
  pbCheck *d = s->d;
  double ahead[seen_count];
  *wrong = false;
  PB_TRY(pbCheck_Push(d, ahead));
  shorten_direction(d, ahead);
  pbCheck_Measure(d, c->one, c->strict, slope_limit, found);

  for (pbSeen seen = 0; seen < seen_count; seen++) {
    pbCheckTest *t = test_of(s, c->part, seen);
    pbStanding *f = &found[seen];
    if (!t) continue;

    // both differentiate the same program: only rounding may tell them apart
    bool rounding = fabs(ahead[seen] - f->gradient) <= dot_limit * (fabs(ahead[seen]) + fabs(f->gradient) + 1e-4);
    if (!rounding) PB_TRY(pbCheck_IsRounding(d, seen, ahead[seen], &rounding));
    if (!rounding) disagree(t, "", c->name, "differs between forward and reverse mode");

    // what tells nothing against a gradient that disagrees
    Comparison own = *c;
    bool looks = seen == in_sensors && f->bent && f->error > t->limit && pbCheck_LooksDiffer(d);
    if (looks) own.excused = "at a tie of what a sensor looks at";
    if (d->tied && !own.excused) own.excused = "at a tie of contacts, named below";
    if (!count_standing(&own, f, t) || !rounding) *wrong = true;
  }
  return pb_ok;
}

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
  if (strcmp(p->name, "dof_frictionloss") != 0) return 0;

  // the least move of all comparisons
  pbCheck_Move(d, 1e-8 / 4, false, value);
  for (size_t i = 0; i < (size_t)d->r->nv; i++) {
    double *move = d->direction.of[by_theta] + p->offset + i;
    if (*move == 0 || !is_held(d, i)) continue;
    *move = 0;
    count++;
  }
  return count;
}

// ---- sets of a parameter ---------------------------------------------------------------------------------------------

static bool is_friction(const pbParam *p) { return strstr(p->name, "frictionloss") != NULL; }

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

// A rest band of no width moves as one: its ends cannot pass each other.
static void join_bands(const pbParam *p, const double *value, double *direction) {
  if (strcmp(p->name, "tendon_lengthspring") != 0) return;

  for (int r = 0; r < p->rows; r++) {
    if (value[2 * r] == value[2 * r + 1]) direction[2 * r + 1] = direction[2 * r];
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

// Adds what is wrong of one entry; returns how many functionals.
static int name_entry(const Slopes *s, size_t entry, bool one, const pbStanding found[seen_count]) {
  const pbCheck *d = s->d;
  char name[120];
  double scale = 1 / d->direction.of[by_theta][entry];  // for the message per unit of the entry
  int named = 0;

  for (pbSeen seen = 0; seen < seen_count; seen++) {
    pbCheckTest *t = test_of(s, by_theta, seen);
    const pbStanding *f = &found[seen];
    if (!t || !f->known || f->error <= t->limit) continue;
    const char *place = one ? "at its bound" : place_of(f, false);
    pbCheck_AddWords(t, "", "%s has gradient %.4g%s%s, difference %.4g", pbModel_ParamName(d->r->model, entry, name, sizeof name),
                     f->gradient * scale, *place ? " " : "", place, 0.5 * (f->right + f->left) * scale);
    named++;
  }
  return named;
}

// Names the entries of a set that are wrong by themselves: the first two of some dozens. *none: all are right alone.
static pbStatus blame_entries(Slopes *s, const pbParam *p, Set set, bool *none) {
  pbCheck *d = s->d;
  int tried = 0, named = 0;
  *none = false;
  if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) return pb_ok;  // no entry of these moves alone

  for (int i = 0; i < p->rows * p->cols && tried < most_blamed && named < 2; i++) {
    double ahead[seen_count];
    pbStanding found[seen_count];
    size_t entry = p->offset + (size_t)i;
    pbBend bend = bend_at(d, p, i);
    if (set_of(d, p, i) != set) continue;

    // alone, into its domain
    pbVectors_Clear(&d->direction);
    d->direction.of[by_theta][entry] =
        (set == inside ? fabs(d->theta[entry]) : unit_of(d, p)) * (bend.kind == pb_bendUpper ? -1 : 1);
    if (d->dry && leave_held(d, p)) continue;
    PB_TRY(pbCheck_Push(d, ahead));
    shorten_direction(d, ahead);
    pbCheck_Measure(d, set == edges, !has_limits(p), slope_limit, found);
    named += name_entry(s, entry, set == edges, found);
    tried++;
  }
  *none = named == 0 && tried < most_blamed;
  return pb_ok;
}

// For the report, where a gradient is right: the first entry of a field at a bound (bounds), or tied to another.
static void note_bend(Slopes *s, const pbParam *p, bool bounds) {
  static const char what[] = "at a bound or tie";
  const pbCheck *d = s->d;
  char name[90], other[90];

  for (int i = 0; i < p->rows * p->cols && s->bends < most_bends; i++) {
    pbBend bend = bend_at(d, p, i);
    size_t entry = p->offset + (size_t)i;
    if (bounds ? !is_bound(&bend) || d->bar[in_states].of[by_theta][entry] == 0 : bend.kind != pb_bendTie) continue;

    s->bends++;
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
  pbCheckTest *tests[seen_count] = {s->states_by_theta, s->sensors_by[by_theta]}, before[seen_count];
  pbStanding found[seen_count];
  bool wrong = false, none = false;
  if (!draw_set(d, p, number, set)) return pb_ok;

  Comparison c = {.part = by_theta, .one = set == edges, .strict = !has_limits(p), .name = p->name, .excused = excuse(d, p)};

  // to be put back where each entry holds alone
  for (int k = 0; k < seen_count; k++) before[k] = tests[k] ? *tests[k] : (pbCheckTest){0};
  d->dry = set == edges && is_friction(p) ? p : NULL;
  int held = d->dry ? leave_held(d, p) : 0;
  if (held) {
    char words[120];
    snprintf(words, sizeof words, "of %d degree%s of freedom holds what a lesser force moves", held, held == 1 ? "" : "s");
    leave_out(tests[0], p->name, words);
  }
  PB_TRY(compare(s, &c, found, &wrong));
  if (wrong) PB_TRY(blame_entries(s, p, set, &none));
  d->dry = NULL;

  // Losses of joints at rest, limits that several values are at: moved together they bend (each resists what the others do), and
  // no linear map has that; alone each holds.
  if (none && (has_limits(p) || is_friction(p))) {
    for (int k = 0; k < seen_count; k++)
      if (tests[k]) *tests[k] = before[k];
    leave_out(tests[0], p->name, "moved together bends: each alone holds");
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
    int side = pbCheck_ControlSide(d, (int)(i % (size_t)d->r->nu), &span);
    direction[i] = side ? side * fabs(move) : move;
    one = one || side;
  }
  return one;
}

static pbStatus compare_all(Slopes *s) {
  pbCheck *d = s->d;
  pbStanding found[seen_count];
  bool wrong = false;

  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    PB_TRY(pbCheck_GoOn(d, "slopes of a rollout", i, pbModel_ParamCount(d->r->model)));
    for (Set set = 0; set < set_count; set++) PB_TRY(compare_set(s, &p, i, set));
  }

  // states by state and control are tested step by step: here the sensors alone
  if (!s->sensors_by[by_state]) return pb_ok;

  pbVectors_Clear(&d->direction);
  pbCheck_DrawPart(d, by_state);
  PB_TRY(compare(s, &(Comparison){.part = by_state}, found, &wrong));
  if (!s->sensors_by[by_ctrl]) return pb_ok;

  bool one = draw_controls(d);
  return compare(s, &(Comparison){.part = by_ctrl, .one = one}, found, &wrong);
}

pbStatus pbCheck_Slopes(pbCheck *d) {
  Slopes s = {.d = d, .states_by_theta = pbCheck_AddTest(d, "differences, states by parameters", slope_limit)};
  if (d->r->ns) s.sensors_by[by_state] = pbCheck_AddTest(d, "differences, sensors by state", slope_limit);
  if (d->r->ns && d->r->nu) s.sensors_by[by_ctrl] = pbCheck_AddTest(d, "differences, sensors by control", slope_limit);
  if (d->r->ns) s.sensors_by[by_theta] = pbCheck_AddTest(d, "differences, sensors by parameters", slope_limit);

  // a step of deformables is worth many of bodies
  int most = d->r->np ? 2 : most_steps;
  PB_TRY(pbCheck_Stretch(d, 0, d->steps < most ? d->steps : most));
  PB_TRY(pbCheck_DrawFunctionals(d, pb_allRows, NULL));
  d->tied = pbCheck_FirstTie(d) >= 0;
  return compare_all(&s);
}
