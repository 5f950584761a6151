// Deformables in task files: what is read, answers in closed form, gradients against differences, bad files named with their place.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "support/meter.h"
#include "support/support.h"

// Texts here have ' for ".
static const char *json(const char *text) {
  static char out[16384];
  size_t n = strlen(text);
  assert_true(n < sizeof out);
  for (size_t i = 0; i <= n; i++) out[i] = text[i] == '\'' ? '"' : text[i];
  return out;
}

static pbTask *parse(pbContext *ctx, const char *text) {
  pbTask *task;
  const char *quoted = json(text);
  good(ctx, pbTask_Parse(ctx, quoted, strlen(quoted), NULL, "test.json", &task));
  return task;
}

static double value_of(const pbTask *task, const char *name) {
  pbParam p;
  assert_int_equal(pbModel_Param(NULL, pbTask_Model(task), name, &p), pb_ok);
  return pbModel_DefaultParams(pbTask_Model(task))[p.offset];
}

// ---- closed forms ---------------------------------------------------------------------------------------------------
// A mass m hangs by a spring of length L and stiffness k: it rests m g / k below. Found from where it rests.
static void test_a_stiffness_from_a_resting_place(void **state) {
  pbTask *task = parse(
      *state,
      "{'deformables': {'scheme': 'static', 'bodies': [{'name': 's', 'mesh': {'points': [[0, 0, 0], [0, 0, -0.5]], 'edges': "
      "[[0, 1]]}, 'mass': [0, 2], 'pins': [{'points': 0}, {'points': 1, 'axes': 'xy'}], 'sets': {'bob': 1},"
      "'energies': [{'name': 'spring', 'formula': '0.5*k*(norm(x0 - x1) - l0)^2', 'parameters': {'k': {'value': 100, 'lower': 0, "
      "'unit': 'N/m'}, 'l0': {'each': [0.5]}}}]}]},"
      "'options': {'gravity': [0, 0, -10]}, 'steps': 1, 'variables': [{'parameter': 's_spring.k', 'transform': 'log'}],"
      "'loss': [{'points': 's_bob', 'components': [2], 'target': -0.6}], 'optimizer': {'method': 'gauss-newton', "
      "'gradient_tolerance': 1e-15}}");
  pbRunResult result;
  good(*state, pbTask_Run(task, NULL, &result));
  if (!(fabs(exp(result.z[0]) - 200) < 1e-9 * 200))
    fail_msg("%.12g after %d: %s, loss %g", exp(result.z[0]), result.iterations, result.reason, result.loss);
  pbTask_Destroy(task);
}

// Points without forces: implicit Euler falls by g h^2 n (n + 1) / 2; a pin goes on with its own velocity.
static void test_flight_and_pins(void **state) {
  pbTask *task =
      parse(*state,
            "{'deformables': {'bodies': [{'name': 'p', 'mesh': {'points': [[1, 2, 3], [4, 5, 6], [7, 8, 9]]}, 'mass': 3, "
            "'velocity': [1, 0, 2], 'pins': [{'points': [2], 'velocity': [0, 0.5, 0]}]}]},"
            "'options': {'timestep': 0.1, 'gravity': [0, 0, -1]}, 'steps': 10, 'variables': [{'state': 'points', "
            "'points': 0, 'components': [0]}],"
            "'loss': [{'points': true}]}");
  double loss, z = 1;
  good(*state, pbTask_Loss(task, &z, &loss, NULL));
  double fall = 0.01 * 55;
  double x[9] = {2, 2, 5 - fall, 5, 5, 8 - fall, 7, 8.5, 9}, sum = 0;
  for (int i = 0; i < 9; i++) sum += x[i] * x[i];
  assert_true(fabs(loss - sum) < 1e-10 * sum);
  pbTask_Destroy(task);
}

// A unit box, scaled, turned and placed; its parts by name, place and number.
static void test_places_and_names(void **state) {
  pbTask *task =
      parse(*state,
            "{'deformables': {'planar': true, 'bodies': [{'name': 'b', 'mesh': {'box': {'size': [1, 1, 1], 'cells': [2, 1, "
            "1]}}, 'pos': [1, 2, 3], 'euler': [0, 0, 90], 'scale': [2, 1, 1], 'mass': 12,"
            "'sets': {'far': {'box': [[1, null, null], [null, null, null]]}, 'corner': {'nearest': [1.2, 1.1, 1]}, "
            "'two': ['corner', 0, 'corner']}}]},"
            "'steps': 1, 'variables': [{'state': 'points', 'points': 'b_corner'}], 'loss': [{'points': 'b'}]}");
  const pbModel *m = pbTask_Model(task);
  int count;
  assert_int_equal(pbModel_PointCount(m), 12);
  assert_non_null(pbModel_PointSet(m, "b_far", &count));
  assert_int_equal(count, 4);
  const int *two = pbModel_PointSet(m, "b_two", &count);
  assert_true(count == 2 && two[0] == 11 && two[1] == 0);
  const double *start = pbTask_Start(task);  // corner (1, 1, 1): twice as long, turned from x to y
  assert_true(fabs(start[0] - 0) < 1e-14 && fabs(start[1] - 4) < 1e-14 && fabs(start[2] - 4) < 1e-14);
  assert_true(value_of(task, "point_mass") == 1);
  pbTask_Destroy(task);
}

