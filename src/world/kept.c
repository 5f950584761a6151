#include "world/kept.h"

#include <stddef.h>
#include <string.h>

#include "solve/newton.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "impact/impact.h"
#include "step/scratch.h"
#include "model/sphere.h"

// One walk over what is kept, for all directions: counting (at NULL), saving, loading.
typedef struct walk {
  char *at;
  size_t used;
  bool load;
} walk;

static void pass(walk *k, void *field, size_t bytes) {
  if (k->at && k->load) memcpy(field, k->at + k->used, bytes);
  if (k->at && !k->load) memcpy(k->at + k->used, field, bytes);
  k->used += (bytes + 7) & ~(size_t)7;
}

static void each(walk *k, pbWork_r *w) {
  const pbModel *m = w->m;
  size_t word = sizeof(int), real = sizeof(double);
  pass(k, &w->ncon, word), pass(k, &w->nrow, word), pass(k, &w->ndofs_used, word), pass(k, &w->nJ_used, word);
  pass(k, &w->damped, sizeof w->damped), pass(k, &w->has_fluid, sizeof w->has_fluid);
  pass(k, &w->need_cross, sizeof w->need_cross), pass(k, &w->residual, real);
  size_t ten = m->ntendon ? (size_t)w->ten_start[m->ntendon] : 0, mom = m->nu ? (size_t)w->mom_start[m->nu] : 0;
  pass(k, w->ten_dofs, ten * word), pass(k, w->ten_J, ten * real);
  pass(k, w->mom_dofs, mom * word), pass(k, w->mom, mom * real);
  pass(k, w->contact, (size_t)w->ncon * sizeof *w->contact);
  for (pbRow_r *r = w->row; r < w->row + w->nrow; r++) {
    pass(k, r, offsetof(pbRow_r, K));
    pass(k, r->K, (size_t)(r->dim * r->dim) * real);
  }
  pass(k, w->row_dofs, (size_t)w->ndofs_used * word), pass(k, w->row_J, (size_t)w->nJ_used * real);
  if (k->at && k->load) pbSolve_Pattern_r(w);
  pass(k, w->H_LD, (size_t)w->H.size * real);
  if (!w->damped) return;
  if (m->integrator == pb_intImplicitfast) pass(k, w->free_A, 36 * (size_t)m->njnt * real);
}

// The factor of a step without contact; one with it may take the room of another.
static size_t deform_room(const pbModel *m) {
  const pbDeform *d = m->deform;
  bool newton = pbScheme_Table(d->options.scheme, false)->implicit && d->options.method == pb_minimiseNewton;
  return newton && !d->unsymmetric && !d->coupled && d->analysis ? pbSparseFactor_SavedBytes(d->analysis) + 128 : 0;
}

size_t pbKept_Room(const pbModel *m, int contacts) {
  // hard contact is found again, impacts fly again
  if (m->deform) return deform_room(m);
  if (pb_stages(m) > 1 || pb_hard(m) || m->contact.method == pb_contactImpact) return 0;
  if (contacts > m->topology->max_contacts) contacts = m->topology->max_contacts;
  pbWork_r w;
  pbWork_Carve_r(&w, m, contacts, NULL);
  size_t entries = (size_t)w.max_dofs * (sizeof(int) + 3 * sizeof(double)) + (size_t)m->nu * (size_t)w.t->max_chain * 12;
  size_t factor = (size_t)w.t->M.size * sizeof(double);
  return w.kept_bytes + factor + entries + (size_t)contacts * sizeof *w.contact + (size_t)w.max_row * sizeof *w.row;
}

size_t pbKept_Guess(pbScratch *s) {
  walk k = {.used = s->w.kept_bytes};
  if (s->deform) {
    size_t empty = pb_coupled(s->model) ? 0 : deform_room(s->model), last = pbDeform_KeptBytes(s->deform);
    return empty > last ? empty : empty ? last : 0;
  }
  if (pb_stages(s->model) > 1 || pb_hard(s->model) || s->impacts) return 0;
  each(&k, &s->w);
  return k.used;
}

