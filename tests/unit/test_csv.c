// Recordings in CSV: every rule of docs/csv.md, every error with file, line and column, units, files that are long or too long.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/array.h>

#include "io/arrays/csv.h"
#include "support/meter.h"
#include "support/one_context.h"
#include "support/support.h"

static pbArrays *parse(const char *text) {
  pbArrays *set = NULL;
  good(ctx, pbArrays_Parse(ctx, text, strlen(text), "log.csv", &set));
  return set;
}

// Sample `row` of a column.
static double sample(const pbArrays *set, const char *name, size_t row) {
  const pbArray *a = pbArrays_Find(set, name);
  assert_non_null(a);
  assert_true(a->type == pb_arrayReal && a->ndim == 1 && row < a->count);
  return a->reals[row];
}

// A text is refused, with this in its message.
static void refused(const char *text, size_t length, const char *message) {
  pbArrays *set = NULL;
  pbStatus status = pbArrays_Parse(ctx, text, length, "log.csv", &set);
  if (status != pb_bad_input || !strstr(pbContext_Error(ctx), message))
    fail_msg("found '%s' (%s), expected '%s'", pbContext_Error(ctx), pbStatus_Text(status), message);
  assert_null(set);
}
static void bad(const char *text, const char *message) { refused(text, strlen(text), message); }

// ---- the grammar ------------------------------------------------------------------------------------------------------
static void test_header_and_rows(void **state) {
  (void)state;
  pbArrays *set = parse("time,knee [deg],hip (rad), q[0],tip.x [mm]\n0,180,1,2,3\n0.5,-90,-1e2,+2.5,.5\n");
  assert_int_equal(pbArrays_Count(set), 5);
  assert_string_equal(pbArrays_At(set, 1)->name, "knee");
  assert_int_equal(pbArrays_At(set, 1)->count, 2);
  assert_true(sample(set, "time", 1) == 0.5);
  assert_true(sample(set, "knee", 0) == 3.14159265358979323846);
  assert_true(sample(set, "hip", 1) == -100);
  assert_true(sample(set, "q[0]", 1) == 2.5);
  assert_true(sample(set, "tip.x", 0) == 0.003);
  pbArrays_Destroy(set);
}

static void test_separators(void **state) {
  (void)state;
  static const char *const texts[] = {
      "a,b\n1,2.5\n", "a;b\n1;2.5\n", "a;b\n1;2,5\n", "a\tb\n1\t2.5\n", " a , b \n 1 ,\t2.5 \t\n", "a\tb, c\n1\t2.5\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    pbArrays *set = parse(texts[i]);
    assert_int_equal(pbArrays_Count(set), 2);
    assert_true(sample(set, "a", 0) == 1 && pbArrays_At(set, 1)->reals[0] == 2.5);
    pbArrays_Destroy(set);
  }
}

// As strtod reads them, to the last bit.
static void test_numbers(void **state) {
  (void)state;
  static const char *const fixed[] = {"0",
                                      "-0",
                                      "+1",
                                      ".5",
                                      "5.",
                                      "-.25",
                                      "123456789012345",
                                      "1234567890123456",
                                      "0.1234567890123456789",
                                      "1e22",
                                      "1e-22",
                                      "1E+3",
                                      "-1.5e-300",
                                      "4.9e-324",
                                      "1.7976931348623157e308",
                                      "00012",
                                      "0.000000000000001",
                                      "9007199254740993",
                                      "0.1",
                                      "2.2250738585072011e-308",
                                      "123456789.012345"};
  uint64_t seed = 5;
  for (size_t i = 0; i < 20000; i++) {
    char number[64], text[100];
    int digits = 1 + (int)(i % 18), power = (int)(i / 18 % 40) - 20;
    if (i < sizeof fixed / sizeof *fixed) snprintf(number, sizeof number, "%s", fixed[i]);
    else if (i % 2) snprintf(number, sizeof number, "%.*f", digits, noise64(&seed) * (double)(1 << i % 20));
    else snprintf(number, sizeof number, "%.*fe%d", digits, noise64(&seed), power);
    snprintf(text, sizeof text, "a\n%s\n", number);
    pbArrays *set = parse(text);
    double expected = strtod(number, NULL), found = sample(set, "a", 0);
    if (memcmp(&expected, &found, sizeof found) != 0) fail_msg("%s: %.17g", number, found);
    pbArrays_Destroy(set);
  }
}

