// Loads a model and ends: what loading costs is the time of the process, less that of one that loads nothing (bench/load.py).
//   load pullback|mujoco|nothing MODEL.xml FOLDER      files of the model may lie in FOLDER too
#include <stdio.h>
#include <string.h>

#include <pullback/pullback.h>

#ifdef PB_HAVE_MUJOCO
#include <mujoco/mujoco.h>
#endif

static int load_ours(const char *file, const char *folder) {
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = NULL;
  pbStatus status = pbModel_Load(ctx, file, &(pbLoadOptions){.allow_root = folder}, &m);
  if (status != pb_ok) fprintf(stderr, "load: %s\n", pbContext_Error(ctx));
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
  return pbStatus_ExitCode(status);
}

#ifdef PB_HAVE_MUJOCO
static int load_theirs(const char *file) {
  char text[1000] = "";
  mjModel *m = mj_loadXML(file, NULL, text, sizeof text);
  if (!m) fprintf(stderr, "load: %s\n", text);
  mj_deleteModel(m);
  return !m;
}
#else
static int load_theirs(const char *file) {
  fprintf(stderr, "load: built without MuJoCo, which was to load %s\n", file);
  return 1;
}
#endif

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "pullback")) return load_ours(argv[2], argv[3]);
  if (argc == 4 && !strcmp(argv[1], "mujoco")) return load_theirs(argv[2]);
  if (argc == 4 && !strcmp(argv[1], "nothing")) return 0;
  fprintf(stderr, "usage: load pullback|mujoco|nothing MODEL.xml FOLDER\n");
  return 2;
}
