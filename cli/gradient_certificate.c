// pullback gradient: the certificate of a gradient, in "meta" of its file and, where it says that something is wrong, on
// standard error.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradient.h"

static void write_spot(const pbCertificate *c, cliJson *j) {
  cliJson_Bool(j, "spot_checked", c->spot_checked);
  cliJson_Text(j, "checked", pbCertificate_Checked(c));
  if (!c->spot_checked) return;

  cliJson_Number(j, "spot_gradient", c->spot_gradient);
  cliJson_Number(j, "spot_difference", c->spot_difference);
  cliJson_Number(j, "spot_error", c->spot_error);
  cliJson_Number(j, "spot_limit", c->spot_limit);
  cliJson_Bool(j, "spot_off", c->spot_off);
  cliJson_Integer(j, "spot_step", c->spot_step);
  cliJson_Text(j, "spot_where", c->spot_where);
  cliJson_Text(j, "spot_row", c->spot_row);

  cliJson_Integer(j, "spot_steps", (long)c->spot_steps);
  cliJson_Integer(j, "spot_quotients", (long)c->spot_quotients);
  cliJson_Integer(j, "spot_left_out", (long)c->spot_left_out);
  cliJson_Integer(j, "spot_kink", c->spot_kink);
  cliJson_Integer(j, "spot_tie_step", c->spot_tie_step);
  cliJson_Text(j, "spot_tie", c->spot_tie);
}

// Modes event and smooth: what became of the contact events.
static void write_events(const pbCertificate *c, cliJson *j) {
  cliJson_Integer(j, "events", (long)c->events);
  cliJson_Integer(j, "event_step", c->event_step);
  cliJson_Integer(j, "grazing", (long)c->grazing);
  cliJson_Integer(j, "grazing_step", c->grazing_step);
  cliJson_Text(j, "grazing_contact", c->grazing_contact);
  cliJson_Integer(j, "simultaneous", (long)c->simultaneous);
  cliJson_Integer(j, "simultaneous_step", c->simultaneous_step);
  cliJson_Text(j, "simultaneous_contact", c->simultaneous_contact);
}

// What was left out of the derivative on purpose.
static void write_truncation(const pbCertificate *c, cliJson *j) {
  char text[400];
  cliJson_Bool(j, "truncated", c->truncated);
  if (!c->truncated) return;

  cliJson_Text(j, "truncation", pbCertificate_Truncation(c, text, sizeof text));
  cliJson_Number(j, "decay", c->decay);
  cliJson_Number(j, "window", c->window);
  cliJson_Number(j, "clip", c->clip);
  cliJson_Integer(j, "cuts", (long)c->cuts);
  cliJson_Integer(j, "clips", (long)c->clips);
  cliJson_Integer(j, "clip_step", c->clip_step);
  cliJson_Number(j, "clip_most", c->clip_most);
}

static void write_certificate(const cliGradient *g, const char *key, const pbCertificate *c, cliJson *j) {
  cliJson_Open(j, key, '{');
  cliJson_Text(j, "mode", pbGradientKind_Name(g->mode));

  // the constraint solves that the adjoint assumes to be exact
  cliJson_Number(j, "worst_residual", c->worst_residual);
  cliJson_Integer(j, "worst_residual_step", c->worst_residual_step);
  cliJson_Integer(j, "unconverged", (long)c->unconverged);
  cliJson_Text(j, "worst_row", c->worst_row);
  cliJson_Number(j, "worst_condition", c->worst_condition);

  // contacts
  cliJson_Integer(j, "onsets", (long)c->onsets);
  cliJson_Integer(j, "releases", (long)c->releases);
  if (isfinite(c->approach)) {
    cliJson_Integer(j, "simultaneous_impacts", (long)c->simultaneous);
    cliJson_Number(j, "slowest_approach", c->approach);
  }
  if (g->mode == pb_gradientEvent) write_events(c, j);
  if (c->gains) cli_energy_made(j, (long)c->gains, c->gain, c->gain_step, c->gaining);
  cliJson_Integer(j, "most_contacts", c->most_contacts);
  cliJson_Integer(j, "most_rows", c->most_rows);

  // growth of the costate, from the last step to the first
  cliJson_Number(j, "costate_initial", c->costate_initial);
  cliJson_Number(j, "costate_final", c->costate_final);
  cliJson_Number(j, "growth", c->growth);
  cliJson_Number(j, "growth_rate", c->growth_rate);
  cliJson_Number(j, "costate_worst", c->costate_worst);
  cliJson_Integer(j, "costate_worst_step", c->costate_worst_step);

  write_truncation(c, j);

  // what it took
  cliJson_Integer(j, "steps", (long)c->steps);
  cliJson_Integer(j, "recomputed", (long)c->recomputed);
  cliJson_Integer(j, "tape_bytes", (long)c->tape_bytes);
  cliJson_Integer(j, "full_tape_bytes", (long)c->full_tape_bytes);

  write_spot(c, j);
  cliJson_Close(j, '}');
}

