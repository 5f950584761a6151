// Editing a spec by kinds and fields: the table against the structs, taking out, copies.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pullback/edit.h>
#include <pullback/io.h>
#include <pullback/sensors.h>

#include "support/meter.h"
#include "support/support.h"

static const char world[] =
    "<mujoco><worldbody><frame name='f'><body name='a'><joint name='j'/><geom name='g' size='.1'/><site name='s'/>"
    "<body name='b'><joint name='k'/><geom name='h' size='.1'/></body></body></frame><body name='c'><geom name='i' "
    "size='.1'/></body>"
    "</worldbody><contact><pair geom1='g' geom2='h'/><exclude body1='a' body2='c'/></contact>"
    "<tendon><fixed name='t'><joint joint='j' coef='1'/><joint joint='k' coef='1'/></fixed>"
    "<spatial name='u'><site site='s'/><geom geom='h' sidesite='s'/><site site='s'/></spatial></tendon>"
    "<equality><joint joint1='j' joint2='k'/><weld body1='c' body2='b'/></equality>"
    "<actuator><motor name='m' joint='j'/><motor name='n' tendon='t'/></actuator>"
    "<sensor><jointpos joint='k'/><framepos objtype='site' objname='s'/><actuatorfrc actuator='n'/><clock/></sensor>"
    "<custom><tuple name='all'><element objtype='geom' objname='h' prm='2'/></tuple></custom></mujoco>";

static pbSpec *read_world(void **state) {
  pbSpec *spec = NULL;
  assert_int_equal(pbSpec_ParseMjcf(*state, world, sizeof world - 1, "world", &spec), pb_ok);
  return spec;
}

// Fields lie in their records and on no other's bytes; every kind has a name.
static void test_fields(void **state) {
  (void)state;
  for (int kind = 0; kind < pb_specKinds; kind++) {
    size_t size = pbSpecKind_Size((pbSpecKind)kind);
    char *used = calloc(size, 1);
    pbSpecField f;
    assert_true(*pbSpecKind_Name((pbSpecKind)kind) != 0);
    assert_int_equal(*pbSpecKind_List((pbSpecKind)kind) != 0, kind < pb_specElements);
    assert_true(pbSpecKind_Field((pbSpecKind)kind, 0, &f));

    for (int i = 0; pbSpecKind_Field((pbSpecKind)kind, i, &f); i++) {
      assert_true(*f.name && *f.meaning && f.offset < size);
      assert_false(used[f.offset]);
      used[f.offset] = 1;
    }
    assert_false(pbSpecKind_Field((pbSpecKind)kind, -1, &f));
    free(used);
  }
}

static void test_look_and_add(void **state) {
  pbSpec *spec = read_world(state);
  assert_int_equal(pbSpec_Count(spec, pb_specGeom), 3);
  assert_int_equal(pbSpec_Find(spec, pb_specGeom, "h"), 1);
  assert_int_equal(pbSpec_Find(spec, pb_specGeom, ""), -1);
  assert_int_equal(pbSpec_Find(spec, pb_specOption, "h"), -1);
  assert_ptr_equal(pbSpec_At(spec, pb_specGeom, 1), &spec->geoms[1]);
  assert_ptr_equal(pbSpec_At(spec, pb_specOption, 0), &spec->option);
  assert_null(pbSpec_At(spec, pb_specGeom, 3));
  assert_null(pbSpec_At(spec, pb_specWrap, 0));

  pbGeomDef def;
  pbSpecKind_Default(pb_specGeom, &def);
  def.name = "new";
  assert_int_equal(pbSpec_Add(spec, pb_specGeom, &def), 3);
  assert_true(spec->geoms[3].key > spec->geoms[2].key);
  assert_int_equal(pbSpec_Add(spec, pb_specOption, &spec->option), -1);
  pbSpec_Destroy(spec);
}

// A body takes along what is below it and what names any of that; the rest keeps its order, keys and references.
static void test_remove(void **state) {
  pbSpec *spec = read_world(state);
  int key = spec->geoms[2].key;
  assert_int_equal(pbSpec_Remove(spec, pb_specBody, pbSpec_Find(spec, pb_specBody, "b")), pb_ok);
  assert_int_equal(spec->nbody, 3);
  assert_int_equal(spec->ngeom, 2);
  assert_int_equal(spec->geoms[1].key, key);
  assert_string_equal(spec->bodies[spec->geoms[1].body].name, "c");
  assert_int_equal(spec->njoint, 1);
  assert_int_equal(spec->npair + spec->ntendon + spec->nequality + spec->ntuple, 0);
  assert_int_equal(spec->nexclude, 1);
  assert_int_equal(spec->nactuator, 1);
  assert_int_equal(spec->nsensor, 2);
  assert_int_equal(spec->sensors[1].type, pb_sensClock);

  pbModel *model = NULL;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  pbModel_Destroy(model);

  // The frame, and with it what is left of the tree in it.
  assert_int_equal(pbSpec_Remove(spec, pb_specFrame, 0), pb_ok);
  assert_int_equal(spec->nbody, 2);
  assert_int_equal(spec->nframe, 0);
  assert_int_equal(spec->bodies[1].frame, -1);
  assert_int_equal(spec->nexclude + spec->nactuator, 0);
  assert_int_equal(spec->nsensor, 1);
  pbSpec_Destroy(spec);
}

