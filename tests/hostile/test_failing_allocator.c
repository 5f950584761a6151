// Every allocation of a whole run fails in turn: the status says so, nothing leaks, and the context goes on working.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "conformance/policies.h"
#include "support/meter.h"
#include "world/policy_step.h"

// Allocations of the library that go past the context's hooks: the linker sends them here (tests/CMakeLists.txt).
static long strays, strays_watched;
#ifdef PB_WRAP_MALLOC
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size) { return strays += strays_watched, __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return strays += strays_watched, __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return strays += strays_watched, __real_realloc(memory, size); }
#endif

static const char *const model_files[] = {"hostile/model.xml", "oracle/models/include_main.xml", "hostile/impact.xml",
                                          "hostile/mesh.xml", "hostile/delays.xml"};

typedef struct Parts {  // what a run holds; any may be NULL
  pbModel *model;
  pbScratch *scratch;
  pbRollout *rollout;
} Parts;

enum { run_steps = 12, run_most = 4096 };
typedef struct Result {  // enough to compare two runs bit by bit
  double x[run_most], x_bar[run_most], theta_bar[run_most], next[run_most], A[run_most];
  long calls;  // allocations between the first step and the last derivative: the first time, and once more
  long again;
} Result;

static const double controls[64] = {0.3, 0.2, -0.1};

static pbStatus rollout(Parts *parts, const double *x0, Result *r) {
  const double *theta = pbModel_DefaultParams(parts->model);
  pbRolloutInput input = {.ctrl = controls, .constant = true};
  pbRolloutOutput output = {.final_state = r->x};
  double ones[run_most];
  for (int i = 0; i < pbModel_Size(parts->model, "nv"); i++) ones[i] = 1 + 0.1 * i;
  pbRolloutBar bar = {.qpos = {.data = ones, .count = 1}, .qvel = {.data = ones, .count = 1}};
  pbRolloutGradient gradient = {.x0 = r->x_bar, .theta = r->theta_bar};
  PB_TRY(pbRollout_Forward(parts->rollout, theta, x0, &input, &output));
  return pbRollout_Vjp(parts->rollout, &bar, NULL, &gradient, NULL);
}

static pbStatus single_step(Parts *parts, const double *x0, Result *r) {
  const pbModel *m = parts->model;
  const double *theta = pbModel_DefaultParams(m);
  double x[run_most], record[run_most], direction_x[run_most];
  pbInput input = {.ctrl = controls};
  memcpy(x, x0, sizeof x);
  assert_true(pbTape_Size(m) <= run_most);
  PB_TRY(pbStep_Forward(m, theta, x, &input, parts->scratch, NULL));
  pbTape_Record(m, x0, parts->scratch, record);
  for (int i = 0; i < pbModel_TangentSize(m); i++) direction_x[i] = 0.5 - 0.1 * i;
  pbDirection direction = {.x = direction_x};
  PB_TRY(pbStep_Jvp(m, theta, record, &input, &direction, parts->scratch, r->next, NULL, NULL, NULL));
  return pbStep_Jacobian(m, theta, record, &input, parts->scratch, r->A, NULL, NULL, NULL);
}

// A loop that is closed: forces by the velocities.
static pbStatus close_loop(pbModel *m) {
  static TestBlend blend;
  static const int first[] = {0};
  const pbObserveDef rows[] = {{.kind = pb_observeQvel}, {.kind = pb_observeTime, .component = first, .components = 1}};
  const pbOutputDef forces = {.kind = pb_outputForce};
  TestBlend_Begin(&blend, pbModel_Size(m, "nv"), 1, -.1, .2);
  const pbPolicyDef def = {
      .observe = rows, .observe_count = 2, .decide = &blend.function, .every = 2, .output = &forces, .output_count = 1};
  return pbModel_TrustPolicy(m, &def);
}

