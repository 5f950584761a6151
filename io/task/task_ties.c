// Ties of a task: "sets" of a variable, parameters that follow it and others by formulas.
// Tests: tests/unit/test_task_ties.c.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "energy/formula.h"
#include "io/task/task_reader.h"
#include "model/model.h"

enum { MOST_SETS = 10000 };

// ---- what is set ------------------------------------------------------------------------------------------------------
// A formula for a number, or a list of as many as the parameter has.
static pbStatus check_formulas(pbTaskReader *r, const json_t *value, const char *name, size_t count) {
  if (json_is_string(value) && count > 1)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a list of %zu formulas, found one (one entry is \"%s:ENTRY\")", count,
                             name);
  if (json_is_string(value)) return pb_ok;

  if (!json_is_array(value) || json_array_size(value) != count)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a formula%s", count > 1 ? " for each number" : "");

  for (size_t i = 0; i < count; i++) {
    if (!json_is_string(json_array_get(value, i)))
      return pbTaskReader_Fail(r, pb_bad_input, "expected a list of texts: formula %zu is none", i);
  }
  return pb_ok;
}

static pbStatus add_target(pbTaskReader *r, const pbParam *p, pbVariable *v) {
  size_t count = (size_t)p->rows * (size_t)p->cols;
  if ((size_t)v->index_count + count > MOST_SETS)
    return pbTaskReader_Fail(r, pb_capacity, "more than %d numbers are set", (int)MOST_SETS);

  size_t *grown = pbContext_Resize(r->ctx, v->index, ((size_t)v->index_count + count) * sizeof *grown);
  if (!grown) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a variable");
  v->index = grown;

  for (size_t i = 0; i < count; i++) {
    for (int k = 0; k < v->index_count; k++) {
      if (grown[k] == p->offset + i) return pbTaskReader_Fail(r, pb_bad_input, "a number of it is set twice");
    }
  }

  for (size_t i = 0; i < count; i++) grown[v->index_count++] = p->offset + i;
  return pb_ok;
}

pbStatus pbTask_ReadTargets(pbTaskReader *r, const json_t *object, bool recompute, pbVariable *v) {
  const json_t *sets = json_object_get(object, "sets");
  const char *name, *given = NULL;
  json_t *value;
  PB_TRY(pbTaskReader_Text(r, object, "name", &given));
  pbTaskReader_Enter(r, "sets");
  if (!json_is_object(sets) || json_object_size(sets) == 0)
    return pbTaskReader_Fail(r, pb_bad_input, "expected an object {parameter: formula}");

  json_object_foreach((json_t *)sets, name, value) {
    pbParam p;
    pbTaskReader_Enter(r, name);
    PB_TRY(pbTask_FindVariedParam(r, name, recompute, &p));
    PB_TRY(check_formulas(r, value, name, (size_t)p.rows * (size_t)p.cols));
    PB_TRY(add_target(r, &p, v));
    pbTaskReader_Leave(r);
  }

  // without a name it is called by what it sets first
  v->name = pbContext_CopyText(r->ctx, given ? given : json_object_iter_key(json_object_iter((json_t *)sets)));
  if (!v->name) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a name");
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- what formulas may name -------------------------------------------------------------------------------------------
typedef struct Names {
  pbExpressionInput input[PB_EXPRESSION_NUMBERS];
  int unknown[PB_EXPRESSION_NUMBERS];      // the first of each; -1: a constant
  double constant[PB_EXPRESSION_NUMBERS];  // its value
  int count;
} Names;

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool mentions(const char *formula, const char *word) {
  size_t length = strlen(word);

  // as a whole word, not as a part of one
  for (const char *at = strstr(formula, word); at; at = strstr(at + 1, word)) {
    if ((at == formula || !is_letter(at[-1])) && !is_letter(at[length])) return true;
  }
  return false;
}

static pbStatus add_name(pbTaskReader *r, Names *n, const char *name, int count, int unknown, double constant) {
  // a name of two things would be the first one's, silently
  for (int i = 0; i < n->count; i++) {
    if (strcmp(n->input[i].name, name) == 0)
      return pbTaskReader_Fail(r, pb_bad_input, "'%.60s' may mean two things here: give one of them another name", name);
  }

  if (n->count == PB_EXPRESSION_NUMBERS) return pbTaskReader_Fail(r, pb_bad_input, "a formula of too many names");

  n->input[n->count] = (pbExpressionInput){name, count};
  n->unknown[n->count] = unknown;
  n->constant[n->count++] = constant;
  return pb_ok;
}

// Other variables by their names, as far as the formula has them.
static pbStatus add_variable(pbTaskReader *r, const pbVariable *v, const char *formula, Names *n) {
  if (pbFormula_NameFault(v->name) || !mentions(formula, v->name)) return pb_ok;

  if (v->kind != pb_varyParam && v->kind != pb_varySets)
    return pbTaskReader_Fail(r, pb_bad_input, "variable '%.60s' is no parameter: formulas of parameters cannot depend on it",
                             v->name);

  // one of its numbers alone means nothing
  if (v->row_count)
    return pbTaskReader_Fail(r, pb_bad_input, "variable '%.60s' moves on a unit sphere: formulas cannot depend on it", v->name);
  if (v->count > 3)
    return pbTaskReader_Fail(r, pb_bad_input, "variable '%.60s' has %d numbers: formulas can have 1 to 3", v->name, v->count);
  return add_name(r, n, v->name, v->count, v->first, 0);
}

static pbStatus add_constants(pbTaskReader *r, const json_t *object, const char *formula, Names *n) {
  const json_t *constants = json_object_get(object, "constants");
  const char *name;
  json_t *value;
  if (!constants) return pb_ok;

  if (!json_is_object(constants)) return pbTaskReader_Fail(r, pb_bad_input, "\"constants\": expected an object {name: number}");

  json_object_foreach((json_t *)constants, name, value) {
    const char *fault = pbFormula_NameFault(name);
    if (fault) return pbTaskReader_Fail(r, pb_bad_input, "constant '%.60s': %s", name, fault);

    if (!json_is_number(value)) return pbTaskReader_Fail(r, pb_bad_input, "constant '%.60s': expected a number", name);
    if (mentions(formula, name)) PB_TRY(add_name(r, n, name, 1, -1, json_number_value(value)));
  }
  return pb_ok;
}

static pbStatus collect_names(pbTaskReader *r, const json_t *object, const pbTask *task, const pbVariable *own,
                              const char *formula, Names *n) {
  n->count = 0;
  PB_TRY(add_name(r, n, "z", 1, own->first, 0));

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v != own || strcmp(v->name, "z") != 0) PB_TRY(add_variable(r, v, formula, n));
  }
  return add_constants(r, object, formula, n);
}

