// The way back through the contacts of two polytopes (polytope.c): from cotangents of a contact's distance, point and normal to
// forces on the corners of both shapes, all decisions frozen. Forces on corners give those by pose, size and strain.
// In doubles. Test: tests/unit/test_polytope.c.
#include "geometry/polytope_contact.h"

#if !PB_IS_COMPLEX
#include "base/assert.h"
#include "geometry/hull.h"
#include "geometry/rate.h"

typedef NUM(pbTouch) touch;
typedef NUM(pbManifold) manifold;

// What is collected. Of shape k: sum of the forces, sum of force x' with x the corner before the shape's core map
// (core_map), cotangent of its radius.
typedef struct pulling {
  const touch *p;
  const manifold *m;
  double n_bar[3], dist_bar;  // of the normal, of the deepest point's distance
  double force[2][3], moment[2][9], radius[2];
} pulling;

// ---- corners -----------------------------------------------------------------------------------------------------------
// A corner is at pos + map x + offset, x its place in the hull or its signs.
static void corner_place(const NUM(pbShape) *s, int id, double x[3]) {
  v3_zero(x);
  if (s->hull) {
    v3_copy(x, s->vertex ? s->vertex + 3 * s->hull->vertex[id] : s->hull->corner + 3 * id);
  } else if (s->type == pb_geomBox) {
    for (int i = 0; i < 3; i++) x[i] = id & (1 << i) ? 1 : -1;
  } else if (s->type == pb_geomCapsule) {
    x[2] = id ? 1 : -1;
  }
}

// In the shape's frame: local = stretch x + shift.
static void core_map(const NUM(pbShape) *s, double stretch[9], double shift[3]) {
  m3_identity(stretch);
  v3_zero(shift);
  if (s->hull && s->motion) {
    m3_copy(stretch, s->stretch);
    v3_copy(shift, s->shift);
  } else if (s->type == pb_geomBox) {
    for (int i = 0; i < 3; i++) stretch[4 * i] = s->size[i];
  } else if (s->type == pb_geomCapsule) {
    stretch[8] = s->size[1];
  }
}

// d corner = d pos + d map x + d offset: a force sign f on the corner is one on pos and on the offset, and f x' on the map.
static void push_corner(pulling *g, int shape, int id, double sign, const double f[3]) {
  double x[3];
  corner_place(g->p->shape[shape], id, x);

  for (int i = 0; i < 3; i++) {
    g->force[shape][i] += sign * f[i];
    v3_addscl(g->moment[shape] + 3 * i, x, sign * f[i]);
  }
}

// edge = head - tail
static void push_edge(pulling *g, int shape, int head, int tail, const double edge_bar[3]) {
  push_corner(g, shape, head, 1, edge_bar);
  push_corner(g, shape, tail, -1, edge_bar);
}

// ---- pieces ------------------------------------------------------------------------------------------------------------
// unit = v / |v|: d unit = (d v - unit (unit . d v)) / |v|, a symmetric map.
static void pull_unit(const double v[3], const double unit_bar[3], double v_bar[3]) {
  double length = v3_norm(v), unit[3];
  v3_scale(unit, v, 1 / length);
  v3_along(v_bar, unit_bar, unit, -v3_dot(unit, unit_bar));
  v3_scale(v_bar, v_bar, 1 / length);
}

// out = u x v: d out = d u x v + u x d v; out_bar . (d u x v) = (v x out_bar) . d u.
static void pull_cross(const double u[3], const double v[3], const double out_bar[3], double u_bar[3], double v_bar[3]) {
  v3_cross(u_bar, v, out_bar);
  v3_cross(v_bar, out_bar, u);
}

// v = along d - m0 from the origin to the line through m0 and m1, d = m1 - m0, along = m0 . d / d . d:
//   d v = along d d + d d along - d m0,  d along = (d . d m0 + m0 . d d - 2 along d . d d) / d . d
// Writes what m1 and m0 get.
static void pull_line(const double m0[3], const double d[3], double along, const double v_bar[3], double m1_bar[3],
                      double m0_bar[3]) {
  double along_bar = v3_dot(v_bar, d) / v3_dot(d, d);

  // What d gets is m1's, and is taken from m0.
  v3_scale(m1_bar, v_bar, along);
  v3_addscl(m1_bar, m0, along_bar);
  v3_addscl(m1_bar, d, -2 * along * along_bar);

  v3_addscl(m0_bar, d, along_bar);
  v3_subfrom(m0_bar, v_bar);
  v3_subfrom(m0_bar, m1_bar);
}

