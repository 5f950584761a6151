// Contacts of bodies that mocap bodies carry: the relative velocity that their paths prescribe, beside J v (pbInput.mocap_vel).
#ifndef PB_PRESCRIBED_H
#define PB_PRESCRIBED_H

#include "eval/constraints.h"
#include "eval/contact.h"
#include "eval/row.h"

// Number of the mocap body that carries a geom; -1: none does.
static inline int pb_carrier(const pbModel *m, int geom) { return m->body_mocapid[m->body_rootid[m->geom_bodyid[geom]]]; }

// Do forces see these velocities (contact setting mocap_motion)?
static inline bool pb_follows(const pbModel *m) { return m->contact.mocap_motion == pb_mocapFollowed; }

// Do both sides of a contact move on different paths, or one of them?
static inline bool pb_prescribed(const NUM(pbConstraints) *w, const NUM(pbContact) *c) {
  return w->mocap_moves && pb_carrier(w->m, c->geom1) != pb_carrier(w->m, c->geom2);
}

// Velocity of geom 2's point less that of geom 1's along the axes of the frame, then their angular velocities about these.
void NUM(pbContact_Prescribed)(const NUM(pbConstraints) *w, const NUM(pbContact) *c, num u[6]);

// Adds it to the velocities of a contact's rows, where forces see it.
static inline void NUM(pb_add_prescribed)(const NUM(pbConstraints) *w, NUM(pbRow) *r) {
  num u[6];
  if (!w->mocap_moves || r->kind != pb_rowContact || !pb_follows(w->m)) return;

  // One path on both sides prescribes nothing between them.
  const NUM(pbContact) *c = w->contact + r->contact;
  if (!pb_prescribed(w, c)) return;
  NUM(pbContact_Prescribed)(w, c, u);
  for (int i = 0; i < r->dim; i++) r->vel[i] += u[i];
}

// Along the normal; 0 where nothing moves.
static inline num NUM(pb_prescribed_rate)(const NUM(pbConstraints) *w, const NUM(pbContact) *c) {
  num u[6];
  if (!pb_prescribed(w, c)) return 0;
  NUM(pbContact_Prescribed)(w, c, u);
  return u[0];
}

#endif
