// Mocap bodies: children of the world whose poses are inputs (pullback/world.h).
#ifndef PB_MOCAP_H
#define PB_MOCAP_H

#include <pullback/model.h>

// Can the inputs be read: positions (nmocap x 3) finite, quaternions (nmocap x 4) of a length from 1e-6 to 1e6? Either may be
// NULL. Else why not, in words.
bool pbMocap_Readable(const pbModel *model, const double *pos, const double *quat, char *text, size_t size);
#endif
