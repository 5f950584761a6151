// MJCF to spec. The tree is read and checked against the table first (io/xml, mjcf_check.c), replicas are made of replicate
// (mjcf_replicate.c), then sections are taken in the order settings, defaults, tree, everything outside the tree.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/mjcf/mjcf.h"
#include "io/mjcf/mjcf_reader.h"
#include "model/equality.h"

enum { CLASS_KIND = -1 };

#define IS(node, text) (!strcmp((node)->name, text))

// ---- defaults -----------------------------------------------------------------------------------------------------------

pbMjcfReader *pbMjcf_ReaderOf(const pbMjcfReader *reader, const pbXmlNode *node) {
  return reader->family->readers[node->place.model];
}

// Of the model that is being read.
static pbMjcfClass *find_class(const pbMjcfReader *reader, const char *name) {
  int id = pbNames_Find(&reader->names, CLASS_KIND, name);
  return id < 0 ? NULL : reader->family->classes[id];
}

// Another class, a copy of `parent` or of the built-in defaults.
static pbStatus add_class(pbMjcfReader *reader, const pbXmlNode *node, const char *name, const pbMjcfClass *parent,
                          pbMjcfClass **class) {
  pbMjcfFamily *family = reader->family;
  if (family->class_count >= PB_MJCF_CLASSES) return FAIL(node, "there are more than %d defaults classes", PB_MJCF_CLASSES);

  pbMjcfClass *made = pbSpecPool_Take(&reader->document.pool, 1, sizeof *made);

  // The name lives as long as the spec, the class only as long as the reader.
  const char *copy = made ? pbSpec_Text(reader->spec, name) : NULL;
  if (!copy || !pbNames_Set(&reader->names, CLASS_KIND, copy, family->class_count)) return NO_MEMORY(node);

  if (parent) {
    *made = *parent;
  } else {
    *made = (pbMjcfClass){copy,
                          NULL,
                          "general",
                          pbJointDef_Default(),
                          pbGeomDef_Default(),
                          pbSiteDef_Default(),
                          pbCameraDef_Default(),
                          pbLightDef_Default(),
                          pbPairDef_Default(),
                          pbEqualityDef_Default(),
                          pbTendonDef_Default(),
                          pbActuatorDef_Default(),
                          pbMeshDef_Default(),
                          {1, 1, 1, 1}};
  }

  made->name = copy;
  made->parent = parent;
  *class = family->classes[family->class_count++] = made;
  return pb_ok;
}

static void read_fluidshape(const pbMjcfReader *reader, const pbXmlNode *node, pbGeomDef *def) {
  def->fluid_ellipsoid = pbMjcf_Word(reader, node, "fluidshape", def->fluid_ellipsoid);
}

// One length of the spring is both.
static void read_springlength(const pbMjcfReader *reader, const pbXmlNode *node, pbTendonDef *def) {
  int count;
  if (pbMjcf_Reals(reader, node, "springlength", def->springlength, 2, &count) && count == 1)
    def->springlength[1] = def->springlength[0];
}

static pbStatus record_visual(pbMjcfReader *reader, const pbXmlNode *node, int parent, const double *rgba);

static pbStatus read_class_member(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfClass *class) {
  // A defaults class has one value for each kind of element, named like the element.
  int count;
  if (IS(node, "joint")) return pbMjcf_Store(reader, node, &class->joint);
  if (IS(node, "geom")) {
    read_fluidshape(reader, node, &class->geom);
    return pbMjcf_Store(reader, node, &class->geom);
  }

  if (IS(node, "site")) return pbMjcf_Store(reader, node, &class->site);
  if (IS(node, "camera")) return pbMjcf_Store(reader, node, &class->camera);
  if (IS(node, "light")) return pbMjcf_Store(reader, node, &class->light);
  if (IS(node, "pair")) return pbMjcf_Store(reader, node, &class->pair);
  if (IS(node, "equality")) return pbMjcf_Store(reader, node, &class->equality);

  if (IS(node, "tendon")) {
    read_springlength(reader, node, &class->tendon);
    return pbMjcf_Store(reader, node, &class->tendon);
  }

  // Visual elements: all are recorded as they stand; the color is what elements of the class inherit.
  if (IS(node, "material")) (void)pbMjcf_Reals(reader, node, "rgba", class->material_rgba, 4, &count);
  if (IS(node, "mesh")) PB_TRY(pbMjcf_Store(reader, node, &class->mesh));
  if (IS(node, "mesh") || IS(node, "material") || IS(node, "texture")) return record_visual(reader, node, -1, NULL);
  return pbMjcf_ActuatorDefault(reader, node, class);
}

