// Directions and cotangents, part by part: what spot checks and the check of a model draw, pair and move.
// Tests: tests/unit/test_rollout.c.
#include "rollout/vectors.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "probe/probe.h"

void pbVectors_Widths(const pbRollout *r, size_t width[by_count]) {
  // Rotations of mocap bodies have as many numbers as their positions.
  const int n[by_count] = {[by_state] = r->n,
                           [by_ctrl] = r->nu,
                           [by_qfrc] = r->nv,
                           [by_xfrc] = 6 * r->nbody,
                           [by_command] = r->ncommand,
                           [by_mocap_pos] = 3 * r->nmocap,
                           [by_mocap_rot] = 3 * r->nmocap,
                           [by_mocap_vel] = 6 * r->nmocap,
                           [by_pos_before] = 3 * r->nmocap,
                           [by_rot_before] = 3 * r->nmocap};

  for (int i = 0; i < by_theta; i++) width[i] = (size_t)n[i];
  width[by_theta] = r->ntheta;
}

static bool has_rows(pbBy part) { return part >= by_ctrl && part <= by_mocap_vel; }

pbVectors pbVectors_OfGradient(const pbRollout *r, const pbRolloutGradient *g, double *x0) {
  const pbRolloutInput *in = &r->input;
#define X(name) g->name,
  pbVectors v = {{x0, PB_ACTING(X) g->mocap_pos_before, g->mocap_rot_before, g->theta}, {0}};
#undef X
  const double *given[by_theta] = {NULL,
                                   in->ctrl,
                                   in->qfrc,
                                   in->xfrc,
                                   in->command,
                                   in->mocap_pos,
                                   in->mocap_quat,
                                   in->mocap_vel,
                                   in->mocap_pos_before,
                                   in->mocap_quat_before};
  size_t rows = in->constant ? 1 : (size_t)r->plan.steps;

  // Inputs that the caller gives none of do not move.
  pbVectors_Widths(r, v.size);
  for (pbBy i = by_ctrl; i < by_theta; i++) {
    if (has_rows(i)) v.size[i] *= rows;
    if (!given[i]) v.of[i] = NULL;
  }
  for (pbBy i = by_ctrl; i < by_count; i++) v.size[i] = v.of[i] ? v.size[i] : 0;
  return v;
}

void pbVectors_LayOut(pbArena *a, const size_t size[by_count], pbVectors *v) {
  memcpy(v->size, size, sizeof v->size);
  for (pbBy i = 0; i < by_count; i++) v->of[i] = size[i] ? pbArena_Take(a, size[i], sizeof(double)) : NULL;
}

pbVectors pbVectors_Row(const pbRollout *r, const pbVectors *all, int k) {
  pbVectors v = {0};
  size_t row = (size_t)pbRollout_InputRow(r, k);
  pbVectors_Widths(r, v.size);

  for (pbBy i = by_ctrl; i < by_theta; i++) {
    size_t first = has_rows(i) ? row * v.size[i] : 0;
    v.of[i] = all->of[i] ? all->of[i] + first : NULL;
  }

  return v;
}

void pbVectors_Clear(const pbVectors *v) {
  for (pbBy i = 0; i < by_count; i++) {
    if (v->of[i]) memset(v->of[i], 0, v->size[i] * sizeof(double));
  }
}

void pbVectors_Copy(const pbVectors *from, const pbVectors *to) {
  for (pbBy i = 0; i < by_count; i++) {
    PB_ASSERT(!from->of[i] || !to->of[i] || from->size[i] <= to->size[i]);
    if (from->of[i] && to->of[i]) memcpy(to->of[i], from->of[i], from->size[i] * sizeof(double));
  }
}

void pbVectors_DrawNormals(const pbVectors *v, pbRng *rng) {
  for (pbBy i = 0; i < by_theta; i++) {
    size_t n = v->of[i] ? v->size[i] : 0;
    for (size_t k = 0; k < n; k++) v->of[i][k] = pbRng_Normal(rng);
  }
}

