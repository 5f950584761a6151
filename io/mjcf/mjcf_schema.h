// The one table of MJCF: every element and attribute of MuJoCo 4.0.0's XMLschema (and the meta-elements frame, replicate and
// include of its XMLreference) with what becomes of it here. The reader is driven by it: what is not in it is an error.
#ifndef PB_IO_MJCF_SCHEMA_H
#define PB_IO_MJCF_SCHEMA_H

#include <pullback/base.h>

typedef enum pbMjcfSupport {
  pb_mjcfSupported,  // read, and acts as in MuJoCo
  pb_mjcfNoEffect,   // checked and accepted; nothing that moves depends on it
  pb_mjcfRefused     // pb_unsupported, unless the value is `neutral`
} pbMjcfSupport;

// How a value is read:
//   t text   n name of the element   c defaults class   d real numbers   i integers   v any count of numbers, stored as pbReals
//   q quaternion   o other orientation (arg: pbAlt)   b false/true   k one of `words`   a any text
//   r any count of numbers, checked   f, e option flag that disables, enables (arg: its bit)
typedef struct pbMjcfRow {
  const char *element;    // path: "option/flag", "body/joint" (wherever bodies nest), "default/joint", "actuator/motor"
  const char *attribute;  // NULL: the row is about the element itself
  int support;            // pbMjcfSupport
  int required;           // attribute must be given; element: may stand only once in its parent
  const char *words;      // keywords, "word" or "word=value", values 0, 1, ... if not stated; '!' before one that is refused
  const char *neutral;    // the one value a refused attribute may have
  char type;
  unsigned char least, most;  // count of numbers
  unsigned short offset;      // where the value goes in the definition of the element; pb_mjcfNowhere: nowhere, or code does it
  int arg;
} pbMjcfRow;

enum { pb_mjcfNowhere = 0xffff };

// All rows; those of an element lie together, its own row first.
PB_API const pbMjcfRow *pbMjcf_Table(int *count);

#endif
