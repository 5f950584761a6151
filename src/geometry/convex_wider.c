// Of two faces that lie on each other, which carries the normal of their contact (convex_search.c). In doubles.
// Tests: tests/unit/test_ties.c, tests/python/test_ties.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "geometry/convex_probe.h"

// The axis of a face of shape k that is parallel to n; -1: none.
static int parallel_axis(const search *s, int k, const double n[3]) {
  int first, count;
  face_axes(s->core[k]->type, &first, &count);

  for (int a = first; a < first + count; a++) {
    double axis[3], across[3];
    m3_col(axis, s->core[k]->mat, a);
    v3_cross(across, axis, n);
    if (v3_norm(across) <= FLAT) return a;
  }

  return -1;
}

// Seen along face normals: does the face of shape k hold all of the other one's?
static bool reaches_around(const search *s, int k, const int axis[2]) {
  const pbCore *core = s->core[k], *other = s->core[!k];
  double d[3], slack = 1e-9 * s->scale;
  v3_scale(d, s->offset, k ? -1 : 1);

  // The other one's corners; of a disc the middle, which must stay its radius inside.
  int corners = other->type == pb_geomBox ? 4 : 1, u = (axis[!k] + 1) % 3, v = (axis[!k] + 2) % 3;
  double inset = corners == 1 ? other->size[0] : 0;

  for (int i = 0; i < corners; i++) {
    double x[3], local[3], lever[3] = {0, 0, 0};
    if (corners == 4) {
      lever[u] = i & 1 ? other->size[u] : -other->size[u];
      lever[v] = i & 2 ? other->size[v] : -other->size[v];
    }

    // In the frame of shape k.
    m3_mulv(x, other->mat, lever);
    v3_addto(x, d);
    m3_tmulv(local, core->mat, x);
    if (core->type == pb_geomCylinder) {
      if (!(sqrt(local[0] * local[0] + local[1] * local[1]) + inset <= core->size[0] + slack)) return false;
      continue;
    }
    for (int a = 0; a < 3; a++) {
      if (a != axis[k] && !(fabs(local[a]) + inset <= core->size[a] + slack)) return false;
    }
  }

  return true;
}

// Of two faces that lie on each other either carries the normal; tilted any way that of the one around the other does.
void pbConvex_PreferWider(const search *s) {
  pbConvexNormal *out = s->out;
  int k = out->shape, axis[2];

  if (out->kind != pb_normalFace) return;
  axis[k] = out->axis1;
  axis[!k] = parallel_axis(s, !k, out->n);

  if (axis[!k] < 0 || !reaches_around(s, !k, axis) || reaches_around(s, k, axis)) return;

  // The same direction, by the other one's axis.
  double e[3];
  m3_col(e, s->core[!k]->mat, axis[!k]);
  out->sign = v3_dot(e, out->n) > 0 ? 1 : -1;
  out->shape = !k;
  out->axis1 = axis[!k];
  v3_scale(out->n, e, out->sign);
}

#else
typedef int convex_wider_is_for_doubles;
#endif
