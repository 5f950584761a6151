// COLLADA (DAE) as ROS reads it: the triangles and polygons of all geometries that the scene shows, by the matrices of their
// nodes, in metres. The up axis is ignored, lines are skipped, and points that no face has are left out.
// Tests: tests/oracle/test_dae.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/spec_names.h"
#include "io/mesh/mesh_reader.h"
#include "io/xml/xml.h"
#include "math/vec.h"
#include "mesh/mesh.h"

enum {
  MOST_DEPTH = 64,          // of nodes within nodes
  MOST_INSTANCES = 100000,  // of geometries: nodes that show a node more than once multiply
  MOST_CORNERS = 48 << 20,  // of all faces
  MOST_INPUTS = 64,         // numbers of a corner
  MOST_NUMBERS = 96 << 20,  // of all texts, each time that they are read
  MOST_BYTES = 128 << 20    // of a file
};

typedef struct Dae {
  pbMeshReader *r;
  pbXmlDocument document;
  const pbXmlNode **known;  // elements with an id
  int known_count;
  pbNames ids;
  double meter;  // what one unit is
  int instances, corners;
  int64_t numbers;  // read so far
} Dae;

typedef double Transform[12];  // rows of a 3 x 4 matrix

#define FAIL(node, ...)   pbXml_Fail(&d->document, pb_bad_input, node, __VA_ARGS__)
#define REFUSE(node, ...) pbXml_Fail(&d->document, pb_unsupported, node, __VA_ARGS__)
#define IS(node, text)    (!strcmp((node)->name, text))

static pbStatus no_memory(const Dae *d) { return pbMesh_NoMemory(d->r->ctx, d->r->name); }

// ---- elements -----------------------------------------------------------------------------------------------------------------

static const pbXmlNode *child_of(const pbXmlNode *node, const char *name) {
  for (const pbXmlNode *child = node ? node->first : NULL; child; child = child->next)
    if (IS(child, name)) return child;
  return NULL;
}

static bool note_ids(Dae *d, const pbXmlNode *node, int depth) {
  const char *id = pbXml_Get(node, "id");

  if (id && pbNames_Find(&d->ids, 0, id) < 0) {
    if (!pbNames_Set(&d->ids, 0, id, d->known_count)) return false;
    d->known[d->known_count++] = node;
  }

  // The XML reader bounds how deep elements are nested.
  for (const pbXmlNode *child = node->first; child; child = child->next)
    if (!note_ids(d, child, depth + 1)) return false;

  return true;
}

// The element that "#ID" of an attribute means, which is one of that name.
static pbStatus follow(Dae *d, const pbXmlNode *node, const char *attribute, const char *kind, const pbXmlNode **found) {
  const char *url = pbXml_Get(node, attribute);

  if (!url || *url != '#')
    return FAIL(node, "attribute '%s' is \"%.60s\", expected '#' and an id in this file", attribute, url ? url : "");

  // Of the right kind, too.
  int k = pbNames_Find(&d->ids, 0, url + 1);
  *found = k < 0 ? NULL : d->known[k];

  return *found && IS(*found, kind) ? pb_ok : FAIL(node, "there is no %s with the id '%.60s'", kind, url + 1);
}

// A whole number of an attribute.
static pbStatus whole(Dae *d, const pbXmlNode *node, const char *attribute, int otherwise, int most, int *value) {
  const char *text = pbXml_Get(node, attribute);
  char *end = NULL;
  *value = otherwise;
  if (!text) return pb_ok;

  // Nothing behind it.
  long given = strtol(text, &end, 10);
  if (end == text || *end || given < 0 || given > most)
    return FAIL(node, "attribute '%s' is \"%.40s\", expected a whole number from 0 to %d", attribute, text, most);
  *value = (int)given;

  return pb_ok;
}

// ---- numbers ------------------------------------------------------------------------------------------------------------------

// All numbers of an element's text; the caller frees them.
static pbStatus numbers_of(Dae *d, const pbXmlNode *node, double **values, int *count) {
  const char *bad = "", *text = node->text ? node->text : "";
  *values = NULL;
  if (!pbXml_Numbers(&d->document, text, NULL, 0, count, &bad))
    return FAIL(node, "holds \"%.20s\" where a finite number is expected", bad);
  if ((d->numbers += *count) > MOST_NUMBERS) return FAIL(node, "the scene shows more than %d numbers", MOST_NUMBERS);

  *values = pbContext_AllocArray(d->r->ctx, (size_t)*count + 1, sizeof **values);
  if (!*values) return no_memory(d);
  (void)pbXml_Numbers(&d->document, text, *values, *count, count, &bad);

  return pb_ok;
}

