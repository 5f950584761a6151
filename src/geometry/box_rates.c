// Jacobians of balls, capsules and boxes on a box, shape 2: the differentials of box.c and box_box.c, decisions as found there.
// Test: tests/unit/test_geometry.c, against the complex step of the primals.
#include "geometry/box.h"

#include "base/assert.h"
#include "geometry/rate.h"

// ---- ball and box ---------------------------------------------------------------------------------------------------
// In the box's frame: c = R' (p1 - p2), nearest point of the box by clamping, t = (nearest - c) / gap,
// pos = (nearest + c + r t) / 2; inside: t fixed, depth = size -+ c, pos = c + t (r - depth) / 2
typedef struct ball_in_box {
  num c[3], t[3];
  row dc[3], dt[3], dpos[3], dgap;
} ball_in_box;

static void outside_box_rate(const NUM(pbShape) *box, num radius, num gap, ball_in_box *b) {
  row toward[3];  // d (nearest - c): a clamped coordinate stays on its face, the others follow the center
  for (int i = 0; i < 3; i++) {
    bool clamped = re(box->size[i]) > 0 && fabs(re(b->c[i])) > re(box->size[i]);
    for (int k = 0; k < COLUMNS; k++) toward[i][k] = clamped ? -b->dc[i][k] : 0;
    if (clamped) toward[i][SIZE2 + i] += re(b->c[i]) > 0 ? 1 : -1;
    for (int k = 0; k < COLUMNS; k++) b->dpos[i][k] = b->dc[i][k] + 0.5 * toward[i][k];
  }

  dot_rate(b->dgap, b->t, toward);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < COLUMNS; k++) b->dt[i][k] = (toward[i][k] - b->t[i] * b->dgap[k]) / gap;
    for (int k = 0; k < COLUMNS; k++) b->dpos[i][k] += 0.5 * radius * b->dt[i][k];
    b->dpos[i][SIZE1] += 0.5 * b->t[i];
  }
}

static void inside_box_rate(ball_in_box *b) {
  int face = 2;
  if (fabs(re(b->t[0])) > 0.5) {
    face = 0;
  } else if (fabs(re(b->t[1])) > 0.5) {
    face = 1;
  }
  double sign = re(b->t[face]) > 0 ? 1 : -1;  // depth = size + sign c

  for (int k = 0; k < COLUMNS; k++) b->dgap[k] = -sign * b->dc[face][k];
  b->dgap[SIZE2 + face] -= 1;

  memcpy(b->dpos, b->dc, sizeof b->dpos);
  for (int k = 0; k < COLUMNS; k++) b->dpos[face][k] += 0.5 * sign * b->dgap[k];
  b->dpos[face][SIZE1] += 0.5 * sign;
}

// Of a point of shape 1, at `dif` from the box's center, seen from the box: d c_i = (axis_i x dif) . rotation
// - axis_i . translation; of a direction without the translation.
static void seen_from_box(const NUM(pbShape) *box, const num dif[3], bool point, row out[3]) {
  memset(out, 0, 3 * sizeof(row));
  for (int i = 0; i < 3; i++) {
    num axis[3], moment[3];
    m3_col(axis, box->mat, i);
    v3_cross(moment, axis, dif);
    for (int k = 0; k < 3; k++) {
      out[i][ROT + k] = moment[k];
      if (point) out[i][MOVE + k] = -axis[k];
    }
  }
}

