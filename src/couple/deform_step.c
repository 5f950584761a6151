// Deformables in the world's step and its derivatives: where the model, its state and theta hold what is theirs.
#include "couple/deform_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "math/vec.h"
#include "couple/couple.h"
#include "model/state_layout.h"

// ---- the model ------------------------------------------------------------------------------------------------------
static pbStatus no_memory(const pbModel *m) { return pbContext_Fail(m->ctx, pb_no_memory, "no memory for deformables"); }

// Their controls answer to names as actuators do.
static pbStatus add_control_names(pbModel *m, const pbDeform *d) {
  int before = m->names_count[pb_objActuator], after = before + d->ncontrol;
  char **names = pbContext_AllocArray(m->ctx, (size_t)after + 1, sizeof *names);
  if (!names) return no_memory(m);
  if (before) memcpy(names, m->names[pb_objActuator], (size_t)before * sizeof *names);
  pbContext_Free(m->ctx, m->names[pb_objActuator]);
  m->names[pb_objActuator] = names;
  for (; m->names_count[pb_objActuator] < after; m->names_count[pb_objActuator]++) {
    int i = m->names_count[pb_objActuator];
    if (!(names[i] = pbContext_CopyText(m->ctx, d->control_name[i - before]))) return no_memory(m);
  }
  return pb_ok;
}

// Bodies by name, places of the points on them in the reference configuration, and whether one of the bodies can move.
static pbStatus find_bodies(pbModel *m, const pbDeformable *from, int *bodies, double *places, bool *moving) {
  pbScratch *s;
  if (from->nrider == 0) return pb_ok;
  for (int i = 0; i < from->nrider; i++) {
    const pbRiderDef *r = &from->riders[i];
    bodies[i] = r->geom >= 0 ? m->geom_bodyid[r->geom] : strcmp(r->body, "world") ? pbModel_Id(m, pb_objBody, r->body) : 0;
    if (bodies[i] < 0)
      return pbContext_Fail(m->ctx, pb_bad_input, "points ride on a body '%.100s' that the model does not have", r->body);
    *moving = *moving || m->body_weldid[bodies[i]] != 0;
  }
  PB_TRY(pbScratch_Create(m->ctx, m, NULL, &s));
  double *x = s->state;
  pbStatus status = pbState_Init(m->ctx, m, m->theta0, -1, x);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, x, NULL);
    pbStage_Kinematics_r(&s->w);
    for (int i = 0; i < from->nrider; i++) {
      const pbRiderDef *r = &from->riders[i];
      pbAttach at = {1, bodies + i, &r->geom, r->size};
      pbAttach_Places_r(&s->w, &at, r->local, places + 3 * i);
    }
  }
  pbScratch_Destroy(s);
  return status;
}

static pbStatus coupled_needs(pbContext *ctx, const char *text) {
  return text ? pbContext_Fail(ctx, pb_unsupported, "deformables that hang on bodies that move need %s", text) : pb_ok;
}

// What options and contact settings leave possible.
static pbStatus check_model(pbContext *ctx, const pbModel *m, bool coupled) {
  if (m->integrator == pb_intRK4)
    return pbContext_Fail(ctx, pb_unsupported, "deformables need the integrator Euler or implicitfast: RK4 has no implicit step");
  return coupled_needs(ctx, !coupled                                              ? NULL
                            : m->integrator != pb_intEuler                        ? "the integrator Euler"
                            : pb_hard(m) || m->contact.method == pb_contactImpact ? "the contact method soft or penalty"
                                                                                  : NULL);
}

static pbStatus check_coupled(pbContext *ctx, const pbDeformable *from) {
  return coupled_needs(ctx, from->options.scheme != pb_schemeImplicitEuler ? "the scheme implicit_euler"
                            : from->options.method != pb_minimiseNewton    ? "the method newton"
                            : from->contact.kind == pb_frictionImplicit    ? "friction that is lagged"
                                                                           : NULL);
}

pbStatus pbModel_CheckDeform(pbContext *ctx, const pbModel *m) {
  if (!m->deform) return pb_ok;
  PB_TRY(check_model(ctx, m, m->deform->coupled));
  bool damped = m->deform->coupled && !(m->disableflags & pb_disEulerdamp);  // places of riders are those of explicit damping
  return coupled_needs(ctx, damped ? "the flag eulerdamp off: joint damping acts explicitly" : NULL);
}

