// On the page of a search: the motion that was found, in the viewer, with what was recorded as its ghost.
// Tests: tests/oracle/test_ghost.py, tests/unit/test_pages.c.
#include "io/view/run_motion.h"

#include <string.h>

#include <pullback/io.h>

#include "io/view/scene.h"

typedef struct Found {
  pbContext *ctx;
  pbTask *task;
  const double *z;
  const char *path;  // of the task
  int trajectory;    // the first that positions were recorded of
  pbArrays *recorded, *motion;
  double *theta;
  pbModel *looks;
} Found;

static pbStatus find_recording(Found *f) {
  for (int t = 0; t < pbTask_TrajectoryCount(f->task); t++) {
    PB_TRY(pbArrays_Create(f->ctx, &f->recorded));
    PB_TRY(pbTask_Recorded(f->task, f->z, t, f->recorded));
    f->trajectory = t;
    if (pbArrays_Count(f->recorded)) return pb_ok;

    pbArrays_Destroy(f->recorded);
    f->recorded = NULL;
  }
  return pb_ok;
}

static pbStatus simulate(Found *f) {
  const pbModel *m = pbTask_Model(f->task);
  pbStepNotes notes;
  PB_TRY(pbArrays_Create(f->ctx, &f->motion));
  PB_TRY(pbTask_Simulate(f->ctx, f->task, &(pbTaskAnswer){.z = f->z, .trajectory = f->trajectory, .path = f->path}, f->motion,
                         &notes));

  // parameters as they were found
  f->theta = pbContext_Alloc(f->ctx, (pbModel_ParamSize(m) + 1) * sizeof *f->theta);
  if (!f->theta) return pbScene_NoMemory(f->ctx);
  PB_TRY(pbTask_Expand(f->task, f->z, f->trajectory, f->theta, NULL, NULL));
  return strcmp(pbTask_Constants(f->task), "recompute") == 0 ? pbModel_SetConstants(f->ctx, m, f->theta) : pb_ok;
}

// A search has no use for what meshes look like; where they are not there any more, their boxes are seen.
static pbStatus read_looks(Found *f) {
  pbStatus status = pbModel_Load(f->ctx, f->path, &(pbLoadOptions){.surfaces = true}, &f->looks);
  if (status != pb_ok) f->looks = NULL;
  if (status == pb_no_memory) return status;

  bool same = f->looks && pbModel_Size(f->looks, "ngeom") == pbModel_Size(pbTask_Model(f->task), "ngeom");
  if (f->looks && !same) {
    pbModel_Destroy(f->looks);
    f->looks = NULL;
  }
  return pb_ok;
}

static pbStatus draw(Found *f, FILE *out) {
  const pbArray *time = pbArrays_Find(f->motion, "time");
  pbScene scene;
  PB_TRY(read_looks(f));

  // a recording counts from the start of its trajectory
  pbStatus status = pbScene_Of(
      f->ctx, &(pbShown){.model = pbTask_Model(f->task), .theta = f->theta, .looks = f->looks, .path = f->path}, &scene);
  if (status == pb_ok) status = pbPage_PutInset(&scene, f->motion, f->recorded, -time->reals[0], out);
  pbScene_End(&scene);
  return status;
}

static pbStatus make(Found *f, char **page) {
  pbDraft draft;
  PB_TRY(simulate(f));
  PB_TRY(pbDraft_Begin(f->ctx, &draft));

  pbStatus status = draw(f, draft.stream);
  if (status == pb_ok) return pbDraft_End(&draft, page, NULL);
  pbDraft_Drop(&draft);
  return status;
}

static void describe(const Found *f, const char *page, pbJson *j) {
  pbJson_Open(j, "motion", '{');
  if (pbTask_TrajectoryCount(f->task) > 1) {
    pbJson_Integer(j, "trajectory", f->trajectory);
    pbJson_Integer(j, "trajectories", pbTask_TrajectoryCount(f->task));
  }

  // an answer that cannot be simulated any more, or a program without the library that draws, has no picture
  if (page) pbJson_Text(j, "page", page);
  else pbJson_Text(j, "why_none", pbContext_Error(f->ctx));
  pbJson_Close(j, '}');
}

pbStatus pbRun_PutMotion(pbContext *ctx, pbTask *task, const double *z, const char *path, pbJson *j) {
  Found f = {.ctx = ctx, .task = task, .z = z, .path = path};
  char *page = NULL;
  pbStatus status = find_recording(&f);
  bool any = f.recorded != NULL;
  if (status == pb_ok && any) status = make(&f, &page);

  bool ends = status == pb_no_memory || status == pb_interrupted;
  if (any && !ends) describe(&f, page, j);

  pbContext_Free(ctx, page);
  pbContext_Free(ctx, f.theta);
  pbModel_Destroy(f.looks);
  pbArrays_Destroy(f.motion);
  pbArrays_Destroy(f.recorded);
  return ends ? status : pb_ok;
}
