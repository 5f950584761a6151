// URDF to spec. The tree of elements is read and checked first (io/xml, urdf_check.c); links and joints are made a tree; then
// each link becomes a body, depth first, with its joint and its shapes.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/suggest.h"
#include "compile/compile.h"
#include "io/urdf/urdf_reader.h"

// ---- links and joints ---------------------------------------------------------------------------------------------------

static int count_children(const pbXmlNode *node, const char *name) {
  int count = 0;
  for (const pbXmlNode *child = node->first; child; child = child->next) count += !strcmp(child->name, name);
  return count;
}

// A name that no other of its kind has.
static pbStatus add_name(pbUrdfReader *reader, const pbXmlNode *node, int kind, int id, const char **name) {
  PB_TRY(pbUrdf_NeedText(reader, node, "name", name));
  if (strlen(*name) > 1000) return FAIL(node, "its name is longer than 1000 bytes");
  if (pbNames_Find(&reader->names, kind, *name) >= 0) return FAIL(node, "there are two of this name");
  return pbNames_Set(&reader->names, kind, *name, id) ? pb_ok : NO_MEMORY(node);
}

static pbStatus find_links(pbUrdfReader *reader) {
  const pbXmlNode *root = reader->document->root;
  int count = count_children(root, "link");
  if (!count) return FAIL(root, "has no links");

  reader->links = pbSpecPool_Take(&reader->document->pool, (size_t)count, sizeof *reader->links);
  if (!reader->links) return NO_MEMORY(root);

  for (const pbXmlNode *node = root->first; node; node = node->next) {
    if (strcmp(node->name, "link") != 0) continue;

    // Joints and children are found later.
    pbUrdfLink *link = &reader->links[reader->link_count];
    *link = (pbUrdfLink){.node = node, .joint = -1, .first = -1, .last = -1, .sibling = -1, .body = -1};
    PB_TRY(add_name(reader, node, PB_URDF_LINK, reader->link_count, &link->name));
    reader->link_count++;
  }
  return pb_ok;
}

static pbStatus read_type(pbUrdfReader *reader, const pbXmlNode *node, pbUrdfType *type) {
  static const char *const words[] = {"revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical"};
  const char *text;
  PB_TRY(pbUrdf_NeedText(reader, node, "type", &text));

  for (int i = 0; i < (int)(sizeof words / sizeof *words); i++) {
    if (strcmp(text, words[i]) != 0) continue;
    *type = (pbUrdfType)i;
    return pb_ok;
  }
  return FAIL(node, "attribute 'type' is \"%.40s\", expected one of: revolute, continuous, prismatic, fixed, floating, planar",
              text);
}

// The link that a `parent` or `child` names.
static pbStatus find_end(pbUrdfReader *reader, const pbXmlNode *joint, const char *which, int *link) {
  const pbXmlNode *node;
  const char *name;
  char near[160];
  PB_TRY(pbUrdf_Need(reader, joint, which, &node));
  PB_TRY(pbUrdf_NeedText(reader, node, "link", &name));

  *link = pbNames_Find(&reader->names, PB_URDF_LINK, name);
  if (*link >= 0) return pb_ok;

  // Mistyped, most of the time.
  pbSuggest suggest = pbSuggest_For(name);
  for (int i = 0; i < reader->link_count; i++) pbSuggest_Offer(&suggest, reader->links[i].name);
  return FAIL(node, "there is no link '%.200s'%s", name, pbSuggest_Write(&suggest, near, sizeof near));
}

static pbStatus read_joint(pbUrdfReader *reader, const pbXmlNode *node, int id) {
  pbUrdfJoint *joint = &reader->joints[id];
  joint->node = node;
  joint->mimic = pbUrdf_Child(node, "mimic");
  PB_TRY(add_name(reader, node, PB_URDF_JOINT, id, &joint->name));
  PB_TRY(read_type(reader, node, &joint->type));
  PB_TRY(find_end(reader, node, "parent", &joint->parent));
  PB_TRY(find_end(reader, node, "child", &joint->child));

  // One parent each.
  pbUrdfLink *child = &reader->links[joint->child], *parent = &reader->links[joint->parent];
  if (joint->child == joint->parent) return FAIL(node, "link '%.200s' is its own parent", child->name);
  if (child->joint >= 0)
    return FAIL(node, "link '%.200s' has two parents: it is the child of joint '%.200s' (line %d), too", child->name,
                reader->joints[child->joint].name, reader->joints[child->joint].node->place.line);
  child->joint = id;

  // The parent's list keeps the order of the file.
  if (parent->last < 0) parent->first = id;
  else reader->links[reader->joints[parent->last].child].sibling = id;
  parent->last = id;
  return pb_ok;
}

