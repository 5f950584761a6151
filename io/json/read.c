// Texts of JSON to trees. jansson tells a token that it had no memory for as one that is wrong; whether the text is well formed,
// found without memory, tells one from the other.
// Tests: tests/unit/test_describe.c, tests/world/failing_world.py.
#include "io/json/read.h"

#include <string.h>

#include "base/assert.h"

typedef struct Scan {
  const char *at, *end;
  int depth;
} Scan;

static bool skip_value(Scan *s);

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_one_of(char c, const char *set) { return c && strchr(set, c); }
static bool sees(const Scan *s, char c) { return s->at < s->end && *s->at == c; }

static void skip_blanks(Scan *s) {
  while (s->at < s->end && is_one_of(*s->at, " \t\r\n")) s->at++;
}

static bool take(Scan *s, char c) {
  bool there = sees(s, c);
  s->at += there;
  return there;
}

static bool skip_word(Scan *s, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) return false;
  s->at += length;
  return true;
}

static bool skip_digits(Scan *s) {
  const char *begin = s->at;
  while (s->at < s->end && is_digit(*s->at)) s->at++;
  return s->at > begin;
}

static bool skip_number(Scan *s) {
  take(s, '-');

  // no zero before other digits; fraction and exponent have digits, too
  const char *begin = s->at;
  if (!skip_digits(s) || (*begin == '0' && s->at - begin > 1)) return false;
  if (take(s, '.') && !skip_digits(s)) return false;
  if (!take(s, 'e') && !take(s, 'E')) return true;

  if (!take(s, '+')) take(s, '-');
  return skip_digits(s);
}

// Behind a backslash.
static bool skip_escape(Scan *s) {
  if (s->at >= s->end || !is_one_of(*s->at, "\"\\/bfnrtu")) return false;
  if (*s->at++ != 'u') return true;

  for (int i = 0; i < 4; i++, s->at++) {
    if (s->at >= s->end || !is_one_of(*s->at, "0123456789abcdefABCDEF")) return false;
  }
  return true;
}

static bool skip_string(Scan *s) {
  if (!take(s, '"')) return false;
  while (s->at < s->end && *s->at != '"') {
    if ((unsigned char)*s->at < 32) return false;
    if (*s->at++ == '\\' && !skip_escape(s)) return false;
  }
  return take(s, '"');
}

static bool skip_key(Scan *s) {
  skip_blanks(s);
  if (!skip_string(s)) return false;
  skip_blanks(s);
  return take(s, ':');
}

// Behind the opening bracket.
static bool skip_list(Scan *s, char close, bool keys) {
  skip_blanks(s);
  if (take(s, close)) return true;

  do {
    if (keys && !skip_key(s)) return false;
    if (!skip_value(s)) return false;
    skip_blanks(s);
  } while (take(s, ','));
  return take(s, close);
}

static bool skip_value(Scan *s) {
  skip_blanks(s);
  if (s->at >= s->end || s->depth >= JSON_PARSER_MAX_DEPTH) return false;

  bool good = false;
  s->depth++;
  switch (*s->at) {
    case '{': good = take(s, '{') && skip_list(s, '}', true); break;
    case '[': good = take(s, '[') && skip_list(s, ']', false); break;
    case '"': good = skip_string(s); break;
    case 't': good = skip_word(s, "true"); break;
    case 'f': good = skip_word(s, "false"); break;
    case 'n': good = skip_word(s, "null"); break;
    default: good = skip_number(s);
  }
  s->depth--;
  return good;
}

bool pbJson_IsFormed(const char *text, size_t length) {
  PB_ASSERT(text || !length);
  Scan s = {text, text + length, 0};
  skip_blanks(&s);
  if (!sees(&s, '{') && !sees(&s, '[')) return false;

  bool good = skip_value(&s);
  skip_blanks(&s);
  PB_ASSERT(s.depth == 0 && s.at <= s.end);

  // nothing behind it
  return good && s.at == s.end;
}

// What jansson says of form alone. Other texts name what it found: a key that is there twice, a number that is too large.
static bool is_about_form(const char *text) {
  return !*text || strstr(text, " expected") || strncmp(text, "invalid token", 13) == 0;
}

json_t *pbJson_Read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory) {
  // without memory jansson may leave it as it was
  error->text[0] = 0;
  json_t *root = json_loadb(text, length, flags, error);

  *no_memory = !root && is_about_form(error->text) && pbJson_IsFormed(text, length);
  return root;
}
