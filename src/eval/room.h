// How much room an evaluation has for what contacts make long, as plain numbers.
#ifndef PB_ROOM_H
#define PB_ROOM_H

#include <limits.h>

#include "model/model.h"

// Contacts at first and at most. grows: room is made as it is needed, in the midst of an evaluation; else all is had at once, for
// `contacts` = `most`.
typedef struct pbRoom {
  int contacts, most;
  bool grows;
} pbRoom;

// Counts of rows' entries are ints: do they hold those of so many contacts?
static inline bool pbRoom_Counts(const pbModel *m, int contacts) { return (double)contacts * 16 * (m->nv + 32) <= INT_MAX; }

#endif
