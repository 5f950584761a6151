// Boxes against balls, capsules and boxes, with the feature choices of MuJoCo (engine_collision_box.c, 3.12 and later).
#include "base/assert.h"
#include "geometry/pair.h"
#include "geometry/primitive.h"

// ---- ball and box -------------------------------------------------------------------------------------------------
// Center outside: toward the nearest point of the box. Center inside: out through the nearest face.
int NUM(pbSphere_Box)(const num center[3], num radius, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts) {
  num dif[3], local[3], nearest[3], toward[3], pos[3];
  const num *size = box->size;

  v3_sub(dif, center, box->pos);
  m3_tmulv(local, box->mat, dif);
  // Nearest point of the box by clamping; an axis of size zero does not clamp.
  for (int i = 0; i < 3; i++) {
    nearest[i] = re(size[i]) > 0 ? num_clip(local[i], -size[i], size[i]) : local[i];
    toward[i] = nearest[i] - local[i];
  }

  num gap2 = v3_dot(toward, toward);
  // Squares first, with slack for their rounding: the root only where it may be needed.
  double reach = margin + re(radius);
  if (!(re(gap2) <= reach * reach * (1 + 1e-12)) || reach < 0) return 0;
  num gap = re(gap2) > 0 ? num_sqrt(gap2) : 0;
  if (!(re(gap) - re(radius) <= margin)) return 0;

  if (re(gap) > PB_TINY) {
    v3_scale(toward, toward, num_div(1, gap));
    for (int i = 0; i < 3; i++) pos[i] = 0.5 * (nearest[i] + local[i] + radius * toward[i]);
  } else {
    // Depth below each of the six faces; smooth where the center is on the face.
    int face = 0;
    num best = 2 * (size[0] + size[1] + size[2]);
    for (int i = 0; i < 6; i++) {
      num depth = i % 2 ? size[i / 2] - local[i / 2] : size[i / 2] + local[i / 2];
      num d = num_make(fabs(re(depth)), im(depth));
      if (re(best) > re(d)) {
        best = d;
        face = i;
      }
    }

    v3_zero(toward);
    toward[face / 2] = face % 2 ? -1 : 1;
    v3_along(pos, local, toward, 0.5 * (radius - best));
    gap = -best;
  }

  contacts->dist = gap - radius;
  m3_mulv(contacts->normal, box->mat, toward);
  m3_mulv(contacts->pos, box->mat, pos);
  v3_addto(contacts->pos, box->pos);
  v3_zero(contacts->hint);
  return 1;
}

// ---- capsule and box ----------------------------------------------------------------------------------------------
// The nearest point of the capsule's segment to the box is found among features, then a second point on the segment is
// chosen along the box; both become balls against the box. Positions on the segment are in [-1, 1].
typedef struct box_segment {
  num center[3], half[3];  // segment in the box's frame: center, half axis
  const num *size;
  num length;     // |half|
  int direction;  // bit i: half[i] > 0
} box_segment;

typedef struct nearest_feature {
  enum { near_nothing, near_face, near_edge } kind;
  num along;    // position on the segment
  int face;     // axis of the face; -1: the end is inside (near_face)
  int edge;     // axis of the edge (near_edge)
  int on_edge;  // 0: lower corner, 1: interior, 2: upper corner (near_edge)
  int corner;   // binary code of the corner at the edge's lower end, or the upper one if that is nearest
  num box_along;
} nearest_feature;

// The same in doubles: which feature it is depends on real parts only. x1 on the edge, x2 on the segment; clamp: -1, 0, 1.
// side: the corner MuJoCo takes the edge's point for: its last clamp, also where x1 became free again.
typedef struct edge_match {
  double x1, x2;
  int clamp1, clamp2, side;
} edge_match;

// An end of the segment whose nearest point lies in a face, or is inside.
static void nearest_face(const double center[3], const double half[3], const double size[3], double *best, nearest_feature *out) {
  for (int end = -1; end <= 1; end += 2) {
    double d2 = 0;
    int outside = 0, face = -1;

    for (int j = 0; j < 3; j++) {
      // Outside along one axis: over that face. Along two or three: an edge or a corner is nearer.
      double over = fabs(center[j] + end * half[j]) - size[j];
      if (!(over > 0)) continue;
      outside++;
      face = j;
      d2 += over * over;
    }

    if (outside > 1 || !(d2 < *best)) continue;
    *best = d2;
    *out = (nearest_feature){.kind = near_face, .along = end, .face = face};
  }
}

