// The shortcuts of MJCF's actuators, lowered to the general form as XMLreference describes them. A class's actuator defaults are
// one general actuator that every shortcut starts from, so an element only touches what it means.
#include <math.h>
#include <string.h>

#include "io/mjcf_reader.h"

// ---- transmission -------------------------------------------------------------------------------------------------------

static pbStatus read_target(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  static const struct {
    const char *attribute;
    int type;
  } kinds[] = {{"joint", pb_trnJoint}, {"tendon", pb_trnTendon}, {"site", pb_trnSite}};
  const char *first = NULL;
  for (int i = 0; i < 3; i++) {
    const char *target = pbXml_Get(node, kinds[i].attribute);
    if (!target) continue;
    if (first) return FAIL(node, "has both '%s' and '%s'; an actuator acts on one thing", first, kinds[i].attribute);
    first = kinds[i].attribute;
    def->trntype = kinds[i].type;
    def->target = pbSpec_Text(reader->spec, target);
    if (!def->target) return NO_MEMORY(node);
  }
  if (pbXml_Get(node, "refsite") && def->trntype != pb_trnSite && def->trntype != pb_trnNone)
    return FAIL(node, "'refsite' goes with 'site' only");
  return pb_ok;
}

// ---- shortcuts ----------------------------------------------------------------------------------------------------------

static pbStatus read_motor(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  (void)reader, (void)node;
  def->gainprm[0] = 1;
  def->dyntype = pb_dynNone;
  def->gaintype = pb_gainFixed;
  def->biastype = pb_biasNone;
  return pb_ok;
}

// force = kp (u - l) - kv v
static pbStatus read_position(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  double kp = def->gainprm[0], kv, ratio, timeconst;
  (void)pbMjcf_Real(reader, node, "kp", &kp);
  bool has_kv = pbMjcf_Real(reader, node, "kv", &kv), has_ratio = pbMjcf_Real(reader, node, "dampratio", &ratio);
  if (has_kv && has_ratio) return FAIL(node, "'kv' and 'dampratio' both say how it is damped; give one");
  if (has_kv && kv < 0) return FAIL(node, "'kv' is negative");
  if (has_ratio && ratio < 0) return FAIL(node, "'dampratio' is negative");
  def->gainprm[0] = kp;
  def->biasprm[1] = -kp;
  if (has_kv) def->biasprm[2] = -kv;
  if (has_ratio) def->biasprm[2] = ratio;
  if (pbMjcf_Real(reader, node, "timeconst", &timeconst)) {
    if (timeconst < 0) return FAIL(node, "'timeconst' is negative");
    def->dynprm[0] = timeconst;
    def->dyntype = timeconst == 0 ? pb_dynNone : pb_dynFilterExact;
  }
  (void)pbMjcf_Real(reader, node, "inheritrange", &def->inheritrange);
  if (def->inheritrange > 0 && (def->ctrlrange[0] || def->ctrlrange[1]))
    return FAIL(node, "'ctrlrange' and 'inheritrange' both give the range; give one");
  def->gaintype = pb_gainFixed;
  def->biastype = pb_biasAffine;
  return pb_ok;
}

static pbStatus read_intvelocity(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  PB_TRY(read_position(reader, node, def));
  def->dyntype = pb_dynIntegrator;
  if (def->inheritrange > 0 && (def->actrange[0] || def->actrange[1]))
    return FAIL(node, "'actrange' and 'inheritrange' both give the range; give one");
  return pb_ok;
}

static pbStatus read_velocity(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  double kv = def->gainprm[0];
  (void)pbMjcf_Real(reader, node, "kv", &kv);
  memset(def->biasprm, 0, sizeof def->biasprm);
  def->gainprm[0] = kv;
  def->biasprm[2] = -kv;
  def->dyntype = pb_dynNone;
  def->gaintype = pb_gainFixed;
  def->biastype = pb_biasAffine;
  return pb_ok;
}

// force = -kv u v
static pbStatus read_damper(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  double kv = def->gaintype == pb_gainAffine ? -def->gainprm[2] : 0;
  (void)pbMjcf_Real(reader, node, "kv", &kv);
  if (kv < 0) return FAIL(node, "'kv' is negative");
  if (def->ctrlrange[0] < 0 || def->ctrlrange[1] < 0) return FAIL(node, "'ctrlrange' of a damper is negative");
  memset(def->gainprm, 0, sizeof def->gainprm);
  def->gainprm[2] = -kv;
  def->ctrllimited = pb_true;
  def->dyntype = pb_dynNone;
  def->gaintype = pb_gainAffine;
  def->biastype = pb_biasNone;
  return pb_ok;
}

static pbStatus read_cylinder(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  double diameter = -1;
  int count;
  (void)pbMjcf_Real(reader, node, "timeconst", &def->dynprm[0]);
  (void)pbMjcf_Reals(reader, node, "bias", def->biasprm, 3, &count);
  (void)pbMjcf_Real(reader, node, "area", &def->gainprm[0]);
  if (pbMjcf_Real(reader, node, "diameter", &diameter) && diameter >= 0)
    def->gainprm[0] = 3.14159265358979323846 / 4 * diameter * diameter;
  def->dyntype = pb_dynFilter;
  def->gaintype = pb_gainFixed;
  def->biastype = pb_biasAffine;
  return pb_ok;
}

static pbStatus read_general(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  (void)reader, (void)node, (void)def;
  return pb_ok;
}

pbStatus pbMjcf_Actuator(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  static const struct {
    const char *element;
    pbStatus (*read)(pbMjcfReader *, const pbXmlNode *, pbActuatorDef *);
  } shortcuts[] = {{"general", read_general},   {"motor", read_motor},           {"position", read_position},
                   {"velocity", read_velocity}, {"intvelocity", read_intvelocity}, {"damper", read_damper},
                   {"cylinder", read_cylinder}};
  PB_TRY(pbMjcf_Store(reader, node, def));
  PB_TRY(read_target(reader, node, def));
  for (size_t i = 0; i < sizeof shortcuts / sizeof *shortcuts; i++)
    if (!strcmp(node->name, shortcuts[i].element)) return shortcuts[i].read(reader, node, def);
  return REFUSE(node, "this actuator is not supported");
}
