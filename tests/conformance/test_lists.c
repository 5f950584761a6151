// The engine's lists: every parameter, sensor, kind of row, pair of shapes and kind of actuator stands in a scene of the tests with
// a cotangent that is not zero, or is named. What cannot have one is listed here with the reason. Energies are enumerated by
// unit/test_builtin, layers of policies by unit/test_network.
//
// In a build with PULLBACK_MUTATE (src/base/mutate.h) the pullback of every entry is emptied, then halved: the dot product of the
// scene that stands for it must see both. An entry without a switch is red: nothing changes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "base/mutate.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "model/equality_data.h"
#include "model/row_kinds.h"
#include "model/term_fields.h"
#include "scenes.h"
#include "step/scratch.h"
#include "support/support.h"

#include <pullback/pullback.h>

enum { most_x = 512, most_theta = 16384, most_inputs = 128, most_entries = 320 };

// ---- the lists --------------------------------------------------------------------------------------------------------
typedef struct Entry {
  pbMuteList list;
  int number;
  const char *kind, *name;
  const char *file;  // the scene that stands for it; NULL: none yet
  int setting;
  bool red[2];  // emptied, halved: the scene sees it
} Entry;
static Entry entry[most_entries];
static int entries;

// Without a derivative, and why.
static const struct {
  const char *kind, *name, *why;
} without[] = {
    {"sensor", "clock", "it reads time alone"},
    {"sensor", "insidesite", "it is 0 or 1"},
    {"parameter", "geom_gap", "it says which contacts without force are listed"},
    {"parameter", "pair_gap", "as geom_gap"},
    {"parameter", "actuator_deadband", "it says which servos rest"},
    {"parameter", "site_size", "it says what a touch sensor counts, and what is inside"},
};

static bool has_none(const char *kind, const char *name) {
  for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
    if (!strcmp(without[i].kind, kind) && !strcmp(without[i].name, name)) return true;
  }
  return false;
}

static void add(pbMuteList list, int number, const char *kind, const char *name) {
  if (has_none(kind, name)) return;
  assert_true(entries < most_entries);
  entry[entries++] = (Entry){.list = list, .number = number, .kind = kind, .name = name};
}

static void add_pairs(void) {
  static const char *const shapes[] = {"plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"};
  static char names[64][32];
  for (int a = 0; a < 8; a++) {
    for (int b = a; b < 8; b++) {
      if (b <= pb_geomHfield) continue;  // ground on ground
      char *name = names[8 * a + b];
      snprintf(name, sizeof *names, "%s with %s", shapes[a], shapes[b]);
      add(pb_mutePair, pb_mute_pair(a, b), "pair", name);
    }
  }
}

static void list_all(void) {
  entries = 0;
#define X(enumerator, value, element, ...) add(pb_muteSensor, value, "sensor", element);
  PB_SENSOR_TABLE(X)
#undef X
  int number = 0;
#define X(field, rows, cols, ...) add(pb_muteParam, number++, "parameter", #field);
  PB_MODEL_PARAMS(X)
  PB_TERM_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
#define X(kind, name, ...) add(pb_muteRow, pb_mute_row(pb_row##kind, 0), "row", name);
  PB_ROW_KINDS(X)
#undef X
#define X(enumerator, value, element, ...) add(pb_muteRow, pb_mute_row(pb_rowEquality, value), "equality", element);
  PB_EQUALITY_TABLE(X)
#undef X
  add_pairs();

#define X(enumerator, value, word, law) add(pb_muteTransmission, value, "transmission", word);
  PB_TRANSMISSIONS(X)
#undef X
#define X(enumerator, value, word, law) add(pb_muteDynamics, value, "dynamics", word);
  PB_DYNAMICS_KINDS(X)
#undef X
#define X(enumerator, value, word, law) add(pb_muteGain, value, "gain", word);
  PB_GAINS(X)
#undef X
#define X(enumerator, value, word, law) add(pb_muteBias, value, "bias", word);
  PB_BIASES(X)
#undef X
}

