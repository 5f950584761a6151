// Energies over regular grids: a stencil at every place, row by row. Rows are what the kernel reads and writes in order; which
// points an element has is arithmetic.
// Tests: tests/unit/test_stencil.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "energy/energy_inside.h"

typedef struct Sweep {  // over all elements, in pieces of rows of at most PB_BLOCK elements
  const pbEnergy *energy;
  const pbGridStencil *stencil;
  int places[3], row[PB_ENERGY_POINTS];
  pbElements in;
  const double *parameter[PB_ENERGY_PARAMETERS];
} Sweep;

// Places that the stencil has along each axis: as many as leave all its points on the grid.
static void count_places(const pbGridStencil *s, int points, int places[3]) {
  for (int axis = 0; axis < 3; axis++) {
    places[axis] = s->size[axis];
    for (int k = 0; k < points; k++) {
      // A point that far along the axis leaves so many places.
      int fits = s->size[axis] - s->offset[k][axis];
      if (fits < places[axis]) places[axis] = fits > 0 ? fits : 0;
    }
  }
}

int pbGridStencil_Count(const pbGridStencil *s, int points) {
  int places[3];

  count_places(s, points, places);
  return places[0] * places[1] * places[2];
}

static Sweep start_sweep(const pbEnergy *energy, const pbGridStencil *stencil, const pbElements *elements) {
  Sweep w = {.energy = energy, .stencil = stencil, .in = *elements};
  count_places(stencil, energy->def.points, w.places);
  w.in.vertex = NULL;

  return w;
}

// The next piece, beginning with element `first`: within one row.
static void begin_piece(Sweep *w, int first, const pbElements *elements) {
  const int *n = w->places, *size = w->stencil->size;
  PB_ASSERT(first < n[0] * n[1] * n[2]);
  int i = first % n[0], j = first / n[0] % n[1], k = first / (n[0] * n[1]);

  // Where the row of each point begins.
  for (int p = 0; p < w->energy->def.points; p++) {
    const int *o = w->stencil->offset[p];
    PB_ASSERT(o[0] >= 0 && o[1] >= 0 && o[2] >= 0);
    w->row[p] = w->stencil->first + i + o[0] + size[0] * (j + o[1] + size[1] * (k + o[2]));
  }

  w->in.count = n[0] - i < PB_BLOCK ? n[0] - i : PB_BLOCK;

  for (int p = 0; p < w->energy->def.parameter_count; p++)
    w->parameter[p] = elements->parameter[p] + (size_t)first * (size_t)(elements->stride ? elements->stride[p] : 0);
  w->in.row = w->row;
  w->in.parameter = w->parameter;
}

// The first fault of all, with its number among all elements.
static void note_fault(const pbEnergyFault *found, int first, bool *inside, pbEnergyFault *fault) {
  if (*inside && fault) {
    *fault = *found;
    fault->element += first;
  }

  *inside = false;
}

// gradient[row[p] + e] += from[e][p]: one shifted sum for each point of the element.
static void add_rows(const Sweep *w, const double *from, double *gradient) {
  int points = w->energy->def.points;

  for (int p = 0; p < points; p++) {
    double *to = gradient + 3 * (size_t)w->row[p];
    for (int e = 0; e < w->in.count; e++) {
      for (int c = 0; c < 3; c++) to[3 * e + c] += from[3 * (e * points + p) + c];
    }
  }
}

bool pbEnergy_EvaluateStencil(const pbEnergy *energy, const pbGridStencil *stencil, const pbElements *elements, double *value,
                              double *gradient, void *work, pbEnergyFault *fault) {
  Sweep w = start_sweep(energy, stencil, elements);
  double values[PB_BLOCK], gradients[PB_BLOCK * 3 * PB_ENERGY_POINTS];
  pbElementsOut out = {.value = value ? values : NULL, .gradient = gradient ? gradients : NULL};
  int count = pbGridStencil_Count(stencil, energy->def.points);
  bool inside = true;

  if (fault) fault->element = -1;

  for (int first = 0; first < count; first += w.in.count) {
    pbEnergyFault found;
    begin_piece(&w, first, elements);
    // All pieces are evaluated, so that only elements with a fault are missing from the gradient.
    if (!pbEnergy_Evaluate(energy, &w.in, &out, work, &found)) note_fault(&found, first, &inside, fault);

    if (value) {
      for (int e = 0; e < w.in.count; e++) *value += values[e];
    }

    if (gradient) add_rows(&w, gradients, gradient);
  }

  return inside;
}

// Where the cotangents of the parameters of a piece go.
static void begin_cotangents(const Sweep *w, const pbElements *elements, const pbElementsBar *bar, double **parameter) {
  for (int p = 0; p < w->energy->def.parameter_count; p++)
    parameter[p] = bar->parameter[p] ? bar->parameter[p] + (w->parameter[p] - elements->parameter[p]) : NULL;
}

bool pbEnergy_PullbackStencil(const pbEnergy *energy, const pbGridStencil *stencil, const pbElements *elements,
                              const double *weights, const pbElementsBar *bar, void *work, pbEnergyFault *fault) {
  Sweep w = start_sweep(energy, stencil, elements);
  int count = pbGridStencil_Count(stencil, energy->def.points);
  bool inside = true;

  if (fault) fault->element = -1;

  for (int first = 0; first < count; first += w.in.count) {
    double *parameter[PB_ENERGY_PARAMETERS];
    pbElementsBar here = *bar;
    pbEnergyFault found;

    begin_piece(&w, first, elements);
    if (bar->parameter) begin_cotangents(&w, elements, bar, parameter);
    here.parameter = bar->parameter ? parameter : NULL;
    if (!pbEnergy_Pullback(energy, &w.in, weights, &here, work, &found)) note_fault(&found, first, &inside, fault);
  }

  return inside;
}
