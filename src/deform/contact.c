// Contact of deformables: the barrier's stencils are elements that come and go.
// Tests: tests/unit/test_barrier.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "barrier/distance.h"
#include "deform/deform.h"
#include "energy/energy_inside.h"
#include "number/number.h"

enum { chunk = PB_DEFORM_CHUNK };

// ---- compile ----------------------------------------------------------------------------------------------------------
// What the collision lists are made of: the primitives of all surfaces, each point's surface, and which pairs of surfaces meet.
typedef struct SurfaceLists {
  int triangles, edges, points, planes;
  int *triangle, *edge, *point, *plane, *group;
  bool *collide;
} SurfaceLists;

static void add_plane(const pbSurfaceDef *s, int number, SurfaceLists *l) {
  memcpy(l->plane + 3 * l->planes, s->point, 3 * sizeof(int));
  l->planes++;
  for (int k = 0; k < 3; k++) l->group[s->point[k]] = number;
}

static void add_surface(const pbSurfaceDef *s, int number, SurfaceLists *l) {
  int *edge = l->edge + 2 * l->edges, *point = l->point + l->points;
  if (s->plane) {
    add_plane(s, number, l);
    return;
  }

  memcpy(l->triangle + 3 * l->triangles, s->triangle, 3 * (size_t)s->triangles * sizeof(int));

  // Edges: those of the triangles, each once, then lines.
  l->triangles += s->triangles;
  int from_triangles = pbCollision_Edges(s->triangle, s->triangles, edge);
  memcpy(edge + 2 * from_triangles, s->edge, 2 * (size_t)s->edges * sizeof(int));
  l->edges += from_triangles + s->edges;

  // Points: corners of triangles, ends of lines and single points, one list after the other. A point may be in several of them:
  // the union, each point once, is made in the room behind the lists and moved to their place.
  int corners = pbCollision_Points(s->triangle, s->triangles, 3, point);
  int ends = pbCollision_Points(s->edge, s->edges, 2, point + corners);
  memcpy(point + corners + ends, s->point, (size_t)s->points * sizeof(int));
  int all = pbCollision_Points(point, corners + ends + s->points, 1, point + corners + ends + s->points);
  memmove(point, point + corners + ends + s->points, (size_t)all * sizeof(int));
  l->points += all;
  for (int i = 0; i < all; i++) l->group[point[i]] = number;
}

static void fill_lists(const pbDeformable *from, SurfaceLists *l) {
  int n = from->nsurface;

  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) l->collide[i * n + k] = i != k || from->surfaces[i].self;
    add_surface(&from->surfaces[i], i, l);
  }

  // Settings of pairs go last: they overrule those of surfaces.
  for (int i = 0; i < from->npair; i++) {
    const pbSurfacePair *p = &from->pairs[i];
    l->collide[p->first * n + p->second] = p->meet;
    l->collide[p->second * n + p->first] = p->meet;
  }
}

static pbStatus create_collision(pbDeform *d, const pbDeformable *from, SurfaceLists *l) {
  static const pbBarrierFriction kinds[] = {pb_barrierNone, pb_barrierLagged, pb_barrierImplicit};
  PB_ASSERT((int)from->contact.kind >= 0 && (size_t)from->contact.kind < sizeof kinds / sizeof *kinds);

  // Numbers of groups are those of surfaces.
  fill_lists(from, l);

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

  PB_VALIDATE(pb_allWithin(l->point, l->points, 0, d->npoint) && pb_allWithin(l->edge, 2 * l->edges, 0, d->npoint));

  return pbCollision_Create(d->ctx, &def, &d->collision);
}

