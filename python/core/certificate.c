// Certificates of gradients as Python has them. Tests: tests/python/test_contract.py.
#include "core.h"

static PyObject *member_of(const pbCertificate *c, const pbCertificateMember *member) {
  const void *value = (const char *)c + member->offset;

  switch (member->type) {
    case pb_certificateReal: return PyFloat_FromDouble(*(const double *)value);
    case pb_certificateInteger: return PyLong_FromLong(*(const int *)value);
    case pb_certificateCount: return PyLong_FromLongLong(*(const int64_t *)value);
    case pb_certificateBytes: return PyLong_FromSize_t(*(const size_t *)value);
    case pb_certificateFlag: return PyBool_FromLong(*(const bool *)value);
    case pb_certificateText: return PyUnicode_FromString(value);
    case pb_certificateGeoms: return Py_BuildValue("(ii)", ((const int *)value)[0], ((const int *)value)[1]);
    default: break;
  }
  return PyErr_Format(PyExc_SystemError, "%s: a type of members of certificates that is not known here", member->name);
}

static bool put_item(PyObject *dict, const char *name, PyObject *value) {
  bool good = value && PyDict_SetItemString(dict, name, value) == 0;
  Py_XDECREF(value);
  return good;
}

// What is told of a gradient, as a dictionary: every member by its name, and in words what was checked and what was left out on
// purpose.
static PyObject *describe(const pbCertificate *c) {
  int count;
  char text[400];
  const pbCertificateMember *members = pbCertificate_Members(&count);
  PyObject *dict = PyDict_New();
  bool good = dict && put_item(dict, "checked", PyUnicode_FromString(pbCertificate_Checked(c))) &&
              put_item(dict, "truncation", PyUnicode_FromString(pbCertificate_Truncation(c, text, sizeof text)));

  for (int i = 0; good && i < count; i++) good = put_item(dict, members[i].name, member_of(c, &members[i]));
  if (!good) Py_CLEAR(dict);
  return dict;
}

PyObject *pyCertificates_List(const pbCertificate *certificate, int count) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < count; i++) {
    PyObject *one = describe(&certificate[i]);
    if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}
