// Spec to model: the order of the work, sizes, options, keyframes and custom data. Ids, rules and numbers are MuJoCo 4.0's.
// Tests: tests/unit/test_compile.c.
#include "compile/compile.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/setconst.h"
#include "model/joint.h"
#include "model/motor.h"

// ---- sizes --------------------------------------------------------------------------------------------------------
enum { BODIES_LIMIT = 65534 };  // two ids share one integer in the signature of a pair

// Working copies of the elements, parallel to the arrays of the spec.
static pbStatus take_work(pbCompiler *c) {
  const pbSpec *s = c->spec;
#define TAKE(member, count) \
  if (!(c->member = pbCompile_Take(c, (size_t)(count), sizeof *c->member))) return pb_no_memory
  TAKE(order, s->nbody);
  TAKE(frames, s->nframe);
  TAKE(bodies, s->nbody);
  TAKE(joints, s->njoint);
  TAKE(geoms, s->ngeom);
  TAKE(meshes, s->nmesh);
  TAKE(hfields, s->nhfield);
  TAKE(sites, s->nsite);
  TAKE(cameras, s->ncamera);
  TAKE(lights, s->nlight);
  TAKE(pairs, s->npair);
  TAKE(excludes, s->nexclude);
#undef TAKE
  return pb_ok;
}

