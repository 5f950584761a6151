// A link onto its body: inertia as given, collision shapes that collide, visual ones that are seen. Shapes, groups and colours
// are what MuJoCo makes of them.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "io/urdf/urdf_reader.h"

// ---- inertia ------------------------------------------------------------------------------------------------------------

// Inertias that are not repaired, and not bounded by a `compiler` element, are to be some body's.
static bool is_strict(const pbUrdfReader *reader) {
  return reader->options->inertia == pb_inertiaRefuse && !(reader->spec->compiler.boundinertia > 0);
}

// Principal moments and axes of the tensor, which stands in the frame of the origin. What no body has is judged when what it is
// fixed to is known (urdf_weld.c).
static pbStatus read_tensor(pbUrdfReader *reader, pbUrdfLink *link, const pbXmlNode *node, pbBodyDef *body) {
  static const char *const entries[6] = {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"};
  double full[6], axes[4];
  bool any = false;

  for (int i = 0; i < 6; i++) {
    PB_TRY(pbUrdf_NeedReals(reader, node, entries[i], 1, &full[i]));
    any = any || full[i] != 0;
  }

  // No tensor has moments below zero; all zeros stand for none.
  const char *wrong = pbPose_Principal(full, axes, body->diaginertia);
  pbPose_MulQuat(body->inertial.quat, body->inertial.quat, axes);
  if (!is_strict(reader) || !any) return pb_ok;

  bool balanced = reader->spec->compiler.balanceinertia || pbUrdf_IsTriangle(body->diaginertia);
  if (!wrong && !balanced) wrong = "no body has such moments of inertia: each is at most the sum of the other two";
  link->wrong = wrong;
  return pb_ok;
}

// Without a mass the shapes that collide have it, at the density that is stated.
static pbStatus read_density(pbUrdfReader *reader, const pbXmlNode *node, pbUrdfLink *link) {
  const pbXmlNode *density = pbUrdf_Child(node, "density");
  PB_ASSERT(density);
  PB_TRY(pbUrdf_NeedReals(reader, density, "value", 1, &link->density));

  if (!(link->density > 0)) return FAIL(density, "attribute 'value' is %g, expected a positive number", link->density);
  if (!pbUrdf_Child(link->node, "collision")) return FAIL(node, "has a density, and its link no shape that collides");

  WARN(node, "has a density and no mass: its collision shapes give it mass, at %g kg/m^3", link->density);
  return pb_ok;
}

static pbStatus read_inertial(pbUrdfReader *reader, const pbXmlNode *node, pbUrdfLink *link, pbBodyDef *body) {
  const pbXmlNode *mass, *inertia = pbUrdf_Child(node, "inertia");
  if (!pbUrdf_Child(node, "mass") && pbUrdf_Child(node, "density")) return read_density(reader, node, link);
  PB_TRY(pbUrdf_Need(reader, node, "mass", &mass));

  body->has_inertial = true;
  body->inertial_frame = -1;
  PB_TRY(pbUrdf_Origin(reader, node, &body->inertial));
  PB_TRY(pbUrdf_NeedReals(reader, mass, "value", 1, &body->mass));
  if (inertia) return read_tensor(reader, link, inertia, body);

  WARN(node, "has no 'inertia': its mass is a point");
  return pb_ok;
}

// A link that states no inertia has none in ROS; MuJoCo gives it that of its collision shapes.
static void infer_inertial(pbUrdfReader *reader, const pbUrdfLink *link, pbBodyDef *body) {
  if (!pbUrdf_Child(link->node, "collision") || reader->spec->compiler.inertiafromgeom == pb_false) return;
  if (reader->options->inertia != pb_inertiaKeep) {
    WARN(link->node, "has no <inertial>: as in MuJoCo its collision shapes give it mass, at 1000 kg/m^3 (--inertia keep: none)");
    return;
  }

  body->has_inertial = true;
  body->inertial_frame = -1;
  body->inertial = (pbPose){.quat = {1, 0, 0, 0}};
}

static pbStatus read_inertia(pbUrdfReader *reader, pbUrdfLink *link) {
  const pbXmlNode *inertial = pbUrdf_Child(link->node, "inertial");
  // The world has none.
  if (!link->body) {
    if (inertial) WARN(link->node, "is the world itself: its inertia is ignored");
    return pb_ok;
  }

  pbBodyDef *body = &reader->spec->bodies[link->body];
  if (inertial) return read_inertial(reader, inertial, link, body);
  infer_inertial(reader, link, body);
  return pb_ok;
}

// ---- shapes -------------------------------------------------------------------------------------------------------------

// Radius and half length.
static pbStatus read_round(pbUrdfReader *reader, const pbXmlNode *node, pbGeomDef *def) {
  PB_TRY(pbUrdf_NeedReals(reader, node, "radius", 1, &def->size[0]));
  if (def->type == pb_geomSphere) return pb_ok;

  PB_TRY(pbUrdf_NeedReals(reader, node, "length", 1, &def->size[1]));
  def->size[1] /= 2;
  return pb_ok;
}

static pbStatus read_shape(pbUrdfReader *reader, const pbXmlNode *geometry, pbGeomDef *def) {
  const pbXmlNode *node = geometry->first;
  if (!node) return FAIL(geometry, "has no shape: expected one of box, cylinder, capsule, sphere, mesh");

  if (node->next) WARN(node->next, "a geometry has one shape: the first, '%.60s', is taken", node->name);

  // Those with a radius and perhaps a length.
  static const struct {
    const char *name;
    int type;
  } rounds[] = {{"cylinder", pb_geomCylinder}, {"sphere", pb_geomSphere}, {"capsule", pb_geomCapsule}};
  for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
    if (strcmp(node->name, rounds[i].name) != 0) continue;
    def->type = rounds[i].type;
    return read_round(reader, node, def);
  }

  // A file, or half sizes.
  if (!strcmp(node->name, "mesh")) {
    def->type = pb_geomMesh;
    return pbUrdf_Mesh(reader, node, &def->mesh);
  }

  if (strcmp(node->name, "box") != 0) return FAIL(node, "expected one of box, cylinder, capsule, sphere, mesh");
  def->type = pb_geomBox;
  PB_TRY(pbUrdf_NeedReals(reader, node, "size", 3, def->size));
  for (int i = 0; i < 3; i++) def->size[i] /= 2;
  return pb_ok;
}

