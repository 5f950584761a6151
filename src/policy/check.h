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

// What goes into a function, and what comes out.
typedef enum Source { in_o, in_m, in_p, in_oDot, in_mDot, in_pDot, in_outBar, in_nextBar, in_count } Source;
typedef enum Target { to_out, to_next, to_oBar, to_mBar, to_pBar, to_kept, to_gathered, to_outDot, to_nextDot, to_count } Target;
typedef struct Input {
  int batch;
  double *of[in_count], *copy[in_count];  // copies: nothing may write to what it was given
} Input;
typedef struct Output {
  double *of[to_count];
  char *work;
} Output;

typedef struct Check {
  pbContext *ctx;
  const pbPolicyFunction *f;
  pbPolicyReport *report;
  pbRng rng;
  size_t params, work_bytes;
  double rounding;
  Input all, other, one;  // COLUMNS, COLUMNS and one column
  Output first, second, third, fourth;
} Check;

// ---- check.c ----------------------------------------------------------------------------------------------------------
size_t pbTrial_RowsIn(const Check *c, Source k);
size_t pbTrial_RowsOut(const Check *c, Target k);
// The first thing that is wrong is told; false.
bool pbTrial_Fail(Check *c, const char *format, ...) PB_PRINTF(2, 3);
bool pbTrial_StatusOk(Check *c, const char *call, pbStatus status);
// Random numbers: parameters near their starts, observations and memory of the size `scale`.
void pbTrial_Draw(Check *c, Input *in, int batch, double scale);
// Working memory, all of whose bytes are `byte`.
void *pbTrial_Work(const Check *c, Output *out, int byte);
pbStatus pbTrial_Forward(const Check *c, const Input *in, Output *out, int byte);
// Into cotangents that are `before` everywhere; keep: into what gather takes, instead of param_bar.
pbStatus pbTrial_Pull(const Check *c, const Input *in, Output *out, int byte, double before, bool keep);

// ---- check_derivative.c -----------------------------------------------------------------------------------------------
// Pull against push and differences of forward.
bool pbTrial_Derivatives(Check *c);

#endif
