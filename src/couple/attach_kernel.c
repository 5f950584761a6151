#include "math/vec.h"
#include "multibody/spatial.h"
#include "couple/attach.h"

void NUM(pbAttach_Places)(const NUM(pbWork) *w, const pbAttach *at, const num *local, num *x) {
  for (int i = 0; i < at->count; i++, x += 3, local += 3) {
    int g = at->geom[i];
    num p[3];
    v3_copy(p, local);
    for (int k = 0; g >= 0 && k < 3; k++) {
      int size = at->size[3 * i + k];
      if (size >= 0) p[k] *= w->p.geom_size[3 * g + size];
    }
    m3_mulv(x, g >= 0 ? w->geom_xmat + 9 * g : w->xmat + 9 * at->body[i], p);
    v3_addto(x, g >= 0 ? w->geom_xpos + 3 * g : w->xpos + 3 * at->body[i]);
  }
}

void NUM(pbAttach_Force)(const NUM(pbWork) *w, const pbAttach *at, const num *x, const double *f, num *wrench, num *tau) {
  const pbModel *m = w->m;
  memset(wrench, 0, 6 * (size_t)m->nbody * sizeof *wrench);
  for (int i = 0; i < at->count; i++) {
    num d[3], force[3] = {f[3 * i], f[3 * i + 1], f[3 * i + 2]}, *F = wrench + 6 * at->body[i];
    body_offset(w, at->body[i], x + 3 * i, d);
    v3_addcross(F, d, force);
    v3_addto(F + 3, force);
  }
  for (int b = m->nbody - 1; b > 0; b--) {  // a tree has one point of reference: sums need no shift
    int parent = m->body_parentid[b];
    for (int k = 0; k < 6 && w->t->body_tree[parent] >= 0; k++) wrench[6 * parent + k] += wrench[6 * b + k];
  }
  for (int i = 0; i < m->nv; i++) {
    const num *S = w->S + 6 * i, *F = wrench + 6 * m->dof_bodyid[i];
    tau[i] = 0;
    for (int k = 0; k < 6; k++) tau[i] += S[k] * F[k];
  }
}
