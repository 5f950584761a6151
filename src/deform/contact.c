// Contact of deformables: the barrier's stencils are elements that come and go.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"
#include "energy/energy_inside.h"
#include "number/number.h"

enum { chunk = PB_DEFORM_CHUNK };

// ---- compile ----------------------------------------------------------------------------------------------------------
typedef struct lists {
  int triangles, edges, points, planes;
  int *triangle, *edge, *point, *plane, *group;
  bool *collide;
} lists;

static void add_surface(const pbSurfaceDef *s, int number, lists *l) {
  int *edge = l->edge + 2 * l->edges, *point = l->point + l->points;
  if (s->plane) {
    memcpy(l->plane + 3 * l->planes++, s->point, 3 * sizeof(int));
    for (int k = 0; k < 3; k++) l->group[s->point[k]] = number;
    return;
  }

  memcpy(l->triangle + 3 * l->triangles, s->triangle, 3 * (size_t)s->triangles * sizeof(int));
  l->triangles += s->triangles;
  int from_triangles = pbCollision_Edges(s->triangle, s->triangles, edge);
  memcpy(edge + 2 * from_triangles, s->edge, 2 * (size_t)s->edges * sizeof(int));
  l->edges += from_triangles + s->edges;
  int corners = pbCollision_Points(s->triangle, s->triangles, 3, point);
  int ends = pbCollision_Points(s->edge, s->edges, 2, point + corners);
  memcpy(point + corners + ends, s->point, (size_t)s->points * sizeof(int));
  int all = pbCollision_Points(point, corners + ends + s->points, 1, point + corners + ends + s->points);
  memmove(point, point + corners + ends + s->points, (size_t)all * sizeof(int));
  l->points += all;
  for (int i = 0; i < all; i++) l->group[point[i]] = number;
}

static pbStatus collide(pbDeform *d, const pbDeformable *from, lists *l) {
  for (int i = 0; i < from->nsurface; i++) {
    for (int k = 0; k < from->nsurface; k++) l->collide[i * from->nsurface + k] = i != k || from->surfaces[i].self;
    add_surface(&from->surfaces[i], i, l);
  }

  for (const pbSurfacePair *p = from->pairs; p < from->pairs + from->npair; p++)
    l->collide[p->first * from->nsurface + p->second] = l->collide[p->second * from->nsurface + p->first] = p->meet;
  static const pbBarrierFriction kinds[] = {pb_barrierNone, pb_barrierLagged, pb_barrierImplicit};
  pbCollisionDef def = {.vertices = d->npoint,
                        .group = l->group,
                        .groups = from->nsurface,
                        .collide = l->collide,
                        .points = l->points,
                        .point = l->point,
                        .edges = l->edges,
                        .edge = l->edge,
                        .triangles = l->triangles,
                        .triangle = l->triangle,
                        .planes = l->planes,
                        .plane = l->plane,
                        .planar = from->planar,
                        .friction = kinds[from->contact.kind]};

  return pbCollision_Create(d->ctx, &def, &d->collision);
}

static pbStatus make_lists(pbDeform *d, const pbDeformable *from) {
  lists l = {0};
  size_t triangles = 0, edges = 0, points = 0, n = (size_t)from->nsurface;

  for (int i = 0; i < from->nsurface; i++) {
    const pbSurfaceDef *s = &from->surfaces[i];
    triangles += (size_t)s->triangles;
    edges += (size_t)s->edges + 3 * (size_t)s->triangles;
    points += 2 * ((size_t)s->points + 2 * (size_t)s->edges + 3 * (size_t)s->triangles);
  }

  l.triangle = pbContext_AllocArray(d->ctx, 3 * triangles + 1, sizeof(int));
  l.edge = pbContext_AllocArray(d->ctx, 2 * edges + 1, sizeof(int));
  l.point = pbContext_AllocArray(d->ctx, points + 1, sizeof(int));
  l.plane = pbContext_AllocArray(d->ctx, 3 * n + 1, sizeof(int));
  l.group = pbContext_AllocArray(d->ctx, (size_t)d->npoint + 1, sizeof(int));
  l.collide = pbContext_AllocArray(d->ctx, n * n + 1, sizeof(bool));
  bool good = l.triangle && l.edge && l.point && l.plane && l.group && l.collide;
  for (int i = 0; good && i < d->npoint; i++) l.group[i] = -1;
  pbStatus status = good ? collide(d, from, &l) : pbContext_Fail(d->ctx, pb_no_memory, "no memory for surfaces");
  void *all[] = {l.triangle, l.edge, l.point, l.plane, l.group, l.collide};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(d->ctx, all[i]);

  return status;
}

