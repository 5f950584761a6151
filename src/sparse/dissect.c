#include <math.h>
#include <string.h>

#include "sparse/order.h"

// Multilevel vertex separators: neighbours are contracted in pairs until the graph is small (Hendrickson & Leland 1995, Karypis & Kumar
// 1998), a separator is found there, and improved on the way back by moves of single vertices (Fiduccia & Mattheyses 1982, on
// separators: Ashcraft & Liu 1997).

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
  int n, total;  // total weight
  int *begin, *adjacent, *edge, *weight,
      *map;  // edge: weights; map: number in the finer (coarser, while contracting) or whole graph
} Graph;

typedef struct Stack {
  int *memory;
  size_t used, room;
} Stack;

typedef struct Mover {
  const Graph *g;
  int *part;                      // 0, 1, SEPARATOR
  int weight[3];                  // of the parts
  int *near[2];                   // of separator vertices: weight of neighbours on that side
  int *heap[2], *at[2], size[2];  // separator vertices that may go to that side, best first; place in the heap, -1: not there
  int *moved, *log;               // log: vertices moved, after the complements of those they pulled into the separator
  int logged;
} Mover;

typedef struct Dissection {
  Stack stack;
  unsigned random;
  int *minimum;  // room for minimum degree
} Dissection;

static int *take(Stack *s, size_t count) {
  if (count > s->room - s->used) return NULL;
  s->used += count;
  return s->memory + s->used - count;
}

static unsigned below(Dissection *d, int n) {
  d->random = d->random * 1664525u + 1013904223u;
  return (unsigned)(((unsigned long long)d->random * (unsigned)n) >> 32);
}

static int take_graph(Stack *s, Graph *g, int n, int adjacent) {
  size_t mark = s->used;
  g->n = n;
  g->begin = take(s, (size_t)n + 1);
  g->weight = take(s, (size_t)n);
  g->map = take(s, (size_t)n);
  g->adjacent = take(s, (size_t)adjacent);
  g->edge = take(s, (size_t)adjacent);
  if (g->begin && g->weight && g->map && g->adjacent && g->edge) return 1;
  s->used = mark;
  return 0;
}

