// Columns of a CSV by their names. Every number of a model has some: "qpos:knee" and "knee", "body:tip.x", "tip.x" and "tip:0".
// Tests: tests/unit/test_columns.c.
#include "io/trajectory/columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <pullback/sensors.h>

#include "base/assert.h"
#include "base/suggest.h"
#include "model/joint.h"
#include "model/model.h"
#include "optimize/task.h"

_Static_assert((int)pb_columnControl == (int)pb_observedControl && (int)pb_columnQpos == (int)pb_observedQpos, "of one order");

static const char *const words[pb_columnKinds] = {"qpos",   "qvel",           "act",     "sensor",    "body",       "site",
                                                  "points", "point_velocity", "control", "mocap_pos", "mocap_quat", "mocap_vel"};
static const pbObject objects[pb_columnKinds] = {pb_objJoint, pb_objJoint, pb_objActuator, pb_objSensor, pb_objBody, pb_objSite,
                                                 pb_objPoint, pb_objPoint, pb_objActuator, pb_objBody,   pb_objBody, pb_objBody};
static const char *const object_words[pb_columnKinds] = {"joint", "joint", "actuator", "sensor",     "body",       "site",
                                                         "point", "point", "actuator", "mocap body", "mocap body", "mocap body"};
static const char *const axes[] = {"x", "y", "z"}, *const quaternion[] = {"w", "x", "y", "z"};
static const char *const turns[] = {"qw", "qx", "qy", "qz"};  // of what has a place, too
static const char *const motion[] = {"vx", "vy", "vz", "wx", "wy", "wz"};

// ---- numbers of a model -----------------------------------------------------------------------------------------------
// The last of so many addresses that is not beyond a number, of things that have numbers.
static int owner_of(const int *address, int count, int number) {
  int owner = -1;

  // the last of those that begin at one place: what has no numbers takes none
  for (int i = 0; i < count; i++) {
    if (address[i] >= 0 && address[i] <= number && (owner < 0 || address[i] >= address[owner])) owner = i;
  }
  return owner;
}

static void describe_position(const pbModel *m, int number, pbColumn *c) {
  int j = c->object = owner_of(m->jnt_qposadr, m->njnt, number), type = m->jnt_type[j], plain = pbJoint_PlainCount(type);
  c->index = number - m->jnt_qposadr[j];
  c->count = pbJoint_PositionCount(type);

  // the quaternion comes behind what moves by adding
  c->unit = pbJoint_IsAngle(type) ? "rad" : "m";
  if (c->index >= plain) c->unit = "1";
  if (pbJoint_HasRotation(type)) c->part = c->index < plain ? axes[c->index] : turns[c->index - plain];
}

static void describe_velocity(const pbModel *m, int number, pbColumn *c) {
  int j = c->object = owner_of(m->jnt_dofadr, m->njnt, number), type = m->jnt_type[j], plain = pbJoint_PlainCount(type);
  c->index = number - m->jnt_dofadr[j];
  c->count = pbJoint_DofCount(type);

  // likewise the angular ones
  c->unit = c->index < plain && !pbJoint_IsAngle(type) ? "m/s" : "rad/s";
  if (pbJoint_HasRotation(type)) c->part = motion[c->index < plain ? c->index : 3 + c->index - plain];
}

static bool of_hinge(const pbModel *m, int sensor) { return pbJoint_IsAngle(m->jnt_type[m->sensor_objid[sensor]]); }

// What a sensor's numbers are in; NULL: that depends on more than its type.
static const char *sensor_unit(const pbModel *m, int i) {
  switch (m->sensor_type[i]) {
    case pb_sensJointpos: return of_hinge(m, i) ? "rad" : "m";
    case pb_sensJointvel: return of_hinge(m, i) ? "rad/s" : "m/s";
    case pb_sensJointactuatorfrc:
    case pb_sensJointlimitfrc: return of_hinge(m, i) ? "N m" : "N";
    case pb_sensAccelerometer:
    case pb_sensFramelinacc: return "m/s^2";
    case pb_sensFrameangacc: return "rad/s^2";
    case pb_sensVelocimeter:
    case pb_sensFramelinvel:
    case pb_sensSubtreelinvel: return "m/s";
    case pb_sensGyro:
    case pb_sensBallangvel:
    case pb_sensFrameangvel: return "rad/s";
    case pb_sensTouch:
    case pb_sensForce: return "N";
    case pb_sensTorque:
    case pb_sensPotential:
    case pb_sensKinetic: return "N m";
    case pb_sensFramepos:
    case pb_sensSubtreecom:
    case pb_sensDistance:
    case pb_sensFromto: return "m";
    case pb_sensMagnetometer: return "T";
    case pb_sensSubtreeangmom: return "kg m^2/s";
    case pb_sensClock: return "s";
    case pb_sensBallquat:
    case pb_sensFramequat:
    case pb_sensFramexaxis:
    case pb_sensFrameyaxis:
    case pb_sensFramezaxis:
    case pb_sensNormal: return "1";
    default: return NULL;
  }
}

