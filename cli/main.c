// pullback: the command line of the library.
#include <string.h>

#include "cli.h"

#define CLI_BIT(id) (1ull << opt_##id)

static const cliCommand commands[] = {
    {"info", "MODEL", "Show the sizes, names and addresses of a model, and its parameters with units and bounds.", 1, 1,
     CLI_MODEL | CLI_BIT(json), 0, NULL, NULL, cliInfo_Run},
    {"simulate", "MODEL", "Roll a model out and write its states.", 1, 1,
     CLI_RUN | CLI_WRITE | CLI_BIT(every) | CLI_BIT(vtu) | CLI_BIT(glb) | CLI_BIT(worlds) | CLI_BIT(threads), CLI_BIT(output),
     "npz",
     "OUT.npz holds time, qpos, qvel, act and the other state fields (N+1, ...), control (N, nu), sensordata (N+1, ...) and\n"
     "meta, a JSON text. Given to --init, it resumes the run, bit for bit as if uninterrupted. With --every K the states\n"
     "and sensors are those of steps 0, K, 2 K, ... and the last. The arrays may take up to 960 MiB. With --worlds all have the "
     "worlds as their first axis, NaN from where\n"
     "one failed, and steps_done says how far each came.",
     cliSimulate_Run},
    {"gradient", "MODEL", "Pull a cotangent or a loss on a rollout back to initial state, inputs and parameters.", 1, 1,
     CLI_RUN | CLI_WRITE | CLI_BIT(cotangent) | CLI_BIT(wrt) | CLI_BIT(memory) | CLI_BIT(loss) | CLI_BIT(seed) | CLI_BIT(mode) |
         CLI_BIT(decay) | CLI_BIT(window) | CLI_BIT(clip) | CLI_BIT(spot_check) | CLI_BIT(strict) | CLI_BIT(worlds) |
         CLI_BIT(threads),
     CLI_BIT(output), "npz",
     "GRAD.npz holds qpos and qvel in the tangent space (nv), act, control (N, nu), qfrc and xfrc if given,\n"
     "mocap_pos and mocap_rot (N, nmocap, 3) of mocap bodies, param/NAME in the shape of the field, and meta with the "
     "certificate of the gradient. With --worlds the cotangents have the worlds as their\n"
     "first axis, as have the gradients of what each has of its own; those of what all share are sums over the worlds.",
     cliGradient_Run},
    {"jacobian", "MODEL", "Write the Jacobians of every step of a rollout.", 1, 1, CLI_RUN | CLI_WRITE | CLI_BIT(wrt),
     CLI_BIT(output), "npz",
     "J.npz holds A (N, n, n), B (N, n, nu) for the state, C (N, ns, n), D (N, ns, nu) for the sensors, with n = 2 nv + na (and "
     "what deformables and a policy add) in "
     "the\n"
     "order position, velocity, activation. With --wrt control,mocap_pos,mocap_rot the columns of B and D are by these inputs.",
     cliJacobian_Run},
    {"check", "MODEL", "Test the gradients of a model: dot products, Taylor remainders, differences of its own steps.", 1, 1,
     (CLI_RUN & ~CLI_BIT(steps)) | CLI_BIT(json) | CLI_BIT(seed) | CLI_BIT(horizon) | CLI_BIT(mode), 0, NULL,
     "Exits with 1 if a check fails. Without --control the rollout has random controls.", cliCheck_Run},
    {"view", "MODEL [TRAJ.npz]", "Write a web page that plays a trajectory, or shows a model with its joints to move.", 1, 2,
     CLI_MODEL | CLI_BIT(output) | CLI_BIT(glb) | CLI_BIT(shapes) | CLI_BIT(keyframe), 0, "html",
     "The page (without -o: MODEL.html in the current folder) is self-contained: it needs no network and no other files.\n"
     "--glb writes the scene with its motion as glTF, beside the page or, without -o, instead of it.",
     cliView_Run},
    {"optimize", "TASK.json", "Find the parameters, initial states or controls of least loss.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(allow_root) | CLI_BIT(policy) | CLI_BIT(output) | CLI_BIT(quiet) | CLI_BIT(fresh) | CLI_BIT(threads),
     0, "json",
     "Writes the result as JSON to standard output, or to the file of -o, and NAME.trajectory.npz beside it (without -o: in the\n"
     "current folder, NAME from the task). An interrupted run leaves NAME.state; the same command resumes it.",
     cliOptimize_Run},
    {"audit", "TASK.json",
     "Confirm an answer at finer steps and with a tight solver, from several starts, with an energy ledger.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(starts) | CLI_BIT(result) | CLI_BIT(policy) | CLI_BIT(allow_root) | CLI_BIT(output) | CLI_BIT(json) |
         CLI_BIT(quiet),
     0, "json",
     "Prints the verdict and what it rests on; --json and -o write the report. Exits with 1 if the answer is not confirmed.",
     cliAudit_Run},
    {"train", "TASK.json", "Train the policy of a task over many worlds.", 1, 1,
     CLI_BIT(seed) | CLI_BIT(threads) | CLI_BIT(allow_root) | CLI_BIT(policy) | CLI_BIT(output) | CLI_BIT(quiet) | CLI_BIT(fresh),
     0, "npz",
     "Writes the best policy as OUT.npz (without -o: named after the task, in the current folder), which --policy of the other\n"
     "commands reads, OUT.csv, a row for each update, and OUT.html, a page with these as curves and an episode of that policy. "
     "An\n"
     "interrupted run leaves OUT.state; the same command resumes it.",
     cliTrain_Run},
    {"energies", "[NAME]", "Show the built-in energies of deformables: what they act on, their parameters, formulas and advice.",
     0, 1, CLI_BIT(json), 0, NULL, NULL, cliEnergies_Run},
    {"inspect", "MODEL", "Write every compiled field of a model and every quantity of one forward evaluation.", 1, 1,
     CLI_RUN | CLI_WRITE, CLI_BIT(output), "npz",
     "OUT.npz holds the fields as model/NAME, and the quantities at the initial state (row --init-row of a trajectory).",
     cliInspect_Run},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_version(void) { printf("pullback %s\n", pbVersion()); }

static void print_help(void) {
  printf(
      "Usage: pullback COMMAND ... [options]\nA differentiable physics engine: MuJoCo and URDF models in, trajectories and exact "
      "gradients out.\n\nCommands:\n");
  for (int i = 0; i < COMMAND_COUNT; i++)
    printf("  %-9s %-15s %s\n", commands[i].name, commands[i].operands, commands[i].summary);
  printf(
      "\nOptions:\n  -h, --help       this text; after a command, its help\n      --version    version of the program\n\n"
      "Exit status: 0 done, 1 a check failed or a task did not meet its stop criteria, 2 usage, 3 bad input, 4 numerical "
      "failure, 5 memory or files, 130 interrupted.\n");
}

static const cliCommand *find_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  }
  return NULL;
}

