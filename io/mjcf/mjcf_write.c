// A spec as MJCF: settings and the tree; assets and what is beside the tree are files of their own.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <string.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_write.h"

// ---- settings -----------------------------------------------------------------------------------------------------------
static void write_option(pbMjcfWriter *w, const pbOptionSettings *o, const pbOptionSettings *none) {
  double group[31];
  int groups = 0;
  bool flags = pbMjcf_HasRows(w, "option/flag", o, none);

  // Groups are the bits of a mask.
  for (int i = 0; i < 31; i++) {
    if (o->disableactuator & 1 << i) group[groups++] = i;
  }
  if (!groups && !flags && !pbMjcf_HasRows(w, "option", o, none)) return;

  pbMjcf_OpenElement(w, "option");
  pbMjcf_PutRows(w, "option", o, none, NULL);
  if (groups) pbMjcf_PutReals(w, "actuatorgroupdisable", group, groups);
  pbMjcf_EndAttributes(w, flags);
  if (!flags) return;

  pbMjcf_OpenElement(w, "flag");
  pbMjcf_PutRows(w, "option/flag", o, none, NULL);
  pbMjcf_EndAttributes(w, false);
  pbMjcf_CloseElement(w, "option");
}

// Nothing of what is as it would be without.
static void write_record(pbMjcfWriter *w, const char *name, const void *record, const void *none) {
  if (!pbMjcf_HasRows(w, name, record, none)) return;

  pbMjcf_OpenElement(w, name);
  pbMjcf_PutRows(w, name, record, none, NULL);
  pbMjcf_EndAttributes(w, false);
}

static void write_settings(pbMjcfWriter *w, const pbSpec *none) {
  const pbSpec *s = w->spec;

  // The unit of angles is said always: files without a word of it are in degrees.
  pbMjcf_OpenElement(w, "compiler");
  pbMjcf_PutText(w, "angle", s->compiler.degree ? "degree" : "radian");
  pbMjcf_PutRows(w, "compiler", &s->compiler, &none->compiler, NULL);
  pbMjcf_EndAttributes(w, false);

  write_option(w, &s->option, &none->option);
  write_record(w, "size", &s->size, &none->size);
  write_record(w, "statistic", &s->statistic, &none->statistic);
}

// ---- the tree -----------------------------------------------------------------------------------------------------------
typedef struct cursor {  // the next of each list
  int joint, geom, site, camera, light;
} cursor;

// All of a list that stand in a body; more: what is not written by the schema.
#define WRITE_EACH(Kind, list, count, next, word, more)           \
  for (; next < s->count && s->list[next].body == body; next++) { \
    const pb##Kind##Def *item = &s->list[next];                   \
    pb##Kind##Def plain = pb##Kind##Def_Default();                \
    pbMjcf_OpenElement(w, word);                                  \
    pbMjcf_PutRows(w, "body/" word, item, &plain, NULL);          \
    more;                                                         \
    pbMjcf_EndAttributes(w, false);                               \
  }

static void put_fluid(pbMjcfWriter *w, const pbGeomDef *def) {
  if (def->fluid_ellipsoid) pbMjcf_PutText(w, "fluidshape", "ellipsoid");
}

static void write_inside(pbMjcfWriter *w, int body, cursor *at) {
  const pbSpec *s = w->spec;
  const pbBodyDef *def = &s->bodies[body], none = pbBodyDef_Default();

  PB_ASSERT(body >= 0 && body < s->nbody);

  // The world weighs nothing.
  if (body && def->has_inertial) {
    pbMjcf_OpenElement(w, "inertial");
    pbMjcf_PutRows(w, "body/inertial", def, &none, NULL);
    pbMjcf_EndAttributes(w, false);
  }

  WRITE_EACH(Joint, joints, njoint, at->joint, "joint", (void)0)
  WRITE_EACH(Geom, geoms, ngeom, at->geom, "geom", put_fluid(w, item))
  WRITE_EACH(Site, sites, nsite, at->site, "site", (void)0)
  WRITE_EACH(Camera, cameras, ncamera, at->camera, "camera", (void)0)
  WRITE_EACH(Light, lights, nlight, at->light, "light", (void)0)
}

static void open_body(pbMjcfWriter *w, int body) {
  const pbBodyDef *def = &w->spec->bodies[body], none = pbBodyDef_Default();

  pbMjcf_OpenElement(w, body ? "body" : "worldbody");

  if (body) pbMjcf_PutRows(w, "body", def, &none, NULL);
  if (body && !def->simple) pbMjcf_PutText(w, "simple", "false");
  pbMjcf_EndAttributes(w, true);
}

static void write_tree(pbMjcfWriter *w) {
  const pbSpec *s = w->spec;
  cursor at = {0};

  open_body(w, 0);
  write_inside(w, 0, &at);

  // Depth first: those that are open are a body and what is around it.
  int open = 0;
  for (int i = 1; i < s->nbody; i++) {
    PB_ASSERT(s->bodies[i].parent < i);
    for (; open != s->bodies[i].parent; open = s->bodies[open].parent) pbMjcf_CloseElement(w, "body");
    open_body(w, i);
    write_inside(w, i, &at);
    open = i;
  }

  for (; open; open = s->bodies[open].parent) pbMjcf_CloseElement(w, "body");
  pbMjcf_CloseElement(w, "worldbody");
}

// ---- the file -----------------------------------------------------------------------------------------------------------
pbStatus pbMjcf_Write(pbMjcfWriter *w) {
  pbSpec *none;

  PB_TRY(pbSpec_Create(w->spec->ctx, &none));
  w->rows = pbMjcf_Table(&w->row_count);

  // In the order in which people write it.
  pbMjcf_OpenElement(w, "mujoco");
  if (strcmp(w->spec->model_name, none->model_name) != 0) pbMjcf_PutText(w, "model", w->spec->model_name);
  pbMjcf_EndAttributes(w, true);
  write_settings(w, none);
  pbMjcf_WriteVisuals(w, "visual");
  pbMjcf_WriteAssets(w);

  write_tree(w);
  pbMjcf_WriteVisuals(w, "deformable");

  pbMjcf_WriteContacts(w);
  pbMjcf_WriteEqualities(w);
  pbMjcf_WriteTendons(w);
  pbMjcf_WriteActuators(w);
  pbMjcf_WriteSensors(w);
  pbMjcf_WriteKeys(w);
  pbMjcf_WriteCustom(w);

  pbMjcf_CloseElement(w, "mujoco");
  pbSpec_Destroy(none);
  return pb_ok;
}
