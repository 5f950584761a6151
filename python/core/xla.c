// Custom calls of XLA, through its plain C interface: what a compiled program of JAX calls. The handler hands XLA's buffers on to
// pullback/xla.py, which knows what to compute; the object that stands for one call belongs to the compiled program, from its
// instantiation to its end. Without XLA's header in the build there is no handler, and JAX is served by callbacks.
// Tests: tests/python/test_xla.py, tests/python/test_jax.py.
#include "core.h"

#ifndef PULLBACK_XLA

PyObject *pyXla_Targets(PyObject *module, PyObject *args) {
  (void)module;
  (void)args;
  Py_RETURN_NONE;
}

PyObject *pyXla_Close(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  return PyLong_FromLong(0);
}

void pyXla_AfterFork(void) {}

#else

#include <stdatomic.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

static PyObject *find, *call;  // of xla.py: the object of a token; its work on buffers
static atomic_int calling;     // handlers that are in Python, or about to be
static atomic_bool closed;     // Python ends: nothing may call it any more
static XLA_FFI_TypeId type_id;

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

// False where Python has ended; else to be followed by leave.
static bool enter(PyGILState_STATE *gil) {
  atomic_fetch_add(&calling, 1);
  if (atomic_load(&closed)) {
    atomic_fetch_sub(&calling, 1);
    return false;
  }
  *gil = PyGILState_Ensure();
  return true;
}

static void leave(PyGILState_STATE gil) {
  PyGILState_Release(gil);
  atomic_fetch_sub(&calling, 1);
}

// XLA asks a handler for the version of its interface before it registers it.
static bool tell_version(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return false;

  XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version = (XLA_FFI_Api_Version){
      .struct_size = XLA_FFI_Api_Version_STRUCT_SIZE, .major_version = XLA_FFI_API_MAJOR, .minor_version = XLA_FFI_API_MINOR};
  metadata->traits = 0;
  metadata->state_type_id = frame->stage == XLA_FFI_ExecutionStage_INSTANTIATE ? type_id : (XLA_FFI_TypeId){0};
  return true;
}

// ---- the life of a call
static PyObject *token_of(const XLA_FFI_Attrs *attrs) {
  for (int64_t i = 0; i < attrs->size; i++) {
    if (attrs->types[i] == XLA_FFI_AttrType_STRING && strncmp(attrs->names[i]->ptr, "host", attrs->names[i]->len) == 0) {
      const XLA_FFI_ByteSpan *text = attrs->attrs[i];
      return PyUnicode_FromStringAndSize(text->ptr, (Py_ssize_t)text->len);
    }
  }
  return PyUnicode_FromString("");
}

static void forget(void *host) {
  PyGILState_STATE gil;
  if (!enter(&gil)) return;
  Py_DECREF((PyObject *)host);
  leave(gil);
}

static XLA_FFI_Error *instantiate(XLA_FFI_CallFrame *frame) {
  if (tell_version(frame)) return NULL;
  PyGILState_STATE gil;
  if (!enter(&gil)) return fail(frame, XLA_FFI_Error_Code_CANCELLED, "pullback: Python has ended");

  PyObject *token = token_of(&frame->attrs);
  PyObject *host = token ? PyObject_CallFunctionObjArgs(find, token, NULL) : NULL;
  Py_XDECREF(token);
  PyErr_Clear();
  leave(gil);
  if (!host) return fail(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, "pullback: compiled in another process: trace it again");

  XLA_FFI_State_Set_Args args = {.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE,
                                 .ctx = frame->ctx,
                                 .stage = XLA_FFI_ExecutionStage_INSTANTIATE,
                                 .type_id = &type_id,
                                 .state = host};
  XLA_FFI_Error *error = frame->api->XLA_FFI_State_Set(&args);
  if (error) forget(host);
  return error;
}

// ---- its work
static Py_ssize_t size_of(XLA_FFI_DataType type) {
  return type == XLA_FFI_DataType_F64 ? sizeof(double) : type == XLA_FFI_DataType_F32 ? sizeof(float) : 0;
}

