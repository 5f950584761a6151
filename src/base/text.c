// Numbers in texts, in the C locale whatever the program's is.
// Tests: tests/unit/test_base.c.
#include "base/text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pbText_Real(const char *text, double *value) {
  // strtod skips blanks; a number has none.
  if (!*text || strchr(" \t\n\r\v\f", *text)) return false;

  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c_locale) return false;

  char *end;
  double x = strtod_l(text, &end, c_locale);
  freelocale(c_locale);

  if (*end) return false;
  *value = x;
  return true;
}

bool pbText_Count(const char *text, int *value) {
  size_t length = strlen(text);
  if (!length || length > 9 || strspn(text, "0123456789") != length) return false;

  *value = (int)strtol(text, NULL, 10);
  return true;
}

char *pbText_PutReal(char *text, size_t size, double value) {
  // The locale of this thread alone, for the time of one call.
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = plain ? uselocale(plain) : (locale_t)0;
  snprintf(text, size, "%.17g", value);

  if (!plain) return text;
  uselocale(before);
  freelocale(plain);
  return text;
}
