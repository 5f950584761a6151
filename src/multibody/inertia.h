// Inertias of bodies in their inertial frames: a diagonal, and beside it products where a design has them.
#ifndef PB_INERTIA_H
#define PB_INERTIA_H

#include "eval/mechanism.h"
#include "math/vec.h"

// A rate of turning in the inertial frame becomes the spin, in place.
static inline void spin_of(const NUM(pbMechanism) *w, int body, num rate[3]) {
  num products[3] = {0};

  if (w->m->ndesignbody) v3_copy(products, w->p.body_products + 3 * body);
  m3_inertia(rate, w->p.body_inertia + 3 * body, products);
}

#endif
