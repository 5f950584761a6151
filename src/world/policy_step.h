// A policy in the world's step: closed loop = open-loop step at inputs that the policy decides from the state. Before a step
//
//   o = observed (state), held = decide (o, memory), out = act (held, o, memory), inputs += out
//
// and its derivatives by the chain rule: the open-loop step's, then the functions', then those of what is observed.
//
// Worlds of a batch share one call of the functions: Sense of each, the observations of all side by side, one call of forward
// with as many columns, what came out back to each (held, out, memory), then pbPolicy_Accept. The way back alike: pbPolicy_Open
// and the pullback of the open step, one call of pull with all columns, then the pullback of the observations.
#ifndef PB_POLICY_STEP_H
#define PB_POLICY_STEP_H

#include "model/policy_data.h"
#include "model/state_layout.h"
#include "step/record.h"

enum { pb_keptColumns = 64 };  // columns of one product that makes gradients by parameters

// Columns from which a function's gradient by parameters is to be made.
typedef struct pbKeptColumns {
  const pbPolicyFunction *function;
  size_t at;  // in theta: of its parameters
  int count;
  double *number;  // kept_size x pb_keptColumns
} pbKeptColumns;

// Of Jacobians (policy_jacobian.c): those of the open step, how their rows follow what the policy puts out; rows of the policy,
// by what is held, by what it observes, by the state and by poses of mocap bodies; columns of its functions, some at a time.
typedef struct pbClosedRoom {
  double *A, *B, *C, *D, *reach;
  double *held, *observation, *by_state, *by_pose, *lanes;
  double *o, *m, *out_bar, *m_next_bar, *o_bar, *m_bar;
  void *work, *function_work, *memory;  // of products, of functions; NULL: nobody has asked yet
} pbClosedRoom;

typedef struct pbPolicyWork {
  const pbPolicyModel *model;
  bool decides;           // in this step
  bool called;            // its functions, for the next step or pullback, by a pack
  double *observation;    // observing: of decide, then of act
  const double *noise;    // observed: is added to what decide observes; NULL: none
  double *held, *memory;  // in the step; memory after it
  double *out;            // outputs
  double *act_input;      // held and what act observes
  pbInput input;          // what the open step sees: the arrays below, or the caller's where nothing is added
  double *ctrl, *qfrc, *xfrc;
  const double *given;  // controls of the caller's; NULL: none

  // Cotangents, and in forward derivatives tangents, of the same.
  double *observation_bar, *held_bar, *memory_bar, *out_bar, *act_input_bar;
  double *ctrl_bar, *qfrc_bar, *xfrc_bar;
  double *zero_tail;      // the policy's part of a tangent, zero
  void *function_work;    // of decide and act, for one column or a product of pb_keptColumns
  pbKeptColumns kept[2];  // decide, act
  const double *collect;  // gradients by theta that go there are made of kept columns, by pbPolicy_Flush
  bool skip;              // no gradient by the policy's parameters is wanted
  bool rows;              // of Jacobians are pulled: a cotangent is no direction of descent, which projected clips go by
  pbClosedRoom closed;
  void *memory_block;
} pbPolicyWork;

// Whose pullback makes rows of Jacobians: with projected clips the exact twin.
static inline const pbPolicyFunction *pbPolicy_OfRows(const pbPolicyFunction *f) { return f->exact ? f->exact : f; }

PB_NODISCARD pbStatus pbPolicyWork_Create(pbScratch *s);
void pbPolicyWork_Destroy(pbScratch *s);

// pbModel_SetPolicy without trying the functions.
PB_NODISCARD pbStatus pbModel_TrustPolicy(pbModel *m, const pbPolicyDef *def);
// Rows that pbPolicy_Observe gives behind all others, and no function reads: what a critic sees. After SetPolicy, before the
// first scratch. pb_bad_argument with the row, and then the model is to be destroyed.
PB_NODISCARD pbStatus pbModel_WatchPolicy(pbModel *m, const pbObserveDef *def, int count);

