// Pages of results: what is filled in where, that names are text whatever is in them, and that the numbers are those of the JSON.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pullback/pullback.h>

#include "io/view/page.h"

static const char wicked[] = "a</script><img src=x onerror=alert(1)>&\"'.json";

// ---- marks ------------------------------------------------------------------------------------------------------------
static pbStatus put_number(const void *user, FILE *out) {
  fprintf(out, "%d", *(const int *)user);
  return pb_ok;
}

static pbStatus refuse(const void *user, FILE *out) {
  (void)user;
  (void)out;
  return pb_no_memory;
}

static char *filled(const char *page, const pbPagePart *part, size_t parts, pbPageData *data, const void *user,
                    pbStatus *status) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  *status = pbPage_Fill(page, part, parts, data, user, out);
  fclose(out);
  return text;
}

static void test_marks(void **state) {
  (void)state;
  const int number = 7;
  const pbPagePart part[] = {{.mark = "title", .text = "<b>&\"", .put = pbPage_PutText}, {.mark = "style", .text = "{{data}}"}};
  pbStatus status;

  // a part is not filled in again, and braces that are no mark stay
  char *text = filled("{{title}}|{{style}}|{{ {x: {{y}}} }}|{{data}}{{", part, 2, put_number, &number, &status);
  assert_int_equal(status, pb_ok);
  assert_string_equal(text, "&lt;b&gt;&amp;&quot;|{{data}}|{{ {x: {{y}}} }}|7{{");
  free(text);

  text = filled("{{data}}", part, 2, refuse, NULL, &status);
  assert_int_equal(status, pb_no_memory);
  free(text);
  assert_string_equal(pbPage_Name("folder/a.json"), "a.json");
}

// ---- pages ------------------------------------------------------------------------------------------------------------
static int count(const char *text, const char *part) {
  int found = 0;
  for (; (text = strstr(text, part)) != NULL; text++) found++;
  return found;
}

// What every page is: whole, and nothing of a name is an element of it.
static void check_whole(const char *page, const char *kind) {
  char mark[40];
  snprintf(mark, sizeof mark, "\"kind\": \"%s\"", kind);
  assert_non_null(strstr(page, mark));
  assert_int_equal(strncmp(page, "<!DOCTYPE html>", 15), 0);
  assert_null(strstr(page, "{{"));
  assert_null(strstr(page, "<img"));

  // its three scripts alone are closed: the data, the curves, what draws the page
  assert_int_equal(count(page, "</script>"), 3);
  assert_non_null(strstr(page, "<title>a&lt;") ? page : strstr(page, "<title>script&gt;"));
  assert_non_null(strstr(page, "default-src 'none'"));
}

// And without the library that draws in space.
static void check_page(const char *page, const char *kind) {
  check_whole(page, kind);
  assert_null(strstr(page, "http://www.w3.org/1999"));
}

typedef pbStatus Put(pbContext *ctx, const void *what, const pbPageHead *head, FILE *out);

static char *page_of(pbContext *ctx, Put *put, const void *what, const pbPageHead *head) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  pbStatus status = put(ctx, what, head, out);
  fclose(out);
  if (status != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return text;
}

static pbStatus put_check(pbContext *ctx, const void *what, const pbPageHead *head, FILE *out) {
  return pbCheckReport_Page(ctx, what, head, out);
}

static void test_check_page(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbCheckReport *report = calloc(1, sizeof *report);
  report->holds = false;
  report->steps = 20;
  report->test_count = report->finding_count = 1;
  report->test[0] = (pbCheckTest){.name = "differences, step by state", .tried = 12, .worst = .125, .limit = 1e-6, .step = 3};
  strcpy(report->test[0].words, "geom '</script><img src=x>' is at a kink");
  strcpy(report->finding[0].where, "joint '<!-- '");

  char *page = page_of(ctx, put_check, report, &(pbPageHead){.path = wicked, .command = "pullback check '<img>'"});
  check_page(page, "check");
  assert_non_null(strstr(page, "\"worst\": 0.125"));
  assert_non_null(strstr(page, "pullback check '\\u003cimg\\u003e'"));
  assert_null(strstr(page, "<!-- '"));
  free(page);
  free(report);
  pbContext_Destroy(ctx);
}

static pbStatus put_audit(pbContext *ctx, const void *what, const pbPageHead *head, FILE *out) {
  return pbAuditReport_Page(ctx, what, head, out);
}

static void test_audit_page(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbAuditReport *report = calloc(1, sizeof *report);
  strcpy(report->verdict, "not confirmed: 3 of </script><img>");
  report->better = -1;
  report->row[0] = (pbAuditRow){.name = "as trained", .counts = true, .ran = 8, .mean = 2.5, .has_ledger = true, .gap = .25};

  // without a command, nothing is said of one
  char *page = page_of(ctx, put_audit, report, &(pbPageHead){.path = wicked});
  check_page(page, "audit");
  assert_non_null(strstr(page, "\"mean\": 2.5"));
  assert_non_null(strstr(page, "\"better\": -1"));
  assert_non_null(strstr(page, "\"gap\": 0.25"));
  assert_null(strstr(page, "\"command\""));
  free(page);
  free(report);
  pbContext_Destroy(ctx);
}

