// Files that appear whole or not at all, and files read as a whole. A file is written beside its target, without a name where
// the system has that, and renamed onto it at the end.
// Tests: tests/unit/test_npz.c, tests/world/failing_world.py.
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pullback/io.h>

#include "base/context.h"

static const char part_name[] = ".part-00000000";             // behind that of the target
enum { MOST_NAME = 255, MOST_LINKS = 40, MOST_NAMES = 100 };  // of a name in a folder; links followed; temporary names tried

bool pbFile_IsDescriptor(const char *path) {
  return !strncmp(path, "/proc/self/fd/", 14) || !strncmp(path, "/dev/fd/", 8) || !strcmp(path, "/dev/stdin");
}

const char *pbFile_Called(const char *path) { return pbFile_IsDescriptor(path) ? "description" : path; }

static pbStatus no_memory(pbContext *ctx, const char *path) {
  return pbContext_Fail(ctx, pb_no_memory, "%s: out of memory", path);
}

static pbStatus cannot_write(pbContext *ctx, const char *path) {
  int reason = errno;

  // Memory of the system's own is memory.
  return pbContext_Fail(ctx, reason == ENOMEM ? pb_no_memory : pb_file, "%s: cannot be written: %s", path, strerror(reason));
}

// ---- the target -------------------------------------------------------------------------------------------------------
// What a link that leads to nothing yet stands for: the file that opening it would make. False: errno says why there is none.
static bool follow_links(const char *path, char *at) {
  char link[PATH_MAX];
  snprintf(at, PATH_MAX, "%s", path);

  for (int i = 0; i < MOST_LINKS; i++) {
    ssize_t length = readlink(at, link, sizeof link - 1);

    // No link, or nothing there: this is the file.
    if (length < 0) return true;
    link[length] = 0;

    // From the folder of the link.
    char *slash = link[0] == '/' ? NULL : strrchr(at, '/');
    size_t before = slash ? (size_t)(slash - at) + 1 : 0;
    if (before + (size_t)length >= PATH_MAX) {
      errno = ENAMETOOLONG;
      return false;
    }
    memcpy(at + before, link, (size_t)length + 1);
  }

  errno = ELOOP;
  return false;
}

// The target of a link is replaced, not the link; what it is by now goes to *info (st_mode 0: nothing).
static pbStatus find_target(pbFile *file, const char *path, struct stat *info) {
  char real[PATH_MAX];
  *info = (struct stat){0};

  // Nothing there is no failure, whatever else the system says of the name is one.
  bool there = stat(path, info) == 0;
  if (!there && errno != ENOENT) return cannot_write(file->ctx, path);

  bool replaced = !there || S_ISREG(info->st_mode);
  bool found = there ? !replaced || realpath(path, real) : follow_links(path, real);

  // Devices, and what a descriptor still holds of a file that is in no folder any more, are written by the name given.
  if (!found && !(there && errno == ENOENT)) return cannot_write(file->ctx, path);
  file->path = pbContext_CopyText(file->ctx, found && replaced ? real : path);

  return file->path ? pb_ok : no_memory(file->ctx, path);
}

// ---- a file beside it -------------------------------------------------------------------------------------------------
// Room for a name beside the target: its own, cut where the ending would make it longer than names can be.
static bool make_room(pbFile *file) {
  const char *slash = strrchr(file->path, '/');
  size_t folder = slash ? (size_t)(slash - file->path) + 1 : 0, name = strlen(file->path + folder);
  size_t most = MOST_NAME - strlen(part_name);

  // Not within a character of UTF-8.
  if (name > most) name = most;
  while (name && ((unsigned char)file->path[folder + name] & 0xC0) == 0x80) name--;

  file->stem = folder + name;
  file->temporary = pbContext_Alloc(file->ctx, file->stem + sizeof part_name);

  if (!file->temporary) return false;
  memcpy(file->temporary, file->path, file->stem);
  return true;
}

