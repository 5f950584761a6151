// The parameter table: slices of theta by name, their bounds, and a check of values before a run.
// Tests: tests/unit/test_compile.c, tests/oracle/test_parameters.py, tests/oracle/test_wanted.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "base/text.h"
#include "deform/deform.h"
#include "model/exposed.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/param.h"
#include "model/policy_data.h"
#include "model/servo.h"
#include "model/sphere.h"
#include "model/wanted.h"

// ---- the table ----------------------------------------------------------------------------------------------------
// What a row is, by the size that counts the rows.
#define ROWS_one          pb_objCount
#define ROWS_nq           pb_objCount
#define ROWS_nv           pb_objDof
#define ROWS_nbody        pb_objBody
#define ROWS_njnt         pb_objJoint
#define ROWS_ngeom        pb_objGeom
#define ROWS_nsite        pb_objSite
#define ROWS_ncam         pb_objCamera
#define ROWS_npair        pb_objPair
#define ROWS_neq          pb_objEquality
#define ROWS_ntendon      pb_objTendon
#define ROWS_nwrap        pb_objCount
#define ROWS_nu           pb_objActuator
#define ROWS_nsensor      pb_objSensor
#define ROWS_nudelay      pb_objActuator
#define ROWS_nsensordelay pb_objSensor
#define ROWS_nmesh        pb_objMesh
#define ROWS_ndesignbody  pb_objBody
#define ROWS_ndesigngeom  pb_objGeom
#define ROWS_ndesignmesh  pb_objMesh

static const pbParamRow param_table[] = {
#define ROW(field, member, count, columns, of_unit, values, motion, bends, source, groups, known, text) \
  {.name = #field,                                                                                      \
   .unit = of_unit,                                                                                     \
   .meaning = text,                                                                                     \
   .rows = offsetof(pbModel, count),                                                                    \
   .pointer = offsetof(pbModel, member),                                                                \
   .cols = columns,                                                                                     \
   .rows_are = ROWS_##count,                                                                            \
   .range = pb_range##values,                                                                           \
   .moves = pb_moves##motion,                                                                           \
   .kink = pb_kink##bends,                                                                              \
   .follows = pb_follows##source,                                                                       \
   .wakes = groups},
#define X(field, ...) ROW(field, field, __VA_ARGS__)
    PB_MODEL_PARAMS(X)
#undef X
#define X(field, ...) ROW(field, term[pb_term_##field], __VA_ARGS__)
        PB_TERM_PARAMS(X)
#undef X
#define X(field, ...) ROW(field, field, __VA_ARGS__)
            PB_MESH_PARAMS(X)
#undef X
};
_Static_assert((int)pb_termCount <= (int)PB_TERM_MOST, "more fields of terms than a model has room for");

size_t pbModel_ParamSize(const pbModel *m) { return m->ntheta; }

const pbParamRow *pbParam_Row(int number) { return number >= 0 && number < pb_paramCount ? &param_table[number] : NULL; }

const pbParamRow *pbParam_Named(const char *name) {
  for (int i = 0; i < pb_paramCount; i++) {
    if (!strcmp(param_table[i].name, name)) return &param_table[i];
  }
  return NULL;
}

static int deform_count(const pbModel *m) { return m->deform ? m->deform->nslice : 0; }
int pbModel_ParamCount(const pbModel *m) {
  return pb_paramCount + m->nexposed + deform_count(m) + (m->policy ? m->policy->params : 0);
}
const double *pbModel_DefaultParams(const pbModel *m) { return m->theta0; }

static pbParam deform_param(const pbModel *m, const pbDeformSlice *s) {
  return (pbParam){.name = s->name,
                   .unit = s->unit,
                   .meaning = "of a deformable",
                   .rows = s->rows,
                   .cols = s->cols,
                   .rows_are = pb_objCount,
                   .offset = m->deform_theta + s->offset,
                   .lower = s->lower,
                   .upper = s->upper};
}

static pbParam exposed_param(const pbExposed *e) {
  bool heights = e->of == pb_objHfield;  // shares of the elevation above the base
  return (pbParam){.name = e->name,
                   .unit = heights ? "" : "m",
                   .meaning = heights ? "heights, as shares of the elevation" : "vertices, in the frame of the geoms",
                   .rows = e->rows,
                   .cols = e->cols,
                   .rows_are = pb_objCount,
                   .offset = e->offset,
                   .lower = heights ? 0 : -INFINITY,
                   .upper = INFINITY};
}