// What a program asks of deformables: sizes, groups with their energies, planes as points, controls by name.
static void test_deformables_say_what_they_are(void **state) {
  pbTask *task = parse(
      *state,
      "{'deformables': {'scheme': 'bdf2', 'bodies': [{'name': 'rope', 'mesh': {'chain': {'from': [0, 0, 1], 'to': [1, 0, 1], "
      "'edges': 4}}, 'pins': [{'points': 0}], 'energies': [{'name': 'pull', 'energy': 'spring', 'parameters': "
      "{'stiffness': 9, 'density': 2}}]}], 'contact': {'distance': 0.1, 'stiffness': 1, 'planes': [{'name': 'floor'}]}},"
      "'steps': 1, 'variables': [{'state': 'points'}], 'loss': [{'points': 'rope'}]}");
  const pbModel *m = pbTask_Model(task);
  pbDeformInfo info;
  pbDeformGroup group;
  pbScenery scenery;

  assert_true(pbModel_DeformInfo(m, &info));
  assert_true(info.scheme == pb_schemeBdf2 && info.method == pb_minimizeNewton);
  assert_true(info.points == 8 && info.moving == 4 && info.controls == 0);

  assert_true(pbModel_DeformGroupAt(m, 0, &group));
  assert_string_equal(group.name, "rope_pull");
  assert_string_equal(group.energy, "spring");
  assert_true(!group.mass && group.count == 4 && group.points == 2);

  assert_true(pbModel_SceneryAt(m, 0, &scenery));
  assert_string_equal(scenery.name, "floor");
  assert_true(!scenery.geom && scenery.first == 5 && scenery.count == 3);
  assert_false(pbModel_SceneryAt(m, 1, &scenery));
  assert_false(pbModel_SceneryAt(m, -1, &scenery));
  pbTask_Destroy(task);
}

// A bar pulled by a stress s at its end: it grows by s / E, its sides shrink by nu of that, and it weighs density times volume. A
// chain of springs beside it grows by a force over each stiffness.
static void test_built_in_energies(void **state) {
  pbTask *task = parse(
      *state,
      "{'deformables': {'scheme': 'static', 'bodies': [{'name': 'bar', 'mesh': {'box': {'size': [1, 0.2, 0.2], 'cells': [1, 1, "
      "1]}}, "
      "'sets': {'end': {'box': [[1, null, null], [null, null, null]]}},"
      "'pins': [{'points': {'box': [[null, null, null], [0, null, null]]}, 'axes': 'x'}, {'points': {'box': [[null, null, null], "
      "[null, 0, null]]}, 'axes': 'y'}, {'points': {'box': [[null, null, null], [null, null, 0]]}, 'axes': 'z'}],"
      "'energies': [{'energy': 'linear', 'name': 'steel', 'parameters': {'young': {'each': [2e6, 2e6, 2e6, 2e6, 2e6, 2e6]}, "
      "'poisson': 0.25, 'density': 500}}, {'energy': 'traction', 'on': [[1, 3, 7], [1, 7, 5]], 'parameters': {'traction': [2e5, "
      "0, "
      "0]}}]},"
      "{'name': 'chain', 'mesh': {'chain': {'from': [0, 0, 0], 'to': [4, 0, 0], 'edges': 4}}, 'sets': {'end': 4}, 'pins': "
      "[{'points': 0}, {'points': "
      "true, "
      "'axes': 'yz'}], 'energies': [{'energy': 'spring', 'parameters': {'stiffness': {'each': [10, 20, 40, 50]}, 'density': "
      "0.5}}, "
      "{'energy': 'load', 'on': 4, 'parameters': {'force': [2, 0, 0]}, 'controls': ['force']}]},"
      "{'name': 'tail', 'mesh': {'points': [[5, 0, 0]]}, 'pins': [{'points': 0, 'axes': 'yz'}]}],"
      "'energies': [{'between': ['chain_end', 'tail'], 'energy': 'spring', 'parameters': {'stiffness': 7}}]},"
      "'options': {'gravity': [0, 0, 0]}, 'steps': 1, 'variables': [{'parameter': 'bar_steel.young'}, {'control': "
      "'chain_load.force.0'}],"
      "'loss': [{'points': 'bar_end', 'target': [1.1, 0, 0, 1.1, 0.195, 0, 1.1, 0, 0.195, 1.1, 0.195, 0.195]}, {'points': 12, "
      "'target': "
      "[4.39, 0, 0]}, {'points': 'tail', 'target': [5.39, 0, 0]}]}");
  double loss, mass[14], bar = 0, chain = 0;
  good(*state, pbTask_Loss(task, pbTask_Start(task), &loss, NULL));
  if (!(loss < 1e-20)) fail_msg("off by %g", sqrt(loss));
  good(*state, pbModel_PointMasses(*state, pbTask_Model(task), pbModel_DefaultParams(pbTask_Model(task)), mass));
  for (int i = 0; i < 13; i++) *(i < 8 ? &bar : &chain) += mass[i];
  assert_true(fabs(bar - 20) < 1e-12 && fabs(chain - 2) < 1e-14);
  pbTask_Destroy(task);
}

