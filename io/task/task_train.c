// "train" and "episode" of a task: how a policy is learned. docs/task.md, docs/policies.md.
// Tests: tests/unit/test_learn.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/io.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/json/read.h"
#include "io/json/tree.h"
#include "io/task/policy.h"
#include "learn/train.h"
#include "model/joint.h"
#include "model/policy_data.h"

// ---- keys -------------------------------------------------------------------------------------------------------------
#define NUMBER(key, member, low, high) PB_KEY_FROM(key, Real, pbTrainSettings, member, low, high)
#define COUNT(key, member, low, high)  PB_KEY_FROM(key, Int, pbTrainSettings, member, low, high)
static const pbTaskKey train_keys[] = {PB_KEY_PART("method"),
                                       COUNT("updates", updates, 1, 10000000),
                                       COUNT("worlds", worlds, 1, 1000000),
                                       PB_KEY_PART("window"),
                                       PB_KEY("mix", Bool, pbTrainSettings, mix),
                                       NUMBER("discount", discount, 0, 1),
                                       NUMBER("lambda", lambda, 0, 1),
                                       NUMBER("rate", rate, 1e-12, 100),
                                       NUMBER("last_rate", last_rate, 0, 1),
                                       NUMBER("beta1", beta1, 0, 0.999999),
                                       NUMBER("beta2", beta2, 0, 0.999999),
                                       NUMBER("clip", clip, 0, 1e12),
                                       PB_KEY_PART("noise"),
                                       NUMBER("last_noise", last_noise, 0, 1e6),
                                       NUMBER("ratio", ratio, 1e-6, 1e6),
                                       NUMBER("sigma", sigma, 1e-12, 1e6),
                                       COUNT("rounds", rounds, 1, 1000),
                                       COUNT("batches", batches, 1, 100000),
                                       COUNT("population", population, 4, 100000),
                                       PB_KEY_PART("evaluate"),
                                       PB_KEY_PART("critic"),
                                       PB_KEY_PART("entropy"),
                                       PB_KEY_PART("ramps"),
                                       PB_KEYS_END};
static const pbTaskKey window_key = COUNT("window", window, 1, 100000);
static const pbTaskKey window_keys[] = {COUNT("most", most, 1, 100000), COUNT("least", least, 1, 100000),
                                        NUMBER("agree", agree, 0.01, 0.99), PB_KEYS_END};
static const pbTaskKey critic_keys[] = {PB_KEY_PART("layers"),
                                        PB_KEY_PART("observe"),
                                        PB_KEY_PART("alone"),
                                        PB_KEY_PART("drawn"),
                                        PB_KEY_PART("fresh"),
                                        NUMBER("rate", critic_rate, 1e-12, 100),
                                        NUMBER("target", critic_target, 0, 1),
                                        COUNT("count", critic_count, 1, 2),
                                        COUNT("rounds", critic_rounds, 1, 1000),
                                        COUNT("batches", critic_batches, 1, 100000),
                                        PB_KEYS_END};
static const pbTaskKey evaluate_keys[] = {COUNT("every", evaluate_every, 1, 10000000),
                                          COUNT("starts", evaluate_starts, 1, 100000),
                                          PB_KEY("noise", Bool, pbTrainSettings, evaluate_noise), PB_KEYS_END};

// Xu et al. 2022 for gradients, Schulman et al. 2017 for samples.
static pbTrainSettings defaults(pbTrainMethod method) {
  bool samples = method == pb_trainPpo, search = method == pb_trainEs || method == pb_trainSepCma;
  return (pbTrainSettings){.method = method,

                           // worlds and episodes
                           .updates = 500,
                           .worlds = search ? 8 : 64,
                           .window = 32,
                           .episode = 4,
                           .discount = 0.99,
                           .lambda = 0.95,

                           // Adam
                           .rate = samples ? 3e-4 : 2e-3,
                           .last_rate = 0.05,
                           .beta1 = samples || search ? 0.9 : 0.7,
                           .beta2 = samples || search ? 0.999 : 0.95,
                           .clip = 1,

                           // exploration, and how the policy is judged
                           .noise = samples ? 0.3 : 0.1,
                           .last_noise = -1,
                           .temperature = 1,
                           .target_entropy = NAN,
                           .temperature_rate = 5e-3,
                           .evaluate_every = 25,
                           .evaluate_starts = 8,

                           // the critic, samples, searches
                           .critic_rate = 2e-3,
                           .critic_target = 0.2,
                           .critic_rounds = 8,
                           .critic_batches = 4,
                           .critic_count = 1,
                           .rounds = 8,
                           .batches = 4,
                           .ratio = 0.2,
                           .sigma = 0.05};
}

