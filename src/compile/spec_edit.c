// Editing a spec by kinds and numbers: looking, adding, taking out with all that depends on it, copies of what fields point at
// and of whole specs.
// Tests: tests/unit/test_spec_edit.c, tests/python/test_spec.py.
#include <pullback/edit.h>

#include <string.h>

#include <pullback/equalities.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "compile/spec_pool.h"

// ---- looking ------------------------------------------------------------------------------------------------------------

// The array of a kind and its length.
typedef struct element_list {
  void *elements;
  int *count;
  size_t size;
} element_list;

static element_list list_of(pbSpec *spec, pbSpecKind kind) {
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: return (element_list){spec->member, &spec->count, sizeof *spec->member};
    PB_SPEC_LISTS(X)
#undef X
    default: return (element_list){0};
  }
}

static void *element(element_list l, int id) {
  PB_ASSERT(id >= 0 && id < *l.count);
  return (char *)l.elements + (size_t)id * l.size;
}

static const void *elements_of(const pbSpec *spec, pbSpecKind kind) {
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: return spec->member;
    PB_SPEC_LISTS(X)
#undef X
    default: return NULL;
  }
}

int pbSpec_Count(const pbSpec *spec, pbSpecKind kind) {
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: return spec->count;
    PB_SPEC_LISTS(X)
#undef X
    default: return kind <= pb_specWhole ? 1 : 0;
  }
}

const void *pbSpec_Look(const pbSpec *spec, pbSpecKind kind, int id) {
  if (id < 0 || id >= pbSpec_Count(spec, kind)) return NULL;
  switch (kind) {
    case pb_specCompiler: return &spec->compiler;
    case pb_specOption: return &spec->option;
    case pb_specStatistic: return &spec->statistic;
    case pb_specSizes: return &spec->size;
    case pb_specWhole: return spec;
    default: return (const char *)elements_of(spec, kind) + (size_t)id * pbSpecKind_Size(kind);
  }
}

void *pbSpec_At(pbSpec *spec, pbSpecKind kind, int id) {
  if (id < 0 || id >= pbSpec_Count(spec, kind)) return NULL;
  switch (kind) {
    case pb_specCompiler: return &spec->compiler;
    case pb_specOption: return &spec->option;
    case pb_specStatistic: return &spec->statistic;
    case pb_specSizes: return &spec->size;
    case pb_specWhole: return spec;
    default: return element(list_of(spec, kind), id);
  }
}

// The opening members are those of all elements.
static const pbFrameDef *opening(const void *elements, pbSpecKind kind, int id) {
  return (const pbFrameDef *)((const char *)elements + (size_t)id * pbSpecKind_Size(kind));
}

int pbSpec_Find(const pbSpec *spec, pbSpecKind kind, const char *name) {
  const void *elements = elements_of(spec, kind);
  if (!elements || !*name) return -1;

  for (int i = 0; i < pbSpec_Count(spec, kind); i++) {
    if (!strcmp(opening(elements, kind, i)->name, name)) return i;
  }
  return -1;
}

int pbSpec_Add(pbSpec *spec, pbSpecKind kind, const void *record) {
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: return pbSpec_Add##Kind(spec, record);
    PB_SPEC_LISTS(X)
#undef X
    default: break;
  }
  (void)pbContext_Fail(spec->ctx, pb_bad_argument, "a spec has one '%s': it is changed, not added", pbSpecKind_Name(kind));
  return -1;
}

// ---- what fields point at -----------------------------------------------------------------------------------------------

static bool keep_text(pbSpec *spec, const char **text) { return (*text = pbSpec_Text(spec, *text)) != NULL; }

static bool keep_entries(pbSpec *spec, const pbTupleEntry **entries, int count) {
  pbTupleEntry *copy = pbSpecPool_Take(spec->pool, (size_t)count, sizeof *copy);
  if (!copy) return false;
  memcpy(copy, *entries, (size_t)count * sizeof *copy);

  for (int i = 0; i < count; i++) {
    if (!keep_text(spec, &copy[i].objname)) return false;
  }
  *entries = copy;
  return true;
}

