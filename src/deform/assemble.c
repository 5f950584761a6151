// Sums over elements: energies, forces, the matrix, and the pullback of forces; elements come in chunks that stay in cache.
// Tests: tests/unit/test_deform.c, tests/unit/test_stencil.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"
#include "deform/project.h"

enum { chunk = PB_DEFORM_CHUNK };

static const double *values_of(const pbDeformWork *w, const pbGroupParameter *p) {
  switch (p->source) {
    case pb_fromTheta: return w->in.theta + p->offset;
    case pb_fromControl: return w->in.control + p->offset;
    default: return w->d->data + p->offset;
  }
}

// Where the parameters of a group are, from element `first` on; a parameter of one row has stride 0.
static void locate_parameters(const pbDeformWork *w, const pbElementGroup *g, int first) {
  PB_ASSERT(g->parameter_count <= w->d->most_parameters);

  for (int i = 0; i < g->parameter_count; i++) {
    const pbGroupParameter *p = &g->parameter[i];
    w->stride[i] = p->rows > 1 ? p->size : 0;
    w->parameter[i] = values_of(w, p) + (size_t)first * (size_t)w->stride[i];
  }
}

pbElements pbDeform_Elements(const pbDeformWork *w, const pbElementGroup *g, int first, const pbEvaluation *at) {
  PB_ASSERT(first >= 0 && first < g->count);
  locate_parameters(w, g, first);
  return (pbElements){.count = g->count - first < chunk ? g->count - first : chunk,
                      .vertex = g->vertex + (size_t)first * (size_t)g->points,
                      .x = at->z,
                      .rest = w->in.theta + pb_restAt,
                      .previous = at->ago,
                      .parameter = w->parameter,
                      .stride = w->stride,
                      .timestep = at->span,
                      .time = at->time};
}

// Vectors of the elements' points, added to those of all points.
static void add_vectors(const pbElements *e, int points, const double *from, double scale, double *to) {
  for (int i = 0; i < e->count * points; i++) {
    double *t = to + 3 * e->vertex[i];
    for (int k = 0; k < 3; k++) t[k] += scale * from[3 * i + k];
  }
}

// Hessians of a chunk to their blocks of the matrix at hand, whose numbering differs from the elements' own where contacts add
// blocks.
static void add_matrices(pbDeformWork *w, const pbElementGroup *g, int first, int count, double scale) {
  int p = g->points, n = 3 * p, slot[PB_ENERGY_POINTS * PB_ENERGY_POINTS];
  PB_ASSERT(p <= PB_ENERGY_POINTS);

  for (int e = 0; e < count; e++) {
    const int *at = g->slot + (size_t)(first + e) * (size_t)(p * p);
    const int *vertex = g->vertex + (size_t)(first + e) * (size_t)p;

    for (int i = 0; i < p * p; i++) slot[i] = at[i] >= 0 && w->matrix.slot ? w->matrix.slot[at[i]] : at[i];
    pbDeformMatrix_Add(w, p, vertex, slot, w->hessian_out + (size_t)e * (size_t)(n * n), scale);
  }
}

static pbStatus fail_outside(pbDeformWork *w, const pbElementGroup *g, int first, const pbEnergyFault *fault) {
  // The element by its group and number, and where its first point is.
  const int *v = g->vertex + (size_t)(first + fault->element) * (size_t)g->points;
  const double *x = w->x + 3 * v[0];

  return pbDeform_Fail(w, pb_not_finite, "%s: element %d (point %d at %.6g %.6g %.6g) leaves the domain of its energy: %s",
                       g->name, first + fault->element, v[0], x[0], x[1], x[2], fault->what);
}

static pbStatus evaluate_chunk(pbDeformWork *w, const pbElementGroup *g, int first, const pbEvaluation *e) {
  pbElements in = pbDeform_Elements(w, g, first, e);
  pbElementsOut out = {.value = e->value ? w->value_out : NULL,
                       .gradient = e->gradient ? w->gradient_out : NULL,
                       .hessian = e->hessian ? w->hessian_out : NULL};
  pbEnergyFault fault;
  int n = 3 * g->points;
  bool inside = pbEnergy_Evaluate(g->energy, &in, &out, w->energy_work, &fault);

  // A value alone may be infinite: a line search asks for it. Derivatives there do not exist.
  if (!inside && (e->gradient || e->hessian)) return fail_outside(w, g, first, &fault);

  if (e->value) {
    for (int i = 0; i < in.count; i++) *e->value += e->value_scale * w->value_out[i];
  }

  if (e->gradient) add_vectors(&in, g->points, w->gradient_out, e->gradient_scale, e->gradient);
  if (!e->hessian) return pb_ok;

  if (e->project > 0) {
    for (int i = 0; i < in.count; i++) pbProject_Definite(w->hessian_out + (size_t)i * (size_t)(n * n), n, e->project, w->eigen);
  }

  add_matrices(w, g, first, in.count, e->hessian_scale);

  return pb_ok;
}

pbStatus pbDeform_Evaluate(pbDeformWork *w, const pbEvaluation *e) {
  for (const pbElementGroup *g = w->d->group; g < w->d->group + w->d->ngroup; g++) {
    if (g->mass) continue;
    for (int first = 0; first < g->count; first += chunk) PB_TRY(evaluate_chunk(w, g, first, e));
  }

  return w->barrier ? pbDeformContact_Evaluate(w, e) : pb_ok;
}