static int side_of_unit(double x) {
  if (x > 1) return 1;
  return x < -1 ? -1 : 0;
}

static double clamp_unit(double x, int *clamp) {
  *clamp = side_of_unit(x);
  return *clamp ? *clamp : x;
}

// Minimum of a x1^2 + 2 b x1 x2 + c x2^2 - 2 u x1 - 2 v x2 in MuJoCo's order of clamping.
static void match_edge(double a, double b, double c, double u, double v, double idet, edge_match *m) {
  m->x2 = (a * v - b * u) * idet;
  m->x1 = clamp_unit((c * u - b * v) * idet, &m->clamp1);
  if (m->clamp1) m->x2 = (v - m->x1 * b) / c;

  m->x2 = clamp_unit(m->x2, &m->clamp2);
  m->side = m->clamp1;
  // Clamping x2 frees x1 again, which then may be clamped at another end than before.
  if (m->clamp2) m->x1 = clamp_unit((u - m->x2 * b) / a, &m->clamp1);
  if (m->clamp1) m->side = m->clamp1;
}

// Coordinate k of the box's corner with this binary code.
static num corner_coordinate(const num size[3], int corner, int k) { return corner & (1 << k) ? size[k] : -size[k]; }

// The edge nearest to the segment, if nearer than best. An edge is its axis j and the code i of the corner at its lower end.
static bool nearest_edge(const double center[3], const double half[3], const double size[3], double length, double *best,
                         int *corner, int *axis, edge_match *match) {
  bool found = false;
  double c = length * length;
  for (int j = 0; j < 3; j++) {
    double a = size[j] * size[j], b = -size[j] * half[j], det = a * c - b * b;
    if (!(fabs(det) >= PB_TINY)) continue;

    double idet = 1 / det;
    for (int i = 0; i < 8; i++) {
      if (i & (1 << j)) continue;

      double dif[3], d2 = 0;
      for (int k = 0; k < 3; k++) {
        double corner_k = i & (1 << k) ? size[k] : -size[k];
        dif[k] = (k == j ? 0 : corner_k) - center[k];
      }
      double v = half[0] * dif[0] + half[1] * dif[1] + half[2] * dif[2];
      edge_match m;
      match_edge(a, b, c, -size[j] * dif[j], v, idet, &m);

      for (int k = 0; k < 3; k++) {
        double d = dif[k] + half[k] * -m.x2 + (k == j ? size[j] * m.x1 : 0);
        d2 += d * d;
      }

      if (!(d2 < *best - PB_TINY)) continue;  // the slack keeps parallel configurations steady
      *best = d2;
      *corner = i;
      *axis = j;
      *match = m;
      found = true;
    }
  }
  return found;
}

// Positions of the match found, in the number type.
static void set_edge(const box_segment *s, int i, int j, const edge_match *m, nearest_feature *out) {
  num dif[3];
  for (int k = 0; k < 3; k++) dif[k] = (k == j ? 0 : corner_coordinate(s->size, i, k)) - s->center[k];

  // The same 2x2 system as in match_edge, with the clamps found there.
  num a = s->size[j] * s->size[j], b = -s->size[j] * s->half[j], c = s->length * s->length;
  num u = -s->size[j] * dif[j], v = v3_dot(s->half, dif), x1 = m->clamp1, x2 = m->clamp2;
  if (!m->clamp1 && !m->clamp2) {
    num idet = num_div(1, a * c - b * b);
    x1 = (c * u - b * v) * idet;
    x2 = (a * v - b * u) * idet;
  } else if (!m->clamp1) {
    x1 = num_div(u - x2 * b, a);
  } else if (!m->clamp2) {
    x2 = num_div(v - x1 * b, c);
  }

  int on_edge = 1 + m->side;
  *out = (nearest_feature){
      .kind = near_edge, .along = x2, .edge = j, .on_edge = on_edge, .corner = i | (on_edge == 2 ? 1 << j : 0), .box_along = x1};
}

