// Nested dissection by multilevel vertex separators: neighbors are contracted in pairs until the graph is small (Hendrickson &
// Leland 1995, Karypis & Kumar 1998), a separator is found there, and improved on the way back by moves of single vertices
// (Fiduccia & Mattheyses 1982, on separators: Ashcraft & Liu 1997). Test: tests/unit/test_sparse.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "sparse/order.h"

enum {
  EASY = 2000,  // block operations a row: where minimum degree leaves less to do, a better order would not pay for its search
  LEAF = 120,   // dissection ends here
  COARSE = 60,  // contraction ends here
  TRIES = 4,    // starts on the coarsest graph
  PASSES = 5,   // of improvement on each level
  LEVELS = 40,
  SEPARATOR = 2  // the part that is neither side
};
static const double SIDE = 0.62;  // most of a graph's weight on one side

typedef struct Graph {
  int n, total;                           // total weight
  int *begin, *adjacent, *edge, *weight;  // edge: weights of edges
  int *map;                               // number in the finer (coarser, while contracting) or whole graph
} Graph;

typedef struct Stack {
  int *memory;
  size_t used, room;
} Stack;

typedef struct Mover {
  const Graph *g;
  int *part;                      // 0, 1, SEPARATOR
  int weight[3];                  // of the parts
  int *near[2];                   // of separator vertices: weight of neighbors on that side
  int *heap[2], *at[2], size[2];  // separator vertices that may go to that side, best first; place in the heap, -1: not there
  int *moved, *log;               // log: vertices moved, after the complements of those they pulled into the separator
  int logged;
} Mover;

typedef struct Dissection {
  Stack stack;
  unsigned random;
  int *minimum;  // room for minimum degree
} Dissection;

static int *take_ints(Stack *s, size_t count) {
  if (count > s->room - s->used) return NULL;
  s->used += count;
  return s->memory + s->used - count;
}

// A random number below n. The generator begins anew with every order, so that orders repeat.
static unsigned random_below(Dissection *d, int n) {
  d->random = d->random * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)d->random * (unsigned)n) >> 32);
}

// All arrays of a graph or none.
static int take_graph(Stack *s, Graph *g, int n, int adjacent) {
  size_t mark = s->used;
  g->n = n;
  g->begin = take_ints(s, (size_t)n + 1);
  g->weight = take_ints(s, (size_t)n);
  g->map = take_ints(s, (size_t)n);
  g->adjacent = take_ints(s, (size_t)adjacent);
  g->edge = take_ints(s, (size_t)adjacent);

  if (g->begin && g->weight && g->map && g->adjacent && g->edge) return 1;
  s->used = mark;
  return 0;
}

// ---- contraction ----------------------------------------------------------------------------------------------------
static void shuffle_vertices(Dissection *d, int n, int *order) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int other = (int)random_below(d, i + 1), swapped = order[i];
    order[i] = order[other];
    order[other] = swapped;
  }
}

// Heavy edge matching: each vertex, in random order, with the free neighbor of the heaviest edge. mate[v] = v for those left
// alone. Number of vertices of the coarse graph.
static int match_vertices(Dissection *d, const Graph *g, int *mate, int *order) {
  int count = 0, most = 3 * g->total / (2 * COARSE) + 1;  // no coarse vertex much heavier than the others
  shuffle_vertices(d, g->n, order);
  for (int i = 0; i < g->n; i++) mate[i] = -1;

  for (int k = 0; k < g->n; k++) {
    int v = order[k], best = v, heavy = 0;
    if (mate[v] >= 0) continue;

    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
      // Both ends must be free, and together not too heavy.
      int u = g->adjacent[e];
      if (mate[u] < 0 && g->edge[e] > heavy && g->weight[u] + g->weight[v] <= most) {
        heavy = g->edge[e];
        best = u;
      }
    }

    mate[v] = best;
    mate[best] = v;
    count++;
  }
  return count;
}

// g->map: the coarse vertex of each of g's vertices. Their number is stored in coarse.
static void number_pairs(const Graph *g, const int *mate, Graph *coarse) {
  coarse->n = 0;
  for (int v = 0; v < g->n; v++) {
    if (mate[v] >= v) g->map[v] = g->map[mate[v]] = coarse->n++;
  }
}

