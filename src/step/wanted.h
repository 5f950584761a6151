// Groups of parameters (model/wanted.h) by the fields that belong to them.
#ifndef PB_WORLD_WANTED_H
#define PB_WORLD_WANTED_H

#include <stdbool.h>

#include <pullback/model.h>

// Groups none of whose fields is wanted. unwanted: by number of the field, as pbModel_ParamAt counts.
unsigned pbWanted_Skip(const pbModel *model, const bool *unwanted);
// Does pbModel_SetConstantsVjp take gradients by this field on to others?
bool pbWanted_Taken(const pbModel *model, int field);
// May pbModel_SetConstantsVjp add to the gradient by this field?
bool pbWanted_Source(const pbModel *model, int field);

#endif
