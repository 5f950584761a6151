// Pullback: the audit of what an optimizer found: does it survive a finer time step and a tight solver, from starts that it was
// not found at?
#ifndef PULLBACK_AUDIT_H
#define PULLBACK_AUDIT_H

#include <pullback/array.h>
#include <pullback/json.h>
#include <pullback/ledger.h>
#include <pullback/optimize.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PB_AUDIT_STARTS = 8 };  // least number of starts that a verdict takes

typedef enum pbAuditRun {
  pb_auditTrained,    // as it was trained
  pb_auditHalf,       // h/2: decisions and rows of controls at the same times
  pb_auditQuarter,    // h/4
  pb_auditTight,      // solver run until rounding ends it
  pb_auditMethod,     // another contact method: reported, no part of the verdict
  pb_auditPerturbed,  // other parameters: likewise
  pb_auditReference,  // what is not audited: the task's start, or controls of zero; likewise
  pb_auditRunCount
} pbAuditRun;

// What came nearest to its limit, or furthest beyond.
typedef struct pbAuditMost {
  double value, limit;  // 0 of 1: nothing
  bool angle;           // rad, else m (forces: N m, N)
  char name[120];       // "limit of joint 'knee'", "geoms 'ball' and 'wall', between two steps"
} pbAuditMost;

// What came of one kind of run, over all starts.
typedef struct pbAuditRow {
  char name[48];                          // "as trained", "h/2", ...
  bool counts;                            // for the verdict
  int ran, failed;                        // starts
  int failed_start;                       // the first, and why; -1
  char why[300];                          // also where the kind of run is not to be had: then ran and failed are 0
  double timestep;                        // s
  double mean, deviation, least, most;    // of the objective, times factor
  pbAuditMost overlap;                    // of two geoms, in steps and, where they are fast, between them
  pbAuditMost given_way;                  // of limits of joints and tendons, and of equalities
  pbAuditMost at_joint;                   // force at a joint, where one is stated
  double torque, torque_limit;            // of the actuator nearest to its limit
  char actuator[96];                      // its name; "policy": of what the policy puts on joints and bodies
  double power;                           // W: largest of all actuators together
  bool has_ledger;                        // else why_no_ledger of the report
  double work, energy, taken, remainder;  // J, means: work of actuators and applied forces; change of energy; dissipated; |.|
  double gap;                             // mean |remainder| by the mean of the work delivered (pbLedger_Gap)
} pbAuditRow;

typedef struct pbAuditOptions {  // zeros: the defaults in brackets
  int starts;                    // [8] PB_AUDIT_STARTS at least
  uint64_t seed;                 // of starts and of perturbed parameters
  const double *spread;   // TangentSize: normal deviations of the initial states from the task's [0.05 of velocities, m/s, rad/s]
  bool uniform;           // spread: half widths of uniform ones
  const char *objective;  // name of a term [the whole loss]
  double factor;          // objectives are told as value * factor [1]
  const char *unit;       // in words [""]
  // The objective may differ by this part of what was gained over the reference [0.1], but always by `absolute` [0]. Reference:
  // the task's start, where something else is audited; else controls of zero and a policy that puts out zeros.
  double tolerance, absolute;
  double penetration;   // m [a tenth of the least extent of the lesser geom, but 0.005 at least and half of that extent at most]
  double torque;        // N, N m, of each actuator [its own force range, or its joint's], and of what a policy puts on joints and
                        // bodies [needed there]
  double joint_torque;  // N, N m: of all actuators of a hinge, slide or axis of a ball together, gears counted [any]
  double stop_angle, stop_length;  // rad, m: what limits of joints and tendons, and equalities, may give way [0.035, 0.005]
  double ledger;                   // remainder by work [0.01]
  const char *method;              // contact method that is reported beside [cones, or soft where the task has cones]
  const char *const *field;        // parameters that are perturbed, each number by a factor within 1 +- relative
  const double *relative;
  int fields;  // [0: body_mass, dof_damping and geom_friction by 0.1]
  pbProgressFunction progress;
  void *user;
  // The first `kept_count` kinds of runs, as an interrupted audit of the same has made them: not made again.
  const pbAuditRow *kept;
  int kept_count;
} pbAuditOptions;

typedef struct pbAuditReport {
  bool confirmed;
  char verdict[1000];  // "confirmed: ...", "not confirmed: 0.248 of 1.205 m/s at h/4; ..."
  char why_no_ledger[200];
  int starts;
  uint64_t seed;
  char objective[96], unit[32];
  double tolerance, absolute, ledger;  // the limits; of overlaps and stops: of each row
  double better;                       // 1: more of the objective is better; -1: less
  double gained;                       // objective as trained less that of the reference; NaN: there is none
  int made;                            // kinds of runs that are done; all but of an audit that was interrupted
  pbAuditRow row[pb_auditRunCount];
} pbAuditReport;

// Audits z (n). Confirmed: the mean of the objective at h/2, at h/4 and with the tight solver each no worse than that as trained
// by more than the tolerance (better is a note; a loss is better where it is less); in these four kinds of runs no start that
// fails; overlaps, forces, stops and equalities within their limits, and the ledger closed. Where there is no reference (neither
// another start, nor controls, nor a policy; or it fails), the tolerance is of the objective itself. The task is as before.
// pb_bad_argument: fewer than 8 starts, starts that do not differ, an actuator, or a policy with outputs on joints or bodies,
// without a known limit, an unknown term, field or method, the reference kept. pb_not_finite: an objective as trained that is not
// finite. pb_unsupported: a policy whose part that acts every step has a memory, which counts steps. pb_interrupted: the first
// `made` rows of the report are done.
PB_API PB_NODISCARD pbStatus pbTask_Audit(pbTask *task, const double *z, const pbAuditOptions *options, pbAuditReport *report);
// A task to be audited: as pbTask_LoadWith. "variables" may be missing; of a training, the length is that of its episodes; the
// loss is that of "audit" where it has one.
PB_API PB_NODISCARD pbStatus pbTask_LoadAudit(pbContext *ctx, const char *path, const char *allow_root, const char *policy,
                                              pbTask **task);
// "audit" of the task file, as options; texts and arrays are the task's.
PB_API pbAuditOptions pbTask_AuditOptions(const pbTask *task);
// The report as JSON text (free with pbContext_Free).
PB_API PB_NODISCARD pbStatus pbAuditReport_Json(pbContext *ctx, const pbAuditReport *report, char **text);
// The same as values of JSON: an object.
PB_API PB_NODISCARD pbStatus pbAuditReport_Describe(const pbAuditReport *report, pbJson *json);
// Rows as arrays, and back: *count of at most pb_auditRunCount; 0 where they are not there. Names "rows", "row_texts/...".
PB_API PB_NODISCARD pbStatus pbAuditRows_Keep(const pbAuditRow *rows, int count, pbArrays *set);
PB_API void pbAuditRows_Restore(const pbArrays *set, pbAuditRow *rows, int *count);
// z (n) from a result that optimize wrote for the same task. pb_bad_input, with the variable, where they do not fit.
PB_API PB_NODISCARD pbStatus pbTask_ReadResult(pbTask *task, const char *path, double *z);

#ifdef __cplusplus
}
#endif
#endif
