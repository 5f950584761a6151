// MuJoCo's archives: members are written below a folder of its own in the system's folder for temporary files, and what they are
// called there is taken out of messages.
// Tests: tests/oracle/test_archive.py.
#include "io/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "io/arrays/zip.h"
#include "io/file.h"

enum { MOST_FILES = 65536, CHUNK = 65536 };
#define MOST_BYTES (UINT64_C(1) << 30)  // of all members, unpacked

typedef struct Unpacking {
  pbContext *ctx;
  const char *path;
  pbArchive *archive;
  pbZip zip;
  pbZipMember member;
  pbSource source;
  uint64_t bytes;
  char stem[256];          // of the archive's name
  char best[PB_ZIP_NAME];  // the model so far
  int rank, models;        // which of the names it has: 0 is the first choice; files that may be it
  unsigned char buffer[CHUNK];
} Unpacking;

bool pbArchive_Is(const char *path) {
  size_t length = strlen(path);
  return length > 4 && !strcasecmp(path + length - 4, ".mjz");
}

static pbStatus fail(const Unpacking *u, const char *what) {
  return pbContext_Fail(u->ctx, pb_bad_input, "%.400s: %.200s: %s", u->path, u->member.name, what);
}

static pbStatus cannot_write(const Unpacking *u, const char *path) {
  return pbContext_Fail(u->ctx, pb_file, "%.400s: cannot be unpacked to %.400s: %s", u->path, path, strerror(errno));
}

// ---- signals ----------------------------------------------------------------------------------------------------------------

// Those that end a program and that nobody ignores: a handler that does not come back would leave the folder.
static sigset_t ends_of_programs(void) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t set;
  sigemptyset(&set);

  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    struct sigaction now;
    bool ignored = sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&set, ends[i]);
  }
  return set;
}

static void hold_signals(pbArchive *archive) {
  sigset_t set = ends_of_programs();
  archive->holding = pthread_sigmask(SIG_BLOCK, &set, &archive->before) == 0;
}

// Whoever has asked for an end has it when the folder is gone.
static void release_signals(const pbArchive *archive) {
  if (archive->holding) pthread_sigmask(SIG_SETMASK, &archive->before, NULL);
}

static bool is_interrupted(const pbArchive *archive) {
  sigset_t waiting, set = ends_of_programs();
  if (!archive->holding || sigpending(&waiting) != 0) return false;

  for (int number = 1; number <= SIGTERM; number++) {
    // One that was held before is none of ours.
    bool ours = sigismember(&set, number) == 1 && sigismember(&archive->before, number) == 0;
    if (ours && sigismember(&waiting, number) == 1) return true;
  }
  return false;
}

// ---- names ------------------------------------------------------------------------------------------------------------------

// Below a folder: parts that are neither empty nor lead upwards.
static bool leads_down(const char *name) {
  for (const char *part = name;; part++) {
    size_t length = strcspn(part, "/");
    bool up = length == 2 && !strncmp(part, "..", 2);
    if (!length || up || (length == 1 && *part == '.')) return false;

    part += length;
    if (!*part) return true;
  }
}

// MuJoCo's rule: NAME.xml, model.xml, NAME/NAME.xml, NAME/model.xml; 4: another file that may be a model, -1: none.
static int rank_of(const Unpacking *u, const char *name) {
  char wanted[4][600];
  snprintf(wanted[0], sizeof *wanted, "%s.xml", u->stem);
  snprintf(wanted[1], sizeof *wanted, "model.xml");
  snprintf(wanted[2], sizeof *wanted, "%s/%s.xml", u->stem, u->stem);
  snprintf(wanted[3], sizeof *wanted, "%s/model.xml", u->stem);

  for (int i = 0; i < 4; i++)
    if (!strcmp(name, wanted[i])) return i;

  // What else may be a model is taken where it is the only one.
  const char *dot = strrchr(name, '.');
  return dot && (!strcmp(dot, ".xml") || !strcmp(dot, ".urdf")) ? 4 : -1;
}

static pbStatus keep_name(Unpacking *u) {
  pbArchive *a = u->archive;
  size_t length = strlen(u->member.name) + 1;

  // With its zero.
  char *grown = pbContext_Resize(u->ctx, a->names, a->names_size + length);
  if (!grown) return pbContext_Fail(u->ctx, pb_no_memory, "%.400s: out of memory", u->path);

  memcpy(grown + a->names_size, u->member.name, length);
  a->names = grown;
  a->names_size += length;
  return pb_ok;
}

