// From the description to what steps read: offsets of parameters, numbers of unknowns, the matrix's pattern.
// Tests: tests/unit/test_deform.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "deform/deform.h"
#include "energy/energy_inside.h"

void pbDeform_Destroy(pbDeform *d) {
  if (!d) return;

  for (int i = 0; i < d->ngroup; i++) {
    pbElementGroup *g = &d->group[i];

    // What a group owns.
    void *parts[] = {g->name, g->vertex, g->parameter, g->slot};

    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) pbContext_Free(d->ctx, parts[k]);
    pbEnergy_Destroy(g->energy);
  }

  // Controls are counted before their names are allocated, all other lists as they grow.
  int names = d->control_name ? d->ncontrol : 0;
  for (int i = 0; i < names; i++) pbContext_Free(d->ctx, d->control_name[i]);
  for (int i = 0; i < d->nslice; i++) pbContext_Free(d->ctx, d->slice[i].name);
  for (int i = 0; i < d->nscenery; i++) pbContext_Free(d->ctx, d->scenery[i].name);

  for (int i = 0; i < d->nset; i++) {
    pbContext_Free(d->ctx, d->set[i].name);
    pbContext_Free(d->ctx, d->set[i].points);
  }

  pbCellSets_Free(d->ctx, &d->cells);
  pbCollision_Destroy(d->collision);
  pbSparseAnalysis_Destroy(d->analysis);
  pbSparsePattern_Destroy(d->pattern);

  pbContext *ctx = d->ctx;
  void *all[] = {d->led,   d->set,      d->scenery, d->attached, d->attached_of, d->loose,  d->group, d->control_name, d->slice,
                 d->start, d->velocity, d->fixed,   d->unknown,  d->point,       d->theta0, d->data,  d->control0,     d};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

// A copy that is not NULL for an empty list either.
static void *copy_list(pbContext *ctx, const void *from, size_t count, size_t size) {
  void *to = pbContext_AllocArray(ctx, count + 1, size);
  if (to && count) memcpy(to, from, count * size);
  return to;
}

static pbStatus no_memory(const pbDeform *d) { return pbContext_Fail(d->ctx, pb_no_memory, "no memory for deformables"); }

// ---- points -------------------------------------------------------------------------------------------------------
static pbStatus allocate_points(pbDeform *d, const pbDeformable *from) {
  size_t n = (size_t)from->npoint;
  d->start = copy_list(d->ctx, from->start, 3 * n, sizeof(double));
  d->velocity = copy_list(d->ctx, from->velocity, 3 * n, sizeof(double));
  d->fixed = copy_list(d->ctx, from->fixed, n, 1);
  d->unknown = pbContext_AllocArray(d->ctx, n + 1, sizeof(int));
  d->point = pbContext_AllocArray(d->ctx, n + 1, sizeof(int));

  d->npoint = from->npoint;

  return d->start && d->velocity && d->fixed && d->unknown && d->point ? pb_ok : no_memory(d);
}

// Largest extent of the scene along an axis; 1 where all points coincide.
static double scene_size(const pbDeform *d) {
  double low[3] = {0}, high[3] = {0}, size = 0;

  for (int i = 0; i < d->npoint; i++) {
    for (int k = 0; k < 3; k++) {
      double x = d->start[3 * i + k];
      low[k] = i ? fmin(low[k], x) : x;
      high[k] = i ? fmax(high[k], x) : x;
      size = fmax(size, high[k] - low[k]);
    }
  }

  return size > 0 ? size : 1;
}

static pbStatus compile_points(pbDeform *d, const pbDeformable *from, const double *attached_x) {
  PB_TRY(allocate_points(d, from));

  // Attached points start where their bodies have them.
  for (int i = 0; i < from->nattached; i++)
    memcpy(d->start + 3 * from->attachments[i].point, attached_x + 3 * i, 3 * sizeof(double));

  // Points with a free axis get blocks of unknowns, in their order.
  for (int i = 0; i < d->npoint; i++) {
    if (from->planar) d->fixed[i] |= pb_fixZ;
    d->unknown[i] = d->fixed[i] == pb_fixAll ? -1 : d->nfree;
    if (d->unknown[i] >= 0) d->point[d->nfree++] = i;
  }

  d->size = scene_size(d);

  return pb_ok;
}

