// Elements and attributes of an MJCF file that is written: by the rows of the schema, so that what is read into a member is
// written from it.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "io/mjcf/mjcf_write.h"

// ---- elements -----------------------------------------------------------------------------------------------------------
void pbMjcf_OpenElement(pbMjcfWriter *w, const char *name) { fprintf(w->out, "%*s<%s", 2 * w->depth, "", name); }

void pbMjcf_EndAttributes(pbMjcfWriter *w, bool inside) {
  fputs(inside ? ">\n" : "/>\n", w->out);
  w->depth += inside;
}

void pbMjcf_CloseElement(pbMjcfWriter *w, const char *name) {
  PB_ASSERT(w->depth > 0);
  w->depth--;

  fprintf(w->out, "%*s</%s>\n", 2 * w->depth, "", name);
}

void pbMjcf_PutText(pbMjcfWriter *w, const char *attribute, const char *text) {
  fprintf(w->out, " %s=\"", attribute);

  // What XML has another use for, and what it would make a blank of, by its number.
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 32 || strchr("&<>\"", c)) fprintf(w->out, "&#%d;", c);
    else fputc(c, w->out);
  }

  fputc('"', w->out);
}

void pbMjcf_PutReals(pbMjcfWriter *w, const char *attribute, const double *values, int count) {
  char text[40];

  PB_ASSERT(count > 0);
  fprintf(w->out, " %s=\"", attribute);

  for (int i = 0; i < count; i++) fprintf(w->out, "%s%s", i ? " " : "", pbText_PutShortest(text, sizeof text, values[i]));
  fputc('"', w->out);
}

// ---- attributes by the schema -------------------------------------------------------------------------------------------
#define AT(record, type) (*(const type *)((const char *)(record) + row->offset))

// Specs of hosts may have none.
static const char *text_of(const char *text) { return text ? text : ""; }

static bool same(const void *a, const void *b, size_t size) { return !memcmp(a, b, size); }

static bool same_reals(const double *a, const double *b, int count) { return same(a, b, (size_t)count * sizeof *a); }

// Is the value another than without the attribute? NAN: not given.
static bool is_said(const pbMjcfRow *row, const void *def, const void *none) {
  switch (row->type) {
    case 'n': return **(const char *const *)def;  // the first member of every element
    case 't': return row->required || strcmp(text_of(AT(def, char *const)), text_of(AT(none, char *const))) != 0;
    case 'd':
    case 'q': return !isnan(AT(def, double)) && (row->required || !same_reals(&AT(def, double), &AT(none, double), row->most));
    case 'i': return row->required || !same(&AT(def, int), &AT(none, int), row->most * sizeof(int));
    case 'k': return row->required || AT(def, int) != AT(none, int);
    case 'b': return AT(def, bool) != AT(none, bool);
    case 'v': return AT(def, pbReals).count > 0;
    case 'f':
    case 'e': return (AT(def, int) & row->arg) != (AT(none, int) & row->arg);
    default: return false;  // classes, other forms of orientations, what code writes
  }
}

// Those at the end that are as they would be without need not be said.
static void put_reals(pbMjcfWriter *w, const pbMjcfRow *row, const double *values, const double *others) {
  int count = row->most;
  PB_ASSERT(row->least <= row->most);

  while (count > row->least && same_reals(values + count - 1, others + count - 1, 1)) count--;
  pbMjcf_PutReals(w, row->attribute, values, count);
}

static void put_ints(pbMjcfWriter *w, const pbMjcfRow *row, const int *values) {
  fprintf(w->out, " %s=\"", row->attribute);

  for (int i = 0; i < row->most; i++) fprintf(w->out, "%s%d", i ? " " : "", values[i]);
  fputc('"', w->out);
}

// The word that stands for a value: "word" or "word=value", counted from 0.
static void put_word(pbMjcfWriter *w, const pbMjcfRow *row, int value) {
  int next = 0;

  for (const char *at = row->words; *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " "), name = strcspn(at, "= ");
    int stated = name < length ? (int)strtol(at + name + 1, NULL, 10) : next;

    // One that is refused is no value of a model.
    if (stated == value && *at != '!') {
      fprintf(w->out, " %s=\"%.*s\"", row->attribute, (int)name, at);
      return;
    }

    next = stated + 1;
    at += length;
  }
}

static void put_row(pbMjcfWriter *w, const pbMjcfRow *row, const void *def, const void *none) {
  // Letters of the schema: a value goes out as it came in.
  switch (row->type) {
    case 'n': pbMjcf_PutText(w, row->attribute, *(const char *const *)def); return;
    case 't': pbMjcf_PutText(w, row->attribute, text_of(AT(def, char *const))); return;
    case 'd':
    case 'q': put_reals(w, row, &AT(def, double), &AT(none, double)); return;
    case 'i': put_ints(w, row, &AT(def, int)); return;
    case 'k': put_word(w, row, AT(def, int)); return;
    case 'b': put_word(w, row, AT(def, bool)); return;
    case 'v': pbMjcf_PutReals(w, row->attribute, AT(def, pbReals).data, AT(def, pbReals).count); return;
    default: {  // a flag that disables, or one that enables: words in this order
      bool set = AT(def, int) & row->arg;
      put_word(w, row, set == (row->type == 'e'));
      return;
    }
  }
}

static bool is_in(const char *without, const char *attribute) {
  size_t length = strlen(attribute);
  const char *at = without ? strstr(without, attribute) : NULL;

  // Names have blanks on both sides.
  while (at && (at[-1] != ' ' || at[length] != ' ')) at = strstr(at + 1, attribute);
  return at != NULL;
}

void pbMjcf_PutRows(pbMjcfWriter *w, const char *path, const void *def, const void *none, const char *without) {
  for (int i = 0; i < w->row_count; i++) {
    const pbMjcfRow *row = &w->rows[i];
    if (!row->attribute || strcmp(row->element, path) != 0 || is_in(without, row->attribute)) continue;

    // Those that are nowhere are read, and written, by code.
    bool here = row->offset != pb_mjcfNowhere || row->type == 'n';
    if (here && is_said(row, def, none)) put_row(w, row, def, none);
  }
}

bool pbMjcf_HasRows(const pbMjcfWriter *w, const char *path, const void *def, const void *none) {
  for (int i = 0; i < w->row_count; i++) {
    const pbMjcfRow *row = &w->rows[i];
    bool of = row->attribute && !strcmp(row->element, path) && row->offset != pb_mjcfNowhere;
    if (of && is_said(row, def, none)) return true;
  }
  return false;
}
