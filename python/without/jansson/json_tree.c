// Values of JSON and their members. Keys are found by a hash that files cannot foresee, so that none makes a search long.
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

typedef struct Integer {
  json_t head;
  json_int_t value;
} Integer;
typedef struct Real {
  json_t head;
  double value;
} Real;
typedef struct String {
  json_t head;
  size_t length;
  char text[];
} String;
typedef struct Array {
  json_t head;
  size_t count, room;
  json_t **entry;
} Array;
typedef struct Member {
  struct Member *next, *chained;  // in order; in the same bucket
  json_t *value;
  uint64_t hash;
  char key[];
} Member;
typedef struct Object {
  json_t head;
  size_t count, buckets;
  Member *first, *last, **bucket;
} Object;

static void *new_value(size_t size, json_type type) {
  json_t *made = calloc(1, size);
  if (made) *made = (json_t){.type = type, .references = 1};
  return made;
}

// ---- words, numbers, texts ----------------------------------------------------------------------------------------------

json_t *json_true(void) {
  static json_t word = {.type = JSON_TRUE};
  return &word;
}

json_t *json_false(void) {
  static json_t word = {.type = JSON_FALSE};
  return &word;
}

json_t *json_null(void) {
  static json_t word = {.type = JSON_NULL};
  return &word;
}

json_t *json_integer(json_int_t value) {
  Integer *made = new_value(sizeof *made, JSON_INTEGER);
  if (made) made->value = value;
  return (json_t *)made;
}

json_t *json_real(double value) {
  Real *made = isfinite(value) ? new_value(sizeof *made, JSON_REAL) : NULL;
  if (made) made->value = value;
  return (json_t *)made;
}

// The bytes of the character at text, where it is one of UTF-8; else 0.
static size_t character(const char *text, const char *end) {
  const unsigned char *byte = (const unsigned char *)text;
  unsigned lead = *byte;
  size_t count = 2 + (lead >= 0xE0) + (lead >= 0xF0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || count > (size_t)(end - text)) return 0;

  for (size_t i = 1; i < count; i++)
    if ((byte[i] & 0xC0) != 0x80) return 0;

  // Too long for what they say; halves of pairs; beyond the last character.
  bool wrong = (lead == 0xE0 && byte[1] < 0xA0) || (lead == 0xED && byte[1] > 0x9F) || (lead == 0xF0 && byte[1] < 0x90) ||
               (lead == 0xF4 && byte[1] > 0x8F);
  return wrong ? 0 : count;
}

static bool is_utf8(const char *text, size_t length) {
  const char *end = text + length;
  while (text < end) {
    size_t count = character(text, end);
    if (!count) return false;
    text += count;
  }
  return true;
}

json_t *json_stringn(const char *text, size_t length) {
  String *made = text && is_utf8(text, length) ? new_value(sizeof *made + length + 1, JSON_STRING) : NULL;
  if (made) {
    memcpy(made->text, text, length);
    made->length = length;
  }
  return (json_t *)made;
}

json_t *json_string(const char *text) { return text ? json_stringn(text, strlen(text)) : NULL; }

json_int_t json_integer_value(const json_t *json) { return json_is_integer(json) ? ((const Integer *)json)->value : 0; }

double json_real_value(const json_t *json) { return json_is_real(json) ? ((const Real *)json)->value : 0; }

double json_number_value(const json_t *json) {
  return json_is_integer(json) ? (double)json_integer_value(json) : json_real_value(json);
}

const char *json_string_value(const json_t *json) { return json_is_string(json) ? ((const String *)json)->text : NULL; }

size_t json_string_length(const json_t *json) { return json_is_string(json) ? ((const String *)json)->length : 0; }

// ---- arrays -------------------------------------------------------------------------------------------------------------

json_t *json_array(void) { return new_value(sizeof(Array), JSON_ARRAY); }

size_t json_array_size(const json_t *array) { return json_is_array(array) ? ((const Array *)array)->count : 0; }