// Keys, and the values that stand behind them.
static bool keep_pairs(pbSpec *spec, const char *const **lists, int count) {
  const char **texts = pbSpecPool_Take(spec->pool, 2 * (size_t)count, sizeof *texts);
  if (!texts) return false;

  for (int i = 0; i < count; i++) {
    texts[i] = pbSpec_Text(spec, lists[0][i]);
    texts[count + i] = pbSpec_Text(spec, lists[1][i]);
    if (!texts[i] || !texts[count + i]) return false;
  }
  lists[0] = texts;
  lists[1] = texts + count;
  return true;
}

bool pbSpec_Keep(pbSpec *spec, const pbSpecField *field, void *record) {
  void *member = (char *)record + field->offset;
  int count = 0;
  if (field->type >= pb_fieldPath) memcpy(&count, (char *)record + field->count_offset, sizeof count);

  switch (field->type) {
    case pb_fieldText: return keep_text(spec, member);
    case pb_fieldReals: {
      pbReals *list = member;
      int given = list->data && list->count > 0 ? list->count : 0;
      *list = pbSpec_Reals(spec, list->data, given);
      return list->count == given;
    }
    case pb_fieldInts: {
      pbInts *list = member;
      int given = list->data && list->count > 0 ? list->count : 0;
      *list = pbSpec_Ints(spec, list->data, given);
      return list->count == given;
    }
    case pb_fieldPath: {
      const pbWrap **path = member;
      return count <= 0 || (*path = pbSpec_Wraps(spec, *path, count)) != NULL;
    }
    case pb_fieldEntries: return count <= 0 || keep_entries(spec, member, count);
    case pb_fieldPairs: return count <= 0 || keep_pairs(spec, member, count);
    default: return true;
  }
}

bool pbSpec_KeepAll(pbSpec *spec, pbSpecKind kind, void *record) {
  pbSpecField field;
  for (int i = 0; pbSpecKind_Field(kind, i, &field); i++) {
    if (!pbSpec_Keep(spec, &field, record)) return false;
  }
  return true;
}

// ---- taking out ---------------------------------------------------------------------------------------------------------

// Members of a record that are numbers of other elements.
enum { most_references = 3 };
typedef struct reference_list {
  pbSpecField field[most_references];
  int count;
} reference_list;

static reference_list references_of(pbSpecKind kind) {
  reference_list found = {.count = 0};
  pbSpecField field;
  for (int i = 0; pbSpecKind_Field(kind, i, &field); i++) {
    if (field.refers < 0) continue;
    PB_ASSERT(found.count < most_references);
    found.field[found.count++] = field;
  }
  return found;
}

// Of each element its number afterwards, -1: gone.
typedef struct removal {
  pbSpec *spec;
  int *number[pb_specElements];
  int first[pb_specElements], last[pb_specElements];  // that go, so that names are looked up among few; none: first > last
  bool more;                                          // an element was found that goes, too
} removal;

static void mark(removal *r, int kind, int id) {
  PB_ASSERT(r->number[kind][id] >= 0);
  r->number[kind][id] = -1;
  r->more = true;

  if (id < r->first[kind]) r->first[kind] = id;
  if (id > r->last[kind]) r->last[kind] = id;
}

static int kind_of_reference(int ref) {
  static const int kinds[] = {
      [pb_refBody] = pb_specBody,       [pb_refXbody] = pb_specBody,        [pb_refJoint] = pb_specJoint,
      [pb_refGeom] = pb_specGeom,       [pb_refSite] = pb_specSite,         [pb_refCamera] = pb_specCamera,
      [pb_refLight] = pb_specLight,     [pb_refMesh] = pb_specMesh,         [pb_refHfield] = pb_specHfield,
      [pb_refPair] = pb_specPair,       [pb_refExclude] = pb_specExclude,   [pb_refEquality] = pb_specEquality,
      [pb_refTendon] = pb_specTendon,   [pb_refActuator] = pb_specActuator, [pb_refSensor] = pb_specSensor,
      [pb_refNumeric] = pb_specNumeric, [pb_refText] = pb_specText,         [pb_refTuple] = pb_specTuple,
      [pb_refKey] = pb_specKey};

  // Zero is a frame, which nothing refers to.
  if (ref <= 0 || ref >= (int)(sizeof kinds / sizeof *kinds)) return -1;
  return kinds[ref] ? kinds[ref] : -1;
}

