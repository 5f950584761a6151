// Units of recordings: words with their size in SI, prefixes, products and quotients of them.
// Tests: tests/unit/test_csv.c.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/suggest.h"
#include "io/arrays/units.h"

enum { MOST_WORD = 16, MOST_POWER = 9 };

enum {
  with_prefix = 1,  // "mV", "kN", too
  alone = 2         // in a product it would have two meanings: gravity and a gram, a temperature and a difference
};

typedef struct Word {
  const char *name;
  unsigned how;
  double up, down;           // size in SI, as in pbUnit
  int power[PB_UNIT_BASES];  // m, kg, s, A, K, rad
} Word;

#define PI 3.14159265358979323846
#define NEWTON \
  { 1, 1, -2 }
#define JOULE \
  { 2, 1, -2 }
#define RATE \
  { 0, 0, -1, 0, 0, 1 }
#define ANGLE \
  { 0, 0, 0, 0, 0, 1 }
#define GRAVITY    9.80665  // standard, m/s^2: exact by definition
#define POUND_MASS 0.45359237

// Words of several letters stand for themselves before a prefix is looked for: "min" is no milli-inch.
// clang-format off
static const Word words[] = {
  {"m", with_prefix, 1, 1, {1}}, {"metre", 0, 1, 1, {1}}, {"metres", 0, 1, 1, {1}}, {"meter", 0, 1, 1, {1}},
  {"meters", 0, 1, 1, {1}}, {"in", 0, 254, 10000, {1}}, {"inch", 0, 254, 10000, {1}}, {"ft", 0, 3048, 10000, {1}},
  {"kg", 0, 1, 1, {0, 1}}, {"gram", 0, 1, 1000, {0, 1}}, {"grams", 0, 1, 1000, {0, 1}},
  {"lb", 0, POUND_MASS, 1, {0, 1}}, {"t", 0, 1000, 1, {0, 1}},
  {"s", with_prefix, 1, 1, {0, 0, 1}}, {"sec", 0, 1, 1, {0, 0, 1}}, {"second", 0, 1, 1, {0, 0, 1}},
  {"seconds", 0, 1, 1, {0, 0, 1}}, {"min", 0, 60, 1, {0, 0, 1}}, {"h", 0, 3600, 1, {0, 0, 1}},
  {"A", with_prefix, 1, 1, {0, 0, 0, 1}}, {"V", with_prefix, 1, 1, {2, 1, -3, -1}}, {"T", with_prefix, 1, 1, {0, 1, -2, -1}},
  {"K", 0, 1, 1, {0, 0, 0, 0, 1}}, {"degC", alone, 1, 1, {0, 0, 0, 0, 1}},
  {"\xC2\xB0" "C", alone, 1, 1, {0, 0, 0, 0, 1}},
  {"rad", with_prefix, 1, 1, ANGLE}, {"radian", 0, 1, 1, ANGLE}, {"radians", 0, 1, 1, ANGLE},
  {"deg", 0, PI, 180, ANGLE}, {"degree", 0, PI, 180, ANGLE}, {"degrees", 0, PI, 180, ANGLE},
  {"\xC2\xB0", 0, PI, 180, ANGLE}, {"rev", 0, 2 * PI, 1, ANGLE}, {"turn", 0, 2 * PI, 1, ANGLE},
  {"rpm", 0, PI, 30, RATE}, {"Hz", with_prefix, 1, 1, {0, 0, -1}},
  {"N", with_prefix, 1, 1, NEWTON}, {"Nm", with_prefix, 1, 1, JOULE}, {"lbf", 0, POUND_MASS * GRAVITY, 1, NEWTON},
  {"J", with_prefix, 1, 1, JOULE}, {"W", with_prefix, 1, 1, {2, 1, -3}}, {"Pa", with_prefix, 1, 1, {-1, 1, -2}},
  {"g", with_prefix | alone, GRAVITY, 1, {1, 0, -2}}, {"1", 0, 1, 1, {0}}, {"-", 0, 1, 1, {0}}, {"%", 0, 1, 100, {0}},
};
static const struct {
  const char *name;
  double up, down;
} prefixes[] = {{"n", 1, 1e9}, {"u", 1, 1e6}, {"\xC2\xB5", 1, 1e6}, {"\xCE\xBC", 1, 1e6}, {"m", 1, 1e3},
                {"c", 1, 100}, {"d", 1, 10},  {"k", 1e3, 1},        {"M", 1e6, 1},        {"G", 1e9, 1}};
