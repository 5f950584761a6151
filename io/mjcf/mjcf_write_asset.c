// Assets of an MJCF file that is written: meshes and height fields by their files, or whole where there are none; pictures,
// colors and what else is only seen, as it was read.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <pullback/mesh.h>

#include "base/assert.h"
#include "base/text.h"
#include "io/mjcf/mjcf_write.h"

// ---- files --------------------------------------------------------------------------------------------------------------
// A whole name as it is seen from the new file's folder.
static void put_file(pbMjcfWriter *w, const char *attribute, const char *file) {
  char text[PATH_MAX + 400] = "";
  const char *folder = w->folder;
  size_t same = 0, used = 0;

  if (!folder || *file != '/') {
    pbMjcf_PutText(w, attribute, file);
    return;
  }

  // Folders that both have from the root on; up from the others.
  for (size_t i = 0; file[i]; i++) {
    bool ends = folder[i] == '/' || !folder[i];
    if (ends && file[i] == '/') same = i;
    if (folder[i] != file[i]) break;
  }

  for (const char *rest = folder + same; *rest; rest += 1 + strcspn(rest + 1, "/")) {
    if (rest[1] && used + 4 < sizeof text) used += (size_t)snprintf(text + used, sizeof text - used, "../");
  }

  snprintf(text + used, sizeof text - used, "%s", file + same + 1);
  pbMjcf_PutText(w, attribute, text);
}

static bool is_there(const char *file) { return *file == '/' && access(file, R_OK) == 0; }

static bool ends_in(const char *file, const char *ending) {
  size_t length = strlen(file), size = strlen(ending);
  return length > size && !strcasecmp(file + length - size, ending);
}

// A file that MuJoCo reads, too.
static bool is_named(const char *file, const char *content_type) {
  bool known = *content_type || ends_in(file, ".stl") || ends_in(file, ".obj") || ends_in(file, ".msh");
  return known && is_there(file);
}

// ---- what is only seen --------------------------------------------------------------------------------------------------
static bool has_key(const pbVisualDef *def, const char *key) {
  for (int i = 0; i < def->count; i++) {
    if (!strcmp(def->keys[i], key)) return true;
  }

  return false;
}

// Settings of pictures stand once in a file, by whatever included files they came: the last one counts.
static bool is_setting(const pbVisualDef *def) { return !strncmp(def->element, "visual/", 7); }

static bool is_said_before(const pbSpec *s, const pbVisualDef *def) {
  for (const pbVisualDef *other = s->visuals; other < def && is_setting(def); other++) {
    if (!strcmp(other->element, def->element)) return true;
  }

  return false;
}

static bool is_said_again(const pbSpec *s, const pbVisualDef *def, const char *key) {
  if (!is_setting(def)) return false;
  for (const pbVisualDef *other = def + 1; other < s->visuals + s->nvisual; other++) {
    if (!strcmp(other->element, def->element) && has_key(other, key)) return true;
  }

  return false;
}

static void put_keys(pbMjcfWriter *w, const pbVisualDef *def) {
  bool colored = has_key(def, "rgba");

  for (int i = 0; i < def->count; i++) {
    const char *key = def->keys[i];
    if (!strcmp(key, "class") || is_said_again(w->spec, def, key)) continue;

    // Pictures lie where they are.
    if (!strncmp(key, "file", 4)) put_file(w, key, def->values[i]);
    else pbMjcf_PutText(w, key, def->values[i]);
  }

  // The color may be that of its class.
  const double *c = def->rgba;
  bool white = c[0] == 1 && c[1] == 1 && c[2] == 1 && c[3] == 1;
  if (!colored && !strcmp(def->element, "asset/material") && !white) pbMjcf_PutReals(w, "rgba", def->rgba, 4);
}

static bool is_inside(const pbSpec *s, int around) {
  for (int i = around + 1; i < s->nvisual; i++) {
    if (s->visuals[i].parent == around) return true;
  }

  return false;
}

// An element and what is in it: those stand behind it.
static void write_visual(pbMjcfWriter *w, int i) {
  const pbSpec *s = w->spec;
  const char *name = strrchr(s->visuals[i].element, '/');

  name = name ? name + 1 : s->visuals[i].element;
  bool inside = is_inside(s, i);

  pbMjcf_OpenElement(w, name);
  put_keys(w, &s->visuals[i]);

  // Of settings all that is said of them, wherever.
  for (int k = i + 1; k < s->nvisual && is_setting(&s->visuals[i]); k++) {
    if (!strcmp(s->visuals[k].element, s->visuals[i].element)) put_keys(w, &s->visuals[k]);
  }

  pbMjcf_EndAttributes(w, inside);
  if (!inside) return;

  for (int k = i + 1; k < s->nvisual; k++) {
    if (s->visuals[k].parent == i) write_visual(w, k);
  }

  pbMjcf_CloseElement(w, name);
}

// Meshes and fields are written from what was read of them.
static bool is_of(const pbVisualDef *def, const char *section) {
  size_t length = strlen(section);

  // Elements inside of others come with these.
  bool read = !strcmp(def->element, "asset/mesh") || !strcmp(def->element, "asset/hfield");
  return def->parent < 0 && !read && !strncmp(def->element, section, length) && def->element[length] == '/';
}

static void write_visuals(pbMjcfWriter *w, const char *section) {
  for (int i = 0; i < w->spec->nvisual; i++) {
    const pbVisualDef *def = &w->spec->visuals[i];
    if (is_of(def, section) && !is_said_before(w->spec, def)) write_visual(w, i);
  }
}