// b->c, b->dc: the ball's center.
static void ball_rates(const NUM(pbShape) *box, num radius, ball_in_box *b, const NUM(pbContactPoint) *contact,
                       pbContactJacobian *j) {
  num lever[3], gap = contact->dist + radius;

  m3_tmulv(b->t, box->mat, contact->normal);
  if (re(gap) > PB_TINY) {
    outside_box_rate(box, radius, gap, b);
  } else {
    inside_box_rate(b);
  }

  // The radius counts once more in the distance.
  memcpy(j->d[DIST], b->dgap, sizeof b->dgap);
  j->d[DIST][SIZE1] -= 1;

  // Back to the world: what moves in the box's frame, and the box's own motion.
  v3_sub(lever, contact->pos, box->pos);
  row rotation[3], move[3];
  rigid_rate(move, lever);
  rotation_rate(rotation, contact->normal);

  for (int i = 0; i < 3; i++) {
    const num *m = &box->mat[3 * i];
    for (int k = 0; k < COLUMNS; k++) {
      j->d[POS + i][k] = move[i][k] + m[0] * b->dpos[0][k] + m[1] * b->dpos[1][k] + m[2] * b->dpos[2][k];
      j->d[NORMAL + i][k] = rotation[i][k] + m[0] * b->dt[0][k] + m[1] * b->dt[1][k] + m[2] * b->dt[2][k];
    }
  }
}

void NUM(pbSphere_BoxRates)(const NUM(pbShape) *sphere, const NUM(pbShape) *box, const NUM(pbContactPoint) *contact,
                            pbContactJacobian *j) {
  num dif[3];
  ball_in_box b = {0};

  v3_sub(dif, sphere->pos, box->pos);
  m3_tmulv(b.c, box->mat, dif);
  seen_from_box(box, dif, true, b.dc);

  ball_rates(box, sphere->size[0], &b, contact, j);
}

// ---- capsule and box ------------------------------------------------------------------------------------------------
typedef struct segment_rates {
  const NUM(pbBoxSegment) *s;
  row center[3], half[3];
} segment_rates;

static void begin_segment(const NUM(pbShape) *capsule, const NUM(pbShape) *box, segment_rates *g) {
  num dif[3], half[3];

  // Center and half axis as they are in the world.
  v3_sub(dif, capsule->pos, box->pos);
  m3_col(half, capsule->mat, 2);
  v3_scale(half, half, capsule->size[1]);
  seen_from_box(box, dif, true, g->center);
  seen_from_box(box, half, false, g->half);

  // The half axis by its length.
  for (int i = 0; i < 3; i++) {
    num axis[3], unit[3];
    m3_col(axis, box->mat, i);
    m3_col(unit, capsule->mat, 2);
    g->half[i][SIZE1 + 1] = v3_dot(axis, unit);
  }
}

// Place x on the segment, y on the line of edge j: P = corner, with y at j; Q = center + x half.
//   (P - Q) . half = 0 where x is free, over the axes across the edge where y is free too; (P - Q)_j = 0 where y is free
// dx, dy: of places in [-1, 1].
static void edge_rates(const segment_rates *g, const NUM(pbBoxNearest) *f, row dx, row dy) {
  const NUM(pbBoxSegment) *s = g->s;
  int j = f->edge;
  num x = f->along, square = 0;
  memset(dx, 0, sizeof(row));
  memset(dy, 0, sizeof(row));

  // x by the axes that count, then y by x.
  if (!f->clamped[1]) {
    for (int k = 0; k < 3; k++) {
      if (k == j && !f->clamped[0]) continue;
      num sign = f->corner & (1 << k) ? 1 : -1, place = k == j ? f->box_along : sign;
      num gap = place * s->size[k] - s->center[k] - x * s->half[k];

      for (int c = 0; c < COLUMNS; c++) dx[c] += gap * g->half[k][c] - s->half[k] * (g->center[k][c] + x * g->half[k][c]);
      dx[SIZE2 + k] += place * s->half[k];
      square += s->half[k] * s->half[k];
    }
    for (int c = 0; c < COLUMNS; c++) dx[c] /= square;
  }

  if (f->clamped[0]) return;
  for (int c = 0; c < COLUMNS; c++) dy[c] = (g->center[j][c] + x * g->half[j][c] + s->half[j] * dx[c]) / s->size[j];
  dy[SIZE2 + j] -= f->box_along / s->size[j];
}

