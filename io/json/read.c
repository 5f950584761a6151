// A text to a tree of JSON: RFC 8259 in UTF-8, with an object or an array outside. Texts of errors, and what they are told near
// of, are jansson's, whose own reader writes past its memory where it can have no more.
// Tests: tests/unit/test_describe.c, tests/oracle/test_stand_ins.py, tests/world/failing_world.py.
#include "io/json/read.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

enum { AT_END = -1, UNREADABLE = -2 };                                                // instead of a byte
enum { NONE = 256, WRONG, STRING, INTEGER, REAL, TRUE_WORD, FALSE_WORD, NULL_WORD };  // tokens; others are their character
enum { MOST_NEAR = 20 };                                                              // bytes of a token that errors show

typedef struct Reader {
  const char *at, *end, *readable;  // up to readable it is known to be UTF-8
  int line, column, column_before;
  bool broken;  // no UTF-8 from here on
  size_t flags, position;
  json_error_t *error;
  bool failed, told;  // told: of a mistake; else memory was short
  locale_t c_locale;

  int token, depth;
  char *word;  // what was read of it
  size_t length, room;
  char *text;  // of a STRING
  size_t text_length;
  json_int_t integer;
  double real;
} Reader;

// The first error counts. Told with what was read of the token, if that is short.
static void fail(Reader *r, const char *format, ...) {
  if (r->failed) return;
  r->failed = r->told = true;
  json_error_t *e = r->error;

  va_list args;
  va_start(args, format);
  int n = vsnprintf(e->text, sizeof e->text, format, args);
  va_end(args);
  e->line = r->line;
  e->column = r->column;
  e->position = (int)r->position;

  size_t used = n < 0 ? 0 : (size_t)n, left = used < sizeof e->text ? sizeof e->text - used : 0;
  bool shown = r->length && r->word[0];
  if (shown && r->length <= MOST_NEAR) snprintf(e->text + used, left, " near '%s'", r->word);
  else if (!shown && !r->broken) snprintf(e->text + used, left, " near end of file");
}

// ---- bytes --------------------------------------------------------------------------------------------------------------

static bool begins_character(int c) { return ((unsigned)c & 0xC0) != 0x80; }

static int take(Reader *r) {
  if (r->broken) return UNREADABLE;
  if (r->at == r->end) return AT_END;

  if (r->at >= r->readable) {
    size_t count = pbText_Character(r->at, r->end);
    r->broken = !count;
    if (!count) {
      fail(r, "unable to decode byte 0x%x", (unsigned char)*r->at);
      return UNREADABLE;
    }
    r->readable = r->at + count;
  }

  int c = (unsigned char)*r->at++;
  r->position++;
  if (c == '\n') {
    r->line++;
    r->column_before = r->column;
    r->column = 0;
  } else if (begins_character(c)) {
    r->column++;
  }
  return c;
}

static void give_back(Reader *r, int c) {
  if (c < 0) return;
  PB_ASSERT(r->position > 0);
  r->at--;
  r->position--;
  if (c == '\n') {
    r->line--;
    r->column = r->column_before;
  } else if (begins_character(c)) {
    r->column--;
  }
}

static void keep(Reader *r, int c) {
  if (c < 0) return;

  // room for a closing zero, too; twice as much each time
  if (r->length + 1 >= r->room) {
    size_t room = 2 * r->room + 64;
    char *grown = realloc(r->word, room);
    if (!grown) {
      r->failed = true;
      return;
    }
    r->word = grown;
    r->room = room;
  }
  PB_ASSERT(r->length + 1 < r->room);
  r->word[r->length++] = (char)c;
  r->word[r->length] = 0;
}

static int take_kept(Reader *r) {
  int c = take(r);
  keep(r, c);
  return c;
}

static void give_back_kept(Reader *r, int c) {
  if (c < 0 || !r->length) return;
  give_back(r, c);
  r->word[--r->length] = 0;
}

// ---- tokens -------------------------------------------------------------------------------------------------------------

