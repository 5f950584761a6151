// Derivatives of a policy, part by part: of the outputs and of the memory after, by observations, memory and parameters.
// Tests: tests/unit/test_policy_check.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "policy/check.h"
#include "probe/probe.h"

// A part of the derivative: of out or m_next, along observations, memory or parameters (or one slice of them).
typedef struct Part {
  Source along, of;     // in_oDot, in_mDot, in_pDot; in_outBar, in_nextBar
  size_t first, count;  // of the entries that move
  const char *slice;    // NULL: not one alone
} Part;

typedef struct Derivative {
  double pull, push, difference, size;  // size: of the terms of pull's
  double by_push, by_difference;        // |pull - push|, |pull - difference| by size
} Derivative;

static const Source points[] = {[in_oDot] = in_o, [in_mDot] = in_m, [in_pDot] = in_p};

// The part's output, weighted with its cotangents.
static double weighted(const Check *c, const Part *part, Target out, Target next) {
  const double *value = c->third.of[part->of == in_outBar ? out : next];
  return pbProbe_Dot(c->one.of[part->of], value, pbTrial_RowsIn(c, part->of));
}

typedef struct Move {
  Check *c;
  const Part *part;
} Move;

// After a move by t along the part's direction; NaN where there is none.
static double moved(void *move, double t) {
  Check *c = ((Move *)move)->c;
  const Part *part = ((Move *)move)->part;
  PB_ASSERT(part->first + part->count <= pbTrial_RowsIn(c, part->along) && c->one.batch == 1);
  double *at = c->one.of[points[part->along]] + part->first;
  const double *from = c->one.copy[points[part->along]] + part->first, *dot = c->one.of[part->along] + part->first;

  pbProbe_Displace(from, dot, t, part->count, at);
  pbStatus status = pbTrial_Call(c, call_forward, &c->one, &c->third, CLEAN);
  for (size_t i = 0; i < part->count; i++) at[i] = from[i];
  return status == pb_ok ? weighted(c, part, to_out, to_next) : NAN;
}

// The quotient nearest to a number, of moves of several lengths, extrapolated (Richardson).
static double nearest_quotient(Check *c, const Part *part, double number) {
  static const double moves[] = {1e-2, 1e-3, 1e-4, 1e-6};
  double length = pbProbe_Norm(c->one.of[part->along] + part->first, part->count), best = NAN;

  for (int k = 0; k < 4; k++) {
    // A move of many parameters is as long as one of few.
    double quotient = pbProbe_Central(moved, &(Move){c, part}, moves[k] / fmax(1, length));
    if (isnan(best) || fabs(quotient - number) < fabs(best - number)) best = quotient;
  }

  return best;
}

// Push along the part's direction alone; the other directions are not given.
static bool push_part(Check *c, const Part *part, double *push) {
  Input alone = c->one;
  for (Source k = in_oDot; k <= in_pDot; k++) alone.of[k] = k == part->along ? alone.of[k] : NULL;
  if (!pbTrial_Try(c, call_push, &alone, &c->third, CLEAN)) return false;

  *push = weighted(c, part, to_outDot, to_nextDot);
  return true;
}

// Pull with the part's cotangents alone.
static bool pull_part(Check *c, const Part *part, Derivative *d) {
  Source silent = part->of == in_outBar ? in_nextBar : in_outBar;
  size_t bytes = pbTrial_RowsIn(c, silent) * sizeof(double);
  memset(c->one.of[silent], 0, bytes);
  bool pulled = pbTrial_Try(c, call_pull, &c->one, &c->third, CLEAN);
  memcpy(c->one.of[silent], c->one.copy[silent], bytes);

  const double *bar = c->third.of[to_oBar + part->along - in_oDot] + part->first, *dot = c->one.of[part->along] + part->first;
  d->pull = pbProbe_Dot(bar, dot, part->count);
  d->size = pbProbe_Terms(bar, dot, part->count);
  return pulled;
}

static bool compare(Check *c, const Part *part, Derivative *d) {
  *d = (Derivative){0};
  if (!pull_part(c, part, d)) return false;
  if (!isfinite(d->size)) return pbTrial_Fail(c, "pull gives numbers that are not finite where forward's are");

  d->push = d->pull;
  if (c->f->push && !part->slice && !push_part(c, part, &d->push)) return false;
  d->difference = nearest_quotient(c, part, d->pull);

  // What is of the size of rounding in all of them is zero.
  double size = fmax(fmax(d->size, fabs(d->push)), fmax(fabs(d->difference), 1e-3));
  d->by_push = fabs(d->pull - d->push) / size;
  d->by_difference = fabs(d->pull - d->difference) / size;
  if (isnan(d->by_push) || isnan(d->by_difference))
    return pbTrial_Fail(c, "a derivative is not finite where forward's numbers are");
  return true;
}

static const char *name_of_part(const Part *part, char *text, size_t size) {
  const char *along = "the observations";
  if (part->along == in_mDot) along = "the memory";
  if (part->along == in_pDot) along = "the parameters";

  const char *of = part->of == in_outBar ? "the outputs" : "the memory after";
  if (part->slice) snprintf(text, size, "of %s by '%s'", of, part->slice);
  else snprintf(text, size, "of %s by %s", of, along);
  return text;
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-3 * (fabs(a) + fabs(b)); }

