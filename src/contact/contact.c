// Contacts: which pairs of geoms may touch, the contacts of a pair, and their parameters by MuJoCo's mixing rules. Derivatives
// of the parameters: parameters_adjoint.c; of frame and geometry: contact_geometry_adjoint.c.
// Tests: tests/unit/test_contact.c, tests/unit/test_kinks.c, tests/oracle/test_hfield.py.
#include "contact/contact.h"

#include "base/assert.h"
#include "eval/stages.h"
#include "geometry/hull.h"
#include "geometry/search.h"
#include "math/vec.h"

#define ON_BORDER 1e-14  // of a height field's size

// ---- candidates -------------------------------------------------------------------------------------------------------
static double mesh_radius(const NUM(pbConstraints) *w, int mesh) {
  NUM(pbShape) shape;
  pbHullView view;
  if (mesh < 0) return 0;

  // Of its points as they are now.
  mesh_hull(&w->mechanism, mesh, &shape);
  shape.motion = NUM(pbMesh_Map)(&w->mechanism, mesh, shape.stretch, shape.shift);
  hull_view(&shape, &view);
  return view.radius;
}

static double field_radius(const NUM(pbConstraints) *w, int geom) {
  int exposed;
  pbTerrain t = field_terrain(&w->mechanism, w->m->geom_dataid[geom], &exposed);
  if (exposed < 0) return w->m->geom_rbound[geom];

  double far = fmax(t.highest * t.size[2], t.size[3]);
  return sqrt(t.size[0] * t.size[0] + t.size[1] * t.size[1] + far * far);
}

// Radius of the sphere about a geom's center that holds it; 0 for planes.
static double bounding_radius(const NUM(pbConstraints) *w, int geom) {
  const num *size = w->p.geom_size + 3 * geom;
  double a = re(size[0]);
  double b = re(size[1]);
  double c = re(size[2]);

  // Each shape by its own sizes: a, b, c are radius and half lengths, semi-axes or half edges.
  switch (w->m->geom_type[geom]) {
    case pb_geomSphere: return a;
    case pb_geomCapsule: return a + b;
    case pb_geomCylinder: return sqrt(a * a + b * b);
    case pb_geomEllipsoid: return fmax(a, fmax(b, c));
    case pb_geomBox: return sqrt(a * a + b * b + c * c);
    case pb_geomHfield: return field_radius(w, geom);
    case pb_geomMesh: return mesh_radius(w, w->m->geom_dataid[geom]);
    default: return 0;
  }
}

// Impacts know no gap: their contacts come between steps.
static inline bool keeps_gap(const pbModel *m) { return m->topology->keeps_gap && m->contact.method != pb_contactImpact; }

double NUM(pbContact_Reach)(const NUM(pbConstraints) *w, int geom1, int geom2, int pair, double reach) {
  double gap = contact_gap(&w->mechanism, geom1, geom2, pair);
  if (w->m->contact.method == pb_contactImpact) return reach;
  if (gap < 0) return reach + gap;
  return keeps_gap(w->m) ? fmax(reach, gap) : reach;
}

// Balls that hold the geoms and their margins, a little larger than needed.
static void set_balls(NUM(pbConstraints) *w) {
  bool override = w->m->enableflags & pb_enOverride;

  // Half of a margin that counts for all pairs, else each geom its own: a pair has the sum.
  for (int i = 0; i < w->t->ngeom_read; i++) {
    int g = w->t->geom_read[i];
    double margin = override ? 0.5 * re(w->p.o_margin[0]) : re(w->p.geom_margin[g]);
    if (keeps_gap(w->m)) margin += fmax(re(w->p.geom_gap[g]), 0);
    for (int k = 0; k < 3; k++) w->geom_ball[k * w->m->ngeom + g] = re(w->geom_xpos[3 * g + k]);
    w->geom_ball[3 * w->m->ngeom + g] = (bounding_radius(w, g) + (margin > 0 ? margin : 0)) * (1 + 1e-9);
  }
}

