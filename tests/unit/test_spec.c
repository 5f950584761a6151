// The spec: built by hand, edited in place, checked.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <pullback/edit.h>
#include <pullback/sensors.h>
#include <pullback/spec.h>

#include "support/support.h"

static pbSpec *new_spec(void **state) {
  pbSpec *spec = NULL;
  assert_int_equal(pbSpec_Create(*state, &spec), pb_ok);
  return spec;
}

static void test_empty(void **state) {
  pbSpec *spec = new_spec(state);
  assert_int_equal(spec->nbody, 1);
  assert_string_equal(spec->bodies[0].name, "world");
  assert_true(spec->compiler.degree);
  assert_int_equal(spec->option.solver, pb_solNewton);
  assert_true(isnan(spec->statistic.extent));
  assert_int_equal(pbSpec_Check(spec), pb_ok);
  pbSpec_Destroy(spec);
  pbSpec_Destroy(NULL);
}

// A pendulum on a cart.
static void build(pbSpec *spec) {
  pbBodyDef body = pbBodyDef_Default();
  body.name = "cart";
  assert_int_equal(pbSpec_AddBody(spec, &body), 1);
  body.name = "pole";
  body.parent = 1;
  assert_int_equal(pbSpec_AddBody(spec, &body), 2);
  pbJointDef joint = pbJointDef_Default();
  joint.name = "slide";
  joint.type = pb_jntSlide;
  joint.body = 1;
  assert_int_equal(pbSpec_AddJoint(spec, &joint), 0);
  joint.name = "hinge";
  joint.type = pb_jntHinge;
  joint.body = 2;
  assert_int_equal(pbSpec_AddJoint(spec, &joint), 1);
  pbGeomDef geom = pbGeomDef_Default();
  geom.size[0] = 0.1;
  for (geom.body = 1; geom.body <= 2; geom.body++) assert_true(pbSpec_AddGeom(spec, &geom) >= 0);
}

static void test_build_and_edit(void **state) {
  pbSpec *spec = new_spec(state);
  build(spec);
  assert_int_equal(pbSpec_Check(spec), pb_ok);
  pbJointDef *hinge = pbSpec_FindJoint(spec, "hinge");
  assert_non_null(hinge);
  hinge->damping[0] = 3;
  assert_float_equal(spec->joints[1].damping[0], 3, 0);
  assert_null(pbSpec_FindJoint(spec, "nothing"));
  assert_null(pbSpec_FindJoint(spec, ""));
  pbSpec_Destroy(spec);
}

static void test_strings_are_copied(void **state) {
  pbSpec *spec = new_spec(state);
  char name[] = "before";
  double numbers[] = {1, 2, 3};
  pbGeomDef geom = pbGeomDef_Default();
  geom.name = name;
  geom.user = (pbReals){numbers, 3};
  assert_int_equal(pbSpec_AddGeom(spec, &geom), 0);
  strcpy(name, "after!");
  numbers[0] = 7;
  assert_string_equal(spec->geoms[0].name, "before");
  assert_float_equal(spec->geoms[0].user.data[0], 1, 0);
  spec->geoms[0].name = pbSpec_Text(spec, name);
  assert_non_null(pbSpec_FindGeom(spec, "after!"));
  pbSpec_Destroy(spec);
}

static void test_paths_are_copied(void **state) {
  pbSpec *spec = new_spec(state);
  build(spec);
  char target[] = "slide";
  pbWrap path[] = {{.type = pb_wrapJoint, .target = target, .value = 2}};
  pbTendonDef tendon = pbTendonDef_Default();
  tendon.path = path;
  tendon.path_count = 1;
  assert_int_equal(pbSpec_AddTendon(spec, &tendon), 0);
  target[0] = 'X';
  path[0].value = 9;
  assert_string_equal(spec->tendons[0].path[0].target, "slide");
  assert_float_equal(spec->tendons[0].path[0].value, 2, 0);
  assert_int_equal(pbSpec_Check(spec), pb_ok);
  pbSpec_Destroy(spec);
}

static void test_visuals_are_stored(void **state) {
  pbSpec *spec = new_spec(state);
  const char *keys[] = {"rgba", "shininess"}, *values[] = {"1 0 0 1", "0.5"};
  pbVisualDef visual = pbVisualDef_Default();
  visual.element = "asset/material";
  visual.name = "red";
  visual.keys = keys;
  visual.values = values;
  visual.count = 2;
  assert_int_equal(pbSpec_AddVisual(spec, &visual), 0);
  keys[0] = values[0] = "gone";
  assert_string_equal(spec->visuals[0].keys[0], "rgba");
  assert_string_equal(spec->visuals[0].values[1], "0.5");
  pbSpec_Destroy(spec);
}

