// Words of formulas: which are names, and what the language itself means by them.
#ifndef PB_ENERGY_WORDS_H
#define PB_ENERGY_WORDS_H

#include <pullback/energy.h>

#include "base/suggest.h"

enum { PB_WORD = 48 };  // room for a name and its end

bool pbWord_Starts(char c);  // may a name begin so, go on so
bool pbWord_Goes(char c);
// Of `length` letters from `start`.
bool pbWord_Is(const char *start, int length, const char *word);
bool pbWord_Function(const char *start, int length, pbFunction *f);
bool pbWord_Point(const char *start, int length, int *index);  // x3, X0, y12
bool pbWord_Common(const char *start, int length);             // means the same in every formula
bool pbWord_Reserved(const char *start, int length);           // or something in energies
void pbWord_Offer(pbSuggest *s);                               // names of functions

#endif
