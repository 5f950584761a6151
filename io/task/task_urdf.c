// "urdf" of a task: how its model is read where it is URDF (docs/urdf.md).
// Tests: tests/oracle/test_urdf.py.
#include "base/context.h"
#include "io/task/task_reader.h"

static const char *const inertia_rules[] = {
    [pb_inertiaRefuse] = "refuse", [pb_inertiaKeep] = "keep", [pb_inertiaRepair] = "repair", NULL};
static const char *const mesh_rules[] = {[pb_missingRefuse] = "refuse", [pb_missingSkip] = "skip", NULL};
static const pbTaskKey urdf_keys[] = {PB_KEY("package_path", Text, pbUrdfOptions, package_path),
                                      PB_KEY("floating_base", Bool, pbUrdfOptions, floating_base),
                                      PB_KEY("fuse", Bool, pbUrdfOptions, fuse),
                                      PB_KEY("motors", Bool, pbUrdfOptions, motors),
                                      PB_KEY_WORD("inertia", pbUrdfOptions, inertia, inertia_rules),
                                      PB_KEY_WORD("missing_meshes", pbUrdfOptions, missing_meshes, mesh_rules),
                                      PB_KEYS_END};

pbStatus pbTask_ReadUrdf(pbTaskReader *r, const json_t *root, pbUrdfOptions *urdf, char **package_path) {
  const json_t *object = json_object_get(root, "urdf");
  pbUrdfOptions given = {0};
  *urdf = given;
  *package_path = NULL;
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "urdf");
  PB_TRY(pbTaskReader_Fill(r, object, urdf_keys, &given));

  // A folder that the task may read from.
  if (given.package_path) PB_TRY(pbTaskReader_Path(r, given.package_path, package_path));
  given.package_path = *package_path;
  *urdf = given;
  pbTaskReader_Leave(r);
  return pb_ok;
}
