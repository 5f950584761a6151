// A model with parameters as an MJCF file, and what such a file cannot say: the file's own model is made and compared.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pullback/contact.h>
#include <pullback/edit.h>
#include <pullback/io.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/mjcf/mjcf_write.h"

enum { MOST_ROWS = 4 };  // of a field that are told one by one

typedef struct Export {
  pbContext *ctx;
  const pbModel *model, *made;  // and the one that the file is of
  const double *theta;
  FILE *unsaid;
} Export;

// ---- parameters -----------------------------------------------------------------------------------------------------------
static bool same(double a, double b) { return fabs(a - b) <= 1e-14 * fmax(1, fabs(a)); }

// Directions may have any length.
static double length_of(const pbParam *p, const double *row) {
  double sum = 0;

  if (p->moves != pb_movesAxis && p->moves != pb_movesQuaternion) return 1;
  for (int k = 0; k < p->cols; k++) sum += row[k] * row[k];
  return sqrt(sum);
}

// ---- shapes: what moves nothing in the file has no shape there, and a changed one has another frame
static bool is_changed(const Export *e, const char *field, int row) {
  pbParam p;

  if (pbModel_Param(NULL, e->model, field, &p) != pb_ok || row >= p.rows) return false;

  // row -1: any of them.
  size_t first = p.offset + (size_t)(row < 0 ? 0 : row * p.cols), count = (size_t)((row < 0 ? p.rows : 1) * p.cols);
  return memcmp(e->theta + first, pbModel_DefaultParams(e->model) + first, count * sizeof *e->theta) != 0;
}

static bool is_shape_changed(const Export *e, int geom, int shape) {
  char exposed[400];
  bool mesh = pbModel_Integer(e->model, "geom_type", geom) == pb_geomMesh;

  snprintf(exposed, sizeof exposed, "%s:%s", mesh ? "mesh_vert" : "hfield_data",
           pbModel_Name(e->model, mesh ? pb_objMesh : pb_objHfield, shape));

  // A parameter of the mesh, or a point on request.
  bool moved =
      mesh && (is_changed(e, "mesh_scale", shape) || is_changed(e, "mesh_refpos", shape) || is_changed(e, "mesh_refquat", shape));
  return moved || is_changed(e, exposed, -1);
}

// Vertices that stand in the file have scale and reference in them.
static int other_mesh(const Export *e, int mesh) {
  char exposed[400];
  const char *name = pbModel_Name(e->model, pb_objMesh, mesh);
  snprintf(exposed, sizeof exposed, "mesh_vert:%s", name);
  return is_changed(e, exposed, -1) ? -1 : pbModel_Id(e->made, pb_objMesh, name);
}

// The row of the file's model, -1: of which nothing can be said.
static int other_row(const Export *e, const pbParam *p, int row) {
  if (p->rows_are == pb_objMesh) return other_mesh(e, row);
  bool placed = !strcmp(p->name, "geom_pos") || !strcmp(p->name, "geom_quat") || !strcmp(p->name, "geom_size");

  // Other fields of geoms, and geoms without a shape of their own, compare as they are.
  int shape = placed ? pbModel_Integer(e->model, "geom_dataid", row) : -1;
  if (shape < 0) return row;
  return pbModel_Integer(e->made, "geom_dataid", row) < 0 || is_shape_changed(e, row, shape) ? -1 : row;
}

// ---- field by field
static bool same_row(const Export *e, const pbParam *p, const pbParam *q, int row) {
  int other = other_row(e, p, row);
  const double *a = e->theta + p->offset + (size_t)row * (size_t)p->cols;
  const double *b = pbModel_DefaultParams(e->made) + q->offset + (size_t)other * (size_t)q->cols;

  if (other < 0) return true;

  // The last number of a weld says how the others came about.
  double length = length_of(p, a);
  int cols = p->moves == pb_movesWelds ? p->cols - 1 : p->cols;
  for (int k = 0; k < cols; k++) {
    if (!same(fabs(length - 1) > 1e-14 ? a[k] / length : a[k], b[k])) return false;
  }

  return true;
}