static size_t take(pbDeform *d, size_t count) {
  size_t at = d->ntheta;
  d->ntheta += count;
  return at;
}

pbStatus pbDeformContact_Compile(pbDeform *d, const pbDeformable *from) {
  if (from->nsurface == 0) return pb_ok;
  if (!(from->contact.distance > 0))
    return pbContext_Fail(d->ctx, pb_bad_input,
                          "surfaces need contact settings: distance and stiffness (pbDeformable_SetContact)");
  if (from->contact.kind != pb_frictionNone && pbScheme_NeedsAcceleration(pbScheme_Table(from->options.scheme, false)))
    return pbContext_Fail(d->ctx, pb_unsupported,
                          "friction of deformables needs the scheme implicit_euler, bdf2 or static, not %s",
                          pbScheme_Name(from->options.scheme));
  if (from->nsurface > PB_MOST_SURFACES)
    return pbContext_Fail(
        d->ctx, pb_capacity,
        "%d surfaces in contact: each pair of them has a stiffness and a friction, and no more than %d surfaces are "
        "taken; bodies that share these can be one body",
        from->nsurface, PB_MOST_SURFACES);
  size_t n = (size_t)(d->nsurface = from->nsurface);
  d->friction = from->contact.kind != pb_frictionNone;
  d->unsymmetric = d->unsymmetric || from->contact.kind == pb_frictionImplicit;
  d->stiffness_at = take(d, n * n);
  d->friction_at = take(d, n * n);
  d->radius_at = take(d, n);
  d->distance_at = take(d, 1);
  d->velocity_at = take(d, 1);

  return make_lists(d, from);
}

void pbDeformContact_Values(pbDeform *d, const pbDeformable *from) {
  if (!d->collision) return;
  int n = d->nsurface;
  for (int i = 0; i < n * n; i++) {
    d->theta0[d->stiffness_at + (size_t)i] = from->contact.stiffness;
    d->theta0[d->friction_at + (size_t)i] = from->contact.friction;
  }

  for (const pbSurfacePair *p = from->pairs; p < from->pairs + from->npair; p++) {
    for (int side = 0; side < 2; side++) {
      size_t at = (size_t)(side ? p->second * n + p->first : p->first * n + p->second);
      if (p->stiffness >= 0) d->theta0[d->stiffness_at + at] = p->stiffness;
      if (p->friction >= 0) d->theta0[d->friction_at + at] = p->friction;
    }
  }

  for (int i = 0; i < n; i++) d->theta0[d->radius_at + (size_t)i] = from->surfaces[i].radius;
  d->theta0[d->distance_at] = from->contact.distance;
  d->theta0[d->velocity_at] = from->contact.velocity > 0 ? from->contact.velocity : 1e-3;
}

pbBarrierValues pbDeformContact_ValuesOf(const pbDeform *d, const double *theta) {
  return (pbBarrierValues){.kappa = theta + d->stiffness_at,
                           .mu = theta + d->friction_at,
                           .radius = theta + d->radius_at,
                           .dhat = theta[d->distance_at],
                           .eps_v = theta[d->velocity_at]};
}

// Also room for the energies of its stencils.
pbStatus pbDeformContact_Check(pbDeform *d) {
  pbBarrier *barrier;
  if (!d->collision) return pb_ok;
  pbBarrierValues values = pbDeformContact_ValuesOf(d, d->theta0);
  PB_TRY(pbBarrier_Create(d->ctx, d->collision, 0, &barrier));

  for (int t = 0; t < 2 * pb_stencilTypes; t++) {
    const pbStencils *s = t < pb_stencilTypes ? pbBarrier_Contacts(barrier, (pbStencilType)t)
                          : d->friction       ? pbBarrier_Friction(barrier, (pbStencilType)(t - pb_stencilTypes))
                                              : NULL;
    size_t sizes[2] = {s && s->energy ? pbEnergy_WorkSize(s->energy) : 0,
                       s && s->energy ? pbEnergy_WorkSizeComplex(s->energy) : 0};

    for (int i = 0; i < 2; i++) d->work_bytes = sizes[i] > d->work_bytes ? sizes[i] : d->work_bytes;
  }

  pbStatus status;
  do {
    status = pbBarrier_Begin(barrier, &values, d->start, d->theta0 + pb_restAt);
  } while (status == pb_capacity && (status = pbBarrier_Grow(barrier)) == pb_ok);
  if (status == pb_ok) status = pbBarrier_Check(barrier, &values, d->start);
  if (status != pb_ok) pbContext_Fail(d->ctx, status, "%s", pbBarrier_Error(barrier));
  pbBarrier_Destroy(barrier);

  return status;
}

