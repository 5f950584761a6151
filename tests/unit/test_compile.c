// The compiler on specs built by hand, against values that follow from geometry and mechanics; parameters, options, constants.
// (Field by field against MuJoCo: tests/oracle.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "base/suggest.h"
#include "compile/setconst.h"
#include "support/meter.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * (1 + fabs((double)(b))))

typedef struct Bench {
  pbContext *ctx;
  pbSpec *spec;
  pbModel *model;
} Bench;

static Bench bench_new(void) {
  Bench b = {.ctx = pbContext_Create(NULL)};
  assert_non_null(b.ctx);
  assert_int_equal(pbSpec_Create(b.ctx, &b.spec), pb_ok);
  return b;
}

static void bench_free(Bench *b) {
  pbModel_Destroy(b->model);
  pbSpec_Destroy(b->spec);
  pbContext_Destroy(b->ctx);
}

static int add_body(Bench *b, int parent, const char *name, double x, double y, double z) {
  pbBodyDef d = pbBodyDef_Default();
  d.parent = parent;
  d.name = name;
  d.pose.pos[0] = x;
  d.pose.pos[1] = y;
  d.pose.pos[2] = z;
  int id = pbSpec_AddBody(b->spec, &d);
  assert_true(id > 0);
  return id;
}

static int add_joint(Bench *b, int body, const char *name, int type, double x, double y, double z) {
  pbJointDef d = pbJointDef_Default();
  d.body = body;
  d.name = name;
  d.type = type;
  d.axis[0] = x;
  d.axis[1] = y;
  d.axis[2] = z;
  return pbSpec_AddJoint(b->spec, &d);
}

static int add_geom(Bench *b, int body, const char *name, int type, double s0, double s1, double s2) {
  pbGeomDef d = pbGeomDef_Default();
  d.body = body;
  d.name = name;
  d.type = type;
  d.size[0] = s0;
  d.size[1] = s1;
  d.size[2] = s2;
  return pbSpec_AddGeom(b->spec, &d);
}

static int add_site(Bench *b, int body, const char *name, double x, double y, double z) {
  pbSiteDef d = pbSiteDef_Default();
  d.body = body;
  d.name = name;
  d.pose.pos[0] = x;
  d.pose.pos[1] = y;
  d.pose.pos[2] = z;
  return pbSpec_AddSite(b->spec, &d);
}

static void compile(Bench *b) {
  pbStatus status = pbSpec_Compile(b->spec, &b->model);
  if (status != pb_ok) print_error("%s\n", pbContext_Error(b->ctx));
  assert_int_equal(status, pb_ok);
}

static void refuses(Bench *b, const char *text) {
  assert_int_equal(pbSpec_Compile(b->spec, &b->model), pb_bad_input);
  assert_null(b->model);
  if (!strstr(pbContext_Error(b->ctx), text)) print_error("%s\n", pbContext_Error(b->ctx));
  assert_non_null(strstr(pbContext_Error(b->ctx), text));
  bench_free(b);
}

static const double *reals(const Bench *b, const char *name) {
  pbField f;
  assert_true(pbModel_Field(b->model, name, &f));
  assert_non_null(f.reals);
  return f.reals;
}

static int integer(const Bench *b, const char *name, int i) {
  pbField f;
  assert_true(pbModel_Field(b->model, name, &f));
  assert_non_null(f.integers);
  return f.integers[i];
}

// ---- values -------------------------------------------------------------------------------------------------------
static void test_order_of_ids(void **state) {
  (void)state;
  Bench b = bench_new();
  int a = add_body(&b, 0, "a", 0, 0, 0), c = add_body(&b, 0, "c", 1, 0, 0), child = add_body(&b, a, "child", 0, 0, 1);
  int bodies[3] = {c, child, a};
  for (int i = 0; i < 3; i++) {
    char name[8] = {'g', (char)('0' + i), 0};
    add_geom(&b, bodies[i], name, pb_geomSphere, 0.1, 0, 0);
    add_joint(&b, bodies[i], name, pb_jntHinge, 0, 0, 1);
  }
  compile(&b);
  assert_string_equal(pbModel_Name(b.model, pb_objBody, 0), "world");
  assert_string_equal(pbModel_Name(b.model, pb_objBody, 2), "child");  // depth first
  assert_int_equal(pbModel_Id(b.model, pb_objBody, "c"), 3);
  assert_string_equal(pbModel_Name(b.model, pb_objGeom, 0), "g2");
  assert_string_equal(pbModel_Name(b.model, pb_objJoint, 2), "g0");
  assert_int_equal(integer(&b, "dof_parentid", 1), 0);
  assert_int_equal(integer(&b, "dof_treeid", 2), 1);
  assert_int_equal(pbModel_Size(b.model, "nv"), 3);
  assert_int_equal(pbModel_Size(b.model, "nonsense"), -1);
  assert_null(pbModel_Name(b.model, pb_objBody, 4));
  bench_free(&b);
}

