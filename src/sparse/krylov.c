// Conjugate gradients and restarted GMRES (krylov.h), with the matrices and preconditioners of block matrices. Tests:
// tests/unit/test_sparse_krylov.c.
#include "sparse/krylov.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"

// ---- matrices and preconditioners -----------------------------------------------------------------------------------
static void apply_matrix(void *user, bool transposed, const double *x, double *y) {
  const pbSparseMatrix *m = user;
  pbSparse_Multiply(m->pattern, m->values, m->upper, transposed, x, y);
}
pbLinear pbLinear_Matrix(pbSparseMatrix *matrix) { return (pbLinear){apply_matrix, matrix}; }

static void apply_inverse(void *user, bool transposed, const double *x, double *y) {
  const pbSparseInverse *i = user;
  (void)transposed;
  pbSparse_Solve(i->factor, 1, x, y, i->work);
}
pbLinear pbLinear_Inverse(pbSparseInverse *inverse) { return (pbLinear){apply_inverse, inverse}; }

// Inverses of 3x3 blocks by cofactors.
int pbBlockJacobi_Make(const pbSparsePattern *p, const double *values, pbBlockJacobi *jacobi) {
  int bad = -1;
  for (int j = 0; j < p->n; j++) {
    const double *B = values + 9 * (size_t)p->begin[j];
    double *inverse = jacobi->inverse + 9 * (size_t)j, most = 0;

    for (int e = 0; e < 9; e++) most = fmax(most, fabs(B[e]));
    for (int r = 0; r < 3; r++) {
      for (int c = 0; c < 3; c++) {
        int a = (c + 1) % 3, b = (c + 2) % 3, d = (r + 1) % 3, e = (r + 2) % 3;
        inverse[3 * r + c] = B[3 * a + d] * B[3 * b + e] - B[3 * a + e] * B[3 * b + d];
      }
    }

    // Along the first row.
    double det = B[0] * inverse[0] + B[1] * inverse[3] + B[2] * inverse[6];
    if (bad < 0 && !(fabs(det) > 1e-14 * most * most * most)) bad = j;
    for (int e = 0; e < 9; e++) inverse[e] /= det;
  }
  return bad;
}

static void apply_jacobi(void *user, bool transposed, const double *x, double *y) {
  const pbBlockJacobi *jacobi = user;
  for (int i = 0; i < jacobi->n; i++) {
    const double *B = jacobi->inverse + 9 * (size_t)i, *v = x + 3 * (size_t)i;

    // Strides down and along a row of B or of B'.
    int down = transposed ? 1 : 3, along = transposed ? 3 : 1;
    for (int r = 0; r < 3; r++) y[3 * i + r] = B[down * r] * v[0] + B[down * r + along] * v[1] + B[down * r + 2 * along] * v[2];
  }
}
pbLinear pbLinear_Jacobi(pbBlockJacobi *jacobi) { return (pbLinear){apply_jacobi, jacobi}; }

// ---- vectors --------------------------------------------------------------------------------------------------------
// Four sums side by side, as a vector register may hold them: the same on every instruction set.
static double dot(const double *x, const double *y, int n) {
  double sum[4] = {0};
  int i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int c = 0; c < 4; c++) sum[c] += x[i + c] * y[i + c];
  }
  for (; i < n; i++) sum[0] += x[i] * y[i];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}
static double norm(const double *x, int n) { return sqrt(dot(x, x, n)); }
static void axpy(double *y, double s, const double *x, int n) {
  for (int i = 0; i < n; i++) y[i] += s * x[i];
}

// r = b - A x
static double find_residual(const pbKrylov *k, const double *b, const double *x, double *r) {
  k->matrix.apply(k->matrix.user, k->transposed, x, r);
  for (int i = 0; i < k->n; i++) r[i] = b[i] - r[i];
  return norm(r, k->n);
}
static void precondition(const pbKrylov *k, const double *x, double *y) {
  if (k->precondition.apply) {
    k->precondition.apply(k->precondition.user, k->transposed, x, y);
  } else {
    memcpy(y, x, sizeof *y * (size_t)k->n);
  }
}

static pbStatus report_end(pbContext *ctx, const pbKrylov *k, const char *method, pbStatus status, double size, double residual,
                           pbKrylovReport *report) {
  report->residual = size > 0 ? residual / size : residual;
  if (!isfinite(report->residual)) return pbContext_Fail(ctx, pb_not_finite, "%s: the residual is not finite", method);

  if (status == pb_singular)
    return pbContext_Fail(ctx, status, "%s: no positive curvature after %d iterations, residual %g", method, report->iterations,
                          report->residual);

  if (residual > k->tolerance * size)
    return pbContext_Fail(ctx, pb_no_convergence, "%s: residual %g after %d iterations, expected %g", method, report->residual,
                          report->iterations, k->tolerance);

  return pb_ok;
}

