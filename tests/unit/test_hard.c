// Hard contact in the step (contact.h: lcp, cones, sweeps): against closed forms, against the library of lcp.h, and its gradients
// against differences. That derivatives agree with each other everywhere is tests/conformance's.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/lcp.h>
#include <pullback/pullback.h>

#include "support/one_context.h"
#include "support/support.h"

typedef struct World {
  pbModel *m;
  pbScratch *s;
  const double *theta;
  double x[200];
  int nv, q, v;
} World;

static void begin(World *w, const char *text, const char *const settings[][2]) {
  *w = (World){0};
  w->m = model_of_text(ctx, text);
  for (int i = 0; settings[i][0]; i++) good(ctx, pbModel_SetContact(w->m, settings[i][0], settings[i][1]));
  good(ctx, pbScratch_Create(ctx, w->m, NULL, &w->s));
  w->theta = pbModel_DefaultParams(w->m);
  good(ctx, pbState_Init(ctx, w->m, w->theta, -1, w->x));
  w->nv = pbModel_Size(w->m, "nv");
  w->q = 1;
  w->v = 1 + pbModel_Size(w->m, "nq");
}

static void end(World *w) {
  pbScratch_Destroy(w->s);
  pbModel_Destroy(w->m);
}

static void step(World *w) {
  pbStatus status = pbStep_Forward(w->m, w->theta, w->x, &(pbInput){0}, w->s, NULL);
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(w->s));
}

static const double *field(World *w, const char *name, int *rows) {
  const double *data;
  int cols;
  assert_true(pbScratch_Field(w->s, name, &data, rows, &cols));
  return data;
}

#define BLOCK                                                                                                       \
  "<mujoco><option timestep='0.01'/><worldbody><geom type='plane' size='9 9 .1' friction='.3'/><body pos='0 0 .1'>" \
  "<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/><joint type='slide' axis='0 0 1'/>"          \
  "<geom type='sphere' size='.1' mass='2' friction='.3'/></body></worldbody></mujoco>"

static const char *const methods[] = {"lcp", "cones"};

// ---- closed forms -------------------------------------------------------------------------------------------------------
static void test_slides_and_stops(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    begin(&w, BLOCK, (const char *const[][2]){{"method", methods[k]}, {"cfm", "0"}, {"erp", "0"}, {NULL}});
    w.x[w.v] = 1;
    w.x[w.q + 2] = -1e-9;
    for (int i = 1; i <= 30; i++) {  // decelerates by mu g, sinks not
      step(&w);
      assert_true(fabs(w.x[w.v] - (1 - 0.3 * 9.81 * 0.01 * i)) < 1e-8 && fabs(w.x[w.v + 2]) < 1e-8);
    }
    for (int i = 0; i < 10; i++) step(&w);
    assert_true(fabs(w.x[w.v]) < 1e-8);  // and sticks
    end(&w);
  }
}

// Across the axes the cone pulls back along the way, the diamond along the axis that slips faster, with all the friction there is.
static void test_direction_of_friction(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    begin(&w, BLOCK, (const char *const[][2]){{"method", methods[k]}, {"cfm", "0"}, {"erp", "0"}, {NULL}});
    w.x[w.v] = 0.8;
    w.x[w.v + 1] = 0.6;
    w.x[w.q + 2] = -1e-9;
    step(&w);
    double loss = 0.3 * 9.81 * 0.01;
    assert_true(fabs(w.x[w.v] - (0.8 - (k ? 0.8 * loss : loss))) < 1e-8);
    assert_true(fabs(w.x[w.v + 1] - (0.6 - (k ? 0.6 * loss : 0))) < 1e-8);
    end(&w);
  }
}

static void test_bounces(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    begin(&w, BLOCK,
          (const char *const[][2]){{"method", methods[k]}, {"cfm", "0"}, {"erp", "0.1"}, {"restitution", ".6"}, {NULL}});
    w.x[w.q + 2] = -0.001;
    w.x[w.v + 2] = -2;
    step(&w);
    assert_true(fabs(w.x[w.v + 2] - 1.2) < 1e-8);
    end(&w);
    begin(&w, BLOCK, (const char *const[][2]){{"method", methods[k]}, {"cfm", "0"}, {"erp", "0.1"}, {NULL}});
    w.x[w.q + 2] = -0.001;
    w.x[w.v + 2] = -2;
    step(&w);
    assert_true(fabs(w.x[w.v + 2]) < 1e-8);  // a landing: 1 mm deep after a step of 20 mm
    w.x[w.q + 2] = -0.001;
    w.x[w.v + 2] = -0.05;
    step(&w);
    assert_true(fabs(w.x[w.v + 2] - 0.1 * 0.001 / 0.01) < 1e-8);  // was in touch before: error reduction
    end(&w);
  }
}

// ---- landings -----------------------------------------------------------------------------------------------------------
#define DROP                                                                                                      \
  "<mujoco><option timestep='%g'/><worldbody><geom type='plane' size='9 9 1'/><body pos='0 0 %.17g'><freejoint/>" \
  "<geom %s mass='1'/></body></worldbody></mujoco>"

