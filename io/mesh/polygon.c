// Polygons of rigid shapes cut into triangles as MuJoCo's reader of OBJ files cuts them, in single precision: quadrangles along
// the shorter diagonal, others ear by ear.
// Tests: tests/unit/test_mesh_files.c.
#include <math.h>
#include <string.h>

#include "io/mesh/mesh_reader.h"

enum { MOST_CORNERS = 100 };  // larger polygons are left out there

typedef struct corner {
  float x, y, z;
} corner;

static corner corner_of(const pbMeshReader *r, int vertex) {
  const double *p = r->mesh->point + 3 * (size_t)vertex;
  return (corner){(float)p[0], (float)p[1], (float)p[2]};
}

static float square_between(const pbMeshReader *r, int a, int b) {
  corner p = corner_of(r, a), q = corner_of(r, b);
  float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z;
  return x * x + y * y + z * z;
}

static pbStatus cut_quadrangle(pbMeshReader *r, const int *v, int group) {
  bool even = square_between(r, v[0], v[2]) < square_between(r, v[1], v[3]);
  const int straight[2][3] = {{v[0], v[1], v[2]}, {v[0], v[2], v[3]}}, turned[2][3] = {{v[0], v[1], v[3]}, {v[1], v[2], v[3]}};
  const int(*cut)[3] = even ? straight : turned;

  PB_TRY(pbRead_AddCell(r, pb_cellTriangle, cut[0], group));
  return pbRead_AddCell(r, pb_cellTriangle, cut[1], group);
}

// ---- polygons in a plane ------------------------------------------------------------------------------------------------
typedef struct flat {
  float x, y;
} flat;

// Which coordinate to leave out: the largest of the normal at the first corner that has one.
static int axis_across(const pbMeshReader *r, const int *v, int n) {
  for (int k = 0; k < n; k++) {
    corner a = corner_of(r, v[k]), b = corner_of(r, v[(k + 1) % n]), c = corner_of(r, v[(k + 2) % n]);
    float ux = b.x - a.x, uy = b.y - a.y, uz = b.z - a.z, vx = c.x - b.x, vy = c.y - b.y, vz = c.z - b.z;
    float x = fabsf(uy * vz - uz * vy), y = fabsf(uz * vx - ux * vz), z = fabsf(ux * vy - uy * vx);
    const float least = 0x1p-23f;
    if (!(x > least || y > least || z > least)) continue;

    if (x > y && x > z) return 0;
    return z > x && z > y ? 2 : 1;
  }
  return 0;
}

static flat project(const pbMeshReader *r, int vertex, int across) {
  corner c = corner_of(r, vertex);
  return (flat){across == 0 ? c.y : c.x, across == 2 ? c.y : c.z};
}

// Does a ray from p cross the sides of the triangle an odd number of times?
static bool is_inside(const flat t[3], flat p) {
  bool inside = false;

  for (int i = 0, j = 2; i < 3; j = i++) {
    if ((t[i].y > p.y) == (t[j].y > p.y)) continue;

    if (p.x < (t[j].x - t[i].x) * (p.y - t[i].y) / (t[j].y - t[i].y) + t[i].x) inside = !inside;
  }
  return inside;
}

// Is the corner after `at` cut off? There should be no other corner in the triangle, and it should be turned like the polygon;
// that reader asks instead how its first side goes round the origin, so other triangles than a true ear may come, and we follow.
static bool is_ear(const flat *p, int n, int at) {
  const flat t[3] = {p[at], p[(at + 1) % n], p[(at + 2) % n]};
  float turn = (t[1].x - t[0].x) * (t[2].y - t[1].y) - (t[1].y - t[0].y) * (t[2].x - t[1].x);

  // About the origin.
  float round = (t[0].x * t[1].y - t[0].y * t[1].x) * .5f;
  if (turn * round < 0) return false;

  for (int k = 3; k < n; k++) {
    if (is_inside(t, p[(at + k) % n])) return false;
  }
  return true;
}

pbStatus pbRead_CutPolygon(pbMeshReader *r, const int *vertex, int corners, int group) {
  if (corners < 3) {
    r->thin_faces++;
    return pb_ok;
  }
  if (corners == 3) return pbRead_AddCell(r, pb_cellTriangle, vertex, group);
  for (int k = 0; k < corners; k++) PB_TRY(pbRead_Range(r, vertex[k], 0));
  if (corners == 4) return cut_quadrangle(r, vertex, group);
  if (corners > MOST_CORNERS) {
    r->large_faces++;
    return pb_ok;
  }

  int v[MOST_CORNERS], n = corners, at = 0, tries = corners, across = axis_across(r, vertex, corners);
  flat p[MOST_CORNERS];
  for (int k = 0; k < n; k++) {
    v[k] = vertex[k];
    p[k] = project(r, v[k], across);
  }

  // Round and round from the first corner, as many tries as there are corners. Where an ear is found with the last of them, or
  // none, the rest is left out, as there.
  for (int before = n; n > 3 && tries > 0;) {
    tries = n == before ? tries - 1 : n;
    before = n;
    at %= n;

    if (!is_ear(p, n, at)) {
      at++;
      continue;
    }

    int cut = (at + 1) % n;
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, (int[3]){v[at], v[cut], v[(at + 2) % n]}, group));
    n--;

    memmove(v + cut, v + cut + 1, (size_t)(n - cut) * sizeof *v);
    memmove(p + cut, p + cut + 1, (size_t)(n - cut) * sizeof *p);
  }
  return n == 3 ? pbRead_AddCell(r, pb_cellTriangle, v, group) : pb_ok;
}
