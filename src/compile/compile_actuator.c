// Actuators: their targets, ranges (stated, inherited or of the target), dynamics, and what must fit together.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "model/joint.h"
#include "model/motor.h"
#include "model/term_fields.h"

#define COPY(field, id, n, values) memcpy(m->field + (n) * (size_t)(id), values, (n) * sizeof(double))

typedef struct pbRanges {  // of one actuator, after inheritance
  double ctrl[2], act[2];
  bool ctrl_limited, force_limited, act_limited;
} pbRanges;

static int target_kind(const pbActuatorDef *d) {
  switch (d->trntype) {
    case pb_trnJoint:
    case pb_trnJointInParent: return pb_refJoint;
    case pb_trnTendon: return pb_refTendon;
    case pb_trnSliderCrank:
    case pb_trnSite: return pb_refSite;
    case pb_trnBody: return pb_refBody;
    default: return pb_refNone;
  }
}

// index: of the target in the spec; ids: of the target and of the reference site in the model (-1: none).
static pbStatus resolve_target(pbCompiler *c, const pbActuatorDef *d, int *index, int *ids) {
  int kind = target_kind(d);
  if (kind == pb_refNone) return PB_AT(c, d, "actuator", "a target (joint, tendon, site or body) is missing");
  PB_TRY(pbCompile_Resolve(c, kind, d->target, &d->place, "actuator", d->name, index));

  // The transmission of a site may be relative to another site, a crank has a slider.
  int reference = -1;
  bool crank = d->trntype == pb_trnSliderCrank, named = d->refsite && *d->refsite;
  bool referred = (d->trntype == pb_trnSite || crank) && named;
  if (crank && !named) return PB_AT(c, d, "actuator", "a slider-crank needs the site of its slider");
  if (crank && !(d->cranklength > 0 && isfinite(d->cranklength * d->cranklength)))
    return PB_AT(c, d, "actuator", "cranklength must be positive, and its square finite");
  if (referred) PB_TRY(pbCompile_Resolve(c, pb_refSite, d->refsite, &d->place, "actuator", d->name, &reference));

  ids[0] = pbCompile_Id(c, kind, *index);
  ids[1] = reference < 0 ? -1 : pbCompile_Id(c, pb_refSite, reference);
  return pb_ok;
}

// inheritrange: a servo (force = k (setpoint - length)) takes the range of what it moves, scaled about its middle.
static pbStatus inherit_range(pbCompiler *c, const pbActuatorDef *d, int target, pbRanges *r) {
  bool servo = d->gaintype == pb_gainFixed && d->biastype == pb_biasAffine && d->gainprm[0] == -d->biasprm[1];
  if (!(d->inheritrange > 0) || !servo) return pb_ok;

  // An integrated velocity is limited in its activation, a position in its control.
  double *range = d->dyntype == pb_dynIntegrator ? r->act : r->ctrl;
  if (d->dyntype == pb_dynFilter) return PB_AT(c, d, "actuator", "inheritrange is for position and intvelocity actuators");

  const double *from;
  if (d->trntype == pb_trnJoint) {
    if (pbJoint_HasRotation(c->spec->joints[target].type))
      return PB_AT(c, d, "actuator", "inheritrange needs a hinge or slide joint");
    from = c->joints[target].range;
  } else if (d->trntype == pb_trnTendon) {
    from = c->spec->tendons[target].range;
  } else {
    return PB_AT(c, d, "actuator", "inheritrange needs a joint or tendon as target");
  }

  if (from[0] == from[1]) return PB_AT(c, d, "actuator", "inheritrange is set, but '%s' has no range", d->target);

  // radius: half of the range, scaled
  double mean = 0.5 * (from[1] + from[0]);
  double radius = 0.5 * (from[1] - from[0]) * d->inheritrange;
  range[0] = mean - radius;
  range[1] = mean + radius;
  return pb_ok;
}

