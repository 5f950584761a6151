// What is told of a training: how far it is, and the table of its updates.
// Tests: tests/oracle/test_train.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/learn.h>
#include <pullback/trajectory.h>

const char *pbTrainNews_Say(const pbTrainNews *news, char *text, size_t size) {
  int n = snprintf(text, size, "%.3g robot-steps/s", news->steps_per_second);

  // nothing is known before the first update
  if (isfinite(news->cost)) n += snprintf(text + n, size - (size_t)n, ", loss %.5g", news->cost);
  if (isfinite(news->score)) n += snprintf(text + n, size - (size_t)n, ", evaluated %.5g", news->score);
  if (isfinite(news->agreement)) snprintf(text + n, size - (size_t)n, ", agreement %.2f at %d", news->agreement, news->window);
  return text;
}

const char *pbTrainRow_Name(int column) {
  static const char *const names[PB_TRAIN_COLUMNS] = {"update",    "robot_steps", "loss",      "gradient_norm", "critic_error",
                                                      "evaluated", "alive",       "agreement", "window",        "dropped"};
  return column >= 0 && column < PB_TRAIN_COLUMNS ? names[column] : NULL;
}

static void write_number(FILE *out, double value) {
  char text[40];
  if (!isfinite(value)) return;

  // a point in every locale: commas are between columns
  snprintf(text, sizeof text, "%.9g", value);
  char *point = text + strspn(text, "-+0123456789e");
  if (*point) *point = '.';
  fputs(text, out);
}

void pbTrain_Table(const pbTrain *train, FILE *out) {
  for (int k = 0; k < PB_TRAIN_COLUMNS; k++) fprintf(out, "%s%s", k ? "," : "", pbTrainRow_Name(k));
  fputc('\n', out);

  const pbTrainRow *rows = pbTrain_Rows(train);
  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    double row[PB_TRAIN_COLUMNS];
    memcpy(row, &rows[i], sizeof row);
    for (int k = 0; k < PB_TRAIN_COLUMNS; k++) {
      if (k) fputc(',', out);
      write_number(out, row[k]);
    }
    fputc('\n', out);
  }
}

const char *pbTrainResult_Warning(const pbTrainResult *result, char *text, size_t size) {
  // with the window in the unit that a task has it
  char where[120];
  snprintf(where, sizeof where, "in most windows (half of what gradients reach is \"window\": %d): ", result->noise_window);
  return pbNoise_Warning(&result->noise, where, text, size);
}
