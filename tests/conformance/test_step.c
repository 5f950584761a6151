// What every step and its derivatives keep, on every model of the tests, with each integrator and cone, and with each way to
// smooth or soften contacts (contact.h):
//   <w, J d> = <J' w, d>      pushed forward by the complex program, pulled back by the adjoint; state, inputs, parameters
//   field by field            the same by each field of theta alone, of which what is zero moves, too
//   rows of the Jacobian      are the pullbacks of unit cotangents
//   the same contacts         in the double and in the complex program, whatever moves
//   the same bits             from every instruction set the kernels were compiled for
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glob.h>

#include "model/direction.h"
#include "model/motor.h"
#include "model/term_fields.h"
#include "probe/probe.h"
#include "scenes.h"
#include "step/scratch.h"
#include "support/support.h"

#include <pullback/pullback.h>

enum { most_mocap = 8, most_x = 512, most_theta = 16384, most_sensors = 512, most_fields = 256 };

typedef struct Setting {
  const char *integrator, *cone;
  const char *contact[6][2];  // names and values, servo and noslip_iterations: options; joints: law (scenes.h); ends at NULL
} Setting;

static const Setting settings[] = {
    {"Euler", "pyramidal", {{NULL}}},
    {"implicitfast", "pyramidal", {{NULL}}},
    {"RK4", "pyramidal", {{NULL}}},
    {"Euler", "elliptic", {{NULL}}},
    {"implicitfast", "elliptic", {{NULL}}},
    {"RK4", "elliptic", {{NULL}}},
    {"Euler", "pyramidal", {{"kappa", "1"}, {NULL}}},
    {"RK4", "elliptic", {{"kappa", "1"}, {NULL}}},
    {"implicitfast", "elliptic", {{"kappa", "1e-3"}, {"onset", "0.05"}, {NULL}}},
    {"Euler", "elliptic", {{"onset", "0.05"}, {NULL}}},
    {"RK4", "pyramidal", {{"kappa", "10"}, {"onset", "0.2"}, {NULL}}},
    {"Euler", "elliptic", {{"erp", "0.2"}, {"cfm", "1e-3"}, {NULL}}},
    {"RK4", "pyramidal", {{"erp", "0.1"}, {"cfm", "0.01"}, {"mixing", "mean"}, {NULL}}},
    {"Euler", "elliptic", {{"mixing", "geometric"}, {NULL}}},
    {"Euler", "elliptic", {{"method", "cones"}, {"restitution", "0.5"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"method", "cones"}, {"erp", "0.3"}, {"cfm", "1e-3"}, {NULL}}},
    {"Euler", "pyramidal", {{"method", "lcp"}, {"restitution", "0.3"}, {"mixing", "mean"}, {NULL}}},
    {"Euler", "pyramidal", {{"method", "sweeps"}, {"sweeps", "2000"}, {"cfm", "1e-2"}, {"erp", ".2"}, {NULL}}},
    {"implicitfast", "elliptic", {{"method", "lcp"}, {"erp", "0.1"}, {"cfm", "1e-4"}, {NULL}}},
    {"Euler", "pyramidal", {{"mixing", "product"}, {NULL}}},
    {"Euler", "pyramidal", {{"method", "penalty"}, {"stiffness", "200"}, {"damping", "1"}, {"width", "0.01"}, {NULL}}},
    {"implicitfast", "elliptic", {{"method", "penalty"}, {"stiffness", "300"}, {"damping", "2"}, {"slip", "0.5"}, {NULL}}},
    {"RK4", "elliptic", {{"method", "penalty"}, {"stiffness", "200"}, {"width", "0.02"}, {"damping", "3"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"erp", "0.2"}, {"cfm", "1e-3"}, {"kappa", "1"}, {"onset", "0.05"}, {NULL}}},
    {"Euler", "elliptic", {{"erp", "0.2"}, {"cfm", "1e-3"}, {"kappa", "1"}, {"onset", "0.05"}, {NULL}}},
    {"Euler", "pyramidal", {{"servo", "all"}, {NULL}}},
    {"implicitfast", "elliptic", {{"servo", "all"}, {NULL}}},
    {"RK4", "pyramidal", {{"servo", "all"}, {"kappa", "1"}, {NULL}}},
    {"Euler", "elliptic", {{"servo", "all"}, {"erp", "0.2"}, {"cfm", "1e-3"}, {NULL}}},
    {"Euler", "elliptic", {{"servo", "all"}, {"method", "cones"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"servo", "all"}, {"method", "lcp"}, {"erp", "0.3"}, {"cfm", "1e-3"}, {NULL}}},
    {"Euler", "pyramidal", {{"servo", "all"}, {"method", "sweeps"}, {"sweeps", "2000"}, {"cfm", "1e-2"}, {"erp", ".2"}, {NULL}}},
    {"RK4",
     "elliptic",
     {{"servo", "all"}, {"method", "penalty"}, {"stiffness", "200"}, {"width", "0.02"}, {"damping", "3"}, {NULL}}},
    {"Euler", "elliptic", {{"servo", "all"}, {"method", "impact"}, {"restitution", "0.4"}, {NULL}}},
    {"Euler", "pyramidal", {{"noslip_iterations", "3"}, {NULL}}},
    {"implicitfast", "elliptic", {{"noslip_iterations", "4"}, {NULL}}},
    {"RK4", "elliptic", {{"noslip_iterations", "2"}, {NULL}}},
    {"RK4", "pyramidal", {{"noslip_iterations", "2"}, {"kappa", "1"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"servo", "all"}, {"noslip_iterations", "5"}, {"erp", "0.2"}, {"cfm", "1e-3"}, {NULL}}},
    {"Euler", "pyramidal", {{"joints", "law"}, {NULL}}},
    {"implicitfast", "elliptic", {{"joints", "law"}, {NULL}}},
    {"RK4", "elliptic", {{"joints", "law"}, {"kappa", "1"}, {NULL}}},
    {"Euler", "elliptic", {{"servo", "all"}, {"joints", "law"}, {"method", "cones"}, {NULL}}},
    {"implicitfast", "pyramidal", {{"joints", "law"}, {"method", "lcp"}, {"erp", "0.3"}, {"cfm", "1e-3"}, {NULL}}},
    {"Euler", "pyramidal", {{"joints", "law"}, {"method", "penalty"}, {"stiffness", "200"}, {"damping", "1"}, {NULL}}},
    {"Euler", "elliptic", {{"servo", "all"}, {"joints", "law"}, {"noslip_iterations", "3"}, {NULL}}},
};
enum { setting_count = sizeof settings / sizeof *settings };