static pbStatus check_ranges(pbCompiler *c, const pbActuatorDef *d, pbRanges *r) {
  // Open limits follow from the ranges, inherited ones included.
  PB_TRY(pbCompile_Limited(c, &d->place, "actuator", d->name, "force", d->forcelimited, d->forcerange, &r->force_limited));
  PB_TRY(pbCompile_Limited(c, &d->place, "actuator", d->name, "ctrl", d->ctrllimited, r->ctrl, &r->ctrl_limited));
  PB_TRY(pbCompile_Limited(c, &d->place, "actuator", d->name, "act", d->actlimited, r->act, &r->act_limited));

  if (r->force_limited && d->forcerange[0] >= d->forcerange[1])
    return PB_AT(c, d, "actuator", "forcerange[0] must be smaller than forcerange[1]");

  if (r->ctrl_limited && r->ctrl[0] >= r->ctrl[1])
    return PB_AT(c, d, "actuator", "ctrlrange[0] must be smaller than ctrlrange[1]");
  if (r->act_limited && r->act[0] >= r->act[1]) return PB_AT(c, d, "actuator", "actrange[0] must be smaller than actrange[1]");

  // act follows the dynamics: without them there is nothing to limit.
  if (r->act_limited && d->dyntype == pb_dynNone)
    return PB_AT(c, d, "actuator", "actrange is given, but there is no activation (dyntype is none)");
  if (r->act_limited && d->dyntype == pb_dynDcmotor)
    return PB_AT(c, d, "actuator", "actrange is given; activations of a dcmotor have none");
  return pb_ok;
}

// What a muscle's curves need; prm: of its gain or bias.
static pbStatus check_muscle(pbCompiler *c, const pbActuatorDef *d, const double *prm) {
  if (prm[0] >= prm[1])
    return PB_AT(c, d, "actuator", "a muscle's range[0] must be smaller than range[1], found %g %g", prm[0], prm[1]);

  // Its curves by length and velocity.
  if (prm[4] >= 1 || prm[5] <= 1) return PB_AT(c, d, "actuator", "a muscle needs lmin < 1 < lmax, found %g %g", prm[4], prm[5]);
  if (prm[3] <= 0 || prm[6] <= 0 || prm[7] <= 0 || prm[8] <= 0)
    return PB_AT(c, d, "actuator", "scale, vmax, fpmax and fvmax of a muscle must be positive, found %g %g %g %g", prm[3], prm[6],
                 prm[7], prm[8]);
  return pb_ok;
}

// What a motor's numbers (bodies/actuators/dcmotor.c) must be; its controller asks for inputs that there are none of.
static pbStatus check_motor(pbCompiler *c, const pbActuatorDef *d) {
  const double *g = d->gainprm, *p = d->dynprm, *b = d->biasprm;
  if (!(g[0] > 0)) return PB_AT(c, d, "actuator", "the resistance of a dcmotor must be positive, found %g", g[0]);
  if (g[4] || g[5] || g[6] || g[7] || p[7] || p[8])
    return pbSpec_Fail(c->spec, pb_unsupported, &d->place, "actuator", d->name, "the controller of a dcmotor is not supported");
  if (p[2] > 0 && !(p[3] > 0))
    return PB_AT(c, d, "actuator", "the thermal capacitance of a dcmotor must be positive, found %g", p[3]);
  if (!d->actearly) return PB_AT(c, d, "actuator", "a dcmotor needs actearly");

  // Friction by bristles: the force at which they slip.
  if (p[5] > 0 && !(p[6] >= 0 && b[3] >= 0 && b[4] >= 0 && b[5] >= 0))
    return PB_AT(c, d, "actuator", "damping, coulomb, static and stribeck of lugre must not be negative, found %g %g %g %g", p[6],
                 b[3], b[4], b[5]);
  return pb_ok;
}

