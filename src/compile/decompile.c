// A model with parameters as a spec again: what it was made from (compile_source.c), with the numbers of its fields and of theta
// put in.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "compile/decompile.h"
#include "compile/spec_pool.h"
#include "math/vec.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "model/joint.h"
#include "model/sphere.h"
#include "model/term_fields.h"
#include "model/topology.h"

// Rows of a field by theta.
#define OF(field, width, i)      (d->theta + (d->m->field - d->m->theta0) + (size_t)(width) * (size_t)(i))
#define OF_TERM(field, width, i) (d->theta + PB_TERM_AT(d->m, field) + (size_t)(width) * (size_t)(i))
#define PUT(to, field, width, i) memcpy(to, OF(field, width, i), (width) * sizeof(double))
#define PUT_ONE(to, field, i)    ((to) = *OF(field, 1, i))

// As a range alone says it, where it does.
static int limit(int limited, const double range[2]) { return limited == (range[0] < range[1]) ? pb_auto : limited; }

static bool same_bits(const void *a, const void *b, size_t size) { return !memcmp(a, b, size); }

static void set_pose(pbPose *pose, const double pos[3], const double quat[4]) {
  *pose = (pbPose){.alt = pb_altNone};
  memcpy(pose->pos, pos, sizeof pose->pos);
  memcpy(pose->quat, quat, sizeof pose->quat);
}

// ---- settings ---------------------------------------------------------------------------------------------------------
static void put_options(pbDecompiler *d) {
  const pbModel *m = d->m;
  pbOptionSettings *o = &d->spec->option;
  PUT_ONE(o->timestep, timestep, 0);
  PUT_ONE(o->density, density, 0);
  PUT_ONE(o->viscosity, viscosity, 0);
  PUT_ONE(o->impratio, impratio, 0);
  PUT_ONE(o->o_margin, o_margin, 0);
  PUT(o->gravity, gravity, 3, 0);
  PUT(o->wind, wind, 3, 0);
  PUT(o->magnetic, magnetic, 3, 0);
  PUT(o->o_solref, o_solref, 2, 0);
  PUT(o->o_solimp, o_solimp, 5, 0);
  PUT(o->o_friction, o_friction, 5, 0);

  // What steps branch on.
  o->integrator = m->integrator;
  o->cone = m->cone;
  o->solver = m->solver;
  o->disableflags = m->disableflags;
  o->enableflags = m->enableflags;
  o->disableactuator = m->disableactuator;

  // When Newton's method ends, where that was asked for; else what the file has said of it.
  if (m->tolerance > 0) o->tolerance = m->tolerance;
  if (m->iterations != PB_NEWTON_ITERATIONS) o->iterations = m->iterations;
  if (m->ls_iterations != PB_LINE_ITERATIONS) o->ls_iterations = m->ls_iterations;
  o->noslip_iterations = m->noslip_iterations;
  o->noslip_tolerance = m->noslip_tolerance[0];
}

// Nothing is left that the compiler would derive, balance, fuse or scale.
static pbStatus put_settings(pbDecompiler *d) {
  pbSpec *fresh;
  PB_TRY(pbSpec_Create(d->ctx, &fresh));

  // MuJoCo's own settings but for the unit of angles.
  d->spec->compiler = fresh->compiler;
  pbSpec_Destroy(fresh);
  d->spec->compiler.degree = false;
  d->spec->design = d->spec->surfaces = d->spec->pool->source = false;
  put_options(d);
  return pb_ok;
}

// ---- the tree ---------------------------------------------------------------------------------------------------------
// The pose of a body with a free joint is where that is at rest; of both the one that was changed.
static const double *free_pose(const pbDecompiler *d, int body) {
  const pbModel *m = d->m;
  int j = m->body_jntadr[body];
  if (j < 0 || m->jnt_type[j] != pb_jntFree) return NULL;

  // Seven numbers: place and orientation.
  const double *rest = OF(qpos0, 1, m->jnt_qposadr[j]);
  return same_bits(rest, m->qpos0 + m->jnt_qposadr[j], 7 * sizeof *rest) ? NULL : rest;
}

static bool is_triangle(const double I[3]) { return I[0] + I[1] >= I[2] && I[0] + I[2] >= I[1] && I[1] + I[2] >= I[0]; }

