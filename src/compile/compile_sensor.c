// Sensors, and the marks that they and tuples leave on geoms.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "model/joint.h"
#include "model/sensor.h"
#include "model/term_fields.h"

#define MOST_NUMBERS 1e7  // of all sensors: the images of some cameras

static bool takes_contacts(const pbSensorDef *d) { return pbSensor_Row(d->type)->of == pb_ofContact; }

// Least data: found is the first bit of a contact's, dist of a ray's.
static int data_of(const pbSensorDef *d) { return d->data ? d->data : 1; }

// Numbers of one ray or one contact.
static int part_size(const pbSensorDef *d) {
  int sum = 0;
#define X(name, bit, word, size) sum += data_of(d) & name ? size : 0;
  if (takes_contacts(d)) {
    PB_CONTACT_DATA(X)
  } else {
    PB_RAY_DATA(X)
  }
#undef X
  return sum;
}

// How many contacts, or rays: a camera's pixels.
static double part_count(const pbCompiler *c, const pbSensorDef *d) {
  if (takes_contacts(d)) return d->num ? d->num : 1;

  // A name that is not there is reported when it is resolved.
  int camera = d->objtype == pb_refCamera ? pbCompile_Find(c, pb_refCamera, d->objname) : -1;
  if (camera < 0) return 1;

  const int *resolution = c->spec->cameras[camera].resolution;
  return (double)resolution[0] * resolution[1];
}

// As floating point: counts may overflow an int.
static double sensor_size(const pbCompiler *c, const pbSensorDef *d) {
  int size = pbSensor_Row(d->type)->size;
  return size ? size : part_size(d) * part_count(c, d);
}

static bool is_frame(int ref) {
  return ref == pb_refBody || ref == pb_refXbody || ref == pb_refGeom || ref == pb_refSite || ref == pb_refCamera;
}

// A camera that rotates towards something or follows it has no fixed pose in its body.
static bool is_moving_camera(const pbCompiler *c, int ref, int index) {
  return ref == pb_refCamera && index >= 0 && c->spec->cameras[index].mode != pb_camFixed;
}

// NULL, or what the sensor needs instead of its object (index of the spec).
static const char *find_misfit(const pbCompiler *c, pbSensorOf of, int ref, int index) {
  bool joint = ref == pb_refJoint;

  switch (of) {
    // Sites, joints, tendons, actuators.
    case pb_ofSite:
    case pb_ofSiteInCamera: return ref == pb_refSite ? NULL : "it needs a site";
    case pb_ofScalarJoint:
      return joint && pbJoint_IsScalar(c->spec->joints[index].type) ? NULL : "it needs a hinge or slide joint";
    case pb_ofBallJoint: return joint && c->spec->joints[index].type == pb_jntBall ? NULL : "it needs a ball joint";
    case pb_ofLimitedJoint: return joint && c->joints[index].limited ? NULL : "it needs a joint with limits";
    case pb_ofTendon: return ref == pb_refTendon ? NULL : "it needs a tendon";
    case pb_ofLimitedTendon: return ref == pb_refTendon && c->m->tendon_limited[index] ? NULL : "it needs a tendon with limits";
    case pb_ofActuator: return ref == pb_refActuator ? NULL : "it needs an actuator";

    case pb_ofFrame:
    case pb_ofFrameInFrame:
    case pb_ofFrameInSite:  // a camera is a frame where it is fixed
      if (is_moving_camera(c, ref, index)) return "sensors of cameras that are not fixed are not supported";
      return is_frame(ref) ? NULL : "it needs a body, geom, site or camera";
    case pb_ofBody: return ref == pb_refBody ? NULL : "it needs a body";
    case pb_ofShapes: return ref == pb_refBody || ref == pb_refGeom ? NULL : "it needs a body or a geom";
    // Rays of sites and cameras, contacts of anything that has some.
    case pb_ofRay:
      if (is_moving_camera(c, ref, index)) return "rangefinders of cameras that are not fixed are not supported";
      return ref == pb_refSite || ref == pb_refCamera ? NULL : "it needs a site or a camera";
    case pb_ofContact:
      return ref == pb_refNone || (is_frame(ref) && ref != pb_refCamera) ? NULL
                                                                         : "it needs a body, subtree, geom or site, or none";
    default: return NULL;
  }
}

