// What is said of the constraint solve of a step: rows in words, a condition number, the branch that was taken, and why a solve
// did not converge, was singular, or has a row too stiff for the time step.
// Tests: tests/conformance/test_step.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/actuators.h>

#include "base/assert.h"
#include "contact/contact.h"
#include "contact/contact_sensor.h"
#include "contact/row.h"
#include "geometry/distance.h"
#include "model/sensor.h"
#include "multibody/contact_gap.h"
#include "multibody/distance_sensor.h"
#include "multibody/ray_sensor.h"
#include "multibody/tendon.h"
#include "solve/dual.h"
#include "solve/newton.h"
#include "step/scratch.h"

static const double residual_limit = 1e-6;  // below it a solve is good enough for any purpose, whatever stopped it

static void put_object(const pbModel *m, pbObject kind, const char *word, int id, char *text, size_t size) {
  const char *name = pbModel_Name(m, kind, id);
  if (name && *name) snprintf(text, size, "%s '%.60s'", word, name);
  else snprintf(text, size, "%s %d", word, id);
}

static const char *const kind_names[pb_rowKinds] = {
#define X(kind, name, ...) [pb_row##kind] = name,
    PB_ROW_KINDS(X)
#undef X
};

char *pbScratch_KindName(const pbScratch *s, int kind, int id, char *text, size_t size) {
  const pbModel *m = s->model;
  char a[96], b[96];

  // Equalities and contacts by name; limits and losses by the joint or tendon that they are of.
  if (kind == pb_rowEquality) {
    put_object(m, pb_objEquality, "equality", id, text, size);
  } else if (kind == pb_rowServo) {
    put_object(m, pb_objActuator, "servo", id, text, size);
  } else if (kind == pb_rowContact) {
    const pbContact_r *c = s->w.contact + id;
    put_object(m, pb_objGeom, "geom", c->geom1, a, sizeof a);
    put_object(m, pb_objGeom, "geom", c->geom2, b, sizeof b);
    snprintf(text, size, "contact of %s and %s", a, b);
  } else if (kind != pb_rowLimit && kind != pb_rowFriction) {
    snprintf(text, size, "%s %d", kind_names[kind], id);
  } else {
    // Joints and dofs are counted first, tendons behind them.
    bool limit = kind == pb_rowLimit;
    int joints = limit ? m->njnt : m->nv;
    if (id >= joints) put_object(m, pb_objTendon, "tendon", id - joints, a, sizeof a);
    else put_object(m, pb_objJoint, "joint", limit ? id : m->dof_jntid[id], a, sizeof a);
    snprintf(text, size, "%s of %s", kind_names[kind], a);
  }
  return text;
}

char *pbScratch_RowName(const pbScratch *s, int row, char *text, size_t size) {
  PB_ASSERT(row >= 0 && row < s->w.nrow);
  return pbScratch_KindName(s, s->w.row[row].kind, s->w.row[row].id, text, size);
}

// Force of a row on entry i of its dofs, and its curvature J' K J there.
static void row_push(const pbWork_r *w, const pbRow_r *r, int i, double *push, double *curve) {
  const double *J = w->row_J + r->J;
  *push = *curve = 0;
  if (!r->zone) return;
  for (int a = 0; a < r->dim; a++) {
    *push += J[a * r->n + i] * r->f[a];
    for (int b = 0; b < r->dim; b++) *curve += J[a * r->n + i] * r->K[a * r->dim + b] * J[b * r->n + i];
  }
}

// The row that pushes the dof most (stiffness: that is stiffest there); -1: none touches it.
static int strongest_row(const pbWork_r *w, int dof, bool stiffness) {
  double most = -1;
  int found = -1;
  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    double push, curve;
    int i = 0;
    while (i < r->n && w->row_dofs[r->dofs + i] != dof) i++;
    if (i == r->n) continue;

    row_push(w, r, i, &push, &curve);
    double size = fabs(stiffness ? curve : push);
    if (size > most) {
      most = size;
      found = k;
    }
  }
  return found;
}