static void test_no_such_element(void **state) {
  pbSpec *spec = read_world(state);
  assert_int_equal(pbSpec_Remove(spec, pb_specBody, 0), pb_bad_argument);
  assert_int_equal(pbSpec_Remove(spec, pb_specGeom, 3), pb_bad_argument);
  assert_int_equal(pbSpec_Remove(spec, pb_specGeom, -1), pb_bad_argument);
  assert_int_equal(pbSpec_Remove(spec, pb_specOption, 0), pb_bad_argument);
  assert_int_equal(spec->nbody, 4);
  pbSpec_Destroy(spec);
}

// The inertia of a body may stand in a frame that goes alone.
static void test_frame_of_an_inertia(void **state) {
  pbSpec *spec = NULL;
  assert_int_equal(pbSpec_Create(*state, &spec), pb_ok);
  pbBodyDef body = pbBodyDef_Default();
  assert_int_equal(pbSpec_AddBody(spec, &body), 1);
  pbFrameDef frame = pbFrameDef_Default();
  frame.body = 1;
  assert_int_equal(pbSpec_AddFrame(spec, &frame), 0);
  spec->bodies[1].has_inertial = true;
  spec->bodies[1].inertial_frame = 0;

  assert_int_equal(pbSpec_Remove(spec, pb_specFrame, 0), pb_ok);
  assert_int_equal(spec->nbody, 2);
  assert_int_equal(spec->bodies[1].inertial_frame, -1);
  assert_false(spec->bodies[1].has_inertial);
  pbSpec_Destroy(spec);
}

static void *pack(pbContext *ctx, const pbSpec *spec, size_t *size) {
  pbModel *model = NULL;
  void *bytes = NULL;
  assert_int_equal(pbSpec_Compile(spec, &model), pb_ok);
  assert_int_equal(pbModel_Pack(ctx, model, &bytes, size), pb_ok);
  pbModel_Destroy(model);
  return bytes;
}

// A copy has the same keys and compiles to the same bits; nothing of it points into the first.
static void test_copy(void **state) {
  pbSpec *spec = read_world(state), *copy = NULL;
  size_t before, after;
  void *expected = pack(*state, spec, &before);
  int key = spec->sensors[3].key;
  assert_int_equal(pbSpec_Copy(*state, spec, &copy), pb_ok);
  pbSpec_Destroy(spec);

  assert_int_equal(copy->sensors[3].key, key);
  assert_string_equal(copy->tendons[1].path[1].sidesite, "s");
  assert_string_equal(copy->tendons[1].path[1].place.file, "world");
  void *found = pack(*state, copy, &after);
  assert_int_equal(before, after);
  assert_memory_equal(expected, found, before);

  pbContext_Free(*state, expected);
  pbContext_Free(*state, found);
  pbSpec_Destroy(copy);
}

// What is edited where the n-th call for memory fails: a status, and nothing is changed or lost.
static pbStatus edit(pbContext *ctx, pbSpec **spec, pbSpec **copy) {
  PB_TRY(pbSpec_ParseMjcf(ctx, world, sizeof world - 1, "world", spec));
  PB_TRY(pbSpec_Copy(ctx, *spec, copy));

  int bodies = (*copy)->nbody;
  pbStatus status = pbSpec_Remove(*copy, pb_specBody, 1);
  assert_int_equal((*copy)->nbody, status == pb_ok ? 2 : bodies);
  if (status != pb_ok) return status;

  pbTupleDef def;
  pbSpecKind_Default(pb_specTuple, &def);
  def.entries = &(pbTupleEntry){.objname = "i", .objtype = pb_refGeom};
  def.count = 1;
  int before = (*copy)->ntuple, added = pbSpec_Add(*copy, pb_specTuple, &def);
  assert_int_equal((*copy)->ntuple, before + (added >= 0));
  return added >= 0 ? pb_ok : pb_no_memory;
}

static void test_without_memory(void **state) {
  (void)state;
  pbStatus status = pb_no_memory;
  for (long n = 1; status != pb_ok; n++) {
    Meter meter = {.fail_at = n + 1};  // the first makes the context
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbSpec *spec = NULL, *copy = NULL;
    status = edit(ctx, &spec, &copy);
    assert_true(status == pb_ok || status == pb_no_memory);
    assert_true(status == pb_ok || *pbContext_Error(ctx));

    pbSpec_Destroy(copy);
    pbSpec_Destroy(spec);
    assert_int_equal(meter.live, 1);
    pbContext_Destroy(ctx);
    assert_true(n < 2000);
  }
}

// Removing what was added last leaves no trace, however often; room is as adding expects it.
static void test_many(void **state) {
  pbSpec *spec = read_world(state);
  pbSiteDef site = pbSiteDef_Default();
  for (int round = 0; round < 40; round++) {
    for (int i = 0; i < round; i++) assert_int_equal(pbSpec_AddSite(spec, &site), 1 + i);
    for (int i = round; i > 0; i--) assert_int_equal(pbSpec_Remove(spec, pb_specSite, (round * 7 + i) % i + 1), pb_ok);
    assert_int_equal(spec->nsite, 1);
  }
  assert_string_equal(spec->sites[0].name, "s");
  pbSpec_Destroy(spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields),
      cmocka_unit_test_setup_teardown(test_look_and_add, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_remove, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_no_such_element, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_frame_of_an_inertia, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_copy, make_context, drop_context),
      cmocka_unit_test(test_without_memory),
      cmocka_unit_test_setup_teardown(test_many, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
