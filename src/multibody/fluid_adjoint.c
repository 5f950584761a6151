// Gradient of the virtual power of fluid forces and of their implicit damping. In a part's own frame the power is y . f(u),
// y the virtual and u the real velocity there; df/du is the hand-written damping, second derivatives and those by the
// shape come from the complex program.
// Tests: tests/unit/test_fluid.c.
#include "eval/adjoint.h"
#include "multibody/fluid.h"
#include "multibody/spatial.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of this file only
#endif

// r = R x, r = R' x for both halves of a spatial vector
#define OUTWARD(r, R, x)                                                                                              \
  do {                                                                                                                \
    for (int k = 0; k < 3; k++) (r)[k] = (R)[3 * k] * (x)[0] + (R)[3 * k + 1] * (x)[1] + (R)[3 * k + 2] * (x)[2];     \
    for (int k = 0; k < 3; k++) (r)[3 + k] = (R)[3 * k] * (x)[3] + (R)[3 * k + 1] * (x)[4] + (R)[3 * k + 2] * (x)[5]; \
  } while (0)
#define INWARD(r, R, x)                                                                                   \
  do {                                                                                                    \
    for (int k = 0; k < 3; k++) (r)[k] = (R)[k] * (x)[0] + (R)[3 + k] * (x)[1] + (R)[6 + k] * (x)[2];     \
    for (int k = 0; k < 3; k++) (r)[3 + k] = (R)[k] * (x)[3] + (R)[3 + k] * (x)[4] + (R)[6 + k] * (x)[5]; \
  } while (0)
// The part's frame moves while a field X stays, M its motion at the part (angular, linear) and C its cotangent there (both in
// world axes): adds to torque and force on the frame.
#define PULL_FRAME(torque, force, M, C)        \
  do {                                         \
    PB_ADDCROSS(torque, -1, M, C);             \
    PB_ADDCROSS(torque, -1, (M) + 3, (C) + 3); \
    PB_ADDCROSS(force, 1, (C) + 3, M);         \
  } while (0)
// Cotangent of a field about ref from the one at the part.
#define ADD_FIELD(F, s, d, C)                           \
  do {                                                  \
    PB_ADDWRENCH(F, s, d, (C) + 3);                     \
    for (int k = 0; k < 3; k++) (F)[k] += (s) * (C)[k]; \
  } while (0)

// A part with all that its gradient needs.
typedef struct patch {
  NUM(pbFluidPart) part;
  int body, geom;            // geom: -1 for the box
  double u[6], M[6];         // velocity relative to the fluid: own frame, world axes
  lane torque[3], force[3];  // cotangent of the part's pose (world, at its origin)
} patch;

static void begin_patch(patch *p) {
  NUM(pbFluid_LocalVelocity)(&p->part, p->u);
  OUTWARD(p->M, p->part.R, p->u);
  memset(p->torque, 0, sizeof p->torque);
  memset(p->force, 0, sizeof p->force);
}

// Motion of the part under a field about ref, in world axes.
static void field_at(const patch *p, const lane *X, lane M[6]) {
  for (int k = 0; k < 3; k++) M[k] = X[k];
  PB_POINTVEL(M + 3, X, p->part.d);
}

// ---- complex step -----------------------------------------------------------------------------------------------------
static void to_complex(const patch *p, pbFluidPart_c *z, _Complex double u[6]) {
  memset(z, 0, sizeof *z);
  z->type = p->part.type;
  z->symmetric = p->part.symmetric;
  for (int k = 0; k < pb_fluidMedium; k++) z->medium[k] = p->part.medium[k];
  for (int k = 0; k < pb_fluidShape; k++) z->shape[k] = p->part.shape[k];
  for (int k = 0; k < 6; k++) u[k] = p->u[k];
}

// Derivative of (local damping) z by velocity i (0 to 5) or shape parameter i - 6.
static void damping_by(const patch *p, int i, const double field[6], double out[6]) {
  pbFluidPart_c z;
  _Complex double u[6], B[36];
  to_complex(p, &z, u);
  if (i < 6) __imag__ u[i] = PB_IMAG_STEP;
  else __imag__ z.shape[i - 6] = PB_IMAG_STEP;

  pbFluid_LocalDamping_c(&z, u, B);
  for (int r = 0; r < 6; r++) {
    out[r] = 0;
    for (int c = 0; c < 6; c++) out[r] += __imag__ B[6 * r + c] / PB_IMAG_STEP * field[c];
  }
}