// Condition number of H = M + J'DJ, as the larger of two lower bounds. Of H scaled to a unit diagonal: the largest H_ii / d_i,
// with the pivots d_i as last factored and H_ii = d_i + sum over rows k below of L_ki^2 d_k. Of M^-1 H: the largest diagApprox D
// of a row, which also counts rows that are open now but that rounding opens and closes.
double pbScratch_Condition(const pbScratch *s) {
  const pbWork_r *w = &s->w;
  const pbTreePattern *H = &w->H;
  double worst = 1, *diagonal = w->tmp;

  // The diagonal of H, from its factor.
  for (int i = 0; i < H->n; i++) diagonal[i] = 1 / w->H_Dinv[i];
  for (int k = 0; k < H->n; k++) {
    const double *L = w->H_LD + H->adr[k];
    for (int a = 0; a < H->depth[k]; a++) diagonal[H->chain[H->adr[k] + a]] += L[a] * L[a] / w->H_Dinv[k];
  }

  for (int i = 0; i < H->n; i++) worst = fmax(worst, diagonal[i] * w->H_Dinv[i]);
  for (int k = 0; k < w->nrow; k++) worst = fmax(worst, w->row[k].diag[0] * w->row[k].D[0]);
  return worst;
}

static int contact_feature(const pbWork_r *w, const pbContact_r *c) {
  pbColumn_r column;
  pbShape_r s1, s2;
  contact_shapes(&w->constraints, c, &column, &s1, &s2);
  return pbPair_Feature_r(&s1, &s2);
}

// One round of the hash FNV-1a (Fowler, Noll, Vo), by an int instead of a byte.
static uint64_t mix(uint64_t hash, int value) { return (hash ^ (uint64_t)(unsigned)value) * 1099511628211u; }

// Which bound holds a servo's force, and whether it rests or runs at its speed. Zones tell the first of soft rows only.
static int servo_branch(const pbWork_r *w, const pbRow_r *r) {
  double target = r->target, asked = w->act_raw[r->actuator];
  int held = r->f[0] <= r->bound[0] ? 1 : 0;
  int asks = asked == target ? 0 : 4;
  if (r->f[0] >= r->bound[1]) held = 2;
  return held + asks + (target == 0 ? 8 : 0);
}

// Which ways tendons go around geoms.
static uint64_t mix_paths(const pbWork_r *w, uint64_t hash) {
  const pbModel *m = w->m;
  for (int k = 0; k < m->ntendon; k++) {
    pbPiece p = pb_pathOf(m, k);
    while (pb_isSpatial(m, k) && pb_nextPiece(m, k, &p)) {
      const pbWrapPath_r *path = pbTendon_Around_r(&w->mechanism, &p);
      if (path) hash = mix(hash, path->inside ? 3 * p.next : 3 * p.next + (int)path->turn);
    }
  }
  return hash;
}

// The same geom by the same part of its surface, from the same side.
static uint64_t mix_rays(const pbWork_r *w, int sensor, uint64_t hash) {
  // Cast again: nothing is kept of it.
  for (int i = 0; i < pbRay_Count_r(w->m, sensor); i++) {
    pbBeam_r beam;
    pbRayHit hit;
    pbRay_Beam_r(&w->mechanism, sensor, i, &beam);
    pbRay_Cast_r(&w->mechanism, &beam, &hit);
    hash = mix(hash, hit.geom);
    if (hit.geom >= 0) hash = mix(mix(hash, hit.feature.id), hit.feature.leaves);
  }
  return hash;
}

// The same contacts in the same order, seen from the same sides.
static uint64_t mix_contacts(const pbWork_r *w, int sensor, uint64_t hash) {
  pbTaken t = {.contact = -1};
  hash = mix(hash, pbContactSensor_Count_r(&w->constraints, sensor));
  for (int slot = 0; slot < w->m->sensor_intprm[3 * sensor + 2]; slot++) {
    t = pbContactSensor_Next_r(&w->constraints, sensor, t);
    if (t.contact < 0) break;
    const pbContact_r *c = w->contact + t.contact;
    hash = mix(mix(mix(mix(hash, c->geom1), c->geom2), c->point), t.flip);
  }
  return hash;
}

