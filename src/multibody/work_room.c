// Room of an evaluation for what its contacts make long: lists of contacts and rows, the joined pattern of H and its factor,
// matrices of hard contact and of sweeps against slip.
//
// Memory. Four blocks beside that of the work, since they grow at different moments: lists while contacts are found, the pattern
// when rows are known to join branches, matrices when a solver knows how many numbers its rows have. Each holds what is needed
// and at least twice (a matrix: one and a half times) what it held, so a motion grows them a few times and then never again. What
// a list holds is moved along: an evaluation goes on where it was, nothing is computed twice, and no bit depends on when room
// came. Where a capacity was asked for all of them are had in advance (pbWork_Open), and what does not fit is pb_capacity.
//
// At first all were laid out for 4096 contacts, and the pattern for a dense matrix: 1200 balls that touch nothing took 2.3 GB.
// Where invariants are checked room begins as NaN (PB_POISON): nothing may read what was not written.
// Tests: tests/unit/test_room.c, tests/hostile/test_failing_allocator.c.
#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "eval/work.h"
#include "geometry/search.h"

#define TAKE(field, count) w->field = pbArena_Take(arena, (size_t)(count), sizeof(*w->field));

// ---- lists --------------------------------------------------------------------------------------------------------------
static bool any_searches(const NUM(pbConstraints) *w) {
  const int *type = w->m->geom_type;
  for (int k = 0; k < w->t->ncandidate; k++) {
    const pbCandidate *c = w->t->candidate + k;
    if (pbSearch_KindOf(type[c->geom1], type[c->geom2]) != pb_searchedNothing) return true;
  }
  return false;
}

void NUM(pbConstraints_Count)(NUM(pbConstraints) *w, int contacts) {
  const pbTopology *t = w->t;
  int nv = w->m->nv, pair_dofs = 2 * t->max_chain < nv ? 2 * t->max_chain : nv;
  w->max_con = contacts;
  w->max_row = contacts + t->max_blocks;
  w->max_dofs = contacts * pair_dofs + t->max_rowdata;
  w->max_J = 6 * w->max_dofs;
}

static void lay_out_lists(pbArena *arena, NUM(pbConstraints) *w) {
  TAKE(contact, w->max_con)
  TAKE(searched, w->searches ? w->max_con : 0)
  TAKE(row, w->max_row)
  TAKE(row_dofs, w->max_dofs)
  TAKE(row_J, w->max_J)
}

static void move_lists(NUM(pbConstraints) *to, const NUM(pbConstraints) *from) {
  if (!from->lists) return;
  // Rows are made when all contacts are found: there are none yet. One contact more: what a search found may be there already.
  size_t contacts = (size_t)(from->ncon < from->max_con ? from->ncon + 1 : from->max_con);
  memcpy(to->contact, from->contact, contacts * sizeof *to->contact);
  if (from->searches) memcpy(to->searched, from->searched, contacts * sizeof *to->searched);
}

// As many contacts as asked for, or twice as many as there were.
static int next_contacts(const NUM(pbConstraints) *w, int contacts) {
  int next = w->max_con < w->most_con / 2 ? 2 * w->max_con : w->most_con;
  return next > contacts ? next : contacts;
}

static pbStatus make_lists(NUM(pbConstraints) *w, pbContext *ctx, int contacts) {
  NUM(pbConstraints) grown = *w;
  pbArena measure = pbArena_Measure();
  NUM(pbConstraints_Count)(&grown, contacts);
  lay_out_lists(&measure, &grown);

  size_t needed = pbArena_Needed(&measure);
  grown.lists = needed == SIZE_MAX ? NULL : pbContext_Alloc(ctx, needed);
  if (!grown.lists) return pb_no_memory;
  PB_POISON(grown.lists, needed);
  pbArena arena = pbArena_Over(grown.lists, needed);
  lay_out_lists(&arena, &grown);

  move_lists(&grown, w);
  pbContext_Free(ctx, w->lists);
  *w = grown;
  return pb_ok;
}

pbStatus NUM(pbConstraints_Reserve)(NUM(pbConstraints) *w, int contacts) {
  if (contacts <= w->max_con) return pb_ok;
  if (!w->grower || contacts > w->most_con) return pb_capacity;
  int next = next_contacts(w, contacts);
  return pbRoom_Counts(w->m, next) ? make_lists(w, w->grower, next) : pb_no_memory;
}

