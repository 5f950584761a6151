// "control" of a task: how often plans are made, for how long, and the plant.
// Tests: tests/oracle/test_control.py.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "io/control/control.h"
#include "io/json/tree.h"
#include "io/task/task_reader.h"
#include "model/joint.h"
#include "model/model.h"

static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for a controller"); }

// ---- the plant ----------------------------------------------------------------------------------------------------------
// What a world is made of: a plant with a model has these of its own alone, without one the task's, but for what it says.
static const pbTaskKey plant_keys[] = {PB_KEY_PART("model"),   PB_KEY_PART("deformables"), PB_KEY_PART("options"),
                                       PB_KEY_PART("contact"), PB_KEY_PART("parameters"),  PB_KEY_PART("constants"),
                                       PB_KEY_PART("urdf"),    PB_KEY_PART("comment"),     PB_KEYS_END};

// The task's members with those of the plant over them.
static json_t *over(const json_t *whole, const json_t *own) {
  const char *name;
  json_t *value, *both = whole ? pbJson_CopyMembers(whole) : json_object();
  json_object_foreach((json_t *)own, name, value) pbJson_Put(&both, name, json_incref(value));
  return both;
}

static json_t *make_world(const json_t *root, const json_t *plant) {
  static const char *const worded[] = {"model", "deformables", "constants", "urdf", "expose", "design"};
  static const char *const merged[] = {"options", "contact", "parameters"};
  const json_t *from = json_object_get(plant, "model") || json_object_get(plant, "deformables") ? NULL : root;
  json_t *world = json_object();

  // whole members, then those whose parts may come from both
  for (size_t i = 0; i < sizeof worded / sizeof *worded; i++) {
    json_t *own = json_object_get(plant, worded[i]), *value = own ? own : json_object_get(from, worded[i]);
    if (value) pbJson_Put(&world, worded[i], json_incref(value));
  }
  for (size_t i = 0; i < sizeof merged / sizeof *merged; i++) {
    json_t *own = json_object_get(plant, merged[i]), *whole = json_object_get(from, merged[i]);
    bool both = json_is_object(own) && json_is_object(whole);
    if (both) pbJson_Put(&world, merged[i], over(whole, own));
    else if (own || whole) pbJson_Put(&world, merged[i], json_incref(own ? own : whole));
  }
  return world;
}

// Things of a kind have the same names in the same order, as far as both have any.
static pbStatus check_names(pbTaskReader *r, const pbModel *plan, const pbModel *plant, pbObject kind, const char *what) {
  const char *mine, *other;
  for (int i = 0; (mine = pbModel_Name(plan, kind, i)); i++) {
    other = pbModel_Name(plant, kind, i);
    if (!other || (*mine && *other && strcmp(mine, other) != 0))
      return pbTaskReader_Fail(r, pb_bad_input, "%s %d is '%.80s' in the plant and '%.80s' in the task", what, i,
                               other ? other : "missing", mine);
  }
  return pb_ok;
}

static pbStatus check_alike(pbTaskReader *r, const pbModel *plan, const pbModel *plant) {
  if (plant->nu != plan->nu)
    return pbTaskReader_Fail(r, pb_bad_input, "expected %d actuators, as the task's model has; found %d", plan->nu, plant->nu);

  // what the solver starts with is no part of the motion
  for (int i = 0; i < pbModel_StateFieldCount(plan); i++) {
    pbStateField field = pbModel_StateFieldAt(plan, i), other;
    bool there = pbPlant_Field(plant, field.name, &other);
    if (strcmp(field.name, "qacc_warmstart") == 0 || (there ? other.size : 0) == field.size) continue;
    return pbTaskReader_Fail(r, pb_bad_input, "expected %d numbers of %s in a state, as the task's model has; found %d",
                             field.size, field.name, there ? other.size : 0);
  }
  PB_TRY(check_names(r, plan, plant, pb_objJoint, "joint"));
  for (int i = 0; i < plan->njnt; i++) {
    if (plan->njnt == plant->njnt && plan->jnt_type[i] == plant->jnt_type[i]) continue;
    return pbTaskReader_Fail(r, pb_bad_input, "joint %d ('%.80s') is of another type in the plant", i,
                             pbModel_Name(plan, pb_objJoint, i));
  }
  return check_names(r, plan, plant, pb_objActuator, "actuator");
}