static pbStatus read_default(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *parent) {
  const char *name = pbXml_Get(node, "class");
  pbMjcfClass *class = find_class(reader, "main");

  if (parent) {
    if (!name || !*name) return FAIL(node, "a nested default needs a class");
    if (find_class(reader, name)) return FAIL(node, "there are two defaults classes '%s'", name);
    PB_TRY(add_class(reader, node, name, parent, &class));
  } else if (name && *name && strcmp(name, "main")) {
    return FAIL(node, "the outermost defaults class is named 'main', not '%s'", name);
  }

  // Members first: a nested class copies what its parent has.
  for (const pbXmlNode *child = node->first; child; child = child->next)
    if (!IS(child, "default")) PB_TRY(read_class_member(reader, child, class));
  for (const pbXmlNode *child = node->first; child; child = child->next)
    if (IS(child, "default")) PB_TRY(read_default(reader, child, class));
  return pb_ok;
}

const pbMjcfClass *pbMjcf_FindClass(pbMjcfReader *reader, const pbXmlNode *node, const char *name) {
  const pbMjcfClass *found = find_class(pbMjcf_ReaderOf(reader, node), name);
  if (!found) (void)FAIL(node, "there is no defaults class '%s'", name);
  return found;
}

const pbMjcfClass *pbMjcf_ClassOf(pbMjcfReader *reader, const pbXmlNode *node, const char *attribute,
                                  const pbMjcfClass *otherwise) {
  const char *name = pbXml_Get(node, attribute);
  return name ? pbMjcf_FindClass(reader, node, name) : otherwise;
}

// Outside the tree: what names none has the outermost defaults of its model.
static const pbMjcfClass *class_outside(pbMjcfReader *reader, const pbXmlNode *node) {
  return pbMjcf_ClassOf(reader, node, "class", pbMjcf_ReaderOf(reader, node)->main);
}

// ---- the tree -----------------------------------------------------------------------------------------------------------

typedef struct spot {  // where elements are being read
  int body, frame;
  const pbMjcfClass *class;  // defaults of what names none
} spot;

#define ADD(Kind, def) (pbSpec_Add##Kind(reader->spec, def) < 0 ? NO_MEMORY(node) : pb_ok)

static pbStatus read_inertial(pbMjcfReader *reader, const pbXmlNode *node, const spot *at) {
  if (at->body == 0) return FAIL(node, "the world has no inertia");
  pbBodyDef *body = &reader->spec->bodies[at->body];
  body->has_inertial = true;
  body->inertial_frame = at->frame;

  // Six numbers of a full matrix or three of a diagonal one.

  PB_TRY(pbMjcf_Store(reader, node, body));
  if (pbXml_Get(node, "fullinertia") && pbXml_Get(node, "diaginertia"))
    return FAIL(node, "'diaginertia' and 'fullinertia' both give the inertia; give one");
  return pb_ok;
}

static pbStatus read_joint(pbMjcfReader *reader, const pbXmlNode *node, const spot *at, const pbMjcfClass *class) {
  if (at->body == 0) return FAIL(node, "the world cannot have joints");
  pbJointDef def = class->joint;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  return ADD(Joint, &def);
}

static pbStatus read_freejoint(pbMjcfReader *reader, const pbXmlNode *node, const spot *at) {
  if (at->body == 0) return FAIL(node, "the world cannot have joints");
  pbJointDef def = pbJointDef_Default();
  def.type = pb_jntFree;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  return ADD(Joint, &def);
}