// dx: of the first place, becomes that of the second.
static void second_rates(const segment_rates *g, const NUM(pbBoxNearest) *first, const NUM(pbBoxSecond) *second, const row dy,
                         row dx) {
  const NUM(pbBoxSegment) *s = g->s;
  int i = second->axis;
  num h = s->half[i], x = first->along + second->step, way = re(second->step) < 0 ? -1 : 1, inv = 1 / num_abs(h);

  switch (second->kind) {
    // step = +-2 size / |half|
    case pb_secondAcross:
      for (int c = 0; c < COLUMNS; c++) dx[c] -= second->step / h * g->half[i][c];
      dx[SIZE2 + i] += 2 * way * inv;
      return;

    // step = +-size (1 -+ y) / |half|
    case pb_secondEdgeEnd:
      for (int c = 0; c < COLUMNS; c++) dx[c] -= second->step / h * g->half[i][c] + way * second->side * s->size[i] * inv * dy[c];
      dx[SIZE2 + i] += way * inv * (1 - second->side * first->box_along);
      return;

    // center + x half = +-size
    case pb_secondSide:
      for (int c = 0; c < COLUMNS; c++) dx[c] = -(g->center[i][c] + x * g->half[i][c]) / h;
      dx[SIZE2 + i] += second->side / h;
      return;

    default: memset(dx, 0, sizeof(row)); return;
  }
}

// The ball about a place x: its center is center + x half.
static void place_rates(const segment_rates *g, const NUM(pbShape) *capsule, const NUM(pbShape) *box, const num center[3], num x,
                        const row dx, const NUM(pbContactPoint) *contact, pbContactJacobian *j) {
  const NUM(pbBoxSegment) *s = g->s;
  ball_in_box b = {0};
  num dif[3];

  v3_sub(dif, center, box->pos);
  m3_tmulv(b.c, box->mat, dif);

  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) b.dc[i][c] = g->center[i][c] + x * g->half[i][c] + s->half[i] * dx[c];
  }
  ball_rates(box, capsule->size[0], &b, contact, j);
}

void NUM(pbCapsule_BoxRates)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, int count,
                             pbContactJacobian *j) {
  NUM(pbBoxSegment) s;
  NUM(pbBoxNearest) first;
  NUM(pbBoxSecond) second;
  if (!NUM(pbSegment_Places)(capsule, box, margin, &s, &first, &second)) return;

  segment_rates g = {.s = &s};
  row dx = {0}, dy = {0};
  begin_segment(capsule, box, &g);
  if (first.kind == pb_nearEdge) edge_rates(&g, &first, dx, dy);

  // Not every place makes a contact.
  int made = 0, places = second.kind == pb_secondNone ? 1 : 2;
  for (int k = 0; k < places && made < count; k++) {
    NUM(pbContactPoint) contact;
    num center[3], x = k ? first.along + second.step : first.along;
    if (k) second_rates(&g, &first, &second, dy, dx);

    NUM(pbSegment_Point)(&s, x, box, center);
    if (!NUM(pbSphere_Box)(center, capsule->size[0], box, margin, &contact)) continue;
    place_rates(&g, capsule, box, center, x, dx, &contact, &j[made++]);
  }
}

// ---- faces of two boxes -----------------------------------------------------------------------------------------------
// A plane that a vertex is on: it moves with one of the boxes and with its half size along the axis.
typedef struct vertex_plane {
  int box, axis;
  num normal[3];
} vertex_plane;

static vertex_plane make_plane(const NUM(pbShape) *const box[2], int which, int axis, double sign) {
  vertex_plane p = {.box = which, .axis = axis};
  PB_ASSERT(axis >= 0 && axis < 3 && fabs(sign) == 1);

  m3_col(p.normal, box[which]->mat, axis);
  v3_scale(p.normal, p.normal, sign);
  return p;
}

