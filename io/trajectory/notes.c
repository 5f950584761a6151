// How the steps of a run went: the worst solve, the deepest overlap, gained energy, and what is said of them.
// Tests: tests/unit/test_describe.c, tests/oracle/test_task_run.py, tests/oracle/test_cli.py.
#include <stdio.h>
#include <string.h>

#include <pullback/contact.h>
#include <pullback/deform.h>
#include <pullback/enums.h>
#include <pullback/trajectory.h>

pbStepNotes pbStepNotes_None(void) {
  return (pbStepNotes){
      .worst_residual_step = -1, .penetration_step = -1, .gain_step = -1, .penetrating = {-1, -1}, .gaining = {-1, -1}};
}

static void add_residual(pbStepNotes *notes, double residual, double condition, const char *row, long k) {
  // the first counts whatever it is
  if (notes->worst_residual_step >= 0 && residual <= notes->worst_residual) return;
  notes->worst_residual = residual;
  notes->worst_residual_step = k;
  notes->worst_condition = condition;
  snprintf(notes->worst_row, sizeof notes->worst_row, "%s", row);
}

static void add_penetration(pbStepNotes *notes, double depth, const int geoms[2], long k) {
  if (!(depth > notes->penetration)) return;
  notes->penetration = depth;
  notes->penetration_step = k;
  memcpy(notes->penetrating, geoms, sizeof notes->penetrating);
}

void pbStepNotes_Add(pbStepNotes *notes, const pbScratch *scratch, long k) {
  pbReport report = pbScratch_Report(scratch);

  // without constraints and deformables nothing was solved
  if (report.rows || report.deforms) add_residual(notes, report.residual, report.condition, pbScratch_WorstRow(scratch), k);
  notes->unconverged += !report.converged;

  add_penetration(notes, report.penetration, report.penetrating, k);

  notes->gains += report.gains;
  if (!(report.gain > notes->gain)) return;
  notes->gain = report.gain;
  notes->gain_step = k;
  memcpy(notes->gaining, report.gaining, sizeof notes->gaining);
}

void pbStepNotes_AddCertificate(pbStepNotes *notes, const pbCertificate *c) {
  if (c->worst_residual_step >= 0) {
    notes->unconverged = (long)c->unconverged;
    add_residual(notes, c->worst_residual, c->worst_condition, c->worst_row, c->worst_residual_step);
  }

  add_penetration(notes, c->penetration, c->penetrating, c->penetration_step);
  notes->gains = (long)c->gains;
  notes->gain = c->gain;
  notes->gain_step = c->gain_step;
  memcpy(notes->gaining, c->gaining, sizeof notes->gaining);
}

// ---- kept -------------------------------------------------------------------------------------------------------------
enum { KEPT = 14 };

pbStatus pbStepNotes_Keep(const pbStepNotes *n, pbArrays *set) {
  const double numbers[KEPT] = {n->worst_residual,
                                (double)n->worst_residual_step,
                                (double)n->unconverged,
                                n->worst_condition,
                                n->penetration,
                                (double)n->penetration_step,
                                n->penetrating[0],
                                n->penetrating[1],
                                (double)n->gains,
                                (double)n->gain_step,
                                n->gain,
                                n->gaining[0],
                                n->gaining[1],
                                KEPT};

  // the count itself comes last, as a mark
  PB_TRY(pbArrays_AddReals(set, "notes", 1, (size_t[]){KEPT}, numbers, NULL));
  return pbArrays_AddText(set, "notes_row", n->worst_row);
}

bool pbStepNotes_Restore(pbStepNotes *n, const pbArrays *set) {
  const pbArray *numbers = pbArrays_Find(set, "notes"), *row = pbArrays_Find(set, "notes_row");
  if (!numbers || numbers->type != pb_arrayReal || numbers->count != KEPT || numbers->reals[KEPT - 1] != KEPT) return false;
  if (!row || row->type != pb_arrayText || row->count != 1) return false;

  // counts of a forged file are bounded before they are converted
  const double *v = numbers->reals;
  for (int i = 0; i < KEPT; i++) {
    bool real = i == 0 || i == 3 || i == 4 || i == 10;
    if (!real && !(v[i] >= -1 && v[i] <= INT32_MAX)) return false;
  }

  *n = (pbStepNotes){.worst_residual = v[0],
                     .worst_residual_step = (long)v[1],
                     .unconverged = (long)v[2],
                     .worst_condition = v[3],
                     .penetration = v[4],
                     .penetration_step = (long)v[5],
                     .penetrating = {(int)v[6], (int)v[7]},
                     .gains = (long)v[8],
                     .gain_step = (long)v[9],
                     .gain = v[10],
                     .gaining = {(int)v[11], (int)v[12]}};

  // a longer name is cut, as the first one was
  snprintf(n->worst_row, sizeof n->worst_row, "%s", row->text);
  return true;
}

