// Which contacts touch, the rows of those in an impact, and the velocity after it.
// Tests: tests/unit/test_mocap_rate.c, tests/unit/test_impact.c, tests/python/test_prescribed.py.
#include "eval/stages.h"
#include "impact/impact_kernel.h"

#include "base/assert.h"
#include "contact/contact.h"
#include "contact/prescribed.h"
#include "elementary/elementary.h"
#include "eval/work.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// ---- what touches ---------------------------------------------------------------------------------------------------
// Body velocities alone, without the forces they make.
static void push_velocities(NUM(pbWork) *w) {
  const pbModel *m = w->m;

  // The world rests; parents come before children.
  memset(w->V, 0, 6 * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    num *V = w->V + 6 * b;
    int dof = m->body_dofadr[b];
    memcpy(V, w->V + 6 * m->body_parentid[b], 6 * sizeof(num));

    // V += S_i v_i over the body's own degrees of freedom
    for (int i = dof; i < dof + m->body_dofnum[b]; i++) {
      const num *S = w->S + 6 * i;
      PB_AXPY6(V, w->qvel[i], S);
    }
  }
}

// Velocity of the point of geom 2 less that of geom 1.
static void relative_velocity(const NUM(pbWork) *w, const NUM(pbContact) *c, num u[3]) {
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  const num *V1 = w->V + 6 * b1;
  const num *V2 = w->V + 6 * b2;
  num offset[3], u1[3];

  // Velocities of the point as one of either body
  body_offset(&w->mechanism, b1, c->pos, offset);
  PB_POINTVEL(u1, V1, offset);
  body_offset(&w->mechanism, b2, c->pos, offset);
  PB_POINTVEL(u, V2, offset);
  v3_subfrom(u, u1);
}

// Negative where they approach.
static double normal_velocity(const NUM(pbWork) *w, const NUM(pbContact) *c) {
  num u[3];
  relative_velocity(w, c, u);
  return re(v3_dot(c->frame, u) + NUM(pb_prescribed_rate)(&w->constraints, c));
}

static double gap_of(const NUM(pbContact) *c) { return re(c->dist) - re(c->margin); }

void NUM(pbImpact_Stand)(NUM(pbWork) *w, num span) {
  int bodies = w->mocap_moves ? w->m->nmocap : 0;

  for (int k = 0; k < bodies; k++) {
    const num *velocity = w->mocap_vel + 6 * k;
    num angle[3], turn[4];
    v3_addscl(w->mocap_pos + 3 * k, velocity, span);
    // About the world's axes
    v3_scale(angle, velocity + 3, span);
    quat_exp(turn, angle);
    quat_mul(w->mocap_quat + 4 * k, turn, w->mocap_quat + 4 * k);
  }
}

int NUM(pbImpact_FindContacts)(NUM(pbWork) *w, double reach, int most, pbTouch *touch) {
  int count = 0;

  NUM(pbStage_Kinematics)(&w->mechanism);
  push_velocities(w);

  // Pairs whose bounding volumes are that close
  int near = NUM(pbContact_Near)(&w->constraints, reach);
  for (int k = 0; k < near; k++) {
    w->ncon = 0;
    if (NUM(pbContact_Pair)(&w->constraints, w->near[k], reach) != pb_ok || count + w->ncon > most) return -1;
    for (int i = 0; i < w->ncon; i++) {
      const NUM(pbContact) *c = w->contact + i;
      touch[count++] = (pbTouch){w->near[k], i, gap_of(c), normal_velocity(w, c)};
    }
  }

  return count;
}

double NUM(pbImpact_Gap)(NUM(pbWork) *w, int candidate, double reach) {
  double gap = reach;

  NUM(pbStage_Kinematics)(&w->mechanism);
  w->ncon = 0;
  if (NUM(pbContact_Pair)(&w->constraints, candidate, reach) != pb_ok) return reach;
  for (int i = 0; i < w->ncon; i++) gap = fmin(gap, gap_of(w->contact + i));

  return gap;
}

// ---- rows -----------------------------------------------------------------------------------------------------------
// Does degree of freedom i move the body? The last one of the body's chain up the tree, then those before it.
static bool moves(const NUM(pbWork) *w, int i, int body) {
  int end = w->t->body_dofend[body];
  while (end > i) end = w->m->dof_parentid[end];
  return end == i;
}

