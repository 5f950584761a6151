// Masses and frames that follow the parameters of meshes (pbSpec.design): the stage of pbModel_SetConstants before all others,
// theta's mesh_scale, mesh_refpos, mesh_refquat, exposed vertices and geom_density
//   -> volume, center, tensor, principal frame of meshes
//   -> body_mass, body_ipos, body_iquat, body_inertia, geom_pos, geom_quat, mesh_center, mesh_axes.
// Where two principal moments of a body agree to 1e-8 its axes have no derivative: what moves the tensor beside its diagonal is
// then that of body_products, which are zero and whose gradient the step knows.
#ifndef PB_COMPILE_DESIGN_H
#define PB_COMPILE_DESIGN_H

#include "model/design.h"
#include "number/number.h"

// Entries of symmetric matrices: xx yy zz xy xz yz.
static const int pb_tensorRow[6] = {0, 1, 2, 0, 0, 1}, pb_tensorColumn[6] = {0, 1, 2, 1, 2, 2};

#include "compile/design_number.h"

#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "compile/design_number.h"
#include "number/complex_end.h"

// Each at theta before the call; without a design nothing happens. Apply writes what follows; Vjp takes the cotangents of that
// from theta_bar, at theta with what follows in it (after); Jvp turns a direction in place.
PB_NODISCARD pbStatus pbDesign_Apply(pbContext *ctx, const pbModel *m, double *theta);
// A copy of theta with what follows in it; the caller frees it.
PB_NODISCARD pbStatus pbDesign_Open(pbContext *ctx, const pbModel *m, const double *theta, double **after);
PB_NODISCARD pbStatus pbDesign_Vjp(pbContext *ctx, const pbModel *m, const double *theta, const double *after, double *theta_bar);
PB_NODISCARD pbStatus pbDesign_Jvp(pbContext *ctx, const pbModel *m, const double *theta, const double *after, double *direction);
#endif

#endif
