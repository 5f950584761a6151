// replicate, unrolled in the tree before it is read: every replica is a frame with a copy of the contents, names with a suffix.
// Whatever outside the tree refers to the contents is copied along with each replica, its references with the suffix, and the
// original is dropped. The rules of which references may stay without suffix are MuJoCo's (an attach within one model): bodies in
// the order of the file, the list of an element kind at the time of each replica.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_reader.h"

#define IS(node, text) (!strcmp((node)->name, text))

typedef struct unroll {
  pbMjcfReader *reader;
  const char *suffix;  // of the replica at work
  pbXmlNode *dropped;  // elements outside the tree that went with the originals
} unroll;

// ---- names that exist -----------------------------------------------------------------------------------------------

static int kind_of(const pbXmlNode *node) {
  static const struct {
    const char *element;
    int kind;
  } kinds[] = {{"body", pb_refBody}, {"joint", pb_refJoint},   {"freejoint", pb_refJoint}, {"geom", pb_refGeom},
               {"site", pb_refSite}, {"camera", pb_refCamera}, {"light", pb_refLight}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (IS(node, kinds[i].element)) return kinds[i].kind;
  return pb_refNone;
}

static bool name_exists(const pbMjcfReader *reader, int kind, const char *name) {
  // xbody is the frame of a body, body its inertial frame: one name for both.
  if (kind == pb_refXbody) kind = pb_refBody;
  return pbNames_Find(&reader->names, kind, name) >= 0;
}

static pbStatus set_name(pbMjcfReader *reader, const pbXmlNode *node, int kind, int present) {
  const char *name = pbXml_Get(node, "name");

  if (!name || !*name || kind == pb_refNone) return pb_ok;
  return pbNames_Set(&reader->names, kind, name, present) ? pb_ok : NO_MEMORY(node);
}

static pbStatus set_names_below(pbMjcfReader *reader, const pbXmlNode *node, int present) {
  PB_TRY(set_name(reader, node, kind_of(node), present));
  for (pbXmlNode *child = node->first; child; child = child->next) PB_TRY(set_names_below(reader, child, present));
  return pb_ok;
}

// Kind of the elements of a section outside the tree, as far as others refer to them.
static int kind_outside(const pbXmlNode *section) {
  if (IS(section, "tendon")) return pb_refTendon;
  if (IS(section, "actuator")) return pb_refActuator;
  return IS(section, "sensor") ? pb_refSensor : pb_refNone;
}

// ---- copies -------------------------------------------------------------------------------------------------------------

static const char *with_suffix(pbMjcfReader *reader, const char *text, const char *suffix) {
  // Memory of the pool is zero, so the text is closed.
  size_t length = strlen(text), more = strlen(suffix);
  char *made = pbSpecPool_Take(&reader->document.pool, length + more + 1, 1);
  if (!made) return NULL;

  memcpy(made, text, length);
  memcpy(made + length, suffix, more);
  return made;
}

// Give a node attributes of its own, with `attribute` set to value.
static pbStatus set_attribute(pbMjcfReader *reader, pbXmlNode *node, const char *attribute, const char *value) {
  // The list is shared with the original until now.
  pbXmlAttribute *own = pbSpecPool_Take(&reader->document.pool, (size_t)node->attribute_count, sizeof *own);
  if (!own || !value) return NO_MEMORY(node);

  for (int i = 0; i < node->attribute_count; i++) {
    own[i] = node->attributes[i];
    if (!strcmp(own[i].name, attribute)) own[i].value = value;
  }
  node->attributes = own;
  return pb_ok;
}

static pbStatus suffix_attribute(unroll *u, pbXmlNode *node, const char *attribute) {
  const char *value = pbXml_Get(node, attribute);

  if (!value || !*value) return pb_ok;
  if (strlen(value) + strlen(u->suffix) > PB_MJCF_TEXT) {
    pbMjcfReader *reader = u->reader;
    return FAIL(node, "its name in a replica is longer than %d bytes", PB_MJCF_TEXT);
  }
  return set_attribute(u->reader, node, attribute, with_suffix(u->reader, value, u->suffix));
}

static pbStatus copy_below(unroll *u, const pbXmlNode *node, pbXmlNode *parent) {
  pbXmlNode *copy = pbXml_Copy(&u->reader->document, node, parent);
  if (!copy) return pb_bad_input;

  PB_TRY(suffix_attribute(u, copy, "name"));

  // Their targets are bodies, here taken to be in the same replica.
  if (IS(node, "camera") || IS(node, "light")) PB_TRY(suffix_attribute(u, copy, "target"));

  for (pbXmlNode *child = node->first; child; child = child->next) PB_TRY(copy_below(u, child, copy));
  return set_name(u->reader, copy, kind_of(copy), 1);
}

// ---- what refers to the contents ----------------------------------------------------------------------------------------

// Is there an element of this kind with the name of this replica, `name` with the suffix? *suffixed is the answer as well.

static bool has_replica(const unroll *u, int kind, const char *name, bool *suffixed) {
  // A name that is too long for any element is not there either.
  char text[2 * PB_MJCF_TEXT + 32];
  int n = snprintf(text, sizeof text, "%s%s", name, u->suffix);

  *suffixed = n > 0 && (size_t)n < sizeof text && name_exists(u->reader, kind, text);
  return *suffixed;
}

typedef struct reference {
  const char *attribute;
  int kind;
} reference;

// The most references of one element: of an actuator, a pair or a sensor all attributes that name something.
enum { MOST_REFERENCES = 16 };

// References of an element outside the tree; the number of them. Stations of tendons are not among them.
static int references_of(const pbXmlNode *node, reference *out) {
  static const struct {
    const char *section;
    reference reference;
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
             {"sensor", {"actuator", pb_refActuator}}, {"sensor", {"body", pb_refBody}}};
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
    if (object && !strcmp(object, frames[i].word)) out[count++] = (reference){"objname", frames[i].kind};
    if (other && !strcmp(other, frames[i].word)) out[count++] = (reference){"refname", frames[i].kind};
  }
  PB_ASSERT(count <= MOST_REFERENCES);

  return count;
}

