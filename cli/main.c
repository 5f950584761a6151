// pullback: the command line of the library.
// Tests: tests/oracle/test_cli.py.
#include <string.h>

#include "cli.h"

static void print_version(void) {
  fprintf(cli_out, "pullback %s\n%s, kernels", pbVersion(), pbBuild_Compiler());
  for (int i = 0; pbBuild_Kernels(i); i++) fprintf(cli_out, " %s", pbBuild_Kernels(i));
  fprintf(cli_out, "; pages by %s\n", pbBuild_Viewer() ? pbBuild_Viewer() : "Debian's three.js, where it is");
}

static void print_help(void) {
  fprintf(
      cli_out,
      "Usage: pullback COMMAND ... [options]\nA differentiable physics engine: MuJoCo and URDF models in, trajectories and exact "
      "gradients out.\n\nCommands:\n");
  for (int i = 0; i < cliCommand_Count; i++)
    fprintf(cli_out, "  %-9s %-15s %s\n", cliCommands[i].name, cliCommands[i].operands, cliCommands[i].summary);
  fprintf(cli_out,
          "\nOptions:\n  -h, --help       this text; after a command, its help\n      --version    of the program, and what it "
          "is built with\n\n"
          "Exit status: 0 done, 1 a check failed, a search stalled or did not meet its stop criteria, an answer is not "
          "confirmed, 2 usage, 3 bad input, 4 numerical "
          "failure, 5 memory or files, 130 interrupted.\n");
}

static int usage_error(const char *text) {
  fprintf(cli_err, "pullback: %s\nTry 'pullback --help'.\n", text);
  return 2;
}

static int unknown_command(const char *name) {
  enum { most = 32 };
  const char *names[most] = {"--help", "--version", "help"};
  int count = 3;
  for (int i = 0; i < cliCommand_Count && count < most; i++) names[count++] = cliCommands[i].name;

  // options and "help" are candidates, too
  const char *near = pbName_Nearest(name, names, count);

  char text[256];
  snprintf(text, sizeof text, "unknown %s '%.60s'%s%s%s", name[0] == '-' ? "option" : "command", name,
           near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
  return usage_error(text);
}

static void report_status(const cliApp *app, pbStatus status) {
  // these have told what they found
  const char *text = pbContext_Error(app->ctx);
  if (status == pb_ok || status == pb_check_failed || status == pb_interrupted) return;

  fprintf(cli_err, "pullback %s: %s\n", app->command->name, *text ? text : pbStatus_Text(status));
  if (status == pb_bad_argument) fprintf(cli_err, "Try 'pullback %s --help'.\n", app->command->name);
}

static int run_command(const cliCommand *command, int argc, char **argv) {
  cliApp app = {.ctx = pbContext_Create(NULL), .command = command};
  if (!app.ctx) {
    fprintf(cli_err, "pullback: out of memory\n");
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

  report_status(&app, status);
  int code = cli_flush(pbStatus_ExitCode(status));
  cliArgs_Free(app.ctx, &app.args);
  pbContext_Destroy(app.ctx);
  return code;
}

static int help(const char *name) {
  const cliCommand *command = name ? cliCommand_Find(name) : NULL;
  if (name && !command) return unknown_command(name);

  if (command) cliArgs_Help(command);
  else print_help();
  return cli_flush(0);
}

int main(int argc, char **argv) {
  cli_openStreams();
  cliSignals_Install();
  if (argc < 2) return usage_error("a command is missing");

  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return help(NULL);
  if (strcmp(name, "help") == 0) return help(argc > 2 ? argv[2] : NULL);
  if (strcmp(name, "--version") == 0) {
    print_version();
    return cli_flush(0);
  }

  // from here on argv[0] is the command, which getopt passes over
  const cliCommand *command = cliCommand_Find(name);
  return command ? run_command(command, argc - 1, argv + 1) : unknown_command(name);
}
