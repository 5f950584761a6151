// Contacts with Coulomb's cone (pullback/lcp.h): pyramids whose edges are rotated towards the slip, then Newton's method;
// or the condensed interior point method (cones_interior.c), or a path (cones_path.c). The derivative: cones_vjp.c.
// Tests: tests/unit/test_lcp_cones.c.
#include "lcp/cones.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"

enum { ROUNDS = 4, EDGES = 4, ROWS = EDGES + 2 };

void pbConesWork_Layout(pbArena *a, pbConesWork *w, int n, int contacts, int e) {
  size_t c = (size_t)contacts;
  pbLcpWork_Layout(a, &w->base, n, 3 * contacts, e, ROWS * contacts);
  w->base.reduced.by_contact = true;

  // The pyramids' problem has six rows a contact.
  w->M = pbArena_Take(a, ROWS * c * ROWS * c, sizeof(double));
  w->q = pbArena_Take(a, ROWS * c, sizeof(double));
  w->angle = pbArena_Take(a, c, sizeof(double));
  double **vectors[] = {&w->z, &w->s, &w->zbest, &w->step, &w->target, &w->tmp};
  for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) *vectors[k] = pbArena_Take(a, 3 * c, sizeof(double));
  w->state = pbArena_Take(a, c, sizeof(int));
  w->by_s = pbArena_Take(a, c, sizeof *w->by_s);
  w->by_z = pbArena_Take(a, c, sizeof *w->by_z);
}

size_t pbCones_WorkSize(int n, int contacts, int e) {
  if (contacts < 0 || contacts > 3000 || !pbLcpWork_SizesFit(n, ROWS * contacts, e)) return 0;
  pbArena a = pbArena_Measure();
  pbConesWork w;
  pbConesWork_Layout(&a, &w, n, contacts, e);

  return pbArena_Needed(&a);
}

// The contacts' rows without friction's law.
pbLcp pbCones_Linear(const pbCones *k) {
  return (pbLcp){.n = k->n, .m = 3 * k->contacts, .e = k->e, .Q = k->Q, .p = k->p, .G = k->G, .h = k->h, .A = k->A, .b = k->b};
}

pbStatus pbConesWork_Begin(pbContext *ctx, const pbCones *k, void *work, size_t work_size, pbConesWork *w) {
  size_t need = pbCones_WorkSize(k->n, k->contacts, k->e);
  pbLcp l = need ? pbCones_Linear(k) : (pbLcp){.n = k->n, .m = k->contacts, .e = k->e};

  PB_TRY(pbLcpWork_Check(ctx, &l, work_size, need));
  PB_TRY(pbLcpWork_CheckArray(ctx, "mu", k->mu, (size_t)k->contacts, false));
  for (int i = 0; i < k->contacts; i++) {
    if (k->mu[i] < 0) return pbContext_Fail(ctx, pb_bad_input, "LCP: friction of contact %d is negative", i);
  }

  pbArena a = pbArena_Over(work, work_size);
  pbConesWork_Layout(&a, w, k->n, k->contacts, k->e);

  return pb_ok;
}

// ---- the natural map ------------------------------------------------------------------------------------------------
// Projection on {|t| <= mu n}
static void project_cone(double mu, double *v) {
  PB_ASSERT(mu >= 0);
  double t = pbHypot(v[1], v[2]);
  if (t <= mu * v[0]) return;

  // The polar cone has the tip as its closest point.
  if (mu * t <= -v[0]) {
    memset(v, 0, 3 * sizeof *v);
    return;
  }

  // Onto the nearest point of the mantle.
  double n = (v[0] + mu * t) / (1 + mu * mu), f = mu * n / t;
  v[0] = n;
  v[1] *= f;
  v[2] *= f;
}

// Largest entry of z - P(z - s - (mu |s_t|, 0, 0)) of a contact
static double off_law(double mu, const double *z, const double *s) {
  double v[3] = {z[0] - s[0] - mu * pbHypot(s[1], s[2]), z[1] - s[1], z[2] - s[2]}, worst = 0;
  project_cone(mu, v);
  for (int k = 0; k < 3; k++) {
    if (!(fabs(z[k] - v[k]) <= worst)) worst = fabs(z[k] - v[k]);
  }

  return worst;
}

