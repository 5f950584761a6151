// Inside of `pullback view`: what its files share.
#ifndef PB_CLI_VIEW_H
#define PB_CLI_VIEW_H

#include "scene.h"

enum { VIEW_CONTACT = 11 };  // numbers of a contact: place, normal, force on the second geom (world axes), both geoms

typedef enum viewShapes { view_all, view_collision } viewShapes;  // --shapes: which geoms are in the page

typedef struct View {
  cliRun *run;
  const pbArrays *trajectory;
  const char *file;  // its name, in messages
  const cliAside *aside;
  viewShapes shapes;
  bool moving;  // false: the initial state alone
  cliShape *shape;
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
pbStatus view_ReadMotion(View *v);
pbStatus view_PutMotion(const View *v, cliJson *j);
// Numbers over time, for plots: states, controls, sensors.
pbStatus view_PutSeries(const View *v, cliJson *j);

// ---- view_scene.c: what is drawn, and how it hangs together
pbStatus view_PutScene(const View *v, cliJson *j);

#endif
