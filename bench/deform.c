// Deformables piece by piece: a block of tetrahedra and a hanging sheet that meets itself.
//
//   deform [SCENE ...]      block16 block26 sheet50; all of them by default
//
// Lines of comma-separated figures, times of the processor: element Hessians (also per element), their assembly, the
// factor of the matrix, a step, and rollouts with their gradients, factors kept and made again. Least of several rounds; of rollouts one.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/materials.h>
#include <pullback/rollout.h>
#include <pullback/spec.h>

#include "base/context.h"
#include "couple/deform_step.h"
#include "step/scratch.h"

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Least time in ms of repeating `statement` for a while.
#define LEAST(result, statement)                                       \
  do {                                                                 \
    double pb_begin = seconds();                                       \
    result = INFINITY;                                                 \
    for (int pb_k = 0; pb_k < 3 || seconds() - pb_begin < 1; pb_k++) { \
      double pb_start = seconds();                                     \
      statement;                                                       \
      result = fmin(result, 1e3 * (seconds() - pb_start));             \
    }                                                                  \
  } while (0)

typedef struct Scene {
  const char *name;
  pbContext *ctx;
  pbModel *model;
  pbDeformable *deformable;
  pbMesh *mesh;
  int elements, steps;
} Scene;

static void must(const Scene *s, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "%s: %s\n", s->name, pbContext_Error(s->ctx));
  exit(1);
}

// ---- scenes -----------------------------------------------------------------------------------------------------------
static void create(Scene *s, double timestep) {
  pbSpec *spec;
  s->ctx = pbContext_Create(NULL);
  must(s, pbSpec_Create(s->ctx, &spec));
  spec->option.timestep = timestep;
  must(s, pbSpec_Compile(spec, &s->model));
  pbSpec_Destroy(spec);
  must(s, pbDeformable_Create(s->ctx, &s->deformable));
}

// A built-in energy, or mass, with the numbers of all its parameters.
static void material(Scene *s, const char *name, int count, const int *vertex, const double *values) {
  const pbMaterial *m = pbMaterial_Find(name);
  int group;
  must(s, (m->traits & pb_materialMass ? pbDeformable_AddMass : pbDeformable_AddEnergy)(s->deformable, name, &m->def, count,
                                                                                        vertex, &group));
  for (int i = 0; i < m->def.parameter_count; i++)
    must(s, pbDeformable_SetParameter(s->deformable, group, m->def.parameters[i].name, 1, values + i));
}

// Fixes the points whose coordinate `axis` is `at`.
static void hold(Scene *s, int axis, double at) {
  for (int i = 0; i < s->mesh->points; i++) {
    if (fabs(s->mesh->point[3 * i + axis] - at) < 1e-9) must(s, pbDeformable_Fix(s->deformable, 1, &i, pb_fixAll));
  }
}

// Rubber, clamped at one face, set free: 6 side^3 tetrahedra.
static void block(Scene *s, int side) {
  create(s, 0.01);
  must(s, pbMesh_Box(s->ctx, &(pbBox){.high = {0.2, 0.2, 0.2}, .cells = {side, side, side}, .split = pb_boxSix}, &s->mesh));
  const pbCells *cells = &s->mesh->cells[pb_cellTetrahedron];
  must(s, pbDeformable_AddPoints(s->deformable, s->mesh->points, s->mesh->point, NULL, NULL, NULL, NULL));
  material(s, "neo_hookean_tetrahedron", cells->count, cells->vertex, (double[]){1e5, 0.4});
  material(s, "mass_tetrahedron", cells->count, cells->vertex, (double[]){1000});
  hold(s, 0, 0);
  s->elements = cells->count;
}

