// Working memory of one world on one thread, behind the public pbScratch.
#ifndef PB_SCRATCH_H
#define PB_SCRATCH_H

#include <pullback/world.h>

#include "deform/deform.h"
#include "eval/work.h"
#include "model/state_layout.h"
#include "step/kernels.h"
#include "step/variants.h"

// Deformables are attached to bodies that move: one step for both (couple.h).
static inline bool pb_coupled(const pbModel *m) { return m->deform && m->deform->coupled; }
// Numbers that a step leaves in the tape's record: the state after it, and the preconditioner point of its solution (deform.h).
static inline int pb_deformRecord(const pbModel *m) { return m->deform ? m->deform_state + 3 * m->deform->npoint + 1 : 0; }

// Where a record has what a policy decided.
static inline int tape_policy(const pbModel *m) {
  return tape_stages(m) + pb_solutions(m) * m->nv + (m->contact.method == pb_contactImpact);
}

struct pbScratch {
  pbContext *ctx;  // of the thread: its memory
  const pbModel *model;
  const pbVariant *variant;           // kernels for this processor
  pbWork_r w;                         // the evaluation in double
  pbRoom room;                        // for contacts, and whether it grows
  void *complex_work;                 // the same in complex numbers (step/jvp.h); NULL: nobody has asked yet
  void *adjoint_one, *adjoint_lanes;  // cotangents, one and several side by side (step/vjp.h); NULL, each, likewise
  double *stages;                     // pb_solutions x nv: accelerations found by the last step
  double *seeds;                      // unit cotangents and their pullbacks, several side by side (Jacobians)
  double *row;                        // of deformables: cotangents for a row of a Jacobian, and its entries
  double *state;                      // StateSize: the state after a step before it is accepted
  int ticks;                          // dtime/dtimestep of derivatives: in a rollout the steps before this one, else 0
  struct pbGathered *gathered;        // dense copies for inspection (step/inspect.c)
  struct pbImpacts *impacts;          // contact method impact (impact/impact.h); otherwise NULL
  struct pbDeformWork *deform;        // NULL: nothing deforms
  struct pbPolicyWork *policy;        // NULL: there is none (world/policy_step.h)
  struct pbHistoryWork *history;      // NULL: nothing keeps samples (world/history_step.h)
  double *told;                       // nsensordata: what sensors tell, some of it late; NULL: what they measure
  const double *ctrl_later;           // 2 x nu: controls of later stages that LoadInput takes (pb_staged); NULL: as at the start
  double *ctrl_later_bar;             // 2 x nu: where pullbacks add cotangents of these; NULL: not wanted
  void *cached_factor;                // where the next step's factor is to be cached
  struct pbCouple *couple;            // NULL: nothing deformable is attached to a body that moves
  struct pbEvent *events;             // 2 x rows: of a step (impact/event.h)
  double *event_numbers;              // rows + 2 n: cotangents or tangents of distances, of the state after and before
  double *event_columns;              // hard contact: pbEvents_Room numbers
  double *event_poses;                // 6 nmocap: how poses flow
  int *event_parent;                  // rows
  int event_rows;                     // rows that these have room for
  void *cache_at;                     // where the next evaluation is to be cached; NULL: at its own place
  int contacts_before;                // contacts of the last step, to see onsets and releases; -1 before the first
  int *ids, *ids_before;              // their geoms and numbers of the contact points, in order,
  int id_room, *id_block;             // and for how many there is room in the block of both
  pbReport report;
  unsigned failures;      // texts written so far
  int revision;           // of the model it was made for
  const double *trusted;  // a theta that was looked at and stays as it is until the next (a rollout's); NULL: none
  const double *theta;    // and what steps read of it: itself, or theta_unit
  double *theta_unit;     // ParamSize: the last theta looked at, its directions normalized
  bool unit_before;       // they were of length one already
  bool defaults_unit;     // so were those of the model's own parameters, which were looked at
  unsigned skip;          // groups of parameters that pullbacks leave out (model/wanted.h)
  double *theta_tangent;  // ParamSize: a direction of theta, likewise
  double *theta_aside;    // 4 numbers a direction: what a gradient held before a pullback (sphere.h)
  char worst_row[256];    // of the last solve, if it did not converge
  char error[512];
};

