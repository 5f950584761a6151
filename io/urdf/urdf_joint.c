// Joints, what mimics what, motors.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/equalities.h>

#include "compile/compile.h"
#include "io/urdf/urdf_reader.h"
#include "math/vec.h"

// ---- joints -------------------------------------------------------------------------------------------------------------

static bool has_one_coordinate(const pbUrdfJoint *joint) {
  return joint->type == pb_urdfRevolute || joint->type == pb_urdfContinuous || joint->type == pb_urdfPrismatic;
}

static pbStatus read_dynamics(pbUrdfReader *reader, const pbXmlNode *node, pbJointDef *def) {
  const pbXmlNode *dynamics = pbUrdf_Child(node, "dynamics");
  if (!dynamics) return pb_ok;
  PB_TRY(pbUrdf_Reals(reader, dynamics, "damping", 1, &def->damping[0], NULL));
  PB_TRY(pbUrdf_Reals(reader, dynamics, "friction", 1, &def->frictionloss, NULL));

  if (def->damping[0] < 0) WARN(dynamics, "attribute 'damping' is negative (%g): the joint gains energy", def->damping[0]);
  if (def->frictionloss < 0)
    return FAIL(dynamics, "attribute 'friction' is %g, expected zero or a positive number", def->frictionloss);
  return pb_ok;
}

// Limits of a joint with one coordinate. As in MuJoCo, those that are incomplete or leave no room do not hold.
static pbStatus read_limit(pbUrdfReader *reader, const pbUrdfJoint *joint, pbJointDef *def) {
  const pbXmlNode *limit = pbUrdf_Child(joint->node, "limit");
  bool lower, upper;
  double effort = 0;
  if (!limit) {
    if (joint->type != pb_urdfContinuous) WARN(joint->node, "has no <limit>: it moves without bounds");
    return pb_ok;
  }

  // Forces of actuators, either way.
  PB_TRY(pbUrdf_Reals(reader, limit, "effort", 1, &effort, NULL));
  if (effort < 0) WARN(limit, "attribute 'effort' is negative (%g): its size counts, as in MuJoCo", effort);
  effort = fabs(effort);
  def->actfrcrange[0] = -effort;
  def->actfrcrange[1] = effort;

  PB_TRY(pbUrdf_Reals(reader, limit, "lower", 1, &def->range[0], &lower));
  PB_TRY(pbUrdf_Reals(reader, limit, "upper", 1, &def->range[1], &upper));
  if (!lower && !upper) return pb_ok;

  bool holds = lower && upper && def->range[0] < def->range[1];
  if (!holds) WARN(limit, "of joint '%.200s' does not hold: expected 'lower' and a greater 'upper'", joint->name);
  if (!holds) def->limited = pb_false;
  return pb_ok;
}

static pbStatus add_part(pbUrdfReader *reader, const pbUrdfJoint *joint, const pbJointDef *def, int type, const char *suffix,
                         const double axis[3]) {
  char name[1100];
  pbJointDef part = *def;

  part.type = type;
  memcpy(part.axis, axis, sizeof part.axis);
  // Names of links and joints have 1000 bytes at most.
  snprintf(name, sizeof name, "%.1000s%s", joint->name, suffix);
  part.name = pbSpec_Text(reader->spec, name);
  if (!part.name) return NO_MEMORY(joint->node);
  return pbSpec_AddJoint(reader->spec, &part) < 0 ? NO_MEMORY(joint->node) : pb_ok;
}

// Two slides in the plane across the axis and a hinge about it, as MuJoCo names them.
static pbStatus add_planar(pbUrdfReader *reader, const pbUrdfJoint *joint, const pbJointDef *def) {
  double quat[4], mat[9], axis[3];
  memcpy(axis, def->axis, sizeof axis);
  if (!(pbPose_Normalize(axis, 3) > 0)) return FAIL(joint->node, "its axis is zero");

  pbPose_FromZ(quat, axis);
  quat_to_mat(mat, quat);
  PB_TRY(add_part(reader, joint, def, pb_jntSlide, "_TX", (double[]){mat[0], mat[3], mat[6]}));
  PB_TRY(add_part(reader, joint, def, pb_jntSlide, "_TY", (double[]){mat[1], mat[4], mat[7]}));
  return add_part(reader, joint, def, pb_jntHinge, "_RZ", axis);
}

// A free joint where the parent stands still: then the world is the parent. Elsewhere three slides and a ball, in the frame of
// the joint.
static pbStatus add_floating(pbUrdfReader *reader, const pbUrdfJoint *joint, const pbJointDef *def) {
  static const double x[3] = {1, 0, 0}, y[3] = {0, 1, 0}, z[3] = {0, 0, 1};
  const pbUrdfLink *parent = &reader->links[joint->parent];

  if (parent->still) {
    pbBodyDef *body = &reader->spec->bodies[def->body];
    pbPose_Compose(parent->pos, parent->quat, body->pose.pos, body->pose.quat);
    body->parent = 0;
    return add_part(reader, joint, def, pb_jntFree, "", z);
  }

  PB_TRY(add_part(reader, joint, def, pb_jntSlide, "_TX", x));
  PB_TRY(add_part(reader, joint, def, pb_jntSlide, "_TY", y));
  PB_TRY(add_part(reader, joint, def, pb_jntSlide, "_TZ", z));
  return add_part(reader, joint, def, pb_jntBall, "_R", z);
}

