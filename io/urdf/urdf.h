// URDF, as its tree, into a spec.
#ifndef PB_IO_URDF_H
#define PB_IO_URDF_H

#include "io/xml/xml.h"

// The whole of a document into an empty spec, in whose pool the document has its names.
PB_NODISCARD pbStatus pbUrdf_Read(pbXmlDocument *document, const pbUrdfOptions *options, pbSpec *spec);

#endif
