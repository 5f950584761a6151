#include "barrier/advance.h"

#include <math.h>

#include "barrier/distance.h"
#include "barrier/parts.h"
#include "math/vec.h"

enum { most_advances = 200 };  // what is reached by then is safe

static void move(double *to, const double *from, const double *by, double t, int count) {
  for (int k = 0; k < 3 * count; k++) to[k] = from[k] + t * by[k];
}

static double largest(const double *v, const double *mean, int count) {
  double most = 0;
  for (int k = 0; k < count; k++) {
    double r[3];
    v3_sub(r, v + 3 * k, mean);
    most = fmax(most, v3_norm(r));
  }

  return most;
}

// Fastest that any two points of A and B approach each other: motion in common taken off
static double top_speed(int na, const double *dA, int nb, const double *dB) {
  double mean[3] = {0};
  for (int k = 0; k < na; k++) v3_addscl(mean, dA + 3 * k, 1. / (na + nb));
  for (int k = 0; k < nb; k++) v3_addscl(mean, dB + 3 * k, 1. / (na + nb));

  return largest(dA, mean, na) + largest(dB, mean, nb);
}

// How long two slabs across direction n stay apart by `target`: hulls move as their vertices do.
static double slab_time(int na, const double *A, const double *dA, int nb, const double *B, const double *dB, const double *n,
                        double target) {
  double time = INFINITY;
  for (int i = 0; i < na; i++) {
    for (int j = 0; j < nb; j++) {
      double r[3], v[3];
      v3_sub(r, A + 3 * i, B + 3 * j);
      v3_sub(v, dA + 3 * i, dB + 3 * j);
      double room = v3_dot(r, n) - target, rate = v3_dot(v, n);
      if (room <= 0) return 0;
      if (rate < 0) time = fmin(time, room / -rate);
    }
  }

  return time;
}

double pbAdvance_Pair(int na, const double *A, const double *dA, int nb, const double *B, const double *dB, double xi,
                      double dhat, double keep) {
  double a[9], b[9], speed = top_speed(na, dA, nb, dB), target = 0, least = 0, t = 0, safe = 0;
  for (int k = 0; k < most_advances; k++) {
    move(a, A, dA, t, na);
    move(b, B, dB, t, nb);
    pbClosest c = pbClosest_Find(na, a, nb, b);
    double d = sqrt(c.d2), n[3];

    if (k == 0) {
      if (!(d > xi)) return -1;
      least = keep * fmin(d - xi, dhat);
      target = xi + least;
    }

    if (d < target - .5 * least) return safe;  // rounding, where a gap is not large beside the coordinates' last digits
    safe = t;
    if (d < target + .1 * least) return t;
    v3_scale(n, c.apart, 1 / d);
    double time = fmax(slab_time(na, a, dA, nb, b, dB, n, target), (d - target) / speed);
    if (!(t + time < 1)) return 1;
    t += time;
  }

  return safe;
}

// Height of a point over a plane on their way, and bounds of what it may do until the end of it
typedef struct Height {
  double now, rate;
  double bend;     // of the second derivative at most,
  double horizon;  // for as long as this: the normal, not brought to unit length, keeps half of it
} Height;

static Height height_at(const double *p, const double *dp, const double *plane, const double *dplane, double t) {
  double q[3], P[9], e2[3], e3[3], w2[3], w3[3], n[3], dn[3], r[3], v[3], end[3], f2[3], f3[3];
  move(q, p, dp, t, 1);
  move(P, plane, dplane, t, 3);
  v3_sub(e2, P + 3, P);
  v3_sub(e3, P + 6, P);
  v3_sub(r, q, P);
  v3_sub(w2, dplane + 3, dplane);
  v3_sub(w3, dplane + 6, dplane);
  v3_sub(v, dp, dplane);
  v3_cross(n, e2, e3);
  v3_cross(dn, w2, e3);
  v3_addcross(dn, e2, w3);
  double size = v3_norm(n), now = v3_dot(r, n) / size;
  double rate = (v3_dot(v, n) + v3_dot(r, dn) - now * v3_dot(n, dn) / size) / size;
  v3_along(end, r, v, 1 - t);
  v3_along(f2, e2, w2, 1 - t);
  v3_along(f3, e3, w3, 1 - t);
  double lever = fmax(v3_norm(r), v3_norm(end)), width = v3_norm(w2), length = v3_norm(w3);
  double change = width * fmax(v3_norm(e3), v3_norm(f3)) + length * fmax(v3_norm(e2), v3_norm(f2));  // of n, per time
  double turn = 2 * change / size;                                                                   // of the unit normal

  return (Height){now, rate, lever * (4 * width * length / size + 2 * turn * turn) + 2 * turn * v3_norm(v), .5 * size / change};
}

double pbAdvance_Plane(const double *p, const double *dp, const double *plane, const double *dplane, double xi, double dhat,
                       double keep) {
  double target = 0, least = 0, t = 0, safe = 0;
  for (int k = 0; k < most_advances; k++) {
    Height h = height_at(p, dp, plane, dplane, t);
    if (k == 0) {
      if (!(h.now > xi)) return -1;
      least = keep * fmin(h.now - xi, dhat);
      target = xi + least;
    }

    if (!(h.now > target - .5 * least)) return safe;
    safe = t;
    if (h.now < target + .1 * least) return t;
    // the first root of room + rate t - bend/2 t^2
    double room = h.now - target, root = sqrt(h.rate * h.rate + 2 * h.bend * room);
    t += fmin(h.rate > 0 ? (h.rate + root) / h.bend : 2 * room / (root - h.rate), h.horizon);
    if (!(t < 1)) return 1;
  }

  return safe;
}
