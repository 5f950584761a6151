// What an interrupted command has done, kept beside its output: the same command goes on with it, to the same bits.
// Tests: tests/oracle/test_going_on.py.
#include <string.h>

#include "kept.h"

// Options that change neither what is computed nor what is kept of it.
static bool is_beside(int id) {
  static const cliOptionId beside[] = {opt_output, opt_vtu,  opt_glb,    opt_page,    opt_compressed, opt_quiet,
                                       opt_fresh,  opt_json, opt_strict, opt_threads, opt_help,       opt_version};
  for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
    if ((int)beside[i] == id) return true;
  }
  return false;
}

// A command without one leaves what is done beside its page.
static bool has_output(const cliApp *app) { return app->command->options >> opt_output & 1; }

// Those that may be given several times, in their order.
static void add_list(pbKept *kept, const char *name, const cliList *list) {
  for (int i = 0; i < list->count; i++) pbKept_Add(kept, name, list->items[i]);
}

pbStatus cliKept_Begin(cliApp *app, cliKept *k) {
  char ending[40];
  const cliArgs *args = &app->args;
  const char *output = args->text[has_output(app) ? opt_output : opt_page];
  *k = (cliKept){.app = app};

  // named after the output and the command: two commands with one output have two
  snprintf(ending, sizeof ending, ".%s.state", app->command->name);
  bool nowhere = output ? pbRun_IsStream(output) : !has_output(app);
  if (!nowhere) PB_TRY(pbRun_FileName(app->ctx, output, args->positional[0], ending, k->path, sizeof k->path));
  PB_TRY(pbKept_Begin(app->ctx, &k->kept));

  // a line for every option, given or not: the first that differs is named
  pbKept_Add(k->kept, "the model or task", args->positional[0]);
  for (int i = 0; i < opt_count; i++) {
    char name[64];
    snprintf(name, sizeof name, "--%s", cliArgs_Name((cliOptionId)i));
    if (app->command->options >> i & 1 && !is_beside(i)) pbKept_Add(k->kept, name, args->text[i] ? args->text[i] : "\n");
  }
  add_list(k->kept, "--param", &args->params);
  add_list(k->kept, "--option", &args->options);
  add_list(k->kept, "--contact", &args->contact);
  add_list(k->kept, "--expose", &args->exposed);
  return pb_ok;
}

pbStatus cliKept_Load(cliKept *k) {
  if (!k->path[0]) return pb_ok;
  if (k->app->args.text[opt_fresh]) PB_TRY(cli_forget(k->app, k->path, true));
  return pbKept_Load(k->kept, k->path, &k->from);
}

pbStatus cliKept_Refuse(const cliKept *k) {
  return pbContext_Fail(k->app->ctx, pb_bad_input, "%s: does not fit the run; --fresh begins anew", k->path);
}

void cliKept_SayStep(const cliKept *k, long steps) {
  // a state of many worlds has none
  const pbArray *step = k->from ? pbArrays_Find(k->from, "step") : NULL;
  if (!step || step->type != pb_arrayReal || step->count != 1 || k->app->args.text[opt_quiet]) return;
  fprintf(cli_err, "pullback %s: goes on at step %.0f of %ld, with %s\n", k->app->command->name, step->reals[0], steps, k->path);
}

pbStatus cliKept_Save(cliKept *k, const char *text) {
  const char *name = k->app->command->name;

  char said[600], why[1024];

  // the text may be the context's own, which an error replaces
  snprintf(said, sizeof said, "%.580s", text);

  // to a pipe or a device: who reads it has nothing of a part
  if (!k->path[0]) {
    fprintf(cli_err, "pullback %s: %s; nothing is kept beside what is no regular file\n", name, said);
    return pb_interrupted;
  }

  cliSignals_Hold();
  pbStatus status = pbKept_Save(k->kept, k->path, k->left);
  cliSignals_Release();
  if (status != pb_ok) {
    snprintf(why, sizeof why, "%s", pbContext_Error(k->app->ctx));
    return pbContext_Fail(k->app->ctx, status, "%s; what was done could not be kept: %s", said, why);
  }

  fprintf(cli_err, "pullback %s: %s; what is done is saved in %s, and the same command goes on with it\n", name, said, k->path);
  return pb_interrupted;
}

pbStatus cliKept_End(cliKept *k, pbStatus status) {
  // done, or a run that would fail again where it left off
  int code = pbStatus_ExitCode(status);
  bool over = status == pb_ok || status == pb_check_failed || code == pbStatus_ExitCode(pb_not_finite);
  if (over && k->from && cli_forget(k->app, k->path, false) != pb_ok) status = pb_file;

  pbArrays_Destroy(k->from);
  pbArrays_Destroy(k->left);
  pbKept_Destroy(k->kept);
  return status;
}

pbStatus cli_nothingKept(const cliApp *app, const char *why) {
  fprintf(cli_err, "pullback %s: %s; nothing is kept%s, and the same command begins anew\n", app->command->name,
          pbContext_Error(app->ctx), why);
  return pb_interrupted;
}
