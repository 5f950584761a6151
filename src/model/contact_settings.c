// Contact settings beyond MJCF: one table of names, from which values are read, set and checked; which settings go together;
// and the longest stable time step of penalty contacts.
// Tests: tests/unit/test_contact.c.
#include <pullback/contact.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "base/text.h"
#include "model/model.h"
#include "model/topology.h"

static const char *const method_words[] = {"soft", "lcp", "cones", "sweeps", "impact", "penalty", NULL};
static const char *const law_words[] = {"newton", "capped", NULL};
static const char *const order_words[] = {"gauss-seidel", "jacobi", NULL};
static const char *const motion_words[] = {"ignored", "followed", NULL};
static const char *const mixing_words[] = {"maximum", "mean", "product", "minimum", "geometric", NULL};

// One setting, of one of three kinds: a word, a number, or a parameter that theta holds.
typedef struct pbSetting {
  const char *name;
  size_t member;             // offset in pbContactSettings; of a parameter, offset in pbModel of the field set in every row
  double lower, upper;       // of a number
  bool can_be_off;           // "off": -1
  bool whole;                // a whole number
  const char *const *words;  // of a word: the enumerators in order, an int
  bool is_param;
  size_t rows;  // of a parameter: offset in pbModel of the number of rows
} pbSetting;

#define AT(member)   offsetof(pbContactSettings, member)
#define PARAM(field) offsetof(pbModel, field)
// clang-format off
static const pbSetting setting_table[] = {
    {.name = "method", AT(method), .words = method_words},
    {.name = "kappa", AT(kappa), 0, 1e12},
    {.name = "onset", AT(onset), 0, 1e3},
    {.name = "erp", AT(erp), 0, 1, .can_be_off = true},
    {.name = "cfm", AT(cfm), 0, 1e12, .can_be_off = true},
    {.name = "sweeps", AT(sweeps), 1, 1e6, .whole = true},
    {.name = "order", AT(order), .words = order_words},
    {.name = "omega", AT(omega), 0, 2},
    {.name = "mixing", AT(mixing), .words = mixing_words},
    {.name = "smooth_kappa", AT(smooth_kappa), 0, 1e12},
    {.name = "smooth_onset", AT(smooth_onset), 0, 1e3},
    {.name = "restitution", PARAM(geom_restitution), 0, 1, .is_param = true, .rows = PARAM(ngeom)},
    {.name = "restitution_law", AT(restitution_law), .words = law_words},
    {.name = "stiffness", PARAM(contact_stiffness), 1e-9, 1e15, .is_param = true, .rows = PARAM(one)},
    {.name = "damping", PARAM(contact_damping), 0, 1e15, .is_param = true, .rows = PARAM(one)},
    {.name = "width", AT(width), 1e-12, 1e3},
    {.name = "slip", AT(slip), 1e-9, 1e3},
    {.name = "mocap_motion", AT(mocap_motion), .words = motion_words},
};
// clang-format on
#undef AT
#undef PARAM
enum { SETTING_COUNT = sizeof setting_table / sizeof *setting_table };

static const void *member_of(const pbContactSettings *c, const pbSetting *e) { return (const char *)c + e->member; }
static void *place_of(pbContactSettings *c, const pbSetting *e) { return (char *)c + e->member; }

pbContactSettings pbModel_ContactSettings(const pbModel *m) { return m->contact; }

static double *rows_of(const pbModel *m, const pbSetting *e, int *rows) {
  *rows = *(const int *)((const char *)m + e->rows);
  return *(double *const *)((const char *)m + e->member);
}

// The one value of all rows of a parameter; NaN where they differ.
static double common_value(const pbModel *m, const pbSetting *e) {
  int rows;
  const double *values = rows_of(m, e, &rows);

  for (int i = 1; i < rows; i++) {
    if (values[i] != values[0]) return NAN;
  }
  return rows ? values[0] : 0;
}

