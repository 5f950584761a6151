// A tree of jansson's as values of JSON.
#ifndef PB_JSON_TREE_H
#define PB_JSON_TREE_H

#include <jansson.h>

#include <pullback/base.h>
#include <pullback/json.h>

// Into an object or a list, which takes the value. A tree that lacks memory for a part of it is NULL from there on, as is a value
// that is NULL: so trees are made without a look at each step, and looked at when they are done.
void pbJson_Put(json_t **object, const char *key, json_t *value);
void pbJson_Add(json_t **list, json_t *value);
// NULL for want of memory alone; what is no UTF-8 (a text that was cut) loses the bytes that are not ASCII.
json_t *pbJson_String(const char *text);
// A copy whose members are shared. NULL for want of memory: jansson's own leaves a member out, and says nothing.
json_t *pbJson_CopyMembers(const json_t *object);
// The text of a tree by jansson's flags, to be freed (pbContext_Free). pb_no_memory without memory, of which jansson's own
// leaves a part out; also of a tree that is NULL.
PB_NODISCARD pbStatus pbJson_Dump(pbContext *ctx, const json_t *tree, size_t flags, char **text);

// key: NULL in a list and of the outermost value; NULL for value: null.
void pbJson_Tree(pbJson *j, const char *key, const json_t *value);

#endif
