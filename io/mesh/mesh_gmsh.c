// Gmsh's .msh, versions 2.2 and 4.1, text or binary (https://gmsh.info/doc/texinfo/gmsh.html, "MSH file format"). Nodes have
// tags, any numbers; what is no node, element, entity or name is passed over.
// Tests: tests/unit/test_mesh_files.c.
#include <stdlib.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

typedef struct Tag {
  int64_t tag;
  int point;
} Tag;

typedef struct Entity {  // a part of the geometry that has a physical group
  int dimension, physical;
  int64_t tag;
} Entity;

typedef struct Gmsh {
  pbMeshReader *r;
  bool version2, bytes;  // version 2.2; numbers as bytes
  Tag *tag;
  Entity *entity;
  int tags, tag_room, entities, entity_room;
} Gmsh;

// ---- tags -------------------------------------------------------------------------------------------------------------------

static int compare_tags(const void *a, const void *b) {
  int64_t x = ((const Tag *)a)->tag, y = ((const Tag *)b)->tag;
  return x < y ? -1 : x > y;
}

static int compare_entities(const void *a, const void *b) {
  const Entity *x = a, *y = b;
  if (x->dimension != y->dimension) return x->dimension < y->dimension ? -1 : 1;
  return x->tag < y->tag ? -1 : x->tag > y->tag;
}

static pbStatus add_tag(Gmsh *g, int64_t tag) {
  if (g->tags == g->tag_room) {
    int room = g->tag_room ? 2 * g->tag_room : 64;
    Tag *grown = pbContext_Resize(g->r->ctx, g->tag, (size_t)room * sizeof *grown);
    if (!grown) return pbMesh_NoMemory(g->r->ctx, g->r->name);
    g->tag = grown;
    g->tag_room = room;
  }

  g->tag[g->tags] = (Tag){tag, g->tags};
  g->tags++;
  return pb_ok;
}

static pbStatus sort_tags(Gmsh *g) {
  // Gmsh mostly writes them in order.
  bool ordered = true;
  for (int i = 1; i < g->tags; i++) ordered = ordered && g->tag[i - 1].tag < g->tag[i].tag;

  if (!ordered) qsort(g->tag, (size_t)g->tags, sizeof *g->tag, compare_tags);

  for (int i = 1; i < g->tags; i++)
    if (g->tag[i - 1].tag == g->tag[i].tag) return pbRead_Fail(g->r, "node %lld is defined twice", (long long)g->tag[i].tag);
  return pb_ok;
}

static pbStatus find_point(const Gmsh *g, int64_t tag, int *point) {
  // Tags mostly count on from the first, so the difference is the index; otherwise search.
  uint64_t dense = g->tags ? (uint64_t)tag - (uint64_t)g->tag[0].tag : 0;
  if (dense < (uint64_t)g->tags && g->tag[dense].tag == tag) {
    *point = g->tag[dense].point;
    return pb_ok;
  }

  Tag key = {tag, 0};
  const Tag *found = g->tags ? bsearch(&key, g->tag, (size_t)g->tags, sizeof key, compare_tags) : NULL;
  if (!found) return pbRead_Fail(g->r, "there is no node %lld", (long long)tag);

  *point = found->point;
  return pb_ok;
}

// ---- sections ---------------------------------------------------------------------------------------------------------------

static pbStatus read_whole(Gmsh *g, int64_t *value) { return pbRead_Integer(g->r, pb_readInt32, value); }
static pbStatus read_real(Gmsh *g, double *x) { return pbRead_Real(g->r, pb_readFloat64, x); }

// A count, of things of some bytes each. In version 2.2 it is text whatever follows.
static pbStatus read_count(Gmsh *g, size_t bytes, const char *what, int *count) {
  pbMeshReader *r = g->r;
  if (!g->version2) return pbRead_Count(r, pb_readUint64, bytes, what, count);

  bool binary = r->binary;
  r->binary = false;
  pbStatus status = pbRead_Count(r, pb_readUint64, 2, what, count);

  // Numbers as bytes begin behind the end of the line.
  if (binary) pbRead_SkipLine(r);
  r->binary = binary;
  return status;
}

