// A client of the C library in a world that fails: with world.c preloaded, every call below these scenes fails in turn, within
// one process. Each ends with a status that names the true reason or with the result of the first run, and gives all memory back.
//   driver FOLDER SHARE SEED    in FOLDER: robot.xml, shapes.xml, arm.urdf, throw.json, cloth.json, run.npz, motion.glb, ...
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pullback/pullback.h>

// ---- the world --------------------------------------------------------------------------------------------------------
static void (*arm)(const char *kind, long n, int ever, int how);
static long (*disarm)(void), (*calls)(const char *kind), (*alive)(void);

static void find_world(void) {
  int (*begin)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "world_begin");
  arm = (void (*)(const char *, long, int, int))dlsym(RTLD_DEFAULT, "world_arm");
  disarm = (long (*)(void))dlsym(RTLD_DEFAULT, "world_disarm");
  calls = (long (*)(const char *))dlsym(RTLD_DEFAULT, "world_calls");
  alive = (long (*)(void))dlsym(RTLD_DEFAULT, "world_alive");
  if (begin && arm && disarm && calls && alive && begin(NULL)) return;
  fprintf(stderr, "world.so is not preloaded\n");
  exit(2);
}

// ---- scenes -----------------------------------------------------------------------------------------------------------
// What a scene found, as a number that says whether two runs found the same.
static uint64_t mix(uint64_t found, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) found = (found ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return found;
}

static uint64_t mix_file(uint64_t found, const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? mix(found, &info.st_size, sizeof info.st_size) : 1;
}

static pbStatus see_model(pbStatus status, pbModel *model, uint64_t *found) {
  if (status == pb_ok) *found = mix(*found, pbModel_DefaultParams(model), pbModel_ParamSize(model) * sizeof(double));
  pbModel_Destroy(model);
  return status;
}

static pbStatus load_model(pbContext *ctx, const char *path, uint64_t *found) {
  pbModel *model = NULL;
  pbLoadOptions options = {.surfaces = true};
  pbStatus status = pbModel_Load(ctx, path, &options, &model);
  return see_model(status, model, found);
}

static pbStatus run_robot(pbContext *ctx, uint64_t *found) { return load_model(ctx, "robot.xml", found); }
static pbStatus run_shapes(pbContext *ctx, uint64_t *found) { return load_model(ctx, "shapes.xml", found); }
static pbStatus run_urdf(pbContext *ctx, uint64_t *found) { return load_model(ctx, "arm.urdf", found); }
static pbStatus run_archive(pbContext *ctx, uint64_t *found) { return load_model(ctx, "packed.mjz", found); }
static pbStatus run_cloth(pbContext *ctx, uint64_t *found) { return load_model(ctx, "cloth.json", found); }

// A model with another attached to it, which is a copy of its own.
static pbStatus attach_copy(pbSpec *spec, uint64_t *found) {
  pbSpec *other = NULL;
  pbModel *model = NULL;
  int frame;
  PB_TRY(pbSpec_Copy(spec->ctx, spec, &other));
  pbStatus status = pbSpec_Attach(spec, pb_specBody, 0, other, "copy_", &frame);
  pbSpec_Destroy(other);

  if (status == pb_ok) status = pbSpec_Compile(spec, &model);
  if (status == pb_ok) *found = mix(*found, pbModel_DefaultParams(model), pbModel_ParamSize(model) * sizeof(double));
  pbModel_Destroy(model);
  return status;
}

static pbStatus run_attaching(pbContext *ctx, uint64_t *found) {
  pbSpec *spec = NULL;
  PB_TRY(pbSpec_Load(ctx, "robot.xml", NULL, &spec));
  pbStatus status = attach_copy(spec, found);
  pbSpec_Destroy(spec);
  return status;
}

static pbStatus see_mesh(pbStatus status, pbMesh *mesh, uint64_t *found) {
  if (status == pb_ok) *found = mix(*found, mesh->point, (size_t)mesh->points * 3 * sizeof *mesh->point);
  pbMesh_Destroy(mesh);
  return status;
}

static pbStatus run_meshes(pbContext *ctx, uint64_t *found) {
  static const char *const files[] = {"box.vtu", "box.vtk", "box.msh", "box.obj", "skin.stl", "bricks.mesh", "tets.ele"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    pbMesh *mesh = NULL;
    pbStatus status = pbMesh_Load(ctx, files[i], &mesh);
    PB_TRY(see_mesh(status, mesh, found));
  }
  return pb_ok;
}

