// The check of a model's derivatives, a short rollout: derivatives by parameters, field by field, in sets of entries that move
// together (those with a size of their own, zeros, those at a bound), along what check_slopes.c compares.
// Tests: tests/oracle/test_check.py.
#include "check/slopes_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { blamed = 60 };
static const char bend_finding[] = "at a bound or tie";

// Sets of a parameter's entries, each moved by itself: with a size of their own, zero, at a bound.
typedef enum Set { inside, zeros, edges, set_count } Set;

// ---- parameters --------------------------------------------------------------------------------------------------------
static Set set_of(const Slopes *s, const pbParam *p, int row, int column, pbBend *bend) {
  *bend = pbBend_At(s->d->r->model, s->d->theta, p, row, column);
  if (bend->kind == pb_bendLower || bend->kind == pb_bendUpper) return edges;

  // nothing depends on it: in no set
  if (bend->kind == pb_bendFlat) return set_count;
  return s->d->theta[p->offset + (size_t)(row * p->cols + column)] == 0 ? zeros : inside;
}

// How far entries at zero move where their field has no value: what acts on joints by their inertia.
static double unit_of(const Slopes *s, const pbParam *p) {
  pbField size;
  bool joints = strncmp(p->name, "dof_", 4) == 0 || strncmp(p->name, "jnt_stiffness", 13) == 0;
  return joints && pbModel_Field(s->d->r->model, "stat_meaninertia", &size) ? size.reals[0] : 0.1;
}

// Random direction of the entries of one set; returns their number. Zeros move by a part of the field's largest value.
static int draw_set(Slopes *s, const pbParam *p, Set set) {
  double *direction = s->theta_direction, most = 0, unit = unit_of(s, p);
  int count = 0;

  pbSlopes_ClearDirections(s);
  pbCheck_DrawParameter(s->d, p, direction);
  for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++) most = fmax(most, fabs(s->d->theta[p->offset + i]));

  for (int r = 0; r < p->rows; r++) {
    for (int c = 0; c < p->cols; c++) {
      size_t at = p->offset + (size_t)(r * p->cols + c);
      pbBend bend;
      Set own = set_of(s, p, r, c, &bend);

      double size = 0.5 + pbRng_Uniform(&s->d->rng);

      // entries of the other sets stand still
      if (own != set) direction[at] = 0;
      else if (set == zeros) direction[at] = 0.1 * (most > 0 ? fmin(most, 1) : unit) * pbRng_Normal(&s->d->rng);
      else if (set == edges) direction[at] = size * (bend.at != 0 ? fabs(bend.at) : unit) * (bend.kind == pb_bendUpper ? -1 : 1);

      count += direction[at] != 0;
    }

    // a rest band of no width moves as one: its ends cannot pass each other
    const double *value = s->d->theta + p->offset + r * p->cols;
    if (strcmp(p->name, "tendon_lengthspring") == 0 && value[0] == value[1])
      direction[p->offset + (size_t)(2 * r + 1)] = direction[p->offset + (size_t)(2 * r)];
  }
  return count;
}

// Limits of forces and ends of ranges: a value exactly at its limit may take either side.
static bool has_limits(const pbParam *p) {
  return strncmp(p->name, "actuator_", 9) == 0 || strstr(p->name, "range") || strcmp(p->name, "sensor_cutoff") == 0;
}

// Adds what is wrong of one entry; returns how many functionals.
static int name_entry(Slopes *s, size_t entry, bool one, const Verdict v[seen_count]) {
  char name[120], what[160];

  // for the message per unit of the entry
  double scale = 1 / s->theta_direction[entry];
  int named = 0;

  for (int k = 0; k < seen_count; k++) {
    pbCheckTest *t = pbSlopes_TestOf(s, by_parameter, k);
    if (!t || !v[k].known || v[k].error <= t->limit) continue;
    const char *place = one ? "at its bound" : pbSlopes_Place(&v[k], false);
    snprintf(what, sizeof what, "has gradient %.4g%s%s, difference %.4g", v[k].gradient * scale, *place ? " " : "", place,
             0.5 * (v[k].right + v[k].left) * scale);
    pbSlopes_AddWords(t, "", pbModel_ParamName(s->d->r->model, entry, name, sizeof name), what);
    named++;
  }
  return named;
}

// Names the entries of a set that are wrong by themselves: the first two of some dozens.
static pbStatus blame_entries(Slopes *s, const pbParam *p, Set set, bool *none) {
  size_t first = p->offset, count = (size_t)p->rows * (size_t)p->cols;
  int tried = 0, named = 0;
  *none = false;
  if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) return pb_ok;  // no entry of these moves alone

  for (size_t i = first; i < first + count && tried < blamed && named < 2; i++) {
    pbBend bend;
    double ahead[seen_count];
    Verdict v[seen_count];
    int row = (int)(i - first) / p->cols, column = (int)(i - first) % p->cols;
    if (set_of(s, p, row, column, &bend) != set) continue;

    pbSlopes_ClearDirections(s);
    s->theta_direction[i] = (set == inside ? fabs(s->d->theta[i]) : unit_of(s, p)) * (bend.kind == pb_bendUpper ? -1 : 1);
    if (s->dry && pbSlopes_LeaveHeld(s, p)) continue;
    PB_TRY(pbSlopes_Push(s, ahead));
    pbSlopes_Measure(s, set == edges, !has_limits(p), v, s->tests[0]->limit);
    named += name_entry(s, i, set == edges, v);
    tried++;
  }
  *none = named == 0 && tried < blamed;
  return pb_ok;
}

