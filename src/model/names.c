// Names of the elements of a model.
// Tests: tests/unit/test_compile.c.
#include <string.h>

#include "model/model.h"

const char *pbModel_Name(const pbModel *m, pbObject kind, int id) {
  if (kind == pb_objDof) return id >= 0 && id < m->nv ? pbModel_Name(m, pb_objJoint, m->dof_jntid[id]) : NULL;
  if (kind < 0 || kind >= pb_objCount || id < 0 || id >= m->names_count[kind]) return NULL;
  return m->names[kind][id] ? m->names[kind][id] : "";
}

int pbModel_Id(const pbModel *m, pbObject kind, const char *name) {
  if (!name || !*name || kind < 0 || kind >= pb_objCount) return -1;

  // A dof has the name of its joint; of several, the first is meant.
  if (kind == pb_objDof) {
    int joint = pbModel_Id(m, pb_objJoint, name);
    return joint < 0 ? -1 : m->jnt_dofadr[joint];
  }

  for (int i = 0; i < m->names_count[kind]; i++) {
    if (!strcmp(pbModel_Name(m, kind, i), name)) return i;
  }
  return -1;
}
