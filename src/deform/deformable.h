// What a user describes, before it is compiled.
#ifndef PB_DEFORMABLE_H
#define PB_DEFORMABLE_H

#include <pullback/deform.h>

#include "deform/cells.h"

typedef struct pbValues {  // of a parameter, as set
  double *data;
  int rows;
  bool control;
} pbValues;

typedef struct pbGroupDef {
  char *name;
  bool mass;
  pbEnergy *energy;  // owns the copy of the definition
  int count, *vertex;
  pbValues *values;  // of each parameter; data NULL: not set yet
} pbGroupDef;

typedef struct pbPointSet {
  char *name;
  int count, *points;
} pbPointSet;

typedef struct pbSurfaceDef {
  char *name;  // "": none
  int triangles, *triangle, edges, *edge, points, *point;
  double radius;
  bool self, plane;  // plane: point[0..2] span it
} pbSurfaceDef;

typedef struct pbSurfacePair {
  int first, second;
  bool meet;
  double stiffness, friction;
} pbSurfacePair;

typedef struct pbAttachmentDef {  // a point on a body; on a geom where geom >= 0: local times these of its sizes
  int point, geom, size[3];
  bool own;  // made for it: rests where it is in the reference configuration
  char *body;
  double local[3];
} pbAttachmentDef;

typedef struct pbLeadDef {  // points along a path
  char *name;
  int count, *points, axes, steps, rows;
  double *path;  // steps x rows x 3; NULL: controls
} pbLeadDef;

struct pbDeformable {
  pbContext *ctx;
  int npoint, capacity;
  double *rest, *mass, *start, *velocity;
  unsigned char *fixed;
  bool planar;
  int nset;
  pbPointSet *sets;
  int nlead;
  pbLeadDef *leads;
  int ngroup;
  pbGroupDef *groups;
  pbDeformOptions options;
  int nattached;
  pbAttachmentDef *attachments;
  pbCellSets cells;
  int nsurface, npair;
  pbSurfaceDef *surfaces;
  pbSurfacePair *pairs;
  pbDeformContact contact;
};

// Appends a point on a body, or (attached->point >= 0) makes one of those there ride on it; the body's name is copied.
PB_NODISCARD pbStatus pbDeformable_AddAttachment(pbDeformable *d, const pbAttachmentDef *attached, int *point);
// As pbDeformable_AddSurface; plane: the points span it.
PB_NODISCARD pbStatus pbDeformable_AddAnySurface(pbDeformable *d, const pbSurface *surface, bool plane, int *number);

#endif
