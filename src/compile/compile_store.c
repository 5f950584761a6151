// Ids, counts, and the fields of the model that describe the tree. By then bodies are fused, and visual-only geoms are known.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "elementary/elementary.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/term_fields.h"

// ---- ids ----------------------------------------------------------------------------------------------------------
// Ids follow the bodies in depth-first order; what stands in a body, in the order of the spec.
static pbStatus number_items(pbCompiler *c, const pbBodyWork *b) {
  pbModel *m = c->m;
  bool discard = c->spec->compiler.discardvisual, from_geoms = SETTINGS(b->def)->inertiafromgeom == pb_true;

  // Joints come with their dofs and coordinates.
  for (int i = b->joints.head; i >= 0; i = c->joints[i].next) {
    c->joints[i].id = m->njnt++;
    m->nv += pbJoint_DofCount(c->joints[i].def->type);
    m->nq += pbJoint_PositionCount(c->joints[i].def->type);
  }

  // discardvisual must not change what moves.
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    bool drop = discard && !c->geoms[i].needed;
    if (drop && from_geoms && pbCompile_GivesMass(c, &c->geoms[i]))
      return PB_AT(c, c->geoms[i].def, "geom", "discardvisual would drop it, but inertiafromgeom=\"true\" takes mass from it");
    c->geoms[i].id = drop ? -1 : m->ngeom++;
  }

  for (int i = b->sites.head; i >= 0; i = c->sites[i].next) c->sites[i].id = m->nsite++;
  for (int i = b->cameras.head; i >= 0; i = c->cameras[i].next) c->cameras[i].id = m->ncam++;
  for (int i = b->lights.head; i >= 0; i = c->lights[i].next) c->lights[i].id = m->nlight++;
  return pb_ok;
}

void pbCompile_NumberBodies(pbCompiler *c) {
  for (int k = 0; k < c->norder; k++) {
    pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id < 0) continue;
    b->id = c->m->nbody++;
    if (b->def->mocap) c->m->nmocap++;
  }
  PB_ASSERT(c->m->nbody >= 1 && c->bodies[0].id == 0);  // the world
}

pbStatus pbCompile_Number(pbCompiler *c) {
  for (int k = 0; k < c->norder; k++) {
    const pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id >= 0) PB_TRY(number_items(c, b));
  }
  return pb_ok;
}

// ---- user numbers -------------------------------------------------------------------------------------------------
void pbCompile_User(double *row, int columns, pbReals user) {
  int n = user.count < columns ? user.count : columns;
  if (n > 0) memcpy(row, user.data, (size_t)n * sizeof *row);
}

// ---- fields -------------------------------------------------------------------------------------------------------
#define COPY(field, id, n, values) memcpy(m->field + (size_t)(n) * (size_t)(id), values, (size_t)(n) * sizeof(double))

static void store_joint(pbCompiler *c, const pbJointWork *j, int body, int qpos, int dof) {
  pbModel *m = c->m;
  const pbJointDef *d = j->def;
  int id = j->id;

  // Type, addresses, which limits hold.
  m->jnt_type[id] = d->type;
  m->jnt_group[id] = d->group;
  m->jnt_limited[id] = j->limited;
  m->jnt_actfrclimited[id] = j->actfrclimited;
  m->jnt_actgravcomp[id] = d->actgravcomp;
  m->jnt_qposadr[id] = qpos;
  m->jnt_dofadr[id] = dof;
  m->jnt_bodyid[id] = body;

  // Geometry and springs.
  COPY(jnt_pos, id, 3, j->pos);
  COPY(jnt_axis, id, 3, j->axis);
  m->jnt_stiffness[id] = d->stiffness[0];
  COPY(jnt_stiffnesspoly, id, 2, d->stiffness + 1);

  // Limits.
  COPY(jnt_range, id, 2, j->range);
  COPY(jnt_actfrcrange, id, 2, d->actfrcrange);
  COPY(jnt_solref, id, 2, d->solref_limit);
  COPY(jnt_solimp, id, 5, d->solimp_limit);
  m->jnt_margin[id] = d->margin;

  pbCompile_User(m->jnt_user + (size_t)m->nuser_jnt * (size_t)id, m->nuser_jnt, d->user);
}