static int usage_error(const char *text) {
  fprintf(stderr, "pullback: %s\nTry 'pullback --help'.\n", text);
  return 2;
}

static int unknown_command(const char *name) {
  const char *names[COMMAND_COUNT + 3] = {"--help", "--version", "help"};
  for (int i = 0; i < COMMAND_COUNT; i++) names[i + 3] = commands[i].name;

  // options and "help" are candidates, too
  const char *near = pbName_Nearest(name, names, COMMAND_COUNT + 3);

  char text[256];
  snprintf(text, sizeof text, "unknown %s '%.60s'%s%s%s", name[0] == '-' ? "option" : "command", name,
           near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  return usage_error(text);
}

static int report_status(const cliApp *app, pbStatus status) {
  // a full disk shows here at the latest
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "pullback: cannot write standard output\n");
    if (status == pb_ok) status = pb_file;
  }

  // these have told what they found
  const char *text = pbContext_Error(app->ctx);
  if (status == pb_ok || status == pb_check_failed || status == pb_interrupted) return pbStatus_ExitCode(status);

  fprintf(stderr, "pullback %s: %s\n", app->command->name, *text ? text : pbStatus_Text(status));
  if (status == pb_bad_argument) fprintf(stderr, "Try 'pullback %s --help'.\n", app->command->name);
  return pbStatus_ExitCode(status);
}

static int run_command(const cliCommand *command, int argc, char **argv) {
  cliApp app = {.ctx = pbContext_Create(NULL), .command = command};
  if (!app.ctx) {
    fprintf(stderr, "pullback: out of memory\n");
    return pbStatus_ExitCode(pb_no_memory);
  }

  pbStatus status = cliArgs_Parse(app.ctx, command, argc, argv, &app.args);
  if (status == pb_ok && app.args.text[opt_help]) {
    cliArgs_Help(command);
  } else if (status == pb_ok && app.args.text[opt_version]) {
    print_version();
  } else if (status == pb_ok) {
    status = command->run(&app);
  }

  int code = report_status(&app, status);
  cliArgs_Free(app.ctx, &app.args);
  pbContext_Destroy(app.ctx);
  return code;
}

// Exit status after text on standard output alone.
static int flushed(void) { return fflush(stdout) ? pbStatus_ExitCode(pb_file) : 0; }

static int help(const char *name) {
  const cliCommand *command = name ? find_command(name) : NULL;
  if (name && !command) return unknown_command(name);

  if (command) cliArgs_Help(command);
  else print_help();
  return flushed();
}

int main(int argc, char **argv) {
  cliSignals_Install();
  if (argc < 2) return usage_error("a command is missing");

  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help(NULL);
  if (strcmp(name, "help") == 0) return help(argc > 2 ? argv[2] : NULL);
  if (strcmp(name, "--version") == 0) {
    print_version();
    return flushed();
  }

  // from here on argv[0] is the command, which getopt passes over
  const cliCommand *command = find_command(name);
  return command ? run_command(command, argc - 1, argv + 1) : unknown_command(name);
}