pbStatus pbModel_SetDeformable(pbModel *m, const pbDeformable *from) {
  pbDeform *d;
  if (m->deform) return pbContext_Fail(m->ctx, pb_bad_argument, "the model has deformables already");
  double *places = pbContext_AllocArray(m->ctx, 3 * (size_t)from->nrider + 1, sizeof(double));
  int *bodies = pbContext_AllocArray(m->ctx, (size_t)from->nrider + 1, sizeof(int));
  bool moving = false;
  pbStatus status = places && bodies ? find_bodies(m, from, bodies, places, &moving) : no_memory(m);
  if (status == pb_ok) status = check_model(m->ctx, m, moving);
  if (status == pb_ok && moving) status = check_coupled(m->ctx, from);
  if (status == pb_ok) status = pbDeform_Compile(m->ctx, from, bodies, places, &d);
  pbContext_Free(m->ctx, places);
  pbContext_Free(m->ctx, bodies);
  PB_TRY(status);
  d->coupled = moving;
  if (moving) m->disableflags |= pb_disEulerdamp;
  size_t at = m->ntheta;
  status = pbModel_GrowParams(m, d->ntheta);
  if (status == pb_ok) status = add_control_names(m, d);
  if (status != pb_ok) {
    pbDeform_Destroy(d);
    return status;
  }
  memcpy(m->theta0 + at, d->theta0, d->ntheta * sizeof(double));
  m->deform = d;
  m->deform_theta = at;
  m->revision++;
  m->deform_state = pbDeform_State(d).size;
  m->deform_tangent = pbDeform_State(d).tangent;
  m->deform_controls = d->ncontrol;
  return pb_ok;
}

void pbModel_StartControls(const pbModel *m, int keyframe, double *ctrl) {
  for (int i = 0; i < m->nu; i++) ctrl[i] = keyframe >= 0 && keyframe < m->nkey ? m->key_ctrl[keyframe * m->nu + i] : 0;
  if (m->deform_controls) memcpy(ctrl + m->nu, m->deform->control0, (size_t)m->deform_controls * sizeof *ctrl);
}

pbStatus pbModel_PointMasses(pbContext *ctx, const pbModel *m, const double *theta, double *mass) {
  pbDeformWork *w;
  if (!m->deform) return pb_ok;
  PB_TRY(pbDeformWork_Create(ctx, m->deform, NULL, &w));
  w->in.theta = theta + m->deform_theta;
  w->scheme = pbScheme_Table(pb_schemeStatic, true);  // which asks for none
  pbStatus status = pbDeform_Masses(w);
  if (status == pb_ok) memcpy(mass, w->mass, (size_t)m->deform->npoint * sizeof *mass);
  else status = pbContext_Fail(ctx, status, "%s", w->error);
  pbDeformWork_Destroy(w);
  return status;
}

pbStatus pbModel_PointMesh(pbContext *ctx, const pbModel *m, const double *theta, pbMesh **mesh) {
  static const pbCellSets none = {0};
  if (!m->deform) return pbCellSets_Mesh(ctx, &none, 0, NULL, mesh);
  return pbCellSets_Mesh(ctx, &m->deform->cells, m->deform->npoint, theta + m->deform_theta + pb_restAt, mesh);
}

int pbModel_PointCount(const pbModel *m) { return m->deform ? m->deform->npoint : 0; }

const int *pbModel_PointSet(const pbModel *m, const char *name, int *count) {
  for (int i = 0; m->deform && i < m->deform->nset; i++) {
    const pbPointSet *s = &m->deform->set[i];
    if (strcmp(s->name, name)) continue;
    *count = s->count;
    return s->points;
  }
  return NULL;
}

const char *pbModel_PointSetName(const pbModel *m, int index) {
  return m->deform && index >= 0 && index < m->deform->nset ? m->deform->set[index].name : NULL;
}

bool pbModel_DeformGroupAt(const pbModel *m, int index, pbDeformGroup *group) {
  if (!m->deform || index < 0 || index >= m->deform->ngroup) return false;
  const pbElementGroup *g = &m->deform->group[index];
  *group = (pbDeformGroup){g->name, g->count, g->points, g->vertex};
  return true;
}