// Of up to three corners m = a - b of the shapes' difference, by the cotangents of the normal and of the deepest distance:
//   n = v / |v|,  dist = -n . m0 - radii,  d dist = -m0 . d n - n . d m0 - d radii
// with v = -m0 of a corner, that of pull_line of an edge, and +-(m1 - m0) x (m2 - m0) of a face.
static void pull_normal(pulling *g) {
  const pbPolytopeNormal *f = g->p->found;
  double m[3][3] = {{0}}, m_bar[3][3] = {{0}}, d[2][3], v[3], v_bar[3], d_bar[2][3];

  for (int k = 0; k < f->count || k == 0; k++) {
    double a[3], b[3];
    NUM(pbPolytope_Corner)(g->p->shape[0], f->id[k][0], a);
    NUM(pbPolytope_Corner)(g->p->shape[1], f->id[k][1], b);
    v3_sub(m[k], a, b);
  }
  for (int k = 1; k < f->count; k++) v3_sub(d[k - 1], m[k], m[0]);

  // Of the distance.
  v3_addscl(g->n_bar, m[0], -g->dist_bar);
  v3_scale(m_bar[0], g->p->n, -g->dist_bar);
  for (int k = 0; k < 2; k++) g->radius[k] -= g->dist_bar;

  // Of the normal by the corner itself, the line, the plane; of no corners it stands still.
  if (f->count == 1) {
    v3_neg(v, m[0]);
    pull_unit(v, g->n_bar, v_bar);
    v3_subfrom(m_bar[0], v_bar);
  } else if (f->count == 2) {
    double along = v3_dot(m[0], d[0]) / v3_dot(d[0], d[0]);
    v3_scale(v, d[0], along);
    v3_subfrom(v, m[0]);
    pull_unit(v, g->n_bar, v_bar);
    pull_line(m[0], d[0], along, v_bar, m_bar[1], m_bar[0]);
  } else if (f->count == 3) {
    v3_cross(v, d[0], d[1]);
    pull_unit(v, g->n_bar, v_bar);
    if (v3_dot(v, g->p->n) < 0) v3_neg(v_bar, v_bar);
    pull_cross(d[0], d[1], v_bar, d_bar[0], d_bar[1]);
    for (int k = 0; k < 2; k++) {
      v3_copy(m_bar[k + 1], d_bar[k]);
      v3_subfrom(m_bar[0], d_bar[k]);
    }
  }

  // d m = d a - d b
  for (int k = 0; k < f->count || k == 0; k++) {
    push_corner(g, 0, f->id[k][0], 1, m_bar[k]);
    push_corner(g, 1, f->id[k][1], -1, m_bar[k]);
  }
}

// The deepest point, see set_deepest: a corner, or where edge a of the first shape crosses edge b of the second, seen along n:
//   point = a0 + t a,  t = gap . side / a . side,  gap = b0 - a0,  side = n x b
//   d point = d a0 + t d a + a d t,  d t = (side . d gap + gap . d side - t side . d a - t a . d side) / a . side
//   d side = d n x b + n x d b
// Of edges that are parallel t is 1/2 and stands still.
static void pull_deepest(pulling *g, const double point_bar[3]) {
  const touch *p = g->p;
  const pbPolytopeNormal *f = p->found;
  if (p->deepest_corner >= 0) {
    push_corner(g, p->deepest_shape, p->deepest_corner, 1, point_bar);
    return;
  }

  // Ends of the edges: those of the first corner of the difference, and whichever the others have besides.
  int tail[2] = {f->id[0][0], f->id[0][1]}, head[2] = {tail[0], tail[1]};
  for (int k = 1; k < f->count; k++) {
    for (int s = 0; s < 2; s++) head[s] = f->id[k][s] != tail[s] ? f->id[k][s] : head[s];
  }
  double from[2][3], to[2][3], a[3], b[3], gap[3], side[3];
  for (int s = 0; s < 2; s++) {
    NUM(pbPolytope_Corner)(p->shape[s], tail[s], from[s]);
    NUM(pbPolytope_Corner)(p->shape[s], head[s], to[s]);
  }
  v3_sub(a, to[0], from[0]);
  v3_sub(b, to[1], from[1]);
  v3_sub(gap, from[1], from[0]);
  v3_cross(side, p->n, b);
  double across = v3_dot(a, side), t = across != 0 ? v3_dot(gap, side) / across : 0.5;

  // share: what d t gets, over a . side.
  double share = across != 0 ? v3_dot(point_bar, a) / across : 0, a_bar[3], b_bar[3], side_bar[3], n_bar[3];
  v3_scale(a_bar, point_bar, t);
  v3_addscl(a_bar, side, -t * share);
  v3_scale(side_bar, gap, share);
  v3_addscl(side_bar, a, -t * share);
  pull_cross(p->n, b, side_bar, n_bar, b_bar);
  v3_addto(g->n_bar, n_bar);

  push_corner(g, 0, tail[0], 1, point_bar);
  push_edge(g, 0, head[0], tail[0], a_bar);
  push_edge(g, 1, head[1], tail[1], b_bar);
  push_corner(g, 1, tail[1], share, side);   // gap = b0
  push_corner(g, 0, tail[0], -share, side);  //       - a0
}

