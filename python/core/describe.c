// What there is to know of models and energies, the check of derivatives, and pages.
// Tests: tests/python/test_commands.py.
#include <string.h>

#include "core.h"

PyObject *pyDescribe_Energies(PyObject *module, PyObject *none) {
  (void)module;
  (void)none;
  pyValues values;
  pbJson json = pyValues_Begin(&values);
  pbMaterial_Describe(NULL, &json);
  return pyValues_Take(&values);
}

// ---- a model with its parameters --------------------------------------------------------------------------------------------
typedef struct Shown {
  pyJob job;
  const pyModel *model;
  const pbModel *compiled;
  double *theta;            // its parameters, with what follows from those of a design
  bool recompute;           // constants do
  const char *path, *page;  // of a check: the model's file, and a page of it; NULL: none
} Shown;

static bool begin(Shown *s, const char *what, PyObject *model, PyObject *tell) {
  *s = (Shown){.model = (const pyModel *)model};
  s->compiled = s->model->compiled->model;
  if (!pyJob_Begin(&s->job, what, tell, Py_None)) return false;

  size_t bytes = (size_t)s->model->compiled->ntheta * sizeof *s->theta;
  s->theta = pbContext_Alloc(s->job.ctx, bytes + 1);
  if (!s->theta) {
    pyStatus_Raise(pb_no_memory, NULL);
    return false;
  }
  memcpy(s->theta, s->model->theta.data, bytes);
  return true;
}

static void end(Shown *s) {
  if (s->job.ctx) pbContext_Free(s->job.ctx, s->theta);
  pyJob_End(&s->job);
}

// Without the interpreter's lock.
static pbStatus settle(Shown *s) {
  PB_TRY(pbModel_CheckParams(s->job.ctx, s->compiled, s->theta));
  s->recompute = pbModel_Size(s->compiled, "ndesignbody") > 0;
  return s->recompute ? pbModel_SetConstants(s->job.ctx, s->compiled, s->theta) : pb_ok;
}

// (model, path)
PyObject *pyDescribe_Info(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *model, *result = NULL;
  const char *path;
  Shown s;
  pyValues values;
  if (!PyArg_ParseTuple(args, "O!s", pyModel_Type, &model, &path)) return NULL;
  if (!begin(&s, "info", model, Py_None)) goto done;

  pbStatus status;
  pbJson json = pyValues_Begin(&values);
  Py_BEGIN_ALLOW_THREADS;
  status = settle(&s);
  if (status == pb_ok)
    pbModel_Describe(s.job.ctx, &(pbDescription){.model = s.compiled, .theta = s.theta, .path = path, .recompute = s.recompute},
                     &json);
  Py_END_ALLOW_THREADS;
  result = status == pb_ok ? pyValues_Take(&values) : pyJob_Raise(&s.job, status);

done:
  end(&s);
  return result;
}

// (keyframe, controls (nu), positions (nmocap, 3), quaternions (nmocap, 4)): what acts at the start, into arrays.
PyObject *pyModel_StartInto(PyObject *self, PyObject *args) {
  const pyModel *m = (const pyModel *)self;
  static const char *const name[3] = {"controls", "positions", "quaternions"};
  const Py_ssize_t width[3] = {m->compiled->nu, 3 * (Py_ssize_t)m->compiled->nmocap, 4 * (Py_ssize_t)m->compiled->nmocap};
  PyObject *object[3], *result = NULL;
  pyArray array[3] = {{.held = false}};
  int keyframe;
  if (!PyArg_ParseTuple(args, "iOOO", &keyframe, &object[0], &object[1], &object[2])) return NULL;
  for (int i = 0; i < 3; i++) {
    if (!pyArray_Write(object[i], width[i], name[i], &array[i])) goto done;
    if (array[i].data) continue;
    PyErr_Format(PyExc_TypeError, "%s: expected an array", name[i]);
    goto done;
  }

  pbModel_StartControls(m->compiled->model, keyframe, array[0].data);
  if (width[1]) pbModel_MocapPose(m->compiled->model, m->theta.data, keyframe, array[1].data, array[2].data);
  result = Py_NewRef(Py_None);

done:
  pyArray_Release(array, 3);
  return result;
}

