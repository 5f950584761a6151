// attach: a body, a frame or the whole of another model, or a part of this one, put where the element stands. Each model that
// the assets name is read and prepared by a reader of its own: its own files, angles, defaults, replicas and attached models.
// What is attached is then copied from its tree (mjcf_copy.c) with all assets, numbers and texts, with whatever refers to the
// contents, and with its keyframes. Nodes keep the number of their model (pbPlace.model), by which defaults, folders and
// compiler settings are found. The rules are those of MuJoCo 4.0.
// Tests: tests/oracle/test_attach.py.
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "io/mjcf/mjcf_copy.h"
#include "io/xml/xml_files.h"

#define IS(node, text) (!strcmp((node)->name, text))

// ---- names -------------------------------------------------------------------------------------------------------------

bool pbMjcf_AssetName(pbMjcfReader *reader, const pbXmlNode *node, const char **name) {
  if (!node->assets || !**name) return true;

  size_t first = strlen(node->assets), second = strlen(*name);

  // Memory of the pool is zero, so the text is closed.
  char *joined = pbSpecPool_Take(reader->spec->pool, first + second + 1, 1);
  if (!joined) return false;

  memcpy(joined, node->assets, first);
  memcpy(joined + first, *name, second);
  *name = joined;
  return true;
}

// A copy of another model's part states its class where the part begins, so that the walk ends inside of that model.
const char *pbMjcf_ClassAt(const pbXmlNode *node) {
  for (const pbXmlNode *around = node->parent; around; around = around->parent) {
    const char *name = pbXml_Get(around, "childclass");
    if (name) return name;
  }

  // The outermost defaults.
  return "main";
}

// ---- models ------------------------------------------------------------------------------------------------------------

static void set_model(pbXmlNode *node, int model) {
  node->place.model = model;
  for (pbXmlNode *child = node->first; child; child = child->next) set_model(child, model);
}

static pbMjcfSettings settings_of(const pbSpec *spec) {
  return (pbMjcfSettings){spec->compiler, spec->option, spec->statistic, spec->size};
}

static void set_settings(pbSpec *spec, const pbMjcfSettings *settings) {
  spec->compiler = settings->compiler;
  spec->option = settings->option;
  spec->statistic = settings->statistic;
  spec->size = settings->size;
}

// The defaults of all settings
static pbStatus plain_settings(pbContext *ctx, pbMjcfSettings *settings) {
  pbSpec *plain;

  // A spec that nothing was read into has them.
  PB_TRY(pbSpec_Create(ctx, &plain));
  *settings = settings_of(plain);
  pbSpec_Destroy(plain);

  return pb_ok;
}

// Neither a model that is being read nor too deep below one.
static pbStatus check_nesting(pbMjcfReader *reader, const pbXmlNode *node, const char *name, const char *real) {
  for (const pbMjcfReader *around = reader; around; around = around->parent)
    if (around->real && !strcmp(around->real, real))
      return FAIL(node, "file '%s' is a model that names this one: models cannot contain each other", name);

  if (reader->depth >= PB_XML_INCLUDES) return FAIL(node, "models are nested more than %d deep", PB_XML_INCLUDES);
  if (reader->family->reader_count > PB_MJCF_MODELS) return FAIL(node, "there are more than %d models", PB_MJCF_MODELS);

  return pb_ok;
}

// of: the file beside which it is.
static pbStatus read_tree(pbMjcfReader *child, const pbXmlNode *node, const char *of, const char *file) {
  pbMjcfReader *reader = child->parent;
  char shown[4096];
  pbXmlNode *root = NULL;
  if (!pbXml_Join(shown, sizeof shown, of, file)) return FAIL(node, "the name of file '%.100s' is too long", file);

  PB_TRY(pbXml_ReadFile(&child->document, child->real, shown, &root));
  if (!root) return FAIL(node, "file '%s' has no elements", file);
  if (IS(root, "robot")) return REFUSE(node, "file '%s' is URDF; only MJCF models can be attached", file);

  // It may include what other models include, too.
  child->document.root = root;
  PB_TRY(pbXml_Include(&child->document));
  set_model(root, child->id);

  return pb_ok;
}

