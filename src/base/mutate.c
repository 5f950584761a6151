// The one number that builds with PULLBACK_MUTATE have besides (mutate.h); tests set it.
#include "base/mutate.h"

#ifdef PULLBACK_MUTATE
pbMutation pb_mutation;
#else
typedef int pbNothing;  // a source has something in it
#endif
