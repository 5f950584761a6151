// An iteration of Gauss-Newton over controls by a Riccati sweep, beside the same one by a matrix and beside rollouts with A, B.
//   sweep [PAIRS [FOLDER]]     prints "case,quantity,value" per line, exits with 1 where a promise is not kept;
//                              FOLDER (validation) has walker.xml
//
// Both sides are taken in turn, PAIRS times (5), from the same point, and ratios are medians of the ratios of neighbors. Time is
// the thread's own; memory is the most that the process ever held, of the long case, which comes first.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <pullback/pullback.h>

#include "optimize/sweep.h"
#include "rollout/rollout.h"

enum { most_pairs = 101 };
static const double most_share = 0.06, most_rollouts = 20, most_megabytes = 300;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void need(pbStatus status, const char *what) {
  if (status == pb_ok) return;
  fprintf(stderr, "sweep: %s: %s\n", pbStatus_Text(status), what);
  exit(pbStatus_ExitCode(status));
}

static double megabytes(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
#ifdef __APPLE__
  return (double)use.ru_maxrss / 1e6;
#else
  return (double)use.ru_maxrss / 1e3;
#endif
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int count) {
  qsort(v, (size_t)count, sizeof *v, compare);
  return v[count / 2];
}

// ---- the cases ------------------------------------------------------------------------------------------------------
// A planar runner: a trunk that slides and pitches, two legs of which one has an ankle; five motors.
static const char runner[] =
    "{\"model\": \"<mujoco><option timestep='0.002'/><default><geom type='capsule' size='.03'/><joint type='hinge' axis='0 1 0' "
    "damping='.5'/></default><worldbody><geom type='plane' size='9 9 1'/><body pos='0 0 .85'><joint name='x' type='slide' "
    "axis='1 0 0' "
    "damping='0'/><joint name='z' type='slide' axis='0 0 1' damping='0'/><joint name='pitch' damping='0'/><geom fromto='0 0 0 0 "
    "0 "
    ".4' mass='6'/><body><joint name='hip'/><geom fromto='0 0 0 0 0 -.4' mass='2'/><body pos='0 0 -.4'><joint name='knee'/><geom "
    "fromto='0 0 0 0 0 -.4' mass='1'/><body pos='0 0 -.4'><joint name='ankle'/><geom fromto='-.05 0 0 .12 0 0' mass='.3'/></body>"
    "</body></body><body><joint name='other_hip'/><geom fromto='0 0 0 0 0 -.4' mass='2'/><body pos='0 0 -.4'><joint "
    "name='other_knee'/><geom fromto='0 0 0 0 0 -.4' mass='1'/></body></body></body></worldbody><actuator><motor joint='hip' "
    "gear='30'/><motor joint='knee' gear='30'/><motor joint='ankle' gear='10'/><motor joint='other_hip' gear='30'/><motor "
    "joint='other_knee' gear='30'/></actuator></mujoco>\", \"steps\": 2000, \"variables\": [{\"control\": true}], \"loss\": "
    "[{\"qpos\": [\"x\", \"z\", \"pitch\"], \"at\": \"all\", \"target\": [0.3, 0.85, 0]}, {\"qvel\": true, \"at\": \"all\", "
    "\"weight\": 0.01}, {\"control\": true, \"at\": \"all\", \"weight\": 0.1}], \"optimizer\": {\"method\": \"gauss-newton\"}}";

// The walker stands up and sways; its motion is recorded, and the positions that servos were told are to be found from it.
#define LEG(name) "\"" name "_knee\", \"" name "_hip_y\""
static const char walker[] =
    "{\"model\": \"walker.xml\", \"steps\": 400, \"variables\": [{\"control\": [" LEG("front_left") ", " LEG("front_right") ", "
    LEG("hind_left") ", " LEG("hind_right") "], \"knots\": 33, \"interpolation\": \"linear\"}], \"loss\": [{\"qpos\": true, "
    "\"at\": \"all\"%s%s}, {\"control\": true, \"at\": \"all\", \"weight\": 1e-4}], \"optimizer\": {\"method\": "
    "\"gauss-newton\"}}";