bool pbModel_ContactSettingAt(const pbModel *m, int index, const char **name, char *text, size_t size) {
  if (index < 0 || index >= SETTING_COUNT) return false;
  const pbSetting *e = &setting_table[index];
  *name = e->name;

  // Words go by the enumerator.
  if (e->words) {
    snprintf(text, size, "%s", e->words[*(const int *)member_of(&m->contact, e)]);
    return true;
  }

  // Numbers with all digits, so that they can be set again.
  double value = e->is_param ? common_value(m, e) : *(const double *)member_of(&m->contact, e);
  if (e->can_be_off && value < 0) snprintf(text, size, "off");
  else snprintf(text, size, "%.17g", value);
  return true;
}

// Method impact has no constraint rows: settings of rows do not apply, and friction has two directions at most.
static pbStatus check_impact(pbContext *ctx, const pbModel *m) {
  const pbContactSettings *c = &m->contact;
  const char *set = NULL;
  if (c->erp >= 0) set = "erp";
  if (c->onset > 0) set = "onset";
  if (c->kappa > 0) set = "kappa";
  if (set)
    return pbContext_Fail(ctx, pb_bad_argument,
                          "contact setting %s is of methods whose contacts are rows; method impact has none", set);

  // Torsional and rolling friction are of rows.
  for (int g = 0; g < m->ngeom; g++) {
    if (m->geom_condim[g] > 3 && (m->geom_contype[g] || m->geom_conaffinity[g]))
      return pbContext_Fail(ctx, pb_bad_argument, "geom %d '%.80s' has condim %d; contact method impact takes 1 and 3", g,
                            pbModel_Name(m, pb_objGeom, g), m->geom_condim[g]);
  }

  for (int p = 0; p < m->npair; p++) {
    if (m->pair_dim[p] > 3)
      return pbContext_Fail(ctx, pb_bad_argument, "pair %d has condim %d; contact method impact takes 1 and 3", p,
                            m->pair_dim[p]);
  }
  return pb_ok;
}

static pbStatus refuse_combination(pbContext *ctx, const pbModel *m, const char *what) {
  return pbContext_Fail(ctx, pb_unsupported, "contact method %s does not go with %s", method_words[m->contact.method], what);
}

// pb_unsupported where the method does not go with another setting or the integrator.
static pbStatus check_method(pbContext *ctx, const pbModel *m) {
  const pbContactSettings *c = &m->contact;
  bool adheres = m->topology && m->topology->adheres;
  if (m->contact.method == pb_contactImpact && adheres)
    return refuse_combination(ctx, m, "actuators on bodies (adhesion): its contacts come between steps");
  if (m->contact.method == pb_contactImpact) return check_impact(ctx, m);

  if (c->restitution_law != pb_restitutionNewton)
    return refuse_combination(ctx, m,
                              "restitution_law capped: it is of method impact, whose impacts have an instant and an energy");
  if (c->method == pb_contactPenalty && c->onset > 0) return refuse_combination(ctx, m, "onset: its force sets in over `width`");

  // What follows is of the hard methods, which have no potential to smooth.
  if (!pb_hard(m)) return pb_ok;
  if (c->kappa > 0) return refuse_combination(ctx, m, "kappa: it smooths soft rows");
  if (c->onset > 0) return refuse_combination(ctx, m, "onset: it is of soft rows");
  if (m->integrator == pb_intRK4)
    return refuse_combination(ctx, m, "integrator RK4: it solves for the velocity after one step, not for a force");
  return pb_ok;
}

pbStatus pbModel_CheckContact(pbContext *ctx, const pbModel *m) {
  bool erp = m->contact.erp >= 0, cfm = m->contact.cfm >= 0;
  if (erp == cfm) return check_method(ctx, m);

  return pbContext_Fail(ctx, pb_bad_argument, "contact setting %s is set and %s is not: they go together", erp ? "erp" : "cfm",
                        erp ? "cfm" : "erp");
}

// ---- time steps of penalty contacts -----------------------------------------------------------------------------------
// Of m x'' = -k x - c x': semi-implicit Euler is stable where h^2 k + 2 h c < 4 m, Runge-Kutta (about) where
// h |lambda| < 2.78, lambda the faster of the two rates.
static double stable_timestep(const pbModel *m, double k, double c, double mass) {
  if (m->integrator != pb_intRK4) return 4 * mass / (c + sqrt(c * c + 4 * k * mass));

  double spread = c * c - 4 * k * mass;
  return 2.78 / (spread > 0 ? (c + sqrt(spread)) / (2 * mass) : sqrt(k / mass));
}

