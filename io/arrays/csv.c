// CSV of recordings: a header with names and units, then rows of numbers. The grammar is docs/csv.md, each rule of it a function
// here. The file is read twice, line by line: once to count its rows, so that memory is known before it is taken.
// Tests: tests/unit/test_csv.c.
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/text.h"
#include "io/arrays/arrays.h"
#include "io/arrays/csv.h"
#include "io/file.h"

enum { MOST_LINE = 1 << 20, BUFFER = 1 << 16, MOST_NAME = 200 };

typedef struct Reader {
  pbContext *ctx;
  FILE *stream;
  const char *file;
  locale_t locale;

  // lines
  char *buffer, *line;
  size_t buffered, at, length, number;  // number: of the line, from 1
  bool end;

  // fields of the line at hand
  char separator, decimal;  // decimal: "." or ",", 0 while no number had either
  size_t decimal_line;
  char *next;     // NULL behind the last field
  size_t column;  // of the field at hand, from 1
  bool quoted;    // it was

  pbArrays *set;
} Reader;

// ---- messages ---------------------------------------------------------------------------------------------------------
// At the line at hand, and at its column where there is one.
static pbStatus fail(const Reader *r, const char *format, ...) PB_PRINTF(2, 3);
static pbStatus fail(const Reader *r, const char *format, ...) {
  char text[600], column[MOST_NAME + 40] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  const pbArray *array = r->column ? pbArrays_At(r->set, r->column - 1) : NULL;
  if (array) snprintf(column, sizeof column, "column %zu '%s': ", r->column, array->name);
  else if (r->column) snprintf(column, sizeof column, "column %zu: ", r->column);
  return pbContext_Fail(r->ctx, pb_bad_input, "%s:%zu: %s%s", r->file, r->number, column, text);
}

static pbStatus no_memory(const Reader *r) { return pbContext_Fail(r->ctx, pb_no_memory, "%s: out of memory", r->file); }

// ---- lines ------------------------------------------------------------------------------------------------------------
// More bytes of the stream, where none are left; false: there are none, or it failed.
static bool fill_buffer(Reader *r) {
  if (r->at < r->buffered) return true;

  r->buffered = fread(r->buffer, 1, BUFFER, r->stream);
  r->at = 0;
  return r->buffered > 0;
}

// Bytes to the end of a line, or to that of the buffer.
static size_t line_bytes(const Reader *r) {
  const char *from = r->buffer + r->at;
  size_t count = r->buffered - r->at;

  const char *feed = memchr(from, '\n', count);
  if (feed) count = (size_t)(feed - from);
  const char *back = memchr(from, '\r', count);
  return back ? (size_t)(back - from) : count;
}

static pbStatus check_characters(const Reader *r) {
  const char *end = r->line + r->length;
  for (const char *at = r->line; at < end;) {
    // nearly all of them
    if (*at >= 32 && *at < 127) {
      at++;
      continue;
    }

    size_t bytes = pbText_Character(at, end);

    if (bytes == 0) return fail(r, "byte %zu of the line is no UTF-8", (size_t)(at - r->line) + 1);
    if (((unsigned char)*at < 32 && *at != '\t') || *at == 127)
      return fail(r, "byte %zu of the line is a control character (%d)", (size_t)(at - r->line) + 1, *at);
    at += bytes;
  }
  return pb_ok;
}

// The next line, without its end (LF, CR LF or CR); r->end where there is none any more.
static pbStatus read_line(Reader *r) {
  r->length = 0;
  r->column = 0;
  r->number++;

  char end = 0;
  while (!end && fill_buffer(r)) {
    size_t bytes = line_bytes(r);
    if (bytes > MOST_LINE - r->length) return fail(r, "a line of more than %d bytes", MOST_LINE);
    memcpy(r->line + r->length, r->buffer + r->at, bytes);
    r->length += bytes;
    r->at += bytes;
    if (r->at < r->buffered) end = r->buffer[r->at++];
  }

  // CR LF is one end
  r->end = !end && r->length == 0;
  if (end == '\r' && fill_buffer(r) && r->buffer[r->at] == '\n') r->at++;
  if (ferror(r->stream)) return pbFile_CannotRead(r->ctx, r->file);

  // a byte order mark is no character of the text
  if (r->number == 1 && r->length >= 3 && memcmp(r->line, "\xEF\xBB\xBF", 3) == 0) {
    r->length -= 3;
    memmove(r->line, r->line + 3, r->length);
  }

  // fields end at zeros
  r->line[r->length] = 0;
  return pb_ok;
}