// ---- gradients ------------------------------------------------------------------------------------------------------
static const char net[] =
    "{'deformables': {'scheme': '%s', 'bodies': [{'name': 'net', 'mesh': {'grid': {'u': [1, 0, 0], 'v': [0, 1, 0], 'cells': [2, "
    "2]}}, "
    "'mass': 0.4, 'pins': [{'points': [0, 2]}], 'sets': {'edge': [6, 7, 8]}, 'velocity': [0, 0, 0.2],"
    "'energies': [{'name': 'thread', 'formula': 'd = norm(x0 - x1)/norm(X0 - X1) - 1; 0.5*k*norm(X0 - X1)*d^2', 'on': 'edges', "
    "'parameters': {'k': {'each': [21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36]}}},"
    "{'name': 'hand', 'formula': '0.5*k*dot(x0 - at, x0 - at)', 'on': 'edge', 'parameters': {'k': 3, 'at': [0.5, 1, 0.2]}, "
    "'controls': ['at']},"
    "{'name': 'turn', 'formula': 'k*dot(cross(x1 - x0, x2 - x0), cross(x3 - x0, x1 - x0))', 'on': 'hinges', 'parameters': {'k': "
    "0.01}},"
    "{'name': 'weight', 'formula': 'rho*norm(cross(X1 - X0, X2 - X0))/2', 'mass': true, 'parameters': {'rho': {'value': 0.3, "
    "'lower': 0}}}]}]},"
    "'options': {'timestep': 0.02}, 'steps': 6, 'init': {'point_velocity': [%s]},"
    "'variables': [{'parameter': 'net_thread.k', 'components': [3, 0, 15]}, {'parameter': 'net_weight.rho', 'transform': 'log'},"
    "{'parameter': 'point_rest', 'components': [13]}, {'parameter': 'gravity:2'},"
    "{'state': 'points', 'points': [4, 'net_edge'], 'components': [0, 5, 7]}, {'state': 'point_velocity', 'points': 'net_edge', "
    "'components': [1, 8], 'scale': 2}, {'control': 'net_hand.at.1', 'knots': 2}],"
    "'loss': [{'points': 'net_edge', 'at': [0.04, 0.12], 'target': [[1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]]},"
    "{'point_velocity': true, 'at': 'all', 'type': 'norm'}, {'control': 'net_hand.at.0', 'weight': 2}]}";

static double loss_at(pbContext *ctx, pbTask *task, int i, double step) {
  double z[32], value;
  memcpy(z, pbTask_Start(task), (size_t)pbTask_Size(task) * sizeof *z);
  z[i] += step;
  good(ctx, pbTask_Loss(task, z, &value, NULL));
  return value;
}

static void test_gradients_by_every_kind_of_variable(void **state) {
  static const char *const schemes[] = {"implicit_euler", "bdf2", "trapezoid"};
  for (size_t s = 0; s < sizeof schemes / sizeof *schemes; s++) {
    char text[8192], velocity[512] = "0.1";
    for (int i = 1; i < 27; i++)
      snprintf(velocity + strlen(velocity), sizeof velocity - strlen(velocity), ", %d.%d", i % 3 - 1, i % 7);
    snprintf(text, sizeof text, net, schemes[s], velocity);
    pbTask *task = parse(*state, text);
    double g[32], value;
    int n = pbTask_Size(task);
    assert_int_equal(n, 3 + 1 + 1 + 1 + 3 + 2 + 2);
    good(*state, pbTask_Loss(task, pbTask_Start(task), &value, g));
    for (int i = 0; i < n; i++) {
      const double h = 1e-3;
      double coarse = (loss_at(*state, task, i, h) - loss_at(*state, task, i, -h)) / (2 * h);
      double fine = (loss_at(*state, task, i, h / 2) - loss_at(*state, task, i, -h / 2)) / h,
             difference = (4 * fine - coarse) / 3;
      char name[100];
      pbTask_Unknown(task, i, pbTask_Start(task), name, sizeof name, NULL);
      if (!(fabs(difference - g[i]) <= 1e-7 * (1 + fabs(g[i]))))
        fail_msg("%s, %s: %.12g, difference %.12g", schemes[s], name, g[i], difference);
      assert_true(fabs(g[i]) > 1e-9);
    }
    pbTask_Destroy(task);
  }
}

static void leave_out(char *text, const char *part) {
  char *at = strstr(text, part);
  assert_non_null(at);
  memmove(at, at + strlen(part), strlen(at + strlen(part)) + 1);
}

// Friction of a pair alone is friction: it brakes, and the loss depends on it.
static void test_pairs_rub_without_a_friction_of_all(void **state) {
  pbTask *task = parse(*state,
                       "{'deformables': {'bodies': [{'name': 'b', 'mesh': {'points': [[0, 0, 0.05]]}, 'mass': 1, 'velocity': "
                       "[1, 0, 0]}], 'contact': {'distance': 0.1, 'stiffness': 100, 'planes': [{'name': 'floor'}], "
                       "'pairs': [{'between': ['b', 'floor'], 'friction': 0.5}]}}, 'steps': 5, "
                       "'variables': [{'parameter': 'contact.friction', 'components': [1]}], 'loss': [{'points': [0]}]}");
  double value, slope;
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, &slope));
  assert_true(slope < 0);
  pbTask_Destroy(task);
}

