// The spec's container: creation, defaults, copies of what is added, look-up by name, errors at a place. Checks are in
// spec_check.c, memory of strings and lists in spec_pool.c.
// Tests: tests/unit/test_spec.c.
#include <pullback/edit.h>
#include <pullback/equalities.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compile/compile.h"
#include "compile/spec_pool.h"

// ---- defaults: MuJoCo 4.0's, as its XMLreference states them ------------------------------------------------------------

static const double solref0[2] = {0.02, 1};
static const double solimp0[5] = {0.9, 0.95, 0.001, 0.5, 2};
static const double grey[4] = {0.5, 0.5, 0.5, 1};

static void copy_reals(double *to, const double *from, int n) { memcpy(to, from, (size_t)n * sizeof *to); }

static pbPose identity_pose(void) {
  pbPose pose = {.quat = {1, 0, 0, 0}};
  return pose;
}

pbFrameDef pbFrameDef_Default(void) { return (pbFrameDef){.name = "", .parent = -1, .pose = identity_pose()}; }

pbBodyDef pbBodyDef_Default(void) {
  pbBodyDef def = {.name = "",
                   .frame = -1,
                   .pose = identity_pose(),
                   .inertial = identity_pose(),
                   .inertial_frame = -1,
                   .simple = true,
                   .fuse = true};

  // NaN: not stated.
  def.inertial.pos[0] = NAN;
  def.fullinertia[0] = NAN;
  return def;
}

pbJointDef pbJointDef_Default(void) {
  pbJointDef def = {.name = "",
                    .frame = -1,
                    .type = pb_jntHinge,
                    .axis = {0, 0, 1},
                    .limited = pb_auto,
                    .actfrclimited = pb_auto,
                    .align = pb_auto};

  // Limits and friction loss have solver parameters of their own.
  copy_reals(def.solref_limit, solref0, 2);
  copy_reals(def.solimp_limit, solimp0, 5);
  copy_reals(def.solref_friction, solref0, 2);
  copy_reals(def.solimp_friction, solimp0, 5);
  return def;
}

pbGeomDef pbGeomDef_Default(void) {
  pbGeomDef def = {.name = "",
                   .frame = -1,
                   .type = pb_geomSphere,
                   .pose = identity_pose(),
                   .contype = 1,
                   .conaffinity = 1,
                   .condim = 3,
                   .friction = {1, 0.005, 0.0001},
                   .solmix = 1,
                   .mass = NAN,
                   .density = 1000,
                   .fluid_coef = {0.5, 0.25, 1.5, 1, 1},
                   .material = "",
                   .mesh = "",
                   .hfield = "",
                   .fitscale = 1};

  // NaN: stated by pose and size.
  def.fromto[0] = NAN;
  copy_reals(def.solref, solref0, 2);
  copy_reals(def.solimp, solimp0, 5);
  copy_reals(def.rgba, grey, 4);
  return def;
}

pbSiteDef pbSiteDef_Default(void) {
  pbSiteDef def = {.name = "",
                   .frame = -1,
                   .type = pb_geomSphere,
                   .pose = identity_pose(),
                   .size = {0.005, 0.005, 0.005},
                   .material = "",
                   .mesh = ""};
  def.fromto[0] = NAN;
  copy_reals(def.rgba, grey, 4);
  return def;
}

pbCameraDef pbCameraDef_Default(void) {
  return (pbCameraDef){.name = "",
                       .frame = -1,
                       .pose = identity_pose(),
                       .mode = pb_camFixed,
                       .target = "",
                       .fovy = 45,
                       .ipd = 0.068,
                       .resolution = {1, 1}};
}

pbLightDef pbLightDef_Default(void) {
  return (pbLightDef){.name = "",
                      .frame = -1,
                      .dir = {0, 0, -1},
                      .mode = pb_camFixed,
                      .target = "",
                      .castshadow = true,
                      .active = true,
                      .attenuation = {1, 0, 0},
                      .cutoff = 45,
                      .exponent = 10,
                      .diffuse = {0.7, 0.7, 0.7},
                      .specular = {0.3, 0.3, 0.3}};
}

pbPairDef pbPairDef_Default(void) {
  pbPairDef def = {.name = "", .geom1 = "", .geom2 = "", .condim = 3, .friction = {1, 1, 0.005, 0.0001, 0.0001}};
  copy_reals(def.solref, solref0, 2);
  copy_reals(def.solimp, solimp0, 5);
  return def;
}

