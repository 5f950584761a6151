// Steps of the program, displaced along a direction: the ends of every quotient of differences, of a step or of a rollout.
// Tests: tests/unit/test_rollout.c, tests/unit/test_check.c.
#include <string.h>

#include "base/assert.h"
#include "probe/probe.h"
#include "rollout/vectors.h"
#include "step/scratch.h"

void pbMoved_LayOut(pbArena *a, pbMoved *m) {
  const pbRollout *r = m->r;
  size_t width[by_count], mocap = (size_t)r->nmocap;

  for (pbSide *s = m->side; s < m->side + 2; s++) {
    s->x = pbArena_Take(a, (size_t)r->nx, sizeof(double));
    s->moved_theta = pbArena_Take(a, r->ntheta, sizeof(double));
    s->sensor = pbArena_Take(a, (size_t)r->ns, sizeof(double));
    s->xpos = pbArena_Take(a, 3 * (size_t)r->nbody, sizeof(double));
    s->site = pbArena_Take(a, 3 * (size_t)r->nsite, sizeof(double));
  }

  // Inputs of one step, whose row the direction has.
  pbVectors_Widths(r, width);

  for (pbBy i = by_ctrl; i <= by_mocap_vel; i++) m->input[i] = pbArena_Take(a, width[i], sizeof(double));
  m->quat = pbArena_Take(a, 4 * mocap, sizeof(double));
  m->path = pbArena_Take(a, 20 * mocap, sizeof(double));
  m->apart = pbArena_Take(a, (size_t)r->n, sizeof(double));
}

void pbMoved_Place(const pbMoved *m, pbSide *side, double at, const double *x, const double *theta, const pbVectors *d) {
  side->at = at;
  side->theta = pbProbe_Displace(theta, d->of[by_theta], at, m->r->ntheta, side->moved_theta);
  memcpy(side->x, x, (size_t)m->r->nx * sizeof *x);
  if (at != 0) pbState_Move(m->model, side->x, d->of[by_state], at);
}

// Poses of mocap bodies along the direction, from those of the input or of the model.
static void move_poses(const pbMoved *m, const pbSide *side, const pbVectors *d, pbInput *in) {
  double *pos = m->input[by_mocap_pos], *quat = m->quat;
  size_t n = (size_t)m->r->nmocap;
  if (!d->of[by_mocap_pos] && !d->of[by_mocap_rot]) return;

  pbModel_MocapPose(m->model, side->theta, -1, pos, quat);
  if (in->mocap_pos) memcpy(pos, in->mocap_pos, 3 * n * sizeof *pos);
  if (in->mocap_quat) memcpy(quat, in->mocap_quat, 4 * n * sizeof *quat);

  pbModel_MocapMove(m->model, d->of[by_mocap_pos], d->of[by_mocap_rot], side->at, pos, quat);
  in->mocap_pos = pos;
  in->mocap_quat = quat;
}

pbInput pbMoved_Input(const pbMoved *m, const pbSide *side, const pbInput *input, const pbVectors *d) {
  pbInput in = *input;
  const double **given[by_count] = {[by_ctrl] = &in.ctrl,
                                    [by_qfrc] = &in.qfrc,
                                    [by_xfrc] = &in.xfrc,
                                    [by_command] = &in.command,
                                    [by_mocap_vel] = &in.mocap_vel};

  for (pbBy i = by_ctrl; i <= by_mocap_vel; i++) {
    if (given[i]) *given[i] = pbProbe_Displace(*given[i], d->of[i], side->at, d->size[i], m->input[i]);
  }
  move_poses(m, side, d, &in);
  return in;
}

static void copy_positions(const pbMoved *m, const pbSide *s) {
  const double *xpos = pbRollout_ObservedField(m->scratch, "xpos"), *site = pbRollout_ObservedField(m->scratch, "site_xpos");
  if (xpos) memcpy(s->xpos, xpos, 3 * (size_t)m->r->nbody * sizeof *xpos);
  if (site) memcpy(s->site, site, 3 * (size_t)m->r->nsite * sizeof *site);
}

pbStatus pbMoved_Step(pbMoved *m, pbSide *s, const pbInput *in, const pbObservationBar *seen, bool last) {
  bool positions = seen && (seen->xpos || seen->site_xpos);
  double *sensor = seen && seen->sensordata ? s->sensor : NULL;
  bool apart = last || (positions && m->r->xpos_by_observing);
  PB_ASSERT(s->theta && in);
  m->evaluations += !last;

  // Positions at the state itself: where the step's last evaluation is at another one, of an evaluation before it.
  if (apart) {
    PB_TRY(pbStep_Observe(m->model, s->theta, s->x, in, m->scratch, last ? sensor : NULL));
    if (positions) copy_positions(m, s);
  }

  // The step itself, with more room for contacts of deformables where it takes that.
  pbStatus status = pb_ok;

  if (!last) {
    do {
      status = pbStep_Forward(m->model, s->theta, s->x, in, m->scratch, sensor);
    } while (pbScratch_Grow(m->scratch, &status));
  }
  if (status == pb_ok && positions && !apart) copy_positions(m, s);

  s->branch = pbScratch_Branch(m->scratch);
  return status;
}

pbStatus pbMoved_StepAt(pbMoved *m, pbSide *side, const pbVectors *all, int k, const pbObservationBar *seen) {
  const pbRollout *r = m->r;
  const pbRolloutDirection paths = pbVectors_RolloutDirection(all);
  pbVectors row = pbVectors_Row(r, all, k);
  pbInput at = pbRollout_InputAt(r, k), in = pbMoved_Input(m, side, &at, &row);

  // Velocities follow from poses where nobody gives them.
  if (r->nmocap) in.mocap_vel = pbPrescribed_Moved(r, &paths, side->at, side->theta, k, m->path);
  return pbMoved_Step(m, side, &in, seen, k == r->plan.steps);
}

double pbMoved_Observed(const pbMoved *m, const pbObservationBar *seen) {
  const pbRollout *r = m->r;
  const pbSide *a = &m->side[0], *b = &m->side[1];
  if (!seen) return 0;

  return pbProbe_Across(seen->sensordata, a->sensor, b->sensor, (size_t)r->ns) +
         pbProbe_Across(seen->xpos, a->xpos, b->xpos, 3 * (size_t)r->nbody) +
         pbProbe_Across(seen->site_xpos, a->site, b->site, 3 * (size_t)r->nsite);
}

const double *pbMoved_Apart(const pbMoved *m) {
  pbState_Difference(m->model, m->side[0].x, m->side[1].x, m->apart);
  return m->apart;
}