// capacity NULL: room grows.
static pbStatus run(pbContext *ctx, const char *file, const pbCapacity *capacity, Meter *meter, Parts *parts, Result *r) {
  memset(r, 0, sizeof *r);
  PB_TRY(pbModel_Load(ctx, file, NULL, &parts->model));
  const pbModel *m = parts->model;
  if (strstr(file, "mesh")) PB_TRY(pbModel_Expose(parts->model, "mesh_vert:wedge"));
  if (strstr(file, "include")) PB_TRY(close_loop(parts->model));
  int n = pbModel_TangentSize(m);
  if (strstr(file, "impact")) {
    PB_TRY(pbModel_SetContact(parts->model, "method", "impact"));
    PB_TRY(pbModel_SetContact(parts->model, "restitution", "0.8"));
  }
  assert_true(pbModel_ParamSize(m) <= run_most && n * n <= run_most && pbModel_Size(m, "nu") <= 64);
  pbRolloutPlan plan;
  PB_TRY(pbRollout_PlanSlots(ctx, m, run_steps, 2, 3, &plan));  // less than all steps: some are computed again
  PB_TRY(pbRollout_Create(ctx, m, &plan, capacity, &parts->rollout));
  PB_TRY(pbScratch_Create(ctx, m, capacity, &parts->scratch));
  double x0[run_most] = {0};
  PB_TRY(pbState_Init(ctx, m, pbModel_DefaultParams(m), pbModel_Size(m, "nkey") > 0 ? 0 : -1, x0));
  for (int turn = 0; turn < 2; turn++) {
    long calls = meter->calls;
    memset(r, 0, offsetof(Result, calls));
    strays_watched = 1;
    pbStatus status = rollout(parts, x0, r);
    if (status == pb_ok) status = single_step(parts, x0, r);
    strays_watched = 0;
    *(turn ? &r->again : &r->calls) = meter->calls - calls;
    if (status != pb_ok) return status;
  }
  return pb_ok;
}

static void drop(Parts *parts) {
  pbRollout_Destroy(parts->rollout);
  pbScratch_Destroy(parts->scratch);
  pbModel_Destroy(parts->model);
  *parts = (Parts){0};
}

static Result first, again;

// With a capacity no step and no derivative allocates; without one, none does a second time. The bits are the same.
static void test_nothing_leaks_and_no_step_allocates(void **state) {
  (void)state;
  for (size_t f = 0; f < 2 * sizeof model_files / sizeof *model_files; f++) {
    const char *file = model_files[f / 2];
    bool grows = f % 2;
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Parts parts = {0};
    strays = 0;
    pbStatus status = run(ctx, file, grows ? NULL : &(pbCapacity){.contacts = 64}, &meter, &parts, grows ? &again : &first);
    if (status != pb_ok) fail_msg("%s: %s", file, pbContext_Error(ctx));
    if (grows) assert_memory_equal(again.x, first.x, offsetof(Result, calls));
    else assert_int_equal(first.calls, 0);
    assert_int_equal(grows ? again.again : first.again, 0);
#ifdef PB_WRAP_MALLOC
    assert_int_equal(strays, grows ? again.calls : 0);  // those of the hooks themselves
#endif
    drop(&parts);
    assert_int_equal(meter.live, 1);  // the context itself
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
  }
}

// One run with one failure (or all from one on), then the same context with memory again.
static bool fail_once(const char *file, long at, bool ever_after) {
  Meter meter = {.fail_at = at, .fail_ever_after = ever_after};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  Parts parts = {0};
  if (!ctx) {
    assert_int_equal(meter.live, 0);
    return true;
  }
  pbStatus status = run(ctx, file, NULL, &meter, &parts, &again);
  bool reached = meter.failed > 0;
  if (reached && status != pb_ok && status != pb_no_memory)
    fail_msg("%s: allocation %ld: %s: %s", file, at, pbStatus_Text(status), pbContext_Error(ctx));
  drop(&parts);
  if (meter.live > 1) fail_msg("%s: allocation %ld fails: %ld blocks leak", file, at, meter.live - 1);
  meter.fail_at = 0;
  if (run(ctx, file, NULL, &meter, &parts, &again) != pb_ok) fail_msg("%s: after a failure: %s", file, pbContext_Error(ctx));
  if (memcmp(&again, &first, sizeof first)) fail_msg("%s: after a failure of allocation %ld the result is another", file, at);
  drop(&parts);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  return reached;
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof model_files / sizeof *model_files; f++) {
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Parts parts = {0};
    assert_int_equal(run(ctx, model_files[f], NULL, &meter, &parts, &first), pb_ok);
    drop(&parts);
    pbContext_Destroy(ctx);
    long at = 1;
    while (fail_once(model_files[f], at, false) && fail_once(model_files[f], at, true)) at++;
    printf("%s: %ld allocations, each failed in turn\n", model_files[f], at - 1);
    assert_int_equal(at - 1, meter.calls);
  }
}

