// Gradient of the virtual power of tendons: armature, and from length and Jacobian to what a path is made of. Primal: dynamics.c;
// tests: tests/conformance/test_step.c.
#include "math/vec.h"
#include "multibody/force_adjoint.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"

// ---- paths ----------------------------------------------------------------------------------------------------------
// A path over joints: length = sum coefficient q.
static void pull_fixed_path(LANE(pbAdjoint) *a, int k) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  const lane *other = a->ten_other[k] ? a->ten_c + k * m->nv : NULL;
  for (int i = m->tendon_adr[k], end = i + m->tendon_num[k]; i < end; i++) {
    // The coefficient of a joint is the tendon's Jacobian there.
    int j = m->wrap_objid[i], dof = m->jnt_dofadr[j];
    lane c = a->ten_lam[k] * a->lam[dof] + a->ten_vel[k] * w->qvel[dof] + a->ten_acc[k] * a->at.qacc[dof];
    if (other) c += other[dof];
    a->q[dof] += w->p.wrap_prm[i] * a->ten_len[k];
    a->v[dof] += w->p.wrap_prm[i] * a->ten_vel[k];
    PB_THETA(a, wrap_prm, i, a->ten_len[k] * w->qpos[m->jnt_qposadr[j]] + c);
  }
}

// ---- armature -------------------------------------------------------------------------------------------------------
// One straight piece of a path: unit vector, offsets of its ends.
typedef struct segment {
  const pbPiece *piece;
  int body[2];
  num dir[3], length, divisor, d[2][3];
} segment;

static void segment_of(const NUM(pbMechanism) *w, const pbPiece *p, segment *s) {
  s->piece = p;
  s->divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley];
  for (int e = 0; e < 2; e++) {
    s->body[e] = w->m->site_bodyid[p->site[e]];
    body_offset(w, s->body[e], w->site_xpos + 3 * p->site[e], s->d[e]);
  }
  v3_sub(s->dir, w->site_xpos + 3 * p->site[1], w->site_xpos + 3 * p->site[0]);
  s->length = v3_normalize(s->dir);
}

// A segment's share of d2L/dt2 at zero joint acceleration (tendon_dot in dynamics.c), with v, a the second end's velocity and
// acceleration minus the first's: (dir . a + |across|^2 / L) / divisor, across = v - (dir . v) dir.
typedef struct segment_drift {
  num u[2][3];      // velocities of the ends
  num across[3];    // v less its part along dir
  num position[3];  // gradient by the second end's position
  num value;
} segment_drift;

static void drift_of_segment(const NUM(pbMechanism) *w, const segment *s, segment_drift *f) {
  num acc[2][3], rel[3], racc[3], along, L = s->length;
  for (int x = 0; x < 2; x++) {
    num A0[6], t[3];
    for (int r = 0; r < 6; r++) A0[r] = w->A0[6 * s->body[x] + r];
    PB_POINTVEL(f->u[x], w->V + 6 * s->body[x], s->d[x]);
    PB_POINTVEL(acc[x], A0, s->d[x]);
    v3_cross(t, w->V + 6 * s->body[x], f->u[x]);
    v3_addto(acc[x], t);
  }

  v3_sub(rel, f->u[1], f->u[0]);
  v3_sub(racc, acc[1], acc[0]);
  along = v3_dot(s->dir, rel);
  for (int x = 0; x < 3; x++) f->across[x] = rel[x] - along * s->dir[x];
  num speed2 = v3_dot(f->across, f->across);
  f->value = (v3_dot(s->dir, racc) + speed2 / L) / s->divisor;

  // By the ends' distance vector: dir moves by (I - dir dir') / L, L along dir.
  num along_acc = v3_dot(s->dir, racc);
  for (int x = 0; x < 3; x++) {
    num by_direction = (racc[x] - along_acc * s->dir[x]) / L - 2 * along * f->across[x] / (L * L);
    f->position[x] = (by_direction - speed2 * s->dir[x] / (L * L)) / s->divisor;
  }
}

