// Elements and attributes of an MJCF file that is written: by the rows of the schema, so that what is read into a member is
// written from it.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <math.h>
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

static bool same_reals(const double *a, const double *b, int count) { return !memcmp(a, b, (size_t)count * sizeof *a); }

// Those at the end that are as they would be without need not be said.
static void put_reals(pbMjcfWriter *w, const pbMjcfRow *row, const void *def, const void *none) {
  const double *values = &AT(def, double), *others = &AT(none, double);
  int count = row->most;

  PB_ASSERT(row->least <= row->most);

  // NAN: not given.
  if (isnan(values[0]) || (!row->required && same_reals(values, others, count))) return;

  while (count > row->least && same_reals(values + count - 1, others + count - 1, 1)) count--;
  pbMjcf_PutReals(w, row->attribute, values, count);
}

static void put_ints(pbMjcfWriter *w, const pbMjcfRow *row, const void *def, const void *none) {
  const int *values = &AT(def, int);

  if (!row->required && !memcmp(values, &AT(none, int), (size_t)row->most * sizeof *values)) return;

  fprintf(w->out, " %s=\"", row->attribute);

  for (int i = 0; i < row->most; i++) fprintf(w->out, "%s%d", i ? " " : "", values[i]);
  fputc('"', w->out);
}

// The word that stands for a value: "word" or "word=value", counted from 0.
static void put_word(pbMjcfWriter *w, const pbMjcfRow *row, int value) {
  int next = 0;

  for (const char *at = row->words; *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " "), name = strcspn(at, "= ");
    int stated = next;
    if (name < length) sscanf(at + name + 1, "%d", &stated);

    // One that is refused is no value of a model.
    if (stated == value && *at != '!') {
      fprintf(w->out, " %s=\"%.*s\"", row->attribute, (int)name, at);
      return;
    }

    next = stated + 1;
    at += length;
  }
}

static void put_text(pbMjcfWriter *w, const pbMjcfRow *row, const char *text, const char *other) {
  if (text && (row->required || strcmp(text, other ? other : "") != 0)) pbMjcf_PutText(w, row->attribute, text);
}

static void put_row(pbMjcfWriter *w, const pbMjcfRow *row, const void *def, const void *none) {
  // Letters of the schema: a value goes out as it came in.
  switch (row->type) {
    case 'n': put_text(w, row, *(const char *const *)def, ""); return;  // the first member of every element
    case 't': put_text(w, row, AT(def, char *const), AT(none, char *const)); return;
    case 'd':
    case 'q': put_reals(w, row, def, none); return;
    case 'i': put_ints(w, row, def, none); return;
    case 'k':
      if (row->required || AT(def, int) != AT(none, int)) put_word(w, row, AT(def, int));
      return;
    case 'b':
      if (AT(def, bool) != AT(none, bool)) put_word(w, row, AT(def, bool));
      return;
    case 'v':
      if (AT(def, pbReals).count) pbMjcf_PutReals(w, row->attribute, AT(def, pbReals).data, AT(def, pbReals).count);
      return;
    case 'f':  // a flag that disables, or one that enables: words in this order
    case 'e': {
      bool set = AT(def, int) & row->arg, before = AT(none, int) & row->arg;
      if (set != before) put_word(w, row, set == (row->type == 'e'));
      return;
    }
    default: return;  // classes, other forms of orientations, what code writes
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
    if (row->offset != pb_mjcfNowhere || row->type == 'n') put_row(w, row, def, none);
  }
}