// ---- scenes -----------------------------------------------------------------------------------------------------------
typedef struct Setting {
  const char *integrator, *cone;
  const char *option[2];
  const char *contact[4][2];
  bool design;  // masses follow meshes and densities (pbLoadOptions.design); friction of joints by laws (scenes.h)
  int steps;    // that are gone
} Setting;
static const Setting settings[] = {
    {"implicitfast", "elliptic", {NULL}, {{NULL}}, false, 15},
    {"Euler", "pyramidal", {NULL}, {{NULL}}, false, 15},
    {"RK4", "elliptic", {"servo", "all"}, {{NULL}}, false, 15},
    {"Euler", "pyramidal", {NULL}, {{"method", "penalty"}, {"stiffness", "200"}, {"damping", "1"}, {NULL}}, false, 15},
    {"Euler", "elliptic", {NULL}, {{"method", "cones"}, {"restitution", "0.5"}, {NULL}}, false, 15},
    {"Euler", "elliptic", {NULL}, {{"mixing", "geometric"}, {"onset", "0.05"}, {NULL}}, false, 15},
    {"Euler", "elliptic", {NULL}, {{NULL}}, true, 15},
    {"Euler", "pyramidal", {NULL}, {{"method", "lcp"}, {"restitution", "0.9"}, {NULL}}, false, 1},
};
enum { setting_count = sizeof settings / sizeof *settings };

typedef struct Scene {
  pbModel *m;
  pbScratch *s;
  double given[most_theta], theta[most_theta];  // as given, and with what follows from it (design)
  double before[most_x], x[most_x], ctrl[most_inputs], qfrc[most_inputs], *record;
} Scene;
static Scene scene;

// What a step is weighed by, and the direction that all of it moves in.
static double w[most_x], ws[4096], dx[most_x], du[most_inputs], df[most_inputs], dp[most_theta];
// The pullback.
static double x_bar[most_x], u_bar[most_inputs], f_bar[most_inputs], p_bar[most_theta], step_bar[most_theta];

static uint64_t seed;

// False: the setting is none for this model.
static bool configure(pbContext *ctx, pbModel *m, const Setting *setting) {
  bool set =
      pbModel_SetOption(m, "integrator", setting->integrator) == pb_ok && pbModel_SetOption(m, "cone", setting->cone) == pb_ok;
  if (setting->option[0]) set = set && pbModel_SetOption(m, setting->option[0], setting->option[1]) == pb_ok;
  for (int i = 0; setting->contact[i][0]; i++) {
    set = set && pbModel_SetContact(m, setting->contact[i][0], setting->contact[i][1]) == pb_ok;
  }
  return set && pbModel_Check(ctx, m) == pb_ok;
}

static pbInput inputs(void) { return (pbInput){.ctrl = scene.ctrl, .qfrc = scene.qfrc}; }

// A parameter that is zero moves, too; unit quaternions and axes move along their spheres.
static void draw_direction(void) {
  const pbModel *m = scene.m;
  memset(dp, 0, sizeof dp);
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    pbParam p = pbModel_ParamAt(m, i);
    bool unit = strstr(p.name, "quat") || !strcmp(p.name, "jnt_axis");
    for (int r = 0; r < p.rows; r++) {
      double *row = dp + p.offset + (size_t)(r * p.cols), size = 0;
      const double *value = scene.theta + p.offset + (size_t)(r * p.cols);
      for (int k = 0; k < p.cols; k++) row[k] = noise64(&seed) * (unit ? 1 : value[k] != 0 ? fabs(value[k]) : 0.01);
      if (!unit) continue;
      double along =
          dot_and_size(row, value, (size_t)p.cols, &size) / fmax(dot_and_size(value, value, (size_t)p.cols, &size), 1e-300);
      for (int k = 0; k < p.cols; k++) row[k] -= along * value[k];
    }
  }
  fill_noise(&seed, w, pbModel_TangentSize(m), 1);
  fill_noise(&seed, ws, m->nsensordata, 1);
  fill_noise(&seed, dx, pbModel_TangentSize(m), 1);
  fill_noise(&seed, du, m->nu, 1);
  fill_noise(&seed, df, m->nv, 1);
}

static void leave(void) {
  free(scene.record);
  pbScratch_Destroy(scene.s);
  pbModel_Destroy(scene.m);
  scene.record = NULL;
  scene.s = NULL;
}

