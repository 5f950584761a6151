// The members of a certificate by name: one table for files, the program and Python. Test: tests/unit/test_rollout.c.
#include <stddef.h>

#include "base/assert.h"
#include "rollout/rollout.h"

#define MEMBER(name, type, where) \
  { #name, type, offsetof(pbCertificate, name), where }
#define REAL(name)            MEMBER(name, pb_certificateReal, pb_certificateAlways)
#define INTEGER(name)         MEMBER(name, pb_certificateInteger, pb_certificateAlways)
#define COUNT(name)           MEMBER(name, pb_certificateCount, pb_certificateAlways)
#define BYTES(name)           MEMBER(name, pb_certificateBytes, pb_certificateAlways)
#define FLAG(name)            MEMBER(name, pb_certificateFlag, pb_certificateAlways)
#define TEXT(name)            MEMBER(name, pb_certificateText, pb_certificateAlways)
#define GEOMS(name)           MEMBER(name, pb_certificateGeoms, pb_certificateAlways)
#define COMPARED(name, type)  MEMBER(name, type, pb_certificateCompared)
#define TRUNCATED(name, type) MEMBER(name, type, pb_certificateTruncated)

static const pbCertificateMember members[] = {
    REAL(worst_residual),
    INTEGER(worst_residual_step),
    COUNT(unconverged),
    REAL(worst_condition),
    TEXT(worst_row),
    COUNT(onsets),
    COUNT(releases),
    COUNT(simultaneous),
    REAL(approach),
    COUNT(events),
    COUNT(grazing),
    INTEGER(event_step),
    INTEGER(grazing_step),
    INTEGER(simultaneous_step),
    TEXT(grazing_contact),
    TEXT(simultaneous_contact),
    COUNT(ties),
    INTEGER(tie_step),
    TEXT(tie_contact),
    COUNT(kinks),
    INTEGER(kink_step),
    TEXT(kink_element),
    INTEGER(most_contacts),
    INTEGER(most_rows),
    REAL(penetration),
    GEOMS(penetrating),
    INTEGER(penetration_step),
    COUNT(gains),
    REAL(gain),
    GEOMS(gaining),
    INTEGER(gain_step),
    REAL(costate_initial),
    REAL(costate_final),
    REAL(growth),
    REAL(growth_rate),
    REAL(costate_worst),
    INTEGER(costate_worst_step),
    COUNT(steps),
    COUNT(recomputed),
    BYTES(tape_bytes),
    BYTES(full_tape_bytes),
    FLAG(spot_checked),
    COMPARED(spot_gradient, pb_certificateReal),
    COMPARED(spot_difference, pb_certificateReal),
    COMPARED(spot_error, pb_certificateReal),
    COMPARED(spot_limit, pb_certificateReal),
    FLAG(spot_off),
    COMPARED(spot_step, pb_certificateInteger),
    COMPARED(spot_where, pb_certificateText),
    COMPARED(spot_row, pb_certificateText),
    INTEGER(spot_part),
    COUNT(spot_steps),
    COUNT(spot_quotients),
    COUNT(spot_left_out),
    COUNT(spot_left_kink),
    COUNT(spot_left_tie),
    COUNT(spot_left_noise),
    COUNT(spot_evaluations),
    REAL(spot_steps_share),
    REAL(spot_entries_share),
    INTEGER(spot_kink),
    INTEGER(spot_tie_step),
    TEXT(spot_tie),
    INTEGER(most_contacts_step),
    FLAG(truncated),
    TRUNCATED(decay, pb_certificateReal),
    TRUNCATED(window, pb_certificateReal),
    TRUNCATED(clip, pb_certificateReal),
    TRUNCATED(cuts, pb_certificateCount),
    TRUNCATED(clips, pb_certificateCount),
    TRUNCATED(clip_step, pb_certificateInteger),
    TRUNCATED(clip_most, pb_certificateReal),
};

const pbCertificateMember *pbCertificate_Members(int *count) {
  *count = (int)(sizeof members / sizeof *members);
  return members;
}

bool pbCertificate_Says(const pbCertificate *c, const pbCertificateMember *member) {
  PB_ASSERT(c && member && member->offset < sizeof *c);

  if (member->where == pb_certificateCompared) return c->spot_checked;
  return member->where != pb_certificateTruncated || c->truncated;
}
