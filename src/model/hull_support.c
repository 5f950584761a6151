// The corner of a hull that is furthest along a direction (mesh.h).
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include <math.h>

#include "base/assert.h"
#include "math/vec.h"
#include "model/mesh.h"

enum { SCANNED = 24, CLOSE_BY = 48 };  // corners that are all looked at; those next to the highest that are followed
#define ROUNDED 2.5e-7  // of the radius: corners are floats, so that of those this near to the highest any may look it

// Over the edges of a hull, always to the highest neighbor; *close: one is next to it and nearly as high.
typedef struct summit {
  int corner;
  double height;
  bool close;
} summit;

static double height_of(const pbMeshHull *h, int corner, const double d[3]) { return v3_dot(d, h->corner + 3 * corner); }

static int scan(const pbMeshHull *h, const double d[3]) {
  int best = 0;
  double highest = -INFINITY;

  // The first of those that are highest.
  for (int k = 0; k < h->corners; k++) {
    double height = height_of(h, k, d);
    if (!(height > highest)) continue;

    highest = height;
    best = k;
  }

  return best;
}

// Four numbers, element by element.
typedef double four __attribute__((vector_size(PB_HULL_BLOCK * sizeof(double)), aligned(8), may_alias));

// Place in its list of the highest neighbor of a corner, of equal ones the first; -1: there is none. *height: -INFINITY then.
static int highest_next(const pbMeshHull *h, int corner, const double d[3], double *height) {
  int first = h->first_next[corner], count = h->first_next[corner + 1] - first, best = -1;
  *height = -INFINITY;
  PB_ASSERT(corner >= 0 && corner < h->corners);

  // One by one where corners are parameters.
  for (int k = 0; k < count && !h->block; k++) {
    double one = height_of(h, h->next[first + k], d);
    if (!(one > *height)) continue;

    *height = one;
    best = k;
  }
  if (!h->block) return best;

  // Else a block at a time.
  const double *block = h->block + 3 * PB_HULL_BLOCK * (size_t)h->first_block[corner];
  for (int k = 0; k < count; k += PB_HULL_BLOCK, block += 3 * PB_HULL_BLOCK) {
    const four *x = (const four *)block;
    four heights = d[0] * x[0] + d[1] * x[1] + d[2] * x[2];

    for (int i = 0; i < PB_HULL_BLOCK; i++) {
      if (!(heights[i] > *height)) continue;

      *height = heights[i];
      best = k + i;
    }
  }

  return best;
}

static void climb(const pbMeshHull *h, const double d[3], double slack, summit *s) {
  s->height = height_of(h, s->corner, d);

  // The highest neighbor is where the next round begins, until a round finds none higher.
  for (;;) {
    double height;
    int next = highest_next(h, s->corner, d, &height);

    // Around the summit it counts how near they come.
    s->close = height >= s->height - slack;
    if (!(height > s->height)) return;

    PB_ASSERT(next >= 0);
    s->height = height;
    s->corner = h->next[h->first_next[s->corner] + next];
  }
}

static bool is_among(const int *list, int count, int corner) {
  for (int k = 0; k < count; k++) {
    if (list[k] == corner) return true;
  }

  return false;
}

// Before they were rounded the corners above any height hung together by edges, so that from one that no neighbor is above the
// highest is reached over those that are no lower by more than twice the rounding. Of equal ones the first. -1: too many.
static int highest_close_by(const pbMeshHull *h, const double d[3], double slack, summit *s) {
  int list[CLOSE_BY] = {s->corner}, count = 1, best = s->corner;

  // The list grows on the way.
  for (int i = 0; i < count; i++) {
    // Neighbors that are nearly as high as the highest so far.
    for (int k = h->first_next[list[i]]; k < h->first_next[list[i] + 1]; k++) {
      int corner = h->next[k];
      double height = height_of(h, corner, d);
      if (!(height >= s->height - slack) || is_among(list, count, corner)) continue;

      if (count == CLOSE_BY) return -1;

      list[count++] = corner;

      // Higher, or as high and before it.
      if (height < s->height || (height == s->height && corner > best)) continue;
      s->height = height;
      best = corner;
    }
  }

  return best;
}

