// Options: one table; parsing and help follow from it.
// Tests: tests/oracle/test_cli.py.
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

typedef struct Option {
  const char *name, *argument, *help;
} Option;

static const Option option_table[opt_count] = {
    [opt_steps] = {"steps", "N", "number of steps (default: as many as the inputs have rows, else 1)"},
    [opt_init] = {"init", "FILE.npz", "initial state: any of qpos, qvel, act, time, ..., or a trajectory or CSV (its last row)"},
    [opt_init_row] = {"init-row", "K", "row of the trajectory to start from (negative: from the end)"},
    [opt_keyframe] = {"keyframe", "K", "start in a keyframe, by number or name, with its controls"},
    [opt_trajectory] = {"trajectory", "K", "which of a task's trajectories, counted from 0"},
    [opt_every] = {"every", "N", "write every N-th state, the first and the last included, with the controls there (default: 1)"},
    [opt_control] = {"control", "FILE.npy", "controls (N, nu), or (nu,) if constant; or a trajectory or CSV"},
    [opt_qfrc] = {"qfrc", "FILE.npy", "applied generalized forces (N, nv), or (nv,) if constant"},
    [opt_xfrc] = {"xfrc", "FILE.npy", "applied forces and torques on bodies (N, nbody, 6), or (nbody, 6) if constant"},
    [opt_command] = {"command", "FILE.npy",
                     "numbers that a policy observes as commands (N, commands), or (commands,) if constant"},
    [opt_mocap] =
        {"mocap", "FILE.npz",
         "poses of mocap bodies: mocap_pos (N, nmocap, 3), mocap_quat (N, nmocap, 4), or without N; or a trajectory or CSV"},
    [opt_param] = {"param", "NAME=VALUE|FILE.npy",
                   "set a parameter: gravity=0,0,-9.81, body_mass:torso=3.2, geom_friction:floor:0=0.8 (repeatable)"},
    [opt_option] = {"option", "NAME=VALUE", "set an option: integrator=implicitfast, tolerance, iterations (repeatable)"},
    [opt_contact] = {"contact", "NAME=VALUE", "set how contacts are modeled: method, kappa, onset, ... (repeatable)"},
    [opt_constants] = {"constants", "keep|recompute",
                       "derived fields (dof_invweight0, ...): as compiled (default), or recomputed"},
    [opt_deformables] = {"deformables", "FILE.json", "deformable bodies in the model's world (docs/deformables.md)"},
    [opt_expose] =
        {"expose", "NAME,...",
         "parameters on request: mesh_vert:MESH, vertices of a mesh that touches; hfield_data:FIELD, heights (repeatable)"},
    [opt_design] = {"design", NULL, "masses and frames follow parameters of meshes, densities are parameters; constants follow"},
    [opt_policy] = {"policy", "FILE.json|W.npz", "controller in the loop: its description, or one with its weights"},
    [opt_allow_root] = {"allow-root", "DIR", "a further folder that files may be read from (repeatable)"},
    [opt_package_path] = {"package-path", "DIR[:DIR]", "URDF: folders with ROS packages, before those of the environment"},
    [opt_floating_base] = {"floating-base", NULL, "URDF: the root link moves freely (default: it stands still)"},
    [opt_fuse] = {"fuse", NULL, "URDF: links behind fixed joints become part of their parents"},
    [opt_motors] = {"motors", NULL, "URDF: a motor on each joint that mimics none"},
    [opt_inertia] = {"inertia", "refuse|keep|repair",
                     "URDF: inertias that no body has are an error (default), kept as given, or repaired, each with a warning"},
    [opt_missing_meshes] = {"missing-meshes", "refuse|skip",
                            "URDF: a collision mesh whose file is missing is an error (default), or left out with a warning"},
    [opt_output] = {"output", "FILE", "file to write"},
    [opt_vtu] = {"vtu", "FILE.pvd", "the motion as a ParaView series, one set of files per state"},
    [opt_glb] = {"glb", "FILE.glb", "the motion as an animated glTF file"},
    [opt_page] = {"page", "FILE.html",
                  "the result as a page, too: curves, tables, words; it needs no network and no other files"},
    [opt_shapes] = {"shapes", "all|collision",
                    "what is in the page: all shapes (default), or those that touch, meshes as their hulls"},
    [opt_ghost] = {"ghost", "LOG.csv|TRAJ.npz",
                   "draw the bodies once more, translucent, where a recording has them at the same time"},
    [opt_ghost_start] = {"ghost-start", "T", "s, of the ghost's clock at time 0 of the motion (default: 0)"},
    [opt_cotangent] =
        {"cotangent", "COT.npz",
         "cotangents of the final state (qpos, qvel, act, points, ..., sensordata, xpos, site_xpos), or (N+1, ...) of all"},
    [opt_wrt] = {"wrt", "NAME,...", "gradients to write (default: all)"},
    [opt_memory] = {"memory", "SIZE", "memory for the tape, such as 200MiB (default: 1GiB)"},
    [opt_loss] = {"loss", "TASK.json", "losses of a task instead of cotangents"},
    [opt_json] = {"json", NULL, "write JSON"},
    [opt_mode] = {"mode", "exact|event|smooth",
                  "gradient of the program (default), corrected where contacts begin or end, or of smoothed contacts"},
    [opt_decay] = {"decay", "RATE",
                   "let the costate decay by exp(-RATE h) each step on its way back (1/s): a truncated gradient"},
    [opt_window] = {"window", "T", "cut the costate every T seconds, counted from the end"},
    [opt_clip] = {"clip", "NORM", "scale the costate down to this norm where it is longer"},
    [opt_spot_check] =
        {"spot-check", "steps|full|none",
         "compare the gradient with differences: in random steps (default), over the whole rollout, or not at all"},
    [opt_strict] = {"strict", NULL,
                    "exit with 1 if the gradient is found to be wrong or a solve did not converge; export: if "
                    "MJCF cannot say all of the model"},
    [opt_seed] = {"seed", "INT", "seed of random numbers (default: 0)"},
    [opt_compressed] = {"compressed", NULL, "compress the arrays of the output"},
    [opt_quiet] = {"quiet", NULL, "no progress"},
    [opt_horizon] = {"horizon", "N", "steps of the rollout that is checked (default: 20)"},
    [opt_at_start] = {"at-start", NULL,
                      "begin at rest with controls 0, where a search begins, and compare each number with its one-sided slopes"},
    [opt_fresh] = {"fresh", NULL, "start over, ignoring what an interrupted run has left"},
    [opt_starts] = {"starts", "N", "starts: of an audit at least 8 (default: the task's); episodes of evaluate (200)"},
    [opt_result] = {"result", "FILE.json", "what optimize found, in place of what the model or the task's start says"},
    [opt_start] = {"start", "FILE.json", "begin where another search ended: its result (default: the task's start)"},
    [opt_plant] = {"plant", "COMMAND", "another process as plant: a command of the shell that reads and answers lines of JSON"},
    [opt_replay] = {"replay", "RECORD.npz", "make the plans of a record again with as many iterations, and go on where it ended"},
    [opt_worlds] = {"worlds", "FILE.npz",
                    "many worlds at once: starts, control, param/NAME, ... with the worlds as their first axis"},
    [opt_threads] = {"threads", "N", "threads to work on (default: as many as there are processors); results are the same"},
    [opt_help] = {"help", NULL, "this text"},
    [opt_version] = {"version", NULL, "version of the program, and what it is built with"},
};

