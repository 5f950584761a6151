// XML to tree, by expat. Document type declarations are refused (no entities), depth, counts and sizes are limited.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_files.py.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // newlocale, strtod_l
#endif
#include "io/xml/xml.h"

#include <expat.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "io/file.h"
#include "io/xml/xml_repair.h"
#include "io/xml/xml_files.h"

// ---- errors -------------------------------------------------------------------------------------------------------------

const char *pbXml_Get(const pbXmlNode *node, const char *attribute) {
  for (int i = 0; i < node->attribute_count; i++)
    if (!strcmp(node->attributes[i].name, attribute)) return node->attributes[i].value;
  return NULL;
}

// "file:line:column: element 'name'", without the name where there is none.
static void write_place(char *out, size_t size, const pbXmlNode *node) {
  const char *name = pbXml_Get(node, "name");
  if (!name) name = "";

  snprintf(out, size, "%.400s:%d:%d: %.100s%s%.200s%s", node->place.file, node->place.line, node->place.column, node->name,
           *name ? " '" : "", name, *name ? "'" : "");
}

pbStatus pbXml_Fail(const pbXmlDocument *document, pbStatus status, const pbXmlNode *node, const char *format, ...) {
  char text[1024], where[800];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  write_place(where, sizeof where, node);
  return pbContext_Fail(document->ctx, status, "%s: %s", where, text);
}

void pbXml_Warn(const pbXmlDocument *document, const pbXmlNode *node, const char *format, ...) {
  char text[1024], where[800];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  // As errors are written.
  write_place(where, sizeof where, node);
  pbContext_Warn(document->ctx, "%s: %s", where, text);
}

// ---- numbers ------------------------------------------------------------------------------------------------------------

static const char *const spaces = " \t\r\n";

// One number at *text, which moves behind it. Refused: hexadecimal, infinity, NaN, anything glued to it, overflow.
static bool read_number(locale_t c_locale, const char **text, double *value) {
  size_t length = strcspn(*text, spaces);
  if (strspn(*text, "0123456789+-.eE") != length) return false;
  char *end;

  // strtod takes more than numbers in decimal, so its characters were looked at first.

  // In the C locale: a decimal point, whatever language the program runs in.
  *value = strtod_l(*text, &end, c_locale);
  if (end != *text + length || !isfinite(*value)) return false;
  *text = end;
  return true;
}

bool pbXml_Numbers(const pbXmlDocument *document, const char *text, double *out, int most, int *count, const char **bad) {
  *count = 0;
  for (text += strspn(text, spaces); *text; text += strspn(text, spaces)) {
    double value;

    // Where the message points to, should this one be bad.
    *bad = text;
    if (!read_number(document->c_locale, &text, &value)) return false;
    if (*count < most) out[*count] = value;
    if (*count < INT_MAX) ++*count;
  }

  return true;
}

// ---- nodes --------------------------------------------------------------------------------------------------------------

static void append_child(pbXmlNode *parent, pbXmlNode *node) {
  node->parent = parent;
  node->next = NULL;

  if (parent->last) parent->last->next = node;
  else parent->first = node;
  parent->last = node;
}

void pbXml_Remove(pbXmlNode *node, pbXmlNode *before) {
  pbXmlNode *parent = node->parent;

  if (before) before->next = node->next;
  else parent->first = node->next;
  if (parent->last == node) parent->last = before;

  node->next = NULL;
}

static pbXmlNode *new_node(pbXmlDocument *document) {
  if (document->elements >= PB_XML_ELEMENTS) {
    (void)pbContext_Fail(document->ctx, pb_bad_input, "the model has more than %d elements (replicas counted)", PB_XML_ELEMENTS);
    return NULL;
  }

  pbXmlNode *node = pbSpecPool_Take(&document->pool, 1, sizeof *node);
  if (!node) {
    (void)pbContext_Fail(document->ctx, pb_no_memory, "no memory for the elements of the model");
    return NULL;
  }

  node->element = -1;
  document->elements++;
  return node;
}

pbStatus pbXml_Copy(pbXmlDocument *document, const pbXmlNode *node, pbXmlNode *parent, pbXmlNode **copy) {
  *copy = new_node(document);
  if (!*copy) return document->elements >= PB_XML_ELEMENTS ? pb_bad_input : pb_no_memory;

  // Attributes are shared with the original, children are not copied.
  **copy = *node;
  (*copy)->first = (*copy)->last = NULL;
  append_child(parent, *copy);
  return pb_ok;
}

// ---- one file -----------------------------------------------------------------------------------------------------------

