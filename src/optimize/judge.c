// What the parts of a verdict share: the loss beside the answer, names, words, memory.
// Tests: tests/unit/test_verdict.c.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "optimize/inertia.h"
#include "optimize/verdict.h"

// Beside an answer, unknowns may leave what a model takes (pb_bad_input), as the search's own trials may.
bool pbJudge_IsSoft(pbStatus status) {
  return status == pb_not_finite || status == pb_no_convergence || status == pb_singular || status == pb_bad_input;
}

pbStatus pbJudge_Value(Judge *j, const double *z, double *value) {
  pbStatus status = pbTask_Loss(j->task, z, value, NULL);
  if (!pbJudge_IsSoft(status)) return status;

  // Where the simulation fails, the loss is as bad as it can be.
  *value = INFINITY;

  return pb_ok;
}

void pbJudge_Say(Judge *j, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(j->verdict->reason, sizeof j->verdict->reason, format, list);
  va_end(list);
}

void pbJudge_Advise(Judge *j, const char *format, ...) {
  va_list list;
  size_t used = strlen(j->verdict->advice), room = sizeof j->verdict->advice - used;

  if (room < 200) return;
  va_start(list, format);
  vsnprintf(j->verdict->advice + used, room - 1, format, list);
  va_end(list);
  strcat(j->verdict->advice, "\n");
}

const char *pbJudge_NameOf(const Judge *j, int i, char *name, size_t size) {
  const pbVariable *v = pbJudge_VariableOf(j, i);
  if (v->kind == pb_varyInertia) snprintf(name, size, "%s[%s]", v->name, pbInertia_Unknowns[i - v->first]);
  else pbTask_Unknown(j->task, i, j->z, name, size, NULL);
  return name;
}

pbStatus pbJudge_Allocate(Judge *j, size_t count, double **data) {
  *data = pbContext_AllocArray(j->task->ctx, count + 1, sizeof(double));
  return *data ? pb_ok : pbContext_Fail(j->task->ctx, pb_no_memory, "%s: no memory to judge the answer", j->task->name);
}

const pbVariable *pbJudge_VariableOf(const Judge *j, int i) {
  const pbVariable *v = j->task->variables;
  while (i >= v->first + v->count) v++;
  return v;
}

void pbJudge_HoldLengths(const Judge *j, double *A, const double *length) {
  int n = j->n;
  double size = 0;

  // As stiff as the stiffest unknown: the length is as well determined as anything.
  for (int i = 0; i < n; i++) size = fmax(size, A[i * n + i]);
  for (int v = 0; v < j->task->variable_count; v++) {
    const pbVariable *variable = &j->task->variables[v];
    for (int k = 0; k < variable->row_count; k++) {
      const pbDirectionRow *row = &variable->rows[k];
      double along[4], squared = 0;

      // The unit vector along which the length changes, in scaled unknowns.
      for (int c = 0; c < row->size; c++) {
        int i = variable->first + row->at[c];
        along[c] = j->z[i] * (length ? length[i] : 1);
        squared += along[c] * along[c];
      }

      if (!(squared > 0)) continue;

      // A += size u u', u the unit vector.
      for (int a = 0; a < row->size; a++) {
        for (int b = 0; b < row->size; b++) {
          int at = (variable->first + row->at[a]) * n + variable->first + row->at[b];
          A[at] += size * along[a] * along[b] / squared;
        }
      }
    }
  }
}
