// What touches, as plain numbers.
#ifndef PB_TOUCH_H
#define PB_TOUCH_H

#define PB_TOUCH 1e-10  // m: surfaces closer than this touch
#define PB_REST  1e-8   // m/s: contacts that approach slower than this do not

typedef struct pbTouch {
  int candidate, point;
  double gap, rate;  // distance less margin, and its rate by the velocities
} pbTouch;

#endif
