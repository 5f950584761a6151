// Readers of values in a task file: paths and lines for errors, typed values, arrays from files, names of the model.
// Tests: tests/unit/test_task.c.
#include "io/task/task_reader.h"
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/file.h"
#include "io/json/read.h"

// ---- lines: where a path stands in the text, found when there is an error to report ----------------------------------
typedef struct Scan {
  const char *at, *end;
} Scan;

static void skip_space(Scan *s) {
  // commas and colons, too: the text is known to be JSON, only places matter
  while (s->at < s->end && strchr(" \t\r\n,:", *s->at) && *s->at) s->at++;
}

static void skip_string(Scan *s) {
  for (s->at++; s->at < s->end && *s->at != '"'; s->at++)
    if (*s->at == '\\') s->at++;
  if (s->at < s->end) s->at++;
}

static void skip_value(Scan *s) {
  int depth = 0;

  // a plain value ends at once, a container where it is closed
  do {
    skip_space(s);
    if (s->at >= s->end) return;

    if (*s->at == '"') {
      skip_string(s);
    } else if (strchr("[{", *s->at)) {
      depth++;
      s->at++;
    } else if (strchr("]}", *s->at)) {
      depth--;
      s->at++;
    } else {
      while (s->at < s->end && !strchr(" \t\r\n,]}", *s->at)) s->at++;
    }
  } while (depth > 0);
}

// Into the member `step` of the object or list at s; false: not there (s stands at the container).
static bool descend(Scan *s, const pbTaskStep *step) {
  Scan start = *s;
  skip_space(s);
  bool object = s->at < s->end && *s->at == '{';
  s->at++;

  for (size_t i = 0;; i++) {
    skip_space(s);
    if (s->at >= s->end || *s->at == '}' || *s->at == ']') break;

    if (!object && step->key == NULL && i == step->index) return true;

    // keys are compared as written: one with escapes is not found, and the error is one of its container
    if (object) {
      const char *key = s->at + 1;
      skip_string(s);
      size_t length = (size_t)(s->at - key) - 1;
      if (step->key && strlen(step->key) == length && strncmp(key, step->key, length) == 0) return true;
    }

    skip_value(s);
  }

  *s = start;
  return false;
}

static int line_of(const pbTaskReader *r, bool in_stage) {
  Scan s = {r->text, r->text + r->length};
  const pbTaskStep stage[] = {{.key = "stages"}, {.index = r->laid_at}};
  for (int i = 0; in_stage && i < 2; i++) in_stage = descend(&s, &stage[i]);

  // as deep as the path goes; an error in a key that is not there is one of its container
  int depth = 0;
  while (depth < r->depth && descend(&s, &r->path[depth])) depth++;
  skip_space(&s);

  int line = 1;
  for (const char *c = r->text; c < s.at && c < s.end; c++) line += *c == '\n';
  return line;
}

// ---- errors ---------------------------------------------------------------------------------------------------------
static void write_path(const pbTaskReader *r, bool in_stage, char *out, size_t size) {
  size_t used = 0;

  out[0] = 0;
  if (in_stage) used = (size_t)snprintf(out, size, "stages[%zu]", r->laid_at);
  for (int i = 0; i < r->depth && used < size; i++) {
    const pbTaskStep *step = &r->path[i];
    int n = 0;
    if (step->key) n = snprintf(out + used, size - used, "%s%.60s", used ? "." : "", step->key);
    else n = snprintf(out + used, size - used, "[%zu]", step->index);
    used += n > 0 ? (size_t)n : 0;
  }
}

// Whether the present place, or a key there that nobody knows, is that of a stage laid over the task, and not the file's own.
static bool is_in_stage(const pbTaskReader *r, const char *unknown) {
  const json_t *at = r->laid;
  if (!at || !r->depth || r->depth > PB_TASK_PATH) return false;

  // as deep as the path goes
  for (int i = 0; at && i < r->depth; i++) {
    const pbTaskStep *step = &r->path[i];
    at = step->key ? json_object_get(at, step->key) : json_array_get(at, step->index);
  }

  return unknown ? json_object_get(at, unknown) != NULL : at != NULL;
}

static pbStatus fail_at(const pbTaskReader *r, pbStatus status, bool in_stage, const char *reason) {
  char path[400];
  write_path(r, in_stage, path, sizeof path);
  return pbContext_Fail(r->ctx, status, "%.400s:%d: %s%s%s", r->name, line_of(r, in_stage), path, path[0] ? ": " : "", reason);
}

