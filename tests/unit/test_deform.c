// Deformables in the world's step: schemes against closed forms, pullback against forward derivative and difference quotients,
// the same bits for every memory budget, errors that name the element.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/deform.h>
#include <pullback/io.h>
#include <pullback/rollout.h>
#include <pullback/spec.h>

#include "mutation.h"
#include "support/support.h"

#define OK(call)                                                  \
  do {                                                            \
    if ((call) != pb_ok) fail_msg("%s", pbContext_Error(w->ctx)); \
  } while (0)

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  pbDeformable *d;
} World;

static World *world(double h, double gravity) {
  World *w = calloc(1, sizeof *w);
  pbSpec *spec;
  w->ctx = pbContext_Create(NULL);
  OK(pbSpec_Create(w->ctx, &spec));
  spec->option.timestep = h;
  spec->option.gravity[2] = gravity;
  OK(pbSpec_Compile(spec, &w->model));
  pbSpec_Destroy(spec);
  OK(pbDeformable_Create(w->ctx, &w->d));
  return w;
}

static void done(World *w) {
  pbDeformable_Destroy(w->d);
  pbModel_Destroy(w->model);
  pbContext_Destroy(w->ctx);
  free(w);
}

// ---- energies of the tests ------------------------------------------------------------------------------------------
static const pbEnergyParameter spring_parameters[] = {{.name = "k", .unit = "N/m", .rows = 1, .cols = 1, .upper = INFINITY},
                                                      {.name = "l0", .unit = "m", .rows = 1, .cols = 1, .upper = INFINITY}};
static const pbEnergyDef spring = {"spring", "l = sqrt(dot(x0 - x1, x0 - x1) + 1e-6); 0.5*k*(l - l0)^2", 2, 2, spring_parameters};
static const pbEnergyDef quartic = {"quartic", "l2 = dot(x0 - x1, x0 - x1); 0.5*k*(l2 - l0^2)^2", 2, 2, spring_parameters};
static const pbEnergyParameter anchor_parameters[] = {{.name = "k", .rows = 1, .cols = 1}, {.name = "at", .rows = 3, .cols = 1}};
static const pbEnergyDef anchor = {"anchor", "0.5*k*dot(x0 - at, x0 - at)", 1, 2, anchor_parameters};
static const pbEnergyDef drag = {"drag", "0.5*k/h*dot(x0 - y0, x0 - y0) + 0*dot(at, at)*t", 1, 2, anchor_parameters};
static const pbEnergyParameter solid_parameters[] = {{.name = "mu", .rows = 1, .cols = 1, .upper = INFINITY},
                                                     {.name = "lambda", .rows = 1, .cols = 1, .upper = INFINITY}};
static const pbEnergyDef solid = {"solid",
                                  "D = [X1 - X0, X2 - X0, X3 - X0]; F = [x1 - x0, x2 - x0, x3 - x0]*inverse(D); J = det(F);"
                                  "det(D)/6*(0.5*mu*(trace(transpose(F)*F) - 3 - 2*log(J)) + 0.5*lambda*log(J)^2)",
                                  4, 2, solid_parameters};
static const pbEnergyParameter density_parameters[] = {
    {.name = "rho", .unit = "kg/m^3", .rows = 1, .cols = 1, .upper = INFINITY}};
static const pbEnergyDef mass = {"mass", "V = det([X1 - X0, X2 - X0, X3 - X0])/6; rho*V", 4, 1, density_parameters};

static void set(World *w, int group, const char *name, double value) {
  OK(pbDeformable_SetParameter(w->d, group, name, 1, &value));
}

static void options(World *w, pbScheme scheme) { OK(pbDeformable_SetOptions(w->d, &(pbDeformOptions){.scheme = scheme})); }

// ---- one oscillator: factors of a step in closed form -----------------------------------------------------------------
static void oscillate(pbScheme scheme, double h, int steps, double *x, double *v) {
  World *w = world(h, 0);
  const double rest[3] = {1, 0, 0}, m = 2, zero[3] = {0};
  int group;
  OK(pbDeformable_AddPoints(w->d, 1, rest, &m, NULL, NULL, NULL));
  OK(pbDeformable_AddEnergy(w->d, "anchor", &anchor, 1, (int[]){0}, &group));
  set(w, group, "k", 50);
  OK(pbDeformable_SetParameter(w->d, group, "at", 1, zero));
  options(w, scheme);
  OK(pbModel_SetDeformable(w->model, w->d));
  pbScratch *s;
  OK(pbScratch_Create(w->ctx, w->model, NULL, &s));
  double state[32];
  OK(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, state));
  int at = pbModel_StateFieldAt(w->model, 5).offset;
  assert_string_equal(pbModel_StateFieldAt(w->model, 5).name, "points");
  for (int k = 0; k < steps; k++)
    if (pbStep_Forward(w->model, pbModel_DefaultParams(w->model), state, NULL, s, NULL) != pb_ok)
      fail_msg("%s", pbScratch_Error(s));
  *x = state[at];
  *v = state[at + 3];
  pbScratch_Destroy(s);
  done(w);
}

// omega = 5: implicit Euler shrinks the amplitude by (1 + omega^2 h^2)^-1/2 a step; the trapezoid turns the phase by
// 2 atan(omega h / 2) and keeps it; AVF4 keeps it too.
static void test_oscillator(void **state) {
  (void)state;
  double h = 0.02, x, v, w = 5;
  int n = 100;
  oscillate(pb_schemeImplicitEuler, h, n, &x, &v);
  assert_true(fabs(sqrt(x * x + v * v / (w * w)) - pow(1 + w * w * h * h, -0.5 * n)) < 1e-12);
  oscillate(pb_schemeTrapezoid, h, n, &x, &v);
  double turn = 2 * atan(w * h / 2);
  assert_true(fabs(x - cos(n * turn)) < 1e-11 && fabs(v + w * sin(n * turn)) < 1e-10);
  oscillate(pb_schemeAvf4, h, n, &x, &v);
  assert_true(fabs(x * x + v * v / (w * w) - 1) < 1e-11);
  oscillate(pb_schemeSymplecticEuler, h, 1, &x, &v);
  assert_true(fabs(v + w * w * h) < 1e-13 && fabs(x - (1 - w * w * h * h)) < 1e-13);
  oscillate(pb_schemeStatic, h, 1, &x, &v);
  assert_true(fabs(x) < 1e-13 && v == 0);
}