static void test_quotes(void **state) {
  (void)state;
  pbArrays *set = parse("\"a, b\" , \"c \"\"d\"\" [s]\",\"e\"\n\"1\", \"2\",3\n\"\",\"NA\",\"4\"\n");
  assert_int_equal(pbArrays_Count(set), 3);
  assert_true(sample(set, "a, b", 0) == 1);
  assert_true(sample(set, "c \"d\"", 0) == 2);
  assert_true(isnan(sample(set, "a, b", 1)) && isnan(sample(set, "c \"d\"", 1)) && sample(set, "e", 1) == 4);
  pbArrays_Destroy(set);
}

static void test_missing_samples(void **state) {
  (void)state;
  pbArrays *set = parse("a,b,c\n,nan,NaN\nNA,null,NULL\n-nan, ,7\n,,\n");
  for (size_t i = 0; i < 3; i++) {
    for (size_t k = 0; k < 4; k++) {
      double value = pbArrays_At(set, i)->reals[k];
      assert_true(i == 2 && k == 2 ? value == 7 : isnan(value));
    }
  }
  pbArrays_Destroy(set);
}

static void test_lines(void **state) {
  (void)state;
  // a mark before the text; comments and blank lines; every kind of line end; none at the last
  static const char *const texts[] = {
      "\xEF\xBB\xBF"
      "a,b\n1,2\n3,4",
      "# of \"robot 2\"\n\n  # , ; \na,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n\r\n3,4\r\n", "a,b\r1,2\r3,4\r",
      "\n\na,b\n\n1,2\n  \n3,4\n\n\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    pbArrays *set = parse(texts[i]);
    assert_int_equal(pbArrays_Count(set), 2);
    assert_int_equal(pbArrays_At(set, 1)->count, 2);
    assert_true(sample(set, "a", 0) == 1 && sample(set, "b", 1) == 4);
    pbArrays_Destroy(set);
  }

  // lines are counted as an editor counts them
  char text[200];
  pbArrays *set = parse("# log\r\na,b\r\n1,2\r\n\r\n3,4");
  assert_string_equal(pbArrays_Place(set, pbArrays_At(set, 1), 1, text, sizeof text), "log.csv:5: column 2 'b'");
  assert_string_equal(pbArrays_Place(set, pbArrays_At(set, 0), SIZE_MAX, text, sizeof text), "log.csv:2: column 1 'a'");
  pbArrays_Destroy(set);
}

static void test_one_column(void **state) {
  (void)state;
  pbArrays *set = parse("knee [rad]\n1.5\n\n2");
  assert_int_equal(pbArrays_Count(set), 1);
  assert_int_equal(pbArrays_At(set, 0)->count, 2);
  pbArrays_Destroy(set);
}

static void test_which_files(void **state) {
  (void)state;
  pbArrays *set = NULL;
  static const char text[] = "a,b\n1,2\n", greek[] = "\xCE\xB1\n1\n";

  // by its name, or because it is text
  good(ctx, pbArrays_Parse(ctx, text, strlen(text), "log.txt", &set));
  assert_non_null(pbArrays_Csv(set));
  pbArrays_Destroy(set);
  good(ctx, pbArrays_Parse(ctx, greek, strlen(greek), "log", &set));
  pbArrays_Destroy(set);

  // a name may say that it is none; bytes are none, unless they are called so
  assert_int_equal(pbArrays_Parse(ctx, text, strlen(text), "log.NPZ", &set), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "log.NPZ: is neither an NPY nor an NPZ file"));
  assert_int_equal(pbArrays_Parse(ctx, "\1\2\3\4", 4, "log.dat", &set), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "neither an NPY nor an NPZ file, nor text as CSV"));
  assert_int_equal(pbArrays_Parse(ctx, "\xE9t\xE9,b\n1,2\n", 10, "log.dat", &set), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "nor text as CSV"));
  refused("\1\2\3\4", 4, "log.csv:1: byte 1 of the line is a control character (1)");

  // an array of another file has no place
  good(ctx, pbArrays_Create(ctx, &set));
  assert_null(pbArrays_Csv(set));
  pbArrays_Destroy(set);
}

