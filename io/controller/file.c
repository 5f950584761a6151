// A policy with its weights as one file of C, for a robot without this library: what it observes in order and in words, networks,
// and a function that is called once a step. docs/export.md.
// Tests: tests/unit/test_policy_c.c.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/build.h>
#include <pullback/io.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/controller/controller.h"
#include "model/joint.h"
#include "model/observe.h"
#include "model/policy_data.h"
#include "model/sensor.h"

// ---- words ------------------------------------------------------------------------------------------------------------------
// Of a row of all objects: the one that has number *entry, which becomes its number in that one.
static int object_at(const pbModel *m, pbObserveKind kind, int *entry) {
  pbObject object = pbObserve_Object(kind);
  int count = object == pb_objJoint ? m->njnt : 0;
  if (object == pb_objActuator) count = m->nu;
  if (object == pb_objSensor) count = m->nsensor;

  for (int id = 0; id < count; id++) {
    if (kind == pb_observeSensor && !pbSensor_IsEarly(m, id)) continue;
    int width = pbObserve_Width(m, kind, id, 0);
    if (*entry < width) return id;
    *entry -= width;
  }

  return -1;
}

static const char *joint_unit(const pbModel *m, pbObserveKind kind, int joint, int entry) {
  bool slide = joint >= 0 && m->jnt_type[joint] == pb_jntSlide, free = joint >= 0 && m->jnt_type[joint] == pb_jntFree;
  bool hinge = joint >= 0 && m->jnt_type[joint] == pb_jntHinge, along = slide || (free && entry < 3);
  if (kind == pb_observeQvel) return along ? "m/s" : "rad/s";
  if (along) return "m";

  return hinge ? "rad" : "entry of the rotation matrix, row by row";
}

static const char *unit_of(const pbModel *m, pbObserveKind kind, int object, int entry) {
  switch (kind) {
    case pb_observeQpos:
    case pb_observeQvel: return joint_unit(m, kind, object, entry);
    case pb_observeRotation: return "rad, rotation vector from qpos0";
    case pb_observeSensor: return object >= 0 ? pbSensor_Row(m->sensor_type[object])->meaning : "";
    case pb_observeBodyPosition:
    case pb_observeSitePosition:
    case pb_observePoints: return "m";
    case pb_observePointVelocity: return "m/s";
    case pb_observeBodyRotation:
    case pb_observeSiteRotation: return "entry of the rotation matrix, row by row";
    case pb_observeTime: return "s, since the episode began";
    case pb_observeCommand: return "as the policy was trained";
    default: return "activation";
  }
}

// Names may hold anything: nothing of them ends the comment.
static void put_line(FILE *out, const char *text) {
  for (; *text; text++) fputc(iscntrl((unsigned char)*text) || *text == '\\' ? '?' : *text, out);
  fputc('\n', out);
}

void pbPrinted_Observation(const pbModel *m, const pbObserveRow *r, int k, char *to, size_t size) {
  char text[400];
  int entry = r->first + (r->component ? r->component[k] : k), object = r->object;
  bool all = object < 0 && pbObserve_TakesAll(r->kind);
  if (all) object = object_at(m, r->kind, &entry);

  // of all joints the one that it is of
  if (all && object >= 0) {
    const char *name = pbModel_Name(m, pbObserve_Object(r->kind), object);
    const char *of = pbObserve_Object(r->kind) == pb_objJoint ? "joint" : "sensor";
    if (pbObserve_Object(r->kind) == pb_objActuator) of = "actuator";
    if (name) snprintf(text, sizeof text, "%s[%d] of %s '%.200s'", pbObserveKind_Name(r->kind), entry, of, name);
    else snprintf(text, sizeof text, "%s[%d] of %s %d", pbObserveKind_Name(r->kind), entry, of, object);
  } else pbModel_ObservationName(m, r->at + k, text, sizeof text);
  snprintf(to, size, "%s (%s)", text, unit_of(m, r->kind, object, entry));
}

