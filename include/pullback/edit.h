// Pullback: elements of a spec by kind and number, their fields by name. What edits a spec without knowing its structs (Python,
// a form on a screen) reads here what there is; C code may as well write spec->geoms[3].mass = 2.
#ifndef PULLBACK_EDIT_H
#define PULLBACK_EDIT_H

#include <stddef.h>

#include <pullback/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

// Kinds of elements, in the order of PB_SPEC_LISTS; behind them the records that are no elements: settings, of which a spec has
// one each, and parts of lists.
typedef enum pbSpecKind {
#define X(Kind, member, count) pb_spec##Kind,
  PB_SPEC_LISTS(X)
#undef X
      pb_specElements,                // so many kinds of elements
  pb_specCompiler = pb_specElements,  // pbCompilerSettings
  pb_specOption,                      // pbOptionSettings
  pb_specStatistic,                   // pbStatisticSettings
  pb_specSizes,                       // pbSizeSettings
  pb_specWhole,                       // pbSpec itself: its name and what of it is kept
  pb_specWrap,                        // pbWrap, of a tendon's path
  pb_specEntry,                       // pbTupleEntry
  pb_specKinds
} pbSpecKind;

// Type of a member. Those from pb_fieldReals on are lists with a length of their own.
typedef enum pbSpecType {
  pb_fieldBool,
  pb_fieldInt,
  pb_fieldReal,
  pb_fieldLetters,  // char[count], closed by zero
  pb_fieldText,     // const char *; belongs to the spec (pbSpec_Text)
  pb_fieldReals,    // pbReals
  pb_fieldInts,     // pbInts
  pb_fieldPath,     // const pbWrap * and path_count
  pb_fieldEntries,  // const pbTupleEntry * and count
  pb_fieldPairs     // keys and values, const char *const *, and count
} pbSpecType;

typedef struct pbSpecField {
  const char *name;  // of the member: "size", "pose.pos"
  pbSpecType type;
  size_t offset;        // in the record
  size_t count_offset;  // of the int with the length of a pb_fieldPath, pb_fieldEntries or pb_fieldPairs; of the latter the
                        // values stand behind the keys
  int count;            // numbers or letters in it; 1: a number alone; 0: a list
  const char *words;    // of an integer that is one of few: "false true auto", "joint=1 pulley=2"; values 0, 1, ... where none
                        // is stated; NULL: any number
  int refers;           // the pbSpecKind whose number it is (-1 in it: none); -1: none
  bool optional;        // NAN in it, or in the first of its numbers: not given
  const char *unit;     // "" where there is none
  const char *meaning;
} pbSpecField;

PB_API const char *pbSpecKind_Name(pbSpecKind kind);  // "geom", "compiler"
PB_API const char *pbSpecKind_List(pbSpecKind kind);  // of elements "geoms", the member of pbSpec; else ""
PB_API size_t pbSpecKind_Size(pbSpecKind kind);       // bytes of its record
// The index-th field; false behind the last.
PB_API bool pbSpecKind_Field(pbSpecKind kind, int index, pbSpecField *field);
// The least that numbers of a field may be, whatever else there is; -INFINITY: any. Compiling refuses smaller ones, but not of
// colours, lights and other numbers for pictures alone, which MuJoCo takes in files.
PB_API double pbSpecKind_Least(pbSpecKind kind, const pbSpecField *field);
PB_API void pbSpecKind_Default(pbSpecKind kind, void *record);  // of an element, a wrap, an entry; else all zero

PB_API int pbSpec_Count(const pbSpec *spec, pbSpecKind kind);  // of elements; 1 of settings, 0 of parts of lists
// An element, or settings: to be edited in place, until the next pbSpec_Add* or pbSpec_Remove. NULL where there is none.
PB_API void *pbSpec_At(pbSpec *spec, pbSpecKind kind, int id);
PB_API int pbSpec_Find(const pbSpec *spec, pbSpecKind kind, const char *name);  // its number, -1 if there is none
PB_API int pbSpec_Add(pbSpec *spec, pbSpecKind kind, const void *record);       // as pbSpec_AddGeom and so on

// What the field of the record points at becomes a copy that the spec owns; false when out of memory.
PB_API bool pbSpec_Keep(pbSpec *spec, const pbSpecField *field, void *record);

// Take an element out: with it what stands in it (of a body and a frame), and what refers to any of that by name: pairs,
// excludes, equalities, tendons, actuators, sensors and tuples. The others keep their order; their numbers fall. What names a
// mesh, a material, a target of a camera that is gone stays: compiling says so; so does a keyframe with too many numbers.
// pb_bad_argument where there is none, and of the world; pb_no_memory: nothing was changed.
PB_API PB_NODISCARD pbStatus pbSpec_Remove(pbSpec *spec, pbSpecKind kind, int id);

// Put what stands in the world of another spec into a body (0: the world) or a frame of this one, as mjs_attach of MuJoCo does:
// in a frame of its own, *frame, whose pose may be set afterwards. Names get the prefix, the world's stays. With it come
// meshes, height fields, materials, pairs, excludes, equalities, tendons, actuators, sensors, numbers and texts, and the compiler
// settings that act on its elements (pbPlace.model). Options, sizes and statistics are those of this spec; a warning names
// options that differ, and excludes, equalities and sensors that name the other's world alone, which stay behind. Keyframes
// of both are put into the order of the whole: what one does not state of the other's joints, actuators and mocap bodies is
// as in the reference. The other spec stays as it is; its context may be another one.
// pb_bad_argument: there is no such body or frame, a name is there already, or from == spec. pb_bad_input: a tree that is none,
// or a keyframe with too many numbers. pb_no_memory. Then nothing was changed, and *frame is -1.
PB_API PB_NODISCARD pbStatus pbSpec_Attach(pbSpec *spec, pbSpecKind kind, int id, const pbSpec *from, const char *prefix,
                                           int *frame);

// A spec of its own with the same elements, keys and settings, with memory of `ctx`.
PB_API PB_NODISCARD pbStatus pbSpec_Copy(pbContext *ctx, const pbSpec *spec, pbSpec **copy);

#ifdef __cplusplus
}
#endif
#endif
