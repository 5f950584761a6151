// The kernel in a number type: included once for each (number/complex_begin.h).

typedef struct NUM(pbDerive) {
  num *xpos, *xquat, *xmat;  // nbody x 3, 4, 9
  num *xipos, *ximat;        // nbody x 3, 9
  num *com;                  // nbody x 3: center of mass of the subtree, times its mass until it is divided
  num *xanchor, *xaxis;      // njnt x 3
  num *inertia;              // nbody x 10 about com of the root, composite after derive
  num *cdof;                 // nv x 6: rotation, velocity of the reference point
  num *M;                    // plan.entries: lower triangles, then Cholesky factors
  num *M0;                   // nv: diagonal of M without tendons
  num *diagonal;             // nv: diagonal of M
  num *site_xpos;            // nsite x 3
  num *ten_length;           // ntendon
  num *row;                  // nv: one row of a Jacobian
  num *jac;                  // 6 x max_size
  int *touched;              // nv: dofs of the row that may be non-zero
  bool *mark;                // nv
  pbDerivePlan plan;
} NUM(pbDerive);

// Arrays for a plan that is already made.
void NUM(pbDerive_Layout)(pbArena *arena, const pbModel *m, NUM(pbDerive) *w);

// setconst_poses.c: poses at qpos (nq), sites, lengths of tendons.
void NUM(pbDerive_Poses)(const pbModel *m, const num *theta, const num *qpos, NUM(pbDerive) *w);

// Everything at qpos0, written into the derived entries of theta: body_subtreemass, body_invweight0, dof_invweight0,
// tendon_length0, tendon_invweight0, actuator_acc0, eq_data of connects and of welds that take the relative pose from qpos0,
// virtual mass and inertia in geom_fluid of geoms with the ellipsoid fluid model.
// -1, or a dof at which the mass matrix is singular; its pivot is then replaced by 1e-15, as in MuJoCo. Numbers of theta that are
// finite may give a matrix that is not: M0 shows it (pbDerive_Overflow).
int NUM(pbDerive_Run)(const pbModel *m, num *theta, NUM(pbDerive) *w);

// setconst_fluid.c: virtual mass and inertia of a geom by its type and size, the last six numbers of its geom_fluid.
void NUM(pbDerive_VirtualInertia)(int type, const num size[3], num out[6]);

// bar . derived(theta), up to a constant: value and slope equal those of the derived entries at the theta it was frozen at.
// Writes derived entries of theta.
num NUM(pbDerive_Power)(const pbModel *m, num *theta, const pbFrozen *f, NUM(pbDerive) *w);

// After Run: row of a tendon's Jacobian into w->row (nv; only the touched entries are written, the others are zero), their
// number is returned. The caller clears by pbDerive_ClearRow.
int NUM(pbDerive_TendonRow)(const pbModel *m, const num *theta, NUM(pbDerive) *w, int tendon);
void NUM(pbDerive_ClearRow)(NUM(pbDerive) *w, int touched);
// After Run: adds scale (force . velocity of a point fixed to a body + torque . its angular velocity) to the row; the new count.
// torque may be NULL.
int NUM(pbDerive_AddPoint)(const pbModel *m, NUM(pbDerive) *w, int body, const num *point, const num *force, const num *torque,
                           num scale, int touched);
// Solve M x = row for the dofs of one component: x has plan.size[comp] entries; half: only the first triangle, |x|^2 = row' M^-1
// row.
void NUM(pbDerive_Solve)(const NUM(pbDerive) *w, int comp, num *x, bool half);
// jac = M^-1 row within a component; false, and zeros, if the row has no dof there.
bool NUM(pbDerive_SolveRow)(NUM(pbDerive) *w, int comp, int touched);

// setconst_actuator.c, after Run: an actuator's length at the poses, and its row as that of a tendon.
int NUM(pbDerive_ActuatorRow)(const pbModel *m, const num *theta, NUM(pbDerive) *w, int actuator, num *length);
