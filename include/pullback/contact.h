// Pullback: how contacts are modelled, beyond what MJCF has words for. One named place: these settings here, a
// `contact` object in a task file, `--contact NAME=VALUE` on the command line; the names are the same.
//
// name          unit      range      default   meaning
// method        word                 soft      which problem a step solves for its contacts: pbContactMethod
// kappa         (m/s^2)^2 >= 0       0         soft: smoothing of one-sided rows (limits, contacts). A row with residual
//                                              x = J a - aref and regularisation R has the force f with f (x + R f) = kappa / R
//                                              instead of f = max(0, -x / R): the central path of an interior point method, as in
//                                              Dojo (Howell et al. 2022, arXiv:2203.00806) on MuJoCo's model. 0: MuJoCo's rows.
//                                              Rows of angles: rad/s^2.
// onset         m         >= 0       0         soft: contacts make rows from this distance before touch on; their stiffness and
//                                              damping fade in over it (twice differentiable), so that nothing jumps when a
//                                              contact appears
// erp           1         0..1, off  off       part of a position error that a step corrects, instead of solref's stiffness and
// cfm           s/kg      >= 0, off  off       damping; softness J v+ + erp / h * error + cfm * force = 0, instead of solimp's (Open
//                                              Dynamics Engine's; both or none). Equalities too. Hard methods always have them: off
//                                              means 0.2 and 1e-5 of diagApprox; lcp and cones: not at landings, no hops (docs)
// sweeps        1         1..1e6     50        sweeps: so many in a step, from no force
// order         word                 gauss-seidel  sweeps: one row after the other, or all at once (jacobi)
// omega         1         0..2       0         sweeps: relaxation; 0: 1, and 1.8 / lambda_max of the rows for jacobi
// mixing        word                 maximum   friction and restitution of two geoms: maximum, mean, product, minimum, geometric
//                                              (mean). MuJoCo's is maximum; explicit pairs and priorities are as in MuJoCo.
// smooth_kappa  (m/s^2)^2 >= 0       1         of gradients by pb_gradientSmooth (rollout.h) alone, which take the greater of kappa
// smooth_onset  m         >= 0       0.01      and smooth_kappa, of onset and smooth_onset
// restitution   1         0..1       0         sets the parameter geom_restitution of every geom; hard methods only
// restitution_law  word             newton    impact: newton, or capped: restitution is less where the impact would make energy
// stiffness     N/m       > 0        1e4       penalty: sets the parameter contact_stiffness
// damping       N s/m     >= 0       50        penalty: sets the parameter contact_damping
// width         m         > 0        1e-4      penalty: depth over which the force sets in, twice differentiable
// slip          m/s       > 0        0.1       penalty: sliding speed from which on friction is about its full force
// mocap_motion  word                 ignored   contacts of bodies that mocap bodies carry: ignored: forces and impacts as if these
//                                              stood still, as in MuJoCo; followed: by relative velocities, so that friction
//                                              drags, damping yields, and restitution throws (pbInput.mocap_vel)
//
// With the defaults the results are MuJoCo's. docs/contact-gradients.md has the formulas, says which method takes which settings,
// and how to choose.
#ifndef PULLBACK_CONTACT_H
#define PULLBACK_CONTACT_H

#include <pullback/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pbContactMethod {
  pb_contactSoft,     // MuJoCo's convex rows with the settings above
  pb_contactLcp,      // hard: Coulomb's law with restitution, friction in a polyhedral cone (a linear complementarity problem)
  pb_contactCones,    // hard: Coulomb's law with restitution and the cone itself
  pb_contactSweeps,   // hard: projected sweeps over the rows, as many as asked for; friction in a box (Degrave et al. 2019)
  pb_contactImpact,   // rigid impacts at the instant of touch, Newton's restitution and Coulomb's friction; free flight between
  pb_contactPenalty,  // springs and dampers: contact forces are functions of distance and velocity; other rows as with soft
  pb_contactMethodCount
} pbContactMethod;

typedef enum pbContactOrder { pb_orderGaussSeidel, pb_orderJacobi } pbContactOrder;

typedef enum pbContactMixing {
  pb_mixingMaximum,
  pb_mixingMean,
  pb_mixingProduct,
  pb_mixingMinimum,
  pb_mixingGeometric
} pbContactMixing;

// Of method impact. Newton's: the normal velocity after is -e times that before. Capped: -e' times that, e' <= e the one at which the
// impact leaves the kinetic energy as it was, where Newton's with friction would make some; else e.
typedef enum pbRestitutionLaw { pb_restitutionNewton, pb_restitutionCapped } pbRestitutionLaw;

// Times of impacts and events follow the motion of mocap bodies either way.
typedef enum pbMocapMotion { pb_mocapIgnored, pb_mocapFollowed } pbMocapMotion;

typedef struct pbContactSettings {
  pbContactMethod method;
  double kappa, onset;
  double erp, cfm;  // negative: off
  double sweeps, omega;
  pbContactOrder order;
  pbContactMixing mixing;
  double smooth_kappa, smooth_onset;
  double width, slip;
  pbRestitutionLaw restitution_law;
  pbMocapMotion mocap_motion;
} pbContactSettings;

PB_API pbContactSettings pbModel_ContactSettings(const pbModel *model);
// Settings in order, for listing: false past the last. text: its value as pbModel_SetContact reads it.
PB_API bool pbModel_ContactSettingAt(const pbModel *model, int index, const char **name, char *text, size_t size);
// Set one by its name and value as text, like pbModel_SetOption. Before scratches and rollouts are created: those that
// exist are refused afterwards (restitution, stiffness and damping are parameters, and change only the defaults). pb_bad_argument with
// the reason and, for unknown names, the nearest one.
PB_API PB_NODISCARD pbStatus pbModel_SetContact(pbModel *model, const char *name, const char *value);

// Penalty contacts are springs that the step takes explicitly: from about this time step on they ring up. The shortest over the
// pairs of geoms that may touch, each with all contacts it can make, by the masses at the bodies (body_invweight0); geoms: whose,
// may be NULL. INFINITY with other methods.
PB_API double pbModel_ContactTimestep(const pbModel *model, const double *theta, int geoms[2]);

#ifdef __cplusplus
}
#endif
#endif
