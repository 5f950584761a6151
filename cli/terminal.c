// Signals, progress on a terminal, and what was probably meant.
#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

// A signal handler reaches nothing but statics; these are the only ones of the program.
static volatile sig_atomic_t signal_caught, signal_deferred;

static void on_signal(int number) {
  (void)number;
  signal_caught = 1;
  if (signal_deferred) return;
  if (isatty(STDERR_FILENO)) {
    ssize_t ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
  }
  _exit(130);
}

static void catch_signal(int number) {
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void cliSignals_Install(void) {
  catch_signal(SIGINT);
  catch_signal(SIGTERM);
}

static void mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(how, &set, NULL);
}

void cliSignals_Hold(void) { mask(SIG_BLOCK); }
void cliSignals_Release(void) { mask(SIG_UNBLOCK); }
void cliSignals_Defer(void) { signal_deferred = 1; }
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
  double now = cli_seconds();
  if (now - p->last < 0.2) return;
  p->last = now;
  p->shown = true;
  double left = done > 0 ? (now - p->started) * (all - done) / done : 0;
  fprintf(stderr, "\r\033[K%s: %.0f of %.0f (%.0f %%), %.0f s left%s%s", p->what, done, all, all > 0 ? 100 * done / all : 100, left,
          note ? ", " : "", note ? note : "");
  fflush(stderr);
}

void cliProgress_End(cliProgress *p) {
  if (p->shown) fputs("\r\033[K", stderr);
  p->shown = false;
}

// Edit distance with neighbours swapped as one edit; both texts cut at 63.
static int distance(const char *a, const char *b) {
  enum { MOST = 64 };
  int rows[3][MOST], n = (int)strnlen(a, MOST - 1), m = (int)strnlen(b, MOST - 1);
  for (int j = 0; j <= m; j++) rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
      int best = last[j - 1] + !same;
      if (last[j] + 1 < best) best = last[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      now[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *cli_nearest(const char *typed, const char *const *candidates, int count) {
  const char *best = NULL;
  int least = (int)strlen(typed) / 3 + 2;
  for (int i = 0; i < count; i++) {
    int d = distance(typed, candidates[i]);
    if (d >= 1 && strncasecmp(typed, candidates[i], strlen(typed)) == 0 && strlen(typed) > 2) d = 1;
    if (d < least) {
      least = d;
      best = candidates[i];
    }
  }
  return best;
}
