// Files that MuJoCo's reader takes and XML's rules do not: '--' in comments, no blank between attributes, '&' and '<' in values,
// bytes of other encodings, control characters, several roots. Their text is written again as XML.
#ifndef PB_IO_XML_REPAIR_H
#define PB_IO_XML_REPAIR_H

#include <pullback/base.h>

#include <stdbool.h>

enum { PB_XML_REPAIRS = 100000 };  // most insertions in one file

typedef struct pbXmlInsert {
  int line, column, length;  // where in the text that was made, and how many characters
} pbXmlInsert;

typedef struct pbXmlRepair {
  char *text;
  size_t length;
  int faults;  // how many places were not XML; 0: the text says the same as before
  pbXmlInsert *inserted;
  int count;
} pbXmlRepair;

// The text as XML, with a warning for each kind of fault that names the first place. Free it in any case. pb_bad_input: too many
// places. What neither reader takes stays as it is.
PB_NODISCARD pbStatus pbXmlRepair_Text(pbContext *ctx, const char *text, size_t length, const char *name, pbXmlRepair *result);
void pbXmlRepair_Free(pbContext *ctx, pbXmlRepair *repair);

// How many characters were inserted in the line before the column: its column in the file is so much less.
int pbXmlRepair_Shift(const pbXmlRepair *repair, int line, int column);

#endif
