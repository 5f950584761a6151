// Histories: samples of controls and of what sensors measured, with their times, as a part of the state; how they are written and
// read. As MuJoCo's mjData.history, number by number: buffers of actuators, then of sensors, each
//
//   user, cursor, times (n), samples (n x dim)
//
// a ring whose newest sample is the cursor's. user: of a sensor with an interval when it last measured, in continuous time. Of
// these the samples alone are in a state's tangent, in this order; times follow from the clock.
#ifndef PB_HISTORY_H
#define PB_HISTORY_H

#include "model/model.h"

typedef struct pbBuffer {
  bool sensor;  // of a sensor, not of an actuator,
  int object;   // and of which
  int at;       // where it begins in the history
  int tangent;  // where its samples begin in the history's part of a tangent
  int n, dim, interp;
} pbBuffer;

// Every buffer in turn, from {.object = -1} on. False: there are no more.
bool pbBuffer_Next(const pbModel *m, pbBuffer *buffer);
static inline const double *pbBuffer_Times(const pbBuffer *b, const double *history) { return history + b->at + 2; }
static inline int pbBuffer_Samples(const pbBuffer *b) { return b->at + 2 + b->n; }
// Its delay, of theta.
double pbBuffer_Delay(const pbModel *m, const double *theta, const pbBuffer *buffer);
size_t pbBuffer_DelayAt(const pbModel *m, const pbBuffer *buffer);
// Where the buffer of a sensor stands; false: it keeps none.
bool pbBuffer_OfSensor(const pbModel *m, int sensor, pbBuffer *buffer);

// Numbers of a history and of its tangent, from the model's tables.
void pbHistory_Count(pbModel *m);
// pb_unsupported where sensors keep samples and a flag switches them off: MuJoCo's would go on measuring and tell zero.
PB_NODISCARD pbStatus pbHistory_Check(pbContext *ctx, const pbModel *m);
// Before the start: samples of zero, a time step (or a sensor's interval) apart.
void pbHistory_Init(const pbModel *m, const double *theta, double *history);
// Are cursors those of a ring, and do times increase? Else what is wrong, in words.
bool pbHistory_Readable(const pbModel *m, const double *history, char *text, size_t size);
// What an entry of the history is, or of its tangent: "history[7] (actuator 'knee')"; returns text.
char *pbHistory_EntryName(const pbModel *m, int entry, bool tangent, char *text, size_t size);

// ---- writing -------------------------------------------------------------------------------------------------------
// Where a sample goes: to a slot, whose sample is lost; where it is older than the newest, after `shift` older ones moved down.
typedef struct pbInsertion {
  int slot, cursor, shift;
  int first;  // slot of the oldest
} pbInsertion;
pbInsertion pbHistory_Plan(const pbBuffer *buffer, const double *history, double time);
// Times and cursor, and samples that move; the slot's are left to the caller. samples: those of the buffer, or their tangents.
void pbInsertion_Stamp(const pbBuffer *buffer, const pbInsertion *plan, double time, double *history);
void pbInsertion_Move(const pbBuffer *buffer, const pbInsertion *plan, double *samples);
// Cotangents of samples after to those before, in place; the new sample's are added to new_bar (dim; NULL: not wanted).
void pbInsertion_Pull(const pbBuffer *buffer, const pbInsertion *plan, double *samples_bar, double *new_bar);

// ---- reading -------------------------------------------------------------------------------------------------------
// Now, and how times move with the time step h: now by `ticks` steps, a sample that was taken on the way by those until then,
// one that was there at the start not at all. Read `later` steps from now.
typedef struct pbHistoryClock {
  double now, h, later;
  int ticks;
} pbHistoryClock;

// Value = sum of weight times sample; rate: derivative of the value by the time it is read at, by_step: by h, likewise.
enum { pb_readMost = 4 };
typedef struct pbLateReading {
  int count, slot[pb_readMost];
  double weight[pb_readMost], rate[pb_readMost], by_step[pb_readMost];
} pbLateReading;
// Before the oldest and after the newest sample their values hold. At a sample, and within 1e-10 of the way to its neighbor, the
// rate is that towards later times, hence shorter delays.
pbLateReading pbHistory_Read(const pbBuffer *buffer, const double *history, const pbHistoryClock *clock, double delay);
// Time steps by which the time of a sample moves with h, as above.
double pbHistory_Tick(const pbHistoryClock *clock, double time);

// ---- sensors -------------------------------------------------------------------------------------------------------
// Does a sensor measure now, and does it tell what it measured before (by its buffer)?
bool pbHistory_Measures(const pbModel *m, const pbBuffer *buffer, const double *history, double now);
// Is it a clock, short of its cutoff? What it measures moves with the time step through `ticks` steps.
bool pbHistory_IsClock(const pbModel *m, const double *theta, int sensor, double now);
bool pbHistory_TellsLate(const pbModel *m, const double *theta, const pbBuffer *buffer, const double *history, double now);

#endif
