// A spec as the text of an MJCF file.
#ifndef PB_IO_MJCF_WRITE_H
#define PB_IO_MJCF_WRITE_H

#include <stdio.h>

#include <pullback/spec.h>

#include "io/mjcf/mjcf_schema.h"

typedef struct pbMjcfWriter {
  const pbSpec *spec;  // without frames, bodies depth first and what stands in them in their order, as pbModel_Spec makes it
  const char *folder;  // real path of the folder that the text goes to; NULL: none, files by their whole names
  FILE *out, *unsaid;  // the text; lines with what it cannot say
  const pbMjcfRow *rows;
  int row_count, depth;
  double numbers;  // of meshes that stand in the text, so far
} pbMjcfWriter;

PB_NODISCARD pbStatus pbMjcf_Write(pbMjcfWriter *writer);  // errors of the streams are found by who has opened them

// ---- mjcf_put.c: elements and attributes
void pbMjcf_OpenElement(pbMjcfWriter *w, const char *name);  // "<name", attributes follow
void pbMjcf_EndAttributes(pbMjcfWriter *w, bool inside);     // inside: elements follow, until CloseElement
void pbMjcf_CloseElement(pbMjcfWriter *w, const char *name);
void pbMjcf_PutText(pbMjcfWriter *w, const char *attribute, const char *text);
void pbMjcf_PutReals(pbMjcfWriter *w, const char *attribute, const double *values, int count);
// All attributes of an element of the schema whose values are not those of `none`, but for names in `without` (" a b ").
void pbMjcf_PutRows(pbMjcfWriter *w, const char *path, const void *def, const void *none, const char *without);

bool pbMjcf_HasRows(const pbMjcfWriter *w, const char *path, const void *def, const void *none);  // would any be written?

// ---- mjcf_write_asset.c: meshes, height fields, and what is only seen
void pbMjcf_WriteAssets(pbMjcfWriter *w);
void pbMjcf_WriteVisuals(pbMjcfWriter *w, const char *section);  // "visual/": elements whose path begins so

// ---- mjcf_write_drive.c: what is beside the tree
void pbMjcf_WriteContacts(pbMjcfWriter *w);
void pbMjcf_WriteEqualities(pbMjcfWriter *w);
void pbMjcf_WriteTendons(pbMjcfWriter *w);
void pbMjcf_WriteActuators(pbMjcfWriter *w);
void pbMjcf_WriteSensors(pbMjcfWriter *w);
void pbMjcf_WriteKeys(pbMjcfWriter *w);
void pbMjcf_WriteCustom(pbMjcfWriter *w);

#endif
