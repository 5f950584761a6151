// What a task was made from: hashes of the program's version, of its text and of every file that was read for it.
// Tests: tests/oracle/test_files.py.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "io/json/tree.h"
#include "io/task/task_reader.h"

static const uint64_t hash_start = 0xcbf29ce484222325u;

// FNV-1a with 64 bits: each byte is mixed in, then multiplied by the prime.
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return hash;
}

static void add_line(pbManifest *m, uint64_t hash, const char *name) {
  // One that cannot be added makes the manifest fail, which End returns.
  size_t most = strlen(name) + 32;
  char *grown = m->failed ? NULL : pbContext_Resize(m->ctx, m->text, m->length + most);

  if (!grown) {
    m->failed = true;
    return;
  }

  m->text = grown;
  m->length += (size_t)snprintf(m->text + m->length, most, "%016llx %s\n", (unsigned long long)hash, name);
}

// A file whose content is not known here, although whoever reads it may know it, makes the manifest fail.
static void add_file(void *user, const char *path) {
  pbManifest *m = user;
  char buffer[4096];
  uint64_t hash = hash_start;
  ssize_t got = 0;

  int fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && ((got = read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0) hash = hash_bytes(hash, buffer, (size_t)got);
  }

  // the first reason is told
  if (!m->unread && (fd < 0 || got < 0)) {
    m->unread = errno;
    snprintf(m->file, sizeof m->file, "%.*s", (int)sizeof m->file - 1, path);
  }
  if (fd >= 0) close(fd);

  add_line(m, hash, path);
  if (m->before.opened) m->before.opened(m->before.user, path);
}

// Keys with which a run goes on though they are others: how long it is to be, and how it is watched.
static const char *const free_keys[][2] = {{"optimizer", "iterations"}, {"train", "updates"}, {"train", "evaluate"}};

// Replaces a member that is an object by one without a key. False: no memory.
static bool leave_out(json_t *copy, const char *member, const char *key) {
  const json_t *own = json_object_get(copy, member);
  if (!json_is_object(own)) return true;

  // the task's own stays as it is
  json_t *other = pbJson_CopyMembers(own);
  if (other) json_object_del(other, key);

  return json_object_set_new(copy, member, other) == 0;
}

static json_t *copy_without(const json_t *object) {
  json_t *copy = pbJson_CopyMembers(object);
  bool good = copy != NULL;
  for (size_t i = 0; good && i < sizeof free_keys / sizeof *free_keys; i++)
    good = leave_out(copy, free_keys[i][0], free_keys[i][1]);
  if (good) return copy;

  json_decref(copy);
  return NULL;
}

// Of a task with stages those of the last one: others are over when a run goes on.
static json_t *copy_task(const json_t *root) {
  const json_t *stages = json_object_get(root, "stages");
  size_t count = json_array_size(stages);
  if (!count) return copy_without(root);

  json_t *copy = pbJson_CopyMembers(root), *list = json_copy((json_t *)stages);
  bool good = copy && list && json_array_set_new(list, count - 1, copy_without(json_array_get(stages, count - 1))) == 0;
  if (good) good = json_object_set(copy, "stages", list) == 0;
  json_decref(list);
  if (good) return copy;

  json_decref(copy);
  return NULL;
}

static int hash_piece(const char *piece, size_t size, void *hash) {
  *(uint64_t *)hash = hash_bytes(*(uint64_t *)hash, piece, size);
  return 0;
}

// Sorted and compact, with all digits of numbers: equal values have equal texts. The order of keys and the space between them say
// nothing.
static void add_value(pbManifest *m, const char *place, const json_t *value) {
  const size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
  uint64_t hash = hash_start;
  if (json_dump_callback(value, hash_piece, &hash, flags) == 0) add_line(m, hash, place);
  else m->failed = true;
}

// Each key has a line, so that the one that was changed can be named; "train" a line for each of its own.
static void add_members(pbManifest *m, const char *before, json_t *object) {
  char place[400];
  const char *key;
  json_t *value;

  json_object_foreach(object, key, value) {
    snprintf(place, sizeof place, "%s%.300s", before, key);
    place[strcspn(place, "\n")] = 0;  // a line each
    if (!strcmp(key, "train") && json_is_object(value) && !strchr(before, '.')) add_members(m, "the task's train.", value);
    else add_value(m, place, value);
  }
}

void pbManifest_Begin(pbManifest *m, pbContext *ctx) {
  *m = (pbManifest){.ctx = ctx};
  m->before = pbContext_WatchFiles(ctx, (pbFileWatch){add_file, m});
  pbManifest_Add(m, "the program", pbVersion());
}

void pbManifest_Add(pbManifest *m, const char *name, const char *text) {
  add_line(m, hash_bytes(hash_start, text, strlen(text)), name);
}

void pbManifest_AddTask(pbManifest *m, const json_t *root) {
  json_t *copy = copy_task(root);
  if (copy) add_members(m, "the task's ", copy);
  m->failed = m->failed || !copy;  // no memory for it
  json_decref(copy);
}

void pbManifest_Stop(pbManifest *m) {
  // once: another watch may have begun since
  if (!m->stopped) pbContext_WatchFiles(m->ctx, m->before);
  m->stopped = true;
}

pbStatus pbManifest_End(pbManifest *m, char **text) {
  pbManifest_Stop(m);
  *text = m->text;
  if (m->unread) return pbContext_Fail(m->ctx, pb_file, "%s: cannot be read: %s", m->file, strerror(m->unread));
  return m->failed ? pbContext_Fail(m->ctx, pb_no_memory, "no memory for a task") : pb_ok;
}
