// A scene with every sensor of the engine's list (pullback/sensors.h), by what it is of: a row that is added stands in it.
#ifndef PB_TEST_SCENES_H
#define PB_TEST_SCENES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pullback/sensors.h>

#define SCENE_SENSORS "conformance/sensors.xml"

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

// The name of a file with the scene, in a folder of temporary files; removed when the program ends.
static char scene_file[256];
static inline void remove_scene(void) { remove(scene_file); }
static inline const char *scene_of_sensors(void) {
  static const char *const words[] = {
#define X(enumerator, value, element, size, of, ...) "<" element " " OF_##of "/>\n",
      PB_SENSOR_TABLE(X)
#undef X
  };
  if (scene_file[0]) return scene_file;

  char text[8192];
  FILE *in = fopen(SCENE_SENSORS, "r");
  size_t n = in ? fread(text, 1, sizeof text - 1, in) : 0;
  text[n] = 0;
  char *gap = strstr(text, "<sensor/>");
  const char *folder = getenv("TMPDIR");
  snprintf(scene_file, sizeof scene_file, "%s/pullback-sensors-%d.xml", folder ? folder : "/tmp", (int)getpid());
  FILE *out = fopen(scene_file, "w");
  if (!in || !gap || !out) abort();
  fclose(in);

  fprintf(out, "%.*s<sensor>\n", (int)(gap - text), text);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) fputs(words[i], out);
  fprintf(out, "</sensor>%s", gap + strlen("<sensor/>"));
  fclose(out);
  atexit(remove_scene);
  return scene_file;
}

#endif