static void find_nearest(const box_segment *s, double best, nearest_feature *out) {
  double center[3], half[3], size[3];
  int corner = 0, axis = 0;
  edge_match match;

  for (int i = 0; i < 3; i++) {
    center[i] = re(s->center[i]);
    half[i] = re(s->half[i]);
    size[i] = re(s->size[i]);
  }

  *out = (nearest_feature){.kind = near_nothing};
  nearest_face(center, half, size, &best, out);

  // Faces first: an edge must be nearer than what they gave.
  if (nearest_edge(center, half, size, re(s->length), &best, &corner, &axis, &match)) set_edge(s, corner, axis, &match, out);
}

// A step along the segment, shortened to where it has advanced by `width` along an axis of the box. rate: what it advances there
// in a step of one.
static num shortened(num step, num width, num rate) {
  if (re(rate) == 0) return step;
  num most = num_div(width, num_abs(rate));
  return re(most) < re(step) ? most : step;
}

// The second_from_ functions give the step along the segment from the position nearest to the box to a second one; false where
// there is none.

// From a corner: along the edge the segment leans on, or across a face.
static bool second_from_corner(const box_segment *s, const nearest_feature *f, num *out) {
  int inward = s->direction ^ f->corner;         // bit i: along axis i the segment's upper half goes into the box's extent
  if (inward == 0 || inward == 7) return false;  // along no axis, or along all: one end points at the corner

  num ahead = 1 - f->along, behind = 1 + f->along, sign = 1;
  if (inward == 3 || inward == 5 || inward == 6) {  // two axes: the lower half has one
    inward = 7 - inward;
    ahead = 1 + f->along;
    behind = 1 - f->along;
    sign = -1;
  }

  // The one axis left: its edge, if the segment is within 45 degrees of it, else the face across it.
  int ax = inward >> 1, ax1 = (ax + 1) % 3, ax2 = (ax + 2) % 3;
  double cosine = re(s->half[ax]) / re(s->length);
  if (cosine * cosine > 0.5) {
    *out = sign * shortened(ahead, 2 * s->size[ax], s->half[ax]);
    return true;
  }

  num step = shortened(behind, 2 * s->size[ax1], s->half[ax1]);
  *out = -sign * shortened(step, 2 * s->size[ax2], s->half[ax2]);
  return true;
}

// From the interior of an edge: toward the face with which the segment makes the smaller angle.
static bool second_from_edge(const box_segment *s, const nearest_feature *f, num *out) {
  int ax = f->edge, inward = (s->direction ^ f->corner) & (7 - (1 << ax));
  if (inward != 1 && inward != 2 && inward != 4) return false;  // across neither face, or both: one end points at the edge

  // ax2: of the two axes across the edge, the one along which the segment advances more.
  int ax1 = (ax + 1) % 3, ax2 = (ax + 2) % 3;
  if (fabs(re(s->half[ax1])) > fabs(re(s->half[ax2]))) ax1 = ax2;
  ax2 = 3 - ax - ax1;

  bool up = inward & (1 << ax2);
  num step = up ? 1 - f->along : 1 + f->along;
  step = shortened(step, 2 * s->size[ax2], s->half[ax2]);

  // The step ends at the end of the edge, too.
  bool same = ((s->direction & (1 << ax)) != 0) == up;
  num room = same ? 1 - f->box_along : 1 + f->box_along;
  step = shortened(step, s->size[ax] * room, s->half[ax]);

  *out = up ? step : -step;
  return true;
}

// From an end over a face: as far as the segment stays over the face.
static bool second_from_face(const box_segment *s, const nearest_feature *f, num *out) {
  if (f->face < 0) return false;

  double sign = re(f->along) < 0 ? 1 : -1;
  num step = 2;

  for (int i = 0; i < 3; i++) {
    if (i == f->face || re(s->half[i]) == 0) continue;
    // The parameter, counted from the nearest end, at which the segment crosses either side of the face.
    num end = s->center[i] - sign * s->half[i];
    for (int side = 1; side >= -1; side -= 2) {
      num room = sign * num_div(side * s->size[i] - end, s->half[i]);
      if (re(room) > 0 && re(room) < re(step)) step = room;
    }
  }

  *out = sign * step;
  return true;
}