// May the geoms touch, as far as their balls tell? The pair itself decides.
static inline bool may_touch(const NUM(pbConstraints) *w, int g1, int g2, double margin) {
  int n = w->m->ngeom;
  const double *a = w->geom_ball + g1;
  const double *b = w->geom_ball + g2;
  double x = b[0] - a[0];
  double y = b[n] - a[n];
  double z = b[2 * n] - a[2 * n];
  double reach = a[3 * n] + b[3 * n] + margin;

  // Height of the ball above a plane, whose normal is the third column of its frame.
  if (w->m->geom_type[g1] == pb_geomPlane) {
    const num *R = w->geom_xmat + 9 * g1;
    return !(x * re(R[2]) + y * re(R[5]) + z * re(R[8]) > reach);
  }

  return !(x * x + y * y + z * z > reach * reach);
}

// What the margin of an explicit pair adds, with the gap where anything sees it; the balls have the geoms' own.
static double pair_reach(const NUM(pbConstraints) *w, int pair) {
  return fabs(re(w->p.pair_margin[pair])) + (keeps_gap(w->m) ? fabs(re(w->p.pair_gap[pair])) : 0);
}

// May the ball of geom g touch any of `count` balls from one on? What may_touch asks, side by side and without a branch.
static bool touches_any(const NUM(pbConstraints) *w, int g, int from, int count, double margin) {
  int64_t any = 0;  // as wide as what is compared
  int n = w->m->ngeom;
  const double *restrict x = w->geom_ball + from;
  const double *restrict y = x + n;
  const double *restrict z = y + n;
  const double *restrict radius = z + n;
  const double *one = w->geom_ball + g;
  double ax = one[0], ay = one[n], az = one[2 * n], ar = one[3 * n];

  for (int i = 0; i < count; i++) {
    double dx = x[i] - ax, dy = y[i] - ay, dz = z[i] - az, r = ar + radius[i] + margin;
    any |= !(dx * dx + dy * dy + dz * dz > r * r);
  }
  return any != 0;
}

// The numbers of candidates from k up to `end` that may touch to `near`; returns how many.
static int list_near(const NUM(pbConstraints) *w, int k, int end, double reach, int *near) {
  int n = 0;
  for (; k < end; k++) {
    const pbCandidate *c = w->t->candidate + k;
    // Of geoms the balls have it in them.
    double margin = c->pair < 0 ? 0 : pair_reach(w, c->pair);
    if (may_touch(w, c->geom1, c->geom2, reach + margin)) near[n++] = k;
  }
  return n;
}

// Balls that follow each other by number, as many as a vector register holds a few times: bounds of their centers, their largest
// radius, and zero, or no number where one of them has none.
enum { block_size = 32, most_blocks = 256 };
typedef struct ball_block {
  double low[3], high[3], radius, number;
} ball_block;

// Of all geoms, or of the first so many blocks; returns how many.
static int bound_blocks(const NUM(pbConstraints) *w, ball_block *blocks) {
  int n = w->m->ngeom, all = (n + block_size - 1) / block_size, count = all < most_blocks ? all : most_blocks;
  for (int b = 0; b < count; b++)
    blocks[b] = (ball_block){{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}, 0, 0};

  for (int i = 0; i < w->t->ngeom_read; i++) {
    int g = w->t->geom_read[i];
    if (g >= count * block_size) continue;
    ball_block *b = blocks + g / block_size;
    double radius = w->geom_ball[3 * n + g];
    for (int k = 0; k < 3; k++) {
      double x = w->geom_ball[k * n + g];
      b->low[k] = x < b->low[k] ? x : b->low[k];
      b->high[k] = x > b->high[k] ? x : b->high[k];
      b->number += x - x;
    }
    b->radius = radius > b->radius ? radius : b->radius;
    b->number += radius - radius;
  }
  return count;
}