typedef struct Case {
  const char *file;
  const Setting *setting;
  pbModel *m;
  pbScratch *s;
  double *theta, *record;
  double before[most_x], x[most_x], ctrl[64], qfrc[128];  // state before the last step, and now
  double mocap_pos[3 * most_mocap], mocap_quat[4 * most_mocap];
} Case;

static uint64_t seed = 1, start = 7;
static pbInput input_of(const Case *c) {
  return (pbInput){.ctrl = c->ctrl, .qfrc = c->qfrc, .mocap_pos = c->mocap_pos, .mocap_quat = c->mocap_quat};
}

// Mocap bodies near where the model has them, their quaternions of any length.
static void place_mocap(Case *c) {
  const pbModel *m = c->m;
  assert_true(m->nmocap <= most_mocap);
  pbModel_MocapPose(m, c->theta, -1, c->mocap_pos, c->mocap_quat);
  for (int i = 0; i < 3 * m->nmocap; i++) c->mocap_pos[i] += 0.02 * noise64(&seed);
  for (int i = 0; i < 4 * m->nmocap; i++) c->mocap_quat[i] = 1.5 * (c->mocap_quat[i] + 0.05 * noise64(&seed));
}

// What models of this folder name enters theta.
static void expose(Case *c) {
  static const struct {
    pbObject of;
    const char *prefix;
  } kinds[] = {{pb_objMesh, "mesh_vert:"}, {pb_objHfield, "hfield_data:"}};
  if (!strstr(c->file, "conformance/")) return;

  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    const char *own;
    for (int i = 0; (own = pbModel_Name(c->m, kinds[k].of, i)); i++) {
      char name[64];
      snprintf(name, sizeof name, "%s%s", kinds[k].prefix, own);
      assert_int_equal(pbModel_Expose(c->m, name), pb_ok);
    }
  }
}

// Pairs of model and setting that are left out, and why.
enum {
  left_large,        // more numbers than there is room for here
  left_no_servo,     // settings of servos, and no actuator can be one
  left_contradicts,  // see above
  left_rolls,        // method impact, which takes no rolling friction
  left_stages,       // RK4, which takes no motor with activations
  left_kinds
};
static int left_out[left_kinds];

static bool leave_out(Case *c, int why) {
  left_out[why]++;
  pbModel_Destroy(c->m);
  return false;
}

