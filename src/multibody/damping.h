// Coefficients of dampers, those that actuators reflect to them included: linear and two of a polynomial.
#ifndef PB_DAMPING_H
#define PB_DAMPING_H

#include "eval/names.h"

void NUM(pbTendon_Damping)(const NUM(pbMechanism) *w, int tendon, num c[3]);
void NUM(pbDof_Damping)(const NUM(pbMechanism) *w, int dof, num c[3]);

#endif
