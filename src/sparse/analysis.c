// Symbolic factorization: from the pattern and an order to fronts, their rows, and the places of their blocks (analysis.h).
// The steps are those of Liu, "The multifrontal method for sparse matrix solution" (1992). Tests: tests/unit/test_sparse.c.
#include "sparse/analysis.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "sparse/order.h"

// What the analysis needs on its way, all cut from memory: by slot slots + 1, else n + 1 numbers each.
typedef struct Scratch {
  void *memory;
  int *high, *low;     // by slot: its ends by place, high >= low
  int *lower, *begin;  // by slot: columns below the diagonal, row by row; by row: where its own begin
  // Columns: parent in the elimination tree, entries of L's column; postorder; a mark and a stack of whoever is at work
  int *parent, *count, *post, *mark, *stack, *node;
  // Fronts before they are numbered. By column: its supernode. By supernode: columns and further rows; the one that it has become
  // part of (itself: none), its parent, its first child, the next child of its parent; its number among the fronts
  int *super, *columns, *rows, *into, *up, *head, *next, *label;
  double *zeros, *peak;  // by supernode: zeros let in by merging; most doubles on the stack of updates below it
} Scratch;

static void layout_scratch(pbArena *a, Scratch *s, int n, int slots) {
  size_t N = (size_t)n + 1, S = (size_t)slots + 1;

  int **by_slot[] = {&s->high, &s->low, &s->lower};
  for (size_t k = 0; k < sizeof by_slot / sizeof *by_slot; k++) *by_slot[k] = pbArena_Take(a, S, sizeof(int));

  int **by_row[] = {&s->begin,   &s->parent, &s->count, &s->mark, &s->post, &s->node, &s->stack, &s->super,
                    &s->columns, &s->rows,   &s->into,  &s->up,   &s->head, &s->next, &s->label};
  for (size_t k = 0; k < sizeof by_row / sizeof *by_row; k++) *by_row[k] = pbArena_Take(a, N, sizeof(int));

  s->zeros = pbArena_Take(a, N, sizeof(double));
  s->peak = pbArena_Take(a, N, sizeof(double));
}

// ---- order ----------------------------------------------------------------------------------------------------------
// Both directions of every edge. Counts first; begin moves up by one place while it is filled.
static void build_graph(const pbSparsePattern *p, int *begin, int *neighbor) {
  int *fill = begin + 1;
  for (int j = 0; j < p->n; j++) {
    for (int s = p->begin[j] + 1; s < p->begin[j + 1]; s++) {
      fill[p->row[s] + 1]++;
      fill[j + 1]++;
    }
  }
  for (int i = 0; i < p->n; i++) fill[i + 1] += fill[i];

  for (int j = 0; j < p->n; j++) {
    for (int s = p->begin[j] + 1; s < p->begin[j + 1]; s++) {
      neighbor[fill[p->row[s]]++] = j;
      neighbor[fill[j]++] = p->row[s];
    }
  }
}

static bool find_order(const pbSparsePattern *p, pbSparseAnalysis *a) {
  size_t adjacent = 2 * (size_t)(p->slots - p->n), n = (size_t)p->n;
  int *begin = pbContext_AllocArray(a->ctx, n + 2 + adjacent, sizeof(int));
  int *work = pbContext_AllocArray(a->ctx, pbOrder_Room(p->n, adjacent), sizeof(int));
  if (begin && work) {
    int *neighbor = begin + n + 2;
    build_graph(p, begin, neighbor);
    pbOrder_Find(&(pbGraphOf){p->n, begin, neighbor}, a->order, work);
  }

  pbContext_Free(a->ctx, work);
  pbContext_Free(a->ctx, begin);
  return begin && work;
}