// ---- the check of derivatives ------------------------------------------------------------------------------------------
static pbStatus check_model(pbContext *ctx, pbModel *m, pbCheckReport **report) {
  const double *theta = pbModel_DefaultParams(m);
  static double x0[run_most];
  PB_TRY(pbState_Init(ctx, m, theta, -1, x0));
  const pbCheckOptions options = {.steps = 2, .random_velocity = true, .random_controls = true};
  return pbCheck_Run(ctx, m, theta, x0, NULL, &options, report);
}

static void test_every_allocation_of_a_check_fails_in_turn(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbModel *m = NULL;
  assert_int_equal(pbModel_Load(ctx, "hostile/impact.xml", NULL, &m), pb_ok);
  long live = meter.live, at = 0;

  for (bool reached = true; reached; at++) {
    pbCheckReport *report = (pbCheckReport *)&meter;  // written in any case
    meter.failed = meter.calls = 0;
    meter.fail_at = at + 1;
    pbStatus status = check_model(ctx, m, &report);
    reached = meter.failed > 0;
    if (status != pb_ok && status != pb_no_memory) fail_msg("allocation %ld: %s", at, pbContext_Error(ctx));
    if ((status == pb_ok) != (report != NULL)) fail_msg("allocation %ld: a report without a check", at);
    pbCheckReport_Free(ctx, report);
    if (meter.live != live) fail_msg("allocation %ld fails: %ld blocks leak", at, meter.live - live);
  }

  printf("%ld allocations of a check, each failed in turn\n", at - 1);
  assert_true(at > 10);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
}

// ---- deformables ----------------------------------------------------------------------------------------------------
// A soft block on a plane, beside one that it meets; %s: scheme, and the kind of friction.
static const char blocks[] =
    "{'options': {'timestep': 0.01}, 'deformables': {'scheme': '%s', 'bodies': ["
    "{'name': 'a', 'mesh': {'box': {'size': [0.1, 0.1, 0.1], 'cells': [1, 1, 1]}}, 'pos': [0, 0, 0.0011],"
    " 'energies': [{'energy': 'neo_hookean', 'parameters': {'young': 1e4, 'poisson': 0.3, 'density': 500}}]},"
    "{'name': 'b', 'mesh': {'box': {'size': [0.1, 0.1, 0.1], 'cells': [1, 1, 1]}}, 'pos': [0.03, 0.02, 0.1025], 'velocity': "
    "[0.3, 0.1, 0],"
    " 'energies': [{'energy': 'neo_hookean', 'parameters': {'young': 1e4, 'poisson': 0.3, 'density': 500}}]}],"
    "'contact': {'distance': 0.002, 'stiffness': 1e3, %s 'planes': [{'name': 'floor', 'normal': [0, 0, 1]}]}},"
    "'steps': 4, 'variables': [{'parameter': 'gravity'}], 'loss': [{'points': [0], 'components': [0], 'target': 0}]}";
// The same of blocks that are held, for equilibria and explicit steps.
static const char held[] =
    "{'options': {'timestep': 0.001}, 'deformables': {'scheme': '%s', 'bodies': ["
    "{'name': 'a', 'mesh': {'box': {'size': [0.1, 0.1, 0.1], 'cells': [1, 1, 1]}}, 'pins': [{'points': [0, 1, 2, 3]}],"
    " 'energies': [{'energy': 'neo_hookean', 'parameters': {'young': 1e4, 'poisson': 0.3, 'density': 500}}]},"
    "{'name': 'b', 'mesh': {'box': {'size': [0.1, 0.1, 0.1], 'cells': [1, 1, 1]}}, 'pos': [0.03, 0.02, 0.1015],"
    " 'pins': [{'points': [4, 5, 6, 7]}],"
    " 'energies': [{'energy': 'neo_hookean', 'parameters': {'young': 1e4, 'poisson': 0.3, 'density': 500}}]}],"
    "'contact': {'distance': 0.002, 'stiffness': 1e3, %s 'planes': [{'name': 'floor', 'point': [0, 0, -0.051], 'normal': [0, 0, "
    "1]}]}},"
    "'steps': 4, 'variables': [{'parameter': 'gravity'}], 'loss': [{'points': [0], 'components': [0], 'target': 0}]}";
