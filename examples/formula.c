// An energy of one's own: a hinge between two triangles that is stiffer one way than the other. Its forces on four points, and how the
// forces' pairing with a direction w depends on the stiffness and on the rest shape.
#include <stdio.h>
#include <stdlib.h>

#include <pullback/pullback.h>

static const pbEnergyParameter parameters[] = {
    {.name = "k", .unit = "N m", .rows = 1, .cols = 1},
    {.name = "harder", .unit = "", .rows = 1, .cols = 1},
};
static const pbEnergyDef hinge = {
    .name = "hinge",
    .formula =
        "n = cross(x1 - x0, x2 - x0); m = cross(x3 - x1, x2 - x1)\n"
        "angle = atan2(dot(cross(n, m), normalize(x2 - x1)), dot(n, m))\n"
        "0.5*k*select(angle > 0, harder, 1)*angle^2 * norm(X2 - X1)",
    .points = 4,
    .parameter_count = 2,
    .parameters = parameters,
};

int main(void) {
  pbContext *ctx = pbContext_Create(NULL);
  pbEnergy *energy = NULL;
  if (pbEnergy_Create(ctx, &hinge, &energy)) return fprintf(stderr, "%s\n", pbContext_Error(ctx)), 1;
  void *work = malloc(pbEnergy_WorkSize(energy));

  double X[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0}, x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0.3}, k = 2, harder = 5;
  const double *values[] = {&k, &harder};
  pbElements one = {.count = 1, .vertex = (int[]){0, 1, 2, 3}, .x = x, .rest = X, .parameter = values};
  double value, gradient[12], w[12] = {[11] = 1}, k_bar = 0, X_bar[12] = {0};
  pbEnergyFault fault;
  if (!pbEnergy_Evaluate(energy, &one, &(pbElementsOut){.value = &value, .gradient = gradient}, work, &fault) ||
      !pbEnergy_Pullback(energy, &one, w, &(pbElementsBar){.rest = X_bar, .parameter = (double *[]){&k_bar, NULL}}, work, &fault))
    return fprintf(stderr, "element %d, column %d: %s\n", fault.element, fault.column, fault.what), 1;

  printf("energy %.6f J, force on point 3 upwards %.6f N\n", value, -gradient[11]);
  printf("the force changes by %.6f N per N m of k, and by %.6f N per m that point 2 lies further along y at rest\n", -k_bar,
         -X_bar[7]);
  free(work);
  pbEnergy_Destroy(energy);
  pbContext_Destroy(ctx);
  return 0;
}