// Is what has the name among those that go?
static bool goes(const removal *r, int kind, const char *name) {
  if (kind < 0 || !name || !*name) return false;
  const void *elements = elements_of(r->spec, (pbSpecKind)kind);

  for (int i = r->first[kind]; i <= r->last[kind]; i++) {
    if (r->number[kind][i] < 0 && !strcmp(opening(elements, (pbSpecKind)kind, i)->name, name)) return true;
  }
  return false;
}

static bool path_goes(const removal *r, const pbTendonDef *def) {
  for (int i = 0; i < def->path_count; i++) {
    const pbWrap *w = &def->path[i];
    int kind = pb_specGeom;
    if (w->type == pb_wrapJoint) kind = pb_specJoint;
    if (w->type == pb_wrapSite) kind = pb_specSite;
    if (w->type != pb_wrapPulley && (goes(r, kind, w->target) || goes(r, pb_specSite, w->sidesite))) return true;
  }
  return false;
}

static bool entries_go(const removal *r, const pbTupleDef *def) {
  for (int i = 0; i < def->count; i++) {
    if (goes(r, kind_of_reference(def->entries[i].objtype), def->entries[i].objname)) return true;
  }
  return false;
}

static bool ends_go(const removal *r, const pbEqualityDef *def) {
  bool ends = def->type == pb_eqConnect || def->type == pb_eqWeld;
  int kind = def->type == pb_eqJoint ? pb_specJoint : pb_specTendon;
  if (ends) kind = def->sites ? pb_specSite : pb_specBody;

  return goes(r, kind, def->name1) || goes(r, kind, def->name2);
}

static bool transmission_goes(const removal *r, const pbActuatorDef *def) {
  static const int kinds[] = {
      [pb_trnJoint] = pb_specJoint,   [pb_trnJointInParent] = pb_specJoint, [pb_trnSliderCrank] = pb_specSite,
      [pb_trnTendon] = pb_specTendon, [pb_trnSite] = pb_specSite,           [pb_trnBody] = pb_specBody};
  bool known = def->trntype >= 0 && def->trntype < (int)(sizeof kinds / sizeof *kinds);

  return (known && goes(r, kinds[def->trntype], def->target)) || goes(r, pb_specSite, def->refsite);
}

// Does an element refer by name to what goes?
static bool refers(const removal *r, pbSpecKind kind, const void *record) {
  switch (kind) {
    case pb_specPair: {
      const pbPairDef *def = record;
      return goes(r, pb_specGeom, def->geom1) || goes(r, pb_specGeom, def->geom2);
    }
    case pb_specExclude: {
      const pbExcludeDef *def = record;
      return goes(r, pb_specBody, def->body1) || goes(r, pb_specBody, def->body2);
    }
    case pb_specSensor: {
      const pbSensorDef *def = record;
      return goes(r, kind_of_reference(def->objtype), def->objname) || goes(r, kind_of_reference(def->reftype), def->refname);
    }
    case pb_specEquality: return ends_go(r, record);
    case pb_specTendon: return path_goes(r, record);
    case pb_specActuator: return transmission_goes(r, record);
    case pb_specTuple: return entries_go(r, record);
    default: return false;
  }
}

static int *reference(void *record, const pbSpecField *field) { return (int *)((char *)record + field->offset); }

// An inertia may stand in a frame that its body does not stand in: it goes alone.
static bool is_of_inertia(pbSpecKind kind, const pbSpecField *field) {
  return kind == pb_specBody && field->offset == offsetof(pbBodyDef, inertial_frame);
}

// Does an element stand in what goes?
static bool stands(const removal *r, pbSpecKind kind, void *record, const reference_list *references) {
  for (int i = 0; i < references->count; i++) {
    const pbSpecField *field = &references->field[i];
    if (is_of_inertia(kind, field)) continue;
    int id = *reference(record, field);
    if (id >= 0 && id < pbSpec_Count(r->spec, (pbSpecKind)field->refers) && r->number[field->refers][id] < 0) return true;
  }
  return false;
}

