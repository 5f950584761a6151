// Running a task with its state in a file, and its result as JSON.
// Tests: tests/unit/test_verdict.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json/tree.h"
#include "base/context.h"
#include "io/task/task_reader.h"

// ---- state file: what the task was made from, and the run; written whole or not at all --------------------------------
static pbStatus load_state(void *user, double *state, size_t count, bool *found) {
  pbStateFile *store = user;
  pbArrays *set;
  PB_TRY(pbState_Load(store->ctx, store->path, store->made_from, &set));

  *found = set != NULL;
  if (!set) return pb_ok;

  // the size of a state follows from the method and the number of unknowns
  const pbArray *run = pbArrays_Find(set, "run");
  bool known = run && run->type == pb_arrayReal, fits = known && run->count == count;
  if (fits) memcpy(state, run->reals, count * sizeof *state);
  pbArrays_Destroy(set);

  if (fits) return pb_ok;
  return pbState_Refuse(store->ctx, store->path, known ? "holds a run by another method" : "holds no run of this program");
}

static pbStatus save_state(void *user, const double *state, size_t count) {
  pbStateFile *store = user;
  pbArrays *set;
  PB_TRY(pbArrays_Create(store->ctx, &set));

  pbStatus status = pbArrays_AddReals(set, "run", 1, &count, state, NULL);
  if (status == pb_ok) status = pbState_Save(store->path, store->made_from, set);
  pbArrays_Destroy(set);

  return status;
}

pbRunStore pbStateFile_Store(pbStateFile *file) { return (pbRunStore){file, file->path, load_state, save_state}; }

// Controls and paths may be more than what is to be reached; what a recording is to tell may not be more than its samples.
static pbStatus check_samples(const pbTask *task) {
  int unknowns = task->n;
  size_t samples = (size_t)task->prior_count;
  if (!task->uncertain) return pb_ok;

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    bool found = v->kind == pb_varyParam || v->kind == pb_varySets || v->kind == pb_varyInertia || v->kind == pb_varyReading ||
                 v->kind == pb_varyDelay || v->kind == pb_varyQpos || v->kind == pb_varyQvel || v->kind == pb_varyAct;
    if (!found) return pb_ok;

    // the length of an axis or quaternion is none
    unknowns -= v->row_count;
  }
  for (int t = 0; t < task->trajectory_count; t++)
    samples += task->trajectories[t].test ? 0 : pbTermSet_Samples(&task->trajectories[t].terms);
  if ((double)unknowns <= (double)samples) return pb_ok;

  return pbContext_Fail(task->ctx, pb_bad_input,
                        "%s: variables: %d unknowns, and %zu samples that could tell them: leave some out, record more, state a "
                        "\"prior\" of them, or \"uncertainty\": false for any answer that fits",
                        task->name, unknowns, samples);
}

pbStatus pbTask_Run(pbTask *task, const pbRunOptions *options, pbRunResult *result) {
  static const pbRunOptions none;
  *result = (pbRunResult){.test_loss = NAN};
  PB_TRY(check_samples(task));
  if (!options) options = &none;

  if (task->start_count > 1) return pbTask_RunStarts(task, options, result);
  if (task->stage_count) return pbTask_RunStages(task, options, result);

  // without a state file nothing is kept
  pbStateFile file = {task->ctx, options->state_file, task->made_from};
  pbRunStore kept = pbStateFile_Store(&file);

  return pbTask_RunLoop(task, options, options->state_file ? &kept : NULL, result);
}

// ---- result ---------------------------------------------------------------------------------------------------------
static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

// Of a recording with gaps: how many numbers of how many there are.
static void put_samples(const pbTerm *term, json_t **o) {
  size_t samples = pbTerm_Samples(term), all = (size_t)term->step_count * (size_t)term->part_count;
  pbJson_Put(o, "samples", json_integer((json_int_t)samples));
  if (samples < all) pbJson_Put(o, "missing", json_integer((json_int_t)(all - samples)));
}

// The largest of a constraint; all of them are in the trajectory's file.
static void put_multiplier(const pbTerm *term, json_t **o) {
  const pbMultipliers *m = term->constraint;
  size_t count = m->known ? (size_t)term->step_count * (size_t)term->part_count : 0;
  double most = 0;

  // with its sign, which says the direction
  for (size_t k = 0; k < count; k++) most = fabs(m->found[k]) > fabs(most) ? m->found[k] : most;
  pbJson_Put(o, "tolerance", real(m->tolerance));
  if (m->known) pbJson_Put(o, "multiplier", real(most));
}

