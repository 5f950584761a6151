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

#include "mutation.h"
#include "policies.h"
#include "scenes.h"
#include "model/motor.h"
#include "model/sensor.h"
#include "step/scratch.h"
#include "world/policy_step.h"
#include "support/support.h"

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
  for (int i = 0; i < m->nsensor; i++) n += pbSensor_IsEarly(m, i) ? m->sensor_dim[i] : 0;
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

// Points of deformables: all, some of them, one twice, offsets from means and means alone.
static void add_points(Table *t, const pbModel *m) {
  static const int points[] = {3, 1, 3, 5}, some[] = {4, 0, 11, 2};
  pbDeformInfo info;
  if (!pbModel_DeformInfo(m, &info)) return;
  pbObserveDef few = {.kind = pb_observePoints, .points = points, .point_count = 4, .scale = -2};

  add_row(t, few, 12);
  few.form = pb_formOffset;
  few.component = some;
  few.components = 4;
  add_row(t, few, 4);
  few.kind = pb_observePointVelocity;
  add_row(t, few, 4);

  // Every point that is no scenery
  int count = info.points;
  pbScenery scenery;
  for (int i = 0; pbModel_SceneryAt(m, i, &scenery); i++) count -= scenery.count;
  add_row(t, (pbObserveDef){.kind = pb_observePoints, .form = pb_formOffset}, 3 * count);
  add_row(t, (pbObserveDef){.kind = pb_observePoints, .form = pb_formMean}, 3);
  add_row(t, (pbObserveDef){.kind = pb_observePointVelocity, .scale = .1}, 3 * count);
  add_row(t, (pbObserveDef){.kind = pb_observePointVelocity, .form = pb_formMean, .component = some + 3, .components = 1}, 1);
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
  add_points(t, m);
  add_row(t, (pbObserveDef){.kind = pb_observeLast, .scale = .7}, held);
  add_row(t, (pbObserveDef){.kind = pb_observeTime}, 1);
}

