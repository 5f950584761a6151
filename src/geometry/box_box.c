// Two boxes, with the feature choices of MuJoCo (engine_collision_box.c, 3.12 and later). Jacobians: box_rates.c.
// Separating axis of largest separation among 15, then either the nearest points of two edges or the incident face
// clipped against the reference face. Constants as in MuJoCo.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/oracle/test_geometry.py.
#include "geometry/box.h"

#include "base/assert.h"

#define SEPARATION_SLACK 1e-13  // times the summed half sizes: rounding of a support
#define PARALLEL_SIN2    1e-16  // sin^2 of an angle of edges whose cross product is noise
#define SIGN_NOISE       1e-9   // axis components whose sign says nothing
#define SAME_VERTEX      1e-14  // squared, relative to the reference face
#define EDGE_BIAS        1e-6   // an edge must beat a face by this

typedef NUM(pbBoxPair) box_pair;
typedef NUM(pbBoxVertex) vertex;

static double abs_re(num x) { return fabs(re(x)); }

// Is the axis of an edge pair within 8 degrees of a face's normal? Codes as in separating_axis.
static bool nearly_normal(const double rot[9], int code, int code_face) {
  int i = (code - 6) / 3, j = (code - 6) % 3, i1 = (i + 1) % 3, i2 = (i + 2) % 3;
  double axis[3], cosine;

  // e_i x column j of rot, normalized: its part i is zero.
  axis[i] = 0;
  axis[i1] = -rot[3 * i2 + j];
  axis[i2] = rot[3 * i1 + j];
  double inv = 1 / sqrt(axis[i1] * axis[i1] + axis[i2] * axis[i2]);
  for (int k = 0; k < 3; k++) axis[k] *= inv;

  if (code_face < 3) {
    cosine = fabs(axis[code_face]);
  } else {
    int f = code_face - 3;
    cosine = fabs(axis[0] * rot[f] + axis[1] * rot[3 + f] + axis[2] * rot[6 + f]);
  }
  return cosine > 0.99;
}

// Penetration tests for one axis each: false where the boxes are separated along it.
typedef struct axis_search {
  double rot[9], rotabs[9], size1[3], size2[3];  // real parts
  double best;
  int code;     // of the best axis: 0..2 faces of box 1, 3..5 of box 2, 6 + 3 i + j edges
  int tied[2];  // two faces of which a tilt decides, by its direction; -1: none
} axis_search;

static bool try_face_axis(const box_pair *p, axis_search *s, double separation, int code) {
  if (!(separation <= p->slack)) return false;
  if (separation > s->best) {
    s->best = separation;
    s->code = code;
  }
  return true;
}

// Faces i of box 1 and j of box 2 lie on each other and are equally deep. Any tilt decides for the one that reaches further
// across, whichever way it is, whose normal so is to be differentiated: the other's holds nowhere else. That is a face which the
// other lies within. What hangs on the tilt stays as it is.
static void take_wider_face(const box_pair *p, axis_search *s, int i, int j) {
  bool first = true, second = true;
  for (int step = 1; step < 3; step++) {
    int a = (i + step) % 3, b = (j + step) % 3;
    double extent1 = 0, extent2 = 0;
    for (int l = 0; l < 3; l++) {
      extent1 += l == i ? 0 : s->rotabs[3 * l + b] * s->size1[l];
      extent2 += l == j ? 0 : s->rotabs[3 * a + l] * s->size2[l];
    }
    first &= s->size1[a] - extent2 > abs_re(p->pos21[a]) + p->rounding;
    second &= s->size2[b] - extent1 > abs_re(p->pos12[b]) + p->rounding;
  }
  if (first || second) {
    s->code = first ? i : 3 + j;
    return;
  }
  s->tied[0] = i;
  s->tied[1] = 3 + j;
}