// The same with the positions of this task's run at z as a target.
static char *record(pbContext *ctx, pbTask *task, const double *z) {
  const pbTermSet *set = &task->trajectories[0].terms;
  size_t room = (size_t)set->row_count * (size_t)set->model->nq * 26 + sizeof walker + 100, used = 0;
  char *rows = malloc(room), *text = malloc(room + sizeof walker);
  double *r = malloc((task->m + 1) * sizeof *r);
  if (!rows || !text || !r) need(pb_no_memory, "");
  need(pbTask_Residuals(task, z, r, NULL), pbContext_Error(ctx));

  for (int k = 0; k < set->row_count; k++) {
    const double *qpos = set->states + (size_t)k * (size_t)set->nx + set->qpos_at;
    for (int i = 0; i < set->model->nq; i++)
      used += (size_t)snprintf(rows + used, room - used, "%s%.17g", i ? ", " : "], [", qpos[i]);
  }
  snprintf(rows + used, room - used, "]]");
  memcpy(rows, "  [", 3);  // nothing was before the first
  snprintf(text, room + sizeof walker, walker, ", \"target\": ", rows);

  free(rows);
  free(r);
  return text;
}

// ---- one iteration --------------------------------------------------------------------------------------------------
typedef struct Case {
  pbTask *task;
  pbTaskSweep *sweep;
} Case;

static pbStatus residuals(void *user, const double *z, double *r, double *J) {
  return pbTask_Residuals(((Case *)user)->task, z, r, J);
}
static pbStatus linearize(void *user, const double *z, double *r, double *g, double *diagonal) {
  Case *c = user;
  const pbTaskTaker taker = pbTaskSweep_Taker(c->sweep);
  double value;
  pbStatus status = pbTask_Linearize(c->task, z, &value, r, &taker);
  if (status == pb_ok) pbTaskSweep_Look(c->sweep, g, diagonal);
  return status;
}
static bool solve(void *user, double lambda, const double *D, const bool *held, double *p) {
  return pbTaskSweep_Solve(((Case *)user)->sweep, lambda, D, held, p);
}
static double squared(void *user, const double *p) { return pbTaskSweep_Squared(((Case *)user)->sweep, p); }

// Milliseconds of an iteration, the first of so many from the start; last: what they came to.
static double iterate(pbContext *ctx, Case *c, bool by_sweep, int iterations, pbIterate *last) {
  pbTask *task = c->task;
  const pbNormal normal = {c, linearize, solve, squared};
  pbProblem problem = {.n = task->n, .m = task->m, .lower = task->lower, .upper = task->upper, .user = c, .residuals = residuals};
  pbOptimizer *o;
  need(pbOptimizer_CreateWith(ctx, &problem, &(pbStructure){.normal = by_sweep ? &normal : NULL}, &task->optimizer, task->start,
                              &o),
       pbContext_Error(ctx));
  task->same = false;

  double from = now();
  for (int i = 0; i < iterations; i++) need(pbOptimizer_Iterate(o), pbContext_Error(ctx));
  double took = (now() - from) / iterations;

  *last = pbOptimizer_Get(o);
  pbOptimizer_Destroy(o);
  return took;
}

static pbStatus see_nothing(void *user, int k, const pbStepRecord *step, pbScratch *scratch) {
  (void)user;
  (void)k;
  (void)step;
  (void)scratch;
  return pb_ok;
}

// Milliseconds of a forward rollout and of A and B of its steps.
static double linearize_alone(pbContext *ctx, Case *c, const pbLinearized *room) {
  pbTrajectory *tr = &c->task->trajectories[0];
  double from = now();
  need(pbTrajectory_Forward(tr), pbContext_Error(ctx));
  need(pbRollout_Linearize(tr->rollout, room), pbContext_Error(tr->ctx));
  return now() - from;
}

// ---- what is told ---------------------------------------------------------------------------------------------------
static bool tell(const char *name, const char *what, double value, double most) {
  printf("%s,%s,%.4g\n", name, what, value);
  if (most > 0 && value > most) fprintf(stderr, "sweep: %s: %s is %.3g, at most %.3g is promised\n", name, what, value, most);
  return most <= 0 || value <= most;
}

