// Height fields as surfaces: the triangles that touch, walls to the bottom, and the bottom. Tests: tests/oracle/test_view.py.

#include "io/view/scene.h"

enum { MOST_CELLS = 1 << 19 };  // of larger fields every second, third, ... row and column is drawn

typedef struct Grid {  // of one field: what is drawn of it
  int rows, columns, rim;
  int field_rows, field_columns, every;
  const double *size, *height;
} Grid;

static const double *values_of(const pbScene *scene, const char *name) {
  pbParam param;
  pbField field;
  if (pbModel_Param(NULL, scene->model, name, &param) == pb_ok) return scene->theta + param.offset;
  return pbModel_Field(scene->model, name, &field) ? field.reals : NULL;
}

// Heights that were exposed are drawn as they are given.
static const double *heights_of(const pbScene *scene, int f) {
  const char *own = pbModel_Name(scene->model, pb_objHfield, f);
  char name[256];
  pbParam param;

  snprintf(name, sizeof name, "hfield_data:%.200s", own ? own : "");
  if (pbModel_Param(NULL, scene->model, name, &param) == pb_ok) return scene->theta + param.offset;
  return values_of(scene, "hfield_data") + pbModel_Integer(scene->model, "hfield_adr", f);
}

static Grid grid_of(const pbScene *scene, int f) {
  Grid g = {.field_rows = pbModel_Integer(scene->model, "hfield_nrow", f),
            .field_columns = pbModel_Integer(scene->model, "hfield_ncol", f)};

  // the last row and column are there whatever is left out
  do {
    g.every++;
    g.rows = (g.field_rows - 2) / g.every + 2;
    g.columns = (g.field_columns - 2) / g.every + 2;
  } while ((double)(g.rows - 1) * (g.columns - 1) > MOST_CELLS);

  g.rim = 2 * (g.rows + g.columns) - 4;
  g.size = values_of(scene, "hfield_size") + 4 * (size_t)f;
  g.height = heights_of(scene, f);
  return g;
}

static void put_point(const Grid *g, int number, double x[3]) {
  int r = number / g->columns * g->every, c = number % g->columns * g->every;
  r = r < g->field_rows ? r : g->field_rows - 1;
  c = c < g->field_columns ? c : g->field_columns - 1;

  x[0] = g->size[0] * (2. * c / (g->field_columns - 1) - 1);
  x[1] = g->size[1] * (2. * r / (g->field_rows - 1) - 1);
  x[2] = g->size[2] * g->height[(size_t)r * (size_t)g->field_columns + (size_t)c];
}

// Number of the k-th point of the rim, counterclockwise seen from above.
static int rim_point(const Grid *g, int k) {
  int across = g->columns - 1, along = g->rows - 1, last = g->rows * g->columns - 1;
  if (k < across) return k;
  k -= across;
  if (k < along) return across + k * g->columns;
  k -= along;
  if (k < across) return last - k;
  return last - across - (k - across) * g->columns;
}

static int *put_triangle(int *to, int a, int b, int c) {
  to[0] = a;
  to[1] = b;
  to[2] = c;
  return to + 3;
}

static void put_triangles(const Grid *g, int *to) {
  int n = g->columns, below = g->rows * n;

  // the top, each cell cut as contacts see it
  for (int r = 0; r + 1 < g->rows; r++) {
    for (int c = 0; c + 1 < n; c++) {
      int at = r * n + c;
      to = put_triangle(to, at + n, at, at + n + 1);
      to = put_triangle(to, at, at + 1, at + n + 1);
    }
  }

  // walls, then two triangles for the bottom
  for (int k = 0; k < g->rim; k++) {
    int next = (k + 1) % g->rim;
    to = put_triangle(to, below + k, below + next, rim_point(g, next));
    to = put_triangle(to, below + k, rim_point(g, next), rim_point(g, k));
  }
  int right = below + n - 1, far = right + g->rows - 1, left = far + n - 1;
  put_triangle(put_triangle(to, below, far, right), below, left, far);
}

static pbStatus make_field(pbScene *scene, int f, pbMeshSurface *surface) {
  Grid g = grid_of(scene, f);
  int top = g.rows * g.columns;
  *surface = (pbMeshSurface){
      .name = "height field", .points = top + g.rim, .triangles = 2 * (g.rows - 1) * (g.columns - 1) + 2 * g.rim + 2};

  double *point = pbContext_Alloc(scene->ctx, (size_t)surface->points * 3 * sizeof *point);
  int *triangle = pbContext_Alloc(scene->ctx, (size_t)surface->triangles * 3 * sizeof *triangle);
  surface->point = point;
  surface->triangle = triangle;
  if (!point || !triangle) return pbScene_NoMemory(scene->ctx);

  for (int i = 0; i < top; i++) put_point(&g, i, point + 3 * i);
  for (int k = 0; k < g.rim; k++) {
    double *x = point + 3 * (top + k);
    put_point(&g, rim_point(&g, k), x);
    x[2] = -g.size[3];
  }
  put_triangles(&g, triangle);
  return pb_ok;
}

pbStatus pbScene_MakeFields(pbScene *scene) {
  int count = pbModel_Size(scene->model, "nhfield");
  if (count <= 0) return pb_ok;

  scene->drawn.field = pbContext_Alloc(scene->ctx, (size_t)count * sizeof *scene->drawn.field);
  if (!scene->drawn.field) return pbScene_NoMemory(scene->ctx);
  scene->drawn.fields = count;
  for (int f = 0; f < count; f++) PB_TRY(make_field(scene, f, &scene->drawn.field[f]));
  return pb_ok;
}

void pbScene_End(pbScene *scene) {
  for (int f = 0; f < scene->drawn.fields; f++) {
    pbContext_Free(scene->ctx, (void *)scene->drawn.field[f].point);
    pbContext_Free(scene->ctx, (void *)scene->drawn.field[f].triangle);
  }
  pbContext_Free(scene->ctx, scene->drawn.field);
  scene->drawn = (pbDrawn){0};
  pbScratch_Destroy(scene->scratch);
  scene->scratch = NULL;
}