static json_t *terms_json(const pbTask *task, bool confirmed) {
  json_t *list = json_array();
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    if (confirmed && task->trajectories[t].test) continue;
    for (int i = 0; i < set->count; i++) {
      const pbTerm *term = &set->terms[i];
      json_t *o = json_object();

      pbJson_Put(&o, "name", pbJson_String(term->name));
      if (task->trajectory_count > 1) pbJson_Put(&o, "trajectory", json_integer(t));
      if (task->trajectories[t].test) pbJson_Put(&o, "role", pbJson_String("test"));
      pbJson_Put(&o, "value", real(confirmed ? term->confirm_value : term->value));
      pbJson_Put(&o, "deviation", real(confirmed ? term->confirm_deviation : term->deviation));
      if (!term->hosted && !confirmed) put_samples(term, &o);
      if (term->constraint && !confirmed) put_multiplier(term, &o);
      pbJson_Add(&list, o);
    }
  }

  return list;
}

static json_t *lines_json(const char *text) {
  json_t *list = json_array();
  while (text && *text) {
    size_t length = strcspn(text, "\n");
    pbJson_Add(&list, json_stringn(text, length));
    text += length + (text[length] != 0);
  }

  return list;
}

// The most important note on an unknown at the answer; NULL: none.
static const char *note_text(unsigned note) {
  if (note & pb_unknownInert) return "no influence";
  if (note & pb_unknownKink) return "kink";
  if (note & pb_unknownAtLower) return "at lower bound";
  return note & pb_unknownAtUpper ? "at upper bound" : NULL;
}

static json_t *notes_json(const pbVariable *v, const unsigned char *notes) {
  json_t *list = json_array();
  for (int k = v->first; k < v->first + v->count; k++) {
    const char *text = notes ? note_text(notes[k]) : NULL;
    pbJson_Add(&list, text ? pbJson_String(text) : json_null());
  }
  return list;
}

// The parameters that follow a variable, by their own names.
static json_t *sets_json(const pbTask *task, const pbVariable *v) {
  json_t *o = json_object();
  for (int k = 0; k < v->follower_count; k++) {
    char name[200];
    pbModel_ParamName(task->model, v->index[k], name, sizeof name);
    pbJson_Put(&o, name, real(task->theta_now[v->index[k]]));
  }

  return o;
}

// All parameters that the answer changes, by their own names: what a model takes without its task (pbModel_ReadResult).
static json_t *parameters_json(const pbTask *task) {
  json_t *o = json_object();
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    bool inertia = v->kind == pb_varyInertia;
    int count = v->kind == pb_varyParam || inertia ? v->index_count : v->follower_count;
    for (int k = 0; k < count; k++) {
      char name[600];
      pbModel_ParamName(task->model, v->index[k], name, sizeof name);
      pbJson_Put(&o, name, real(task->theta_now[v->index[k]]));
    }
  }

  return o;
}

// What keeps a variable within bounds, component by component; null: open.
static json_t *bounds_json(const pbTask *task, const pbVariable *v, const double *bound) {
  json_t *list = json_array();
  for (int k = v->first; k < v->first + v->count; k++) {
    char name[256];
    double value = bound[k];
    if (isfinite(value)) pbTask_Unknown(task, k, bound, name, sizeof name, &value);
    pbJson_Add(&list, real(value));
  }

  return list;
}

static bool is_bounded(const pbTask *task, const pbVariable *v) {
  for (int k = v->first; k < v->first + v->count; k++) {
    if (isfinite(task->lower[k]) || isfinite(task->upper[k])) return true;
  }
  return false;
}

// Of a saddle: the parts of the direction along which the loss falls.
static json_t *direction_json(const pbVariable *v, const double *direction) {
  json_t *list = json_array();

  // in the minimizer's coordinates
  for (int k = v->first; k < v->first + v->count; k++) pbJson_Add(&list, real(direction[k]));

  return list;
}

// The numbers of a variable of an array of all unknowns.
static json_t *part_json(const pbVariable *v, const double *numbers) {
  json_t *list = json_array();
  for (int k = v->first; k < v->first + v->count; k++) pbJson_Add(&list, real(numbers[k]));
  return list;
}

