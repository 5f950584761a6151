// The state of a training that was stopped: what it holds may be of another number of updates. docs/task.md.
// Tests: tests/unit/test_learn.c, tests/oracle/test_train_on.py.
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "io/task/policy.h"
#include "learn/train.h"

// A row for each update stands behind what is kept: as many as there were.
static pbStatus load_state(void *user, double *state, size_t count, bool *found) {
  const pbTrainFile *f = user;
  size_t each = pbTrain_RowSize(f->train), least = count - pbTrain_MostRows(f->train) * each;
  pbArrays *set;
  PB_TRY(pbState_Load(f->file.ctx, f->file.path, f->file.made_from, &set));

  *found = set != NULL;
  if (!set) return pb_ok;

  const pbArray *run = pbArrays_Find(set, "run");
  size_t size = run && run->type == pb_arrayReal ? run->count : 0;
  char why[160] = "";
  if (size < least || (size - least) % each) snprintf(why, sizeof why, "holds no run of this training");
  else if (size + each > count)  // room is for one more
    snprintf(why, sizeof why, "train.updates: %d are fewer than the %zu of the run that it holds", f->train->settings.updates,
             (size - least) / each);
  else memcpy(state, run->reals, size * sizeof *state);
  pbArrays_Destroy(set);

  return *why ? pbState_Refuse(f->file.ctx, f->file.path, why) : pb_ok;
}

pbRunStore pbTrainFile_Store(pbTrainFile *file) {
  pbRunStore plain = pbStateFile_Store(&file->file);
  return (pbRunStore){file, file->file.path, load_state, plain.save};
}