pbStatus pbTaskReader_Fail(const pbTaskReader *r, pbStatus status, const char *format, ...) {
  char reason[1200];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);

  return fail_at(r, status, is_in_stage(r, NULL), reason);
}

pbStatus pbTaskReader_FailAt(pbTaskReader *r, const char *key, const char *format, ...) {
  char reason[1200];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);

  pbTaskReader_Enter(r, key);
  pbStatus status = pbTaskReader_Fail(r, pb_bad_input, "%s", reason);
  pbTaskReader_Leave(r);
  return status;
}

// Does a text begin with a place in this file?
static bool has_place(const pbTaskReader *r, const char *text) {
  size_t length = strnlen(r->name, 400);
  return strncmp(text, r->name, length) == 0 && text[length] == ':' && text[length + 1] >= '0' && text[length + 1] <= '9';
}

pbStatus pbTaskReader_FailAgain(const pbTaskReader *r, pbStatus status) {
  char reason[1000];
  snprintf(reason, sizeof reason, "%s", pbContext_Error(r->ctx));

  // what is a bad argument of a call is bad input of the file
  if (status == pb_bad_argument) status = pb_bad_input;
  if (has_place(r, reason)) return pbContext_Fail(r->ctx, status, "%s", reason);
  return pbTaskReader_Fail(r, status, "%s", reason);
}

// Steps beyond the most that are kept are only counted.
void pbTaskReader_Enter(pbTaskReader *r, const char *key) {
  if (r->depth < PB_TASK_PATH) r->path[r->depth] = (pbTaskStep){key, 0};
  r->depth++;
}

void pbTaskReader_EnterAt(pbTaskReader *r, size_t index) {
  if (r->depth < PB_TASK_PATH) r->path[r->depth] = (pbTaskStep){NULL, index};
  r->depth++;
}
void pbTaskReader_Leave(pbTaskReader *r) { r->depth--; }

// ---- the tree -------------------------------------------------------------------------------------------------------
// Is `<` the first character that is no blank? The text has no closing zero.
static bool begins_as_xml(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && strchr(" \t\r\n", text[at]) && text[at]) at++;
  return at < length && text[at] == '<';
}

pbStatus pbTaskReader_Parse(pbTaskReader *r, json_t **root) {
  json_error_t error;
  bool no_memory;
  *root = NULL;
  if (r->length > PB_TASK_TEXT)
    return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: longer than %d MiB", r->name, PB_TASK_TEXT >> 20);

  // of two keys with one name the first would silently be lost
  *root = pbJson_Read(r->text, r->length, JSON_REJECT_DUPLICATES, &error, &no_memory);
  if (no_memory) return pbContext_Fail(r->ctx, pb_no_memory, "%.400s: no memory to read it", r->name);
  if (!*root) {
    bool xml = begins_as_xml(r->text, r->length);
    const char *advice =
        xml ? " (this is XML: a task file in JSON, which names its model, is expected here; see docs/task.md)" : "";
    return pbContext_Fail(r->ctx, pb_bad_input, "%.400s:%d:%d: not valid JSON: %s%s", r->name, error.line, error.column,
                          error.text, advice);
  }
  r->trains = json_object_get(*root, "train") != NULL;
  if (json_is_object(*root)) return pb_ok;
  json_decref(*root);
  *root = NULL;
  return pbContext_Fail(r->ctx, pb_bad_input, "%.400s:1: a task is a JSON object", r->name);
}

pbStatus pbTaskReader_Keys(const pbTaskReader *r, const json_t *object, const char *const *keys) {
  const char *key;
  json_t *value;
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {...}");

  json_object_foreach((json_t *)object, key, value) {
    // a key nobody reads is a mistake, most often of spelling
    bool known = false;
    pbSuggest near = pbSuggest_For(key);
    for (int i = 0; keys[i]; i++) {
      known |= strcmp(keys[i], key) == 0;
      pbSuggest_Offer(&near, keys[i]);
    }

    char hint[200], reason[400];
    if (known) continue;
    snprintf(reason, sizeof reason, "unknown key '%.80s'%s", key, pbSuggest_Write(&near, hint, sizeof hint));
    return fail_at(r, pb_bad_input, is_in_stage(r, key), reason);
  }
  return pb_ok;
}

