// The ghost of a page: where a recording has the joints at the times of the frames. The page draws bodies there a second time.
// Tests: tests/oracle/test_ghost.py.
#include <math.h>
#include <string.h>

#include "elementary/elementary.h"
#include "io/view/page.h"
#include "io/view/view.h"
#include "model/joint.h"

typedef struct Ghost {
  const View *v;
  size_t rows, nq;
  const double *time, *qpos;  // of each row; NaN: no sample
} Ghost;

static const char *name_of(const View *v) { return v->ghost.file ? v->ghost.file : "the ghost"; }

// ---- what was recorded ----------------------------------------------------------------------------------------------
static pbStatus check_times(const Ghost *g) {
  pbContext *ctx = g->v->scene->ctx;

  for (size_t k = 0; k < g->rows; k++) {
    if (!isfinite(g->time[k])) return pbContext_Fail(ctx, pb_bad_input, "%s: row %zu of 'time' is no number", name_of(g->v), k);
    if (k && g->time[k] < g->time[k - 1])
      return pbContext_Fail(ctx, pb_bad_input, "%s: 'time' goes backwards: %.12g s in row %zu, %.12g s before it", name_of(g->v),
                            g->time[k], k, g->time[k - 1]);
  }

  for (size_t i = 0; i < g->rows * g->nq; i++) {
    if (isinf(g->qpos[i]))
      return pbContext_Fail(ctx, pb_bad_input, "%s: row %zu of 'qpos' is not finite", name_of(g->v), i / g->nq);
  }
  return pb_ok;
}

static pbStatus read_rows(Ghost *g, const pbArrays *set) {
  pbContext *ctx = g->v->scene->ctx;
  const pbArray *qpos = pbArrays_Find(set, "qpos"), *time = pbArrays_Find(set, "time");
  char text[200];
  if (!qpos)
    return pbContext_Fail(ctx, pb_bad_input,
                          "%s: holds no 'qpos'; expected a recording in CSV, or a trajectory as 'pullback simulate' writes it",
                          name_of(g->v));
  if (qpos->type != pb_arrayReal || qpos->ndim != 2 || qpos->shape[1] != g->nq || !qpos->shape[0])
    return pbContext_Fail(ctx, pb_bad_input, "%s: 'qpos' %s; expected (N, %zu) for this model", name_of(g->v),
                          pbArray_What(qpos, text, sizeof text), g->nq);
  if (!time || time->type != pb_arrayReal || time->ndim != 1 || time->count != qpos->shape[0])
    return pbContext_Fail(ctx, pb_bad_input, "%s: holds no 'time' of its %zu rows, by which a ghost moves", name_of(g->v),
                          qpos->shape[0]);

  g->rows = qpos->shape[0];
  g->time = time->reals;
  g->qpos = qpos->reals;
  return check_times(g);
}

// ---- between rows ---------------------------------------------------------------------------------------------------
// The first row from `row` on that has all of `count` numbers; the count of rows behind the last.
static size_t next_sample(const Ghost *g, int first, int count, size_t row) {
  for (; row < g->rows; row++) {
    bool there = true;
    for (int i = 0; i < count; i++) there = there && !isnan(g->qpos[row * g->nq + (size_t)(first + i)]);
    if (there) break;
  }
  return row;
}

// Shares of two quaternions in the one on the arc between them, which need not be of length 1.
static void arc_shares(const double *a, const double *b, double share, double *by_a, double *by_b) {
  double aa = 0, bb = 0, ab = 0;
  for (int i = 0; i < 4; i++) {
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }

  // q and -q are one rotation: the shorter way
  double lengths = sqrt(aa) * sqrt(bb), cosine = lengths > 0 ? ab / lengths : 1, sign = cosine < 0 ? -1 : 1;
  double angle = pbAcos(fmin(fabs(cosine), 1)), sine = pbSin(angle);
  bool near = sine < 1e-6;

  *by_a = (near ? 1 - share : pbSin((1 - share) * angle) / sine) / fmax(sqrt(aa), 1e-300);
  *by_b = sign * (near ? share : pbSin(share * angle) / sine) / fmax(sqrt(bb), 1e-300);
}

static void put_between(const double *a, const double *b, double share, int count, float *out) {
  double by_a = 1 - share, by_b = share;
  if (count == 4) arc_shares(a, b, share, &by_a, &by_b);
  for (int i = 0; i < count; i++) out[i] = (float)(by_a * a[i] + by_b * b[i]);
}

