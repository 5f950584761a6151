// Which sites a step reads: large models have many that only mark places.
#include <pullback/spec.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/topology.h"

// Both marks of a site; -1 is none.
static void mark(const pbModel *m, pbTopology *t, bool *read, int site, bool turned) {
  PB_ASSERT(site < m->nsite);
  if (site < 0) return;

  read[site] = true;
  t->site_turned[site] = t->site_turned[site] || turned;
}

static void mark_tendons(const pbModel *m, pbTopology *t, bool *read) {
  // Stations, and the sides that geoms are passed on.
  for (int i = 0; i < m->nwrap; i++) {
    if (m->wrap_type[i] == pb_wrapSite) mark(m, t, read, m->wrap_objid[i], false);
    if (m->wrap_type[i] == pb_wrapSphere || m->wrap_type[i] == pb_wrapCylinder) mark(m, t, read, m->wrap_side[i], false);
  }
}

static void mark_others(const pbModel *m, pbTopology *t, bool *read) {
  // A transmission, and what it is measured against.
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_trntype[u] != pb_trnSite && m->actuator_trntype[u] != pb_trnSliderCrank) continue;
    mark(m, t, read, m->actuator_trnid[2 * u], true);
    mark(m, t, read, m->actuator_trnid[2 * u + 1], true);
  }

  // Ends of equalities.
  for (int e = 0; e < m->neq; e++) {
    bool ends = m->eq_type[e] == pb_eqConnect || m->eq_type[e] == pb_eqWeld;

    if (!ends || m->eq_objtype[e] != pb_refSite) continue;
    mark(m, t, read, m->eq_obj1id[e], true);
    mark(m, t, read, m->eq_obj2id[e], true);
  }

  // Objects of sensors and their references.
  for (int s = 0; s < m->nsensor; s++) {
    if (m->sensor_objtype[s] == pb_refSite) mark(m, t, read, m->sensor_objid[s], true);

    if (m->sensor_reftype[s] == pb_refSite) mark(m, t, read, m->sensor_refid[s], true);
  }
}

pbStatus pbTopology_Sites(const pbModel *m, pbTopology *t) {
  size_t n = (size_t)m->nsite;

  bool *read = pbContext_AllocArray(m->ctx, n + 1, sizeof *read);
  t->site_read = pbContext_AllocArray(m->ctx, n + 1, sizeof *t->site_read);
  t->site_turned = pbContext_AllocArray(m->ctx, n + 1, sizeof *t->site_turned);

  if (!read || !t->site_read || !t->site_turned) {
    pbContext_Free(m->ctx, read);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");
  }

  for (int s = 0; s < m->nsite; s++) read[s] = t->site_turned[s] = false;

  mark_tendons(m, t, read);
  mark_others(m, t, read);

  t->nsite_read = 0;
  for (int s = 0; s < m->nsite; s++) {
    if (read[s]) t->site_read[t->nsite_read++] = s;
  }

  pbContext_Free(m->ctx, read);
  return pb_ok;
}