// Texts of dimensions that have a name of their own.
static const struct {
  const char *text;
  int power[PB_UNIT_BASES];
} named[] = {{"N", NEWTON}, {"N m", JOULE}, {"V", {2, 1, -3, -1}}, {"W", {2, 1, -3}}, {"Pa", {-1, 1, -2}}, {"T", {0, 1, -2, -1}}};
// clang-format on
enum {
  WORDS = sizeof words / sizeof *words,
  PREFIXES = sizeof prefixes / sizeof *prefixes,
  NAMED = sizeof named / sizeof *named
};

pbUnit pbUnit_None(void) { return (pbUnit){.up = 1, .down = 1}; }

// ---- words ------------------------------------------------------------------------------------------------------------
static const Word *find_word(const char *name, bool prefixed) {
  for (size_t i = 0; i < WORDS; i++) {
    if (strcmp(words[i].name, name) == 0 && (words[i].how & with_prefix || !prefixed)) return &words[i];
  }
  return NULL;
}

// A word, or a prefix and a word: *up and *down are multiplied by the prefix.
static const Word *find_prefixed(const char *name, double *up, double *down) {
  const Word *word = find_word(name, false);
  for (size_t i = 0; i < PREFIXES && !word; i++) {
    size_t n = strlen(prefixes[i].name);

    if (strncmp(name, prefixes[i].name, n) != 0 || !(word = find_word(name + n, true))) continue;
    *up *= prefixes[i].up;
    *down *= prefixes[i].down;
  }
  return word;
}

// ---- products and quotients -------------------------------------------------------------------------------------------
// Bytes of a sign of multiplication at `at`; 0: there is none.
static size_t times_at(const char *at) {
  static const char *const signs[] = {"*", ".", "\xC2\xB7", "\xE2\x8B\x85"};
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    if (strncmp(at, signs[i], strlen(signs[i])) == 0) return strlen(signs[i]);
  }
  return 0;
}

// A power behind a word: "^-2", "2", raised digits; *bytes 0: none, which is the first power.
static int power_at(const char *at, size_t *bytes) {
  static const char *const raised[] = {"\xC2\xB9", "\xC2\xB2", "\xC2\xB3"};
  const char *start = at;
  int sign = 1, power = 0;

  // a sign as it is typed, or raised
  if (*at == '^') at++;
  if (*at == '-') {
    sign = -1;
    at++;
  } else if (strncmp(at, "\xE2\x81\xBB", 3) == 0) {
    sign = -1;
    at += 3;
  }

  // one digit, which is more than any quantity has
  for (int i = 0; i < 3 && !power; i++) {
    if (strncmp(at, raised[i], 2) != 0) continue;
    power = i + 1;
    at += 2;
  }
  if (!power && *at >= '1' && *at <= '9') power = *at++ - '0';

  // a sign alone is no power, but part of something that is no unit
  *bytes = power ? (size_t)(at - start) : 0;
  return power ? sign * power : 1;
}

static void multiply(pbUnit *unit, const Word *word, double up, double down, int power) {
  PB_ASSERT(power >= -MOST_POWER && power <= MOST_POWER);
  for (int i = 0; i < PB_UNIT_BASES; i++) unit->power[i] += power * word->power[i];

  // one after the other: powers of ten stay exact
  for (int i = 0; i < (power < 0 ? -power : power); i++) {
    unit->up *= power > 0 ? up * word->up : down * word->down;
    unit->down *= power > 0 ? down * word->down : up * word->up;
  }
}

// Letters of one word: up to a digit, a power, a sign of multiplication or division, a blank.
static size_t word_length(const char *at) {
  size_t n = 0;

  while (at[n] && !strchr(" */^0123456789-", at[n]) && !times_at(at + n)) {
    int power;
    size_t bytes;
    power = power_at(at + n, &bytes);
    if (bytes && power) break;
    n++;
  }

  return n;
}

