// A model with parameters as a spec and as a file again: the numbers come back; what a file cannot say is told; sources are asked
// for.
#include <locale.h>
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

#include "base/text.h"

static const char scene[] =
    "<mujoco model='a &lt;b&gt;'><compiler angle='degree' eulerseq='ZYX' settotalmass='3' fusestatic='true'/>"
    "<option timestep='.003' integrator='implicitfast' actuatorgroupdisable='3 7'><flag energy='enable' "
    "limit='disable'/></option>"
    "<size nuser_geom='2'/><default><geom density='500' friction='.7'/><default class='x'><geom rgba='1 0 0 "
    "1'/></default></default>"
    "<asset><texture name='t' type='2d' builtin='checker' width='8' height='8'/><material name='m' texture='t' specular='.3'/>"
    "<mesh name='wedge' vertex='0 0 0  .2 0 0  0 .3 0  0 0 .4' face='0 2 1 0 1 3 0 3 2 1 2 3' scale='1 -1 1'/>"
    "<hfield name='hills' nrow='2' ncol='3' elevation='0 1 2 3 1 .5' size='1 1 .2 .1'/></asset>"
    "<worldbody><light name='l' pos='0 0 3' dir='0 1 -1'/><camera name='c' pos='1 2 3' euler='10 20 30' mode='targetbody' "
    "target='arm'/>"
    "<geom type='hfield' hfield='hills'/><body name='arm' pos='0 0 1' euler='10 20 30' gravcomp='.2'>"
    "<joint name='j' axis='1 2 3' range='-30 40' springdamper='.3 .8' ref='10'/>"
    "<geom name='g' class='x' type='capsule' fromto='0 0 0 .1 .2 .3' size='.02' material='m' user='1 2'/>"
    "<frame pos='.1 0 0' euler='0 0 45'><geom name='w' type='mesh' mesh='wedge'/><site name='s' pos='0 .1 0'/></frame>"
    "<site name='s2' pos='0 .3 .1'/>"
    "<body name='fused' pos='0 .2 0'><geom size='.05'/></body></body>"
    "<body name='b' mocap='true'><geom type='box' size='.1 .1 .1'/></body></worldbody>"
    "<contact><exclude body1='arm' body2='b'/><pair geom1='g' geom2='w' friction='1 1 .1'/></contact>"
    "<equality><connect name='e' body1='arm' body2='b' anchor='.1 0 0'/></equality>"
    "<tendon><spatial name='r' springlength='.1 .2'><site site='s'/><site site='s2'/><pulley divisor='2'/>"
    "<site site='s2'/><site site='s'/></spatial></tendon>"
    "<actuator><position name='p' joint='j' kp='3' dampratio='1' inheritrange='1'/><muscle joint='j' lengthrange='0 "
    "1'/></actuator>"
    "<sensor><framepos name='f' objtype='site' objname='s' reftype='body' refname='b'/><rangefinder site='s' data='dist dir'/>"
    "<contact geom1='g' data='found force' num='2' reduce='mindist'/><distance geom1='g' body2='b' cutoff='.5'/></sensor>"
    "<keyframe><key name='k' qpos='.1' ctrl='1 2' mpos='1 2 3'/></keyframe>"
    "<custom><numeric name='n' data='1 2 3'/><text name='t' data='a&#10;b'/><tuple name='u'><element objtype='body' "
    "objname='arm' prm='2'/></tuple>"
    "</custom></mujoco>";