// Columns of user numbers: as stated, or as many as the longest list of an element that is stored.
#define USER_SIZE(array, length, field, word, stored)                                                                    \
  do {                                                                                                                   \
    int longest = 0;                                                                                                     \
    int longest_at = 0;                                                                                                  \
    for (int i = 0; i < s->length; i++) {                                                                                \
      if (s->array[i].user.count <= longest || !(stored)) continue;                                                      \
      longest = s->array[i].user.count;                                                                                  \
      longest_at = i;                                                                                                    \
    }                                                                                                                    \
    m->field = s->size.field < 0 ? longest : s->size.field;                                                              \
    if (longest > m->field)                                                                                              \
      return PB_AT(c, &s->array[longest_at], word, "user has %d numbers, more than " #field " (%d)", longest, m->field); \
  } while (0)

static pbStatus count_user(pbCompiler *c) {
  const pbSpec *s = c->spec;
  pbModel *m = c->m;

  // What is not stored needs no room: fused bodies, discarded geoms.
  USER_SIZE(bodies, nbody, nuser_body, "body", c->bodies[i].id >= 0);
  USER_SIZE(joints, njoint, nuser_jnt, "joint", true);
  USER_SIZE(geoms, ngeom, nuser_geom, "geom", c->geoms[i].needed || !s->compiler.discardvisual);
  USER_SIZE(sites, nsite, nuser_site, "site", true);
  USER_SIZE(cameras, ncamera, nuser_cam, "camera", true);
  USER_SIZE(tendons, ntendon, nuser_tendon, "tendon", true);
  USER_SIZE(actuators, nactuator, nuser_actuator, "actuator", true);
  USER_SIZE(sensors, nsensor, nuser_sensor, "sensor", true);
  return pb_ok;
}

static pbStatus count_numerics(pbCompiler *c) {
  const pbSpec *s = c->spec;
  double total = 0;
  for (int i = 0; i < s->nnumeric; i++) {
    const pbNumericDef *d = &s->numerics[i];

    // The size as stated, or as many as are given; at least one.
    if (d->size < 0) return PB_AT(c, d, "numeric", "size cannot be negative");
    if (d->size && d->data.count > d->size) return PB_AT(c, d, "numeric", "size is smaller than the number of data");
    if (!d->size && !d->data.count) return PB_AT(c, d, "numeric", "it is empty");

    total += d->size ? d->size : d->data.count;
  }

  if (total > 1e8) return pbContext_Fail(c->ctx, pb_no_memory, "custom numbers take too much memory");
  c->m->nnumericdata = (int)total;
  return pb_ok;
}

// Sizes of the model that do not follow from the tree. Sums in floating point, since counts of a file may overflow an int.
static pbStatus count_elements(pbCompiler *c) {
  const pbSpec *s = c->spec;
  pbModel *m = c->m;

  // Kinds whose ids are the indices of the spec.
  m->npair = s->npair;
  m->nexclude = s->nexclude;
  m->neq = s->nequality;
  m->ntendon = s->ntendon;
  m->nu = s->nactuator;
  m->nsensor = s->nsensor;
  m->nnumeric = s->nnumeric;
  m->ntext = s->ntext;
  m->ntuple = s->ntuple;
  m->nkey = s->nkey > s->size.nkey ? s->nkey : s->size.nkey;

  // Stations of all tendons in one list.
  double stations = 0;
  for (int i = 0; i < s->ntendon; i++) stations += s->tendons[i].path_count;
  if (stations > 1e8) return pbContext_Fail(c->ctx, pb_no_memory, "the paths of the tendons take too much memory");
  m->nwrap = (int)stations;

  for (int i = 0; i < s->nactuator; i++) m->na += pbActuatorDef_Activations(&s->actuators[i]);

  // Sensors mark geoms that stay, whose user numbers count then.
  PB_TRY(pbCompile_CountMaterials(c));
  PB_TRY(pbCompile_CountSensors(c));
  PB_TRY(count_user(c));
  PB_TRY(pbCompile_CountHistory(c));
  return count_numerics(c);
}

// ---- settings -----------------------------------------------------------------------------------------------------
static void store_options(pbCompiler *c) {
  const pbOptionSettings *o = &c->spec->option;
  pbModel *m = c->m;

  // Parameters: entries of theta.
  m->timestep[0] = o->timestep;
  m->density[0] = o->density;
  m->viscosity[0] = o->viscosity;
  m->impratio[0] = o->impratio;
  m->o_margin[0] = o->o_margin;

#define COPY(field) memcpy(m->field, o->field, sizeof o->field)
  COPY(gravity);
  COPY(wind);
  COPY(magnetic);
  COPY(o_solref);
  COPY(o_solimp);
  COPY(o_friction);
#undef COPY

  // Structure: what a step branches on.
  m->integrator = o->integrator;
  m->cone = o->cone;
  m->solver = o->solver;
  m->disableflags = o->disableflags;
  m->enableflags = o->enableflags;
  m->disableactuator = o->disableactuator;

  // Settings beyond MJCF begin with their defaults (pullback/contact.h).
  m->contact = (pbContactSettings){
      .erp = -1, .cfm = -1, .sweeps = 50, .smooth_kappa = 1, .smooth_onset = 0.01, .width = 1e-4, .slip = 0.1};
  m->contact_stiffness[0] = 1e4;
  m->contact_damping[0] = 50;

  // Newton runs to full accuracy, whatever the file says; see pbModel_SetOption.
  m->tolerance = 0;
  m->iterations = PB_NEWTON_ITERATIONS;
  m->ls_iterations = PB_LINE_ITERATIONS;
  m->file_tolerance[0] = o->tolerance;
  m->file_iterations = o->iterations;
  m->file_ls_iterations = o->ls_iterations;

  // Its sweeps against slip are part of the motion: they end where the file says.
  m->noslip_iterations = o->noslip_iterations;
  m->noslip_tolerance[0] = o->noslip_tolerance;
  m->inertia_kept = c->spec->compiler.inertiarule == pb_inertiaKeep;
  for (int i = 1; i < c->spec->nbody; i++) m->inertia_kept = m->inertia_kept || c->spec->bodies[i].inertia_kept;
}

// ---- keyframes and custom numbers ---------------------------------------------------------------------------------
// One list of a keyframe; where it is shorter than the row or NAN, the rest keeps the reference configuration or zero.
static pbStatus store_key_part(pbCompiler *c, const pbKeyDef *d, const char *what, pbReals given, double *row, int size) {
  if (!given.count) return pb_ok;
  if (given.count > size) return PB_AT(c, d, "key", "%s has %d numbers, the model only %d", what, given.count, size);
  for (int i = 0; i < given.count; i++) {
    if (isinf(given.data[i])) return PB_AT(c, d, "key", "%s is not finite", what);
    if (!isnan(given.data[i])) row[i] = given.data[i];
  }
  return pb_ok;
}

static void normalize_quaternions(const pbModel *m, double *qpos) {
  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j];
    if (pbJoint_HasRotation(type)) pbPose_Normalize(qpos + m->jnt_qposadr[j] + pbJoint_PlainCount(type), 4);
  }
}