static void test_many(void **state) {
  pbSpec *spec = new_spec(state);
  pbSiteDef site = pbSiteDef_Default();
  char name[32];
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "site%d", i);
    site.name = name;
    site.size[0] = i;
    assert_int_equal(pbSpec_AddSite(spec, &site), i);
  }
  assert_float_equal(pbSpec_FindSite(spec, "site4711")->size[0], 4711, 0);
  assert_int_equal(pbSpec_Check(spec), pb_ok);
  pbSpec_Destroy(spec);
}

static void test_no_such_parent(void **state) {
  pbSpec *spec = new_spec(state);
  pbGeomDef geom = pbGeomDef_Default();
  geom.body = 1;
  assert_int_equal(pbSpec_AddGeom(spec, &geom), -1);
  assert_non_null(strstr(pbContext_Error(*state), "no body 1"));
  geom.body = 0;
  geom.frame = 0;
  assert_int_equal(pbSpec_AddGeom(spec, &geom), -1);
  assert_int_equal(spec->ngeom, 0);
  pbSpec_Destroy(spec);
}

// Each spoils a good spec in one way; what the check says of it.
static void spoil_names(pbSpec *spec) { spec->joints[0].name = spec->joints[1].name; }
static void spoil_parent(pbSpec *spec) { spec->bodies[1].parent = 2; }
static void spoil_frame(pbSpec *spec) { spec->geoms[0].frame = 3; }
static void spoil_integrator(pbSpec *spec) { spec->option.integrator = pb_intImplicit; }
static void spoil_iterations(pbSpec *spec) { spec->option.iterations = 0; }
static void spoil_line_search(pbSpec *spec) { spec->option.ls_iterations = -3; }
static void spoil_actuator(pbSpec *spec) {
  pbActuatorDef actuator = pbActuatorDef_Default();
  actuator.trntype = pb_trnBody + 1;
  assert_int_equal(pbSpec_AddActuator(spec, &actuator), 0);
}
static void spoil_sensor(pbSpec *spec) {
  pbSensorDef sensor = pbSensorDef_Default();
  sensor.type = pb_sensClock + 1;
  assert_int_equal(pbSpec_AddSensor(spec, &sensor), 0);
}
static void spoil_tendon(pbSpec *spec) {
  pbTendonDef tendon = pbTendonDef_Default();
  assert_int_equal(pbSpec_AddTendon(spec, &tendon), 0);
}
static void spoil_user(pbSpec *spec) { spec->size.nuser_geom = 1 << 30; }
static void spoil_keys(pbSpec *spec) { spec->size.nkey = 1 << 30; }

// Every number that stands alone or in a row of its record: NaN, and less than makes sense. Elements have been given a place.
static void spoil_number(void **state, pbSpec *spec, pbSpecKind kind, const pbSpecField *f) {
  char kept[1024], *record = pbSpec_At(spec, kind, pbSpec_Count(spec, kind) - 1);
  size_t size = f->type == pb_fieldInt ? sizeof(int) : sizeof(double);
  double least = pbSpecKind_Least(kind, f), wrong = f->type == pb_fieldInt ? least - 1 : NAN;
  if (f->type == pb_fieldInt && isinf(least)) return;
  memcpy(kept, record + f->offset, size);

  int whole = f->type == pb_fieldInt ? (int)wrong : 0;
  memcpy(record + f->offset, f->type == pb_fieldInt ? (void *)&whole : (void *)&wrong, size);
  bool open = f->optional && f->type == pb_fieldReal;
  assert_int_equal(pbSpec_Check(spec), open ? pb_ok : pb_bad_input);
  const char *name = strncmp(f->name, "pose.", 5) ? f->name : f->name + 5;
  if (!open) assert_non_null(strstr(pbContext_Error(*state), name));
  if (!open && kind < pb_specElements) assert_non_null(strstr(pbContext_Error(*state), "here.xml:7:3"));
  memcpy(record + f->offset, kept, size);
}