// Room for the most primitives that the surfaces may give; false: no memory.
static bool allocate_lists(pbDeform *d, const pbDeformable *from, SurfaceLists *l) {
  size_t triangles = 0, edges = 0, points = 0, n = (size_t)from->nsurface;

  for (int i = 0; i < from->nsurface; i++) {
    const pbSurfaceDef *s = &from->surfaces[i];
    triangles += (size_t)s->triangles;
    edges += (size_t)s->edges + 3 * (size_t)s->triangles;
    points += 2 * ((size_t)s->points + 2 * (size_t)s->edges + 3 * (size_t)s->triangles);
  }

  l->triangle = pbContext_AllocArray(d->ctx, 3 * triangles + 1, sizeof(int));
  l->edge = pbContext_AllocArray(d->ctx, 2 * edges + 1, sizeof(int));
  l->point = pbContext_AllocArray(d->ctx, points + 1, sizeof(int));
  l->plane = pbContext_AllocArray(d->ctx, 3 * n + 1, sizeof(int));
  l->group = pbContext_AllocArray(d->ctx, (size_t)d->npoint + 1, sizeof(int));
  l->collide = pbContext_AllocArray(d->ctx, n * n + 1, sizeof(bool));

  return l->triangle && l->edge && l->point && l->plane && l->group && l->collide;
}

static pbStatus make_lists(pbDeform *d, const pbDeformable *from) {
  SurfaceLists l = {0};
  pbStatus status;

  if (allocate_lists(d, from, &l)) {
    for (int i = 0; i < d->npoint; i++) l.group[i] = -1;
    status = create_collision(d, from, &l);
  } else {
    status = pbContext_Fail(d->ctx, pb_no_memory, "no memory for surfaces");
  }

  void *all[] = {l.triangle, l.edge, l.point, l.plane, l.group, l.collide};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(d->ctx, all[i]);

  return status;
}

// Takes room for `count` parameters; the offset of the first.
static size_t take_theta(pbDeform *d, size_t count) {
  size_t at = d->ntheta;
  d->ntheta += count;
  return at;
}

static pbStatus check_settings(pbDeform *d, const pbDeformable *from) {
  bool friction = from->contact.kind != pb_frictionNone;

  if (!(from->contact.distance > 0))
    return pbContext_Fail(d->ctx, pb_bad_input,
                          "surfaces need contact settings: distance and stiffness (pbDeformable_SetContact)");

  // Friction is a force of the step; schemes that average forces over it would need it at the start of the step too.
  if (friction && pbScheme_NeedsAcceleration(pbScheme_Table(from->options.scheme, false)))
    return pbContext_Fail(d->ctx, pb_unsupported,
                          "friction of deformables needs the scheme implicit_euler, bdf2 or static, not %s",
                          pbScheme_Name(from->options.scheme));

  if (from->nsurface > PB_MOST_SURFACES)
    return pbContext_Fail(
        d->ctx, pb_capacity,
        "%d surfaces in contact: each pair of them has a stiffness and a friction, and no more than %d surfaces are "
        "taken; bodies that share these can be one body",
        from->nsurface, PB_MOST_SURFACES);

  return pb_ok;
}

// Cloth that rubs: Newton's method does not converge on forces without a potential there, whatever the iterations.
static pbStatus check_cloth(const pbDeform *d, const pbDeformable *from) {
  bool *touches = pbContext_AllocArray(d->ctx, (size_t)d->npoint + 1, sizeof *touches);
  if (!touches) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for contact");
  for (int k = 0; k < from->nsurface; k++) {
    const pbSurfaceDef *s = &from->surfaces[k];
    for (int i = 0; i < 3 * s->triangles; i++) touches[s->triangle[i]] = true;
  }

  pbStatus status = pb_ok;
  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    const char *law = g->mass ? "" : pbEnergy_Definition(g->energy)->name;
    bool cloth = !strncmp(law, "membrane_", 9) || !strncmp(law, "bending_", 8);
    bool meets = false;

    // Sheets that have no part in contact are none of its business.
    if (!cloth) continue;
    for (int i = 0; i < g->count * g->points; i++) meets = meets || touches[g->vertex[i]];
    if (!meets) continue;

    status = pbContext_Fail(
        d->ctx, pb_unsupported,
        "contact: friction of kind implicit does not converge on cloth ('%.100s' is %.60s): take the kind lagged", g->name, law);
    break;
  }

  pbContext_Free(d->ctx, touches);

  return status;
}