// Poses of mocap bodies: whole rows of them; the others are those of the model.
static pbStatus store_key_poses(pbCompiler *c, const pbKeyDef *d, int key) {
  pbModel *m = c->m;
  double *pos = m->key_mpos + (size_t)key * 3 * (size_t)m->nmocap;
  double *quat = m->key_mquat + (size_t)key * 4 * (size_t)m->nmocap;
  pbModel_MocapPose(m, m->theta0, -1, pos, quat);
  if (!d) return pb_ok;

  if (d->mpos.count % 3) return PB_AT(c, d, "key", "mpos has %d numbers, expected three for each mocap body", d->mpos.count);
  if (d->mquat.count % 4) return PB_AT(c, d, "key", "mquat has %d numbers, expected four for each mocap body", d->mquat.count);
  PB_TRY(store_key_part(c, d, "mpos", d->mpos, pos, 3 * m->nmocap));
  PB_TRY(store_key_part(c, d, "mquat", d->mquat, quat, 4 * m->nmocap));
  for (int k = 0; k < m->nmocap; k++) {
    if (pbPose_Normalize(quat + 4 * k, 4) == 0) return PB_AT(c, d, "key", "quaternion %d of mquat is zero", k);
  }
  return pb_ok;
}

static pbStatus store_keys(pbCompiler *c) {
  pbModel *m = c->m;
  for (int k = 0; k < m->nkey; k++) {
    // What a keyframe does not state is that of the reference configuration, or zero.
    size_t row = (size_t)k;
    double *qpos = m->key_qpos + row * (size_t)m->nq;
    if (m->nq) memcpy(qpos, m->qpos0, (size_t)m->nq * sizeof *qpos);
    PB_TRY(store_key_poses(c, k < c->spec->nkey ? &c->spec->keys[k] : NULL, k));
    if (k >= c->spec->nkey) continue;  // size nkey may ask for more than are given

    const pbKeyDef *d = &c->spec->keys[k];
    m->key_time[k] = d->time;

    PB_TRY(store_key_part(c, d, "qpos", d->qpos, qpos, m->nq));
    PB_TRY(store_key_part(c, d, "qvel", d->qvel, m->key_qvel + row * (size_t)m->nv, m->nv));
    PB_TRY(store_key_part(c, d, "act", d->act, m->key_act + row * (size_t)m->na, m->na));
    PB_TRY(store_key_part(c, d, "ctrl", d->ctrl, m->key_ctrl + row * (size_t)m->nu, m->nu));
    normalize_quaternions(m, qpos);
    PB_VALIDATE(pb_allFinite(qpos, (size_t)m->nq));
  }
  return pb_ok;
}

static void store_numerics(pbCompiler *c) {
  double *to = c->m->numeric_data;
  for (int i = 0; i < c->spec->nnumeric; i++) {
    const pbNumericDef *d = &c->spec->numerics[i];
    int size = d->size ? d->size : d->data.count;
    if (d->data.count) memcpy(to, d->data.data, (size_t)d->data.count * sizeof *to);  // the rest stays zero
    to += size;
  }
  PB_ASSERT(to == c->m->numeric_data + c->m->nnumericdata);
}

