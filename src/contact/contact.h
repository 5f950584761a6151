// Contacts: candidates that touch, and their parameters by MuJoCo's mixing rules.
#ifndef PB_CONTACT_H
#define PB_CONTACT_H

#include "eval/constraints.h"
#include "eval/contact.h"
#include "geometry/search.h"
#include "model/exposed.h"
#include "model/terrain.h"
#include "multibody/contact_gap.h"
#include "multibody/shape.h"

// Where a contact's parameters come from: the derivative needs it again.
typedef struct NUM(pbMix) {
  int winner;   // -1 both geoms mixed, else the geom whose priority is higher
  bool direct;  // solref: elementwise minimum (direct format), not the mixture
  num mix;      // weight of geom1
} NUM(pbMix);
// Friction or restitution of two geoms (contact.h: mixing).
num NUM(pbMixing_Of)(pbContactMixing mixing, num a, num b);
// Friction k of a contact (two sliding, spinning, two rolling) as its geoms, pair or override give it; what counts is no less
// than PB_LEAST_FRICTION.
#define PB_LEAST_FRICTION 1e-5
num NUM(pbContact_FrictionGiven)(const NUM(pbConstraints) *w, const NUM(pbContact) *c, int k);
void NUM(pbContact_Mix)(const NUM(pbConstraints) *w, int geom1, int geom2, NUM(pbMix) *mix);
// How far beyond its margin a pair's contacts are looked for: `reach`, or its gap where anything sees contacts there.
double NUM(pbContact_Reach)(const NUM(pbConstraints) *w, int geom1, int geom2, int pair, double reach);
// Candidates (w->near) that may come closer than their margin and `reach`, by balls around them; returns their number.
int NUM(pbContact_Near)(NUM(pbConstraints) *w, double reach);
// Contacts of one candidate that are closer than that, added to w->contact.
pbStatus NUM(pbContact_Pair)(NUM(pbConstraints) *w, int candidate, double reach);

// One prism of a height field, as a convex body of its own; its corners in the number type where heights are parameters.
typedef struct NUM(pbColumn) {
  pbPrism prism;
  num corner[18];
} NUM(pbColumn);

static inline void prism_shape(const NUM(pbConstraints) *w, int g, int number, NUM(pbColumn) *column, NUM(pbShape) *s) {
  int exposed;
  pbTerrain terrain = field_terrain(&w->mechanism, w->m->geom_dataid[g], &exposed);
  geom_shape(&w->mechanism, g, s);
  pbTerrain_Prism(&terrain, number, &column->prism);
  s->hull = &column->prism.hull;
  if (exposed < 0) return;

  // Heights move the upper corners, up and down.
  const num *height = exposed_values(&w->mechanism, exposed);
  size_t at[3];
  for (int i = 0; i < 18; i++) column->corner[i] = column->prism.corner[i];
  pbTerrain_Heights(&terrain, number, at);
  for (int k = 0; k < 3; k++) column->corner[3 * (PB_PRISM_TOP + k) + 2] = height[at[k]] * terrain.size[2];
  s->vertex = column->corner;
}

// What a search found of the pair whose first contact this is; NULL: it does not go by one.
static inline const pbSearched *contact_search(const NUM(pbConstraints) *w, int first) {
  const NUM(pbContact) *c = w->contact + first;
  const int *type = w->m->geom_type;
  PB_ASSERT(c->point == 0);
  return pbSearch_KindOf(type[c->geom1], type[c->geom2]) == pb_searchedNothing ? NULL : w->searched + first;
}

// The shapes of a contact's pair. column: room for the prism of a height field.
static inline void contact_shapes(const NUM(pbConstraints) *w, const NUM(pbContact) *c, NUM(pbColumn) *column, NUM(pbShape) *s1,
                                  NUM(pbShape) *s2) {
  if (c->prism >= 0) prism_shape(w, c->geom1, c->prism, column, s1);
  else geom_shape(&w->mechanism, c->geom1, s1);
  geom_shape(&w->mechanism, c->geom2, s2);
}

#endif
