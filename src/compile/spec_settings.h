// Which compiler settings act on an element: those of the model that it was attached from, or those of the spec.
#ifndef PB_SPEC_SETTINGS_H
#define PB_SPEC_SETTINGS_H

#include <pullback/spec.h>

static inline const pbCompilerSettings *pbSpec_Settings(const pbSpec *spec, const pbPlace *place) {
  return place->model ? &spec->attached[place->model - 1] : &spec->compiler;
}

#endif