static void test_jacobians_agree_with_gradients(void **state) {
  char text[8192];
  snprintf(text, sizeof text, net, "implicit_euler", "0");
  leave_out(text, ", 'type': 'norm'");
  leave_out(text, "'init': {'point_velocity': [0]},");
  pbTask *task = parse(*state, text);
  size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
  double *r = calloc(m, sizeof *r), *J = calloc(m * n, sizeof *J), g[32], value;
  good(*state, pbTask_Residuals(task, pbTask_Start(task), r, J));
  good(*state, pbTask_Loss(task, pbTask_Start(task), &value, g));
  for (size_t i = 0; i < n; i++) {
    double from_J = 0;
    for (size_t k = 0; k < m; k++) from_J += 2 * J[k * n + i] * r[k];
    if (!(fabs(from_J - g[i]) <= 1e-9 * (1 + fabs(g[i])))) fail_msg("unknown %zu: %.15g by J, %.15g", i, from_J, g[i]);
  }
  free(r);
  free(J);
  pbTask_Destroy(task);
}

// Each pair of surfaces has parameters, so that there is a most of them; one more is refused with the reason.
static void test_too_many_surfaces_are_refused(void **state) {
#ifdef __SANITIZE_ADDRESS__
  skip();  // it maps memory again for each of 2049 planes: minutes
#endif
  size_t size = 64 * PB_MOST_SURFACES;
  char *text = malloc(size);
  int used = snprintf(text, size,
                      "{'deformables': {'bodies': [{'name': 'b', 'mesh': {'points': [[0, 0, 1]]}, 'mass': 1}], 'contact': "
                      "{'distance': 0.01, 'stiffness': 100, 'planes': [{}");
  for (int i = 1; i < PB_MOST_SURFACES; i++) used += snprintf(text + used, size - (size_t)used, ", {}");
  snprintf(text + used, size - (size_t)used,
           "]}}, 'steps': 1, 'variables': [{'parameter': 'gravity'}], 'loss': [{'points': 'b'}]}");
  for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
  pbTask *task;
  assert_int_equal(pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task), pb_capacity);
  assert_non_null(strstr(pbContext_Error(*state),
                         "2049 surfaces in contact: each pair of them has a stiffness and a friction, and no "
                         "more than 2048 surfaces are taken"));
  free(text);
}

// ---- what an equilibrium needs ----------------------------------------------------------------------------------------
static void no_equilibrium(pbContext *ctx, const char *pins, const char *planar, const char *says) {
  char text[2048];
  double value;
  snprintf(
      text, sizeof text,
      "{'deformables': {'scheme': 'static', %s 'bodies': [{'name': 'held', 'mesh': {'points': [[0, 0, 3]]}, 'mass': 1, 'pins': "
      "[{'points': 0}]}, {'name': 'b', 'mesh': {'%s}, %s 'energies': [{'energy': 'stvk', 'parameters': {'young': 1e4, "
      "'poisson': 0.3, 'density': 1000%s}}]}]}, 'options': {'gravity': [0, -9, 0]}, 'steps': 1, 'variables': "
      "[{'parameter': 'gravity'}], 'loss': [{'points': 'b'}]}",
      *planar ? "'planar': true," : "",
      *planar ? "grid': {'u': [0.1, 0, 0], 'v': [0, 0.1, 0], 'cells': [1, 1]}"
              : "box': {'size': [0.1, 0.1, 0.1], 'cells': [1, 1, 1]}",
      pins, *planar ? ", 'thickness': 1" : "");
  pbTask *task = parse(ctx, text);
  pbStatus status = pbTask_Loss(task, pbTask_Start(task), &value, NULL);
  if (!says) good(ctx, status);
  if (says && (status == pb_ok || !strstr(pbContext_Error(ctx), says))) fail_msg("%s: %s", pins, pbContext_Error(ctx));
  pbTask_Destroy(task);
}

static void test_equilibria_say_what_is_not_held(void **state) {
  no_equilibrium(*state, "", "", "(of 'b' no point is pinned; an equilibrium needs what holds it: \"pins\", of three points");
  no_equilibrium(*state, "'pins': [{'points': true, 'axes': 'x'}],", "", "the step did not converge");
  no_equilibrium(*state, "'pins': [{'points': [0, 1], 'axes': 'xz'}],", "", "(of 'b' only 4 coordinates are pinned; ");
  no_equilibrium(*state, "", "planar", "(of 'b' no point is pinned; an equilibrium needs what holds it: \"pins\", of two points");
  no_equilibrium(*state, "'pins': [{'points': [0, 1, 2, 3]}],", "", NULL);
}

// ---- files ----------------------------------------------------------------------------------------------------------
static void write_text(const char *path, const char *text) {
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  assert_true(fputs(json(text), stream) >= 0);
  assert_int_equal(fclose(stream), 0);
}

