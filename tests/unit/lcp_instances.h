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
    for (int k = 0; k < dim; k++) {
      d[k] = pbRng_Normal(r);
      norm += d[k] * d[k];
    }
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
    t1[0] = -n[1];
    t1[1] = n[0];
    t1[2] = 0;
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
  for (int k = 0; k < 3; k++) {
    normal[k] = a[k] - b[k];
    norm += normal[k] * normal[k];
  }
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

// What a world is made of, beside what comes out of it.
typedef struct Making {
  Kind kind;
  int dof, corners, links;  // numbers of a body's velocity; contacts of an interface of a stack; joints
  double mass_ratio;        // masses lie between 1 / sqrt(mass_ratio) and sqrt(mass_ratio)
  double mu_low, mu_high;
  double *pos;  // bodies x 3
} Making;
static const double instance_half[3] = {.5, .3, .5};  // sides of a box of a stack
static const double instance_gravity = 9.81, instance_dt = 1. / 60;

static inline void allocate_instance(Instance *c) {
  size_t n = (size_t)c->n, m = (size_t)c->m, e = (size_t)c->e, contacts = (size_t)c->contacts;
  c->Q = calloc(n * n, 8);
  c->p = calloc(n, 8);
  c->v = calloc(n, 8);

  // a number more, so that nothing is empty
  c->G = calloc(m * n + 1, 8);
  c->h = calloc(m + 1, 8);
  c->F = calloc(m * m + 1, 8);
  c->A = calloc(e * n + 1, 8);
  c->b = calloc(e + 1, 8);
  c->mu = calloc(contacts + 1, 8);
  c->body = calloc(contacts * 2 + 2, sizeof(int));
}

// Masses, places and velocities; those of a stack are at rest but for some numbers.
static inline void place_body(Instance *c, pbRng *r, const Making *w, int i) {
  bool stack = w->kind == kind_stack;
  double mass = pow(w->mass_ratio, pbRng_Uniform(r) - .5);
  for (int k = 0; k < w->dof; k++) {
    size_t at = (size_t)(i * w->dof + k);
    c->Q[at * (size_t)c->n + at] = k < c->dim ? mass : mass * uniform(r, .05, .4);
  }

  for (int k = 0; k < c->dim; k++) w->pos[3 * i + k] = stack ? 0 : uniform(r, -2, 2);
  if (stack) w->pos[3 * i + 1] = instance_half[1] + 2 * instance_half[1] * i;
  for (int k = 0; k < w->dof; k++) c->v[i * w->dof + k] = stack && below(r, 4) ? 0 : pbRng_Normal(r);
}

// Rows of a ball joint at an anchor: the same velocity of both bodies' points.
static inline void add_joint(const Instance *c, const Making *w, int child, int parent, const double *anchor, int row) {
  for (int k = 0; k < c->dim; k++) {
    double axis[3] = {k == 0, k == 1, k == 2}, arm_child[3] = {0}, arm_parent[3] = {0};
    for (int q = 0; q < 3; q++) {
      arm_child[q] = anchor[q] - w->pos[3 * child + q];
      arm_parent[q] = parent >= 0 ? anchor[q] - w->pos[3 * parent + q] : 0;
    }
    double *out = c->A + (size_t)(row + k) * (size_t)c->n;
    add_point(c, child, arm_child, axis, 1, out);
    add_point(c, parent, arm_parent, axis, -1, out);
  }
}

// A tree of ball joints, the world included; the last one stands there twice where there is room for its rows.
static inline void add_joints(const Instance *c, pbRng *r, const Making *w) {
  for (int j = 0; j < w->links; j++) {
    int child = j + 1, parent = below(r, child + 1) - 1;
    double anchor[3] = {0};
    for (int k = 0; k < c->dim; k++) anchor[k] = w->pos[3 * child + k] + uniform(r, -.5, .5);

    add_joint(c, w, child, parent, anchor, j * c->dim);
    bool twice = j + 1 == w->links && c->e > w->links * c->dim;
    if (twice) add_joint(c, w, child, parent, anchor, (j + 1) * c->dim);
  }
}

// Velocities that satisfy the joints: Kaczmarz's sweeps.
static inline void settle_velocities(const Instance *c) {
  enum { most_sweeps = 4000 };
  if (!c->e) return;

  for (int sweep = 0; sweep < most_sweeps; sweep++) {
    double worst = 0;
    for (int i = 0; i < c->e; i++) {
      double *row = c->A + (size_t)i * (size_t)c->n, d = 0, q = 0;
      for (int j = 0; j < c->n; j++) {
        d += row[j] * c->v[j];
        q += row[j] * row[j];
      }
      for (int j = 0; j < c->n; j++) c->v[j] -= d / q * row[j];
      worst = fmax(worst, fabs(d));
    }
    if (worst < 1e-14) return;
  }
}

