// Many steps of robots that are driven by a network, and the gradient of the way they go by all its weights, checked in the same run.
//
//   robots MODEL small|large ROBOTS [OPTION ...]      prints "quantity,value" per line
//     --threads N      (1)
//     --steps N        (1000)
//     --rounds N       forward and gradient so often; times are medians (1)
//     --directions N   of weights, in which reverse mode is compared with forward mode (20)
//     --compare N      and for so many robots, the first of them; all of them in two directions over the steps of --short (all)
//     --short N        of one robot with quotients of differences over the first N steps; 0: not at all (50)
//     --float          the network computes in float
//     --floating       without ground and gravity
//
// The network is one layer, or two hidden ones of 1 024 ReLUs, over 81 numbers: velocity, upward axis and height of the trunk,
// positions, velocities and axes of the limbs as seen from it, and sine and cosine of the time; 16 set-points come out.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <pullback/pullback.h>

enum { MOST_ROUNDS = 99, LIMBS = 8, ROWS = 4 + 3 * LIMBS, OBSERVATIONS = 81, OUTPUTS = 16, HIDDEN = 1024 };
static const double SPREAD = .05;  // rad: of the joints at the start
static const double SIZE = 1e-5;   // of a move along a direction, for quotients of differences
static const double SMALL = 1e-7;  // the same across kinks of many ReLUs

typedef struct Options {
  const char *model;
  bool large, single, floating;
  int robots, threads, steps, rounds, directions, compared, shorter;
} Options;

typedef struct Bench {
  Options option;
  pbContext *ctx;
  pbModel *model;
  pbNetwork *network;
  pbPool *pool;
  pbBatch *batch;
  int nx, nv, joints;  // joints: where their positions begin in the state
  size_t params;
  double *theta, *x0;  // x0: (robots, nx)
  double *gradient;    // of the sum of the ways, by theta
  double *direction;   // of theta
  double *moved;       // theta
  double *end;         // (robots, nx)
  double *seed;        // (robots, nv): cotangents of the positions at the end
  double *tangent;     // (robots, tangent)
  int *ids;
  pbCertificate *certificate;
} Bench;

static void need(const Bench *b, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "robots: %s: %s\n", pbStatus_Text(status), b->ctx ? pbContext_Error(b->ctx) : "");
  exit(pbStatus_ExitCode(status));
}

static double *numbers(const Bench *b, size_t count) {
  double *x = calloc(count + 1, sizeof *x);
  if (!x) need(b, pb_no_memory);
  return x;
}

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void say(const char *quantity, double value) {
  printf("%s,%.17g\n", quantity, value);
  fflush(stdout);
}

// ---- the robot and its network ------------------------------------------------------------------------------------------
static const char *const limbs[LIMBS] = {"front_left_femur", "front_right_femur", "hind_left_femur", "hind_right_femur",
                                         "front_left_tibia", "front_right_tibia", "hind_left_tibia", "hind_right_tibia"};

// The time first, of which the clock makes sine and cosine; then what is seen of the trunk, and of the limbs from it.
static void observe(pbObserveDef row[ROWS]) {
  static const int velocity[] = {0, 1, 2}, axis[] = {2, 5, 8}, height[] = {2};
  memset(row, 0, ROWS * sizeof *row);
  row[0] = (pbObserveDef){.kind = pb_observeTime};
  row[1] = (pbObserveDef){.kind = pb_observeQvel, .object = "root", .component = velocity, .components = 3};
  row[2] = (pbObserveDef){.kind = pb_observeBodyRotation, .object = "trunk", .component = axis, .components = 3};
  row[3] = (pbObserveDef){.kind = pb_observeBodyPosition, .object = "trunk", .component = height, .components = 1};
  for (int i = 0; i < LIMBS; i++) {
    pbObserveDef *r = row + 4 + 3 * i;
    r[0] = (pbObserveDef){.kind = pb_observeBodyPosition, .object = limbs[i], .frame = "trunk"};
    r[1] = (pbObserveDef){.kind = pb_observeSensor, .object = limbs[i]};
    r[2] =
        (pbObserveDef){.kind = pb_observeBodyRotation, .object = limbs[i], .frame = "trunk", .component = axis, .components = 3};
  }
}