// Are all of a block farther from the ball of geom g than may_touch asks? Each operation is monotonic, rounded as it is.
static bool is_apart(const NUM(pbConstraints) *w, const ball_block *b, int g, double margin) {
  int n = w->m->ngeom;
  double square = b->number, reach = w->geom_ball[3 * n + g] + b->radius + margin;
  for (int k = 0; k < 3; k++) {
    double at = w->geom_ball[k * n + g], below = b->low[k] - at, above = at - b->high[k];
    double far = below > above ? below : above;
    if (far > 0) square += far * far;
  }
  return square > reach * reach;
}

// The same of a part of a run whose geoms have balls: each is looked at alone only where some side by side may touch.
static int list_run(const NUM(pbConstraints) *w, const pbCandidateRun *run, int from, int to, double reach, int *near) {
  enum { few = 8 };
  int n = 0;
  if (!touches_any(w, run->geom, run->other + from, to - from, reach)) return 0;
  for (int i = from; i < to; i += few) {
    int count = to - i < few ? to - i : few;
    if (!touches_any(w, run->geom, run->other + i, count, reach)) continue;
    n += list_near(w, run->first + i, run->first + i + count, reach, near + n);
  }
  return n;
}

// Of many candidates most are far: blocks of geoms first, then some that stand side by side, and each alone only where one of
// these may touch.
int NUM(pbContact_Near)(NUM(pbConstraints) *w, double reach) {
  ball_block blocks[most_blocks];
  int *near = w->near, n = 0;
  if (w->m->disableflags & (pb_disConstraint | pb_disContact)) return 0;
  set_balls(w);
  int bounded = bound_blocks(w, blocks);

  for (const pbCandidateRun *run = w->t->run; run < w->t->run + w->t->nrun; run++) {
    bool apart = run->geom >= 0 && w->m->geom_type[run->geom] != pb_geomPlane;
    for (int i = 0, count; i < run->count; i += count) {
      int from = run->other + i, left = run->count - i, block = from / block_size;
      count = apart && block_size - from % block_size < left ? block_size - from % block_size : left;
      if (apart && block < bounded && is_apart(w, blocks + block, run->geom, reach)) continue;
      n += apart ? list_run(w, run, i, i + count, reach, near + n)
                 : list_near(w, run->first + i, run->first + i + count, reach, near + n);
    }
  }

  PB_VALIDATE(pb_ascending(near, n) && pb_allWithin(near, n, 0, w->t->ncandidate));
  return n;
}

// ---- parameters -------------------------------------------------------------------------------------------------------
// The geom of higher priority; -1: they have the same.
static int winner_of(const pbModel *m, int g1, int g2) {
  int p1 = m->geom_priority[g1];
  int p2 = m->geom_priority[g2];
  if (p1 == p2) return -1;
  return p1 > p2 ? g1 : g2;
}

// Weight of the first geom, s1 / (s1 + s2); a weight of zero still has a slope.
static num mixing_weight(num s1, num s2) {
  bool none1 = re(s1) < 1e-15;
  bool none2 = re(s2) < 1e-15;
  if (none1 && none2) return 0.5;
  if (none1) return num_make(0, im(s1) / re(s2));
  if (none2) return num_make(1, -im(s2) / re(s1));
  return s1 / (s1 + s2);
}