// The colour of a visual shape: its own, or that of a material of this name anywhere.
static pbStatus read_color(pbUrdfReader *reader, const pbXmlNode *visual, double rgba[4], bool *given) {
  const pbXmlNode *material = pbUrdf_Child(visual, "material");
  const char *name = material ? pbXml_Get(material, "name") : NULL;
  const pbXmlNode *color = material ? pbUrdf_Child(material, "color") : NULL;

  int known = name && !color ? pbNames_Find(&reader->names, PB_URDF_MATERIAL, name) : -1;
  if (known >= 0) color = reader->colors[known];
  if (!color) return pb_ok;

  double found[4];
  pbStatus status = pbUrdf_NeedReals(reader, color, "rgba", 4, found);
  if (status == pb_ok) {
    memcpy(rgba, found, sizeof found);
    *given = true;
  }
  if (status != pb_bad_input) return status;

  // Nothing hangs on a colour.
  char text[600];
  snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
  pbContext_Warn(reader->ctx, "%s; the colour is ignored", text);
  return pb_ok;
}

// Names of shapes need not be unique in URDF: the first keeps it.
static pbStatus name_geom(pbUrdfReader *reader, const pbXmlNode *node, pbGeomDef *def) {
  const char *name = pbXml_Get(node, "name");
  if (!name || !*name || pbNames_Find(&reader->names, PB_URDF_GEOM, name) >= 0) return pb_ok;

  def->name = name;
  return pbNames_Set(&reader->names, PB_URDF_GEOM, name, reader->spec->ngeom) ? pb_ok : NO_MEMORY(node);
}

// The least of its sizes; 1 of a mesh.
static double least_size(const pbGeomDef *def) {
  static const int sizes[] = {[pb_geomSphere] = 1, [pb_geomCapsule] = 2, [pb_geomCylinder] = 2, [pb_geomBox] = 3};
  if (def->type == pb_geomMesh) return 1;

  double least = def->size[0];
  for (int i = 1; i < sizes[def->type]; i++) least = fmin(least, def->size[i]);
  return least;
}

static pbStatus add_geom(pbUrdfReader *reader, const pbUrdfLink *link, const pbXmlNode *node, const double *rgba) {
  bool collides = !strcmp(node->name, "collision");
  const pbXmlNode *geometry;
  pbGeomDef def = pbGeomDef_Default();
  def.body = link->body;
  def.place = node->place;

  // What is only seen weighs nothing.
  if (!collides) {
    def.contype = def.conaffinity = 0;
    def.group = 1;
    def.density = 0;
  }

  if (collides && link->density > 0) def.density = link->density;
  if (rgba) memcpy(def.rgba, rgba, sizeof def.rgba);
  PB_TRY(pbUrdf_Need(reader, node, "geometry", &geometry));
  PB_TRY(read_shape(reader, geometry, &def));
  PB_TRY(pbUrdf_Origin(reader, node, &def.pose));

  double least = least_size(&def);
  if (least < 0 && collides) return FAIL(geometry->first, "a shape that collides has a negative size (%g)", least);
  if (!(least > 0)) {
    WARN(geometry->first, "a shape without size %s", collides ? "does not collide" : "is not seen");
    return pb_ok;
  }

  PB_TRY(name_geom(reader, node, &def));
  return pbSpec_AddGeom(reader->spec, &def) < 0 ? NO_MEMORY(node) : pb_ok;
}

pbStatus pbUrdf_Link(pbUrdfReader *reader, pbUrdfLink *link) {
  double rgba[4];
  bool given = false;
  PB_TRY(read_inertia(reader, link));

  // Shapes in the order of the file; those that collide have the colour of the last that is seen.
  for (const pbXmlNode *node = link->node->first; node; node = node->next) {
    bool seen = !strcmp(node->name, "visual");
    if (!seen && strcmp(node->name, "collision") != 0) continue;

    if (seen) PB_TRY(read_color(reader, node, rgba, &given));
    PB_TRY(add_geom(reader, link, node, given ? rgba : NULL));
  }
  return pb_ok;
}