// May one of two references stay as it is when the other has a replica?
static bool is_loose(const pbXmlNode *node) { return IS(node->parent, "contact") || IS(node->parent, "sensor"); }

// Which references of a copy take the suffix; false: no copy is made.
static bool plan_copy(const unroll *u, const pbXmlNode *node, const reference *references, int count, bool *suffixed) {
  // How many of them have a replica?
  int found = 0;
  for (int i = 0; i < count; i++)
    found += has_replica(u, references[i].kind, pbXml_Get(node, references[i].attribute), &suffixed[i]);

  if (found == count) return true;

  // Some have: where the rest may stay outside it must at least exist, and come before.
  if (!is_loose(node) || !found) return false;
  for (int i = 0; i < count; i++)
    if (!suffixed[i] && !name_exists(u->reader, references[i].kind, pbXml_Get(node, references[i].attribute))) return false;
  return true;
}

static int kind_of_station(const pbXmlNode *station) {
  if (IS(station, "joint")) return pb_refJoint;
  return IS(station, "geom") ? pb_refGeom : pb_refSite;
}

// A tendon is copied if one station has a replica; stations outside stay as they are.
static pbStatus copy_tendon(unroll *u, const pbXmlNode *node, pbXmlNode *section) {
  // Every station has a replica or is there at least; at least one has a replica.
  bool any = false, suffixed;
  for (pbXmlNode *station = node->first; station; station = station->next) {
    if (IS(station, "pulley")) continue;
    int kind = kind_of_station(station);
    const char *name = pbXml_Get(station, station->name), *side = pbXml_Get(station, "sidesite");
    any |= has_replica(u, kind, name, &suffixed);
    if (!suffixed && !name_exists(u->reader, kind, name)) return pb_ok;
    if (!side || !*side) continue;
    any |= has_replica(u, pb_refSite, side, &suffixed);
    if (!suffixed && !name_exists(u->reader, pb_refSite, side)) return pb_ok;
  }

  if (!any) return pb_ok;

  // The copy, station by station.
  pbXmlNode *copy = pbXml_Copy(&u->reader->document, node, section);
  if (!copy) return pb_bad_input;
  PB_TRY(suffix_attribute(u, copy, "name"));

  for (pbXmlNode *station = node->first; station; station = station->next) {
    pbXmlNode *made = pbXml_Copy(&u->reader->document, station, copy);
    if (!made) return pb_bad_input;

    if (IS(station, "pulley")) continue;
    const char *side = pbXml_Get(station, "sidesite");
    if (has_replica(u, kind_of_station(station), pbXml_Get(station, station->name), &suffixed))
      PB_TRY(suffix_attribute(u, made, station->name));
    if (side && *side && has_replica(u, pb_refSite, side, &suffixed)) PB_TRY(suffix_attribute(u, made, "sidesite"));
  }

  return set_name(u->reader, copy, pb_refTendon, 1);
}

