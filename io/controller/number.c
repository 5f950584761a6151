// Numbers of an exported policy. Tests: tests/unit/test_policy_c.c.
#include <stdint.h>
#include <string.h>

#include "io/controller/controller.h"

void pbPrinted_Number(FILE *out, double value, bool single) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  int power = (int)(bits >> 52 & 0x7ff);
  unsigned long long fraction = bits & 0xfffffffffffff;

  // digits of a power of two are exact; printf's have the locale's point
  fprintf(out, "%s0x%d.%013llxp%+d%s", bits >> 63 ? "-" : "", power > 0, fraction, power > 0 ? power - 1023 : -1022,
          single ? "f" : "");
}
