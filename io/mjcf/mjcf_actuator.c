// The shortcuts of MJCF's actuators, lowered to the general form as MuJoCo 4.0 does (Modeling, "Shortcuts"). A defaults class has
// one actuator default. Mechanical attributes (gear, ranges, ...) are inherited from it whatever it was written as; what a
// shortcut means by its own attributes only from a default written as the same shortcut or as general with the shortcut's gain
// type, in the nearest class up the hierarchy.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <math.h>
#include <string.h>

#include "io/mjcf/mjcf_reader.h"

// ---- transmission -------------------------------------------------------------------------------------------------------

static pbStatus read_target(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  static const struct {
    const char *attribute;
    int type;
  } kinds[] = {
#define X(name, value, word, law) {word, name},
      PB_TRANSMISSIONS(X)
#undef X
  };
  const char *first = NULL;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
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
  bool crank = pbXml_Get(node, "slidersite") || pbXml_Get(node, "cranklength");
  if (crank && def->trntype != pb_trnSliderCrank && def->trntype != pb_trnNone)
    return FAIL(node, "'cranklength' and 'slidersite' go with 'cranksite' only");
  return pb_ok;
}

// ---- shortcuts ----------------------------------------------------------------------------------------------------------

typedef struct shortcut shortcut;
struct shortcut {
  const char *element;
  int gaintype;

  // *def has its gain, bias and dynamics reset; `from` is what to inherit them from.
  pbStatus (*read)(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def);
};

// A motor is the general form as it is: force = gear * u.
static pbStatus read_motor(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  (void)reader;
  (void)node;
  (void)from;
  (void)def;
  return pb_ok;
}

// biasprm[2] is -kv; where positive it is a damping ratio, made a kv when the mass is known.
static pbStatus read_damping(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  double kv, ratio;
  bool has_kv = pbMjcf_Real(reader, node, "kv", &kv);
  bool has_ratio = pbMjcf_Real(reader, node, "dampratio", &ratio);
  if (has_kv && has_ratio) return FAIL(node, "'kv' and 'dampratio' both give the damping; give one");
  if (has_kv && kv < 0) return FAIL(node, "'kv' is negative");
  if (has_ratio && ratio < 0) return FAIL(node, "'dampratio' is negative");

  if (has_kv) def->biasprm[2] = -kv;
  if (has_ratio) def->biasprm[2] = ratio;
  return pb_ok;
}

// The range of the target, or one that is given: what the element says rules over what it inherits.
static pbStatus read_range(pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, double *range,
                           double *inheritrange) {
  bool own = pbMjcf_Real(reader, node, "inheritrange", inheritrange) && *inheritrange > 0;
  bool given = pbXml_Get(node, attribute);

  if (own && !given) range[0] = range[1] = 0;
  if (given && !own) *inheritrange = 0;

  // Both in the same element, or both in the same defaults class.
  if (*inheritrange > 0 && (range[0] || range[1]))
    return FAIL(node, "'%s' and 'inheritrange' both give the range; give one", attribute);
  return pb_ok;
}

// force = kp (u - length) - kv velocity
static pbStatus read_servo(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double kp = from->gainprm[0], timeconst;

  (void)pbMjcf_Real(reader, node, "kp", &kp);
  def->gainprm[0] = kp;
  def->biastype = pb_biasAffine;
  def->biasprm[1] = -kp;

  // Damping is inherited unless the element gives its own.
  def->biasprm[2] = from->biasprm[2];

  PB_TRY(read_damping(reader, node, def));

  // An exact first-order filter of the control is inherited; a time constant of zero switches it off.
  if (from->dyntype == pb_dynFilterExact) {
    def->dyntype = pb_dynFilterExact;
    def->dynprm[0] = from->dynprm[0];
  }

  if (!pbMjcf_Real(reader, node, "timeconst", &timeconst)) return pb_ok;
  if (timeconst < 0) return FAIL(node, "'timeconst' is negative");

  def->dynprm[0] = timeconst;
  def->dyntype = timeconst == 0 ? pb_dynNone : pb_dynFilterExact;
  return pb_ok;
}

static pbStatus read_position(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  PB_TRY(read_servo(reader, node, from, def));
  def->inheritrange = from->inheritrange;
  return read_range(reader, node, "ctrlrange", def->ctrlrange, &def->inheritrange);
}

static pbStatus read_intvelocity(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  PB_TRY(read_servo(reader, node, from, def));
  def->dyntype = pb_dynIntegrator;
  def->inheritrange = from->inheritrange;
  return read_range(reader, node, "actrange", def->actrange, &def->inheritrange);
}

