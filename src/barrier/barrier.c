// Lists of active stencils: found among close pairs, sorted, merged, with the values of their groups; the pullback of these
// values.
// Tests: tests/unit/test_barrier.c.
#include "barrier/barrier.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "barrier/distance.h"
#include "barrier/parts.h"
#include "base/assert.h"
#include "base/context.h"
#include "base/own.h"
#include "math/vec.h"

// ---- life -----------------------------------------------------------------------------------------------------------
static int max_of(int a, int b) { return a > b ? a : b; }

static void lay_out(pbArena *a, pbBarrier *b) {
  const pbCollision *c = b->collision;

  pbBoxTree_Layout(a, &b->triangles, c->triangles);
  pbBoxTree_Layout(a, &b->edges, c->planar ? 0 : c->edges);
  pbBoxTree_Layout(a, &b->bare_edges, c->bare_edges);
  pbBoxTree_Layout(a, &b->lone_points, c->lone_points);

  b->first = pbArena_Take(a, (size_t)c->vertices + 1, sizeof(int));
  b->overlaps = pbArena_Take(a, (size_t)max_of(max_of(c->triangles, c->edges), c->points), sizeof(int));
}

// The arrays of a view, one after the other, and the rows; what is in them is lost.
enum { own_values = 4, own_bars = 3 };  // arrays with an entry per stencil
static const int own_value[own_values] = {pb_parameterWeight, pb_parameterKappa, pb_parameterXi, pb_parameterMu};
static const int own_bar[own_bars] = {pb_parameterKappa, pb_parameterXi, pb_parameterMu};

static pbStatus make_room(pbBarrier *b, pbStencilList *l, int capacity) {
  size_t doubles = (own_values + own_bars) * sizeof(double), ints = ((size_t)l->view.points + 1) * sizeof(int);
  size_t count = (size_t)capacity;

  // Not zeroed, so pages are not touched before they are used. Rows twice: to sort.
  double *memory = pbContext_Resize(b->ctx, NULL, count * (doubles + ints));
  pbStencilRow *row = pbContext_Resize(b->ctx, NULL, 2 * count * sizeof *row);

  if (!memory || !row) {
    pbContext_Free(b->ctx, memory);
    pbContext_Free(b->ctx, row);
    return pb_no_memory;
  }

  pbContext_Free(b->ctx, l->memory);
  pbContext_Free(b->ctx, l->row);
  l->memory = memory;
  l->row = row;
  l->capacity = capacity;

  // Parameters of each stencil, their cotangents, then pairs and vertices; gap and speed are shared by all.
  for (int k = 0; k < own_values; k++, memory += count) {
    l->view.parameter[own_value[k]] = memory;
    l->view.stride[own_value[k]] = 1;
  }

  for (int k = 0; k < own_bars; k++, memory += count) l->view.bar[own_bar[k]] = memory;

  l->view.pair = (int *)memory;
  l->view.vertex = (int *)memory + count;
  l->view.parameter[pb_parameterDhat] = &b->dhat;
  l->view.parameter[pb_parameterEps] = &b->eps_v;

  l->rows = 0;
  l->view.count = 0;

  return pb_ok;
}

// A quarter of the primitives that can be part of a stencil of this type; near parallel edges are few.
static int usual_room(const pbCollision *c, pbStencilType type) {
  enum { least = 256 };
  int all = c->points + c->edges + c->triangles, few = (c->planar ? 0 : c->edges) / 16;
  switch (type) {
    case pb_stencilPN: return least + (c->planes ? c->points / 4 : 0);
    case pb_stencilEPE:
    case pb_stencilEPP: return least + few;
    default: return least + all / 4;
  }
}

static pbStatus make_lists(pbBarrier *b, int stencils) {
  for (int type = 0; type < pb_stencilTypes; type++) {
    int room = stencils > 0 ? stencils : usual_room(b->collision, (pbStencilType)type);
    PB_TRY(make_room(b, b->contact + type, room));
    if (b->collision->friction != pb_barrierNone) PB_TRY(make_room(b, b->friction + type, room));
  }

  return pb_ok;
}