typedef struct parse {
  pbXmlDocument *document;
  XML_Parser parser;
  const char *file;  // name for messages
  pbXmlNode top;     // parent of the file's root
  pbXmlNode *at;     // element that is open
  int depth;
  pbXmlRepair repair;  // where characters were inserted
  bool malformed;      // it ended where the text is no XML
  char *text;          // of the element that began last, where it is kept
  size_t length, room;
  pbStatus status;  // of the first failure
} parse;

// No more of the file is read; the first failure is the one that is told.
static void stop_parser(parse *p, pbStatus status) {
  if (p->status == pb_ok) p->status = status;
  XML_StopParser(p->parser, XML_FALSE);
}

// Where the parser is, in the file as it was before any repair.
static pbPlace place_here(const parse *p) {
  int line = (int)XML_GetCurrentLineNumber(p->parser);
  int column = (int)XML_GetCurrentColumnNumber(p->parser) + 1;
  return (pbPlace){.file = p->file, .line = line, .column = column - pbXmlRepair_Shift(&p->repair, line, column)};
}

static pbStatus fail_here(parse *p, pbStatus status, const char *text) {
  pbPlace place = place_here(p);
  return pbContext_Fail(p->document->ctx, status, "%.400s:%d:%d: %s", place.file, place.line, place.column, text);
}

// Names and values outlive the parser: they go to the document's pool.
static bool copy_attributes(parse *p, pbXmlNode *node, const XML_Char **attributes) {
  // Expat gives names and values in turn, closed by NULL.
  int count = 0;
  while (attributes[2 * count]) count++;

  if (count > PB_XML_ATTRIBUTES) {
    stop_parser(p, fail_here(p, pb_bad_input, "an element has more than 64 attributes"));
    return false;
  }

  pbXmlAttribute *copy = pbSpecPool_Take(&p->document->pool, (size_t)count, sizeof *copy);
  for (int i = 0; copy && i < count; i++) {
    copy[i].name = pbSpecPool_Text(&p->document->pool, attributes[2 * i], strlen(attributes[2 * i]));
    copy[i].value = pbSpecPool_Text(&p->document->pool, attributes[2 * i + 1], strlen(attributes[2 * i + 1]));
    if (!copy[i].name || !copy[i].value) copy = NULL;
  }
  if (!copy) stop_parser(p, fail_here(p, pb_no_memory, "no memory for attributes"));

  node->attributes = copy;
  node->attribute_count = copy ? count : 0;
  return copy != NULL;
}

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes) {
  parse *p = user;
  if (p->status != pb_ok) return;

  if (++p->depth > PB_XML_DEPTH) {
    stop_parser(p, fail_here(p, pb_bad_input, "elements are nested more than 256 deep"));
    return;
  }

  pbXmlNode *node = new_node(p->document);
  if (!node) {
    stop_parser(p, p->document->elements >= PB_XML_ELEMENTS ? pb_bad_input : pb_no_memory);
    return;
  }

  node->place = place_here(p);
  node->name = pbSpecPool_Text(&p->document->pool, name, strlen(name));
  if (!node->name) {
    stop_parser(p, fail_here(p, pb_no_memory, "no memory for elements"));
    return;
  }

  // The element is open now: what follows lies inside of it until it ends.
  if (!copy_attributes(p, node, attributes)) return;
  append_child(p->at, node);
  p->at = node;
  p->length = 0;
}

static void on_text(void *user, const XML_Char *text, int length) {
  parse *p = user;
  size_t need = p->length + (size_t)length + 1;

  if (p->status != pb_ok || !p->document->keeps_text) return;

  // Twice as much, so that a text that comes in pieces is copied a few times at most.
  if (need > p->room) {
    size_t room = 2 * need;
    char *grown = pbContext_Resize(p->document->ctx, p->text, room);
    if (!grown) {
      stop_parser(p, fail_here(p, pb_no_memory, "no memory for the text of an element"));
      return;
    }

    p->text = grown;
    p->room = room;
  }

  memcpy(p->text + p->length, text, (size_t)length);
  p->length += (size_t)length;
}

static void on_end(void *user, const XML_Char *name) {
  parse *p = user;
  (void)name;
  if (p->status != pb_ok) return;

  PB_ASSERT(p->depth > 0);  // expat reports ends of what has begun only
  p->depth--;

  // Of elements with children nobody asks for it.
  if (p->length && !p->at->first) {
    p->at->text = pbSpecPool_Text(&p->document->pool, p->text, p->length);
    if (!p->at->text) stop_parser(p, fail_here(p, pb_no_memory, "no memory for the text of an element"));
  }

  p->length = 0;
  p->at = p->at->parent;
}