// ---- the critic -------------------------------------------------------------------------------------------------------
// The policy's list of layers as a tree, and where its first normalizer stands in it; -1: it has none.
static int find_normalizer(const json_t *layers) {
  for (size_t i = 0; i < json_array_size(layers); i++) {
    if (json_object_get(json_array_get(layers, i), "normalize")) return (int)i;
  }

  return -1;
}

static json_t *default_critic(void) {
  return json_pack("[{s:i,s:s},{s:i,s:s},{s:i}]", "dense", 64, "activation", "elu", "dense", 64, "activation", "elu", "dense", 1);
}

// A layer with a number of its own as its name, so that none is there twice. NULL: no memory.
static json_t *own_layer(json_t *given, size_t index) {
  json_t *layer = pbJson_CopyMembers(given);
  char name[32];

  snprintf(name, sizeof name, "critic%zu", index);
  if (!json_object_get(layer, "name") && (json_object_get(layer, "dense") || json_object_get(layer, "layernorm")))
    pbJson_Put(&layer, "name", json_string(name));

  return layer;
}

// Layers of one of two critics, the other output zero. NULL: no memory.
static json_t *one_of_two(const json_t *own, int which) {
  json_t *chain = json_array();
  for (size_t i = 0; i < json_array_size(own); i++) pbJson_Add(&chain, own_layer(json_array_get(own, i), i));
  pbJson_Add(&chain, json_pack("{s:[s,s]}", "formula", which ? "0" : "x0", which ? "x0" : "0"));

  return chain;
}

// Two critics side by side, each with weights of its own: a network of two outputs. NULL: no memory.
static json_t *two_critics(const json_t *own) {
  json_t *chains = json_array();
  for (int i = 0; i < 2; i++) pbJson_Add(&chains, one_of_two(own, i));
  return chains ? json_pack("[{s:s,s:o}]", "name", "critic", "sum", chains) : NULL;
}

// Layers up to and with the normalizer, then those of the critic. NULL: no memory.
static json_t *join_layers(const json_t *policy, int normalizer, const json_t *own) {
  json_t *list = json_array();
  for (int i = 0; i <= normalizer; i++) pbJson_Add(&list, json_incref(json_array_get(policy, (size_t)i)));
  for (size_t i = 0; i < json_array_size(own); i++) pbJson_Add(&list, own_layer(json_array_get(own, i), i));

  return list;
}

static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for a critic"); }

// Where the slices of a network's normalizer begin among its parameters.
static ptrdiff_t slice_at(const pbNetwork *network, const char *layer, const char *what) {
  const pbPolicyFunction *f = pbNetwork_Function(network);
  char name[200];
  ptrdiff_t at = 0;
  snprintf(name, sizeof name, "%s.%s", layer, what);
  for (int i = 0; i < f->slices; i++) {
    if (strcmp(f->slice[i].name, name) == 0) return at;
    at += (ptrdiff_t)f->slice[i].rows * f->slice[i].cols;
  }

  return -1;
}

static const char *normalizer_name(const json_t *layers, int index, char *text, size_t size) {
  const char *own = json_string_value(json_object_get(json_array_get(layers, (size_t)index), "name"));
  if (own) return own;
  snprintf(text, size, "%d", index);

  return text;
}

