// Cylinders that stand on a flat face of another shape: where their whole disc is over it, the face is a plane for them, and
// contacts are those of a cylinder on a plane.
#ifndef PB_STANDING_H
#define PB_STANDING_H

#include "geometry/primitive.h"
#include "model/model.h"

#define PB_STANDING 0.7  // cosine of the axis with the face's normal from which a cylinder stands

// Contacts with the plane through `center` with the unit normal `outward` from the face; ref: the number of the shape whose face
// it is. Of those the first `most`.
static inline int stand_on_plane(const num center[3], const num outward[3], const NUM(pbShape) *cylinder, int ref, double margin,
                                 int most, NUM(pbContactPoint) *contacts) {
  NUM(pbShape) plane = {.type = pb_geomPlane};
  NUM(pbContactPoint) made[4];
  v3_copy(plane.pos, center);
  for (int i = 0; i < 3; i++) plane.mat[3 * i + 2] = outward[i];

  // Of the other rim, where the margin reaches it, nothing: it may be beyond the face.
  int count = NUM(pbPlane_Cylinder)(&plane, cylinder, margin, made);
  if (count == 2 || count == 4) {
    for (int k = 1; k + 1 < count; k++) made[k] = made[k + 1];
    count--;
  }

  // As many as there is room for.
  count = count < most ? count : most;
  for (int k = 0; k < count; k++) {
    contacts[k] = made[k];
    if (ref) v3_neg(contacts[k].normal, contacts[k].normal);
  }
  return count;
}

// Is all of a cylinder's disc, seen along the face's normal as it would stand upright, over the face with these corners?
static inline bool holds_disc(int n, const num (*corner)[3], const num outward[3], const NUM(pbShape) *cylinder, double slack) {
  num axis[3], middle[3], edge[3], side[3], d[3];

  // The cap that faces it.
  m3_col(axis, cylinder->mat, 2);
  double along = re(v3_dot(axis, outward));
  if (!(fabs(along) > PB_STANDING)) return false;
  v3_along(middle, cylinder->pos, axis, along > 0 ? -cylinder->size[1] : cylinder->size[1]);

  for (int k = 0; k < n; k++) {
    v3_sub(edge, corner[k + 1 == n ? 0 : k + 1], corner[k]);
    v3_cross(side, edge, outward);
    v3_normalize(side);

    // Outward from this side.
    v3_sub(d, middle, corner[k]);
    if (!(re(v3_dot(d, side)) + re(cylinder->size[0]) <= slack)) return false;
  }
  return true;
}

#endif