static pbStatus read_format(Gmsh *g) {
  char version[PB_MESH_WORD], word[PB_MESH_WORD];
  int64_t bytes, size, one;

  pbRead_Word(g->r, version);

  g->version2 = !strcmp(version, "2.2") || !strcmp(version, "2");
  if (!g->version2 && strcmp(version, "4.1") != 0)
    return pbRead_Unsupported(g->r, "version '%.20s' of MSH is not supported (2.2 and 4.1 are)", version);

  // Numbers as text (0) or as bytes (1), reals of 8 bytes.
  pbRead_Word(g->r, word);
  PB_TRY(pbRead_WordInteger(g->r, word, &bytes));
  pbRead_Word(g->r, word);
  PB_TRY(pbRead_WordInteger(g->r, word, &size));
  if (bytes < 0 || bytes > 1 || size != 8)
    return pbRead_Unsupported(g->r, "file type %lld with data size %lld", (long long)bytes, (long long)size);

  g->bytes = bytes == 1;
  g->r->by_byte = g->bytes;
  if (!g->bytes) return pb_ok;

  // A one in the order of bytes of whoever wrote the file.
  pbRead_SkipLine(g->r);
  g->r->binary = true;
  PB_TRY(read_whole(g, &one));
  g->r->swap = one != 1;
  return one == 1 || one == 0x01000000 ? pb_ok : pbRead_Fail(g->r, "unknown byte order");
}

// 2 7 "clamped"
static pbStatus read_names(Gmsh *g) {
  int count;
  int64_t dimension, physical;
  char word[PB_MESH_WORD];
  PB_TRY(pbRead_Count(g->r, pb_readUint64, 8, "names", &count));

  if (count > PB_MESH_GROUPS) return pbRead_Fail(g->r, "more than %d names", PB_MESH_GROUPS);
  for (int i = 0; i < count; i++) {
    PB_TRY(read_whole(g, &dimension));
    PB_TRY(read_whole(g, &physical));
    pbRead_Line(g->r, word);

    size_t length = strlen(word);
    if (dimension < 0 || dimension > 3 || physical < 1 || physical > INT32_MAX || length < 2 || *word != '"' ||
        word[length - 1] != '"')
      return pbRead_Fail(g->r, "a name, '%.60s', of dimension %lld and number %lld", word, (long long)dimension,
                         (long long)physical);

    // Without the quotes.
    word[length - 1] = 0;
    PB_TRY(pbMesh_NameGroup(g->r->mesh, (int)dimension, (int)physical, word + 1));
  }
  return pb_ok;
}

static pbStatus add_entity(Gmsh *g, int dimension, int64_t tag, int64_t physical) {
  if (physical < 0) physical = -physical;  // the sign says that the entity is reversed
  if (physical > INT32_MAX) return pbRead_Fail(g->r, "physical group %lld", (long long)physical);

  if (g->entities == g->entity_room) {
    int room = g->entity_room ? 2 * g->entity_room : 64;
    Entity *grown = pbContext_Resize(g->r->ctx, g->entity, (size_t)room * sizeof *grown);
    if (!grown) return pbMesh_NoMemory(g->r->ctx, g->r->name);
    g->entity = grown;
    g->entity_room = room;
  }

  g->entity[g->entities++] = (Entity){dimension, (int)physical, tag};
  return pb_ok;
}

// A point, curve, surface or volume: tag, position or bounds, physical groups, and what bounds it.
static pbStatus read_entity(Gmsh *g, int dimension) {
  int64_t tag, physical = 0, ignored;
  double ignored_real;
  int count;

  PB_TRY(read_whole(g, &tag));
  for (int i = 0; i < (dimension ? 6 : 3); i++) PB_TRY(read_real(g, &ignored_real));

  // The first physical group counts.
  PB_TRY(read_count(g, 4, "physical groups", &count));
  for (int i = 0; i < count; i++) PB_TRY(read_whole(g, i ? &ignored : &physical));

  if (dimension) {
    PB_TRY(read_count(g, 4, "bounding entities", &count));
    for (int i = 0; i < count; i++) PB_TRY(read_whole(g, &ignored));
  }

  return physical ? add_entity(g, dimension, tag, physical) : pb_ok;
}

static pbStatus read_entities(Gmsh *g) {
  int count[4];
  for (int d = 0; d < 4; d++) PB_TRY(read_count(g, 16, "entities", &count[d]));

  for (int d = 0; d < 4; d++)
    for (int i = 0; i < count[d]; i++) PB_TRY(read_entity(g, d));

  if (g->entities) qsort(g->entity, (size_t)g->entities, sizeof *g->entity, compare_entities);
  return pb_ok;
}

// Coordinates of a node; `more` parameters on its entity follow.
static pbStatus read_point(Gmsh *g, int more) {
  double x[3], ignored;
  for (int k = 0; k < 3; k++) PB_TRY(read_real(g, &x[k]));
  for (int k = 0; k < more; k++) PB_TRY(read_real(g, &ignored));

  return pbRead_AddPoint(g->r, x);
}

