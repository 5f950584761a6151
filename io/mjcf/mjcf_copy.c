// Copies of parts of a tree: names get a prefix and a suffix, and whatever outside the tree refers to the contents is copied
// along. The rules of which references may stay as they are are MuJoCo's: the list of an element kind at the time of each copy.
// Tests: tests/oracle/test_attach.py.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_copy.h"

#define IS(node, text) (!strcmp((node)->name, text))

// ---- names that exist --------------------------------------------------------------------------------------------------

int pbMjcf_KindOf(const pbXmlNode *node) {
  static const struct {
    const char *element;
    int kind;
  } kinds[] = {{"body", pb_refBody}, {"joint", pb_refJoint},   {"freejoint", pb_refJoint}, {"geom", pb_refGeom},
               {"site", pb_refSite}, {"camera", pb_refCamera}, {"light", pb_refLight}};

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (IS(node, kinds[i].element)) return kinds[i].kind;
  return pb_refNone;
}

bool pbMjcf_NameExists(const pbMjcfReader *reader, int kind, const char *name) {
  // xbody is the frame of a body, body its inertial frame: one name for both.
  if (kind == pb_refXbody) kind = pb_refBody;
  return pbNames_Find(&reader->names, kind, name) >= 0;
}

pbStatus pbMjcf_SetName(pbMjcfReader *reader, const pbXmlNode *node, int kind, int present) {
  const char *name = pbXml_Get(node, "name");

  if (!name || !*name || kind == pb_refNone) return pb_ok;
  return pbNames_Set(&reader->names, kind, name, present) ? pb_ok : NO_MEMORY(node);
}

pbStatus pbMjcf_SetNamesBelow(pbMjcfReader *reader, const pbXmlNode *node, int present) {
  PB_TRY(pbMjcf_SetName(reader, node, pbMjcf_KindOf(node), present));
  for (pbXmlNode *child = node->first; child; child = child->next) PB_TRY(pbMjcf_SetNamesBelow(reader, child, present));
  return pb_ok;
}

// Kind of the elements of a section outside the tree, as far as others refer to them.
int pbMjcf_KindOutside(const pbXmlNode *section) {
  if (IS(section, "tendon")) return pb_refTendon;
  if (IS(section, "actuator")) return pb_refActuator;
  return IS(section, "sensor") ? pb_refSensor : pb_refNone;
}

// ---- copies ------------------------------------------------------------------------------------------------------------

static const char *join_texts(pbMjcfReader *reader, const char *a, const char *b, const char *c) {
  // Memory of the pool is zero, so the text is closed.
  size_t first = strlen(a), second = strlen(b), third = strlen(c);
  char *made = pbSpecPool_Take(&reader->document.pool, first + second + third + 1, 1);
  if (!made) return NULL;

  memcpy(made, a, first);
  memcpy(made + first, b, second);
  memcpy(made + first + second, c, third);
  return made;
}

pbStatus pbMjcf_SetAttribute(pbMjcfReader *reader, pbXmlNode *node, const char *attribute, const char *value) {
  // The list is shared with the original until now.
  int count = node->attribute_count;
  pbXmlAttribute *own = pbSpecPool_Take(&reader->document.pool, (size_t)count + 1, sizeof *own);
  if (!own || !value) return NO_MEMORY(node);

  bool found = false;

  for (int i = 0; i < count; i++) {
    own[i] = node->attributes[i];
    if (strcmp(own[i].name, attribute) != 0) continue;
    own[i].value = value;
    found = true;
  }

  if (!found) own[count] = (pbXmlAttribute){attribute, value};
  node->attribute_count = found ? count : count + 1;
  node->attributes = own;

  return pb_ok;
}

static pbStatus rename_attribute(pbMjcfCopy *u, pbXmlNode *node, const char *attribute) {
  const char *value = pbXml_Get(node, attribute);

  if (!value || !*value) return pb_ok;
  if (strlen(u->prefix) + strlen(value) + strlen(u->suffix) > PB_MJCF_TEXT) {
    pbMjcfReader *reader = u->reader;
    return FAIL(node, "its name in a copy is longer than %d bytes", PB_MJCF_TEXT);
  }
  return pbMjcf_SetAttribute(u->reader, node, attribute, join_texts(u->reader, u->prefix, value, u->suffix));
}

// Of another model: names of assets get the prefix wherever they stand, in classes too, so it goes with the node.
static pbStatus mark_origin(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *copy) {
  pbMjcfReader *reader = u->reader;
  if (u->strict && !u->attach) ((pbXmlNode *)node)->attach = 0;  // as in MuJoCo: numbers of keyframes go with the copy
  if (!u->attach) return pb_ok;

  if (!u->assets || node->assets != u->known) {
    u->known = node->assets;
    u->assets = join_texts(reader, u->prefix, node->assets ? node->assets : "", "");
    if (!u->assets) return NO_MEMORY(node);
  }

  copy->assets = u->assets;
  copy->source = (pbXmlNode *)node;  // in a tree of our own
  copy->attach = u->attach;

  return pb_ok;
}