static pbParam policy_param(const pbPolicyParam *p) {
  const pbPolicySlice *s = p->slice;
  bool open = s->lower == 0 && s->upper == 0;  // no bounds
  PB_ASSERT(s->rows >= 0 && s->cols >= 0);

  // Its rows belong to nothing that has a name.
  return (pbParam){.name = p->name,
                   .unit = s->unit ? s->unit : "",
                   .meaning = "of the policy",
                   .rows = s->rows,
                   .cols = s->cols,
                   .rows_are = pb_objCount,
                   .offset = p->offset,
                   .lower = open ? -INFINITY : s->lower,
                   .upper = open ? INFINITY : s->upper,
                   .fixed = s->fixed};
}

pbParam pbModel_ParamAt(const pbModel *m, int index) {
  int own = pb_paramCount + m->nexposed, behind = index - own - deform_count(m);

  // From the last to the first: a policy's, those of deformables, what is exposed, the model's own fields.
  if (index >= pbModel_ParamCount(m)) index = -1;
  if (index >= own && behind >= 0) return policy_param(&m->policy->param[behind]);
  if (index >= own) return deform_param(m, &m->deform->slice[index - own]);
  if (index >= pb_paramCount) return exposed_param(&m->exposed[index - pb_paramCount]);
  if (index < 0) return (pbParam){.name = "", .unit = "", .meaning = "", .rows_are = pb_objCount};

  // The pointer of a field says where in theta it begins.
  const pbParamRow *e = &param_table[index];
  const double *start = *(double *const *)(const void *)((const char *)m + e->pointer);

  pbParam p = {.name = e->name,
               .unit = e->unit,
               .meaning = e->meaning,
               .moves = e->moves,
               .cols = e->cols,
               .rows_are = e->rows_are,
               .rows = *(const int *)(const void *)((const char *)m + e->rows),
               .offset = (size_t)(start - m->theta0),
               .lower = e->range == pb_rangeAny ? -INFINITY : 0,
               .upper = e->range == pb_rangeShare ? 1 : INFINITY,
               .option = e->rows == offsetof(pbModel, one),
               .derived = e->follows == pb_followsDerived};

  PB_ASSERT(p.offset + (size_t)p.rows * (size_t)p.cols <= m->ntheta);
  return p;
}

// ---- by name ------------------------------------------------------------------------------------------------------
// A parameter is named FIELD, FIELD:ROW or FIELD:ROW:ENTRY, where ROW is a number or the name of an object.
static pbStatus unknown_param(pbContext *ctx, const pbModel *m, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[256];

  for (int i = 0; i < pbModel_ParamCount(m); i++) pbSuggest_Offer(&near, pbModel_ParamAt(m, i).name);
  return pbContext_Fail(ctx, pb_bad_argument, "unknown parameter '%.80s'%s%s", name, pbSuggest_Write(&near, hint, sizeof hint),
                        near.best ? "" : " ('pullback info MODEL' lists them)");
}

