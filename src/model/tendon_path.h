// The path of a spatial tendon, piece by piece: from one site to the next, past a geom where one stands between them.
#ifndef PB_TENDON_PATH_H
#define PB_TENDON_PATH_H

#include "base/assert.h"
#include "model/model.h"

typedef struct pbPiece {
  int site[2];  // its ends
  int geom;     // what it may wrap around, -1
  int side;     // site on whose side it goes, -1
  int type;     // of the geom: pb_wrapSphere, pb_wrapCylinder
  int pulley;   // station whose divisor counts, -1
  int next;     // station that the next piece begins at
} pbPiece;

static inline pbPiece pb_pathOf(const pbModel *m, int tendon) { return (pbPiece){.pulley = -1, .next = m->tendon_adr[tendon]}; }

static inline bool pb_isSpatial(const pbModel *m, int tendon) {
  PB_ASSERT(tendon >= 0 && tendon < m->ntendon);
  return m->wrap_type[m->tendon_adr[tendon]] != pb_wrapJoint;
}

// Body of a site's or geom's station.
static inline int pb_bodyOfStation(const pbModel *m, int station) {
  int object = m->wrap_objid[station];
  return m->wrap_type[station] == pb_wrapSite ? m->site_bodyid[object] : m->geom_bodyid[object];
}

// The next piece of a spatial tendon; false at its end.
static inline bool pb_nextPiece(const pbModel *m, int tendon, pbPiece *p) {
  const int *type = m->wrap_type;
  for (int end = m->tendon_adr[tendon] + m->tendon_num[tendon]; p->next < end - 1; p->next++) {
    int i = p->next;
    if (type[i] == pb_wrapPulley) p->pulley = i;
    if (type[i] != pb_wrapSite) continue;

    // A geom stands between two sites; a pulley ends a branch.
    bool wraps = type[i + 1] == pb_wrapSphere || type[i + 1] == pb_wrapCylinder;
    int last = wraps ? i + 2 : i + 1;
    if (last >= end || type[last] != pb_wrapSite) continue;

    // The next piece begins where this one ends.
    p->site[0] = m->wrap_objid[i];
    p->site[1] = m->wrap_objid[last];
    p->type = type[i + 1];
    p->geom = wraps ? m->wrap_objid[i + 1] : -1;
    p->side = wraps ? m->wrap_side[i + 1] : -1;
    p->next = last;
    return true;
  }

  return false;
}

#endif