// A copy without children, renamed.
static pbStatus copy_node(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *parent, pbXmlNode **copy) {
  PB_TRY(pbXml_Copy(&u->reader->document, node, parent, copy));
  PB_TRY(mark_origin(u, node, *copy));
  return rename_attribute(u, *copy, "name");
}

static pbStatus take_name(pbMjcfCopy *u, const pbXmlNode *copy, int kind) {
  pbMjcfReader *reader = u->reader;
  const char *name = pbXml_Get(copy, "name");

  // Replicas are looked at when all names are known.
  bool there = u->strict && name && *name && kind != pb_refNone && pbMjcf_NameExists(reader, kind, name);
  if (there) return FAIL(copy, "an element of this name is there already; attach it with another prefix than \"%s\"", u->prefix);
  return pbMjcf_SetName(reader, copy, kind, 1);
}

pbStatus pbMjcf_CopyBelow(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *parent) {
  pbXmlNode *copy;
  PB_TRY(copy_node(u, node, parent, &copy));

  // Their targets are bodies, here taken to be in the same copy.
  const char *target = pbXml_Get(node, "target");
  if (target && strcmp(target, "world") != 0) PB_TRY(rename_attribute(u, copy, "target"));

  PB_TRY(take_name(u, copy, pbMjcf_KindOf(copy)));

  for (pbXmlNode *child = node->first; child; child = child->next) PB_TRY(pbMjcf_CopyBelow(u, child, copy));

  return pb_ok;
}

void pbMjcf_Replace(pbXmlNode *node, pbXmlNode *before, pbXmlNode *holder) {
  pbXmlNode *parent = node->parent;

  for (pbXmlNode *child = holder->first; child; child = child->next) child->parent = parent;

  // Their list goes on with the node's younger siblings.
  holder->last->next = node->next;
  if (before) before->next = holder->first;
  else parent->first = holder->first;
  if (parent->last == node) parent->last = holder->last;
}

// ---- what refers to the contents ---------------------------------------------------------------------------------------

// Is there an element of this kind with the name that `name` gets in this copy? *renamed is the answer as well.
static bool has_copy(const pbMjcfCopy *u, int kind, const char *name, bool *renamed) {
  // The world is the same for all.
  *renamed = false;
  if (kind == pb_refBody && !strcmp(name, "world")) return true;

  // A name that is too long for any element is not there either.
  char text[3 * PB_MJCF_TEXT + 32];
  int n = snprintf(text, sizeof text, "%s%s%s", u->prefix, name, u->suffix);

  *renamed = n > 0 && (size_t)n < sizeof text && pbMjcf_NameExists(u->reader, kind, text);
  return *renamed;
}

int pbMjcf_References(const pbXmlNode *node, pbMjcfReference *out) {
  static const struct {
    const char *section;
    pbMjcfReference reference;
  } all[] = {{"contact", {"geom1", pb_refGeom}},       {"contact", {"geom2", pb_refGeom}},
             {"contact", {"body1", pb_refBody}},       {"contact", {"body2", pb_refBody}},
             {"equality", {"body1", pb_refBody}},      {"equality", {"body2", pb_refBody}},
             {"equality", {"site1", pb_refSite}},      {"equality", {"site2", pb_refSite}},
             {"equality", {"joint1", pb_refJoint}},    {"equality", {"joint2", pb_refJoint}},
             {"equality", {"tendon1", pb_refTendon}},  {"equality", {"tendon2", pb_refTendon}},
             {"actuator", {"joint", pb_refJoint}},     {"actuator", {"jointinparent", pb_refJoint}},
             {"actuator", {"tendon", pb_refTendon}},   {"actuator", {"site", pb_refSite}},
             {"actuator", {"refsite", pb_refSite}},    {"sensor", {"site", pb_refSite}},
             {"sensor", {"joint", pb_refJoint}},       {"sensor", {"tendon", pb_refTendon}},
             {"sensor", {"geom1", pb_refGeom}},        {"sensor", {"geom2", pb_refGeom}},
             {"sensor", {"body1", pb_refBody}},        {"sensor", {"body2", pb_refBody}},
             {"sensor", {"actuator", pb_refActuator}}, {"sensor", {"body", pb_refBody}},
             {"sensor", {"subtree1", pb_refBody}},     {"sensor", {"subtree2", pb_refBody}},
             {"sensor", {"camera", pb_refCamera}},     {"actuator", {"body", pb_refBody}},
             {"actuator", {"cranksite", pb_refSite}},  {"actuator", {"slidersite", pb_refSite}}};
  static const struct {
    const char *word;
    int kind;
  } frames[] = {
      {"body", pb_refBody}, {"xbody", pb_refBody}, {"geom", pb_refGeom}, {"site", pb_refSite}, {"camera", pb_refCamera}};

  int count = 0;

  // Those by a fixed attribute of the section.
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const char *value = IS(node->parent, all[i].section) ? pbXml_Get(node, all[i].reference.attribute) : NULL;
    if (value && *value) out[count++] = all[i].reference;
  }

  // Those of sensors whose kind is itself given by an attribute.
  for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
    const char *object = pbXml_Get(node, "objtype"), *other = pbXml_Get(node, "reftype");
    if (object && !strcmp(object, frames[i].word)) out[count++] = (pbMjcfReference){"objname", frames[i].kind};
    if (other && !strcmp(other, frames[i].word)) out[count++] = (pbMjcfReference){"refname", frames[i].kind};
  }
  PB_ASSERT(count <= PB_MJCF_REFERENCES);

  return count;
}