void pbPrinted_Target(const pbModel *m, const pbOutputTarget *t, char *to, size_t size) {
  static const char *const axes[] = {"force x, N", "force y, N", "force z, N", "torque x, N m", "torque y, N m", "torque z, N m"};
  int id = t->index;
  pbObject object = pb_objActuator;
  if (t->kind == pb_outputForce) {
    object = pb_objJoint;
    id = m->dof_jntid[t->index];
  }
  if (t->kind == pb_outputWrench) {
    object = pb_objBody;
    id = t->index / 6;
  }
  const char *name = (t->kind != pb_outputControl || id < m->nu) ? pbModel_Name(m, object, id) : NULL;
  static const char *const what[] = {"control of actuator", "force on joint", "wrench on body"};
  size_t n =
      (size_t)(name ? snprintf(to, size, "%s '%.200s'", what[t->kind], name) : snprintf(to, size, "%s %d", what[t->kind], id));
  PB_ASSERT(n < size);

  to += n;
  size -= n;
  if (t->kind == pb_outputForce) snprintf(to, size, ", degree of freedom %d", t->index - m->jnt_dofadr[id]);
  if (t->kind == pb_outputWrench) snprintf(to, size, ", %s", axes[t->index % 6]);
  if (t->kind == pb_outputControl && id < m->nu && m->actuator_ctrllimited[id])
    snprintf(to, size, ", which the model holds within %.6g to %.6g", m->actuator_ctrlrange[2 * id],
             m->actuator_ctrlrange[2 * id + 1]);
}

// ---- the file ---------------------------------------------------------------------------------------------------------------
typedef struct Sizes {
  int inputs, act_inputs;  // numbers that the caller gives, of decide and of act
} Sizes;

static bool is_given(const pbObserveRow *r) { return r->kind != pb_observeLast; }

static Sizes count_inputs(const pbPolicyModel *p) {
  Sizes s = {0};
  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (is_given(r) && r->at < p->observed) s.inputs += r->count;
    if (is_given(r) && r->at >= p->observed) s.act_inputs += r->count;
  }

  return s;
}

double pbPrinted_TimeStep(const pbModel *m, const double *theta) {
  pbParam h;
  return pbModel_Param(NULL, m, "timestep", &h) == pb_ok ? theta[h.offset] : 0;
}

static void put_header(const pbPrinted *p, const pbModel *m, const double *theta) {
  const pbPolicyModel *policy = m->policy;
  FILE *out = p->out;
  int at = 0;
  char text[PB_PRINTED_TEXT];
  double step = pbPrinted_TimeStep(m, theta);

  fprintf(out,
          "// A policy as C, written by pullback %s; C99, nothing but the C library's exact functions (<math.h>, <string.h>).\n",
          pbVersion());
  fprintf(out, "//\n//   %s_state state = {0};                      memory: as it is at the start of an episode\n", p->name);
  fprintf(out, "//   %s(&state, input, output);                 once every %.9g s\n//\n", p->name, step);
  if (policy->every > 1)
    fprintf(out,
            "// A decision is made at the first call and at every %dth from there on (state.count is 0 then), and is held in "
            "between.\n",
            policy->every);
  if (policy->act && policy->every > 1)
    fprintf(out, "// In calls between them the first inputs, of the decision, are not read.\n");
  fprintf(
      out,
      "// It computes in %s, has no state but what it is handed, allocates nothing, and has the bits of the simulation.\n//\n",
      p->type);

  for (const pbObserveRow *r = policy->row; r < policy->row + policy->rows; r++) {
    for (int k = 0; is_given(r) && k < r->count; k++) {
      pbPrinted_Observation(m, r, k, text, sizeof text);
      fprintf(out, "//   input[%d]  ", at++);
      put_line(out, text);
    }
  }
  fprintf(out, "//\n");
  for (int i = 0; i < policy->outputs; i++) {
    pbPrinted_Target(m, &policy->target[i], text, sizeof text);
    fprintf(out, "//   output[%d]  ", i);
    put_line(out, text);
  }
  fprintf(out, "\n");
}

