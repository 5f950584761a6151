// pullback view: one page with the model's shapes, the motion of its bodies, and the library that draws them; or a glTF file.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "view.h"

#ifdef PB_HAVE_ASSETS
extern const char pb_asset_three_js[], pb_asset_view_html[],
    pb_asset_view_js[];  // empty where the file was not there to be built in
#else
static const char pb_asset_three_js[] = "", pb_asset_view_html[] = "", pb_asset_view_js[] = "";
#endif

static const char *file_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

// ---- the page ------------------------------------------------------------------------------------------------------

static void put_aside(const cliAside *aside, cliJson *j) {
  cliJson_Open(j, "aside", '{');
  cliJson_Text(j, "title", aside->title);
  cliJson_Text(j, "text", aside->text);
  cliJson_Text(j, "axis", aside->axis);

  cliJson_Open(j, "curves", '[');
  for (int i = 0; i < aside->curves; i++) {
    const cliCurve *c = &aside->curve[i];
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", c->name);
    cliJson_Numbers(j, "x", c->x, (size_t)c->count);
    cliJson_Numbers(j, "y", c->y, (size_t)c->count);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
  if (aside->instead) cliJson_Text(j, "instead", aside->instead);
  cliJson_Close(j, '}');
}

static pbStatus put_data(const View *v, FILE *out) {
  cliJson j = {.out = out};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "title", file_name(v->run->model_path));
  cliJson_Text(&j, "version", pbVersion());
  if (v->aside) put_aside(v->aside, &j);
  if (v->frames) {
    PB_TRY(view_PutScene(v, &j));
    PB_TRY(view_PutMotion(v, &j));
    PB_TRY(view_PutSeries(v, &j));
  }
  cliJson_Close(&j, '}');
  return pb_ok;
}

static void put_html_text(FILE *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      default: fputc(*text, out);
    }
  }
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

// The page is a text with {{title}}, {{three}}, {{script}} and {{data}} in it.
static pbStatus put_page(const View *v, const char *page, const char *library, FILE *out) {
  for (const char *at = page; *at;) {
    const char *mark = strstr(at, "{{");
    if (!mark) mark = at + strlen(at);
    fwrite(at, 1, (size_t)(mark - at), out);
    at = mark;

    if (strncmp(at, "{{title}}", 9) == 0) {
      put_html_text(out, file_name(v->run->model_path));
      at += 9;
    } else if (strncmp(at, "{{three}}", 9) == 0) {
      put_library(library, out);
      at += 9;
    } else if (strncmp(at, "{{script}}", 10) == 0) {
      fputs(pb_asset_view_js, out);
      at += 10;
    } else if (strncmp(at, "{{data}}", 8) == 0) {
      PB_TRY(put_data(v, out));
      at += 8;
    } else if (*at) {
      // braces of the page's own scripts
      fwrite(at, 1, 2, out);
      at += 2;
    }
  }
  return pb_ok;
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
    return pbContext_Fail(v->run->ctx, pb_unsupported, "this program was built without the page of the viewer");

  // built into the program, else where Debian's package has it
  if (**library) return pb_ok;

  for (size_t i = 0; i < sizeof paths / sizeof *paths && !v->library; i++) v->library = read_text(v->run->ctx, paths[i]);
  if (v->library) {
    *library = v->library;
    return pb_ok;
  }

  return pbContext_Fail(v->run->ctx, pb_file,
                        "three.js not found: it was missing when the program was built, and %s does not exist "
                        "(Debian: apt install libjs-three)",
                        paths[0]);
}

// The shapes that are in the page.
static pbStatus choose_shapes(View *v) {
  int all = cliScene_Shapes(v->run);
  v->shape = pbContext_Alloc(v->run->ctx, ((size_t)all + 1) * sizeof *v->shape);
  if (!v->shape) return cli_noMemory(v->run->ctx);

  for (int i = 0; i < all; i++) {
    cliShape s = cliScene_Shape(v->run, i);
    bool wanted = v->shapes == view_all || s.site || s.collides;
    if (wanted && !s.hidden) v->shape[v->shape_count++] = s;
  }
  return pb_ok;
}

// Without the library a page still says what stands beside the motion, and why there is none.
static pbStatus put_view(View *v, FILE *out) {
  const char *library = NULL;
  cliAside without;

  pbStatus status = find_library(v, &library);
  if (status == pb_file && v->aside) {
    without = *v->aside;
    without.instead = pbContext_Error(v->run->ctx);
    v->aside = &without;
    return put_page(v, pb_asset_view_html, "", out);
  }
  PB_TRY(status);

  if (v->trajectory) {
    PB_TRY(cliScene_Begin(v->run));
    PB_TRY(choose_shapes(v));
    cliProgress_Begin(&v->run->progress, v->run->app, "view");
    PB_TRY(view_ReadMotion(v));
    cliProgress_End(&v->run->progress);
  }
  return put_page(v, pb_asset_view_html, v->trajectory ? library : "", out);
}

