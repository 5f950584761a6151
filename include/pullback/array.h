// Pullback: sets of named arrays in NumPy's files, NPY (one array) and NPZ (a ZIP of them). What np.load reads and
// np.save, np.savez and np.savez_compressed write; never pickles. Format: numpy.lib.format, PKWARE's APPNOTE (ZIP, ZIP64).
// Recordings in CSV are read too (docs/csv.md).
// A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_ARRAY_H
#define PULLBACK_ARRAY_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PB_ARRAY_DIMS = 8 };                 // most dimensions of an array
#define PB_ARRAY_LIMIT ((size_t)960 << 20)  // most bytes a set holds, so that a forged file stays below 1 GiB

typedef enum pbArrayType {
  pb_arrayReal,  // doubles; what is read from any file of numbers (float16/32/64, integers, booleans, either byte order)
  pb_arrayInt,   // int32; written only
  pb_arrayText   // UTF-8, `count` texts one after another, each with its closing zero
} pbArrayType;

typedef struct pbArray {
  const char *name;  // "" in an NPY file
  pbArrayType type;
  int ndim;
  size_t shape[PB_ARRAY_DIMS];  // row-major (C order), whatever order the file has
  size_t count;                 // product of shape; 1 for ndim 0
  double *reals;
  int *integers;
  char *text;
} pbArray;

typedef struct pbArrays pbArrays;  // an ordered set of arrays; names are unique

PB_API PB_NODISCARD pbStatus pbArrays_Create(pbContext *ctx, pbArrays **set);
PB_API void pbArrays_Destroy(pbArrays *set);  // NULL is fine
PB_API size_t pbArrays_Count(const pbArrays *set);
PB_API const pbArray *pbArrays_At(const pbArrays *set, size_t index);
PB_API const pbArray *pbArrays_Find(const pbArrays *set, const char *name);                // NULL if there is none
PB_API const double *pbArrays_Reals(const pbArrays *set, const char *name, size_t count);  // of an array of so many; else NULL

// Add an array. `values` is copied; NULL: zeros. `memory` (may be NULL) gets the set's own copy, to be filled.
// pb_bad_argument for a name twice, pb_capacity beyond PB_ARRAY_LIMIT.
PB_API PB_NODISCARD pbStatus pbArrays_AddReals(pbArrays *set, const char *name, int ndim, const size_t *shape,
                                               const double *values, double **memory);
PB_API PB_NODISCARD pbStatus pbArrays_AddInts(pbArrays *set, const char *name, int ndim, const size_t *shape, const int *values,
                                              int **memory);
// One text as an array without dimensions (NumPy: str(file["name"])). Must be UTF-8.
PB_API PB_NODISCARD pbStatus pbArrays_AddText(pbArrays *set, const char *name, const char *text);
// Keep only the first `rows` rows of a real array with at least that many (for runs that end early).
PB_API void pbArrays_CutRows(pbArrays *set, const char *name, size_t rows);

// Read an NPY or NPZ file (told apart by their first bytes). pb_file: not readable; pb_bad_input: not such a file, cut
// short, a wrong checksum, a forged length, an element type that is not supported, more than PB_ARRAY_LIMIT, which is refused
// before any of it is expanded. A file whose name ends in .csv, or any text of another name than .npy and .npz, is a CSV
// (docs/csv.md): each column an array of one dimension by its name without unit, in SI, NaN where a sample is missing. Its errors
// name file, line and column; pb_capacity beyond PB_ARRAY_LIMIT, before memory is taken.
PB_API PB_NODISCARD pbStatus pbArrays_Load(pbContext *ctx, const char *path, pbArrays **set);
PB_API PB_NODISCARD pbStatus pbArrays_Parse(pbContext *ctx, const void *data, size_t length, const char *name, pbArrays **set);
// Write all arrays as NPZ, or the only one as NPY. The file appears under its name when it is whole (written beside it,
// then renamed); on failure nothing is left behind. The same arrays give the same bytes.
PB_API PB_NODISCARD pbStatus pbArrays_SaveNpz(const pbArrays *set, const char *path, bool compressed);
PB_API PB_NODISCARD pbStatus pbArrays_SaveNpy(const pbArrays *set, const char *path);

// pb_bad_input with array and place where a value is NaN or infinite. `file` is named in the text.
PB_API PB_NODISCARD pbStatus pbArray_CheckFinite(pbContext *ctx, const pbArray *array, const char *file);
// "(10, 3)", "()", "(5,)" into text; returns text.
PB_API char *pbArray_ShapeText(int ndim, const size_t *shape, char *text, size_t size);
// "has shape (10, 3)", or "is text", of what is not what was expected; returns text.
PB_API char *pbArray_What(const pbArray *array, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
