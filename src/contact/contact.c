#include "contact/contact.h"

#include "math/vec.h"

// Radius of the sphere about a geom's centre that holds it; 0 for planes.
static double bound(const NUM(pbWork) *w, int g) {
  const num *s = w->p.geom_size + 3 * g;
  double a = re(s[0]), b = re(s[1]), c = re(s[2]);
  switch (w->m->geom_type[g]) {
    case pb_geomSphere: return a;
    case pb_geomCapsule: return a + b;
    case pb_geomCylinder: return sqrt(a * a + b * b);
    case pb_geomEllipsoid: return a > b ? (a > c ? a : c) : b > c ? b : c;
    case pb_geomBox: return sqrt(a * a + b * b + c * c);
    default: return 0;
  }
}

// Balls that hold the geoms and their margins, a little larger than needed.
static void set_balls(NUM(pbWork) *w) {
  bool override = w->m->enableflags & pb_enOverride;
  for (int g = 0; g < w->m->ngeom; g++) {
    double *ball = w->geom_ball + 4 * g, margin = override ? 0.5 * re(w->p.o_margin[0]) : re(w->p.geom_margin[g]);
    for (int k = 0; k < 3; k++) ball[k] = re(w->geom_xpos[3 * g + k]);
    ball[3] = (bound(w, g) + (margin > 0 ? margin : 0)) * (1 + 1e-9);
  }
}

// May the geoms touch, as far as their balls tell? The pair itself decides.
static inline bool may_touch(const NUM(pbWork) *w, const double *balls, int g1, int g2, double margin) {
  const double *a = balls + 4 * g1, *b = balls + 4 * g2, x = b[0] - a[0], y = b[1] - a[1], z = b[2] - a[2];
  double reach = a[3] + b[3] + margin;
  if (w->m->geom_type[g1] == pb_geomPlane) {
    const num *R = w->geom_xmat + 9 * g1;
    return !(x * re(R[2]) + y * re(R[5]) + z * re(R[8]) > reach);
  }
  return !(x * x + y * y + z * z > reach * reach);
}

int NUM(pbContact_Near)(NUM(pbWork) *w, double reach) {
  const pbCandidate *c = w->t->candidate;
  const double *balls = w->geom_ball;
  if (w->m->disableflags & (pb_disConstraint | pb_disContact)) return 0;
  set_balls(w);
  int count = w->t->ncandidate, masked = count, n = 0, *near = w->near;
  while (masked > 0 && c[masked - 1].pair >= 0) masked--;  // explicit pairs come last, and have margins of their own
  for (int k = 0; k < masked; k++) {
    if (may_touch(w, balls, c[k].geom1, c[k].geom2, reach)) near[n++] = k;
  }
  for (int k = masked; k < count; k++) {
    if (may_touch(w, balls, c[k].geom1, c[k].geom2, reach + fabs(re(w->p.pair_margin[c[k].pair])))) near[n++] = k;
  }
  return n;
}

void NUM(pbContact_Mix)(const NUM(pbWork) *w, int g1, int g2, NUM(pbMix) *mix) {
  const pbModel *m = w->m;
  int p1 = m->geom_priority[g1], p2 = m->geom_priority[g2];
  num s1 = w->p.geom_solmix[g1], s2 = w->p.geom_solmix[g2];
  mix->winner = p1 > p2 ? g1 : p2 > p1 ? g2 : -1;
  mix->direct = !(re(w->p.geom_solref[2 * g1]) > 0 && re(w->p.geom_solref[2 * g2]) > 0);
  bool none1 = re(s1) < 1e-15, none2 = re(s2) < 1e-15;
  // a weight of zero still has a slope
  if (none1 || none2) mix->mix = none1 && none2 ? 0.5 : none1 ? num_make(0, im(s1) / re(s2)) : num_make(1, -im(s2) / re(s1));
  else mix->mix = s1 / (s1 + s2);
}

num NUM(pbMixing_Of)(pbContactMixing mixing, num a, num b) {
  switch (mixing) {
    case pb_mixingMean: return 0.5 * (a + b);
    case pb_mixingProduct: return a * b;
    case pb_mixingMinimum: return num_min(a, b);
    case pb_mixingGeometric: return re(a) > 0 && re(b) > 0 ? num_sqrt(a * b) : 0;
    default: return num_max(a, b);
  }
}

num NUM(pbContact_FrictionGiven)(const NUM(pbWork) *w, const NUM(pbContact) *c, int k) {
  static const int kind[5] = {0, 0, 1, 2, 2};  // sliding, spinning, rolling
  int p1 = w->m->geom_priority[c->geom1], p2 = w->m->geom_priority[c->geom2];
  if (w->m->enableflags & pb_enOverride) return w->p.o_friction[k];
  if (c->pair >= 0) return w->p.pair_friction[5 * c->pair + k];
  num f1 = w->p.geom_friction[3 * c->geom1 + kind[k]], f2 = w->p.geom_friction[3 * c->geom2 + kind[k]];
  return p1 > p2 ? f1 : p2 > p1 ? f2 : NUM(pbMixing_Of)(w->m->contact.mixing, f1, f2);
}

