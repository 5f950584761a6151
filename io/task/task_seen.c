// "observe" of a critic: what it sees beside its policy, or instead. docs/task.md.
// Tests: tests/unit/test_learn_seen.c.
#include <string.h>

#include "base/context.h"
#include "io/json/tree.h"
#include "io/task/policy.h"
#include "learn/train.h"
#include "model/policy_data.h"
#include "world/policy_step.h"

// Entries of theta that are drawn, each once.
static bool was_drawn(const pbTask *task, int draw, int entry) {
  const pbSample *s = &task->sample;
  size_t index = s->draws[draw].index[entry];
  for (int i = 0; i <= draw; i++) {
    int count = i == draw ? entry : s->draws[i].count;
    if (s->draws[i].target != pb_drawParam) continue;

    for (int k = 0; k < count; k++) {
      if (s->draws[i].index[k] == index) return true;
    }
  }

  return false;
}

static int count_drawn(const pbTask *task) {
  int count = 0;

  // one that two draws have is one number of a world
  for (int i = 0; i < task->sample.count; i++) {
    const pbDraw *d = &task->sample.draws[i];
    if (d->target != pb_drawParam) continue;

    // a number that several draws share is one
    for (int k = 0; k < d->count; k++) count += !was_drawn(task, i, k);
  }

  return count;
}

// Rows into the training's own model; where a task is only checked they are read alone.
static pbStatus read_rows(pbTaskReader *r, const json_t *object, pbTrain *t, int *numbers) {
  const pbPolicyModel *p = t->task->model->policy;
  const pbObserveDef *row;
  int count;
  *numbers = 0;
  if (!json_object_get(object, "observe")) return pb_ok;

  PB_TRY(pbTask_ReadCriticRows(r, object, t->task->model, &row, &count, numbers));

  // others would be drawn by nobody
  for (int i = 0; i < count; i++) {
    if (row[i].kind == pb_observeCommand && row[i].first + row[i].count > p->commands)
      return pbTaskReader_FailAt(r, "observe", "a critic hears the commands of its policy, which are %d", p->commands);
  }
  // a task that is only checked is used otherwise, too
  if (!r->train) return pb_ok;

  pbStatus status = pbModel_WatchPolicy(t->task->model, row, count);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, pb_bad_input);
}

static pbStatus take_columns(pbTaskReader *r, pbTrain *t, bool alone, int rows, int drawn) {
  const pbPolicyModel *p = t->task->model->policy;
  int first = p->observing - (r->train ? rows : 0), own = alone ? 0 : p->observed - p->decide->draws;
  t->critic_column = pbContext_AllocArray(t->ctx, (size_t)(own + rows + drawn) + 1, sizeof *t->critic_column);
  if (!t->critic_column) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a critic");

  // the policy's without its draws, rows behind those of act, what was drawn behind all
  for (int i = 0; i < own; i++) t->critic_column[t->critic_inputs++] = i;
  for (int i = 0; i < rows + drawn; i++) t->critic_column[t->critic_inputs++] = first + i;
  return pb_ok;
}

pbStatus pbTrain_ReadSeen(pbTaskReader *r, const json_t *object, pbTrain *t) {
  bool alone = false, drawn = false, sees = json_object_get(object, "observe");
  int rows;
  PB_TRY(pbTaskReader_Bool(r, object, "alone", &alone));
  PB_TRY(pbTaskReader_Bool(r, object, "drawn", &drawn));
  if (alone && !sees) return pbTaskReader_FailAt(r, "alone", "expected \"observe\" beside it: what it sees alone");
  if (!sees && !drawn) return pb_ok;

  // rows first: they stand before what is drawn
  int count = drawn ? count_drawn(t->task) : 0;
  if (drawn && !count) return pbTaskReader_FailAt(r, "drawn", "\"sample\" draws no parameters");
  PB_TRY(read_rows(r, object, t, &rows));
  t->critic_drawn = drawn;

  return take_columns(r, t, alone, rows, count);
}
