#include "io/file.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *copy_text(pbContext *ctx, const char *text, const char *suffix) {
  size_t a = strlen(text), b = strlen(suffix);
  char *copy = pbContext_Alloc(ctx, a + b + 1);
  if (!copy) return NULL;
  memcpy(copy, text, a);
  memcpy(copy + a, suffix, b + 1);
  return copy;
}

static pbStatus no_memory(pbContext *ctx, const char *path) {
  return pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", path);
}

// A name beside the target, made with the permissions a plain fopen would give.
static pbStatus open_temporary(pbFile *file) {
  file->temporary = copy_text(file->ctx, file->path, ".part-XXXXXX");
  if (!file->temporary) return no_memory(file->ctx, file->path);
  int fd = mkstemp(file->temporary);
  if (fd < 0) {
    pbStatus status = pbContext_Fail(file->ctx, pb_file, "%s: cannot be written: %s", file->path, strerror(errno));
    pbContext_Free(file->ctx, file->temporary);
    file->temporary = NULL;
    return status;
  }
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd, 0666 & ~mask) != 0) errno = 0;  // some file systems have no permissions to set
  file->stream = fdopen(fd, "wb");
  if (file->stream) return pb_ok;
  close(fd);
  return no_memory(file->ctx, file->path);
}

pbStatus pbFile_Begin(pbContext *ctx, const char *path, pbFile *file) {
  *file = (pbFile){.ctx = ctx};
  char *real = realpath(path, NULL);  // the target of a link is replaced, not the link
  file->path = copy_text(ctx, real ? real : path, "");
  free(real);
  if (!file->path) return no_memory(ctx, path);
  struct stat info;
  bool exists = stat(path, &info) == 0;
  pbStatus status = pb_ok;
  if (exists && S_ISDIR(info.st_mode)) {
    status = pbContext_Fail(ctx, pb_file, "%s: is a folder", path);
  } else if (exists && !S_ISREG(info.st_mode)) {
    file->stream = fopen(path, "wb");
    if (!file->stream) status = pbContext_Fail(ctx, pb_file, "%s: cannot be written: %s", path, strerror(errno));
  } else {
    status = open_temporary(file);
  }
  if (status != pb_ok) pbFile_Abort(file);
  return status;
}

pbStatus pbFile_Commit(pbFile *file) {
  errno = 0;
  bool bad = ferror(file->stream) != 0;
  if (fflush(file->stream) != 0) bad = true;
  if (file->temporary && !bad && fsync(fileno(file->stream)) != 0 && errno != EINVAL) bad = true;
  if (fclose(file->stream) != 0) bad = true;
  file->stream = NULL;
  if (!bad && file->temporary && rename(file->temporary, file->path) != 0) bad = true;
  pbStatus status = pb_ok;
  if (bad) status = pbContext_Fail(file->ctx, pb_file, "%s: could not be written: %s", file->path, strerror(errno ? errno : EIO));
  if (!bad && file->temporary) {
    pbContext_Free(file->ctx, file->temporary);
    file->temporary = NULL;
  }
  pbFile_Abort(file);
  return status;
}

void pbFile_Abort(pbFile *file) {
  if (file->stream) fclose(file->stream);
  if (file->temporary) unlink(file->temporary);
  if (file->ctx) {
    pbContext_Free(file->ctx, file->temporary);
    pbContext_Free(file->ctx, file->path);
  }
  *file = (pbFile){0};
}

pbStatus pbFile_Open(pbContext *ctx, const char *path, FILE **stream, size_t *size) {
  struct stat info;
  if (stat(path, &info) != 0) return pbContext_Fail(ctx, pb_file, "%s: cannot be read: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return pbContext_Fail(ctx, pb_bad_input, "%s: is not a regular file", path);
  *stream = fopen(path, "rb");
  if (!*stream) return pbContext_Fail(ctx, pb_file, "%s: cannot be read: %s", path, strerror(errno));
  *size = (size_t)info.st_size;
  return pb_ok;
}

pbStatus pbFile_ReadAll(pbContext *ctx, const char *path, size_t limit, char **text, size_t *length) {
  FILE *stream = NULL;
  size_t size = 0;
  PB_TRY(pbFile_Open(ctx, path, &stream, &size));
  pbStatus status = pb_ok;
  char *memory = NULL;
  if (size > limit) {
    status = pbContext_Fail(ctx, pb_bad_input, "%s: %zu bytes; at most %zu are read", path, size, limit);
  } else if (!(memory = pbContext_Alloc(ctx, size + 1))) {
    status = no_memory(ctx, path);
  } else if (fread(memory, 1, size, stream) != size) {
    status = pbContext_Fail(ctx, pb_file, "%s: could not be read", path);
  }
  fclose(stream);
  if (status != pb_ok) {
    pbContext_Free(ctx, memory);
    return status;
  }
  *text = memory;
  *length = size;
  return pb_ok;
}

pbStatus pbFile_WriteText(pbContext *ctx, const char *path, void (*put)(FILE *stream, const void *what), const void *what) {
  pbFile file;
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return no_memory(ctx, path);
  pbStatus status = pbFile_Begin(ctx, path, &file);
  if (status == pb_ok) {
    locale_t before = uselocale(plain);  // of this thread alone
    put(file.stream, what);
    uselocale(before);
    status = pbFile_Commit(&file);
  }
  freelocale(plain);
  return status;
}
