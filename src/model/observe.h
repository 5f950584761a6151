// Kinds of observations (pbObserveKind): a row each, and how many numbers a row of a policy's table has.
#ifndef PB_OBSERVE_H
#define PB_OBSERVE_H

#include <pullback/policy.h>

#include "model/model.h"

// The kind of thing that a row is of; pb_objCount: none. Points are named by sets.
pbObject pbObserve_Object(pbObserveKind kind);
bool pbObserve_TakesAll(pbObserveKind kind);    // of all such things at once, where none is named
bool pbObserve_TakesFrame(pbObserveKind kind);  // as seen from a body
// Numbers of a row of an object (-1: of all), before components are chosen. own: what the row says itself: of commands how many,
// of points how many are seen (of their mean 1), of the last decision how many outputs are held; else not read.
int pbObserve_Width(const pbModel *m, pbObserveKind kind, int object, int own);

#endif