// ---- points of a face --------------------------------------------------------------------------------------------------
typedef struct face {
  int shape, other, corners, id[PB_POLYGON_SIDES], other_id[PB_POLYGON_SIDES];
} face;

static void face_corner(const pulling *g, const face *f, int k, double x[3]) {
  NUM(pbPolytope_Corner)(g->p->shape[f->shape], f->id[k], x);
}

// Where the line from p to q crosses a side of the face, or a corner of the other shape:
//   x = p + t (q - p),  t = hp / (hp - hq),  h = (. - origin) . side,  side = edge x n,  edge = next corner - origin
//   d x = (1 - t) d p + t d q + (q - p) d t,  d t = (hp d hq - hq d hp) / (hp - hq)^2
//   d hp = side . (d p - d origin) + (p - origin) . d side, d hq likewise,  d side = d edge x n + edge x d n
static void pull_cut(pulling *g, const face *f, int number, const double x_bar[3]) {
  const NUM(pbCut) *c = &g->m->cut[number];
  if (c->q < 0) {
    push_corner(g, f->other, f->other_id[c->p], 1, x_bar);
    return;
  }

  const double *p = g->m->cut[c->p].x, *q = g->m->cut[c->q].x;
  int next = c->side + 1 == f->corners ? 0 : c->side + 1;
  double origin[3], edge[3], side[3], dp[3], dq[3], step[3];
  face_corner(g, f, c->side, origin);
  face_corner(g, f, next, edge);
  v3_subfrom(edge, origin);
  v3_cross(side, edge, g->p->n);
  v3_sub(dp, p, origin);
  v3_sub(dq, q, origin);
  v3_sub(step, q, p);
  double hp = v3_dot(dp, side), hq = v3_dot(dq, side), fall = hp - hq, t = hp / fall, t_bar = v3_dot(step, x_bar) / (fall * fall);
  double hp_bar = -hq * t_bar, hq_bar = hp * t_bar, p_bar[3], q_bar[3], side_bar[3], edge_bar[3], n_bar[3];

  v3_scale(p_bar, x_bar, 1 - t);
  v3_addscl(p_bar, side, hp_bar);
  v3_scale(q_bar, x_bar, t);
  v3_addscl(q_bar, side, hq_bar);
  v3_scale(side_bar, dp, hp_bar);
  v3_addscl(side_bar, dq, hq_bar);
  pull_cross(edge, g->p->n, side_bar, edge_bar, n_bar);
  v3_addto(g->n_bar, n_bar);
  push_edge(g, f->shape, f->id[next], f->id[c->side], edge_bar);
  push_corner(g, f->shape, f->id[c->side], -hp_bar - hq_bar, side);  // the origin, in both heights

  // Cuts come after what they are cut from.
  PB_ASSERT(c->p < number && c->q < number);
  pull_cut(g, f, c->p, p_bar);
  pull_cut(g, f, c->q, q_bar);
}

