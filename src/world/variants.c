#include "step/variants.h"

#include "impact/event.h"

#define DECLARE(suffix)                                                                                                    \
  double pbFinite_Sum##suffix(const double *x, size_t n);                                                                  \
  pbStatus pbStep_Run##suffix(void *work, double *stages, bool replay, bool sense, bool integrate);                        \
  double pbSolve_Cost##suffix(void *work, const double *a, double *gradient);                                              \
  pbStatus pbSolve_Again##suffix(void *work, double *a);                                                                   \
  pbStatus pbSolve_Complete##suffix(void *work);                                                                           \
  int pbImpact_Look##suffix(void *work, double reach, int most, pbTouch *touch);                                           \
  double pbImpact_Gap##suffix(void *work, int candidate, double reach);                                                    \
  pbStatus pbImpact_Change##suffix(void *work, int candidate, int point);                                                  \
  int pbEvent_Find##suffix(const void *work, const double *v_next, pbEvent *events);                                       \
  pbStatus pbEvent_Jumps##suffix(void *work, const double *v, pbEvent *events, int count, const pbEventPull *pull);        \
  void pbEvent_Look##suffix(const void *work, pbEvent *events, int count, const double *a);                                \
  int pbEvent_Group##suffix(const void *work, pbEvent *events, int count, int *parent);                                    \
  pbStatus pbEvent_Rate##suffix(void *work, const double *v, const pbEvent *events, int count, int without, bool at_guard, \
                                double *a);                                                                                \
  static pbStatus vjp##suffix(void *block, bool lanes, void *work, const double *stages, const pbPullback *pull) {         \
    return lanes ? pbVjp_Run_lanes##suffix(block, work, stages, pull) : pbVjp_Run_one##suffix(block, work, stages, pull);  \
  }                                                                                                                        \
  static size_t size##suffix(const pbModel *m, int contacts, bool lanes) {                                                 \
    return lanes ? pbVjp_Size_lanes##suffix(m, contacts) : pbVjp_Size_one##suffix(m, contacts);                            \
  }                                                                                                                        \
  static void carve##suffix(void *block, const pbModel *m, int contacts, bool lanes) {                                     \
    if (lanes) pbVjp_Carve_lanes##suffix(block, m, contacts);                                                              \
    else pbVjp_Carve_one##suffix(block, m, contacts);                                                                      \
  }
DECLARE(_r)
#ifdef PB_HAVE_V3
DECLARE(_v3)
#endif
#ifdef PB_HAVE_V4
DECLARE(_v4)
#endif
#undef DECLARE

#define VJP(suffix)                                                                                             \
  vjp##suffix, pbVjp_Velocity_lanes##suffix, pbEvent_Find##suffix, pbEvent_Jumps##suffix, pbEvent_Look##suffix, \
      pbEvent_Group##suffix, pbEvent_Rate##suffix, size##suffix, carve##suffix
#define IMPACT(suffix) \
  pbImpact_Look##suffix, pbImpact_Gap##suffix, pbImpact_Change##suffix, pbVjp_Strike_one##suffix, pbVjp_Gap_one##suffix
#define TABLE(suffix)                                                                                       \
  {                                                                                                         \
#suffix, pbStep_Run##suffix, pbFinite_Sum##suffix, pbVjp_Lanes_lanes##suffix, pbSolve_Complete##suffix, \
        pbSolve_Cost##suffix, pbSolve_Again##suffix, VJP(suffix), IMPACT(suffix)                            \
  }
#ifdef PB_HAVE_V4
static const pbVariant v4 = TABLE(_v4);
#endif
#ifdef PB_HAVE_V3
static const pbVariant v3 = TABLE(_v3);
#endif
static const pbVariant baseline = TABLE(_r);

const pbVariant *pbVariant_At(int index) {
#ifdef PB_HAVE_V4
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && index-- == 0) {
    return &v4;
  }
#endif
#ifdef PB_HAVE_V3
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && index-- == 0)
    return &v3;
#endif
  return index == 0 ? &baseline : NULL;
}

const pbVariant *pbVariant_Best(void) { return pbVariant_At(0); }
