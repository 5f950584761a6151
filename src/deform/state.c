// Fields of the deformables' state, by name; offsets are those of pbDeform_State (scheme.c).
// Tests: tests/unit/test_deform.c.
#include <stdio.h>
#include <string.h>

#include "deform/deform.h"

static const char *const field_names[] = {"points", "point_velocity", "points_before", "point_velocity_before", "points_begun"};

int pbDeform_FieldCount(const pbDeform *d) { return pbDeform_State(d).size > 6 * d->npoint ? 5 : 2; }

pbStateField pbDeform_FieldAt(const pbDeform *d, int index, int base) {
  int n = 3 * d->npoint;
  if (index < 0 || index >= pbDeform_FieldCount(d)) return (pbStateField){NULL, 0, 0};
  return (pbStateField){field_names[index], base + index * n, index == 4 ? 1 : n};
}

char *pbDeform_EntryName(const pbDeform *d, int entry, char *text, size_t size) {
  int n = 3 * d->npoint, field = n ? entry / n : 4, i = n ? entry % n : 0;

  PB_ASSERT(entry >= 0 && entry < pbDeform_State(d).size);

  // The last number says whether there was a step before.
  if (field >= 4) snprintf(text, size, "points_begun");
  else snprintf(text, size, "%s[%d] (point %d, %c)", field_names[field], i, i / 3, "xyz"[i % 3]);

  return text;
}

void pbDeform_Init(const pbDeform *d, double *state) {
  pbDeformState at = pbDeform_State(d);
  size_t bytes = 3 * (size_t)d->npoint * sizeof(double);

  memcpy(state + at.x, d->start, bytes);
  memcpy(state + at.v, d->velocity, bytes);
}
