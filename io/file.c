// Files that appear whole or not at all, and files read as a whole. A file is written beside its target, without a name where
// the system has that, and renamed onto it at the end.
// Tests: tests/unit/test_npz.c.
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pullback/io.h>

#include "base/context.h"

static const char part_name[] = ".part-00000000";  // behind that of the target

bool pbFile_IsDescriptor(const char *path) {
  return !strncmp(path, "/proc/self/fd/", 14) || !strncmp(path, "/dev/fd/", 8) || !strcmp(path, "/dev/stdin");
}

const char *pbFile_Called(const char *path) { return pbFile_IsDescriptor(path) ? "description" : path; }

static char *copy_text(pbContext *ctx, const char *text, const char *suffix) {
  size_t length = strlen(text);
  size_t more = strlen(suffix);
  char *copy = pbContext_Alloc(ctx, length + more + 1);
  if (!copy) return NULL;

  memcpy(copy, text, length);
  memcpy(copy + length, suffix, more + 1);
  return copy;
}

static pbStatus no_memory(pbContext *ctx, const char *path) {
  return pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", path);
}

// Names that nobody else makes at the same time: by process, file and moment. Taken ones are refused by O_EXCL.
static void set_temporary_name(const pbFile *file, unsigned attempt) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);

  // Mixed by a multiplication (Fibonacci hashing): the upper bits depend on all of them.
  uint64_t bits = (uint64_t)(uintptr_t)file ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec << 40 ^ (uint64_t)attempt;
  bits = (bits ^ (uint64_t)getpid() << 32) * 0x9e3779b97f4a7c15u;
  snprintf(file->temporary + strlen(file->path), sizeof part_name, ".part-%08x", (unsigned)(bits >> 32));
}

