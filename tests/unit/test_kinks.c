// Gradients by parameters that lie where the motion bends: at a bound of their domain (losses, weights and coefficients of zero)
// the slope into it, at a tie of two values the even share; each against differences of the motion itself.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/one_context.h"
#include "support/support.h"

enum { steps = 4 };
typedef enum Side { inward, both } Side;  // difference into the domain, or central

typedef struct Case {
  const char *what, *model, *method;
  const char *field;
  int entry;
  Side side;
} Case;

// A rollout and a random functional of its states and sensors.
typedef struct Run {
  pbModel *model;
  pbRollout *rollout;
  size_t nx, n, nv, ns, np;
  double *x0, *x0_bar, *states, *sensors, *bar, *theta, *theta_bar, *way, *tangent, *seen, *memory;
} Run;

static double *take(double **next, size_t count) {
  double *piece = *next;
  *next += count;
  return piece;
}

static void make_room(Run *r) {
  size_t rows = steps + 1;
  r->nx = (size_t)pbModel_StateSize(r->model);
  r->n = (size_t)pbModel_TangentSize(r->model);
  r->nv = (size_t)pbModel_Size(r->model, "nv");
  r->ns = (size_t)pbModel_Size(r->model, "nsensordata");
  r->np = pbModel_ParamSize(r->model);
  double *next = r->memory = calloc(r->nx + r->n + rows * (r->nx + 2 * r->n + 3 * r->ns) + 3 * r->np, sizeof(double));
  r->x0 = take(&next, r->nx);
  r->x0_bar = take(&next, r->n);
  r->states = take(&next, rows * r->nx);
  r->sensors = take(&next, rows * r->ns);
  r->bar = take(&next, rows * (r->n + r->ns));
  r->tangent = take(&next, rows * r->n);
  r->seen = take(&next, rows * r->ns);
  r->theta = take(&next, r->np);
  r->theta_bar = take(&next, r->np);
  r->way = take(&next, r->np);
}

static Run begin(const char *text, const char *method) {
  Run r = {0};
  unsigned seed = 7;
  pbRolloutPlan plan;
  r.model = model_of_text(ctx, text);
  good(ctx, pbModel_SetContact(r.model, "method", method));
  if (strcmp(method, "cones") == 0) good(ctx, pbModel_SetContact(r.model, "restitution", "0.5"));
  make_room(&r);
  good(ctx, pbRollout_Plan(ctx, r.model, steps, 0, &plan));
  good(ctx, pbRollout_Create(ctx, r.model, &plan, NULL, &r.rollout));
  memcpy(r.theta, pbModel_DefaultParams(r.model), r.np * sizeof(double));
  good(ctx, pbState_Init(ctx, r.model, r.theta, -1, r.x0));
  double *way = calloc(r.n, sizeof(double));
  for (size_t i = 0; i < r.nv; i++) way[r.nv + i] = noise(&seed);
  pbState_Move(r.model, r.x0, way, 0.7);
  free(way);
  for (size_t i = 0; i < (steps + 1) * (r.n + r.ns); i++) r.bar[i] = noise(&seed);
  return r;
}

static void end(Run *r) {
  pbRollout_Destroy(r->rollout);
  pbModel_Destroy(r->model);
  free(r->memory);
}

static void forward(Run *r) {
  good(ctx,
       pbRollout_Forward(r->rollout, r->theta, r->x0, NULL, &(pbRolloutOutput){.states = r->states, .sensordata = r->sensors}));
}

// The functional of a trajectory less that of another.
static double change(const Run *r, const double *states, const double *sensors) {
  double sum = 0, *d = calloc(r->n, sizeof(double));
  const double *w = r->bar, *s = r->bar + (steps + 1) * r->n;
  for (size_t k = 0; k <= steps; k++) {
    pbState_Difference(r->model, states + k * r->nx, r->states + k * r->nx, d);
    for (size_t i = 0; i < r->n; i++) sum += w[k * r->n + i] * d[i];
  }
  for (size_t i = 0; i < (steps + 1) * r->ns; i++) sum += s[i] * (r->sensors[i] - sensors[i]);
  free(d);
  return sum;
}