static pbStatus read_geom(pbMjcfReader *reader, const pbXmlNode *node, const spot *at, const pbMjcfClass *class) {
  pbGeomDef def = class->geom;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  read_fluidshape(reader, node, &def);
  PB_TRY(pbMjcf_Store(reader, node, &def));

  bool named = pbMjcf_AssetName(reader, node, &def.material) && pbMjcf_AssetName(reader, node, &def.mesh) &&
               pbMjcf_AssetName(reader, node, &def.hfield);
  return named ? ADD(Geom, &def) : NO_MEMORY(node);
}

static pbStatus read_site(pbMjcfReader *reader, const pbXmlNode *node, const spot *at, const pbMjcfClass *class) {
  pbSiteDef def = class->site;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  bool named = pbMjcf_AssetName(reader, node, &def.material) && pbMjcf_AssetName(reader, node, &def.mesh);
  return named ? ADD(Site, &def) : NO_MEMORY(node);
}

static pbStatus read_camera(pbMjcfReader *reader, const pbXmlNode *node, const spot *at, const pbMjcfClass *class) {
  pbCameraDef def = class->camera;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  return ADD(Camera, &def);
}

static pbStatus read_light(pbMjcfReader *reader, const pbXmlNode *node, const spot *at, const pbMjcfClass *class) {
  pbLightDef def = class->light;
  def.body = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));

  // 'directional' is the older word for one of the types.
  if (pbXml_Get(node, "type") && pbXml_Get(node, "directional"))
    return FAIL(node, "'type' and 'directional' say the same; give one");
  if (pbXml_Get(node, "type")) def.directional = pbMjcf_Word(reader, node, "type", 0) == 1;
  return ADD(Light, &def);
}

static pbStatus read_content(pbMjcfReader *reader, const pbXmlNode *node, const spot *at);

static pbStatus read_frame(pbMjcfReader *reader, const pbXmlNode *node, const spot *at) {
  spot inside = *at;
  inside.class = pbMjcf_ClassOf(reader, node, "childclass", at->class);
  if (!inside.class) return pb_bad_input;

  pbFrameDef def = pbFrameDef_Default();
  def.body = at->body;
  def.parent = at->frame;
  def.place = node->place;

  // A frame made by replicate has its pose computed; one of the file has it in attributes.
  if (node->pose) {
    memcpy(def.pose.pos, node->pose, sizeof def.pose.pos);
    memcpy(def.pose.quat, node->pose + 3, sizeof def.pose.quat);
  } else {
    PB_TRY(pbMjcf_Store(reader, node, &def));
  }

  inside.frame = pbSpec_AddFrame(reader->spec, &def);
  if (inside.frame < 0) return NO_MEMORY(node);
  return read_content(reader, node, &inside);
}

static pbStatus read_body(pbMjcfReader *reader, const pbXmlNode *node, const spot *at) {
  spot inside = {.frame = -1, .class = pbMjcf_ClassOf(reader, node, "childclass", at->class)};
  if (!inside.class) return pb_bad_input;

  pbBodyDef def = pbBodyDef_Default();
  def.parent = at->body;
  def.frame = at->frame;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));

  // Both steer simplifications of bodies and their inertia; they are on unless a body says otherwise.
  def.simple = pbMjcf_Word(reader, node, "simple", 1);
  def.fuse = pbMjcf_Word(reader, node, "fuse", 1);

  inside.body = pbSpec_AddBody(reader->spec, &def);
  if (inside.body < 0) return NO_MEMORY(node);
  return read_content(reader, node, &inside);
}

static pbStatus read_content(pbMjcfReader *reader, const pbXmlNode *parent, const spot *at) {
  for (const pbXmlNode *node = parent->first; node; node = node->next) {
    if (IS(node, "body")) {
      PB_TRY(read_body(reader, node, at));
      continue;
    }
    if (IS(node, "frame")) {
      PB_TRY(read_frame(reader, node, at));
      continue;
    }

    // Bodies and frames look up a childclass themselves; everything else names its own class.
    const pbMjcfClass *class = pbMjcf_ClassOf(reader, node, "class", at->class);
    if (!class) return pb_bad_input;

    if (IS(node, "inertial")) PB_TRY(read_inertial(reader, node, at));
    else if (IS(node, "joint")) PB_TRY(read_joint(reader, node, at, class));
    else if (IS(node, "freejoint")) PB_TRY(read_freejoint(reader, node, at));
    else if (IS(node, "geom")) PB_TRY(read_geom(reader, node, at, class));
    else if (IS(node, "site")) PB_TRY(read_site(reader, node, at, class));
    else if (IS(node, "camera")) PB_TRY(read_camera(reader, node, at, class));
    else if (IS(node, "light")) PB_TRY(read_light(reader, node, at, class));
  }
  return pb_ok;
}