static pbStatus read_world(pbTaskReader *r, const json_t *root, const json_t *plant, pbControl *c) {
  json_t *world = make_world(root, plant);
  if (!r->made) r->made = json_array();
  if (!world || !r->made || json_array_append_new(r->made, world) != 0) return no_memory(r);

  // a task without a loss, of its own model
  c->world = pbContext_Alloc(r->ctx, sizeof *c->world);
  if (!c->world) return no_memory(r);
  c->world->ctx = r->ctx;
  c->world->name = pbContext_CopyText(r->ctx, r->name);
  if (!c->world->name) return no_memory(r);
  return pbTask_ReadWorld(r, world, c->world);
}

static pbStatus read_plant(pbTaskReader *r, const json_t *root, const json_t *plant, pbControl *c, const pbTask *task) {
  if (!plant) return pb_ok;
  pbTaskReader_Enter(r, "plant");
  PB_TRY(pbTaskReader_KnowsKeys(r, plant, plant_keys));

  // with the reader at its own model, and back
  const char *policy = r->policy;
  r->policy = NULL;
  pbStatus status = read_world(r, root, plant, c);
  r->policy = policy;
  r->model = task->model;
  r->theta = task->theta;
  PB_TRY(status);

  PB_TRY(check_alike(r, task->model, c->world->model));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus make_start(pbTaskReader *r, pbControl *c, const pbTask *task) {
  const pbTask *world = c->world ? c->world : task;
  c->start = pbContext_AllocArray(r->ctx, (size_t)pbModel_StateSize(world->model) + 1, sizeof *c->start);
  if (!c->start) return no_memory(r);

  // what the plan begins with, the rest as the plant's model has it
  PB_TRY(pbState_Init(r->ctx, world->model, world->theta, -1, c->start));
  pbPlant_CopyState(task->model, task->trajectories[0].x0, world->model, c->start);
  return pb_ok;
}

// ---- pushes, noise ------------------------------------------------------------------------------------------------------
static const pbTaskKey push_keys[] = {PB_KEY_FROM("at", Real, pbPush, at, 0, 1e9),
                                      PB_KEY_FROM("duration", Real, pbPush, duration, 0, 1e9),
                                      PB_KEY_PART("body"),
                                      PB_KEY_PART("force"),
                                      PB_KEY_PART("torque"),
                                      PB_KEY_PART("joint"),
                                      PB_KEY_PART("velocity"),
                                      PB_KEYS_END};

static pbStatus read_name(pbTaskReader *r, const json_t *object, const char *key, pbObject kind, int *id) {
  const char *name = NULL;
  PB_TRY(pbTaskReader_Text(r, object, key, &name));
  pbTaskReader_Enter(r, key);
  PB_TRY(pbTaskReader_Id(r, name, kind, id));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static const char *const bodys[] = {"force", "torque", "duration"};

static pbStatus read_jump(pbTaskReader *r, const json_t *object, pbPush *push) {
  const pbModel *m = r->model;
  int joint = 0;
  PB_TRY(read_name(r, object, "joint", pb_objJoint, &joint));
  push->body = -1;
  push->dof = m->jnt_dofadr[joint];
  push->dofs = pbJoint_DofCount(m->jnt_type[joint]);
  if (!json_object_get(object, "velocity")) return pbTaskReader_FailAt(r, "velocity", "is missing: that of a joint jumps");

  // nothing of a push
  for (size_t i = 0; i < 3; i++) {
    if (json_object_get(object, bodys[i]))
      return pbTaskReader_FailAt(r, bodys[i], "is a body's; a joint's velocity jumps at once");
  }
  return pbTaskReader_Spread(r, object, "velocity", (size_t)push->dofs, push->velocity);
}

static pbStatus read_push(pbTaskReader *r, const json_t *object, pbPush *push) {
  PB_TRY(pbTaskReader_Fill(r, object, push_keys, push));
  bool body = json_object_get(object, "body"), joint = json_object_get(object, "joint");
  if (!json_object_get(object, "at")) return pbTaskReader_FailAt(r, "at", "is missing");
  if (body == joint)
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"body\" (pushed) and \"joint\" (whose velocity jumps)");
  if (joint) return read_jump(r, object, push);

  PB_TRY(read_name(r, object, "body", pb_objBody, &push->body));
  if (push->body == 0) return pbTaskReader_FailAt(r, "body", "the world cannot be pushed");
  if (json_object_get(object, "velocity")) return pbTaskReader_FailAt(r, "velocity", "is a joint's; a body has force and torque");
  if (!json_object_get(object, "force") && !json_object_get(object, "torque"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected \"force\" or \"torque\"");

  // a single number would be the same along all axes
  for (size_t i = 0; i < 2; i++) {
    if (json_is_number(json_object_get(object, bodys[i])))
      return pbTaskReader_FailAt(r, bodys[i], "expected 3 numbers, found one");
  }
  PB_TRY(pbTaskReader_Spread(r, object, "force", 3, push->wrench));
  return pbTaskReader_Spread(r, object, "torque", 3, push->wrench + 3);
}

static pbStatus read_pushes(pbTaskReader *r, const json_t *list, pbControl *c) {
  size_t count = json_array_size(list);
  if (!list) return pb_ok;
  if (!json_is_array(list)) return pbTaskReader_FailAt(r, "pushes", "expected a list of objects");
  if (count > 100000) return pbTaskReader_FailAt(r, "pushes", "expected at most 100000, found %zu", count);

  // of the plant's model
  const pbModel *plan = r->model;
  c->pushes = pbContext_AllocArray(r->ctx, count + 1, sizeof *c->pushes);
  if (!c->pushes) return no_memory(r);
  if (c->world) r->model = c->world->model;
  pbTaskReader_Enter(r, "pushes");

  for (size_t i = 0; i < count; i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_push(r, json_array_get(list, i), &c->pushes[i]));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  c->push_count = (int)count;
  r->model = plan;
  return pb_ok;
}

static pbStatus read_noise(pbTaskReader *r, const json_t *object, pbControl *c) {
  static const char *const keys[] = {"qpos", "qvel", NULL};
  size_t nv = (size_t)r->model->nv;
  if (!object) return pb_ok;

  c->noise = pbContext_AllocArray(r->ctx, (size_t)pbModel_TangentSize(r->model) + 1, sizeof *c->noise);
  if (!c->noise) return no_memory(r);
  pbTaskReader_Enter(r, "noise");
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Spread(r, object, "qpos", nv, c->noise));
  PB_TRY(pbTaskReader_Spread(r, object, "qvel", nv, c->noise + nv));

  for (size_t i = 0; i < 2 * nv; i++) {
    if (!(c->noise[i] >= 0 && c->noise[i] <= 1e6)) return pbTaskReader_Fail(r, pb_bad_input, "expected deviations from 0 to 1e6");
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- the whole ----------------------------------------------------------------------------------------------------------
static const pbTaskKey control_keys[] = {PB_KEY("interval", Positive, pbControl, interval),
                                         PB_KEY("duration", Positive, pbControl, duration),
                                         PB_KEY_FROM("iterations", Int, pbControl, iterations, 1, 1000000),
                                         PB_KEY("seconds", Positive, pbControl, seconds),
                                         PB_KEY("feedback", Bool, pbControl, feedback),
                                         PB_KEY("real_time", Bool, pbControl, real_time),
                                         PB_KEY_FROM("delay", Real, pbControl, delay, 0, 1e6),
                                         PB_KEY("silence", Positive, pbControl, silence),
                                         PB_KEY_PART("seed"),
                                         PB_KEY_PART("noise"),
                                         PB_KEY_PART("pushes"),
                                         PB_KEY_PART("plant"),
                                         PB_KEY_PART("comment"),
                                         PB_KEYS_END};

// Times of days are slips.
static pbStatus check_times(pbTaskReader *r, const pbControl *c) {
  if (c->duration > 1e7) return pbTaskReader_FailAt(r, "duration", "expected at most 1e7 s, found %g", c->duration);
  if (c->silence > 1e6) return pbTaskReader_FailAt(r, "silence", "expected at most 1e6 s, found %g", c->silence);
  if (c->seconds > 1e6) return pbTaskReader_FailAt(r, "seconds", "expected at most 1e6 s, found %g", c->seconds);
  return pb_ok;
}

static pbStatus read_members(pbTaskReader *r, const json_t *root, const json_t *own, pbControl *c, const pbTask *task) {
  pbTaskReader_Enter(r, "control");
  PB_TRY(pbTaskReader_Fill(r, own, control_keys, c));
  PB_TRY(check_times(r, c));
  PB_TRY(pbTaskReader_Seed(r, own, &c->seed));
  PB_TRY(read_plant(r, root, json_object_get(own, "plant"), c, task));
  PB_TRY(read_pushes(r, json_object_get(own, "pushes"), c));
  PB_TRY(read_noise(r, json_object_get(own, "noise"), c));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_control(pbTaskReader *r, const json_t *root, pbTask *task) {
  const json_t *own = json_object_get(root, "control");
  pbControl *c = r->control;
  PB_TRY(pbTask_ReadWhole(r, root, task));
  if (!pbPoses_AreModels(task, &task->trajectories[0]))
    return pbTaskReader_Fail(r, pb_unsupported, "mocap bodies of a plant stand where its model says; the task has other poses");

  // without the key plans are made of the task as it is
  c->seed = task->optimizer.seed;
  if (own) PB_TRY(read_members(r, root, own, c, task));
  return make_start(r, c, task);
}

static pbControl *create(pbContext *ctx) {
  pbControl *c = pbContext_Alloc(ctx, sizeof *c);
  if (c) *c = (pbControl){.ctx = ctx, .silence = 1, .feedback = true};
  return c;
}

// What a controller of it cannot do is said before it runs.
static pbStatus try_plan(pbContext *ctx, pbTask *task) {
  pbMpc *mpc;
  PB_TRY(pbMpc_Create(ctx, task, &mpc));
  pbMpc_Destroy(mpc);
  return pb_ok;
}

pbStatus pbControl_Load(pbContext *ctx, const char *path, const char *allow_root, pbControl **control) {
  *control = NULL;
  pbControl *c = create(ctx);
  if (!c) return pbContext_Fail(ctx, pb_no_memory, "no memory for a controller");

  // the task is read as any, what controls it beside
  const pbTaskReader with = {.ctx = ctx, .allow_root = allow_root, .control = c};
  pbStatus status = pbTask_LoadPart(&with, path, read_control, &c->task);
  if (status == pb_ok) status = try_plan(ctx, c->task);
  if (status == pb_ok) *control = c;
  else pbControl_Destroy(c);
  return status;
}

void pbControl_Destroy(pbControl *c) {
  if (!c) return;
  pbControlLog_Clear(c->ctx, &c->log);
  pbTask_Destroy(c->task);
  pbTask_Destroy(c->world);
  void *memory[] = {c->start, c->noise, c->pushes};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(c->ctx, memory[i]);
  pbContext_Free(c->ctx, c);
}
