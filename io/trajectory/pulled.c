// What an interrupted pullback had come to, and certificates, as arrays and back.
// Tests: tests/unit/test_pulled.c, tests/oracle/test_going_on.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/trajectory.h>

enum { NAME = 160, MEMBERS = 128 };
static const double most_integer = 2147483647, most_count = 9007199254740992;  // 2^53: a number that a double has exactly

static const char *name_of(const char *name, const char *part, char *to) {
  snprintf(to, NAME, "%s/%s", name, part);
  return to;
}

// ---- members of a certificate ---------------------------------------------------------------------------------------
// How many numbers a member is.
static int numbers_of(pbCertificateType type) {
  if (type == pb_certificateText) return 0;
  return type == pb_certificateGeoms ? 2 : 1;
}

static void get_numbers(const char *at, pbCertificateType type, double *to) {
  // counts are far from where doubles have gaps
  switch (type) {
    case pb_certificateReal: *to = *(const double *)at; break;
    case pb_certificateInteger: *to = *(const int *)at; break;
    case pb_certificateCount: *to = (double)*(const int64_t *)at; break;
    case pb_certificateBytes: *to = (double)*(const size_t *)at; break;
    case pb_certificateFlag: *to = *(const bool *)at; break;
    case pb_certificateGeoms:
      to[0] = ((const int *)at)[0];
      to[1] = ((const int *)at)[1];
      break;
    case pb_certificateText: break;
  }
}

static bool is_integer(double v) { return v >= -1 && v <= most_integer; }
static bool is_count(double v) { return v >= 0 && v <= most_count; }

// False where a forged file has another number than the member can hold.
static bool set_numbers(char *at, pbCertificateType type, const double *v) {
  // bounded before it is converted
  switch (type) {
    case pb_certificateReal: *(double *)at = *v; return true;
    case pb_certificateInteger:
      if (is_integer(*v)) *(int *)at = (int)*v;
      return is_integer(*v);
    case pb_certificateCount:
      if (is_count(*v)) *(int64_t *)at = (int64_t)*v;
      return is_count(*v);
    case pb_certificateBytes:
      if (is_count(*v)) *(size_t *)at = (size_t)*v;
      return is_count(*v);
    case pb_certificateFlag: *(bool *)at = *v != 0; return true;
    case pb_certificateGeoms:
      if (!is_integer(v[0]) || !is_integer(v[1])) return false;
      ((int *)at)[0] = (int)v[0];
      ((int *)at)[1] = (int)v[1];
      return true;
    case pb_certificateText: break;
  }
  return true;
}

pbStatus pbCertificate_Keep(const pbCertificate *c, const char *name, pbArrays *set) {
  int count;
  const pbCertificateMember *m = pbCertificate_Members(&count);
  double numbers[2 * MEMBERS];
  char key[NAME];
  size_t n = 0;

  // numbers in one array, each text in one of its own
  for (int i = 0; i < count && i < MEMBERS; i++) {
    const char *at = (const char *)c + m[i].offset;
    if (m[i].type == pb_certificateText) PB_TRY(pbArrays_AddText(set, name_of(name, m[i].name, key), at));
    get_numbers(at, m[i].type, numbers + n);
    n += (size_t)numbers_of(m[i].type);
  }
  return pbArrays_AddReals(set, name_of(name, "numbers", key), 1, &n, numbers, NULL);
}

// Bytes of a member that is a text: up to the next one at most, and none is longer than that.
static size_t room_of(const pbCertificateMember *member) {
#define ROOM(text) \
  { offsetof(pbCertificate, text), sizeof((pbCertificate *)0)->text }
  static const struct {
    size_t offset, size;
  } rooms[] = {ROOM(worst_row),   ROOM(grazing_contact), ROOM(simultaneous_contact),
               ROOM(tie_contact), ROOM(kink_element),    ROOM(spot_where),
               ROOM(spot_row),    ROOM(spot_tie)};
#undef ROOM

  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    if (rooms[i].offset == member->offset) return rooms[i].size;
  }
  return 0;
}

bool pbCertificate_Restore(pbCertificate *c, const char *name, const pbArrays *set) {
  int count;
  const pbCertificateMember *m = pbCertificate_Members(&count);
  char key[NAME];
  size_t all = 0;
  *c = (pbCertificate){0};
  for (int i = 0; i < count; i++) all += (size_t)numbers_of(m[i].type);

  const double *numbers = pbArrays_Reals(set, name_of(name, "numbers", key), all);
  if (!numbers) return false;

  for (int i = 0; i < count; i++) {
    bool is_text = m[i].type == pb_certificateText;
    char *at = (char *)c + m[i].offset;
    const pbArray *text = is_text ? pbArrays_Find(set, name_of(name, m[i].name, key)) : NULL;

    // one text, of any length
    if (is_text && (!text || text->type != pb_arrayText || text->count != 1)) return false;

    // a longer one is cut
    if (text) snprintf(at, room_of(&m[i]), "%s", text->text);
    else if (!set_numbers(at, m[i].type, numbers)) return false;

    numbers += numbers_of(m[i].type);
  }
  return true;
}

// ---- a pullback -----------------------------------------------------------------------------------------------------
pbStatus pbPulled_Keep(const pbPulled *p, int n, const char *name, pbArrays *set) {
  char key[NAME];
  double step = p->step;

  // the costate, and sums behind what is said of it
  PB_TRY(pbArrays_AddReals(set, name_of(name, "step", key), 1, (size_t[]){1}, &step, NULL));
  PB_TRY(pbArrays_AddReals(set, name_of(name, "costate", key), 1, (size_t[]){(size_t)n}, p->costate, NULL));
  PB_TRY(pbArrays_AddReals(set, name_of(name, "sums", key), 1, (size_t[]){PB_PULLED_NUMBERS}, p->numbers, NULL));
  return pbCertificate_Keep(&p->certificate, name_of(name, "certificate", key), set);
}

bool pbPulled_Restore(pbPulled *p, int n, const char *name, const pbArrays *set) {
  char key[NAME];
  const double *step = pbArrays_Reals(set, name_of(name, "step", key), 1);
  const double *costate = pbArrays_Reals(set, name_of(name, "costate", key), (size_t)n);
  const double *sums = pbArrays_Reals(set, name_of(name, "sums", key), PB_PULLED_NUMBERS);

  // nothing is taken where one of them is missing
  if (!step || !costate || !sums || !is_integer(*step)) return false;
  for (int i = 0; i < n; i++) {
    if (!isfinite(costate[i])) return false;
  }

  p->step = (int)*step;
  memcpy(p->costate, costate, (size_t)n * sizeof *costate);
  memcpy(p->numbers, sums, sizeof p->numbers);
  return pbCertificate_Restore(&p->certificate, name_of(name, "certificate", key), set);
}