// Load, set the options, walk `steps` steps with random inputs so that contacts are there; false: nothing to test here.
static bool begin(Case *c, pbContext *ctx, const char *file, const Setting *setting, int steps) {
  *c = (Case){.file = file, .setting = setting};
  seed = start;
  if (pbModel_Load(ctx, file, NULL, &c->m) != pb_ok) fail_msg("%s: %s", file, pbContext_Error(ctx));
  expose(c);
  const pbModel *m = c->m;
  int nv = pbModel_Size(m, "nv");
  bool fits = nv > 0 && nv <= 80 && pbModel_Size(m, "nu") <= 64 && pbModel_ParamSize(m) <= most_theta;
  if (!fits) return leave_out(c, left_large);
  assert_int_equal(pbModel_SetOption(c->m, "integrator", setting->integrator), pb_ok);
  assert_int_equal(pbModel_SetOption(c->m, "cone", setting->cone), pb_ok);
  bool servos = setting->contact[0][0] && !strcmp(setting->contact[0][0], "servo");
  if (servos && pbModel_SetOption(c->m, "servo", "all") != pb_ok) return leave_out(c, left_no_servo);
  bool laws = false;
  for (int i = servos; setting->contact[i][0]; i++) {
    bool option = !strcmp(setting->contact[i][0], "noslip_iterations");
    pbStatus (*set)(pbModel *, const char *, const char *) = option ? pbModel_SetOption : pbModel_SetContact;
    if (!strcmp(setting->contact[i][0], "joints")) {
      laws = true;
      continue;
    }
    assert_int_equal(set(c->m, setting->contact[i][0], setting->contact[i][1]), pb_ok);
  }
  bool impact = pbModel_ContactSettings(m).method == pb_contactImpact;  // takes no rolling friction
  if (contradicts(file, m)) return leave_out(c, left_contradicts);
  if (impact && pbModel_Check(ctx, m) != pb_ok) return leave_out(c, left_rolls);
  if (m->integrator == pb_intRK4 && pbMotor_Check(ctx, m) != pb_ok) return leave_out(c, left_stages);
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &c->s), pb_ok);
  c->theta = malloc(pbModel_ParamSize(m) * sizeof(double));
  memcpy(c->theta, pbModel_DefaultParams(m), pbModel_ParamSize(m) * sizeof(double));
  for (int u = 0; servos && u < m->nu; u++) {  // some run at their speed, some rest
    c->theta[PB_TERM_AT(m, actuator_speed) + u] = u % 3 ? 0 : 0.4;
    c->theta[PB_TERM_AT(m, actuator_deadband) + u] = u % 3 == 1 ? 0.05 : 0;
  }
  if (laws) give_laws(m, c->theta);
  c->record = calloc((size_t)pbTape_Size(m), sizeof(double));
  assert_int_equal(pbState_Init(ctx, m, c->theta, pbModel_Size(m, "nkey") > 0 ? 0 : -1, c->x), pb_ok);
  double push[most_x];
  fill_noise(&seed, push, pbModel_TangentSize(m), 0.05);  // off the symmetric start, where kinks are
  pbState_Move(m, c->x, push, 1);
  fill_noise(&seed, c->ctrl, 64, 0.4);
  fill_noise(&seed, c->qfrc, 128, 0.1);
  place_mocap(c);
  pbInput input = input_of(c);
  for (int k = 0; k < steps; k++) {
    memcpy(c->before, c->x, sizeof c->before);
    pbStatus status = pbStep_Forward(m, c->theta, c->x, &input, c->s, NULL);
    if (status != pb_ok) fail_msg("%s, %s, step %d: %s", file, setting->integrator, k, pbScratch_Error(c->s));
    pbTape_Record(m, c->before, c->s, c->record);
  }
  double elsewhere[most_x];  // another state goes through the scratch: derivatives belong to the record
  memcpy(elsewhere, c->x, sizeof elsewhere);
  pbState_Move(m, elsewhere, push, -3);
  if (pbStep_Forward(m, c->theta, elsewhere, &(pbInput){0}, c->s, NULL) != pb_ok)
    fail_msg("%s, %s, elsewhere: %s", file, setting->contact[0][0], pbScratch_Error(c->s));
  return true;
}

static void end(Case *c) {
  free(c->theta);
  free(c->record);
  pbScratch_Destroy(c->s);
  pbModel_Destroy(c->m);
}

// A direction of all of theta: what is zero moves, too.
static void parameter_direction(const Case *c, double *d) {
  pbRng rng = pbRng_Seed(seed++);
  for (int i = 0; i < pbModel_ParamCount(c->m); i++) pbTheta_Draw(c->m, c->theta, i, pb_drawAll, &rng, d);
}

// With hard contact: rows that tell each other apart by their softness alone cost that many digits.
static bool is_hard(const Case *c) { return pbModel_ContactSettings(c->m).method != pb_contactSoft; }

static const char *setting_of(const Case *c) {
  static char text[256];
  int n = snprintf(text, sizeof text, "%s, %s", c->setting->integrator, c->setting->cone);
  for (int i = 0; c->setting->contact[i][0]; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, ", %s %s", c->setting->contact[i][0], c->setting->contact[i][1]);
  snprintf(text + n, sizeof text - (size_t)n, ", seed %d", (int)start);
  return text;
}

static long compared;

static void check_dot(const Case *c, const char *what, double forward, double reverse, double size) {
  compared++;
  double rounding = c->m->noslip_iterations ? 1e-13 : 0;  // sweeps hold bodies: what would move them cancels
  if (!(fabs(forward - reverse) <= (is_hard(c) ? 1e-8 : 1e-11) * size + rounding))
    fail_msg("%s, %s: %s: <w, J d> = %.15g, <J' w, d> = %.15g, terms up to %.3g", c->file, setting_of(c), what, forward, reverse,
             size);
}

