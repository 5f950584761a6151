// Which pairs of primitives may come close: trees of boxes.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "barrier/parts.h"
#include "base/context.h"

void pbPair_Gather(const double *x, const int *vertex, int count, double *out) {
  for (int k = 0; k < count; k++) memcpy(out + 3 * k, x + 3 * (size_t)vertex[k], 3 * sizeof *out);
}

// Around the vertices on their whole way, `more` wider on each side
static pbBounds box_of(const pbPairs *p, const int *vertex, int count, double more) {
  pbBounds box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
  for (int k = 0; k < count; k++) {
    const double *x = p->x + 3 * (size_t)vertex[k], *dx = p->dx ? p->dx + 3 * (size_t)vertex[k] : NULL;
    for (int i = 0; i < 3; i++) {
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

static const int *edge(const pbCollision *c, int i) { return c->edge + 2 * i; }
static const int *triangle(const pbCollision *c, int i) { return c->triangle + 3 * i; }
static const int *bare_edge(const pbCollision *c, int i) { return c->edge + 2 * c->bare_edge[i]; }
static const int *bare_point(const pbCollision *c, int i) { return c->point + c->bare_point[i]; }
static const int *lone_point(const pbCollision *c, int i) { return c->point + c->lone_point[i]; }
static const int *any_point(const pbCollision *c, int i) { return c->point + i; }
typedef const int *Vertices(const pbCollision *c, int i);

static void place(pbBoxTree *t, const pbCollision *c, const pbPairs *p, Vertices *of, int size, bool build) {
  for (int i = 0; i < t->count; i++) {
    const int *v = of(c, i);
    t->box[i] = box_of(p, v, size, p->radius[c->group[v[0]]]);
  }

  if (build) pbBoxTree_Build(t);
  else pbBoxTree_Refit(t);
}

static bool may_meet(const pbCollision *c, const pbPair *p) {
  if (!c->collide[c->group[p->a[0]] * c->groups + c->group[p->b[0]]]) return false;
  for (int i = 0; i < p->na; i++)
    for (int j = 0; j < p->nb; j++)
      if (p->a[i] == p->b[j]) return false;

  return true;
}

static pbStatus offer(const pbCollision *c, const pbPairs *p, pbPair *pair) {
  if (!may_meet(c, pair)) return pb_ok;
  pair->xi = p->radius[c->group[pair->a[0]]] + p->radius[c->group[pair->b[0]]];
  return p->visit(p->user, pair);
}

static const char *name(int vertices, bool plane) {
  return vertices == 1 ? "point" : vertices == 2 ? "edge" : plane ? "plane" : "triangle";
}

pbPairText pbPair_Text(const pbBarrier *b, const pbPair *p) {
  const pbCollision *c = b->collision;
  pbPairText t;
  int number_a = p->kind == pb_pairPE   ? c->bare_point[p->number_a]
                 : p->kind == pb_pairPP ? c->lone_point[p->number_a]
                                        : p->number_a;
  int number_b = p->kind == pb_pairPE   ? c->bare_edge[p->number_b]
                 : p->kind == pb_pairPP ? c->lone_point[p->number_b]
                                        : p->number_b;
  char vertices[2][64];

  for (int side = 0; side < 2; side++) {
    const int *v = side ? p->b : p->a, n = side ? p->nb : p->na;
    if (n == 1) snprintf(vertices[side], sizeof vertices[side], "vertex %d", v[0]);
    if (n == 2) snprintf(vertices[side], sizeof vertices[side], "vertices %d %d", v[0], v[1]);
    if (n == 3) snprintf(vertices[side], sizeof vertices[side], "vertices %d %d %d", v[0], v[1], v[2]);
  }

  snprintf(t.text, sizeof t.text, "%s %d (%s) and %s %d (%s)", name(p->na, false), number_a, vertices[0],
           name(p->nb, p->kind == pb_pairPN), number_b, vertices[1]);
  return t;
}

// All of one list against a tree
static pbStatus against(pbBarrier *b, const pbPairs *p, pbPairKind kind, int count, Vertices *of_a, const pbBoxTree *tree,
                        Vertices *of_b) {
  const pbCollision *c = b->collision;
  pbPair pair = {.kind = kind, .na = kind == pb_pairET ? 2 : 1, .nb = kind == pb_pairPE ? 2 : 3};

  for (int i = 0; tree->count && i < count; i++) {
    pair.a = of_a(c, i);
    pair.number_a = i;
    pbBounds box = box_of(p, pair.a, pair.na, p->reach + p->radius[c->group[pair.a[0]]]);
    int hits = pbBoxTree_Query(tree, &box, 0, b->hits);

    for (int k = 0; k < hits; k++) {
      int j = b->hits[k];
      pair.b = of_b(c, j);
      pair.number_b = j;
      PB_TRY(offer(c, p, &pair));
    }
  }

  return pb_ok;
}

// The primitives of a tree against those that come after them in it, so each pair once
static pbStatus among(pbBarrier *b, const pbPairs *p, pbPairKind kind, const pbBoxTree *tree, Vertices *of) {
  pbPair pair = {.kind = kind, .na = kind == pb_pairEE ? 2 : 1, .nb = kind == pb_pairEE ? 2 : 1};
  for (int at = 0; at < tree->count; at++) {
    int i = tree->leaf[at];
    pbBounds box = tree->box[i];

    for (int k = 0; k < 3; k++) {
      box.lo[k] -= p->reach;
      box.hi[k] += p->reach;
    }

    int hits = pbBoxTree_Query(tree, &box, at + 1, b->hits);
    for (int k = 0; k < hits; k++) {
      int j = b->hits[k];
      pair.number_a = i < j ? i : j;
      pair.number_b = i < j ? j : i;
      pair.a = of(b->collision, pair.number_a);
      pair.b = of(b->collision, pair.number_b);
      PB_TRY(offer(b->collision, p, &pair));
    }
  }

  return pb_ok;
}

static pbStatus planes(const pbCollision *c, const pbPairs *p) {
  pbPair pair = {.kind = pb_pairPN, .na = 1, .nb = 3};
  for (int j = 0; j < c->planes; j++) {
    pair.b = c->plane + 3 * j;
    pair.number_b = j;
    for (int i = 0; i < c->points; i++) {
      pair.a = any_point(c, i);
      pair.number_a = i;
      PB_TRY(offer(c, p, &pair));
    }
  }

  return pb_ok;
}

pbStatus pbBarrier_Pairs(pbBarrier *b, const pbPairs *p, bool build) {
  const pbCollision *c = b->collision;
  place(&b->triangles, c, p, triangle, 3, build);
  place(&b->edges, c, p, edge, 2, build);
  place(&b->bare_edges, c, p, bare_edge, 2, build);
  place(&b->lone_points, c, p, lone_point, 1, build);
  if (!p->visit) return pb_ok;
  if (p->crossings) return against(b, p, pb_pairET, c->edges, edge, &b->triangles, triangle);
  PB_TRY(against(b, p, pb_pairPT, c->points, any_point, &b->triangles, triangle));
  PB_TRY(against(b, p, pb_pairPE, c->bare_points, bare_point, &b->bare_edges, bare_edge));
  PB_TRY(among(b, p, pb_pairPP, &b->lone_points, lone_point));
  PB_TRY(among(b, p, pb_pairEE, &b->edges, edge));

  return planes(c, p);
}
