// CSV: whatever the bytes, columns of equal length in which every number is finite or missing, or an error with a place in it;
// and what is taken from them for a robot: controls, a state, a motion, poses, all finite.
#include <pullback/pullback.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/arrays/csv.h"

static pbModel *robot;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  static const char text[] =
      "<mujoco><option timestep='0.01'/><worldbody><body name='hand' mocap='true'><geom size='.1'/></body><body name='torso'>"
      "<freejoint name='root'/><geom size='.1'/><site name='tip'/><body><joint name='knee' axis='0 1 0'/><geom "
      "size='.1'/></body></body>"
      "</worldbody><actuator><general name='motor' joint='knee' dyntype='filter' dynprm='1'/></actuator>"
      "<sensor><gyro name='knee' site='tip'/></sensor></mujoco>";
  // one model for all inputs
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec = NULL;
  if (!ctx || pbSpec_ParseMjcf(ctx, text, strlen(text), "robot.xml", &spec) != pb_ok || pbSpec_Compile(spec, &robot) != pb_ok)
    abort();
  pbSpec_Destroy(spec);
  return 0;
}

// All numbers of what was taken are finite, or there is an error with a text.
static void check_arrays(pbContext *ctx, pbStatus status, pbArrays *set) {
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  if (status != pb_ok) return;

  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    for (size_t k = 0; k < a->count; k++) {
      if (!isfinite(a->reals[k])) abort();
    }
  }
  pbArrays_Destroy(set);
}

static void take(pbContext *ctx, const pbArrays *set) {
  double x[64];
  pbArrays *out = NULL;
  size_t rows = pbRecording_Rows(set);
  // the model's state for what has no column
  if (pbState_Init(ctx, robot, pbModel_DefaultParams(robot), -1, x) != pb_ok) abort();

  check_arrays(ctx, pbRecording_Trajectory(ctx, robot, set, 0.01, x, &out), out);
  check_arrays(ctx, pbRecording_Controls(ctx, robot, set, 0.01, 10, &out), out);
  check_arrays(ctx, pbRecording_Poses(ctx, robot, set, 0.01, &out), out);
  if (pbRecording_State(ctx, robot, set, rows - 1, x) != pb_ok) return;
  for (int i = 0; i < pbModel_StateSize(robot); i++) {
    if (!isfinite(x[i])) abort();
  }
}

static void look(const pbArrays *set) {
  const pbCsv *csv = pbArrays_Csv(set);
  char text[400];
  if (!csv) abort();  // the name says what it is

  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    if (a->ndim != 1 || a->count != csv->rows || pbArrays_Find(set, a->name) != a) abort();
    for (size_t k = 0; k < a->count; k++) {
      if (isinf(a->reals[k]) || csv->lines[k] < 2) abort();
    }
    if (!pbArrays_Place(set, a, 0, text, sizeof text)[0] || !pbUnit_Text(pbArrays_UnitOf(set, a), text, sizeof text)[0]) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbArrays *set = NULL;
  // bytes that begin as those of another kind of file are read as that
  bool other = size >= 2 && (memcmp(data, "PK", 2) == 0 || data[0] == 0x93 || data[0] == 0x80);
  pbStatus status = pbArrays_Parse(ctx, data, size, "fuzz.csv", &set);
  if (status != pb_ok && !strstr(pbContext_Error(ctx), "fuzz.csv")) abort();
  if (status == pb_ok && !other) {
    look(set);
    take(ctx, set);
  }
  pbArrays_Destroy(set);
  pbContext_Destroy(ctx);
  return 0;
}
