// Tables of kernels, one for each variant of doubles, so that sources outside the kernels call the best that the processor has.
//
// A folder lists the kernels in its table once, as X(member, function, ...); what they take and return stands only in the
// header that their own sources include. From the list come
//   PB_KERNEL_MEMBER    the members of the table's struct, pointers of just that type;
//   PB_KERNEL_DECLARE   declarations of the same function in the other variants;
//   PB_KERNEL_ENTRY     the entries of the table of one variant.
// So a definition, a call through the table or an entry with another signature does not compile (tools/check_kernels.py).
#ifndef PB_KERNEL_TABLE_H
#define PB_KERNEL_TABLE_H

#include "base/cpu.h"
#include "number/number.h"

#define PB_KERNEL_MEMBER(member, function)        __typeof__(NUM(function)) *member;
#define PB_KERNEL_DECLARE(member, function)       PB_VARIANTS(PB_KERNEL_VARIANT, function)
#define PB_KERNEL_VARIANT(suffix, function)       __typeof__(NUM(function)) function##suffix;
#define PB_KERNEL_ENTRY(member, function, suffix) .member = function##suffix,

#endif