const char *cliArgs_Name(cliOptionId id) { return option_table[id].name; }

static uint64_t options_of(const cliCommand *command) { return command->options | 1ull << opt_help | 1ull << opt_version; }

// strtod would take leading blanks and hexadecimal numbers, too
bool cli_number(const char *text, const char **end, double *value) {
  char *stop = NULL;
  if (!*text || strchr(" \t\n\r\v\f", *text)) return false;
  *value = strtod(text, &stop);
  *end = stop;
  return stop != text && isfinite(*value) && !memchr(text, 'x', (size_t)(stop - text)) &&
         !memchr(text, 'X', (size_t)(stop - text));
}

static pbStatus unknown_option(pbContext *ctx, const cliCommand *command, const char *typed) {
  const char *names[opt_count];
  int count = 0;
  for (int i = 0; i < opt_count; i++) {
    if (options_of(command) >> i & 1) names[count++] = option_table[i].name;
  }

  // the name alone, without dashes and value
  char bare[64];
  snprintf(bare, sizeof bare, "%.*s", (int)strcspn(typed + strspn(typed, "-"), "="), typed + strspn(typed, "-"));

  // an option of another command
  for (int i = 0; i < opt_count; i++) {
    if (strcmp(option_table[i].name, bare) == 0)
      return pbContext_Fail(ctx, pb_bad_argument, "'%s' takes no option --%s%s", command->name, bare,
                            i == opt_steps && command->options >> opt_horizon & 1 ? "; --horizon N says how many steps" : "");
  }

  // a plausible guess that no name is near to
  if (strcmp(bare, "duration") == 0)
    return pbContext_Fail(ctx, pb_bad_argument, "unknown option '%s': --steps N is a duration of N time steps", typed);

  const char *near = pbName_Nearest(bare, names, count);
  return pbContext_Fail(ctx, pb_bad_argument, "unknown option '%s'%s%s%s", typed, near ? "; did you mean --" : "",
                        near ? near : "", near ? "?" : "");
}

