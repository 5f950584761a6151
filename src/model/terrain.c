// Height fields: prisms, and which of them a shape may touch.
// Tests: tests/unit/test_standing.c, tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py.
#include "model/terrain.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "math/vec.h"

// ---- prisms -------------------------------------------------------------------------------------------------------------
// Corners 0 to 2 are the bottom's, counterclockwise seen from above, 3 to 5 the top's above them. Polygons: top, bottom, sides.
enum { POLYGONS = 5 };
#define SAME 1e-7  // of the elevation: heights that differ by less
static const int first[POLYGONS + 1] = {0, 3, 6, 10, 14, 18};
static const int around[18] = {3, 4, 5, 0, 2, 1, 0, 1, 4, 3, 1, 2, 5, 4, 2, 0, 3, 5};
static const int first_face[7] = {0, 3, 6, 9, 12, 15, 18};
static const int face[18] = {1, 2, 4, 1, 2, 3, 1, 3, 4, 0, 2, 4, 0, 2, 3, 0, 3, 4};

// Triangles: top, bottom, and each side cut from its lower first corner; neighbors across their edges.
static const int itself[6] = {0, 1, 2, 3, 4, 5};
static const int triangle[24] = {3, 4, 5, 0, 2, 1, 0, 1, 4, 0, 4, 3, 1, 2, 5, 1, 5, 4, 2, 0, 3, 2, 3, 5};
static const int first_next[7] = {0, 4, 8, 12, 16, 20, 24};
static const int next[24] = {1, 2, 3, 4, 0, 2, 4, 5, 0, 1, 3, 5, 0, 4, 5, 2, 0, 1, 3, 5, 1, 2, 3, 4};

// Of a cell's two triangles: rows and columns of the corners from the cell's first.
static const int step_row[2][3] = {{1, 0, 1}, {0, 0, 1}};
static const int step_column[2][3] = {{0, 0, 1}, {0, 1, 1}};

static void side_normal(const double *a, const double *b, double normal[3]) {
  v3_set(normal, b[1] - a[1], a[0] - b[0], 0);
  v3_normalize(normal);
}

void pbTerrain_Heights(const pbTerrain *t, int number, size_t height[3]) {
  int r = (number >> 1) / (t->columns - 1), c = (number >> 1) % (t->columns - 1), half = number & 1;
  PB_ASSERT(number >= 0 && r < t->rows - 1);

  for (int k = 0; k < 3; k++)
    height[k] = (size_t)(r + step_row[half][k]) * (size_t)t->columns + (size_t)(c + step_column[half][k]);
}

// Beyond which sides of the prism the surface goes on in the plane of its top: what a neighbor's third corner, opposite to that
// of the top, must have for it. Heights are in single precision.
static unsigned goes_on(const pbTerrain *t, int row, int column, int half) {
  unsigned sides = 0;

  for (int k = 0; k < 3; k++) {
    int r[4], c[4];
    for (int i = 0; i < 3; i++) {
      r[i] = row + step_row[half][(k + i) % 3];
      c[i] = column + step_column[half][(k + i) % 3];
    }

    // Across the side's middle from the top's own.
    r[3] = r[0] + r[1] - r[2];
    c[3] = c[0] + c[1] - c[2];
    if (r[3] < 0 || r[3] >= t->rows || c[3] < 0 || c[3] >= t->columns) continue;

    double h[4];
    for (int i = 0; i < 4; i++) h[i] = t->height[(size_t)r[i] * (size_t)t->columns + (size_t)c[i]];
    if (fabs(h[0] + h[1] - h[2] - h[3]) <= SAME) sides |= 1u << k;
  }
  return sides;
}

