// Rotations by a vector in the body's frame, of unknowns, poses and readings between two states.
#ifndef PB_OPTIMIZE_ROTATION_H
#define PB_OPTIMIZE_ROTATION_H

// q := q exp(w), and column `axis` of the right Jacobian of exp at w: motion of q, in its own frame, by w[axis].
void pbRotation_Apply(double *q, const double *w);
void pbRotation_Column(const double *w, int axis, double *column);

#endif
