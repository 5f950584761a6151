// Frames of sites, geoms, bodies and cameras, as sensors and energies look at them.
#ifndef PB_FRAME_H
#define PB_FRAME_H

#include "eval/names.h"
#include "model/model.h"

// pos, mat point into the work (of a camera: to own); d: offset of pos from ref of the body's tree.
typedef struct NUM(pbFrame) {
  int body;
  const num *pos, *mat;
  num d[3], own[12];
} NUM(pbFrame);

// Its pose alone, without d; with it.
void NUM(pbFrame_Pose)(const NUM(pbMechanism) *w, int objtype, int objid, NUM(pbFrame) *f);
void NUM(pbFrame_At)(const NUM(pbMechanism) *w, int objtype, int objid, NUM(pbFrame) *f);
void NUM(pbFrame_Quat)(const NUM(pbMechanism) *w, int objtype, int objid, num q[4]);
// Velocity of the frame's origin and true acceleration, gravity counted as upward acceleration; world axes.
void NUM(pbFrame_Velocity)(const NUM(pbMechanism) *w, const NUM(pbFrame) *f, num v[3]);
void NUM(pbFrame_Acceleration)(const NUM(pbMechanism) *w, const NUM(pbFrame) *f, num a[3]);
// Is the point, in the frame of a site, within its shape?
bool NUM(pbFrame_InSite)(const NUM(pbMechanism) *w, int site, const num local[3]);

// Body j is b or below it.
static inline bool pb_isBelow(const pbModel *m, int j, int b) {
  while (j > b) j = m->body_parentid[j];
  return j == b;
}

#endif
