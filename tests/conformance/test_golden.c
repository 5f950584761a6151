// Bits of trajectories and derivatives, pinned: every scene below is run with every kernel variant of this processor, and what
// comes out must have the stored hashes (conformance/golden/hashes.txt). A change that is meant to leave results alone proves it
// here; one that is meant to change them stores new hashes with `make golden` and says so.
//
// The hashes hold for every compiler, C library and processor: what is ours to compute is made of operations that IEEE 754 rounds
// in one way, elementary functions included (src/elementary). A digest of every quantity says how far other bits are.
//   test_golden             check
//   test_golden --write     store
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/pullback.h>

static const char stored_file[] = "conformance/golden/hashes.txt";

enum { most_quantities = 512, digest_size = 24, most_jacobian = 160 };

// ---- scenes ---------------------------------------------------------------------------------------------------------
typedef struct Scene {
  const char *name, *file;  // MJCF, or a task, which brings deformables
  int steps;
  pbGradientKind kind;
  const char *options[3][2];  // pbModel_SetOption; ends at NULL
  const char *contact[5][2];  // pbModel_SetContact; ends at NULL
} Scene;

#define HUMANOID "oracle/models/humanoid62.xml"
#define WALKER   "hostile/model.xml"  // tendons, equalities, actuators with states, every joint, fluid
#define BOXES    "oracle/models/contact_box.xml"

static const Scene scenes[] = {
    {"humanoid", HUMANOID, 12, pb_gradientExact, {{"cone", "elliptic"}}, {{NULL}}},
    {"walker-implicitfast", WALKER, 15, pb_gradientExact, {{NULL}}, {{NULL}}},
    {"walker-rk4", WALKER, 15, pb_gradientExact, {{"integrator", "RK4"}, {"cone", "pyramidal"}}, {{NULL}}},
    {"walker-smoothed", WALKER, 15, pb_gradientExact, {{"integrator", "Euler"}}, {{"kappa", "1"}, {"onset", "0.05"}}},
    {"walker-event", WALKER, 15, pb_gradientEvent, {{NULL}}, {{NULL}}},
    {"walker-smooth", WALKER, 15, pb_gradientSmooth, {{NULL}}, {{NULL}}},
    {"walker-cones",
     WALKER,
     12,
     pb_gradientEvent,
     {{NULL}},
     {{"method", "cones"}, {"restitution", "0.5"}, {"cfm", "1e-3"}, {"erp", "0.2"}}},
    {"walker-penalty", WALKER, 15, pb_gradientExact, {{NULL}}, {{"method", "penalty"}, {"stiffness", "300"}, {"damping", "2"}}},
    {"tendons", "oracle/models/tendon_spatial.xml", 15, pb_gradientExact, {{NULL}}, {{NULL}}},
    {"actuators", "oracle/models/actuators.xml", 15, pb_gradientExact, {{NULL}}, {{NULL}}},
    {"boxes", BOXES, 12, pb_gradientExact, {{"integrator", "RK4"}, {"cone", "elliptic"}}, {{NULL}}},
    {"boxes-lcp",
     BOXES,
     12,
     pb_gradientExact,
     {{NULL}},
     {{"method", "lcp"}, {"restitution", "0.3"}, {"cfm", "1e-4"}, {"erp", "0.2"}}},
    {"boxes-sweeps",
     BOXES,
     12,
     pb_gradientExact,
     {{NULL}},
     {{"method", "sweeps"}, {"sweeps", "100"}, {"cfm", "1e-2"}, {"erp", "0.2"}}},
    {"impact", "hostile/impact.xml", 40, pb_gradientExact, {{NULL}}, {{"method", "impact"}, {"restitution", "0.6"}}},
    {"cloth", "conformance/golden/cloth.json", 16, pb_gradientExact, {{NULL}}, {{NULL}}},
    {"gripper", "conformance/golden/gripper.json", 8, pb_gradientExact, {{NULL}}, {{NULL}}},
};
enum { scene_count = sizeof scenes / sizeof *scenes };

// ---- quantities -----------------------------------------------------------------------------------------------------
// What is known of an array of numbers. The digest has the numbers themselves where they are few, else sums of stretches; size is
// what each of its entries is measured by, known for what was computed only.
typedef struct Quantity {
  char scene[32], name[32];
  size_t count;
  uint64_t hash;
  int digests;
  double digest[digest_size], size[digest_size];
} Quantity;