static bool long_case(pbContext *ctx, int pairs) {
  Case c = {0};
  pbRunResult result;
  pbIterate last = {0};
  double ratio[most_pairs], each[most_pairs];
  need(pbTask_Parse(ctx, runner, strlen(runner), NULL, "runner", &c.task), pbContext_Error(ctx));
  need(pbTask_Run(c.task, &(pbRunOptions){.iterations = 2}, &result), pbContext_Error(ctx));
  double held = megabytes();

  need(pbTaskSweep_Create(c.task, &c.sweep), pbContext_Error(ctx));
  size_t n = (size_t)c.task->trajectories[0].terms.n;
  double *A = calloc(n * n, sizeof *A), *B = calloc(n * 5, sizeof *B);
  double *rest = calloc(pbRollout_LinearizeRoom(c.task->model), sizeof *rest);
  if (!A || !B || !rest) need(pb_no_memory, "");
  const pbLinearized room = {.A = A, .B = B, .room = rest, .see = see_nothing};
  for (int i = 0; i < pairs; i++) {
    each[i] = iterate(ctx, &c, true, 1, &last);
    ratio[i] = each[i] / linearize_alone(ctx, &c, &room);
  }

  printf("runner,unknowns,%d\nrunner,residuals,%zu\n", c.task->n, c.task->m);
  tell("runner", "loss at the start", result.start_loss, 0);
  tell("runner", "loss after an iteration", last.value, 0);
  tell("runner", "iteration [ms]", median(each, pairs), 0);
  bool kept = tell("runner", "rollouts with A and B an iteration takes", median(ratio, pairs), most_rollouts);
  kept &= tell("runner", "most memory of the process [MB]", held, most_megabytes);

  free(A);
  free(B);
  free(rest);
  pbTaskSweep_Destroy(c.task, c.sweep);
  pbTask_Destroy(c.task);
  return kept;
}

static void load_walker(pbContext *ctx, const char *folder, Case *c) {
  char text[sizeof walker];
  snprintf(text, sizeof text, walker, "", "");
  need(pbTask_Parse(ctx, text, strlen(text), folder, "walker", &c->task), pbContext_Error(ctx));

  double *z = calloc((size_t)c->task->n, sizeof *z);
  if (!z) need(pb_no_memory, "");
  for (int i = 0; i < c->task->n; i++) z[i] = (i % 2 ? 0.1 : -0.2) * (1 - 0.5 * cos(0.3 * (i / 8) + i % 8));
  char *recorded = record(ctx, c->task, z);
  pbTask_Destroy(c->task);
  need(pbTask_Parse(ctx, recorded, strlen(recorded), folder, "walker", &c->task), pbContext_Error(ctx));
  need(pbTaskSweep_Create(c->task, &c->sweep), pbContext_Error(ctx));
  free(recorded);
  free(z);
}

static bool walker_case(pbContext *ctx, const char *folder, int pairs) {
  enum { iterations = 3 };
  Case c = {0};
  pbIterate last[2] = {{0}};
  double ratio[most_pairs], sweep[most_pairs], dense[most_pairs];
  load_walker(ctx, folder, &c);
  for (int i = 0; i < pairs; i++) {
    dense[i] = iterate(ctx, &c, false, iterations, &last[0]);
    sweep[i] = iterate(ctx, &c, true, iterations, &last[1]);
    ratio[i] = sweep[i] / dense[i];
  }

  printf("walker,unknowns,%d\nwalker,residuals,%zu\n", c.task->n, c.task->m);
  tell("walker", "iterations", iterations, 0);
  tell("walker", "steps tried", (double)last[1].values, 0);
  tell("walker", "loss by a matrix", last[0].value, 0);
  tell("walker", "loss by a sweep", last[1].value, 0);
  tell("walker", "iteration by a matrix [ms]", median(dense, pairs), 0);
  tell("walker", "iteration by a sweep [ms]", median(sweep, pairs), 0);
  bool kept = tell("walker", "sweep by matrix", median(ratio, pairs), most_share);
  pbTaskSweep_Destroy(c.task, c.sweep);
  pbTask_Destroy(c.task);
  return kept;
}

int main(int argc, char **argv) {
  int pairs = argc > 1 ? atoi(argv[1]) : 5;
  const char *folder = argc > 2 ? argv[2] : "validation";
  if (pairs < 1 || pairs > most_pairs) {
    fprintf(stderr, "sweep: PAIRS is 1 to %d\n", most_pairs);
    return 2;
  }

  pbContext *ctx = pbContext_Create(NULL);
  printf("case,quantity,value\n");
  bool kept = long_case(ctx, pairs);
  kept &= walker_case(ctx, folder, pairs);
  pbContext_Destroy(ctx);
  return !kept;
}