static void test_inertia_of_two_balls(void **state) {
  (void)state;
  Bench b = bench_new();
  int a = add_body(&b, 0, "a", 0, 0, 0);
  add_joint(&b, a, "", pb_jntFree, 0, 0, 0);
  for (int i = -1; i <= 1; i += 2) {
    int g = add_geom(&b, a, "", pb_geomSphere, 0.1, 0, 0);
    b.spec->geoms[g].pose.pos[0] = 0.5 * i;
    b.spec->geoms[g].mass = 2;
  }
  compile(&b);
  const double *I = reals(&b, "body_inertia") + 3, *q = reals(&b, "body_iquat") + 4;
  double own = 2 * 2 * 2 * 0.01 / 5, steiner = 2 * 2 * 0.25;
  NEAR(reals(&b, "body_mass")[1], 4);
  NEAR(I[0], own + steiner);  // principal moments come in decreasing order
  NEAR(I[1], own + steiner);
  NEAR(I[2], own);
  NEAR(fabs(2 * (q[1] * q[3] + q[0] * q[2])), 1);  // the third principal axis is x
  bench_free(&b);
}

static void test_angles_and_frames(void **state) {
  (void)state;
  Bench b = bench_new();
  pbFrameDef frame = pbFrameDef_Default();
  frame.pose.pos[0] = 1;
  frame.pose.alt = pb_altEuler;
  frame.pose.value[2] = 90;  // degrees
  int f = pbSpec_AddFrame(b.spec, &frame);
  int a = add_body(&b, 0, "a", 0, 2, 0);
  b.spec->bodies[a].frame = f;
  add_geom(&b, a, "", pb_geomSphere, 0.1, 0, 0);
  int j = add_joint(&b, a, "j", pb_jntHinge, 0, 0, 2);
  b.spec->joints[j].range[0] = -90;
  b.spec->joints[j].range[1] = 180;
  b.spec->joints[j].ref = 30;
  compile(&b);
  NEAR(reals(&b, "body_pos")[3], -1);
  NEAR(reals(&b, "body_pos")[4], 0);
  NEAR(reals(&b, "body_quat")[4], sqrt(0.5));
  NEAR(reals(&b, "body_quat")[7], sqrt(0.5));
  NEAR(reals(&b, "jnt_axis")[2], 1);
  NEAR(reals(&b, "jnt_range")[0], -acos(0.0));
  NEAR(reals(&b, "qpos0")[0], acos(-1.0) / 6);
  assert_int_equal(integer(&b, "jnt_limited", 0), 1);
  bench_free(&b);
}

static void test_derived_constants(void **state) {
  (void)state;
  Bench b = bench_new();
  int a = add_body(&b, 0, "pendulum", 0, 0, 0), slider = add_body(&b, 0, "slider", 3, 0, 0);
  int j = add_joint(&b, a, "swing", pb_jntHinge, 0, 1, 0);
  b.spec->joints[j].armature = 0.25;
  int g = add_geom(&b, a, "", pb_geomSphere, 0.1, 0, 0);
  b.spec->geoms[g].pose.pos[2] = -2;
  b.spec->geoms[g].mass = 3;
  add_joint(&b, slider, "slide", pb_jntSlide, 1, 0, 0);
  int s = add_geom(&b, slider, "", pb_geomSphere, 0.1, 0, 0);
  b.spec->geoms[s].mass = 5;
  compile(&b);
  double inertia = 0.25 + 2 * 3 * 0.01 / 5 + 3 * 4;
  NEAR(reals(&b, "dof_M0")[0], inertia);
  NEAR(reals(&b, "dof_invweight0")[0], 1 / inertia);
  NEAR(reals(&b, "body_invweight0")[2], 4 / inertia / 3);  // one axis of three, arm 2
  NEAR(reals(&b, "body_invweight0")[4], 1.0 / 5);          // a body that only slides: without the mean
  NEAR(reals(&b, "body_subtreemass")[0], 8);
  bench_free(&b);
}

