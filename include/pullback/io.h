// Pullback: files. Models (MJCF, URDF) and deformables in; whole files out.
// A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_IO_H
#define PULLBACK_IO_H

#include <stdio.h>

#include <pullback/deform.h>
#include <pullback/model.h>
#include <pullback/enums.h>
#include <pullback/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbSpec pbSpec;  // spec.h

// What becomes of a collision mesh of URDF whose file is not there.
typedef enum pbMissingMeshes {
  pb_missingRefuse,  // an error that names the file
  pb_missingSkip     // a warning: the link goes without it
} pbMissingMeshes;

// Of URDF alone (docs/urdf.md): what an MJCF file says itself. pb_bad_argument where a file of another kind is given more than a
// package_path.
typedef struct pbUrdfOptions {
  const char *package_path;  // folders with ROS packages, ':' between them, which go before those of the environment; or NULL
  bool floating_base;        // the root link moves freely; else it stands still
  bool fuse;                 // links behind fixed joints become part of their parents
  bool motors;               // a motor on each joint that mimics none: its control is the joint's force
  pbInertiaRule inertia;     // of links whose inertia no body has
  pbMissingMeshes missing_meshes;
} pbUrdfOptions;

typedef struct pbLoadOptions {
  // Further folders that files may be read from, with ':' between them; NULL: the model's own folder only.
  const char *allow_root;
  // Meshes that are only seen are read, too (one that cannot be is a warning), and the model keeps what all of them look like:
  // pbModel_MeshSurface. Else it keeps none.
  bool surfaces;
  // Masses and frames follow the parameters of meshes, and densities are parameters (pbModel_SetConstants). pb_unsupported, with
  // the body, where they cannot.
  bool design;
  pbUrdfOptions urdf;
} pbLoadOptions;

// Read a model into a spec: URDF where the root element is <robot>, else MJCF; errors name file, line, column and element in the
// context's text, and its warnings what was left out.
PB_API PB_NODISCARD pbStatus pbSpec_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec);
// The same of a text, which can name no other files. `name` stands in messages.
PB_API PB_NODISCARD pbStatus pbSpec_Parse(pbContext *ctx, const char *text, size_t length, const char *name,
                                          const pbLoadOptions *options, pbSpec **spec);

// Read MJCF into a spec; errors name file, line, column and element in the context's text.
PB_API PB_NODISCARD pbStatus pbSpec_LoadMjcf(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec);
PB_API PB_NODISCARD pbStatus pbSpec_ParseMjcf(pbContext *ctx, const char *text, size_t length, const char *name, pbSpec **spec);
// Deformables (docs/deformables.md): a file with the object that "deformables" of a task is, or with such a task.
// `model`: whose bodies and geoms they hang on and meet; NULL: of none.
PB_API PB_NODISCARD pbStatus pbDeformable_Load(pbContext *ctx, const pbModel *model, const char *path,
                                               const pbLoadOptions *options, pbDeformable **deformable);
// Load and compile in one go. A name that ends in .json is a task (docs/task.md), of which the world is taken: model, deformables,
// options, contact and parameters.
PB_API PB_NODISCARD pbStatus pbModel_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model);
// The same; the model keeps what it was made from (pbModel_SaveMjcf, pbModel_Spec).
PB_API PB_NODISCARD pbStatus pbModel_LoadWhole(pbContext *ctx, const char *path, const pbLoadOptions *options, pbModel **model);

// A model with parameters theta (ParamSize; NULL: its own) as an MJCF file, whole or not at all, whose every number gives its
// double back (docs/export.md). Meshes, height fields and textures are named by their files, as seen from the new one; what no
// file has stands in it. *unsaid: lines with what MJCF cannot say, "" where it says all, the caller's to free (pbContext_Free);
// NULL on failure. pb_bad_argument: the model did not keep what it was made from (pbModel_LoadWhole, pbSpec_KeepSource).
// pb_bad_input: it was read from this very file. pb_unsupported, with the reason: it could not be loaded again.
PB_API PB_NODISCARD pbStatus pbModel_SaveMjcf(pbContext *ctx, const pbModel *model, const double *theta, const char *path,
                                              char **unsaid);