// Contact of the ball about one point of the segment.
static int segment_ball(const box_segment *s, num along, num radius, const NUM(pbShape) *box, double margin,
                        NUM(pbContactPoint) *contacts) {
  num local[3], world[3];
  v3_along(local, s->center, s->half, along);
  m3_mulv(world, box->mat, local);
  v3_addto(world, box->pos);
  return NUM(pbSphere_Box)(world, radius, box, margin, contacts);
}

static bool second_position(const box_segment *s, const nearest_feature *f, num *step) {
  if (f->kind == near_face) return second_from_face(s, f, step);
  if (f->on_edge == 1) return second_from_edge(s, f, step);
  return second_from_corner(s, f, step);
}

int NUM(pbCapsule_Box)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts) {
  box_segment s = {.size = box->size, .length = capsule->size[1]};
  num dif[3], axis[3], radius = capsule->size[0];
  v3_sub(dif, capsule->pos, box->pos);
  m3_tmulv(s.center, box->mat, dif);
  m3_col(axis, capsule->mat, 2);
  m3_tmulv(s.half, box->mat, axis);
  v3_scale(s.half, s.half, s.length);

  // Bounding boxes first: most pairs are apart.
  double reach = margin + re(radius), sizes = 0;
  for (int i = 0; i < 3; i++) {
    sizes += re(box->size[i]);
    s.direction |= re(s.half[i]) > 0 ? 1 << i : 0;
    if (!(fabs(re(s.center[i])) <= (re(box->size[i]) + fabs(re(s.half[i])) + reach) * (1 + 1e-9))) return 0;  // apart
  }

  nearest_feature f;
  find_nearest(&s, margin + 2 * (re(radius) + re(s.length) + sizes), &f);
  if (f.kind == near_nothing) return 0;

  num step = 0;
  bool second = second_position(&s, &f, &step);
  int count = segment_ball(&s, f.along, radius, box, margin, contacts);
  if (second) count += segment_ball(&s, f.along + step, radius, box, margin, contacts + count);
  return count;
}

// ---- box and box --------------------------------------------------------------------------------------------------
// Separating axis of largest separation among 15, then either the nearest points of two edges or the incident face
// clipped against the reference face. Constants as in MuJoCo.
#define SEPARATION_SLACK 1e-13  // times the summed half sizes: rounding of a support
#define PARALLEL_SIN2    1e-16  // sin^2 of an angle of edges whose cross product is noise
#define SIGN_NOISE       1e-9   // axis components whose sign says nothing
#define SAME_VERTEX      1e-14  // squared, relative to the reference face
#define EDGE_BIAS        1e-6   // an edge must beat a face by this
#define MAX_VERTICES     12