static void describe_sensor(const pbModel *m, int number, pbColumn *c) {
  int i = c->object = owner_of(m->sensor_adr, m->nsensor, number);

  c->index = number - m->sensor_adr[i];
  c->count = m->sensor_dim[i];
  c->unit = sensor_unit(m, i);

  // vectors and quaternions have letters
  if (c->count == 3) c->part = axes[c->index];
  if (c->count == 4) c->part = quaternion[c->index];
}

// So many numbers a thing, with names of their own.
static void describe_parts(int number, int count, const char *const *parts, const char *unit, pbColumn *c) {
  c->object = number / count;
  c->index = number % count;
  c->count = count;
  c->part = parts[c->index];
  c->unit = unit;
}

static void describe_motion(int number, pbColumn *c) { describe_parts(number, 6, motion, number % 6 < 3 ? "m/s" : "rad/s", c); }

static void describe_number(const pbModel *m, int number, pbColumn *c) {
  switch (c->kind) {
    case pb_columnQpos: describe_position(m, number, c); return;
    case pb_columnQvel: describe_velocity(m, number, c); return;
    case pb_columnSensor: describe_sensor(m, number, c); return;
    case pb_columnAct:
      c->object = owner_of(m->actuator_actadr, m->nu, number);
      c->index = number - m->actuator_actadr[c->object];
      c->count = m->actuator_actnum[c->object];
      return;
    case pb_columnPointVelocity: describe_parts(number, 3, axes, "m/s", c); return;
    case pb_columnMocapQuat: describe_parts(number, 4, turns, "1", c); return;
    case pb_columnMocapVel: describe_motion(number, c); return;
    case pb_columnControl: c->object = number; return;
    default: describe_parts(number, 3, axes, "m", c); return;
  }
}

static bool of_mocap(pbRecordedKind kind) { return kind >= pb_columnMocapPos && kind <= pb_columnMocapVel; }

pbColumn pbColumn_Of(const pbModel *m, pbRecordedKind kind, int number) {
  pbColumn c = {.kind = kind, .count = 1, .part = ""};
  PB_ASSERT(number >= 0 && number < pbColumn_Count(m, kind));
  describe_number(m, number, &c);

  // mocap bodies are bodies; points have no names
  if (of_mocap(kind)) c.object = pbModel_MocapBody(m, c.object);
  const char *name = objects[kind] == pb_objPoint ? NULL : pbModel_Name(m, objects[kind], c.object);
  c.name = name ? name : "";
  return c;
}

int pbColumn_Count(const pbModel *m, pbRecordedKind kind) {
  const int counts[pb_columnKinds] = {m->nq,
                                      m->nv,
                                      m->na,
                                      m->nsensordata,
                                      3 * m->nbody,
                                      3 * m->nsite,
                                      3 * pbModel_PointCount(m),
                                      3 * pbModel_PointCount(m),
                                      pb_controls(m),
                                      3 * m->nmocap,
                                      4 * m->nmocap,
                                      6 * m->nmocap};
  return counts[kind];
}

// ---- names ------------------------------------------------------------------------------------------------------------
enum { WITH_WORD = 3, NAMES = 6 };

// One of the names that a number may go by, the surest first; false: it has none such.
static bool name_at(const pbColumn *c, int which, char *text) {
  char object[PB_COLUMN_NAME / 2], word[32] = "";

  // what has no name goes by its number
  if (*c->name) snprintf(object, sizeof object, "%.110s", c->name);
  else snprintf(object, sizeof object, "%d", c->object);

  // a number alone names nothing
  if (which < WITH_WORD) snprintf(word, sizeof word, "%s:", words[c->kind]);
  else if (!*c->name) return false;

  switch (which % WITH_WORD) {
    case 0: snprintf(text, PB_COLUMN_NAME, "%s%s", word, object); return c->count == 1;
    case 1: snprintf(text, PB_COLUMN_NAME, "%s%s.%s", word, object, c->part); return c->part[0] != 0;
    default: snprintf(text, PB_COLUMN_NAME, "%s%s:%d", word, object, c->index); return true;
  }
}