// Controls where there are, forces and wrenches otherwise or besides. act: with a part that acts every step, decisions every third.
static void set_policy(Case *c, bool act) {
  const char *body = name_of(c->m, pb_objBody, c->m->nbody - 1);
  pbOutputDef output[3] = {{.kind = pb_outputForce, .scale = .2}};
  int outputs = 1, width = c->m->nv;
  if (pb_controls(c->m)) {
    output[outputs++] = (pbOutputDef){.kind = pb_outputControl, .scale = .5};
    width += pb_controls(c->m);
  }
  if (body && c->m->nbody > 1) {
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
  bool stages = m->integrator == pb_intRK4 && pbMotor_Check(ctx, m) != pb_ok;  // no motors with activations
  if (stages || contradicts(file, m)) return pbModel_Destroy(m), false;

  set_policy(c, act);
  assert_true(pbModel_ParamSize(m) <= most_theta && pbModel_StateSize(m) <= most_x);
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &c->s), pb_ok);
  c->theta = malloc(pbModel_ParamSize(m) * sizeof(double));
  memcpy(c->theta, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
  c->record = calloc((size_t)pbTape_Size(m), sizeof(double));
  assert_int_equal(pbState_Init(ctx, m, c->theta, m->nkey > 0 ? 0 : -1, c->x), pb_ok);

  double push[most_x];
  fill_noise(&seed, push, pbModel_TangentSize(m), 0.05);  // off the symmetric start, where kinks are
  pbState_Move(m, c->x, push, 1);
  fill_noise(&seed, c->ctrl, 64, 0.4);
  fill_noise(&seed, c->qfrc, 128, 0.1);
  fill_noise(&seed, c->command, commands, 1);
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
  const char *const more[] = {"hostile/model.xml", "conformance/delays.xml"};
  for (size_t f = 0; f < files.gl_pathc + sizeof more / sizeof *more; f++) {
    for (int k = 0; k < setting_count; k++) {
      Case c;
      const char *file = f < files.gl_pathc ? files.gl_pathv[f] : more[f - files.gl_pathc];
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
  bool hard = pbModel_ContactSettings(c->m).method != pb_contactSoft || c->m->deform;
  compared++;
  if (!(fabs(forward - reverse) <= (hard ? 1e-8 : 1e-11) * size))
    FAIL("%s, %s: %s: <w, J d> = %.15g, <J' w, d> = %.15g, terms up to %.3g", c->file, setting_of(c), what, forward, reverse,
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
      for (int k = 0; k < p.cols; k++) row[k] = noise64(&seed) * (unit ? 1 : fabs(value[k]));
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
  fill_noise(&seed, w, n, 1);
  fill_noise(&seed, ws, ns, 1);
  fill_noise(&seed, dx, n, 1);
  fill_noise(&seed, du, pb_controls(m), 1);
  fill_noise(&seed, df, m->nv, 1);
  fill_noise(&seed, dc, commands, 1);
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
  const size_t sizes[] = {(size_t)n, (size_t)pb_controls(m), (size_t)m->nv, commands, np, np};
  static const char *const names[] = {"state", "control", "applied force", "command", "parameters", "parameters of the policy"};
  for (int k = 0; k < 6; k++) {
    if (pbStep_Jvp(m, c->theta, c->record, &input, &directions[k], c->s, next, sensed, NULL, NULL) != pb_ok)
      fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
    double size = dot_size(w, next, (size_t)n) + dot_size(ws, sensed, (size_t)ns) + dot_size(moved[k], bars[k], sizes[k]);
    check_dot(c, names[k], dot(w, next, (size_t)n) + dot(ws, sensed, (size_t)ns), dot(moved[k], bars[k], sizes[k]), size);
  }
}

#ifdef PULLBACK_MUTATE
// Observations, then outputs, by kind: emptied and halved, in the first model that sees it.
static bool red[pb_observeKindCount + pb_outputKindCount][2];

static void mutate(const Case *c) {
  heard = 0;
  check_dot_products(c);
  bool green = heard == 0;

  for (int k = 0; green && k < pb_observeKindCount + pb_outputKindCount; k++) {
    bool observed = k < pb_observeKindCount;
    for (int half = 0; half < 2; half++) {
      if (red[k][half]) continue;
      heard = 0;
      pb_mutation = (pbMutation){.list = observed ? pb_muteObservation : pb_muteOutput,
                                 .entry = observed ? k : k - pb_observeKindCount,
                                 .factor = 0.5 * half};
      check_dot_products(c);
      pb_mutation = (pbMutation){.list = pb_muteNothing};
      red[k][half] = heard > 0;
    }
  }
  heard = -1;
}
#endif

// Where what a policy did last holds the controls that were given beside it.
static void check_while_exploring(const Case *c) {
  pbPolicyModel *p = c->m->policy;
  p->hears = !p->act;
  check_dot_products(c);
  p->hears = false;
}

static void test_dot_products(void **state) {
  (void)state;
  on_every_model(check_dot_products);
  on_every_model(check_while_exploring);
  assert_true(compared > 1000);
}

enum { by_everything = pb_byControl | pb_byMocapPos | pb_byMocapRot };

// ---- rows of the Jacobian, open loops, differences ----------------------------------------------------------------------------------
// Numbers of a row by inputs, in the order of pbStep_JacobianBy.
static pbInputBar columns_of(const Case *c, double *row) {
  double *pos = row + pb_controls(c->m);
  return (pbInputBar){.ctrl = row, .mocap_pos = pos, .mocap_rot = pos + 3 * c->m->nmocap};
}

// A row of the closed loop's Jacobians is the pullback of a unit cotangent of the whole step.
static void check_row(const Case *c, const char *what, int row, const double *by_state, const double *by_inputs, double largest) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m), columns = pbModel_Columns(m, by_everything);
  bool sensor = !strcmp(what, "sensor");
  double unit[most_x + most_sensors] = {0}, x_bar[most_x] = {0}, u_bar[256] = {0}, worst = 0, size = 0;
  pbInput input = input_of(c);
  const pbInputBar input_bar = columns_of(c, u_bar);
  unit[row] = 1;
  assert_true(columns <= 256);
  const pbObservationBar seen = {.sensordata = unit};
  assert_int_equal(
      pbStep_Vjp(m, c->theta, c->record, &input, sensor ? NULL : unit, sensor ? &seen : NULL, c->s, x_bar, &input_bar, NULL),
      pb_ok);

  for (int k = 0; k < n; k++) size = fmax(size, fabs(x_bar[k]));
  for (int k = 0; k < columns; k++) size = fmax(size, fabs(u_bar[k]));
  for (int k = 0; k < n; k++) worst = fmax(worst, fabs(x_bar[k] - by_state[k]));
  for (int k = 0; k < columns; k++) worst = fmax(worst, fabs(u_bar[k] - by_inputs[k]));
  compared++;
  if (!(worst <= 1e-12 * fmax(size, 1e-2 * largest)))
    FAIL("%s, %s: row %d of the Jacobian (%s): %g of %g, of %g", c->file, setting_of(c), row, what, worst, size, largest);
}

static double largest_of(const double *A, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; i++) most = fmax(most, fabs(A[i]));
  return most;
}

