// Pullback: energies written as formulas, and their derivatives.
//
// An energy is a formula over one element: `points` vertices, each a 3-vector. Names in it:
//   x0, x1, ...   current positions            X0, X1, ...   rest positions
//   y0, y1, ...   positions at the start of the step          h, t   time step, time          pi
// ((x0 - y0)/h is the velocity: of schemes of second order y and h are what makes it so, docs/deformables.md)
// and the declared parameters: scalars, vectors, matrices of up to 3 x 3. Statements are separated by `;` or ends of lines,
// the last one is the energy:
//   d = norm(x0 - x1); 0.5*k*(d - norm(X0 - X1))^2
// docs/energies.md has the language. Instead of text, C code may build the same thing as a graph (pbGraph).
//
// Gradient, Hessian and the pullback of w . gradient are derived symbolically once, when the energy is created, and
// executed for many elements side by side. Nothing is allocated after creation.
//
// Derivatives at kinks: |x| has slope 0 at 0, min and max take the first argument's slope at a tie, comparisons and sign have
// slope 0, select(c, a, b) has the derivative of the side it takes. norm and sqrt have no derivative at 0: there a gradient
// is a fault, a value is not.
#ifndef PULLBACK_ENERGY_H
#define PULLBACK_ENERGY_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PB_ENERGY_POINTS = 32, PB_ENERGY_PARAMETERS = 64 };  // most points of an element, most parameters

#define PB_MORE_THAN_ZERO 2.2250738585072014e-308  // the least positive number of full precision

typedef struct pbEnergyParameter {
  const char *name, *unit;  // unit: text for reports, may be NULL
  int rows, cols;           // 1 x 1 scalar, n x 1 vector, up to 3 x 3 (row-major in memory)
  double lower, upper;      // what is meaningful; both 0: anything; lower PB_MORE_THAN_ZERO: positive numbers. Not enforced here
  bool constant;            // data: no derivative is taken by it
} pbEnergyParameter;

typedef struct pbEnergyDef {
  const char *name, *formula;
  int points, parameter_count;
  const pbEnergyParameter *parameters;
} pbEnergyDef;

// ---- graphs ---------------------------------------------------------------------------------------------------------
// Functions and operators: X(enumerator, name in formulas, fewest arguments, most)
// clang-format off
#define PB_FUNCTION_TABLE(X)                                                                                        \
  X(pb_fnAdd, "+", 2, 2) X(pb_fnSub, "-", 2, 2) X(pb_fnMul, "*", 2, 2) X(pb_fnDiv, "/", 2, 2) X(pb_fnPower, "^", 2, 2) \
  X(pb_fnNegate, "-", 1, 1) X(pb_fnLess, "<", 2, 2) X(pb_fnLessEqual, "<=", 2, 2) X(pb_fnGreater, ">", 2, 2)         \
  X(pb_fnGreaterEqual, ">=", 2, 2) X(pb_fnSelect, "select", 3, 3) X(pb_fnMin, "min", 2, 8) X(pb_fnMax, "max", 2, 8)  \
  X(pb_fnAbs, "abs", 1, 1) X(pb_fnSign, "sign", 1, 1) X(pb_fnSqrt, "sqrt", 1, 1) X(pb_fnLog, "log", 1, 1)            \
  X(pb_fnExp, "exp", 1, 1) X(pb_fnSin, "sin", 1, 1) X(pb_fnCos, "cos", 1, 1) X(pb_fnTan, "tan", 1, 1)                \
  X(pb_fnAsin, "asin", 1, 1) X(pb_fnAcos, "acos", 1, 1) X(pb_fnAtan, "atan", 1, 1) X(pb_fnAtan2, "atan2", 2, 2)      \
  X(pb_fnPow, "pow", 2, 2) X(pb_fnNorm, "norm", 1, 1) X(pb_fnNormalize, "normalize", 1, 1) X(pb_fnDot, "dot", 2, 2)  \
  X(pb_fnCross, "cross", 2, 2) X(pb_fnOuter, "outer", 2, 2) X(pb_fnDet, "det", 1, 1) X(pb_fnTrace, "trace", 1, 1)    \
  X(pb_fnTranspose, "transpose", 1, 1) X(pb_fnInverse, "inverse", 1, 1) X(pb_fnStretch, "stretches", 1, 1)           \
  X(pb_fnFreeze, "freeze", 1, 1) X(pb_fnExpm1, "expm1", 1, 1) X(pb_fnLog1p, "log1p", 1, 1)                           \
  X(pb_fnSinh, "sinh", 1, 1) X(pb_fnCosh, "cosh", 1, 1) X(pb_fnTanh, "tanh", 1, 1) X(pb_fnAsinh, "asinh", 1, 1)      \
  X(pb_fnAcosh, "acosh", 1, 1) X(pb_fnAtanh, "atanh", 1, 1) X(pb_fnErf, "erf", 1, 1) X(pb_fnErfc, "erfc", 1, 1)      \
  X(pb_fnExp2, "exp2", 1, 1) X(pb_fnLog2, "log2", 1, 1) X(pb_fnLog10, "log10", 1, 1) X(pb_fnCbrt, "cbrt", 1, 1)      \
  X(pb_fnHypot, "hypot", 2, 2)