// Centers' distance along the face's normal, less the extents of both boxes.
static bool try_faces(const box_pair *p, axis_search *s) {
  const double *rotabs = s->rotabs, *size1 = s->size1, *size2 = s->size2;
  for (int i = 0; i < 3; i++) {
    double extent2 = rotabs[3 * i] * size2[0] + rotabs[3 * i + 1] * size2[1] + rotabs[3 * i + 2] * size2[2];
    if (!try_face_axis(p, s, abs_re(p->pos21[i]) - size1[i] - extent2, i)) return false;
  }
  axis_search first = *s;

  for (int j = 0; j < 3; j++) {
    double extent1 = rotabs[j] * size1[0] + rotabs[3 + j] * size1[1] + rotabs[6 + j] * size1[2];
    double separation = abs_re(p->pos12[j]) - size2[j] - extent1;
    if (!try_face_axis(p, s, separation, 3 + j)) return false;

    bool best = s->code == first.code || s->code == 3 + j, tie = fabs(separation - first.best) <= p->rounding;
    if (first.code < 0 || !best || !tie) continue;  // numbers without bounds have no best

    const double *normal = rotabs + 3 * first.code;
    bool parallel = normal[(j + 1) % 3] + normal[(j + 2) % 3] <= SEPARATION_SLACK;
    if (parallel) take_wider_face(p, s, first.code, j);
  }
  return true;
}

// The cross product of axis i of box 1 and axis j of box 2. `face`: the best separation of a face.
static bool try_edges(const box_pair *p, axis_search *s, int i, int j, double face) {
  const double *rot = s->rot, *size1 = s->size1, *size2 = s->size2;
  int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
  double c1 = -rot[3 * i2 + j], c2 = rot[3 * i1 + j], norm2 = c1 * c1 + c2 * c2;  // e_i x column j, part i is zero
  if (!(norm2 >= PARALLEL_SIN2)) return true;

  double inv = 1 / sqrt(norm2);
  c1 *= inv;
  c2 *= inv;
  double extent1 = size1[i1] * fabs(c1) + size1[i2] * fabs(c2);
  double d1 = c1 * rot[3 * i1 + j1] + c2 * rot[3 * i2 + j1], d2 = c1 * rot[3 * i1 + j2] + c2 * rot[3 * i2 + j2];
  double extent2 = size2[j1] * fabs(d1) + size2[j2] * fabs(d2);
  double separation = fabs(c1 * re(p->pos21[i1]) + c2 * re(p->pos21[i2])) - extent1 - extent2;
  if (!(separation <= p->slack)) return false;

  if (separation - EDGE_BIAS * fabs(separation) > s->best && separation > face) {
    s->best = separation;
    s->code = 6 + 3 * i + j;
  }
  return true;
}

// Separating axis theorem: code of the axis of largest separation, -1: separated. Only decisions: in doubles. tied: two faces lie
// on each other, and which of them it is hangs on the direction of a tilt.
static int separating_axis(const box_pair *p, bool *tied) {
  axis_search s = {.best = -1e10, .code = -1, .tied = {-1, -1}};
  *tied = false;
  for (int i = 0; i < 9; i++) {
    s.rot[i] = re(p->rot[i]);
    s.rotabs[i] = fabs(s.rot[i]);
  }
  for (int i = 0; i < 3; i++) {
    s.size1[i] = re(p->size1[i]);
    s.size2[i] = re(p->size2[i]);
  }

  if (!try_faces(p, &s)) return -1;
  PB_ASSERT(s.code >= 0 && s.code < 6);
  double face = s.best;
  int code_face = s.code;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      if (!try_edges(p, &s, i, j, face)) return -1;
    }
  }
  *tied = code_face == s.tied[0] || code_face == s.tied[1];
  if (s.code < 6) return s.code;

  // An edge axis near the best face's gives way to it unless it is better by five percent.
  bool yields = nearly_normal(s.rot, s.code, code_face) && s.best < face + 0.05 * fabs(face) + PB_TINY;
  *tied = *tied && yields;
  return yields ? code_face : s.code;
}

// Clipped to +-half; what of it is kept, and the end that it is clipped to (-1, 1) or 0.
static num clip_noting(num x, num half, num *place, int *clipped) {
  num inside = num_clip(x, -half, half);
  *place = inside;
  *clipped = re(x) > re(half) ? 1 : -(re(x) < -re(half));
  return inside;
}