// The same as whole numbers from 0 to most - 1.
static pbStatus indices_of(Dae *d, const pbXmlNode *node, int **values, int *count) {
  double *numbers;
  pbStatus status = numbers_of(d, node, &numbers, count);
  *values = NULL;
  if (status == pb_ok && !(*values = pbContext_AllocArray(d->r->ctx, (size_t)*count + 1, sizeof **values))) status = no_memory(d);

  for (int i = 0; status == pb_ok && i < *count; i++) {
    bool good = numbers[i] >= 0 && numbers[i] < INT32_MAX && numbers[i] == floor(numbers[i]);
    if (good) (*values)[i] = (int)numbers[i];
    else status = FAIL(node, "holds %g where an index is expected", numbers[i]);
  }
  pbContext_Free(d->r->ctx, numbers);

  return status;
}

// What an element says of how many things it has, if it does.
static pbStatus check_count(Dae *d, const pbXmlNode *node, const char *what, int found) {
  int stated;
  PB_TRY(whole(d, node, "count", found, INT32_MAX, &stated));

  return stated == found ? pb_ok : FAIL(node, "attribute 'count' is %d, but it has %d %s", stated, found, what);
}

// ---- sources ------------------------------------------------------------------------------------------------------------------

typedef struct Positions {  // points of a source
  double *values;           // of its array, to be freed
  int count, stride, offset;
  int *place;  // of a point in the mesh, -1: not there yet
} Positions;

static void free_positions(const Dae *d, Positions *p) {
  pbContext_Free(d->r->ctx, p->values);
  pbContext_Free(d->r->ctx, p->place);
  *p = (Positions){0};
}

// What an accessor says of an array.
static pbStatus read_accessor(Dae *d, const pbXmlNode *source, Positions *p) {
  const pbXmlNode *accessor = child_of(child_of(source, "technique_common"), "accessor"), *array;
  int total = 0;

  if (!accessor) return FAIL(source, "has no accessor");

  PB_TRY(follow(d, accessor, "source", "float_array", &array));
  PB_TRY(whole(d, accessor, "count", 0, INT32_MAX / 64, &p->count));
  PB_TRY(whole(d, accessor, "stride", 1, 64, &p->stride));
  PB_TRY(whole(d, accessor, "offset", 0, INT32_MAX / 2, &p->offset));
  if (p->stride < 3) return FAIL(accessor, "expected three numbers for a point, found a stride of %d", p->stride);

  // All of its points lie in the array.
  PB_TRY(numbers_of(d, array, &p->values, &total));
  PB_TRY(check_count(d, array, "numbers", total));
  if ((double)p->offset + (double)p->stride * p->count > total)
    return FAIL(accessor, "asks for %d points of %d numbers, but the array has %d numbers", p->count, p->stride, total);

  return pb_ok;
}

static pbStatus read_positions(Dae *d, const pbXmlNode *vertices, Positions *p) {
  const pbXmlNode *input = NULL, *source;

  for (const pbXmlNode *child = vertices->first; child; child = child->next)
    if (IS(child, "input") && pbXml_Get(child, "semantic") && !strcmp(pbXml_Get(child, "semantic"), "POSITION")) input = child;
  if (!input) return FAIL(vertices, "has no input POSITION");

  // None is in the mesh yet.
  PB_TRY(follow(d, input, "source", "source", &source));
  PB_TRY(read_accessor(d, source, p));
  p->place = pbContext_AllocArray(d->r->ctx, (size_t)p->count + 1, sizeof *p->place);
  if (!p->place) return no_memory(d);
  for (int i = 0; i < p->count; i++) p->place[i] = -1;

  return pb_ok;
}

// ---- faces --------------------------------------------------------------------------------------------------------------------

typedef struct Faces {  // of one element
  const pbXmlNode *node;
  const int *index;  // numbers of its <p>
  int count;
  int width, vertex;  // numbers of a corner, and which of them is the point
  const double *at;   // Transform of the instance
  bool mirrored;      // by the transform: corners the other way round
  int faces;          // so far, but for fans and strips
  const Positions *from;
} Faces;