static const char *determined_text(unsigned char state) {
  if (state == pb_isDetermined) return NULL;
  if (state == pb_isOfOneCluster) return "seen by one cluster";
  return state == pb_isAtBound ? "at bound" : "not determined";
}

// Standard deviation and interval of a variable's components; what has none says why.
static void put_uncertainty(const pbVariable *v, const pbUncertainty *u, json_t **o) {
  json_t *interval = json_array(), *states = json_array();
  for (int k = v->first; k < v->first + v->count; k++) {
    json_t *both = json_array();
    const char *text = determined_text(u->determined[k]);
    pbJson_Add(&both, real(u->lower[k]));
    pbJson_Add(&both, real(u->upper[k]));
    pbJson_Add(&interval, both);
    pbJson_Add(&states, text ? pbJson_String(text) : json_null());
  }

  pbJson_Put(o, "deviation", part_json(v, u->deviation));
  pbJson_Put(o, "interval", interval);
  pbJson_Put(o, "determined", states);
}

static bool is_shared(const pbTask *task, int i) {
  const pbVariable *v = task->variables;
  while (i >= v->first + v->count) v++;
  return v->trajectory < 0 || task->trajectory_count == 1;
}

// The same of the whole fit; correlations in the order of the variables' components.
static json_t *uncertainty_json(const pbTask *task, const pbUncertainty *u) {
  json_t *o = json_object();
  if (u->why) {
    pbJson_Put(&o, "why_none", pbJson_String(u->why));
    return o;
  }

  json_t *rows = json_array(), *names = json_array();

  pbJson_Put(&o, "samples", json_integer((json_int_t)u->samples));
  pbJson_Put(&o, "degrees_of_freedom", json_integer(u->degrees));
  pbJson_Put(&o, "sigma", pbJson_String(u->sigma ? "stated" : "estimated"));
  pbJson_Put(&o, "clusters", u->clusters ? json_integer(u->clusters) : json_null());
  pbJson_Put(&o, "chi_square", real(u->chi_square));
  pbJson_Put(&o, "autocorrelation", real(u->autocorrelation));
  pbJson_Put(&o, "residual", real(u->residual));
  pbJson_Put(&o, "condition", real(u->condition));
  pbJson_Put(&o, "interval", json_real(0.95));
  pbJson_Put(&o, "quantile", real(u->quantile));
  pbJson_Put(&o, "weakest", pbJson_String(u->weakest));
  pbJson_Put(&o, "warning", u->warning[0] ? pbJson_String(u->warning) : json_null());

  // what is shared by all trajectories: where each begins is of no interest to the others
  for (int i = 0; i < task->n; i++) {
    if (!is_shared(task, i)) continue;
    json_t *row = json_array();
    char name[256];
    pbTask_Unknown(task, i, task->start, name, sizeof name, NULL);
    pbJson_Add(&names, pbJson_String(name));
    for (int k = 0; k < task->n; k++) {
      if (is_shared(task, k)) pbJson_Add(&row, real(u->correlation[i * task->n + k]));
    }
    pbJson_Add(&rows, row);
  }
  pbJson_Put(&o, "correlated", names);
  pbJson_Put(&o, "correlations", rows);

  return o;
}

static json_t *variables_json(const pbTask *task, const pbRunResult *result) {
  const double *z = result->z;
  json_t *list = json_array();
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    json_t *o = json_object(), *values = json_array(), *starts = json_array(), *names = json_array();

    // controls have too many components to name
    for (int k = v->first; k < v->first + v->count; k++) {
      char name[256];
      double value, start;
      pbTask_Unknown(task, k, task->start, name, sizeof name, &start);
      pbTask_Unknown(task, k, z, name, sizeof name, &value);
      pbJson_Add(&values, real(value));
      pbJson_Add(&starts, real(start));
      if (v->kind != pb_varyControl) pbJson_Add(&names, pbJson_String(name));
    }

    pbJson_Put(&o, "name", pbJson_String(v->name));
    pbJson_Put(&o, "value", values);
    pbJson_Put(&o, "start", starts);
    if (is_bounded(task, v)) {
      pbJson_Put(&o, "lower", bounds_json(task, v, task->lower));
      pbJson_Put(&o, "upper", bounds_json(task, v, task->upper));
    }
    pbJson_Put(&o, "notes", notes_json(v, result->notes));
    if (result->uncertainty && !result->uncertainty->why) put_uncertainty(v, result->uncertainty, &o);
    if (result->direction) pbJson_Put(&o, "direction", direction_json(v, result->direction));

    if (v->kind == pb_varySets) pbJson_Put(&o, "sets", sets_json(task, v));
    if (v->kind == pb_varyControl) {
      pbJson_Put(&o, "knots", json_integer(v->knots));
      json_decref(names);
    } else {
      pbJson_Put(&o, "components", names);
    }
    pbJson_Add(&list, o);
  }

  return list;
}