// A trained policy brings the numbers of its normalizer along, and goes on with them. Files without a count of samples are older.
static void note_statistics(pbTrain *t, size_t mean, size_t deviation) {
  const pbPolicyFile *file = t->task->model->policy_file;
  const double *theta = t->task->theta;
  if (!file || !file->trained) return;

  // of an older file: other numbers than mean 0 and deviation 1 were learned
  bool moved = file->samples > 0;
  for (int i = 0; i < t->features; i++) moved = moved || theta[mean + (size_t)i] != 0 || theta[deviation + (size_t)i] != 1;
  t->brought = moved;
  t->samples = file->samples;
}

static pbStatus find_statistics(pbTaskReader *r, const json_t *layers, int normalizer, int inputs, pbTrain *t) {
  char number[16], name[200];
  pbParam mean, deviation;
  if (normalizer < 0) return pb_ok;

  // its slices in theta, and the same in the critic
  const char *layer = normalizer_name(layers, normalizer, number, sizeof number);
  snprintf(name, sizeof name, "policy.%s.mean", layer);
  PB_TRY(pbModel_Param(r->ctx, t->task->model, name, &mean));
  snprintf(name, sizeof name, "policy.%s.deviation", layer);
  PB_TRY(pbModel_Param(r->ctx, t->task->model, name, &deviation));
  t->mean_at = (ptrdiff_t)mean.offset;
  t->deviation_at = (ptrdiff_t)deviation.offset;
  t->features = mean.rows * mean.cols;
  note_statistics(t, mean.offset, deviation.offset);

  // of a critic that sees the same
  bool shares = t->critic && !t->critic_inputs;
  if (shares) t->critic_mean_at = slice_at(t->critic, layer, "mean");
  if (shares) t->critic_deviation_at = slice_at(t->critic, layer, "deviation");
  if (normalizer == 0) return pb_ok;

  // what comes before it, alone
  int outputs;
  json_t *list = join_layers(layers, normalizer - 1, NULL);
  pbStatus status = list ? pbTask_CreateNetwork(r, list, inputs, 0, &outputs, &t->before, NULL) : no_memory(r);
  json_decref(list);

  return status;
}

static pbStatus make_critic(pbTaskReader *r, const json_t *list, int inputs, int critics, pbTrain *t) {
  int outputs;
  if (!list) return no_memory(r);

  // other numbers than the policy's, from the same seed
  PB_TRY(pbTask_CreateNetwork(r, list, inputs, t->settings.seed + 1, &outputs, &t->critic, &t->critic_single));
  if (outputs != critics) return pbTaskReader_Fail(r, pb_bad_input, "a critic has one output, these layers have %d", outputs);
  if (pbNetwork_Function(t->critic)->memory)
    return pbTaskReader_Fail(r, pb_bad_input, "a critic has no memory: none of gru, delay or pid");

  return pb_ok;
}

static pbStatus make_second(pbTaskReader *r, const json_t *layers, int normalizer, const json_t *own, int inputs, pbTrain *t) {
  json_t *two = two_critics(own), *list = two ? join_layers(layers, normalizer, two) : NULL;
  // in place of the one that was made to see that its layers fit
  pbNetwork_Destroy(t->critic);
  pbNetwork_Destroy(t->critic_single);
  t->critic = t->critic_single = NULL;

  pbStatus status = make_critic(r, list, inputs, 2, t);
  json_decref(two);
  json_decref(list);

  return status;
}

// What a policy's file is to say of a critic: its layers; two of them are not one, nor is one that sees other things.
static pbStatus keep_text(pbTaskReader *r, const json_t *object, json_t *list, pbTrain *t) {
  static const char *const keys[] = {"observe", "alone", "drawn"};
  bool two = t->settings.critic_count == 2;
  json_t *whole = two || t->critic_inputs ? json_pack("{s:O}", "layers", list) : json_incref(list);
  if (two) pbJson_Put(&whole, "count", json_integer(2));
  for (int i = 0; i < 3; i++) {
    json_t *own = json_object_get(object, keys[i]);
    if (t->critic_inputs && own) pbJson_Put(&whole, keys[i], json_incref(own));
  }

  pbStatus status = whole ? pb_ok : no_memory(r);
  if (status == pb_ok)
    status = pbJson_Dump(r->ctx, whole, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17), &t->critic_text);
  json_decref(whole);

  return status;
}

