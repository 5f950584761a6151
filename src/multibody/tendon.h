// Tendons beyond what the stage leaves (eval/stages.h): armature, paths, second derivatives of lengths.
#ifndef PB_TENDON_H
#define PB_TENDON_H

#include "eval/mechanism.h"

// Armature of a tendon with that reflected by its actuators.
num NUM(pbTendon_Armature)(const NUM(pbMechanism) *w, int tendon);
// Second derivative of a tendon's length by time at zero joint acceleration.
num NUM(pbTendon_Dot)(const NUM(pbMechanism) *w, int tendon);
// The path of a piece around its geom, as Tendon found it; NULL: it is straight.
static inline const NUM(pbWrapPath) *NUM(pbTendon_Around)(const NUM(pbMechanism) *w, const pbPiece *piece) {
  if (piece->geom < 0) return NULL;
  int at = w->wrap_at[piece->next - 1];  // the geom stands before the site that the next piece begins at
  PB_ASSERT(at < w->wrapped);

  return at < 0 ? NULL : w->wrap_path + at;
}
// Second derivative of such a path's length by time, A the bodies' accelerations (nbody x 6).
num NUM(pbTendon_Bend)(const NUM(pbMechanism) *w, const pbPiece *piece, const NUM(pbWrapPath) *path, const num *A);

#endif