static void mark_kind(removal *r, pbSpecKind kind) {
  element_list l = list_of(r->spec, kind);
  const reference_list references = references_of(kind);
  for (int i = kind == pb_specBody; i < *l.count; i++) {  // the world stays
    if (r->number[kind][i] < 0 || !(stands(r, kind, element(l, i), &references) || refers(r, kind, element(l, i)))) continue;
    mark(r, (int)kind, i);
  }
}

// Those that stay move up, in their order.
static void close_up(removal *r, pbSpecKind kind) {
  element_list l = list_of(r->spec, kind);
  PB_ASSERT(r->number[pb_specBody][0] == 0);
  int kept = 0;
  for (int i = 0; i < *l.count; i++) {
    if (r->number[kind][i] < 0) continue;
    if (kept < i) memcpy(element(l, kept), element(l, i), l.size);
    r->number[kind][i] = kept++;
  }
}

// Numbers of other elements are those afterwards.
static void renumber(const removal *r, pbSpecKind kind, void *record, const reference_list *references) {
  for (int i = 0; i < references->count; i++) {
    const pbSpecField *field = &references->field[i];
    int *id = reference(record, field);
    if (*id < 0 || *id >= pbSpec_Count(r->spec, (pbSpecKind)field->refers)) continue;
    *id = r->number[field->refers][*id];
    if (*id < 0 && is_of_inertia(kind, field)) ((pbBodyDef *)record)->has_inertial = false;
  }
}

static void take_out(removal *r) {
  int left[pb_specElements];
  for (int kind = 0; kind < pb_specElements; kind++) {
    element_list l = list_of(r->spec, (pbSpecKind)kind);
    close_up(r, (pbSpecKind)kind);

    left[kind] = 0;
    for (int i = 0; i < *l.count; i++) left[kind] += r->number[kind][i] >= 0;
  }

  // Counts are those of before until all numbers are changed.
  for (int kind = 0; kind < pb_specElements; kind++) {
    const reference_list references = references_of((pbSpecKind)kind);
    element_list l = list_of(r->spec, (pbSpecKind)kind);
    for (int i = 0; i < left[kind]; i++) renumber(r, (pbSpecKind)kind, element(l, i), &references);
  }
  for (int kind = 0; kind < pb_specElements; kind++) *list_of(r->spec, (pbSpecKind)kind).count = left[kind];
}

pbStatus pbSpec_Remove(pbSpec *spec, pbSpecKind kind, int id) {
  if (kind >= pb_specElements || id < 0 || id >= pbSpec_Count(spec, kind))
    return pbContext_Fail(spec->ctx, pb_bad_argument, "a spec has no %s %d that could be removed", pbSpecKind_Name(kind), id);
  if (kind == pb_specBody && id == 0) return pbContext_Fail(spec->ctx, pb_bad_argument, "body 'world' cannot be removed");

  size_t all = 0;
  for (int k = 0; k < pb_specElements; k++) all += (size_t)pbSpec_Count(spec, (pbSpecKind)k);
  int *numbers = pbContext_Alloc(spec->ctx, all * sizeof *numbers);
  if (!numbers) return pbContext_Fail(spec->ctx, pb_no_memory, "no memory to remove %s %d", pbSpecKind_Name(kind), id);

  removal r = {.spec = spec};
  r.number[0] = numbers;
  for (int k = 1; k < pb_specElements; k++) r.number[k] = r.number[k - 1] + pbSpec_Count(spec, (pbSpecKind)(k - 1));
  for (int k = 0; k < pb_specElements; k++) {
    r.first[k] = pbSpec_Count(spec, (pbSpecKind)k);
    r.last[k] = -1;
  }
  mark(&r, (int)kind, id);

  // What depends on what goes, goes; until nothing more is found.
  while (r.more) {
    r.more = false;
    for (int k = 0; k < pb_specElements; k++) mark_kind(&r, (pbSpecKind)k);
  }
  take_out(&r);

  pbContext_Free(spec->ctx, numbers);
  return pb_ok;
}

