// What is beside the tree of an MJCF file that is written: contacts, equalities, tendons, actuators, sensors, keyframes, custom
// data.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <stdio.h>
#include <string.h>

#include <pullback/equalities.h>
#include <pullback/sensors.h>

#include "base/assert.h"
#include "io/mjcf/mjcf_reader.h"
#include "io/mjcf/mjcf_write.h"
#include "model/equality.h"
#include "model/sensor.h"

static void open_section(pbMjcfWriter *w, const char *name) {
  pbMjcf_OpenElement(w, name);
  pbMjcf_EndAttributes(w, true);
}

static void put_name(pbMjcfWriter *w, const char *attribute, const char *name) {
  if (name && *name) pbMjcf_PutText(w, attribute, name);
}

static void warn_own(pbMjcfWriter *w, bool own, const char *kind, const char *name, const char *word) {
  if (own) fprintf(w->unsaid, "%s '%s' (%s): MuJoCo does not have it\n", kind, name, word);
}

// ---- contacts, equalities -----------------------------------------------------------------------------------------------
void pbMjcf_WriteContacts(pbMjcfWriter *w) {
  const pbSpec *s = w->spec;
  pbPairDef pair = pbPairDef_Default();
  pbExcludeDef exclude = pbExcludeDef_Default();

  if (!s->npair && !s->nexclude) return;

  // Without pairs and excludes there is no section.
  open_section(w, "contact");

  for (int i = 0; i < s->npair; i++) {
    pbMjcf_OpenElement(w, "pair");
    pbMjcf_PutRows(w, "contact/pair", &s->pairs[i], &pair, NULL);
    pbMjcf_EndAttributes(w, false);
  }

  for (int i = 0; i < s->nexclude; i++) {
    pbMjcf_OpenElement(w, "exclude");
    pbMjcf_PutRows(w, "contact/exclude", &s->excludes[i], &exclude, NULL);
    pbMjcf_EndAttributes(w, false);
  }

  pbMjcf_CloseElement(w, "contact");
}

static void write_equality(pbMjcfWriter *w, const pbEqualityDef *def) {
  pbEqualityDef none = pbEqualityDef_Default();
  const pbEqualityRow *row = pbEquality_Row(def->type);

  PB_ASSERT(row);
  char path[64];
  bool ends = pbEquality_HasEnds(def->type);
  warn_own(w, def->type >= PB_EQUALITY_OURS, "equality", def->name, row->word);

  // Two bodies need the anchor of a connect, also where it is the default one; two sites bring their own.
  none.relpose[1] = row->of == pb_ofPoses;
  snprintf(path, sizeof path, "equality/%s", row->word);
  pbMjcf_OpenElement(w, row->word);
  pbMjcf_PutRows(w, path, def, &none, " anchor ");

  if (ends) {
    put_name(w, def->sites ? "site1" : "body1", def->name1);
    put_name(w, def->sites ? "site2" : "body2", def->name2);
    if (!def->sites) pbMjcf_PutReals(w, "anchor", def->anchor, 3);
  }
  pbMjcf_EndAttributes(w, false);
}

void pbMjcf_WriteEqualities(pbMjcfWriter *w) {
  if (!w->spec->nequality) return;
  open_section(w, "equality");

  for (int i = 0; i < w->spec->nequality; i++) write_equality(w, &w->spec->equalities[i]);
  pbMjcf_CloseElement(w, "equality");
}

// ---- tendons ------------------------------------------------------------------------------------------------------------
static void write_station(pbMjcfWriter *w, const pbWrap *station) {
  static const char *const words[] = {[pb_wrapJoint] = "joint",
                                      [pb_wrapPulley] = "pulley",
                                      [pb_wrapSite] = "site",
                                      [pb_wrapSphere] = "geom",
                                      [pb_wrapCylinder] = "geom"};
  const char *word = words[station->type];
  PB_ASSERT(word);

  // The attribute is named like the element.
  pbMjcf_OpenElement(w, word);
  if (station->type == pb_wrapPulley) pbMjcf_PutReals(w, "divisor", &station->value, 1);
  else pbMjcf_PutText(w, word, station->target);
  if (station->type == pb_wrapJoint) pbMjcf_PutReals(w, "coef", &station->value, 1);
  if (!strcmp(word, "geom")) put_name(w, "sidesite", station->sidesite);
  pbMjcf_EndAttributes(w, false);
}