// What the searches from several starts came to, and how far those apart are that came to the least loss.
static json_t *starts_json(const pbTask *task, const pbRunResult *result) {
  json_t *o = json_object(), *list = json_array();
  for (int k = 0; k < task->start_count; k++) {
    const pbTaskStart *s = &task->starts[k];
    json_t *one = json_object(), *values = json_array();
    pbJson_Put(&one, "start_loss", real(s->start_loss));
    pbJson_Put(&one, "loss", real(s->loss));
    pbJson_Put(&one, "outcome", isfinite(s->loss) ? pbJson_String(pbRunOutcome_Name(s->outcome)) : pbJson_String(s->why));
    pbJson_Put(&one, "iterations", json_integer(s->iterations));
    pbJson_Put(&one, "simulations", json_integer((json_int_t)s->simulations));

    // one that could not be evaluated has no values
    for (int i = 0; isfinite(s->loss) && i < task->n; i++) {
      char name[256];
      double value;
      pbTask_Unknown(task, i, s->z, name, sizeof name, &value);
      pbJson_Add(&values, real(value));
    }
    pbJson_Put(&one, "values", values);
    pbJson_Add(&list, one);
  }

  pbJson_Put(&o, "best", json_integer(result->best_start));

  // of the best, and how far those are apart that agree with it
  double *spread = pbContext_AllocArray(task->ctx, (size_t)task->n + 1, sizeof *spread);
  json_t *apart = spread ? json_array() : NULL;
  int agree = spread ? pbTask_StartsAgree(task, spread) : 0, n = spread ? task->n : 0;
  for (int i = 0; i < n; i++) pbJson_Add(&apart, real(spread[i]));
  pbContext_Free(task->ctx, spread);
  pbJson_Put(&o, "agree", json_integer(agree));
  pbJson_Put(&o, "spread", apart);
  pbJson_Put(&o, "searches", list);

  return o;
}

// What each stage came to; the last one is what the rest of the result is about.
static json_t *stages_json(const pbTask *task) {
  json_t *list = json_array();
  for (int k = 0; k < task->stage_count; k++) {
    pbRunStage s = pbTask_Stage(task, k);
    json_t *o = json_object();
    if (!s.name) break;  // the run ended before
    pbJson_Put(&o, "name", pbJson_String(s.name));
    pbJson_Put(&o, "steps", json_integer(s.steps));
    pbJson_Put(&o, "outcome", pbJson_String(pbRunOutcome_Name(s.outcome)));
    pbJson_Put(&o, "met", json_boolean(s.met));
    pbJson_Put(&o, "start_loss", real(s.start_loss));
    pbJson_Put(&o, "loss", real(s.loss));
    pbJson_Put(&o, "iterations", json_integer(s.iterations));
    pbJson_Put(&o, "simulations", json_integer((json_int_t)s.simulations));
    pbJson_Add(&list, o);
  }

  return list;
}

static json_t *member_json(const pbCertificate *c, const pbCertificateMember *member) {
  const void *value = (const char *)c + member->offset;

  switch (member->type) {
    case pb_certificateReal: return real(*(const double *)value);
    case pb_certificateInteger: return json_integer(*(const int *)value);
    case pb_certificateCount: return json_integer(*(const int64_t *)value);
    case pb_certificateBytes: return json_integer((json_int_t) * (const size_t *)value);
    case pb_certificateFlag: return json_boolean(*(const bool *)value);
    case pb_certificateText: return pbJson_String(value);
    case pb_certificateGeoms: return json_pack("[ii]", ((const int *)value)[0], ((const int *)value)[1]);
  }

  return NULL;
}