static void say_row(const Export *e, const pbParam *p, const pbParam *q, int row) {
  size_t a = p->offset + (size_t)row * (size_t)p->cols, b = q->offset + (size_t)other_row(e, p, row) * (size_t)p->cols;

  // Entry by entry, by its name.
  for (int k = 0; k < p->cols; k++, a++, b++) {
    double here = e->theta[a], there = pbModel_DefaultParams(e->made)[b];
    char name[600];
    if (same(here, there)) continue;
    fprintf(e->unsaid, "%s: %.10g, in the file %.10g\n", pbModel_ParamName(e->model, a, name, sizeof name), here, there);
  }
}

static void say_missing(const Export *e, const pbParam *p) {
  bool exposed = !strncmp(p->name, "mesh_vert:", 10) || !strncmp(p->name, "hfield_data:", 12);
  if (exposed && is_changed(e, p->name, -1)) fprintf(e->unsaid, "%s: files have them in single precision\n", p->name);
}

static void compare_field(const Export *e, const pbParam *p) {
  pbParam q;
  int unlike = 0;

  bool there = pbModel_Param(NULL, e->made, p->name, &q) == pb_ok && q.cols == p->cols &&
               (q.rows == p->rows || (p->rows_are == pb_objMesh && q.rows));
  if (!there) {
    say_missing(e, p);
    return;
  }

  // How many, before any is told.
  for (int i = 0; i < p->rows; i++) unlike += !same_row(e, p, &q, i);
  if (!unlike) return;

  // What follows from other parameters is told once.
  if (p->derived || unlike > MOST_ROWS) {
    fprintf(e->unsaid, "%s: %d of %d rows %s\n", p->name, unlike, p->rows,
            p->derived ? "follow from other parameters in the file (--constants recompute)" : "are others in the file");
    return;
  }

  for (int i = 0; i < p->rows; i++) {
    if (!same_row(e, p, &q, i)) say_row(e, p, &q, i);
  }
}

// ---- what is no parameter ---------------------------------------------------------------------------------------------------
typedef bool setting_at(const pbModel *model, int index, const char **name, char *text, size_t size);

// When the solver ends: the file says it, and whoever loads it asks for it (--option tolerance=file).
static bool is_of_solver(const char *name) {
  return !strcmp(name, "tolerance") || !strcmp(name, "iterations") || !strcmp(name, "ls_iterations");
}

static void compare_settings(const Export *e, const char *kind, setting_at *at) {
  const char *name, *other;
  char here[4096], there[4096];

  // Both models have the same settings in the same order.
  for (int i = 0; at(e->model, i, &name, here, sizeof here); i++) {
    if (is_of_solver(name)) continue;
    if (at(e->made, i, &other, there, sizeof there) && strcmp(here, there) != 0)
      fprintf(e->unsaid, "%s %s=%.200s: in the file %.200s\n", kind, name, here, there);
  }
}

static void compare(const Export *e) {
  pbDeformInfo deform;
  pbPolicyInfo policy;

  if (pbModel_DeformInfo(e->model, &deform)) fprintf(e->unsaid, "deformables: %d points\n", deform.points);
  if (pbModel_PolicyInfo(e->model, &policy)) fprintf(e->unsaid, "the policy '%s'\n", policy.name);

  // What they bring of parameters is told with them.
  for (int i = 0; i < pbModel_ParamCount(e->model); i++) {
    pbParam p = pbModel_ParamAt(e->model, i);
    if (p.rows && p.cols) compare_field(e, &p);
  }
  compare_settings(e, "--option", pbModel_OptionAt);
  compare_settings(e, "--contact", pbModel_ContactSettingAt);
}