static int tuple_entry_kind(const char *type) {
  if (!strcmp(type, "xbody")) return pb_refBody;
  if (!strcmp(type, "actuator")) return pb_refActuator;
  if (!strcmp(type, "tendon")) return pb_refTendon;
  if (!strcmp(type, "sensor")) return pb_refSensor;
  return kind_of(&(pbXmlNode){.name = type});
}

// A tuple is copied if all its entries have a replica.
static pbStatus copy_tuple(unroll *u, const pbXmlNode *node, pbXmlNode *section) {
  bool suffixed;
  for (pbXmlNode *entry = node->first; entry; entry = entry->next) {
    const char *type = pbXml_Get(entry, "objtype");
    int kind = tuple_entry_kind(type);
    if (!has_replica(u, kind, pbXml_Get(entry, "objname"), &suffixed)) return pb_ok;
  }

  pbXmlNode *copy = pbXml_Copy(&u->reader->document, node, section);
  if (!copy) return pb_bad_input;
  PB_TRY(suffix_attribute(u, copy, "name"));

  for (pbXmlNode *entry = node->first; entry; entry = entry->next) {
    pbXmlNode *made = pbXml_Copy(&u->reader->document, entry, copy);
    if (!made) return pb_bad_input;
    PB_TRY(suffix_attribute(u, made, "objname"));
  }

  return pb_ok;
}

static pbStatus copy_plain(unroll *u, const pbXmlNode *node, pbXmlNode *section, int kind) {
  reference references[MOST_REFERENCES];
  bool suffixed[MOST_REFERENCES];
  int count = references_of(node, references);
  if (!plan_copy(u, node, references, count, suffixed)) return pb_ok;

  pbXmlNode *copy = pbXml_Copy(&u->reader->document, node, section);
  if (!copy) return pb_bad_input;
  PB_TRY(suffix_attribute(u, copy, "name"));

  for (int i = 0; i < count; i++)
    if (suffixed[i]) PB_TRY(suffix_attribute(u, copy, references[i].attribute));

  return set_name(u->reader, copy, kind, 1);
}

// Elements visited for all replicas together: the time a file can take is limited like everything else.
enum { MOST_WORK = 50000000 };

static pbStatus count_work(pbMjcfReader *reader, const pbXmlNode *node) {
  return ++reader->work <= MOST_WORK ? pb_ok : FAIL(node, "there are too many replicas for so many elements outside the tree");
}

static pbStatus copy_outside(unroll *u, const pbXmlNode *node, pbXmlNode *section) {
  PB_TRY(count_work(u->reader, node));

  if (IS(section, "tendon")) return copy_tendon(u, node, section);

  // Numbers and texts refer to nothing.
  if (IS(section, "custom")) return IS(node, "tuple") ? copy_tuple(u, node, section) : pb_ok;
  return copy_plain(u, node, section, kind_outside(section));
}

// Sections in the order in which MuJoCo copies them: what is referred to first.
static const char *const outside[] = {"contact", "tendon", "equality", "actuator", "sensor", "custom"};
enum { OUTSIDE = sizeof outside / sizeof *outside };

