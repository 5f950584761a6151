// Bytes in JSON as base64 (RFC 4648).
// Tests: tests/oracle/test_view.py.
#include <string.h>

#include "io/json/json.h"

// Three bytes give four letters, missing ones are '='.
static void put_group(FILE *out, const unsigned char *three, size_t held) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t group = (uint32_t)three[0] << 16 | (held > 1 ? (uint32_t)three[1] << 8 : 0) | (held > 2 ? three[2] : 0);
  char four[4];

  for (size_t k = 0; k < 4; k++) four[k] = k <= held ? letters[group >> (18 - 6 * k) & 63] : '=';
  fwrite(four, 1, sizeof four, out);
}

void pbJson_Bytes(pbJson *j, const char *key, const unsigned char *bytes, size_t size) {
  pbJson_Begin(j, key);
  fputc('"', j->out);
  for (size_t i = 0; i < size; i += 3) put_group(j->out, bytes + i, size - i < 3 ? size - i : 3);
  fputc('"', j->out);
}

// Twelve bytes, three floats, make whole groups: only the last may be cut.
void pbJson_Floats(pbJson *j, const char *key, const float *values, size_t count) {
  pbJson_Begin(j, key);
  fputc('"', j->out);

  for (size_t i = 0; i < count; i += 3) {
    size_t floats = count - i < 3 ? count - i : 3, size = 4 * floats;
    unsigned char bytes[12];
    for (size_t k = 0; k < floats; k++) {
      uint32_t bits;
      memcpy(&bits, &values[i + k], sizeof bits);
      for (size_t b = 0; b < 4; b++) bytes[4 * k + b] = (unsigned char)(bits >> (8 * b));
    }
    for (size_t k = 0; k < size; k += 3) put_group(j->out, bytes + k, size - k < 3 ? size - k : 3);
  }
  fputc('"', j->out);
}