// Highest point after the first touch, over the floor; depth: of the lowest point of the geom at the end.
static double hop(const char *geom, const char *method, const char *restitution, double h, double height, double *depth) {
  World w;
  char text[600];
  double z = 0, highest = -1;
  bool touched = false;
  snprintf(text, sizeof text, DROP, h, 0.1 + height, geom);
  begin(&w, text, (const char *const[][2]){{"method", method}, {"restitution", restitution}, {NULL}});
  for (int i = 0; i < (int)(0.8 / h); i++) {
    step(&w);
    z = w.x[w.q + 2] - 0.1;
    if (touched) highest = fmax(highest, z);
    touched = touched || z < 0;
  }
  *depth = -z;
  end(&w);
  assert_true(touched);
  return highest;
}

// Without restitution what falls a metre stays where it lands, wherever within a step that is; the overlap goes away.
static void test_lands_at_rest(void **state) {
  (void)state;
  static const char *const geoms[] = {"type='sphere' size='.1'", "type='box' size='.1 .12 .1'",
                                      "type='capsule' size='.1 .2' euler='0 90 0'"};
  static const double steps[] = {2e-3, 1e-3, 5e-4};
  for (int k = 0; k < 2 * 3 * 3 * 20; k++) {
    double h = steps[k / 20 % 3], depth, height = 1 + 4.43 * h * (k % 20) / 20;
    const char *geom = geoms[k / 60 % 3], *method = methods[k / 180];
    double high = hop(geom, method, "0", h, height, &depth);
    if (!(high <= 1e-4 && depth < 1e-6))
      fail_msg("%s, %s, time step %g, from %g m: hops %.3g m, in the end %.3g m deep", method, geom, h, height, high, depth);
  }
}

// With it, the height is e^2 of the drop, from where it was seen to touch.
static void test_bounces_off_its_landing(void **state) {
  (void)state;
  for (int k = 0; k < 40; k++) {
    double h = 5e-4, depth, high = hop("type='sphere' size='.1'", methods[k / 20], ".1", h, 1 + 4.43 * h * (k % 20) / 20, &depth);
    if (!(high < 1.02e-2 && high > 1e-2 - 4.43 * h - 1e-4)) fail_msg("phase %d: hops %.4g m, not 0.01", k % 20, high);
  }
}

// A state that overlaps and rests has not landed: error reduction acts at once, no faster than weight stops it at the surface.
static void test_overlaps_come_apart(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    double h = 0.01, g = 9.81, depth = 1e-3, high = -1;
    begin(&w, BLOCK, (const char *const[][2]){{"method", methods[k]}, {"cfm", "0"}, {"erp", ".2"}, {NULL}});
    w.x[w.q + 2] = -depth;
    for (int i = 0; i < 3; i++) {  // as deep as that: (1 - erp)^n
      step(&w);
      depth *= 0.8;
      assert_true(fabs(w.x[w.q + 2] + depth) < 1e-9);
    }
    w.x[w.q + 2] = -(depth = 0.1);
    w.x[w.v + 2] = 0;
    step(&w);
    double speed = sqrt(0.25 * g * g * h * h + 2 * g * depth) - 0.5 * g * h;
    assert_true(speed < 0.2 * depth / h && fabs(w.x[w.v + 2] - speed) < 1e-9);
    for (int i = 0; i < 100; i++) {
      step(&w);
      high = fmax(high, w.x[w.q + 2]);
    }
    assert_true(high < 1e-4 && w.x[w.q + 2] > -1e-6);
    end(&w);
    // a spring that the step resolves is one still: h^2 K / m = 0.01
    begin(&w, BLOCK, (const char *const[][2]){{"method", methods[k]}, {"cfm", ".5"}, {"erp", ".5"}, {NULL}});
    w.x[w.q + 2] = -(depth = 0.1);
    step(&w);
    double force = (0.5 * depth / h + g * h) / (0.5 + h / 2);  // J v+ + cfm f = erp / h depth, v+ = h (f / m - g)
    assert_true(fabs(w.x[w.v + 2] - h * (force / 2 - g)) < 1e-9);
    end(&w);
  }
}

// A double pendulum, nearly straight, strikes the floor with its tip.
#define STRAIGHT                                                                                                           \
  "<mujoco><option timestep='%g'/><worldbody><geom name='floor' type='plane' size='9 9 1' pos='0 0 %.17g' friction='%g'/>" \
  "<body><joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/><body pos='0 0 -1'>"          \
  "<joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"                                   \
  "<geom type='sphere' size='.01' pos='0 0 -1' mass='0' friction='%g'/></body></body></worldbody></mujoco>"

// A box let go on one edge rocks from edge to edge and comes to rest. No landing of an edge lifts it: energy grows by no more than
// its weight times what the landing before it sank, less than the way of a step, and no corner leaves the floor.
#define TILTED                                                                                                     \
  "<mujoco><option timestep='%g'/><worldbody><geom type='plane' size='9 9 1' friction='.8'/><body pos='0 0 %.17g'" \
  " euler='0 %.17g 0'><freejoint/><geom type='box' size='.1 .15 .2' density='1000' friction='.8'/></body></worldbody></mujoco>"

