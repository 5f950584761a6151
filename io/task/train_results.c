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

static void write_number(FILE *out, double value) {
  char text[40];
  if (!isfinite(value)) return;

  // a point in every locale: commas are between columns
  snprintf(text, sizeof text, "%.9g", value);
  char *point = text + strspn(text, "-+0123456789e");
  if (*point) *point = '.';
  fputs(text, out);
}

// In quotes where it has a comma or a quote of its own.
static void write_name(FILE *out, const char *name) {
  if (!strpbrk(name, ",\"\n")) {
    fputs(name, out);
    return;
  }

  fputc('"', out);
  for (; *name; name++) {
    if (*name == '"') fputc('"', out);
    fputc(*name, out);
  }
  fputc('"', out);
}

void pbTrain_Table(const pbTrain *train, FILE *out) {
  int columns = pbTrain_ColumnCount(train);
  char name[160];
  for (int k = 0; k < columns; k++) {
    if (k) fputc(',', out);
    write_name(out, pbTrain_ColumnName(train, k, name, sizeof name));
  }
  fputc('\n', out);

  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    for (int k = 0; k < columns; k++) {
      if (k) fputc(',', out);
      write_number(out, pbTrain_Number(train, i, k));
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
