// Memory, sizes, names, fields and options of a compiled model.
// Tests: tests/unit/test_compile.c.
#include "model/model.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "base/text.h"
#include "deform/deform.h"
#include "model/design.h"
#include "model/exposed.h"
#include "model/policy_data.h"
#include "model/servo.h"
#include "model/surface.h"
#include "model/term_fields.h"
#include "model/topology.h"

// ---- the table of fields ------------------------------------------------------------------------------------------
typedef enum pbFieldKind { kind_number, kind_ints, kind_params, kind_constants } pbFieldKind;  // number: stands in the model

typedef struct pbFieldEntry {
  const char *name;
  pbFieldKind kind;
  size_t rows, pointer;  // offsets in the model: of the size that counts the rows, of the pointer (or number) itself
  int cols;
  size_t cols_size;  // not 0: offset of the size that counts the columns
} pbFieldEntry;

// The lists name a size of the model, or a number, for the columns of constants. A number has no CSIZE; of a size the offset is
// taken, and the enumeration below says how many columns each of what it counts has.
// clang-format off
#define CSIZE_1 0
#define CSIZE_2 0
#define CSIZE_3 0
#define CSIZE_4 0
#define CSIZE_6 0
#define CSIZE_nuser_body offsetof(pbModel, nuser_body)
#define CSIZE_nuser_jnt offsetof(pbModel, nuser_jnt)
#define CSIZE_nuser_geom offsetof(pbModel, nuser_geom)
#define CSIZE_nuser_site offsetof(pbModel, nuser_site)
#define CSIZE_nuser_cam offsetof(pbModel, nuser_cam)
#define CSIZE_nuser_tendon offsetof(pbModel, nuser_tendon)
#define CSIZE_nuser_actuator offsetof(pbModel, nuser_actuator)
#define CSIZE_nuser_sensor offsetof(pbModel, nuser_sensor)
#define CSIZE_nq offsetof(pbModel, nq)
#define CSIZE_nv offsetof(pbModel, nv)
#define CSIZE_na offsetof(pbModel, na)
#define CSIZE_nu offsetof(pbModel, nu)
#define CSIZE_nmocap_3 offsetof(pbModel, nmocap)
#define CSIZE_nmocap_4 offsetof(pbModel, nmocap)

// clang-format off
enum { nuser_body = 1, nuser_jnt = 1, nuser_geom = 1, nuser_site = 1, nuser_cam = 1, nuser_tendon = 1, nuser_actuator = 1,
       nuser_sensor = 1, nq = 1, nv = 1, na = 1, nu = 1, nmocap_3 = 3, nmocap_4 = 4 };
// clang-format on

static const pbFieldEntry field_table[] = {
#define X(name, ...) {#name, kind_number, 0, offsetof(pbModel, name), 1, 0},
    PB_MODEL_SIZES(X) PB_MODEL_OPTIONS(X)
#undef X
#define X(name, rows, cols, ...) {#name, kind_ints, offsetof(pbModel, rows), offsetof(pbModel, name), cols, 0},
        PB_MODEL_INTS(X)
#undef X
#define X(name, rows, cols, ...) {#name, kind_params, offsetof(pbModel, rows), offsetof(pbModel, name), cols, 0},
            PB_MODEL_PARAMS(X)
#undef X
#define X(name, rows, cols, ...) {#name, kind_params, offsetof(pbModel, rows), offsetof(pbModel, term[pb_term_##name]), cols, 0},
                PB_TERM_PARAMS(X)
#undef X
#define X(name, rows, cols, ...) {#name, kind_params, offsetof(pbModel, rows), offsetof(pbModel, name), cols, 0},
                    PB_MESH_PARAMS(X)
#undef X
#define X(name, rows, cols, ...) {#name, kind_constants, offsetof(pbModel, rows), offsetof(pbModel, name), cols, CSIZE_##cols},
                        PB_MODEL_CONSTANTS(X)
#undef X
};
// clang-format on
enum { FIELD_COUNT = sizeof field_table / sizeof *field_table };

static int int_at(const pbModel *m, size_t offset) { return *(const int *)(const void *)((const char *)m + offset); }
static int rows_of(const pbModel *m, const pbFieldEntry *e) { return e->kind == kind_number ? 1 : int_at(m, e->rows); }
static int cols_of(const pbModel *m, const pbFieldEntry *e) { return e->cols_size ? e->cols * int_at(m, e->cols_size) : e->cols; }

// ---- memory -------------------------------------------------------------------------------------------------------
enum { MODEL_ENTRIES_LIMIT = 32 << 20 };  // entries of one kind (reals: 256 MiB); files may name any count

