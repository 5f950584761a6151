// What a machine computes, as bits: scenes that need no file, their states after a while and gradients, a line each with a number
// that tells whether all bits are the same, and the first numbers. tools/other_machines compares them between machines.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pullback/pullback.h>

enum { MOST = 256, STEPS = 200 };

static uint64_t mix(uint64_t hash, const double *x, int n) {
  for (int i = 0; i < n; i++) {
    uint64_t bits;

    memcpy(&bits, x + i, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(1099511628211);
  }
  return hash;
}

static void tell(const char *scene, const char *what, const double *x, int n) {
  printf("%s %s %016" PRIx64, scene, what, mix(UINT64_C(14695981039346656037), x, n));

  // Enough of them to see how far apart two machines are.
  for (int i = 0; i < n && i < 20; i++) printf(" %.17g", x[i]);
  printf("\n");
}

static int add_body(pbSpec *spec, const char *name, int parent, double x, double z) {
  pbBodyDef body = pbBodyDef_Default();
  body.name = name;
  body.parent = parent;
  body.pose.pos[0] = x;
  body.pose.pos[2] = z;
  return pbSpec_AddBody(spec, &body);
}

static void add_joint(pbSpec *spec, int body, int type) {
  pbJointDef joint = pbJointDef_Default();
  joint.body = body;
  joint.type = type;

  // About or along y.
  joint.axis[0] = 0;
  joint.axis[1] = 1;
  joint.axis[2] = 0;
  pbSpec_AddJoint(spec, &joint);
}

static void add_geom(pbSpec *spec, int body, int type, double a, double b, double c) {
  pbGeomDef geom = pbGeomDef_Default();
  geom.body = body;
  geom.type = type;

  geom.size[0] = a;
  geom.size[1] = b;
  geom.size[2] = c;
  pbSpec_AddGeom(spec, &geom);
}

// Shapes that fall onto a plane and onto each other.
static void fill_heap(pbSpec *spec) {
  static const int types[] = {pb_geomBox, pb_geomCapsule, pb_geomSphere, pb_geomCylinder};
  static const char *const names[] = {"box", "capsule", "ball", "can"};
  add_geom(spec, 0, pb_geomPlane, 5, 5, 1);

  for (int i = 0; i < 4; i++) {
    int body = add_body(spec, names[i], 0, .03 * i, .2 + .25 * i);

    add_joint(spec, body, pb_jntFree);
    add_geom(spec, body, types[i], .1, .08, .05);
  }
}

// Three links that swing.
static void fill_chain(pbSpec *spec) {
  static const char *const names[] = {"upper", "middle", "lower"};

  for (int i = 0, parent = 0; i < 3; i++) {
    parent = add_body(spec, names[i], parent, i ? .3 : 0, i ? 0 : 1);

    add_joint(spec, parent, pb_jntHinge);
    add_geom(spec, parent, pb_geomCapsule, .03, .1, 0);
  }
}

static pbStatus run(pbContext *ctx, const pbModel *model, const char *scene) {
  static double x[MOST], end[MOST], seed[MOST], gradient[MOST];
  const double *theta = pbModel_DefaultParams(model);
  int n = pbModel_StateSize(model), nq = pbModel_Size(model, "nq"), nv = pbModel_Size(model, "nv");
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  if (n > MOST) return pb_capacity;

  pbStatus status = pbState_Init(ctx, model, theta, -1, x);
  for (int i = 0; i < nv; i++) x[1 + nq + i] = .1 * (i % 5) - .2;
  for (int i = 0; i < nq; i++) seed[i] = i % 3 - 1;

  if (status == pb_ok) status = pbRollout_Plan(ctx, model, STEPS, 0, &plan);
  if (status == pb_ok) status = pbRollout_Create(ctx, model, &plan, NULL, &rollout);
  pbRolloutOutput output = {.final_state = end};
  if (status == pb_ok) status = pbRollout_Forward(rollout, theta, x, NULL, &output);
  if (status == pb_ok) tell(scene, "state", end, n);

  pbRolloutBar bar = {.qpos = {.data = seed, .count = 1}};
  pbRolloutGradient found = {.x0 = gradient};
  if (status == pb_ok) status = pbRollout_Vjp(rollout, &bar, NULL, &found, NULL);
  if (status == pb_ok) tell(scene, "gradient", gradient, pbModel_TangentSize(model));
  pbRollout_Destroy(rollout);
  return status;
}

static pbStatus try_scene(pbContext *ctx, const char *scene, void (*fill)(pbSpec *)) {
  pbSpec *spec = NULL;
  pbModel *model = NULL;
  pbStatus status = pbSpec_Create(ctx, &spec);
  if (status != pb_ok) return status;

  // A const model from what was described.
  fill(spec);
  status = pbSpec_Compile(spec, &model);
  if (status == pb_ok) status = run(ctx, model, scene);
  if (status != pb_ok) fprintf(stderr, "%s: %s: %s\n", scene, pbStatus_Text(status), pbContext_Error(ctx));

  pbModel_Destroy(model);
  pbSpec_Destroy(spec);
  return status;
}

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  if (!ctx) return 1;

  bool good = try_scene(ctx, "chain", fill_chain) == pb_ok && try_scene(ctx, "heap", fill_heap) == pb_ok;
  pbContext_Destroy(ctx);
  return !good;
}