// ---- copies of whole specs ----------------------------------------------------------------------------------------------

void *pbSpec_NewList(pbContext *ctx, pbSpecKind kind, int count) {
  size_t capacity = 8;

  // A power of two, so that adding knows it by the count.
  while (capacity < (size_t)count) capacity *= 2;
  return pbContext_Alloc(ctx, capacity * pbSpecKind_Size(kind));
}

void pbSpec_SetList(pbSpec *spec, pbSpecKind kind, void *elements, int count) {
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: spec->member = elements; break;
    PB_SPEC_LISTS(X)
#undef X
    default: return;
  }
  *list_of(spec, kind).count = count;
}

static bool copy_list(pbSpec *to, const pbSpec *from, pbSpecKind kind) {
  int count = pbSpec_Count(from, kind);
  if (!count) return true;

  void *made = pbSpec_NewList(to->ctx, kind, count);
  if (!made) return false;
  memcpy(made, elements_of(from, kind), (size_t)count * pbSpecKind_Size(kind));
  pbSpec_SetList(to, kind, made, count);
  return true;
}

static bool keep_file(pbSpec *spec, pbPlace *place) {
  return !place->file || (place->file = pbSpec_Text(spec, place->file)) != NULL;
}

// Stations know their files, too.
static bool keep_stations(pbSpec *spec, pbTendonDef *def) {
  if (def->path_count <= 0) return true;
  pbWrap *path = pbSpecPool_Take(spec->pool, (size_t)def->path_count, sizeof *path);
  if (!path) return false;
  memcpy(path, def->path, (size_t)def->path_count * sizeof *path);

  def->path = path;
  for (int i = 0; i < def->path_count; i++) {
    if (!keep_file(spec, &path[i].place)) return false;
  }
  return true;
}

static bool keep_elements(pbSpec *spec, pbSpecKind kind) {
  element_list l = list_of(spec, kind);
  const char *from = NULL, *file = NULL;  // names of files repeat
  for (int i = 0; i < *l.count; i++) {
    pbFrameDef *def = element(l, i);
    bool again = from && def->place.file == from;
    from = def->place.file;

    if (again) def->place.file = file;
    else if (!keep_file(spec, &def->place)) return false;
    file = def->place.file;
    if (kind == pb_specTendon && !keep_stations(spec, element(l, i))) return false;
    if (!pbSpec_KeepAll(spec, kind, def)) return false;
  }
  return true;
}

static bool copy_all(pbSpec *to, const pbSpec *from) {
  to->surfaces = from->surfaces;
  to->design = from->design;
  to->compiler = from->compiler;
  to->option = from->option;
  to->statistic = from->statistic;
  to->size = from->size;
  to->pool->keys = from->pool->keys;
  to->pool->source = from->pool->source;
  to->model_name = pbSpec_Text(to, from->model_name);
  to->folder = pbSpec_Text(to, from->folder);
  if (!to->model_name || !to->folder) return false;

  if (from->nattached) {
    pbCompilerSettings *attached = pbSpecPool_Take(to->pool, (size_t)from->nattached, sizeof *attached);
    if (!attached) return false;
    memcpy(attached, from->attached, (size_t)from->nattached * sizeof *attached);
    to->attached = attached;
    to->nattached = from->nattached;
  }

  for (int kind = 0; kind < pb_specElements; kind++) {
    if (!copy_list(to, from, (pbSpecKind)kind) || !keep_elements(to, (pbSpecKind)kind)) return false;
  }
  return true;
}

pbStatus pbSpec_Copy(pbContext *ctx, const pbSpec *spec, pbSpec **copy) {
  PB_ASSERT(spec->nbody > 0);
  *copy = NULL;
  pbSpec *made;
  PB_TRY(pbSpec_Create(ctx, &made));

  // Its world comes with the others.
  pbContext_Free(ctx, made->bodies);
  made->bodies = NULL;
  made->nbody = 0;
  if (!copy_all(made, spec)) {
    pbSpec_Destroy(made);
    return pbContext_Fail(ctx, pb_no_memory, "no memory for a copy of a spec");
  }

  *copy = made;
  return pb_ok;
}