// What is written is of one kind, whatever the name says; a name that says another kind is a mistake.
static pbStatus check_kind(pbContext *ctx, const cliCommand *command, cliOptionId id, const char *name, const char *own) {
  static const char *const kinds[] = {"npz", "json", "html", "npy", "csv", "txt", "mat",
                                      "h5",  "hdf5", "pkl",  "xml", "vtu", "pvd", "glb"};
  const char *dot = name ? strrchr(name, '.') : NULL;
  if (!dot || strchr(dot, '/') || !own || strcmp(dot + 1, own) == 0) return pb_ok;

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(dot + 1, kinds[i]) != 0) continue;
    return pbContext_Fail(ctx, pb_bad_argument, "--%s %s: '%s' writes .%s files there", option_table[id].name, name,
                          command->name, own);
  }
  return pb_ok;
}

// Do two names lead to one regular file? Devices and pipes may be named twice.
static bool same_file(const char *a, const char *b) {
  struct stat first, second;
  if (stat(a, &first) != 0 || stat(b, &second) != 0) return strcmp(a, b) == 0 && strcmp(a, "-") != 0;
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// No output takes the place of a file that is read, or of another output. A run may go on in its own file: --init is left out.
static pbStatus check_files(pbContext *ctx, const cliCommand *command, const cliArgs *args) {
  static const cliOptionId outputs[] = {opt_output, opt_vtu, opt_glb, opt_page};
  static const cliOptionId inputs[] = {opt_control,   opt_qfrc, opt_xfrc,   opt_command, opt_mocap, opt_deformables,
                                       opt_cotangent, opt_loss, opt_worlds, opt_result,  opt_ghost, opt_replay};
  const char *const kinds[] = {command->output, "pvd", "glb", "html"};

  for (int k = 0; k < 4; k++) {
    const char *name = args->text[outputs[k]];
    if (!name) continue;
    PB_TRY(check_kind(ctx, command, outputs[k], name, kinds[k]));

    const char *taken = NULL;
    for (int i = 0; i < k; i++) {
      if (args->text[outputs[i]] && same_file(name, args->text[outputs[i]])) taken = "is written by another option";
    }
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
      if (args->text[inputs[i]] && same_file(name, args->text[inputs[i]])) taken = "is read by another option";
    }
    for (int i = 0; i < args->positionals; i++) {
      if (same_file(name, args->positional[i])) taken = "is what the command reads";
    }
    if (taken) return pbContext_Fail(ctx, pb_bad_argument, "--%s %s: this file %s", option_table[outputs[k]].name, name, taken);
  }
  return pb_ok;
}

static pbStatus append(pbContext *ctx, cliList *list, const char *text) {
  const char **items = pbContext_Resize(ctx, list->items, (size_t)(list->count + 1) * sizeof *items);
  if (!items) return cli_noMemory(ctx);

  list->items = items;
  items[list->count++] = text;
  return pb_ok;
}

// One more folder behind those that were given, with ':' between them.
static pbStatus append_root(pbContext *ctx, cliArgs *args, const char *folder) {
  size_t before = args->roots ? strlen(args->roots) + 1 : 0, length = strlen(folder);
  char *roots = pbContext_Resize(ctx, args->roots, before + length + 1);
  if (!roots) return cli_noMemory(ctx);

  // the zero behind the last one becomes the separator
  if (before) roots[before - 1] = ':';
  memcpy(roots + before, folder, length + 1);
  args->text[opt_allow_root] = args->roots = roots;
  return pb_ok;
}

