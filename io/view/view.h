// Inside of `pullback view`: what its files share.
#ifndef PB_VIEW_H
#define PB_VIEW_H

#include "io/view/scene.h"

enum { VIEW_CONTACT = 11 };  // numbers of a contact: place, normal, force on the second geom (world axes), both geoms

typedef enum viewShapes { view_all, view_collision } viewShapes;  // which geoms are in the page

typedef struct ViewGhost {  // a recording beside the motion
  const pbArrays *set;      // as it was read; NULL: there is none
  const char *file;         // its name; NULL: it has none
  double start;             // s, of its clock at time 0 of the motion
  float *qpos;              // (frames, nq): its positions in each frame, where it has none those of the motion
  int *joint, joints;       // of which it has any
} ViewGhost;

typedef struct View {
  pbScene *scene;
  const pbArrays *trajectory;
  const char *file;  // its name, in messages
  const pbSidePanel *panel;
  viewShapes shapes;
  bool moving;  // false: the initial state alone
  bool inset;   // a part of another page: fewer frames, and nothing to be plotted
  ViewGhost ghost;
  pbSceneShape *shape;
  int shape_count;

  // the motion
  size_t rows, frames;
  size_t *row_of;         // of each frame
  double *time;           // of each frame
  float *poses;           // (frames, nbody, 7)
  size_t *contact_start;  // (frames + 1): first contact of each frame
  float *contacts;        // VIEW_CONTACT of each
  size_t contact_room;
  const pbArray *points;  // of deformables, (rows, 3 n); NULL: none
  float *places;          // (frames, 3 n): of the points
  pbMesh *mesh;
  pbCells skin;
  char *library;  // three.js where it was read at run time
} View;

// ---- view_motion.c: frames of the trajectory, and what the camera looks at
pbStatus pbView_ReadMotion(View *v);
pbStatus pbView_PutMotion(const View *v, pbJson *j);
// Numbers over time, for plots: states, controls, sensors.
pbStatus pbView_PutSeries(const View *v, pbJson *j);

// ---- view_ghost.c: positions of a recording at the times of the frames
pbStatus pbView_ReadGhost(View *v);
void pbView_PutGhost(const View *v, pbJson *j);

// ---- view_scene.c: what is drawn, and how it hangs together
pbStatus pbView_PutScene(const View *v, pbJson *j);

#endif
