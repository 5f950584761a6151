// Attached points and the forces on them, in the number type.
// Tests: tests/unit/test_deform.c.
#include "base/assert.h"
#include "eval/work.h"
#include "multibody/mesh_map.h"
#include "couple/attach.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// Local coordinates of point i in meters: those on a geom count in its sizes.
static void local_position(const NUM(pbWork) *w, const pbAttachments *points, int i, const num *local, num p[3]) {
  int geom = points->geom[i];
  PB_ASSERT(geom < w->m->ngeom && points->body[i] >= 0 && points->body[i] < w->m->nbody);

  v3_copy(p, local);
  if (geom < 0) return;

  for (int k = 0; k < 3; k++) {
    int size = points->size[3 * i + k];
    if (size >= 0) p[k] *= w->p.geom_size[3 * geom + size];
  }

  // Corners of a mesh follow its scale and place.
  int mesh = w->m->geom_dataid[geom];
  num stretch[9], shift[3];
  if (mesh < 0 || NUM(pbMesh_Map)(&w->mechanism, mesh, stretch, shift) == pb_hullStays) return;
  m3_mulv(p, stretch, p);
  v3_addto(p, shift);
}

void NUM(pbAttach_Positions)(const NUM(pbWork) *w, const pbAttachments *points, const num *local, num *x) {
  for (int i = 0; i < points->count; i++) {
    int geom = points->geom[i];
    int body = points->body[i];
    num p[3];
    local_position(w, points, i, local + 3 * i, p);

    // x = R p + t in the frame of the geom, or of the body
    m3_mulv(x + 3 * i, geom >= 0 ? w->geom_xmat + 9 * geom : w->xmat + 9 * body, p);
    v3_addto(x + 3 * i, geom >= 0 ? w->geom_xpos + 3 * geom : w->xpos + 3 * body);
  }
}

// Wrenches (torque, force) of the forces on their bodies, about the point of reference of each body's tree.
static void collect_wrenches(const NUM(pbWork) *w, const pbAttachments *points, const num *x, const double *f, num *wrench) {
  memset(wrench, 0, 6 * (size_t)w->m->nbody * sizeof *wrench);
  for (int i = 0; i < points->count; i++) {
    // Torque of the force about the point of reference, and the force
    num offset[3];
    num force[3] = {f[3 * i], f[3 * i + 1], f[3 * i + 2]};
    num *F = wrench + 6 * points->body[i];
    body_offset(&w->mechanism, points->body[i], x + 3 * i, offset);
    v3_addcross(F, offset, force);
    v3_addto(F + 3, force);
  }
}

void NUM(pbAttach_Force)(const NUM(pbWork) *w, const pbAttachments *points, const num *x, const double *f, num *wrench,
                         num *tau) {
  const pbModel *m = w->m;

  collect_wrenches(w, points, x, f, wrench);

  // Down the tree: a body bears what its children bear. A tree has one point of reference, so sums need no shift.
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    if (w->t->body_tree[parent] < 0) continue;
    for (int k = 0; k < 6; k++) wrench[6 * parent + k] += wrench[6 * b + k];
  }

  // tau_i = S_i . F
  for (int i = 0; i < m->nv; i++) {
    const num *S = w->S + 6 * i;
    const num *F = wrench + 6 * m->dof_bodyid[i];
    tau[i] = 0;
    for (int k = 0; k < 6; k++) tau[i] += S[k] * F[k];
  }
}
