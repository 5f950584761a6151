// A block that lands on the floor and slides, as a linear complementarity problem: docs/lcp.md.
#include <pullback/lcp.h>
#include <stdio.h>
#include <stdlib.h>

// After the step the block has the velocity x = (along the floor, upwards). Rows: the normal, friction to either side, and
// the slip speed, which is positive only where friction is all that mu allows.
static const double mass = 2, mu = .5, before[2] = {3, -1}, timestep = .01, gravity = 9.81;

static pbStatus solve_block(pbContext *ctx, void *work, size_t work_size) {
  const double Q[4] = {mass, 0, 0, mass};
  const double p[2] = {-mass * before[0], -mass * (before[1] - timestep * gravity)};
  const double G[8] = {0, -1, -1, 0, 1, 0, 0, 0};  // minus the Jacobian of the rows
  const double h[4] = {0, 0, 0, 0};                // no bounce
  const double F[16] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, mu, -1, -1, 0};
  const pbLcp problem = {.n = 2, .m = 4, .Q = Q, .p = p, .G = G, .h = h, .F = F};

  double x[2], z[4], s[4];
  const pbLcpSolution solution = {.x = x, .z = z, .s = s};
  pbLcpReport report;
  PB_TRY(pbLcp_Solve(ctx, &problem, NULL, work, work_size, &solution, &report));
  printf("speed %.4f, impulse %.4f, friction %.4f, by %s\n", x[0], z[0], z[1] + z[2], pbLcpMethod_Name(report.method));

  // The derivative of the speed along the floor by everything that was given.
  const double of_speed[2] = {1, 0};
  double p_bar[2] = {0}, F_bar[16] = {0};
  const pbLcpBar bar = {.p = p_bar, .F = F_bar};
  pbLcpAdjointReport adjoint;
  PB_TRY(pbLcp_Vjp(ctx, &problem, &solution, &(pbLcpCotangent){.x = of_speed}, work, work_size, &bar, &adjoint));
  printf("derivative by mu %.4f, by p %.4f %.4f; %d rows at a kink\n", F_bar[12], p_bar[0], p_bar[1], adjoint.degenerate);
  return pb_ok;
}

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  size_t work_size = pbLcp_WorkSize(2, 4, 0);
  void *work = malloc(work_size);
  pbStatus status = ctx && work ? solve_block(ctx, work, work_size) : pb_no_memory;
  if (status != pb_ok) fprintf(stderr, "%s: %s\n", pbStatus_Text(status), pbContext_Error(ctx));
  free(work);
  pbContext_Destroy(ctx);
  return status == pb_ok ? 0 : 1;
}
