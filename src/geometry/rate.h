// Rows of contact Jacobians: differentials of points, directions and scalars by what a pair's contacts depend on (pair.h).
#ifndef PB_RATE_H
#define PB_RATE_H

#include "geometry/pair.h"
#include "math/vec.h"

enum { COLUMNS = 12, ROT = 0, MOVE = 3, SIZE1 = 6, SIZE2 = 9 };  // columns of a Jacobian
enum { DIST = 0, POS = 1, NORMAL = 4, HINT = 7 };                // rows

typedef num row[COLUMNS];

// d (p2 + lever) where the lever rotates with shape 2: e_k x lever by rotation, e_k by translation
static inline void rigid_rate(row r[3], const num l[3]) {
  memset(r, 0, 3 * sizeof(row));
  r[0][1] = l[2];
  r[0][2] = -l[1];
  r[1][0] = -l[2];
  r[1][2] = l[0];
  r[2][0] = l[1];
  r[2][1] = -l[0];
  r[0][MOVE] = r[1][MOVE + 1] = r[2][MOVE + 2] = 1;
}

// d a for a direction a that rotates with shape 2
static inline void rotation_rate(row r[3], const num a[3]) {
  rigid_rate(r, a);
  r[0][MOVE] = r[1][MOVE + 1] = r[2][MOVE + 2] = 0;
}

static inline void dot_rate(row out, const num a[3], row r[3]) {
  for (int c = 0; c < COLUMNS; c++) out[c] = a[0] * r[0][c] + a[1] * r[1][c] + a[2] * r[2][c];
}

// r += a * d, for a vector a and the row d of a scalar
static inline void add_rate(row r[3], const num a[3], const row d) {
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) r[i][c] += a[i] * d[c];
  }
}

// Plane: dist = n . point - radius, pos = point - n (dist / 2 + radius)
static inline void plane_rate(const num n[3], row point[3], int radius_column, pbContactJacobian *j) {
  row dist;

  dot_rate(dist, n, point);
  if (radius_column >= 0) dist[radius_column] -= 1;

  memcpy(j->d[DIST], dist, sizeof dist);

  // The plane stands still, so the normal's rows stay zero.
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) j->d[POS + i][c] = point[i][c] - 0.5 * n[i] * dist[c];
    if (radius_column >= 0) j->d[POS + i][radius_column] -= n[i];
  }
}

// Two balls: len = |c2 - c1|, n = (c2 - c1) / len, dist = len - r1 - r2, pos = c1 + n (r1 + dist / 2).
// c1 NULL: it does not move. A radius column below zero: no radius.
static inline void ball_rate(const NUM(pbContactPoint) *contact, num len, num r1, row *c1, row *c2, int column1, int column2,
                             pbContactJacobian *j) {
  const num *n = contact->normal;
  num reach = r1 + 0.5 * contact->dist, inv = 1 / len;
  row rel[3], dlen;

  // Length and direction of the vector between the centers: d len = n . d rel, d n = (d rel - n d len) / len.
  for (int i = 0; i < 3; i++) {
    for (int c = 0; c < COLUMNS; c++) rel[i][c] = c1 ? c2[i][c] - c1[i][c] : c2[i][c];
  }

  dot_rate(dlen, n, rel);
  memcpy(j->d[DIST], dlen, sizeof dlen);
  for (int i = 0; i < 3; i++) {
    // pos = c1 + n (r1 + dist / 2) by the centers; by the radii below: r1 + dist / 2 = (len + r1 - r2) / 2.
    for (int c = 0; c < COLUMNS; c++) {
      num dn = (rel[i][c] - n[i] * dlen[c]) * inv;
      j->d[NORMAL + i][c] = dn;
      j->d[POS + i][c] = (c1 ? c1[i][c] : 0) + dn * reach + 0.5 * n[i] * dlen[c];
    }
    if (column1 >= 0) j->d[POS + i][column1] += 0.5 * n[i];
    if (column2 >= 0) j->d[POS + i][column2] -= 0.5 * n[i];
  }
  if (column1 >= 0) j->d[DIST][column1] -= 1;
  if (column2 >= 0) j->d[DIST][column2] -= 1;
}

#endif
