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

// With so many digits, of which 17 always suffice; least: with fewer where they do.
static char *put_digits(char *text, size_t size, double value, int least) {
  // The locale of this thread alone, for the time of one call.
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = plain ? uselocale(plain) : (locale_t)0;

  for (int digits = least; digits <= 17; digits++) {
    snprintf(text, size, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }

  if (!plain) return text;
  uselocale(before);
  freelocale(plain);
  return text;
}

char *pbText_PutReal(char *text, size_t size, double value) { return put_digits(text, size, value, 17); }
char *pbText_PutShortest(char *text, size_t size, double value) { return put_digits(text, size, value, 15); }

size_t pbText_Character(const char *text, const char *end) {
  const unsigned char *byte = (const unsigned char *)text;
  unsigned lead = *byte;
  size_t count = 2 + (lead >= 0xE0) + (lead >= 0xF0);

  // Bytes that follow begin none.
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || count > (size_t)(end - text)) return 0;

  for (size_t i = 1; i < count; i++)
    if ((byte[i] & 0xC0) != 0x80) return 0;

  // Too long for what they say; halves of pairs; beyond the last character.
  bool wrong = (lead == 0xE0 && byte[1] < 0xA0) || (lead == 0xED && byte[1] > 0x9F) || (lead == 0xF0 && byte[1] < 0x90) ||
               (lead == 0xF4 && byte[1] > 0x8F);
  return wrong ? 0 : count;
}
