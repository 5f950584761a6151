// Audits: allocations fail in turn, nothing leaks, and what an audit reports does not depend on what memory held before.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"

static const char text[] =
    "{\"model\": \"<mujoco><option timestep='0.01'/><worldbody><geom type='plane' size='5 5 .1'/><body pos='0 0 .12'><freejoint/>"
    "<geom type='box' size='.1 .1 .1'/><body pos='.1 0 .1'><joint name='j' axis='0 1 0'/><geom type='capsule' size='.02' "
    "fromto='0 0 0 "
    ".3 0 .1'/></body></body></worldbody><actuator><motor name='m' joint='j' forcerange='-1 1' forcelimited='true'/></actuator>"
    "</mujoco>\", \"steps\": 12, \"variables\": [{\"control\": true, \"knots\": 3, \"start\": 0.2}],"
    "\"loss\": [{\"name\": \"swing\", \"qpos\": \"j\", \"at\": \"all\"}],"
    "\"audit\": {\"objective\": \"swing\", \"unit\": \"rad2\", \"penetration\": 0.1, \"tolerance\": 10, \"ledger\": 10,"
    "\"spread\": {\"qvel\": 0.1, \"joints\": {\"j\": {\"qpos\": 0.1}}}, \"perturb\": {\"body_mass\": 0.2}}}";

static pbStatus run(pbContext *ctx, pbTask **task, pbAuditReport *report, char **json) {
  PB_TRY(pbTask_Parse(ctx, text, strlen(text), NULL, "swing", task));
  pbAuditOptions options = pbTask_AuditOptions(*task);
  PB_TRY(pbTask_Audit(*task, pbTask_Start(*task), &options, report));
  return pbAuditReport_Json(ctx, report, json);
}

enum { first_start = 500 };

// Allocation `at` fails; 0: none. False: the run has fewer.
static bool fails(long at, pbAuditReport *report) {
  Meter meter = {.fail_at = at};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks);
  pbTask *task = NULL;
  char *json = NULL;
  if (!ctx) return true;

  memset(report, 0xff, sizeof *report);
  pbStatus status = run(ctx, &task, report, &json);
  bool reached = meter.failed > 0;
  if (status != (reached ? pb_no_memory : pb_ok))
    fail_msg("allocation %ld: %s: %s", at, pbStatus_Text(status), pbContext_Error(ctx));
  if (!reached) assert_non_null(strstr(json, report->verdict));

  pbContext_Free(ctx, json);
  pbTask_Destroy(task);
  if (meter.live > 1) fail_msg("allocation %ld fails: %ld blocks leak", at, meter.live - 1);
  pbContext_Destroy(ctx);
  return reached;
}

static void test_allocations_fail_in_turn(void **state) {
  static pbAuditReport right, report;
  (void)state;
  assert_false(fails(0, &right));
  assert_true(right.confirmed && right.row[pb_auditMethod].ran == 8 && right.row[pb_auditPerturbed].ran == 8);

  // The first start's, and of what is allocated again for other starts and time steps each seventh.
  for (long at = 1; fails(at, &report); at += at < first_start ? 1 : 7) continue;
  for (int i = 0; i < pb_auditRunCount; i++) {
    assert_true(report.row[i].mean == right.row[i].mean && report.row[i].gap == right.row[i].gap);
    assert_true(report.row[i].overlap.value == right.row[i].overlap.value && report.row[i].torque == right.row[i].torque);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations_fail_in_turn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
