// A spec from a file or a text of either kind: MJCF, or URDF by its root element.
// Tests: tests/unit/test_mjcf.c.
#include <string.h>

#include <pullback/io.h>

#include "base/context.h"
#include "io/mjcf/mjcf.h"
#include "io/urdf/urdf.h"

typedef struct source {
  const char *path, *text;  // one of them
  size_t length;            // of the text
  const char *name;         // of the text, in messages
  bool mjcf;                // nothing else is wanted
} source;

static pbStatus check_options(const pbXmlDocument *document, const pbUrdfOptions *urdf) {
  const char *given = NULL;

  // A folder with packages does no harm.
  if (urdf->inertia) given = "inertia";
  if (urdf->missing_meshes) given = "missing-meshes";
  if (urdf->motors) given = "motors";
  if (urdf->fuse) given = "fuse";
  if (urdf->floating_base) given = "floating-base";

  if (!given) return pb_ok;
  return pbXml_Fail(document, pb_bad_argument, document->root, "--%s is for URDF (root element 'robot'): MJCF says itself",
                    given);
}

static pbStatus read_spec(pbXmlDocument *document, const source *from, const pbLoadOptions *options, pbSpec *spec) {
  const pbUrdfOptions none = {0}, *urdf = options ? &options->urdf : &none;
  PB_TRY(pbXml_Open(document, spec->ctx, spec->pool));

  spec->surfaces = options && options->surfaces;
  spec->design = options && options->design;

  if (from->path) PB_TRY(pbXml_Load(document, from->path, options));
  else PB_TRY(pbXml_Parse(document, from->text, from->length, from->name));

  // The root element says what it is.
  if (!from->mjcf && !strcmp(document->root->name, "robot")) return pbUrdf_Read(document, urdf, spec);
  PB_TRY(check_options(document, urdf));
  return pbMjcf_Read(document, spec);
}

static pbStatus make_spec(pbContext *ctx, const source *from, const pbLoadOptions *options, pbSpec **spec) {
  *spec = NULL;
  pbSpec *made = NULL;
  pbXmlDocument document = {0};

  // Warnings from here on are those of this spec.
  pbContext_ClearWarnings(ctx);
  PB_TRY(pbSpec_Create(ctx, &made));

  pbStatus status = read_spec(&document, from, options, made);
  pbXml_Close(&document);

  if (status == pb_ok) *spec = made;
  else pbSpec_Destroy(made);
  return status;
}

pbStatus pbSpec_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec) {
  return make_spec(ctx, &(source){.path = path}, options, spec);
}

pbStatus pbSpec_Parse(pbContext *ctx, const char *text, size_t length, const char *name, const pbLoadOptions *options,
                      pbSpec **spec) {
  return make_spec(ctx, &(source){.text = text, .length = length, .name = name ? name : "model"}, options, spec);
}

pbStatus pbSpec_LoadMjcf(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec) {
  return make_spec(ctx, &(source){.path = path, .mjcf = true}, options, spec);
}

pbStatus pbSpec_ParseMjcf(pbContext *ctx, const char *text, size_t length, const char *name, pbSpec **spec) {
  return make_spec(ctx, &(source){.text = text, .length = length, .name = name ? name : "model", .mjcf = true}, NULL, spec);
}
