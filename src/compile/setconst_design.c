// Mass, center and inertia of a body from those of its geoms, by densities and properties of meshes: what design.c
// differentiates by complex step.
// Tests: tests/oracle/test_design.py.
#include "base/assert.h"
#include "compile/design.h"
#include "math/vec.h"

// Of a geom, in the body's axes about its own center.
typedef struct weight {
  num mass, center[3], tensor[9];
} weight;

// mesh: volume, center, tensor, as pbMeshProperties has them.
static void weigh(const pbDesignPart *part, num density, const num *mesh, weight *g) {
  num q[4], R[9], T[9] = {0}, turned[9];
  PB_ASSERT(part->mass > 0);

  for (int k = 0; k < 4; k++) q[k] = part->quat[k];
  quat_to_mat(R, q);
  for (int k = 0; k < 3; k++) g->center[k] = part->pos[k];
  g->mass = part->mass;

  // Of a primitive by its principal moments, of a mesh by those of unit density.
  if (part->mesh < 0) {
    num ratio = part->by_density ? density / part->density : 1;
    g->mass *= ratio;
    for (int k = 0; k < 3; k++) T[4 * k] = part->moments[k] * ratio;
  } else {
    num r[3];

    if (part->by_density) g->mass = density * mesh[0];
    m3_mulv(r, R, mesh + 1);
    v3_addto(g->center, r);
    for (int e = 0; e < 6; e++) {
      int i = pb_tensorRow[e], j = pb_tensorColumn[e];
      T[3 * i + j] = T[3 * j + i] = mesh[4 + e] * (g->mass / mesh[0]);
    }
  }

  m3_mul(turned, R, T);
  m3_mult(g->tensor, turned, R);
}

void NUM(pbDesign_Body)(const pbDesignPart *part, int count, const num *density, const num *mesh, num out[10]) {
  num *center = out + 1, *total = out + 4, d[3];
  weight g;
  PB_ASSERT(count > 0);
  for (int i = 0; i < 10; i++) out[i] = 0;

  // Mass, and its first moment.
  for (int i = 0; i < count; i++) {
    weigh(&part[i], density[i], mesh + 10 * i, &g);
    out[0] += g.mass;
    v3_addscl(center, g.center, g.mass);
  }
  for (int k = 0; k < 3; k++) center[k] /= out[0];

  // About the common center: m (|d|^2 1 - d d') more.
  for (int i = 0; i < count; i++) {
    weigh(&part[i], density[i], mesh + 10 * i, &g);
    v3_sub(d, g.center, center);
    for (int e = 0; e < 6; e++) {
      int a = pb_tensorRow[e], b = pb_tensorColumn[e];
      total[e] += g.tensor[3 * a + b] + g.mass * ((e < 3 ? v3_dot(d, d) : 0) - d[a] * d[b]);
    }
  }
}