// Is the option of another command the beginning of one of this? Then it is no short form of that.
static bool begins_another(const cliCommand *command, int id) {
  size_t length = strlen(option_table[id].name);
  for (int i = 0; i < opt_count; i++) {
    if (options_of(command) >> i & 1 && !strncmp(option_table[i].name, option_table[id].name, length)) return true;
  }
  return false;
}

static int make_long_options(const cliCommand *command, struct option *out) {
  int n = 0;
  for (int i = 0; i < opt_count; i++) {
    if (!(options_of(command) >> i & 1) && !begins_another(command, i)) continue;

    // codes from 256 on: those below are letters of short options
    out[n++] = (struct option){option_table[i].name, option_table[i].argument ? required_argument : no_argument, NULL, 256 + i};
  }
  out[n] = (struct option){0};
  return n;
}

static pbStatus check_operands(pbContext *ctx, const cliCommand *command, const cliArgs *args, int given) {
  // help answers whatever else is missing
  if (args->text[opt_help] || args->text[opt_version]) return pb_ok;

  if (given < command->least) {
    const char *missing = command->operands;

    // operands are words with a blank between them
    for (int i = 0; i < given; i++) missing = strchr(missing, ' ') + 1;
    return pbContext_Fail(ctx, pb_bad_argument, "%s is missing%s%s%s", missing, given ? " (after '" : "",
                          given ? args->positional[given - 1] : "", given ? "')" : "");
  }

  if (given > command->most) {
    return pbContext_Fail(ctx, pb_bad_argument, "unexpected operand '%.200s' (expected only %s)", args->positional[command->most],
                          command->operands);
  }

  bool one_world = options_of(command) >> opt_worlds & 1 && !args->text[opt_worlds];
  if (one_world && args->text[opt_threads])
    return pbContext_Fail(ctx, pb_bad_argument, "--threads goes with --worlds: one world has one thread");

  for (int i = 0; i < opt_count; i++) {
    if (command->required >> i & 1 && !args->text[i]) {
      return pbContext_Fail(ctx, pb_bad_argument, "--%s %s is missing", option_table[i].name, option_table[i].argument);
    }
  }
  return pb_ok;
}

// Id of an option from the code of getopt_long; of a wrong one beyond the table.
static int option_of(const cliCommand *command, int code) {
  if (code == 'o') return opt_output;
  if (code == 'h') return opt_help;
  if (code == 'q' && options_of(command) >> opt_quiet & 1) return opt_quiet;
  return code - 256;
}

// `--steps -o` is an option without its value, not one with the value -o; negative numbers are values.
static bool looks_like_option(const char *value) {
  return strncmp(value, "--", 2) == 0 || (value[0] == '-' && isalpha((unsigned char)value[1]));
}

static pbStatus take_option(pbContext *ctx, const cliCommand *command, int code, const char *typed, cliArgs *args) {
  int id = option_of(command, code);
  if (code == ':') return pbContext_Fail(ctx, pb_bad_argument, "option '%s' needs a value", typed);

  // one of another command is known, so that it is not taken for a longer name
  if (id >= 0 && id < opt_count && !(options_of(command) >> id & 1)) {
    char name[64];
    snprintf(name, sizeof name, "--%s", option_table[id].name);
    return unknown_option(ctx, command, name);
  }

  // optopt has the letter of a wrong short option; a long one is known as it was typed only
  if (id < 0 || id >= opt_count)
    return unknown_option(ctx, command, optopt && optopt < 256 ? (char[3]){'-', (char)optopt, 0} : typed);
  if (optarg && looks_like_option(optarg))
    return pbContext_Fail(ctx, pb_bad_argument, "option '--%s' needs a value, but '%.80s' follows it", option_table[id].name,
                          optarg);

  bool is_list = id == opt_param || id == opt_expose || id == opt_allow_root || id == opt_option || id == opt_contact;
  if (args->text[id] && !is_list)
    return pbContext_Fail(ctx, pb_bad_argument, "option '--%s' is given twice", option_table[id].name);

  // an option without a value is there as an empty text
  args->text[id] = optarg ? optarg : "";
  if (id == opt_param) return append(ctx, &args->params, optarg);
  if (id == opt_expose) return append(ctx, &args->exposed, optarg);
  if (id == opt_allow_root) return append_root(ctx, args, optarg);
  if (id == opt_option) return append(ctx, &args->options, optarg);
  return id == opt_contact ? append(ctx, &args->contact, optarg) : pb_ok;
}