static void geom_parameters(const NUM(pbWork) *w, NUM(pbContact) *c) {
  const pbModel *m = w->m;
  int g1 = c->geom1, g2 = c->geom2;
  NUM(pbMix) mix;
  NUM(pbContact_Mix)(w, g1, g2, &mix);
  num s = mix.mix;
  if (mix.winner >= 0) {
    c->dim = m->geom_condim[mix.winner];
    memcpy(c->solref, w->p.geom_solref + 2 * mix.winner, sizeof c->solref);
    memcpy(c->solimp, w->p.geom_solimp + 5 * mix.winner, sizeof c->solimp);
  } else {
    const num *r1 = w->p.geom_solref + 2 * g1, *r2 = w->p.geom_solref + 2 * g2;
    const num *i1 = w->p.geom_solimp + 5 * g1, *i2 = w->p.geom_solimp + 5 * g2;
    c->dim = m->geom_condim[g1] > m->geom_condim[g2] ? m->geom_condim[g1] : m->geom_condim[g2];
    for (int k = 0; k < 2; k++) c->solref[k] = mix.direct ? num_min(r1[k], r2[k]) : s * r1[k] + (1 - s) * r2[k];
    for (int k = 0; k < 5; k++) c->solimp[k] = s * i1[k] + (1 - s) * i2[k];
  }
  c->solreffriction[0] = c->solreffriction[1] = 0;
}

static void set_parameters(const NUM(pbWork) *w, NUM(pbContact) *c) {
  if (c->pair >= 0) {
    c->dim = w->m->pair_dim[c->pair];
    memcpy(c->solref, w->p.pair_solref + 2 * c->pair, sizeof c->solref);
    memcpy(c->solreffriction, w->p.pair_solreffriction + 2 * c->pair, sizeof c->solreffriction);
    memcpy(c->solimp, w->p.pair_solimp + 5 * c->pair, sizeof c->solimp);
  } else {
    geom_parameters(w, c);
  }
  if (w->m->enableflags & pb_enOverride) {
    memcpy(c->solref, w->p.o_solref, sizeof c->solref);
    memcpy(c->solreffriction, w->p.o_solref, sizeof c->solreffriction);
    memcpy(c->solimp, w->p.o_solimp, sizeof c->solimp);
  }
  for (int k = 0; k < 5; k++) c->friction[k] = num_at_least(NUM(pbContact_FrictionGiven)(w, c, k), PB_LEAST_FRICTION);
  c->restitution = NUM(pbMixing_Of)(w->m->contact.mixing, w->p.geom_restitution[c->geom1], w->p.geom_restitution[c->geom2]);
}

// Complete the frame from the normal: MuJoCo's choice of tangents.
static void make_frame(num frame[9], const num normal[3], const num hint[3]) {
  num *x = frame, *y = frame + 3, *z = frame + 6;
  v3_copy(x, normal);
  v3_copy(y, hint);
  if (re(v3_dot(y, y)) < 0.25) {
    bool upright = fabs(re(x[1])) < 0.5;
    v3_set(y, 0, upright ? 1 : 0, upright ? 0 : 1);
  }
  v3_addscl(y, x, -v3_dot(x, y));
  num length = v3_normalize(y);
  if (re(length) < 1e-15) v3_addscl(y, x, num_make(0, -im(v3_dot(x, y))));  // hint along the normal: y turns with it
  v3_cross(z, x, y);
}

// Distance at which force starts, where no onset makes it start before.
static num force_margin(const NUM(pbWork) *w, const pbCandidate *k) {
  if (w->m->enableflags & pb_enOverride) return w->p.o_margin[0];
  return k->pair >= 0 ? w->p.pair_margin[k->pair] : w->p.geom_margin[k->geom1] + w->p.geom_margin[k->geom2];
}

pbStatus NUM(pbContact_Pair)(NUM(pbWork) *w, int candidate, double reach) {
  const pbCandidate *k = w->t->candidate + candidate;
  num margin = force_margin(w, k);
  NUM(pbShape) s1, s2;
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  geom_shape(w, k->geom1, &s1), geom_shape(w, k->geom2, &s2);
  int n = NUM(pbPair_Collide)(&s1, &s2, re(margin) + reach, contacts);
  if (w->ncon + n > w->max_con) return pb_capacity;
  for (int i = 0; i < n; i++) {
    NUM(pbContact) *c = w->contact + w->ncon++;
    c->geom1 = k->geom1, c->geom2 = k->geom2, c->pair = k->pair, c->point = i;
    c->dist = contacts[i].dist;
    c->margin = margin;
    v3_copy(c->pos, contacts[i].pos);
    v3_copy(c->hint, contacts[i].hint);
    make_frame(c->frame, contacts[i].normal, contacts[i].hint);
    set_parameters(w, c);
  }
  return pb_ok;
}

pbStatus NUM(pbStage_Collide)(NUM(pbWork) *w) {
  double reach = w->m->contact.onset;
  w->ncon = 0;
  for (int k = 0, n = NUM(pbContact_Near)(w, reach); k < n; k++) PB_TRY(NUM(pbContact_Pair)(w, w->near[k], reach));
  return pb_ok;
}
