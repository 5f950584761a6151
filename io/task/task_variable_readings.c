// Variables of how a term's recording was made: its delay, gains and biases.
// Tests: tests/unit/test_readings.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "elementary/elementary.h"
#include "io/task/task_loss.h"
#include "io/task/task_variables.h"

static const char *const reading_keys[] = {"delay", "gain", "bias"};
enum { READINGS = 3 };

int pbTask_ReadingKeys(const json_t *object, const char **key) {
  int count = 0;
  for (int i = 0; i < READINGS; i++) {
    if (!json_object_get(object, reading_keys[i])) continue;
    *key = reading_keys[i];
    count++;
  }

  return count;
}

// The next term of a variable's name, in trajectories that it is of, from the one after (*t, *i) on.
static pbTerm *next_term(const pbTask *task, const pbVariable *v, int *t, int *i) {
  for (; *t < task->trajectory_count; ++*t, *i = -1) {
    const pbTermSet *set = &task->trajectories[*t].terms;
    if (v->trajectory >= 0 && v->trajectory != *t) continue;
    while (++*i < set->count) {
      if (strcmp(set->terms[*i].name, v->term) == 0) return &set->terms[*i];
    }
  }

  return NULL;
}

static pbStatus no_such_term(pbTaskReader *r, const pbTask *task, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[200];
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) pbSuggest_Offer(&near, set->terms[i].name);
  }

  return pbTaskReader_Fail(r, pb_bad_input, "no term of the loss is called '%.100s'%s", name,
                           pbSuggest_Write(&near, hint, sizeof hint));
}

// pbTaskEntries of the readings of all terms of one name: the delay, or the gains or biases of their components.
pbStatus pbTask_ReadingEntries(pbTaskReader *r, const json_t *object, const char *key, pbTask *task, pbVariable *v,
                               pbTaskEntries *e) {
  const char *name = NULL, *what = strcmp(key, "delay") == 0 ? NULL : key;
  pbTerm *first = NULL, *term;
  int t = 0, i = -1;
  v->kind = pb_varyReading;
  PB_TRY(pbTaskReader_Text(r, object, key, &name));
  if (!(v->term = pbContext_CopyText(r->ctx, name))) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  pbTaskReader_Enter(r, key);

  // each needs a reading of its own, of as many components
  while ((term = next_term(task, v, &t, &i))) {
    first = first ? first : term;
    if (term->hosted) return pbTaskReader_Fail(r, pb_bad_input, "term '%.100s' is a function, which has no %s", name, key);
    if (term->part_count != first->part_count)
      return pbTaskReader_Fail(r, pb_bad_input, "terms '%.100s' have %d and %d components", name, first->part_count,
                               term->part_count);
    PB_TRY(pbTask_NeedReading(r, term, what));
    if (!what) PB_TRY(pbReading_AtTimes(r->ctx, term, pbTaskReader_Timestep(r)));
  }
  if (!first) return no_such_term(r, task, name);
  pbTaskReader_Leave(r);

  // behind the delay the gains, and behind these the biases
  size_t count = what ? (size_t)first->part_count : 1, from = 0;
  if (what) from = 1 + (strcmp(key, "bias") == 0 ? count : 0);
  PB_TRY(pbTaskEntries_Room(r, count, e));
  for (size_t k = from; k < from + count; k++) pbTaskEntries_Add(e, k, first->reading->values[k], what ? -INFINITY : 0, INFINITY);
  return pb_ok;
}

static double delay_at(const pbVariable *v, double z) { return v->logarithm ? pbExp(v->scale * z) : v->scale * z; }

// Where a delay may be, once its bounds are known: which states may be looked at follows from that. It starts where a sample of
// some term is within the trajectory, or no derivative would ever move it.
pbStatus pbTask_VaryDelay(pbTaskReader *r, const pbTask *task, const pbVariable *v) {
  int t = 0, i = -1, seen = 0;
  double start = delay_at(v, task->start[v->first]);
  pbTaskReader_Enter(r, "start");

  for (pbTerm *term; (term = next_term(task, v, &t, &i));) {
    term->reading->varied = true;
    term->reading->least = delay_at(v, task->lower[v->first]);
    term->reading->most = delay_at(v, task->upper[v->first]);
    seen += pbTask_CheckDelay(r, term, task->trajectories[t].steps, start) == pb_ok;
  }
  if (!seen) return pb_bad_input;  // told of the last one

  pbTaskReader_Leave(r);
  return pb_ok;
}
