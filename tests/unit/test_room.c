// Room that grows: what a world takes follows what touches, by bytes of the allocator; a run in which room grows has the bits of
// one that had it from the start, derivatives included, with every contact method.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"
#include "support/one_context.h"
#include "support/support.h"

// ---- growth in the midst of a run -----------------------------------------------------------------------------------------
// Layers of bodies that come down one after the other: contacts begin at none, and join more and more bodies.
static char *pile_of(const char *shape, int count, double apart) {
  enum { room = 1 << 16 };
  char *text = malloc(room);
  int at = snprintf(text, room,
                    "<mujoco><option timestep='.004' gravity='0 0 -15'/><worldbody><geom type='plane' size='9 9 .1'/>"
                    "<geom type='box' size='.1 .4 .4' pos='.47 0 .4'/>");
  for (int i = 0; i < count; i++)
    at += snprintf(text + at, (size_t)(room - at),
                   "<body pos='%g %g %g'><freejoint/><geom type='%s' size='.1 .08 .06' condim='3'/></body>",
                   .22 * (i % 4) - .4 + .003 * i, .22 * (i / 4 % 3) - .2, .12 + apart * (i / 12) + .01 * (i % 12), shape);
  snprintf(text + at, (size_t)(room - at), "</worldbody></mujoco>");
  return text;
}

typedef struct Setting {
  const char *method, *integrator, *cone, *noslip;
} Setting;

enum { most_x = 800, most_theta = 20000, most_jacobian = 300 * 300 };
typedef struct Result {
  double x[most_x], x_bar[most_x], theta_bar[most_theta], tangent[most_x], A[most_jacobian];
  int contacts;  // at most
} Result;

static pbModel *pile_model(const char *text, const Setting *set) {
  pbModel *m = model_of_text(ctx, text);
  good(ctx, pbModel_SetOption(m, "integrator", set->integrator));
  good(ctx, pbModel_SetOption(m, "cone", set->cone));
  if (set->noslip) good(ctx, pbModel_SetOption(m, "noslip_iterations", set->noslip));
  good(ctx, pbModel_SetContact(m, "method", set->method));
  if (!strcmp(set->method, "impact")) good(ctx, pbModel_SetContact(m, "restitution", "0.7"));
  return m;
}

// A rollout and its derivatives both ways; a Jacobian at its end.
static void run(const pbModel *m, int steps, const pbCapacity *capacity, Result *r) {
  const double *theta = pbModel_DefaultParams(m);
  int n = pbModel_TangentSize(m);
  double x0[most_x], ones[most_x];
  memset(r, 0, sizeof *r);
  assert_true(pbModel_StateSize(m) <= most_x && pbModel_ParamSize(m) <= most_theta && n * n <= most_jacobian);
  good(ctx, pbState_Init(ctx, m, theta, -1, x0));
  for (int i = 0; i < n; i++) ones[i] = 1 - .01 * i;

  pbRolloutPlan plan;
  pbRollout *rollout;
  good(ctx, pbRollout_PlanSlots(ctx, m, steps, 3, 7, &plan));
  good(ctx, pbRollout_Create(ctx, m, &plan, capacity, &rollout));
  pbRolloutOutput output = {.final_state = r->x};
  good(ctx, pbRollout_Forward(rollout, theta, x0, NULL, &output));
  pbRolloutBar bar = {.x = {.data = ones, .count = 1}};
  pbRolloutGradient gradient = {.x0 = r->x_bar, .theta = r->theta_bar};
  pbCertificate certificate;
  good(ctx, pbRollout_Vjp(rollout, &bar, NULL, &gradient, &certificate));
  r->contacts = certificate.most_contacts;
  double *states = malloc((size_t)(steps + 1) * (size_t)n * sizeof *states);
  good(ctx, pbRollout_Jvp(rollout, 1, &(pbRolloutDirection){.x0 = ones}, &(pbRolloutTangent){.x = states}));
  memcpy(r->tangent, states + (size_t)steps * (size_t)n, (size_t)n * sizeof *states);
  free(states);
  pbRollout_Destroy(rollout);

  pbScratch *scratch;
  double x[most_x], *record = malloc((size_t)pbTape_Size(m) * sizeof *record);
  good(ctx, pbScratch_Create(ctx, m, capacity, &scratch));
  memcpy(x, r->x, sizeof x);
  good(ctx, pbStep_Forward(m, theta, x, NULL, scratch, NULL));
  pbTape_Record(m, r->x, scratch, record);
  good(ctx, pbStep_Jacobian(m, theta, record, NULL, scratch, r->A, NULL, NULL, NULL));
  pbScratch_Destroy(scratch);
  free(record);
}