// Some steps with random inputs; false: nothing to test here.
static bool enter(pbContext *ctx, const char *file, const Setting *setting) {
  seed = 7;
  const pbLoadOptions options = {.design = setting->design};
  pbStatus loaded = pbModel_Load(ctx, file, &options, &scene.m);
  if (loaded == pb_unsupported && setting->design) return false;
  if (loaded != pb_ok) fail_msg("%s: %s", file, pbContext_Error(ctx));
  pbModel *m = scene.m;
  bool fits = m->nv > 0 && m->nv <= 80 && m->nu <= most_inputs && pbModel_ParamSize(m) <= most_theta && m->nsensordata <= 4096;
  if (!fits || !configure(ctx, m, setting)) return pbModel_Destroy(m), false;

  assert_int_equal(pbScratch_Create(ctx, m, NULL, &scene.s), pb_ok);
  scene.record = calloc((size_t)pbTape_Size(m), sizeof(double));
  memcpy(scene.given, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
  bool servos = setting->option[0] != NULL;
  for (int u = 0; servos && u < m->nu; u++) {  // some run at their speed, some rest
    scene.given[PB_TERM_AT(m, actuator_speed) + u] = u % 3 == 2 ? 0 : 0.4;
    scene.given[PB_TERM_AT(m, actuator_deadband) + u] = u % 3 == 1 ? 0.05 : 0;
  }
  if (setting->design) give_laws(m, scene.given);
  memcpy(scene.theta, scene.given, pbModel_ParamSize(m) * sizeof(double));
  if (m->design && pbModel_SetConstants(ctx, m, scene.theta) != pb_ok) return leave(), false;
  memset(scene.x, 0, sizeof scene.x);
  assert_int_equal(pbState_Init(ctx, m, scene.theta, m->nkey > 0 ? 0 : -1, scene.x), pb_ok);
  double push[most_x];
  fill_noise(&seed, push, pbModel_TangentSize(m), 0.05);
  pbState_Move(m, scene.x, push, 1);
  fill_noise(&seed, scene.ctrl, most_inputs, 0.4);
  fill_noise(&seed, scene.qfrc, most_inputs, 0.1);

  pbInput input = inputs();
  bool went = true;
  for (int k = 0; went && k < setting->steps; k++) {
    memcpy(scene.before, scene.x, sizeof scene.before);
    went = pbStep_Forward(m, scene.theta, scene.x, &input, scene.s, NULL) == pb_ok;
    if (went) pbTape_Record(m, scene.before, scene.s, scene.record);
  }
  if (!went) return leave(), false;
  draw_direction();
  return true;
}

static void pull(const double *weights, const double *sensors) {
  pbInput input = inputs();
  memset(x_bar, 0, sizeof x_bar);
  memset(u_bar, 0, sizeof u_bar);
  memset(f_bar, 0, sizeof f_bar);
  memset(p_bar, 0, sizeof p_bar);
  pbInputBar bars = {.ctrl = u_bar, .qfrc = f_bar};
  pbObservationBar seen = {.sensordata = sensors};
  assert_int_equal(pbStep_Vjp(scene.m, scene.theta, scene.record, &input, weights, &seen, scene.s, x_bar, &bars, p_bar), pb_ok);
  memcpy(step_bar, p_bar, sizeof step_bar);
  if (scene.m->design) assert_int_equal(pbModel_SetConstantsVjp(scene.m->ctx, scene.m, scene.given, p_bar), pb_ok);
}

// ---- which entries a scene has ----------------------------------------------------------------------------------------
static bool any(const double *a, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (a[i] != 0 && isfinite(a[i])) return true;
  }
  return false;
}

static bool any_pulled(void) {
  const pbModel *m = scene.m;
  return any(x_bar, (size_t)pbModel_TangentSize(m)) || any(u_bar, (size_t)m->nu) || any(p_bar, pbModel_ParamSize(m));
}

static bool has_sensor(int type) {
  static double one[4096];
  const double none[most_x] = {0};
  for (int i = 0; i < scene.m->nsensor; i++) {
    if (scene.m->sensor_type[i] != type) continue;
    memset(one, 0, sizeof one);
    memcpy(one + scene.m->sensor_adr[i], ws + scene.m->sensor_adr[i], (size_t)scene.m->sensor_dim[i] * sizeof *one);
    pull(none, one);
    if (any_pulled()) return true;
  }
  return false;
}

static bool has_parameter(const char *name) {
  for (int i = 0; i < pbModel_ParamCount(scene.m); i++) {
    pbParam p = pbModel_ParamAt(scene.m, i);
    size_t count = (size_t)(p.rows * p.cols);
    if (!strcmp(p.name, name)) return any(p_bar + p.offset, count) || any(step_bar + p.offset, count);
  }
  return false;
}