// Velocities along the axes of the contact's frame, tangents times friction: 3 x nv.
static void contact_rows(const NUM(pbWork) *w, const NUM(pbContact) *c, num *J) {
  int nv = w->m->nv;
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  num d1[3], d2[3];

  // From the point of reference of each body's tree to the contact
  body_offset(&w->mechanism, b1, c->pos, d1);
  body_offset(&w->mechanism, b2, c->pos, d2);

  for (int i = 0; i < nv; i++) {
    bool first = moves(w, i, b1);
    bool second = moves(w, i, b2);
    for (int k = 0; k < 3; k++) J[k * nv + i] = 0;

    // What moves both moves neither against the other.
    if (first == second) continue;
    const num *S = w->S + 6 * i;
    const num *d = second ? d2 : d1;
    num u[3];
    PB_POINTVEL(u, S, d);
    for (int k = 0; k < 3; k++) {
      num along = v3_dot(c->frame + 3 * k, u) * (k ? c->friction[k - 1] : 1);
      J[k * nv + i] = second ? along : -along;
    }
  }
}

static num dot(const num *a, const num *b, int n) {
  num s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

// Rows 1 and 2 by an angle.
static void rotate_rows(const pbImpactContact *t, int nv, num *J) {
  for (int i = 0; i < nv; i++) {
    num j1 = J[nv + i];
    num j2 = J[2 * nv + i];
    J[nv + i] = t->cos * j1 + t->sin * j2;
    J[2 * nv + i] = t->cos * j2 - t->sin * j1;
  }
}

// What paths prescribe of a contact's rows, where the law sees it: along the normal, and along the directions of slip, times
// friction.
static void rows_prescribed(const NUM(pbWork) *w, const NUM(pbContact) *c, const pbImpactContact *t, num rows[3]) {
  num u[6];
  memset(rows, 0, 3 * sizeof *rows);

  // Contacts of one body's geoms, or of one path, have nothing to add.
  if (!pb_follows(w->m) || !pb_prescribed(&w->constraints, c)) return;
  NUM(pbContact_Prescribed)(&w->constraints, c, u);
  num a = u[1] * c->friction[0], b = u[2] * c->friction[1];
  rows[0] = u[0];
  rows[1] = t->cos * a + t->sin * b;
  rows[2] = t->cos * b - t->sin * a;
}

// Does what is led slip along the two directions, by more than what rests?
static void slips_prescribed(const NUM(pbWork) *w, const NUM(pbContact) *c, const pbImpactContact *t, bool slips[2]) {
  num rows[3];
  rows_prescribed(w, c, t, rows);
  for (int k = 0; k < 2; k++) slips[k] = fabs(re(rows[1 + k])) > PB_REST * re(c->friction[k]);
}

// The two tangents become the principal directions of their mobility (one rotation of Jacobi's method for eigenvectors), the
// larger first; of those that can be moved at all, or along which what is led slips, there are t->n - 1: a scene in the plane has
// one. Friction that nothing gives way to still has its share of the cone.
static void principal_tangents(const NUM(pbWork) *w, const NUM(pbContact) *c, pbImpactContact *t, num *J, num *X) {
  int nv = w->m->nv;
  double A[3][3];

  // A = J M^-1 J' of this contact
  for (int i = 0; i < 9; i++) A[i / 3][i % 3] = re(dot(J + i / 3 * nv, X + i % 3 * nv, nv));

  // The rotation that makes A[1][2] zero
  pbSinCos(0.5 * pbAtan2(2 * A[1][2], A[1][1] - A[2][2]), &t->sin, &t->cos);
  rotate_rows(t, nv, J);
  rotate_rows(t, nv, X);

  // Their mobilities are mean + spread and mean - spread; below `least` they are rounding.
  double mu = fmax(re(c->friction[0]), re(c->friction[1]));
  double mean = 0.5 * (A[1][1] + A[2][2]);
  double half = 0.5 * (A[1][1] - A[2][2]);
  double spread = pbHypot(half, A[1][2]);
  double least = 1e-13 * fmax(A[0][0] * mu * mu, mean);
  t->n = 3;
  bool slips[2];
  slips_prescribed(w, c, t, slips);
  if (!(mean - spread > least) && !slips[1]) t->n = 2;
  if (c->dim == 1 || (t->n == 2 && !(mean + spread > least) && !slips[0])) t->n = 1;
}

static void add_contact(NUM(pbWork) *w, NUM(pbImpact) *s, int point) {
  int nv = w->m->nv;
  const NUM(pbContact) *c = w->contact + point;
  PB_ASSERT(s->count < pb_impactContacts && s->n + 3 <= pb_impactRows && point >= 0 && point < w->ncon);
  pbImpactContact *t = s->contact + s->count++;
  num *J = s->J + s->n * nv;
  num *X = s->X + s->n * nv;

  *t = (pbImpactContact){.point = point, .first = s->n};

  // J, X = M^-1 J'
  contact_rows(w, c, J);
  memcpy(X, J, 3 * (size_t)nv * sizeof(num));
  for (int k = 0; k < 3; k++) NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, X + k * nv);
  principal_tangents(w, c, t, J, X);
  s->n += t->n;
}

