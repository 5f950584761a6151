// Signals, and progress on a terminal.
// Tests: tests/oracle/test_cli.py, tests/oracle/test_hard_places.py.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

// A signal handler reaches nothing but statics; these are the only ones of the program.
static volatile sig_atomic_t signal_caught, signal_deferred;

static void on_signal(int number) {
  (void)number;
  signal_caught = 1;
  if (signal_deferred) return;

  // a terminal shows ^C: what follows begins on a line of its own
  static const char text[] = "\npullback: interrupted\n";
  int skip = isatty(STDERR_FILENO) ? 0 : 1;
  ssize_t ignored = write(STDERR_FILENO, text + skip, sizeof text - 1 - (size_t)skip);
  (void)ignored;
  _exit(130);
}

// From a terminal, from who ends the program, and from a terminal that is closed.
static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDS = sizeof ends / sizeof *ends };

// One that is ignored from the start stays so: nohup.
static void catch_signal(int number) {
  struct sigaction action = {.sa_handler = on_signal}, before;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
  sigaction(number, &action, NULL);
}

void cliSignals_Install(void) {
  for (int i = 0; i < ENDS; i++) catch_signal(ends[i]);

  // a file beyond the limit of the system's batches (ulimit -f) is an error of the write, which says so
  signal(SIGXFSZ, SIG_IGN);
}

static void mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < ENDS; i++) sigaddset(&set, ends[i]);
  sigprocmask(how, &set, NULL);
}

void cliSignals_Hold(void) { mask(SIG_BLOCK); }
void cliSignals_Release(void) { mask(SIG_UNBLOCK); }
void cliSignals_Defer(void) { signal_deferred = 1; }
void cliSignals_Undefer(void) { signal_deferred = 0; }
bool cliSignals_Caught(void) { return signal_caught != 0; }

double cli_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cliProgress_Begin(cliProgress *p, const cliApp *app, const char *what) {
  *p = (cliProgress){.what = what, .started = cli_seconds()};
  p->on = !app->args.text[opt_quiet] && isatty(STDERR_FILENO);
  p->last = p->started;
}

void cliProgress_Show(cliProgress *p, double done, double all, const char *note) {
  if (!p->on) return;
  if (!p->told) p->before = done;
  p->told = true;
  double now = cli_seconds();
  if (now - p->last < 0.2) return;
  p->last = now;
  p->shown = true;

  // nothing is known before something is done, by this run
  char left[40] = "";
  if (done > p->before) snprintf(left, sizeof left, ", %.0f s left", (now - p->started) * (all - done) / (done - p->before));
  fprintf(cli_err, "\r\033[K%s: %.0f of %.0f (%.0f %%)%s%s%s", p->what, done, all, all > 0 ? 100 * done / all : 100, left,
          note ? ", " : "", note ? note : "");
  fflush(cli_err);
}

void cliProgress_End(cliProgress *p) {
  if (p->shown) fputs("\r\033[K", cli_err);
  p->shown = false;
}