// Policies (policy.h; docs/policies.md) from files, once a model and before its first scratch. A JSON file holds the object
// that "policy" of a task is, or a task that has one; an NPZ, as pbPolicy_Save writes it, holds description and weights, and
// its weights become the model's defaults (pbModel_DefaultParams). The model owns the networks. Where it has a policy
// already, as that of its task, it keeps it and takes the weights of an NPZ with the same description. pb_bad_input, with the
// place: unknown keys and names, layers that do not fit, slices that are missing, of another shape or not finite, another
// description than the model's.
PB_API PB_NODISCARD pbStatus pbPolicy_Load(pbModel *model, const char *path, const pbLoadOptions *options);
// The same from the text of such an object; files may not be named in it. `name` stands in messages.
PB_API PB_NODISCARD pbStatus pbPolicy_Parse(pbModel *model, const char *text, size_t length, const char *name);
// The description of the model's policy as JSON on one line; NULL where there is none, or where it was set in C.
PB_API const char *pbPolicy_Text(const pbModel *model);
// Description and the weights in theta (ParamSize) as an NPZ that pbPolicy_Load reads: one file is a controller. pb_bad_argument
// where the model has no policy with a description.
PB_API PB_NODISCARD pbStatus pbPolicy_Save(pbContext *ctx, const pbModel *model, const double *theta, const char *path);
// The model's policy with its weights in theta (NULL: its own) as a file of C99 of its own, with a function and a struct for its
// memory that are called as the file is, and the bits of the simulation (docs/export.md#a-policy-as-c). pb_bad_argument: there is
// no policy with a description, or a weight is not finite; pb_unsupported: a layer that has no such form, by its kind.
PB_API PB_NODISCARD pbStatus pbPolicy_SaveC(pbContext *ctx, const pbModel *model, const double *theta, const char *path);
// What the policy computes, layer by layer, as JSON, for who writes it in another language (Python: ONNX). "observe" and "output"
// say what is given and what comes out, with scales; "layers" are in the order in which they run, each with the numbers of those
// whose outputs it takes ("of"; 0: the observations, 1: the first layer) and where its parameters stand in theta ("param",
// "params"); the last is what the policy decides. theta (NULL: the model's own) gives the time step. *text is the caller's to
// free (pbContext_Free). pb_bad_argument: there is no policy with a description; pb_unsupported: a part acts in every step.
PB_API PB_NODISCARD pbStatus pbPolicy_Layout(pbContext *ctx, const pbModel *model, const double *theta, char **text);

// A file of these bytes that appears whole or not at all: written beside its place under another name, then renamed; on failure
// nothing is left behind. A device or pipe is written directly. pb_file with the reason; a pipe that nobody reads: pb_interrupted
// by a signal, one that is held back (SIGINT, SIGTERM, SIGHUP) included. What is replaced leaves its permissions to the new file.
PB_API PB_NODISCARD pbStatus pbFile_Write(pbContext *ctx, const char *path, const void *bytes, size_t size);
// Whether the file could be written, asked before the work that is to be written; a device or pipe is left alone.
PB_API PB_NODISCARD pbStatus pbFile_CanWrite(pbContext *ctx, const char *path);

// A text in the making: what is printed into its stream grows in memory of the context. It stays where it is from Begin to End or
// Drop. Unlike a memory stream of the C library it does not lose without a word what there is no memory for.
typedef struct pbDraft {
  FILE *stream;  // print here; errors are found by End
  pbContext *ctx;
  char *text;  // its own, as all that follows
  size_t length, room;
  bool failed;
} pbDraft;

// pb_no_memory without one; then there is nothing to end.
PB_API PB_NODISCARD pbStatus pbDraft_Begin(pbContext *ctx, pbDraft *draft);
// The text, zero-terminated, which the caller frees (pbContext_Free), and its length (NULL: not wanted). pb_no_memory where
// there was none for part of it. Nothing is left to drop either way.
PB_API PB_NODISCARD pbStatus pbDraft_End(pbDraft *draft, char **text, size_t *size);
PB_API void pbDraft_Drop(pbDraft *draft);  // of all zeros, ended or dropped: nothing

#ifdef __cplusplus
}
#endif
#endif