// Adds vertex v's edges to those of coarse vertex c, which begin at `from`; parallel edges add their weights. slot: where an
// edge to a coarse vertex is, if not before `from`. Returns the end of the edges.
static int add_edges(const Graph *g, int v, int c, Graph *coarse, int from, int to, int *slot) {
  for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
    int u = g->map[g->adjacent[e]];
    if (u == c) continue;

    if (slot[u] < from) {
      slot[u] = to;
      coarse->adjacent[to] = u;
      coarse->edge[to++] = 0;
    }
    coarse->edge[slot[u]] += g->edge[e];
  }
  return to;
}

static void merge_pairs(const Graph *g, const int *mate, Graph *coarse, int *slot) {
  int to = 0, c = 0;
  for (int k = 0; k < coarse->n; k++) slot[k] = -1;
  for (int v = 0; v < g->n; v++) {
    if (mate[v] < v) continue;

    int from = to;
    coarse->begin[c] = from;
    coarse->weight[c] = g->weight[v];
    to = add_edges(g, v, c, coarse, from, to, slot);

    // The other one of the pair.
    if (mate[v] != v) {
      coarse->weight[c] += g->weight[mate[v]];
      to = add_edges(g, mate[v], c, coarse, from, to, slot);
    }
    c++;
  }
  coarse->begin[coarse->n] = to;
}

// The coarse graph; g->map says where g's vertices went. False where it does not pay or does not fit.
static int contract_graph(Dissection *d, const Graph *g, Graph *coarse) {
  Stack *s = &d->stack;
  size_t before = s->used;
  *coarse = (Graph){.total = g->total};
  if (!take_graph(s, coarse, g->n, g->begin[g->n])) return 0;

  // The lists of the matching go when the coarse graph is there.
  size_t after = s->used;
  int *mate = take_ints(s, (size_t)g->n), *order = take_ints(s, (size_t)g->n), *slot = take_ints(s, (size_t)g->n);
  int n = slot ? match_vertices(d, g, mate, order) : g->n;
  if (n > 0.92 * g->n) {
    s->used = before;
    return 0;
  }

  number_pairs(g, mate, coarse);
  merge_pairs(g, mate, coarse, slot);
  s->used = after;
  return 1;
}

// ---- moves ----------------------------------------------------------------------------------------------------------
// By how much the separator's weight falls when v goes to a side: v leaves, its neighbors on the other side come in.
static int gain(const Mover *m, int side, int v) { return m->g->weight[v] - m->near[1 - side][v]; }
static int comes_before(const Mover *m, int side, int v, int u) {
  int a = gain(m, side, v), b = gain(m, side, u);
  return a != b ? a > b : v < u;
}

static void set_heap(Mover *m, int side, int at, int v) {
  m->heap[side][at] = v;
  m->at[side][v] = at;
}

// A binary heap of each side's candidates by gain, with the place of each vertex, so that one whose gain changes can move.
static void sift(Mover *m, int side, int at) {
  int *heap = m->heap[side], v = heap[at];

  // Up.
  while (at > 0 && comes_before(m, side, v, heap[(at - 1) / 2])) {
    set_heap(m, side, at, heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }

  for (;;) {
    // Down: the better child takes the place.
    int child = 2 * at + 1;
    if (child >= m->size[side]) break;
    if (child + 1 < m->size[side] && comes_before(m, side, heap[child + 1], heap[child])) child++;
    if (!comes_before(m, side, heap[child], v)) break;

    set_heap(m, side, at, heap[child]);
    at = child;
  }
  set_heap(m, side, at, v);
}

static void enter_heaps(Mover *m, int v) {
  for (int side = 0; side < 2; side++) {
    set_heap(m, side, m->size[side]++, v);
    sift(m, side, m->size[side] - 1);
  }
}

static void leave_heaps(Mover *m, int v) {
  for (int side = 0; side < 2; side++) {
    int at = m->at[side][v], last = m->heap[side][--m->size[side]];
    m->at[side][v] = -1;
    if (last == v) continue;

    set_heap(m, side, at, last);
    sift(m, side, at);
  }
}

static void measure_neighbors(Mover *m, int v) {
  m->near[0][v] = m->near[1][v] = 0;
  for (int e = m->g->begin[v]; e < m->g->begin[v + 1]; e++) {
    int u = m->g->adjacent[e];
    if (m->part[u] != SEPARATOR) m->near[m->part[u]][v] += m->g->weight[u];
  }
}

// From the other side into the separator. Its neighbors there lose a neighbor on that side, which is worth more to them.
static void pull_vertex(Mover *m, int v, int side) {
  const Graph *g = m->g;
  m->part[v] = SEPARATOR;
  m->weight[1 - side] -= g->weight[v];
  m->weight[SEPARATOR] += g->weight[v];
  m->log[m->logged++] = ~v;
  measure_neighbors(m, v);

  for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
    int u = g->adjacent[e];
    if (m->part[u] != SEPARATOR) continue;

    // One neighbor less that would have to come in.
    m->near[1 - side][u] -= g->weight[v];
    if (m->at[side][u] >= 0) sift(m, side, m->at[side][u]);
  }

  if (!m->moved[v]) enter_heaps(m, v);
}