// Takes an order that may be the caller's: it must be a permutation.
static pbStatus take_order(pbSparseAnalysis *a, const int *order) {
  for (int i = 0; i < a->n; i++) a->place[i] = -1;
  for (int k = 0; k < a->n; k++) {
    int i = order[k];

    // Out of range, or a second time.
    if (i < 0 || i >= a->n || a->place[i] >= 0)
      return pbContext_Fail(a->ctx, pb_bad_input, "order of %d blocks: entry %d is %d: not a permutation", a->n, k, i);

    a->order[k] = i;
    a->place[i] = k;
  }
  return pb_ok;
}

// The pattern by places in the order: ends of each slot, and for each row its columns below the diagonal.
static void place_slots(const pbSparseAnalysis *a, Scratch *s) {
  memset(s->begin, 0, sizeof(int) * ((size_t)a->n + 1));
  for (int k = 0; k < a->slots; k++) {
    int i = a->place[a->slot_row[k]], j = a->place[a->slot_column[k]];
    s->high[k] = i > j ? i : j;
    s->low[k] = i > j ? j : i;
    if (i != j) s->begin[s->high[k]]++;
  }
  // Counts become ends; filling from the back makes beginnings of ends.

  int sum = 0;
  for (int i = 0; i <= a->n; i++) {
    sum += s->begin[i];
    s->begin[i] = sum;
  }
  for (int k = a->slots - 1; k >= 0; k--) {
    if (s->high[k] != s->low[k]) s->lower[--s->begin[s->high[k]]] = s->low[k];
  }
}

// ---- columns --------------------------------------------------------------------------------------------------------
// Elimination tree (Liu 1990): the root of what a row's columns belong to so far becomes a child of the row. Paths to roots are
// shortened on the way.
static void find_parents(const pbSparseAnalysis *a, Scratch *s) {
  int *ancestor = s->stack;
  for (int i = 0; i < a->n; i++) {
    s->parent[i] = ancestor[i] = -1;
    for (int q = s->begin[i]; q < s->begin[i + 1]; q++) {
      for (int k = s->lower[q], up; k >= 0 && k < i; k = up) {
        up = ancestor[k];
        ancestor[k] = i;
        if (up < 0) s->parent[k] = i;
      }
    }
  }
}

// How many entries each column of L has: row i stands in every column on the way from each k < i with A(i, k) != 0 up to i.
static void count_columns(const pbSparseAnalysis *a, Scratch *s) {
  for (int i = 0; i < a->n; i++) s->count[i] = 1;
  for (int i = 0; i < a->n; i++) {
    s->mark[i] = i;
    for (int q = s->begin[i]; q < s->begin[i + 1]; q++) {
      for (int k = s->lower[q]; s->mark[k] != i; k = s->parent[k]) {
        s->count[k]++;
        s->mark[k] = i;
      }
    }
  }
}

// Depth first from the roots through head and next (destroyed); nodes in post, each after its children. Returns their number.
static int visit_depth_first(const int *parent, const int *node, int n, Scratch *s) {
  int count = 0, depth = 0;
  for (int r = 0; r < n; r++) {
    int root = node ? node[r] : r;
    if (parent[root] >= 0) continue;

    s->stack[depth++] = root;
    while (depth > 0) {  // a node leaves the stack when it has no child left

      // Next child, or none left: the node is numbered.
      int i = s->stack[depth - 1], child = s->head[i];
      if (child < 0) {
        s->post[count++] = i;
        depth--;
      } else {
        s->head[i] = s->next[child];
        s->stack[depth++] = child;
      }
    }
  }
  return count;
}

// Is every column's parent in the elimination tree a later one, and each column once in the postorder, after its children?
static bool is_postorder(const pbSparseAnalysis *a, Scratch *s) {
  for (int i = 0; i < a->n; i++) s->mark[i] = -1;
  for (int k = 0; k < a->n; k++) {
    int i = s->post[k], up = s->parent[i];
    if (s->mark[i] >= 0 || (up >= 0 && (up <= i || s->mark[up] >= 0))) return false;
    s->mark[i] = k;
  }
  return true;
}