// force = kv (u - velocity)
static pbStatus read_velocity(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double kv = from->gainprm[0];
  (void)pbMjcf_Real(reader, node, "kv", &kv);

  def->gainprm[0] = kv;
  def->biasprm[2] = -kv;
  def->biastype = pb_biasAffine;
  return pb_ok;
}

// force = -kv u velocity
static pbStatus read_damper(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double kv = from->gaintype == pb_gainAffine ? -from->gainprm[2] : 0;
  (void)pbMjcf_Real(reader, node, "kv", &kv);

  if (kv < 0) return FAIL(node, "'kv' is negative");

  // A control below zero would drive instead of damp.
  if (def->ctrlrange[0] < 0 || def->ctrlrange[1] < 0) return FAIL(node, "'ctrlrange' of a damper is negative");

  def->gaintype = pb_gainAffine;
  def->gainprm[0] = 0;
  def->gainprm[2] = -kv;
  def->ctrllimited = pb_true;
  return pb_ok;
}

// force = area u + bias, the control filtered with a time constant.
static pbStatus read_cylinder(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double diameter = -1;
  int count;

  // What is inherited ...
  def->dyntype = pb_dynFilter;
  def->dynprm[0] = from->dynprm[0];
  def->biastype = pb_biasAffine;
  memcpy(def->biasprm, from->biasprm, 3 * sizeof(double));
  def->gainprm[0] = from->gainprm[0];

  // ... and what the element says; a diameter, where there is one, rules over the area.
  (void)pbMjcf_Real(reader, node, "timeconst", &def->dynprm[0]);
  (void)pbMjcf_Reals(reader, node, "bias", def->biasprm, 3, &count);
  (void)pbMjcf_Real(reader, node, "area", &def->gainprm[0]);
  if (pbMjcf_Real(reader, node, "diameter", &diameter) && diameter >= 0)
    // Area of a circle.
    def->gainprm[0] = 3.14159265358979323846 / 4 * diameter * diameter;
  return pb_ok;
}

// force = -F (FL FV act + FP) by the curves of MuJoCo's muscle. What is not given is inherited; where that is the value an
// actuator has anyway, or where the element gives a negative one, it is a muscle's own.
static pbStatus read_muscle(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  static const double times[2] = {0.01, 0.04}, curves[9] = {0.75, 1.05, -1, 200, 0.5, 1.6, 1.5, 1.3, 1.2};
  static const char *const names[] = {"force", "scale", "lmin", "lmax", "vmax", "fpmax", "fvmax"};
  pbActuatorDef plain = pbActuatorDef_Default();
  double timeconst[2] = {-1, -1}, range[2] = {-1, -1}, value;
  int count;

  for (int i = 0; i < 2; i++) def->dynprm[i] = from->dynprm[i] == plain.dynprm[i] ? times[i] : from->dynprm[i];
  for (int i = 0; i < 9; i++) def->gainprm[i] = from->gainprm[i] == plain.gainprm[i] ? curves[i] : from->gainprm[i];
  def->dynprm[2] = from->dynprm[2];

  // Its own.
  (void)pbMjcf_Real(reader, node, "tausmooth", &def->dynprm[2]);
  if (def->dynprm[2] < 0) return FAIL(node, "'tausmooth' is negative");

  (void)pbMjcf_Reals(reader, node, "timeconst", timeconst, 2, &count);
  (void)pbMjcf_Reals(reader, node, "range", range, 2, &count);
  for (int i = 0; i < 2; i++) {
    if (timeconst[i] >= 0) def->dynprm[i] = timeconst[i];
    if (range[i] >= 0) def->gainprm[i] = range[i];
  }

  for (int i = 0; i < 7; i++) {
    if (pbMjcf_Real(reader, node, names[i], &value) && value >= 0) def->gainprm[2 + i] = value;
  }

  memcpy(def->biasprm, def->gainprm, 9 * sizeof(double));
  def->dyntype = pb_dynMuscle;
  def->gaintype = pb_gainMuscle;
  def->biastype = pb_biasMuscle;
  return pb_ok;
}

// force = gain u, drawing a body to what it touches
static pbStatus read_adhesion(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  def->gainprm[0] = from->gainprm[0];
  (void)pbMjcf_Real(reader, node, "gain", &def->gainprm[0]);

  // It draws alone.
  if (def->gainprm[0] < 0) return FAIL(node, "'gain' is negative");
  if (def->ctrlrange[0] < 0 || def->ctrlrange[1] < 0) return FAIL(node, "'ctrlrange' of adhesion is negative");
  def->ctrllimited = pb_true;
  return pb_ok;
}

