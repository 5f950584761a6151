// pullback inspect: all compiled fields, and all quantities of one forward evaluation. For tests and for looking inside.
// Tests: tests/oracle/test_cli.py.
#include <pullback/describe.h>

#include "cli.h"

static pbStatus write_inspection(const cliRun *run, pbArrays *set) {
  pbInput input = cliRun_Input(run, 0);
  PB_TRY(pbModel_Inspect(run->ctx, run->model, run->theta, run->x0, &input, set));
  return cli_save(run->app, set);
}

pbStatus cliInspect_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) status = write_inspection(&run, set);

  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