// clang-format on
typedef enum pbFunction {
#define X(id, name, least, most) id,
  PB_FUNCTION_TABLE(X)
#undef X
      pb_fnCount
} pbFunction;

typedef struct pbGraph pbGraph;
typedef struct pbValue {  // row-major scalars of a graph; rows 0: what failed
  int rows, cols, node[9];
} pbValue;

// Points and parameters are declared as in pbEnergyDef; formula and name are not looked at.
PB_API PB_NODISCARD pbStatus pbGraph_Create(pbContext *ctx, const pbEnergyDef *def, pbGraph **graph);
PB_API void pbGraph_Destroy(pbGraph *graph);  // NULL is fine
// What can go wrong (shapes, indices, memory) is kept in the graph, the first only, and said by pbEnergy_FromGraph.
PB_API pbValue pbGraph_Position(pbGraph *graph, int point);  // x
PB_API pbValue pbGraph_Rest(pbGraph *graph, int point);      // X
PB_API pbValue pbGraph_Previous(pbGraph *graph, int point);  // y
PB_API pbValue pbGraph_Timestep(pbGraph *graph);
PB_API pbValue pbGraph_Time(pbGraph *graph);
PB_API pbValue pbGraph_Parameter(pbGraph *graph, int index);
PB_API pbValue pbGraph_Number(pbGraph *graph, double value);
PB_API pbValue pbGraph_Identity(pbGraph *graph, int n);
// Up to 3 scalars make a vector, up to 3 vectors of one length make a matrix with these columns.
PB_API pbValue pbGraph_Columns(pbGraph *graph, int count, const pbValue *columns);
PB_API pbValue pbGraph_At(pbGraph *graph, pbValue value, int row, int col);  // from 0
PB_API pbValue pbGraph_Apply(pbGraph *graph, pbFunction function, int count, const pbValue *arguments);

static inline pbValue pbGraph_Unary(pbGraph *graph, pbFunction f, pbValue a) { return pbGraph_Apply(graph, f, 1, &a); }
static inline pbValue pbGraph_Binary(pbGraph *graph, pbFunction f, pbValue a, pbValue b) {
  pbValue arguments[2];
  arguments[0] = a, arguments[1] = b;
  return pbGraph_Apply(graph, f, 2, arguments);
}

// ---- energies -------------------------------------------------------------------------------------------------------
typedef struct pbEnergy pbEnergy;  // const after creation, shared by threads

// A bad formula is pb_bad_input; the text has line, column, reason and the line with a caret below the place.
PB_API PB_NODISCARD pbStatus pbEnergy_Create(pbContext *ctx, const pbEnergyDef *def, pbEnergy **energy);
// From a scalar value of a graph, which may be destroyed or used on afterwards. `def` as the graph was made with.
PB_API PB_NODISCARD pbStatus pbEnergy_FromGraph(pbContext *ctx, pbGraph *graph, pbValue value, const pbEnergyDef *def,
                                                pbEnergy **energy);
PB_API void pbEnergy_Destroy(pbEnergy *energy);                         // NULL is fine
PB_API const pbEnergyDef *pbEnergy_Definition(const pbEnergy *energy);  // a copy, lives as long as the energy
PB_API bool pbEnergy_Symmetric(const pbEnergy *energy);                 // false where freeze() leaves a force without potential

typedef enum pbEnergyInput { pb_inputPosition, pb_inputRest, pb_inputPrevious, pb_inputTimestep, pb_inputTime } pbEnergyInput;
PB_API bool pbEnergy_Uses(const pbEnergy *energy, pbEnergyInput input);

