// Task files: whatever the text, a task or an error with a text. Tasks may name the one model and the one recording that lie
// in their folder.
#include <pullback/pullback.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64] = "/tmp/pullback-fuzz-XXXXXX";

static void put(const char *name, const char *text) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *stream = fopen(path, "w");
  if (!stream || fputs(text, stream) < 0 || fclose(stream) != 0) abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  static const char text[] =
      "<mujoco><worldbody><site name='goal'/><body name='arm'><joint name='hinge' damping='0.1'/><geom name='rod' type='capsule' "
      "size='.02 .2'/><site name='tip' pos='0 0 .2'/></body></worldbody><actuator><motor name='motor' joint='hinge'/></actuator>"
      "<sensor><jointpos joint='hinge'/></sensor></mujoco>";
  static const char log[] =
      "time [ms],hinge [deg],qvel:hinge,motor,tip.x,tip.y,tip.z\n0,1,2,0.1,0,0,1\n4,2,3,,0,0,1\n10,3,4,0.2,0,0,1\n";
  if (!mkdtemp(folder)) abort();
  put("arm.xml", text);
  put("log.csv", log);
  return 0;
}

// A mesh generator is told a size in three digits: what would take long to make finds no memory instead.
static const size_t most_memory = (size_t)64 << 20;
static size_t taken;
static void *take(void *user, size_t size) {
  (void)user;
  taken += size;
  return taken > most_memory ? NULL : malloc(size);
}
static void *take_more(void *user, void *memory, size_t size) {
  (void)user;
  taken += size;
  return taken > most_memory ? NULL : realloc(memory, size);
}
static void give_back(void *user, void *memory) {
  (void)user;
  free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbAllocator bounded = {take, take_more, give_back, NULL};
  taken = 0;
  pbContext *ctx = pbContext_Create(&bounded);
  pbTask *task = NULL;
  pbStatus status = pbTask_Parse(ctx, (const char *)data, size, folder, "fuzz.json", &task);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  double value = 0;
  bool small = status == pb_ok && pbTask_TrajectoryCount(task) == 1 && pbTask_Steps(task, 0) <= 20 &&
               pbModel_PointCount(pbTask_Model(task)) <= 20;
  if (small) status = pbTask_Loss(task, pbTask_Start(task), &value, NULL);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
  return 0;
}
