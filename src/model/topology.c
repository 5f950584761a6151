// Tables derived from a compiled model once: kinematic trees, the pattern of the mass matrix, actuators by what they act on,
// candidate pairs of geoms, directions in theta, and bounds on sizes that a step's work memory is laid out by.
// Tests: tests/conformance/test_step.c, tests/unit/test_compile.c.
#include "model/topology.h"

#include <pullback/actuators.h>

#include <limits.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/equality.h"
#include "model/history.h"
#include "model/invariants.h"
#include "model/row_kinds.h"
#include "model/sensor.h"
#include "model/sphere.h"
#include "model/terrain.h"

enum { max_contacts_default = 1 << 20 };

void pbTopology_Destroy(pbContext *ctx, pbTopology *t) {
  if (!t) return;
  pbContext_Free(ctx, t->body_tree);
  pbContext_Free(ctx, t->ten_start);
  pbContext_Free(ctx, t->ten_body);
  pbContext_Free(ctx, t->near_start);
  pbContext_Free(ctx, t->site_read);
  pbContext_Free(ctx, t->site_turned);
  pbContext_Free(ctx, t->geom_read);
  pbContext_Free(ctx, t->candidate);
  pbContext_Free(ctx, t->run);
  pbContext_Free(ctx, t->sphere);
  pbContext_Free(ctx, t->hull);
  pbContext_Free(ctx, t->hull_reals);
  pbContext_Free(ctx, t->hull_ints);
  pbContext_Free(ctx, t->triangles);
  pbContext_Free(ctx, t->triangle_nodes);
  pbContext_Free(ctx, t->triangle_corners);
  pbContext_Free(ctx, t);
}

// Bodies: their tree, its root, the last dof that moves them. Parents come first, so one pass is enough.
static void find_trees(const pbModel *m, pbTopology *t) {
  t->body_tree[0] = t->body_dofend[0] = -1;
  for (int b = 1; b < m->nbody; b++) {
    int parent = m->body_parentid[b], n = m->body_dofnum[b];
    t->body_dofend[b] = n ? m->body_dofadr[b] + n - 1 : t->body_dofend[parent];
    t->body_tree[b] = t->body_tree[parent];

    // The first body with dofs above a chain of fixed ones is the root of a new tree.
    if (n && t->body_tree[b] < 0) {
      t->body_tree[b] = t->ntree;
      t->tree_root[t->ntree++] = b;
    }
  }
}

// M has an entry for each dof and each of its ancestors (Featherstone 2008, section 6.4).
static void lay_out_mass(const pbModel *m, pbTopology *t) {
  t->M.n = m->nv;
  for (int i = 0; i < m->nv; i++) t->M.parent[i] = m->dof_parentid[i];
  pbTree_Layout_r(&t->M);

  // From the leaves: what a dof carries ends where that of its last child does.
  for (int i = 0; i < m->nv; i++) t->dof_end[i] = i + 1;
  for (int i = m->nv - 1; i >= 0; i--) {
    int carrier = m->dof_parentid[i];
    if (carrier >= 0 && t->dof_end[carrier] < t->dof_end[i]) t->dof_end[carrier] = t->dof_end[i];
  }

  for (int i = 0; i < m->nv; i++) {
    int chain = t->M.depth[i] + 1;
    if (chain > t->max_chain) t->max_chain = chain;
  }
  PB_ASSERT(t->max_chain <= m->nv && t->M.size <= PB_TREE_ROOM(m->nv));
}

// Actuators whose damping and armature are reflected to the dofs of joint `id`, or to tendon `id`; counted where list is NULL.
static int reflecting_actuators(const pbModel *m, bool tendons, int id, int *list) {
  int n = 0;
  for (int u = 0; u < m->nu; u++) {
    int type = m->actuator_trntype[u];
    bool on_joint = type == pb_trnJoint || type == pb_trnJointInParent;
    bool fits = tendons ? type == pb_trnTendon : on_joint;
    if (!fits || m->actuator_trnid[2 * u] != id) continue;

    if (list) list[n] = u;
    n++;
  }
  return n;
}

