// Specs: elements by kind and key, their fields by number, as the library describes them (pullback/edit.h).
// Tests: tests/python/test_spec.py.
#include <limits.h>
#include <string.h>

#include "core.h"

PyTypeObject *pySpec_Type;

static PyObject *fail(const pySpec *s, pbStatus status) { return pyStatus_Raise(status, pbContext_Error(s->ctx)); }

// ---- what there is ------------------------------------------------------------------------------------------------------

// One more in a list, which is gone with an exception where there is none.
static bool append(PyObject **list, PyObject *one) {
  bool done = *list && one && PyList_Append(*list, one) == 0;
  Py_XDECREF(one);
  if (!done) Py_CLEAR(*list);
  return done;
}

static PyObject *describe_fields(pbSpecKind kind) {
  PyObject *list = PyList_New(0);
  pbSpecField f;
  for (int i = 0; pbSpecKind_Field(kind, i, &f); i++) {
    PyObject *one = Py_BuildValue("siiziissd", f.name, (int)f.type, f.count, f.words, f.refers, (int)f.optional, f.unit,
                                  f.meaning, pbSpecKind_Least(kind, &f));
    if (!append(&list, one)) return NULL;
  }
  return list;
}

// [(kind, member of the spec, [field, ...]), ...] of all kinds.
PyObject *pySpec_Kinds(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  PyObject *list = PyList_New(0);
  for (int kind = 0; kind < pb_specKinds; kind++) {
    PyObject *fields = describe_fields((pbSpecKind)kind);
    if (!fields) Py_CLEAR(list);
    if (!fields ||
        !append(&list, Py_BuildValue("ssN", pbSpecKind_Name((pbSpecKind)kind), pbSpecKind_List((pbSpecKind)kind), fields)))
      return NULL;
  }
  return list;
}

// ---- values of fields ---------------------------------------------------------------------------------------------------

static PyObject *fetch(const pbSpecField *f, const char *record);

static PyObject *fetch_record(pbSpecKind kind, const char *record) {
  PyObject *fields = PyList_New(0);
  pbSpecField f;
  for (int k = 0; pbSpecKind_Field(kind, k, &f); k++) {
    if (!append(&fields, fetch(&f, record))) return NULL;
  }
  return fields;
}

// Records of a list, each as the list of its fields.
static PyObject *fetch_records(pbSpecKind kind, const char *records, int count) {
  PyObject *list = PyList_New(0);
  for (int i = 0; i < count; i++) {
    if (!append(&list, fetch_record(kind, records + (size_t)i * pbSpecKind_Size(kind)))) return NULL;
  }
  return list;
}

static PyObject *fetch_pairs(const char *const *const *lists, int count) {
  PyObject *list = PyList_New(0);
  for (int i = 0; i < count; i++) {
    if (!append(&list, Py_BuildValue("ss", lists[0][i], lists[1][i]))) return NULL;
  }
  return list;
}

static PyObject *fetch_numbers(const void *data, int count, size_t size) {
  return PyBytes_FromStringAndSize(count > 0 ? data : "", count > 0 ? count * (Py_ssize_t)size : 0);
}

static int length_of(const pbSpecField *f, const char *record) {
  int count;
  memcpy(&count, record + f->count_offset, sizeof count);
  return count;
}

static PyObject *fetch(const pbSpecField *f, const char *record) {
  const void *at = record + f->offset;
  switch (f->type) {
    case pb_fieldBool: return PyBool_FromLong(*(const bool *)at);
    case pb_fieldInt: return f->count == 1 ? PyLong_FromLong(*(const int *)at) : fetch_numbers(at, f->count, sizeof(int));
    case pb_fieldReal:
      return f->count == 1 ? PyFloat_FromDouble(*(const double *)at) : fetch_numbers(at, f->count, sizeof(double));
    case pb_fieldLetters: return PyUnicode_FromString(at);
    case pb_fieldText: return PyUnicode_FromString(*(const char *const *)at ? *(const char *const *)at : "");
    case pb_fieldReals: return fetch_numbers(((const pbReals *)at)->data, ((const pbReals *)at)->count, sizeof(double));
    case pb_fieldInts: return fetch_numbers(((const pbInts *)at)->data, ((const pbInts *)at)->count, sizeof(int));
    case pb_fieldPath: return fetch_records(pb_specWrap, *(const char *const *)at, length_of(f, record));
    case pb_fieldEntries: return fetch_records(pb_specEntry, *(const char *const *)at, length_of(f, record));
    case pb_fieldPairs: return fetch_pairs(at, length_of(f, record));
    default: break;
  }
  return PyErr_Format(PyExc_SystemError, "field '%s' has no type", f->name);
}