// A soft pad on a hand that comes down on a peg; both move, and friction turns the peg.
static const char pressed[] =
    "{'model': 'hostile/hand.xml', 'deformables': {'scheme': '%s', 'bodies': ["
    "{'name': 'pad', 'mesh': {'box': {'size': [0.04, 0.04, 0.02], 'cells': [1, 1, 1]}}, 'pos': [0.006, 0.003, 0.0405],"
    " 'sets': {'top': {'box': [[null, null, 0.009], [null, null, null]]}},"
    " 'attach': [{'body': 'hand', 'points': 'top'}],"
    " 'energies': [{'energy': 'neo_hookean', 'parameters': {'young': 2e4, 'poisson': 0.3, 'density': 500}}]}],"
    "'contact': {'distance': 0.002, 'stiffness': 300, %s 'geoms': ['peg']}},"
    "'steps': 4, 'variables': [{'parameter': 'gravity'}], 'loss': [{'points': [0], 'components': [0], 'target': 0}]}";
static const struct {
  const char *file, *scheme, *friction;  // an example, or of a scene:
  const char *scene;                     // NULL: the blocks
} soft[] = {
    {"../examples/beam/identify.json", NULL, NULL, NULL},
    {"../examples/cloth/drape.json", NULL, NULL, NULL},
    {"../examples/slide/friction.json", NULL, NULL, NULL},
    {"../examples/gripper/lift.json", NULL, NULL, NULL},
    {"../examples/chain/carry.json", NULL, NULL, NULL},
    {NULL, "implicit_euler", "", NULL},
    {NULL, "implicit_euler", "'friction': 0.4, 'velocity': 1e-3, 'kind': 'lagged',", NULL},
    {NULL, "implicit_euler", "'friction': 0.4, 'velocity': 1e-3, 'kind': 'implicit',", NULL},
    {NULL, "bdf2", "'friction': 0.4, 'velocity': 1e-3, 'kind': 'lagged',", NULL},
    {NULL, "trapezoid", "", NULL},
    {NULL, "avf4", "", NULL},
    {NULL, "symplectic_euler", "", held},
    {NULL, "static", "", held},
    {NULL, "static", "'friction': 0.4, 'velocity': 1e-3, 'kind': 'lagged',", held},
    {NULL, "implicit_euler", "", pressed},
    {NULL, "implicit_euler", "'friction': 0.4, 'velocity': 1e-3, 'kind': 'lagged',", pressed},
};
enum { soft_count = sizeof soft / sizeof *soft, soft_steps = 8, soft_dense = 100 };

static pbStatus load_soft(pbContext *ctx, int number, pbTask **task) {
  char text[4096];
  if (!soft[number].file) {
    const char *scene = soft[number].scene ? soft[number].scene : blocks;
    snprintf(text, sizeof text, scene, soft[number].scheme, soft[number].friction);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
  }
  if (soft[number].file) return pbTask_Load(ctx, soft[number].file, "..", task);
  return pbTask_Parse(ctx, text, strlen(text), ".", "scene", task);
}

typedef struct Soft {
  Meter meter;
  pbContext *ctx;
  pbTask *task;
  const pbModel *m;
  pbScratch *s;
  double *x, *before, *record, *bar, *x_bar, *theta_bar, *next, *dense;
  long inside, grown;  // allocations within steps and derivatives; times that room was made
  uint64_t sum;        // of the bits of all results
} Soft;

static void open_soft(Soft *w, int number, const pbCapacity *capacity) {
  *w = (Soft){0};
  pbAllocator hooks = meter_hooks(&w->meter);
  w->ctx = pbContext_Create(&hooks);
  if (load_soft(w->ctx, number, &w->task) != pb_ok) fail_msg("%d: %s", number, pbContext_Error(w->ctx));
  const pbModel *m = w->m = pbTask_Model(w->task);
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  w->x = calloc(nx, sizeof(double));
  w->before = calloc(nx, sizeof(double));
  w->record = calloc((size_t)pbTape_Size(m), sizeof(double));
  w->bar = calloc(n, sizeof(double));
  w->x_bar = calloc(n, sizeof(double));
  w->next = calloc(n, sizeof(double));
  w->theta_bar = calloc(pbModel_ParamSize(m), sizeof(double));
  w->dense = n <= soft_dense ? calloc(n * n, sizeof(double)) : NULL;
  for (size_t i = 0; i < n; i++) w->bar[i] = 1 - 0.05 * (double)(i % 11);
  if (pbState_Init(w->ctx, m, pbModel_DefaultParams(m), -1, w->x) != pb_ok) fail_msg("%s", pbContext_Error(w->ctx));
  if (pbScratch_Create(w->ctx, m, capacity, &w->s) != pb_ok) fail_msg("%s", pbContext_Error(w->ctx));
}

