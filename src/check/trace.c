// The check of a model's derivatives: the discrete events of a step, by which kinks are told from smooth motion.
// Tests: tests/oracle/test_check.py.
#include <math.h>

#include "check/check.h"
#include "elementary/elementary.h"

// Angle [rad] by which a path that meets its geom cannot turn at once.
static const double least_jump = 0.3;

const char pb_namelessKink[] = "a clamp, a tie or a change of feature in a contact";

pbStatus pbTrace_Of(const pbModel *model, pbScratch *scratch, pbTrace *trace) {
  pbReport report = pbScratch_Report(scratch);
  pbTrace t = {.contacts = report.contacts, .rows = report.rows, .active = 1469598103934665603u};
  const double *data = NULL;
  int rows = 0, cols = 0;
  PB_TRY(pbScratch_Gather(scratch));

  // FNV-1a over which rows carry a force
  if (pbScratch_Field(scratch, "efc_force", &data, &rows, &cols)) {
    for (int i = 0; i < rows * cols; i++) t.active = (t.active ^ (data[i] != 0 ? 2u : 1u)) * 1099511628211u;
  }

  if (pbScratch_Field(scratch, "contact_frame", &data, &rows, &cols)) {
    // weights without a pattern: normals that swap or cancel must not leave the sum as it was
    for (int i = 0; i < 3 * rows; i++) t.normals += pbCos(i + 1) * data[i / 3 * cols + i % 3];

    // contacts of bodies only: barriers of deformables come and go smoothly
    if (pbModel_ContactSettings(model).method != pb_contactImpact) t.contacts = rows;
  }

  // a path is straight, goes around in one sense or the other, or touches from inside
  t.ways = 1469598103934665603u;
  if (pbScratch_Field(scratch, "wrap_turn", &data, &rows, &cols)) {
    for (int i = 0; i < rows; i++) {
      t.ways = (t.ways ^ (uint64_t)((data[i] > 0) + 2 * (data[i] < 0) + 4 * isinf(data[i]))) * 1099511628211u;
      if (!isinf(data[i])) t.turns += pbCos(i + 1) * data[i];
    }
  }

  // what rays meet, the nearest pairs, and by which part
  t.looks = 1469598103934665603u;
  if (pbScratch_Field(scratch, "sensor_look", &data, &rows, &cols)) {
    for (int i = 0; i < rows * cols; i++) t.looks = (t.looks ^ (uint64_t)(int64_t)data[i]) * 1099511628211u;
  }
  *trace = t;
  return pb_ok;
}

// What a difference between two traces means.
const char *pbTrace_Kink(const pbTrace *a, const pbTrace *b) {
  if (a->contacts < b->contacts) return "contact onset";
  if (a->contacts > b->contacts) return "contact release";
  if (a->rows != b->rows) return "a limit or friction row that appears or goes";
  if (a->active != b->active) return "a constraint that starts or stops pushing";
  if (a->ways != b->ways) {
    bool jumps = fabs(a->turns - b->turns) > least_jump;
    return jumps ? "a tendon that jumps off its geom: an end crosses the ray opposite the side site"
                 : "a tendon that meets or leaves a geom";
  }
  if (a->looks != b->looks)
    return "a sensor that looks elsewhere: its ray crosses an edge, or another pair or feature is nearest";
  return pb_namelessKink;
}

bool pbTrace_Same(const pbTrace *a, const pbTrace *b) {
  return a->contacts == b->contacts && a->rows == b->rows && a->active == b->active && a->ways == b->ways && a->looks == b->looks;
}