static pbStatus create_critic(pbTaskReader *r, const json_t *layers, int normalizer, const json_t *object, int inputs,
                              pbTrain *t) {
  const json_t *own = json_object_get(object, "layers");
  json_t *made = own ? NULL : default_critic();
  const json_t *critic = own ? own : made;
  json_t *list = critic ? join_layers(layers, normalizer, critic) : NULL;

  pbTaskReader_Enter(r, "layers");
  pbStatus status = make_critic(r, list, inputs, 1, t);
  if (status == pb_ok && t->settings.critic_count == 2) status = make_second(r, layers, normalizer, critic, inputs, t);

  if (status == pb_ok) status = keep_text(r, object, list, t);
  json_decref(made);
  json_decref(list);
  if (status == pb_ok) pbTaskReader_Leave(r);

  return status;
}

// Behind a normalizer of its own.
static pbStatus create_seeing(pbTaskReader *r, const json_t *object, pbTrain *t) {
  // in the place of the policy's layers up to its own
  json_t *first = json_pack("[{s:b,s:s}]", "normalize", true, "name", "critic_seen");
  pbStatus status = first ? create_critic(r, first, 0, object, t->critic_inputs, t) : no_memory(r);
  json_decref(first);

  if (status == pb_ok) t->critic_mean_at = slice_at(t->critic, "critic_seen", "mean");
  if (status == pb_ok) t->critic_deviation_at = slice_at(t->critic, "critic_seen", "deviation");
  return status;
}

static bool needs_critic(pbTrainMethod method) { return method == pb_trainShac || method == pb_trainPpo; }

static pbStatus read_critic(pbTaskReader *r, const json_t *train, pbTrain *t) {
  const json_t *object = json_object_get(train, "critic");
  if (object && !needs_critic(t->settings.method))
    return pbTaskReader_FailAt(r, "critic", "method \"%s\" has none", pbTrainMethod_Name(t->settings.method));

  pbTaskReader_Enter(r, "critic");
  if (object) PB_TRY(pbTaskReader_Fill(r, object, critic_keys, &t->settings));
  PB_TRY(pbTaskReader_Bool(r, object, "fresh", &t->fresh_critic));
  PB_TRY(pbTrain_ReadSeen(r, object, t));

  // the policy's own description says what comes before its normalizer
  json_error_t error;
  bool no_room;
  const char *text = pbPolicy_Text(t->task->model);
  json_t *policy = pbJson_Read(text, strlen(text), 0, &error, &no_room);
  const json_t *layers = json_object_get(policy, "layers");
  int normalizer = find_normalizer(layers);
  const pbPolicyModel *p = t->task->model->policy;
  int inputs = p->observed - p->decide->draws;
  pbStatus status = policy ? pb_ok : no_memory(r);
  if (status == pb_ok && needs_critic(t->settings.method))
    status = t->critic_inputs ? create_seeing(r, object, t) : create_critic(r, layers, normalizer, object, inputs, t);
  if (status == pb_ok) status = find_statistics(r, layers, normalizer, inputs, t);
  json_decref(policy);
  if (status == pb_ok) pbTaskReader_Leave(r);

  return status;
}

// ---- train ------------------------------------------------------------------------------------------------------------
static pbStatus read_method(pbTaskReader *r, const json_t *object, pbTrainMethod *method) {
  const char *word = NULL;
  char hint[200];
  PB_TRY(pbTaskReader_Text(r, object, "method", &word));
  if (!word) return pbTaskReader_Fail(r, pb_bad_input, "\"method\" is missing: bptt, shac, ppo, es or sep-cma");
  if (pbTrainMethod_Named(word, method)) return pb_ok;

  pbSuggest near = pbSuggest_For(word);
  for (int i = 0; i < pb_trainMethodCount; i++) pbSuggest_Offer(&near, pbTrainMethod_Name((pbTrainMethod)i));
  return pbTaskReader_FailAt(r, "method", "expected bptt, shac, ppo, es or sep-cma, found '%.40s'%s", word,
                             pbSuggest_Write(&near, hint, sizeof hint));
}