// Names that nobody else makes at the same time: by process, file and moment. Taken ones are refused by O_EXCL.
static void set_temporary_name(const pbFile *file, unsigned attempt) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);

  // Mixed by a multiplication (Fibonacci hashing): the upper bits depend on all of them.
  uint64_t bits = (uint64_t)(uintptr_t)file ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec << 40 ^ (uint64_t)attempt;
  bits = (bits ^ (uint64_t)getpid() << 32) * 0x9e3779b97f4a7c15u;
  snprintf(file->temporary + file->stem, sizeof part_name, ".part-%08x", (unsigned)(bits >> 32));
}

// The target's folder, opened.
static int open_folder(const pbFile *file, int how) {
  char *slash = strrchr(file->path, '/');
  if (!slash) return open(".", how, 0666);
  if (slash == file->path) return open("/", how, 0666);

  *slash = 0;
  int fd = open(file->path, how, 0666);
  *slash = '/';
  return fd;
}

// The kernel's own link to an open file; there is none where /proc is not mounted.
static const char *self_link(int fd, char *text, size_t size) {
  snprintf(text, size, "/proc/self/fd/%d", fd);
  return text;
}

// The file without a name: nothing of it is left when the program is killed. Not all file systems have that, and it gets a name
// only through the kernel's link.
static int open_nameless(const pbFile *file) {
#ifdef O_TMPFILE
  char self[64];
  int fd = open_folder(file, O_TMPFILE | O_WRONLY | O_CLOEXEC);
  if (fd < 0 || access(self_link(fd, self, sizeof self), F_OK) == 0) return fd;

  // No link: one with a name is made instead.
  close(fd);
#else
  (void)file;
#endif
  return -1;
}