// s = W z + q; the worst contact's residual.
static double residual(const pbConesWork *w, const double *mu, const double *z, double *s) {
  const pbReduced *r = &w->base.reduced;
  double worst = 0;

  if (w->base.interior.condensed) pbCondensed_Mul(w->base.interior.condensed, z, s);
  else pbDense_Mul(s, r->M, z, r->m, r->m);
  for (int i = 0; i < r->m; i++) s[i] += r->q[i];

  // The worst contact decides.
  for (int c = 0; 3 * c < r->m; c++) {
    double off = off_law(mu[c], z + 3 * c, s + 3 * c);
    if (!(off <= worst)) worst = off;
  }

  return worst;
}

// ---- Newton's method ------------------------------------------------------------------------------------------------
// On the map of Alart & Curnier: z_n - max(0, z_n - s_n) and z_t - P(z_t - s_t), P the projection on the disc of radius
// mu max(0, z_n - s_n); it has the zeros of the natural map.
typedef struct Map {
  pbContactState state;
  double value[3], by_z[3][3], by_s[3][3];
} Map;

static Map map_of(double mu, const double *z, const double *s) {
  Map f = {.state = pb_contactOpen};
  double normal = z[0] - s[0], limit = mu * normal, a[2] = {z[1] - s[1], z[2] - s[2]}, norm = pbHypot(a[0], a[1]);

  // Open: z = 0.
  if (normal <= 0) {
    for (int k = 0; k < 3; k++) {
      f.value[k] = z[k];
      f.by_z[k][k] = 1;
    }

    return f;
  }

  f.state = limit > 0 && norm <= limit ? pb_contactSticks : pb_contactSlides;
  f.value[0] = s[0];
  f.by_s[0][0] = 1;

  // Sliding: P(a) = limit a / |a|, whose derivative across a is limit / |a|.
  double d[2] = {norm > 0 ? a[0] / norm : 0, norm > 0 ? a[1] / norm : 0}, bend = norm > 0 ? limit / norm : 0;

  // Tangential rows: s_t where it sticks, else z_t less its projection.
  for (int i = 0; i < 2; i++) {
    bool sticks = f.state == pb_contactSticks;
    f.value[1 + i] = sticks ? s[1 + i] : z[1 + i] - limit * d[i];
    f.by_s[1 + i][1 + i] = sticks;
    if (sticks) continue;
    f.by_z[1 + i][0] = -mu * d[i];
    f.by_s[1 + i][0] = mu * d[i];

    for (int j = 0; j < 2; j++) {
      double across = bend * ((i == j) - d[i] * d[j]);
      f.by_z[1 + i][1 + j] = (i == j) - across;
      f.by_s[1 + i][1 + j] = across;
    }
  }

  return f;
}

// Squared length of the map; s = W z + q
static double merit(const pbConesWork *w, const double *mu, const double *z, double *s) {
  double sum = 0;
  residual(w, mu, z, s);
  for (int c = 0; 3 * c < w->base.reduced.m; c++) {
    Map f = map_of(mu[c], z + 3 * c, s + 3 * c);
    sum += pbDense_Dot(f.value, f.value, 3);
  }

  return sum;
}

// The rows of one contact: its law linearized, f.by_z dz + f.by_s W dz = -f - f.by_s (s without the open contacts - s).
static void newton_rows(pbConesWork *w, const double *mu, int a, int k) {
  const pbReduced *r = &w->base.reduced;
  pbInterior *in = &w->base.interior;
  const int *rows = in->rows, *at = rows + a, c = at[0] / 3;
  Map f = map_of(mu[c], w->z + 3 * c, w->s + 3 * c);

  for (int i = 0; i < 3; i++) {
    w->step[a + i] = -f.value[i];
    for (int j = 0; j < 3; j++) w->step[a + i] -= f.by_s[i][j] * (w->tmp[at[j]] - w->s[at[j]]);
  }

  for (int b = 0; b < k; b++) {
    double *column = in->cod.A + (size_t)b * (size_t)k + a, W[3];
    for (int j = 0; j < 3; j++) W[j] = r->M[(size_t)at[j] * (size_t)r->m + (size_t)rows[b]];
    for (int i = 0; i < 3; i++) column[i] = pbDense_Dot(f.by_s[i], W, 3) + (b >= a && b < a + 3 ? f.by_z[i][b - a] : 0);
  }
}

