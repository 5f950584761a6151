// Where a ray meets a height field: its base, a box below its origin; its surface, two triangles a cell; and the sides between
// them. In doubles.
// Tests: tests/oracle/test_rays.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/ray.h"
#include "math/vec.h"

typedef struct terrain {
  int rows, columns;
  const double *size, *height;  // half lengths along x and y, elevation, depth of the base; rows x columns, 0 to 1
  double step[2];               // of a cell, along x and y
} terrain;

static double height_at(const terrain *t, int row, int column) {
  PB_ASSERT(row >= 0 && row < t->rows && column >= 0 && column < t->columns);
  return t->height[(size_t)row * (size_t)t->columns + (size_t)column];
}

static void corner(const terrain *t, int row, int column, double x[3]) {
  v3_set(x, t->step[0] * column - t->size[0], t->step[1] * row - t->size[1], height_at(t, row, column) * t->size[2]);
}

static void search_cell(pbRaySearch *s, const terrain *t, int row, int column) {
  double a[3], b[3], c[3], d[3];
  corner(t, row, column, a);
  corner(t, row, column + 1, b);
  corner(t, row + 1, column + 1, c);
  corner(t, row + 1, column, d);

  // Counterclockwise seen from above; numbers are those of prisms.
  int id = PB_RAY_SURFACE + 2 * (row * (t->columns - 1) + column);
  pbRay_Triangle(s, a, b, c, id + 1);
  pbRay_Triangle(s, a, c, d, id);
}

static int within(double x, int low, int high) { return (int)fmin(fmax(x, low), high); }

// Cells that the ray passes over from x = from to x = to, row by row, and a cell more at each end.
static void search_surface(pbRaySearch *s, const terrain *t, double from, double to) {
  double at[2], end[2];
  for (int k = 0; k < 2; k++) {
    at[k] = (s->p[k] + from * s->v[k] + t->size[k]) / t->step[k];
    end[k] = (s->p[k] + to * s->v[k] + t->size[k]) / t->step[k];
  }

  int last = within(fmax(at[1], end[1]) + 1, 0, t->rows - 2);
  for (int row = within(fmin(at[1], end[1]) - 1, 0, t->rows - 2); row <= last; row++) {
    double rise = end[1] - at[1], part[2] = {0, 1};

    // The part of the way over this row, a little widened.
    for (int k = 0; k < 2 && fabs(rise) > 1e-9; k++) part[k] = fmin(fmax((row + (rise > 0 ? k : 1 - k) - at[1]) / rise, 0), 1);
    double x0 = at[0] + part[0] * (end[0] - at[0]), x1 = at[0] + part[1] * (end[0] - at[0]);
    int stop = within(fmax(x0, x1) + 1, 0, t->columns - 2);
    for (int column = within(fmin(x0, x1) - 1, 0, t->columns - 2); column <= stop; column++) search_cell(s, t, row, column);
  }
}

// A side between base and surface: the point at x is below the line between the heights at its edge.
static bool is_below_edge(const pbRaySearch *s, const terrain *t, double x, int side) {
  int along = side < 2, most = (along ? t->rows : t->columns) - 2;
  double place = (s->p[along] + x * s->v[along] + t->size[along]) / t->step[along];
  int from = within(floor(place), 0, most), last = (along ? t->columns : t->rows) - 1, edge = side % 2 ? last : 0;

  double low = along ? height_at(t, from, edge) : height_at(t, edge, from);
  double high = along ? height_at(t, from + 1, edge) : height_at(t, edge, from + 1);
  double z = (s->p[2] + x * s->v[2]) / t->size[2];
  return z < low * (from + 1 - place) + high * (place - from);
}

// What is above the base: the surface, and below it the sides.
static void search_hills(pbRaySearch *s, const terrain *t, double highest) {
  double top[3] = {t->size[0], t->size[1], 0.5 * highest * t->size[2]}, above[3] = {0, 0, top[2]};
  double at[6], from = INFINITY, to = -1;
  if (!pbRay_Box(s, above, top, 0, true, at)) return;

  // The way through the box that holds the surface; from within to where it leaves.
  for (int k = 0; k < 6; k++) {
    if (at[k] < 0) continue;
    from = fmin(from, at[k]);
    to = fmax(to, at[k]);
  }
  search_surface(s, t, from < to ? from : 0, to);

  for (int k = 0; k < 4; k++) {
    int side = k % 2 ? 1 : -1;
    if (at[k] >= 0 && is_below_edge(s, t, at[k], k)) pbRay_Flat(s, at[k], k / 2, side, t->size[k / 2], PB_RAY_SIDES + k);
  }
}

void pbRay_Terrain(pbRaySearch *s, const pbTerrain *terrain_now, bool varies) {
  static const double slack = 1e-9;  // relative: where surface and base are as near
  terrain t = {
      .rows = terrain_now->rows, .columns = terrain_now->columns, .size = terrain_now->size, .height = terrain_now->height};
  t.step[0] = 2 * t.size[0] / (t.columns - 1);
  t.step[1] = 2 * t.size[1] / (t.rows - 1);
  double base[3] = {t.size[0], t.size[1], 0.5 * t.size[3]}, below[3] = {0, 0, -base[2]};

  if (!varies) {
    pbRay_Box(s, below, base, PB_RAY_BASE, false, NULL);
    search_hills(s, &t, terrain_now->highest);
    return;
  }

  // Where a height that may rise is 0, the surface is met and not the base beneath it.
  search_hills(s, &t, terrain_now->highest);
  double nearest = s->x;
  s->x -= slack * fabs(s->x);
  double most = s->x;
  pbRay_Box(s, below, base, PB_RAY_BASE, false, NULL);
  if (!(s->x < most)) s->x = nearest;
}

#else
typedef int ray_terrain_is_for_doubles;
#endif
