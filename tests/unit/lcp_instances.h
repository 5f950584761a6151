// Random contact problems for the complementarity solver, 2-D and 3-D. Velocities satisfy the joints. Restitution is
// Newton's, and only where no contact forces within their friction cones balance each other (otherwise a solution need not
// exist): in stacks, and in clusters whose normals lie near the lines of centres; without joints.
#ifndef PB_LCP_INSTANCES_H
#define PB_LCP_INSTANCES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/lcp.h>

#include <pullback/random.h>

typedef enum Kind {
  kind_stack,    // boxes upon each other, 2 or 4 contacts an interface, more where `contacts` asks for them
  kind_cluster,  // balls, more or less, and the ground
  kind_jam,      // contacts of any normal: wedged bodies
  kind_count
} Kind;
typedef struct Instance {
  int dim, bodies, contacts, directions, n, m, e;  // dim 2 or 3; directions of friction per contact
  double *Q, *p, *G, *h, *F, *A, *b, *v, *mu;
  double bounce;
  int *body;  // 2 per contact: -1 is the ground
} Instance;

static inline double uniform(pbRng *r, double a, double b) { return a + (b - a) * pbRng_Uniform(r); }
static inline int below(pbRng *r, int n) { return (int)(pbRng_Uniform(r) * n); }

static inline void instance_free(Instance *c) {
  double *all[] = {c->Q, c->p, c->G, c->h, c->F, c->A, c->b, c->v, c->mu};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
  free(c->body);
}
static inline pbLcp instance_problem(const Instance *c) {
  return (pbLcp){.n = c->n, .m = c->m, .e = c->e, .Q = c->Q, .p = c->p, .G = c->G, .h = c->h, .F = c->F, .A = c->A, .b = c->b};
}

static inline void unit(pbRng *r, int dim, double *d) {
  double norm = 0;
  d[2] = 0;
  do {
    norm = 0;
    for (int k = 0; k < dim; k++) d[k] = pbRng_Normal(r), norm += d[k] * d[k];
  } while (norm < 1e-6);
  for (int k = 0; k < dim; k++) d[k] /= sqrt(norm);
}
static inline void cross(const double *a, const double *b, double *c) {
  c[0] = a[1] * b[2] - a[2] * b[1];
  c[1] = a[2] * b[0] - a[0] * b[2];
  c[2] = a[0] * b[1] - a[1] * b[0];
}
// two tangents of a unit normal
static inline void tangents(int dim, const double *n, double *t1, double *t2) {
  if (dim == 2) {
    t1[0] = -n[1], t1[1] = n[0], t1[2] = 0;
    return;
  }
  double a[3] = {fabs(n[0]) < .6, fabs(n[0]) >= .6, 0}, norm;
  cross(n, a, t1);
  norm = sqrt(t1[0] * t1[0] + t1[1] * t1[1] + t1[2] * t1[2]);
  for (int k = 0; k < 3; k++) t1[k] /= norm;
  cross(n, t1, t2);
}
// from b to a, off by up to 0.4 rad
static inline void tilted(pbRng *r, int dim, const double *a, const double *b, double *normal) {
  double t[2][3], norm = 0, tilt = uniform(r, -.4, .4);
  for (int k = 0; k < 3; k++) normal[k] = a[k] - b[k], norm += normal[k] * normal[k];
  for (int k = 0; k < 3; k++) normal[k] /= sqrt(norm);
  tangents(dim, normal, t[0], t[1]);
  for (int k = 0; k < 3; k++) normal[k] = cos(tilt) * normal[k] + sin(tilt) * t[0][k];
}
// row += sign * d(direction . velocity of the body's point at arm)/d velocities
static inline void add_point(const Instance *c, int body, const double *arm, const double *dir, double sign, double *row) {
  if (body < 0) return;
  int dof = c->dim == 2 ? 3 : 6;
  double *out = row + body * dof, turn[3];
  cross(arm, dir, turn);
  for (int k = 0; k < c->dim; k++) out[k] += sign * dir[k];
  if (c->dim == 2) out[2] += sign * turn[2];
  else
    for (int k = 0; k < 3; k++) out[3 + k] += sign * turn[k];
}