static void check_dot_products(const Case *c) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m), nv = m->nv, nu = m->nu, ns = m->nsensordata;
  size_t np = pbModel_ParamSize(m);
  pbInput input = input_of(c);
  double w[most_x], ws[most_sensors], dx[most_x], du[64] = {0}, df[128] = {0}, next[most_x], sensed[most_sensors];
  double dm[3 * most_mocap] = {0}, dr[3 * most_mocap] = {0}, m_bar[3 * most_mocap] = {0}, r_bar[3 * most_mocap] = {0};
  size_t nm = 3 * (size_t)m->nmocap;
  static double dp[most_theta], theta_bar[most_theta];
  fill_noise(&seed, w, n, 1);
  fill_noise(&seed, ws, ns, 1);
  fill_noise(&seed, dx, n, 1);
  fill_noise(&seed, du, nu, 1);
  fill_noise(&seed, df, nv, 1);
  memset(dp, 0, sizeof dp);
  parameter_direction(c, dp);
  fill_noise(&seed, dm, (int)nm, 1);
  fill_noise(&seed, dr, (int)nm, 1);

  double x_bar[most_x] = {0}, u_bar[64] = {0}, f_bar[128] = {0};
  memset(theta_bar, 0, sizeof theta_bar);
  pbInputBar input_bar = {.ctrl = u_bar, .qfrc = f_bar, .mocap_pos = m_bar, .mocap_rot = r_bar};
  pbObservationBar seen = {.sensordata = ws};
  if (pbStep_Vjp(m, c->theta, c->record, &input, w, &seen, c->s, x_bar, &input_bar, theta_bar) != pb_ok)
    fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
  const pbDirection directions[] = {{.x = dx}, {.ctrl = du}, {.qfrc = df}, {.theta = dp}, {.mocap_pos = dm}, {.mocap_rot = dr}};
  const double *const moved[] = {dx, du, df, dp, dm, dr};
  const double *const bars[] = {x_bar, u_bar, f_bar, theta_bar, m_bar, r_bar};
  const size_t sizes[] = {(size_t)n, (size_t)nu, (size_t)nv, np, nm, nm};
  static const char *const names[] = {"state", "control", "applied force", "parameters", "mocap_pos", "mocap_rot"};
  for (int k = 0; k < (nm ? 6 : 4); k++) {
    if (pbStep_Jvp(m, c->theta, c->record, &input, &directions[k], c->s, next, sensed, NULL, NULL) != pb_ok)
      fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
    double size =
        pbProbe_Terms(w, next, (size_t)n) + pbProbe_Terms(ws, sensed, (size_t)ns) + pbProbe_Terms(moved[k], bars[k], sizes[k]);
    check_dot(c, names[k], pbProbe_Dot(w, next, (size_t)n) + pbProbe_Dot(ws, sensed, (size_t)ns),
              pbProbe_Dot(moved[k], bars[k], sizes[k]), size);
  }
}

typedef struct Product {
  double forward, back, size;
} Product;

static Product product_of(const Case *c, const double *d, size_t np, const double *w, const double *ws, const double *theta_bar) {
  const pbModel *m = c->m;
  size_t n = (size_t)pbModel_TangentSize(m), ns = (size_t)m->nsensordata;
  pbInput input = input_of(c);
  double next[most_x], sensed[most_sensors];

  if (pbStep_Jvp(m, c->theta, c->record, &input, &(pbDirection){.theta = d}, c->s, next, sensed, NULL, NULL) != pb_ok)
    fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
  Product p = {.forward = pbProbe_Dot(w, next, n) + pbProbe_Dot(ws, sensed, ns), .back = pbProbe_Dot(d, theta_bar, np)};
  p.size = pbProbe_Terms(w, next, n) + pbProbe_Terms(ws, sensed, ns) + pbProbe_Terms(d, theta_bar, np);
  return p;
}

// Products of one field that have fewer digits than the others: in which models and settings (contact: what these say of
// themselves), how many there may be, how far apart forward and back, of the largest product, and what takes the digits. All else
// holds to 1e-11 of its own terms and 1e-15 of the largest product. None of these is a term that is missing: each changes by as
// much as it is apart when theta changes in its last bits, which is asked of each. PB_LOOSE=1 prints them.
typedef struct Loose {
  const char *model, *contact;
  int most;
  double share;
  const char *reason;
} Loose;

static const Loose loose[] = {
    {"/defaults.xml", "method", 8, 1e-11, "a box on one slide stands on four corners: twelve rows for one degree of freedom"},
    {"/equality.xml", "method", 4, 1e-13,
     "of what the time step does to 31 rows of equalities 1/400 of the largest product is left"},
    {"/joints.xml", "method", 24, 1e-9,
     "hinge a_h2 has both its limits and friction loss: three rows along one degree of freedom"},
    {"/margins.xml", "method", 30, 2e-10, "a box lies on a box by six points: 18 rows for six degrees of freedom"},
    {"/pairs.xml", "method", 16, 2e-11, "limit of hinge f and contact of the two bodies that it joins: four rows for one"},
    {"/hulls.xml", "method", 54, 1e-8,
     "a capsule on a slide and a hinge lies on two points: six rows for two, as an ellipsoid has"},
    {"/hulls.xml", "noslip", 26, 1e-12, "sweeps against slip hold the bodies: what would move them cancels"},
};
enum { loose_count = sizeof loose / sizeof *loose };
static int loose_found[loose_count];
// Hard contact where another processor's sines round otherwise: none was seen where the list was made.
enum { elsewhere_most = 20 };
static int loose_elsewhere;