// Orders of the state at t = 0.5 under refinement.
static void test_order(void **state) {
  (void)state;
  const struct {
    pbScheme scheme;
    double order;
  } all[] = {{pb_schemeImplicitEuler, 1},
             {pb_schemeBdf2, 2},
             {pb_schemeTrapezoid, 2},
             {pb_schemeAvf4, 2},
             {pb_schemeSymplecticEuler, 1}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    double x, v, error[2];
    for (int k = 0; k < 2; k++) {
      oscillate(all[i].scheme, 0.0025 / (1 << k), 200 << k, &x, &v);
      error[k] = hypot(x - cos(2.5), (v + 5 * sin(2.5)) / 5);
    }
    double order = log2(error[0] / error[1]);
    if (fabs(order - all[i].order) > 0.1) fail_msg("%s: order %g", pbScheme_Name(all[i].scheme), order);
  }
}

// ---- a scene with everything: a block of two layers of tetrahedra, springs, an anchor that follows controls, drag ----------
static World *block(pbScheme scheme) {
  World *w = world(0.01, -9.81);
  double rest[27 * 3];
  int cell[40][4], count = 0, group;
  for (int i = 0; i < 18; i++) {
    rest[3 * i] = 0.1 * (i % 3);
    rest[3 * i + 1] = 0.1 * (i / 3 % 3);
    rest[3 * i + 2] = 0.1 * (i / 9);
  }
  unsigned seed = 5;
  for (int i = 0; i < 54; i++) rest[i] += 0.01 * noise(&seed);
  static const int tet[6][4] = {{0, 1, 4, 13}, {0, 4, 3, 13}, {0, 10, 1, 13}, {0, 9, 10, 13}, {0, 3, 12, 13}, {0, 12, 9, 13}};
  for (int c = 0; c < 4; c++) {
    for (int t = 0; t < 6; t++, count++) {
      for (int k = 0; k < 4; k++) cell[count][k] = tet[t][k] + c % 2 + 3 * (c / 2);
    }
  }
  double start[54], velocity[54], mu[24];
  for (int i = 0; i < 54; i++) {
    start[i] = rest[i] + 0.01 * noise(&seed);
    velocity[i] = 0.3 * noise(&seed);
  }
  for (int i = 0; i < 24; i++) mu[i] = 2e4 * (1 + 0.3 * noise(&seed));
  OK(pbDeformable_AddPoints(w->d, 18, rest, NULL, start, velocity, NULL));
  OK(pbDeformable_AddEnergy(w->d, "flesh", &solid, count, cell[0], &group));
  OK(pbDeformable_SetParameter(w->d, group, "mu", count, mu));
  set(w, group, "lambda", 5e4);
  OK(pbDeformable_AddMass(w->d, "weight", &mass, count, cell[0], &group));
  set(w, group, "rho", 1000);
  OK(pbDeformable_AddEnergy(w->d, "springs", &spring, 2, (int[]){0, 17, 2, 15}, &group));
  set(w, group, "k", 300);
  set(w, group, "l0", 0.2);
  OK(pbDeformable_AddEnergy(w->d, "pull", &anchor, 1, (int[]){16}, &group));
  set(w, group, "k", 200);
  OK(pbDeformable_SetParameter(w->d, group, "at", 1, (double[]){0.3, 0.1, 0.3}));
  OK(pbDeformable_Control(w->d, group, "at"));
  OK(pbDeformable_AddEnergy(w->d, "drag", &drag, 2, (int[]){16, 17}, &group));
  set(w, group, "k", 3);
  OK(pbDeformable_SetParameter(w->d, group, "at", 1, (double[]){0, 0, 0}));
  OK(pbDeformable_Fix(w->d, 2, (int[]){0, 1}, pb_fixAll));
  OK(pbDeformable_Fix(w->d, 1, (int[]){2}, pb_fixY | pb_fixZ));
  options(w, scheme);
  OK(pbModel_SetDeformable(w->model, w->d));
  return w;
}

// ---- a block and a sheet that land ------------------------------------------------------------------------------------
// Points: first the block's, a grid of 3 x 3 x 2 (x runs fastest), then the sheet's, 5 x 3.
enum { block_wide = 3, block_points = block_wide * 3 * 2, sheet_wide = 5, sheet_points = sheet_wide * 3 };
enum { landing_points = block_points + sheet_points };
// Cells: the block's 2 x 2 boxes of six tetrahedra each, the sheet's 4 x 2 squares of two triangles each. Each square has three
// springs: to the right, up, and across.
enum { box_tets = 6, block_tets = 4 * box_tets };
enum { sheet_squares = 8, sheet_triangles = 2 * sheet_squares, sheet_springs = 3 * sheet_squares };

typedef struct Landing {
  double rest[landing_points][3], start[landing_points][3], velocity[landing_points][3], masses[landing_points];
  int tet[block_tets][4], skin[4 * block_tets][3], skin_count;  // skin: faces of the block that belong to one tetrahedron
  int triangle[sheet_triangles][3], end[sheet_springs][2];      // of the sheet; end: of its springs
} Landing;

static void block_cells(Landing *l) {
  static const int corner[box_tets][4] = {{0, 1, 4, 13},  {0, 4, 3, 13},  {0, 10, 1, 13},
                                          {0, 9, 10, 13}, {0, 3, 12, 13}, {0, 12, 9, 13}};
  for (int c = 0; c < block_tets; c++) {
    int box = c / box_tets, first = box % 2 + block_wide * (box / 2);
    for (int k = 0; k < 4; k++) l->tet[c][k] = first + corner[c % box_tets][k];
  }
}