static json_t *certificate_json(pbGradientKind kind, const pbCertificate *c) {
  int count;
  char text[400];
  const pbCertificateMember *members = pbCertificate_Members(&count);
  json_t *o = json_object();

  pbJson_Put(&o, "mode", pbJson_String(pbGradientKind_Name(kind)));
  pbJson_Put(&o, "checked", pbJson_String(pbCertificate_Checked(c)));
  if (c->truncated) pbJson_Put(&o, "truncation", pbJson_String(pbCertificate_Truncation(c, text, sizeof text)));

  for (int i = 0; i < count; i++) {
    if (pbCertificate_Says(c, &members[i])) pbJson_Put(&o, members[i].name, member_json(c, &members[i]));
  }

  return o;
}

static json_t *history_json(const pbHistory *h) {
  json_t *list = json_array();
  for (int i = 0; i < h->count; i++) {
    json_t *row = json_array();

    // counts are kept as doubles, with the rest of the saved state
    pbJson_Add(&row, json_integer((json_int_t)h->rows[i][0]));
    pbJson_Add(&row, json_integer((json_int_t)h->rows[i][1]));
    pbJson_Add(&row, real(h->rows[i][2]));
    pbJson_Add(&row, real(h->rows[i][3]));
    pbJson_Add(&list, row);
  }

  return list;
}

static json_t *confirm_json(const pbTask *task, const pbRunResult *result) {
  json_t *o = json_object();
  pbJson_Put(&o, "ran", json_boolean(result->confirmed_run));
  if (!result->confirmed_run) return o;

  // the same run with a smaller time step
  pbJson_Put(&o, "timestep", real(result->confirm_timestep));
  pbJson_Put(&o, "loss", real(result->confirm_loss));
  pbJson_Put(&o, "terms", terms_json(task, true));

  return o;
}

// Certificates of the gradient at the answer, one per trajectory; one whose gradient fails says why.
static json_t *certificates_json(pbTask *task, const double *z) {
  json_t *list = json_array();

  for (int t = 0; t < task->trajectory_count; t++) {
    pbCertificate c;
    json_t *o = NULL;
    pbStatus status = pbTask_Certify(task, z, t, &c);

    // no memory is no property of the gradient: there is no result
    if (status == pb_ok) {
      o = certificate_json(pbTask_GradientKind(task), &c);
    } else if (status != pb_no_memory) {
      o = json_object();
      pbJson_Put(&o, "error", pbJson_String(pbContext_Error(task->ctx)));
    }

    pbJson_Add(&list, o);
  }

  return list;
}

// Where the gradient is noise at the answer; null: nowhere, or nobody looked.
static json_t *noise_json(const pbTask *task, const pbRunResult *result) {
  const pbNoise *noise = &result->noise;
  char text[512];
  if (noise->step < 0) return json_null();

  json_t *o = json_object();
  pbJson_Put(&o, "time", real(noise->time));
  pbJson_Put(&o, "step", json_integer(noise->step));
  pbJson_Put(&o, "move", real(noise->move));
  pbJson_Put(&o, "growth", real(noise->growth));
  pbJson_Put(&o, "unforeseen", real(noise->unforeseen));
  pbJson_Put(&o, "window", real(noise->window));
  pbJson_Put(&o, "contact", json_boolean(noise->contact));
  if (task->trajectory_count > 1) pbJson_Put(&o, "trajectory", json_integer(result->noise_trajectory));

  // in words, as the program says it
  pbJson_Put(&o, "verdict", pbJson_String(pbNoise_Say(noise, text, sizeof text)));
  pbJson_Put(&o, "proposal", pbJson_String(pbNoise_Propose(noise, text, sizeof text)));

  return o;
}

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "no memory for the result"); }

