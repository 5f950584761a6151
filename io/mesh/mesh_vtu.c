// VTU: XML around arrays that come as text, as base64 or as raw bytes behind the XML, plain or in blocks compressed by zlib.
// Tests: tests/unit/test_mesh_files.c.
#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

enum { MOST_BYTES = 1 << 30 };  // of one array, decompressed

typedef enum Role { role_points, role_connectivity, role_offsets, role_types, role_group, role_count } Role;
static const char *const role_names[] = {"Points", "connectivity", "offsets", "types", "group"};

typedef struct Values {
  bool there, appended;
  int line;
  pbReadType type;
  size_t offset;  // into the appended data
  size_t count;
  double *real;    // of points
  int64_t *whole;  // of the others
} Values;

typedef struct Vtu {
  pbMeshReader *r;
  XML_Parser parser;
  pbStatus status;
  bool compressed, swap, wide;  // header of arrays in 64 bits
  bool unstructured, raw;
  int64_t points, cells;
  char section;           // P Points, C Cells, D CellData; 0
  Role role;              // of the array that is open; role_count: none
  bool text;              // it comes as words
  unsigned char *inside;  // what stands in it
  size_t length, room;
  const unsigned char *appended;  // first byte behind the "_"
  Values values[role_count];
} Vtu;

static pbStatus no_memory(Vtu *t) { return pbMesh_NoMemory(t->r->ctx, t->r->name); }
static bool equal_text(const char *a, const char *b) { return a && !strcmp(a, b); }

// ---- bytes ------------------------------------------------------------------------------------------------------------------

