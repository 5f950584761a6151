// Rows of an audit as arrays and back, for one that goes on after an interruption.
// Tests: tests/oracle/test_going_on.py.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <pullback/audit.h>

typedef enum Kind { real, integer, flag } Kind;

typedef struct Number {
  size_t offset;
  Kind kind;
} Number;

typedef struct Text {
  const char *name;
  size_t offset, size;
} Text;

#define AT(member) offsetof(pbAuditRow, member)
#define MOST(member) \
  {AT(member.value), real}, {AT(member.limit), real}, { AT(member.angle), flag }
#define TEXT(member) #member, AT(member), sizeof((pbAuditRow *)0)->member

static const Number numbers[] = {{AT(counts), flag},    {AT(ran), integer},
                                 {AT(failed), integer}, {AT(failed_start), integer},
                                 {AT(timestep), real},  {AT(mean), real},
                                 {AT(deviation), real}, {AT(least), real},
                                 {AT(most), real},      MOST(overlap),
                                 MOST(given_way),       MOST(at_joint),
                                 {AT(torque), real},    {AT(torque_limit), real},
                                 {AT(power), real},     {AT(has_ledger), flag},
                                 {AT(work), real},      {AT(energy), real},
                                 {AT(taken), real},     {AT(remainder), real},
                                 {AT(gap), real}};
enum { NUMBERS = sizeof numbers / sizeof *numbers };
static const Text texts[] = {{TEXT(name)},           {TEXT(why)},           {TEXT(overlap.name)},
                             {TEXT(given_way.name)}, {TEXT(at_joint.name)}, {TEXT(actuator)}};
enum { TEXTS = sizeof texts / sizeof *texts };

static double number_of(const pbAuditRow *row, const Number *n) {
  const char *at = (const char *)row + n->offset;
  if (n->kind == real) return *(const double *)at;
  return n->kind == flag ? *(const bool *)at : *(const int *)at;
}

// False where a forged file has another number than the member can hold.
static bool set_number(pbAuditRow *row, const Number *n, double value) {
  char *at = (char *)row + n->offset;
  if (n->kind == real) *(double *)at = value;
  else if (!(value >= -1 && value <= 1e6)) return false;
  else if (n->kind == flag) *(bool *)at = value != 0;
  else *(int *)at = (int)value;
  return true;
}

static const char *text_name(const Text *text, int row, char *to, size_t size) {
  snprintf(to, size, "row_texts/%d/%s", row, text->name);
  return to;
}

pbStatus pbAuditRows_Keep(const pbAuditRow *rows, int count, pbArrays *set) {
  double *to;
  char name[64];
  PB_TRY(pbArrays_AddReals(set, "rows", 2, (size_t[]){(size_t)count, NUMBERS}, NULL, &to));

  // numbers in one table, each text as an array of its own
  for (int r = 0; r < count; r++) {
    for (int i = 0; i < NUMBERS; i++) *to++ = number_of(&rows[r], &numbers[i]);
    for (int i = 0; i < TEXTS; i++)
      PB_TRY(pbArrays_AddText(set, text_name(&texts[i], r, name, sizeof name), (const char *)&rows[r] + texts[i].offset));
  }
  return pb_ok;
}

static bool restore(const pbArrays *set, const double *from, int r, pbAuditRow *row) {
  char name[64];
  *row = (pbAuditRow){0};

  // numbers of a forged file are bounded before they are converted
  for (int i = 0; i < NUMBERS; i++) {
    if (!set_number(row, &numbers[i], from[i])) return false;
  }

  // a longer text is cut
  for (int i = 0; i < TEXTS; i++) {
    const pbArray *text = pbArrays_Find(set, text_name(&texts[i], r, name, sizeof name));
    if (!text || text->type != pb_arrayText || text->count != 1) return false;
    snprintf((char *)row + texts[i].offset, texts[i].size, "%s", text->text);
  }
  return true;
}

void pbAuditRows_Restore(const pbArrays *set, pbAuditRow *rows, int *count) {
  const pbArray *all = pbArrays_Find(set, "rows");
  *count = 0;
  if (!all || all->type != pb_arrayReal || all->ndim != 2 || all->shape[1] != NUMBERS || all->shape[0] > pb_auditReference)
    return;

  // as many as are whole
  for (int r = 0; r < (int)all->shape[0]; r++) {
    if (!restore(set, all->reals + r * NUMBERS, r, &rows[r])) return;
    *count = r + 1;
  }
}