// Gradient by theta and the start.
static void reverse(Run *r) {
  size_t rows = steps + 1;
  double *split = calloc(rows * r->n, sizeof(double));  // qpos, qvel, act: each its own array
  size_t na = r->n - 2 * r->nv;
  for (size_t k = 0; k < rows; k++) {
    memcpy(split + k * r->nv, r->bar + k * r->n, r->nv * sizeof(double));
    memcpy(split + (rows + k) * r->nv, r->bar + k * r->n + r->nv, r->nv * sizeof(double));
    memcpy(split + 2 * rows * r->nv + k * na, r->bar + k * r->n + 2 * r->nv, na * sizeof(double));
  }
  pbRolloutBar bar = {.qpos = {.data = split, .count = steps + 1},
                      .qvel = {.data = split + rows * r->nv, .count = steps + 1},
                      .act = {.data = na ? split + 2 * rows * r->nv : NULL, .count = steps + 1},
                      .sensordata = {.data = r->ns ? r->bar + rows * r->n : NULL, .count = steps + 1}};
  memset(r->theta_bar, 0, r->np * sizeof(double));
  memset(r->x0_bar, 0, r->n * sizeof(double));
  good(ctx, pbRollout_Vjp(r->rollout, &bar, NULL, &(pbRolloutGradient){.x0 = r->x0_bar, .theta = r->theta_bar}, NULL));
  free(split);
}

static double push(Run *r, const pbRolloutDirection *direction) {
  double sum = 0;
  pbRolloutTangent out = {.x = r->tangent, .sensordata = r->ns ? r->seen : NULL};
  good(ctx, pbRollout_Jvp(r->rollout, 1, direction, &out));
  for (size_t i = 0; i < (steps + 1) * r->n; i++) sum += r->bar[i] * r->tangent[i];
  for (size_t i = 0; i < (steps + 1) * r->ns; i++) sum += r->bar[(steps + 1) * r->n + i] * r->seen[i];
  return sum;
}

// Derivative on one side as a difference quotient of third order: the functional at 1, 2 and 3 h, less that at 0.
static double one_sided(Run *r, size_t entry, double h, const double *states, const double *sensors) {
  static const double weight[3] = {3, -1.5, 1. / 3};
  double value = r->theta[entry], sum = 0;
  for (int i = 0; i < 3; i++) {
    r->theta[entry] = value + (i + 1) * h;
    forward(r);
    sum += weight[i] * change(r, states, sensors);
  }
  r->theta[entry] = value;
  return sum / h;
}

// Derivative into the domain, or the mean of both sides.
static double difference(Run *r, size_t entry, Side side) {
  double value = r->theta[entry], h = fmax(2e-5 * fabs(value), 1e-6);
  size_t rows = steps + 1;
  double *states = malloc(rows * (r->nx + r->ns) * sizeof(double)), *sensors = states + rows * r->nx;
  forward(r);
  memcpy(states, r->states, rows * r->nx * sizeof(double));
  if (r->ns) memcpy(sensors, r->sensors, rows * r->ns * sizeof(double));
  double slope = one_sided(r, entry, h, states, sensors);
  if (side == both) slope = 0.5 * (slope + one_sided(r, entry, -h, states, sensors));
  forward(r);
  free(states);
  return slope;
}

static void check(const Case *c) {
  Run r = begin(c->model, c->method);
  pbParam p;
  good(ctx, pbModel_Param(ctx, r.model, c->field, &p));
  size_t entry = p.offset + (size_t)c->entry;
  double wanted = difference(&r, entry, c->side);
  r.way[entry] = 1;
  double ahead = push(&r, &(pbRolloutDirection){.theta = r.way});
  reverse(&r);
  double back = r.theta_bar[entry];
  if (!(fabs(back - wanted) <= 5e-5 * fabs(wanted) + 1e-8) || !(fabs(ahead - back) <= 1e-10 * fabs(back) + 1e-14))
    fail_msg("%s, %s[%d]: reverse %.9g, forward %.9g, difference %.9g", c->what, c->field, c->entry, back, ahead, wanted);
  end(&r);
}