// What derivatives work with, made when one is first asked for; that of events grows with the rows. pb_no_memory.
PB_NODISCARD pbStatus pbScratch_MakeComplex(pbScratch *s);
PB_NODISCARD pbStatus pbScratch_MakeAdjoint(pbScratch *s);
PB_NODISCARD pbStatus pbScratch_MakeLanes(pbScratch *s);
PB_NODISCARD pbStatus pbScratch_MakeEvents(pbScratch *s);
pbStatus pbScratch_Fail(pbScratch *s, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);
pbStatus pbScratch_InspectCreate(pbScratch *s);
void pbScratch_InspectDestroy(pbScratch *s);
// solve_report.c, on the last solve. A row in words, by its index or by kind and id; NoteSolve: the report's part on it.
char *pbScratch_RowName(const pbScratch *s, int row, char *text, size_t size);
char *pbScratch_KindName(const pbScratch *s, int kind, int id, char *text, size_t size);
// Do features of the pair tie whose first contact this is?
bool pbScratch_PairTies(const pbScratch *s, int first);
// The first pair of geoms in contact of the last evaluation whose features tie (geometry/tie.h), as text. False: none.
bool pbScratch_TiedPair(const pbScratch *s, char *text, size_t size);
void pbScratch_NoteSolve(pbScratch *s);
void pbScratch_NoteBounces(pbScratch *s);  // bounce.c: the report's gains of a step with hard contact
// Condition number of the matrix last factored (a lower bound).
double pbScratch_Condition(const pbScratch *s);
// Hash of the branches that the last step took: equal for two steps on the same ones; 0 where features of a contact tie.
uint64_t pbScratch_Branch(const pbScratch *s);
// The row with the largest force in the last step, in words; "" where none has any.
char *pbScratch_StrongestRow(const pbScratch *s, char *text, size_t size);
// pb_not_finite, with a text, where a row's spring and damper are too stiff for the time step.
PB_NODISCARD pbStatus pbScratch_CheckStiffness(pbScratch *s);
// Texts of failed solves: which matrix was singular; which law of hard contact was not met.
pbStatus pbScratch_ExplainSingular(pbScratch *s);
pbStatus pbScratch_ExplainHard(pbScratch *s);
// Public calls with a theta begin with it. Checks that the scratch was made for the model as it is, and that theta is finite with
// directions of lengths in range. *theta becomes what kernels read: itself, or a copy with directions normalized, which lives
// until the next call.
PB_NODISCARD pbStatus pbScratch_Enter(pbScratch *s, const pbModel *m, const double **theta);
// "field[i] (joint 'name')" of an entry that counts degrees of freedom; returns text.
char *pbState_DofName(const pbModel *m, const char *field, int i, char *text, size_t size);
// Have the quaternions of a state lengths in range (sphere.h)? Else which has not, in words.
bool pbState_Readable(const pbModel *m, const double *x, char *text, size_t size);
bool pbScratch_Stale(const pbScratch *s, const pbModel *m);
// Was the record made for the model as it is? To be asked before anything behind the record's state is read.
PB_NODISCARD pbStatus pbScratch_CheckRecord(pbScratch *s, const double *record);
// The checks of pbScratch_Enter once for many calls: later ones with this theta skip them. theta must not change until the next
// pbScratch_Trust.
PB_NODISCARD pbStatus pbScratch_Trust(pbScratch *s, const pbModel *m, const double *theta);
// Load state and inputs into the double evaluation; inputs alone.
void pbScratch_LoadInput(pbScratch *s, const pbInput *input);
void pbScratch_Load(pbScratch *s, const double *theta, const double *x, const pbInput *input);
// The failure of an evaluation in words.
pbStatus pbScratch_Explain(pbScratch *s, pbStatus status);
// Evaluate what was loaded, step on if `integrate`, and fill the report. State: the work's state, at `time`, as a vector.
pbStatus pbScratch_Run(pbScratch *s, bool sense, bool integrate);
void pbScratch_State(const pbScratch *s, double time, double *x);
void pbScratch_ForgetGain(pbScratch *s);  // energy made by impacts, in the report
// First entry that is not finite, -1: there is none; and such a number for a message, where "-nan" is no help.
int pbScratch_FirstNotFinite(const double *x, int n);
double pbScratch_WithoutSign(double x);

#endif