static void find_postorder(const pbSparseAnalysis *a, Scratch *s) {
  for (int i = 0; i < a->n; i++) s->head[i] = -1;
  for (int i = a->n - 1; i >= 0; i--) {
    if (s->parent[i] < 0) continue;
    s->next[i] = s->head[s->parent[i]];
    s->head[s->parent[i]] = i;
  }
  int count = visit_depth_first(s->parent, NULL, a->n, s);
  (void)count;
  PB_ASSERT(count == a->n);  // a tree has no cycle, so every column is reached
  PB_VALIDATE(is_postorder(a, s));
}

// ---- fronts ---------------------------------------------------------------------------------------------------------
// Numbers in the panel of a front: a triangle and a rectangle.
static double entries_of(double columns, double rows) { return columns * (columns + 1) / 2 + columns * rows; }

// Fundamental supernodes: columns that follow each other in postorder and have the same rows. Their number.
static int find_supernodes(const pbSparseAnalysis *a, Scratch *s) {
  int count = 0;
  for (int k = 0; k < a->n; k++) {
    int j = s->post[k], before = k ? s->post[k - 1] : -1;

    // The column before is the only child, and has this one's rows and this one itself.
    bool joins = k && s->parent[before] == j && s->count[before] == s->count[j] + 1;
    if (!joins) s->columns[count++] = 0;

    int t = count - 1;
    s->super[j] = t;
    s->columns[t]++;
    s->rows[t] = s->count[j] - 1;
    s->up[t] = s->parent[j];
  }

  for (int t = 0; t < count; t++) {
    // From columns to supernodes.
    s->up[t] = s->up[t] < 0 ? -1 : s->super[s->up[t]];
    s->zeros[t] = 0;
    s->into[t] = t;
    s->head[t] = s->next[t] = -1;
  }
  return count;
}

// Zeros that may be let in to have wider fronts, by width: narrow fronts spend their time on indices.
static bool is_worth_merging(int columns, double zeros, double all) {
  return columns <= 4 || (columns <= 8 && zeros < 0.4 * all) || (columns <= 16 && zeros < 0.15 * all) || zeros < 0.05 * all;
}

static void push_child(Scratch *s, int child, int *list) {
  s->next[child] = *list;
  *list = child;
}

// Makes child c part of front t if that lets in few zeros.
static bool merge_child(Scratch *s, int t, int c) {
  int columns = s->columns[t] + s->columns[c];
  double all = entries_of(columns, s->rows[t]), own = entries_of(s->columns[t], s->rows[t]);
  double child = entries_of(s->columns[c], s->rows[c]);
  double zeros = all - own - child + s->zeros[t] + s->zeros[c];
  if (!is_worth_merging(columns, zeros, all)) return false;

  s->columns[t] = columns;
  s->zeros[t] = zeros;
  s->into[c] = t;
  return true;
}

// Relaxed amalgamation (Ashcraft & Grimes 1989): children whose columns fit into their parent's front with few zeros become
// part of it, and their children its own.
static void merge_fronts(Scratch *s, int count) {
  for (int t = 0; t < count; t++) {
    int left = -1;  // children that t has afterwards
    for (int c = s->head[t], next; c >= 0; c = next) {
      next = s->next[c];
      if (!merge_child(s, t, c)) {
        push_child(s, c, &left);
        continue;
      }
      for (int grandchild = s->head[c], after; grandchild >= 0; grandchild = after) {
        after = s->next[grandchild];
        push_child(s, grandchild, &left);
      }
    }

    s->head[t] = left;
    if (s->up[t] >= 0) push_child(s, t, &s->head[s->up[t]]);
  }
}

// The front that t became part of in the end; paths are halved on the way (Tarjan).
static int merged_front(const Scratch *s, int t) {
  while (s->into[t] != t) t = s->into[t] = s->into[s->into[t]];
  return t;
}