static void test_growth_changes_no_bit(void **state) {
  (void)state;
  static const struct {
    Setting set;
    const char *shape;
    int count, steps, least;  // contacts that it must come to
    double apart;
  } scenes[] = {{{"soft", "Euler", "pyramidal", NULL}, "box", 24, 35, 48, .13},
                {{"soft", "implicitfast", "elliptic", NULL}, "box", 24, 35, 48, .13},
                {{"soft", "RK4", "pyramidal", NULL}, "box", 24, 35, 48, .13},
                {{"soft", "Euler", "elliptic", "3"}, "box", 24, 35, 48, .13},
                {{"penalty", "Euler", "elliptic", NULL}, "box", 24, 25, 36, .13},
                {{"cones", "Euler", "elliptic", NULL}, "box", 24, 25, 36, .13},
                {{"lcp", "Euler", "elliptic", NULL}, "box", 24, 25, 36, .13},
                {{"sweeps", "Euler", "elliptic", NULL}, "box", 24, 25, 36, .13},
                {{"impact", "Euler", "elliptic", NULL}, "sphere", 6, 40, 1, .3}};
  static Result grown, roomy;

  for (size_t k = 0; k < sizeof scenes / sizeof *scenes; k++) {
    char *text = pile_of(scenes[k].shape, scenes[k].count, scenes[k].apart);
    pbModel *m = pile_model(text, &scenes[k].set);
    run(m, scenes[k].steps, NULL, &grown);
    run(m, scenes[k].steps, &(pbCapacity){.contacts = 256}, &roomy);
    print_message("%s, %s: %d contacts\n", scenes[k].set.method, scenes[k].set.integrator, grown.contacts);
    if (grown.contacts < scenes[k].least) fail_msg("scene %zu comes to %d contacts", k, grown.contacts);
    assert_memory_equal(&grown, &roomy, sizeof grown);
    pbModel_Destroy(m);
    free(text);
  }
}

// ---- bytes ----------------------------------------------------------------------------------------------------------------
static char *balls_apart(int count) {
  size_t room = (size_t)count * 120 + 200;
  char *text = malloc(room);
  size_t at = (size_t)snprintf(text, room, "<mujoco><worldbody><geom type='plane' size='99 99 .1'/>");
  for (int i = 0; i < count; i++)
    at += (size_t)snprintf(text + at, room - at, "<body pos='%d %d 1'><freejoint/><geom size='.1'/></body>", i % 40, i / 40);
  snprintf(text + at, room - at, "</worldbody></mujoco>");
  return text;
}

// Model and scratch together, at most, through a step; with a gradient of it.
static void measure(int count, bool derives, size_t *most) {
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *own = pbContext_Create(&hooks);
  char *text = balls_apart(count);
  pbModel *m = model_of_text(own, text);
  const double *theta = pbModel_DefaultParams(m);
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m);
  double *x = calloc(nx + nx + n + n + (size_t)pbTape_Size(m), sizeof *x), *before = x + nx, *bar = before + nx;
  double *x_bar = bar + n, *record = x_bar + n;
  pbScratch *s;

  good(own, pbState_Init(own, m, theta, -1, x));
  memcpy(before, x, nx * sizeof *x);
  good(own, pbScratch_Create(own, m, NULL, &s));
  good(own, pbStep_Forward(m, theta, x, NULL, s, NULL));
  pbTape_Record(m, before, s, record);
  bar[0] = 1;
  if (derives) good(own, pbStep_Vjp(m, theta, record, NULL, bar, NULL, s, x_bar, NULL, NULL));
  *most = meter.most;

  free(x);
  free(text);
  pbScratch_Destroy(s);
  pbModel_Destroy(m);
  pbContext_Destroy(own);
  assert_int_equal(meter.live, 0);
}

