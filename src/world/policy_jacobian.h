// Jacobians of a step with a policy, of open steps and functions by themselves.
#ifndef PB_POLICY_JACOBIAN_H
#define PB_POLICY_JACOBIAN_H

#include "linalg/product.h"
#include "model/columns.h"
#include "world/policy_step.h"

// As pbStep_JacobianBy, by a normalized theta; not of worlds with deformables or histories, nor of steps with impacts.
PB_NODISCARD pbStatus pbPolicy_Jacobian(pbScratch *s, const pbStepRecord *step, const pbJacobian *out);

// ---- what it works with (policy_room.c) ---------------------------------------------------------------------------------
enum { pb_pulledColumns = 16 };  // columns of a function at most

// Made when it is first asked for, or in advance.
PB_NODISCARD pbStatus pbPolicy_MakeJacobian(pbScratch *s);

// Inputs that the open step is differentiated by: those asked for, and those that the policy reaches.
static inline unsigned pbPolicy_Reached(const pbPolicyModel *p, unsigned by) {
  if (p->reaches[pb_outputControl]) by |= pb_byControl;
  if (p->reaches[pb_outputForce]) by |= pb_byForce;
  if (p->reaches[pb_outputWrench]) by |= pb_byWrench;
  return by;
}

// Rows: what the policy keeps, in the order of the state; then what goes out, which without a part that acts is what is held.
static inline int pbPolicy_KeptRows(const pbPolicyModel *p) { return p->memory + p->held; }
static inline int pbPolicy_AllRows(const pbPolicyModel *p) { return pbPolicy_KeptRows(p) + (p->act ? p->outputs : 0); }
static inline int pbPolicy_OutputRow(const pbPolicyModel *p) { return p->act ? pbPolicy_KeptRows(p) : p->memory; }

// Rows of an open step by what goes out, times the policy's: into rows of so many numbers.
static inline pbProductShape pbPolicy_Shape(int rows, int outputs, int columns, int row_length) {
  return (pbProductShape){.m = rows, .n = columns, .k = outputs, .lda = outputs, .ldb = columns, .ldc = row_length};
}

#endif
