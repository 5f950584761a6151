// Elements whose energy stands at a kink at the solution of a step: a string that is just taut, a clamp at its bound, ground that
// is just touched. To one side of a move their force answers otherwise than to the other: no linear map is the derivative.
//
// By forces at the solution and a little to both sides of it, along one direction of positions, of those at the start of the step
// and of parameters: D1 = f(e) - f(-e/2) and D2 = f(e) - 3 f(0) + 2 f(-e/2). Of a smooth force D2 falls as e^2, at a kink as e,
// at a jump, of either sign, not at all. Only of formulas that have choices in them.
// Tests: tests/unit/test_deform.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "deform/deform.h"
#include "energy/energy_inside.h"

static const double length = 1e-6;            // e, of the scene for points, relative for parameters
static const double shorter = 1. / 32;        // then: a kink within this part of e counts
static const double least = 0.01;             // D2 / D1 of what is no smooth force
static const double rounding = 64 * 2.3e-16;  // of a force
enum { sides = 3, at_once = PB_DEFORM_CHUNK / sides };
static const double side_at[sides] = {-0.5, 0, 1};

// The same numbers every time, from -1 to 1, none near 0 (Press et al., ranqd1).
static double draw(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  double u = (double)(*seed >> 8) / (1 << 24);
  return u < 0.5 ? u - 1 : u;
}

static void displace(const double *from, double size, int n, unsigned seed, double *to) {
  for (int i = 0; i < n; i++) to[i] = from[i] + size * draw(&seed);
}

// Parameters of the group from element `first` on, displaced, those that can vary; as many elements as there is room for.
static int displace_parameters(pbDeformWork *w, const pbElementGroup *g, pbElements *e, double share) {
  double *to = w->hessian_out;
  size_t room = PB_DEFORM_CHUNK * 9 * (size_t)(g->points * g->points);
  unsigned seed = 7;
  size_t each = 0;
  for (int i = 0; i < g->parameter_count; i++) each += (size_t)g->parameter[i].size;

  // Displaced copies lie where the second derivatives of a chunk do.
  if (each > room) return 0;
  if (each * (size_t)e->count > room) e->count = (int)(room / each);

  for (int i = 0; i < g->parameter_count; i++) {
    const pbGroupParameter *p = &g->parameter[i];
    int n = p->size * (w->stride[i] ? e->count : 1);
    bool varies = p->source == pb_fromTheta || p->source == pb_fromControl;
    const double *from = w->parameter[i];

    // Zero is moved as one is.
    for (int k = 0; k < n; k++) {
      double size = from[k] != 0 ? fabs(from[k]) : 1;
      to[k] = from[k] + (varies ? share * size * draw(&seed) : 0);
    }
    w->parameter[i] = to;
    to += n;
  }

  return e->count;
}

// Forces of elements with everything displaced by a share of `length`; false outside of their domain.
static bool forces(pbDeformWork *w, const pbElementGroup *g, const pbEvaluation *at, int first, int count, double share,
                   double *out) {
  int n = 3 * w->d->npoint;
  pbEnergyFault fault;
  pbEvaluation there = *at;

  // Points and their places at the start of the step move in directions of their own.
  displace(at->z, share * length * w->d->size, n, 1, w->next_x);
  displace(at->ago, share * length * w->d->size, n, 2, w->step);
  there.z = w->next_x;
  there.ago = w->step;
  pbElements e = pbDeform_Elements(w, g, first, &there);
  e.count = count;
  displace_parameters(w, g, &e, share * length);

  return pbEnergy_Evaluate(g->energy, &e, &(pbElementsOut){.gradient = out}, w->energy_work, &fault);
}

// D1 and D2 of an element, and the size of its forces, from those of the three sides.
typedef struct Slopes {
  double first, second, size;
} Slopes;

