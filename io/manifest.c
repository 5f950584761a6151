// What a task was made from: hashes of the program's version, of its text and of every file that was read for it.
// Tests: tests/oracle/test_files.py.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
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

// A file that cannot be read is an error of whoever reads it; here it is one without content.
static void add_file(void *user, const char *path) {
  char buffer[4096];
  uint64_t hash = hash_start;
  FILE *stream = fopen(path, "rb");
  size_t got = stream ? fread(buffer, 1, sizeof buffer, stream) : 0;
  while (got > 0) {
    hash = hash_bytes(hash, buffer, got);
    got = fread(buffer, 1, sizeof buffer, stream);
  }
  if (stream) fclose(stream);

  add_line(user, hash, path);
}

// More iterations are the one change with which a run goes on; the order of keys and the space between them say nothing.
static uint64_t hash_task(const json_t *root) {
  json_t *copy = json_deep_copy(root);
  json_t *optimizer = json_object_get(copy, "optimizer");
  if (json_is_object(optimizer)) json_object_del(optimizer, "iterations");

  // Sorted and compact, with all digits of numbers: equal tasks have equal texts.
  char *text = copy ? json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
  uint64_t hash = text ? hash_bytes(hash_start, text, strlen(text)) : 0;

  free(text);
  json_decref(copy);
  return hash;
}

void pbManifest_Begin(pbManifest *m, pbContext *ctx, const json_t *root) {
  *m = (pbManifest){.ctx = ctx};

  uint64_t hash = hash_task(root);
  add_line(m, hash_bytes(hash_start, pbVersion(), strlen(pbVersion())), "the program");
  add_line(m, hash, "the task");
  m->failed = m->failed || hash == 0;  // no memory for the text

  pbContext_WatchFiles(ctx, add_file, m);
}

pbStatus pbManifest_End(pbManifest *m, char **text) {
  pbContext_WatchFiles(m->ctx, NULL, NULL);

  *text = m->text;
  return m->failed ? pbContext_Fail(m->ctx, pb_no_memory, "no memory for a task") : pb_ok;
}
