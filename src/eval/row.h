// A block of constraint rows, and what its force does.
#ifndef PB_EVAL_ROW_H
#define PB_EVAL_ROW_H

#include "eval/names.h"
#include "model/row_kinds.h"

// Active set of a row's potential (contact/potential.h), pbRow.zone. In pb_zoneOpen, whatever the potential, there is no force.
enum { pb_zoneOpen = 0, pb_zoneActive = 1 };  // quadratic, one-sided and smoothed rows, given forces
enum {
  pb_lossQuadratic = 1,
  pb_lossAbove = 2,
  pb_lossBelow = 3
};  // bounded rows (friction loss, servos): -D x between the bounds of the force, or x above or below
enum { pb_coneTop = pb_zoneOpen, pb_coneMiddle = 1, pb_coneBottom = 2 };  // elliptic cone: separates, slides, sticks
// Pyramid: a bit for each edge that pushes, normal + mu_k tangent_k (side 0) or normal - mu_k tangent_k (side 1), k from 1.
static inline int pb_edge_bit(int tangent, int side) { return 1 << (2 * (tangent - 1) + side); }

// Constraint rows that belong together, in a basis of dim rows: x = J a - aref, force f = -ds/dx, Hessian K = d2s/dx2.
// Pyramidal contacts keep their basis (normal, tangents, ...); edges are functions of it.
struct NUM(pbRow) {
  pbRowKind kind;
  union {
    int id;  // with the kind, says which rows these are (of tendons: nv + tendon for friction loss, njnt + tendon for limits)
    int equality;  // pb_rowEquality
    int dof;       // pb_rowFriction of a dof
    int actuator;  // pb_rowServo
    int joint;     // pb_rowLimit of a joint
    int contact;   // pb_rowContact: index into the contacts
  };
  int tendon;          // friction loss and limits of tendons: which; else -1
  int side;            // limits: -1 lower, +1 upper, 0 of a ball's angle
  int dim;             // rows in the basis
  int n;               // dofs touched
  int dofs, J;         // offsets into row_dofs (n, ascending) and row_J (dim x n)
  int zone;            // active set, see above
  int factor_zone;     // the zone that the factor of H was made for
  int solref, solimp;  // where in theta (2, 5 numbers); contacts, which have their own: -1
  int at;              // hard contact, or sweeps against slip: first number of the row in w->dual or w->slip
  num margin;
  num imp, dimp;        // impedance d and its derivative by pos (connect, weld: by its norm)
  num k, b, b_tangent;  // of the reference acceleration: stiffness, damping, damping of a contact's tangential rows
  num mu;               // elliptic cone: its regularized friction, friction_0 / sqrt(impratio)
  num bound[2];         // bounded rows: least and largest force; of friction loss -loss, loss
  num target;           // servos: the velocity asked for

  // Of each of dim rows
  num pos[6];   // position residual (contacts: dist, 0, ...)
  num diag[6];  // diagApprox of each row; contacts: that of the normal, for all, in [0]
  union {
    num R[6];    // regularization of each row
    num edge_R;  // pyramid: of each edge
  };
  union {
    num D[6];    // inverse of R
    num edge_D;  // pyramid: inverse of edge_R
  };
  num vel[6];  // J v
  num aref[6];
  num x[6];  // J a - aref at the solution
  num f[6];
  num K[36];  // dim x dim
  num Jp[6];  // J p, line search
};

#endif
