// Texts of JSON to trees of jansson's, with memory told apart from mistakes.
#ifndef PB_JSON_READ_H
#define PB_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// As json_loadb. Where it returns NULL for want of memory, of which jansson itself has no sign and says that the text is not
// valid, *no_memory is true; else *error says what is wrong.
json_t *pbJson_Read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory);
// Whether a text has the form of JSON (RFC 8259), an object or a list outside. Takes no memory.
bool pbJson_IsFormed(const char *text, size_t length);

#endif