// ---- the order of the work ----------------------------------------------------------------------------------------
// Names, tree and counts: after these, memory of the model.
static pbStatus prepare_model(pbCompiler *c) {
  PB_TRY(pbSpec_Check(c->spec));
  if (c->spec->nbody >= BODIES_LIMIT)
    return pbContext_Fail(c->ctx, pb_bad_input, "there are %d bodies; at most %d are possible", c->spec->nbody, BODIES_LIMIT);

  // Poses and inertias in the spec's order; fused bodies get no id.
  PB_TRY(take_work(c));
  PB_TRY(pbCompile_Names(c));
  PB_TRY(pbCompile_Tree(c));

  // Ids of bodies first: the signature of a pair of geoms consists of them, and pairs mark the geoms that stay.
  pbCompile_NumberBodies(c);
  PB_TRY(pbCompile_Pairs(c));
  pbCompile_MarkObstacles(c);

  // Final counts, then ids of what stands in bodies.
  PB_TRY(count_elements(c));
  PB_TRY(pbCompile_Number(c));
  PB_TRY(pbCompile_CountMeshes(c));
  PB_TRY(pbCompile_CountHfields(c));
  if (c->spec->design) {
    c->m->ndesignbody = c->m->nbody;
    c->m->ndesigngeom = c->m->ngeom;
    c->m->ndesignmesh = c->m->nmesh;
  }
  return pbModel_Allocate(c->m);
}

// All fields, then what is derived from them.
static pbStatus fill_model(pbCompiler *c) {
  PB_TRY(pbCompile_StoreNames(c));
  store_options(c);

  pbCompile_StoreMeshes(c);
  pbCompile_StoreHfields(c);
  PB_TRY(pbCompile_StoreTree(c));
  PB_TRY(pbCompile_Design(c));
  PB_TRY(pbCompile_StorePairs(c));
  PB_TRY(pbCompile_Equalities(c));
  PB_TRY(pbCompile_Tendons(c));
  PB_TRY(pbCompile_Materials(c));
  PB_TRY(pbCompile_Actuators(c));
  PB_TRY(pbCompile_Sensors(c));
  PB_TRY(store_keys(c));
  store_numerics(c);
  PB_TRY(pbCompile_Surfaces(c));
  PB_TRY(pbCompile_Source(c));

  PB_VALIDATE(pb_allFinite(c->m->key_ctrl, (size_t)c->m->nkey * (size_t)c->m->nu));

  // FinishSimple asks for armature of actuators; Constants reads every field.
  pbCompile_FinishSimple(c);
  PB_TRY(pbModel_CheckParams(c->ctx, c->m, c->m->theta0));
  PB_TRY(pbCompile_Constants(c));
  PB_TRY(pbModel_Finish(c->m));
  PB_TRY(pbCompile_LengthRanges(c));

  // Some directions come with the constants (relative poses of welds).
  return pbModel_CheckDirections(c->ctx, c->m, c->m->theta0);
}

pbStatus pbSpec_Compile(const pbSpec *spec, pbModel **model) {
  *model = NULL;
  pbCompiler c = {.spec = spec, .ctx = spec->ctx};
  c.m = pbContext_Alloc(spec->ctx, sizeof *c.m);
  if (!c.m) return pbContext_Fail(spec->ctx, pb_no_memory, "out of memory for the model");
  c.m->ctx = spec->ctx;

  pbStatus status = prepare_model(&c);
  if (status == pb_ok) status = fill_model(&c);

  // Working copies go in either case; of a failed compile, the model too.
  pbCompile_DropMeshes(&c);
  for (int i = 0; i < c.nblocks; i++) pbContext_Free(spec->ctx, c.blocks[i]);

  if (status == pb_ok) {
    *model = c.m;
  } else {
    pbModel_Destroy(c.m);
  }
  return status;
}
