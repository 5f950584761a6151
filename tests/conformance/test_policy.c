// A step with a policy in it, on every model of the tests, with integrators and contact methods of each kind:
//   <w, J d> = <J' w, d>          of the closed loop, by state, inputs, commands, parameters of the model and of the policy
//   rows of the Jacobian          are the pullbacks of unit cotangents
//   an open loop                  with the inputs that the policy gave makes the same states
//   differences                   of the closed loop tend to its derivative
//   the same bits                 for any budget, after a resume at any step, without and with kept columns
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "policies.h"
#include "world/policy_step.h"

enum { most_x = 640, most_theta = 65536, most_sensors = 512, most_rows = 64, commands = 2, memory = 2 };

typedef struct Setting {
  const char *integrator, *cone;
  const char *contact[5][2];  // names and values; ends at NULL
} Setting;

static const Setting settings[] = {
    {"Euler", "pyramidal", {{NULL}}},
    {"implicitfast", "elliptic", {{NULL}}},
    {"RK4", "pyramidal", {{NULL}}},
    {"Euler", "elliptic", {{"kappa", "1"}, {"onset", "0.05"}, {NULL}}},
    {"Euler", "elliptic", {{"method", "cones"}, {"restitution", "0.5"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"method", "lcp"}, {"erp", "0.1"}, {"cfm", "1e-4"}, {NULL}}},
    {"Euler", "pyramidal", {{"method", "sweeps"}, {"sweeps", "2000"}, {"cfm", "1e-2"}, {"erp", ".2"}, {NULL}}},
    {"RK4", "elliptic", {{"method", "penalty"}, {"stiffness", "200"}, {"width", "0.02"}, {"damping", "3"}, {NULL}}},
};
enum { setting_count = sizeof settings / sizeof *settings };

typedef struct Case {
  const char *file;
  const Setting *setting;
  pbModel *m;
  pbScratch *s;
  TestNetwork network;
  TestBlend blend;
  double *theta, *record;
  double before[most_x], x[most_x], ctrl[64], qfrc[128], command[commands];
} Case;

static uint64_t seed = 1;
static double noise(void) { return test_noise(&seed); }
static void fill(double *a, int n, double size) {
  for (int i = 0; i < n; i++) a[i] = size * noise();
}
static double dot(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}
static double dot_size(const double *a, const double *b, size_t n) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += fabs(a[i] * b[i]);
  return s;
}
static pbInput input_of(const Case *c) { return (pbInput){.ctrl = c->ctrl, .qfrc = c->qfrc, .command = c->command}; }

// ---- the policy of a model: everything that it has is seen -----------------------------------------------------------------------
typedef struct Table {
  pbObserveDef row[most_rows];
  int count, width;
} Table;

static void add_row(Table *t, pbObserveDef def, int width) {
  if (!width || t->count == most_rows) return;
  t->row[t->count++] = def;
  t->width += width;
}

static int positions(const pbModel *m) {
  int n = 0;
  for (int j = 0; j < m->njnt; j++) n += m->jnt_type[j] == pb_jntFree ? 12 : m->jnt_type[j] == pb_jntBall ? 9 : 1;
  return n;
}

static int sensors(const pbModel *m) {
  int n = 0;
  for (int i = 0; i < m->nsensor; i++) n += pb_sensedBefore(m->sensor_type[i]) ? m->sensor_dim[i] : 0;
  return n;
}

static const char *name_of(const pbModel *m, pbObject kind, int id) {
  const char *name = id >= 0 ? pbModel_Name(m, kind, id) : NULL;
  return name && *name ? name : NULL;
}

static void add_poses(Table *t, const pbModel *m) {
  const char *body = name_of(m, pb_objBody, m->nbody - 1), *frame = name_of(m, pb_objBody, m->nbody > 2 ? 1 : 0);
  const char *site = name_of(m, pb_objSite, m->nsite - 1);
  if (body) {
    add_row(t, (pbObserveDef){.kind = pb_observeBodyPosition, .object = body, .point = {.1, -.2, .3}}, 3);
    add_row(t, (pbObserveDef){.kind = pb_observeBodyPosition, .object = body, .frame = frame, .scale = 2, .point = {.2}}, 3);
    add_row(t, (pbObserveDef){.kind = pb_observeBodyRotation, .object = body, .frame = frame}, 9);
  }
  if (site) {
    add_row(t, (pbObserveDef){.kind = pb_observeSitePosition, .object = site, .frame = frame}, 3);
    add_row(t, (pbObserveDef){.kind = pb_observeSiteRotation, .object = site}, 9);
    add_row(t, (pbObserveDef){.kind = pb_observeSiteRotation, .object = site, .frame = frame, .scale = -.5}, 9);
  }
}