static void add_tendons(Bench *b) {
  pbWrap path[] = {{.type = pb_wrapSite, .target = "s0"},
                   {.type = pb_wrapSite, .target = "s1"},
                   {.type = pb_wrapPulley, .value = 2, .target = ""},
                   {.type = pb_wrapSite, .target = "s1"},
                   {.type = pb_wrapSite, .target = "s2"}};
  pbTendonDef t = pbTendonDef_Default();
  t.name = "rope";
  t.spatial = true;
  t.path = path;
  t.path_count = 5;
  assert_true(pbSpec_AddTendon(b->spec, &t) >= 0);
}

// Arm of two hinges with a rope, a weld, a connect, sensors and a servo.
static Bench rich(void) {
  Bench b = bench_new();
  int a = add_body(&b, 0, "upper", 0, 0, 1), c = add_body(&b, a, "lower", 0.5, 0, 0.1), free = add_body(&b, 0, "free", 1, 1, 1);
  add_joint(&b, a, "shoulder", pb_jntHinge, 0, 1, 0.2);
  add_joint(&b, c, "elbow", pb_jntHinge, 0.1, 1, 0);
  add_joint(&b, free, "", pb_jntFree, 0, 0, 0);
  int bodies[3] = {a, c, free};
  for (int i = 0; i < 3; i++) {
    int g = add_geom(&b, bodies[i], "", pb_geomEllipsoid, 0.1, 0.2, 0.15);
    b.spec->geoms[g].pose.pos[0] = 0.1 + i;
    b.spec->geoms[g].fluid_ellipsoid = true;
  }
  add_site(&b, 0, "s0", 0, 0, 2);
  add_site(&b, a, "s1", 0.3, 0.1, 0);
  add_site(&b, c, "s2", 0.1, 0, 0.3);
  add_tendons(&b);
  pbEqualityDef e = pbEqualityDef_Default();
  e.type = pb_eqWeld;
  e.name1 = "lower";
  e.name2 = "free";
  e.anchor[1] = 0.3;
  pbSpec_AddEquality(b.spec, &e);
  e.type = pb_eqConnect;
  pbSpec_AddEquality(b.spec, &e);
  pbActuatorDef act = pbActuatorDef_Default();
  act.trntype = pb_trnJoint;
  act.target = "elbow";
  act.biastype = pb_biasAffine;
  act.gainprm[0] = 4;
  act.biasprm[1] = -4;
  act.biasprm[2] = 1;  // critically damped
  pbSpec_AddActuator(b.spec, &act);
  pbSensorDef sensor = pbSensorDef_Default();
  sensor.type = pb_sensFramequat;
  sensor.objtype = pb_refBody;
  sensor.objname = "lower";
  pbSpec_AddSensor(b.spec, &sensor);
  return b;
}

static void test_rope_weld_and_servo(void **state) {
  (void)state;
  Bench b = rich();
  compile(&b);
  double first = sqrt(0.3 * 0.3 + 0.1 * 0.1 + 1), second = sqrt(0.3 * 0.3 + 0.1 * 0.1 + 0.4 * 0.4);
  NEAR(reals(&b, "tendon_length0")[0], first + second / 2);
  NEAR(reals(&b, "tendon_lengthspring")[1], first + second / 2);
  const double *weld = reals(&b, "eq_data"), *connect = weld + 12;
  NEAR(weld[3], 0.5);  // the anchor 0.3 y of "free", seen from "lower"
  NEAR(weld[4], 1.3);
  NEAR(weld[6], 1);
  NEAR(weld[11], 1);
  NEAR(connect[3], -0.5);
  NEAR(connect[4], 0.3 - 1);
  NEAR(reals(&b, "actuator_biasprm")[2], -2 * sqrt(4 / reals(&b, "dof_invweight0")[1]));
  assert_int_equal(integer(&b, "sensor_dim", 0), 4);
  assert_int_equal(pbModel_Size(b.model, "nsensordata"), 4);
  bench_free(&b);
}

