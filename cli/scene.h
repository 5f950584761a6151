// What there is to see of a model: shapes of geoms and sites, paths of tendons, colors; and all of it at a row of a trajectory.
#ifndef PB_CLI_SCENE_H
#define PB_CLI_SCENE_H

#include "cli.h"

typedef struct cliShape {
  bool site;                                         // else a geom
  int id;                                            // of the geom or site
  int type, body;                                    // pb_geom*; the body it moves with
  const char *name;                                  // "" where it has none
  double size[3], pos[3], quat[4], box[6], rgba[4];  // box: center and half sizes of what has no size (meshes)
  double cells[6];                                   // two colors that its texture multiplies it by, cell by cell
  int group;
  bool collides;                           // may touch others
  bool hidden;                             // nothing to be seen of it: transparent, or a mesh that was not read
  int surface;                             // of a mesh (pbModel_MeshSurface) or height field; -1: none
  double surface_pos[3], surface_quat[4];  // its frame in that of the geom
  pbMeshSurface look;
} cliShape;
enum { CLI_SHOWN_GROUPS = 3 };  // groups that are shown at first, as in MuJoCo

// The model that has what meshes look like (pbModel_MeshSurface).
const pbModel *cliScene_Looks(const cliRun *run);
// Fields of run->model into run->drawn: before anything below. cliRun_End ends it.
pbStatus cliScene_Begin(cliRun *run);
int cliScene_Surfaces(const cliRun *run);   // of meshes, then of height fields
pbStatus cliScene_MakeFields(cliRun *run);  // scene_field.c
int cliScene_Shapes(const cliRun *run);     // geoms, then sites
cliShape cliScene_Shape(const cliRun *run, int index);

typedef struct cliStation {
  int body;
  double at[3];  // in its frame
} cliStation;
typedef struct cliPiece {
  cliStation end[2];
  int geom;     // sphere or cylinder that it may go around; -1: none
  int station;  // of the geom among all tendons' stations
  bool has_side;
  cliStation side;  // site by which it goes then
} cliPiece;
// Pieces of a tendon from one site to the next; none for tendons of joints.
int cliTendon_Segments(const cliRun *run, int tendon);
cliPiece cliTendon_Segment(const cliRun *run, int tendon, int segment);
// scene_path.c: its path at what was observed, world axes: as many points whatever is in the way.
enum { CLI_ARC = 16 };  // parts of an arc
int cliPiece_Points(const cliPiece *piece);
void cliScene_Path(const cliRun *run, const cliPiece *piece, double *x);
void cliTendon_Color(const cliRun *run, int tendon, double rgba[4]);

// Array of a trajectory that holds a field of the state; NULL where there is none of its shape.
const pbArray *cliScene_StateArray(const pbArrays *trajectory, const pbStateField *field);
// Poses, contacts and their forces at a row, into run->scratch, with the inputs of its step. x: a state to start from; the fields
// that the trajectory holds are replaced.
pbStatus cliScene_Observe(cliRun *run, const pbArrays *trajectory, size_t row, double *x);
// nbody x 7 of what was observed: position and quaternion (w, x, y, z).
pbStatus cliScene_Poses(const cliRun *run, double *poses);

typedef struct cliContacts {
  int count;
  const double *dist, *pos, *frame, *geom, *force;  // rows of 1, 3, 9 (the normal first), 2 and 6 (in that frame)
} cliContacts;
cliContacts cliScene_Contacts(const cliRun *run);  // of what was observed

// r = q v q* for a unit quaternion q (w, x, y, z); r may be v.
void cli_rotate(double r[3], const double q[4], const double v[3]);

// What stands on a page beside the motion.
typedef struct cliCurve {
  const char *name;
  int count;
  const double *x, *y;  // finite
} cliCurve;
typedef struct cliAside {
  const char *title, *text;  // text: lines
  const char *axis;          // what the curves are over
  int curves;
  const cliCurve *curve;
  const char *instead;  // why nothing moves, where there is no trajectory
} cliAside;
// The page that plays a trajectory. file: the trajectory's, in messages.
// aside: NULL where there is none; with one, trajectory may be NULL, and a page without the library for drawing says so.
pbStatus cliPage_Put(cliRun *run, const pbArrays *trajectory, const char *file, const cliAside *aside, FILE *out);

// Its color with the mean of its texture.
void cliShape_Color(const cliShape *shape, double rgba[4]);
// A shape's surface in the frame of its body. far: half the size of a plane without end. The caller destroys the mesh.
pbStatus cliShape_Mesh(pbContext *ctx, const cliShape *shape, double far, pbMesh **mesh);

#endif
