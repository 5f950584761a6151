// Deformables in the world's step and its derivatives.
#ifndef PB_DEFORM_STEP_H
#define PB_DEFORM_STEP_H

#include "deform/deform.h"
#include "step/scratch.h"

// Fields of the state from number 0; offsets count from `base`. An entry of their state, or tangent, in words.
int pbDeform_FieldCount(const pbDeform *deform);
pbStateField pbDeform_FieldAt(const pbDeform *deform, int index, int base);
char *pbDeform_EntryName(const pbDeform *deform, int entry, char *text, size_t size);
void pbDeform_Init(const pbDeform *deform, double *state);

void pbScratch_NoteDeform(pbScratch *s);  // what the report says of the last step
pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input);
pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction);
pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar);
// Deformables hang on bodies that move: one step for both (couple.h).
static inline bool pb_coupled(const pbModel *m) { return m->deform && m->deform->coupled; }
// Numbers that a step leaves in the tape's record: the state after it, and the anchor of its solution (deform.h).
static inline int pb_deformRecord(const pbModel *m) { return m->deform ? m->deform_state + 3 * m->deform->npoint + 1 : 0; }
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
