// Evaluations cached for pullbacks: how large they are, saving and loading them, and the pullback that uses them.
//
// Memory. An evaluation is about 30 times the thin record of its step. The greater part is contiguous in the work, and a step
// that is to be cached writes it in its place in the cache at once (pbCached_Begin): no copy. The rest is copied behind it by one
// walk, which counts (at NULL), saves and loads, so that these cannot differ: counts first, which say how long the lists are that
// follow. Of rows only the numbers they use are copied, of most of them one in each list; what searches of hulls and curved
// shapes found goes with the first contact of its pair, so that neither Jacobians nor pullbacks search again (hyqreal1 forward
// and back: 54.6 us for 72.7).
//
// How much. Evaluations that come from memory which all cores share are no sooner there than evaluated again: with 16 MiB of them
// rollouts beyond some 200 steps became slower. So the cache holds as much as the caches near the core do (plan.c), and of a
// rollout the last steps. Where most of an evaluation is paths of tendons, which leave few numbers for their cost, and of
// deformables, whose factors cost more than reading them, it may be larger.
//
// Not for Runge-Kutta, which evaluates more than once a step. With or without, a gradient has the same bits.
// Tests: tests/unit/test_rollout.c.
#include "world/cached.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "geometry/search.h"
#include "impact/impact.h"
#include "model/sphere.h"
#include "solve/newton.h"
#include "step/scratch.h"
#include "world/history_step.h"
#include "world/policy_step.h"

// ---- what is cached -----------------------------------------------------------------------------------------------------
// One walk over what is cached, for counting (at NULL), saving and loading alike.
typedef struct walk {
  char *at;
  size_t used;
  bool load;
} walk;

static void pass(walk *k, void *field, size_t bytes) {
  // Every field starts on a multiple of 8 bytes.
  PB_ASSERT(k->used % 8 == 0);
  if (k->at && k->load) memcpy(field, k->at + k->used, bytes);
  if (k->at && !k->load) memcpy(k->at + k->used, field, bytes);
  k->used += (bytes + 7) & ~(size_t)7;
}

static void pass_ints(walk *k, int *field, size_t count) { pass(k, field, count * sizeof *field); }
static void pass_reals(walk *k, double *field, size_t count) { pass(k, field, count * sizeof *field); }

// Of each list of a row only the first dim numbers are used, of K the first dim x dim.
static void pass_row(walk *k, pbRow_r *r) {
  pass(k, r, offsetof(pbRow_r, pos));
  double *lists[] = {r->pos, r->diag, r->R, r->D, r->vel, r->aref, r->x, r->f, r->K};
  enum { count = sizeof lists / sizeof *lists };
  int dim = r->dim;

  // Counted only.
  if (!k->at) {
    k->used += (size_t)((count - 1) * dim + dim * dim) * sizeof(double);
    return;
  }

  // Most rows have one number in each: calls would cost more than the copies.
  if (dim == 1) {
    double *at = (double *)(k->at + k->used);
    for (int i = 0; i < count; i++) {
      if (k->load) *lists[i] = at[i];
      else at[i] = *lists[i];
    }
    k->used += count * sizeof(double);
    return;
  }

  for (int i = 0; i < count - 1; i++) pass_reals(k, lists[i], (size_t)dim);
  pass_reals(k, r->K, (size_t)(dim * dim));
}

static void pass_counts(walk *k, pbWork_r *w) {
  pass_ints(k, &w->ncon, 1);
  pass_ints(k, &w->nrow, 1);
  pass_ints(k, &w->ndofs_used, 1);
  pass_ints(k, &w->nJ_used, 1);
  pass(k, &w->damped, sizeof w->damped);
  pass(k, &w->has_fluid, sizeof w->has_fluid);
  pass(k, &w->need_cross, sizeof w->need_cross);
  pass_reals(k, &w->residual, 1);
}

