// Memory of the Jacobians of a step with a policy: one block, laid out once. Tests: tests/hostile/test_failing_allocator.c.
#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "step/scratch.h"
#include "world/open_jacobian.h"
#include "world/policy_jacobian.h"

typedef pbClosedRoom room;

static double *take(pbArena *a, int rows, int columns) { return pbArena_Take(a, (size_t)rows * (size_t)columns, sizeof(double)); }

static int larger(int a, int b) { return a > b ? a : b; }

// Columns of either function.
static void lay_out_functions(pbArena *a, room *r, const pbPolicyModel *p) {
  const pbPolicyFunction *all[] = {p->decide, p->act};
  int o = 0, m = 0, out = 0;
  size_t work = 0;
  for (int i = 0; i < 2; i++) {
    const pbPolicyFunction *f = all[i];
    if (!f) continue;

    // Room for either of both
    const pbPolicyFunction *pulled = pbPolicy_OfRows(f);
    size_t bytes = pulled->work_bytes ? pulled->work_bytes(pulled->self, pb_pulledColumns) : 0;
    o = larger(o, f->observations);
    m = larger(m, f->memory);
    out = larger(out, f->outputs);
    if (bytes > work) work = bytes;
  }

  // Values, and their cotangents
  r->o = take(a, o, pb_pulledColumns);
  r->o_bar = take(a, o, pb_pulledColumns);
  r->m = take(a, m, pb_pulledColumns);
  r->m_bar = take(a, m, pb_pulledColumns);
  r->m_next_bar = take(a, m, pb_pulledColumns);
  r->out_bar = take(a, out, pb_pulledColumns);
  r->function_work = pbArena_Take(a, work, 1);
}

static void lay_out(pbArena *a, void *scratch) {
  pbScratch *s = scratch;
  const pbModel *m = s->model;
  const pbPolicyModel *p = m->policy;
  room *r = &s->policy->closed;
  int open = pb_openSize(m), n = pbModel_TangentSize(m), ns = m->nsensordata, rows = pbPolicy_AllRows(p), poses = 6 * m->nmocap;
  int inputs = pb_inputColumns(m, pbPolicy_Reached(p, pb_byGiven));

  // of the open step
  r->A = take(a, open, open);
  r->B = take(a, open, inputs);
  r->C = take(a, ns, open);
  r->D = take(a, ns, inputs);
  r->reach = take(a, larger(open, ns), p->outputs);

  // of the policy
  r->held = take(a, rows, p->held);
  r->observation = take(a, rows, p->observing);
  r->by_state = take(a, rows, n);
  r->by_pose = take(a, rows, poses);
  r->lanes = take(a, p->observing, pb_lanesMost);

  // products with rows of either Jacobian
  const pbProductShape largest = pbPolicy_Shape(larger(open, ns), p->outputs, larger(n, poses), larger(n, inputs));
  r->work = pbArena_Take(a, pbProduct_WorkBytes(&largest), 1);
  lay_out_functions(a, r, p);
}

pbStatus pbPolicy_MakeJacobian(pbScratch *s) {
  room *r = &s->policy->closed;
  PB_ASSERT(s->policy && s->model->policy);
  if (!r->memory) r->memory = pbArena_Make(s->ctx, lay_out, s);
  return r->memory ? pb_ok : pb_no_memory;
}
