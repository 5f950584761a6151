// No call reads what an earlier one left in the scratch: with every number of the working memory turned into NaN before each
// call, and after other states went through it, results keep their bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/contact.h"
#include "eval/row.h"
#include "world/cached.h"
#include "step/scratch.h"

#include <pullback/pullback.h>

enum { steps = 10, most = 8192 };

typedef struct Result {
  double states[steps + 1][256], sensors[steps][256], x_bar[256], theta_bar[most], next[256], A[most], B[most];
} Result;

static Result plain, poisoned;

static void poison(pbScratch *scratch) {
  pbWork_r sizes;
  pbWork_r *w = &scratch->w;
  memset(w->memory, 0xff, pbWork_Carve_r(&sizes, scratch->model, NULL));
  memset(w->contact, 0xff, (size_t)w->max_con * sizeof *w->contact);
  memset(w->row, 0xff, (size_t)w->max_row * sizeof *w->row);
  memset(w->row_J, 0xff, (size_t)w->max_J * sizeof *w->row_J);
  memset(w->H_LD, 0xff, w->joined_room * sizeof *w->H_LD);
}

// keep: pullbacks from evaluations that were kept, not from evaluating again.
static void run(const pbModel *m, pbScratch *scratch, bool hostile, bool keep, Result *r) {
  memset(r, 0, sizeof *r);
  const double *theta = pbModel_DefaultParams(m);
  int n = pbModel_TangentSize(m), tape = pbTape_Size(m);
  double *records = calloc((size_t)tape * steps, sizeof *records), bar[256] = {0}, x[256] = {0};
  size_t room = (pbCached_Room(m, 30) + 63) & ~(size_t)63, size;
  char *kept = aligned_alloc(64, steps * room);
  memset(kept, 0xff, steps * room);
  const double ctrl[64] = {0.4, -0.2, 0.3};
  pbInput input = {.ctrl = ctrl};
  assert_true(n <= 256 && n * n <= most && pbModel_ParamSize(m) <= most && pbModel_StateSize(m) <= 256);
  assert_int_equal(pbState_Init(NULL, m, theta, pbModel_Size(m, "nkey") > 0 ? 0 : -1, x), pb_ok);
  memcpy(r->states[0], x, sizeof x);
  for (int k = 0; k < steps; k++) {
    if (hostile) poison(scratch);
    assert_true(pbCached_Begin(scratch, kept + (size_t)k * room, room));
    assert_int_equal(pbStep_Forward(m, theta, x, &input, scratch, r->sensors[k]), pb_ok);
    pbTape_Record(m, r->states[k], scratch, records + k * tape);
    memcpy(r->states[k + 1], x, sizeof x);
    assert_int_equal(pbCached_Save(scratch, room, &size), pb_ok);
    assert_true(size > 0);
  }
  double sensor_bar[256];
  for (int i = 0; i < 256; i++) sensor_bar[i] = 0.01 * (i + 1);
  for (int i = 0; i < n; i++) bar[i] = 1 - 0.07 * i;
  for (int k = steps - 1; k >= 0; k--) {
    memset(r->x_bar, 0, sizeof r->x_bar);
    if (hostile) poison(scratch);
    pbObservationBar observed = {.sensordata = pbModel_Size(m, "nsensordata") ? sensor_bar : NULL};
    const pbStepRecord step = {.model = m,
                               .theta = theta,
                               .record = records + k * tape,
                               .cached = keep ? kept + (size_t)k * room : NULL,
                               .input = &input};
    if (pbStep_VjpCached(&step, &(pbStepCotangent){.next = bar, .observed = &observed}, scratch,
                         &(pbStepBar){r->x_bar, NULL, r->theta_bar}) != pb_ok)
      fail_msg("step %d: %s", k, pbScratch_Error(scratch));
    memcpy(bar, r->x_bar, sizeof bar);
  }
  for (int i = 0; i < n; i++) bar[i] = 0.3 + 0.05 * i;
  pbDirection direction = {.x = bar};
  if (hostile) poison(scratch);
  assert_int_equal(pbStep_Jvp(m, theta, records, &input, &direction, scratch, r->next, NULL, NULL, NULL), pb_ok);
  if (hostile) poison(scratch);
  assert_int_equal(pbStep_Jacobian(m, theta, records, &input, scratch, r->A, r->B, NULL, NULL), pb_ok);
  free(records);
  free(kept);
}