// Which of the three is wrong, and how.
static bool tell(Check *c, const Part *part, const Derivative *d) {
  char name[160];
  name_of_part(part, name, sizeof name);
  bool push_agrees = c->f->push && is_near(d->push, d->difference), pull_agrees = is_near(d->pull, d->difference);

  if (pull_agrees && !push_agrees)
    return pbTrial_Fail(c, "push is not the derivative %s: push %.9g, differences %.9g", name, d->push, d->difference);

  const char *how = "";
  if (d->pull == 0) how = ": it is missing";
  else if (is_near(-d->pull, d->difference)) how = ": its sign is wrong";
  return pbTrial_Fail(c, "pull is not the derivative %s%s: pull %.9g, differences %.9g", name, how, d->pull, d->difference);
}

static double allowed_difference(const Check *c) { return fmax(1e-6, 1e4 * c->rounding); }

// Of the parameters the slice that is wrong, where it is one.
static bool tell_slice(Check *c, const Part *whole, const Derivative *d) {
  size_t first = 0;

  for (int i = 0; i < c->f->slices; i++) {
    const pbPolicySlice *s = &c->f->slice[i];
    size_t count = (size_t)s->rows * (size_t)s->cols;
    Part part = {whole->along, whole->of, first, count, s->name};
    Derivative own;
    if (!compare(c, &part, &own)) return false;
    if (own.by_difference > allowed_difference(c)) return tell(c, &part, &own);
    first += count;
  }

  return tell(c, whole, d);
}

// One part at all points: how far pull is from push at the worst, from differences at the AGREE-th best.
static bool check_part(Check *c, const Part *part, int at, double *worst_dot, double *differences) {
  double dot = fmax(1e-12, 1e4 * c->rounding);
  Derivative d;
  if (!compare(c, part, &d)) return false;

  *worst_dot = fmax(*worst_dot, d.by_push);
  differences[at] = d.by_difference;
  if (d.by_push <= dot) return true;
  return part->along == in_pDot ? tell_slice(c, part, &d) : tell(c, part, &d);
}

enum { PARTS = 6 };
static int list_parts(const Check *c, Part *list) {
  int count = 0;

  for (Source along = in_oDot; along <= in_pDot; along++) {
    for (Source of = in_outBar; of <= in_nextBar; of++) {
      if (pbTrial_RowsIn(c, along) && pbTrial_RowsIn(c, of)) list[count++] = (Part){along, of, 0, pbTrial_RowsIn(c, along), NULL};
    }
  }

  return count;
}

static void sort(double *a, int n) {
  for (int i = 1; i < n; i++) {
    for (int k = i; k > 0 && a[k] < a[k - 1]; k--) {
      double swap = a[k];
      a[k] = a[k - 1];
      a[k - 1] = swap;
    }
  }
}

// Points at which forward is finite; elsewhere it may have no value (the log of a negative number).
static bool draw_point(Check *c, int number, bool *usable) {
  pbTrial_Draw(c, &c->one, 1, (const double[]){1, 1, 0.3, 0.1}[number]);
  if (!pbTrial_Try(c, call_forward, &c->one, &c->third, CLEAN)) return false;
  *usable = pb_allFinite(c->third.of[to_out], pbTrial_RowsOut(c, to_out)) &&
            pb_allFinite(c->third.of[to_next], pbTrial_RowsOut(c, to_next));
  return true;
}

static bool judge_differences(Check *c, const Part *part, double *differences, int points_used) {
  sort(differences, points_used);
  c->report->difference = fmax(c->report->difference, differences[AGREE - 1]);
  if (differences[AGREE - 1] <= allowed_difference(c)) return true;

  // Once more, at the point that was drawn last, to tell what it is.
  Derivative d;
  if (!compare(c, part, &d)) return false;
  return part->along == in_pDot ? tell_slice(c, part, &d) : tell(c, part, &d);
}

bool pbTrial_Derivatives(Check *c) {
  Part part[PARTS];
  int parts = list_parts(c, part), used = 0;
  double differences[PARTS][POINTS] = {{0}}, dot = 0;
  PB_ASSERT(parts <= PARTS);

  // Every part at every point that forward has a value at.

  for (int i = 0; i < POINTS; i++) {
    bool usable;
    if (!draw_point(c, i, &usable)) return false;
    if (!usable) continue;
    for (int k = 0; k < parts; k++) {
      if (!check_part(c, &part[k], used, &dot, differences[k])) return false;
    }

    used++;
  }

  if (used < AGREE)
    return pbTrial_Fail(c, "forward gives numbers that are not finite at %d of %d points near the start", POINTS - used, POINTS);
  c->report->dot = c->f->push ? dot : NAN;
  c->report->difference = 0;
  for (int k = 0; k < parts; k++) {
    if (!judge_differences(c, &part[k], differences[k], used)) return false;
  }

  return true;
}