void NUM(pbContact_Mix)(const NUM(pbConstraints) *w, int g1, int g2, NUM(pbMix) *mix) {
  mix->winner = winner_of(w->m, g1, g2);
  mix->direct = !(re(w->p.geom_solref[2 * g1]) > 0 && re(w->p.geom_solref[2 * g2]) > 0);
  mix->mix = mixing_weight(w->p.geom_solmix[g1], w->p.geom_solmix[g2]);
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

num NUM(pbContact_FrictionGiven)(const NUM(pbConstraints) *w, const NUM(pbContact) *c, int k) {
  static const int kind[5] = {0, 0, 1, 2, 2};  // sliding, spinning, rolling
  if (w->m->enableflags & pb_enOverride) return w->p.o_friction[k];
  if (c->pair >= 0) return w->p.pair_friction[5 * c->pair + k];

  // The winner of the priorities alone, or a mixture.
  num f1 = w->p.geom_friction[3 * c->geom1 + kind[k]];
  num f2 = w->p.geom_friction[3 * c->geom2 + kind[k]];
  int winner = winner_of(w->m, c->geom1, c->geom2);
  if (winner < 0) return NUM(pbMixing_Of)(w->m->contact.mixing, f1, f2);
  return winner == c->geom1 ? f1 : f2;
}

// Of the geom of higher priority, or the two geoms' mixture.
static void set_geom_parameters(const NUM(pbConstraints) *w, NUM(pbContact) *c) {
  const pbModel *m = w->m;
  int g1 = c->geom1;
  int g2 = c->geom2;
  NUM(pbMix) mix;

  NUM(pbContact_Mix)(w, g1, g2, &mix);
  c->solreffriction[0] = c->solreffriction[1] = 0;

  if (mix.winner >= 0) {
    c->dim = m->geom_condim[mix.winner];
    memcpy(c->solref, w->p.geom_solref + 2 * mix.winner, sizeof c->solref);
    memcpy(c->solimp, w->p.geom_solimp + 5 * mix.winner, sizeof c->solimp);
    return;
  }

  // MuJoCo's rule: the larger condim; solref and solimp weighted, or the lesser solref in the direct format.
  num s = mix.mix;
  const num *r1 = w->p.geom_solref + 2 * g1;
  const num *r2 = w->p.geom_solref + 2 * g2;
  const num *i1 = w->p.geom_solimp + 5 * g1;
  const num *i2 = w->p.geom_solimp + 5 * g2;
  c->dim = m->geom_condim[g1] > m->geom_condim[g2] ? m->geom_condim[g1] : m->geom_condim[g2];
  for (int k = 0; k < 2; k++) c->solref[k] = mix.direct ? num_min(r1[k], r2[k]) : s * r1[k] + (1 - s) * r2[k];
  for (int k = 0; k < 5; k++) c->solimp[k] = s * i1[k] + (1 - s) * i2[k];
}

static void set_parameters(const NUM(pbConstraints) *w, NUM(pbContact) *c) {
  if (c->pair >= 0) {
    c->dim = w->m->pair_dim[c->pair];
    memcpy(c->solref, w->p.pair_solref + 2 * c->pair, sizeof c->solref);
    memcpy(c->solreffriction, w->p.pair_solreffriction + 2 * c->pair, sizeof c->solreffriction);
    memcpy(c->solimp, w->p.pair_solimp + 5 * c->pair, sizeof c->solimp);
  } else {
    set_geom_parameters(w, c);
  }

  PB_ASSERT(c->dim == 1 || c->dim == 3 || c->dim == 4 || c->dim == 6);

  // The global override counts for all contacts, tangents included.
  if (w->m->enableflags & pb_enOverride) {
    memcpy(c->solref, w->p.o_solref, sizeof c->solref);
    memcpy(c->solreffriction, w->p.o_solref, sizeof c->solreffriction);
    memcpy(c->solimp, w->p.o_solimp, sizeof c->solimp);
  }
  for (int k = 0; k < 5; k++) c->friction[k] = num_at_least(NUM(pbContact_FrictionGiven)(w, c, k), PB_LEAST_FRICTION);
  c->restitution = NUM(pbMixing_Of)(w->m->contact.mixing, w->p.geom_restitution[c->geom1], w->p.geom_restitution[c->geom2]);
}

// ---- contacts ---------------------------------------------------------------------------------------------------------
// Complete the frame from the normal: MuJoCo's choice of tangents, the hint or an axis of the world made square to the normal.
static void make_frame(num frame[9], const num normal[3], const num hint[3]) {
  num *x = frame;
  num *y = frame + 3;
  num *z = frame + 6;

  v3_copy(x, normal);
  v3_copy(y, hint);
  if (re(v3_dot(y, y)) < 0.25) {
    bool upright = fabs(re(x[1])) < 0.5;
    v3_set(y, 0, upright ? 1 : 0, upright ? 0 : 1);
  }

  // A hint along the normal leaves nothing: then y rotates with the normal.
  v3_addscl(y, x, -v3_dot(x, y));
  num length = v3_normalize(y);
  if (re(length) < 1e-15) v3_addscl(y, x, num_make(0, -im(v3_dot(x, y))));
  v3_cross(z, x, y);
}

// Are the first two rows of length one, at right angles? Of a contact's frame normal and first tangent.
static bool is_frame(const num frame[9]) {
  static const double rounding = 1e-9;
  double n = re(v3_dot(frame, frame)), y = re(v3_dot(frame + 3, frame + 3)), both = re(v3_dot(frame, frame + 3));
  return !(fabs(n - 1) > rounding || fabs(y - 1) > rounding || fabs(both) > rounding);
}

// Distance at which force starts, where no onset makes it start before.
static num force_margin(const NUM(pbConstraints) *w, const pbCandidate *k) {
  if (w->m->enableflags & pb_enOverride) return w->p.o_margin[0];
  return k->pair >= 0 ? w->p.pair_margin[k->pair] : w->p.geom_margin[k->geom1] + w->p.geom_margin[k->geom2];
}

static bool lies_on_field(const pbSearched *found) { return found->kind == pb_searchedPolytope && found->facet.lies; }

// prism: of a height field, whose shape s1 is then; -1: none. most: the first so many points count, of a face that lies on a
// field (which few prisms have corners of) the first `room`.
static pbStatus add_contacts(NUM(pbConstraints) *w, const pbCandidate *k, const NUM(pbShape) *s1, const NUM(pbShape) *s2,
                             int prism, int most, int room, double reach) {
  num margin = force_margin(w, k);
  NUM(pbContactPoint) points[PB_MAX_CONTACT_POINTS];

  PB_VALIDATE(is_frame(s1->mat) && is_frame(s2->mat));
  bool searches = pbSearch_KindOf(s1->type, s2->type) != pb_searchedNothing;
  if (searches && w->ncon < w->most_con) PB_TRY(NUM(pbConstraints_Reserve)(w, w->ncon + 1));
  bool keeps = searches && w->ncon < w->max_con;
  int n = NUM(pbPair_CollideKeeping)(s1, s2, re(margin) + reach, keeps ? w->searched + w->ncon : NULL, points);
  PB_ASSERT(n >= 0 && n <= PB_MAX_CONTACT_POINTS);
  PB_ASSERT(prism >= 0 || n <= most);
  if (keeps && prism >= 0 && n > 0 && lies_on_field(w->searched + w->ncon)) most = room;
  if (n > most) n = most;
  PB_TRY(NUM(pbConstraints_Reserve)(w, w->ncon + n));

  // Each point becomes a contact, with the parameters of its pair.
  for (int i = 0; i < n; i++) {
    NUM(pbContact) *c = w->contact + w->ncon++;
    c->geom1 = k->geom1;
    c->geom2 = k->geom2;
    c->pair = k->pair;
    c->point = i;
    c->prism = prism;
    c->dist = points[i].dist;
    c->margin = margin;
    v3_copy(c->pos, points[i].pos);
    v3_copy(c->hint, points[i].hint);
    make_frame(c->frame, points[i].normal, points[i].hint);
    PB_VALIDATE(is_frame(c->frame));
    set_parameters(w, c);
  }

  return pb_ok;
}

// Bounds of a shape in the frame of another, widened.
static void bounds_in(const NUM(pbShape) *shape, const NUM(pbShape) *frame, double wide, double low[3], double high[3]) {
  pbBoundShape bound = {.type = shape->type, .hull = shape->hull};
  double origin[3], R[9];
  for (int i = 0; i < 9; i++) {
    bound.mat[i] = re(shape->mat[i]);
    R[i] = re(frame->mat[i]);
  }
  for (int k = 0; k < 3; k++) {
    bound.pos[k] = re(shape->pos[k]);
    bound.size[k] = re(shape->size[k]);
    origin[k] = re(frame->pos[k]);
  }

  if (shape->motion == pb_hullMoves) hull_move(shape, bound.pos, bound.mat);
  pbTerrain_Bounds(&bound, origin, R, low, high);
  for (int k = 0; k < 3; k++) {
    low[k] -= wide;
    high[k] += wide;
  }
}

// As many points of each prism as there is room for, at least the deepest.
static int points_of_prism(const pbTerrain *terrain, pbTerrainWindow window) {
  int prisms = 0;
  while (pbTerrain_Next(terrain, &window) >= 0) prisms++;
  int share = prisms ? PB_TERRAIN_CONTACTS / prisms : 1;
  return share > 1 ? share : 1;
}

// Prism by prism, until there are as many contacts as a pair may have.
static pbStatus meet_terrain(NUM(pbConstraints) *w, const pbCandidate *k, double reach) {
  int field = w->m->geom_dataid[k->geom1], before = w->ncon, exposed;
  double low[3], high[3];
  pbTerrainWindow window;
  NUM(pbColumn) column;
  NUM(pbShape) s1, s2;

  PB_ASSERT(field >= 0 && field < w->m->nhfield);
  pbTerrain terrain = field_terrain(&w->mechanism, field, &exposed);
  geom_shape(&w->mechanism, k->geom1, &s1);
  geom_shape(&w->mechanism, k->geom2, &s2);
  bounds_in(&s2, &s1, re(force_margin(w, k)) + reach, low, high);
  pbTerrain_Open(&terrain, low, high, &window);

  int share = points_of_prism(&terrain, window);

  // A corner on the border of two prisms belongs to one of them, which rounding must not leave out.
  for (int i = 0; i < 2; i++) {
    low[i] -= ON_BORDER * terrain.size[i];
    high[i] += ON_BORDER * terrain.size[i];
  }
  pbTerrain_Open(&terrain, low, high, &window);
  for (int number; (number = pbTerrain_Next(&terrain, &window)) >= 0;) {
    int room = before + PB_TERRAIN_CONTACTS - w->ncon;
    PB_ASSERT(room >= 0);
    if (!room) break;
    prism_shape(w, k->geom1, number, &column, &s1);
    PB_TRY(add_contacts(w, k, &s1, &s2, number, room < share ? room : share, room, reach));
  }
  return pb_ok;
}

pbStatus NUM(pbContact_Pair)(NUM(pbConstraints) *w, int candidate, double reach) {
  PB_ASSERT(candidate >= 0 && candidate < w->t->ncandidate);
  const pbCandidate *k = w->t->candidate + candidate;
  reach = NUM(pbContact_Reach)(w, k->geom1, k->geom2, k->pair, reach);
  if (w->m->geom_type[k->geom1] == pb_geomHfield) return meet_terrain(w, k, reach);

  NUM(pbShape) s1, s2;
  geom_shape(&w->mechanism, k->geom1, &s1);
  geom_shape(&w->mechanism, k->geom2, &s2);
  return add_contacts(w, k, &s1, &s2, -1, k->contacts, k->contacts, reach);
}

pbStatus NUM(pbStage_Collide)(NUM(pbConstraints) *w) {
  double reach = w->m->contact.onset;
  int n = NUM(pbContact_Near)(w, reach);
  w->ncon = 0;
  for (int k = 0; k < n; k++) PB_TRY(NUM(pbContact_Pair)(w, w->near[k], reach));
  return pb_ok;
}