static double update_size(const Scratch *s, int t) { return 9.0 * s->rows[t] * s->rows[t]; }

// Children in the order that keeps the stack of updates small (Liu 1986): those first that shrink the most.
static void sort_children(Scratch *s, int t) {
  int sorted = -1;
  for (int c = s->head[t], next; c >= 0; c = next) {
    next = s->next[c];
    double shrinks = s->peak[c] - update_size(s, c);
    int *at = &sorted;

    // Insertion into the list of those that shrink more.
    while (*at >= 0 && s->peak[*at] - update_size(s, *at) > shrinks) at = &s->next[*at];
    s->next[c] = *at;
    *at = c;
  }
  s->head[t] = sorted;

  // Doubles on the stack while the children come one after the other, and with the front's own update.
  double held = 0, peak = 0;
  for (int c = sorted; c >= 0; c = s->next[c]) {
    if (held + s->peak[c] > peak) peak = held + s->peak[c];
    held += update_size(s, c);
  }
  held += update_size(s, t);
  s->peak[t] = held > peak ? held : peak;
}

// The fronts that are left in postorder, with their places among the columns. label: from a front to its number.
static pbStatus number_fronts(pbSparseAnalysis *a, Scratch *s, int count) {
  int alive = 0;
  for (int t = 0; t < count; t++) {
    if (s->into[t] != t) continue;
    sort_children(s, t);
    s->up[t] = s->up[t] < 0 ? -1 : merged_front(s, s->up[t]);
    s->count[alive++] = t;
  }
  a->fronts = visit_depth_first(s->up, s->count, alive, s);
  a->front = pbContext_AllocArray(a->ctx, (size_t)a->fronts + 1, sizeof *a->front);
  a->child = pbContext_AllocArray(a->ctx, (size_t)a->fronts + 1, sizeof *a->child);
  if (!a->front || !a->child) return pb_no_memory;

  int first = 0;

  // Postorder is the order of the fronts.
  for (int f = 0; f < a->fronts; f++) s->label[s->post[f]] = f;
  for (int f = 0; f < a->fronts; f++) {
    int t = s->post[f];
    a->front[f] = (pbFrontShape){.first = first, .columns = s->columns[t], .parent = s->up[t] < 0 ? -1 : s->label[s->up[t]]};
    first += s->columns[t];
  }
  PB_ASSERT(a->fronts == alive && first == a->n);  // each column is in one front
  return pb_ok;
}

// Lists of children: counts, then places, then the lists themselves.
static void list_children(pbSparseAnalysis *a) {
  for (int f = 0; f < a->fronts; f++) {
    if (a->front[f].parent >= 0) a->front[a->front[f].parent].children++;
  }

  int child = 0;
  for (int f = 0; f < a->fronts; f++) {
    a->front[f].child = child;
    child += a->front[f].children;
    a->front[f].children = 0;
  }
  for (int f = 0; f < a->fronts; f++) {
    if (a->front[f].parent < 0) continue;
    pbFrontShape *p = &a->front[a->front[f].parent];
    a->child[p->child + p->children++] = f;
  }
}

// Is `place` the inverse of `order`?
static bool is_permutation(const pbSparseAnalysis *a) {
  for (int k = 0; k < a->n; k++) {
    if (a->order[k] < 0 || a->order[k] >= a->n || a->place[a->order[k]] != k) return false;
  }
  return true;
}

// The columns' places by their fronts' numbers, within a front in postorder.
static void renumber_columns(pbSparseAnalysis *a, Scratch *s) {
  int *fill = s->stack;
  for (int f = 0; f < a->fronts; f++) fill[f] = a->front[f].first;
  for (int k = 0; k < a->n; k++) {
    int place = fill[s->label[s->node[k]]]++;
    a->order[place] = s->mark[k];
    a->place[s->mark[k]] = place;
  }
  PB_VALIDATE(is_permutation(a));
}