static pbStatus check_dynamics(pbCompiler *c, const pbActuatorDef *d) {
  int activations = pbActuatorDef_Activations(d);
  bool joint = d->trntype == pb_trnJoint || d->trntype == pb_trnJointInParent;
  bool reflects = joint || d->trntype == pb_trnTendon;

  if (d->actdim >= 0 && d->actdim != activations)
    return PB_AT(c, d, "actuator", "actdim is %d, but dyntype and dynprm ask for %d activations", d->actdim, activations);

  // Damping and armature act through the gear on a joint's or tendon's velocity; a site has none.
  if ((d->damping[0] || d->damping[1] || d->damping[2]) && !reflects)
    return PB_AT(c, d, "actuator", "damping needs a joint or tendon as target");
  if (d->armature && !reflects) return PB_AT(c, d, "actuator", "armature needs a joint or tendon as target");

  if (d->dyntype == pb_dynDcmotor) PB_TRY(check_motor(c, d));
  if (d->gaintype == pb_gainMuscle) PB_TRY(check_muscle(c, d, d->gainprm));
  if (d->biastype == pb_biasMuscle) PB_TRY(check_muscle(c, d, d->biasprm));
  return pb_ok;
}

static void store_numbers(pbModel *m, const pbActuatorDef *d, const pbRanges *r, int i) {
  COPY(actuator_gear, i, 6, d->gear);
  COPY(actuator_dynprm, i, 10, d->dynprm);
  COPY(actuator_gainprm, i, 10, d->gainprm);
  COPY(actuator_biasprm, i, 10, d->biasprm);
  COPY(actuator_ctrlrange, i, 2, r->ctrl);
  COPY(actuator_forcerange, i, 2, d->forcerange);
  COPY(actuator_actrange, i, 2, r->act);
  memcpy(PB_TERM_DEFAULT(m, actuator_lengthrange) + 2 * i, d->lengthrange, 2 * sizeof(double));
  COPY(actuator_dampingpoly, i, 2, d->damping + 1);

  // Linear coefficients have fields of their own.
  m->actuator_damping[i] = d->damping[0];
  m->actuator_armature[i] = d->armature;
  m->actuator_cranklength[i] = d->cranklength;
  m->actuator_history[2 * i] = d->nsample;
  m->actuator_history[2 * i + 1] = d->interp;
  if (m->nudelay) PB_TERM_DEFAULT(m, actuator_delay)[i] = d->delay;
  pbCompile_User(m->actuator_user + (size_t)m->nuser_actuator * (size_t)i, m->nuser_actuator, d->user);
}

static bool wraps(const pbTendonDef *d) {
  for (int i = 0; i < d->path_count; i++) {
    if (d->path[i].type >= pb_wrapSphere) return true;
  }

  return false;
}

pbStatus pbCompile_Actuators(pbCompiler *c) {
  pbModel *m = c->m;
  int adr = 0;
  for (int i = 0; i < m->nu; i++) {
    const pbActuatorDef *d = &c->spec->actuators[i];
    pbRanges r = {.ctrl = {d->ctrlrange[0], d->ctrlrange[1]}, .act = {d->actrange[0], d->actrange[1]}};
    int target;

    // Target, then ranges (which may be the target's), then what must fit together.
    PB_TRY(resolve_target(c, d, &target, m->actuator_trnid + 2 * i));
    PB_TRY(inherit_range(c, d, target, &r));
    PB_TRY(check_ranges(c, d, &r));
    PB_TRY(check_dynamics(c, d));

    // As MuJoCo: an inertia along such a path is not supported.
    if (d->armature && d->trntype == pb_trnTendon && wraps(c->spec->tendons + target))
      return PB_AT(c, d, "actuator", "a tendon that wraps around a geom cannot have armature");

    m->actuator_trntype[i] = d->trntype;
    m->actuator_dyntype[i] = d->dyntype;
    m->actuator_gaintype[i] = d->gaintype;
    m->actuator_biastype[i] = d->biastype;

    // In the order of the actuators.
    m->actuator_actnum[i] = pbActuatorDef_Activations(d);
    m->actuator_motor[i] = d->dyntype == pb_dynDcmotor ? pbMotor_States(d->dynprm) : 0;
    m->actuator_actadr[i] = m->actuator_actnum[i] ? adr : -1;
    adr += m->actuator_actnum[i];

    m->actuator_ctrllimited[i] = r.ctrl_limited;
    m->actuator_forcelimited[i] = r.force_limited;
    m->actuator_actlimited[i] = r.act_limited;
    m->actuator_actearly[i] = d->actearly;
    m->actuator_group[i] = d->group;

    store_numbers(m, d, &r, i);
  }
  PB_ASSERT(adr == m->na);
  return pb_ok;
}