// Numbers of qpos that belong together, in all frames: between the samples around its time, beyond them as the nearest one is.
// false: there is no sample.
static bool follow(const Ghost *g, int first, int count, float *out) {
  const View *v = g->v;
  size_t begin = next_sample(g, first, count, 0), before = begin, after = begin;
  if (begin == g->rows) return false;

  for (size_t k = 0; k < v->frames; k++) {
    double at = v->time[k] + v->ghost.start;

    // times of a motion need not ascend
    if (k && v->time[k] < v->time[k - 1]) before = after = begin;
    while (after < g->rows && g->time[after] <= at) {
      before = after;
      after = next_sample(g, first, count, after + 1);
    }

    bool inside = after < g->rows && before < after;
    size_t to = inside ? after : before;
    double share = inside ? (at - g->time[before]) / (g->time[after] - g->time[before]) : 0;
    put_between(g->qpos + before * g->nq + first, g->qpos + to * g->nq + first, share, count, out + k * g->nq + (size_t)first);
  }
  return true;
}

// ---- joints ---------------------------------------------------------------------------------------------------------
// Positions and a quaternion are apart: a recording may have one of them alone.
static bool follow_joint(const Ghost *g, int joint, float *out) {
  const pbModel *m = g->v->scene->model;
  int first = pbModel_Integer(m, "jnt_qposadr", joint), width = pbJoint_PositionCount(pbModel_Integer(m, "jnt_type", joint));
  bool any = false;

  for (int i = 0, count; i < width; i += count) {
    count = width - i == 4 ? 4 : 1;
    any = follow(g, first + i, count, out) || any;
  }
  return any;
}

// From the motion, then what was recorded over it.
static pbStatus follow_all(View *v, const Ghost *g) {
  const pbArray *qpos = pbArrays_Find(v->trajectory, "qpos");
  int joints = pbModel_Size(v->scene->model, "njnt");
  v->ghost.qpos = pbContext_Alloc(v->scene->ctx, (v->frames * g->nq + 1) * sizeof *v->ghost.qpos);
  v->ghost.joint = pbContext_Alloc(v->scene->ctx, ((size_t)joints + 1) * sizeof *v->ghost.joint);
  if (!v->ghost.qpos || !v->ghost.joint) return pbScene_NoMemory(v->scene->ctx);

  for (size_t i = 0; i < v->frames * g->nq; i++) v->ghost.qpos[i] = (float)qpos->reals[v->row_of[i / g->nq] * g->nq + i % g->nq];
  for (int j = 0; j < joints; j++) {
    if (follow_joint(g, j, v->ghost.qpos)) v->ghost.joint[v->ghost.joints++] = j;
  }

  if (v->ghost.joints) return pb_ok;
  return pbContext_Fail(v->scene->ctx, pb_bad_input, "%s: holds no sample of a position of this model", name_of(v));
}

pbStatus pbView_ReadGhost(View *v) {
  pbContext *ctx = v->scene->ctx;
  Ghost g = {.v = v, .nq = (size_t)v->scene->nq};
  pbArrays *columns = NULL;
  if (!v->ghost.set) return pb_ok;
  if (!v->moving) return pbContext_Fail(ctx, pb_bad_argument, "a ghost moves beside a trajectory, and there is none");
  if (!isfinite(v->ghost.start)) return pbContext_Fail(ctx, pb_bad_argument, "the ghost begins at no time");

  // columns of a CSV become rows of numbers
  bool csv = pbRecording_Rows(v->ghost.set) > 0;
  if (csv) PB_TRY(pbRecording_Trajectory(ctx, v->scene->model, v->ghost.set, 0, NULL, &columns));
  pbStatus status = read_rows(&g, csv ? columns : v->ghost.set);
  if (status == pb_ok) status = follow_all(v, &g);
  pbArrays_Destroy(columns);
  return status;
}

void pbView_PutGhost(const View *v, pbJson *j) {
  if (!v->ghost.set) return;

  pbJson_Open(j, "ghost", '{');
  pbJson_Text(j, "name", pbPage_Name(name_of(v)));
  pbJson_OpenLine(j, "joints", '[');
  for (int i = 0; i < v->ghost.joints; i++) pbJson_Integer(j, NULL, v->ghost.joint[i]);
  pbJson_Close(j, ']');
  pbJson_Floats(j, "qpos", v->ghost.qpos, v->frames * (size_t)v->scene->nq);
  pbJson_Close(j, '}');
}