// How many tetrahedra have all three points.
static int tets_with(const Landing *l, const int point[3]) {
  int with = 0;
  for (int c = 0; c < block_tets; c++) {
    int found = 0;
    for (int k = 0; k < 4; k++) found += l->tet[c][k] == point[0] || l->tet[c][k] == point[1] || l->tet[c][k] == point[2];
    with += found == 3;
  }
  return with;
}

static void block_skin(Landing *l) {
  static const int face[4][3] = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {0, 3, 2}};
  for (int c = 0; c < block_tets; c++) {
    for (int f = 0; f < 4; f++) {
      int *point = l->skin[l->skin_count];
      for (int k = 0; k < 3; k++) point[k] = l->tet[c][face[f][k]];
      l->skin_count += tets_with(l, point) == 1;
    }
  }
}

static void sheet_cells(Landing *l) {
  for (int i = 0; i < sheet_squares; i++) {
    int across = sheet_wide - 1, a = block_points + i % across + sheet_wide * (i / across);
    int right = a + 1, up = a + sheet_wide, beyond = up + 1;
    memcpy(l->triangle[2 * i], (int[]){a, right, beyond}, sizeof l->triangle[0]);
    memcpy(l->triangle[2 * i + 1], (int[]){a, beyond, up}, sizeof l->triangle[0]);
    memcpy(l->end[3 * i], (int[]){a, right}, sizeof l->end[0]);
    memcpy(l->end[3 * i + 1], (int[]){a, up}, sizeof l->end[0]);
    memcpy(l->end[3 * i + 2], (int[]){a, beyond}, sizeof l->end[0]);
  }
}

// The sheet lies just above the block, uneven so that no distances tie; all begin a little off their rest shape and in motion.
static void landing_motion(Landing *l) {
  for (int i = 0; i < block_points; i++) {
    const double x[3] = {0.1 * (i % block_wide), 0.1 * (i / block_wide % 3), 0.1 * (i / (3 * block_wide))};
    memcpy(l->rest[i], x, sizeof x);
  }
  for (int i = 0; i < sheet_points; i++) {
    const double x[3] = {-0.05 + 0.073 * (i % sheet_wide), 0.02 + 0.08 * (i / sheet_wide), 0.106 + 0.0003 * (i % 4)};
    memcpy(l->rest[block_points + i], x, sizeof x);
    l->masses[block_points + i] = 0.01;
  }

  unsigned seed = 3;
  for (int i = 0; i < landing_points; i++) {
    for (int k = 0; k < 3; k++) l->start[i][k] = l->rest[i][k] + (k == 2 ? 0.0005 : 0.002) * noise(&seed);
  }
  for (int i = 0; i < landing_points; i++) {
    bool block = i < block_points;
    l->start[i][2] += 0.0025;
    l->velocity[i][0] = block ? 0.3 : 0.1;
    l->velocity[i][2] = block ? -0.1 : -0.3;
  }
}

static void landing_energies(World *w, const Landing *l) {
  int group;
  OK(pbDeformable_AddEnergy(w->d, "flesh", &solid, block_tets, l->tet[0], &group));
  set(w, group, "mu", 2e4);
  set(w, group, "lambda", 5e4);
  OK(pbDeformable_AddMass(w->d, "weight", &mass, block_tets, l->tet[0], &group));
  set(w, group, "rho", 1000);

  // Springs at rest: their energy's smoothed length.
  double l0[sheet_springs];
  for (int e = 0; e < sheet_springs; e++) {
    double length2 = 1e-6;
    for (int k = 0; k < 3; k++) length2 += pow(l->rest[l->end[e][0]][k] - l->rest[l->end[e][1]][k], 2);
    l0[e] = sqrt(length2);
  }
  OK(pbDeformable_AddEnergy(w->d, "springs", &spring, sheet_springs, l->end[0], &group));
  set(w, group, "k", 100);
  OK(pbDeformable_SetParameter(w->d, group, "l0", sheet_springs, l0));

  // A spring to a place that the controls move, at one of the block's upper points.
  OK(pbDeformable_AddEnergy(w->d, "pull", &anchor, 1, (int[]){16}, &group));
  set(w, group, "k", 2);
  OK(pbDeformable_SetParameter(w->d, group, "at", 1, (double[]){0.3, 0.1, 0.3}));
  OK(pbDeformable_Control(w->d, group, "at"));
}

static void landing_contact(World *w, const Landing *l, pbFrictionKind kind) {
  int block, sheet, plane;
  OK(pbDeformable_AddSurface(w->d, &(pbSurface){.triangles = l->skin_count, .triangle = l->skin[0]}, &block));
  OK(pbDeformable_AddSurface(
      w->d, &(pbSurface){.triangles = sheet_triangles, .triangle = l->triangle[0], .radius = 0.001, .self = true}, &sheet));
  OK(pbDeformable_AddPlane(w->d, NULL, (double[]){0, 0, 0}, (double[]){0.1, 0, 1}, &plane));
  OK(pbDeformable_SetContact(
      w->d, &(pbDeformContact){.distance = 0.003, .stiffness = 500, .friction = 0.4, .velocity = 0.02, .kind = kind}));
  OK(pbDeformable_SetPair(w->d, block, sheet, true, 200, 0.2));
}

// The block on a plane that is tilted by its gravity, and a sheet of triangles (membrane of springs) falling on it.
static World *landing(pbScheme scheme, pbFrictionKind kind) {
  World *w = world(0.01, -9.81);
  Landing l = {.skin_count = 0};
  block_cells(&l);
  block_skin(&l);
  sheet_cells(&l);
  landing_motion(&l);

  OK(pbDeformable_AddPoints(w->d, landing_points, l.rest[0], l.masses, l.start[0], l.velocity[0], NULL));
  landing_energies(w, &l);
  landing_contact(w, &l, kind);
  options(w, scheme);
  OK(pbModel_SetDeformable(w->model, w->d));
  return w;
}