// Checks of tetrahedra, two blocks that touch: faces, then pairs behind a tree of boxes.
static pbStatus run_checking_meshes(pbContext *ctx, uint64_t *found) {
  pbMesh *mesh = NULL;
  pbMeshReport report;
  PB_TRY(pbMesh_Load(ctx, "bricks.mesh", &mesh));

  pbStatus status = pbMesh_Check(ctx, mesh, pb_meshConnected, &report);
  if (status == pb_ok) *found = mix(*found, &report.volume, sizeof report.volume);
  pbMesh_Destroy(mesh);
  return status;
}

static pbStatus run_scene_of_gltf(pbContext *ctx, uint64_t *found) {
  pbMesh *mesh = NULL;
  pbStatus status = pbMesh_LoadShape(ctx, "motion.glb", "", &mesh);
  PB_TRY(see_mesh(status, mesh, found));

  mesh = NULL;
  status = pbMesh_LoadShape(ctx, "tet.gltf", "", &mesh);
  return see_mesh(status, mesh, found);
}

static pbStatus save_mesh(pbContext *ctx, const char *name, uint64_t *found) {
  pbMesh *mesh = NULL;
  PB_TRY(pbMesh_Box(ctx, &(pbBox){.high = {1, 1, 1}, .cells = {2, 1, 1}}, &mesh));

  pbStatus status = pbMesh_Save(ctx, name, mesh);
  pbMesh_Destroy(mesh);
  if (status == pb_ok) *found = mix_file(*found, name);
  return status;
}

static pbStatus run_saving_meshes(pbContext *ctx, uint64_t *found) {
  PB_TRY(save_mesh(ctx, "out.vtu", found));
  return save_mesh(ctx, "out.msh", found);
}

static pbStatus run_arrays(pbContext *ctx, uint64_t *found) {
  pbArrays *set = NULL;
  PB_TRY(pbArrays_Load(ctx, "run.npz", &set));
  pbStatus status = pbArrays_SaveNpz(set, "out.npz", true);
  pbArrays_Destroy(set);
  if (status == pb_ok) *found = mix_file(*found, "out.npz");
  return status;
}

// A recording in CSV: columns as controls and as a state.
static pbStatus take_columns(pbContext *ctx, const pbModel *model, const pbArrays *set, uint64_t *found) {
  double x[64];
  pbArrays *controls = NULL;
  PB_TRY(pbState_Init(ctx, model, pbModel_DefaultParams(model), -1, x));
  PB_TRY(pbRecording_State(ctx, model, set, pbRecording_Rows(set) - 1, x));
  PB_TRY(pbRecording_Controls(ctx, model, set, 0.01, 0, &controls));

  const pbArray *a = pbArrays_At(controls, 0);
  *found = mix(*found, x, (size_t)pbModel_StateSize(model) * sizeof *x);
  *found = mix(*found, a->reals, a->count * sizeof *a->reals);
  pbArrays_Destroy(controls);
  return pb_ok;
}

static pbStatus run_recording(pbContext *ctx, uint64_t *found) {
  pbArrays *set = NULL;
  pbModel *model = NULL;
  pbStatus status = pbArrays_Load(ctx, "log.csv", &set);
  if (status == pb_ok) status = pbModel_Load(ctx, "robot.xml", NULL, &model);
  if (status == pb_ok) status = take_columns(ctx, model, set, found);
  pbModel_Destroy(model);
  pbArrays_Destroy(set);
  return status;
}

static pbStatus show(pbContext *ctx, const pbModel *model, uint64_t *found) {
  pbArrays *set = NULL;
  pbDraft page = {0};
  char *text = NULL;
  size_t size = 0;

  pbStatus status = pbArrays_Load(ctx, "run.npz", &set);
  if (status == pb_ok) status = pbDraft_Begin(ctx, &page);
  pbShown shown = {.model = model, .theta = pbModel_DefaultParams(model), .path = "robot.xml"};
  if (status == pb_ok) status = pbView_Page(ctx, &shown, set, "run.npz", page.stream);
  if (status == pb_ok) status = pbDraft_End(&page, &text, &size);
  if (status == pb_ok) *found = mix(*found, text, size);

  pbDraft_Drop(&page);
  pbContext_Free(ctx, text);
  pbArrays_Destroy(set);
  return status;
}

static pbStatus run_page(pbContext *ctx, uint64_t *found) {
  pbModel *model = NULL;
  PB_TRY(pbModel_Load(ctx, "robot.xml", NULL, &model));
  pbStatus status = show(ctx, model, found);
  pbModel_Destroy(model);
  return status;
}

