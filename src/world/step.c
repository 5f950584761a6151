// The public step: memory of a scratch, the step forward, the tape.
// Tests: tests/conformance/test_step.c.
#include <pullback/world.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "eval/contact.h"
#include "impact/event.h"
#include "impact/impact.h"
#include "model/mocap.h"
#include "step/jvp.h"
#include "step/second.h"
#include "step/scratch.h"
#include "step/vjp.h"
#include "world/cached.h"
#include "world/history_step.h"
#include "world/policy_jacobian.h"
#include "world/policy_step.h"

// ---- scratch --------------------------------------------------------------------------------------------------------
enum { id_size = 3 };  // geom1, geom2, point

// Cotangents, and what comes of them, of a row of a Jacobian that is pulled row by row.
static size_t jacobian_row(const pbModel *m) {
  return m->deform || m->policy || m->nhistory
             ? 2 * (size_t)pbModel_TangentSize(m) + (size_t)pb_controls(m) + (size_t)m->nsensordata + 6 * (size_t)m->nmocap
             : 0;
}

static double *reals(pbScratch *s, size_t count) { return pbContext_AllocArray(s->ctx, count, sizeof(double)); }

// ---- what derivatives need: in advance where a capacity was asked for, else when one is first asked ------------------------
pbStatus pbScratch_MakeAdjoint(pbScratch *s) {
  return s->adjoint_one ? pb_ok : s->variant->vjp_one_create(s->ctx, &s->w, &s->adjoint_one);
}

pbStatus pbScratch_MakeLanes(pbScratch *s) {
  return s->adjoint_lanes ? pb_ok : s->variant->vjp_lanes_create(s->ctx, &s->w, &s->adjoint_lanes);
}

pbStatus pbScratch_MakeComplex(pbScratch *s) {
  return s->complex_work ? pb_ok : pbJvp_Create(s->ctx, s->model, s->room, &s->complex_work);
}

pbStatus pbScratch_MakeEvents(pbScratch *s) {
  const pbModel *m = s->model;
  // Hard contact looks at other states of the step, whose rows may be more.
  int contacts = pb_hard(m) ? s->w.most_con : s->w.max_con, rows = contacts + m->topology->max_blocks + 1;
  if (s->event_rows >= rows) return pb_ok;

  void *old[] = {s->events, s->event_numbers, s->event_poses, s->event_columns, s->event_parent};
  for (size_t i = 0; i < sizeof old / sizeof *old; i++) pbContext_Free(s->ctx, old[i]);
  s->event_rows = 0;
  s->events = pbContext_AllocArray(s->ctx, 2 * (size_t)rows, sizeof *s->events);
  s->event_numbers = reals(s, (size_t)rows + 2 * (size_t)pbModel_TangentSize(m));
  // Columns of the saltation matrix: hard contact alone
  s->event_poses = reals(s, 6 * (size_t)m->nmocap + 1);
  s->event_columns = reals(s, pb_hard(m) ? pbEvents_Room(m) : 1);
  s->event_parent = pbContext_AllocArray(s->ctx, (size_t)rows, sizeof(int));
  if (!s->events || !s->event_numbers || !s->event_columns || !s->event_poses || !s->event_parent) return pb_no_memory;
  s->event_rows = rows;
  return pb_ok;
}

// The lists of contacts of this step and the last; what is in them is kept.
static pbStatus make_ids(pbScratch *s) {
  size_t had = (size_t)s->id_room, room = (size_t)s->w.max_con + 1;
  if (had >= room) return pb_ok;
  int *ids = pbContext_AllocArray(s->ctx, 2 * room * id_size, sizeof(int));
  if (!ids) return pb_no_memory;

  if (had) memcpy(ids + room * id_size, s->ids_before, had * id_size * sizeof(int));
  pbContext_Free(s->ctx, s->id_block);
  s->id_block = ids;
  s->ids = ids;
  s->ids_before = ids + room * id_size;
  s->id_room = (int)room;
  return pb_ok;
}

// What the kernels work in.
static pbStatus allocate_work(pbScratch *s) {
  PB_TRY(pbWork_Open_r(&s->w, s->ctx, s->model, s->room));
  PB_TRY(make_ids(s));
  // Coupled deformables, policies and impacts use them in a step.
  bool wanted = !s->room.grows || s->model->deform || s->model->policy || s->model->contact.method == pb_contactImpact;
  if (!wanted) return pb_ok;

  PB_TRY(pbScratch_MakeComplex(s));
  PB_TRY(pbScratch_MakeAdjoint(s));
  PB_TRY(pbScratch_MakeLanes(s));
  return pbScratch_MakeEvents(s);
}

