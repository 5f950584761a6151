// Values of attributes: numbers in the C locale and nothing but numbers, keywords, and where they go.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_reader.h"

enum { MOST = 32 };  // numbers an attribute of fixed size can have

static const char *const spaces = " \t\r\n";

// ---- keywords -----------------------------------------------------------------------------------------------------------

typedef struct word {
  const char *text;
  int length, value;
  bool refused;
} word;

// Next word of a list, false at its end.
static bool next_word(const char **list, word *w) {
  // Leading blanks, then '!' before a word that is refused.
  *list += strspn(*list, " ");
  if (!**list) return false;
  w->refused = **list == '!';
  if (w->refused) ++*list;

  w->text = *list;
  w->length = (int)strcspn(*list, " =");
  *list += w->length;

  // Values count on from the word before, unless one is given.
  w->value++;
  if (**list == '=') {
    const char *digits = *list + 1;
    w->value = (int)strtol(digits, (char **)list, 10);
    PB_ASSERT(*list > digits && (**list == ' ' || !**list));  // a name or a sum of a list would be another number
  }

  return true;
}

static bool find_word(const char *list, const char *text, word *found) {
  *found = (word){.value = -1};
  while (next_word(&list, found))
    if (strlen(text) == (size_t)found->length && !memcmp(text, found->text, (size_t)found->length)) return true;
  return false;
}

// "a, b, c" of a list of words, for messages.
static void show_words(const char *list, char *out, size_t size) {
  size_t used = 0;
  word w = {.value = -1};

  out[0] = 0;
  while (next_word(&list, &w)) {
    if (w.refused || used + (size_t)w.length + 3 >= size) continue;

    if (used) {
      memcpy(out + used, ", ", 2);
      used += 2;
    }
    memcpy(out + used, w.text, (size_t)w.length);
    used += (size_t)w.length;
    out[used] = 0;
  }
}

// ---- checking -----------------------------------------------------------------------------------------------------------

static pbStatus check_word(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const char *value) {
  word found;
  char words[256];
  if (row->neutral && !strcmp(value, row->neutral)) return pb_ok;

  if (find_word(row->words, value, &found)) {
    // A word of MuJoCo's that is not supported is told apart from one that MuJoCo does not know.
    if (!found.refused) return pb_ok;
    show_words(row->words, words, sizeof words);
    return REFUSE(node, "attribute '%s' is \"%s\", which is not supported (supported: %s)", row->attribute, value, words);
  }

  show_words(row->words, words, sizeof words);
  return FAIL(node, "attribute '%s' is \"%.40s\", expected one of: %s", row->attribute, value, words);
}

static pbStatus check_integers(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const double *values,
                               int count) {
  for (int i = 0; i < count && i < MOST; i++)
    if (values[i] != rint(values[i]) || fabs(values[i]) > INT_MAX)
      return FAIL(node, "attribute '%s' has %.17g where an integer is expected", row->attribute, values[i]);
  return pb_ok;
}

static pbStatus check_numbers(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const char *value) {
  double values[MOST] = {0};
  int count;
  const char *bad;

  if (!pbXml_Numbers(&reader->document, value, values, MOST, &count, &bad))
    return FAIL(node, "attribute '%s' has \"%.*s\" where a finite number is expected", row->attribute,
                (int)(strcspn(bad, spaces) < 40 ? strcspn(bad, spaces) : 40), bad);

  // Lists have any length; an empty value is as if it were not given.
  if (row->type == 'v' || row->type == 'r' || (!count && !row->required)) return pb_ok;
  if (count < row->least || count > row->most) {
    if (row->least == row->most)
      return FAIL(node, "attribute '%s' has %d numbers, expected %d", row->attribute, count, row->most);
    return FAIL(node, "attribute '%s' has %d numbers, expected %d to %d", row->attribute, count, row->least, row->most);
  }

  // No rotation has this quaternion, and it cannot be normalized.
  if (row->type == 'q' && !values[0] && !values[1] && !values[2] && !values[3])
    return FAIL(node, "attribute '%s' is a quaternion of zeros", row->attribute);

  return row->type == 'i' ? check_integers(reader, node, row, values, count) : pb_ok;
}

// Is a refused attribute at the value that means it is not there?
static bool is_neutral(const pbMjcfReader *reader, const char *value, const char *neutral) {
  if (!neutral) return false;
  if (!strcmp(value, neutral)) return true;

  double have, want;
  int count, one;
  const char *bad;
  if (!pbXml_Numbers(&reader->document, neutral, &want, 1, &one, &bad) || one < 1)
    return !*neutral && !value[strspn(value, spaces)];

  // neutral values repeat one number: "0 0 0" is neutral in any length

  for (const char *at = value; *(at += strspn(at, spaces)); at += strcspn(at, spaces))
    if (!pbXml_Numbers(&reader->document, at, &have, 1, &count, &bad) || have != want) return false;

  return value[strspn(value, spaces)] != 0;
}

static pbStatus check_refused(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const char *value) {
  if (is_neutral(reader, value, row->neutral)) return pb_ok;

  if (row->neutral && *row->neutral)
    return REFUSE(node, "attribute '%s' is not supported (only its neutral value \"%s\" is)", row->attribute, row->neutral);
  return REFUSE(node, "attribute '%s' is not supported", row->attribute);
}