// ---- forward -------------------------------------------------------------------------------------------------------
// The state into the work, positions and velocities, what the policy observes.
void pbPolicy_Sense(pbScratch *s, const double *theta, const double *x, const pbInput *input);
// The functions, for one world: held, out and memory.
PB_NODISCARD pbStatus pbPolicy_Call(pbScratch *s, const double *theta, const double *x);
// A call of a function for one world. Begin: false where there is none, and held, memory or out are what they are without.
typedef struct pbPolicyCall {
  pbKeptColumns *kept;  // whose function
  const double *o, *m;
  double *out, *m_next;
} pbPolicyCall;
bool pbPolicy_BeginDecide(pbScratch *s, const double *x, pbPolicyCall *call);
bool pbPolicy_BeginAct(pbScratch *s, const double *x, pbPolicyCall *call);  // after the call of decide
pbStatus pbPolicy_Failed(pbScratch *s, const pbPolicyFunction *function, pbStatus status);
// Are held, out and memory finite? Then pbPolicyWork.input is what the open step sees.
PB_NODISCARD pbStatus pbPolicy_Accept(pbScratch *s, const double *x, const pbInput *input);
// All three. Work has the first half of the evaluation (pbWork.sensed).
PB_NODISCARD pbStatus pbPolicy_Before(pbScratch *s, const double *theta, const double *x, const pbInput *input);
// The policy's part of the state after the step; what the step leaves in the tape's record.
void pbPolicy_Next(const pbScratch *s, const double *x, double *next);
void pbPolicy_Record(const pbScratch *s, double *record);

// ---- derivatives ---------------------------------------------------------------------------------------------------
// The open step of a recorded one: with the inputs that it saw, which are the work's.
pbStepRecord pbPolicy_Open(pbScratch *s, const pbStepRecord *step);
// The part before the functions' own pullback: out_bar, and what they saw.
PB_NODISCARD pbStatus pbPolicy_VjpToFunctions(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in,
                                              const pbStepBar *out);
// The pullback of a function for one world: from cotangents of what it put out to those of what it saw. Act's comes first, whose
// End hands on what it gave; x_bar: out.x of the step.
typedef struct pbPolicyPull {
  pbKeptColumns *kept;
  const double *o, *m, *out_bar, *m_next_bar;
  double *o_bar, *m_bar;
} pbPolicyPull;
bool pbPolicy_BeginPullAct(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, pbPolicyPull *call);
void pbPolicy_EndPullAct(pbScratch *s);
bool pbPolicy_BeginPullDecide(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, pbPolicyPull *call);
// Where the next kept column of a function goes (entries pb_keptColumns apart; NULL: none is wanted), and that it is there.
double *pbPolicy_KeptColumn(pbPolicyWork *k, pbKeptColumns *c, double *theta_bar);
PB_NODISCARD pbStatus pbPolicy_KeepColumn(pbPolicyWork *k, pbKeptColumns *c, const double *theta, double *theta_bar);
// act_input: held and what act observes, side by side. Is the step from state x the last one of a decision, and hears the next
// decision what went out?
void pbPolicy_JoinActInput(pbPolicyWork *k);
bool pbPolicy_HearsNow(const pbScratch *s, const double *x);
PB_NODISCARD pbStatus pbPolicy_Vjp(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in, const pbStepBar *out);
PB_NODISCARD pbStatus pbPolicy_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction,
                                   const pbStepTangent *out);

// Gradients by the policy's parameters that go to `theta_bar` are gathered from now on in blocks of steps, and added by Flush
// (which ends it). NULL: each step adds its own.
void pbPolicy_Collect(pbScratch *s, const double *theta_bar);
PB_NODISCARD pbStatus pbPolicy_Flush(pbScratch *s, const double *theta, double *theta_bar);
// Have the functions forward derivatives?
static inline bool pbPolicy_Pushes(const pbModel *m) {
  const pbPolicyModel *p = m->policy;
  return !p || (p->decide->push && (!p->act || p->act->push));
}

// Is the pullback of the functions their derivative everywhere? Not where they project it (pb_layerClip).
static inline bool pbPolicy_IsExact(const pbModel *m) {
  const pbPolicyModel *p = m->policy;
  return !p || (!p->decide->exact && (!p->act || !p->act->exact));
}

// Cotangents of what was held, which is observed without an evaluation, to the state (added to).
static inline void pbPolicy_PullHeld(const pbModel *m, const double *observation_bar, double *x_bar) {
  const pbPolicyModel *p = m->policy;
  double *held = x_bar + tangent_policy(m) + p->memory;

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (r->kind != pb_observeLast) continue;
    for (int i = 0; i < r->count; i++)
      held[r->first + (r->component ? r->component[i] : i)] += r->scale * observation_bar[r->at + i];
  }
}

#endif