static pbStatus copy_sets(pbDeform *d, const pbDeformable *from) {
  if (!(d->set = pbContext_AllocArray(d->ctx, (size_t)from->nset + 1, sizeof *d->set))) return no_memory(d);

  for (; d->nset < from->nset; d->nset++) {
    const pbPointSet *s = &from->sets[d->nset];
    pbPointSet *to = &d->set[d->nset];

    *to = (pbPointSet){.name = pbContext_CopyText(d->ctx, s->name),
                       .count = s->count,
                       .points = copy_list(d->ctx, s->points, (size_t)s->count, sizeof(int))};
    if (to->name && to->points) continue;

    d->nset++;  // half made, and freed with the others
    return no_memory(d);
  }

  return pb_ok;
}

// Points of a surface: from the least to the largest. Those of planes and geoms are made at once, so that nothing lies between.
static void widen_range(int count, const int *points, int *low, int *high) {
  for (int i = 0; i < count; i++) {
    *low = points[i] < *low ? points[i] : *low;
    *high = points[i] > *high ? points[i] : *high;
  }
}

static pbStatus compile_scenery(pbDeform *d, const pbDeformable *from) {
  if (!(d->scenery = pbContext_AllocArray(d->ctx, (size_t)from->nsurface + 1, sizeof *d->scenery))) return no_memory(d);

  for (int i = 0; i < from->nsurface; i++) {
    const pbSurfaceDef *s = &from->surfaces[i];
    int low = d->npoint, high = -1;

    widen_range(3 * s->triangles, s->triangle, &low, &high);
    widen_range(2 * s->edges, s->edge, &low, &high);
    widen_range(s->points, s->point, &low, &high);

    int attached = high < 0 ? -1 : d->attached_of[low];
    bool geom = attached >= 0 && d->attached_geom[attached] >= 0;
    if (!geom && !s->plane) continue;

    char *name = pbContext_CopyText(d->ctx, s->name);
    if (!name) return no_memory(d);
    d->scenery[d->nscenery++] = (pbSceneryPoints){name, geom, low, high - low + 1};
  }

  return pb_ok;
}

static pbStatus compile_attachments(pbDeform *d, const pbDeformable *from, const int *attached_body) {
  size_t n = (size_t)(d->nattached = from->nattached);

  // One allocation for the lists of attached points: the point, its body, its geom, three sizes.
  d->attached_of = pbContext_AllocArray(d->ctx, (size_t)d->npoint + 1, sizeof(int));
  d->attached = pbContext_AllocArray(d->ctx, 6 * n + 1, sizeof(int));
  if (!d->attached || !d->attached_of) return no_memory(d);

  d->attached_body = d->attached + n;
  d->attached_geom = d->attached + 2 * n;
  d->attached_size = d->attached + 3 * n;

  for (int i = 0; i < d->npoint; i++) d->attached_of[i] = -1;

  for (int i = 0; i < d->nattached; i++) {
    const pbAttachmentDef *r = &from->attachments[i];
    PB_ASSERT(r->point >= 0 && r->point < d->npoint);
    d->attached[i] = r->point;
    PB_ASSERT(d->fixed[r->point] == pb_fixAll);
    d->attached_of[r->point] = i;
    d->attached_geom[i] = r->geom;
    d->attached_body[i] = attached_body[i];
    memcpy(d->attached_size + 3 * i, r->size, sizeof r->size);
  }

  return pb_ok;
}

// ---- parameters -----------------------------------------------------------------------------------------------------
static pbSource source_of(const pbGroupParameter *p, const pbValues *values) {
  if (p->def->constant) return pb_fromData;
  return values->control ? pb_fromControl : pb_fromTheta;
}

// Takes `count` numbers of where the parameter's values are kept; the offset of the first.
static size_t take_numbers(pbDeform *d, pbSource source, size_t count) {
  size_t first;

  switch (source) {
    case pb_fromTheta:
      first = d->ntheta;
      d->ntheta += count;
      return first;
    case pb_fromControl:
      first = (size_t)d->ncontrol;
      d->ncontrol += (int)count;
      return first;
    default:
      first = d->ndata;
      d->ndata += count;
      return first;
  }
}