// Geoms that something refers to stay, even where the compiler discards visual-only ones.
static void mark_geom(pbCompiler *c, int ref, const char *name) {
  int g = ref == pb_refGeom ? pbCompile_Find(c, pb_refGeom, name) : -1;
  if (g >= 0) c->geoms[g].needed = true;
}

static bool is_stored(int ref) {  // kinds whose names are checked; textures and the like are visual-only
  return ref <= pb_refLight || (ref >= pb_refPair && ref <= pb_refKey);
}

// ---- samples of controls and of what sensors measure (model/history.h) ----------------------------------------------
// What both have.
typedef struct Samples {
  const pbPlace *place;
  const char *element, *name;
  int count, interp;
  double delay;
} Samples;

static pbStatus check_samples(const pbCompiler *c, const Samples *s) {
  const pbSpec *spec = c->spec;

  // What stands in a file is a word; specs of C may have any number.
  if (s->interp < pb_interpZoh || s->interp > pb_interpCubic)
    return pbSpec_Fail(spec, pb_bad_input, s->place, s->element, s->name, "its interpolation %d is not known", s->interp);
  if (s->delay > 0 && s->count < 1)
    return pbSpec_Fail(spec, pb_bad_input, s->place, s->element, s->name,
                       "delay is %g, but no samples are kept: expected nsample of at least delay / timestep", s->delay);
  return pb_ok;
}

// When a sensor measures: each step, or from time to time.
static pbStatus check_interval(const pbCompiler *c, const pbSensorDef *d, const char *word) {
  const double *interval = d->interval;

  // As MuJoCo, which also takes one without samples and leaves it without effect.
  if (interval[0] < 0) return PB_AT(c, d, word, "interval is %g, expected 0 or more", interval[0]);
  if (interval[1] > 0) return PB_AT(c, d, word, "interval[1], when it last measured, is %g, expected 0 or less", interval[1]);
  if (interval[0] > 0 && interval[1] <= -interval[0])
    return PB_AT(c, d, word, "interval[1], when it last measured, is %g, expected more than one interval ago, %g", interval[1],
                 -interval[0]);
  if (interval[0] > 0 && d->nsample < 1) return PB_AT(c, d, word, "interval needs samples that are kept (nsample)");
  return pb_ok;
}

// Numbers of the history. A sum in floating point, as above.
pbStatus pbCompile_CountHistory(pbCompiler *c) {
  const pbSpec *s = c->spec;
  double total = 0;

  for (int i = 0; i < s->nactuator; i++) {
    const pbActuatorDef *d = &s->actuators[i];
    PB_TRY(check_samples(c, &(Samples){&d->place, "actuator", d->name, d->nsample, d->interp, d->delay}));

    // user, cursor, times, samples
    if (d->nsample < 1) continue;
    total += 2 + 2. * d->nsample;
    c->m->nudelay = s->nactuator;
  }
  for (int i = 0; i < s->nsensor; i++) {
    const pbSensorDef *d = &s->sensors[i];
    const char *word = pbSensor_Row(d->type)->word;
    PB_TRY(check_samples(c, &(Samples){&d->place, word, d->name, d->nsample, d->interp, d->delay}));
    PB_TRY(check_interval(c, d, word));

    if (d->nsample < 1) continue;
    total += 2 + d->nsample * (1 + sensor_size(c, d));
    c->m->nsensordelay = s->nsensor;
  }

  if (total > MOST_NUMBERS)
    return pbContext_Fail(s->ctx, pb_bad_input, "histories of actuators and sensors have %.0f numbers; at most %.0f are possible",
                          total, MOST_NUMBERS);
  c->m->nhistory = (int)total;
  return pb_ok;
}

