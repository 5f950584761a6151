// What the files of built-in energies share: their list, short ways to write parameters, and the kinematics of cells.
//
// A formula of finite elements is put together from text: KINEMATICS gives, at quadrature point q ("1", "2", ...), the matrix Dq
// of the rest edges and the deformation gradient Fq, LAW the energy density Wq of Fq, the cell the weights. PB_TEXT makes
// text of what stands in it, with q filled in: PB_TEXT(J##q = det(F##q);) is "J1 = det(F1);" where q is 1.
#ifndef PB_ENERGY_BUILTIN_H
#define PB_ENERGY_BUILTIN_H

#include <math.h>

#include <pullback/materials.h>

typedef struct pbMaterialFile {
  int count;
  const pbMaterial *material;
} pbMaterialFile;

// clang-format off
#define PB_MATERIAL_FILES(X)                                                                                               \
  X(spring) X(spring_length) X(spring_stvk) X(spring_string) X(spring_zero) X(spring_muscle) X(spring_softened)            \
  X(spring_damper) X(gravity) X(inertia) X(pin) X(load) X(traction) X(pressure) X(ground) X(ground_friction) X(drag)       \
  X(linear) X(corotated) X(stvk) X(neo_hookean) X(neo_hookean_log) X(neo_hookean_quadratic) X(mooney_rivlin) X(muscle)     \
  X(rayleigh) X(viscous) X(mass_drag) X(membrane_stvk) X(membrane_neo_hookean) X(membrane_orthotropic) X(membrane_rayleigh) \
  X(bending_quadratic) X(bending_angle) X(rod_stretch) X(rod_bend) X(rod_bend_planar) X(mass)
// clang-format on
#define X(file) extern const pbMaterialFile pb_file_##file;
PB_MATERIAL_FILES(X)
#undef X
#define PB_MATERIAL_FILE(file, materials) \
  const pbMaterialFile pb_file_##file = {(int)(sizeof(materials) / sizeof *(materials)), materials}

#define PB_SCALAR(name, unit, ...) /* bounds */ \
  { name, unit, 1, 1, __VA_ARGS__, false }
#define PB_VECTOR(name, unit) \
  { name, unit, 3, 1, 0, 0, false }
#define PB_DEF(name, formula, points, parameters) \
  { name, formula, points, (int)(sizeof(parameters) / sizeof *(parameters)), parameters }

#define PB_POSITIVE 0, INFINITY  // bounds
#define PB_MORE     PB_MORE_THAN_ZERO, INFINITY
#define PB_ANY      0, 0

#define PB_TEXT(...) #__VA_ARGS__

// clang-format off
// ---- solids -----------------------------------------------------------------------------------------------------------
// At point q from the edges of the element at rest, now and at the start of the step.
#define PB_ELASTIC(q, X, x, y) PB_TEXT(D##q =) X PB_TEXT(; F##q =) x PB_TEXT(*inverse(D##q);)
#define PB_RATE(q, X, x, y)    PB_ELASTIC(q, X, x, y) PB_TEXT(G##q =) y PB_TEXT(*inverse(D##q);)  // G: F at the start of the step

