// Each allocation of a trajectory, of pages and moving scenes and of descriptions fails in turn: the status says so, and nothing leaks.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"

enum { steps = 6 };
static const double controls[64 * steps];

typedef struct Parts {  // what a run holds; any may be NULL
  pbModel *model;
  pbArrays *set, *start, *all;
  pbMotion *motion;
  double *x0;
} Parts;

static void drop(pbContext *ctx, Parts *p) {
  pbMotion_Destroy(p->motion);
  pbArrays_Destroy(p->set);
  pbArrays_Destroy(p->start);
  pbArrays_Destroy(p->all);
  pbContext_Free(ctx, p->x0);
  pbModel_Destroy(p->model);
  *p = (Parts){0};
}

static pbStatus make_trajectory(pbContext *ctx, Parts *p) {
  const pbModel *m = p->model;
  const double *theta = pbModel_DefaultParams(m);
  pbStepNotes notes;
  pbSimulation s = {.model = m, .theta = theta, .steps = steps, .command = "test", .path = "model.xml", .trajectory = -1};
  p->x0 = pbContext_Alloc(ctx, (size_t)pbModel_StateSize(m) * sizeof(double));
  if (!p->x0) return pb_no_memory;
  s.x0 = p->x0;
  s.input.ctrl = controls;
  assert_true(pbModel_Size(m, "nu") <= 64);
  PB_TRY(pbState_Init(ctx, m, theta, -1, p->x0));
  PB_TRY(pbArrays_Create(ctx, &p->set));
  return pbSimulation_Run(ctx, &s, p->set, &notes);
}

static pbStatus run(pbContext *ctx, const char *file, Parts *p, FILE *out) {
  PB_TRY(pbModel_Load(ctx, file, &(pbLoadOptions){.surfaces = true}, &p->model));
  const double *theta = pbModel_DefaultParams(p->model);
  const pbShown shown = {.model = p->model, .theta = theta, .path = file};
  PB_TRY(make_trajectory(ctx, p));
  pbShown haunted = shown;
  haunted.ghost = p->set;
  PB_TRY(pbView_Page(ctx, &haunted, p->set, "run.npz", out));

  PB_TRY(pbArrays_Create(ctx, &p->start));
  PB_TRY(pbView_Start(ctx, p->model, theta, -1, p->start));
  PB_TRY(pbView_Page(ctx, &shown, p->start, NULL, out));

  PB_TRY(pbMotion_Create(ctx, &shown, p->set, &p->motion));
  PB_TRY(pbMotion_SaveGlb(p->motion, "/dev/null"));
  PB_TRY(pbArrays_Create(ctx, &p->all));
  PB_TRY(pbModel_Inspect(ctx, p->model, theta, p->x0, &(pbInput){0}, p->all));
  pbModel_Describe(ctx, &(pbDescription){.model = p->model, .theta = theta, .path = file}, &(pbJson){.out = out});
  return pb_ok;
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  static const char *const files[] = {"hostile/model.xml", "hostile/mesh.xml"};
  FILE *out = fopen("/dev/null", "w");
  assert_non_null(out);

  for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
    bool reached = true;
    long at = 0;
    while (reached) {
      Meter meter = {.fail_at = at};
      pbAllocator hooks = meter_hooks(&meter);
      pbContext *ctx = pbContext_Create(&hooks);
      Parts parts = {0};
      pbStatus status = ctx ? run(ctx, files[f], &parts, out) : pb_no_memory;
      if (at == 0 && status != pb_ok) fail_msg("%s: %s", files[f], pbContext_Error(ctx));
      if (status != pb_ok && status != pb_no_memory) fail_msg("%s: allocation %ld: %s", files[f], at, pbContext_Error(ctx));
      if (ctx) drop(ctx, &parts);
      pbContext_Destroy(ctx);
      if (meter.live) fail_msg("%s: allocation %ld fails: %ld blocks leak", files[f], at, meter.live);
      reached = at == 0 || meter.failed > 0;
      at += 1 + at / 50;
    }
    printf("%s: %ld allocations\n", files[f], at);
  }
  fclose(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation_fails_in_turn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