// The file without a name: nothing of it is left when the program is killed. Not all file systems have that.
static int open_nameless(const pbFile *file) {
#ifdef O_TMPFILE
  // It belongs to the folder of the target.
  char *slash = strrchr(file->path, '/');
  if (!slash) return open(".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (slash == file->path) return open("/", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

  *slash = 0;
  int fd = open(file->path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  *slash = '/';
  return fd;
#else
  (void)file;
  return -1;
#endif
}

enum { MOST_NAMES = 100 };  // names that are tried

static int open_named(const pbFile *file) {
  int fd = -1;
  for (unsigned attempt = 0; attempt < MOST_NAMES && fd < 0; attempt++) {
    set_temporary_name(file, attempt);
    fd = open(file->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  return fd;
}

// A file beside the target, with the permissions a plain fopen would give: the kernel takes the mask off by itself.
static pbStatus open_temporary(pbFile *file) {
  file->temporary = copy_text(file->ctx, file->path, part_name);
  if (!file->temporary) return no_memory(file->ctx, file->path);

  int fd = open_nameless(file);
  file->nameless = fd >= 0;
  if (fd < 0) fd = open_named(file);
  if (fd < 0) {
    pbStatus status = pbContext_Fail(file->ctx, pb_file, "%s: cannot be written: %s", file->path, strerror(errno));
    pbContext_Free(file->ctx, file->temporary);
    file->temporary = NULL;
    return status;
  }

  file->stream = fdopen(fd, "wb");
  if (file->stream) return pb_ok;

  close(fd);
  return no_memory(file->ctx, file->path);
}

// A name for what has none, just before it is renamed.
static bool give_name(pbFile *file) {
  char self[64];

  // The kernel's own link to the open file.
  snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(file->stream));

  for (unsigned attempt = 0; attempt < MOST_NAMES; attempt++) {
    set_temporary_name(file, attempt);
    if (linkat(AT_FDCWD, self, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
      file->nameless = false;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

// SIGINT or SIGTERM waits for whoever holds signals back.
static bool signal_waits(void) {
  sigset_t set;
  return sigpending(&set) == 0 && (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1);
}

// A pipe opens when somebody reads it; until then one can still be interrupted.
static pbStatus open_pipe(pbFile *file, const char *path) {
  static const struct timespec pause = {.tv_nsec = 20000000};

  // Without a reader open fails at once (ENXIO) instead of waiting, where no signal would be noticed.
  int fd;
  while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO) {
    if (signal_waits() || nanosleep(&pause, NULL) != 0)
      return pbContext_Fail(file->ctx, pb_interrupted, "%s: interrupted: nobody reads the pipe", path);
  }

  // Writing waits for the reader as usual.
  if (fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) file->stream = fdopen(fd, "wb");
  if (file->stream) return pb_ok;

  pbStatus status = pbContext_Fail(file->ctx, pb_file, "%s: cannot be written: %s", path, strerror(errno));
  if (fd >= 0) close(fd);
  return status;
}

pbStatus pbFile_Begin(pbContext *ctx, const char *path, pbFile *file) {
  *file = (pbFile){.ctx = ctx};

  // The target of a link is replaced, not the link.
  char *real = realpath(path, NULL);
  file->path = copy_text(ctx, real ? real : path, "");
  free(real);
  if (!file->path) return no_memory(ctx, path);

  // Regular files are replaced at the end; pipes and devices are written directly.
  struct stat info;
  bool exists = stat(path, &info) == 0;
  pbStatus status = pb_ok;
  if (exists && S_ISDIR(info.st_mode)) {
    status = pbContext_Fail(ctx, pb_file, "%s: is a folder", path);
  } else if (exists && S_ISFIFO(info.st_mode)) {
    status = open_pipe(file, path);
  } else if (exists && !S_ISREG(info.st_mode)) {
    file->stream = fopen(path, "wb");
    if (!file->stream) status = pbContext_Fail(ctx, pb_file, "%s: cannot be written: %s", path, strerror(errno));
  } else {
    status = open_temporary(file);
  }

  if (status != pb_ok) pbFile_Abort(file);
  return status;
}

pbStatus pbFile_CanWrite(pbContext *ctx, const char *path) {
  struct stat info;
  pbFile file;

  // What is no regular file is opened only when it is written: opening a pipe can wait.
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return pb_ok;

  PB_TRY(pbFile_Begin(ctx, path, &file));
  pbFile_Abort(&file);
  return pb_ok;
}

pbStatus pbFile_Commit(pbFile *file) {
  // The first failure is the one that errno names.
  errno = 0;

  bool bad = ferror(file->stream) != 0;
  if (fflush(file->stream) != 0) bad = true;

  // On the disk before it has its name: after a crash the target is the old file or the new one. EINVAL: not to be synced.
  if (file->temporary && !bad && fsync(fileno(file->stream)) != 0 && errno != EINVAL) bad = true;
  if (!bad && file->nameless && !give_name(file)) bad = true;

  if (fclose(file->stream) != 0) bad = true;
  file->stream = NULL;
  if (!bad && file->temporary && rename(file->temporary, file->path) != 0) bad = true;

  pbStatus status = pb_ok;
  if (bad) status = pbContext_Fail(file->ctx, pb_file, "%s: could not be written: %s", file->path, strerror(errno ? errno : EIO));

  // Renamed: nothing is left for Abort to remove.
  if (!bad && file->temporary) {
    pbContext_Free(file->ctx, file->temporary);
    file->temporary = NULL;
  }

  pbFile_Abort(file);
  return status;
}

void pbFile_Abort(pbFile *file) {
  if (file->stream) fclose(file->stream);

  // Without a name it is gone already.
  if (file->temporary && !file->nameless) unlink(file->temporary);

  if (file->ctx) {
    pbContext_Free(file->ctx, file->temporary);
    pbContext_Free(file->ctx, file->path);
  }
  *file = (pbFile){0};
}

pbStatus pbFile_Open(pbContext *ctx, const char *path, FILE **stream, size_t *size) {
  struct stat info;
  if (stat(path, &info) != 0) return pbContext_Fail(ctx, pb_file, "%s: cannot be read: %s", path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return pbContext_Fail(ctx, pb_bad_input, "%s: expected a file, found a folder", path);
  if (!S_ISREG(info.st_mode)) return pbContext_Fail(ctx, pb_bad_input, "%s: is not a regular file", path);

  pbContext_FileOpened(ctx, path);
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

  // The size is known before anything is allocated; one more byte is the closing zero.
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

pbStatus pbFile_Write(pbContext *ctx, const char *path, const void *bytes, size_t size) {
  pbFile file;
  PB_TRY(pbFile_Begin(ctx, path, &file));

  fwrite(bytes, 1, size, file.stream);  // Commit sees what fails

  return pbFile_Commit(&file);
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
