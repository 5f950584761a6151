// The check of a model's derivatives, derivatives of single steps against Richardson differences of the model's own step. Kinks
// are found, named and left out: next to one, a difference says nothing about a derivative.
// Tests: tests/oracle/test_check.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"

// ---- one step: differences -----------------------------------------------------------------------------------------

typedef struct Probe {  // the functional <w, x'(e) - x'(0)> of a step moved by e along a direction
  pbCheck *d;
  int step;
  pbStepDirection direction;
  pbTrace trace;  // of the last evaluation
} Probe;

// Mocap bodies from where the run, or else the model, has them.
static void move_poses(const Probe *p, double e, pbInput *input) {
  const pbRollout *r = p->d->r;
  size_t n = (size_t)r->nmocap;
  double *pos = pbCheck_Vector(p->d, vec_moved_mocap), *quat = pos + 3 * n;

  pbModel_MocapPose(r->model, p->d->theta, -1, pos, quat);
  if (input->mocap_pos) memcpy(pos, input->mocap_pos, 3 * n * sizeof *pos);
  if (input->mocap_quat) memcpy(quat, input->mocap_quat, 4 * n * sizeof *quat);

  // positions along lines, rotations in the bodies' frames
  pbModel_MocapMove(r->model, p->direction.mocap, p->direction.mocap + 3 * n, e, pos, quat);
  input->mocap_pos = pos;
  input->mocap_quat = quat;
}

static pbStatus moved_step(Probe *p, double e, double *value) {
  pbCheck *d = p->d;
  const pbRollout *r = d->r;
  double *x = pbCheck_Vector(d, vec_moved_state), *control = pbCheck_Vector(d, vec_moved_ctrl),
         *change = pbCheck_Vector(d, vec_change);
  const double *theta = d->theta;
  pbInput input = pbRollout_InputAt(r, (int)p->step);

  // x, u and theta, each moved where the direction has it
  memcpy(x, d->states + (size_t)p->step * (size_t)d->r->nx, (size_t)d->r->nx * sizeof *x);
  if (p->direction.x) pbState_Move(r->model, x, p->direction.x, e);

  if (p->direction.ctrl) {
    for (int i = 0; i < d->r->nu; i++) control[i] = input.ctrl[i] + e * p->direction.ctrl[i];
    input.ctrl = control;
  }

  if (p->direction.mocap) move_poses(p, e, &input);

  if (p->direction.theta) {
    for (size_t i = 0; i < d->r->ntheta; i++) d->theta_try[i] = d->theta[i] + e * p->direction.theta[i];
    theta = d->theta_try;
  }

  pbStatus status;
  do {
    status = pbStep_Forward(r->model, theta, x, &input, d->scratch, NULL);
  } while (pbScratch_Grow(d->scratch, &status));
  if (status != pb_ok) return pbCheck_StepFailed(d, status, p->step);

  // the functional of the change, in the tangent space of the unmoved next state
  p->trace = pbTrace_Of(r->model, d->scratch);
  pbState_Difference(r->model, d->states + (size_t)(p->step + 1) * (size_t)d->r->nx, x, change);
  *value = pbCheck_Dot(pbCheck_Vector(d, vec_next_bar), change, (size_t)d->r->n);
  return pb_ok;
}

typedef struct Difference {
  double value, uncertainty;
  const char *kink;  // NULL: none
} Difference;

// Where shapes share a center or an axis point, the normal of their contact is arbitrary: the smallest move makes it jump.
static bool normals_jump(const pbTrace *a, const pbTrace *b, double e) {
  return e < 2e-6 && a->contacts == b->contacts && fabs(a->normals - b->normals) > 0.02;
}

// The one-sided slopes differ by k(e): at a smooth point k(e/2) = k(e) / 2, at a kink k(e/2) = k(e).
static bool is_bent(const double f[4], double e, double slope) {
  double k1 = fabs(f[0] + f[1]) / (2 * e), k2 = fabs(f[2] + f[3]) / e;
  return k2 > 0.7 * k1 && k2 > 1e-6 * (1e-4 + fabs(slope)) + 1e-15 / e;
}

// Central differences at e and e/2, extrapolated to order 4 (Richardson): (4 d(e/2) - d(e)) / 3.
static pbStatus central_difference(Probe *p, double e, Difference *q) {
  double f[4] = {0};
  pbTrace traces[4];
  const double at[4] = {e, -e, e / 2, -e / 2};
  for (int i = 0; i < 4; i++) {
    PB_TRY(moved_step(p, at[i], &f[i]));
    traces[i] = p->trace;
  }

  double d1 = (f[0] - f[1]) / (2 * e), d2 = (f[2] - f[3]) / e;
  *q = (Difference){.value = (4 * d2 - d1) / 3, .uncertainty = fabs(d2 - d1) / 3};

  // what a moved step saw, against the step itself
  const pbTrace *own = &p->d->traces[p->step];
  bool bent = is_bent(f, e, d2);
  for (int i = 0; i < 4; i++) {
    if (!q->kink && !pbTrace_Same(&traces[i], own)) q->kink = pbTrace_Kink(own, &traces[i]);
  }
  if (bent && !q->kink) q->kink = pbTrace_Kink(&traces[0], &traces[0]);

  // the set of contacts or rows changed, but the motion went smoothly
  if (!bent && q->uncertainty < 1e-8 * (1e-4 + fabs(d2))) q->kink = NULL;
  for (int i = 0; i < 4; i++) {
    if (normals_jump(&traces[i], own, e)) q->kink = "a contact whose normal jumps";
  }
  return pb_ok;
}

