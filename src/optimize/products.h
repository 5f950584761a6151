// Products of a task's Hessian and a vector, exactly, for Newton's method.
#ifndef PB_PRODUCTS_H
#define PB_PRODUCTS_H

#include "optimize/task.h"

typedef struct pbTaskProducts pbTaskProducts;

// Whether newton-cg takes the task: gradients of a function, and exact products where the task insists on them.
PB_NODISCARD pbStatus pbTask_CheckNewton(const pbTask *task);
// For the result: why products were differences, NULL where none was, `differences` in this run, others in stages before it;
// exact: the run had products of the task.
const char *pbTask_WhyInexact(pbTask *task, bool exact, int64_t differences);

// Why a task has none, in words that go on "second derivatives: "; text: room for it. NULL: it has, but for what steps meet.
const char *pbTask_WhyNoProducts(const pbTask *task, char *text, size_t size);
PB_NODISCARD pbStatus pbTaskProducts_Create(pbTask *task, pbTaskProducts **products);
void pbTaskProducts_Destroy(pbTask *task, pbTaskProducts *products);  // NULL is fine
// A problem of the task has products from here on, if the task may have any; *products: NULL, or destroyed after its search.
PB_NODISCARD pbStatus pbTaskProducts_Serve(pbTask *task, pbProblem *problem, pbTaskProducts **products);
// After a pbTask_Loss at z with this gradient (n): products at z begin there, and not with a run of their own.
void pbTaskProducts_Keep(pbTaskProducts *products, const double *z, const double *gradient);
// Hv (n) = (second derivatives of the loss at z) v. Not counted as a simulation. Trajectories on the task's threads, with the
// same bits for any number of them. pb_bad_input, with the step: it has none. Takes memory where contacts are more than before.
PB_NODISCARD pbStatus pbTaskProducts_Make(pbTaskProducts *products, const double *z, const double *v, double *Hv);

#endif
