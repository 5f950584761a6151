// What passes from one training to the next, beside a policy's weights in its file: how its optimizer stands, and its critic.
// docs/policies.md.
// Tests: tests/oracle/test_train_on.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "io/task/policy.h"
#include "learn/train.h"
#include "model/policy_data.h"

// ---- arrays of a policy's file ------------------------------------------------------------------------------------------
static bool of_training(const char *name) { return strncmp(name, "train.", 6) == 0; }

static pbStatus copy_array(pbArrays *to, const pbArray *a) {
  if (a->type == pb_arrayText && a->count == 1) return pbArrays_AddText(to, a->name, a->text);
  return a->type == pb_arrayReal ? pbArrays_AddReals(to, a->name, a->ndim, a->shape, a->reals, NULL) : pb_ok;
}

static pbStatus copy_arrays(pbArrays *to, const pbArrays *from) {
  for (size_t i = 0; i < pbArrays_Count(from); i++) {
    if (of_training(pbArrays_At(from, i)->name)) PB_TRY(copy_array(to, pbArrays_At(from, i)));
  }

  return pb_ok;
}

void pbLearned_Free(pbPolicyFile *file) {
  pbArrays_Destroy(file->learned);
  pbArrays_Destroy(file->left);
  pbContext_Free(file->ctx, file->source);
  file->learned = file->left = NULL;
  file->source = NULL;
}

pbStatus pbLearned_Take(pbPolicyFile *file, const pbArrays *set, const char *path) {
  pbLearned_Free(file);
  file->source = pbContext_CopyText(file->ctx, path);
  if (!file->source) return pbContext_Fail(file->ctx, pb_no_memory, "%.400s: no memory for a policy", path);
  PB_TRY(pbArrays_Create(file->ctx, &file->learned));

  // numbers and texts of a training, whatever else a file has
  return copy_arrays(file->learned, set);
}

pbStatus pbLearned_Add(const pbPolicyFile *file, pbArrays *set) {
  // what a training left here, else what came with the policy
  const pbArrays *from = file->left ? file->left : file->learned;
  return from ? copy_arrays(set, from) : pb_ok;
}

// ---- into a training ----------------------------------------------------------------------------------------------------
static pbStatus take_numbers(pbContext *ctx, const pbPolicyFile *file, const char *name, size_t count, const double **out) {
  const pbArray *a = pbArrays_Find(file->learned, name);
  if (!a || a->type != pb_arrayReal || a->count != count)
    return pbContext_Fail(ctx, pb_bad_input, "%.400s: %s: expected %zu numbers, found %zu", file->source, name, count,
                          a && a->type == pb_arrayReal ? a->count : 0);
  *out = a->reals;

  // numbers stay the file's
  return pbArray_CheckFinite(ctx, a, file->source);
}

static pbStatus take_steps(pbContext *ctx, const pbPolicyFile *file, const char *name, double *steps) {
  const double *value = NULL;
  PB_TRY(take_numbers(ctx, file, name, 1, &value));
  *steps = *value;
  if (*value >= 0 && *value == floor(*value)) return pb_ok;

  return pbContext_Fail(ctx, pb_bad_input, "%.400s: %s: expected a whole number from 0 on, found %g", file->source, name, *value);
}

static const char *text_of(const pbArrays *set, const char *name) {
  const pbArray *a = pbArrays_Find(set, name);
  return a && a->type == pb_arrayText && a->count == 1 ? a->text : NULL;
}

// Means of squares are roots' arguments.
static pbStatus check_squares(pbContext *ctx, const pbPolicyFile *file, const char *name, const double *v, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (v[i] < 0)
      return pbContext_Fail(ctx, pb_bad_input, "%.400s: %s[%zu] is %g, a mean of squares", file->source, name, i, v[i]);
  }

  return pb_ok;
}

static size_t learned_weights(const pbModel *m) {
  size_t count = 0;
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    pbParam p = pbModel_ParamAt(m, i);
    if (strncmp(p.name, "policy.", 7) == 0 && !p.fixed) count += (size_t)p.rows * (size_t)p.cols;
  }

  return count;
}

// Steps of another method are other steps.
static pbStatus take_optimizer(pbContext *ctx, const pbPolicyFile *file, pbTrain *t) {
  const char *method = text_of(file->learned, "train.method");
  size_t count = learned_weights(t->task->model);
  if (!method || strcmp(method, pbTrainMethod_Name(t->settings.method)) != 0) return pb_ok;

  // all of it, or the file is damaged
  PB_TRY(take_steps(ctx, file, "train.adam.steps", &t->given.steps));
  PB_TRY(take_numbers(ctx, file, "train.adam.first", count, &t->given.m));
  PB_TRY(take_numbers(ctx, file, "train.adam.second", count, &t->given.v));

  return check_squares(ctx, file, "train.adam.second", t->given.v, count);
}