// Lists in compressed rows: those of row i are at start[i] .. start[i + 1].
static void list_actuators(const pbModel *m, pbTopology *t) {
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
// MuJoCo's filters of pairs of bodies: welded together, parent and child (unless disabled), excluded.
static bool bodies_collide(const pbModel *m, int b1, int b2) {
  int w1 = m->body_weldid[b1];
  int w2 = m->body_weldid[b2];
  if (w1 == w2) return false;

  // The world as a parent is exempt: what is attached to it by a joint still touches it.
  int p1 = m->body_weldid[m->body_parentid[w1]];
  int p2 = m->body_weldid[m->body_parentid[w2]];
  bool filter = !(m->disableflags & pb_disFilterparent);
  if (filter && w1 && w2 && (w1 == p2 || w2 == p1)) return false;

  // Excluded pairs, by signature as they were compiled.
  int low = b1 < b2 ? b1 : b2, high = b1 < b2 ? b2 : b1;
  for (int i = 0; i < m->nexclude; i++) {
    if (m->exclude_signature[i] == (low << 16) + high) return false;
  }
  return true;
}

// Most contact points of a pair (geometry/pair.c), type1 <= type2; 0: pairs that have no code.
static int max_contact_points(int type1, int type2) {
  if (type1 == pb_geomHfield) return PB_TERRAIN_CONTACTS;
  // A hull, by the search of geometry/polytope.h.
  if (type2 == pb_geomMesh && type1 > pb_geomHfield) {
    if (type1 == pb_geomSphere || type1 == pb_geomEllipsoid) return 1;
    return type1 == pb_geomCapsule ? 4 : 8;
  }
  if (type1 == pb_geomPlane && type2 == pb_geomMesh) return 8;
  if (type1 == pb_geomPlane) {
    if (type2 == pb_geomSphere || type2 == pb_geomEllipsoid) return 1;
    return type2 == pb_geomCapsule ? 2 : 4;
  }

  // Sphere: one point. Capsule: one at each end, but on an ellipsoid; on a cylinder with the deepest between them.
  if (type1 == pb_geomSphere) return 1;
  if (type1 == pb_geomCapsule && type2 == pb_geomEllipsoid) return 1;
  if (type1 == pb_geomCapsule && type2 <= pb_geomBox) return type2 == pb_geomCylinder ? 3 : 2;

  // Others: a face against a face. A cap is a hexagon: cut by another one it has 12 corners, by a box 10; and the deepest.
  if (type1 == pb_geomCylinder) return type2 == pb_geomCylinder ? 13 : 11;
  return 8;
}

// Counts a pair, and stores it once there is memory. Geoms go in the order of their types.
static void add_candidate(const pbModel *m, pbTopology *t, int g1, int g2, int pair) {
  pbCandidate c = {g1, g2, pair, 0};
  if (m->geom_type[g1] > m->geom_type[g2]) {
    c.geom1 = g2;
    c.geom2 = g1;
  }

  // Planes and height fields do not meet each other.
  int t1 = m->geom_type[c.geom1];
  int t2 = m->geom_type[c.geom2];
  if (t2 == pb_geomPlane || t2 == pb_geomHfield) return;

  // Counted in the first round, stored in the second.
  c.contacts = max_contact_points(t1, t2);
  if (t->candidate) t->candidate[t->ncandidate] = c;
  t->ncandidate++;
  t->max_contacts += c.contacts;
}

// The explicit pair of two geoms, or -1.
static int pair_between(const pbModel *m, int g1, int g2) {
  for (int p = 0; p < m->npair; p++) {
    int a = m->pair_geom1[p];
    int b = m->pair_geom2[p];
    if ((a == g1 && b == g2) || (a == g2 && b == g1)) return p;
  }
  return -1;
}

static int compare_candidates(const void *a, const void *b) {
  const pbCandidate *x = a, *y = b;
  if (x->geom1 != y->geom1) return x->geom1 < y->geom1 ? -1 : 1;
  return (x->geom2 > y->geom2) - (x->geom2 < y->geom2);
}

// All geom pairs of two bodies, in MuJoCo's order; explicit pairs replace what the masks would give. With its midphase that is by
// the numbers of the contacts' geoms, which stand in the order of their types; without it geom by geom of the bodies.
static void body_candidates(const pbModel *m, pbTopology *t, int b1, int b2) {
  int first = t->ncandidate;
  for (int i = 0; i < m->body_geomnum[b1]; i++) {
    for (int j = 0; j < m->body_geomnum[b2]; j++) {
      int g1 = m->body_geomadr[b1] + i, g2 = m->body_geomadr[b2] + j;
      bool mask = (m->geom_contype[g1] & m->geom_conaffinity[g2]) || (m->geom_contype[g2] & m->geom_conaffinity[g1]);
      if (mask && pair_between(m, g1, g2) < 0) add_candidate(m, t, g1, g2, -1);
    }
  }

  if (!t->candidate || (m->disableflags & pb_disMidphase)) return;
  qsort(t->candidate + first, (size_t)(t->ncandidate - first), sizeof *t->candidate, compare_candidates);
}

// Explicit pairs from the one at hand, up to those of two bodies; returns the next one.
static int explicit_candidates(const pbModel *m, pbTopology *t, int pair, int signature) {
  while (pair < m->npair && m->pair_signature[pair] <= signature) {
    add_candidate(m, t, m->pair_geom1[pair], m->pair_geom2[pair], pair);
    pair++;
  }
  return pair;
}

// Pairs of bodies in order, those of each after its explicit pairs, which are subject to no filter.
static void find_candidates(const pbModel *m, pbTopology *t) {
  int pair = 0;
  t->ncandidate = t->max_contacts = 0;

  for (int b1 = 0; b1 < m->nbody; b1++) {
    if (!m->body_geomnum[b1]) continue;
    for (int b2 = b1 + 1; b2 < m->nbody; b2++) {
      // Two bodies that stand still need no contact.
      bool fixed = t->body_dofend[b1] < 0 && t->body_dofend[b2] < 0;
      if (fixed || !m->body_geomnum[b2] || !bodies_collide(m, b1, b2)) continue;

      pair = explicit_candidates(m, t, pair, (b1 << 16) + b2);
      body_candidates(m, t, b1, b2);
    }
  }

  explicit_candidates(m, t, pair, INT_MAX);
}

static pbStatus refuse_pair(const pbModel *m, const pbCandidate *c) {
  static const char *const words[] = {"plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"};
  return pbContext_Fail(m->ctx, pb_unsupported,
                        "geoms %d '%.80s' (%s) and %d '%.80s' (%s) may touch: contacts of such a pair are not supported; "
                        "contype, conaffinity or contact/exclude can keep them apart",
                        c->geom1, pbModel_Name(m, pb_objGeom, c->geom1), words[m->geom_type[c->geom1]], c->geom2,
                        pbModel_Name(m, pb_objGeom, c->geom2), words[m->geom_type[c->geom2]]);
}

// ---- runs of candidates -----------------------------------------------------------------------------------------------
// Does candidate k go on with a run? Which of its geoms the others have in common is free while there is but one.
static bool goes_on(const pbModel *m, const pbTopology *t, const pbCandidateRun *run, int k) {
  const pbCandidate *c = t->candidate + k;
  bool plain = c->pair < 0 && run->geom >= 0;
  int next = run->other + run->count;
  if (!plain || m->geom_type[next < m->ngeom ? next : 0] == pb_geomPlane) return false;
  return (c->geom1 == run->geom && c->geom2 == next) || (c->geom2 == run->geom && c->geom1 == next);
}

// The run that begins with candidate k, by the geom that the next one has too.
static pbCandidateRun begin_run(const pbModel *m, const pbTopology *t, int k) {
  enum { least = 8 };  // candidates that are worth a run
  const pbCandidate *c = t->candidate + k;
  for (int side = 0; side < 2; side++) {
    pbCandidateRun run = {k, 1, side ? c->geom2 : c->geom1, side ? c->geom1 : c->geom2};
    if (c->pair >= 0 || m->geom_type[run.other] == pb_geomPlane) continue;
    while (k + run.count < t->ncandidate && goes_on(m, t, &run, k + run.count)) run.count++;
    if (run.count >= least) return run;
  }
  return (pbCandidateRun){k, 1, -1, -1};
}

// Counts runs, and stores them once there is memory; single candidates that follow each other are one.
static void find_runs(const pbModel *m, pbTopology *t) {
  t->nrun = 0;
  pbCandidateRun last = {0, 0, -1, -1};
  for (int k = 0; k < t->ncandidate;) {
    pbCandidateRun run = begin_run(m, t, k);
    k += run.count;
    bool joins = run.geom < 0 && last.geom < 0 && last.count > 0;
    if (joins) run = (pbCandidateRun){last.first, last.count + run.count, -1, -1};
    if (joins) t->nrun--;
    if (t->run) t->run[t->nrun] = run;
    t->nrun++;
    last = run;
  }
}

static pbStatus list_runs(const pbModel *m, pbTopology *t) {
  find_runs(m, t);
  t->run = pbContext_AllocArray(m->ctx, (size_t)t->nrun + 1, sizeof *t->run);
  if (!t->run) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %d pairs of geoms", t->ncandidate);
  find_runs(m, t);
  return pb_ok;
}

// Counts, allocates, fills.
static pbStatus list_candidates(const pbModel *m, pbTopology *t) {
  find_candidates(m, t);
  t->candidate = pbContext_Alloc(m->ctx, (size_t)(t->ncandidate + 1) * sizeof *t->candidate);
  if (!t->candidate) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %d pairs of geoms", t->ncandidate);

  int counted = t->ncandidate;
  find_candidates(m, t);
  (void)counted;
  PB_ASSERT(t->ncandidate == counted);
  for (int k = 0; k < t->ncandidate; k++) {
    if (!t->candidate[k].contacts) return refuse_pair(m, &t->candidate[k]);
  }
  if (t->max_contacts > max_contacts_default) t->max_contacts = max_contacts_default;
  return list_runs(m, t);
}

static pbStatus list_directions(const pbModel *m, pbTopology *t) {
  t->nsphere = pbSphere_Rows(m, NULL);
  t->sphere = pbContext_Alloc(m->ctx, (size_t)(t->nsphere + 1) * sizeof *t->sphere);
  if (!t->sphere) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %d axes and quaternions", t->nsphere);

  pbSphere_Rows(m, t->sphere);
  return pb_ok;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------
// By what has rows of a kind (model/row_kinds.h).
static void bound_Losses(const pbModel *m, pbTopology *t) {
  t->max_blocks += m->nv + m->ntendon;
  t->max_rowdata += m->nv + m->ntendon * m->nv;
}

// Servos act on what their actuator moves.
static void bound_Servos(const pbModel *m, pbTopology *t) {
  for (int u = 0; u < m->nu; u++) {
    t->max_blocks += m->actuator_servo[u] != 0;
    t->max_rowdata += m->actuator_servo[u] ? m->nv : 0;
  }
}

static void bound_Ranges(const pbModel *m, pbTopology *t) {
  t->max_blocks += 2 * (m->njnt + m->ntendon);
  t->max_rowdata += 6 * m->njnt + 2 * m->ntendon * m->nv;
}

// Contacts are counted by themselves.
static void bound_Contacts(const pbModel *m, pbTopology *t) {
  (void)m;
  (void)t;
}

// Bounds on the constraint rows besides contacts. A connect or weld has entries at the dofs of two chains; others may have one
// at every dof.
static void bound_rows(const pbModel *m, pbTopology *t) {
  int two_chains = 2 * t->max_chain < m->nv ? 2 * t->max_chain : m->nv;

  t->max_blocks = m->neq;
  t->max_rowdata = 0;
#define X(kind, name, law, of, ...) bound_##of(m, t);
  PB_ROW_KINDS(X)
#undef X

  // Most rows of one contact.
  t->max_dim = 1;
  for (int g = 0; g < m->ngeom; g++) {
    if (m->geom_condim[g] > t->max_dim) t->max_dim = m->geom_condim[g];
  }
  for (int p = 0; p < m->npair; p++) {
    if (m->pair_dim[p] > t->max_dim) t->max_dim = m->pair_dim[p];
  }

  // J entries of equalities.
  for (int e = 0; e < m->neq; e++) {
    t->max_rowdata += pbEquality_HasEnds(m->eq_type[e]) ? two_chains : m->nv;
  }
}

// Entries of M's rows: of each dof its chain, in whole vectors.
static size_t mass_entries(const pbModel *m) {
  size_t entries = 0;
  for (int i = 0; i < m->nv; i++) {
    int ancestors = 0;
    for (int p = m->dof_parentid[i]; p >= 0; p = m->dof_parentid[p]) ancestors++;
    entries += (size_t)PB_TREE_PADDED(ancestors);
  }
  return entries;
}

// Integers of all tables in one block, which begins with body_tree.
static int *carve_tables(const pbModel *m, pbTopology *t) {
  size_t nb = (size_t)m->nbody;
  size_t nv = (size_t)m->nv;
  size_t nt = (size_t)m->ntendon;
  size_t nu = (size_t)m->nu;
  size_t total = 3 * nb + (nv + 1) + (nt + 1) + 6 * nu + nu + 5 * nv + mass_entries(m) + 8;

  int *block = pbContext_Alloc(m->ctx, total * sizeof(int));
  if (!block) return NULL;
  int *next = block;
#define CARVE(member, count) \
  member = next;             \
  next += count

  CARVE(t->body_tree, nb);
  CARVE(t->body_dofend, nb);
  CARVE(t->tree_root, nb);

  // An actuator of a joint is listed at each of its up to 6 dofs.
  CARVE(t->dof_actuator_start, nv + 1);
  CARVE(t->dof_actuator, 6 * nu);
  CARVE(t->ten_actuator_start, nt + 1);
  CARVE(t->ten_actuator, nu);

  // The mass matrix.
  CARVE(t->M.parent, nv);
  CARVE(t->M.depth, nv);
  CARVE(t->M.adr, nv);
  CARVE(t->M.block, nv);
  CARVE(t->dof_end, nv);
  t->M.chain = next;
  PB_ASSERT(next + mass_entries(m) <= block + total);
#undef CARVE
  return block;
}

// Every index of the fields before anything is derived from them.
static void validate_fields(const pbModel *m) {
  (void)m;
  PB_VALIDATE(pb_bodiesAreLinked(m));
  PB_VALIDATE(pb_jointsAreLinked(m));
  PB_VALIDATE(pb_dofsAreLinked(m));
  PB_VALIDATE(pb_geomsAreLinked(m));
  PB_VALIDATE(pb_equalitiesAreLinked(m));
  PB_VALIDATE(pb_tendonsAreLinked(m));
  PB_VALIDATE(pb_actuatorsAreLinked(m));
  PB_VALIDATE(pb_sensorsAreLinked(m));
  PB_VALIDATE(pb_directionsAreUnit(m));
}

// Contacts in the gap have no force; sensors and adhesion see them.
static void find_readers(const pbModel *m, pbTopology *t) {
  t->has_contact_sensors = false;
  for (int i = 0; i < m->nsensor; i++)
    t->has_contact_sensors = t->has_contact_sensors || pbSensor_Row(m->sensor_type[i])->of == pb_ofContact;
  t->adheres = false;
  for (int u = 0; u < m->nu; u++) t->adheres = t->adheres || m->actuator_trntype[u] == pb_trnBody;
  t->keeps_gap = t->has_contact_sensors || t->adheres;
}

pbStatus pbModel_Finish(pbModel *m) {
  pbTopology *t = pbContext_Alloc(m->ctx, sizeof *t);
  m->topology = t;
  if (!t || !carve_tables(m, t)) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");

  pbHistory_Count(m);
  validate_fields(m);

  // In this order: candidates ask which bodies move, bounds for the longest chain.
  find_trees(m, t);
  lay_out_mass(m, t);
  list_actuators(m, t);
  PB_TRY(pbModel_MakeHulls(m, t));
  PB_TRY(pbModel_MakeTriangles(m, t));
  PB_TRY(pbTopology_Sites(m, t));
  PB_TRY(pbTopology_Tendons(m, t));
  PB_TRY(pbTopology_Near(m, t));
  PB_TRY(list_candidates(m, t));
  PB_TRY(pbTopology_Geoms(m, t));
  PB_TRY(list_directions(m, t));
  bound_rows(m, t);
  find_readers(m, t);

  PB_VALIDATE(pb_listsAreRows(t->dof_actuator_start, m->nv, t->dof_actuator, m->nu));
  PB_VALIDATE(pb_listsAreRows(t->ten_actuator_start, m->ntendon, t->ten_actuator, m->nu));
  PB_VALIDATE(pb_candidatesAreSorted(m, t));
  return pb_ok;
}
