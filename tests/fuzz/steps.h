// What the fuzz targets of models share: a small model that compiles is stepped. Its numbers may be wild, but what comes out is
// finite or an error.
#ifndef PB_FUZZ_STEPS_H
#define PB_FUZZ_STEPS_H

#include <pullback/pullback.h>

#include <math.h>
#include <stdlib.h>

static void take_steps(pbContext *ctx, const pbModel *model) {
  int n = pbModel_StateSize(model);
  pbScratch *scratch = NULL;
  double *x = malloc((size_t)n * sizeof *x);
  const double *theta = pbModel_DefaultParams(model);
  pbInput none = {0};
  pbCapacity few = {.contacts = 200};
  pbStatus status = x ? pbState_Init(ctx, model, theta, pbModel_Size(model, "nkey") - 1, x) : pb_no_memory;
  if (status == pb_ok) status = pbScratch_Create(ctx, model, &few, &scratch);
  for (int k = 0; k < 2 && status == pb_ok; k++) {
    status = pbStep_Forward(model, theta, x, &none, scratch, NULL);
    for (int i = 0; status == pb_ok && i < n; i++) {
      if (!isfinite(x[i])) abort();  // a step says that it failed
    }
  }
  pbScratch_Destroy(scratch);
  free(x);
}

// The spec of a text, as far as it came: compiled, and stepped where that is quick.
static void compile_and_step(pbContext *ctx, pbSpec *spec, pbStatus status) {
  pbModel *model = NULL;
  if (status == pb_ok) status = pbSpec_Compile(spec, &model);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  bool small = status == pb_ok && pbModel_Size(model, "nv") <= 60 && pbModel_Size(model, "ngeom") <= 60 &&
               pbModel_Size(model, "nu") <= 100;
  if (small && pbModel_CheckParams(ctx, model, pbModel_DefaultParams(model)) == pb_ok) take_steps(ctx, model);
  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
}

#endif
