// JSON as text: what pages of the viewer have besides <pullback/json.h>.
#ifndef PB_JSON_H
#define PB_JSON_H

#include <pullback/json.h>

// A comma, a line of its own and the key, before a value that the caller writes to j->out.
void pbJson_Begin(pbJson *j, const char *key);
void pbJson_TextTo(FILE *out, const char *value);  // quoted and escaped, also safe inside an HTML script element

// ---- base64.c; into texts alone
void pbJson_Bytes(pbJson *j, const char *key, const unsigned char *bytes, size_t size);
void pbJson_Floats(pbJson *j, const char *key, const float *values, size_t count);  // the same, least byte first

#endif