typedef struct List {
  int count;
  Quantity at[most_quantities];
} List;

static int complaints;

static void PB_PRINTF(1, 2) complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  complaints++;
}

static _Noreturn void PB_PRINTF(1, 2) stop(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  exit(1);
}

static uint64_t hash_of(const double *a, size_t count) {  // FNV-1a over the bytes
  const unsigned char *byte = (const unsigned char *)a;
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < count * sizeof *a; i++) hash = (hash ^ byte[i]) * 1099511628211u;
  return hash;
}

static void keep(List *list, const Scene *scene, const char *name, const double *a, size_t count) {
  if (list->count == most_quantities) stop("more than %d quantities", most_quantities);
  Quantity *q = &list->at[list->count++];

  *q = (Quantity){.count = count, .hash = hash_of(a, count)};
  snprintf(q->scene, sizeof q->scene, "%s", scene->name);
  snprintf(q->name, sizeof q->name, "%s", name);
  q->digests = count < digest_size ? (int)count : digest_size;

  for (size_t i = 0; i < count; i++) {
    size_t k = i * (size_t)q->digests / count;
    q->digest[k] += a[i];
    q->size[k] += fabs(a[i]);
  }
}

// ---- one scene ------------------------------------------------------------------------------------------------------
typedef struct Run {
  const Scene *scene;
  List *list;
  pbContext *ctx;
  pbTask *task;
  pbModel *own;  // NULL where the model is the task's
  const pbModel *m;
  size_t nx, n, np, nu, nv, nsensors;
  double *theta, *x0, *ctrl, *qfrc;
  double *record, *weights;  // of the last step; cotangents and directions, long enough for any
} Run;

static void must(const Run *r, const char *what, pbStatus status, const pbScratch *s) {
  if (status != pb_ok) stop("%s: %s: %s", r->scene->name, what, s ? pbScratch_Error(s) : pbContext_Error(r->ctx));
}

static double *numbers(size_t count) {
  double *a = calloc(count + 1, sizeof *a);
  if (!a) stop("out of memory");
  return a;
}

// Integers alone, so that every machine has the same numbers: in [-1, 1], from a linear congruential generator.
static void fill(double *a, size_t count, double size) {
  uint64_t seed = 7;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    a[i] = size * ((double)(seed >> 11) / (double)(1ull << 52) - 1);
  }
}

static void load_model(Run *r) {
  const Scene *scene = r->scene;

  if (strstr(scene->file, ".json")) {
    must(r, "load", pbTask_Load(r->ctx, scene->file, NULL, &r->task), NULL);
    r->m = pbTask_Model(r->task);
    if (pbTask_Steps(r->task, 0) != scene->steps)
      stop("%s: %d steps, expected %d", scene->file, pbTask_Steps(r->task, 0), scene->steps);
    return;
  }

  must(r, "load", pbModel_Load(r->ctx, scene->file, NULL, &r->own), NULL);
  for (int i = 0; i < 3 && scene->options[i][0]; i++)
    must(r, scene->options[i][0], pbModel_SetOption(r->own, scene->options[i][0], scene->options[i][1]), NULL);
  for (int i = 0; i < 5 && scene->contact[i][0]; i++)
    must(r, scene->contact[i][0], pbModel_SetContact(r->own, scene->contact[i][0], scene->contact[i][1]), NULL);
  r->m = r->own;
}

// A start off symmetric positions, where kinks are, and inputs that differ from step to step.
static void open_run(Run *r) {
  load_model(r);
  const pbModel *m = r->m;
  size_t steps = (size_t)r->scene->steps;
  r->nx = (size_t)pbModel_StateSize(m);
  r->n = (size_t)pbModel_TangentSize(m);
  r->np = pbModel_ParamSize(m);
  r->nu = (size_t)pbModel_Size(m, "nu");
  r->nv = (size_t)pbModel_Size(m, "nv");
  r->nsensors = (size_t)pbModel_Size(m, "nsensordata");

  r->theta = numbers(r->np);
  r->x0 = numbers(r->nx);
  r->ctrl = numbers(steps * r->nu);
  r->qfrc = numbers(steps * r->nv);
  r->record = numbers((size_t)pbTape_Size(m));
  r->weights = numbers(r->np + r->n + r->nu + r->nv + r->nsensors);
  fill(r->weights, r->np + r->n + r->nu + r->nv + r->nsensors, 1);

  if (r->task) {
    must(r, "expand", pbTask_Expand(r->task, pbTask_Start(r->task), 0, r->theta, r->x0, r->ctrl), NULL);
    return;
  }
  memcpy(r->theta, pbModel_DefaultParams(m), r->np * sizeof *r->theta);
  must(r, "start", pbState_Init(r->ctx, m, r->theta, pbModel_Size(m, "nkey") > 0 ? 0 : -1, r->x0), NULL);
  pbState_Move(m, r->x0, r->weights, 0.03);
  fill(r->ctrl, steps * r->nu, 0.4);
  fill(r->qfrc, steps * r->nv, 0.1);
}