pbStatus cliArgs_Parse(pbContext *ctx, const cliCommand *command, int argc, char **argv, cliArgs *args) {
  struct option longs[opt_count + 1];
  make_long_options(command, longs);
  *args = (cliArgs){0};
  bool output = command->options >> opt_output & 1;

  // before getopt brings them into its own order
  for (int i = 0; i < argc; i++) PB_TRY(append(ctx, &args->typed, argv[i]));

  // the messages are ours; a leading colon tells a missing value from an unknown option
  opterr = 0;
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, output ? ":ho:q" : ":hq", longs, NULL)) != -1;)
    PB_TRY(take_option(ctx, command, code, argv[optind - 1], args));

  // an operand too many is kept for the message
  for (int i = optind; i < argc && i < optind + 3; i++) args->positional[args->positionals++] = argv[i];
  PB_TRY(check_files(ctx, command, args));
  return check_operands(ctx, command, args, argc - optind);
}

void cliArgs_Free(pbContext *ctx, cliArgs *args) {
  pbContext_Free(ctx, args->roots);
  pbContext_Free(ctx, args->typed.items);
  pbContext_Free(ctx, args->params.items);
  pbContext_Free(ctx, args->exposed.items);
  pbContext_Free(ctx, args->options.items);
  pbContext_Free(ctx, args->contact.items);
}

static const char *short_name(int id) {
  switch (id) {
    case opt_output: return "-o, ";
    case opt_help: return "-h, ";
    case opt_quiet: return "-q, ";
    default: return "";
  }
}

void cliArgs_Help(const cliCommand *command) {
  fprintf(cli_out, "Usage: pullback %s %s [options]\n%s\n\nOptions:\n", command->name, command->operands, command->summary);

  for (int i = 0; i < opt_count; i++) {
    if (!(options_of(command) >> i & 1)) continue;
    char left[64];
    const Option *o = &option_table[i];
    snprintf(left, sizeof left, "%s--%s%s%s", short_name(i), o->name, o->argument ? " " : "", o->argument ? o->argument : "");

    // a long option gets a line of its own
    fprintf(cli_out, "  %-30s%s%s%s\n", left, strlen(left) >= 30 ? "\n                                " : "", o->help,
            command->required >> i & 1 ? " (required)" : "");
  }

  if (command->more) fprintf(cli_out, "\n%s\n", command->more);
}

pbStatus cliArgs_Integer(cliApp *app, cliOptionId id, long least, long most, long other, long *value) {
  const char *text = app->args.text[id];
  *value = other;
  if (!text) return pb_ok;

  char *end = NULL;
  errno = 0;
  long long given = strtoll(text, &end, 10);
  if (end == text || *end || errno == ERANGE || given < least || given > most) {
    return pbContext_Fail(app->ctx, pb_bad_argument, "--%s: expected a whole number from %ld to %ld, found '%.60s'",
                          option_table[id].name, least, most, text);
  }

  *value = (long)given;
  return pb_ok;
}

pbStatus cliArgs_Pool(cliApp *app, pbPool **pool) {
  long threads = 0;
  *pool = NULL;
  PB_TRY(cliArgs_Integer(app, opt_threads, 1, pb_mostThreads, 0, &threads));
  return threads == 1 ? pb_ok : pbPool_Create(app->ctx, (int)threads, pool);
}

pbStatus cliArgs_Mode(cliApp *app, pbGradientKind *kind) {
  const char *text = app->args.text[opt_mode], *names[pb_gradientKindCount];
  *kind = pb_gradientExact;
  if (!text || pbGradientKind_Named(text, kind)) return pb_ok;

  for (int i = 0; i < pb_gradientKindCount; i++) names[i] = pbGradientKind_Name((pbGradientKind)i);
  const char *near = pbName_Nearest(text, names, pb_gradientKindCount);
  return pbContext_Fail(app->ctx, pb_bad_argument, "--mode: unknown mode '%.60s'%s%s%s (exact, event, smooth)", text,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}
