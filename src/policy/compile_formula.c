// Which inputs and parameters a formula names is looked up in its text, so that a layer of many inputs has formulas of few.
// Tests: tests/unit/test_network.c.
#include "policy/compile_formula.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "energy/expression.h"

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// "x12" or "p3" at the start of a text: the row that it names, or -1.
static int row_of(const char *text, size_t length, int inputs, int params) {
  if (length < 2 || length > 8 || (text[0] != 'x' && text[0] != 'p')) return -1;
  if (strspn(text + 1, "0123456789") < length - 1 || (text[1] == '0' && length > 2)) return -1;

  int number = (int)strtol(text + 1, NULL, 10), most = text[0] == 'x' ? inputs : params;
  if (number >= most) return -1;
  return text[0] == 'x' ? number : inputs + number;
}

// The rows that a formula names, each once, in the order in which they occur; returns how many. room: PB_EXPRESSION_NUMBERS and
// one more.
static int find_rows(const char *formula, int inputs, int params, int *room) {
  int count = 0;

  for (const char *at = formula; *at && count <= PB_EXPRESSION_NUMBERS;) {
    size_t length = 0;
    while (is_word(at[length])) length++;

    int row = length ? row_of(at, length, inputs, params) : -1;
    for (int i = 0; i < count; i++) row = room[i] == row ? -1 : row;
    if (row >= 0) room[count++] = row;
    at += length ? length : 1;
  }

  return count;
}

// The name under which a formula has a row.
static void name_row(int row, int inputs, char name[16]) {
  if (row < inputs) snprintf(name, 16, "x%d", row);
  else snprintf(name, 16, "p%d", row - inputs);
}

static pbStatus compile_output(const pbPlace *place, const char *text, pbLayer *l, int params, int number, pbFormula *f) {
  pbContext *ctx = place->network->ctx;
  int rows[PB_EXPRESSION_NUMBERS + 1];
  char names[PB_EXPRESSION_NUMBERS + 1][16];
  pbExpressionInput inputs[PB_EXPRESSION_NUMBERS + 1];
  if (!text) return pbPlace_Fail(place, "output %d has no formula", number);

  f->used = find_rows(text, l->inputs, params, rows);
  for (int i = 0; i < f->used; i++) {
    name_row(rows[i], l->inputs, names[i]);
    inputs[i] = (pbExpressionInput){names[i], 1};
  }

  // A formula of numbers alone has an input that it does not use.
  f->row = pbNetwork_Take(place->network, (size_t)f->used + 1, sizeof *f->row);
  if (!f->row) return pb_no_memory;
  memcpy(f->row, rows, (size_t)f->used * sizeof *rows);

  pbStatus status = pbExpression_Create(ctx, text, inputs, f->used, PB_FORMULA_BLOCK, &f->expression);
  if (status != pb_bad_input && status != pb_capacity) return status;
  return pbPlace_Fail(place, "output %d: %s (there are %d inputs x0, x1, ... and %d parameters p0, p1, ...)", number,
                      pbContext_Error(ctx), l->inputs, params);
}

static pbStatus add_parameters(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  double *start = pbNetwork_Take(place->network, (size_t)def->parameters, sizeof *start);
  if (!start) return pb_no_memory;

  for (int i = 0; i < def->parameters; i++) {
    start[i] = def->parameter ? def->parameter[i] : 0;
    if (!isfinite(start[i])) return pbPlace_Fail(place, "parameter[%d] is %g", i, start[i]);
  }

  l->keeps = def->parameters;
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"parameter", NULL, def->parameters, 1, start, 0, 0, false});
}

pbStatus pbFormula_Compile(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (def->formulas < 1 || !def->formula)
    return pbPlace_Fail(place, "%d formulas: at least one is expected", def->formula ? def->formulas : 0);
  if (def->parameters < 0) return pbPlace_Fail(place, "%d parameters", def->parameters);

  pbFormula *formula = pbNetwork_Take(place->network, (size_t)def->formulas, sizeof *formula);
  if (!formula) return pb_no_memory;
  l->formula = formula;
  l->outputs = def->formulas;

  // Each is the network's to destroy before it is anything.
  for (int i = 0; i < def->formulas; i++) {
    formula[i].next = place->network->formulas;
    place->network->formulas = &formula[i];
    PB_TRY(compile_output(place, def->formula[i], l, def->parameters, i, &formula[i]));
  }

  return def->parameters ? add_parameters(place, def, l) : pb_ok;
}