static pbStatus read_worldbody(pbMjcfReader *reader, const pbXmlNode *node) {
  spot world = {0, -1, reader->main};
  return read_content(reader, node, &world);
}

// ---- outside the tree ---------------------------------------------------------------------------------------------------

static pbStatus read_contact(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    if (IS(node, "exclude")) {
      // Excluded pairs of bodies have no defaults.
      pbExcludeDef def = pbExcludeDef_Default();
      def.place = node->place;
      PB_TRY(pbMjcf_Store(reader, node, &def));
      PB_TRY(ADD(Exclude, &def));
      continue;
    }

    const pbMjcfClass *class = class_outside(reader, node);
    if (!class) return pb_bad_input;
    pbPairDef def = class->pair;
    def.place = node->place;
    PB_TRY(pbMjcf_Store(reader, node, &def));
    PB_TRY(ADD(Pair, &def));
  }
  return pb_ok;
}

// connect, weld: between bodies (the second may be the world) or between sites.
static pbStatus read_ends(pbMjcfReader *reader, const pbXmlNode *node, pbEqualityDef *def) {
  const char *body1 = pbXml_Get(node, "body1"), *body2 = pbXml_Get(node, "body2");
  const char *site1 = pbXml_Get(node, "site1"), *site2 = pbXml_Get(node, "site2");

  // A weld may have an anchor, a connect of two bodies must have one, two sites bring their own.
  bool anchor = pbXml_Get(node, "anchor");
  bool weld = pbEquality_Row(def->type)->of == pb_ofPoses;
  bool bodies = body1 && !site1 && !site2 && (anchor || weld);
  def->sites = site1 && site2 && !body1 && !body2 && !anchor;

  if (!bodies && !def->sites)
    return FAIL(node, "needs either 'body1'%s (and 'body2', or it is the world) or 'site1' and 'site2'",
                weld ? "" : " and 'anchor'");

  // The first two names of the definition are those of whatever it connects.
  def->name1 = pbSpec_Text(reader->spec, def->sites ? site1 : body1);
  def->name2 = pbSpec_Text(reader->spec, def->sites ? site2 : body2);
  return def->name1 && def->name2 ? pb_ok : NO_MEMORY(node);
}

static pbStatus read_equality(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    const pbMjcfClass *class = class_outside(reader, node);
    if (!class) return pb_bad_input;

    pbEqualityDef def = class->equality;
    def.place = node->place;
    const pbEqualityRow *row = pbEquality_Named(node->name);
    PB_ASSERT(row);
    def.type = row->type;

    // MuJoCo's default, 0 1 0 0 0 0 0: a quaternion of zeros (the last four) means the relative pose of the reference
    // configuration, whatever the position.
    if (row->of == pb_ofPoses) def.relpose[1] = 1;

    PB_TRY(pbMjcf_Store(reader, node, &def));

    // Joints and tendons have been stored by the table; the ends of the others may be bodies or sites.
    if (pbEquality_HasEnds(def.type)) PB_TRY(read_ends(reader, node, &def));
    PB_TRY(ADD(Equality, &def));
  }
  return pb_ok;
}

static int wrap_type(const pbXmlNode *node) {
  if (IS(node, "joint")) return pb_wrapJoint;
  if (IS(node, "pulley")) return pb_wrapPulley;
  return IS(node, "geom") ? pb_wrapSphere : pb_wrapSite;  // the geom's own shape decides
}