static pbStatus result_json(pbTask *task, const pbRunResult *result, json_t **made) {
  json_t *o = json_object();

  // what variables set, at the answer
  task->same = false;
  pbStatus put = pbTask_Parameters(task, result->z, task->theta_now);

  if (put != pb_ok) {
    json_decref(o);
    return put;
  }

  // how it ended
  pbJson_Put(&o, "outcome", pbJson_String(pbRunOutcome_Name(result->outcome)));
  pbJson_Put(&o, "met", json_boolean(result->met));
  pbJson_Put(&o, "reason", pbJson_String(result->reason ? result->reason : ""));
  pbJson_Put(&o, "advice", lines_json(result->advice));
  pbJson_Put(&o, "noise", noise_json(task, result));

  pbJson_Put(&o, "loss", real(result->loss));
  pbJson_Put(&o, "start_loss", real(result->start_loss));
  if (!isnan(result->test_loss)) pbJson_Put(&o, "test_loss", real(result->test_loss));

  pbJson_Put(&o, "iterations", json_integer(result->iterations));
  pbJson_Put(&o, "simulations", json_integer(result->simulations));
  pbJson_Put(&o, "gradients", json_integer(result->gradients));
  pbJson_Put(&o, "saddles_left", json_integer(result->left));
  pbJson_Put(&o, "seconds", real(result->seconds));
  pbJson_Put(&o, "resumed", json_boolean(result->resumed));

  pbJson_Put(&o, "constants", pbJson_String(pbTask_Constants(task)));
  if (pbTask_Sampled(task)) {
    pbJson_Put(&o, "worlds", json_integer(pbTask_Worlds(task)));
    pbJson_Put(&o, "draws", pbJson_String(task->sample.fresh ? "every iteration" : "fixed"));
  }
  pbJson_Put(&o, "version", pbJson_String(pbVersion()));

  pbJson_Put(&o, "variables", variables_json(task, result));
  if (task->starts) pbJson_Put(&o, "starts", starts_json(task, result));
  if (task->stage_count) pbJson_Put(&o, "stages", stages_json(task));
  if (result->uncertainty) pbJson_Put(&o, "uncertainty", uncertainty_json(task, result->uncertainty));
  pbJson_Put(&o, "parameters", parameters_json(task));
  pbJson_Put(&o, "terms", terms_json(task, false));
  if (task->confirm > 1) pbJson_Put(&o, "confirm", confirm_json(task, result));

  pbJson_Put(&o, "certificates", certificates_json(task, result->z));
  pbJson_Put(&o, "history_columns", pbJson_String("iteration, simulations, best loss, gradient norm"));
  pbJson_Put(&o, "history", history_json(&task->history));

  *made = o;

  return o ? pb_ok : no_memory(task->ctx);
}

// 17 digits give every double back.
static pbStatus dump(pbContext *ctx, const json_t *o, char **text) {
  return pbJson_Dump(ctx, o, JSON_INDENT(2) | JSON_REAL_PRECISION(17), text);
}

pbStatus pbTask_ResultJson(pbTask *task, const pbRunResult *result, char **text) {
  json_t *o;
  *text = NULL;
  PB_TRY(result_json(task, result, &o));
  pbStatus status = dump(task->ctx, o, text);
  json_decref(o);
  return status;
}

// The object's text with the names of the trajectory files as its first entry.
static void put_files(FILE *out, const char *const *files, int count, const char *text) {
  pbJson j = {.out = out, .compact = true};
  fputs("{\n  \"trajectory_files\": ", out);
  pbJson_Open(&j, NULL, '[');
  for (int i = 0; i < count; i++) pbJson_Text(&j, NULL, files[i]);
  pbJson_Close(&j, ']');

  // what follows the object's own opening brace
  const char *inside = text + strspn(text, " \t\r\n");
  inside += *inside == '{';
  const char *next = inside + strspn(inside, " \t\r\n");
  fprintf(out, "%s%s", *next == '}' ? "" : ",", inside);
  if (*inside && inside[strlen(inside) - 1] != '\n') fputc('\n', out);
}

static void tell_result(const json_t *o, const char *const *files, int count, pbJson *j) {
  const char *key;
  json_t *value;
  pbJson_Open(j, NULL, '{');
  if (files) {
    pbJson_OpenLine(j, "trajectory_files", '[');
    for (int i = 0; i < count; i++) pbJson_Text(j, NULL, files[i]);
    pbJson_Close(j, ']');
  }
  json_object_foreach((json_t *)o, key, value) pbJson_Tree(j, key, value);
  pbJson_Close(j, '}');
}

pbStatus pbTask_DescribeResult(pbTask *task, const pbRunResult *result, const char *const *files, int count, pbJson *json,
                               FILE *out) {
  json_t *o;
  char *text = NULL;
  PB_TRY(result_json(task, result, &o));
  pbStatus status = out ? dump(task->ctx, o, &text) : pb_ok;
  if (status == pb_ok && out) put_files(out, files, count, text);
  if (status == pb_ok && json) tell_result(o, files, count, json);

  pbContext_Free(task->ctx, text);
  json_decref(o);
  return status;
}
