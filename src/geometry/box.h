// What meets where a box touches a capsule (box.c) or another box (box_box.c): what their Jacobians read (box_rates.c). In the
// number type.
#ifndef PB_BOX_H
#define PB_BOX_H

#include "geometry/pair.h"
#include "geometry/primitive.h"

// ---- capsule and box ----------------------------------------------------------------------------------------------
typedef struct NUM(pbBoxSegment) {
  num center[3], half[3];  // a capsule's segment in the box's frame: center, half axis
  const num *size;         // the box's
  num length;              // |half|
  int direction;           // bit i: half[i] > 0
} NUM(pbBoxSegment);

typedef enum pbNearKind { pb_nearNothing, pb_nearFace, pb_nearEdge } pbNearKind;

// Of the segment the place, in [-1, 1], that is nearest to the box.
typedef struct NUM(pbBoxNearest) {
  pbNearKind kind;
  num along;       // the place
  int face;        // axis of the face; -1: the end is inside (pb_nearFace)
  int edge;        // axis of the edge (pb_nearEdge)
  int on_edge;     // 0: lower corner, 1: interior, 2: upper corner (pb_nearEdge)
  int corner;      // binary code of the corner at the edge's lower end, or the upper one if that is nearest
  num box_along;   // place on the edge
  int clamped[2];  // the end (-1, 1) that the place on the edge, that on the segment is held at; 0: stationary (pb_nearEdge)
} NUM(pbBoxNearest);

// What a second place follows: an end of the segment, as far from the first as the box is wide along an axis, the end of the edge
// that the first is at, a side of the box.
typedef enum pbSecondKind { pb_secondNone, pb_secondEnd, pb_secondAcross, pb_secondEdgeEnd, pb_secondSide } pbSecondKind;

typedef struct NUM(pbBoxSecond) {
  pbSecondKind kind;
  int axis, side;  // axis of the box; end of the edge, side of the box: -1, 1
  num step;        // from the first place
} NUM(pbBoxSecond);

// False: apart.
bool NUM(pbSegment_Places)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, NUM(pbBoxSegment) *s,
                           NUM(pbBoxNearest) *first, NUM(pbBoxSecond) *second);
// A place of the segment, in the world.
void NUM(pbSegment_Point)(const NUM(pbBoxSegment) *s, num along, const NUM(pbShape) *box, num out[3]);

// ---- box and box --------------------------------------------------------------------------------------------------
enum { PB_BOX_VERTICES = 12 };

typedef struct NUM(pbBoxPair) {
  num rot[9];              // axes of box 2 in the frame of box 1 (columns)
  num pos21[3], pos12[3];  // center of 2 in frame 1, center of 1 in frame 2
  const num *size1, *size2;
  const NUM(pbShape) *box1, *box2;
  double margin, rounding, slack;  // rounding: of a separation; slack: margin and rounding
  NUM(pbContactPoint) *contacts;
} NUM(pbBoxPair);

// A vertex of what is left of the incident face. Lines 0 to 3 are the face's own sides (from its corner of that number to the
// next), 4 to 7 the upper and lower side of the reference face along its first axis and along its second.
typedef struct NUM(pbBoxVertex) {
  num x[3];           // in the reference face's plane, and height above it
  int line[2], edge;  // the two lines that it is on; the line to the next vertex
} NUM(pbBoxVertex);

typedef struct NUM(pbBoxFaces) {
  bool first;           // the reference face is of box 1
  int axis, incident;   // axes of the reference face and of the incident face, each of its box
  double sign, facing;  // which of the two faces along them
  NUM(pbBoxVertex) poly[2][PB_BOX_VERTICES];
  int kept[PB_BOX_VERTICES];  // for each contact its vertex in poly[0]
} NUM(pbBoxFaces);

// Of box 1 and box 2: the axis of the edge and its middle in the box's frame, place of the nearest point along it. The place on
// edge 1 is found, clipped, then that on edge 2, clipped, then the former once more, clipped.
typedef struct NUM(pbBoxEdges) {
  int axis[2];
  num middle[2][3];
  num start, place[2];
  int clipped[3];  // of the start, of place 1, of place 2: the end, -1 or 1; 0: not
} NUM(pbBoxEdges);

typedef struct NUM(pbBoxTouch) {
  bool edges_meet;  // else a face and another
  union {
    NUM(pbBoxFaces) faces;
    NUM(pbBoxEdges) edges;
  };
} NUM(pbBoxTouch);

// As pbBox_Box; touch is written where there are contacts.
int NUM(pbBox_Touch)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, NUM(pbBoxTouch) *touch,
                     NUM(pbContactPoint) *contacts);

// As pbPair_Jacobian. Of a ball one contact.
void NUM(pbSphere_BoxRates)(const NUM(pbShape) *sphere, const NUM(pbShape) *box, const NUM(pbContactPoint) *contact,
                            pbContactJacobian *j);
void NUM(pbCapsule_BoxRates)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, int count,
                             pbContactJacobian *j);
void NUM(pbBox_BoxRates)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, int count, pbContactJacobian *j);

#endif
