// The tree an XML file is read into (MJCF, URDF, DAE), with the position of every element in its file. Untrusted: everything that
// can grow is limited, and no file outside the folders that may be read from is opened.
#ifndef PB_IO_XML_XML_H
#define PB_IO_XML_XML_H

#include <locale.h>
#include <stdarg.h>

#include <pullback/io.h>
#include <pullback/spec.h>

#include "compile/spec_pool.h"
#include "io/roots.h"

enum {
  PB_XML_DEPTH = 256,        // nesting of elements
  PB_XML_ELEMENTS = 400000,  // of all files together, replicas too
  PB_XML_ATTRIBUTES = 64,    // of one element
  PB_XML_INCLUDES = 32,      // nesting of includes
  PB_XML_FILE = 32 << 20,    // bytes of one file
  PB_XML_BYTES = 64 << 20    // bytes of all files; with these the tree stays well below 1 GiB
};

typedef struct pbXmlAttribute {
  const char *name, *value;
} pbXmlAttribute;

// Where the numbers of a joint, actuator or mocap body begin in keyframes of its model, and the last keyframe that took them.
typedef struct pbXmlAddress {
  int qpos, qvel, act, ctrl, mocap, taken;
} pbXmlAddress;

typedef struct pbXmlNode pbXmlNode;
struct pbXmlNode {
  const char *name;
  const pbXmlAttribute *attributes;
  int attribute_count;
  pbXmlNode *parent, *first, *last, *next;
  const char *text;  // of an element without children, where the document keeps it; else NULL
  pbPlace place;
  int element;         // index of its kind (mjcf_reader.h), -1 before it was looked up
  const double *pose;  // frames made by replicate and attach: position, quaternion
  // What attach made: the node that it is a copy of, by which attach (from 1), and what its assets' names begin with.
  pbXmlNode *source;
  int attach;
  const char *assets;
  pbXmlAddress at;
};

typedef struct pbXmlFile {
  struct pbXmlFile *next;
  char *real;  // absolute path, links resolved
} pbXmlFile;

typedef struct pbXmlDocument {
  pbContext *ctx;
  locale_t c_locale;  // of numbers: a decimal point, whatever language the program runs in
  pbSpecPool pool;    // nodes, attributes
  pbSpecPool *names;  // pool of the spec: names of files in positions
  pbXmlNode *root;
  bool keeps_text;    // of elements, beside their attributes
  size_t most_bytes;  // of a file and of all together; 0: as above
  int elements;       // how many there are
  size_t bytes;
  char *folder;      // real path of the model's folder; NULL: text without a file
  pbRoots roots;     // further folders that may be read from
  pbXmlFile *files;  // all files read
} pbXmlDocument;

// An empty document; Close it in any case. names: where the names of files live, as long as the places of errors are needed.
PB_NODISCARD pbStatus pbXml_Open(pbXmlDocument *document, pbContext *ctx, pbSpecPool *names);
// Read one file, or a text.
PB_NODISCARD pbStatus pbXml_Load(pbXmlDocument *document, const char *path, const pbLoadOptions *options);
PB_NODISCARD pbStatus pbXml_Parse(pbXmlDocument *document, const char *text, size_t length, const char *name);
// The files that `include` elements name, in their place.
PB_NODISCARD pbStatus pbXml_Include(pbXmlDocument *document);
// Let files below a folder be read. pb_file where there is none.
PB_NODISCARD pbStatus pbXml_Allow(pbXmlDocument *document, const char *folder);
// Real path of another file that an element names, from the main file's folder: it is there, and in a folder that may be read
// from.
PB_NODISCARD pbStatus pbXml_FindFile(pbXmlDocument *document, const pbXmlNode *node, const char *name, char **real);
// The same from the folder of another file, `of`.
PB_NODISCARD pbStatus pbXml_FindBeside(pbXmlDocument *document, const pbXmlNode *node, const char *of, const char *name,
                                       char **real);
// The path without links and dots; NULL where there is no such file.
PB_NODISCARD pbStatus pbXml_RealPath(pbXmlDocument *document, const char *path, char **real);
// May it be read? pb_unsupported with the option that allows it. name: as the element gives it.
PB_NODISCARD pbStatus pbXml_CheckInside(pbXmlDocument *document, const pbXmlNode *node, const char *name, const char *real);
void pbXml_Close(pbXmlDocument *document);

// Numbers of a text into out (at most `most` are stored); *count is how many there are. False: not a number at *bad.
bool pbXml_Numbers(const pbXmlDocument *document, const char *text, double *out, int most, int *count, const char **bad);

// "file:line:column: element 'name': text" into the context.
pbStatus pbXml_Fail(const pbXmlDocument *document, pbStatus status, const pbXmlNode *node, const char *format, ...)
    PB_PRINTF(4, 5);
// The same as a warning.
void pbXml_Warn(const pbXmlDocument *document, const pbXmlNode *node, const char *format, ...) PB_PRINTF(3, 4);
// Value of an attribute, NULL if it is not given.
const char *pbXml_Get(const pbXmlNode *node, const char *attribute);
// Copy of a node under a new parent (as its last child), without children.
PB_NODISCARD pbStatus pbXml_Copy(pbXmlDocument *document, const pbXmlNode *node, pbXmlNode *parent, pbXmlNode **copy);
// Take a node out of its parent; `before` is its elder sibling or NULL.
void pbXml_Remove(pbXmlNode *node, pbXmlNode *before);

#endif
