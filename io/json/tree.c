// A tree of jansson's, told to somebody or written.
// Tests: tests/python/test_commands.py.
#include "io/json/tree.h"

static void put_members(pbJson *j, const json_t *object) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) pbJson_Tree(j, key, value);
}

static void put_all(pbJson *j, const char *key, const json_t *value) {
  bool list = json_is_array(value);
  pbJson_Open(j, key, list ? '[' : '{');
  for (size_t i = 0; i < json_array_size(value); i++) pbJson_Tree(j, NULL, json_array_get(value, i));
  if (!list) put_members(j, value);
  pbJson_Close(j, list ? ']' : '}');
}

void pbJson_Tree(pbJson *j, const char *key, const json_t *value) {
  if (json_is_array(value) || json_is_object(value)) put_all(j, key, value);
  else if (json_is_string(value)) pbJson_Text(j, key, json_string_value(value));
  else if (json_is_integer(value)) pbJson_Integer(j, key, json_integer_value(value));
  else if (json_is_real(value)) pbJson_Number(j, key, json_real_value(value));
  else if (json_is_boolean(value)) pbJson_Bool(j, key, json_is_true(value));
  else pbJson_Null(j, key);
}