// A tuple of memories, for the time of the call.
static PyObject *memories(int64_t count, void *const *buffers, int flags) {
  static char nothing;
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (int64_t i = 0; tuple && i < count; i++) {
    const XLA_FFI_Buffer *b = buffers[i];
    Py_ssize_t size = size_of(b->dtype);
    for (int64_t d = 0; d < b->rank; d++) size *= (Py_ssize_t)b->dims[d];
    PyObject *one = PyMemoryView_FromMemory(size ? b->data : &nothing, size, flags);
    if (!one || PyTuple_SetItem(tuple, (Py_ssize_t)i, one) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

// What Python says of a failure: (code, text). An interrupt goes on where the program was called: JAX would make an error of it.
static XLA_FFI_Error *told(const XLA_FFI_CallFrame *frame, PyObject *said) {
  int code = XLA_FFI_Error_Code_INTERNAL;
  PyObject *bytes = NULL;
  if (said == Py_None) return NULL;
  if (!said && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    PyErr_Clear();
    PyErr_SetInterrupt();
    return fail(frame, XLA_FFI_Error_Code_CANCELLED, "pullback: interrupted");
  }
  if (said && PyArg_ParseTuple(said, "iO!", &code, &PyBytes_Type, &bytes))
    return fail(frame, (XLA_FFI_Error_Code)code, PyBytes_AsString(bytes));
  PyErr_Clear();
  return fail(frame, XLA_FFI_Error_Code_INTERNAL, "pullback: a call failed without saying why");
}

static XLA_FFI_Error *execute(XLA_FFI_CallFrame *frame) {
  if (tell_version(frame)) return NULL;
  XLA_FFI_State_Get_Args args = {.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE,
                                 .ctx = frame->ctx,
                                 .stage = XLA_FFI_ExecutionStage_INSTANTIATE,
                                 .type_id = &type_id};
  XLA_FFI_Error *error = frame->api->XLA_FFI_State_Get(&args);
  if (error) return error;
  PyGILState_STATE gil;
  if (!enter(&gil)) return fail(frame, XLA_FFI_Error_Code_CANCELLED, "pullback: Python has ended");

  PyObject *inputs = memories(frame->args.size, frame->args.args, PyBUF_READ);
  PyObject *outputs = inputs ? memories(frame->rets.size, frame->rets.rets, PyBUF_WRITE) : NULL;
  PyObject *said = outputs ? PyObject_CallFunctionObjArgs(call, (PyObject *)args.state, inputs, outputs, NULL) : NULL;
  error = told(frame, said);

  Py_XDECREF(said);
  Py_XDECREF(outputs);
  Py_XDECREF(inputs);
  leave(gil);
  return error;
}

// ---- for xla.py
static PyObject *handler(XLA_FFI_Handler *function) {
  void *pointer = NULL;
  memcpy(&pointer, &function, sizeof pointer);  // C has no conversion between the two kinds of pointers
  return PyCapsule_New(pointer, NULL, NULL);
}

PyObject *pyXla_Targets(PyObject *module, PyObject *args) {
  (void)module;
  static XLA_FFI_TypeInfo info = {.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE, .deleter = forget};
  PyObject *finder, *caller;
  if (!PyArg_ParseTuple(args, "OO", &finder, &caller)) return NULL;

  find = Py_NewRef(finder);  // for good: compiled programs live as long as they like
  call = Py_NewRef(caller);
  return Py_BuildValue("{s:N,s:N,s:N,s:N}", "instantiate", handler(instantiate), "execute", handler(execute), "type_id",
                       PyCapsule_New(&type_id, NULL, NULL), "type_info", PyCapsule_New(&info, NULL, NULL));
}

PyObject *pyXla_Close(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  atomic_store(&closed, true);
  return PyLong_FromLong(atomic_load(&calling));
}

void pyXla_AfterFork(void) { atomic_store(&calling, 0); }

#endif
