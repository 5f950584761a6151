// How mesh_scale, mesh_refpos and mesh_refquat move the hull that was compiled: x' = stretch x + shift, in the frame of the geoms
// of the mesh, which stays where it was compiled.
#ifndef PB_MESH_MAP_H
#define PB_MESH_MAP_H

#include "eval/names.h"
#include "geometry/pair.h"

// pb_hullStays: the parameters are as they were compiled, and nothing is written.
pbHullMotion NUM(pbMesh_Map)(const NUM(pbMechanism) *w, int mesh, num stretch[9], num shift[3]);

#endif