// See pbBoxVertex.
static vertex_plane line_plane(const NUM(pbShape) *const box[2], const NUM(pbBoxFaces) *f, int line) {
  int ref = f->first ? 0 : 1, own = line < 4;
  PB_ASSERT(line >= 0 && line < 8);

  // Sides of odd number are across the first axis of the incident face; of the reference face come first both of its first axis.
  if (own) return make_plane(box, !ref, (f->incident + (line % 2 ? 1 : 2)) % 3, line == 0 || line == 3 ? 1 : -1);
  return make_plane(box, ref, (f->axis + (line < 6 ? 1 : 2)) % 3, line % 2 ? -1 : 1);
}

// Where a side crosses a line by rounding alone (its sine), anywhere along it, the vertex goes with the side's end.
static void set_vertex_planes(const NUM(pbShape) *const box[2], const NUM(pbBoxFaces) *f, const int line[2],
                              vertex_plane plane[3]) {
  static const double parallel = 1e-10;
  num along[3];

  for (int l = 0; l < 2; l++) plane[1 + l] = line_plane(box, f, line[l]);
  v3_cross(along, plane[1].normal, plane[2].normal);
  if (fabs(re(v3_dot(along, plane[0].normal))) > parallel) return;

  // The side, and the next one.
  int side = 0;
  for (int l = 0; l < 2; l++) {
    if (line[l] < 4) side = line[l];
  }
  plane[1] = line_plane(box, f, side);
  plane[2] = line_plane(box, f, (side + 1) % 4);
}

// A vertex x is where three planes meet: dx = sum of g d(offset), g the columns of the inverse of their normals.
static void vertex_rate(const NUM(pbShape) *const box[2], const vertex_plane plane[3], const num x[3], row out[3]) {
  num arm[3];

  memset(out, 0, 3 * sizeof(row));
  v3_sub(arm, x, box[1]->pos);
  for (int k = 0; k < 3; k++) {
    const num *n = plane[k].normal;
    num g[3], moment[3];

    v3_cross(g, plane[(k + 1) % 3].normal, plane[(k + 2) % 3].normal);
    v3_scale(g, g, 1 / v3_dot(g, n));
    v3_cross(moment, arm, n);

    // Planes of box 1 go with its size alone.
    for (int i = 0; i < 3; i++) {
      if (plane[k].box == 0) out[i][SIZE1 + plane[k].axis] += g[i];
      if (plane[k].box == 0) continue;

      for (int c = 0; c < 3; c++) {
        out[i][ROT + c] += g[i] * moment[c];
        out[i][MOVE + c] += g[i] * n[c];
      }
      out[i][SIZE2 + plane[k].axis] += g[i];
    }
  }
}

// dist = m . (x - center) - size, pos = x - m dist / 2, m the reference face's outward normal; normal = +-m
static void face_contact_rate(const NUM(pbShape) *const box[2], const vertex_plane *ref, const num x[3], num height, row dx[3],
                              pbContactJacobian *j) {
  const num *m = ref->normal;
  num arm[3], moment[3];
  row dm[3] = {0}, dist;

  dot_rate(dist, m, dx);
  dist[(ref->box ? SIZE2 : SIZE1) + ref->axis] -= 1;

  // The face of box 2 moves.
  if (ref->box) {
    v3_sub(arm, x, box[1]->pos);
    v3_cross(moment, arm, m);
    for (int c = 0; c < 3; c++) {
      dist[ROT + c] -= moment[c];
      dist[MOVE + c] -= m[c];
    }
    rotation_rate(dm, m);
  }

  memcpy(j->d[DIST], dist, sizeof dist);
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) {
      j->d[POS + i][c] = dx[i][c] - 0.5 * (m[i] * dist[c] + height * dm[i][c]);
      j->d[NORMAL + i][c] = ref->box ? -dm[i][c] : 0;
    }
  }
}