// Kinetic and potential energy.
static double box_energy(World *w) {
  const double m = 24, *v = w->x + w->v, *I = (const double[]){m / 3 * (.0225 + .04), m / 3 * (.01 + .04), m / 3 * (.01 + .0225)};
  double energy = m * 9.81 * w->x[w->q + 2];
  for (int k = 0; k < 3; k++) energy += 0.5 * m * v[k] * v[k] + 0.5 * I[k] * v[3 + k] * v[3 + k];
  return energy;
}

static double lowest_corner(const World *w) {
  const double *q = w->x + w->q, half[3] = {.1, .15, .2};
  const double up[3] = {2 * (q[4] * q[6] - q[3] * q[5]), 2 * (q[5] * q[6] + q[3] * q[4]), 1 - 2 * (q[4] * q[4] + q[5] * q[5])};
  double low = q[2];
  for (int k = 0; k < 3; k++) low -= fabs(up[k]) * half[k];
  return low;
}

static void test_box_rocks_to_rest(void **state) {
  (void)state;
  static const double steps[] = {5e-3, 2e-3, 1e-3, 5e-4}, tilts[] = {.05, .2, .35};
  for (int k = 0; k < 2 * 4 * 3; k++) {
    double h = steps[k / 2 % 4], tilt = tilts[k / 8], weight = 24 * 9.81, least = INFINITY, grown = 0, high = -1;
    World w;
    char text[600];
    snprintf(text, sizeof text, TILTED, h, .2 * cos(tilt) + .1 * sin(tilt), tilt * 180 / 3.14159265358979323846);
    begin(&w, text, (const char *const[][2]){{"method", methods[k % 2]}, {NULL}});
    double start = box_energy(&w), energy = start, most = start;

    for (int i = 0; i < 3 / h; i++) {
      step(&w);
      energy = box_energy(&w);
      grown = fmax(grown, energy - least);
      least = fmin(least, energy);
      most = fmax(most, energy);
      high = fmax(high, lowest_corner(&w));
    }

    // speed of the edge that lands: less than 1 m/s
    if (!(grown < weight * h && most - start < weight * h * 0.1 && high < 2e-5 && fabs(energy - weight * .2) < 1e-5))
      fail_msg("%s, time step %g, from %g rad: energy grows by %.3g J, to %.3g J over the start, %.3g J over rest; hops %.3g m",
               methods[k % 2], h, tilt, grown, most - start, energy - weight * .2, high);
    end(&w);
  }
}

// A run stopped anywhere in a landing and resumed by another scratch has the same bits, its report included.
static void test_landing_resumes(void **state) {
  (void)state;
  static const char *const restitution[] = {"0", ".5"};
  for (int k = 0; k < 4; k++) {
    enum { count = 60 };
    World w, other;
    static double x[count + 1][200], made[count + 1];
    char text[1000];
    int landed = 0;
    if (k / 2) snprintf(text, sizeof text, STRAIGHT, 1e-3, -2 * cos(0.5) - 0.0200001, .7, .7);
    else snprintf(text, sizeof text, TILTED, 1e-3, .2 * cos(.2) + .1 * sin(.2) + .001, 11.459155902616464);
    const char *const settings[][2] = {{"method", methods[k % 2]}, {"restitution", restitution[k / 2]}, {NULL}};
    begin(&w, text, settings);
    begin(&other, text, settings);
    if (k / 2) {
      w.x[w.q] = 0.5;
      w.x[w.v] = 1;
      w.x[w.v + 1] = -4;
    }

    for (int i = 0; i < count; i++) {
      memcpy(x[i], w.x, sizeof w.x);
      step(&w);
      made[i] = pbScratch_Report(w.s).gain;
      landed += pbScratch_Report(w.s).rows > 0;
    }
    memcpy(x[count], w.x, sizeof w.x);
    assert_true(landed > 0 && landed < count);

    for (int from = 1; from < count; from++) {
      pbScratch_Destroy(other.s);
      good(ctx, pbScratch_Create(ctx, other.m, NULL, &other.s));
      memcpy(other.x, x[from], sizeof other.x);
      for (int i = from; i < count; i++) {
        step(&other);
        assert_true(pbScratch_Report(other.s).gain == made[i]);
      }
      assert_memory_equal(other.x, x[count], sizeof other.x);
    }
    end(&w);
    end(&other);
  }
}

// A chain of three links that begins inside the floor comes out of it: not faster than weight takes back, e and friction or not.
#define ARM                                                                                                       \
  "<mujoco><option timestep='%g'/><worldbody><geom type='plane' size='9 9 1' friction='%g'/><body pos='0 0 %g'>"  \
  "%s<geom type='capsule' fromto='0 0 0 .3 0 -.4' size='.02' mass='1' friction='%g'/><body pos='.3 0 -.4'>"       \
  "<joint axis='0 1 0'/><geom type='capsule' fromto='0 0 0 -.2 0 -.4' size='.02' mass='.7' friction='%g'/>"       \
  "<body pos='-.2 0 -.4'><joint axis='0 1 0'/><geom type='capsule' fromto='0 0 0 .2 0 -.38' size='.02' mass='.5'" \
  " friction='%g'/></body></body></body></worldbody></mujoco>"