// Entries of one kind, or more than the limit.
static size_t entries_of(const pbModel *m, pbFieldKind kind) {
  double n = 0;

  for (int i = 0; i < FIELD_COUNT; i++) {
    const pbFieldEntry *e = &field_table[i];
    if (e->kind == kind) n += (double)rows_of(m, e) * cols_of(m, e);
  }

  return n > MODEL_ENTRIES_LIMIT ? (size_t)MODEL_ENTRIES_LIMIT + 1 : (size_t)n;
}

static void set_pointers(pbModel *m) {
  int *ints = m->ints_block;
  double *params = m->theta0;
  double *constants = m->theta0 + m->ntheta;

  for (int i = 0; i < FIELD_COUNT; i++) {
    const pbFieldEntry *e = &field_table[i];
    void *pointer = (char *)m + e->pointer;
    size_t n = (size_t)rows_of(m, e) * (size_t)cols_of(m, e);

    if (e->kind == kind_ints) {
      *(int **)pointer = ints;
      ints += n;
    } else if (e->kind != kind_number) {
      double **reals = e->kind == kind_params ? &params : &constants;
      *(double **)pointer = *reals;
      *reals += n;
    }
  }
  PB_ASSERT(params <= m->theta0 + m->ntheta);  // parameters of deformables may follow
}

// Things of each kind; dofs go by the names of their joints.
static void count_names(pbModel *m) {
  const int counts[pb_objCount] = {
      [pb_objBody] = m->nbody,     [pb_objJoint] = m->njnt,       [pb_objGeom] = m->ngeom,       [pb_objSite] = m->nsite,
      [pb_objPair] = m->npair,     [pb_objEquality] = m->neq,     [pb_objTendon] = m->ntendon,   [pb_objActuator] = m->nu,
      [pb_objSensor] = m->nsensor, [pb_objKeyframe] = m->nkey,    [pb_objNumeric] = m->nnumeric, [pb_objCamera] = m->ncam,
      [pb_objLight] = m->nlight,   [pb_objExclude] = m->nexclude, [pb_objText] = m->ntext,       [pb_objTuple] = m->ntuple,
      [pb_objMesh] = m->nmesh,     [pb_objHfield] = m->nhfield,
  };
  memcpy(m->names_count, counts, sizeof counts);
}

pbStatus pbModel_Allocate(pbModel *m) {
  m->one = 1;
  size_t ints = entries_of(m, kind_ints);
  size_t params = entries_of(m, kind_params);
  size_t constants = entries_of(m, kind_constants);
  if (ints > MODEL_ENTRIES_LIMIT || params + constants > MODEL_ENTRIES_LIMIT)
    return pbContext_Fail(m->ctx, pb_no_memory, "the model is too large (more than %d million numbers)",
                          MODEL_ENTRIES_LIMIT >> 20);

  count_names(m);
  m->ntheta = params;

  // Reals in one block: theta0, then the constants. GrowParams below makes room between them.
  m->ints_block = pbContext_AllocArray(m->ctx, ints, sizeof(int));
  m->reals_block = m->theta0 = pbContext_AllocArray(m->ctx, params + constants, sizeof(double));
  if (!m->ints_block || !m->reals_block) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the model");

  // Empty names until a compile fills them.
  for (int kind = 0; kind < pb_objCount; kind++) {
    m->names[kind] = pbContext_AllocArray(m->ctx, (size_t)m->names_count[kind], sizeof(char *));
    if (!m->names[kind]) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the model's names");
  }

  set_pointers(m);
  return pb_ok;
}

size_t pbModel_Integers(const pbModel *m) { return entries_of(m, kind_ints); }
size_t pbModel_Reals(const pbModel *m) { return m->ntheta + entries_of(m, kind_constants); }

pbStatus pbModel_GrowParams(pbModel *m, size_t count) {
  size_t params = m->ntheta;
  size_t constants = entries_of(m, kind_constants);
  double *grown = pbContext_AllocArray(m->ctx, params + count + constants, sizeof *grown);
  if (!grown) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for %zu more parameters", count);

  // theta0, the new parameters (zero), the constants.
  memcpy(grown, m->theta0, params * sizeof *grown);
  memcpy(grown + params + count, m->theta0 + params, constants * sizeof *grown);

  // Every pointer into the block moves.
  pbContext_Free(m->ctx, m->reals_block);
  m->reals_block = m->theta0 = grown;
  m->ntheta += count;

  set_pointers(m);
  return pb_ok;
}

