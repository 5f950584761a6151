// What rows are made of: their place, their dofs, and J v and J'f. Their other numbers: row_numbers.c; kinds: src/bodies/rows.
// Tests: tests/unit/test_kinks.c, tests/unit/test_servo.c, tests/conformance/test_step.c.
#include "contact/row_build.h"

#include "base/assert.h"
#include "contact/row.h"
#include "linalg/vector.h"

NUM(pbRow) *NUM(pbRow_New)(NUM(pbConstraints) *w, pbRowKind kind, int id, int dim) {
  PB_ASSERT(w->nrow < w->max_row && dim >= 1 && dim <= 6);
  NUM(pbRow) *r = w->row + w->nrow++;
  r->kind = kind;
  r->id = id;
  r->tendon = -1;
  r->solref = r->solimp = -1;
  r->side = 0;
  r->dim = dim;
  r->n = 0;
  r->dofs = w->ndofs_used;
  r->J = w->nJ_used;

  // Zero unless its kind sets it.
  r->zone = pb_zoneOpen;
  r->margin = 0;
  r->mu = 0;
  r->bound[0] = r->bound[1] = 0;
  r->target = 0;
  for (int k = 0; k < 6; k++) r->pos[k] = 0;
  return r;
}

num *NUM(pbRow_Claim)(NUM(pbConstraints) *w, NUM(pbRow) *r, int n) {
  PB_VALIDATE(pb_ascending(w->row_dofs + r->dofs, n) && pb_allWithin(w->row_dofs + r->dofs, n, 0, w->m->nv));
  r->n = n;
  w->ndofs_used += n;
  w->nJ_used += n * r->dim;
  PB_ASSERT(w->ndofs_used <= w->max_dofs);
  return w->row_J + r->J;
}

int NUM(pbRow_Chains)(const NUM(pbConstraints) *w, int body1, int body2, bool skip_common, int *dofs) {
  int a = w->t->body_dofend[body1];
  int b = w->t->body_dofend[body2];
  int n = 0;

  // Up both chains at once, the larger dof first.
  while (a >= 0 || b >= 0) {
    int top = a > b ? a : b;
    if (a == b && skip_common) break;
    dofs[n++] = top;
    if (a == top) a = w->m->dof_parentid[a];
    if (b == top) b = w->m->dof_parentid[b];
  }

  // From descending to ascending.
  for (int i = 0; i < n / 2; i++) {
    int t = dofs[i];
    dofs[i] = dofs[n - 1 - i];
    dofs[n - 1 - i] = t;
  }

  return n;
}

// out = J v
PB_COPIES void times(int dim, const num *J, const int *dofs, int n, const num *v, num *out) {
  pbVector dot[6] = {0};
  int i = 0;

  for (; i + PB_WIDTH <= n; i += PB_WIDTH) {
    pbVector u;
    vec_gather(v, dofs + i, &u);
    for (int k = 0; k < dim; k++) dot[k] += *vec_in(J + k * n + i) * u;
  }

  // The rest, one by one.
  for (int k = 0; k < dim; k++) out[k] = vec_sum(dot + k);
  for (; i < n; i++) {
    for (int k = 0; k < dim; k++) out[k] += J[k * n + i] * v[dofs[i]];
  }
}

void NUM(pbRow_Times)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *v, num *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  if (r->dim == 1) times(1, J, dofs, r->n, v, out);
  else if (r->dim == 3) times(3, J, dofs, r->n, v, out);
  else times(r->dim, J, dofs, r->n, v, out);
}

// out += J'f
PB_COPIES void add_force(int dim, const num *J, const int *dofs, int n, const num *f, num *out) {
  int i = 0;
  for (; i + PB_WIDTH <= n; i += PB_WIDTH) {
    pbVector u;
    vec_gather(out, dofs + i, &u);
    for (int k = 0; k < dim; k++) u += f[k] * *vec_in(J + k * n + i);
    vec_scatter(&u, out, dofs + i);
  }

  // The rest, one by one.
  for (; i < n; i++) {
    for (int k = 0; k < dim; k++) out[dofs[i]] += f[k] * J[k * n + i];
  }
}

void NUM(pbRow_AddForce)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num *f, num *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  if (r->dim == 3) add_force(3, J, dofs, r->n, f, out);
  else add_force(r->dim, J, dofs, r->n, f, out);
}

// A row that nothing moves: MuJoCo leaves it out. False: the row was taken back.
static bool moved(NUM(pbConstraints) *w, NUM(pbRow) *r) {
  for (int i = 0; i < r->n * r->dim; i++) {
    if (re(w->row_J[r->J + i]) != 0) return true;
  }

  w->nrow--;
  w->ndofs_used = r->dofs;
  w->nJ_used = r->J;
  return false;
}

void NUM(pbRow_Finish)(NUM(pbConstraints) *w, NUM(pbRow) *r, const num *solref, const num *solimp) {
  if (solref) {
    r->solref = (int)(solref - w->p.theta);
    r->solimp = (int)(solimp - w->p.theta);
  }

  if (r->kind == pb_rowContact || moved(w, r)) NUM(pbRow_SetNumbers)(w, r, w->qvel);
}

// ---- along a dof or a tendon ------------------------------------------------------------------------------------------
NUM(pbRow) *NUM(pbRow_OfDof)(NUM(pbConstraints) *w, pbRowKind kind, int id, int dof, double sign) {
  NUM(pbRow) *r = NUM(pbRow_New)(w, kind, id, 1);
  w->row_dofs[r->dofs] = dof;
  NUM(pbRow_Claim)(w, r, 1)[0] = sign;
  r->diag[0] = w->p.dof_invweight0[dof];
  return r;
}

NUM(pbRow) *NUM(pbRow_OfTendon)(NUM(pbConstraints) *w, pbRowKind kind, int id, int tendon, double sign) {
  NUM(pbRow) *r = NUM(pbRow_New)(w, kind, id, 1);
  int start = w->ten_start[tendon];
  int n = w->ten_start[tendon + 1] - start;

  r->tendon = tendon;

  // Its Jacobian, as the tendon stage has left it.
  memcpy(w->row_dofs + r->dofs, w->ten_dofs + start, (size_t)n * sizeof(int));
  num *J = NUM(pbRow_Claim)(w, r, n);
  for (int i = 0; i < n; i++) J[i] = sign * w->ten_J[start + i];
  r->diag[0] = w->p.tendon_invweight0[tendon];
  return r;
}
