// Reading deformables: what the files io/task_deform*.c give each other. docs/deformables.md describes what they read.
#ifndef PB_IO_TASK_DEFORM_H
#define PB_IO_TASK_DEFORM_H

#include <pullback/materials.h>

#include "io/task/task_reader.h"

typedef struct pbBodySet {  // some points of a body, by its own numbers
  char *name;
  int count, *points;
} pbBodySet;

typedef struct pbDeformBody {  // one body while it is read
  const char *name;
  pbMesh *mesh;  // in its own coordinates, not yet placed
  int first;     // its point 0 among all points
  int set_count;
  pbBodySet *sets;
  unsigned char *fixed;  // axes of each point that pins hold
} pbDeformBody;

// ---- task_arrays.c: numbers of a task
// An array of numbers in a file, {"file": ..., "array": ...}: free with pbContext_Free. shape as in the file, ndim at most 3.
typedef struct pbTaskArray {
  double *data;
  int ndim;
  size_t shape[3], count;
} pbTaskArray;
PB_NODISCARD pbStatus pbTaskReader_Array(pbTaskReader *r, const json_t *object, pbTaskArray *out);
// The same as a table; cols 0 where the array is none.
PB_NODISCARD pbStatus pbTaskReader_Table(pbTaskReader *r, const json_t *object, pbTaskNumbers *numbers);
// A list of numbers, of rows, or a file, as `cols` numbers a row. rows 0: as many as there are; *data freed by the caller.
PB_NODISCARD pbStatus pbTaskReader_Rows(pbTaskReader *r, const json_t *value, size_t cols, size_t *rows, double **data);

// ---- task_deform_mesh.c: "mesh" of a body
PB_NODISCARD pbStatus pbTask_ReadMesh(pbTaskReader *r, const json_t *body, pbMesh **mesh);

// ---- task_deform_select.c: points and elements by name, place or number
// A name, {"box": ...}, {"nearest": ...}, a number, or a list of these, or true; at least one point. *points: freed by the
// caller.
PB_NODISCARD pbStatus pbTask_SelectPoints(pbTaskReader *r, const pbDeformBody *body, const json_t *value, int **points,
                                          int *count);
// What "on" (may be NULL) of an energy means: elements of the first kind that there is and that `wanted` (bits 1 << kind of cell)
// allows; a list of elements may be of any kind with `points` points each (0: of a wanted one). *cell: the kind, -1 where it
// has no name. *vertex: the body's own numbers; freed by the caller.
PB_NODISCARD pbStatus pbTask_SelectElements(pbTaskReader *r, const pbDeformBody *body, const json_t *on, unsigned wanted,
                                            int points, int *cell, int **vertex, int *count);
int pbTask_CellNodes(int cell);       // points of an element of that kind
unsigned pbTask_CellsOf(int points);  // kinds whose elements have so many points

// ---- task_deform_energy.c: "energies" of a body
PB_NODISCARD pbStatus pbTask_ReadEnergies(pbTaskReader *r, const json_t *list, const pbDeformBody *body,
                                          pbDeformable *deformable);

// ---- task_deform_contact.c: "attach" and "surface" of a body, "contact" of all
// `contact`: bodies are surfaces unless they say otherwise; `planar`: by their outlines.
typedef struct pbDeformTouch {
  bool contact, planar;
} pbDeformTouch;
PB_NODISCARD pbStatus pbTask_ReadAttachments(pbTaskReader *r, const json_t *list, const pbDeformBody *body,
                                             pbDeformable *deformable);
PB_NODISCARD pbStatus pbTask_ReadSurface(pbTaskReader *r, const json_t *body_object, pbDeformTouch touch,
                                         const pbDeformBody *body, pbDeformable *deformable);
PB_NODISCARD pbStatus pbTask_ReadContact(pbTaskReader *r, const json_t *object, pbDeformable *deformable);

// "energies" of the whole, between points of several bodies.
PB_NODISCARD pbStatus pbTask_ReadJoins(pbTaskReader *r, const json_t *list, pbDeformable *deformable);

// ---- the whole
// The value of "deformables" in a task: an object, or the name of a file with such an object. r->model: what bodies and geoms
// are of.
PB_NODISCARD pbStatus pbTask_ReadDeformable(pbTaskReader *r, const json_t *value, pbDeformable **deformable);

#endif