static void make_network(Bench *b) {
  static const double frequency[] = {1.5};
  const pbLayerDef clock = {.kind = pb_layerClock, .frequency = frequency, .frequencies = 1};
  const pbLayerDef hidden = {.kind = pb_layerDense, .size = HIDDEN, .gain = M_SQRT2}, relu = {.kind = pb_layerActivation};
  const pbLayerDef small[] = {clock, {.kind = pb_layerDense, .size = OUTPUTS, .gain = .3}};
  const pbLayerDef large[] = {clock, hidden, relu, hidden, relu, {.kind = pb_layerDense, .size = OUTPUTS, .gain = .3}};
  const pbLayerDef *layers = b->option.large ? large : small;
  int count = b->option.large ? sizeof large / sizeof *large : sizeof small / sizeof *small;
  need(b, pbNetwork_Create(b->ctx, OBSERVATIONS - 1, layers, count, 1, b->option.single, &b->network));
}

static void load(Bench *b) {
  const Options *o = &b->option;
  b->ctx = pbContext_Create(NULL);
  need(b, pbModel_Load(b->ctx, o->model, NULL, &b->model));
  if (o->floating) need(b, pbModel_SetOption(b->model, "contact", "disable"));
  if (o->floating) need(b, pbModel_SetOption(b->model, "gravity", "disable"));

  pbObserveDef row[ROWS];
  observe(row);
  make_network(b);
  const pbPolicyDef def = {.observe = row, .observe_count = ROWS, .decide = pbNetwork_Function(b->network)};
  need(b, pbModel_SetPolicy(b->model, &def));

  b->nx = pbModel_StateSize(b->model);
  b->nv = pbModel_Size(b->model, "nv");
  b->params = pbModel_ParamSize(b->model);
  b->theta = numbers(b, b->params);
  memcpy(b->theta, pbModel_DefaultParams(b->model), b->params * sizeof *b->theta);
}

// Robots stand with joints a little off, each otherwise.
static void place(Bench *b) {
  pbRng r = pbRng_Seed(2);
  int qpos = 0;
  for (int k = 0; k < pbModel_StateFieldCount(b->model); k++) {
    pbStateField field = pbModel_StateFieldAt(b->model, k);
    if (!strcmp(field.name, "qpos")) qpos = (int)field.offset;
  }
  b->joints = qpos + 7;

  size_t nx = (size_t)b->nx;
  b->x0 = numbers(b, (size_t)b->option.robots * nx);
  for (int w = 0; w < b->option.robots; w++) {
    double *x = b->x0 + (size_t)w * nx;
    need(b, pbState_Init(b->ctx, b->model, b->theta, -1, x));
    for (int j = 0; j < OUTPUTS; j++) x[b->joints + j] += SPREAD * (2 * pbRng_Uniform(&r) - 1);
  }
}

static bool is_weight(const pbParam *p) { return !strncmp(p->name, "policy.", 7); }

static void make_batch(Bench *b) {
  const Options *o = &b->option;
  need(b, pbPool_Create(b->ctx, o->threads, &b->pool));
  const pbBatchOptions options = {.worlds = o->robots, .pool = b->pool, .steps = o->steps};
  need(b, pbBatch_Create(b->ctx, b->model, &options, &b->batch));

  // Weights and biases alone.
  const char *names[8];
  int count = 0;
  for (int k = 0; k < pbModel_ParamCount(b->model); k++) {
    pbParam p = pbModel_ParamAt(b->model, k);
    if (is_weight(&p)) names[count++] = p.name;
  }
  need(b, pbBatch_WantParameters(b->batch, names, count));
}

