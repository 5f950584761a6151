// Trees of jansson's: made, and told to somebody or written.
// Tests: tests/python/test_commands.py, tests/world/failing_world.py.
#include "io/json/tree.h"

#include <stdbool.h>
#include <string.h>

#include <pullback/io.h>

#include "base/assert.h"
#include "base/text.h"

// ---- made ---------------------------------------------------------------------------------------------------------------
static void drop_unless(bool good, json_t **tree) {
  if (good) return;
  json_decref(*tree);
  *tree = NULL;
}

void pbJson_Put(json_t **object, const char *key, json_t *value) {
  PB_ASSERT(key[0]);
  drop_unless(json_object_set_new(*object, key, value) == 0, object);
}

void pbJson_Add(json_t **list, json_t *value) { drop_unless(json_array_append_new(*list, value) == 0, list); }

static bool is_utf8(const char *text) {
  const char *end = text + strlen(text);
  for (size_t length; text < end; text += length) {
    length = pbText_Character(text, end);
    if (!length) return false;
  }
  return true;
}

json_t *pbJson_String(const char *text) {
  enum { MOST = 2048 };
  char plain[MOST];
  if (is_utf8(text)) return json_string(text);

  // a message that was cut, most often
  size_t length = 0;
  for (; *text && length < MOST - 1; text++) {
    if ((unsigned char)*text < 0x80) plain[length++] = *text;
  }
  return json_stringn(plain, length);
}

json_t *pbJson_CopyMembers(const json_t *object) {
  json_t *copy = json_copy((json_t *)object);

  // as many, or memory was short
  if (copy && json_object_size(copy) == json_object_size(object)) return copy;

  json_decref(copy);
  return NULL;
}

// ---- texts --------------------------------------------------------------------------------------------------------------
static int put_piece(const char *piece, size_t size, void *stream) { return fwrite(piece, 1, size, stream) == size ? 0 : -1; }

pbStatus pbJson_Dump(pbContext *ctx, const json_t *tree, size_t flags, char **text) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(ctx, &draft));
  if (tree && json_dump_callback(tree, put_piece, draft.stream, flags) == 0) return pbDraft_End(&draft, text, NULL);

  pbDraft_Drop(&draft);
  return pbContext_Fail(ctx, pb_no_memory, "out of memory");
}

// ---- told ---------------------------------------------------------------------------------------------------------------
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