static void on_doctype(void *user, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id, int internal) {
  parse *p = user;
  (void)name;
  (void)system_id;
  (void)public_id;
  (void)internal;

  stop_parser(p, fail_here(p, pb_bad_input, "document type declarations (<!DOCTYPE>) are not accepted: models need none"));
}

// All of a text, by a parser of its own. Elements of an attempt that failed do not count.
static void run_parser(parse *p, const char *text, size_t length) {
  int elements = p->document->elements;
  p->status = pb_ok;
  p->top = (pbXmlNode){0};
  p->at = &p->top;
  p->depth = 0;
  p->length = 0;
  p->malformed = false;

  // UTF-8 whatever the file says of itself, as MuJoCo takes it.
  p->parser = XML_ParserCreate("UTF-8");
  if (!p->parser) {
    p->status = pbContext_Fail(p->document->ctx, pb_no_memory, "%.400s: no memory to read it", p->file);
    return;
  }

  XML_SetUserData(p->parser, p);
  XML_SetElementHandler(p->parser, on_start, on_end);
  XML_SetCharacterDataHandler(p->parser, on_text);
  XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);

  // Handlers stop the parser with a status of their own; else the parser says what is wrong.
  if (XML_Parse(p->parser, text, (int)length, 1) != XML_STATUS_OK && p->status == pb_ok) {
    char reason[160];
    enum XML_Error code = XML_GetErrorCode(p->parser);
    snprintf(reason, sizeof reason, "not well-formed XML: %s", XML_ErrorString(code));
    p->malformed = code != XML_ERROR_NO_MEMORY;
    p->status = fail_here(p, p->malformed ? pb_bad_input : pb_no_memory, reason);
  }

  if (p->status != pb_ok) p->document->elements = elements;
  XML_ParserFree(p->parser);
}

// What MuJoCo takes although it is no XML, in a second attempt; warnings say what that was.
static void run_repaired(parse *p, const char *text, size_t length) {
  pbContext *ctx = p->document->ctx;
  pbStatus status = pbXmlRepair_Text(ctx, text, length, p->file, &p->repair);

  if (status != pb_ok) p->status = status;
  else if (p->repair.faults) run_parser(p, p->repair.text, p->repair.length);
  pbXmlRepair_Free(ctx, &p->repair);
}

// Parse one file's text; its root element goes to *root.
static pbStatus parse_text(pbXmlDocument *document, const char *text, size_t length, const char *name, pbXmlNode **root) {
  size_t most = document->most_bytes ? document->most_bytes : PB_XML_FILE;
  size_t most_together = document->most_bytes ? document->most_bytes : PB_XML_BYTES;
  if (length > most) return pbContext_Fail(document->ctx, pb_bad_input, "%.400s: longer than %zu MiB", name, most >> 20);

  document->bytes += length;

  // Includes cannot make a model grow without bound.
  if (document->bytes > most_together)
    return pbContext_Fail(document->ctx, pb_bad_input, "%.400s: the model's files together are longer than %zu MiB", name,
                          most_together >> 20);

  // The root element becomes a child of `top`, so that all elements are appended alike.
  parse p = {.document = document};
  p.file = pbSpecPool_Text(document->names, name, strlen(name));
  if (!p.file) return pbContext_Fail(document->ctx, pb_no_memory, "%.400s: no memory to read it", name);
  run_parser(&p, text, length);
  if (p.malformed && !document->keeps_text) run_repaired(&p, text, length);
  pbContext_Free(document->ctx, p.text);

  // The pool holds the nodes, also where the rest of the file was bad.
  *root = p.top.first;
  if (p.status == pb_ok && *root) (*root)->parent = NULL;
  return p.status;
}

// ---- files and folders --------------------------------------------------------------------------------------------------

pbStatus pbXml_RealPath(pbXmlDocument *document, const char *path, char **real) {
  char resolved[PATH_MAX];
  *real = NULL;

  if (!realpath(path, resolved)) return pb_ok;
  *real = pbSpecPool_Text(&document->pool, resolved, strlen(resolved));
  return *real ? pb_ok : pbContext_Fail(document->ctx, pb_no_memory, "%.400s: no memory to read it", path);
}

