// JSON as text, written as jansson writes it.
#include <jansson.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Writer {
  size_t flags, length, room;
  char *text;
  bool failed;
} Writer;

static void put(Writer *w, const char *text, size_t length) {
  if (w->failed) return;
  if (w->room - w->length <= length) {
    size_t room = 2 * (w->room + length) + 64;
    char *grown = realloc(w->text, room);
    if (!grown) {
      w->failed = true;
      return;
    }
    w->text = grown;
    w->room = room;
  }
  memcpy(w->text + w->length, text, length);
  w->length += length;
  w->text[w->length] = 0;
}

static void put_text(Writer *w, const char *text) { put(w, text, strlen(text)); }

static void put_line(Writer *w, int depth) {
  size_t spaces = (size_t)depth * JSON_INDENT(w->flags);
  put_text(w, "\n");
  for (size_t i = 0; i < spaces; i++) put_text(w, " ");
}

static void put_string(Writer *w, const char *text, size_t length) {
  static const char escaped[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  put_text(w, "\"");

  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    const char *found = c ? strchr(escaped, c) : NULL;
    char code[8] = {(char)c};
    if (found) snprintf(code, sizeof code, "\\%c", letter[found - escaped]);
    else if (c < 0x20) snprintf(code, sizeof code, "\\u%04X", c);
    put_text(w, code);
  }

  put_text(w, "\"");
}

// Always recognizable as a real number; exponents without a plus and leading zeros.
static void put_real(Writer *w, double value) {
  char text[64];
  int digits = (int)(w->flags >> 11 & 0x1F);
  snprintf(text, sizeof text, "%.*g", digits ? digits : 17, value);

  char *exponent = strchr(text, 'e');
  if (!exponent && !strchr(text, '.')) strcat(text, ".0");
  if (exponent) {
    char *to = exponent + 1 + (exponent[1] == '-'), *from = exponent + 2;
    from += strspn(from, "0");
    memmove(to, from, strlen(from) + 1);
  }
  put_text(w, text);
}

static int compare_keys(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void put_value(Writer *w, const json_t *json, int depth);

static void put_members(Writer *w, const json_t *object, int depth) {
  size_t count = json_object_size(object), i = 0;
  const char **keys = malloc((count + !count) * sizeof *keys);
  if (!keys) w->failed = true;
  for (void *m = json_object_iter((json_t *)object); m && keys; m = json_object_iter_next((json_t *)object, m))
    keys[i++] = json_object_iter_key(m);
  if (keys && w->flags & JSON_SORT_KEYS) qsort(keys, count, sizeof *keys, compare_keys);

  for (i = 0; i < count && keys; i++) {
    if (i) put_text(w, ",");
    if (JSON_INDENT(w->flags)) put_line(w, depth + 1);
    else if (i && !(w->flags & JSON_COMPACT)) put_text(w, " ");
    put_string(w, keys[i], strlen(keys[i]));
    put_text(w, w->flags & JSON_COMPACT ? ":" : ": ");
    put_value(w, json_object_iter_value(json_object_key_to_iter(keys[i])), depth + 1);
  }
  free(keys);
}

static void put_entries(Writer *w, const json_t *array, int depth) {
  for (size_t i = 0; i < json_array_size(array); i++) {
    if (i) put_text(w, ",");
    if (JSON_INDENT(w->flags)) put_line(w, depth + 1);
    else if (i && !(w->flags & JSON_COMPACT)) put_text(w, " ");
    put_value(w, json_array_get(array, i), depth + 1);
  }
}

static void put_value(Writer *w, const json_t *json, int depth) {
  static const char *const word[] = {[JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null"};
  bool object = json_is_object(json), array = json_is_array(json);
  char number[32];

  if (depth >= JSON_PARSER_MAX_DEPTH) w->failed = true;
  if (w->failed) return;

  if (object || array) {
    put_text(w, object ? "{" : "[");
    if (object) put_members(w, json, depth);
    else put_entries(w, json, depth);
    if (JSON_INDENT(w->flags) && (object ? json_object_size(json) : json_array_size(json))) put_line(w, depth);
    put_text(w, object ? "}" : "]");
  } else if (json_is_string(json)) {
    put_string(w, json_string_value(json), json_string_length(json));
  } else if (json_is_real(json)) {
    put_real(w, json_real_value(json));
  } else if (json_is_integer(json)) {
    snprintf(number, sizeof number, "%lld", json_integer_value(json));
    put_text(w, number);
  } else {
    put_text(w, word[json->type]);
  }
}

char *json_dumps(const json_t *json, size_t flags) {
  if (!json_is_object(json) && !json_is_array(json)) return NULL;

  // A decimal point, whatever language the process runs in.
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c_locale) return NULL;
  locale_t before = uselocale(c_locale);
  Writer w = {.flags = flags};
  put_value(&w, json, 0);
  uselocale(before);
  freelocale(c_locale);

  if (!w.failed) return w.text;
  free(w.text);
  return NULL;
}

int json_dump_callback(const json_t *json, json_dump_callback_t tell, void *data, size_t flags) {
  char *text = json_dumps(json, flags);
  int failed = text ? tell(text, strlen(text), data) : -1;
  free(text);
  return failed ? -1 : 0;
}
