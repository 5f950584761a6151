// Materials: their colors, and which geoms, sites and tendons wear them. No physics depends on them.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
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

// Of every material the colors of its texture's cells; 1 where it has none, or one from a file.
static pbStatus put_cells(pbCompiler *c) {
  const pbSpec *s = c->spec;
  int textures = 0, id = 0;
  pbNamed *named = pbCompile_Take(c, (size_t)s->nvisual, sizeof *named);
  if (!named) return pb_no_memory;

  // Sorted by name; of two with one name any is as good.
  for (int i = 0; i < s->nvisual; i++) {
    if (!strcmp(s->visuals[i].element, "asset/texture")) named[textures++] = (pbNamed){s->visuals[i].name, i};
  }
  qsort(named, (size_t)textures, sizeof *named, by_name);

  for (int i = 0; i < s->nvisual && id < c->m->nmat; i++) {
    const pbVisualDef *def = &s->visuals[i];
    if (!is_material(def)) continue;

    const pbNamed wanted = {def->texture, 0}, *found = bsearch(&wanted, named, (size_t)textures, sizeof *named, by_name);
    const double *cells = *def->texture && found ? s->visuals[found->index].cells : def->cells;
    memcpy(c->m->mat_cells + 6 * (size_t)id++, cells, 6 * sizeof *cells);
  }
  return pb_ok;
}

pbStatus pbCompile_Materials(pbCompiler *c) {
  const pbSpec *s = c->spec;
  pbModel *m = c->m;
  int id = 0;
  int material;

  for (int i = 0; i < s->nvisual && id < m->nmat; i++) {
    if (is_material(&s->visuals[i])) memcpy(m->mat_rgba + 4 * (size_t)id++, s->visuals[i].rgba, 4 * sizeof(double));
  }

  PB_TRY(put_cells(c));

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
