// What a policy does in episodes that no training has seen, as JSON.
// Tests: tests/oracle/test_evaluate.py.
#include <math.h>

#include <pullback/learn.h>

#include "io/json/tree.h"

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *terms_json(const pbTrainTest *test) {
  json_t *list = json_array();
  for (int i = 0; i < test->terms; i++) {
    json_t *o = json_object();
    pbJson_Put(&o, "name", pbJson_String(test->term[i].name));
    pbJson_Put(&o, "cost", number(test->term[i].cost));
    pbJson_Put(&o, "rms", number(test->term[i].rms));
    pbJson_Add(&list, o);
  }

  return list;
}

static json_t *ends_json(const pbTrainTest *test) {
  json_t *list = json_array();
  for (int i = 0; i < test->ends; i++) {
    json_t *o = json_object();
    pbJson_Put(&o, "name", pbJson_String(test->end[i].name));
    pbJson_Put(&o, "episodes", json_integer(test->end[i].episodes));
    pbJson_Add(&list, o);
  }

  return list;
}

pbStatus pbTrainTest_Json(pbContext *ctx, const pbTrainTest *test, char **text) {
  json_t *o = json_object();
  pbJson_Put(&o, "starts", json_integer(test->starts));
  pbJson_Put(&o, "seed", json_integer((json_int_t)test->seed));
  pbJson_Put(&o, "seconds", number(test->seconds));
  pbJson_Put(&o, "loss", number(test->score));

  // of whole episodes
  pbJson_Put(&o, "ended", json_integer(test->ended));
  pbJson_Put(&o, "diverged", json_integer(test->diverged));
  pbJson_Put(&o, "length", number(test->length));
  pbJson_Put(&o, "success", number(test->success));
  pbJson_Put(&o, "distance", number(test->distance));

  // by name, in the order of the task
  pbJson_Put(&o, "terms", terms_json(test));
  pbJson_Put(&o, "done", ends_json(test));
  pbStatus status = pbJson_Dump(ctx, o, JSON_INDENT(2) | JSON_REAL_PRECISION(17), text);
  json_decref(o);

  return status;
}