// Pairs are listed, 20 bytes each, and nothing else grows with the square.
static void test_bytes_follow_what_touches(void **state) {
  (void)state;
  size_t half, whole, derived;
  measure(600, false, &half);
  measure(1200, false, &whole);
  measure(1200, true, &derived);
  print_message("600 balls apart %.1f MB, 1200 %.1f MB, with a gradient %.1f MB\n", (double)half / 1e6, (double)whole / 1e6,
                (double)derived / 1e6);
  assert_true(whole <= 60 << 20);
  assert_true(derived <= 80 << 20);
  size_t pairs = 1200 * 1201 / 2 - 600 * 601 / 2;
  assert_true(whole - half <= 24 * pairs + half);
}

// ---- copies of an evaluation ------------------------------------------------------------------------------------------------
// A body of many boxes comes down: what was gathered above the ground are copies of no contacts, whatever touches later.
static void test_gathered_copies_are_of_their_moment(void **state) {
  enum { boxes = 100, steps = 60, room = 1 << 16 };
  (void)state;
  char *text = malloc(room);
  int at = snprintf(text, room, "<mujoco><worldbody><geom type='plane' size='9 9 .1'/><body pos='0 0 .12'><freejoint/>");
  for (int i = 0; i < boxes; i++)
    at += snprintf(text + at, (size_t)(room - at), "<geom type='box' pos='%g %g 0' size='.1 .1 .1'/>", .25 * (i % 10),
                   .25 * (i / 10));
  snprintf(text + at, (size_t)(room - at), "</body></worldbody></mujoco>");
  pbModel *m = model_of_text(ctx, text);
  pbScratch *s;
  good(ctx, pbScratch_Create(ctx, m, NULL, &s));

  const double *theta = pbModel_DefaultParams(m), *data;
  double x[most_x], tangent[3 * 2];
  int rows, columns;
  assert_false(pbScratch_Tangent(s, "xpos", tangent));  // nothing has been pushed

  good(ctx, pbState_Init(ctx, m, theta, -1, x));
  for (int k = 0; k < steps; k++) {
    good(ctx, pbStep_Forward(m, theta, x, NULL, s, NULL));
    if (k == 0) assert_int_equal(pbScratch_Gather(s), pb_ok);
  }
  assert_int_equal(pbScratch_Report(s).contacts, 4 * boxes);
  assert_true(pbScratch_Field(s, "contact_frame", &data, &rows, &columns));
  assert_int_equal(rows, 0);
  assert_int_equal(pbScratch_Gather(s), pb_ok);
  assert_true(pbScratch_Field(s, "contact_frame", &data, &rows, &columns));
  assert_int_equal(rows, 4 * boxes);

  pbScratch_Destroy(s);
  pbModel_Destroy(m);
  free(text);
}

// A block over a flat field by less than a contact's reach: no contact in the evaluation, more than there is room for in the
// search for ties.
static void test_ties_without_memory_are_no_answer(void **state) {
  (void)state;
  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *own = pbContext_Create(&hooks);
  pbModel *m = model_of_text(own,
                             "<mujoco><asset><hfield name='flat' nrow='60' ncol='60' size='1 1 .1 .1'/></asset><worldbody>"
                             "<geom type='hfield' hfield='flat'/><body pos='0 0 .5000000005'><freejoint/>"
                             "<geom type='box' size='1.2 1.2 .5'/></body></worldbody></mujoco>");
  pbScratch *s;
  good(own, pbScratch_Create(own, m, NULL, &s));
  const double *theta = pbModel_DefaultParams(m);
  double x[most_x];
  char text[480];
  good(own, pbState_Init(own, m, theta, -1, x));
  good(own, pbStep_Observe(m, theta, x, NULL, s, NULL));
  assert_int_equal(pbScratch_Report(s).contacts, 0);

  // at any of the calls for memory
  for (long call = 1, before = meter.failed;; call++, before = meter.failed) {
    meter.fail_at = meter.calls + call;
    const char *said = pbScratch_Tie(s, text, sizeof text);
    meter.fail_at = 0;
    if (meter.failed == before) {
      assert_true(said && call > 1);
      break;
    }
    assert_null(said);
  }
  pbScratch_Destroy(s);
  pbModel_Destroy(m);
  pbContext_Destroy(own);
  assert_int_equal(meter.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_growth_changes_no_bit), cmocka_unit_test(test_bytes_follow_what_touches),
      cmocka_unit_test(test_gathered_copies_are_of_their_moment), cmocka_unit_test(test_ties_without_memory_are_no_answer)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
