// What all commands share: where results and notes go, a few words.
// Tests: tests/oracle/test_cli.py, tests/world/failing_world.py.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

FILE *cli_out, *cli_err;

// ---- standard output --------------------------------------------------------------------------------------------------
static int output_error;  // of the first write that failed; stdio forgets it by the time it is asked, and musl's does not fail

#ifdef __linux__
// stdio takes less than all of it for a failure.
static ssize_t put(void *user, const char *from, size_t size) {
  size_t done = 0;
  (void)user;
  while (done < size) {
    ssize_t wrote = write(STDOUT_FILENO, from + done, size - done);
    if (wrote > 0) {
      done += (size_t)wrote;
    } else if (errno != EINTR) {
      if (!output_error) output_error = errno;
      break;
    }
  }
  return (ssize_t)done;
}

static FILE *open_output(void) {
  FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});
  if (stream && isatty(STDOUT_FILENO)) setvbuf(stream, NULL, _IOLBF, BUFSIZ);
  return stream;
}
#else
static FILE *open_output(void) { return NULL; }
#endif

void cli_openStreams(void) {
  cli_out = open_output();
  if (!cli_out) cli_out = stdout;
  cli_err = stderr;
}

int cli_flush(int code) {
  errno = 0;
  if (fflush(cli_out) == 0 && !ferror(cli_out) && !output_error) return code;

  int reason = output_error ? output_error : errno;
  fprintf(cli_err, "pullback: cannot write standard output%s%s\n", reason ? ": " : "", reason ? strerror(reason) : "");
  return code ? code : pbStatus_ExitCode(pb_file);
}

// ---- words ------------------------------------------------------------------------------------------------------------

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
