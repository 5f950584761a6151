// Height fields: the element, and the files of those on which something that moves depends. Rows of files and of text come from
// above, those of a spec from below; MuJoCo's binary files have them from below.
// Tests: tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/spec_pool.h"
#include "io/file.h"
#include "io/image/png.h"
#include "io/mjcf/mjcf_reader.h"

enum { FILE_LIMIT = (128 << 20) + 8 };  // bytes: 2^25 numbers and two counts

// ---- the element --------------------------------------------------------------------------------------------------------

// Text has the uppermost row first. Single precision is what MuJoCo keeps.
static pbStatus turn_rows(pbMjcfReader *reader, const pbXmlNode *node, pbHfieldDef *def) {
  if (!def->elevation.count) return pb_ok;
  if (def->nrow < 1 || def->ncol < 1 || (double)def->nrow * def->ncol != def->elevation.count)
    return FAIL(node, "attribute 'elevation' has %d numbers, expected nrow x ncol", def->elevation.count);

  const double *from = def->elevation.data;
  double *turned = pbSpecPool_Take(reader->spec->pool, (size_t)def->elevation.count, sizeof *turned);
  if (!turned) return NO_MEMORY(node);

  for (int r = 0; r < def->nrow; r++) {
    const double *row = from + (size_t)(def->nrow - 1 - r) * (size_t)def->ncol;
    for (int k = 0; k < def->ncol; k++) turned[(size_t)r * (size_t)def->ncol + (size_t)k] = (float)row[k];
  }
  def->elevation.data = turned;
  return pb_ok;
}

pbStatus pbMjcf_Hfield(pbMjcfReader *reader, const pbXmlNode *node) {
  pbHfieldDef def = pbHfieldDef_Default();
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  PB_TRY(turn_rows(reader, node, &def));

  if (!*def.name && *def.file) {
    def.name = pbMjcf_NameByFile(reader, def.file);
    if (!def.name || !pbMjcf_AssetName(reader, node, &def.name)) return NO_MEMORY(node);
  }
  return pbSpec_AddHfield(reader->spec, &def) < 0 ? NO_MEMORY(node) : pb_ok;
}

// ---- files --------------------------------------------------------------------------------------------------------------

// By the media type, where it is stated, else by the name.
static pbStatus is_picture(pbMjcfReader *reader, const pbXmlNode *node, const pbHfieldDef *def, bool *png) {
  const char *dot = strrchr(def->file, '.');
  *png = dot && !strcmp(dot, ".png");
  if (!*def->content_type) return pb_ok;

  *png = !strcmp(def->content_type, "image/png");
  if (*png || !strcmp(def->content_type, "image/vnd.mujoco.hfield")) return pb_ok;
  return REFUSE(node, "attribute 'content_type' is \"%.60s\", expected image/png or image/vnd.mujoco.hfield", def->content_type);
}

static void raise_picture(const pbGray *gray, double *elevation) {
  size_t width = (size_t)gray->width, height = (size_t)gray->height;
  for (size_t r = 0; r < height; r++) {
    const unsigned char *row = gray->pixel + (height - 1 - r) * width;
    for (size_t k = 0; k < width; k++) elevation[r * width + k] = row[k];
  }
}

static pbStatus take_picture(pbMjcfReader *reader, const pbXmlNode *node, const char *path, pbHfieldDef *def) {
  pbGray gray;
  PB_TRY(pbGray_LoadPng(reader->ctx, path, &gray));

  size_t width = (size_t)gray.width, height = (size_t)gray.height;
  double *elevation = pbSpecPool_Take(reader->spec->pool, width * height, sizeof *elevation);
  if (elevation) raise_picture(&gray, elevation);
  pbContext_Free(reader->ctx, gray.pixel);
  if (!elevation) return NO_MEMORY(node);

  def->nrow = gray.height;
  def->ncol = gray.width;
  def->elevation = (pbReals){elevation, def->nrow * def->ncol};
  return pb_ok;
}

static void widen(const char *bytes, size_t numbers, double *out) {
  float height;
  for (size_t i = 0; i < numbers; i++) {
    memcpy(&height, bytes + i * sizeof height, sizeof height);
    out[i] = height;
  }
}

// Two counts, then numbers in single precision.
static pbStatus take_binary(pbMjcfReader *reader, const pbXmlNode *node, const char *path, pbHfieldDef *def) {
  char *bytes;
  size_t size;
  int counts[2] = {0, 0};
  PB_TRY(pbFile_ReadAll(reader->ctx, path, FILE_LIMIT, &bytes, &size));

  if (size >= sizeof counts) memcpy(counts, bytes, sizeof counts);
  bool fits = counts[0] > 0 && counts[1] > 0 && (double)counts[0] * counts[1] * sizeof(float) + sizeof counts == (double)size;
  size_t numbers = fits ? (size_t)counts[0] * (size_t)counts[1] : 0;

  double *elevation = fits ? pbSpecPool_Take(reader->spec->pool, numbers, sizeof *elevation) : NULL;
  if (elevation) widen(bytes + sizeof counts, numbers, elevation);
  pbContext_Free(reader->ctx, bytes);
  if (!fits)
    return pbContext_Fail(reader->ctx, pb_bad_input, "%s: %d rows and %d columns do not go with its %zu bytes", path, counts[0],
                          counts[1], size);
  if (!elevation) return NO_MEMORY(node);

  def->nrow = counts[0];
  def->ncol = counts[1];
  def->elevation = (pbReals){elevation, (int)numbers};
  return pb_ok;
}

static pbStatus load_file(pbMjcfReader *reader, const pbXmlNode *node, pbHfieldDef *def) {
  char text[600];
  char *real;
  bool png;
  if (def->nrow || def->ncol || def->elevation.count)
    return FAIL(node, "both 'file' and 'nrow', 'ncol', 'elevation' give heights");

  PB_TRY(is_picture(reader, node, def, &png));
  PB_TRY(pbMjcf_FindAsset(reader, node, def->file, &real));

  pbStatus status = png ? take_picture(reader, node, real, def) : take_binary(reader, node, real, def);
  if (status == pb_ok) return pb_ok;

  // With the place where it is named.
  snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
  return pbXml_Fail(&reader->document, status, node, "%s", text);
}

// What geoms that act name; the others are not looked at.
pbStatus pbMjcf_LoadHfields(pbMjcfReader *reader) {
  pbSpec *spec = reader->spec;
  for (int i = 0; i < spec->ngeom; i++) {
    if (spec->geoms[i].type != pb_geomHfield || !(pbSpec_GeomActs(spec, i) || spec->surfaces)) continue;

    // One that is not there is found when compiling; one that is read already is not read again.
    pbHfieldDef *hfield = pbSpec_FindHfield(spec, spec->geoms[i].hfield);
    if (!hfield || !*hfield->file || hfield->elevation.count) continue;
    PB_TRY(load_file(reader, pbMjcf_AssetNode(reader, "hfield", (int)(hfield - spec->hfields)), hfield));
  }

  for (int i = 0; i < spec->nhfield; i++) {
    const pbXmlNode *node = pbMjcf_AssetNode(reader, "hfield", i);
    if (!pbMjcf_KeepPath(reader, node, false, &spec->hfields[i].file)) return NO_MEMORY(node);
  }
  return pb_ok;
}
