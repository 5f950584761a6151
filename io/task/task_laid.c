// "stages" of a task: the task of one of them, which is the file's with the stage laid over it.
// Tests: tests/unit/test_stages.c.
#include <stdio.h>
#include <string.h>

#include "io/json/tree.h"
#include "io/task/task_reader.h"

static const char *const stage_keys[] = {"name",  "comment",  "contact",   "mode", "gradient",
                                         "steps", "duration", "optimizer", "stop", NULL};
static const char *const merged_keys[] = {"contact", "optimizer", NULL};  // key by key; others take the place of the task's

static bool is_merged(const char *key) {
  for (int i = 0; merged_keys[i]; i++) {
    if (strcmp(key, merged_keys[i]) == 0) return true;
  }
  return false;
}

static bool has_length(const json_t *object) { return json_object_get(object, "steps") || json_object_get(object, "duration"); }

// What the task states for one trajectory alone would stay as it is, whatever the stage says.
static const char *why_no_length(const json_t *file) {
  size_t i;
  json_t *one;
  if (json_object_get(file, "window")) return "the task is cut into windows, whose number follows from its length";
  json_array_foreach(json_object_get(file, "trajectories"), i, one) {
    if (has_length(one)) return "trajectories have lengths of their own";
    if (json_object_get(one, "window")) return "trajectories are cut into windows, whose number follows from their length";
  }

  return NULL;
}

static pbStatus check_stage(pbTaskReader *r, const json_t *file, const json_t *stage) {
  const char *name = NULL;
  PB_TRY(pbTaskReader_Keys(r, stage, stage_keys));
  PB_TRY(pbTaskReader_Text(r, stage, "name", &name));
  for (int i = 0; merged_keys[i]; i++) {
    const json_t *part = json_object_get(stage, merged_keys[i]);
    if (part && !json_is_object(part)) return pbTaskReader_FailAt(r, merged_keys[i], "expected an object {...}");
  }

  if (json_object_get(stage, "steps") && json_object_get(stage, "duration"))
    return pbTaskReader_FailAt(r, "duration", "expected one of \"steps\" and \"duration\", found both");

  const char *why = has_length(stage) ? why_no_length(file) : NULL;
  const char *key = json_object_get(stage, "steps") ? "steps" : "duration";
  return why ? pbTaskReader_FailAt(r, key, "not in a stage: %s", why) : pb_ok;
}

static pbStatus check_stages(pbTaskReader *r, const json_t *file, const json_t *stages) {
  enum { most = 100 };
  size_t count = json_array_size(stages);
  if (!json_is_array(stages) || count < 1 || count > most)
    return pbTaskReader_FailAt(r, "stages", "expected a list of 1 to %d stages, each an object {...}", most);
  if (r->train) return pbTaskReader_FailAt(r, "stages", "a training has none: its \"ramps\" make physics easier at first");

  pbTaskReader_Enter(r, "stages");
  for (size_t i = 0; i < count; i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(check_stage(r, file, json_array_get(stages, i)));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);

  return pb_ok;
}

// A part with the stage's laid over it; NULL for want of memory.
static json_t *merge(const json_t *part, json_t *over) {
  if (!json_is_object(part)) return json_incref(over);
  json_t *copy = pbJson_CopyMembers(part);
  if (!copy || json_object_update(copy, over) == 0) return copy;

  json_decref(copy);
  return NULL;
}

static json_t *lay_over(const json_t *file, const json_t *stage) {
  const char *key;
  json_t *value, *root = pbJson_CopyMembers(file);
  bool good = root != NULL;
  if (!good) return NULL;
  json_object_del(root, "stages");

  // a length in steps is one in seconds, too
  if (has_length(stage)) {
    json_object_del(root, "steps");
    json_object_del(root, "duration");
  }

  json_object_foreach((json_t *)stage, key, value) {
    bool told = strcmp(key, "name") == 0 || strcmp(key, "comment") == 0;
    if (told || !good) continue;
    json_t *laid = is_merged(key) ? merge(json_object_get(file, key), value) : json_incref(value);
    good = laid && json_object_set_new(root, key, laid) == 0;
  }

  if (good) return root;
  json_decref(root);
  return NULL;
}

pbStatus pbTask_Lay(pbTaskReader *r, json_t *file, json_t **root) {
  const json_t *stages = json_object_get(file, "stages");
  *root = NULL;
  if (!stages) {
    *root = json_incref(file);
    return pb_ok;
  }

  // the last one is what the task is about
  PB_TRY(check_stages(r, file, stages));
  r->laid_at = r->stage ? (size_t)r->stage - 1 : json_array_size(stages) - 1;
  r->laid = json_array_get(stages, r->laid_at);
  *root = lay_over(file, r->laid);

  return *root ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a stage");
}

// ---- what is known of stages before a run --------------------------------------------------------------------------------
static pbStatus keep_stage(pbTask *task, int k, const json_t *stage) {
  const char *name = json_string_value(json_object_get(stage, "name"));
  char number[40];
  snprintf(number, sizeof number, "stage %d", k + 1);
  task->stages[k].name = pbContext_CopyText(task->ctx, name ? name : number);
  return task->stages[k].name ? pb_ok : pbContext_Fail(task->ctx, pb_no_memory, "no memory for a task");
}

pbStatus pbTask_KeepStages(pbTaskReader *r, const json_t *file, pbTask *task) {
  const json_t *stages = json_object_get(file, "stages");
  int count = (int)json_array_size(stages);
  if (!stages) return pb_ok;
  if (task->start_count > 1) {
    pbTaskReader_Enter(r, "optimizer");
    return pbTaskReader_FailAt(r, "starts", "expected 1, for a task with stages has one start");
  }

  // one stage of several is a task without any
  if (r->stage) return pb_ok;

  task->stages = pbContext_AllocArray(r->ctx, (size_t)count, sizeof *task->stages);
  if (!task->stages) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a task");
  task->stage_count = count;
  for (int k = 0; k < count; k++) PB_TRY(keep_stage(task, k, json_array_get(stages, (size_t)k)));

  return pb_ok;
}