static void add_rotations(Table *t, const pbModel *m) {
  for (int j = 0; j < m->njnt && j < 20; j++) {
    const char *name = name_of(m, pb_objJoint, j);
    bool turns = m->jnt_type[j] == pb_jntFree || m->jnt_type[j] == pb_jntBall;
    if (name && turns) add_row(t, (pbObserveDef){.kind = pb_observeRotation, .object = name}, 3);
  }
}

static void fill_table(Table *t, const pbModel *m, int held) {
  static const int some[] = {1, 0};
  add_row(t, (pbObserveDef){.kind = pb_observeQpos}, positions(m));
  add_row(t, (pbObserveDef){.kind = pb_observeQvel, .scale = .1}, m->nv);
  add_row(t, (pbObserveDef){.kind = pb_observeAct}, m->na);
  add_row(t, (pbObserveDef){.kind = pb_observeSensor, .scale = .1}, sensors(m));
  add_poses(t, m);
  add_rotations(t, m);
  add_row(t, (pbObserveDef){.kind = pb_observeCommand, .count = commands, .component = some, .components = 2}, 2);
  add_row(t, (pbObserveDef){.kind = pb_observeLast, .scale = .7}, held);
  add_row(t, (pbObserveDef){.kind = pb_observeTime}, 1);
}

// Controls where there are, forces and wrenches otherwise or besides. act: with a part that acts every step, decisions every third.
static void set_policy(Case *c, bool act) {
  const char *body = name_of(c->m, pb_objBody, c->m->nbody - 1);
  pbOutputDef output[3] = {{.kind = pb_outputForce, .scale = .2}};
  int outputs = 1, width = c->m->nv;
  if (c->m->nu) {
    output[outputs++] = (pbOutputDef){.kind = pb_outputControl, .scale = .5};
    width += c->m->nu;
  }
  if (body) {
    output[outputs++] = (pbOutputDef){.kind = pb_outputWrench, .object = body, .scale = .1};
    width += 6;
  }

  static Table see, fast;
  see = fast = (Table){.count = 0};
  fill_table(&see, c->m, width);
  add_row(&fast, (pbObserveDef){.kind = pb_observeQvel}, c->m->nv);
  TestNetwork_Begin(&c->network, see.width, width, memory, 1, 17);
  TestBlend_Begin(&c->blend, width, fast.width, .8, .3);
  pbPolicyDef def = {
      .observe = see.row, .observe_count = see.count, .decide = &c->network.function, .output = output, .output_count = outputs};
  if (act) {
    def.every = 3;
    def.act = &c->blend.function;
    def.act_observe = fast.row;
    def.act_observe_count = fast.count;
  }
  if (pbModel_TrustPolicy(c->m, &def) != pb_ok) fail_msg("%s: policy: %s", c->file, pbContext_Error(c->m->ctx));
}

// Models whose equalities contradict each other: made hard they fly apart, whatever solves them.
static bool contradicts(const char *file, const pbModel *m) {
  static const char *const names[] = {"rich.xml", "sensors_loads.xml", "tendon_spatial.xml"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strstr(file, names[i])) return pbModel_ContactSettings(m).method != pb_contactSoft;
  }
  return false;
}