// ---- one evaluation -------------------------------------------------------------------------------------------------------
static pbStatus inspect(Shown *s, const double *x, const pbInput *input, pbArrays **set) {
  PB_TRY(settle(s));
  PB_TRY(pbArrays_Create(s->job.ctx, set));
  return pbModel_Inspect(s->job.ctx, s->compiled, s->theta, x, input, *set);
}

// (model, state, controls, positions, quaternions of mocap bodies): arrays by name.
PyObject *pyDescribe_Inspect(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *model, *object[4], *result = NULL;
  pyArray in[4] = {{.held = false}};
  pbArrays *set = NULL;
  Shown s;
  if (!PyArg_ParseTuple(args, "O!OOOO", pyModel_Type, &model, &object[0], &object[1], &object[2], &object[3])) return NULL;
  if (!begin(&s, "inspect", model, Py_None)) goto done;

  static const char *const name[4] = {"state", "ctrl", "mocap_pos", "mocap_quat"};
  const pyCompiled *c = s.model->compiled;
  const Py_ssize_t width[4] = {c->nx, c->nu, 3 * (Py_ssize_t)c->nmocap, 4 * (Py_ssize_t)c->nmocap};
  for (int i = 0; i < 4; i++)
    if (!pyArray_Read(object[i], width[i], name[i], &in[i])) goto done;
  if (!in[0].data) {
    PyErr_SetString(PyExc_TypeError, "state: expected an array");
    goto done;
  }

  pbStatus status;
  const pbInput input = {.ctrl = in[1].data, .mocap_pos = in[2].data, .mocap_quat = in[3].data};
  Py_BEGIN_ALLOW_THREADS;
  status = inspect(&s, in[0].data, &input, &set);
  Py_END_ALLOW_THREADS;
  result = status == pb_ok ? pyArrays_Dict(set) : pyJob_Raise(&s.job, status);

done:
  pbArrays_Destroy(set);
  pyArray_Release(in, 4);
  end(&s);
  return result;
}

// ---- the check of derivatives -----------------------------------------------------------------------------------------------
enum { in_x0, in_ctrl, in_qfrc, in_xfrc, in_command, in_pos, in_quat, in_vel, in_pos_before, in_quat_before, in_count };

static bool hold_inputs(const pyCompiled *c, int steps, PyObject *tuple, pyArray in[in_count]) {
  static const char *const name[in_count] = {"state",     "ctrl",       "qfrc_applied", "xfrc_applied",     "command",
                                             "mocap_pos", "mocap_quat", "mocap_vel",    "mocap_pos_before", "mocap_quat_before"};
  const Py_ssize_t n = steps, bodies = c->nmocap;
  const Py_ssize_t count[in_count] = {c->nx,          n * c->nu,      n * c->nv,      n * 6 * c->nbody, n * c->commands,
                                      n * 3 * bodies, n * 4 * bodies, n * 6 * bodies, 3 * bodies,       4 * bodies};
  if (PyTuple_Size(tuple) != in_count) return PyErr_Format(PyExc_TypeError, "expected a tuple of %d arrays", in_count);
  for (int i = 0; i < in_count; i++)
    if (!pyArray_Read(PyTuple_GetItem(tuple, i), count[i], name[i], &in[i])) return false;
  if (!in[in_x0].data) PyErr_SetString(PyExc_TypeError, "state: expected an array");
  return in[in_x0].data != NULL;
}

typedef struct Checked {  // what the page is of
  pbContext *ctx;
  const char *path;
  const pbCheckReport *report;
} Checked;

static pbStatus put_check(void *user, FILE *out) {
  const Checked *c = user;
  return pbCheckReport_Page(c->ctx, c->report, &(pbPageHead){.path = c->path}, out);
}