static void check_jacobian_rows(const Case *c) {
  const pbModel *m = c->m;
  size_t n = (size_t)pbModel_TangentSize(m), columns = (size_t)pbModel_Columns(m, by_everything), ns = (size_t)m->nsensordata;
  pbInput input = input_of(c);
  double *A = calloc(n * n, sizeof *A), *B = calloc(n * columns + 1, sizeof *B);
  double *C = calloc(ns * n + 1, sizeof *C), *D = calloc(ns * columns + 1, sizeof *D);
  const pbJacobian all = {by_everything, A, B, C, D};
  if (pbStep_JacobianBy(m, c->theta, c->record, &input, c->s, &all) != pb_ok) fail_msg("%s: %s", c->file, pbScratch_Error(c->s));

  // Those of deformables and histories are made row by row.
  size_t each = m->deform || m->nhistory ? 1 + n / 5 : 1;
  double largest = largest_of(A, n * n), of_sensors = largest_of(C, ns * n);
  for (size_t row = 0; row < n; row += each) check_row(c, "state", (int)row, A + row * n, B + row * columns, largest);
  for (size_t row = 0; row < ns; row += each) check_row(c, "sensor", (int)row, C + row * n, D + row * columns, of_sensors);

  // By controls alone, the way of pairs of dofs
  double *A2 = calloc(n * n, sizeof *A2), *B2 = calloc(n * (size_t)pb_controls(m) + 1, sizeof *B2);
  assert_int_equal(pbStep_Jacobian(m, c->theta, c->record, &input, c->s, A2, B2, NULL, NULL), pb_ok);
  for (size_t i = 0; i < n * n; i++) A2[i] -= A[i];
  for (size_t i = 0; i < n * (size_t)pb_controls(m); i++) {
    size_t row = i / (size_t)pb_controls(m), column = i % (size_t)pb_controls(m);
    B2[i] -= B[row * columns + column];
  }
  assert_true(largest_of(A2, n * n) <= 1e-12 * largest && largest_of(B2, n * (size_t)pb_controls(m)) <= 1e-12 * largest);

  double *const made[] = {A, B, C, D, A2, B2};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) free(made[i]);
}

static void check_rows_while_exploring(const Case *c) {
  pbPolicyModel *p = c->m->policy;
  p->hears = !p->act;
  check_jacobian_rows(c);
  p->hears = false;
}

static void test_jacobian_rows(void **state) {
  (void)state;
  on_every_model(check_jacobian_rows);
  on_every_model(check_rows_while_exploring);
}

// The step with the inputs that the policy gave, of the model without a policy, makes the same state to the bit.
static void check_open_loop(const Case *c) {
  const pbModel *m = c->m;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *open;
  pbScratch *s;
  assert_int_equal(pbModel_Load(ctx, c->file, NULL, &open), pb_ok);
  assert_int_equal(pbModel_SetOption(open, "integrator", c->setting->integrator), pb_ok);
  assert_int_equal(pbModel_SetOption(open, "cone", c->setting->cone), pb_ok);
  for (int i = 0; c->setting->contact[i][0]; i++)
    assert_int_equal(pbModel_SetContact(open, c->setting->contact[i][0], c->setting->contact[i][1]), pb_ok);
  assert_int_equal(pbScratch_Create(ctx, open, NULL, &s), pb_ok);

  double closed[most_x], x[most_x];
  pbInput input = input_of(c);
  memcpy(closed, c->before, sizeof closed);
  memcpy(x, c->before, sizeof x);
  assert_int_equal(pbStep_Forward(m, c->theta, closed, &input, c->s, NULL), pb_ok);

  // What goes out: through the table of outputs, as set_policy writes it.
  const double *out = c->s->policy->out;
  double ctrl[64], qfrc[128];
  static double xfrc[6 * 128];
  memcpy(ctrl, c->ctrl, sizeof ctrl);
  memcpy(qfrc, c->qfrc, sizeof qfrc);
  memset(xfrc, 0, sizeof xfrc);
  for (int i = 0; i < m->nv; i++) qfrc[i] += .2 * *out++;
  for (int i = 0; i < m->nu; i++) ctrl[i] += .5 * *out++;
  if (name_of(m, pb_objBody, m->nbody - 1)) {
    for (int i = 0; i < 6; i++) xfrc[6 * (m->nbody - 1) + i] += .1 * *out++;
  }
  pbInput given = {.ctrl = ctrl, .qfrc = qfrc, .xfrc = xfrc};
  assert_int_equal(pbStep_Forward(open, pbModel_DefaultParams(open), x, &given, s, NULL), pb_ok);
  if (memcmp(x, closed, (size_t)pbModel_StateSize(open) * sizeof(double)))
    fail_msg("%s, %s: an open loop differs from the closed one", c->file, setting_of(c));
  compared++;
  pbScratch_Destroy(s);
  pbModel_Destroy(open);
  pbContext_Destroy(ctx);
}