// A face whose normal is that one, a unit vector, but for rounding; -1: there is none.
static int face_along(const pbMeshHull *h, const double normal[3], int corner) {
  for (int k = h->first_face[corner]; k < h->first_face[corner + 1]; k++) {
    if (v3_dot(h->normal + 3 * h->face[k], normal) >= 1 - PB_SAME_FACE) return h->face[k];
  }
  return -1;
}

int pbMeshHull_LevelFace(const pbMeshHull *h, const double normal[3], int corner) {
  PB_ASSERT(corner >= 0 && corner < h->corners);
  int list[CLOSE_BY] = {corner}, count = 1;
  double height = height_of(h, corner, normal);

  // The list grows on the way.
  for (int i = 0; i < count; i++) {
    int face = face_along(h, normal, list[i]);
    if (face >= 0) return face;

    for (int k = h->first_next[list[i]]; k < h->first_next[list[i] + 1] && count < CLOSE_BY; k++) {
      int next = h->next[k];
      if (!(fabs(height_of(h, next, normal) - height) <= ROUNDED * h->radius) || is_among(list, count, next)) continue;
      list[count++] = next;
    }
  }
  return -1;
}

// Which of the directions in the table one is next to: on a cube's sides, in squares.
static int direction_cell(const double d[3]) {
  // The side of the cube: the largest coordinate.
  int axis = fabs(d[1]) > fabs(d[0]) ? 1 : 0;
  if (fabs(d[2]) > fabs(d[axis])) axis = 2;

  // Rounding may end just beyond the last square.
  double across = 0.5 * PB_HULL_CELLS / fabs(d[axis]), u = d[(axis + 1) % 3] * across, v = d[(axis + 2) % 3] * across;
  int i = (int)(u + 0.5 * PB_HULL_CELLS), j = (int)(v + 0.5 * PB_HULL_CELLS), last = PB_HULL_CELLS - 1;
  i = i < last ? i : last;
  j = j < last ? j : last;

  // Sides in the order of the axes, the lower one first; then rows, columns.
  PB_ASSERT(i >= 0 && j >= 0);
  return ((2 * axis + (d[axis] > 0)) * PB_HULL_CELLS + i) * PB_HULL_CELLS + j;
}

int pbMeshHull_Support(const pbMeshHull *h, const double d[3]) {
  // A direction that has no length, or none that can be computed, has no cell.
  double length = v3_norm(d);
  if (h->corners <= SCANNED || !(length > 0) || !(length < 1e150)) return scan(h, d);

  // From the corner that is highest along a direction next to it.
  double slack = ROUNDED * h->radius * length;
  summit s = {.corner = h->start[direction_cell(d)]};
  climb(h, d, slack, &s);
  if (!s.close) return s.corner;

  // Rounding may have raised it above its neighbors.
  int best = highest_close_by(h, d, slack, &s);

  return best < 0 ? scan(h, d) : best;
}

void pbMeshHull_SetStarts(pbMeshHull *h, int *start) {
  static const double half = 0.5 * PB_HULL_CELLS;
  int corner = 0;

  h->start = start;
  if (h->corners <= SCANNED) return;

  // Cell by cell along the cube's sides, each from the corner of the one before.
  for (int cell = 0; cell < PB_HULL_STARTS; cell++) {
    int side = cell / (PB_HULL_CELLS * PB_HULL_CELLS), i = cell / PB_HULL_CELLS % PB_HULL_CELLS, j = cell % PB_HULL_CELLS;
    int axis = side / 2;
    double d[3];

    // Its middle, on a cube with sides of PB_HULL_CELLS.
    d[axis] = side % 2 ? half : -half;
    d[(axis + 1) % 3] = i + 0.5 - half;
    d[(axis + 2) % 3] = j + 0.5 - half;

    // Neighboring cells have neighboring corners.
    summit s = {.corner = corner};
    climb(h, d, 0, &s);
    start[cell] = corner = s.corner;
  }
}

void pbMeshHull_SetBox(pbMeshHull *h) {
  for (int k = 0; k < 3; k++) {
    double low = INFINITY, high = -INFINITY;

    // From the lowest to the highest corner.
    for (int i = 0; i < h->corners; i++) {
      low = fmin(low, h->corner[3 * i + k]);
      high = fmax(high, h->corner[3 * i + k]);
    }

    // Its middle, and half of its length.
    h->center[k] = 0.5 * (low + high);
    h->half[k] = 0.5 * (high - low);
  }
}