static pbStatus read_node_block(Gmsh *g) {
  int64_t dimension, tag, parametric;
  int count;

  PB_TRY(read_whole(g, &dimension));
  PB_TRY(read_whole(g, &tag));
  PB_TRY(read_whole(g, &parametric));
  PB_TRY(read_count(g, 16, "nodes", &count));
  if (dimension < 0 || dimension > 3) return pbRead_Fail(g->r, "an entity of dimension %lld", (long long)dimension);

  // All tags come first, then all coordinates.
  for (int i = 0; i < count; i++) {
    PB_TRY(pbRead_Integer(g->r, pb_readUint64, &tag));
    PB_TRY(add_tag(g, tag));
  }

  for (int i = 0; i < count; i++) PB_TRY(read_point(g, parametric ? (int)dimension : 0));
  return pb_ok;
}

static pbStatus read_nodes(Gmsh *g) {
  int count, total;
  int64_t ignored, tag;

  PB_TRY(read_count(g, 12, g->version2 ? "nodes" : "blocks of nodes", &count));
  if (!g->version2) {
    PB_TRY(read_count(g, 16, "nodes", &total));
    for (int i = 0; i < 2; i++) PB_TRY(pbRead_Integer(g->r, pb_readUint64, &ignored));
  }

  for (int i = 0; i < count; i++) {
    if (!g->version2) {
      PB_TRY(read_node_block(g));
      continue;
    }
    PB_TRY(read_whole(g, &tag));
    PB_TRY(add_tag(g, tag));
    PB_TRY(read_point(g, 0));
  }

  return sort_tags(g);
}

// ---- elements ---------------------------------------------------------------------------------------------------------------

enum { gmsh_quadrangle = 3, gmsh_hexahedron = 5, gmsh_prism = 6, gmsh_pyramid = 7, gmsh_line3 = 8 };

static int nodes_of(int64_t type) {
  // By Gmsh's number of the element type; 0: not read.
  static const int nodes_by_type[16] = {0, 2, 3, 4, 4, 8, 6, 5, 3, 6, 0, 10, 0, 0, 0, 1};
  return type > 0 && type < 16 ? nodes_by_type[type] : 0;
}

static pbStatus check_type(Gmsh *g, int64_t type) {
  if (nodes_of(type)) return pb_ok;
  return pbRead_Unsupported(
      g->r, "elements of Gmsh's type %lld are not supported (linear cells, triangles of 6 and tetrahedra of 10 nodes are)",
      (long long)type);
}

// The nodes of an element, and what it is with us.
static pbStatus read_element(Gmsh *g, int type, int group) {
  static const pbCellKind kinds[16] = {[1] = pb_cellEdge,      [2] = pb_cellTriangle,       [4] = pb_cellTetrahedron,
                                       [9] = pb_cellTriangle6, [11] = pb_cellTetrahedron10, [15] = pb_cellPoint};
  int v[pb_mostNodes];
  int n = nodes_of(type);
  PB_ASSERT(n > 0 && n <= pb_mostNodes);

  for (int k = 0; k < n; k++) {
    int64_t tag;
    PB_TRY(pbRead_Integer(g->r, g->version2 ? pb_readInt32 : pb_readUint64, &tag));
    PB_TRY(find_point(g, tag, &v[k]));
  }

  g->r->left_out += type == gmsh_line3;
  if (type == gmsh_line3) return pb_ok;
  if (type == gmsh_quadrangle) return pbRead_AddQuadrangle(g->r, v, group);
  if (type == gmsh_hexahedron) return pbRead_AddSolid(g->r, pb_solidHexahedron, v, group);
  if (type == gmsh_prism) return pbRead_AddSolid(g->r, pb_solidPrism, v, group);
  if (type == gmsh_pyramid) return pbRead_AddSolid(g->r, pb_solidPyramid, v, group);

  // Gmsh has the middles of the edges 13 and 23 the other way round.
  if (type == 11) {
    int swapped = v[8];
    v[8] = v[9];
    v[9] = swapped;
  }

  return pbRead_AddCell(g->r, kinds[type], v, group);
}

// The first tag of an element is its physical group, 0 where there is none.
static pbStatus read_group(Gmsh *g, int64_t count, int *group) {
  *group = 0;
  if (count < 0 || count > g->r->end - g->r->at) return pbRead_Fail(g->r, "an element with %lld tags", (long long)count);

  for (int64_t i = 0; i < count; i++) {
    int64_t tag;
    PB_TRY(read_whole(g, &tag));

    if (i == 0 && (tag < -INT32_MAX || tag > INT32_MAX)) return pbRead_Fail(g->r, "physical group %lld", (long long)tag);
    if (i == 0) *group = abs((int)tag);
  }
  return pb_ok;
}

