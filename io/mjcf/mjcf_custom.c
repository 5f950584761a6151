// Custom numbers, texts and tuples of a model.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <string.h>

#include "io/mjcf/mjcf_reader.h"

#define IS(node, text) (!strcmp((node)->name, text))
#define ADD(Kind, def) (pbSpec_Add##Kind(reader->spec, def) < 0 ? NO_MEMORY(node) : pb_ok)

static pbStatus read_numeric(pbMjcfReader *reader, const pbXmlNode *node) {
  // Without a size, the numbers given say it; with one, the rest is filled with zeros.
  pbNumericDef def = pbNumericDef_Default();
  def.place = node->place;
  PB_TRY(pbMjcf_Store(reader, node, &def));

  if (!pbXml_Get(node, "size")) def.size = def.data.count;
  if (def.size < 1 || def.size > 500) return FAIL(node, "has %d numbers, expected 1 to 500", def.size);
  if (def.data.count > def.size) return FAIL(node, "attribute 'data' has %d numbers, but 'size' is %d", def.data.count, def.size);

  return ADD(Numeric, &def);
}

// The order is that of pb_ref*, which begins at 1.
static const char *const object_names[] = {"body",     "xbody",  "joint",    "dof",    "geom",    "site",     "camera", "light",
                                           "flex",     "mesh",   "skin",     "hfield", "texture", "material", "pair",   "exclude",
                                           "equality", "tendon", "actuator", "sensor", "numeric", "text",     "tuple",  "key"};

static int object_type(const char *name) {
  for (size_t i = 0; i < sizeof object_names / sizeof *object_names; i++)
    if (!strcmp(name, object_names[i])) return (int)i + 1;
  return pb_refNone;
}

const char *pbMjcf_ObjectWord(int type) { return object_names[type - 1]; }

static pbStatus read_tuple(pbMjcfReader *reader, const pbXmlNode *tuple) {
  pbTupleDef def = pbTupleDef_Default();
  def.place = tuple->place;
  PB_TRY(pbMjcf_Store(reader, tuple, &def));

  for (const pbXmlNode *child = tuple->first; child; child = child->next) def.count++;
  if (!def.count) return FAIL(tuple, "is empty");

  pbTupleEntry *entry = pbSpecPool_Take(reader->spec->pool, (size_t)def.count, sizeof *entry);
  if (!entry) return pbXml_Fail(&reader->document, pb_no_memory, tuple, "no memory for its elements");
  def.entries = entry;

  for (const pbXmlNode *node = tuple->first; node; node = node->next) {
    const char *type = pbXml_Get(node, "objtype");
    entry->objtype = object_type(type);

    // Whether an object of that name exists is checked when the model is compiled.
    if (entry->objtype == pb_refNone) return FAIL(node, "attribute 'objtype' is \"%.40s\", which is no kind of object", type);

    entry->objname = pbSpec_Text(reader->spec, pbXml_Get(node, "objname"));
    if (!entry->objname) return NO_MEMORY(node);
    (void)pbMjcf_Real(reader, node, "prm", &entry->prm);
    entry++;
  }

  const pbXmlNode *node = tuple;  // ADD names it where memory is out
  return ADD(Tuple, &def);
}

pbStatus pbMjcf_Custom(pbMjcfReader *reader, const pbXmlNode *section) {
  for (const pbXmlNode *node = section->first; node; node = node->next) {
    if (IS(node, "numeric")) {
      PB_TRY(read_numeric(reader, node));
    } else if (IS(node, "tuple")) {
      PB_TRY(read_tuple(reader, node));
    } else {
      pbTextDef def = pbTextDef_Default();
      def.place = node->place;
      PB_TRY(pbMjcf_Store(reader, node, &def));
      if (!*def.data) return FAIL(node, "attribute 'data' is empty");
      PB_TRY(ADD(Text, &def));
    }
  }
  return pb_ok;
}
