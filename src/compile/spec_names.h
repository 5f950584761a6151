// A table from (kind, name) to a number: names of elements of a spec, defaults classes.
#ifndef PB_SPEC_NAMES_H
#define PB_SPEC_NAMES_H

#include <pullback/base.h>

typedef struct pbNameEntry {
  const char *name;  // NULL: free. By reference: its text must outlive the table
  int kind, id;
} pbNameEntry;

typedef struct pbNames {  // zero it, set ctx
  pbContext *ctx;
  pbNameEntry *entries;
  size_t capacity, used;  // capacity is 0 or a power of two
} pbNames;

// Number of a name, -1 if it is not there.
int pbNames_Find(const pbNames *names, int kind, const char *name);
// Set its number, whether it is there or not. False when out of memory. Setting -1 forgets a name.
bool pbNames_Set(pbNames *names, int kind, const char *name, int id);
void pbNames_Clear(pbNames *names);

#endif