static pbStatus read_path(pbMjcfReader *reader, const pbXmlNode *tendon, pbTendonDef *def) {
  int count = 0;
  for (const pbXmlNode *child = tendon->first; child; child = child->next) count++;
  size_t entries = (size_t)count;
  pbWrap *path = pbSpecPool_Take(reader->spec->pool, entries, sizeof *path);

  if (!path) return pbXml_Fail(&reader->document, pb_no_memory, tendon, "no memory for its path");
  pbWrap *wrap = path;
  for (const pbXmlNode *node = tendon->first; node; node = node->next) {
    wrap->place = node->place;
    wrap->type = wrap_type(node);
    (void)pbMjcf_Real(reader, node, wrap->type == pb_wrapPulley ? "divisor" : "coef", &wrap->value);

    // The attribute is named like the element: joint joint="..", site site="..", geom geom="..".
    wrap->target = pbSpec_Text(reader->spec, pbXml_Get(node, node->name));
    wrap->sidesite = pbSpec_Text(reader->spec, pbXml_Get(node, "sidesite"));
    if (!wrap->target || !wrap->sidesite) return NO_MEMORY(node);
    if (wrap->type == pb_wrapPulley && wrap->value <= 0)
      return FAIL(node, "attribute 'divisor' is %g, expected a positive number", wrap->value);

    wrap++;
  }

  def->path = path;
  def->path_count = count;
  return pb_ok;
}

static pbStatus read_tendon(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    const pbMjcfClass *class = class_outside(reader, node);
    if (!class) return pb_bad_input;

    pbTendonDef def = class->tendon;
    def.place = node->place;
    def.spatial = IS(node, "spatial");
    read_springlength(reader, node, &def);

    PB_TRY(pbMjcf_Store(reader, node, &def));
    PB_TRY(read_path(reader, node, &def));
    if (!pbMjcf_AssetName(reader, node, &def.material)) return NO_MEMORY(node);
    PB_TRY(ADD(Tendon, &def));
  }
  return pb_ok;
}

static pbStatus read_actuator(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    const pbMjcfClass *class = class_outside(reader, node);
    if (!class) return pb_bad_input;

    pbActuatorDef def;
    PB_TRY(pbMjcf_Actuator(reader, node, class, &def));

    // A default may leave the target open, an actuator may not.
    if (def.trntype == pb_trnNone) return FAIL(node, "needs 'joint', 'tendon', 'site', 'cranksite' or 'body': what it acts on");
    PB_TRY(ADD(Actuator, &def));
  }
  return pb_ok;
}

static pbStatus read_sensor(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    pbSensorDef def = pbSensorDef_Default();
    PB_TRY(pbMjcf_Sensor(reader, node, &def));
    PB_TRY(ADD(Sensor, &def));
  }
  return pb_ok;
}

// ---- visual-only elements -----------------------------------------------------------------------------------------------

// A visual-only element with all its attributes as text, and what is inside of it. rgba: the color of a
// material that gives none; NULL: anything else.
// Of a checker two colors; of other textures that are built in one, which of a gradient is the mean.
static void read_cells(const pbMjcfReader *reader, const pbXmlNode *node, double cells[6]) {
  enum { none, gradient, checker };
  int kind = pbMjcf_Word(reader, node, "builtin", none), count;

  double first[3] = {0.8, 0.8, 0.8}, second[3] = {0.5, 0.5, 0.5};  // as in MuJoCo

  if (kind == none) return;

  (void)pbMjcf_Reals(reader, node, "rgb1", first, 3, &count);
  (void)pbMjcf_Reals(reader, node, "rgb2", second, 3, &count);

  for (int k = 0; k < 3; k++) {
    double one = kind == gradient ? (first[k] + second[k]) / 2 : first[k];

    cells[k] = one;
    cells[3 + k] = kind == checker ? second[k] : one;
  }
}

