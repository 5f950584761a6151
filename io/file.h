// Files that appear whole or not at all: written beside their target under another name, then renamed.
#ifndef PB_IO_FILE_H
#define PB_IO_FILE_H

#include <stdio.h>

#include <pullback/base.h>

#include "io/stream.h"

// It stays where it is between Begin and Commit or Abort.
typedef struct pbFile {
  pbContext *ctx;
  FILE *stream;     // write here; errors are found by Commit
  pbSink sink;      // where the stream leads, and what its first error was
  char *path;       // where it will lie, symbolic links followed
  bool nameless;    // nothing lies under the temporary name yet
  char *temporary;  // NULL where path is no regular file (a device, a pipe): that is written directly
  size_t stem;      // where the ending of the temporary name begins
} pbFile;

// Open for writing. pb_file if the folder cannot be written. A pipe that nobody reads: pb_interrupted by a signal, one that is
// held back (SIGINT, SIGTERM, SIGHUP) included. A file that is replaced leaves its permissions to the new one.
PB_NODISCARD pbStatus pbFile_Begin(pbContext *ctx, const char *path, pbFile *file);
// Close and move to the target; on failure nothing is left behind.
PB_NODISCARD pbStatus pbFile_Commit(pbFile *file);
void pbFile_Abort(pbFile *file);  // drop it; fine after Commit
// A file that a process holds open lies in no folder: in memory, or what a shell made for one command.
bool pbFile_IsDescriptor(const char *path);
// What it is called in messages and files: the path, or "description" where that is the number of a descriptor.
const char *pbFile_Called(const char *path);
// Open a regular file for reading and say its size. A folder, device or pipe is pb_bad_input.
PB_NODISCARD pbStatus pbFile_Open(pbContext *ctx, const char *path, FILE **stream, size_t *size);
// What errno says of a file that was to be read, as an error: pb_file, pb_no_memory for want of memory.
PB_NODISCARD pbStatus pbFile_CannotRead(pbContext *ctx, const char *path);
// The whole file, zero-terminated; the caller frees *text. pb_bad_input where it is longer than `limit`.
PB_NODISCARD pbStatus pbFile_ReadAll(pbContext *ctx, const char *path, size_t limit, char **text, size_t *length);
// A text whole or not at all, with a point in its numbers whatever language the program runs in.
PB_NODISCARD pbStatus pbFile_WriteText(pbContext *ctx, const char *path, void (*put)(FILE *stream, const void *what),
                                       const void *what);

#endif