static void add_prescribed(const NUM(pbWork) *w, NUM(pbImpact) *s) {
  for (int i = 0; i < s->count; i++) {
    const pbImpactContact *t = s->contact + i;
    num rows[3];
    rows_prescribed(w, w->contact + t->point, t, rows);
    for (int k = 0; k < t->n; k++) s->before[t->first + k] += rows[k];
  }
}

// Is the mobility symmetric but for rounding, with no negative diagonal entry?
static bool is_symmetric(const NUM(pbImpact) *s) {
  for (int i = 0; i < s->n; i++) {
    double own = re(s->A[i][i]);
    if (own < 0) return false;
    for (int j = 0; j < i; j++) {
      if (fabs(re(s->A[i][j] - s->A[j][i])) > 1e-9 * (own + re(s->A[j][j]))) return false;
    }
  }

  return true;
}

// A = J M^-1 J', and the rows' velocities before
static void set_mobility(const NUM(pbWork) *w, NUM(pbImpact) *s) {
  int nv = w->m->nv;
  for (int i = 0; i < s->n; i++) {
    s->before[i] = dot(s->J + i * nv, w->qvel, nv);
    for (int j = 0; j < s->n; j++) s->A[i][j] = dot(s->J + i * nv, s->X + j * nv, nv);
  }
  PB_VALIDATE(is_symmetric(s));
}

// ---- the impact -----------------------------------------------------------------------------------------------------
// Contact `point` and, if asked, all others of the pair that approach.
static bool solve_contacts(NUM(pbWork) *w, int point, bool together, NUM(pbImpact) *s) {
  s->count = 0;
  s->n = 0;
  s->J = w->impact_J;
  s->X = w->impact_J + pb_impactRows * w->m->nv;
  add_contact(w, s, point);

  // Slower contacts than PB_REST rest: they take no part.
  int others = together ? w->ncon : 0;
  for (int i = 0; i < others && s->count < pb_impactContacts; i++) {
    if (i != point && normal_velocity(w, w->contact + i) < -PB_REST) add_contact(w, s, i);
  }

  set_mobility(w, s);
  add_prescribed(w, s);

  return NUM(pbImpact_FindImpulses)(s, w->m->contact.restitution_law == pb_restitutionCapped);
}

// Positions, M and its factor, the contact points of the pair.
static pbStatus load_pair(NUM(pbWork) *w, int candidate, int point) {
  NUM(pbStage_Kinematics)(&w->mechanism);
  NUM(pbStage_Tendon)(&w->mechanism);
  NUM(pbStage_Inertia)(&w->mechanism);
  push_velocities(w);
  w->ncon = 0;
  // Contact points are numbered as in the search, within the same distance.
  PB_TRY(NUM(pbContact_Pair)(&w->constraints, candidate, PB_TOUCH));
  if (point >= w->ncon) return pb_no_convergence;

  memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));

  return NUM(pbTree_Factor)(&w->t->M, w->LD, w->Dinv) >= 0 ? pb_singular : pb_ok;
}

pbStatus NUM(pbImpact_Solve)(NUM(pbWork) *w, int candidate, int point, NUM(pbImpact) *s) {
  int nv = w->m->nv;

  PB_TRY(load_pair(w, candidate, point));
  s->gap = w->contact[point].dist - w->contact[point].margin;
  s->restitution = w->contact[point].restitution;

  // Where no impulses meet the law for all contacts of the pair, the others follow one by one.
  if (!solve_contacts(w, point, true, s) && !solve_contacts(w, point, false, s)) return pb_no_convergence;

  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) w->qvel[i] += s->X[k * nv + i] * s->impulse[k];
  }

  return pb_ok;
}

pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int point) {
  NUM(pbImpact) s;
  return NUM(pbImpact_Solve)(w, candidate, point, &s);
}