pbStatus pbDeformContact_Compile(pbDeform *d, const pbDeformable *from) {
  if (from->nsurface == 0) return pb_ok;
  PB_TRY(check_settings(d, from));

  size_t n = (size_t)(d->nsurface = from->nsurface);
  d->friction = from->contact.kind != pb_frictionNone;
  d->unsymmetric = d->unsymmetric || from->contact.kind == pb_frictionImplicit;

  // Stiffness and friction of pairs as symmetric matrices, radii of surfaces, then one distance and one velocity.
  d->stiffness_at = take_theta(d, n * n);
  d->friction_at = take_theta(d, n * n);
  d->radius_at = take_theta(d, n);
  d->distance_at = take_theta(d, 1);
  d->velocity_at = take_theta(d, 1);

  PB_TRY(make_lists(d, from));

  return from->contact.kind == pb_frictionImplicit ? check_cloth(d, from) : pb_ok;
}

void pbDeformContact_Values(pbDeform *d, const pbDeformable *from) {
  if (!d->collision) return;

  // Of all pairs, as the contact settings say.
  int n = d->nsurface;
  for (int i = 0; i < n * n; i++) {
    d->theta0[d->stiffness_at + (size_t)i] = from->contact.stiffness;
    d->theta0[d->friction_at + (size_t)i] = from->contact.friction;
  }

  // Pairs with values of their own (negative: those of the contact settings), on both sides of the diagonal.
  for (int i = 0; i < from->npair; i++) {
    const pbSurfacePair *p = &from->pairs[i];
    for (int side = 0; side < 2; side++) {
      size_t at = (size_t)(side ? p->second * n + p->first : p->first * n + p->second);
      if (p->stiffness >= 0) d->theta0[d->stiffness_at + at] = p->stiffness;
      if (p->friction >= 0) d->theta0[d->friction_at + at] = p->friction;
    }
  }

  for (int i = 0; i < n; i++) d->theta0[d->radius_at + (size_t)i] = from->surfaces[i].radius;

  // The velocity below which friction is smooth matters with friction alone.
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

// Room for the energies of stencils, as much as the largest of their types needs.
static void widen_work(pbDeform *d, const pbStencils *s) {
  if (!s || !s->energy) return;
  size_t real = pbEnergy_WorkSize(s->energy), complex = pbEnergy_WorkSizeComplex(s->energy);

  if (real > d->work_bytes) d->work_bytes = real;
  if (complex > d->work_bytes) d->work_bytes = complex;
}

// Pairs of one body that its rest shape has nearer than where the barrier begins.
typedef struct SelfContact {
  int count, first, second;  // and a vertex of each of the nearest
  int group;
  double gap;
} SelfContact;

static void note_self_contacts(const pbDeform *d, const pbStencils *s, int side, SelfContact *found) {
  const double *X = d->theta0 + pb_restAt;
  const double *radius = d->theta0 + d->radius_at;

  for (int i = 0; i < s->count; i++) {
    const int *v = s->vertex + i * s->points;
    int group = s->pair[i] / d->nsurface;
    double at[12];
    if (s->pair[i] % d->nsurface != group) continue;

    for (int k = 0; k < 3 * s->points; k++) at[k] = X[3 * v[k / 3] + k % 3];
    double gap = sqrt(pbClosest_Find(side, at, s->points - side, at + 3 * side).d2) - 2 * radius[group];
    found->count++;
    if (gap >= found->gap) continue;
    found->gap = gap;
    found->group = group;
    found->first = v[0];
    found->second = v[side];
  }
}

// At rest nothing may push: a distance that exceeds the gaps of a body's own features makes it swell.
static pbStatus check_rest(pbDeform *d, const pbDeformable *from, pbBarrier *barrier, const pbBarrierValues *values) {
  static const int side[pb_stencilTypes] = {1, 1, 1, 2, 2, 2, 1};  // vertices of the first primitive
  const double *X = d->theta0 + pb_restAt;
  SelfContact found = {.gap = INFINITY};

  pbStatus status;
  do {
    status = pbBarrier_Begin(barrier, values, X, X);
    if (status == pb_ok) status = pbBarrier_Update(barrier, values, X, X);
  } while (status == pb_capacity && (status = pbBarrier_Grow(barrier)) == pb_ok);
  if (status != pb_ok) return pbContext_Fail(d->ctx, status, "%s", pbBarrier_Error(barrier));

  for (int t = 0; t < pb_stencilPN; t++) note_self_contacts(d, pbBarrier_Contacts(barrier, (pbStencilType)t), side[t], &found);
  if (!found.count) return pb_ok;
  return pbContext_Fail(d->ctx, pb_bad_input,
                        "contact: at rest %d pairs of '%.100s' and its like are nearer to each other than the distance of %.4g m "
                        "(points %d and %d: %.4g m), so that it would swell: take a distance below that, or \"self\": false",
                        found.count, from->surfaces[found.group].name, values->dhat, found.first, found.second, found.gap);
}

pbStatus pbDeformContact_Check(pbDeform *d, const pbDeformable *from) {
  pbBarrier *barrier;
  if (!d->collision) return pb_ok;

  pbBarrierValues values = pbDeformContact_ValuesOf(d, d->theta0);

  // A barrier of its own, for as long as this takes.
  PB_TRY(pbBarrier_Create(d->ctx, d->collision, 0, &barrier));

  for (pbStencilType t = 0; t < pb_stencilTypes; t++) {
    widen_work(d, pbBarrier_Contacts(barrier, t));
    if (d->friction) widen_work(d, pbBarrier_Friction(barrier, t));
  }

  // What is close at the start, with more room as long as that is what lacks.
  pbStatus status;
  do {
    status = pbBarrier_Begin(barrier, &values, d->start, d->theta0 + pb_restAt);
  } while (status == pb_capacity && (status = pbBarrier_Grow(barrier)) == pb_ok);

  if (status == pb_ok) status = pbBarrier_Check(barrier, &values, d->start);
  if (status != pb_ok) pbContext_Fail(d->ctx, status, "%s", pbBarrier_Error(barrier));
  else status = check_rest(d, from, barrier, &values);
  pbBarrier_Destroy(barrier);

  return status;
}

// ---- stencils ---------------------------------------------------------------------------------------------------------
// Lists of stencils by number: contacts, then friction; NULL beyond the last.
static const pbStencils *stencils_at(const pbDeformWork *w, int index) {
  if (index < pb_stencilTypes) return pbBarrier_Contacts(w->barrier, (pbStencilType)index);
  if (!w->d->friction || index >= 2 * pb_stencilTypes) return NULL;
  return pbBarrier_Friction(w->barrier, (pbStencilType)(index - pb_stencilTypes));
}

// The barrier's status, in the words of the deformables.
static pbStatus report_barrier(pbDeformWork *w, pbStatus status) {
  if (status == pb_capacity) return pbDeform_Lacks(w, "contact: %s", pbBarrier_Error(w->barrier));
  return status == pb_ok ? pb_ok : pbDeform_Fail(w, status, "contact: %s", pbBarrier_Error(w->barrier));
}

pbStatus pbDeformContact_Begin(pbDeformWork *w) {
  pbBarrierValues values = pbDeformContact_ValuesOf(w->d, w->in.theta);
  return report_barrier(w, pbBarrier_Begin(w->barrier, &values, w->y, w->in.theta + pb_restAt));
}

pbStatus pbDeformContact_Update(pbDeformWork *w, const double *z) {
  pbBarrierValues values = pbDeformContact_ValuesOf(w->d, w->in.theta);
  return report_barrier(w, pbBarrier_Update(w->barrier, &values, z, w->in.theta + pb_restAt));
}

size_t pbDeformContact_Pairs(const pbDeformWork *w, int *pairs) {
  size_t count = 0;
  const pbStencils *s;

  for (int t = 0; (s = stencils_at(w, t)); t++) {
    for (int e = 0; e < s->count * s->points * s->points; e++) {
      // Entry e of count x points x points: pairs of points of a stencil, the lower triangle.
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

// A chunk of a list: elements `first` and up to PB_DEFORM_CHUNK - 1 after it. parameter: room of the caller's.
static pbElements chunk_stencils(const pbDeformWork *w, const pbStencils *s, int first, const double *z, const double *y,
                                 const double **parameter) {
  pbElements in = pbStencils_Elements(s, z, w->in.theta + pb_restAt, y, w->in.h);
  in.count = s->count - first < chunk ? s->count - first : chunk;

  // Parameters of each stencil begin with its first; shared ones have stride 0.
  in.vertex += (size_t)first * (size_t)s->points;
  for (int i = 0; i < pb_stencilParameters; i++)
    parameter[i] = s->parameter[i] ? s->parameter[i] + (size_t)first * (size_t)s->stride[i] : NULL;

  in.parameter = parameter;

  return in;
}

static void add_vectors(const pbElements *in, int points, const double *from, double scale, double *to) {
  for (int i = 0; i < in->count * points; i++) {
    for (int k = 0; k < 3; k++) to[3 * in->vertex[i] + k] += scale * from[3 * i + k];
  }
}

static void add_matrices(pbDeformWork *w, const pbElements *in, int p, double scale) {
  int n = 3 * p, slot[16];
  PB_ASSERT(p * p <= (int)(sizeof slot / sizeof *slot));

  for (int e = 0; e < in->count; e++) {
    for (int i = 0; i < p * p; i++) {
      int a = w->d->unknown[in->vertex[e * p + i / p]], b = w->d->unknown[in->vertex[e * p + i % p]];
      slot[i] = a < b || b < 0 ? -1 : pbSparse_Slot(w->matrix.pattern, a, b);
    }

    pbDeformMatrix_Add(w, p, in->vertex + e * p, slot, w->hessian_out + (size_t)e * (size_t)(n * n), scale);
  }
}

// Does a point go where it is led, whatever pushes it?
static bool is_led(const pbDeform *d, int point) {
  for (int k = 0; k < 3; k++) {
    if (!pbDeform_IsFixed(d, 3 * point + k)) return false;
  }
  return d->attached_of[point] < 0 || !d->coupled;
}

static pbStatus fail_closed(pbDeformWork *w, const pbElements *in, int points, const pbEnergyFault *fault) {
  const int *v = in->vertex + (size_t)(fault->element * points);
  bool led = true;
  for (int i = 0; i < points; i++) led = led && is_led(w->d, v[i]);

  if (led)
    return pbDeform_Fail(
        w, pb_not_finite,
        "contact of points %d and %d closes: all that meets there is held or led, and none of it can give way (%s)", v[0],
        v[points - 1], fault->what);
  return pbDeform_Fail(w, pb_not_finite, "contact of points %d and %d: %s", v[0], v[points - 1], fault->what);
}

static pbStatus evaluate_chunk(pbDeformWork *w, const pbStencils *s, int first, const pbEvaluation *e) {
  const double *parameter[pb_stencilParameters];
  pbElements in = chunk_stencils(w, s, first, e->z, e->y, parameter);
  pbElementsOut out = {.value = e->value ? w->value_out : NULL,
                       .gradient = e->gradient ? w->gradient_out : NULL,
                       .hessian = e->hessian ? w->hessian_out : NULL};
  pbEnergyFault fault;
  int n = 3 * s->points;
  bool inside = pbEnergy_Evaluate(s->energy, &in, &out, w->energy_work, &fault);

  // As of elements: a value may be infinite, where a gap is closed; derivatives may not.
  if (!inside && (e->gradient || e->hessian)) return fail_closed(w, &in, s->points, &fault);

  if (e->value) {
    for (int i = 0; i < in.count; i++) *e->value += e->value_scale * w->value_out[i];
  }

  if (e->gradient) add_vectors(&in, s->points, w->gradient_out, e->gradient_scale, e->gradient);
  if (!e->hessian) return pb_ok;

  if (e->project > 0) {
    for (int i = 0; i < in.count; i++) pbProject_Definite(w->hessian_out + (size_t)i * (size_t)(n * n), n, e->project, w->eigen);
  }

  add_matrices(w, &in, s->points, e->hessian_scale);

  return pb_ok;
}

pbStatus pbDeformContact_Evaluate(pbDeformWork *w, const pbEvaluation *e) {
  const pbStencils *s;

  for (int t = 0; (s = stencils_at(w, t)); t++) {
    for (int first = 0; first < s->count; first += chunk) PB_TRY(evaluate_chunk(w, s, first, e));
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

  // Where theta is wanted, its parts for contact.
  if (theta)
    values = (pbBarrierBar){theta + d->stiffness_at, theta + d->friction_at, theta + d->radius_at, theta + d->distance_at,
                            theta + d->velocity_at};

  pbElementsBar points = {.x = z_bar, .rest = theta ? theta + pb_restAt : NULL, .previous = y_bar, .timestep = bar->h};

  for (int t = 0; (s = stencils_at(w, t)); t++) {
    if (!s->count) continue;
    pbElements in = pbStencils_Elements(s, z, w->in.theta + pb_restAt, y, w->in.h);
    if (!pbStencils_Pullback(w->barrier, s, &in, weights, &points, &values, w->energy_work, &fault))
      return fail_closed(w, &in, s->points, &fault);
  }

  return pb_ok;
}

// Tangents of the numbers that a stencil of a pair of surfaces has of its own; of a NULL direction: zero.
static void stencil_tangent(const pbDeform *d, int pair, const double *theta_dot, double tangent[pb_stencilParameters]) {
  memset(tangent, 0, pb_stencilParameters * sizeof *tangent);
  if (!theta_dot) return;
  int a = pair / d->nsurface, b = pair % d->nsurface;

  tangent[pb_parameterKappa] = theta_dot[d->stiffness_at + (size_t)pair];
  tangent[pb_parameterXi] = theta_dot[d->radius_at + (size_t)a] + theta_dot[d->radius_at + (size_t)b];
  tangent[pb_parameterDhat] = theta_dot[d->distance_at];
  tangent[pb_parameterMu] = theta_dot[d->friction_at + (size_t)pair];
  tangent[pb_parameterEps] = theta_dot[d->velocity_at];
}

// Parameters of a chunk of stencils as complex numbers: value + i PB_IMAG_STEP tangent.
static void load_complex(const pbDeformWork *w, const pbStencils *s, int first, int count, const double *theta_dot) {
  double tangent[pb_stencilParameters];

  for (int e = 0; e < count; e++) {
    PB_ASSERT(s->pair[first + e] >= 0 && s->pair[first + e] < w->d->nsurface * w->d->nsurface);
    stencil_tangent(w->d, s->pair[first + e], theta_dot, tangent);

    for (int i = 0; i < pb_stencilParameters; i++) {
      if (!s->parameter[i]) continue;
      _Complex double *to = w->complex_stencil + i * chunk + e;
      __real__ *to = s->parameter[i][(size_t)(first + e) * (size_t)s->stride[i]];
      __imag__ *to = PB_IMAG_STEP * tangent[i];
    }
  }
}

pbStatus pbDeformContact_Push(pbDeformWork *w, const double *theta_dot, double scale, double *out, const _Complex double *h) {
  static const int stride[pb_stencilParameters] = {1, 1, 1, 1, 1, 1};
  const pbStencils *s;
  pbEnergyFault fault;
  const _Complex double time = 0;
  const void *parameter[pb_stencilParameters];

  for (int i = 0; i < pb_stencilParameters; i++) parameter[i] = w->complex_stencil + i * chunk;

  for (int t = 0; (s = stencils_at(w, t)); t++) {
    for (int first = 0; first < s->count; first += chunk) {
      int count = s->count - first < chunk ? s->count - first : chunk;
      load_complex(w, s, first, count, theta_dot);

      // The imaginary part of the gradient at z + i eps dz is eps times its derivative along dz.
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
        return pbDeform_Fail(w, pb_not_finite, "contact: %s", fault.what);

      for (int i = 0; i < count * s->points; i++) {
        for (int k = 0; k < 3; k++) out[3 * in.vertex[i] + k] += scale / PB_IMAG_STEP * __imag__ w->complex_out[3 * i + k];
      }
    }
  }

  return pb_ok;
}