// Whether a name without a word can be this number: positions go by the name of their joint, velocities only by letters of their
// own, or with a unit that only they have.
static bool may_be_bare(const pbColumn *c, int which, bool certain, const pbUnit *unit) {
  bool of_path = c->kind == pb_columnMocapQuat || c->kind == pb_columnMocapVel;
  if (certain) return !of_path || which == WITH_WORD + 1;
  if (c->kind == pb_columnAct || c->kind >= pb_columnPoints) return c->kind == pb_columnControl;
  if (c->kind != pb_columnQvel) return true;
  return which == WITH_WORD + 1 || (unit->stated && pbUnit_Fits(unit, c->unit));
}

// ---- names of several things ------------------------------------------------------------------------------------------
// The number of an object of another kind that a name without a word is, too; false: there is none.
static bool other_number(const pbModel *m, pbRecordedKind kind, const pbColumn *c, const char *bare, pbColumn *other) {
  int id = pbModel_Id(m, objects[kind], c->name), first = -1;
  if (id < 0) return false;

  if (kind == pb_columnQpos) first = m->jnt_qposadr[id];
  if (kind == pb_columnSensor) first = m->sensor_adr[id];
  if (kind == pb_columnBody || kind == pb_columnSite) first = 3 * id;
  if (first < 0) return false;

  // by any of its names
  int count = pbColumn_Of(m, kind, first).count;
  for (int i = 0; i < count; i++) {
    char text[PB_COLUMN_NAME];
    *other = pbColumn_Of(m, kind, first + i);
    for (int which = WITH_WORD; which < NAMES; which++) {
      if (name_at(other, which, text) && strcmp(text, bare) == 0) return true;
    }
  }
  return false;
}

// Where a free joint is there is its body: one number, whichever is meant.
static bool is_same(const pbModel *m, const pbColumn *a, const pbColumn *b) {
  const pbColumn *joint = a->kind == pb_columnQpos ? a : b, *body = joint == a ? b : a;
  return joint->kind == pb_columnQpos && body->kind == pb_columnBody && pbJoint_DofCount(m->jnt_type[joint->object]) == 6 &&
         m->jnt_bodyid[joint->object] == body->object && joint->index == body->index;
}

static pbStatus check_meaning(pbContext *ctx, const pbModel *m, const pbArrays *set, const pbArray *column, const pbColumn *c) {
  static const pbRecordedKind others[] = {pb_columnQpos, pb_columnSensor, pb_columnBody, pb_columnSite};
  const pbUnit *unit = pbArrays_UnitOf(set, column);
  char place[PB_COLUMN_NAME + 400];

  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    pbColumn other;
    if (others[i] == c->kind || !other_number(m, others[i], c, column->name, &other)) continue;

    if (is_same(m, c, &other)) continue;

    // of a unit that only one of both has it is that
    if (unit->stated && other.unit && !pbUnit_Fits(unit, other.unit)) continue;
    return pbContext_Fail(
        ctx, pb_bad_input,
        "%s: %s and %s have this name; expected '%s:%s' or '%s:%s' in the header, or \"columns\" that say which",
        pbArrays_Place(set, column, SIZE_MAX, place, sizeof place), object_words[c->kind], object_words[other.kind],
        words[c->kind], column->name, words[other.kind], column->name);
  }
  return pb_ok;
}

// ---- columns ----------------------------------------------------------------------------------------------------------
pbStatus pbColumn_CheckUnit(pbContext *ctx, const pbArrays *set, const pbArray *column, const pbColumn *c) {
  const pbUnit *unit = pbArrays_UnitOf(set, column);
  char place[PB_COLUMN_NAME + 400], text[PB_UNIT_TEXT];
  if (!c->unit || pbUnit_Fits(unit, c->unit)) return pb_ok;

  return pbContext_Fail(ctx, pb_bad_input, "%s: units do not fit: the column is in %s, %s of %s '%.80s' in %s",
                        pbArrays_Place(set, column, SIZE_MAX, place, sizeof place), pbUnit_Text(unit, text, sizeof text),
                        words[c->kind], object_words[c->kind], c->name, c->unit);
}

pbStatus pbColumn_Find(pbContext *ctx, const pbModel *m, const pbArrays *set, const pbColumn *c, bool certain,
                       const pbArray **column) {
  char text[PB_COLUMN_NAME];
  *column = NULL;

  for (int which = 0; which < NAMES; which++) {
    const pbArray *found = name_at(c, which, text) ? pbArrays_Find(set, text) : NULL;
    if (!found || (which >= WITH_WORD && !may_be_bare(c, which, certain, pbArrays_UnitOf(set, found)))) continue;

    // with a word in front it can be nothing else
    if (which >= WITH_WORD && !certain) PB_TRY(check_meaning(ctx, m, set, found, c));
    PB_TRY(pbColumn_CheckUnit(ctx, set, found, c));
    *column = found;
    return pb_ok;
  }
  return pb_ok;
}