// ---- pullback -----------------------------------------------------------------------------------------------------
// Where the cotangent of a parameter goes; NULL: not wanted, or a constant.
static double *values_bar(const pbGroupParameter *p, const pbDeformBar *bar) {
  double *base = NULL;
  if (p->source == pb_fromTheta) base = bar->theta;
  if (p->source == pb_fromControl) base = bar->control;
  return base ? base + p->offset : NULL;
}

// `weights` are scaled before: what is added is the pullback of weights . gradient.
static pbStatus pull_chunk(pbDeformWork *w, const pbElementGroup *g, int first, const pbElements *in, const double *weights,
                           const pbEvaluationBar *points, const pbDeformBar *bar) {
  pbEnergyFault fault;
  for (int i = 0; i < g->parameter_count; i++) {
    double *base = values_bar(&g->parameter[i], bar);
    w->parameter_bar[i] = base ? base + (size_t)first * (size_t)w->stride[i] : NULL;
  }

  // Masses want neither positions nor time.
  pbElementsBar out = {.x = points->z,
                       .rest = bar->theta ? bar->theta + pb_restAt : NULL,
                       .previous = points->ago,
                       .parameter = w->parameter_bar,
                       .timestep = points->span,
                       .time = points->time};

  if (pbEnergy_Pullback(g->energy, in, weights, &out, w->energy_work, &fault)) return pb_ok;

  return fail_outside(w, g, first, &fault);
}

pbStatus pbDeform_Pull(pbDeformWork *w, const pbEvaluation *at, double scale, const double *weights,
                       const pbEvaluationBar *points, const pbDeformBar *bar) {
  PB_VALIDATE(pb_allFinite(weights, 3 * (size_t)w->d->npoint));

  // Elements see scaled weights, so that cotangents of shared parameters need no scaling afterwards.
  for (int i = 0; i < 3 * w->d->npoint; i++) w->weights[i] = scale * weights[i];
  for (const pbElementGroup *g = w->d->group; g < w->d->group + w->d->ngroup; g++) {
    if (g->mass) continue;
    for (int first = 0; first < g->count; first += chunk) {
      pbElements in = pbDeform_Elements(w, g, first, at);
      PB_TRY(pull_chunk(w, g, first, &in, w->weights, points, bar));
    }
  }

  return w->barrier ? pbDeformContact_Pull(w, at->z, at->y, w->weights, points->z, points->y, bar) : pb_ok;
}

// ---- masses -------------------------------------------------------------------------------------------------------
static pbElements mass_elements(const pbDeformWork *w, const pbElementGroup *g, int first) {
  const double *rest = w->in.theta + pb_restAt;
  return pbDeform_Elements(w, g, first, &(pbEvaluation){.z = rest, .ago = rest, .span = w->in.h});
}

// A group's share of the masses. Its energy is linear in the points' x, so that its gradient by x is the share of each point.
static pbStatus add_masses(pbDeformWork *w, const pbElementGroup *g) {
  pbEnergyFault fault;

  for (int first = 0; first < g->count; first += chunk) {
    pbElements in = mass_elements(w, g, first);
    if (!pbEnergy_Evaluate(g->energy, &in, &(pbElementsOut){.gradient = w->gradient_out}, w->energy_work, &fault))
      return fail_outside(w, g, first, &fault);

    for (int i = 0; i < in.count * g->points; i++) w->mass[in.vertex[i]] += w->gradient_out[3 * i];
  }

  return pb_ok;
}

pbStatus pbDeform_Masses(pbDeformWork *w) {
  const pbDeform *d = w->d;
  memcpy(w->mass, w->in.theta + pb_massAt(d), (size_t)d->npoint * sizeof(double));

  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    if (g->mass) PB_TRY(add_masses(w, g));
  }

  // Attached points move as bodies do, which have the mass.
  for (int i = 0; i < d->nattached; i++) w->mass[d->attached[i]] = 0;

  for (int i = 0; i < d->npoint; i++) {
    bool moves = d->unknown[i] >= 0 && w->scheme->inertia;
    if (w->mass[i] >= 0 && (w->mass[i] > 0 || !moves) && isfinite(w->mass[i])) continue;
    return pbDeform_Fail(w, pb_bad_input, "point %d has a mass of %g: points that move need one (point_mass, or a mass group)", i,
                         w->mass[i]);
  }

  return pb_ok;
}

pbStatus pbDeform_MassesVjp(pbDeformWork *w, const double *mass_bar, double *theta_bar) {
  const pbDeform *d = w->d;
  const pbEvaluationBar none = {0};

  memset(w->weights, 0, 3 * (size_t)d->npoint * sizeof(double));

  // The gradient of a group's energy by x is what gives masses: so weights by x pull it back.
  for (int i = 0; i < d->npoint; i++) {
    double bar = d->attached_of[i] < 0 ? mass_bar[i] : 0;
    theta_bar[pb_massAt(d) + (size_t)i] += bar;
    w->weights[3 * i] = bar;
  }

  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    if (!g->mass) continue;
    for (int first = 0; first < g->count; first += chunk) {
      pbElements in = mass_elements(w, g, first);
      PB_TRY(pull_chunk(w, g, first, &in, w->weights, &none, &(pbDeformBar){.theta = theta_bar}));
    }
  }

  return pb_ok;
}