void pbVectors_Divide(const pbVectors *v, double length) {
  PB_ASSERT(length > 0);
  for (pbBy i = 0; i < by_theta; i++) {
    size_t n = v->of[i] ? v->size[i] : 0;
    for (size_t k = 0; k < n; k++) v->of[i][k] /= length;
  }
}

double pbVectors_Squared(const pbVectors *v) {
  double sum = 0;
  for (pbBy i = 0; i < by_theta; i++) sum += pbProbe_Dot(v->of[i], v->of[i], v->size[i]);
  return sum;
}

double pbVectors_Dot(const pbVectors *bar, const pbVectors *direction, double *terms) {
  double sum = 0;

  // What the direction does not move counts as nothing.
  for (pbBy i = 0; i < by_count; i++) {
    PB_ASSERT(!bar->of[i] || !direction->of[i] || bar->size[i] >= direction->size[i]);
    sum += pbProbe_Dot(bar->of[i], direction->of[i], direction->size[i]);
    if (terms) *terms += pbProbe_Terms(bar->of[i], direction->of[i], direction->size[i]);
  }
  return sum;
}

// ---- as arguments -------------------------------------------------------------------------------------------------------
#define X(name) .name = v->of[by_##name],
pbDirection pbVectors_Direction(const pbVectors *v) {
  return (pbDirection){.x = v->of[by_state], .theta = v->of[by_theta], PB_ACTING(X)};
}

pbInputBar pbVectors_InputBar(const pbVectors *v) { return (pbInputBar){PB_ACTING(X)}; }

pbRolloutDirection pbVectors_RolloutDirection(const pbVectors *v) {
  return (pbRolloutDirection){.x0 = v->of[by_state],
                              .theta = v->of[by_theta],
                              .mocap_pos_before = v->of[by_pos_before],
                              .mocap_rot_before = v->of[by_rot_before],
                              PB_ACTING(X)};
}

pbRolloutGradient pbVectors_RolloutGradient(const pbVectors *v) {
  return (pbRolloutGradient){.x0 = v->of[by_state],
                             .theta = v->of[by_theta],
                             .mocap_pos_before = v->of[by_pos_before],
                             .mocap_rot_before = v->of[by_rot_before],
                             PB_ACTING(X)};
}
#undef X

// ---- parameters ---------------------------------------------------------------------------------------------------------
void pbRollout_DrawTheta(const pbRollout *r, pbRng *rng, pbDraw how, double *direction) {
  if (!direction) return;

  for (int i = 0; i < pbModel_ParamCount(r->model); i++) {
    pbParam p = pbModel_ParamAt(r->model, i);
    if (!r->unwanted || !r->unwanted[i]) {
      pbTheta_Draw(r->model, r->theta, i, how, rng, direction);
    } else {
      // A field that is not wanted takes a number too.
      (void)pbRng_Uniform(rng);
      memset(direction + p.offset, 0, (size_t)p.rows * (size_t)p.cols * sizeof *direction);
    }
  }
}

void pbRollout_DrawUnit(const pbRollout *r, pbRng *rng, const pbVectors *direction) {
  pbVectors_DrawNormals(direction, rng);
  double squared = pbVectors_Squared(direction);
  if (squared > 0) pbVectors_Divide(direction, sqrt(squared));
  pbRollout_DrawTheta(r, rng, pb_drawTogether, direction->of[by_theta]);
}

double pbRollout_MovedShare(const pbRollout *r, const pbVectors *direction, bool theta) {
  size_t all = 0, moved = 0;
  for (pbBy i = 0; i < by_count; i++) {
    if (i != by_theta && direction->of[i]) all += direction->size[i];
    moved += pbProbe_Moved(direction->of[i], direction->size[i]);
  }

  // fields that are wanted
  int fields = theta ? pbModel_ParamCount(r->model) : 0;
  for (int i = 0; i < fields; i++) {
    pbParam p = pbModel_ParamAt(r->model, i);
    if (!r->unwanted || !r->unwanted[i]) all += (size_t)p.rows * (size_t)p.cols;
  }
  return all > 0 ? (double)moved / (double)all : 0;
}
