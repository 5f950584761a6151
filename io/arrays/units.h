// Units as recordings state them ("deg/s", "N m"), brought to SI.
#ifndef PB_IO_UNITS_H
#define PB_IO_UNITS_H

#include <stdbool.h>
#include <stddef.h>

// Dimensions: powers of these. An angle is one of its own, so that degrees are told from metres and turns from cycles.
typedef enum pbUnitBase { pb_baseMetre, pb_baseKilogram, pb_baseSecond, pb_baseAmpere, pb_baseKelvin, pb_baseRadian } pbUnitBase;
enum { PB_UNIT_BASES = pb_baseRadian + 1, PB_UNIT_TEXT = 64 };

typedef struct pbUnit {
  bool stated;               // false: a column without unit, which is taken as it is
  double up, down, offset;   // number in SI = number * up / down + offset; division by 1000 rounds as the literal in seconds does
  int power[PB_UNIT_BASES];  // of the dimension
} pbUnit;

pbUnit pbUnit_None(void);
// A text in UTF-8 without blanks around it; false: not known. "m/s^2", "m/s2", "m s^-2" and "m/s²" are one.
bool pbUnit_Parse(const char *text, pbUnit *unit);
double pbUnit_ToSi(const pbUnit *unit, double value);
// Whether numbers of this unit are of a quantity in `si` (a text that Parse knows): a unit that is not stated always; the unit
// one ("1", "-", "%") also where angles are wanted.
bool pbUnit_Fits(const pbUnit *unit, const char *si);
// "m/s^2", "N m", "rad", "1", ... into text; returns text.
char *pbUnit_Text(const pbUnit *unit, char *text, size_t size);
// A word that was probably meant, or "".
const char *pbUnit_Hint(const char *text, char *hint, size_t size);

#endif