pbExcludeDef pbExcludeDef_Default(void) { return (pbExcludeDef){.name = "", .body1 = "", .body2 = ""}; }

pbEqualityDef pbEqualityDef_Default(void) {
  pbEqualityDef def = {
      .name = "", .type = pb_eqConnect, .active = true, .name1 = "", .name2 = "", .torquescale = 1, .polycoef = {0, 1, 0, 0, 0}};
  copy_reals(def.solref, solref0, 2);
  copy_reals(def.solimp, solimp0, 5);
  return def;
}

pbTendonDef pbTendonDef_Default(void) {
  pbTendonDef def = {
      .name = "", .limited = pb_auto, .actfrclimited = pb_auto, .springlength = {-1, -1}, .width = 0.003, .material = ""};
  copy_reals(def.solref_limit, solref0, 2);
  copy_reals(def.solimp_limit, solimp0, 5);
  copy_reals(def.solref_friction, solref0, 2);
  copy_reals(def.solimp_friction, solimp0, 5);
  copy_reals(def.rgba, grey, 4);
  return def;
}

pbActuatorDef pbActuatorDef_Default(void) {
  return (pbActuatorDef){.name = "",
                         .trntype = pb_trnNone,
                         .target = "",
                         .refsite = "",
                         .gear = {1},
                         .dynprm = {1},
                         .gainprm = {1},
                         .actdim = -1,
                         .ctrllimited = pb_auto,
                         .forcelimited = pb_auto,
                         .actlimited = pb_auto};
}

pbSensorDef pbSensorDef_Default(void) { return (pbSensorDef){.name = "", .objname = "", .refname = ""}; }

pbKeyDef pbKeyDef_Default(void) { return (pbKeyDef){.name = ""}; }
pbNumericDef pbNumericDef_Default(void) { return (pbNumericDef){.name = ""}; }
pbTextDef pbTextDef_Default(void) { return (pbTextDef){.name = "", .data = ""}; }
pbTupleDef pbTupleDef_Default(void) { return (pbTupleDef){.name = ""}; }
pbHfieldDef pbHfieldDef_Default(void) { return (pbHfieldDef){.name = "", .file = "", .content_type = ""}; }

pbMeshDef pbMeshDef_Default(void) {
  return (pbMeshDef){.name = "",
                     .file = "",
                     .content_type = "",
                     .scale = {1, 1, 1},
                     .refquat = {1, 0, 0, 0},
                     .inertia = pb_meshInertiaLegacy,
                     .maxhullvert = -1};
}
pbVisualDef pbVisualDef_Default(void) {
  return (pbVisualDef){.name = "", .element = "", .rgba = {1, 1, 1, 1}, .cells = {1, 1, 1, 1, 1, 1}, .texture = "", .parent = -1};
}

static void set_defaults(pbSpec *spec) {
  spec->model_name = "MuJoCo Model";
  spec->folder = "";
  spec->compiler = (pbCompilerSettings){.degree = true,
                                        .eulerseq = "xyz",
                                        .autolimits = true,
                                        .settotalmass = -1,
                                        .inertiafromgeom = pb_auto,
                                        .inertiagrouprange = {0, 5},
                                        .lengthrange_mode = 1,
                                        .useexisting = true,
                                        .lengthrange_accel = 20,
                                        .lengthrange_timeconst = 1,
                                        .lengthrange_timestep = 0.01,
                                        .lengthrange_inttotal = 10,
                                        .lengthrange_interval = 2,
                                        .lengthrange_tolrange = 0.05};

  spec->option = (pbOptionSettings){.timestep = 0.002,
                                    .gravity = {0, 0, -9.81},
                                    .magnetic = {0, -0.5, 0},
                                    .impratio = 1,
                                    .o_friction = {1, 1, 0.005, 0.0001, 0.0001},
                                    .tolerance = 1e-8,
                                    .ls_tolerance = 0.01,
                                    .noslip_tolerance = 1e-6,
                                    .solver = pb_solNewton,
                                    .iterations = 100,
                                    .ls_iterations = 50};
  copy_reals(spec->option.o_solref, solref0, 2);
  copy_reals(spec->option.o_solimp, solimp0, 5);

  // NaN, or -1: not stated, so the compiler computes it.
  spec->statistic = (pbStatisticSettings){NAN, NAN, NAN, NAN, {NAN, NAN, NAN}};
  spec->size = (pbSizeSettings){.nuser_body = -1,
                                .nuser_jnt = -1,
                                .nuser_geom = -1,
                                .nuser_site = -1,
                                .nuser_cam = -1,
                                .nuser_tendon = -1,
                                .nuser_actuator = -1,
                                .nuser_sensor = -1};
}

