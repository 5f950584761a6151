// The gap beyond a contact's margin, where it has no force but is there.
#ifndef PB_CONTACT_GAP_H
#define PB_CONTACT_GAP_H

#include "eval/constraints.h"
#include "eval/contact.h"

// Where it is negative, contacts within their margin are there from that much later on.
static inline double contact_gap(const NUM(pbMechanism) *w, int geom1, int geom2, int pair) {
  PB_ASSERT(geom1 >= 0 && geom1 < w->m->ngeom && geom2 >= 0 && geom2 < w->m->ngeom);
  return re(pair >= 0 ? w->p.pair_gap[pair] : w->p.geom_gap[geom1] + w->p.geom_gap[geom2]);
}

// Is it closer than both?
static inline bool within_gap(const NUM(pbMechanism) *w, const NUM(pbContact) *c) {
  return re(c->dist) <= re(c->margin) + contact_gap(w, c->geom1, c->geom2, c->pair);
}

// Does an actuator on a body pull at the contact? Not where its sides cannot move against each other: one body, or two that are
// welded together.
static inline bool adheres(const NUM(pbMechanism) *w, int actuator, const NUM(pbContact) *c) {
  int body = w->m->actuator_trnid[2 * actuator], b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  bool moves = w->t->body_dofend[b1] != w->t->body_dofend[b2];

  return (b1 == body || b2 == body) && moves && within_gap(w, c);
}

static inline int count_adhering(const NUM(pbConstraints) *w, int actuator) {
  int count = 0;

  for (int c = 0; c < w->ncon; c++) count += adheres(&w->mechanism, actuator, w->contact + c);
  return count;
}

#endif
