// Events: limits and contacts whose rows appear (onset) or go (release) because a distance passes its margin, with a force that
// is not zero there. The acceleration then jumps by Da, and a change of the distance, which moves the moment of the event,
// changes the velocity after it (saltation; docs/contact-gradients.md):
//
//   dv += Da d(dist - margin) / rate,     rate = J_n v
//
// Hard contact changes velocities by an impulse at once. A step with an onset is the jump map D of the saltation matrix D + (F+
// - D F) n' / rate, with F and F+ the rates of the state before and after, each with the forces of its own velocity. Onsets of
// a step whose impulses change what the others do act together, at one time (group); groups do not affect each other.
//
// A row that appears at the first state within the margin has acted a whole step h less where the distance just stayed outside:
// so an onset belongs to the step that begins with the row, behind its acceleration and before its positions. A release belongs
// behind the last step with the row. Both follow from that step alone: semi-implicit Euler moves the distance by h J_n v.
#ifndef PB_EVENT_H
#define PB_EVENT_H

#include <pullback/world.h>

#include "step/record.h"

typedef struct pbEvent {
  int row, slot;  // in the evaluation; where pbEvent_Jumps has put it
  int kind, id;   // of the row
  bool release;
  bool pushes;            // there is a force at the guard, so something jumps
  bool grazing;           // the rate may change its sign within a step: not corrected
  bool unsteady;          // hard contact: corrected, but the rate changes so much within a step that this is coarse
  bool together;          // with another event at the same time: the mean of both orders
  double when, rate;      // time from the event to the state (onset), from the state to the event (release)
  bool acts;              // hard contact: pushes and does not graze,
  int group;              // acts together with others of this group,
  double impulse, share;  // and has this share in their time, by its impulse
  double bar;             // cotangent of its distance, as it gathers
} pbEvent;

// What the jumps of a number of events do to cotangents or tangents. Added to; NULL where not wanted.
typedef struct pbEventPull {
  const double *q_bar, *v_bar;      // nv: cotangents of positions (onsets) and velocity after the event
  double *distance_bar;             // nrow: of pos - margin at the state of the step
  double *v_next_bar;               // nv: of the velocity after the step (releases)
  const double *distance, *v_next;  // nrow, nv: tangents of the same
  double *q, *v;                    // nv: tangents of positions (onsets) and velocity after the event
} pbEventPull;

// What was found in a step.
typedef struct pbEventCount {
  int corrected, grazing, together;  // grazing: unsteady ones, too, which are among the corrected
  int led;  // impacts of hard contact, and of method impact, that throw with the velocity of mocap body led_by
  int led_by;
  char grazing_name[200], together_name[200], led_name[200];  // the last of each, where there are any
} pbEventCount;

// Numbers that scratch->event_columns holds for hard contact.
size_t pbEvents_Room(const pbModel *model);
// Work holds the step of the record (pbStep_VjpCached has just run, with the same arguments). Adds what the events of the step
// contribute. first: the step begins at the initial state, which is given, so nothing appears there.
PB_NODISCARD pbStatus pbStep_EventsVjp(const pbStepRecord *step, const double *next_bar, bool first, pbScratch *scratch,
                                       const pbStepBar *out, pbEventCount *count);
// The same for a tangent: next, what pbStep_Jvp made of the direction, is corrected. x_next: the state after the step.
PB_NODISCARD pbStatus pbStep_EventsJvp(const pbStepRecord *step, const double *x_next, const pbDirection *direction, bool first,
                                       pbScratch *scratch, double *next);

#endif