// ---- life ---------------------------------------------------------------------------------------------------------------

pbStatus pbSpec_Create(pbContext *ctx, pbSpec **spec) {
  *spec = NULL;
  pbSpec *made = pbContext_Alloc(ctx, sizeof *made);
  pbSpecPool *pool = pbContext_Alloc(ctx, sizeof *pool);
  if (!made || !pool) {
    pbContext_Free(ctx, made);
    pbContext_Free(ctx, pool);
    return pbContext_Fail(ctx, pb_no_memory, "no memory for a spec");
  }

  // What the spec holds lies in the pool, apart from the arrays of elements.
  pool->ctx = ctx;
  made->ctx = ctx;
  made->pool = pool;
  set_defaults(made);

  // Body 0 is the world.
  pbBodyDef world = pbBodyDef_Default();
  world.name = "world";
  world.parent = 0;
  if (pbSpec_AddBody(made, &world) < 0) {
    pbSpec_Destroy(made);
    return pb_no_memory;
  }

  *spec = made;
  return pb_ok;
}

void pbSpec_Destroy(pbSpec *spec) {
  if (!spec) return;
  pbContext *ctx = spec->ctx;
#define X(Kind, member, count) pbContext_Free(ctx, spec->member);
  PB_SPEC_LISTS(X)
#undef X

  // Strings and lists last, with the pool.
  pbSpecPool_Clear(spec->pool);
  pbContext_Free(ctx, spec->pool);
  pbContext_Free(ctx, spec);
}

// ---- strings and lists --------------------------------------------------------------------------------------------------

const char *pbSpec_Text(pbSpec *spec, const char *text) {
  if (!text || !*text) return "";
  return pbSpecPool_Text(spec->pool, text, strlen(text));
}

pbReals pbSpec_Reals(pbSpec *spec, const double *data, int count) {
  pbReals none = {NULL, 0};
  if (count <= 0 || !data) return none;

  double *copy = pbSpecPool_Take(spec->pool, (size_t)count, sizeof *copy);
  if (!copy) return none;
  copy_reals(copy, data, count);
  return (pbReals){copy, count};
}

pbInts pbSpec_Ints(pbSpec *spec, const int *data, int count) {
  pbInts none = {NULL, 0};
  if (count <= 0 || !data) return none;

  int *copy = pbSpecPool_Take(spec->pool, (size_t)count, sizeof *copy);
  if (!copy) return none;
  memcpy(copy, data, (size_t)count * sizeof *copy);
  return (pbInts){copy, count};
}

const pbWrap *pbSpec_Wraps(pbSpec *spec, const pbWrap *path, int count) {
  if (count <= 0 || !path) return NULL;
  pbWrap *copy = pbSpecPool_Take(spec->pool, (size_t)count, sizeof *copy);
  if (!copy) return NULL;

  // The names of the stations are copied too.
  memcpy(copy, path, (size_t)count * sizeof *copy);
  for (int i = 0; i < count; i++) {
    copy[i].target = pbSpec_Text(spec, path[i].target);
    copy[i].sidesite = pbSpec_Text(spec, path[i].sidesite);
    if (!copy[i].target || !copy[i].sidesite) return NULL;
  }
  return copy;
}

// ---- adding -------------------------------------------------------------------------------------------------------------

// Room for one more in an array of `count`: capacities are 8, 16, 32, ..., so they need not be stored.
static bool grow_list(pbContext *ctx, void **array, int count, size_t size) {
  bool full = count == 0 || (count >= 8 && (count & (count - 1)) == 0);
  if (!full) return true;

  size_t capacity = count ? 2 * (size_t)count : 8;
  void *grown = pbContext_Resize(ctx, *array, capacity * size);
  if (grown) *array = grown;
  return grown != NULL;
}

