// Names: sorted tables for look-up, refusal of names given twice, names of the compiled model.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "compile/compile.h"

static int by_name(const void *a, const void *b) { return strcmp(((const pbNamed *)a)->name, ((const pbNamed *)b)->name); }

typedef struct pbHead {  // what every element begins with
  PB_ELEMENT
} pbHead;

static pbHead head_at(const void *first, size_t stride, int i) {
  pbHead head;
  memcpy(&head, (const char *)first + stride * (size_t)i, sizeof head);
  return head;
}

static pbStatus refuse_repeat(pbCompiler *c, const char *kind, const pbPlace *place, const char *name) {
  return pbSpec_Fail(c->spec, pb_bad_input, place, kind, name, "another %s has this name", kind);
}

// Sorted table of the names of one array of the spec. The world goes by its name in MuJoCo, whatever the spec says.
static pbStatus make_table(pbCompiler *c, pbNameTable *table, const char *kind, const void *first, size_t stride, int count) {
  table->entries = pbCompile_Take(c, (size_t)count, sizeof *table->entries);
  if (!table->entries) return pb_no_memory;

  for (int i = 0; i < count; i++) {
    const char *name = head_at(first, stride, i).name;
    if (i == 0 && !strcmp(kind, "body")) name = "world";
    if (name && *name) table->entries[table->count++] = (pbNamed){name, i};
  }

  // Equal names are neighbors after sorting; the later element of the spec is at fault.
  qsort(table->entries, (size_t)table->count, sizeof *table->entries, by_name);
  for (int i = 1; i < table->count; i++) {
    if (strcmp(table->entries[i - 1].name, table->entries[i].name)) continue;
    int one = table->entries[i - 1].index;
    int other = table->entries[i].index;
    int index = other > one ? other : one;
    pbHead head = head_at(first, stride, index);
    return refuse_repeat(c, kind, &head.place, head.name);
  }
  return pb_ok;
}

// X(kind of reference, word, array, count)
// clang-format off
#define NAME_KINDS(X)                                  \
  X(pb_refBody, "body", bodies, nbody)                 \
  X(pb_refJoint, "joint", joints, njoint)              \
  X(pb_refGeom, "geom", geoms, ngeom)                  \
  X(pb_refSite, "site", sites, nsite)                  \
  X(pb_refCamera, "camera", cameras, ncamera)          \
  X(pb_refLight, "light", lights, nlight)              \
  X(pb_refPair, "pair", pairs, npair)                  \
  X(pb_refExclude, "exclude", excludes, nexclude)      \
  X(pb_refEquality, "equality", equalities, nequality) \
  X(pb_refTendon, "tendon", tendons, ntendon)          \
  X(pb_refActuator, "actuator", actuators, nactuator)  \
  X(pb_refSensor, "sensor", sensors, nsensor)          \
  X(pb_refNumeric, "numeric", numerics, nnumeric)      \
  X(pb_refText, "text", texts, ntext)                  \
  X(pb_refTuple, "tuple", tuples, ntuple)              \
  X(pb_refKey, "key", keys, nkey)                      \
  X(pb_refMesh, "mesh", meshes, nmesh)                 \
  X(pb_refHfield, "hfield", hfields, nhfield)          \
  X(0, "frame", frames, nframe)
// clang-format on

pbStatus pbCompile_Names(pbCompiler *c) {
  const pbSpec *s = c->spec;
#define X(ref, word, array, count) PB_TRY(make_table(c, &c->tables[ref], word, s->array, sizeof *s->array, s->count));
  NAME_KINDS(X)
#undef X

  // In MuJoCo, "xbody" is a body by its frame, "body" by its inertial frame: the names are the same.
  c->tables[pb_refXbody] = c->tables[pb_refBody];
  return pb_ok;
}

int pbCompile_Find(const pbCompiler *c, int ref_kind, const char *name) {
  if (!name || !*name || ref_kind <= 0 || ref_kind >= PB_NAME_KINDS) return -1;

  const pbNameTable *table = &c->tables[ref_kind];
  const pbNamed key = {name, 0};
  const pbNamed *found = table->count ? bsearch(&key, table->entries, (size_t)table->count, sizeof key, by_name) : NULL;
  return found ? found->index : -1;
}

static const char *kind_word(int ref_kind) {
  if (ref_kind == pb_refXbody) return "body";
  if (ref_kind == pb_refMaterial) return "material";
#define X(ref, word, array, count) \
  if (ref_kind == ref) return word;
  NAME_KINDS(X)
#undef X
  return "thing";
}

