// Texts and exit codes of statuses, and the version.
// Tests: tests/unit/test_base.c.
#include <pullback/base.h>

static const struct {
  int exit_code;
  const char *text;
} status_table[] = {
#define X(name, exit_code, text) {exit_code, text},
    PB_STATUS_TABLE(X)
#undef X
};

static bool known(pbStatus status) { return (unsigned)status < (unsigned)pb_status_count; }

const char *pbStatus_Text(pbStatus status) { return known(status) ? status_table[status].text : "unknown status"; }

int pbStatus_ExitCode(pbStatus status) { return known(status) ? status_table[status].exit_code : 4; }

#ifndef PB_VERSION
#define PB_VERSION "0.2.0"
#endif
const char *pbVersion(void) { return PB_VERSION; }
int pbAbi(void) { return PB_ABI; }
