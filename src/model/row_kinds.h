// Kinds of constraint rows, one row each: enumerators, how their forces are bounded, how many there may be, names, the file of
// src/bodies/rows that makes and differentiates them. Equalities have a list of their own: pullback/equalities.h.
#ifndef PB_ROW_KINDS_H
#define PB_ROW_KINDS_H

#include <pullback/enums.h>

// X(kind, name, law, of, off, file): in the order in which rows are made, MuJoCo's, after equalities.
//   law    of the force: Bounded: on both sides, asks for a velocity and has no position to correct; OneSided: it pushes; Contact
//   of     what has such rows, at most: Losses: one for a dof or tendon; Servos: one; Ranges: two for a joint or tendon; Contacts
//   off    the flag that switches them off; 0: none
#define PB_ROW_KINDS(X)                                                       \
  X(Friction, "friction loss", Bounded, Losses, pb_disFrictionloss, friction) \
  X(Servo, "servo", Bounded, Servos, 0, servo)                                \
  X(Limit, "limit", OneSided, Ranges, pb_disLimit, limit)                     \
  X(Contact, "contact", Contact, Contacts, 0, contact)

typedef enum pbRowKind {
  pb_rowEquality,
#define X(kind, ...) pb_row##kind,
  PB_ROW_KINDS(X)
#undef X
} pbRowKind;
#define X(...) +1
enum { pb_rowKinds = 1 PB_ROW_KINDS(X) };
#undef X

typedef enum pbRowLaw { pb_lawEquality, pb_lawBounded, pb_lawOneSided, pb_lawContact } pbRowLaw;
static inline pbRowLaw pb_row_law(pbRowKind kind) {
#define X(kind, name, law, ...) \
  case pb_row##kind: return pb_law##law;
  switch (kind) {
    PB_ROW_KINDS(X)
    default: return pb_lawEquality;
  }
#undef X
}

#endif