static double kinetic_energy(World *w) {
  int rows;
  double energy = 0;
  good(ctx, pbStep_Observe(w->m, w->theta, w->x, &(pbInput){0}, w->s, NULL));
  assert_int_equal(pbScratch_Gather(w->s), pb_ok);
  const double *M = field(w, "M", &rows);
  for (int i = 0; i < w->nv * w->nv; i++) energy += 0.5 * w->x[w->v + i / w->nv] * M[i] * w->x[w->v + i % w->nv];
  return energy;
}

static void test_arm_begins_in_the_floor(void **state) {
  (void)state;
  static const double frictions[] = {0, .7, 1.5}, depths[] = {.002, .02, .1};
  static const char *const restitution[] = {"0", ".5"}, *const joints[] = {"<joint axis='0 1 0'/>", "<freejoint/>"};
  for (int k = 0; k < 2 * 3 * 3 * 2 * 2; k++) {
    double mu = frictions[k / 2 % 3], depth = depths[k / 6 % 3], h = 1e-3, made = 0, most = 0;
    World w;
    char text[1500];
    snprintf(text, sizeof text, ARM, h, mu, 1.2 - depth, joints[k / 36], mu, mu, mu);
    begin(&w, text, (const char *const[][2]){{"method", methods[k % 2]}, {"restitution", restitution[k / 18 % 2]}, {NULL}});
    for (int i = 0; i < 3; i++) w.x[w.v + w.nv - 3 + i] = (const double[]){.5, -.5, 1}[i];

    for (int i = 0; i < 200; i++) {
      step(&w);
      made += pbScratch_Report(w.s).gain;
      most = fmax(most, kinetic_energy(&w));
    }

    double given = 0.1 + 2.2 * 9.81 * (depth + 0.2);  // at the start, by its lift, and of its own fall
    if (!(most < given) || made > 0)
      fail_msg("%s, %s, friction %g, restitution %s, %g m deep: %.3g J at most, not %.3g; %.3g J made", methods[k % 2],
               joints[k / 36], mu, restitution[k / 18 % 2], depth, most, given, made);
    end(&w);
  }
}

// ---- energy of bounces ---------------------------------------------------------------------------------------------------
// Of links of 1 m and 1 kg, by the rates of their own angles.
static double pendulum_energy(const World *w, double bend) {
  double a = w->x[w->v], b = a + w->x[w->v + 1];
  return 0.5 * (0.083 + 0.25 + 1) * a * a + 0.5 * (0.083 + 0.25) * b * b + 0.5 * cos(bend) * a * b;
}

// An evaluation without a step makes nothing.
static int told_by_observation(World *w) {
  good(ctx, pbStep_Observe(w->m, w->theta, w->x, &(pbInput){0}, w->s, NULL));
  return pbScratch_Report(w->s).gains;
}

// Newton's restitution makes energy where friction couples normals with slip, and the report has the joules, the nearer the
// shorter the step; not without either of them.
static void test_energy_made_is_told(void **state) {
  (void)state;
  static const double steps[] = {1e-3, 1e-4, 1e-5};
  for (int k = 0; k < 2 * 3 * 3; k++) {
    double h = steps[k / 2 % 3], friction = k / 6 == 1 ? 0 : 0.7, made = 0;
    bool makes = k / 6 == 0;
    int told = 0;
    World w;
    char text[1000];
    pbReport report = {0};
    snprintf(text, sizeof text, STRAIGHT, h, -2 * cos(0.5) - 0.0100001, friction, friction);
    begin(&w, text, (const char *const[][2]){{"method", methods[k % 2]}, {"restitution", k / 6 == 2 ? "0" : ".5"}, {NULL}});
    w.x[w.q] = 0.5;
    w.x[w.v] = 1;
    w.x[w.v + 1] = -4;

    for (int i = 0; i < 6; i++) {
      double bend = w.x[w.q + 1], before = pendulum_energy(&w, bend);
      step(&w);
      double change = pendulum_energy(&w, bend) - before;
      if (fabs(change) > fabs(made)) made = change;
      if (pbScratch_Report(w.s).gains) {
        report = pbScratch_Report(w.s);
        told++;
      }
    }

    if (told != makes || (makes && !(fabs(report.gain - made) < 40 * h * made && made > 300)))
      fail_msg("%s, friction %g, time step %g: %d told, %.6g J of %.6g", methods[k % 2], friction, h, told, report.gain, made);
    if (makes) assert_true(report.gains == 1 && report.gaining[0] == 0 && report.gaining[1] == 1);
    if (makes) assert_int_equal(told_by_observation(&w), 0);
    end(&w);
  }
}