// Where an observation of a part comes from: its scale times an input, or times what was decided last.
static void put_observed(const pbPrinted *p, const pbPolicyModel *policy, bool act, int input, const char *o, int shift) {
  for (const pbObserveRow *r = policy->row; r < policy->row + policy->rows; r++) {
    if ((r->at >= policy->observed) != act) continue;
    for (int k = 0; k < r->count; k++) {
      fprintf(p->out, "    %s[%d] = (%s)(", o, r->at + k + shift, p->type);
      pbPrinted_Number(p->out, r->scale, false);
      if (is_given(r)) fprintf(p->out, " * input[%d]);\n", input++);
      else fprintf(p->out, " * %s[%d]);\n", act ? "last" : "state->held", r->first + (r->component ? r->component[k] : k));
    }
  }
}

static int at_least_one(int count) { return count > 0 ? count : 1; }

static void put_decision(const pbPrinted *p, const pbPolicyModel *policy, int memory) {
  FILE *out = p->out;
  fprintf(out, "  if (state->count == 0) {\n    %s o[%d], u[%d];\n    double next[%d] = {0};\n", p->type,
          at_least_one(policy->observed), policy->held, at_least_one(memory));
  put_observed(p, policy, false, 0, "o", 0);
  fprintf(out, "    %s_decide(state->memory, next, o, u);\n", p->name);
  if (memory) fprintf(out, "    memcpy(state->memory, next, %d * sizeof *next);\n", memory);
  fprintf(out, "    for (int i = 0; i < %d; i++) state->held[i] = (double)u[i];\n  }\n", policy->held);
}

static void put_act(const pbPrinted *p, const pbPolicyModel *policy, int inputs) {
  FILE *out = p->out;
  int memory = policy->memory - policy->decide_memory;
  fprintf(out, "  {\n    %s o[%d], u[%d];\n    double next[%d] = {0};\n", p->type,
          at_least_one(policy->held + policy->observing - policy->observed), policy->outputs, at_least_one(memory));
  fprintf(out, "    for (int i = 0; i < %d; i++) o[i] = (%s)state->held[i];\n", policy->held, p->type);
  put_observed(p, policy, true, inputs, "o", policy->held - policy->observed);
  fprintf(out, "    %s_act(state->memory + %d, next, o, u);\n", p->name, policy->decide_memory);
  if (memory) fprintf(out, "    memcpy(state->memory + %d, next, %d * sizeof *next);\n", policy->decide_memory, memory);
  fprintf(out, "    for (int i = 0; i < %d; i++) output[i] = (double)u[i];\n  }\n", policy->outputs);
}

static bool hears_last(const pbPolicyModel *policy) {
  bool found = false;
  for (const pbObserveRow *r = policy->row; r < policy->row + policy->rows; r++)
    found = found || (r->at >= policy->observed && !is_given(r));

  return found;
}

static void put_step(const pbPrinted *p, const pbPolicyModel *policy, Sizes s) {
  FILE *out = p->out;
  fprintf(out, "void %s(%s_state *state, const double *input, double *output) {\n", p->name, p->name);
  if (s.inputs + s.act_inputs == 0) fprintf(out, "  (void)input;\n");

  // what acts sees the last decision as it was before this call
  if (hears_last(policy)) fprintf(out, "  double last[%d];\n  memcpy(last, state->held, sizeof last);\n", policy->held);
  put_decision(p, policy, policy->decide_memory);
  if (policy->act) put_act(p, policy, s.inputs);
  else fprintf(out, "  for (int i = 0; i < %d; i++) output[i] = state->held[i];\n", policy->outputs);

  for (int i = 0; i < policy->outputs; i++) {
    if (policy->target[i].scale == 1) continue;
    fprintf(out, "  output[%d] = ", i);
    pbPrinted_Number(out, policy->target[i].scale, false);
    fprintf(out, " * output[%d];\n", i);
  }
  fprintf(out, "  state->count = state->count + 1 < %d ? state->count + 1 : 0;\n}\n", policy->every);
}