static void test_open_loop(void **state) {
  (void)state;
  on_every_model(check_open_loop);
}

// ---- rollouts: budgets, resumes, commands, the certificate ----------------------------------------------------------------------------
typedef struct Run {
  pbRollout *r;
  double *states, *x_bar, *theta_bar, *command_bar;
  pbCertificate certificate;
} Run;

enum { steps = 150 };

static void free_run(Run *run) {
  pbRollout_Destroy(run->r);
  free(run->states);
  free(run->x_bar);
  free(run->theta_bar);
  free(run->command_bar);
}

static double *bar_of(const Case *c) {
  int n = pbModel_TangentSize(c->m);
  double *w = calloc((size_t)n, sizeof *w);
  seed = 3;
  fill_noise(&seed, w, n, 1);
  return w;
}

static pbContext *run_context;
static Run run_case(const Case *c, size_t records, const double *commands_of_steps, pbGradientKind kind, pbSpotCheck check) {
  const pbModel *m = c->m;
  pbRolloutPlan plan;
  Run run = {.states = calloc((size_t)(steps + 1) * (size_t)pbModel_StateSize(m), sizeof(double)),
             .x_bar = calloc((size_t)pbModel_TangentSize(m), sizeof(double)),
             .theta_bar = calloc(pbModel_ParamSize(m), sizeof(double)),
             .command_bar = calloc(steps * commands, sizeof(double))};
  size_t budget = records * (size_t)pbTape_Size(m) * sizeof(double);
  assert_int_equal(pbRollout_Plan(run_context, m, steps, budget, &plan), pb_ok);
  assert_int_equal(pbRollout_Create(run_context, m, &plan, NULL, &run.r), pb_ok);
  if (pbRollout_SetGradient(run.r, kind) != pb_ok) fail_msg("%s: %s", c->file, pbContext_Error(run_context));
  pbRolloutInput input = {.command = commands_of_steps};
  pbRolloutOutput output = {.states = run.states};
  if (pbRollout_Forward(run.r, c->theta, c->x, &input, &output) != pb_ok)
    fail_msg("%s: %s", c->file, pbContext_Error(run_context));

  double *w = bar_of(c);
  pbRolloutBar bar = {.qpos = {.data = w, .count = 1}, .qvel = {.data = w + m->nv, .count = 1}};
  pbVjpOptions options = {.spot_check = check, .seed = 5};
  pbRolloutGradient out = {.x0 = run.x_bar, .theta = run.theta_bar, .command = run.command_bar};
  if (pbRollout_Vjp(run.r, &bar, &options, &out, &run.certificate) != pb_ok)
    fail_msg("%s: %s", c->file, pbContext_Error(run_context));
  free(w);
  return run;
}

static double *draw_commands(void) {
  double *rows = calloc(steps * commands, sizeof *rows);
  seed = 11;
  fill_noise(&seed, rows, steps * commands, 1);
  return rows;
}

static bool same(const double *a, const double *b, size_t n) { return memcmp(a, b, n * sizeof *a) == 0; }

static const Setting plain = {"implicitfast", "elliptic", {{NULL}}};

static void test_budgets_and_resumes(void **state) {
  (void)state;
  run_context = pbContext_Create(NULL);
  double *rows = draw_commands();
  for (int act = 0; act < 2; act++) {
    Case c;
    assert_true(begin(&c, run_context, "hostile/model.xml", &plain, act, 0));
    size_t nx = (size_t)pbModel_StateSize(c.m), n = (size_t)pbModel_TangentSize(c.m), np = pbModel_ParamSize(c.m);
    Run all = run_case(&c, 0, rows, pb_gradientExact, pb_checkNone);
    static const size_t budgets[] = {2, 7, 40};
    for (int i = 0; i < 3; i++) {
      Run less = run_case(&c, budgets[i], rows, pb_gradientExact, pb_checkNone);
      assert_true(same(all.states, less.states, (steps + 1) * nx) && same(all.x_bar, less.x_bar, n));
      assert_true(same(all.theta_bar, less.theta_bar, np) && same(all.command_bar, less.command_bar, steps * commands));
      free_run(&less);
    }

    // From any state on: whether it decides there or holds.
    for (int from = 1; from < 8; from++) {
      double x[most_x];
      memcpy(x, all.states + (size_t)from * nx, nx * sizeof *x);
      for (int k = from; k < steps; k++) {
        pbInput input = {.command = rows + k * commands};
        assert_int_equal(pbStep_Forward(c.m, c.theta, x, &input, c.s, NULL), pb_ok);
      }
      assert_true(same(x, all.states + steps * nx, nx));
    }
    free_run(&all);
    end(&c);
  }
  free(rows);
  pbContext_Destroy(run_context);
}