// One factor; *at moves behind it.
static bool take_factor(const char **at, bool below, pbUnit *unit) {
  char name[MOST_WORD];
  size_t n = word_length(*at), bytes;
  if (n == 0 || n >= sizeof name) return false;

  memcpy(name, *at, n);
  name[n] = 0;
  *at += n;

  // the power is of the prefix, too: "cm^2" is 1e-4 m^2
  int power = power_at(*at, &bytes);
  *at += bytes;

  double up = 1, down = 1;
  const Word *word = find_prefixed(name, &up, &down);
  if (!word || word->how & alone) return false;

  multiply(unit, word, up, down, below ? -power : power);
  return true;
}

// The whole text as one word.
static bool parse_single(const char *text, pbUnit *unit) {
  double up = 1, down = 1;
  const Word *word = find_prefixed(text, &up, &down);
  if (!word) return false;

  multiply(unit, word, up, down, 1);
  if (word->how & alone && word->power[pb_baseKelvin]) unit->offset = 273.15;
  return true;
}

bool pbUnit_Parse(const char *text, pbUnit *unit) {
  *unit = pbUnit_None();
  unit->stated = true;
  if (parse_single(text, unit)) return true;

  bool below = false, once = false;
  const char *at = text;

  // "1/s"
  if (strncmp(at, "1/", 2) == 0) {
    below = true;
    at += 2;
  }

  while (take_factor(&at, below, unit)) {
    while (*at == ' ') at++;
    if (!*at) return true;

    // "N m/rad s" has two readings
    once = once || below;

    size_t times = times_at(at);
    below = *at == '/';
    if (!below && once) return false;
    at += below ? 1 : times;
    while (*at == ' ') at++;
  }
  return false;
}

double pbUnit_ToSi(const pbUnit *unit, double value) {
  double scaled = value * unit->up / unit->down;

  // a zero keeps its sign
  return unit->offset != 0 ? scaled + unit->offset : scaled;
}

bool pbUnit_Fits(const pbUnit *unit, const char *si) {
  pbUnit wanted;
  if (!unit->stated || !pbUnit_Parse(si, &wanted)) return !unit->stated;

  if (memcmp(unit->power, wanted.power, sizeof wanted.power) == 0) return true;

  // an angle as a number without unit
  static const int angle[PB_UNIT_BASES] = ANGLE, one[PB_UNIT_BASES] = {0};
  return memcmp(unit->power, one, sizeof one) == 0 && memcmp(wanted.power, angle, sizeof angle) == 0;
}

// ---- texts ------------------------------------------------------------------------------------------------------------
static size_t add_factors(const int *power, int sign, char *text, size_t size, size_t used) {
  static const char *const bases[] = {"kg", "m", "s", "A", "K", "rad"};
  static const int order[] = {pb_baseKilogram, pb_baseMetre, pb_baseSecond, pb_baseAmpere, pb_baseKelvin, pb_baseRadian};

  // those above or those below the line
  for (int i = 0; i < PB_UNIT_BASES && used < size; i++) {
    int p = sign * power[order[i]];
    if (p <= 0) continue;
    const char *before = sign < 0 ? "/" : " ";
    used += (size_t)snprintf(text + used, size - used, "%s%s", used || sign < 0 ? before : "", bases[i]);
    if (p > 1 && used < size) used += (size_t)snprintf(text + used, size - used, "^%d", p);
  }
  return used;
}

char *pbUnit_Text(const pbUnit *unit, char *text, size_t size) {
  for (size_t i = 0; i < NAMED; i++) {
    if (memcmp(named[i].power, unit->power, sizeof unit->power) != 0) continue;

    snprintf(text, size, "%s", named[i].text);
    return text;
  }

  // "kg m^2/s"
  text[0] = 0;
  size_t used = add_factors(unit->power, 1, text, size, 0);
  if (used == 0) used = (size_t)snprintf(text, size, "1");
  add_factors(unit->power, -1, text, size, used);
  return text;
}

const char *pbUnit_Hint(const char *text, char *hint, size_t size) {
  pbSuggest near = pbSuggest_For(text);

  for (size_t i = 0; i < WORDS; i++) pbSuggest_Offer(&near, words[i].name);
  return pbSuggest_Write(&near, hint, size);
}
