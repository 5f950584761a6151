#include "geometry/primitive.h"
int NUM(pbConvex_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbHit) *hits) {
  (void)shape1, (void)shape2, (void)margin, (void)hits;
  return 0;
}
