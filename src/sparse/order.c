// Minimum degree on the quotient graph with approximate external degrees (Amestoy, Davis & Duff 1996; names of the steps as
// there). Variables are eliminated one by one; what the elimination of p leaves is an element: the list of variables it
// couples. Test: tests/unit/test_sparse.c.
#include "sparse/order.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

typedef enum State { VARIABLE, ELEMENT, DEAD } State;

// The quotient graph. All arrays are cut from the caller's work (pbOrder_MinimumDegreeRoom): list and spare `room` numbers each,
// the others n + 1.
typedef struct Quotient {
  int n, left;                  // weight of the variables not yet eliminated
  int *list, *spare;            // of a variable: its elements, then variables; of an element: its variables
  int free, room;               // of list
  int *begin, *length;          // of each variable's and element's part of list
  int *elements;                // variable: how many of its part are elements
  int *state, *weight;          // variables that this one stands for; negative while it is in the pivot's list
  int *degree;                  // variable: bound on the external degree; element: weight of its list
  int *head, *next, *previous;  // variables by degree
  int *outside, *stamp;         // element: weight of its variables outside the pivot's list, valid for one step
  int *bucket, *bucket_next;    // variables by hash of their lists
  int *chain, *last;            // variables merged into this one
  int least;
} Quotient;

static const int ARRAYS = 16;

size_t pbOrder_MinimumDegreeRoom(int n, size_t adjacent) {
  return 2 * (2 * adjacent + (size_t)n) + (size_t)ARRAYS * ((size_t)n + 1);
}

int pbOrder_Dense(int n) { return (int)fmax(16, 10 * sqrt((double)n)); }

static void insert_by_degree(Quotient *q, int i) {
  int d = q->degree[i], first = q->head[d];
  q->next[i] = first;
  q->previous[i] = -1;
  q->head[d] = i;
  if (first >= 0) q->previous[first] = i;
  if (d < q->least) q->least = d;
}

static void remove_by_degree(Quotient *q, int i) {
  if (q->previous[i] >= 0) {
    q->next[q->previous[i]] = q->next[i];
  } else {
    q->head[q->degree[i]] = q->next[i];
  }
  if (q->next[i] >= 0) q->previous[q->next[i]] = q->previous[i];
}

static void layout_quotient(Quotient *q, const pbGraphOf *g, int *work) {
  size_t n = (size_t)g->n;
  *q = (Quotient){.n = g->n, .left = g->n, .room = 2 * g->begin[n] + g->n};
  q->list = work;
  q->spare = work + q->room;
  work += 2 * (size_t)q->room;

  int **arrays[] = {&q->begin,    &q->length,  &q->elements, &q->state,  &q->weight,      &q->degree, &q->head, &q->next,
                    &q->previous, &q->outside, &q->stamp,    &q->bucket, &q->bucket_next, &q->chain,  &q->last};
  for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
    *arrays[k] = work;
    work += n + 1;
  }
}

// The lists of neighbors, without dense rows (weight 0).
static void copy_lists(Quotient *q, const pbGraphOf *g) {
  for (int i = 0; i < g->n; i++) {
    q->begin[i] = q->free;
    int end = q->weight[i] ? g->begin[i + 1] : g->begin[i];
    for (int k = g->begin[i]; k < end; k++) {
      if (q->weight[g->adjacent[k]]) q->list[q->free++] = g->adjacent[k];
    }
    q->length[i] = q->degree[i] = q->free - q->begin[i];
  }
}

// Rows with very many neighbors come last, or every step would go through them. Returns how many others there are.
static int begin_quotient(Quotient *q, const pbGraphOf *g, int *work, int *order) {
  layout_quotient(q, g, work);

  // Dense rows have weight 0 until they are put at the end.
  int dense = pbOrder_Dense(g->n);
  for (int i = 0; i < g->n; i++) {
    q->elements[i] = 0;
    q->state[i] = VARIABLE;
    q->stamp[i] = -1;
    q->head[i] = q->bucket[i] = q->chain[i] = -1;
    q->last[i] = i;
    q->weight[i] = g->begin[i + 1] - g->begin[i] <= dense;
  }
  copy_lists(q, g);

  q->least = g->n;
  for (int i = g->n - 1; i >= 0; i--) {
    if (q->weight[i]) {
      insert_by_degree(q, i);
      continue;
    }
    order[--q->left] = i;
    q->state[i] = DEAD;
  }
  return q->left;
}