static void consider_model(Unpacking *u) {
  int rank = rank_of(u, u->member.name);
  if (rank < 0) return;

  u->models++;

  // Of those that are not called by the rule the first is kept.
  if (u->rank >= 0 && rank >= u->rank) return;
  u->rank = rank;
  memcpy(u->best, u->member.name, sizeof u->best);
}

// ---- members ----------------------------------------------------------------------------------------------------------------

static bool is_folder(const pbZipMember *m) { return *m->name && m->name[strlen(m->name) - 1] == '/'; }

// All of them are looked at before the first is unpacked.
static pbStatus check_members(Unpacking *u) {
  for (u->rank = -1; u->zip.passed < u->zip.entries;) {
    PB_TRY(pbZip_Next(&u->zip, &u->member));
    if (is_folder(&u->member)) continue;

    // Neither a way out, nor more than there is room for.
    if (!leads_down(u->member.name)) return fail(u, "expected the name of a file below the archive's folder");
    if (u->member.plain > MOST_BYTES - u->bytes) return fail(u, "more than 1 GiB when the archive is unpacked");
    u->bytes += u->member.plain;

    consider_model(u);
    PB_TRY(keep_name(u));
  }

  if (u->rank >= 0 && (u->rank < 4 || u->models == 1)) return pb_ok;
  return pbContext_Fail(u->ctx, pb_bad_input, "%.400s: expected %s.xml or model.xml in the archive, found %s", u->path, u->stem,
                        u->models ? "several other models" : "no model");
}

static pbStatus make_folders(const Unpacking *u, char *path) {
  for (char *slash = path + strlen(u->archive->folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = 0;

    // Others of its files may have made it.
    bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
    if (!there) return cannot_write(u, path);

    *slash = '/';
  }
  return pb_ok;
}

static pbStatus copy_member(Unpacking *u, int file, const char *path) {
  while (u->source.plain) {
    if (is_interrupted(u->archive)) return pbContext_Fail(u->ctx, pb_interrupted, "%.400s: interrupted", u->path);
    size_t n = u->source.plain < CHUNK ? (size_t)u->source.plain : CHUNK;
    PB_TRY(pbSource_Read(&u->source, u->buffer, n));

    // A write may take a part.
    for (size_t done = 0; done < n;) {
      ssize_t written = write(file, u->buffer + done, n - done);
      if (written < 0 && errno != EINTR) return cannot_write(u, path);
      if (written > 0) done += (size_t)written;
    }
  }
  return pb_ok;
}

static pbStatus unpack_member(Unpacking *u) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", u->archive->folder, u->member.name) >= (int)sizeof path)
    return fail(u, "its name is too long");

  PB_TRY(make_folders(u, path));

  // Nothing that is there is written to, and no link followed.
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno == EEXIST ? fail(u, "is there twice") : cannot_write(u, path);

  pbStatus status = pbZip_Start(&u->zip, &u->member, &u->source);
  if (status == pb_ok) status = pbZip_Finish(&u->member, &u->source, copy_member(u, file, path));

  if (close(file) != 0 && status == pb_ok) status = cannot_write(u, path);
  return status;
}

static pbStatus unpack(Unpacking *u) {
  PB_TRY(check_members(u));

  // From the first again.
  pbZip_Rewind(&u->zip);
  while (u->zip.passed < u->zip.entries) {
    PB_TRY(pbZip_Next(&u->zip, &u->member));
    if (!is_folder(&u->member)) PB_TRY(unpack_member(u));
  }

  bool fits = snprintf(u->archive->model, PATH_MAX, "%s/%s", u->archive->folder, u->best) < PATH_MAX;
  return fits ? pb_ok : fail(u, "its name is too long");
}

// ---- the folder -------------------------------------------------------------------------------------------------------------

static pbStatus make_folder(pbContext *ctx, const char *path, pbArchive *archive) {
  const char *place = getenv("TMPDIR");
  char name[PATH_MAX];
  place = place && *place ? place : "/tmp";

  hold_signals(archive);

  bool fits = snprintf(name, sizeof name, "%s/pullback-XXXXXX", place) < (int)sizeof name;

  // By its real path, as messages have it.
  if (!fits || !mkdtemp(name))
    return pbContext_Fail(ctx, pb_file, "%.400s: no folder to unpack it in %.200s: %s", path, place,
                          fits ? strerror(errno) : "TMPDIR is too long");
  if (realpath(name, archive->folder)) return pb_ok;

  *archive->folder = 0;
  (void)rmdir(name);
  return pbContext_Fail(ctx, pb_file, "%.400s: no folder to unpack it in %.200s: %s", path, place, strerror(errno));
}

