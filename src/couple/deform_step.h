// Deformables in the world's step and its derivatives.
#ifndef PB_DEFORM_STEP_H
#define PB_DEFORM_STEP_H

#include "deform/deform.h"
#include "step/record.h"

void pbScratch_NoteDeform(pbScratch *s);  // the last step's solve, into the report
// What the deformables read of a step's arguments, of a direction of them, and where their cotangents go.
pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input);
pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction);
pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar);
void pbScratch_DeformRecord(const pbScratch *s, double *record);
// Steps from now on begin their search at the solution in a tape's record, which must stay; NULL: as they do by themselves.
void pbScratch_GuessDeform(pbScratch *s, const double *record);
// The first element whose energy stands at a kink in the step that was pulled back last (src/deform/kink.c); false: none.
bool pbScratch_KinkedElement(pbScratch *s, char *text, size_t size);
// The deformables' part of a step from x, of its pullback from the tape's record (cached: of pbDeform_SaveFactor), and of its
// forward derivative.
PB_NODISCARD pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input,
                                           double *next);
PB_NODISCARD pbStatus pbScratch_DeformVjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, const pbStepBar *out);
PB_NODISCARD pbStatus pbScratch_DeformJvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, double *next);

#endif
