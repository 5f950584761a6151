// MJCF, as its tree, into a spec.
#ifndef PB_IO_MJCF_H
#define PB_IO_MJCF_H

#include "io/xml/xml.h"

// The whole of a document into an empty spec, in whose pool the document has its names.
PB_NODISCARD pbStatus pbMjcf_Read(pbXmlDocument *document, pbSpec *spec);

typedef struct pbMjcfFolders {  // where files of meshes are
  const char *meshdir;          // NULL: in the model's own folder
  bool strippath;               // only the names of their files count
} pbMjcfFolders;

// Of a `mujoco` element anywhere in a document: compiler, option and size onto those of the spec. Other sections are
// pb_bad_input.
PB_NODISCARD pbStatus pbMjcf_ReadSettings(pbXmlDocument *document, pbXmlNode *root, pbSpec *spec, pbMjcfFolders *folders);

#endif