static void clear_view(View *v) {
  pbContext *ctx = v->run->ctx;
  void *memory[] = {v->shape, v->row_of, v->time, v->poses, v->contact_start, v->contacts, v->places, v->library};

  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
  pbCells_Clear(ctx, &v->skin);
  pbMesh_Destroy(v->mesh);
}

pbStatus cliPage_Put(cliRun *run, const pbArrays *trajectory, const char *file, const cliAside *aside, FILE *out) {
  View v = {.run = run, .trajectory = trajectory, .file = file, .aside = aside, .moving = true};

  pbStatus status = put_view(&v, out);
  clear_view(&v);
  return status;
}

// ---- the command -----------------------------------------------------------------------------------------------------

static pbStatus add_mocap(cliRun *run, int keyframe, pbArrays *set) {
  size_t nmocap = (size_t)pbModel_Size(run->model, "nmocap");
  double *pos, *quat;
  if (!nmocap) return pb_ok;

  PB_TRY(pbArrays_AddReals(set, "mocap_pos", 3, (size_t[]){1, nmocap, 3}, NULL, &pos));
  PB_TRY(pbArrays_AddReals(set, "mocap_quat", 3, (size_t[]){1, nmocap, 4}, NULL, &quat));
  pbModel_MocapPose(run->model, run->theta, keyframe, pos, quat);
  return pb_ok;
}

// The state at the start, as a trajectory of one row.
static pbStatus make_start(cliRun *run, pbArrays **set) {
  int keyframe = -1;
  PB_TRY(cliRun_ReadKeyframe(run, &keyframe));
  PB_TRY(pbArrays_Create(run->ctx, set));
  double *x = pbContext_Alloc(run->ctx, ((size_t)run->nx + 1) * sizeof *x);

  pbStatus status = x ? pbState_Init(run->ctx, run->model, run->theta, keyframe, x) : cli_noMemory(run->ctx);

  for (int i = 0; status == pb_ok && i < pbModel_StateFieldCount(run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(run->model, i);
    int ndim = strcmp(f.name, "time") == 0 ? 1 : 2;
    status = pbArrays_AddReals(*set, f.name, ndim, (size_t[]){1, (size_t)f.size}, x + f.offset, NULL);
  }

  pbContext_Free(run->ctx, x);
  return status == pb_ok ? add_mocap(run, keyframe, *set) : status;
}

static pbStatus read_shapes(const cliRun *run, viewShapes *shapes) {
  const char *text = run->app->args.text[opt_shapes];
  *shapes = text && strcmp(text, "collision") == 0 ? view_collision : view_all;
  if (!text || *shapes == view_collision || strcmp(text, "all") == 0) return pb_ok;
  return pbContext_Fail(run->ctx, pb_bad_argument, "--shapes: expected all or collision, found '%.60s'", text);
}

// Where no name is given: the model's, in the current folder.
static const char *page_name(const cliRun *run, char *text, size_t size) {
  const char *given = run->app->args.text[opt_output], *name = file_name(run->model_path), *dot = strrchr(name, '.');
  if (given) return given;

  snprintf(text, size, "%.*s.html", (int)(dot && dot > name ? dot - name : (long)strlen(name)), name);
  fprintf(cli_err, "pullback: the page is %s\n", text);
  return text;
}

static pbStatus write_page(cliRun *run, const pbArrays *trajectory, const char *file) {
  View v = {.run = run, .trajectory = trajectory, .file = file ? file : run->model_path, .moving = file != NULL};
  PB_TRY(read_shapes(run, &v.shapes));
  char *page = NULL, name[600];
  size_t size = 0;
  FILE *stream = open_memstream(&page, &size);
  if (!stream) return cli_noMemory(run->ctx);

  pbStatus status = put_view(&v, stream);
  clear_view(&v);
  if (status == pb_ok) return cli_saveText(run->app, page_name(run, name, sizeof name), stream, &page, &size);
  fclose(stream);
  free(page);
  return status;
}

static pbStatus write_view(cliRun *run, pbArrays **trajectory) {
  const cliArgs *args = &run->app->args;
  const char *file = args->positionals > 1 ? args->positional[1] : NULL;
  if (file && args->text[opt_keyframe])
    return pbContext_Fail(run->ctx, pb_bad_argument, "--keyframe: a trajectory has its own states");
  PB_TRY(file ? pbArrays_Load(run->ctx, file, trajectory) : make_start(run, trajectory));

  // glTF alone where nothing else is asked for
  if (args->text[opt_output] || !args->text[opt_glb]) PB_TRY(write_page(run, *trajectory, file));
  if (!args->text[opt_glb]) return pb_ok;
  PB_TRY(pbScratch_Create(run->ctx, run->model, NULL, &run->scratch));
  return cliMotion_Write(run, *trajectory);
}

pbStatus cliView_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *trajectory = NULL;

  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok) status = write_view(&run, &trajectory);

  pbArrays_Destroy(trajectory);
  cliRun_End(&run);
  return status;
}