// From the separator to a side; what is adjacent on the other side must come into the separator.
static void move_vertex(Mover *m, int v, int side) {
  const Graph *g = m->g;
  leave_heaps(m, v);
  m->part[v] = side;
  m->moved[v] = 1;
  m->weight[side] += g->weight[v];
  m->weight[SEPARATOR] -= g->weight[v];

  for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
    int u = g->adjacent[e];
    if (m->part[u] == SEPARATOR) {
      // One neighbor more that would have to come in.
      m->near[side][u] += g->weight[v];
      if (m->at[1 - side][u] >= 0) sift(m, 1 - side, m->at[1 - side][u]);
    } else if (m->part[u] == 1 - side) {
      pull_vertex(m, u, side);
    }
  }
  m->log[m->logged++] = v;
}

// Small separators first, then equal sides; sides beyond the limit count as if they were separator.
static double separator_score(const Mover *m) {
  int large = m->weight[0] > m->weight[1] ? m->weight[0] : m->weight[1];
  double excess = large - SIDE * m->g->total;
  return m->weight[SEPARATOR] + (excess > 0 ? 2 * excess : 0) + 0.1 * large / (m->g->total + 1.0);
}

// Takes moves back, latest first, and after each what it pulled into the separator.
static void undo_moves(Mover *m, int logged) {
  while (m->logged > logged) {
    int v = m->log[--m->logged], side = m->part[v];
    m->part[v] = SEPARATOR;
    m->weight[side] -= m->g->weight[v];
    m->weight[SEPARATOR] += m->g->weight[v];

    for (; m->logged > 0 && m->log[m->logged - 1] < 0; m->logged--) {
      int u = ~m->log[m->logged - 1];
      m->part[u] = 1 - side;
      m->weight[1 - side] += m->g->weight[u];
      m->weight[SEPARATOR] -= m->g->weight[u];
    }
  }
}

// May the best candidate go to that side? Not where that is too heavy then, unless it is the lighter one.
static int can_grow(const Mover *m, int side) {
  if (m->size[side] == 0) return 0;
  double most = SIDE * m->g->total;
  return m->weight[side] + m->g->weight[m->heap[side][0]] <= most || m->weight[side] <= m->weight[1 - side];
}

// The side of the larger gain, or the lighter one; -1: no move.
static int choose_side(const Mover *m) {
  int can[2] = {can_grow(m, 0), can_grow(m, 1)};
  if (!can[0] && !can[1]) return -1;
  if (!can[0] || !can[1]) return can[0] ? 0 : 1;

  int a = gain(m, 0, m->heap[0][0]), b = gain(m, 1, m->heap[1][0]);
  if (a != b) return a > b ? 0 : 1;
  return m->weight[0] <= m->weight[1] ? 0 : 1;
}

// All of the separator's vertices into the heaps. Their number.
static int begin_pass(Mover *m) {
  int separator = 0;
  m->size[0] = m->size[1] = m->logged = 0;
  for (int v = 0; v < m->g->n; v++) {
    m->moved[v] = 0;
    m->at[0][v] = m->at[1][v] = -1;
    if (m->part[v] != SEPARATOR) continue;

    separator++;
    measure_neighbors(m, v);
    enter_heaps(m, v);
  }
  return separator;
}

// Moves, the bad ones too, as long as they may lead somewhere; back to the best.
static int run_pass(Mover *m) {
  int separator = begin_pass(m), worse = 0, best_logged = 0;
  double start = separator_score(m), best = start;
  int patience = 2 * separator < 300 ? 2 * separator + 10 : 300;

  while (worse < patience) {
    int side = choose_side(m);
    if (side < 0) break;
    move_vertex(m, m->heap[side][0], side);

    double now = separator_score(m);
    worse++;
    if (now < best) {
      best = now;
      best_logged = m->logged;
      worse = 0;
    }
  }

  undo_moves(m, best_logged);
  return best < start;
}

