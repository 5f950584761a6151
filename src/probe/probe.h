// How a derivative is compared with what a program does: products and the size of their terms, quotients of differences over
// moves of several lengths, and what they say. Knows no physics: whoever compares hands over a function of how far it has moved.
#ifndef PB_PROBE_H
#define PB_PROBE_H

#include <pullback/base.h>

// ---- products -----------------------------------------------------------------------------------------------------------

// <bar, direction> over what the direction moves: other entries of bar may be infinite. NULL, either: zero.
double pbProbe_Dot(const double *bar, const double *direction, size_t n);
double pbProbe_Terms(const double *bar, const double *direction, size_t n);  // the size of its terms, by which rounding is judged
double pbProbe_Norm(const double *a, size_t n);
double pbProbe_Across(const double *w, const double *from, const double *to, size_t n);  // <w, to - from>; w NULL: zero
size_t pbProbe_Moved(const double *direction, size_t n);                                 // entries that are not zero; NULL: none
// out = base + size direction, or base where the direction is NULL; base NULL: zero.
const double *pbProbe_Displace(const double *base, const double *direction, double size, size_t n, double *out);

// ---- slopes -------------------------------------------------------------------------------------------------------------

// What a functional has changed by after a move by e; NaN where there is no value.
typedef double (*pbProbeFunction)(void *self, double e);
// Central quotients at h and h/2, extrapolated to order 4 (Richardson).
double pbProbe_Central(pbProbeFunction function, void *self, double h);

// A one-sided slope, and how far it is to be trusted.
typedef struct pbSlope {
  double value, doubt, rounding;  // rounding: its part of the doubt
} pbSlope;
// From what moves by e, e/2 and e/4 change, extrapolated twice (Richardson); rounding: of such a change.
pbSlope pbSlope_Of(const double change[3], double e, double rounding);

// How a gradient stands to the slopes of both sides.
typedef struct pbStanding {
  bool known, bent, drowned;  // bent: the sides differ; drowned: rounding alone hides the slopes
  double gradient, right, left;
  double off, error;  // how far it is from the slope that it may be, relative; and of this what is beyond doubt
} pbStanding;
// side 1, -1: to the right or left only, as at a bound. strict: at a bend, to the mean of both; else either will do. least: of
// what errors are relative to; limit: of the error.
pbStanding pbStanding_Of(double gradient, const pbSlope *right, const pbSlope *left, int side, bool strict, double least,
                         double limit);

// ---- shorter and shorter moves ------------------------------------------------------------------------------------------

// What quotients say of a gradient; the last three: nothing, and why.
typedef enum pbAgreement { pb_agrees, pb_differs, pb_atKink, pb_atTie, pb_inNoise } pbAgreement;

typedef struct pbQuotient {
  double value;
  double scale, allowed, noise;  // what an error is relative to; how far it may be off; of this, what rounding makes
  bool missing;                  // there is none: the program fails there, or the ends say nothing of each other
  bool parted, tied;             // its ends are on different branches; features tie at one, so that no branch is its own
} pbQuotient;

typedef struct pbLadder {
  void *self;
  // The quotient between two places along the direction.
  pbStatus (*between)(void *self, double from, double to, pbQuotient *quotient);
  double longest;  // move, before shorter ones
} pbLadder;

// A gradient, and the quotient that decided.
typedef struct pbJudgement {
  pbAgreement verdict;
  double gradient, value, error, limit;  // error and limit relative to its scale; 0 where that is
} pbJudgement;
// Central quotients, until one agrees. What they say counts against the gradient only where two of them agree with each other,
// and a one-sided one with them, on one branch.
PB_NODISCARD pbStatus pbLadder_Judge(const pbLadder *ladder, double gradient, pbJudgement *found);

#endif