pbStatus pbTaskReader_Real(pbTaskReader *r, const json_t *object, const char *key, double *out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;
  if (!json_is_number(value)) return pbTaskReader_FailAt(r, key, "expected a number");
  *out = json_number_value(value);
  return pb_ok;
}

pbStatus pbTaskReader_Int(pbTaskReader *r, const json_t *object, const char *key, int lower, int upper, int *out) {
  double number = *out;
  const json_t *value = json_object_get(object, key);
  if (json_is_number(value)) number = json_number_value(value);

  // JSON has no integers: 1e3 is one, too
  if (value && !(json_is_number(value) && number >= lower && number <= upper && floor(number) == number))
    return pbTaskReader_FailAt(r, key, "expected a whole number from %d to %d", lower, upper);
  *out = (int)number;
  return pb_ok;
}

pbStatus pbTaskReader_Bool(pbTaskReader *r, const json_t *object, const char *key, bool *out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;
  if (!json_is_boolean(value)) return pbTaskReader_FailAt(r, key, "expected true or false");
  *out = json_is_true(value);
  return pb_ok;
}

pbStatus pbTaskReader_Text(pbTaskReader *r, const json_t *object, const char *key, const char **out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;
  if (!json_is_string(value)) return pbTaskReader_FailAt(r, key, "expected a text");
  *out = json_string_value(value);
  return pb_ok;
}

static pbStatus read_word(pbTaskReader *r, const json_t *object, const pbTaskKey *k, int *number) {
  const char *word = NULL;
  char all[200];
  size_t n = 0;
  PB_TRY(pbTaskReader_Text(r, object, k->name, &word));
  if (!word) return pb_ok;

  // "a", "b" or "c"
  for (int i = 0; k->words[i]; i++) {
    if (strcmp(word, k->words[i]) == 0) {
      *number = i;
      return pb_ok;
    }
    const char *before = k->words[i + 1] ? ", " : " or ";
    n += (size_t)snprintf(all + n, sizeof all - n, "%s\"%s\"", i > 0 ? before : "", k->words[i]);
    if (n >= sizeof all) n = sizeof all - 1;
  }
  return pbTaskReader_FailAt(r, k->name, "expected %s, found \"%.40s\"", all, word);
}

static pbStatus read_real(pbTaskReader *r, const json_t *object, const pbTaskKey *k, double *out) {
  if (!json_object_get(object, k->name)) return pb_ok;
  PB_TRY(pbTaskReader_Real(r, object, k->name, out));
  if (k->kind == pb_keyPositive && !(*out > 0)) return pbTaskReader_FailAt(r, k->name, "expected a positive number");
  if (isinf(k->most) && !(*out >= k->least)) return pbTaskReader_FailAt(r, k->name, "expected a number of %g or more", k->least);
  if (k->least < k->most && !(*out >= k->least && *out <= k->most))
    return pbTaskReader_FailAt(r, k->name, "expected a number from %g to %g", k->least, k->most);
  return pb_ok;
}

pbStatus pbTaskReader_Key(pbTaskReader *r, const json_t *object, const pbTaskKey *k, void *into) {
  void *at = (char *)into + k->at;
  switch (k->kind) {
    case pb_keyPart: return pb_ok;
    case pb_keyReal:
    case pb_keyPositive: return read_real(r, object, k, at);
    case pb_keyInt: return pbTaskReader_Int(r, object, k->name, (int)k->least, (int)k->most, at);
    case pb_keyBool: return pbTaskReader_Bool(r, object, k->name, at);
    case pb_keyText: return pbTaskReader_Text(r, object, k->name, at);
    case pb_keyWord: return read_word(r, object, k, at);
  }
  return pb_ok;
}

pbStatus pbTaskReader_KnowsKeys(const pbTaskReader *r, const json_t *object, const pbTaskKey *keys) {
  enum { most = 40 };
  const char *names[most + 1];
  int count = 0;
  for (const pbTaskKey *k = keys; k->name; k++) {
    PB_ASSERT(count < most);
    names[count++] = k->name;
  }
  names[count] = NULL;

  return pbTaskReader_Keys(r, object, names);
}