// qpos0 and qpos_spring: the pose of the body, no rotation, or the stated reference of a hinge or slide joint.
static void store_reference(pbCompiler *c, const pbBodyWork *b, const pbJointWork *j, int qpos) {
  double *q = c->m->qpos0 + qpos;
  double *spring = c->m->qpos_spring + qpos;
  switch (j->def->type) {
    case pb_jntFree:
      memcpy(q, b->pos, sizeof b->pos);
      memcpy(q + 3, b->quat, sizeof b->quat);
      memcpy(spring, q, 7 * sizeof *q);
      break;
    case pb_jntBall: q[0] = spring[0] = 1; break;
    default: q[0] = j->ref; spring[0] = j->springref;
  }
}

static void store_dof(pbCompiler *c, pbBodyWork *b, const pbJointWork *j, int dof) {
  pbModel *m = c->m;
  const pbJointDef *d = j->def;

  // A dof's parent is the one before it, of the same body or of the nearest ancestor with one.
  m->dof_bodyid[dof] = b->id;
  m->dof_jntid[dof] = j->id;
  PB_ASSERT(b->last_dof < dof);
  m->dof_parentid[dof] = b->last_dof;
  b->last_dof = dof;

  // Friction, armature and damping.
  COPY(dof_solref, dof, 2, d->solref_friction);
  COPY(dof_solimp, dof, 5, d->solimp_friction);
  COPY(dof_dampingpoly, dof, 2, d->damping + 1);
  m->dof_frictionloss[dof] = d->frictionloss;
  m->dof_armature[dof] = d->armature;
  m->dof_damping[dof] = d->damping[0];

  // Nothing is there at rest that velocity could take away, until it is set (multibody/friction_law.h).
  PB_TERM_DEFAULT(m, dof_stribeck)[dof] = 0.1;
  PB_TERM_DEFAULT(m, dof_stribeckpower)[dof] = 2;
}

static double bounding_radius(const pbGeomWork *g) {
  if (g->mesh) return v3_norm(g->size);
  return g->hfield ? pbCompile_HfieldRadius(g->hfield->def) : pbPrimitive_Radius(g->def->type, g->size);
}

static void store_geom(pbCompiler *c, const pbGeomWork *g, int body) {
  pbModel *m = c->m;
  const pbGeomDef *d = g->def;
  int id = g->id;

  // Type and filters.
  m->geom_type[id] = d->type;
  m->geom_contype[id] = d->contype;
  m->geom_conaffinity[id] = d->conaffinity;
  m->geom_condim[id] = d->condim;
  m->geom_bodyid[id] = body;
  m->geom_group[id] = d->group;
  m->geom_priority[id] = d->priority;

  // Shape, pose, contact parameters.
  PB_VALIDATE(pb_isUnit(g->quat, 4));
  COPY(geom_size, id, 3, g->size);
  COPY(geom_aabb, id, 6, g->aabb);
  COPY(geom_pos, id, 3, g->pos);
  COPY(geom_quat, id, 4, g->quat);
  COPY(geom_friction, id, 3, d->friction);
  COPY(geom_solref, id, 2, d->solref);
  COPY(geom_solimp, id, 5, d->solimp);

  // Virtual mass and inertia follow from the size (setconst.c).
  if (d->fluid_ellipsoid) {
    m->geom_fluid[12 * id] = 1;
    memcpy(m->geom_fluid + 12 * id + 1, d->fluid_coef, sizeof d->fluid_coef);
  }

  // Looks, and what pairs combine.
  COPY(geom_rgba, id, 4, d->rgba);
  m->geom_solmix[id] = d->solmix;
  m->geom_margin[id] = d->margin;
  m->geom_gap[id] = d->gap;
  m->geom_rbound[id] = bounding_radius(g);
  m->geom_dataid[id] = -1;
  if (g->mesh) m->geom_dataid[id] = g->mesh->id;
  if (g->hfield) m->geom_dataid[id] = g->hfield->id;

  pbCompile_User(m->geom_user + (size_t)m->nuser_geom * (size_t)id, m->nuser_geom, d->user);
}