// Copies of one replica go to the end of the last section of the kind, so that they come after everything of it.
static pbStatus copy_references(unroll *u) {
  pbXmlNode *root = u->reader->document.root;

  // The list of a kind is what it is now: copies of this replica come behind `stop` and are not copied again.
  for (int k = 0; k < OUTSIDE; k++) {
    pbXmlNode *end = NULL;
    for (pbXmlNode *section = root->first; section; section = section->next)
      if (IS(section, outside[k])) end = section;

    const pbXmlNode *stop = end ? end->last : NULL;
    for (pbXmlNode *section = root->first; section; section = section->next) {
      if (!IS(section, outside[k])) continue;

      const pbXmlNode *last = section == end ? stop : section->last;
      for (pbXmlNode *node = last ? section->first : NULL; node; node = node == last ? NULL : node->next)
        PB_TRY(copy_outside(u, node, end));
    }
  }
  return pb_ok;
}

// ---- what referred to the contents and cannot any more ------------------------------------------------------------------

// Names that went with the contents are set to this.
enum { GONE = -2 };

typedef struct fate {
  bool gone, unknown;  // refers to what went with the contents; to what was not there before
} fate;

static void look_up_name(const pbMjcfReader *reader, int kind, const char *name, fate *f) {
  int id = pbNames_Find(&reader->names, kind == pb_refXbody ? pb_refBody : kind, name);
  f->gone |= id == GONE;
  f->unknown |= id < 0 && id != GONE;
}

// MuJoCo leaves alone what refers to things that come later in the file; that ends as an unknown name.
static bool refers_to_gone(const unroll *u, const pbXmlNode *node) {
  reference references[MOST_REFERENCES];
  fate f = {false, false};

  int count = references_of(node, references);
  for (int i = 0; i < count; i++) look_up_name(u->reader, references[i].kind, pbXml_Get(node, references[i].attribute), &f);

  // Stations of a tendon and entries of a tuple are children.
  if (IS(node->parent, "tendon"))
    for (pbXmlNode *station = node->first; station; station = station->next)
      if (!IS(station, "pulley"))
        look_up_name(u->reader, IS(station, "joint") ? pb_refJoint : pb_refSite, pbXml_Get(station, station->name), &f);

  if (IS(node, "tuple"))
    for (pbXmlNode *entry = node->first; entry; entry = entry->next)
      look_up_name(u->reader, kind_of(&(pbXmlNode){.name = pbXml_Get(entry, "objtype")}), pbXml_Get(entry, "objname"), &f);

  return f.gone && !f.unknown;
}

// An equality between inside and outside has no replica; MuJoCo drops it without a word.
static void warn_dropped(unroll *u, const pbXmlNode *node) {
  reference references[MOST_REFERENCES];
  int count = references_of(node, references);

  // Only where one of the two is still there was it between inside and outside.
  if (!IS(node->parent, "equality") || count < 2) return;

  for (int i = 0; i < count; i++)
    if (name_exists(u->reader, references[i].kind, pbXml_Get(node, references[i].attribute)))
      pbContext_Warn(u->reader->ctx,
                     "%.400s:%d:%d: %s: joins the contents of a replicate with something outside; dropped, as in MuJoCo",
                     node->place.file, node->place.line, node->place.column, node->name);
}

static pbStatus drop_references(unroll *u) {
  // Names of dropped elements are gone as well, so that later kinds that refer to them (sensors of actuators, say) go too.
  for (int k = 0; k < OUTSIDE; k++)
    for (pbXmlNode *section = u->reader->document.root->first; section; section = section->next) {
      if (!IS(section, outside[k])) continue;

      pbXmlNode *before = NULL;
      for (pbXmlNode *node = section->first, *next; node; node = next) {
        next = node->next;
        PB_TRY(count_work(u->reader, node));

        if (!refers_to_gone(u, node)) {
          before = node;
          continue;
        }

        warn_dropped(u, node);
        PB_TRY(set_name(u->reader, node, kind_outside(section), GONE));

        pbXml_Remove(node, before);
        node->next = u->dropped;
        u->dropped = node;
      }
    }
  return pb_ok;
}

