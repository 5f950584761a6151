// MuJoCo's archives (.mjz): a ZIP of a model and what it names, unpacked into a private folder while it is read.
#ifndef PB_IO_ARCHIVE_H
#define PB_IO_ARCHIVE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

#include <pullback/base.h>

typedef struct pbArchive {
  char folder[PATH_MAX];  // private, real; "": there is none
  char model[PATH_MAX];   // the file of the model in it
  pbContext *ctx;
  char *names;  // of its files, one behind the other, each with its zero: they are removed without any memory
  size_t names_size;
  sigset_t before;  // signals that were held; those that end a program wait while the folder is there
  bool holding;
} pbArchive;

bool pbArchive_Is(const char *path);  // by its ending
// Members are regular files below the folder: a name that leads out of it and more than 1 GiB in all are errors before anything
// of it is unpacked, one that is there twice when it comes. The model is NAME.xml or model.xml, at the top or in a folder NAME,
// NAME the archive's, else the only file that ends in .xml or .urdf. Close it in any case: until then the thread holds SIGINT,
// SIGTERM and SIGHUP, so that nothing is left behind; one of them ends the unpacking with pb_interrupted.
PB_NODISCARD pbStatus pbArchive_Open(pbContext *ctx, const char *path, pbArchive *archive);
void pbArchive_Close(pbArchive *archive);  // the folder is gone
// Texts that name files of the folder come to name them as the archive does: the error, warnings, one text in place.
void pbArchive_NameInMessages(const pbArchive *archive, pbContext *ctx, pbStatus status);
void pbArchive_NameInText(const pbArchive *archive, char *text);

#endif
