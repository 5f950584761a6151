// Include elements: the files they name, pasted in their place, each at most once.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_files.py.
#include <limits.h>
#include <string.h>

#include "io/xml/xml_files.h"

// MuJoCo looks beside the main file first, then beside the file that includes.
static pbStatus find_included(pbXmlDocument *document, const pbXmlNode *node, const char *name, char *shown, size_t size,
                              char **real) {
  const pbXmlNode *root = document->root;

  *real = NULL;
  if (!pbXml_Join(shown, size, root->place.file, name)) return pb_ok;

  // Beside the main file; where there is none, beside the file that includes.
  PB_TRY(pbXml_RealPath(document, shown, real));

  if (*real || !pbXml_Join(shown, size, node->place.file, name)) return pb_ok;
  return pbXml_RealPath(document, shown, real);
}

static pbStatus check_allowed(pbXmlDocument *document, const pbXmlNode *node, const char *name, const char *real) {
  PB_TRY(pbXml_CheckInside(document, node, name, real));
  for (const pbXmlFile *file = document->files; file; file = file->next)
    if (!strcmp(file->real, real))
      return pbXml_Fail(document, pb_bad_input, node, "file '%s' was read already: a file may be included only once", name);
  return pb_ok;
}

// Put the children of `root` where `node` stands. `before` is its elder sibling.
static void replace_by_children(pbXmlNode *node, pbXmlNode *before, pbXmlNode *root) {
  pbXmlNode *parent = node->parent;

  for (pbXmlNode *child = root->first; child; child = child->next) child->parent = parent;

  root->last->next = node->next;
  if (before) before->next = root->first;
  else parent->first = root->first;
  if (parent->last == node) parent->last = root->last;
}

static pbStatus include_one(pbXmlDocument *document, pbXmlNode *node, pbXmlNode *before, int nesting) {
  const char *name = pbXml_Get(node, "file");
  if (!name || !*name) return pbXml_Fail(document, pb_bad_input, node, "attribute 'file' is required");
  if (node->attribute_count > 1 || node->first)
    return pbXml_Fail(document, pb_bad_input, node, "takes the attribute 'file' and nothing else");
  if (!document->folder) return pbXml_Fail(document, pb_unsupported, node, "a model given as text cannot include files");
  if (nesting >= PB_XML_INCLUDES) return pbXml_Fail(document, pb_bad_input, node, "includes are nested more than 32 deep");

  char shown[PATH_MAX];
  char *real;
  PB_TRY(find_included(document, node, name, shown, sizeof shown, &real));
  if (!real) return pbXml_Fail(document, pb_file, node, "file '%s' cannot be found", name);

  PB_TRY(check_allowed(document, node, name, real));

  // Its elements stand where the include stood; the root element itself is dropped.
  pbXmlNode *root = NULL;
  PB_TRY(pbXml_ReadFile(document, real, shown, &root));
  if (!root || !root->first) return pbXml_Fail(document, pb_bad_input, node, "file '%s' has nothing to include", name);
  replace_by_children(node, before, root);
  return pb_ok;
}

// The last piece pasted may hold includes itself; nesting is bounded by files being read only once and by PB_XML_INCLUDES.
static pbStatus include_all(pbXmlDocument *document, pbXmlNode *parent, int depth) {
  if (depth > PB_XML_DEPTH) return pbXml_Fail(document, pb_bad_input, parent, "elements are nested more than 256 deep");
  pbXmlNode *before = NULL;
  int nesting = 0;

  for (pbXmlNode *node = parent->first; node;) {
    if (!strcmp(node->name, "include")) {
      PB_TRY(include_one(document, node, before, nesting++));
      node = before ? before->next : parent->first;  // the first of what was pasted
      continue;
    }

    nesting = 0;
    PB_TRY(include_all(document, node, depth + 1));
    before = node;
    node = node->next;
  }
  return pb_ok;
}

pbStatus pbXml_Include(pbXmlDocument *document) { return include_all(document, document->root, 1); }