static void close_soft(Soft *w) {
  double *all[] = {w->x, w->before, w->record, w->bar, w->x_bar, w->next, w->theta_bar, w->dense};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  pbScratch_Destroy(w->s);
  pbTask_Destroy(w->task);
  pbContext_Destroy(w->ctx);
  assert_int_equal(w->meter.live, 0);
}

static void add_bits(Soft *w, const double *x, size_t count) {
  for (size_t i = 0; x && i < count; i++) {
    uint64_t bits;
    memcpy(&bits, x + i, sizeof bits);
    w->sum = (w->sum ^ bits) * 0x100000001b3u;
  }
}

static pbStatus one_call(Soft *w, int kind) {
  const pbModel *m = w->m;
  const double *theta = pbModel_DefaultParams(m);
  switch (kind) {
    case 0: return pbStep_Forward(m, theta, w->x, NULL, w->s, NULL);
    case 1: return pbStep_Vjp(m, theta, w->record, NULL, w->bar, NULL, w->s, w->x_bar, NULL, w->theta_bar);
    case 2: return pbStep_Jvp(m, theta, w->record, NULL, &(pbDirection){.x = w->bar}, w->s, w->next, NULL, NULL, NULL);
    default: return pbStep_Jacobian(m, theta, w->record, NULL, w->s, w->dense, NULL, NULL, NULL);
  }
}

// A call, with more room as often as it takes; outputs are as they were before where it fails. fail: more room is not to be had.
static pbStatus call(Soft *w, int kind, bool fail) {
  size_t n = (size_t)pbModel_TangentSize(w->m), np = pbModel_ParamSize(w->m);
  for (;;) {
    uint64_t kept = w->sum;
    w->sum = 0;
    add_bits(w, w->x_bar, n);
    add_bits(w, w->theta_bar, np);
    add_bits(w, w->x, (size_t)pbModel_StateSize(w->m));
    uint64_t before = w->sum;
    long calls = w->meter.calls;
    strays = 0;
    strays_watched = 1;
    pbStatus status = one_call(w, kind);
    strays_watched = 0;
    w->inside += strays + w->meter.calls - calls;
    w->sum = 0;
    add_bits(w, w->x_bar, n);
    add_bits(w, w->theta_bar, np);
    add_bits(w, w->x, (size_t)pbModel_StateSize(w->m));
    if (status != pb_ok && before != w->sum) fail_msg("call %d: outputs changed: %s", kind, pbScratch_Error(w->s));
    w->sum = kept;
    if (status == pb_capacity && !strstr(pbScratch_Error(w->s), "room for") && !strstr(pbScratch_Error(w->s), "needs more"))
      fail_msg("capacity: %s", pbScratch_Error(w->s));
    if (fail) {
      w->meter.fail_at = w->meter.calls + 1;
      w->meter.fail_ever_after = true;
    }
    bool more = pbScratch_Grow(w->s, &status);
    w->meter.fail_at = 0;
    w->meter.fail_ever_after = false;
    w->grown += more;
    if (!more) return status;
  }
}

static void run_soft(Soft *w, int number, const pbCapacity *capacity) {
  open_soft(w, number, capacity);
  size_t nx = (size_t)pbModel_StateSize(w->m), n = (size_t)pbModel_TangentSize(w->m);
  for (int k = 0; k < soft_steps; k++) {
    memcpy(w->before, w->x, nx * sizeof(double));
    for (int kind = 0; kind < (w->dense && k % 4 == 3 ? 4 : 3); kind++) {
      if (call(w, kind, false) != pb_ok) fail_msg("%d, step %d, call %d: %s", number, k, kind, pbScratch_Error(w->s));
      if (kind == 0) pbTape_Record(w->m, w->before, w->s, w->record);
    }
    add_bits(w, w->x, nx);
    add_bits(w, w->next, n);
    add_bits(w, w->dense, w->dense ? n * n : 0);
  }
  add_bits(w, w->x_bar, n);
  add_bits(w, w->theta_bar, pbModel_ParamSize(w->m));
}

