// Variables of mass, center and inertia of a body at once.
// Tests: tests/unit/test_inertia.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "io/task/task_variables.h"
#include "model/model.h"
#include "optimize/inertia.h"

static const char *const fields[] = {"body_mass", "body_ipos", "body_iquat", "body_inertia"};
static const int widths[] = {1, 3, 4, 3};
enum { FIELDS = 4 };

// The model's numbers of a body, and where they are.
static pbStatus find_numbers(pbTaskReader *r, const pbTask *task, const char *body, size_t *index, double *number) {
  int id, at = 0;
  PB_TRY(pbTaskReader_Id(r, body, pb_objBody, &id));
  if (id == 0) return pbTaskReader_Fail(r, pb_bad_input, "the world does not move");

  for (int f = 0; f < FIELDS; f++) {
    pbParam p;
    PB_TRY(pbTask_FindVariedParam(r, fields[f], task->recompute, &p));
    for (int c = 0; c < widths[f]; c++, at++) {
      index[at] = p.offset + (size_t)(id * widths[f] + c);
      number[at] = r->theta[index[at]];
    }
  }

  return pb_ok;
}

// Moments about principal axes as a tensor in the body's axes.
static void values_of(const double *number, double *value) {
  const double *q = number + 4, *D = number + 8;
  double w = q[0], x = q[1], y = q[2], z = q[3];
  const double R[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                       2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                       2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
  static const int pairs[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};

  memcpy(value, number, 4 * sizeof *value);
  for (int k = 0; k < 6; k++) {
    const double *a = R + 3 * pairs[k][0], *b = R + 3 * pairs[k][1];
    value[4 + k] = a[0] * D[0] * b[0] + a[1] * D[1] * b[1] + a[2] * D[2] * b[2];
  }
}

pbStatus pbTask_ReadInertia(pbTaskReader *r, const json_t *object, pbTask *task, pbVariable *v) {
  static const char *const keys[] = {"body", "transform", "name", "start", "prior", NULL};
  static const char *const bounds[] = {"lower", "upper", "scale", "components"};
  const char *body = NULL, *transform = NULL, *name = NULL;
  double number[PB_INERTIA_NUMBERS], value[PB_INERTIA], z[PB_INERTIA], lower[PB_INERTIA], upper[PB_INERTIA];

  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    if (json_object_get(object, bounds[i]))
      return pbTaskReader_FailAt(r, bounds[i], "ten unknowns that are a body whatever they are have no %s", bounds[i]);
  }

  // what may stand beside it
  PB_TRY(pbTaskReader_Keys(r, object, keys));
  PB_TRY(pbTaskReader_Text(r, object, "body", &body));
  PB_TRY(pbTaskReader_Text(r, object, "name", &name));
  PB_TRY(pbTaskReader_Text(r, object, "transform", &transform));
  if (!transform || strcmp(transform, "inertia") != 0)
    return pbTaskReader_Fail(r, pb_bad_input, "a body is varied with \"transform\": \"inertia\": its mass, center and inertia");

  // of no trajectory, with a body's numbers behind ten unknowns
  v->kind = pb_varyInertia;
  v->trajectory = -1;
  v->knots = 1;
  v->scale = 1;
  v->count = PB_INERTIA;
  v->index_count = PB_INERTIA_NUMBERS;
  v->name = pbContext_CopyText(r->ctx, name ? name : body);
  v->index = pbContext_AllocArray(r->ctx, PB_INERTIA_NUMBERS, sizeof *v->index);
  if (!v->name || !v->index) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  pbTaskReader_Enter(r, "body");
  PB_TRY(find_numbers(r, task, body, v->index, number));
  pbTaskReader_Leave(r);

  // starts as the model has it, or as is said
  values_of(number, value);
  PB_TRY(pbTaskReader_Spread(r, object, "start", PB_INERTIA, value));
  if (!pbInertia_Start(value, z))
    return pbTaskReader_FailAt(
        r, "start", "no body has the mass %.6g and moments of inertia of which one exceeds the others together", value[0]);

  // whatever they are is a body: no bounds
  for (int i = 0; i < PB_INERTIA; i++) {
    lower[i] = -INFINITY;
    upper[i] = INFINITY;
  }

  return pbTask_AppendUnknowns(r, task, v, z, lower, upper);
}
