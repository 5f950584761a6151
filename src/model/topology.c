#include "model/topology.h"

#include <stdlib.h>

#include "base/context.h"
#include "model/sphere.h"

enum { max_contacts_default = 4096 };

void pbTopology_Destroy(pbContext *ctx, pbTopology *t) {
  if (!t) return;
  pbContext_Free(ctx, t->body_tree);
  pbContext_Free(ctx, t->candidate);
  pbContext_Free(ctx, t->sphere);
  pbContext_Free(ctx, t);
}

// Bodies: their tree, its root, the last dof that moves them.
static void bodies(const pbModel *m, pbTopology *t) {
  t->body_tree[0] = t->body_dofend[0] = -1;
  for (int b = 1; b < m->nbody; b++) {
    int parent = m->body_parentid[b], n = m->body_dofnum[b];
    t->body_dofend[b] = n ? m->body_dofadr[b] + n - 1 : t->body_dofend[parent];
    t->body_tree[b] = t->body_tree[parent];
    if (n && t->body_tree[b] < 0) {
      t->body_tree[b] = t->ntree;
      t->tree_root[t->ntree++] = b;
    }
  }
}

static void mass_pattern(const pbModel *m, pbTopology *t) {
  t->M.n = m->nv;
  for (int i = 0; i < m->nv; i++) t->M.parent[i] = m->dof_parentid[i];
  pbTree_Layout_r(&t->M);
  for (int i = 0; i < m->nv; i++) t->max_chain = t->M.depth[i] + 1 > t->max_chain ? t->M.depth[i] + 1 : t->max_chain;
}

// Actuators whose damping and armature are reflected to the dofs of joint `id`, or to tendon `id`; counted where list is NULL.
static int reflecting_actuators(const pbModel *m, bool tendons, int id, int *list) {
  int n = 0;
  for (int u = 0; u < m->nu; u++) {
    int type = m->actuator_trntype[u];
    bool fits = tendons ? type == pb_trnTendon : type == pb_trnJoint || type == pb_trnJointInParent;
    if (!fits || m->actuator_trnid[2 * u] != id) continue;
    if (list) list[n] = u;
    n++;
  }
  return n;
}

static void actuators(const pbModel *m, pbTopology *t) {
  int used = 0;
  for (int i = 0; i < m->nv; i++) {
    t->dof_actuator_start[i] = used;
    used += reflecting_actuators(m, false, m->dof_jntid[i], t->dof_actuator + used);
  }
  t->dof_actuator_start[m->nv] = used;
  used = 0;
  for (int k = 0; k < m->ntendon; k++) {
    t->ten_actuator_start[k] = used;
    used += reflecting_actuators(m, true, k, t->ten_actuator + used);
  }
  t->ten_actuator_start[m->ntendon] = used;
}

// ---- candidate pairs ------------------------------------------------------------------------------------------------
static bool bodies_collide(const pbModel *m, int b1, int b2) {
  int w1 = m->body_weldid[b1], w2 = m->body_weldid[b2];
  if (w1 == w2) return false;
  int p1 = m->body_weldid[m->body_parentid[w1]], p2 = m->body_weldid[m->body_parentid[w2]];
  bool filter = !(m->disableflags & (1 << 10));  // parent-child filter; the world as a parent is exempt
  if (filter && w1 && w2 && (w1 == p2 || w2 == p1)) return false;
  int low = b1 < b2 ? b1 : b2, high = b1 < b2 ? b2 : b1;
  for (int i = 0; i < m->nexclude; i++) {
    if (m->exclude_signature[i] == (low << 16) + high) return false;
  }
  return true;
}

static int most_contacts(int type1, int type2) {
  if (type1 == pb_geomPlane) return type2 == pb_geomSphere || type2 == pb_geomEllipsoid ? 1 : type2 == pb_geomCapsule ? 2 : 4;
  if (type1 == pb_geomSphere) return 1;
  if (type1 == pb_geomCapsule && type2 <= pb_geomBox) return type2 == pb_geomEllipsoid ? 1 : 2;
  return 8;
}

static void add_candidate(const pbModel *m, pbTopology *t, int g1, int g2, int pair) {
  pbCandidate c = {g1, g2, pair, 0};
  if (m->geom_type[g1] > m->geom_type[g2]) {
    c.geom1 = g2;
    c.geom2 = g1;
  }
  int t1 = m->geom_type[c.geom1], t2 = m->geom_type[c.geom2];
  if (t2 == pb_geomPlane || t1 > pb_geomBox || t2 > pb_geomBox || t1 == pb_geomHfield) return;  // planes do not meet planes
  c.contacts = most_contacts(t1, t2);
  if (t->candidate) t->candidate[t->ncandidate] = c;
  t->ncandidate++;
  t->max_contacts += c.contacts;
}

