// pullback simulate: a rollout, all of its states or every so many.
// Tests: tests/oracle/test_cli.py, tests/oracle/test_going_on.py.
#include <limits.h>

#include "kept.h"
#include "worlds.h"

static pbStatus simulate(cliRun *run, cliKept *kept, pbArrays *set) {
  cliProgress progress;
  pbSimulation s = cliRun_Simulation(run);
  PB_TRY(pbArrays_Create(run->ctx, &kept->left));
  s.progress = cliProgress_On;
  s.user = &progress;
  s.from = kept->from;
  s.left = kept->left;

  // from here on an interrupt is a flag that is asked for between two steps
  cliProgress_Begin(&progress, run->app, "simulate");
  cliSignals_Defer();
  pbStatus status = pbSimulation_Run(run->ctx, &s, set, &run->notes);
  cliProgress_End(&progress);

  // the library knows no file
  char why[600];
  snprintf(why, sizeof why, "%.590s", pbContext_Error(run->ctx));
  if (status == pb_bad_input && kept->from)
    return pbContext_Fail(run->ctx, status, "%s: %s; --fresh begins anew", kept->path, why);

  // what is done by then is kept
  if (status == pb_interrupted) return cliKept_Save(kept, pbContext_Error(run->ctx));

  cliSignals_Undefer();
  if (status == pb_ok) cliRun_WarnSolver(run);
  return status;
}

static pbStatus one_world(cliRun *run, cliKept *kept) {
  pbArrays *set;
  PB_TRY(cliKept_Load(kept));
  cliKept_SayStep(kept, run->steps);
  PB_TRY(pbArrays_Create(run->ctx, &set));

  // the file, then what is seen of it
  pbStatus status = simulate(run, kept, set);
  if (status == pb_ok) status = cli_save(run->app, set);
  if (status == pb_ok) status = cliRun_SaveMotion(run, set);
  pbArrays_Destroy(set);
  return status;
}

// Whether the files can be written is asked before the work, not after it.
static pbStatus can_write(cliApp *app) {
  static const cliOptionId outputs[] = {opt_output, opt_vtu, opt_glb};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    const char *name = app->args.text[outputs[i]];
    if (name) PB_TRY(pbFile_CanWrite(app->ctx, name));
  }
  return pb_ok;
}

pbStatus cliSimulate_Run(cliApp *app) {
  cliRun run = {0};
  cliKept kept;
  pbStatus status = cliKept_Begin(app, &kept);
  if (status == pb_ok) status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = cliArgs_Integer(app, opt_every, 1, INT_MAX, 1, &run.every);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = can_write(app);

  if (status == pb_ok) status = app->args.text[opt_worlds] ? cliWorlds_Simulate(&run, &kept) : one_world(&run, &kept);
  status = cliKept_End(&kept, status);
  cliRun_End(&run);
  return status;
}