static pbStatus find_joints(pbUrdfReader *reader) {
  const pbXmlNode *root = reader->document->root;
  int count = count_children(root, "joint");
  reader->joints = pbSpecPool_Take(&reader->document->pool, (size_t)count + 1, sizeof *reader->joints);
  if (!reader->joints) return NO_MEMORY(root);

  for (const pbXmlNode *node = root->first; node; node = node->next) {
    if (strcmp(node->name, "joint") != 0) continue;
    PB_TRY(read_joint(reader, node, reader->joint_count));
    reader->joint_count++;
  }
  return pb_ok;
}

static pbStatus find_root(pbUrdfReader *reader) {
  reader->root = -1;
  for (int i = 0; i < reader->link_count; i++) {
    if (reader->links[i].joint >= 0) continue;
    if (reader->root >= 0)
      return FAIL(reader->links[i].node, "there are two roots: no joint has this link or '%.200s' (line %d) as its child",
                  reader->links[reader->root].name, reader->links[reader->root].node->place.line);
    reader->root = i;
  }

  // Every link has a parent, so there is a loop.
  if (reader->root < 0) return FAIL(reader->links[0].node, "links are their own ancestors: none is the root");
  bool world = !strcmp(reader->links[reader->root].name, "world");
  if (world && reader->options->floating_base)
    return FAIL(reader->links[reader->root].node, "the root link is the world, which cannot float (--floating-base)");
  return pb_ok;
}

// ---- materials ----------------------------------------------------------------------------------------------------------

// Colours by the names of materials, wherever they stand; the first of a name counts, as in MuJoCo.
static pbStatus add_color(pbUrdfReader *reader, const pbXmlNode *material) {
  const char *name = pbXml_Get(material, "name");
  const pbXmlNode *color = pbUrdf_Child(material, "color");
  if (!name || !color || pbNames_Find(&reader->names, PB_URDF_MATERIAL, name) >= 0) return pb_ok;

  if (!pbNames_Set(&reader->names, PB_URDF_MATERIAL, name, reader->color_count)) return NO_MEMORY(material);
  reader->colors[reader->color_count++] = color;
  return pb_ok;
}

static pbStatus find_colors(pbUrdfReader *reader) {
  const pbXmlNode *root = reader->document->root;
  size_t most = (size_t)reader->document->elements;
  reader->colors = pbSpecPool_Take(&reader->document->pool, most, sizeof *reader->colors);
  reader->mesh_nodes = pbSpecPool_Take(&reader->document->pool, most, sizeof *reader->mesh_nodes);
  if (!reader->colors || !reader->mesh_nodes) return NO_MEMORY(root);

  for (const pbXmlNode *node = root->first; node; node = node->next) {
    if (!strcmp(node->name, "material")) PB_TRY(add_color(reader, node));
    if (strcmp(node->name, "link") != 0) continue;

    for (const pbXmlNode *visual = node->first; visual; visual = visual->next) {
      const pbXmlNode *material = strcmp(visual->name, "visual") ? NULL : pbUrdf_Child(visual, "material");
      if (material) PB_TRY(add_color(reader, material));
    }
  }
  return pb_ok;
}

// ---- bodies -------------------------------------------------------------------------------------------------------------

static pbStatus add_root_joint(pbUrdfReader *reader, const pbUrdfLink *link) {
  char name[1100];
  pbJointDef def = pbJointDef_Default();

  snprintf(name, sizeof name, "%.1000s_free_joint", link->name);  // as MuJoCo names it
  def.name = pbSpec_Text(reader->spec, name);
  def.type = pb_jntFree;
  def.body = link->body;
  def.place = link->node->place;
  return def.name && pbSpec_AddJoint(reader->spec, &def) >= 0 ? pb_ok : NO_MEMORY(link->node);
}