// ---- state ----------------------------------------------------------------------------------------------------------
static const char *const field_names[] = {"points", "point_velocity", "points_before", "point_velocity_before", "points_begun"};

int pbDeform_FieldCount(const pbDeform *d) { return pbDeform_State(d).size > 6 * d->npoint ? 5 : 2; }

pbStateField pbDeform_FieldAt(const pbDeform *d, int index, int base) {
  int n = 3 * d->npoint;
  if (index < 0 || index >= pbDeform_FieldCount(d)) return (pbStateField){NULL, 0, 0};
  return (pbStateField){field_names[index], base + index * n, index == 4 ? 1 : n};
}

char *pbDeform_EntryName(const pbDeform *d, int entry, char *text, size_t size) {
  int n = 3 * d->npoint, field = n ? entry / n : 4, i = n ? entry % n : 0;
  if (field >= 4) snprintf(text, size, "points_begun");
  else snprintf(text, size, "%s[%d] (point %d, %c)", field_names[field], i, i / 3, "xyz"[i % 3]);
  return text;
}

void pbDeform_Init(const pbDeform *d, double *state) {
  pbDeformState at = pbDeform_State(d);
  size_t bytes = 3 * (size_t)d->npoint * sizeof(double);
  memcpy(state + at.x, d->start, bytes);
  memcpy(state + at.v, d->velocity, bytes);
}

// ---- step -----------------------------------------------------------------------------------------------------------
pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input) {
  pbDeformInput in = {.theta = theta + m->deform_theta,
                      .control = input && input->ctrl ? input->ctrl + m->nu : NULL,
                      .h = theta[m->timestep - m->theta0],
                      .time = x[state_layout(m).time]};
  const double *g = theta + (m->gravity - m->theta0);
  for (int k = 0; k < 3; k++) in.gravity[k] = m->disableflags & pb_disGravity ? 0 : g[k];
  return in;
}

pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar) {
  pbDeformBar bar = {.control = input_bar && input_bar->ctrl ? input_bar->ctrl + m->nu : NULL};
  if (!theta_bar) return bar;
  bar.theta = theta_bar + m->deform_theta;
  bar.gravity = m->disableflags & pb_disGravity ? NULL : theta_bar + (m->gravity - m->theta0);
  bar.h = theta_bar + (m->timestep - m->theta0);
  return bar;
}

void pbScratch_NoteDeform(pbScratch *s) {
  const pbDeformReport *r = &s->deform->report;
  s->report.iterations = r->iterations > s->report.iterations ? r->iterations : s->report.iterations;
  s->report.residual = r->residual > s->report.residual ? r->residual : s->report.residual;
  s->report.converged = s->report.converged && r->converged;
  s->report.deforms = true;
  if (s->deform->barrier) s->report.contacts += pbBarrier_ContactCount(s->deform->barrier);
}

static pbStatus failed(pbScratch *s, pbStatus status, double time) {
  return pbScratch_Fail(s, status, "%s at time %.9g", s->deform->error, time);
}

pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *next) {
  int at = state_layout(s->model).deform;
  pbDeformInput in = pbDeformInput_Of(s->model, theta, x, input);
  const double *state = s->couple ? pbCouple_State(s, theta, x) : x + at;
  pbStatus status = pbDeform_Step(s->deform, &in, state, next + at);
  if (status != pb_ok) return failed(s, status, in.time);
  pbScratch_NoteDeform(s);
  return pb_ok;
}