// Numbers of an equality that have a cotangent: its rows are pulled back.
static bool has_data(int equality) {
  size_t at = (size_t)(scene.m->eq_data - scene.m->theta0) + (size_t)pbEquality_Data(equality);
  return any(p_bar + at, pb_eqDataSize) || any(step_bar + at, pb_eqDataSize);
}

// Of the evaluation that the pullback has repeated.
static bool has_row(pbMuteList list, int number) {
  const pbWork_r *work = &scene.s->w;
  for (int k = 0; k < work->nrow; k++) {
    const pbRow_r *r = work->row + k;
    if (!r->zone) continue;
    bool equality = r->kind == pb_rowEquality;
    bool same = list == pb_muteRow && pb_mute_row(r->kind, equality ? scene.m->eq_type[r->equality] : 0) == number;
    if (same && (!equality || has_data(r->equality))) return true;
    if (list == pb_muteRow || r->kind != pb_rowContact) continue;
    const pbContact_r *c = work->contact + r->contact;
    if (pb_mute_pair(scene.m->geom_type[c->geom1], scene.m->geom_type[c->geom2]) == number) return true;
  }
  return false;
}

static bool has_actuator(pbMuteList list, int number) {
  const pbModel *m = scene.m;
  for (int u = 0; u < m->nu; u++) {
    int is = list == pb_muteTransmission ? m->actuator_trntype[u]
             : list == pb_muteDynamics   ? m->actuator_dyntype[u]
             : list == pb_muteGain       ? m->actuator_gaintype[u]
                                         : m->actuator_biastype[u];
    const double *gain = p_bar + (m->actuator_gainprm - m->theta0) + 10 * u;
    const double *bias = p_bar + (m->actuator_biasprm - m->theta0) + 10 * u;
    bool pulled = list == pb_muteBias ? any(bias, 10) : u_bar[u] != 0 || any(gain, 10);  // a bias has numbers of its own alone
    if (is == number && pulled) return true;
  }
  return false;
}

static bool has(const Entry *e) {
  switch (e->list) {
    case pb_muteSensor: return has_sensor(e->number);
    case pb_muteParam: return has_parameter(e->name);
    case pb_muteRow:
    case pb_mutePair: return has_row(e->list, e->number);
    default: return has_actuator(e->list, e->number);
  }
}

// ---- both derivatives -------------------------------------------------------------------------------------------------
#ifdef PULLBACK_MUTATE
static double forward;  // <w, J d>, by pbStep_Jvp

static void push(void) {
  static double next[most_x], sensed[4096];
  pbInput input = inputs();
  double size = 0;
  static double moved[most_theta];
  memcpy(moved, dp, sizeof moved);
  if (scene.m->design) assert_int_equal(pbModel_SetConstantsJvp(scene.m->ctx, scene.m, scene.given, moved), pb_ok);
  pbDirection d = {.x = dx, .ctrl = du, .qfrc = df, .theta = moved};
  assert_int_equal(pbStep_Jvp(scene.m, scene.theta, scene.record, &input, &d, scene.s, next, sensed, NULL, NULL), pb_ok);
  forward = dot_and_size(w, next, (size_t)pbModel_TangentSize(scene.m), &size) +
            dot_and_size(ws, sensed, (size_t)scene.m->nsensordata, &size);
}

// Do they agree, up to rounding?
static bool agree(void) {
  const pbModel *m = scene.m;
  double size = fabs(forward);
  pull(w, ws);
  double reverse = dot_and_size(x_bar, dx, (size_t)pbModel_TangentSize(m), &size) + dot_and_size(u_bar, du, (size_t)m->nu, &size);
  reverse += dot_and_size(f_bar, df, (size_t)m->nv, &size) + dot_and_size(p_bar, dp, pbModel_ParamSize(m), &size);
  double rounding = pbModel_ContactSettings(m).method == pb_contactSoft ? 1e-11 : 1e-8;
  return fabs(forward - reverse) <= rounding * size;
}
#endif

// The name of a scene's file, for as long as the program runs.
static const char *keep(const char *file) {
  static char kept[256][96];
  int k = 0;
  while (kept[k][0] && strcmp(kept[k], file) != 0) k++;
  assert_true(k < 255 && strlen(file) < sizeof kept[k]);
  snprintf(kept[k], sizeof kept[k], "%s", file);
  return kept[k];
}