static void free_names(pbModel *m) {
  for (int kind = 0; kind < pb_objCount; kind++) {
    if (m->names[kind]) {  // a model that ran out of memory has some of them
      for (int i = 0; i < m->names_count[kind]; i++) pbContext_Free(m->ctx, m->names[kind][i]);
    }
    pbContext_Free(m->ctx, m->names[kind]);
  }
}

void pbModel_Destroy(pbModel *m) {
  if (!m) return;
  if (m->topology) pbTopology_Destroy(m->ctx, m->topology);

  // Deformables, a policy and names have memory of their own.
  pbDeform_Destroy(m->deform);
  pbPolicyModel_Destroy(m->ctx, m->policy);
  pbExposed_Destroy(m);
  pbSurfaces_Destroy(m->ctx, m->surfaces);
  pbDesign_Destroy(m->ctx, m->design, m->nmesh);
  free_names(m);
  if (m->policy_file) m->release_policy_file(m->policy_file);
  if (m->source) m->release_source(m->source);

  pbContext_Free(m->ctx, m->model_name);
  pbContext_Free(m->ctx, m->ints_block);
  pbContext_Free(m->ctx, m->reals_block);
  pbContext_Free(m->ctx, m);
}

// ---- sizes and names ----------------------------------------------------------------------------------------------
int pbModel_Size(const pbModel *m, const char *name) {
  if (!strcmp(name, "nu")) return pb_controls(m);
  if (!strcmp(name, "npoint")) return pbModel_PointCount(m);
  if (!strcmp(name, "ncommand")) return m->policy ? m->policy->commands : 0;

// Controls and points count deformables too; the other sizes stand in the model.
#define X(size) \
  if (!strcmp(name, #size)) return m->size;
  PB_MODEL_SIZES(X)
#undef X
  return -1;
}

int pbModel_TangentSize(const pbModel *m) {
  int bodies = 2 * m->nv + m->na;
  return bodies + m->deform_tangent + m->history_tangent + pb_policyTangent(m);
}

int pbModel_PointCount(const pbModel *m) { return m->deform ? m->deform->npoint : 0; }

// ---- inspection ---------------------------------------------------------------------------------------------------
bool pbModel_FieldAt(const pbModel *m, int index, pbField *field) {
  if (index < 0 || index >= FIELD_COUNT) return false;
  const pbFieldEntry *e = &field_table[index];
  const void *pointer = (const char *)m + e->pointer;
  *field = (pbField){.name = e->name, .rows = rows_of(m, e), .cols = cols_of(m, e)};

  // A number stands in the model itself.
  if (e->kind == kind_number) {
    field->integers = pointer;
  } else if (e->kind == kind_ints) {
    field->integers = *(int *const *)pointer;
  } else {
    field->reals = *(double *const *)pointer;
  }
  return true;
}

bool pbModel_Field(const pbModel *m, const char *name, pbField *field) {
  for (int i = 0; i < FIELD_COUNT; i++) {
    if (!strcmp(field_table[i].name, name)) return pbModel_FieldAt(m, i, field);
  }
  return false;
}

int pbModel_Integer(const pbModel *m, const char *name, int row) {
  pbField f;
  bool known = pbModel_Field(m, name, &f) && f.integers && row >= 0 && row < f.rows;
  return known ? f.integers[row] : -1;
}

// ---- options ------------------------------------------------------------------------------------------------------
// Words of options that take one of several.
typedef struct pbChoice {
  const char *option, *word;
  int value;
} pbChoice;
static const pbChoice choice_table[] = {
    {"integrator", "Euler", pb_intEuler},
    {"integrator", "RK4", pb_intRK4},
    {"integrator", "implicitfast", pb_intImplicitfast},
    {"cone", "pyramidal", pb_conePyramidal},
    {"cone", "elliptic", pb_coneElliptic},
    {"solver", "PGS", pb_solPGS},
    {"solver", "CG", pb_solCG},
    {"solver", "Newton", pb_solNewton},
};
enum { CHOICE_COUNT = sizeof choice_table / sizeof *choice_table };

// Flags of MJCF's option/flag: a bit of disableflags or of enableflags.
typedef struct pbFlag {
  const char *name;
  int bit;
  bool enables;  // a bit of enableflags
} pbFlag;
static const pbFlag flag_table[] = {
    {"constraint", pb_disConstraint, false},
    {"equality", pb_disEquality, false},
    {"frictionloss", pb_disFrictionloss, false},
    {"limit", pb_disLimit, false},
    {"contact", pb_disContact, false},
    {"spring", pb_disSpring, false},
    {"damper", pb_disDamper, false},
    {"gravity", pb_disGravity, false},
    {"clampctrl", pb_disClampctrl, false},
    {"warmstart", pb_disWarmstart, false},
    {"filterparent", pb_disFilterparent, false},
    {"actuation", pb_disActuation, false},
    {"refsafe", pb_disRefsafe, false},
    {"sensor", pb_disSensor, false},
    {"midphase", pb_disMidphase, false},
    {"eulerdamp", pb_disEulerdamp, false},
    {"autoreset", pb_disAutoreset, false},
    {"nativeccd", pb_disNativeccd, false},
    {"island", pb_disIsland, false},
    {"multiccd", pb_disMulticcd, false},
    {"override", pb_enOverride, true},
    {"energy", pb_enEnergy, true},
    {"fwdinv", pb_enFwdinv, true},
    {"invdiscrete", pb_enInvdiscrete, true},
};
enum { FLAG_COUNT = sizeof flag_table / sizeof *flag_table };

// ", did you mean 'RK4'?", or all words that an option takes.
static const char *write_choices(const char *name, const char *near, char *text, size_t size) {
  size_t used = 0;
  if (near) {
    snprintf(text, size, ", did you mean '%.80s'?", near);
    return text;
  }

  // As many words as the text has room for.
  for (int i = 0; i < CHOICE_COUNT && used < size; i++) {
    if (strcmp(choice_table[i].option, name) != 0) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "; there are ", choice_table[i].word);
  }
  return text;
}

static pbStatus set_choice(pbModel *m, const char *name, const char *value, int *target) {
  pbSuggest near = pbSuggest_For(value);
  char hint[256];
  int number = -1;
  bool numeric = pbText_Count(value, &number);

  // By word, or by the number that MuJoCo's enumeration gives it.
  for (int i = 0; i < CHOICE_COUNT; i++) {
    if (strcmp(choice_table[i].option, name)) continue;
    if (!strcmp(choice_table[i].word, value) || (numeric && number == choice_table[i].value)) {
      *target = choice_table[i].value;
      return pb_ok;
    }
    pbSuggest_Offer(&near, choice_table[i].word);
  }

  // Integrators of MuJoCo that are no part of this engine are known words all the same.
  bool unsupported = !strcmp(name, "integrator") && (!strcmp(value, "implicit") || !strcmp(value, "discrete"));
  if (unsupported) near.best = NULL;
  return pbContext_Fail(m->ctx, unsupported ? pb_unsupported : pb_bad_argument, "option %s: '%.80s' is not %s%s", name, value,
                        unsupported ? "supported" : "known", write_choices(name, near.best, hint, sizeof hint));
}

static pbStatus set_flag(pbModel *m, const pbFlag *flag, const char *value) {
  bool on = !strcmp(value, "enable");
  if (!on && strcmp(value, "disable"))
    return pbContext_Fail(m->ctx, pb_bad_argument, "option %s: expected 'enable' or 'disable', found '%.80s'", flag->name, value);

  // "enable" sets a bit of enableflags, and clears one of disableflags.
  int *bits = flag->enables ? &m->enableflags : &m->disableflags;
  *bits = on == flag->enables ? *bits | flag->bit : *bits & ~flag->bit;
  return pb_ok;
}

static pbStatus set_tolerance(pbModel *m, const char *value) {
  double tolerance;
  if (!strcmp(value, "file")) {
    m->tolerance = m->file_tolerance[0];
    return pb_ok;
  }
  if (!pbText_Real(value, &tolerance) || !(tolerance >= 0) || tolerance > 1)
    return pbContext_Fail(m->ctx, pb_bad_argument, "option tolerance: expected a number from 0 to 1, found '%.80s'", value);

  m->tolerance = tolerance;
  return pb_ok;
}

// A count of iterations, or what the file has.
static pbStatus set_count(pbModel *m, const char *name, const char *value, int file, int *target) {
  int count = file;
  bool from_file = !strcmp(value, "file");
  if (!from_file && (!pbText_Count(value, &count) || count < 1))
    return pbContext_Fail(m->ctx, pb_bad_argument, "option %s: expected a whole number of at least 1 or 'file', found '%.80s'",
                          name, value);

  *target = count;
  return pb_ok;
}

static pbStatus set_noslip(pbModel *m, const char *value) {
  int count;
  if (!pbText_Count(value, &count) || count < 0 || count > PB_NOSLIP_MOST)
    return pbContext_Fail(m->ctx, pb_bad_argument,
                          "option noslip_iterations: expected a whole number from 0 to %d, found '%.80s'", PB_NOSLIP_MOST, value);

  m->noslip_iterations = count;
  return pb_ok;
}

static const char *const others[] = {"integrator",        "cone", "solver", "tolerance", "iterations", "ls_iterations",
                                     "noslip_iterations", "servo"};
enum { OTHER_COUNT = sizeof others / sizeof *others };

static pbStatus unknown_option(pbModel *m, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[256];

  // Candidates: options and flags alike.
  for (int i = 0; i < OTHER_COUNT; i++) pbSuggest_Offer(&near, others[i]);
  for (int i = 0; i < FLAG_COUNT; i++) pbSuggest_Offer(&near, flag_table[i].name);

  pbSuggest_Write(&near, hint, sizeof hint);
  if (!near.best) {
    snprintf(
        hint, sizeof hint,
        "; there are integrator, cone, solver, tolerance, iterations, ls_iterations, noslip_iterations, servo and flags such as "
        "contact, gravity, filterparent (docs/mjcf.md); timestep, gravity and the like are parameters");
  }
  return pbContext_Fail(m->ctx, pb_bad_argument, "unknown option '%.80s'%s", name, hint);
}

static pbStatus change_option(pbModel *m, const char *name, const char *value) {
  if (!strcmp(name, "integrator")) return set_choice(m, name, value, &m->integrator);
  if (!strcmp(name, "cone")) return set_choice(m, name, value, &m->cone);
  if (!strcmp(name, "solver")) return set_choice(m, name, value, &m->solver);
  if (!strcmp(name, "iterations")) return set_count(m, name, value, m->file_iterations, &m->iterations);
  if (!strcmp(name, "ls_iterations")) return set_count(m, name, value, m->file_ls_iterations, &m->ls_iterations);
  if (!strcmp(name, "noslip_iterations")) return set_noslip(m, value);
  if (!strcmp(name, "tolerance")) return set_tolerance(m, value);
  if (!strcmp(name, "servo")) return pbModel_SetServos(m, value);

  // Everything else is a flag.
  for (int i = 0; i < FLAG_COUNT; i++) {
    if (!strcmp(flag_table[i].name, name)) return set_flag(m, &flag_table[i], value);
  }
  return unknown_option(m, name);
}

static const char *choice_word(const char *name, int value) {
  for (int i = 0; i < CHOICE_COUNT; i++) {
    if (!strcmp(choice_table[i].option, name) && choice_table[i].value == value) return choice_table[i].word;
  }
  return "";
}

static void write_option(const pbModel *m, const char *name, char *text, size_t size) {
  if (!strcmp(name, "integrator")) snprintf(text, size, "%s", choice_word(name, m->integrator));
  else if (!strcmp(name, "cone")) snprintf(text, size, "%s", choice_word(name, m->cone));
  else if (!strcmp(name, "solver")) snprintf(text, size, "%s", choice_word(name, m->solver));
  else if (!strcmp(name, "iterations")) snprintf(text, size, "%d", m->iterations);
  else if (!strcmp(name, "ls_iterations")) snprintf(text, size, "%d", m->ls_iterations);
  else if (!strcmp(name, "noslip_iterations")) snprintf(text, size, "%d", m->noslip_iterations);
  else if (!strcmp(name, "tolerance")) snprintf(text, size, "%.17g", m->tolerance);
  else pbModel_WriteServos(m, text, size);
}

bool pbModel_OptionAt(const pbModel *m, int index, const char **name, char *text, size_t size) {
  PB_ASSERT(size > 0);
  if (index < 0 || index >= OTHER_COUNT + FLAG_COUNT) return false;
  if (index < OTHER_COUNT) {
    *name = others[index];
    write_option(m, *name, text, size);
    return true;
  }

  // A flag is on where its bit of enableflags is set, or that of disableflags is not.
  const pbFlag *flag = &flag_table[index - OTHER_COUNT];
  bool set = (flag->enables ? m->enableflags : m->disableflags) & flag->bit;
  *name = flag->name;
  snprintf(text, size, "%s", set == flag->enables ? "enable" : "disable");
  return true;
}

// The tables of the step depend on options (which pairs may touch), so they are derived again. A failure leaves the model as it
// was.
pbStatus pbModel_SetOption(pbModel *m, const char *name, const char *value) {
  pbModel before = *m;
  PB_TRY(change_option(m, name, value));

  // The old tables stay until the new ones stand.
  m->topology = NULL;
  pbStatus status = pbModel_Finish(m);
  pbTopology_Destroy(m->ctx, status == pb_ok ? before.topology : m->topology);

  if (status != pb_ok) *m = before;
  else m->revision++;
  return status;
}