static int open_named(const pbFile *file) {
  int fd = -1;
  for (unsigned attempt = 0; attempt < MOST_NAMES && fd < 0; attempt++) {
    set_temporary_name(file, attempt);
    fd = open(file->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  return fd;
}

// Of the file that is replaced, before anything is in the new one. Where it cannot have the same owners, no group reads it.
static bool keep_mode(int fd, const struct stat *old) {
  struct stat own;
  mode_t mode = old->st_mode & 0777;

  // Nothing is replaced.
  if (!old->st_mode) return true;
  if (fstat(fd, &own) != 0) return false;

  bool same = own.st_uid == old->st_uid && own.st_gid == old->st_gid;
  if (!same && fchown(fd, old->st_uid, old->st_gid) != 0 && own.st_gid != old->st_gid) mode &= 0707;

  return (own.st_mode & 0777) == mode || fchmod(fd, mode) == 0;
}

// A stream over a descriptor, which is closed where there is none.
static pbStatus open_stream(pbFile *file, int fd) {
  file->sink.fd = fd;
  file->stream = pbStream_Writer(&file->sink);
  if (file->stream) return pb_ok;

  close(fd);
  return no_memory(file->ctx, file->path);
}

// A file beside the target, with the permissions of what it replaces, or those a plain fopen would give: the kernel takes
// the mask off by itself.
static pbStatus open_temporary(pbFile *file, const struct stat *old) {
  if (!make_room(file)) return no_memory(file->ctx, file->path);

  int fd = open_nameless(file);
  file->nameless = fd >= 0;
  if (fd < 0) fd = open_named(file);
  if (fd < 0) {
    pbStatus status = cannot_write(file->ctx, file->path);
    pbContext_Free(file->ctx, file->temporary);
    file->temporary = NULL;
    return status;
  }

  if (keep_mode(fd, old)) return open_stream(file, fd);

  // Not to be read by others: it is not begun.
  pbStatus status = cannot_write(file->ctx, file->path);
  close(fd);
  return status;
}

// A name for what has none, just before it is renamed.
static bool give_name(pbFile *file) {
  char self[64];
  self_link(file->sink.fd, self, sizeof self);

  for (unsigned attempt = 0; attempt < MOST_NAMES; attempt++) {
    // Somebody else's file may have the name.
    set_temporary_name(file, attempt);
    if (linkat(AT_FDCWD, self, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
      file->nameless = false;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

// ---- pipes and devices ------------------------------------------------------------------------------------------------
// SIGINT, SIGTERM or SIGHUP waits for whoever holds signals back.
static bool signal_waits(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t set;

  if (sigpending(&set) != 0) return false;
  for (int i = 0; i < 3; i++) {
    if (sigismember(&set, ends[i]) == 1) return true;
  }
  return false;
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
  if (fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) return open_stream(file, fd);

  pbStatus status = cannot_write(file->ctx, path);
  if (fd >= 0) close(fd);
  return status;
}

static pbStatus open_device(pbFile *file, const char *path) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  return fd >= 0 ? open_stream(file, fd) : cannot_write(file->ctx, path);
}

// ---- writing ----------------------------------------------------------------------------------------------------------
pbStatus pbFile_Begin(pbContext *ctx, const char *path, pbFile *file) {
  struct stat info;
  *file = (pbFile){.ctx = ctx};

  // Regular files are replaced at the end; pipes and devices are written directly.
  pbStatus status = find_target(file, path, &info);
  if (status == pb_ok && S_ISDIR(info.st_mode)) status = pbContext_Fail(ctx, pb_file, "%s: is a folder", path);
  else if (status == pb_ok && S_ISFIFO(info.st_mode)) status = open_pipe(file, path);
  else if (status == pb_ok && info.st_mode && !S_ISREG(info.st_mode)) status = open_device(file, path);
  else if (status == pb_ok) status = open_temporary(file, &info);

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

// On the disk before it has its name: after a crash the target is the old file or the new one. EINVAL: not to be synced.
static bool sync_file(const pbFile *file) {
  int done;
  while ((done = fsync(file->sink.fd)) != 0 && errno == EINTR) continue;
  return done == 0 || errno == EINVAL;
}

// The new name on the disk, too. It has its place by now, and is seen by all: what a folder that cannot be synced leaves open is
// only which of two whole files there is after a failure of power.
static void sync_folder(const pbFile *file) {
  int fd = open_folder(file, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;

  fsync(fd);
  close(fd);
}

// False: errno, or the sink, says why. stdio of musl does not take a write of nothing for a failure, so the sink is asked, too.
static bool finish(pbFile *file) {
  if (ferror(file->stream) || fflush(file->stream) != 0 || file->sink.error) return false;

  // Its bytes first, then its name.
  if (file->temporary && !sync_file(file)) return false;
  if (file->nameless && !give_name(file)) return false;

  // Closed either way.
  int closed = fclose(file->stream);
  file->stream = NULL;
  if (closed != 0 || file->sink.error) return false;

  return !file->temporary || rename(file->temporary, file->path) == 0;
}

pbStatus pbFile_Commit(pbFile *file) {
  errno = 0;
  bool good = finish(file);

  // The first failure is told: what came after it says less.
  int last = errno ? errno : EIO, reason = file->sink.error ? file->sink.error : last;
  pbStatus status = pb_ok;
  if (!good) status = pbContext_Fail(file->ctx, pb_file, "%s: could not be written: %s", file->path, strerror(reason));

  // Renamed: nothing is left for Abort to remove.
  if (good && file->temporary) {
    sync_folder(file);
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

// ---- reading ----------------------------------------------------------------------------------------------------------
pbStatus pbFile_Open(pbContext *ctx, const char *path, FILE **stream, size_t *size) {
  struct stat info;
  if (stat(path, &info) != 0) return pbFile_CannotRead(ctx, path);
  if (S_ISDIR(info.st_mode)) return pbContext_Fail(ctx, pb_bad_input, "%s: expected a file, found a folder", path);
  if (!S_ISREG(info.st_mode)) return pbContext_Fail(ctx, pb_bad_input, "%s: is not a regular file", path);

  pbContext_FileOpened(ctx, path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return pbFile_CannotRead(ctx, path);

  *stream = pbStream_Reader(fd);
  if (!*stream) {
    close(fd);
    return no_memory(ctx, path);
  }

  *size = (size_t)info.st_size;
  return pb_ok;
}

pbStatus pbFile_CannotRead(pbContext *ctx, const char *path) {
  int reason = errno;

  return pbContext_Fail(ctx, reason == ENOMEM ? pb_no_memory : pb_file, "%s: cannot be read: %s", path, strerror(reason));
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
    status = ferror(stream) ? pbFile_CannotRead(ctx, path)
                            : pbContext_Fail(ctx, pb_file, "%s: became shorter while it was read", path);
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
