// Pullback: built-in energies, and the masses that go with them.
//
// Each is a formula of the language of energies (pullback/energy.h) with parameters, units and a data sheet, and lives on one kind
// of element: cells of meshes, hinges (pbCells_Hinges: a, b of the edge, c, d opposite) or bends (three points in a row of a rod).
// The same law on several kinds is a family: "neo_hookean" is there as "neo_hookean_tetrahedron", "neo_hookean_triangle", ...
// A user's own energy is no different from these: copy a formula and change it.
#ifndef PULLBACK_MATERIALS_H
#define PULLBACK_MATERIALS_H

#include <pullback/energy.h>
#include <pullback/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { pb_cellHinge = pb_cellKindCount, pb_cellBend, pb_materialCellCount };  // after the kinds of pbCellKind
PB_API const char *pbMaterial_CellName(int cell);                             // "tetrahedron", "hinge", ...; NULL: no such kind

typedef enum pbMaterialTrait {  // bits
  pb_materialInternal = 1,      // moving and turning the element leaves the energy alone: no net force, no net torque
  pb_materialStressFree = 2,    // no force at the rest positions with the parameters' start values
  pb_materialDissipative = 4,   // D(x; y, h): its force is h-independent only through the rate (x - y) / h
  pb_materialPlanar = 8,        // looks at x and y alone
  pb_materialMass = 16,         // no energy: the mass of an element [kg], of rest positions and parameters
} pbMaterialTrait;

typedef struct pbMaterial {
  const char *name, *family;
  int cell;             // pbCellKind, pb_cellHinge or pb_cellBend
  unsigned traits;      // pbMaterialTrait
  pbEnergyDef def;      // of the same name
  const double *start;  // numbers of the parameters, one after the other: a start, not advice
  const char *mass;     // name of the mass formula for these elements; NULL: none
  const char *sheet;    // formula, source, when to use it, what inverted and degenerate elements do
} pbMaterial;

PB_API const pbMaterial *pbMaterial_At(int index);           // NULL beyond the last
PB_API const pbMaterial *pbMaterial_Find(const char *name);  // by full name; NULL where there is none
// By full name, or by family and kind of element (cell -1: any that the name tells). pb_bad_input says what there is instead;
// pb_unsupported: laws that are refused (plasticity), with the reason. *material is untouched on failure.
PB_API PB_NODISCARD pbStatus pbMaterial_Get(pbContext *ctx, const char *name, int cell, const pbMaterial **material);
// Start values of parameter `index` within `start`.
PB_API const double *pbMaterial_Start(const pbMaterial *material, int index);

#ifdef __cplusplus
}
#endif
#endif
