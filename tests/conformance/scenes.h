// Scenes with every entry of the engine's lists, where a row that is added stands, too: one with sensors (pullback/sensors.h), by
// what they are of, and laws of gain, bias and activation (pullback/actuators.h); one with equalities (pullback/equalities.h).
#ifndef PB_TEST_SCENES_H
#define PB_TEST_SCENES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pullback/actuators.h>
#include <pullback/contact.h>
#include <pullback/equalities.h>
#include <pullback/sensors.h>

#include "model/model.h"
#include "model/term_fields.h"

#define OF_Site          "site='imu'"
#define OF_SiteInCamera  "site='wrist' camera='eye'"
#define OF_ScalarJoint   "joint='hinge'"
#define OF_BallJoint     "joint='ball'"
#define OF_LimitedJoint  "joint='hinge'"
#define OF_Tendon        "tendon='cord'"
#define OF_LimitedTendon "tendon='cord'"
#define OF_Actuator      "actuator='drive'"
#define OF_Frame         "objtype='site' objname='wrist'"
#define OF_FrameInFrame  "objtype='geom' objname='hand' reftype='body' refname='trunk'"
#define OF_FrameInSite   "objtype='geom' objname='trunk' site='imu'"
#define OF_Body          "body='trunk'"
#define OF_Shapes        "geom1='hand' geom2='floor' cutoff='5'"
#define OF_Ray           "site='down' data='dist point normal'"
#define OF_Contact       "geom1='trunk' num='2' data='found force pos normal'"
#define OF_Nothing       ""

// Numbers that every law takes: those of a weak muscle, stretched enough to pull by itself.
#define LAW_PRM  "='.95 1.25 -1 2 .5 1.6 1.5 1.3 1.2'"
#define LAW_OPEN "<general joint='hinge' lengthrange='-.5 1.5' gainprm" LAW_PRM

#define TIES_Points  "body1='left' body2='right' anchor='.05 .02 -.1' solref='.2 1'"
#define TIES_Poses   "body1='right' body2='last' relpose='.1 0 .02 1 .1 .05 .02' torquescale='.7' solref='.2 1'"
#define TIES_Joints  "joint1='slide' joint2='swing' polycoef='.02 .3 .1 0 0' solref='.2 1'"
#define TIES_Tendons "tendon1='cord' tendon2='belt' polycoef='.01 .4 .2 0 0' solref='.2 1'"

// The names of files with the scenes, in a folder of temporary files; removed when the program ends.
enum { scene_most = 2 };
static char scene_file[scene_most][256];
static inline void remove_scenes(void) {
  for (int i = 0; i < scene_most; i++) {
    if (scene_file[i][0]) remove(scene_file[i]);
  }
}

// Motors stand in oracle/models/dcmotor.xml: they do not go with RK4, which these scenes are stepped by, too.
static inline void write_all(FILE *out, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!strstr(words[i], "dcmotor")) fputs(words[i], out);
  }
}

// The template, elements that are empty there by all of their kind.
static inline void write_scene(FILE *out, const char *text) {
  static const char *const sensors[] = {
#define X(enumerator, value, element, size, of, ...) "<" element " " OF_##of "/>\n",
      PB_SENSOR_TABLE(X)
#undef X
  };
  static const char *const actuators[] = {
#define X(name, value, word, law) LAW_OPEN " gaintype='" word "'/>\n",
      PB_GAINS(X)
#undef X
#define X(name, value, word, law) LAW_OPEN " biastype='" word "' biasprm" LAW_PRM "/>\n",
          PB_BIASES(X)
#undef X
#define X(name, value, word, law) LAW_OPEN " dyntype='" word "' dynprm='.02 .04 .1'/>\n",
              PB_DYNAMICS_KINDS(X)
#undef X
  };
  const char *actuator = strstr(text, "<actuator/>"), *sensor = strstr(text, "<sensor/>");
  if (!actuator || !sensor) abort();

  fprintf(out, "%.*s<actuator>\n", (int)(actuator - text), text);
  write_all(out, actuators, sizeof actuators / sizeof *actuators);
  fprintf(out, "</actuator><sensor>\n");
  write_all(out, sensors, sizeof sensors / sizeof *sensors);
  fprintf(out, "</sensor>%s", sensor + strlen("<sensor/>"));
}

static inline void write_equalities(FILE *out, const char *text) {
  static const char *const equalities[] = {
#define X(enumerator, value, element, of, ...) "<" element " " TIES_##of "/>\n",
      PB_EQUALITY_TABLE(X)
#undef X
  };
  const char *gap = strstr(text, "<equality/>");
  if (!gap) abort();

  fprintf(out, "%.*s<equality>\n", (int)(gap - text), text);
  write_all(out, equalities, sizeof equalities / sizeof *equalities);
  fprintf(out, "</equality>%s", gap + strlen("<equality/>"));
}

// conformance/NAME.xml as written.
static inline const char *scene_of(int scene, const char *name, void (*write)(FILE *out, const char *text)) {
  char *file = scene_file[scene], template[64], text[8192];
  if (file[0]) return file;

  snprintf(template, sizeof template, "conformance/%s.xml", name);
  FILE *in = fopen(template, "r");
  size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
  text[n] = 0;
  const char *folder = getenv("TMPDIR");
  snprintf(file, sizeof *scene_file, "%s/pullback-%s-%d.xml", folder ? folder : "/tmp", name, (int)getpid());
  FILE *out = fopen(file, "w");
  if (!in || !out) abort();
  fclose(in);

  write(out, text);
  fclose(out);
  atexit(remove_scenes);
  return file;
}

static inline const char *scene_of_lists(void) { return scene_of(0, "lists", write_scene); }
static inline const char *scene_of_equalities(void) { return scene_of(1, "equalities", write_equalities); }

// Friction by velocity and load (multibody/friction_law.h): of one dof all of it, of others a part, of others none.
static inline void give_laws(const pbModel *m, double *theta) {
  for (int i = 0; i < m->nv; i++) {
    double all = i % 4 == 0, size = 0.1 + 0.03 * (i % 5);
    if (i % 8 == 0) theta[m->dof_frictionloss - m->theta0 + i] = size;
    theta[PB_TERM_AT(m, dof_stiction) + i] = i % 4 < 2 ? size : 0;
    theta[PB_TERM_AT(m, dof_stribeck) + i] = 0.2 + size;
    theta[PB_TERM_AT(m, dof_stribeckpower) + i] = 1 + size;
    for (int k = 0; k < 2; k++) {
      theta[PB_TERM_AT(m, dof_frictionload) + 2 * i + k] = i % 4 == 3 ? 0.1 : all * (0.1 + 0.05 * k);
      theta[PB_TERM_AT(m, dof_stictionload) + 2 * i + k] = all * (0.2 - 0.05 * k);
      theta[PB_TERM_AT(m, dof_stictionquad) + 2 * i + k] = all * (0.3 + 0.1 * k);
    }
  }
}

// Models whose equalities contradict each other: made hard they fly apart, whatever solves them.
static inline bool contradicts(const char *file, const pbModel *m) {
  static const char *const names[] = {"rich.xml", "sensors_loads.xml", "tendon_spatial.xml"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strstr(file, names[i])) return pbModel_ContactSettings(m).method != pb_contactSoft;
  }
  return false;
}

#endif
