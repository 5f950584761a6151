// The MJCF reader: what a file says stands in the spec, and hostile files end in one clear error.
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "support/meter.h"
#include "support/support.h"

static char folder[] = "/tmp/pullback-mjcf-XXXXXX";  // of this run, with a folder "model" and one "outside"

static pbStatus parse(pbContext *ctx, const char *text, pbSpec **spec) {
  return pbSpec_ParseMjcf(ctx, text, strlen(text), "model.xml", spec);
}

static pbSpec *parsed(void **state, const char *text) {
  pbSpec *spec = NULL;
  pbStatus status = parse(*state, text, &spec);
  if (status != pb_ok) fail_msg("%s", pbContext_Error(*state));
  return spec;
}

static void refused(void **state, const char *text, pbStatus expected, const char *says) {
  pbSpec *spec = (pbSpec *)1;
  pbStatus status = parse(*state, text, &spec);
  if (status != expected || !strstr(pbContext_Error(*state), says))
    fail_msg("status %d, expected %d with \"%s\": %s\n%.300s", status, expected, says, pbContext_Error(*state), text);
  assert_null(spec);
}

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const char *text) {
  FILE *file = fopen(path_of(name), "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

// ---- what is read -------------------------------------------------------------------------------------------------------

static void test_defaults(void **state) {
  pbSpec *spec =
      parsed(state,
             "<mujoco><default><geom density='5' friction='.5'/><default class='a'><geom size='.2'/>"
             "<default class='b'><geom size='.3 .4' friction='.1 .2 .3'/></default></default></default>"
             "<worldbody><geom size='1'/><geom class='a'/><body childclass='a'><geom/><geom class='b' density='7'/>"
             "<body><geom class='main' size='9'/><body childclass='b'><geom/></body></body></body></worldbody></mujoco>");
  assert_int_equal(spec->ngeom, 6);
  const double size[] = {1, .2, .2, .3, 9, .3}, density[] = {5, 5, 5, 7, 5, 5}, slide[] = {.5, .5, .5, .1, .5, .1};
  for (int i = 0; i < 6; i++) {
    assert_float_equal(spec->geoms[i].size[0], size[i], 1e-15);
    assert_float_equal(spec->geoms[i].density, density[i], 1e-15);
    assert_float_equal(spec->geoms[i].friction[0], slide[i], 1e-15);
  }
  assert_float_equal(spec->geoms[1].friction[1], 0.005, 1e-15);
  assert_int_equal(spec->geoms[5].body, 3);
  pbSpec_Destroy(spec);
}

static void test_places(void **state) {
  pbSpec *spec = parsed(state, "<mujoco>\n  <worldbody>\n    <geom name='g' size='1'/>\n  </worldbody>\n</mujoco>\n");
  assert_string_equal(spec->geoms[0].place.file, "model.xml");
  assert_int_equal(spec->geoms[0].place.line, 3);
  assert_int_equal(spec->geoms[0].place.column, 5);
  pbSpec_Destroy(spec);
  refused(state, "<mujoco>\n  <worldbody>\n    <geom name='g' size='x'/>\n</worldbody></mujoco>", pb_bad_input,
          "model.xml:3:5: geom 'g': attribute 'size' has \"x\"");
}

static void test_frames(void **state) {
  pbSpec *spec =
      parsed(state,
             "<mujoco><default><default class='c'><geom size='3'/></default></default><worldbody>"
             "<frame pos='1 2 3' childclass='c'><geom/><frame euler='0 0 90'><body><geom/></body><site/></frame></frame>"
             "</worldbody></mujoco>");
  assert_int_equal(spec->nframe, 2);
  assert_int_equal(spec->frames[1].parent, 0);
  assert_int_equal(spec->frames[1].pose.alt, pb_altEuler);
  assert_int_equal(spec->geoms[0].frame, 0);
  assert_int_equal(spec->bodies[1].frame, 1);
  assert_int_equal(spec->sites[0].frame, 1);
  assert_int_equal(spec->geoms[1].frame, -1);
  assert_float_equal(spec->geoms[1].size[0], 3, 0);
  pbSpec_Destroy(spec);
}

static void test_replicate(void **state) {
  pbSpec *spec =
      parsed(state,
             "<mujoco><worldbody><replicate count='2' offset='0 1 0' euler='90 0 0'>"
             "<replicate count='2' sep='-' offset='1 0 0' euler='0 90 0'><site name='Alice'/></replicate></replicate></worldbody>"
             "<sensor><accelerometer name='Bob' site='Alice'/></sensor></mujoco>");
  static const char *const suffix[] = {"-00", "-10", "-01", "-11"};
  assert_int_equal(spec->nsite, 4);
  assert_int_equal(spec->nsensor, 4);
  for (int i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "Alice%s", suffix[i]);
    assert_string_equal(spec->sites[i].name, name);
    assert_string_equal(spec->sensors[i].objname, name);
    assert_memory_equal(spec->sensors[i].name, "Bob", 3);
  }
  pbSpec_Destroy(spec);
  refused(state, "<mujoco><worldbody><replicate count='0'><geom size='1'/></replicate></worldbody></mujoco>", pb_bad_input,
          "'count' is 0");
}

// In MuJoCo 4.0 a shortcut means by its own attributes only what a default of its own kind, or a general one, says.
static void test_actuators(void **state) {
  pbSpec *spec = parsed(
      state,
      "<mujoco><default><position kp='50' dampratio='2' ctrlrange='-1 1'/><default class='v'><velocity kv='3'/></default>"
      "</default><worldbody><body><joint name='j'/><geom size='1'/></body></worldbody><actuator>"
      "<position joint='j'/><motor joint='j'/><velocity joint='j'/><velocity joint='j' class='v'/>"
      "<position joint='j' class='v' kv='4'/><damper joint='j' ctrlrange='0 1' kv='2'/>"
      "<cylinder joint='j' diameter='2' bias='1 2 3'/><general joint='j'/><intvelocity joint='j' kp='7'/></actuator></mujoco>");
  const double gain[] = {50, 1, 1, 3, 50, 0, M_PI, 50, 7}, bias2[] = {2, 0, -1, -3, -4, 0, 3, 2, 0};
  assert_int_equal(spec->nactuator, 9);
  for (int i = 0; i < 9; i++) {
    assert_float_equal(spec->actuators[i].gainprm[0], gain[i], 1e-14);
    assert_float_equal(spec->actuators[i].biasprm[2], bias2[i], 1e-14);
    assert_float_equal(spec->actuators[i].ctrlrange[1], 1, 0);
  }
  assert_float_equal(spec->actuators[5].gainprm[2], -2, 0);
  assert_int_equal(spec->actuators[8].dyntype, pb_dynIntegrator);
  pbSpec_Destroy(spec);
}

static void test_settings(void **state) {
  pbSpec *spec =
      parsed(state,
             "<mujoco model='m'><compiler angle='radian' eulerseq='XYz'/><option timestep='1e-3' integrator='RK4'>"
             "<flag contact='disable' override='enable'/></option><option><flag contact='enable' limit='disable'/></option>"
             "<size nkey='3'/><statistic extent='2'/><visual><rgba fog='1 0 0 1'/></visual>"
             "<asset><material name='red' rgba='1 0 0 1'/></asset></mujoco>");
  assert_string_equal(spec->model_name, "m");
  assert_false(spec->compiler.degree);
  assert_string_equal(spec->compiler.eulerseq, "XYz");
  assert_float_equal(spec->option.timestep, 1e-3, 0);
  assert_int_equal(spec->option.integrator, pb_intRK4);
  assert_int_equal(spec->option.disableflags, pb_disLimit);
  assert_int_equal(spec->option.enableflags, pb_enOverride);
  assert_int_equal(spec->size.nkey, 3);
  assert_float_equal(spec->statistic.extent, 2, 0);
  assert_int_equal(spec->nvisual, 2);
  assert_string_equal(spec->visuals[0].element, "visual/rgba");
  assert_string_equal(spec->visuals[1].values[1], "1 0 0 1");
  pbSpec_Destroy(spec);
}

// ---- what is refused ----------------------------------------------------------------------------------------------------

#define WORLD(text) "<mujoco><worldbody>" text "</worldbody></mujoco>"
#define BODY(text)  WORLD("<body><joint name='j'/><geom size='1'/>" text "</body>")
#define ACTUATOR(text) \
  "<mujoco><worldbody><body><joint name='j'/><geom size='1'/></body></worldbody><actuator>" text "</actuator></mujoco>"

static void test_unsupported(void **state) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {BODY("<joint springyield='1'/>"), "'springyield'"},
      {BODY("<geom size='1' surfacevel='1 0 0'/>"), "'surfacevel'"},
      {BODY("<flexcomp name='f'/>"), "flexcomp 'f': this element is not supported"},
      {BODY("<plugin plugin='p'/>"), "plugin"},
      {"<mujoco><option integrator='implicit'/></mujoco>",
       "\"implicit\", which is not supported (supported: Euler, RK4, implicitfast)"},
      {"<mujoco><option integrator='discrete'/></mujoco>", "discrete"},
      {"<mujoco><option><flag diagexact='enable'/></option></mujoco>", "'diagexact'"},
      {"<mujoco><compiler coordinate='global'/></mujoco>", "global"},
      {"<mujoco><extension><plugin plugin='mujoco.pid'/></extension></mujoco>", "plugin: this element is not supported"},
      {ACTUATOR("<pid joint='j'/>"), "pid: this element is not supported (its attributes: joint)"},
      {ACTUATOR("<general joint='j' dyntype='pid'/>"), "\"pid\""},
      {"<mujoco><sensor><tactile geom='g' mesh='m'/></sensor></mujoco>", "tactile: this element is not supported"},
      {WORLD("<frame scale='2'/>"), "'scale'"},
      {WORLD("<attach body='world' prefix=''/>"), "attribute 'body' is \"world\""},
      {WORLD("<include file='x.xml'/>"), "cannot include"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(state, cases[i].text, pb_unsupported, cases[i].says);
}

static void test_seen_meshes(void **state) {
  pbSpec *spec = parsed(state,
                        "<mujoco><asset><mesh name='m' file='nowhere.obj'/></asset><worldbody><body>"
                        "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/><joint/>"
                        "<geom type='mesh' mesh='m' contype='0' conaffinity='0'/></body></worldbody></mujoco>");
  assert_int_equal(spec->geoms[0].type, pb_geomMesh);
  assert_string_equal(spec->geoms[0].mesh, "m");
  pbSpec_Destroy(spec);
}

static void test_sizes_without_effect(void **state) {
  static const char *const sizes[] = {"-1", "5", "5M", "10m", "007K"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char text[100];
    snprintf(text, sizeof text, "<mujoco><size memory='%s' njmax='-1' nconmax='100' nstack='0'/></mujoco>", sizes[i]);
    pbSpec_Destroy(parsed(state, text));
  }
}

static void test_malformed(void **state) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"<mujoco><option actuatorgroupdisable='31'/></mujoco>", "names group 31, expected whole numbers from 0 to 30"},
      {"<mujoco><option actuatorgroupdisable='1.5'/></mujoco>", "names group 1.5"},
      {"", "no element found"},
      {"<mujoco>", "no element found"},
      {"<mujoco></worldbody>", "mismatched tag"},
      {"<robot/>", "this is URDF"},
      {"<thing/>", "expected the root element 'mujoco'"},
      {"<!DOCTYPE mujoco [<!ENTITY a 'aaaa'>]><mujoco model='&a;'/>", "DOCTYPE"},
      {"<!DOCTYPE mujoco SYSTEM 'file:///etc/passwd'><mujoco/>", "DOCTYPE"},
      {"<mujoco><worldbody a='1'/></mujoco>", "takes no attributes"},
      {WORLD("<geom size='nan'/>"), "\"nan\" where a finite number"},
      {WORLD("<geom size='inf'/>"), "\"inf\""},
      {WORLD("<geom size='1e999'/>"), "\"1e999\""},
      {WORLD("<geom size='0x10'/>"), "\"0x10\""},
      {WORLD("<geom size='1,5'/>"), "\"1,5\""},
      {WORLD("<geom size='1m'/>"), "\"1m\""},
      {WORLD("<geom size='1 2 3 4'/>"), "has 4 numbers, expected 1 to 3"},
      {WORLD("<body><inertial pos='0 0 0' mass=''/></body>"), "has 0 numbers"},
      {WORLD("<geom contype='1.5'/>"), "where an integer is expected"},
      {WORLD("<geom contype='4294967296'/>"), "where an integer is expected"},
      {WORLD("<geom quat='0 0 0 0'/>"), "quaternion of zeros"},
      {WORLD("<geom quat='1 0 0 0' euler='0 0 0'/>"), "give one"},
      {WORLD("<geom type='bocks'/>"), "expected one of: plane"},
      {WORLD("<geom class='none'/>"), "no defaults class 'none'"},
      {WORLD("<body childclass='none'/>"), "no defaults class 'none'"},
      {WORLD("<geom name='a' size='1'/><geom name='a' size='1'/>"), "two of this name"},
      {WORLD("<joint/>"), "world cannot have joints"},
      {WORLD("<body><inertial pos='0 0 0'/></body>"), "'mass' is required"},
      {WORLD("<body><inertial mass='1' pos='0 0 0'/><inertial mass='1' pos='0 0 0'/></body>"), "may stand only once"},
      {"<mujoco><default class='x'/></mujoco>", "'main'"},
      {"<mujoco><default><default/></default></mujoco>", "needs a class"},
      {"<mujoco><default><default class='a'/><default class='a'/></default></mujoco>", "two defaults classes 'a'"},
      {ACTUATOR("<motor/>"), "needs 'joint', 'tendon', 'site', 'cranksite' or 'body'"},
      {ACTUATOR("<motor joint='j' tendon='t'/>"), "acts on one thing"},
      {ACTUATOR("<position joint='j' kv='1' dampratio='1'/>"), "give one"},
      {ACTUATOR("<position joint='j' kv='-1'/>"), "negative"},
      {"<mujoco><equality><connect body1='a'/></equality></mujoco>", "needs either"},
      {"<mujoco><sensor><framepos objname='a'/></sensor></mujoco>", "'objtype' is required"},
      {"<mujoco><custom><numeric name='n' size='2' data='1 2 3'/></custom></mujoco>", "3 numbers"},
      {"<mujoco><custom><numeric name='n' size='1000000000'/></custom></mujoco>", "expected 1 to 500"},
      {"<mujoco><size memory='-5'/></mujoco>", "memory"},
      {"<mujoco><size memory='5Q'/></mujoco>", "memory"},
      {"<mujoco><size memory='1.5M'/></mujoco>", "memory"},
      {"<mujoco><size memory='0'/></mujoco>", "memory"},
      {"<mujoco><size memory=''/></mujoco>", "memory"},
      {"<mujoco><size njmax='-5'/></mujoco>", "'njmax' is -5"},
      {"<mujoco><size nconmax='-2'/></mujoco>", "'nconmax' is -2"},
      {"<mujoco><size nstack='-2'/></mujoco>", "'nstack' is -2"},
      {"<mujoco><option iterations='0'/></mujoco>", "'iterations' is 0"},
      {"<mujoco><option ls_iterations='-3'/></mujoco>", "'ls_iterations' is -3"},
      {"<mujoco><size nuser_geom='2000000000'/></mujoco>", "user data"},
      {"<mujoco><size nkey='2000000000'/></mujoco>", "nkey"},
      {"<mujoco><compiler eulerseq='xyzx'/></mujoco>", "eulerseq"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refused(state, cases[i].text, pb_bad_input, cases[i].says);
}

