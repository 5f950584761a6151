// A spec attached to another: where things stand, keyframes in the order of the whole, what is refused, memory that fails.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pullback/edit.h>
#include <pullback/io.h>

#include "support/meter.h"
#include "support/support.h"

static const char base[] =
    "<mujoco><worldbody><frame name='f' pos='0 0 1'/><body name='a'><joint name='j'/><geom name='g' size='.1'/>"
    "<body name='led'><joint name='ball' type='ball'/><geom size='.1'/></body></body><body name='b'><joint name='k'/><geom "
    "size='.1'/>"
    "</body></worldbody><actuator><motor name='m' joint='k'/></actuator>"
    "<keyframe><key name='own' qpos='1 2 3 4 5 6' ctrl='7'/></keyframe></mujoco>";
static const char part[] =
    "<mujoco model='part'><compiler angle='radian'/><option timestep='.01'/><asset><material name='red' rgba='1 0 0 1'/></asset>"
    "<worldbody><geom name='plate' size='.1'/><frame name='f'><body name='arm'><joint name='j' range='-1 1'/><geom name='g' "
    "size='.1' "
    "material='red'/><site name='s'/></body></frame><body name='leg'><joint name='k' type='slide'/><geom "
    "size='.1'/></body></worldbody>"
    "<contact><exclude body1='world' body2='arm'/><pair geom1='plate' geom2='g'/></contact>"
    "<equality><weld body1='world' body2='leg' active='false'/></equality>"
    "<tendon><spatial name='t'><site site='s'/><geom geom='g'/><site site='s'/></spatial></tendon>"
    "<actuator><general name='m' joint='j' dyntype='integrator'/></actuator>"
    "<sensor><jointpos joint='k'/><framepos objtype='body' objname='world'/><framepos objtype='site' objname='s' reftype='body' "
    "refname='world'/></sensor>"
    "<custom><tuple name='all'><element objtype='body' objname='world'/><element objtype='geom' objname='g'/></tuple></custom>"
    "<keyframe><key name='home' qpos='8 9' act='10' ctrl='11'/></keyframe></mujoco>";

static pbSpec *parse(pbContext *ctx, const char *text) {
  pbSpec *spec = NULL;
  assert_int_equal(pbSpec_ParseMjcf(ctx, text, strlen(text), "text", &spec), pb_ok);
  return spec;
}

// Numbers of a list; 99 stands for NaN.
static void assert_numbers(pbReals list, int count, const double *expected) {
  assert_int_equal(list.count, count);
  for (int i = 0; i < count; i++) assert_true(isnan(list.data[i]) ? expected[i] == 99 : list.data[i] == expected[i]);
}

static void test_where_things_stand(void **state) {
  pbContext *elsewhere = pbContext_Create(NULL);
  pbSpec *spec = parse(*state, base), *other = parse(elsewhere, part);
  int frame = 7, last = spec->sensors ? spec->sensors[0].key : 0;
  assert_int_equal(pbSpec_Attach(spec, pb_specBody, 1, other, "x_", &frame), pb_ok);
  pbSpec_Destroy(other);
  pbContext_Destroy(elsewhere);

  // What stood in the world stands in the body, in the new frame; what stood in a frame in that, which is in the new one.
  assert_int_equal(frame, 1);
  assert_int_equal(spec->frames[frame].body, 1);
  assert_int_equal(spec->frames[frame].parent, -1);
  const pbBodyDef *arm = pbSpec_FindBody(spec, "x_arm"), *leg = pbSpec_FindBody(spec, "x_leg");
  assert_int_equal(arm->parent, 1);
  assert_int_equal(arm->frame, 2);
  assert_string_equal(spec->frames[2].name, "x_f");
  assert_int_equal(spec->frames[2].parent, frame);
  assert_int_equal(leg->frame, frame);
  assert_int_equal(pbSpec_FindGeom(spec, "x_plate")->body, 1);
  assert_int_equal(pbSpec_FindGeom(spec, "x_plate")->frame, frame);
  assert_int_equal(pbSpec_FindGeom(spec, "x_g")->frame, -1);
  assert_string_equal(pbSpec_FindGeom(spec, "x_g")->material, "x_red");

  // Names of the world stay; what names it alone does not come along.
  assert_string_equal(spec->excludes[0].body1, "world");
  assert_string_equal(spec->excludes[0].body2, "x_arm");
  assert_string_equal(spec->tendons[0].path[1].target, "x_g");
  assert_string_equal(spec->tuples[0].entries[0].objname, "world");
  assert_string_equal(spec->tuples[0].entries[1].objname, "x_g");
  assert_int_equal(spec->nsensor, 2);
  assert_string_equal(spec->sensors[1].refname, "world");
  assert_true(spec->sensors[0].key > last);
  assert_non_null(strstr(pbContext_Warnings(*state), "names the world alone"));
  assert_non_null(strstr(pbContext_Warnings(*state), "timestep"));

  // Its angles are radians still.
  assert_int_equal(spec->nattached, 1);
  assert_false(spec->attached[pbSpec_FindJoint(spec, "x_j")->place.model - 1].degree);
  pbModel *model = NULL;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
}