static void test_numbers(void **state) {
  pbSpec *spec = new_spec(state);
  for (int kind = 0; kind < pb_specWhole; kind++) {
    pbSpecField f;
    if (kind < pb_specElements && kind != pb_specTendon && kind != pb_specActuator) {
      double record[256];
      pbSpecKind_Default((pbSpecKind)kind, record);
      ((pbFrameDef *)(void *)record)->place = (pbPlace){"here.xml", 7, 3, 0};
      int id = pbSpec_Add(spec, (pbSpecKind)kind, record);
      assert_true(id >= 0);
    }
    for (int i = 0; pbSpec_Count(spec, (pbSpecKind)kind) && pbSpecKind_Field((pbSpecKind)kind, i, &f); i++) {
      bool number = (f.type == pb_fieldInt || f.type == pb_fieldReal) && !f.words && f.refers < 0;
      if (number) spoil_number(state, spec, (pbSpecKind)kind, &f);
    }
    assert_int_equal(pbSpec_Check(spec), pb_ok);
  }

  // Lists, and entries behind the first.
  spec->keys[0].qpos = pbSpec_Reals(spec, (double[]){1, NAN, INFINITY}, 3);
  assert_int_equal(pbSpec_Check(spec), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "here.xml:7:3: key: qpos[2] is inf, expected a finite number"));
  spec->keys[0].qpos.count = 2;
  spec->cameras[0].sensorsize[1] = -1;
  assert_int_equal(pbSpec_Check(spec), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "sensorsize[1] is -1, expected 0 or more"));

  // Colours move nothing, and are numbers all the same.
  spec->cameras[0].sensorsize[1] = 0;
  spec->geoms[0].rgba[3] = -1;
  assert_int_equal(pbSpec_Check(spec), pb_ok);
  spec->geoms[0].rgba[3] = NAN;
  assert_int_equal(pbSpec_Check(spec), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "rgba[3] is nan, expected a finite number"));
  pbSpec_Destroy(spec);
}

static void test_check(void **state) {
  static const struct {
    void (*spoil)(pbSpec *);
    pbStatus status;
    const char *text;
  } cases[] = {
      {spoil_names, pb_bad_input, "two of this name"},
      {spoil_parent, pb_bad_input, "does not make a tree: a parent stands before its bodies"},
      {spoil_frame, pb_bad_input, "frame 3"},
      {spoil_integrator, pb_unsupported, "integrator"},
      {spoil_iterations, pb_bad_input, "option: iterations is 0, expected at least 1"},
      {spoil_line_search, pb_bad_input, "option: ls_iterations is -3"},
      {spoil_actuator, pb_unsupported, "acts on nothing"},
      {spoil_sensor, pb_unsupported, "sensor"},
      {spoil_tendon, pb_bad_input, "no path"},
      {spoil_user, pb_bad_input, "user data"},
      {spoil_keys, pb_bad_input, "keyframes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbSpec *spec = new_spec(state);
    build(spec);
    cases[i].spoil(spec);
    assert_int_equal(pbSpec_Check(spec), cases[i].status);
    assert_non_null(strstr(pbContext_Error(*state), cases[i].text));
    pbSpec_Destroy(spec);
  }
}

static void test_height_field(void **state) {
  static const double height[6] = {1, 3, 2, 1, 1, 5};
  pbModel *model = NULL;
  pbSpec *spec = new_spec(state);
  pbHfieldDef def = pbHfieldDef_Default();
  def.name = "hills";
  def.nrow = 2;
  def.ncol = 3;
  def.elevation = (pbReals){height, 6};
  for (int k = 0; k < 4; k++) def.size[k] = 1 + k;
  build(spec);

  spec->geoms[0].type = pb_geomHfield;
  spec->geoms[0].hfield = "hills";
  assert_int_equal(pbSpec_Compile(spec, &model), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "hills"));

  assert_int_equal(pbSpec_AddHfield(spec, &def), 0);
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  pbField field;
  assert_true(pbModel_Field(model, "hfield_data", &field));
  assert_float_equal(field.reals[1], 0.5, 1e-7);
  pbModel_Destroy(model);

  spec->hfields[0].nrow = 3;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "6 heights, expected 3 rows of 3"));
  pbSpec_Destroy(spec);
}

static double body_mass(const pbModel *model, const char *name) {
  pbField field;
  assert_true(pbModel_Field(model, "body_mass", &field));
  return field.reals[pbModel_Id(model, pb_objBody, name)];
}

// Built without a file, compiled, edited, compiled again.
static void test_compile(void **state) {
  pbSpec *spec = new_spec(state);
  build(spec);
  pbActuatorDef motor = pbActuatorDef_Default();
  motor.trntype = pb_trnJoint;
  motor.target = "slide";
  assert_int_equal(pbSpec_AddActuator(spec, &motor), 0);
  pbModel *model = NULL;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  assert_int_equal(pbModel_Size(model, "nv"), 2);
  assert_int_equal(pbModel_Size(model, "nu"), 1);
  double ball = 1000 * 4.0 / 3 * 3.14159265358979323846 * 1e-3;
  assert_true(fabs(body_mass(model, "pole") - ball) < 1e-12);
  pbModel_Destroy(model);
  spec->geoms[1].mass = 7;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  assert_true(fabs(body_mass(model, "pole") - 7) < 1e-12);
  pbModel_Destroy(model);
  spec->actuators[0].target = pbSpec_Text(spec, "slides");
  assert_int_equal(pbSpec_Compile(spec, &model), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "slides"));
  pbSpec_Destroy(spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_empty, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_build_and_edit, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_strings_are_copied, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_paths_are_copied, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_visuals_are_stored, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_many, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_no_such_parent, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_numbers, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_check, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_height_field, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_compile, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
