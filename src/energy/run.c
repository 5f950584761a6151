// Sizes of a run's working memory, and what a fault says.
// Tests: tests/unit/test_energy.c, tests/unit/test_energy_formula.c.
#include "energy/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"

size_t pbRun_WorkSize(const pbProgram *p, bool in_complex) {
  pbArena a = pbArena_Measure();
  pbArena_Take(&a, (size_t)p->slots, (in_complex ? 2 : 1) * PB_BLOCK * sizeof(double));

  // What find_origin notes of each slot.
  pbArena_Take(&a, (size_t)p->slots, sizeof(int));

  return pbArena_Needed(&a);
}

static const char *function_name(const pbOrigin *place) {
  static const char *const names[] = {
#define X(id, name, least, most) name,
      PB_FUNCTION_TABLE(X)
#undef X
  };
  return place->function < pb_fnCount ? names[place->function] : "an operation";
}

// Operators have nothing to add to what the operation itself says.
static const char *inside_function(const pbOrigin *place, const char *operation, char *text, size_t size) {
  const char *name = function_name(place);
  text[0] = 0;
  if (place->function > pb_fnGreaterEqual && place->function < pb_fnCount && strcmp(name, operation))
    snprintf(text, size, " in %s", name);

  return text;
}

static void explain_primal(const pbOrigin *place, int code, const double *v, char *text, size_t size) {
  char where[32];

  // What the operation was given, by the name that the formula has for it.
  switch (code) {
    case pb_opSqrt_code:
      snprintf(text, size, "sqrt of %.6g%s", v[0], inside_function(place, "sqrt", where, sizeof where));
      return;
    case pb_opLog_code: snprintf(text, size, "log of %.6g", v[0]); return;
    case pb_opAsin_code: snprintf(text, size, "asin of %.6g", v[0]); return;
    case pb_opAcos_code: snprintf(text, size, "acos of %.6g", v[0]); return;
    case pb_opLog1p_code: snprintf(text, size, "log1p of %.6g", v[0]); return;
    case pb_opAcosh_code: snprintf(text, size, "acosh of %.6g", v[0]); return;
    case pb_opAtanh_code: snprintf(text, size, "atanh of %.6g", v[0]); return;
    case pb_opExp_code: snprintf(text, size, "exp of %.6g overflows", v[0]); return;
    case pb_opPow_code: snprintf(text, size, "%.6g to the power %.6g", v[0], v[1]); return;
    case pb_opDiv_code:
      if (v[1] == 0 && place->function == pb_fnInverse) snprintf(text, size, "inverse of a singular matrix");
      else if (v[1] == 0) snprintf(text, size, "division by 0%s", inside_function(place, "/", where, sizeof where));
      else snprintf(text, size, "overflow in '%s'", function_name(place));

      return;
    default: snprintf(text, size, "overflow in '%s'", function_name(place));
  }
}

static void explain_derivative(const pbOrigin *place, int code, const double *v, char *text, size_t size) {
  // Roots and what is made of them have no slope at zero.
  bool root = place->function == pb_fnNorm || place->function == pb_fnSqrt || place->function == pb_fnHypot ||
              place->function == pb_fnNormalize;

  if (code == pb_opDiv_code && v[1] == 0)
    snprintf(text, size, "'%s' has no derivative here%s", function_name(place), root ? " (at 0)" : "");
  else snprintf(text, size, "the derivative of '%s' is not finite", function_name(place));
}

void pbRun_Explain(const pbProgram *p, int instruction, const double *v, pbEnergyFault *fault) {
  PB_ASSERT(instruction >= 0 && instruction < p->count);
  const pbOrigin *place = &p->place[instruction];
  int code = p->code[instruction].code;

  fault->line = place->line;
  fault->column = place->column;

  if (place->derived) explain_derivative(place, code, v, fault->what, sizeof fault->what);
  else explain_primal(place, code, v, fault->what, sizeof fault->what);
}

static const char *not_finite(double value) {
  if (isnan(value)) return "NaN";
  return isfinite(value) ? "not finite in its derivative" : "infinite";
}

static const char *single_input(int group) {
  if (group == pb_groupWeight) return "w";
  return group == pb_groupTime ? "t" : "h";
}

void pbRun_ExplainInput(const pbPort *port, double value, pbEnergyFault *fault) {
  // Points by the letters of the formula language.
  static const char *const letters[] = {"x", "X", "y"};
  const char *kind = not_finite(value);

  if (port->group <= pb_groupPrevious)
    snprintf(fault->what, sizeof fault->what, "%s%d.%c is %s", letters[port->group], port->index, "xyz"[port->offset], kind);
  else if (port->group == pb_groupParameter)
    snprintf(fault->what, sizeof fault->what, "entry %d of parameter %d is %s", port->offset, port->index, kind);
  else snprintf(fault->what, sizeof fault->what, "%s is %s", single_input(port->group), kind);
}