// Steps and derivatives with a capacity allocate nothing, room enough or not; too little is said before an output changes, and
// with more room the result has the bits that it has with room from the start.
static void test_deformables_do_not_allocate(void **state) {
  (void)state;
  for (int number = 0; number < soft_count; number++) {
    Soft roomy, tight;
    run_soft(&roomy, number, &(pbCapacity){.contacts = 64});
    run_soft(&tight, number, &(pbCapacity){.contacts = 64, .stencils = 1, .matrix = 1});
    print_message("%s %s: room made %ld and %ld times\n", soft[number].file ? soft[number].file : soft[number].scheme,
                  soft[number].file ? "" : soft[number].friction, roomy.grown, tight.grown);
    assert_int_equal(roomy.inside, 0);
    assert_int_equal(tight.inside, 0);
    assert_int_equal(roomy.grown, 0);
    if (!soft[number].file) assert_true(tight.grown > 0);
    assert_int_equal(pbScratch_Report(tight.s).grown, tight.grown);
    assert_true(roomy.sum == tight.sum);
    close_soft(&roomy);
    close_soft(&tight);
  }
}

// No memory for more room: that is the status, and the step can be taken when there is some again.
static void test_no_more_room(void **state) {
  (void)state;
  for (int number = 0; number < soft_count; number++) {
    if (soft[number].file) continue;
    Soft w;
    int refused = 0;
    open_soft(&w, number, &(pbCapacity){.stencils = 1, .matrix = 1});
    for (int k = 0; k < soft_steps; k++) {
      pbStatus status = call(&w, 0, true);
      if (status == pb_no_memory) {
        refused++;
        assert_non_null(strstr(pbScratch_Error(w.s), "no memory for more contacts"));
        status = call(&w, 0, false);
      }
      if (status != pb_ok) fail_msg("%d: %s", number, pbScratch_Error(w.s));
    }
    assert_true(refused > 0);
    close_soft(&w);
  }
}

// ---- deformables: making them, growing, and rollouts ----------------------------------------------------------------
typedef struct Whole {  // a run from the file on; any may be NULL
  pbTask *task;
  pbScratch *scratch;
  pbRollout *rollout;
} Whole;

static pbStatus step_and_pull(Soft *w) {
  const pbModel *m = w->m;
  for (int kind = 0; kind < 3; kind++) {
    pbStatus status;
    do {
      status = one_call(w, kind);
    } while (pbScratch_Grow(w->s, &status));
    if (status != pb_ok) return status;
    if (kind == 0) pbTape_Record(m, w->before, w->s, w->record);
  }
  add_bits(w, w->x, (size_t)pbModel_StateSize(m));
  add_bits(w, w->x_bar, (size_t)pbModel_TangentSize(m));
  add_bits(w, w->next, (size_t)pbModel_TangentSize(m));
  return pb_ok;
}

static pbStatus roll(Soft *w, pbRollout *rollout) {
  const pbModel *m = w->m;
  pbRolloutInput input = {.constant = true};
  pbRolloutBar bar = {.points = {.data = w->bar, .count = 1}};
  pbRolloutGradient gradient = {.x0 = w->x_bar, .theta = w->theta_bar};
  PB_TRY(pbRollout_Forward(rollout, pbModel_DefaultParams(m), w->before, &input, NULL));
  PB_TRY(pbRollout_Vjp(rollout, &bar, NULL, &gradient, NULL));
  add_bits(w, w->x_bar, (size_t)pbModel_TangentSize(m));
  add_bits(w, w->theta_bar, pbModel_ParamSize(m));
  return pb_ok;
}

