// Words of formulas, and which names parameters and inputs may have.
// Tests: tests/unit/test_expression.c.
#include "energy/words.h"

#include <ctype.h>
#include <string.h>

#include "base/context.h"
#include "energy/formula.h"

static const struct {
  const char *name;
  pbFunction f;
} functions[] = {
#define X(id, name, least, most) {name, id},
    PB_FUNCTION_TABLE(X)
#undef X
};

bool pbWord_Starts(char c) { return isalpha((unsigned char)c) || c == '_'; }
bool pbWord_Goes(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool pbWord_Is(const char *start, int length, const char *word) {
  return length == (int)strlen(word) && !strncmp(start, word, (size_t)length);
}

bool pbWord_Function(const char *start, int length, pbFunction *f) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (pbWord_Starts(functions[i].name[0]) && pbWord_Is(start, length, functions[i].name)) {
      *f = functions[i].f;
      return true;
    }
  }

  return false;
}

// A letter and digits.
bool pbWord_Point(const char *start, int length, int *index) {
  if (length < 2 || length > 6 || !strchr("xXy", *start)) return false;

  *index = 0;
  for (int i = 1; i < length; i++) {
    if (!isdigit((unsigned char)start[i])) return false;
    *index = 10 * *index + start[i] - '0';
  }

  return true;
}

bool pbWord_Common(const char *start, int length) {
  pbFunction f;
  return pbWord_Is(start, length, "pi") || pbWord_Is(start, length, "identity") || pbWord_Function(start, length, &f);
}

bool pbWord_Reserved(const char *start, int length) {
  int index;
  return pbWord_Common(start, length) || pbWord_Is(start, length, "h") || pbWord_Is(start, length, "t") ||
         pbWord_Point(start, length, &index);
}

void pbWord_Offer(pbSuggest *s) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (pbWord_Starts(functions[i].name[0])) pbSuggest_Offer(s, functions[i].name);
  }

  pbSuggest_Offer(s, "identity");
}

// ---- names that are given ---------------------------------------------------------------------------------------------
// What keeps a text from being a word that formulas can have.
static const char *word_fault(const char *name) {
  if (!name || !pbWord_Starts(*name)) return "a name begins with a letter";
  if (strlen(name) >= PB_WORD) return "this name is too long";

  for (const char *s = name; *s; s++) {
    if (!pbWord_Goes(*s)) return "a name has letters, digits and '_' only";
  }

  return NULL;
}

const char *pbFormula_NameFault(const char *name) {
  const char *fault = word_fault(name);
  if (fault) return fault;
  return pbWord_Common(name, (int)strlen(name)) ? "has a meaning in formulas already" : NULL;
}

static pbStatus fail_name(pbContext *ctx, const pbEnergyDef *def, int i, const char *why) {
  return pbContext_Fail(ctx, pb_bad_input, "energy '%.64s', parameter %d, '%.64s': %s", def->name ? def->name : "", i,
                        def->parameters[i].name ? def->parameters[i].name : "", why);
}

// A parameter's name: a word, short enough, that means nothing else.
static pbStatus check_name(pbContext *ctx, const pbEnergyDef *def, int i) {
  const char *name = def->parameters[i].name, *fault = word_fault(name);
  if (fault) return fail_name(ctx, def, i, fault);

  if (pbWord_Reserved(name, (int)strlen(name))) return fail_name(ctx, def, i, "has a meaning in formulas already");

  for (int k = 0; k < i; k++) {
    if (!strcmp(name, def->parameters[k].name)) return fail_name(ctx, def, i, "two parameters of one name");
  }

  return pb_ok;
}

pbStatus pbFormula_CheckNames(pbContext *ctx, const pbEnergyDef *def) {
  for (int i = 0; i < def->parameter_count && i < PB_ENERGY_PARAMETERS; i++) PB_TRY(check_name(ctx, def, i));
  return pb_ok;
}