static pbStatus prepare_model(pbMjcfReader *child, const pbXmlNode *node, const char *of, const char *file) {
  pbSpec *spec = child->spec;
  pbMjcfSettings around = settings_of(spec), own;
  PB_TRY(plain_settings(child->ctx, &own));
  PB_TRY(read_tree(child, node, of, file));

  // While it is read its settings are those of the spec.
  set_settings(spec, &own);
  pbStatus status = pbMjcf_Prepare(child);
  if (status == pb_ok) status = pbMjcf_Keys(child);

  // Also where that failed: the spec has those of the model around again.
  child->settings = settings_of(spec);
  set_settings(spec, &around);

  return status;
}

static pbStatus store_settings(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfReader *child) {
  pbSpec *spec = reader->spec;

  // By its number; room for all of them is taken once.
  if (!spec->attached) spec->attached = pbSpecPool_Take(spec->pool, PB_MJCF_MODELS, sizeof *spec->attached);
  if (!spec->attached) return NO_MEMORY(node);

  ((pbCompilerSettings *)spec->attached)[child->id - 1] = child->settings.compiler;

  return pb_ok;
}

static pbStatus read_attached(pbMjcfReader *reader, const pbXmlNode *node) {
  const char *type = pbXml_Get(node, "content_type"), *file = pbXml_Get(node, "file");
  char *real;
  if (type && *type && strcmp(type, "text/xml") != 0)
    return REFUSE(node, "attribute 'content_type' is \"%.60s\", expected text/xml", type);

  // Beside the file that names it, which may be included, else beside that of the model; in folders that may be read.
  const char *of = node->place.file;
  if (pbXml_FindBeside(&reader->document, node, of, file, &real) != pb_ok) {
    of = reader->document.root->place.file;
    PB_TRY(pbXml_FindBeside(&reader->document, node, of, file, &real));
  }
  PB_TRY(check_nesting(reader, node, file, real));

  pbMjcfReader *child = pbSpecPool_Take(&reader->document.pool, 1, sizeof *child);
  if (!child) return NO_MEMORY(node);

  *child = (pbMjcfReader){.ctx = reader->ctx,
                          .spec = reader->spec,
                          .document = reader->document,
                          .rows = reader->rows,
                          .elements = reader->elements,
                          .element_count = reader->element_count,
                          .family = reader->family,
                          .parent = reader,
                          .id = reader->family->reader_count,
                          .depth = reader->depth + 1,
                          .real = real,
                          .names.ctx = reader->ctx};
  child->document.files = NULL;

  // Known from now on, so that what it holds is freed in any case.
  reader->family->readers[reader->family->reader_count++] = child;
  reader->spec->nattached = child->id;

  // Memory and limits are those of all files together.
  pbStatus status = prepare_model(child, node, of, file);
  reader->document.pool = child->document.pool;
  reader->document.elements = child->document.elements;
  reader->document.bytes = child->document.bytes;
  PB_TRY(status);

  const char *name = pbXml_Get(node, "name"), *model = pbXml_Get(child->document.root, "model");
  child->name = name ? name : model;
  if (!child->name) child->name = reader->spec->model_name;  // what models are called that have no name
  return store_settings(reader, node, child);
}

pbStatus pbMjcf_Models(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next)
    if (IS(node, "model")) PB_TRY(read_attached(reader, node));
  return pb_ok;
}

// The first of this name that this model names.
static pbMjcfReader *find_model(const pbMjcfReader *reader, const char *name) {
  for (int i = 1; i < reader->family->reader_count; i++) {
    pbMjcfReader *model = reader->family->readers[i];
    if (model->parent == reader && !strcmp(model->name, name)) return model;
  }
  return NULL;
}

// ---- what is attached --------------------------------------------------------------------------------------------------

// In the order of the file, before `stop`; *stopped tells that this was met.
static const pbXmlNode *find_named(const pbXmlNode *parent, const char *element, const char *name, const pbXmlNode *stop,
                                   bool *stopped) {
  for (const pbXmlNode *node = parent->first; node; node = node->next) {
    *stopped = *stopped || node == stop;
    if (*stopped) return NULL;

    const char *own = pbXml_Get(node, "name");
    if (IS(node, element) && own && !strcmp(own, name)) return node;

    // Depth first, as the file is read.
    const pbXmlNode *below = find_named(node, element, name, stop, stopped);
    if (below) return below;
  }

  return NULL;
}