// Nearest points w1, w2 (frame 1) of the edge of box 1 along axis i through corner c1 and that of box 2 along d2 through c2:
// Ericson, Real-Time Collision Detection, 5.1.9.
static void nearest_on_edges(const box_pair *p, int i, int j, const num c1[3], const num c2[3], NUM(pbBoxEdges) *out, num w1[3],
                             num w2[3]) {
  num d2[3], e[3];
  m3_col(d2, p->rot, j);
  v3_sub(e, c2, c1);

  // Axis i is a unit vector of frame 1, so that its products are components.
  num b = d2[i], denom = 1 - b * b, d1e = e[i], d2e = v3_dot(d2, e);
  num s = re(denom) < PB_TINY ? 0 : num_div(d1e - b * d2e, denom);
  s = clip_noting(s, p->size1[i], &out->start, &out->clipped[0]);
  num t = clip_noting(b * s - d2e, p->size2[j], &out->place[1], &out->clipped[2]);
  s = clip_noting(d1e + b * t, p->size1[i], &out->place[0], &out->clipped[1]);

  v3_copy(w1, c1);
  w1[i] += s;
  v3_along(w2, c2, d2, t);
}

// Of two components of an axis the one whose sign is noise; -1: none.
static int vague_component(const num axis[3], int a, int b) {
  if (abs_re(axis[a]) < SIGN_NOISE) return a;
  return abs_re(axis[b]) < SIGN_NOISE ? b : -1;
}

// Middle of the edge along axis i of a box that is farthest along `axis` (sign 1) or against it (-1), in the box's frame.
static void supporting_edge(const num size[3], const num axis[3], int i, double sign, num out[3]) {
  int i1 = (i + 1) % 3, i2 = (i + 2) % 3;
  out[i] = 0;
  out[i1] = (re(axis[i1]) >= 0) == (sign > 0) ? size[i1] : -size[i1];
  out[i2] = (re(axis[i2]) >= 0) == (sign > 0) ? size[i2] : -size[i2];
}

// Nearest points of the two edges that support the axis (frame 1). A component of the axis that is noise is tried with both
// signs, and the nearest pair wins.
static void nearest_edges(const box_pair *p, int i, int j, const num axis[3], NUM(pbBoxEdges) *out, num w1[3], num w2[3]) {
  num axis2[3];
  m3_tmulv(axis2, p->rot, axis);
  int vague1 = vague_component(axis, (i + 1) % 3, (i + 2) % 3), vague2 = vague_component(axis2, (j + 1) % 3, (j + 2) % 3);

  // Beyond all bounds none is nearest.
  *out = (NUM(pbBoxEdges)){.axis = {i, j}};
  double best = 1e10;
  for (int k = 0; k < 4; k++) {
    if (((k & 2) && vague1 < 0) || ((k & 1) && vague2 < 0)) continue;

    NUM(pbBoxEdges) edges = {.axis = {i, j}};
    num corner1[3], local2[3], corner2[3], p1[3], p2[3], gap[3];
    supporting_edge(p->size1, axis, i, 1, corner1);
    if (k & 2) corner1[vague1] = -corner1[vague1];
    supporting_edge(p->size2, axis2, j, -1, local2);
    if (k & 1) local2[vague2] = -local2[vague2];
    m3_mulv(corner2, p->rot, local2);
    v3_addto(corner2, p->pos21);

    nearest_on_edges(p, i, j, corner1, corner2, &edges, p1, p2);
    v3_sub(gap, p2, p1);
    if (re(v3_dot(gap, gap)) >= best) continue;
    best = re(v3_dot(gap, gap));
    v3_copy(edges.middle[0], corner1);
    v3_copy(edges.middle[1], local2);
    *out = edges;
    v3_copy(w1, p1);
    v3_copy(w2, p2);
  }
}

// Edge i of box 1 against edge j of box 2: one contact midway between their nearest points.
static int edge_edge(const box_pair *p, int i, int j, NUM(pbBoxEdges) *edges) {
  int i1 = (i + 1) % 3, i2 = (i + 2) % 3;
  num axis[3], w1[3] = {0}, w2[3] = {0}, gap[3], mid[3];
  PB_ASSERT(i >= 0 && i < 3 && j >= 0 && j < 3);
  axis[i] = 0;
  axis[i1] = -p->rot[3 * i2 + j];
  axis[i2] = p->rot[3 * i1 + j];
  v3_normalize(axis);

  // From box 1 to box 2.
  if (re(v3_dot(axis, p->pos21)) < 0) v3_neg(axis, axis);

  nearest_edges(p, i, j, axis, edges, w1, w2);
  v3_sub(gap, w2, w1);
  p->contacts->dist = v3_dot(gap, axis);
  if (!(re(p->contacts->dist) <= p->slack)) return 0;

  v3_add(mid, w1, w2);
  v3_scale(mid, mid, 0.5);
  m3_mulv(p->contacts->pos, p->box1->mat, mid);
  v3_addto(p->contacts->pos, p->box1->pos);
  m3_mulv(p->contacts->normal, p->box1->mat, axis);
  v3_zero(p->contacts->hint);
  return 1;
}