// ---- blocks ---------------------------------------------------------------------------------------------------------------
// A block for a layout by two counts in place of another, of which nothing is kept.
static pbStatus make_block(NUM(pbWork) *w, pbContext *ctx, void **block, size_t n, size_t more,
                           void (*lay_out)(pbArena *, NUM(pbWork) *, size_t, size_t)) {
  NUM(pbWork) probe = *w;
  pbArena measure = pbArena_Measure();
  lay_out(&measure, &probe, n, more);

  size_t needed = pbArena_Needed(&measure);
  void *memory = needed == SIZE_MAX ? NULL : pbContext_Alloc(ctx, needed);
  if (!memory) return pb_no_memory;
  PB_POISON(memory, needed);
  pbContext_Free(ctx, *block);
  *block = memory;
  pbArena arena = pbArena_Over(memory, needed);
  lay_out(&arena, w, n, more);
  return pb_ok;
}

// ---- the pattern of H -----------------------------------------------------------------------------------------------------
// Without joined branches H has the pattern of M, and needs no chain.
static void lay_out_joined(pbArena *arena, NUM(pbWork) *w, size_t entries, size_t own) {
  TAKE(joined.chain, entries)
  TAKE(H_LD, entries > own ? entries : own)
}

static pbStatus make_joined(NUM(pbWork) *w, pbContext *ctx, size_t entries) {
  PB_TRY(make_block(w, ctx, &w->joined_block, entries, (size_t)w->t->M.size, lay_out_joined));
  w->joined_room = entries;
  return pb_ok;
}

pbStatus NUM(pbWork_ReserveJoined)(NUM(pbWork) *w, size_t entries) {
  if (entries <= w->joined_room) return pb_ok;
  if (!w->grower) return pb_capacity;
  size_t most = (size_t)PB_TREE_ROOM((size_t)w->m->nv), next = entries + entries / 2;
  return make_joined(w, w->grower, next < most ? next : most);
}

// Entries of the joined pattern that rows of so many contacts can make: those that touch join their trees into one.
static size_t joined_entries(const pbModel *m, int contacts) {
  const pbTopology *t = m->topology;
  size_t nv = (size_t)m->nv, dofs = nv;
  size_t all = (size_t)PB_TREE_ROOM(nv);
  if (m->neq > 0 || m->ntendon > 0 || m->nu > 0 || m->deform) return all;

  int widest = 0, here = 0;
  for (int i = 0; i < m->nv; i++) {
    here = i > 0 && m->dof_treeid[i] == m->dof_treeid[i - 1] ? here + 1 : 1;
    if (here > widest) widest = here;
  }

  if ((double)contacts * 2 * widest < (double)nv) dofs = (size_t)(2 * contacts * widest);
  size_t some = (size_t)t->M.size + (size_t)PB_TREE_ROOM(dofs);
  return some < all ? some : all;
}

// ---- matrices of hard contact -----------------------------------------------------------------------------------------------
// n numbers of `rows` rows (solve/dual.h).
static void lay_out_dual(pbArena *arena, NUM(pbWork) *w, size_t n, size_t rows) {
  size_t nv = (size_t)w->m->nv, square = n > nv ? n : nv;
  // matrices: over all numbers of rows, and over those that are active
  TAKE(dual.A, n * n)
  TAKE(dual.LU, square * square)
  TAKE(dual.Binv, 36 * rows)
  TAKE(dual.K, 36 * rows)
  TAKE(dual.h, 2 * nv)
  TAKE(dual.Z, n * nv)

  // vectors of all numbers
  TAKE(dual.b, n)
  TAKE(dual.rho, n)
  TAKE(dual.f, n)
  TAKE(dual.x, n)
  TAKE(dual.diagonal, n)
  TAKE(dual.trial, n)
  TAKE(dual.trial_x, n)
  TAKE(dual.after, n)
  TAKE(dual.from, n)
  TAKE(dual.path, 4 * n)
  TAKE(dual.origin, n)
  TAKE(dual.nearest, n)
  TAKE(dual.softness, n)
  TAKE(dual.weight, n)
  TAKE(dual.step, 2 * n)
  TAKE(dual.active, n)
  TAKE(dual.perm, square)
}

