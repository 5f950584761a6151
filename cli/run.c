// What a run hands to the library: its inputs, and itself as a simulation.
// Tests: tests/oracle/test_cli.py.
#include "cli.h"

pbRolloutInput cliRun_Inputs(const cliRun *run) {
  return (pbRolloutInput){.ctrl = run->control,
                          .qfrc = run->qfrc,
                          .xfrc = run->xfrc,
                          .command = run->command,
                          .mocap_pos = run->mocap_pos,
                          .mocap_quat = run->mocap_quat,
                          .mocap_vel = run->mocap_vel,
                          .mocap_pos_before = run->mocap_before,
                          .mocap_quat_before = run->mocap_before ? run->mocap_before + 3 * run->nmocap : NULL};
}

static const double *row_of(const double *rows, size_t row, int width) { return rows ? rows + row * (size_t)width : NULL; }

pbInput cliRun_Input(const cliRun *run, long k) {
  // the last state is observed with the input of the last step
  size_t row = (size_t)(k < run->steps ? k : run->steps - 1);
  return (pbInput){.ctrl = row_of(run->control, row, run->nu),
                   .qfrc = row_of(run->qfrc, row, run->nv),
                   .xfrc = row_of(run->xfrc, row, 6 * run->nbody),
                   .command = row_of(run->command, row, run->ncommand),
                   .mocap_pos = row_of(run->mocap_pos, row, 3 * run->nmocap),
                   .mocap_quat = row_of(run->mocap_quat, row, 4 * run->nmocap),
                   .mocap_vel = row_of(run->mocap_vel ? run->mocap_vel : run->mocap_rate, row, 6 * run->nmocap)};
}

pbSimulation cliRun_Simulation(const cliRun *run) {
  bool several = run->task && pbTask_TrajectoryCount(run->task) > 1 && run->trajectories == 1;
  return (pbSimulation){.model = run->model,
                        .theta = run->theta,
                        .x0 = run->x0,
                        .steps = run->steps,
                        .every = run->every,
                        .input = cliRun_Inputs(run),
                        .command = run->app->command->name,
                        .path = run->model_path,
                        .trajectory = several ? run->trajectory : -1,
                        .recompute = run->recompute};
}