// Number the fronts that are left, children first, and renumber the columns accordingly. What is said about columns in
// postorder (their fronts, their blocks) is put aside before the postorder of fronts takes its place.
static pbStatus order_fronts(pbSparseAnalysis *a, Scratch *s, int count) {
  for (int k = 0; k < a->n; k++) s->node[k] = merged_front(s, s->super[s->post[k]]);
  for (int k = 0; k < a->n; k++) s->mark[k] = a->order[s->post[k]];

  PB_TRY(number_fronts(a, s, count));
  list_children(a);
  renumber_columns(a, s);
  return pb_ok;
}

// ---- structure ------------------------------------------------------------------------------------------------------
// For each row the fronts below it, in which it stands, as in count_columns; rows come out sorted.
static void walk_rows(const pbSparseAnalysis *a, Scratch *s, bool write) {
  for (int f = 0; f < a->fronts; f++) {
    s->mark[f] = -1;
    a->front[f].rows = 0;
  }

  for (int i = 0; i < a->n; i++) {
    int own = s->super[i];
    for (int q = s->begin[i]; q < s->begin[i + 1]; q++) {
      for (int f = s->super[s->lower[q]]; f != own && s->mark[f] != i; f = a->front[f].parent) {
        pbFrontShape *front = &a->front[f];
        s->mark[f] = i;
        if (write) a->row[front->row + front->rows] = i;
        front->rows++;
      }
    }
  }
}

// Fronts come before their parents; their further rows ascend and come after their own columns.
static bool fronts_are_sorted(const pbSparseAnalysis *a) {
  for (int f = 0; f < a->fronts; f++) {
    const pbFrontShape *front = &a->front[f];
    if (front->columns < 1 || (front->parent >= 0 && front->parent <= f)) return false;
    if (!pb_ascending(a->row + front->row, front->rows)) return false;
    if (!pb_allWithin(a->row + front->row, front->rows, front->first + front->columns, a->n)) return false;
  }
  return true;
}

static pbStatus find_rows(pbSparseAnalysis *a, Scratch *s) {
  for (int f = 0; f < a->fronts; f++) {
    for (int j = 0; j < a->front[f].columns; j++) s->super[a->front[f].first + j] = f;
  }

  // Once to count, once to write.
  place_slots(a, s);
  walk_rows(a, s, false);

  size_t total = 0;
  for (int f = 0; f < a->fronts; f++) {
    a->front[f].row = (int)total;
    total += (size_t)a->front[f].rows;
  }
  if (total > INT_MAX)
    return pbContext_Fail(a->ctx, pb_capacity, "a sparse factorization with %zu rows of fronts: too many", total);

  a->row = pbContext_AllocArray(a->ctx, total + 1, sizeof *a->row);
  if (!a->row) return pb_no_memory;
  walk_rows(a, s, true);
  PB_VALIDATE(fronts_are_sorted(a));
  return pb_ok;
}

// Runs of front f, written unless NULL; their number.
static int runs_of(const pbSparseAnalysis *a, const pbFrontShape *f, pbFrontRun *run) {
  if (f->parent < 0) return 0;
  const pbFrontShape *p = &a->front[f->parent];
  const int *row = a->row + f->row, *in = a->row + p->row;

  // Both lists ascend: where each row is in the parent, among its pivots or its further rows.
  int count = 0, at = 0, last = -2;
  for (int i = 0; i < f->rows; i++) {
    int to = row[i] - p->first;
    if (to >= p->columns) {
      // Every row of a child is in its parent.
      while (in[at] != row[i]) at++;
      to = p->columns + at;
    }

    if (to != last + 1) {
      if (run) run[count] = (pbFrontRun){.from = i, .to = to};
      count++;
    }
    if (run) run[count - 1].count++;
    last = to;
  }
  return count;
}