static pbStatus check(Shown *s, const pyArray in[in_count], pbCheckOptions *options, pbCheckReport **report) {
  const pbRolloutInput input = {.ctrl = in[in_ctrl].data,
                                .qfrc = in[in_qfrc].data,
                                .xfrc = in[in_xfrc].data,
                                .command = in[in_command].data,
                                .mocap_pos = in[in_pos].data,
                                .mocap_quat = in[in_quat].data,
                                .mocap_vel = in[in_vel].data,
                                .mocap_pos_before = in[in_pos_before].data,
                                .mocap_quat_before = in[in_quat_before].data};
  options->progress = pyJob_Parts;
  options->user = &s->job;
  PB_TRY(settle(s));
  if (s->page) PB_TRY(pbFile_CanWrite(s->job.ctx, s->page));
  PB_TRY(pbCheck_Run(s->job.ctx, s->compiled, s->theta, in[in_x0].data, &input, options, report));

  // one that came behind the last part
  if (pyJob_Stopped(&s->job)) return pb_interrupted;
  return s->page ? pyPage_Save(s->job.ctx, s->page, put_check, &(Checked){s->job.ctx, s->path, *report}) : pb_ok;
}

// (whether it holds, the report, warnings in lines)
static PyObject *report_object(const Shown *s, const char *path, const pbCheckReport *report) {
  char text[PB_NOTES_TEXT];
  pyValues values;
  pbJson json = pyValues_Begin(&values);
  pbStepNotes notes = pbStepNotes_None();
  pbStepNotes_AddCertificate(&notes, &report->certificate);

  pbCheckReport_Describe(report, path, &json);
  PyObject *found = pyValues_Take(&values);
  if (!found) return NULL;
  return Py_BuildValue("NNs", PyBool_FromLong(report->holds), found,
                       pbStepNotes_Say(&notes, s->compiled, report->steps, text, sizeof text));
}

// (model, path, (state and inputs), steps, seed, gradient, (at_start, random controls, random velocity), page, progress)
PyObject *pyDescribe_Check(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *model, *inputs, *tell, *result = NULL;
  const char *path, *gradient, *page;
  int at_start, controls, velocity;
  long long seed;
  Shown s;
  pyArray in[in_count] = {{.held = false}};
  pbCheckReport *report = NULL;
  pbCheckOptions options = {.steps = 0};
  if (!PyArg_ParseTuple(args, "O!sO!iLs(ppp)zO", pyModel_Type, &model, &path, &PyTuple_Type, &inputs, &options.steps, &seed,
                        &gradient, &at_start, &controls, &velocity, &page, &tell))
    return NULL;
  if (!begin(&s, "check", model, tell)) goto done;
  if (!hold_inputs(s.model->compiled, options.steps, inputs, in)) goto done;
  if (!pbGradientKind_Named(gradient, &options.mode)) {
    PyErr_Format(PyExc_ValueError, "no gradient '%s'", gradient);
    goto done;
  }
  options.seed = (uint64_t)seed;
  options.at_start = at_start;
  options.random_controls = controls;
  options.random_velocity = velocity;
  s.path = path;
  s.page = page;

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = check(&s, in, &options, &report);
  Py_END_ALLOW_THREADS;
  result = status == pb_ok ? report_object(&s, path, report) : pyJob_Raise(&s.job, status);

done:
  if (s.job.ctx) pbCheckReport_Free(s.job.ctx, report);
  pyArray_Release(in, in_count);
  end(&s);
  return result;
}

// ---- pages ------------------------------------------------------------------------------------------------------------------
typedef struct Page {
  Shown s;
  const char *path, *output;  // of the model's file and of the page
  const char *file;           // the trajectory's name in messages; NULL: the model alone, at a keyframe
  int keyframe;
  bool glb, collision;
  const char *ghost_file;  // a recording beside the motion; NULL: none, or arrays
  double ghost_start;
  pbArrays *trajectory, *ghost;
  pbModel *looks;
} Page;

