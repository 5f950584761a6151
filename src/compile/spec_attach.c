// One spec put into another: what stands in its world goes into a body or frame, with all that it is made of and all that refers
// to it. A copy of the other spec becomes part of this one: names get a prefix, numbers of bodies, frames and models rise by
// those that are there, and keyframes of both are put into the order of the whole. The rules are those of mjs_attach.
// Tests: tests/unit/test_spec_attach.c, tests/python/test_attach_specs.py.
#include <pullback/edit.h>

#include <math.h>
#include <string.h>

#include <pullback/equalities.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "compile/spec_names.h"
#include "compile/spec_pool.h"
#include "model/joint.h"
#include "model/motor.h"

typedef struct attachment {
  pbSpec *spec;   // what is attached to
  pbSpec *other;  // a copy of what is attached, with memory of the same context
  const char *prefix;
  int body, frame;  // where; frame -1: directly in the body
} attachment;

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "no memory to attach a spec"); }

// ---- names of others ----------------------------------------------------------------------------------------------------

// Members by which elements name others; of paths, entries and pairs of texts there are lists.
static const struct {
  pbSpecKind kind;
  size_t offset;
} references[] = {
#define NAMES(Kind, member) \
  { pb_spec##Kind, offsetof(pb##Kind##Def, member) }
    NAMES(Geom, material),    NAMES(Geom, mesh),      NAMES(Geom, hfield),    NAMES(Site, material),   NAMES(Site, mesh),
    NAMES(Camera, target),    NAMES(Light, target),   NAMES(Pair, geom1),     NAMES(Pair, geom2),      NAMES(Exclude, body1),
    NAMES(Exclude, body2),    NAMES(Equality, name1), NAMES(Equality, name2), NAMES(Tendon, material), NAMES(Actuator, target),
    NAMES(Actuator, refsite), NAMES(Sensor, objname), NAMES(Sensor, refname), NAMES(Visual, texture),
#undef NAMES
};
enum { reference_count = sizeof references / sizeof *references };

static const char **name_in(void *record, int k) { return (const char **)(void *)((char *)record + references[k].offset); }

static bool is_body(int ref) { return ref == pb_refBody || ref == pb_refXbody; }

// Is it the name of a body, so that it may be the world's?
static bool names_body(const void *record, int k) {
  switch (references[k].kind) {
    case pb_specCamera:
    case pb_specLight:
    case pb_specExclude: return true;
    case pb_specEquality: {
      const pbEqualityDef *def = record;
      return (def->type == pb_eqConnect || def->type == pb_eqWeld) && !def->sites;
    }
    case pb_specActuator: {
      const pbActuatorDef *def = record;
      return def->trntype == pb_trnBody && references[k].offset == offsetof(pbActuatorDef, target);
    }
    case pb_specSensor: {
      const pbSensorDef *def = record;
      return is_body(references[k].offset == offsetof(pbSensorDef, objname) ? def->objtype : def->reftype);
    }
    default: return false;
  }
}

// ---- what does not come along -------------------------------------------------------------------------------------------

// Does an element name the world, and nothing else? That world is another one than this.
static bool is_of_world(void *record, pbSpecKind kind) {
  int named = 0, worlds = 0;
  for (int k = 0; k < reference_count; k++) {
    if (references[k].kind != kind || !**name_in(record, k)) continue;

    named++;
    worlds += names_body(record, k) && !strcmp(*name_in(record, k), "world");
  }

  // What names nothing, as a clock, is about no world.
  return named && worlds == named;
}

// Materials, textures and files of meshes come along; settings of pictures and skins do not.
static bool stays_behind(pbSpec *other, pbSpecKind kind, int id) {
  if (kind == pb_specVisual) return strncmp(other->visuals[id].element, "asset/", 6) != 0;
  return is_of_world(pbSpec_At(other, kind, id), kind);
}

static pbStatus leave_behind(const attachment *a) {
  static const pbSpecKind kinds[] = {pb_specExclude, pb_specEquality, pb_specSensor, pb_specVisual};

  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    // With one may go others behind it, never those before it alone.
    for (int i = pbSpec_Count(a->other, kinds[k]) - 1; i >= 0; i--) {
      if (i >= pbSpec_Count(a->other, kinds[k]) || !stays_behind(a->other, kinds[k], i)) continue;

      const pbFrameDef *def = pbSpec_At(a->other, kinds[k], i);
      if (kinds[k] != pb_specVisual)
        pbSpec_Warn(a->spec, &def->place, pbSpecKind_Name(kinds[k]), def->name,
                    "names the world alone, and does not come along with what is attached, as in MuJoCo");
      PB_TRY(pbSpec_Remove(a->other, kinds[k], i));
    }
  }
  return pb_ok;
}