// Keep the part of a polygon where sign * x[coord] <= limit (Sutherland and Hodgman); out has room for PB_BOX_VERTICES.
// line: the number of the line that it is clipped against.
static int clip_half_plane(int n, const vertex *in, vertex *out, int coord, double sign, num limit, int line) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    const vertex *p = &in[k], *q = &in[k + 1 == n ? 0 : k + 1];
    num dp = sign * p->x[coord] - limit, dq = sign * q->x[coord] - limit;
    bool crosses = (re(dp) < 0 && re(dq) > 0) || (re(dp) > 0 && re(dq) < 0);

    // A corner on the line is where the polygon may leave it.
    if (re(dp) <= 0 && count < PB_BOX_VERTICES) {
      out[count] = *p;
      if (!crosses && re(dq) > 0) out[count].edge = line;
      count++;
    }

    // A side that crosses the line gives its crossing point.
    if (crosses && count < PB_BOX_VERTICES) {
      // Linear interpolation of the signed distances.
      num t = num_div(dp, dp - dq), step[3];
      v3_sub(step, q->x, p->x);
      out[count] = (vertex){.line = {p->edge, line}, .edge = re(dq) > 0 ? line : p->edge};
      v3_along(out[count++].x, p->x, step, t);
    }
  }
  return count;
}

// Corners of the incident face in coordinates of the reference face: in its plane (x, y), and height above it (z).
static void incident_face(const box_pair *p, NUM(pbBoxFaces) *f) {
  num inc[9];
  bool first = f->first;
  int a = f->axis;
  double sign = f->sign;
  const num *center = first ? p->pos21 : p->pos12, *size = first ? p->size2 : p->size1, *ref = first ? p->size1 : p->size2;

  if (first) {
    m3_copy(inc, p->rot);
  } else {
    m3_transpose(inc, p->rot);
  }

  // The axis of the other box that is most parallel to the normal, and which of its two faces looks at us.
  int b = 0;
  for (int k = 1; k < 3; k++) {
    if (abs_re(inc[3 * a + k]) > abs_re(inc[3 * a + b])) b = k;
  }
  double facing = sign * re(inc[3 * a + b]) > 0 ? -1 : 1;
  f->incident = b;
  f->facing = facing;

  int bu = (b + 1) % 3, bv = (b + 2) % 3, coords[3] = {(a + 1) % 3, (a + 2) % 3, a};
  static const signed char corner[4][2] = {{1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
  for (int r = 0; r < 3; r++) {
    int c = coords[r];
    num mid = center[c] + facing * size[b] * inc[3 * c + b], du = size[bu] * inc[3 * c + bu], dv = size[bv] * inc[3 * c + bv];

    // Heights count outward from the reference face.
    if (r == 2) {
      mid = sign * mid - ref[a];
      du = sign * du;
      dv = sign * dv;
    }
    for (int k = 0; k < 4; k++) f->poly[0][k].x[r] = mid + corner[k][0] * du + corner[k][1] * dv;
  }
  for (int k = 0; k < 4; k++) {
    f->poly[0][k].line[0] = (k + 3) % 4;
    f->poly[0][k].line[1] = f->poly[0][k].edge = k;
  }
}

// Vertices of a polygon within margin of the reference face, each once. Returns their number.
static int keep_vertices(const box_pair *p, int n, const vertex *poly, double same, int kept[PB_BOX_VERTICES]) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    bool keep = re(poly[k].x[2]) <= p->margin;
    for (int q = 0; q < count && keep; q++) {
      double dx = re(poly[kept[q]].x[0]) - re(poly[k].x[0]), dy = re(poly[kept[q]].x[1]) - re(poly[k].x[1]);
      keep = !(dx * dx + dy * dy < same);
    }
    if (keep) kept[count++] = k;
  }
  return count;
}