// Tabs are blank unless they are separators.
static bool is_blank(const Reader *r) { return strspn(r->line, r->separator == '\t' ? " " : " \t") == r->length; }

// From the beginning to the header: the first line that is neither blank nor a comment.
static pbStatus find_header(Reader *r) {
  // nothing that was read ahead is kept
  rewind(r->stream);
  r->number = 0;
  r->buffered = 0;
  r->at = 0;

  do {
    PB_TRY(read_line(r));
    if (r->number == 1 && r->length >= 2 && (memcmp(r->line, "\xFF\xFE", 2) == 0 || memcmp(r->line, "\xFE\xFF", 2) == 0))
      return fail(r, "is text in UTF-16; expected UTF-8");
    PB_TRY(check_characters(r));
  } while (!r->end && (is_blank(r) || r->line[strspn(r->line, " ")] == '#'));

  if (!r->end) return pb_ok;
  return pbContext_Fail(r->ctx, pb_bad_input, "%s: has no header; expected a line with the names of columns", r->file);
}

static pbStatus count_rows(Reader *r, size_t *rows) {
  *rows = 0;

  for (;;) {
    PB_TRY(read_line(r));
    if (r->end) return pb_ok;
    *rows += !is_blank(r);
  }
}

// ---- fields -----------------------------------------------------------------------------------------------------------
// Outside of quotes the header has a tab, else a semicolon, else commas between its fields.
static char find_separator(const Reader *r) {
  bool quoted = false, semicolon = false, tab = false;

  for (size_t i = 0; i < r->length; i++) {
    quoted ^= r->line[i] == '"';
    tab = tab || (!quoted && r->line[i] == '\t');
    semicolon = semicolon || (!quoted && r->line[i] == ';');
  }

  if (tab) return '\t';
  return semicolon ? ';' : ',';
}

static void begin_fields(Reader *r) {
  r->next = r->line;
  r->column = 0;
}

static char *skip_blanks(const Reader *r, char *at) {
  while (*at == ' ' || (*at == '\t' && r->separator != '\t')) at++;
  return at;
}

// A field in quotes, at the first of them: doubled quotes are one. *end: behind the closing one.
static pbStatus take_quoted(Reader *r, char *from, char **text, char **end) {
  char *to = from, *at = from + 1;
  *text = from;
  r->quoted = true;

  while (*at && (*at != '"' || at[1] == '"')) {
    if (*at == '"') at++;
    *to++ = *at++;
  }
  if (!*at) return fail(r, "a quote is not closed on its line");

  // blanks at most before what comes next
  at = skip_blanks(r, at + 1);
  if (*at && *at != r->separator) return fail(r, "expected a separator behind the closing quote, found '%.20s'", at);

  *to = 0;
  *end = at;
  return pb_ok;
}

// The next field of the line, without blanks around it, with a zero behind it.
static pbStatus take_field(Reader *r, char **text) {
  PB_ASSERT(r->next);
  char *from = skip_blanks(r, r->next), *end = from;
  r->column++;
  r->quoted = false;

  bool last;
  // an empty one, too
  if (*from == '"') {
    PB_TRY(take_quoted(r, from, text, &end));
    last = !*end;
  } else {
    while (*end && *end != r->separator) {
      if (*end == '"') return fail(r, "a quote within a field that does not begin with one");
      end++;
    }

    // without blanks behind it
    last = !*end;
    char *behind = end;
    while (behind > from && (behind[-1] == ' ' || behind[-1] == '\t')) behind--;
    *behind = 0;
    *text = from;
  }

  r->next = last ? NULL : end + 1;
  return pb_ok;
}