// Moments that rounding has taken out of what bodies can have: the least becomes as large as the others ask for. Others that no
// body has no file can say: they are evened out, as balanceinertia does it, and whoever compares sees it.
static void mend_inertia(double I[3]) {
  int least = I[0] < I[1] ? 0 : 1;
  least = I[2] < I[least] ? 2 : least;

  double a = I[(least + 1) % 3], b = I[(least + 2) % 3], off = fabs(a - b) - I[least];
  if (off > 1e-9 * fmax(a, b)) {
    I[0] = I[1] = I[2] = (I[0] + I[1] + I[2]) / 3;
    return;
  }

  I[least] = fabs(a - b);
  while (fmin(a, b) + I[least] < fmax(a, b)) I[least] = nextafter(I[least], INFINITY);
}

static void put_body(pbDecompiler *d, int i) {
  pbBodyDef *def = &d->spec->bodies[i];
  const double *rest = free_pose(d, i);
  PB_ASSERT(i < d->m->nbody);
  if (!i) return;

  set_pose(&def->pose, rest ? rest : OF(body_pos, 3, i), rest ? rest + 3 : OF(body_quat, 4, i));
  set_pose(&def->inertial, OF(body_ipos, 3, i), OF(body_iquat, 4, i));
  PUT_ONE(def->gravcomp, body_gravcomp, i);

  // Its mass is its own, whatever it was found by.
  def->has_inertial = true;
  PUT_ONE(def->mass, body_mass, i);
  PUT(def->diaginertia, body_inertia, 3, i);
  def->fullinertia[0] = NAN;
  if (!is_triangle(def->diaginertia)) mend_inertia(def->diaginertia);
  def->inertia_kept = false;
}

static void put_joint(pbDecompiler *d, int i) {
  const pbModel *m = d->m;
  pbJointDef *def = &d->spec->joints[i];
  int dof = m->jnt_dofadr[i], qpos = m->jnt_qposadr[i];
  PB_ASSERT(def->type == m->jnt_type[i]);

  // A free joint has neither axis nor reference of its own: its body's pose is that.
  PUT(def->pos, jnt_pos, 3, i);
  if (pbJoint_IsScalar(m->jnt_type[i])) {
    PUT(def->axis, jnt_axis, 3, i);
    PUT_ONE(def->ref, qpos0, qpos);
    PUT_ONE(def->springref, qpos_spring, qpos);
  }
  def->align = pb_auto;

  // Springs and dampers by their coefficients.
  def->springdamper[0] = def->springdamper[1] = 0;
  PUT_ONE(def->stiffness[0], jnt_stiffness, i);
  PUT(def->stiffness + 1, jnt_stiffnesspoly, 2, i);
  PUT_ONE(def->damping[0], dof_damping, dof);
  PUT(def->damping + 1, dof_dampingpoly, 2, dof);
  PUT_ONE(def->armature, dof_armature, dof);
  PUT_ONE(def->frictionloss, dof_frictionloss, dof);
  PUT(def->solref_friction, dof_solref, 2, dof);
  PUT(def->solimp_friction, dof_solimp, 5, dof);

  // Limits.
  PUT(def->range, jnt_range, 2, i);
  PUT(def->actfrcrange, jnt_actfrcrange, 2, i);
  PUT(def->solref_limit, jnt_solref, 2, i);
  PUT(def->solimp_limit, jnt_solimp, 5, i);
  PUT_ONE(def->margin, jnt_margin, i);
  def->limited = limit(m->jnt_limited[i], def->range);
  def->actfrclimited = limit(m->jnt_actfrclimited[i], def->actfrcrange);
}