// ---- parameters (one lane) --------------------------------------------------------------------------------------------
#if PB_LANES == 1
// What a part depends on: its pose in the body (from the cotangent of its pose), the medium, its shape.
static void add_pose(LANE(pbAdjoint) *a, const patch *p) {
  const NUM(pbMechanism) *w = a->w;
  const double *Rb = w->xmat + 9 * p->body, *R = p->part.R, *F = p->force, *T = p->torque;

  // The box lies in the inertial frame.
  const double *q = p->geom < 0 ? w->p.body_iquat + 4 * p->body : w->p.geom_quat + 4 * p->geom;
  double *pos = p->geom < 0 ? a->bar.body_ipos + 3 * p->body : a->bar.geom_pos + 3 * p->geom, t[3];
  double *quat = p->geom < 0 ? a->bar.body_iquat + 4 * p->body : a->bar.geom_quat + 4 * p->geom;

  for (int k = 0; k < 3; k++) pos[k] += Rb[k] * F[0] + Rb[3 + k] * F[1] + Rb[6 + k] * F[2];
  for (int k = 0; k < 3; k++) t[k] = R[k] * T[0] + R[3 + k] * T[1] + R[6 + k] * T[2];
  pb_quat_pull(quat, q, t);
}

static void add_shape(LANE(pbAdjoint) *a, const patch *p, int i, double value) {
  if (p->geom < 0 && i == 0) PB_THETA(a, body_mass, p->body, value);
  else if (p->geom < 0) PB_THETA(a, body_inertia, 3 * p->body + i - 1, value);
  else if (i < 3) PB_THETA(a, geom_size, 3 * p->geom + i, value);
  else PB_THETA(a, geom_fluid, 12 * p->geom + i - 3, value);
}

// Derivative of the local force by shape parameter i.
static void force_by_shape(const patch *p, int i, double out[6]) {
  pbFluidPart_c z;
  _Complex double u[6], f[6];
  to_complex(p, &z, u);

  __imag__ z.shape[i] = PB_IMAG_STEP;
  pbFluid_LocalForce_c(&z, u, f);
  for (int k = 0; k < 6; k++) out[k] = __imag__ f[k] / PB_IMAG_STEP;
}

static int shape_count(const patch *p) { return p->geom < 0 ? 4 : pb_fluidShape; }

// The part in a medium of density or viscosity 1 alone: forces are linear in both.
static NUM(pbFluidPart) unit_medium(const patch *p, int which) {
  NUM(pbFluidPart) part = p->part;
  part.medium[0] = which == 0;
  part.medium[1] = which == 1;
  return part;
}

static void force_parameters(LANE(pbAdjoint) *a, const patch *p, const double y[6]) {
  double d[6];

  for (int k = 0; k < 2 && PB_WANTS(a, pb_wantMedium); k++) {
    NUM(pbFluidPart) part = unit_medium(p, k);
    NUM(pbFluid_LocalForce)(&part, p->u, d);
    if (k) PB_THETA(a, viscosity, 0, PB_DOT6(y, d));
    else PB_THETA(a, density, 0, PB_DOT6(y, d));
  }
  for (int i = 0; i < shape_count(p) && PB_WANTS(a, pb_wantFluidShape); i++) {
    force_by_shape(p, i, d);
    add_shape(a, p, i, PB_DOT6(y, d));
  }
}

static void damping_parameters(LANE(pbAdjoint) *a, const patch *p, const double y[6], const double field[6]) {
  // The medium: forces are linear in density and viscosity. Then the shape, one number at a time.
  double d[6], B[36];
  for (int k = 0; k < 2 && PB_WANTS(a, pb_wantMedium); k++) {
    NUM(pbFluidPart) part = unit_medium(p, k);

    double s = 0;
    NUM(pbFluid_LocalDamping)(&part, p->u, B);
    for (int i = 0; i < 36; i++) s += y[i / 6] * B[i] * field[i % 6];
    if (k) PB_THETA(a, viscosity, 0, s);
    else PB_THETA(a, density, 0, s);
  }
  for (int i = 0; i < shape_count(p) && PB_WANTS(a, pb_wantFluidShape); i++) {
    damping_by(p, 6 + i, field, d);
    add_shape(a, p, i, PB_DOT6(y, d));
  }
}
#endif

// ---- parts ------------------------------------------------------------------------------------------------------------
// Cotangent of u (own frame) to the body's velocity, the pose, the wind.
static void pull_velocity(LANE(pbAdjoint) *a, patch *p, const lane ub[6]) {
  lane C[6];
  OUTWARD(C, p->part.R, ub);
  ADD_FIELD(a->FV + 6 * p->body, 1, p->part.d, C);
  PULL_FRAME(p->torque, p->force, p->M, C);
  for (int k = 0; k < 3; k++) PB_THETA(a, wind, k, -C[3 + k]);
}

static void finish_patch(LANE(pbAdjoint) *a, const patch *p) {
  lane *P = a->P + 6 * p->body;
  PB_ADDWRENCH(P, 1, p->part.d, p->force);
  for (int k = 0; k < 3; k++) P[k] += p->torque[k];
#if PB_LANES == 1
  if (a->theta) add_pose(a, p);
#endif
}

