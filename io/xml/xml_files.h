// Inside of io/xml: names and texts of files.
#ifndef PB_IO_XML_FILES_H
#define PB_IO_XML_FILES_H

#include "io/xml/xml.h"

// "folder of `of`" / name, or just name where `of` has no folder or name is absolute. False where it is too long.
bool pbXml_Join(char *out, size_t size, const char *of, const char *name);
// Parse another file; its root element goes to *root. shown: its name in messages.
PB_NODISCARD pbStatus pbXml_ReadFile(pbXmlDocument *document, const char *real, const char *shown, pbXmlNode **root);

#endif