// The same pair of geoms, by the same features, apart or overlapping. False: features tie.
static bool mix_distance(const pbWork_r *w, int sensor, uint64_t *hash) {
  pbNearest_r found;
  pbShape_r shape[2];
  pbDistance_Find_r(&w->mechanism, sensor, &found);
  *hash = mix(*hash, found.geom[0]);

  // Beyond the cutoff nothing moves.
  if (found.geom[0] < 0) return true;

  // Corners, edges and faces that are nearest; which of several points.
  for (int k = 0; k < 2; k++) geom_shape(&w->mechanism, found.geom[k], &shape[k]);
  int feature = pbPair_NearestFeature_r(&shape[0], &shape[1], found.point);
  *hash = mix(mix(mix(*hash, found.geom[1]), feature), found.contact.dist > 0);
  return feature >= 0;
}

// Which contacts actuators on bodies pull at.
static uint64_t mix_adhesion(const pbWork_r *w, uint64_t hash) {
  if (!w->t->adheres) return hash;

  for (int u = 0; u < w->m->nu; u++) {
    if (w->m->actuator_trntype[u] != pb_trnBody) continue;
    for (int i = 0; i < w->ncon; i++) {
      const pbContact_r *c = w->contact + i;
      if (adheres(&w->mechanism, u, c)) hash = mix(mix(mix(hash, c->geom1), c->geom2), c->point);
    }
  }
  return hash;
}

// What sensors look at. False: features tie.
static bool mix_sensors(const pbWork_r *w, uint64_t *hash) {
  const pbModel *m = w->m;
  if (m->disableflags & pb_disSensor) return true;

  // Others are as smooth as what they are made of.
  for (int i = 0; i < m->nsensor; i++) {
    pbSensorOf of = pbSensor_Row(m->sensor_type[i])->of;
    if (of == pb_ofRay) *hash = mix_rays(w, i, *hash);
    if (of == pb_ofContact) *hash = mix_contacts(w, i, *hash);
    if (of == pb_ofFrameInSite) *hash = mix(*hash, (int)w->sensordata[m->sensor_adr[i]]);
    if (of == pb_ofShapes && !mix_distance(w, i, hash)) return false;
  }
  return true;
}

// Hashes what decides which branch of the step was taken: rows, zones of their potentials, contacts and their features.
uint64_t pbScratch_Branch(const pbScratch *s) {
  const pbWork_r *w = &s->w;
  uint64_t hash = 14695981039346656037u;
  for (const pbRow_r *r = w->row; r < w->row + w->nrow; r++) {
    hash = mix(mix(hash, (int)r->kind), r->kind == pb_rowContact ? 0 : r->id);
    hash = mix(mix(hash, (int)r->side), (int)r->zone);
    if (r->kind == pb_rowServo) hash = mix(hash, servo_branch(w, r));
    if (pb_hard(s->model)) hash = mix(hash, pbDual_Branch_r(w, r));
    if (r->kind != pb_rowContact) continue;

    // Which features meet; a tie has no branch of its own.
    const pbContact_r *c = w->contact + r->contact;
    int met = contact_feature(w, c);
    if (met < 0 || (c->point == 0 && pbScratch_PairTies(s, r->contact))) return 0;
    hash = mix(mix(mix(mix(hash, c->geom1), c->geom2), c->point), met);
  }
  // What else has branches: tendons around geoms, sensors.
  hash = mix_adhesion(w, mix_paths(w, hash));
  if (!mix_sensors(w, &hash)) return 0;
  return s->impacts ? mix(hash, s->report.contacts) : hash;
}

char *pbScratch_StrongestRow(const pbScratch *s, char *text, size_t size) {
  const pbWork_r *w = &s->w;
  int found = -1;
  double most = 0;
  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    if (!r->zone || !(fabs(r->f[0]) > most)) continue;
    most = fabs(r->f[0]);
    found = k;
  }

  if (found >= 0) return pbScratch_RowName(s, found, text, size);
  if (size) text[0] = 0;
  return text;
}