static pbStatus read_old_elements(Gmsh *g) {
  int count, group;
  int64_t tag, type, followers = 1, tags;

  // Text has a header for each element, binary files one for `followers` elements of a type.
  PB_TRY(read_count(g, 4, "elements", &count));
  for (int i = 0; i < count; i += (int)followers) {
    // An element's number comes first in text; with bytes it comes behind the header of its block.
    if (!g->bytes) PB_TRY(read_whole(g, &tag));
    PB_TRY(read_whole(g, &type));
    if (g->bytes) PB_TRY(read_whole(g, &followers));
    PB_TRY(read_whole(g, &tags));
    PB_TRY(check_type(g, type));

    if (followers < 1 || followers > count - i)
      return pbRead_Fail(g->r, "a block of %lld elements where %d are left", (long long)followers, count - i);

    for (int64_t k = 0; k < followers; k++) {
      if (g->bytes) PB_TRY(read_whole(g, &tag));
      PB_TRY(read_group(g, tags, &group));
      PB_TRY(read_element(g, (int)type, group));
    }
  }
  return pb_ok;
}

static pbStatus read_element_block(Gmsh *g) {
  int64_t dimension, type, tag;
  int count;

  PB_TRY(read_whole(g, &dimension));
  PB_TRY(read_whole(g, &tag));
  PB_TRY(read_whole(g, &type));
  PB_TRY(check_type(g, type));
  PB_TRY(read_count(g, 8, "elements", &count));

  // The elements of a block lie on one entity, which has their group.
  Entity key = {(int)dimension, 0, tag};
  const Entity *found = g->entities ? bsearch(&key, g->entity, (size_t)g->entities, sizeof key, compare_entities) : NULL;

  for (int i = 0; i < count; i++) {
    PB_TRY(pbRead_Integer(g->r, pb_readUint64, &tag));
    PB_TRY(read_element(g, (int)type, found ? found->physical : 0));
  }
  return pb_ok;
}

static pbStatus read_elements(Gmsh *g) {
  int count, total;
  int64_t ignored;
  if (g->version2) return read_old_elements(g);

  // Counts, then the least and the largest tag.
  PB_TRY(read_count(g, 12, "blocks of elements", &count));
  PB_TRY(read_count(g, 8, "elements", &total));
  for (int i = 0; i < 2; i++) PB_TRY(pbRead_Integer(g->r, pb_readUint64, &ignored));

  for (int i = 0; i < count; i++) PB_TRY(read_element_block(g));
  return pb_ok;
}

// ---- the file -----------------------------------------------------------------------------------------------------------------

static pbStatus pass_over(Gmsh *g, const char *end) {
  pbMeshReader *r = g->r;
  const unsigned char *found = memmem(r->at, (size_t)(r->end - r->at), end, strlen(end));
  if (!found) return pbRead_Fail(r, "the file ends before '%.60s'", end);

  // Lines are counted for messages about what comes later.
  for (; r->at < found; r->at++) r->line += *r->at == '\n';
  return pb_ok;
}

static pbStatus read_section(Gmsh *g, const char *name) {
  static const struct {
    const char *name;
    pbStatus (*read)(Gmsh *);
    bool text;
  } sections[] = {{"MeshFormat", read_format, true},
                  {"PhysicalNames", read_names, true},
                  {"Entities", read_entities, false},
                  {"Nodes", read_nodes, false},
                  {"Elements", read_elements, false}};

  char end[PB_MESH_WORD + 8] = "$End";
  strcat(end, name);
  pbRead_SkipLine(g->r);

  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
    if (strcmp(name, sections[i].name) != 0) continue;

    g->r->binary = g->bytes && !sections[i].text;
    pbStatus status = sections[i].read(g);
    g->r->binary = false;
    return status == pb_ok ? pbRead_Expect(g->r, end) : status;
  }

  // A section of another name.
  PB_TRY(pass_over(g, end));
  return pbRead_Expect(g->r, end);
}

static pbStatus read_sections(Gmsh *g) {
  char word[PB_MESH_WORD];
  bool begun = false;
  while (pbRead_Word(g->r, word)) {
    if (*word != '$' || !strncmp(word, "$End", 4)) return pbRead_Fail(g->r, "expected a section, found '%.60s'", word);

    // Only comments may come before the format.
    if (!begun && strcmp(word, "$MeshFormat") != 0 && strcmp(word, "$Comments") != 0)
      return pbRead_Fail(g->r, "expected '$MeshFormat', found '%.60s'", word);

    begun = begun || !strcmp(word, "$MeshFormat");
    PB_TRY(read_section(g, word + 1));
  }
  return pb_ok;
}

pbStatus pbRead_Gmsh(pbMeshReader *r) {
  Gmsh g = {.r = r};
  pbStatus status = read_sections(&g);

  pbContext_Free(r->ctx, g.tag);
  pbContext_Free(r->ctx, g.entity);

  return status;
}
