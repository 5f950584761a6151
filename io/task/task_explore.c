// How a training explores: "noise" behind a policy or before its squash, what entropy is worth. docs/policies.md.
// Tests: tests/unit/test_learn_explore.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json/read.h"
#include "io/json/tree.h"
#include "io/task/policy.h"
#include "learn/train.h"
#include "model/policy_data.h"

// ---- the policy's layer ------------------------------------------------------------------------------------------------
static int find_layer(const json_t *layers) {
  for (size_t i = 0; i < json_array_size(layers); i++) {
    if (json_object_get(json_array_get(layers, i), "explore")) return (int)i;
  }

  return -1;
}

static pbStatus find_deviations(pbTaskReader *r, const json_t *layers, int at, pbTrain *t) {
  const char *own = json_string_value(json_object_get(json_array_get(layers, (size_t)at), "name"));
  char number[16], name[200];
  pbParam p;
  snprintf(number, sizeof number, "%d", at);
  snprintf(name, sizeof name, "policy.%.100s.log_deviation", own ? own : number);
  PB_TRY(pbModel_Param(r->ctx, t->task->model, name, &p));

  t->explore_at = (ptrdiff_t)p.offset;
  t->explored = p.rows;
  t->squashed = (size_t)at + 1 < json_array_size(layers);
  return pb_ok;
}

// Does it learn from samples?
static bool samples(const pbTrain *t) { return t->settings.method == pb_trainPpo || t->settings.mix; }

// What comes before it, whose outputs are means.
static pbStatus make_body(pbTaskReader *r, const json_t *layers, int at, pbTrain *t) {
  const pbPolicyFunction *f = t->task->model->policy->decide;
  int outputs;
  if (at == 0) return pbTaskReader_FailAt(r, "method", "nothing of the policy stands before its layer \"explore\"");

  // the same layers with the same names: their weights stand first in the policy's
  json_t *list = json_array();
  for (int i = 0; i < at; i++) pbJson_Add(&list, json_incref(json_array_get(layers, (size_t)i)));

  pbStatus status = pb_no_memory;
  if (list) status = pbTask_CreateNetwork(r, list, f->observations - f->draws, 0, &outputs, &t->body, NULL);
  else status = pbTaskReader_Fail(r, status, "no memory for a policy");
  json_decref(list);

  return status;
}

static pbStatus find_exploration(pbTaskReader *r, pbTrain *t) {
  json_error_t error;
  bool no_room;
  const char *text = pbPolicy_Text(t->task->model);
  json_t *policy = pbJson_Read(text, strlen(text), 0, &error, &no_room);
  const json_t *layers = json_object_get(policy, "layers");
  int at = find_layer(layers);

  // means come from the layers before it
  pbStatus status = policy ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a policy");
  if (status == pb_ok && at >= 0) status = find_deviations(r, layers, at, t);
  if (status == pb_ok && at >= 0 && samples(t)) status = make_body(r, layers, at, t);
  json_decref(policy);

  return status;
}

// ---- noise -------------------------------------------------------------------------------------------------------------
static bool by_search(const pbTrain *t) { return t->settings.method == pb_trainEs || t->settings.method == pb_trainSepCma; }

static pbStatus read_learned(pbTaskReader *r, const json_t *train, const char *word, pbTrain *t) {
  if (strcmp(word, "learned") != 0)
    return pbTaskReader_FailAt(r, "noise", "expected a number, or \"learned\", found '%.40s'", word);
  if (t->explore_at < 0)
    return pbTaskReader_FailAt(r, "noise", "the policy has no layer {\"explore\": ...} whose deviation could be learned");
  if (by_search(t))
    return pbTaskReader_FailAt(r, "noise", "method \"%s\" learns from no noise", pbTrainMethod_Name(t->settings.method));
  if (json_object_get(train, "last_noise")) return pbTaskReader_FailAt(r, "last_noise", "what is learned has no schedule");

  t->settings.learned = true;
  return pb_ok;
}