// ---- what is timed ------------------------------------------------------------------------------------------------------
// The first `robots` from their starts; what they leave at the end goes to b->end.
static void run(Bench *b, const double *theta, int robots, int steps) {
  const int last[] = {steps};
  const pbBatchOutput output = {.states = b->end, .rows = last, .row_count = 1};
  need(b, pbBatch_Reset(b->batch, theta, b->ids, robots, -1, b->x0));
  need(b, pbBatch_Rollout(b->batch, theta, b->ids, robots, steps, NULL, &output));
}

// Sum of the ways along x of the first `robots`.
static double way(const Bench *b, int robots) {
  double sum = 0;
  for (int w = 0; w < robots; w++) sum += b->end[(size_t)w * (size_t)b->nx + 1];
  return sum;
}

// Its gradient by theta, of the last run.
static void pull(Bench *b) {
  size_t nv = (size_t)b->nv;
  memset(b->gradient, 0, b->params * sizeof *b->gradient);
  for (int w = 0; w < b->option.robots; w++) b->seed[(size_t)w * nv] = 1;
  const pbRolloutBar bar = {.qpos = {.data = b->seed, .count = 1}};
  need(b, pbBatch_Vjp(b->batch, &bar, NULL, &(pbBatchGradient){.theta = b->gradient}, b->certificate));
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int count) {
  qsort(x, (size_t)count, sizeof *x, ascending);
  return count % 2 ? x[count / 2] : .5 * (x[count / 2 - 1] + x[count / 2]);
}

typedef struct Times {
  double wall, processor;
} Times;

static Times begin(void) { return (Times){seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID)}; }
static Times since(Times t) {
  Times now = begin();
  return (Times){now.wall - t.wall, now.processor - t.processor};
}

static void measure(Bench *b) {
  const Options *o = &b->option;
  double forward[MOST_ROUNDS], both[MOST_ROUNDS], ratio[MOST_ROUNDS], forward_wall[MOST_ROUNDS], both_wall[MOST_ROUNDS];
  for (int k = 0; k < o->rounds; k++) {
    // Forward alone, and the same with its gradient.
    Times start = begin();
    run(b, b->theta, o->robots, o->steps);
    Times alone = since(start);
    pull(b);
    Times with = since(start);

    forward[k] = alone.processor;
    forward_wall[k] = alone.wall;
    both[k] = with.processor;
    both_wall[k] = with.wall;
    ratio[k] = with.processor / alone.processor;
  }

  say("forward_processor_s", median(forward, o->rounds));
  say("forward_wall_s", median(forward_wall, o->rounds));
  say("with_gradient_processor_s", median(both, o->rounds));
  say("with_gradient_wall_s", median(both_wall, o->rounds));
  say("ratio", median(ratio, o->rounds));
}

// ---- whether it is right ------------------------------------------------------------------------------------------------
// A random direction of all weights; each layer counts alike, whatever its size.
static void direct(Bench *b, pbRng *r) {
  memset(b->direction, 0, b->params * sizeof *b->direction);
  for (int k = 0; k < pbModel_ParamCount(b->model); k++) {
    pbParam p = pbModel_ParamAt(b->model, k);
    if (!is_weight(&p)) continue;
    size_t count = (size_t)p.rows * (size_t)p.cols;
    for (size_t i = 0; i < count; i++) b->direction[p.offset + i] = pbRng_Normal(r) / sqrt((double)count);
  }
}

static double along(const Bench *b) {
  double sum = 0;
  for (size_t i = 0; i < b->params; i++) sum += b->gradient[i] * b->direction[i];
  return sum;
}