static void store_sites(pbCompiler *c, const pbBodyWork *b) {
  pbModel *m = c->m;
  for (int i = b->sites.head; i >= 0; i = c->sites[i].next) {
    const pbSiteWork *s = &c->sites[i];
    m->site_type[s->id] = s->def->type;
    m->site_bodyid[s->id] = b->id;
    m->site_group[s->id] = s->def->group;

    // Pose and looks.
    COPY(site_size, s->id, 3, s->size);
    COPY(site_pos, s->id, 3, s->pos);
    COPY(site_quat, s->id, 4, s->quat);
    COPY(site_rgba, s->id, 4, s->def->rgba);
    pbCompile_User(m->site_user + (size_t)m->nuser_site * (size_t)s->id, m->nuser_site, s->def->user);
  }
}

// Focal lengths in pixels, then the pixel on the axis; lengths in single precision, as in MuJoCo.
static void store_lens(pbModel *m, const pbCameraWork *k) {
  const pbCameraDef *d = k->def;
  bool has_sensor = d->sensorsize[0] > 0 && d->sensorsize[1] > 0;
  double *lens = m->cam_lens + 4 * k->id, half = d->fovy * 3.14159265358979323846 / 360;
  for (int i = 0; i < 2; i++) {
    int pixels = d->resolution[i];
    lens[i] = d->orthographic ? pixels / 2. : 0.5 * pbCos(half) / pbSin(half) * d->resolution[1];
    lens[2 + i] = pixels / 2.;
    if (!has_sensor || d->orthographic) continue;

    // In pixels where both are given.
    float size = (float)d->sensorsize[i], density = (float)pixels / size;
    float focal = d->focalpixel[i] != 0 ? (float)d->focalpixel[i] / density : (float)d->focal[i];
    float principal = d->principalpixel[i] != 0 ? (float)d->principalpixel[i] / density : (float)d->principal[i];
    lens[i] = (double)(focal / size * (float)pixels);
    lens[2 + i] = (double)(principal / size * (float)pixels);
  }
}

static void store_cameras(pbCompiler *c, const pbBodyWork *b) {
  pbModel *m = c->m;
  for (int i = b->cameras.head; i >= 0; i = c->cameras[i].next) {
    const pbCameraWork *k = &c->cameras[i];
    int target = *k->def->target ? pbCompile_Find(c, pb_refBody, k->def->target) : -1;
    m->cam_bodyid[k->id] = b->id;
    m->cam_mode[k->id] = k->def->mode;
    m->cam_targetbodyid[k->id] = target < 0 ? -1 : c->bodies[target].id;
    COPY(cam_pos, k->id, 3, k->pos);
    COPY(cam_quat, k->id, 4, k->quat);

    // A sensor's size takes precedence over fovy.
    bool has_sensor = k->def->sensorsize[1] > 0 && k->def->sensorsize[0] > 0;
    m->cam_fovy[k->id] = has_sensor ? pbCompile_FieldOfView(k->def) : k->def->fovy;
    m->cam_projection[k->id] = k->def->orthographic;
    for (int e = 0; e < 2; e++) m->cam_resolution[2 * k->id + e] = k->def->resolution[e];
    store_lens(m, k);
    pbCompile_User(m->cam_user + (size_t)m->nuser_cam * (size_t)k->id, m->nuser_cam, k->def->user);
  }
}

static void store_lights(pbCompiler *c, const pbBodyWork *b) {
  pbModel *m = c->m;
  for (int i = b->lights.head; i >= 0; i = c->lights[i].next) {
    COPY(light_pos, c->lights[i].id, 3, c->lights[i].pos);
    COPY(light_dir, c->lights[i].id, 3, c->lights[i].dir);
  }
}

// Vertical field of view in degrees of a camera given by its sensor, 2 atan(size / 2 / focal); lengths in single precision, as in
// MuJoCo.
double pbCompile_FieldOfView(const pbCameraDef *d) {
  float size = (float)d->sensorsize[1];
  float density = (float)d->resolution[1] / size;
  float focal = d->focalpixel[1] != 0 ? (float)d->focalpixel[1] / density : (float)d->focal[1];
  return (double)atan2f(size / 2, focal) * 360.0 / 3.14159265358979323846;
}