// ---- what is too much ---------------------------------------------------------------------------------------------------

static char *repeated(const char *head, const char *piece, int count, const char *tail) {
  size_t length = strlen(piece);
  char *text = malloc(strlen(head) + length * (size_t)count + strlen(tail) + 1), *at = text;
  assert_non_null(text);
  at += sprintf(at, "%s", head);
  for (int i = 0; i < count; i++, at += length) memcpy(at, piece, length);
  strcpy(at, tail);
  return text;
}

static void test_limits(void **state) {
  char *text = repeated("<mujoco><worldbody>", "<body>", 300, "");
  refused(state, text, pb_bad_input, "256 deep");
  free(text);
  text = repeated("<mujoco><worldbody>", "<geom/>", 400001, "</worldbody></mujoco>");
  refused(state, text, pb_bad_input, "more than 400000 elements");
  free(text);
  text = repeated("<mujoco><worldbody><geom name='", "0123456789", 200, "'/></worldbody></mujoco>");
  refused(state, text, pb_bad_input, "longer than 1000 bytes");
  free(text);
  refused(state,
          "<mujoco><worldbody><replicate count='1000'><replicate count='1000'><geom "
          "size='1'/></replicate></replicate></worldbody></mujoco>",
          pb_bad_input, "elements");
  refused(state, "<mujoco><worldbody><replicate count='2000000000'><geom size='1'/></replicate></worldbody></mujoco>",
          pb_bad_input, "elements");
}