// The derivative of the sum of ways of the robots of the last run along the direction, in forward mode.
static double pushed(Bench *b, int robots, int steps) {
  const int last[] = {steps};
  const pbBatchTangent tangent = {.x = b->tangent, .rows = last, .row_count = 1};
  need(b, pbBatch_Jvp(b->batch, &(pbBatchDirection){.theta = b->direction}, &tangent));
  double sum = 0;
  for (int w = 0; w < robots; w++) sum += b->tangent[(size_t)w * (size_t)pbModel_TangentSize(b->model)];
  return sum;
}

// Worst difference of two derivatives along random directions, by the size of the larger ones.
typedef struct Worst {
  double apart, largest;
} Worst;

static void compare(Worst *worst, double a, double b) {
  worst->apart = fmax(worst->apart, fabs(a - b));
  worst->largest = fmax(worst->largest, fmax(fabs(a), fabs(b)));
}

static void check_modes(Bench *b, int robots, int steps, int directions, const char *name) {
  pbRng r = pbRng_Seed(3);
  Worst worst = {0};
  for (int k = 0; k < directions; k++) {
    direct(b, &r);
    compare(&worst, along(b), pushed(b, robots, steps));
  }
  if (directions > 0) say(name, worst.apart / worst.largest);
}

// (f(s) - f(-s)) / 2 s, extrapolated from two sizes to fourth order.
static double quotient(Bench *b, int steps) {
  double slope[2];
  for (int half = 0; half < 2; half++) {
    double whole = b->option.large ? SMALL : SIZE, size = half ? whole / 2 : whole, at[2];
    for (int side = 0; side < 2; side++) {
      double move = side ? -size : size;
      for (size_t i = 0; i < b->params; i++) b->moved[i] = b->theta[i] + move * b->direction[i];
      run(b, b->moved, 1, steps);
      at[side] = way(b, 1);
    }
    slope[half] = (at[0] - at[1]) / (2 * size);
  }
  return (4 * slope[1] - slope[0]) / 3;
}

// The first robot's gradient over fewer steps, against differences.
static void check_differences(Bench *b, int steps, int directions) {
  pbRng r = pbRng_Seed(4);
  Worst worst = {0};
  run(b, b->theta, 1, steps);
  pull(b);
  for (int k = 0; k < directions; k++) {
    direct(b, &r);
    compare(&worst, along(b), quotient(b, steps));
  }
  say("differences", worst.apart / worst.largest);
}

// The joint that moves least, of the first robot.
static void check_motion(Bench *b) {
  size_t nx = (size_t)b->nx, rows = (size_t)b->option.steps + 1;
  double *states = numbers(b, nx * rows * (size_t)b->option.robots), least = INFINITY;
  need(b, pbBatch_Reset(b->batch, b->theta, b->ids, 1, -1, b->x0));
  need(b, pbBatch_Rollout(b->batch, b->theta, b->ids, 1, b->option.steps, NULL, &(pbBatchOutput){.states = states}));

  // The second half, when what is left of the start is gone.
  for (int j = 0; j < OUTPUTS; j++) {
    double low = INFINITY, high = -INFINITY;
    for (size_t k = rows / 2; k < rows; k++) {
      low = fmin(low, states[k * nx + (size_t)(b->joints + j)]);
      high = fmax(high, states[k * nx + (size_t)(b->joints + j)]);
    }
    least = fmin(least, high - low);
  }
  say("least_motion_rad", least);
  free(states);
}

static void check(Bench *b) {
  const Options *o = &b->option;
  double growth = 0;
  for (int w = 0; w < o->robots; w++) growth = fmax(growth, b->certificate[w].growth);
  say("way_m", way(b, o->robots) / o->robots);
  say("growth", growth);
  say("contacts", b->certificate[0].most_contacts);

  if (o->compared < o->robots) {
    // Robots are the same beside others: the first ones again, and all of them for a short while.
    run(b, b->theta, o->compared, o->steps);
    pull(b);
    check_modes(b, o->compared, o->steps, o->directions, "modes");
    run(b, b->theta, o->robots, o->shorter);
    pull(b);
    check_modes(b, o->robots, o->shorter, o->directions < 2 ? o->directions : 2, "modes_of_all");
  } else if (!o->floating) {
    check_modes(b, o->robots, o->steps, o->directions, "modes");
  }

  if (o->shorter > 0 && o->robots == 1) check_differences(b, o->shorter, o->directions);
  check_motion(b);
}

