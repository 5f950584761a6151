// How far a check that was interrupted has come, as arrays and back: pbCheckPoint, without the certificate that the rollout
// gives again.
// Tests: tests/unit/test_check.c, tests/oracle/test_going_on.py.
#include <stdio.h>
#include <string.h>

#include <pullback/describe.h>

enum { COUNTS = 4, NUMBERS = 6, NAME = 80 };
static const double most = 1e9;  // of what is counted

static const char *name_of(const char *what, int i, const char *part, char name[NAME]) {
  snprintf(name, NAME, "check/%s/%d/%s", what, i, part);
  return name;
}

// ---- kept -----------------------------------------------------------------------------------------------------------
static pbStatus keep_tests(const pbCheckReport *r, pbArrays *set) {
  char name[NAME];
  double *to;
  PB_TRY(pbArrays_AddReals(set, "check/tests", 2, (size_t[]){(size_t)r->test_count, NUMBERS}, NULL, &to));

  // numbers in one table, each text in an array of its own
  for (int i = 0; i < r->test_count; i++) {
    const pbCheckTest *t = &r->test[i];
    const double numbers[NUMBERS] = {t->holds, t->tried, t->skipped, t->worst, t->limit, t->step};
    memcpy(to + i * NUMBERS, numbers, sizeof numbers);
    PB_TRY(pbArrays_AddText(set, name_of("test", i, "name", name), t->name));
    PB_TRY(pbArrays_AddText(set, name_of("test", i, "words", name), t->words));
  }
  return pb_ok;
}

pbStatus pbCheckPoint_Keep(const pbCheckPoint *p, pbArrays *set) {
  const pbCheckReport *r = &p->report;
  const double counts[COUNTS] = {p->part, p->done, r->test_count, r->finding_count};
  char name[NAME];

  // where it is, and what it has found
  PB_TRY(pbArrays_AddReals(set, "check/counts", 1, (size_t[]){COUNTS}, counts, NULL));
  PB_TRY(pbArrays_AddReals(set, "check/numbers", 1, (size_t[]){PB_CHECK_NUMBERS}, p->numbers, NULL));
  PB_TRY(keep_tests(r, set));

  for (int i = 0; i < r->finding_count; i++) {
    PB_TRY(pbArrays_AddText(set, name_of("finding", i, "what", name), r->finding[i].what));
    PB_TRY(pbArrays_AddText(set, name_of("finding", i, "where", name), r->finding[i].where));
    PB_TRY(pbArrays_AddText(set, name_of("finding", i, "why", name), r->finding[i].why));
  }
  return pb_ok;
}

// ---- restored -------------------------------------------------------------------------------------------------------
// A longer text is cut.
static bool text_at(const pbArrays *set, const char *name, char *to, size_t size) {
  const pbArray *text = pbArrays_Find(set, name);
  if (!text || text->type != pb_arrayText || text->count != 1) return false;
  snprintf(to, size, "%s", text->text);
  return true;
}

// Counts of a forged file are bounded before they are converted.
static bool counts(double v) { return v >= -1 && v <= most; }

static bool restore_tests(pbCheckReport *r, const pbArrays *set) {
  const double *n = pbArrays_Reals(set, "check/tests", (size_t)r->test_count * NUMBERS);
  char name[NAME];

  for (int i = 0; n && i < r->test_count; i++, n += NUMBERS) {
    pbCheckTest *t = &r->test[i];

    // numbers, then names and words
    if (!counts(n[1]) || !counts(n[2]) || !counts(n[5])) return false;
    *t = (pbCheckTest){
        .holds = n[0] != 0, .tried = (int)n[1], .skipped = (int)n[2], .worst = n[3], .limit = n[4], .step = (int)n[5]};
    if (!text_at(set, name_of("test", i, "name", name), t->name, sizeof t->name)) return false;
    if (!text_at(set, name_of("test", i, "words", name), t->words, sizeof t->words)) return false;
  }
  return n != NULL;
}

bool pbCheckPoint_Restore(pbCheckPoint *p, const pbArrays *set) {
  const double *c = pbArrays_Reals(set, "check/counts", COUNTS), *n = pbArrays_Reals(set, "check/numbers", PB_CHECK_NUMBERS);
  pbCheckReport *r = &p->report;
  char name[NAME];
  *p = (pbCheckPoint){0};

  // counts are those of arrays of a report
  if (!c || !n || !counts(c[0]) || !counts(c[1])) return false;
  if (!(c[2] >= 0 && c[2] <= PB_CHECK_TESTS && c[3] >= 0 && c[3] <= PB_CHECK_FINDINGS)) return false;

  r->test_count = (int)c[2];
  r->finding_count = (int)c[3];
  memcpy(p->numbers, n, sizeof p->numbers);
  bool whole = restore_tests(r, set);

  for (int i = 0; whole && i < r->finding_count; i++) {
    pbCheckFinding *f = &r->finding[i];
    whole = text_at(set, name_of("finding", i, "what", name), f->what, sizeof f->what) &&
            text_at(set, name_of("finding", i, "where", name), f->where, sizeof f->where) &&
            text_at(set, name_of("finding", i, "why", name), f->why, sizeof f->why);
  }

  // what is not whole is at no part
  p->part = whole ? (int)c[0] : 0;
  p->done = (int)c[1];
  return whole;
}