pbStatus pbTaskReader_Fill(pbTaskReader *r, const json_t *object, const pbTaskKey *keys, void *into) {
  PB_TRY(pbTaskReader_KnowsKeys(r, object, keys));
  for (const pbTaskKey *k = keys; k->name; k++) PB_TRY(pbTaskReader_Key(r, object, k, into));
  return pb_ok;
}

// ---- numbers --------------------------------------------------------------------------------------------------------
// A flat list of numbers, as long as the first one was.
static pbStatus check_list(pbTaskReader *r, const json_t *list, size_t cols, bool gaps, double *out) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    if (!json_is_number(value) && !(gaps && json_is_null(value))) {
      pbTaskReader_EnterAt(r, i);
      pbStatus status = pbTaskReader_Fail(r, pb_bad_input, "expected a number");
      pbTaskReader_Leave(r);
      return status;
    }
    out[i] = json_is_null(value) ? NAN : json_number_value(value);
  }

  if (json_array_size(list) == cols) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "%zu numbers; the first row has %zu", json_array_size(list), cols);
}

static pbStatus check_rows(pbTaskReader *r, const json_t *rows, bool gaps, const pbTaskNumbers *out) {
  for (size_t i = 0; i < out->rows; i++) {
    const json_t *row = json_array_get(rows, i);
    bool good = json_is_array(row) && json_array_size(row) == out->cols;
    pbTaskReader_EnterAt(r, i);
    pbStatus status = good ? check_list(r, row, out->cols, gaps, out->data + i * out->cols)
                           : pbTaskReader_Fail(r, pb_bad_input, "expected a row of %zu numbers", out->cols);
    pbTaskReader_Leave(r);
    PB_TRY(status);
  }
  return pb_ok;
}

static pbStatus read_numbers(pbTaskReader *r, const json_t *value, bool gaps, pbTaskNumbers *out) {
  *out = (pbTaskNumbers){.rows = 1, .cols = 1};
  if (!json_is_number(value) && !json_is_array(value))
    return pbTaskReader_Fail(r, pb_bad_input, "expected a number or a list of numbers");

  // shape first: no memory before it is known to be bounded
  out->nested = json_is_array(value) && json_is_array(json_array_get(value, 0));
  if (json_is_array(value)) {
    out->rows = out->nested ? json_array_size(value) : 1;
    out->cols = out->nested ? json_array_size(json_array_get(value, 0)) : json_array_size(value);
  }

  size_t count = out->rows * out->cols;
  out->data = count > PB_TASK_NUMBERS ? NULL : pbContext_AllocArray(r->ctx, count + 1, sizeof(double));
  if (!out->data) return pbTaskReader_Fail(r, pb_no_memory, "no memory for %zu x %zu numbers", out->rows, out->cols);

  pbStatus status = pb_ok;
  if (json_is_number(value)) out->data[0] = json_number_value(value);
  else if (out->nested) status = check_rows(r, value, gaps, out);
  else status = check_list(r, value, out->cols, gaps, out->data);

  if (status == pb_ok) return pb_ok;
  pbContext_Free(r->ctx, out->data);
  out->data = NULL;
  return status;
}

pbStatus pbTaskReader_Numbers(pbTaskReader *r, const json_t *value, pbTaskNumbers *out) {
  return read_numbers(r, value, false, out);
}

pbStatus pbTaskReader_Samples(pbTaskReader *r, const json_t *value, pbTaskNumbers *out) {
  return read_numbers(r, value, true, out);
}

pbStatus pbTaskReader_Spread(pbTaskReader *r, const json_t *object, const char *key, size_t count, double *out) {
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;

  pbTaskNumbers numbers;
  pbTaskReader_Enter(r, key);
  pbStatus status = pbTaskReader_Numbers(r, value, &numbers);

  // one number holds for all
  if (status == pb_ok) {
    size_t have = numbers.rows * numbers.cols;
    bool one = json_is_number(value);
    if (!one && have != count) status = pbTaskReader_Fail(r, pb_bad_input, "expected %zu numbers, found %zu", count, have);
    size_t filled = status == pb_ok ? count : 0;
    for (size_t i = 0; i < filled; i++) out[i] = numbers.data[one ? 0 : i];
    pbContext_Free(r->ctx, numbers.data);
  }

  pbTaskReader_Leave(r);
  return status;
}