double pbModel_ContactTimestep(const pbModel *m, const double *theta, int geoms[2]) {
  double shortest = INFINITY;
  if (m->contact.method != pb_contactPenalty) return shortest;
  const double *weight = theta + (m->body_invweight0 - m->theta0);
  double stiffness = theta[m->contact_stiffness - m->theta0];
  double damping = theta[m->contact_damping - m->theta0];

  // All contact points of a pair act in parallel on the mass that it feels, 1 / (invweight0 of body 1 + of body 2).
  for (int i = 0; i < m->topology->ncandidate; i++) {
    const pbCandidate *p = m->topology->candidate + i;
    double inverse = weight[2 * m->geom_bodyid[p->geom1]] + weight[2 * m->geom_bodyid[p->geom2]];
    if (inverse <= 0) continue;
    double h = stable_timestep(m, p->contacts * stiffness, p->contacts * damping, 1 / inverse);

    if (!(h < shortest)) continue;

    shortest = h;
    if (geoms) {
      geoms[0] = p->geom1;
      geoms[1] = p->geom2;
    }
  }
  return shortest;
}

// ---- setting ------------------------------------------------------------------------------------------------------------
static pbStatus unknown_setting(pbModel *m, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[256];

  for (int i = 0; i < SETTING_COUNT; i++) pbSuggest_Offer(&near, setting_table[i].name);

  return pbContext_Fail(m->ctx, pb_bad_argument, "unknown contact setting '%.80s'%s", name,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus set_word(pbModel *m, const pbSetting *e, const char *value) {
  pbSuggest near = pbSuggest_For(value);
  char hint[256];

  for (int i = 0; e->words[i]; i++) {
    pbSuggest_Offer(&near, e->words[i]);
    if (strcmp(e->words[i], value) != 0) continue;
    *(int *)place_of(&m->contact, e) = i;
    return pb_ok;
  }

  // Where no word is near, the message lists them all.
  pbSuggest_Write(&near, hint, sizeof hint);
  if (!near.best) {
    for (int i = 0; e->words[i]; i++) {
      size_t used = strlen(hint);
      snprintf(hint + used, sizeof hint - used, "%s%s", i ? ", " : "; there are ", e->words[i]);
    }
  }

  return pbContext_Fail(m->ctx, pb_bad_argument, "contact setting %s: there is no '%.80s'%s", e->name, value, hint);
}

static pbStatus set_number(pbModel *m, const pbSetting *e, const char *value) {
  double number = -1;
  bool off = e->can_be_off && strcmp(value, "off") == 0;
  if (!off && (!pbText_Real(value, &number) || !(number >= e->lower && number <= e->upper)))
    return pbContext_Fail(m->ctx, pb_bad_argument, "contact setting %s: expected a number from %g to %g%s, found '%.80s'",
                          e->name, e->lower, e->upper, e->can_be_off ? " or 'off'" : "", value);

  // Counts are stored as numbers too.
  if (e->whole && number != floor(number))
    return pbContext_Fail(m->ctx, pb_bad_argument, "contact setting %s: expected a whole number, found '%.80s'", e->name, value);

  if (!e->is_param) {
    *(double *)place_of(&m->contact, e) = number;
    return pb_ok;
  }

  // A parameter has one value for all of its rows.
  int rows;
  double *values = rows_of(m, e, &rows);
  for (int i = 0; i < rows; i++) values[i] = number;
  return pb_ok;
}

pbStatus pbModel_SetContact(pbModel *m, const char *name, const char *value) {
  for (int i = 0; i < SETTING_COUNT; i++) {
    const pbSetting *e = &setting_table[i];
    if (strcmp(e->name, name) != 0) continue;
    PB_TRY(e->words ? set_word(m, e, value) : set_number(m, e, value));

    // Parameters are entries of theta, and smoothing is read where a gradient is computed: work memory and tapes stay valid.
    bool smooth = !strcmp(name, "smooth_kappa") || !strcmp(name, "smooth_onset");
    if (!e->is_param && !smooth) m->revision++;
    return pb_ok;
  }
  return unknown_setting(m, name);
}
