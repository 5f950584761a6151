// Formulas of energies: whatever the text, an energy or an error with line and column; what was made can be evaluated.
#include <pullback/pullback.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void evaluate(pbContext *ctx, const pbEnergy *e) {
  double x[9] = {0.1, 0.2, 0, 1, 0.3, 0.2, 0, 1.1, 0.4}, X[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0}, k = 2,
         A[9] = {1, 0, 0, 0, 1, 0, 0, 0.5, 1};
  double value, gradient[9], hessian[81], bar[9] = {0};
  const double *parameter[] = {&k, A};
  pbElements in = {.count = 1,
                   .vertex = (int[]){0, 1, 2},
                   .x = x,
                   .rest = X,
                   .previous = X,
                   .parameter = parameter,
                   .timestep = 0.1,
                   .time = 1};
  void *work = pbContext_Alloc(ctx, pbEnergy_WorkSize(e));
  pbEnergyFault fault;
  if (!work) return;
  bool fine = pbEnergy_Evaluate(e, &in, &(pbElementsOut){&value, gradient, hessian}, work, &fault);
  if (fine != (fault.element < 0) || (fine && !isfinite(value)) || (!fine && (value != INFINITY || !fault.what[0]))) abort();
  for (int i = 0; i < 81; i++)
    if (!isfinite(hessian[i]) || !isfinite(gradient[i / 9])) abort();
  if (pbEnergy_Pullback(e, &in, x, &(pbElementsBar){.x = bar, .rest = bar}, work, &fault) != (fault.element < 0)) abort();
  for (int i = 0; i < 9; i++)
    if (isnan(bar[i])) abort();
  pbContext_Free(ctx, work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const pbEnergyParameter parameters[] = {{.name = "k", .rows = 1, .cols = 1}, {.name = "A", .rows = 3, .cols = 3}};
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = 0;
  pbContext *ctx = pbContext_Create(NULL);
  pbEnergyDef def = {"fuzz", text, 3, 2, parameters};
  pbEnergy *e = NULL;
  pbStatus status = pbEnergy_Create(ctx, &def, &e);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  if (e) evaluate(ctx, e);
  pbEnergy_Destroy(e);
  pbContext_Destroy(ctx);
  free(text);
  return 0;
}
