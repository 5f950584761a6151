// Hard contact: the kinetic energy that Newton's restitution makes where friction couples its normals with slip.
// Tests: tests/unit/test_hard.c.
#include <math.h>

#include "contact/prescribed.h"
#include "contact/row.h"
#include "step/scratch.h"

// The impulse p = h f of a step does the work p . (J v- + J v+) / 2. The forces beside it (weight, springs) share the step, and
// as well can come first: then it is p . (J v' + J v+) / 2, with v' the velocity that they alone lead to. The two differ by O(h);
// the lesser of them counts, for each contact's normal and for its friction, so that nothing is called a gain that is one by the
// order alone. Without restitution, without friction, or where contacts do not couple normals with slip, neither is positive.
typedef struct work_done {
  double work;   // J: the lesser of both orders
  double moved;  // J: the same with absolute values, the scale of rounding
} work_done;

// Work of a row's impulses number `from` to `to` - 1. asked: the velocity that error reduction asks for; it is taken off all
// velocities, since the work done to reach it is not the impact's.
static work_done work_of(const pbWork_r *w, const pbRow_r *r, int from, int to, double asked) {
  double h = w->p.timestep[0], work_shared = 0, work_last = 0, moved = 0;

  for (int i = from; i < to; i++) {
    // Velocities before the step, with the smooth forces alone (v'), and after the step. The smooth forces act beside the
    // impulse, or all before it.
    double impulse = h * r->f[i], smooth = w->dual.b[r->at + i] + r->aref[i];
    double before = r->vel[i] - asked, free = before + h * smooth, last = before + h * (r->x[i] + r->aref[i]);
    work_shared += 0.5 * impulse * (before + last);
    work_last += 0.5 * impulse * (free + last);
    moved += 0.5 * fabs(impulse) * (fabs(before) + fabs(last));
  }

  return (work_done){fmin(work_shared, work_last), moved};
}

// By what is led, which may do work?
static bool is_driven(const pbWork_r *w, const pbRow_r *r) {
  if (r->kind == pb_rowServo) return true;
  return r->kind == pb_rowContact && pb_follows(w->m) && pb_prescribed(&w->constraints, w->contact + r->contact);
}

static bool bounces(const pbWork_r *w, const pbRow_r *r) {
  if (r->kind != pb_rowContact || !r->zone || is_driven(w, r) || !(w->contact[r->contact].restitution > 0)) return false;
  return pb_normal_law(&w->constraints, r) == pb_normalBounce;
}

static work_done work_of_contact(const pbWork_r *w, const pbRow_r *r) {
  // Where a row does not bounce, error reduction asks for a velocity, h aref beyond the one before; its work is not the impact's.
  double asked = bounces(w, r) ? 0 : r->vel[0] + w->p.timestep[0] * r->aref[0];
  work_done normal = work_of(w, r, 0, 1, asked), friction = work_of(w, r, 1, r->dim, 0);
  return (work_done){normal.work + friction.work, normal.moved + friction.moved};
}

// What limits, equalities and friction loss take in the same step is lost; what they give is error reduction's.
static work_done work_of_other(const pbWork_r *w, const pbRow_r *r) {
  work_done other = work_of(w, r, 0, r->dim, 0);
  return (work_done){fmin(other.work, 0), other.moved};
}

void pbScratch_NoteBounces(pbScratch *s) {
  const pbWork_r *w = &s->w;
  const pbRow_r *worst = NULL;
  double gain = 0, moved = 0, most = 0;
  int k = 0;

  // Without a bounce there is no gain to look for.
  while (k < w->nrow && !bounces(w, w->row + k)) k++;
  if (k == w->nrow) return;

  for (k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    if (is_driven(w, r)) continue;
    work_done done = r->kind == pb_rowContact ? work_of_contact(w, r) : work_of_other(w, r);
    gain += done.work;
    moved += done.moved;
    if (!bounces(w, r) || (worst && done.work <= most)) continue;
    worst = r;
    most = done.work;
  }

  // A gain within the solve's residual is none.
  if (!(gain > (1e-9 + w->residual) * moved)) return;

  // The contact that makes most is named.
  const pbContact_r *c = w->contact + worst->contact;
  s->report.gains = 1;
  s->report.gain = gain;
  s->report.gaining[0] = c->geom1;
  s->report.gaining[1] = c->geom2;
}