static const Loose *loose_of(const Case *c) {
  for (int i = 0; i < loose_count; i++) {
    if (strstr(c->file, loose[i].model) && strstr(setting_of(c), loose[i].contact)) return loose + i;
  }
  return NULL;
}

// The field alone of a direction.
static void direction_of(const Case *c, int field, const double *all, double *one) {
  pbParam p = pbModel_ParamAt(c->m, field);
  memset(one, 0, pbModel_ParamSize(c->m) * sizeof *one);
  memcpy(one + p.offset, all + p.offset, (size_t)p.rows * (size_t)p.cols * sizeof *one);
}

static void pull_parameters(const Case *c, const double *w, const double *ws, double *theta_bar) {
  pbInput input = input_of(c);
  double x_bar[most_x] = {0};

  memset(theta_bar, 0, pbModel_ParamSize(c->m) * sizeof *theta_bar);
  pbObservationBar seen = {.sensordata = ws};
  if (pbStep_Vjp(c->m, c->theta, c->record, &input, w, &seen, c->s, x_bar, NULL, theta_bar) != pb_ok)
    fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
}

// How much a product changes, forward or back, when all of theta changes in its last bits.
static double wobble_of(const Case *c, int field, const double *all, const double *w, const double *ws, const Product *here) {
  static double one[most_theta], theta[most_theta], theta_bar[most_theta];
  const pbModel *m = c->m;
  size_t np = pbModel_ParamSize(m);
  Case there = *c;
  pbInput input = input_of(c);
  double most = 0;

  direction_of(c, field, all, one);
  there.theta = theta;
  there.record = calloc((size_t)pbTape_Size(m), sizeof(double));
  for (int k = 0; k < 8; k++) {
    for (size_t i = 0; i < np; i++) theta[i] = c->theta[i] * (1 + 4e-16 * noise64(&seed));
    memcpy(there.x, c->before, sizeof there.x);
    assert_int_equal(pbStep_Forward(m, theta, there.x, &input, c->s, NULL), pb_ok);
    pbTape_Record(m, c->before, c->s, there.record);
    pull_parameters(&there, w, ws, theta_bar);
    Product p = product_of(&there, one, np, w, ws, theta_bar);
    most = fmax(most, fmax(fabs(p.forward - here->forward), fabs(p.back - here->back)));
  }
  free(there.record);
  return most;
}

static void check_product(const Case *c, int field, const Product *p, double largest, const double *all, const double *w,
                          const double *ws) {
  // Friction by load has a power of its own, of which what is by accelerations cancels.
  double apart = fabs(p->forward - p->back), rounding = strstr(setting_of(c), "joints law") ? 4e-15 : 1e-15;
  if (apart <= 1e-11 * p->size + rounding * largest) return;

  const Loose *row = loose_of(c);
  bool listed = row && apart <= row->share * largest;
  bool elsewhere = !listed && is_hard(c) && apart <= 1e-8 * p->size + 3e-10 * largest;
  double wobble = listed || elsewhere ? wobble_of(c, field, all, w, ws, p) : 0;
  const char *name = pbModel_ParamAt(c->m, field).name;

  if (listed) loose_found[row - loose]++;
  if (elsewhere) loose_elsewhere++;
  if (listed && getenv("PB_LOOSE"))
    printf("%s, %s: %s: apart %.2g, changes by %.2g in its last bits, terms up to %.2g, of all fields %.2g: %s\n", c->file,
           setting_of(c), name, apart, wobble, p->size, largest, row->reason);
  if (!(listed || elsewhere) || apart > 5 * wobble)
    fail_msg("%s, %s: %s: <w, J d> = %.15g, <J' w, d> = %.15g, terms up to %.3g, of all fields %.3g; at rounding %.3g", c->file,
             setting_of(c), name, p->forward, p->back, p->size, largest, wobble);
}

// One product for each field of theta: what is missing by one field is small beside all of them. The fields have the solves of
// the step in common, and with these what is rounding: of the largest product.
static void check_fields(const Case *c) {
  const pbModel *m = c->m;
  size_t np = pbModel_ParamSize(m);
  double w[most_x], ws[most_sensors], largest = 0;
  static double all[most_theta], one[most_theta], theta_bar[most_theta];
  static Product product[most_fields];
  int fields = pbModel_ParamCount(m);

  assert_true(fields <= most_fields);
  fill_noise(&seed, w, pbModel_TangentSize(m), 1);
  fill_noise(&seed, ws, m->nsensordata, 1);
  parameter_direction(c, all);
  pull_parameters(c, w, ws, theta_bar);

  for (int i = 0; i < fields; i++) {
    direction_of(c, i, all, one);
    product[i] = product_of(c, one, np, w, ws, theta_bar);
    largest = fmax(largest, product[i].size);
    compared++;
  }

  for (int i = 0; i < fields; i++) check_product(c, i, product + i, largest, all, w, ws);
}