static int digit_of(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Base64 as far as it goes; pieces that were closed with = one after the other are one. Returns the bytes.
static size_t decode_base64(const unsigned char *text, size_t length, unsigned char *to) {
  size_t n = 0;
  unsigned bits = 0;
  int have = 0;

  // Six bits a digit; whenever there are eight, a byte.
  for (size_t i = 0; i < length; i++) {
    int digit = digit_of(text[i]);

    if (text[i] == '=') have = 0;  // the rest of bits is padding
    else if (digit < 0 && !strchr(" \t\r\n", text[i])) break;
    if (digit < 0) continue;

    bits = bits << 6 | (unsigned)digit;
    have += 6;
    if (have >= 8) {
      have -= 8;
      to[n++] = (unsigned char)(bits >> have);
    }
  }
  return n;
}

typedef struct Bytes {
  const unsigned char *at;
  size_t left;
  unsigned char *own;  // to be freed
} Bytes;

static pbStatus read_header_number(Vtu *t, Bytes *b, size_t *value) {
  size_t width = t->wide ? 8 : 4;
  if (b->left < width) return pbRead_Fail(t->r, "an array is cut short");
  *value = (size_t)pbRead_IntegerAt(b->at, t->wide ? pb_readUint64 : pb_readUint32, t->swap);

  b->at += width;
  b->left -= width;
  return pb_ok;
}

static pbStatus inflate_block(Vtu *t, Bytes *b, const unsigned char *size_at, unsigned char *to, size_t plain) {
  size_t packed = (size_t)pbRead_IntegerAt(size_at, t->wide ? pb_readUint64 : pb_readUint32, t->swap);
  uLongf got = (uLongf)plain;
  if (packed > b->left || uncompress(to, &got, b->at, (uLong)packed) != Z_OK || got != plain)
    return pbRead_Fail(t->r, "a compressed block is damaged");

  b->at += packed;
  b->left -= packed;
  return pb_ok;
}

// Blocks of zlib, all of one size but the last, put together.
static pbStatus decompress(Vtu *t, Bytes *b) {
  size_t blocks = 0;
  size_t size = 0;
  size_t last = 0;
  size_t width = t->wide ? 8 : 4;

  // The header: count, size of a block, size of the last one (0: it is full), then the packed size of each.
  PB_TRY(read_header_number(t, b, &blocks));
  PB_TRY(read_header_number(t, b, &size));
  PB_TRY(read_header_number(t, b, &last));

  if (blocks > b->left / width || size > MOST_BYTES || last > size)
    return pbRead_Fail(t->r, "%zu blocks of %zu bytes", blocks, size);
  if (!blocks) {
    b->left = 0;
    return pb_ok;
  }

  size_t total = blocks * size - (last ? size - last : 0);

  // Deflate packs at most some 1030 bytes into one, so a total beyond that cannot be true.
  if (total > MOST_BYTES || total / 1100 > b->left) return pbRead_Fail(t->r, "%zu bytes in %zu", total, b->left);

  const unsigned char *sizes = b->at;
  b->at += blocks * width;
  b->left -= blocks * width;
  unsigned char *plain = pbContext_Alloc(t->r->ctx, total);
  if (!plain) return no_memory(t);
  pbStatus status = pb_ok;

  for (size_t i = 0; i < blocks && status == pb_ok; i++)
    status = inflate_block(t, b, sizes + i * width, plain + i * size, i + 1 == blocks && last ? last : size);

  // The plain bytes take the place of the packed ones.
  pbContext_Free(t->r->ctx, b->own);
  *b = (Bytes){plain, total, plain};
  return status;
}

static pbStatus unpack(Vtu *t, Bytes *b) {
  size_t size = 0;
  if (t->compressed) return decompress(t, b);

  // Plain arrays begin with their length.
  PB_TRY(read_header_number(t, b, &size));
  if (size > b->left) return pbRead_Fail(t->r, "an array is cut short: %zu bytes, %zu are there", size, b->left);

  b->left = size;
  return pb_ok;
}

// ---- values -----------------------------------------------------------------------------------------------------------------

static pbStatus alloc_values(Vtu *t, Role role, size_t count) {
  Values *v = &t->values[role];

  // Coordinates are reals, everything else whole numbers.
  if (role == role_points) v->real = pbContext_AllocArray(t->r->ctx, count, sizeof(double));
  else v->whole = pbContext_AllocArray(t->r->ctx, count, sizeof(int64_t));

  v->count = count;
  return v->real || v->whole ? pb_ok : no_memory(t);
}

static pbStatus values_from_bytes(Vtu *t, Role role, Bytes *b) {
  Values *v = &t->values[role];
  size_t width = (size_t)pbRead_Width(v->type);

  PB_TRY(unpack(t, b));
  PB_TRY(alloc_values(t, role, b->left / width));

  for (size_t i = 0; i < v->count; i++) {
    if (v->real) v->real[i] = pbRead_RealAt(b->at + i * width, v->type, t->swap);
    else v->whole[i] = pbRead_IntegerAt(b->at + i * width, v->type, t->swap);
  }
  return pb_ok;
}

static pbStatus values_from_base64(Vtu *t, Role role, const unsigned char *text, size_t length) {
  Bytes b = {.own = pbContext_Alloc(t->r->ctx, length / 4 * 3 + 4)};
  if (!b.own) return no_memory(t);

  b.at = b.own;
  b.left = decode_base64(text, length, b.own);
  pbStatus status = values_from_bytes(t, role, &b);
  pbContext_Free(t->r->ctx, b.own);
  return status;
}

static pbStatus values_from_text(Vtu *t, Role role) {
  // The words of the array as if they were a file.
  pbMeshReader words = *t->r;
  words.at = words.begin = t->inside;
  words.end = t->length ? t->inside + t->length : t->inside;  // NULL where nothing is inside

  // Count, make room, read.
  char word[PB_MESH_WORD];
  size_t count = 0;
  while (pbRead_Word(&words, word)) count++;
  PB_TRY(alloc_values(t, role, count));

  Values *v = &t->values[role];
  words.at = words.begin;
  words.line = v->line;
  for (size_t i = 0; i < count; i++) {
    pbRead_Word(&words, word);
    PB_TRY(v->real ? pbRead_WordReal(&words, word, &v->real[i]) : pbRead_WordInteger(&words, word, &v->whole[i]));
  }
  return pb_ok;
}

// ---- XML --------------------------------------------------------------------------------------------------------------------

static void stop_parser(Vtu *t, pbStatus status) {
  if (t->status == pb_ok) t->status = status;
  XML_StopParser(t->parser, XML_FALSE);
}

static const char *get_attribute(const XML_Char **attributes, const char *name) {
  for (int i = 0; attributes[i]; i += 2)
    if (!strcmp(attributes[i], name)) return attributes[i + 1];
  return NULL;
}

static pbStatus begin_file(Vtu *t, const XML_Char **a) {
  const char *packer = get_attribute(a, "compressor"), *header = get_attribute(a, "header_type");
  if (!equal_text(get_attribute(a, "type"), "UnstructuredGrid"))
    return pbRead_Unsupported(t->r, "a VTK file of another type than UnstructuredGrid");

  t->compressed = packer && *packer;
  if (t->compressed && strcmp(packer, "vtkZLibDataCompressor") != 0)
    return pbRead_Unsupported(t->r, "arrays compressed by '%.60s' (vtkZLibDataCompressor is supported)", packer);

  t->swap = equal_text(get_attribute(a, "byte_order"), "BigEndian");
  t->wide = equal_text(header, "UInt64");
  t->unstructured = true;
  if (header && !t->wide && strcmp(header, "UInt32") != 0) return pbRead_Unsupported(t->r, "headers of type '%.60s'", header);

  return pb_ok;
}

static pbStatus read_count_attribute(Vtu *t, const char *text, const char *what, int64_t *count) {
  PB_TRY(pbRead_WordInteger(t->r, text ? text : "", count));
  return *count < 0 || *count > PB_MESH_MOST ? pbRead_Fail(t->r, "%lld %s", (long long)*count, what) : pb_ok;
}

static pbStatus begin_piece(Vtu *t, const XML_Char **a) {
  if (t->points || t->cells) return pbRead_Unsupported(t->r, "more than one piece");
  PB_TRY(read_count_attribute(t, get_attribute(a, "NumberOfPoints"), "points", &t->points));
  return read_count_attribute(t, get_attribute(a, "NumberOfCells"), "cells", &t->cells);
}

static Role role_of(char section, const char *name) {
  if (section == 'P') return role_points;
  if (section == 'D') return equal_text(name, "group") || equal_text(name, "gmsh:physical") ? role_group : role_count;
  if (section != 'C') return role_count;

  for (int role = role_connectivity; role <= role_types; role++)
    if (equal_text(name, role_names[role])) return (Role)role;
  return role_count;
}

static pbStatus value_type(Vtu *t, const char *name, pbReadType *type) {
  static const char *const names[] = {"Int8",   "UInt8", "Int16",  "UInt16",  "Int32",
                                      "UInt32", "Int64", "UInt64", "Float32", "Float64"};
  for (int i = 0; i <= (int)pb_readFloat64; i++) {
    if (!equal_text(name, names[i])) continue;
    *type = (pbReadType)i;
    return pb_ok;
  }
  return pbRead_Fail(t->r, "an array of type '%.60s'", name ? name : "");
}

static pbStatus begin_array(Vtu *t, const XML_Char **a) {
  Role role = role_of(t->section, get_attribute(a, "Name"));
  if (role == role_count) return pb_ok;  // not of the mesh

  Values *v = &t->values[role];
  const char *format = get_attribute(a, "format"), *components = get_attribute(a, "NumberOfComponents");

  // The first of several groups counts.
  if (v->there) return role == role_group ? pb_ok : pbRead_Fail(t->r, "a second array '%s'", role_names[role]);
  v->there = true;
  v->line = t->r->line;

  PB_TRY(value_type(t, get_attribute(a, "type"), &v->type));
  if (role != role_points && v->type >= pb_readFloat32) return pbRead_Fail(t->r, "'%s' holds no whole numbers", role_names[role]);
  if (role == role_points && !equal_text(components, "3"))
    return pbRead_Fail(t->r, "points with '%.60s' components", components ? components : "");

  v->appended = equal_text(format, "appended");
  t->text = !format || equal_text(format, "ascii");
  if (!v->appended && !t->text && !equal_text(format, "binary")) return pbRead_Fail(t->r, "an array of format '%.60s'", format);

  // Text and base64 follow as content of the element; appended data come behind all of XML.
  t->length = 0;
  if (!v->appended) t->role = role;
  int64_t offset = 0;
  if (v->appended) PB_TRY(pbRead_WordInteger(t->r, get_attribute(a, "offset") ? get_attribute(a, "offset") : "", &offset));

  if (offset < 0) return pbRead_Fail(t->r, "an array at offset %lld", (long long)offset);
  v->offset = (size_t)offset;
  return pb_ok;
}

// Behind the start tag the file need not be XML any more.
static pbStatus begin_appended(Vtu *t, const XML_Char **a) {
  t->raw = equal_text(get_attribute(a, "encoding"), "raw");

  // Raw bytes begin behind "_".
  const unsigned char *at = t->r->begin + XML_GetCurrentByteIndex(t->parser) + XML_GetCurrentByteCount(t->parser);

  // Blanks may stand between the tag and the data.
  while (at < t->r->end && *at && strchr(" \t\r\n", *at)) at++;

  if (at >= t->r->end || *at != '_') return pbRead_Fail(t->r, "appended data begin with '_'");
  t->appended = at + 1;

  XML_StopParser(t->parser, XML_FALSE);
  return pb_ok;
}

static char section_of(const char *name) {
  if (equal_text(name, "Points")) return 'P';
  if (equal_text(name, "Cells")) return 'C';
  return equal_text(name, "CellData") ? 'D' : 0;
}

static void on_start(void *user, const XML_Char *name, const XML_Char **a) {
  Vtu *t = user;
  if (t->status != pb_ok || t->appended) return;

  t->r->line = (int)XML_GetCurrentLineNumber(t->parser);

  pbStatus status = pb_ok;
  if (equal_text(name, "VTKFile")) status = begin_file(t, a);
  else if (!t->unstructured) status = pbRead_Fail(t->r, "is no VTK file");
  else if (equal_text(name, "Piece")) status = begin_piece(t, a);
  else if (equal_text(name, "DataArray")) status = begin_array(t, a);
  else if (equal_text(name, "AppendedData")) status = begin_appended(t, a);
  else t->section = section_of(name);

  if (status != pb_ok) stop_parser(t, status);
}

static void on_text(void *user, const XML_Char *text, int length) {
  Vtu *t = user;
  if (t->status != pb_ok || t->appended || t->role == role_count) return;

  // Expat gives the content in pieces.
  size_t need = t->length + (size_t)length;
  if (need > t->room) {
    size_t room = t->room ? t->room : 4096;
    while (room < need) room *= 2;
    unsigned char *grown = pbContext_Resize(t->r->ctx, t->inside, room);
    if (!grown) {
      stop_parser(t, no_memory(t));
      return;
    }
    t->inside = grown;
    t->room = room;
  }

  memcpy(t->inside + t->length, text, (size_t)length);
  t->length = need;
}

static void on_end(void *user, const XML_Char *name) {
  Vtu *t = user;
  if (t->status != pb_ok || t->appended) return;

  if (!equal_text(name, "DataArray")) t->section = 0;
  if (t->role == role_count || !equal_text(name, "DataArray")) return;

  // What stands in the array is complete.
  t->r->line = t->values[t->role].line;
  pbStatus status = t->text ? values_from_text(t, t->role) : values_from_base64(t, t->role, t->inside, t->length);

  t->role = role_count;
  if (status != pb_ok) stop_parser(t, status);
}

static void on_doctype(void *user, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id, int internal) {
  Vtu *t = user;
  (void)name;
  (void)system_id;
  (void)public_id;
  (void)internal;

  stop_parser(t, pbRead_Fail(t->r, "document type declarations (<!DOCTYPE>) are not accepted"));
}

static pbStatus parse_xml(Vtu *t) {
  t->parser = XML_ParserCreate(NULL);
  if (!t->parser) return no_memory(t);

  XML_SetUserData(t->parser, t);
  XML_SetElementHandler(t->parser, on_start, on_end);
  XML_SetCharacterDataHandler(t->parser, on_text);
  XML_SetStartDoctypeDeclHandler(t->parser, on_doctype);

  // A failure of our own or the begin of appended data has stopped the parser; anything else is its own error.
  size_t length = (size_t)(t->r->end - t->r->begin);
  bool good = length <= INT_MAX && XML_Parse(t->parser, (const char *)t->r->begin, (int)length, 1) == XML_STATUS_OK;
  if (!good && t->status == pb_ok && !t->appended) {
    t->r->line = (int)XML_GetCurrentLineNumber(t->parser);
    enum XML_Error code = XML_GetErrorCode(t->parser);
    t->status = code == XML_ERROR_NO_MEMORY ? no_memory(t) : pbRead_Fail(t->r, "not well-formed XML: %s", XML_ErrorString(code));
  }

  XML_ParserFree(t->parser);
  return t->status;
}

// ---- the mesh ---------------------------------------------------------------------------------------------------------------

static pbStatus read_appended(Vtu *t) {
  for (int role = 0; role < role_count; role++) {
    Values *v = &t->values[role];
    if (!v->appended) continue;
    t->r->line = v->line;

    size_t left = t->appended ? (size_t)(t->r->end - t->appended) : 0;
    if (v->offset >= left) return pbRead_Fail(t->r, "array '%s' lies behind the end of the file", role_names[role]);

    Bytes b = {t->appended + v->offset, left - v->offset, NULL};
    if (!t->raw) {
      PB_TRY(values_from_base64(t, (Role)role, b.at, b.left));
      continue;
    }

    pbStatus status = values_from_bytes(t, (Role)role, &b);
    pbContext_Free(t->r->ctx, b.own);
    PB_TRY(status);
  }
  return pb_ok;
}

static pbStatus check_counts(Vtu *t) {
  const size_t wanted[role_count] = {3 * (size_t)t->points, t->values[role_connectivity].count, (size_t)t->cells,
                                     (size_t)t->cells, (size_t)t->cells};

  for (int role = 0; role < role_count; role++) {
    const Values *v = &t->values[role];

    // Cells need all three of their arrays, groups may be missing.
    bool needed = role == role_points ? t->points > 0 : role != role_group && t->cells > 0;
    t->r->line = v->there ? v->line : t->r->line;

    if (!v->there && needed) return pbRead_Fail(t->r, "the array '%s' is missing", role_names[role]);
    if (v->there && v->count != wanted[role])
      return pbRead_Fail(t->r, "expected %zu entries in the array '%s', found %zu", wanted[role], role_names[role], v->count);
  }
  return pb_ok;
}

static pbStatus add_cell(Vtu *t, int64_t i) {
  const Values *v = t->values;
  int64_t from = i ? v[role_offsets].whole[i - 1] : 0;
  int64_t to = v[role_offsets].whole[i];
  int64_t type = v[role_types].whole[i];
  int vertex[PB_MESH_POLYGON];

  // Offsets say where each cell ends in the connectivity.
  t->r->line = v[role_offsets].line;
  if (from < 0 || to <= from || (uint64_t)to > v[role_connectivity].count || to - from > PB_MESH_POLYGON)
    return pbRead_Fail(t->r, "cell %lld goes from entry %lld to %lld", (long long)i, (long long)from, (long long)to);

  t->r->line = v[role_connectivity].line;
  for (int64_t k = from; k < to; k++) {
    PB_TRY(pbRead_Range(t->r, v[role_connectivity].whole[k], 0));
    vertex[k - from] = (int)v[role_connectivity].whole[k];
  }

  // A group that is no int is none.
  int64_t group = v[role_group].there ? v[role_group].whole[i] : 0;
  if (group < 0 || group > INT_MAX) group = 0;

  t->r->line = v[role_types].line;
  return pbRead_AddVtkCell(t->r, type >= 0 && type < 256 ? (int)type : 256, vertex, (int)(to - from), (int)group);
}

static pbStatus fill_mesh(Vtu *t) {
  if (!t->unstructured) return pbRead_Fail(t->r, "is no VTK file");

  PB_TRY(read_appended(t));
  PB_TRY(check_counts(t));

  for (int64_t i = 0; i < t->points; i++) PB_TRY(pbRead_AddPoint(t->r, t->values[role_points].real + 3 * i));
  for (int64_t i = 0; i < t->cells; i++) PB_TRY(add_cell(t, i));
  return pb_ok;
}

pbStatus pbRead_Vtu(pbMeshReader *r) {
  Vtu t = {.r = r, .role = role_count};

  pbStatus status = parse_xml(&t);
  if (status == pb_ok) status = fill_mesh(&t);

  for (int role = 0; role < role_count; role++) {
    pbContext_Free(r->ctx, t.values[role].real);
    pbContext_Free(r->ctx, t.values[role].whole);
  }
  pbContext_Free(r->ctx, t.inside);

  return status;
}