static pbStatus allot_parameter(pbDeform *d, const pbElementGroup *g, const pbValues *values, pbGroupParameter *p) {
  if (!values->data)
    return pbContext_Fail(d->ctx, pb_bad_input, "%s: the parameter '%s' of energy '%s' has no value", g->name, p->def->name,
                          pbEnergy_Definition(g->energy)->name);

  PB_ASSERT(values->rows == 1 || values->rows == g->count);
  p->rows = values->rows;
  p->size = p->def->rows * p->def->cols;
  p->source = source_of(p, values);
  if (p->source == pb_fromData && values->control)
    return pbContext_Fail(d->ctx, pb_bad_input, "%s.%s cannot follow controls: it is a constant of the energy", g->name,
                          p->def->name);

  p->offset = take_numbers(d, p->source, (size_t)p->rows * (size_t)p->size);

  return pb_ok;
}

static void widen_work(pbDeform *d, const pbElementGroup *g) {
  size_t real = pbEnergy_WorkSize(g->energy), complex = pbEnergy_WorkSizeComplex(g->energy);

  if (real > d->work_bytes) d->work_bytes = real;
  if (complex > d->work_bytes) d->work_bytes = complex;
  if (g->points > d->most_points) d->most_points = g->points;
  if (g->parameter_count > d->most_parameters) d->most_parameters = g->parameter_count;
}

static pbStatus compile_group(pbDeform *d, const pbGroupDef *from, pbElementGroup *g) {
  const pbEnergyDef *def = pbEnergy_Definition(from->energy);
  *g = (pbElementGroup){.mass = from->mass, .count = from->count, .points = def->points, .parameter_count = def->parameter_count};

  g->name = pbContext_CopyText(d->ctx, from->name);
  g->vertex = copy_list(d->ctx, from->vertex, (size_t)(g->count * g->points), sizeof(int));
  g->parameter = pbContext_AllocArray(d->ctx, (size_t)g->parameter_count + 1, sizeof *g->parameter);
  if (!g->name || !g->vertex || !g->parameter) return no_memory(d);

  // The group has a copy of the energy: what was described may be destroyed.
  PB_TRY(pbEnergy_Create(d->ctx, def, &g->energy));
  def = pbEnergy_Definition(g->energy);
  d->unsymmetric = d->unsymmetric || !pbEnergy_Symmetric(g->energy);
  widen_work(d, g);

  for (int i = 0; i < g->parameter_count; i++) {
    g->parameter[i].def = &def->parameters[i];
    PB_TRY(allot_parameter(d, g, &from->values[i], &g->parameter[i]));
  }

  return pb_ok;
}

static pbStatus name_controls(pbDeform *d, const pbElementGroup *g, const pbGroupParameter *p) {
  for (int i = 0; i < p->rows * p->size; i++) {
    // GROUP.PARAMETER, with [row] where there are several and .entry where they have several numbers.
    char text[256], row[16] = "", entry[16] = "";
    if (p->rows > 1) snprintf(row, sizeof row, "[%d]", i / p->size);
    if (p->size > 1) snprintf(entry, sizeof entry, ".%d", i % p->size);
    snprintf(text, sizeof text, "%.100s.%.100s%s%s", g->name, p->def->name, row, entry);
    if (!(d->control_name[p->offset + (size_t)i] = pbContext_CopyText(d->ctx, text))) return no_memory(d);
  }

  return pb_ok;
}

static double *initial_values(const pbDeform *d, pbSource source) {
  if (source == pb_fromTheta) return d->theta0;
  return source == pb_fromControl ? d->control0 : d->data;
}

static pbStatus allocate_values(pbDeform *d) {
  d->theta0 = pbContext_AllocArray(d->ctx, d->ntheta + 1, sizeof(double));
  d->data = pbContext_AllocArray(d->ctx, d->ndata + 1, sizeof(double));
  d->control0 = pbContext_AllocArray(d->ctx, (size_t)d->ncontrol + 1, sizeof(double));
  d->control_name = pbContext_AllocArray(d->ctx, (size_t)d->ncontrol + 1, sizeof(char *));

  return d->theta0 && d->data && d->control0 && d->control_name ? pb_ok : no_memory(d);
}