static int pair_between(const pbModel *m, int g1, int g2) {
  for (int p = 0; p < m->npair; p++) {
    if ((m->pair_geom1[p] == g1 && m->pair_geom2[p] == g2) || (m->pair_geom1[p] == g2 && m->pair_geom2[p] == g1)) return p;
  }
  return -1;
}

// All geom pairs of two bodies, in order; explicit pairs replace what the masks would give.
static void body_candidates(const pbModel *m, pbTopology *t, int b1, int b2) {
  for (int i = 0; i < m->body_geomnum[b1]; i++) {
    for (int j = 0; j < m->body_geomnum[b2]; j++) {
      int g1 = m->body_geomadr[b1] + i, g2 = m->body_geomadr[b2] + j;
      bool mask = (m->geom_contype[g1] & m->geom_conaffinity[g2]) || (m->geom_contype[g2] & m->geom_conaffinity[g1]);
      if (mask && pair_between(m, g1, g2) < 0) add_candidate(m, t, g1, g2, -1);
    }
  }
}

static void find_candidates(const pbModel *m, pbTopology *t) {
  t->ncandidate = t->max_contacts = 0;
  for (int b1 = 0; b1 < m->nbody; b1++) {
    for (int b2 = b1 + 1; b2 < m->nbody; b2++) {
      bool fixed = t->body_dofend[b1] < 0 && t->body_dofend[b2] < 0;
      if (!fixed && m->body_geomnum[b1] && m->body_geomnum[b2] && bodies_collide(m, b1, b2)) body_candidates(m, t, b1, b2);
    }
  }
  for (int p = 0; p < m->npair; p++) add_candidate(m, t, m->pair_geom1[p], m->pair_geom2[p], p);
}

static pbStatus candidates(const pbModel *m, pbTopology *t) {
  find_candidates(m, t);
  t->candidate = pbContext_Alloc(m->ctx, (size_t)(t->ncandidate + 1) * sizeof *t->candidate);
  if (!t->candidate) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %d pairs of geoms", t->ncandidate);
  find_candidates(m, t);
  if (t->max_contacts > max_contacts_default) t->max_contacts = max_contacts_default;
  return pb_ok;
}

static pbStatus directions(const pbModel *m, pbTopology *t) {
  t->nsphere = pbSphere_Rows(m, NULL);
  t->sphere = pbContext_Alloc(m->ctx, (size_t)(t->nsphere + 1) * sizeof *t->sphere);
  if (!t->sphere) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %d axes and quaternions", t->nsphere);
  pbSphere_Rows(m, t->sphere);
  return pb_ok;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------
static void sizes(const pbModel *m, pbTopology *t) {
  int pair = 2 * t->max_chain < m->nv ? 2 * t->max_chain : m->nv;
  t->max_blocks = m->neq + m->nv + 2 * m->njnt + 3 * m->ntendon;
  t->max_rowdata = m->nv + 6 * m->njnt + 3 * m->ntendon * m->nv;
  t->max_dim = 1;
  for (int g = 0; g < m->ngeom; g++) t->max_dim = m->geom_condim[g] > t->max_dim ? m->geom_condim[g] : t->max_dim;
  for (int p = 0; p < m->npair; p++) t->max_dim = m->pair_dim[p] > t->max_dim ? m->pair_dim[p] : t->max_dim;
  for (int e = 0; e < m->neq; e++) t->max_rowdata += m->eq_type[e] == pb_eqConnect || m->eq_type[e] == pb_eqWeld ? pair : m->nv;
}

pbStatus pbModel_Finish(pbModel *m) {
  pbTopology *t = pbContext_Alloc(m->ctx, sizeof *t);
  size_t nb = (size_t)m->nbody, nv = (size_t)m->nv, nt = (size_t)m->ntendon, nu = (size_t)m->nu;
  int *p = pbContext_Alloc(m->ctx, (3 * nb + (nv + 1) + (nt + 1) + 6 * nu + nu + 4 * nv + PB_TREE_ROOM(nv) + 8) * sizeof(int));
  m->topology = t;
  if (!t || !p) {
    pbContext_Free(m->ctx, p);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");
  }
  t->body_tree = p;
  p += nb;
  t->body_dofend = p;
  p += nb;
  t->tree_root = p;
  p += nb;
  t->dof_actuator_start = p;
  p += nv + 1;
  t->dof_actuator = p;
  p += 6 * nu;
  t->ten_actuator_start = p;
  p += nt + 1;
  t->ten_actuator = p;
  p += nu;
  t->M.parent = p;
  p += nv;
  t->M.depth = p;
  p += nv;
  t->M.adr = p;
  p += nv;
  t->M.block = p;
  p += nv;
  t->M.chain = p;
  bodies(m, t);
  mass_pattern(m, t);
  actuators(m, t);
  PB_TRY(candidates(m, t));
  PB_TRY(directions(m, t));
  sizes(m, t);
  return pb_ok;
}
