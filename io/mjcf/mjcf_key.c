// Keyframes. Those of a model that is attached come along: joints, actuators and mocap bodies that were copied keep their
// numbers, others have those of the reference configuration (NAN), or zero. So that they can be found again, every joint,
// actuator and mocap body knows where its numbers begin in the keyframes of its own model.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_copy.h"
#include "model/joint.h"
#include "model/motor.h"

#define IS(node, text) (!strcmp((node)->name, text))

typedef struct walk {
  pbMjcfReader *reader;
  pbXmlAddress size;      // numbers so far
  const pbMjcfKey *from;  // the keyframe that is put into the model; NULL: addresses are given
  pbKeyDef *to;           // where it is written
  int serial;             // of the keyframe: a joint that was copied twice gives its numbers to the first
  int attach;
} walk;

// ---- numbers of one element --------------------------------------------------------------------------------------------

// `count` numbers of a list, each NAN where the list does not have it.
static void take_numbers(pbReals from, int start, pbReals to, int at, int count) {
  if (!to.count) return;
  for (int i = 0; i < count; i++)
    if (start + i < from.count) ((double *)to.data)[at + i] = from.data[start + i];
}

// Has the keyframe numbers of this node that no other copy has taken?
static bool takes(const walk *w, const pbXmlNode *node) {
  if (node->attach != w->attach || !node->source || node->source->at.taken == w->serial) return false;
  node->source->at.taken = w->serial;
  return true;
}

static void visit_joint(walk *w, pbXmlNode *node, int type) {
  int nq = pbJoint_PositionCount(type), nv = pbJoint_DofCount(type);
  if (!w->from) {
    node->at.qpos = w->size.qpos;
    node->at.qvel = w->size.qvel;
    w->size.qpos += nq;
    w->size.qvel += nv;
    return;
  }

  // From where they are in the other model's keyframe to where they are in this one's.
  if (!takes(w, node)) return;
  take_numbers(w->from->def.qpos, node->source->at.qpos, w->to->qpos, node->at.qpos, nq);
  take_numbers(w->from->def.qvel, node->source->at.qvel, w->to->qvel, node->at.qvel, nv);
}

static void visit_mocap(walk *w, pbXmlNode *node) {
  if (!w->from) {
    node->at.mocap = w->size.mocap++;
    return;
  }

  // A position and a quaternion each.
  if (!takes(w, node)) return;
  take_numbers(w->from->def.mpos, 3 * node->source->at.mocap, w->to->mpos, 3 * node->at.mocap, 3);
  take_numbers(w->from->def.mquat, 4 * node->source->at.mocap, w->to->mquat, 4 * node->at.mocap, 4);
}

static void visit_actuator(walk *w, pbXmlNode *node, int activations) {
  if (!w->from) {
    node->at.ctrl = w->size.ctrl++;
    node->at.act = w->size.act;
    w->size.act += activations;
    return;
  }

  if (!takes(w, node)) return;
  take_numbers(w->from->def.ctrl, node->source->at.ctrl, w->to->ctrl, node->at.ctrl, 1);
  take_numbers(w->from->def.act, node->source->at.act, w->to->act, node->at.act, activations);
}

// ---- the walk in the order of the state --------------------------------------------------------------------------------

static pbStatus walk_joint(walk *w, pbXmlNode *node) {
  pbMjcfReader *reader = w->reader;
  int type = pb_jntFree;

  // A default may say which kind it is.
  if (IS(node, "joint")) {
    const char *name = pbXml_Get(node, "class");
    const pbMjcfClass *class = pbMjcf_FindClass(reader, node, name ? name : pbMjcf_ClassAt(node));
    if (!class) return pb_bad_input;
    type = pbMjcf_Word(reader, node, "type", class->joint.type);
  }

  visit_joint(w, node, type);

  return pb_ok;
}

// What stands in a body, or in its frames: first its joints, then its children.
static pbStatus walk_content(walk *w, pbXmlNode *parent, bool joints) {
  for (pbXmlNode *node = parent->first; node; node = node->next) {
    if (IS(node, "frame")) PB_TRY(walk_content(w, node, joints));
    if (joints && (IS(node, "joint") || IS(node, "freejoint"))) PB_TRY(walk_joint(w, node));
    if (joints || !IS(node, "body")) continue;

    // A body, all of it before its siblings.
    const char *mocap = pbXml_Get(node, "mocap");
    if (mocap && !strcmp(mocap, "true")) visit_mocap(w, node);
    PB_TRY(walk_content(w, node, true));
    PB_TRY(walk_content(w, node, false));
  }

  return pb_ok;
}

static pbStatus walk_actuators(walk *w, pbXmlNode *section) {
  pbMjcfReader *reader = w->reader;

  for (pbXmlNode *node = section->first; node; node = node->next) {
    const char *name = pbXml_Get(node, "class");
    const pbMjcfClass *class = pbMjcf_FindClass(reader, node, name ? name : "main");
    if (!class) return pb_bad_input;

    // Its dynamics may be those of a default, so it is read as a whole.
    pbActuatorDef def;
    PB_TRY(pbMjcf_Actuator(reader, node, class, &def));
    visit_actuator(w, node, pbActuatorDef_Activations(&def));
  }

  return pb_ok;
}

