// Targets out of a CSV: the columns of what a term names, as the array and the times that a file of arrays would have.
// Tests: tests/unit/test_task_csv.c.
#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/arrays/csv.h"
#include "io/task/task_reader.h"
#include "io/trajectory/columns.h"
#include "model/model.h"

typedef struct Target {
  const pbTerm *term;
  const int *columns;     // of each target entry in a full row
  const char *name;       // of the array that is made
  const char *time_name;  // of the column of times, and of their array
  const json_t *names;    // "columns", or NULL
  const pbArrays *set;    // the CSV
  pbArrays *out;
  const pbArray **from;  // of each target entry its column; NULL: none is needed, or there is none
  bool *needed;          // of each entry: some part of the term looks at it
  const pbArray *time;
} Target;

// ---- which columns ----------------------------------------------------------------------------------------------------
// Entries that the chosen components look at: of a rotation the whole quaternion.
static void mark_needed(const pbTerm *t, bool *needed) {
  for (int i = 0; i < t->part_count; i++) {
    const pbPart *p = &t->parts[i];
    int count = p->axis < 0 ? 1 : 4;
    PB_ASSERT(p->target + count <= t->target_width);
    for (int k = 0; k < count; k++) needed[p->target + k] = true;
  }
}

static pbColumn number_of(const pbTaskReader *r, const Target *g, int entry) {
  return pbColumn_Of(r->model, (pbRecordedKind)g->term->quantity, g->columns[entry]);
}

// By the names of what the term is about.
static pbStatus find_columns(pbTaskReader *r, Target *g) {
  for (int i = 0; i < g->term->target_width; i++) {
    pbColumn c = number_of(r, g, i);
    if (!g->needed[i]) continue;

    pbStatus status = pbColumn_Find(r->ctx, r->model, g->set, &c, false, &g->from[i]);
    if (status == pb_ok && !g->from[i]) status = pbColumn_Missing(r->ctx, g->set, &c, false);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  }

  return pb_ok;
}

static pbStatus take_named(pbTaskReader *r, Target *g, int entry, const json_t *name) {
  const char *text = json_string_value(name);
  char list[600];
  if (json_is_null(name)) return pb_ok;
  if (!text) return pbTaskReader_Fail(r, pb_bad_input, "expected names of columns, or null where there is none");

  g->from[entry] = pbArrays_Find(g->set, text);
  if (!g->from[entry])
    return pbTaskReader_Fail(r, pb_bad_input, "%s: has no column '%.80s'; its columns are %s", pbArrays_Csv(g->set)->file, text,
                             pbColumn_List(g->set, list, sizeof list));

  pbColumn c = number_of(r, g, entry);
  pbStatus status = pbColumn_CheckUnit(r->ctx, g->set, g->from[entry], &c);

  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

// "columns": a name for each number that is looked at, or null.
static pbStatus take_columns(pbTaskReader *r, Target *g) {
  int count = 0, given = 0;
  for (int i = 0; i < g->term->target_width; i++) count += g->needed[i];
  pbTaskReader_Enter(r, "columns");
  if (!json_is_array(g->names) || json_array_size(g->names) != (size_t)count)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a list of %d names, one for each number of the target, or null", count);

  for (int i = 0; i < g->term->target_width; i++) {
    if (!g->needed[i]) continue;
    pbTaskReader_EnterAt(r, (size_t)given);
    PB_TRY(take_named(r, g, i, json_array_get(g->names, (size_t)given++)));
    pbTaskReader_Leave(r);
  }

  pbTaskReader_Leave(r);

  return pb_ok;
}

// ---- rows -------------------------------------------------------------------------------------------------------------
// A sample that is missing is NaN, as is all of a number that has no column; what nobody looks at is zero.
static pbStatus fill_rows(pbTaskReader *r, Target *g) {
  size_t rows = pbRecording_Rows(g->set), width = (size_t)g->term->target_width;
  double *data = NULL, *times = NULL;
  pbStatus status = pbArrays_AddReals(g->out, g->name, 2, (size_t[]){rows, width}, NULL, &data);
  if (status == pb_ok && g->time) status = pbArrays_AddReals(g->out, g->time_name, 1, &rows, NULL, &times);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  for (size_t k = 0; k < rows; k++) {
    if (times) times[k] = g->time->reals[k];
    for (size_t i = 0; i < width; i++) {
      if (!g->needed[i]) continue;
      data[k * width + i] = g->from[i] ? g->from[i]->reals[k] : NAN;
    }
  }

  return pb_ok;
}

static pbStatus take_target(pbTaskReader *r, Target *g) {
  pbStatus status = pbColumn_Time(r->ctx, g->set, g->time_name, &g->time);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  if (!g->time_name) g->time_name = "time";

  mark_needed(g->term, g->needed);
  PB_TRY(g->names ? take_columns(r, g) : find_columns(r, g));

  return fill_rows(r, g);
}

// ---- the whole --------------------------------------------------------------------------------------------------------
static pbStatus convert(pbTaskReader *r, Target *g) {
  size_t width = (size_t)g->term->target_width;
  g->from = pbContext_AllocArray(r->ctx, width + 1, sizeof *g->from);
  g->needed = pbContext_AllocArray(r->ctx, width + 1, sizeof *g->needed);
  pbStatus status = g->from && g->needed ? pbArrays_Create(r->ctx, &g->out) : pb_no_memory;
  if (status != pb_ok) status = pbTaskReader_Fail(r, pb_no_memory, "no memory for a target");

  if (status == pb_ok) status = take_target(r, g);
  pbContext_Free(r->ctx, g->from);
  pbContext_Free(r->ctx, g->needed);

  return status;
}

pbStatus pbTask_LoadTarget(pbTaskReader *r, const json_t *target, const char *name, const pbTerm *t, const int *columns,
                           pbArrays **set) {
  Target g = {.term = t, .columns = columns, .name = name, .names = json_object_get(target, "columns")};
  PB_TRY(pbTaskReader_Text(r, target, "time", &g.time_name));
  PB_TRY(pbTaskReader_LoadSamples(r, target, set));

  // an array has its own columns and times
  if (pbRecording_Rows(*set) == 0) {
    if (!g.names) return pb_ok;
    pbArrays_Destroy(*set);
    return pbTaskReader_FailAt(r, "columns", "only a CSV has columns by name");
  }

  // the arrays stand in for the file
  g.set = *set;
  pbStatus status = json_object_get(target, "array")
                        ? pbTaskReader_FailAt(r, "array", "columns of a CSV are found by names, or by \"columns\"")
                        : convert(r, &g);
  pbArrays_Destroy(*set);
  if (status != pb_ok) pbArrays_Destroy(g.out);
  *set = status == pb_ok ? g.out : NULL;
  return status;
}