// The point that the linearized map is zero at, into w->target; of least distance where contacts are redundant.
static void newton_target(pbConesWork *w, const double *mu) {
  const pbReduced *r = &w->base.reduced;
  pbInterior *in = &w->base.interior;
  int m = r->m, k = 0, *rows = in->rows;

  // Open contacts go to zero; the rows of the others are unknown.
  memcpy(w->target, w->z, sizeof *w->z * (size_t)m);
  for (int c = 0; 3 * c < m; c++) {
    bool open = map_of(mu[c], w->z + 3 * c, w->s + 3 * c).state == pb_contactOpen;
    for (int i = 3 * c; i < 3 * c + 3; i++) {
      if (open) w->target[i] = 0;
      else rows[k++] = i;
    }
  }

  PB_ASSERT(k % 3 == 0 && k <= m);
  if (!k) return;
  residual(w, mu, w->target, w->tmp);
  in->cod.n = k;
  for (int a = 0; a < k; a += 3) newton_rows(w, mu, a, k);

  pbDenseCod_Factor(&in->cod, 1e-11);
  in->iterations++;
  pbDenseCod_Solve(&in->cod, w->step, w->tmp);
  for (int a = 0; a < k; a++) w->target[rows[a]] += w->step[a];
}

// The same in the condensed form, where what keeps a singular system regular also keeps the step short.
static bool newton_target_condensed(pbConesWork *w, const double *mu, double value) {
  int m = w->base.reduced.m;
  for (int c = 0; 3 * c < m; c++) {
    Map f = map_of(mu[c], w->z + 3 * c, w->s + 3 * c);
    memcpy(w->by_z[c], f.by_z, sizeof f.by_z);
    memcpy(w->by_s[c], f.by_s, sizeof f.by_s);
    for (int i = 0; i < 3; i++) w->target[3 * c + i] = -f.value[i];
  }

  // Regularized by the size of the map: little where the end is near.
  double delta = fmin(fmax(sqrt(value), 1e-11), 1e-3);
  w->base.interior.iterations++;
  if (!pbCondensed_FactorLaws(w->base.interior.condensed, w->by_s, w->by_z, delta)) return false;

  // The step, then the point.
  pbCondensed_Solve(w->base.interior.condensed, w->target);
  pbDense_Add(w->target, 1, w->z, m);

  return true;
}

// Backtracking on the merit from w->z towards the target: the point is in w->step, its merit in *now; returns the length.
static double search_line(pbConesWork *w, const double *mu, double value, double *now) {
  int m = w->base.reduced.m;
  double t = 1;
  *now = INFINITY;
  for (; t > 1e-3; t *= .5) {
    for (int i = 0; i < m; i++) w->step[i] = w->z[i] + t * (w->target[i] - w->z[i]);
    *now = merit(w, mu, w->step, w->s);
    if (*now < (1 - .1 * t) * value) break;
  }

  return t;
}

// From w->z, shortening steps that lead away; true: zbest is a solution.
static bool newton(pbConesWork *w, const double *mu, double tolerance, double *best) {
  pbInterior *in = &w->base.interior;
  int m = w->base.reduced.m;
  double value = merit(w, mu, w->z, w->s), size = fmax(1, .1 * pbDense_MaxAbs(w->z, m));  // rounding grows with the forces

  for (int it = 0; it < 40; it++) {
    if (in->iterations >= in->limit) return false;
    if (!in->condensed) newton_target(w, mu);
    else if (!newton_target_condensed(w, mu, value)) return false;

    double now, t = search_line(w, mu, value, &now);
    memcpy(w->z, w->step, sizeof *w->z * (size_t)m);
    double off = residual(w, mu, w->z, w->s);

    // The best point stays, even if the merit goes on falling elsewhere.
    if (off < *best) {
      *best = off;
      memcpy(w->zbest, w->z, sizeof *w->z * (size_t)m);
    }

    // Condensed, short steps mean that the active set is not found yet: the path goes on.
    if (*best <= tolerance * size) return true;
    if (!(now < value) || (in->condensed && t < .5)) return false;
    value = now;
  }

  return false;
}

// ---- pyramids -------------------------------------------------------------------------------------------------------
// Rows: normals, EDGES a contact, slip speeds. The contact that a row is of, and its direction d in that contact's frame.
static int edge_of(const pbConesWork *w, int row, int contacts, double d[3]) {
  PB_ASSERT(row >= 0 && row < (1 + EDGES) * contacts);
  memset(d, 0, 3 * sizeof *d);
  if (row < contacts) {
    d[0] = 1;
    return row;
  }

  int c = (row - contacts) / EDGES;
  double angle = w->angle[c] + (row - contacts) % EDGES * (2 * 3.14159265358979323846 / EDGES);
  d[1] = pbCos(angle);
  d[2] = pbSin(angle);

  return c;
}

// The problem of Stewart and Trinkle (1996): normals and edges by W, and for each contact mu z_n - sum of its edges >= 0, whose
// multiplier is the slip speed.