static pbStatus allocate_vectors(pbScratch *s) {
  const pbModel *m = s->model;
  // Unit cotangents and what comes of them, for as many lanes as any variant has
  size_t forces = m->policy ? (size_t)(m->nv + 6 * m->nbody) : 0;  // that it may reach
  size_t seeds = (size_t)(4 * m->nv + 2 * m->na + m->nsensordata + m->nu + 6 * m->nmocap + 1) + forces;

  s->stages = reals(s, (size_t)(pb_solutions(m) * m->nv + 1));
  s->seeds = reals(s, pb_lanesMost * seeds);
  s->row = reals(s, jacobian_row(m));
  s->state = reals(s, (size_t)pbModel_StateSize(m));
  s->theta_unit = reals(s, m->ntheta + 1);
  s->theta_tangent = reals(s, m->ntheta + 1);
  s->theta_aside = reals(s, (size_t)(4 * m->topology->nsphere + 1));
  bool all = s->stages && s->seeds && s->row && s->state && s->theta_unit && s->theta_tangent && s->theta_aside;
  return all ? pb_ok : pb_no_memory;
}

static pbStatus allocate(pbScratch *s, const pbCapacity *capacity) {
  const pbModel *m = s->model;

  PB_TRY(allocate_work(s));
  PB_TRY(allocate_vectors(s));
  if (m->contact.method == pb_contactImpact) PB_TRY(pbImpacts_Create(s, s->room.most));

  if (m->deform) {
    const pbDeformCapacity room = {capacity ? capacity->stencils : 0, capacity ? capacity->matrix : 0};
    PB_TRY(pbDeformWork_Create(s->ctx, m->deform, &room, &s->deform));
    if (m->deform->nattached) PB_TRY(pbCouple_Create(s));
    // The sum over elements fills what the bodies see of it.
    if (pb_coupled(m)) s->deform->attached = &s->couple->attached;
  }
  if (m->policy) PB_TRY(pbPolicyWork_Create(s));
  if (m->policy && !s->room.grows) PB_TRY(pbPolicy_MakeJacobian(s));
  PB_TRY(pbHistoryWork_Create(s));

  return pbScratch_InspectCreate(s);
}

// Of hard methods and of sweeps against slip memory grows with the square, so without a capacity they hold no more.
enum { most_hard_contacts = 512, most_slip_contacts = 256, most_impacts = 4096, first_contacts = 32 };

static int most_contacts(const pbModel *m) {
  int most = m->topology->max_contacts;
  if (pb_noslip(m) && most > most_slip_contacts) return most_slip_contacts;
  if (m->contact.method == pb_contactImpact && most > most_impacts) return most_impacts;
  return pb_hard(m) && most > most_hard_contacts ? most_hard_contacts : most;
}

static pbRoom choose_room(const pbModel *m, const pbCapacity *capacity) {
  // Impacts are found by looking at one pair from afar, with all points that it may have.
  int given = capacity ? capacity->contacts : 0, most = given > 0 ? given : most_contacts(m);
  if (m->contact.method == pb_contactImpact && most < PB_MAX_CONTACT_POINTS) most = PB_MAX_CONTACT_POINTS;
  if (given > 0) return (pbRoom){.contacts = most, .most = most};
  // What a pair has from afar fits at first.
  int first = m->contact.method == pb_contactImpact ? first_contacts + PB_TERRAIN_CONTACTS : first_contacts;
  return (pbRoom){.contacts = most < first ? most : first, .most = most, .grows = true};
}

static pbStatus check_capacity(pbContext *ctx, const pbCapacity *capacity) {
  if (!capacity) return pb_ok;
  if (capacity->stencils < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "expected a capacity of 0 stencils or more (0: as the surfaces need), found %d",
                          capacity->stencils);
  if (capacity->contacts < 0)
    return pbContext_Fail(ctx, pb_bad_argument,
                          "expected a capacity of 0 contacts or more (0: as many as pairs can make), found %d",
                          capacity->contacts);
  return pb_ok;
}