// Initial parameters: rest positions, masses, positions on bodies, contact, then the groups'.
static pbStatus copy_values(pbDeform *d, const pbDeformable *from) {
  PB_TRY(allocate_values(d));
  memcpy(d->theta0 + pb_restAt, from->rest, 3 * (size_t)d->npoint * sizeof(double));
  memcpy(d->theta0 + pb_massAt(d), from->mass, (size_t)d->npoint * sizeof(double));

  // Points made for an attachment rest where the reference configuration has them.
  for (int i = 0; i < d->nattached; i++) {
    size_t at = 3 * (size_t)d->attached[i];
    if (from->attachments[i].own) memcpy(d->theta0 + pb_restAt + at, d->start + at, 3 * sizeof(double));
  }

  for (int i = 0; i < d->nattached; i++)
    memcpy(d->theta0 + d->local_at + 3 * (size_t)i, from->attachments[i].local, 3 * sizeof(double));
  pbDeformContact_Values(d, from);

  for (int i = 0; i < d->ngroup; i++) {
    const pbElementGroup *g = &d->group[i];
    for (int k = 0; k < g->parameter_count; k++) {
      const pbGroupParameter *p = &g->parameter[k];
      double *base = initial_values(d, p->source);

      memcpy(base + p->offset, from->groups[i].values[k].data, (size_t)(p->rows * p->size) * sizeof(double));
      if (p->source == pb_fromControl) PB_TRY(name_controls(d, g, p));
    }
  }

  return pb_ok;
}

static pbStatus add_slice(pbDeform *d, const char *group, const char *name, pbDeformSlice slice) {
  char text[256];
  snprintf(text, sizeof text, "%.100s%s%.100s", group, *group ? "." : "", name);
  if (!(slice.name = pbContext_CopyText(d->ctx, text))) return no_memory(d);
  d->slice[d->nslice++] = slice;

  return pb_ok;
}

static pbStatus add_contact_slices(pbDeform *d) {
  int n = d->nsurface;
  static const char *const names[5] = {"stiffness", "friction", "radius", "distance", "velocity"};
  const pbDeformSlice contact[] = {{NULL, "N/m", d->stiffness_at, n * n, 1, 0, INFINITY},
                                   {NULL, "", d->friction_at, n * n, 1, 0, INFINITY},
                                   {NULL, "m", d->radius_at, n, 1, 0, INFINITY},
                                   {NULL, "m", d->distance_at, 1, 1, 0, INFINITY},
                                   {NULL, "m/s", d->velocity_at, 1, 1, 0, INFINITY}};

  for (int i = 0; i < 5; i++) PB_TRY(add_slice(d, "contact", names[i], contact[i]));

  return pb_ok;
}

static pbStatus add_group_slices(pbDeform *d) {
  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    for (const pbGroupParameter *p = g->parameter; p < g->parameter + g->parameter_count; p++) {
      if (p->source != pb_fromTheta) continue;
      // A definition without bounds has both zero.
      bool open = p->def->lower == 0 && p->def->upper == 0;
      PB_ASSERT(p->offset + (size_t)p->rows * (size_t)p->size <= d->ntheta);
      pbDeformSlice s = {.unit = p->def->unit ? p->def->unit : "",
                         .offset = p->offset,
                         .rows = p->rows,
                         .cols = p->size,
                         .lower = open ? -INFINITY : p->def->lower,
                         .upper = open ? INFINITY : p->def->upper};
      PB_TRY(add_slice(d, g->name, p->def->name, s));
    }
  }

  return pb_ok;
}

// Names, units and bounds of the parts of theta.
static pbStatus compile_slices(pbDeform *d, int leads) {
  size_t most = 8 + (size_t)leads;  // points, masses, attachments, contact, paths
  for (int i = 0; i < d->ngroup; i++) most += (size_t)d->group[i].parameter_count;
  d->slice = pbContext_AllocArray(d->ctx, most, sizeof *d->slice);
  if (!d->slice) return no_memory(d);

  const pbDeformSlice rest = {
      .unit = "m", .offset = pb_restAt, .rows = d->npoint, .cols = 3, .lower = -INFINITY, .upper = INFINITY};
  const pbDeformSlice mass = {.unit = "kg", .offset = pb_massAt(d), .rows = d->npoint, .cols = 1, .upper = INFINITY};
  const pbDeformSlice local = {
      .unit = "m", .offset = d->local_at, .rows = d->nattached, .cols = 3, .lower = -INFINITY, .upper = INFINITY};
  PB_TRY(add_slice(d, "", "point_rest", rest));
  PB_TRY(add_slice(d, "", "point_mass", mass));
  if (d->nattached) PB_TRY(add_slice(d, "", "attach_local", local));

  if (d->collision) PB_TRY(add_contact_slices(d));
  PB_TRY(add_group_slices(d));
  PB_ASSERT((size_t)d->nslice <= most);

  return pb_ok;
}