static pbStatus read_noise(pbTaskReader *r, const json_t *train, pbTrain *t) {
  static const pbTaskKey key = PB_KEY_FROM("noise", Real, pbTrainSettings, noise, 0, 1e6);
  pbTrainSettings *s = &t->settings;
  const json_t *value = json_object_get(train, "noise");
  const char *word = json_string_value(value);
  if (word) return read_learned(r, train, word, t);
  PB_TRY(pbTaskReader_Key(r, train, &key, s));

  // without a number the layer's own
  s->scheduled = t->explore_at >= 0 && value;
  if (t->explore_at >= 0 && !value && json_object_get(train, "last_noise"))
    return pbTaskReader_FailAt(r, "last_noise", "expected \"noise\", which it ends, beside it");
  if (s->last_noise < 0) s->last_noise = s->noise;

  bool positive = s->noise > 0 && s->last_noise > 0;
  if (s->scheduled && !positive) return pbTaskReader_FailAt(r, "noise", "before a squash: expected a positive number");
  if (samples(t) && !positive)
    return pbTaskReader_FailAt(r, "noise", "%s learns from the noise alone: expected a positive number", s->mix ? "mix" : "ppo");
  return pb_ok;
}

// The density of an action is that of the noise about what the network puts out: nothing may stand between. Where the noise
// stands before the squash, what follows may be anything.
static pbStatus check_samples(pbTaskReader *r, const pbTrain *t) {
  const pbPolicyModel *p = t->task->model->policy;
  const char *who = t->settings.mix ? "mix" : "ppo";
  bool plain = !p->act && !p->memory && !p->reaches[pb_outputForce] && !p->reaches[pb_outputWrench];
  if (plain || (t->explore_at >= 0 && !p->decide_memory)) return pb_ok;

  return pbTaskReader_FailAt(r, "method",
                             "%s needs a policy without memory and \"act\" whose outputs are controls, or without memory and "
                             "with a layer {\"explore\": ...}",
                             who);
}

// ---- entropy -----------------------------------------------------------------------------------------------------------
typedef struct Entropy {
  double temperature, target, rate;
  bool fixed;
} Entropy;

static pbStatus read_entropy(pbTaskReader *r, const json_t *train, pbTrain *t) {
  static const pbTaskKey keys[] = {PB_KEY_FROM("temperature", Real, Entropy, temperature, 1e-12, 1e12),
                                   PB_KEY_FROM("target", Real, Entropy, target, -1e6, 1e6),
                                   PB_KEY_FROM("rate", Real, Entropy, rate, 1e-12, 100), PB_KEY("fixed", Bool, Entropy, fixed),
                                   PB_KEYS_END};
  const json_t *object = json_object_get(train, "entropy");
  pbTrainSettings *s = &t->settings;

  // without the key entropy costs nothing
  if (!object) return pb_ok;

  // as many outputs as half of it: Xing et al. 2024
  Entropy e = {s->temperature, -0.5 * t->explored, s->temperature_rate, false};
  if (by_search(t)) return pbTaskReader_FailAt(r, "entropy", "method \"%s\" has none", pbTrainMethod_Name(s->method));
  if (t->explore_at < 0) return pbTaskReader_FailAt(r, "entropy", "the policy has no layer {\"explore\": ...}");
  pbTaskReader_Enter(r, "entropy");
  PB_TRY(pbTaskReader_Fill(r, object, keys, &e));
  bool tunes = json_object_get(object, "target") || json_object_get(object, "rate");
  if (e.fixed && tunes) return pbTaskReader_Fail(r, pb_bad_input, "a fixed temperature has neither \"target\" nor \"rate\"");
  pbTaskReader_Leave(r);

  // what is neither fixed nor said tunes itself
  s->entropy = true;
  s->tunes = !e.fixed;
  s->temperature = e.temperature;
  s->target_entropy = e.target;
  s->temperature_rate = e.rate;
  return pb_ok;
}

pbStatus pbTrain_ReadExploration(pbTaskReader *r, const json_t *train, pbTrain *t) {
  PB_TRY(find_exploration(r, t));
  PB_TRY(read_noise(r, train, t));
  if (samples(t)) PB_TRY(check_samples(r, t));

  return read_entropy(r, train, t);
}
