// What all commands share: where results and notes go, a few words.
// Tests: tests/oracle/test_cli.py.
#include <string.h>

#include "cli.h"

FILE *cli_out, *cli_err;

pbStatus cli_noMemory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

bool cli_hasSuffix(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

void cliRun_Warn(const char *text) {
  while (*text) {
    int n = (int)strcspn(text, "\n");
    fprintf(cli_err, "pullback: warning: %.*s\n", n, text);
    text += n + (text[n] != 0);
  }
}
