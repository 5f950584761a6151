// Records of a size (4 bytes) and a text, each read as JSON and written in three ways, or its error; by jansson or by the reader of io and
// what stands in for jansson.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/json/read.h"

static void tell(const char *text, unsigned size, size_t flags) {
  json_error_t error;

#ifdef PB_WITHOUT_JANSSON_H
  bool no_memory;
  json_t *json = pbJson_Read(text, size, flags, &error, &no_memory);
#else
  json_t *json = json_loadb(text, size, flags, &error);
#endif

  if (!json) {
    printf("%d:%d:%d: %s\n", error.line, error.column, error.position, error.text);
    return;
  }

  json_t *copies[] = {json_deep_copy(json), json_copy(json), json};
  const size_t ways[] = {JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), JSON_INDENT(2) | JSON_REAL_PRECISION(17), 0};
  for (int i = 0; i < 3; i++) {
    char *written = json_dumps(copies[i], ways[i]);
    puts(written ? written : "");
    free(written);
    json_decref(copies[i]);
  }
}

int main(void) {
  unsigned size;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    char *text = malloc(size + !size);
    if (!text || fread(text, 1, size, stdin) != size) return 1;
    tell(text, size, 0);
    tell(text, size, JSON_REJECT_DUPLICATES);
    free(text);
  }
  return 0;
}