bool pbStepNotes_Fit(const pbStepNotes *n, const pbModel *model) {
  const int geoms[] = {n->penetrating[0], n->penetrating[1], n->gaining[0], n->gaining[1]};
  for (int i = 0; i < 4; i++) {
    // none is -1, but what is said of gains and depths names both
    bool named = i < 2 ? n->penetration > 0 : n->gains > 0;
    if (geoms[i] < (named ? 0 : -1) || geoms[i] >= pbModel_Size(model, "ngeom")) return false;
  }
  return true;
}

// ---- what is said -----------------------------------------------------------------------------------------------------
typedef struct Said {
  const pbStepNotes *notes;
  const pbModel *model;
  long steps;
  FILE *out;
} Said;

static int iterations_of(const pbModel *model) { return pbModel_Integer(model, "iterations", 0); }

// What the convergence of a solve depends on: hard contact has neither that condition number nor those iterations.
static void solver_detail(const Said *s, char *text, size_t size) {
  pbContactSettings c = pbModel_ContactSettings(s->model);
  text[0] = 0;

  if (c.method == pb_contactSweeps) {
    snprintf(text, size, " (contact setting sweeps is %.0f; a larger cfm, set with erp, needs fewer)", c.sweeps);
    return;
  }
  if (c.method == pb_contactLcp || c.method == pb_contactCones) return;

  snprintf(text, size, " (condition number about %.0e; option iterations is %d)", s->notes->worst_condition,
           iterations_of(s->model));
}

// Newton's law of restitution constrains normal velocities only: coupled to friction, an impact can gain kinetic energy.
static void warn_energy(const Said *s) {
  if (!s->notes->gains) return;

  bool impact = pbModel_ContactSettings(s->model).method == pb_contactImpact;
  const char *remedy = impact ? "contact setting restitution_law=capped prevents it"
                              : "less restitution reduces it, and contact method impact with restitution_law=capped prevents it";
  fprintf(s->out,
          "step %ld of %ld: the impact of geom %d '%s' and geom %d '%s' made %.3g J of kinetic energy, the "
          "worst of %ld such impacts; Newton's restitution with friction can do this; %s\n",
          s->notes->gain_step, s->steps, s->notes->gaining[0], pbModel_Name(s->model, pb_objGeom, s->notes->gaining[0]),
          s->notes->gaining[1], pbModel_Name(s->model, pb_objGeom, s->notes->gaining[1]), s->notes->gain, s->notes->gains,
          remedy);
}

// The worst step is one of the deformables' minimizer, not of a constraint.
static bool minimizer_stopped(const Said *s) {
  return pbModel_PointCount(s->model) > 0 && !s->notes->worst_row[0] && s->notes->worst_condition == 0;
}

static void warn_minimizer(const Said *s) {
  fprintf(s->out,
          "step %ld of %ld: the minimizer of the deformables stopped where points still moved by %.1e of the "
          "scene's size, the worst of %ld steps that did not converge; results are off by at least as much, and gradients, which "
          "assume a minimum, may be wrong altogether (see the deformables' iterations, tolerance and approximate)\n",
          s->notes->worst_residual_step, s->steps, s->notes->worst_residual, s->notes->unconverged);
}

static void warn_solver(const Said *s) {
  // Shares of contacts that hold one body come slowest of all, and move nothing.
  char detail[160];
  solver_detail(s, detail, sizeof detail);
  bool sweeps = pbModel_ContactSettings(s->model).method == pb_contactSweeps;
  fprintf(s->out,
          "step %ld of %ld: the constraint solver stopped at relative residual %.1e%s%s, the worst of %ld steps "
          "that did not converge; %s%s\n",
          s->notes->worst_residual_step, s->steps, s->notes->worst_residual, s->notes->worst_row[0] ? " at the " : "",
          s->notes->worst_row, s->notes->unconverged,
          sweeps
              ? "forces are off by about as much, the motion by less where several contacts hold one body, and gradients, which "
                "assume converged sweeps, may be off by far more"
              : "results are off by about as much",
          detail);
}

const char *pbStepNotes_Say(const pbStepNotes *notes, const pbModel *model, long steps, char *text, size_t size) {
  text[0] = 0;
  Said s = {notes, model, steps, fmemopen(text, size, "w")};
  if (!s.out) return text;

  warn_energy(&s);
  if (notes->unconverged && minimizer_stopped(&s)) warn_minimizer(&s);
  else if (notes->unconverged) warn_solver(&s);
  fclose(s.out);
  text[size - 1] = 0;
  return text;
}