// Bounces of a spinning ball and of a box that lands flat make none, elastic ones included, at any phase of a step.
static void test_bounces_make_no_energy(void **state) {
  (void)state;
  static const char *const geoms[] = {"type='sphere' size='.1' friction='.5'", "type='box' size='.1 .12 .1' friction='.5'"};
  static const char *const all[] = {"lcp", "cones", "sweeps"}, *const restitution[] = {".5", ".8", "1"};
  for (int k = 0; k < 2 * 3 * 3 * 4; k++) {
    double h = 2e-3;
    bool ball = k % 2 == 0, bounced = false;
    World w;
    char text[600];
    snprintf(text, sizeof text, DROP, h, 0.3 + 2 * h * (k / 18) / 4, geoms[k % 2]);
    begin(&w, text, (const char *const[][2]){{"method", all[k / 2 % 3]}, {"restitution", restitution[k / 6 % 3]}, {NULL}});
    w.x[w.v] = 0.7;
    w.x[w.v + 1] = -0.4;
    if (ball) {
      w.x[w.v + 3] = 5;
      w.x[w.v + 4] = -20;
      w.x[w.v + 5] = 9;
    }

    for (int i = 0; i < 400; i++) {
      step(&w);
      pbReport report = pbScratch_Report(w.s);
      bounced = bounced || report.rows > 0;
      if (report.gains)
        fail_msg("%s, %s, restitution %s, step %d: %.3g J", geoms[k % 2], all[k / 2 % 3], restitution[k / 6 % 3], i, report.gain);
    }
    assert_true(bounced);
    end(&w);
  }
}

// ---- against the layer --------------------------------------------------------------------------------------------------
#define HEAP                                                                                                                \
  "<mujoco><option timestep='0.005'/><default><geom friction='.6' density='800'/></default><worldbody>"                     \
  "<geom type='plane' size='9 9 .1'/><body pos='0 0 .12'><freejoint/><geom type='box' size='.2 .15 .1'/><site name='all' "  \
  "size='.5'/></body>"                                                                                                      \
  "<body pos='.05 .02 .34' euler='0 0 25'><freejoint/><geom type='box' size='.1 .1 .1'/></body>"                            \
  "<body pos='.3 .1 .1'><freejoint/><geom size='.08'/></body><body pos='-.1 .05 .37'><freejoint/><geom size='.06'/></body>" \
  "</worldbody><sensor><touch site='all'/></sensor></mujoco>"

// Accelerations and, of cones, forces as pbCones_Solve and pbLcp_Solve (four directions) find them from M, J, aref and tau.
static void layer(World *w, int rows, bool cones, double *a, double *forces) {
  int n = w->nv, contacts = rows / 3, m = cones ? rows : 6 * contacts, unused;
  const double *M = field(w, "M", &unused), *J = field(w, "efc_J", &unused), *aref = field(w, "efc_aref", &unused);
  const double *tau = field(w, "qfrc_smooth", &unused), *R = field(w, "efc_R", &unused);
  double *p = calloc((size_t)n, sizeof *p), *G = calloc((size_t)(m * n), sizeof *G), *h = calloc((size_t)m, sizeof *h);
  double *F = calloc((size_t)(m * m), sizeof *F), *mu = calloc((size_t)contacts + 1, sizeof *mu);
  double *z = calloc((size_t)m, sizeof *z), *s = calloc((size_t)m, sizeof *s);
  for (int i = 0; i < n; i++) p[i] = -tau[i];
  for (int c = 0; c < contacts; c++) {
    mu[c] = 0.6;
    for (int r = 0; r < 3 && cones; r++) {
      h[3 * c + r] = -aref[3 * c + r];
      for (int i = 0; i < n; i++) G[(3 * c + r) * n + i] = -J[(3 * c + r) * n + i];
    }
    for (int r = 0; r < 5 && !cones; r++) {  // normal, +- two tangents
      int from = 3 * c + (r + 1) / 2, to = 6 * c + r;
      double sign = r > 0 && r % 2 == 0 ? -1 : 1;
      h[to] = -sign * aref[from];
      F[to * m + to] = R[from];
      if (r > 0) F[to * m + to + (r % 2 ? 1 : -1)] = -R[from];  // the force is the difference of both directions
      for (int i = 0; i < n; i++) G[to * n + i] = -sign * J[from * n + i];
      if (r > 0) {
        F[to * m + 6 * c + 5] = 1;
        F[(6 * c + 5) * m + to] = -1;
      }
    }
    if (!cones) F[(6 * c + 5) * m + 6 * c] = 0.6;
  }
  size_t size = cones ? pbCones_WorkSize(n, contacts, 0) : pbLcp_WorkSize(n, m, 0);
  void *work = malloc(size);
  pbLcpSolution solution = {.x = a, .z = z, .s = s};
  if (cones)
    good(ctx, pbCones_Solve(ctx, &(pbCones){.n = n, .contacts = contacts, .Q = M, .p = p, .G = G, .h = h, .mu = mu}, NULL, work,
                            size, &solution, NULL));
  else
    good(ctx,
         pbLcp_Solve(ctx, &(pbLcp){.n = n, .m = m, .Q = M, .p = p, .G = G, .h = h, .F = F}, NULL, work, size, &solution, NULL));
  if (cones) memcpy(forces, z, (size_t)rows * sizeof *z);
  free(p);
  free(G);
  free(h);
  free(F);
  free(mu);
  free(z);
  free(s);
  free(work);
}

