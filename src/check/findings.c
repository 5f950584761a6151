// The check of a model's derivatives, in words: what is wrong or worth knowing about a rollout's gradient, where and why.
// Tests: tests/oracle/test_check.py.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/actuators.h>

#include "check/check.h"
#include "elementary/elementary.h"

enum { MOST_EVENTS = 6 };  // findings of one kind

static const char *solver_advice(const pbModel *m) {
  switch (pbModel_ContactSettings(m).method) {
    case pb_contactSweeps: return " Raise the contact setting sweeps.";
    case pb_contactLcp:
    case pb_contactCones:
      return " The laws are undecided there, as between sticking and sliding; the contact setting cfm softens them.";
    default: return " Raise the option iterations, or set the option tolerance to 0.";
  }
}

void pbCheck_SolverFindings(pbCheck *d) {
  static const double residual_limit = 1e-8;
  const pbCertificate *c = &d->report->certificate;
  pbCheckTest *t = pbCheck_AddTest(d, pb_solverTest, residual_limit);
  int bad = 0;

  for (int k = 0; k < d->steps; k++) {
    // steps without constraints solve nothing
    if (!d->reports[k].rows) continue;
    double residual = d->reports[k].residual;
    pbCheck_CountCase(t, residual, k);
    bad += !(residual <= residual_limit);
  }

  if (!bad) return;

  pbCheck_AddFinding(
      d, "unconverged solve", pbWords_Of("%d of %d steps, worst at step %d", bad, d->steps, t->step).text,
      "the constraint solve stopped at relative residual %.1e after %d iterations%s%s. The adjoint differentiates the exact "
      "solution, so gradients through these steps are wrong by about as much.%s",
      t->worst, d->reports[t->step].iterations, c->worst_row[0] ? " at the " : "", c->worst_row, solver_advice(d->r->model));
}

// Rigid impacts: the gradient covers the times of impact, but not their order.
static void impact_findings(pbCheck *d) {
  int events = 0;

  for (int k = 0; k < d->steps; k++) {
    // one finding per step, up to a few
    if (!d->reports[k].simultaneous || ++events > MOST_EVENTS) continue;
    pbCheck_AddFinding(
        d, "simultaneous impacts", pbWords_Of("step %d", k).text,
        "several contacts touch and approach at the same instant. Impacts of one pair are resolved together, pairs one after the "
        "other, the fastest first. A change of the state can separate them or change that order; the gradient does not cover "
        "that.");
  }
}

static void event_findings(pbCheck *d) {
  const pbCertificate *c = &d->report->certificate;

  if (c->grazing) {
    pbCheck_AddFinding(
        d, "grazing contacts", pbWords_Of("%d, first at step %d: %s", (int)c->grazing, c->grazing_step, c->grazing_contact).text,
        "they touch too slowly for the time of impact to have a usable derivative, and are treated as in mode exact, or their "
        "speed changes so much within a step that it is coarse, or what they meet is led by a path that accelerates, and how "
        "much faster it throws later is left out. Mode smooth has a gradient there.");
  }

  if (c->simultaneous) {
    pbCheck_AddFinding(
        d, "simultaneous contacts",
        pbWords_Of("%d, first at step %d: %s", (int)c->simultaneous, c->simultaneous_step, c->simultaneous_contact).text,
        "which one comes first depends on the direction of a change. The gradient is right for changes that keep them together; "
        "for others it is the mean of both sides.");
  }
}

static bool adheres(const pbModel *m) {
  for (int u = 0; u < pbModel_Size(m, "nu"); u++) {
    if (pbCheck_Integer(m, "actuator_trntype", u) == pb_trnBody) return true;
  }
  return false;
}

