// "urdf" of a task: how its model is read where it is URDF (docs/urdf.md).
// Tests: tests/oracle/test_urdf.py.
#include <string.h>

#include "base/context.h"
#include "io/task/task_reader.h"

static const char *const urdf_keys[] = {"package_path", "floating_base", "fuse", "motors", "inertia", "missing_meshes", NULL};

pbStatus pbTask_ReadUrdf(pbTaskReader *r, const json_t *root, pbUrdfOptions *urdf, char **package_path) {
  static const char *const rules[] = {[pb_inertiaRefuse] = "refuse", [pb_inertiaKeep] = "keep", [pb_inertiaRepair] = "repair"};
  const json_t *object = json_object_get(root, "urdf");
  const char *path = NULL, *rule = rules[pb_inertiaRefuse], *missing = "refuse";
  *urdf = (pbUrdfOptions){0};
  *package_path = NULL;
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "urdf");
  PB_TRY(pbTaskReader_Keys(r, object, urdf_keys));
  PB_TRY(pbTaskReader_Bool(r, object, "floating_base", &urdf->floating_base));
  PB_TRY(pbTaskReader_Bool(r, object, "fuse", &urdf->fuse));
  PB_TRY(pbTaskReader_Bool(r, object, "motors", &urdf->motors));

  PB_TRY(pbTaskReader_Text(r, object, "inertia", &rule));
  // By their places in pbInertiaRule.
  int found = 0;
  while (found < 3 && strcmp(rule, rules[found]) != 0) found++;
  if (found == 3) return pbTaskReader_FailAt(r, "inertia", "expected \"refuse\", \"keep\" or \"repair\", found \"%.40s\"", rule);
  urdf->inertia = (pbInertiaRule)found;

  PB_TRY(pbTaskReader_Text(r, object, "missing_meshes", &missing));
  if (!strcmp(missing, "skip")) urdf->missing_meshes = pb_missingSkip;
  else if (strcmp(missing, "refuse") != 0)
    return pbTaskReader_FailAt(r, "missing_meshes", "expected \"refuse\" or \"skip\", found \"%.40s\"", missing);

  // A folder that the task may read from.
  PB_TRY(pbTaskReader_Text(r, object, "package_path", &path));
  if (path) PB_TRY(pbTaskReader_Path(r, path, package_path));
  urdf->package_path = *package_path;
  pbTaskReader_Leave(r);
  return pb_ok;
}