static void test_many_attributes(void **state) {
  char text[4096] = "<mujoco><worldbody><geom", *at = text + strlen(text);
  for (int i = 0; i < 100; i++) at += sprintf(at, " a%d='1'", i);
  strcpy(at, "/></worldbody></mujoco>");
  refused(state, text, pb_bad_input, "64 attributes");
}

static void test_many_classes(void **state) {
  char *text = malloc(400000), *at = text;
  assert_non_null(text);
  at += sprintf(at, "<mujoco><default>");
  for (int i = 0; i < 10001; i++) at += sprintf(at, "<default class='c%d'/>", i);
  sprintf(at, "</default></mujoco>");
  refused(state, text, pb_bad_input, "defaults classes");
  free(text);
}

// ---- files --------------------------------------------------------------------------------------------------------------

static pbStatus load(void **state, const char *name, const char *allow_root, pbSpec **spec) {
  pbLoadOptions options = {.allow_root = allow_root};
  char path[512];
  snprintf(path, sizeof path, "%s", path_of(name));
  return pbSpec_LoadMjcf(*state, path, &options, spec);
}

static void load_fails(void **state, const char *name, pbStatus expected, const char *says) {
  pbSpec *spec = NULL;
  pbStatus status = load(state, name, NULL, &spec);
  if (status != expected || !strstr(pbContext_Error(*state), says))
    fail_msg("%s: status %d, expected %d with \"%s\": %s", name, status, expected, says, pbContext_Error(*state));
  assert_null(spec);
}