static pbStatus record_visual(pbMjcfReader *reader, const pbXmlNode *node, int parent, const double *rgba) {
  pbVisualDef def = pbVisualDef_Default();

  // One list for both, names of attributes first.
  const char **keys = pbSpecPool_Take(reader->spec->pool, 2 * (size_t)node->attribute_count, sizeof *keys);

  if (!keys) return NO_MEMORY(node);
  const char **values = keys + node->attribute_count;

  for (int i = 0; i < node->attribute_count; i++) {
    keys[i] = pbSpec_Text(reader->spec, node->attributes[i].name);
    values[i] = pbSpec_Text(reader->spec, node->attributes[i].value);
    if (!keys[i] || !values[i]) return NO_MEMORY(node);
    if (!strcmp(keys[i], "name")) def.name = values[i];
    bool file = !strncmp(keys[i], "file", 4) && (IS(node, "texture") || IS(node, "skin"));
    if (file && !pbMjcf_KeepPath(reader, node, IS(node, "texture"), &values[i])) return NO_MEMORY(node);
  }

  // Its kind, as a path of the table, says which attributes those are.
  def.element = pbSpec_Text(reader->spec, reader->elements[node->element].path);
  if (!def.element) return NO_MEMORY(node);
  def.keys = keys;
  def.values = values;
  def.count = node->attribute_count;
  def.parent = parent;
  def.place = node->place;

  int numbers;
  if (rgba) {
    memcpy(def.rgba, rgba, sizeof def.rgba);
    (void)pbMjcf_Reals(reader, node, "rgba", def.rgba, 4, &numbers);
  }

  // What its material has of it
  if (IS(node, "texture")) read_cells(reader, node, def.cells);
  if (IS(node, "material") && pbXml_Get(node, "texture")) def.texture = pbSpec_Text(reader->spec, pbXml_Get(node, "texture"));

  if (!def.texture) return NO_MEMORY(node);

  int id = pbSpec_AddVisual(reader->spec, &def);
  if (id < 0) return NO_MEMORY(node);

  for (const pbXmlNode *child = node->first; child; child = child->next) PB_TRY(record_visual(reader, child, id, NULL));
  return pb_ok;
}

static pbStatus record_section(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    // Of materials the color has a default; meshes are read and seen.
    bool material = IS(node, "material");
    if (IS(node, "model")) continue;
    const pbMjcfClass *class = material || IS(node, "mesh") ? class_outside(reader, node) : reader->main;
    if (!class) return pb_bad_input;
    if (IS(node, "mesh")) PB_TRY(pbMjcf_Mesh(reader, node, class));
    if (IS(node, "hfield")) PB_TRY(pbMjcf_Hfield(reader, node));
    PB_TRY(record_visual(reader, node, -1, material ? class->material_rgba : NULL));
  }
  return pb_ok;
}

// ---- the file -----------------------------------------------------------------------------------------------------------

// The outermost default, the class 'main'.
static pbStatus read_defaults(pbMjcfReader *reader, const pbXmlNode *node) { return read_default(reader, node, NULL); }

typedef pbStatus (*section_reader)(pbMjcfReader *, const pbXmlNode *);

static pbStatus read_sections(pbMjcfReader *reader, const char *name, section_reader read) {
  for (const pbXmlNode *section = reader->document.root->first; section; section = section->next)
    if (IS(section, name)) PB_TRY(read(reader, section));
  return pb_ok;
}

// The defaults class 'main', and what the root element and the file's name say about the model.
static pbStatus begin_model(pbMjcfReader *reader) {
  pbMjcfClass *class;
  PB_TRY(add_class(reader, reader->document.root, "main", NULL, &class));
  reader->main = class;
  if (reader->parent) return pb_ok;

  const char *model = pbXml_Get(reader->document.root, "model");
  if (model && !(reader->spec->model_name = pbSpec_Text(reader->spec, model))) return NO_MEMORY(reader->document.root);

  if (reader->document.folder && !(reader->spec->folder = pbSpec_Text(reader->spec, reader->document.folder)))
    return NO_MEMORY(reader->document.root);
  return pb_ok;
}

