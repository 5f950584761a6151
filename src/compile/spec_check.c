// What no compile may accept: trees that are none, names given twice, kinds that are not supported, sizes out of proportion.
// Everything else that can be wrong with a spec (names that are not there, sizes, masses) is found while compiling, with the same
// places.
// Tests: tests/unit/test_spec.c.
#include <math.h>
#include <string.h>

#include <pullback/spec.h>

#include "compile/compile.h"
#include "compile/spec_names.h"
#include "compile/spec_settings.h"
#include "model/equality.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/sensor.h"

typedef struct pbNamedElement {  // the opening members of every element
  PB_ELEMENT
} pbNamedElement;

#define REFUSE(element, what, ...) pbSpec_Fail(spec, pb_unsupported, &(element)->place, what, (element)->name, __VA_ARGS__)
#define FAIL(element, what, ...)   pbSpec_Fail(spec, pb_bad_input, &(element)->place, what, (element)->name, __VA_ARGS__)

// ---- the tree holds together --------------------------------------------------------------------------------------------

// Does the body exist, and the frame in it (-1: none)?
static bool stands_in_tree(const pbSpec *spec, int body, int frame) {
  if (body < 0 || body >= spec->nbody || frame < -1 || frame >= spec->nframe) return false;
  return frame < 0 || spec->frames[frame].body == body;
}

pbStatus pbSpec_CheckTree(const pbSpec *spec) {
  if (spec->nbody < 1) return pbContext_Fail(spec->ctx, pb_bad_input, "the spec has no world body");

  // Bodies and frames come after their parents, so there are no loops.
  for (int i = 1; i < spec->nbody; i++) {
    const pbBodyDef *body = &spec->bodies[i];
    if (body->parent >= i)
      return FAIL(body, "body", "its parent is body %d, which does not make a tree: a parent stands before its bodies",
                  body->parent);
    if (!stands_in_tree(spec, body->parent, body->frame))
      return FAIL(body, "body", "its parent is body %d and its frame %d, which does not make a tree", body->parent, body->frame);
  }

  for (int i = 0; i < spec->nframe; i++) {
    const pbFrameDef *frame = &spec->frames[i];
    if (frame->parent >= i || !stands_in_tree(spec, frame->body, frame->parent))
      return FAIL(frame, "frame", "its body is %d and its frame %d, which does not make a tree", frame->body, frame->parent);
  }

#define X(member, count, what)                                                                                     \
  for (int i = 0; i < spec->count; i++) {                                                                          \
    if (!stands_in_tree(spec, spec->member[i].body, spec->member[i].frame))                                        \
      return FAIL(&spec->member[i], what, "stands in body %d, frame %d, which is not there", spec->member[i].body, \
                  spec->member[i].frame);                                                                          \
  }
  X(joints, njoint, "joint")
  X(geoms, ngeom, "geom")
  X(sites, nsite, "site")
  X(cameras, ncamera, "camera")
  X(lights, nlight, "light")
#undef X
  return pb_ok;
}

// ---- names --------------------------------------------------------------------------------------------------------------

static pbStatus add_name(const pbSpec *spec, pbNames *names, int kind, const char *what, int id, const pbNamedElement *element) {
  int model = element->place.model;
  if (model < 0 || model > spec->nattached) return FAIL(element, what, "comes from model %d, which is not there", model);
  if (!*element->name) return pb_ok;
  if (pbNames_Find(names, kind, element->name) >= 0) return FAIL(element, what, "there are two of this name");
  return pbNames_Set(names, kind, element->name, id) ? pb_ok : pbContext_Fail(spec->ctx, pb_no_memory, "no memory for the names");
}

// Of `count` elements of one kind, each of this size.
static pbStatus add_names(const pbSpec *spec, pbNames *names, int kind, const char *what, const void *elements, size_t size,
                          int count) {
  for (int i = 0; i < count; i++) {
    const pbNamedElement *element = (const pbNamedElement *)(const void *)((const char *)elements + (size_t)i * size);
    PB_TRY(add_name(spec, names, kind, what, i, element));
  }
  return pb_ok;
}

// Names of a kind are unique; frames and visual-only elements may share names.
static pbStatus check_names(const pbSpec *spec, pbNames *names) {
  int kind = 0;
#define X(member, count, what) PB_TRY(add_names(spec, names, ++kind, what, spec->member, sizeof *spec->member, spec->count));
  X(bodies, nbody, "body")
  X(joints, njoint, "joint")
  X(geoms, ngeom, "geom")
  X(sites, nsite, "site")
  X(cameras, ncamera, "camera")
  X(lights, nlight, "light")
  X(pairs, npair, "pair")
  X(excludes, nexclude, "exclude")
  X(equalities, nequality, "equality")
  X(tendons, ntendon, "tendon")
  X(actuators, nactuator, "actuator")
  X(sensors, nsensor, "sensor")
  X(keys, nkey, "key")
  X(numerics, nnumeric, "numeric")
  X(texts, ntext, "text")
  X(tuples, ntuple, "tuple")
  X(meshes, nmesh, "mesh")
  X(hfields, nhfield, "hfield")
#undef X
  return pb_ok;
}