static void put_geom(pbDecompiler *d, int i) {
  const pbModel *m = d->m;
  pbGeomDef *def = &d->spec->geoms[i], none = pbGeomDef_Default();
  bool has_size = def->type != pb_geomMesh && def->type != pb_geomHfield;
  PB_ASSERT(def->body == m->geom_bodyid[i]);

  // Size and place as compiled, whatever they were found by; inertias stand in the bodies.
  def->fromto[0] = NAN;
  def->mass = NAN;
  def->density = none.density;
  def->shell = none.shell;

  if (has_size) PUT(def->size, geom_size, 3, i);
  if (has_size) def->mesh = "";
  if (pbDecompile_IsShaped(m, i)) pbDecompile_PlaceShape(d, i, &def->pose);
  else set_pose(&def->pose, OF(geom_pos, 3, i), OF(geom_quat, 4, i));

  // Contact.
  PUT(def->friction, geom_friction, 3, i);
  PUT(def->solref, geom_solref, 2, i);
  PUT(def->solimp, geom_solimp, 5, i);
  PUT_ONE(def->solmix, geom_solmix, i);
  PUT_ONE(def->margin, geom_margin, i);
  PUT_ONE(def->gap, geom_gap, i);

  // Switch and coefficients of the fluid's force; the rest of its numbers follows from the size.
  def->fluid_ellipsoid = *OF(geom_fluid, 12, i) != 0;
  if (def->fluid_ellipsoid) memcpy(def->fluid_coef, OF(geom_fluid, 12, i) + 1, sizeof def->fluid_coef);
}

static void put_site(pbDecompiler *d, int i) {
  pbSiteDef *def = &d->spec->sites[i];

  // Whatever its ends were.
  def->fromto[0] = NAN;
  set_pose(&def->pose, OF(site_pos, 3, i), OF(site_quat, 4, i));
  PUT(def->size, site_size, 3, i);
}

static void put_tree(pbDecompiler *d) {
  const pbModel *m = d->m;

  for (int i = 0; i < m->nbody; i++) put_body(d, i);
  for (int i = 0; i < m->njnt; i++) put_joint(d, i);
  for (int i = 0; i < m->ngeom; i++) put_geom(d, i);
  for (int i = 0; i < m->nsite; i++) put_site(d, i);
  for (int i = 0; i < m->ncam; i++) set_pose(&d->spec->cameras[i].pose, OF(cam_pos, 3, i), OF(cam_quat, 4, i));

  // Lights are no parameters.
  for (int i = 0; i < m->nlight; i++) {
    memcpy(d->spec->lights[i].pos, m->light_pos + 3 * i, 3 * sizeof(double));
    memcpy(d->spec->lights[i].dir, m->light_dir + 3 * i, 3 * sizeof(double));
  }
}

// ---- beside the tree --------------------------------------------------------------------------------------------------
static void put_pair(pbDecompiler *d, int i) {
  pbPairDef *def = &d->spec->pairs[i];

  // All of them are parameters.
  PUT(def->friction, pair_friction, 5, i);
  PUT(def->solref, pair_solref, 2, i);
  PUT(def->solreffriction, pair_solreffriction, 2, i);
  PUT(def->solimp, pair_solimp, 5, i);
  PUT_ONE(def->margin, pair_margin, i);
  PUT_ONE(def->gap, pair_gap, i);
}

// A relative pose that follows from the reference goes on doing so, unless it was changed.
static void put_weld(const pbDecompiler *d, int i, pbEqualityDef *def) {
  const double *data = OF(eq_data, pb_eqDataSize, i), *derived = data - d->theta + d->derived;
  bool changed = !same_bits(data + 3, derived + 3, 7 * sizeof *data) &&
                 !same_bits(data + 3, d->m->eq_data + pbEquality_Data(i) + 3, 7 * sizeof *data);
  def->torquescale = data[pb_weldTorquescale];
  if (def->sites) return;

  // A quaternion of zeros: it follows.
  memcpy(def->anchor, data + pb_weldAnchor, sizeof def->anchor);
  if (data[pb_weldFollows] != 0 && !changed) memcpy(def->relpose, (double[7]){0, 1}, sizeof def->relpose);
  else memcpy(def->relpose, data + pb_weldAnchor + 3, sizeof def->relpose);
}

static void put_equality(pbDecompiler *d, int i) {
  pbEqualityDef *def = &d->spec->equalities[i];
  const double *data = OF(eq_data, pb_eqDataSize, i);

  // How hard it is, whatever it holds.
  PUT(def->solref, eq_solref, 2, i);
  PUT(def->solimp, eq_solimp, 5, i);

  // What its numbers are goes by its type.
  switch (pbEquality_Of(def->type)) {
    case pb_ofPoses: put_weld(d, i, def); break;
    case pb_ofPoints:
      if (!def->sites) memcpy(def->anchor, data + pb_connectAnchor, sizeof def->anchor);
      break;
    default: memcpy(def->polycoef, data + pb_couplingPolycoef, sizeof def->polycoef); break;
  }
}

