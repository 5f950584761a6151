// The one number that builds with PULLBACK_MUTATE have besides (mutate.h); tests set it.
// Tests: tests/conformance/test_lists.c.
#include "base/mutate.h"

#ifdef PULLBACK_MUTATE
pbMutation pb_mutation;
#else
typedef int pbNothing;  // a source has something in it
#endif
