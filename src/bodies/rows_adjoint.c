// The rows' part of the adjoint: which cotangents each row collects, in which order (contact/row_adjoint.h), and the file of its
// kind that they go to. Primal: rows.c; tests: tests/unit/test_servo.c, tests/conformance/test_lists.c,
// tests/conformance/test_step.c.
#include <pullback/equalities.h>

#include "base/mutate.h"
#include "bodies/row_adjoint.h"

typedef LANE(pbRowBar) row_bar;

#define X(kind, name, law, of, off, file) extern const LANE(pbRowPull) LANE(pbRowPull_##file);
PB_ROW_KINDS(X)
#undef X
#define X(name, value, word, of, file, ...) extern const LANE(pbRowPull) LANE(pbRowPull_##file);
PB_EQUALITY_TABLE(X)
#undef X

// By kind, and of equalities by type.
static const LANE(pbRowPull) *const files[pb_rowKinds] = {
#define X(kind, name, law, of, off, file) [pb_row##kind] = &LANE(pbRowPull_##file),
    PB_ROW_KINDS(X)
#undef X
};
static const LANE(pbRowPull) *const equalities[PB_EQUALITY_TYPES] = {
#define X(name, value, word, of, file, ...) [value] = &LANE(pbRowPull_##file),
    PB_EQUALITY_TABLE(X)
#undef X
};

static inline const LANE(pbRowPull) *file_of(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  return r->kind == pb_rowEquality ? equalities[w->m->eq_type[r->equality]] : files[r->kind];
}

// Before lam: what sensors ask of the rows' forces, and the power of these under Vs.
void LANE(pbRows_Direct)(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane *y0 = a->y0 + 6 * k;
    lane by_Vs[6], z[6];

    // What sensors ask of the row's force, and the power of the force under Vs.
    memcpy(y0, a->force + 6 * k, 6 * sizeof(lane));
    if (a->has_Vs && file_of(w, r)->relative) {
      file_of(w, r)->relative(w, r, a->Vx, by_Vs);
      for (int i = 0; i < r->dim; i++) y0[i] += by_Vs[i];
    }
    if (!r->zone || pb_hard(w->m) || pb_noslip(w->m)) continue;  // see pbDual_Adjoint, pbSlip_Pull

    // The force moves with the acceleration by -K J.
    LANE(pbRow_HessianTimes)(r, y0, z);
    for (int i = 0; i < r->dim; i++) z[i] = -z[i];
    LANE(pbRow_AddForce)(w, r, z, a->qacc);
  }
}

// ---- a row ------------------------------------------------------------------------------------------------------------
static void pull_row(LANE(pbAdjoint) *a, int index, int at) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *r = w->row + index;
  const LANE(pbRowPull) *file = file_of(w, r);
  row_bar bar;

  memset(&bar, 0, sizeof bar);
  bar.f = a->at.force ? a->at.force + 6 * index : r->f;
  if (a->apart && file->relative) file->relative(w, r, a->Vx, bar.y);
  else pull_functional(a, index, bar.y);
  PB_MUTE(pb_muteRow, pb_mute_row(r->kind, r->kind ? 0 : w->m->eq_type[r->equality]), bar.y, r->dim);

  // The force to the row's numbers, these to what its kind makes them of.
  LANE(pbRow_PullForce)(a, index, at, &bar);
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantRows)) file->parameters(a, r, &bar);
#endif
  file->pull(a, r, &bar);
}

void LANE(pbRows_PullApart)(LANE(pbAdjoint) *a, int row) {
  PB_ASSERT(a->apart && !pb_hard(a->w->m));
  pull_row(a, row, 0);
}

void LANE(pbRows_Distance)(LANE(pbAdjoint) *a, int index, lane distance_bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbRow) *r = w->row + index;

#if PB_LANES == 1
  LANE(pbContact_ClearMeshes)(a);
#endif

  file_of(w, r)->distance(a, r, distance_bar);

#if PB_LANES == 1
  LANE(pbContact_PullMeshes)(a, w->m->contact.onset);
  const row_bar bar = {.margin = -distance_bar};
  if (a->theta) file_of(w, r)->parameters(a, r, &bar);
#endif
}

// ---- all rows ---------------------------------------------------------------------------------------------------------
void LANE(pbRows_Adjoint)(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  int at = 0;
  PB_VALIDATE(PB_FINITE(a->lam, w->m->nv));

  for (int kind = 0; kind < pb_rowKinds; kind++) {
    if (files[kind] && files[kind]->begin) files[kind]->begin(a);
  }

  // Rows that carry no force have no power.
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    if (!a->apart || !a->later[k]) pull_row(a, k, at);
    at += r->dim;
  }
}