// Lists that are still used, moved together.
static void compact_lists(Quotient *q) {
  int free = 0;
  for (int i = 0; i < q->n; i++) {
    if (q->state[i] == DEAD) continue;
    memcpy(q->spare + free, q->list + q->begin[i], sizeof(int) * (size_t)q->length[i]);
    q->begin[i] = free;
    free += q->length[i];
  }

  int *swapped = q->list;
  q->list = q->spare;
  q->spare = swapped;
  q->free = free;
}

// Variables that are not yet in the pivot's list enter it: their weight becomes negative.
static void gather_variables(Quotient *q, const int *from, int count) {
  for (int k = 0; k < count; k++) {
    int v = from[k];

    // Eliminated, merged or in the list already.
    if (q->weight[v] <= 0) continue;

    remove_by_degree(q, v);
    q->weight[v] = -q->weight[v];
    q->list[q->free++] = v;
  }
}

// The pivot becomes an element: all that it is coupled to, by matrix entries or elements, which it absorbs.
static void make_element(Quotient *q, int p) {
  int need = q->length[p] - q->elements[p];
  for (int k = 0; k < q->elements[p]; k++) need += q->length[q->list[q->begin[p] + k]];
  if (need > q->room - q->free) compact_lists(q);

  int from = q->free, weight = q->weight[p], degree = 0;
  q->weight[p] = 0;
  for (int k = 0; k < q->elements[p]; k++) {
    // Variables of the pivot's elements, which it absorbs.
    int e = q->list[q->begin[p] + k];
    gather_variables(q, q->list + q->begin[e], q->length[e]);
    q->state[e] = DEAD;
  }
  gather_variables(q, q->list + q->begin[p] + q->elements[p], q->length[p] - q->elements[p]);

  q->state[p] = ELEMENT;
  q->elements[p] = 0;
  q->begin[p] = from;
  q->length[p] = q->free - from;

  // Weights in the list are negative.
  for (int k = from; k < q->free; k++) degree -= q->weight[q->list[k]];
  q->degree[p] = degree;
  q->left -= weight;
}

// outside[e] = |L_e \ L_p| for all elements e that a variable of the pivot's list belongs to: the list's weight, less what is
// met.
static void measure_outside(Quotient *q, int p, int step) {
  for (int k = q->begin[p]; k < q->begin[p] + q->length[p]; k++) {
    int i = q->list[k];
    for (int m = q->begin[i]; m < q->begin[i] + q->elements[i]; m++) {
      int e = q->list[m];
      if (q->stamp[e] != step) {
        q->stamp[e] = step;
        q->outside[e] = q->degree[e];
      }
      q->outside[e] += q->weight[i];
    }
  }
}

static void chain_variable(Quotient *q, int into, int i) {
  q->chain[q->last[into]] = i;
  q->last[into] = q->last[i];
  q->weight[i] = 0;
  q->state[i] = DEAD;
}

// The elements of variable i that have variables outside the pivot's list; the others are absorbed. Returns their summed weight
// outside; *to: where the list goes on.
static int keep_elements(Quotient *q, int i, int *to, unsigned *hash) {
  int d = 0, from = q->begin[i];
  for (int k = from; k < from + q->elements[i]; k++) {
    int e = q->list[k];
    if (q->state[e] == DEAD) continue;

    // All its variables are in the pivot's list, so that the new element covers it.
    if (q->outside[e] == 0) {
      q->state[e] = DEAD;
      continue;
    }
    d += q->outside[e];
    *hash += (unsigned)e;
    q->list[(*to)++] = e;
  }
  return d;
}

// The same for the variables that i is coupled to directly. Those of the pivot's list are left out: the new element couples them.
static int keep_variables(Quotient *q, int i, int *to, unsigned *hash) {
  int d = 0, from = q->begin[i];
  for (int k = from + q->elements[i]; k < from + q->length[i]; k++) {
    int v = q->list[k];
    if (q->weight[v] <= 0) continue;
    d += q->weight[v];
    *hash += (unsigned)v;
    q->list[(*to)++] = v;
  }
  return d;
}