enum { steps = 6 };
typedef struct Run {
  World *w;
  int nx, n, nu, np, nv;
  size_t nt;
  double *x0, *theta, *ctrl, *bar, *states;
} Run;

static Run run_in(World *w) {
  Run r = {.w = w};
  r.np = 3 * pbModel_PointCount(w->model);
  r.nv = pbModel_Size(w->model, "nv");
  r.nx = pbModel_StateSize(w->model);
  r.n = pbModel_TangentSize(w->model);
  r.nu = pbModel_Size(w->model, "nu");
  r.nt = pbModel_ParamSize(w->model);
  r.x0 = calloc((size_t)r.nx, sizeof(double));
  r.theta = calloc(r.nt, sizeof(double));
  r.ctrl = calloc((size_t)(steps * r.nu), sizeof(double));
  r.bar = calloc((size_t)(2 * r.np), sizeof(double));
  r.states = calloc((size_t)((steps + 1) * r.nx), sizeof(double));
  memcpy(r.theta, pbModel_DefaultParams(w->model), r.nt * sizeof(double));
  OK(pbState_Init(w->ctx, w->model, r.theta, -1, r.x0));
  unsigned seed = 9;
  for (int i = 0; i < steps * r.nu; i++) r.ctrl[i] = 0.2 + 0.1 * noise(&seed);
  for (int i = 0; i < 2 * r.np; i++) r.bar[i] = noise(&seed);
  return r;
}

static void run_done(Run *r) {
  free(r->x0);
  free(r->theta);
  free(r->ctrl);
  free(r->bar);
  free(r->states);
  done(r->w);
}

// Loss bar . (points, velocities) of the last state, by a rollout of its own.
static double loss(const Run *r, const double *x0, const double *theta, const double *ctrl) {
  World *w = r->w;
  pbRolloutPlan plan;
  pbRollout *rollout;
  OK(pbRollout_Plan(w->ctx, w->model, steps, 0, &plan));
  OK(pbRollout_Create(w->ctx, w->model, &plan, NULL, &rollout));
  pbRolloutOutput out = {.states = r->states};
  OK(pbRollout_Forward(rollout, theta, x0, &(pbRolloutInput){.ctrl = ctrl}, &out));
  pbRollout_Destroy(rollout);
  const double *last = r->states + steps * r->nx + pbModel_StateFieldAt(w->model, 5).offset,
               *qvel = r->states + steps * r->nx + pbModel_StateFieldAt(w->model, 2).offset;
  double sum = 0;
  for (int i = 0; i < 2 * r->np; i++) sum += r->bar[i] * last[i];
  for (int i = 0; i < r->nv; i++) sum += r->bar[i] * qvel[i];
  return sum;
}

typedef struct Gradient {
  double *x0, *theta, *ctrl;
} Gradient;

static Gradient gradient(const Run *r, size_t budget) {
  World *w = r->w;
  pbRolloutPlan plan;
  pbRollout *rollout;
  Gradient g = {calloc((size_t)r->n, sizeof(double)), calloc(r->nt, sizeof(double)),
                calloc((size_t)(steps * r->nu), sizeof(double))};
  if (budget) OK(pbRollout_PlanSlots(w->ctx, w->model, steps, 1, 1, &plan));
  else OK(pbRollout_Plan(w->ctx, w->model, steps, 0, &plan));
  OK(pbRollout_Create(w->ctx, w->model, &plan, NULL, &rollout));
  OK(pbRollout_Forward(rollout, r->theta, r->x0, &(pbRolloutInput){.ctrl = r->ctrl}, NULL));
  pbRolloutBar bar = {.points = {r->bar, 1, NULL}, .point_velocity = {r->bar + r->np, 1, NULL}, .qvel = {r->bar, 1, NULL}};
  OK(pbRollout_Vjp(rollout, &bar, NULL, &(pbRolloutGradient){.x0 = g.x0, .theta = g.theta, .ctrl = g.ctrl}, NULL));
  pbRollout_Destroy(rollout);
  return g;
}

static void gradient_done(Gradient *g) {
  free(g->x0);
  free(g->theta);
  free(g->ctrl);
}

// Directions: random in everything that is deformable, gravity and time step; scaled to what each entry is.
static void direction(const Run *r, unsigned seed, double *x, double *theta, double *ctrl) {
  World *w = r->w;
  for (int i = 0; i < r->n; i++) x[i] = 0.01 * noise(&seed);
  memset(theta, 0, r->nt * sizeof *theta);
  for (int i = 0; i < pbModel_ParamCount(w->model); i++) {
    pbParam p = pbModel_ParamAt(w->model, i);
    static const char *const kinematic[] = {"body_pos", "body_quat", "jnt_pos", "jnt_axis", "geom_size", "geom_pos", "body_mass"};
    bool of_bodies = false;
    for (int b = 0; b < 7; b++) of_bodies = of_bodies || (!strcmp(p.name, kinematic[b]) && pbModel_Size(w->model, "ngeom") > 0);
    bool ours = of_bodies || !strcmp(p.name, "attach_local") || strchr(p.name, '.') || !strncmp(p.name, "point_", 6) ||
                !strcmp(p.name, "gravity");
    for (size_t k = p.offset; k < p.offset + (size_t)(p.rows * p.cols); k++)
      if (ours)
        theta[k] = noise(&seed) * (!strcmp(p.name, "point_rest")   ? 0.003
                                   : !strcmp(p.name, "point_mass") ? 0.1 * r->theta[k]
                                                                   : 0.1 * fabs(r->theta[k]));
    // axes keep their length
    for (size_t k = p.offset; !strcmp(p.name, "jnt_axis") && k < p.offset + (size_t)(p.rows * p.cols); k++)
      theta[k] = r->theta[k] == 0 ? 0.05 * noise(&seed) : 0;
    if (!strcmp(p.name, "timestep")) theta[p.offset] = 0.1 * r->theta[p.offset];
  }
  for (int i = 0; i < steps * r->nu; i++) ctrl[i] = 0.1 * noise(&seed);
}