// ---- contraction ----------------------------------------------------------------------------------------------------
// Pairs over heavy edges, light vertices first come first: mate[v] = v for those left alone. Number of vertices of the coarse graph.
static int match(Dissection *d, const Graph *g, int *mate, int *turn) {
  int count = 0, most = 3 * g->total / (2 * COARSE) + 1;
  for (int i = 0; i < g->n; i++) {
    turn[i] = i;
    mate[i] = -1;
  }
  for (int i = g->n - 1; i > 0; i--) {
    int o = (int)below(d, i + 1), t = turn[i];
    turn[i] = turn[o];
    turn[o] = t;
  }
  for (int k = 0; k < g->n; k++) {
    int v = turn[k], best = v, heavy = 0;
    if (mate[v] >= 0) continue;
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
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

// The coarse graph; g->map says where g's vertices went. False where it does not pay or does not fit.
static int contract(Dissection *d, const Graph *g, Graph *coarse) {
  Stack *s = &d->stack;
  size_t before = s->used;
  *coarse = (Graph){.total = g->total};
  if (!take_graph(s, coarse, g->n, g->begin[g->n])) return 0;
  size_t after = s->used;
  int *mate = take(s, (size_t)g->n), *turn = take(s, (size_t)g->n), *place = take(s, (size_t)g->n);
  int n = place ? match(d, g, mate, turn) : g->n;
  if (n > 0.92 * g->n) {
    s->used = before;
    return 0;
  }
  coarse->n = 0;
  for (int v = 0; v < g->n; v++)
    if (mate[v] >= v) g->map[v] = g->map[mate[v]] = coarse->n++;
  for (int c = 0; c < n; c++) place[c] = -1;
  int to = 0, c = 0;
  for (int v = 0; v < g->n; v++) {
    if (mate[v] < v) continue;
    int from = to, ends[2] = {v, mate[v]};
    coarse->begin[c] = from;
    coarse->weight[c] = 0;
    for (int k = 0; k < (ends[1] == v ? 1 : 2); k++) {
      coarse->weight[c] += g->weight[ends[k]];
      for (int e = g->begin[ends[k]]; e < g->begin[ends[k] + 1]; e++) {
        int u = g->map[g->adjacent[e]];
        if (u == c) continue;
        if (place[u] < from) {
          place[u] = to;
          coarse->adjacent[to] = u;
          coarse->edge[to++] = 0;
        }
        coarse->edge[place[u]] += g->edge[e];
      }
    }
    c++;
  }
  coarse->begin[n] = to;
  s->used = after;
  return 1;
}

// ---- moves ----------------------------------------------------------------------------------------------------------
static int gain(const Mover *m, int side, int v) { return m->g->weight[v] - m->near[1 - side][v]; }
static int before(const Mover *m, int side, int v, int u) {
  int a = gain(m, side, v), b = gain(m, side, u);
  return a != b ? a > b : v < u;
}

static void set(Mover *m, int side, int at, int v) {
  m->heap[side][at] = v;
  m->at[side][v] = at;
}

static void sift(Mover *m, int side, int at) {
  int *heap = m->heap[side], v = heap[at];
  while (at > 0 && before(m, side, v, heap[(at - 1) / 2])) {
    set(m, side, at, heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (;;) {
    int child = 2 * at + 1;
    if (child >= m->size[side]) break;
    if (child + 1 < m->size[side] && before(m, side, heap[child + 1], heap[child])) child++;
    if (!before(m, side, heap[child], v)) break;
    set(m, side, at, heap[child]);
    at = child;
  }
  set(m, side, at, v);
}

static void enter(Mover *m, int v) {
  for (int side = 0; side < 2; side++) {
    set(m, side, m->size[side]++, v);
    sift(m, side, m->size[side] - 1);
  }
}

static void leave(Mover *m, int v) {
  for (int side = 0; side < 2; side++) {
    int at = m->at[side][v], last = m->heap[side][--m->size[side]];
    m->at[side][v] = -1;
    if (last == v) continue;
    set(m, side, at, last);
    sift(m, side, at);
  }
}

static void measure(Mover *m, int v) {
  m->near[0][v] = m->near[1][v] = 0;
  for (int e = m->g->begin[v]; e < m->g->begin[v + 1]; e++) {
    int u = m->g->adjacent[e];
    if (m->part[u] != SEPARATOR) m->near[m->part[u]][v] += m->g->weight[u];
  }
}

static void pull(Mover *m, int v, int side) {  // from the other side into the separator
  const Graph *g = m->g;
  m->part[v] = SEPARATOR;
  m->weight[1 - side] -= g->weight[v];
  m->weight[SEPARATOR] += g->weight[v];
  m->log[m->logged++] = ~v;
  measure(m, v);
  for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
    int u = g->adjacent[e];
    if (m->part[u] != SEPARATOR) continue;
    m->near[1 - side][u] -= g->weight[v];
    if (m->at[side][u] >= 0) sift(m, side, m->at[side][u]);
  }
  if (!m->moved[v]) enter(m, v);
}

static void move(Mover *m, int v, int side) {
  const Graph *g = m->g;
  leave(m, v);
  m->part[v] = side;
  m->moved[v] = 1;
  m->weight[side] += g->weight[v];
  m->weight[SEPARATOR] -= g->weight[v];
  for (int e = g->begin[v]; e < g->begin[v + 1]; e++) {
    int u = g->adjacent[e];
    if (m->part[u] == SEPARATOR) {
      m->near[side][u] += g->weight[v];
      if (m->at[1 - side][u] >= 0) sift(m, 1 - side, m->at[1 - side][u]);
    } else if (m->part[u] == 1 - side) {
      pull(m, u, side);
    }
  }
  m->log[m->logged++] = v;
}

// Small separators first, then equal sides; sides beyond the limit count as if they were separator.
static double score(const Mover *m) {
  int large = m->weight[0] > m->weight[1] ? m->weight[0] : m->weight[1];
  double excess = large - SIDE * m->g->total;
  return m->weight[SEPARATOR] + (excess > 0 ? 2 * excess : 0) + 0.1 * large / (m->g->total + 1.0);
}

static void undo(Mover *m, int logged) {
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

static int choose(const Mover *m) {  // a side, -1: no move
  double most = SIDE * m->g->total;
  int can[2];
  for (int side = 0; side < 2; side++)
    can[side] =
        m->size[side] > 0 && (m->weight[side] + m->g->weight[m->heap[side][0]] <= most || m->weight[side] <= m->weight[1 - side]);
  if (!can[0] || !can[1]) return can[0] ? 0 : can[1] ? 1 : -1;
  int a = gain(m, 0, m->heap[0][0]), b = gain(m, 1, m->heap[1][0]);
  return a != b ? (a > b ? 0 : 1) : m->weight[0] <= m->weight[1] ? 0 : 1;
}

// Moves, the bad ones too, as long as they may lead somewhere; back to the best.
static int pass(Mover *m) {
  const Graph *g = m->g;
  int separator = 0, worse = 0, best_logged = 0;
  m->size[0] = m->size[1] = m->logged = 0;
  for (int v = 0; v < g->n; v++) {
    m->moved[v] = 0;
    m->at[0][v] = m->at[1][v] = -1;
    if (m->part[v] != SEPARATOR) continue;
    separator++;
    measure(m, v);
    enter(m, v);
  }
  double start = score(m), best = start;
  int patience = 2 * separator < 300 ? 2 * separator + 10 : 300;
  for (int side; worse < patience && (side = choose(m)) >= 0;) {
    move(m, m->heap[side][0], side);
    double now = score(m);
    worse++;
    if (now < best) {
      best = now;
      best_logged = m->logged;
      worse = 0;
    }
  }
  undo(m, best_logged);
  return best < start;
}

static void improve(Mover *m, const Graph *g, int *part) {
  m->g = g;
  m->part = part;
  memset(m->weight, 0, sizeof m->weight);
  for (int v = 0; v < g->n; v++) m->weight[part[v]] += g->weight[v];
  for (int k = 0; k < PASSES && pass(m); k++) continue;
}

static int take_mover(Stack *s, Mover *m, int n) {
  int **arrays[] = {&m->near[0], &m->near[1], &m->heap[0], &m->heap[1], &m->at[0], &m->at[1], &m->moved};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) *arrays[k] = take(s, (size_t)n);
  m->log = take(s, 4 * (size_t)n + 4);
  return m->log != NULL;
}

// ---- separators -----------------------------------------------------------------------------------------------------
// Breadth first from a random vertex until half of the weight is reached; what borders on it is the separator.
static void grow(Dissection *d, const Graph *g, int *part, int *queue) {
  int first = 0, last = 0, weight = 0, from = (int)below(d, g->n);
  for (int v = 0; v < g->n; v++) part[v] = 1;
  for (int k = 0; k < g->n && 2 * weight < g->total; k++) {
    if (first == last) {  // the next connected part
      while (part[from] == 0) from = (from + 1) % g->n;
      part[from] = 0;
      queue[last++] = from;
      weight += g->weight[from];
    }
    int v = queue[first++];
    for (int e = g->begin[v]; e < g->begin[v + 1] && 2 * weight < g->total; e++) {
      int u = g->adjacent[e];
      if (part[u]) {
        part[u] = 0;
        queue[last++] = u;
        weight += g->weight[u];
      }
    }
  }
  for (int v = 0; v < g->n; v++)
    for (int e = g->begin[v]; part[v] == 1 && e < g->begin[v + 1]; e++)
      if (part[g->adjacent[e]] == 0) part[v] = SEPARATOR;
}

static void find_first(Dissection *d, Mover *m, const Graph *g, int *part, int *best_part, int *queue) {
  double best = INFINITY;
  for (int k = 0; k < TRIES; k++) {
    grow(d, g, part, queue);
    improve(m, g, part);
    if (score(m) >= best) continue;
    best = score(m);
    memcpy(best_part, part, sizeof *part * (size_t)g->n);
  }
  memcpy(part, best_part, sizeof *part * (size_t)g->n);
}

// Parts of the vertices of g by way of its coarse graphs; false where there is no room.
static int separate(Dissection *d, const Graph *g, int *part) {
  Mover m;
  Graph level[LEVELS] = {*g};
  int top = 0, *other = take(&d->stack, (size_t)g->n), *queue = take(&d->stack, (size_t)g->n);
  if (!other || !queue || !take_mover(&d->stack, &m, g->n)) return 0;
  while (top + 1 < LEVELS && level[top].n > COARSE && contract(d, &level[top], &level[top + 1])) top++;
  find_first(d, &m, &level[top], part, other, queue);
  for (; top > 0; top--) {
    const Graph *fine = &level[top - 1];
    memcpy(other, part, sizeof *part * (size_t)level[top].n);
    for (int v = 0; v < fine->n; v++) part[v] = other[fine->map[v]];
    improve(&m, fine, part);
  }
  return 1;
}

// ---- recursion ------------------------------------------------------------------------------------------------------
// The graph of the vertices with keep[v] == part, whose numbers in the whole graph are id (NULL: v).
static int extract(Stack *s, const pbGraphOf *g, const int *keep, int part, const int *id, Graph *sub) {
  int n = 0, edges = 0;
  int *number = take(s, (size_t)g->n);
  if (!number) return 0;
  for (int v = 0; v < g->n; v++) {
    number[v] = keep[v] == part ? n++ : -1;
    for (int e = g->begin[v]; number[v] >= 0 && e < g->begin[v + 1]; e++) edges += keep[g->adjacent[e]] == part;
  }
  *sub = (Graph){.total = n};
  if (!take_graph(s, sub, n, edges)) return 0;
  edges = 0;
  for (int v = 0; v < g->n; v++) {
    if (number[v] < 0) continue;
    sub->begin[number[v]] = edges;
    sub->map[number[v]] = id ? id[v] : v;
    sub->weight[number[v]] = 1;
    for (int e = g->begin[v]; e < g->begin[v + 1]; e++)
      if (keep[g->adjacent[e]] == part) {
        sub->adjacent[edges] = number[g->adjacent[e]];
        sub->edge[edges++] = 1;
      }
  }
  sub->begin[n] = edges;
  return 1;
}

static void by_degree(Dissection *d, const pbGraphOf *g, const int *id, int *order) {
  pbOrder_MinimumDegree(g, order, d->minimum);
  for (int k = 0; k < g->n; k++) order[k] = id[order[k]];
}

// Both sides one after the other, then the separator.
static void dissect(Dissection *d, Graph *g, int *order) {
  Stack *s = &d->stack;
  size_t mark = s->used;
  const pbGraphOf whole = {g->n, g->begin, g->adjacent};
  int count[3] = {0}, *part = take(s, (size_t)g->n), *id = take(s, (size_t)g->n);
  if (id) memcpy(id, g->map, sizeof *id * (size_t)g->n);
  size_t inner = s->used;
  int found = g->n > LEAF && id && separate(d, g, part);
  s->used = inner;
  for (int v = 0; found && v < g->n; v++) count[part[v]]++;
  int smaller = count[0] < count[1] ? count[0] : count[1];
  if (!found || 16 * smaller < g->n || 3 * count[SEPARATOR] > g->n) {  // no use in cutting it
    by_degree(d, &whole, id ? id : g->map, order);
  } else {
    for (int side = 0, at = 0; side < 2; at += count[side++], s->used = inner) {
      Graph sub;
      if (extract(s, &whole, part, side, id, &sub)) {
        dissect(d, &sub, order + at);
      } else {
        for (int v = 0; v < g->n; v++)
          if (part[v] == side) order[at++] = id[v];
        at -= count[side];
      }
    }
    for (int v = 0, at = count[0] + count[1]; v < g->n; v++)
      if (part[v] == SEPARATOR) order[at++] = id[v];
  }
  s->used = mark;
}

static size_t stack_room(int n, size_t adjacent) { return 14 * adjacent + 60 * (size_t)n + 64; }

size_t pbOrder_Room(int n, size_t adjacent) { return pbOrder_MinimumDegreeRoom(n, adjacent) + stack_room(n, adjacent); }

void pbOrder_Find(const pbGraphOf *g, int *order, int *work) {
  size_t adjacent = (size_t)g->begin[g->n];
  Dissection d = {.minimum = work, .random = 1};
  d.stack = (Stack){.memory = work + pbOrder_MinimumDegreeRoom(g->n, adjacent), .room = stack_room(g->n, adjacent)};
  if (pbOrder_MinimumDegree(g, order, work) <= (double)EASY * g->n) return;
  // Vertices with very many neighbours stay last: nothing can be separated around them.
  int *dense = take(&d.stack, (size_t)g->n), many = pbOrder_Dense(g->n);
  for (int v = 0; v < g->n; v++) dense[v] = g->begin[v + 1] - g->begin[v] > many;
  Graph rest;
  if (extract(&d.stack, g, dense, 0, NULL, &rest)) dissect(&d, &rest, order);
}