// Settings of the whole are those here.
static pbStatus warn_settings(const attachment *a) {
  pbSpec *plain;
  PB_TRY(pbSpec_Create(a->spec->ctx, &plain));

  const char *own = (const char *)&a->spec->option, *its = (const char *)&a->other->option;
  const char *usual = (const char *)&plain->option;

  pbSpecField f;
  for (int i = 0; pbSpecKind_Field(pb_specOption, i, &f); i++) {
    size_t size = (f.type == pb_fieldReal ? sizeof(double) : sizeof(int)) * (size_t)f.count;
    if (!memcmp(own + f.offset, its + f.offset, size) || !memcmp(its + f.offset, usual + f.offset, size)) continue;
    pbContext_Warn(a->spec->ctx, "option '%s' is another one in '%.100s', which is attached: the one here counts, as in MuJoCo",
                   f.name, a->other->model_name);
  }
  pbSpec_Destroy(plain);

  // What the compiler does with the whole.
  const pbCompilerSettings *c = &a->other->compiler;
  if (c->settotalmass > 0 || c->fusestatic || c->discardvisual)
    pbContext_Warn(a->spec->ctx,
                   "settotalmass, fusestatic and discardvisual have no effect in '%.100s', which is attached, as in MuJoCo",
                   a->other->model_name);
  return pb_ok;
}

// ---- names with their prefix --------------------------------------------------------------------------------------------

// In memory of the copy, which becomes that of the whole.
static bool put_prefix(const attachment *a, const char **name) {
  if (!*name || !**name || !*a->prefix) return true;

  size_t first = strlen(a->prefix), second = strlen(*name);
  char *joined = pbSpecPool_Take(a->other->pool, first + second + 1, 1);
  if (!joined) return false;

  // Closed by the zero behind it.
  memcpy(joined, a->prefix, first);
  memcpy(joined + first, *name, second);
  *name = joined;
  return true;
}

// The world is the same for all.
static bool rename_reference(const attachment *a, bool body, const char **name) {
  return (body && !strcmp(*name, "world")) || put_prefix(a, name);
}

static bool rename_path(const attachment *a, pbTendonDef *def) {
  if (def->path_count <= 0) return true;
  pbWrap *path = pbSpecPool_Take(a->other->pool, (size_t)def->path_count, sizeof *path);
  if (!path) return false;
  memcpy(path, def->path, (size_t)def->path_count * sizeof *path);

  for (int i = 0; i < def->path_count; i++) {
    if (!put_prefix(a, &path[i].target) || !put_prefix(a, &path[i].sidesite)) return false;
  }
  def->path = path;
  return true;
}

static bool rename_entries(const attachment *a, pbTupleDef *def) {
  if (def->count <= 0) return true;
  pbTupleEntry *entries = pbSpecPool_Take(a->other->pool, (size_t)def->count, sizeof *entries);
  if (!entries) return false;
  memcpy(entries, def->entries, (size_t)def->count * sizeof *entries);

  for (int i = 0; i < def->count; i++) {
    if (!rename_reference(a, is_body(entries[i].objtype), &entries[i].objname)) return false;
  }
  def->entries = entries;
  return true;
}