// Motor constant K and resistance R from Kt and Ke, or from a nominal voltage, stall torque and speed without load: the speed at
// which the torque K (V - K speed) / R is that of the damping.
static pbStatus read_motor_constants(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double constant[2] = {from->gainprm[1]}, R = from->gainprm[0], nominal[3] = {0};
  int count;
  (void)pbMjcf_Reals(reader, node, "motorconst", constant, 2, &count);
  (void)pbMjcf_Real(reader, node, "resistance", &R);
  (void)pbMjcf_Reals(reader, node, "nominal", nominal, 3, &count);
  if (constant[0] < 0 || constant[1] < 0) return FAIL(node, "'motorconst' is negative");
  double voltage = nominal[0], stall = nominal[1], speed = nominal[2], damping = def->damping[0], Kt = constant[0],
         Ke = constant[1];

  if (voltage > 0 && speed > 0 && Ke <= 0) {
    double square = voltage * voltage - 4 * R * damping * speed * speed;
    Ke = voltage / speed;
    if (damping > 0 && R > 0 && square > 0) Ke = (voltage + sqrt(square)) / (2 * speed);
    if (damping > 0 && R <= 0 && stall > 0 && Ke > voltage * damping / stall) Ke -= voltage * damping / stall;
  }

  // Both where they differ: their geometric mean.
  double K = Kt > 0 && Ke > 0 ? sqrt(Kt * Ke) : fmax(Kt, Ke);
  if (R == 0 && voltage > 0 && stall > 0) R = K * voltage / stall;
  if (!(K > 0))
    return FAIL(node,
                "a dcmotor needs 'motorconst', or 'nominal' with a voltage and a speed: its motor constant is not positive");
  if (!(R > 0))
    return FAIL(node, "a dcmotor needs 'resistance', or 'nominal' with a voltage and a torque: its resistance is not positive");

  def->gainprm[0] = R;
  def->gainprm[1] = K;
  return pb_ok;
}

// Thermal resistance and capacitance, one of which may follow from a time constant; none: the winding stays as it is.
static pbStatus read_thermal(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *from, pbActuatorDef *def) {
  double t[6] = {from->dynprm[2], from->dynprm[3], 0, from->gainprm[2], from->gainprm[3], from->dynprm[4]};
  int count;
  (void)pbMjcf_Reals(reader, node, "thermal", t, 6, &count);
  if (!(t[0] > 0 || t[1] > 0 || t[2] > 0)) return pb_ok;
  if (t[0] < 0 || t[1] < 0 || t[2] < 0) return FAIL(node, "'thermal': resistance, capacitance or timeconst is negative");

  if (t[2] > 0 && t[0] > 0) t[1] = t[2] / t[0];  // the time constant rules over a capacitance
  else if (t[2] > 0 && t[1] > 0) t[0] = t[2] / t[1];
  if (!(t[0] > 0 && t[1] > 0)) return FAIL(node, "'thermal' needs two of resistance, capacitance and timeconst");

  def->dynprm[2] = t[0];
  def->dynprm[3] = t[1];
  def->dynprm[4] = t[5];
  def->gainprm[2] = t[3];
  def->gainprm[3] = t[4];
  return pb_ok;
}

// A DC motor that is told its voltage (bodies/actuators/dcmotor.c).
static pbStatus read_dcmotor(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *class, pbActuatorDef *def) {
  pbActuatorDef none = {0};
  const pbActuatorDef *from = class->gaintype == pb_gainDcmotor ? class : &none;
  double inductance[2] = {0, from->dynprm[0]}, saturation[3] = {0, 0, from->dynprm[1]};
  double lugre[5] = {from->dynprm[5], from->dynprm[6], from->biasprm[3], from->biasprm[4], from->biasprm[5]};
  int count;

  memset(def->dynprm, 0, sizeof def->dynprm);
  memset(def->gainprm, 0, sizeof def->gainprm);
  def->dyntype = pb_dynDcmotor;
  def->gaintype = pb_gainDcmotor;
  def->biastype = pb_biasDcmotor;
  def->actearly = true;
  PB_TRY(read_motor_constants(reader, node, from, def));
  PB_TRY(read_thermal(reader, node, from, def));

  // An inductance, where there is one, rules over the time constant; a torque over a current.
  if (pbMjcf_Reals(reader, node, "inductance", inductance, 2, &count) && count == 1) inductance[1] = 0;
  if (inductance[0] < 0 || inductance[1] < 0) return FAIL(node, "'inductance' is negative");
  def->dynprm[0] = inductance[0] > 0 ? inductance[0] / def->gainprm[0] : inductance[1];

  bool given = pbMjcf_Reals(reader, node, "saturation", saturation, 3, &count);
  double torque = saturation[0] == 0 ? def->gainprm[1] * saturation[1] : saturation[0];
  bool limited = saturation[0] > 0 || saturation[1] > 0;
  if (given) {  // none takes an inherited one away
    def->forcerange[0] = limited ? -torque : 0;
    def->forcerange[1] = limited ? torque : 0;
    def->forcelimited = limited ? pb_true : pb_auto;
  }
  def->dynprm[1] = fmax(saturation[2], 0);

  // What no limit holds.
  memcpy(def->biasprm, from->biasprm, 3 * sizeof(double));
  (void)pbMjcf_Reals(reader, node, "cogging", def->biasprm, 3, &count);
  (void)pbMjcf_Reals(reader, node, "lugre", lugre, 5, &count);
  if (!(lugre[0] > 0)) return pb_ok;
  memcpy(def->dynprm + 5, lugre, 2 * sizeof(double));
  memcpy(def->biasprm + 3, lugre + 2, 3 * sizeof(double));
  return pb_ok;
}