static void test_include(void **state) {
  put("model/main.xml",
      "<mujoco><worldbody><geom name='a' size='1'/><include file='parts/p.xml'/><geom name='d' size='1'/></worldbody></mujoco>");
  put("model/parts/p.xml", "<anything><geom name='b' size='1'/><include file='q.xml'/></anything>");
  put("model/parts/q.xml", "<anything>\n<geom name='c' size='1'/></anything>");
  pbSpec *spec = NULL;
  assert_int_equal(load(state, "model/main.xml", NULL, &spec), pb_ok);
  assert_int_equal(spec->ngeom, 4);
  for (int i = 0; i < 4; i++) assert_int_equal(spec->geoms[i].name[0], 'a' + i);
  assert_non_null(strstr(spec->geoms[2].place.file, "parts/q.xml"));
  assert_int_equal(spec->geoms[2].place.line, 2);
  pbSpec_Destroy(spec);
}

static void test_include_failures(void **state) {
  put("model/cycle.xml", "<mujoco><include file='cycle.xml'/></mujoco>");
  load_fails(state, "model/cycle.xml", pb_bad_input, "only once");
  put("model/twice.xml", "<mujoco><include file='one.xml'/><include file='one.xml'/></mujoco>");
  put("model/one.xml", "<m><option/></m>");
  load_fails(state, "model/twice.xml", pb_bad_input, "'one.xml' was read already");
  put("model/missing.xml", "<mujoco><include file='nowhere.xml'/></mujoco>");
  load_fails(state, "model/missing.xml", pb_file, "'nowhere.xml' cannot be found");
  put("model/empty.xml", "<mujoco><include file='nothing.xml'/></mujoco>");
  put("model/nothing.xml", "<m/>");
  load_fails(state, "model/empty.xml", pb_bad_input, "nothing to include");
  put("model/broken.xml", "<mujoco><include file='bad.xml'/></mujoco>");
  put("model/bad.xml", "<m>\n<geom></m>");
  load_fails(state, "model/broken.xml", pb_bad_input, "bad.xml:2:");
  put("model/device.xml", "<mujoco><include file='/dev/zero'/></mujoco>");
  load_fails(state, "model/device.xml", pb_unsupported, "outside");
  load_fails(state, "model/not_there.xml", pb_file, "cannot be found");
  load_fails(state, "model", pb_bad_input, "model");
}

