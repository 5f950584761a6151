// Differences of a short rollout by everything, at bounds and ties too, for pullback check.
#ifndef PB_SLOPES_H
#define PB_SLOPES_H

#include "check.h"

enum { slopes_most = 4, slopes_words = 320, slopes_bends = 6 };

typedef struct cliSlopeTest {
  const char *name;  // NULL: nothing of the kind in the model
  int tried, skipped;
  double worst, limit;
  bool holds;
  char words[slopes_words];
} cliSlopeTest;

// What lies where the motion bends, and what its gradient is.
typedef struct cliBend {
  char where[96], why[slopes_words];
} cliBend;

typedef struct cliSlopes {
  cliSlopeTest tests[slopes_most];
  cliBend bends[slopes_bends];
  int bend_count;
} cliSlopes;

// The first steps of the run from run->x0, moved along random directions: states and sensors against gradient and tangent.
pbStatus cliSlopes_Run(cliRun *run, pbRng *rng, cliSlopes *slopes);

#endif