static pbStatus run_search(pbContext *ctx, uint64_t *found) {
  pbTask *task = NULL;
  pbRunResult result = {0};
  char *text = NULL;

  PB_TRY(pbTask_Load(ctx, "throw.json", NULL, &task));

  pbStatus status = pbTask_Run(task, NULL, &result);
  if (status == pb_ok) status = pbTask_ResultJson(task, &result, &text);
  if (status == pb_ok) *found = mix(*found, &result.loss, sizeof result.loss);
  pbContext_Free(ctx, text);
  pbTask_Destroy(task);
  return status;
}

static pbStatus run_pool(pbContext *ctx, uint64_t *found) {
  pbPool *pool = NULL;
  pbStatus status = pbPool_Create(ctx, 3, &pool);
  if (status == pb_ok) *found = mix(*found, "pool", 4);
  pbPool_Destroy(pool);
  return status;
}

typedef struct Scene {
  const char *name;
  pbStatus (*run)(pbContext *ctx, uint64_t *found);
  int kept;  // blocks that a library in it does not give back where it fails itself
} Scene;
static const Scene scenes[] = {{"robot", run_robot, 0},        {"hull and heights", run_shapes, 3},
                               {"urdf", run_urdf, 3},          {"archive", run_archive, 3},
                               {"attached", run_attaching, 0}, {"cloth", run_cloth, 0},
                               {"meshes", run_meshes, 0},      {"checked meshes", run_checking_meshes, 0},
                               {"glTF", run_scene_of_gltf, 0}, {"saved meshes", run_saving_meshes, 0},
                               {"arrays", run_arrays, 0},      {"recording", run_recording, 0},
                               {"page", run_page, 0},          {"search", run_search, 0},
                               {"pool", run_pool, 0}};

// ---- plans ------------------------------------------------------------------------------------------------------------
static const struct {
  const char *kind;
  int how[5], ways;
  const char *reason;  // NULL: that of errno
} kinds[] = {
    {"malloc", {ENOMEM}, 1, "memory"},  {"calloc", {ENOMEM}, 1, "memory"},  {"realloc", {ENOMEM}, 1, "memory"},
    {"aligned", {ENOMEM}, 1, "memory"}, {"mmap", {ENOMEM}, 1, "memory"},    {"thread", {EAGAIN}, 1, "thread"},
    {"open", {EMFILE, EIO}, 2, NULL},   {"read", {0, EINTR, EIO}, 3, NULL}, {"write", {0, EINTR, ENOSPC, EDQUOT, EIO}, 5, NULL},
    {"fsync", {EIO}, 1, NULL},          {"rename", {ENOSPC}, 1, NULL},      {"link", {EPERM}, 1, NULL},
    {"unlink", {EIO}, 1, NULL}};
enum { KINDS = sizeof kinds / sizeof *kinds, SHOWN = 5 };

typedef struct Plan {
  const Scene *scene;
  int kind, how, ever;
  long n;
} Plan;
typedef struct Tally {
  long tried, fired, wrong;
} Tally;

static Plan now;  // what is being tried, for who dies of it

static void print_plan(const Plan *p) {
  fprintf(stderr, "  %s: %s:%ld:%d:%d: ", p->scene->name, kinds[p->kind].kind, p->n, p->ever, p->how);
}

static void on_death(int number) {
  print_plan(&now);
  fprintf(stderr, number == SIGALRM ? "no end\n" : "signal %d\n", number);
  _exit(3);
}

static void complain(Tally *t, const Plan *p, const char *what, const char *text) {
  if (t->wrong++ >= SHOWN) return;
  print_plan(p);
  fprintf(stderr, "%s %s\n", what, text);
}

static bool names_reason(const Plan *p, const char *text) {
  const char *reason = kinds[p->kind].reason;
  if (!reason) return strstr(text, strerror(p->how));
  return strstr(text, reason) || strstr(text, "Cannot allocate") || strstr(text, "thread");
}

// Nothing half written is left, but where it cannot be removed.
static bool left_behind(void) {
  DIR *folder = opendir(".");
  bool found = false;
  struct dirent *e;
  if (!folder) return false;

  while ((e = readdir(folder)) != NULL) {
    if (!strstr(e->d_name, ".part-")) continue;
    found = true;
    unlink(e->d_name);
  }
  closedir(folder);
  return found;
}