static void test_files(void **state) {
  char folder[] = "/tmp/pullback-deform-XXXXXX", path[96], other[96];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/bar.json", folder);
  snprintf(other, sizeof other, "%s/task.json", folder);
  write_text(path,
             "{'bodies': [{'name': 'bar', 'mesh': {'chain': {'from': [0, 0, 0], 'to': [1, 0, 0], 'edges': 4}}, 'mass': 5}]}");
  write_text(other,
             "{'deformables': 'bar.json', 'options': {'timestep': 0.5}, 'parameters': {'point_mass:1': 7}, 'steps': 1,"
             "'variables': [{'state': 'points'}], 'loss': [{'points': true}]}");
  pbDeformable *d;
  good(*state, pbDeformable_Load(*state, NULL, path, NULL, &d));
  pbDeformable_Destroy(d);
  pbModel *m;
  pbParam p;
  good(*state, pbModel_Load(*state, other, NULL, &m));
  assert_int_equal(pbModel_PointCount(m), 5);
  good(*state, pbModel_Param(*state, m, "timestep", &p));
  assert_true(pbModel_DefaultParams(m)[p.offset] == 0.5);
  good(*state, pbModel_Param(*state, m, "point_mass", &p));
  assert_true(pbModel_DefaultParams(m)[p.offset] == 1 && pbModel_DefaultParams(m)[p.offset + 1] == 7);
  pbModel_Destroy(m);
  assert_int_equal(pbDeformable_Load(*state, NULL, other, NULL, &d), pb_bad_input);  // a file that names a file: no end to that
  assert_null(d);
  write_text(other, "{'deformables': '../bar.json', 'steps': 1}");
  pbTask *task;
  assert_int_equal(pbTask_Load(*state, other, NULL, &task), pb_file);
  write_text(other, "{'model': 'task.json', 'steps': 1}");
  assert_int_equal(pbModel_Load(*state, other, NULL, &m), pb_bad_input);
  write_text(path, "{'bodies': [{'name': 'bar',\n 'mesh': {'chain': {'from': [0, 0, 0], 'to': [1, 0, 0], 'edges': 0}}}]}");
  assert_int_equal(pbDeformable_Load(*state, NULL, path, NULL, &d), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "bar.json:2: bodies[0].mesh.chain.edges: expected whole numbers"));
  unlink(path);
  unlink(other);
  rmdir(folder);
}

// ---- bad files ------------------------------------------------------------------------------------------------------
#define BODY   "{'deformables': {'bodies': [{'name': 'b', "
#define POINTS "'mesh': {'points': [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], 'edges': [[0, 1], [1, 2]]}"
#define END    "}]}, 'steps': 1, 'variables': [{'state': 'points'}], 'loss': [{'points': true}]}"
#define TOUCH  BODY POINTS ", 'mass': 1, 'surface': {'self': false}}], 'contact': {"
#define HELD_WITH(settings, body)                                                                                   \
  "{'model': '<mujoco><worldbody><body name=\\'arm\\'><joint/><geom size=\\'.1\\'/></body></worldbody></mujoco>', " \
  "'deformables': {" settings "'bodies': [{'name': 'b', " POINTS ", 'mass': 1, 'attach': [{'points': 0, 'body': '" body "'}]}]}"
#define HELD           HELD_WITH("", "arm")
#define RUBS           "'contact': {'distance': 0.01, 'stiffness': 10, 'friction': 0.1, 'kind': 'implicit'}, "
#define JOINED         BODY POINTS ", 'mass': 1, 'sets': {'one': 0, 'few': [1, 2]}}], 'energies': ["
#define REST_OF_JOINED "]" REST
#define REST           "}, 'steps': 1, 'variables': [{'state': 'points'}], 'loss': [{'points': true}]}"
#define SOLID(young)                                                                                              \
  BODY "'mesh': {'box': {'size': [1, 1, 1], 'cells': [1, 1, 1]}}, 'energies': [{'energy': 'stvk', 'parameters': " \
       "{'young': " #young ", 'poisson': 0.3, 'density': 1}}]" END
#define ENERGY BODY POINTS ", 'mass': 1, 'energies': [{'name': 'e', 'formula': '0.5*k*dot(x0 - x1, x0 - x1)', "

