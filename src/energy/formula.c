// formula   := statement { (';' | end of line) statement }
// statement := name '=' sum' | sum'                                 sum' := sum [ ('<' | '<=' | '>' | '>=') sum ]
// sum := term { ('+' | '-') term }     term := sign { ('*' | '/') sign }     sign := { '-' | '+' } power
// power := part [ '^' sign ]           part := primary { '.' 'x' | '[' index [ ',' index ] ']' }
// primary := number | name | function '(' arguments ')' | '(' sum' ')' | '[' arguments ']'
// Within brackets and behind an operator ends of lines are spaces; # begins a remark.
// Tests: tests/unit/test_energy_oracle.c, tests/unit/test_energy.c.
#include "energy/formula.h"
#include "energy/words.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "base/text.h"

enum { NAMES = 256, DEPTH = 100, SHOWN = 100, LONGEST = 16384 };

typedef enum Kind { tk_end, tk_break, tk_number, tk_name, tk_mark } Kind;  // break: ';' or an end of line

typedef struct Token {
  Kind kind;
  const char *start;
  int length, line, column;
  double number;
} Token;

typedef struct Variable {
  char name[PB_WORD];
  pbValue value;
} Variable;

typedef struct Parser {
  pbGraph *g;
  const pbEnergyDef *def;
  const pbFormulaName *named;  // the names there are, named_count; NULL: those of energies
  int named_count;
  const char *at, *line_start;
  Token token;   // the next one
  int line;      // of `at`, from 1
  int brackets;  // open ones: ends of lines are spaces
  int depth;
  Variable *variable;
  int variable_count;
  const char *place;  // of the first error, whose reason is in the graph; before: of what is at work
} Parser;

static bool failed(const Parser *p) { return p->g->status != pb_ok; }

static void stand_at(Parser *p, const char *place) {
  if (!failed(p)) p->place = place;
}

#define FAIL(p, where, ...) (stand_at(p, where), pbGraph_Fail((p)->g, pb_bad_input, __VA_ARGS__))

// ---- words ------------------------------------------------------------------------------------------------------------
static void begin_line(Parser *p) {
  p->at++;
  p->line_start = p->at;
  p->line++;
}

static void skip_spaces(Parser *p) {
  for (;;) {
    // A remark, to the end of its line.
    if (*p->at == '#') {
      while (*p->at && *p->at != '\n') p->at++;
    } else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') {
      p->at++;
    } else if (*p->at == '\n' && p->brackets) {
      begin_line(p);
    } else {
      return;
    }
  }
}

static const char *skip_digits(const char *s) {
  while (isdigit((unsigned char)*s)) s++;
  return s;
}

// digits [ '.' digits ] [ ('e' | 'E') [ sign ] digits ]
static void read_number(Parser *p) {
  Token *t = &p->token;
  char text[64];
  const char *end = skip_digits(p->at);

  if (*end == '.') end = skip_digits(end + 1);
  if (*end == 'e' || *end == 'E') {
    const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
    if (isdigit((unsigned char)*exponent)) end = skip_digits(exponent);
  }

  t->kind = tk_number;
  t->length = end - p->at < 1000 ? (int)(end - p->at) : 1000;
  p->at = end;

  // Through a copy, since the number's text must end where it does; in the C locale.
  snprintf(text, sizeof text, "%.*s", t->length, t->start);
  if (t->length >= (int)sizeof text || !pbText_Real(text, &t->number) || !(t->number < 1e300))
    FAIL(p, t->start, "this is not a number that can be used");
  else if (pbWord_Starts(*end)) FAIL(p, end, "a name right behind a number: is there a '*' missing?");
}

static void read_mark(Parser *p) {
  Token *t = &p->token;
  char c = *t->start, second = t->start[1];

  t->kind = tk_mark;
  t->length = (c == '<' || c == '>') && second == '=' ? 2 : 1;
  p->at += t->length;
  if (c == '*' && second == '*') FAIL(p, t->start, "a power is written '^'");
  if (c == '=' && second == '=') FAIL(p, t->start, "numbers are compared by < <= > >=");
}