// ---- files ----------------------------------------------------------------------------------------------------------
pbStatus pbTaskReader_Folders(pbTaskReader *r, const char *folder, const char *allow_root) {
  char resolved[PATH_MAX];
  r->allow_root = allow_root;

  // links resolved, to be compared with where files really are
  if (folder) {
    if (!realpath(*folder ? folder : ".", resolved))
      return pbContext_Fail(r->ctx, pb_file, "folder '%.400s' cannot be found", folder);
    if (!(r->folder = pbContext_CopyText(r->ctx, resolved)))
      return pbContext_Fail(r->ctx, pb_no_memory, "no memory to read a task");
  }

  return pbRoots_Open(r->ctx, allow_root, &r->roots);
}

// Folder of a path, "" for the present one, where also what has no folder looks for files; free with pbContext_Free.
static char *folder_of(pbContext *ctx, const char *path) {
  char *folder = pbContext_CopyText(ctx, pbFile_IsDescriptor(path) ? "" : path);
  char *slash = folder ? strrchr(folder, '/') : NULL;

  // "/task.json" lies in "/", "task.json" in the present folder
  if (slash) slash[slash == folder] = 0;
  else if (folder) folder[0] = 0;
  return folder;
}

pbStatus pbTaskReader_Open(pbContext *ctx, const char *path, const char *allow_root, pbTaskReader *r, char **text) {
  char *folder = folder_of(ctx, path);
  size_t length = 0;
  *r = (pbTaskReader){.ctx = ctx, .name = pbFile_Called(path)};

  // files are looked for beside the task
  pbStatus status = folder ? pbFile_ReadAll(ctx, path, PB_TASK_TEXT, text, &length)
                           : pbContext_Fail(ctx, pb_no_memory, "no memory to read %.400s", path);
  if (status == pb_ok) status = pbTaskReader_Folders(r, folder, allow_root);

  r->text = *text;
  r->length = length;
  pbContext_Free(ctx, folder);
  return status;
}

void pbTaskReader_End(pbTaskReader *r) {
  pbContext_Free(r->ctx, r->folder);
  pbRoots_Close(r->ctx, &r->roots);
  json_decref(r->made);
  r->made = NULL;
}

pbStatus pbTaskReader_Path(const pbTaskReader *r, const char *file, char **path) {
  char joined[PATH_MAX], resolved[PATH_MAX];
  *path = NULL;
  if (!r->folder) return pbTaskReader_Fail(r, pb_unsupported, "a task given as text cannot read files");
  const char *separator = file[0] == '/' ? "" : "/", *base = file[0] == '/' ? "" : r->folder;
  int n = snprintf(joined, sizeof joined, "%s%s%s", base, separator, file);
  if (n < 0 || (size_t)n >= sizeof joined || !realpath(joined, resolved))
    return pbTaskReader_Fail(r, pb_file, "file '%.300s' cannot be found", file);

  // links are resolved by now: what counts is where the file really is
  if (!pbRoots_Inside(resolved, r->folder) && !pbRoots_Hold(&r->roots, resolved)) {
    // the option as it may be given
    int length = (int)(strrchr(resolved, '/') - resolved);
    return pbTaskReader_Fail(
        r, pb_unsupported,
        "file '%.300s' lies outside the task's folder; allow its folder as a root (--allow-root %.*s) to read it", file, length,
        resolved);
  }

  *path = pbContext_CopyText(r->ctx, resolved);
  return *path ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory to read a file");
}

pbStatus pbTaskReader_LoadSamples(pbTaskReader *r, const json_t *object, pbArrays **set) {
  const char *file = NULL;
  char *path = NULL;
  *set = NULL;
  PB_TRY(pbTaskReader_Text(r, object, "file", &file));
  if (!file) return pbTaskReader_Fail(r, pb_bad_input, "\"file\" is missing");

  pbTaskReader_Enter(r, "file");
  pbStatus status = pbTaskReader_Path(r, file, &path);
  if (status == pb_ok) {
    status = pbArrays_Load(r->ctx, path, set);
    if (status != pb_ok) status = pbTaskReader_FailAgain(r, status);
  }

  pbContext_Free(r->ctx, path);
  pbTaskReader_Leave(r);
  return status;
}

