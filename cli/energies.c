// pullback energies: the built-in energies of deformables, what they act on, their parameters and formulas.
// Tests: tests/oracle/test_energies.py.
#include <string.h>

#include "cli.h"

// "young [Pa], poisson [1]"
static void put_parameters(const pbMaterial *m) {
  for (int i = 0; i < m->def.parameter_count; i++) {
    const pbEnergyParameter *p = &m->def.parameters[i];
    fprintf(cli_out, "%s%s [%s]", i ? ", " : "", p->name, p->unit ? p->unit : "1");
  }
}

static void list_all(void) {
  const pbMaterial *m;
  fprintf(cli_out, "%-28s  %-15s  parameters\n", "energy", "elements");
  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    fprintf(cli_out, "%-28s  %-15s  ", m->name, pbMaterial_CellName(m->cell));
    put_parameters(m);
    fputc('\n', cli_out);
  }
}

// Words filled into lines, indented.
static void put_filled(const char *text) {
  int column = 0;
  for (const char *at = text; *at;) {
    int n = (int)strcspn(at, " \n");

    // lines of about 100 columns
    if (column && column + n > 100) {
      column = 0;
      fputc('\n', cli_out);
    }

    fprintf(cli_out, "%s%.*s", column ? " " : "  ", n, at);
    column += n + 1;
    at += n;
    at += strspn(at, " \n");
  }
  fputc('\n', cli_out);
}

static void put_formula(const char *formula) {
  while (*formula) {
    size_t n = strcspn(formula, "\n");
    fprintf(cli_out, "  %.*s\n", (int)n, formula);
    formula += n + (formula[n] != 0);
  }
}

static void put_one(const pbMaterial *m) {
  fprintf(cli_out, "%s, on elements of kind %s (%d points)%s%s\n", m->name, pbMaterial_CellName(m->cell), m->def.points,
          m->mass ? ", with mass by density: " : "", m->mass ? m->mass : "");

  for (int i = 0; i < m->def.parameter_count; i++) {
    const pbEnergyParameter *p = &m->def.parameters[i];
    char shape[16] = "";
    if (p->rows * p->cols > 1) snprintf(shape, sizeof shape, " (%d x %d)", p->rows, p->cols);

    fprintf(cli_out, "  %s%s [%s]", p->name, shape, p->unit ? p->unit : "1");

    // bounds that say nothing are left out
    if (p->lower == PB_MORE_THAN_ZERO) fprintf(cli_out, ", positive");
    else if (p->lower != 0 || p->upper != 0) fprintf(cli_out, ", from %g", p->lower);
    if (p->upper != 0 && p->upper < 1e300) fprintf(cli_out, " to %g", p->upper);
    fputc('\n', cli_out);
  }

  put_filled(m->sheet);
  put_formula(m->def.formula);
}

static void show(const char *name) {
  const pbMaterial *m;
  int found = 0;
  for (int i = 0; (m = pbMaterial_At(i)); i++) {
    if (!pbMaterial_IsCalled(m, name)) continue;
    if (found++) fputc('\n', cli_out);
    put_one(m);
  }
}

pbStatus cliEnergies_Run(cliApp *app) {
  const char *name = app->args.positional[0];
  const pbMaterial *m = pbMaterial_At(0);
  if (name) {
    for (int i = 0; m && !pbMaterial_IsCalled(m, name); i++) m = pbMaterial_At(i + 1);
  }

  // the library's message, with what is similar
  if (name && !m) return pbMaterial_Get(app->ctx, name, -1, &m);

  if (app->args.text[opt_json]) pbMaterial_Describe(name, &(pbJson){.out = cli_out});
  else if (name) show(name);
  else list_all();
  return pb_ok;
}