// Rows of sensordata; marks geoms that sensors and tuples refer to. A sum in floating point, since counts may overflow an int.
pbStatus pbCompile_CountSensors(pbCompiler *c) {
  const pbSpec *s = c->spec;
  double total = 0;

  for (int i = 0; i < s->nsensor; i++) {
    if (!pbSensor_Row(s->sensors[i].type))
      return PB_AT(c, &s->sensors[i], "sensor", "its type %d is not known", s->sensors[i].type);
    double size = sensor_size(c, &s->sensors[i]);
    if (!(size >= 1)) return PB_AT(c, &s->sensors[i], "rangefinder", "its camera has no resolution");
    total += size;
    mark_geom(c, s->sensors[i].objtype, s->sensors[i].objname);
    mark_geom(c, s->sensors[i].reftype, s->sensors[i].refname);
  }

  // Tuples refer to anything; what is not compiled is not checked.
  for (int i = 0; i < s->ntuple; i++) {
    const pbTupleDef *t = &s->tuples[i];
    if (!t->count) return PB_AT(c, t, "tuple", "it is empty");
    for (int k = 0; k < t->count; k++) {
      int unused;
      mark_geom(c, t->entries[k].objtype, t->entries[k].objname);
      if (is_stored(t->entries[k].objtype))
        PB_TRY(pbCompile_Resolve(c, t->entries[k].objtype, t->entries[k].objname, &t->place, "tuple", t->name, &unused));
    }
  }

  if (total > MOST_NUMBERS)
    return pbContext_Fail(c->spec->ctx, pb_bad_input, "sensors write %.0f numbers; at most %.0f are possible", total,
                          MOST_NUMBERS);
  c->m->nsensordata = (int)total;
  return pb_ok;
}

// A second side is no site; what is summed has no one velocity.
static pbStatus check_contact(const pbCompiler *c, const pbSensorDef *d) {
  if (d->reftype == pb_refSite || d->reftype == pb_refCamera)
    return PB_AT(c, d, "contact", "its second side must be a body, subtree or geom");
  if (d->reduce == pb_reduceNetforce && (d->data & (pb_contactLinvel | pb_contactAngvel)))
    return PB_AT(c, d, "contact", "linvel and angvel do not go with the reduction netforce");
  return pb_ok;
}

// A second object of the sensor's own kind.
static pbStatus check_pair(const pbCompiler *c, const pbSensorDef *d, const pbSensorRow *row, int object, int reference) {
  const char *word = row->word;
  if (row->of == pb_ofFrameInSite && d->reftype != pb_refSite) return PB_AT(c, d, word, "it needs a site");
  if (row->of == pb_ofSiteInCamera && d->reftype != pb_refCamera) return PB_AT(c, d, word, "it needs a camera");
  if (row->of == pb_ofSiteInCamera && c->spec->cameras[reference].orthographic)
    return PB_AT(c, d, word, "its camera is orthographic; expected one of perspective");
  if (row->of == pb_ofContact) return check_contact(c, d);
  if (row->of != pb_ofShapes) return pb_ok;

  if (d->reftype != pb_refBody && d->reftype != pb_refGeom) return PB_AT(c, d, word, "it needs a second body or geom");
  if (d->objtype == d->reftype && object == reference) return PB_AT(c, d, word, "both are the same");

  // Of a field the whole is meant, which is not convex.
  for (int i = 0; i < c->spec->ngeom; i++) {
    const pbGeomDef *g = &c->spec->geoms[i];
    bool first = d->objtype == pb_refGeom ? i == object : g->body == object;
    bool second = d->reftype == pb_refGeom ? i == reference : g->body == reference;
    if ((first || second) && g->type == pb_geomHfield)
      return pbSpec_Fail(c->spec, pb_unsupported, &d->place, word, d->name, "distances of height fields are not supported");
  }
  return pb_ok;
}

// A sensor's size without a focal length says of no pixel where it looks.
static bool has_lens(const pbCompiler *c, int camera) {
  const pbCameraDef *d = &c->spec->cameras[camera];
  bool sensor = d->sensorsize[0] > 0 && d->sensorsize[1] > 0;
  return !sensor || ((d->focal[0] != 0 || d->focalpixel[0] != 0) && (d->focal[1] != 0 || d->focalpixel[1] != 0));
}