pbStatus pbBarrier_Create(pbContext *ctx, const pbCollision *collision, int stencils, pbBarrier **barrier) {
  *barrier = NULL;
  pbBarrier *b = pbContext_Alloc(ctx, sizeof *b);
  if (!b) return pbContext_Fail(ctx, pb_no_memory, "barrier: out of memory");
  *b = (pbBarrier){.ctx = ctx, .collision = collision};

  for (int type = 0; type < pb_stencilTypes; type++) {
    b->contact[type].view = (pbStencils){.energy = collision->contact_energy[type], .points = pbStencil_Points[type]};
    b->friction[type].view = (pbStencils){.energy = collision->friction_energy[type], .points = pbStencil_Points[type]};
  }

  // Trees and room for queries, measured and laid out by the same code.
  pbArena a = pbArena_Measure();
  lay_out(&a, b);
  size_t need = pbArena_Needed(&a);
  b->memory = a.failed ? NULL : pbContext_Alloc(ctx, need);

  if (!b->memory || make_lists(b, stencils) != pb_ok) {
    pbBarrier_Destroy(b);
    return pbContext_Fail(ctx, pb_no_memory, "barrier: out of memory");
  }

  a = pbArena_Over(b->memory, need);
  lay_out(&a, b);
  *barrier = b;

  return pb_ok;
}

static void free_list(pbContext *ctx, pbStencilList *l) {
  pbContext_Free(ctx, l->memory);
  pbContext_Free(ctx, l->row);
}

void pbBarrier_Destroy(pbBarrier *b) {
  if (!b) return;

  for (int type = 0; type < pb_stencilTypes; type++) {
    free_list(b->ctx, b->contact + type);
    free_list(b->ctx, b->friction + type);
  }

  pbContext_Free(b->ctx, b->memory);
  pbContext_Free(b->ctx, b);
}

// ---- what comes in --------------------------------------------------------------------------------------------------
pbStatus pbBarrier_Fail(pbBarrier *b, pbStatus status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(b->error, sizeof b->error, format, args);
  va_end(args);

  return status;
}

const char *pbBarrier_Error(const pbBarrier *b) { return b->error; }

static bool is_positive(double v) { return isfinite(v) && v > 0; }
static bool is_not_negative(double v) { return isfinite(v) && v >= 0; }

pbStatus pbBarrier_CheckValues(pbBarrier *b, const pbBarrierValues *v, bool friction) {
  int n = b->collision->groups;

  if (!is_positive(v->dhat)) return pbBarrier_Fail(b, pb_bad_input, "barrier: dhat is %g m; it must be positive", v->dhat);
  for (int i = 0; i < n; i++) {
    if (!is_not_negative(v->radius[i]))
      return pbBarrier_Fail(b, pb_bad_input, "barrier: the radius of group %d is %g m", i, v->radius[i]);
  }

  // Stiffness and friction of the pairs of groups that collide.
  for (int i = 0; i < n; i++) {
    for (int j = i; j < n; j++) {
      int k = i * n + j;
      if (!b->collision->collide[k]) continue;
      if (!is_positive(v->kappa[k]))
        return pbBarrier_Fail(b, pb_bad_input, "barrier: kappa of groups %d and %d is %g N/m; it must be positive", i, j,
                              v->kappa[k]);
      if (friction && !is_not_negative(v->mu[k]))
        return pbBarrier_Fail(b, pb_bad_input, "barrier: mu of groups %d and %d is %g", i, j, v->mu[k]);
    }
  }

  if (friction && !is_positive(v->eps_v))
    return pbBarrier_Fail(b, pb_bad_input, "barrier: eps_v is %g m/s; it must be positive", v->eps_v);
  return pb_ok;
}

pbStatus pbBarrier_CheckPositions(pbBarrier *b, const char *name, const double *x) {
  const pbCollision *c = b->collision;

  for (int i = 0; i < c->vertices; i++) {
    const double *p = x + 3 * (size_t)i;
    if (c->group[i] >= 0 && !(isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2])))
      return pbBarrier_Fail(b, pb_not_finite, "barrier: %s of vertex %d is (%g %g %g)", name, i, p[0], p[1], p[2]);
  }

  return pb_ok;
}

// ---- finding stencils -----------------------------------------------------------------------------------------------
typedef struct Finder {
  pbBarrier *b;
  pbStencilList *list;  // of each type
  const double *x, *X;
  double dhat;
} Finder;

static void add_stencil(Finder *f, pbStencilType type, int a, int b, int c, int d, double weight) {
  pbStencilList *l = f->list + type;

  // All are counted, so that the room that would do is known.
  if (l->found++ < l->capacity) l->row[l->rows++] = (pbStencilRow){{a, b, c, d}, weight};
}