// The incident face clipped against the sides of the reference face: a contact at each vertex that is left below it.
static int face_face(const box_pair *p, int code, NUM(pbBoxFaces) *f) {
  bool first = code < 3;
  PB_ASSERT(code >= 0 && code < 6);
  int a = first ? code : code - 3, ax = (a + 1) % 3, ay = (a + 2) % 3, n = 4;
  const NUM(pbShape) *ref = first ? p->box1 : p->box2;
  double sign = re((first ? p->pos21 : p->pos12)[a]) >= 0 ? 1 : -1;

  f->first = first;
  f->axis = a;
  f->sign = sign;
  incident_face(p, f);
  n = clip_half_plane(n, f->poly[0], f->poly[1], 0, 1, ref->size[ax], 4);
  n = clip_half_plane(n, f->poly[1], f->poly[0], 0, -1, ref->size[ax], 5);
  n = clip_half_plane(n, f->poly[0], f->poly[1], 1, 1, ref->size[ay], 6);
  n = clip_half_plane(n, f->poly[1], f->poly[0], 1, -1, ref->size[ay], 7);

  double same = SAME_VERTEX * (re(ref->size[ax]) * re(ref->size[ax]) + re(ref->size[ay]) * re(ref->size[ay]));
  PB_ASSERT(n >= 0 && n <= PB_BOX_VERTICES);
  int count = keep_vertices(p, n, f->poly[0], same, f->kept);
  PB_ASSERT(count <= PB_MAX_CONTACT_POINTS);

  num normal[3];
  m3_col(normal, ref->mat, a);
  if (first != (sign > 0)) v3_neg(normal, normal);

  // Midway between the vertex and the reference face; the normal points from box 1 to box 2.
  for (int k = 0; k < count; k++) {
    const num *v = f->poly[0][f->kept[k]].x;
    NUM(pbContactPoint) *contact = &p->contacts[k];
    num local[3];
    local[ax] = v[0];
    local[ay] = v[1];
    local[a] = sign * (ref->size[a] + 0.5 * v[2]);

    contact->dist = v[2];
    m3_mulv(contact->pos, ref->mat, local);
    v3_addto(contact->pos, ref->pos);
    v3_copy(contact->normal, normal);
    v3_zero(contact->hint);
  }
  return count;
}

// Each box's center and axes in the frame of the other.
static void set_pair(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, box_pair *p) {
  *p = (box_pair){.size1 = box1->size, .size2 = box2->size, .box1 = box1, .box2 = box2, .margin = margin};
  num dif[3];

  v3_sub(dif, box2->pos, box1->pos);
  m3_tmulv(p->pos21, box1->mat, dif);
  v3_neg(dif, dif);
  m3_tmulv(p->pos12, box2->mat, dif);
  m3_tmul(p->rot, box1->mat, box2->mat);
  for (int i = 0; i < 3; i++) p->rounding += SEPARATION_SLACK * (re(box1->size[i]) + re(box2->size[i]));
  p->slack = margin + p->rounding;
}

int NUM(pbBox_Touch)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, NUM(pbBoxTouch) *touch,
                     NUM(pbContactPoint) *contacts) {
  box_pair p;
  bool tied;
  set_pair(box1, box2, margin, &p);
  p.contacts = contacts;

  int code = separating_axis(&p, &tied);
  if (code < 0) return 0;
  touch->edges_meet = code >= 6;
  return code >= 6 ? edge_edge(&p, (code - 6) / 3, (code - 6) % 3, &touch->edges) : face_face(&p, code, &touch->faces);
}

int NUM(pbBox_Box)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, NUM(pbContactPoint) *contacts) {
  NUM(pbBoxTouch) touch;
  return NUM(pbBox_Touch)(box1, box2, margin, &touch, contacts);
}

#if !PB_IS_COMPLEX
int NUM(pbBox_Feature)(const NUM(pbShape) *box1, const NUM(pbShape) *box2) {
  box_pair p;
  bool tied;
  set_pair(box1, box2, INFINITY, &p);
  int code = separating_axis(&p, &tied);
  return tied ? -1 : code;
}
#endif
