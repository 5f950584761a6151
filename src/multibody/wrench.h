// A wrench on a body as generalized forces.
#ifndef PB_WRENCH_H
#define PB_WRENCH_H

#include "eval/mechanism.h"
#include "multibody/spatial.h"

// out += J' wrench for the body's dofs, wrench about its tree's ref.
static inline void add_wrench(const NUM(pbMechanism) *w, int body, const num wrench[6], num *out) {
  for (int i = w->t->body_dofend[body]; i >= 0; i = w->m->dof_parentid[i]) out[i] += PB_DOT6(w->S + 6 * i, wrench);
}

#endif