// Masses lie between 1 / sqrt(mass_ratio) and sqrt(mass_ratio).
static inline Instance instance_make(pbRng *r, int dim, int bodies, int contacts, double mu_low, double mu_high, Kind kind,
                                     bool joints, double mass_ratio) {
  bool stack = kind == kind_stack;
  int dof = dim == 2 ? 3 : 6, corners = dim == 2 ? 2 : 4;
  Instance c = {.dim = dim, .bodies = bodies, .contacts = contacts, .directions = dim == 2 ? 2 : 4, .n = bodies * dof};
  int links = joints && bodies > 1 ? below(r, bodies) : 0;
  c.m = contacts * (2 + c.directions);
  c.e = links * dim + (links && below(r, 2) ? dim : 0);  // sometimes the last joint twice: redundant
  size_t n = (size_t)c.n, m = (size_t)c.m, e = (size_t)c.e;
  c.Q = calloc(n * n, 8), c.p = calloc(n, 8), c.G = calloc(m * n + 1, 8), c.h = calloc(m + 1, 8), c.F = calloc(m * m + 1, 8);
  c.A = calloc(e * n + 1, 8), c.b = calloc(e + 1, 8), c.v = calloc(n, 8), c.mu = calloc((size_t)contacts + 1, 8);
  c.body = calloc((size_t)contacts * 2 + 2, sizeof(int));
  double gravity = 9.81, dt = 1. / 60;
  double *pos = calloc((size_t)bodies * 3, 8), half[3] = {.5, .3, .5};
  for (int i = 0; i < bodies; i++) {
    double mass = pow(mass_ratio, pbRng_Uniform(r) - .5);
    for (int k = 0; k < dof; k++)
      c.Q[(size_t)(i * dof + k) * n + (size_t)(i * dof + k)] = k < dim ? mass : mass * uniform(r, .05, .4);
    for (int k = 0; k < dim; k++) pos[3 * i + k] = stack ? 0 : uniform(r, -2, 2);
    if (stack) pos[3 * i + 1] = .3 + .6 * i;
    for (int k = 0; k < dof; k++) c.v[i * dof + k] = stack && below(r, 4) ? 0 : pbRng_Normal(r);
  }
  for (int j = 0; j < links; j++) {  // a tree of ball joints, the world included
    int child = j + 1, parent = below(r, child + 1) - 1;
    double anchor[3] = {0};
    for (int k = 0; k < dim; k++) anchor[k] = pos[3 * child + k] + uniform(r, -.5, .5);
    for (int copy = 0; copy < 2; copy++) {
      int row0 = (j + copy) * dim;
      if (copy && (j + 1 < links || c.e == links * dim)) continue;
      for (int k = 0; k < dim; k++) {
        double axis[3] = {k == 0, k == 1, k == 2}, a[3] = {0}, b[3] = {0};
        for (int q = 0; q < 3; q++)
          a[q] = anchor[q] - pos[3 * child + q], b[q] = parent >= 0 ? anchor[q] - pos[3 * parent + q] : 0;
        add_point(&c, child, a, axis, 1, c.A + (size_t)(row0 + k) * n);
        add_point(&c, parent, b, axis, -1, c.A + (size_t)(row0 + k) * n);
      }
    }
  }
  // velocities that satisfy the joints: Kaczmarz's sweeps
  for (int sweep = 0; sweep < 4000 && c.e; sweep++) {
    double worst = 0;
    for (int i = 0; i < c.e; i++) {
      double *row = c.A + (size_t)i * n, d = 0, q = 0;
      for (int j = 0; j < c.n; j++) d += row[j] * c.v[j], q += row[j] * row[j];
      for (int j = 0; j < c.n; j++) c.v[j] -= d / q * row[j];
      worst = fmax(worst, fabs(d));
    }
    if (worst < 1e-14) break;
  }
  for (int i = 0; i < bodies; i++)
    for (int k = 0; k < dof; k++) {
      int a = i * dof + k;
      c.p[a] = -c.Q[(size_t)a * n + (size_t)a] * (c.v[a] - (k == 1 ? gravity * dt : 0) + (stack ? 0 : dt * pbRng_Normal(r)));
    }
  double bounce = below(r, 2) || links || kind == kind_jam ? 0 : uniform(r, 0, 1);
  for (int i = 0; i < contacts; i++) {
    double normal[3] = {0, 1, 0}, t1[3] = {0}, t2[3] = {0}, point[3] = {0};
    int a, b;
    if (stack) {
      a = i / corners % bodies, b = a - 1;
      int corner = i % corners;
      point[0] = (corner & 1 ? 1 : -1) * half[0], point[2] = dim == 3 ? (corner & 2 ? 1 : -1) * half[2] : 0;
      point[1] = pos[3 * a + 1] - half[1];
      if (i >= corners * bodies) point[0] *= uniform(r, -1, 1);  // more contacts than needed
    } else {
      a = below(r, bodies), b = below(r, bodies + 1) - 1;
      if (b == a) b = -1;
      if (kind == kind_jam) unit(r, dim, normal);
      else if (b >= 0) tilted(r, dim, pos + 3 * a, pos + 3 * b, normal);
      for (int k = 0; k < dim; k++) point[k] = pos[3 * a + k] - .5 * normal[k] + uniform(r, -.2, .2);
    }
    c.body[2 * i] = a, c.body[2 * i + 1] = b;
    tangents(dim, normal, t1, t2);
    double arm_a[3] = {0}, arm_b[3] = {0};
    for (int k = 0; k < dim; k++) arm_a[k] = point[k] - pos[3 * a + k], arm_b[k] = b >= 0 ? point[k] - pos[3 * b + k] : 0;
    double *row = c.G + (size_t)i * n;
    add_point(&c, a, arm_a, normal, -1, row);
    add_point(&c, b, arm_b, normal, 1, row);
    double vn = 0;
    for (int j = 0; j < c.n; j++) vn -= row[j] * c.v[j];
    c.h[i] = bounce * vn;
    c.bounce = bounce;
    c.mu[i] = uniform(r, mu_low, mu_high);
    int gamma = contacts * (1 + c.directions) + i;
    c.F[(size_t)gamma * m + (size_t)i] = c.mu[i];
    for (int d = 0; d < c.directions; d++) {
      int f = contacts + i * c.directions + d;
      double *t = d / 2 ? t2 : t1, sign = d % 2 ? -1 : 1;
      add_point(&c, a, arm_a, t, -sign, c.G + (size_t)f * n);
      add_point(&c, b, arm_b, t, sign, c.G + (size_t)f * n);
      c.F[(size_t)f * m + (size_t)gamma] = 1;
      c.F[(size_t)gamma * m + (size_t)f] = -1;
    }
  }
  free(pos);
  return c;
}

// The same world with cones: rows (normal, tangent 1, tangent 2) a contact. 3-D only; free G and h.
static inline pbCones instance_cones(const Instance *c) {
  size_t n = (size_t)c->n, contacts = (size_t)c->contacts;
  double *G = calloc(3 * contacts * n + 1, 8), *h = calloc(3 * contacts + 1, 8);
  for (size_t i = 0; i < contacts; i++) {
    h[3 * i] = c->h[i];
    memcpy(G + 3 * i * n, c->G + i * n, 8 * n);
    for (size_t k = 0; k < 2; k++) memcpy(G + (3 * i + 1 + k) * n, c->G + (contacts + 4 * i + 2 * k) * n, 8 * n);
  }
  return (pbCones){
      .n = c->n, .contacts = c->contacts, .e = c->e, .Q = c->Q, .p = c->p, .G = G, .h = h, .mu = c->mu, .A = c->A, .b = c->b};
}

#endif