void pbMjcf_WriteVisuals(pbMjcfWriter *w, const char *section) {
  bool any = false;

  for (int i = 0; i < w->spec->nvisual; i++) any |= is_of(&w->spec->visuals[i], section);
  if (!any) return;

  pbMjcf_OpenElement(w, section);
  pbMjcf_EndAttributes(w, true);
  write_visuals(w, section);
  pbMjcf_CloseElement(w, section);
}

// ---- meshes and height fields -------------------------------------------------------------------------------------------
static const pbVisualDef *as_read(const pbSpec *s, const char *name) {
  for (int i = 0; i < s->nvisual; i++) {
    if (!strcmp(s->visuals[i].element, "asset/mesh") && !strcmp(s->visuals[i].name, name)) return &s->visuals[i];
  }

  return NULL;
}

enum { MOST_NUMBERS = 1000000 };  // of meshes that are only seen: a text beyond 32 MiB is not read

static void put_faces(pbMjcfWriter *w, const int *face, int count) {
  if (!count) return;
  fputs(" face=\"", w->out);

  for (int i = 0; i < count; i++) fprintf(w->out, "%s%d", i ? " " : "", face[i]);
  fputc('"', w->out);
}

// Points in single precision, as MuJoCo keeps them.
static void put_shape(pbMjcfWriter *w, const double *point, int points, const int *face, int faces) {
  char text[40];
  w->numbers += (double)points + faces;

  fputs(" vertex=\"", w->out);
  for (int i = 0; i < points; i++) fprintf(w->out, "%s%s", i ? " " : "", pbText_PutShortest(text, sizeof text, (float)point[i]));
  fputc('"', w->out);
  put_faces(w, face, faces);
}

// Of a file that MuJoCo does not read and nobody has read so far, since nothing that moves asks for it.
static bool put_unread(pbMjcfWriter *w, const char *file) {
  pbMesh *mesh = NULL;
  if (!is_there(file) || w->numbers > MOST_NUMBERS || pbMesh_LoadShape(w->spec->ctx, file, "", &mesh) != pb_ok) return false;

  // Not more than whoever reads it has room for.
  const pbCells *triangles = &mesh->cells[pb_cellTriangle];
  int points = 3 * mesh->points, faces = 3 * triangles->count;
  bool fits = w->numbers + points + faces <= MOST_NUMBERS;
  if (fits) put_shape(w, mesh->point, points, triangles->vertex, faces);
  pbMesh_Destroy(mesh);
  return fits;
}

static void write_mesh(pbMjcfWriter *w, const pbMeshDef *def) {
  pbMeshDef none = pbMeshDef_Default();
  bool named = is_named(def->file, def->content_type), whole = !named && def->vertex.count;
  const pbVisualDef *read = named || whole || *def->file ? NULL : as_read(w->spec, def->name);

  // By its file, whole, by rules of MuJoCo's own, or what there is of it.
  pbMjcf_OpenElement(w, "mesh");
  if (read) {
    put_keys(w, read);
  } else {
    pbMjcf_PutRows(w, "asset/mesh", def, &none, named ? " vertex file " : " vertex file content_type ");
    if (named) put_file(w, "file", def->file);
    else if (whole) put_shape(w, def->vertex.data, def->vertex.count, def->face.data, def->face.count);
    else if (!put_unread(w, def->file)) {
      if (*def->file) put_file(w, "file", def->file);
      fprintf(w->unsaid, "mesh '%s', which is only seen: its file %s\n", def->name, def->file);
    }
  }

  pbMjcf_EndAttributes(w, false);
}

// Text has the uppermost row first.
static void put_elevation(pbMjcfWriter *w, const pbHfieldDef *def) {
  char text[40];

  fputs(" elevation=\"", w->out);
  PB_ASSERT(def->elevation.count == def->nrow * def->ncol);

  for (int r = def->nrow - 1; r >= 0; r--) {
    const double *row = def->elevation.data + (size_t)r * (size_t)def->ncol;
    for (int k = 0; k < def->ncol; k++)
      fprintf(w->out, "%s%s", r < def->nrow - 1 || k ? " " : "", pbText_PutShortest(text, sizeof text, row[k]));
  }

  fputc('"', w->out);
}

static void write_hfield(pbMjcfWriter *w, const pbHfieldDef *def) {
  pbHfieldDef none = pbHfieldDef_Default();
  bool whole = !is_there(def->file) && def->nrow > 0;

  // Counts and heights of a file are the file's.
  pbMjcf_OpenElement(w, "hfield");
  pbMjcf_PutRows(w, "asset/hfield", def, &none, whole ? " file content_type elevation " : " file nrow ncol elevation ");
  if (whole && def->elevation.count) put_elevation(w, def);
  if (!whole && *def->file) put_file(w, "file", def->file);
  if (!whole && *def->file && !is_there(def->file))
    fprintf(w->unsaid, "height field '%s': its file %s cannot be read\n", def->name, def->file);
  pbMjcf_EndAttributes(w, false);
}

void pbMjcf_WriteAssets(pbMjcfWriter *w) {
  const pbSpec *s = w->spec;
  bool any = s->nmesh || s->nhfield;

  // A section without anything would be no mistake, and no use.
  for (int i = 0; i < s->nvisual; i++) any |= is_of(&s->visuals[i], "asset");
  if (!any) return;

  pbMjcf_OpenElement(w, "asset");
  pbMjcf_EndAttributes(w, true);
  // What others name first.
  write_visuals(w, "asset");
  for (int i = 0; i < s->nmesh; i++) write_mesh(w, &s->meshes[i]);
  for (int i = 0; i < s->nhfield; i++) write_hfield(w, &s->hfields[i]);
  pbMjcf_CloseElement(w, "asset");
}