void pbScratch_DeformRecord(const pbScratch *s, double *record) {
  const pbModel *m = s->model;
  size_t points = 3 * (size_t)m->deform->npoint;
  memcpy(record, s->state + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  memcpy(record + m->deform_state, s->deform->anchor, points * sizeof(double));
  record[m->deform_state + (int)points] = !pb_coupled(m) && s->deform->anchored;
}

pbStatus pbScratch_DeformVjp(pbScratch *s, const double *theta, const double *record, const void *kept, const pbInput *input,
                             const double *next_bar, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = pbDeformInput_Of(m, theta, record, input);
  in.ticks = s->ticks;
  pbDeformBar bar = pbDeformBar_Of(m, input_bar, theta_bar);
  const double *next = record + pbTape_Size(m) - pb_deformRecord(m);
  const double *anchor = next + m->deform_state;
  pbDeformAnchor near = {anchor[3 * m->deform->npoint] != 0 ? anchor : NULL, kept};
  pbStatus status;
  if (s->couple) {
    const pbRestingBar rest = pbCouple_RestBegin(s, next_bar + tangent);
    status = pbDeform_Vjp(s->deform, &in, pbCouple_State(s, theta, record), next, &near, rest.next_bar, rest.state_bar, &bar);
    if (status == pb_ok) pbCouple_RestEnd(s, theta, record, x_bar + tangent, theta_bar);
  } else {
    status = pbDeform_Vjp(s->deform, &in, record + at, next, &near, next_bar + tangent, x_bar + tangent, &bar);
  }
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}

pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction) {
  pbDeformDirection d = {.state = direction->x ? direction->x + 2 * m->nv + m->na : NULL,
                         .control = direction->ctrl ? direction->ctrl + m->nu : NULL};
  if (!direction->theta) return d;
  d.theta = direction->theta + m->deform_theta;
  d.gravity = m->disableflags & pb_disGravity ? NULL : direction->theta + (m->gravity - m->theta0);
  d.h = direction->theta[m->timestep - m->theta0];
  return d;
}

pbStatus pbScratch_DeformJvp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                             const pbDirection *direction, double *next) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = pbDeformInput_Of(m, theta, record, input);
  in.ticks = s->ticks;
  pbDeformDirection d = pbDeformDirection_Of(m, direction);
  const double *state = s->couple ? pbCouple_State(s, theta, record) : record + at;
  if (s->couple) d.state = pbCouple_RestWay(s, theta, record, direction);
  pbStatus status = pbDeform_Jvp(s->deform, &in, state, record + pbTape_Size(m) - pb_deformRecord(m), &d, next + tangent);
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}

// ---- geoms as surfaces ------------------------------------------------------------------------------------------------
typedef struct shape {
  int points, triangles, edges;
  double local[64 * 3];
  int triangle[128 * 3], edge[12 * 2], size[3];
} shape;

static int add_local(shape *s, double x, double y, double z) {
  double *p = s->local + 3 * s->points;
  p[0] = x, p[1] = y, p[2] = z;
  return s->points++;
}

static void add_triangle(shape *s, int a, int b, int c) {
  int *t = s->triangle + 3 * s->triangles++;
  t[0] = a, t[1] = b, t[2] = c;
}