// Improves the separator of g by passes of moves, until one gains nothing.
static void improve_separator(Mover *m, const Graph *g, int *part) {
  m->g = g;
  m->part = part;

  // Of both sides and the separator; moves keep them up to date.
  memset(m->weight, 0, sizeof m->weight);
  for (int v = 0; v < g->n; v++) m->weight[part[v]] += g->weight[v];

  for (int k = 0; k < PASSES; k++) {
    if (!run_pass(m)) break;
  }
}

static int take_mover(Stack *s, Mover *m, int n) {
  int **arrays[] = {&m->near[0], &m->near[1], &m->heap[0], &m->heap[1], &m->at[0], &m->at[1], &m->moved};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) *arrays[k] = take_ints(s, (size_t)n);
  m->log = take_ints(s, 4 * (size_t)n + 4);
  return m->log != NULL;
}

// ---- separators -----------------------------------------------------------------------------------------------------
// Breadth first from a random vertex until half of the weight is reached; what borders on it is the separator.
static void grow_side(Dissection *d, const Graph *g, int *part, int *queue) {
  int first = 0, last = 0, weight = 0, from = (int)random_below(d, g->n);
  for (int v = 0; v < g->n; v++) part[v] = 1;

  // Breadth first: the queue holds what belongs to the side.
  for (int k = 0; k < g->n && 2 * weight < g->total; k++) {
    // The queue is empty: on to the next connected part.
    if (first == last) {
      while (part[from] == 0) from = (from + 1) % g->n;
      part[from] = 0;
      queue[last++] = from;
      weight += g->weight[from];
    }

    int v = queue[first++];
    for (int e = g->begin[v]; e < g->begin[v + 1] && 2 * weight < g->total; e++) {
      int u = g->adjacent[e];
      if (!part[u]) continue;
      part[u] = 0;
      queue[last++] = u;
      weight += g->weight[u];
    }
  }
}

static void mark_border(const Graph *g, int *part) {
  for (int v = 0; v < g->n; v++) {
    if (part[v] != 1) continue;
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
      if (part[g->adjacent[e]] == 0) part[v] = SEPARATOR;
    }
  }
}

// The best of several starts on the coarsest graph.
static void find_first(Dissection *d, Mover *m, const Graph *g, int *part, int *best_part, int *queue) {
  double best = INFINITY;
  for (int k = 0; k < TRIES; k++) {
    grow_side(d, g, part, queue);
    mark_border(g, part);
    improve_separator(m, g, part);
    if (separator_score(m) >= best) continue;

    best = separator_score(m);
    memcpy(best_part, part, sizeof *part * (size_t)g->n);
  }
  memcpy(part, best_part, sizeof *part * (size_t)g->n);
}

// Parts of the vertices of g by way of its coarse graphs; false where there is no room.
static int separate_graph(Dissection *d, const Graph *g, int *part) {
  Mover m;
  Graph level[LEVELS] = {*g};
  int top = 0, *other = take_ints(&d->stack, (size_t)g->n), *queue = take_ints(&d->stack, (size_t)g->n);
  if (!other || !queue || !take_mover(&d->stack, &m, g->n)) return 0;

  while (top + 1 < LEVELS && level[top].n > COARSE && contract_graph(d, &level[top], &level[top + 1])) top++;
  find_first(d, &m, &level[top], part, other, queue);

  // Back to the finer graphs: each takes over the parts of the coarser one, and improves them.
  for (; top > 0; top--) {
    const Graph *fine = &level[top - 1];
    memcpy(other, part, sizeof *part * (size_t)level[top].n);
    for (int v = 0; v < fine->n; v++) part[v] = other[fine->map[v]];
    improve_separator(&m, fine, part);
  }
  return 1;
}

// ---- recursion ------------------------------------------------------------------------------------------------------
// Numbers the vertices with keep[v] == part, -1 for the others; returns how many, and their edges among each other.
static int number_part(const pbGraphOf *g, const int *keep, int part, int *number, int *edges) {
  int n = 0;
  *edges = 0;
  for (int v = 0; v < g->n; v++) {
    number[v] = -1;
    if (keep[v] != part) continue;
    number[v] = n++;
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) *edges += keep[g->adjacent[e]] == part;
  }
  return n;
}

