// Inside of mesh files: the buffers of a glTF file, each read once, when it is first asked for.
#ifndef PB_IO_GLTF_BUFFER_H
#define PB_IO_GLTF_BUFFER_H

#include <jansson.h>

#include "io/mesh/mesh_reader.h"

typedef struct pbGltfBuffer {
  const unsigned char *bytes;
  size_t size;
  char *own;  // freed with it
} pbGltfBuffer;

typedef struct pbGltfBuffers {
  pbGltfBuffer chunk;  // of a .glb
  pbGltfBuffer *read;  // `count` of them; no bytes: not yet
  int64_t count;
  size_t total;
} pbGltfBuffers;

// The buffer of that number: the chunk of a .glb, a file below the folder of this one, or base64 ("data:"). An address of any
// other kind, a file that is missing or shorter than it should be, and more than PB_MESH_FILE bytes in all are errors.
PB_NODISCARD pbStatus pbGltf_Buffer(pbMeshReader *r, const json_t *root, pbGltfBuffers *all, int64_t index,
                                    const pbGltfBuffer **buffer);
void pbGltf_DropBuffers(pbContext *ctx, pbGltfBuffers *all);

#endif
