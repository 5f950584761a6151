// Plants that are models, and states of one model as those of another.
// Tests: tests/oracle/test_control.py.
#include "io/control/plant.h"

#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "base/context.h"

void pbPlant_Destroy(pbPlant *plant) {
  if (plant->kind) plant->kind->destroy(plant);
  *plant = (pbPlant){.kind = NULL};
}

const pbStateField *pbPlant_Field(const pbModel *model, const char *name, pbStateField *field) {
  for (int i = 0; i < pbModel_StateFieldCount(model); i++) {
    *field = pbModel_StateFieldAt(model, i);
    if (strcmp(field->name, name) == 0) return field;
  }
  return NULL;
}

void pbPlant_CopyState(const pbModel *from, const double *x, const pbModel *to, double *y) {
  for (int i = 0; i < pbModel_StateFieldCount(to); i++) {
    pbStateField field = pbModel_StateFieldAt(to, i), source;
    if (!pbPlant_Field(from, field.name, &source) || source.size != field.size) continue;
    memcpy(y + field.offset, x + source.offset, (size_t)field.size * sizeof *y);
  }
}

// ---- a model ----------------------------------------------------------------------------------------------------------------
typedef struct Model {
  pbPlantWorld world;
  double *xfrc;  // nbody x 6
  pbScratch *scratch;
} Model;

// The step at whose beginning a moment lies; times are sums of steps but for rounding.
static long step_of(const pbPlant *plant, double time) { return (long)fmin(ceil(time / plant->timestep - 1e-6), 1e15); }

// Velocities jump before the state is measured.
static void kick(pbPlant *plant) {
  const Model *m = plant->own;
  pbStateField qvel;
  if (!pbPlant_Field(plant->model, "qvel", &qvel)) return;

  for (int i = 0; i < m->world.push_count; i++) {
    const pbPush *push = &m->world.pushes[i];
    if (push->body >= 0 || step_of(plant, push->at) != plant->steps) continue;
    for (int k = 0; k < push->dofs; k++) plant->x[qvel.offset + push->dof + k] += push->velocity[k];
  }
}

// A push lasts for a step at least.
static bool push_bodies(const pbPlant *plant) {
  const Model *m = plant->own;
  bool any = false;
  memset(m->xfrc, 0, 6 * (size_t)pbModel_Size(plant->model, "nbody") * sizeof *m->xfrc);

  for (int i = 0; i < m->world.push_count; i++) {
    const pbPush *push = &m->world.pushes[i];
    long first = step_of(plant, push->at), end = step_of(plant, push->at + push->duration);
    if (push->body < 0 || plant->steps < first || plant->steps >= (end > first ? end : first + 1)) continue;
    for (int k = 0; k < 6; k++) m->xfrc[6 * push->body + k] += push->wrench[k];
    any = true;
  }
  return any;
}

static pbStatus reset_model(pbPlant *plant, uint64_t seed) {
  const Model *m = plant->own;
  (void)seed;  // a model begins where its task says
  memcpy(plant->x, m->world.start, (size_t)pbModel_StateSize(plant->model) * sizeof *plant->x);
  plant->time = 0;
  plant->steps = 0;
  kick(plant);
  return pb_ok;
}

static pbStatus step_model(pbPlant *plant, const double *ctrl) {
  const Model *m = plant->own;
  pbStatus status;
  const pbInput input = {.ctrl = ctrl, .xfrc = push_bodies(plant) ? m->xfrc : NULL};
  do {
    status = pbStep_Forward(plant->model, plant->theta, plant->x, &input, m->scratch, plant->sensordata);
  } while (pbScratch_Grow(m->scratch, &status));
  if (status != pb_ok) {
    const char *text = pbScratch_Error(m->scratch);
    return pbContext_Fail(plant->ctx, status, "the plant, step %ld at %.6g s: %s", plant->steps, plant->time,
                          *text ? text : pbStatus_Text(status));
  }

  pbStepNotes_Add(m->world.notes, m->scratch, plant->steps);
  plant->steps++;
  plant->time = (double)plant->steps * plant->timestep;
  const pbSimulation s = {.model = plant->model, .steps = plant->steps};
  PB_TRY(pbSimulation_Check(plant->ctx, &s, plant->x, plant->steps - 1));
  kick(plant);
  return pb_ok;
}

static void destroy_model(pbPlant *plant) {
  Model *m = plant->own;
  if (m) pbScratch_Destroy(m->scratch);
  if (m) pbContext_Free(plant->ctx, m->xfrc);
  pbContext_Free(plant->ctx, m);
  pbContext_Free(plant->ctx, plant->x);
  pbContext_Free(plant->ctx, plant->sensordata);
}

static double *numbers(pbContext *ctx, int count) { return pbContext_AllocArray(ctx, (size_t)count + 1, sizeof(double)); }

pbStatus pbPlant_OfModel(pbContext *ctx, const pbPlantWorld *world, pbPlant *plant) {
  static const pbPlantKind kind = {reset_model, step_model, destroy_model};
  const pbModel *model = world->model;
  pbParam timestep;
  *plant = (pbPlant){.kind = &kind, .ctx = ctx, .model = model, .theta = world->theta};

  Model *m = plant->own = pbContext_Alloc(ctx, sizeof *m);
  plant->x = numbers(ctx, pbModel_StateSize(model));
  plant->sensordata = numbers(ctx, pbModel_Size(model, "nsensordata"));
  if (m) *m = (Model){.world = *world, .xfrc = numbers(ctx, 6 * pbModel_Size(model, "nbody"))};
  bool room = m && m->xfrc && plant->x && plant->sensordata;
  pbStatus status = room ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "no memory for a plant");

  if (status == pb_ok) status = pbModel_Param(ctx, model, "timestep", &timestep);
  if (status == pb_ok) plant->timestep = plant->theta[timestep.offset];
  if (status == pb_ok) status = pbScratch_Create(ctx, model, NULL, &m->scratch);
  if (status != pb_ok) pbPlant_Destroy(plant);
  return status;
}