static void test_outside(void **state) {
  put("outside/part.xml", "<m><geom size='1'/></m>");
  put("model/up.xml", "<mujoco><worldbody><include file='../outside/part.xml'/></worldbody></mujoco>");
  load_fails(state, "model/up.xml", pb_unsupported, "outside the model's folder");
  put("model/through.xml", "<mujoco><worldbody><include file='link.xml'/></worldbody></mujoco>");
  char target[512];
  snprintf(target, sizeof target, "%s", path_of("outside/part.xml"));
  assert_int_equal(symlink(target, path_of("model/link.xml")), 0);
  load_fails(state, "model/through.xml", pb_unsupported, "outside the model's folder");
  pbSpec *spec = NULL;
  char root[512];
  snprintf(root, sizeof root, "%s", path_of("outside"));
  assert_int_equal(load(state, "model/through.xml", root, &spec), pb_ok);
  assert_int_equal(spec->ngeom, 1);
  pbSpec_Destroy(spec);
}

// A model that is a link elsewhere: its folder is where the link lies.
static void test_linked_model(void **state) {
  put("outside/real.xml", "<mujoco><worldbody><include file='beside.xml'/></worldbody></mujoco>");
  put("model/beside.xml", "<m><geom size='1'/></m>");
  char target[512];
  snprintf(target, sizeof target, "%s", path_of("outside/real.xml"));
  assert_int_equal(symlink(target, path_of("model/linked.xml")), 0);
  pbSpec *spec = NULL;
  assert_int_equal(load(state, "model/linked.xml", NULL, &spec), pb_ok);
  assert_int_equal(spec->ngeom, 1);
  pbSpec_Destroy(spec);
}