// samples: those of a CSV may be missing; who reads it as a recording looks for them.
static pbStatus load_arrays(pbTaskReader *r, const json_t *object, bool samples, pbArrays **set) {
  const char *file = NULL;
  PB_TRY(pbTaskReader_LoadSamples(r, object, set));
  PB_TRY(pbTaskReader_Text(r, object, "file", &file));
  pbTaskReader_Enter(r, "file");
  pbStatus status = pb_ok;

  // numbers from files are finite, as those of JSON are
  size_t count = samples && pbRecording_Rows(*set) ? 0 : pbArrays_Count(*set);
  for (size_t i = 0; status == pb_ok && i < count; i++) {
    const pbArray *array = pbArrays_At(*set, i);
    if (array->type == pb_arrayReal && pbArray_CheckFinite(r->ctx, array, file) != pb_ok)
      status = pbTaskReader_FailAgain(r, pb_bad_input);
  }

  // nothing is handed out half checked
  if (status != pb_ok) {
    pbArrays_Destroy(*set);
    *set = NULL;
  }
  pbTaskReader_Leave(r);
  return status;
}

pbStatus pbTaskReader_Load(pbTaskReader *r, const json_t *object, pbArrays **set) { return load_arrays(r, object, false, set); }
pbStatus pbTaskReader_LoadRecording(pbTaskReader *r, const json_t *object, pbArrays **set) {
  return load_arrays(r, object, true, set);
}

// ---- names ----------------------------------------------------------------------------------------------------------
static const char *const kind_names[pb_objCount] = {
    "body",     "joint",   "geom",   "site",  "pair",    "equality", "tendon", "actuator",         "sensor",
    "keyframe", "numeric", "camera", "light", "exclude", "text",     "tuple",  "degree of freedom"};

pbStatus pbTaskReader_Id(pbTaskReader *r, const char *name, pbObject kind, int *id) {
  *id = pbModel_Id(r->model, kind, name);
  if (*id >= 0) return pb_ok;

  // the nearest name, else some that there are
  pbSuggest near = pbSuggest_For(name);
  char hint[200];
  const char *candidate;
  for (int i = 0; (candidate = pbModel_Name(r->model, kind, i)); i++) pbSuggest_Offer(&near, candidate);
  pbSuggest_Write(&near, hint, sizeof hint);
  int shown = near.best ? 0 : 6;
  for (int i = 0; i < shown && (candidate = pbModel_Name(r->model, kind, i)); i++) {
    size_t used = strlen(hint);
    snprintf(hint + used, sizeof hint - used, "%s%.30s%s", i ? ", " : "; there are ", *candidate ? candidate : "(without a name)",
             i == 5 && pbModel_Name(r->model, kind, 6) ? ", ..." : "");
  }

  return pbTaskReader_Fail(r, pb_bad_input, "the model has no %s '%.100s'%s", kind_names[kind], name, hint);
}

// One name of a list, or the only one. Actuators beyond `all` are controls of deformables.
static pbStatus read_id(pbTaskReader *r, const json_t *item, pbObject kind, int all, int *id) {
  if (!json_is_string(item)) return pbTaskReader_Fail(r, pb_bad_input, "expected a name, a list of names or true");
  PB_TRY(pbTaskReader_Id(r, json_string_value(item), kind, id));
  if (*id < all) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "'%.100s' is a control of deformables: it has no such thing",
                           json_string_value(item));
}

static pbStatus read_ids(pbTaskReader *r, const json_t *value, pbObject kind, int all, int *ids, int count) {
  if (!json_is_array(value)) return read_id(r, value, kind, all, ids);

  for (int i = 0; i < count; i++) {
    pbTaskReader_EnterAt(r, (size_t)i);
    pbStatus status = read_id(r, json_array_get(value, (size_t)i), kind, all, &ids[i]);
    pbTaskReader_Leave(r);
    PB_TRY(status);
  }
  return pb_ok;
}

pbStatus pbTaskReader_Ids(pbTaskReader *r, const json_t *value, pbObject kind, int all, int **ids, int *count) {
  size_t listed = json_is_array(value) ? json_array_size(value) : 1;
  bool every = json_is_true(value);
  *count = listed < INT_MAX ? (int)listed : INT_MAX;
  if (every) *count = all;
  *ids = pbContext_AllocArray(r->ctx, (size_t)*count + 1, sizeof **ids);
  if (!*ids) return pbTaskReader_Fail(r, pb_no_memory, "no memory for names");

  if (every) {
    for (int i = 0; i < all; i++) (*ids)[i] = i;
    return pb_ok;
  }

  pbStatus status = read_ids(r, value, kind, all, *ids, *count);
  if (status == pb_ok) return pb_ok;
  pbContext_Free(r->ctx, *ids);
  *ids = NULL;
  return status;
}

