// Buffers of glTF: the chunk of a .glb, files beside the description, base64 (RFC 4648) in a "data:" address (RFC 2397).
// Tests: tests/oracle/test_dae.py, tests/unit/test_mesh_files.c.
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/file.h"
#include "io/mesh/gltf_buffer.h"
#include "io/roots.h"
#include "mesh/mesh.h"

enum { MOST_BUFFERS = 4096 };

static pbStatus fail(const pbMeshReader *r, pbStatus status, int64_t index, const char *what) {
  return pbContext_Fail(r->ctx, status, "%.400s: buffers[%lld]: %s", r->name, (long long)index, what);
}

// ---- base64 -----------------------------------------------------------------------------------------------------------------

// What a letter stands for, -1: it is none.
static int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;

  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Into `out`, with room for three bytes of every four letters; false where the text is none.
static bool decode(const char *text, unsigned char *out, size_t *size) {
  uint32_t bits = 0;
  int held = 0;

  *size = 0;
  for (; *text && *text != '='; text++) {
    int value = value_of(*text);
    if (value < 0) return false;

    // Six bits more; a byte where there are eight.
    bits = (bits << 6 | (uint32_t)value) & 0xffffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out[(*size)++] = (unsigned char)(bits >> held);
  }

  // Signs at the end fill up a group of four.
  return text[strspn(text, "=")] == 0 && held < 6;
}

static pbStatus read_data(pbMeshReader *r, int64_t index, const char *address, pbGltfBuffer *b) {
  const char *comma = strchr(address, ',');
  if (!comma || comma - address < 7 || strncmp(comma - 7, ";base64", 7) != 0)
    return fail(r, pb_unsupported, index, "expected base64 behind 'data:'");

  b->own = pbContext_Alloc(r->ctx, strlen(comma) / 4 * 3 + 4);
  if (!b->own) return pbMesh_NoMemory(r->ctx, r->name);

  b->bytes = (const unsigned char *)b->own;
  return decode(comma + 1, (unsigned char *)b->own, &b->size) ? pb_ok : fail(r, pb_bad_input, index, "is no base64");
}

// ---- files ------------------------------------------------------------------------------------------------------------------

// "%20" in an address is a blank in the name of a file. false: an address that is none, or one with a zero in it.
static bool unescape(const char *address, char *name, size_t size) {
  size_t n = 0;

  for (; *address && n + 1 < size; address++) {
    if (*address != '%') {
      name[n++] = *address;
      continue;
    }

    // Two digits follow.
    if (!isxdigit((unsigned char)address[1]) || !isxdigit((unsigned char)address[2])) return false;
    char digits[3] = {address[1], address[2], 0};
    name[n] = (char)strtol(digits, NULL, 16);
    if (!name[n++]) return false;
    address += 2;
  }

  name[n] = 0;
  return !*address;
}

// The file below the folder of r's, by real paths: links may lead nowhere else.
static pbStatus read_file(pbMeshReader *r, int64_t index, const char *address, pbGltfBuffer *b) {
  char name[PATH_MAX], path[PATH_MAX], folder[PATH_MAX], real[PATH_MAX], text[400];
  if (!r->in_file) return fail(r, pb_unsupported, index, "is in another file, where this one is in none");

  bool there = unescape(address, name, sizeof name) && !strstr(name, "://") && *name != '/';
  const char *slash = strrchr(r->name, '/');
  int stem = slash ? (int)(slash - r->name) + 1 : 0;
  there = there && snprintf(path, sizeof path, "%.*s%s", stem, r->name, name) < (int)sizeof path;
  there = there && snprintf(folder, sizeof folder, "%.*s.", stem, r->name) < (int)sizeof folder;
  snprintf(text, sizeof text, "expected the name of a file below this one's folder, found '%.200s'", address);
  if (!there) return fail(r, pb_unsupported, index, text);

  // The folder is that in which this file really lies, too.
  char base[PATH_MAX];
  snprintf(text, sizeof text, "file '%.200s' cannot be found", name);
  if (!realpath(folder, base) || !realpath(path, real)) return fail(r, pb_file, index, text);
  snprintf(text, sizeof text, "file '%.200s' is not below this one's folder", name);
  if (!pbRoots_Inside(real, base)) return fail(r, pb_unsupported, index, text);

  PB_TRY(pbFile_ReadAll(r->ctx, path, PB_MESH_FILE, &b->own, &b->size));
  b->bytes = (const unsigned char *)b->own;
  return pb_ok;
}

// ---- all --------------------------------------------------------------------------------------------------------------------

static pbStatus read_buffer(pbMeshReader *r, const json_t *entry, int64_t index, pbGltfBuffers *all, pbGltfBuffer *b) {
  const char *address = json_string_value(json_object_get(entry, "uri"));
  const json_t *length = json_object_get(entry, "byteLength");

  // Without an address it is the chunk of a .glb.
  if (!address && (index || !all->chunk.bytes)) return fail(r, pb_bad_input, index, "has no address ('uri')");
  if (!address) *b = all->chunk;
  else PB_TRY(strncmp(address, "data:", 5) ? read_file(r, index, address, b) : read_data(r, index, address, b));

  if (length && (!json_is_integer(length) || json_integer_value(length) < 0))
    return fail(r, pb_bad_input, index, "byteLength: expected a whole number from 0 on");
  if (length && (uint64_t)json_integer_value(length) > b->size)
    return fail(r, pb_bad_input, index, "has fewer bytes than 'byteLength' says");

  // One file named many times counts as often.
  all->total += b->size;
  return all->total <= PB_MESH_FILE ? pb_ok : fail(r, pb_bad_input, index, "more than 512 MiB in all");
}

pbStatus pbGltf_Buffer(pbMeshReader *r, const json_t *root, pbGltfBuffers *all, int64_t index, const pbGltfBuffer **buffer) {
  const json_t *list = json_object_get(root, "buffers");
  int64_t count = (int64_t)json_array_size(list);

  // The chunk of a .glb may have no entry.
  if (!count && !index && all->chunk.bytes) {
    *buffer = &all->chunk;
    return pb_ok;
  }

  if (index >= count || index >= MOST_BUFFERS) return fail(r, pb_bad_input, index, "there is no such entry");

  if (!all->read) {
    int64_t kept = count < MOST_BUFFERS ? count : MOST_BUFFERS;
    all->read = pbContext_AllocArray(r->ctx, (size_t)kept, sizeof *all->read);
    if (!all->read) return pbMesh_NoMemory(r->ctx, r->name);
    all->count = kept;
  }

  PB_ASSERT(index < all->count);
  pbGltfBuffer *b = &all->read[index];

  // Once each, when it is first asked for.
  if (!b->bytes) PB_TRY(read_buffer(r, json_array_get(list, (size_t)index), index, all, b));
  *buffer = b;
  return pb_ok;
}

void pbGltf_DropBuffers(pbContext *ctx, pbGltfBuffers *all) {
  for (int64_t i = 0; i < all->count; i++) pbContext_Free(ctx, all->read[i].own);
  pbContext_Free(ctx, all->read);
}