static void test_other_locale(void **state) {
  const char *const comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
  for (size_t i = 0; i < sizeof comma / sizeof *comma; i++)
    if (setlocale(LC_ALL, comma[i])) break;
  pbSpec *spec = parsed(state, WORLD("<geom size='1.5'/>"));
  assert_float_equal(spec->geoms[0].size[0], 1.5, 0);
  pbSpec_Destroy(spec);
  setlocale(LC_ALL, "C");
}

// ---- memory that runs out -----------------------------------------------------------------------------------------------

// A model that another is attached to, in all kinds of places; no allocation that fails is overlooked.
static void test_attach_without_memory(void **state) {
  (void)state;
  put("model/child.xml",
      "<mujoco><compiler angle='radian'/><default><default class='a'><geom size='1' material='m'/></default></default><asset>"
      "<material name='m'/><mesh name='k' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/></asset><worldbody><body name='b' childclass='a'>"
      "<joint name='j'/><geom/><geom type='mesh' mesh='k'/></body></worldbody><actuator><motor joint='j'/></actuator><custom>"
      "<numeric name='n' data='1'/></custom><keyframe><key name='k' qpos='1'/></keyframe></mujoco>");
  put("model/around.xml",
      "<mujoco><asset><model name='c' file='child.xml'/></asset><worldbody><attach model='c' body='b' prefix='x'/><attach "
      "model='c' prefix='y'/><attach body='xb' prefix='z'/></worldbody></mujoco>");

  bool done = false;
  for (long n = 0; !done && n < 100000; n++) {
    Meter c = {.fail_at = n + 1, .fail_ever_after = true};
    pbAllocator hooks = meter_hooks(&c);
    pbContext *ctx = pbContext_Create(&hooks);
    if (!ctx) continue;

    pbSpec *spec = NULL;
    pbStatus status = load((void **)&ctx, "model/around.xml", NULL, &spec);
    done = status == pb_ok;
    if (!done && status != pb_no_memory) fail_msg("allocation %ld: %d %s", n, status, pbContext_Error(ctx));
    if (done) assert_int_equal(spec->nkey, 2);
    pbSpec_Destroy(spec);
    pbContext_Destroy(ctx);
    assert_int_equal(c.live, 0);
  }
  assert_true(done);
}