static const shortcut shortcuts[] = {
    {"adhesion", pb_gainFixed, read_adhesion}, {"motor", pb_gainFixed, read_motor},
    {"position", pb_gainFixed, read_position}, {"intvelocity", pb_gainFixed, read_intvelocity},
    {"velocity", pb_gainFixed, read_velocity}, {"damper", pb_gainAffine, read_damper},
    {"cylinder", pb_gainFixed, read_cylinder}, {"muscle", pb_gainMuscle, read_muscle},
    {"dcmotor", pb_gainDcmotor, read_dcmotor},
};

// ---- inheritance --------------------------------------------------------------------------------------------------------

static bool can_inherit(const shortcut *s, const pbMjcfClass *class) {
  if (!strcmp(class->written_as, s->element)) return true;
  return !strcmp(class->written_as, "general") && class->actuator.gaintype == s->gaintype;
}

static void reset_law(pbActuatorDef *def) {
  pbActuatorDef plain = pbActuatorDef_Default();

  memcpy(def->dynprm, plain.dynprm, sizeof plain.dynprm);
  memcpy(def->gainprm, plain.gainprm, sizeof plain.gainprm);
  memcpy(def->biasprm, plain.biasprm, sizeof plain.biasprm);

  def->dyntype = plain.dyntype;
  def->gaintype = plain.gaintype;
  def->biastype = plain.biastype;
  def->actdim = plain.actdim;
  def->actearly = plain.actearly;
}

// Shortcuts go by the range alone, in MuJoCo 4.0.0 even where the element says otherwise.
static void forget_actlimited(pbMjcfReader *reader, const pbXmlNode *node, pbActuatorDef *def) {
  const char *given = pbXml_Get(node, "actlimited");
  if (given && strcmp(given, "auto"))
    pbContext_Warn(reader->ctx,
                   "%.400s:%d:%d: %s: 'actlimited' has no effect on this shortcut, as in MuJoCo 4.0.0; leave 'actrange' away",
                   node->place.file, node->place.line, node->place.column, node->name);
  def->actlimited = pb_auto;
}

// Only a motor is told a voltage, and nothing else.
static pbStatus check_input(pbMjcfReader *reader, const pbXmlNode *node, const pbActuatorDef *def) {
  const char *input = pbXml_Get(node, "input");
  bool motor = def->gaintype == pb_gainDcmotor;
  if (!input || (strcmp(input, "voltage") == 0) == motor) return pb_ok;

  if (motor) return REFUSE(node, "input '%.40s' is not supported: a dcmotor is told its voltage", input);
  return FAIL(node, "input 'voltage' is of a dcmotor");
}

pbStatus pbMjcf_Actuator(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *class, pbActuatorDef *def) {
  *def = class->actuator;

  def->place = node->place;
  if (!strcmp(node->name, "general")) {
    PB_TRY(pbMjcf_Store(reader, node, def));
    PB_TRY(check_input(reader, node, def));
    return read_target(reader, node, def);
  }
  for (size_t i = 0; i < sizeof shortcuts / sizeof *shortcuts; i++) {
    const shortcut *s = &shortcuts[i];

    if (strcmp(node->name, s->element)) continue;

    pbActuatorDef plain = pbActuatorDef_Default();

    // The nearest default up the hierarchy that means the same by these attributes.
    const pbMjcfClass *from = class;
    while (from && !can_inherit(s, from)) from = from->parent;

    reset_law(def);
    PB_TRY(pbMjcf_Store(reader, node, def));
    PB_TRY(read_target(reader, node, def));

    forget_actlimited(reader, node, def);
    return s->read(reader, node, from ? &from->actuator : &plain, def);
  }
  return REFUSE(node, "this actuator is not supported");
}

pbStatus pbMjcf_ActuatorDefault(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfClass *class) {
  pbActuatorDef def;
  PB_TRY(pbMjcf_Actuator(reader, node, class, &def));

  class->actuator = def;
  class->written_as = node->name;
  return pb_ok;
}
