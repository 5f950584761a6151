// The report of a check of derivatives, as values of JSON.
// Tests: tests/oracle/test_check.py, tests/python/test_commands.py.
#include <pullback/describe.h>

void pbCheckReport_Describe(const pbCheckReport *r, const char *path, pbJson *j) {
  pbJson_Open(j, NULL, '{');
  pbJson_Text(j, "model", path);
  pbJson_Text(j, "version", pbVersion());
  pbJson_Bool(j, "holds", r->holds);
  pbJson_Integer(j, "steps", r->steps);
  pbJson_Integer(j, "most_contacts", r->most_contacts);

  pbJson_Open(j, "checks", '[');
  for (const pbCheckTest *t = r->test; t < r->test + r->test_count; t++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", t->name);
    pbJson_Bool(j, "holds", t->holds);
    pbJson_Integer(j, "cases", t->tried);
    pbJson_Integer(j, "left_out", t->skipped);
    pbJson_Number(j, "worst", t->worst);
    pbJson_Number(j, "limit", t->limit);
    pbJson_Integer(j, "step", t->step);
    pbJson_Text(j, "words", t->words);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');

  // in words
  pbJson_Open(j, "findings", '[');
  for (const pbCheckFinding *f = r->finding; f < r->finding + r->finding_count; f++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "what", f->what);
    pbJson_Text(j, "where", f->where);
    pbJson_Text(j, "why", f->why);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');

  // of the rollout itself
  pbJson_Number(j, "penetration", r->certificate.penetration);
  pbJson_Integer(j, "penetration_step", r->certificate.penetration_step);
  pbJson_Number(j, "growth", r->certificate.growth);
  pbJson_Number(j, "growth_rate", r->certificate.growth_rate);
  pbJson_Number(j, "worst_residual", r->certificate.worst_residual);
  pbJson_Close(j, '}');
}