static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int hex_digit(int c) {
  if (is_digit(c)) return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int four_digits(const char *text) {
  int value = 0;
  for (int i = 0; i < 4; i++) value = value * 16 + hex_digit((unsigned char)text[i]);
  return value;
}

static char *put_utf8(char *to, int code) {
  if (code < 0x80) {
    *to++ = (char)code;
    return to;
  }

  // The first byte says how many follow, of six bits each.
  int more = 1 + (code >= 0x800) + (code >= 0x10000);
  static const int lead[] = {0, 0xC0, 0xE0, 0xF0};
  *to++ = (char)(lead[more] | code >> (6 * more));
  while (more-- > 0) *to++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
  return to;
}

// The character of \uXXXX, or of two that are a pair; *at moves behind them. -1: told.
static int escaped_character(Reader *r, const char **at) {
  int code = four_digits(*at + 2);
  *at += 6;
  if (code < 0xD800 || code > 0xDFFF) return code;

  bool pair = code <= 0xDBFF && (*at)[0] == '\\' && (*at)[1] == 'u';
  int second = pair ? four_digits(*at + 2) : 0;
  if (pair && second >= 0xDC00 && second <= 0xDFFF) {
    *at += 6;
    return 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
  }

  if (pair) fail(r, "invalid Unicode '\\u%04X\\u%04X'", (unsigned)code, (unsigned)second);
  else fail(r, "invalid Unicode '\\u%04X'", (unsigned)code);
  return -1;
}

// What the kept word, with its quotes, stands for.
static bool decode_string(Reader *r) {
  static const char letter[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  PB_ASSERT(r->length >= 2 && r->word[r->length - 1] == '"');

  // no character is longer than what stands for it
  char *to = r->text = malloc(r->length + 1);
  if (!to) r->failed = true;

  const char *at = r->word + 1, *end = r->word + r->length - 1;
  while (to && at < end) {
    if (*at != '\\') {
      *to++ = *at++;
    } else if (at[1] == 'u') {
      int code = escaped_character(r, &at);
      if (code < 0) return false;
      to = put_utf8(to, code);
    } else {
      *to++ = meant[strchr(letter, at[1]) - letter];
      at += 2;
    }
  }

  if (!to) return false;
  *to = 0;
  r->text_length = (size_t)(to - r->text);
  return true;
}

// What follows a backslash; the byte behind it, or a negative number: told.
static int pass_escape(Reader *r) {
  int c = take_kept(r);

  // four digits
  if (c == 'u') {
    c = take_kept(r);
    for (int i = 0; i < 4; i++) {
      if (c < 0 || hex_digit(c) < 0) {
        fail(r, "invalid escape");
        return UNREADABLE;
      }
      c = take_kept(r);
    }
    return c;
  }

  if (c > 0 && strchr("\"\\/bfnrt", c)) return take_kept(r);
  fail(r, "invalid escape");
  return UNREADABLE;
}

static bool scan_string(Reader *r) {
  for (int c = take_kept(r); c != '"';) {
    if (c == AT_END) fail(r, "premature end of input");
    if (c < 0) return false;

    // not shown
    if (c < 0x20) {
      give_back_kept(r, c);
      if (c == '\n') fail(r, "unexpected newline");
      else fail(r, "control character 0x%x", (unsigned)c);
      return false;
    }
    c = c == '\\' ? pass_escape(r) : take_kept(r);
  }
  return !r->failed && decode_string(r);
}

static int pass_digits(Reader *r, int c) {
  while (is_digit(c)) c = take_kept(r);
  return c;
}

static int whole_number(Reader *r, int c) {
  give_back_kept(r, c);
  errno = 0;
  r->integer = strtoll(r->word, NULL, 10);
  if (errno != ERANGE) return INTEGER;
  fail(r, r->integer < 0 ? "too big negative integer" : "too big integer");
  return WRONG;
}

static int scan_number(Reader *r, int c) {
  if (c == '-') c = take_kept(r);

  // no zero before other digits
  int first = c;
  if (first == '0') c = take_kept(r);
  else c = pass_digits(r, c);
  if (!is_digit(first) || (first == '0' && is_digit(c))) {
    give_back_kept(r, c);
    return WRONG;
  }
  if (c != '.' && c != 'e' && c != 'E') return whole_number(r, c);

  // The point is not shown where no digit follows.
  if (c == '.') {
    c = take(r);
    if (!is_digit(c)) {
      give_back(r, c);
      return WRONG;
    }
    keep(r, c);
    c = pass_digits(r, take_kept(r));
  }

  if (c == 'e' || c == 'E') {
    c = take_kept(r);
    if (c == '+' || c == '-') c = take_kept(r);
    if (!is_digit(c)) {
      give_back_kept(r, c);
      return WRONG;
    }
    c = pass_digits(r, c);
  }
  give_back_kept(r, c);

  r->real = strtod_l(r->word, NULL, r->c_locale);
  if (isfinite(r->real)) return REAL;
  fail(r, "real number overflow");
  return WRONG;
}

static int scan_word(Reader *r) {
  int c;
  do c = take_kept(r);
  while (is_letter(c));
  give_back_kept(r, c);
  if (!strcmp(r->word, "true")) return TRUE_WORD;
  if (!strcmp(r->word, "false")) return FALSE_WORD;
  return strcmp(r->word, "null") ? WRONG : NULL_WORD;
}

static void scan(Reader *r) {
  free(r->text);
  r->text = NULL;
  r->length = 0;
  if (r->word) r->word[0] = 0;

  int c;
  do c = take(r);
  while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
  r->token = c == AT_END ? NONE : WRONG;
  if (c < 0) return;

  keep(r, c);
  if (r->failed) return;
  if (c && strchr("{}[]:,", c)) r->token = c;
  else if (c == '"') r->token = scan_string(r) ? STRING : WRONG;
  else if (is_digit(c) || c == '-') r->token = scan_number(r, c);
  else if (is_letter(c)) r->token = scan_word(r);
  else
    while (r->at < r->readable) keep(r, take(r));  // the character as a whole
}

// ---- values -------------------------------------------------------------------------------------------------------------

static json_t *read_value(Reader *r);

// A key, the colon and a value: into the object. False: told.
static bool read_member(Reader *r, json_t *object) {
  if (r->token != STRING) {
    fail(r, "string or '}' expected");
    return false;
  }

  // the next token has a text of its own
  char *key = r->text;
  r->text = NULL;
  bool whole = strlen(key) == r->text_length, known = r->flags & JSON_REJECT_DUPLICATES && json_object_get(object, key);
  if (!whole) fail(r, "NUL byte in object key not supported");
  else if (known) fail(r, "duplicate object key");

  if (!r->failed) scan(r);
  if (r->token != ':') fail(r, "':' expected");

  json_t *value = NULL;
  if (!r->failed) {
    scan(r);
    value = read_value(r);
  }
  bool kept = value && json_object_set_new(object, key, value) == 0;
  free(key);
  return kept;
}

static bool read_members(Reader *r, json_t *object) {
  for (scan(r); r->token != '}' || json_object_size(object); scan(r)) {
    if (!read_member(r, object)) return false;
    scan(r);
    if (r->token == ',') continue;
    if (r->token == '}') return true;
    fail(r, "'}' expected");
    return false;
  }
  return true;
}

static bool read_entries(Reader *r, json_t *array) {
  for (scan(r); r->token != ']' || json_array_size(array); scan(r)) {
    if (r->token != NONE) {
      json_t *value = read_value(r);
      if (!value || json_array_append_new(array, value) != 0) return false;
      scan(r);
    }
    if (r->token == ',') continue;
    if (r->token == ']') return true;
    fail(r, "']' expected");
    return false;
  }
  return true;
}

static json_t *read_collection(Reader *r) {
  bool object = r->token == '{';
  json_t *made = object ? json_object() : json_array();
  if (made && (object ? read_members(r, made) : read_entries(r, made))) return made;
  json_decref(made);
  return NULL;
}

static json_t *read_string(Reader *r) {
  if (strlen(r->text) == r->text_length) return json_stringn(r->text, r->text_length);
  fail(r, "\\u0000 is not allowed without JSON_ALLOW_NUL");
  return NULL;
}

static json_t *read_value(Reader *r) {
  if (r->depth >= JSON_PARSER_MAX_DEPTH) {
    fail(r, "maximum parsing depth reached");
    return NULL;
  }

  PB_ASSERT(r->depth >= 0);
  r->depth++;
  json_t *value = NULL;
  switch (r->token) {
    case STRING: value = read_string(r); break;
    case INTEGER: value = json_integer(r->integer); break;
    case REAL: value = json_real(r->real); break;
    case TRUE_WORD: value = json_true(); break;
    case FALSE_WORD: value = json_false(); break;
    case NULL_WORD: value = json_null(); break;
    case '{':
    case '[': value = read_collection(r); break;
    case WRONG: fail(r, "invalid token"); break;
    default: fail(r, "unexpected token");
  }
  r->depth--;
  return value;
}

static json_t *read_text(Reader *r) {
  scan(r);
  if (r->token != '[' && r->token != '{') {
    fail(r, "'[' or '{' expected");
    return NULL;
  }

  json_t *root = read_value(r);
  if (!root) return NULL;
  PB_ASSERT(r->depth == 0);

  // nothing behind it
  scan(r);
  if (r->token == NONE) return root;
  fail(r, "end of file expected");
  json_decref(root);
  return NULL;
}

json_t *pbJson_Read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory) {
  *error = (json_error_t){.line = 1};
  Reader r = {.at = text, .end = text + length, .readable = text, .line = 1, .flags = flags, .error = error};
  r.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  json_t *root = r.c_locale ? read_text(&r) : NULL;

  // what was read before memory was short is no tree
  if (r.failed) {
    json_decref(root);
    root = NULL;
  }
  free(r.word);
  free(r.text);
  if (r.c_locale) freelocale(r.c_locale);
  *no_memory = !root && !r.told;
  return root;
}