static void test_bad_files_are_refused_with_the_place(void **state) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{'deformables': 3}", "test.json:1: deformables: expected an object"},
      {"{'deformables': 'x.json'}", "cannot read files"},
      {"{'deformables': {}}", "deformables: \"bodies\" is missing"},
      {"{'deformables': {'bodis': []}}", "unknown key 'bodis', did you mean 'bodies'?"},
      {"{'deformables': {'scheme': 'implicit_eular', 'bodies': []}}",
       "deformables.scheme: 'implicit_eular' is unknown, did you mean 'implicit_euler'?"},
      {"{'deformables': {'method': 'user', 'bodies': []}}",
       "deformables.method: expected \"newton\", \"newton_cg\", \"lbfgs\", \"gradient\" or \"adam\", found 'user'"},
      {"{'deformables': {'scheme': 'rk4', 'bodies': []}}",
       "deformables.scheme: expected \"implicit_euler\", \"bdf2\", \"trapezoid\", \"avf4\", \"symplectic_euler\" or "
       "\"static\", found 'rk4'"},
      {SOLID(0), "energies[0].parameters.young: b_stvk.young, row 0: 0; expected a positive number"},
      {SOLID(-5), "b_stvk.young, row 0: -5; expected a positive number"},
      {"{'deformables': {'tolerance': 0, 'bodies': []}}", "deformables.tolerance: expected a positive"},
      {"{'deformables': {'bodies': []}}", "deformables.bodies: expected a list"},
      {"{'deformables': {'bodies': [\n{}]}}", "test.json:2: deformables.bodies[0]: \"name\" is missing"},
      {"{'deformables': {'bodies': [{'name': 'a.b'}]}}", "bodies[0].name: expected a word"},
      {BODY "'mess': {}" END, "did you mean 'mesh'?"},
      {BODY "'mesh': {}" END, "mesh: expected one of chain"},
      {BODY "'mesh': {'bux': {}}" END, "mesh: unknown key 'bux', did you mean 'box'?"},
      {BODY "'mesh': {'box': {'cells': [1, 1, 1]}}" END, "mesh.box: expected one of \"high\" and \"size\""},
      {BODY "'mesh': {'box': {'size': [1, 1], 'cells': [1, 1, 1]}}" END, "mesh.box.size: expected 3 numbers, found 2"},
      {BODY "'mesh': {'box': {'size': [1, 1, 0], 'cells': [1, 1, 1]}}" END, "mesh.box: "},
      {BODY "'mesh': {'box': {'size': [1, 1, 1], 'cells': [1, 1, 1.5]}}" END, "mesh.box.cells: expected whole numbers"},
      {BODY "'mesh': {'box': {'size': [1, 1, 1], 'cells': [4000000, 4000000, 4000000]}}" END, "expected at most"},
      {BODY "'mesh': {'ball': {'radius': 1}}" END, "mesh.ball: \"shells\" is missing"},
      {BODY "'mesh': {'points': [[0, 0]]}" END, "mesh.points: expected rows of 3 numbers"},
      {BODY "'mesh': {'points': []}" END, "mesh.points: no points"},
      {BODY "'mesh': {'points': [[0, 0, 0], [1, 0, 0]], 'edges': [[0, 1], [1, 2]]}" END,
       "mesh.edges[1]: expected a point number from 0 to 1, found 2"},
      {BODY "'mesh': {'points': [[0, 0, 0], [1, 0, 0]], 'edges': [[0, 0]]}" END, "mesh: "},
      {BODY POINTS ", 'quat': [0, 0, 0, 0]" END, "quat: a quaternion of length zero"},
      {BODY POINTS ", 'quat': [1, 0, 0, 0], 'euler': [0, 0, 0]" END, "expected one of \"quat\" and \"euler\", found both"},
      {BODY POINTS ", 'scale': -1" END, "scale: expected positive"},
      {BODY POINTS ", 'pos': 1" END, "pos: expected 3 numbers"},
      {BODY POINTS ", 'mass': [1, 2]" END, "mass: expected 4 numbers, found 2"},
      {BODY POINTS ", 'mass': [1, 2, -1, 1]" END, "mass: a mass is negative"},
      {BODY POINTS ", 'start': [[0, 0, 0]]" END, "start: expected 4 rows, found 1"},
      {BODY POINTS ", 'sets': {'s': 4}" END, "sets.s: 'b' has no point 4: it has 4"},
      {BODY POINTS ", 'sets': {'s': {'box': [[2, 2, 2], [3, 3, 3]]}}" END, "sets.s: this selects no point of 'b'"},
      {BODY POINTS ", 'sets': {'s': {'box': [[1, 1, 1], [0, 0, 0]]}}" END, "sets.s.box: the first corner"},
      {BODY POINTS ", 'sets': {'s': {'neares': [1, 1, 1]}}" END, "did you mean 'nearest'?"},
      {BODY POINTS ", 'sets': {'left': 0}, 'pins': [{'points': 'letf'}]" END,
       "pins[0].points: 'letf' is neither a set of 'b' nor a group of its mesh, did you mean 'left'?"},
      {BODY POINTS ", 'pins': [{'points': []}]" END, "pins[0].points: this selects no point"},
      {BODY POINTS ", 'pins': [{'axes': 'x'}]" END, "pins[0]: \"points\" is missing"},
      {BODY POINTS ", 'pins': [{'points': 0, 'axes': 'xw'}]" END, "pins[0].axes: expected letters"},
      {BODY POINTS ", 'pins': [{'points': 0}, {'points': true, 'axes': 'z', 'velocity': [0, 0, 1]}]" END,
       "pins[1]: point 0 moves at 0 along z by another pin, at 1 by this one"},
      {BODY POINTS ", 'mass': 1, 'energies': [{}]" END, "energies[0]: expected one of \"energy\" and \"formula\""},
      {BODY POINTS ", 'mass': 1, 'energies': [{'formula': 'x0.x'}]" END, "energies[0]: \"name\" is missing"},
      {BODY POINTS ", 'mass': 1, 'energies': [{'name': 'e', 'formula': '1'}]" END, "energies[0].formula: it looks at no point"},
      {BODY POINTS ", 'mass': 1, 'energies': [{'name': 'e', 'formula': 'dot(x0, x1, x2, x3)'}]" END,
       "energies[0].on: 'b' has no elements that fit"},
      {ENERGY "'on': 'triangles'}]" END, "energies[0].on: 'b' has no elements 'triangles' that fit"},
      {ENERGY "'on': 'edgs'}]" END, "energies[0].on: 'edgs': this names points"},
      {ENERGY "'on': [[0, 1, 2]]}]" END, "energies[0].on: elements of 3 points"},
      {ENERGY "'on': [[0, 4]]}]" END, "energies[0].on[0]: expected a point number"},
      {ENERGY "'on': [[1, 1]], 'parameters': {'k': 1}}]" END, "energies[0]: b_e: element 0 has the point 1 twice"},
      {ENERGY "'parameters': {}}]" END, "energies[0]: "},
      {ENERGY "'parameters': {'k': {'each': [1, 2, 3]}}}]" END, "energies[0].parameters.k.each: 3 values; there are 2 elements"},
      {ENERGY "'parameters': {'k': [[1, 2, 3, 4]]}}]" END, "energies[0].parameters.k: expected a number, a vector"},
      {ENERGY "'parameters': {'k': {'value': 1, 'each': [1, 2]}}}]" END, "one of \"value\" and \"each\""},
      {ENERGY "'parameters': {'k': {'value': -1, 'lower': 0}}}]" END, "energies[0].parameters.k: b_e.k, row 0: -1 is outside"},
      {ENERGY "'parameters': {'k': {'value': 1, 'lower': 2, 'upper': 1}}}]" END, "parameters.k: \"lower\" must be below"},
      {ENERGY "'parameters': {'k': 1}, 'controls': ['q']}]" END, "energies[0].controls[0]: b_e (e) has no parameter 'q'"},
      {ENERGY "'parameters': {'k': {'value': 1, 'constant': true}}, 'controls': ['k']}]" END, "cannot follow controls"},
      {ENERGY "'parameters': {'k': 1}}, {'name': 'e', 'formula': 'x0.x'}]" END, "energies[1]: there is a group 'b_e' already"},
      {BODY POINTS ", 'energies': [{'energy': 'sprin'}]" END,
       "energies[0].energy: unknown material 'sprin', did you mean 'spring'?"},
      {BODY POINTS ", 'energies': [{'energy': 'plastic'}]" END, "plasticity is not supported"},
      {BODY POINTS ", 'energies': [{'energy': 'neo_hookean'}]" END,
       "energies[0].on: 'b' has no elements that fit this energy (it is one of tetrahedra, triangles)"},
      {BODY POINTS ", 'energies': [{'energy': 'spring'}]" END,
       "energies[0].parameters: \"stiffness\" is missing: spring has it [N/m]"},
      {BODY POINTS ", 'energies': [{'energy': 'spring', 'parameters': {'stiffness': 1, 'stifness': 1}}]" END,
       "energies[0].parameters: spring has no parameter 'stifness', did you mean 'stiffness'?"},
      {BODY POINTS ", 'energies': [{'energy': 'spring', 'parameters': {'stiffness': -1}}]" END,
       "energies[0].parameters.stiffness: b_spring.stiffness, row 0: -1 is outside"},
      {BODY POINTS ", 'energies': [{'energy': 'load', 'parameters': {'force': 1}}]" END,
       "parameters.force: expected 3 numbers, found 1"},
      {BODY POINTS ", 'energies': [{'energy': 'spring', 'mass': true, 'parameters': {'stiffness': 1}}]" END,
       "energies[0].mass: is for formulas"},
      {BODY POINTS
       ", 'energies': [{'energy': 'spring', 'parameters': {'stiffness': 1, 'density': 2}, 'controls': ['density']}]" END,
       "controls[0]: b_spring (spring) has no parameter 'density'"},
      {JOINED "{'between': ['b', 'c'], 'energy': 'spring', 'parameters': {'stiffness': 1}}" REST_OF_JOINED,
       "deformables.energies[0].between[1]: there are no points 'c', did you mean 'b'?"},
      {JOINED "{'between': ['b_one', 'b'], 'energy': 'load', 'parameters': {'force': [0, 0, 1]}}" REST_OF_JOINED,
       "energies[0].energy: 'load' is none between 2 points"},
      {JOINED "{'between': ['b_one', 'b_few'], 'name': 'f', 'formula': 'dot(x0, x2)'}" REST_OF_JOINED,
       "energies[0].formula: it looks at 3 points; \"between\" names 2"},
      {JOINED "{'between': ['b_few', 'b'], 'energy': 'spring', 'parameters': {'stiffness': 1}}" REST_OF_JOINED,
       "energies[0].between[1]: 'b' are 4 points; those before are 2"},
      {JOINED "{'between': ['b_one', 'b_few'], 'energy': 'spring', 'parameters': {'stiffness': {'each': [1, 2]}}}" REST_OF_JOINED,
       NULL},
      {BODY POINTS ", 'surface': true" END, "surface: \"contact\" of the deformables is missing"},
      {BODY POINTS ", 'attach': [{'points': 0}]" END, "attach[0]: expected \"points\" and \"body\""},
      {BODY POINTS ", 'attach': [{'points': 0, 'body': 'hand'}]" END, "attach[0]: "},
      {BODY POINTS ", 'attach': [{'points': 9, 'body': 'world'}]" END, "attach[0].points: 'b' has no point 9"},
      {TOUCH "'distnce': 1}" REST, "contact: unknown key 'distnce', did you mean 'distance'?"},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'kind': 'dry'}" REST, "contact.kind: expected \"none\""},
      {TOUCH "'distance': 0.1, 'stiffness': -1}" REST, "contact: "},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'geoms': ['floor']}" REST, "contact.geoms[0]: the model has no geom 'floor'"},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'planes': [{'normal': [0, 0, 0]}]}" REST, "contact.planes[0]: "},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'planes': [{'name': 'floor'}], 'pairs': [{'between': ['b', 'flor']}]}" REST,
       "contact.pairs[0].between: there is no surface 'flor', did you mean 'floor'?"},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'planes': [{'name': 'floor', 'point': [0, 0, -1]}], 'pairs': [{'between': ['b', "
             "'floor'], "
             "'friction': -1}]}" REST,
       "contact.pairs[0].friction: expected a number of 0 or more"},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'planes': [{'name': 'floor', 'point': [0, 0, -1]}], 'pairs': [{'between': ['b', "
             "'floor'], "
             "'friction': 0.5}]}" REST,
       NULL},
      {TOUCH "'distance': 0.1, 'stiffness': 1, 'planes': [{'name': 'b', 'point': [0, 0, -1]}]}" REST,
       "contact.planes[0]: there is a surface 'b' already"},
      {BODY POINTS ", 'mass': 1}]}, 'options': {'integrator': 'RK4'" REST, "RK4 has no implicit step"},
      {HELD ", 'options': {'integrator': 'RK4'" REST, "RK4 has no implicit step"},
      {HELD ", 'options': {'integrator': 'implicitfast'" REST, "need the integrator Euler"},
      {HELD ", 'options': {'eulerdamp': 'enable'" REST, NULL},
      {HELD ", 'contact': {'method': 'impact'" REST, "need the contact method soft or penalty"},
      {HELD ", 'contact': {'method': 'lcp'" REST, "need the contact method soft or penalty"},
      {HELD ", 'contact': {'method': 'penalty'" REST, NULL},
      {HELD_WITH("'scheme': 'bdf2', ", "arm") ", 'options': {" REST,
       "deformables attached to bodies that move need the scheme implicit_euler"},
      {HELD_WITH("'method': 'lbfgs', ", "arm") ", 'options': {" REST,
       "deformables attached to bodies that move need the method newton"},
      {HELD_WITH(RUBS, "arm") ", 'options': {" REST, "deformables attached to bodies that move need friction that is lagged"},
      {HELD_WITH("'scheme': 'bdf2', 'method': 'lbfgs', ", "world") ", 'options': {" REST, NULL},
      {BODY POINTS "}, {'name': 'b', " POINTS END, "bodies[1]: there are points 'b' already"},
      {BODY POINTS ", 'mass': 1" END, NULL},
      {"{'deformables': {'bodies': [{'name': 'b', " POINTS
       ", 'mass': 1}]}, 'steps': 1, 'variables': [{'state': 'points', 'points': [0, 1, "
       "0]}], 'loss': [{'points': true}]}",
       "variables[0].points: point 0 is named twice"},
      {"{'deformables': {'bodies': [{'name': 'b', " POINTS
       ", 'mass': 1}]}, 'steps': 1, 'variables': [{'state': 'points', 'points': "
       "'c'}], 'loss': [{'points': true}]}",
       "variables[0].points: the model has no points 'c'"},
      {"{'model': '<mujoco/>', 'steps': 1, 'variables': [{'state': 'points'}], 'loss': [{'qpos': true}]}", ": "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pbTask *task;
    const char *text = json(cases[i].text);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (!cases[i].says) good(*state, status);
    else if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].says))
      fail_msg("case %zu: status %d, '%s'", i, status, pbContext_Error(*state));
    pbTask_Destroy(task);
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------
// Every allocation fails once: an error, nothing leaks, and the context stays usable.
static void fail_in_turn(const char *text) {
  const char *quoted = json(text);
  for (long fail_at = 1;; fail_at += fail_at < 200 ? 1 : fail_at < 2000 ? 7 : 101) {
    Meter meter = {.fail_at = fail_at};
    pbAllocator allocator = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&allocator);
    if (!ctx) continue;
    pbTask *task;
    pbStatus status = pbTask_Parse(ctx, quoted, strlen(quoted), NULL, "t", &task);
    if (meter.failed && status != pb_no_memory) fail_msg("allocation %ld: %s", fail_at, pbContext_Error(ctx));
    pbTask_Destroy(task);
    if (meter.live != 1) fail_msg("allocation %ld: %ld blocks leak", fail_at, meter.live - 1);
    pbContext_Destroy(ctx);
    if (meter.failed) continue;
    assert_int_equal(status, pb_ok);
    return;
  }
}

static void test_failing_allocations(void **state) {
  (void)state;
  char text[8192];
  snprintf(text, sizeof text, net, "bdf2", "0");
  leave_out(text, "'init': {'point_velocity': [0]},");
  fail_in_turn(text);
  fail_in_turn(
      "{'model': '<mujoco><worldbody><geom name=\\'table\\' type=\\'box\\' size=\\'1 1 .1\\'/><body name=\\'hand\\' pos=\\'0 0 "
      "1\\'><freejoint/><geom size=\\'.1\\'/></body></worldbody></mujoco>', 'deformables': {'bodies': [{'name': 'b', 'mesh': "
      "{'box': {'size': [1, 1, 1], 'cells': [1, 1, 1]}}, 'pos': [0, 0, 2], 'quadratic': true, 'attach': [{'points': 0, 'body': "
      "'hand'}], 'energies': [{'energy': 'spring', 'parameters': {'stiffness': 1e4, 'density': 100}}]}], 'contact': {'distance': "
      "0.1, 'stiffness': 1, 'friction': 0.1, 'geoms': ['table'], 'planes': [{'name': 'floor', 'point': [0, 0, -1]}], 'pairs': "
      "[{'between': ['b', 'table'], 'meet': false}]}}, 'steps': 1, 'variables': [{'state': 'points'}], 'loss': [{'points': "
      "true}]}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_stiffness_from_a_resting_place),
      cmocka_unit_test(test_flight_and_pins),
      cmocka_unit_test(test_places_and_names),
      cmocka_unit_test(test_deformables_say_what_they_are),
      cmocka_unit_test(test_built_in_energies),
      cmocka_unit_test(test_gradients_by_every_kind_of_variable),
      cmocka_unit_test(test_jacobians_agree_with_gradients),
      cmocka_unit_test(test_too_many_surfaces_are_refused),
      cmocka_unit_test(test_equilibria_say_what_is_not_held),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_pairs_rub_without_a_friction_of_all),
      cmocka_unit_test(test_bad_files_are_refused_with_the_place),
      cmocka_unit_test(test_failing_allocations),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