// Attributes as they stood in the file say the same as the members.
static bool rename_attributes(const attachment *a, pbVisualDef *def) {
  if (def->count <= 0) return true;
  const char **values = pbSpecPool_Take(a->other->pool, (size_t)def->count, sizeof *values);
  if (!values) return false;

  // Its own name, and that of what a material is covered with.
  for (int i = 0; i < def->count; i++) {
    values[i] = def->values[i];
    bool named = !strcmp(def->keys[i], "name") || !strcmp(def->keys[i], "texture");
    if (named && !put_prefix(a, &values[i])) return false;
  }
  def->values = values;
  return true;
}

static bool rename_element(const attachment *a, pbSpecKind kind, void *record) {
  if (!put_prefix(a, &((pbFrameDef *)record)->name)) return false;
  for (int k = 0; k < reference_count; k++) {
    if (references[k].kind == kind && !rename_reference(a, names_body(record, k), name_in(record, k))) return false;
  }

  // Lists, where there are any.
  if (kind == pb_specTendon) return rename_path(a, record);
  if (kind == pb_specTuple) return rename_entries(a, record);
  return kind != pb_specVisual || rename_attributes(a, record);
}

// Names of a kind are there once; visual elements may share them, those of one sort may not.
static int sort_of(pbSpecKind kind, const void *record) {
  if (kind != pb_specVisual) return (int)kind;
  const pbVisualDef *def = record;
  int sort = pb_specKinds;

  // By the text of its sort, which is one of few.
  for (const char *c = def->element; *c; c++) sort = (sort * 31 + (unsigned char)*c) & 0xffffff;
  return sort + pb_specKinds;
}

static pbStatus check_names(const attachment *a, pbNames *names) {
  for (int kind = 0; kind < pb_specElements; kind++) {
    // What is there, whatever else it is; of two that compiling will refuse any.
    for (int i = 0; i < pbSpec_Count(a->spec, (pbSpecKind)kind); i++) {
      const pbFrameDef *def = pbSpec_At(a->spec, (pbSpecKind)kind, i);
      if (*def->name && !pbNames_Set(names, sort_of((pbSpecKind)kind, def), def->name, i)) return no_memory(a->spec->ctx);
    }

    // The world itself stays where it is.
    for (int i = kind == pb_specBody; i < pbSpec_Count(a->other, (pbSpecKind)kind); i++) {
      const pbFrameDef *def = pbSpec_At(a->other, (pbSpecKind)kind, i);
      if (def->place.model < 0 || def->place.model > a->other->nattached)
        return pbSpec_Fail(a->spec, pb_bad_input, &def->place, pbSpecKind_Name((pbSpecKind)kind), def->name,
                           "comes from model %d, which is not there", def->place.model);
      if (!*def->name || pbNames_Find(names, sort_of((pbSpecKind)kind, def), def->name) < 0) continue;
      return pbSpec_Fail(a->spec, pb_bad_argument, &def->place, pbSpecKind_Name((pbSpecKind)kind), def->name,
                         "one of this name is there already; attach with another prefix than \"%.100s\"", a->prefix);
    }
  }
  return pb_ok;
}

static pbStatus rename_all(const attachment *a) {
  for (int kind = 0; kind < pb_specElements; kind++) {
    for (int i = kind == pb_specBody; i < pbSpec_Count(a->other, (pbSpecKind)kind); i++) {
      if (!rename_element(a, (pbSpecKind)kind, pbSpec_At(a->other, (pbSpecKind)kind, i))) return no_memory(a->spec->ctx);
    }
  }

  pbNames names = {.ctx = a->spec->ctx};
  pbStatus status = check_names(a, &names);
  pbNames_Clear(&names);
  return status;
}

// ---- numbers of the whole -----------------------------------------------------------------------------------------------

// The frame that holds what is attached is the first of the new ones. A body's world is the body attached to.
static int number_after(const attachment *a, pbSpecKind kind, int id) {
  if (kind == pb_specBody) return id > 0 ? a->spec->nbody + id - 1 : a->body;
  if (kind == pb_specFrame) return id >= 0 ? a->spec->nframe + 1 + id : id;
  return id >= 0 ? pbSpec_Count(a->spec, kind) + id : id;
}

