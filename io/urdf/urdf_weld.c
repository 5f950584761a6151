// Inertias that no body has: links that stand still need none, and of links that are fixed to each other the whole is what moves.
// Tests: tests/oracle/test_urdf.py.
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "io/urdf/urdf_reader.h"
#include "math/vec.h"

bool pbUrdf_IsTriangle(const double I[3]) { return I[0] + I[1] >= I[2] && I[0] + I[2] >= I[1] && I[1] + I[2] >= I[0]; }

static bool is_fixed(const pbUrdfReader *reader, const pbUrdfLink *link) {
  return link->joint >= 0 && reader->joints[link->joint].type == pb_urdfFixed;
}

// The link that all are fixed to, and a link's pose in it.
static const pbUrdfLink *weld_of(const pbUrdfReader *reader, const pbUrdfLink *link, double pos[3], double quat[4]) {
  v3_set(pos, 0, 0, 0);
  memcpy(quat, (double[4]){1, 0, 0, 0}, 4 * sizeof *quat);

  while (is_fixed(reader, link)) {
    const pbPose *pose = &reader->spec->bodies[link->body].pose;
    pbPose_Compose(pose->pos, pose->quat, pos, quat);
    link = &reader->links[reader->joints[link->joint].parent];
  }
  return link;
}

// Mass, its first moment, and the inertia about the weld's frame, of all links that state theirs.
typedef struct whole {
  double mass, center[3], inertia[6];  // inertia: xx yy zz xy xz yz
} whole;

static void add_link(const pbUrdfReader *reader, const pbUrdfLink *link, const double pos[3], const double quat[4], whole *sum) {
  const pbBodyDef *body = &reader->spec->bodies[link->body];
  double at[3], turn[4];
  if (!link->body || !body->has_inertial) return;

  // As it is stated, turned into the weld.
  memcpy(at, body->inertial.pos, sizeof at);
  memcpy(turn, body->inertial.quat, sizeof turn);
  pbPose_Compose(pos, quat, at, turn);
  sum->mass += body->mass;
  v3_addscl(sum->center, at, body->mass);
  pbPose_AddInertia(sum->inertia, body->mass, body->diaginertia, turn, at);
}

// Is there a body that has the inertia of all that is fixed together?
static bool is_a_body(const pbUrdfReader *reader, const pbUrdfLink *weld) {
  static const double none[3] = {0, 0, 0}, upright[4] = {1, 0, 0, 0};
  whole sum = {0};
  double pos[3], quat[4], moments[3], center[3];

  for (int i = 0; i < reader->link_count; i++) {
    if (weld_of(reader, &reader->links[i], pos, quat) == weld) add_link(reader, &reader->links[i], pos, quat, &sum);
  }
  if (!(sum.mass > 0)) return false;

  // About its center of mass.
  for (int k = 0; k < 3; k++) center[k] = sum.center[k] / sum.mass;
  pbPose_AddInertia(sum.inertia, -sum.mass, none, upright, center);
  return !pbPose_Principal(sum.inertia, quat, moments) && pbUrdf_IsTriangle(moments);
}

pbStatus pbUrdf_JudgeInertia(pbUrdfReader *reader) {
  for (int i = 0; i < reader->link_count; i++) {
    const pbUrdfLink *link = &reader->links[i];
    if (!link->wrong) continue;

    const pbXmlNode *node = pbUrdf_Child(pbUrdf_Child(link->node, "inertial"), "inertia");
    double pos[3], quat[4];
    PB_ASSERT(node && link->body);
    bool whole_is = !link->still && is_a_body(reader, weld_of(reader, link, pos, quat));

    if (!link->still && !whole_is)
      return FAIL(node, "%s; --inertia keep takes it as it is, --inertia repair mends it", link->wrong);
    reader->spec->bodies[link->body].inertia_kept = true;
    WARN(node, "%s; it is kept, since %s", link->wrong,
         link->still ? "its link stands still" : "with the links that it is fixed to it makes one that a body has");
  }
  return pb_ok;
}