// ---- stencils ---------------------------------------------------------------------------------------------------------
// Contacts, then friction: number of a list, NULL beyond the last.
static const pbStencils *list(const pbDeformWork *w, int index) {
  if (index < pb_stencilTypes) return pbBarrier_Contacts(w->barrier, (pbStencilType)index);
  if (!w->d->friction || index >= 2 * pb_stencilTypes) return NULL;
  return pbBarrier_Friction(w->barrier, (pbStencilType)(index - pb_stencilTypes));
}

static pbStatus told(pbDeformWork *w, pbStatus status) {
  if (status == pb_capacity) return pbDeform_Lacks(w, "contact: %s", pbBarrier_Error(w->barrier));
  return status == pb_ok ? pb_ok : pbDeform_Fail(w, status, "contact: %s", pbBarrier_Error(w->barrier));
}

pbStatus pbDeformContact_Begin(pbDeformWork *w) {
  pbBarrierValues values = pbDeformContact_ValuesOf(w->d, w->in.theta);
  return told(w, pbBarrier_Begin(w->barrier, &values, w->y, w->in.theta + pb_restAt));
}

pbStatus pbDeformContact_Update(pbDeformWork *w, const double *z) {
  pbBarrierValues values = pbDeformContact_ValuesOf(w->d, w->in.theta);
  return told(w, pbBarrier_Update(w->barrier, &values, z, w->in.theta + pb_restAt));
}

size_t pbDeformContact_Pairs(const pbDeformWork *w, int *pairs) {
  size_t count = 0;
  const pbStencils *s;

  for (int t = 0; (s = list(w, t)); t++) {
    for (int e = 0; e < s->count * s->points * s->points; e++) {
      const int *v = s->vertex + e / (s->points * s->points) * s->points;
      int a = w->d->unknown[v[e / s->points % s->points]], b = w->d->unknown[v[e % s->points]];

      if (a <= b || b < 0) continue;
      if (pairs) {
        pairs[2 * count] = a;
        pairs[2 * count + 1] = b;
      }

      count++;
    }
  }

  return count;
}

// Elements `first` .. of a list; at most a chunk.
static pbElements part(const pbDeformWork *w, const pbStencils *s, int first, const double *z, const double *y,
                       const double **parameter) {
  pbElements in = pbStencils_Elements(s, z, w->in.theta + pb_restAt, y, w->in.h);
  in.count = s->count - first < chunk ? s->count - first : chunk;
  in.vertex += (size_t)first * (size_t)s->points;
  for (int i = 0; i < pb_stencilParameters; i++)
    parameter[i] = s->parameter[i] ? s->parameter[i] + (size_t)first * (size_t)s->stride[i] : NULL;
  in.parameter = parameter;

  return in;
}

static void spread(const pbElements *in, int points, const double *from, double scale, double *to) {
  for (int i = 0; i < in->count * points; i++) {
    for (int k = 0; k < 3; k++) to[3 * in->vertex[i] + k] += scale * from[3 * i + k];
  }
}

static void scatter(pbDeformWork *w, const pbElements *in, int p, double scale) {
  int n = 3 * p, slot[16];
  for (int e = 0; e < in->count; e++) {
    for (int i = 0; i < p * p; i++) {
      int a = w->d->unknown[in->vertex[e * p + i / p]], b = w->d->unknown[in->vertex[e * p + i % p]];
      slot[i] = a < b || b < 0 ? -1 : pbSparse_Slot(w->matrix.pattern, a, b);
    }

    pbDeformMatrix_Add(w, p, in->vertex + e * p, slot, w->hessian_out + (size_t)e * (size_t)(n * n), scale);
  }
}

static pbStatus closed(pbDeformWork *w, const pbElements *in, int points, const pbEnergyFault *fault) {
  const int *v = in->vertex + (size_t)(fault->element * points);
  return pbDeform_Fail(w, pb_bad_input, "contact of points %d and %d: %s", v[0], v[points - 1], fault->what);
}