// Where an element of the world that stands in no frame finds its frame.
static size_t frame_member(pbSpecKind kind) {
  if (kind == pb_specFrame) return offsetof(pbFrameDef, parent);
  return kind == pb_specBody ? offsetof(pbBodyDef, frame) : offsetof(pbGeomDef, frame);
}

static int *member(void *record, size_t offset) { return (int *)(void *)((char *)record + offset); }

static void renumber(const attachment *a, pbSpecKind kind, void *record) {
  bool in_world = false;
  pbSpecField f;
  for (int i = 0; pbSpecKind_Field(kind, i, &f); i++) {
    if (f.refers < 0) continue;

    // Of a body its parent, of what stands in one its body.
    int *id = member(record, f.offset);
    in_world |= f.refers == pb_specBody && *id == 0;
    *id = number_after(a, (pbSpecKind)f.refers, *id);
  }

  // What stood directly in the world stands in the frame that holds all.
  int *frame = in_world ? member(record, frame_member(kind)) : NULL;
  if (frame && *frame < 0) *frame = a->spec->nframe;

  // Whose compiler settings act on it: the other's own come behind all that are there, then those attached to it.
  pbPlace *place = &((pbFrameDef *)record)->place;
  place->model += a->spec->nattached + 1;
}

static void renumber_all(const attachment *a) {
  PB_ASSERT(
      offsetof(pbGeomDef, frame) == offsetof(pbJointDef, frame) && offsetof(pbGeomDef, frame) == offsetof(pbSiteDef, frame) &&
      offsetof(pbGeomDef, frame) == offsetof(pbCameraDef, frame) && offsetof(pbGeomDef, frame) == offsetof(pbLightDef, frame));
  for (int kind = 0; kind < pb_specElements; kind++) {
    for (int i = kind == pb_specBody; i < pbSpec_Count(a->other, (pbSpecKind)kind); i++)
      renumber(a, (pbSpecKind)kind, pbSpec_At(a->other, (pbSpecKind)kind, i));
  }
}

// ---- keyframes ----------------------------------------------------------------------------------------------------------

typedef struct sizes {
  int qpos, qvel, mocap;
} sizes;

// Where the numbers of joints, mocap bodies and actuators begin in a state: bodies depth first, children in their order.
typedef struct layout {
  const pbSpec *spec;
  sizes *joint, *body;  // njoint; nbody: of a mocap body its own, of any where its joints begin
  int *act;             // nactuator
  sizes all;
  int nact;
  void *memory;
} layout;

static sizes add(sizes a, sizes b) { return (sizes){a.qpos + b.qpos, a.qvel + b.qvel, a.mocap + b.mocap}; }

static sizes joint_size(const pbJointDef *def) {
  return (sizes){pbJoint_PositionCount(def->type), pbJoint_DofCount(def->type), 0};
}

// Parents come before their bodies, which has been checked. own, below: of each body, and with all below it.
static void place_bodies(layout *l, sizes *own, sizes *below) {
  const pbSpec *s = l->spec;
  for (int i = 0; i < s->njoint; i++) own[s->joints[i].body] = add(own[s->joints[i].body], joint_size(&s->joints[i]));
  for (int i = 0; i < s->nbody; i++) own[i].mocap = s->bodies[i].mocap;

  memcpy(below, own, (size_t)s->nbody * sizeof *own);
  for (int i = s->nbody - 1; i > 0; i--) below[s->bodies[i].parent] = add(below[s->bodies[i].parent], below[i]);
  l->all = below[0];

  // From here on: of each body where its next child begins.
  l->body[0] = (sizes){0, 0, 0};
  sizes *next = own;
  for (int i = 1; i < s->nbody; i++) {
    sizes *around = &next[s->bodies[i].parent];

    // Its own joints first, then its children's.
    l->body[i] = *around;
    next[i] = add(*around, own[i]);
    *around = add(*around, below[i]);
  }
}