static pbStatus find_runs(pbSparseAnalysis *a) {
  int total = 0;
  for (int f = 0; f < a->fronts; f++) {
    a->front[f].run = total;
    total += a->front[f].runs = runs_of(a, &a->front[f], NULL);
  }

  a->run = pbContext_AllocArray(a->ctx, (size_t)total + 1, sizeof *a->run);
  if (!a->run) return pb_no_memory;
  for (int f = 0; f < a->fronts; f++) runs_of(a, &a->front[f], a->run + a->front[f].run);
  return pb_ok;
}

// Where each block of A goes: which front, and which place in its panel. Blocks by fronts: counts, then lists.
static void sort_entries(pbSparseAnalysis *a, const Scratch *s) {
  for (int k = 0; k < a->slots; k++) a->front[s->super[s->low[k]]].entries++;
  for (int f = 0, total = 0; f < a->fronts; f++) {
    a->front[f].entry = total;
    total += a->front[f].entries;
    a->front[f].entries = 0;
  }
  for (int k = 0; k < a->slots; k++) {
    pbFrontShape *f = &a->front[s->super[s->low[k]]];
    a->entry[f->entry + f->entries++].slot = k;
  }
}

static pbStatus find_entries(pbSparseAnalysis *a, Scratch *s) {
  a->entry = pbContext_AllocArray(a->ctx, (size_t)a->slots + 1, sizeof *a->entry);
  if (!a->entry) return pb_no_memory;
  sort_entries(a, s);

  for (pbFrontShape *f = a->front; f < a->front + a->fronts; f++) {
    // Places of rows within this front.
    int *local = s->mark, lead = pb_aligned(pb_front_m(f));
    for (int i = 0; i < f->columns; i++) local[f->first + i] = i;
    for (int i = 0; i < f->rows; i++) local[a->row[f->row + i]] = f->columns + i;
    // A block above the diagonal of the order goes there transposed.

    for (pbFrontEntry *e = a->entry + f->entry; e < a->entry + f->entry + f->entries; e++) {
      int place = 3 * (local[s->high[e->slot]] + lead * local[s->low[e->slot]]);
      e->place = a->place[a->slot_row[e->slot]] < a->place[a->slot_column[e->slot]] ? ~place : place;
    }
  }
  return pb_ok;
}

// Updates wait for their parents on two stacks, for even and odd depths: a front's update is pushed on one while its children's
// are still on the other.
static pbStatus find_sizes(pbSparseAnalysis *a, Scratch *s) {
  size_t top[2] = {0}, peak[2] = {0};
  for (int f = a->fronts - 1; f >= 0; f--) s->mark[f] = a->front[f].parent < 0 ? 0 : 1 - s->mark[a->front[f].parent];

  for (int i = 0; i < a->fronts; i++) {
    pbFrontShape *f = &a->front[i];
    size_t k = (size_t)pb_front_k(f), u = (size_t)pb_front_u(f), m = k + u, side = (size_t)s->mark[i];

    // Places within a panel are ints.
    if ((size_t)pb_aligned((int)m) * k > INT_MAX)
      return pbContext_Fail(a->ctx, pb_capacity, "a front of %zu x %zu in a sparse factorization: too large", m, k);

    f->panel = a->panel_size;
    a->panel_size += (size_t)pb_aligned((int)m) * k;

    // Pushed on its own stack; the children's updates are popped from the other: down to where the first one began.
    f->update = top[side];
    top[side] += (size_t)pb_aligned((int)u) * u;
    if (top[side] > peak[side]) peak[side] = top[side];
    if (f->children > 0) top[1 - side] = a->front[a->child[f->child]].update;

    if ((int)m > a->most_rows) a->most_rows = (int)m;
    if ((int)k > a->most_pivots) a->most_pivots = (int)k;

    a->entries += k * (k + 1) / 2 + k * u;
    for (size_t j = 0; j < k; j++) a->flops += (double)(m - j) * (double)(m - j);
  }

  for (int i = 0; i < a->fronts; i++) a->front[i].update += s->mark[i] ? peak[0] : 0;
  a->stack_size = peak[0] + peak[1];
  PB_ASSERT(top[0] == 0 && top[1] == 0);  // every update was taken from its stack
  return pb_ok;
}