// What a value lies in until the spec has a copy of it.
typedef struct holder {
  Py_buffer view;
  void *memory;
} holder;

static void release(holder *h) {
  if (h->view.obj) PyBuffer_Release(&h->view);
  PyMem_Free(h->memory);
}

static const char *text_of(PyObject *value, const char *name) {
  Py_ssize_t length;
  const char *text = PyUnicode_AsUTF8AndSize(value, &length);
  if (text && strlen(text) != (size_t)length) {
    PyErr_Format(PyExc_ValueError, "%s: a text with a character 0 in it", name);
    return NULL;
  }
  return text;
}

static bool store_int(int *to, PyObject *value, const char *name) {
  long number = PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred()) return false;
  if (number < INT_MIN || number > INT_MAX) {
    PyErr_Format(PyExc_OverflowError, "%s: %ld is beyond the range of integers", name, number);
    return false;
  }
  *to = (int)number;
  return true;
}

// Memory of `count` numbers, or of any number of them (-1): what it holds, or NULL with an exception.
static const void *numbers_of(PyObject *value, int count, size_t size, const char *name, holder *h, int *found) {
  if (PyObject_GetBuffer(value, &h->view, PyBUF_C_CONTIGUOUS) != 0) return NULL;
  Py_ssize_t there = h->view.len / (Py_ssize_t)size;
  if (h->view.len % (Py_ssize_t)size || there > INT_MAX || (count >= 0 && there != count)) {
    PyErr_Format(PyExc_ValueError, "%s: expected %d numbers, found %zd", name, count, there);
    return NULL;
  }
  *found = (int)there;
  return h->view.buf;
}

static bool store(const pbSpecField *f, char *record, PyObject *value, holder *h);

static bool store_records(const pbSpecField *f, pbSpecKind kind, char *record, PyObject *value, holder *h) {
  Py_ssize_t count = PyList_Size(value);
  if (count < 0 || count > INT_MAX / 2) return false;
  size_t size = pbSpecKind_Size(kind);
  char *made = h->memory = PyMem_Calloc((size_t)count + 1, size);
  if (!made) return PyErr_NoMemory() != NULL;

  for (Py_ssize_t i = 0; i < count; i++) {
    pbSpecField part;
    holder none = {0};
    pbSpecKind_Default(kind, made + (size_t)i * size);
    for (int k = 0; pbSpecKind_Field(kind, k, &part); k++) {
      PyObject *one = PyList_GetItem(value, i), *item = one ? PyTuple_GetItem(one, k) : NULL;
      if (!item || !store(&part, made + (size_t)i * size, item, &none)) return false;
    }
  }

  int length = (int)count;
  if (!count) made = NULL;
  memcpy(record + f->offset, &made, sizeof made);
  memcpy(record + f->count_offset, &length, sizeof length);
  return true;
}

static bool store_pairs(const pbSpecField *f, char *record, PyObject *value, holder *h) {
  Py_ssize_t count = PyList_Size(value);
  if (count < 0 || count > INT_MAX / 2) return false;
  const char **texts = h->memory = PyMem_Calloc(2 * (size_t)count + 1, sizeof *texts);
  if (!texts) return PyErr_NoMemory() != NULL;

  for (Py_ssize_t i = 0; i < 2 * count; i++) {
    PyObject *pair = PyList_GetItem(value, i % count), *item = pair ? PyTuple_GetItem(pair, i / count) : NULL;
    texts[i] = item ? text_of(item, f->name) : NULL;
    if (!texts[i]) return false;
  }

  const char **lists[2] = {count ? texts : NULL, count ? texts + count : NULL};
  int length = (int)count;
  memcpy(record + f->offset, lists, sizeof lists);
  memcpy(record + f->count_offset, &length, sizeof length);
  return true;
}