// ---- simple bodies ------------------------------------------------------------------------------------------------
// MuJoCo has a faster path for bodies whose inertia is diagonal in their joints, and body_invweight0 of those that only slide
// comes from another formula. Frames closer than this count as equal.
#define SAME_FRAME 1e-6

static bool near_zero(const double *v, int n) {
  for (int i = 0; i < n; i++) {
    if (!(fabs(v[i]) < SAME_FRAME)) return false;
  }
  return true;
}

static bool is_null_pose(const double pos[3], const double quat[4]) {
  double off = fmin(fabs(quat[0] - 1), fabs(quat[0] + 1));
  return near_zero(pos, 3) && near_zero(quat + 1, 3) && off < SAME_FRAME;
}

// At the body's origin, and, where it has an axis, along a coordinate axis.
static bool joint_is_simple(const pbJointWork *j) {
  int along = (fabs(j->axis[0]) > PB_TINY) + (fabs(j->axis[1]) > PB_TINY) + (fabs(j->axis[2]) > PB_TINY);
  return near_zero(j->pos, 3) && (pbJoint_HasRotation(j->def->type) || along == 1);
}

// body_simple: 0 not simple, 1 simple, 2 simple and only slides.
static int rate_simplicity(const pbCompiler *c, const pbBodyWork *b) {
  const pbModel *m = c->m;
  int parent = m->body_parentid[b->id];

  // Its parent must be the world, or stand still in it.
  bool near_root = m->body_rootid[b->id] == b->id || (m->body_parentid[parent] == 0 && m->body_dofnum[parent] == 0);
  if (!near_root || !b->def->simple || !is_null_pose(b->ipos, b->iquat)) return 0;

  // A joint after a rotation moves along axes that depend on that rotation.
  bool rotates = false;
  bool slides = b->ndof > 0;
  for (int i = b->joints.head; i >= 0; i = c->joints[i].next) {
    int type = c->joints[i].def->type;
    if (rotates || !joint_is_simple(&c->joints[i])) return 0;
    rotates = rotates || pbJoint_HasRotation(type) || pbJoint_IsAngle(type);
    slides = slides && pbJoint_IsScalar(type) && !pbJoint_IsAngle(type);
  }
  return slides ? 2 : 1;
}

static bool has_armature(const pbModel *m, int t) {
  for (int a = 0; a < m->nu; a++) {
    bool on_tendon = m->actuator_trntype[a] == pb_trnTendon && m->actuator_trnid[2 * a] == t;
    if (on_tendon && m->actuator_armature[a] != 0) return true;
  }
  return m->tendon_armature[t] != 0;
}

// A tendon with armature, its own or reflected by an actuator, couples what it passes through: none of that is simple.
void pbCompile_FinishSimple(pbCompiler *c) {
  pbModel *m = c->m;
  for (int t = 0; t < m->ntendon; t++) {
    if (!has_armature(m, t)) continue;
    for (int w = m->tendon_adr[t]; w < m->tendon_adr[t] + m->tendon_num[t]; w++) {
      if (m->wrap_type[w] == pb_wrapSite) m->body_simple[m->site_bodyid[m->wrap_objid[w]]] = 0;
      if (m->wrap_type[w] == pb_wrapJoint) m->body_simple[m->jnt_bodyid[m->wrap_objid[w]]] = 0;
    }
  }
}

// ---- bodies -------------------------------------------------------------------------------------------------------
// Addresses of the next joint, dof, coordinate and mocap body.
typedef struct pbCursor {
  int joint, dof, qpos, mocap;
} pbCursor;

static void store_joints(pbCompiler *c, pbBodyWork *b, pbCursor *at) {
  for (int i = b->joints.head; i >= 0; i = c->joints[i].next) {
    const pbJointWork *j = &c->joints[i];
    int type = j->def->type;
    store_joint(c, j, b->id, at->qpos, at->dof);
    store_reference(c, b, j, at->qpos);

    for (int k = 0; k < pbJoint_DofCount(type); k++) store_dof(c, b, j, at->dof + k);
    at->joint++;
    at->dof += pbJoint_DofCount(type);
    at->qpos += pbJoint_PositionCount(type);
    c->m->body_jntnum[b->id]++;
  }
}