#define ARM(options, worldbody, rest)                                                                                    \
  "<mujoco><option timestep='.002' " options                                                                             \
  "/><worldbody><body pos='0 0 1'><joint name='a' axis='0 1 0' damping='.1'/>"                                           \
  "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'><joint name='b' axis='0 1 0'/>"             \
  "<geom type='capsule' size='.03' fromto='0 0 0 .2 0 .1'/><site name='e' pos='.1 0 .03'/></body></body>" worldbody      \
  "<site name='w' pos='.1 0 1.4'/></worldbody><tendon><spatial name='t' stiffness='20'><site site='w'/><site site='e'/>" \
  "</spatial><fixed name='f'><joint joint='a' coef='1'/><joint joint='b' coef='.5'/></fixed></tendon>" rest "</mujoco>"
#define SENSORS "<sensor><force site='e'/><clock/></sensor>"
#define BALL(options, ball, floor)                                                                              \
  "<mujoco><option timestep='.002' " options                                                                    \
  "/><default><geom friction='.4 .01 .001'/></default><worldbody>"                                              \
  "<geom type='plane' size='9 9 1' " floor "/><body pos='0 0 .0995'><freejoint/><geom size='.1' mass='1' " ball \
  "/></body>"                                                                                                   \
  "</worldbody></mujoco>"
#define DIRECT "solref='-5000 -40'"

static void losses(void **state) {
  static const char euler[] = ARM("", "", SENSORS), fast[] = ARM("integrator='implicitfast'", "", SENSORS),
                    rk4[] = ARM("integrator='RK4'", "", SENSORS), ball[] = BALL("cone='elliptic'", "", "");
  static const char limited[] =
      ARM("", "<body pos='1 0 1'><joint type='slide' range='-.1 0' limited='true'/><geom size='.1'/></body>", SENSORS);
  const Case cases[] = {
      {"a hinge", euler, "soft", "dof_frictionloss", 0, inward},
      {"a hinge", fast, "soft", "dof_frictionloss", 1, inward},
      {"a hinge", rk4, "soft", "dof_frictionloss", 0, inward},
      {"a tendon under a force sensor", euler, "soft", "tendon_frictionloss", 0, inward},
      {"a tendon", fast, "soft", "tendon_frictionloss", 1, inward},
      {"a tendon", rk4, "soft", "tendon_frictionloss", 1, inward},
      {"a slide at its limit", limited, "soft", "dof_frictionloss", 2, inward},
      {"beside a limit", limited, "cones", "tendon_frictionloss", 0, inward},
      {"a ball on the floor", ball, "soft", "dof_frictionloss", 3, inward},
      {"a ball on the floor", ball, "lcp", "dof_frictionloss", 0, inward},
      {"a ball on the floor", ball, "cones", "dof_frictionloss", 4, inward},
      {"a ball on the floor", ball, "sweeps", "dof_frictionloss", 5, inward},
      {"a ball on the floor", ball, "penalty", "dof_frictionloss", 3, inward},
      {"a ball in the air", ball, "impact", "dof_frictionloss", 2, inward},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases + i);
}

static void ties(void **state) {
  static const char ball[] = BALL("cone='elliptic'", "condim='6'", ""), direct[] = BALL("", DIRECT, DIRECT);
  static const char slow[] = BALL("", "solref='.004 1'", "priority='1' solref='.004 1'");
  static const char bouncing[] = BALL("", "", ""), tendon[] = ARM("", "", SENSORS);
  static const char coin[] =
      "<mujoco><option density='20' viscosity='.5'/><worldbody><body pos='0 0 1'><freejoint/><geom type='ellipsoid' size='.1 .1 "
      ".02' "
      "mass='.1' fluidshape='ellipsoid'/></body></worldbody></mujoco>";
  const Case cases[] = {
      {"sliding friction", ball, "soft", "geom_friction", 0, both},
      {"sliding friction", ball, "cones", "geom_friction", 3, both},
      {"spinning friction", ball, "soft", "geom_friction", 4, both},
      {"rolling friction", ball, "soft", "geom_friction", 2, both},
      {"direct stiffness", direct, "soft", "geom_solref", 0, both},
      {"direct damping", direct, "soft", "geom_solref", 3, both},
      {"a time constant of two steps", slow, "soft", "geom_solref", 0, both},
      {"two steps of a time constant", slow, "soft", "timestep", 0, both},
      {"restitution", bouncing, "cones", "geom_restitution", 0, both},
      {"rest length, lower", tendon, "soft", "tendon_lengthspring", 0, both},
      {"rest length, upper", tendon, "soft", "tendon_lengthspring", 1, both},
      {"equal semiaxes in a fluid", coin, "soft", "geom_size", 0, both},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases + i);
}