// Cloth of a metre, side x side points, over a line it hangs from, so that its halves meet.
static void sheet(Scene *s, int side) {
  create(s, 0.005);
  int cells = side - 1, number;
  must(s, pbMesh_Grid(s->ctx, &(pbGrid){.u = {1, 0, 0}, .v = {0, 1, 0}, .cells = {cells, cells}, .pattern = pb_gridAlternating},
                      &s->mesh));
  const pbCells *triangles = &s->mesh->cells[pb_cellTriangle];
  pbCells hinges;
  must(s, pbCells_Hinges(s->ctx, triangles, &hinges));
  double *start = malloc(3 * (size_t)s->mesh->points * sizeof *start);
  for (int i = 0; i < s->mesh->points; i++) {  // over a rod: two halves hang down, 4 mm apart, one a little crooked
    const double *X = s->mesh->point + 3 * i;
    double half = X[0] - 0.5, radius = 0.002 + 0.2e-3, arc = M_PI / 2 * radius, side_of = half < 0 ? -1 : 1;
    double a = fabs(half) < arc ? half / radius : side_of * M_PI / 2;
    start[3 * i] = radius * sin(a) + 2e-3 * side_of * fmax(0, fabs(half) - arc);
    start[3 * i + 1] = X[1] + 0.3 * fmax(0, side_of * half - arc) * 0.02 * side_of;
    start[3 * i + 2] = radius * cos(a) - fmax(0, fabs(half) - arc);
  }
  must(s, pbDeformable_AddPoints(s->deformable, s->mesh->points, s->mesh->point, NULL, start, NULL, NULL));
  material(s, "membrane_stvk_triangle", triangles->count, triangles->vertex, (double[]){1e5, 0.3, 1e-3});
  material(s, "bending_quadratic", hinges.count, hinges.vertex, (double[]){1e-5});
  material(s, "mass_triangle", triangles->count, triangles->vertex, (double[]){200, 1e-3});
  for (int i = 0; i < s->mesh->points; i++) {
    if (fabs(s->mesh->point[3 * i] - 0.5) < 0.51 / cells) must(s, pbDeformable_Fix(s->deformable, 1, &i, pb_fixAll));
  }
  must(s, pbDeformable_AddSurface(
              s->deformable,
              &(pbSurface){.triangles = triangles->count, .triangle = triangles->vertex, .radius = 2e-4, .self = true}, &number));
  must(s,
       pbDeformable_SetContact(
           s->deformable,
           &(pbDeformContact){.distance = 5e-3, .stiffness = 0.5, .friction = 0.3, .velocity = 1e-2, .kind = pb_frictionLagged}));
  s->elements = triangles->count + hinges.count;
  pbCells_Clear(s->ctx, &hinges);
  free(start);
}

// ---- measured ---------------------------------------------------------------------------------------------------------
static void line(const Scene *s, int contacts, const char *quantity, double value) {
  printf("%s,%d,%d,%d,\"%s\",%.4g\n", s->name, s->mesh->points, s->elements, contacts, quantity, value);
  fflush(stdout);
}

// All elements of the first group at rest, some at a time.
static void evaluate(const Scene *s, const pbEnergy *energy, void *work, double *gradient, double *hessian, int most) {
  const pbCells *cells = &s->mesh->cells[pb_cellTetrahedron];
  static const double young = 1e5, poisson = 0.4;
  const double *x = s->mesh->point;
  for (int e = 0; e < cells->count; e += most) {
    int count = cells->count - e < most ? cells->count - e : most;
    pbElements in = {.count = count, .vertex = cells->vertex + 4 * e, .x = x, .rest = x, .previous = x, .timestep = 0.01};
    in.parameter = (const double *[]){&young, &poisson};
    in.stride = (int[]){0, 0};
    pbEnergyFault fault;
    if (!pbEnergy_Evaluate(energy, &in, &(pbElementsOut){.gradient = gradient, .hessian = hessian}, work, &fault)) exit(1);
  }
}

static void elements(const Scene *s) {
  enum { most = 256 };
  pbEnergy *energy;
  must(s, pbEnergy_Create(s->ctx, &pbMaterial_Find("neo_hookean_tetrahedron")->def, &energy));
  double *gradient = malloc(most * (12 + 144) * sizeof *gradient), *hessian = gradient + 12 * most, ms;
  void *work = malloc(pbEnergy_WorkSize(energy));
  int count = s->mesh->cells[pb_cellTetrahedron].count;
  LEAST(ms, evaluate(s, energy, work, gradient, NULL, most));
  line(s, 0, "element gradients, ms", ms);
  LEAST(ms, evaluate(s, energy, work, gradient, hessian, most));
  line(s, 0, "element Hessians, ms", ms);
  line(s, 0, "one element Hessian, ms", ms / count);
  pbEnergy_Destroy(energy);
  free(gradient);
  free(work);
}