// Vertices in order where they may be swapped, so that equal stencils have equal rows.
static void add_points(Finder *f, int a, int b, double weight) {
  if (a < b) add_stencil(f, pb_stencilPP, a, b, 0, 0, weight);
  else add_stencil(f, pb_stencilPP, b, a, 0, 0, weight);
}

static void add_point_edge(Finder *f, int p, int a, int b, double weight) {
  if (a < b) add_stencil(f, pb_stencilPE, p, a, b, 0, weight);
  else add_stencil(f, pb_stencilPE, p, b, a, 0, weight);
}

// A closest pair of features as the stencil that is made of them alone
static void add_closest(Finder *f, const pbPair *p, const pbClosest *c, double weight) {
  const int *a = p->a, *b = p->b;
  PB_ASSERT(c->na >= 1 && c->nb >= 1 && c->na + c->nb <= 4);

  if (c->na == 1 && c->nb == 1) add_points(f, a[c->a[0]], b[c->b[0]], weight);
  else if (c->na == 1 && c->nb == 2) add_point_edge(f, a[c->a[0]], b[c->b[0]], b[c->b[1]], weight);
  else if (c->na == 2 && c->nb == 1) add_point_edge(f, b[c->b[0]], a[c->a[0]], a[c->a[1]], weight);
  else if (c->nb == 3) add_stencil(f, pb_stencilPT, a[0], b[0], b[1], b[2], weight);
  else add_stencil(f, pb_stencilEE, a[0], a[1], b[0], b[1], weight);
}

static double edge_length2(const double *x, const int *edge) {
  double e[3];
  v3_sub(e, x + 3 * (size_t)edge[1], x + 3 * (size_t)edge[0]);
  return v3_norm2(e);
}

// Whether the mollifier of the formula is below one: |u x v|^2 < 1e-3 |E1|^2 |E2|^2, the edges E at rest.
static bool near_parallel(const Finder *f, const pbPair *p) {
  double u[3], v[3], n[3];
  v3_sub(u, f->x + 3 * (size_t)p->a[1], f->x + 3 * (size_t)p->a[0]);
  v3_sub(v, f->x + 3 * (size_t)p->b[1], f->x + 3 * (size_t)p->b[0]);
  v3_cross(n, u, v);

  return v3_norm2(n) < 1e-3 * edge_length2(f->X, p->a) * edge_length2(f->X, p->b);
}

// Nearly parallel edges keep all four vertices, of which their mollifier is a function, whichever features are closest.
static void add_edges(Finder *f, const pbPair *p, const pbClosest *c) {
  const int *a = p->a, *b = p->b;
  int i = c->a[0], j = c->b[0];

  if (c->na + c->nb == 4 || !near_parallel(f, p)) add_closest(f, p, c, 1);
  else if (c->nb == 2) add_stencil(f, pb_stencilEPE, a[i], a[1 - i], b[0], b[1], 1);
  else if (c->na == 2) add_stencil(f, pb_stencilEPE, b[j], b[1 - j], a[0], a[1], 1);
  else add_stencil(f, pb_stencilEPP, a[i], a[1 - i], b[j], b[1 - j], 1);
}

// ---- a point over several triangles -----------------------------------------------------------------------------------
// Inclusion and exclusion (Li et al. 2023): edges are subtracted as often as they are counted too often, vertices put right
// again.
static bool has_vertex(const int *t, int v) { return t[0] == v || t[1] == v || t[2] == v; }

// Vertices of triangle t besides v
static void other_vertices(const int *t, int v, int *a, int *b) {
  int k = 2;
  if (t[1] == v) k = 1;
  if (t[0] == v) k = 0;

  PB_ASSERT(t[k] == v);
  *a = t[(k + 1) % 3];
  *b = t[(k + 2) % 3];
}

// A triangle with edge (a, b), without point p, that comes before `number`
static bool counted_before(const pbCollision *c, int number, int a, int b, int p) {
  for (int k = c->star[a]; k < c->star[a + 1] && c->star_triangle[k] < number; k++) {
    const int *t = c->triangle + 3 * (size_t)c->star_triangle[k];
    if (has_vertex(t, b) && !has_vertex(t, p)) return true;
  }

  return false;
}

