// Numbers in text, whatever locale the program runs in.
#ifndef PB_TEXT_H
#define PB_TEXT_H

#include <stdbool.h>

// The whole of `text` as a number (decimal or hexadecimal, C's syntax); false, *value untouched, if it is not one. Infinite
// values and NaN are numbers here.
bool pbText_Real(const char *text, double *value);
// A whole number from 0 to 999 999 999, digits only.
bool pbText_Count(const char *text, int *value);

#endif