static bool make_layout(pbContext *ctx, const pbSpec *spec, layout *l) {
  size_t bodies = (size_t)spec->nbody, joints = (size_t)spec->njoint, actuators = (size_t)spec->nactuator;
  sizes *memory = pbContext_Alloc(ctx, (4 * bodies + joints) * sizeof *memory + actuators * sizeof(int));
  if (!memory) return false;

  *l = (layout){.spec = spec, .body = memory + 2 * bodies, .memory = memory};
  l->joint = memory + 4 * bodies;
  l->act = (int *)(void *)(l->joint + joints);
  place_bodies(l, memory, memory + bodies);

  // Joints of a body in their order.
  sizes *next = memory + 3 * bodies;
  memcpy(next, l->body, bodies * sizeof *next);
  for (size_t i = 0; i < joints; i++) {
    sizes *at = &next[spec->joints[i].body];
    l->joint[i] = *at;
    *at = add(*at, joint_size(&spec->joints[i]));
  }

  // Of actuators in theirs.
  for (size_t i = 0; i < actuators; i++) {
    l->act[i] = l->nact;
    l->nact += pbActuatorDef_Activations(&spec->actuators[i]);
  }
  return true;
}

// A list of a keyframe on its way into the order of the whole.
enum { key_qpos, key_qvel, key_act, key_ctrl, key_mpos, key_mquat, key_lists };
typedef struct moving {
  pbReals old;
  double *made;  // NULL: where numbers go is being found
  int end;       // behind the last number that is stated
  bool moves;    // some number gets another place
} moving;

static pbReals *list_of(pbKeyDef *key, int which) {
  pbReals *const of[key_lists] = {&key->qpos, &key->qvel, &key->act, &key->ctrl, &key->mpos, &key->mquat};
  return of[which];
}

// `count` numbers to their place in the whole; what is not stated, by NaN or a list that ends before, stays so.
static void move(moving *list, int start, int at, int count) {
  for (int i = 0; i < count; i++) {
    if (start + i >= list->old.count || isnan(list->old.data[start + i])) continue;

    // The list ends with what is stated last.
    list->moves |= at != start;
    list->end = at + i + 1 > list->end ? at + i + 1 : list->end;
    if (list->made) list->made[at + i] = list->old.data[start + i];
  }
}

static pbStatus check_key(const pbSpec *spec, const pbKeyDef *key, const layout *l) {
  const struct {
    const char *name;
    int found, most;
  } lists[] = {{"qpos", key->qpos.count, l->all.qpos},
               {"qvel", key->qvel.count, l->all.qvel},
               {"act", key->act.count, l->nact},
               {"ctrl", key->ctrl.count, l->spec->nactuator},
               {"mpos", key->mpos.count, 3 * l->all.mocap},
               {"mquat", key->mquat.count, 4 * l->all.mocap}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (lists[i].found > lists[i].most)
      return pbSpec_Fail(spec, pb_bad_input, &key->place, "key", key->name, "%s has %d numbers, expected at most %d",
                         lists[i].name, lists[i].found, lists[i].most);
  }
  return pb_ok;
}

static pbStatus check_keys(const pbSpec *spec, const layout *l) {
  for (int i = 0; i < spec->nkey; i++) PB_TRY(check_key(spec, &spec->keys[i], l));
  return pb_ok;
}

// Each element's numbers, from where they were to where they are.
static void move_numbers(const layout *from, const layout *to, const int first[3], moving lists[key_lists]) {
  // Of joints, in the state and its velocity.
  for (int i = 0; i < from->spec->njoint; i++) {
    sizes count = joint_size(&from->spec->joints[i]), *at = &from->joint[i], *there = &to->joint[first[0] + i];
    move(&lists[key_qpos], at->qpos, there->qpos, count.qpos);
    move(&lists[key_qvel], at->qvel, there->qvel, count.qvel);
  }

  for (int i = 1; i < from->spec->nbody; i++) {
    if (!from->spec->bodies[i].mocap) continue;

    // A position and a quaternion each.
    int at = from->body[i].mocap, there = to->body[first[1] + i].mocap;
    move(&lists[key_mpos], 3 * at, 3 * there, 3);
    move(&lists[key_mquat], 4 * at, 4 * there, 4);
  }

  // Of actuators a control each, and activations of those that have some.
  for (int i = 0; i < from->spec->nactuator; i++) {
    move(&lists[key_ctrl], i, first[2] + i, 1);
    move(&lists[key_act], from->act[i], to->act[first[2] + i], pbActuatorDef_Activations(&from->spec->actuators[i]));
  }
}