// How far accelerations a and forces f are from Coulomb's law and the equations of motion: forces in units of the largest, what
// moves in units of the largest acceleration. The law may have several solutions.
static double misfit(World *w, int rows, const double *a, const double *f) {
  int n = w->nv, unused;
  const double *M = field(w, "M", &unused), *J = field(w, "efc_J", &unused), *aref = field(w, "efc_aref", &unused);
  const double *tau = field(w, "qfrc_smooth", &unused);
  double most = 1, size = 1, worst = 0;
  for (int r = 0; r < rows; r++) most = fmax(most, fabs(f[r]));
  for (int i = 0; i < n; i++) size = fmax(size, fabs(a[i]));

  for (int c = 0; c < rows; c += 3) {
    double x[3];
    for (int r = 0; r < 3; r++) {
      x[r] = -aref[c + r];
      for (int i = 0; i < n; i++) x[r] += J[(c + r) * n + i] * a[i];
    }
    double slip = hypot(x[1], x[2]), bound = 0.6 * f[c];
    worst = fmax(worst, fmax(fmax(-f[c] / most, -x[0] / size), fmin(f[c] / most, x[0] / size)));
    worst = fmax(worst, (hypot(f[c + 1], f[c + 2]) - bound) / most);
    // what slips is opposed by all that friction has, however little: |slip| f_t = -bound slip
    for (int r = 1; r < 3 && bound > 1e-6 * most; r++) worst = fmax(worst, fabs(slip * f[c + r] / bound + x[r]) / size);
  }

  for (int i = 0; i < n; i++) {
    double left = -tau[i];
    for (int k = 0; k < n; k++) left += M[i * n + k] * a[k];
    for (int r = 0; r < rows; r++) left -= J[r * n + i] * f[r];
    worst = fmax(worst, fabs(left) / most);
  }
  return worst;
}

static void test_agrees_with_the_layer(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    double a[64], forces[600];
    int rows, unused, compared = 0, others = 0;
    // the layer's cones have no softness
    begin(&w, HEAP, (const char *const[][2]){{"method", methods[k]}, {"cfm", k ? "0" : "1e-6"}, {"erp", ".1"}, {NULL}});
    for (int i = 0; i < 60; i++) {
      step(&w);
      if (i % 4) continue;
      good(ctx, pbStep_Observe(w.m, w.theta, w.x, &(pbInput){0}, w.s, NULL));
      assert_int_equal(pbScratch_Gather(w.s), pb_ok);
      const double *qacc = field(&w, "qacc", &unused);
      field(&w, "efc_J", &rows);
      // between sticking and sliding to rounding: solved to a residual that is told
      assert_true(pbScratch_Report(w.s).residual < 1e-4);
      if (!rows || pbScratch_Report(w.s).residual > 1e-9) continue;
      assert_true(rows <= 600);
      layer(&w, rows, k == 1, a, forces);
      double size = 1;
      for (int d = 0; d < w.nv; d++) size = fmax(size, fabs(a[d]));
      int other = -1;
      for (int d = 0; d < w.nv; d++) other = !(fabs(a[d] - qacc[d]) <= 1e-6 * size) ? d : other;

      // Coulomb's law may have several solutions: then both obey it
      if (k == 1) {
        double ours = misfit(&w, rows, qacc, field(&w, "efc_force", &unused)), theirs = misfit(&w, rows, a, forces);
        if (!(ours < 1e-7 && theirs < 1e-7)) fail_msg("step %d: off Coulomb's law by %.2g, the layer by %.2g", i, ours, theirs);
      }
      if (other >= 0 && k == 0)
        fail_msg("%s, step %d, dof %d: %.12g, the layer %.12g (residual %.2g)", methods[k], i, other, qacc[other], a[other],
                 pbScratch_Report(w.s).residual);
      others += other >= 0;
      compared++;
    }
    assert_true(compared >= 6 && compared - others >= 5);
    end(&w);
  }
}

// ---- gradients ----------------------------------------------------------------------------------------------------------
// Rows of the Jacobian and the gradient by friction, restitution and mass against differences, where the step is smooth.
static void differences(const char *text, const char *const settings[][2], const double *q, const double *v, const char *param) {
  World w;
  double A[36], before[64], record[200], x_bar[6], eps = 1e-6;
  begin(&w, text, settings);
  for (int i = 0; i < w.nv; i++) {
    w.x[w.q + i] = q[i];
    w.x[w.v + i] = v[i];
  }
  memcpy(before, w.x, sizeof before);
  step(&w);
  pbTape_Record(w.m, before, w.s, record);
  good(ctx, pbStep_Jacobian(w.m, w.theta, record, &(pbInput){0}, w.s, A, NULL, NULL, NULL));
  int n = 2 * w.nv;
  for (int j = 0; j < n; j++) {
    double next[2][64], e[6] = {0}, d[6];
    e[j] = 1;
    for (int side = 0; side < 2; side++) {
      memcpy(w.x, before, sizeof before);
      pbState_Move(w.m, w.x, e, side ? eps : -eps);
      step(&w);
      memcpy(next[side], w.x, sizeof next[side]);
    }
    pbState_Difference(w.m, next[0], next[1], d);
    for (int i = 0; i < n; i++) {
      if (!(fabs(A[i * n + j] - d[i] / (2 * eps)) <= 1e-6 * (1 + fabs(A[i * n + j]))))
        fail_msg("%s: d next[%d] / d x[%d] = %.9g, by differences %.9g", settings[0][1], i, j, A[i * n + j], d[i] / (2 * eps));
    }
  }
  pbParam p;
  good(ctx, pbModel_Param(ctx, w.m, param, &p));
  double *theta = malloc(pbModel_ParamSize(w.m) * sizeof *theta), *bar = calloc(pbModel_ParamSize(w.m), sizeof *bar),
         end_v[2] = {0};
  double next_bar[6] = {0.3, -0.2, 0.5, 1, 2, 3};
  memset(x_bar, 0, sizeof x_bar);
  good(ctx, pbStep_Vjp(w.m, w.theta, record, &(pbInput){0}, next_bar, NULL, w.s, x_bar, NULL, bar));
  for (int side = 0; side < 2; side++) {
    memcpy(theta, w.theta, pbModel_ParamSize(w.m) * sizeof *theta);
    theta[p.offset] += side ? eps : -eps;
    memcpy(w.x, before, sizeof before);
    good(ctx, pbStep_Forward(w.m, theta, w.x, &(pbInput){0}, w.s, NULL));
    for (int i = 0; i < w.nv; i++) end_v[side] += next_bar[i] * w.x[w.q + i] + next_bar[w.nv + i] * w.x[w.v + i];
  }
  double slope = (end_v[1] - end_v[0]) / (2 * eps);
  if (!(fabs(bar[p.offset] - slope) <= 1e-6 * (1 + fabs(slope)) && slope != 0))
    fail_msg("%s by %s: %.9g, by differences %.9g", settings[0][1], param, bar[p.offset], slope);
  free(theta);
  free(bar);
  end(&w);
}

