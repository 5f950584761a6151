// The kernels of impacts and events that are called through the table of a variant (step/variants.h).
#ifndef PB_IMPACT_VARIANTS_H
#define PB_IMPACT_VARIANTS_H

#include "impact/event_kernel.h"
#include "impact/impact_adjoint.h"
#include "impact/impact_kernel.h"
#include "number/kernel_table.h"

// X(member, function, ...), as PB_STEP_KERNELS.
#define PB_IMPACT_KERNELS(X, ...)                        \
  X(event_find, pbEvent_Find, ##__VA_ARGS__)             \
  X(event_jumps, pbEvent_Jumps, ##__VA_ARGS__)           \
  X(event_classify, pbEvent_Classify, ##__VA_ARGS__)     \
  X(event_group, pbEvent_Group, ##__VA_ARGS__)           \
  X(event_rate, pbEvent_Rate, ##__VA_ARGS__)             \
  X(find_contacts, pbImpact_FindContacts, ##__VA_ARGS__) \
  X(gap, pbImpact_Gap, ##__VA_ARGS__)                    \
  X(change, pbImpact_Change, ##__VA_ARGS__)              \
  X(stand, pbImpact_Stand, ##__VA_ARGS__)                \
  X(vjp_impact, pbVjp_Impact_one, ##__VA_ARGS__)         \
  X(vjp_gap, pbVjp_Gap_one, ##__VA_ARGS__)

typedef struct pbImpactKernels {
  PB_IMPACT_KERNELS(PB_KERNEL_MEMBER)
} pbImpactKernels;

#endif
