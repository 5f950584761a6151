// Directional derivative of the derived constants: the complex run of the same source (setconst.c).
// Tests: tests/unit/test_rollout.c, tests/oracle/test_constants.py.
#include "base/assert.h"
#include "base/context.h"
#include "compile/design.h"
#include "compile/setconst.h"
#include "number/number.h"

static void lay_out_run(pbArena *a, const pbModel *m, pbDerive_c *w, _Complex double **at) {
  *at = pbArena_Take(a, m->ntheta, sizeof **at);
  pbDerive_Layout_c(a, m, w);
}

// Complex step along `direction`, which becomes that of theta with its constants.
static int push_direction(const pbModel *m, const double *theta, double *direction, pbDerive_c *w, _Complex double *at) {
  double most = 0;
  int exponent = 0;

  // The imaginary step fits directions of about unit size: scaled by a power of two, which rounds nothing.
  for (size_t i = 0; i < m->ntheta; i++) most = fmax(most, fabs(direction[i]));
  if (isfinite(most)) frexp(most, &exponent);
  PB_ASSERT(!(ldexp(most, -exponent) > 1) || !isfinite(most));

  // theta + i h d
  for (size_t i = 0; i < m->ntheta; i++) {
    __real__ at[i] = theta[i];
    __imag__ at[i] = ldexp(direction[i], -exponent) * PB_IMAG_STEP;
  }

  // The imaginary part over h is the derivative, of derived and other entries alike.
  int bad = pbDerive_Run_c(m, at, w);
  for (size_t i = 0; i < m->ntheta; i++) direction[i] = ldexp(__imag__ at[i] / PB_IMAG_STEP, exponent);
  return bad;
}

static pbStatus push_constants(pbContext *ctx, const pbModel *m, const double *theta, double *direction) {
  pbDerive_c w = {0};
  _Complex double *at;

  // Measured, allocated, laid out.
  PB_TRY(pbDerive_MakePlan(ctx, m, &w.plan));

  pbArena arena = pbArena_Measure();
  lay_out_run(&arena, m, &w, &at);
  size_t needed = pbArena_Needed(&arena);
  void *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(ctx, needed) : NULL;

  int bad = -1;
  if (memory) {
    arena = pbArena_Over(memory, needed);
    lay_out_run(&arena, m, &w, &at);
    PB_ASSERT(!arena.failed && pbArena_Needed(&arena) == needed);
    bad = push_direction(m, theta, direction, &w, at);
  }

  pbContext_Free(ctx, memory);
  pbDerive_FreePlan(ctx, &w.plan);
  if (!memory) return pbContext_Fail(ctx, pb_no_memory, "out of memory for derived constants");

  // A singular M has no derivative.
  return bad < 0 ? pb_ok : pbContext_Fail(ctx, pb_singular, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
}

pbStatus pbModel_SetConstantsJvp(pbContext *ctx, const pbModel *m, const double *theta, double *direction) {
  char text[640];
  bool unit;
  double *after;
  if (!pbModel_Readable(m, theta, &unit, text, sizeof text)) return pbContext_Fail(ctx, pb_bad_input, "%s", text);
  if (!m->design) return push_constants(ctx, m, theta, direction);

  // What a design gives comes first.
  PB_TRY(pbDesign_Open(ctx, m, theta, &after));
  pbStatus status = pbDesign_Jvp(ctx, m, theta, after, direction);
  if (status == pb_ok) status = push_constants(ctx, m, after, direction);
  pbContext_Free(ctx, after);
  return status;
}