// Points of deformables: true for all, a number, the name of a set, or a list of these.
static pbStatus point_item(pbTaskReader *r, const json_t *item, int *ids, int *count) {
  const pbModel *m = r->model;
  int all = pbModel_PointCount(m), n = 1;
  json_int_t number = json_is_integer(item) ? json_integer_value(item) : -1;

  // a name is a set of points, a number one of them
  const int *set = json_is_string(item) ? pbModel_PointSet(m, json_string_value(item), &n) : NULL;

  if (json_is_integer(item) && (number < 0 || number >= all))
    return pbTaskReader_Fail(r, pb_bad_input, "there is no point %d: the model has %d", (int)number, all);

  if (json_is_string(item) && !set) {
    pbSuggest near = pbSuggest_For(json_string_value(item));
    char hint[200];
    for (int i = 0; pbModel_PointSetName(m, i); i++) pbSuggest_Offer(&near, pbModel_PointSetName(m, i));
    return pbTaskReader_Fail(r, pb_bad_input, "the model has no points '%.100s'%s", json_string_value(item),
                             pbSuggest_Write(&near, hint, sizeof hint));
  }

  if (!json_is_integer(item) && !set)
    return pbTaskReader_Fail(r, pb_bad_input, "expected the number of a point, the name of some, or a list of these");

  // ids has room for each point once
  if (*count + n > all) return pbTaskReader_Fail(r, pb_bad_input, "more points than the model has");
  for (int i = 0; i < n; i++) ids[(*count)++] = set ? set[i] : (int)number;
  return pb_ok;
}

pbStatus pbTaskReader_Points(pbTaskReader *r, const json_t *value, int **ids, int *count) {
  int all = pbModel_PointCount(r->model);
  pbStatus status = pb_ok;
  *count = 0;
  *ids = pbContext_AllocArray(r->ctx, (size_t)all + 1, sizeof **ids);
  if (!*ids) return pbTaskReader_Fail(r, pb_no_memory, "no memory for points");

  // true is all of them
  if (json_is_true(value)) {
    for (; *count < all; ++*count) (*ids)[*count] = *count;
  } else if (json_is_array(value)) {
    for (size_t i = 0; status == pb_ok && i < json_array_size(value); i++) {
      pbTaskReader_EnterAt(r, i);
      status = point_item(r, json_array_get(value, i), *ids, count);
      pbTaskReader_Leave(r);
    }
  } else {
    status = point_item(r, value, *ids, count);
  }

  if (status == pb_ok) return pb_ok;
  pbContext_Free(r->ctx, *ids);
  *ids = NULL;
  return status;
}

pbStatus pbTaskReader_Components(pbTaskReader *r, const json_t *object, int limit, int *chosen, int *count) {
  const json_t *list = json_object_get(object, "components");
  *count = limit;
  for (int i = 0; i < limit; i++) chosen[i] = i;
  if (!list) return pb_ok;

  pbTaskReader_Enter(r, "components");
  pbStatus status = json_is_array(list) && json_array_size(list) <= (size_t)limit
                        ? pb_ok
                        : pbTaskReader_Fail(r, pb_bad_input, "expected a list of at most %d indices", limit);

  *count = status == pb_ok ? (int)json_array_size(list) : 0;

  // whole numbers in range, none twice
  for (int i = 0; status == pb_ok && i < *count; i++) {
    const json_t *item = json_array_get(list, (size_t)i);
    json_int_t index = json_is_integer(item) ? json_integer_value(item) : -1;
    if (index < 0 || index >= limit)
      status = pbTaskReader_Fail(r, pb_bad_input, "index %d of the list is not a whole number from 0 to %d", i, limit - 1);
    for (int k = 0; status == pb_ok && k < i; k++)
      if (chosen[k] == (int)index) status = pbTaskReader_Fail(r, pb_bad_input, "component %d is named twice", (int)index);
    chosen[i] = (int)index;
  }

  pbTaskReader_Leave(r);
  return status;
}

double pbTaskReader_Timestep(const pbTaskReader *r) {
  pbParam h;
  return pbModel_Param(r->ctx, r->model, "timestep", &h) == pb_ok ? r->theta[h.offset] : 0;
}