// ---- units ------------------------------------------------------------------------------------------------------------
static const struct {
  const char *text;
  double si;
  const char *dimension;
} units[] = {{"rad", 1, "rad"},
             {"s", 1, "s"},
             {"m", 1, "m"},
             {"kg", 1, "kg"},
             {"N", 1, "N"},
             {"N m", 1, "N m"},
             {"A", 1, "A"},
             {"V", 1, "V"},
             {"deg", 0.017453292519943295, "rad"},
             {"\xC2\xB0", 0.017453292519943295, "rad"},
             {"ms", 1e-3, "s"},
             {"us", 1e-6, "s"},
             {"\xC2\xB5s", 1e-6, "s"},
             {"\xCE\xBCs", 1e-6, "s"},
             {"ns", 1e-9, "s"},
             {"min", 60, "s"},
             {"h", 3600, "s"},
             {"mm", 1e-3, "m"},
             {"cm", 1e-2, "m"},
             {"km", 1e3, "m"},
             {"in", 0.0254, "m"},
             {"ft", 0.3048, "m"},
             {"gram", 1e-3, "kg"},
             {"g", 9.80665, "m/s^2"},
             {"mg", 9.80665e-3, "m/s^2"},
             {"rpm", 0.10471975511965977, "rad/s"},
             {"deg/s", 0.017453292519943295, "rad/s"},
             {"deg/s^2", 0.017453292519943295, "rad/s^2"},
             {"rev/s", 6.283185307179586, "rad/s"},
             {"m/s", 1, "m/s"},
             {"m/s^2", 1, "m/s^2"},
             {"m/s2", 1, "m/s^2"},
             {"m s^-2", 1, "m/s^2"},
             {"m/s\xC2\xB2", 1, "m/s^2"},
             {"m s\xE2\x81\xBB\xC2\xB2", 1, "m/s^2"},
             {"m/s/s", 1, "m/s^2"},
             {"mm/s", 1e-3, "m/s"},
             {"km/h", 1000 / 3600.0, "m/s"},
             {"Nm", 1, "N m"},
             {"N*m", 1, "N m"},
             {"N.m", 1, "N m"},
             {"N\xC2\xB7m", 1, "N m"},
             {"mN m", 1e-3, "N m"},
             {"mNm", 1e-3, "N m"},
             {"kN", 1e3, "N"},
             {"mA", 1e-3, "A"},
             {"kV", 1e3, "V"},
             {"Hz", 1, "1/s"},
             {"1/s", 1, "1/s"},
             {"kg m^2/s", 1, "kg m^2/s"},
             {"J", 1, "N m"},
             {"W", 1, "W"},
             {"N m/s", 1, "W"},
             {"kPa", 1e3, "Pa"},
             {"N/m^2", 1, "Pa"},
             {"uT", 1e-6, "T"},
             {"K", 1, "K"},
             {"%", 0.01, "1"},
             {"1", 1, "1"},
             {"-", 1, "1"},
             {"N/m", 1, "kg/s^2"},
             {"N m s/rad", 1, "kg m^2/s/rad"}};