static void write_certificates(const cliGradient *g, cliJson *j) {
  cliJson_Integer(j, "trajectories", g->count);
  cliJson_Open(j, "certificates", '[');
  for (int t = 0; t < g->count; t++) write_certificate(g, NULL, &g->certificates[t], j);
  cliJson_Close(j, ']');
}

pbStatus cliGradient_AddMeta(const cliGradient *g, pbArrays *set) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return cli_noMemory(g->run->ctx);

  cliJson j = {.out = stream, .compact = true};
  cliJson_Open(&j, NULL, '{');
  cliRun_Meta(g->run, &j);

  if (g->run->app->args.text[opt_loss]) cliJson_Number(&j, "loss", g->loss_value);
  if (g->count == 1) write_certificate(g, "certificate", &g->certificates[0], &j);
  if (g->count > 1) write_certificates(g, &j);
  cliJson_Close(&j, '}');
  return cliRun_AddMeta(set, stream, &text);
}

static void warn_growth(const cliRun *run, const pbCertificate *c) {
  double factor = exp(c->growth);
  if (!(factor > cli_growthLimit)) return;
  fprintf(cli_err,
          "pullback: warning: going back through %ld steps the costate grows by a factor of %.1e (largest at step %d): the "
          "gradient says little about changes larger than %.0e ('pullback check' examines it)\n",
          run->steps, factor, c->costate_worst_step, 1 / factor);
}

// No fault: but who reads the gradient should know that it is none of the rollout.
static void note_truncation(const pbCertificate *c) {
  char text[400];
  if (!c->truncated) return;
  fprintf(cli_err, "pullback: note: the gradient is truncated: %s\n", pbCertificate_Truncation(c, text, sizeof text));
}

static void warn_events(const cliGradient *g, const pbCertificate *c) {
  if (g->mode != pb_gradientEvent) return;

  if (c->grazing > 0) {
    fprintf(cli_err,
            "pullback: warning: %ld of %ld contact events graze (first at step %d: %s): their time of impact has no usable "
            "derivative and was left out; --mode smooth has a gradient there\n",
            (long)c->grazing, (long)(c->grazing + c->events), c->grazing_step, c->grazing_contact);
  }

  if (c->simultaneous > 0) {
    fprintf(cli_err,
            "pullback: warning: %ld of %ld contact events coincide with others (first at step %d: %s): the gradient is right for "
            "changes that keep them together, and the mean of both sides for others\n",
            (long)c->simultaneous, (long)(c->grazing + c->events), c->simultaneous_step, c->simultaneous_contact);
  }
}

// The check of a whole rollout that could not be made: it says nothing about the gradient.
static void note_kink(const pbCertificate *c) {
  char where[128] = "";
  if (c->spot_kink >= 0)
    snprintf(where, sizeof where, ": a constraint or a feature of a contact changes at step %d", c->spot_kink);
  fprintf(cli_err,
          "pullback: note: the gradient was not compared over the whole rollout: differences over shorter moves, or to both "
          "sides, disagree, as they do near a kink%s (--spot-check steps compares single steps)\n",
          where);
}

static void warn_spot(const pbCertificate *c) {
  if (!c->spot_off && (c->spot_part & pb_partRollout) && c->spot_left_out) note_kink(c);
  if (!c->spot_off) return;

  char where[64] = "over the whole rollout";
  if (c->spot_step >= 0) snprintf(where, sizeof where, "at step %d of %ld", c->spot_step, (long)c->steps);

  fprintf(cli_err,
          "pullback: warning: the gradient is off %s: along a random direction it gives %.6g, but %.6g was measured (apart by "
          "%.1e of their terms, expected at most %.0e)%s%s%s%s%s ('pullback check' examines it)\n",
          where, c->spot_gradient, c->spot_difference, c->spot_error, c->spot_limit, c->spot_where[0] ? "; mostly by '" : "",
          c->spot_where, c->spot_where[0] ? "'" : "", c->spot_row[0] ? "; active there: the " : "", c->spot_row);
}

void cliGradient_Warn(const cliGradient *g, int t) {
  cliRun *run = g->run;
  const pbCertificate *c = &g->certificates[t];

  if (c->worst_residual_step >= 0) {
    run->unconverged = c->unconverged;
    cliRun_NoteResidual(run, c->worst_residual, c->worst_condition, c->worst_row, c->worst_residual_step);
  }

  cliRun_NotePenetration(run, c->penetration, c->penetrating, c->penetration_step);
  run->gains = (long)c->gains;
  run->gain = c->gain;
  run->gain_step = c->gain_step;
  memcpy(run->gaining, c->gaining, sizeof run->gaining);
  cliRun_WarnSolver(run);

  // told here; the certificates in meta have it trajectory by trajectory
  run->gains = 0;
  note_truncation(c);
  warn_growth(run, c);
  warn_events(g, c);
  warn_spot(c);
}