// The graph of the vertices with keep[v] == part, whose numbers in the whole graph are id (NULL: v).
static int extract_part(Stack *s, const pbGraphOf *g, const int *keep, int part, const int *id, Graph *sub) {
  int edges, *number = take_ints(s, (size_t)g->n);
  if (!number) return 0;
  int n = number_part(g, keep, part, number, &edges);
  *sub = (Graph){.total = n};
  if (!take_graph(s, sub, n, edges)) return 0;

  edges = 0;
  for (int v = 0; v < g->n; v++) {
    if (number[v] < 0) continue;

    // Edges within the part; weights are one again.
    sub->begin[number[v]] = edges;
    sub->map[number[v]] = id ? id[v] : v;
    sub->weight[number[v]] = 1;
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
      if (keep[g->adjacent[e]] != part) continue;
      sub->adjacent[edges] = number[g->adjacent[e]];
      sub->edge[edges++] = 1;
    }
  }
  sub->begin[n] = edges;
  return 1;
}

static void order_by_degree(Dissection *d, const pbGraphOf *g, const int *id, int *order) {
  pbOrder_MinimumDegree(g, order, d->minimum);
  for (int k = 0; k < g->n; k++) order[k] = id[order[k]];
}

static int list_part(const int *part, int which, const int *id, int n, int *order) {
  int count = 0;
  for (int v = 0; v < n; v++) {
    if (part[v] == which) order[count++] = id[v];
  }
  return count;
}

// Does no edge join the two sides?
static bool separates(const Graph *g, const int *part) {
  for (int v = 0; v < g->n; v++) {
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
      if (part[v] + part[g->adjacent[e]] == 1) return false;
    }
  }
  return true;
}

// Sizes of the parts; false where no separator was found, or none that is of use: it must be small, and leave two sides.
static int find_parts(Dissection *d, const Graph *g, int *part, int count[3]) {
  if (g->n <= LEAF || !separate_graph(d, g, part)) return 0;
  PB_VALIDATE(pb_allWithin(part, g->n, 0, SEPARATOR + 1) && separates(g, part));
  for (int v = 0; v < g->n; v++) count[part[v]]++;
  int smaller = count[0] < count[1] ? count[0] : count[1];
  return 16 * smaller >= g->n && 3 * count[SEPARATOR] <= g->n;
}

// Both sides one after the other, then the separator: eliminated last, it keeps the sides apart (George 1973).
static void dissect(Dissection *d, Graph *g, int *order) {
  Stack *s = &d->stack;
  size_t mark = s->used;
  const pbGraphOf whole = {g->n, g->begin, g->adjacent};
  int count[3] = {0}, *part = take_ints(s, (size_t)g->n), *id = take_ints(s, (size_t)g->n);
  if (id) memcpy(id, g->map, sizeof *id * (size_t)g->n);

  // What separators take on the way is free again once the parts are known.
  size_t inner = s->used;
  int found = id && find_parts(d, g, part, count);
  s->used = inner;
  if (!found) {
    order_by_degree(d, &whole, id ? id : g->map, order);
    s->used = mark;
    return;
  }

  for (int side = 0, at = 0; side < 2; at += count[side++]) {
    Graph sub;
    if (extract_part(s, &whole, part, side, id, &sub)) {
      dissect(d, &sub, order + at);
    } else {
      // No room: as they come.
      list_part(part, side, id, g->n, order + at);
    }
    s->used = inner;
  }

  // The separator last.
  PB_ASSERT(count[0] + count[1] + count[SEPARATOR] == g->n);
  list_part(part, SEPARATOR, id, g->n, order + count[0] + count[1]);
  s->used = mark;
}

static size_t stack_room(int n, size_t adjacent) { return 14 * adjacent + 60 * (size_t)n + 64; }

size_t pbOrder_Room(int n, size_t adjacent) { return pbOrder_MinimumDegreeRoom(n, adjacent) + stack_room(n, adjacent); }

void pbOrder_Find(const pbGraphOf *g, int *order, int *work) {
  size_t adjacent = (size_t)g->begin[g->n];

  // Minimum degree's room comes first, then the stack.
  Dissection d = {.minimum = work, .random = 1};
  d.stack = (Stack){.memory = work + pbOrder_MinimumDegreeRoom(g->n, adjacent), .room = stack_room(g->n, adjacent)};
  if (pbOrder_MinimumDegree(g, order, work) <= (double)EASY * g->n) return;

  // Vertices with very many neighbors stay last: nothing can be separated around them.
  int *dense = take_ints(&d.stack, (size_t)g->n), many = pbOrder_Dense(g->n);
  for (int v = 0; v < g->n; v++) dense[v] = g->begin[v + 1] - g->begin[v] > many;

  Graph rest;
  if (extract_part(&d.stack, g, dense, 0, NULL, &rest)) dissect(&d, &rest, order);
}
