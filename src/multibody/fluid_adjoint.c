// Gradient of the virtual power of fluid forces and of their implicit damping. The derivative of one part's wrench by its
// pose, velocity and parameters comes from the complex program, one direction at a time.
#include "multibody/adjoint.h"
#include "multibody/fluid.h"
#include "multibody/spatial.h"

enum { pose_at = 0, velocity_at = 6, medium_at = 12, shape_at = 17, inputs = 32 };

static void to_complex(const NUM(pbFluidPart) *part, pbFluidPart_c *z) {
  z->type = part->type, z->symmetric = part->symmetric;
  for (int k = 0; k < 3; k++) z->d[k] = part->d[k];
  for (int k = 0; k < 9; k++) z->R[k] = part->R[k];
  for (int k = 0; k < 6; k++) z->V[k] = part->V[k];
  for (int k = 0; k < pb_fluidMedium; k++) z->medium[k] = part->medium[k];
  for (int k = 0; k < pb_fluidShape; k++) z->shape[k] = part->shape[k];
}

static void bump(_Complex double *x, double rate) { __imag__ *x += PB_IMAG_STEP * rate; }

// Move input i at unit rate: a rigid motion of the part about ref, its body's velocity, the medium, the shape.
static void perturb(pbFluidPart_c *z, int i) {
  if (i >= shape_at) {
    bump(&z->shape[i - shape_at], 1);
  } else if (i >= medium_at) {
    bump(&z->medium[i - medium_at], 1);
  } else if (i >= velocity_at) {
    bump(&z->V[i - velocity_at], 1);
  } else if (i >= 3) {
    bump(&z->d[i - 3], 1);
  } else {
    int y = (i + 1) % 3, x = (i + 2) % 3;  // rotation about axis i: e x r = -r[x] at y, r[y] at x
    double dy = __real__ z->d[y], dx = __real__ z->d[x];
    bump(&z->d[y], -dx), bump(&z->d[x], dy);
    for (int c = 0; c < 3; c++) {
      double ry = __real__ z->R[3 * y + c], rx = __real__ z->R[3 * x + c];
      bump(&z->R[3 * y + c], -rx), bump(&z->R[3 * x + c], ry);
    }
  }
}

// Derivative by input i of the wrench, or (field given) of B field.
static void directional(const NUM(pbFluidPart) *part, int i, const double *field, double out[6]) {
  pbFluidPart_c z;
  to_complex(part, &z);
  perturb(&z, i);
  if (!field) {
    _Complex double wrench[6] = {0};
    pbFluid_Wrench_c(&z, wrench);
    for (int k = 0; k < 6; k++) out[k] = __imag__ wrench[k] / PB_IMAG_STEP;
    return;
  }
  _Complex double B[36] = {0};
  pbFluid_PartDamping_c(&z, B);
  for (int k = 0; k < 6; k++) {
    out[k] = 0;
    for (int c = 0; c < 6; c++) out[k] += __imag__ B[6 * k + c] / PB_IMAG_STEP * field[c];
  }
}

// bar[i] = dual . d(wrench or B field)/d(input i)
static void pull(const NUM(pbFluidPart) *part, int first, int last, const double *field, const lane dual[6], lane bar[inputs]) {
  for (int i = first; i < last; i++) {
    double d[6];
    directional(part, i, field, d);
    bar[i] = dual[0] * d[0];
    for (int k = 1; k < 6; k++) bar[i] += dual[k] * d[k];
  }
}

// Ambient gradient by the quaternion of a local frame: 2 q (0, t), t the torque in the frame's own axes.
static void quat_gradient(const double *q, const double *t, double g[4]) {
  g[0] = 2 * (-q[1] * t[0] - q[2] * t[1] - q[3] * t[2]);
  g[1] = 2 * (q[0] * t[0] + q[2] * t[2] - q[3] * t[1]);
  g[2] = 2 * (q[0] * t[1] + q[3] * t[0] - q[1] * t[2]);
  g[3] = 2 * (q[0] * t[2] + q[1] * t[1] - q[2] * t[0]);
}

