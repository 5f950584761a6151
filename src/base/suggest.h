// "Did you mean": the nearest of some words by edit distance.
//
//   pbSuggest s = pbSuggest_For("body_mas");
//   for (...) pbSuggest_Offer(&s, candidate);
//   pbSuggest_Write(&s, text, sizeof text);   // ", did you mean 'body_mass'?" or ""
#ifndef PB_SUGGEST_H
#define PB_SUGGEST_H

#include <stddef.h>

typedef struct pbSuggest {
  const char *word;
  const char *best;  // nearest candidate so far, near enough to be meant; NULL if there is none. Borrowed.
  int distance;
} pbSuggest;

pbSuggest pbSuggest_For(const char *word);
// Near is also a candidate that ends in "_word" ("mass" for "body_mass"), and one that the word abbreviates ("ctrl" for
// "control").
void pbSuggest_Offer(pbSuggest *s, const char *candidate);
// Closing part of an error message, always terminated; returns text.
const char *pbSuggest_Write(const pbSuggest *s, char *text, size_t size);

// Insertions, deletions, changes and swaps of neighbors (optimal string alignment) between two words, times two; 1 where
// they differ in case alone; words longer than 63 characters are compared by their first 63.
int pbSuggest_Distance(const char *a, const char *b);

#endif
