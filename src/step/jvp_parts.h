// The complex evaluation behind pbJvp_*, for the files that write parts of it: kernels in complex numbers only.
#ifndef PB_JVP_PARTS_H
#define PB_JVP_PARTS_H

#include <pullback/world.h>

#include "eval/names.h"
#include "step/record.h"

typedef struct pbJvp {
  pbWork_c w;
  num *theta;
  const double *couple_S, *couple_g, *couple_g_tangent, *couple_at;  // pbJvp_Couple
  num *couple;                                                       // nv
  void *second;                                                      // step/second.h; NULL: nobody has asked yet
  double shrink, grow;  // of a direction on its way in, of derivatives on their way out; grow = 1 / shrink, powers of two
} pbJvp;

// Numbers of bodies before the step and inputs, each with its direction; of the record only the state before the step is read.
void pbJvp_Load(pbJvp *j, const pbStepRecord *step, const pbDirection *direction);
// Set shrink and grow by the largest entry of a direction.
void pbJvp_SetScale(pbJvp *j, const pbDirection *d);
// A slope as an imaginary part, and back.
static inline double pbJvp_StepIn(const pbJvp *j, double slope) { return PB_IMAG_STEP * (slope * j->shrink); }
static inline double pbJvp_StepOut(const pbJvp *j, double imaginary) { return imaginary / PB_IMAG_STEP * j->grow; }
// out = value + i step slope (n); either may be NULL: zero.
void pbJvp_Blend(const pbJvp *j, num *out, const double *value, const double *slope, int n);
// Rows of quaternions or axes move on their unit spheres: the radial part goes out of their imaginary parts.
void pbJvp_Project(num *v, int rows, int cols);
// theta and qpos with their directions (NULL: zero) into the evaluation.
void pbJvp_LoadTheta(pbJvp *j, const double *theta, const double *direction);
void pbJvp_LoadPosition(pbJvp *j, const double *qpos, const double *tangent);
// Poses of mocap bodies, after theta: the model's move with it. input may be NULL.
void pbJvp_LoadMocap(pbJvp *j, const pbInput *input, const pbDirection *direction);
// Derivatives (n) from imaginary parts; out NULL: not wanted.
void pbJvp_Imaginary(const pbJvp *j, double *out, const num *x, int n);

#endif