static const pbScheme schemes[] = {pb_schemeImplicitEuler,   pb_schemeBdf2,  pb_schemeTrapezoid, pb_schemeAvf4,
                                   pb_schemeSymplecticEuler, pb_schemeStatic};
enum { scheme_count = sizeof schemes / sizeof *schemes };

// Pullback, forward derivative and a difference quotient along one direction of everything.
static void compare(Run r, const char *name, bool contacts, double eps, double tolerance) {
  World *w = r.w;
  Gradient g = gradient(&r, 0), again = gradient(&r, 1);
  assert_memory_equal(g.x0, again.x0, (size_t)r.n * sizeof(double));
  assert_memory_equal(g.theta, again.theta, r.nt * sizeof(double));
  assert_memory_equal(g.ctrl, again.ctrl, (size_t)(steps * r.nu) * sizeof(double));
  double *dx = calloc((size_t)r.n, sizeof(double)), *dt = calloc(r.nt, sizeof(double)),
         *du = calloc((size_t)(steps * r.nu), sizeof(double));
  direction(&r, 77, dx, dt, du);
  double along = dot(g.x0, dx, (size_t)r.n) + dot(g.theta, dt, r.nt) + dot(g.ctrl, du, (size_t)(steps * r.nu));
  pbCertificate c;
  // forward
  pbRolloutPlan plan;
  pbRollout *rollout;
  double *tangent = calloc((size_t)((steps + 1) * r.n), sizeof(double));
  OK(pbRollout_Plan(w->ctx, w->model, steps, 0, &plan));
  OK(pbRollout_Create(w->ctx, w->model, &plan, NULL, &rollout));
  OK(pbRollout_Forward(rollout, r.theta, r.x0, &(pbRolloutInput){.ctrl = r.ctrl}, NULL));
  OK(pbRollout_Jvp(rollout, 1, &(pbRolloutDirection){.x0 = dx, .theta = dt, .ctrl = du}, &(pbRolloutTangent){.x = tangent}));
  OK(pbRollout_Vjp(rollout, &(pbRolloutBar){.points = {r.bar, 1, NULL}}, NULL, &(pbRolloutGradient){0}, &c));
  pbRollout_Destroy(rollout);
  if (contacts && c.most_contacts < 3) fail_msg("%s: only %d contacts", name, c.most_contacts);
  double pushed =
      dot(r.bar, tangent + steps * r.n + 2 * r.nv, (size_t)(2 * r.np)) + dot(r.bar, tangent + steps * r.n + r.nv, (size_t)r.nv);
  if (!(fabs(along - pushed) <= 1e-11 * fabs(pushed))) FAIL("%s: pullback %.15g, forward %.15g", name, along, pushed);
  // difference quotient of fourth order
  double q[4], e[4] = {-2, -1, 1, 2};
  double *x = calloc((size_t)r.nx, sizeof(double)), *theta = calloc(r.nt, sizeof(double)),
         *u = calloc((size_t)(steps * r.nu), sizeof(double));
  for (int k = 0; k < 4; k++) {
    memcpy(x, r.x0, (size_t)r.nx * sizeof(double));
    pbState_Move(w->model, x, dx, eps * e[k]);
    for (size_t j = 0; j < r.nt; j++) theta[j] = r.theta[j] + eps * e[k] * dt[j];
    for (int j = 0; j < steps * r.nu; j++) u[j] = r.ctrl[j] + eps * e[k] * du[j];
    q[k] = loss(&r, x, theta, u);
  }
  double quotient = (q[0] - 8 * q[1] + 8 * q[2] - q[3]) / (12 * eps);
  if (!(fabs(along - quotient) <= tolerance * fabs(quotient)))
    FAIL("%s: pullback %.12g, difference quotient %.12g", name, along, quotient);
  free(x);
  free(theta);
  free(u);
  free(dx);
  free(dt);
  free(du);
  free(tangent);
  gradient_done(&g);
  gradient_done(&again);
  run_done(&r);
}

static void compare_scheme(const void *scheme) {
  pbScheme which = *(const pbScheme *)scheme;
  Run r = run_in(block(which));
  World *w = r.w;
  pbParam h;
  OK(pbModel_Param(w->ctx, w->model, "timestep", &h));
  if (which == pb_schemeSymplecticEuler) r.theta[h.offset] = 1e-3;  // the explicit scheme is stable below 2e-3
  compare(r, pbScheme_Name(which), false, 1e-3, 1e-7);
}

static void test_gradients(void **state) {
  (void)state;
  for (int i = 0; i < scheme_count; i++) compare_scheme(&schemes[i]);
}

static void test_contact_gradients(void **state) {
  (void)state;
  compare(run_in(landing(pb_schemeImplicitEuler, pb_frictionNone)), "barrier", true, 1e-4, 1e-6);
  compare(run_in(landing(pb_schemeBdf2, pb_frictionLagged)), "bdf2, lagged friction", true, 1e-4, 1e-6);
  compare(run_in(landing(pb_schemeImplicitEuler, pb_frictionImplicit)), "implicit friction", true, 1e-4, 1e-6);
  compare(run_in(landing(pb_schemeImplicitEuler, pb_frictionLagged)), "lagged friction", true, 1e-4, 1e-6);
}

// ---- coupled with bodies ----------------------------------------------------------------------------------------------
static const char arm_and_ball[] =
    "<mujoco><option timestep='0.005'/><worldbody><geom name='floor' type='plane' size='5 5 .1' pos='0 0 -2'/>"
    "<body name='arm' pos='0 0 0.3'><joint name='swing' type='hinge' axis='0 1 0' damping='.02'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 .3 0 0' mass='.3'/>"
    "<body name='hand' pos='.3 0 0' quat='.99 .1 0 .1'><joint name='wrist' type='ball' damping='.01'/>"
    "<geom name='palm' type='box' size='.03 .04 .02' pos='.03 0 .01' mass='.2'/></body></body>"
    "<body name='ball' pos='.33 .01 .3925'><freejoint/><geom name='ball' type='sphere' size='.04' mass='.1'/></body></worldbody>"
    "<actuator><motor name='m' joint='swing' gear='.2'/></actuator></mujoco>";