// Settings alone.
static pbStatus read_settings(pbMjcfReader *reader) {
  PB_TRY(pbMjcf_Index(reader));
  PB_TRY(pbMjcf_CheckTree(reader));

  for (const pbXmlNode *node = reader->document.root->first; node; node = node->next)
    if (!IS(node, "compiler") && !IS(node, "option") && !IS(node, "size"))
      pbXml_Warn(&reader->document, node,
                 "is ignored here, as in MuJoCo: of a mujoco element in URDF compiler, option and size count");

  PB_TRY(read_sections(reader, "compiler", pbMjcf_Compiler));
  PB_TRY(read_sections(reader, "option", pbMjcf_Option));
  return read_sections(reader, "size", pbMjcf_Size);
}

typedef struct named_reader {
  const char *section;
  section_reader read;
} named_reader;

static pbStatus read_all(pbMjcfReader *reader, const named_reader *sections, size_t count) {
  for (size_t i = 0; i < count; i++) PB_TRY(read_sections(reader, sections[i].section, sections[i].read));
  return pb_ok;
}

pbStatus pbMjcf_Prepare(pbMjcfReader *reader) {
  static const named_reader sections[] = {{"compiler", pbMjcf_Compiler},   {"option", pbMjcf_Option},  {"size", pbMjcf_Size},
                                          {"statistic", pbMjcf_Statistic}, {"default", read_defaults}, {"asset", pbMjcf_Models}};

  PB_TRY(pbMjcf_CheckTree(reader));
  PB_TRY(begin_model(reader));
  PB_TRY(read_all(reader, sections, sizeof sections / sizeof *sections));
  return pbMjcf_Unroll(reader);  // with the settings (angles), before the tree is read
}

static pbStatus read_model(pbMjcfReader *reader) {
  static const named_reader sections[] = {
      {"visual", record_section},    {"asset", record_section},   {"deformable", record_section},
      {"worldbody", read_worldbody}, {"contact", read_contact},   {"equality", read_equality},
      {"tendon", read_tendon},       {"actuator", read_actuator}, {"sensor", read_sensor}};
  pbMjcfFamily *family = reader->family;
  family->classes = pbSpecPool_Take(&reader->document.pool, PB_MJCF_CLASSES, sizeof *family->classes);
  family->readers = pbSpecPool_Take(&reader->document.pool, PB_MJCF_MODELS + 1, sizeof *family->readers);
  if (!family->classes || !family->readers) return NO_MEMORY(reader->document.root);

  // The first of the family; its file is the only one so far.
  family->readers[family->reader_count++] = reader;
  reader->real = reader->document.files ? reader->document.files->real : NULL;

  PB_TRY(pbXml_Include(&reader->document));
  PB_TRY(pbMjcf_Index(reader));
  PB_TRY(pbMjcf_Prepare(reader));

  PB_TRY(read_all(reader, sections, sizeof sections / sizeof *sections));
  PB_TRY(pbMjcf_Keys(reader));
  PB_TRY(read_sections(reader, "custom", pbMjcf_Custom));
  PB_TRY(pbMjcf_LoadMeshes(reader));
  PB_TRY(pbMjcf_LoadHfields(reader));
  return pbSpec_Check(reader->spec);
}

pbStatus pbMjcf_Read(pbXmlDocument *document, pbSpec *spec) {
  pbMjcfFamily family = {0};
  pbMjcfReader reader = {.ctx = spec->ctx, .spec = spec, .document = *document, .family = &family, .names.ctx = spec->ctx};

  // What is read lies in the pool already; classes share their strings and lists.
  spec->pool->borrow = true;
  pbStatus status = read_model(&reader);
  spec->pool->borrow = false;

  // The first is this one.
  for (int i = 1; i < family.reader_count; i++) pbNames_Clear(&family.readers[i]->names);
  pbNames_Clear(&reader.names);
  *document = reader.document;  // its pool has grown
  return status;
}

pbStatus pbMjcf_ReadSettings(pbXmlDocument *document, pbXmlNode *root, pbSpec *spec, pbMjcfFolders *folders) {
  pbMjcfReader reader = {.ctx = spec->ctx, .spec = spec, .document = *document, .names.ctx = spec->ctx};
  reader.document.root = root;
  pbStatus status = read_settings(&reader);

  *folders = (pbMjcfFolders){reader.meshdir ? reader.meshdir : reader.assetdir, reader.strippath};
  document->pool = reader.document.pool;
  return status;
}
