// PLY, text or binary of either order: elements vertex (x, y, z), face (vertex_indices) and edge (vertex1, vertex2); others are
// passed over.
// Tests: tests/unit/test_mesh_files.c.
#include "base/assert.h"
#include "io/mesh/mesh_reader.h"

enum { MOST_ELEMENTS = 32, MOST_PROPERTIES = 256 };

typedef enum Role { role_none, role_x, role_y, role_z, role_corners, role_first, role_second } Role;

typedef struct Property {
  bool list;
  pbReadType length, type;
  Role role;
} Property;

typedef struct Element {
  char kind;  // v, f, e, or 0
  int64_t count;
  int properties, first;
} Element;

typedef struct Ply {
  int elements, properties;
  Element element[MOST_ELEMENTS];
  Property property[MOST_PROPERTIES];
} Ply;

static pbStatus find_type(pbMeshReader *r, const char *word, pbReadType *type) {
  static const char *const names[][2] = {{"char", "int8"},     {"uchar", "uint8"},   {"short", "int16"}, {"ushort", "uint16"},
                                         {"int", "int32"},     {"uint", "uint32"},   {"int64", "int64"}, {"uint64", "uint64"},
                                         {"float", "float32"}, {"double", "float64"}};
  for (int i = 0; i <= (int)pb_readFloat64; i++) {
    // Each type has an old name and one with its bits.
    if (strcmp(word, names[i][0]) != 0 && strcmp(word, names[i][1]) != 0) continue;
    *type = (pbReadType)i;
    return pb_ok;
  }

  return pbRead_Fail(r, "unknown type '%.60s' of PLY", word);
}

static Role role_of(char kind, const char *name, bool list) {
  static const struct {
    char kind;
    const char *name;
    Role role;
  } roles[] = {{'v', "x", role_x},
               {'v', "y", role_y},
               {'v', "z", role_z},
               {'f', "vertex_indices", role_corners},
               {'f', "vertex_index", role_corners},
               {'e', "vertex1", role_first},
               {'e', "vertex2", role_second}};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (roles[i].kind == kind && list == (roles[i].role == role_corners) && !strcmp(roles[i].name, name)) return roles[i].role;
  return role_none;
}

static pbStatus add_property(pbMeshReader *r, Ply *p) {
  char word[PB_MESH_WORD];

  if (!p->elements) return pbRead_Fail(r, "a property before any element");
  if (p->properties == MOST_PROPERTIES) return pbRead_Fail(r, "more than %d properties", MOST_PROPERTIES);

  Property *q = &p->property[p->properties++];
  *q = (Property){0};

  // "property list LENGTH TYPE NAME" or "property TYPE NAME".
  pbRead_LineWord(r, word);
  q->list = !strcmp(word, "list");
  if (q->list) {
    pbRead_LineWord(r, word);
    PB_TRY(find_type(r, word, &q->length));
    if (q->length >= pb_readFloat32) return pbRead_Fail(r, "the length of a list is no whole number");
    pbRead_LineWord(r, word);
  }

  PB_TRY(find_type(r, word, &q->type));
  pbRead_LineWord(r, word);

  Element *e = &p->element[p->elements - 1];
  q->role = role_of(e->kind, word, q->list);
  if (q->role >= role_corners && q->type >= pb_readFloat32) return pbRead_Fail(r, "'%.60s' holds no whole numbers", word);

  e->properties++;
  return pb_ok;
}

static char kind_of_element(const char *name) {
  if (!strcmp(name, "vertex")) return 'v';
  if (!strcmp(name, "face")) return 'f';
  return !strcmp(name, "edge") ? 'e' : 0;
}

static pbStatus add_element(pbMeshReader *r, Ply *p) {
  char word[PB_MESH_WORD];
  if (p->elements == MOST_ELEMENTS) return pbRead_Fail(r, "more than %d elements", MOST_ELEMENTS);

  Element *e = &p->element[p->elements++];

  // Properties that follow are of this element.
  pbRead_LineWord(r, word);
  *e = (Element){.first = p->properties};
  e->kind = kind_of_element(word);

  pbRead_LineWord(r, word);
  PB_TRY(pbRead_WordInteger(r, word, &e->count));
  if (e->count < 0 || e->count > r->end - r->at)
    return pbRead_Fail(r, "%lld elements; the file has no room for them", (long long)e->count);

  return pb_ok;
}

static pbStatus set_format(pbMeshReader *r, bool *binary) {
  char word[PB_MESH_WORD];
  pbRead_LineWord(r, word);

  *binary = !strncmp(word, "binary_", 7);
  r->swap = !strcmp(word, "binary_big_endian");
  if (strcmp(word, "ascii") != 0 && strcmp(word, "binary_little_endian") != 0 && !r->swap)
    return pbRead_Fail(r, "unknown format '%.60s' of PLY", word);
  return pb_ok;
}