// ---- refusals -----------------------------------------------------------------------------------------------------
static void test_unknown_name_is_suggested(void **state) {
  (void)state;
  Bench b = rich();
  b.spec->equalities[0].name1 = "lover";
  refuses(&b, "unknown body 'lover' in weld, did you mean 'lower'?");
}

static void test_refusals(void **state) {
  (void)state;
  Bench b = rich();
  b.spec->geoms[0].size[1] = -1;
  refuses(&b, "second size must be positive");
  b = rich();
  b.spec->geoms[1].mass = 0;
  refuses(&b, "it moves");
  b = rich();
  b.spec->bodies[2].name = "upper";
  refuses(&b, "this name");
  b = rich();
  b.spec->joints[0].limited = pb_true;
  b.spec->joints[0].range[0] = 1;
  refuses(&b, "range[0] must be smaller than range[1]");
  b = rich();
  b.spec->joints[0].axis[1] = b.spec->joints[0].axis[2] = 0;
  refuses(&b, "axis is too short");
  b = rich();
  b.spec->option.timestep = 0;
  refuses(&b, "timestep is 0: expected a positive number");
  b = rich();
  b.spec->bodies[1].pose.pos[0] = 1e308;
  refuses(&b, "the mass matrix is not finite at degree of freedom");
  b = rich();
  b.spec->bodies[1].parent = 2;
  b.spec->bodies[2].parent = 1;
  refuses(&b, "");
}

// ---- parameters and options ---------------------------------------------------------------------------------------
static void test_parameters_by_name(void **state) {
  (void)state;
  Bench b = rich();
  compile(&b);
  pbParam p;
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_mass", &p), pb_ok);
  assert_int_equal(p.rows, 4);
  assert_true(p.lower == 0 && !p.derived);
  const double *theta = pbModel_DefaultParams(b.model);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_inertia:lower", &p), pb_ok);
  assert_int_equal(p.rows, 1);
  assert_true(theta[p.offset + 2] == reals(&b, "body_inertia")[8]);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "dof_damping:elbow", &p), pb_ok);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "gravity", &p), pb_ok);
  NEAR(theta[p.offset + 2], -9.81);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_mas", &p), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(b.ctx), "did you mean 'body_mass'?"));
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_mass:lowr", &p), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(b.ctx), "did you mean 'lower'?"));
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_mass:4", &p), pb_bad_argument);
  pbParam whole;
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_inertia", &whole), pb_ok);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_inertia:lower:2", &p), pb_ok);
  assert_true(p.rows == 1 && p.cols == 1 && p.offset == whole.offset + 8);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "gravity:2", &p), pb_ok);
  assert_true(p.rows == 1 && p.cols == 1 && theta[p.offset] == -9.81);
  static const char *const wrong[] = {"body_inertia:lower:3", "body_inertia:lower:", "body_inertia:lower:x",
                                      "body_inertia:lowr:0",  "gravity:3",           "gravity:",
                                      "gravity:-1",           "timestep:0:0"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(pbModel_Param(b.ctx, b.model, wrong[i], &p), pb_bad_argument);
  for (size_t i = 0; i < pbModel_ParamSize(b.model); i++) {  // every entry has a name that leads to it
    char name[256];
    assert_int_equal(pbModel_Param(b.ctx, b.model, pbModel_ParamName(b.model, i, name, sizeof name), &p), pb_ok);
    assert_true(p.offset == i && p.rows * p.cols == 1);
  }
  for (int i = 0; i < pbModel_ParamCount(b.model); i++) {
    pbParam again;
    p = pbModel_ParamAt(b.model, i);
    assert_int_equal(pbModel_Param(b.ctx, b.model, p.name, &again), pb_ok);
    assert_true(again.offset == p.offset);
    if (i)
      assert_true(p.offset == pbModel_ParamAt(b.model, i - 1).offset +
                                  (size_t)pbModel_ParamAt(b.model, i - 1).rows * (size_t)pbModel_ParamAt(b.model, i - 1).cols);
  }
  bench_free(&b);
}

static double *copy_theta(const Bench *b) {
  size_t n = pbModel_ParamSize(b->model);
  double *theta = malloc(n * sizeof *theta);
  memcpy(theta, pbModel_DefaultParams(b->model), n * sizeof *theta);
  return theta;
}

