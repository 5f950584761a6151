// What the pullback of integrators differentiates by complex step: included once for each number type (number/complex_begin.h).

// Single rotations: gyroscopic derivative of a standalone free body's bias along rates a, in its six dofs (first three:
// force, world axes; last three: torque, body axes), from its rotation and angular rate w (body axes). inertia: principal
// moments, then the products of a design.
void NUM(pbFree_BiasDerivative)(const num R[9], const num rate[3], const num a[3], num mass, const num ipos[3],
                                const num iquat[4], const num inertia[6], num out[6]);