// ---- shapes -------------------------------------------------------------------------------------------------------------

// As pbCompile_GivesMass, before volumes are known.
static bool gives_mass(const pbSpec *spec, const pbGeomDef *geom) {
  const pbCompilerSettings *compiler = pbSpec_Settings(spec, &spec->bodies[geom->body].place);
  bool from_geoms =
      compiler->inertiafromgeom == pb_true || (compiler->inertiafromgeom == pb_auto && !spec->bodies[geom->body].has_inertial);
  bool in_group = geom->group >= compiler->inertiagrouprange[0] && geom->group <= compiler->inertiagrouprange[1];
  bool heavy = isnan(geom->mass) ? geom->density > 0 : geom->mass > 0;
  return geom->body > 0 && from_geoms && in_group && heavy;
}

static bool is_in_pair(const pbSpec *spec, const pbGeomDef *geom) {
  if (!*geom->name) return false;
  for (int i = 0; i < spec->npair; i++) {
    if (!strcmp(spec->pairs[i].geom1, geom->name) || !strcmp(spec->pairs[i].geom2, geom->name)) return true;
  }
  return false;
}

bool pbSpec_HasRays(const pbSpec *spec) {
  for (int i = 0; i < spec->nsensor; i++) {
    const pbSensorRow *row = pbSensor_Row(spec->sensors[i].type);
    if (row && row->of == pb_ofRay) return true;
  }
  return false;
}

static bool is_named(const pbSpec *spec, const pbGeomDef *geom, int kind, const char *name) {
  if (kind == pb_refBody) return !strcmp(spec->bodies[geom->body].name, name);
  return kind == pb_refGeom && *geom->name && !strcmp(geom->name, name);
}

bool pbSpec_GeomMeasured(const pbSpec *spec, int geom) {
  for (int i = 0; i < spec->nsensor; i++) {
    const pbSensorDef *s = &spec->sensors[i];
    const pbSensorRow *row = pbSensor_Row(s->type);
    if (!row || row->of != pb_ofShapes) continue;
    const pbGeomDef *g = &spec->geoms[geom];
    if (is_named(spec, g, s->objtype, s->objname) || is_named(spec, g, s->reftype, s->refname)) return true;
  }
  return false;
}

static bool is_seen_by_sensor(const pbSpec *spec, const pbGeomDef *geom) {
  // Rays meet whatever is not invisible; materials may be so as well, which does no harm here.
  if (pbSpec_HasRays(spec) && (*geom->material || geom->rgba[3] != 0)) return true;
  if (!*geom->name) return false;

  // As what it measures, or from where.
  for (int i = 0; i < spec->nsensor; i++) {
    const pbSensorDef *s = &spec->sensors[i];
    if (s->objtype == pb_refGeom && !strcmp(s->objname, geom->name)) return true;
    if (s->reftype == pb_refGeom && !strcmp(s->refname, geom->name)) return true;
  }
  return false;
}

bool pbSpec_GeomTouches(const pbSpec *spec, int geom) {
  const pbGeomDef *g = &spec->geoms[geom];
  return g->contype || g->conaffinity || is_in_pair(spec, g);
}

bool pbSpec_GeomActs(const pbSpec *spec, int geom) {
  const pbGeomDef *g = &spec->geoms[geom];
  return pbSpec_GeomTouches(spec, geom) || pbSpec_GeomMeasured(spec, geom) || g->fluid_ellipsoid || gives_mass(spec, g) ||
         is_seen_by_sensor(spec, g);
}

bool pbSpec_GeomFits(const pbSpec *spec, int geom) {
  const pbGeomDef *g = &spec->geoms[geom];
  return *g->mesh && g->type >= pb_geomSphere && g->type <= pb_geomBox;
}

