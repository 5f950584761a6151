// Settings of a model against those of one that is attached to it. What acts on elements goes with them (pbPlace.model); options
// and sizes are those of the whole model, and compiler conflict says what becomes of the other's: a warning, a merge, or an
// error.
// Tests: tests/oracle/test_attach.py.
#include <string.h>

#include "base/context.h"
#include "io/mjcf/mjcf_copy.h"

#define IS(node, text) (!strcmp((node)->name, text))

enum { CONFLICT_WARNING, CONFLICT_MERGE, CONFLICT_ERROR };

typedef struct conflict {
  pbMjcfReader *reader;
  const pbXmlNode *node;  // the attach
  const pbMjcfReader *attached;
  int policy;
} conflict;

// Does this model state the attribute, in an element of this kind?
static bool states(const pbXmlNode *parent, int element, const char *attribute) {
  for (const pbXmlNode *node = parent->first; node; node = node->next)
    if ((node->element == element && pbXml_Get(node, attribute)) || (node->first && states(node, element, attribute)))
      return true;
  return false;
}

static size_t size_of(const pbMjcfRow *row) {
  // Numbers, booleans, whole numbers; words are kept as one.
  if (row->type == 'd') return row->most * sizeof(double);
  if (row->type == 'b') return sizeof(bool);
  return row->type == 'i' ? row->most * sizeof(int) : sizeof(int);
}

// Is the other's value the one that counts when both are stated? Of steps and tolerances the smaller, of counts the larger; of
// other settings there is none (false with *none).
static bool is_better(const pbMjcfRow *row, const void *own, const void *other, bool *none) {
  static const char *const least[] = {"timestep", "tolerance", "ls_tolerance", "noslip_tolerance"};

  // Numbers of iterations, and sizes.
  bool counts = strstr(row->attribute, "iterations") || !strcmp(row->element, "size");

  for (size_t i = 0; i < sizeof least / sizeof *least; i++)
    if (!strcmp(row->attribute, least[i])) return *(const double *)other < *(const double *)own;

  *none = !counts;
  return counts && *(const int *)other > *(const int *)own;
}

static pbStatus settle_value(const conflict *c, const pbXmlNode *setting, const pbMjcfRow *row, void *own, const void *other) {
  pbMjcfReader *reader = c->reader;
  bool stated = states(reader->document.root, setting->element, row->attribute), none = false;
  bool merge = c->policy == CONFLICT_MERGE, take = merge && !stated;
  if (!memcmp(own, other, size_of(row))) return pb_ok;

  // Where only the attached model states it, there is no conflict: a merge takes it.
  if (merge && stated) take = is_better(row, own, other, &none);
  if (stated && (c->policy == CONFLICT_ERROR || none))
    return FAIL(c->node, "%s '%s' is \"%.60s\" in model '%s' and another here (compiler conflict is \"%s\")", setting->name,
                row->attribute, pbXml_Get(setting, row->attribute), c->attached->name, merge ? "merge" : "error");

  if (take) memcpy(own, other, size_of(row));
  pbXml_Warn(&reader->document, c->node, "%s '%s' is \"%.60s\" in model '%s' and another here: %s, as in MuJoCo", setting->name,
             row->attribute, pbXml_Get(setting, row->attribute), c->attached->name,
             take ? "that of the attached model counts" : "the one here counts");

  return pb_ok;
}

// Bits: those that both state may differ; a merge adds those that are set.
static pbStatus settle_flag(const conflict *c, const pbXmlNode *setting, const pbMjcfRow *row, int *own, int other) {
  pbMjcfReader *reader = c->reader;
  if ((*own & row->arg) == (other & row->arg)) return pb_ok;

  bool stated = states(reader->document.root, setting->element, row->attribute);
  bool take = c->policy == CONFLICT_MERGE && (other & row->arg);
  if (stated && c->policy == CONFLICT_ERROR)
    return FAIL(c->node, "flag '%s' is not the same in model '%s' as here (compiler conflict is \"error\")", row->attribute,
                c->attached->name);

  // Only what is set is added.
  if (take) *own |= row->arg;
  pbXml_Warn(&reader->document, c->node, "flag '%s' is not the same in model '%s' as here: %s, as in MuJoCo", row->attribute,
             c->attached->name, take ? "that of the attached model counts" : "the one here counts");

  return pb_ok;
}

