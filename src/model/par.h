// Views of theta by field name, in the kernels' number type: p->body_mass[3 * i]. Rebuilt at each call (a few pointers).
#ifndef PB_PAR_H
#define PB_PAR_H

#include "model/model.h"
#include "number/number.h"

#ifdef PB_NUMBER_SUFFIX  // one type for all variants of doubles (number.h)
#define pbPar_v3 pbPar_r
#define pbPar_v4 pbPar_r
#endif

typedef struct NUM(pbPar) {
#define X(name, rows, cols, ...) const num *name;
  PB_MODEL_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
  const num *theta;  // all of it
} NUM(pbPar);

static inline void par_view(NUM(pbPar) *p, const pbModel *m, const num *theta) {
#define X(name, rows, cols, ...) p->name = theta + (m->name - m->theta0);
  PB_MODEL_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
  p->theta = theta;
}

#endif
