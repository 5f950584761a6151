// pullback audit: does what was found survive a finer time step and a tight solver? The verdict, and what it rests on.
// Tests: tests/oracle/test_audit.py, tests/oracle/test_going_on.py.
#include <limits.h>
#include <math.h>

#include <pullback/audit.h>

#include "kept.h"

// The part of what was gained that is left of it; none of a gain of rounding.
static void print_gain(const pbAuditReport *r, const pbAuditRow *row) {
  double mean = r->row[pb_auditTrained].mean, gained = isnan(r->gained) ? mean : r->gained;
  double part = 100 * (1 + (row->mean - mean) / gained);
  bool rounding = fabs(gained) <= 1e-12 * fmax(fabs(mean), fabs(mean - gained));

  if (rounding) fprintf(cli_out, "%6s  ", "-");
  else fprintf(cli_out, "%6.1f %%", fabs(part) < 0.05 ? 0 : part);
}

// Work that is rounding beside what moved is none.
static void print_ledger(const pbAuditRow *row) {
  double size = fabs(row->energy) + fabs(row->taken), work = fabs(row->work) > 1e-12 * size ? row->work : 0;
  double gap = row->gap > 1e-12 ? row->gap : 0;

  fprintf(cli_out, "  %8.4g W  %9.4g J %8.3g %%", row->power, work, 100 * gap);
}

static void print_row(const pbAuditReport *r, const pbAuditRow *row) {
  if (!row->ran) {
    fprintf(cli_out, "%-20s %s\n", row->name, row->why);
    return;
  }

  fprintf(cli_out, "%-20s %10.4g +- %-9.3g ", row->name, row->mean, row->deviation);
  print_gain(r, row);
  fprintf(cli_out, "  %8.3g mm", 1e3 * row->overlap.value);
  if (row->torque_limit > 0) fprintf(cli_out, "  %8.4g of %-8.4g", row->torque, row->torque_limit);
  else fprintf(cli_out, "  %20s", "-   ");
  if (row->has_ledger) print_ledger(row);
  if (row->failed) fprintf(cli_out, "  %d of %d starts failed: %s", row->failed, r->starts, row->why);
  fprintf(cli_out, "%s\n", row->counts ? "" : "  (reported)");
}

static void print_report(const pbAuditReport *r) {
  fprintf(cli_out, "%s\n\n", r->verdict);
  fprintf(cli_out, "%s%s%s%s over %d starts (seed %llu); limits: %.3g %% of %s, energy %.3g %% of the work%s%s\n", r->objective,
          r->unit[0] ? " [" : "", r->unit, r->unit[0] ? "]" : "", r->starts, (unsigned long long)r->seed, 100 * r->tolerance,
          isnan(r->gained) ? "it" : "what was gained", 100 * r->ledger,
          r->why_no_ledger[0] ? ", of which no ledger is kept: " : "", r->why_no_ledger);
  fprintf(cli_out, "%-20s %10s    %-9s %8s  %11s  %20s  %10s  %11s %10s\n", "", "mean", "deviation", "gain", "penetration",
          "force of actuator", "power", "work", "remainder");
  for (int i = 0; i < pb_auditRunCount; i++) print_row(r, &r->row[i]);
}

static pbStatus write_json(cliApp *app, const pbAuditReport *report) {
  char *text = NULL;
  pbDraft page;
  PB_TRY(pbAuditReport_Json(app->ctx, report, &text));

  // To a file, or where no text is wanted.
  if (!app->args.text[opt_output]) {
    fprintf(cli_out, "%s\n", text);
    pbContext_Free(app->ctx, text);
    return pb_ok;
  }

  pbStatus status = pbDraft_Begin(app->ctx, &page);
  if (status == pb_ok) fprintf(page.stream, "%s\n", text);
  pbContext_Free(app->ctx, text);
  return status == pb_ok ? cli_saveDraft(app, app->args.text[opt_output], &page) : status;
}

typedef struct Audited {  // what the page is of
  cliApp *app;
  const pbAuditReport *report;
} Audited;