// Forward mode through all steps against the pullback, whose gradients by weights are products over blocks of steps.
static void check_rollout(const void *of) {
  double *rows = draw_commands(), *along = draw_commands();
  Case c;
  assert_true(begin(&c, run_context, "hostile/model.xml", of, true, 0));
  size_t n = (size_t)pbModel_TangentSize(c.m), np = pbModel_ParamSize(c.m);
  Run run = run_case(&c, 0, rows, pb_gradientExact, pb_checkFull);
  if (!LISTENS) assert_true(run.certificate.spot_checked && !run.certificate.spot_off);

  double *x0 = calloc(n, sizeof *x0), *theta = calloc(np, sizeof *theta), *tangent = calloc((steps + 1) * n, sizeof *tangent);
  fill_noise(&seed, x0, (int)n, 1);
  parameter_direction(&c, true, theta);
  theta[c.m->timestep - c.m->theta0] = 0.1 * *c.m->timestep;  // the time that is observed
  pbRolloutDirection direction = {.x0 = x0, .theta = theta, .command = along};
  pbRolloutTangent out = {.x = tangent};
  assert_int_equal(pbRollout_Jvp(run.r, 1, &direction, &out), pb_ok);

  double *w = bar_of(&c);
  const double *last = tangent + steps * n;
  size_t seen = 2 * (size_t)c.m->nv;
  double forward = dot(w, last, seen);
  double reverse = dot(x0, run.x_bar, n) + dot(theta, run.theta_bar, np) + dot(along, run.command_bar, steps * commands);
  double size = dot_size(w, last, seen) + dot_size(x0, run.x_bar, n) + dot_size(theta, run.theta_bar, np) +
                dot_size(along, run.command_bar, steps * commands);
  check_dot(&c, "a rollout", forward, reverse, 100 * size);
  free(w);
  free(x0);
  free(theta);
  free(tangent);
  free_run(&run);
  end(&c);
  free(rows);
  free(along);
}

static void test_whole_rollouts(void **state) {
  (void)state;
  run_context = pbContext_Create(NULL);
  for (int k = 0; k < 3; k++) check_rollout(&settings[k]);
  pbContext_Destroy(run_context);
}

// The event and the smooth gradient of a closed loop: the spot check compares steps forward and back.
static void test_modes(void **state) {
  (void)state;
  static const Setting hard = {"Euler", "elliptic", {{"method", "cones"}, {"restitution", "0.5"}, {NULL}}};
  static const Setting smooth = {"Euler", "elliptic", {{"smooth_kappa", "1"}, {"smooth_onset", "0.05"}, {NULL}}};
  run_context = pbContext_Create(NULL);
  const struct {
    const Setting *setting;
    pbGradientKind kind;
  } all[] = {{&plain, pb_gradientEvent}, {&hard, pb_gradientEvent}, {&smooth, pb_gradientSmooth}};
  for (int i = 0; i < 3; i++) {
    Case c;
    assert_true(begin(&c, run_context, "hostile/model.xml", all[i].setting, true, 0));
    Run run = run_case(&c, 0, NULL, all[i].kind, pb_checkSteps);
    if (run.certificate.spot_off)
      fail_msg("gradient %s is off at step %d: %s", pbGradientKind_Name(all[i].kind), run.certificate.spot_step,
               run.certificate.spot_where);
    free_run(&run);
    end(&c);
  }
  pbContext_Destroy(run_context);
}