// A model that nobody could make of the file is an error, with the compiler's reason.
static pbStatus say_unsaid(pbContext *ctx, const pbModel *model, const double *theta, const pbSpec *spec, FILE *unsaid) {
  pbModel *made;
  char why[800];
  pbStatus status = pbSpec_Compile(spec, &made);

  if (status == pb_no_memory) return status;

  // A copy: the error is written over itself.
  snprintf(why, sizeof why, "%s", pbContext_Error(ctx));
  if (status != pb_ok) return pbContext_Fail(ctx, pb_unsupported, "no MJCF file could be loaded with this model: %s", why);

  compare(&(Export){.ctx = ctx, .model = model, .made = made, .theta = theta, .unsaid = unsaid});
  pbModel_Destroy(made);
  return pb_ok;
}

// ---- the file ---------------------------------------------------------------------------------------------------------------
// Real path of the folder that a file lies in, "" where that is not there, or no folder.
static void find_folder(const char *path, char folder[PATH_MAX]) {
  char name[PATH_MAX];
  const char *slash = strrchr(path, '/');

  PB_ASSERT(path[0]);
  snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");

  // To a pipe files are named from the root on.
  if (!strncmp(path, "/dev/", 5) || !realpath(name, folder)) folder[0] = 0;
}

static bool is_same_file(const struct stat *one, const char *other) {
  struct stat info;
  return stat(other, &info) == 0 && info.st_dev == one->st_dev && info.st_ino == one->st_ino;
}

// No file that the model was read from is written over: its comments, defaults and includes would be gone, and what was measured
// with it could not be repeated.
static pbStatus refuse_own(pbContext *ctx, pbSpec *spec, const char *path) {
  struct stat info;
  const char *seen = NULL;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return pb_ok;

  for (int kind = 0; kind < pb_specElements; kind++) {
    int count = pbSpec_Count(spec, (pbSpecKind)kind);
    for (int i = 0; i < count; i++) {
      const pbFrameDef *any = pbSpec_At(spec, (pbSpecKind)kind, i);  // all begin alike
      const char *file = any->place.file;
      if (!file || (seen && strcmp(file, seen) == 0)) continue;
      if (is_same_file(&info, file))
        return pbContext_Fail(ctx, pb_bad_input, "%s: the model was read from this file: write another", path);
      seen = file;
    }
  }

  return pb_ok;
}

static pbStatus write_file(pbContext *ctx, const pbSpec *spec, const char *path, FILE *unsaid) {
  char folder[PATH_MAX], *text = NULL;
  size_t size = 0;
  pbDraft draft;

  find_folder(path, folder);
  PB_TRY(pbDraft_Begin(ctx, &draft));

  pbMjcfWriter writer = {.spec = spec, .folder = folder[0] ? folder : NULL, .out = draft.stream, .unsaid = unsaid};
  pbStatus status = pbMjcf_Write(&writer);
  if (status == pb_ok) status = pbDraft_End(&draft, &text, &size);
  else pbDraft_Drop(&draft);

  // Whole, or as it was.
  if (status == pb_ok) status = pbFile_Write(ctx, path, text, size);
  pbContext_Free(ctx, text);
  return status;
}

pbStatus pbModel_SaveMjcf(pbContext *ctx, const pbModel *model, const double *theta, const char *path, char **unsaid) {
  pbSpec *spec;
  pbDraft lines;

  *unsaid = NULL;
  // The spec, what it cannot say, then the file: nothing is written of what could not be read.
  if (!theta) theta = pbModel_DefaultParams(model);
  PB_TRY(pbModel_Spec(ctx, model, theta, &spec));

  pbStatus status = refuse_own(ctx, spec, path);
  if (status == pb_ok) status = pbDraft_Begin(ctx, &lines);
  if (status == pb_ok) {
    status = say_unsaid(ctx, model, theta, spec, lines.stream);
    if (status == pb_ok) status = write_file(ctx, spec, path, lines.stream);
    if (status == pb_ok) status = pbDraft_End(&lines, unsaid, NULL);
    else pbDraft_Drop(&lines);
  }

  pbSpec_Destroy(spec);
  return status;
}
