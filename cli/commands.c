// The commands of the program.
// Tests: tests/oracle/test_cli.py.
#include <string.h>

#include "cli.h"

#define CLI_BIT(id) (1ull << opt_##id)

const cliCommand cliCommands[] = {
    {"info", "MODEL", "Show the sizes, names and addresses of a model, and its parameters with units and bounds.", 1, 1,
     CLI_MODEL | CLI_BIT(json), 0, NULL, NULL, cliInfo_Run},
    {"simulate", "MODEL", "Roll a model out and write its states.", 1, 1,
     CLI_RUN | CLI_WRITE | CLI_BIT(fresh) | CLI_BIT(every) | CLI_BIT(vtu) | CLI_BIT(glb) | CLI_BIT(worlds) | CLI_BIT(threads),
     CLI_BIT(output), "npz",
     "OUT.npz holds time, qpos, qvel, act and the other state fields (N+1, ...), control (N, nu), sensordata (N+1, ...) and\n"
     "meta, a JSON text. Given to --init, it resumes the run, bit for bit as if uninterrupted. With --every K states,\n"
     "controls and sensors are those of steps 0, K, 2 K, ... and the last. The arrays may take up to 960 MiB. With --worlds all "
     "have the "
     "worlds as their first axis, NaN from where\n"
     "one failed, and steps_done says how far each came. An interrupted run leaves OUT.simulate.state; the same command goes on "
     "with\n"
     "it.",
     cliSimulate_Run},
    {"gradient", "MODEL", "Pull a cotangent or a loss on a rollout back to initial state, inputs and parameters.", 1, 1,
     CLI_RUN | CLI_WRITE | CLI_BIT(cotangent) | CLI_BIT(wrt) | CLI_BIT(memory) | CLI_BIT(loss) | CLI_BIT(seed) | CLI_BIT(mode) |
         CLI_BIT(decay) | CLI_BIT(window) | CLI_BIT(clip) | CLI_BIT(spot_check) | CLI_BIT(strict) | CLI_BIT(worlds) |
         CLI_BIT(threads) | CLI_BIT(fresh),
     CLI_BIT(output), "npz",
     "GRAD.npz holds qpos and qvel in the tangent space (nv), act, control (N, nu), qfrc and xfrc if given,\n"
     "mocap_pos and mocap_rot (N, nmocap, 3) of mocap bodies, mocap_vel if given, param/NAME in the shape of the field, and meta "
     "with the "
     "certificate of the gradient. With --worlds the cotangents have the worlds as their\n"
     "first axis, as have the gradients of what each has of its own; those of what all share are sums over the worlds. A run "
     "that is\ninterrupted on its way back leaves GRAD.gradient.state; the same command runs the motion again and goes on with "
     "it. "
     "With\n--worlds nothing is kept.",
     cliGradient_Run},
    {"jacobian", "MODEL", "Write the Jacobians of every step of a rollout.", 1, 1,
     CLI_RUN | CLI_WRITE | CLI_BIT(fresh) | CLI_BIT(wrt), CLI_BIT(output), "npz",
     "J.npz holds A (N, n, n), B (N, n, nu) for the state, C (N, ns, n), D (N, ns, nu) for the sensors, with n = 2 nv + na (and "
     "what deformables and a policy add) in "
     "the\n"
     "order position, velocity, activation. With --wrt control,mocap_pos,mocap_rot the columns of B and D are by these inputs. "
     "An\n"
     "interrupted run leaves J.jacobian.state; the same command goes on with it.",
     cliJacobian_Run},
    {"check", "MODEL", "Test the gradients of a model: dot products, Taylor remainders, differences of its own steps.", 1, 1,
     (CLI_RUN & ~CLI_BIT(steps)) | CLI_BIT(json) | CLI_BIT(seed) | CLI_BIT(horizon) | CLI_BIT(at_start) | CLI_BIT(mode) |
         CLI_BIT(page) | CLI_BIT(fresh),
     0, NULL,
     "Exits with 1 if a check fails. --page writes a page with what was compared, the worst of it and kinks by name. Without "
     "--control the rollout has random controls, with --at-start none. Interrupted, a check with --page P.html leaves "
     "P.check.state;\nthe same command goes on with it.",
     cliCheck_Run},
    {"view", "MODEL [TRAJ.npz]", "Write a web page that plays a trajectory, or shows a model with its joints to move.", 1, 2,
     CLI_MODEL | CLI_BIT(output) | CLI_BIT(glb) | CLI_BIT(shapes) | CLI_BIT(keyframe) | CLI_BIT(ghost) | CLI_BIT(ghost_start), 0,
     "html",
     "The page (without -o: MODEL.html in the current folder) is self-contained: it needs no network and no other files.\n"
     "--glb writes the scene with its motion as glTF, beside the page or, without -o, instead of it.\n"
     "A ghost moves by its own times: between its samples, before the first and after the last as those are; joints without a\n"
     "sample are where the motion has them.",
     cliView_Run},
    {"optimize", "TASK.json", "Find the parameters, initial states or controls of least loss.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(start) | CLI_BIT(allow_root) | CLI_BIT(policy) | CLI_BIT(output) | CLI_BIT(quiet) | CLI_BIT(fresh) |
         CLI_BIT(threads) | CLI_BIT(page) | CLI_BIT(json),
     0, "json",
     "Prints a summary and writes the result as JSON to the file of -o (else NAME.result.json) and NAME.trajectory.npz beside "
     "it\n"
     "(without -o: in the current folder, NAME from the task); --json prints the result, and writes it for -o alone. Exits with "
     "1\n"
     "where the search stalled, or the criteria of stop were not met; --page a page of it: how the loss fell, what was varied "
     "beside its bounds, advice. --result of the other commands applies what was found. An "
     "interrupted run leaves NAME.state; the same command resumes it.",
     cliOptimize_Run},
    {"audit", "TASK.json",
     "Confirm an answer at finer steps and with a tight solver, from several starts, with an energy ledger.", 1, 1,
     CLI_BIT(fresh) | CLI_BIT(seed) | CLI_BIT(starts) | CLI_BIT(result) | CLI_BIT(policy) | CLI_BIT(allow_root) |
         CLI_BIT(output) | CLI_BIT(json) | CLI_BIT(quiet) | CLI_BIT(page),
     0, "json",
     "Prints the verdict and what it rests on; --json and -o write the report, --page a page of it. Exits with 1 if the answer "
     "is not confirmed. An interrupted audit leaves OUT.audit.state (without -o: after the task, in the current folder); the "
     "same\n"
     "command goes on with it.",
     cliAudit_Run},
    {"train", "TASK.json", "Train the policy of a task over many worlds.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(threads) | CLI_BIT(allow_root) | CLI_BIT(policy) | CLI_BIT(output) | CLI_BIT(quiet) | CLI_BIT(fresh),
     0, "npz",
     "Writes the best policy as OUT.npz (without -o: named after the task, in the current folder), which --policy of the other\n"
     "commands reads, OUT.csv, a row for each update, and OUT.html, a page with these as curves and an episode of that policy. "
     "An\n"
     "interrupted run leaves OUT.state; the same command resumes it.",
     cliTrain_Run},
    {"evaluate", "TASK.json", "Try a trained policy in episodes that no training has seen.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(threads) | CLI_BIT(starts) | CLI_BIT(allow_root) | CLI_BIT(policy) | CLI_BIT(output) |
         CLI_BIT(json) | CLI_BIT(quiet),
     0, NULL,
     "Prints how many episodes ended early and by what, their length, success and distance, and each term of the loss with its "
     "root\n"
     "mean square, over --starts episodes (200) with starts, parameters, commands, pushes and noise of their own: those of "
     "\"sample\"\n"
     "and \"episode\" of a task with \"train\". --json and -o write the numbers.\n\n"
     "  pullback evaluate walk.json --policy walk.npz --starts 200 --seed 1",
     cliEvaluate_Run},
    {"control", "TASK.json", "Follow plans that are made again and again from the state that a plant has reached.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(plant) | CLI_BIT(replay) | CLI_BIT(threads) | CLI_BIT(allow_root) | CLI_BIT(output) |
         CLI_BIT(quiet) | CLI_BIT(page),
     0, "npz",
     "The task's steps are the horizon; its key \"control\" (docs/task.md) says how often plans are made, for how long, and of "
     "which\n"
     "plant, unless --plant names another process (docs/control.md). Writes the motion as OUT.npz (without -o: NAME.control.npz "
     "in\n"
     "the current folder), which view shows, and OUT.csv, a row for each plan; prints how long they took. Both are there once a\n"
     "second, and however the run ends. With --replay the run of a plant that is a model is repeated, bit for bit.",
     cliControl_Run},
    {"energies", "[NAME]", "Show the built-in energies of deformables: what they act on, their parameters, formulas and advice.",
     0, 1, CLI_BIT(json), 0, NULL, NULL, cliEnergies_Run},
    {"inspect", "MODEL", "Write every compiled field of a model and every quantity of one forward evaluation.", 1, 1,
     (CLI_RUN & ~CLI_BIT(steps)) | CLI_WRITE, CLI_BIT(output), "npz",
     "OUT.npz holds the fields as model/NAME, and the quantities at the initial state (row --init-row of a trajectory).",
     cliInspect_Run},
    {"export", "MODEL", "Write a model, with its parameters as given or found, as an MJCF file; or its policy as C.", 1, 1,
     CLI_MODEL | CLI_BIT(output) | CLI_BIT(strict) | CLI_BIT(quiet), CLI_BIT(output), "xml",
     "The file says every number in full: numbers from defaults, included files, replicas, densities, fromto and euler stand in\n"
     "it, and each gives its double back. Meshes, height fields and pictures are named by their files, as seen from the new "
     "one;\n"
     "what no file has stands in it. What MJCF cannot say (deformables, a policy, contact settings, restitution, ...) is told "
     "on\n"
     "standard error; with --strict the command then exits with 1. Where OUT ends in .c, the policy and its weights are written\n"
     "instead, as a function without dependencies and with the same bits (docs/export.md).\n\n"
     "  pullback export robot.urdf --floating-base -o robot.xml\n"
     "  pullback export robot.xml --result fit.result.json -o found.xml\n"
     "  pullback export robot.xml --param dof_damping:knee=0.4 --strict -o damped.xml\n"
     "  pullback export robot.xml --policy gait.npz -o gait.c",
     cliExport_Run},
};
const int cliCommand_Count = sizeof cliCommands / sizeof *cliCommands;

const cliCommand *cliCommand_Find(const char *name) {
  for (int i = 0; i < cliCommand_Count; i++) {
    if (strcmp(cliCommands[i].name, name) == 0) return &cliCommands[i];
  }
  return NULL;
}