static bool begin(Case *c, pbContext *ctx, const char *file, const Setting *setting, bool act, int steps) {
  *c = (Case){.file = file, .setting = setting};
  seed = 7;
  if (pbModel_Load(ctx, file, NULL, &c->m) != pb_ok) fail_msg("%s: %s", file, pbContext_Error(ctx));
  pbModel *m = c->m;
  if (m->nv == 0 || m->nv > 80 || m->nu > 64) return pbModel_Destroy(m), false;
  assert_int_equal(pbModel_SetOption(m, "integrator", setting->integrator), pb_ok);
  assert_int_equal(pbModel_SetOption(m, "cone", setting->cone), pb_ok);
  for (int i = 0; setting->contact[i][0]; i++)
    assert_int_equal(pbModel_SetContact(m, setting->contact[i][0], setting->contact[i][1]), pb_ok);
  if (contradicts(file, m)) return pbModel_Destroy(m), false;

  set_policy(c, act);
  assert_true(pbModel_ParamSize(m) <= most_theta && pbModel_StateSize(m) <= most_x);
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &c->s), pb_ok);
  c->theta = malloc(pbModel_ParamSize(m) * sizeof(double));
  memcpy(c->theta, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
  c->record = calloc((size_t)pbTape_Size(m), sizeof(double));
  assert_int_equal(pbState_Init(ctx, m, c->theta, m->nkey > 0 ? 0 : -1, c->x), pb_ok);

  double push[most_x];
  fill(push, pbModel_TangentSize(m), 0.05);  // off the symmetric start, where kinks are
  pbState_Move(m, c->x, push, 1);
  fill(c->ctrl, 64, 0.4);
  fill(c->qfrc, 128, 0.1);
  fill(c->command, commands, 1);
  pbInput input = input_of(c);
  for (int k = 0; k < steps; k++) {
    memcpy(c->before, c->x, sizeof c->before);
    pbStatus status = pbStep_Forward(m, c->theta, c->x, &input, c->s, NULL);
    if (status != pb_ok) fail_msg("%s, %s, step %d: %s", file, setting->integrator, k, pbScratch_Error(c->s));
    pbTape_Record(m, c->before, c->s, c->record);
  }
  return true;
}

static void end(Case *c) {
  free(c->theta);
  free(c->record);
  pbScratch_Destroy(c->s);
  pbModel_Destroy(c->m);
  TestNetwork_End(&c->network);
}

static const char *setting_of(const Case *c) {
  static char text[256];
  int n = snprintf(text, sizeof text, "%s, %s", c->setting->integrator, c->setting->cone);
  for (int i = 0; c->setting->contact[i][0]; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, ", %s %s", c->setting->contact[i][0], c->setting->contact[i][1]);
  return text;
}

static void on_every_model(void (*check)(const Case *)) {
  glob_t files;
  assert_int_equal(glob("oracle/models/*.xml", 0, NULL, &files), 0);
  pbContext *ctx = pbContext_Create(NULL);
  for (size_t f = 0; f <= files.gl_pathc; f++) {
    for (int k = 0; k < setting_count; k++) {
      Case c;
      const char *file = f < files.gl_pathc ? files.gl_pathv[f] : "hostile/model.xml";
      // Steps that decide and steps between: 13 and 14 steps of a decision each third
      if (!begin(&c, ctx, file, &settings[k], (f + (size_t)k) % 3 != 0, 13 + (int)(f + (size_t)k) % 2)) continue;
      check(&c);
      end(&c);
    }
  }
  globfree(&files);
  pbContext_Destroy(ctx);
}

// ---- derivatives of a step --------------------------------------------------------------------------------------------------------
static long compared;

static void check_dot(const Case *c, const char *what, double forward, double reverse, double size) {
  bool hard = pbModel_ContactSettings(c->m).method != pb_contactSoft;
  compared++;
  if (!(fabs(forward - reverse) <= (hard ? 1e-8 : 1e-11) * size))
    fail_msg("%s, %s: %s: <w, J d> = %.15g, <J' w, d> = %.15g, terms up to %.3g", c->file, setting_of(c), what, forward, reverse,
             size);
}

// A direction of theta that keeps what must be kept: unit quaternions and axes move along their spheres.
static void parameter_direction(const Case *c, bool policy, double *d) {
  memset(d, 0, pbModel_ParamSize(c->m) * sizeof *d);
  for (int i = 0; i < pbModel_ParamCount(c->m); i++) {
    pbParam p = pbModel_ParamAt(c->m, i);
    if (!strncmp(p.name, "policy.", 7) != policy) continue;
    bool unit = strstr(p.name, "quat") || !strcmp(p.name, "jnt_axis");
    for (int r = 0; r < p.rows; r++) {
      double *row = d + p.offset + (size_t)(r * p.cols);
      const double *value = c->theta + p.offset + (size_t)(r * p.cols);
      for (int k = 0; k < p.cols; k++) row[k] = noise() * (unit ? 1 : fabs(value[k]));
      double along = unit ? dot(row, value, (size_t)p.cols) / fmax(dot(value, value, (size_t)p.cols), 1e-300) : 0;
      for (int k = 0; k < p.cols; k++) row[k] -= along * value[k];
    }
  }
}

