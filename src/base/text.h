// Numbers in text, whatever locale the program runs in.
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// The whole of `text` as a number (decimal or hexadecimal, C's syntax); false, *value untouched, if it is not one. Infinite
// values and NaN are numbers here.
bool pbText_Real(const char *text, double *value);
// The number with all its digits, as pbText_Real reads it; returns text.
char *pbText_PutReal(char *text, size_t size, double value);
// The same with as few digits as give the number back, bit by bit.
char *pbText_PutShortest(char *text, size_t size, double value);
// A whole number from 0 to 999 999 999, digits only.
bool pbText_Count(const char *text, int *value);
// The bytes of the character at `text`, where it is one of UTF-8 and ends before `end`; else 0.
size_t pbText_Character(const char *text, const char *end);

#endif