static bool store_row(const pbSpecField *f, void *at, PyObject *value, holder *h) {
  size_t size = f->type == pb_fieldInt ? sizeof(int) : sizeof(double);
  int found;
  const void *numbers = numbers_of(value, f->count, size, f->name, h, &found);
  if (numbers) memcpy(at, numbers, (size_t)found * size);
  return numbers != NULL;
}

static bool store(const pbSpecField *f, char *record, PyObject *value, holder *h) {
  void *at = record + f->offset;
  const char *text;
  switch (f->type) {
    case pb_fieldBool: *(bool *)at = PyObject_IsTrue(value) == 1; return !PyErr_Occurred();
    case pb_fieldInt: return f->count == 1 ? store_int(at, value, f->name) : store_row(f, at, value, h);
    case pb_fieldReal:
      if (f->count != 1) return store_row(f, at, value, h);
      *(double *)at = PyFloat_AsDouble(value);
      return !PyErr_Occurred();
    case pb_fieldLetters:
      text = text_of(value, f->name);
      if (text && strlen(text) + 1 == (size_t)f->count) return memcpy(at, text, (size_t)f->count) != NULL;
      if (text) PyErr_Format(PyExc_ValueError, "%s: expected %d letters, found '%s'", f->name, f->count - 1, text);
      return false;
    case pb_fieldText: return (*(const char **)at = text_of(value, f->name)) != NULL;
    case pb_fieldReals: {
      pbReals *list = at;
      return (list->data = numbers_of(value, -1, sizeof(double), f->name, h, &list->count)) != NULL;
    }
    case pb_fieldInts: {
      pbInts *list = at;
      return (list->data = numbers_of(value, -1, sizeof(int), f->name, h, &list->count)) != NULL;
    }
    case pb_fieldPath: return store_records(f, pb_specWrap, record, value, h);
    case pb_fieldEntries: return store_records(f, pb_specEntry, record, value, h);
    case pb_fieldPairs: return store_pairs(f, record, value, h);
    default: break;
  }
  return false;
}

// ---- elements -----------------------------------------------------------------------------------------------------------

static bool is_kind(int kind) { return kind >= 0 && kind < pb_specKinds; }

// Its number by its key: keys rise. -1: it is gone. Settings have the key 0.
static int number_of(const pySpec *s, pbSpecKind kind, int key) {
  if (kind >= pb_specElements) return 0;
  int low = 0, high = pbSpec_Count(s->spec, kind);

  while (low < high) {
    int middle = low + (high - low) / 2;
    const pbFrameDef *def = pbSpec_At(s->spec, kind, middle);
    if (def->key < key) low = middle + 1;
    else high = middle;
  }
  const pbFrameDef *def = pbSpec_At(s->spec, kind, low);
  return def && def->key == key ? low : -1;
}

// The record of an element; NULL with an exception where it was removed.
static char *record_of(const pySpec *s, int kind, int key) {
  int number = is_kind(kind) ? number_of(s, (pbSpecKind)kind, key) : -1;
  char *record = number >= 0 ? pbSpec_At(s->spec, (pbSpecKind)kind, number) : NULL;
  if (!record) PyErr_SetString(PyExc_ReferenceError, "it was removed from its spec");
  return record;
}

static PyObject *spec_count(PyObject *self, PyObject *args) {
  int kind;
  if (!PyArg_ParseTuple(args, "i", &kind)) return NULL;
  return PyLong_FromLong(is_kind(kind) ? pbSpec_Count(((pySpec *)self)->spec, (pbSpecKind)kind) : 0);
}