// Triangles at v without p, less their edges but one per triangle: 1 inside of a surface, 0 at its boundary. Zero, too, if
// triangle `number` is not the first of them: it is counted once.
static double vertex_weight(const pbCollision *c, int number, int v, int p) {
  int triangles = 0, edges = 0;

  for (int k = c->star[v]; k < c->star[v + 1]; k++) {
    const int *t = c->triangle + 3 * (size_t)c->star_triangle[k];
    if (has_vertex(t, p)) continue;
    if (!triangles++ && c->star_triangle[k] != number) return 0;

    int next[2];
    other_vertices(t, v, next, next + 1);
    for (int i = 0; i < 2; i++) edges += !counted_before(c, c->star_triangle[k], v, next[i], p);
  }

  return 1 + triangles - edges;
}

// Point p->a over triangle p->b of a surface: what its edges and vertices are counted too often is taken off.
static void add_surface(Finder *f, const pbPair *p, const double *A, const double *B, double reach2) {
  const pbCollision *c = f->b->collision;

  for (int k = 0; k < 3; k++) {
    // Edge k of the triangle, and the vertex where it begins.
    int i = k, j = (k + 1) % 3;
    pbPair edge = {.na = 1, .nb = 2, .a = p->a, .b = (int[]){p->b[i], p->b[j]}};
    double ends[6];

    v3_copy(ends, B + 3 * i);
    v3_copy(ends + 3, B + 3 * j);
    pbClosest close = pbClosest_Find(1, A, 2, ends);

    // An edge that another triangle has counted already.
    if (close.d2 < reach2 && counted_before(c, p->number_b, edge.b[0], edge.b[1], p->a[0])) add_closest(f, &edge, &close, -1);

    // A vertex, once for all triangles around it.
    if (pbClosest_Find(1, A, 1, ends).d2 >= reach2) continue;
    double weight = vertex_weight(c, p->number_b, p->b[i], p->a[0]);
    if (weight != 0) add_points(f, p->a[0], p->b[i], weight);
  }
}

// ---- one pair -------------------------------------------------------------------------------------------------------
double pbPair_OverPlane(const double *p, const double *plane) {
  double u[3], v[3], n[3], r[3];
  v3_sub(u, plane + 3, plane);
  v3_sub(v, plane + 6, plane);
  v3_cross(n, u, v);
  v3_sub(r, p, plane);

  return v3_dot(r, n) / v3_norm(n);
}

// A pair of primitives whose boxes are close, as the stencils of its closest features. user: a Finder.
static pbStatus find_stencils(void *user, const pbPair *p) {
  Finder *f = user;
  double A[9], B[9], reach = f->dhat + p->xi;

  pbPair_Gather(f->x, p->a, p->na, A);
  pbPair_Gather(f->x, p->b, p->nb, B);

  if (p->kind == pb_pairPN) {
    if (pbPair_OverPlane(A, B) < reach) add_stencil(f, pb_stencilPN, p->a[0], p->b[0], p->b[1], p->b[2], 1);
    return pb_ok;
  }

  pbClosest c = pbClosest_Find(p->na, A, p->nb, B);
  if (!(c.d2 < reach * reach)) return pb_ok;

  if (p->kind == pb_pairEE) add_edges(f, p, &c);
  else add_closest(f, p, &c, 1);
  if (p->kind == pb_pairPT) add_surface(f, p, A, B, reach * reach);
  return pb_ok;
}

// ---- lists ----------------------------------------------------------------------------------------------------------
static int compare_rows(const pbStencilRow *a, const pbStencilRow *b) {
  for (int k = 0; k < 4; k++) {
    if (a->vertex[k] != b->vertex[k]) return a->vertex[k] < b->vertex[k] ? -1 : 1;
  }

  return 0;
}

// By vertices, without memory of its own: a counting sort by the first vertex into the second half of the list's rows, then each
// stretch of rows with the same first vertex by insertion (Knuth 1998, 5.2).
static void sort_rows(pbBarrier *b, pbStencilList *l) {
  int *end = b->first, vertices = b->collision->vertices, at = 0;

  memset(end, 0, ((size_t)vertices + 1) * sizeof *end);
  for (int k = 0; k < l->rows; k++) end[l->row[k].vertex[0] + 1]++;

  for (int v = 0; v < vertices; v++) end[v + 1] += end[v];
  pbStencilRow *to = l->row + l->capacity;
  for (int k = 0; k < l->rows; k++) {
    int place = end[l->row[k].vertex[0]]++;
    to[place] = l->row[k];
  }

  for (int v = 0; v < vertices; v++) {
    for (int first = at; at < end[v]; at++) {
      int k = at;
      for (; k > first && compare_rows(to + at, l->row + k - 1) < 0; k--) l->row[k] = l->row[k - 1];
      l->row[k] = to[at];
    }
  }
}

