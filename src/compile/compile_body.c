// The tree: frames, bodies, joints, geoms, sites; poses composed, inertias computed, in the order and by the rules of MuJoCo 4.0.
// Fusing: compile_fuse.c; storing: compile_store.c. Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "model/joint.h"

#define MIN_VALUE 1e-15  // MuJoCo's mjMINVAL: least mass and inertia of what moves

// ---- structure ----------------------------------------------------------------------------------------------------
// Lists of children, in the order of the spec.
static pbStatus link_bodies(pbCompiler *c) {
  // Lists begin empty; the world has no parent.
  const pbSpec *s = c->spec;
  for (int i = 0; i < s->nbody; i++) {
    pbBodyWork *b = &c->bodies[i];
    const pbChain none = {-1, -1};
    b->def = &s->bodies[i];
    b->parent = i ? s->bodies[i].parent : -1;
    b->child = b->sibling = b->last_child = -1;
    b->joints = b->geoms = b->sites = b->cameras = b->lights = none;
  }

  // Each body is appended to the list of its parent.
  for (int i = 1; i < s->nbody; i++) {
    pbBodyWork *b = &c->bodies[i];
    if (b->parent < 0 || b->parent >= s->nbody) return PB_AT(c, b->def, "body", "its parent %d does not exist", b->parent);

    pbBodyWork *p = &c->bodies[b->parent];
    if (p->child < 0) {
      p->child = i;
    } else {
      c->bodies[p->last_child].sibling = i;
    }
    p->last_child = i;
  }
  return pb_ok;
}

// Bodies in depth-first order, the order of ids in the model. A body that is not reached is in a loop of parents.
static pbStatus order_bodies(pbCompiler *c) {
  int b = 0;
  c->norder = 0;
  while (b >= 0) {
    c->order[c->norder++] = b;
    int next = c->bodies[b].child;

    // Up until a body has a next sibling; back at the world, the walk has ended.
    while (next < 0 && b >= 0) {
      next = c->bodies[b].sibling;
      if (b == 0)
        return c->norder == c->spec->nbody ? pb_ok : PB_AT(c, &c->spec->bodies[1], "body", "bodies are their own ancestors");
      if (next < 0) b = c->bodies[b].parent;
    }
    b = next;
  }
  return pb_ok;
}

// Adds an item to a chain; tail_next is the `next` of its last item so far, NULL where it is empty.
static void append_item(pbChain *chain, int index, int *tail_next) {
  if (chain->head < 0) {
    chain->head = index;
  } else {
    *tail_next = index;
  }
  chain->tail = index;
}