// W += Vl . wrench
static void pull_force(LANE(pbAdjoint) *a, patch *p) {
  NUM(pbFluidPart) part = p->part;
  double f[6], F[6], J[36], scale = p->geom < 0 ? 1 : part.shape[3];
  lane M[6], y[6], ub[6];
  begin_patch(p);
  NUM(pbFluid_LocalForce)(&part, p->u, f);
  OUTWARD(F, part.R, f);

  // To the virtual motion; to the frame, which the motion sees.
  ADD_FIELD(a->FL + 6 * p->body, 1, part.d, F);
  field_at(p, a->Vl + 6 * p->body, M);
  INWARD(y, part.R, M);
  PULL_FRAME(p->torque, p->force, M, F);

  // By the velocity: df/du is the local damping, but for symmetry and the interaction coefficient.
  part.symmetric = false;
  NUM(pbFluid_LocalDamping)(&part, p->u, J);  // df/du but for the interaction coefficient
  for (int k = 0; k < 6; k++) {
    ub[k] = y[0] * (scale * J[k]);
    for (int i = 1; i < 6; i++) ub[k] += y[i] * (scale * J[6 * i + k]);
  }
  pull_velocity(a, p, ub);
#if PB_LANES == 1
  if (a->theta) force_parameters(a, p, y);
#endif
  finish_patch(a, p);
}

// W += Vm . B X, X = h (Va - Vw)
static void pull_damping(LANE(pbAdjoint) *a, patch *p, double h) {
  const double *Va = a->Va + 6 * p->body, *Vw = a->Vw + 6 * p->body, *R = p->part.R;
  double X[6], MX[6], z[6], B[36], Bz[6], F[6];
  lane M[6], y[6], yB[6], C[6], ub[6];
  begin_patch(p);

  // Both motions in the part's own frame.
  for (int k = 0; k < 6; k++) X[k] = h * (Va[k] - Vw[k]);
  for (int k = 0; k < 3; k++) MX[k] = X[k];
  PB_POINTVEL(MX + 3, X, p->part.d);
  INWARD(z, R, MX);
  field_at(p, a->Vm + 6 * p->body, M);
  INWARD(y, R, M);

  // B z and B' y
  NUM(pbFluid_LocalDamping)(&p->part, p->u, B);
  for (int r = 0; r < 6; r++) {
    Bz[r] = 0;
    yB[r] = (lane){0};
    for (int c = 0; c < 6; c++) {
      Bz[r] += B[6 * r + c] * z[c];
      yB[r] += y[c] * B[6 * c + r];
    }
  }

  // To the fields, and to the frame that both see.
  OUTWARD(F, R, Bz);
  OUTWARD(C, R, yB);
  ADD_FIELD(a->FM + 6 * p->body, 1, p->part.d, F);
  ADD_FIELD(a->FVa + 6 * p->body, h, p->part.d, C);
  ADD_FIELD(a->FW + 6 * p->body, -h, p->part.d, C);
  PULL_FRAME(p->torque, p->force, M, F);
  PULL_FRAME(p->torque, p->force, MX, C);
  for (int k = 0; k < 6; k++) {
    double d[6];
    damping_by(p, k, z, d);
    ub[k] = PB_DOT6(d, y);
  }
  pull_velocity(a, p, ub);
#if PB_LANES == 1
  if (a->theta) {
    if (h > 0) a->h_bar += PB_DOT6(y, Bz) / h;
    damping_parameters(a, p, y, z);
  }
#endif
  finish_patch(a, p);
}

// A geom whose interaction coefficient is zero beside one that has some: the slope by the coefficient, W = coefficient Vl .
// wrench.
static void flag_slope(LANE(pbAdjoint) *a, int body, int index) {
#if PB_LANES == 1
  patch p = {.body = body, .geom = a->w->m->body_geomadr[body] + index};
  double M[6], y[6], d[6];
  if (!PB_WANTS(a, pb_wantFluidShape) || !NUM(pbFluid_Sloped)(a->w, p.geom)) return;

  NUM(pbFluid_Fill)(a->w, body, false, index, &p.part);
  begin_patch(&p);
  field_at(&p, a->Vl + 6 * body, M);
  INWARD(y, p.part.R, M);
  force_by_shape(&p, 3, d);
  PB_THETA(a, geom_fluid, 12 * p.geom, PB_DOT6(y, d));
#else
  (void)a;
  (void)body;
  (void)index;
#endif
}

static void each_part(LANE(pbAdjoint) *a, bool damping, double h) {
  const NUM(pbMechanism) *w = a->w;
  bool box;
  if (!w->has_fluid) return;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;

    // The inertia box, or every geom that interacts.
    for (int k = 0, n = NUM(pbFluid_Parts)(w, b, &box); k < n; k++) {
      patch p;
      if (!NUM(pbFluid_Take)(w, b, box, k, &p.part)) {
        if (!damping) flag_slope(a, b, k);
        continue;
      }

      p.body = b;
      p.geom = box ? -1 : w->m->body_geomadr[b] + k;
      if (damping) pull_damping(a, &p, h);
      else pull_force(a, &p);
    }
  }
}

void LANE(pbFluid_Adjoint)(LANE(pbAdjoint) *a) { each_part(a, false, 0); }
void LANE(pbFluid_DampingAdjoint)(LANE(pbAdjoint) *a, double h) { each_part(a, true, h); }