// From here on names that are gone are free again.
static pbStatus forget_gone(unroll *u, const pbXmlNode *replicate) {
  for (const pbXmlNode *node = u->dropped; node; node = node->next)
    PB_TRY(set_name(u->reader, node, kind_outside(node->parent), -1));
  return set_names_below(u->reader, replicate, -1);
}

// ---- poses of replicas -----------------------------------------------------------------------------------------------

// Hamilton's product of two quaternions (w, x, y, z); `out` may be one of them.
static void multiply_quaternions(const double *a, const double *b, double *out) {
  double w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
  double x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
  double y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
  double z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];

  out[0] = w;
  out[1] = x;
  out[2] = y;
  out[3] = z;
}

// v rotated by a unit quaternion q = (w, u): v + w t + u x t with t = 2 u x v.
static void rotate_vector(const double *q, const double *v, double *out) {
  double t[3] = {2 * (q[2] * v[2] - q[3] * v[1]), 2 * (q[3] * v[0] - q[1] * v[2]), 2 * (q[1] * v[1] - q[2] * v[0])};
  out[0] = v[0] + q[0] * t[0] + q[2] * t[2] - q[3] * t[1];
  out[1] = v[1] + q[0] * t[1] + q[3] * t[0] - q[1] * t[2];
  out[2] = v[2] + q[0] * t[2] + q[1] * t[1] - q[2] * t[0];
}

// Euler angles to a quaternion: lower-case axes rotate with the body, upper-case ones are fixed in the parent.
static void from_euler(const pbCompilerSettings *compiler, const double *angles, double factor, double *out) {
  out[0] = 1;
  out[1] = 0;
  out[2] = 0;
  out[3] = 0;

  double unit = compiler->degree ? 3.14159265358979323846 / 180 : 1;

  for (int i = 0; i < 3; i++) {
    char axis = compiler->eulerseq[i];
    double half = 0.5 * factor * angles[i] * unit;
    double step[4] = {cos(half), 0, 0, 0};
    step[1 + ((axis | 32) - 'x')] = sin(half);  // | 32: lower case

    // About an axis of the body the new rotation acts first, about a fixed one last.
    if (axis >= 'x') multiply_quaternions(out, step, out);
    else multiply_quaternions(step, out, out);
  }
}

// ---- unrolling ----------------------------------------------------------------------------------------------------------

// One frame with a copy of the contents, and copies of what refers to them.
static pbStatus one_replica(unroll *u, const pbXmlNode *replicate, pbXmlNode *parent, const double *pose) {
  pbXmlNode *frame = pbXml_Copy(&u->reader->document, replicate, parent);
  double *own = pbSpecPool_Take(&u->reader->document.pool, 7, sizeof *own);
  pbMjcfReader *reader = u->reader;
  if (!frame) return pb_bad_input;
  if (!own) return NO_MEMORY(replicate);

  memcpy(own, pose, 7 * sizeof *own);

  // The replicate itself becomes the frame of this replica, with a pose instead of attributes.
  frame->name = "frame";
  frame->attribute_count = 0;
  frame->pose = own;

  for (pbXmlNode *child = replicate->first; child; child = child->next) PB_TRY(copy_below(u, child, frame));
  return copy_references(u);
}