// A spring and damper k, b on a row of impedance d is stable in Euler's steps of h where h^2 k d^2 + 2 h b d < 4. For RK4's
// steps 8 is the bound of a spring without a damper (h |lambda| < 2.83), and is taken for all.
pbStatus pbScratch_CheckStiffness(pbScratch *s) {
  double h = s->w.p.timestep[0], limit = s->model->integrator == pb_intRK4 ? 8 : 4;
  if (pb_hard(s->model)) return pb_ok;  // solves for the velocity after the step
  for (int k = 0; k < s->w.nrow; k++) {
    const pbRow_r *r = s->w.row + k;
    double gain = h * r->imp * (h * r->k * r->imp + 2 * r->b);
    char name[256];
    if (!r->zone || pb_bounded(r) || !(gain > limit)) continue;

    return pbScratch_Fail(s, pb_not_finite,
                          "the %s is too stiff for the time step %.3g at time %.9g: its motion would explode (h^2 k d^2 + 2 h b "
                          "d is %.3g, stable below "
                          "%g); a smaller time step, a softer solref, or erp and cfm",
                          pbScratch_RowName(s, k, name, sizeof name), h, *s->w.time, gain, limit);
  }
  return pb_ok;
}

// A row's weight is what its bodies have at their centers of mass (body_invweight0), of which its softness is a share. Where
// that is zero, as of a body whose center of mass is its joint's anchor, the row is next to rigid.
static void note_weightless(pbScratch *s, const pbRow_r *r) {
  size_t used = strlen(s->worst_row);
  if (!(r->diag[0] < 1e-14)) return;

  snprintf(s->worst_row + used, sizeof s->worst_row - used,
           " (next to rigid: body_invweight0 of its bodies is 0, their centers of mass cannot move)");
}

void pbScratch_NoteSolve(pbScratch *s) {
  pbWork_r *w = &s->w;
  int worst = 0;
  s->report.converged = w->nrow == 0 || w->residual <= fmax(residual_limit, s->model->tolerance);
  s->report.condition = 0;
  s->worst_row[0] = 0;
  if (s->report.converged) return;

  if (pb_hard(s->model)) {
    pbScratch_RowName(s, w->worst_row, s->worst_row, sizeof s->worst_row);
    return;
  }

  // Of the dof with the largest residual: the row that pushes it most.
  for (int i = 1; i < s->model->nv; i++) worst = fabs(w->grad[i]) > fabs(w->grad[worst]) ? i : worst;
  int row = strongest_row(w, worst, false);
  if (row >= 0) {
    pbScratch_RowName(s, row, s->worst_row, sizeof s->worst_row);
    note_weightless(s, w->row + row);
  }
  s->report.condition = pbScratch_Condition(s);
}

pbStatus pbScratch_ExplainHard(pbScratch *s) {
  const pbWork_r *w = &s->w;
  char name[256];
  return pbScratch_Fail(
      s, pb_no_convergence,
      "hard contact: no forces found at time %.9g that obey all laws (misfit %.2g of the largest); the %s is the "
      "furthest off: rows that contradict each other, or a softer cfm is needed",
      *w->time, w->residual, pbScratch_RowName(s, w->worst_row, name, sizeof name));
}

pbStatus pbScratch_ExplainSingular(pbScratch *s) {
  pbWork_r *w = &s->w;
  int dof = s->model->nv - 1;
  char entry[160], name[160] = "constraints";

  // M itself, or H = M + J'DJ at its first pivot without a digit left.
  if (pbSolve_Smooth_r(w) == pb_ok) {
    while (dof >= 0 && w->H_Dinv[dof] > 0) dof--;
    int row = w->nrow && dof >= 0 ? strongest_row(w, dof, true) : -1;
    if (row >= 0)
      return pbScratch_Fail(
          s, pb_singular,
          "the constraint solve loses all digits at time %.9g (condition number above 1e15) at %s: the %s is too "
          "stiff for the masses it acts on; a softer one (cfm, solref, solimp) can be solved",
          *w->time, pbState_TangentName(s->model, dof, entry, sizeof entry), pbScratch_RowName(s, row, name, sizeof name));
  }
  return pbScratch_Fail(s, pb_singular,
                        "the mass matrix is not positive definite at time %.9g: masses, inertias, sizes or the state are beyond "
                        "what numbers can hold",
                        *w->time);
}
