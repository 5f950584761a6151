// All rows of an evaluation, file by file, in MuJoCo's order: equalities, friction loss, servos, limits, contacts. Derivative:
// rows_adjoint.c. Tests: tests/oracle/test_stages.py, tests/unit/test_servo.c, tests/conformance/test_step.c.
#include <pullback/equalities.h>

#include "bodies/row.h"
#include "eval/stages.h"

#define X(kind, name, law, of, off, file) extern const LANE(pbRowFile) LANE(pbRowFile_##file);
PB_ROW_KINDS(X)
#undef X
#define X(name, value, word, of, file, ...) extern const LANE(pbRowFile) LANE(pbRowFile_##file);
PB_EQUALITY_TABLE(X)
#undef X

static const struct {
  const LANE(pbRowFile) *file;
  int off;
} kinds[] = {
#define X(kind, name, law, of, off, file) {&LANE(pbRowFile_##file), off},
    PB_ROW_KINDS(X)
#undef X
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// By type.
static const LANE(pbRowFile) *const equalities[PB_EQUALITY_TYPES] = {
#define X(name, value, word, of, file, ...) [value] = &LANE(pbRowFile_##file),
    PB_EQUALITY_TABLE(X)
#undef X
};

pbStatus NUM(pbStage_Rows)(NUM(pbConstraints) *w) {
  const pbModel *m = w->m;
  w->nrow = w->ndofs_used = w->nJ_used = 0;
  if (m->disableflags & pb_disConstraint) return pb_ok;

  bool equal = !(m->disableflags & pb_disEquality);
  for (int e = 0; e < m->neq; e++) {
    if (equal && m->eq_active0[e]) equalities[m->eq_type[e]]->hold(w, e);
  }
  for (int k = 0; k < KINDS; k++) {
    if (!(m->disableflags & kinds[k].off)) kinds[k].file->make(w);
  }
  return pb_ok;
}