static void test_gradients(void **state) {
  (void)state;
  static const char *const all[] = {"lcp", "cones", "sweeps"};
  for (int k = 0; k < 3; k++) {
    const char *const settings[][2] = {{"method", all[k]},    {"cfm", "1e-3"},    {"erp", ".2"},
                                       {"restitution", ".5"}, {"mixing", "mean"}, {NULL}};
    differences(BLOCK, settings, (double[]){0, 0, -1e-3}, (double[]){1.5, .4, -.01}, "geom_friction:1:0");  // slides
    differences(BLOCK, settings, (double[]){0, 0, -1e-3}, (double[]){.1, .05, -2}, "geom_restitution:1");   // sticks, bounces
    differences(BLOCK, settings, (double[]){0, 0, -1e-3}, (double[]){1.5, .4, -.3}, "geom_restitution:0");  // slides, bounces
    differences(BLOCK, settings, (double[]){0, 0, -1e-3}, (double[]){1e-4, 1e-5, -1e-3}, "body_mass:1");    // rests
  }
  for (int k = 0; k < 2; k++) {
    const char *const settings[][2] = {{"method", all[k]}, {"cfm", "1e-4"}, {"erp", ".5"}, {NULL}};
    static const char *const by[] = {"gravity:2", "timestep", "geom_size:1:0"};
    for (int p = 0; p < 3; p++) {
      differences(BLOCK, settings, (double[]){0, 0, -1e-2}, (double[]){1.5, .4, -.5}, by[p]);      // is 1 cm deep, slides, rises
      differences(BLOCK, settings, (double[]){0, 0, -1e-2}, (double[]){.1, .05, -.5}, by[p]);      // sticks
      differences(BLOCK, settings, (double[]){0, 0, -1e-4}, (double[]){1.5, .4, -.5}, by[p % 2]);  // lands
    }
  }
}

// Where rows outnumber dofs the derivatives go by way of the dofs: forward and reverse agree there too.
static void test_redundant_rows(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    World w;
    double before[200], record[400], dx[48], bar[48], next[48], x_bar[48], forward, reverse, size, touch;
    const double touch_bar = 1e-3;
    pbObservationBar seen = {.sensordata = &touch_bar};
    int rows, redundant = 0;
    begin(&w, HEAP, (const char *const[][2]){{"method", methods[k]}, {"cfm", "1e-6"}, {"erp", ".1"}, {NULL}});
    for (int i = 0; i < 40; i++) {
      memcpy(before, w.x, sizeof before);
      step(&w);
      pbTape_Record(w.m, before, w.s, record);
      if (i < 20) continue;
      assert_int_equal(pbScratch_Gather(w.s), pb_ok);
      field(&w, "efc_J", &rows);
      redundant += rows > w.nv;
      for (int d = 0; d < 2 * w.nv; d++) {
        dx[d] = sin(7.0 * d + i);
        bar[d] = cos(5.0 * d - i);
        x_bar[d] = 0;
      }
      good(ctx, pbStep_Jvp(w.m, w.theta, record, &(pbInput){0}, &(pbDirection){.x = dx}, w.s, next, &touch, NULL, NULL));
      good(ctx, pbStep_Vjp(w.m, w.theta, record, &(pbInput){0}, bar, &seen, w.s, x_bar, NULL, NULL));
      forward = touch_bar * touch;
      reverse = 0;
      size = fabs(forward);
      for (int d = 0; d < 2 * w.nv; d++) {
        forward += bar[d] * next[d];
        reverse += x_bar[d] * dx[d];
        size += fabs(bar[d] * next[d]) + fabs(x_bar[d] * dx[d]);
      }
      if (!(fabs(forward - reverse) <= 1e-8 * size))
        fail_msg("%s, step %d: %.15g forward, %.15g in reverse", methods[k], i, forward, reverse);
    }
    assert_true(redundant > 10);
    end(&w);
  }
}