pbStatus pbMjcf_CheckValue(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const char *value) {
  // A refused attribute may be there with the value that means it is not.
  if (row->support == pb_mjcfRefused) return check_refused(reader, node, row, value);

  switch (row->type) {
    // Words: keywords, booleans, flags.
    case 'k':
    case 'b':
    case 'f':
    case 'e': return check_word(reader, node, row, value);

    // Numbers, of a fixed count or of any.
    case 'd':
    case 'i':
    case 'q':
    case 'o':
    case 'v':
    case 'r': return check_numbers(reader, node, row, value);

    // Names: their length is limited, since replicas append to them.
    case 'n':
    case 'c':
      if (strlen(value) > PB_MJCF_TEXT) return FAIL(node, "attribute '%s' is longer than %d bytes", row->attribute, PB_MJCF_TEXT);
      return pb_ok;

    // Texts may be anything.
    default: return pb_ok;
  }
}

// ---- storing ------------------------------------------------------------------------------------------------------------

static void store_flag(const pbMjcfRow *row, const char *value, int *flags) {
  // Bits of 'f' disable, so "enable" clears them; those of 'e' enable.
  bool enable = *value == 'e';  // "enable", else "disable"

  bool set = row->type == 'e' ? enable : !enable;
  *flags = set ? *flags | row->arg : *flags & ~row->arg;
}

static bool store_list(pbMjcfReader *reader, const char *value, pbReals *list) {
  int count;
  const char *bad;

  // Once to count them, once to store them.
  (void)pbXml_Numbers(&reader->document, value, NULL, 0, &count, &bad);
  double *data = pbSpecPool_Take(reader->spec->pool, (size_t)count, sizeof *data);

  if (!data) return false;
  (void)pbXml_Numbers(&reader->document, value, data, count, &count, &bad);

  *list = (pbReals){count ? data : NULL, count};
  return true;
}

static bool store_one(pbMjcfReader *reader, const pbMjcfRow *row, const char *value, void *def) {
  void *to = (char *)def + row->offset;
  double values[MOST];
  int count = 0;
  const char *bad;
  word found;

  // Numbers of fixed count; none of them is as if the attribute were not given.
  if (strchr("diqo", row->type)) (void)pbXml_Numbers(&reader->document, value, values, MOST, &count, &bad);
  if (!count && strchr("diqo", row->type)) return true;
  PB_ASSERT(count <= MOST);

  switch (row->type) {
    // A text.
    // A text, and numbers as they are or as int.
    case 't': return (*(const char **)to = pbSpec_Text(reader->spec, value)) != NULL;
    // Numbers as they are, whole ones as int.
    case 'd': memcpy(to, values, (size_t)count * sizeof(double)); return true;
    case 'q': {  // rules over a default's euler angles and the like
      pbPose *pose = (pbPose *)((char *)to - offsetof(pbPose, quat));
      memcpy(pose->quat, values, sizeof pose->quat);
      pose->alt = pb_altNone;
      return true;
    }
    case 'i':
      for (int i = 0; i < count; i++) ((int *)to)[i] = (int)values[i];
      return true;
    case 'o':
      ((pbPose *)to)->alt = (pbAlt)row->arg;
      memcpy(((pbPose *)to)->value, values, (size_t)count * sizeof(double));
      return true;

    // Words: the value of the keyword, a bool, a bit.
    case 'k':
      if (find_word(row->words, value, &found)) *(int *)to = found.value;
      return true;
    case 'b':
      if (find_word(row->words, value, &found)) *(bool *)to = found.value != 0;
      return true;
    case 'f':
    case 'e': store_flag(row, value, to); return true;
    case 'v': return store_list(reader, value, to);
    default: return true;
  }
}

const pbMjcfRow *pbMjcf_Row(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute) {
  const pbMjcfElement *element = &reader->elements[node->element];
  for (int i = 1; i < element->count; i++)
    if (!strcmp(reader->rows[element->first + i].attribute, attribute)) return &reader->rows[element->first + i];
  return NULL;
}

pbStatus pbMjcf_Store(pbMjcfReader *reader, const pbXmlNode *node, void *def) {
  // Every definition begins with its name.
  for (int i = 0; i < node->attribute_count; i++) {
    const pbMjcfRow *row = pbMjcf_Row(reader, node, node->attributes[i].name);
    if (!row) continue;

    if (row->type == 'n' && !(*(const char **)def = pbSpec_Text(reader->spec, node->attributes[i].value))) return NO_MEMORY(node);
    if (row->offset != pb_mjcfNowhere && row->support != pb_mjcfRefused &&
        !store_one(reader, row, node->attributes[i].value, def))
      return NO_MEMORY(node);
  }
  return pb_ok;
}

// ---- single values ------------------------------------------------------------------------------------------------------

bool pbMjcf_Reals(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, double *values, int most,
                  int *count) {
  const char *text = pbXml_Get(node, attribute), *bad;
  return text && pbXml_Numbers(&reader->document, text, values, most, count, &bad);
}

bool pbMjcf_Real(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, double *value) {
  int count;
  return pbMjcf_Reals(reader, node, attribute, value, 1, &count) && count == 1;
}

int pbMjcf_Word(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, int otherwise) {
  const char *text = pbXml_Get(node, attribute);
  const pbMjcfRow *row = pbMjcf_Row(reader, node, attribute);
  word found;
  return text && row && row->words && find_word(row->words, text, &found) ? found.value : otherwise;
}
