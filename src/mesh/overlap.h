// Inside of checks: pairs of tetrahedra that lie in each other.
#ifndef PB_MESH_OVERLAP_H
#define PB_MESH_OVERLAP_H

#include <pullback/mesh.h>

// A pair, numbered over both kinds of tetrahedra, linear ones first. False ends the search: all may lie in all.
typedef bool (*pbOverlapSeen)(void *whom, int cell, int other);

// Every pair whose corners' tetrahedra share more than what rounding in a file may be, in the order of the cells. outer: a byte
// for each tetrahedron, not zero where one of its faces belongs to no other; every other face must have one on each side.
PB_NODISCARD pbStatus pbMesh_FindOverlaps(pbContext *ctx, const pbMesh *mesh, const char *outer, pbOverlapSeen seen, void *whom);

#endif
