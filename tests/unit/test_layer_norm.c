// LayerNorm beside its closed form: at numbers that are alike (where its root holds it), at huge and far ones, moved and scaled
// inputs, in float; silu far out. Derivatives through the kit of all layers: test_network.c; by complex steps: test_policy.py.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/policy.h>

#include "support/support.h"

enum { N = 4 };
static const double gain[] = {1, 2, -1, 0}, bias[] = {0.5, 0, -1, 3};

static pbNetwork *network_of(pbContext *ctx, int inputs, pbLayerDef def, bool single) {
  pbNetwork *network;
  if (pbNetwork_Create(ctx, inputs, &def, 1, 7, single, &network) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return network;
}

static void run(const pbNetwork *network, const double *x, double *y, double *x_bar) {
  const pbPolicyFunction *f = pbNetwork_Function(network);
  double param[2 * N], ones[N] = {1, 1, 1, 1};
  size_t size = (f->work_bytes(f->self, 1) + 127) / 64 * 64;
  void *work = aligned_alloc(64, size);
  memcpy(param, gain, sizeof gain);
  memcpy(param + N, bias, sizeof bias);

  assert_int_equal(f->forward(f->self, 1, param, x, NULL, y, NULL, work), pb_ok);
  memset(x_bar, 0, (size_t)f->observations * sizeof *x_bar);
  assert_int_equal(f->pull(f->self, 1, param, x, NULL, ones, NULL, x_bar, NULL, NULL, NULL, 0, work), pb_ok);
  free(work);
}

static void expect(const double *x, const double *y, double rounding) {
  double mean = 0, variance = 0;
  for (int i = 0; i < N; i++) mean += x[i] / N;
  for (int i = 0; i < N; i++) variance += (x[i] - mean) * (x[i] - mean) / N;
  for (int i = 0; i < N; i++) {
    double wanted = gain[i] * (x[i] - mean) / sqrt(variance + 1e-5) + bias[i];
    if (!(fabs(y[i] - wanted) <= rounding * (1 + fabs(wanted)))) fail_msg("entry %d: %.17g, expected %.17g", i, y[i], wanted);
  }
}

static void test_closed_form(void **state) {
  const double x[][N] = {{1, 2, 3, 5},          {0, 0, 0, 0},   {7, 7, 7, 7}, {1e8 + 1, 1e8 - 1, 1e8, 1e8},
                         {1e150, -1e150, 0, 0}, {0, 1e-9, 0, 0}};
  double y[N], x_bar[N];
  pbNetwork *network = network_of(*state, N, (pbLayerDef){.kind = pb_layerNorm}, false);
  pbNetwork *single = network_of(*state, N, (pbLayerDef){.kind = pb_layerNorm}, true);

  for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
    run(network, x[k], y, x_bar);
    expect(x[k], y, 4e-15);

    // a shift of all inputs changes nothing
    double sum = 0, size = 0;
    for (int i = 0; i < N; i++) sum += x_bar[i];
    for (int i = 0; i < N; i++) size += fabs(x_bar[i]);
    if (!(fabs(sum) <= 1e-12 * size)) fail_msg("%zu: cotangents sum to %g of %g", k, sum, size);
  }

  run(single, x[0], y, x_bar);
  expect(x[0], y, 1e-6);
  pbNetwork_Destroy(network);
  pbNetwork_Destroy(single);
}

// Of numbers that are all alike the derivative is that of a line: (g - mean g) / sqrt(1e-5).
static void test_derivative_at_rest(void **state) {
  const double x[N] = {2, 2, 2, 2};
  double y[N], x_bar[N], mean = 0;
  pbNetwork *network = network_of(*state, N, (pbLayerDef){.kind = pb_layerNorm}, false);
  run(network, x, y, x_bar);
  for (int i = 0; i < N; i++) mean += gain[i] / N;
  for (int i = 0; i < N; i++) assert_true(fabs(x_bar[i] - (gain[i] - mean) / sqrt(1e-5)) <= 1e-11);
  pbNetwork_Destroy(network);
}

static void test_silu_far_out(void **state) {
  const double x[N] = {-800, 800, 0, -1.2784645427610738};
  double y[N], x_bar[N];
  for (int single = 0; single < 2; single++) {
    pbLayerDef def = {.kind = pb_layerActivation, .activation = pb_activationSilu};
    pbNetwork *network = network_of(*state, N, def, single);
    run(network, x, y, x_bar);
    assert_true(fabs(y[0]) < 1e-30 && y[1] == 800 && y[2] == 0);
    assert_true(fabs(x_bar[0]) < 1e-30 && x_bar[1] == 1 && x_bar[2] == 0.5);

    // its minimum
    assert_true(fabs(y[3] + 0.2784645427610738) < (single ? 1e-7 : 1e-15) && fabs(x_bar[3]) < (single ? 1e-6 : 1e-15));
    pbNetwork_Destroy(network);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_closed_form, make_context, drop_context),
                                     cmocka_unit_test_setup_teardown(test_derivative_at_rest, make_context, drop_context),
                                     cmocka_unit_test_setup_teardown(test_silu_far_out, make_context, drop_context)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