// Impacts: flights share the decision of the step; reverse against forward mode and differences.
static void test_impacts(void **state) {
  (void)state;
  static const Setting impact = {"Euler", "elliptic", {{"method", "impact"}, {"restitution", "0.6"}, {NULL}}};
  pbContext *ctx = pbContext_Create(NULL);
  Case c;
  assert_true(begin(&c, ctx, "hostile/impact.xml", &impact, true, 0));
  pbInput input = input_of(&c);
  int bounced = 0;
  for (int k = 0; k < 300; k++) {
    memcpy(c.before, c.x, sizeof c.before);
    if (pbStep_Forward(c.m, c.theta, c.x, &input, c.s, NULL) != pb_ok) break;
    pbTape_Record(c.m, c.before, c.s, c.record);
    bool now = pbScratch_Report(c.s).contacts > 0;
    bounced += now;
    if (now || k % 50 == 0) check_dot_products(&c);
  }
  assert_true(bounced > 0);
  end(&c);
  pbContext_Destroy(ctx);
}

// A ball on a rail that bounces, pushed by what it sees: the gradient through the moments of touch of hard contact (mode event)
// against that of method impact, whose flights contain them. Decisions are held through the step in both.
static double bounce(const char *method, pbGradientKind kind, double *by_gain) {
  static const char text[] =
      "<mujoco><option timestep='.0005'/><worldbody><geom type='plane' size='1 1 .1'/><body pos='0 0 .1'>"
      "<joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body></worldbody></mujoco>";
  enum { length = 1200 };
  pbRollout *r;
  pbRolloutPlan plan;
  TestBlend blend;
  Case c = {.file = method, .setting = &plain};
  pbContext *ctx = pbContext_Create(NULL);
  c.m = model_of_text(ctx, text);
  assert_int_equal(pbModel_SetContact(c.m, "method", method), pb_ok);
  assert_int_equal(pbModel_SetContact(c.m, "restitution", "0.7"), pb_ok);

  const pbObserveDef rows[] = {{.kind = pb_observeQpos}, {.kind = pb_observeQvel}};
  const pbOutputDef force = {.kind = pb_outputForce};
  TestBlend_Begin(&blend, 1, 1, -4, -.6);
  const pbPolicyDef def = {
      .observe = rows, .observe_count = 2, .decide = &blend.function, .every = 4, .output = &force, .output_count = 1};
  assert_int_equal(pbModel_TrustPolicy(c.m, &def), pb_ok);
  assert_int_equal(pbRollout_Plan(ctx, c.m, length, 0, &plan), pb_ok);
  assert_int_equal(pbRollout_Create(ctx, c.m, &plan, NULL, &r), pb_ok);
  assert_int_equal(pbRollout_SetGradient(r, kind), pb_ok);

  double x[64] = {0}, x_bar[64] = {0}, one = 1;
  double *theta_bar = calloc(pbModel_ParamSize(c.m), sizeof *theta_bar);
  assert_int_equal(pbState_Init(ctx, c.m, pbModel_DefaultParams(c.m), -1, x), pb_ok);
  x[1] = .5;
  pbRolloutBar bar = {.qpos = {.data = &one, .count = 1}};
  pbRolloutGradient out = {.x0 = x_bar, .theta = theta_bar};
  if (pbRollout_Forward(r, pbModel_DefaultParams(c.m), x, NULL, NULL) != pb_ok ||
      pbRollout_Vjp(r, &bar, NULL, &out, NULL) != pb_ok)
    fail_msg("%s: %s", method, pbContext_Error(ctx));
  pbParam gain;
  assert_int_equal(pbModel_Param(ctx, c.m, "policy.gain", &gain), pb_ok);
  *by_gain = theta_bar[gain.offset];
  free(theta_bar);
  pbRollout_Destroy(r);
  pbModel_Destroy(c.m);
  pbContext_Destroy(ctx);
  return x_bar[0];
}

static void test_events_and_impacts_agree(void **state) {
  (void)state;
  double gain[3];
  double impact = bounce("impact", pb_gradientExact, &gain[0]), event = bounce("cones", pb_gradientEvent, &gain[1]);
  double frozen = bounce("cones", pb_gradientExact, &gain[2]);
  bool height = fabs(event - impact) < fabs(frozen - impact) / 3 && fabs(event - impact) < .02 * fabs(impact);
  bool weight = fabs(gain[1] - gain[0]) < fabs(gain[2] - gain[0]) / 3 && fabs(gain[1] - gain[0]) < .04 * fabs(gain[0]);
  if (!height || !weight)
    fail_msg("impact, event, exact: by height %.6g, %.6g, %.6g; by gain %.6g, %.6g, %.6g", impact, event, frozen, gain[0],
             gain[1], gain[2]);
}