// From the file to gradients, with so little room that steps and rollouts ask for more.
static pbStatus run_whole(pbContext *ctx, int number, const Meter *meter, Whole *parts, long *loaded, uint64_t *sum) {
  const pbCapacity tight = {.stencils = 1, .matrix = 1};
  enum { real = sizeof(double) };
  pbRolloutPlan plan;
  PB_TRY(load_soft(ctx, number, &parts->task));
  *loaded = meter->calls;
  const pbModel *m = pbTask_Model(parts->task);
  PB_TRY(pbScratch_Create(ctx, m, &tight, &parts->scratch));
  PB_TRY(pbRollout_PlanSlots(ctx, m, 3, 1, 2, &plan));
  PB_TRY(pbRollout_Create(ctx, m, &plan, &tight, &parts->rollout));

  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m), ntheta = pbModel_ParamSize(m);
  double *memory = calloc(2 * nx + (size_t)pbTape_Size(m) + 3 * n + ntheta, real), *next = memory;
  Soft w = {.ctx = ctx, .m = m, .s = parts->scratch};
  w.x = next;
  w.before = next += nx;
  w.record = next += nx;
  w.bar = next += pbTape_Size(m);
  w.x_bar = next += n;
  w.next = next += n;
  w.theta_bar = next + n;
  for (size_t i = 0; i < n; i++) w.bar[i] = 1 - 0.05 * (double)(i % 11);

  pbStatus status = pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, w.x);
  memcpy(w.before, w.x, nx * real);
  if (status == pb_ok) status = step_and_pull(&w);
  if (status == pb_ok) status = roll(&w, parts->rollout);
  free(memory);
  *sum = w.sum;
  return status;
}

static void drop_whole(Whole *parts) {
  pbRollout_Destroy(parts->rollout);
  pbScratch_Destroy(parts->scratch);
  pbTask_Destroy(parts->task);
  *parts = (Whole){0};
}

// Allocation `at` fails (and all from it on); false: the run has fewer.
static bool fail_whole(int number, long at, bool ever_after, uint64_t right) {
  Meter meter = {.fail_at = at, .fail_ever_after = ever_after};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  Whole parts = {0};
  uint64_t sum = 0;
  long loaded;
  if (!ctx) return true;
  pbStatus status = run_whole(ctx, number, &meter, &parts, &loaded, &sum);
  bool reached = meter.failed > 0;
  if (status == pb_ok && sum != right) fail_msg("%d: allocation %ld fails: the result is another", number, at);
  if (status != pb_ok && status != pb_no_memory)
    fail_msg("%d: allocation %ld fails: %s: %s", number, at, pbStatus_Text(status), pbContext_Error(ctx));
  if (status != pb_ok && !*pbContext_Error(ctx) && !parts.scratch) fail_msg("%d: allocation %ld fails: no reason", number, at);
  drop_whole(&parts);
  if (meter.live > 1) fail_msg("%d: allocation %ld fails: %ld blocks leak", number, at, meter.live - 1);
  pbContext_Destroy(ctx);
  return reached;
}

#ifdef PB_WRAP_MALLOC
enum { stride_in_full = 1, stride_elsewhere = 97, stride_after = 1 };
#else  // under sanitizers, which are slow, fewer
enum { stride_in_full = 41, stride_elsewhere = 1999, stride_after = 9 };
#endif

// What reads the scene is the same code for most of them: it is tried in full where bodies and points move together, and with every 97th
// allocation elsewhere. What follows, rooms, rollouts and more room, is tried in full but under sanitizers.
static void test_every_allocation_of_deformables_fails_in_turn(void **state) {
  (void)state;
  for (int number = 0; number < soft_count; number++) {
    bool in_full = number == soft_count - 1;
    if (soft[number].file) continue;
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    Whole parts = {0};
    uint64_t right;
    long loaded;
    if (run_whole(ctx, number, &meter, &parts, &loaded, &right) != pb_ok) fail_msg("%d: %s", number, pbContext_Error(ctx));
    drop_whole(&parts);
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    print_message("%s %s: %ld allocations, %ld of them to read it\n", soft[number].scheme, soft[number].friction, meter.calls,
                  loaded);

    long stride = in_full ? stride_in_full : stride_elsewhere;
    for (long at = 1; at <= meter.calls; at += at > loaded - stride ? stride_after : stride) {
      assert_true(fail_whole(number, at, false, right));
      if (in_full && at > loaded) assert_true(fail_whole(number, at, true, right));
    }
    assert_false(fail_whole(number, meter.calls + 1, false, right));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_leaks_and_no_step_allocates),
      cmocka_unit_test(test_every_allocation_fails_in_turn),
      cmocka_unit_test(test_every_allocation_of_a_check_fails_in_turn),
      cmocka_unit_test(test_deformables_do_not_allocate),
      cmocka_unit_test(test_no_more_room),
      cmocka_unit_test(test_every_allocation_of_deformables_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
