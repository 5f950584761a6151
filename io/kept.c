// What an interrupted run has left, in a file beside its output: arrays, and what the run was made from, line by line.
// Tests: tests/oracle/test_going_on.py, tests/oracle/test_cli.py.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <pullback/trajectory.h>

#include "base/context.h"
#include "io/task/task_reader.h"

pbStatus pbState_Refuse(pbContext *ctx, const char *path, const char *why) {
  return pbContext_Fail(ctx, pb_bad_input, "%.400s: %.600s; remove it or start with --fresh to begin anew", path, why);
}

enum { DIGITS = 17 };  // a hash and a space; behind it the line names a file, an option, a key of the task

static size_t line_length(const char *line) { return strcspn(line, "\n"); }

static bool is_key(const char *line) { return line_length(line) > DIGITS && strncmp(line + DIGITS, "the task's ", 11) == 0; }

// A key with its name; of files what is in them, wherever they are.
static bool same(const char *a, const char *b) {
  size_t length = line_length(a);
  if (is_key(a) || is_key(b) || length < DIGITS) return line_length(b) == length && memcmp(a, b, length) == 0;
  return line_length(b) >= DIGITS && memcmp(a, b, DIGITS) == 0;
}

static bool has_line(const char *lines, const char *line) {
  for (; *lines; lines += line_length(lines) + (lines[line_length(lines)] != 0)) {
    if (same(lines, line)) return true;
  }

  return false;
}

// The first of some lines that others have not; NULL: they have all.
static const char *first_alone(const char *lines, const char *others) {
  for (; *lines; lines += line_length(lines) + (lines[line_length(lines)] != 0)) {
    if (!has_line(others, lines)) return lines;
  }

  return NULL;
}

// Refuses a state that was made from something else, and names the first that is another now, or new, or a key that is gone.
// Their order says nothing.
static pbStatus compare(pbContext *ctx, const char *path, const char *then, const char *now) {
  char why[600];
  const char *line = first_alone(now, then);
  if (!line) line = first_alone(then, now);
  if (!line) return pb_ok;

  // what both have under one name was changed; what one has alone is new or gone
  size_t length = line_length(line);
  if (length <= DIGITS || (has_line(then, line) && !is_key(line)))
    return pbState_Refuse(ctx, path, "holds a run that read other files");
  snprintf(why, sizeof why, "holds a run from before %.*s was changed", length < 500 ? (int)(length - DIGITS) : 500,
           line + DIGITS);

  return pbState_Refuse(ctx, path, why);
}

pbStatus pbState_Load(pbContext *ctx, const char *path, const char *made_from, pbArrays **set) {
  *set = NULL;
  if (access(path, F_OK) != 0) return pb_ok;

  pbStatus status = pbArrays_Load(ctx, path, set);
  if (status != pb_ok)
    return pbContext_Fail(ctx, status, "%s; remove the file or start with --fresh to begin anew", pbContext_Error(ctx));

  // the file is this program's, and of this run
  const pbArray *from = pbArrays_Find(*set, "made_from");
  bool known = from && from->type == pb_arrayText && from->count == 1;
  status = known ? compare(ctx, path, from->text, made_from) : pbState_Refuse(ctx, path, "holds no run of this program");
  if (status == pb_ok) return pb_ok;

  pbArrays_Destroy(*set);
  *set = NULL;
  return status;
}

pbStatus pbState_Save(const char *path, const char *made_from, pbArrays *set) {
  // beside the arrays: one file holds both or is not there
  PB_TRY(pbArrays_AddText(set, "made_from", made_from));
  return pbArrays_SaveNpz(set, path, false);
}

// ---- for runs of any kind -----------------------------------------------------------------------------------------------
struct pbKept {
  pbManifest manifest;
};

pbStatus pbKept_Begin(pbContext *ctx, pbKept **kept) {
  // large: it has room for the name of a file
  *kept = pbContext_Alloc(ctx, sizeof **kept);
  if (!*kept) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  pbManifest_Begin(&(*kept)->manifest, ctx);
  return pb_ok;
}

void pbKept_Add(pbKept *kept, const char *name, const char *text) { pbManifest_Add(&kept->manifest, name, text ? text : ""); }

pbStatus pbKept_Load(pbKept *kept, const char *path, pbArrays **set) {
  pbManifest *m = &kept->manifest;
  char *text;
  *set = NULL;

  // what could not be read once more is no failure of a run that has nothing to go on with
  pbManifest_Stop(m);
  if (access(path, F_OK) != 0) return pb_ok;
  PB_TRY(pbManifest_End(m, &text));
  return pbState_Load(m->ctx, path, text, set);
}

pbStatus pbKept_Save(pbKept *kept, const char *path, pbArrays *set) {
  char *text;

  // what it was made from must be known
  PB_TRY(pbManifest_End(&kept->manifest, &text));
  return pbState_Save(path, text, set);
}

void pbKept_Destroy(pbKept *kept) {
  if (!kept) return;

  // who has watched before goes on
  pbContext *ctx = kept->manifest.ctx;
  pbManifest_Stop(&kept->manifest);
  pbContext_Free(ctx, kept->manifest.text);
  pbContext_Free(ctx, kept);
}