static PyObject *spec_key(PyObject *self, PyObject *args) {
  int kind, number;
  if (!PyArg_ParseTuple(args, "ii", &kind, &number)) return NULL;
  const pbFrameDef *def = is_kind(kind) ? pbSpec_At(((pySpec *)self)->spec, (pbSpecKind)kind, number) : NULL;
  return PyLong_FromLong(def && kind < pb_specElements ? def->key : 0);
}

static PyObject *spec_number(PyObject *self, PyObject *args) {
  int kind, key;
  if (!PyArg_ParseTuple(args, "ii", &kind, &key)) return NULL;
  return PyLong_FromLong(is_kind(kind) ? number_of((pySpec *)self, (pbSpecKind)kind, key) : -1);
}

static PyObject *spec_find(PyObject *self, PyObject *args) {
  int kind;
  const char *name;
  if (!PyArg_ParseTuple(args, "is", &kind, &name)) return NULL;
  return PyLong_FromLong(is_kind(kind) ? pbSpec_Find(((pySpec *)self)->spec, (pbSpecKind)kind, name) : -1);
}

static PyObject *spec_place(PyObject *self, PyObject *args) {
  int kind, key;
  if (!PyArg_ParseTuple(args, "ii", &kind, &key)) return NULL;
  const pbFrameDef *def = (const pbFrameDef *)record_of((pySpec *)self, kind, key);
  if (!def) return NULL;
  if (kind >= pb_specElements || def->place.line <= 0) return PyUnicode_FromString("");
  return PyUnicode_FromFormat("%s:%d:%d", def->place.file, def->place.line, def->place.column);
}

static PyObject *spec_get(PyObject *self, PyObject *args) {
  int kind, key, index;
  pbSpecField f;
  if (!PyArg_ParseTuple(args, "iii", &kind, &key, &index)) return NULL;
  const char *record = record_of((pySpec *)self, kind, key);
  if (!record) return NULL;
  if (!pbSpecKind_Field((pbSpecKind)kind, index, &f)) return PyErr_Format(PyExc_IndexError, "there is no field %d", index);
  return fetch(&f, record);
}

// Bytes of the lists of all elements.
static size_t list_bytes(pbSpec *spec) {
  size_t bytes = 0;
  pbSpecField f;
  for (int kind = 0; kind < pb_specElements; kind++) {
    for (int k = 0; pbSpecKind_Field((pbSpecKind)kind, k, &f); k++) {
      if (f.type != pb_fieldReals && f.type != pb_fieldInts) continue;
      size_t size = f.type == pb_fieldReals ? sizeof(double) : sizeof(int);
      for (int i = 0; i < pbSpec_Count(spec, (pbSpecKind)kind); i++) {
        const char *record = pbSpec_At(spec, (pbSpecKind)kind, i);
        bytes += size * (size_t)(f.type == pb_fieldReals ? ((const pbReals *)(const void *)(record + f.offset))->count
                                                         : ((const pbInts *)(const void *)(record + f.offset))->count);
      }
    }
  }
  return bytes;
}

// Bytes that a field took, about.
static size_t bytes_of(const pbSpecField *f, const char *record, const holder *h) {
  enum { text = 64, part = 128 };
  if (f->type < pb_fieldText) return 0;
  if (f->type == pb_fieldText) return text;
  return h->view.obj ? (size_t)h->view.len : part * (size_t)length_of(f, record);
}

// What is written over stays in a spec's memory until the spec goes: once that is as much as what counts, a copy takes its place,
// with the same keys. Where there is no memory for one, it stays as it is.
static void note_written(pySpec *s, size_t bytes) {
  enum { least = 8 << 20 };
  s->written += bytes;
  if (s->written <= least || s->written <= s->live) return;

  pbSpec *copy;
  if (pbSpec_Copy(s->ctx, s->spec, &copy) != pb_ok) return;
  pbSpec_Destroy(s->spec);
  s->spec = copy;
  s->written = 0;
  s->live = list_bytes(copy);
}

