// A task read to be audited: of a training the length of its episodes, and the loss that the audit names.
// Tests: tests/oracle/test_audit.py, tests/oracle/test_wrong_types.py.
#include <pullback/audit.h>

#include "base/context.h"
#include "io/json/tree.h"
#include "io/task/task_reader.h"

// What a training does not say of a single run: its length is that of an episode, and its loss may be another than what it is
// trained by.
static pbStatus complete(pbTaskReader *r, const json_t *root, json_t *whole) {
  static const char *const lengths[] = {"steps", "duration", "trajectories", "controls"};
  const json_t *loss = json_object_get(json_object_get(root, "audit"), "loss");
  json_t *seconds = json_object_get(json_object_get(root, "episode"), "seconds");
  bool has_length = false;

  for (int i = 0; i < 4; i++) has_length |= json_object_get(root, lengths[i]) != NULL;

  // a shallow copy: what is set belongs to both
  int failed = 0;
  if (!has_length && seconds) failed |= json_object_set(whole, "duration", seconds);
  if (loss) failed |= json_object_set(whole, "loss", (json_t *)loss);
  return failed ? pbTaskReader_Fail(r, pb_no_memory, "no memory for an audit") : pb_ok;
}

static pbStatus read_audited(pbTaskReader *r, const json_t *root, pbTask *task) {
  json_t *whole = json_is_object(root) ? pbJson_CopyMembers(root) : json_incref((json_t *)root);
  if (!whole) return pbTaskReader_Fail(r, pb_no_memory, "no memory for an audit");

  pbStatus status = complete(r, root, whole);
  if (status == pb_ok) status = pbTask_ReadWhole(r, whole, task);
  json_decref(whole);
  return status == pb_ok ? pbTask_CheckTraining(r, root, task) : status;
}

pbStatus pbTask_LoadAudit(pbContext *ctx, const char *path, const char *allow_root, const char *policy, pbTask **task) {
  const pbTaskReader with = {.ctx = ctx, .allow_root = allow_root, .policy = policy, .audit = true, .functions = true};
  return pbTask_LoadPart(&with, path, read_audited, task);
}
