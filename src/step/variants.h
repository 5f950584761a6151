// The same double kernels for several instruction sets; the best one the processor has is taken. All give the same bits
// (no contraction, no reassociation).
#ifndef PB_VARIANTS_H
#define PB_VARIANTS_H

#include "eval/work.h"
#include "eval/touch.h"
#include "step/vjp.h"

struct pbEvent;
struct pbEventPull;

// The struct layouts of all double variants are those of pbWork_r; the table hides their different names.
typedef struct pbVariant {
  const char *name;
  pbStatus (*run)(void *work, double *stages, bool replay, bool sense, bool integrate);
  double (*sum)(const double *x, size_t n);                       // pbFinite_Sum
  int (*lanes)(void);                                             // cotangents that a pullback takes side by side
  pbStatus (*complete)(void *work);                               // pbSolve_Complete
  double (*cost)(void *work, const double *a, double *gradient);  // pbSolve_Cost
  pbStatus (*again)(void *work, double *a);                       // pbSolve_Again
  pbStatus (*vjp)(void *block, bool lanes, void *work, const double *stages, const pbPullback *pull);
  pbStatus (*velocity)(void *block, void *work, const double *stages, double *A, double *B);  // pbVjp_Velocity
  int (*event_find)(const void *work, const double *v_next, struct pbEvent *events);          // pbEvent_Find, pbEvent_Jumps
  pbStatus (*event_jumps)(void *work, const double *v, struct pbEvent *events, int count, const struct pbEventPull *pull);
  void (*event_look)(const void *work, struct pbEvent *events, int count,
                     const double *a);  // pbEvent_Look, pbEvent_Group, pbEvent_Rate
  int (*event_group)(const void *work, struct pbEvent *events, int count, int *parent);
  pbStatus (*event_rate)(void *work, const double *v, const struct pbEvent *events, int count, int without, bool at_guard,
                         double *a);
  size_t (*vjp_size)(const pbModel *m, int max_contacts, bool lanes);
  void (*vjp_carve)(void *block, const pbModel *m, int max_contacts, bool lanes);
  // impacts: pbImpact_Look, pbImpact_Gap, pbImpact_Strike, pbVjp_Strike, pbVjp_Gap
  int (*look)(void *work, double reach, int most, pbTouch *touch);
  double (*gap)(void *work, int candidate, double reach);
  pbStatus (*strike)(void *work, int candidate, int point);
  pbStatus (*vjp_strike)(void *block, void *work, int candidate, int point, const pbPullback *pull, double *gap_slope);
  void (*vjp_gap)(void *block, void *work, int point, double bar, const pbPullback *pull);
} pbVariant;

// Those this processor can run, the best first; NULL beyond the last.
const pbVariant *pbVariant_At(int index);
const pbVariant *pbVariant_Best(void);

#endif