static void write_tendon(pbMjcfWriter *w, const pbTendonDef *def) {
  pbTendonDef none = pbTendonDef_Default();
  const char *word = def->spatial ? "spatial" : "fixed";

  pbMjcf_OpenElement(w, word);
  pbMjcf_PutRows(w, def->spatial ? "tendon/spatial" : "tendon/fixed", def, &none, NULL);
  if (def->springlength[0] != none.springlength[0] || def->springlength[1] != none.springlength[1])
    pbMjcf_PutReals(w, "springlength", def->springlength, 2);

  // The path, station by station.
  pbMjcf_EndAttributes(w, true);
  for (int i = 0; i < def->path_count; i++) write_station(w, &def->path[i]);
  pbMjcf_CloseElement(w, word);
}

void pbMjcf_WriteTendons(pbMjcfWriter *w) {
  if (!w->spec->ntendon) return;
  open_section(w, "tendon");

  for (int i = 0; i < w->spec->ntendon; i++) write_tendon(w, &w->spec->tendons[i]);
  pbMjcf_CloseElement(w, "tendon");
}

// ---- actuators ----------------------------------------------------------------------------------------------------------
static void write_actuator(pbMjcfWriter *w, const pbActuatorDef *def) {
  static const char *const words[] = {
#define X(name, value, word, law) [name] = word,
      PB_TRANSMISSIONS(X)
#undef X
  };
  pbActuatorDef none = pbActuatorDef_Default();
  bool own = def->trntype >= PB_ACTUATOR_OURS || def->gaintype >= PB_ACTUATOR_OURS || def->biastype >= PB_ACTUATOR_OURS ||
             def->dyntype >= PB_ACTUATOR_OURS;
  warn_own(w, own, "actuator", def->name, words[def->trntype]);

  // In the most general form, whatever element it was.
  pbMjcf_OpenElement(w, "general");
  pbMjcf_PutRows(w, "actuator/general", def, &none, " refsite slidersite ");
  put_name(w, words[def->trntype], def->target);
  put_name(w, def->trntype == pb_trnSliderCrank ? "slidersite" : "refsite", def->refsite);
  pbMjcf_EndAttributes(w, false);
}

void pbMjcf_WriteActuators(pbMjcfWriter *w) {
  if (!w->spec->nactuator) return;
  open_section(w, "actuator");

  for (int i = 0; i < w->spec->nactuator; i++) write_actuator(w, &w->spec->actuators[i]);
  pbMjcf_CloseElement(w, "actuator");
}

// ---- sensors ------------------------------------------------------------------------------------------------------------
#define X(name, bit, word, size) [bit] = word,
static const char *const ray_words[] = {PB_RAY_DATA(X)};
static const char *const contact_words[] = {PB_CONTACT_DATA(X)};
#undef X

static void put_data(pbMjcfWriter *w, const char *const *words, int count, int data) {
  if (!data) return;
  const char *between = "";

  fputs(" data=\"", w->out);
  for (int i = 0; i < count; i++) {
    if (!(data & 1 << i)) continue;
    fprintf(w->out, "%s%s", between, words[i]);
    between = " ";
  }
  fputc('"', w->out);
}

static const char *word_of(int kind, bool contact) {
  switch (kind) {
    case pb_refBody: return "body";
    case pb_refXbody: return contact ? "subtree" : "body";
    case pb_refGeom: return "geom";
    case pb_refSite: return "site";
    default: return "camera";
  }
}

// Ends that may be of several kinds: one attribute for each, with a number where there are two of the kind.
static void put_ends(pbMjcfWriter *w, const pbSensorDef *def, const pbSensorRow *row) {
  bool contact = row->of == pb_ofContact, numbered = contact || row->of == pb_ofShapes;
  char first[32], second[32];

  snprintf(first, sizeof first, "%s%s", word_of(def->objtype, contact), numbered && def->objtype != pb_refSite ? "1" : "");
  snprintf(second, sizeof second, "%s2", word_of(def->reftype, contact));

  // All contacts, or those of one side alone.
  if (def->objtype != pb_refNone) put_name(w, first, def->objname);
  if (numbered && def->reftype != pb_refNone) put_name(w, second, def->refname);
}

