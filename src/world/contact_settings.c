// Settings of contacts that MJCF has no words for: one table of names.
#include <pullback/contact.h>

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "base/text.h"
#include "world/model.h"

typedef struct entry {
  const char *name;
  size_t member;
  double lower, upper;
  bool can_be_off;  // "off": -1
} entry;

#define AT(member) offsetof(pbContactSettings, member)
static const entry table[] = {
    {"kappa", AT(kappa), 0, 1e12, false},
    {"onset", AT(onset), 0, 1e3, false},
    {"erp", AT(erp), 0, 1, true},
    {"cfm", AT(cfm), 0, 1e12, true},
};
#undef AT
enum { COUNT = sizeof table / sizeof *table };

pbContactSettings pbModel_ContactSettings(const pbModel *m) { return m->contact; }

pbStatus pbModel_CheckContact(const pbModel *m) {
  bool erp = m->contact.erp >= 0, cfm = m->contact.cfm >= 0;
  if (erp == cfm) return pb_ok;
  return pbContext_Fail(m->ctx, pb_bad_argument, "contact setting %s is set and %s is not: they go together", erp ? "erp" : "cfm",
                        erp ? "cfm" : "erp");
}

static pbStatus unknown(pbModel *m, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[256];
  for (int i = 0; i < COUNT; i++) pbSuggest_Offer(&near, table[i].name);
  return pbContext_Fail(m->ctx, pb_bad_argument, "unknown contact setting '%.80s'%s", name,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

pbStatus pbModel_SetContact(pbModel *m, const char *name, const char *value) {
  for (int i = 0; i < COUNT; i++) {
    const entry *e = &table[i];
    double number = -1, *target = (double *)((char *)&m->contact + e->member);
    if (strcmp(e->name, name) != 0) continue;
    bool off = e->can_be_off && strcmp(value, "off") == 0;
    if (!off && (!pbText_Real(value, &number) || !(number >= e->lower && number <= e->upper)))
      return pbContext_Fail(m->ctx, pb_bad_argument, "contact setting %s: '%.80s' is not a number from %g to %g%s", name, value,
                            e->lower, e->upper, e->can_be_off ? ", nor 'off'" : "");
    *target = number;
    return pb_ok;
  }
  return unknown(m, name);
}