typedef struct box_pair {
  num rot[9];              // axes of box 2 in the frame of box 1 (columns)
  num pos21[3], pos12[3];  // center of 2 in frame 1, center of 1 in frame 2
  const num *size1, *size2;
  const NUM(pbShape) *box1, *box2;
  double margin, rounding, slack;  // rounding: of a separation; slack: margin and rounding
  NUM(pbContactPoint) *contacts;
} box_pair;

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
  int code;  // of the best axis: 0..2 faces of box 1, 3..5 of box 2, 6 + 3 i + j edges
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
// across, whose normal so is to be differentiated: the other's holds nowhere else. What hangs on the tilt stays as it is.
static void take_wider_face(const box_pair *p, axis_search *s, int i, int j) {
  bool first = true, second = true;
  for (int across = (i + 1) % 3; across != i; across = (across + 1) % 3) {
    double extent2 = 0, more = abs_re(p->pos21[across]) + p->rounding;
    for (int l = 0; l < 3; l++) extent2 += l == j ? 0 : s->rotabs[3 * across + l] * s->size2[l];
    first &= s->size1[across] - extent2 > more;
    second &= extent2 - s->size1[across] > more;
  }
  if (first || second) s->code = first ? i : 3 + j;
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

// Separating axis theorem: code of the axis of largest separation, -1: separated. Only decisions: in doubles.
static int separating_axis(const box_pair *p) {
  axis_search s = {.best = -1e10, .code = -1};
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
  if (s.code < 6) return s.code;

  // An edge axis near the best face's gives way to it unless it is better by five percent.
  bool yields = nearly_normal(s.rot, s.code, code_face) && s.best < face + 0.05 * fabs(face) + PB_TINY;
  return yields ? code_face : s.code;
}

// Nearest points w1, w2 (frame 1) of the edge of box 1 along axis i through corner c1 and that of box 2 along d2 through c2:
// Ericson, Real-Time Collision Detection, 5.1.9.
static void nearest_on_edges(const box_pair *p, int i, int j, const num c1[3], const num c2[3], num w1[3], num w2[3]) {
  num d2[3], e[3];
  m3_col(d2, p->rot, j);
  v3_sub(e, c2, c1);

  // Axis i is a unit vector of frame 1, so that its products are components.
  num b = d2[i], denom = 1 - b * b, d1e = e[i], d2e = v3_dot(d2, e);
  num s = re(denom) < PB_TINY ? 0 : num_div(d1e - b * d2e, denom);
  s = num_clip(s, -p->size1[i], p->size1[i]);
  num t = num_clip(b * s - d2e, -p->size2[j], p->size2[j]);
  s = num_clip(d1e + b * t, -p->size1[i], p->size1[i]);

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
static void nearest_edges(const box_pair *p, int i, int j, const num axis[3], num w1[3], num w2[3]) {
  num axis2[3];
  m3_tmulv(axis2, p->rot, axis);
  int vague1 = vague_component(axis, (i + 1) % 3, (i + 2) % 3), vague2 = vague_component(axis2, (j + 1) % 3, (j + 2) % 3);

  double best = 1e10;
  for (int k = 0; k < 4; k++) {
    if (((k & 2) && vague1 < 0) || ((k & 1) && vague2 < 0)) continue;

    num corner1[3], local2[3], corner2[3], p1[3], p2[3], gap[3];
    supporting_edge(p->size1, axis, i, 1, corner1);
    if (k & 2) corner1[vague1] = -corner1[vague1];
    supporting_edge(p->size2, axis2, j, -1, local2);
    if (k & 1) local2[vague2] = -local2[vague2];
    m3_mulv(corner2, p->rot, local2);
    v3_addto(corner2, p->pos21);

    nearest_on_edges(p, i, j, corner1, corner2, p1, p2);
    v3_sub(gap, p2, p1);
    if (re(v3_dot(gap, gap)) >= best) continue;
    best = re(v3_dot(gap, gap));
    v3_copy(w1, p1);
    v3_copy(w2, p2);
  }
}

// Edge i of box 1 against edge j of box 2: one contact midway between their nearest points.
static int edge_edge(const box_pair *p, int i, int j) {
  int i1 = (i + 1) % 3, i2 = (i + 2) % 3;
  num axis[3], w1[3] = {0}, w2[3] = {0}, gap[3], mid[3];
  PB_ASSERT(i >= 0 && i < 3 && j >= 0 && j < 3);
  axis[i] = 0;
  axis[i1] = -p->rot[3 * i2 + j];
  axis[i2] = p->rot[3 * i1 + j];
  v3_normalize(axis);

  // From box 1 to box 2.
  if (re(v3_dot(axis, p->pos21)) < 0) v3_neg(axis, axis);

  nearest_edges(p, i, j, axis, w1, w2);
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

// Keep the part of a polygon where sign * v[coord] <= limit (Sutherland and Hodgman); out has room for MAX_VERTICES.
static int clip_half_plane(int n, const num (*in)[3], num (*out)[3], int coord, double sign, num limit) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    const num *p = in[k], *q = in[k + 1 == n ? 0 : k + 1];
    num dp = sign * p[coord] - limit, dq = sign * q[coord] - limit;

    if (re(dp) <= 0 && count < MAX_VERTICES) v3_copy(out[count++], p);

    // A side that crosses the line gives its crossing point.
    bool crosses = (re(dp) < 0 && re(dq) > 0) || (re(dp) > 0 && re(dq) < 0);
    if (crosses && count < MAX_VERTICES) {
      // Linear interpolation of the signed distances.
      num t = num_div(dp, dp - dq), step[3];
      v3_sub(step, q, p);
      v3_along(out[count++], p, step, t);
    }
  }
  return count;
}

// Corners of the incident face in coordinates of the reference face: in its plane (x, y), and height above it (z).
static void incident_face(const box_pair *p, bool first, int a, double sign, num poly[4][3]) {
  num inc[9];
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
    for (int k = 0; k < 4; k++) poly[k][r] = mid + corner[k][0] * du + corner[k][1] * dv;
  }
}

