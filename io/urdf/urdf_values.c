// Attributes and children of elements.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "io/urdf/urdf_reader.h"

const pbXmlNode *pbUrdf_Child(const pbXmlNode *node, const char *name) {
  for (const pbXmlNode *child = node->first; child; child = child->next)
    if (!strcmp(child->name, name)) return child;
  return NULL;
}

pbStatus pbUrdf_Need(pbUrdfReader *reader, const pbXmlNode *node, const char *name, const pbXmlNode **child) {
  *child = pbUrdf_Child(node, name);
  return *child ? pb_ok : FAIL(node, "element '%s' is missing in it", name);
}

pbStatus pbUrdf_Reals(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, int count, double *values,
                      bool *given) {
  enum { MOST = 6 };
  double read[MOST] = {0};
  int found = 0;
  const char *bad;
  const char *text = pbXml_Get(node, attribute);
  if (given) *given = text != NULL;
  if (!text) return pb_ok;

  PB_ASSERT(count <= MOST);
  if (!pbXml_Numbers(reader->document, text, read, MOST, &found, &bad))
    return FAIL(node, "attribute '%s' has \"%.40s\" where a finite number is expected", attribute, bad);
  if (found != count) return FAIL(node, "attribute '%s' has %d numbers, expected %d", attribute, found, count);

  memcpy(values, read, (size_t)count * sizeof *values);
  return pb_ok;
}

pbStatus pbUrdf_Scale(pbUrdfReader *reader, const pbXmlNode *node, double scale[3]) {
  double all;
  const char *text = pbXml_Get(node, "scale"), *bad;
  int found = 0;
  bool one = text && pbXml_Numbers(reader->document, text, &all, 1, &found, &bad) && found == 1;
  if (!one) return pbUrdf_Reals(reader, node, "scale", 3, scale, NULL);

  WARN(node, "attribute 'scale' has one number, which counts for all three directions");
  scale[0] = scale[1] = scale[2] = all;
  return pb_ok;
}

pbStatus pbUrdf_NeedReals(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, int count, double *values) {
  bool given;
  PB_TRY(pbUrdf_Reals(reader, node, attribute, count, values, &given));
  return given ? pb_ok : FAIL(node, "attribute '%s' is missing", attribute);
}

pbStatus pbUrdf_NeedText(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, const char **text) {
  *text = pbXml_Get(node, attribute);
  return *text && **text ? pb_ok : FAIL(node, "attribute '%s' is missing", attribute);
}

pbStatus pbUrdf_Origin(pbUrdfReader *reader, const pbXmlNode *node, pbPose *pose) {
  static const pbCompilerSettings radians = {.eulerseq = "XYZ"};  // roll, pitch, yaw about fixed axes
  const pbXmlNode *origin = pbUrdf_Child(node, "origin");
  *pose = (pbPose){.quat = {1, 0, 0, 0}};
  if (!origin) return pb_ok;

  pbPose turned = {.alt = pb_altEuler};
  bool given;
  PB_TRY(pbUrdf_Reals(reader, origin, "xyz", 3, pose->pos, NULL));
  PB_TRY(pbUrdf_Reals(reader, origin, "rpy", 3, turned.value, &given));

  const char *wrong = given ? pbPose_Orientation(&radians, &turned, pose->quat) : NULL;
  return wrong ? FAIL(origin, "%s", wrong) : pb_ok;
}