// A net of springs, glued to the hand at two corners, lies on the palm; a ball rests on the net.
static World *held(void) {
  World *w = calloc(1, sizeof *w);
  w->ctx = pbContext_Create(NULL);
  w->model = model_of_text(w->ctx, arm_and_ball);
  OK(pbDeformable_Create(w->ctx, &w->d));
  double rest[75], masses[25], velocity[75] = {0};
  int triangle[32][3], edge[64][2], triangles = 0, edges = 0, group, number, glue;
  unsigned seed = 21;
  for (int i = 0; i < 25; i++) {
    rest[3 * i] = 0.27 + 0.03 * (i % 5);
    rest[3 * i + 1] = -0.06 + 0.03 * (i / 5);
    rest[3 * i + 2] = 0.347 + 0.0005 * noise(&seed);
    masses[i] = 0.002;
  }
  for (int i = 0; i < 16; i++) {
    int a = i % 4 + 5 * (i / 4);
    memcpy(triangle[triangles++], (int[]){a, a + 1, a + 6}, sizeof triangle[0]);
    memcpy(triangle[triangles++], (int[]){a, a + 6, a + 5}, sizeof triangle[0]);
    memcpy(edge[edges++], (int[]){a, a + 1}, sizeof edge[0]);
    memcpy(edge[edges++], (int[]){a, a + 5}, sizeof edge[0]);
    memcpy(edge[edges++], (int[]){a, a + 6}, sizeof edge[0]);
  }
  velocity[3 * 4] = 0.1;
  velocity[3 * 4 + 2] = 0.2;  // a corner that is led
  OK(pbDeformable_AddPoints(w->d, 25, rest, masses, NULL, velocity, NULL));
  OK(pbDeformable_Fix(w->d, 1, (int[]){4}, pb_fixAll));
  OK(pbDeformable_AddEnergy(w->d, "net", &spring, edges, edge[0], &group));
  double l0[64];
  for (int e = 0; e < edges; e++) l0[e] = e % 3 == 2 ? 0.0424 : 0.03;
  set(w, group, "k", 40);
  OK(pbDeformable_SetParameter(w->d, group, "l0", edges, l0));
  OK(pbDeformable_Attach(w->d, "hand", 2, (double[]){-0.03, -0.06, 0.06, -0.03, 0.06, 0.06}, &glue));
  OK(pbDeformable_AddEnergy(w->d, "glue", &spring, 2, (int[]){0, glue, 20, glue + 1}, &group));
  set(w, group, "k", 60);
  set(w, group, "l0", 0.01);
  OK(pbDeformable_AddSurface(w->d, &(pbSurface){.triangles = triangles, .triangle = triangle[0], .radius = 0.001, .self = true},
                             &number));
  OK(pbDeformable_AttachGeom(w->d, w->model, "palm", &number));
  OK(pbDeformable_AttachGeom(w->d, w->model, "ball", &number));
  OK(pbDeformable_SetPair(w->d, 1, 2, false, -1, -1));
  OK(pbDeformable_SetContact(
      w->d,
      &(pbDeformContact){.distance = 0.006, .stiffness = 100, .friction = 0.3, .velocity = 0.02, .kind = pb_frictionLagged}));
  options(w, pb_schemeImplicitEuler);
  OK(pbModel_SetDeformable(w->model, w->d));
  return w;
}

// A ball and a point, pulled together by a spring: what it does to the one it does to the other the other way round.
static void test_momentum(void **state) {
  (void)state;
  static const char ball[] =
      "<mujoco><option timestep='0.002' gravity='0 0 0'/><worldbody><body name='ball'><freejoint/>"
      "<geom type='sphere' size='.05' mass='.3'/></body></worldbody></mujoco>";
  World *w = calloc(1, sizeof *w);
  w->ctx = pbContext_Create(NULL);
  w->model = model_of_text(w->ctx, ball);
  OK(pbDeformable_Create(w->ctx, &w->d));
  int hook, group;
  double heavy = 0.1, x[64], k = 20, length = 0.1;
  OK(pbDeformable_AddPoints(w->d, 1, (double[]){0.4, 0, 0.1}, &heavy, NULL, NULL, NULL));
  OK(pbDeformable_Attach(w->d, "ball", 1, (double[]){0.05, 0.01, 0}, &hook));
  OK(pbDeformable_AddEnergy(w->d, "rope", &spring, 1, (int[]){0, hook}, &group));
  set(w, group, "k", k);
  set(w, group, "l0", length);
  OK(pbModel_SetDeformable(w->model, w->d));
  pbScratch *s;
  OK(pbScratch_Create(w->ctx, w->model, NULL, &s));
  OK(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, x));
  int at = pbModel_StateFieldAt(w->model, 5).offset, v = pbModel_StateFieldAt(w->model, 2).offset;
  for (int step = 0; step < 30; step++) {
    if (pbStep_Forward(w->model, pbModel_DefaultParams(w->model), x, NULL, s, NULL) != pb_ok) fail_msg("%s", pbScratch_Error(s));
    for (int i = 0; i < 3; i++) assert_true(fabs(0.3 * x[v + i] + heavy * x[at + 6 + i]) < 1e-12);
  }
  // the reduced heavy of 0.075 kg would go sqrt(k / 0.075) = 16 rad/s about the rest length: nearly a quarter turn in 60 ms
  assert_true(x[v] > 0.5 && x[at + 6] < -1.5);
  pbScratch_Destroy(s);
  done(w);
}

