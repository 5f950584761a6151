// MJCF: read, compiled and stepped; whatever the text says, an answer or an error that tells the place.
#include <pullback/pullback.h>

#include <math.h>
#include <stdlib.h>

static pbStatus steps(const pbModel *m) {
  if (pbModel_Size(m, "nv") > 200 || pbModel_Size(m, "ngeom") > 200) return pb_ok;  // large ones only take time
  pbScratch *scratch;
  double *x = calloc((size_t)pbModel_StateSize(m), sizeof *x);
  pbStatus status = pbScratch_Create(m, NULL, &scratch);
  if (status == pb_ok) status = pbState_Init(m, pbModel_DefaultParams(m), -1, x);
  for (int k = 0; k < 3 && status == pb_ok; k++) {
    status = pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){0}, scratch, NULL);
    for (int i = 0; status == pb_ok && i < pbModel_StateSize(m); i++)
      if (!isfinite(x[i])) abort();  // must have been pb_not_finite
  }
  pbScratch_Destroy(scratch);
  free(x);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec = NULL;
  pbModel *model = NULL;
  pbStatus status = pbSpec_ParseMjcf(ctx, (const char *)data, size, "fuzz.xml", &spec);
  if (status == pb_ok) status = pbSpec_Compile(spec, &model);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();  // an error says what is wrong
  if (status == pb_ok) status = steps(model);
  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
  pbContext_Destroy(ctx);
  return 0;
}