static void try_plan(const Plan *p, uint64_t usual, Tally *t) {
  long before = alive();
  uint64_t found = 0;
  pbContext *ctx = pbContext_Create(NULL);
  now = *p;

  // as long as it takes to be sure that it hangs
  alarm(60);
  arm(kinds[p->kind].kind, p->n, p->ever, p->how);
  pbStatus status = p->scene->run(ctx, &found);
  t->fired += disarm() > 0;
  t->tried++;
  alarm(0);

  // a status may have to say it alone
  const char *text = pbContext_Error(ctx)[0] ? pbContext_Error(ctx) : pbStatus_Text(status);
  if (status == pb_ok && found != usual) complain(t, p, "another result", "");
  else if (status != pb_ok && pbStatus_ExitCode(status) != 5) complain(t, p, pbStatus_Text(status), text);
  else if (status != pb_ok && !names_reason(p, text)) complain(t, p, "does not name its reason:", text);
  pbContext_Destroy(ctx);

  if (left_behind() && strcmp(kinds[p->kind].kind, "unlink") != 0) complain(t, p, "leaves a file half written", "");
  if (alive() - before > p->scene->kept) complain(t, p, "keeps memory", "");
}

// Calls of each kind in a run without failures, and its result; what libraries keep from their first use on is kept by now.
static uint64_t count_calls(const Scene *scene, long count[KINDS]) {
  uint64_t found = 0;
  for (int i = 0; i < 2; i++) {
    pbContext *ctx = pbContext_Create(NULL);
    found = 0;
    arm(NULL, 0, 0, 0);
    pbStatus status = scene->run(ctx, &found);
    for (int k = 0; k < KINDS; k++) count[k] = calls(kinds[k].kind);
    disarm();
    if (status != pb_ok) fprintf(stderr, "%s: %s\n", scene->name, pbContext_Error(ctx));
    pbContext_Destroy(ctx);
    if (status != pb_ok) exit(2);
  }
  return found;
}

// One of `share` in all, where there are more; share 0: all.
static bool is_drawn(pbRng *rng, double share, long all) { return !share || pbRng_Uniform(rng) * (double)all < share; }

static long try_scene(const Scene *scene, double share, uint64_t seed) {
  long count[KINDS], all = 0;
  Tally t = {0};

  uint64_t usual = count_calls(scene, count);
  pbRng rng = pbRng_Seed(seed);
  for (int k = 0; k < KINDS; k++) all += 2 * count[k] * kinds[k].ways;

  Plan p = {.scene = scene};
  for (p.kind = 0; p.kind < KINDS; p.kind++) {
    for (int way = 0; way < 2 * kinds[p.kind].ways; way++) {
      p.how = kinds[p.kind].how[way / 2];
      p.ever = way % 2;
      if (p.ever && p.how == EINTR) continue;  // nothing is interrupted for ever
      for (p.n = 1; p.n <= count[p.kind]; p.n++) {
        if (is_drawn(&rng, share, all)) try_plan(&p, usual, &t);
      }
    }
  }

  printf("C: %-18s %5ld of %5ld runs, %5ld with a failure: ", scene->name, t.tried, all, t.fired);
  if (t.wrong) printf("%ld WRONG\n", t.wrong);
  else printf("all well\n");
  fflush(stdout);
  return t.wrong;
}

// Files that scenes read, made by the library itself.
static pbStatus make_files(pbContext *ctx) {
  static const char *const files[] = {"box.vtu", "box.vtk", "box.msh"};
  pbMesh *box = NULL, *ball = NULL;
  PB_TRY(pbMesh_Box(ctx, &(pbBox){.high = {1, 1, 1}, .cells = {2, 1, 1}}, &box));
  pbStatus status = pb_ok;

  for (int i = 0; i < 3 && status == pb_ok; i++) status = pbMesh_Save(ctx, files[i], box);
  pbMesh_Destroy(box);

  if (status == pb_ok) status = pbMesh_Sphere(ctx, 1, 2, &ball);
  if (status == pb_ok) status = pbMesh_Save(ctx, "box.obj", ball);
  if (status == pb_ok) status = pbMesh_Save(ctx, "skin.stl", ball);
  pbMesh_Destroy(ball);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 4 || chdir(argv[1]) != 0) return 2;

  find_world();
  signal(SIGSEGV, on_death);
  signal(SIGABRT, on_death);
  signal(SIGBUS, on_death);
  signal(SIGALRM, on_death);

  pbContext *ctx = pbContext_Create(NULL);
  pbStatus status = make_files(ctx);
  if (status != pb_ok) fprintf(stderr, "%s\n", pbContext_Error(ctx));
  pbContext_Destroy(ctx);
  if (status != pb_ok) return 2;

  long wrong = 0;
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
    wrong += try_scene(&scenes[i], atof(argv[2]), strtoull(argv[3], NULL, 10) + i);
  return wrong ? 1 : 0;
}
