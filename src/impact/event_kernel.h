// Events of one step, on the evaluation that holds it. What they do to derivatives of the step: event.h.
#ifndef PB_EVENT_KERNEL_H
#define PB_EVENT_KERNEL_H

#include "eval/names.h"
#include "impact/event.h"

// Events of the step that work holds (event.h). Find: onsets with v_next NULL, else releases, v_next being the velocity after the
// step, in the order in which pbEvent_Jumps puts their rows in; returns their number, at most that of the rows. Jumps: wants the
// evaluation at its solution and leaves it elsewhere; v: the velocity at the events.
int NUM(pbEvent_Find)(const NUM(pbWork) *w, const double *v_next, pbEvent *events);
pbStatus NUM(pbEvent_Jumps)(NUM(pbWork) *w, const double *v, pbEvent *events, int count, const pbEventPull *pull);
// Hard contact. Classify, at the solution: which events push, graze (a: acceleration without their rows; NULL: not asked) and
// so act. Group: onsets whose impulses change what others do belong together; returns the number of groups; parent: room for
// nrow.
void NUM(pbEvent_Classify)(const NUM(pbWork) *w, pbEvent *events, int count, const double *a);
int NUM(pbEvent_Group)(const NUM(pbWork) *w, pbEvent *events, int count, int *parent);
// Acceleration (nv) at the velocity v and the positions in work, all forces at that velocity. Without the onsets of one group, of
// all, or of none; at_guard: the rows of onsets as they are where their distance passes the margin. Leaves its solution in work.
enum { pb_eventsNone = -1, pb_eventsAll = -2 };
pbStatus NUM(pbEvent_Rate)(NUM(pbWork) *w, const double *v, const pbEvent *events, int count, int without, bool at_guard,
                           double *a);

#endif
