// Distance of two shapes (distance.h).
// Tests: tests/oracle/test_distance.py.
#include "geometry/distance.h"

#include "base/assert.h"
#include "geometry/primitive.h"
#include "model/model.h"

static bool are_boxes(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2) {
  return shape1->type == pb_geomBox && shape2->type == pb_geomBox;
}

static int collide(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double most, NUM(pbContactPoint) *contacts) {
  if (shape1->type == pb_geomHfield || shape2->type == pb_geomHfield) return 0;
  if (are_boxes(shape1, shape2)) return NUM(pbPolytope_Collide)(shape1, shape2, most, contacts);
  return NUM(pbPair_Collide)(shape1, shape2, most, contacts);
}

bool NUM(pbPair_Nearest)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double most, NUM(pbContactPoint) *nearest,
                         int *point) {
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  int count = collide(shape1, shape2, most, contacts);
  PB_ASSERT(shape1->type <= shape2->type);

  // The first of those that are as near.
  *point = -1;
  for (int k = 0; k < count; k++) {
    if (!(re(contacts[k].dist) < most)) continue;
    most = re(contacts[k].dist);
    *point = k;
  }

  if (*point < 0) return false;
  *nearest = contacts[*point];
  return true;
}

bool NUM(pbPair_NearestJacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double most, int point,
                                 pbContactJacobian *jacobian) {
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  pbContactJacobian all[PB_MAX_CONTACT_POINTS];
  int count = collide(shape1, shape2, most, contacts);
  PB_ASSERT(point >= 0 && point < count);

  bool there = true;
  if (!are_boxes(shape1, shape2)) there = NUM(pbPair_Jacobian)(shape1, shape2, most, NULL, count, contacts, all);
#if PB_IS_COMPLEX
  else there = false;
#else
  else NUM(pbPolytope_Jacobian)(shape1, shape2, most, count, all);
#endif
  if (there) *jacobian = all[point];
  return there;
}

#if !PB_IS_COMPLEX

int NUM(pbPair_NearestFeature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, int point) {
  int feature = are_boxes(shape1, shape2) ? NUM(pbPolytope_Feature)(shape1, shape2) : NUM(pbPair_Feature)(shape1, shape2);
  return feature < 0 ? -1 : (int)((unsigned)(feature + point) & 0x7fffffffu);
}
#endif