// Contacts: as late as what is written, or what they are chosen by, is known.
static int stage_of(const pbSensorRow *row, const pbSensorDef *d) {
  int data = data_of(d);

  // Forces are known last.
  if (!takes_contacts(d) || d->reduce >= pb_reduceMaxforce) return row->stage;
  if (data & (pb_contactForce | pb_contactTorque)) return pb_stageAcceleration;
  return data & (pb_contactLinvel | pb_contactAngvel) ? pb_stageVelocity : pb_stagePosition;
}

static pbStatus store_sensor(pbCompiler *c, const pbSensorDef *d, int i) {
  pbModel *m = c->m;
  const pbSensorRow *row = pbSensor_Row(d->type);
  const char *word = row->word;
  int object = -1;
  int reference = -1;

  if (!(d->noise >= 0)) return PB_AT(c, d, word, "noise cannot be negative");
  if (!(d->cutoff >= 0)) return PB_AT(c, d, word, "cutoff cannot be negative");
  if (d->cutoff > 0 && row->data >= pb_dataAxis && row->of != pb_ofShapes)
    return PB_AT(c, d, word, "cutoff cannot be applied to an axis or quaternion");

  // The object it measures, and the frame it measures in, if any.
  bool may_lack = row->of == pb_ofNothing || row->of == pb_ofContact;
  if (!may_lack || d->objtype) PB_TRY(pbCompile_Resolve(c, d->objtype, d->objname, &d->place, word, d->name, &object));
  const char *wrong = find_misfit(c, row->of, d->objtype, object);
  if (!wrong && row->of == pb_ofRay && d->objtype == pb_refCamera && !has_lens(c, object))
    wrong = "its camera has a sensorsize, but no focal length";
  if (wrong) return PB_AT(c, d, word, "%s", wrong);

  if (d->reftype) {
    PB_TRY(pbCompile_Resolve(c, d->reftype, d->refname, &d->place, word, d->name, &reference));
    if (!is_frame(d->reftype)) return PB_AT(c, d, word, "its reference must be a body, geom, site or camera");
    if (is_moving_camera(c, d->reftype, reference))
      return PB_AT(c, d, word, "references to cameras that are not fixed are not supported");
  }

  PB_TRY(check_pair(c, d, row, object, reference));
  m->sensor_type[i] = d->type;
  m->sensor_datatype[i] = row->data;
  m->sensor_needstage[i] = stage_of(row, d);
  m->sensor_objtype[i] = d->objtype;
  m->sensor_objid[i] = object < 0 ? -1 : pbCompile_Id(c, d->objtype, object);
  m->sensor_reftype[i] = d->reftype;
  m->sensor_refid[i] = reference < 0 ? -1 : pbCompile_Id(c, d->reftype, reference);
  PB_ASSERT((object < 0) == (m->sensor_objid[i] < 0) && (reference < 0) == (m->sensor_refid[i] < 0));
  m->sensor_dim[i] = (int)sensor_size(c, d);
  bool contact = row->of == pb_ofContact;
  if (row->of == pb_ofRay || contact) m->sensor_intprm[3 * i] = data_of(d);
  if (contact) {
    m->sensor_intprm[3 * i + 1] = d->reduce;
    m->sensor_intprm[3 * i + 2] = d->num ? d->num : 1;
  }
  m->sensor_history[2 * i] = d->nsample;
  m->sensor_history[2 * i + 1] = d->interp;
  memcpy(m->sensor_interval + 2 * i, d->interval, sizeof d->interval);
  if (m->nsensordelay) PB_TERM_DEFAULT(m, sensor_delay)[i] = d->delay;
  m->sensor_cutoff[i] = d->cutoff;
  m->sensor_noise[i] = d->noise;
  pbCompile_User(m->sensor_user + (size_t)m->nuser_sensor * (size_t)i, m->nuser_sensor, d->user);
  return pb_ok;
}

pbStatus pbCompile_Sensors(pbCompiler *c) {
  int adr = 0;  // of the first number in sensordata
  for (int i = 0; i < c->m->nsensor; i++) {
    PB_TRY(store_sensor(c, &c->spec->sensors[i], i));
    c->m->sensor_adr[i] = adr;
    adr += c->m->sensor_dim[i];
  }
  PB_ASSERT(adr == c->m->nsensordata);
  return pb_ok;
}
