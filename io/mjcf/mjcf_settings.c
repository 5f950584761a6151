// Settings of the whole model: compiler, option, size and statistic onto those of the spec.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <math.h>
#include <string.h>

#include "io/mjcf/mjcf_reader.h"

pbStatus pbMjcf_Compiler(pbMjcfReader *reader, const pbXmlNode *node) {
  pbCompilerSettings *compiler = &reader->spec->compiler;
  PB_TRY(pbMjcf_Store(reader, node, compiler));

  compiler->degree = pbMjcf_Word(reader, node, "angle", compiler->degree);

  // The order of Euler axes: lower case rotates about the body's axes, upper case about those of the parent.
  const char *eulerseq = pbXml_Get(node, "eulerseq");
  if (eulerseq) {
    if (strlen(eulerseq) != 3 || strspn(eulerseq, "xyzXYZ") != 3)
      return FAIL(node, "attribute 'eulerseq' is \"%.40s\", expected three of x, y, z, X, Y, Z", eulerseq);
    memcpy(compiler->eulerseq, eulerseq, 4);
  }

  // Of several, the last that says so.
  const char *meshdir = pbXml_Get(node, "meshdir"), *assetdir = pbXml_Get(node, "assetdir");
  const char *texturedir = pbXml_Get(node, "texturedir");
  if (meshdir) reader->meshdir = meshdir;
  if (texturedir) reader->texturedir = texturedir;
  if (assetdir) reader->assetdir = assetdir;
  reader->strippath = pbMjcf_Word(reader, node, "strippath", reader->strippath);

  for (const pbXmlNode *child = node->first; child; child = child->next)
    PB_TRY(pbMjcf_Store(reader, child, compiler));  // lengthrange
  return pb_ok;
}

// Groups of actuators that do nothing, as bits.
static pbStatus read_disabled_groups(pbMjcfReader *reader, const pbXmlNode *node, int *bits) {
  enum { groups = 31 };
  double group[groups];
  int count = 0;

  if (!pbMjcf_Reals(reader, node, "actuatorgroupdisable", group, groups, &count)) return pb_ok;

  // Each group is a bit of the mask; the sign bit stays free.
  for (int i = 0; i < count; i++) {
    if (!(group[i] >= 0 && group[i] < groups) || group[i] != floor(group[i]))
      return FAIL(node, "attribute 'actuatorgroupdisable' names group %g, expected whole numbers from 0 to %d", group[i],
                  groups - 1);
    *bits |= 1 << (int)group[i];
  }

  return pb_ok;
}

pbStatus pbMjcf_Option(pbMjcfReader *reader, const pbXmlNode *node) {
  pbOptionSettings *option = &reader->spec->option;
  PB_TRY(pbMjcf_Store(reader, node, option));

  // MuJoCo itself would accept these and then not iterate.
  if (option->iterations < 1) return FAIL(node, "attribute 'iterations' is %d, expected at least 1", option->iterations);
  if (option->ls_iterations < 1) return FAIL(node, "attribute 'ls_iterations' is %d, expected at least 1", option->ls_iterations);

  PB_TRY(read_disabled_groups(reader, node, &option->disableactuator));

  for (const pbXmlNode *child = node->first; child; child = child->next) PB_TRY(pbMjcf_Store(reader, child, option));  // flag
  return pb_ok;
}

// Memory and counts of MuJoCo's own data have no effect here; what it would not take is an error all the same.
static pbStatus check_capacities(pbMjcfReader *reader, const pbXmlNode *node) {
  static const char *const counts[] = {"njmax", "nconmax", "nstack"};

  const char *memory = pbXml_Get(node, "memory");

  // A size in bytes: digits, not all zeros and few enough for 64 bits, then at most one unit. -1 leaves the choice to MuJoCo.
  size_t digits = memory ? strspn(memory, "0123456789") : 0, zeros = memory ? strspn(memory, "0") : 0;
  bool size = digits > zeros && digits < 19 && strlen(memory + digits) <= 1 &&
              strspn(memory + digits, "KMGTPEkmgtpe") == strlen(memory + digits);
  if (memory && !size && strcmp(memory, "-1") != 0)
    return FAIL(node,
                "attribute 'memory' is \"%.40s\", expected a positive whole number, with K, M, G, T, P or E behind it or not",
                memory);

  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    double value;
    if (pbMjcf_Real(reader, node, counts[i], &value) && value < -1)
      return FAIL(node, "attribute '%s' is %g, expected at least -1", counts[i], value);
  }
  return pb_ok;
}

pbStatus pbMjcf_Size(pbMjcfReader *reader, const pbXmlNode *node) {
  const pbSizeSettings *size = &reader->spec->size;
  PB_TRY(pbMjcf_Store(reader, node, &reader->spec->size));
  const int users[] = {size->nuser_body, size->nuser_jnt,    size->nuser_geom,     size->nuser_site,
                       size->nuser_cam,  size->nuser_tendon, size->nuser_actuator, size->nuser_sensor};

  // The widths of user data: -1 lets MuJoCo find the longest given.
  for (size_t i = 0; i < sizeof users / sizeof *users; i++)
    if (users[i] < -1 || users[i] > 10000) return FAIL(node, "a size of user data is %d, expected -1 to 10000", users[i]);

  if (size->nkey > 100000) return FAIL(node, "attribute 'nkey' is %d, expected at most 100000", size->nkey);
  if (size->nkey < 0) reader->spec->size.nkey = 0;
  if (size->nuserdata < 0) return FAIL(node, "attribute 'nuserdata' is negative");
  return check_capacities(reader, node);
}

pbStatus pbMjcf_Statistic(pbMjcfReader *reader, const pbXmlNode *node) {
  PB_TRY(pbMjcf_Store(reader, node, &reader->spec->statistic));
  if (reader->spec->statistic.extent <= 0) return FAIL(node, "attribute 'extent' must be positive");
  return pb_ok;
}