pbStatus pbDeformContact_Evaluate(pbDeformWork *w, const pbEvaluation *e) {
  const pbStencils *s;
  const double *parameter[pb_stencilParameters];
  pbEnergyFault fault;

  for (int t = 0; (s = list(w, t)); t++) {
    for (int first = 0; first < s->count; first += chunk) {
      pbElements in = part(w, s, first, e->z, e->y, parameter);
      pbElementsOut out = {e->value ? w->value_out : NULL, e->gradient ? w->gradient_out : NULL,
                           e->hessian ? w->hessian_out : NULL};
      bool inside = pbEnergy_Evaluate(s->energy, &in, &out, w->energy_work, &fault);

      if (!inside && (e->gradient || e->hessian)) return closed(w, &in, s->points, &fault);
      for (int i = 0; e->value && i < in.count; i++) *e->value += e->value_scale * w->value_out[i];
      if (e->gradient) spread(&in, s->points, w->gradient_out, e->gradient_scale, e->gradient);
      for (int i = 0; e->hessian && e->project > 0 && i < in.count; i++)
        pbProject_Definite(w->hessian_out + (size_t)i * 9 * (size_t)(s->points * s->points), 3 * s->points, e->project, w->eigen);
      if (e->hessian) scatter(w, &in, s->points, e->hessian_scale);
    }
  }

  return pb_ok;
}

// ---- derivatives ------------------------------------------------------------------------------------------------------
pbStatus pbDeformContact_Pull(pbDeformWork *w, const double *z, const double *y, const double *weights, double *z_bar,
                              double *y_bar, const pbDeformBar *bar) {
  const pbDeform *d = w->d;
  const pbStencils *s;
  pbEnergyFault fault;
  double *theta = bar->theta;
  pbBarrierBar values = {0};

  if (theta)
    values = (pbBarrierBar){theta + d->stiffness_at, theta + d->friction_at, theta + d->radius_at, theta + d->distance_at,
                            theta + d->velocity_at};
  pbElementsBar points = {.x = z_bar, .rest = theta ? theta + pb_restAt : NULL, .previous = y_bar, .timestep = bar->h};

  for (int t = 0; (s = list(w, t)); t++) {
    if (!s->count) continue;
    pbElements in = pbStencils_Elements(s, z, w->in.theta + pb_restAt, y, w->in.h);
    if (!pbStencils_Pullback(w->barrier, s, &in, weights, &points, &values, w->energy_work, &fault))
      return closed(w, &in, s->points, &fault);
  }

  return pb_ok;
}

// The numbers a stencil has of its own, as complex numbers along a direction of theta.
static void blend(const pbDeformWork *w, const pbStencils *s, int first, int count, const double *way) {
  const pbDeform *d = w->d;
  for (int e = 0; e < count; e++) {
    int pair = s->pair[first + e], a = pair / d->nsurface, b = pair % d->nsurface;
    double slope[pb_stencilParameters] = {0};

    if (way) {
      slope[pb_parameterKappa] = way[d->stiffness_at + (size_t)pair];
      slope[pb_parameterXi] = way[d->radius_at + (size_t)a] + way[d->radius_at + (size_t)b];
      slope[pb_parameterDhat] = way[d->distance_at];
      slope[pb_parameterMu] = way[d->friction_at + (size_t)pair];
      slope[pb_parameterEps] = way[d->velocity_at];
    }

    for (int i = 0; i < pb_stencilParameters; i++) {
      _Complex double *to = w->complex_stencil + i * chunk + e;
      if (!s->parameter[i]) continue;
      __real__ *to = s->parameter[i][(size_t)(first + e) * (size_t)s->stride[i]];
      __imag__ *to = PB_IMAG_STEP * slope[i];
    }
  }
}

pbStatus pbDeformContact_Push(pbDeformWork *w, const double *way, double scale, double *out, const _Complex double *h) {
  static const int stride[pb_stencilParameters] = {1, 1, 1, 1, 1, 1};
  const pbStencils *s;
  pbEnergyFault fault;
  const _Complex double time = 0;
  const void *parameter[pb_stencilParameters];

  for (int i = 0; i < pb_stencilParameters; i++) parameter[i] = w->complex_stencil + i * chunk;
  for (int t = 0; (s = list(w, t)); t++) {
    for (int first = 0; first < s->count; first += chunk) {
      int count = s->count - first < chunk ? s->count - first : chunk;
      blend(w, s, first, count, way);
      pbComplexElements in = {.count = count,
                              .vertex = s->vertex + (size_t)first * (size_t)s->points,
                              .x = w->complex_z,
                              .rest = w->complex_theta + pb_restAt,
                              .previous = w->complex_y,
                              .parameter = parameter,
                              .stride = stride,
                              .timestep = h,
                              .time = &time};
      if (!pbEnergy_EvaluateComplex(s->energy, &in, &(pbComplexOut){.gradient = w->complex_out}, w->energy_work, &fault))
        return pbDeform_Fail(w, pb_bad_input, "contact: %s", fault.what);

      for (int i = 0; i < count * s->points; i++) {
        for (int k = 0; k < 3; k++) out[3 * in.vertex[i] + k] += scale / PB_IMAG_STEP * __imag__ w->complex_out[3 * i + k];
      }
    }
  }

  return pb_ok;
}