json_t *json_array_get(const json_t *array, size_t index) {
  return index < json_array_size(array) ? ((const Array *)array)->entry[index] : NULL;
}

static bool append(Array *a, json_t *value) {
  if (a->count == a->room) {
    size_t room = 2 * a->room + 8;
    json_t **grown = realloc(a->entry, room * sizeof *grown);
    if (!grown) return false;
    a->entry = grown;
    a->room = room;
  }
  a->entry[a->count++] = value;
  return true;
}

int json_array_append_new(json_t *array, json_t *value) {
  if (value && value != array && json_is_array(array) && append((Array *)array, value)) return 0;
  json_decref(value);
  return -1;
}

int json_array_append(json_t *array, json_t *value) { return json_array_append_new(array, json_incref(value)); }

// ---- objects ------------------------------------------------------------------------------------------------------------

// A polynomial in a number drawn once a process, modulo 2^61 - 1: two keys are the same for few such numbers.
static uint64_t hash_key(const char *key) {
  static _Atomic uint64_t drawn;
  const uint64_t prime = ((uint64_t)1 << 61) - 1;
  uint64_t point = atomic_load(&drawn), hash = 1;

  if (!point) {
    uint64_t bits = 0, none = 0;
    if (getentropy(&bits, sizeof bits) != 0) bits = (uint64_t)(uintptr_t)&bits;
    point = bits % (prime - 2) + 2;
    if (!atomic_compare_exchange_strong(&drawn, &none, point)) point = none;  // another thread was first
  }

  for (; *key; key++) hash = (uint64_t)(((unsigned __int128)hash * point + (unsigned char)*key) % prime);
  return hash;
}

json_t *json_object(void) { return new_value(sizeof(Object), JSON_OBJECT); }

size_t json_object_size(const json_t *object) { return json_is_object(object) ? ((const Object *)object)->count : 0; }

static Member *find(const Object *o, const char *key, uint64_t hash) {
  Member *m = o->count ? o->bucket[hash % o->buckets] : NULL;
  while (m && (m->hash != hash || strcmp(m->key, key) != 0)) m = m->chained;
  return m;
}

json_t *json_object_get(const json_t *object, const char *key) {
  const Member *m = key && json_is_object(object) ? find((const Object *)object, key, hash_key(key)) : NULL;
  return m ? m->value : NULL;
}

static void chain(Object *o, Member *m) {
  Member **bucket = &o->bucket[m->hash % o->buckets];
  m->chained = *bucket;
  *bucket = m;
}

static bool widen(Object *o) {
  size_t buckets = 2 * o->buckets + 7;
  Member **made = calloc(buckets, sizeof *made);
  if (!made) return false;

  free(o->bucket);
  o->bucket = made;
  o->buckets = buckets;
  for (Member *m = o->first; m; m = m->next) chain(o, m);
  return true;
}

static bool add_member(Object *o, const char *key, uint64_t hash, json_t *value) {
  if (o->count == o->buckets && !widen(o)) return false;
  size_t length = strlen(key);
  Member *m = calloc(1, sizeof *m + length + 1);
  if (!m) return false;

  memcpy(m->key, key, length);
  m->hash = hash;
  m->value = value;
  chain(o, m);
  if (o->last) o->last->next = m;
  else o->first = m;
  o->last = m;
  o->count++;
  return true;
}

int json_object_set_new(json_t *object, const char *key, json_t *value) {
  if (value && value != object && key && json_is_object(object) && is_utf8(key, strlen(key))) {
    Object *o = (Object *)object;
    uint64_t hash = hash_key(key);
    Member *m = find(o, key, hash);
    if (m) {
      json_decref(m->value);
      m->value = value;
      return 0;
    }
    if (add_member(o, key, hash, value)) return 0;
  }

  json_decref(value);
  return -1;
}

int json_object_set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, json_incref(value));
}