// Worlds with deformables: alone, beside bodies, attached to bodies that move; their controls are outputs too.
static void test_deformables(void **state) {
  (void)state;
  static const char *const files[] = {"../examples/gripper/lift.json", "../examples/chain/carry.json",
                                      "../examples/cloth/drape.json"};
  static const Setting own = {"as in the file", "", {{NULL}}};
  pbContext *ctx = pbContext_Create(NULL);
  for (int f = 0; f < 3; f++) {
    pbTask *task;
    if (pbTask_Load(ctx, files[f], "..", &task) != pb_ok) fail_msg("%s: %s", files[f], pbContext_Error(ctx));
    Case c = {.file = files[f], .setting = &own, .m = (pbModel *)pbTask_Model(task)};
    pbModel *m = c.m;
    seed = 5;
    if (pbModel_StateSize(m) > most_x - 100) {
      pbTask_Destroy(task);
      continue;
    }
    set_policy(&c, f % 2 == 0);
    assert_int_equal(pbScratch_Create(ctx, m, NULL, &c.s), pb_ok);
    c.theta = malloc(pbModel_ParamSize(m) * sizeof(double));
    memcpy(c.theta, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
    c.record = calloc((size_t)pbTape_Size(m), sizeof(double));
    assert_int_equal(pbState_Init(ctx, m, c.theta, -1, c.x), pb_ok);
    fill_noise(&seed, c.command, commands, 1);
    pbInput input = input_of(&c);
    for (int k = 0; k < 5; k++) {
      memcpy(c.before, c.x, sizeof c.before);
      pbStatus status;
      do status = pbStep_Forward(m, c.theta, c.x, &input, c.s, NULL);
      while (pbScratch_Grow(c.s, &status));
      if (status != pb_ok) fail_msg("%s: %s", files[f], pbScratch_Error(c.s));
      pbTape_Record(m, c.before, c.s, c.record);
      check_dot_products(&c);
#ifdef PULLBACK_MUTATE
      mutate(&c);
#endif
    }
    free(c.theta);
    free(c.record);
    pbScratch_Destroy(c.s);
    TestNetwork_End(&c.network);
    pbTask_Destroy(task);
    compared += 1000000;
  }
  assert_true(compared > 2000000);
  pbContext_Destroy(ctx);
}

#ifdef PULLBACK_MUTATE
static void test_every_pullback_is_seen(void **state) {
  (void)state;
  static const char *const outputs[] = {"control", "force", "wrench"};
  on_every_model(mutate);

  // Only from the second step of a rollout on does the time move with the time step.
  run_context = pbContext_Create(NULL);
  bool time = sees_mutation(pb_muteObservation, pb_observeTime, NULL, check_rollout, &settings[0]);
  red[pb_observeTime][0] = red[pb_observeTime][1] = time;
  pbContext_Destroy(run_context);

  for (int k = 0; k < pb_observeKindCount + pb_outputKindCount; k++) {
    const char *name = k < pb_observeKindCount ? pbObserveKind_Name((pbObserveKind)k) : outputs[k - pb_observeKindCount];
    const char *list = k < pb_observeKindCount ? "observation" : "output";
    if (!red[k][0] || !red[k][1]) fail_msg("%s %s: its pullback may be lost", list, name);
    print_message("%s,%s,conformance/test_policy,red\n", list, name);
  }
}
#endif

// ---- what is refused ------------------------------------------------------------------------------------------------------------------
static pbStatus put_nan(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                        double *m_next, void *work) {
  pbStatus status = network_forward(self, batch, param, o, m, out, m_next, work);
  out[0] = NAN;
  return status;
}

static void test_bad_numbers_are_named(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  Case c;
  assert_true(begin(&c, ctx, "hostile/model.xml", &plain, false, 1));
  pbInput input = input_of(&c);
  double before[most_x];
  memcpy(before, c.x, sizeof before);
  c.network.function.forward = put_nan;
  assert_int_equal(pbStep_Forward(c.m, c.theta, c.x, &input, c.s, NULL), pb_not_finite);
  assert_non_null(strstr(pbScratch_Error(c.s), "policy 'network': output 0 is nan at time"));
  assert_true(same(before, c.x, most_x));
  end(&c);
  pbContext_Destroy(ctx);
}

static void test_wrong_tables_are_refused(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m;
  assert_int_equal(pbModel_Load(ctx, "oracle/models/sensors_imu.xml", NULL, &m), pb_ok);
  TestNetwork network;
  TestNetwork_Begin(&network, 3, 1, 0, 1, 1);
  static const int far[] = {7};
  const struct {
    pbObserveDef row;
    const char *text;
  } wrong[] = {
      {{.kind = pb_observeKindCount}, "no such kind"},
      {{.kind = pb_observeQpos, .object = "nobody"}, "the model has no joint 'nobody'"},
      {{.kind = pb_observeBodyPosition}, "expected the name of an object"},
      {{.kind = pb_observeTime, .object = "x"}, "is of no object"},
      {{.kind = pb_observeQvel, .frame = "world"}, "only positions and rotations"},
      {{.kind = pb_observeQvel, .scale = NAN}, "the scale is not finite"},
      {{.kind = pb_observeTime, .component = far, .components = 1}, "component 7: expected one of 0 .. 0"},
      {{.kind = pb_observeCommand}, "expected counts of one or more"},
      {{.kind = pb_observePoints}, "the model has no deformables"},
      {{.kind = pb_observeQvel, .form = pb_formMean}, "only rows of points"},
      {{.kind = pb_observePoints, .object = "head"}, "the model has no set of points 'head'"},
      {{.kind = pb_observeTime}, "it has 3 observations, the model's table gives 1"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pbPolicyDef def = {.observe = &wrong[i].row, .observe_count = 1, .decide = &network.function};
    assert_int_equal(pbModel_TrustPolicy(m, &def), pb_bad_argument);
    if (!strstr(pbContext_Error(ctx), wrong[i].text)) fail_msg("'%s' without '%s'", pbContext_Error(ctx), wrong[i].text);
  }
  // Sensors after the controls, by a name that the file does not give.
  static char name[] = "felt";
  char *unnamed = m->names[pb_objSensor][0];
  m->names[pb_objSensor][0] = name;
  const pbObserveDef felt = {.kind = pb_observeSensor, .object = name}, before = {.kind = pb_observeSensor, .previous = true};
  assert_int_equal(m->sensor_type[0], pb_sensAccelerometer);
  pbPolicyDef def = {.observe = &felt, .observe_count = 1, .decide = &network.function};
  assert_int_equal(pbModel_TrustPolicy(m, &def), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "sensor 'felt' depends on the controls of the very step"));
  def.observe = &before;
  assert_int_equal(pbModel_TrustPolicy(m, &def), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "previous"));
  m->names[pb_objSensor][0] = unnamed;

  // Slices that could not be told apart, and a wrench that moves nothing.
  const pbPolicySlice twice[] = {network.function.slice[0], network.function.slice[0]};
  const pbObserveDef told = {.kind = pb_observeCommand, .count = 3};
  const pbOutputDef world = {.kind = pb_outputWrench, .object = "world"};
  pbPolicyFunction two = network.function;
  two.slice = twice;
  two.slices = 2;
  two.outputs = pbModel_Size(m, "nu");
  def = (pbPolicyDef){.observe = &told, .observe_count = 1, .decide = &two};
  assert_int_equal(pbModel_TrustPolicy(m, &def), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "two slices have the name 'policy."));
  def = (pbPolicyDef){.observe = &told, .observe_count = 1, .decide = &network.function, .output = &world, .output_count = 1};
  assert_int_equal(pbModel_TrustPolicy(m, &def), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(ctx), "output row 0: the world does not move"));
  TestNetwork_End(&network);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

// A function that does not keep its promises never becomes part of a model, and the model stays as it was.
static pbStatus pull_nothing(const void *self, int batch, const double *param, const double *o, const double *m,
                             const double *out_bar, const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar,
                             double *kept, int kept_stride, void *work) {
  (void)self;
  (void)batch;
  (void)param;
  (void)o;
  (void)m;
  (void)out_bar;
  (void)m_next_bar;
  (void)o_bar;
  (void)m_bar;
  (void)param_bar;
  (void)kept;
  (void)kept_stride;
  (void)work;
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
      cmocka_unit_test(test_jacobian_rows),
      cmocka_unit_test(test_open_loop),
      cmocka_unit_test(test_budgets_and_resumes),
      cmocka_unit_test(test_whole_rollouts),
      cmocka_unit_test(test_modes),
      cmocka_unit_test(test_impacts),
      cmocka_unit_test(test_events_and_impacts_agree),
      cmocka_unit_test(test_deformables),
#ifdef PULLBACK_MUTATE
      cmocka_unit_test(test_every_pullback_is_seen),
#endif

      cmocka_unit_test(test_bad_numbers_are_named),
      cmocka_unit_test(test_wrong_tables_are_refused),
      cmocka_unit_test(test_a_wrong_function_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