static double turned(const double *at, int row, const double x[3]) {
  return at[4 * row] * x[0] + at[4 * row + 1] * x[1] + at[4 * row + 2] * x[2] + at[4 * row + 3];
}

// The point of a corner in the mesh, added where it is new.
static pbStatus corner(Dae *d, const Faces *f, int k, int *point) {
  const Positions *p = f->from;
  int i = f->index[k * f->width + f->vertex];

  if (i >= p->count) return FAIL(f->node, "a face has point %d, but there are %d", i, p->count);

  PB_ASSERT(i >= 0);  // as indices_of takes them
  if (p->place[i] < 0) {
    const double *x = p->values + p->offset + (size_t)i * (size_t)p->stride;
    const double moved[3] = {turned(f->at, 0, x), turned(f->at, 1, x), turned(f->at, 2, x)};
    p->place[i] = d->r->mesh->points;
    PB_TRY(pbRead_AddPoint(d->r, moved));
  }
  PB_ASSERT(p->place[i] < d->r->mesh->points);
  *point = p->place[i];

  return pb_ok;
}

// A face of `corners` corners from the k-th on.
static pbStatus add_face(Dae *d, Faces *f, int k, int corners) {
  int polygon[PB_MESH_POLYGON];
  f->faces++;

  if (corners > PB_MESH_POLYGON) return FAIL(f->node, "a face has %d corners, more than %d", corners, PB_MESH_POLYGON);
  if ((d->corners += corners) > MOST_CORNERS)
    return FAIL(f->node, "the faces of all instances have more than %d corners", MOST_CORNERS);

  // Points and lines are not seen, but of a polygon's kind.
  for (int c = 0; c < corners; c++) PB_TRY(corner(d, f, k + (f->mirrored ? corners - 1 - c : c), &polygon[c]));
  if (corners < 3) return pb_ok;
  if (corners == 3) return pbRead_AddCell(d->r, pb_cellTriangle, polygon, 0);

  return d->r->rigid ? pbRead_CutPolygon(d->r, polygon, corners, 0) : pbRead_AddPolygon(d->r, polygon, corners, 0);
}

// Triangles that share their first corner (fans) or an edge with the one before (strips).
static pbStatus add_row(Dae *d, Faces *f, bool fan) {
  int corners = f->count / f->width;

  for (int k = 2; k < corners; k++) {
    int at[3] = {fan ? 0 : k - 2, k - 1, k}, polygon[3];

    // Every other triangle of a strip runs the other way round.
    bool back = f->mirrored != (!fan && k % 2 == 1);
    for (int c = 0; c < 3; c++) PB_TRY(corner(d, f, at[back ? 2 - c : c], &polygon[c]));
    PB_TRY(pbRead_AddCell(d->r, pb_cellTriangle, polygon, 0));
  }
  d->corners += corners;

  return d->corners > MOST_CORNERS ? FAIL(f->node, "the faces of all instances have more than %d corners", MOST_CORNERS) : pb_ok;
}

// One <p>: faces of three corners, of as many as <vcount> says, or one of all.
static pbStatus add_faces(Dae *d, Faces *f, const pbXmlNode *vcount) {
  int corners = f->count / f->width, used = 0, faces = 0;

  if (f->count % f->width) return FAIL(f->node, "has %d indices, which is no multiple of %d", f->count, f->width);
  if (IS(f->node, "trifans") || IS(f->node, "tristrips")) return add_row(d, f, IS(f->node, "trifans"));
  if (IS(f->node, "polygons")) return add_face(d, f, 0, corners);

  if (IS(f->node, "triangles")) {
    if (corners % 3) return FAIL(f->node, "has %d corners, which is no multiple of 3", corners);
    for (int k = 0; k < corners; k += 3) PB_TRY(add_face(d, f, k, 3));
    return pb_ok;
  }

  // A polylist.
  int *counts;

  if (!vcount) return FAIL(f->node, "has no vcount");
  pbStatus status = indices_of(d, vcount, &counts, &faces);
  for (int i = 0; status == pb_ok && i < faces; i++) {
    if (counts[i] > corners - used) status = FAIL(f->node, "its vcount asks for more than %d corners", corners);
    else status = add_face(d, f, used, counts[i]);
    used += status == pb_ok ? counts[i] : 0;
  }
  if (status == pb_ok && used != corners) status = FAIL(f->node, "its vcount gives %d corners of %d", used, corners);
  pbContext_Free(d->r->ctx, counts);

  return status;
}