static void test_units(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    pbUnit unit;
    char text[PB_UNIT_TEXT];
    if (!pbUnit_Parse(units[i].text, &unit)) fail_msg("%s", units[i].text);
    double si = pbUnit_ToSi(&unit, 1);
    if (fabs(si - units[i].si) > 1e-15 * fabs(si)) fail_msg("%s: %.17g", units[i].text, si);
    assert_string_equal(pbUnit_Text(&unit, text, sizeof text), units[i].dimension);
    assert_true(pbUnit_Fits(&unit, units[i].dimension));
  }

  // milliseconds are those of the literal in seconds; temperatures have another zero
  pbUnit unit;
  assert_true(pbUnit_Parse("ms", &unit) && pbUnit_ToSi(&unit, 57) == 0.057 && pbUnit_ToSi(&unit, 1037) == 1.037);
  assert_true(pbUnit_Parse("degC", &unit) && pbUnit_ToSi(&unit, 20) == 293.15);
}

static void test_units_that_are_none(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",    " ",    "foo",    "count", "m/",      "/s",   "m//s", "m^",  "m^-", "N m/rad s", "1/s m",
      "g/s", "kg g", "degC/s", "m^0",   "meterss", "m(s)", "xs",   "kkg", "2",   "10",        "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    pbUnit unit;
    if (pbUnit_Parse(texts[i], &unit)) fail_msg("'%s' is a unit", texts[i]);
  }
}

static void test_dimensions_fit(void **state) {
  (void)state;
  pbUnit degrees, metres, one, none = pbUnit_None();
  assert_true(pbUnit_Parse("deg", &degrees) && pbUnit_Parse("mm", &metres) && pbUnit_Parse("1", &one));
  assert_true(pbUnit_Fits(&degrees, "rad") && !pbUnit_Fits(&degrees, "m") && !pbUnit_Fits(&degrees, "1"));
  assert_true(pbUnit_Fits(&metres, "m") && !pbUnit_Fits(&metres, "rad") && !pbUnit_Fits(&metres, "m/s"));
  assert_true(pbUnit_Fits(&none, "m") && pbUnit_Fits(&none, "rad"));
  assert_true(pbUnit_Fits(&one, "rad") && pbUnit_Fits(&one, "1") && !pbUnit_Fits(&one, "m"));
}

// ---- errors -----------------------------------------------------------------------------------------------------------
static void test_errors_of_the_header(void **state) {
  (void)state;
  bad("", "is empty");
  bad("\n\n", "log.csv: has no header");
  bad("# a,b\n", "log.csv: has no header");
  bad("a,b\n", "log.csv:1: a header without rows");
  bad("# log\na,b\n\n  \n", "log.csv:2: a header without rows");
  bad("1,2\n3,4\n", "log.csv:1: expected a header with the names of columns, found numbers");
  bad("# a,b\n1,nan\n", "log.csv:2: expected a header");
  bad("a,b,a\n1,2,3\n", "log.csv:1: column 3: the name 'a' is that of column 1 already");
  bad("a [deg],a [rad]\n1,2\n", "log.csv:1: column 2: the name 'a' is that of column 1 already");
  bad("a [furlong],b\n1,2\n", "log.csv:1: column 1: 'furlong': unknown unit");
  bad("a,b [radd]\n1,2\n", "column 2: 'radd': unknown unit, did you mean 'rad'?");
  bad("a,b []\n1,2\n", "column 2: '': unknown unit");
  bad(",b\n1,2\n", "log.csv:1: column 1: has no name (an index of rows?");
  bad("a,b,\n1,2,\n", "log.csv:1: column 3: has no name (a separator at the end of the line?)");
  bad("a,[deg]\n1,2\n", "log.csv:1: column 2: has no name");
  bad("\"a,b\n1,2\n", "log.csv:1: column 1: a quote is not closed on its line");
  bad("\xFF\xFE"
      "a",
      "log.csv:1: is text in UTF-16; expected UTF-8");
  bad("a,\xE9\n1,2\n", "log.csv:1: byte 3 of the line is no UTF-8");
  bad("a,b\xC0\x80\n1,2\n", "log.csv:1: byte 4 of the line is no UTF-8");

  char text[600] = {0};
  memset(text, 'a', 300);
  strcat(text, "\n1\n");
  bad(text, "a name of more than 200 bytes");
}

