// What is said where a gradient is noise: the verdict and what to do instead, as sentences.
// Tests: tests/oracle/test_noise.py.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <pullback/trajectory.h>

// A sentence: begun with a capital, ended by a full stop and a space.
static const char *sentence(char *text, size_t size) {
  size_t length = strlen(text);
  if (length == 0 || length + 3 > size) return text;

  text[0] = (char)toupper((unsigned char)text[0]);
  memcpy(text + length, ". ", 3);
  return text;
}

const char *pbNoise_Warning(const pbNoise *noise, const char *where, char *text, size_t size) {
  char says[512], helps[512];
  text[0] = 0;
  if (noise->step < 0) return text;

  pbNoise_Say(noise, says, sizeof says);
  pbNoise_Propose(noise, helps, sizeof helps);
  snprintf(text, size, "%s%s%s", where, sentence(says, sizeof says), sentence(helps, sizeof helps));
  return text;
}
