// The whole tree against the table, in the order of the file, before anything is made of it.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/suggest.h"
#include "io/mjcf/mjcf_reader.h"

// ---- index of the table -------------------------------------------------------------------------------------------------

pbStatus pbMjcf_Index(pbMjcfReader *reader) {
  int count;
  reader->rows = pbMjcf_Table(&count);

  int elements = 0;

  // The rows of an element begin with one that has no attribute.
  for (int i = 0; i < count; i++) elements += !reader->rows[i].attribute;

  reader->elements = pbSpecPool_Take(&reader->document.pool, (size_t)elements, sizeof *reader->elements);
  if (!reader->elements) return pbContext_Fail(reader->ctx, pb_no_memory, "no memory to read the model");

  for (int i = 0; i < count; i++) {
    if (!reader->rows[i].attribute) reader->elements[reader->element_count++] = (pbMjcfElement){reader->rows[i].element, i, 0};
    PB_ASSERT(reader->element_count > 0);  // the table begins with an element

    pbMjcfElement *element = &reader->elements[reader->element_count - 1];
    if (!strcmp(element->path, reader->rows[i].element)) element->count = i + 1 - element->first;
  }
  return pb_ok;
}

// Path of an element of this name inside `parent`: bodies nest, and frame and replicate hold what bodies hold.
static void child_path(const char *parent, const char *name, char *out, size_t size) {
  // Content of a body has one entry in the table wherever it stands; elements below the root go by their name alone.
  bool in_body =
      !strcmp(parent, "body") || !strcmp(parent, "worldbody") || !strcmp(parent, "frame") || !strcmp(parent, "replicate");
  bool nests = !strcmp(name, "body") || !strcmp(name, "frame") || !strcmp(name, "replicate");

  if ((in_body && nests) || !strcmp(parent, "mujoco") || (!strcmp(parent, "default") && !strcmp(name, "default")))
    snprintf(out, size, "%s", name);
  else snprintf(out, size, "%s/%s", in_body ? "body" : parent, name);
}

static int find_element(const pbMjcfReader *reader, const char *parent, const char *name) {
  char path[128];

  // No element of the table is that long, and the path must hold it.
  if (strlen(name) > 40) return -1;
  child_path(parent, name, path, sizeof path);

  for (int i = 0; i < reader->element_count; i++)
    if (!strcmp(reader->elements[i].path, path)) return i;
  return -1;
}

// ---- unknown names ------------------------------------------------------------------------------------------------------

static pbStatus unknown_attribute(pbMjcfReader *reader, const pbXmlNode *node, const char *name) {
  const pbMjcfElement *element = &reader->elements[node->element];
  pbSuggest suggest = pbSuggest_For(name);
  char text[128];

  for (int i = 1; i < element->count; i++) pbSuggest_Offer(&suggest, reader->rows[element->first + i].attribute);

  if (element->count < 2) return FAIL(node, "takes no attributes, but has '%.40s'", name);
  return FAIL(node, "there is no attribute '%.40s' here%s", name, pbSuggest_Write(&suggest, text, sizeof text));
}

static pbStatus unknown_element(pbMjcfReader *reader, const pbXmlNode *node) {
  const char *parent = reader->elements[node->parent->element].path;
  pbSuggest suggest = pbSuggest_For(node->name);
  char path[128], text[128];

  // Offer what may stand inside this parent: elements whose path is the one they would have here.
  for (int i = 0; i < reader->element_count; i++) {
    const char *slash = strrchr(reader->elements[i].path, '/');
    const char *last = slash ? slash + 1 : reader->elements[i].path;
    child_path(parent, last, path, sizeof path);
    if (!strcmp(path, reader->elements[i].path)) pbSuggest_Offer(&suggest, last);
  }
  return FAIL(node, "there is no such element in '%s'%s", node->parent->name, pbSuggest_Write(&suggest, text, sizeof text));
}

// ---- the walk -----------------------------------------------------------------------------------------------------------

