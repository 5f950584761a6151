// Pages of results: what a search found, what an audit says, what a check of derivatives compared. A page has the numbers as the
// commands' JSON has them, and draws them itself (report.js).
// Tests: tests/unit/test_pages.c, tests/oracle/test_pages.py, tests/oracle/test_ghost.py.
#include <pullback/describe.h>
#include <pullback/view.h>

#include "io/json/json.h"
#include "io/view/page.h"
#include "io/view/run_motion.h"

enum { MOST_TIMES = 600 };  // of a recording on a page

typedef struct Report {
  pbContext *ctx;
  const char *kind;
  const pbPageHead *head;
  const char *const *files;  // of trajectories
  int count;

  // what the page is about: one of these
  pbTask *task;
  const pbRunResult *run;
  const pbAuditReport *audit;
  const pbCheckReport *check;
} Report;

// The result is told as a value of its own.
static pbStatus put_result(const Report *r, FILE *out) {
  pbJson j = {.out = out};
  if (r->run) return pbTask_DescribeResult(r->task, r->run, r->files, r->count, &j, NULL);
  if (r->audit) return pbAuditReport_Describe(r->audit, &j);
  pbCheckReport_Describe(r->check, r->head->path, &j);
  return pb_ok;
}

static pbStatus put_data(const void *user, FILE *out) {
  const Report *r = user;
  pbJson j = {.out = out};
  pbJson_Open(&j, NULL, '{');
  pbJson_Text(&j, "kind", r->kind);
  pbJson_Text(&j, "title", pbPage_Name(r->head->path));
  pbJson_Text(&j, "path", r->head->path);
  pbJson_Text(&j, "version", pbVersion());
  if (r->head->command) pbJson_Text(&j, "command", r->head->command);

  pbJson_Begin(&j, "result");
  PB_TRY(put_result(r, out));
  pbStatus drawn = r->run ? pbTask_DescribeReadings(r->task, r->run->z, MOST_TIMES, "recordings", &j) : pb_ok;
  if (drawn == pb_no_memory) return drawn;  // an answer that cannot be simulated any more has none
  if (r->run) PB_TRY(pbRun_PutMotion(r->ctx, r->task, r->run->z, r->head->path, &j));
  pbJson_Close(&j, '}');
  return pb_ok;
}

static pbStatus put_page(const Report *r, FILE *out) {
  const pbPagePart part[] = {{.mark = "title", .text = pbPage_Name(r->head->path), .put = pbPage_PutText},
                             {.mark = "style", .text = pb_asset_page_css},
                             {.mark = "report_style", .text = pb_asset_report_css},
                             {.mark = "charts", .text = pb_asset_charts_js},
                             {.mark = "script", .text = pb_asset_report_js}};
  if (!pb_asset_report_html[0]) return pbContext_Fail(r->ctx, pb_unsupported, "this library was built without its pages");
  return pbPage_Fill(pb_asset_report_html, part, sizeof part / sizeof *part, put_data, r, out);
}

pbStatus pbRun_Page(pbContext *ctx, pbTask *task, const pbRunResult *result, const char *const *files, int count,
                    const pbPageHead *head, FILE *out) {
  const Report r = {.ctx = ctx, .kind = "optimize", .head = head, .files = files, .count = count, .task = task, .run = result};
  return put_page(&r, out);
}

pbStatus pbAuditReport_Page(pbContext *ctx, const pbAuditReport *report, const pbPageHead *head, FILE *out) {
  const Report r = {.ctx = ctx, .kind = "audit", .head = head, .audit = report};
  return put_page(&r, out);
}

pbStatus pbCheckReport_Page(pbContext *ctx, const pbCheckReport *report, const pbPageHead *head, FILE *out) {
  const Report r = {.ctx = ctx, .kind = "check", .head = head, .check = report};
  return put_page(&r, out);
}