// Mode exact: every step at which the number of contacts changes.
static void onset_findings(pbCheck *d) {
  int events = 0;
  const char *advice = "mode event does that";
  if (pbCheck_Integer(d->r->model, "noslip_iterations", 0)) advice = "with noslip_iterations there is no mode that does that";
  if (adheres(d->r->model)) advice = "with actuators on bodies (adhesion) there is no mode that does that";
  if (pbModel_PointCount(d->r->model)) advice = "worlds with deformables have no mode that does that";

  for (int k = 1; k < d->steps; k++) {
    const pbTrace *a = &d->traces[k - 1], *b = &d->traces[k];

    // the first of them by step, the rest by number
    if (a->contacts == b->contacts || ++events > MOST_EVENTS) continue;

    const double *x = d->states + (size_t)k * (size_t)d->r->nx;
    double time = x[pbModel_StateFieldAt(d->r->model, 0).offset];
    pbCheck_AddFinding(
        d, pbTrace_Kink(a, b), pbWords_Of("step %d, time %.6g", k, time).text,
        "the number of contacts changes from %d to %d. The gradient is that of the discrete steps: the time of %s is not "
        "differentiated, so a finite change that moves it to another step is not foreseen; %s.",
        a->contacts, b->contacts, a->contacts < b->contacts ? "impact" : "release", advice);
  }

  if (events > MOST_EVENTS)
    pbCheck_AddFinding(d, "more contact events", "later steps", "%d more contact onsets or releases in this rollout.",
                       events - MOST_EVENTS);
}

void pbCheck_ContactFindings(pbCheck *d) {
  pbContactSettings settings = pbModel_ContactSettings(d->r->model);

  // with an onset distance contacts fade in: nothing to report
  if (settings.onset > 0) return;

  if (settings.method == pb_contactImpact) impact_findings(d);
  else if (d->options->mode != pb_gradientExact) event_findings(d);
  else onset_findings(d);
}

// Of state k of the stretch at hand, which is put into words.
static pbStatus tie_at(pbCheck *d, int k, char *text, size_t size) {
  const pbRollout *r = d->r;
  pbInput input = pbRollout_InputAt(r, k);
  pbStatus status;

  do {
    status = pbStep_Observe(r->model, d->theta, d->rows[in_states] + (size_t)k * (size_t)r->nx, &input, d->scratch, NULL);
  } while (pbScratch_Grow(d->scratch, &status));
  if (status != pb_ok) return pbRollout_StepFailed(d->r, status, k, pbScratch_Error(d->scratch));

  return pbScratch_Tie(d->scratch, text, size) ? pb_ok : pbRollout_StepFailed(d->r, pb_no_memory, k, pbStatus_Text(pb_no_memory));
}

int pbCheck_FirstTie(pbCheck *d) {
  char text[480];
  for (int k = 0; k < d->r->plan.steps; k++) {
    pbStatus status = tie_at(d, k, text, sizeof text);
    pbCheck_NoteFailure(d, status);
    if (status != pb_ok) return -1;
    if (*text) return k;
  }
  return -1;
}

// Contacts at whose very state there is no derivative of every direction: each of those met, at its first step.
pbStatus pbCheck_TieFindings(pbCheck *d) {
  char told[MOST_EVENTS][480], text[sizeof told[0]];
  int count = 0;
  PB_TRY(pbCheck_Stretch(d, 0, d->steps));

  for (int k = 0; k < d->steps && count < MOST_EVENTS; k++) {
    PB_TRY(tie_at(d, k, text, sizeof text));

    // distances of touches differ from step to step; names may hold colons
    int same = 0;
    const char *end = strstr(text, ": ");
    while (end && same < count && strncmp(text, told[same], (size_t)(end - text) + 1) != 0) same++;
    if (!end || same < count) continue;

    memcpy(told[count++], text, sizeof text);
    pbCheck_AddFinding(d, "no derivative of every direction", pbWords_Of("step %d", k).text,
                       "%s. The gradient is that of one side, or of one of the features, and differences do not agree with it.",
                       text);
  }
  return pb_ok;
}

// Half the smallest extent of a geom; infinite for planes.
static double half_extent(const pbCheck *d, int geom) {
  pbParam size;
  pbField type;
  double least = INFINITY;

  bool known =
      pbModel_Param(d->r->ctx, d->r->model, "geom_size", &size) == pb_ok && pbModel_Field(d->r->model, "geom_type", &type);
  if (!known || type.integers[geom] == pb_geomPlane) return INFINITY;

  // sizes that a type does not use are zero
  const double *s = d->theta + size.offset + (size_t)(geom * size.cols);
  for (int i = 0; i < size.cols; i++) least = s[i] > 0 && s[i] < least ? s[i] : least;
  return least;
}