// Coefficients of joints and divisors of pulleys; of geoms the number of a site, which has a name.
static pbStatus put_path(pbDecompiler *d, int t, pbTendonDef *def) {
  pbWrap *path = pbSpecPool_Take(d->spec->pool, (size_t)def->path_count, sizeof *path);
  if (!path) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a spec");
  PB_ASSERT(def->path_count == d->m->tendon_num[t]);
  memcpy(path, def->path, (size_t)def->path_count * sizeof *path);

  for (int i = 0; i < def->path_count; i++) {
    if (path[i].type == pb_wrapJoint || path[i].type == pb_wrapPulley) PUT_ONE(path[i].value, wrap_prm, d->m->tendon_adr[t] + i);
  }
  def->path = path;
  return pb_ok;
}

static pbStatus put_tendon(pbDecompiler *d, int i) {
  pbTendonDef *def = &d->spec->tendons[i];
  PUT(def->solref_limit, tendon_solref_lim, 2, i);
  PUT(def->solimp_limit, tendon_solimp_lim, 5, i);
  PUT(def->solref_friction, tendon_solref_fri, 2, i);
  PUT(def->solimp_friction, tendon_solimp_fri, 5, i);
  PUT(def->range, tendon_range, 2, i);
  PUT(def->actfrcrange, tendon_actfrcrange, 2, i);
  PUT(def->springlength, tendon_lengthspring, 2, i);

  // Limits as its ranges say them.
  PUT_ONE(def->margin, tendon_margin, i);
  PUT_ONE(def->stiffness[0], tendon_stiffness, i);
  PUT(def->stiffness + 1, tendon_stiffnesspoly, 2, i);
  PUT_ONE(def->damping[0], tendon_damping, i);
  PUT(def->damping + 1, tendon_dampingpoly, 2, i);
  PUT_ONE(def->armature, tendon_armature, i);
  PUT_ONE(def->frictionloss, tendon_frictionloss, i);
  def->limited = limit(d->m->tendon_limited[i], def->range);
  def->actfrclimited = limit(d->m->tendon_actfrclimited[i], def->actfrcrange);
  return put_path(d, i, def);
}

static void put_actuator(pbDecompiler *d, int i) {
  const pbModel *m = d->m;
  pbActuatorDef *def = &d->spec->actuators[i];
  PUT(def->gear, actuator_gear, 6, i);
  PUT(def->dynprm, actuator_dynprm, 10, i);
  PUT(def->gainprm, actuator_gainprm, 10, i);
  PUT(def->biasprm, actuator_biasprm, 10, i);
  PUT_ONE(def->damping[0], actuator_damping, i);
  PUT(def->damping + 1, actuator_dampingpoly, 2, i);
  PUT_ONE(def->armature, actuator_armature, i);
  memcpy(def->lengthrange, OF_TERM(actuator_lengthrange, 2, i), sizeof def->lengthrange);
  if (m->nudelay) def->delay = *OF_TERM(actuator_delay, 1, i);

  // Ranges are those that it has, inherited or not.
  PUT(def->ctrlrange, actuator_ctrlrange, 2, i);
  PUT(def->forcerange, actuator_forcerange, 2, i);
  PUT(def->actrange, actuator_actrange, 2, i);
  def->inheritrange = 0;
  def->ctrllimited = limit(m->actuator_ctrllimited[i], def->ctrlrange);
  def->forcelimited = limit(m->actuator_forcelimited[i], def->forcerange);
  def->actlimited = limit(m->actuator_actlimited[i], def->actrange);

  // What keeps no samples acts at once.
  if (def->nsample > 0) def->delay = *OF_TERM(actuator_delay, 1, i);
}

static void put_sensor(pbDecompiler *d, int i) {
  pbSensorDef *def = &d->spec->sensors[i];
  PB_ASSERT(i < d->m->nsensor);
  PUT_ONE(def->cutoff, sensor_cutoff, i);
  if (def->nsample > 0) def->delay = *OF_TERM(sensor_delay, 1, i);
}

// Zeros need not be said.
static bool keep_row(pbSpec *spec, const double *row, int count, pbReals *to) {
  bool any = false;

  for (int i = 0; i < count; i++) any |= row[i] != 0;
  // An empty list is none.
  *to = (pbReals){0};
  if (any) *to = pbSpec_Reals(spec, row, count);
  return !any || to->data;
}

