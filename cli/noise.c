// Where a gradient is noise (pbRollout_Noise), for those commands that warn of growth: measured where the costate grows much.
// Tests: tests/oracle/test_noise.py.
#include <math.h>

#include "gradient.h"

static const double much = 1e3;

pbStatus cliNoise_Measure(pbRollout *rollout, const pbCertificate *c, pbNoise *noise) {
  *noise = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  if (!(exp(c->growth) > much)) return pb_ok;

  // as many directions as tell, in a command that has just made a gradient
  return pbRollout_Noise(rollout, &(pbNoiseOptions){.directions = 16}, noise);
}

void cliNoise_Warn(const pbNoise *noise, const char *where) {
  char text[PB_NOTES_TEXT];
  cliRun_Warn(pbNoise_Warning(noise, where, text, sizeof text));
}
