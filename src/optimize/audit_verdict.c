// The verdict of an audit, in words: every requirement that does not hold, the objective first.
// Tests: tests/oracle/test_audit.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/audit.h"

static const double nothing = 1e-9;  // of an objective without a reference, in its own unit

typedef struct Text {
  char *at;
  size_t size;
  int parts;
} Text;

static void say(Text *t, const char *part) {
  size_t used = strlen(t->at);

  // What does not fit is cut.
  PB_ASSERT(used < t->size);
  snprintf(t->at + used, t->size - used, "%s%s", t->parts++ ? "; " : "", part);
}

// The names that sentences use: "at h/4", "with the tight solver".
static const char *where(pbAuditRun kind) {
  static const char *const words[] = {"as trained", "at h/2", "at h/4", "with the tight solver"};
  PB_ASSERT((size_t)kind < sizeof words / sizeof *words);
  return words[kind];
}

// Within a part of what was gained; of rounding nothing is a part. Where nothing was gained, zero is nothing to measure by.
static bool is_within(const pbAuditReport *r, double mean) {
  bool measured = !isnan(r->gained);
  double trained = r->row[pb_auditTrained].mean, gained = measured ? r->gained : trained;
  double rounding = 1e-9 * fmax(fabs(trained), fabs(trained - gained)), floor = measured ? 0 : nothing;
  return fabs(mean - trained) <= fmax(r->tolerance * fabs(gained), fmax(r->absolute, fmax(floor, rounding)));
}

static void judge_objective(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditRow *row = &r->row[kind], *trained = &r->row[pb_auditTrained];
  const char *space = r->unit[0] ? " " : "";
  char part[400];

  // A start that fails has no objective: there is no mean to compare.
  if (row->failed) {
    snprintf(part, sizeof part, "%d of %d starts fail %s (%.240s)", row->failed, r->starts, where(kind), row->why);
    say(t, part);
    return;
  }

  // What is better at a finer step is a note.
  if (is_within(r, row->mean) || r->better * (row->mean - trained->mean) > 0) return;
  snprintf(part, sizeof part, "%.4g of %.4g%s%s %s", row->mean, trained->mean, space, r->unit, where(kind));
  say(t, part);
}

static void judge_penetration(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditMost *m = &r->row[kind].overlap;
  char part[280];

  if (m->value <= m->limit) return;
  snprintf(part, sizeof part, "penetration of %.3g mm %s, limit %.3g mm (%s)", 1e3 * m->value, where(kind), 1e3 * m->limit,
           m->name);
  say(t, part);
}

// Limits of joints and tendons, and equalities.
static void judge_stops(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditMost *m = &r->row[kind].given_way;
  double unit = m->angle ? 1 : 1e3;
  char part[280];

  if (m->value <= m->limit) return;
  snprintf(part, sizeof part, "%s gives way by %.3g %s %s, limit %.3g %s", m->name, unit * m->value, m->angle ? "rad" : "mm",
           where(kind), unit * m->limit, m->angle ? "rad" : "mm");
  say(t, part);
}

static void judge_torque(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditRow *row = &r->row[kind];
  char part[200];

  // Ranges are kept to rounding.
  if (row->torque <= row->torque_limit * (1 + 1e-9)) return;
  snprintf(part, sizeof part, "force %.4g of actuator '%s' %s, limit %.4g", row->torque, row->actuator, where(kind),
           row->torque_limit);
  say(t, part);
}

// Of all actuators of a joint together, by gears and arms.
static void judge_joint(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditMost *m = &r->row[kind].at_joint;
  char part[280];

  if (m->value <= m->limit * (1 + 1e-9)) return;
  snprintf(part, sizeof part, "force %.4g at %s %s, limit %.4g", m->value, m->name, where(kind), m->limit);
  say(t, part);
}

static void judge_ledger(const pbAuditReport *r, pbAuditRun kind, Text *t) {
  const pbAuditRow *row = &r->row[kind];
  char part[200];

  if (!row->has_ledger || row->gap <= r->ledger) return;
  snprintf(part, sizeof part, "%.3g %% of the work unaccounted for %s, limit %.3g %%", 100 * row->gap, where(kind),
           100 * r->ledger);
  say(t, part);
}

static void confirm(pbAuditReport *r) {
  const pbAuditRow *row = r->row;
  const char *space = r->unit[0] ? " " : "";
  snprintf(r->verdict, sizeof r->verdict,
           "confirmed: %.4g at h/2, %.4g at h/4, %.4g with the tight solver of %.4g%s%s over %d starts%s%s%s",
           row[pb_auditHalf].mean, row[pb_auditQuarter].mean, row[pb_auditTight].mean, row[pb_auditTrained].mean, space, r->unit,
           r->starts, r->why_no_ledger[0] ? " (without an energy ledger: " : "", r->why_no_ledger,
           r->why_no_ledger[0] ? ")" : "");

  // What is better by more than what is tolerated.
  for (int kind = pb_auditHalf; kind <= pb_auditTight; kind++) {
    size_t used = strlen(r->verdict);
    if (is_within(r, row[kind].mean)) continue;
    snprintf(r->verdict + used, sizeof r->verdict - used, "; better %s", where((pbAuditRun)kind));
  }
}

void pbAuditReport_Judge(pbAuditReport *r) {
  static const char head[] = "not confirmed: ";
  Text t = {r->verdict + strlen(head), sizeof r->verdict - strlen(head), 0};
  memcpy(r->verdict, head, sizeof head);

  // Requirement by requirement, each over all kinds of runs that count.
  for (int kind = pb_auditHalf; kind <= pb_auditTight; kind++) judge_objective(r, (pbAuditRun)kind, &t);
  for (int kind = pb_auditTrained; kind <= pb_auditTight; kind++) judge_penetration(r, (pbAuditRun)kind, &t);
  for (int kind = pb_auditTrained; kind <= pb_auditTight; kind++) judge_torque(r, (pbAuditRun)kind, &t);
  for (int kind = pb_auditTrained; kind <= pb_auditTight; kind++) judge_joint(r, (pbAuditRun)kind, &t);
  for (int kind = pb_auditTrained; kind <= pb_auditTight; kind++) judge_stops(r, (pbAuditRun)kind, &t);
  for (int kind = pb_auditTrained; kind <= pb_auditTight; kind++) judge_ledger(r, (pbAuditRun)kind, &t);

  // Nothing was found that does not hold.
  r->confirmed = t.parts == 0;
  if (r->confirmed) confirm(r);
}
