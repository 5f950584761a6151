// Axes and quaternions among the variables of a task: which there are, and that they start as directions.
// Tests: tests/unit/test_task_sphere.c.
#include <math.h>

#include "base/context.h"
#include "io/task/task_reader.h"
#include "model/model.h"
#include "model/sphere.h"
#include "model/topology.h"

// the row's components in the variable's order
static bool whole_row(const pbVariable *v, const pbSphereRow *from, pbDirectionRow *row) {
  int found = 0;
  row->size = from->size;

  for (int k = 0; k < v->count; k++) {
    if (v->index[k] < from->at || v->index[k] >= from->at + (size_t)from->size) continue;
    row->at[v->index[k] - from->at] = k;
    found++;
  }

  return found == from->size;
}

// Rows of which this variable has all components; single components are numbers like any other.
pbStatus pbVariable_FindRows(pbTaskReader *r, pbVariable *v) {
  const pbTopology *t = r->model->topology;
  if (v->kind != pb_varyParam) return pb_ok;
  v->rows = pbContext_AllocArray(r->ctx, (size_t)v->count + 1, sizeof *v->rows);
  if (!v->rows) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");

  // only rows between the first and the last index can be meant
  size_t first = SIZE_MAX, last = 0;
  for (int k = 0; k < v->count; k++) {
    first = v->index[k] < first ? v->index[k] : first;
    last = v->index[k] > last ? v->index[k] : last;
  }

  for (const pbSphereRow *from = t->sphere; from < t->sphere + t->nsphere; from++) {
    bool inside = from->at >= first && from->at + (size_t)from->size <= last + 1;
    if (inside && whole_row(v, from, v->rows + v->row_count)) v->row_count++;
  }

  return pb_ok;
}

static const char *what(const pbDirectionRow *row) { return row->size == 3 ? "an axis" : "a quaternion"; }

pbStatus pbVariable_CheckRows(pbTaskReader *r, const json_t *object, const pbVariable *v) {
  static const char *const bounds[2] = {"lower", "upper"};
  if (!v->row_count) return pb_ok;

  for (int k = 0; k < 2; k++) {
    if (json_object_get(object, bounds[k]))
      return pbTaskReader_FailAt(r, bounds[k],
                                 "%.100s holds %s, which moves on the unit sphere: bounds on all its components are meaningless",
                                 v->name, what(v->rows));
  }
  if (v->logarithm)
    return pbTaskReader_FailAt(r, "transform", "%.100s holds %s, which moves on the unit sphere: expected \"none\"", v->name,
                               what(v->rows));

  return pb_ok;
}

// Scales starts to length one, and removes bounds: a row moves on its sphere.
pbStatus pbVariable_StartRows(pbTaskReader *r, const pbVariable *v, double *start, double *lower, double *upper) {
  for (int i = 0; i < v->row_count; i++) {
    const pbDirectionRow *row = &v->rows[i];
    double given[4] = {0};

    for (int c = 0; c < row->size; c++) given[c] = start[row->at[c]];
    double length = pbSphere_Length(given, row->size);

    if (!(length >= PB_SPHERE_SHORTEST && length <= PB_SPHERE_LONGEST))
      return pbTaskReader_Fail(r, pb_bad_input,
                               "component %d begins %s that starts with length %.3g; expected lengths from %g to %g", row->at[0],
                               what(row), length, PB_SPHERE_SHORTEST, PB_SPHERE_LONGEST);

    for (int c = 0; c < row->size; c++) {
      int k = row->at[c];

      // a start of unit length keeps its bits
      if (fabs(length - 1) > 1e-12) start[k] /= length;
      lower[k] = -INFINITY;
      upper[k] = INFINITY;
    }
  }

  return pb_ok;
}
