// pullback gradient: the certificate of a gradient, in "meta" of its file and, where it says that something is wrong, on
// standard error.
// Tests: tests/oracle/test_cli.py.
#include <math.h>
#include <string.h>

#include "gradient.h"

static void write_geoms(pbJson *j, const char *name, const int geoms[2]) {
  pbJson_Open(j, name, '[');
  pbJson_Integer(j, NULL, geoms[0]);
  pbJson_Integer(j, NULL, geoms[1]);
  pbJson_Close(j, ']');
}

static void write_member(const pbCertificate *c, const pbCertificateMember *member, pbJson *j) {
  const void *value = (const char *)c + member->offset;

  switch (member->type) {
    case pb_certificateReal: pbJson_Number(j, member->name, *(const double *)value); break;
    case pb_certificateInteger: pbJson_Integer(j, member->name, *(const int *)value); break;
    case pb_certificateCount: pbJson_Integer(j, member->name, (long)*(const int64_t *)value); break;
    case pb_certificateBytes: pbJson_Integer(j, member->name, (long)*(const size_t *)value); break;
    case pb_certificateFlag: pbJson_Bool(j, member->name, *(const bool *)value); break;
    case pb_certificateText: pbJson_Text(j, member->name, value); break;
    case pb_certificateGeoms: write_geoms(j, member->name, value); break;
  }
}

// Where the gradient is noise; null: nowhere, or its growth gave no reason to look.
static void write_noise(const pbNoise *noise, pbJson *j) {
  pbJson_Open(j, "noise", '{');
  pbJson_Number(j, "time", noise->time);
  pbJson_Integer(j, "step", noise->step);
  pbJson_Number(j, "move", noise->move);
  pbJson_Number(j, "growth", noise->growth);
  pbJson_Number(j, "unforeseen", noise->unforeseen);
  pbJson_Number(j, "window", noise->window);
  pbJson_Close(j, '}');
}

static void write_certificate(const cliGradient *g, const char *key, int t, pbJson *j) {
  int count;
  char text[400];
  const pbCertificate *c = &g->certificates[t];
  const pbCertificateMember *members = pbCertificate_Members(&count);

  pbJson_Open(j, key, '{');
  pbJson_Text(j, "mode", pbGradientKind_Name(g->mode));
  pbJson_Text(j, "checked", pbCertificate_Checked(c));
  if (c->truncated) pbJson_Text(j, "truncation", pbCertificate_Truncation(c, text, sizeof text));
  pbStepNotes notes = pbStepNotes_None();
  pbStepNotes_AddCertificate(&notes, c);
  if (c->gains) pbStepNotes_DescribeGain(&notes, j);

  // then every member that says something here
  for (int i = 0; i < count; i++) {
    if (pbCertificate_Says(c, &members[i])) write_member(c, &members[i], j);
  }
  write_noise(&g->noises[t], j);
  pbJson_Close(j, '}');
}

static void write_certificates(const cliGradient *g, pbJson *j) {
  pbJson_Integer(j, "trajectories", g->count);
  pbJson_Open(j, "certificates", '[');

  for (int t = 0; t < g->count; t++) write_certificate(g, NULL, t, j);
  pbJson_Close(j, ']');
}

pbStatus cliGradient_AddMeta(const cliGradient *g, pbArrays *set) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(g->run->ctx, &draft));

  pbJson j = {.out = draft.stream, .compact = true};
  pbJson_Open(&j, NULL, '{');
  cliRun_Meta(g->run, &j);

  if (g->run->app->args.text[opt_loss]) pbJson_Number(&j, "loss", g->loss_value);
  if (g->count == 1) write_certificate(g, "certificate", 0, &j);
  if (g->count > 1) write_certificates(g, &j);
  pbJson_Close(&j, '}');
  return cliRun_AddMeta(set, &draft);
}

static void warn_noise(const cliRun *run, const pbCertificate *c, const pbNoise *noise) {
  char where[120];
  snprintf(where, sizeof where, "going back through %ld steps the costate grows by a factor of %.1e. ", run->steps,
           exp(c->growth));

  cliNoise_Warn(noise, where);
}