char *pbColumn_List(const pbArrays *set, char *text, size_t size) {
  size_t used = 0, count = pbArrays_Count(set);
  text[0] = 0;

  // as many as there is room for
  for (size_t i = 0; i < count; i++) {
    const char *name = pbArrays_At(set, i)->name;
    if (used + strlen(name) + 8 > size) {
      snprintf(text + used, size - used, ", ...");
      return text;
    }
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
  }
  return text;
}

pbStatus pbColumn_Missing(pbContext *ctx, const pbArrays *set, const pbColumn *c, bool certain) {
  char looked[4 * PB_COLUMN_NAME] = "", text[PB_COLUMN_NAME], list[600], hint[200];
  size_t used = 0;

  // the names that would have done
  pbSuggest near = pbSuggest_For(*c->name ? c->name : words[c->kind]);
  for (int which = 0; which < NAMES; which++) {
    if (!name_at(c, which, text) || (which >= WITH_WORD && !may_be_bare(c, which, certain, &(pbUnit){0}))) continue;
    if (used < sizeof looked) used += (size_t)snprintf(looked + used, sizeof looked - used, "%s'%s'", used ? ", " : "", text);
  }
  for (size_t i = 0; i < pbArrays_Count(set); i++) pbSuggest_Offer(&near, pbArrays_At(set, i)->name);

  return pbContext_Fail(ctx, pb_bad_input, "%s: no column is the %s of %s '%.80s': looked for %s; its columns are %s%s",
                        pbArrays_Csv(set)->file, words[c->kind], object_words[c->kind], c->name, looked,
                        pbColumn_List(set, list, sizeof list), pbSuggest_Write(&near, hint, sizeof hint));
}

// ---- times ------------------------------------------------------------------------------------------------------------
static pbStatus check_times(pbContext *ctx, const pbArrays *set, const pbArray *time) {
  char place[PB_COLUMN_NAME + 400];

  for (size_t i = 0; i < time->count; i++) {
    double t = time->reals[i];
    if (isfinite(t) && (i == 0 || t > time->reals[i - 1])) continue;

    pbArrays_Place(set, time, i, place, sizeof place);
    if (!isfinite(t)) return pbContext_Fail(ctx, pb_bad_input, "%s: a row without a time", place);
    return pbContext_Fail(ctx, pb_bad_input, "%s: %.12g s is not later than the row before it, of %.12g s", place, t,
                          time->reals[i - 1]);
  }
  return pb_ok;
}

static bool ascends(const pbArray *a) {
  for (size_t i = 0; i < a->count; i++) {
    if (!isfinite(a->reals[i]) || (i > 0 && !(a->reals[i] > a->reals[i - 1]))) return false;
  }
  return true;
}

// Where no name is given: a column that is called so, else the only one that ascends in a unit of time; NULL: there is none.
static const pbArray *guess_time(const pbArrays *set) {
  static const char *const names[] = {"time", "t", "timestamp"};
  const pbArray *only = NULL;
  int others = 0;

  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    for (size_t i = 0; i < pbArrays_Count(set); i++) {
      const pbArray *a = pbArrays_At(set, i);
      bool fits = pbUnit_Fits(pbArrays_UnitOf(set, a), "s");

      // "time" in another unit is a mistake, "t" may be something else
      if (strcasecmp(a->name, names[k]) == 0 && (fits || k == 0)) return a;
      if (k > 0 || !fits || !pbArrays_UnitOf(set, a)->stated || !ascends(a)) continue;
      only = a;
      others++;
    }
  }
  return others == 1 ? only : NULL;
}

pbStatus pbColumn_Time(pbContext *ctx, const pbArrays *set, const char *name, const pbArray **time) {
  char place[PB_COLUMN_NAME + 400], list[600], unit[PB_UNIT_TEXT];
  const pbArray *found = name ? pbArrays_Find(set, name) : guess_time(set);

  // rows are steps, where none is asked for
  *time = found;
  if (!found && !name) return pb_ok;
  if (!found)
    return pbContext_Fail(ctx, pb_bad_input, "%s: has no column '%.80s'; its columns are %s", pbArrays_Csv(set)->file, name,
                          pbColumn_List(set, list, sizeof list));

  if (!pbUnit_Fits(pbArrays_UnitOf(set, found), "s"))
    return pbContext_Fail(ctx, pb_bad_input, "%s: units do not fit: times are in s, the column is in %s",
                          pbArrays_Place(set, found, SIZE_MAX, place, sizeof place),
                          pbUnit_Text(pbArrays_UnitOf(set, found), unit, sizeof unit));
  return check_times(ctx, set, found);
}
