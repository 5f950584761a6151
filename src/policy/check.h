// What the parts of pbPolicy_Check share: a function's inputs and outputs, calls of it, and what is told.
#ifndef PB_POLICY_CHECK_H
#define PB_POLICY_CHECK_H

#include <pullback/policy.h>
#include <pullback/random.h>

enum {
  COLUMNS = 5,
  POINTS = 4,   // at which derivatives are compared
  AGREE = 2,    // of them at which they must be the same: functions have kinks, and domains
  GUARD = 256,  // bytes behind the working memory that nothing may write to
  CLEAN = 0,    // bytes that the working memory is filled with before a call: zeros, NaN
  SPOILED = 0xff
};

// What is called. Keep: pull into what gather takes, instead of param_bar. In the order of a test that calls all of them, which
// leaves pull's param_bar there.
typedef enum Call { call_forward, call_keep, call_gather, call_pull, call_push, call_count } Call;

// What goes into a function, and what comes out.
typedef enum Source { in_o, in_m, in_p, in_oDot, in_mDot, in_pDot, in_outBar, in_nextBar, in_count } Source;
typedef enum Target { to_out, to_next, to_oBar, to_mBar, to_pBar, to_kept, to_gathered, to_outDot, to_nextDot, to_count } Target;
typedef enum Width { of_observations, of_memory, of_outputs, of_params, of_kept, width_count } Width;
typedef struct Input {
  int batch;
  double *of[in_count], *copy[in_count];  // copies: nothing may write to what it was given; NULL, directions: zero
} Input;
typedef struct Output {
  double *of[to_count];  // NULL, cotangents: not wanted
  double before;         // what cotangents hold before a pull
  char *work;
} Output;

typedef struct Check {
  pbContext *ctx;
  const pbPolicyFunction *f;
  pbPolicyReport *report;
  pbRng rng;
  size_t width[width_count], work_bytes;
  double rounding;
  bool no_thread;         // one could not be had, which is no fault of the policy
  Input all, other, one;  // COLUMNS, COLUMNS and one column
  Output first, second, third, fourth;
} Check;

// ---- check.c ----------------------------------------------------------------------------------------------------------
size_t pbTrial_RowsIn(const Check *c, Source k);
size_t pbTrial_RowsOut(const Check *c, Target k);
// The first thing that is wrong is told; false.
bool pbTrial_Fail(Check *c, const char *format, ...) PB_PRINTF(2, 3);
// Random numbers: parameters near their starts, observations and memory of the size `scale`.
void pbTrial_Draw(Check *c, Input *in, int batch, double scale);
// Working memory holds `byte` everywhere. Try: an error is told, and false.
pbStatus pbTrial_Call(const Check *c, Call call, const Input *in, Output *out, int byte);
bool pbTrial_Try(Check *c, Call call, const Input *in, Output *out, int byte);

// ---- check_derivative.c -----------------------------------------------------------------------------------------------
// Pull against push and differences of forward.
bool pbTrial_Derivatives(Check *c);

#endif
