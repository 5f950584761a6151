// Mass, center and inertia of a body as ten unknowns that are a body whatever they are.
#ifndef PB_INERTIA_H
#define PB_INERTIA_H

#include <stdbool.h>

enum { PB_INERTIA = 10, PB_INERTIA_NUMBERS = 11 };
// Values: mass (kg), center (m), moments and products of inertia xx, yy, zz, xy, xz, yz about it in the body's axes (kg m^2).
extern const char *const pbInertia_Names[PB_INERTIA];
// What a minimizer moves: of the values it has the center alone.
extern const char *const pbInertia_Unknowns[PB_INERTIA];
void pbInertia_Values(const double *z, double *value);
void pbInertia_ValuesBy(const double *z, double *J);   // 10 x 10
bool pbInertia_Start(const double *value, double *z);  // false: no body has these values
// The model's numbers: body_mass, body_ipos (3), body_iquat (4), body_inertia (3).
void pbInertia_Put(const double *value, double *number);
void pbInertia_Pull(const double *value, const double *bar, double *value_bar);  // added to
void pbInertia_Push(const double *value, const double *by, double *number);

#endif