// All that an element of the attached model states; own, other: the definitions that the element writes into.
static pbStatus settle_element(const conflict *c, const pbXmlNode *setting, void *own, const void *other) {
  for (int i = 0; i < setting->attribute_count; i++) {
    const pbMjcfRow *row = pbMjcf_Row(c->reader, setting, setting->attributes[i].name);
    if (!row || row->offset == pb_mjcfNowhere || row->support != pb_mjcfSupported) continue;

    // The same member of both.
    void *mine = (char *)own + row->offset;
    const void *its = (const char *)other + row->offset;
    if (row->type == 'f' || row->type == 'e') PB_TRY(settle_flag(c, setting, row, mine, *(const int *)its));
    else PB_TRY(settle_value(c, setting, row, mine, its));
  }

  return pb_ok;
}

// Groups of actuators that do nothing.
static pbStatus settle_groups(const conflict *c, const pbXmlNode *setting, int *own, int other) {
  pbMjcfReader *reader = c->reader;
  if (!pbXml_Get(setting, "actuatorgroupdisable") || *own == other) return pb_ok;

  bool merge = c->policy == CONFLICT_MERGE;

  // As flags, with one attribute for all bits.
  if (c->policy == CONFLICT_ERROR && states(reader->document.root, setting->element, "actuatorgroupdisable"))
    return FAIL(c->node, "option 'actuatorgroupdisable' is not the same in model '%s' as here (compiler conflict is \"error\")",
                c->attached->name);

  if (merge) *own |= other;
  pbXml_Warn(&reader->document, c->node, "option 'actuatorgroupdisable' is not the same in model '%s' as here: %s, as in MuJoCo",
             c->attached->name, merge ? "its groups are added" : "the one here counts");

  return pb_ok;
}

// What the compiler does with the whole model.
static void warn_compiler(const conflict *c, const pbXmlNode *setting) {
  static const char *const whole[] = {"settotalmass", "fusestatic", "discardvisual"};

  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    const char *value = pbXml_Get(setting, whole[i]);
    if (value && strcmp(value, "false") != 0)
      pbXml_Warn(&c->reader->document, setting, "attribute '%s' has no effect in a model that is attached, as in MuJoCo",
                 whole[i]);
  }
}

// The last compiler element that says so.
static int policy_of(const pbMjcfReader *reader) {
  int policy = CONFLICT_WARNING;
  for (const pbXmlNode *node = reader->document.root->first; node; node = node->next)
    if (IS(node, "compiler")) policy = pbMjcf_Word(reader, node, "conflict", policy);
  return policy;
}

pbStatus pbMjcf_Conflicts(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfReader *attached) {
  pbSpec *spec = reader->spec;
  conflict c = {reader, node, attached, policy_of(reader)};
  const pbMjcfSettings *other = &attached->settings;
  if (attached->told) return pb_ok;

  // However often it is attached.
  attached->told = true;

  for (const pbXmlNode *setting = attached->document.root->first; setting; setting = setting->next) {
    if (IS(setting, "compiler")) warn_compiler(&c, setting);
    if (IS(setting, "size")) PB_TRY(settle_element(&c, setting, &spec->size, &other->size));
    if (!IS(setting, "option")) continue;

    PB_TRY(settle_element(&c, setting, &spec->option, &other->option));
    PB_TRY(settle_groups(&c, setting, &spec->option.disableactuator, other->option.disableactuator));
    for (const pbXmlNode *flags = setting->first; flags; flags = flags->next)
      PB_TRY(settle_element(&c, flags, &spec->option, &other->option));
  }

  return pb_ok;
}