// One end of a segment: acceleration A_lin + A_ang x d + w x u with gradient G, velocity u with gradient gu.
static void pull_drift_end(LANE(pbAdjoint) *a, const segment *s, const segment_drift *f, int end, lane e) {
  const NUM(pbMechanism) *w = a->w;
  int b = s->body[end];
  num sign = end ? 1 : -1;
  const num *V = w->V + 6 * b, *A = w->A0 + 6 * b, *d = s->d[end], *u = f->u[end];
  lane G[3], gu[3], p[3], wrench[6] = {0}, fv[6] = {0};
  for (int r = 0; r < 3; r++) {
    G[r] = -e * (sign / s->divisor) * s->dir[r];
    gu[r] = -e * (sign * 2 / (s->length * s->divisor)) * f->across[r];
  }

  // To the fields of accelerations and velocities. A0 counts without the joints' accelerations: A - Va.
  PB_ADDWRENCH(wrench, 1, d, G);
  PB_ADDCROSS(fv, 1, u, G);
  PB_ADDCROSS(gu, 1, G, V);
  PB_ADDWRENCH(fv, 1, d, gu);
  PB_AXPY6(a->FA + 6 * b, 1, wrench);
  PB_AXPY6(a->FVa + 6 * b, -1, wrench);
  PB_AXPY6(a->FV + 6 * b, 1, fv);

  // To the end's position: through the offset d, and through the segment.
  PB_CROSS(p, G, A);
  PB_ADDCROSS(p, 1, gu, V);
  for (int r = 0; r < 3; r++) p[r] += -e * sign * f->position[r];
  PB_ADDWRENCH(a->P + 6 * b, 1, d, p);
  LANE(pbSweep_Site)(a, s->piece->site[end], p, NULL);
}

// W = -e (d2L/dt2 at zero joint acceleration), e = armature (J lam), for a path through sites. Returns d2L/dt2.
static num pull_path_drift(LANE(pbAdjoint) *a, int k, lane e) {
  const NUM(pbMechanism) *w = a->w;
  num sum = 0;
  segment s;

  pbPiece p = pb_pathOf(w->m, k);
  while (pb_nextPiece(w->m, k, &p)) {
    segment_drift f;
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(w, &p);
    if (path) {  // has no armature: only the gradient by it
      sum += NUM(pbTendon_Bend)(w, &p, path, w->A0) / (p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley]);
      continue;
    }

    segment_of(w, &p, &s);
    if (re(s.length) < 1e-15) continue;
    drift_of_segment(w, &s, &f);
    sum += f.value;

    if (p.pulley >= 0) PB_THETA(a, wrap_prm, p.pulley, e * (f.value / s.divisor));
    for (int end = 0; end < 2; end++) pull_drift_end(a, &s, &f, end, e);
  }
  return sum;
}

// bar: cotangent of the armature of a tendon.
static void pull_tendon_armature(LANE(pbAdjoint) *a, int k, lane bar) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  PB_THETA(a, tendon_armature, k, bar);
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    num gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
#else
  (void)a;
  (void)k;
  (void)bar;
#endif
}

// u' (J'J) x on the pattern of M of a spatial tendon. All dofs between one of its own and what carries the path are its own: sums
// along the way to each dof tell what it is paired with.
static lane path_power(const LANE(pbAdjoint) *a, int k, const lane *u, const num *x) {
  const NUM(pbMechanism) *w = a->w;
  int stop = w->t->body_dofend[w->t->ten_carrier[k]];
  lane *left = a->c, sum = PB_LANE_ZERO;
  num *right = w->grad;
  PB_ASSERT(pb_isSpatial(w->m, k));

  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
    int dof = w->ten_dofs[i], parent = w->m->dof_parentid[dof];
    lane own = w->ten_J[i] * u[dof], above = parent > stop ? left[parent] : PB_LANE_ZERO;
    num value = w->ten_J[i] * x[dof];

    // Itself and those above with it.
    right[dof] = parent > stop ? right[parent] + value : value;
    left[dof] = above + own;
    sum += own * right[dof] + above * value;
  }
  return sum;
}

// mu' (J'J) unused - lam' (J'J) a on the pattern of M of a path over joints: few dofs, of which some are on different branches.
static lane row_power(const LANE(pbAdjoint) *a, int k, const num *unused) {
  const NUM(pbMechanism) *w = a->w;
  const int *dofs = w->ten_dofs + w->ten_start[k];
  const num *J = w->ten_J + w->ten_start[k];
  int n = w->ten_start[k + 1] - w->ten_start[k];
  lane with = PB_LANE_ZERO, without = PB_LANE_ZERO;

  for (int i = 0; i < n; i++) {
    num moved = 0, kept = 0;
    for (int j = 0; j < n; j++) {
      if (i != j && !dofs_are_related(w, dofs[i], dofs[j])) continue;
      moved += J[j] * a->at.qacc[dofs[j]];
      if (a->damped) kept += J[j] * unused[dofs[j]];
    }

    with += J[i] * a->lam[dofs[i]] * moved;
    if (a->damped) without += J[i] * a->mu[dofs[i]] * kept;
  }
  return without - with;
}

