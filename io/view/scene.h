// What there is to see of a model: shapes of geoms and sites, paths of tendons, colors; and all of it at a row of a trajectory.
#ifndef PB_SCENE_H
#define PB_SCENE_H

#include <pullback/array.h>
#include <pullback/deform.h>
#include <pullback/enums.h>
#include <pullback/mesh.h>
#include <pullback/model.h>
#include <pullback/rollout.h>
#include <pullback/solid.h>
#include <pullback/view.h>
#include <pullback/world.h>

#include "io/json/json.h"
#include "io/progress.h"

// Fields of the model that a picture is made of, by their names in <pullback/model.h>; filled by pbScene_Begin.
typedef struct pbDrawn {
  int ngeom, nsite, ntendon;
  const int *geom_type, *geom_bodyid, *geom_matid, *geom_group, *geom_contype, *geom_conaffinity;
  const int *site_type, *site_bodyid, *site_matid, *site_group;
  const int *tendon_adr, *tendon_num, *tendon_matid, *wrap_type, *wrap_objid;
  const double *geom_size, *geom_pos, *geom_quat, *geom_aabb, *geom_rgba;
  const double *site_size, *site_pos, *site_quat, *site_rgba;
  const double *tendon_rgba, *tendon_width, *mat_rgba, *mat_cells, *stat_extent;
  const int *geom_dataid;
  pbMeshSurface *field;  // of height fields
  int fields;
} pbDrawn;

typedef struct pbScene {  // what is shown
  pbContext *ctx;
  const pbModel *model, *looks;  // looks: the same with what its meshes look like; NULL: `model` has it
  const double *theta;
  const char *path;  // of the model's file
  int nq, nv, nu, nbody, ncommand, nx;
  pbScratch *scratch;  // its own
  pbDrawn drawn;
  pbTicker ticker;
} pbScene;
pbStatus pbScene_Of(pbContext *ctx, const pbShown *shown, pbScene *scene);  // End it, also where this fails
void pbScene_End(pbScene *scene);
// Tells how far a part is; pb_interrupted where somebody has ended it.
pbStatus pbScene_GoOn(pbScene *scene, const char *part, int64_t done, int64_t all);
// Fails with pb_no_memory.
static inline pbStatus pbScene_NoMemory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

typedef struct pbSceneShape {
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
} pbSceneShape;
enum { SCENE_SHOWN_GROUPS = 3 };  // groups that are shown at first, as in MuJoCo

// The model that has what meshes look like (pbModel_MeshSurface).
const pbModel *pbScene_Looks(const pbScene *scene);
int pbScene_Surfaces(const pbScene *scene);   // of meshes, then of height fields
pbStatus pbScene_MakeFields(pbScene *scene);  // scene_field.c
int pbScene_Shapes(const pbScene *scene);     // geoms, then sites
pbSceneShape pbScene_Shape(const pbScene *scene, int index);

typedef struct pbSceneStation {
  int body;
  double at[3];  // in its frame
} pbSceneStation;
typedef struct pbScenePiece {
  pbSceneStation end[2];
  int geom;     // sphere or cylinder that it may go around; -1: none
  int station;  // of the geom among all tendons' stations
  bool has_side;
  pbSceneStation side;  // site by which it goes then
} pbScenePiece;
// Pieces of a tendon from one site to the next; none for tendons of joints.
int pbSceneTendon_Segments(const pbScene *scene, int tendon);
pbScenePiece pbSceneTendon_Segment(const pbScene *scene, int tendon, int segment);
// scene_path.c: its path at what was observed, world axes: as many points whatever is in the way.
enum { SCENE_ARC = 16 };  // parts of an arc
int pbScenePiece_Points(const pbScenePiece *piece);
void pbScene_Path(const pbScene *scene, const pbScenePiece *piece, double *x);
void pbSceneTendon_Color(const pbScene *scene, int tendon, double rgba[4]);

// Array of a trajectory that holds a field of the state; NULL where there is none of its shape.
const pbArray *pbScene_StateArray(const pbArrays *trajectory, const pbStateField *field);
// Poses, contacts and their forces at a row, into the scratch, with the inputs of its step. x: a state to start from; the fields
// that the trajectory holds are replaced.
pbStatus pbScene_Observe(pbScene *scene, const pbArrays *trajectory, size_t row, double *x);
// nbody x 7 of what was observed: position and quaternion (w, x, y, z).
pbStatus pbScene_Poses(const pbScene *scene, double *poses);

typedef struct pbSceneContacts {
  int count;
  const double *dist, *pos, *frame, *geom, *force;  // rows of 1, 3, 9 (the normal first), 2 and 6 (in that frame)
} pbSceneContacts;
pbSceneContacts pbScene_Contacts(const pbScene *scene);  // of what was observed

// r = q v q* for a unit quaternion q (w, x, y, z); r may be v.
void pbScene_Rotate(double r[3], const double q[4], const double v[3]);

// The page that plays a trajectory. file: the trajectory's, in messages.
// panel: NULL where there is none; with one, trajectory may be NULL, and a page without the library for drawing says so.
typedef struct pbCurve {
  const char *name;
  int count;
  const double *x, *y;  // finite
} pbCurve;
typedef struct pbSidePanel {  // what stands on a page beside the motion
  const char *title, *text;   // text: lines
  const char *axis;           // what the curves are over
  int curves;
  const pbCurve *curve;
  const char *no_motion;  // why nothing moves, where there is no trajectory
} pbSidePanel;
pbStatus pbPage_Put(pbScene *scene, const pbArrays *trajectory, const char *file, const pbSidePanel *panel, FILE *out);
// A page to stand in a frame of another, with a ghost (pbShown) whose clock is at `start` when the motion is at 0.
pbStatus pbPage_PutInset(pbScene *scene, const pbArrays *trajectory, const pbArrays *ghost, double start, FILE *out);

// Its color with the mean of its texture.
void pbSceneShape_Color(const pbSceneShape *shape, double rgba[4]);
// A shape's surface in the frame of its body. far: half the size of a plane without end. The caller destroys the mesh.
pbStatus pbSceneShape_Mesh(pbContext *ctx, const pbSceneShape *shape, double far, pbMesh **mesh);

#endif
