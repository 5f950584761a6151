// Memory of a design, and which entries of theta follow from others by it (design.h).
// Tests: tests/oracle/test_design.py.
#include "model/design.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"

void pbDesign_Destroy(pbContext *ctx, pbDesign *d, int meshes) {
  if (!d) return;

  // It may have run out of memory halfway.
  if (!d->mesh) meshes = 0;
  for (int i = 0; i < meshes; i++) {
    pbContext_Free(ctx, d->mesh[i].point);
    pbContext_Free(ctx, d->mesh[i].triangle);
  }

  pbContext_Free(ctx, d->mesh);
  pbContext_Free(ctx, d->part);
  pbContext_Free(ctx, d->geom);
  pbContext_Free(ctx, d->first);
  pbContext_Free(ctx, d->theta0);
  pbContext_Free(ctx, d);
}

// Row of a field that an entry of theta is in, or -1.
static int row_in(const pbModel *m, const double *field, int rows, int cols, size_t entry) {
  PB_ASSERT(cols > 0);
  size_t start = (size_t)(field - m->theta0), size = (size_t)rows * (size_t)cols;
  return entry >= start && entry < start + size ? (int)((entry - start) / (size_t)cols) : -1;
}

static bool is_of_body(const pbModel *m, size_t entry) {
  const struct {
    const double *field;
    int cols;
  } fields[] = {{m->body_mass, 1}, {m->body_ipos, 3}, {m->body_iquat, 4}, {m->body_inertia, 3}};

  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    int body = row_in(m, fields[i].field, m->nbody, fields[i].cols, entry);
    if (body >= 0) return m->design->first[body + 1] > m->design->first[body];
  }
  return false;
}

bool pbModel_Follows(const pbModel *m, size_t entry) {
  PB_ASSERT(entry < m->ntheta);
  if (!m->design) return false;
  if (is_of_body(m, entry)) return true;

  // Geoms of meshes take their frames from these.
  int geom = row_in(m, m->geom_pos, m->ngeom, 3, entry);
  if (geom < 0) geom = row_in(m, m->geom_quat, m->ngeom, 4, entry);
  return geom >= 0 && m->geom_type[geom] == pb_geomMesh && m->geom_dataid[geom] >= 0;
}