// Does the body that an element names exist, and the frame (-1: none)?
static bool check_place(pbSpec *spec, const char *kind, const char *name, int body, int frame) {
  if (body >= 0 && body < spec->nbody && frame >= -1 && frame < spec->nframe) return true;
  (void)pbContext_Fail(spec->ctx, pb_bad_argument, "%s '%s': there is no body %d or no frame %d", kind, name ? name : "", body,
                       frame);
  return false;
}
#define IN_TREE(Kind)                                                  \
  static bool stands_##Kind(pbSpec *spec, const pb##Kind##Def *def) {  \
    return check_place(spec, #Kind, def->name, def->body, def->frame); \
  }
#define BESIDE(Kind)                                                  \
  static bool stands_##Kind(pbSpec *spec, const pb##Kind##Def *def) { \
    (void)spec;                                                       \
    (void)def;                                                        \
    return true;                                                      \
  }
IN_TREE(Joint)
IN_TREE(Geom)
IN_TREE(Site)
IN_TREE(Camera)
IN_TREE(Light)
BESIDE(Pair)
BESIDE(Exclude)
BESIDE(Equality)
BESIDE(Tendon)
BESIDE(Actuator)
BESIDE(Sensor)
BESIDE(Key)
BESIDE(Numeric)
BESIDE(Text)
BESIDE(Tuple)
BESIDE(Mesh)
BESIDE(Hfield)
BESIDE(Visual)
static bool stands_Frame(pbSpec *spec, const pbFrameDef *def) {
  return check_place(spec, "Frame", def->name, def->body, def->parent);
}
static bool stands_Body(pbSpec *spec, const pbBodyDef *def) {
  return spec->nbody == 0 || check_place(spec, "Body", def->name, def->parent, def->frame);  // the world stands nowhere
}

#define X(Kind, member, count)                                                                                               \
  int pbSpec_Add##Kind(pbSpec *spec, const pb##Kind##Def *def) {                                                             \
    if (!stands_##Kind(spec, def)) return -1;                                                                                \
    pb##Kind##Def copy = *def;                                                                                               \
    bool owned = spec->pool->borrow || pbSpec_KeepAll(spec, pb_spec##Kind, &copy);                                           \
    if (spec->count == INT32_MAX / 2 || !owned || !grow_list(spec->ctx, (void **)&spec->member, spec->count, sizeof copy)) { \
      (void)pbContext_Fail(spec->ctx, pb_no_memory, "no memory for element " #Kind " '%s'", def->name ? def->name : "");     \
      return -1;                                                                                                             \
    }                                                                                                                        \
    copy.key = ++spec->pool->keys;                                                                                           \
    spec->member[spec->count] = copy;                                                                                        \
    return spec->count++;                                                                                                    \
  }                                                                                                                          \
  pb##Kind##Def *pbSpec_Find##Kind(pbSpec *spec, const char *name) {                                                         \
    for (int i = 0; i < spec->count; i++) {                                                                                  \
      if (*name && !strcmp(spec->member[i].name, name)) return &spec->member[i];                                             \
    }                                                                                                                        \
    return NULL;                                                                                                             \
  }
PB_SPEC_LISTS(X)
#undef X

// ---- errors -------------------------------------------------------------------------------------------------------------

// "FILE:LINE:COLUMN: ELEMENT 'NAME': ", without what is not known.
static void write_place(char *out, size_t size, const pbPlace *place, const char *element, const char *name) {
  int n = 0;
  if (place && place->line > 0) n = snprintf(out, size, "%.400s:%d:%d: ", place->file, place->line, place->column);

  // Quotes around a name that there is.
  const char *quote = name && *name ? "'" : "";
  snprintf(out + n, size - (size_t)n, "%s%s%s%.200s%s: ", element, *quote ? " " : "", quote, *quote ? name : "", quote);
}

pbStatus pbSpec_Fail(const pbSpec *spec, pbStatus status, const pbPlace *place, const char *element, const char *name,
                     const char *format, ...) {
  char text[1024], where[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  write_place(where, sizeof where, place, element, name);
  return pbContext_Fail(spec->ctx, status, "%s%s", where, text);
}

void pbSpec_Warn(const pbSpec *spec, const pbPlace *place, const char *element, const char *name, const char *format, ...) {
  char text[512], where[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  write_place(where, sizeof where, place, element, name);
  pbContext_Warn(spec->ctx, "%s%s", where, text);
}