// ---- conjugate gradients --------------------------------------------------------------------------------------------
typedef struct CgWork {
  double *r, *z;  // workspace, n each: residual, and the preconditioner times it
  double *p, *q;  // workspace, n each: direction, and the matrix times it
} CgWork;

static CgWork cg_work(pbArena *a, int n) {
  CgWork w;
  double **vectors[] = {&w.r, &w.z, &w.p, &w.q};
  for (size_t i = 0; i < 4; i++) *vectors[i] = pbArena_Take(a, (size_t)n, sizeof(double));
  return w;
}

size_t pbCg_WorkSize(int n) {
  pbArena a = pbArena_Measure();
  cg_work(&a, n);
  return pbArena_Needed(&a);
}

// One pass until the residual that is carried along is small enough; false where curvature or preconditioner is not positive.
static bool cg_pass(const pbKrylov *k, double wanted, double *x, const CgWork *w, int *iterations) {
  double rz = 0;
  for (bool first = true; *iterations < k->iterations; first = false, ++*iterations) {
    if (norm(w->r, k->n) <= wanted) return true;

    // Search directions that are conjugate: p = z + beta p.
    precondition(k, w->r, w->z);

    // Fletcher and Reeves.
    double now = dot(w->r, w->z, k->n), beta = first ? 0 : now / rz;
    for (int i = 0; i < k->n; i++) w->p[i] = first ? w->z[i] : w->z[i] + beta * w->p[i];

    k->matrix.apply(k->matrix.user, false, w->p, w->q);
    double curvature = dot(w->p, w->q, k->n);

    // Otherwise the step would go to a maximum or a saddle.
    if (!(curvature > 0) || !(now > 0)) return false;

    axpy(x, now / curvature, w->p, k->n);
    axpy(w->r, -now / curvature, w->q, k->n);
    rz = now;
  }
  return true;
}

// The residual carried along drifts from the true one, so it is computed anew before it is believed.
pbStatus pbCg_Solve(pbContext *ctx, const pbKrylov *k, const double *b, double *x, void *work, pbKrylovReport *report) {
  pbArena arena = pbArena_Over(work, pbCg_WorkSize(k->n));
  CgWork w = cg_work(&arena, k->n);
  double size = norm(b, k->n), residual = find_residual(k, b, x, w.r);
  *report = (pbKrylovReport){0};
  PB_ASSERT(!arena.failed && x != b && !k->transposed);

  while (residual > k->tolerance * size && report->iterations < k->iterations) {
    bool positive = cg_pass(k, k->tolerance * size, x, &w, &report->iterations);

    double before = residual;
    residual = find_residual(k, b, x, w.r);
    if (!positive) return report_end(ctx, k, "conjugate gradients", pb_singular, size, residual, report);
    if (!(residual < 0.5 * before)) break;  // as far as rounding lets it
  }
  return report_end(ctx, k, "conjugate gradients", pb_ok, size, residual, report);
}

// ---- GMRES ----------------------------------------------------------------------------------------------------------
// Saad & Schultz 1986, preconditioned from the right, so that its residual is that of the system.
typedef struct GmresWork {
  double *V;              // workspace, (restart + 1) x n: the basis, a vector after the other
  double *H;              // workspace, restart x (restart + 1): columns of the Hessenberg matrix, triangular after rotations
  double *cosine, *sine;  // workspace, restart each: of these rotations
  double *g;              // workspace, restart + 1: right-hand side of the least squares problem
  double *z;              // workspace, n: a vector before the matrix
} GmresWork;

static GmresWork gmres_work(pbArena *a, int n, int restart) {
  size_t N = (size_t)n, m = (size_t)restart;
  GmresWork w;
  w.V = pbArena_Take(a, (m + 1) * N, sizeof(double));
  w.H = pbArena_Take(a, (m + 1) * m, sizeof(double));
  w.cosine = pbArena_Take(a, m, sizeof(double));
  w.sine = pbArena_Take(a, m, sizeof(double));
  w.g = pbArena_Take(a, m + 1, sizeof(double));
  w.z = pbArena_Take(a, N, sizeof(double));
  return w;
}