// Keys of some methods, which others would take no notice of.
static pbStatus check_keys(pbTaskReader *r, const json_t *object, pbTrainMethod method) {
  static const struct {
    const char *key;
    unsigned methods;
  } of[] = {{"ratio", 1u << pb_trainPpo},
            {"rounds", 1u << pb_trainPpo},
            {"mix", 1u << pb_trainShac},
            {"batches", 1u << pb_trainPpo},
            {"sigma", 1u << pb_trainEs | 1u << pb_trainSepCma},
            {"population", 1u << pb_trainEs | 1u << pb_trainSepCma}};

  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (json_object_get(object, of[i].key) && !(of[i].methods & 1u << method))
      return pbTaskReader_FailAt(r, of[i].key, "method \"%s\" has none", pbTrainMethod_Name(method));
  }

  // pairs to both sides of the mean
  if (method == pb_trainEs && json_integer_value(json_object_get(object, "population")) % 2)
    return pbTaskReader_FailAt(r, "population", "method \"es\" takes pairs: expected an even number");

  return pb_ok;
}

// A number, or one that follows how well the gradients of worlds agree.
static pbStatus read_window(pbTaskReader *r, const json_t *train, pbTrain *t) {
  const json_t *object = json_object_get(train, "window");
  pbTrainSettings *s = &t->settings;
  if (!json_is_object(object)) return pbTaskReader_Key(r, train, &window_key, s);
  if (s->method != pb_trainBptt && s->method != pb_trainShac)
    return pbTaskReader_FailAt(r, "window", "method \"%s\" has no gradients that could agree: expected a number",
                               pbTrainMethod_Name(s->method));
  if (s->worlds < 2) return pbTaskReader_FailAt(r, "window", "one world agrees with none: expected two \"worlds\", or a number");

  // it begins with the longest
  s->most = s->window;
  s->agree = 0.5;
  pbTaskReader_Enter(r, "window");
  PB_TRY(pbTaskReader_Fill(r, object, window_keys, s));
  if (!json_object_get(object, "least")) s->least = s->most < 4 ? s->most : 4;
  if (s->least > s->most) return pbTaskReader_FailAt(r, "least", "expected no more than \"most\", which is %d", s->most);
  pbTaskReader_Leave(r);
  s->window = s->most;

  return pb_ok;
}

static pbStatus read_train(pbTaskReader *r, const json_t *root, pbTrain *t) {
  const json_t *object = json_object_get(root, "train"), *evaluate = json_object_get(object, "evaluate");
  pbTrainMethod method = pb_trainShac;
  if (!object) return pbTaskReader_Fail(r, pb_bad_input, "\"train\" is missing");

  pbTaskReader_Enter(r, "train");
  PB_TRY(pbTaskReader_KnowsKeys(r, object, train_keys));
  PB_TRY(read_method(r, object, &method));
  PB_TRY(check_keys(r, object, method));

  // what is not said is as usual for the method
  t->settings = defaults(method);
  PB_TRY(pbTaskReader_Seed(r, root, &t->settings.seed));
  PB_TRY(pbTaskReader_Fill(r, object, train_keys, &t->settings));
  PB_TRY(read_window(r, object, t));
  PB_TRY(pbTrain_ReadExploration(r, object, t));
  if (evaluate) {
    pbTaskReader_Enter(r, "evaluate");
    PB_TRY(pbTaskReader_Fill(r, evaluate, evaluate_keys, &t->settings));
    pbTaskReader_Leave(r);
  }
  PB_TRY(read_critic(r, object, t));
  PB_TRY(pbTrain_ReadRamps(r, object, t));
  pbTaskReader_Leave(r);

  return pb_ok;
}

// ---- episodes ---------------------------------------------------------------------------------------------------------
static bool negative(const double *values, int count) {
  for (int i = 0; i < count; i++) {
    if (!(values[i] >= 0)) return true;
  }

  return false;
}