static void pass_transmissions(walk *k, pbWork_r *w) {
  const pbModel *m = w->m;
  // Entries of the sparse rows of tendons and actuators
  size_t tendon = m->ntendon ? (size_t)w->ten_start[m->ntendon] : 0;
  size_t moment = m->nu ? (size_t)w->mom_start[m->nu] : 0;

  if (m->nwrap > 1) {
    pass_ints(k, &w->wrapped, 1);
    pass_ints(k, w->wrap_at, (size_t)m->nwrap);
    pass(k, w->wrap_path, (size_t)w->wrapped * sizeof *w->wrap_path);
  }

  pass_reals(k, w->ten_J, tendon);
  pass_ints(k, w->mom_dofs, moment);
  pass_reals(k, w->mom, moment);
}

static void pass_rows(walk *k, pbWork_r *w) {
  // Counts are those of an evaluation, also where they have just been loaded.
  PB_ASSERT(w->ncon >= 0 && w->ncon <= w->max_con && w->nrow >= 0 && w->nrow <= w->max_row);
  pass(k, w->contact, (size_t)w->ncon * sizeof *w->contact);
  for (int i = 0; i < w->ncon; i++) {
    const pbContact_r *c = w->contact + i;
    bool searched = pbSearch_KindOf(w->m->geom_type[c->geom1], w->m->geom_type[c->geom2]) != pb_searchedNothing;
    if (searched && c->point == 0) pass(k, w->searched + i, sizeof *w->searched);
  }
  for (pbRow_r *r = w->row; r < w->row + w->nrow; r++) pass_row(k, r);
  pass_ints(k, w->row_dofs, (size_t)w->ndofs_used);
  pass_reals(k, w->row_J, (size_t)w->nJ_used);
}

// What the step does not write in its own place (pbCached_Begin).
static pbStatus pass_evaluation(walk *k, pbWork_r *w) {
  const pbModel *m = w->m;

  pass_counts(k, w);
  if (k->at && k->load) PB_TRY(pbConstraints_Reserve_r(&w->constraints, w->ncon));
  pass_transmissions(k, w);
  pass_rows(k, w);

  // The factor at the solution; its pattern follows from the rows.
  if (k->at && k->load) PB_TRY(pbSolve_Pattern_r(w));
  pass_reals(k, w->H_LD, (size_t)w->H.size);
  if (w->damped && m->integrator == pb_intImplicitfast) pass_reals(k, w->free_A, 36 * (size_t)m->njnt);
  return pb_ok;
}

// ---- room ---------------------------------------------------------------------------------------------------------------
// Worlds with deformables cache the factor of Newton's method alone. The room is that of a step without contact; a factor with
// contact is larger, and may take the room of another step's.
static size_t deform_room(const pbModel *m) {
  const pbDeform *d = m->deform;
  bool newton = pbScheme_Table(d->options.scheme, false)->implicit && d->options.method == pb_minimizeNewton;
  return newton && !d->unsymmetric && !d->coupled && d->analysis ? pbSparseFactor_SavedBytes(d->analysis) + 128 : 0;
}

// Runge-Kutta evaluates more than once, hard contact is solved and sweeps against slip are done again, impacts fly again.
static bool evaluates_again(const pbModel *m) {
  return pb_stages(m) > 1 || pb_hard(m) || pb_noslip(m) || m->contact.method == pb_contactImpact;
}

size_t pbCached_Room(const pbModel *m, int contacts) {
  if (m->deform) return deform_room(m);
  if (evaluates_again(m)) return 0;
  if (contacts > m->topology->max_contacts) contacts = m->topology->max_contacts;

  pbWork_r w;
  pbWork_Carve_r(&w, m, NULL);
  pbConstraints_Count_r(&w.constraints, contacts);
  // Rows, transmissions and the factor at their largest
  size_t entries = (size_t)w.max_dofs * (sizeof(int) + 3 * sizeof(double)) + (size_t)m->nu * (size_t)w.t->max_chain * 12;
  size_t factor = (size_t)w.t->M.size * sizeof(double);
  size_t paths = (size_t)m->nwrap * sizeof(int) + (size_t)(m->nwrap / 2) * sizeof(pbWrapPath_r);
  return w.cached_bytes + factor + entries + paths + (size_t)contacts * (sizeof *w.contact + sizeof *w.searched) +
         (size_t)w.max_row * sizeof *w.row;
}

