// What changes on a training's way: parameters of its "ramps", and the weights of terms that have a "schedule". docs/task.md.
// Tests: tests/unit/test_learn.c, tests/unit/test_learn_terms.c.
#include <string.h>

#include "base/context.h"
#include "io/json/read.h"
#include "io/task/policy.h"
#include "learn/train.h"

// ---- ramps ------------------------------------------------------------------------------------------------------------
static pbStatus add_ramp(pbTaskReader *r, const json_t *name, const pbRamp *like, pbTrain *t) {
  pbParam p;
  if (!json_is_string(name)) return pbTaskReader_FailAt(r, "parameters", "expected a list of names of single numbers");
  if (pbModel_Param(r->ctx, r->model, json_string_value(name), &p) != pb_ok) return pbTaskReader_FailAgain(r, pb_bad_input);
  if (p.rows * p.cols != 1 || strncmp(p.name, "policy.", 7) == 0 || strcmp(p.name, "timestep") == 0)
    return pbTaskReader_FailAt(r, "parameters",
                               "expected single numbers such as \"geom_solref:floor:0\", and none of the policy "
                               "or the time step, found '%s'",
                               json_string_value(name));

  // ratios between both are gone through: neither is zero, and the signs are the same
  pbRamp *ramp = &t->ramp[t->ramps++];
  *ramp = *like;
  ramp->at = p.offset;
  ramp->own = t->task->theta[p.offset];
  if (ramp->from * ramp->own > 0) return pb_ok;
  return pbTaskReader_FailAt(r, "from", "expected a number of the sign of the task's %s, which is %g", json_string_value(name),
                             ramp->own);
}

static pbStatus read_ramp(pbTaskReader *r, const json_t *object, pbTrain *t) {
  static const pbTaskKey keys[] = {PB_KEY_PART("parameters"), PB_KEY("from", Real, pbRamp, from),
                                   PB_KEY("begin", Real, pbRamp, begin), PB_KEY("end", Real, pbRamp, end), PB_KEYS_END};
  const json_t *names = json_object_get(object, "parameters"), *name;
  pbRamp like = {.from = 0, .begin = 0, .end = 1};
  size_t i;

  PB_TRY(pbTaskReader_Fill(r, object, keys, &like));
  if (!(0 <= like.begin && like.begin <= like.end && like.end <= 1))
    return pbTaskReader_Fail(r, pb_bad_input, "expected 0 <= begin <= end <= 1: shares of the updates");

  if (!json_array_size(names)) return pbTaskReader_FailAt(r, "parameters", "expected a list of names of single numbers");
  json_array_foreach(names, i, name) PB_TRY(add_ramp(r, name, &like, t));
  return pb_ok;
}

pbStatus pbTrain_ReadRamps(pbTaskReader *r, const json_t *train, pbTrain *t) {
  const json_t *list = json_object_get(train, "ramps"), *object;
  size_t i, count = 0;
  if (!list) return pb_ok;

  json_array_foreach(list, i, object) count += json_array_size(json_object_get(object, "parameters"));
  t->ramp = pbContext_AllocArray(r->ctx, count + 1, sizeof *t->ramp);
  if (!t->ramp) return pbTaskReader_Fail(r, pb_no_memory, "no memory for ramps");

  pbTaskReader_Enter(r, "ramps");
  json_array_foreach(list, i, object) PB_TRY(read_ramp(r, object, t));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- weights on their way ---------------------------------------------------------------------------------------------
static pbStatus read_schedule(pbTaskReader *r, const json_t *object, pbTermSchedule *s) {
  static const pbTaskKey keys[] = {PB_KEY("from", Real, pbTermSchedule, from), PB_KEY("begin", Real, pbTermSchedule, begin),
                                   PB_KEY("end", Real, pbTermSchedule, end), PB_KEYS_END};
  pbTaskReader_Enter(r, "schedule");
  PB_TRY(pbTaskReader_Fill(r, object, keys, s));
  if (!json_object_get(object, "from"))
    return pbTaskReader_Fail(r, pb_bad_input, "\"from\" is missing: the weight that the training begins with");
  if (!(0 <= s->begin && s->begin <= s->end && s->end <= 1))
    return pbTaskReader_Fail(r, pb_bad_input, "expected 0 <= begin <= end <= 1: shares of the updates");
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTrain_ReadSchedules(pbTaskReader *r, const json_t *loss, pbTrain *t) {
  const json_t *term;
  size_t i;
  t->schedule = pbContext_AllocArray(r->ctx, json_array_size(loss) + 1, sizeof *t->schedule);
  if (!t->schedule) return pbTaskReader_Fail(r, pb_no_memory, "no memory for schedules");

  pbTaskReader_Enter(r, "loss");
  json_array_foreach(loss, i, term) {
    const json_t *object = json_object_get(term, "schedule");
    if (!object) continue;

    // by default over the whole of the training
    pbTaskReader_EnterAt(r, i);
    pbTermSchedule *s = &t->schedule[t->schedules++];
    *s = (pbTermSchedule){.term = (int)i, .own = t->cost.terms[i].weight, .end = 1};
    PB_TRY(read_schedule(r, object, s));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}
