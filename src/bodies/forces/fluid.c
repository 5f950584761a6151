// Forces of the medium on bodies (multibody/fluid.h).
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"
#include "multibody/fluid.h"
#include "multibody/spatial.h"
#include "multibody/wrench.h"

static void fluid_forces(NUM(pbMechanism) *w) {
  if (!w->has_fluid) return;

  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || re(w->p.body_mass[b]) < 1e-15) continue;
    num wrench[6] = {0};
    NUM(pbFluid_Body)(w, b, wrench);
    add_wrench(w, b, wrench, w->qfrc_fluid);
  }
}

// D += S_i' B S_j for a body's 6x6 velocity derivative B about ref.
static void add_body_block(const NUM(pbMechanism) *w, int body, const num B[36], num *D) {
  const pbTreePattern *tree = &w->t->M;
  int end = w->t->body_dofend[body];
  if (end < 0) return;
  const int *chain = tree->chain + tree->adr[end];
  PB_VALIDATE(pb_ascending(chain, tree->depth[end] + 1));

  for (int a = 0; a <= tree->depth[end]; a++) {
    num BS[6];
    const num *S = w->S + 6 * chain[a];
    for (int c = 0; c < 6; c++) {
      num s = 0;
      for (int r = 0; r < 6; r++) s += S[r] * B[6 * r + c];
      BS[c] = s;
    }
    for (int c = 0; c <= a; c++) D[tree->adr[chain[a]] + c] += PB_DOT6(BS, w->S + 6 * chain[c]);
  }
}

static void slopes(const NUM(pbMechanism) *w, num *D) {
  if (!w->has_fluid) return;

  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0 || re(w->p.body_mass[b]) < 1e-15) continue;
    num B[36] = {0};
    NUM(pbFluid_Damping)(w, b, B);
    add_body_block(w, b, B, D);
  }
}
PB_FORCE(fluid, .add = fluid_forces, .slopes = slopes);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"
#include "multibody/lane3.h"

#if PB_LANES == 1
// The power under X of what a unit of each would exert on the inertia box of a body (fluid.c), added: three numbers at a time.
static void box_unit_power(const NUM(pbMechanism) *w, int b, const num *X, num power[2]) {
  const num *V = w->V + 6 * b, *R = w->ximat + 9 * b, per_mass = 6.0 / w->p.body_mass[b];
  const p3 I = p3_load(w->p.body_inertia + 3 * b), wind = p3_load(w->p.wind);
  const p3 d = offset_of(w, b, w->xipos + 3 * b);
  p3 rows[3];

  const p6 move = p6_load(V), given = p6_load(X);
  const p3 v = p6_velocity(move, d) - wind, x = p6_velocity(given, d), sum = PB_TURN3(I) + PB_TURN3(PB_TURN3(I)) - I;

  // Viscosity: like a sphere of the mean diameter.
  num edges[3];
  for (int k = 0; k < 3; k++) edges[k] = num_sqrt((sum[k] > 1e-15 ? sum[k] : 1e-15) * per_mass);
  const p3 edge = p3_make(edges[0], edges[1], edges[2]);
  num diameter = (edge[0] + edge[1] + edge[2]) / 3.0, twice = diameter * diameter;
  power[1] -= PB_PI * diameter * (twice * p3_dot(given.a, move.a) + 3.0 * p3_dot(x, v));

  // Density: on the faces, in the box's axes.
  rows_load(rows, R);
  const p3 second = PB_TURN3(edge), third = PB_TURN3(second), square = edge * edge, fourth = square * square;
  const p3 spin = l3_columns(rows, move.a), slide = l3_columns(rows, v);
  const p3 turn = edge * (PB_TURN3(fourth) + PB_TURN3(PB_TURN3(fourth))) * l3_columns(rows, given.a) * spin;
  const p3 push = second * third * l3_columns(rows, x) * slide;
  const p3 drag = 1.0 / 64 * turn * p3_abs(spin) + 0.5 * push * p3_abs(slide);
  for (int k = 0; k < 3; k++) power[0] -= drag[k];
}
#endif

// Fluid of a medium that is absent: density and viscosity still have a slope, the power of the wrench each would make.
static void empty_medium(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  num power[2] = {0}, damping[2] = {0}, h = w->p.timestep[0];

  for (int b = 1; b < w->m->nbody; b++) {
    bool box;
    if (w->t->body_tree[b] < 0 || !NUM(pbFluid_Parts)(w, b, &box)) continue;

    if (box) {
      box_unit_power(w, b, a->Vl + 6 * b, power);
    } else {
      PB_ASSERT(w->all_geoms);
      NUM(pbFluid_UnitPower)(w, b, a->Vl + 6 * b, power);
    }
  }

  if (a->damped && w->m->integrator == pb_intImplicitfast) {  // W = h Vm . B (Va - Vw)
    NUM(pbFluid_UnitDamping)(w, a->Vm, a->Va, a->Vw, damping);
    for (int k = 0; k < 2; k++) power[k] += h * damping[k];
  }
  PB_THETA(a, density, 0, power[0]);
  PB_THETA(a, viscosity, 0, power[1]);
#else
  (void)a;
#endif
}

static void pull(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  if (PB_IS_COMPLEX) {
    if (w->has_fluid) a->refused = "forces of a medium";
  } else if (w->has_fluid) {
    LANE(pbFluid_Adjoint)(a);
    if (a->damped && w->m->integrator == pb_intImplicitfast) LANE(pbFluid_DampingAdjoint)(a, w->p.timestep[0]);
  } else if (PB_WANTS(a, pb_wantMedium)) {
    empty_medium(a);
  }
}
PB_FORCE_PULL(fluid, .pull = pull);
#endif
