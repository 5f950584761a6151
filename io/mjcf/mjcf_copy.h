// Copies of parts of a model's tree, as replicas or from a model that is attached, with whatever outside the tree refers to them.
#ifndef PB_IO_MJCF_COPY_H
#define PB_IO_MJCF_COPY_H

#include "io/mjcf/mjcf_reader.h"

typedef struct pbMjcfCopy {
  pbMjcfReader *reader;         // into whose tree
  pbMjcfReader *from;           // out of whose; the same for parts of the own
  const char *prefix, *suffix;  // what names get
  int attach;                   // number of the attach that copies from another model; 0: none
  bool strict;                  // names that are there already are an error
  const char *known, *assets;   // what names of assets of the last node began with, and now begin with
} pbMjcfCopy;

typedef struct pbMjcfReference {  // an attribute of an element outside the tree, and the kind of what it names (pb_ref*)
  const char *attribute;
  int kind;
} pbMjcfReference;

// The most references of one element: of an actuator, a pair or a sensor all attributes that name something.
enum { PB_MJCF_REFERENCES = 16 };

// Sections outside the tree in the order in which MuJoCo copies them: what is referred to first.
enum { PB_MJCF_OUTSIDE = 6 };
extern const char *const pbMjcf_Outside[PB_MJCF_OUTSIDE];

// Kind of an element of the tree (pb_ref*), of those of a section; pb_refNone: nobody refers to it.
int pbMjcf_KindOf(const pbXmlNode *node);
int pbMjcf_KindOutside(const pbXmlNode *section);
int pbMjcf_KindOfStation(const pbXmlNode *station);  // of a tendon
// Is there an element of this name? Only of what was walked over so far.
bool pbMjcf_NameExists(const pbMjcfReader *reader, int kind, const char *name);
// Say that a node's name is there (1), or is not (negative).
PB_NODISCARD pbStatus pbMjcf_SetName(pbMjcfReader *reader, const pbXmlNode *node, int kind, int present);
PB_NODISCARD pbStatus pbMjcf_SetNamesBelow(pbMjcfReader *reader, const pbXmlNode *node, int present);
// References of an element outside the tree into out[PB_MJCF_REFERENCES]; the number of them. Stations of tendons are not among
// them.
int pbMjcf_References(const pbXmlNode *node, pbMjcfReference *out);
// The time that a file can take is limited: one more element was visited.
PB_NODISCARD pbStatus pbMjcf_CountWork(pbMjcfReader *reader, const pbXmlNode *node);

// A node and all below it under a new parent.
PB_NODISCARD pbStatus pbMjcf_CopyBelow(pbMjcfCopy *copy, const pbXmlNode *node, pbXmlNode *parent);
// What refers to the copies that were made.
PB_NODISCARD pbStatus pbMjcf_CopyReferences(pbMjcfCopy *copy);
// Assets of another model: all of them.
PB_NODISCARD pbStatus pbMjcf_CopyAssets(pbMjcfCopy *copy);
// Give a node attributes of its own, with `attribute` set to value (NULL: pb_no_memory).
PB_NODISCARD pbStatus pbMjcf_SetAttribute(pbMjcfReader *reader, pbXmlNode *node, const char *attribute, const char *value);
// Put the children of `holder`, of which there is one at least, where `node` stands; `before` is its elder sibling.
void pbMjcf_Replace(pbXmlNode *node, pbXmlNode *before, pbXmlNode *holder);

#endif
