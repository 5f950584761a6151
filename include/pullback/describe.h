// Pullback: what there is to know of models and of built-in energies, as values of JSON, and all quantities of one evaluation as
// arrays: what the program's commands info, energies and inspect say.
// A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_DESCRIBE_H
#define PULLBACK_DESCRIBE_H

#include <pullback/array.h>
#include <pullback/check.h>
#include <pullback/json.h>
#include <pullback/materials.h>
#include <pullback/world.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- models -------------------------------------------------------------------------------------------------------
// Things of one kind, with addresses and types: "bodies", "joints", ...
typedef struct pbTable {
  const char *label;
  pbObject kind;
  int rows, columns;
} pbTable;
PB_API bool pbModel_TableAt(const pbModel *model, int index, pbTable *table);  // false behind the last
typedef struct pbTableCell {
  const char *label;  // of its column
  int value;          // an address, a number, a type, the id of a thing
  const char *word;   // of a type, or the name of that thing; NULL: it has none
  bool known;         // false: models of this build have no such column
} pbTableCell;
// `row` < 0: the label alone. 0 <= column < columns.
PB_API pbTableCell pbModel_TableCell(const pbModel *model, int table, int row, int column);
// "nq", "nv", ...: sizes that are worth telling; NULL behind the last.
PB_API const char *pbModel_SizeName(int index);
PB_API const char *pbModel_OptionWord(const pbModel *model, const char *option);  // of "integrator", "cone"; NULL: none is known
PB_API double pbModel_PointMass(pbContext *ctx, const pbModel *model, const double *theta);  // of all points; NaN: they have none
// The shape that MuJoCo's Python gives a parameter; returns the number of dimensions.
PB_API int pbParam_Shape(const pbParam *param, size_t shape[2]);

typedef struct pbDescription {
  const pbModel *model;
  const double *theta;  // ParamSize
  const char *path;     // of its file
  bool recompute;       // derived constants follow the parameters
} pbDescription;
// An object: sizes, options, contact settings, the state's fields, all tables, warnings of the context, deformables, policy,
// parameters.
PB_API void pbModel_Describe(pbContext *ctx, const pbDescription *d, pbJson *json);
PB_API void pbModel_DescribeContact(const pbModel *model, pbJson *json);  // settings of contacts: "contact" of an open object
// Points of deformables: "sets", "geoms" and "planes" of an open object.
PB_API void pbModel_DescribePoints(const pbModel *model, pbJson *json);

// ---- built-in energies --------------------------------------------------------------------------------------------
// A list of objects; name: those of an energy or family alone. NULL: all.
PB_API void pbMaterial_Describe(const char *name, pbJson *json);
PB_API bool pbMaterial_IsCalled(const pbMaterial *material, const char *name);  // by its name, or by that of its family

// ---- the check of derivatives -------------------------------------------------------------------------------------
PB_API void pbCheckReport_Describe(const pbCheckReport *report, const char *path, pbJson *json);  // an object; path: the model's
// Into a set of arrays and back, for checks that go on; false: it is not there. Names begin with "check".
PB_API PB_NODISCARD pbStatus pbCheckPoint_Keep(const pbCheckPoint *point, pbArrays *set);
PB_API bool pbCheckPoint_Restore(pbCheckPoint *point, const pbArrays *set);

// ---- one evaluation -----------------------------------------------------------------------------------------------
// Adds every compiled field ("model/NAME"), every parameter ("param/NAME"), the state's fields and all quantities of an
// evaluation at x, by MuJoCo's names, to `set`. Statuses of pbStep_Observe, with "step 0 of 1: ".
PB_API PB_NODISCARD pbStatus pbModel_Inspect(pbContext *ctx, const pbModel *model, const double *theta, const double *x,
                                             const pbInput *input, pbArrays *set);

#ifdef __cplusplus
}
#endif
#endif
