// Where a gradient is noise (pbRollout_Noise), for those commands that warn of growth: measured where the costate grows much.
// Tests: tests/oracle/test_noise.py.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gradient.h"

static const double much = 1e3;

pbStatus cliNoise_Measure(pbRollout *rollout, const pbCertificate *c, pbNoise *noise) {
  *noise = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  if (!(exp(c->growth) > much)) return pb_ok;

  // as many directions as tell, in a command that has just made a gradient
  return pbRollout_Noise(rollout, &(pbNoiseOptions){.directions = 16}, noise);
}

// A sentence: begun with a capital, ended by a full stop and a space.
static const char *sentence(char *text, size_t size) {
  size_t length = strlen(text);
  if (length == 0 || length + 3 > size) return text;

  text[0] = (char)toupper((unsigned char)text[0]);
  memcpy(text + length, ". ", 3);
  return text;
}

void cliNoise_Warn(const pbNoise *noise, const char *where) {
  char says[512], helps[512];
  if (noise->step < 0) return;
  fprintf(cli_err, "pullback: warning: %s%s%s\n", where, sentence(pbNoise_Say(noise, says, sizeof says), sizeof says),
          sentence(pbNoise_Propose(noise, helps, sizeof helps), sizeof helps));
}