// May one of two references stay as it is when the other has a replica?
static bool is_loose(const pbXmlNode *node) { return IS(node->parent, "contact") || IS(node->parent, "sensor"); }

// Which references of a copy take the suffix; false: no copy is made.
static bool plan_copy(const pbMjcfCopy *u, const pbXmlNode *node, const pbMjcfReference *references, int count, bool *renamed) {
  // How many of them have a copy, and how many another name in it?
  int found = 0, others = 0;

  for (int i = 0; i < count; i++) {
    found += has_copy(u, references[i].kind, pbXml_Get(node, references[i].attribute), &renamed[i]);
    others += renamed[i];
  }

  if (found == count) return !count || others;

  // Some have: where the rest may stay outside it must at least exist, and come before.
  if (!is_loose(node) || !others) return false;

  for (int i = 0; i < count; i++)
    if (!renamed[i] && !pbMjcf_NameExists(u->reader, references[i].kind, pbXml_Get(node, references[i].attribute))) return false;
  return true;
}

int pbMjcf_KindOfStation(const pbXmlNode *station) {
  if (IS(station, "joint")) return pb_refJoint;
  return IS(station, "geom") ? pb_refGeom : pb_refSite;
}

// A tendon is copied if one station has a replica; stations outside stay as they are.
static pbStatus copy_tendon(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *section) {
  // Every station has a replica or is there at least; at least one has a replica.
  bool any = false, renamed;

  for (pbXmlNode *station = node->first; station; station = station->next) {
    if (IS(station, "pulley")) continue;
    int kind = pbMjcf_KindOfStation(station);
    const char *name = pbXml_Get(station, station->name), *side = pbXml_Get(station, "sidesite");
    any |= has_copy(u, kind, name, &renamed);
    if (!renamed && !pbMjcf_NameExists(u->reader, kind, name)) return pb_ok;
    if (!side || !*side) continue;
    any |= has_copy(u, pb_refSite, side, &renamed);
    if (!renamed && !pbMjcf_NameExists(u->reader, pb_refSite, side)) return pb_ok;
  }

  if (!any) return pb_ok;

  // The copy, station by station.
  pbXmlNode *copy;
  PB_TRY(copy_node(u, node, section, &copy));

  for (pbXmlNode *station = node->first; station; station = station->next) {
    pbXmlNode *made;
    PB_TRY(pbXml_Copy(&u->reader->document, station, copy, &made));

    if (IS(station, "pulley")) continue;
    const char *side = pbXml_Get(station, "sidesite");
    if (has_copy(u, pbMjcf_KindOfStation(station), pbXml_Get(station, station->name), &renamed))
      PB_TRY(rename_attribute(u, made, station->name));
    if (side && *side && has_copy(u, pb_refSite, side, &renamed)) PB_TRY(rename_attribute(u, made, "sidesite"));
  }

  return take_name(u, copy, pb_refTendon);
}

static int tuple_entry_kind(const char *type) {
  if (!strcmp(type, "xbody")) return pb_refBody;
  if (!strcmp(type, "actuator")) return pb_refActuator;
  if (!strcmp(type, "tendon")) return pb_refTendon;
  if (!strcmp(type, "sensor")) return pb_refSensor;
  return pbMjcf_KindOf(&(pbXmlNode){.name = type});
}

