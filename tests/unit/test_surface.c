// What meshes look like in a model that was asked to keep it: where their points are, which way their triangles face, and what is
// said of files that are missing.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <pullback/pullback.h>

// The same mesh weighs in one body and is only seen in another; the last geom's file is not there.
static const char scene[] =
    "<mujoco><asset>"
    "<mesh name='wedge' vertex='0 0 0  2 0 0  0 3 0  0 0 4' face='0 2 1 0 1 3 0 3 2 1 2 3' scale='0.1 -0.2 0.3' refpos='1 2 3'"
    " refquat='1 0.2 0.3 0.4'/>"
    "<mesh name='cloud' vertex='0 0 0  1 0 0  0 1 0  0 0 1  0.1 0.1 0.1'/>"
    "<mesh name='bad' vertex='0 0 0  1 0 0  0 1 0  0 0 1' face='0 1 9'/><mesh name='gone' file='gone.stl'/></asset><worldbody>"
    "<body><freejoint/><geom type='mesh' mesh='wedge' pos='1 2 3' quat='1 0 2 0' contype='0' conaffinity='0'/></body>"
    "<body><freejoint/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
    "<geom type='mesh' mesh='wedge' pos='1 2 3' quat='1 0 2 0' contype='0' conaffinity='0'/>"
    "<geom type='mesh' mesh='cloud' contype='0' conaffinity='0'/><geom type='mesh' mesh='gone' contype='0' conaffinity='0'/>"
    "<geom size='1'/><geom type='mesh' mesh='bad' contype='0' conaffinity='0'/></body></worldbody></mujoco>";

static pbModel *load(pbContext *ctx, bool surfaces) {
  char path[] = "/tmp/pullback-surface-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0 && write(file, scene, strlen(scene)) == (ssize_t)strlen(scene));
  close(file);

  pbModel *model = NULL;
  pbStatus status = pbModel_Load(ctx, path, &(pbLoadOptions){.surfaces = surfaces}, &model);
  unlink(path);
  if (status != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  return model;
}

// r = pos + quat x quat*, for a quaternion of any length.
static void place(const double pos[3], const double quat[4], const double x[3], double r[3]) {
  double n = 0, v[4];
  for (int k = 0; k < 4; k++) n += quat[k] * quat[k];
  for (int k = 0; k < 4; k++) v[k] = quat[k] / sqrt(n);

  const double *u = v + 1;
  double t[3] = {v[0] * x[0] + u[1] * x[2] - u[2] * x[1], v[0] * x[1] + u[2] * x[0] - u[0] * x[2],
                 v[0] * x[2] + u[0] * x[1] - u[1] * x[0]};
  for (int k = 0; k < 3; k++) r[k] = pos[k] + x[k] + 2 * (u[(k + 1) % 3] * t[(k + 2) % 3] - u[(k + 2) % 3] * t[(k + 1) % 3]);
}

static void at_geom(const pbModel *model, int geom, int point, double x[3]) {
  double pos[3], quat[4], inner[3];
  pbField geom_pos, geom_quat;
  assert_true(pbModel_Field(model, "geom_pos", &geom_pos) && pbModel_Field(model, "geom_quat", &geom_quat));
  pbMeshSurface s = pbModel_MeshSurface(model, pbModel_GeomSurface(model, geom, pos, quat));
  place(pos, quat, s.point + 3 * point, inner);
  place(geom_pos.reals + 3 * geom, geom_quat.reals + 4 * geom, inner, x);
}

static double volume(const pbMeshSurface *s) {
  double sum = 0;
  for (int i = 0; i < s->triangles; i++) {
    const double *a = s->point + 3 * s->triangle[3 * i], *b = s->point + 3 * s->triangle[3 * i + 1],
                 *c = s->point + 3 * s->triangle[3 * i + 2];
    for (int k = 0; k < 3; k++) sum += a[k] * (b[(k + 1) % 3] * c[(k + 2) % 3] - b[(k + 2) % 3] * c[(k + 1) % 3]) / 6;
  }
  return sum;
}

static void test_places(void **state) {
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = load(ctx, true);
  double pos[3], quat[4], a[3], b[3];
  (void)state;

  assert_int_equal(pbModel_MeshSurfaceCount(model), 2);
  for (int i = 0; i < 4; i++) {
    at_geom(model, 0, i, a);
    at_geom(model, 1, i, b);
    for (int k = 0; k < 3; k++) assert_true(fabs(a[k] - b[k]) < 1e-12);
  }

  // The first point, by hand: -refpos turned back, scaled, then the pose of the geom.
  double turned[3], expected[3];
  place((double[3]){0}, (double[4]){1, -0.2, -0.3, -0.4}, (double[3]){-1, -2, -3}, turned);
  for (int k = 0; k < 3; k++) turned[k] *= (double[]){0.1, -0.2, 0.3}[k];
  place((double[3]){1, 2, 3}, (double[4]){1, 0, 2, 0}, turned, expected);
  at_geom(model, 1, 0, b);
  for (int k = 0; k < 3; k++) assert_true(fabs(b[k] - expected[k]) < 1e-12);

  // Mirrored triangles face outwards; points without triangles show their hull.
  pbMeshSurface wedge = pbModel_MeshSurface(model, pbModel_GeomSurface(model, 0, pos, quat));
  pbMeshSurface cloud = pbModel_MeshSurface(model, pbModel_GeomSurface(model, 2, pos, quat));
  assert_string_equal(wedge.name, "wedge");
  assert_true(fabs(volume(&wedge) - 0.1 * 0.2 * 0.3 * 4) < 1e-12);
  if (pbBuild_Hulls()) assert_int_equal(cloud.triangles, 4);
  assert_true(cloud.points == 5);

  assert_int_equal(pbModel_GeomSurface(model, 3, pos, quat), -1);
  assert_int_equal(pbModel_GeomSurface(model, 4, pos, quat), -1);
  assert_int_equal(pbModel_GeomSurface(model, 5, pos, quat), -1);
  assert_int_equal(pbModel_GeomSurface(model, 99, pos, quat), -1);
  assert_non_null(strstr(pbContext_Warnings(ctx), "'bad'"));
  assert_non_null(strstr(pbContext_Warnings(ctx), "gone.stl"));

  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

static void test_not_asked_for(void **state) {
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = load(ctx, false);
  double pos[3], quat[4];
  (void)state;

  assert_int_equal(pbModel_MeshSurfaceCount(model), 0);
  assert_int_equal(pbModel_GeomSurface(model, 0, pos, quat), -1);
  assert_string_equal(pbContext_Warnings(ctx), "");
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_not_asked_for)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