// Assembly and factor at the solution of a step.
static void pieces(const Scene *s, pbScratch *scratch, const double *theta, double *x) {
  double begin = seconds(), ms, value;
  int negative;
  must(s, pbStep_Forward(s->model, theta, x, NULL, scratch, NULL));
  double step = 1e3 * (seconds() - begin);
  pbDeformWork *w = scratch->deform;
  int contacts = w->barrier ? pbBarrier_ContactCount(w->barrier) : 0;
  line(s, contacts, "step, ms", step);
  line(s, contacts, "Newton iterations of it", w->report.iterations);
  LEAST(ms, must(s, pbDeform_Look(w, w->x, &value, w->gradient, true, false)));
  line(s, contacts, "gradient and matrix assembled, ms", ms);
  LEAST(ms, must(s, pbDeformMatrix_Factor(w, &negative)));
  line(s, contacts, "factor, ms", ms);
  LEAST(ms, must(s, pbDeform_Solve(w, false, w->step)));
  line(s, contacts, "solution with it, ms", ms);
}

static void rollout(const Scene *s, const double *theta, const double *x, bool kept) {
  pbRolloutPlan plan;
  pbRollout *run;
  size_t nt = pbModel_ParamSize(s->model), n = (size_t)pbModel_TangentSize(s->model), np = 3 * (size_t)s->mesh->points;
  must(s, kept ? pbRollout_Plan(s->ctx, s->model, s->steps, 0, &plan)
               : pbRollout_PlanSlots(s->ctx, s->model, s->steps, 0, s->steps, &plan));
  must(s, pbRollout_Create(s->ctx, s->model, &plan, NULL, &run));
  double *theta_bar = calloc(nt + n + np, sizeof *theta_bar), *bar = theta_bar + nt + n;
  for (size_t i = 0; i < np; i++) bar[i] = sin((double)i);
  double begin = seconds();
  must(s, pbRollout_Forward(run, theta, x, NULL, NULL));
  double middle = seconds();
  pbCertificate c;
  must(s, pbRollout_Vjp(run, &(pbRolloutBar){.points = {bar, 1, NULL}}, NULL,
                        &(pbRolloutGradient){.x0 = theta_bar + nt, .theta = theta_bar}, &c));
  double forward = 1e3 * (middle - begin), back = 1e3 * (seconds() - middle);
  char text[80];
  snprintf(text, sizeof text, "%d steps%s, ms", s->steps, kept ? ", keeping factors" : "");
  line(s, c.most_contacts, text, forward);
  line(s, c.most_contacts, kept ? "gradient from kept factors, ms" : "gradient, ms", back);
  line(s, c.most_contacts, kept ? "ratio of gradient from kept factors to steps" : "ratio of gradient to steps", back / forward);
  pbRollout_Destroy(run);
  free(theta_bar);
}

static void measure(const char *name) {
  Scene s = {.name = name, .steps = 10};
  int side = atoi(name + 5);
  if (!strncmp(name, "block", 5)) block(&s, side);
  else sheet(&s, side);
  must(&s, pbModel_SetDeformable(s.model, s.deformable));
  if (s.elements > 50000) s.steps = 1;
  pbScratch *scratch;
  double *x = malloc((size_t)pbModel_StateSize(s.model) * sizeof *x);
  const double *theta = pbModel_DefaultParams(s.model);
  must(&s, pbScratch_Create(s.ctx, s.model, NULL, &scratch));
  if (s.mesh->cells[pb_cellTetrahedron].count) elements(&s);
  must(&s, pbState_Init(s.ctx, s.model, theta, -1, x));
  pieces(&s, scratch, theta, x);
  must(&s, pbState_Init(s.ctx, s.model, theta, -1, x));
  rollout(&s, theta, x, false);
  rollout(&s, theta, x, true);
  free(x);
  pbScratch_Destroy(scratch);
  pbDeformable_Destroy(s.deformable);
  pbMesh_Destroy(s.mesh);
  pbModel_Destroy(s.model);
  pbContext_Destroy(s.ctx);
}

int main(int count, char **argument) {
  printf("scene,points,elements,contacts,quantity,value\n");
  if (count < 2) {
    measure("block16");
    measure("block26");
    measure("sheet50");
  }
  for (int k = 1; k < count; k++) measure(argument[k]);
  return 0;
}
