// The compiled model: sizes, integer tables, parameters, names. Field lists in model_fields.h.
#ifndef PB_MODEL_H
#define PB_MODEL_H

#include <pullback/contact.h>
#include <pullback/model.h>
#include <pullback/enums.h>  // the enumerations, by MuJoCo's values

#include "model/model_fields.h"

// Most iterations of Newton's method and of its line search, whatever the file says (which file_iterations tells).
enum { PB_NEWTON_ITERATIONS = 100, PB_LINE_ITERATIONS = 50 };
enum { PB_TERM_MOST = 64 };      // fields of single terms
enum { PB_NOSLIP_MOST = 1000 };  // sweeps against slip: the forces of each are kept for the way back

struct pbModel {
  pbContext *ctx;
#define X(name, ...) int name;
  PB_MODEL_SIZES(X)
  PB_MODEL_OPTIONS(X)
#undef X
  int revision;      // counts changes of options, contact settings, deformables: what was made before does not fit after
  int one;           // 1, the row count of options in the field lists
  double tolerance;  // of Newton; 0: rounding
  pbContactSettings contact;
  bool inertia_kept;  // inertias are as given, also where no body has them (pb_inertiaKeep)

#define X(name, rows, cols, ...) int *name;
  PB_MODEL_INTS(X)
#undef X
#define X(name, rows, cols, ...) double *name;
  PB_MODEL_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
  double *term[PB_TERM_MOST];  // by pb_term_* (term_fields.h)
#define X(name, rows, cols, ...) double *name;
  PB_MODEL_CONSTANTS(X)
#undef X

  double *theta0;  // default parameters; the pointers of parameters point into it, those of deformables stand behind them
  size_t ntheta;
  struct pbDeform *deform;                            // NULL: nothing deforms
  int deform_state, deform_tangent, deform_controls;  // what it adds to a state, its tangent, and ctrl
  int history_tangent;                                // samples of the history (history.h): what it adds to a state's tangent
  size_t deform_theta;                                // where its parameters begin
  struct pbExposed *exposed;                          // nexposed: vertices of meshes in theta (exposed.h)
  int nexposed;
  struct pbPolicyModel *policy;  // NULL: controls are inputs alone (policy_data.h)
  char **names[pb_objCount];     // [kind][id]; "" where unnamed
  int names_count[pb_objCount];
  char *model_name;
  void *ints_block, *reals_block;    // memory behind the pointers above
  struct pbPolicyFile *policy_file;  // what the reader of a policy made for it (io/task/policy.h); NULL: none
  void (*release_policy_file)(struct pbPolicyFile *file);
  struct pbSurfaces *surfaces;  // what meshes look like (surface.h); NULL: not kept
  struct pbDesign *design;      // what masses and frames of meshes follow from (design.h); NULL: not kept
  struct pbSpec *source;        // what it was made from, in its own order (compile.h); NULL: not kept
  void (*release_source)(struct pbSpec *spec);
  struct pbTopology *topology;  // derived tables of the step (topology.h), made once by pbModel_Finish
};

// Contact methods that solve for velocities after the step (contact.h), and their error reduction and force mixing.
static inline bool pb_hard(const pbModel *m) {
  return m->contact.method >= pb_contactLcp && m->contact.method <= pb_contactSweeps;
}
// Do sweeps against slip follow Newton's method? They are of soft contact: the other methods have no slip of that kind.
static inline bool pb_noslip(const pbModel *m) { return m->noslip_iterations > 0 && m->contact.method == pb_contactSoft; }
static inline double pb_erp(const pbModel *m) { return m->contact.erp < 0 ? 0.2 : m->contact.erp; }
static inline double pb_cfm(const pbModel *m) { return m->contact.cfm < 0 ? 0 : m->contact.cfm; }

// Entries of ctrl: actuators, then the controls of deformables.
static inline int pb_controls(const pbModel *m) { return m->nu + m->deform_controls; }

// Delayed controls are read at the time of each stage of Runge-Kutta; over the flights of a step between impacts they hold.
static inline bool pb_staged(const pbModel *m) {
  return m->nhistory > 0 && m->integrator == pb_intRK4 && m->contact.method != pb_contactImpact;
}

// Allocate all arrays for the sizes already set in *model (zeroed), and set pointers. Counts must be final.
PB_NODISCARD pbStatus pbModel_Allocate(pbModel *model);
// Room for `count` more parameters, of deformables or a policy, behind the others.
PB_NODISCARD pbStatus pbModel_GrowParams(pbModel *model, size_t count);
// Lengths of the two blocks that hold all numbers.
size_t pbModel_Integers(const pbModel *model);
size_t pbModel_Reals(const pbModel *model);
// After the fields are filled: derived tables of the step.
PB_NODISCARD pbStatus pbModel_Finish(pbModel *model);

// pb_bad_argument where only one of two contact settings is set that go together.
PB_NODISCARD pbStatus pbModel_CheckContact(pbContext *ctx, const pbModel *model);
// pb_unsupported where options or contact settings do not go with the model's deformables: those may be set after these.
PB_NODISCARD pbStatus pbModel_CheckDeform(pbContext *ctx, const pbModel *model);

// The first entry of theta that is not finite; ntheta: none.
size_t pbModel_FirstNotFinite(const pbModel *model, const double *theta);
// pb_bad_input for a direction in theta (sphere.h) whose length is out of range.
PB_NODISCARD pbStatus pbModel_CheckDirections(pbContext *ctx, const pbModel *model, const double *theta);
// Can theta be read: is it finite, and has every direction in it a length in range (sphere.h)? Else why not, in words. *unit: all
// of these are of length one.
bool pbModel_Readable(const pbModel *model, const double *theta, bool *unit, char *text, size_t size);

#endif
