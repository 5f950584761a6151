// What the rows of PB_EQUALITY_TABLE (pullback/equalities.h) say of an equality, by its type.
#ifndef PB_EQUALITY_H
#define PB_EQUALITY_H

#include <stdbool.h>

// What an equality holds, and so what its eq_data are (equality_data.h).
typedef enum pbEqualityOf {
  pb_ofPoints,  // of two bodies or of two sites
  pb_ofPoses,   // of two bodies or of two sites
  pb_ofJoints,  // one hinge or slide, or two
  pb_ofTendons  // one or two
} pbEqualityOf;

typedef struct pbEqualityRow {
  int type;
  const char *word, *meaning;
  pbEqualityOf of;
} pbEqualityRow;

// NULL: no equality has this type, or this word; what models hold has one.
const pbEqualityRow *pbEquality_Row(int type);
const pbEqualityRow *pbEquality_Named(const char *word);
// What one of this type holds, and is that bodies or sites, not joints or tendons? For types that have a row.
pbEqualityOf pbEquality_Of(int type);
bool pbEquality_HasEnds(int type);

#endif