static void test_values_are_checked(void **state) {
  (void)state;
  static const struct {
    const char *name, *complaint;
    double value;
  } cases[] = {{"body_mass:lower", "body_mass:lower is -1: expected zero or a positive number", -1},
               {"body_mass:lower", "too small", 0},
               {"gravity:1", "gravity:1 is NaN: expected a finite number", NAN},
               {"gravity", "gravity:0 is inf: expected a finite number", INFINITY},
               {"timestep", "timestep is 0: expected a positive number", 0},
               {"timestep", "timestep is -0.5: expected a positive number", -0.5},
               {"timestep", "timestep is NaN: expected a finite number", NAN},
               {"impratio", "impratio is -1: expected a positive number", -1},
               {"body_inertia:upper", "is no inertia", 1e3},
               {"geom_size:0", "must be positive", 0}};
  Bench b = rich();
  compile(&b);
  assert_int_equal(pbModel_CheckParams(b.ctx, b.model, pbModel_DefaultParams(b.model)), pb_ok);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbParam p;
    double *theta = copy_theta(&b);
    assert_int_equal(pbModel_Param(b.ctx, b.model, cases[i].name, &p), pb_ok);
    theta[p.offset] = cases[i].value;
    assert_int_equal(pbModel_CheckParams(b.ctx, b.model, theta), pb_bad_input);
    assert_non_null(strstr(pbContext_Error(b.ctx), cases[i].complaint));
    free(theta);
  }
  bench_free(&b);
}

static void test_options(void **state) {
  (void)state;
  Bench b = rich();
  compile(&b);
  assert_int_equal(pbModel_SetOption(b.model, "integrator", "implicitfast"), pb_ok);
  assert_int_equal(integer(&b, "integrator", 0), pb_intImplicitfast);
  assert_int_equal(pbModel_SetOption(b.model, "cone", "1"), pb_ok);
  assert_int_equal(integer(&b, "cone", 0), pb_coneElliptic);
  assert_int_equal(pbModel_SetOption(b.model, "contact", "disable"), pb_ok);
  assert_int_equal(integer(&b, "disableflags", 0), pb_disContact);
  assert_int_equal(pbModel_SetOption(b.model, "contact", "enable"), pb_ok);
  assert_int_equal(integer(&b, "disableflags", 0), 0);
  assert_int_equal(pbModel_SetOption(b.model, "override", "enable"), pb_ok);
  assert_int_equal(integer(&b, "enableflags", 0), pb_enOverride);
  assert_int_equal(pbModel_SetOption(b.model, "tolerance", "1e-9"), pb_ok);
  assert_int_equal(pbModel_SetOption(b.model, "tolerance", "1e-9 m"), pb_bad_argument);
  assert_int_equal(pbModel_SetOption(b.model, "tolerance", "-1"), pb_bad_argument);
  assert_int_equal(pbModel_SetOption(b.model, "iterations", "1e3"), pb_bad_argument);
  assert_int_equal(pbModel_SetOption(b.model, "iterations", "0"), pb_bad_argument);
  assert_int_equal(pbModel_SetOption(b.model, "integrator", "implicit"), pb_unsupported);
  assert_int_equal(pbModel_SetOption(b.model, "integrater", "Euler"), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(b.ctx), "did you mean 'integrator'?"));
  bench_free(&b);
}

// ---- constants ----------------------------------------------------------------------------------------------------
static void test_constants_repeat_and_follow(void **state) {
  (void)state;
  Bench b = rich();
  compile(&b);
  size_t n = pbModel_ParamSize(b.model);
  double *theta = copy_theta(&b);
  assert_int_equal(pbModel_SetConstants(b.ctx, b.model, theta), pb_ok);
  for (size_t i = 0; i < n; i++) NEAR(theta[i], pbModel_DefaultParams(b.model)[i]);
  pbParam mass, inertia, invweight;
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_mass:free", &mass), pb_ok);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_inertia:free", &inertia), pb_ok);
  assert_int_equal(pbModel_Param(b.ctx, b.model, "body_invweight0:free", &invweight), pb_ok);
  double before = theta[invweight.offset];
  theta[mass.offset] *= 2;
  for (int k = 0; k < 3; k++) theta[inertia.offset + (size_t)k] *= 2;
  assert_int_equal(pbModel_SetConstants(b.ctx, b.model, theta), pb_ok);
  NEAR(theta[invweight.offset], before / 2);
  free(theta);
  bench_free(&b);
}