static void box_shape(shape *s) {
  static const int face[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  for (int i = 0; i < 8; i++) add_local(s, i & 1 ? 1 : -1, i & 2 ? 1 : -1, i & 4 ? 1 : -1);
  for (int f = 0; f < 6; f++) {
    add_triangle(s, face[f][0], face[f][1], face[f][2]);
    add_triangle(s, face[f][0], face[f][2], face[f][3]);
  }
  for (int k = 0; k < 3; k++) s->size[k] = k;
}

// Rings of 12 points about z: at these radii and heights, closed by a pole at each end.
static void lathe(shape *s, int rings, const double *radius, const double *height, double top) {
  enum { around = 12 };
  int first = add_local(s, 0, 0, -top), start = s->points;
  for (int r = 0; r < rings; r++) {
    for (int i = 0; i < around; i++) {
      double angle = 2 * PB_PI * (i + 0.5 * (r % 2)) / around;
      add_local(s, radius[r] * cos(angle), radius[r] * sin(angle), height[r]);
    }
  }
  int last = add_local(s, 0, 0, top);
  for (int i = 0; i < around; i++) {
    int next = (i + 1) % around, end = start + (rings - 1) * around;
    add_triangle(s, first, start + next, start + i);
    add_triangle(s, last, end + i, end + next);
    for (int r = 0; r + 1 < rings; r++) {
      int a = start + r * around + i, b = start + r * around + next, c = a + around, e = b + around;
      if (r % 2) add_triangle(s, a, b, e), add_triangle(s, a, e, c);
      else add_triangle(s, a, b, c), add_triangle(s, b, e, c);
    }
  }
}

static bool shape_of(int type, shape *s) {
  *s = (shape){.size = {0, 1, 2}};
  switch (type) {
    case pb_geomSphere: add_local(s, 0, 0, 0); return true;
    case pb_geomCapsule:
      s->size[2] = 1;
      s->edge[0] = add_local(s, 0, 0, -1), s->edge[1] = add_local(s, 0, 0, 1);
      s->edges = 1;
      return true;
    case pb_geomBox: box_shape(s); return true;
    case pb_geomCylinder:
      s->size[1] = 0, s->size[2] = 1;
      lathe(s, 2, (double[]){1, 1}, (double[]){-1, 1}, 1);
      return true;
    case pb_geomEllipsoid:
      lathe(s, 3, (double[]){0.8660254037844386, 1, 0.8660254037844386}, (double[]){-0.5, 0, 0.5}, 1);
      return true;
    default: return false;
  }
}

pbStatus pbDeformable_AttachPoints(pbDeformable *d, const pbModel *m, const char *body, int count, const int *points) {
  int b = strcmp(body, "world") ? pbModel_Id(m, pb_objBody, body) : 0, point;
  pbScratch *s;
  if (b < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no body '%.100s'", body);
  PB_TRY(pbScratch_Create(d->ctx, m, NULL, &s));
  pbStatus status = pbState_Init(d->ctx, m, m->theta0, -1, s->state);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, s->state, NULL);
    pbStage_Kinematics_r(&s->w);
  }
  for (int i = 0; status == pb_ok && i < count; i++) {
    pbRiderDef r = {.point = points[i], .geom = -1, .body = (char *)(uintptr_t)body};
    double offset[3];
    if (points[i] < 0 || points[i] >= d->npoint) {
      status = pbContext_Fail(d->ctx, pb_bad_argument, "point %d cannot ride on a body: there are %d", points[i], d->npoint);
      break;
    }
    v3_sub(offset, d->start + 3 * points[i], s->w.xpos + 3 * b);
    m3_tmulv(r.local, s->w.xmat + 9 * b, offset);
    status = pbDeformable_AddRider(d, &r, &point);
  }
  pbScratch_Destroy(s);
  return status;
}

pbStatus pbDeformable_AttachGeom(pbDeformable *d, const pbModel *m, const char *geom, int *number) {
  int g = pbModel_Id(m, pb_objGeom, geom), point;
  shape s;
  if (g < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no geom '%.100s'", geom);
  bool plane = m->geom_type[g] == pb_geomPlane;
  if (!plane && !shape_of(m->geom_type[g], &s))
    return pbContext_Fail(d->ctx, pb_unsupported, "geom '%.100s': a mesh or height field as a surface is not supported", geom);
  if (plane) {
    s = (shape){.size = {-1, -1, -1}};  // a plane's own sizes may be zero
    add_local(&s, 0, 0, 0), add_local(&s, 1, 0, 0), add_local(&s, 0, 1, 0);
  }
  const char *body = pbModel_Name(m, pb_objBody, m->geom_bodyid[g]);
  int first = d->npoint, corners[64];
  for (int i = 0; i < s.points; i++) {
    pbRiderDef r = {.point = -1, .geom = g, .body = (char *)(uintptr_t)body, .size = {s.size[0], s.size[1], s.size[2]}};
    memcpy(r.local, s.local + 3 * i, sizeof r.local);
    PB_TRY(pbDeformable_AddRider(d, &r, &point));
    corners[i] = point;
  }
  for (int i = 0; i < 3 * s.triangles; i++) s.triangle[i] += first;
  for (int i = 0; i < 2 * s.edges; i++) s.edge[i] += first;
  bool round = m->geom_type[g] == pb_geomSphere || m->geom_type[g] == pb_geomCapsule;
  pbSurface surface = {.name = geom,
                       .triangles = s.triangles,
                       .triangle = s.triangle,
                       .edges = s.edges,
                       .edge = s.edge,
                       .points = s.triangles || s.edges ? 0 : s.points,
                       .point = corners,
                       .radius = round ? m->geom_size[3 * g] : 0};
  return pbDeformable_AddAnySurface(d, &surface, plane, number);
}