// ---- numbers ----------------------------------------------------------------------------------------------------------
static bool is_missing(const char *text) {
  static const char *const words[] = {"", "nan", "-nan", "na", "null"};

  // most are numbers
  char first = *text == '-' ? text[1] : *text;
  if (first >= '.' && first <= '9') return false;

  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcasecmp(text, words[i]) == 0) return true;
  }
  return false;
}

// Up to 15 digits and a small power of ten: the quotient or product of two doubles that are exact, which is the number rounded
// once, as strtod rounds it (Clinger 1990). Logs have hardly any others.
static bool is_short(const char *text, double *value) {
  static const double tens[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  bool minus = *text == '-', point = false;
  int digits = 0, behind = 0;
  uint64_t whole = 0;

  for (text += minus || *text == '+'; *text && digits <= 15; text++) {
    if (*text == '.' && !point) {
      point = true;
      continue;
    }
    if (*text < '0' || *text > '9') return false;
    whole = 10 * whole + (uint64_t)(*text - '0');
    behind += point;
    digits++;
  }
  if (*text || digits == 0 || digits > 15) return false;

  *value = (minus ? -1 : 1) * ((double)whole / tens[behind]);
  return true;
}

// Decimal digits with a point: what strtod takes beyond that (hexadecimal, "inf") is none here. HUGE_VAL: too large.
static bool is_number(const Reader *r, const char *text, double *value) {
  char *end = NULL;
  if (is_short(text, value)) return true;

  // no letters but that of a power of ten
  if (strspn(text, "0123456789.eE+-") != strlen(text) || !strpbrk(text, "0123456789")) return false;

  *value = strtod_l(text, &end, r->locale);
  return !*end;
}

// Between semicolons a comma may stand for the point, in all of the file or in nothing of it.
static pbStatus settle_decimal(Reader *r, char *text) {
  char *comma = strchr(text, ','), *point = strchr(text, '.');
  if (!comma && !point) return pb_ok;

  // "1.234,5", "1,234,567"
  if (comma && (r->separator != ';' || point || strchr(comma + 1, ',')))
    return fail(r, "expected a number, found '%.40s' (digits are not grouped; a decimal comma needs semicolons between columns)",
                text);

  char found = comma ? ',' : '.';
  if (r->decimal && r->decimal != found)
    return fail(r, "'%.40s' has a decimal %s, line %zu a decimal %s: expected one of both throughout", text,
                comma ? "comma" : "point", r->decimal_line, comma ? "point" : "comma");

  if (!r->decimal) r->decimal_line = r->number;
  r->decimal = found;
  if (comma) *comma = '.';
  return pb_ok;
}

static pbStatus take_number(Reader *r, const pbUnit *unit, double *value) {
  char *text;
  PB_TRY(take_field(r, &text));

  if (is_missing(text)) {
    *value = NAN;
    return pb_ok;
  }

  // with a point from here on
  double number = 0;
  PB_TRY(settle_decimal(r, text));
  if (!is_number(r, text, &number))
    return fail(r, "expected a number, found '%.40s' (missing samples: nothing, nan, NA or null)", text);

  *value = pbUnit_ToSi(unit, number);
  if (!isfinite(*value)) return fail(r, "'%.40s' is too large", text);
  return pb_ok;
}

// ---- the header -------------------------------------------------------------------------------------------------------
// "knee [deg]" or "knee (deg)": where the brackets begin, or NULL. "q[0]" is a name: digits right behind it are no unit.
static char *find_unit(char *text) {
  size_t n = strlen(text);
  if (n < 2 || (text[n - 1] != ']' && text[n - 1] != ')')) return NULL;

  char *open = strrchr(text, text[n - 1] == ']' ? '[' : '(');
  if (!open) return NULL;

  bool digits = strspn(open + 1, "0123456789") == (size_t)(text + n - 1 - (open + 1));
  return digits && (open == text || open[-1] != ' ') ? NULL : open;
}

static char *trim(char *text) {
  char *from = text + strspn(text, " \t"), *end = from + strlen(from);

  while (end > from && (end[-1] == ' ' || end[-1] == '\t')) end--;
  *end = 0;
  return from;
}

// Splits a field into its name and its unit.
static pbStatus read_title(const Reader *r, char *text, char **name, pbUnit *unit) {
  char *open = find_unit(text);
  *unit = pbUnit_None();

  // what is in the brackets, without them
  if (open) {
    text[strlen(text) - 1] = 0;
    char *word = trim(open + 1), hint[100];
    if (!pbUnit_Parse(word, unit)) {
      pbUnit_Hint(word, hint, sizeof hint);
      return fail(
          r,
          "'%.80s': unknown unit%s (m, s, kg, rad, deg, rpm, N, N m, A, V, g, ... with prefixes, their products and quotients)",
          word, hint);
    }
    *open = 0;
  }

  // an index of rows, or a separator at the end of each
  const char *hint = r->column == 1 ? " (an index of rows? write the file without it)" : "";
  if (!r->next) hint = " (a separator at the end of the line?)";
  *name = trim(text);
  if (!**name) return fail(r, "has no name%s", hint);
  return strlen(*name) <= MOST_NAME ? pb_ok : fail(r, "a name of more than %d bytes", MOST_NAME);
}

// Fields of the header, and whether all that they have are numbers.
static pbStatus count_columns(Reader *r, size_t *columns, bool *numbers) {
  bool any = false;
  *numbers = true;

  for (begin_fields(r); r->next;) {
    char *text;
    double value;
    PB_TRY(take_field(r, &text));

    bool number = is_number(r, text, &value);
    any = any || number;
    *numbers = *numbers && (number || is_missing(text));
  }

  *columns = r->column;
  *numbers = *numbers && any;
  return pb_ok;
}

static pbStatus add_column(Reader *r, pbCsv *csv, const char *name, size_t rows) {
  const pbArray *same = pbArrays_Find(r->set, name);
  if (same) return fail(r, "the name '%s' is that of column %zu already", name, (size_t)(same - r->set->items) + 1);

  pbArray *array;
  pbStatus status = pbArrays_Room(r->set, name, pb_arrayReal, 1, &rows, rows * sizeof(double), &array);
  if (status != pb_ok) return pbContext_Fail(r->ctx, status, "%s: %s", r->file, pbContext_Error(r->ctx));
  csv->columns++;
  return pb_ok;
}

static pbStatus read_header(Reader *r, pbCsv *csv, size_t columns, size_t rows) {
  // counted before
  csv->units = pbContext_AllocArray(r->ctx, columns + 1, sizeof *csv->units);
  csv->lines = pbContext_AllocArray(r->ctx, rows + 1, sizeof *csv->lines);
  if (!csv->units || !csv->lines) return no_memory(r);

  // its fields once more, for names and units
  for (begin_fields(r); r->next;) {
    char *text, *name = NULL;
    PB_TRY(take_field(r, &text));
    PB_TRY(read_title(r, text, &name, &csv->units[r->column - 1]));
    PB_TRY(add_column(r, csv, name, rows));
  }
  return pb_ok;
}

// ---- rows -------------------------------------------------------------------------------------------------------------
static pbStatus wrong_length(Reader *r, size_t found, size_t expected) {
  r->column = 0;
  return fail(r, "%zu field%s, the header has %zu", found, found == 1 ? "" : "s", expected);
}

static pbStatus read_row(Reader *r, pbCsv *csv, size_t row) {
  PB_ASSERT(csv->columns == pbArrays_Count(r->set));

  // characters first: fields are told from each other by bytes
  PB_TRY(check_characters(r));
  size_t column = 0;

  for (begin_fields(r); r->next; column++) {
    char *text;
    if (column < csv->columns) PB_TRY(take_number(r, &csv->units[column], &r->set->items[column].reals[row]));
    else PB_TRY(take_field(r, &text));  // counted for the message
  }
  if (column != csv->columns) return wrong_length(r, column, csv->columns);

  csv->lines[row] = r->number < UINT32_MAX ? (unsigned)r->number : UINT32_MAX;
  return pb_ok;
}

static pbStatus read_rows(Reader *r, pbCsv *csv, size_t rows) {
  for (;;) {
    PB_TRY(read_line(r));
    if (r->end) break;
    if (is_blank(r)) continue;

    // the file grows while it is read
    if (csv->rows == rows) return pbContext_Fail(r->ctx, pb_file, "%s: changed while it was read", r->file);
    PB_TRY(read_row(r, csv, csv->rows));
    csv->rows++;
  }
  return csv->rows == rows ? pb_ok : pbContext_Fail(r->ctx, pb_file, "%s: changed while it was read", r->file);
}

// ---- the whole --------------------------------------------------------------------------------------------------------
static pbStatus read_all(Reader *r, pbCsv *csv) {
  size_t rows, columns, bytes;
  bool numbers;

  // what kind of header it is
  PB_TRY(find_header(r));
  csv->header = r->number;
  r->separator = find_separator(r);
  PB_TRY(count_columns(r, &columns, &numbers));
  if (numbers) {
    r->column = 0;
    return fail(r, "expected a header with the names of columns, found numbers (a line that begins with # is a comment)");
  }

  // how much memory it takes, before any of it is taken
  PB_TRY(count_rows(r, &rows));
  if (rows == 0) return pbContext_Fail(r->ctx, pb_bad_input, "%s:%zu: a header without rows", r->file, csv->header);
  if (__builtin_mul_overflow(rows, columns * sizeof(double) + sizeof *csv->lines, &bytes) || bytes > PB_ARRAY_LIMIT)
    return pbContext_Fail(r->ctx, pb_capacity, "%s: %zu rows of %zu columns; more than %zu MiB are not held", r->file, rows,
                          columns, PB_ARRAY_LIMIT >> 20);

  // from the beginning
  PB_TRY(find_header(r));
  PB_TRY(read_header(r, csv, columns, rows));
  return read_rows(r, csv, rows);
}

pbStatus pbCsv_Read(pbContext *ctx, FILE *stream, const char *file, pbArrays *set) {
  Reader r = {.ctx = ctx, .stream = stream, .file = file, .set = set};
  pbCsv *csv = pbContext_Alloc(ctx, sizeof *csv);
  if (!csv) return no_memory(&r);

  // the set has it from here on, and frees it
  set->csv = csv;
  csv->file = pbContext_CopyText(ctx, file);
  r.buffer = pbContext_AllocRoom(ctx, BUFFER);
  r.line = pbContext_AllocRoom(ctx, MOST_LINE + 1);
  r.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pbStatus status = csv->file && r.buffer && r.line && r.locale ? read_all(&r, csv) : no_memory(&r);

  if (r.locale) freelocale(r.locale);
  pbContext_Free(ctx, r.buffer);
  pbContext_Free(ctx, r.line);
  return status;
}

static bool ends_in(const char *name, const char *ending) {
  size_t n = strlen(name), most = strlen(ending);
  return n >= most && strcasecmp(name + n - most, ending) == 0;
}

bool pbCsv_IsOne(const char *name, const unsigned char *start, size_t count) {
  if (ends_in(name, ".csv")) return true;

  // a name that says what the file should be
  if (ends_in(name, ".npy") || ends_in(name, ".npz")) return false;

  // text without control characters, whose last character may be cut
  bool text = count > 0;
  const char *at = (const char *)start, *end = at + count;
  while (text && at < end) {
    size_t bytes = pbText_Character(at, end);
    if (bytes == 0) return end - at < 4;
    text = (unsigned char)*at >= 32 || *at == '\t' || *at == '\n' || *at == '\r';
    at += bytes;
  }
  return text;
}

// ---- columns of a set -------------------------------------------------------------------------------------------------
const pbCsv *pbArrays_Csv(const pbArrays *set) { return set->csv; }

const pbUnit *pbArrays_UnitOf(const pbArrays *set, const pbArray *column) {
  PB_ASSERT(set->csv && (size_t)(column - set->items) < set->csv->columns);
  return &set->csv->units[column - set->items];
}

char *pbArrays_Place(const pbArrays *set, const pbArray *column, size_t row, char *text, size_t size) {
  const pbCsv *csv = set->csv;
  size_t number = (size_t)(column - set->items) + 1;
  PB_ASSERT(csv && number <= csv->columns);
  if (row < csv->rows) snprintf(text, size, "%s:%u: column %zu '%s'", csv->file, csv->lines[row], number, column->name);
  else snprintf(text, size, "%s:%zu: column %zu '%s'", csv->file, csv->header, number, column->name);
  return text;
}