// A keyframe of a part in the order of the whole, where the part's joints, bodies and actuators begin at these numbers. Lists
// of which no number moves stay as they are, so that many specs in a row do not write all keyframes of all anew.
static pbStatus move_key(pbSpec *spec, const layout *from, const layout *to, const int first[3], pbKeyDef *key) {
  // Once to see what moves and how long lists become.
  moving lists[key_lists];
  for (int k = 0; k < key_lists; k++) lists[k] = (moving){.old = *list_of(key, k)};
  move_numbers(from, to, first, lists);

  for (int k = 0; k < key_lists; k++) {
    moving *list = &lists[k];
    if (!list->moves) continue;
    list->made = pbSpecPool_Take(spec->pool, (size_t)list->end, sizeof *list->made);
    if (!list->made) return no_memory(spec->ctx);

    // NaN is what the reference has.
    for (int i = 0; i < list->end; i++) list->made[i] = NAN;
    *list_of(key, k) = (pbReals){list->made, list->end};
  }

  // Once more, into what has been made.
  move_numbers(from, to, first, lists);
  return pb_ok;
}

// parts: what was there, whose keyframes come first, and what is attached.
static pbStatus move_keys(const attachment *a, pbSpec *whole, const layout parts[2]) {
  const int firsts[2][3] = {{0, 0, 0}, {a->spec->njoint, a->spec->nbody - 1, a->spec->nactuator}};
  layout all;
  if (!make_layout(whole->ctx, whole, &all)) return no_memory(whole->ctx);

  // Each from the order of its part.
  pbStatus status = pb_ok;
  for (int i = 0; i < whole->nkey && status == pb_ok; i++) {
    int part = i >= a->spec->nkey;
    status = move_key(whole, &parts[part], &all, firsts[part], &whole->keys[i]);
  }
  pbContext_Free(whole->ctx, all.memory);
  return status;
}

// ---- the whole ----------------------------------------------------------------------------------------------------------

// Elements of a kind that were there, then those that come.
static bool join_list(const attachment *a, pbSpec *whole, pbSpecKind kind) {
  int first = pbSpec_Count(a->spec, kind), skip = kind == pb_specBody, more = pbSpec_Count(a->other, kind) - skip;
  int frames = kind == pb_specFrame, count = first + frames + more;
  size_t size = pbSpecKind_Size(kind);

  char *made = count ? pbSpec_NewList(whole->ctx, kind, count) : NULL;
  pbSpec_SetList(whole, kind, made, made ? count : 0);
  if (!made) return count == 0;

  // The holder comes before what it holds.
  if (first) memcpy(made, pbSpec_At(a->spec, kind, 0), (size_t)first * size);
  if (frames) {
    pbFrameDef holder = pbFrameDef_Default();
    holder.body = a->body;
    holder.parent = a->frame;
    memcpy(made + (size_t)first * size, &holder, size);
  }
  if (more) memcpy(made + (size_t)(first + frames) * size, pbSpec_At(a->other, kind, skip), (size_t)more * size);

  for (int i = first; i < count; i++) ((pbFrameDef *)pbSpec_At(whole, kind, i))->key = ++whole->pool->keys;
  return true;
}

