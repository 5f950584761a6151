// The parameters that a gradient is wanted by: which fields of theta a pullback may leave out, and the caller's entries that it
// must not touch.
// Tests: tests/unit/test_rollout.c, tests/unit/test_schedule.c, tests/oracle/test_wanted.py.
#include <string.h>

#include "base/assert.h"

#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "step/wanted.h"

void pbSelection_Destroy(pbRollout *r) {
  pbContext_Free(r->ctx, r->unwanted);
  pbContext_Free(r->ctx, r->theta_aside);
  r->unwanted = NULL;
  r->theta_aside = NULL;
}

// Is no parameter of the policy wanted? They are the last of all.
static void skip_policy(const pbRollout *r, pbScratch *s) {
  if (!s || !s->policy) return;

  int count = pbModel_ParamCount(r->model);
  bool wanted = !r->unwanted;
  PB_ASSERT(count >= r->model->policy->params);

  for (int i = count - r->model->policy->params; i < count && !wanted; i++) wanted = !r->unwanted[i];

  s->policy->skip = !wanted;
}

void pbSelection_Apply(pbRollout *r) {
  unsigned skip = r->unwanted ? pbWanted_Skip(r->model, r->unwanted) : 0;
  r->scratch->skip = skip;
  if (r->smooth_scratch) r->smooth_scratch->skip = skip;
  skip_policy(r, r->scratch);
  skip_policy(r, r->smooth_scratch);
}

// Number of the field that a name like "geom_friction" or "geom_friction:floor" means.
static pbStatus field_of(const pbRollout *r, const char *name, int *field) {
  pbParam p;
  PB_TRY(pbModel_Param(r->ctx, r->model, name, &p));

  *field = 0;
  while (strcmp(pbModel_ParamAt(r->model, *field).name, p.name) != 0) ++*field;
  PB_ASSERT(*field < pbModel_ParamCount(r->model));

  return pb_ok;
}

static pbStatus allocate_selection(pbRollout *r) {
  r->unwanted = pbContext_AllocArray(r->ctx, (size_t)pbModel_ParamCount(r->model), sizeof *r->unwanted);
  r->theta_aside = pbContext_AllocArray(r->ctx, r->ntheta + 1, sizeof *r->theta_aside);
  if (r->unwanted && r->theta_aside) return pb_ok;

  pbSelection_Destroy(r);
  return pbContext_Fail(r->ctx, pb_no_memory, "no memory for a choice of parameters");
}

pbStatus pbRollout_WantParameters(pbRollout *r, const char *const *names, int count, bool constants) {
  if (count < 0) return pbContext_Fail(r->ctx, pb_bad_argument, "%d names of parameters: a count from 0 on is needed", count);
  if (!names) {
    pbSelection_Destroy(r);
    pbSelection_Apply(r);
    return pb_ok;
  }

  // All names are looked up before anything changes: on failure the choice before stays.
  int field;
  bool sources = false;
  for (int i = 0; i < count; i++) {
    PB_TRY(field_of(r, names[i], &field));
    sources = sources || pbWanted_Source(r->model, field);
  }
  if (!r->unwanted) PB_TRY(allocate_selection(r));

  // The derivatives of derived constants go on to what they are derived from.
  for (int i = 0; i < pbModel_ParamCount(r->model); i++) r->unwanted[i] = !(constants && sources && pbWanted_Taken(r->model, i));
  for (int i = 0; i < count; i++) {
    PB_TRY(field_of(r, names[i], &field));
    r->unwanted[field] = false;
  }

  pbSelection_Apply(r);
  return pb_ok;
}

bool pbSelection_None(const pbRollout *r) {
  if (!r->unwanted) return false;
  for (int i = 0; i < pbModel_ParamCount(r->model); i++) {
    if (!r->unwanted[i]) return false;
  }

  return true;
}

void pbSelection_Keep(const pbRollout *r, const double *theta) {
  PB_ASSERT(!r->unwanted == !r->theta_aside);
  if (r->unwanted && theta) memcpy(r->theta_aside, theta, r->ntheta * sizeof *theta);
}

// Overwrites the entries of theta that are not wanted by those of `from`; NULL: by zero.
static void overwrite_unwanted(const pbRollout *r, const double *from, double *theta) {
  if (!r->unwanted || !theta) return;

  for (int i = 0; i < pbModel_ParamCount(r->model); i++) {
    if (!r->unwanted[i]) continue;
    pbParam p = pbModel_ParamAt(r->model, i);
    size_t size = (size_t)p.rows * (size_t)p.cols * sizeof *theta;
    PB_ASSERT(p.offset + (size_t)p.rows * (size_t)p.cols <= r->ntheta);

    if (from) memcpy(theta + p.offset, from + p.offset, size);
    else memset(theta + p.offset, 0, size);
  }
}

void pbSelection_Restore(const pbRollout *r, double *theta) { overwrite_unwanted(r, r->theta_aside, theta); }
void pbSelection_Clear(const pbRollout *r, double *theta) { overwrite_unwanted(r, NULL, theta); }