static int half_again(int had, int needed) { return needed > had + had / 2 ? needed : had + had / 2; }

static pbStatus make_dual(NUM(pbWork) *w, pbContext *ctx, int n, int rows) {
  PB_TRY(make_block(w, ctx, &w->dual.block, (size_t)n, (size_t)rows, lay_out_dual));
  w->dual.max = n;
  w->dual.max_rows = rows;
  return pb_ok;
}

pbStatus NUM(pbWork_ReserveDual)(NUM(pbWork) *w, int n, int rows) {
  if (n <= w->dual.max && rows <= w->dual.max_rows) return pb_ok;
  if (!w->grower) return pb_capacity;
  return make_dual(w, w->grower, half_again(w->dual.max, n), half_again(w->dual.max_rows, rows));
}

// ---- matrices of sweeps against slip ----------------------------------------------------------------------------------------
static void lay_out_slip(pbArena *arena, NUM(pbWork) *w, size_t n, size_t rows) {
  const pbModel *m = w->m;
  size_t nv = (size_t)m->nv;
  (void)rows;
  TAKE(slip.A, n * n)
  TAKE(slip.Z, n * nv)
  TAKE(slip.x, n)
  TAKE(slip.f, ((size_t)m->noslip_iterations + 1) * n)
  TAKE(slip.qacc, nv)
  TAKE(slip.island, nv)
  TAKE(slip.ended, nv)
  TAKE(slip.gain, nv)
  TAKE(slip.inertia, nv)
  TAKE(slip.sign, m->nv + m->ntendon)
}

static pbStatus make_slip(NUM(pbWork) *w, pbContext *ctx, int n) {
  PB_TRY(make_block(w, ctx, &w->slip.block, (size_t)n, 0, lay_out_slip));
  w->slip.max = n;
  return pb_ok;
}

pbStatus NUM(pbWork_ReserveSlip)(NUM(pbWork) *w, int n) {
  if (n <= w->slip.max) return pb_ok;
  if (!w->grower) return pb_capacity;
  return make_slip(w, w->grower, half_again(w->slip.max, n));
}
#undef TAKE

// ---- all of it --------------------------------------------------------------------------------------------------------------
// Numbers of rows with hard contact, and of rows that slide, for so many contacts.
static int hard_numbers(const pbModel *m, int contacts) {
  return contacts * m->topology->max_dim + m->topology->max_blocks + 5 * m->neq;
}
static int slip_numbers(const pbModel *m, int contacts) { return contacts * (m->topology->max_dim - 1) + m->nv + m->ntendon; }

pbStatus NUM(pbWork_Open)(NUM(pbWork) *w, pbContext *ctx, const pbModel *m, pbRoom room) {
  enum { first_entries = 2048 };  // of the pattern: what all but large models need at most
  NUM(pbWork) probe;
  PB_ASSERT(room.contacts >= 0 && room.contacts <= room.most);
  size_t bytes = NUM(pbWork_Carve)(&probe, m, NULL) + 64;
  void *memory = pbContext_Alloc(ctx, bytes);
  if (!memory) return pb_no_memory;
  NUM(pbWork_Carve)(w, m, memory);
  w->owner = ctx;
  w->most_con = room.most;
  w->searches = any_searches(&w->constraints);

  size_t entries = joined_entries(m, room.contacts);
  if (room.grows && entries > first_entries) entries = first_entries;
  PB_TRY(make_lists(&w->constraints, ctx, room.contacts));
  PB_TRY(make_joined(w, ctx, entries));
  if (pb_hard(m)) PB_TRY(make_dual(w, ctx, room.grows ? 1 : hard_numbers(m, room.contacts), room.grows ? 1 : w->max_row));
  if (pb_noslip(m)) PB_TRY(make_slip(w, ctx, room.grows ? 1 : slip_numbers(m, room.contacts)));

  w->grower = room.grows ? ctx : NULL;
  return pb_ok;
}

void NUM(pbWork_Close)(NUM(pbWork) *w) {
  pbContext *ctx = w->owner;
  if (!ctx) return;
  void *blocks[] = {w->lists, w->joined_block, w->dual.block, w->slip.block, w->memory};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) pbContext_Free(ctx, blocks[i]);
}