static void write_sensor(pbMjcfWriter *w, const pbSensorDef *def) {
  pbSensorDef none = pbSensorDef_Default();
  const pbSensorRow *row = pbSensor_Row(def->type);

  PB_ASSERT(row);
  bool ends = row->of == pb_ofShapes || row->of == pb_ofRay || row->of == pb_ofContact;
  char path[64];
  warn_own(w, def->type >= PB_SENSOR_OURS, "sensor", def->name, row->word);

  // Names of ends that may be of several kinds are code's.
  snprintf(path, sizeof path, "sensor/%s", row->word);
  pbMjcf_OpenElement(w, row->word);
  pbMjcf_PutRows(w, path, def, &none, ends ? " geom1 geom2 body1 body2 subtree1 subtree2 site camera " : NULL);
  if (ends) put_ends(w, def, row);

  if (row->of == pb_ofRay) put_data(w, ray_words, sizeof ray_words / sizeof *ray_words, def->data);
  if (row->of == pb_ofContact) put_data(w, contact_words, sizeof contact_words / sizeof *contact_words, def->data);
  pbMjcf_EndAttributes(w, false);
}

void pbMjcf_WriteSensors(pbMjcfWriter *w) {
  if (!w->spec->nsensor) return;
  open_section(w, "sensor");

  for (int i = 0; i < w->spec->nsensor; i++) write_sensor(w, &w->spec->sensors[i]);
  pbMjcf_CloseElement(w, "sensor");
}

// ---- keyframes, custom data ---------------------------------------------------------------------------------------------
void pbMjcf_WriteKeys(pbMjcfWriter *w) {
  pbKeyDef none = pbKeyDef_Default();

  if (!w->spec->nkey) return;

  open_section(w, "keyframe");

  for (int i = 0; i < w->spec->nkey; i++) {
    pbMjcf_OpenElement(w, "key");
    pbMjcf_PutRows(w, "keyframe/key", &w->spec->keys[i], &none, NULL);
    pbMjcf_EndAttributes(w, false);
  }

  pbMjcf_CloseElement(w, "keyframe");
}

static void write_tuple(pbMjcfWriter *w, const pbTupleDef *def) {
  pbMjcf_OpenElement(w, "tuple");
  pbMjcf_PutText(w, "name", def->name);
  pbMjcf_EndAttributes(w, true);

  for (int i = 0; i < def->count; i++) {
    const pbTupleEntry *entry = &def->entries[i];
    pbMjcf_OpenElement(w, "element");
    pbMjcf_PutText(w, "objtype", pbMjcf_ObjectWord(entry->objtype));
    pbMjcf_PutText(w, "objname", entry->objname);
    if (entry->prm != 0) pbMjcf_PutReals(w, "prm", &entry->prm, 1);
    pbMjcf_EndAttributes(w, false);
  }

  pbMjcf_CloseElement(w, "tuple");
}

void pbMjcf_WriteCustom(pbMjcfWriter *w) {
  const pbSpec *s = w->spec;
  pbNumericDef numeric = pbNumericDef_Default();

  if (!s->nnumeric && !s->ntext && !s->ntuple) return;

  open_section(w, "custom");

  for (int i = 0; i < s->nnumeric; i++) {
    pbMjcf_OpenElement(w, "numeric");
    pbMjcf_PutRows(w, "custom/numeric", &s->numerics[i], &numeric, NULL);
    pbMjcf_EndAttributes(w, false);
  }

  // Texts may be empty in a spec, and then stand there as such.
  for (int i = 0; i < s->ntext; i++) {
    pbMjcf_OpenElement(w, "text");
    pbMjcf_PutText(w, "name", s->texts[i].name);
    pbMjcf_PutText(w, "data", s->texts[i].data);
    pbMjcf_EndAttributes(w, false);
  }

  // Tuples last: they name the others.
  for (int i = 0; i < s->ntuple; i++) write_tuple(w, &s->tuples[i]);
  pbMjcf_CloseElement(w, "custom");
}
