// Trajectories that are cut into windows, each with a beginning of its own: motions that are chaotic, or that jump at contacts,
// are fitted piece by piece (multiple shooting without constraints between the pieces).
// Tests: tests/unit/test_task_windows.c.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "io/json/tree.h"
#include "io/task/task_windows.h"

static const json_t *member(const json_t *own, const json_t *root, const char *key) {
  const json_t *value = json_object_get(own, key);
  return value ? value : json_object_get(root, key);
}

static bool is_file(const json_t *value) { return json_is_object(value) && json_object_get(value, "file"); }

// A recording, that of the loss's first term which has one.
static const json_t *first_recording(const json_t *loss) {
  size_t i;
  json_t *term;
  json_array_foreach((json_t *)loss, i, term) {
    const json_t *target = json_object_get(term, "target");
    if (is_file(target)) return target;
  }
  return NULL;
}

pbStatus pbTask_ReadWindow(pbTaskReader *r, const json_t *own, const json_t *root, pbWindows *w) {
  const json_t *holder = json_object_get(own, "window") ? own : root;
  double seconds = 0, h = pbTaskReader_Timestep(r);
  PB_TRY(pbTaskReader_Real(r, holder, "window", &seconds));
  if (!(seconds > 0)) return pbTaskReader_FailAt(r, "window", "expected seconds above 0, found %.9g", seconds);
  if (!w->steps) return pbTaskReader_FailAt(r, "window", "expected \"steps\" or \"duration\" beside it");
  if (member(own, root, "mocap"))
    return pbTaskReader_FailAt(r, "window", "poses of mocap bodies are not cut: expected no \"mocap\"");

  if (member(own, root, "states"))
    return pbTaskReader_FailAt(r, "window", "each window begins where its recording is: expected no \"states\"");

  // whole steps, at least one
  w->each = (int)fmin(fmax(ceil(seconds / h - 1e-9), 1), w->steps);
  w->count = (w->steps + w->each - 1) / w->each;
  return pb_ok;
}

// ---- a piece ------------------------------------------------------------------------------------------------------------
// What a recording's clock shows when the window begins.
static double clock_at(const json_t *recording, double later) {
  return json_number_value(json_object_get(recording, "start")) + later;
}

static json_t *begun_later(const json_t *recording, double later) {
  json_t *copy = pbJson_CopyMembers(recording);
  pbJson_Put(&copy, "start", json_real(clock_at(recording, later)));
  return copy;
}

// A sample at the end of a window is the next one's: each counts once.
typedef struct Span {
  double begin, end;  // s from the whole's beginning; end infinite: the last window
} Span;

static pbStatus cut_term(pbTaskReader *r, json_t *term, Span span, json_t **loss) {
  json_t *target = json_object_get(term, "target"), *piece;

  // what belongs to one moment or step of the whole
  if (json_object_get(term, "at"))
    return pbTaskReader_FailAt(r, "at", "beside \"window\" terms are at the times of their recording, or at all");
  if (json_is_array(json_array_get(target, 0)))
    return pbTaskReader_FailAt(r, "target", "beside \"window\" rows come from a file with times");

  // a recording goes on where the window begins
  piece = is_file(target) ? pbJson_CopyMembers(term) : json_incref(term);
  if (is_file(target)) {
    json_t *part = begun_later(target, span.begin);
    if (isfinite(span.end)) pbJson_Put(&part, "end", json_real(clock_at(target, span.end)));
    pbJson_Put(&piece, "target", part);
  }
  pbJson_Add(loss, piece);
  return pb_ok;
}