size_t pbGmres_WorkSize(int n, int restart) {
  pbArena a = pbArena_Measure();
  gmres_work(&a, n, restart);
  return pbArena_Needed(&a);
}

// v := the part of v across the first `count` vectors, its norm returned; twice, which is enough (Giraud et al. 2005).
static double orthogonalize(const double *V, int count, int n, double *v, double *h) {
  memset(h, 0, sizeof *h * (size_t)count);
  for (int twice = 0; twice < 2; twice++) {
    for (int i = 0; i < count; i++) {
      const double *u = V + (size_t)i * (size_t)n;
      double along = dot(u, v, n);
      h[i] += along;
      axpy(v, -along, u, n);
    }
  }
  return norm(v, n);
}

// Givens rotations: those there are on column j of H, and a new one that makes its last entry zero.
static void rotate_column(const GmresWork *w, double *h, int j) {
  for (int i = 0; i < j; i++) {
    double a = h[i], b = h[i + 1];
    h[i] = w->cosine[i] * a + w->sine[i] * b;
    h[i + 1] = w->cosine[i] * b - w->sine[i] * a;
  }

  double length = pbHypot(h[j], h[j + 1]);
  w->cosine[j] = length > 0 ? h[j] / length : 1;
  w->sine[j] = length > 0 ? h[j + 1] / length : 0;

  h[j] = length;
  w->g[j + 1] = -w->sine[j] * w->g[j];
  w->g[j] *= w->cosine[j];
}

// x += M^-1 V y with H y = g
static void add_solution(const pbKrylov *k, const GmresWork *w, int count, double *x) {
  double *sum = w->V + (size_t)count * (size_t)k->n;  // the last vector is needed no more

  // Back substitution in the triangle.
  for (int j = count - 1; j >= 0; j--) {
    for (int i = j + 1; i < count; i++) w->g[j] -= w->H[i * (k->restart + 1) + j] * w->g[i];
    w->g[j] /= w->H[j * (k->restart + 1) + j];
  }

  memset(sum, 0, sizeof *sum * (size_t)k->n);
  for (int j = 0; j < count; j++) axpy(sum, w->g[j], w->V + (size_t)j * (size_t)k->n, k->n);
  precondition(k, sum, w->z);
  axpy(x, 1, w->z, k->n);
}

// From the residual in V's first vector; false where the matrix maps the space into itself without solving: it is singular.
static bool gmres_cycle(const pbKrylov *k, double residual, double wanted, double *x, const GmresWork *w, int *iterations) {
  int j = 0;
  bool regular = true;
  for (int i = 0; i < k->n; i++) w->V[i] /= residual;
  w->g[0] = residual;

  while (j < k->restart && *iterations < k->iterations && fabs(w->g[j]) > wanted) {
    double *h = w->H + (size_t)j * (size_t)(k->restart + 1), *v = w->V + (size_t)(j + 1) * (size_t)k->n;

    // Arnoldi: the next vector of the Krylov space, at right angles to the others.
    precondition(k, w->V + (size_t)j * (size_t)k->n, w->z);
    k->matrix.apply(k->matrix.user, k->transposed, w->z, v);
    double size = norm(v, k->n);
    h[j + 1] = orthogonalize(w->V, j + 1, k->n, v, h);
    double left = h[j + 1];

    rotate_column(w, h, j);
    ++*iterations;

    // Breakdown without a solution: the column is in the span of the others.
    if (!(h[j] > 0)) {
      regular = false;
      break;
    }

    j++;

    // Nothing new: the solution is in the space.
    if (!(left > 1e-15 * size)) break;
    for (int i = 0; i < k->n; i++) v[i] /= left;
  }

  add_solution(k, w, j, x);
  return regular;
}

pbStatus pbGmres_Solve(pbContext *ctx, const pbKrylov *k, const double *b, double *x, void *work, pbKrylovReport *report) {
  pbArena arena = pbArena_Over(work, pbGmres_WorkSize(k->n, k->restart));
  GmresWork w = gmres_work(&arena, k->n, k->restart);
  double size = norm(b, k->n), residual = find_residual(k, b, x, w.V);
  *report = (pbKrylovReport){0};
  PB_ASSERT(!arena.failed && x != b && k->restart >= 1);

  while (residual > k->tolerance * size && report->iterations < k->iterations) {
    bool regular = gmres_cycle(k, residual, k->tolerance * size, x, &w, &report->iterations);
    residual = find_residual(k, b, x, w.V);
    if (!regular || !isfinite(residual)) break;
  }
  return report_end(ctx, k, "GMRES", pb_ok, size, residual, report);
}