static pbStatus put_key(pbDecompiler *d, int i) {
  const pbModel *m = d->m;
  pbKeyDef *def = &d->spec->keys[i];
  size_t row = (size_t)i;
  PB_ASSERT(i < m->nkey);
  def->time = m->key_time[i];
  def->qpos = m->nq ? pbSpec_Reals(d->spec, m->key_qpos + row * (size_t)m->nq, m->nq) : (pbReals){0};

  bool kept = !m->nq || def->qpos.data;
  kept = kept && keep_row(d->spec, m->key_qvel + row * (size_t)m->nv, m->nv, &def->qvel);
  kept = kept && keep_row(d->spec, m->key_act + row * (size_t)m->na, m->na, &def->act);
  kept = kept && keep_row(d->spec, m->key_ctrl + row * (size_t)m->nu, m->nu, &def->ctrl);

  // Poses of mocap bodies are all but zeros.
  def->mpos = def->mquat = (pbReals){0};
  if (kept && m->nmocap) {
    def->mpos = pbSpec_Reals(d->spec, m->key_mpos + 3 * row * (size_t)m->nmocap, 3 * m->nmocap);
    def->mquat = pbSpec_Reals(d->spec, m->key_mquat + 4 * row * (size_t)m->nmocap, 4 * m->nmocap);
    kept = def->mpos.data && def->mquat.data;
  }
  return kept ? pb_ok : pbContext_Fail(d->ctx, pb_no_memory, "no memory for a spec");
}

static pbStatus put_all(pbDecompiler *d) {
  const pbModel *m = d->m;
  PB_TRY(put_settings(d));

  // Shapes before the geoms that have them.
  PB_TRY(pbDecompile_Shapes(d));
  put_tree(d);

  // Beside the tree, in the order of the lists.
  for (int i = 0; i < m->npair; i++) put_pair(d, i);
  for (int i = 0; i < m->neq; i++) put_equality(d, i);
  for (int i = 0; i < m->ntendon; i++) PB_TRY(put_tendon(d, i));
  for (int i = 0; i < m->nu; i++) put_actuator(d, i);
  for (int i = 0; i < m->nsensor; i++) put_sensor(d, i);
  for (int i = 0; i < d->spec->nkey; i++) PB_TRY(put_key(d, i));
  return pb_ok;
}

// ---- the whole --------------------------------------------------------------------------------------------------------
void pbDecompile_Normalize(const pbModel *m, double *theta) {
  const pbTopology *t = m->topology;
  for (const pbSphereRow *r = t->sphere; r < t->sphere + t->nsphere; r++) pbPose_Normalize(theta + r->at, r->size);
}

static pbStatus decompile(pbDecompiler *d) {
  // The source stays as it is, for the next time.
  PB_TRY(pbSpec_Copy(d->ctx, d->m->source, &d->spec));
  pbStatus status = put_all(d);
  if (status == pb_ok) return pb_ok;

  pbSpec_Destroy(d->spec);
  return status;
}

pbStatus pbModel_Spec(pbContext *ctx, const pbModel *model, const double *theta, pbSpec **spec) {
  *spec = NULL;
  if (!model->source)
    return pbContext_Fail(ctx, pb_bad_argument, "the model does not know any more what it was made from: load it from its file");

  size_t count = model->ntheta;
  double *unit = pbContext_AllocArray(ctx, 2 * count + 1, sizeof *unit), *derived = unit + count;
  if (!unit) return pbContext_Fail(ctx, pb_no_memory, "no memory for a spec");

  // Directions of length one, as a file's are when it is read.
  memcpy(unit, theta ? theta : model->theta0, count * sizeof *unit);
  pbDecompile_Normalize(model, unit);

  // What follows from the others; where nothing does, they are as they are.
  memcpy(derived, unit, count * sizeof *unit);
  pbStatus status = pbModel_SetConstants(ctx, model, derived);
  if (status != pb_ok && status != pb_no_memory) memcpy(derived, unit, count * sizeof *unit);

  pbDecompiler d = {.ctx = ctx, .m = model, .theta = unit, .derived = derived};
  if (status != pb_no_memory) status = decompile(&d);
  if (status == pb_ok) *spec = d.spec;
  pbContext_Free(ctx, unit);
  return status;
}
