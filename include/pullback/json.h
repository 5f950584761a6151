// Pullback: descriptions as the values of JSON: written as text, or told to the caller value by value, so that what a program
// prints and what its caller gets come from one place (pbModel_Describe, pbMaterial_Describe, pbTask_DescribeResult, ...).
//
//   pbJson_Open(&(pbJson){.out = stdout}, NULL, '{')   then pbJson_Text, pbJson_Number, ..., pbJson_Close of all that was opened
//
// Numbers have a point in every locale. A library that was built with PULLBACK_IO=OFF lacks all of it.
#ifndef PULLBACK_JSON_H
#define PULLBACK_JSON_H

#include <stdio.h>

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// Who is told of values. key: NULL in a list and of the outermost value.
typedef struct pbJsonTold {
  void (*open)(void *user, const char *key, char bracket);  // '{' or '['
  void (*close)(void *user);
  void (*text)(void *user, const char *key, const char *value);
  void (*number)(void *user, const char *key, double value);  // finite
  void (*integer)(void *user, const char *key, int64_t value);
  void (*boolean)(void *user, const char *key, bool value);
  void (*nothing)(void *user, const char *key);  // null
} pbJsonTold;

enum { PB_JSON_DEPTH = 16 };  // most objects and lists within each other
typedef struct pbJson {
  FILE *out;               // text goes there; NULL: `told` is told instead
  const pbJsonTold *told;  // NULL with `out`
  void *user;
  bool compact;  // all on one line
  int depth;     // of what is open; zero in the beginning, as all below
  bool some[PB_JSON_DEPTH], inner[PB_JSON_DEPTH];
} pbJson;
PB_API void pbJson_Open(pbJson *j, const char *key, char bracket);       // '{' or '['; key NULL in a list
PB_API void pbJson_OpenLine(pbJson *j, const char *key, char bracket);   // the same, what is inside on one line
PB_API void pbJson_Close(pbJson *j, char bracket);                       // '}' or ']'
PB_API void pbJson_Text(pbJson *j, const char *key, const char *value);  // escaped, also for the script of a page
PB_API void pbJson_Number(pbJson *j, const char *key, double value);  // shortest that gives it back; null where it is not finite
PB_API void pbJson_Integer(pbJson *j, const char *key, int64_t value);
PB_API void pbJson_Bool(pbJson *j, const char *key, bool value);
PB_API void pbJson_Null(pbJson *j, const char *key);
PB_API void pbJson_Numbers(pbJson *j, const char *key, const double *values, size_t count);

#ifdef __cplusplus
}
#endif
#endif
