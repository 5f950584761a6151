// Names of what an evaluation consists of, for prototypes and pointers of sources that need not see the structs. Each holds the
// one before it and adds what is computed from it; a function takes the least that it reads, so that what is added to the last
// concerns few:
//
//   pbMechanism    mechanism.h    the state, and how bodies, tendons and actuators move and push: what terms read
//   pbConstraints  constraints.h  and contacts and rows (contact.h, row.h)
//   pbWork         work.h         and what solvers and integrators work with: all of an evaluation
//
// w->mechanism is the first of the others, w->constraints the second of a pbWork; their members are also the others' own: w->xpos
// is w->mechanism.xpos (-fms-extensions: a struct within another without a name).
#ifndef PB_EVAL_NAMES_H
#define PB_EVAL_NAMES_H

#include "number/number.h"

#ifdef PB_NUMBER_SUFFIX  // one type for all variants of doubles (number.h)
#define pbContact_v3     pbContact_r
#define pbContact_v4     pbContact_r
#define pbRow_v3         pbRow_r
#define pbRow_v4         pbRow_r
#define pbMechanism_v3   pbMechanism_r
#define pbMechanism_v4   pbMechanism_r
#define pbConstraints_v3 pbConstraints_r
#define pbConstraints_v4 pbConstraints_r
#define pbWork_v3        pbWork_r
#define pbWork_v4        pbWork_r
#endif

typedef struct NUM(pbContact) NUM(pbContact);
typedef struct NUM(pbRow) NUM(pbRow);
typedef struct NUM(pbMechanism) NUM(pbMechanism);
typedef struct NUM(pbConstraints) NUM(pbConstraints);
typedef struct NUM(pbWork) NUM(pbWork);

#endif
