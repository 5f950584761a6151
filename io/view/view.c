// A page with the shapes of a model, the motion of its bodies, and the library that draws them.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py, tests/oracle/test_ghost.py.
#include <stdlib.h>
#include <string.h>

#include "io/view/page.h"
#include "io/view/view.h"

// ---- the page ------------------------------------------------------------------------------------------------------

static void put_panel(const pbSidePanel *panel, pbJson *j) {
  pbJson_Open(j, "panel", '{');
  pbJson_Text(j, "title", panel->title);
  pbJson_Text(j, "text", panel->text);
  pbJson_Text(j, "axis", panel->axis);

  pbJson_Open(j, "curves", '[');
  for (int i = 0; i < panel->curves; i++) {
    const pbCurve *c = &panel->curve[i];
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", c->name);
    pbJson_Numbers(j, "x", c->x, (size_t)c->count);
    pbJson_Numbers(j, "y", c->y, (size_t)c->count);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
  if (panel->no_motion) pbJson_Text(j, "no_motion", panel->no_motion);
  pbJson_Close(j, '}');
}

static pbStatus put_data(const void *user, FILE *out) {
  const View *v = user;
  pbJson j = {.out = out};
  pbJson_Open(&j, NULL, '{');
  pbJson_Text(&j, "title", pbPage_Name(v->scene->path));
  pbJson_Text(&j, "version", pbVersion());
  if (v->panel) put_panel(v->panel, &j);
  if (v->frames) {
    PB_TRY(pbView_PutScene(v, &j));
    PB_TRY(pbView_PutMotion(v, &j));
    PB_TRY(pbView_PutSeries(v, &j));
  }
  pbJson_Close(&j, '}');
  return pb_ok;
}

// The library's text; where it is a module, its list of exports becomes an object as the older form has it.
static void put_library(const char *library, FILE *out) {
  const char *exports = NULL;

  for (const char *at = library; (at = strstr(at, "\nexport {")) != NULL; at++) exports = at;
  if (!exports) {
    fputs(library, out);
    return;
  }

  fputs("(function () {", out);
  fwrite(library, 1, (size_t)(exports - library), out);
  fputs("\nwindow.THREE = {", out);

  // `name` stays, `name as other` turns round
  for (const char *at = exports + strlen("\nexport {"); *at && *at != '}';) {
    at += strspn(at, " \n\t,");
    int inner = (int)strcspn(at, " \n\t,}"), length = inner, skip = 0;
    const char *outer = at, *end = at + inner;
    if (sscanf(end, " as %*s%n", &skip) >= 0 && skip) {
      outer = end + strlen(" as ");
      length = (int)strcspn(outer, " \n\t,}");
      end = outer + length;
    }
    if (inner) fprintf(out, "%.*s: %.*s, ", length, outer, inner, at);
    at = end;
  }
  fputs("};\n}());", out);
}

// The page of the viewer with a library, "" for none.
static pbStatus put_page(const View *v, const char *library, FILE *out) {
  const pbPagePart part[] = {{.mark = "title", .text = pbPage_Name(v->scene->path), .put = pbPage_PutText},
                             {.mark = "style", .text = pb_asset_page_css},
                             {.mark = "charts", .text = pb_asset_charts_js},
                             {.mark = "three", .text = library, .put = put_library},
                             {.mark = "script", .text = pb_asset_view_js}};
  return pbPage_Fill(pb_asset_view_html, part, sizeof part / sizeof *part, put_data, v, out);
}

// The whole of a file, zero-terminated; NULL where it cannot be read or is longer than any script.
static char *read_text(pbContext *ctx, const char *path) {
  enum { MOST_SCRIPT = 16 << 20 };
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;

  bool good = fseek(file, 0, SEEK_END) == 0;
  long size = good ? ftell(file) : -1;
  good = size >= 0 && size <= MOST_SCRIPT && fseek(file, 0, SEEK_SET) == 0;
  char *text = good ? pbContext_Alloc(ctx, (size_t)size + 1) : NULL;

  if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
    pbContext_Free(ctx, text);
    text = NULL;
  }
  fclose(file);
  return text;
}

static pbStatus find_library(View *v, const char **library) {
  static const char *const paths[] = {"/usr/share/javascript/three/three.min.js", "/usr/share/nodejs/three/build/three.min.js"};
  *library = pb_asset_three_js;
  if (!pb_asset_view_html[0] || !pb_asset_view_js[0])
    return pbContext_Fail(v->scene->ctx, pb_unsupported, "this program was built without the page of the viewer");

  // built into the program, else where Debian's package has it
  if (**library) return pb_ok;

  for (size_t i = 0; i < sizeof paths / sizeof *paths && !v->library; i++) v->library = read_text(v->scene->ctx, paths[i]);
  if (v->library) {
    *library = v->library;
    return pb_ok;
  }

  return pbContext_Fail(v->scene->ctx, pb_file,
                        "three.js not found: it was missing when the program was built, and %s does not exist "
                        "(Debian: apt install libjs-three)",
                        paths[0]);
}

