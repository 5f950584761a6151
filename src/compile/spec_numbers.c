// What numbers of a spec must be whatever they mean: finite, where they may not be left open, and no smaller than makes sense.
// Bounds that depend on other fields (sizes by type, masses and moments of what moves) are checked where those are compiled.
// Tests: tests/unit/test_spec.c, tests/python/test_spec_numbers.py.
#include <pullback/edit.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"

typedef pbOptionSettings pbOptionDef;
typedef pbCompilerSettings pbCompilerDef;
typedef pbStatisticSettings pbStatisticDef;
typedef pbSizeSettings pbSizesDef;

// -1 is "as used", "as the dynamics says", "all". What is for pictures alone moves nothing: it is refused when assigned, while a
// file that MuJoCo takes is no worse for a strange colour.
typedef struct bound {
  pbSpecKind kind;
  size_t offset;
  double least;
  bool picture;
} bound;
static const bound bounds[] = {
#define LEAST(Kind, member, least) \
  { pb_spec##Kind, offsetof(pb##Kind##Def, member), least, false }
#define PICTURE(Kind, member, least) \
  { pb_spec##Kind, offsetof(pb##Kind##Def, member), least, true }
    PICTURE(Geom, rgba, 0),
    LEAST(Geom, fitscale, 0),
    PICTURE(Site, rgba, 0),
    LEAST(Camera, fovy, 0),
    PICTURE(Camera, ipd, 0),
    LEAST(Camera, sensorsize, 0),
    PICTURE(Light, attenuation, 0),
    PICTURE(Light, cutoff, 0),
    PICTURE(Light, exponent, 0),
    PICTURE(Light, ambient, 0),
    PICTURE(Light, diffuse, 0),
    PICTURE(Light, specular, 0),
    LEAST(Equality, torquescale, 0),
    PICTURE(Tendon, width, 0),
    PICTURE(Tendon, rgba, 0),
    LEAST(Actuator, actdim, -1),
    LEAST(Actuator, inheritrange, 0),
    LEAST(Actuator, cranklength, 0),
    LEAST(Actuator, nsample, 0),
    LEAST(Actuator, delay, 0),
    LEAST(Sensor, nsample, 0),
    LEAST(Sensor, delay, 0),
    LEAST(Numeric, size, 0),
    LEAST(Mesh, maxhullvert, -1),
    PICTURE(Visual, rgba, 0),
    PICTURE(Visual, cells, 0),
    LEAST(Compiler, boundmass, 0),
    LEAST(Compiler, boundinertia, 0),
    LEAST(Compiler, lengthrange_accel, 0),
    LEAST(Compiler, lengthrange_maxforce, 0),
    LEAST(Compiler, lengthrange_timeconst, 0),
    LEAST(Compiler, lengthrange_timestep, 0),
    LEAST(Compiler, lengthrange_inttotal, 0),
    LEAST(Compiler, lengthrange_interval, 0),
    LEAST(Compiler, lengthrange_tolrange, 0),
    LEAST(Option, tolerance, 0),
    LEAST(Option, ls_tolerance, 0),
    LEAST(Option, noslip_tolerance, 0),
    LEAST(Option, disableflags, 0),
    LEAST(Option, enableflags, 0),
    LEAST(Option, disableactuator, 0),
    LEAST(Statistic, meaninertia, 0),
    LEAST(Statistic, meanmass, 0),
    LEAST(Statistic, meansize, 0),
    LEAST(Statistic, extent, 0),
    LEAST(Sizes, nkey, 0),
    LEAST(Sizes, nuserdata, 0),
    LEAST(Sizes, nuser_body, -1),
    LEAST(Sizes, nuser_jnt, -1),
    LEAST(Sizes, nuser_geom, -1),
    LEAST(Sizes, nuser_site, -1),
    LEAST(Sizes, nuser_cam, -1),
    LEAST(Sizes, nuser_tendon, -1),
    LEAST(Sizes, nuser_actuator, -1),
    LEAST(Sizes, nuser_sensor, -1),
#undef LEAST
#undef PICTURE
};

// A row for each field that has one.
static const bound *bound_of(pbSpecKind kind, const pbSpecField *field) {
  PB_ASSERT(kind < pb_specKinds);

  // By its place in the record.
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    if (bounds[i].kind == kind && bounds[i].offset == field->offset) return &bounds[i];
  }
  return NULL;
}

double pbSpecKind_Least(pbSpecKind kind, const pbSpecField *field) {
  const bound *b = bound_of(kind, field);
  return b ? b->least : -INFINITY;
}

// Numbers of a field, those of a list too; the k-th of them as double.
static int count_numbers(const pbSpecField *f, const char *record) {
  if (f->type == pb_fieldInt || f->type == pb_fieldReal) return f->count;
  const pbReals *list = (const pbReals *)(const void *)(record + f->offset);
  return f->type == pb_fieldReals && list->data ? list->count : 0;
}

static double number_at(const pbSpecField *f, const char *record, int k) {
  const void *at = record + f->offset;

  // Masks, too, are integers.
  if (f->type == pb_fieldInt) return ((const int *)at)[k];
  return f->type == pb_fieldReal ? ((const double *)at)[k] : ((const pbReals *)at)->data[k];
}

// "size[1]", or without the number where there is one alone.
static pbStatus refuse(const pbSpec *spec, pbSpecKind kind, const char *record, const pbSpecField *f, int k, double least) {
  static const pbPlace nowhere = {0};
  bool element = kind < pb_specElements;
  const pbFrameDef *def = (const pbFrameDef *)(const void *)record;
  const char *field = strncmp(f->name, "pose.", 5) ? f->name : f->name + 5;

  char which[32] = "", expected[64] = "a finite number";
  if (f->count != 1) snprintf(which, sizeof which, "[%d]", k);
  if (least > -INFINITY) snprintf(expected, sizeof expected, "%g or more", least);
  return pbSpec_Fail(spec, pb_bad_input, element ? &def->place : &nowhere, pbSpecKind_Name(kind), element ? def->name : "",
                     "%s%s is %g, expected %s", field, which, number_at(f, record, k), expected);
}

// A field that may be left open is so by NaN in its first number, or in any of a keyframe's.
static pbStatus check_field(const pbSpec *spec, pbSpecKind kind, const char *record, const pbSpecField *f, double least) {
  int count = count_numbers(f, record);
  if (f->optional && count > 0 && f->type == pb_fieldReal && isnan(number_at(f, record, 0))) return pb_ok;

  // The first that is wrong is told.
  for (int k = 0; k < count; k++) {
    double number = number_at(f, record, k);
    if (isnan(number) && f->optional) continue;
    if (!isfinite(number) || number < least) return refuse(spec, kind, record, f, k, least);
  }
  return pb_ok;
}

pbStatus pbSpec_CheckNumbers(const pbSpec *spec) {
  for (int kind = 0; kind < pb_specWhole; kind++) {
    pbSpecField f;
    for (int i = 0; pbSpecKind_Field((pbSpecKind)kind, i, &f); i++) {
      bool numbers = f.type == pb_fieldInt || f.type == pb_fieldReal || f.type == pb_fieldReals;
      // Pictures may have any.
      const bound *b = bound_of((pbSpecKind)kind, &f);
      double least = b && !b->picture ? b->least : -INFINITY;

      // Words, numbers of other elements, points of meshes and heights have checks of their own.
      numbers &= f.type != pb_fieldReals || (kind != pb_specMesh && kind != pb_specHfield);
      if (!numbers || f.words || f.refers >= 0) continue;

      for (int id = 0; id < pbSpec_Count(spec, (pbSpecKind)kind); id++)
        PB_TRY(check_field(spec, (pbSpecKind)kind, pbSpec_Look(spec, (pbSpecKind)kind, id), &f, least));
    }
  }
  return pb_ok;
}