// ---- geometries ---------------------------------------------------------------------------------------------------------------

// How many numbers a corner has, and which is the point; its source.
static pbStatus read_inputs(Dae *d, Faces *f, Positions *p) {
  const pbXmlNode *vertices = NULL;
  f->width = 0;

  for (const pbXmlNode *input = f->node->first; input; input = input->next) {
    int offset;
    if (!IS(input, "input")) continue;
    PB_TRY(whole(d, input, "offset", 0, MOST_INPUTS - 1, &offset));
    f->width = offset + 1 > f->width ? offset + 1 : f->width;

    const char *semantic = pbXml_Get(input, "semantic");
    if (!semantic || strcmp(semantic, "VERTEX") != 0) continue;

    // The one that matters here.
    f->vertex = offset;
    PB_TRY(follow(d, input, "source", "vertices", &vertices));
  }

  return vertices ? read_positions(d, vertices, p) : FAIL(f->node, "has no input VERTEX");
}

static pbStatus read_primitive(Dae *d, const pbXmlNode *node, const double *at) {
  Positions p = {0};
  Faces f = {.node = node, .at = at, .from = &p};
  const double linear[9] = {at[0], at[1], at[2], at[4], at[5], at[6], at[8], at[9], at[10]};
  double cross[3];

  // A negative determinant.
  v3_cross(cross, linear, linear + 3);
  f.mirrored = v3_dot(cross, linear + 6) < 0;
  if (!child_of(node, "p")) return pb_ok;  // no faces

  pbStatus status = read_inputs(d, &f, &p);
  for (const pbXmlNode *child = node->first; status == pb_ok && child; child = child->next) {
    int *index = NULL;
    if (!IS(child, "p")) continue;
    status = indices_of(d, child, &index, &f.count);
    f.index = index;
    if (status == pb_ok) status = add_faces(d, &f, child_of(node, "vcount"));
    pbContext_Free(d->r->ctx, index);
  }
  if (status == pb_ok && (IS(node, "triangles") || IS(node, "polylist"))) status = check_count(d, node, "faces", f.faces);
  free_positions(d, &p);

  return status;
}

static pbStatus read_geometry(Dae *d, const pbXmlNode *geometry, const double *at) {
  static const char *const faces[] = {"triangles", "polylist", "polygons", "trifans", "tristrips"};
  const pbXmlNode *mesh = child_of(geometry, "mesh");

  if (!mesh) return REFUSE(geometry, "is no mesh");
  if (++d->instances > MOST_INSTANCES) return FAIL(geometry, "the scene shows more than %d geometries", MOST_INSTANCES);

  for (const pbXmlNode *node = mesh->first; node; node = node->next)
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
      if (IS(node, faces[i])) PB_TRY(read_primitive(d, node, at));

  return pb_ok;
}

// ---- nodes --------------------------------------------------------------------------------------------------------------------

// a * b, of which the last rows are 0 0 0 1.
static void compose(Transform out, const double *a, const double *b) {
  Transform product;

  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++)
      product[4 * i + j] = a[4 * i] * b[j] + a[4 * i + 1] * b[4 + j] + a[4 * i + 2] * b[8 + j] + (j == 3 ? a[4 * i + 3] : 0);
  memcpy(out, product, sizeof product);
}

// Axis and angle in degrees.
static void rotation(Transform out, const double v[4]) {
  double length = sqrt(v3_dot(v, v)), quat[4] = {1, 0, 0, 0}, R[9];
  double axis[3] = {0, 0, 1};

  if (length > 0) v3_scale(axis, v, 1 / length);
  if (length > 0) quat_axisangle(quat, axis, v[3] * 3.14159265358979323846 / 180);

  // The upper left of the matrix.
  quat_to_mat(R, quat);
  for (int i = 0; i < 3; i++) v3_copy(out + 4 * i, R + 3 * i);
}

