// Pullback: the check of a model's derivatives, what `pullback check` prints. A short rollout is made, and its derivatives are
// tested from several sides, each test with the cases that it made, the worst of them and what is wrong in words:
//   dot product   <w, J d> = <J' w, d> of every step, forward against reverse mode
//   Jacobians     w A, w B, w C, w D of the full Jacobians against the pullback of w
//   differences   <w, J d> against differences of the program; kinks are found, named and left out
//   slopes        states and sensors of a short rollout against one-sided slopes, parameters at bounds and ties included; with
//                 at_start each control and each number of the state alone
//   Taylor        |f(x + e d) - f(x) - e <g, d>| falls as e^2 over the whole rollout
// and, in words, what is worth knowing of a gradient that is right: growth, contacts that begin, ties, deep overlaps.
#ifndef PULLBACK_CHECK_H
#define PULLBACK_CHECK_H

#include <pullback/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PB_CHECK_TESTS = 24, PB_CHECK_FINDINGS = 64, PB_CHECK_STEPS = 10000 };

typedef struct pbCheckOptions {  // zeros: the defaults in brackets
  int steps;                     // 1 .. PB_CHECK_STEPS [20]
  uint64_t seed;                 // of all that is drawn
  pbGradientKind mode;           // [exact]; another one: its forward against its reverse mode, too
  bool at_start;                 // test each control and each number of the state at x0 alone
  bool random_controls;          // draw the controls, within their ranges: a model that moves shows more
  bool random_velocity;          // add a little to the velocities of x0: many kinks lie at rest
  pbProgressFunction progress;   // phase: what is being tested; nonzero ends the check with pb_interrupted
  void *user;
} pbCheckOptions;

typedef struct pbCheckTest {
  char name[48];
  bool holds;
  int tried, skipped;  // cases that counted, and those left out (kinks, no reliable difference)
  double worst, limit;
  int step;         // of the worst; -1: of no step
  char words[320];  // what is wrong, or left out; ""
} pbCheckTest;

typedef struct pbCheckFinding {
  char what[96], where[96], why[320];
} pbCheckFinding;

typedef struct pbCheckReport {
  bool holds;  // all tests do
  int steps, test_count, finding_count;
  pbCheckTest test[PB_CHECK_TESTS];
  pbCheckFinding finding[PB_CHECK_FINDINGS];
  int most_contacts;          // at one time, of bodies
  pbCertificate certificate;  // of the rollout: solver, overlaps, impacts; of its gradient: growth, events, spot check
} pbCheckReport;

// How far a check that was interrupted has come: the same check goes on from there, in another process, too, to the same report.
// Files: pbCheckPoint_Keep.
enum { PB_CHECK_NUMBERS = 31 };
typedef struct pbCheckPoint {
  int part, done;                    // which part of the check it was in, 0: nothing is done, and what of it is
  double numbers[PB_CHECK_NUMBERS];  // of what is drawn, of rounding and of noise
  pbCheckReport report;              // so far, but for the certificate
} pbCheckPoint;

// Checks from x0 (StateSize) with theta (ParamSize). input: rows for options.steps steps, NULL: nothing acts; options NULL: the
// defaults. pb_ok where the check was made, whatever it says; *report is then to be freed, else NULL. A derivative that does not
// exist ends the tests, not the report. pb_bad_argument: NULL, or options out of range; errors of the rollout itself are its own.
PB_API PB_NODISCARD pbStatus pbCheck_Run(pbContext *ctx, const pbModel *model, const double *theta, const double *x0,
                                         const pbRolloutInput *input, const pbCheckOptions *options, pbCheckReport **report);
// The same from `point` on, which after pb_interrupted says how far it is. NULL: from the beginning, and nothing is said.
PB_API PB_NODISCARD pbStatus pbCheck_GoOnFrom(pbContext *ctx, const pbModel *model, const double *theta, const double *x0,
                                              const pbRolloutInput *input, const pbCheckOptions *options, pbCheckPoint *point,
                                              pbCheckReport **report);
PB_API void pbCheckReport_Free(pbContext *ctx, pbCheckReport *report);  // NULL is fine

#ifdef __cplusplus
}
#endif
#endif