static const char *entry_name(const Slopes *s, size_t entry, char *text, size_t size) {
  return pbModel_ParamName(s->d->r->model, entry, text, size);
}

// The first tie of a field that bends, for the report.
static void note_bend(Slopes *s, const pbParam *p) {
  char name[90], other[90];
  for (int i = 0; i < p->rows * p->cols && s->bend_count < most_bends; i++) {
    pbBend bend = pbBend_At(s->d->r->model, s->d->theta, p, i / p->cols, i % p->cols);
    if (bend.kind != pb_bendTie) continue;

    s->bend_count++;
    entry_name(s, bend.other, other, sizeof other);
    pbCheck_AddFinding(
        s->d, bend_finding, entry_name(s, p->offset + (size_t)i, name, sizeof name),
        "has the same value %.4g as %s, and only one of the two acts: the slopes to both sides differ, and the gradient is half "
        "of each. Move one of them, or both together.",
        bend.at, other);
    return;
  }
}

// The first entry of a field at a bound with a gradient that holds to one side only, for the report.
static void note_bound(Slopes *s, const pbParam *p) {
  char name[90];
  for (int i = 0; i < p->rows * p->cols && s->bend_count < most_bends; i++) {
    pbBend bend = pbBend_At(s->d->r->model, s->d->theta, p, i / p->cols, i % p->cols);
    size_t at = p->offset + (size_t)i;
    if ((bend.kind != pb_bendLower && bend.kind != pb_bendUpper) || s->theta_bar[in_states][at] == 0) continue;

    s->bend_count++;
    pbCheck_AddFinding(s->d, bend_finding, entry_name(s, at, name, sizeof name),
                       "is at its bound %.4g; the gradient is that towards %s values.", bend.at,
                       bend.kind == pb_bendLower ? "larger" : "smaller");
    return;
  }
}

// Where shapes touch, the least move or rotation may change which of their features meet; the differences by step say more there.
static const char *excuse(const Slopes *s, const pbParam *p) {
  static const char *const poses[] = {"geom_pos",  "geom_quat", "geom_size", "body_pos",
                                      "body_quat", "jnt_pos",   "jnt_axis",  "qpos0"};
  if (!s->touching) return NULL;

  for (size_t i = 0; i < sizeof poses / sizeof *poses; i++) {
    if (strcmp(p->name, poses[i]) == 0) return "where shapes touch, whose features may change";
  }
  return NULL;
}

// One set of a parameter's entries.
static pbStatus compare_set(Slopes *s, const pbParam *p, Set set) {
  Verdict v[seen_count];
  bool wrong = false, none = false;
  pbCheckTest before[slope_tests];
  int count = s->d->report->test_count;
  if (!draw_set(s, p, set)) return pb_ok;
  memcpy(before, s->tests[0], (size_t)(count - s->first_test) * sizeof *before);

  Comparison c = {.kind = by_parameter, .one = set == edges, .strict = !has_limits(p), .name = p->name, .excused = excuse(s, p)};

  s->dry = set == edges && strstr(p->name, "frictionloss") ? p : NULL;
  int held = s->dry ? pbSlopes_LeaveHeld(s, p) : 0;
  if (held) {
    char words[120];
    snprintf(words, sizeof words, "of %d degree%s of freedom holds what a lesser force moves", held, held == 1 ? "" : "s");
    s->tests[0]->skipped++;
    pbSlopes_AddWords(s->tests[0], "left out: ", p->name, words);
  }
  PB_TRY(pbSlopes_Compare(s, &c, v, &wrong));
  if (wrong) PB_TRY(blame_entries(s, p, set, &none));
  s->dry = NULL;

  // Losses of joints at rest, limits that several values are at: moved together they bend (each resists what the others do), and
  // no linear map has that; alone each holds.
  if (none && (has_limits(p) || strstr(p->name, "frictionloss"))) {
    memcpy(s->tests[0], before, (size_t)(count - s->first_test) * sizeof *before);
    s->tests[0]->skipped++;
    pbSlopes_AddWords(s->tests[0], "left out: ", p->name, "moved together bends: each alone holds");
    return pb_ok;
  }

  // what a user should know of a gradient that is right
  if (set == edges && p->lower == 0 && strstr(p->name, "frictionloss")) note_bound(s, p);
  if (v[in_states].known && v[in_states].bent && !wrong) note_bend(s, p);
  return pb_ok;
}

pbStatus pbSlopes_Parameters(Slopes *s) {
  for (int i = 0; i < pbModel_ParamCount(s->d->r->model); i++) {
    pbParam p = pbModel_ParamAt(s->d->r->model, i);
    PB_TRY(pbCheck_GoOn(s->d, "slopes of a rollout", i, pbModel_ParamCount(s->d->r->model)));
    for (Set set = 0; set < set_count; set++) PB_TRY(compare_set(s, &p, set));
  }
  return pb_ok;
}