static pbStatus find_source(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfReader *from, const char *element,
                            const pbXmlNode **source) {
  const char *name = pbXml_Get(node, element), *model = pbXml_Get(node, "model");
  bool stopped = false;

  // Of the own model what stands before the attach, of another one all.
  *source = NULL;

  for (const pbXmlNode *section = from->document.root->first; section; section = section->next)
    if (!*source && IS(section, "worldbody")) *source = find_named(section, element, name, node, &stopped);

  if (!*source && model) return FAIL(node, "there is no %s '%s' in model '%s'", element, name, model);
  if (!*source) return FAIL(node, "there is no %s '%s' before this place", element, name);

  // A part that is not closed yet would be copied into itself.
  for (const pbXmlNode *around = node->parent; around; around = around->parent)
    if (around == *source) return REFUSE(node, "%s '%s' contains this place: nothing can be attached to itself", element, name);

  return pb_ok;
}

// A body or frame, with the class that its contents have where it stands.
static pbStatus copy_part(pbMjcfCopy *u, const pbXmlNode *source, pbXmlNode *holder) {
  PB_TRY(pbMjcf_CopyBelow(u, source, holder));
  pbXmlNode *copy = holder->last;
  return pbXml_Get(copy, "childclass") ? pb_ok : pbMjcf_SetAttribute(u->reader, copy, "childclass", pbMjcf_ClassAt(source));
}

// All that stands in the other model's world, in a frame.
static pbStatus copy_world(pbMjcfCopy *u, const pbXmlNode *node, pbXmlNode *holder) {
  static const double nowhere[7] = {0, 0, 0, 1, 0, 0, 0};
  pbMjcfReader *reader = u->reader;
  pbXmlNode *frame;
  PB_TRY(pbXml_Copy(&reader->document, node, holder, &frame));

  // What it holds has the defaults of its own model.
  frame->name = "frame";
  frame->place.model = u->from->id;
  frame->pose = nowhere;
  frame->attribute_count = 0;
  PB_TRY(pbMjcf_SetAttribute(reader, frame, "childclass", "main"));

  for (const pbXmlNode *section = u->from->document.root->first; section; section = section->next) {
    if (!IS(section, "worldbody")) continue;
    for (const pbXmlNode *child = section->first; child; child = child->next) PB_TRY(pbMjcf_CopyBelow(u, child, frame));
  }

  return pb_ok;
}

static pbStatus find_reader(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfReader **from) {
  const char *model = pbXml_Get(node, "model"), *body = pbXml_Get(node, "body"), *frame = pbXml_Get(node, "frame");
  *from = model ? find_model(reader, model) : reader;

  // What is asked for must be one thing.
  if (!*from) return FAIL(node, "there is no model '%s' among the assets", model);
  if (body && frame) return FAIL(node, "'body' and 'frame' both name what is attached; give one");
  if (!model && !body && !frame) return FAIL(node, "needs 'body' or 'frame' where it names no model");
  if (body && !strcmp(body, "world"))
    return REFUSE(node, "attribute 'body' is \"world\"; without 'body' all that stands in a model's world is attached");

  return pb_ok;
}

pbStatus pbMjcf_Attach(pbMjcfReader *reader, pbXmlNode *node, pbXmlNode *before, pbXmlNode **last) {
  pbXmlNode holder = {.name = "attach", .element = node->element};
  pbMjcfReader *from;
  PB_TRY(find_reader(reader, node, &from));

  bool other = from != reader;
  const char *prefix = pbXml_Get(node, "prefix");
  pbMjcfCopy u = {.reader = reader, .from = from, .prefix = prefix, .suffix = "", .strict = true};
  u.attach = other ? ++reader->family->attach_count : 0;
  if (strlen(prefix) > PB_MJCF_TEXT / 2) return FAIL(node, "attribute 'prefix' is longer than %d bytes", PB_MJCF_TEXT / 2);

  // Settings of the whole model, then the part itself.
  if (other) PB_TRY(pbMjcf_Conflicts(reader, node, from));
  const char *element = pbXml_Get(node, "body") ? "body" : "frame";
  if (pbXml_Get(node, element)) {
    const pbXmlNode *source;
    PB_TRY(find_source(reader, node, from, element, &source));
    PB_TRY(copy_part(&u, source, &holder));
  } else {
    PB_TRY(copy_world(&u, node, &holder));
  }

  pbMjcf_Replace(node, before, &holder);
  *last = holder.last;

  // Then all that it refers to, and that refers to it.
  if (other) PB_TRY(pbMjcf_CopyAssets(&u));
  PB_TRY(pbMjcf_CopyReferences(&u));
  return other ? pbMjcf_AttachKeys(reader, from, prefix, u.attach) : pb_ok;
}