static Slopes slopes_of(const double *f, int n, int all) {
  const double *before = f, *here = f + all, *behind = f + 2 * all;  // n of `all` numbers each
  Slopes s = {0};
  for (int i = 0; i < n; i++) {
    s.first = fmax(s.first, fabs(behind[i] - before[i]));
    s.second = fmax(s.second, fabs(behind[i] - 3 * here[i] + 2 * before[i]));
    s.size = fmax(s.size, fmax(fabs(here[i]), fmax(fabs(before[i]), fabs(behind[i]))));
  }
  return s;
}

static bool look_at(pbDeformWork *w, const pbElementGroup *g, const pbEvaluation *at, int first, int count, double share) {
  int all = 3 * g->points * count;
  for (int side = 0; side < sides; side++) {
    if (!forces(w, g, at, first, count, share * side_at[side], w->gradient_out + side * all)) return false;
  }
  return true;
}

// The first of some elements at a kink, -1: none.
static int find_among(pbDeformWork *w, const pbElementGroup *g, const pbEvaluation *at, int first, int count) {
  int n = 3 * g->points, all = n * count;
  // Outside of the domain to one side: nothing is said.
  if (!look_at(w, g, at, first, count, shorter)) return -1;

  for (int i = 0; i < count; i++) {
    Slopes near = slopes_of(w->gradient_out + i * n, n, all);
    if (!(near.second > least * near.first) || near.second <= rounding * near.size) continue;

    // Alone, over the longer move: at a kink the second difference grows with it, of a smooth force with its square.
    if (!look_at(w, g, at, first + i, 1, 1)) return -1;
    Slopes far = slopes_of(w->gradient_out, n, n);
    if (near.second > 0.5 * shorter * far.second) return first + i;
    if (!look_at(w, g, at, first, count, shorter)) return -1;
  }

  return -1;
}

static int find_in_group(pbDeformWork *w, const pbElementGroup *g, const pbEvaluation *at) {
  for (int first = 0, count; first < g->count; first += count) {
    // As many at once as the three sides, and their parameters, have room for.
    pbElements e = pbDeform_Elements(w, g, first, at);
    if (e.count > at_once) e.count = at_once;
    count = displace_parameters(w, g, &e, 0);
    if (count == 0) return -1;

    int found = find_among(w, g, at, first, count);
    if (found >= 0) return found;
  }
  return -1;
}

static bool find_at(pbDeformWork *w, const pbEvaluation *at, char *text, size_t size) {
  for (const pbElementGroup *g = w->d->group; g < w->d->group + w->d->ngroup; g++) {
    // Formulas without choices have no kinks.
    if (g->mass || !pbEnergy_Chooses(g->energy)) continue;
    int i = find_in_group(w, g, at);
    if (i < 0) continue;

    // As an element that leaves its domain is named.
    const int *v = g->vertex + (size_t)i * (size_t)g->points;
    const double *x = at->z + 3 * v[0];
    snprintf(text, size, "%s: element %d (point %d at %.6g %.6g %.6g)", g->name, i, v[0], x[0], x[1], x[2]);
    return true;
  }
  return false;
}

bool pbDeform_FindKink(pbDeformWork *w, char *text, size_t size) {
  const pbSchemeTable *s = w->scheme;
  int n = 3 * w->d->npoint;
  PB_ASSERT(size > 0);

  // Explicit schemes have their forces at the start, of the step that led there.
  if (!s->implicit) {
    for (int i = 0; i < n; i++) w->ago_bar[i] = w->y[i] - w->in.h * w->v[i];
    pbEvaluation at = {.z = w->y, .ago = w->ago_bar, .span = w->in.h, .time = w->in.time};
    return find_at(w, &at, text, size);
  }

  // Each evaluation of the scheme by itself.
  for (int t = 0; t < s->terms; t++) {
    const double *ago = pbDeform_Ago(w, t);
    pbEvaluation at = {
        .z = pbDeform_At(w, w->x, t), .ago = ago, .span = s->span * w->in.h, .time = w->in.time + s->at[t] * w->in.h};
    if (find_at(w, &at, text, size)) return true;
  }
  return false;
}