static double weigh(const Bench *b, const double *theta, const double *bar, double *work) {
  size_t n = pbModel_ParamSize(b->model);
  double sum = 0;
  memcpy(work, theta, n * sizeof *work);
  assert_int_equal(pbModel_SetConstants(b->ctx, b->model, work), pb_ok);
  for (size_t i = 0; i < n; i++) sum += bar[i] * work[i];
  return sum;
}

// d/dt bar . SetConstants(theta + t direction) by Richardson's differences equals the pullback times the direction.
static void test_pullback_of_constants(void **state) {
  (void)state;
  static const char *const moved[] = {"qpos0",     "body_pos",     "body_quat",       "body_ipos",         "body_iquat",
                                      "body_mass", "body_inertia", "jnt_pos",         "jnt_axis",          "dof_armature",
                                      "site_pos",  "wrap_prm",     "tendon_armature", "actuator_armature", "geom_size"};
  static const char *const derived[] = {"body_subtreemass",  "body_invweight0", "dof_invweight0", "tendon_length0",
                                        "tendon_invweight0", "eq_data",         "geom_fluid"};
  Bench b = rich();
  compile(&b);
  size_t n = pbModel_ParamSize(b.model);
  double *theta = copy_theta(&b), *bar = calloc(n, sizeof *bar), *pulled = calloc(n, sizeof *pulled),
         *direction = calloc(n, sizeof *direction);
  double *work = calloc(n, sizeof *work), *shifted = calloc(n, sizeof *shifted);
  unsigned seed = 12345;
  pbParam p;
  for (size_t s = 0; s < sizeof derived / sizeof *derived; s++) {
    assert_int_equal(pbModel_Param(b.ctx, b.model, derived[s], &p), pb_ok);
    for (int i = 0; i < p.rows * p.cols; i++)
      bar[p.offset + (size_t)i] = ((seed = seed * 1664525u + 1013904223u) >> 8) / 16777216.0 - 0.5;
  }
  memcpy(pulled, bar, n * sizeof *bar);
  assert_int_equal(pbModel_SetConstantsVjp(b.ctx, b.model, theta, pulled), pb_ok);
  for (size_t s = 0; s < sizeof moved / sizeof *moved; s++) {
    memset(direction, 0, n * sizeof *direction);
    assert_int_equal(pbModel_Param(b.ctx, b.model, moved[s], &p), pb_ok);
    double exact = 0, slope[2];
    for (int i = 0; i < p.rows * p.cols; i++) {
      size_t k = p.offset + (size_t)i;
      direction[k] = (((seed = seed * 1664525u + 1013904223u) >> 8) / 16777216.0 - 0.5) * (p.lower == 0 ? theta[k] : 1);
      exact += pulled[k] * direction[k];
    }
    for (int h = 0; h < 2; h++) {
      double step = h ? 5e-5 : 1e-4, value[2];
      for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++) shifted[i] = theta[i] + (side ? step : -step) * direction[i];
        value[side] = weigh(&b, shifted, bar, work);
      }
      slope[h] = (value[1] - value[0]) / (2 * step);
    }
    double difference = (4 * slope[1] - slope[0]) / 3;
    if (fabs(difference - exact) > 1e-8 * (1 + fabs(exact)))
      print_error("%s: %g, by differences %g\n", moved[s], exact, difference);
    assert_true(fabs(difference - exact) <= 1e-8 * (1 + fabs(exact)));
  }
  assert_int_equal(pbModel_Param(b.ctx, b.model, "dof_invweight0", &p), pb_ok);
  assert_true(pulled[p.offset] == 0);  // what is derived keeps no cotangent
  free(theta);
  free(bar);
  free(pulled);
  free(direction);
  free(work);
  free(shifted);
  bench_free(&b);
}