static pbStatus open_zip(Unpacking *u, FILE *stream, size_t size) {
  const char *slash = strrchr(u->path, '/'), *name = slash ? slash + 1 : u->path;
  snprintf(u->stem, sizeof u->stem, "%.*s", (int)(strlen(name) - strlen(".mjz")), name);

  pbStatus status = pbZip_Open(u->ctx, stream, size, u->path, &u->zip);

  // A file each: before folders are filled.
  if (status == pb_ok && u->zip.entries > MOST_FILES)
    status = pbContext_Fail(u->ctx, pb_bad_input, "%.400s: more than %d files", u->path, MOST_FILES);
  if (status == pb_ok) status = unpack(u);

  pbZip_Close(&u->zip);
  return status;
}

pbStatus pbArchive_Open(pbContext *ctx, const char *path, pbArchive *archive) {
  FILE *stream = NULL;
  size_t size = 0;
  *archive = (pbArchive){.ctx = ctx};
  PB_TRY(pbFile_Open(ctx, path, &stream, &size));

  Unpacking *u = pbContext_Alloc(ctx, sizeof *u);
  pbStatus status = u ? make_folder(ctx, path, archive) : pbContext_Fail(ctx, pb_no_memory, "%.400s: out of memory", path);
  if (status == pb_ok) {
    u->ctx = ctx;
    u->path = path;
    u->archive = archive;
    status = open_zip(u, stream, size);
  }

  pbContext_Free(ctx, u);
  fclose(stream);
  return status;
}

// A file, then the folders that it was the last one in.
static void drop_file(const pbArchive *archive, const char *name) {
  char path[PATH_MAX];
  size_t top = strlen(archive->folder);
  if (snprintf(path, sizeof path, "%s/%s", archive->folder, name) >= (int)sizeof path) return;

  (void)unlink(path);

  for (char *slash; (slash = strrchr(path, '/')) != NULL && (size_t)(slash - path) > top;) {
    *slash = 0;

    // It has others in it.
    if (rmdir(path) != 0) return;
  }
}

void pbArchive_Close(pbArchive *archive) {
  for (size_t at = 0; at < archive->names_size; at += strlen(archive->names + at) + 1) drop_file(archive, archive->names + at);
  pbContext_Free(archive->ctx, archive->names);

  if (*archive->folder) (void)rmdir(archive->folder);
  release_signals(archive);
  *archive = (pbArchive){.ctx = archive->ctx};
}

// ---- messages ---------------------------------------------------------------------------------------------------------------

void pbArchive_NameInText(const pbArchive *archive, char *text) {
  size_t length = strlen(archive->folder);
  if (!length) return;

  // "FOLDER/scene.xml" becomes "scene.xml", and the folder itself goes with the space before it.
  for (char *at = text; (at = strstr(at, archive->folder)) != NULL;) {
    char *behind = at + length + (at[length] == '/');
    if (behind == at + length && at > text && at[-1] == ' ') at--;
    memmove(at, behind, strlen(behind) + 1);
  }
}

static void name_in_warnings(const pbArchive *archive, pbContext *ctx) {
  char *text = pbContext_CopyText(ctx, pbContext_Warnings(ctx));
  if (!text) return;  // they name another folder then
  pbArchive_NameInText(archive, text);

  // Line by line, as they came.
  pbContext_ClearWarnings(ctx);
  char *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) pbContext_Warn(ctx, "%s", line);
  pbContext_Free(ctx, text);
}

void pbArchive_NameInMessages(const pbArchive *archive, pbContext *ctx, pbStatus status) {
  if (*pbContext_Warnings(ctx)) name_in_warnings(archive, ctx);
  if (status == pb_ok) return;

  char text[PB_ERROR_TEXT];  // a copy: the error is written over itself
  snprintf(text, sizeof text, "%s", pbContext_Error(ctx));
  pbArchive_NameInText(archive, text);
  (void)pbContext_Fail(ctx, status, "%s", text);
}