// What an element of a node does to what comes after it; others leave `out` alone.
static pbStatus apply(Dae *d, const pbXmlNode *node, Transform out) {
  static const struct {
    const char *name;
    int count;
  } kinds[] = {{"matrix", 16}, {"translate", 3}, {"scale", 3}, {"rotate", 4}};
  int k = 0, count;
  double *v;

  if (IS(node, "skew") || IS(node, "lookat") || IS(node, "instance_controller")) return REFUSE(node, "is not supported");
  while (k < 4 && !IS(node, kinds[k].name)) k++;
  if (k == 4) return pb_ok;

  PB_TRY(numbers_of(d, node, &v, &count));
  pbStatus status = count == kinds[k].count ? pb_ok : FAIL(node, "has %d numbers, expected %d", count, kinds[k].count);
  Transform local = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};

  if (status == pb_ok) {
    // In the order of the table.
    switch (k) {
      case 0: memcpy(local, v, sizeof local); break;
      case 1:
        for (int i = 0; i < 3; i++) local[4 * i + 3] = v[i];
        break;
      case 2:
        for (int i = 0; i < 3; i++) local[5 * i] = v[i];
        break;
      default: rotation(local, v);
    }
    compose(out, out, local);
  }
  pbContext_Free(d->r->ctx, v);

  return status;
}

static pbStatus read_node(Dae *d, const pbXmlNode *node, const double *parent, int depth) {
  Transform at;
  const pbXmlNode *target;

  memcpy(at, parent, sizeof at);
  if (depth > MOST_DEPTH) return FAIL(node, "nodes show each other more than %d deep: one may show itself", MOST_DEPTH);

  // All transforms of a node come before what it shows.
  for (const pbXmlNode *child = node->first; child; child = child->next) PB_TRY(apply(d, child, at));

  for (const pbXmlNode *child = node->first; child; child = child->next) {
    if (IS(child, "node")) PB_TRY(read_node(d, child, at, depth + 1));
    if (IS(child, "instance_geometry")) {
      PB_TRY(follow(d, child, "url", "geometry", &target));
      PB_TRY(read_geometry(d, target, at));
    }
    if (IS(child, "instance_node")) {
      PB_TRY(follow(d, child, "url", "node", &target));
      PB_TRY(read_node(d, target, at, depth + 1));
    }
  }

  return pb_ok;
}

// ---- the file -----------------------------------------------------------------------------------------------------------------

static pbStatus read_scene(Dae *d) {
  const pbXmlNode *root = d->document.root, *unit = child_of(child_of(root, "asset"), "unit");
  const pbXmlNode *scene = child_of(child_of(root, "scene"), "instance_visual_scene"), *shown = NULL;
  int count = 0;
  const char *bad;

  if (!IS(root, "COLLADA")) return FAIL(root, "expected the root element COLLADA");

  // A metre unless it says so.
  d->meter = 1;
  const char *meter = unit ? pbXml_Get(unit, "meter") : NULL;

  if (meter && (!pbXml_Numbers(&d->document, meter, &d->meter, 1, &count, &bad) || count != 1 || !(d->meter > 0)))
    return FAIL(unit, "attribute 'meter' is \"%.40s\", expected a positive number", meter);

  // The scene that is shown, else the first.
  if (scene) PB_TRY(follow(d, scene, "url", "visual_scene", &shown));
  else shown = child_of(child_of(root, "library_visual_scenes"), "visual_scene");
  if (!shown) return FAIL(root, "has no visual_scene");
  if (!scene) pbXml_Warn(&d->document, root, "has no scene that it shows: its first visual_scene is taken");

  const Transform units = {d->meter, 0, 0, 0, 0, d->meter, 0, 0, 0, 0, d->meter, 0};

  return read_node(d, shown, units, 0);
}

pbStatus pbRead_Dae(pbMeshReader *r) {
  Dae d = {.r = r, .ids.ctx = r->ctx};
  pbStatus status = pbXml_Open(&d.document, r->ctx, &d.document.pool);
  d.document.keeps_text = true;
  d.document.most_bytes = MOST_BYTES;

  if (status == pb_ok) status = pbXml_Parse(&d.document, (const char *)r->begin, (size_t)(r->end - r->begin), r->name);
  if (status == pb_ok) {
    d.known = pbSpecPool_Take(&d.document.pool, (size_t)d.document.elements, sizeof *d.known);
    if (!d.known || !note_ids(&d, d.document.root, 0)) status = no_memory(&d);
  }
  if (status == pb_ok) status = read_scene(&d);

  // The mesh holds copies.
  pbNames_Clear(&d.ids);
  pbXml_Close(&d.document);

  return status;
}