static pbStatus check_geom(const pbSpec *spec, const pbGeomDef *geom) {
  if (geom->type < pb_geomPlane || geom->type > pb_geomMesh) return REFUSE(geom, "geom", "type %d is not supported", geom->type);

  bool mesh = geom->type == pb_geomMesh;
  bool hfield = geom->type == pb_geomHfield;
  if (*geom->mesh && (hfield || geom->type == pb_geomPlane))
    return FAIL(geom, "geom", "a mesh gives its size to a sphere, capsule, ellipsoid, cylinder or box, not to a %s",
                hfield ? "height field" : "plane");
  if (*geom->mesh && !isnan(geom->fromto[0])) return FAIL(geom, "geom", "'fromto' and 'mesh' both give its size; give one");
  if (!mesh && !hfield) return pb_ok;

  // No fluid forces of their own.
  if (geom->fluid_ellipsoid)
    return REFUSE(geom, "geom", "attribute 'fluidshape' is not supported on a %s", mesh ? "mesh" : "hfield");
  return pb_ok;
}

// ---- actuators, sensors, tendons, equalities ----------------------------------------------------------------------------

// Is there a law of this type?
static bool is_known(const int *types, int count, int type) {
  for (int i = 0; i < count; i++) {
    if (types[i] == type) return true;
  }
  return false;
}
#define X(name, value, word, law) value,
static const int transmissions[] = {PB_TRANSMISSIONS(X)}, gains[] = {PB_GAINS(X)}, biases[] = {pb_biasNone, PB_BIASES(X)},
                 dynamics[] = {pb_dynNone, PB_DYNAMICS_KINDS(X)};
#undef X
#define IS_ONE(types, type) is_known(types, (int)(sizeof types / sizeof *types), type)

static pbStatus check_actuator(const pbSpec *spec, const pbActuatorDef *actuator) {
  int trn = actuator->trntype;

  if (!IS_ONE(transmissions, trn))
    return REFUSE(actuator, "actuator", "acts on nothing that is supported; it may act on a joint, a tendon, a site or a body");

  // A body has no length, and no velocity but that of its contacts.
  bool plain = actuator->gaintype == pb_gainFixed && actuator->biastype == pb_biasNone && actuator->dyntype != pb_dynMuscle;
  if (trn == pb_trnBody && !plain)
    return REFUSE(actuator, "actuator",
                  "on a body a force by length or velocity is not supported; expected gaintype fixed, biastype none");

  // MuJoCo's user-defined types are missing, and its controllers.
  if (!IS_ONE(dynamics, actuator->dyntype) || !IS_ONE(gains, actuator->gaintype) || !IS_ONE(biases, actuator->biastype))
    return REFUSE(actuator, "actuator", "its dynamics, gain or bias is not supported");

  bool motor = actuator->gaintype == pb_gainDcmotor;
  if ((actuator->dyntype == pb_dynDcmotor) != motor || (actuator->biastype == pb_biasDcmotor) != motor)
    return FAIL(actuator, "actuator", "dyntype, gaintype and biastype dcmotor go together");
  return pb_ok;
}

static pbStatus check_sensor(const pbSpec *spec, const pbSensorDef *sensor) {
  const pbSensorRow *row = pbSensor_Row(sensor->type);
  if (!row) return REFUSE(sensor, "sensor", "type %d is not supported", sensor->type);

  bool contact = row->of == pb_ofContact;
  int most = contact ? 2 * pb_contactAngvel : 1;
  if (row->of == pb_ofRay) most = 2 * pb_rayDepth;
  if (sensor->data < 0 || sensor->data >= most) return FAIL(sensor, "sensor", "its data %d is not known", sensor->data);
  if (sensor->num < 0 || (sensor->num && !contact)) return FAIL(sensor, "sensor", "its num %d is not possible", sensor->num);
  if (sensor->reduce < pb_reduceNone || sensor->reduce > (contact ? pb_reduceNetforce : pb_reduceNone))
    return FAIL(sensor, "sensor", "its reduction %d is not known", sensor->reduce);

  return pb_ok;
}

static pbStatus check_tendon(const pbSpec *spec, const pbTendonDef *tendon) {
  if (tendon->path_count < 1 || !tendon->path) return FAIL(tendon, "tendon", "has no path");
  for (int i = 0; i < tendon->path_count; i++) {
    int type = tendon->path[i].type;
    bool fits = tendon->spatial ? type >= pb_wrapPulley && type <= pb_wrapCylinder : type == pb_wrapJoint;
    if (!fits) return REFUSE(tendon, "tendon", "station %d of its path is not supported in this kind of tendon", i);
  }
  return pb_ok;
}