// The shapes that are in the page.
static pbStatus choose_shapes(View *v) {
  int all = pbScene_Shapes(v->scene);
  v->shape = pbContext_Alloc(v->scene->ctx, ((size_t)all + 1) * sizeof *v->shape);
  if (!v->shape) return pbScene_NoMemory(v->scene->ctx);

  for (int i = 0; i < all; i++) {
    pbSceneShape s = pbScene_Shape(v->scene, i);
    bool wanted = v->shapes == view_all || s.site || s.collides;
    if (wanted && !s.hidden) v->shape[v->shape_count++] = s;
  }
  return pb_ok;
}

// Without the library a page still says what stands beside the motion, and why there is none.
static pbStatus put_view(View *v, FILE *out) {
  const char *library = NULL;
  pbSidePanel without;

  pbStatus status = find_library(v, &library);
  if (status == pb_file && v->panel) {
    without = *v->panel;
    without.no_motion = pbContext_Error(v->scene->ctx);
    v->panel = &without;
    return put_page(v, "", out);
  }
  PB_TRY(status);

  if (v->trajectory) {
    PB_TRY(choose_shapes(v));
    PB_TRY(pbView_ReadMotion(v));
  }
  return put_page(v, v->trajectory ? library : "", out);
}

static void clear_view(View *v) {
  pbContext *ctx = v->scene->ctx;
  void *memory[] = {v->shape,    v->row_of, v->time,    v->poses,      v->contact_start,
                    v->contacts, v->places, v->library, v->ghost.qpos, v->ghost.joint};

  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
  pbCells_Clear(ctx, &v->skin);
  pbMesh_Destroy(v->mesh);
}

static pbStatus put_and_clear(View *v, FILE *out) {
  pbStatus status = put_view(v, out);
  clear_view(v);
  return status;
}

pbStatus pbPage_Put(pbScene *scene, const pbArrays *trajectory, const char *file, const pbSidePanel *panel, FILE *out) {
  View v = {.scene = scene, .trajectory = trajectory, .file = file, .panel = panel, .moving = true};
  return put_and_clear(&v, out);
}

pbStatus pbPage_PutInset(pbScene *scene, const pbArrays *trajectory, const pbArrays *ghost, double start, FILE *out) {
  View v = {.scene = scene,
            .trajectory = trajectory,
            .file = "the motion that was found",
            .moving = true,
            .inset = true,
            .ghost = {.set = ghost, .file = "the recording", .start = start}};
  return put_and_clear(&v, out);
}

pbStatus pbView_Page(pbContext *ctx, const pbShown *shown, const pbArrays *trajectory, const char *file, FILE *out) {
  pbScene scene;
  View v = {.scene = &scene,
            .trajectory = trajectory,
            .file = file ? file : shown->path,
            .shapes = shown->collision ? view_collision : view_all,
            .moving = file != NULL,
            .ghost = {.set = shown->ghost, .file = shown->ghost_file, .start = shown->ghost_start}};

  pbStatus status = pbScene_Of(ctx, shown, &scene);
  if (status == pb_ok) status = put_and_clear(&v, out);
  pbScene_End(&scene);
  return status;
}

// ---- the model at its start --------------------------------------------------------------------------------------------

static pbStatus add_mocap(const pbModel *model, const double *theta, int keyframe, pbArrays *set) {
  size_t nmocap = (size_t)pbModel_Size(model, "nmocap");
  double *pos, *quat;
  if (!nmocap) return pb_ok;

  PB_TRY(pbArrays_AddReals(set, "mocap_pos", 3, (size_t[]){1, nmocap, 3}, NULL, &pos));
  PB_TRY(pbArrays_AddReals(set, "mocap_quat", 3, (size_t[]){1, nmocap, 4}, NULL, &quat));
  pbModel_MocapPose(model, theta, keyframe, pos, quat);
  return pb_ok;
}

pbStatus pbView_Start(pbContext *ctx, const pbModel *model, const double *theta, int keyframe, pbArrays *set) {
  double *x = pbContext_Alloc(ctx, ((size_t)pbModel_StateSize(model) + 1) * sizeof *x);
  pbStatus status = x ? pbState_Init(ctx, model, theta, keyframe, x) : pbScene_NoMemory(ctx);

  for (int i = 0; status == pb_ok && i < pbModel_StateFieldCount(model); i++) {
    pbStateField f = pbModel_StateFieldAt(model, i);
    int ndim = strcmp(f.name, "time") == 0 ? 1 : 2;
    status = pbArrays_AddReals(set, f.name, ndim, (size_t[]){1, (size_t)f.size}, x + f.offset, NULL);
  }

  pbContext_Free(ctx, x);
  return status == pb_ok ? add_mocap(model, theta, keyframe, set) : status;
}
