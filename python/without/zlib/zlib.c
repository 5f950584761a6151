// zlib's functions by the objects of Python's module of that name.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
//
#include <zlib.h>

typedef struct PyPacker {
  PyObject *object;  // a compressobj or decompressobj
  PyObject *packed;  // bytes that did not fit yet
  Py_ssize_t given;  // so many of them were taken
  bool ended;
  char message[80];
} PyPacker;

static PyObject *module;

bool pyZlib_Start(void) {
  module = PyImport_ImportModule("zlib");
  return module != NULL;
}

// Callers work without the interpreter's lock, and an exception may be waiting for them to end, such as that of a signal: it is kept.
typedef struct Visit {
  PyGILState_STATE gil;
  PyObject *type, *value, *trace;
} Visit;

static Visit enter(void) {
  Visit v = {.gil = PyGILState_Ensure()};
  PyErr_Fetch(&v.type, &v.value, &v.trace);
  return v;
}

static void leave(Visit v) {
  PyErr_Restore(v.type, v.value, v.trace);
  PyGILState_Release(v.gil);
}

// The code in "Error -3 while decompressing data: incorrect header check"; what follows the colon into message (NULL: nobody asks).
// Z_MEM_ERROR of other exceptions. It is over then.
static int code_of_exception(char *message, size_t size) {
  PyObject *type, *value, *trace;
  int code = Z_MEM_ERROR;

  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  const char *said = bytes ? PyBytes_AsString(bytes) : NULL;
  if (said && sscanf(said, "Error %d", &code) == 1 && message) {
    const char *colon = strstr(said, ": ");
    snprintf(message, size, "%s", colon ? colon + 2 : "");
  }

  PyErr_Clear();
  Py_XDECREF(bytes);
  Py_XDECREF(text);
  Py_XDECREF(trace);
  Py_XDECREF(value);
  Py_XDECREF(type);
  return code;
}

static PyObject *view(const void *bytes, size_t size) {
  static char nothing[1];
  return PyMemoryView_FromMemory(size ? (char *)bytes : nothing, (Py_ssize_t)size, PyBUF_READ);
}

// ---- unpacking ----------------------------------------------------------------------------------------------------------

static int begin(z_stream *zip, PyObject *object) {
  zip->msg = NULL;
  zip->state = object ? calloc(1, sizeof *zip->state) : NULL;
  if (zip->state) {
    zip->state->object = object;
    return Z_OK;
  }

  PyErr_Clear();
  Py_XDECREF(object);
  return Z_MEM_ERROR;
}

static int end(z_stream *zip) {
  if (!zip->state) return Z_STREAM_ERROR;
  Visit visit = enter();
  Py_XDECREF(zip->state->object);
  Py_XDECREF(zip->state->packed);
  leave(visit);

  free(zip->state);
  zip->state = NULL;
  return Z_OK;
}

int inflateInit2(z_stream *zip, int window) {
  Visit visit = enter();
  int code = begin(zip, PyObject_CallMethod(module, "decompressobj", "i", window));
  leave(visit);
  return code;
}

int inflateInit(z_stream *zip) { return inflateInit2(zip, MAX_WBITS); }

int inflateEnd(z_stream *zip) { return end(zip); }

static Py_ssize_t length_of(PyObject *object, const char *name) {
  PyObject *bytes = PyObject_GetAttrString(object, name);
  Py_ssize_t length = bytes ? PyBytes_Size(bytes) : -1;
  Py_XDECREF(bytes);
  return length;
}

// What came out, and what of the input is left over. False with an exception.
static bool take_unpacked(z_stream *zip, PyObject *bytes) {
  PyObject *object = zip->state->object, *ended = PyObject_GetAttrString(object, "eof");
  Py_ssize_t left = length_of(object, "unconsumed_tail"), behind = length_of(object, "unused_data");
  char *data;
  Py_ssize_t size;
  bool good = ended && left >= 0 && behind >= 0 && PyBytes_AsStringAndSize(bytes, &data, &size) == 0;

  if (good) {
    memcpy(zip->next_out, data, (size_t)size);
    zip->next_out += size;
    zip->avail_out -= (uInt)size;
    zip->next_in += zip->avail_in - (uInt)(left + behind);
    zip->avail_in = (uInt)(left + behind);
    zip->state->ended = PyObject_IsTrue(ended) == 1;
  }
  Py_XDECREF(ended);
  return good;
}

