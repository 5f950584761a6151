// Which column of a CSV is which number of a model (docs/csv.md): by its name, and by the word of a quantity in front of it.
#ifndef PB_IO_COLUMNS_H
#define PB_IO_COLUMNS_H

#include <pullback/model.h>

#include "io/arrays/csv.h"

// The first of them are pbQuantity's (optimize/task.h).
typedef enum pbRecordedKind {
  pb_columnQpos,
  pb_columnQvel,
  pb_columnAct,
  pb_columnSensor,
  pb_columnBody,
  pb_columnSite,
  pb_columnPoints,
  pb_columnPointVelocity,
  pb_columnControl,
  pb_columnMocapPos,
  pb_columnMocapQuat,
  pb_columnMocapVel,
  pb_columnKinds
} pbRecordedKind;

enum { PB_COLUMN_NAME = 240 };

// A number of a row of all that a model has of a kind.
typedef struct pbColumn {
  pbRecordedKind kind;
  int object;        // joint, sensor, ...
  int index, count;  // which of its numbers, of how many
  const char *name;  // of the object; "": none, and its number stands for it
  const char *part;  // "x", "qw", ...; "": none
  const char *unit;  // in SI; NULL: any
} pbColumn;
pbColumn pbColumn_Of(const pbModel *m, pbRecordedKind kind, int number);
int pbColumn_Count(const pbModel *m, pbRecordedKind kind);  // numbers of such a row

// The column of a number, by one of its names; NULL: there is none. certain: what is read says that it is of this kind, so that a
// name needs no word in front. pb_bad_input: a name that may be of something else as well, or a unit that does not fit.
PB_NODISCARD pbStatus pbColumn_Find(pbContext *ctx, const pbModel *m, const pbArrays *set, const pbColumn *wanted, bool certain,
                                    const pbArray **column);
// pb_bad_input: no column is this number; what was looked for, and which columns there are.
PB_NODISCARD pbStatus pbColumn_Missing(pbContext *ctx, const pbArrays *set, const pbColumn *wanted, bool certain);
// The unit of a column that is taken for a number, however it was found.
PB_NODISCARD pbStatus pbColumn_CheckUnit(pbContext *ctx, const pbArrays *set, const pbArray *column, const pbColumn *wanted);
// The column of this name; without a name "time", "t" or "timestamp", else the only one that ascends in a unit of time; NULL:
// there is none. Its times are there and ascend.
PB_NODISCARD pbStatus pbColumn_Time(pbContext *ctx, const pbArrays *set, const char *name, const pbArray **time);
// "a, b, c, ..."; returns text.
char *pbColumn_List(const pbArrays *set, char *text, size_t size);

#endif