size_t pbCached_Guess(pbScratch *s) {
  if (s->deform) {
    size_t empty = pb_coupled(s->model) ? 0 : deform_room(s->model);
    if (empty == 0) return 0;
    // Room for a factor without contact, or as much as the last one took
    size_t last = pbDeform_FactorBytes(s->deform);
    return empty > last ? empty : last;
  }

  if (evaluates_again(s->model)) return 0;
  walk k = {.used = s->w.cached_bytes};
  return pass_evaluation(&k, &s->w) == pb_ok ? k.used : 0;
}

// ---- saving ---------------------------------------------------------------------------------------------------------------
bool pbCached_Begin(pbScratch *s, void *cached, size_t room) {
  if (s->deform) {
    s->cached_factor = cached;
    return !pb_coupled(s->model) && deform_room(s->model) > 0;
  }

  if (evaluates_again(s->model) || room < s->w.cached_bytes) return false;
  s->cache_at = cached;

  return true;
}

static size_t whole_lines(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

pbStatus pbCached_Save(pbScratch *s, size_t room, size_t *size) {
  *size = 0;
  if (s->deform) {
    size_t bytes = whole_lines(pbDeform_FactorBytes(s->deform));
    if (bytes == 0 || bytes > room) return pb_ok;
    pbDeform_SaveFactor(s->deform, s->cached_factor);
    *size = bytes;
    return pb_ok;
  }

  // The factor at the solution, which the step may not have made
  PB_TRY(s->variant->complete(&s->w));
  // Counted first: nothing is written where it does not fit.
  walk count = {.used = s->w.cached_bytes};
  PB_TRY(pass_evaluation(&count, &s->w));
  if (count.used > room) return pb_ok;

  *size = whole_lines(count.used);
  walk save = {.at = s->w.cached_at, .used = s->w.cached_bytes};
  PB_TRY(pass_evaluation(&save, &s->w));
  PB_ASSERT(save.used == count.used);

  return pb_ok;
}

pbStatus pbCached_Load(pbScratch *s, const pbStepRecord *step) {
  s->cache_at = step->cached;
  pbScratch_Load(s, step->theta, step->record, step->input);
  if (!step->cached) return pb_ok;

  walk k = {.at = step->cached, .used = s->w.cached_bytes, .load = true};
  return pass_evaluation(&k, &s->w);
}

void pbCached_Leave(pbScratch *s) {
  pbWork_r *w = &s->w;
  const char *from = w->cached_at;
  s->cache_at = NULL;
  pbWork_MoveTo_r(w, NULL);
  if (w->cached_at != from) memcpy(w->cached_at, from, w->cached_bytes);
}

// ---- the pullback of a step ---------------------------------------------------------------------------------------------
// What the bodies' kernels take and give.
static pbPullback bodies_pullback(const pbModel *m, const pbStepCotangent *in, const pbStepBar *out) {
  pbPullback p = {.q = out->x,
                  .v = out->x + m->nv,
                  .act = out->x + 2 * m->nv,
                  .theta = out->theta,
                  .observation = in->observation,
                  .distance = in->distance,
                  .phase = in->phase,
                  .evaluated = in->evaluated};

  // Without cotangents of the state after there is no step to pull.
  if (in->next) {
    p.q_next = in->next;
    p.v_next = in->next + m->nv;
    p.act_next = in->next + 2 * m->nv;
  }
  if (in->observed) {
    p.sensordata = in->observed->sensordata;
    p.xpos = in->observed->xpos;
    p.site_xpos = in->observed->site_xpos;
  }
  if (out->input) {
    p.ctrl = out->input->ctrl;
    p.qfrc = out->input->qfrc;
    p.xfrc = out->input->xfrc;
    p.mocap_pos = out->input->mocap_pos;
    p.mocap_rot = out->input->mocap_rot;
    p.mocap_vel = out->input->mocap_vel;
  }

  return p;
}

// Bodies alone: from the cached evaluation, or from one made again.
static pbStatus pull_bodies(pbScratch *s, const pbStepRecord *step, pbPullback *p) {
  pbStatus status = pbScratch_MakeAdjoint(s);
  bool loads = !p->evaluated && p->phase != pb_pullFromObservations;
  if (loads && status == pb_ok) status = pbCached_Load(s, step);

  p->cached = step->cached != NULL;
  if (status == pb_ok) status = s->variant->vjp_one(s->adjoint_one, &s->w, step->record + tape_stages(step->model), p);
  s->report.residual = s->w.residual;

  return status == pb_ok ? status : pbScratch_Fail(s, status, "pullback: %s", pbStatus_Text(status));
}

bool pbStep_LeavesEvaluation(const pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in) {
  return !in->next || !(pbImpacts_Recorded(s, step->record) || pb_coupled(s->model));
}

// By the normalized theta.
pbStatus pbStep_VjpOpen(pbScratch *s, const pbStepRecord *given, const pbStepCotangent *cotangent, const pbStepBar *out) {
  if (s->history && !given->read) return pbHistory_Vjp(s, given, cotangent, out);
  const pbModel *m = given->model;
  pbStepRecord step = *given;
  pbStepCotangent in = *cotangent;

  if (m->deform && !pb_coupled(s->model) && in.next) PB_TRY(pbScratch_DeformVjp(s, &step, in.next, out));
  if (m->deform) step.cached = NULL;  // it is of deformables, not of bodies

  // A step with impacts is pulled flight by flight; what is observed at its start by itself.
  if (in.next && pbImpacts_Recorded(s, step.record)) {
    PB_TRY(pbImpacts_Vjp(s, &step, in.next, out));
    if (!in.observed) return pb_ok;
    in.next = NULL;
  }

  pbPullback p = bodies_pullback(m, &in, out);
  p.skip = s->skip;
  p.ctrl_later = s->ctrl_later_bar;
  if (pb_coupled(m) && in.next) return pbCouple_Vjp(s, &step, in.next, &p, out);

  return pull_bodies(s, &step, &p);
}

pbStatus pbStep_VjpToFunctions(const pbStepRecord *given, const pbStepCotangent *in, pbScratch *s, const pbStepBar *out) {
  pbStepRecord step = *given;

  PB_TRY(pbScratch_Enter(s, given->model, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, step.record));

  // pbStep_VjpCached puts entries aside that a normalized theta has; here there are none.
  PB_ASSERT(given->model->policy && step.theta == given->theta);

  return pbPolicy_VjpToFunctions(s, &step, in, out);
}

pbStatus pbStep_VjpCached(const pbStepRecord *given, const pbStepCotangent *in, pbScratch *s, const pbStepBar *out) {
  const pbModel *m = given->model;
  pbStepRecord step = *given;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, step.record));

  // Kernels see directions of length one; what they add to the gradient goes back to the theta given.
  PB_VALIDATE(!in->next || pb_allFinite(in->next, (size_t)pbModel_TangentSize(m)));
  bool normalized = out->theta && step.theta != given->theta;
  if (normalized) pbSphere_Aside(m, out->theta, s->theta_aside);
  bool closed = m->policy && !step.open;
  pbStatus status = closed ? pbPolicy_Vjp(s, &step, in, out) : pbStep_VjpOpen(s, &step, in, out);
  if (normalized) pbSphere_Pull(m, given->theta, s->theta_aside, out->theta);

  return status;
}
