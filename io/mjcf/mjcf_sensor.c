// Sensors: what each is of, and what a rangefinder writes.
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_reader.h"

#define IS(node, text) (!strcmp((node)->name, text))

static int sensor_type(const pbXmlNode *node) {
  static const struct {
    int type;
    const char *element;
  } kinds[] = {
#define X(name, value, element, size) {name, element},
      PB_SENSOR_TABLE(X)
#undef X
  };

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (IS(node, kinds[i].element)) return kinds[i].type;
  }
  PB_ASSERT(false);  // the schema has no other elements
  return -1;
}

// What a sensor is of follows from the attribute that names it.
static int object_type(const pbXmlNode *node) {
  static const struct {
    const char *attribute;
    int type;
  } kinds[] = {
      {"site", pb_refSite}, {"joint", pb_refJoint}, {"tendon", pb_refTendon}, {"actuator", pb_refActuator}, {"body", pb_refBody}};

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (pbXml_Get(node, kinds[i].attribute)) return kinds[i].type;
  }
  return pb_refNone;
}

// ---- rangefinders -------------------------------------------------------------------------------------------------------
static const char *const ray_words[] = {
#define X(name, bit, word, size) [bit] = word,
    PB_RAY_DATA(X)
#undef X
};
enum { RAY_WORDS = sizeof ray_words / sizeof *ray_words };

static const char *skip_blanks(const char *text) { return text + strspn(text, " \t\r\n"); }

// What it writes: words in a given order.
static pbStatus read_ray_data(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def) {
  const char *text = pbXml_Get(node, "data");
  int least = 0;
  if (!text) return pb_ok;

  for (text = skip_blanks(text); *text; text = skip_blanks(text)) {
    size_t length = strcspn(text, " \t\r\n");
    int k = 0;

    while (k < RAY_WORDS && (strlen(ray_words[k]) != length || strncmp(ray_words[k], text, length) != 0)) k++;
    if (k == RAY_WORDS)
      return FAIL(node, "'data': expected words of dist, dir, origin, point, normal, depth, found '%.*s'", (int)length, text);

    // In their order.
    if (k < least) return FAIL(node, "'data': expected each word once, in the order dist, dir, origin, point, normal, depth");

    def->data |= 1 << k;
    least = k + 1;
    text += length;
  }
  return pb_ok;
}

// ---- distances ----------------------------------------------------------------------------------------------------------
// Each end is a geom or a body; the name is stored by the schema.
static pbStatus read_end(pbMjcfReader *reader, const pbXmlNode *node, const char *geom, const char *body, int *type) {
  bool is_geom = pbXml_Get(node, geom), is_body = pbXml_Get(node, body);
  if (is_geom == is_body) return FAIL(node, "needs either '%s' or '%s'", geom, body);
  *type = is_body ? pb_refBody : pb_refGeom;
  return pb_ok;
}

pbStatus pbMjcf_Sensor(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def) {
  def->place = node->place;
  def->type = sensor_type(node);
  def->objtype = object_type(node);

  if (def->type == pb_sensRangefinder) {
    if (def->objtype == pb_refNone) return FAIL(node, "needs 'site': where its ray begins");
    PB_TRY(read_ray_data(reader, node, def));
  }
  if (def->type >= pb_sensDistance && def->type <= pb_sensFromto) {
    PB_TRY(read_end(reader, node, "geom1", "body1", &def->objtype));
    PB_TRY(read_end(reader, node, "geom2", "body2", &def->reftype));
  }
  if (def->type == pb_sensInsidesite) def->reftype = pb_refSite;
  PB_TRY(pbMjcf_Store(reader, node, def));

  // Measured relative to something: its kind and its name.
  if ((def->reftype != pb_refNone) != (*def->refname != 0)) return FAIL(node, "'reftype' and 'refname' go together");
  return pb_ok;
}