pbStatus pbUrdf_Joint(pbUrdfReader *reader, const pbUrdfJoint *joint) {
  pbBodyDef *body = &reader->spec->bodies[reader->links[joint->child].body];
  const pbXmlNode *axis = pbUrdf_Child(joint->node, "axis");
  pbJointDef def = pbJointDef_Default();
  def.body = reader->links[joint->child].body;
  def.place = joint->node->place;
  v3_set(def.axis, 1, 0, 0);

  PB_TRY(pbUrdf_Origin(reader, joint->node, &body->pose));
  if (axis) PB_TRY(pbUrdf_NeedReals(reader, axis, "xyz", 3, def.axis));
  PB_TRY(read_dynamics(reader, joint->node, &def));

  // What has several coordinates has no limits.
  bool scalar = has_one_coordinate(joint);
  if (scalar) PB_TRY(read_limit(reader, joint, &def));

  bool ignored = !scalar && joint->type != pb_urdfFixed && pbUrdf_Child(joint->node, "limit");
  if (ignored) WARN(joint->node, "limits on such a joint are ignored");

  switch (joint->type) {
    case pb_urdfRevolute:
    case pb_urdfContinuous: return add_part(reader, joint, &def, pb_jntHinge, "", def.axis);
    case pb_urdfPrismatic: return add_part(reader, joint, &def, pb_jntSlide, "", def.axis);
    case pb_urdfSpherical: return add_part(reader, joint, &def, pb_jntBall, "", def.axis);
    case pb_urdfPlanar: return add_planar(reader, joint, &def);
    case pb_urdfFloating: return add_floating(reader, joint, &def);
    case pb_urdfFixed: break;
  }

  // What is fixed to what stands still does so, too.
  const pbUrdfLink *parent = &reader->links[joint->parent];
  pbUrdfLink *link = &reader->links[joint->child];
  link->still = parent->still;
  memcpy(link->pos, body->pose.pos, sizeof link->pos);
  memcpy(link->quat, body->pose.quat, sizeof link->quat);
  if (link->still) pbPose_Compose(parent->pos, parent->quat, link->pos, link->quat);
  return pb_ok;
}

// ---- mimics -------------------------------------------------------------------------------------------------------------

// Does a joint mimic itself in the end?
static bool goes_round(const pbUrdfReader *reader, const pbUrdfJoint *joint) {
  const pbUrdfJoint *at = joint;
  for (int i = 0; i <= reader->joint_count && at->mimic && at->type != pb_urdfFixed; i++) {
    const char *name = pbXml_Get(at->mimic, "joint");
    int leader = name ? pbNames_Find(&reader->names, PB_URDF_JOINT, name) : -1;
    if (leader < 0) return false;

    at = &reader->joints[leader];
    if (at == joint) return true;
  }
  return false;
}

// The joint that another mimics: there, with one coordinate; *name is empty where it is fixed, that is at zero. NULL: there is
// none.
static pbStatus find_leader(pbUrdfReader *reader, const pbUrdfJoint *joint, const char **name) {
  PB_TRY(pbUrdf_NeedText(reader, joint->mimic, "joint", name));
  int leader = pbNames_Find(&reader->names, PB_URDF_JOINT, *name);
  if (leader < 0) {
    WARN(joint->mimic, "there is no joint '%.200s': joint '%.200s' mimics none", *name, joint->name);
    *name = NULL;
    return pb_ok;
  }

  const pbUrdfJoint *other = &reader->joints[leader];
  bool fixed = other->type == pb_urdfFixed;
  if (!has_one_coordinate(joint) || !(fixed || has_one_coordinate(other)))
    return FAIL(joint->mimic, "only revolute, continuous and prismatic joints mimic each other");
  if (goes_round(reader, joint)) return FAIL(joint->mimic, "joint '%.200s' mimics itself", joint->name);
  if (fixed) *name = "";
  return pb_ok;
}

pbStatus pbUrdf_Mimics(pbUrdfReader *reader) {
  for (int i = 0; i < reader->joint_count; i++) {
    pbUrdfJoint *joint = &reader->joints[i];
    const pbXmlNode *node = joint->mimic;
    pbEqualityDef def = pbEqualityDef_Default();
    if (!node) continue;
    if (joint->type == pb_urdfFixed) {
      WARN(node, "of joint '%.200s' is ignored: it is fixed", joint->name);
      continue;
    }

    // q = offset + multiplier * q of the other
    def.type = pb_eqJoint;
    def.place = node->place;
    def.name1 = joint->name;
    double offset = 0, multiplier = 1;
    PB_TRY(find_leader(reader, joint, &def.name2));
    if (!def.name2) {
      joint->mimic = NULL;
      continue;
    }
    PB_TRY(pbUrdf_Reals(reader, node, "offset", 1, &offset, NULL));
    PB_TRY(pbUrdf_Reals(reader, node, "multiplier", 1, &multiplier, NULL));

    memset(def.polycoef, 0, sizeof def.polycoef);
    def.polycoef[0] = offset;
    def.polycoef[1] = multiplier;
    if (pbSpec_AddEquality(reader->spec, &def) < 0) return NO_MEMORY(node);
  }
  return pb_ok;
}

// ---- motors -------------------------------------------------------------------------------------------------------------

pbStatus pbUrdf_Motors(pbUrdfReader *reader) {
  for (int i = 0; i < reader->joint_count; i++) {
    const pbUrdfJoint *joint = &reader->joints[i];
    if (!has_one_coordinate(joint) || joint->mimic) continue;

    // The control is the force, within the effort that the joint states.
    const pbJointDef *moved = pbSpec_FindJoint(reader->spec, joint->name);
    pbActuatorDef def = pbActuatorDef_Default();
    def.name = def.target = joint->name;
    def.place = joint->node->place;
    def.trntype = pb_trnJoint;
    memcpy(def.ctrlrange, moved->actfrcrange, sizeof def.ctrlrange);
    if (pbSpec_AddActuator(reader->spec, &def) < 0) return NO_MEMORY(joint->node);
  }
  return pb_ok;
}