static void check_dot_products(const Case *c) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m), ns = m->nsensordata;
  size_t np = pbModel_ParamSize(m);
  pbInput input = input_of(c);
  double w[most_x], ws[most_sensors], dx[most_x], du[64], df[128], dc[commands], next[most_x], sensed[most_sensors];
  static double model[most_theta], policy[most_theta], theta_bar[most_theta];
  fill(w, n, 1), fill(ws, ns, 1), fill(dx, n, 1), fill(du, m->nu, 1), fill(df, m->nv, 1), fill(dc, commands, 1);
  parameter_direction(c, false, model);
  parameter_direction(c, true, policy);

  double x_bar[most_x] = {0}, u_bar[64] = {0}, f_bar[128] = {0}, c_bar[commands] = {0};
  memset(theta_bar, 0, sizeof theta_bar);
  pbInputBar input_bar = {.ctrl = u_bar, .qfrc = f_bar, .command = c_bar};
  pbObservationBar seen = {.sensordata = ws};
  if (pbStep_Vjp(m, c->theta, c->record, &input, w, &seen, c->s, x_bar, &input_bar, theta_bar) != pb_ok)
    fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
  const pbDirection directions[] = {{.x = dx}, {.ctrl = du}, {.qfrc = df}, {.command = dc}, {.theta = model}, {.theta = policy}};
  const double *const moved[] = {dx, du, df, dc, model, policy};
  const double *const bars[] = {x_bar, u_bar, f_bar, c_bar, theta_bar, theta_bar};
  const size_t sizes[] = {(size_t)n, (size_t)m->nu, (size_t)m->nv, commands, np, np};
  static const char *const names[] = {"state", "control", "applied force", "command", "parameters", "parameters of the policy"};
  for (int k = 0; k < 6; k++) {
    if (pbStep_Jvp(m, c->theta, c->record, &input, &directions[k], c->s, next, sensed, NULL, NULL) != pb_ok)
      fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
    double size = dot_size(w, next, (size_t)n) + dot_size(ws, sensed, (size_t)ns) + dot_size(moved[k], bars[k], sizes[k]);
    check_dot(c, names[k], dot(w, next, (size_t)n) + dot(ws, sensed, (size_t)ns), dot(moved[k], bars[k], sizes[k]), size);
  }
}

static void test_dot_products(void **state) {
  (void)state;
  on_every_model(check_dot_products);
  assert_true(compared > 1000);
}

// A function that does not keep its promises never becomes part of a model, and the model stays as it was.
static pbStatus pull_nothing(const void *self, int batch, const double *param, const double *o, const double *m,
                             const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar,
                             double *kept, int kept_stride, void *work) {
  (void)self, (void)batch, (void)param, (void)o, (void)m, (void)out_bar, (void)m_next_bar;
  (void)o_bar, (void)m_bar, (void)param_bar, (void)kept, (void)kept_stride, (void)work;
  return pb_ok;
}

static void test_a_wrong_function_is_refused(void **unused) {
  (void)unused;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m;
  assert_int_equal(pbModel_Load(ctx, "hostile/impact.xml", NULL, &m), pb_ok);
  int nv = pbModel_Size(m, "nv");
  size_t params = pbModel_ParamSize(m);
  const pbObserveDef see = {.kind = pb_observeQvel};
  const pbOutputDef out = {.kind = pb_outputForce};
  TestBlend blend;
  TestBlend_Begin(&blend, nv, 0, .8, .3);
  pbPolicyDef def = {.observe = &see, .observe_count = 1, .decide = &blend.function, .output = &out, .output_count = 1};

  pbPolicyFunction wrong = blend.function;
  wrong.pull = pull_nothing;
  def.decide = &wrong;
  assert_int_equal(pbModel_SetPolicy(m, &def), pb_check_failed);
  assert_non_null(strstr(pbContext_Error(ctx), "policy 'blend': "));
  assert_true(pbModel_ParamSize(m) == params && !pbModel_PolicyInfo(m, &(pbPolicyInfo){0}));

  def.decide = &blend.function;
  def.act = &wrong;
  assert_int_equal(pbModel_SetPolicy(m, &def), pb_check_failed);
  def.act = NULL;
  assert_int_equal(pbModel_SetPolicy(m, &def), pb_ok);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dot_products),
      cmocka_unit_test(test_a_wrong_function_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