static void check_jacobian_rows(const Case *c) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m);
  pbInput input = input_of(c);
  double *A = calloc((size_t)(n * n), sizeof *A), *B = calloc((size_t)(n * m->nu) + 1, sizeof *B);
  if (pbStep_Jacobian(m, c->theta, c->record, &input, c->s, A, B, NULL, NULL) != pb_ok)
    fail_msg("%s: %s", c->file, pbScratch_Error(c->s));
  for (int row = 0; row < n; row += 1 + n / 7) {
    double unit[most_x] = {0}, x_bar[most_x] = {0}, u_bar[64] = {0};
    unit[row] = 1;
    pbInputBar input_bar = {.ctrl = u_bar};
    assert_int_equal(pbStep_Vjp(m, c->theta, c->record, &input, unit, NULL, c->s, x_bar, &input_bar, NULL), pb_ok);
    double size = pbProbe_Terms(x_bar, x_bar, (size_t)n) + pbProbe_Terms(u_bar, u_bar, (size_t)m->nu), worst = 0;
    for (int k = 0; k < n; k++) worst = fmax(worst, fabs(x_bar[k] - A[row * n + k]));
    for (int k = 0; k < m->nu; k++) worst = fmax(worst, fabs(u_bar[k] - B[row * m->nu + k]));
    check_dot(c, "row of the Jacobian", worst, 0, sqrt(size) + 1e-300);
  }
  free(A);
  free(B);
}

// By pairs of dofs, and (asked for by poses of mocap bodies, too) row by row: every entry.
static void check_jacobian_paths(const Case *c) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m), nu = m->nu, all = pbModel_Columns(m, pb_byControl | pb_byMocapPos);
  pbInput input = input_of(c);
  double *J[4];
  for (int k = 0; k < 4; k++) J[k] = calloc((size_t)(n * (n + all)) + 1, sizeof(double));
  const pbJacobian pairs = {.by = pb_byControl, .A = J[0], .B = J[1]};
  const pbJacobian rows = {.by = pb_byControl | pb_byMocapPos, .A = J[2], .B = J[3]};
  assert_int_equal(pbStep_JacobianBy(m, c->theta, c->record, &input, c->s, &pairs), pb_ok);
  assert_int_equal(pbStep_JacobianBy(m, c->theta, c->record, &input, c->s, &rows), pb_ok);

  // Stiff contacts cancel what is large in the rows of what they hold.
  double largest = 0;
  for (int k = 0; k < n * n; k++) largest = fmax(largest, fabs(J[2][k]));
  for (int row = 0; row < n; row++) {
    const double *a = J[0] + row * n, *b = J[2] + row * n, *u = J[1] + row * nu, *v = J[3] + row * all;
    double worst = 0, size = 0;
    for (int k = 0; k < n; k++) size = fmax(size, fabs(b[k]));
    for (int k = 0; k < nu; k++) size = fmax(size, fabs(v[k]));
    for (int k = 0; k < n; k++) worst = fmax(worst, fabs(a[k] - b[k]));
    for (int k = 0; k < nu; k++) worst = fmax(worst, fabs(u[k] - v[k]));
    compared++;
    if (!(worst <= 1e-10 * size && worst <= 1e-11 * largest))
      fail_msg("%s, %s: row %d by pairs and by rows: %g of %g, of %g", c->file, setting_of(c), row, worst, size, largest);
  }
  for (int k = 0; k < 4; k++) free(J[k]);
}

// ---- second derivatives -----------------------------------------------------------------------------------------------
// The pullback of w and ws, by state and controls, from a place at `by` along a direction.
static void pull_at(const Case *c, const double *dx, const double *du, double by, const double *w, const double *ws,
                    double *bar) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m);
  double x[most_x], before[most_x], ctrl[64];
  double *record = calloc((size_t)pbTape_Size(m), sizeof(double));
  memcpy(x, c->before, sizeof x);
  pbState_Move(m, x, dx, by);
  memcpy(before, x, sizeof x);
  for (int i = 0; i < m->nu; i++) ctrl[i] = c->ctrl[i] + by * du[i];
  pbInput input = input_of(c);
  input.ctrl = ctrl;

  memset(bar, 0, (size_t)(n + m->nu) * sizeof *bar);
  pbObservationBar seen = {.sensordata = ws};
  assert_int_equal(pbStep_Forward(m, c->theta, x, &input, c->s, NULL), pb_ok);
  pbTape_Record(m, before, c->s, record);
  assert_int_equal(pbStep_Vjp(m, c->theta, record, &input, w, &seen, c->s, bar, &(pbInputBar){.ctrl = bar + n}, NULL), pb_ok);
  free(record);
}

