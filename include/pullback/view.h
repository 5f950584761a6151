// Pullback: motions to be seen: web pages with a model that moves, and files for other programs (VTU series, glTF).
// A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_VIEW_H
#define PULLBACK_VIEW_H

#include <pullback/array.h>
#include <pullback/audit.h>
#include <pullback/check.h>
#include <pullback/control.h>
#include <pullback/learn.h>
#include <pullback/trajectory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbShown {
  const pbModel *model;
  const double *theta;  // ParamSize
  const pbModel
      *looks;        // the same model with what its meshes look like (pbLoadOptions.surfaces); NULL: `model` has what there is
  const char *path;  // of the model's file: the title of a page
  bool collision;    // without shapes that are only seen
  pbProgressFunction progress;  // "frames"
  void *user;
  // On a page with a motion the bodies once more, translucent: where a recording has them at the same time. Out of a CSV
  // (docs/csv.md), or "time" and "qpos" (NaN: no sample); NULL: none.
  const pbArrays *ghost;
  const char *ghost_file;  // its name; NULL: "the ghost"
  double ghost_start;      // s, of its clock at time 0 of the motion
} pbShown;

// A page that needs no network, to `out`. trajectory: arrays as a trajectory file has them ("qpos" and what else there is);
// file: its name in messages. Where that is NULL, the model alone is shown, in the first row, with its joints to move.
// pb_bad_input where the arrays do not fit the model, or a ghost has no times or no positions; pb_file where the library for
// drawing (three.js) is nowhere; pb_interrupted.
PB_API PB_NODISCARD pbStatus pbView_Page(pbContext *ctx, const pbShown *shown, const pbArrays *trajectory, const char *file,
                                         FILE *out);
// The model's state at the start, or at a keyframe (-1: none), as a trajectory of one row.
PB_API PB_NODISCARD pbStatus pbView_Start(pbContext *ctx, const pbModel *model, const double *theta, int keyframe, pbArrays *set);

// Bodies, tendons and deformables in all rows of a trajectory, which has "time" and is used until Destroy. pb_bad_argument:
// the model has nothing to draw.
typedef struct pbMotion pbMotion;
PB_API PB_NODISCARD pbStatus pbMotion_Create(pbContext *ctx, const pbShown *shown, const pbArrays *trajectory, pbMotion **motion);
PB_API void pbMotion_Destroy(pbMotion *motion);  // NULL is fine
PB_API PB_NODISCARD pbStatus pbMotion_SaveVtu(pbMotion *motion, const char *path);
PB_API PB_NODISCARD pbStatus pbMotion_SaveGlb(pbMotion *motion, const char *path);  // pb_unsupported: points without any element

// The page of a training that has run: its curves, and an episode of the best policy from the first of the evaluations' starts.
// `file` names it in messages; notes: of the steps of that episode.
PB_API PB_NODISCARD pbStatus pbTrain_Page(pbContext *ctx, const pbTrain *train, const pbTrainResult *result, const char *task,
                                          const char *allow_root, const char *file, pbStepNotes *notes, FILE *out);

// The page of a controller that has run: what was recorded in motion, with loss and times of its plans as curves. allow_root: of
// the meshes that are seen.
PB_API PB_NODISCARD pbStatus pbControl_Page(pbControl *control, const pbControlResult *result, const char *task,
                                            const char *allow_root, FILE *out);

// ---- pages of results: numbers beside their bounds, curves, words; no network, and nothing to draw with ----------------------
typedef struct pbPageHead {
  const char *path;     // of the task's or the model's file: the title
  const char *command;  // what makes it again, as it is to be typed; NULL: not told
} pbPageHead;
// A search that has run: how the loss fell, what was varied, advice, certificates, made anew as by pbTask_DescribeResult; where
// positions were recorded, the motion that was found plays beside them.
// files: `count` names of trajectory files; NULL: none.
PB_API PB_NODISCARD pbStatus pbRun_Page(pbContext *ctx, pbTask *task, const pbRunResult *result, const char *const *files,
                                        int count, const pbPageHead *head, FILE *out);
// An audit: its runs beside their limits, the ledger of energy.
PB_API PB_NODISCARD pbStatus pbAuditReport_Page(pbContext *ctx, const pbAuditReport *report, const pbPageHead *head, FILE *out);
// A check of derivatives: what was compared, the worst, kinks by name.
PB_API PB_NODISCARD pbStatus pbCheckReport_Page(pbContext *ctx, const pbCheckReport *report, const pbPageHead *head, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
