// A contact that makes rows, as it was found (contact/contact.h).
#ifndef PB_EVAL_CONTACT_H
#define PB_EVAL_CONTACT_H

#include "eval/names.h"

struct NUM(pbContact) {
  int geom1, geom2, pair, point;  // pair: explicit pair id or -1; point: which of the pair's contact points
  int prism;                      // of geom1, a height field (model/terrain.h); else -1
  int dim;                        // condim
  num dist, pos[3], frame[9];     // rows of frame: normal (geom1 -> geom2), two tangents
  num hint[3];
  num margin;  // distance at which force starts
  num friction[5], solref[2], solreffriction[2], solimp[5];
  num restitution;
};

#endif