static pbStatus add_body(pbUrdfReader *reader, pbUrdfLink *link) {
  bool root = link->joint < 0, world = !strcmp(link->name, "world");
  if (world && !root) return FAIL(link->node, "only the root can be the world: another link has this name");

  pbBodyDef def = pbBodyDef_Default();
  def.name = link->name;
  def.place = link->node->place;
  def.parent = root ? 0 : reader->links[reader->joints[link->joint].parent].body;
  link->body = world ? 0 : pbSpec_AddBody(reader->spec, &def);
  if (link->body < 0) return NO_MEMORY(link->node);

  link->still = root && !reader->options->floating_base;
  link->quat[0] = 1;
  if (!root) PB_TRY(pbUrdf_Joint(reader, &reader->joints[link->joint]));
  else if (reader->options->floating_base) PB_TRY(add_root_joint(reader, link));
  return pbUrdf_Link(reader, link);
}

// Depth first, children in the order of their joints. Links that are not reached are in a loop.
static pbStatus add_bodies(pbUrdfReader *reader) {
  int at = reader->root, added = 0;
  while (at >= 0) {
    const pbUrdfLink *link = &reader->links[at];
    PB_TRY(add_body(reader, &reader->links[at]));
    added++;

    // Down, or up until there is a sibling.
    int next = link->first;
    while (next < 0 && link->joint >= 0) {
      next = link->sibling;
      if (next < 0) link = &reader->links[reader->joints[link->joint].parent];
    }
    at = next < 0 ? -1 : reader->joints[next].child;
  }

  PB_ASSERT(added <= reader->link_count);
  for (int i = 0; i < reader->link_count; i++)
    if (reader->links[i].body < 0)
      return FAIL(reader->links[i].node, "links are their own ancestors: the root does not reach it");
  return pb_ok;
}

// ---- the file -----------------------------------------------------------------------------------------------------------

// Our defaults, and over them what a `mujoco` element says. Angles are in radians whatever it says.
static pbStatus read_settings(pbUrdfReader *reader) {
  const pbXmlNode *root = reader->document->root;
  const char *name = pbXml_Get(root, "name");
  pbSpec *spec = reader->spec;
  if (name && !(spec->model_name = pbSpec_Text(spec, name))) return NO_MEMORY(root);
  if (reader->document->folder && !(spec->folder = pbSpec_Text(spec, reader->document->folder))) return NO_MEMORY(root);

  for (pbXmlNode *node = root->first; node; node = node->next)
    if (!strcmp(node->name, "mujoco")) PB_TRY(pbMjcf_ReadSettings(reader->document, node, spec, &reader->folders));

  spec->compiler.degree = false;
  spec->compiler.fusestatic = spec->compiler.fusestatic || reader->options->fuse;
  spec->compiler.inertiarule = reader->options->inertia;
  return pb_ok;
}

static pbStatus read_robot(pbUrdfReader *reader) {
  PB_TRY(pbUrdf_Check(reader));
  PB_TRY(read_settings(reader));
  PB_TRY(find_links(reader));
  PB_TRY(find_joints(reader));
  PB_TRY(find_root(reader));
  PB_TRY(find_colors(reader));

  PB_TRY(add_bodies(reader));
  PB_TRY(pbUrdf_JudgeInertia(reader));
  PB_TRY(pbUrdf_Mimics(reader));
  if (reader->options->motors) PB_TRY(pbUrdf_Motors(reader));

  pbUrdf_WarnIgnored(reader);
  PB_TRY(pbUrdf_LoadMeshes(reader));
  return pbSpec_Check(reader->spec);
}

pbStatus pbUrdf_Read(pbXmlDocument *document, const pbUrdfOptions *options, pbSpec *spec) {
  PB_ASSERT(document->root && spec->nbody == 1);
  pbUrdfReader reader = {.ctx = spec->ctx, .spec = spec, .document = document, .options = options, .names.ctx = spec->ctx};
  pbStatus status = read_robot(&reader);

  pbNames_Clear(&reader.names);
  return status;
}