// Rows of the same vertices become one, with the sum of their weights (small whole numbers, so in any order); zeros go.
static void merge_rows(pbStencilList *l) {
  int merged = 0;

  for (int k = 0; k < l->rows; k++) {
    if (k && compare_rows(l->row + k - 1, l->row + k) == 0) l->row[k].weight += l->row[k - 1].weight;
    bool last = k + 1 == l->rows || compare_rows(l->row + k, l->row + k + 1) != 0;
    if (last && l->row[k].weight != 0) l->row[merged++] = l->row[k];
  }

  l->rows = merged;
}

// The arrays of the view: vertices, the pair of groups, and the values that belong to it.
static void fill_view(pbBarrier *b, pbStencilList *l, const pbBarrierValues *values) {
  const pbCollision *c = b->collision;
  pbStencils *s = &l->view;

  s->count = l->rows;
  int *vertex = pb_own(s->vertex), *pair = pb_own(s->pair);
  double *own[pb_stencilParameters];

  for (int k = 0; k < own_values; k++) own[own_value[k]] = pb_own(s->parameter[own_value[k]]);

  for (int e = 0; e < s->count; e++) {
    const pbStencilRow *row = l->row + e;
    memcpy(vertex + e * s->points, row->vertex, (size_t)s->points * sizeof *vertex);

    // The first vertex belongs to one primitive, the last to the other.
    int g = c->group[row->vertex[0]], h = c->group[row->vertex[s->points - 1]];
    pair[e] = pbCollision_Pair(c, g, h);
    PB_ASSERT(g >= 0 && h >= 0 && c->collide[pair[e]]);

    own[pb_parameterWeight][e] = row->weight;
    own[pb_parameterKappa][e] = values->kappa[pair[e]];
    own[pb_parameterXi][e] = values->radius[g] + values->radius[h];
    own[pb_parameterMu][e] = values->mu ? values->mu[pair[e]] : 0;
  }
}

static const char *const type_names[pb_stencilTypes] = {"points",
                                                        "points and edges",
                                                        "points and triangles",
                                                        "edges",
                                                        "edges nearly parallel",
                                                        "ends of edges nearly parallel",
                                                        "points and planes"};

static void note_most(pbStencilList *l) { l->most = l->found > l->most ? l->found : l->most; }

static pbStatus make_stencils(pbBarrier *b, pbStencilList *list, const pbBarrierValues *values, const double *x, const double *X,
                              bool build) {
  // Every pair of primitives that may be close is offered to find_stencils.
  Finder f = {.b = b, .list = list, .x = x, .X = X, .dhat = values->dhat};
  pbPairs pairs = {.x = x, .radius = values->radius, .reach = values->dhat, .visit = find_stencils, .user = &f};

  for (int type = 0; type < pb_stencilTypes; type++) {
    list[type].rows = 0;
    list[type].found = 0;
    list[type].view.count = 0;
  }

  PB_TRY(pbBarrier_Pairs(b, &pairs, build));
  for (int type = 0; type < pb_stencilTypes; type++) note_most(list + type);

  // What found no room, of the first type that lacks it.
  for (int type = 0; type < pb_stencilTypes; type++) {
    const pbStencilList *l = list + type;
    if (l->found > l->capacity)
      return pbBarrier_Fail(b, pb_capacity, "%d pairs of %s are close, and there is room for %d", l->found, type_names[type],
                            l->capacity);
  }

  for (int type = 0; type < pb_stencilTypes; type++) {
    sort_rows(b, list + type);
    merge_rows(list + type);
    fill_view(b, list + type, values);
  }

  return pb_ok;
}

// Implicit friction acts where contact does.
static pbStatus friction_of_contacts(pbBarrier *b, const pbBarrierValues *values) {
  for (int type = 0; type < pb_stencilTypes; type++) {
    pbStencilList *l = b->friction + type;
    pbStencilRow *own = l->row;

    // As many as of contact.
    l->found = b->contact[type].rows;
    note_most(l);
    if (l->found > l->capacity)
      return pbBarrier_Fail(b, pb_capacity, "%d pairs of %s rub, and there is room for %d", l->found, type_names[type],
                            l->capacity);

    // The rows of contact, in the view of friction.
    l->row = b->contact[type].row;
    l->rows = b->contact[type].rows;
    fill_view(b, l, values);
    l->row = own;
    l->rows = 0;
  }

  return pb_ok;
}