// Replicas of one node are made under `holder`, a node that is not in the tree yet.
static pbStatus make_replicas(pbMjcfReader *reader, const pbXmlNode *node, pbXmlNode *holder) {
  double count;
  double offset[3] = {0};
  double euler[3] = {0};

  int n;
  (void)pbMjcf_Real(reader, node, "count", &count);
  if (count < 1) return FAIL(node, "attribute 'count' is %g, expected at least 1", count);
  (void)pbMjcf_Reals(reader, node, "offset", offset, 3, &n);
  (void)pbMjcf_Reals(reader, node, "euler", euler, 3, &n);

  const char *separator = pbXml_Get(node, "sep");
  char suffix[PB_MJCF_TEXT + 16];
  if (separator && strlen(separator) > 100) return FAIL(node, "attribute 'sep' is longer than 100 bytes");

  // Numbers in the suffixes all have the digits of the count, as in MuJoCo.
  int digits = snprintf(NULL, 0, "%d", (int)count);
  unroll u = {.reader = reader, .suffix = suffix};

  // Replica i has the rotation i * euler; its position is the sum of the offsets, each seen from the replica before.
  double rotation[4] = {1, 0, 0, 0};
  double step[4];
  double pose[7] = {0, 0, 0, 1, 0, 0, 0};
  from_euler(&reader->spec->compiler, euler, 1, step);
  for (int i = 0; i < (int)count; i++) {
    snprintf(suffix, sizeof suffix, "%s%0*d", separator ? separator : "", digits, i);
    from_euler(&reader->spec->compiler, euler, i, pose + 3);

    PB_TRY(one_replica(&u, node, holder, pose));
    double moved[3];
    rotate_vector(rotation, offset, moved);
    for (int k = 0; k < 3; k++) pose[k] += moved[k];
    multiply_quaternions(rotation, step, rotation);
  }

  // What still refers to the originals goes with them.
  PB_TRY(set_names_below(reader, node, GONE));
  PB_TRY(drop_references(&u));
  return forget_gone(&u, node);
}

static pbStatus unroll_below(pbMjcfReader *reader, pbXmlNode *parent);

// Replace a replicate by its frames; *last is the last of them.
static pbStatus unroll_one(pbMjcfReader *reader, pbXmlNode *node, pbXmlNode *before, pbXmlNode **last) {
  pbXmlNode *parent = node->parent, holder = {.name = "replicate", .element = node->element};
  for (pbXmlNode *child = node->first; child; child = child->next)
    if (IS(child, "joint") || IS(child, "freejoint") || IS(child, "inertial"))
      return FAIL(child, "cannot stand directly in a replicate; wrap it in a body");

  // Inner replicates first: each is unrolled as often as the outer one copies it.
  PB_TRY(unroll_below(reader, node));
  PB_TRY(make_replicas(reader, node, &holder));

  // The frames take the place of the replicate in its parent's list of children.
  for (pbXmlNode *frame = holder.first; frame; frame = frame->next) frame->parent = parent;
  holder.last->next = node->next;
  if (before) before->next = holder.first;
  else parent->first = holder.first;
  if (parent->last == node) parent->last = holder.last;

  *last = holder.last;
  return pb_ok;
}

static pbStatus unroll_below(pbMjcfReader *reader, pbXmlNode *parent) {
  pbXmlNode *before = NULL;
  for (pbXmlNode *node = parent->first; node; node = before->next) {
    if (IS(node, "replicate")) {
      PB_TRY(unroll_one(reader, node, before, &before));
      continue;
    }

    PB_TRY(set_name(reader, node, kind_of(node), 1));
    PB_TRY(unroll_below(reader, node));
    before = node;
  }
  return pb_ok;
}

static bool has_replicate(const pbXmlNode *node) {
  if (IS(node, "replicate")) return true;
  for (pbXmlNode *child = node->first; child; child = child->next)
    if (has_replicate(child)) return true;
  return false;
}

pbStatus pbMjcf_Replicate(pbMjcfReader *reader) {
  pbXmlNode *root = reader->document.root;
  if (!has_replicate(root)) return pb_ok;

  // The world is there without being in the file.
  if (!pbNames_Set(&reader->names, pb_refBody, "world", 1)) return NO_MEMORY(root);

  // Names of the sections outside the tree are known from the start, those of the tree as the walk meets them.
  for (pbXmlNode *section = root->first; section; section = section->next) {
    int kind = kind_outside(section);
    if (kind != pb_refNone)
      for (pbXmlNode *node = section->first; node; node = node->next) PB_TRY(set_name(reader, node, kind, 1));
  }

  for (pbXmlNode *section = root->first; section; section = section->next)
    if (IS(section, "worldbody")) PB_TRY(unroll_below(reader, section));

  return pb_ok;
}