// How far x is from the face's plane along n, + for the first shape's face and - for the second's; unit: the plane's normal.
//   dist = +-height - radii,  height = (x - corner) . unit / slope,  slope = unit . n
//   d height = (unit . (d x - d corner) + (x - corner - height n) . d unit - height unit . d n) / slope
// unit is +-n where the face carries the normal, else that of (c1 - corner) x (c2 - corner). Adds to x_bar.
static void pull_height(pulling *g, const face *f, const double x[3], double dist_bar, double x_bar[3]) {
  const touch *p = g->p;
  bool carried = carries_normal(p->found, f->shape);
  double c[3][3], u[3], v[3], normal[3], dif[3], unit[3], unit_bar[3], normal_bar[3], u_bar[3], v_bar[3];
  int which[3] = {0, f->corners / 3, 2 * f->corners / 3};
  for (int k = 0; k < 3; k++) face_corner(g, f, which[k], c[k]);
  int id = carried ? p->found->id[0][f->shape] : f->id[0];
  NUM(pbPolytope_Corner)(p->shape[f->shape], id, c[0]);

  // The plane that carries the normal, or the face's own.
  v3_sub(u, c[1], c[0]);
  v3_sub(v, c[2], c[0]);
  if (carried) v3_scale(normal, p->n, f->shape ? -1 : 1);
  else v3_cross(normal, u, v);
  v3_copy(unit, normal);
  v3_normalize(unit);

  v3_sub(dif, x, c[0]);
  double slope = v3_dot(unit, p->n), height = v3_dot(dif, unit) / slope, height_bar = f->shape ? -dist_bar : dist_bar;
  for (int k = 0; k < 2; k++) g->radius[k] -= dist_bar;
  v3_addscl(x_bar, unit, height_bar / slope);
  push_corner(g, f->shape, id, -height_bar / slope, unit);
  v3_scale(unit_bar, dif, height_bar / slope);
  v3_addscl(unit_bar, p->n, -height * height_bar / slope);
  v3_addscl(g->n_bar, unit, -height * height_bar / slope);
  if (carried) {
    v3_addscl(g->n_bar, unit_bar, f->shape ? -1 : 1);
    return;
  }

  // Of three corners of the face.
  pull_unit(normal, unit_bar, normal_bar);
  pull_cross(u, v, normal_bar, u_bar, v_bar);
  push_corner(g, f->shape, f->id[which[1]], 1, u_bar);  // u = c1 - corner, v = c2 - corner
  push_corner(g, f->shape, f->id[which[2]], 1, v_bar);
  push_corner(g, f->shape, id, -1, u_bar);
  push_corner(g, f->shape, id, -1, v_bar);
}

// A point that clipping left (pull_cut), with its height over the reference face (pull_height) or the least distance itself.
static void pull_clipped(pulling *g, int number, double x_bar[3], double dist_bar) {
  const touch *p = g->p;
  face f = {.shape = g->m->ref, .other = !g->m->ref};
  f.corners = flat_ids(p->shape[f.shape], &p->found->flat[f.shape], f.id);
  flat_ids(p->shape[f.other], &p->found->flat[f.other], f.other_id);

  if (g->m->deepest[number]) g->dist_bar += dist_bar;
  else pull_height(g, &f, g->m->point[number], dist_bar, x_bar);
  pull_cut(g, &f, g->m->from[number], x_bar);
}

// ---- ends of edges that overlap ----------------------------------------------------------------------------------------
// e = edge / |edge|, edge = x1 - x0; see pull_unit.
static void pull_direction(pulling *g, int shape, const int id[2], const double e_bar[3]) {
  double x[2][3], edge[3], edge_bar[3];
  for (int k = 0; k < 2; k++) NUM(pbPolytope_Corner)(g->p->shape[shape], id[k], x[k]);
  v3_sub(edge, x[1], x[0]);
  pull_unit(edge, e_bar, edge_bar);
  push_edge(g, shape, id[1], id[0], edge_bar);
}