static pbWords name_geom(const pbCheck *d, int geom) {
  const char *name = pbModel_Name(d->r->model, pb_objGeom, geom);
  return name && *name ? pbWords_Of("'%.60s'", name) : pbWords_Of("%d", geom);
}

void pbCheck_PenetrationFindings(pbCheck *d) {
  static const double penetration_limit = 0.1;
  const pbCertificate *c = &d->report->certificate;
  if (c->penetration_step < 0) return;

  const int *g = c->penetrating;
  double extent = fmin(half_extent(d, g[0]), half_extent(d, g[1])), part = c->penetration / extent;

  // a tenth of the half extent is more than any contact should yield
  if (!(part > penetration_limit)) return;

  pbCheck_AddFinding(
      d, "deep penetration", pbWords_Of("step %d", c->penetration_step).text,
      "geoms %s and %s overlap by %.3g m, %.0f %% of half the smaller one's smallest extent. The contact is too soft for the "
      "load or impact it carries, so the motion is that of the softness; solref and solimp (method penalty: stiffness) set "
      "how stiff it is.",
      name_geom(d, g[0]).text, name_geom(d, g[1]).text, c->penetration, 100 * part);
}

// A sentence: begun with a capital, ended by a full stop and a space.
static void say_noise(const pbNoise *noise, char *text, size_t size) {
  size_t length = strlen(pbNoise_Say(noise, text, size));
  if (length == 0 || length + 3 > size) return;

  text[0] = (char)toupper((unsigned char)text[0]);
  memcpy(text + length, ". ", 3);
}

void pbCheck_GrowthFindings(pbCheck *d) {
  static const double growth_limit = 1e6;  // of the costate
  const pbCertificate *c = &d->report->certificate;
  double factor = pbExp(c->growth);
  if (!(factor > growth_limit) && d->noise.step < 0) return;

  // exact, but of little use: the linearization holds for tiny changes only
  char reach[512];
  say_noise(&d->noise, reach, sizeof reach);
  pbCheck_AddFinding(
      d, "chaotic growth", pbWords_Of("largest at step %d", c->costate_worst_step).text,
      "going back through %d steps the costate grows by a factor of %.1e (%.3g per second). The gradient is exact, but "
      "says little about changes larger than %.0e. %sShorten the horizon or raise the damping.",
      d->steps, factor, c->growth_rate, 1 / factor, reach);
}

// A failed test as a finding, and whether other constraints act at its step than at the one before.
static void failure_finding(pbCheck *d, const pbCheckTest *t) {
  const char *joint = t->words[0] ? "; " : "";
  pbWords where = t->step >= 0 ? pbWords_Of("step %d", t->step) : pbWords_Of("the whole rollout");
  if (isnan(t->worst)) {
    pbCheck_AddFinding(
        d, t->name, where.text,
        "the derivative is not finite (NaN or infinite)%s%s. A length of zero under a root, or a parameter or an input of "
        "extreme size, has none; the step's Jacobian shows the entry.",
        joint, t->words);
    return;
  }

  // a test may fail by what it says alone, with all numbers within the limit
  pbWords found = {{0}};
  if (!(t->worst <= t->limit)) found = pbWords_Of("found %.2e, expected at most %.0e%s", t->worst, t->limit, joint);
  bool event = t->step >= 1 && !pbTrace_Same(&d->traces[t->step], &d->traces[t->step - 1]);
  pbCheck_AddFinding(d, t->name, where.text, "%s%s.%s", found.text, t->words,
                     event ? " The set of active constraints changes at this step." : "");
}

void pbCheck_FailureFindings(pbCheck *d) {
  for (int i = 0; i < d->report->test_count; i++) {
    const pbCheckTest *t = &d->report->test[i];

    // the solver and missing derivatives have findings of their own
    if (!t->holds && strcmp(t->name, pb_solverTest) != 0 && strcmp(t->name, pb_finiteTest) != 0) failure_finding(d, t);
  }
}