// The next token, by its first character.
static void next_token(Parser *p) {
  skip_spaces(p);
  Token *t = &p->token;
  *t = (Token){tk_end, p->at, 0, p->line, (int)(p->at - p->line_start) + 1, 0};

  char c = *p->at;
  if (!c || failed(p)) return;
  if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)p->at[1]))) {
    read_number(p);
  } else if (pbWord_Starts(c)) {
    while (pbWord_Goes(*p->at)) p->at++;
    t->kind = tk_name;
    t->length = (int)(p->at - t->start);
  } else if (c == ';' || c == '\n') {
    t->kind = tk_break;
    t->length = 1;
    if (c == '\n') begin_line(p);
    else p->at++;
  } else if (strchr("+-*/^<>=()[],.", c)) {
    read_mark(p);
  } else if (c > 0 && isprint((unsigned char)c)) {
    FAIL(p, t->start, "the character '%c' has no meaning in a formula", c);
  } else {
    FAIL(p, t->start, "a character that has no meaning in a formula (code %d)", (unsigned char)c);
  }

  // After an error the text is over.
  if (failed(p)) t->kind = tk_end;
}

static bool is_mark(const Parser *p, const char *mark) {
  return p->token.kind == tk_mark && (int)strlen(mark) == p->token.length &&
         !strncmp(p->token.start, mark, (size_t)p->token.length);
}

static const char *what_stands(const Parser *p, char *text, size_t size) {
  // As messages call it.
  if (p->token.kind == tk_end) return "the end of the formula";
  if (p->token.kind == tk_break) return *p->token.start == ';' ? "';'" : "the end of the line";
  snprintf(text, size, "'%.*s'", p->token.length > 40 ? 40 : p->token.length, p->token.start);

  return text;
}

static void expect(Parser *p, const char *mark, const char *why) {
  char text[64];
  if (is_mark(p, mark)) {
    if (strchr(")]", *mark)) p->brackets--;
    next_token(p);
  } else if (!failed(p)) {
    FAIL(p, p->token.start, "expected '%s' %s, not %s", mark, why, what_stands(p, text, sizeof text));
  }
}

// Behind an opening mark and behind an operator ends of lines are spaces.
static void next_operand(Parser *p) {
  p->brackets++;
  next_token(p);
  p->brackets--;
}
static void open_bracket(Parser *p) {
  p->brackets++;
  next_token(p);
}

// What the graph makes for a function has the place of its word.
static pbValue apply_function(Parser *p, const Token *word, pbFunction f, int count, const pbValue *a) {
  stand_at(p, word->start);
  p->g->at.line = word->line;
  p->g->at.column = word->column;

  return pbGraph_Apply(p->g, f, count, a);
}

// ---- names ------------------------------------------------------------------------------------------------------------
static bool is_word(const Token *t, const char *word) { return pbWord_Is(t->start, t->length, word); }
static bool find_function(const Token *t, pbFunction *f) { return pbWord_Function(t->start, t->length, f); }
static bool find_point(const Token *t, int *index) { return pbWord_Point(t->start, t->length, index); }

// Does the language have the name, whatever the formula is given?
static bool is_reserved(const Parser *p, const Token *t) {
  return p->named ? pbWord_Common(t->start, t->length) : pbWord_Reserved(t->start, t->length);
}

static bool is_parameter(const Parser *p, const Token *t) {
  for (int i = 0; i < p->named_count; i++) {
    if (is_word(t, p->named[i].name)) return true;
  }

  for (int i = 0; i < p->def->parameter_count; i++) {
    if (is_word(t, p->def->parameters[i].name)) return true;
  }

  return false;
}

