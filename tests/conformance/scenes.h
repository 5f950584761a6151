// A scene with every sensor of the engine's list (pullback/sensors.h), by what it is of, and every law of gain, bias and activation
// (pullback/actuators.h): a row that is added stands in it.
#ifndef PB_TEST_SCENES_H
#define PB_TEST_SCENES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pullback/actuators.h>
#include <pullback/sensors.h>

#define SCENE "conformance/lists.xml"

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

// Numbers that every law takes: those of a weak muscle.
#define LAW_PRM  "='.75 1.05 -1 2 .5 1.6 1.5 1.3 1.2'"
#define LAW_OPEN "<general joint='hinge' lengthrange='-.5 1.5' gainprm" LAW_PRM

// The name of a file with the scene, in a folder of temporary files; removed when the program ends.
static char scene_file[256];
static inline void remove_scene(void) { remove(scene_file); }

static inline void write_all(FILE *out, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++) fputs(words[i], out);
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

static inline const char *scene_of_lists(void) {
  if (scene_file[0]) return scene_file;

  char text[8192];
  FILE *in = fopen(SCENE, "r");
  size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
  text[n] = 0;
  const char *folder = getenv("TMPDIR");
  snprintf(scene_file, sizeof scene_file, "%s/pullback-lists-%d.xml", folder ? folder : "/tmp", (int)getpid());
  FILE *out = fopen(scene_file, "w");
  if (!in || !out) abort();
  fclose(in);

  write_scene(out, text);
  fclose(out);
  atexit(remove_scene);
  return scene_file;
}

#endif
