// iLQR of a task, for bench/crocoddyl.py: loaded once, then asked by lines on standard input, each answered by one line.
//   ilqr TASK.json
//     trace N      losses at the start and after each of N iterations, fewer where the search ends
//     time N       milliseconds of N iterations from the start, and of these of linearizing, planning, running again; runs
//     answer N     the unknowns after N iterations
//     loss Z...    the loss at these unknowns
// Time is the thread's own. Making the optimizer and its memory is not part of it, nor is loading.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/pullback.h>

#include "optimize/shoot.h"
#include "optimize/task.h"

typedef struct Bench {
  pbContext *ctx;
  pbTask *task;
  pbTaskShooting *shooting;
  double spent[3];  // linearizing, planning, running again [ms]
  int plans, runs;
} Bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void need(Bench *b, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "ilqr: %s: %s\n", pbStatus_Text(status), pbContext_Error(b->ctx));
  exit(pbStatus_ExitCode(status));
}

static pbStatus linearize(void *user, const double *z, double *value, double *gradient) {
  Bench *b = user;
  double from = now();
  pbStatus status = pbTaskShooting_Linearize(b->shooting, z, value, gradient);
  b->spent[0] += now() - from;
  return status;
}

static bool plan(void *user, const double *z, double lambda, double *moves, double *linear, double *quadratic) {
  Bench *b = user;
  double from = now();
  bool found = pbTaskShooting_Plan(b->shooting, z, lambda, moves, linear, quadratic);
  b->spent[1] += now() - from;
  b->plans++;
  return found;
}

static pbStatus attempt(void *user, const double *z, double alpha, double *trial, double *value) {
  Bench *b = user;
  double from = now();
  pbStatus status = pbTaskShooting_Try(b->shooting, z, alpha, trial, value);
  b->spent[2] += now() - from;
  b->runs++;
  return status;
}

static pbStatus value_of(void *user, const double *z, double *value) {
  return pbTask_Loss(((Bench *)user)->task, z, value, NULL);
}

// A search of at most so many iterations from the start; losses (count + 1, else NULL) are followed. Returns how many there were.
static int search(Bench *b, int count, double *losses, double *took, double *answer) {
  pbTask *task = b->task;
  const pbShooting shooting = {.user = b, .linearize = linearize, .plan = plan, .attempt = attempt};
  const pbProblem problem = {
      .n = task->n, .m = task->m, .lower = task->lower, .upper = task->upper, .user = b, .value = value_of};
  pbOptimizerOptions options = task->optimizer;
  options.method = pb_methodIlqr;
  pbOptimizer *o;
  need(b, pbOptimizer_CreateWith(b->ctx, &problem, &(pbStructure){.shooting = &shooting}, &options, task->start, &o));
  task->same = false;
  memset(b->spent, 0, sizeof b->spent);
  b->plans = b->runs = 0;

  int done = 0;
  double from = now();
  for (; done < count && pbOptimizer_Get(o).outcome == pb_running; done++) {
    need(b, pbOptimizer_Iterate(o));
    if (losses) losses[done] = pbOptimizer_Get(o).value;
  }
  *took = now() - from;
  if (answer) memcpy(answer, pbOptimizer_Get(o).best, (size_t)task->n * sizeof *answer);
  pbOptimizer_Destroy(o);

  return done;
}

static void say(const double *v, int count) {
  for (int i = 0; i < count; i++) printf(" %.17g", v[i]);
}

static void trace(Bench *b, int count) {
  double *losses = calloc((size_t)count + 1, sizeof *losses), took;
  if (!losses) need(b, pb_no_memory);
  need(b, pbTask_Loss(b->task, b->task->start, losses, NULL));
  int done = search(b, count, losses + 1, &took, NULL);
  say(losses, done + 1);
  free(losses);
}

static void answer(Bench *b, int count) {
  double *z = calloc((size_t)b->task->n, sizeof *z), took;
  if (!z) need(b, pb_no_memory);
  search(b, count, NULL, &took, z);
  say(z, b->task->n);
  free(z);
}

static void loss_at(Bench *b, char *words) {
  double *z = calloc((size_t)b->task->n, sizeof *z), value = NAN;
  if (!z) need(b, pb_no_memory);
  for (int i = 0; i < b->task->n; i++) z[i] = strtod(words, &words);
  need(b, pbTask_Loss(b->task, z, &value, NULL));
  say(&value, 1);
  free(z);
}

int main(int argc, char **argv) {
  static char line[1 << 20];
  Bench b = {.ctx = pbContext_Create(NULL)};
  if (argc != 2) {
    fprintf(stderr, "usage: ilqr TASK.json\n");
    return 2;
  }
  need(&b, pbTask_Load(b.ctx, argv[1], NULL, &b.task));
  need(&b, pbTaskShooting_Create(b.task, &b.shooting));

  while (fgets(line, sizeof line, stdin)) {
    double took;
    char *rest = strchr(line, ' ');
    if (!rest) continue;
    if (line[0] == 'l') loss_at(&b, rest);
    else if (line[0] == 'a') answer(&b, atoi(rest));
    else if (line[1] == 'r') trace(&b, atoi(rest));
    else {
      search(&b, atoi(rest), NULL, &took, NULL);
      printf(" %.6g %.6g %.6g %.6g %d %d", took, b.spent[0], b.spent[1], b.spent[2], b.plans, b.runs);
    }
    printf("\n");
    fflush(stdout);
  }

  pbTaskShooting_Destroy(b.task, b.shooting);
  pbTask_Destroy(b.task);
  pbContext_Destroy(b.ctx);
  return 0;
}