static pbStatus read_header(pbMeshReader *r, Ply *p) {
  char word[PB_MESH_WORD];
  bool binary = false, known = false;
  PB_TRY(pbRead_Expect(r, "ply"));

  for (;; pbRead_SkipLine(r)) {
    if (!pbRead_Word(r, word)) return pbRead_Fail(r, "the file ends before 'end_header'");
    if (!strcmp(word, "end_header")) break;

    known = known || !strcmp(word, "format");
    if (!strcmp(word, "format")) PB_TRY(set_format(r, &binary));
    else if (!strcmp(word, "element")) PB_TRY(add_element(r, p));
    else if (!strcmp(word, "property")) PB_TRY(add_property(r, p));
    else if (strcmp(word, "comment") != 0 && strcmp(word, "obj_info") != 0)
      return pbRead_Fail(r, "unknown statement '%.60s' of a PLY header", word);
  }

  if (!known) return pbRead_Fail(r, "expected a format in the header, found none");

  // The elements begin behind the end of the line.
  pbRead_SkipLine(r);
  r->binary = binary;
  r->by_byte = binary;
  return pb_ok;
}

typedef struct Row {  // of one element
  double x[3];
  int64_t end[2];
  int corners, corner[PB_MESH_POLYGON];
} Row;

static pbStatus read_list(pbMeshReader *r, const Property *q, Row *row) {
  int64_t n, v;
  PB_TRY(pbRead_Integer(r, q->length, &n));

  // Only lists of corners are kept; of others the length says how much to pass over.
  bool keep = q->role == role_corners;
  if (n < 0 || (keep && n > PB_MESH_POLYGON) || n > r->end - r->at) return pbRead_Fail(r, "a list of %lld", (long long)n);

  for (int64_t i = 0; i < n; i++) {
    if (!keep) {
      PB_TRY(pbRead_Pass(r, q->type));
      continue;
    }

    PB_TRY(pbRead_Integer(r, q->type, &v));
    if (v < 0 || v > PB_MESH_MOST) return pbRead_Fail(r, "a face names point %lld", (long long)v);
    row->corner[i] = (int)v;
  }

  if (keep) row->corners = (int)n;
  return pb_ok;
}

static pbStatus read_property(pbMeshReader *r, const Property *q, Row *row) {
  if (q->list) return read_list(r, q, row);
  if (q->role >= role_x && q->role <= role_z) return pbRead_Real(r, q->type, &row->x[q->role - role_x]);

  // The two ends of an edge.
  if (q->role >= role_first) return pbRead_Integer(r, q->type, &row->end[q->role - role_first]);
  return pbRead_Pass(r, q->type);
}

static pbStatus add_row(pbMeshReader *r, char kind, const Row *row) {
  if (kind == 'v') return pbRead_AddPoint(r, row->x);
  if (kind == 'f') return pbRead_AddPolygon(r, row->corner, row->corners, 0);
  if (kind != 'e') return pb_ok;

  PB_TRY(pbRead_Range(r, row->end[0], 0));
  PB_TRY(pbRead_Range(r, row->end[1], 0));
  return pbRead_AddCell(r, pb_cellEdge, (int[2]){(int)row->end[0], (int)row->end[1]}, 0);
}

static unsigned wanted_roles(char kind) {
  if (kind == 'v') return 1u << role_x | 1u << role_y | 1u << role_z;
  if (kind == 'f') return 1u << role_corners;
  return kind == 'e' ? 1u << role_first | 1u << role_second : 0;
}

// What the element must have for us to read it: a bit for each role.
static pbStatus check_element(pbMeshReader *r, const Ply *p, const Element *e) {
  unsigned has = 0;
  for (int i = 0; i < e->properties; i++) {
    PB_ASSERT(e->first + i < p->properties);
    has |= 1u << p->property[e->first + i].role;
  }

  unsigned wants = wanted_roles(e->kind);
  if ((has & wants) != wants) return pbRead_Fail(r, "an element lacks x, y, z, vertex_indices, or vertex1 and vertex2");
  if (!e->properties && e->count) return pbRead_Fail(r, "%lld elements without properties", (long long)e->count);
  return pb_ok;
}

pbStatus pbRead_Ply(pbMeshReader *r) {
  Ply p = {0};
  Row row = {{0}, {0}, 0, {0}};

  PB_TRY(read_header(r, &p));
  for (int k = 0; k < p.elements; k++) {
    const Element *e = &p.element[k];
    PB_TRY(check_element(r, &p, e));

    for (int64_t i = 0; i < e->count; i++) {
      for (int q = 0; q < e->properties; q++) PB_TRY(read_property(r, &p.property[e->first + q], &row));
      PB_TRY(add_row(r, e->kind, &row));
    }
  }
  return pb_ok;
}