static pbStatus walk_model(walk *w) {
  for (pbXmlNode *section = w->reader->document.root->first; section; section = section->next) {
    if (IS(section, "worldbody")) PB_TRY(walk_content(w, section, false));
    if (IS(section, "actuator")) PB_TRY(walk_actuators(w, section));
  }
  return pb_ok;
}

// ---- keyframes of attached models --------------------------------------------------------------------------------------

// As long as this model needs it where the other states it, all of it open.
static bool open_list(pbMjcfReader *reader, pbReals from, int count, pbReals *list) {
  if (!from.count || !count) return true;
  double *data = pbSpecPool_Take(reader->spec->pool, (size_t)count, sizeof *data);
  if (!data) return false;

  for (int i = 0; i < count; i++) data[i] = NAN;
  *list = (pbReals){data, count};
  return true;
}

static pbStatus put_in_order(const walk *sizes, pbMjcfKey *key, int serial) {
  pbMjcfReader *reader = sizes->reader;
  const pbKeyDef *from = &key->from->def;
  pbKeyDef *to = &key->def;
  const pbXmlAddress *size = &sizes->size;

  bool room = open_list(reader, from->qpos, size->qpos, &to->qpos) && open_list(reader, from->qvel, size->qvel, &to->qvel) &&
              open_list(reader, from->act, size->act, &to->act) && open_list(reader, from->ctrl, size->ctrl, &to->ctrl) &&
              open_list(reader, from->mpos, 3 * size->mocap, &to->mpos) &&
              open_list(reader, from->mquat, 4 * size->mocap, &to->mquat);
  if (!room) return NO_MEMORY(reader->document.root);

  // The numbers of what was attached go where that stands now.
  walk w = {.reader = reader, .from = key->from, .to = to, .serial = serial, .attach = key->attach};
  return walk_model(&w);
}

static pbStatus add_key(pbMjcfReader *reader, const pbMjcfKey *key) {
  pbMjcfKey *own = pbSpecPool_Take(&reader->document.pool, 1, sizeof *own);
  if (!own) return NO_MEMORY(reader->document.root);

  // They stay in the order in which they came.
  *own = *key;
  if (reader->last_key) reader->last_key->next = own;
  else reader->keys = own;
  reader->last_key = own;

  return pb_ok;
}

static bool is_taken(const pbMjcfReader *reader, const char *name) {
  for (const pbMjcfKey *key = reader->keys; key; key = key->next)
    if (!strcmp(key->def.name, name)) return true;
  return false;
}

// MuJoCo gives the prefix to names of the model's own keyframes, not to those of what is attached to it; that makes two of a
// name where such a model is attached twice, and then the prefix tells them apart.
pbStatus pbMjcf_AttachKeys(pbMjcfReader *reader, const pbMjcfReader *attached, const char *prefix, int attach) {
  for (const pbMjcfKey *from = attached->keys; from; from = from->next) {
    pbMjcfKey key = {
        .from = from, .attach = attach, .def = {.name = from->def.name, .place = from->def.place, .time = from->def.time}};
    char name[2 * PB_MJCF_TEXT];

    bool prefixed = !from->from || is_taken(reader, from->def.name);
    if (prefixed && *from->def.name) {
      snprintf(name, sizeof name, "%s%s", prefix, from->def.name);
      key.def.name = pbSpec_Text(reader->spec, name);
    }

    if (!key.def.name) return NO_MEMORY(reader->document.root);
    PB_TRY(add_key(reader, &key));
  }

  return pb_ok;
}

// ---- all of a model ----------------------------------------------------------------------------------------------------

static pbStatus read_own(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    pbMjcfKey key = {.def = pbKeyDef_Default()};
    key.def.place = node->place;
    PB_TRY(pbMjcf_Store(reader, node, &key.def));
    PB_TRY(add_key(reader, &key));
  }

  return pb_ok;
}

pbStatus pbMjcf_Keys(pbMjcfReader *reader) {
  const pbXmlNode *root = reader->document.root;
  pbMjcfKey *came = reader->keys;  // with what was attached

  // The own ones first.
  reader->keys = reader->last_key = NULL;

  for (const pbXmlNode *section = root->first; section; section = section->next)
    if (IS(section, "keyframe")) PB_TRY(read_own(reader, section));

  // Addresses: those of other models ask for them, too.
  walk sizes = {.reader = reader};
  if (came || (reader->parent && reader->keys)) PB_TRY(walk_model(&sizes));

  for (pbMjcfKey *key = came; key; key = key->next) {
    PB_TRY(put_in_order(&sizes, key, ++reader->family->key_count));
    if (reader->last_key) reader->last_key->next = key;
    else reader->keys = key;
    reader->last_key = key;
  }
  if (reader->parent) return pb_ok;

  // The main model's are those of the spec.
  for (const pbMjcfKey *key = reader->keys; key; key = key->next)
    if (pbSpec_AddKey(reader->spec, &key->def) < 0) return NO_MEMORY(root);

  return pb_ok;
}