static void put_struct(const pbPrinted *p, const pbPolicyModel *policy, Sizes s) {
  FILE *out = p->out;
  fprintf(out, "enum { %s_inputs = %d, %s_outputs = %d };\n", p->name, s.inputs + s.act_inputs, p->name, policy->outputs);
  fprintf(out, "typedef struct %s_state {\n  double memory[%d];  // of its layers\n", p->name, at_least_one(policy->memory));
  fprintf(out, "  double held[%d];    // what was decided last\n  int count;         // calls since\n} %s_state;\n", policy->held,
          p->name);
  fprintf(out, "void %s(%s_state *state, const double *input, double *output);\n\n", p->name, p->name);
}

// A policy with a description is made of networks.
static const pbChain *chain_of(const pbPolicyFunction *f) { return &((const pbNetwork *)f->self)->chain; }

static void put_file(pbPrinted *p, const pbModel *m, const double *theta) {
  const pbPolicyModel *policy = m->policy;
  Sizes s = count_inputs(policy);

  put_header(p, m, theta);
  pbPrinted_Needs(p, chain_of(policy->decide));
  if (policy->act) pbPrinted_Needs(p, chain_of(policy->act));
  put_struct(p, policy, s);
  pbPrinted_Preamble(p);

  p->param = theta + policy->theta;
  pbPrinted_Network(p, "decide", chain_of(policy->decide));
  p->param = theta + policy->act_theta;
  if (policy->act) pbPrinted_Network(p, "act", chain_of(policy->act));
  put_step(p, policy, s);
}

// ---- what can be written ------------------------------------------------------------------------------------------------------
static pbStatus check_weights(pbContext *ctx, const pbModel *m, const double *theta, const char *path) {
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    pbParam p = pbModel_ParamAt(m, i);
    if (strncmp(p.name, "policy.", 7) != 0) continue;
    for (int k = 0; k < p.rows * p.cols; k++) {
      if (!isfinite(theta[p.offset + (size_t)k]))
        return pbContext_Fail(ctx, pb_bad_argument, "%.400s: %s[%d] is %g", path, p.name, k, theta[p.offset + (size_t)k]);
    }
  }

  return pb_ok;
}

static pbStatus check(pbContext *ctx, const pbModel *m, const double *theta, const char *path) {
  const pbPolicyModel *policy = m->policy;
  if (!pbPolicy_Text(m))
    return pbContext_Fail(ctx, pb_bad_argument, "%.400s: the model has no policy with a description, as one from a file has",
                          path);

  const char *lacks = pbPrinted_Lacks(chain_of(policy->decide));
  if (!lacks && policy->act) lacks = pbPrinted_Lacks(chain_of(policy->act));
  if (lacks) return pbContext_Fail(ctx, pb_unsupported, "%.400s: layers '%s' are not written as C", path, lacks);

  return check_weights(ctx, m, theta, path);
}

// "out/gait-2.c": gait_2. A name of C, and none of the words of C.
static void make_name(const char *path, char *name, size_t size) {
  const char *at = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  size_t n = strcspn(at, ".");
  snprintf(name, size, "%s%.*s", n && !isdigit((unsigned char)*at) ? "" : "policy_", n < 80 ? (int)n : 80, at);
  for (char *c = name; *c; c++) *c = isalnum((unsigned char)*c) ? *c : '_';
}

pbStatus pbPolicy_SaveC(pbContext *ctx, const pbModel *model, const double *theta, const char *path) {
  char name[120], *text;
  size_t size;
  pbDraft draft;
  theta = theta ? theta : pbModel_DefaultParams(model);
  PB_TRY(check(ctx, model, theta, path));
  PB_TRY(pbDraft_Begin(ctx, &draft));

  make_name(path, name, sizeof name);
  bool single = model->policy->decide->rounding > 0;
  pbPrinted p = {.out = draft.stream, .name = name, .type = single ? "float" : "double"};
  put_file(&p, model, theta);
  PB_TRY(pbDraft_End(&draft, &text, &size));
  pbStatus status = pbFile_Write(ctx, path, text, size);
  pbContext_Free(ctx, text);

  return status;
}
