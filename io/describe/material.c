// The built-in energies of deformables, as values of JSON.
// Tests: tests/unit/test_describe.c, tests/oracle/test_energies.py, tests/python/test_commands.py.
#include <string.h>

#include <pullback/describe.h>

bool pbMaterial_IsCalled(const pbMaterial *m, const char *name) { return !strcmp(m->name, name) || !strcmp(m->family, name); }

static void json_parameter(const pbMaterial *m, int index, pbJson *j) {
  const pbEnergyParameter *p = &m->def.parameters[index];
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Text(j, "name", p->name);
  pbJson_Text(j, "unit", p->unit ? p->unit : "1");
  pbJson_Integer(j, "rows", p->rows);
  pbJson_Integer(j, "cols", p->cols);
  bool open = p->lower == 0 && p->upper == 0;
  if (!open) pbJson_Number(j, "lower", p->lower);
  if (!open && p->upper < 1e300) pbJson_Number(j, "upper", p->upper);
  pbJson_Close(j, '}');
}

void pbMaterial_Describe(const char *name, pbJson *j) {
  const pbMaterial *m;
  pbJson_Open(j, NULL, '[');

  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    // a name is one energy or a family
    if (name && !pbMaterial_IsCalled(m, name)) continue;

    pbJson_Open(j, NULL, '{');
    pbJson_Text(j, "name", m->name);
    pbJson_Text(j, "family", m->family);
    pbJson_Text(j, "elements", pbMaterial_CellName(m->cell));
    pbJson_Integer(j, "points", m->def.points);
    if (m->mass) pbJson_Text(j, "mass", m->mass);

    pbJson_Open(j, "parameters", '[');
    for (int k = 0; k < m->def.parameter_count; k++) json_parameter(m, k, j);
    pbJson_Close(j, ']');
    pbJson_Text(j, "formula", m->def.formula);
    pbJson_Text(j, "sheet", m->sheet);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}