void pbTerrain_Prism(const pbTerrain *t, int number, pbPrism *p) {
  int r = (number >> 1) / (t->columns - 1), c = (number >> 1) % (t->columns - 1), half = number & 1;
  const double *size = t->size;
  double dx = 2 * size[0] / (t->columns - 1), dy = 2 * size[1] / (t->rows - 1), a[3], b[3];
  PB_ASSERT(number >= 0 && r < t->rows - 1);

  // Bottom and top of each column.
  for (int k = 0; k < 3; k++) {
    int row = r + step_row[half][k], column = c + step_column[half][k];
    double *bottom = p->corner + 3 * k, *top = p->corner + 9 + 3 * k;

    v3_set(bottom, dx * column - size[0], dy * row - size[1], -size[3]);
    v3_set(top, bottom[0], bottom[1], t->height[(size_t)row * (size_t)t->columns + (size_t)column] * size[2]);
  }

  // The top's slope; the bottom is level, the sides upright.
  v3_sub(a, p->corner + 12, p->corner + 9);
  v3_sub(b, p->corner + 15, p->corner + 9);
  v3_cross(p->normal, a, b);
  v3_normalize(p->normal);
  v3_set(p->normal + 3, 0, 0, -1);
  for (int k = 0; k < 3; k++) side_normal(p->corner + 3 * k, p->corner + 3 * ((k + 1) % 3), p->normal + 6 + 3 * k);

  // The ball about the field's origin.
  double farthest = 0;
  for (int k = 0; k < 6; k++) farthest = fmax(farthest, v3_dot(p->corner + 3 * k, p->corner + 3 * k));
  p->hull = (pbMeshHull){.corners = 6,
                         .polygons = POLYGONS,
                         .corner = p->corner,
                         .vertex = itself,
                         .normal = p->normal,
                         .first = first,
                         .around = around,
                         .first_face = first_face,
                         .face = face,
                         .first_next = first_next,
                         .next = next,
                         .triangles = 8,
                         .triangle = triangle,
                         .radius = sqrt(farthest),
                         .goes_on = goes_on(t, r, c, half)};
  pbMeshHull_SetBox(&p->hull);
}

// ---- a window -----------------------------------------------------------------------------------------------------------
// Cells between two coordinates along an axis that has `cells` of them from -half to half.
static void find_cells(double low, double high, double half, int cells, int *begin, int *end) {
  double from = floor((low + half) / (2 * half) * cells), to = ceil((high + half) / (2 * half) * cells);
  *begin = from > 0 ? (int)fmin(from, cells) : 0;
  *end = to < cells ? (int)fmax(to, 0) : cells;
}

void pbTerrain_Open(const pbTerrain *t, const double low[3], const double high[3], pbTerrainWindow *w) {
  const double *size = t->size;
  *w = (pbTerrainWindow){.low = low[2]};
  find_cells(low[0], high[0], size[0], t->columns - 1, &w->column, &w->column_end);
  find_cells(low[1], high[1], size[1], t->rows - 1, &w->r, &w->row_end);
  w->c = w->column;

  // Nothing below the base, nothing above the highest point there can be.
  if (high[2] < -size[3] || low[2] > t->highest * size[2] || w->column >= w->column_end) w->row_end = w->r;
}

static void advance(pbTerrainWindow *w) {
  w->half = !w->half;
  if (w->half) return;

  // The next cell of the row, or the first of the next.
  if (++w->c < w->column_end) return;

  w->c = w->column;
  w->r++;
}

int pbTerrain_Next(const pbTerrain *t, pbTerrainWindow *w) {
  int columns = t->columns;
  double top = t->size[2];
  const double *height = t->height;

  while (w->r < w->row_end) {
    int number = 2 * (w->r * (columns - 1) + w->c) + w->half;
    bool reaches = false;

    for (int k = 0; k < 3; k++) {
      size_t row = (size_t)(w->r + step_row[w->half][k]), column = (size_t)(w->c + step_column[w->half][k]);
      reaches |= height[row * (size_t)columns + column] * top >= w->low;
    }

    advance(w);
    if (reaches) return number;
  }
  return -1;
}

// ---- bounds -------------------------------------------------------------------------------------------------------------
// How far a primitive reaches from its center along a direction of its own frame.
static double reach_along(int type, const double s[3], const double d[3]) {
  switch (type) {
    case pb_geomSphere: return s[0];
    case pb_geomCapsule: return s[0] + s[1] * fabs(d[2]);
    case pb_geomCylinder: return s[0] * pbHypot(d[0], d[1]) + s[1] * fabs(d[2]);
    case pb_geomEllipsoid: return sqrt(s[0] * s[0] * d[0] * d[0] + s[1] * s[1] * d[1] * d[1] + s[2] * s[2] * d[2] * d[2]);
    default: return s[0] * fabs(d[0]) + s[1] * fabs(d[1]) + s[2] * fabs(d[2]);
  }
}

void pbTerrain_Bounds(const pbBoundShape *shape, const double origin[3], const double R[9], double low[3], double high[3]) {
  double center[3], axis[3], d[3];
  v3_sub(center, shape->pos, origin);

  for (int k = 0; k < 3; k++) {
    m3_col(axis, R, k);
    m3_tmulv(d, shape->mat, axis);

    double at = v3_dot(axis, center), least = 0, most = 0;

    // Of a hull corner by corner.
    if (shape->hull) {
      for (int i = 0; i < shape->hull->corners; i++) {
        double x = v3_dot(d, shape->hull->corner + 3 * i);
        least = fmin(least, x);
        most = fmax(most, x);
      }
    } else {
      most = reach_along(shape->type, shape->size, d);
      least = -most;
    }

    low[k] = at + least;
    high[k] = at + most;
  }
}