static void check_same(const double *a, const double *b, size_t count, const char *what) {
  for (size_t i = 0; i < count; i++)
    if (memcmp(a + i, b + i, sizeof *a)) fail_msg("%s[%zu]: %.17g, poisoned %.17g", what, i, a[i], b[i]);
}

static void test_poison_changes_nothing(void **state) {
  (void)state;
  static const char *const files[] = {"hostile/model.xml",
                                      "oracle/models/contact_box.xml",
                                      "oracle/models/equality.xml",
                                      "oracle/models/tendon_spatial.xml",
                                      "oracle/models/sensors_frame.xml",
                                      "oracle/models/contact_mesh.xml",
                                      "hostile/mesh.xml"};
  pbContext *ctx = pbContext_Create(NULL);
  for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
    pbModel *m;
    pbScratch *fresh, *used;
    if (pbModel_Load(ctx, files[f], NULL, &m) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
    assert_int_equal(pbScratch_Create(ctx, m, NULL, &fresh), pb_ok);
    assert_int_equal(pbScratch_Create(ctx, m, NULL, &used), pb_ok);
    print_message("%s\n", files[f]);
    run(m, fresh, false, false, &plain);
    run(m, used, true, false, &poisoned);
    check_same(plain.states[0], poisoned.states[0], sizeof plain.states / sizeof(double), "state");
    check_same(plain.sensors[0], poisoned.sensors[0], sizeof plain.sensors / sizeof(double), "sensordata");
    check_same(plain.x_bar, poisoned.x_bar, 256, "x_bar");
    check_same(plain.theta_bar, poisoned.theta_bar, most, "theta_bar");
    check_same(plain.next, poisoned.next, 256, "next");
    check_same(plain.A, poisoned.A, most, "A");
    check_same(plain.B, poisoned.B, most, "B");
    for (int keep = 0; keep < 2; keep++) {  // once more through used memory, that of the derivatives included
      run(m, used, keep, keep, &poisoned);
      check_same(&plain.states[0][0], &poisoned.states[0][0], sizeof plain / sizeof(double), keep ? "kept" : "second run");
    }
    pbScratch_Destroy(fresh);
    pbScratch_Destroy(used);
    pbModel_Destroy(m);
  }
  pbContext_Destroy(ctx);
}

// NaN and infinity in what is handed in: a status, and the state untouched.
static void test_bad_numbers_are_refused(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m;
  pbScratch *scratch;
  if (pbModel_Load(ctx, "hostile/model.xml", NULL, &m) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &scratch), pb_ok);
  const double *theta = pbModel_DefaultParams(m);
  double x[256], kept[256];
  for (int i = 0; i < pbModel_StateSize(m); i++) {
    for (int bad = 0; bad < 3; bad++) {
      assert_int_equal(pbState_Init(ctx, m, theta, 0, x), pb_ok);
      x[i] = bad == 0 ? NAN : bad == 1 ? INFINITY : -1e300;
      memcpy(kept, x, sizeof x);
      pbStatus status = pbStep_Forward(m, theta, x, &(pbInput){0}, scratch, NULL);
      if (status == pb_ok) {
        for (int k = 0; k < pbModel_StateSize(m); k++) assert_true(isfinite(x[k]));
      } else {
        assert_memory_equal(kept, x, sizeof x);
        assert_true(pbScratch_Error(scratch)[0] != 0);
      }
    }
  }
  pbScratch_Destroy(scratch);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_poison_changes_nothing),
      cmocka_unit_test(test_bad_numbers_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
