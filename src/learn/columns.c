// What is told of a training beside its loss: each term by itself, in updates and in evaluations, and weights on their way.
// Tests: tests/unit/test_learn_terms.c, tests/oracle/test_train.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "learn/train.h"

// ---- weights ----------------------------------------------------------------------------------------------------------
// From one number to the other on a line: either may be zero, or of another sign.
void pbTrain_Weigh(pbTrain *t, double fraction) {
  for (int i = 0; i < t->schedules; i++) {
    const pbTermSchedule *s = &t->schedule[i];
    double part = fraction >= s->end ? 1 : 0;
    if (fraction > s->begin && fraction < s->end) part = (fraction - s->begin) / (s->end - s->begin);
    t->cost.terms[s->term].weight = part < 1 ? s->from + part * (s->own - s->from) : s->own;
  }
}

// ---- terms ------------------------------------------------------------------------------------------------------------
double *pbTrain_TermCosts(const pbTrain *t, int w, int k) {
  size_t at = (size_t)w * (size_t)t->settings.window + (size_t)k;
  PB_ASSERT(w < t->lanes && k < t->settings.window);
  return t->term_costs + at * (size_t)t->cost.count;
}

void pbTrain_KeepTerms(pbTrain *t, int w, int k) {
  double *to = pbTrain_TermCosts(t, w, k);
  for (int i = 0; i < t->cost.count; i++) to[i] = t->cost.terms[i].value;
}

double *pbTrain_TermRow(const pbTrain *t, int row, bool evaluated) {
  size_t terms = (size_t)t->cost.count;
  return t->term_rows + ((size_t)row * 2 + evaluated) * terms;
}

// Means over the decisions that count, as of the whole loss.
void pbTrain_MeanTerms(const pbTrain *t, double *mean) {
  double count = 0;
  for (int w = 0; w < t->settings.worlds; w++) count += t->length[w];

  for (int i = 0; i < t->cost.count; i++) {
    mean[i] = 0;
    for (int w = 0; w < t->settings.worlds; w++) {
      for (int k = 0; k < t->length[w]; k++) mean[i] += pbTrain_TermCosts(t, w, k)[i];
    }
    mean[i] /= count;
  }
}

// ---- columns ----------------------------------------------------------------------------------------------------------
const char *pbTrainRow_Name(int column) {
  static const char *const names[PB_TRAIN_COLUMNS] = {
      "update", "robot_steps", "loss",   "gradient_norm", "critic_error", "evaluated", "alive",   "agreement",
      "window", "dropped",     "length", "success",       "mixed",        "deviation", "entropy", "temperature"};

  return column >= 0 && column < PB_TRAIN_COLUMNS ? names[column] : NULL;
}

// Two of each term, behind those of a row.
size_t pbTrain_RowSize(const pbTrain *t) { return PB_TRAIN_COLUMNS + 2 * (size_t)t->cost.count; }
int pbTrain_RowCount(const pbTrain *train) { return train->now ? (int)train->now->update : 0; }
int pbTrain_ColumnCount(const pbTrain *train) { return PB_TRAIN_COLUMNS + 2 * train->cost.count; }

// How many terms before this one have its name.
static int namesakes(const pbTrain *t, int term) {
  int count = 0;
  for (int i = 0; i < term; i++) count += strcmp(t->cost.terms[i].name, t->cost.terms[term].name) == 0;
  return count;
}

const char *pbTrain_ColumnName(const pbTrain *train, int column, char *name, size_t size) {
  PB_ASSERT(size >= 160);
  int term = (column - PB_TRAIN_COLUMNS) / 2, before = 0;
  bool evaluated = (column - PB_TRAIN_COLUMNS) % 2;

  // a row's own, then two for each term
  *name = 0;
  if (column < 0 || column >= pbTrain_ColumnCount(train)) return name;
  if (column < PB_TRAIN_COLUMNS) {
    snprintf(name, size, "%s", pbTrainRow_Name(column));
    return name;
  }

  int n = snprintf(name, size, "%s:%.120s", evaluated ? "evaluated" : "loss", train->cost.terms[term].name);
  before = namesakes(train, term);
  if (before) snprintf(name + n, size - (size_t)n, " %d", before + 1);

  return name;
}

double pbTrain_Number(const pbTrain *train, int row, int column) {
  double values[PB_TRAIN_COLUMNS];
  int behind = column - PB_TRAIN_COLUMNS;
  if (row < 0 || row >= pbTrain_RowCount(train) || column < 0 || column >= pbTrain_ColumnCount(train)) return NAN;
  // behind the row's own
  if (behind >= 0) return pbTrain_TermRow(train, row, behind % 2)[behind / 2];

  memcpy(values, &train->rows[row], sizeof values);
  return values[column];
}