// ---- the program --------------------------------------------------------------------------------------------------------
static void usage(void) {
  fprintf(
      stderr,
      "usage: robots MODEL small|large ROBOTS [--threads N] [--steps N] [--rounds N] [--directions N] [--compare N] [--short N] "
      "[--float] [--floating]\n");
  exit(2);
}

static int number(const char *word) {
  char *end;
  long value = word ? strtol(word, &end, 10) : -1;
  if (!word || end == word || *end || value < 0 || value > 1000000) usage();
  return (int)value;
}

static Options read_options(int argc, char **argv) {
  if (argc < 4 || (strcmp(argv[2], "small") && strcmp(argv[2], "large"))) usage();
  Options o = {.model = argv[1], .large = !strcmp(argv[2], "large"), .robots = number(argv[3])};
  o.threads = o.rounds = 1;
  o.steps = 1000;
  o.directions = 20;
  o.shorter = 50;
  o.compared = o.robots;
  const struct {
    const char *word;
    int *count;
    bool *flag;
  } all[] = {{"--threads", &o.threads, NULL},       {"--steps", &o.steps, NULL},      {"--rounds", &o.rounds, NULL},
             {"--directions", &o.directions, NULL}, {"--short", &o.shorter, NULL},    {"--compare", &o.compared, NULL},
             {"--float", NULL, &o.single},          {"--floating", NULL, &o.floating}};

  for (int k = 4; k < argc; k++) {
    size_t i = 0;
    while (i < sizeof all / sizeof *all && strcmp(argv[k], all[i].word)) i++;
    if (i == sizeof all / sizeof *all) usage();
    if (all[i].flag) {
      *all[i].flag = true;
    } else {
      *all[i].count = number(k + 1 < argc ? argv[k + 1] : NULL);
      k++;
    }
  }
  if (o.robots < 1 || o.threads < 1 || o.rounds < 1 || o.rounds > MOST_ROUNDS || o.steps < 1 || o.shorter > o.steps ||
      o.compared < 1)
    usage();
  return o;
}

static void make_room(Bench *b) {
  size_t robots = (size_t)b->option.robots;
  b->gradient = numbers(b, b->params);
  b->direction = numbers(b, b->params);
  b->moved = numbers(b, b->params);
  b->end = numbers(b, robots * (size_t)b->nx);
  b->seed = numbers(b, robots * (size_t)b->nv);
  b->tangent = numbers(b, robots * (size_t)pbModel_TangentSize(b->model));
  b->ids = calloc(robots, sizeof *b->ids);
  b->certificate = calloc(robots, sizeof *b->certificate);
  if (!b->ids || !b->certificate) need(b, pb_no_memory);
  for (int w = 0; w < b->option.robots; w++) b->ids[w] = w;
}

static void destroy(Bench *b) {
  pbBatch_Destroy(b->batch);
  pbPool_Destroy(b->pool);
  pbModel_Destroy(b->model);
  pbNetwork_Destroy(b->network);
  double *all[] = {b->theta, b->x0, b->gradient, b->direction, b->moved, b->end, b->seed, b->tangent};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  free(b->ids);
  free(b->certificate);
  pbContext_Destroy(b->ctx);
}

int main(int argc, char **argv) {
  Bench b = {.option = read_options(argc, argv)};
  load(&b);
  make_room(&b);
  place(&b);
  make_batch(&b);
  measure(&b);

  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  say("peak_mib", (double)used.ru_maxrss / 1024);
  check(&b);
  destroy(&b);
  return 0;
}