static void close_run(Run *r) {
  double *all[] = {r->theta, r->x0, r->ctrl, r->qfrc, r->record, r->weights};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  pbTask_Destroy(r->task);
  pbModel_Destroy(r->own);
}

// Step by step: states, sensors, and what solvers and contacts did on the way.
static pbScratch *walk(Run *r) {
  const pbModel *m = r->m;
  size_t steps = (size_t)r->scene->steps;
  double *states = numbers((steps + 1) * r->nx), *sensors = numbers(steps * r->nsensors), *counts = numbers(3 * steps);
  pbScratch *s;
  must(r, "scratch", pbScratch_Create(r->ctx, m, NULL, &s), NULL);
  memcpy(states, r->x0, r->nx * sizeof *states);

  for (size_t k = 0; k < steps; k++) {
    const double *before = states + k * r->nx;
    double *x = states + (k + 1) * r->nx;
    pbInput input = {.ctrl = r->ctrl + k * r->nu, .qfrc = r->qfrc + k * r->nv};
    pbStatus status;
    memcpy(x, before, r->nx * sizeof *x);
    do {
      status = pbStep_Forward(m, r->theta, x, &input, s, sensors + k * r->nsensors);
    } while (pbScratch_Grow(s, &status));
    must(r, "step", status, s);
    pbTape_Record(m, before, s, r->record);

    pbReport report = pbScratch_Report(s);
    counts[3 * k] = report.contacts;
    counts[3 * k + 1] = report.rows;
    counts[3 * k + 2] = report.iterations;
  }

  keep(r->list, r->scene, "states", states, (steps + 1) * r->nx);
  keep(r->list, r->scene, "final", states + steps * r->nx, r->nx);
  keep(r->list, r->scene, "sensors", sensors, steps * r->nsensors);
  keep(r->list, r->scene, "counts", counts, 3 * steps);
  free(states);
  free(sensors);
  free(counts);
  return s;
}

// Derivatives of the last step: pullback, push forward along a direction of everything, Jacobians.
static void differentiate_step(Run *r, pbScratch *s) {
  const pbModel *m = r->m;
  size_t last = (size_t)r->scene->steps - 1, n = r->n;
  pbInput input = {.ctrl = r->ctrl + last * r->nu, .qfrc = r->qfrc + last * r->nv};
  double *next = numbers(n), *sensed = numbers(r->nsensors), *x_bar = numbers(n), *theta_bar = numbers(r->np);

  double *direction_of_theta = numbers(r->np);
  for (size_t i = 0; i < r->np; i++) direction_of_theta[i] = r->weights[i] * r->theta[i];
  pbDirection direction = {.x = r->weights, .ctrl = r->weights, .qfrc = r->weights, .theta = direction_of_theta};
  must(r, "jvp", pbStep_Jvp(m, r->theta, r->record, &input, &direction, s, next, sensed, NULL, NULL), s);
  keep(r->list, r->scene, "step-jvp", next, n);
  keep(r->list, r->scene, "step-jvp-sensors", sensed, r->nsensors);

  must(r, "vjp", pbStep_Vjp(m, r->theta, r->record, &input, r->weights, NULL, s, x_bar, NULL, theta_bar), s);
  keep(r->list, r->scene, "step-vjp-state", x_bar, n);
  keep(r->list, r->scene, "step-vjp-theta", theta_bar, r->np);

  if (n <= most_jacobian) {
    double *A = numbers(n * n), *B = numbers(n * r->nu), *C = numbers(r->nsensors * n), *D = numbers(r->nsensors * r->nu);
    must(r, "Jacobian", pbStep_Jacobian(m, r->theta, r->record, &input, s, A, B, C, D), s);
    keep(r->list, r->scene, "jacobian-state", A, n * n);
    keep(r->list, r->scene, "jacobian-control", B, n * r->nu);
    keep(r->list, r->scene, "jacobian-sensors", C, r->nsensors * n);
    free(A);
    free(B);
    free(C);
    free(D);
  }
  free(next);
  free(sensed);
  free(x_bar);
  free(theta_bar);
  free(direction_of_theta);
}