pbStatus pbScratch_Create(pbContext *ctx, const pbModel *m, const pbCapacity *capacity, pbScratch **scratch) {
  *scratch = NULL;
  PB_TRY(check_capacity(ctx, capacity));
  PB_TRY(pbModel_Check(ctx, m));

  pbRoom room = choose_room(m, capacity);
  if (!pbRoom_Counts(m, room.contacts))
    return pbContext_Fail(ctx, pb_no_memory, "out of memory for a scratch with %d contacts", room.contacts);

  pbScratch *s = pbContext_Alloc(ctx, sizeof *s);
  if (!s) return pbContext_Fail(ctx, pb_no_memory, "out of memory for a scratch");
  s->ctx = ctx;
  s->model = m;
  s->room = room;
  s->revision = m->revision;
  s->variant = pbVariant_Best();
  // There is no step before the first.
  s->contacts_before = -1;
  s->report.approach = INFINITY;
  pbScratch_ForgetGain(s);
  s->report.penetrating[0] = -1;
  s->report.penetrating[1] = -1;

  pbStatus status = allocate(s, capacity);
  if (status != pb_ok) {
    pbScratch_Destroy(s);
    return pbContext_Fail(ctx, status, "out of memory for a scratch with %d contacts", room.contacts);
  }
  *scratch = s;
  return pb_ok;
}

void pbScratch_Destroy(pbScratch *s) {
  if (!s) return;
  pbContext *ctx = s->ctx;
  pbScratch_InspectDestroy(s);
  pbImpacts_Destroy(s);
  pbCouple_Destroy(s);
  pbDeformWork_Destroy(s->deform);
  pbPolicyWork_Destroy(s);
  pbHistoryWork_Destroy(s);

  pbWork_Close_r(&s->w);
  pbSecond_Drop(ctx, s->complex_work);
  pbJvp_Destroy(ctx, s->complex_work);
  s->variant->vjp_one_destroy(ctx, s->adjoint_one);
  s->variant->vjp_lanes_destroy(ctx, s->adjoint_lanes);

  void *blocks[] = {s->stages,        s->seeds,         s->row,         s->state,        s->events,
                    s->event_numbers, s->event_columns, s->event_poses, s->event_parent, s->id_block,
                    s->theta_unit,    s->theta_tangent, s->theta_aside};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) pbContext_Free(ctx, blocks[i]);
  pbContext_Free(ctx, s);
}

bool pbScratch_Grow(pbScratch *s, pbStatus *status) {
  if (*status != pb_capacity || !s->deform || !s->deform->lacks) return false;

  pbStatus grown = pbDeformWork_Grow(s->deform);
  if (grown != pb_ok) {
    *status = pbScratch_Fail(s, grown, "%s", s->deform->error);
    return false;
  }
  s->report.grown++;
  return true;
}

// ---- forward --------------------------------------------------------------------------------------------------------
// Contacts in both of two lists of ids, each in the order of the candidates.
static int count_common(const int *a, int count_a, const int *b, int count_b) {
  int common = 0;
  int next = 0;  // in b: what stands before it has been found or passed

  for (int i = 0; i < count_a; i++) {
    for (int k = next; k < count_b; k++) {
      // Both lists are sorted alike: no contact is searched from the start.
      if (memcmp(a + id_size * i, b + id_size * k, id_size * sizeof(int))) continue;
      common++;
      next = k + 1;
      break;
    }
  }

  return common;
}

// Contacts that appeared or went since the last step. Where contacts fade in there are no events.
static pbStatus count_events(pbScratch *s) {
  PB_TRY(make_ids(s));
  int n = s->model->contact.onset > 0 ? 0 : s->w.ncon;
  int *ids = s->ids;

  for (int i = 0; i < n; i++) {
    const pbContact_r *c = s->w.contact + i;
    int *id = ids + id_size * i;
    // Which contact it is: the pair and the number of its contact point
    id[0] = c->geom1;
    id[1] = c->geom2;
    id[2] = c->point;
  }

  s->report.onsets = 0;
  s->report.releases = 0;
  if (s->contacts_before >= 0) {
    int common = count_common(ids, n, s->ids_before, s->contacts_before);
    PB_ASSERT(common <= n && common <= s->contacts_before);
    s->report.onsets = n - common;
    s->report.releases = s->contacts_before - common;
  }

  // These are the ids before of the next step.
  s->contacts_before = n;
  s->ids = s->ids_before;
  s->ids_before = ids;
  return pb_ok;
}

// What comes in besides theta.
static pbStatus check_state(pbScratch *s, const double *x, const pbInput *input) {
  char text[400];
  if (!pbState_Readable(s->model, x, text, sizeof text)) return pbScratch_Fail(s, pb_bad_input, "%s", text);
  if (!input || pbMocap_Readable(s->model, input, "", text, sizeof text)) return pb_ok;
  return pbScratch_Fail(s, pb_bad_input, "%s", text);
}