// ---- every scene ------------------------------------------------------------------------------------------------------
static void on_every_scene(void (*look)(const char *file, int setting)) {
  const char *const more[] = {"hostile/model.xml",      "conformance/hulls.xml",  "conformance/hills.xml",
                              "conformance/wraps.xml",  "conformance/shapes.xml", "conformance/designs.xml",
                              "conformance/delays.xml", scene_of_lists(),         scene_of_equalities()};
  glob_t files;
  pbContext *ctx = pbContext_Create(NULL);
  assert_int_equal(glob("oracle/models/*.xml", 0, NULL, &files), 0);
  size_t count = files.gl_pathc, all = count + sizeof more / sizeof *more;

  for (int k = 0; k < setting_count; k++) {
    for (size_t f = 0; f < all; f++) {
      const char *file = f < count ? files.gl_pathv[f] : more[f - count];
      if (!enter(ctx, file, &settings[k])) continue;
      look(keep(file), k);
      leave();
    }
  }
  globfree(&files);
  pbContext_Destroy(ctx);
}

static void note(const char *file, int setting) {
  for (int i = 0; i < entries; i++) {
    Entry *e = &entry[i];
    if (e->file) continue;
    pull(w, ws);
    if (!has(e)) continue;
    e->file = file;
    e->setting = setting;
  }
}

static void test_every_entry_stands_in_a_scene(void **state) {
  (void)state;
  char missing[4096] = "";
  list_all();
  on_every_scene(note);

  for (int i = 0; i < entries; i++) {
    size_t used = strlen(missing);
    if (!entry[i].file) snprintf(missing + used, sizeof missing - used, " %s %s;", entry[i].kind, entry[i].name);
  }
  if (missing[0]) fail_msg("in no scene of the tests with a cotangent that is not zero:%s", missing);
}

// What is added to the lists of sensors, of actuators' laws and of equalities needs no scene of its own.
static void test_scenes_of_lists_move_each(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  char still[4096] = "";
  list_all();
  for (int k = 0; k < setting_count; k++) {
    for (int of_equalities = 0; of_equalities < 2; of_equalities++) {
      const char *file = of_equalities ? scene_of_equalities() : scene_of_lists();
      if (!enter(ctx, file, &settings[k])) continue;
      note(file, k);
      leave();
    }
  }
  for (int i = 0; i < entries; i++) {
    size_t used = strlen(still);
    bool law = entry[i].list == pb_muteGain || entry[i].list == pb_muteBias || entry[i].list == pb_muteDynamics;
    bool equality = !strcmp(entry[i].kind, "equality"), motor = !strcmp(entry[i].name, "dcmotor");  // motors: scenes.h
    if (!motor && (law || equality || entry[i].list == pb_muteSensor) && !entry[i].file)
      snprintf(still + used, sizeof still - used, " %s %s;", entry[i].kind, entry[i].name);
  }
  pbContext_Destroy(ctx);
  if (still[0]) fail_msg("without a cotangent in the scenes of all lists:%s", still);
}

#ifdef PULLBACK_MUTATE
static void mutate(const char *file, int setting) {
  push();
  if (!agree()) return;  // no witness

  for (int i = 0; i < entries; i++) {
    Entry *e = &entry[i];
    for (int half = 0; half < 2; half++) {
      if (e->red[half]) continue;
      pb_mutation = (pbMutation){.list = e->list, .entry = e->number, .factor = 0.5 * half};
      e->red[half] = !agree();
      if (e->red[half] && !half) {
        e->file = file;
        e->setting = setting;
      }
      pb_mutation = (pbMutation){.list = pb_muteNothing};
    }
  }
}

static void test_every_pullback_is_seen(void **state) {
  (void)state;
  int green = 0;
  list_all();
  on_every_scene(mutate);

  for (int i = 0; i < entries; i++) {
    const Entry *e = &entry[i];
    const Setting *s = &settings[e->setting];
    print_message("%s,%s,%s,%s %s %s,%s\n", e->kind, e->name, e->file ? e->file : "-", s->integrator, s->cone,
                  s->contact[0][0] ? s->contact[0][1] : "", e->red[0] && e->red[1] ? "red" : "GREEN");
    green += !(e->red[0] && e->red[1]);
  }
  if (green) fail_msg("%d of %d entries may lose their pullback, or half of it, unseen", green, entries);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_entry_stands_in_a_scene),
      cmocka_unit_test(test_scenes_of_lists_move_each),
#ifdef PULLBACK_MUTATE
      cmocka_unit_test(test_every_pullback_is_seen),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