// ---- a search -----------------------------------------------------------------------------------------------------------
typedef struct Search {
  pbTask *task;
  pbRunResult result;
} Search;

static pbStatus put_search(pbContext *ctx, const void *what, const pbPageHead *head, FILE *out) {
  const Search *s = what;
  return pbRun_Page(ctx, s->task, &s->result, (const char *[]){"<img>.npz"}, 1, head, out);
}

static void test_search_page(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  Search s = {.task = NULL};
  assert_int_equal(pbTask_Load(ctx, "../examples/ball/launch.json", NULL, &s.task), pb_ok);
  assert_int_equal(pbTask_Run(s.task, &(pbRunOptions){.iterations = 2}, &s.result), pb_ok);

  char *page = page_of(ctx, put_search, &s, &(pbPageHead){.path = wicked, .command = "pullback optimize"});
  check_page(page, "optimize");
  assert_non_null(strstr(page, "\"trajectory_files\": [\"\\u003cimg\\u003e.npz\"]"));
  assert_non_null(strstr(page, "\"outcome\": \"iteration limit\""));
  free(page);
  pbTask_Destroy(s.task);
  pbContext_Destroy(ctx);
}

// A slide whose sensor shows 2 x + 1 a tenth of a second late, and a ball joint.
#define RECORDED                                                                                                          \
  "{\"model\": \"<mujoco><worldbody><body><joint name='x' type='slide'/><geom size='.1' mass='1'/><body><joint name='b' " \
  "type='ball'/><geom size='.1' pos='.2 0 0' mass='1'/></body></body></worldbody></mujoco>\", \"steps\": 100, "           \
  "\"uncertainty\": false, \"variables\": [{\"state\": \"qvel\"}], \"loss\": [%s]}"
#define LATE                                                                                                       \
  "{\"qpos\": \"x\", \"at\": [0.12, 0.15], \"target\": [[3], [null]], \"gain\": 2, \"bias\": 1, \"delay\": 0.1}, " \
  "{\"qpos\": \"b\", \"at\": [0.04, 0.16], \"target\": [[1, 0, 0, 0], [0, 0, 0, 1]]}"

static pbTask *recorded(pbContext *ctx, const char *loss) {
  char text[2000];
  pbTask *task = NULL;
  snprintf(text, sizeof text, RECORDED, loss);
  pbStatus status = pbTask_Parse(ctx, text, strlen(text), NULL, "<img>.json", &task);
  if (status != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return task;
}

static void test_recorded_positions(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbTask *task = recorded(ctx, LATE);
  pbArrays *set = NULL;
  assert_int_equal(pbArrays_Create(ctx, &set), pb_ok);
  assert_int_equal(pbTask_Recorded(task, pbTask_Start(task), 0, set), pb_ok);

  // by time, as if it had come at once: 0.02, 0.04, 0.05, 0.16
  const double *time = pbArrays_Reals(set, "time", 4), *qpos = pbArrays_Reals(set, "qpos", 4 * 5);
  assert_non_null(time);
  assert_non_null(qpos);
  const double expected[] = {0.02, 0.04, 0.05, 0.16};
  for (int k = 0; k < 4; k++) assert_true(fabs(time[k] - expected[k]) < 1e-12);

  // one sample of the slide, two of the ball
  assert_true(qpos[0] == 1 && isnan(qpos[5]) && isnan(qpos[10]) && isnan(qpos[15]));
  assert_true(isnan(qpos[1]) && qpos[6] == 1 && qpos[9] == 0 && isnan(qpos[11]) && qpos[16] == 0 && qpos[19] == 1);
  pbArrays_Destroy(set);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
}

// Pages of a search with recorded positions, and of one without.
static void test_search_page_plays(void **state) {
  (void)state;
  const char *const losses[] = {LATE, "{\"qpos\": \"x\", \"at\": \"final\", \"target\": 1}",
                                "{\"qvel\": \"x\", \"at\": [0.1, 0.2], \"target\": [[1], [2]]}"};
  for (int k = 0; k < 3; k++) {
    pbContext *ctx = pbContext_Create(NULL);
    Search s = {.task = recorded(ctx, losses[k])};
    assert_int_equal(pbTask_Run(s.task, &(pbRunOptions){.iterations = 2}, &s.result), pb_ok);

    // as text of JSON: nothing in it ends the script that holds it
    char *page = page_of(ctx, put_search, &s, &(pbPageHead){.path = wicked});
    if (k == 0) check_whole(page, "optimize");
    else check_page(page, "optimize");
    assert_true((strstr(page, "\"motion\": {") != NULL) == (k == 0));
    if (k == 0) assert_true(strstr(page, "\"page\": \"\\u003c!DOCTYPE html") || strstr(page, "\"why_none\": "));
    free(page);
    pbTask_Destroy(s.task);
    pbContext_Destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_marks),       cmocka_unit_test(test_check_page),         cmocka_unit_test(test_audit_page),
      cmocka_unit_test(test_search_page), cmocka_unit_test(test_recorded_positions), cmocka_unit_test(test_search_page_plays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
