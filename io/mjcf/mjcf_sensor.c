// Sensors: what each is of, and what those with a choice of data write.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_reader.h"
#include "model/sensor.h"

#define IS(node, text) (!strcmp((node)->name, text))

// What a sensor is of follows from the attribute that names it.
static int object_type(const pbXmlNode *node) {
  static const struct {
    const char *attribute;
    int type;
  } kinds[] = {{"site", pb_refSite},         {"joint", pb_refJoint}, {"tendon", pb_refTendon},
               {"actuator", pb_refActuator}, {"body", pb_refBody},   {"camera", pb_refCamera}};

  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (pbXml_Get(node, kinds[i].attribute)) return kinds[i].type;
  }
  return pb_refNone;
}

// ---- words of data ------------------------------------------------------------------------------------------------------
typedef struct data_words {
  const char *const *word;
  int count;
  const char *list;  // as a message gives them
} data_words;

#define X(name, bit, word, size) [bit] = word,
static const char *const ray_word[] = {PB_RAY_DATA(X)};
static const char *const contact_word[] = {PB_CONTACT_DATA(X)};
#undef X
static const data_words ray_words = {ray_word, sizeof ray_word / sizeof *ray_word, "dist, dir, origin, point, normal, depth"};
static const data_words contact_words = {contact_word, sizeof contact_word / sizeof *contact_word,
                                         "found, force, torque, dist, pos, normal, tangent, linvel, angvel"};

static const char *skip_blanks(const char *text) { return text + strspn(text, " \t\r\n"); }

// What it writes: words in a given order.
static pbStatus read_data(pbMjcfReader *reader, const pbXmlNode *node, const data_words *words, pbSensorDef *def) {
  const char *text = pbXml_Get(node, "data");
  int least = 0;
  if (!text) return pb_ok;

  for (text = skip_blanks(text); *text; text = skip_blanks(text)) {
    size_t length = strcspn(text, " \t\r\n");
    int k = 0;

    while (k < words->count && (strlen(words->word[k]) != length || strncmp(words->word[k], text, length) != 0)) k++;
    if (k == words->count) return FAIL(node, "'data': expected words of %s, found '%.*s'", words->list, (int)length, text);

    // In their order.
    if (k < least) return FAIL(node, "'data': expected each word once, in the order %s", words->list);

    def->data |= 1 << k;
    least = k + 1;
    text += length;
  }
  return pb_ok;
}

// ---- rangefinders, contacts ---------------------------------------------------------------------------------------------
static pbStatus read_ray(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def) {
  if (def->objtype == pb_refNone) return FAIL(node, "needs 'site' or 'camera': where its rays begin");
  if (pbXml_Get(node, "site") && pbXml_Get(node, "camera")) return FAIL(node, "has both 'site' and 'camera'");
  return read_data(reader, node, &ray_words, def);
}

// One side of the contacts that count, by at most one attribute; the name is stored by the schema.
static pbStatus read_side(pbMjcfReader *reader, const pbXmlNode *node, const char *const attribute[4], int *type) {
  static const int kinds[] = {pb_refGeom, pb_refBody, pb_refXbody, pb_refSite};
  const char *first = NULL;
  *type = pb_refNone;
  for (int i = 0; i < 4; i++) {
    if (!attribute[i] || !pbXml_Get(node, attribute[i])) continue;
    if (first) return FAIL(node, "has both '%s' and '%s'", first, attribute[i]);
    first = attribute[i];
    *type = kinds[i];
  }
  return pb_ok;
}

static pbStatus read_contact(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def) {
  static const char *const first[] = {"geom1", "body1", "subtree1", "site"}, *const second[] = {"geom2", "body2", "subtree2",
                                                                                                NULL};
  PB_TRY(read_side(reader, node, first, &def->objtype));
  PB_TRY(read_side(reader, node, second, &def->reftype));
  return read_data(reader, node, &contact_words, def);
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
  const pbSensorRow *row = pbSensor_Named(node->name);
  PB_ASSERT(row);  // the schema has no other elements
  def->type = row->type;
  def->objtype = object_type(node);

  if (row->of == pb_ofRay) PB_TRY(read_ray(reader, node, def));
  if (row->of == pb_ofContact) PB_TRY(read_contact(reader, node, def));
  if (row->of == pb_ofShapes) {
    PB_TRY(read_end(reader, node, "geom1", "body1", &def->objtype));
    PB_TRY(read_end(reader, node, "geom2", "body2", &def->reftype));
  }
  if (row->of == pb_ofFrameInSite) def->reftype = pb_refSite;
  if (row->of == pb_ofSiteInCamera) def->reftype = pb_refCamera;
  PB_TRY(pbMjcf_Store(reader, node, def));
  if (pbXml_Get(node, "num") && def->num < 1) return FAIL(node, "'num': expected at least 1, found %d", def->num);

  // Measured relative to something: its kind and its name.
  if ((def->reftype != pb_refNone) != (*def->refname != 0)) return FAIL(node, "'reftype' and 'refname' go together");
  return pb_ok;
}