// The quotient of least uncertainty over three step sizes. A kink at any of them, or the lack of two that agree, is noted: such a
// difference proves nothing against a derivative.
static pbStatus best_difference(Probe *p, Difference *best) {
  static const double sizes[] = {1e-4, 1e-5, 1e-6};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  Difference q[COUNT];
  *best = (Difference){.uncertainty = INFINITY};
  const char *kink = NULL;
  double spread = INFINITY;

  for (int i = 0; i < COUNT; i++) {
    PB_TRY(central_difference(p, sizes[i], &q[i]));
    if (q[i].uncertainty < best->uncertainty) *best = q[i];
    if (q[i].kink) kink = q[i].kink;
    if (i) spread = fmin(spread, fabs(q[i].value - q[i - 1].value));
  }

  best->kink = kink;
  best->uncertainty = fmax(best->uncertainty, spread);
  return pb_ok;
}

// At a kink each direction of differentiation may choose another side.
pbStatus pbCheck_FindKink(pbCheck *d, int k, const pbStepDirection *direction, const char **kink) {
  Probe probe = {.d = d, .step = k, .direction = *direction};
  Difference q;
  double *w = pbCheck_Vector(d, vec_next_bar), *saved = pbCheck_Vector(d, vec_saved);

  // whatever the cotangent was: a kink shows in the state after the step
  memcpy(saved, w, (size_t)d->r->n * sizeof *w);
  pbCheck_DrawNormals(d, w, (size_t)d->r->n);
  pbStatus status = best_difference(&probe, &q);
  memcpy(w, saved, (size_t)d->r->n * sizeof *w);

  *kink = status == pb_ok ? q.kink : NULL;
  return status;
}

// One direction of one step; `name` (of a parameter, or NULL) goes into the remarks.
static pbStatus difference_case(pbCheck *d, int k, pbInputKind kind, const char *name, pbCheckTest *t) {
  PB_TRY(pbCheck_GoOn(d, "differences of steps", k, d->r->plan.steps));
  const double *direction = kind == kind_theta ? d->theta_direction : pbCheck_Vector(d, vec_direction);
  double back = pbCheck_DotAlong(pbCheck_Pulled(d, kind), direction, pbCheck_KindSize(d, kind));
  Probe probe = {.d = d, .step = k, .direction = pbCheck_Direction(d, kind, pbCheck_Vector(d, vec_direction))};
  Difference q;
  PB_TRY(best_difference(&probe, &q));

  // without degrees of freedom all is zero
  double size = 1e-3 * pbCheck_Norm(pbCheck_Vector(d, vec_next_bar), (size_t)d->r->n) + fabs(q.value) + fabs(back);
  double error = size > 0 ? fabs(q.value - back) / size : size;
  if (error > t->limit && (q.kink || q.uncertainty > 0.5 * t->limit * size)) {
    pbCheck_LeaveOut(t, name, q.kink ? q.kink : "no reliable difference", k);
    return pb_ok;
  }

  size_t used = strlen(t->words);
  if (error > t->limit && name && used + 60 < sizeof t->words) {
    snprintf(t->words + used, sizeof t->words - used, "%s%s disagrees", used ? "; " : "", name);
  }
  pbCheck_CountCase(t, error, k);
  return pb_ok;
}

static pbStatus difference_parameters(pbCheck *d, int k, pbCheckTest *t) {
  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    size_t count = (size_t)p.rows * (size_t)p.cols;
    memset(d->theta_direction, 0, d->r->ntheta * sizeof *d->theta_direction);
    pbCheck_DrawParameter(d, &p, d->theta_direction);
    if (pbCheck_Norm(d->theta_direction + p.offset, count) > 0) PB_TRY(difference_case(d, k, kind_theta, p.name, t));
  }
  return pb_ok;
}

pbStatus pbCheck_Differences(pbCheck *d) {
  pbCheckTest *tests[kind_count] = {0};
  for (pbInputKind kind = 0; kind < kind_count; kind++) {
    char name[48];
    snprintf(name, sizeof name, "differences, step by %s", pbCheck_KindName(kind));
    if (pbCheck_KindSize(d, kind)) tests[kind] = pbCheck_AddTest(d, name, 1e-6);
  }

  // a few steps spread over the rollout: differences cost dozens of steps each
  int most = d->r->plan.steps < CHECKED_STEPS ? d->r->plan.steps : CHECKED_STEPS;
  for (int i = 0; i < most; i++) {
    int k = i * d->r->plan.steps / most;
    pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_next_bar), (size_t)d->r->n);
    PB_TRY(pbCheck_PullStep(d, k, false));

    for (pbInputKind kind = 0; kind < kind_theta; kind++) {
      if (!tests[kind]) continue;
      pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_direction), pbCheck_KindSize(d, kind));
      PB_TRY(difference_case(d, k, kind, NULL, tests[kind]));
    }

    // parameters are many: in every other of these steps
    if (i % 2 == 0 && tests[kind_theta]) PB_TRY(difference_parameters(d, k, tests[kind_theta]));
  }
  return pb_ok;
}