static pbStatus analyze_pattern(pbSparseAnalysis *a, const pbSparsePattern *p, const int *order, Scratch *s) {
  for (int j = 0; j < p->n; j++) {
    for (int k = p->begin[j]; k < p->begin[j + 1]; k++) {
      a->slot_row[k] = p->row[k];
      a->slot_column[k] = j;
    }
  }

  // An order of the caller's, or one of ours.
  if (!order && !find_order(p, a)) return pb_no_memory;
  PB_TRY(take_order(a, order ? order : a->order));

  place_slots(a, s);

  // The elimination tree of the columns.
  find_parents(a, s);
  count_columns(a, s);
  find_postorder(a, s);

  // Columns become fronts.
  int count = find_supernodes(a, s);
  merge_fronts(s, count);
  PB_TRY(order_fronts(a, s, count));

  // What the fronts consist of.
  PB_TRY(find_rows(a, s));
  PB_TRY(find_runs(a));
  PB_TRY(find_entries(a, s));
  return find_sizes(a, s);
}

static bool allocate_lists(pbSparseAnalysis *a) {
  size_t n = (size_t)a->n + 1, slots = (size_t)a->slots + 1;
  a->order = pbContext_AllocArray(a->ctx, n, sizeof(int));
  a->place = pbContext_AllocArray(a->ctx, n, sizeof(int));
  a->slot_row = pbContext_AllocArray(a->ctx, slots, sizeof(int));
  a->slot_column = pbContext_AllocArray(a->ctx, slots, sizeof(int));
  return a->order && a->place && a->slot_row && a->slot_column;
}

pbStatus pbSparseAnalysis_Create(pbContext *ctx, const pbSparsePattern *pattern, const int *order, pbSparseAnalysis **analysis) {
  *analysis = NULL;
  pbSparseAnalysis *a = pbContext_Alloc(ctx, sizeof *a);
  if (!a) return pbContext_Fail(ctx, pb_no_memory, "no memory for a sparse analysis");
  *a = (pbSparseAnalysis){.ctx = ctx, .n = pattern->n, .slots = pattern->slots};
  bool allocated = allocate_lists(a);

  Scratch s = {0};

  // Lists that only the analysis needs, in one block.
  pbArena arena = pbArena_Measure();
  layout_scratch(&arena, &s, a->n, a->slots);
  s.memory = pbContext_Alloc(ctx, pbArena_Needed(&arena));

  pbStatus status = pb_no_memory;
  if (s.memory && allocated) {
    arena = pbArena_Over(s.memory, pbArena_Needed(&arena));
    layout_scratch(&arena, &s, a->n, a->slots);
    PB_ASSERT(!arena.failed);
    status = analyze_pattern(a, pattern, order, &s);
  }
  pbContext_Free(ctx, s.memory);

  if (status == pb_no_memory) pbContext_Fail(ctx, status, "no memory for a sparse analysis of %d blocks", a->slots);
  if (status == pb_ok) *analysis = a;
  else pbSparseAnalysis_Destroy(a);
  return status;
}

void pbSparseAnalysis_Destroy(pbSparseAnalysis *a) {
  if (!a) return;
  pbContext *ctx = a->ctx;
  void *pieces[] = {a->order, a->place, a->front, a->row, a->child, a->run, a->entry, a->slot_row, a->slot_column};
  for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) pbContext_Free(ctx, pieces[k]);
  pbContext_Free(ctx, a);
}

const int *pbSparseAnalysis_Order(const pbSparseAnalysis *a) { return a->order; }
double pbSparseAnalysis_Flops(const pbSparseAnalysis *a) { return a->flops; }
size_t pbSparseAnalysis_Entries(const pbSparseAnalysis *a) { return a->entries; }
