// Which sites and geoms a step reads: large models have many that only mark places or are only seen.
// Tests: tests/conformance/test_step.c, tests/unit/test_compile.c.
#include <pullback/actuators.h>
#include <pullback/enums.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/equality.h"
#include "model/sensor.h"
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
    if (!pbEquality_HasEnds(m->eq_type[e]) || m->eq_objtype[e] != pb_refSite) continue;
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

  // None, but for what is found below.
  for (int s = 0; s < m->nsite; s++) read[s] = t->site_turned[s] = false;

  mark_tendons(m, t, read);
  mark_others(m, t, read);

  // As a list: there may be many more sites than a step reads.
  t->nsite_read = 0;
  for (int s = 0; s < m->nsite; s++) {
    if (read[s]) t->site_read[t->nsite_read++] = s;
  }

  pbContext_Free(m->ctx, read);
  return pb_ok;
}

// ---- geoms ------------------------------------------------------------------------------------------------------------
// Rangefinders may meet any geom, distances are those of all geoms of a body.
static bool looks_around(const pbModel *m, int sensor) {
  const pbSensorRow *row = pbSensor_Row(m->sensor_type[sensor]);
  return row->of == pb_ofRay || row->of == pb_ofShapes;
}

static void mark_seen(const pbModel *m, bool *read) {
  for (int s = 0; s < m->nsensor; s++) {
    // Whose frame it measures.
    if (m->sensor_objtype[s] == pb_refGeom) read[m->sensor_objid[s]] = true;

    // The frame it measures in; -1 is the world's.
    if (m->sensor_reftype[s] == pb_refGeom && m->sensor_refid[s] >= 0) read[m->sensor_refid[s]] = true;

    // Where it may find any: all.
    if (!looks_around(m, s)) continue;
    for (int g = 0; g < m->ngeom; g++) read[g] = true;
  }
}

pbStatus pbTopology_Geoms(const pbModel *m, pbTopology *t) {
  bool *read = pbContext_AllocArray(m->ctx, (size_t)m->ngeom + 1, sizeof *read);
  t->geom_read = pbContext_AllocArray(m->ctx, (size_t)m->ngeom + 1, sizeof *t->geom_read);

  if (!read || !t->geom_read) {
    pbContext_Free(m->ctx, read);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");
  }

  // One that is only seen, or counts for masses alone, is in none of these.
  for (int g = 0; g < m->ngeom; g++) read[g] = false;

  // What may touch.
  for (int k = 0; k < t->ncandidate; k++) read[t->candidate[k].geom1] = read[t->candidate[k].geom2] = true;

  // What tendons wrap around.
  for (int i = 0; i < m->nwrap; i++) {
    if (m->wrap_type[i] == pb_wrapSphere || m->wrap_type[i] == pb_wrapCylinder) read[m->wrap_objid[i]] = true;
  }

  // What sensors look at.
  mark_seen(m, read);

  // As a list, so that steps need not look at the others.
  t->ngeom_read = 0;
  for (int g = 0; g < m->ngeom; g++) {
    if (read[g]) t->geom_read[t->ngeom_read++] = g;
  }

  pbContext_Free(m->ctx, read);
  return pb_ok;
}