static void face_rates(const NUM(pbShape) *const box[2], const NUM(pbBoxFaces) *f, int count, pbContactJacobian *j) {
  int which = f->first ? 0 : 1;
  const NUM(pbShape) *shape = box[which];
  vertex_plane ref = make_plane(box, which, f->axis, f->sign), plane[3] = {make_plane(box, !which, f->incident, f->facing)};

  for (int k = 0; k < count; k++) {
    const NUM(pbBoxVertex) *v = &f->poly[0][f->kept[k]];
    num local[3], x[3];
    row dx[3];

    // The vertex in the world, the planes that hold it, the contact.
    local[(f->axis + 1) % 3] = v->x[0];
    local[(f->axis + 2) % 3] = v->x[1];
    local[f->axis] = f->sign * (shape->size[f->axis] + v->x[2]);
    m3_mulv(x, shape->mat, local);
    v3_addto(x, shape->pos);

    set_vertex_planes(box, f, v->line, plane);
    vertex_rate(box, plane, x, dx);
    face_contact_rate(box, &ref, x, v->x[2], dx, &j[k]);
  }
}

// ---- edges of two boxes -----------------------------------------------------------------------------------------------
// Middle of an edge from its box's center, and how it goes with the half sizes across the edge.
static void middle_rate(const NUM(pbShape) *box, const num middle[3], int axis, int column, num lever[3], row out[3]) {
  m3_mulv(lever, box->mat, middle);

  for (int k = 0; k < 3; k++) {
    if (k == axis) continue;
    for (int i = 0; i < 3; i++) out[i][column + k] += copysign(1, re(middle[k])) * box->mat[3 * i + k];
  }
}

// The contact is between the points w1 = m1 + s e1 and w2 = m2 + t e2 of edges with middles m and unit axes e, with r = m2 - m1:
//   start = (e1 . r - cosine e2 . r) / (1 - cosine^2),  t = cosine start - e2 . r,  s = e1 . r + cosine t,  cosine = e1 . e2
// each at its end where it is clipped. Seen from box 1 its own axis stands still: d e1 = 0, d w1 = d m1 + e1 d s,
// d w2 = d m2 + e2 d t + t d e2.
typedef struct edge_places {
  num cosine, e1_r, e2_r;             // e1_r = e1 . r, e2_r = e2 . r
  row dcosine, de1_r, de2_r, ds, dt;  // their differentials, and those of the places
} edge_places;

static void clip_rate(row d, int clipped, int column) {
  if (!clipped) return;
  memset(d, 0, sizeof(row));
  d[column] = clipped;
}

static void place_on_edges(const NUM(pbBoxEdges) *f, edge_places *p) {
  int column1 = SIZE1 + f->axis[0], column2 = SIZE2 + f->axis[1];
  num sine2 = 1 - p->cosine * p->cosine, inv = re(sine2) < PB_TINY ? 0 : 1 / sine2;  // of parallel edges the start stands still
  row start;
  for (int c = 0; c < COLUMNS; c++)
    start[c] = inv * (p->de1_r[c] - p->dcosine[c] * p->e2_r - p->cosine * p->de2_r[c] + 2 * p->cosine * p->dcosine[c] * f->start);
  clip_rate(start, f->clipped[0], column1);

  // From there to the other edge, and back.
  for (int c = 0; c < COLUMNS; c++) p->dt[c] = p->dcosine[c] * f->start + p->cosine * start[c] - p->de2_r[c];
  clip_rate(p->dt, f->clipped[2], column2);

  for (int c = 0; c < COLUMNS; c++) p->ds[c] = p->de1_r[c] + p->dcosine[c] * f->place[1] + p->cosine * p->dt[c];
  clip_rate(p->ds, f->clipped[1], column1);
}