int json_object_del(json_t *object, const char *key) {
  Object *o = json_is_object(object) && key ? (Object *)object : NULL;
  Member *m = o ? find(o, key, hash_key(key)) : NULL;
  if (!m) return -1;

  // Out of its bucket, then out of the order.
  Member **link = &o->bucket[m->hash % o->buckets], *before = NULL;
  while (*link != m) link = &(*link)->chained;
  *link = m->chained;
  for (Member *other = o->first; other != m; other = other->next) before = other;
  if (before) before->next = m->next;
  else o->first = m->next;
  if (o->last == m) o->last = before;

  o->count--;
  json_decref(m->value);
  free(m);
  return 0;
}

void *json_object_iter(json_t *object) { return json_is_object(object) ? ((Object *)object)->first : NULL; }

void *json_object_iter_next(json_t *object, void *member) {
  (void)object;
  return member ? ((Member *)member)->next : NULL;
}

const char *json_object_iter_key(void *member) { return member ? ((Member *)member)->key : NULL; }

json_t *json_object_iter_value(void *member) { return member ? ((Member *)member)->value : NULL; }

void *json_object_key_to_iter(const char *key) { return key ? (char *)key - offsetof(Member, key) : NULL; }

// ---- references, copies -------------------------------------------------------------------------------------------------

json_t *json_incref(json_t *json) {
  if (json && json->references) json->references++;
  return json;
}

void json_decref(json_t *json) {
  if (!json || !json->references || --json->references) return;

  if (json_is_array(json)) {
    Array *a = (Array *)json;
    for (size_t i = 0; i < a->count; i++) json_decref(a->entry[i]);
    free(a->entry);
  } else if (json_is_object(json)) {
    Object *o = (Object *)json;
    for (Member *m = o->first, *next; m; m = next) {
      next = m->next;
      json_decref(m->value);
      free(m);
    }
    free(o->bucket);
  }
  free(json);
}

static json_t *copy_with(const json_t *json, json_t *(*copy_inside)(json_t *)) {
  json_t *copy = json_is_object(json) ? json_object() : json_array();
  int failed = 0;

  for (size_t i = 0; copy && i < json_array_size(json); i++)
    failed |= json_array_append_new(copy, copy_inside(json_array_get(json, i)));
  for (void *m = json_object_iter((json_t *)json); copy && m; m = json_object_iter_next(copy, m))
    failed |= json_object_set_new(copy, json_object_iter_key(m), copy_inside(json_object_iter_value(m)));

  if (failed) json_decref(copy);
  return failed ? NULL : copy;
}

json_t *json_copy(json_t *json) {
  return json_is_object(json) || json_is_array(json) ? copy_with(json, json_incref) : json_deep_copy(json);
}

static json_t *copy_whole(json_t *json) { return json_deep_copy(json); }

json_t *json_deep_copy(const json_t *json) {
  if (json_is_object(json) || json_is_array(json)) return copy_with(json, copy_whole);
  if (json_is_string(json)) return json_stringn(json_string_value(json), json_string_length(json));
  if (json_is_integer(json)) return json_integer(json_integer_value(json));
  if (json_is_real(json)) return json_real(json_real_value(json));
  return (json_t *)json;
}

// ---- by a format --------------------------------------------------------------------------------------------------------

static json_t *pack(const char **at, va_list *args) {
  *at += strspn(*at, ":, ");
  char kind = *(*at)++;
  if (kind == 's') return json_string(va_arg(*args, const char *));
  if (kind == 'i') return json_integer(va_arg(*args, int));

  bool object = kind == '{';
  json_t *made = object ? json_object() : json_array();
  for (*at += strspn(*at, ":, "); made && **at != (object ? '}' : ']'); *at += strspn(*at, ":, ")) {
    const char *key = object ? va_arg(*args, const char *) : NULL;
    if (object) ++*at;  // the s of the key
    json_t *value = pack(at, args);
    if ((object ? json_object_set_new(made, key, value) : json_array_append_new(made, value)) == 0) continue;
    json_decref(made);
    return NULL;
  }
  ++*at;
  return made;
}

json_t *json_pack(const char *format, ...) {
  va_list args;
  va_start(args, format);
  json_t *made = pack(&format, &args);
  va_end(args);
  return made;
}
