// Inside of mesh files: one VTU file.
#ifndef PB_IO_VTU_H
#define PB_IO_VTU_H

#include <pullback/mesh.h>

PB_NODISCARD pbStatus pbVtu_WriteOne(pbContext *ctx, const char *path, const pbMesh *mesh, const pbVtuFrame *frame);

#endif