// Bodies depth first: a, its ball, arm and leg, b.
static void test_keyframes(void **state) {
  pbSpec *spec = parse(*state, base), *other = parse(*state, part);
  int frame;
  assert_int_equal(pbSpec_Attach(spec, pb_specBody, 1, other, "x_", &frame), pb_ok);
  assert_int_equal(spec->nkey, 2);
  assert_numbers(spec->keys[0].qpos, 8, (double[]){1, 2, 3, 4, 5, 99, 99, 6});
  assert_numbers(spec->keys[0].ctrl, 1, (double[]){7});
  assert_int_equal(spec->keys[0].act.count, 0);
  assert_string_equal(spec->keys[1].name, "x_home");
  assert_numbers(spec->keys[1].qpos, 7, (double[]){99, 99, 99, 99, 99, 8, 9});
  assert_numbers(spec->keys[1].act, 1, (double[]){10});
  assert_numbers(spec->keys[1].ctrl, 2, (double[]){99, 11});

  // Once more, in a frame of the world: behind all, so that keyframes that were there stay as they are, memory and all.
  const double *first = spec->keys[0].qpos.data, *second = spec->keys[1].qpos.data, *act = spec->keys[1].act.data;
  assert_int_equal(pbSpec_Attach(spec, pb_specFrame, 0, other, "y_", &frame), pb_ok);
  assert_int_equal(spec->frames[frame].parent, 0);
  assert_numbers(spec->keys[1].qpos, 7, (double[]){99, 99, 99, 99, 99, 8, 9});
  assert_true(spec->keys[0].qpos.data == first && spec->keys[1].qpos.data == second && spec->keys[1].act.data == act);
  assert_numbers(spec->keys[2].qpos, 10, (double[]){99, 99, 99, 99, 99, 99, 99, 99, 8, 9});
  assert_numbers(spec->keys[2].act, 2, (double[]){99, 10});
  pbSpec_Destroy(other);
  pbSpec_Destroy(spec);
}

static void assert_refused(pbSpec *spec, pbSpecKind kind, int id, const pbSpec *other, pbStatus status, const char *text) {
  int frame = 7, bodies = spec->nbody, frames = spec->nframe;
  assert_int_equal(pbSpec_Attach(spec, kind, id, other, "", &frame), status);
  assert_non_null(strstr(pbContext_Error(spec->ctx), text));
  assert_int_equal(frame, -1);
  assert_int_equal(spec->nbody, bodies);
  assert_int_equal(spec->nframe, frames);
}

static void test_refused(void **state) {
  pbSpec *spec = parse(*state, base), *other = parse(*state, part), *empty = NULL;
  assert_int_equal(pbSpec_Create(*state, &empty), pb_ok);
  assert_refused(spec, pb_specBody, 4, other, pb_bad_argument, "no body 4");
  assert_refused(spec, pb_specBody, -1, other, pb_bad_argument, "no body -1");
  assert_refused(spec, pb_specFrame, 1, other, pb_bad_argument, "no frame 1");
  assert_refused(spec, pb_specGeom, 0, other, pb_bad_argument, "not to a geom");
  assert_refused(spec, pb_specBody, 0, spec, pb_bad_argument, "to itself");
  assert_refused(spec, pb_specBody, 0, other, pb_bad_argument, "'f': one of this name is there already");

  // Neither tree may be none, and keyframes are no longer than their models.
  other->geoms[0].body = 9;
  assert_refused(empty, pb_specBody, 0, other, pb_bad_input, "stands in body 9");
  assert_refused(other, pb_specBody, 0, empty, pb_bad_input, "stands in body 9");
  other->geoms[0].body = 0;
  other->geoms[0].place.model = 5;
  assert_refused(empty, pb_specBody, 0, other, pb_bad_input, "comes from model 5");
  other->geoms[0].place.model = 0;
  other->keys[0].qpos.count = 1;
  other->keys[0].qvel = pbSpec_Reals(other, (double[]){1, 2, 3}, 3);
  assert_refused(empty, pb_specBody, 0, other, pb_bad_input, "qvel has 3 numbers, expected at most 2");

  // One sort of visual elements may have the names of another.
  other->keys[0].qvel.count = 2;
  int frame;
  pbVisualDef texture = pbVisualDef_Default();
  texture.name = "red";
  texture.element = "asset/texture";
  assert_true(pbSpec_AddVisual(empty, &texture) >= 0);
  assert_int_equal(pbSpec_Attach(empty, pb_specBody, 0, other, "", &frame), pb_ok);
  assert_int_equal(empty->nvisual, 2);

  pbSpec_Destroy(empty);
  pbSpec_Destroy(other);
  pbSpec_Destroy(spec);
}

// Whichever call for memory fails: a status, and the spec is what it was.
static void test_without_memory(void **state) {
  pbSpec *other = parse(*state, part);
  pbStatus status = pb_no_memory;
  for (long n = 1; status != pb_ok; n++) {
    Meter meter = {0};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbSpec *spec = parse(ctx, base);
    long live = meter.live;
    meter.fail_at = meter.calls + n;

    int frame;
    status = pbSpec_Attach(spec, pb_specBody, 2, other, "x_", &frame);
    assert_true(status == pb_ok || (status == pb_no_memory && *pbContext_Error(ctx) && frame == -1 && meter.live >= live));
    assert_int_equal(spec->nbody, status == pb_ok ? 6 : 4);
    assert_int_equal(spec->keys[0].qpos.count, status == pb_ok ? 8 : 6);
    meter.fail_at = 0;

    // It compiles either way.
    pbModel *model = NULL;
    assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
    pbModel_Destroy(model);
    pbSpec_Destroy(spec);
    assert_int_equal(meter.live, 1 + (*pbContext_Warnings(ctx) != 0));
    pbContext_Destroy(ctx);
    assert_int_equal(meter.live, 0);
    assert_true(n < 500);
  }
  pbSpec_Destroy(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_where_things_stand, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_keyframes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_refused, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_without_memory, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
