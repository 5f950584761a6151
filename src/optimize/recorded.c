// Controls that are a recording. Means over steps are exact integrals of the held or linear recording.
// Tests: tests/unit/test_recorded.c.
#include "optimize/recorded.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"

// ---- memory -----------------------------------------------------------------------------------------------------------
pbStatus pbRecorded_Create(pbContext *ctx, int width, double timestep, pbRecorded **recorded) {
  pbRecorded *r = pbContext_Alloc(ctx, sizeof *r);
  pbSeries *series = pbContext_AllocArray(ctx, (size_t)width + 1, sizeof *series);
  if (!r || !series) {
    pbContext_Free(ctx, r);
    pbContext_Free(ctx, series);
    return pbContext_Fail(ctx, pb_no_memory, "no memory for recorded controls");
  }

  // a series for each control
  *r = (pbRecorded){.width = width, .timestep = timestep, .series = series};
  *recorded = r;

  return pb_ok;
}

pbStatus pbSeries_Allocate(pbContext *ctx, pbSeries *series, size_t count) {
  // freed with the recording, also where only one of both is there
  series->count = count;
  series->time = pbContext_AllocArray(ctx, count, sizeof *series->time);
  series->value = pbContext_AllocArray(ctx, count, sizeof *series->value);

  return series->time && series->value ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "no memory for recorded controls");
}

void pbRecorded_Destroy(pbContext *ctx, pbRecorded *recorded) {
  if (!recorded) return;

  for (int i = 0; i < recorded->width; i++) {
    pbContext_Free(ctx, recorded->series[i].time);
    pbContext_Free(ctx, recorded->series[i].value);
  }
  pbContext_Free(ctx, recorded->series);
  pbContext_Free(ctx, recorded);
}

pbStatus pbRecorded_OfRows(pbContext *ctx, const double *rows, size_t count, int width, double timestep, pbRecorded **recorded) {
  pbRecorded *r = NULL;
  PB_ASSERT(count > 0);
  PB_TRY(pbRecorded_Create(ctx, width, timestep, &r));

  for (int i = 0; i < width; i++) {
    pbStatus status = pbSeries_Allocate(ctx, &r->series[i], count);
    if (status != pb_ok) {
      pbRecorded_Destroy(ctx, r);
      return status;
    }

    // a column of the rows
    for (size_t k = 0; k < count; k++) {
      r->series[i].time[k] = (double)k * timestep;
      r->series[i].value[k] = rows[k * (size_t)width + (size_t)i];
    }
  }

  *recorded = r;

  return pb_ok;
}

// ---- at a time --------------------------------------------------------------------------------------------------------
void pbSeries_Snap(pbSeries *series, double step) {
  for (size_t i = 0; i < series->count; i++) {
    double k = floor(series->time[i] / step + 0.5), near = k * step;
    if (fabs(series->time[i] - near) <= 1e-5 * step * (1 + 1e-6 * fabs(k))) series->time[i] = near;
  }
}

// The last sample at or before a time; count: there is none.
static size_t find_sample(const pbSeries *s, double time) {
  size_t low = 0, high = s->count;

  // how many are not later
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (s->time[middle] <= time) low = middle + 1;
    else high = middle;
  }

  return low ? low - 1 : s->count;
}

static double value_at(const pbSeries *s, bool linear, double time) {
  size_t i = find_sample(s, time);
  PB_ASSERT(s->count > 0);

  // before the first sample the first, beyond the last the last
  if (i == s->count) return s->value[0];
  if (!linear || i + 1 == s->count) return s->value[i];

  // on the line to the next one
  double share = (time - s->time[i]) / (s->time[i + 1] - s->time[i]);

  return s->value[i] + share * (s->value[i + 1] - s->value[i]);
}

// ---- means ------------------------------------------------------------------------------------------------------------
// From one time to another between two samples next to each other.
static double piece_mean(const pbSeries *s, bool linear, double from, double to) {
  double middle = from + 0.5 * (to - from);
  return value_at(s, linear, middle);
}

double pbSeries_Mean(const pbSeries *s, bool linear, double from, double to) {
  PB_ASSERT(to > from && s->count > 0);
  double sliver = 1e-12 * (to - from), sum = 0, at = from;
  size_t next = find_sample(s, from);
  next = next == s->count ? 0 : next + 1;

  // up to each sample within the interval; what rounding makes of times that meet its ends is no piece
  for (; next < s->count && s->time[next] < to - sliver; next++) {
    if (s->time[next] <= from + sliver) continue;
    sum += (s->time[next] - at) * piece_mean(s, linear, at, s->time[next]);
    at = s->time[next];
  }

  // one piece has its value to the last bit
  double last = piece_mean(s, linear, at, to);

  return at == from ? last : (sum + (to - at) * last) / (to - from);
}

double pbSeries_DelaySlope(const pbSeries *s, bool linear, double from, double to) {
  // a delay that grows moves both ends back: what a held recording was just before them
  double before = linear ? 0 : 1e-12 * (to - from);
  return (value_at(s, linear, from - before) - value_at(s, linear, to - before)) / (to - from);
}

// ---- all steps --------------------------------------------------------------------------------------------------------
void pbRecorded_Controls(const pbRecorded *r, double delay, int steps, double *ctrl) {
  for (int k = 0; k < steps; k++) {
    double from = k * r->timestep - delay, to = (k + 1) * r->timestep - delay;
    for (int i = 0; i < r->width; i++)
      ctrl[(size_t)k * (size_t)r->width + (size_t)i] = pbSeries_Mean(&r->series[i], r->linear, from, to);
  }
}

void pbRecorded_DelaySlopes(const pbRecorded *r, double delay, int steps, double *slope) {
  for (int k = 0; k < steps; k++) {
    double from = k * r->timestep - delay, to = (k + 1) * r->timestep - delay;
    for (int i = 0; i < r->width; i++)
      slope[(size_t)k * (size_t)r->width + (size_t)i] = pbSeries_DelaySlope(&r->series[i], r->linear, from, to);
  }
}
