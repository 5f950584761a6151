// The tables of the variants, written from the lists of their kernels.
// Tests: tests/conformance/test_step.c.
#include "step/variants.h"

#include "impact/variants.h"

PB_STEP_KERNELS(PB_KERNEL_DECLARE)
PB_IMPACT_KERNELS(PB_KERNEL_DECLARE)

#define IMPACT(suffix) {PB_IMPACT_KERNELS(PB_KERNEL_ENTRY, suffix)},
static const pbImpactKernels impact[] = {PB_VARIANTS(IMPACT)};

#define TABLE(suffix) {.name = #suffix, PB_STEP_KERNELS(PB_KERNEL_ENTRY, suffix).impact = &impact[pb_variant##suffix]},
static const pbVariant tables[] = {PB_VARIANTS(TABLE)};

const pbVariant *pbVariant_At(int index) {
  int variant = pbCpu_Variant(index);
  return variant < 0 ? NULL : &tables[variant];
}

const pbVariant *pbVariant_Best(void) { return pbVariant_At(0); }