// An orientation is given in one form only.
static pbStatus check_orientation(pbMjcfReader *reader, const pbXmlNode *node) {
  static const char *const forms[] = {"quat", "axisangle", "xyaxes", "zaxis", "euler"};
  const char *first = NULL;
  if (!pbMjcf_Row(reader, node, "zaxis")) return pb_ok;

  for (int i = 0; i < 5; i++) {
    if (!pbXml_Get(node, forms[i])) continue;
    if (first) return FAIL(node, "'%s' and '%s' both give the orientation; give one", first, forms[i]);
    first = forms[i];
  }
  return pb_ok;
}

static pbStatus check_attributes(pbMjcfReader *reader, const pbXmlNode *node) {
  // What is given: each attribute is known and its value is one of those allowed.
  for (int i = 0; i < node->attribute_count; i++) {
    const pbMjcfRow *row = pbMjcf_Row(reader, node, node->attributes[i].name);
    if (!row) return unknown_attribute(reader, node, node->attributes[i].name);
    PB_TRY(pbMjcf_CheckValue(reader, node, row, node->attributes[i].value));
  }

  // What must be given.
  const pbMjcfElement *element = &reader->elements[node->element];
  for (int i = 1; i < element->count; i++) {
    const pbMjcfRow *row = &reader->rows[element->first + i];
    if (row->required && !pbXml_Get(node, row->attribute)) return FAIL(node, "attribute '%s' is required", row->attribute);
  }

  return check_orientation(reader, node);
}

static pbStatus check_once(pbMjcfReader *reader, const pbXmlNode *node) {
  // Elder siblings: the first of the name is the one that may stand.
  for (const pbXmlNode *other = node->parent->first; other != node; other = other->next)
    if (!strcmp(other->name, node->name))
      return FAIL(node, "may stand only once in '%s'; the first is in line %d", node->parent->name, other->place.line);
  return pb_ok;
}

// Name the attribute too where an element is refused: the first one it has, since that is what the file's author looks at.
static pbStatus refuse_element(pbMjcfReader *reader, const pbXmlNode *node) {
  for (int i = 0; i < node->attribute_count; i++)
    if (!pbMjcf_Row(reader, node, node->attributes[i].name)) return unknown_attribute(reader, node, node->attributes[i].name);

  // Otherwise list what it has, as far as a message can hold it.
  char list[256] = "";
  size_t used = 0;
  for (int i = 0; i < node->attribute_count && used < 200; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%.40s", i ? ", " : "", node->attributes[i].name);

  if (*list) return REFUSE(node, "this element is not supported (its attributes: %s)", list);
  return REFUSE(node, "this element is not supported");
}

static pbStatus check_node(pbMjcfReader *reader, pbXmlNode *node, int depth) {
  if (depth > PB_XML_DEPTH) return FAIL(node, "elements are nested more than %d deep", PB_XML_DEPTH);

  PB_ASSERT(node->element >= 0 && node->element < reader->element_count);
  const pbMjcfElement *element = &reader->elements[node->element];
  const pbMjcfRow *row = &reader->rows[element->first];

  // What is inside a refused element may be unknown, which says more; an element that only groups is refused by its content.
  if (row->support == pb_mjcfRefused) {
    for (pbXmlNode *child = node->first; child; child = child->next)
      if ((child->element = find_element(reader, element->path, child->name)) < 0) return unknown_element(reader, child);

    bool grouping = element->count < 2 && node->first;
    return grouping ? check_node(reader, node->first, depth + 1) : refuse_element(reader, node);
  }

  if (row->required) PB_TRY(check_once(reader, node));
  PB_TRY(check_attributes(reader, node));

  for (pbXmlNode *child = node->first; child; child = child->next) {
    child->element = find_element(reader, element->path, child->name);
    if (child->element < 0) return unknown_element(reader, child);
    PB_TRY(check_node(reader, child, depth + 1));
  }
  return pb_ok;
}

pbStatus pbMjcf_CheckTree(pbMjcfReader *reader) {
  pbXmlNode *root = reader->document.root;

  // The other format that robots come in deserves a hint.
  if (!strcmp(root->name, "robot")) return FAIL(root, "this is URDF, where MJCF is expected");
  if (strcmp(root->name, "mujoco")) return FAIL(root, "not an MJCF model: expected the root element 'mujoco'");

  root->element = 0;
  return check_node(reader, root, 1);
}
