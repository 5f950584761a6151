// Tables derived from a compiled model once: chains of degrees of freedom, the pattern of the mass matrix, candidate pairs.
#ifndef PB_TOPOLOGY_H
#define PB_TOPOLOGY_H

#include "base/assert.h"
#include "linalg/tree_ldl.h"
#include "model/mesh.h"
#include "model/model.h"
#include "model/triangles.h"

// A pair of geoms that may touch, parameters as MuJoCo would choose them.
typedef struct pbCandidate {
  int geom1, geom2;  // type of geom1 <= type of geom2
  int pair;          // id of an explicit pair, or -1
  int contacts;      // most contact points it can have
} pbCandidate;

// Candidates in a row, without parameters of their own, of one geom and others that follow each other by number, none of which
// is a plane: what the broad phase looks at side by side.
typedef struct pbCandidateRun {
  int first, count;  // candidates
  int geom, other;   // the one, and the first of the others; geom -1: candidates of any kind
} pbCandidateRun;

typedef struct pbTopology {
  int ntree;
  int *body_tree;                          // nbody: id of the kinematic tree, -1 for bodies that cannot move
  int *body_dofend;                        // nbody: last dof that moves the body (of itself or an ancestor), -1 if none
  int *tree_root;                          // ntree: body at the root of the tree
  int *dof_actuator_start, *dof_actuator;  // actuators whose damping and armature a joint's dof reflects (CSR over nv)
  int *ten_actuator_start, *ten_actuator;  // the same for tendons (CSR over ntendon)
  int *ten_start, *ten_dof;                // dofs that move a tendon, ascending (CSR over ntendon)
  int *ten_carrier;                        // ntendon: nearest body that carries all of a spatial tendon's path
  int *ten_bodies, **ten_body;  // ntendon: how many bodies move against each other under a spatial path; these, ascending
  int nsite_read, *site_read;   // sites whose position a step reads, ascending; of these,
  bool *site_turned;            // nsite: those whose orientation it reads too
  int ngeom_read, *geom_read;   // geoms whose pose a step without fluids and deformables reads, ascending
  pbTreePattern M;              // pattern of the mass matrix (dof_parentid)
  int *dof_end;                 // nv: behind the last of the dofs that a dof carries, which follow it
  int *near_start, *near_dof;   // dofs that meet a dof in joint space, itself among them, ascending (CSR over nv)
  int ncolor, *dof_color;       // nv: no two of a color are near the same dof
  int ncandidate;
  pbCandidate *candidate;
  int nrun;
  pbCandidateRun *run;  // all candidates, in order
  pbMeshHull *hull;     // nmesh: of those that may touch, else empty
  double *hull_reals;
  int *hull_ints;             // their memory
  pbTriangleTree *triangles;  // nmesh: of those that rays may meet, else empty
  pbTriangleNode *triangle_nodes;
  double *triangle_corners;  // their memory
  int nsphere;
  struct pbSphereRow *sphere;         // directions in theta (sphere.h)
  bool has_contact_sensors, adheres;  // adheres: is there an actuator on a body?
  bool keeps_gap;                     // does anything see contacts in the gap beyond their margin?
  int max_contacts;                   // sum of contacts, at most 2^20
  int max_dim;                        // most rows of a contact
  int max_chain;                      // longest chain of dofs
  int max_blocks, max_rowdata;        // constraint blocks and J entries besides contacts
} pbTopology;

PB_NODISCARD pbStatus pbModel_MakeHulls(const pbModel *model, pbTopology *topology);      // mesh.c
PB_NODISCARD pbStatus pbModel_MakeTriangles(const pbModel *model, pbTopology *topology);  // triangles.c
// topology_site.c: the lists of sites and of geoms; geoms need the candidates.
PB_NODISCARD pbStatus pbTopology_Sites(const pbModel *m, pbTopology *t);
PB_NODISCARD pbStatus pbTopology_Geoms(const pbModel *m, pbTopology *t);
// topology_tendon.c: the lists of tendons; needs body_dofend.
PB_NODISCARD pbStatus pbTopology_Tendons(const pbModel *m, pbTopology *t);
// topology_near.c: near dofs and their colors; needs the lists of tendons.
PB_NODISCARD pbStatus pbTopology_Near(const pbModel *m, pbTopology *t);

void pbTopology_Destroy(pbContext *ctx, pbTopology *topology);

// A tree of exactly one free joint, jointless children or not: implicitfast gives its six dofs an unsymmetric block.
static inline bool free_standalone(const pbModel *m, int joint) {
  PB_ASSERT(joint >= 0 && joint < m->njnt);
  int dof = m->jnt_dofadr[joint];
  if (m->jnt_type[joint] != pb_jntFree) return false;

  // The next dof, if there is one, belongs to another tree.
  return dof + 6 == m->nv || m->dof_treeid[dof + 6] != m->dof_treeid[dof];
}

#endif