// Gradient of a weighted sum of the final state and of sensors on the way, by everything.
static void differentiate_rollout(Run *r) {
  const pbModel *m = r->m;
  size_t steps = (size_t)r->scene->steps, points = (r->n - 2 * r->nv - (size_t)pbModel_Size(m, "na")) / 6;
  double *x_bar = numbers(r->n), *u_bar = numbers(steps * r->nu), *f_bar = numbers(steps * r->nv), *theta_bar = numbers(r->np);
  pbRolloutPlan plan;
  pbRollout *rollout;
  must(r, "plan", pbRollout_Plan(r->ctx, m, (int)steps, 0, &plan), NULL);
  must(r, "rollout", pbRollout_Create(r->ctx, m, &plan, NULL, &rollout), NULL);
  must(r, "gradient", pbRollout_SetGradient(rollout, r->scene->kind), NULL);

  pbRolloutInput input = {.ctrl = r->ctrl, .qfrc = r->qfrc};
  must(r, "forward", pbRollout_Forward(rollout, r->theta, r->x0, &input, &(pbRolloutOutput){0}), NULL);
  pbRolloutBar bar = {.qpos = {.data = r->weights, .count = 1}, .qvel = {.data = r->weights + 1, .count = 1}};
  if (points) bar.points = (pbCotangent){.data = r->weights, .count = 1};
  if (r->nsensors) bar.sensordata = (pbCotangent){.data = r->weights + 2, .count = 1};
  pbRolloutGradient gradient = {.x0 = x_bar, .ctrl = u_bar, .qfrc = f_bar, .theta = theta_bar};
  must(r, "pullback", pbRollout_Vjp(rollout, &bar, NULL, &gradient, NULL), NULL);
  pbRollout_Destroy(rollout);

  keep(r->list, r->scene, "gradient-state", x_bar, r->n);
  keep(r->list, r->scene, "gradient-control", u_bar, steps * r->nu);
  keep(r->list, r->scene, "gradient-force", f_bar, steps * r->nv);
  keep(r->list, r->scene, "gradient-theta", theta_bar, r->np);
  free(x_bar);
  free(u_bar);
  free(f_bar);
  free(theta_bar);
}

static void run_all(List *list) {
  list->count = 0;
  for (int k = 0; k < scene_count; k++) {
    Run r = {.scene = &scenes[k], .list = list, .ctx = pbContext_Create(NULL)};
    open_run(&r);
    pbScratch *s = walk(&r);
    differentiate_step(&r, s);
    pbScratch_Destroy(s);
    differentiate_rollout(&r);
    close_run(&r);
    pbContext_Destroy(r.ctx);
  }
}

static void write_file(const List *list) {
  FILE *file = fopen(stored_file, "w");
  if (!file) stop("%s cannot be written", stored_file);

  for (int i = 0; i < list->count; i++) {
    const Quantity *q = &list->at[i];
    fprintf(file, "%s %s %zu %016llx", q->scene, q->name, q->count, (unsigned long long)q->hash);
    for (int k = 0; k < q->digests; k++) fprintf(file, " %.17g", q->digest[k]);
    fprintf(file, "\n");
  }
  if (fclose(file)) stop("%s cannot be written", stored_file);
  printf("%s: %d quantities\n", stored_file, list->count);
}

static void read_quantity(char *line, Quantity *q) {
  unsigned long long hash;
  int end = 0;
  if (sscanf(line, "%31s %31s %zu %llx%n", q->scene, q->name, &q->count, &hash, &end) != 4)
    stop("%s: line '%.60s'", stored_file, line);
  q->hash = hash;
  q->digests = 0;

  char *rest = line + end, *after;
  while (q->digests < digest_size) {
    q->digest[q->digests] = strtod(rest, &after);
    if (after == rest) break;
    rest = after;
    q->digests++;
  }
}

