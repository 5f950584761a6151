// The tree against what is known of URDF: what else stands in a file is ignored, one warning for each kind. Elements that are
// given twice are refused where that changes anything, and text that xacro has yet to expand.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <stdio.h>
#include <string.h>

#include "io/urdf/urdf_reader.h"

typedef struct known {
  const char *path;        // parent/element; the root is robot
  const char *attributes;  // that are read, or have no effect by their nature
  enum {
    MANY,
    ONCE,
    SAME,
    FIRST
  } times;  // in its parent: as in MuJoCo; or once more where it says the same, or the first counts
} known;

// `name` of elements that need none, `version` and `type` of a link are labels.
static const known table[] = {
    {"robot", "name version", MANY},
    {"robot/mujoco", NULL, ONCE},  // everything in it is read as MJCF
    {"robot/material", "name", MANY},
    {"robot/link", "name type", MANY},
    {"robot/joint", "name type", MANY},
    {"material/color", "rgba", ONCE},
    {"link/inertial", "", ONCE},
    {"link/visual", "name", MANY},
    {"link/collision", "name", MANY},
    {"inertial/origin", "xyz rpy", ONCE},
    {"inertial/mass", "value", SAME},
    {"inertial/density", "value", SAME},  // of the shapes that collide, instead of a mass
    {"inertial/inertia", "ixx ixy ixz iyy iyz izz", SAME},
    {"visual/origin", "xyz rpy", ONCE},
    {"visual/geometry", "", ONCE},
    {"visual/material", "name", FIRST},  // nothing hangs on a colour
    {"collision/origin", "xyz rpy", ONCE},
    {"collision/geometry", "", ONCE},
    {"geometry/box", "size", MANY},
    {"geometry/cylinder", "radius length", MANY},
    {"geometry/capsule", "radius length", MANY},
    {"geometry/sphere", "radius", MANY},
    {"geometry/mesh", "filename scale", MANY},
    {"joint/origin", "xyz rpy", ONCE},
    {"joint/parent", "link", ONCE},
    {"joint/child", "link", ONCE},
    {"joint/axis", "xyz", ONCE},
    {"joint/limit", "lower upper effort", ONCE},
    {"joint/dynamics", "damping friction", ONCE},
    {"joint/mimic", "joint multiplier offset", ONCE},
};
enum { TABLE_COUNT = sizeof table / sizeof *table };

// ---- what is ignored ----------------------------------------------------------------------------------------------------

static pbStatus note(pbUrdfReader *reader, const pbXmlNode *node, const char *what) {
  for (int i = 0; i < reader->ignored_count; i++) {
    if (strcmp(reader->ignored[i].what, what) != 0) continue;
    reader->ignored[i].count++;
    return pb_ok;
  }

  // The last counts what no place is left for.
  if (reader->ignored_count == PB_URDF_IGNORED - 1) what = "more";
  if (reader->ignored_count == PB_URDF_IGNORED) {
    reader->ignored[PB_URDF_IGNORED - 1].count++;
    return pb_ok;
  }

  const char *copy = pbSpecPool_Text(&reader->document->pool, what, strlen(what));
  if (!copy) return NO_MEMORY(node);
  reader->ignored[reader->ignored_count++] = (pbUrdfIgnored){copy, node, 1};
  return pb_ok;
}

void pbUrdf_WarnIgnored(pbUrdfReader *reader) {
  for (int i = 0; i < reader->ignored_count; i++) {
    const pbUrdfIgnored *kind = &reader->ignored[i];
    const pbPlace *place = &kind->first->place;
    pbContext_Warn(reader->ctx, "%.400s:%d:%d: ignored: %s%s", place->file, place->line, place->column, kind->what,
                   kind->count > 1 ? ", here and further on" : "");
  }
}

// ---- the tree -----------------------------------------------------------------------------------------------------------

static const known *find_known(const char *path) {
  for (int i = 0; i < TABLE_COUNT; i++)
    if (!strcmp(table[i].path, path)) return &table[i];
  return NULL;
}

static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
    bool starts = at == list || at[-1] == ' ';
    if (starts && (!at[length] || at[length] == ' ')) return true;
  }
  return false;
}

// Elements of xacro, and expressions that it would replace.
static pbStatus refuse_xacro(pbUrdfReader *reader, const pbXmlNode *node) {
  const char *file = node->place.file, *found = NULL;
  if (!strncmp(node->name, "xacro:", 6)) found = node->name;
  for (int i = 0; i < node->attribute_count && !found; i++) {
    const char *value = node->attributes[i].value;
    if (strstr(value, "${") || strstr(value, "$(")) found = value;
  }

  // What files on their way through xacro are called: robot.urdf.xacro.
  if (!found) return pb_ok;
  return REFUSE(node,
                "'%.60s' is for xacro: expand the file first, by 'xacro %.200s > robot.urdf' ('ros2 run xacro xacro ...'), or "
                "without ROS by 'xacrodoc %.200s -o robot.urdf' (pip install xacrodoc)",
                found, file, file);
}

static pbStatus check_attributes(pbUrdfReader *reader, const pbXmlNode *node, const known *row) {
  char what[160];

  for (int i = 0; i < node->attribute_count; i++) {
    const char *name = node->attributes[i].name;
    if (has_word(row->attributes, name) || !strncmp(name, "xmlns", 5)) continue;
    if (!strcmp(name, "velocity") && !strcmp(row->path, "joint/limit"))
      snprintf(what, sizeof what, "limits of velocity, which nothing enforces");
    else snprintf(what, sizeof what, "attribute '%.60s' of %s", name, row->path);
    PB_TRY(note(reader, node, what));
  }
  return pb_ok;
}

static bool says_the_same(const pbXmlNode *a, const pbXmlNode *b) {
  if (a->attribute_count != b->attribute_count) return false;
  for (int i = 0; i < a->attribute_count; i++) {
    const char *other = pbXml_Get(b, a->attributes[i].name);
    if (!other || strcmp(a->attributes[i].value, other) != 0) return false;
  }
  return true;
}

static pbStatus check_repeated(pbUrdfReader *reader, const pbXmlNode *parent, const pbXmlNode *node, int times) {
  const pbXmlNode *first = pbUrdf_Child(parent, node->name);
  if (first == node || times == MANY) return pb_ok;

  bool harmless = times == FIRST || (times == SAME && says_the_same(first, node));
  if (!harmless) return FAIL(node, "repeated element: '%.60s' has one already (line %d)", parent->name, first->place.line);
  WARN(node, "repeated element: '%.60s' has one already (line %d), which counts", parent->name, first->place.line);
  return pb_ok;
}

// Children are nested four deep at most: what lies deeper is ignored with what it lies in.
static pbStatus check_node(pbUrdfReader *reader, const pbXmlNode *node, const known *row) {
  PB_TRY(refuse_xacro(reader, node));
  if (!row->attributes) return pb_ok;
  PB_TRY(check_attributes(reader, node, row));

  for (const pbXmlNode *child = node->first; child; child = child->next) {
    char path[160], what[200];
    snprintf(path, sizeof path, "%.60s/%.60s", node->name, child->name);
    const known *found = find_known(path);

    if (found) {
      PB_TRY(check_repeated(reader, node, child, found->times));
      PB_TRY(check_node(reader, child, found));
      continue;
    }

    // What is not known is not looked into.
    PB_TRY(refuse_xacro(reader, child));
    snprintf(what, sizeof what, "element %s", path);
    PB_TRY(note(reader, child, what));
  }
  return pb_ok;
}

pbStatus pbUrdf_Check(pbUrdfReader *reader) { return check_node(reader, reader->document->root, &table[0]); }