static void store_geoms(pbCompiler *c, pbBodyWork *b) {
  pbModel *m = c->m;
  m->body_geomadr[b->id] = -1;
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    const pbGeomWork *g = &c->geoms[i];
    if (g->id < 0) continue;

    // body_margin is the largest margin of its geoms.
    b->margin = fmax(b->margin, g->def->margin + g->def->gap);
    if (!m->body_geomnum[b->id]++) m->body_geomadr[b->id] = g->id;
    store_geom(c, g, b->id);
  }
}

static void store_body(pbCompiler *c, pbBodyWork *b, pbCursor *at) {
  pbModel *m = c->m;
  int id = b->id;
  int parent = b->parent < 0 ? 0 : c->bodies[b->parent].id;

  // Where it stands in the tree.
  PB_ASSERT(parent < id || id == 0);
  m->body_parentid[id] = parent;
  m->body_rootid[id] = id == 0 || parent == 0 ? id : m->body_rootid[parent];
  m->body_weldid[id] = c->bodies[b->weld].id;
  m->body_jntadr[id] = b->joints.head >= 0 ? at->joint : -1;
  m->body_mocapid[id] = b->def->mocap ? at->mocap++ : -1;
  m->body_dofnum[id] = b->ndof;
  m->body_dofadr[id] = b->ndof ? at->dof : -1;

  // Pose and inertia.
  COPY(body_pos, id, 3, b->pos);
  COPY(body_quat, id, 4, b->quat);
  COPY(body_ipos, id, 3, b->ipos);
  COPY(body_iquat, id, 4, b->iquat);
  COPY(body_inertia, id, 3, b->inertia);
  PB_VALIDATE(pb_isUnit(b->quat, 4) && pb_isUnit(b->iquat, 4));

  m->body_mass[id] = b->mass;
  m->body_gravcomp[id] = b->def->gravcomp;
  pbCompile_User(m->body_user + (size_t)m->nuser_body * (size_t)id, m->nuser_body, b->def->user);

  // What stands in it.
  store_geoms(c, b);
  m->body_margin[id] = b->margin;
  store_sites(c, b);
  store_cameras(c, b);
  store_lights(c, b);

  // A body with a child is not simple; ids of children are larger, so this corrects what the parent was given.
  if (parent > 0) m->body_simple[parent] = 0;
  m->body_simple[id] = rate_simplicity(c, b);

  // Dofs continue the chain of the nearest ancestor with one.
  b->last_dof = b->parent < 0 ? -1 : c->bodies[b->parent].last_dof;
  store_joints(c, b, at);
}

// A dof without a parent begins a kinematic tree.
static void number_trees(pbModel *m) {
  int tree = -1;
  for (int i = 0; i < m->nv; i++) {
    if (m->dof_parentid[i] < 0) tree++;
    m->dof_treeid[i] = tree;
  }
}

// compiler settotalmass: masses and inertias in proportion.
static void scale_mass(pbModel *m, double target) {
  double total = 0;
  for (int i = 1; i < m->nbody; i++) total += m->body_mass[i];

  // At least mjMINVAL, so that nothing vanishes.
  double scale = fmax(1e-15, target / fmax(1e-15, total));

  PB_ASSERT(scale > 0);
  for (int i = 1; i < m->nbody; i++) {
    m->body_mass[i] *= scale;
    for (int k = 0; k < 3; k++) m->body_inertia[3 * i + k] *= scale;
  }
}

pbStatus pbCompile_StoreTree(pbCompiler *c) {
  pbCursor at = {0};
  for (int k = 0; k < c->norder; k++) {
    pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id >= 0) store_body(c, b, &at);
  }

  PB_ASSERT(at.joint == c->m->njnt && at.dof == c->m->nv && at.qpos == c->m->nq && at.mocap == c->m->nmocap);

  // Trees of dofs, and settotalmass, need all bodies.
  number_trees(c->m);
  if (c->spec->compiler.settotalmass > 0) scale_mass(c->m, c->spec->compiler.settotalmass);
  return pb_ok;
}