static void read_file(List *list) {
  static char line[digest_size * 32 + 128];
  FILE *file = fopen(stored_file, "r");
  if (!file) stop("%s cannot be read: make golden writes it", stored_file);

  list->count = 0;
  while (fgets(line, sizeof line, file)) {
    if (list->count == most_quantities) stop("%s: more than %d quantities", stored_file, most_quantities);
    read_quantity(line, &list->at[list->count++]);
  }
  fclose(file);
}

// ---- comparison -----------------------------------------------------------------------------------------------------
// Largest difference of the digests. A stretch of an array is measured by the sum of its numbers' sizes, and an array by no less
// than a hundredth of its largest stretch: what cancels leaves rounding of what it was made from.
static double apart(const Quantity *found, const Quantity *stored) {
  double worst = 0, largest = 0;
  for (int k = 0; k < found->digests; k++) largest = fmax(largest, found->size[k]);

  for (int k = 0; k < found->digests; k++) {
    double size = fmax(found->size[k], 1e-2 * largest);
    double error = fabs(found->digest[k] - stored->digest[k]) / fmax(size, 1e-300);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

static void compare(const char *variant, const List *found, const List *stored) {
  if (found->count != stored->count) complain("%d quantities, expected %d: make golden", found->count, stored->count);

  for (int i = 0; i < found->count && i < stored->count; i++) {
    const Quantity *f = &found->at[i], *e = &stored->at[i];
    bool same_thing =
        !strcmp(f->scene, e->scene) && !strcmp(f->name, e->name) && f->count == e->count && f->digests == e->digests;
    if (!same_thing) {
      complain("%s: %s %s of %zu, expected %s %s of %zu: make golden", variant, f->scene, f->name, f->count, e->scene, e->name,
               e->count);
      continue;
    }

    if (f->hash != e->hash) complain("%s: %s: %s: other bits, digests %.1e apart", variant, f->scene, f->name, apart(f, e));
  }
}

// ---- variants -------------------------------------------------------------------------------------------------------
// The library asks __builtin_cpu_supports, which reads this table of the compiler's runtime library, linked in statically:
// clearing a feature here takes the variant away from every part of the library at once.
typedef struct Variant {
  const char *name;
  bool built;
  const char *lacks;  // the feature that this processor lacks, or NULL
} Variant;

#ifdef __x86_64__
extern struct { unsigned vendor, type, subtype, features; } __cpu_model;
enum { feature_avx2 = 10, feature_avx512f = 15 };

extern char pbStep_Run_v3[] __attribute__((weak)), pbStep_Run_v4[] __attribute__((weak));

static bool supports(int level) {
  if (level == 3) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
}

static void take_away(int level) {
  __cpu_model.features &= ~(1u << (level == 3 ? feature_avx2 : feature_avx512f));
  __asm__ volatile("" ::: "memory");  // the compiler takes the builtin's table for another variable
  if (supports(level)) stop("the variant _v%d cannot be taken away", level);
}

static int list_variants(Variant *list) {
  list[0] = (Variant){"_v4", pbStep_Run_v4 != NULL, supports(4) ? NULL : "AVX-512"};
  list[1] = (Variant){"_v3", pbStep_Run_v3 != NULL, supports(3) ? NULL : "AVX2 or FMA"};
  list[2] = (Variant){"_r", true, NULL};
  return 3;
}
#else
static void take_away(int level) { (void)level; }

static int list_variants(Variant *list) {
  list[0] = (Variant){"_r", true, NULL};
  return 1;
}
#endif

// Best first; each is taken away when it has run, so that the next is the library's choice.
static void run_variants(const List *stored) {
  static List found;
  Variant variants[3];
  int count = list_variants(variants);

  for (int k = 0; k < count; k++) {
    const Variant *v = &variants[k];
    if (!v->built) printf("%s: not run: not built\n", v->name);
    else if (v->lacks) printf("%s: not run: this processor lacks %s\n", v->name, v->lacks);
    else {
      int before = complaints;
      run_all(&found);
      compare(v->name, &found, stored);
      printf("%s: %d quantities, %d differ\n", v->name, found.count, complaints - before);
    }
    if (k < 2 && count == 3) take_away(4 - k);
  }
}

int main(int count, char **arguments) {
  static List stored;
  bool writes = count > 1 && !strcmp(arguments[1], "--write");
  if (writes) {
    run_all(&stored);
    write_file(&stored);
  } else {
    read_file(&stored);
  }

  run_variants(&stored);
  return complaints > 0;
}
