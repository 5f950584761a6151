// The "loss" of a task file on a rollout that is the caller's own.
// Tests: tests/unit/test_task.c, tests/unit/test_task_terms.c, tests/oracle/test_staged.py.
#include <math.h>
#include <stdint.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "model/model.h"

struct pbLoss {
  pbContext *ctx;
  pbTermSet terms;
};

static pbStatus read_loss_only(pbTaskReader *r, const json_t *root, int trajectory, pbTermSet *set) {
  PB_TRY(pbTaskReader_Keys(r, root, pbTask_Keys));

  const json_t *list = json_object_get(root, "trajectories"), *loss = NULL;
  if (list && (size_t)trajectory >= json_array_size(list))
    return pbTaskReader_FailAt(r, "trajectories", "there are %zu; trajectory %d (counted from 0) is asked for",
                               json_array_size(list), trajectory);

  // a trajectory's own loss, else that of all
  loss = json_object_get(json_array_get(list, (size_t)trajectory), "loss");
  if (!loss) loss = json_object_get(root, "loss");
  if (!loss) return pbTaskReader_Fail(r, pb_bad_input, "\"loss\" is missing");

  // formulas of the time have a slope by the time step
  set->timestep_bar = pbContext_AllocArray(r->ctx, 1, sizeof(double));
  if (!set->timestep_bar) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a loss");

  pbTaskReader_Enter(r, "loss");
  PB_TRY(pbTask_ReadLoss(r, loss, set));
  return pbTermSet_Finish(set);
}

pbStatus pbLoss_Load(pbContext *ctx, const char *path, const char *allow_root, const pbModel *model, int trajectory, int steps,
                     const double *theta, pbLoss **loss) {
  pbTaskReader r;
  char *text = NULL;
  json_t *root = NULL;
  *loss = NULL;

  pbLoss *l = pbContext_Alloc(ctx, sizeof *l);
  if (!l) return pbContext_Fail(ctx, pb_no_memory, "no memory for a loss");
  l->ctx = ctx;

  // terms are of the caller's model
  pbTermSet_Begin(&l->terms, ctx, model, steps);
  pbStatus status = pbTaskReader_Open(ctx, path, allow_root, &r, &text);
  r.model = model;
  r.theta = theta;

  if (status == pb_ok) status = pbTaskReader_Parse(&r, &root);
  if (status == pb_ok) status = read_loss_only(&r, root, trajectory, &l->terms);
  json_decref(root);
  pbTaskReader_End(&r);
  pbContext_Free(ctx, text);

  if (status == pb_ok) *loss = l;
  else pbLoss_Destroy(l);
  return status;
}

void pbLoss_Destroy(pbLoss *loss) {
  if (!loss) return;
  pbTermSet_Free(&loss->terms);
  pbContext_Free(loss->ctx, loss);
}

pbStatus pbLoss_Gradient(pbLoss *loss, pbRollout *rollout, const double *theta, const double *x0, const pbRolloutInput *input,
                         const pbVjpOptions *options, double *value, const pbRolloutGradient *gradient,
                         pbCertificate *certificate) {
  pbRolloutOutput output = pbTermSet_Output(&loss->terms);

  // a pullback that goes on has what controls and times cost by themselves
  bool begins = gradient && !pbRollout_GoesOn(rollout);
  double *ctrl_bar = begins ? gradient->ctrl : NULL;
  const pbModel *m = loss->terms.model;

  if (input->constant && loss->terms.uses[pb_observedControl])
    return pbContext_Fail(loss->ctx, pb_bad_argument, "a loss on controls needs a row of controls for every step");

  PB_TRY(pbRollout_Forward(rollout, theta, x0, input, &output));
  *value = pbTermSet_Value(&loss->terms, input->ctrl, true, ctrl_bar);
  if (!isfinite(*value)) return pbContext_Fail(loss->ctx, pb_not_finite, "the loss is not finite");
  if (begins && gradient->theta) gradient->theta[m->timestep - m->theta0] += *loss->terms.timestep_bar;

  // the value has set the cotangents of all terms
  pbRolloutBar bar = pbTermSet_Bar(&loss->terms);
  return pbRollout_Vjp(rollout, &bar, options, gradient, certificate);
}