static void build_pyramids(pbConesWork *w, const double *mu, int contacts) {
  const pbReduced *r = &w->base.reduced;
  int m = ROWS * contacts, forces = (1 + EDGES) * contacts;

  // Rows: normals and edges, by W.
  memset(w->M, 0, sizeof *w->M * (size_t)m * (size_t)m);
  memset(w->q, 0, sizeof *w->q * (size_t)m);

  for (int i = 0; i < forces; i++) {
    double da[3], db[3], *row = w->M + (size_t)i * (size_t)m;
    int a = edge_of(w, i, contacts, da);
    w->q[i] = pbDense_Dot(r->q + 3 * a, da, 3);

    for (int j = 0; j < forces; j++) {
      int b = edge_of(w, j, contacts, db);
      for (int k = 0; k < 3; k++) {
        if (da[k] != 0) row[j] += da[k] * pbDense_Dot(r->M + (size_t)(3 * a + k) * (size_t)r->m + 3 * b, db, 3);
      }
    }
  }

  for (int c = 0; c < contacts; c++) {
    // Friction's law: each edge moves at the slip speed or slower, and forces stay within mu z_n.
    size_t speed = (size_t)(forces + c);
    w->M[speed * (size_t)m + (size_t)c] = mu[c];
    for (int k = 0; k < EDGES; k++) {
      size_t f = (size_t)(contacts + c * EDGES + k);
      w->M[f * (size_t)m + speed] = 1;
      w->M[speed * (size_t)m + f] = -1;
    }
  }
}

// w->z from the pyramids' solution, and their edges rotated along slip, or along friction where there is none.
static void rotate_pyramids(pbConesWork *w, const double *mu, int contacts) {
  const double *f = w->base.interior.zbest;
  memset(w->z, 0, sizeof *w->z * 3 * (size_t)contacts);
  for (int i = 0; i < (1 + EDGES) * contacts; i++) {
    double d[3];
    int c = edge_of(w, i, contacts, d);
    pbDense_Add(w->z + 3 * c, f[i], d, 3);
  }

  // Slip at the pyramids' forces.
  residual(w, mu, w->z, w->s);
  for (int c = 0; c < contacts; c++) {
    const double *z = w->z + 3 * c, *s = w->s + 3 * c;
    if (pbHypot(s[1], s[2]) > 1e-9) w->angle[c] = pbAtan2(s[2], s[1]);
    else if (pbHypot(z[1], z[2]) > 1e-9) w->angle[c] = pbAtan2(z[2], z[1]);
  }
}

typedef struct Goal {
  const double *mu;
  double tolerance, best;
} Goal;

static bool try_newton(pbConesWork *w, void *user) {
  Goal *g = user;
  return newton(w, g->mu, g->tolerance, &g->best);
}

// Condensed; false where that does not pay or does not lead to a solution.
static bool search_condensed(pbConesWork *w, const double *mu, const pbLcp *l, double tolerance, pbLcpReport *report) {
  pbInterior *in = &w->base.interior;
  Goal goal = {mu, tolerance, INFINITY};
  static const double starts[] = {1, 10, .1};
  bool found = false;
  pbCondensed_Make(&w->base.condensed, &w->base.reduced, l, 3);
  if (!w->base.condensed.pays) return false;

  // By the interior point method, from several starts.
  in->condensed = &w->base.condensed;
  pbReduced_Vector(&w->base.reduced, l);
  for (int k = 0; k < 3 && !found; k++) found = pbCones_Interior(w, mu, starts[k], try_newton, &goal);
  in->condensed = NULL;
  report->iterations = in->iterations;

  return found;
}

// Rounds of pyramids, each of which Newton's method starts from. Returns the iterations used.
static int search_pyramids(pbConesWork *w, int contacts, Goal *goal, pbLcpReport *report, bool *found) {
  pbInterior *in = &w->base.interior;

  // Each round has what is left of the iterations.
  int limit = in->limit, used = in->iterations;

  for (int round = 0; round < ROUNDS; round++) {
    if (*found || used >= limit) break;
    pbLcpMethod method;
    build_pyramids(w, goal->mu, contacts);
    in->limit = limit - used;
    in->iterations = 0;
    pbInterior_Solve(in, &method);
    if (method > report->method) report->method = method;
    rotate_pyramids(w, goal->mu, contacts);
    *found = try_newton(w, goal);
    used += in->iterations;
  }

  in->limit = limit;
  return used;
}