// ---- sweeps -----------------------------------------------------------------------------------------------------------------
static void test_sweeps_converge(void **state) {
  (void)state;
  static const char *const orders[] = {"gauss-seidel", "jacobi"};
  World w[3];
  for (int k = 0; k < 2; k++)
    begin(&w[k], HEAP,
          (const char *const[][2]){
              {"method", "sweeps"}, {"sweeps", "20000"}, {"order", orders[k]}, {"cfm", "1e-3"}, {"erp", ".2"}, {NULL}});
  for (int i = 0; i < 20; i++) {
    step(&w[0]);
    step(&w[1]);
    for (int d = 0; d < w[0].nv; d++) assert_true(fabs(w[0].x[w[0].v + d] - w[1].x[w[1].v + d]) < 1e-6);
  }
  end(&w[0]);
  end(&w[1]);
  begin(&w[2], HEAP, (const char *const[][2]){{"method", "sweeps"}, {"sweeps", "1"}, {NULL}});
  for (int i = 0; i < 20; i++) step(&w[2]);
  assert_false(pbScratch_Report(w[2].s).converged);  // said, not hidden
  end(&w[2]);
}

// A weight on a light ball: each sweep hands down so little that corrections are small from the first one on. What is left counts.
#define TOWER                                                                                             \
  "<mujoco><option timestep='.01'/><worldbody><geom type='plane' size='9 9 1'/><body pos='0 0 .0999999'>" \
  "<joint type='slide' axis='0 0 1'/><geom size='.1' mass='1'/></body><body pos='0 0 .2999998'>"          \
  "<joint type='slide' axis='0 0 1'/><geom size='.1' mass='%g'/></body></worldbody></mujoco>"

static void test_slow_sweeps_are_told(void **state) {
  (void)state;
  static const struct {
    double mass;
    const char *order, *sweeps;
    bool converges;
  } c[] = {{1, "gauss-seidel", "200", true},
           {1e7, "gauss-seidel", "50", false},
           {1e7, "jacobi", "50", false},
           {1e3, "gauss-seidel", "30000", true}};
  for (int k = 0; k < 4; k++) {
    World w;
    char text[600];
    snprintf(text, sizeof text, TOWER, c[k].mass);
    begin(&w, text,
          (const char *const[][2]){
              {"method", "sweeps"}, {"sweeps", c[k].sweeps}, {"order", c[k].order}, {"cfm", "0"}, {"erp", ".2"}, {NULL}});
    step(&w);
    pbReport report = pbScratch_Report(w.s);
    double error = fabs(w.x[w.v + 1]) / (9.81 * 0.01);  // of the force on the weight, relative: it should rest
    if (report.converged != c[k].converges || !(c[k].converges ? error < 1e-3 : error > 0.9))
      fail_msg("%g kg on 1 kg, %s: error %.3g, residual %.3g", c[k].mass, c[k].order, error, report.residual);
    if (!c[k].converges) assert_true(report.residual > 0.5 * error);
    end(&w);
  }
}

// ---- what is refused ------------------------------------------------------------------------------------------------------------
static void test_refusals(void **state) {
  (void)state;
  static const char *const bad[][3] = {{"kappa", "1", "kappa"}, {"onset", ".1", "onset"}};
  for (int k = 0; k < 2; k++) {
    pbModel *m = model_of_text(ctx, BLOCK);
    pbScratch *s = NULL;
    good(ctx, pbModel_SetContact(m, "method", "cones"));
    good(ctx, pbModel_SetContact(m, bad[k][0], bad[k][1]));
    assert_int_not_equal(pbScratch_Create(ctx, m, NULL, &s), pb_ok);
    assert_non_null(strstr(pbContext_Error(ctx), bad[k][2]));
    good(ctx, pbModel_SetContact(m, bad[k][0], "0"));
    good(ctx, pbModel_SetOption(m, "integrator", "RK4"));
    assert_int_not_equal(pbScratch_Create(ctx, m, NULL, &s), pb_ok);
    assert_non_null(strstr(pbContext_Error(ctx), "RK4"));
    assert_int_equal(pbModel_SetContact(m, "sweeps", "2.5"), pb_bad_argument);
    pbModel_Destroy(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slides_and_stops),
      cmocka_unit_test(test_direction_of_friction),
      cmocka_unit_test(test_bounces),
      cmocka_unit_test(test_agrees_with_the_layer),
      cmocka_unit_test(test_lands_at_rest),
      cmocka_unit_test(test_bounces_off_its_landing),
      cmocka_unit_test(test_overlaps_come_apart),
      cmocka_unit_test(test_box_rocks_to_rest),
      cmocka_unit_test(test_landing_resumes),
      cmocka_unit_test(test_arm_begins_in_the_floor),
      cmocka_unit_test(test_energy_made_is_told),
      cmocka_unit_test(test_bounces_make_no_energy),
      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_redundant_rows),
      cmocka_unit_test(test_sweeps_converge),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_slow_sweeps_are_told),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
