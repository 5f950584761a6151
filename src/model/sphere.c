// Directions in theta (sphere.h): which rows there are, their lengths, normalization, and its derivative both ways.
// Tests: tests/unit/test_sphere.c.
#include "model/sphere.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "model/joint.h"
#include "model/param.h"
#include "model/topology.h"

// ---- which rows -----------------------------------------------------------------------------------------------------
static int add_row(const pbModel *m, const double *field, int size, pbSphereRow *rows, int n) {
  if (rows) rows[n] = (pbSphereRow){(size_t)(field - m->theta0), size};
  return n + 1;
}

// Rotations of free and ball joints among positions, and relative orientations among the numbers of welds.
static int add_parts(const pbModel *m, const double *field, pbMoves moves, pbSphereRow *rows, int n) {
  int joints = moves == pb_movesPositions ? m->njnt : 0, equalities = moves == pb_movesWelds ? m->neq : 0;

  for (int j = 0; j < joints; j++) {
    int type = m->jnt_type[j];
    if (pbJoint_HasRotation(type)) n = add_row(m, field + m->jnt_qposadr[j] + pbJoint_PlainCount(type), 4, rows, n);
  }
  for (int e = 0; e < equalities; e++) {
    bool poses = pbEquality_Of(m->eq_type[e]) == pb_ofPoses;
    if (poses && m->eq_objtype[e] == pb_refBody) n = add_row(m, field + pbWeld_Relquat(e), 4, rows, n);
  }
  return n;
}

// Has the field directions in it? Those that follow from others are unit by themselves.
static bool is_directed(int number) {
  const pbParamRow *row = pbParam_Row(number);
  return row->moves != pb_movesFree && row->follows != pb_followsDerived;
}

int pbSphere_Rows(const pbModel *m, pbSphereRow *rows) {
  int n = 0;

  for (int i = 0; i < pb_paramCount; i++) {
    if (!is_directed(i)) continue;
    pbParam p = pbModel_ParamAt(m, i);
    const double *field = m->theta0 + p.offset;
    int whole = p.moves == pb_movesAxis || p.moves == pb_movesQuaternion ? p.rows : 0;

    // One direction a row, or parts of what is more.
    for (int r = 0; r < whole; r++) n = add_row(m, field + r * p.cols, p.cols, rows, n);
    n = add_parts(m, field, p.moves, rows, n);
  }
  return n;
}

// ---- lengths --------------------------------------------------------------------------------------------------------
static double squared_length(const double *v, int size) {
  double s = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
  return size == 4 ? s + v[3] * v[3] : s;
}

double pbSphere_Length(const double *v, int size) {
  double most = 0, s = 0;

  // Scaled by the largest entry, so that squares neither overflow nor vanish.
  for (int k = 0; k < size; k++) most = fmax(most, fabs(v[k]));
  if (!(most > 0) || !isfinite(most)) return most;

  for (int k = 0; k < size; k++) s += (v[k] / most) * (v[k] / most);
  return most * sqrt(s);
}

static bool is_unit(const double *v, int size) { return fabs(squared_length(v, size) - 1) <= 2e-12; }

bool pbSphere_On(const pbModel *m, const double *theta) {
  const pbTopology *t = m->topology;
  bool on = true;
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++) on &= is_unit(theta + r->at, r->size);
  return on;
}

bool pbSphere_Same(const pbModel *m, const double *a, const double *b) {
  for (int i = 0; i < pb_paramCount; i++) {
    if (!is_directed(i)) continue;
    pbParam p = pbModel_ParamAt(m, i);
    if (memcmp(a + p.offset, b + p.offset, (size_t)p.rows * (size_t)p.cols * sizeof *a) != 0) return false;
  }
  return true;
}

const pbSphereRow *pbSphere_Bad(const pbModel *m, const double *theta) {
  const pbTopology *t = m->topology;
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++) {
    double length = pbSphere_Length(theta + r->at, r->size);
    if (!(length >= PB_SPHERE_SHORTEST && length <= PB_SPHERE_LONGEST)) return r;
  }
  return NULL;
}

void pbSphere_Explain(const pbModel *m, const double *theta, const pbSphereRow *row, char *text, size_t size) {
  char first[256], last[256];
  double length = pbSphere_Length(theta + row->at, row->size);

  // A row is named by its first entry and its last.
  pbModel_ParamName(m, row->at, first, sizeof first);
  pbModel_ParamName(m, row->at + (size_t)row->size - 1, last, sizeof last);

  if (length > 0) {
    snprintf(text, size, "%s to %s: %s of length %.3g; it is normalized where it is used, from lengths of %g to %g", first, last,
             row->size == 3 ? "an axis" : "a quaternion", length, PB_SPHERE_SHORTEST, PB_SPHERE_LONGEST);
  } else {
    snprintf(text, size, "%s to %s: %s without direction (its length is zero)", first, last,
             row->size == 3 ? "an axis" : "a quaternion");
  }
}

// ---- values and derivatives -----------------------------------------------------------------------------------------
void pbSphere_Normalize(const pbModel *m, const double *theta, double *out) {
  const pbTopology *t = m->topology;
  memcpy(out, theta, m->ntheta * sizeof *out);

  // Rows that are unit to rounding keep their bits.
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++) {
    const double *v = theta + r->at;
    if (is_unit(v, r->size)) continue;
    double length = pbSphere_Length(v, r->size);
    PB_ASSERT(length >= PB_SPHERE_SHORTEST && length <= PB_SPHERE_LONGEST);
    for (int k = 0; k < r->size; k++) out[r->at + (size_t)k] = v[k] / length;
  }
}

// g := (1 - u u') g / |v|, symmetric: for directions and cotangents.
static void project_tangential(const double *v, int size, double *g) {
  double length = pbSphere_Length(v, size), along = 0;

  // along = u . g
  for (int k = 0; k < size; k++) along += v[k] / length * g[k];
  for (int k = 0; k < size; k++) g[k] = (g[k] - along * (v[k] / length)) / length;
}

void pbSphere_Push(const pbModel *m, const double *theta, double *direction) {
  const pbTopology *t = m->topology;
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++)
    project_tangential(theta + r->at, r->size, direction + r->at);
}

void pbSphere_Aside(const pbModel *m, double *bar, double *aside) {
  const pbTopology *t = m->topology;
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++, aside += 4) {
    memcpy(aside, bar + r->at, (size_t)r->size * sizeof *bar);
    memset(bar + r->at, 0, (size_t)r->size * sizeof *bar);
  }
}

void pbSphere_Pull(const pbModel *m, const double *theta, const double *aside, double *bar) {
  const pbTopology *t = m->topology;

  // Transpose of the push (the matrix is symmetric), added to what was set aside.
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++, aside += 4) {
    project_tangential(theta + r->at, r->size, bar + r->at);
    for (int k = 0; k < r->size; k++) bar[r->at + (size_t)k] += aside[k];
  }
}