static PyObject *spec_set(PyObject *self, PyObject *args) {
  pySpec *s = (pySpec *)self;
  int kind, key, index;
  PyObject *value;
  pbSpecField f;
  if (!PyArg_ParseTuple(args, "iiiO", &kind, &key, &index, &value)) return NULL;
  char *record = record_of(s, kind, key);
  if (!record) return NULL;
  if (!pbSpecKind_Field((pbSpecKind)kind, index, &f)) return PyErr_Format(PyExc_IndexError, "there is no field %d", index);

  // In a copy first, so that what fails changes nothing.
  holder h = {0};
  size_t size = pbSpecKind_Size((pbSpecKind)kind);
  char *copy = PyMem_Malloc(size);
  if (!copy) return PyErr_NoMemory();
  memcpy(copy, record, size);

  bool stored = store(&f, copy, value, &h);
  bool kept = stored && pbSpec_Keep(s->spec, &f, copy);
  if (kept) memcpy(record_of(s, kind, key), copy, size);
  if (kept) note_written(s, bytes_of(&f, copy, &h));
  release(&h);
  PyMem_Free(copy);

  if (stored && !kept) return PyErr_NoMemory();
  if (!kept) return NULL;
  Py_RETURN_NONE;
}

static PyObject *spec_add(PyObject *self, PyObject *args) {
  pySpec *s = (pySpec *)self;
  int kind;
  if (!PyArg_ParseTuple(args, "i", &kind)) return NULL;
  if (kind < 0 || kind >= pb_specElements) return PyErr_Format(PyExc_IndexError, "there is no kind %d", kind);

  char *record = PyMem_Malloc(pbSpecKind_Size((pbSpecKind)kind));
  if (!record) return PyErr_NoMemory();
  pbSpecKind_Default((pbSpecKind)kind, record);
  int number = pbSpec_Add(s->spec, (pbSpecKind)kind, record);
  PyMem_Free(record);

  if (number < 0) return fail(s, pb_no_memory);
  return PyLong_FromLong(((const pbFrameDef *)pbSpec_At(s->spec, (pbSpecKind)kind, number))->key);
}

static PyObject *spec_remove(PyObject *self, PyObject *args) {
  pySpec *s = (pySpec *)self;
  int kind, key;
  if (!PyArg_ParseTuple(args, "ii", &kind, &key) || !record_of(s, kind, key)) return NULL;

  pbStatus status = pbSpec_Remove(s->spec, (pbSpecKind)kind, number_of(s, (pbSpecKind)kind, key));
  if (status != pb_ok) return fail(s, status);
  Py_RETURN_NONE;
}

static PyObject *spec_attach(PyObject *self, PyObject *args) {
  pySpec *s = (pySpec *)self;
  int kind, key, frame;
  PyObject *other;
  const char *prefix;
  if (!PyArg_ParseTuple(args, "iiO!s", &kind, &key, pySpec_Type, &other, &prefix) || !record_of(s, kind, key)) return NULL;

  pbStatus status =
      pbSpec_Attach(s->spec, (pbSpecKind)kind, number_of(s, (pbSpecKind)kind, key), ((pySpec *)other)->spec, prefix, &frame);
  if (status != pb_ok) return fail(s, status);
  return PyLong_FromLong(s->spec->frames[frame].key);
}

// ---- life ---------------------------------------------------------------------------------------------------------------

