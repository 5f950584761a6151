// Offsets of the state vector.
#ifndef PB_STATE_LAYOUT_H
#define PB_STATE_LAYOUT_H

#include "model/policy_data.h"

typedef struct pbStateLayout {
  int time, qpos, qvel, act, warm, deform, history, policy, size;
} pbStateLayout;

static inline pbStateLayout state_layout(const pbModel *m) {
  pbStateLayout s = {0, 1, 1 + m->nq, 1 + m->nq + m->nv, 1 + m->nq + m->nv + m->na, 1 + m->nq + 2 * m->nv + m->na, 0, 0, 0};
  s.history = s.deform + m->deform_state;
  s.policy = s.history + m->nhistory;
  s.size = s.policy + pb_policyState(m);
  return s;
}

// A tape record: the state before the step, the revision of the model it was made for, accelerations of the stages, what a
// method adds.
static inline int tape_revision(const pbModel *m) { return state_layout(m).size; }
static inline int tape_stages(const pbModel *m) { return tape_revision(m) + 1; }

// Where those of deformables begin in a state's tangent.
static inline int tangent_deform(const pbModel *m) { return 2 * m->nv + m->na; }

// Where the samples of the history begin there.
static inline int tangent_history(const pbModel *m) { return 2 * m->nv + m->na + m->deform_tangent; }

// Where the entries of a policy begin in a state's tangent: memory, then what is held.
static inline int tangent_policy(const pbModel *m) { return tangent_history(m) + m->history_tangent; }

#endif