// Richardson's extrapolation of central differences over `base` and its double and fourfold.
static void differences(const Case *c, const double *dx, const double *du, const double *w, const double *ws, double base,
                        double *out) {
  static const double weight[3] = {64. / 45, -20. / 45, 1. / 45};
  int all = pbModel_TangentSize(c->m) + c->m->nu;
  double ahead[most_x], behind[most_x];
  memset(out, 0, (size_t)all * sizeof *out);
  for (int k = 0; k < 3; k++) {
    double h = base * (1 << k);
    pull_at(c, dx, du, h, w, ws, ahead);
    pull_at(c, dx, du, -h, w, ws, behind);
    for (int i = 0; i < all; i++) out[i] += weight[k] * (ahead[i] - behind[i]) / (2 * h);
  }
}

static double farthest(const double *a, const double *b, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
  return most;
}

// Moves get shorter until their quotient is the derivative; where two of them agree, and not with it, it is wrong. Where none do,
// every move meets a kink, or only rounding.
enum { second_equal, second_refused, second_unclear, second_kinds };
static int second_count[second_kinds];
static void check_second(const Case *c) {
  const pbModel *m = c->m;
  int n = pbModel_TangentSize(m), nu = m->nu, all = n + nu, had = 0;
  double w[most_x], ws[most_sensors], dx[most_x], du[64], out[most_x] = {0}, expected[most_x], last[most_x];
  pbInput input = input_of(c);
  fill_noise(&seed, w, n, 1);
  fill_noise(&seed, ws, m->nsensordata, 1);
  fill_noise(&seed, dx, n, 1);
  fill_noise(&seed, du, nu, 1);
  const pbDirection d = {.x = dx, .ctrl = du};
  const pbSecond second = {.direction = &d, .next = w, .observed = {.sensordata = ws}, .x = out, .input = {.ctrl = out + n}};
  pbStatus status = pbStep_Second(m, c->theta, c->record, &input, c->s, &second);
  if (status == pb_bad_input) {
    second_count[second_refused]++;
    return;
  }
  if (status != pb_ok) fail_msg("%s, %s: %s", c->file, setting_of(c), pbScratch_Error(c->s));

  double off = INFINITY, agree = INFINITY, size = 0;
  static const double nothing[most_x];
  for (double base = 1e-4; base > 5e-9; base /= 8) {
    differences(c, dx, du, w, ws, base, expected);
    size = farthest(expected, nothing, all);
    off = fmin(off, farthest(out, expected, all) / (size + 1e-12));
    if (off <= 1e-9) break;
    if (had++) agree = fmin(agree, farthest(last, expected, all) / (size + 1e-12));
    memcpy(last, expected, sizeof last);
  }
  if (off > 1e-8 && agree <= 1e-8)
    fail_msg("%s, %s: second derivatives are off by %g of %g, of which quotients agree to %g", c->file, setting_of(c), off, size,
             agree);
  second_count[off <= 1e-8 ? second_equal : second_unclear]++;
}

int probe_Contacts_r(const void *work, double *out);  // probe_step.c
int probe_Contacts_c(const void *work, double *out);

// Later stages stand where accelerations put them, whose last bits complex division moves.
static void check_same_contacts(const Case *c) {
  const pbModel *m = c->m;
  double tolerance = m->integrator == pb_intRK4 ? 1e-12 : 0;
  pbInput input = input_of(c);
  static double dx[most_x], du[64], df[128], dp[most_theta], found[2][9 * 512];
  double x[most_x], next[most_x];
  memcpy(x, c->before, sizeof x);
  assert_int_equal(pbStep_Forward(m, c->theta, x, &input, c->s, NULL), pb_ok);
  int n = probe_Contacts_r(&c->s->w, found[0]);
  for (int turn = 0; turn < 3; turn++) {
    fill_noise(&seed, dx, pbModel_TangentSize(m), 1);
    fill_noise(&seed, du, m->nu, 1);
    fill_noise(&seed, df, m->nv, 1);
    parameter_direction(c, dp);
    const pbDirection directions[] = {{.x = dx}, {.theta = dp}, {.x = dx, .ctrl = du, .qfrc = df, .theta = dp}};
    for (int k = 0; k < 3; k++) {
      assert_int_equal(pbStep_Jvp(m, c->theta, c->record, &input, &directions[k], c->s, next, NULL, NULL, NULL), pb_ok);
      bool same = probe_Contacts_c(c->s->complex_work, found[1]) == n;
      for (int i = 0; same && i < n; i++) same = fabs(found[0][i] - found[1][i]) <= tolerance;
      if (!same) fail_msg("%s, %s: direction %d sees other contacts", c->file, setting_of(c), k);
    }
  }
}