static void count_critic(const pbNetwork *critic, size_t *params, size_t *unknowns) {
  const pbPolicyFunction *f = pbNetwork_Function(critic);
  *params = *unknowns = 0;
  for (int i = 0; i < f->slices; i++) {
    size_t count = (size_t)f->slice[i].rows * (size_t)f->slice[i].cols;
    *params += count;
    *unknowns += f->slice[i].fixed ? 0 : count;
  }
}

static pbStatus take_critic(pbContext *ctx, const pbPolicyFile *file, pbTrain *t) {
  const char *text = text_of(file->learned, "train.critic");
  size_t params, unknowns;
  if (!text || !t->critic || t->fresh_critic) return pb_ok;
  if (strcmp(text, t->critic_text) != 0)
    return pbContext_Fail(ctx, pb_bad_input,
                          "%.400s: train.critic: a critic of other layers than this task's; \"critic\": {\"fresh\": true} of "
                          "\"train\" leaves it out. Its layers are %.300s",
                          file->source, text);

  // as many as these layers have
  count_critic(t->critic, &params, &unknowns);
  PB_TRY(take_steps(ctx, file, "train.critic.steps", &t->given.critic_steps));
  if (t->critic_inputs) PB_TRY(take_steps(ctx, file, "train.critic.samples", &t->given.critic_samples));
  PB_TRY(take_numbers(ctx, file, "train.critic.weights", params, &t->given.critic));
  PB_TRY(take_numbers(ctx, file, "train.critic.slow", params, &t->given.slow));
  PB_TRY(take_numbers(ctx, file, "train.critic.first", unknowns, &t->given.critic_m));
  PB_TRY(take_numbers(ctx, file, "train.critic.second", unknowns, &t->given.critic_v));

  return check_squares(ctx, file, "train.critic.second", t->given.critic_v, unknowns);
}

pbStatus pbTask_TakeLearned(pbTaskReader *r, pbTrain *t) {
  const pbPolicyFile *file = t->task->model->policy_file;
  if (!file || !file->learned) return pb_ok;
  PB_TRY(take_optimizer(r->ctx, file, t));

  return take_critic(r->ctx, file, t);
}

// ---- out of a training --------------------------------------------------------------------------------------------------
static pbStatus add_pair(pbArrays *set, const char *const name[3], size_t count, const double *const value[2], double steps) {
  PB_TRY(pbArrays_AddReals(set, name[0], 0, NULL, &steps, NULL));
  PB_TRY(pbArrays_AddReals(set, name[1], 1, &count, value[0], NULL));
  return pbArrays_AddReals(set, name[2], 1, &count, value[1], NULL);
}

static pbStatus add_learned(pbArrays *set, const pbTrain *t) {
  static const char *const adam[] = {"train.adam.steps", "train.adam.first", "train.adam.second"};
  static const char *const critic[] = {"train.critic.steps", "train.critic.first", "train.critic.second"};
  pbLearned l = pbTrain_Learned(t);
  size_t params;
  if (!l.m) return pb_ok;

  PB_TRY(pbArrays_AddText(set, "train.method", pbTrainMethod_Name(t->settings.method)));
  PB_TRY(add_pair(set, adam, pbTrain_Weights(t), (const double *[]){l.m, l.v}, l.steps));
  if (!l.critic) return pb_ok;

  params = t->head_critic.params;
  PB_TRY(pbArrays_AddText(set, "train.critic", t->critic_text));
  if (t->critic_inputs) PB_TRY(pbArrays_AddReals(set, "train.critic.samples", 0, NULL, &l.critic_samples, NULL));
  PB_TRY(pbArrays_AddReals(set, "train.critic.weights", 1, &params, l.critic, NULL));
  PB_TRY(pbArrays_AddReals(set, "train.critic.slow", 1, &params, l.slow, NULL));

  return add_pair(set, critic, t->head_critic.unknowns, (const double *[]){l.critic_m, l.critic_v}, l.critic_steps);
}

pbStatus pbTask_LeaveLearned(pbTrain *t) {
  pbPolicyFile *file = t->task->model->policy_file;
  pbArrays_Destroy(file->left);
  file->left = NULL;
  PB_TRY(pbArrays_Create(file->ctx, &file->left));

  return add_learned(file->left, t);
}
