// What each tendon moves with: the bodies between what it is attached to and their nearest common ancestor, and their dofs. What
// carries all of a path does not change its length.
// Tests: tests/conformance/test_step.c, tests/unit/test_compile.c.
#include "base/assert.h"
#include "base/context.h"
#include "model/tendon_path.h"
#include "model/topology.h"

static int common_body(const pbModel *m, int a, int b) {
  // Parents have the smaller numbers.
  while (a != b) {
    if (a > b) a = m->body_parentid[a];
    else b = m->body_parentid[b];
  }

  return a;
}

// Nearest body that carries all stations.
static int carrier_of(const pbModel *m, int tendon) {
  int carrier = -1;
  // A pulley stands nowhere.
  for (int i = m->tendon_adr[tendon], end = i + m->tendon_num[tendon]; i < end; i++) {
    if (m->wrap_type[i] == pb_wrapPulley) continue;
    int body = pb_bodyOfStation(m, i);
    carrier = carrier < 0 ? body : common_body(m, carrier, body);
  }

  PB_ASSERT(carrier >= 0);
  return carrier;
}

// Marks bodies of the path, from every station up to the carrier.
static void mark_bodies(const pbModel *m, int tendon, int carrier, bool *bodies) {
  for (int i = m->tendon_adr[tendon], end = i + m->tendon_num[tendon]; i < end; i++) {
    if (m->wrap_type[i] == pb_wrapPulley) continue;
    for (int b = pb_bodyOfStation(m, i); b != carrier; b = m->body_parentid[b]) bodies[b] = true;
  }
}

// Dofs of a tendon marked, and of a spatial one the bodies; what carries it.
static int mark_tendon(const pbModel *m, int k, bool *bodies, bool *dofs) {
  // Of the tendon before.
  for (int b = 0; b < m->nbody; b++) bodies[b] = false;
  for (int i = 0; i < m->nv; i++) dofs[i] = false;

  if (!pb_isSpatial(m, k)) {
    for (int i = m->tendon_adr[k], end = i + m->tendon_num[k]; i < end; i++) dofs[m->jnt_dofadr[m->wrap_objid[i]]] = true;
    return 0;
  }

  // Below what carries all of the path.
  int carrier = carrier_of(m, k);
  mark_bodies(m, k, carrier, bodies);
  for (int i = 0; i < m->nv; i++) dofs[i] = bodies[m->dof_bodyid[i]];
  return carrier;
}

static int gather(const bool *marks, int n, int *list) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    // Where there is no list they are only counted.
    if (!marks[i]) continue;
    if (list) list[count] = i;
    count++;
  }

  return count;
}

// Both lists of all tendons; counted where there is no memory yet.
static size_t list_all(const pbModel *m, pbTopology *t, bool *marks, int *block) {
  bool *bodies = marks, *dofs = marks + m->nbody;
  size_t used = 0;

  // Bodies of spatial paths.
  for (int k = 0; k < m->ntendon; k++) {
    int carrier = mark_tendon(m, k, bodies, dofs);
    if (block) {
      t->ten_carrier[k] = carrier;
      t->ten_body[k] = block + used;
    }

    int count = gather(bodies, m->nbody, block ? block + used : NULL);
    if (block) t->ten_bodies[k] = count;
    used += (size_t)count;
  }

  // Dofs behind the bodies.
  if (block) t->ten_dof = block + used;
  int start = 0;
  for (int k = 0; k < m->ntendon; k++) {
    mark_tendon(m, k, bodies, dofs);
    if (block) t->ten_start[k] = start;
    start += gather(dofs, m->nv, block ? t->ten_dof + start : NULL);
  }

  if (block) t->ten_start[m->ntendon] = start;
  return used + (size_t)start;
}

pbStatus pbTopology_Tendons(const pbModel *m, pbTopology *t) {
  size_t n = (size_t)m->ntendon;
  bool *marks = pbContext_AllocArray(m->ctx, (size_t)(m->nbody + m->nv), sizeof *marks);
  t->ten_body = pbContext_AllocArray(m->ctx, n + 1, sizeof *t->ten_body);
  int *block = marks ? pbContext_AllocArray(m->ctx, 3 * n + 1 + list_all(m, t, marks, NULL), sizeof *block) : NULL;
  t->ten_start = block;

  if (!marks || !t->ten_body || !block) {
    pbContext_Free(m->ctx, marks);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");
  }

  // Starts of dofs, carriers, counts of bodies, then both lists.
  t->ten_carrier = block + n + 1;
  t->ten_bodies = t->ten_carrier + n;
  list_all(m, t, marks, t->ten_bodies + n);
  pbContext_Free(m->ctx, marks);
  return pb_ok;
}