static void test_failing_allocator(void **state) {
  (void)state;
  const char *text =
      "<mujoco><default><default class='a'><geom user='1 2'/></default></default><worldbody><replicate count='3'><body>"
      "<joint name='j'/><geom class='a' size='1'/><site name='s'/></body></replicate></worldbody><tendon><fixed><joint joint='j' "
      "coef='1'/></fixed></tendon><actuator><motor joint='j'/></actuator><custom><tuple name='t'><element objtype='body' "
      "objname='world'/></tuple></custom><asset><material name='m'/></asset></mujoco>";
  bool done = false;
  for (long n = 0; !done && n < 100000; n++) {
    Meter c = {.fail_at = n + 1, .fail_ever_after = true};
    pbAllocator hooks = meter_hooks(&c);
    pbContext *ctx = pbContext_Create(&hooks);
    if (!ctx) continue;
    pbSpec *spec = NULL;
    pbStatus status = parse(ctx, text, &spec);
    done = status == pb_ok;
    if (!done && status != pb_no_memory) fail_msg("allocation %ld: %d %s", n, status, pbContext_Error(ctx));
    pbSpec_Destroy(spec);
    pbContext_Destroy(ctx);
    assert_int_equal(c.live, 0);
  }
  assert_true(done);
}

static int group_setup(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  return mkdir(path_of("model"), 0700) | mkdir(path_of("outside"), 0700) | mkdir(path_of("model/parts"), 0700);
}

static int group_teardown(void **state) {
  (void)state;
  char command[600];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  return system(command);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_context, drop_context)
  const struct CMUnitTest tests[] = {
      TEST(test_defaults),
      TEST(test_places),
      TEST(test_frames),
      TEST(test_replicate),
      TEST(test_actuators),
      TEST(test_settings),
      TEST(test_unsupported),
      TEST(test_seen_meshes),
      TEST(test_sizes_without_effect),
      TEST(test_malformed),
      TEST(test_limits),
      TEST(test_many_attributes),
      TEST(test_many_classes),
      TEST(test_include),
      TEST(test_include_failures),
      TEST(test_outside),
      TEST(test_linked_model),
      TEST(test_other_locale),
      TEST(test_failing_allocator),
      TEST(test_attach_without_memory),
  };
  return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
