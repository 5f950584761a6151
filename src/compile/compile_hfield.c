// Height fields that geoms name: checked and scaled, once for each.
// Tests: tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"

static pbStatus check_hfield(const pbCompiler *c, const pbHfieldDef *d) {
  for (int k = 0; k < 4; k++) {
    if (!(d->size[k] > 0 && isfinite(d->size[k]))) return PB_AT(c, d, "hfield", "expected four positive sizes");
  }

  // A cell has four corners.
  if (d->nrow < 2 || d->ncol < 2)
    return PB_AT(c, d, "hfield", "expected at least two rows and columns, found %d and %d", d->nrow, d->ncol);
  if ((double)d->nrow * d->ncol > 1 << 25) return PB_AT(c, d, "hfield", "has more than 2^25 heights");

  int count = d->elevation.count;
  if (count && count != d->nrow * d->ncol)
    return PB_AT(c, d, "hfield", "has %d heights, expected %d rows of %d", count, d->nrow, d->ncol);
  for (int i = 0; i < count; i++) {
    if (!isfinite(d->elevation.data[i])) return PB_AT(c, d, "hfield", "height %d is not finite", i);
  }
  return pb_ok;
}

pbStatus pbCompile_Hfield(pbCompiler *c, const pbGeomDef *geom, const pbHfieldWork **hfield) {
  int index;
  PB_ASSERT(geom->type == pb_geomHfield);
  PB_TRY(pbCompile_Resolve(c, pb_refHfield, geom->hfield, &geom->place, "geom", geom->name, &index));

  // Several geoms may share it.
  pbHfieldWork *work = &c->hfields[index];
  if (!work->def) PB_TRY(check_hfield(c, &c->spec->hfields[index]));
  work->def = &c->spec->hfields[index];
  *hfield = work;
  return pb_ok;
}

// What of it weighs, as in MuJoCo: a box about the geom's origin.
void pbCompile_HfieldSize(const pbHfieldDef *d, double size[3]) {
  size[0] = d->size[0];
  size[1] = d->size[1];
  size[2] = 0.25 * d->size[2] + 0.5 * d->size[3];
}

double pbCompile_HfieldRadius(const pbHfieldDef *d) {
  double height = fmax(d->size[2], d->size[3]);
  return sqrt(d->size[0] * d->size[0] + d->size[1] * d->size[1] + height * height);
}

// From the bottom of the base to a height of 1.
void pbCompile_HfieldBox(const pbHfieldDef *d, double aabb[6]) {
  aabb[0] = aabb[1] = 0;
  aabb[2] = (d->size[2] - d->size[3]) / 2;
  aabb[3] = d->size[0];
  aabb[4] = d->size[1];
  aabb[5] = (d->size[2] + d->size[3]) / 2;
}

// ---- the model ----------------------------------------------------------------------------------------------------------
pbStatus pbCompile_CountHfields(pbCompiler *c) {
  double heights = 0;

  // Ids in the order of the spec, without those that are only seen.
  for (int i = 0; i < c->spec->nhfield; i++) {
    pbHfieldWork *work = &c->hfields[i];
    work->id = work->def ? c->m->nhfield++ : -1;
    if (work->def) heights += (double)work->def->nrow * work->def->ncol;
  }

  if (heights > 1 << 27) return pbContext_Fail(c->ctx, pb_no_memory, "height fields take too much memory");
  c->m->nhfielddata = (int)heights;
  return pb_ok;
}

// To 0 .. 1 in single precision, as MuJoCo computes it.
static void scale_heights(const pbHfieldDef *d, double *height) {
  int count = d->elevation.count;
  float least = count ? (float)d->elevation.data[0] : 0, greatest = least;
  for (int i = 1; i < count; i++) {
    least = fminf(least, (float)d->elevation.data[i]);
    greatest = fmaxf(greatest, (float)d->elevation.data[i]);
  }

  float range = greatest - least;
  for (int i = 0; i < count; i++) {
    float above = (float)d->elevation.data[i] - least;
    height[i] = (double)range > PB_TINY ? above / range : above;
  }
}

void pbCompile_StoreHfields(pbCompiler *c) {
  pbModel *m = c->m;
  int adr = 0;
  for (int i = 0; i < c->spec->nhfield; i++) {
    const pbHfieldWork *work = &c->hfields[i];
    if (work->id < 0) continue;

    m->hfield_nrow[work->id] = work->def->nrow;
    m->hfield_ncol[work->id] = work->def->ncol;
    m->hfield_adr[work->id] = adr;
    memcpy(m->hfield_size + 4 * (size_t)work->id, work->def->size, sizeof work->def->size);
    scale_heights(work->def, m->hfield_data + adr);
    adr += work->def->nrow * work->def->ncol;
  }
  PB_ASSERT(adr == m->nhfielddata);
}
