// Invariants of a compiled model, field by field: every index is below the count of what it names, what comes first has the
// smaller index, addresses and numbers of lists lie within them, directions have length one. Asked by assertions alone
// (base/assert.h), when a model is finished.
#ifndef PB_INVARIANTS_H
#define PB_INVARIANTS_H

#include <pullback/actuators.h>

#include "base/assert.h"
#include "model/equality.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/topology.h"

static inline bool pb_isIndex(int index, int count) { return index >= 0 && index < count; }

// Does the list of `n` entries from `first` lie within one of `count`? An empty one may begin anywhere, as -1 says.
static inline bool pb_isWithin(int first, int n, int count) { return n == 0 || (n > 0 && first >= 0 && first <= count - n); }

static inline bool pb_areUnit(const double *rows, int count, int size) {
  for (int i = 0; i < count; i++) {
    if (!pb_isUnit(rows + i * size, size)) return false;
  }
  return true;
}

// ---- the tree ---------------------------------------------------------------------------------------------------------
// Parents before children; lists of joints, dofs and geoms within theirs.
static inline bool pb_bodiesAreLinked(const pbModel *m) {
  for (int b = 0; b < m->nbody; b++) {
    // The world is its own parent.
    int last = b > 0 ? b : 1;
    if (!pb_isIndex(m->body_parentid[b], last) || !pb_isIndex(m->body_rootid[b], b + 1)) return false;
    if (!pb_isIndex(m->body_weldid[b], b + 1)) return false;

    // What stands in it.
    if (!pb_isWithin(m->body_jntadr[b], m->body_jntnum[b], m->njnt)) return false;
    if (!pb_isWithin(m->body_dofadr[b], m->body_dofnum[b], m->nv)) return false;
    if (!pb_isWithin(m->body_geomadr[b], m->body_geomnum[b], m->ngeom)) return false;
  }
  return true;
}

// Positions and dofs of joints one after the other, none left out.
static inline bool pb_jointsAreLinked(const pbModel *m) {
  int qpos = 0, dof = 0;

  for (int j = 0; j < m->njnt; j++) {
    if (m->jnt_type[j] < pb_jntFree || m->jnt_type[j] > pb_jntHinge || !pb_isIndex(m->jnt_bodyid[j], m->nbody)) return false;
    if (m->jnt_qposadr[j] != qpos || m->jnt_dofadr[j] != dof) return false;

    // The next one's addresses.
    qpos += pbJoint_PositionCount(m->jnt_type[j]);
    dof += pbJoint_DofCount(m->jnt_type[j]);
  }

  return qpos == m->nq && dof == m->nv;
}

// Dofs name their body and joint; their parents have smaller numbers.
static inline bool pb_dofsAreLinked(const pbModel *m) {
  for (int i = 0; i < m->nv; i++) {
    int parent = m->dof_parentid[i], joint = m->dof_jntid[i];
    if (!pb_isIndex(m->dof_bodyid[i], m->nbody) || !pb_isIndex(joint, m->njnt) || parent < -1 || parent >= i) return false;

    // The same body as its joint's, the same tree as its parent's.
    if (m->jnt_bodyid[joint] != m->dof_bodyid[i] || !pb_isIndex(m->dof_treeid[i], m->nv)) return false;
    if (parent >= 0 && m->dof_treeid[parent] != m->dof_treeid[i]) return false;
  }

  return true;
}

// ---- what stands on it ------------------------------------------------------------------------------------------------
// Geoms, sites and cameras name their body and material, pairs two geoms.
static inline bool pb_geomsAreLinked(const pbModel *m) {
  bool linked = pb_allWithin(m->geom_bodyid, m->ngeom, 0, m->nbody) && pb_allWithin(m->geom_matid, m->ngeom, -1, m->nmat);

  // -1: without a material.
  linked = linked && pb_allWithin(m->site_bodyid, m->nsite, 0, m->nbody) && pb_allWithin(m->site_matid, m->nsite, -1, m->nmat);
  linked = linked && pb_allWithin(m->cam_bodyid, m->ncam, 0, m->nbody) && pb_allWithin(m->pair_geom1, m->npair, 0, m->ngeom);
  return linked && pb_allWithin(m->pair_geom2, m->npair, 0, m->ngeom);
}

// How many things there are of the kind that an equality or sensor refers to.
static inline int pb_countOf(const pbModel *m, int ref) {
  switch (ref) {
    case pb_refBody:
    case pb_refXbody: return m->nbody;
    case pb_refJoint: return m->njnt;
    case pb_refGeom: return m->ngeom;
    case pb_refSite: return m->nsite;
    case pb_refCamera: return m->ncam;
    case pb_refTendon: return m->ntendon;
    case pb_refActuator: return m->nu;
    default: return 0;
  }
}