// What meshes look like, if the model's file still says so.
static const pbModel *read_looks(Page *p) {
  const pbLoadOptions load = {.surfaces = true};
  if (pbModel_Load(p->s.job.ctx, p->path, &load, &p->looks) != pb_ok) return NULL;
  return pbModel_Size(p->looks, "ngeom") == pbModel_Size(p->s.compiled, "ngeom") ? p->looks : NULL;
}

static pbStatus save_glb(Page *p, const pbShown *shown) {
  pbMotion *motion;
  PB_TRY(pbMotion_Create(p->s.job.ctx, shown, p->trajectory, &motion));
  pbStatus status = pbMotion_SaveGlb(motion, p->output);
  pbMotion_Destroy(motion);
  return status;
}

typedef struct Motion {  // what a page shows
  const Page *page;
  const pbShown *shown;
} Motion;

static pbStatus put_motion(void *user, FILE *out) {
  const Motion *m = user;
  return pbView_Page(m->page->s.job.ctx, m->shown, m->page->trajectory, m->page->file, out);
}

static pbStatus save_page(Page *p, const pbShown *shown) {
  return pyPage_Save(p->s.job.ctx, p->output, put_motion, &(Motion){p, shown});
}

static pbStatus save(Page *p) {
  PB_TRY(settle(&p->s));
  if (p->ghost_file) PB_TRY(pbArrays_Load(p->s.job.ctx, p->ghost_file, &p->ghost));
  if (!p->file) PB_TRY(pbView_Start(p->s.job.ctx, p->s.compiled, p->s.theta, p->keyframe, p->trajectory));
  const pbShown shown = {.model = p->s.compiled,
                         .theta = p->s.theta,
                         .looks = read_looks(p),
                         .path = p->path,
                         .collision = p->collision,
                         .progress = pyJob_Parts,
                         .user = &p->s.job,
                         .ghost = p->ghost,
                         .ghost_file = p->ghost_file,
                         .ghost_start = p->ghost_start};
  return p->glb ? save_glb(p, &shown) : save_page(p, &shown);
}

// A file, or the arrays of a rollout; None: there is none.
static bool read_ghost(Page *p, PyObject *given) {
  if (given == Py_None) return true;
  if (PyList_Check(given)) return pyArrays_Read(given, p->s.job.ctx, &p->ghost);
  p->ghost_file = PyUnicode_AsUTF8AndSize(given, NULL);
  return p->ghost_file != NULL;
}

// (model, path, [(name, shape, array), ...] or None, keyframe, whether only what collides, output, whether as glTF, ghost: such a
// list, a file or None, its clock at time 0)
PyObject *pyDescribe_Page(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *model, *arrays, *ghost, *result = NULL;
  int collision, glb;
  Page p = {.file = NULL};
  if (!PyArg_ParseTuple(args, "O!sOipspOd", pyModel_Type, &model, &p.path, &arrays, &p.keyframe, &collision, &p.output, &glb,
                        &ghost, &p.ghost_start))
    return NULL;
  p.collision = collision;
  p.glb = glb;
  if (!begin(&p.s, "view", model, Py_None)) goto done;

  bool moving = arrays != Py_None;
  PyObject *list = moving ? Py_NewRef(arrays) : PyList_New(0);
  bool read = list && PyList_Check(list) && pyArrays_Read(list, p.s.job.ctx, &p.trajectory);
  Py_XDECREF(list);
  if (!read || !read_ghost(&p, ghost)) goto done;
  if (moving) p.file = "the rollout";

  pbStatus status;
  Py_BEGIN_ALLOW_THREADS;
  status = save(&p);
  Py_END_ALLOW_THREADS;
  result = status == pb_ok ? Py_NewRef(Py_None) : pyJob_Raise(&p.s.job, status);

done:
  pbArrays_Destroy(p.trajectory);
  pbArrays_Destroy(p.ghost);
  pbModel_Destroy(p.looks);
  end(&p.s);
  return result;
}
