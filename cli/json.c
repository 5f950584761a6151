// JSON output. The program never sets a locale, so printf writes numbers as C does.
// Tests: tests/oracle/test_cli.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void line_break(cliJson *j) {
  // on a line of its own, indented; within a compact value after a blank
  if (j->compact || (j->depth && j->inner[j->depth - 1])) {
    if (j->depth && j->some[j->depth - 1]) fputc(' ', j->out);
    return;
  }

  fputc('\n', j->out);
  for (int i = 0; i < j->depth; i++) fputs("  ", j->out);
}

static void begin_value(cliJson *j, const char *key) {
  if (!j->depth) return;
  bool *some = &j->some[j->depth - 1];

  if (*some) fputc(',', j->out);
  line_break(j);
  *some = true;

  if (!key) return;
  cliJson_TextTo(j->out, key);
  fputs(": ", j->out);
}

static void open_bracket(cliJson *j, const char *key, char bracket, bool inner) {
  begin_value(j, key);
  fputc(bracket, j->out);

  // all that is inside of a single line stays on it
  inner = inner || (j->depth && j->inner[j->depth - 1]);
  j->some[j->depth] = false;
  j->inner[j->depth++] = inner;
}

void cliJson_Open(cliJson *j, const char *key, char bracket) { open_bracket(j, key, bracket, false); }
void cliJson_OpenLine(cliJson *j, const char *key, char bracket) { open_bracket(j, key, bracket, true); }

void cliJson_Close(cliJson *j, char bracket) {
  bool some = j->some[j->depth - 1], inner = j->inner[j->depth - 1];
  j->depth--;

  // an empty list stays on its line
  if (some && !inner && !j->compact) {
    fputc('\n', j->out);
    for (int i = 0; i < j->depth; i++) fputs("  ", j->out);
  }
  fputc(bracket, j->out);
  if (!j->depth && !j->compact) fputc('\n', j->out);
}

// '<' and '&' are escaped too: the text may stand inside a script element of a page.
void cliJson_TextTo(FILE *out, const char *value) {
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

void cliJson_Text(cliJson *j, const char *key, const char *value) {
  begin_value(j, key);
  cliJson_TextTo(j->out, value);
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
  fputs(text, out);
}

void cliJson_Number(cliJson *j, const char *key, double value) {
  begin_value(j, key);
  put_number(j->out, value);
}

void cliJson_Integer(cliJson *j, const char *key, long value) {
  begin_value(j, key);
  fprintf(j->out, "%ld", value);
}

void cliJson_Bool(cliJson *j, const char *key, bool value) {
  begin_value(j, key);
  fputs(value ? "true" : "false", j->out);
}

void cliJson_Numbers(cliJson *j, const char *key, const double *values, size_t count) {
  begin_value(j, key);
  fputc('[', j->out);
  for (size_t i = 0; i < count; i++) {
    if (i) fputs(", ", j->out);
    put_number(j->out, values[i]);
  }
  fputc(']', j->out);
}

// ---- base64 (RFC 4648): three bytes give four letters, missing ones '=' -------------------------------------------------

static void put_group(FILE *out, const unsigned char *three, size_t held) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t group = (uint32_t)three[0] << 16 | (held > 1 ? (uint32_t)three[1] << 8 : 0) | (held > 2 ? three[2] : 0);
  char four[4];

  for (size_t k = 0; k < 4; k++) four[k] = k <= held ? letters[group >> (18 - 6 * k) & 63] : '=';
  fwrite(four, 1, sizeof four, out);
}

void cliJson_Bytes(cliJson *j, const char *key, const unsigned char *bytes, size_t size) {
  begin_value(j, key);
  fputc('"', j->out);
  for (size_t i = 0; i < size; i += 3) put_group(j->out, bytes + i, size - i < 3 ? size - i : 3);
  fputc('"', j->out);
}

// Twelve bytes, three floats, make whole groups: only the last may be cut.
void cliJson_Floats(cliJson *j, const char *key, const float *values, size_t count) {
  begin_value(j, key);
  fputc('"', j->out);

  for (size_t i = 0; i < count; i += 3) {
    size_t floats = count - i < 3 ? count - i : 3, size = 4 * floats;
    unsigned char bytes[12];
    for (size_t k = 0; k < floats; k++) {
      uint32_t bits;
      memcpy(&bits, &values[i + k], sizeof bits);
      for (size_t b = 0; b < 4; b++) bytes[4 * k + b] = (unsigned char)(bits >> (8 * b));
    }
    for (size_t k = 0; k < size; k += 3) put_group(j->out, bytes + k, size - k < 3 ? size - k : 3);
  }
  fputc('"', j->out);
}
