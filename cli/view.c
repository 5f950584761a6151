// pullback view: one page with the model's shapes, the motion of its bodies, and the library that draws them; or a glTF file.
// Tests: tests/oracle/test_view.py, tests/oracle/test_ghost.py, tests/unit/test_surface.c.
#include <string.h>

#include <pullback/view.h>

#include "inputs.h"

static const char *file_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static int on_progress(void *user, const pbProgress *p) {
  cliProgress_Show(user, (double)p->done, (double)p->total, p->phase);
  return cliSignals_Caught();
}

static pbShown shown_of(cliRun *run) {
  return (pbShown){
      .model = run->model, .theta = run->theta, .path = run->model_path, .progress = on_progress, .user = &run->progress};
}

// ---- files for other programs -------------------------------------------------------------------------------------------

// The option that a message is about before it.
static pbStatus name_option(cliRun *run, pbStatus status, pbStatus meant, const char *option) {
  char text[600];
  if (status != meant) return status;
  snprintf(text, sizeof text, "%s", pbContext_Error(run->ctx));
  return pbContext_Fail(run->ctx, status, "--%s: %s", option, text);
}

pbStatus cliRun_SaveMotion(cliRun *run, const pbArrays *set) {
  const char *vtu = run->app->args.text[opt_vtu], *glb = run->app->args.text[opt_glb];
  if (!vtu && !glb) return pb_ok;
  pbShown shown = shown_of(run);
  pbMotion *motion = NULL;
  pbStatus status = pbMotion_Create(run->ctx, &shown, set, &motion);
  PB_TRY(name_option(run, status, pb_bad_argument, vtu ? "vtu" : "glb"));

  // files appear whole: signals wait
  cliSignals_Hold();
  if (vtu) status = pbMotion_SaveVtu(motion, vtu);
  if (status == pb_ok && glb) status = name_option(run, pbMotion_SaveGlb(motion, glb), pb_unsupported, "glb");
  cliSignals_Release();
  pbMotion_Destroy(motion);
  return status;
}

// ---- the page -----------------------------------------------------------------------------------------------------------

static pbStatus make_start(cliRun *run, pbArrays **set) {
  int keyframe = -1;
  PB_TRY(cliRun_ReadKeyframe(run, &keyframe));
  PB_TRY(pbArrays_Create(run->ctx, set));
  return pbView_Start(run->ctx, run->model, run->theta, keyframe, *set);
}

static pbStatus read_shapes(const cliRun *run, bool *collision) {
  const char *text = run->app->args.text[opt_shapes];
  *collision = text && strcmp(text, "collision") == 0;
  if (!text || *collision || strcmp(text, "all") == 0) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_argument, "--shapes: expected all or collision, found '%.60s'", text);
}

static pbStatus read_start(const cliRun *run, double *start) {
  const char *text = run->app->args.text[opt_ghost_start], *end = NULL;
  if (!text || (cli_number(text, &end, start) && !*end)) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_argument, "--ghost-start: expected seconds, found '%.60s'", text);
}

// Where no name is given: the model's, in the current folder.
static const char *page_name(const cliRun *run, char *text, size_t size) {
  const char *given = run->app->args.text[opt_output], *name = file_name(run->model_path), *dot = strrchr(name, '.');
  if (given) return given;

  snprintf(text, size, "%.*s.html", (int)(dot && dot > name ? dot - name : (long)strlen(name)), name);
  fprintf(cli_err, "pullback: the page is %s\n", text);
  return text;
}

static pbStatus write_page(cliRun *run, const pbArrays *trajectory, const char *file, const pbArrays *ghost, double start) {
  pbShown shown = shown_of(run);
  shown.ghost = ghost;
  shown.ghost_start = start;
  shown.ghost_file = run->app->args.text[opt_ghost];
  PB_TRY(read_shapes(run, &shown.collision));
  char name[600];
  pbDraft page;
  PB_TRY(pbDraft_Begin(run->ctx, &page));

  cliProgress_Begin(&run->progress, run->app, "view");
  pbStatus status = pbView_Page(run->ctx, &shown, trajectory, file, page.stream);
  cliProgress_End(&run->progress);
  if (status == pb_ok) return cli_saveDraft(run->app, page_name(run, name, sizeof name), &page);
  pbDraft_Drop(&page);
  return status;
}

// The motion that a CSV has recorded.
static pbStatus take_columns(cliRun *run, pbArrays **trajectory) {
  pbParam timestep;
  pbArrays *set = *trajectory;
  if (pbRecording_Rows(set) == 0) return pb_ok;

  // what it has no column for stays where the model starts
  PB_TRY(pbModel_Param(run->ctx, run->model, "timestep", &timestep));
  double *x0 = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *x0);
  if (!x0) return cli_noMemory(run->ctx);
  pbStatus status = pbState_Init(run->ctx, run->model, run->theta, -1, x0);
  if (status == pb_ok) status = pbRecording_Trajectory(run->ctx, run->model, set, run->theta[timestep.offset], x0, trajectory);
  pbContext_Free(run->ctx, x0);
  if (status == pb_ok) pbArrays_Destroy(set);
  return status;
}

// What moves beside a motion on a page, where it is asked for.
static pbStatus read_ghost(const cliRun *run, bool moving, bool page, pbArrays **ghost, double *start) {
  const cliArgs *args = &run->app->args;
  const char *file = args->text[opt_ghost];
  PB_TRY(read_start(run, start));
  if (!file && args->text[opt_ghost_start])
    return pbContext_Fail(run->ctx, pb_bad_argument, "--ghost-start: there is no --ghost");
  if (!file) return pb_ok;

  PB_TRY(pbArrays_Load(run->ctx, file, ghost));
  if (!moving) return pbContext_Fail(run->ctx, pb_bad_argument, "--ghost: stands beside a trajectory, and none is given");
  return page ? pb_ok : pbContext_Fail(run->ctx, pb_bad_argument, "--ghost: is on a page, and --glb alone writes none (-o does)");
}

static pbStatus write_view(cliRun *run, pbArrays **trajectory, pbArrays **ghost) {
  const cliArgs *args = &run->app->args;
  const char *file = args->positionals > 1 ? args->positional[1] : NULL;
  bool page = args->text[opt_output] || !args->text[opt_glb];
  if (file && args->text[opt_keyframe])
    return pbContext_Fail(run->ctx, pb_bad_argument, "--keyframe: a trajectory has its own states");
  PB_TRY(file ? pbArrays_Load(run->ctx, file, trajectory) : make_start(run, trajectory));
  PB_TRY(take_columns(run, trajectory));
  double start = 0;
  PB_TRY(read_ghost(run, file != NULL, page, ghost, &start));

  // glTF alone where nothing else is asked for
  if (page) PB_TRY(write_page(run, *trajectory, file, *ghost, start));
  return cliRun_SaveMotion(run, *trajectory);
}

pbStatus cliView_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *trajectory = NULL, *ghost = NULL;

  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok) status = write_view(&run, &trajectory, &ghost);

  pbArrays_Destroy(trajectory);
  pbArrays_Destroy(ghost);
  cliRun_End(&run);
  return status;
}
