// A hash table with open addressing and linear probing (Knuth, volume 3, section 6.4), at most two thirds full.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include "compile/spec_names.h"

#include <string.h>

// FNV-1a; the upper bits are folded in, since slots are taken from the lower ones.
static size_t hash_name(int kind, const char *name) {
  uint64_t h = 14695981039346656037u ^ (unsigned)kind;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return (size_t)(h ^ h >> 29);
}

// The slot of a name, or the free one where it would be.
static size_t slot_of(const pbNameEntry *entries, size_t capacity, int kind, const char *name) {
  size_t slot = hash_name(kind, name) & (capacity - 1);
  while (entries[slot].name && (entries[slot].kind != kind || strcmp(entries[slot].name, name))) {
    slot = (slot + 1) & (capacity - 1);
  }
  return slot;
}

// Room for one more name.
static bool grow_table(pbNames *names) {
  if (names->used * 3 < names->capacity * 2) return true;

  size_t capacity = names->capacity ? 2 * names->capacity : 64;
  pbNameEntry *entries = pbContext_Alloc(names->ctx, capacity * sizeof *entries);
  if (!entries) return false;

  // Slots depend on the capacity, so every name moves.
  for (size_t i = 0; i < names->capacity; i++) {
    const pbNameEntry *entry = &names->entries[i];
    if (entry->name) entries[slot_of(entries, capacity, entry->kind, entry->name)] = *entry;
  }

  pbContext_Free(names->ctx, names->entries);
  names->entries = entries;
  names->capacity = capacity;
  return true;
}

int pbNames_Find(const pbNames *names, int kind, const char *name) {
  if (!names->capacity) return -1;

  const pbNameEntry *entry = &names->entries[slot_of(names->entries, names->capacity, kind, name)];
  return entry->name ? entry->id : -1;
}

bool pbNames_Set(pbNames *names, int kind, const char *name, int id) {
  if (!grow_table(names)) return false;
  pbNameEntry *entry = &names->entries[slot_of(names->entries, names->capacity, kind, name)];
  if (!entry->name) names->used++;
  *entry = (pbNameEntry){name, kind, id};
  return true;
}

void pbNames_Clear(pbNames *names) {
  pbContext_Free(names->ctx, names->entries);
  names->entries = NULL;
  names->capacity = names->used = 0;
}