// A tuple is copied if all its entries have a replica.
static pbStatus copy_tuple(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *section) {
  bool renamed;

  for (pbXmlNode *entry = node->first; entry; entry = entry->next) {
    const char *type = pbXml_Get(entry, "objtype");
    int kind = tuple_entry_kind(type);
    if (!has_copy(u, kind, pbXml_Get(entry, "objname"), &renamed)) return pb_ok;
  }

  pbXmlNode *copy;
  PB_TRY(copy_node(u, node, section, &copy));

  for (pbXmlNode *entry = node->first; entry; entry = entry->next) {
    pbXmlNode *made;
    PB_TRY(pbXml_Copy(&u->reader->document, entry, copy, &made));
    if (has_copy(u, tuple_entry_kind(pbXml_Get(entry, "objtype")), pbXml_Get(entry, "objname"), &renamed) && renamed)
      PB_TRY(rename_attribute(u, made, "objname"));
  }

  return pb_ok;
}

static pbStatus copy_plain(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *section, int kind) {
  pbMjcfReference references[PB_MJCF_REFERENCES];
  bool renamed[PB_MJCF_REFERENCES];
  int count = pbMjcf_References(node, references);
  if (!plan_copy(u, node, references, count, renamed)) return pb_ok;

  pbXmlNode *copy;
  PB_TRY(copy_node(u, node, section, &copy));

  for (int i = 0; i < count; i++)
    if (renamed[i]) PB_TRY(rename_attribute(u, copy, references[i].attribute));

  return take_name(u, copy, kind);
}

// Elements visited for all replicas together: the time a file can take is limited like everything else.
enum { MOST_WORK = 50000000 };

pbStatus pbMjcf_CountWork(pbMjcfReader *reader, const pbXmlNode *node) {
  return ++reader->family->work <= MOST_WORK ? pb_ok
                                             : FAIL(node, "there are too many replicas for so many elements outside the tree");
}

static pbStatus copy_outside(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *section) {
  PB_TRY(pbMjcf_CountWork(u->reader, node));

  if (IS(section, "tendon")) return copy_tendon(u, node, section);
  if (IS(node, "tuple")) return copy_tuple(u, node, section);

  // Numbers and texts refer to nothing: those of another model come along.
  pbXmlNode *copy;
  if (IS(section, "custom")) return u->attach ? copy_node(u, node, section, &copy) : pb_ok;

  return copy_plain(u, node, section, pbMjcf_KindOutside(section));
}

const char *const pbMjcf_Outside[PB_MJCF_OUTSIDE] = {"contact", "tendon", "equality", "actuator", "sensor", "custom"};

// The last section of this name; where there is none, a new one like the other model's.
static pbStatus find_section(const pbMjcfCopy *u, const char *name, pbXmlNode **found) {
  pbXmlNode *root = u->reader->document.root;
  *found = NULL;

  for (pbXmlNode *section = root->first; section; section = section->next)
    if (IS(section, name)) *found = section;

  const pbXmlNode *other = u->from->document.root->first;
  while (other && !IS(other, name)) other = other->next;
  if (*found || !other) return pb_ok;

  // Without its contents.
  return pbXml_Copy(&u->reader->document, other, root, found);
}

// Copies go to the end of the last section of the kind, so that they come after everything of it.
pbStatus pbMjcf_CopyReferences(pbMjcfCopy *u) {
  for (int k = 0; k < PB_MJCF_OUTSIDE; k++) {
    pbXmlNode *end;
    PB_TRY(find_section(u, pbMjcf_Outside[k], &end));

    // The list of a kind is what it is now: copies within a model come behind `stop` and are not copied again.
    const pbXmlNode *stop = end ? end->last : NULL;
    for (pbXmlNode *section = u->from->document.root->first; section; section = section->next) {
      if (!IS(section, pbMjcf_Outside[k])) continue;

      const pbXmlNode *last = section == end ? stop : section->last;
      for (pbXmlNode *node = last ? section->first : NULL; node; node = node == last ? NULL : node->next)
        PB_TRY(copy_outside(u, node, end));
    }
  }

  return pb_ok;
}

// ---- assets ------------------------------------------------------------------------------------------------------------

static pbStatus copy_asset(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *parent) {
  pbXmlNode *copy;
  PB_TRY(copy_node(u, node, parent, &copy));

  // A material's textures, or those of its layers; other assets refer to none.
  if (IS(node, "material") || IS(node, "layer")) PB_TRY(rename_attribute(u, copy, "texture"));

  for (const pbXmlNode *child = node->first; child; child = child->next) PB_TRY(copy_asset(u, child, copy));

  return pb_ok;
}

pbStatus pbMjcf_CopyAssets(pbMjcfCopy *u) {
  pbXmlNode *end;
  PB_TRY(find_section(u, "asset", &end));

  for (pbXmlNode *section = u->from->document.root->first; section; section = section->next) {
    if (!IS(section, "asset")) continue;

    // Models are what they are to the model that names them.
    for (const pbXmlNode *node = section->first; node; node = node->next)
      if (!IS(node, "model")) PB_TRY(copy_asset(u, node, end));
  }

  return pb_ok;
}