#define PB_EDGES_4(x) PB_TEXT([x##1 - x##0, x##2 - x##0, x##3 - x##0])
// d x / d (barycentric coordinates 1, 2, 3) where they are a, b, c, and o that of point 0
#define PB_EDGES_10(x, o, a, b, c) PB_TEXT(                                                                   \
  [(4*a - 1)*x##1 - (4*o - 1)*x##0 + 4*(o - a)*x##4 + 4*b*(x##5 - x##6) + 4*c*(x##8 - x##7),                  \
   (4*b - 1)*x##2 - (4*o - 1)*x##0 + 4*(o - b)*x##6 + 4*a*(x##5 - x##4) + 4*c*(x##9 - x##7),                  \
   (4*c - 1)*x##3 - (4*o - 1)*x##0 + 4*(o - c)*x##7 + 4*a*(x##8 - x##4) + 4*b*(x##9 - x##6)])
#define PB_POINT_10(q, o, a, b, c, KINEMATICS, LAW)                                                           \
  KINEMATICS(q, PB_EDGES_10(X, o, a, b, c), PB_EDGES_10(x, o, a, b, c), PB_EDGES_10(y, o, a, b, c)) LAW(q)

#define PB_TETRAHEDRON(KINEMATICS, LAW)                                                                       \
  KINEMATICS(1, PB_EDGES_4(X), PB_EDGES_4(x), PB_EDGES_4(y)) LAW(1) "abs(det(D1))/6*W1"
// Four points, exact for integrands of degree 2 (Hammer and Stroud 1956)
#define PB_TETRAHEDRON_10(KINEMATICS, LAW)                                                                    \
  "near = 0.58541019662496845446; far = 0.13819660112501051518;"                                              \
  PB_POINT_10(1, near, far, far, far, KINEMATICS, LAW) PB_POINT_10(2, far, near, far, far, KINEMATICS, LAW)   \
  PB_POINT_10(3, far, far, near, far, KINEMATICS, LAW) PB_POINT_10(4, far, far, far, near, KINEMATICS, LAW)   \
  "(abs(det(D1))*W1 + abs(det(D2))*W2 + abs(det(D3))*W3 + abs(det(D4))*W4)/24"

// ---- plane strain: the third direction stays as it is -----------------------------------------------------------------
#define PB_FLAT(u, v)      "[[(" u ").x, (" u ").y, 0], [(" v ").x, (" v ").y, 0], [0, 0, 1]]"
#define PB_U_3(x)          PB_TEXT(x##1 - x##0)
#define PB_V_3(x)          PB_TEXT(x##2 - x##0)
#define PB_U_6(x, o, a, b) PB_TEXT((4*a - 1)*x##1 - (4*o - 1)*x##0 + 4*(o - a)*x##3 + 4*b*(x##4 - x##5))
#define PB_V_6(x, o, a, b) PB_TEXT((4*b - 1)*x##2 - (4*o - 1)*x##0 + 4*(o - b)*x##5 + 4*a*(x##4 - x##3))
#define PB_FLAT_3(x)          PB_FLAT(PB_U_3(x), PB_V_3(x))
#define PB_FLAT_6(x, o, a, b) PB_FLAT(PB_U_6(x, o, a, b), PB_V_6(x, o, a, b))
#define PB_POINT_6(q, o, a, b, KINEMATICS, LAW)                                                               \
  KINEMATICS(q, PB_FLAT_6(X, o, a, b), PB_FLAT_6(x, o, a, b), PB_FLAT_6(y, o, a, b)) LAW(q)

#define PB_TRIANGLE(KINEMATICS, LAW)                                                                          \
  KINEMATICS(1, PB_FLAT_3(X), PB_FLAT_3(x), PB_FLAT_3(y)) LAW(1) "abs(det(D1))/2*thickness*W1"
// Three points, exact for integrands of degree 2
#define PB_TRIANGLE_6(KINEMATICS, LAW)                                                                        \
  "near = 2/3; far = 1/6;" PB_POINT_6(1, near, far, far, KINEMATICS, LAW)                                     \
  PB_POINT_6(2, far, near, far, KINEMATICS, LAW) PB_POINT_6(3, far, far, near, KINEMATICS, LAW)               \
  "thickness*(abs(det(D1))*W1 + abs(det(D2))*W2 + abs(det(D3))*W3)/6"

// ---- sheets in space --------------------------------------------------------------------------------------------------
// Metrics of the surface at point q: Aq at rest, Mq = A^-1 (metric now), whose trace and determinant are those of F'F, Nq the
// same at the start of the step; sqrt(det A) is twice the area.
#define PB_METRIC(u, v) PB_TEXT([[dot(u, u), dot(u, v)], [dot(u, v), dot(v, v)]])
#define PB_SHEET(q, Xu, Xv, xu, xv, yu, yv)                                                                   \
  PB_TEXT(U##q =) Xu PB_TEXT(; V##q =) Xv PB_TEXT(; u##q =) xu PB_TEXT(; v##q =) xv PB_TEXT(; A##q =) PB_METRIC(U##q, V##q) \
  PB_TEXT(; M##q = inverse(A##q)*) PB_METRIC(u##q, v##q) ";"
#define PB_SHEET_RATE(q, Xu, Xv, xu, xv, yu, yv)                                                              \
  PB_SHEET(q, Xu, Xv, xu, xv, yu, yv)                                                                             \
  PB_TEXT(m##q =) yu PB_TEXT(; n##q =) yv PB_TEXT(; N##q = inverse(A##q)*) PB_METRIC(m##q, n##q) ";"
#define PB_SHEET_POINT(q, o, a, b, KINEMATICS, LAW)                                                           \
  KINEMATICS(q, PB_U_6(X, o, a, b), PB_V_6(X, o, a, b), PB_U_6(x, o, a, b), PB_V_6(x, o, a, b),               \
             PB_U_6(y, o, a, b), PB_V_6(y, o, a, b)) LAW(q)
#define PB_SHEET_3(KINEMATICS, LAW)                                                                           \
  KINEMATICS(1, PB_U_3(X), PB_V_3(X), PB_U_3(x), PB_V_3(x), PB_U_3(y), PB_V_3(y)) LAW(1)                      \
  "sqrt(det(A1))/2*thickness*W1"
#define PB_SHEET_6(KINEMATICS, LAW)                                                                           \
  "near = 2/3; far = 1/6;" PB_SHEET_POINT(1, near, far, far, KINEMATICS, LAW)                                 \
  PB_SHEET_POINT(2, far, near, far, KINEMATICS, LAW) PB_SHEET_POINT(3, far, far, near, KINEMATICS, LAW)       \
  "thickness*(sqrt(det(A1))*W1 + sqrt(det(A2))*W2 + sqrt(det(A3))*W3)/6"
// clang-format on

// ---- laws -------------------------------------------------------------------------------------------------------------
#define PB_YOUNG PB_SCALAR("young", "Pa", PB_MORE)  // a solid of modulus 0 holds nothing
// Moduli grow beyond bounds towards both ends: they are no values. In plane stress 1/2 is one.
#define PB_POISSON       PB_SCALAR("poisson", "1", -1 + 1e-9, 0.5 - 1e-9)
#define PB_POISSON_SHEET PB_SCALAR("poisson", "1", -1 + 1e-9, 0.5)
#define PB_LAME          "mu = young/(2*(1 + poisson)); lambda = young*poisson/((1 + poisson)*(1 - 2*poisson));"

// A family on tetrahedra and, in plane strain, on triangles. `parameters` and `numbers` end with the thickness, for triangles
// alone.
#define PB_MEMBER(law, kind, the_cell, bits, text, points, parameters, less, numbers, data)                     \
  {                                                                                                             \
    .name = law "_" kind, .family = law, .cell = the_cell, .traits = bits,                                      \
    .def = {law "_" kind, text, points, (int)(sizeof(parameters) / sizeof *(parameters)) - (less), parameters}, \
    .start = numbers, .mass = "mass_" kind, .sheet = data                                                       \
  }
#define PB_SOLIDS(law, bits, before, KINEMATICS, SOLID, PLANE, parameters, numbers, data)                                      \
  PB_MEMBER(law, "tetrahedron", pb_cellTetrahedron, bits, before PB_TETRAHEDRON(KINEMATICS, SOLID), 4, parameters, 1, numbers, \
            data),                                                                                                             \
      PB_MEMBER(law, "tetrahedron10", pb_cellTetrahedron10, bits, before PB_TETRAHEDRON_10(KINEMATICS, SOLID), 10, parameters, \
                1, numbers, data),                                                                                             \
      PB_MEMBER(law, "triangle", pb_cellTriangle, (bits) | pb_materialPlanar, before PB_TRIANGLE(KINEMATICS, PLANE), 3,        \
                parameters, 0, numbers, data),                                                                                 \
      PB_MEMBER(law, "triangle6", pb_cellTriangle6, (bits) | pb_materialPlanar, before PB_TRIANGLE_6(KINEMATICS, PLANE), 6,    \
                parameters, 0, numbers, data)
#define PB_SHEETS(law, bits, before, KINEMATICS, LAW, parameters, numbers, data)                                          \
  PB_MEMBER(law, "triangle", pb_cellTriangle, bits, before PB_SHEET_3(KINEMATICS, LAW), 3, parameters, 0, numbers, data), \
      PB_MEMBER(law, "triangle6", pb_cellTriangle6, bits, before PB_SHEET_6(KINEMATICS, LAW), 6, parameters, 0, numbers, data)

enum { pb_elastic = pb_materialInternal | pb_materialStressFree };

#endif