// Geoms that rest: a net falls on a table and hangs on it at a corner; their places are parameters, though nothing of them moves.
static const char table[] =
    "<mujoco><option timestep='0.005'/><worldbody><geom name='floor' type='plane' size='5 5 .1' pos='0 0 -.3' euler='5 0 0'/>"
    "<body name='table' pos='.3 .01 .3' euler='3 4 5'><geom name='top' type='box' size='.05 .04 .03' pos='.01 0 .0'/>"
    "<geom name='knob' type='sphere' size='.02' pos='.03 .03 .025'/></body></worldbody></mujoco>";

static World *resting(pbScheme scheme) {
  World *w = calloc(1, sizeof *w);
  w->ctx = pbContext_Create(NULL);
  w->model = model_of_text(w->ctx, table);
  OK(pbDeformable_Create(w->ctx, &w->d));
  double rest[75], masses[25], velocity[75] = {0};
  int triangle[32][3], edge[64][2], triangles = 0, edges = 0, group, number, glue;
  unsigned seed = 21;
  for (int i = 0; i < 25; i++) {
    rest[3 * i] = 0.24 + 0.03 * (i % 5);
    rest[3 * i + 1] = -0.05 + 0.03 * (i / 5);
    rest[3 * i + 2] = 0.353 + 0.0005 * noise(&seed);
    masses[i] = 0.002;
    velocity[3 * i + 2] = -0.3;
    velocity[3 * i] = 0.1;
  }
  for (int i = 0; i < 16; i++) {
    int a = i % 4 + 5 * (i / 4);
    memcpy(triangle[triangles++], (int[]){a, a + 1, a + 6}, sizeof triangle[0]);
    memcpy(triangle[triangles++], (int[]){a, a + 6, a + 5}, sizeof triangle[0]);
    memcpy(edge[edges++], (int[]){a, a + 1}, sizeof edge[0]);
    memcpy(edge[edges++], (int[]){a, a + 5}, sizeof edge[0]);
  }
  OK(pbDeformable_AddPoints(w->d, 25, rest, masses, NULL, velocity, NULL));
  OK(pbDeformable_AddEnergy(w->d, "net", &spring, edges, edge[0], &group));
  set(w, group, "k", 40);
  set(w, group, "l0", 0.03);
  OK(pbDeformable_Attach(w->d, "table", 1, (double[]){-0.06, -0.06, 0.08}, &glue));
  OK(pbDeformable_AddEnergy(w->d, "glue", &spring, 1, (int[]){0, glue}, &group));
  set(w, group, "k", 60);
  set(w, group, "l0", 0.01);
  OK(pbDeformable_AddSurface(w->d, &(pbSurface){.triangles = triangles, .triangle = triangle[0], .radius = 0.001, .self = true},
                             &number));
  OK(pbDeformable_AttachGeom(w->d, w->model, "top", &number));
  OK(pbDeformable_AttachGeom(w->d, w->model, "knob", &number));
  OK(pbDeformable_AttachGeom(w->d, w->model, "floor", &number));
  for (int a = 1; a < 4; a++)
    for (int b = a + 1; b < 4; b++) OK(pbDeformable_SetPair(w->d, a, b, false, -1, -1));
  OK(pbDeformable_SetContact(
      w->d,
      &(pbDeformContact){.distance = 0.006, .stiffness = 100, .friction = 0.3, .velocity = 0.02, .kind = pb_frictionLagged}));
  options(w, scheme);
  OK(pbModel_SetDeformable(w->model, w->d));
  return w;
}

static void test_resting_geoms(void **state) {
  (void)state;
  compare(run_in(resting(pb_schemeImplicitEuler)), "net on a table", true, 1e-4, 1e-6);
  compare(run_in(resting(pb_schemeBdf2)), "net on a table, bdf2", true, 1e-5, 1e-6);
}

static void compare_coupled(const void *unused) {
  (void)unused;
  compare(run_in(held()), "arm, net and ball", true, 1e-4, 1e-6);
}

static void test_coupled_gradients(void **state) { compare_coupled(state); }

#ifdef PULLBACK_MUTATE
static void test_every_pullback_is_seen(void **state) {
  static const char *const by[pb_coupledByCount] = {"positions", "velocities", "places", "parameters", "forces"};
  for (int i = 0; i < scheme_count; i++) {
    const char *name = pbScheme_Name(schemes[i]);
    if (!sees_mutation(pb_muteScheme, (int)schemes[i], NULL, compare_scheme, &schemes[i])) fail_msg("scheme %s: unseen", name);
    print_message("scheme,%s,unit/test_deform,red\n", name);
  }
  for (int i = 0; i < pb_coupledByCount; i++) {
    if (!sees_mutation(pb_muteCoupling, i, NULL, compare_coupled, state)) fail_msg("coupling by %s: unseen", by[i]);
    print_message("coupling,%s,unit/test_deform,red\n", by[i]);
  }
}
#endif

// Quartic springs: AVF4 keeps the energy to rounding (case E4).
static void test_avf4_energy(void **state) {
  (void)state;
  World *w = world(0.033, 0);
  const double rest[9] = {0, 0, 0, 1, 0, 0, 2, .5, 0}, m[3] = {1, 1, 1}, l0[3] = {1, 1.3, 1.4};
  const int ends[6] = {0, 1, 1, 2, 2, 0};
  int group;
  OK(pbDeformable_AddPoints(w->d, 3, rest, m, NULL, NULL, NULL));
  OK(pbDeformable_AddEnergy(w->d, "springs", &quartic, 3, ends, &group));
  set(w, group, "k", 8);
  OK(pbDeformable_SetParameter(w->d, group, "l0", 3, l0));
  pbDeformable_SetPlanar(w->d, true);
  options(w, pb_schemeAvf4);
  OK(pbModel_SetDeformable(w->model, w->d));
  pbScratch *s;
  OK(pbScratch_Create(w->ctx, w->model, NULL, &s));
  double x[64], first = 0;
  OK(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, x));
  int at = pbModel_StateFieldAt(w->model, 5).offset;
  for (int k = 0; k <= 300; k++) {
    double energy = 0, *p = x + at;
    for (int i = 0; i < 9; i++) energy += 0.5 * p[9 + i] * p[9 + i];
    for (int e = 0; e < 3; e++) {
      double l2 = 0;
      for (int c = 0; c < 3; c++) l2 += pow(p[3 * ends[2 * e] + c] - p[3 * ends[2 * e + 1] + c], 2);
      energy += 4 * pow(l2 - l0[e] * l0[e], 2);
    }
    if (k == 0) first = energy;
    if (!(fabs(energy - first) <= 1e-11 * first)) fail_msg("step %d: energy %.15g, was %.15g", k, energy, first);
    OK(pbStep_Forward(w->model, pbModel_DefaultParams(w->model), x, NULL, s, NULL));
  }
  assert_true(fabs(first - 21.7508) < 1e-4);
  pbScratch_Destroy(s);
  done(w);
}

