// Boxes against balls and capsules, with the feature choices of MuJoCo (engine_collision_box.c, 3.12 and later). Jacobians:
// box_rates.c.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/oracle/test_geometry.py.
#include "geometry/box.h"

#include "base/assert.h"

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
typedef NUM(pbBoxSegment) box_segment;
typedef NUM(pbBoxNearest) nearest_feature;
typedef NUM(pbBoxSecond) second_place;

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
    *out = (nearest_feature){.kind = pb_nearFace, .along = end, .face = face};
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
  *out = (nearest_feature){.kind = pb_nearEdge,
                           .along = x2,
                           .edge = j,
                           .on_edge = on_edge,
                           .corner = i | (on_edge == 2 ? 1 << j : 0),
                           .box_along = x1};
  out->clamped[0] = m->clamp1;
  out->clamped[1] = m->clamp2;
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

  *out = (nearest_feature){.kind = pb_nearNothing};
  nearest_face(center, half, size, &best, out);

  // Faces first: an edge must be nearer than what they gave.
  if (nearest_edge(center, half, size, re(s->length), &best, &corner, &axis, &match)) set_edge(s, corner, axis, &match, out);
}

// Shortens a step along the segment to where it has advanced by `width` along an axis of the box.
static void shorten(const box_segment *s, second_place *out, pbSecondKind kind, int axis, num width) {
  num rate = s->half[axis];
  if (re(rate) == 0) return;
  num most = num_div(width, num_abs(rate));
  if (!(re(most) < re(out->step))) return;

  out->step = most;
  out->kind = kind;
  out->axis = axis;
}

// The second_from_ functions give the step along the segment from the position nearest to the box to a second one; none where
// there is none.

// From a corner: along the edge the segment leans on, or across a face.
static void second_from_corner(const box_segment *s, const nearest_feature *f, second_place *out) {
  int inward = s->direction ^ f->corner;   // bit i: along axis i the segment's upper half goes into the box's extent
  if (inward == 0 || inward == 7) return;  // along no axis, or along all: one end points at the corner

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
  out->kind = pb_secondEnd;
  if (cosine * cosine > 0.5) {
    out->step = ahead;
    shorten(s, out, pb_secondAcross, ax, 2 * s->size[ax]);
    out->step = sign * out->step;
    return;
  }

  out->step = behind;
  shorten(s, out, pb_secondAcross, ax1, 2 * s->size[ax1]);
  shorten(s, out, pb_secondAcross, ax2, 2 * s->size[ax2]);
  out->step = -sign * out->step;
}

// From the interior of an edge: toward the face with which the segment makes the smaller angle.
static void second_from_edge(const box_segment *s, const nearest_feature *f, second_place *out) {
  int ax = f->edge, inward = (s->direction ^ f->corner) & (7 - (1 << ax));
  if (inward != 1 && inward != 2 && inward != 4) return;  // across neither face, or both: one end points at the edge

  // ax2: of the two axes across the edge, the one along which the segment advances more.
  int ax1 = (ax + 1) % 3, ax2 = (ax + 2) % 3;
  if (fabs(re(s->half[ax1])) > fabs(re(s->half[ax2]))) ax1 = ax2;
  ax2 = 3 - ax - ax1;

  bool up = inward & (1 << ax2);
  out->kind = pb_secondEnd;
  out->step = up ? 1 - f->along : 1 + f->along;
  shorten(s, out, pb_secondAcross, ax2, 2 * s->size[ax2]);

  // The step ends at the end of the edge, too.
  out->side = ((s->direction & (1 << ax)) != 0) == up ? 1 : -1;
  num room = out->side > 0 ? 1 - f->box_along : 1 + f->box_along;
  shorten(s, out, pb_secondEdgeEnd, ax, s->size[ax] * room);
  if (!up) out->step = -out->step;
}

// From an end over a face: as far as the segment stays over the face.
static void second_from_face(const box_segment *s, const nearest_feature *f, second_place *out) {
  if (f->face < 0) return;

  double sign = re(f->along) < 0 ? 1 : -1;
  out->kind = pb_secondEnd;
  out->step = 2;

  for (int i = 0; i < 3; i++) {
    if (i == f->face || re(s->half[i]) == 0) continue;
    // The parameter, counted from the nearest end, at which the segment crosses either side of the face.
    num end = s->center[i] - sign * s->half[i];
    for (int side = 1; side >= -1; side -= 2) {
      num room = sign * num_div(side * s->size[i] - end, s->half[i]);
      if (!(re(room) > 0 && re(room) < re(out->step))) continue;
      *out = (second_place){.kind = pb_secondSide, .axis = i, .side = side, .step = room};
    }
  }

  out->step = sign * out->step;
}

void NUM(pbSegment_Point)(const box_segment *s, num along, const NUM(pbShape) *box, num out[3]) {
  num local[3];
  v3_along(local, s->center, s->half, along);
  m3_mulv(out, box->mat, local);
  v3_addto(out, box->pos);
}

bool NUM(pbSegment_Places)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, box_segment *s,
                           nearest_feature *first, second_place *second) {
  num dif[3], axis[3];
  *s = (box_segment){.size = box->size, .length = capsule->size[1]};
  v3_sub(dif, capsule->pos, box->pos);
  m3_tmulv(s->center, box->mat, dif);
  m3_col(axis, capsule->mat, 2);
  m3_tmulv(s->half, box->mat, axis);
  v3_scale(s->half, s->half, s->length);

  // Bounding boxes first: most pairs are apart.
  double reach = margin + re(capsule->size[0]), sizes = 0;
  for (int i = 0; i < 3; i++) {
    sizes += re(box->size[i]);
    s->direction |= re(s->half[i]) > 0 ? 1 << i : 0;
    if (!(fabs(re(s->center[i])) <= (re(box->size[i]) + fabs(re(s->half[i])) + reach) * (1 + 1e-9))) return false;
  }

  find_nearest(s, margin + 2 * (re(capsule->size[0]) + re(s->length) + sizes), first);
  if (first->kind == pb_nearNothing) return false;

  *second = (second_place){.kind = pb_secondNone};
  if (first->kind == pb_nearFace) second_from_face(s, first, second);
  else if (first->on_edge == 1) second_from_edge(s, first, second);
  else second_from_corner(s, first, second);
  return true;
}

int NUM(pbCapsule_Box)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts) {
  box_segment s;
  nearest_feature first;
  second_place second;
  if (!NUM(pbSegment_Places)(capsule, box, margin, &s, &first, &second)) return 0;

  // Balls about the two places.
  num center[3], radius = capsule->size[0];
  NUM(pbSegment_Point)(&s, first.along, box, center);
  int count = NUM(pbSphere_Box)(center, radius, box, margin, contacts);
  if (second.kind == pb_secondNone) return count;

  NUM(pbSegment_Point)(&s, first.along + second.step, box, center);
  return count + NUM(pbSphere_Box)(center, radius, box, margin, contacts + count);
}