static void check_same_bits(const Case *c) {
  const pbModel *m = c->m;
  pbInput input = input_of(c);
  int n = pbModel_TangentSize(m);
  double x[2][most_x], x_bar[2][most_x], w[most_x];
  fill_noise(&seed, w, n, 1);
  const pbVariant *kept = c->s->variant;
  for (int v = 0; pbVariant_At(v); v++) {
    int slot = v > 0;
    c->s->variant = pbVariant_At(v);
    memset(x[slot], 0, sizeof x[slot]);
    memset(x_bar[slot], 0, sizeof x_bar[slot]);
    memcpy(x[slot], c->x, sizeof c->x);
    assert_int_equal(pbStep_Forward(m, c->theta, x[slot], &input, c->s, NULL), pb_ok);
    assert_int_equal(pbStep_Vjp(m, c->theta, c->record, &input, w, NULL, c->s, x_bar[slot], NULL, NULL), pb_ok);
    if (slot && (memcmp(x[0], x[1], sizeof x[0]) || memcmp(x_bar[0], x_bar[1], sizeof x_bar[0])))
      fail_msg("%s: %s and %s do not give the same bits", c->file, pbVariant_At(0)->name, pbVariant_At(v)->name);
  }
  c->s->variant = kept;
}

static void on_every_model(void (*check)(const Case *)) {
  glob_t files;
  assert_int_equal(glob("oracle/models/*.xml", 0, NULL, &files), 0);
  pbContext *ctx = pbContext_Create(NULL);
  compared = 0;
  start = 7;
  memset(left_out, 0, sizeof left_out);
  const char *const more[] = {"hostile/model.xml",     "conformance/hulls.xml",  "conformance/hills.xml",
                              "conformance/wraps.xml", "conformance/delays.xml", "conformance/swimmer.xml",
                              scene_of_lists(),        scene_of_equalities()};
  for (size_t f = 0; f < files.gl_pathc + sizeof more / sizeof *more; f++) {
    for (int k = 0; k < setting_count; k++) {
      Case c;
      if (!begin(&c, ctx, f < files.gl_pathc ? files.gl_pathv[f] : more[f - files.gl_pathc], &settings[k], 15)) continue;
      check(&c);
      end(&c);
    }
  }
  globfree(&files);
  pbContext_Destroy(ctx);
}

static void test_dot_products(void **state) {
  (void)state;
  on_every_model(check_dot_products);
  assert_true(compared > 500);  // the models were found
}
static void test_fields(void **state) {
  (void)state;
  memset(loose_found, 0, sizeof loose_found);
  loose_elsewhere = 0;
  on_every_model(check_fields);
  assert_true(compared > 100000);
  for (int i = 0; i < loose_count; i++) {
    if (loose_found[i] > loose[i].most)
      fail_msg("%s, %s: %d products have few digits, %d are listed", loose[i].model, loose[i].contact, loose_found[i],
               loose[i].most);
  }
  assert_in_range(loose_elsewhere, 0, elsewhere_most);

  // What no model was tried with, by the reasons above: no servo that an option names is no loss.
  assert_int_equal(left_out[left_large], 0);
  assert_int_equal(left_out[left_contradicts], 36);
  assert_int_equal(left_out[left_rolls], 1);
}

// Limbs on parallel hinges at a distance: components that are exactly zero decide which contacts there are.
static void test_far_contacts(void **state) {
  (void)state;
  static const Setting far[] = {
      {"Euler", "elliptic", {{"kappa", "10"}, {"onset", "0.2"}, {NULL}}},
      {"Euler", "pyramidal", {{"onset", "0.2"}, {NULL}}},
      {"RK4", "pyramidal", {{"kappa", "10"}, {"onset", "0.2"}, {NULL}}},
  };
  pbContext *ctx = pbContext_Create(NULL);
  for (int k = 0; k < 3; k++) {
    for (start = 1; start <= 40; start++) {
      Case c;
      assert_true(begin(&c, ctx, "hostile/model.xml", &far[k], 15));
      check_dot_products(&c);
      check_same_contacts(&c);
      end(&c);
    }
  }
  pbContext_Destroy(ctx);
}
static void test_same_contacts(void **state) {
  (void)state;
  on_every_model(check_same_contacts);
}
static void test_jacobian_rows(void **state) {
  (void)state;
  on_every_model(check_jacobian_rows);
  on_every_model(check_jacobian_paths);
  assert_true(compared > 500);
}
static void test_second(void **state) {
  (void)state;
  memset(second_count, 0, sizeof second_count);
  on_every_model(check_second);
  print_message("%d second derivatives compared, %d refused, %d beside kinks\n", second_count[second_equal],
                second_count[second_refused], second_count[second_unclear]);
  assert_true(second_count[second_equal] > 1000 && second_count[second_unclear] < 20);
}
static void test_same_bits(void **state) {
  (void)state;
  on_every_model(check_same_bits);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dot_products),  cmocka_unit_test(test_fields),        cmocka_unit_test(test_far_contacts),
      cmocka_unit_test(test_same_contacts), cmocka_unit_test(test_jacobian_rows), cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_second),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
