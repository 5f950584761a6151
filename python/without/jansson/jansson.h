// JSON where jansson is not there: the part of its interface that Pullback uses, with its messages and its way of writing. A tree is
// of one thread at a time.
#ifndef PB_WITHOUT_JANSSON_H
#define PB_WITHOUT_JANSSON_H

#include <stdbool.h>
#include <stddef.h>

typedef enum json_type {
  JSON_OBJECT,
  JSON_ARRAY,
  JSON_STRING,
  JSON_INTEGER,
  JSON_REAL,
  JSON_TRUE,
  JSON_FALSE,
  JSON_NULL
} json_type;
typedef struct json_t {
  json_type type;
  size_t references;  // 0: one of the three words, which nobody owns
} json_t;
typedef long long json_int_t;

// ---- values (json_tree.c). What returns a json_t gives a reference, but for Get; NULL: no memory, or no value of JSON. NULL is taken
// everywhere: it is of no type. _new takes the reference it is given, also where it fails (-1).
#define json_typeof(json)     ((json)->type)
#define json_is_object(json)  ((json) && json_typeof(json) == JSON_OBJECT)
#define json_is_array(json)   ((json) && json_typeof(json) == JSON_ARRAY)
#define json_is_string(json)  ((json) && json_typeof(json) == JSON_STRING)
#define json_is_integer(json) ((json) && json_typeof(json) == JSON_INTEGER)
#define json_is_real(json)    ((json) && json_typeof(json) == JSON_REAL)
#define json_is_number(json)  (json_is_integer(json) || json_is_real(json))
#define json_is_true(json)    ((json) && json_typeof(json) == JSON_TRUE)
#define json_is_false(json)   ((json) && json_typeof(json) == JSON_FALSE)
#define json_is_boolean(json) (json_is_true(json) || json_is_false(json))
#define json_is_null(json)    ((json) && json_typeof(json) == JSON_NULL)

json_t *json_true(void);
json_t *json_false(void);
json_t *json_null(void);
#define json_boolean(value) ((value) ? json_true() : json_false())
json_t *json_integer(json_int_t value);
json_t *json_real(double value);  // finite
json_t *json_string(const char *text);
json_t *json_stringn(const char *text, size_t length);
json_int_t json_integer_value(const json_t *json);
double json_real_value(const json_t *json);
double json_number_value(const json_t *json);
const char *json_string_value(const json_t *json);
size_t json_string_length(const json_t *json);

json_t *json_array(void);
size_t json_array_size(const json_t *array);
json_t *json_array_get(const json_t *array, size_t index);
int json_array_append_new(json_t *array, json_t *value);
int json_array_append(json_t *array, json_t *value);
#define json_array_foreach(array, index, value) \
  for ((index) = 0; (index) < json_array_size(array) && ((value) = json_array_get(array, index)); (index)++)

// Members stay in the order in which their keys came.
json_t *json_object(void);
size_t json_object_size(const json_t *object);
json_t *json_object_get(const json_t *object, const char *key);
int json_object_set_new(json_t *object, const char *key, json_t *value);
int json_object_set(json_t *object, const char *key, json_t *value);
int json_object_del(json_t *object, const char *key);
void *json_object_iter(json_t *object);  // the first member; NULL at the end
void *json_object_iter_next(json_t *object, void *member);
const char *json_object_iter_key(void *member);
json_t *json_object_iter_value(void *member);
void *json_object_key_to_iter(const char *key);  // of a key that a member gave
#define json_object_foreach(object, key, value)                                   \
  for ((key) = json_object_iter_key(json_object_iter(object));                    \
       (key) && ((value) = json_object_iter_value(json_object_key_to_iter(key))); \
       (key) = json_object_iter_key(json_object_iter_next(object, json_object_key_to_iter(key))))

json_t *json_incref(json_t *json);
void json_decref(json_t *json);
json_t *json_copy(json_t *json);             // its members or entries are shared
json_t *json_deep_copy(const json_t *json);  // nothing is shared
// Objects and arrays by a format of {}, [], s (a text) and i (an int); ':' and ',' are for readers.
json_t *json_pack(const char *format, ...);

// ---- texts (read by io/json/read.c; json_write.c)
typedef struct json_error_t {
  int line, column, position;  // the line from 1 on, characters and bytes before what is wrong
  char text[160];
} json_error_t;
#define JSON_REJECT_DUPLICATES 0x1
enum { JSON_PARSER_MAX_DEPTH = 2048 };

#define JSON_INDENT(n)         ((size_t)(n)&0x1F)  // spaces a level; 0: one line
#define JSON_COMPACT           0x20                // no blanks at all
#define JSON_SORT_KEYS         0x80
#define JSON_REAL_PRECISION(n) (((size_t)(n)&0x1F) << 11)
char *json_dumps(const json_t *json, size_t flags);  // to be freed; NULL: no memory
// The same told to a function, which gives 0 as long as it has it all; -1: no memory, or it gave another number.
typedef int (*json_dump_callback_t)(const char *text, size_t length, void *data);
int json_dump_callback(const json_t *json, json_dump_callback_t tell, void *data, size_t flags);
#endif