static pySpec *empty(PyTypeObject *type) {
  pySpec *s = (pySpec *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (s) s->ctx = pbContext_Create(NULL);
  if (s && !s->ctx) {
    PyErr_NoMemory();
    Py_CLEAR(s);
  }
  return s;
}

static void spec_dealloc(PyObject *self) {
  pySpec *s = (pySpec *)self;
  pbSpec_Destroy(s->spec);
  pbContext_Destroy(s->ctx);

  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static pbStatus read_spec(pySpec *s, const char *path, const char *text, size_t length, const pbLoadOptions *load) {
  if (!path) return pbSpec_Create(s->ctx, &s->spec);
  if (!text) return pbSpec_Load(s->ctx, path, load, &s->spec);
  return pbSpec_Parse(s->ctx, text, length, path, load, &s->spec);
}

static PyObject *spec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static const char *const words[] = {
      "path", "text", "allow_root", "package_path", "floating_base", "fuse", "motors", "inertia", "skip_missing", "design", NULL};
  PyObject *given = NULL, *path = NULL;
  const char *text = NULL, *allow_root = NULL, *package_path = NULL;
  Py_ssize_t length = 0;
  int floating = 0, fuse = 0, motors = 0, inertia = 0, skip_missing = 0, design = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|Oz#zzpppipp", (char **)words, &given, &text, &length, &allow_root,
                                   &package_path, &floating, &fuse, &motors, &inertia, &skip_missing, &design))
    return NULL;
  if (given && given != Py_None && !PyUnicode_FSConverter(given, &path)) return NULL;

  const pbLoadOptions load = {.allow_root = allow_root,
                              .design = design,
                              .urdf = {.package_path = package_path,
                                       .floating_base = floating,
                                       .fuse = fuse,
                                       .motors = motors,
                                       .missing_meshes = skip_missing ? pb_missingSkip : pb_missingRefuse,
                                       .inertia = (pbInertiaRule)inertia}};
  pySpec *s = empty(type);
  pbStatus status = pb_ok;
  if (s) {
    Py_BEGIN_ALLOW_THREADS;
    status = read_spec(s, path ? PyBytes_AsString(path) : NULL, text, (size_t)length, &load);
    Py_END_ALLOW_THREADS;
  }
  Py_XDECREF(path);

  if (s && status != pb_ok) {
    fail(s, status);
    Py_CLEAR(s);
  }
  return (PyObject *)s;
}

static PyObject *spec_copy(PyObject *self, PyObject *none) {
  (void)none;
  pySpec *s = empty(Py_TYPE(self));
  if (!s) return NULL;

  pbStatus status = pbSpec_Copy(s->ctx, ((pySpec *)self)->spec, &s->spec);
  if (status != pb_ok) {
    fail(s, status);
    Py_CLEAR(s);
  }
  return (PyObject *)s;
}

static PyObject *spec_warnings(PyObject *self, PyObject *none) {
  (void)none;
  return PyUnicode_FromString(pbContext_Warnings(((pySpec *)self)->ctx));
}

static PyMethodDef methods[] = {
    {"count", spec_count, METH_VARARGS, "How many elements of a kind."},
    {"key", spec_key, METH_VARARGS, "Key of an element by kind and number."},
    {"number", spec_number, METH_VARARGS, "Number of an element by kind and key, -1: it was removed."},
    {"find", spec_find, METH_VARARGS, "Number of an element by kind and name, -1 if there is none."},
    {"place", spec_place, METH_VARARGS, "Where it stands in a file."},
    {"get", spec_get, METH_VARARGS, "A field of an element by kind, key and number of the field."},
    {"set", spec_set, METH_VARARGS, "The same, written."},
    {"add", spec_add, METH_VARARGS, "A new element of a kind; its key."},
    {"remove", spec_remove, METH_VARARGS, "An element, and what depends on it, taken out."},
    {"attach", spec_attach, METH_VARARGS, "Another spec put into a body or frame; the key of the frame that holds it."},
    {"copy", spec_copy, METH_NOARGS, "A spec of its own."},
    {"warnings", spec_warnings, METH_NOARGS, "Warnings of reading it, one per line."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, spec_new},
                              {Py_tp_dealloc, spec_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, (char *)"An editable description of a world: pbSpec."},
                              {0, NULL}};
static PyType_Spec description = {"pullback._core.Spec", sizeof(pySpec), 0, Py_TPFLAGS_DEFAULT, slots};

bool pySpec_Register(PyObject *module) {
  pySpec_Type = (PyTypeObject *)PyType_FromSpec(&description);
  return pySpec_Type && PyModule_AddType(module, pySpec_Type) == 0;
}
