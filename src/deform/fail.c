// What a step of deformables could not do, in words: failures, and room that was too small.
// Tests: tests/unit/test_deform.c.
#include <stdarg.h>
#include <stdio.h>

#include "deform/deform.h"

pbStatus pbDeform_Fail(pbDeformWork *w, pbStatus status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(w->error, sizeof w->error, format, args);
  va_end(args);

  return status;
}

pbStatus pbDeform_Lacks(pbDeformWork *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!w->lacks) vsnprintf(w->lacking, sizeof w->lacking, format, args);
  va_end(args);

  // The first lack is the one that is reported.
  w->lacks = true;

  return pbDeform_Fail(w, pb_capacity, "%s", w->lacking);
}

pbStatus pbDeform_Settle(pbDeformWork *w, pbStatus status) {
  return w->lacks ? pbDeform_Fail(w, pb_capacity, "%s", w->lacking) : status;
}