// Dense: pyramids, then the path from several starts.
static void search_dense(pbConesWork *w, const double *mu, int contacts, double tolerance, pbLcpReport *report) {
  pbInterior *in = &w->base.interior;
  Goal goal = {mu, tolerance, INFINITY};
  bool found = false;
  memset(w->angle, 0, sizeof *w->angle * (size_t)contacts);
  memset(w->zbest, 0, sizeof *w->zbest * 3 * (size_t)contacts);
  in->cod.condition = 1;
  in->iterations = search_pyramids(w, contacts, &goal, report, &found);

  static const double starts[] = {1, .1, 10, .01};
  for (int k = 0; k < 4 && !found; k++) {
    report->method = pb_lcpPath;
    found = pbCones_Follow(w, mu, starts[k], try_newton, &goal);
  }

  in->condition = in->cod.condition;
  report->iterations = in->iterations;
}

// ---- the problem as stated ------------------------------------------------------------------------------------------
// What is zero by the state of the contact becomes so exactly.
static void make_exact(double mu, double tiny_z, double tiny_s, double *z, double *s) {
  double t = pbHypot(z[1], z[2]);

  if (z[0] <= tiny_z) {
    memset(z, 0, 3 * sizeof *z);
    if (s[0] < 0) s[0] = 0;
    return;
  }

  s[0] = 0;
  if (pbHypot(s[1], s[2]) <= tiny_s) {
    s[1] = 0;
    s[2] = 0;
  }

  // Onto the cone, beyond which rounding may have put it.
  if (t > mu * z[0]) {
    z[1] *= mu * z[0] / t;
    z[2] *= mu * z[0] / t;
  }
}

// The worst contact by its law, in the caller's units.
static void note_complementarity(const pbConesWork *w, const pbCones *k, pbLcpReport *report) {
  report->complementarity = 0;
  for (int c = 0; c < k->contacts; c++) {
    double off = off_law(k->mu[c], w->base.z + 3 * c, w->base.s + 3 * c);
    if (off <= report->complementarity) continue;  // NaN is the worst
    report->complementarity = off;
    report->worst_row = 3 * c;
  }
}

static void write_solution(const pbConesWork *w, const pbCones *k, const pbLcp *l, const pbLcpSolution *out) {
  const pbReduced *r = &w->base.reduced;
  for (int c = 0; c < k->contacts; c++)
    make_exact(k->mu[c], 1e-11 * r->S[3 * c] * r->size, 1e-11 * r->size / r->S[3 * c], w->base.z + 3 * c, w->base.s + 3 * c);

  memcpy(out->x, w->base.x, sizeof(double) * (size_t)l->n);
  if (l->e) memcpy(out->y, w->base.y, sizeof(double) * (size_t)l->e);
  if (l->m) memcpy(out->z, w->base.z, sizeof(double) * (size_t)l->m);
  if (l->m) memcpy(out->s, w->base.s, sizeof(double) * (size_t)l->m);
}

pbStatus pbCones_Solve(pbContext *ctx, const pbCones *k, const pbLcpOptions *options, void *work, size_t work_size,
                       const pbLcpSolution *out, pbLcpReport *report) {
  pbLcpReport own;
  if (!report) report = &own;
  *report = (pbLcpReport){.worst_row = -1, .complementarity = INFINITY, .equality = INFINITY, .stationarity = INFINITY};
  double tolerance = options && options->tolerance > 0 ? options->tolerance : 1e-10;

  pbConesWork w;
  PB_TRY(pbConesWork_Begin(ctx, k, work, work_size, &w));
  pbLcp l = pbCones_Linear(k);
  pbReduced *r = &w.base.reduced;
  pbInterior *in = &w.base.interior;
  int row;
  pbStatus status = pbReduced_Begin(r, &l, &row);
  report->condition = r->condition;
  if (status)
    return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d, condition above %.1e)", row, r->condition);

  // M and q are the pyramids'; the contacts' own are in the reduced problem.
  in->M = w.M;
  in->q = w.q;
  in->limit = options && options->iterations > 0 ? options->iterations : 1500;
  in->tolerance = fmin(1e-12, tolerance);

  // Condensed where that pays and leads to the end; then dense.
  if (!search_condensed(&w, k->mu, &l, in->tolerance, report)) {
    pbReduced_Matrices(r, &l);
    pbReduced_Vector(r, &l);
    search_dense(&w, k->mu, k->contacts, in->tolerance, report);
  }

  pbLcpWork_Recover(&w.base, &l, w.zbest);
  note_complementarity(&w, k, report);
  PB_TRY(pbLcpWork_Judge(ctx, &w.base, &l, tolerance, report));
  PB_VALIDATE(pb_allFinite(w.base.z, (size_t)l.m));
  write_solution(&w, k, &l, out);
  return pb_ok;
}