// n = +-(e1 x e2) / |e1 x e2|, dist = n . gap, gap = w2 - w1, pos = (w1 + w2) / 2:
//   d n = (I - n n') (e1 x d e2) / length,  d dist = n . (d w2 - d w1) + gap . d n
// length: +-|e1 x e2|, with the sign of n.
static void edge_contact_rate(const num e1[3], const num n[3], num length, row de2[3], const num gap[3], row dw1[3], row dw2[3],
                              pbContactJacobian *j) {
  for (int c = 0; c < COLUMNS; c++) {
    num turn[3] = {de2[0][c], de2[1][c], de2[2][c]}, raw[3], dist = 0;

    // Of a unit vector across it alone.
    v3_cross(raw, e1, turn);
    num along = v3_dot(n, raw);

    for (int i = 0; i < 3; i++) {
      num dn = (raw[i] - n[i] * along) / length;
      j->d[NORMAL + i][c] = dn;
      j->d[POS + i][c] = 0.5 * (dw1[i][c] + dw2[i][c]);
      dist += n[i] * (dw2[i][c] - dw1[i][c]) + gap[i] * dn;
    }
    j->d[DIST][c] = dist;
  }
}

// The places along the edges and their rates. dm: rates of the middles.
static void edge_place_rates(const NUM(pbBoxEdges) *f, const num e1[3], const num e2[3], const num r[3], row dm1[3], row dm2[3],
                             row de2[3], edge_places *p) {
  row dr[3], turned;
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) dr[i][c] = dm2[i][c] - dm1[i][c];
  }

  p->cosine = v3_dot(e1, e2);
  p->e1_r = v3_dot(e1, r);
  p->e2_r = v3_dot(e2, r);
  dot_rate(p->dcosine, e1, de2);
  dot_rate(p->de1_r, e1, dr);

  // The second axis turns, too.
  dot_rate(p->de2_r, e2, dr);
  dot_rate(turned, r, de2);
  for (int c = 0; c < COLUMNS; c++) p->de2_r[c] += turned[c];
  place_on_edges(f, p);
}

static void meeting_edges_rates(const NUM(pbShape) *const box[2], const NUM(pbBoxEdges) *f, const num n[3],
                                pbContactJacobian *j) {
  num e1[3], e2[3], lever[2][3], r[3], across[3], gap[3];
  row dw1[3] = {0}, dw2[3], de2[3];
  edge_places p;

  m3_col(e1, box[0]->mat, f->axis[0]);
  m3_col(e2, box[1]->mat, f->axis[1]);
  rotation_rate(de2, e2);

  // Middles of the edges, which dw1 and dw2 hold at first, and what lies between them.
  m3_mulv(lever[1], box[1]->mat, f->middle[1]);
  rigid_rate(dw2, lever[1]);
  middle_rate(box[0], f->middle[0], f->axis[0], SIZE1, lever[0], dw1);
  middle_rate(box[1], f->middle[1], f->axis[1], SIZE2, lever[1], dw2);
  v3_sub(r, box[1]->pos, box[0]->pos);
  v3_addto(r, lever[1]);
  v3_subfrom(r, lever[0]);

  // From the middles to the places along the edges.
  edge_place_rates(f, e1, e2, r, dw1, dw2, de2, &p);
  add_rate(dw1, e1, p.ds);
  add_rate(dw2, e2, p.dt);
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) dw2[i][c] += f->place[1] * de2[i][c];
    gap[i] = r[i] + f->place[1] * e2[i] - f->place[0] * e1[i];
  }

  // Along the normal, whichever way the axis points.
  v3_cross(across, e1, e2);
  edge_contact_rate(e1, n, v3_dot(n, across), de2, gap, dw1, dw2, j);
}

void NUM(pbBox_BoxRates)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, int count, pbContactJacobian *j) {
  const NUM(pbShape) *box[2] = {box1, box2};
  NUM(pbBoxTouch) touch;
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];

  // The same contacts again, with what they come from.
  int made = NUM(pbBox_Touch)(box1, box2, margin, &touch, contacts);
  if (made < count) count = made;
  if (count <= 0) return;

  if (touch.edges_meet) meeting_edges_rates(box, &touch.edges, contacts->normal, j);
  else face_rates(box, &touch.faces, count, j);
}