#define LINK(kind, works, chain, count)                                                               \
  for (int i = 0; i < s->count; i++) {                                                                \
    int b = s->kind[i].body;                                                                          \
    if (b < 0 || b >= s->nbody) return PB_AT(c, &s->kind[i], #kind, "its body %d does not exist", b); \
    if (s->kind[i].frame < -1 || s->kind[i].frame >= s->nframe)                                       \
      return PB_AT(c, &s->kind[i], #kind, "its frame %d does not exist", s->kind[i].frame);           \
    c->works[i].def = &s->kind[i];                                                                    \
    c->works[i].body = b;                                                                             \
    c->works[i].next = -1;                                                                            \
    int tail = c->bodies[b].chain.tail;                                                               \
    append_item(&c->bodies[b].chain, i, tail < 0 ? NULL : &c->works[tail].next);                      \
  }

static pbStatus link_items(pbCompiler *c) {
  const pbSpec *s = c->spec;
  LINK(joints, joints, joints, njoint)
  LINK(geoms, geoms, geoms, ngeom)
  LINK(sites, sites, sites, nsite)
  LINK(cameras, cameras, cameras, ncamera)
  LINK(lights, lights, lights, nlight)

  int joint = c->bodies[0].joints.head;
  return joint < 0 ? pb_ok : PB_AT(c, &s->joints[joint], "joint", "the world cannot have joints");
}

// ---- frames -------------------------------------------------------------------------------------------------------
// Pose of a frame in its body: its own in its parent's, which is resolved before it. Parents may stand behind their children, and
// a spec that no file made may hold loops.
static pbStatus resolve_frame(pbCompiler *c, int index) {
  const pbSpec *s = c->spec;

  // How many frames from this one outwards are not resolved yet?
  int chain_length = 0;
  int top = index;
  while (top >= 0 && !c->frames[top].done) {
    if (chain_length++ > s->nframe) return PB_AT(c, &s->frames[index], "frame", "frames are their own ancestors");
    top = s->frames[top].parent;
    if (top >= s->nframe) return PB_AT(c, &s->frames[index], "frame", "a parent frame does not exist");
  }

  // The outermost of them first.
  for (; chain_length > 0; chain_length--) {
    int i = index;
    for (int k = 1; k < chain_length; k++) i = s->frames[i].parent;

    pbFrameWork *f = &c->frames[i];
    memcpy(f->pos, s->frames[i].pose.pos, sizeof f->pos);
    const char *wrong = pbPose_Orientation(SETTINGS(&s->frames[i]), &s->frames[i].pose, f->quat);
    if (wrong) return PB_AT(c, &s->frames[i], "frame", "%s", wrong);

    int parent = s->frames[i].parent;
    if (parent >= 0) pbPose_Compose(c->frames[parent].pos, c->frames[parent].quat, f->pos, f->quat);
    f->done = true;
  }
  return pb_ok;
}

static void compose_with_frame(const pbCompiler *c, int frame, double pos[3], double quat[4]) {
  if (frame >= 0) pbPose_Compose(c->frames[frame].pos, c->frames[frame].quat, pos, quat);
}

static void move_point_by_frame(const pbCompiler *c, int frame, double pos[3]) {
  double unused[4] = {1, 0, 0, 0};
  compose_with_frame(c, frame, pos, unused);
}

// ---- geoms --------------------------------------------------------------------------------------------------------
// Pose and size as stated, or by two end points (fromto).
static pbStatus geom_pose(pbCompiler *c, pbGeomWork *g) {
  const pbGeomDef *d = g->def;
  memcpy(g->pos, d->pose.pos, sizeof g->pos);
  memcpy(g->size, d->size, sizeof g->size);

  // A fromto replaces pose and length.
  if (!pb_allFinite(g->pos, 3)) return PB_AT(c, d, "geom", "pos is not finite");

  const char *wrong = isnan(d->fromto[0]) ? pbPose_Orientation(SETTINGS(d), &d->pose, g->quat)
                                          : pbPose_FromTo(d->type, d->fromto, g->pos, g->quat, g->size);
  // Sizes of primitives, which may come from a mesh; a mesh has its own.
  if (!wrong) PB_TRY(pbCompile_Fit(c, d, g->pos, g->quat, g->size));
  if (!wrong) wrong = pbPrimitive_CheckSize(d->type, g->size);
  if (wrong) return PB_AT(c, d, "geom", "%s", wrong);

  // What is stated is the pose of the mesh's file; the geom's frame has the principal axes.
  if (g->mesh) {
    double center[3], axes[4];
    memcpy(center, g->mesh->properties.center, sizeof center);
    memcpy(axes, g->mesh->properties.quat, sizeof axes);
    pbPose_Compose(g->pos, g->quat, center, axes);
    memcpy(g->pos, center, sizeof center);
    memcpy(g->quat, axes, sizeof axes);
    memcpy(g->size, g->mesh->size, sizeof g->size);
  }
  if (g->hfield) pbCompile_HfieldSize(g->hfield->def, g->size);
  return pb_ok;
}

// By density, or as stated: then a geom without volume has no mass all the same.
static pbStatus geom_mass(pbCompiler *c, pbGeomWork *g) {
  const pbGeomDef *d = g->def;
  double volume = g->mesh ? g->mesh->properties.volume : pbPrimitive_Volume(d->type, g->size, d->shell);
  if (g->mesh && d->shell) return PB_AT(c, d, "geom", "a mesh states itself what it weighs: its inertia=\"shell\"");

  if (isnan(d->mass)) {
    if (!(d->density >= 0) || isinf(d->density)) return PB_AT(c, d, "geom", "the density must be zero or positive");
    g->mass = d->density * volume;
  } else {
    if (!(d->mass >= 0) || isinf(d->mass)) return PB_AT(c, d, "geom", "the mass must be zero or positive");
    g->mass = volume > PB_TINY ? d->mass : 0;
  }

  if (g->mass > 0 && g->mesh) v3_scale(g->inertia, g->mesh->properties.moments, g->mass / volume);
  else if (g->mass > 0) pbPrimitive_Inertia(d->type, g->size, d->shell, g->mass, g->inertia);
  return pb_allFinite(&g->mass, 1) && pb_allFinite(g->inertia, 3) ? pb_ok : PB_AT(c, d, "geom", "mass or inertia is not finite");
}

static pbStatus compile_geom(pbCompiler *c, pbGeomWork *g) {
  const pbGeomDef *d = g->def;
  const pbBodyWork *b = &c->bodies[g->body];
  const pbCompilerSettings *set = SETTINGS(b->def);

  // Dimensions of the contact: normal; and tangential; and torsional; and rolling.
  if (d->condim != 1 && d->condim != 3 && d->condim != 4 && d->condim != 6)
    return PB_AT(c, d, "geom", "expected condim 1, 3, 4 or 6, found %d", d->condim);
  if (d->type == pb_geomPlane && b->weld != 0 && !c->bodies[b->weld].def->mocap)
    return PB_AT(c, d, "geom", "a plane must stand still, but its body moves");

  bool acts = pbSpec_GeomActs(c->spec, (int)(d - c->spec->geoms));
  if (d->type == pb_geomMesh && acts) PB_TRY(pbCompile_Mesh(c, d, &g->mesh));
  if (d->type == pb_geomHfield && acts) PB_TRY(pbCompile_Hfield(c, d, &g->hfield));
  PB_TRY(geom_pose(c, g));

  // MuJoCo leaves the mass of other geoms zero: the body's stated inertia counts.
  bool gives = g->body > 0 && (!b->def->has_inertial || set->inertiafromgeom == pb_true) &&
               d->group >= set->inertiagrouprange[0] && d->group <= set->inertiagrouprange[1];
  if (gives) PB_TRY(geom_mass(c, g));

  // The box is in the geom's own frame; the pose is from now on that in the body.
  if (g->mesh) memcpy(g->aabb, g->mesh->aabb, sizeof g->aabb);
  else if (g->hfield) pbCompile_HfieldBox(g->hfield->def, g->aabb);
  else pbPrimitive_Box(d->type, g->size, g->aabb);
  compose_with_frame(c, d->frame, g->pos, g->quat);
  g->needed = g->needed || d->contype || d->conaffinity || d->fluid_ellipsoid;
  return pb_ok;
}

// ---- inertia of a body --------------------------------------------------------------------------------------------
// <inertial>: either full, and made diagonal here, or diagonal with an orientation.
static pbStatus stated_inertia(pbCompiler *c, pbBodyWork *b) {
  const pbBodyDef *d = b->def;
  bool full = !isnan(d->fullinertia[0]);
  b->stated = d->has_inertial;
  b->mass = d->mass;
  b->has_ipos = !isnan(d->inertial.pos[0]);
  memcpy(b->ipos, d->inertial.pos, sizeof b->ipos);
  memcpy(b->inertia, d->diaginertia, sizeof b->inertia);

  // Either form excludes the other, as in MuJoCo.
  const char *wrong = NULL;
  if (full && d->inertial.alt != pb_altNone) wrong = "fullinertia and an orientation cannot both be given";
  if (full && (d->diaginertia[0] || d->diaginertia[1] || d->diaginertia[2]))
    wrong = "fullinertia and diaginertia cannot both be given";
  if (wrong) return PB_AT(c, d, "inertial", "%s", wrong);

  if (full) {
    wrong = pbPose_Principal(d->fullinertia, b->iquat, b->inertia);
    bool mended = SETTINGS(d)->boundinertia > 0 || c->spec->compiler.inertiarule != pb_inertiaRefuse;
    if (mended && isfinite(b->inertia[2])) wrong = NULL;
  } else {
    wrong = pbPose_Orientation(SETTINGS(d), &d->inertial, b->iquat);
  }
  if (wrong) return PB_AT(c, d, "inertial", "%s", wrong);

  // The inertial frame may stand in frames of its own.
  if (d->inertial_frame < -1 || d->inertial_frame >= c->spec->nframe)
    return PB_AT(c, d, "inertial", "its frame %d does not exist", d->inertial_frame);

  if (b->has_ipos) compose_with_frame(c, d->inertial_frame, b->ipos, b->iquat);
  return pb_ok;
}

// ---- joints -------------------------------------------------------------------------------------------------------
pbStatus pbCompile_Limited(const pbCompiler *c, const pbPlace *place, const char *element, const char *name,
                           const char *attribute, int limited, const double range[2], bool *result) {
  if (isnan(range[0]) || isnan(range[1]))
    return pbSpec_Fail(c->spec, pb_bad_input, place, element, name, "%srange is not a number", attribute);

  // Without autolimits, a range alone does not say whether it holds.
  if (!pbSpec_Settings(c->spec, place)->autolimits && limited == pb_auto && (range[0] || range[1]))
    return pbSpec_Fail(c->spec, pb_bad_input, place, element, name,
                       "%srange is given without %slimited, and compiler autolimits is off", attribute, attribute);

  *result = limited == pb_true || (limited == pb_auto && range[0] < range[1]);
  return pb_ok;
}

static pbStatus joint_limits(pbCompiler *c, pbJointWork *j) {
  const pbJointDef *d = j->def;

  // Free joints have no limits.
  bool ball = d->type == pb_jntBall;
  memcpy(j->range, d->range, sizeof j->range);
  j->limited = j->actfrclimited = false;
  if (d->type != pb_jntFree) PB_TRY(pbCompile_Limited(c, &d->place, "joint", d->name, "", d->limited, d->range, &j->limited));

  // Angles are stated in degrees unless compiler angle says otherwise; balls have one limit, on the rotation angle.
  if (j->limited) {
    if (!ball && d->range[0] >= d->range[1]) return PB_AT(c, d, "joint", "range[0] must be smaller than range[1]");
    if (ball && d->range[0] != 0) return PB_AT(c, d, "joint", "range[0] of a ball joint must be 0");
    bool angle = ball || pbJoint_IsAngle(d->type);
    for (int k = 0; k < 2; k++) j->range[k] *= angle && SETTINGS(d)->degree ? PB_DEGREE : 1;
  }

  if (!pbJoint_IsScalar(d->type)) return pb_ok;

  // Limits on the force of actuators, of scalar joints alone.
  PB_TRY(pbCompile_Limited(c, &d->place, "joint", d->name, "actuatorfrc", d->actfrclimited, d->actfrcrange, &j->actfrclimited));
  if (j->actfrclimited && d->actfrcrange[0] >= d->actfrcrange[1])
    return PB_AT(c, d, "joint", "actuatorfrcrange[0] must be smaller than actuatorfrcrange[1]");
  return pb_ok;
}

static pbStatus compile_joint(pbCompiler *c, pbJointWork *j) {
  const pbJointDef *d = j->def;
  bool free = d->type == pb_jntFree;
  bool has_axis = !pbJoint_HasRotation(d->type);
  double angle = pbJoint_IsAngle(d->type) && SETTINGS(d)->degree ? PB_DEGREE : 1;

  if ((d->springdamper[0] || d->springdamper[1]) && !(d->springdamper[0] > 0 && d->springdamper[1] > 0))
    return PB_AT(c, d, "joint", "both numbers of springdamper must be positive");
  PB_TRY(joint_limits(c, j));

  // Checked as stated, before they are composed with frames.
  memcpy(j->axis, d->axis, sizeof j->axis);
  memcpy(j->pos, d->pos, sizeof j->pos);
  if (!pb_allFinite(j->axis, 3) || !pb_allFinite(j->pos, 3)) return PB_AT(c, d, "joint", "axis or pos is not finite");

  // Axis and anchor are given in the joint's frame; MuJoCo gives ball and free joints the z axis, and free ones no anchor.
  if (!has_axis) {
    v3_set(j->axis, 0, 0, 1);
  } else if (d->frame >= 0) {
    pbPose_Rotate(j->axis, j->axis, c->frames[d->frame].quat);
  }
  if (pbPose_Normalize(j->axis, 3) < PB_TINY) return PB_AT(c, d, "joint", "the axis is too short");

  if (free) {
    v3_zero(j->pos);
  } else {
    move_point_by_frame(c, d->frame, j->pos);
  }

  // Reference and spring reference of a hinge are angles too.
  j->ref = d->ref * angle;
  j->springref = d->springref * angle;
  return pb_ok;
}

// The joints of a body in order, and which combinations MuJoCo allows.
static pbStatus compile_joints(pbCompiler *c, pbBodyWork *b) {
  bool ball = false;
  int n = 0;

  for (int i = b->joints.head; i >= 0; i = c->joints[i].next) {
    pbJointWork *j = &c->joints[i];
    int type = j->def->type;
    PB_TRY(compile_joint(c, j));
    b->ndof += pbJoint_DofCount(type);
    n++;

    // A ball's velocities are in the frame of its body, which a rotation after it would rotate.
    if (ball && (type == pb_jntBall || pbJoint_IsAngle(type)))
      return PB_AT(c, j->def, "joint", "no rotation can follow a ball joint");
    ball = ball || type == pb_jntBall;

    // The coordinates of a free joint are the body's pose in the world.
    if (type == pb_jntFree && b->parent != 0)
      return PB_AT(c, j->def, "joint", "only children of the world can have a free joint");
    if ((type == pb_jntFree && i != b->joints.head) || (n > 1 && c->joints[b->joints.head].def->type == pb_jntFree))
      return PB_AT(c, j->def, "joint", "a free joint must be the only one of its body");

    if (b->ndof > 6) return PB_AT(c, j->def, "joint", "a body can have at most 6 degrees of freedom");
  }
  return pb_ok;
}

// ---- sites, cameras, lights ---------------------------------------------------------------------------------------
static pbStatus compile_site(pbCompiler *c, pbSiteWork *s) {
  const pbSiteDef *d = s->def;
  memcpy(s->pos, d->pose.pos, sizeof s->pos);
  memcpy(s->size, d->size, sizeof s->size);
  if (!pb_allFinite(s->pos, 3)) return PB_AT(c, d, "site", "pos is not finite");

  if (d->type < pb_geomSphere || d->type > pb_geomBox)
    return PB_AT(c, d, "site", "a site must be a sphere, capsule, ellipsoid, cylinder or box");

  // As stated, or by two end points.
  const char *wrong = isnan(d->fromto[0]) ? pbPose_Orientation(SETTINGS(d), &d->pose, s->quat)
                                          : pbPose_FromTo(d->type, d->fromto, s->pos, s->quat, s->size);
  if (!wrong) wrong = pbPrimitive_CheckSize(d->type, s->size);
  if (wrong) return PB_AT(c, d, "site", "%s", wrong);

  compose_with_frame(c, d->frame, s->pos, s->quat);
  pbPose_Normalize(s->quat, 4);
  return pb_ok;
}

static pbStatus compile_camera(pbCompiler *c, pbCameraWork *k) {
  const pbCameraDef *d = k->def;
  memcpy(k->pos, d->pose.pos, sizeof k->pos);
  const char *wrong = pbPose_Orientation(SETTINGS(d), &d->pose, k->quat);
  if (!wrong && !pb_allFinite(k->pos, 3)) wrong = "pos is not finite";

  // A field of view given by the sensor's size is computed when it is stored.
  if (!wrong && d->fovy >= 180) wrong = "fovy must be below 180";
  bool sensor = d->sensorsize[0] > 0 && d->sensorsize[1] > 0, lens = false;
  for (int i = 0; i < 2; i++) lens = lens || d->focal[i] || d->focalpixel[i] || d->principal[i] || d->principalpixel[i];
  if (!wrong && lens && !sensor) wrong = "focal and principal lengths need a sensorsize";
  if (!wrong && (sensor || d->resolution[0] < 0 || d->resolution[1] < 0) && (d->resolution[0] <= 0 || d->resolution[1] <= 0))
    wrong = "resolution must be positive";

  if (wrong) return PB_AT(c, d, "camera", "%s", wrong);
  compose_with_frame(c, d->frame, k->pos, k->quat);
  return pb_ok;
}

static pbStatus compile_light(pbCompiler *c, pbLightWork *l) {
  const pbLightDef *d = l->def;
  memcpy(l->pos, d->pos, sizeof l->pos);
  memcpy(l->dir, d->dir, sizeof l->dir);
  if (!pb_allFinite(l->pos, 3) || !pb_allFinite(l->dir, 3)) return PB_AT(c, d, "light", "pos or dir is not finite");

  if (d->frame >= 0) pbPose_Rotate(l->dir, l->dir, c->frames[d->frame].quat);
  move_point_by_frame(c, d->frame, l->pos);
  return pbPose_Normalize(l->dir, 3) < PB_TINY ? PB_AT(c, d, "light", "dir is zero") : pb_ok;
}

// ---- bodies -------------------------------------------------------------------------------------------------------
// A lone free body may have its frame moved to its center of mass and principal axes (joint align, compiler alignfree).
static bool is_aligned(const pbCompiler *c, const pbBodyWork *b) {
  if (b->joints.head < 0 || b->joints.head != b->joints.tail || b->nchild) return false;

  const pbJointDef *d = c->joints[b->joints.head].def;
  return d->type == pb_jntFree && (d->align == pb_true || (d->align == pb_auto && SETTINGS(d)->alignfree));
}

// The body's pose takes up the inertial frame, and everything in the body its inverse.
static void align_body(pbCompiler *c, pbBodyWork *b) {
  double back[3], inverse[4];

  // The inverse pose: -R' p, and R'.
  quat_conj(inverse, b->iquat);
  pbPose_Rotate(back, b->ipos, inverse);
  v3_neg(back, back);

  // New pose = body's pose * inertial pose.
  pbPose_Compose(b->pos, b->quat, b->ipos, b->iquat);
  memcpy(b->pos, b->ipos, sizeof b->pos);
  memcpy(b->quat, b->iquat, sizeof b->quat);
  PB_VALIDATE(pb_isUnit(b->quat, 4));
  v3_zero(b->ipos);
  quat_identity(b->iquat);

  b->aligned = true;
  pbCompile_ComposeItems(c, b, back, inverse);  // what stands in it keeps its place in the world
}

static pbStatus body_inertia(pbCompiler *c, pbBodyWork *b, bool world) {
  const pbCompilerSettings *set = SETTINGS(b->def);

  // Geoms first: they may be all that is known of the inertia.
  PB_TRY(stated_inertia(c, b));
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) PB_TRY(compile_geom(c, &c->geoms[i]));

  // As stated, unless inertiafromgeom says otherwise.
  bool infer = set->inertiafromgeom == pb_true || (!b->has_ipos && set->inertiafromgeom == pb_auto);
  if (!world && infer) PB_TRY(pbCompile_InertiaOfGeoms(c, b));

  // Neither stated nor from geoms: MuJoCo puts the pose of the body itself here.
  if (!b->has_ipos) {
    memcpy(b->ipos, b->pos, sizeof b->ipos);
    memcpy(b->iquat, b->quat, sizeof b->iquat);
  }

  return world ? pb_ok : pbCompile_CheckInertia(c, b);
}

// A mocap body goes where an input says, whatever is around it: nothing may carry it.
static pbStatus check_mocap(pbCompiler *c, const pbBodyWork *b) {
  const pbBodyDef *d = b->def;
  if (!d->mocap) return pb_ok;
  if (b->parent != 0) return PB_AT(c, d, "body", "a mocap body must be a child of the world, found it in a body");
  if (b->joints.head >= 0) return PB_AT(c, d, "body", "a mocap body cannot have joints: its pose is an input");
  return pb_ok;
}

static pbStatus compile_body(pbCompiler *c, int index) {
  pbBodyWork *b = &c->bodies[index];
  const pbBodyDef *d = b->def;
  PB_TRY(check_mocap(c, b));
  memcpy(b->pos, d->pose.pos, sizeof b->pos);
  if (!pb_allFinite(b->pos, 3)) return PB_AT(c, d, "body", "pos is not finite");

  const char *wrong = pbPose_Orientation(SETTINGS(d), &d->pose, b->quat);
  if (wrong) return PB_AT(c, d, "body", "%s", wrong);

  // A child without joints is welded to this body, or to what this body is welded to; not so a mocap body. Geoms ask (planes).
  for (int i = b->child; i >= 0; i = c->bodies[i].sibling) {
    const pbBodyWork *child = &c->bodies[i];
    c->bodies[i].weld = child->joints.head >= 0 || child->def->mocap ? i : b->weld;
  }

  // After the inertia, whose fallback is the pose without frames.
  PB_TRY(body_inertia(c, b, index == 0));
  compose_with_frame(c, d->frame, b->pos, b->quat);
  PB_TRY(compile_joints(c, b));

  for (int i = b->sites.head; i >= 0; i = c->sites[i].next) PB_TRY(compile_site(c, &c->sites[i]));
  for (int i = b->cameras.head; i >= 0; i = c->cameras[i].next) PB_TRY(compile_camera(c, &c->cameras[i]));
  for (int i = b->lights.head; i >= 0; i = c->lights[i].next) PB_TRY(compile_light(c, &c->lights[i]));
  return pb_ok;
}

static void align_bodies(pbCompiler *c) {
  // Children that are left after fusing.
  for (int k = 1; k < c->norder; k++) {
    const pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id >= 0) c->bodies[b->parent].nchild++;
  }

  for (int k = 1; k < c->norder; k++) {
    pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id >= 0 && is_aligned(c, b)) align_body(c, b);
  }
}

