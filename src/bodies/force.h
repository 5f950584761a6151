// What a file of src/bodies/forces offers: a force and, below it, the pullback of its virtual power. Its line stands in
// forces.h. A file is compiled for each kind of lane, force and pullback together, and for the forward program in complex
// numbers, the force alone.
#ifndef PB_BODIES_FORCE_H
#define PB_BODIES_FORCE_H

#include "base/assert.h"
#include "eval/lane.h"
#include "eval/mechanism.h"

typedef struct LANE(pbForceFile) {
  // Adds to qfrc_spring, qfrc_damper, qfrc_gravcomp or qfrc_fluid, whose sum is the passive force. NULL: the force is added
  // elsewhere.
  void (*add)(NUM(pbMechanism) *w);
  // Adds its derivative by velocities, as implicitfast takes it, on the pattern of M. NULL: it has none, or is explicit.
  void (*slopes)(const NUM(pbMechanism) *w, num *D);
} LANE(pbForceFile);

#define PB_FORCE(file, ...) const LANE(pbForceFile) LANE(pbForceFile_##file) = {__VA_ARGS__}

#endif