// p = -Q (v + dt a): the velocity that there would be without contacts.
static inline void free_motion(const Instance *c, pbRng *r, const Making *w) {
  for (int a = 0; a < c->n; a++) {
    double falls = a % w->dof == 1 ? instance_gravity * instance_dt : 0;
    double pushed = w->kind == kind_stack ? 0 : instance_dt * pbRng_Normal(r);
    c->p[a] = -c->Q[(size_t)a * (size_t)c->n + (size_t)a] * (c->v[a] - falls + pushed);
  }
}

// Which bodies meet, where and how: c->body, point and normal. In a stack the corners of a box on the one below, then more contacts
// between them than are needed.
static inline void draw_contact(const Instance *c, pbRng *r, const Making *w, int i, double *point, double *normal) {
  int *a = &c->body[2 * i], *b = &c->body[2 * i + 1];
  if (w->kind == kind_stack) {
    int corner = i % w->corners;
    *a = i / w->corners % c->bodies;
    *b = *a - 1;
    point[0] = (corner & 1 ? 1 : -1) * instance_half[0];
    point[1] = w->pos[3 * *a + 1] - instance_half[1];
    if (c->dim == 3) point[2] = (corner & 2 ? 1 : -1) * instance_half[2];
    if (i >= w->corners * c->bodies) point[0] *= uniform(r, -1, 1);
    return;
  }

  *a = below(r, c->bodies);
  *b = below(r, c->bodies + 1) - 1;
  if (*b == *a) *b = -1;
  if (w->kind == kind_jam) unit(r, c->dim, normal);
  else if (*b >= 0) tilted(r, c->dim, w->pos + 3 * *a, w->pos + 3 * *b, normal);
  for (int k = 0; k < c->dim; k++) point[k] = w->pos[3 * *a + k] - .5 * normal[k] + uniform(r, -.2, .2);
}

// Rows of G and entries of F: the normal, and for each direction of friction one, with the slack of the cone (Anitescu & Potra 1997).
static inline void add_contact(Instance *c, pbRng *r, const Making *w, int i) {
  double normal[3] = {0, 1, 0}, tangent[2][3] = {{0}, {0}}, point[3] = {0}, arm_a[3] = {0}, arm_b[3] = {0};
  draw_contact(c, r, w, i, point, normal);
  tangents(c->dim, normal, tangent[0], tangent[1]);

  int a = c->body[2 * i], b = c->body[2 * i + 1];
  for (int k = 0; k < c->dim; k++) {
    arm_a[k] = point[k] - w->pos[3 * a + k];
    arm_b[k] = b >= 0 ? point[k] - w->pos[3 * b + k] : 0;
  }

  size_t n = (size_t)c->n, m = (size_t)c->m;
  double *row = c->G + (size_t)i * n, approach = 0;
  add_point(c, a, arm_a, normal, -1, row);
  add_point(c, b, arm_b, normal, 1, row);
  for (int j = 0; j < c->n; j++) approach -= row[j] * c->v[j];
  c->h[i] = c->bounce * approach;

  int slack = c->contacts * (1 + c->directions) + i;
  c->mu[i] = uniform(r, w->mu_low, w->mu_high);
  c->F[(size_t)slack * m + (size_t)i] = c->mu[i];
  for (int d = 0; d < c->directions; d++) {
    int f = c->contacts + i * c->directions + d;
    double sign = d % 2 ? -1 : 1;
    add_point(c, a, arm_a, tangent[d / 2], -sign, c->G + (size_t)f * n);
    add_point(c, b, arm_b, tangent[d / 2], sign, c->G + (size_t)f * n);
    c->F[(size_t)f * m + (size_t)slack] = 1;
    c->F[(size_t)slack * m + (size_t)f] = -1;
  }
}

// Masses lie between 1 / sqrt(mass_ratio) and sqrt(mass_ratio).
static inline Instance instance_make(pbRng *r, int dim, int bodies, int contacts, double mu_low, double mu_high, Kind kind,
                                     bool joints, double mass_ratio) {
  Making w = {.kind = kind,
              .dof = dim == 2 ? 3 : 6,
              .corners = dim == 2 ? 2 : 4,
              .links = joints && bodies > 1 ? below(r, bodies) : 0,
              .mass_ratio = mass_ratio,
              .mu_low = mu_low,
              .mu_high = mu_high,
              .pos = calloc((size_t)bodies * 3, 8)};
  Instance c = {.dim = dim, .bodies = bodies, .contacts = contacts, .directions = dim == 2 ? 2 : 4, .n = bodies * w.dof};
  c.m = contacts * (2 + c.directions);
  c.e = w.links * dim;
  if (w.links && below(r, 2)) c.e += dim;
  allocate_instance(&c);

  for (int i = 0; i < bodies; i++) place_body(&c, r, &w, i);
  add_joints(&c, r, &w);
  settle_velocities(&c);
  free_motion(&c, r, &w);

  c.bounce = below(r, 2) || w.links || kind == kind_jam ? 0 : uniform(r, 0, 1);
  for (int i = 0; i < contacts; i++) add_contact(&c, r, &w, i);
  free(w.pos);
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
