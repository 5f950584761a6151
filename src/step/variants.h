// The same double kernels for several instruction sets; the best one the processor has is taken. All give the same bits
// (no contraction, no reassociation).
#ifndef PB_VARIANTS_H
#define PB_VARIANTS_H

#include "number/kernel_table.h"
#include "solve/newton.h"
#include "step/kernels.h"
#include "step/vjp.h"

// vjp.h declares what takes one cotangent; what takes several side by side has the same types.
__typeof__(pbVjp_Lanes_one_r) pbVjp_Lanes_lanes_r;
__typeof__(pbVjp_Create_one_r) pbVjp_Create_lanes_r;
__typeof__(pbVjp_Destroy_one_r) pbVjp_Destroy_lanes_r;
__typeof__(pbVjp_Run_one_r) pbVjp_Run_lanes_r;
__typeof__(pbVjp_State_one_r) pbVjp_State_lanes_r;

// The kernels that are called through the table, X(member, function, ...); the headers above say what they do.
#define PB_STEP_KERNELS(X, ...)                            \
  X(run, pbStep_Run, ##__VA_ARGS__)                        \
  X(sense, pbObserve_Sense, ##__VA_ARGS__)                 \
  X(sum, pbFinite_Sum, ##__VA_ARGS__)                      \
  X(complete, pbSolve_Complete, ##__VA_ARGS__)             \
  X(cost, pbSolve_Cost, ##__VA_ARGS__)                     \
  X(again, pbSolve_Again, ##__VA_ARGS__)                   \
  X(vjp_one_create, pbVjp_Create_one, ##__VA_ARGS__)       \
  X(vjp_one_destroy, pbVjp_Destroy_one, ##__VA_ARGS__)     \
  X(vjp_one, pbVjp_Run_one, ##__VA_ARGS__)                 \
  X(lanes, pbVjp_Lanes_lanes, ##__VA_ARGS__)               \
  X(vjp_lanes_create, pbVjp_Create_lanes, ##__VA_ARGS__)   \
  X(vjp_lanes_destroy, pbVjp_Destroy_lanes, ##__VA_ARGS__) \
  X(vjp_lanes, pbVjp_Run_lanes, ##__VA_ARGS__)             \
  X(vjp_lanes_state, pbVjp_State_lanes, ##__VA_ARGS__)

typedef struct pbVariant {
  const char *name;
  PB_STEP_KERNELS(PB_KERNEL_MEMBER)
  const struct pbImpactKernels *impact;  // impact/variants.h
} pbVariant;

// Those this processor can run, the best first; NULL beyond the last.
const pbVariant *pbVariant_At(int index);
const pbVariant *pbVariant_Best(void);

#endif