// An end of the one edge, `from`, and the point of the other beside it, see overlap_edges; e1, e2: directions of the edges.
//   point = start + along e,  along = u . e1 / cosine,  u = from - start,  cosine = e1 . e2, or 1 where the end is the second's
//   d point = d start + along d e + e d along,  d along = (e1 . d u + u . d e1 - along d cosine) / cosine
//   dist = +-(point - from) . n - radii,  + where the end is the first shape's
static void pull_end(pulling *g, int number, const double x_bar[3], double dist_bar) {
  const touch *p = g->p;
  int end = g->m->from[number], own = end < 2 ? 0 : 1, id[2][2];
  double x[2][2][3], e[2][3], e_bar[2][3] = {{0}}, u[3], point[3], from_bar[3], point_bar[3], gap[3];
  for (int s = 0; s < 2; s++) {
    memcpy(id[s], p->found->flat[s].edge, sizeof id[s]);
    for (int k = 0; k < 2; k++) NUM(pbPolytope_Corner)(p->shape[s], id[s][k], x[s][k]);
    v3_sub(e[s], x[s][1], x[s][0]);
    v3_normalize(e[s]);
  }
  const double *from = x[own][end % 2], *start = x[!own][0];
  v3_sub(u, from, start);
  double cosine = v3_dot(e[0], e[1]), along = v3_dot(u, e[0]) / (own ? 1 : cosine);
  v3_along(point, start, e[!own], along);

  // Of the distance. The contact's point is that of the second shape.
  double sign = own ? -1 : 1;
  if (g->m->deepest[number]) {
    g->dist_bar += dist_bar;
    dist_bar = 0;
  }
  v3_sub(gap, point, from);
  v3_addscl(g->n_bar, gap, sign * dist_bar);
  for (int k = 0; k < 2; k++) g->radius[k] -= dist_bar;
  v3_scale(point_bar, p->n, sign * dist_bar);
  v3_neg(from_bar, point_bar);
  v3_addto(own ? from_bar : point_bar, x_bar);

  // Of the point.
  double along_bar = v3_dot(point_bar, e[!own]) / (own ? 1 : cosine), u_bar[3];
  v3_addscl(e_bar[!own], point_bar, along);
  v3_addscl(e_bar[0], u, along_bar);
  v3_scale(u_bar, e[0], along_bar);
  if (!own) {
    v3_addscl(e_bar[0], e[1], -along * along_bar);
    v3_addscl(e_bar[1], e[0], -along * along_bar);
  }
  push_corner(g, !own, id[!own][0], 1, point_bar);
  push_corner(g, !own, id[!own][0], -1, u_bar);
  push_corner(g, own, id[own][end % 2], 1, u_bar);
  push_corner(g, own, id[own][end % 2], 1, from_bar);
  for (int s = 0; s < 2; s++) pull_direction(g, s, id[s], e_bar[s]);
}

// ---- a contact ---------------------------------------------------------------------------------------------------------
// pos = point +- (radius + dist / 2) n: d pos = d point +- (d radius + d dist / 2) n +- (radius + dist / 2) d n. rows: cotangents
// of dist, pos, normal. Adds to n_bar and dist_bar what is left for pull_normal, which all contacts have in common.
static void pull_contact(pulling *g, int source, const double rows[7]) {
  const touch *p = g->p;
  int shape = source < 0 ? p->deepest_shape : !g->m->ref;
  double dist = source < 0 ? p->dist : g->m->dist[source], sign = shape ? -1 : 1, x_bar[3], along = sign * v3_dot(p->n, rows + 1);
  v3_copy(x_bar, rows + 1);
  v3_addto(g->n_bar, rows + 4);
  v3_addscl(g->n_bar, rows + 1, sign * (p->radius[shape] + 0.5 * dist));
  g->radius[shape] += along;

  // Where it came from.
  double dist_bar = rows[0] + 0.5 * along;
  if (source < 0) {
    g->dist_bar += dist_bar;
    pull_deepest(g, x_bar);
  } else if (g->m->edges) {
    pull_end(g, source, x_bar, dist_bar);
  } else {
    pull_clipped(g, source, x_bar, dist_bar);
  }
}

static void begin_pull(pulling *g, const touch *p, const manifold *m) {
  memset(g, 0, sizeof *g);
  g->p = p;
  g->m = m;
}

// Sum of mat' f local' over forces f on corners at pos + mat local, local = stretch x + shift. Its antisymmetric part is the
// torque, by d corner = d turn x (mat local), and its symmetric one the cotangent of a strain, by d local = d e local.
static void local_moment(const pulling *g, int shape, double out[9]) {
  const NUM(pbShape) *s = g->p->shape[shape];
  double stretch[9], shift[3], moment[9];
  core_map(s, stretch, shift);
  m3_mult(moment, g->moment[shape], stretch);

  for (int i = 0; i < 3; i++) v3_addscl(moment + 3 * i, shift, g->force[shape][i]);
  m3_tmul(out, s->mat, moment);
}

