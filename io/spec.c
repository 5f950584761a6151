// A spec from a file or a text of either kind: MJCF, or URDF by its root element; or from an archive with a file of either.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_archive.py.
#include <string.h>

#include <pullback/io.h>

#include "base/context.h"
#include "compile/spec_pool.h"
#include "io/archive.h"
#include "io/load.h"
#include "io/mjcf/mjcf.h"
#include "io/urdf/urdf.h"

typedef struct source {
  const char *path, *text;   // one of them
  size_t length;             // of the text
  const char *name;          // of the text, in messages
  bool mjcf;                 // nothing else is wanted
  bool whole;                // models keep what they were made from
  const pbArchive *archive;  // that holds the file; NULL: none
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

// Files of an archive are called as it calls them, in what is found wrong later, too: each text is shared by the file's elements.
static void name_places(const pbArchive *archive, const pbXmlNode *node) {
  for (; node; node = node->next) {
    pbArchive_NameInText(archive, (char *)node->place.file);  // the spec's own
    name_places(archive, node->first);
  }
}

static pbStatus read_spec(pbXmlDocument *document, const source *from, const pbLoadOptions *options, pbSpec *spec) {
  const pbUrdfOptions none = {0}, *urdf = options ? &options->urdf : &none;
  PB_TRY(pbXml_Open(document, spec->ctx, spec->pool));

  spec->surfaces = options && options->surfaces;
  spec->design = options && options->design;
  spec->pool->source = from->whole;

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
  if (from->archive && document.root) name_places(from->archive, document.root);
  pbXml_Close(&document);

  if (status == pb_ok) *spec = made;
  else pbSpec_Destroy(made);
  return status;
}

static pbStatus load_spec(pbContext *ctx, source from, const pbLoadOptions *options, pbSpec **spec) {
  if (!pbArchive_Is(from.path)) return make_spec(ctx, &from, options, spec);

  pbArchive archive;
  *spec = NULL;
  pbStatus status = pbArchive_Open(ctx, from.path, &archive);
  from.path = archive.model;
  from.archive = &archive;
  if (status == pb_ok) status = make_spec(ctx, &from, options, spec);

  pbArchive_NameInMessages(&archive, ctx, status);
  pbArchive_Close(&archive);
  return status;
}

pbStatus pbSpec_Load(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec) {
  return load_spec(ctx, (source){.path = path}, options, spec);
}

pbStatus pbSpec_LoadFor(pbContext *ctx, const char *path, const pbLoadOptions *options, bool whole, pbSpec **spec) {
  return load_spec(ctx, (source){.path = path, .whole = whole}, options, spec);
}

pbStatus pbSpec_Parse(pbContext *ctx, const char *text, size_t length, const char *name, const pbLoadOptions *options,
                      pbSpec **spec) {
  return make_spec(ctx, &(source){.text = text, .length = length, .name = name ? name : "model"}, options, spec);
}

pbStatus pbSpec_LoadMjcf(pbContext *ctx, const char *path, const pbLoadOptions *options, pbSpec **spec) {
  return load_spec(ctx, (source){.path = path, .mjcf = true}, options, spec);
}

pbStatus pbSpec_ParseMjcf(pbContext *ctx, const char *text, size_t length, const char *name, pbSpec **spec) {
  return make_spec(ctx, &(source){.text = text, .length = length, .name = name ? name : "model", .mjcf = true}, NULL, spec);
}