// Parameters of a part: its place in the body, the medium, its shape. Only where theta is wanted (one lane).
static void parameters(LANE(pbAdjoint) *a, int body, int geom, const NUM(pbFluidPart) *part, const lane bar[inputs]) {
  const NUM(pbWork) *w = a->w;
  const double *Rb = w->xmat + 9 * body;
  double force[3], torque[3], arm[3], pos[3], local[3], quat[4];
  for (int k = 0; k < 3; k++) force[k] = PB_LANE0(bar[3 + k]);
  PB_CROSS(arm, part->d, force);
  for (int k = 0; k < 3; k++) torque[k] = PB_LANE0(bar[k]) - arm[k];
  for (int k = 0; k < 3; k++) {
    pos[k] = Rb[k] * force[0] + Rb[3 + k] * force[1] + Rb[6 + k] * force[2];
    local[k] = part->R[k] * torque[0] + part->R[3 + k] * torque[1] + part->R[6 + k] * torque[2];
  }
  quat_gradient(geom < 0 ? w->p.body_iquat + 4 * body : w->p.geom_quat + 4 * geom, local, quat);
  PB_THETA(a, density, 0, bar[medium_at]);
  PB_THETA(a, viscosity, 0, bar[medium_at + 1]);
  for (int k = 0; k < 3; k++) PB_THETA(a, wind, k, bar[medium_at + 2 + k]);
  if (geom < 0) {
    for (int k = 0; k < 3; k++) a->theta[w->m->body_ipos - w->m->theta0 + 3 * body + k] += pos[k];
    for (int k = 0; k < 4; k++) a->theta[w->m->body_iquat - w->m->theta0 + 4 * body + k] += quat[k];
    PB_THETA(a, body_mass, body, bar[shape_at]);
    for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * body + k, bar[shape_at + 1 + k]);
  } else {
    for (int k = 0; k < 3; k++) a->theta[w->m->geom_pos - w->m->theta0 + 3 * geom + k] += pos[k];
    for (int k = 0; k < 4; k++) a->theta[w->m->geom_quat - w->m->theta0 + 4 * geom + k] += quat[k];
    for (int k = 0; k < 3; k++) PB_THETA(a, geom_size, 3 * geom + k, bar[shape_at + k]);
    for (int k = 0; k < 12; k++) PB_THETA(a, geom_fluid, 12 * geom + k, bar[shape_at + 3 + k]);
  }
}

// Gradient through one part's wrench (field NULL) or B field, dual to `dual`: velocity, pose, parameters.
static void part_adjoint(LANE(pbAdjoint) *a, int body, int geom, const NUM(pbFluidPart) *part, const double *field,
                         const lane dual[6]) {
  lane bar[inputs];
  int shapes = geom < 0 ? 4 : pb_fluidShape;
  bool wanted = PB_LANES == 1 && a->theta;
  pull(part, 0, wanted ? shape_at + shapes : medium_at, field, dual, bar);
  for (int k = 0; k < 6; k++) {
    a->P[6 * body + k] += bar[pose_at + k];
    a->FV[6 * body + k] += bar[velocity_at + k];
  }
  if (wanted) parameters(a, body, geom, part, bar);
}

// W += sum over bodies of Vl . wrench
void LANE(pbFluid_Adjoint)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  NUM(pbFluidPart) part;
  bool box;
  if (!w->has_fluid) return;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    for (int k = 0, n = NUM(pbFluid_Parts)(w, b, &box); k < n; k++) {
      if (!NUM(pbFluid_Take)(w, b, box, k, &part)) continue;
      NUM(pbFluid_Wrench)(&part, a->FL + 6 * b);
      part_adjoint(a, b, box ? -1 : w->m->body_geomadr[b] + k, &part, NULL, a->Vl + 6 * b);
    }
  }
}

// W += h * sum over bodies of Vm . B (Va - Vw)
void LANE(pbFluid_DampingAdjoint)(LANE(pbAdjoint) *a, double h) {
  const NUM(pbWork) *w = a->w;
  NUM(pbFluidPart) part;
  bool box;
  if (!w->has_fluid) return;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    double field[6];  // h times the integrated acceleration of the body
    for (int k = 0; k < 6; k++) field[k] = h * (a->Va[6 * b + k] - a->Vw[6 * b + k]);
    for (int k = 0, n = NUM(pbFluid_Parts)(w, b, &box); k < n; k++) {
      if (!NUM(pbFluid_Take)(w, b, box, k, &part)) continue;
      double B[36] = {0};
      NUM(pbFluid_PartDamping)(&part, B);
      const lane *Vm = a->Vm + 6 * b;
      double on_mu[6] = {0};
      lane on_a[6] = {0};
      for (int r = 0; r < 6; r++) {
        for (int c = 0; c < 6; c++) {
          on_mu[r] += B[6 * r + c] * field[c];
          on_a[c] += Vm[r] * (h * B[6 * r + c]);
        }
      }
      PB_AXPY6(a->FM + 6 * b, 1, on_mu);
      if (h > 0) a->h_bar += PB_LANE0(PB_DOT6(on_mu, Vm)) / h;
      PB_AXPY6(a->FVa + 6 * b, 1, on_a);
      PB_AXPY6(a->FW + 6 * b, -1, on_a);
      part_adjoint(a, b, box ? -1 : w->m->body_geomadr[b] + k, &part, field, Vm);
    }
  }
}
