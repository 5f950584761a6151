// Inverse weight of a contact: what its bodies' centers of mass have (body_invweight0), as in MuJoCo. Hard contact takes its
// softness from it, and needs some: where the centers of mass stand still (a wheel on its axle) that is what turning gives.
#ifndef PB_WEIGHT_H
#define PB_WEIGHT_H

#include "eval/constraints.h"
#include "eval/contact.h"
#include "math/vec.h"

// From this share of the weight by turning downward the centers of mass stand still: an axle 1e-4 of the size beside them.
static const double pb_still = 1e-7;

// What turning gives a geom's body at the geom's radius, at most what the body alone weighs, which follows its mass alone.
typedef struct NUM(pbTurning) {
  num weight;
  int body;
  double square;  // of the radius
  bool alone;
} NUM(pbTurning);

static inline NUM(pbTurning) NUM(pb_turning)(const NUM(pbConstraints) *w, int geom) {
  int body = w->m->geom_bodyid[geom];
  num mass = w->p.body_mass[body];
  NUM(pbTurning) t = {.body = body, .square = w->m->geom_rbound[geom] * w->m->geom_rbound[geom]};

  t.weight = t.square * w->p.body_invweight0[2 * body + 1];
  t.alone = re(t.weight * mass) > 1;
  if (t.alone) t.weight = 1 / mass;
  return t;
}

static inline num NUM(pb_translation_weight)(const NUM(pbConstraints) *w, const NUM(pbContact) *c) {
  const pbModel *m = w->m;
  return w->p.body_invweight0[2 * m->geom_bodyid[c->geom1]] + w->p.body_invweight0[2 * m->geom_bodyid[c->geom2]];
}

// Of hard contact turning's where the centers of mass stand still. It jumps there, and with it what no one should see: a
// softness of a hundred-thousandth.
static inline num NUM(pb_contact_weight)(const NUM(pbConstraints) *w, const NUM(pbContact) *c) {
  num translation = NUM(pb_translation_weight)(w, c);
  if (!pb_hard(w->m)) return translation;

  num turning = NUM(pb_turning)(w, c->geom1).weight + NUM(pb_turning)(w, c->geom2).weight;
  return re(translation) < pb_still * re(turning) ? turning : translation;
}

#endif