static pbStatus put_page(void *user, const pbPageHead *head, FILE *out) {
  const Audited *a = user;
  return pbAuditReport_Page(a->app->ctx, a->report, head, out);
}

static pbStatus read_options(cliApp *app, const pbTask *task, pbAuditOptions *o) {
  long starts = 0, seed = 0;
  *o = pbTask_AuditOptions(task);
  PB_TRY(cliArgs_Integer(app, opt_starts, 1, 1000000, o->starts, &starts));
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, LONG_MAX, (long)o->seed, &seed));
  o->starts = (int)starts;
  o->seed = (uint64_t)seed;
  return pb_ok;
}

// The kinds of runs that are done, for the same command.
static pbStatus interrupted(cliKept *kept, const pbAuditReport *report) {
  char said[80];

  // a kind that was on its way is begun anew
  snprintf(said, sizeof said, "interrupted after %d of %d kinds of runs", report->made, pb_auditRunCount);
  PB_TRY(pbArrays_Create(kept->app->ctx, &kept->left));
  PB_TRY(pbAuditRows_Keep(report->row, report->made, kept->left));
  return cliKept_Save(kept, said);
}

static pbStatus run_audit(cliKept *kept, pbTask *task, const double *z, pbAuditReport *report) {
  cliApp *app = kept->app;
  pbAuditOptions options;
  pbAuditRow rows[pb_auditRunCount];
  cliProgress progress;
  PB_TRY(read_options(app, task, &options));
  PB_TRY(cliKept_Load(kept));

  // those that cannot be taken from the file are made again
  if (kept->from) {
    pbAuditRows_Restore(kept->from, rows, &options.kept_count);
    if (!app->args.text[opt_quiet])
      fprintf(cli_err, "pullback audit: goes on after %d of %d kinds of runs, with %s\n", options.kept_count, pb_auditRunCount,
              kept->path);
  }

  // from here on an interrupt is a flag that is asked for between two starts
  cliProgress_Begin(&progress, app, "audit");
  cliSignals_Defer();
  options.kept = rows;
  options.progress = cliProgress_On;
  options.user = &progress;
  *report = (pbAuditReport){0};
  pbStatus status = pbTask_Audit(task, z, &options, report);
  cliProgress_End(&progress);
  if (status == pb_interrupted) return interrupted(kept, report);

  cliSignals_Undefer();
  return status;
}

static pbStatus audit(cliKept *kept, pbTask *task, double *z) {
  cliApp *app = kept->app;
  pbAuditReport report;
  PB_TRY(cliPage_CanWrite(app));

  // What is audited: the task at its start, or what a search has found.
  for (int i = 0; i < pbTask_Size(task); i++) z[i] = pbTask_Start(task)[i];
  if (app->args.text[opt_result]) PB_TRY(pbTask_ReadResult(task, app->args.text[opt_result], z));
  PB_TRY(run_audit(kept, task, z, &report));

  if (!app->args.text[opt_json]) print_report(&report);
  if (app->args.text[opt_json] || app->args.text[opt_output]) PB_TRY(write_json(app, &report));
  PB_TRY(cliPage_Save(app, app->args.positional[0], put_page, &(Audited){app, &report}));
  return report.confirmed ? pb_ok : pb_check_failed;
}

static pbStatus load_and_audit(cliKept *kept) {
  cliApp *app = kept->app;
  pbTask *task = NULL;
  PB_TRY(pbTask_LoadAudit(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], app->args.text[opt_policy], &task));

  double *z = pbContext_Alloc(app->ctx, ((size_t)pbTask_Size(task) + 1) * sizeof *z);
  pbStatus status = z ? audit(kept, task, z) : cli_noMemory(app->ctx);

  pbContext_Free(app->ctx, z);
  pbTask_Destroy(task);
  return status;
}

pbStatus cliAudit_Run(cliApp *app) {
  cliKept kept;
  pbStatus status = cliKept_Begin(app, &kept);
  if (status == pb_ok) status = load_and_audit(&kept);
  return cliKept_End(&kept, status);
}
