// What many C tests begin with: contexts, numbers at random, sums, comparisons. Allocators that fail: meter.h.
#ifndef PB_TEST_SUPPORT_H
#define PB_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pullback/model.h>

// ---- contexts -------------------------------------------------------------------------------------------------------
// A fixture: *state is a context. One that all tests of a file share by name: one_context.h.
int make_context(void **state);
int drop_context(void **state);

// The test fails unless a call returned pb_ok, with what the context says.
void good(pbContext *ctx, pbStatus status);

// The model of a text in MJCF.
pbModel *model_of_text(pbContext *ctx, const char *text);

// ---- numbers --------------------------------------------------------------------------------------------------------
double *zeros(size_t count);  // zeros, for free(); never NULL

// From one seed always the same. Sequences of two lengths, in [-1, 1]; fill_noise: `size` times those of noise64.
double noise(unsigned *seed);
double noise64(uint64_t *seed);
void fill_noise(uint64_t *seed, double *to, int count, double size);
double *random_numbers(size_t count, double size, unsigned *seed);  // `size` times those of noise, for free()

double random_unit(uint64_t *seed);  // in (-1, 1)
void random_rotation(uint64_t *seed, double mat[9]);

// ---- sums, comparisons ----------------------------------------------------------------------------------------------
double dot(const double *a, const double *b, size_t n);
double dot_and_size(const double *a, const double *b, size_t n, double *size);  // size: the sum of |a_i b_i| is added to it

void assert_near(double found, double expected, double tolerance);
void assert_near_of(const char *what, double found, double expected, double tolerance);

#endif
