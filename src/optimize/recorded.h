// Controls that are a recording: values at times of their own, delayed by some seconds. A step takes their mean over its time, so
// that a recording at any rate and any delay acts exactly on average, and the derivative by the delay is that of this mean.
#ifndef PB_RECORDED_H
#define PB_RECORDED_H

#include <pullback/base.h>

// One control: it has value[i] from time[i] on (held), or lies on lines between them; before the first and behind the last it
// stays what it is there.
typedef struct pbSeries {
  size_t count;  // 1 or more
  double *time;  // s, ascending; NULL: count is 1
  double *value;
} pbSeries;

typedef struct pbRecorded {
  bool linear;
  bool timed;  // samples have times of their own; else they are a step each
  int width;
  double timestep;   // of the steps that it acts in, s
  pbSeries *series;  // width of them
} pbRecorded;

// Rows (rows, width) that are a step each, from time 0.
PB_NODISCARD pbStatus pbRecorded_OfRows(pbContext *ctx, const double *rows, size_t count, int width, double timestep,
                                        pbRecorded **recorded);
PB_NODISCARD pbStatus pbRecorded_Create(pbContext *ctx, int width, double timestep, pbRecorded **recorded);
PB_NODISCARD pbStatus pbSeries_Allocate(pbContext *ctx, pbSeries *series, size_t count);
void pbRecorded_Destroy(pbContext *ctx, pbRecorded *recorded);  // NULL is fine

// Times within 1e-5 steps of the beginning of one are that, as times that are written in decimals are meant.
void pbSeries_Snap(pbSeries *series, double step);
// The mean from `from` to `to`, which is later.
double pbSeries_Mean(const pbSeries *series, bool linear, double from, double to);
// Its derivative by a delay: of the same mean of a recording that comes later. Where an end of the interval meets a time at which
// a held recording jumps, that towards longer delays.
double pbSeries_DelaySlope(const pbSeries *series, bool linear, double from, double to);

// Controls of all steps (steps, width), and their derivatives by the delay.
void pbRecorded_Controls(const pbRecorded *recorded, double delay, int steps, double *ctrl);
void pbRecorded_DelaySlopes(const pbRecorded *recorded, double delay, int steps, double *slope);

#endif