static void bounds(void **state) {
  static const char weights[] = BALL("", "solmix='0' solref='.03 1'", "solmix='1'");
  static const char least[] = BALL("cone='elliptic'", "condim='6' priority='1' friction='.4 1e-5 1e-5'", "");
  static const char straight[] = BALL("", "solimp='.9 .95 .01 .03 1' priority='1'", "");
  static const char floating[] =
      "<mujoco><option gravity='0 0 0'/><worldbody><body gravcomp='.5'><joint type='slide' axis='0 0 1'/>"
      "<geom size='.1' mass='2'/></body></worldbody></mujoco>";
  static const char fins[] =
      "<mujoco><option density='20' viscosity='.5' gravity='0 0 -1'/><worldbody><body pos='0 0 1'><freejoint/><geom "
      "type='ellipsoid' size='.1 .08 .02' mass='.1' fluidshape='ellipsoid'/><geom type='box' size='.1 .02 .05' pos='.1 0 0' "
      "mass='.1'/>"
      "</body></worldbody></mujoco>";
  static const char glued[] =
      "<mujoco><worldbody><body name='p' pos='0 0 1'><freejoint/><geom type='box' size='.1 .05 .02' mass='1'/></body><body "
      "name='q' "
      "pos='.3 0 1'><joint type='ball' pos='.1 0 0'/><geom type='box' size='.1 .05 .02' mass='1'/></body></worldbody><equality>"
      "<weld body1='p' body2='q' torquescale='0'/></equality></mujoco>";
  static const char timed[] = ARM("", "", SENSORS);
  const Case cases[] = {
      {"a weight of zero", weights, "soft", "geom_solmix", 1, inward},
      {"the least spinning friction", least, "soft", "geom_friction", 4, inward},
      {"the least rolling friction", least, "cones", "geom_friction", 5, inward},
      {"power one of an impedance", straight, "soft", "geom_solimp", 9, inward},
      {"gravity zero, compensated in part", floating, "soft", "gravity", 2, both},
      {"no interaction with the fluid", fins, "soft", "geom_fluid", 12, inward},
      {"a weld without torque", glued, "soft", "eq_data", 10, both},
      {"the clock by the time step", timed, "soft", "timestep", 0, both},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(cases + i);
}

// ---- contacts where features meet ---------------------------------------------------------------------------------------
// By the start along direction i: forward, reverse, and where the motion is smooth there its difference.
static void check_start(const char *what, Run *r, size_t i, bool smooth) {
  double *way = calloc(r->n, sizeof(double)), *x = calloc(r->nx, sizeof(double)), wanted = 0, h = 1e-5;
  double *states = malloc((steps + 1) * r->nx * sizeof(double));
  way[i] = 1;
  double ahead = push(r, &(pbRolloutDirection){.x0 = way}), back = r->x0_bar[i];
  memcpy(x, r->x0, r->nx * sizeof(double));
  memcpy(states, r->states, (steps + 1) * r->nx * sizeof(double));
  for (int side = -1; smooth && side <= 1; side += 2) {
    memcpy(r->x0, x, r->nx * sizeof(double));
    pbState_Move(r->model, r->x0, way, side * h);
    forward(r);
    wanted += side * change(r, states, NULL) / (2 * h);
  }
  memcpy(r->x0, x, r->nx * sizeof(double));
  forward(r);
  if (!(fabs(ahead - back) <= 1e-10 * fabs(back) + 1e-12) || (smooth && !(fabs(wanted - back) <= 1e-5 * fabs(wanted) + 1e-7)))
    fail_msg("%s, direction %zu: reverse %.9g, forward %.9g, difference %.9g", what, i, back, ahead, wanted);
  free(way);
  free(x);
  free(states);
}

#define PAIR(first, place, second)                                                                          \
  "<mujoco><default><geom friction='.5'/></default><worldbody>" first "<body " place "><freejoint/>" second \
  "</body></worldbody></mujoco>"

static void features(void **state) {
  (void)state;
  const struct {
    const char *what, *model;
    bool smooth;
  } cases[] = {
      {"a ball's centre on a face", PAIR("<geom type='box' size='.3 .3 .1'/>", "pos='.05 .02 .1'", "<geom size='.05'/>"), true},
      {"a ball's centre on another face", PAIR("<geom type='box' size='.3 .3 .1'/>", "pos='-.3 .02 .03'", "<geom size='.05'/>"),
       true},
      {"a capsule's end on a face",
       PAIR("<geom type='box' size='.3 .3 .1'/>", "pos='.05 .02 .2'", "<geom type='capsule' size='.05 .1'/>"), true},
      {"balls with one centre", PAIR("<geom size='.1'/>", "pos='0 0 0'", "<geom size='.05'/>"), false},
      {"a centre on a capsule's axis", PAIR("<geom type='capsule' size='.1 .3'/>", "pos='0 0 .1'", "<geom size='.05'/>"), false},
      {"a centre on a cylinder's axis, turned",
       PAIR("<geom type='cylinder' size='.1 .3' euler='20 30 0'/>", "pos='0 0 0' euler='20 30 0'", "<geom size='.05'/>"), false},
      {"capsules on one axis",
       PAIR("<geom type='capsule' size='.1 .3'/>", "pos='0 0 .1'", "<geom type='capsule' size='.05 .2'/>"), false},
      {"balls with one centre that both turn",
       "<mujoco><worldbody><body pos='0 0 1' euler='10 20 30'><freejoint/><geom size='.1'/></body><body pos='0 0 1' "
       "euler='10 20 30'><freejoint/><geom size='.05'/></body></worldbody></mujoco>",
       false},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    Run r = begin(cases[c].model, "soft");
    forward(&r);
    reverse(&r);
    for (size_t i = 0; i < r.n; i++) check_start(cases[c].what, &r, i, cases[c].smooth);
    end(&r);
  }
}

// ---- forces that have the value of their limit ---------------------------------------------------------------------------
// A motor that is off, its force at the end of its range, its joint's or its tendon's: the slope by the control is that within.
static void limits_of_forces(void **state) {
  static const char *const motors[] = {"<motor joint='b' forcerange='0 10' forcelimited='true'/>", "<motor joint='a'/>",
                                       "<motor tendon='t'/>", "<motor joint='b' ctrlrange='0 1' ctrllimited='true'/>"};
  (void)state;
  for (size_t i = 0; i < sizeof motors / sizeof *motors; i++) {
    char text[2000];
    snprintf(
        text, sizeof text,
        "<mujoco><worldbody><body pos='0 0 1'><joint name='a' axis='0 1 0' actuatorfrcrange='0 5' actuatorfrclimited='true'/>"
        "<geom type='capsule' size='.03' fromto='0 0 0 .3 0 0'/><body pos='.3 0 0'><joint name='b' axis='0 1 0' damping='.1'/>"
        "<geom type='capsule' size='.03' fromto='0 0 0 .2 0 .1'/><site name='e' pos='.1 0 .03'/></body></body><site name='w' "
        "pos='.1 0 1.4'/></worldbody><tendon><spatial name='t' actuatorfrcrange='0 5' actuatorfrclimited='true'><site site='w'/>"
        "<site site='e'/></spatial></tendon><actuator>%s</actuator></mujoco>",
        motors[i]);
    Run r = begin(text, "soft");
    double control = 0, bar = 0, unit = 1, ahead = 0, h = 1e-4, *w = calloc(r.n, sizeof(double)),
           *x = calloc(2 * r.nx, sizeof(double));
    pbRolloutInput input = {.ctrl = &control, .constant = true};
    for (size_t k = 0; k < r.n; k++) w[k] = r.bar[k];
    good(ctx, pbRollout_Forward(r.rollout, r.theta, r.x0, &input, &(pbRolloutOutput){.final_state = x}));
    pbRolloutBar end_bar = {.qpos = {.data = w, .count = 1}, .qvel = {.data = w + r.nv, .count = 1}};
    good(ctx, pbRollout_Vjp(r.rollout, &end_bar, NULL, &(pbRolloutGradient){.ctrl = &bar}, NULL));
    good(ctx, pbRollout_Jvp(r.rollout, 1, &(pbRolloutDirection){.ctrl = &unit}, &(pbRolloutTangent){.x = r.tangent}));
    for (size_t k = 0; k < r.n; k++) ahead += w[k] * r.tangent[steps * r.n + k];
    control = h;
    good(ctx, pbRollout_Forward(r.rollout, r.theta, r.x0, &input, &(pbRolloutOutput){.final_state = x + r.nx}));
    double wanted = 0, *d = calloc(r.n, sizeof(double));
    pbState_Difference(r.model, x, x + r.nx, d);
    for (size_t k = 0; k < r.n; k++) wanted += w[k] * d[k] / h;
    if (!(fabs(bar - wanted) <= 1e-4 * fabs(wanted)) || !(fabs(ahead - bar) <= 1e-10 * fabs(bar)) || wanted == 0)
      fail_msg("%s: reverse %.9g, forward %.9g, difference %.9g", motors[i], bar, ahead, wanted);
    free(w);
    free(x);
    free(d);
    end(&r);
  }
}

// Weights that hang still on their springs: to rounding they have accelerations, but no loss would move any of them.
static void losses_at_rest(void **state) {
  (void)state;
  static const char *const text =
      "<mujoco><worldbody>"
      "<body pos='0 0 0'><joint type='slide' axis='0 0 1' stiffness='7.7'/><geom size='.1' mass='1.3'/></body>"
      "<body pos='1 0 0'><joint type='slide' axis='0 0 1' stiffness='3.1'/><geom size='.1' mass='0.7'/></body>"
      "<body pos='2 0 0'><joint type='slide' axis='0 0 1' stiffness='11.3'/><geom size='.1' mass='2.9'/></body>"
      "<body pos='3 0 0'><joint type='slide' axis='0.6 0 0.8' stiffness='5.9'/><geom size='.1' mass='0.37'/></body>"
      "</worldbody></mujoco>";
  static const double mass[4] = {1.3, 0.7, 2.9, 0.37}, stiffness[4] = {7.7, 3.1, 11.3, 5.9}, down[4] = {1, 1, 1, 0.8};
  Run r = {0};
  pbScratch *scratch;
  pbParam loss;
  r.model = model_of_text(ctx, text);
  make_room(&r);
  memcpy(r.theta, pbModel_DefaultParams(r.model), r.np * sizeof(double));
  good(ctx, pbState_Init(ctx, r.model, r.theta, -1, r.x0));
  for (int i = 0; i < 4; i++) r.x0[1 + i] = -9.81 * down[i] * mass[i] / stiffness[i];
  double *record = calloc((size_t)pbTape_Size(r.model), sizeof(double)), *x = calloc(r.nx, sizeof(double)), next[8] = {0};
  for (int i = 0; i < 4; i++) next[4 + i] = 1;
  memcpy(x, r.x0, r.nx * sizeof(double));
  good(ctx, pbScratch_Create(ctx, r.model, NULL, &scratch));
  good(ctx, pbStep_Forward(r.model, r.theta, x, NULL, scratch, NULL));
  pbTape_Record(r.model, r.x0, scratch, record);
  good(ctx, pbStep_Vjp(r.model, r.theta, record, NULL, next, NULL, scratch, r.x0_bar, NULL, r.theta_bar));
  good(ctx, pbModel_Param(ctx, r.model, "dof_frictionloss", &loss));
  for (int i = 0; i < 4; i++)
    if (r.theta_bar[loss.offset + (size_t)i] != 0) fail_msg("weight %d: %g", i, r.theta_bar[loss.offset + (size_t)i]);
  pbScratch_Destroy(scratch);
  free(record);
  free(x);
  end(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(losses),   cmocka_unit_test(losses_at_rest),
                                     cmocka_unit_test(ties),     cmocka_unit_test(bounds),
                                     cmocka_unit_test(features), cmocka_unit_test(limits_of_forces)};
  return cmocka_run_group_tests(tests, open_context, close_context);
}