// What variable i is still coupled to besides p; false where that is nothing, so that it goes together with p (mass
// elimination).
static int clean_lists(Quotient *q, int p, int i) {
  int from = q->begin[i], to = from;
  unsigned hash = (unsigned)p;
  int d = keep_elements(q, i, &to, &hash), variables = to;
  d += keep_variables(q, i, &to, &hash);
  if (d == 0) return 0;

  // p becomes the first element; what it displaces goes to the ends of both lists.
  q->list[to] = q->list[variables];
  q->list[variables] = q->list[from];
  q->list[from] = p;
  q->elements[i] = variables - from + 1;
  q->length[i] = to - from + 1;

  // The sum bounds the external degree from above: elements may overlap.
  if (d < q->degree[i]) q->degree[i] = d;

  // Variables with the same lists meet in one bucket, for merge_equal; `previous` is free while i is in no list of degrees.
  int key = (int)(hash % (unsigned)q->n);
  q->bucket_next[i] = q->bucket[key];
  q->bucket[key] = i;
  q->previous[i] = key;
  return 1;
}

static int same_lists(const Quotient *q, int i, int j, const int *stamp, int mark) {
  if (q->length[i] != q->length[j] || q->elements[i] != q->elements[j]) return 0;

  for (int k = q->begin[j]; k < q->begin[j] + q->length[j]; k++) {
    if (stamp[q->list[k]] != mark) return 0;
  }
  return 1;
}

// Indistinguishable variables, those of one bucket with the same lists, become one. Marks are negative, steps are not.
static void merge_equal(Quotient *q, int key, int *mark) {
  for (int i = q->bucket[key]; i >= 0; i = q->bucket_next[i]) {
    if (q->bucket_next[i] < 0) break;

    --*mark;
    for (int k = q->begin[i]; k < q->begin[i] + q->length[i]; k++) q->stamp[q->list[k]] = *mark;

    // Stamps on the entries of i's lists: j has the same ones if all of its own are stamped.
    for (int before = i, j = q->bucket_next[i]; j >= 0; j = q->bucket_next[before]) {
      if (!same_lists(q, i, j, q->stamp, *mark)) {
        before = j;
        continue;
      }
      q->weight[i] += q->weight[j];
      chain_variable(q, i, j);
      q->bucket_next[before] = q->bucket_next[j];
    }
  }
  q->bucket[key] = -1;
}

static void eliminate_pivot(Quotient *q, int p, int step, int *mark) {
  make_element(q, p);
  measure_outside(q, p, step);

  // Variables that are coupled to nothing else go with p.
  int from = q->begin[p], end = from + q->length[p], to = from;
  for (int k = from; k < end; k++) {
    int i = q->list[k];
    if (clean_lists(q, p, i)) continue;

    // Its weight is negative here: it counts as eliminated.
    q->left += q->weight[i];
    q->degree[p] += q->weight[i];
    chain_variable(q, p, i);
  }

  for (int k = from; k < end; k++) {
    int i = q->list[k];
    if (q->weight[i] < 0) merge_equal(q, q->previous[i], mark);
  }

  // The rest is variables again, each with a bound on its degree: what it had and the new element, or all that are left.
  for (int k = from; k < end; k++) {
    int i = q->list[k], weight = -q->weight[i];
    if (weight <= 0) continue;

    int bound = q->degree[i] + q->degree[p] - weight, rest = q->left - weight;
    q->weight[i] = weight;
    q->degree[i] = bound < rest ? bound : rest;
    insert_by_degree(q, i);
    q->list[to++] = i;
  }

  // The list shrank; at the end of all lists its room is free again.
  if (end == q->free) q->free = to;
  q->length[p] = to - from;
  PB_ASSERT(to <= end);
  if (to == from) q->state[p] = DEAD;
}

double pbOrder_MinimumDegree(const pbGraphOf *g, int *order, int *work) {
  Quotient q;
  int most = begin_quotient(&q, g, work, order), count = 0, mark = -1;
  double operations = 0;
  for (int step = 0; count < most; step++) {
    // A variable of least degree.
    while (q.head[q.least] < 0) q.least++;
    int p = q.head[q.least], first = count;
    remove_by_degree(&q, p);
    eliminate_pivot(&q, p, step, &mark);

    // The pivot with all that was merged into it; each is a row of the factor.
    for (int i = p; i >= 0; i = q.chain[i]) order[count++] = i;
    for (double rows = q.degree[p]; first < count; first++, rows++) operations += (rows + 1) * (rows + 1);
  }
  PB_ASSERT(count == most);  // merged variables are eliminated once
  return operations;
}