static pbStatus unknown_row(pbContext *ctx, const pbModel *m, const pbParam *p, pbObject kind, const char *row) {
  pbSuggest near = pbSuggest_For(row);
  char hint[256];
  if (kind < pb_objCount) {
    for (int i = 0; pbModel_Name(m, kind, i); i++) pbSuggest_Offer(&near, pbModel_Name(m, kind, i));
  }

  return pbContext_Fail(ctx, pb_bad_argument, "parameter '%s' has no row '%.80s' (it has %d)%s", p->name, row, p->rows,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

// Rows of a thing by its name: one, or those of a joint (several where it is a ball or free joint). False if there are none.
static bool find_named(const pbModel *m, const pbParam *p, bool positions, const char *row, int *first, int *count) {
  *count = 1;

  // Degrees of freedom and positions go by the name of their joint.
  if (positions || p->rows_are == pb_objDof) {
    int j = pbModel_Id(m, pb_objJoint, row);
    if (j < 0) return false;
    *first = positions ? m->jnt_qposadr[j] : m->jnt_dofadr[j];
    *count = positions ? pbJoint_PositionCount(m->jnt_type[j]) : pbJoint_DofCount(m->jnt_type[j]);
    return true;
  }

  if (p->rows_are == pb_objCount) return false;
  *first = pbModel_Id(m, p->rows_are, row);  // controls of deformables have the names of actuators, but no rows
  return *first >= 0 && *first < p->rows;
}

// By name or, where nothing is called so, by number.
static bool find_rows(const pbModel *m, const pbParam *p, bool positions, const char *row, int *first, int *count) {
  if (find_named(m, p, positions, row, first, count)) return true;
  *count = 1;
  return pbText_Count(row, first) && *first < p->rows;
}

// Narrows the chosen rows to one number, the entry `text` of them, counted from 0.
static pbStatus choose_entry(pbContext *ctx, const char *name, const char *text, pbParam *p) {
  int entry, count = p->rows * p->cols;
  if (!pbText_Count(text, &entry) || entry >= count)
    return pbContext_Fail(ctx, pb_bad_argument, "parameter '%.200s' has no entry '%.80s' (it has %d, counted from 0)", name, text,
                          count);

  p->offset += (size_t)entry;
  p->rows = p->cols = 1;
  return pb_ok;
}

// The part of a name behind its field: nothing, ":ROW", or ":ROW:ENTRY"; of options, which have no rows, ":ENTRY". Names of
// objects may hold colons themselves, so the whole text is tried as a row before its last colon is taken as a separator.
static pbStatus choose_rows(pbContext *ctx, const pbModel *m, bool positions, const char *text, pbParam *p) {
  char row[256];
  const char *colon = strrchr(text, ':');
  int first = 0, count = 1, number;

  if (p->option) return choose_entry(ctx, p->name, text, p);

  // The whole text names rows, or all of it but an entry at its end.
  bool found = find_rows(m, p, positions, text, &first, &count), one = false;
  if (!found && colon && (size_t)(colon - text) < sizeof row) {
    snprintf(row, sizeof row, "%.*s", (int)(colon - text), text);
    one = found = find_rows(m, p, positions, row, &first, &count);
    if (!found && pbText_Count(colon + 1, &number)) text = row;
  }
  if (!found) return unknown_row(ctx, m, p, positions ? pb_objJoint : p->rows_are, text);

  // From here on the slice is that of the rows.
  PB_ASSERT(first >= 0 && count >= 1 && first + count <= p->rows);
  p->offset += (size_t)first * (size_t)p->cols;
  p->rows = count;
  if (!one) return pb_ok;

  // Messages name the rows with the field.
  char name[360];
  snprintf(name, sizeof name, "%s:%s", p->name, row);
  return choose_entry(ctx, name, colon + 1, p);
}

// Length of the field in a name: what stands before the first colon, or the whole name of something exposed.
static size_t field_length(const pbModel *m, const char *name) {
  size_t longest = strcspn(name, ":");

  for (int i = 0; i < m->nexposed; i++) {
    size_t length = strlen(m->exposed[i].name);

    bool begins = !strncmp(name, m->exposed[i].name, length) && (!name[length] || name[length] == ':');
    if (begins && length > longest) longest = length;
  }
  return longest;
}

pbStatus pbModel_Param(pbContext *ctx, const pbModel *m, const char *name, pbParam *param) {
  size_t length = field_length(m, name);
  const char *colon = name[length] ? name + length : NULL;
  int index = 0, count = pbModel_ParamCount(m);

  for (; index < count; index++) {
    *param = pbModel_ParamAt(m, index);
    if (strlen(param->name) == length && !strncmp(param->name, name, length)) break;
  }

  // The name as written, cut to what a message holds.
  if (index == count) {
    char head[96];
    snprintf(head, sizeof head, "%.*s", (int)(length < 90 ? length : 90), name);
    return unknown_param(ctx, m, head);
  }

  // Positions have no objects of their own: their rows go by joints.
  bool positions = index < pb_paramCount && param_table[index].rows == offsetof(pbModel, nq);
  return colon ? choose_rows(ctx, m, positions, colon + 1, param) : pb_ok;
}

// ":NAME" of a row where no other row has that name (the degrees of freedom of a ball joint share one), else ":NUMBER".
static void put_row(const pbModel *m, const pbParam *p, int row, char *text, size_t size) {
  const char *name = p->rows_are < pb_objCount ? pbModel_Name(m, p->rows_are, row) : "";
  bool shared = p->rows_are == pb_objDof && pbJoint_DofCount(m->jnt_type[m->dof_jntid[row]]) > 1;

  if (*name && !shared) snprintf(text, size, ":%.150s", name);
  else snprintf(text, size, ":%d", row);
}

char *pbModel_ParamName(const pbModel *m, size_t index, char *text, size_t size) {
  snprintf(text, size, "?");
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    pbParam p = pbModel_ParamAt(m, i);
    size_t entry = index - p.offset;
    size_t cols = (size_t)p.cols;
    if (index < p.offset || entry >= (size_t)p.rows * cols) continue;

    // FIELD:ROW:COMPONENT, without what there is only one of.
    char name[256] = "", component[24] = "";
    if (!p.option) put_row(m, &p, (int)(entry / cols), name, sizeof name);
    if (cols > 1) snprintf(component, sizeof component, ":%zu", entry % cols);
    snprintf(text, size, "%s%s%s", p.name, name, component);
  }
  return text;
}

// ---- values -------------------------------------------------------------------------------------------------------
typedef struct pbChecker {
  pbContext *ctx;
  const pbModel *m;
  const double *theta;
} pbChecker;

static const double *value_of(const pbChecker *c, const double *field) { return c->theta + (field - c->m->theta0); }

static pbStatus fail_at_row(const pbChecker *c, const char *field, pbObject kind, int row, const char *reason) {
  const char *name = kind < pb_objCount ? pbModel_Name(c->m, kind, row) : NULL;

  if (name && *name) return pbContext_Fail(c->ctx, pb_bad_input, "%s:%s %s", field, name, reason);
  return pbContext_Fail(c->ctx, pb_bad_input, "%s:%d %s", field, row, reason);
}

static pbStatus fail_at_entry(const pbChecker *c, size_t index, const char *reason) {
  char name[256], value[32] = "NaN";
  if (!isnan(c->theta[index])) snprintf(value, sizeof value, "%g", c->theta[index]);

  return pbContext_Fail(c->ctx, pb_bad_input, "%s is %s: %s", pbModel_ParamName(c->m, index, name, sizeof name), value, reason);
}

size_t pbModel_FirstNotFinite(const pbModel *m, const double *theta) {
  size_t i = 0;
  while (i < m->ntheta && isfinite(theta[i])) i++;
  return i;
}

bool pbModel_Readable(const pbModel *m, const double *theta, bool *unit, char *text, size_t size) {
  char name[512];
  size_t bad = pbModel_FirstNotFinite(m, theta);

  // The message names the entry and its value.
  if (bad < m->ntheta) {
    snprintf(text, size, "parameter %s is %s: expected a finite number", pbModel_ParamName(m, bad, name, sizeof name),
             isnan(theta[bad]) ? "NaN" : "infinite");
    return false;
  }

  // The cheap test of unit lengths first: only theta that fails it can have a direction out of range.
  *unit = pbSphere_On(m, theta);
  const pbSphereRow *row = *unit ? NULL : pbSphere_Bad(m, theta);
  if (!row) return true;

  pbSphere_Explain(m, theta, row, name, sizeof name);
  snprintf(text, size, "parameter %s", name);
  return false;
}

static pbStatus check_bounds(const pbChecker *c) {
  for (int i = 0; i < pbModel_ParamCount(c->m); i++) {
    pbParam p = pbModel_ParamAt(c->m, i);

    const pbParamRow *row = pbParam_Row(i);
    bool positive = (row && row->range == pb_rangePositive) || p.lower == PB_MORE_THAN_ZERO;

    for (size_t k = p.offset; k < p.offset + (size_t)p.rows * (size_t)p.cols; k++) {
      double v = c->theta[k];
      if (!isfinite(v)) return fail_at_entry(c, k, "expected a finite number");
      if (positive && !(v > 0)) return fail_at_entry(c, k, "expected a positive number");
      bool kept = c->m->inertia_kept && (!strcmp(p.name, "body_mass") || !strcmp(p.name, "body_inertia"));
      if (v < p.lower && p.lower == 0 && !kept) return fail_at_entry(c, k, "expected zero or a positive number");
      if (i >= pb_paramCount && !(v >= p.lower && v <= p.upper))
        return fail_at_entry(c, k,
                             i - pb_paramCount - c->m->nexposed < deform_count(c->m) ? "expected a value in its energy's range"
                                                                                     : "expected a value within its bounds");
    }
  }
  return pb_ok;
}

// Every inertia must be one of a rigid body, and what moves must have mass and inertia: the body itself or one welded to it.
static pbStatus check_masses(const pbChecker *c) {
  const pbModel *m = c->m;
  if (m->inertia_kept) return pb_ok;  // whether the mass matrix is positive definite is found in each step
  const double *mass = value_of(c, m->body_mass);
  const double *inertia = value_of(c, m->body_inertia);

  // Triangle inequality of principal moments, with room for rounding.
  for (int b = 1; b < m->nbody; b++) {
    const double *I = inertia + 3 * b;
    double slack = 1e-9 * (I[0] + I[1] + I[2]);
    if (I[0] + I[1] < I[2] - slack || I[0] + I[2] < I[1] - slack || I[1] + I[2] < I[0] - slack)
      return fail_at_row(c, "body_inertia", pb_objBody, b, "is no inertia: each moment is at most the sum of the other two");
  }

  for (int b = 1; b < m->nbody; b++) {
    if (!m->body_dofnum[b]) continue;

    bool heavy = false;
    for (int k = b; k < m->nbody && !heavy; k++) {  // bodies welded to b have larger ids
      const double *I = inertia + 3 * k;
      heavy = m->body_weldid[k] == b && mass[k] >= 1e-15 && I[0] >= 1e-15 && I[1] >= 1e-15 && I[2] >= 1e-15;
    }

    if (!heavy) return fail_at_row(c, "body_mass", pb_objBody, b, "and its inertia are too small for a body that moves");
  }
  return pb_ok;
}

static pbStatus check_sizes(const pbChecker *c) {
  static const int needed[8] = {0, 0, 1, 2, 3, 2, 3, 0};  // sizes that must be positive, by type
  const pbModel *m = c->m;
  const double *size = value_of(c, m->geom_size);

  for (int g = 0; g < m->ngeom; g++) {
    for (int k = 0; k < needed[m->geom_type[g] & 7]; k++) {
      if (!(size[3 * g + k] > 0)) return fail_at_row(c, "geom_size", pb_objGeom, g, "must be positive");
    }
  }
  return pb_ok;
}

// A hull that is turned inside out is none.
static pbStatus check_meshes(const pbChecker *c) {
  const pbModel *m = c->m;
  const double *scale = value_of(c, m->mesh_scale);

  for (int i = 0; i < m->nmesh; i++) {
    if (m->mesh_graphadr[i] < 0) continue;
    for (int k = 0; k < 3; k++) {
      if (!(scale[3 * i + k] * m->mesh_scale0[3 * i + k] > 0))
        return fail_at_row(c, "mesh_scale", pb_objMesh, i, "must keep the signs that it was compiled with");
    }
  }
  return pb_ok;
}

pbStatus pbModel_CheckDirections(pbContext *ctx, const pbModel *m, const double *theta) {
  char text[640];
  const pbSphereRow *row = pbSphere_Bad(m, theta);
  if (!row) return pb_ok;

  pbSphere_Explain(m, theta, row, text, sizeof text);
  return pbContext_Fail(ctx, pb_bad_input, "%s", text);
}

static pbStatus check_ranges(const pbChecker *c, const char *field, const double *values, const int *limited, int rows,
                             pbObject kind) {
  const double *v = value_of(c, values);

  for (int i = 0; i < rows; i++) {
    if (limited[i] && !(v[2 * i] <= v[2 * i + 1])) return fail_at_row(c, field, kind, i, "has its limits in the wrong order");
  }
  return pb_ok;
}

pbStatus pbModel_CheckParams(pbContext *ctx, const pbModel *m, const double *theta) {
  const pbChecker c = {ctx, m, theta};

  PB_TRY(check_bounds(&c));
  PB_TRY(check_masses(&c));
  PB_TRY(pbModel_CheckServos(ctx, m, theta));
  PB_TRY(check_sizes(&c));
  PB_TRY(check_meshes(&c));
  PB_TRY(pbExposed_CheckHulls(ctx, m, theta));

  // A compile has no topology yet; it checks directions at its end, since some come with the derived constants.
  if (m->topology) PB_TRY(pbModel_CheckDirections(ctx, m, theta));

  // Ranges must be ascending where their limits hold.
  PB_TRY(check_ranges(&c, "jnt_range", m->jnt_range, m->jnt_limited, m->njnt, pb_objJoint));
  PB_TRY(check_ranges(&c, "jnt_actfrcrange", m->jnt_actfrcrange, m->jnt_actfrclimited, m->njnt, pb_objJoint));

  PB_TRY(check_ranges(&c, "tendon_range", m->tendon_range, m->tendon_limited, m->ntendon, pb_objTendon));
  PB_TRY(check_ranges(&c, "tendon_actfrcrange", m->tendon_actfrcrange, m->tendon_actfrclimited, m->ntendon, pb_objTendon));

  PB_TRY(check_ranges(&c, "actuator_ctrlrange", m->actuator_ctrlrange, m->actuator_ctrllimited, m->nu, pb_objActuator));
  PB_TRY(check_ranges(&c, "actuator_forcerange", m->actuator_forcerange, m->actuator_forcelimited, m->nu, pb_objActuator));
  return check_ranges(&c, "actuator_actrange", m->actuator_actrange, m->actuator_actlimited, m->nu, pb_objActuator);
}
