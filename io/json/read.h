// Texts of JSON to trees of jansson's.
#ifndef PB_JSON_READ_H
#define PB_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// One object or list, by jansson's flags. NULL: *error says what is wrong and where; or memory was short, and *no_memory is true.
json_t *pbJson_Read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory);

#endif