typedef struct pbElements {
  int count;
  const int *vertex;                  // count x points
  const double *x, *rest, *previous;  // vertices x 3; NULL where the formula does not use it
  const double *const *parameter;     // one address each; NULL without parameters
  const int *stride;                  // doubles from one element to the next, each; 0: one value for all. NULL: all 0
  double timestep, time;
  const int *row;  // vertex NULL: point k of element e is row[k] + e, as in a row of a grid
} pbElements;

typedef struct pbElementsOut {  // NULL: not wanted. Written over
  double *value;                // count
  double *gradient;             // count x 3 points
  double *hessian;              // count x 3 points x 3 points, d gradient_i / d x_j at row i, column j; full
} pbElementsOut;

typedef struct pbElementsBar {  // NULL: not wanted. Added into
  double *x, *rest, *previous;  // vertices x 3
  double *const *parameter;     // addresses, each may be NULL; the stride is that of the input
  double *timestep, *time;
} pbElementsBar;

enum { PB_ENERGY_FAULT_TEXT = 120 };
typedef struct pbEnergyFault {
  int element;                      // the first that left the domain of the formula; -1: none
  int line, column;                 // place in the formula, from 1; 0 for graphs and inputs
  char what[PB_ENERGY_FAULT_TEXT];  // "log of -0.1", "'norm' has no derivative here (at 0)", "x1.y is NaN"
} pbEnergyFault;

PB_API size_t pbEnergy_WorkSize(const pbEnergy *energy);  // bytes for one call at a time; no alignment is asked for

// False: an element left the formula's domain or an input of it is not finite; `fault` (may be NULL) names the first.
// The value of such elements is +infinity, their gradients and Hessians are 0; all others are complete.
PB_API bool pbEnergy_Evaluate(const pbEnergy *energy, const pbElements *elements, const pbElementsOut *out, void *work,
                              pbEnergyFault *fault);
// Derivatives of phi = sum over elements of w . gradient, w of the shape of x; .x gets H'w. False as above: such elements
// add nothing. Outputs that are not wanted are ignored: the slope of log(x) is finite at a negative x, where the value is not.
PB_API bool pbEnergy_Pullback(const pbEnergy *energy, const pbElements *elements, const double *w, const pbElementsBar *bar,
                              void *work, pbEnergyFault *fault);

// ---- regular grids ------------------------------------------------------------------------------------------------------
// One element for every place that a stencil has on a grid of size[0] x size[1] x size[2] points, point (i, j, k) being number
// first + i + size[0] (j + size[1] k). Nothing is stored of which element has which points: rows of the grid are read and added
// into shifted against each other, as a convolution does. Element (i, j, k) is number i + n0 (j + n1 k) for parameters and faults,
// n0 and n1 the places along each axis.
typedef struct pbGridStencil {
  int size[3];             // 1: no such axis
  int first;               // point of the corner
  const int (*offset)[3];  // of each point of an element from its place, >= 0
} pbGridStencil;
PB_API int pbGridStencil_Count(const pbGridStencil *stencil, int points);  // elements; 0 where the stencil does not fit
// Adds the sum of the values to *value and the gradients to `gradient` (vertices x 3); NULL: not wanted. `elements` as elsewhere, but
// for count, vertex and row. False as above: *value is infinite, elements with a fault add nothing to the gradient.
PB_API bool pbEnergy_EvaluateStencil(const pbEnergy *energy, const pbGridStencil *stencil, const pbElements *elements,
                                     double *value, double *gradient, void *work, pbEnergyFault *fault);
// pbEnergy_Pullback of all its elements.
PB_API bool pbEnergy_PullbackStencil(const pbEnergy *energy, const pbGridStencil *stencil, const pbElements *elements,
                                     const double *w, const pbElementsBar *bar, void *work, pbEnergyFault *fault);

// The same programs as C text: functions NAME_value, NAME_gradient, NAME_hessian with the arguments that the text explains.
// Logarithm, sine and their kind are the C library's there: last bits may be others than those of the programs.
// Allocated with the context of the energy (pbContext_Free); NULL when out of memory.
PB_API char *pbEnergy_EmitC(const pbEnergy *energy, const char *name);

#ifdef __cplusplus
}
#endif
#endif