static pbStatus cut_loss(pbTaskReader *r, const json_t *whole, Span span, json_t **loss) {
  size_t i;
  json_t *term;
  *loss = json_array();

  // the path names the term that fails
  pbTaskReader_Enter(r, "loss");
  json_array_foreach((json_t *)whole, i, term) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(cut_term(r, term, span, loss));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Rows of the file's own, one a step: those of the window.
static pbStatus cut_controls(pbTaskReader *r, const json_t *whole, const pbWindows *w, int k, json_t **controls) {
  size_t rows = json_array_size(whole), from = (size_t)k * (size_t)w->each;

  // by times, the same for all, or a row a step
  if (is_file(whole)) {
    *controls = begun_later(whole, (double)from * pbTaskReader_Timestep(r));
    return pb_ok;
  }
  if (!json_is_array(json_array_get(whole, 0)) || rows == 1) {
    *controls = json_incref((json_t *)(uintptr_t)whole);
    return pb_ok;
  }
  if (rows != (size_t)w->steps)
    return pbTaskReader_FailAt(r, "controls", "%zu rows of controls; the trajectory has %d steps", rows, w->steps);

  *controls = json_array();
  for (size_t i = from; i < rows && i < from + (size_t)w->each; i++) pbJson_Add(controls, json_incref(json_array_get(whole, i)));
  return pb_ok;
}

// Later windows begin as the recording shows, over what the first one begins with.
static pbStatus begin(pbTaskReader *r, const json_t *init, const json_t *loss, double later, json_t **made) {
  const json_t *own = json_object_get(init, "recording"), *recording = own ? own : first_recording(loss);
  if (!recording)
    return pbTaskReader_FailAt(r, "window",
                               "windows begin as a recording shows: expected one in \"init\", or a target with a file");
  if (init && !json_is_object(init)) return pbTaskReader_FailAt(r, "init", "expected an object");

  // by the file's clock
  json_t *moment = json_object(), *time = json_object_get(recording, "time");
  double from = own ? json_number_value(json_object_get(own, "at")) : clock_at(recording, 0);
  pbJson_Put(&moment, "file", json_incref(json_object_get(recording, "file")));
  pbJson_Put(&moment, "at", json_real(from + later));
  if (time) pbJson_Put(&moment, "time", json_incref(time));
  *made = init ? pbJson_CopyMembers(init) : json_object();
  pbJson_Put(made, "recording", moment);
  return pb_ok;
}

// What is not cut the window has from the whole.
static pbStatus fill(pbTaskReader *r, const json_t *own, const json_t *root, const pbWindows *w, int k, json_t **piece) {
  const json_t *init = member(own, root, "init"), *controls = member(own, root, "controls"), *loss = member(own, root, "loss");
  const json_t *role = json_object_get(own, "role");
  double later = (double)k * w->each * pbTaskReader_Timestep(r);
  int rest = w->steps - k * w->each;
  json_t *made = NULL;

  // the last may be shorter
  pbJson_Put(piece, "steps", json_integer(rest < w->each ? rest : w->each));
  if (role) pbJson_Put(piece, "role", json_incref((json_t *)(uintptr_t)role));

  // what drives it, where it begins, what it is compared with
  pbStatus status = controls ? cut_controls(r, controls, w, k, &made) : pb_ok;
  if (status == pb_ok && controls) pbJson_Put(piece, "controls", made);
  if (status == pb_ok && k) status = begin(r, init, loss, later, &made);
  else if (status == pb_ok && init) made = json_incref((json_t *)(uintptr_t)init);
  if (status == pb_ok && (k || init)) pbJson_Put(piece, "init", made);
  if (status == pb_ok && loss) {
    double end = k + 1 < w->count ? (double)(k + 1) * w->each * pbTaskReader_Timestep(r) : INFINITY;
    status = cut_loss(r, loss, (Span){later, end}, &made);
    if (status == pb_ok) pbJson_Put(piece, "loss", made);
    else json_decref(made);
  }
  return status;
}

pbStatus pbTask_CutWindow(pbTaskReader *r, const json_t *own, const json_t *root, const pbWindows *w, int k,
                          const json_t **window) {
  json_t *piece = json_object();

  // its parts, in copies where they differ from the whole's
  pbStatus status = fill(r, own, root, w, k, &piece);
  if (status != pb_ok) {
    json_decref(piece);
    return status;
  }

  // who reads it keeps texts of it
  if (!r->made) r->made = json_array();
  if (!piece || !r->made || json_array_append_new(r->made, piece) != 0)
    return pbTaskReader_Fail(r, pb_no_memory, "no memory for windows");
  *window = piece;
  return pb_ok;
}

// ---- unknowns of each -----------------------------------------------------------------------------------------------------
static bool of_each(const json_t *variable) {
  const char *trajectory = json_string_value(json_object_get(variable, "trajectory"));
  return trajectory && strcmp(trajectory, "each") == 0;
}

// "qvel@3": by its name, or that of what it is.
static json_t *name_of(const json_t *variable, int trajectory) {
  const char *name = json_string_value(json_object_get(variable, "name"));
  if (!name) name = json_string_value(json_object_get(variable, "state"));
  return json_sprintf("%s@%d", name ? name : "variable", trajectory);
}

pbStatus pbTask_SpreadVariables(pbTaskReader *r, const pbTask *task, const json_t *list, const json_t **spread) {
  size_t i;
  json_t *variable, *all = json_array();
  bool any = false;

  // most tasks have none
  json_array_foreach((json_t *)list, i, variable) any = any || of_each(variable);
  *spread = list;
  if (!any) {
    json_decref(all);
    return pb_ok;
  }

  // in the place of the one that is spread
  json_array_foreach((json_t *)list, i, variable) {
    bool each = of_each(variable);
    for (int t = 0; t < (each ? task->trajectory_count : 1); t++) {
      if (each && task->trajectories[t].test) continue;
      json_t *one = each ? pbJson_CopyMembers(variable) : json_incref(variable);
      if (each) pbJson_Put(&one, "trajectory", json_integer(t));
      if (each) pbJson_Put(&one, "name", name_of(variable, t));
      pbJson_Add(&all, one);
    }
  }

  // variables keep texts of it
  if (!r->made) r->made = json_array();
  if (!all || !r->made || json_array_append_new(r->made, all) != 0)
    return pbTaskReader_Fail(r, pb_no_memory, "no memory for variables");
  *spread = all;
  return pb_ok;
}
