// pullback simulate: a rollout, all of its states or every so many.
// Tests: tests/oracle/test_cli.py.
#include <limits.h>

#include "worlds.h"

pbStatus cliRun_Simulate(cliRun *run, pbArrays *set) {
  cliProgress progress;
  pbSimulation s = cliRun_Simulation(run);
  s.progress = cliProgress_On;
  s.user = &progress;

  cliProgress_Begin(&progress, run->app, "simulate");
  pbStatus status = pbSimulation_Run(run->ctx, &s, set, &run->notes);
  cliProgress_End(&progress);
  if (status == pb_ok) cliRun_WarnSolver(run);
  return status;
}

pbStatus cliSimulate_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = cliArgs_Integer(app, opt_every, 1, INT_MAX, 1, &run.every);

  if (status == pb_ok) cliRun_FirstTrajectory(&run);

  // Whether the files can be written is asked before the work, not after it.
  static const cliOptionId outputs[] = {opt_output, opt_vtu, opt_glb};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    const char *name = app->args.text[outputs[i]];
    if (status == pb_ok && name) status = pbFile_CanWrite(app->ctx, name);
  }

  if (status == pb_ok && app->args.text[opt_worlds]) {
    status = cliWorlds_Simulate(&run);
    cliRun_End(&run);
    return status;
  }

  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) status = cliRun_Simulate(&run, set);
  if (status == pb_ok) status = cli_save(app, set);
  if (status == pb_ok) status = cliRun_SaveMotion(&run, set);
  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
