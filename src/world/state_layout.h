// Offsets of the state vector.
#ifndef PB_STATE_LAYOUT_H
#define PB_STATE_LAYOUT_H

#include "world/model.h"

typedef struct pbStateLayout {
  int time, qpos, qvel, act, warm, deform, size;
} pbStateLayout;

static inline pbStateLayout state_layout(const pbModel *m) {
  pbStateLayout s = {0, 1, 1 + m->nq, 1 + m->nq + m->nv, 1 + m->nq + m->nv + m->na, 1 + m->nq + 2 * m->nv + m->na, 0};
  s.size = s.deform + m->deform_state;
  return s;
}

#endif