static void fail_unknown(Parser *p, const Token *t) {
  char word[PB_WORD], text[120];
  snprintf(word, sizeof word, "%.*s", t->length < PB_WORD ? t->length : PB_WORD - 1, t->start);

  // What is near, of all names there are here.
  pbSuggest s = pbSuggest_For(word);
  for (int i = 0; i < p->variable_count; i++) pbSuggest_Offer(&s, p->variable[i].name);
  for (int i = 0; i < p->def->parameter_count; i++) pbSuggest_Offer(&s, p->def->parameters[i].name);
  for (int i = 0; i < p->named_count; i++) pbSuggest_Offer(&s, p->named[i].name);
  pbWord_Offer(&s);
  FAIL(p, t->start, "unknown name '%s'%s", word, pbSuggest_Write(&s, text, sizeof text));
}

static pbValue point_value(Parser *p, const Token *t, int index) {
  stand_at(p, t->start);
  if (*t->start == 'x') return pbGraph_Position(p->g, index);
  return *t->start == 'X' ? pbGraph_Rest(p->g, index) : pbGraph_Previous(p->g, index);
}

static pbValue name_value(Parser *p, const Token *t) {
  pbGraph *g = p->g;
  int index;
  pbFunction f;

  for (int i = 0; i < p->def->parameter_count; i++) {
    if (is_word(t, p->def->parameters[i].name)) return pbGraph_Parameter(g, i);
  }

  for (int i = 0; i < p->named_count; i++) {
    if (is_word(t, p->named[i].name)) return p->named[i].value;
  }

  for (int i = 0; i < p->variable_count; i++) {
    if (is_word(t, p->variable[i].name)) return p->variable[i].value;
  }

  // Names of the language; parameters and variables cannot have these.
  if (is_word(t, "pi")) return pbGraph_Number(g, 3.14159265358979323846);
  if (!p->named && is_word(t, "h")) return pbGraph_Timestep(g);
  if (!p->named && is_word(t, "t")) return pbGraph_Time(g);
  if (!p->named && find_point(t, &index)) return point_value(p, t, index);

  if (find_function(t, &f) || is_word(t, "identity")) FAIL(p, t->start, "a function: its arguments in ( ) are missing");
  else fail_unknown(p, t);

  return (pbValue){0};
}

// ---- expressions ------------------------------------------------------------------------------------------------------
// A function for each rule of the grammar above (recursive descent, Aho et al. 2006, 4.4).
static pbValue parse_comparison(Parser *p);

// expression { ',' expression } up to the closing mark
static int parse_arguments(Parser *p, pbValue *a, int most, const char *closing) {
  int count = 0;

  while (!failed(p)) {
    pbValue v = parse_comparison(p);
    // More than there is room for are counted: the function says how many it takes.
    if (count < most) a[count] = v;
    count++;
    if (!is_mark(p, ",")) break;
    next_token(p);
  }

  expect(p, closing, "or ','");
  return count;
}

// A whole number written out
static int parse_whole(Parser *p, const char *what) {
  Token t = p->token;
  // Sizes and indices decide what is computed, so they are no values of the graph.
  if (t.kind == tk_number && fabs(t.number) < 1e9 && t.number == (int)t.number) {
    next_token(p);
    return (int)t.number;
  }

  if (!failed(p)) FAIL(p, t.start, "%s must be a whole number written out", what);
  return 0;
}

// A name that is no function's
static bool is_known(const Parser *p, const Token *t) {
  for (int i = 0; i < p->variable_count; i++) {
    if (is_word(t, p->variable[i].name)) return true;
  }

  return is_reserved(p, t) || is_parameter(p, t);
}

static pbValue parse_identity(Parser *p, const Token *word) {
  int n = parse_whole(p, "the size of identity");
  stand_at(p, word->start);

  pbValue v = pbGraph_Identity(p->g, n);
  expect(p, ")", "after the size");
  return v;
}

