// Materials: their colors, and which geoms, sites and tendons wear them. No physics depends on them.
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "compile/compile.h"

static bool is_material(const pbVisualDef *def) { return !strcmp(def->element, "asset/material"); }

static int by_name(const void *a, const void *b) { return strcmp(((const pbNamed *)a)->name, ((const pbNamed *)b)->name); }

// Fails at the last of the materials with a name.
static pbStatus refuse_repeat(const pbCompiler *c, const char *name) {
  const pbVisualDef *last = NULL;
  for (int i = 0; i < c->spec->nvisual; i++) {
    if (is_material(&c->spec->visuals[i]) && !strcmp(c->spec->visuals[i].name, name)) last = &c->spec->visuals[i];
  }
  return PB_AT(c, last, "material", "another material has this name");
}

// Ids are in the order of the spec. A compiler with discardvisual stores none.
pbStatus pbCompile_CountMaterials(pbCompiler *c) {
  const pbSpec *s = c->spec;
  if (s->compiler.discardvisual) return pb_ok;
  for (int i = 0; i < s->nvisual; i++) c->m->nmat += is_material(&s->visuals[i]);

  pbNameTable *table = &c->tables[pb_refMaterial];
  table->entries = pbCompile_Take(c, (size_t)c->m->nmat, sizeof *table->entries);
  if (!table->entries) return pb_no_memory;

  // Sorted by name for look-up; equal names are then neighbors.
  for (int i = 0, id = 0; i < s->nvisual; i++) {
    if (!is_material(&s->visuals[i])) continue;
    table->entries[table->count++] = (pbNamed){s->visuals[i].name, id++};
  }
  qsort(table->entries, (size_t)table->count, sizeof *table->entries, by_name);

  for (int i = 1; i < table->count; i++) {
    const char *name = table->entries[i].name;
    if (*name && !strcmp(name, table->entries[i - 1].name)) return refuse_repeat(c, name);
  }
  return pb_ok;
}

// Id of a material by name, -1 where none is named.
static pbStatus resolve_material(const pbCompiler *c, const char *material, const pbPlace *place, const char *element,
                                 const char *name, int *id) {
  *id = -1;
  if (!*material || c->spec->compiler.discardvisual) return pb_ok;
  return pbCompile_Resolve(c, pb_refMaterial, material, place, element, name, id);
}

pbStatus pbCompile_Materials(pbCompiler *c) {
  const pbSpec *s = c->spec;
  pbModel *m = c->m;
  int id = 0;
  int material;

  for (int i = 0; i < s->nvisual && id < m->nmat; i++) {
    if (is_material(&s->visuals[i])) memcpy(m->mat_rgba + 4 * (size_t)id++, s->visuals[i].rgba, 4 * sizeof(double));
  }

  for (int i = 0; i < s->ngeom; i++) {
    const pbGeomDef *d = &s->geoms[i];
    PB_TRY(resolve_material(c, d->material, &d->place, "geom", d->name, &material));
    if (c->geoms[i].id >= 0) m->geom_matid[c->geoms[i].id] = material;  // not discarded
  }

  for (int i = 0; i < s->nsite; i++) {
    const pbSiteDef *d = &s->sites[i];
    PB_TRY(resolve_material(c, d->material, &d->place, "site", d->name, &material));
    if (c->sites[i].id >= 0) m->site_matid[c->sites[i].id] = material;
  }

  for (int i = 0; i < s->ntendon; i++) {
    const pbTendonDef *d = &s->tendons[i];
    PB_TRY(resolve_material(c, d->material, &d->place, "tendon", d->name, &m->tendon_matid[i]));
  }
  return pb_ok;
}
