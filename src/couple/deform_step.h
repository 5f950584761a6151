// Deformables in the world's step and its derivatives.
#ifndef PB_DEFORM_STEP_H
#define PB_DEFORM_STEP_H

#include "deform/deform.h"
#include "step/scratch.h"

void pbScratch_NoteDeform(pbScratch *s);  // what the report says of the last step
pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input);
pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction);
pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar);
void pbScratch_DeformRecord(const pbScratch *s, double *record);
// The deformables' part of a step from x, of its pullback from the tape's record, and of its forward derivative.
PB_NODISCARD pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input,
                                           double *next);
PB_NODISCARD pbStatus pbScratch_DeformVjp(pbScratch *s, const double *theta, const double *record, const void *kept,
                                          const pbInput *input, const double *next_bar, double *x_bar,
                                          const pbInputBar *input_bar, double *theta_bar);
PB_NODISCARD pbStatus pbScratch_DeformJvp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                                          const pbDirection *direction, double *next);

#endif