static pbValue parse_call(Parser *p, const Token *word) {
  pbValue a[8];
  pbFunction f = pb_fnCount;
  bool identity = is_word(word, "identity");

  // A name before '(' that is no function's.
  if (!identity && !find_function(word, &f)) {
    if (!failed(p) && is_known(p, word))
      FAIL(p, p->token.start, "'%.*s' is no function: is there an operator missing?", word->length, word->start);
    else if (!failed(p)) fail_unknown(p, word);

    return (pbValue){0};
  }

  open_bracket(p);
  if (identity) return parse_identity(p, word);

  if (is_mark(p, ")")) {
    FAIL(p, p->token.start, "arguments are missing");
    return (pbValue){0};
  }

  int count = parse_arguments(p, a, 8, ")");
  return apply_function(p, word, f, count, a);
}

static pbValue parse_primary(Parser *p) {
  char text[64];
  pbValue v = {0}, column[3];
  Token t = p->token;
  if (t.kind == tk_number) {
    next_token(p);
    return pbGraph_Number(p->g, t.number);
  }

  if (t.kind == tk_name) {
    next_token(p);
    return is_mark(p, "(") ? parse_call(p, &t) : name_value(p, &t);
  }

  if (is_mark(p, "(")) {
    open_bracket(p);
    v = parse_comparison(p);
    expect(p, ")", "to close '('");

    return v;
  }

  // Columns, or entries of a vector.
  if (is_mark(p, "[")) {
    open_bracket(p);
    int count = parse_arguments(p, column, 3, "]");
    stand_at(p, t.start);

    return pbGraph_Columns(p->g, count, column);
  }

  // Nothing that begins an operand.
  if (!failed(p)) FAIL(p, t.start, "expected a number, a name or a bracket, not %s", what_stands(p, text, sizeof text));
  return v;
}

static pbValue parse_component(Parser *p, pbValue v) {
  next_token(p);
  Token t = p->token;

  // x, y, z are 0, 1, 2.
  int row = t.length == 1 && t.kind == tk_name ? *t.start - 'x' : -1;

  if (row < 0 || row > 2) {
    if (!failed(p)) FAIL(p, t.start, "a component is .x, .y or .z");
    return v;
  }

  stand_at(p, t.start);
  if (v.cols != 1 || (v.rows == 1 && v.cols == 1))
    FAIL(p, t.start, "only vectors have components; entries of a matrix are m[i,j]");
  next_token(p);

  return pbGraph_At(p->g, v, row, 0);
}

static pbValue parse_entry(Parser *p, pbValue v) {
  open_bracket(p);

  // Errors of an index are reported where it stands.
  const char *place = p->token.start;
  int row = parse_whole(p, "an index"), col = 0;

  if (is_mark(p, ",")) {
    next_token(p);
    col = parse_whole(p, "an index");
  } else if (v.cols > 1 && !failed(p)) {
    FAIL(p, p->token.start, "an entry of a matrix has two indices");
  }

  expect(p, "]", "after an index");
  stand_at(p, place);
  return pbGraph_At(p->g, v, row, col);
}

static pbValue parse_sign(Parser *p);

static pbValue parse_power(Parser *p) {
  pbValue v[2] = {parse_primary(p)};

  while (!failed(p) && (is_mark(p, ".") || is_mark(p, "[")))
    v[0] = is_mark(p, ".") ? parse_component(p, v[0]) : parse_entry(p, v[0]);
  if (!is_mark(p, "^")) return v[0];

  // The exponent is a sign, so x^-2 and x^y^z = x^(y^z).
  Token t = p->token;
  next_operand(p);
  v[1] = parse_sign(p);

  return apply_function(p, &t, pb_fnPower, 2, v);
}

// Depth is bounded here: every recursion passes through a sign.
static pbValue parse_sign(Parser *p) {
  Token t = p->token;
  pbValue v = {0};

  p->depth++;
  if (p->depth > DEPTH) {
    FAIL(p, t.start, "nested more than %d deep", DEPTH);
  } else if (is_mark(p, "-")) {
    next_operand(p);
    v = parse_sign(p);
    v = apply_function(p, &t, pb_fnNegate, 1, &v);
  } else if (is_mark(p, "+")) {
    next_operand(p);
    v = parse_sign(p);
  } else {
    v = parse_power(p);
  }

  p->depth--;
  return v;
}