static void test_errors_of_rows(void **state) {
  (void)state;
  bad("a,b\n1,2\n3\n", "log.csv:3: 1 field, the header has 2");
  bad("a,b\n1,2\n\n3,4,5\n", "log.csv:4: 3 fields, the header has 2");
  bad("a,knee [deg]\n1,2\n3,x\n", "log.csv:3: column 2 'knee': expected a number, found 'x'");
  bad("a,b\n1,inf\n", "log.csv:2: column 2 'b': expected a number, found 'inf'");
  bad("a,b\n1,0x10\n", "expected a number, found '0x10'");
  bad("a,b\n1,1.2.3\n", "expected a number, found '1.2.3'");
  bad("a,b\n1,-\n", "expected a number, found '-'");
  bad("a,b\n1,1e\n", "expected a number, found '1e'");
  bad("a,b\n1,1 2\n", "expected a number, found '1 2'");
  bad("a,b\n1,1e999\n", "log.csv:2: column 2 'b': '1e999' is too large");
  bad("a,b [km]\n1,1e307\n", "'1e307' is too large");
  bad("a,b\n1,2\n# 3,4\n", "log.csv:3: column 1 'a': expected a number, found '# 3'");
  bad("a,b\n1,\"2\n", "log.csv:2: column 2 'b': a quote is not closed on its line");
  bad("a,b\n1,\"2\"x\n", "log.csv:2: column 2 'b': expected a separator behind the closing quote, found 'x'");
  bad("a,b\n1,2\"\n", "log.csv:2: column 2 'b': a quote within a field that does not begin with one");
  bad("a,b\n1,\xFF\n", "log.csv:2: byte 3 of the line is no UTF-8");
  refused("a,b\n1,\0\n", 8, "log.csv:2: byte 3 of the line is a control character (0)");

  // decimal commas
  bad("a;b\n1,5;2\n1;2.5\n", "log.csv:3: column 2 'b': '2.5' has a decimal point, line 2 a decimal comma");
  bad("a;b\n1.5;2\n1;2,5\n", "log.csv:3: column 2 'b': '2,5' has a decimal comma, line 2 a decimal point");
  bad("a;b\n1.234,5;2\n", "expected a number, found '1.234,5' (digits are not grouped");
  bad("a;b\n1,234,5;2\n", "expected a number, found '1,234,5'");
  bad("a\tb\n1,5\t2\n", "a decimal comma needs semicolons between columns");
  bad("a,b\n\"1,5\",2\n", "a decimal comma needs semicolons between columns");
}

static void test_a_long_line_is_refused(void **state) {
  (void)state;
  size_t n = (2u << 20) + 8;
  char *text = malloc(n + 1);
  memset(text, '1', n);
  text[n] = 0;
  memcpy(text, "a\n", 2);
  bad(text, "log.csv:2: a line of more than 1048576 bytes");
  free(text);
}

// ---- sizes ------------------------------------------------------------------------------------------------------------
// Rows "k,0.5" of a file, more than 9 bytes each.
static char *many_rows(size_t rows, size_t *length) {
  char *text = malloc(16 * rows + 64);
  size_t at = (size_t)sprintf(text, "time [ms],knee [deg]\n");
  for (size_t k = 0; k < rows; k++) at += (size_t)sprintf(text + at, "%zu,-0.%04zu\n", k, k % 10000);
  *length = at;
  return text;
}

static double seconds_of(size_t rows, Meter *meter) {
  pbAllocator hooks = meter_hooks(meter);
  pbContext *own = pbContext_Create(&hooks);
  size_t length;
  char *text = many_rows(rows, &length);
  pbArrays *set = NULL;
  struct timespec from, to;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  good(own, pbArrays_Parse(own, text, length, "log.csv", &set));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);

  assert_int_equal(pbArrays_At(set, 1)->count, rows);
  assert_true(sample(set, "time", rows - 1) == (double)(rows - 1) / 1000);
  pbArrays_Destroy(set);
  free(text);
  pbContext_Destroy(own);
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