int inflate(z_stream *zip, int flush) {
  (void)flush;
  if (!zip->state) return Z_STREAM_ERROR;
  if (zip->state->ended) return Z_STREAM_END;
  if (!zip->avail_out) return Z_BUF_ERROR;

  Visit visit = enter();
  uInt room = zip->avail_out, given = zip->avail_in;
  PyObject *packed = view(zip->next_in, zip->avail_in);
  PyObject *bytes =
      packed ? PyObject_CallMethod(zip->state->object, "decompress", "On", packed, (Py_ssize_t)zip->avail_out) : NULL;

  int code = Z_OK;
  if (!bytes || !take_unpacked(zip, bytes)) {
    code = code_of_exception(zip->state->message, sizeof zip->state->message);
    zip->msg = *zip->state->message ? zip->state->message : NULL;
  } else if (zip->state->ended) {
    code = Z_STREAM_END;
  } else if (zip->avail_out == room && zip->avail_in == given) {
    code = Z_BUF_ERROR;
  }

  Py_XDECREF(bytes);
  Py_XDECREF(packed);
  leave(visit);
  return code;
}

int uncompress(Bytef *out, uLongf *size, const Bytef *packed, uLong packed_size) {
  Visit visit = enter();
  PyObject *object = PyObject_CallMethod(module, "decompressobj", NULL), *input = view(packed, packed_size);

  // One byte more than there is room for, so that a text that is too long shows itself.
  PyObject *bytes = object && input ? PyObject_CallMethod(object, "decompress", "On", input, (Py_ssize_t)*size + 1) : NULL;
  PyObject *ended = bytes ? PyObject_GetAttrString(object, "eof") : NULL;
  int code = Z_DATA_ERROR;

  if (!ended) {
    code = code_of_exception(NULL, 0);
  } else if ((uLong)PyBytes_Size(bytes) > *size) {
    code = Z_BUF_ERROR;
  } else if (PyObject_IsTrue(ended) == 1) {
    *size = (uLong)PyBytes_Size(bytes);
    memcpy(out, PyBytes_AsString(bytes), *size);
    code = Z_OK;
  }

  Py_XDECREF(ended);
  Py_XDECREF(bytes);
  Py_XDECREF(input);
  Py_XDECREF(object);
  leave(visit);
  return code;
}

// ---- packing ------------------------------------------------------------------------------------------------------------

int deflateInit2(z_stream *zip, int level, int method, int window, int memory, int strategy) {
  Visit visit = enter();
  int code = begin(zip, PyObject_CallMethod(module, "compressobj", "iiiii", level, method, window, memory, strategy));
  leave(visit);
  return code;
}

int deflateEnd(z_stream *zip) { return end(zip); }

// All of the input goes in at once; what that gives waits in `packed`.
static bool pack(z_stream *zip, int flush) {
  PyPacker *p = zip->state;
  PyObject *input = view(zip->next_in, zip->avail_in);
  PyObject *bytes = input ? PyObject_CallMethod(p->object, "compress", "O", input) : NULL;
  PyObject *last = bytes && flush == Z_FINISH ? PyObject_CallMethod(p->object, "flush", "i", Z_FINISH) : NULL;
  if (last) {
    PyObject *both = PySequence_Concat(bytes, last);
    Py_DECREF(bytes);
    Py_DECREF(last);
    bytes = both;
    p->ended = true;
  }
  Py_XDECREF(input);

  Py_XDECREF(p->packed);
  p->packed = bytes;
  p->given = 0;
  zip->next_in += zip->avail_in;
  zip->avail_in = 0;
  return bytes && p->ended == (flush == Z_FINISH);
}

static void give_packed(z_stream *zip) {
  PyPacker *p = zip->state;
  char *data;
  Py_ssize_t size;
  if (!p->packed || PyBytes_AsStringAndSize(p->packed, &data, &size) != 0) return;

  Py_ssize_t some = size - p->given < (Py_ssize_t)zip->avail_out ? size - p->given : (Py_ssize_t)zip->avail_out;
  memcpy(zip->next_out, data + p->given, (size_t)some);
  zip->next_out += some;
  zip->avail_out -= (uInt)some;
  p->given += some;
}

int deflate(z_stream *zip, int flush) {
  Visit visit = enter();
  PyPacker *p = zip->state;
  bool waiting = p->packed && p->given < PyBytes_Size(p->packed);
  bool asked = !waiting && (zip->avail_in || (flush == Z_FINISH && !p->ended));
  bool good = !asked || pack(zip, flush);
  if (good) give_packed(zip);
  PyErr_Clear();
  leave(visit);
  if (!good) return Z_MEM_ERROR;
  return flush == Z_FINISH && zip->avail_out ? Z_STREAM_END : Z_OK;
}

uLong crc32(uLong crc, const Bytef *bytes, uInt size) {
  Visit visit = enter();
  PyObject *input = view(bytes, size);
  PyObject *sum = input ? PyObject_CallMethod(module, "crc32", "Ok", input, crc) : NULL;
  uLong found = sum ? PyLong_AsUnsignedLong(sum) : ~crc;  // without memory: none that could be right

  PyErr_Clear();
  Py_XDECREF(sum);
  Py_XDECREF(input);
  leave(visit);
  return found;
}
