// Recordings in CSV (docs/csv.md): what is known of a set beyond its arrays.
#ifndef PB_IO_CSV_H
#define PB_IO_CSV_H

#include <stdio.h>

#include <pullback/array.h>

#include "io/arrays/units.h"

typedef struct pbCsv {
  char *file;           // its name, for messages
  size_t columns;       // the first arrays of the set are these, in the file's order
  pbUnit *units;        // of each, as the header states it; the numbers are in SI
  size_t rows, header;  // header: its line
  unsigned *lines;      // of each row in the file, from 1; beyond what an unsigned holds they stay at that
} pbCsv;

// Whether a file is one, by its name or by its first bytes, which are none of another kind that is read.
bool pbCsv_IsOne(const char *name, const unsigned char *start, size_t count);
// Read the stream from its beginning into an empty set. pb_bad_input with file, line and column; pb_capacity beyond
// PB_ARRAY_LIMIT, before memory is taken. Missing samples are NaN.
PB_NODISCARD pbStatus pbCsv_Read(pbContext *ctx, FILE *stream, const char *file, pbArrays *set);

const pbCsv *pbArrays_Csv(const pbArrays *set);  // NULL: the set is out of another kind of file
// Of an array that is a column of a CSV: its unit; "log.csv:12: column 3 'knee'" of one of its samples into text, or (row
// SIZE_MAX) of its place in the header. Returns text.
const pbUnit *pbArrays_UnitOf(const pbArrays *set, const pbArray *column);
char *pbArrays_Place(const pbArrays *set, const pbArray *column, size_t row, char *text, size_t size);

#endif
