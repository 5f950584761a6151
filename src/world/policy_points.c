// Points of deformables as a policy sees them (policy_points.h). Tests: tests/conformance/test_policy.c.
#include "world/policy_points.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "deform/deform.h"

// ---- which points --------------------------------------------------------------------------------------------------
static bool is_scenery(const pbDeform *d, int point) {
  for (int i = 0; i < d->nscenery; i++) {
    const pbSceneryPoints *s = &d->scenery[i];
    if (point >= s->first && point < s->first + s->count) return true;
  }
  return false;
}

// Without those that nobody listed.
static int list_all(const pbDeform *d, int *points) {
  int count = 0;
  for (int i = 0; i < d->npoint; i++) {
    if (!is_scenery(d, i)) points[count++] = i;
  }
  return count;
}

static pbStatus copy_points(const int *from, int count, const pbDeform *d, pbObserveRow *row, const char **reason) {
  *reason = "expected rows of \"points\" that there are";
  for (int i = 0; i < count; i++) {
    if (from[i] < 0 || from[i] >= d->npoint) return pb_bad_argument;
    row->points[i] = from[i];
  }
  row->point_count = count;
  return pb_ok;
}

pbStatus pbPolicyPoints_Choose(const pbModel *m, const pbObserveDef *def, pbObserveRow *row, const char **reason) {
  const pbDeform *d = m->deform;
  int named = 0;
  const int *set = def->object ? pbModel_PointSet(m, def->object, &named) : NULL;
  PB_ASSERT(set || !def->object);

  *reason = "the model has no deformables, so no points";
  if (!d) return pb_bad_argument;
  *reason = "expected a set's name or points by number, not both";
  if (def->point_count < 0 || (set && def->point_count)) return pb_bad_argument;

  // Room for all that are named, once or more often, or for all that there are
  *reason = "no memory for a policy";
  size_t room = (size_t)d->npoint + (size_t)named + (size_t)def->point_count;
  row->points = pbContext_AllocArray(m->ctx, room + 1, sizeof(int));
  if (!row->points) return pb_no_memory;

  if (set) return copy_points(set, named, d, row, reason);
  if (def->point_count) return copy_points(def->points, def->point_count, d, row, reason);
  *reason = "there is no point but those of scenery";
  row->point_count = list_all(d, row->points);
  return row->point_count ? pb_ok : pb_bad_argument;
}

// ---- their numbers -------------------------------------------------------------------------------------------------
// Where positions or velocities begin in a state's part; in the tangent's they have the same place.
static int begin_of(const pbDeform *d, pbObserveKind kind) {
  pbDeformState at = pbDeform_State(d);
  return kind == pb_observePoints ? at.x : at.v;
}

// Of each point in the mean that is seen: added to the point itself, or alone.
static double share_of_mean(const pbObserveRow *r) {
  switch (r->form) {
    case pb_formMean: return 1.0 / r->point_count;
    case pb_formOffset: return -1.0 / r->point_count;
    default: return 0;
  }
}

static void put_row(const pbObserveRow *r, const double *x, double *out) {
  // What of the mean is seen
  double mean[3] = {0}, share = share_of_mean(r);
  for (int i = 0; i < 3 * r->point_count; i++) mean[i % 3] += share * x[3 * r->points[i / 3] + i % 3];

  // Only the mean has no points of its own.
  for (int i = 0; i < r->count; i++) {
    int entry = r->component ? r->component[i] : i;
    double whole = r->form == pb_formMean ? 0 : x[3 * r->points[entry / 3] + entry % 3];
    out[i] = r->scale * (whole + mean[entry % 3]);
  }
}

void pbPolicyPoints_Put(const pbModel *m, const double *deform, double *observation) {
  const pbPolicyModel *p = m->policy;

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (!pb_observesPoints(r->kind)) continue;
    PB_ASSERT(m->deform && r->at + r->count <= p->observing);

    if (deform) put_row(r, deform + begin_of(m->deform, r->kind), observation + r->at);
    else memset(observation + r->at, 0, (size_t)r->count * sizeof(double));
  }
}

// ---- pullback ------------------------------------------------------------------------------------------------------
static void pull_row(const pbObserveRow *r, const double *bar, double *x_bar) {
  double mean_bar[3] = {0}, share = share_of_mean(r);

  for (int i = 0; i < r->count; i++) {
    int entry = r->component ? r->component[i] : i;
    mean_bar[entry % 3] += r->scale * bar[i];
    if (r->form != pb_formMean) x_bar[3 * r->points[entry / 3] + entry % 3] += r->scale * bar[i];
  }

  // Every point has its share of the mean.
  for (int i = 0; i < 3 * r->point_count; i++) x_bar[3 * r->points[i / 3] + i % 3] += share * mean_bar[i % 3];
}

void pbPolicyPoints_Pull(const pbModel *m, const double *observation_bar, double *deform_bar) {
  const pbPolicyModel *p = m->policy;

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (!pb_observesPoints(r->kind)) continue;
    PB_ASSERT(m->deform && r->at + r->count <= p->observing);
    pull_row(r, observation_bar + r->at, deform_bar + begin_of(m->deform, r->kind));
  }
}
