// The list of built-in energies, and looking things up in it.
// Tests: tests/unit/test_builtin.c.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/suggest.h"
#include "energy/builtin/builtin.h"

static const pbMaterialFile *const files[] = {
#define X(file) &pb_file_##file,
    PB_MATERIAL_FILES(X)
#undef X
};
enum { FILES = sizeof files / sizeof *files };

const char *pbMaterial_CellName(int cell) {
  if (cell == pb_cellHinge) return "hinge";
  if (cell == pb_cellBend) return "bend";
  return cell >= 0 && cell < pb_cellKindCount ? pbCellKind_Name((pbCellKind)cell) : NULL;
}

const pbMaterial *pbMaterial_At(int index) {
  for (int f = 0; f < FILES && index >= 0; f++) {
    if (index < files[f]->count) return &files[f]->material[index];
    index -= files[f]->count;
  }
  return NULL;
}

const double *pbMaterial_Start(const pbMaterial *m, int index) {
  const double *start = m->start;
  for (int i = 0; i < index; i++) start += m->def.parameters[i].rows * m->def.parameters[i].cols;
  return start;
}

static const pbMaterial *find(const char *name, int cell) {
  const pbMaterial *m, *family = NULL;
  int members = 0;
  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    if (cell >= 0 && m->cell != cell) continue;
    if (!strcmp(name, m->name)) return m;
    if (!strcmp(name, m->family)) {
      family = m;
      members++;
    }
  }
  return members == 1 ? family : NULL;
}

const pbMaterial *pbMaterial_Find(const char *name) {
  const pbMaterial *m = find(name, -1);
  return m && !strcmp(name, m->name) ? m : NULL;
}

static bool is_plastic(const char *name) { return strstr(name, "plastic") || strstr(name, "mises"); }

// "triangle, tetrahedron": where a family or a material of that name lives
static const char *homes(const char *name, char *text, size_t size) {
  const pbMaterial *m;
  size_t used = 0;
  *text = 0;
  for (int i = 0; (m = pbMaterial_At(i)) && used < size; i++) {
    if (!strcmp(name, m->family) || !strcmp(name, m->name))
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", pbMaterial_CellName(m->cell));
  }
  return text;
}

pbStatus pbMaterial_Get(pbContext *ctx, const char *name, int cell, const pbMaterial **material) {
  char text[240];
  PB_ASSERT(name && material);
  const pbMaterial *m = find(name, cell);

  if (m) {
    *material = m;
    return pb_ok;
  }

  if (is_plastic(name)) {
    return pbContext_Fail(
        ctx, pb_unsupported,
        "material '%.60s': plasticity is not supported (its state between steps has no place yet); elastic laws are "
        "linear, corotated, stvk, neo_hookean, neo_hookean_log, mooney_rivlin",
        name);
  }

  if (cell >= 0 && !pbMaterial_CellName(cell))
    return pbContext_Fail(ctx, pb_bad_argument, "there is no kind of element %d", cell);
  if (*homes(name, text, sizeof text)) {
    return cell < 0 ? pbContext_Fail(ctx, pb_bad_input, "material '%.60s' is ambiguous: defined for %s; add the element type",
                                     name, text)
                    : pbContext_Fail(ctx, pb_bad_input, "material '%.60s' is defined for %s, not for %s", name, text,
                                     pbMaterial_CellName(cell));
  }

  // Of no kind of element: names that are near.
  pbSuggest s = pbSuggest_For(name);
  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    pbSuggest_Offer(&s, m->family);
    pbSuggest_Offer(&s, m->name);
  }

  return pbContext_Fail(ctx, pb_bad_input, "unknown material '%.60s'%s", name, pbSuggest_Write(&s, text, sizeof text));
}
