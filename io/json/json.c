// JSON as text, or told to somebody.
// Tests: tests/unit/test_describe.c, tests/oracle/test_cli.py, tests/python/test_commands.py.
#include "io/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static void line_break(pbJson *j) {
  // on a line of its own, indented; within a compact value after a blank
  if (j->compact || (j->depth && j->inner[j->depth - 1])) {
    if (j->depth && j->some[j->depth - 1]) fputc(' ', j->out);
    return;
  }

  fputc('\n', j->out);
  for (int i = 0; i < j->depth; i++) fputs("  ", j->out);
}

void pbJson_Begin(pbJson *j, const char *key) {
  if (!j->depth) return;
  bool *some = &j->some[j->depth - 1];

  if (*some) fputc(',', j->out);
  line_break(j);
  *some = true;

  if (!key) return;
  pbJson_TextTo(j->out, key);
  fputs(": ", j->out);
}

static void begin_bracket(pbJson *j, const char *key, char bracket) {
  pbJson_Begin(j, key);
  fputc(bracket, j->out);
}

static void open_bracket(pbJson *j, const char *key, char bracket, bool inner) {
  PB_ASSERT(j->depth < PB_JSON_DEPTH);
  if (j->told) j->told->open(j->user, key, bracket);
  else begin_bracket(j, key, bracket);

  // all that is inside of a single line stays on it
  inner = inner || (j->depth && j->inner[j->depth - 1]);
  j->some[j->depth] = false;
  j->inner[j->depth++] = inner;
}

void pbJson_Open(pbJson *j, const char *key, char bracket) { open_bracket(j, key, bracket, false); }
void pbJson_OpenLine(pbJson *j, const char *key, char bracket) { open_bracket(j, key, bracket, true); }

void pbJson_Close(pbJson *j, char bracket) {
  PB_ASSERT(j->depth > 0);
  bool some = j->some[j->depth - 1], inner = j->inner[j->depth - 1];
  j->depth--;
  if (j->told) {
    j->told->close(j->user);
    return;
  }

  // an empty list stays on its line
  if (some && !inner && !j->compact) {
    fputc('\n', j->out);
    for (int i = 0; i < j->depth; i++) fputs("  ", j->out);
  }
  fputc(bracket, j->out);
  if (!j->depth && !j->compact) fputc('\n', j->out);
}

// '<' and '&' are escaped too: the text may stand inside a script element of a page.
void pbJson_TextTo(FILE *out, const char *value) {
  fputc('"', out);
  for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
    if (*c == '"' || *c == '\\') {
      fprintf(out, "\\%c", *c);
    } else if (*c == '\n') {
      fputs("\\n", out);
    } else if (*c < 32 || *c == 127 || *c == '<' || *c == '>' || *c == '&') {
      fprintf(out, "\\u%04x", *c);
    } else {
      fputc(*c, out);
    }
  }
  fputc('"', out);
}

void pbJson_Text(pbJson *j, const char *key, const char *value) {
  if (j->told) {
    j->told->text(j->user, key, value);
    return;
  }
  pbJson_Begin(j, key);
  pbJson_TextTo(j->out, value);
}

// The shortest of 15 to 17 digits that gives the same number back.
static void put_number(FILE *out, double value) {
  char text[40];
  if (!isfinite(value)) {
    fputs("null", out);
    return;
  }

  // 15 digits suffice for most numbers, 17 for all
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }

  // a point, whatever the locale of the host has
  char *point = text + strspn(text, "-+0123456789e");
  if (*point) *point = '.';
  fputs(text, out);
}

void pbJson_Number(pbJson *j, const char *key, double value) {
  if (j->told && !isfinite(value)) {
    j->told->nothing(j->user, key);
  } else if (j->told) {
    j->told->number(j->user, key, value);
  } else {
    pbJson_Begin(j, key);
    put_number(j->out, value);
  }
}

void pbJson_Integer(pbJson *j, const char *key, int64_t value) {
  if (j->told) {
    j->told->integer(j->user, key, value);
    return;
  }
  pbJson_Begin(j, key);
  fprintf(j->out, "%" PRId64, value);
}

void pbJson_Bool(pbJson *j, const char *key, bool value) {
  if (j->told) {
    j->told->boolean(j->user, key, value);
    return;
  }
  pbJson_Begin(j, key);
  fputs(value ? "true" : "false", j->out);
}

void pbJson_Null(pbJson *j, const char *key) { pbJson_Number(j, key, NAN); }

// On one line, in pages of models with much in them: without what lists of other things need.
static void put_numbers(pbJson *j, const char *key, const double *values, size_t count) {
  begin_bracket(j, key, '[');
  for (size_t i = 0; i < count; i++) {
    if (i) fputs(", ", j->out);
    put_number(j->out, values[i]);
  }
  fputc(']', j->out);
}

void pbJson_Numbers(pbJson *j, const char *key, const double *values, size_t count) {
  if (!j->told) {
    put_numbers(j, key, values, count);
    return;
  }
  j->told->open(j->user, key, '[');
  for (size_t i = 0; i < count; i++) pbJson_Number(j, NULL, values[i]);
  j->told->close(j->user);
}
