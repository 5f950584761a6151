// Which groups of the pullback's work are not wanted: column "wakes" of model_fields.h.
// Tests: tests/unit/test_rollout.c, tests/unit/test_schedule.c, tests/oracle/test_parameters.py.
#include "step/wanted.h"

#include "compile/setconst.h"
#include "model/model.h"
#include "model/param.h"
#include "model/wanted.h"

// Meshes and fields that are exposed come behind the model's own fields.
static unsigned groups_of(const pbModel *m, int field) {
  const pbParamRow *row = pbParam_Row(field);
  if (row) return row->wakes;

  return pbParam_Row(field - m->nexposed) ? pb_wantMeshes : 0;
}

unsigned pbWanted_Skip(const pbModel *m, const bool *unwanted) {
  unsigned wanted = 0;
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    if (!unwanted[i]) wanted |= groups_of(m, i);
  }

  // Hard contact weighs rows by masses (contact/weight.h).
  if (pb_hard(m) && !unwanted[pb_param_body_mass]) wanted |= pb_wantRows;
  return pb_wantEverything & ~wanted;
}

bool pbWanted_Taken(const pbModel *m, int field) {
  const pbParamRow *row = pbParam_Row(field);
  if (!row) return false;

  return row->follows == pb_followsDerived || row->follows == pb_followsSome ||
         (row->follows == pb_followsDesign && m->ndesignbody > 0);
}

bool pbWanted_Source(const pbModel *m, int field) {
  pbParam p = pbModel_ParamAt(m, field);
  return pbConstants_Read(m, p.offset, (size_t)p.rows * (size_t)p.cols);
}
