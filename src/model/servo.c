// Which actuators are servos (servo.h), and which can be.
// Tests: tests/unit/test_servo.c.
#include "model/servo.h"

#include <stdio.h>
#include <string.h>

#include <pullback/actuators.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"

// Does a limit besides its own hold the forces of what it moves? The range of a joint or tendon counts all its actuators.
static bool shares_limit(const pbModel *m, int u) {
  int id = m->actuator_trnid[2 * u];
  PB_ASSERT(u >= 0 && u < m->nu && id >= 0);

  // Sites have none.
  if (m->actuator_trntype[u] == pb_trnTendon) return m->tendon_actfrclimited[id];
  return m->jnt_actfrclimited[id];
}

// What keeps an actuator from being a servo; NULL: nothing.
static const char *missing(const pbModel *m, int u) {
  int type = m->actuator_trntype[u];
  if (type == pb_trnSite) return "moves a site; a servo moves a joint or a tendon";
  if (type == pb_trnSliderCrank || type == pb_trnBody) return "moves no joint or tendon; a servo does";
  if (m->actuator_gaintype[u] != pb_gainFixed) return "has a gain that is not fixed";
  if (m->actuator_biastype[u] != pb_biasAffine || !(m->actuator_biasprm[10 * u + 2] < 0))
    return "has no velocity in its force law: a servo is made of a position actuator with kv or dampratio, or of a velocity "
           "actuator (biasprm[2] < 0)";

  // Bounds of its force are those of its row.
  if (!m->actuator_forcelimited[u]) return "has no forcerange, which bounds the force of a servo";
  if (shares_limit(m, u)) return "moves a joint or tendon with an actuatorfrcrange; the force of a servo has its own range alone";
  return NULL;
}

static pbStatus refuse(pbModel *m, int u, const char *why) {
  const char *name = pbModel_Name(m, pb_objActuator, u);
  return pbContext_Fail(m->ctx, pb_bad_argument, "option servo: actuator %d '%.80s' %s", u, name ? name : "", why);
}

static pbStatus unknown(pbModel *m, const char *name) {
  pbSuggest near = pbSuggest_For(name);
  char hint[256];

  // Names that are near, of those there are.
  for (int u = 0; u < m->nu; u++) {
    const char *other = pbModel_Name(m, pb_objActuator, u);
    if (other) pbSuggest_Offer(&near, other);
  }
  return pbContext_Fail(m->ctx, pb_bad_argument, "option servo: there is no actuator '%.80s'%s", name,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

// All that can be; at least one.
static pbStatus take_all(pbModel *m, int *servo) {
  int count = 0;
  PB_ASSERT(servo != NULL);

  for (int u = 0; u < m->nu; u++) {
    servo[u] = !missing(m, u);
    count += servo[u];
  }

  // Why not one could: what the first lacks.
  if (count) return pb_ok;
  if (m->nu) return refuse(m, 0, missing(m, 0));
  return pbContext_Fail(m->ctx, pb_bad_argument, "option servo: the model has no actuators");
}

// The next of names separated by commas; false past the last.
static bool next_name(const char **rest, char *name, size_t size) {
  PB_ASSERT(size > 0);
  if (!*rest) return false;

  // A name that is too long is no actuator's.
  size_t length = strcspn(*rest, ",");
  if (length >= size) length = size - 1;
  memcpy(name, *rest, length);
  name[length] = 0;

  const char *comma = strchr(*rest, ',');
  *rest = comma ? comma + 1 : NULL;
  return true;
}

static pbStatus take_names(pbModel *m, const char *names, int *servo) {
  char name[256];

  // Each of them, or none at all.
  while (next_name(&names, name, sizeof name)) {
    int u = pbModel_Id(m, pb_objActuator, name);
    if (u < 0) return unknown(m, name);
    if (missing(m, u)) return refuse(m, u, missing(m, u));
    servo[u] = 1;
  }
  return pb_ok;
}

pbStatus pbModel_SetServos(pbModel *m, const char *names) {
  int *servo = pbContext_AllocArray(m->ctx, (size_t)m->nu + 1, sizeof *servo);
  if (!servo) return pbContext_Fail(m->ctx, pb_no_memory, "no memory for %d actuators", m->nu);
  memset(servo, 0, (size_t)m->nu * sizeof *servo);

  // Into the model once all of them are found to be right.
  pbStatus status = pb_ok;
  if (!strcmp(names, "all")) status = take_all(m, servo);
  else if (strcmp(names, "none") != 0) status = take_names(m, names, servo);

  if (status == pb_ok && m->nu) memcpy(m->actuator_servo, servo, (size_t)m->nu * sizeof *servo);

  pbContext_Free(m->ctx, servo);
  return status;
}

void pbModel_WriteServos(const pbModel *m, char *text, size_t size) {
  size_t used = 0;
  PB_ASSERT(size > 0);

  // As SetServos takes them.
  snprintf(text, size, "none");
  for (int u = 0; u < m->nu && used < size; u++) {
    const char *name = pbModel_Name(m, pb_objActuator, u);
    if (m->actuator_servo[u]) used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", name ? name : "");
  }
}

pbStatus pbModel_CheckServos(pbContext *ctx, const pbModel *m, const double *theta) {
  const double *bias = theta + (m->actuator_biasprm - m->theta0);
  PB_ASSERT(theta != NULL);

  for (int u = 0; u < m->nu; u++) {
    if (!m->actuator_servo[u] || bias[10 * u + 2] < 0) continue;

    // The velocity asked for would run away from the set-point.
    const char *name = pbModel_Name(m, pb_objActuator, u);
    return pbContext_Fail(ctx, pb_bad_argument,
                          "actuator_biasprm: entry 2 of actuator %d '%.80s' is %g; that of a servo must be negative", u,
                          name ? name : "", bias[10 * u + 2]);
  }
  return pb_ok;
}
