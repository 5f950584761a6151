// Rows of the Jacobian of the new velocities by pairs of dofs. The virtual power W = lam . r + mu . r_mu of the equations of
// motion (docs/derivatives.md) is linear in lam and mu, so A = sum over dofs i of lam_i dW_i/dx, W_i being the power under the
// unit rate of dof i alone: no traversal of the tree for each row, but derivatives W_ij of one power by one coordinate, most of
// which are zero, and one product with the lam of all rows.
//
// Bodies. The unit rate of dof i moves all that it carries by its axis S_i. What each body's cotangents are under any motion X of
// it are matrices of 6 x 6, which add up down the tree as composite inertias do. Of inertia (Singh, Russell & Wensing 2022,
// Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra; Carpentier & Mansard 2018 have the
// recursion) they are -I X of A, and X x* I V - I-dot X of V, I-dot = V x* I - I V x being the rate of the inertia, which has ten
// numbers as well. Of whatever else acts on a body they come from one pullback of the terms, in which every body has six unit
// motions of its own side by side. Under a motion of the carried by S_j, seen from axes that move along, the fields of all that
// is carried change by the same, with b for what they were before the joint:
//
//   V by V_b x S_j,   A by A_b x S_j + V_b x (V_b x S_j) + (V_b x S_j) x V,   Va and Vw by Va_b x S_j and Vw_b x S_j,
//   Vx by -S_j x Vx_b, where dof i comes before the joint of j.
//
// With the third term of A in the matrix of V (V x* FA to FV; of inertia it is in I-dot), W_ij is a product of one axis, one
// matrix of whichever dof is carried, and one vector of the other dof. Rows of two bodies that both move are pulled under the
// motion of one and of the other; what one has under the motion of the other goes into the product as it is.
//
// Joints. What acts on joints has derivatives between near dofs only: those of one color stand side by side (model/topology.h).
//
// Not by pairs: eight dofs or fewer, what moves along spatial tendons and sites, gravity compensation through actuators, friction
// by load, free bodies under implicitfast, cotangents of mocap bodies. These are pulled row by row (jacobian_adjoint.c).
#ifndef PB_PAIRS_H
#define PB_PAIRS_H

#include "eval/adjoint.h"

#if PB_SEEDS > 1

struct LANE(pbVjpBlock);

typedef double pbWide __attribute__((vector_size(64)));  // a row of a matrix, or eight dofs

enum { pb_powerOfLam, pb_powerOfMu, pb_powers };  // the virtual powers under lam and mu
// Fields of bodies that more than inertia has cotangents of: pose, V, Va, A (of what holds two places together), and Vw (of mu
// alone).
enum { pb_pairPose, pb_pairV, pb_pairVa, pb_pairA, pb_pairVw, pb_pairFields };
// How an axis moves these fields of what it carries; the last: A by the rate.
enum { pb_axisPose, pb_axisV, pb_axisVa, pb_axisA, pb_axisVw, pb_axisRate, pb_axisKinds };
// Matrices are 6 x 8, the last two columns zero: cotangents in rows, unit motions in columns.
enum { pb_pairColumns = 8, pb_pairMatrix = 6 * pb_pairColumns };

// A derivative of the power under one virtual rate by one number.
typedef struct pbPairEntry {
  int row, column;  // dof; column of A, behind them those of B
  double value;
} pbPairEntry;

// Cotangents of one body under the motion of another one.
typedef struct pbPairCross {
  int moved, body;
  double matrix[pb_pairVw][pb_pairMatrix];
} pbPairCross;

typedef struct LANE(pbPairs) {
  double *matrix[pb_powers];      // nbody x fields x 2: of a body, then with all below it; behind each its transpose
  double *force[pb_powers];       // nbody x 6: what the motion itself is multiplied by
  double *momentum, *rate;        // nbody x 6, nbody x 10: I V and I-dot of a body, then with all below it
  bool *touched;                  // nbody: more acts on the body, or on what it carries, than inertia
  int fields[pb_powers];          // so many fields of these have matrices
  double *axis;                   // kinds x 6 x padded
  int padded;                     // dofs, to whole vectors of eight
  double *carried;                // 48 x padded: what dofs have for the axes of their carriers
  double *row;                    // 6 x padded: of a dof with all dofs of its tree
  double (*tree[pb_powers])[4];   // M.size: of a dof and a carrier, their q and v: by the carrier's under the dof's rate; by the
                                  // dof's under the carrier's
  pbPairEntry *other[pb_powers];  // what is not by pairs of the tree
  int others[pb_powers], max_others;
  pbPairCross *cross;  // 2 x rows
  int crosses;
  lane *product;  // columns x strips
} LANE(pbPairs);

// The matrix of a field of a body under a power: as it is, or transposed.
static inline double *LANE(pbPairs_Matrix)(const LANE(pbPairs) *p, int power, int body, int field, bool transposed) {
  return p->matrix[power] + (size_t)(2 * (body * pb_pairFields + field) + transposed) * pb_pairMatrix;
}
// Entry k of the axes of all dofs, of a kind.
static inline double *LANE(pbPairs_Axis)(const LANE(pbPairs) *p, int kind, int k) {
  return p->axis + (size_t)(6 * kind + k) * (size_t)p->padded;
}

// Can the model's evaluations be done by pairs, and is it worth it?
bool LANE(pbPairs_Serve)(const pbModel *m);
// Matrices, forces, `other` and crosses under a power; lam first. False: something goes by no pairs.
bool LANE(pbPairs_Pull)(struct LANE(pbVjpBlock) *k, int power);
// Has mu the power of inertia alone?
bool LANE(pbPairs_OnlyInertia)(const LANE(pbAdjoint) *a);
// Rows of v+ by the state (A) and by controls and forces of dofs, where `by` says so (B; either may be NULL), lam_of and mu_of
// being those of all seeds. False: nothing was written.
bool LANE(pbPairs_Rows)(struct LANE(pbVjpBlock) *k, unsigned by, double *A, double *B);

#endif

#endif
