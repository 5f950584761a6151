// XML where expat's headers are not there: the part of its interface that Pullback uses, by the expat inside of Python, which gives
// out its functions in a capsule. They are called without the interpreter's lock, as those of a library would be.
#ifndef PB_WITHOUT_EXPAT_H
#define PB_WITHOUT_EXPAT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct XML_ParserStruct *XML_Parser;
typedef char XML_Char;
typedef char XML_LChar;
typedef unsigned char XML_Bool;
typedef unsigned long XML_Size;
typedef long XML_Index;
#define XML_TRUE  ((XML_Bool)1)
#define XML_FALSE ((XML_Bool)0)
enum XML_Status { XML_STATUS_ERROR, XML_STATUS_OK };
enum XML_Error { XML_ERROR_NONE, XML_ERROR_NO_MEMORY };  // the others by their text alone

typedef struct XML_Memory_Handling_Suite {
  void *(*malloc_fcn)(size_t size);
  void *(*realloc_fcn)(void *memory, size_t size);
  void (*free_fcn)(void *memory);
} XML_Memory_Handling_Suite;
typedef void (*XML_StartElementHandler)(void *user, const XML_Char *name, const XML_Char **attributes);
typedef void (*XML_EndElementHandler)(void *user, const XML_Char *name);
typedef void (*XML_CharacterDataHandler)(void *user, const XML_Char *text, int length);
typedef void (*XML_StartDoctypeDeclHandler)(void *user, const XML_Char *name, const XML_Char *system_id,
                                            const XML_Char *public_id, int internal);

// When the extension is loaded, before all others: false with an exception of Python.
bool pyExpat_Start(void);

XML_Parser XML_ParserCreate(const XML_Char *encoding);
void XML_ParserFree(XML_Parser parser);
void XML_SetUserData(XML_Parser parser, void *user);
void XML_SetElementHandler(XML_Parser parser, XML_StartElementHandler start, XML_EndElementHandler end);
void XML_SetCharacterDataHandler(XML_Parser parser, XML_CharacterDataHandler handler);
void XML_SetStartDoctypeDeclHandler(XML_Parser parser, XML_StartDoctypeDeclHandler handler);

// The whole of a text at once.
enum XML_Status XML_Parse(XML_Parser parser, const char *text, int length, int last);
// From a handler: no other is called after it, and XML_Parse fails.
enum XML_Status XML_StopParser(XML_Parser parser, XML_Bool resumable);
enum XML_Error XML_GetErrorCode(XML_Parser parser);
const XML_LChar *XML_ErrorString(enum XML_Error code);

// From a handler, or after an error: where it is. Lines from 1 on, columns from 0 on.
XML_Size XML_GetCurrentLineNumber(XML_Parser parser);
XML_Size XML_GetCurrentColumnNumber(XML_Parser parser);
// From the handler of a start tag: its first byte and its length. Where that cannot be told the end of the text and 0.
XML_Index XML_GetCurrentByteIndex(XML_Parser parser);
int XML_GetCurrentByteCount(XML_Parser parser);
#endif
