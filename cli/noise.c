// Where a gradient is noise (pbRollout_Noise), for those commands that warn of growth: measured where the costate grows much.
#include <math.h>
#include <stdio.h>

#include "gradient.h"

static const double much = 1e3;

pbStatus cliNoise_Measure(pbRollout *rollout, const pbCertificate *c, pbNoise *noise) {
  *noise = (pbNoise){.time = INFINITY, .step = -1};
  if (!(exp(c->growth) > much)) return pb_ok;

  // as many directions as tell, in a command that has just made a gradient
  return pbRollout_Noise(rollout, &(pbNoiseOptions){.directions = 16}, noise);
}

const char *cliNoise_Say(const pbNoise *noise, char *text, size_t size) {
  text[0] = 0;
  if (noise->step < 0) return text;

  snprintf(text, size,
           "The gradient is noise beyond t = %.3g s: from there on moves of %.0e at the start do not go where it says. ",
           noise->time, noise->move);
  return text;
}
