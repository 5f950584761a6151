// Which pairs of primitives may come close: trees of boxes.
// Tests: tests/unit/test_barrier_geometry.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "barrier/parts.h"
#include "base/assert.h"
#include "base/context.h"

void pbPair_Gather(const double *x, const int *vertex, int count, double *out) {
  for (int k = 0; k < count; k++) memcpy(out + 3 * k, x + 3 * (size_t)vertex[k], 3 * sizeof *out);
}

// Around the vertices during their whole motion, `more` wider on each side
static pbBounds box_of(const pbPairs *p, const int *vertex, int count, double more) {
  pbBounds box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

  for (int k = 0; k < count; k++) {
    const double *x = p->x + 3 * (size_t)vertex[k], *dx = p->dx ? p->dx + 3 * (size_t)vertex[k] : NULL;
    for (int i = 0; i < 3; i++) {
      // Vertices move along lines: the ends of their motion bound it.
      double end = dx ? x[i] + dx[i] : x[i];
      box.lo[i] = fmin(box.lo[i], fmin(x[i], end));
      box.hi[i] = fmax(box.hi[i], fmax(x[i], end));
    }
  }

  for (int i = 0; i < 3; i++) {
    box.lo[i] -= more;
    box.hi[i] += more;
  }

  return box;
}

// Vertices of primitive i of each list, or of those that belong to no triangle (bare) and to no edge either (lone).
static const int *edge(const pbCollision *c, int i) { return c->edge + 2 * i; }
static const int *triangle(const pbCollision *c, int i) { return c->triangle + 3 * i; }
static const int *bare_edge(const pbCollision *c, int i) { return c->edge + 2 * c->bare_edge[i]; }
static const int *bare_point(const pbCollision *c, int i) { return c->point + c->bare_point[i]; }
static const int *lone_point(const pbCollision *c, int i) { return c->point + c->lone_point[i]; }
static const int *any_point(const pbCollision *c, int i) { return c->point + i; }
typedef const int *Vertices(const pbCollision *c, int i);

// Boxes of all primitives of a tree, and the tree's around them; build: the shape of the tree too.
static void update_tree(pbBoxTree *t, const pbCollision *c, const pbPairs *p, Vertices *of, int size, bool build) {
  for (int i = 0; i < t->count; i++) {
    // A primitive's box has its group's radius around it.
    const int *v = of(c, i);
    t->box[i] = box_of(p, v, size, p->radius[c->group[v[0]]]);
  }

  if (build) pbBoxTree_Build(t);
  else pbBoxTree_Refit(t);
}

// Groups that collide, and no vertex in common.
static bool may_meet(const pbCollision *c, const pbPair *p) {
  if (!c->collide[c->group[p->a[0]] * c->groups + c->group[p->b[0]]]) return false;

  for (int i = 0; i < p->na; i++) {
    for (int j = 0; j < p->nb; j++) {
      if (p->a[i] == p->b[j]) return false;
    }
  }

  return true;
}

static pbStatus visit_pair(const pbCollision *c, const pbPairs *p, pbPair *pair) {
  if (!may_meet(c, pair)) return pb_ok;

  // Two primitives of one group have its radius twice.
  pair->xi = p->radius[c->group[pair->a[0]]] + p->radius[c->group[pair->b[0]]];
  return p->visit(p->user, pair);
}

static const char *primitive_name(int vertices, bool plane) {
  if (plane) return "plane";
  if (vertices == 1) return "point";
  return vertices == 2 ? "edge" : "triangle";
}

// Numbers as the caller listed the primitives: bare and lone ones have others in their trees.
static int listed_number(const pbCollision *c, pbPairKind kind, bool second, int number) {
  if (kind == pb_pairPP) return c->lone_point[number];
  if (kind != pb_pairPE) return number;
  return second ? c->bare_edge[number] : c->bare_point[number];
}

pbPairText pbPair_Text(const pbBarrier *b, const pbPair *p) {
  const pbCollision *c = b->collision;
  pbPairText t;
  int number_a = listed_number(c, p->kind, false, p->number_a), number_b = listed_number(c, p->kind, true, p->number_b);
  char vertices[2][64];

  for (int side = 0; side < 2; side++) {
    const int *v = side ? p->b : p->a, n = side ? p->nb : p->na;
    if (n == 1) snprintf(vertices[side], sizeof vertices[side], "vertex %d", v[0]);
    if (n == 2) snprintf(vertices[side], sizeof vertices[side], "vertices %d %d", v[0], v[1]);
    if (n == 3) snprintf(vertices[side], sizeof vertices[side], "vertices %d %d %d", v[0], v[1], v[2]);
  }

  snprintf(t.text, sizeof t.text, "%s %d (%s) and %s %d (%s)", primitive_name(p->na, false), number_a, vertices[0],
           primitive_name(p->nb, p->kind == pb_pairPN), number_b, vertices[1]);
  return t;
}