pbStatus pbXml_ReadFile(pbXmlDocument *document, const char *real, const char *shown, pbXmlNode **root) {
  pbXmlFile *file = pbSpecPool_Take(&document->pool, 1, sizeof *file);
  if (!file) return pbContext_Fail(document->ctx, pb_no_memory, "%.400s: no memory to read it", shown);

  file->real = pbSpecPool_Text(&document->pool, real, strlen(real));
  if (!file->real) return pbContext_Fail(document->ctx, pb_no_memory, "%.400s: no memory to read it", shown);

  // Known from now on: it may not be included again.
  file->next = document->files;
  document->files = file;

  char *text = NULL;
  size_t length = 0;
  PB_TRY(pbFile_ReadAll(document->ctx, real, PB_XML_FILE, &text, &length));
  pbStatus status = parse_text(document, text, length, shown, root);

  pbContext_Free(document->ctx, text);
  return status;
}

bool pbXml_Join(char *out, size_t size, const char *of, const char *name) {
  const char *slash = strrchr(of, '/');
  int n = *name == '/' || !slash ? snprintf(out, size, "%s", name) : snprintf(out, size, "%.*s/%s", (int)(slash - of), of, name);

  return n > 0 && (size_t)n < size;
}

pbStatus pbXml_CheckInside(pbXmlDocument *document, const pbXmlNode *node, const char *name, const char *real) {
  if (pbRoots_Inside(real, document->folder) || pbRoots_Hold(&document->roots, real)) return pb_ok;

  // The option as it may be given.
  const char *slash = strrchr(real, '/');
  return pbXml_Fail(document, pb_unsupported, node,
                    "file '%s' lies outside the model's folder %s; allow its folder as a root (--allow-root %.*s) to read it",
                    name, document->folder, (int)(slash - real), real);
}

pbStatus pbXml_FindFile(pbXmlDocument *document, const pbXmlNode *node, const char *name, char **real) {
  return pbXml_FindBeside(document, node, document->root->place.file, name, real);
}

pbStatus pbXml_FindBeside(pbXmlDocument *document, const pbXmlNode *node, const char *of, const char *name, char **real) {
  char path[PATH_MAX];
  if (!document->folder) return pbXml_Fail(document, pb_unsupported, node, "a model given as text cannot read file '%s'", name);
  if (!pbXml_Join(path, sizeof path, of, name))
    return pbXml_Fail(document, pb_file, node, "the name of file '%.100s' is too long", name);

  PB_TRY(pbXml_RealPath(document, path, real));
  if (!*real) return pbXml_Fail(document, pb_file, node, "file '%s' cannot be found", name);
  return pbXml_CheckInside(document, node, name, *real);
}

// ---- documents ----------------------------------------------------------------------------------------------------------

pbStatus pbXml_Allow(pbXmlDocument *document, const char *folder) { return pbRoots_Add(document->ctx, folder, &document->roots); }

// The model's folder is the one its name was given in, also where that name is a link to somewhere else.
static pbStatus find_folders(pbXmlDocument *document, const char *path, const pbLoadOptions *options) {
  char folder[PATH_MAX];
  if (!pbXml_Join(folder, sizeof folder, path, "."))
    return pbContext_Fail(document->ctx, pb_file, "%.400s: the name is too long", path);

  PB_TRY(pbXml_RealPath(document, folder, &document->folder));
  if (!document->folder) return pbContext_Fail(document->ctx, pb_file, "%.400s: its folder cannot be found", path);

  return pbRoots_Open(document->ctx, options ? options->allow_root : NULL, &document->roots);
}

pbStatus pbXml_Open(pbXmlDocument *document, pbContext *ctx, pbSpecPool *names) {
  *document = (pbXmlDocument){.ctx = ctx, .pool.ctx = ctx, .names = names};
  document->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return document->c_locale ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "no memory for the C locale");
}

pbStatus pbXml_Load(pbXmlDocument *document, const char *path, const pbLoadOptions *options) {
  char *real;

  PB_TRY(pbXml_RealPath(document, path, &real));
  if (!real) return pbContext_Fail(document->ctx, pb_file, "%.400s: the file cannot be found", path);

  PB_TRY(find_folders(document, path, options));
  return pbXml_ReadFile(document, real, path, &document->root);
}

pbStatus pbXml_Parse(pbXmlDocument *document, const char *text, size_t length, const char *name) {
  return parse_text(document, text, length, name, &document->root);
}

void pbXml_Close(pbXmlDocument *document) {
  if (document->c_locale) freelocale(document->c_locale);
  pbRoots_Close(document->ctx, &document->roots);
  pbSpecPool_Clear(&document->pool);
  *document = (pbXmlDocument){0};
}
