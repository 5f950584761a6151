// A tree of jansson's as values of JSON.
#ifndef PB_JSON_TREE_H
#define PB_JSON_TREE_H

#include <jansson.h>

#include <pullback/json.h>

// key: NULL in a list and of the outermost value; NULL for value: null.
void pbJson_Tree(pbJson *j, const char *key, const json_t *value);

#endif