// ---- formulas ---------------------------------------------------------------------------------------------------------
static pbStatus make_tie(pbTaskReader *r, const char *formula, const Names *n, pbFollower *tie) {
  pbStatus status = pbExpression_Create(r->ctx, formula, n->input, n->count, 1, &tie->expression);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  // inputs and slopes, as wide as the expression has them
  size_t width = (size_t)pbExpression_Width(tie->expression);
  tie->unknown = pbContext_AllocArray(r->ctx, width, sizeof *tie->unknown);
  tie->in = pbContext_AllocArray(r->ctx, width, sizeof *tie->in);
  tie->slope = pbContext_AllocArray(r->ctx, width, sizeof *tie->slope);
  if (!tie->unknown || !tie->in || !tie->slope) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");

  // vectors number by number
  for (int i = 0; i < n->count; i++) {
    for (int c = 0; c < n->input[i].count; c++) {
      tie->in[tie->count] = n->constant[i];
      tie->unknown[tie->count++] = n->unknown[i] < 0 ? -1 : n->unknown[i] + c;
    }
  }
  return pb_ok;
}

static pbStatus read_formula(pbTaskReader *r, const json_t *object, const char *formula, const pbTask *task, pbVariable *v) {
  Names names;
  PB_TRY(collect_names(r, object, task, v, formula, &names));
  return make_tie(r, formula, &names, &v->followers[v->follower_count++]);
}

static pbStatus read_sets(pbTaskReader *r, const json_t *object, const pbTask *task, pbVariable *v) {
  const char *name;
  json_t *value;
  v->followers = pbContext_AllocArray(r->ctx, (size_t)v->index_count, sizeof *v->followers);
  if (!v->followers) return pbTaskReader_Fail(r, pb_no_memory, "no memory for formulas");

  // in the order in which index was filled
  pbTaskReader_Enter(r, "sets");
  json_object_foreach(json_object_get(object, "sets"), name, value) {
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    pbTaskReader_Enter(r, name);
    for (size_t i = 0; i < count; i++) {
      const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
      PB_TRY(read_formula(r, object, json_string_value(text), task, v));
    }
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

pbStatus pbTask_ReadTies(pbTaskReader *r, const json_t *list, pbTask *task) {
  for (int i = 0; i < task->variable_count; i++) {
    pbVariable *v = &task->variables[i];
    if (v->kind != pb_varySets) continue;

    pbTaskReader_EnterAt(r, (size_t)i);
    PB_TRY(read_sets(r, json_array_get(list, (size_t)i), task, v));
    pbTaskReader_Leave(r);
  }
  return pb_ok;
}