// left { operator right }, operators of one rank
static pbValue parse_chain(Parser *p, pbValue (*operand)(Parser *), const char *const *marks, const pbFunction *fs, int most) {
  pbValue v[2] = {operand(p)};

  for (int done = 0; !failed(p) && done < most; done++) {
    int k = 0;
    while (marks[k] && !is_mark(p, marks[k])) k++;
    if (!marks[k]) break;

    // Left to right: what there is so far is the next operator's left operand.
    Token t = p->token;
    next_operand(p);
    v[1] = operand(p);
    v[0] = apply_function(p, &t, fs[k], 2, v);
  }

  return v[0];
}

static pbValue parse_term(Parser *p) {
  static const char *const marks[] = {"*", "/", NULL};
  return parse_chain(p, parse_sign, marks, (const pbFunction[]){pb_fnMul, pb_fnDiv}, 1 << 20);
}

static pbValue parse_sum(Parser *p) {
  static const char *const marks[] = {"+", "-", NULL};
  return parse_chain(p, parse_term, marks, (const pbFunction[]){pb_fnAdd, pb_fnSub}, 1 << 20);
}

static pbValue parse_comparison(Parser *p) {
  static const char *const marks[] = {"<", "<=", ">", ">=", NULL};
  return parse_chain(p, parse_sum, marks, (const pbFunction[]){pb_fnLess, pb_fnLessEqual, pb_fnGreater, pb_fnGreaterEqual}, 1);
}

// ---- statements -------------------------------------------------------------------------------------------------------
static void assign_name(Parser *p, const Token *name, pbValue value) {
  if (failed(p)) return;

  // A name of its own, that nothing else has.
  if (name->length >= PB_WORD) FAIL(p, name->start, "a name has at most %d letters", PB_WORD - 1);
  else if (is_reserved(p, name)) FAIL(p, name->start, "'%.*s' has a meaning already", name->length, name->start);
  else if (is_parameter(p, name))
    FAIL(p, name->start, "'%.*s' is %s", name->length, name->start, p->named ? "given" : "a parameter");
  else if (p->variable_count == NAMES) FAIL(p, name->start, "more than %d names", NAMES);

  for (int i = 0; i < p->variable_count && !failed(p); i++) {
    if (is_word(name, p->variable[i].name)) FAIL(p, name->start, "'%.*s' has a value already", name->length, name->start);
  }

  if (failed(p)) return;

  PB_ASSERT(p->variable_count < NAMES);
  Variable *v = &p->variable[p->variable_count];
  p->variable_count++;
  snprintf(v->name, sizeof v->name, "%.*s", name->length, name->start);
  v->value = value;
}

// name '=' ahead? Then both are passed over; else the parser is where it was.
static bool begins_assignment(Parser *p, Token *name) {
  Parser before = *p;
  *name = p->token;
  if (name->kind != tk_name) return false;
  next_token(p);

  // Behind '=' the value may begin on the next line.
  if (!failed(p) && is_mark(p, "=")) {
    next_operand(p);
    return true;
  }

  if (!failed(p)) {
    // Not an assignment: the name is read again, as an operand.
    p->at = before.at;
    p->line = before.line;
    p->line_start = before.line_start;
    p->token = before.token;
  }

  return false;
}

static void skip_breaks(Parser *p) {
  while (p->token.kind == tk_break) next_token(p);
}

// After the last statement: the energy is its value, a scalar without a name.
static void check_energy(Parser *p, const Token *first, bool assigned, pbValue value) {
  const char *what = p->named ? "value" : "energy";
  if (assigned) FAIL(p, first->start, "the last statement must be the %s itself, without a name", what);
  else if (value.rows != 1 || value.cols != 1)
    FAIL(p, first->start, "the %s must be a scalar, not %d x %d numbers", what, value.rows, value.cols);
}