static inline bool pb_equalitiesAreLinked(const pbModel *m) {
  for (int e = 0; e < m->neq; e++) {
    const pbEqualityRow *row = pbEquality_Row(m->eq_type[e]);
    if (!row) return false;
    int count = row->of == pb_ofJoints ? m->njnt : m->ntendon;
    bool ends = pbEquality_HasEnds(row->type);

    // Ends are bodies or sites.
    if (ends) count = pb_countOf(m, m->eq_objtype[e]);

    // Joints and tendons may be coupled to nothing.
    if (!pb_isIndex(m->eq_obj1id[e], count)) return false;
    if (m->eq_obj2id[e] < (ends ? 0 : -1) || m->eq_obj2id[e] >= count) return false;
  }
  return true;
}

// The stations of tendons one after the other, each of a joint, a site, a geom or a pulley.
static inline bool pb_tendonsAreLinked(const pbModel *m) {
  int station = 0;

  for (int t = 0; t < m->ntendon; t++) {
    if (m->tendon_adr[t] != station || m->tendon_num[t] < 1) return false;
    station += m->tendon_num[t];
  }
  if (station != m->nwrap) return false;

  for (int i = 0; i < m->nwrap; i++) {
    // A pulley names nothing; a geom stands between two sites, and may have one at its side.
    int type = m->wrap_type[i], count = m->nsite;
    if (type == pb_wrapJoint) count = m->njnt;
    if (type >= pb_wrapSphere) count = m->ngeom;
    if (type != pb_wrapPulley && !pb_isIndex(m->wrap_objid[i], count)) return false;
    if (m->wrap_side[i] < -1 || m->wrap_side[i] >= m->nsite) return false;
  }
  return pb_allWithin(m->tendon_matid, m->ntendon, -1, m->nmat);
}

// Targets of actuators; their activations one after the other.
static inline bool pb_actuatorsAreLinked(const pbModel *m) {
  int activation = 0;

  for (int u = 0; u < m->nu; u++) {
    int type = m->actuator_trntype[u], count = type == pb_trnTendon ? m->ntendon : m->nsite;
    if (type == pb_trnJoint || type == pb_trnJointInParent) count = m->njnt;
    if (type == pb_trnBody) count = m->nbody;
    if (!pb_isIndex(m->actuator_trnid[2 * u], count)) return false;

    // The second of a site is its reference; -1: none. A crank has a slider.
    if (type == pb_trnSite && m->actuator_trnid[2 * u + 1] >= m->nsite) return false;
    if (type == pb_trnSliderCrank && !pb_isIndex(m->actuator_trnid[2 * u + 1], m->nsite)) return false;

    if (m->actuator_actnum[u] && m->actuator_actadr[u] != activation) return false;
    activation += m->actuator_actnum[u];
  }

  return activation == m->na;
}

// What sensors measure, and in which frame; their numbers one after the other.
static inline bool pb_sensorsAreLinked(const pbModel *m) {
  int number = 0;

  for (int s = 0; s < m->nsensor; s++) {
    // -1: a clock measures nothing, most measure in no frame.
    int object = m->sensor_objid[s], reference = m->sensor_refid[s];
    if (object < -1 || object >= pb_countOf(m, m->sensor_objtype[s])) return false;
    if (reference < -1 || reference >= pb_countOf(m, m->sensor_reftype[s])) return false;

    if (m->sensor_adr[s] != number || m->sensor_dim[s] < 1) return false;
    number += m->sensor_dim[s];
  }

  return number == m->nsensordata;
}

// Axes of hinges and slides, and all orientations, as a compile leaves them: theta may leave the sphere (sphere.h), theta0 does
// not.
static inline bool pb_directionsAreUnit(const pbModel *m) {
  // Free and ball joints have an axis that nothing reads.
  for (int j = 0; j < m->njnt; j++) {
    if (pbJoint_IsScalar(m->jnt_type[j]) && !pb_isUnit(m->jnt_axis + 3 * j, 3)) return false;
  }

  return pb_areUnit(m->body_quat, m->nbody, 4) && pb_areUnit(m->body_iquat, m->nbody, 4) &&
         pb_areUnit(m->geom_quat, m->ngeom, 4) && pb_areUnit(m->site_quat, m->nsite, 4) && pb_areUnit(m->cam_quat, m->ncam, 4) &&
         pb_areUnit(m->mesh_refquat, m->nmesh, 4);
}

// ---- derived tables -----------------------------------------------------------------------------------------------------
// Lists of actuators by rows: starts ascend, entries name actuators.
static inline bool pb_listsAreRows(const int *start, int rows, const int *list, int count) {
  for (int i = 0; i < rows; i++) {
    if (start[i] > start[i + 1]) return false;
  }

  return start[0] == 0 && pb_allWithin(list, start[rows], 0, count);
}

// Pairs of geoms in the order of their types, each with room for a contact point.
static inline bool pb_candidatesAreSorted(const pbModel *m, const pbTopology *t) {
  for (const pbCandidate *c = t->candidate; c < t->candidate + t->ncandidate; c++) {
    if (!pb_isIndex(c->geom1, m->ngeom) || !pb_isIndex(c->geom2, m->ngeom) || c->contacts < 1) return false;

    // -1: no explicit pair.
    if (m->geom_type[c->geom1] > m->geom_type[c->geom2] || c->pair < -1 || c->pair >= m->npair) return false;
  }
  return true;
}

#endif