static void set_sizes(const pulling *g, int shape, double size[3]) {
  const NUM(pbShape) *s = g->p->shape[shape];
  double moment[9];
  m3_tmul(moment, s->mat, g->moment[shape]);
  if (s->hull) return;

  // Corners of a box and ends of a capsule go with their sizes; its radius, and a ball's.
  if (s->type == pb_geomBox) {
    for (int i = 0; i < 3; i++) size[i] = moment[4 * i];
    return;
  }
  size[0] = g->radius[shape];
  if (s->type == pb_geomCapsule) size[1] = moment[8];
}

static void set_rates(const pulling *g, double d[12]) {
  const NUM(pbShape) *s = g->p->shape[1];
  double moment[9], local[3];
  local_moment(g, 1, moment);

  // Torque about the center: of lever x force.
  v3_set(local, moment[7] - moment[5], moment[2] - moment[6], moment[3] - moment[1]);
  m3_mulv(d + ROT, s->mat, local);
  v3_copy(d + MOVE, g->force[1]);
  set_sizes(g, 0, d + SIZE1);
  set_sizes(g, 1, d + SIZE2);
}

// By the normal and the deepest point's distance: rows of Jacobians.
static void common_rates(const touch *p, const manifold *m, double common[4][12]) {
  for (int r = 0; r < 4; r++) {
    pulling g;
    begin_pull(&g, p, m);
    if (r < 3) g.n_bar[r] = 1;
    else g.dist_bar = 1;
    pull_normal(&g);
    set_rates(&g, common[r]);
  }
}

bool NUM(pbPolytope_Rates)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const pbPolytopeNormal *found,
                           int count, pbContactJacobian *jacobians) {
  touch p = {.shape = {shape1, shape2}, .found = found, .margin = margin};
  manifold m;
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  int source[PB_MAX_CONTACT_POINTS];
  if (found->is_round) return false;

  int made = NUM(pbPolytope_Touch)(&p, &m, contacts, source);
  if (m.cuts > PB_CUTS) return false;

  // What all contacts go by, then distance and point row by row; the normal is common, the hint is none.
  double common[4][12] = {{0}};
  common_rates(&p, &m, common);
  for (int k = 0; k < count && k < made; k++) {
    for (int r = DIST; r < NORMAL; r++) {
      double rows[7] = {0}, *d = jacobians[k].d[r];
      pulling g;
      rows[r] = 1;
      begin_pull(&g, &p, &m);
      pull_contact(&g, source[k], rows);
      set_rates(&g, d);
      for (int c = 0; c < COLUMNS; c++) {
        d[c] += g.n_bar[0] * common[0][c] + g.n_bar[1] * common[1][c] + g.n_bar[2] * common[2][c] + g.dist_bar * common[3][c];
      }
    }
    memcpy(jacobians[k].d[NORMAL], common, 3 * sizeof common[0]);
  }
  return true;
}

bool NUM(pbPolytope_PullStrain)(const NUM(pbShape) shape[2], double margin, const pbPolytopeNormal *found, int count,
                                const pbContactBar *bar, double strain_bar[2][6]) {
  touch p = {.shape = {&shape[0], &shape[1]}, .found = found, .margin = margin};
  manifold m;
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  int source[PB_MAX_CONTACT_POINTS];
  pulling g;
  if (found->is_round) return false;

  int made = NUM(pbPolytope_Touch)(&p, &m, contacts, source);
  if (m.cuts > PB_CUTS) return false;
  begin_pull(&g, &p, &m);
  for (int k = 0; k < count && k < made; k++) pull_contact(&g, source[k], bar[k].row);
  pull_normal(&g);

  // The symmetric part.
  for (int k = 0; k < 2; k++) {
    double moment[9];
    local_moment(&g, k, moment);
    for (int i = 0; i < 3; i++) {
      int a = (i + 1) % 3, b = (i + 2) % 3;
      strain_bar[k][i] += moment[4 * i];
      strain_bar[k][3 + i] += 0.5 * (moment[3 * a + b] + moment[3 * b + a]);
    }
  }
  return true;
}

#else
typedef int polytope_rates_is_for_doubles;
#endif