static pbModel *compile(pbContext *ctx, bool keep) {
  pbSpec *spec;
  pbModel *model;
  if (pbSpec_Parse(ctx, scene, strlen(scene), "scene", NULL, &spec) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  if (keep) pbSpec_KeepSource(spec);
  if (pbSpec_Compile(spec, &model) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  pbSpec_Destroy(spec);
  return model;
}

static double worst(const pbModel *a, const pbModel *b) {
  const double *x = pbModel_DefaultParams(a), *y = pbModel_DefaultParams(b);
  double most = 0;
  assert_int_equal(pbModel_ParamSize(a), pbModel_ParamSize(b));
  for (size_t i = 0; i < pbModel_ParamSize(a); i++) most = fmax(most, fabs(x[i] - y[i]));
  return most;
}

static void test_spec(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = compile(ctx, true), *again;
  pbSpec *spec;

  assert_int_equal(pbModel_Spec(ctx, model, NULL, &spec), pb_ok);
  assert_true(spec->nframe == 0 && spec->nbody == pbModel_Size(model, "nbody") && !spec->compiler.degree &&
              !spec->compiler.fusestatic);
  assert_int_equal(pbSpec_Compile(spec, &again), pb_ok);
  assert_true(worst(model, again) <= 1e-14);

  // edited, it is another; the model is as it was
  pbSpec_FindBody(spec, "arm")->mass = 2;
  pbModel_Destroy(again);
  assert_int_equal(pbSpec_Compile(spec, &again), pb_ok);
  assert_true(worst(model, again) > 0.1);

  pbModel_Destroy(again);
  pbSpec_Destroy(spec);
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

static void test_file(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = compile(ctx, true), *again;
  char path[] = "/tmp/pullback-export-XXXXXX", *unsaid;
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);

  // in a locale that has commas, where there is one
  setlocale(LC_ALL, "de_DE.UTF-8");
  assert_int_equal(pbModel_SaveMjcf(ctx, model, NULL, path, &unsaid), pb_ok);
  setlocale(LC_ALL, "C");
  assert_string_equal(unsaid, "");
  pbContext_Free(ctx, unsaid);
  if (pbModel_Load(ctx, path, NULL, &again) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  assert_true(worst(model, again) <= 1e-14);
  for (int i = 0; i < pbModel_Size(model, "ngeom"); i++)
    assert_string_equal(pbModel_Name(model, pb_objGeom, i), pbModel_Name(again, pb_objGeom, i));

  // a number that a file has no place for
  size_t count = pbModel_ParamSize(model);
  double *theta = malloc(count * sizeof *theta);
  pbParam p;
  assert_non_null(theta);
  memcpy(theta, pbModel_DefaultParams(model), count * sizeof *theta);
  assert_int_equal(pbModel_Param(ctx, model, "geom_restitution:g", &p), pb_ok);
  theta[p.offset] = 0.25;
  assert_int_equal(pbModel_SaveMjcf(ctx, model, theta, path, &unsaid), pb_ok);
  assert_string_equal(unsaid, "geom_restitution:g: 0.25, in the file 0\n");
  pbContext_Free(ctx, unsaid);

  // no file, and nothing left behind
  assert_int_equal(pbModel_SaveMjcf(ctx, model, theta, "/nowhere/at/all.xml", &unsaid), pb_file);
  assert_null(unsaid);
  unlink(path);
  free(theta);
  pbModel_Destroy(again);
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

static void test_source_is_asked_for(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *model = compile(ctx, false);
  pbSpec *spec;
  char *unsaid;
  assert_int_equal(pbModel_Spec(ctx, model, NULL, &spec), pb_bad_argument);
  assert_null(spec);
  assert_int_equal(pbModel_SaveMjcf(ctx, model, NULL, "/tmp/none.xml", &unsaid), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "load it from its file"));
  pbModel_Destroy(model);
  pbContext_Destroy(ctx);
}

static void test_shortest_numbers(void **state) {
  (void)state;
  char text[40];
  assert_string_equal(pbText_PutShortest(text, sizeof text, 0.1), "0.1");
  assert_string_equal(pbText_PutShortest(text, sizeof text, -0.0), "-0");
  assert_string_equal(pbText_PutShortest(text, sizeof text, 1e300), "1e+300");
  uint64_t bits = 88172645463325252;

  // numbers of all sizes come back to the bit
  for (int i = 0; i < 20000; i++) {
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    double value, back;
    memcpy(&value, &bits, sizeof value);
    if (!isfinite(value)) continue;
    assert_true(pbText_Real(pbText_PutShortest(text, sizeof text, value), &back) && !memcmp(&back, &value, sizeof back));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_spec), cmocka_unit_test(test_file),
                                     cmocka_unit_test(test_source_is_asked_for), cmocka_unit_test(test_shortest_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