bool pbKept_Begin(pbScratch *s, void *kept, size_t room) {
  if (s->deform) {  // of worlds with deformables the factor alone
    s->kept_factor = kept;
    return !pb_coupled(s->model) && deform_room(s->model) > 0;
  }
  if (pb_stages(s->model) > 1 || pb_hard(s->model) || s->impacts || room < s->w.kept_bytes) return false;
  s->place = kept;
  return true;
}

pbStatus pbKept_Save(pbScratch *s, size_t room, size_t *size) {
  walk k = {.used = s->w.kept_bytes};
  *size = 0;
  if (s->deform) {
    size_t bytes = (pbDeform_KeptBytes(s->deform) + 63) & ~(size_t)63;
    if (bytes == 0 || bytes > room) return pb_ok;
    pbDeform_Keep(s->deform, s->kept_factor);
    *size = bytes;
    return pb_ok;
  }
  PB_TRY(s->variant->complete(&s->w));
  each(&k, &s->w);
  if (k.used > room) return pb_ok;
  *size = (k.used + 63) & ~(size_t)63;
  k = (walk){.at = s->w.kept_at, .used = s->w.kept_bytes};
  each(&k, &s->w);
  return pb_ok;
}

// By the normalised theta.
static pbStatus pull_step(const pbModel *m, const double *theta, const double *record, void *kept, const pbInput *input,
                          const double *next_bar, const pbObservationBar *observed, const double *distance_bar, pbScratch *s,
                          double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const double *stages = record + tape_stages(m);
  if (m->deform && !pb_coupled(s->model) && next_bar)
    PB_TRY(pbScratch_DeformVjp(s, theta, record, kept, input, next_bar, x_bar, input_bar, theta_bar));
  if (m->deform) kept = NULL;                       // it is no evaluation of bodies
  if (next_bar && pbImpacts_Recorded(s, record)) {  // its flights, and what is seen at the start by itself
    PB_TRY(pbImpacts_Vjp(s, theta, record, input, next_bar, x_bar, input_bar, theta_bar));
    if (!observed) return pb_ok;
    next_bar = NULL;
  }
  pbPullback p = {.q = x_bar, .v = x_bar + m->nv, .act = x_bar + 2 * m->nv, .theta = theta_bar, .kept = kept != NULL};
  p.distance = distance_bar;
  p.skip = s->skip;
  if (next_bar) p.q_next = next_bar, p.v_next = next_bar + m->nv, p.act_next = next_bar + 2 * m->nv;
  if (observed) p.sensordata = observed->sensordata, p.xpos = observed->xpos, p.site_xpos = observed->site_xpos;
  if (input_bar) p.ctrl = input_bar->ctrl, p.qfrc = input_bar->qfrc, p.xfrc = input_bar->xfrc;
  if (pb_coupled(m) && next_bar) {
    return pbCouple_Vjp(s, theta, record, input, next_bar, &p, x_bar, input_bar, theta_bar);
  }
  s->place = kept;
  pbScratch_Load(s, theta, record, input);
  if (kept) {
    walk k = {.at = kept, .used = s->w.kept_bytes, .load = true};
    each(&k, &s->w);
  }
  pbStatus status = s->variant->vjp_one(s->adjoint_one, &s->w, stages, &p);
  s->report.residual = s->w.residual;
  return status == pb_ok ? status : pbScratch_Fail(s, status, "pullback: %s", pbStatus_Text(status));
}

pbStatus pbStep_VjpKept(const pbModel *m, const double *theta, const double *record, void *kept, const pbInput *input,
                        const double *next_bar, const pbObservationBar *observed, const double *distance_bar, pbScratch *s,
                        double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const double *given = theta;
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(pbScratch_CheckRecord(s, record));
  bool normalised = theta_bar && theta != given;
  if (normalised) pbSphere_Aside(m, theta_bar, s->theta_aside);
  pbStatus status = pull_step(m, theta, record, kept, input, next_bar, observed, distance_bar, s, x_bar, input_bar, theta_bar);
  if (normalised) pbSphere_Pull(m, given, s->theta_aside, theta_bar);
  return status;
}