// The state after a step to s->state.
static pbStatus advance(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense) {
  if (s->impacts || pb_coupled(s->model)) s->w.sensed = false;
  if (s->impacts) return pbImpacts_Step(s, theta, x, input, sense, s->state);
  if (pb_coupled(s->model)) return pbCouple_Step(s, theta, x, input, sense, s->state);

  // What a policy looked at is there already.
  if (s->w.sensed) pbScratch_LoadInput(s, input);
  else pbScratch_Load(s, theta, x, input);
  PB_TRY(pbScratch_Run(s, sense, true));
  pbScratch_State(s, x[state_layout(s->model).time] + s->w.p.timestep[0], s->state);
  return pb_ok;
}

pbStatus pbStep_Sense(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(check_state(s, x, input));

  // The step goes on from this evaluation.
  pbPolicy_Sense(s, theta, x, input);
  return pb_ok;
}

// What sensors tell to the caller; NULL: it is not wanted.
static void copy_told(const pbScratch *s, double *sensordata) {
  const double *told = s->told ? s->told : s->w.sensordata;
  if (sensordata) memcpy(sensordata, told, (size_t)s->model->nsensordata * sizeof(double));
}

pbStatus pbStep_Forward(const pbModel *m, const double *theta, double *x, const pbInput *input, pbScratch *s,
                        double *sensordata) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(check_state(s, x, input));

  pbStateLayout at = state_layout(m);
  double *next = s->state;
  if (!m->policy) s->w.sensed = false;
  if (m->policy) {
    PB_TRY(pbPolicy_Before(s, theta, x, input));
    input = &s->policy->input;
  }
  const pbInput *given = input;
  if (s->history) input = pbHistory_Before(s, theta, x, input);
  bool sense = sensordata || (s->history && s->history->measures);
  PB_TRY(advance(s, theta, x, input, sense));
  // Deformables that no body feels step by themselves, after the bodies.
  if (pb_coupled(m)) pbScratch_NoteDeform(s);
  else if (m->deform) PB_TRY(pbScratch_DeformStep(s, theta, x, input, next));

  if (m->policy) pbPolicy_Next(s, x, next);
  if (s->history) pbHistory_Next(s, x, given, next);
  if (s->history && sense) pbHistory_Tell(s, theta, x);

  int bad = pbScratch_FirstNotFinite(next, at.size);
  char name[160];
  if (bad >= 0)
    return pbScratch_Fail(s, pb_not_finite, "%s becomes %g after time %.9g: the state grows beyond bounds",
                          pbState_EntryName(m, bad, name, sizeof name), pbScratch_WithoutSign(next[bad]), x[at.time]);

  if (!s->impacts && count_events(s) != pb_ok) return pbScratch_Fail(s, pb_no_memory, "out of memory for %d contacts", s->w.ncon);
  memcpy(x, next, (size_t)at.size * sizeof(double));
  copy_told(s, sensordata);
  return pb_ok;
}

pbStatus pbStep_Observe(const pbModel *m, const double *theta, const double *x, const pbInput *input, pbScratch *s,
                        double *sensordata) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(check_state(s, x, input));

  s->w.sensed = false;
  if (m->policy) {
    PB_TRY(pbPolicy_Before(s, theta, x, input));
    input = &s->policy->input;
  }
  if (s->history) input = pbHistory_Before(s, theta, x, input);
  if (s->w.sensed) pbScratch_LoadInput(s, input);
  else pbScratch_Load(s, theta, x, input);
  // It is no step: there are no impacts to count.
  if (s->impacts) pbImpacts_Forget(s);
  PB_TRY(pbScratch_Run(s, true, false));
  if (s->history) pbHistory_Tell(s, theta, x);
  copy_told(s, sensordata);
  return pb_ok;
}

// ---- tape -----------------------------------------------------------------------------------------------------------
enum { no_revision = -1 };

void pbTape_Record(const pbModel *m, const double *x_before, const pbScratch *s, double *record) {
  int stages = tape_stages(m);

  memcpy(record, x_before, (size_t)pbModel_StateSize(m) * sizeof(double));
  record[tape_revision(m)] = s->model == m ? s->revision : no_revision;

  // No step of this model can have succeeded with a stale scratch.
  if (pbScratch_Stale(s, m)) return;
  PB_ASSERT(stages + pb_solutions(m) * m->nv <= pbTape_Size(m));
  memcpy(record + stages, s->stages, (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  // What a method adds to the record
  if (s->impacts) record[stages + pb_solutions(m) * m->nv] = pbImpacts_Count(s);
  if (m->policy) pbPolicy_Record(s, record + tape_policy(m));
  if (m->deform) pbScratch_DeformRecord(s, record + pbTape_Size(m) - pb_deformRecord(m));
}