static pbStatus read_spread(pbTaskReader *r, const json_t *object, pbTrain *t) {
  static const char *const keys[] = {"qpos", "qvel", "joints", NULL}, *const joint_keys[] = {"qpos", "qvel", NULL};
  const pbModel *m = r->model;
  json_t *value, *joints = json_object_get(object, "joints");
  const char *name;
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "spread");
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  t->spread = pbContext_AllocArray(r->ctx, (size_t)pbModel_TangentSize(m) + 1, sizeof *t->spread);
  if (!t->spread) return pbTaskReader_Fail(r, pb_no_memory, "no memory for starts");

  // of all degrees of freedom, then of single joints
  PB_TRY(pbTaskReader_Spread(r, object, "qpos", (size_t)m->nv, t->spread));
  PB_TRY(pbTaskReader_Spread(r, object, "qvel", (size_t)m->nv, t->spread + m->nv));

  if (joints && !json_is_object(joints)) return pbTaskReader_FailAt(r, "joints", "expected an object {joint: {qpos, qvel}}");
  pbTaskReader_Enter(r, "joints");
  json_object_foreach(joints, name, value) {
    int j;
    pbTaskReader_Enter(r, name);
    PB_TRY(pbTaskReader_Id(r, name, pb_objJoint, &j));
    PB_TRY(pbTaskReader_Keys(r, value, joint_keys));
    size_t dofs = (size_t)pbJoint_DofCount(m->jnt_type[j]);
    PB_TRY(pbTaskReader_Spread(r, value, "qpos", dofs, t->spread + m->jnt_dofadr[j]));
    PB_TRY(pbTaskReader_Spread(r, value, "qvel", dofs, t->spread + m->nv + m->jnt_dofadr[j]));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);

  if (negative(t->spread, 2 * m->nv)) return pbTaskReader_Fail(r, pb_bad_input, "expected numbers from 0 on: half widths");
  pbTaskReader_Leave(r);

  return pb_ok;
}

// Terms of one state: those of the loss, and the conditions that end an episode.
static pbStatus read_terms(pbTaskReader *r, const json_t *list, const char *key, pbTermSet *set) {
  pbTaskReader_Enter(r, key);
  pbTermSet_Begin(set, r->ctx, r->model, 0);
  r->learning = true;
  PB_TRY(pbTask_ReadLoss(r, list, set));
  r->learning = false;

  // conditions are what they are throughout
  for (size_t i = 0; strcmp(key, "loss") != 0 && i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    if (json_object_get(json_array_get(list, i), "schedule"))
      return pbTaskReader_FailAt(r, "schedule", "only terms of the loss have one");
    pbTaskReader_Leave(r);
  }
  PB_TRY(pbTermSet_Finish(set));

  // not known of a single state of the closed loop
  if (set->uses[pb_observedControl])
    return pbTaskReader_Fail(
        r, pb_unsupported,
        "\"control\" is what is given from outside, not what the policy puts out: that is \"decision\", and what comes of it "
        "a sensor, such as actuatorfrc");
  pbTaskReader_Leave(r);

  return pb_ok;
}

static pbStatus read_episode(pbTaskReader *r, const json_t *root, pbTrain *t) {
  static const char *const keys[] = {"seconds", "done", "success", "spread", NULL};
  const json_t *object = json_object_get(root, "episode"), *done = json_object_get(object, "done"),
               *success = json_object_get(object, "success");
  pbTermSet_Begin(&t->end, r->ctx, r->model, 0);
  pbTermSet_Begin(&t->success, r->ctx, r->model, 0);
  if (!object) return pb_ok;

  // how long, from where, and what ends one before its time
  pbTaskReader_Enter(r, "episode");
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Real(r, object, "seconds", &t->settings.episode));
  if (!(t->settings.episode > 0 && t->settings.episode < 1e6))
    return pbTaskReader_FailAt(r, "seconds", "expected a positive number");
  PB_TRY(read_spread(r, json_object_get(object, "spread"), t));
  if (done) PB_TRY(read_terms(r, done, "done", &t->end));
  if (success) PB_TRY(read_terms(r, success, "success", &t->success));
  pbTaskReader_Leave(r);

  return pb_ok;
}