// Time grows with the rows, and memory is what the numbers take, with four bytes a row and two buffers beside them.
static void test_a_million_rows(void **state) {
  (void)state;
  Meter few = {0}, many = {0};
  double tenth = seconds_of(100000, &few), whole = seconds_of(1000000, &many);
  if (whole > 40 * tenth) fail_msg("%g s for 10 times the rows of %g s", whole, tenth);
  assert_true(many.most < 1000000 * (2 * 8 + 4) + (2u << 20));
  assert_true(few.most < 100000 * (2 * 8 + 4) + (2u << 20));
}

// What would not fit is refused when its rows are counted.
static void test_too_large(void **state) {
  (void)state;
  enum { columns = 30000, rows = 5000 };
  size_t length = 8 * columns + (size_t)rows * (columns + 1);
  char *text = malloc(length + 1), *at = text;
  for (int i = 0; i < columns; i++) at += sprintf(at, "%sc%d", i ? "," : "", i);
  *at++ = '\n';
  for (int k = 0; k < rows; k++) {
    memset(at, ',', columns - 1);
    at += columns - 1;
    *at++ = '\n';
  }

  Meter meter = {0};
  pbAllocator hooks = meter_hooks(&meter);
  pbContext *own = pbContext_Create(&hooks);
  pbArrays *set = NULL;
  assert_int_equal(pbArrays_Parse(own, text, (size_t)(at - text), "log.csv", &set), pb_capacity);
  assert_non_null(strstr(pbContext_Error(own), "log.csv: 5000 rows of 30000 columns; more than 960 MiB are not held"));
  assert_true(meter.most < 2u << 20);
  pbContext_Destroy(own);
  free(text);
}

static void test_too_many_columns(void **state) {
  (void)state;
  enum { columns = 70000 };
  char *text = malloc(10 * columns), *at = text;
  for (int i = 0; i < columns; i++) at += sprintf(at, "%sc%d", i ? "," : "", i);
  *at++ = '\n';
  memset(at, ',', columns - 1);
  at[columns - 1] = 0;
  bad(text, "log.csv: more than 65536 arrays");
  free(text);
}

static void test_memory_that_is_not_there(void **state) {
  (void)state;
  static const char text[] = "time [s],knee [deg],hip\n0,1,2\n0.1,2,\n";
  for (long n = 1;; n++) {
    Meter meter = {.fail_at = n};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *own = pbContext_Create(&hooks);
    pbArrays *set = NULL;
    pbStatus status = own ? pbArrays_Parse(own, text, strlen(text), "log.csv", &set) : pb_no_memory;
    assert_true(status == pb_ok || status == pb_no_memory);
    pbArrays_Destroy(set);
    pbContext_Destroy(own);
    assert_int_equal(meter.live, 0);
    if (!meter.failed) return;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_header_and_rows),
                                     cmocka_unit_test(test_separators),
                                     cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_quotes),
                                     cmocka_unit_test(test_missing_samples),
                                     cmocka_unit_test(test_lines),
                                     cmocka_unit_test(test_one_column),
                                     cmocka_unit_test(test_which_files),
                                     cmocka_unit_test(test_units),
                                     cmocka_unit_test(test_units_that_are_none),
                                     cmocka_unit_test(test_dimensions_fit),
                                     cmocka_unit_test(test_errors_of_the_header),
                                     cmocka_unit_test(test_errors_of_rows),
                                     cmocka_unit_test(test_a_long_line_is_refused),
                                     cmocka_unit_test(test_a_million_rows),
                                     cmocka_unit_test(test_too_large),
                                     cmocka_unit_test(test_too_many_columns),
                                     cmocka_unit_test(test_memory_that_is_not_there)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