// Fields that are said to be read from are; all others may change without a constant that changes. Only what is wanted is pulled.
static void test_what_constants_are_read_from(void **state) {
  (void)state;
  Bench b = rich();
  compile(&b);
  size_t n = pbModel_ParamSize(b.model);
  double *theta = copy_theta(&b), *moved = calloc(n, sizeof *moved), *all = calloc(n, sizeof *all),
         *some = calloc(n, sizeof *some);
  bool *wanted = calloc(n, sizeof *wanted);
  int read = 0;

  for (int f = 0; f < pbModel_ParamCount(b.model); f++) {
    pbParam p = pbModel_ParamAt(b.model, f);
    size_t size = (size_t)p.rows * (size_t)p.cols;
    bool is_read = pbConstants_Read(b.model, p.offset, size), changed = false;
    for (size_t i = p.offset; i < p.offset + (p.derived ? 0 : size); i++) {
      memcpy(moved, theta, n * sizeof *moved);
      moved[i] += 1e-3 * (1 + fabs(theta[i]));
      if (pbModel_SetConstants(b.ctx, b.model, moved) != pb_ok) continue;  // out of what a model may have
      for (size_t k = 0; k < n; k++) changed = changed || (k != i && moved[k] != theta[k]);
    }
    if (changed && !is_read) print_error("constants change with %s\n", p.name);
    assert_true(is_read || !changed);
    read += is_read;
  }
  assert_in_range(read, 12, 25);

  for (size_t i = 0; i < n; i++) {
    all[i] = some[i] = cos((double)i);
    wanted[i] = i % 3 == 0;
  }
  assert_int_equal(pbModel_SetConstantsVjp(b.ctx, b.model, theta, all), pb_ok);
  assert_int_equal(pbConstants_Pull(b.ctx, b.model, theta, wanted, some), pb_ok);
  int behind = 0;
  for (size_t i = 0; i < n; i++) {
    assert_true(some[i] == all[i] || !wanted[i]);
    behind += some[i] != all[i];
  }
  assert_true(behind > 20);

  double *memory[] = {theta, moved, all, some};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
  free(wanted);
  bench_free(&b);
}

// ---- memory -------------------------------------------------------------------------------------------------------
static void test_every_allocation_may_fail(void **state) {
  (void)state;
  Bench source = rich();
  Meter meter = {0};
  const pbAllocator hooks = meter_hooks(&meter);
  pbContext *ctx = pbContext_Create(&hooks), *own = source.spec->ctx;
  source.spec->ctx = ctx;  // the spec's memory stays with its own context; the model's comes from the metered one
  pbStatus status = pb_no_memory;
  for (int k = 1; status != pb_ok; k++) {
    int live = meter.live;
    meter.calls = 0;
    meter.fail_at = k;
    status = pbSpec_Compile(source.spec, &source.model);
    assert_true(status == pb_ok || status == pb_no_memory);
    assert_true(status == pb_ok || meter.live == live);
    assert_true(k < 1000);
  }
  pbModel_Destroy(source.model);
  source.model = NULL;
  source.spec->ctx = own;
  pbContext_Destroy(ctx);
  assert_int_equal(meter.live, 0);
  bench_free(&source);
}

static void test_suggestions(void **state) {
  (void)state;
  assert_int_equal(pbSuggest_Distance("kitten", "sitting"), 6);
  assert_int_equal(pbSuggest_Distance("abc", "acb"), 2);  // a swap of neighbours counts once
  assert_int_equal(pbSuggest_Distance("Euler", "euler"), 1);
  char text[64];
  pbSuggest s = pbSuggest_For("L-BFGS");
  pbSuggest_Offer(&s, "adam");
  pbSuggest_Offer(&s, "lbfgs");
  assert_string_equal(pbSuggest_Write(&s, text, sizeof text), ", did you mean 'lbfgs'?");
  s = pbSuggest_For("xyz");
  pbSuggest_Offer(&s, "completely different");
  assert_string_equal(pbSuggest_Write(&s, text, sizeof text), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_of_ids),
      cmocka_unit_test(test_inertia_of_two_balls),
      cmocka_unit_test(test_angles_and_frames),
      cmocka_unit_test(test_derived_constants),
      cmocka_unit_test(test_rope_weld_and_servo),
      cmocka_unit_test(test_unknown_name_is_suggested),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_parameters_by_name),
      cmocka_unit_test(test_values_are_checked),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_constants_repeat_and_follow),
      cmocka_unit_test(test_pullback_of_constants),
      cmocka_unit_test(test_what_constants_are_read_from),
      cmocka_unit_test(test_every_allocation_may_fail),
      cmocka_unit_test(test_suggestions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