// A driven triangle that would be beyond a free one within a step pushes it instead.
static void test_driven(void **state) {
  (void)state;
  World *w = world(0.01, 0);
  double rest[18] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0.1, 0.2, 0.003, 0.8, 0.1, 0.003, 0.1, 0.7, 0.003}, velocity[18] = {0}, masses[6],
         x[128];
  int number;
  for (int i = 0; i < 6; i++) {
    masses[i] = 0.01;
    velocity[3 * i + 2] = i < 3 ? 1 : 0;
  }
  OK(pbDeformable_AddPoints(w->d, 6, rest, masses, NULL, velocity, NULL));
  OK(pbDeformable_Fix(w->d, 3, (int[]){0, 1, 2}, pb_fixAll));
  OK(pbDeformable_AddSurface(w->d, &(pbSurface){.triangles = 1, .triangle = (int[]){0, 1, 2}}, &number));
  OK(pbDeformable_AddSurface(w->d, &(pbSurface){.triangles = 1, .triangle = (int[]){3, 4, 5}}, &number));
  OK(pbDeformable_SetContact(w->d, &(pbDeformContact){.distance = 0.002, .stiffness = 100}));
  OK(pbModel_SetDeformable(w->model, w->d));
  pbScratch *s;
  OK(pbScratch_Create(w->ctx, w->model, NULL, &s));
  OK(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, x));
  int at = pbModel_StateFieldAt(w->model, 5).offset;
  if (pbStep_Forward(w->model, pbModel_DefaultParams(w->model), x, NULL, s, NULL) != pb_ok) fail_msg("%s", pbScratch_Error(s));
  for (int i = 0; i < 3; i++) assert_true(fabs(x[at + 3 * i + 2] - 0.01) < 1e-16 && x[at + 11 + 3 * i] > 0.01);
  pbScratch_Destroy(s);
  done(w);
}

// ---- errors -----------------------------------------------------------------------------------------------------------
static void test_errors(void **state) {
  (void)state;
  World *w = world(0.01, 0);
  double rest[6] = {0, 0, 0, 1, 0, 0};
  int group;
  OK(pbDeformable_AddPoints(w->d, 2, rest, NULL, NULL, NULL, NULL));
  assert_int_equal(pbDeformable_AddEnergy(w->d, "s", &spring, 1, (int[]){0, 2}, &group), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(w->ctx), "element 0 has the point 2"));
  assert_int_equal(pbDeformable_AddEnergy(w->d, "s", &spring, 1, (int[]){1, 1}, &group), pb_bad_input);
  OK(pbDeformable_AddEnergy(w->d, "s", &spring, 1, (int[]){0, 1}, &group));
  assert_int_equal(pbDeformable_SetParameter(w->d, group, "kk", 1, rest), pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(w->ctx), "did you mean 'k'"));
  assert_int_equal(pbDeformable_SetParameter(w->d, group, "k", 1, (double[]){-1}), pb_bad_input);
  assert_int_equal(pbModel_SetDeformable(w->model, w->d), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(w->ctx), "has no value"));
  set(w, group, "k", 1);
  set(w, group, "l0", 1);
  OK(pbModel_SetDeformable(w->model, w->d));
  pbScratch *s;
  double x[64];
  OK(pbScratch_Create(w->ctx, w->model, NULL, &s));
  OK(pbState_Init(w->ctx, w->model, pbModel_DefaultParams(w->model), -1, x));
  assert_int_equal(pbStep_Forward(w->model, pbModel_DefaultParams(w->model), x, NULL, s, NULL), pb_bad_input);
  assert_non_null(strstr(pbScratch_Error(s), "point 0 has a mass of 0"));
  pbScratch_Destroy(s);
  done(w);
  // an inverted element, and one without volume, are refused at once, with number and place
  for (int flat = 0; flat < 2; flat++) {
    w = world(0.01, 0);
    const double corners[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, flat ? 0 : 1}, start[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, -1};
    OK(pbDeformable_AddPoints(w->d, 4, corners, NULL, start, NULL, NULL));
    OK(pbDeformable_AddEnergy(w->d, "flesh", &solid, 1, (int[]){0, 1, 2, 3}, &group));
    set(w, group, "mu", 1);
    set(w, group, "lambda", 1);
    assert_int_equal(pbModel_SetDeformable(w->model, w->d), pb_bad_input);
    assert_non_null(strstr(pbContext_Error(w->ctx), "flesh: element 0 (point 0 at 0 0 0)"));
    done(w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_oscillator),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_contact_gradients),
      cmocka_unit_test(test_momentum),
      cmocka_unit_test(test_coupled_gradients),
      cmocka_unit_test(test_resting_geoms),
      cmocka_unit_test(test_avf4_energy),
      cmocka_unit_test(test_driven),
      cmocka_unit_test(test_errors),
#ifdef PULLBACK_MUTATE
      cmocka_unit_test(test_every_pullback_is_seen),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
