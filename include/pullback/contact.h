// Pullback: how contacts and limits are modelled, beyond what MJCF has words for. One named place: these settings here, a
// `contact` object in a task file, `--contact NAME=VALUE` on the command line; the names are the same.
//
// name     unit      range      default   meaning
// kappa    (m/s^2)^2 >= 0       0         smoothing of one-sided rows (limits, contacts). A row with residual x = J a - aref and
//                                         regularisation R has the force f with f (x + R f) = kappa / R instead of f = max(0, -x / R):
//                                         the central path of an interior point method, as in Dojo (Howell et al. 2022,
//                                         arXiv:2203.00806) on MuJoCo's model. 0: MuJoCo's rows. Rows of angles: rad/s^2.
// onset    m         >= 0       0         contacts make rows from this distance before touch on; their stiffness and damping
//                                         fade in over it (twice differentiable), so that nothing jumps when a contact appears
// erp      1         0..1, off  off       part of a position error that a step corrects, instead of solref's stiffness and
// cfm      s/kg      >= 0, off  off       damping; softness J v+ + erp / h * error + cfm * force = 0, instead of solimp's (Open
//                                         Dynamics Engine's constraint parameters; both or none). Equalities too.
//
// Every combination is one more potential of the same rows: the same Newton method solves it and the same adjoint differentiates it.
// With the defaults the results are MuJoCo's. However hard the rows are made, friction is associated, not Coulomb's (which lcp.h
// has): docs/contact-gradients.md says what that means, and how to choose.
#ifndef PULLBACK_CONTACT_H
#define PULLBACK_CONTACT_H

#include <pullback/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbContactSettings {
  double kappa, onset;
  double erp, cfm;  // negative: off
} pbContactSettings;

PB_API pbContactSettings pbModel_ContactSettings(const pbModel *model);
// Set one by its name and value as text, like pbModel_SetOption. Before scratches and rollouts are created. pb_bad_argument with
// the reason and, for unknown names, the nearest one.
PB_API PB_NODISCARD pbStatus pbModel_SetContact(pbModel *model, const char *name, const char *value);

#ifdef __cplusplus
}
#endif
#endif