static bool has_mass_and_inertia(const pbBodyWork *b) {
  return b->mass >= MIN_VALUE && b->inertia[0] >= MIN_VALUE && b->inertia[1] >= MIN_VALUE && b->inertia[2] >= MIN_VALUE;
}

// What moves must have mass, itself or in what is welded to it. One pass: each body with mass marks the root of its weld.
static pbStatus check_moving(pbCompiler *c) {
  if (c->spec->compiler.inertiarule == pb_inertiaKeep) return pb_ok;  // the mass matrix tells
  bool *has_mass = pbCompile_Take(c, (size_t)c->spec->nbody, sizeof *has_mass);
  if (!has_mass) return pb_no_memory;

  // What is welded together shares the root of its weld.
  for (int k = 0; k < c->norder; k++) {
    const pbBodyWork *b = &c->bodies[c->order[k]];
    if (has_mass_and_inertia(b)) has_mass[b->weld] = true;
  }

  // Only bodies with joints are roots that move.
  for (int k = 1; k < c->norder; k++) {
    int i = c->order[k];
    if (c->bodies[i].joints.head < 0 || has_mass[i]) continue;
    if (c->spec->compiler.inertiarule == pb_inertiaRepair) pbCompile_RepairInertia(c, &c->bodies[i]);
    else return PB_AT(c, c->bodies[i].def, "body", "it moves, so its mass and inertia must be positive (larger than 1e-15)");
  }
  return pb_ok;
}

pbStatus pbCompile_Tree(pbCompiler *c) {
  // Frames do not depend on bodies.
  for (int i = 0; i < c->spec->nframe; i++) {
    if (!pb_allFinite(c->spec->frames[i].pose.pos, 3)) return PB_AT(c, &c->spec->frames[i], "frame", "pos is not finite");
    PB_TRY(resolve_frame(c, i));
  }

  PB_TRY(link_bodies(c));
  PB_TRY(order_bodies(c));
  PB_TRY(link_items(c));

  // Poses are composed with frames, so those must exist.
  for (int i = 1; i < c->spec->nbody; i++) {
    int frame = c->spec->bodies[i].frame;
    if (frame < -1 || frame >= c->spec->nframe)
      return PB_AT(c, &c->spec->bodies[i], "body", "its frame %d does not exist", frame);
  }

  // Parents before children; fusing needs all inertias, and aligning what is left after it.
  for (int k = 0; k < c->norder; k++) PB_TRY(compile_body(c, c->order[k]));
  if (c->spec->compiler.fusestatic) PB_TRY(pbCompile_Fuse(c));
  align_bodies(c);
  return check_moving(c);
}