// W = -armature [lam' (J'J) a on the pattern of M + (J lam) (dJ/dt v)] + armature mu' (J'J) (a - ahat): what J collects; returns
// the cotangent of the armature without the drift's share. unused: a - ahat.
static lane armature_power(LANE(pbAdjoint) *a, int k, num armature, const num *unused) {
  const NUM(pbMechanism) *w = a->w;
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  PB_ASSERT(n >= 0 && n <= w->m->nv);
  // Where there is none, only its own gradient is wanted.
  if (armature == 0 && !pb_isSpatial(w->m, k)) return row_power(a, k, unused);
  if (armature == 0) {
    lane bar = -path_power(a, k, a->lam, a->at.qacc);
    return a->damped ? bar + path_power(a, k, a->mu, unused) : bar;
  }

  // On the pattern of M: with the accelerations, and what implicit damping takes from them.
  lane *c = LANE(pbTendon_Other)(a, k);
  lane bar = -pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, -armature, a->lam, a->at.qacc, c);
  if (a->damped) bar += pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, armature, a->mu, unused, c);
  return bar;
}

// All cotangents of tendon k to what its path is made of, and those by its armature.
static void pull_tendon(LANE(pbAdjoint) *a, int k, lane power, const num *unused) {
  const NUM(pbMechanism) *w = a->w;
  num armature = NUM(pbTendon_Armature)(w, k), drift = 0;
  bool acts = armature != 0 || PB_WANTS(a, pb_wantTendon), spatial = pb_isSpatial(w->m, k);
  lane bar = acts ? armature_power(a, k, armature, unused) : PB_LANE_ZERO;

  // The bias: J' armature (dJ/dt v). Paths over joints have a constant J.
  if (spatial && armature != 0) {
    drift = pull_path_drift(a, k, armature * power);
    a->ten_lam[k] -= armature * drift;
  }

  // Without armature only the drift itself is wanted.
  if (spatial) LANE(pbTendon_PullPath)(a, k, acts && armature == 0 ? &drift : NULL);
  else pull_fixed_path(a, k);
  if (acts) pull_tendon_armature(a, k, bar - power * drift);
}

void LANE(pbForce_TendonArmaturePair)(LANE(pbAdjoint) *a, int k, num s, const lane *u, const num *z) {
  const NUM(pbMechanism) *w = a->w;
  num armature = NUM(pbTendon_Armature)(w, k);
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  if (armature == 0 && !PB_WANTS(a, pb_wantTendon)) return;

  // On the pattern of M.
  lane *c = armature != 0 ? LANE(pbTendon_Other)(a, k) : NULL;
  lane bar = s * pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, s * armature, u, z, c);
  pull_tendon_armature(a, k, bar);
}

void LANE(pbForce_TendonArmatureMass)(LANE(pbAdjoint) *a, int k, const lane *M_bar) {
  const NUM(pbMechanism) *w = a->w;
  const pbTreePattern *tree = &w->t->M;
  const int *dofs = w->ten_dofs + w->ten_start[k];
  const num *J = w->ten_J + w->ten_start[k];
  num armature = NUM(pbTendon_Armature)(w, k);
  lane bar = PB_LANE_ZERO;
  if (armature == 0 && !PB_WANTS(a, pb_wantTendon)) return;

  // Entries J_i J_j of dofs on one way to the root.
  lane *c = armature != 0 ? LANE(pbTendon_Other)(a, k) : NULL;
  for (int i = 0; i < w->ten_start[k + 1] - w->ten_start[k]; i++) {
    for (int j = 0; j <= i; j++) {
      if (!dofs_are_related(w, dofs[i], dofs[j])) continue;
      lane entry = M_bar[tree->adr[dofs[i]] + tree->depth[dofs[j]]];
      bar += entry * J[i] * J[j];
      if (!c) continue;
      c[dofs[i]] += armature * J[j] * entry;
      c[dofs[j]] += armature * J[i] * entry;
    }
  }
  pull_tendon_armature(a, k, bar);
}

void LANE(pbTendon_PullPaths)(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  num *unused = w->tmp;
  if (m->ntendon && a->damped) {
    for (int i = 0; i < m->nv; i++) unused[i] = a->at.qacc[i] - w->qacc_integrated[i];
  }

  for (int k = 0; k < m->ntendon; k++) {
    PB_VALIDATE(pb_ascending(w->ten_dofs + w->ten_start[k], w->ten_start[k + 1] - w->ten_start[k]));
    pull_tendon(a, k, a->ten_power[k], unused);
  }
}