// Vertices of a polygon within margin of the reference face, each once. Returns their number.
static int keep_vertices(const box_pair *p, int n, const num (*poly)[3], double same, int kept[MAX_VERTICES]) {
  int count = 0;
  for (int k = 0; k < n; k++) {
    bool keep = re(poly[k][2]) <= p->margin;
    for (int q = 0; q < count && keep; q++) {
      double dx = re(poly[kept[q]][0]) - re(poly[k][0]), dy = re(poly[kept[q]][1]) - re(poly[k][1]);
      keep = !(dx * dx + dy * dy < same);
    }
    if (keep) kept[count++] = k;
  }
  return count;
}

// The incident face clipped against the sides of the reference face: a contact at each vertex that is left below it.
static int face_face(const box_pair *p, int code) {
  bool first = code < 3;
  PB_ASSERT(code >= 0 && code < 6);
  int a = first ? code : code - 3, ax = (a + 1) % 3, ay = (a + 2) % 3, n = 4, kept[MAX_VERTICES];
  const NUM(pbShape) *ref = first ? p->box1 : p->box2;
  double sign = re((first ? p->pos21 : p->pos12)[a]) >= 0 ? 1 : -1;

  num poly[2][MAX_VERTICES][3];
  incident_face(p, first, a, sign, poly[0]);
  n = clip_half_plane(n, poly[0], poly[1], 0, 1, ref->size[ax]);
  n = clip_half_plane(n, poly[1], poly[0], 0, -1, ref->size[ax]);
  n = clip_half_plane(n, poly[0], poly[1], 1, 1, ref->size[ay]);
  n = clip_half_plane(n, poly[1], poly[0], 1, -1, ref->size[ay]);

  double same = SAME_VERTEX * (re(ref->size[ax]) * re(ref->size[ax]) + re(ref->size[ay]) * re(ref->size[ay]));
  PB_ASSERT(n >= 0 && n <= MAX_VERTICES);
  int count = keep_vertices(p, n, poly[0], same, kept);
  PB_ASSERT(count <= PB_MAX_CONTACT_POINTS);

  num normal[3];
  m3_col(normal, ref->mat, a);
  if (first != (sign > 0)) v3_neg(normal, normal);

  // Midway between the vertex and the reference face; the normal points from box 1 to box 2.
  for (int k = 0; k < count; k++) {
    const num *v = poly[0][kept[k]];
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

int NUM(pbBox_Box)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, NUM(pbContactPoint) *contacts) {
  box_pair p = {.size1 = box1->size, .size2 = box2->size, .box1 = box1, .box2 = box2, .margin = margin, .contacts = contacts};
  num dif[3];

  v3_sub(dif, box2->pos, box1->pos);

  // Each box's center and axes in the frame of the other.
  m3_tmulv(p.pos21, box1->mat, dif);
  v3_neg(dif, dif);
  m3_tmulv(p.pos12, box2->mat, dif);
  m3_tmul(p.rot, box1->mat, box2->mat);
  for (int i = 0; i < 3; i++) p.rounding += SEPARATION_SLACK * (re(box1->size[i]) + re(box2->size[i]));
  p.slack = margin + p.rounding;

  int code = separating_axis(&p);
  if (code < 0) return 0;
  return code >= 6 ? edge_edge(&p, (code - 6) / 3, (code - 6) % 3) : face_face(&p, code);
}