static bool join_settings(const attachment *a, pbSpec *whole) {
  int first = a->spec->nattached, more = a->other->nattached, count = first + 1 + more;
  pbCompilerSettings *attached = pbSpecPool_Take(whole->pool, (size_t)count, sizeof *attached);
  if (!attached) return false;

  // In the order that renumbering expects.
  if (first) memcpy(attached, a->spec->attached, (size_t)first * sizeof *attached);
  attached[first] = a->other->compiler;
  if (more) memcpy(attached + first + 1, a->other->attached, (size_t)more * sizeof *attached);
  whole->attached = attached;
  whole->nattached = count;
  return true;
}

static void free_lists(pbSpec *spec) {
  for (int kind = 0; kind < pb_specElements; kind++) {
    pbContext_Free(spec->ctx, pbSpec_At(spec, (pbSpecKind)kind, 0));
    pbSpec_SetList(spec, (pbSpecKind)kind, NULL, 0);
  }
}

// Until all is there, nothing of the spec is changed.
static pbStatus join(const attachment *a, const layout parts[2]) {
  pbSpec whole = *a->spec;
  bool room = join_settings(a, &whole);
  for (int kind = 0; kind < pb_specElements; kind++) {
    if (room) room = join_list(a, &whole, (pbSpecKind)kind);
    else pbSpec_SetList(&whole, (pbSpecKind)kind, NULL, 0);
  }

  pbStatus status = room ? move_keys(a, &whole, parts) : no_memory(whole.ctx);
  if (status != pb_ok) {
    free_lists(&whole);
    return status;
  }

  // From here on nothing can fail.
  free_lists(a->spec);
  *a->spec = whole;
  pbSpecPool_Join(whole.pool, a->other->pool);
  return pb_ok;
}

// Layouts are those of before: they say where the numbers of keyframes come from.
static pbStatus attach_parts(const attachment *a, const layout parts[2]) {
  PB_TRY(check_keys(a->spec, &parts[0]));
  PB_TRY(check_keys(a->other, &parts[1]));
  PB_TRY(rename_all(a));
  PB_TRY(warn_settings(a));
  renumber_all(a);
  return join(a, parts);
}

static pbStatus attach(const attachment *a) {
  PB_TRY(pbSpec_CheckTree(a->spec));
  PB_TRY(pbSpec_CheckTree(a->other));
  PB_TRY(leave_behind(a));

  // Where numbers are before anything moves.
  layout parts[2] = {{0}};
  pbContext *ctx = a->spec->ctx;
  bool room = make_layout(ctx, a->spec, &parts[0]) && make_layout(ctx, a->other, &parts[1]);
  pbStatus status = room ? attach_parts(a, parts) : no_memory(ctx);

  pbContext_Free(ctx, parts[0].memory);
  pbContext_Free(ctx, parts[1].memory);
  return status;
}

pbStatus pbSpec_Attach(pbSpec *spec, pbSpecKind kind, int id, const pbSpec *from, const char *prefix, int *frame) {
  *frame = -1;
  pbContext *ctx = spec->ctx;

  if (kind != pb_specBody && kind != pb_specFrame)
    return pbContext_Fail(ctx, pb_bad_argument, "a spec is attached to a body or a frame, not to a %s",
                          kind < pb_specKinds ? pbSpecKind_Name(kind) : "thing of no kind");
  if (id < 0 || id >= pbSpec_Count(spec, kind))
    return pbContext_Fail(ctx, pb_bad_argument, "there is no %s %d to attach a spec to", pbSpecKind_Name(kind), id);
  if (from == spec) return pbContext_Fail(ctx, pb_bad_argument, "a spec cannot be attached to itself; attach a copy of it");

  // A frame stands in a body, and what is attached in both.
  attachment a = {.spec = spec, .prefix = prefix, .body = id, .frame = -1};
  if (kind == pb_specFrame) {
    a.body = spec->frames[id].body;
    a.frame = id;
  }
  PB_TRY(pbSpec_Copy(ctx, from, &a.other));

  // The copy is empty by then, or as it was.
  int made = spec->nframe;
  pbStatus status = attach(&a);
  pbSpec_Destroy(a.other);
  if (status == pb_ok) *frame = made;
  return status;
}
