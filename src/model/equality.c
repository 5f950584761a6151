// The table of equalities.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py, tests/conformance/test_lists.c.
#include "model/equality.h"

#include <string.h>

#include <pullback/equalities.h>

#include "base/assert.h"

static const pbEqualityRow rows[PB_EQUALITY_TYPES] = {
#define X(name, value, word, of, file, meaning) [value] = {value, word, meaning, pb_of##of},
    PB_EQUALITY_TABLE(X)
#undef X
};

const pbEqualityRow *pbEquality_Row(int type) {
  bool there = type >= 0 && type < PB_EQUALITY_TYPES && rows[type].word;
  return there ? &rows[type] : NULL;
}

const pbEqualityRow *pbEquality_Named(const char *word) {
  for (int i = 0; i < PB_EQUALITY_TYPES; i++) {
    if (rows[i].word && !strcmp(rows[i].word, word)) return &rows[i];
  }
  return NULL;
}

pbEqualityOf pbEquality_Of(int type) {
  PB_ASSERT(pbEquality_Row(type));
  return rows[type].of;
}

bool pbEquality_HasEnds(int type) { return pbEquality_Of(type) == pb_ofPoints || pbEquality_Of(type) == pb_ofPoses; }
