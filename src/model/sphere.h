// Directions in theta: axes of joints and quaternions. What they mean does not depend on their length, so a step reads them
// normalized: u = v / |v|, and a derivative by v is (1 - u u') / |v| times that by u. Lengths within 1e-12 of one are left alone,
// so that models keep the bits of their files. Kernels see unit rows only; their derivatives by these are tangential already.
#ifndef PB_SPHERE_H
#define PB_SPHERE_H

#include "model/model.h"

typedef struct pbSphereRow {
  size_t at;  // first entry in theta
  int size;   // 3: an axis, 4: a quaternion
} pbSphereRow;

#define PB_SPHERE_SHORTEST 1e-6  // lengths beyond these are a mistake: there is no telling a direction from noise
#define PB_SPHERE_LONGEST  1e6

// Rows of a model, in order: counted where `rows` is NULL. jnt_axis, body_quat, body_iquat, geom_quat, site_quat, cam_quat,
// mesh_refquat, the quaternions of ball and free joints in qpos0 and qpos_spring, and the relative orientation of welds between
// bodies in eq_data.
int pbSphere_Rows(const pbModel *m, pbSphereRow *rows);

// Length of a row; infinite only where it is not a number in range.
double pbSphere_Length(const double *v, int size);
// Are all rows of length one, to 1e-12?
bool pbSphere_On(const pbModel *m, const double *theta);
// Are the fields with such rows the same numbers in both?
bool pbSphere_Same(const pbModel *m, const double *theta, const double *other);
// The first row whose length is out of range, or NULL; what is wrong with it, in words.
const pbSphereRow *pbSphere_Bad(const pbModel *m, const double *theta);
void pbSphere_Explain(const pbModel *m, const double *theta, const pbSphereRow *row, char *text, size_t size);

// out: theta with its rows normalized.
void pbSphere_Normalize(const pbModel *m, const double *theta, double *out);
// A direction of theta in place: that of the normalized theta.
void pbSphere_Push(const pbModel *m, const double *theta, double *direction);
// Cotangents: what `bar` holds of the rows is put aside (4 numbers a row) and zeroed; then, when bar has the cotangents by the
// normalized theta, they are brought back and added to what was there.
void pbSphere_Aside(const pbModel *m, double *bar, double *aside);
void pbSphere_Pull(const pbModel *m, const double *theta, const double *aside, double *bar);

#endif
