// Inside of an audit: what is seen of its runs, and the verdict on a report whose rows are there.
#ifndef PB_AUDIT_H
#define PB_AUDIT_H

#include <pullback/audit.h>

struct pbRollout;

typedef struct pbAuditWatch {  // of one run
  pbContext *ctx;
  const pbModel *model;
  const pbAuditOptions *o;  // no zeros but for penetration and joint_torque
  const double *theta;
  const struct pbRollout *rollout;
  pbLedger *ledger;                             // NULL: none is kept
  pbAuditMost *overlap, *given_way, *at_joint;  // of the row: added to
  double *torque;                               // nu + 1: largest forces, of actuators and of the policy
  // own
  int step;
  const double *mocap_pos, *mocap_quat;  // of the step at hand
  bool has_pose;                         // a state was seen,
  double *pose, *way;                    // where geoms were there (ngeom x 12), how far each has come since (ngeom),
  double *x_before, *x, *tangent;        // that state, one on the way, the way
  struct pbScratch *between;             // to evaluate states on the way; NULL: none was
  pbStatus status;                       // pb_no_memory where that failed
} pbAuditWatch;

size_t pbAuditWatch_Numbers(const pbModel *model);                             // doubles of memory
void pbAuditWatch_Begin(pbAuditWatch *watch, double *memory);                  // all but what it owns is set
void pbAuditWatch_Step(void *watch, struct pbScratch *scratch);                // after each step
PB_NODISCARD pbStatus pbAuditWatch_End(pbAuditWatch *watch, const double *x);  // x: the last state
void pbAuditWatch_Free(pbAuditWatch *watch);

// What limits and equalities may give way where nothing is said [rad, m].
double pbAudit_DefaultAngle(void);
double pbAudit_DefaultLength(void);

// Sets confirmed and verdict.
void pbAuditReport_Judge(pbAuditReport *report);

#endif