static pbValue parse_formula(Parser *p) {
  char text[64];
  pbValue value = {0};

  next_token(p);
  skip_breaks(p);
  if (p->token.kind == tk_end) FAIL(p, p->token.start, "the formula is empty");

  while (!failed(p)) {
    Token first = p->token, name;

    // Every statement but the last gives a name to a value.
    bool assigned = begins_assignment(p, &name);

    value = parse_comparison(p);
    if (assigned) assign_name(p, &name, value);
    if (failed(p)) break;

    if (p->token.kind != tk_break && p->token.kind != tk_end)
      FAIL(p, p->token.start, "expected an operator or the end of the statement, not %s", what_stands(p, text, sizeof text));

    skip_breaks(p);

    if (p->token.kind == tk_end && !failed(p)) {
      check_energy(p, &first, assigned, value);
      break;
    }
    if (!assigned) FAIL(p, first.start, "a value that goes nowhere: only the last statement may be without a name");
  }

  return value;
}

// ---- errors -----------------------------------------------------------------------------------------------------------
// "energy 'spring', line 1, column 8: unknown name 'nrm', did you mean 'norm'?", the line, a caret below the place
static pbStatus report_error(const Parser *p) {
  const char *begin = p->place, *end = p->place;
  char shown[SHOWN + 1], caret[SHOWN + 1];
  int line = 1, length = 0, before;

  // The line where the place is, shortened at its left where it is long.
  for (const char *s = p->def->formula; s < p->place; s++) line += *s == '\n';
  while (begin > p->def->formula && begin[-1] != '\n') begin--;
  while (*end && *end != '\n') end++;
  int column = (int)(p->place - begin) + 1;
  if (p->place - begin > SHOWN - 20) begin = p->place - (SHOWN - 20);
  before = (int)(p->place - begin);

  // Tabs and such as single spaces, so that the caret stands below its letter.
  for (; length < SHOWN && begin + length < end; length++) {
    unsigned char c = (unsigned char)begin[length];
    shown[length] = c < 32 ? ' ' : (char)c;
  }

  shown[length] = 0;

  snprintf(caret, sizeof caret, "%*s^", before, "");

  // The formula's line, and a caret below the place.
  const char *name = p->def->name ? p->def->name : "";
  if (p->named)
    return pbContext_Fail(p->g->ctx, p->g->status, "line %d, column %d of the formula: %s\n  %s\n  %s", line, column, p->g->error,
                          shown, caret);

  return pbContext_Fail(p->g->ctx, p->g->status, "energy '%.64s', line %d, column %d: %s\n  %s\n  %s", name, line, column,
                        p->g->error, shown, caret);
}

static pbStatus read_formula(Parser *p, int *value) {
  pbGraph *g = p->g;
  p->at = p->def->formula;
  p->line_start = p->at;
  p->place = p->at;
  p->line = 1;

  // The length bounds how deep choices nest, and with them the recursion of simplification.
  if (strlen(p->at) > LONGEST)
    return pbContext_Fail(g->ctx, pb_bad_input, "energy '%.64s': the formula has more than %d characters",
                          p->def->name ? p->def->name : "", LONGEST);

  p->variable = pbContext_AllocArray(g->ctx, NAMES, sizeof *p->variable);
  if (!p->variable) return pbContext_Fail(g->ctx, pb_no_memory, "out of memory");

  pbValue v = parse_formula(p);
  pbContext_Free(g->ctx, p->variable);
  if (g->status == pb_no_memory) return pbContext_Fail(g->ctx, pb_no_memory, "out of memory");
  if (g->status) return report_error(p);

  *value = v.node[0];

  return pb_ok;
}

pbStatus pbFormula_Read(pbGraph *g, const pbEnergyDef *def, int *value) {
  Parser p = {.g = g, .def = def};
  return read_formula(&p, value);
}

pbStatus pbFormula_ReadNamed(pbGraph *g, const char *formula, const pbFormulaName *names, int count, int *value) {
  static const pbFormulaName none;
  pbEnergyDef def = {.formula = formula};
  Parser p = {.g = g, .def = &def, .named = count ? names : &none, .named_count = count};
  return read_formula(&p, value);
}