static pbStatus check_inputs(pbBarrier *b, const pbBarrierValues *values, const char *name, const double *x) {
  PB_TRY(pbBarrier_CheckValues(b, values, b->collision->friction != pb_barrierNone));
  PB_TRY(pbBarrier_CheckPositions(b, name, x));

  b->dhat = values->dhat;
  b->eps_v = values->eps_v;

  return pb_ok;
}

pbStatus pbBarrier_Begin(pbBarrier *b, const pbBarrierValues *values, const double *y, const double *X) {
  PB_TRY(check_inputs(b, values, "y", y));
  b->begun = true;
  if (b->collision->friction == pb_barrierLagged) return make_stencils(b, b->friction, values, y, X, true);

  pbPairs only_build = {.x = y, .radius = values->radius};

  return pbBarrier_Pairs(b, &only_build, true);
}

pbStatus pbBarrier_Update(pbBarrier *b, const pbBarrierValues *values, const double *x, const double *X) {
  PB_TRY(check_inputs(b, values, "x", x));
  PB_TRY(make_stencils(b, b->contact, values, x, X, !b->begun));
  b->begun = true;

  return b->collision->friction == pb_barrierImplicit ? friction_of_contacts(b, values) : pb_ok;
}

static pbStatus grow_list(pbBarrier *b, pbStencilList *l) {
  return l->most > l->capacity ? make_room(b, l, l->most + l->most / 2) : pb_ok;
}

pbStatus pbBarrier_Grow(pbBarrier *b) {
  for (int type = 0; type < pb_stencilTypes; type++) {
    PB_TRY(grow_list(b, b->contact + type));
    PB_TRY(grow_list(b, b->friction + type));
  }

  return pb_ok;
}

size_t pbBarrier_Room(const pbBarrier *b, int type) {
  return (size_t)b->contact[type].capacity + (size_t)b->friction[type].capacity;
}

// ---- what comes out -------------------------------------------------------------------------------------------------
const pbStencils *pbBarrier_Contacts(const pbBarrier *b, pbStencilType type) { return &b->contact[type].view; }
const pbStencils *pbBarrier_Friction(const pbBarrier *b, pbStencilType type) { return &b->friction[type].view; }

int pbBarrier_ContactCount(const pbBarrier *b) {
  int count = 0;
  for (int type = 0; type < pb_stencilTypes; type++) count += b->contact[type].view.count;

  return count;
}

pbElements pbStencils_Elements(const pbStencils *s, const double *x, const double *X, const double *y, double h) {
  return (pbElements){.count = s->count,
                      .vertex = s->vertex,
                      .x = x,
                      .rest = X,
                      .previous = y,
                      .parameter = s->parameter,
                      .stride = s->stride,
                      .timestep = h};
}

static void clear(double *x, int count) {
  for (int i = 0; i < count; i++) x[i] = 0;
}

bool pbStencils_Pullback(const pbBarrier *b, const pbStencils *s, const pbElements *elements, const double *w,
                         const pbElementsBar *points, const pbBarrierBar *values, void *work, pbEnergyFault *fault) {
  double *bar[pb_stencilParameters] = {[pb_parameterDhat] = values->dhat, [pb_parameterEps] = values->eps_v};
  if (values->kappa) bar[pb_parameterKappa] = s->bar[pb_parameterKappa];
  if (values->radius) bar[pb_parameterXi] = s->bar[pb_parameterXi];
  if (values->mu) bar[pb_parameterMu] = s->bar[pb_parameterMu];

  // Cotangents of each stencil's own parameters, gathered from zero.
  for (int k = 0; k < own_bars; k++) {
    if (bar[own_bar[k]]) clear(bar[own_bar[k]], s->count);
  }

  pbElementsBar all = *points;
  all.parameter = bar;
  bool good = pbEnergy_Pullback(s->energy, elements, w, &all, work, fault);
  int groups = b->collision->groups;

  // From stencils to pairs of groups; xi is the sum of two radii.

  for (int e = 0; e < s->count; e++) {
    int pair = s->pair[e];
    PB_ASSERT(pair >= 0 && pair < groups * groups);

    if (values->kappa) values->kappa[pair] += bar[pb_parameterKappa][e];
    if (values->mu) values->mu[pair] += bar[pb_parameterMu][e];

    if (!values->radius) continue;
    values->radius[pair / groups] += bar[pb_parameterXi][e];
    values->radius[pair % groups] += bar[pb_parameterXi][e];
  }

  return good;
}