// ---- the matrix -----------------------------------------------------------------------------------------------------
// Pairs (i, j) of blocks with i >= j that the elements couple, the diagonal among them; pairs NULL: their number alone.
static size_t coupled_pairs(const pbDeform *d, int *pairs) {
  size_t count = 0;

  for (int i = 0; i < d->nfree; i++, count++) {
    if (!pairs) continue;
    pairs[2 * count] = i;
    pairs[2 * count + 1] = i;
  }

  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    int p = g->points;
    if (g->mass) continue;  // masses have no stiffness

    // The lower triangle of blocks of each element: entry e of count x points x points.
    for (int e = 0; e < g->count * p * p; e++) {
      const int *v = g->vertex + e / (p * p) * p;
      int a = d->unknown[v[e / p % p]], b = d->unknown[v[e % p]];

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

// Where the blocks of each element go in the values of the matrix; -1: above the diagonal, or of a point without unknowns.
static pbStatus compile_slots(pbDeform *d, pbElementGroup *g) {
  int p = g->points;
  if (g->mass) return pb_ok;

  g->slot = pbContext_AllocArray(d->ctx, (size_t)(g->count * p * p) + 1, sizeof(int));
  if (!g->slot) return no_memory(d);

  for (int e = 0; e < g->count * p * p; e++) {
    const int *v = g->vertex + e / (p * p) * p;
    int a = d->unknown[v[e / p % p]], b = d->unknown[v[e % p]];

    g->slot[e] = a < 0 || b < 0 || a < b ? -1 : pbSparse_Slot(d->pattern, a, b);
    PB_ASSERT(g->slot[e] >= 0 || a < b || b < 0);  // the pattern holds every pair that elements couple
  }

  return pb_ok;
}

static pbStatus compile_matrix(pbDeform *d) {
  size_t count = coupled_pairs(d, NULL);
  int *pairs = pbContext_AllocArray(d->ctx, 2 * count + 1, sizeof *pairs);

  if (!pairs) return no_memory(d);
  coupled_pairs(d, pairs);

  // The pattern's own analysis serves every step without contacts.
  pbStatus status = pbSparsePattern_Create(d->ctx, d->nfree, NULL, pairs, count, &d->pattern);
  pbContext_Free(d->ctx, pairs);

  if (status == pb_ok && d->nfree) status = pbSparseAnalysis_Create(d->ctx, d->pattern, NULL, &d->analysis);
  for (int i = 0; status == pb_ok && i < d->ngroup; i++) status = compile_slots(d, &d->group[i]);

  return status;
}

// ---- equilibria -----------------------------------------------------------------------------------------------------
// Root of a tree of the disjoint sets, with path halving.
static int root_of(int *parent, int i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

// Each point to the first of those that it is connected with by elements.
static void connect_elements(const pbDeform *d, int *parent) {
  for (int i = 0; i < d->npoint; i++) parent[i] = i;

  // Disjoint sets (Tarjan 1975): the root of each is its least point, so that results do not depend on the order of elements.
  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    if (g->mass) continue;
    for (int e = 0; e < g->count * g->points; e++) {
      int a = root_of(parent, g->vertex[e]), b = root_of(parent, g->vertex[e / g->points * g->points]);
      parent[a > b ? a : b] = a < b ? a : b;
    }
  }

  for (int i = 0; i < d->npoint; i++) parent[i] = root_of(parent, i);
}

static void name_piece(const pbDeform *d, int point, char *text, size_t size) {
  snprintf(text, size, "the points connected with point %d", point);
  for (const pbPointSet *s = d->set; s < d->set + d->nset; s++) {
    for (int i = 0; i < s->count; i++) {
      if (s->points[i] != point) continue;
      snprintf(text, size, "'%.60s'", s->name);
      return;
    }
  }
}

// The end of the message: which piece, what holds it, what it needs.
static pbStatus explain_loose(pbDeform *d, int point, int held, bool planar) {
  char piece[80], text[400], count[40];
  const char *needed = planar ? "two points" : "three points that are not in a line";
  name_piece(d, point, piece, sizeof piece);
  snprintf(count, sizeof count, held ? "only %d coordinates" : "no point", held);
  snprintf(text, sizeof text,
           " (of %s %s %s pinned; an equilibrium needs what holds it: \"pins\", of %s for a solid, or an energy or contact that "
           "keeps it in its place)",
           piece, count, held > 1 ? "are" : "is", needed);

  return (d->loose = pbContext_CopyText(d->ctx, text)) ? pb_ok : no_memory(d);
}

// The first piece that can move as a whole, as far as pins show: named in the message where an equilibrium is not found.
static pbStatus find_loose(pbDeform *d, bool planar) {
  // Rigid motions: three in the plane, six in space.
  int needed = planar ? 3 : 6, axes = planar ? pb_fixX | pb_fixY : pb_fixAll, loose = -1;
  int *parent = pbContext_AllocArray(d->ctx, 2 * (size_t)d->npoint + 1, sizeof *parent);
  if (!parent) return no_memory(d);
  int *held = parent + d->npoint;  // npoint, behind the npoint of parent

  // Coordinates that pins hold, of each piece: as many as it has rigid motions must be.
  connect_elements(d, parent);
  for (int i = 0; i < d->npoint; i++) held[i] = 0;
  for (int i = 0; i < d->npoint; i++) held[parent[i]] += __builtin_popcount(d->fixed[i] & (unsigned)axes);

  for (int i = d->npoint - 1; i >= 0; i--) {
    // The first of all pieces that may move: the loop ends with it.
    bool moves = d->unknown[i] >= 0 && held[parent[i]] < needed;
    loose = moves ? parent[i] : loose;
  }

  pbStatus status = loose < 0 ? pb_ok : explain_loose(d, loose, held[loose], planar);
  pbContext_Free(d->ctx, parent);

  return status;
}

static pbStatus compile_groups(pbDeform *d, const pbDeformable *from) {
  d->group = pbContext_AllocArray(d->ctx, (size_t)from->ngroup + 1, sizeof *d->group);
  if (!d->group) return no_memory(d);

  pbStatus status = pb_ok;
  while (status == pb_ok && d->ngroup < from->ngroup) {
    int number = d->ngroup++;  // counted first: what is half made is freed with the others
    status = compile_group(d, &from->groups[number], &d->group[number]);
  }

  return status;
}

// Coordinates along paths: where their displacements are in theta, or which controls they are.
static pbStatus compile_leads(pbDeform *d, const pbDeformable *from) {
  size_t most = 0;
  d->lead_parts = 1;
  for (int i = 0; i < from->nlead; i++) most += 3 * (size_t)from->leads[i].count;
  d->led = pbContext_AllocArray(d->ctx, most + 1, sizeof *d->led);
  if (!d->led) return no_memory(d);

  for (int n = 0; n < from->nlead; n++) {
    const pbLeadDef *l = &from->leads[n];
    size_t first = l->path ? d->ntheta : (size_t)d->ncontrol;
    for (int i = 0; i < l->count; i++) {
      int axes_before = 0;
      if (d->attached_of[l->points[i]] >= 0)
        return pbContext_Fail(d->ctx, pb_bad_input, "path '%.100s': point %d is attached to a body, which leads it", l->name,
                              l->points[i]);
      for (int k = 0; k < 3; k++) {
        if (!(l->axes >> k & 1)) continue;
        pbLedCoordinate c = {.coordinate = 3 * l->points[i] + k, .control = !l->path, .steps = l->steps};
        c.stride = 3 * (size_t)l->rows;

        // In a path by its row and axis, among controls by the axes before.
        int row = l->rows > 1 ? i : 0;
        c.at = first + (size_t)(l->path ? 3 * row + k : axes_before);
        d->led[d->nled++] = c;
        axes_before++;
      }
    }
    if (l->path) d->ntheta += 3 * (size_t)l->steps * (size_t)l->rows;
    else d->ncontrol += __builtin_popcount((unsigned)l->axes);
  }

  return pb_ok;
}

// Their initial values, and names.
static pbStatus copy_leads(pbDeform *d, const pbDeformable *from, size_t theta, int control) {
  for (int n = 0; n < from->nlead; n++) {
    const pbLeadDef *l = &from->leads[n];
    size_t numbers = 3 * (size_t)l->steps * (size_t)l->rows;
    if (l->path) {
      pbDeformSlice s = {
          .unit = "m", .offset = theta, .rows = l->steps * l->rows, .cols = 3, .lower = -INFINITY, .upper = INFINITY};
      memcpy(d->theta0 + theta, l->path, numbers * sizeof(double));
      PB_TRY(add_slice(d, l->name, "path", s));
      theta += numbers;
      continue;
    }
    for (int k = 0; k < 3; k++) {
      char text[256];
      if (!(l->axes >> k & 1)) continue;
      snprintf(text, sizeof text, "%.200s.%c", l->name, "xyz"[k]);
      if (!(d->control_name[control++] = pbContext_CopyText(d->ctx, text))) return no_memory(d);
    }
  }

  return pb_ok;
}

// Offsets in theta are handed out in this order: rest positions, masses, positions on bodies, groups, contact.
static pbStatus compile_all(pbDeform *d, const pbDeformable *from, const int *attached_body, const double *attached_x) {
  PB_TRY(compile_points(d, from, attached_x));
  PB_TRY(copy_sets(d, from));
  PB_TRY(compile_attachments(d, from, attached_body));
  PB_TRY(compile_scenery(d, from));

  d->local_at = 4 * (size_t)d->npoint;
  d->ntheta = d->local_at + 3 * (size_t)d->nattached;
  d->most_points = 4;  // of contacts
  for (const pbCellSet *c = from->cells.list; c < from->cells.list + from->cells.count; c++)
    PB_TRY(pbCellSets_Add(d->ctx, &d->cells, c->name, c->kind, c->count, c->vertex));

  PB_TRY(compile_groups(d, from));
  PB_TRY(pbDeformContact_Compile(d, from));
  size_t path_at = d->ntheta;
  int path_control = d->ncontrol;
  PB_TRY(compile_leads(d, from));

  // Only Newton's method finds the zero of forces that are no gradient.
  if (d->unsymmetric && d->options.method != pb_minimizeNewton)
    return pbContext_Fail(d->ctx, pb_unsupported,
                          "forces without a potential (implicit friction, freeze) need the method newton, not %s",
                          pbDeformMinimizer_Name(d->options.method));

  PB_TRY(copy_values(d, from));
  PB_TRY(compile_slices(d, from->nlead));
  PB_TRY(copy_leads(d, from, path_at, path_control));
  PB_TRY(pbDeformContact_Check(d, from));
  if (d->options.scheme == pb_schemeStatic) PB_TRY(find_loose(d, from->planar));

  return compile_matrix(d);
}

// Elements that cannot be where they start (inverted, without volume, of no length) are refused here and not in the first step.
static pbStatus check_start(pbDeform *d) {
  pbDeformWork *w;
  double value = 0;

  PB_TRY(pbDeformWork_Create(d->ctx, d, NULL, &w));

  // Forces at the start, as of a step at rest; only whether they exist matters.
  w->in = (pbDeformInput){.theta = d->theta0, .control = d->control0, .h = 1};
  w->scheme = pbScheme_Table(d->options.scheme, true);
  memcpy(w->x, d->start, 3 * (size_t)d->npoint * sizeof(double));
  memset(w->gradient, 0, 3 * (size_t)d->npoint * sizeof(double));

  // Contact has its own check, with its own messages.
  pbBarrier *barrier = w->barrier;
  w->barrier = NULL;

  pbStatus status = pbDeform_Evaluate(w, &(pbEvaluation){.z = w->x,
                                                         .y = w->x,
                                                         .ago = w->x,
                                                         .span = 1,
                                                         .value = &value,
                                                         .value_scale = 1,
                                                         .gradient = w->gradient,
                                                         .gradient_scale = 1});

  // What a step could not compute is here what the description says wrong.
  w->barrier = barrier;
  if (status == pb_not_finite) status = pb_bad_input;
  if (status != pb_ok) status = pbContext_Fail(d->ctx, status, "%s", w->error);
  pbDeformWork_Destroy(w);

  return status;
}

pbStatus pbDeform_Compile(pbContext *ctx, const pbDeformable *from, const int *attached_body, const double *attached_x,
                          pbDeform **deform) {
  pbDeform *d = pbContext_Alloc(ctx, sizeof *d);
  *deform = NULL;
  if (!d) return pbContext_Fail(ctx, pb_no_memory, "no memory for deformables");

  *d = (pbDeform){.ctx = ctx, .options = from->options};
  pbStatus status = compile_all(d, from, attached_body, attached_x);
  if (status == pb_ok) status = check_start(d);
  if (status != pb_ok) pbDeform_Destroy(d);
  else *deform = d;

  return status;
}