static void warn_growth(const cliRun *run, const pbCertificate *c) {
  static const double growth_limit = 1e6;  // of the costate
  double factor = exp(c->growth);
  if (!(factor > growth_limit)) return;

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
  // Of method impact; in mode event below.
  if (g->mode != pb_gradientEvent && c->simultaneous > 0) {
    fprintf(cli_err,
            "pullback: warning: %ld impacts come while another contact touches and approaches, too (first at step %d): the "
            "gradient is "
            "that of the order in which they were taken\n",
            (long)c->simultaneous, c->simultaneous_step);
  }

  if (g->mode != pb_gradientEvent && !c->grazing) return;

  if (c->grazing > 0) {
    fprintf(
        cli_err,
        "pullback: warning: %ld contact events graze, close unsteadily, or throw with a path that accelerates (first at step %d: "
        "%s): their time of impact has no usable derivative and was left out, or one that is coarse at this time step; --mode "
        "smooth has a gradient there\n",
        (long)c->grazing, c->grazing_step, c->grazing_contact);
  }

  if (c->simultaneous > 0) {
    fprintf(cli_err,
            "pullback: warning: %ld of %ld contact events coincide with others (first at step %d: %s): the gradient is right for "
            "changes that keep them together, and the mean of both sides for others\n",
            (long)c->simultaneous, (long)(c->grazing + c->events), c->simultaneous_step, c->simultaneous_contact);
  }
}

// Told, as what the gradient is: one of several, or their mean.
static void note_ties(const cliRun *run, const pbCertificate *c) {
  if (c->ties == 0) return;

  fprintf(cli_err,
          "pullback: note: in %ld of %ld steps two features of shapes tie (first at step %d: %s): which of them meets hangs on "
          "the direction of a move, and the gradient is that of one of them, or of their mean\n",
          (long)c->ties, run->steps, c->tie_step, c->tie_contact);
}

static void note_kinks(const cliRun *run, const pbCertificate *c) {
  if (c->kinks == 0) return;

  fprintf(
      cli_err,
      "pullback: note: in %ld of %ld steps the energy of an element stands at a kink (first at step %d: %s): its force answers "
      "otherwise to one side than to the other, and the gradient is that of one of them\n",
      (long)c->kinks, run->steps, c->kink_step, c->kink_element);
}

// The check of a whole rollout that could not be made: it says nothing about the gradient.
static void note_left_out(const pbCertificate *c) {
  char why[512];

  // the contact where it is known, else the step
  if (c->spot_tie_step >= 0) snprintf(why, sizeof why, "at step %d %.400s", c->spot_tie_step, c->spot_tie);
  else if (c->spot_left_tie) snprintf(why, sizeof why, "features of a contact tie at step %d", c->spot_kink);
  else if (c->spot_kink >= 0)
    snprintf(why, sizeof why, "near a kink: a constraint or a feature of a contact changes at step %d", c->spot_kink);
  else
    snprintf(why, sizeof why, "differences over shorter moves, or to both sides, disagree, as they do near a kink or in noise");

  fprintf(cli_err,
          "pullback: note: the gradient was not compared over the whole rollout: %s (--spot-check steps compares single steps)\n",
          why);
}

static void warn_spot(const pbCertificate *c) {
  if (!c->spot_off && (c->spot_part & pb_partRollout) && c->spot_left_out) note_left_out(c);
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

  cliRun_NoteCertificate(run, c);
  cliRun_WarnSolver(run);

  // told here; the certificates in meta have it trajectory by trajectory
  run->notes.gains = 0;
  note_truncation(c);
  if (g->noises[t].step >= 0 && !c->truncated) warn_noise(run, c, &g->noises[t]);
  else warn_growth(run, c);
  warn_events(g, c);
  warn_spot(c);
  note_ties(g->run, c);
  note_kinks(g->run, c);
}
