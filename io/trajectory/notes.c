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