static pbStatus check_others(const pbSpec *spec) {
  for (int i = 0; i < spec->nactuator; i++) PB_TRY(check_actuator(spec, &spec->actuators[i]));
  for (int i = 0; i < spec->nsensor; i++) PB_TRY(check_sensor(spec, &spec->sensors[i]));
  for (int i = 0; i < spec->ntendon; i++) PB_TRY(check_tendon(spec, &spec->tendons[i]));

  for (int i = 0; i < spec->nequality; i++) {
    int type = spec->equalities[i].type;
    if (!pbEquality_Row(type)) return REFUSE(&spec->equalities[i], "equality", "type %d is not supported", type);
  }

  for (int i = 0; i < spec->njoint; i++) {
    int type = spec->joints[i].type;
    if (!pbJoint_Exists(type)) return FAIL(&spec->joints[i], "joint", "type %d is not a joint's", type);
  }

  for (int i = 0; i < spec->nsite; i++) {
    int type = spec->sites[i].type;
    if (type < pb_geomSphere || type > pb_geomBox) return REFUSE(&spec->sites[i], "site", "type %d is not supported", type);
  }
  return pb_ok;
}

// ---- settings and sizes -------------------------------------------------------------------------------------------------

static pbStatus check_option(const pbSpec *spec) {
  const pbOptionSettings *option = &spec->option;
  if (option->integrator != pb_intEuler && option->integrator != pb_intRK4 && option->integrator != pb_intImplicitfast)
    return pbContext_Fail(spec->ctx, pb_unsupported, "integrator %d is not supported (Euler, RK4 and implicitfast are)",
                          option->integrator);

  if (option->iterations < 1 || option->ls_iterations < 1)
    return pbContext_Fail(spec->ctx, pb_bad_input, "option: %siterations is %d, expected at least 1",
                          option->iterations < 1 ? "" : "ls_",
                          option->iterations < 1 ? option->iterations : option->ls_iterations);
  if (option->noslip_iterations < 0 || option->noslip_iterations > PB_NOSLIP_MOST)
    return pbContext_Fail(spec->ctx, pb_bad_input, "option: noslip_iterations is %d, expected 0 to %d", option->noslip_iterations,
                          PB_NOSLIP_MOST);
  if (!isfinite(option->noslip_tolerance))
    return pbContext_Fail(spec->ctx, pb_bad_input, "option: noslip_tolerance is not finite");

  if (option->enableflags & pb_enDiagexact)
    return pbContext_Fail(spec->ctx, pb_unsupported, "option flag 'diagexact' is not supported");
  return pb_ok;
}

// A few bytes of a file must not ask for gigabytes of user data or keyframes.
static pbStatus check_sizes(const pbSpec *spec) {
  enum { MOST = 1 << 24 };

  const pbSizeSettings *size = &spec->size;

  // Columns and rows of each kind; of keyframes, about as many columns as there are positions, velocities, activations, controls.
  double dofs = 7.0 * spec->njoint + spec->nactuator + 1;
  double users[][2] = {
      {size->nuser_body, spec->nbody},         {size->nuser_jnt, spec->njoint},     {size->nuser_geom, spec->ngeom},
      {size->nuser_site, spec->nsite},         {size->nuser_cam, spec->ncamera},    {size->nuser_tendon, spec->ntendon},
      {size->nuser_actuator, spec->nactuator}, {size->nuser_sensor, spec->nsensor}, {size->nkey, dofs}};

  // Lists of an element may be longer than the stated number of columns.
#define X(member, total, index)                                                                     \
  for (int i = 0; i < spec->total; i++) {                                                           \
    if (spec->member[i].user.count > users[index][0]) users[index][0] = spec->member[i].user.count; \
  }
  X(bodies, nbody, 0)
  X(joints, njoint, 1)
  X(geoms, ngeom, 2)
  X(sites, nsite, 3)
  X(cameras, ncamera, 4)
  X(tendons, ntendon, 5)
  X(actuators, nactuator, 6)
  X(sensors, nsensor, 7)
#undef X
  if (spec->nkey > users[8][0]) users[8][0] = spec->nkey;

  for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
    if (users[i][0] * users[i][1] > MOST)
      return pbContext_Fail(spec->ctx, pb_bad_input, "the model asks for more than 2^24 numbers of %s",
                            i == 8 ? "keyframes" : "user data");
  }
  return pb_ok;
}

pbStatus pbSpec_Check(const pbSpec *spec) {
  PB_TRY(pbSpec_CheckTree(spec));

  pbNames names = {.ctx = spec->ctx};
  pbStatus status = check_names(spec, &names);
  pbNames_Clear(&names);
  PB_TRY(status);

  PB_TRY(pbSpec_CheckNumbers(spec));
  for (int i = 0; i < spec->ngeom; i++) PB_TRY(check_geom(spec, &spec->geoms[i]));
  PB_TRY(check_others(spec));
  PB_TRY(check_option(spec));
  return check_sizes(spec);
}