static bool draws_command(const pbTask *task, int command) {
  for (int i = 0; i < task->sample.count; i++) {
    const pbDraw *d = &task->sample.draws[i];
    if (d->target != pb_drawCommand) continue;
    for (int k = 0; k < d->count; k++) {
      if (d->index[k] == (size_t)command) return true;
    }
  }

  return false;
}

// A policy that listens to commands must be given some.
static pbStatus check_commands(pbTaskReader *r, const pbTask *task) {
  int commands = task->model->policy->commands;
  for (int c = 0; c < commands; c++) {
    if (!draws_command(task, c))
      return pbTaskReader_Fail(
          r, pb_bad_input, "the policy observes %d commands, and \"command\" of \"sample\" is missing or does not draw number %d",
          commands, c);
  }
  return pb_ok;
}

// ---- parameters that are drawn ----------------------------------------------------------------------------------------
// The model with the numbers in d->now, the task's else: an error names what cannot be.
static pbStatus check_numbers(pbTaskReader *r, const pbTrain *t, const pbDraw *d, double *theta) {
  memcpy(theta, t->task->theta, pbModel_ParamSize(t->task->model) * sizeof *theta);
  pbDraw_PutParameters(d, theta);
  return pbModel_CheckParams(r->ctx, t->task->model, theta) == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, pb_bad_input);
}

// Both ends of a law, of a normal one where it goes once in a few hundred times, or every row of a list.
static pbStatus check_law(pbTaskReader *r, const pbTrain *t, const pbDraw *d, double *theta) {
  int rows = d->law == pb_drawList ? d->rows : 2, width = d->together ? 1 : d->count;
  for (int i = 0; i < rows; i++) {
    for (int k = 0; k < d->count; k++) {
      // one number for all of them where they are drawn together
      int from = d->together ? 0 : k;
      if (d->law == pb_drawList) d->now[k] = d->first[i * width + from];
      if (d->law == pb_drawUniform) d->now[k] = (i ? d->second : d->first)[from];
      if (d->law == pb_drawNormal) d->now[k] = d->first[from] + (i ? 3 : -3) * d->second[from];
    }
    PB_TRY(check_numbers(r, t, d, theta));
  }
  return pb_ok;
}

static pbStatus check_entries(pbTaskReader *r, const pbTrain *t, const pbDraw *d) {
  const pbPolicyModel *p = t->task->model->policy;
  for (int k = 0; k < d->count; k++) {
    bool explores =
        t->explore_at >= 0 && d->index[k] >= (size_t)t->explore_at && d->index[k] < (size_t)t->explore_at + (size_t)t->explored;
    if (explores) return pbTaskReader_Fail(r, pb_bad_input, "what a policy explores by is not drawn");
    bool policys = d->index[k] >= p->theta && d->index[k] < p->theta + p->theta_size;
    if (policys && t->settings.method == pb_trainPpo)
      return pbTaskReader_Fail(r, pb_unsupported, "ppo knows one policy, whose numbers are not drawn");
    for (int i = 0; i < t->ramps; i++) {
      if (t->ramp[i].at == d->index[k])
        return pbTaskReader_Fail(r, pb_bad_input, "component %d is moved by \"ramps\" of \"train\": expected one of both", k);
    }
  }
  return pb_ok;
}

static pbStatus check_drawn(pbTaskReader *r, const pbTrain *t) {
  const pbTask *task = t->task;
  double *theta = pbContext_AllocArray(r->ctx, pbModel_ParamSize(task->model) + 1, sizeof *theta);
  if (!theta) return pbTaskReader_Fail(r, pb_no_memory, "no memory for draws");

  pbStatus status = pb_ok;
  size_t number = 0;
  pbTaskReader_Enter(r, "sample");
  pbTaskReader_Enter(r, "parameters");
  for (int i = 0; i < task->sample.count && status == pb_ok; i++) {
    const pbDraw *d = &task->sample.draws[i];
    if (d->target != pb_drawParam) continue;
    pbTaskReader_EnterAt(r, number++);
    status = check_entries(r, t, d);
    if (status == pb_ok) status = check_law(r, t, d, theta);
    if (status == pb_ok) pbTaskReader_Leave(r);
  }
  pbContext_Free(r->ctx, theta);
  PB_TRY(status);
  pbTaskReader_Leave(r);
  pbTaskReader_Leave(r);

  return pb_ok;
}

