// Expat's functions by the capsule of Python's module pyexpat (pyexpat.h). It has not all of them: a parser is stopped by taking its
// handlers and its memory away, and bytes are found in the text by line and column. One parser runs in a thread at a time.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // strcasestr
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>
//
#include <expat.h>

// What pyexpat.h names and nobody calls here.
typedef void (*XML_CommentHandler)(void);
typedef void (*XML_DefaultHandler)(void);
typedef void (*XML_StartNamespaceDeclHandler)(void);
typedef void (*XML_EndNamespaceDeclHandler)(void);
typedef void (*XML_ProcessingInstructionHandler)(void);
typedef void (*XML_UnknownEncodingHandler)(void);
typedef struct XML_Encoding XML_Encoding;
#include <pyexpat.h>

static const struct PyExpat_CAPI *python;

bool pyExpat_Start(void) {
  python = PyCapsule_Import(PyExpat_CAPSULE_NAME, 0);
  if (!python) return false;

  bool known = !strcmp(python->magic, PyExpat_CAPI_MAGIC) &&
               python->size >= (int)(offsetof(struct PyExpat_CAPI, SetStartDoctypeDeclHandler) + sizeof(void *));
  if (!known)
    PyErr_SetString(PyExc_ImportError, "pullback was built for another interface of pyexpat: build it again for this Python");
  return known;
}

// ---- a parser and its text --------------------------------------------------------------------------------------------------

static _Thread_local struct {
  const char *text;
  size_t length;
  bool stopped;
} now;

static void *take_memory(size_t size) { return now.stopped ? NULL : malloc(size); }
static void *resize_memory(void *memory, size_t size) { return now.stopped ? NULL : realloc(memory, size); }

XML_Parser XML_ParserCreate(const XML_Char *encoding) {
  static const XML_Memory_Handling_Suite memory = {take_memory, resize_memory, free};
  now.stopped = false;
  return python->ParserCreate_MM(encoding, &memory, NULL);
}

void XML_ParserFree(XML_Parser parser) { python->ParserFree(parser); }

void XML_SetUserData(XML_Parser parser, void *user) { python->SetUserData(parser, user); }

void XML_SetElementHandler(XML_Parser parser, XML_StartElementHandler start, XML_EndElementHandler end) {
  python->SetElementHandler(parser, start, end);
}

void XML_SetCharacterDataHandler(XML_Parser parser, XML_CharacterDataHandler handler) {
  python->SetCharacterDataHandler(parser, handler);
}

void XML_SetStartDoctypeDeclHandler(XML_Parser parser, XML_StartDoctypeDeclHandler handler) {
  python->SetStartDoctypeDeclHandler(parser, handler);
}

enum XML_Status XML_Parse(XML_Parser parser, const char *text, int length, int last) {
  now.text = text;
  now.length = (size_t)length;
  now.stopped = false;
  enum XML_Status status = python->Parse(parser, text, length, last);
  return now.stopped ? XML_STATUS_ERROR : status;
}

enum XML_Status XML_StopParser(XML_Parser parser, XML_Bool resumable) {
  (void)resumable;
  now.stopped = true;
  python->SetElementHandler(parser, NULL, NULL);
  python->SetCharacterDataHandler(parser, NULL);
  python->SetStartDoctypeDeclHandler(parser, NULL);
  return XML_STATUS_OK;
}

enum XML_Error XML_GetErrorCode(XML_Parser parser) { return python->GetErrorCode(parser); }

const XML_LChar *XML_ErrorString(enum XML_Error code) { return python->ErrorString(code); }

// ---- where it is ------------------------------------------------------------------------------------------------------------

// Expat's functions of an error's place are those of the present place.
XML_Size XML_GetCurrentLineNumber(XML_Parser parser) { return python->GetErrorLineNumber(parser); }
XML_Size XML_GetCurrentColumnNumber(XML_Parser parser) { return python->GetErrorColumnNumber(parser); }

// Are characters bytes? They are those of UTF-8 where the first line says nothing else.
static bool has_single_bytes(void) {
  char head[128] = {0};
  memcpy(head, now.text, now.length < sizeof head - 1 ? now.length : sizeof head - 1);
  char *end = strstr(head, "?>");
  if (end) *end = 0;
  return end && (strcasestr(head, "ISO-8859-1") || strcasestr(head, "US-ASCII"));
}

// The place in the text of the line and column of a parser: lines end as expat counts them.
static const char *place_of(XML_Parser parser) {
  bool single = has_single_bytes();
  XML_Size line = XML_GetCurrentLineNumber(parser), column = XML_GetCurrentColumnNumber(parser);
  const char *at = now.text, *end = now.text + now.length;

  for (; line > 1 && at < end; at++) {
    if (*at == '\n' || (*at == '\r' && !(at + 1 < end && at[1] == '\n'))) line--;
  }
  for (; at < end; at++) {
    bool begins = single || ((unsigned char)*at & 0xC0) != 0x80;
    if (begins && column-- == 0) break;
  }
  return at;
}

// The start tag at the present place; its end is behind the next > that is not quoted. Empty at the end of the text: there is none,
// as in an encoding of other characters than those.
static size_t find_tag(XML_Parser parser, const char **begin) {
  const char *end = now.text + now.length;
  char quote = 0;
  *begin = place_of(parser);

  for (const char *at = *begin; at < end && **begin == '<'; at++) {
    if (quote) quote = *at == quote ? 0 : quote;
    else if (*at == '"' || *at == '\'') quote = *at;
    else if (*at == '>') return (size_t)(at + 1 - *begin);
  }
  *begin = end;
  return 0;
}

XML_Index XML_GetCurrentByteIndex(XML_Parser parser) {
  const char *begin;
  find_tag(parser, &begin);
  return (XML_Index)(begin - now.text);
}

int XML_GetCurrentByteCount(XML_Parser parser) {
  const char *begin;
  return (int)find_tag(parser, &begin);
}
