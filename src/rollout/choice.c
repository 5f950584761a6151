// The parameters that a gradient is wanted by.
#include <string.h>

#include "base/context.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "step/wanted.h"

void pbChoice_Destroy(pbRollout *r) {
  pbContext_Free(r->ctx, r->unwanted);
  pbContext_Free(r->ctx, r->theta_aside);
  r->unwanted = NULL;
  r->theta_aside = NULL;
}

void pbChoice_Tell(pbRollout *r) {
  unsigned skip = r->unwanted ? pbWanted_Skip(r->model, r->unwanted) : 0;
  r->scratch->skip = skip;
  if (r->smooth_scratch) r->smooth_scratch->skip = skip;
}

// Number of the field that a name like "geom_friction" or "geom_friction:floor" means.
static pbStatus field_of(const pbRollout *r, const char *name, int *field) {
  pbParam p;
  PB_TRY(pbModel_Param(r->ctx, r->model, name, &p));
  *field = 0;
  while (strcmp(pbModel_ParamAt(r->model, *field).name, p.name) != 0) ++*field;

  return pb_ok;
}

pbStatus pbRollout_WantParameters(pbRollout *r, const char *const *names, int count, bool constants) {
  int fields = pbModel_ParamCount(r->model), field;
  if (count < 0) return pbContext_Fail(r->ctx, pb_bad_argument, "%d names of parameters: a count from 0 on is needed", count);
  for (int i = 0; names && i < count; i++) PB_TRY(field_of(r, names[i], &field));
  if (!names) pbChoice_Destroy(r);

  if (names && !r->unwanted) {
    r->unwanted = pbContext_AllocArray(r->ctx, (size_t)fields, sizeof *r->unwanted);
    r->theta_aside = pbContext_AllocArray(r->ctx, r->ntheta + 1, sizeof *r->theta_aside);
    if (!r->unwanted || !r->theta_aside) {
      pbChoice_Destroy(r);
      return pbContext_Fail(r->ctx, pb_no_memory, "no memory for a choice of parameters");
    }
  }

  for (int i = 0; names && i < fields; i++) r->unwanted[i] = !(constants && pbWanted_Taken(r->model, i));
  for (int i = 0; names && i < count; i++) {
    PB_TRY(field_of(r, names[i], &field));
    r->unwanted[field] = false;
  }

  pbChoice_Tell(r);
  return pb_ok;
}

bool pbChoice_None(const pbRollout *r) {
  for (int i = 0; r->unwanted && i < pbModel_ParamCount(r->model); i++) {
    if (!r->unwanted[i]) return false;
  }

  return r->unwanted != NULL;
}

void pbChoice_Keep(const pbRollout *r, const double *theta) {
  if (r->unwanted && theta) memcpy(r->theta_aside, theta, r->ntheta * sizeof *theta);
}

// What is not wanted, from elsewhere; from NULL: zero.
static void put(const pbRollout *r, const double *from, double *theta) {
  for (int i = 0; r->unwanted && theta && i < pbModel_ParamCount(r->model); i++) {
    pbParam p = pbModel_ParamAt(r->model, i);
    size_t size = (size_t)p.rows * (size_t)p.cols * sizeof *theta;

    if (!r->unwanted[i]) continue;
    if (from) memcpy(theta + p.offset, from + p.offset, size);
    else memset(theta + p.offset, 0, size);
  }
}

void pbChoice_Restore(const pbRollout *r, double *theta) { put(r, r->theta_aside, theta); }
void pbChoice_Clear(const pbRollout *r, double *theta) { put(r, NULL, theta); }