// ---- the whole --------------------------------------------------------------------------------------------------------
static pbStatus read_learning(pbTaskReader *r, const json_t *root, pbTrain *t) {
  PB_TRY(read_terms(r, json_object_get(root, "loss"), "loss", &t->cost));
  PB_TRY(pbTrain_ReadSchedules(r, json_object_get(root, "loss"), t));
  PB_TRY(read_train(r, root, t));
  PB_TRY(read_episode(r, root, t));
  return check_drawn(r, t);
}

static pbTrain *create(pbContext *ctx) {
  pbTrain *t = pbContext_Alloc(ctx, sizeof *t);
  if (!t) return NULL;
  t->ctx = ctx;
  t->mean_at = t->deviation_at = t->critic_mean_at = t->critic_deviation_at = t->explore_at = -1;
  return t;
}

pbStatus pbTask_CheckTraining(pbTaskReader *r, const json_t *root, pbTask *task) {
  if (!json_object_get(root, "train") || !pbPolicy_Text(task->model)) return pb_ok;
  pbTrain *t = create(r->ctx);
  if (!t) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a training");

  // the task is the caller's
  t->task = task;
  pbStatus status = read_learning(r, root, t);
  t->task = NULL;
  pbTrain_Destroy(t);
  return status;
}

static pbStatus read_training(pbTaskReader *r, const json_t *root, pbTask *task) {
  pbTrain *t = r->train;
  pbPolicyInfo info;
  t->task = task;  // for those who read from it; the caller takes it over at the end
  PB_TRY(pbTask_ReadWorld(r, root, task));
  PB_TRY(pbTask_ReadMode(r, root, task));

  // starts of the episodes: no steps, no variables
  PB_TRY(pbTask_RefuseControls(r, root));
  r->run = true;
  PB_TRY(pbTask_ReadTrajectories(r, root, task));
  if (!pbModel_PolicyInfo(task->model, &info) || !pbPolicy_Text(task->model))
    return pbTaskReader_Fail(r, pb_bad_input, "\"policy\" is missing");
  PB_TRY(pbTask_ReadSample(r, root, task));
  PB_TRY(check_commands(r, task));
  if (!json_object_get(root, "loss")) return pbTaskReader_Fail(r, pb_bad_input, "\"loss\" is missing");

  PB_TRY(read_learning(r, root, t));
  PB_TRY(pbTask_TakeLearned(r, t));
  return pbTask_CheckAudit(r, root, task, t->settings.episode);
}

pbStatus pbTrain_Load(pbContext *ctx, const char *path, const char *allow_root, const char *policy, pbTrain **train) {
  *train = NULL;
  pbTrain *t = create(ctx);
  if (!t) return pbContext_Fail(ctx, pb_no_memory, "no memory for a training");

  // the task is read as any, what is trained beside it
  pbTask *task;
  pbTaskReader with = {.ctx = ctx, .allow_root = allow_root, .policy = policy, .train = t};
  pbStatus status = pbTask_LoadPart(&with, path, read_training, &task);
  t->task = task;
  if (status == pb_ok) *train = t;
  else pbTrain_Destroy(t);

  return status;
}

pbStatus pbTrain_Run(pbTrain *train, const pbTrainOptions *options, pbTrainResult *result) {
  static const pbTrainOptions none;
  if (!options) options = &none;
  pbTrainFile file = {{train->ctx, options->state_file, train->task->made_from}, train};
  pbRunStore kept = pbTrainFile_Store(&file);
  pbStatus status = pbTrain_Loop(train, options, options->state_file ? &kept : NULL, result);

  // saved with the policy
  if (result->theta && train->mean_at >= 0) train->task->model->policy_file->samples = train->now->best_stats;
  return result->theta && status == pb_ok ? pbTask_LeaveLearned(train) : status;
}