// All of one list against a tree
static pbStatus visit_list(pbBarrier *b, const pbPairs *p, pbPairKind kind, int count, Vertices *of_a, const pbBoxTree *tree,
                           Vertices *of_b) {
  const pbCollision *c = b->collision;
  pbPair pair = {.kind = kind, .na = kind == pb_pairET ? 2 : 1, .nb = kind == pb_pairPE ? 2 : 3};
  if (!tree->count) return pb_ok;

  for (int i = 0; i < count; i++) {
    pair.a = of_a(c, i);
    pair.number_a = i;

    // The tree's boxes have their own radius in them; this one has its radius and the reach.
    pbBounds box = box_of(p, pair.a, pair.na, p->reach + p->radius[c->group[pair.a[0]]]);
    int found = pbBoxTree_Query(tree, &box, 0, b->overlaps);

    for (int k = 0; k < found; k++) {
      int j = b->overlaps[k];
      pair.b = of_b(c, j);
      pair.number_b = j;
      PB_TRY(visit_pair(c, p, &pair));
    }
  }

  return pb_ok;
}

// The primitives of a tree against those that come after them in it, so each pair once
static pbStatus visit_tree(pbBarrier *b, const pbPairs *p, pbPairKind kind, const pbBoxTree *tree, Vertices *of) {
  pbPair pair = {.kind = kind, .na = kind == pb_pairEE ? 2 : 1, .nb = kind == pb_pairEE ? 2 : 1};

  for (int at = 0; at < tree->count; at++) {
    int i = tree->leaf[at];
    pbBounds box = tree->box[i];

    for (int k = 0; k < 3; k++) {
      box.lo[k] -= p->reach;
      box.hi[k] += p->reach;
    }

    // The smaller number first: what is found must not depend on the tree.
    int found = pbBoxTree_Query(tree, &box, at + 1, b->overlaps);
    for (int k = 0; k < found; k++) {
      int j = b->overlaps[k];
      PB_ASSERT(i != j);
      pair.number_a = i < j ? i : j;
      pair.number_b = i < j ? j : i;
      pair.a = of(b->collision, pair.number_a);
      pair.b = of(b->collision, pair.number_b);
      PB_TRY(visit_pair(b->collision, p, &pair));
    }
  }

  return pb_ok;
}

// Planes have no boxes: every point against each.
static pbStatus visit_planes(const pbCollision *c, const pbPairs *p) {
  pbPair pair = {.kind = pb_pairPN, .na = 1, .nb = 3};

  for (int j = 0; j < c->planes; j++) {
    pair.b = c->plane + 3 * j;
    pair.number_b = j;

    for (int i = 0; i < c->points; i++) {
      pair.a = any_point(c, i);
      pair.number_a = i;
      PB_TRY(visit_pair(c, p, &pair));
    }
  }

  return pb_ok;
}

pbStatus pbBarrier_Pairs(pbBarrier *b, const pbPairs *p, bool build) {
  const pbCollision *c = b->collision;
  update_tree(&b->triangles, c, p, triangle, 3, build);
  update_tree(&b->edges, c, p, edge, 2, build);
  update_tree(&b->bare_edges, c, p, bare_edge, 2, build);
  update_tree(&b->lone_points, c, p, lone_point, 1, build);
  if (!p->visit) return pb_ok;

  if (p->crossings) return visit_list(b, p, pb_pairET, c->edges, edge, &b->triangles, triangle);

  // Every point meets triangles; edges meet each other; what is in no triangle meets its like.
  PB_TRY(visit_list(b, p, pb_pairPT, c->points, any_point, &b->triangles, triangle));
  PB_TRY(visit_list(b, p, pb_pairPE, c->bare_points, bare_point, &b->bare_edges, bare_edge));
  PB_TRY(visit_tree(b, p, pb_pairPP, &b->lone_points, lone_point));
  PB_TRY(visit_tree(b, p, pb_pairEE, &b->edges, edge));
  return visit_planes(c, p);
}
