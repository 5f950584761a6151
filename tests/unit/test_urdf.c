// URDF and the meshes that come with it (DAE, GLB): every allocation that fails ends in an error and leaves nothing behind, and numbers
// have a point in every language. What files mean is compared in tests/oracle/test_urdf.py and test_dae.py.
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/mesh.h>
#include <pullback/spec.h>

#include "support/meter.h"

#define INERTIA                                                                                                         \
  "<inertial><origin xyz='0.1 0 0' rpy='0 0.5 0'/><mass value='1.5'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' " \
  "iyz='0.1'/></inertial>"

static const char robot[] =
    "<robot name='r'><mujoco><option timestep='0.01'/></mujoco><material name='m'><color rgba='1 0 0 1'/></material>"
    "<link name='a'><visual><geometry><mesh filename='package://p/a.stl' scale='1 1 2'/></geometry><material "
    "name='m'/></visual></link>"
    "<link name='b'>" INERTIA
    "<collision name='c'><geometry><box size='1 1 1'/></geometry></collision></link>"
    "<link name='c'>" INERTIA "</link><link name='d'>" INERTIA
    "</link>"
    "<joint name='j' type='revolute'><parent link='a'/><child link='b'/><limit lower='-1.5' upper='1' effort='2' "
    "velocity='1'/></joint>"
    "<joint name='k' type='planar'><parent link='b'/><child link='c'/><axis xyz='0 0 1'/></joint>"
    "<joint name='l' type='prismatic'><parent link='c'/><child link='d'/><mimic joint='j' multiplier='2.5'/></joint>"
    "<transmission/></robot>";

static const char dae[] =
    "<COLLADA><asset><unit meter='0.5'/></asset><library_geometries><geometry id='g'><mesh><source id='p'><float_array id='f'>0 "
    "0 0 1 0 "
    "0 1.5 1 0 0 1 0</float_array><technique_common><accessor source='#f' count='4' "
    "stride='3'/></technique_common></source><vertices "
    "id='v'><input semantic='POSITION' source='#p'/></vertices><polylist><input semantic='VERTEX' source='#v' offset='0'/>"
    "<vcount>4</vcount><p>0 1 2 3</p></polylist></mesh></geometry></library_geometries><library_visual_scenes><visual_scene "
    "id='s'>"
    "<node><matrix>1 0 0 1 0 1 0 0 0 0 1 0 0 0 0 1</matrix><instance_geometry "
    "url='#g'/></node></visual_scene></library_visual_scenes>"
    "</COLLADA>";

static const pbLoadOptions options = {.urdf = {.floating_base = true, .motors = true, .inertia = pb_inertiaRepair}};
static char file[] = "/tmp/pullback-dae-XXXXXX";

static int write_file(void **state) {
  (void)state;
  int fd = mkstemp(file);
  ssize_t length = (ssize_t)strlen(dae);
  bool good = fd >= 0 && write(fd, dae, (size_t)length) == length;
  if (fd >= 0) close(fd);
  return good ? 0 : -1;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(file);
}

// ---- allocations that fail ----------------------------------------------------------------------------------------------

static pbStatus load_robot(pbContext *ctx) {
  pbSpec *spec = NULL;
  pbStatus status = pbSpec_Parse(ctx, robot, strlen(robot), "r.urdf", &options, &spec);
  pbSpec_Destroy(spec);
  return status;
}

static pbStatus load_mesh(pbContext *ctx) {
  pbMesh *mesh = NULL;
  pbStatus status = pbMesh_LoadShape(ctx, file, ".dae", &mesh);
  pbMesh_Destroy(mesh);
  return status;
}

static void fail_each(pbStatus (*load)(pbContext *)) {
  bool done = false;
  for (long n = 0; !done && n < 100000; n++) {
    Meter c = {.fail_at = n + 1, .fail_ever_after = true};
    pbAllocator hooks = meter_hooks(&c);
    pbContext *ctx = pbContext_Create(&hooks);
    if (!ctx) continue;
    pbStatus status = load(ctx);
    done = status == pb_ok;
    if (!done && status != pb_no_memory) fail_msg("allocation %ld: %d %s", n, status, pbContext_Error(ctx));
    pbContext_Destroy(ctx);
    assert_int_equal(c.live, 0);
  }
  assert_true(done);
}

static void test_failing_allocator(void **state) {
  (void)state;
  fail_each(load_robot);
  fail_each(load_mesh);
}

// ---- languages ----------------------------------------------------------------------------------------------------------

static void test_numbers_have_a_point(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbSpec *spec = NULL;
  pbMesh *mesh = NULL;
  const char *before = setlocale(LC_ALL, "de_DE.UTF-8");  // a decimal comma, where it is installed
  (void)before;

  assert_int_equal(pbSpec_Parse(ctx, robot, strlen(robot), "r.urdf", &options, &spec), pb_ok);
  assert_true(pbSpec_FindBody(spec, "b")->mass == 1.5 && pbSpec_FindJoint(spec, "j")->range[0] == -1.5);
  assert_true(spec->equalities[0].polycoef[1] == 2.5 && spec->nactuator == 1 && spec->njoint == 6);

  assert_int_equal(pbMesh_LoadShape(ctx, file, ".dae", &mesh), pb_ok);
  assert_true(mesh->points == 4 && mesh->cells[pb_cellTriangle].count == 2 && mesh->point[6] == 1.25);
  setlocale(LC_ALL, "C");

  pbMesh_Destroy(mesh);
  pbSpec_Destroy(spec);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_failing_allocator), cmocka_unit_test(test_numbers_have_a_point)};
  return cmocka_run_group_tests(tests, write_file, remove_file);
}