pbStatus pbCompile_Resolve(const pbCompiler *c, int ref_kind, const char *name, const pbPlace *place, const char *element,
                           const char *element_name, int *index) {
  const char *kind = kind_word(ref_kind);
  if (!name || !*name)
    return pbSpec_Fail(c->spec, pb_bad_input, place, element, element_name, "the name of a %s is missing", kind);

  *index = pbCompile_Find(c, ref_kind, name);
  if (*index >= 0) return pb_ok;

  pbSuggest near = pbSuggest_For(name);
  char hint[256];
  if (ref_kind > 0 && ref_kind < PB_NAME_KINDS) {
    const pbNameTable *table = &c->tables[ref_kind];
    for (int i = 0; i < table->count; i++) pbSuggest_Offer(&near, table->entries[i].name);
  }

  return pbSpec_Fail(c->spec, pb_bad_input, place, element, element_name, "unknown %s '%.200s' in %s%s", kind, name, element,
                     pbSuggest_Write(&near, hint, sizeof hint));
}

int pbCompile_Id(const pbCompiler *c, int ref_kind, int index) {
  switch (ref_kind) {
    case pb_refBody:
    case pb_refXbody: return c->bodies[index].id;
    case pb_refJoint: return c->joints[index].id;
    case pb_refGeom: return c->geoms[index].id;
    case pb_refSite: return c->sites[index].id;
    case pb_refCamera: return c->cameras[index].id;
    case pb_refLight: return c->lights[index].id;
    default: return index;
  }
}

// ---- names of the model -------------------------------------------------------------------------------------------
// A copy, for the model outlives the spec. Elements that are not in the model have the id -1.
static pbStatus store_name(pbCompiler *c, pbObject kind, int id, const char *name) {
  if (id < 0) return pb_ok;

  char *copy = pbContext_CopyText(c->ctx, name ? name : "");
  if (!copy) return pbContext_Fail(c->ctx, pb_no_memory, "out of memory for names");
  PB_ASSERT(id < c->m->names_count[kind] && !c->m->names[kind][id]);  // each has one name
  c->m->names[kind][id] = copy;
  return pb_ok;
}

pbStatus pbCompile_StoreNames(pbCompiler *c) {
  const pbSpec *s = c->spec;

  // What stands in the tree has ids of its own.
  for (int i = 0; i < s->nbody; i++) PB_TRY(store_name(c, pb_objBody, c->bodies[i].id, i ? s->bodies[i].name : "world"));
#define NAMES(kind, work, count) \
  for (int i = 0; i < (count); i++) PB_TRY(store_name(c, kind, c->work[i].id, c->work[i].def->name))
  NAMES(pb_objJoint, joints, s->njoint);
  NAMES(pb_objGeom, geoms, s->ngeom);
  NAMES(pb_objSite, sites, s->nsite);
  NAMES(pb_objCamera, cameras, s->ncamera);
  NAMES(pb_objLight, lights, s->nlight);
  NAMES(pb_objMesh, meshes, s->nmesh);
  for (int i = 0; i < s->nhfield; i++) PB_TRY(store_name(c, pb_objHfield, c->hfields[i].id, s->hfields[i].name));
#undef NAMES

  // Pairs and excludes are sorted; the rest keeps the order of the spec.
  for (int i = 0; i < s->npair; i++) PB_TRY(store_name(c, pb_objPair, i, c->pairs[i].def->name));
  for (int i = 0; i < s->nexclude; i++) PB_TRY(store_name(c, pb_objExclude, i, c->excludes[i].def->name));
#define NAMES(kind, array, count) \
  for (int i = 0; i < s->count; i++) PB_TRY(store_name(c, kind, i, s->array[i].name))
  NAMES(pb_objEquality, equalities, nequality);
  NAMES(pb_objTendon, tendons, ntendon);
  NAMES(pb_objActuator, actuators, nactuator);
  NAMES(pb_objSensor, sensors, nsensor);
  NAMES(pb_objKeyframe, keys, nkey);
  NAMES(pb_objNumeric, numerics, nnumeric);
  NAMES(pb_objText, texts, ntext);
  NAMES(pb_objTuple, tuples, ntuple);
#undef NAMES

  c->m->model_name = pbContext_CopyText(c->ctx, s->model_name ? s->model_name : "");
  return c->m->model_name ? pb_ok : pbContext_Fail(c->ctx, pb_no_memory, "out of memory for names");
}
