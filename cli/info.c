// pullback info: what a model holds, for people and as JSON.
// Tests: tests/oracle/test_cli.py.
#include <math.h>
#include <string.h>

#include <pullback/describe.h>

#include "cli.h"

// Names come from files: nothing in them may steer a terminal.
static void put_name(const char *name, int width) {
  int n = 0;
  for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
    fputc(*c < 32 || *c == 127 ? '?' : *c, cli_out);
    n += (*c & 0xC0) != 0x80;  // bytes that continue a UTF-8 character take no column
  }

  for (; n < width; n++) fputc(' ', cli_out);
}

static void text_table(const pbModel *model, int index, const pbTable *t) {
  if (t->rows < 1) return;
  fprintf(cli_out, "\n%s\n   id  %-24s", t->label, "name");
  for (int k = 0; k < t->columns; k++) fprintf(cli_out, "  %-10s", pbModel_TableCell(model, index, -1, k).label);
  fputc('\n', cli_out);

  for (int i = 0; i < t->rows; i++) {
    const char *name = pbModel_Name(model, t->kind, i);
    fprintf(cli_out, "  %3d  ", i);
    put_name(name ? name : "", 24);

    for (int k = 0; k < t->columns; k++) {
      char text[16] = "";
      pbTableCell cell = pbModel_TableCell(model, index, i, k);
      if (cell.known && !cell.word) snprintf(text, sizeof text, "%d", cell.value);
      fprintf(cli_out, "  ");
      put_name(cell.word ? cell.word : text, 10);
    }
    fputc('\n', cli_out);
  }
}

static void bound_text(double value, char *text, size_t size) {
  if (isfinite(value)) snprintf(text, size, "%.4g", value);
  else snprintf(text, size, "%s", value < 0 ? "-inf" : "inf");
}

static void text_params(const cliRun *run) {
  fprintf(cli_out, "\nparameters\n  %-22s  %-12s  %-18s  %-22s\n", "name", "shape", "unit", "bounds");
  for (int i = 0; i < pbModel_ParamCount(run->model); i++) {
    pbParam p = pbModel_ParamAt(run->model, i);

    // a field that this model has nothing of
    if (!p.rows || !p.cols) continue;

    // shape, unit, bounds
    size_t shape[2];
    char text[64], lower[24], upper[24];

    pbArray_ShapeText(pbParam_Shape(&p, shape), shape, text, sizeof text);
    bound_text(p.lower, lower, sizeof lower);
    bound_text(p.upper, upper, sizeof upper);
    const char *kind = p.fixed ? "  fixed" : "";
    if (p.derived) kind = "  derived";
    fprintf(cli_out, "  %-22s  %-12s  %-18s  [%s, %s]%s", p.name, text, *p.unit ? p.unit : "-", lower, upper, kind);

    // short values only
    if (p.rows == 1 && p.cols <= 3) {
      fprintf(cli_out, "  =");
      for (int k = 0; k < p.cols; k++) fprintf(cli_out, " %.10g", run->theta[p.offset + (size_t)k]);
    }
    fputc('\n', cli_out);
  }
}

static bool is_range(int count, const int *points) {
  for (int i = 1; i < count; i++) {
    if (points[i] != points[0] + i) return false;
  }
  return true;
}

// How many points a set has, and, where they follow each other, the rows of the first and the last.
static void put_rows(int count, int first, bool consecutive) {
  if (consecutive && count) fprintf(cli_out, "%-6d  %d to %d\n", count, first, first + count - 1);
  else fprintf(cli_out, "%d\n", count);
}

static void text_deformables(const cliRun *run) {
  const pbModel *m = run->model;
  pbDeformInfo info;
  pbDeformGroup g;
  pbScenery s;
  const char *name;
  if (!pbModel_DeformInfo(m, &info)) return;

  fprintf(cli_out,
          "\ndeformables\n  %d points, %d of them move, %.6g kg; scheme %s by %s\n  points                    number  rows\n",
          info.points, info.moving, pbModel_PointMass(run->ctx, run->model, run->theta), pbScheme_Name(info.scheme),
          pbDeformMinimizer_Name(info.method));

  // points of bodies and sets, then of geoms and planes that deformables meet
  for (int i = 0; (name = pbModel_PointSetName(m, i)) != NULL; i++) {
    int count = 0;
    const int *points = pbModel_PointSet(m, name, &count);
    fprintf(cli_out, "    ");
    put_name(name, 24);
    put_rows(count, count ? points[0] : 0, is_range(count, points));
  }

  for (int i = 0; pbModel_SceneryAt(m, i, &s); i++) {
    fprintf(cli_out, "    ");
    put_name(*s.name ? s.name : "(plane)", 24);
    put_rows(s.count, s.first, true);
  }

  fprintf(cli_out, "  elements                  number  points  energy\n");
  for (int i = 0; pbModel_DeformGroupAt(m, i, &g); i++) {
    fprintf(cli_out, "    ");
    put_name(g.name, 24);
    fprintf(cli_out, "%-6d  %-6d  ", g.count, g.points);
    put_name(g.energy, 0);
    fprintf(cli_out, "%s\n", g.mass ? " (mass)" : "");
  }
}

static void text_policy(const pbModel *m) {
  enum { most_shown = 100 };  // of points there may be thousands; JSON has them all
  pbPolicyInfo info;
  char name[400];
  if (!pbModel_PolicyInfo(m, &info)) return;

  fprintf(cli_out, "\npolicy\n  ");
  put_name(info.name, 0);
  fprintf(cli_out, "  decides every %d steps  outputs %d  memory %d  commands %d\n", info.every, info.outputs, info.memory,
          info.commands);
  for (int i = 0; i < info.observations && i < most_shown; i++) {
    fprintf(cli_out, "  sees %4d  ", i);
    put_name(pbModel_ObservationName(m, i, name, sizeof name), 0);
    fputc('\n', cli_out);
  }
  if (info.observations > most_shown) fprintf(cli_out, "  and %d more\n", info.observations - most_shown);
}

static double real_field(const pbModel *m, const char *name) {
  pbField f;

  // one number, or none of that name
  return pbModel_Field(m, name, &f) && f.reals ? f.reals[0] : NAN;
}

// Sweeps against slip, and what the file says of Newton's method.
static void text_solver(const pbModel *m) {
  int noslip = pbModel_Integer(m, "noslip_iterations", 0);
  if (noslip) fprintf(cli_out, "  noslip_iterations %d  noslip_tolerance %.4g", noslip, real_field(m, "noslip_tolerance"));

  // the file's own are told only
  fprintf(cli_out, "\n  of the file, used on request (--option iterations=file): tolerance %.4g  iterations %d  ls_iterations %d",
          real_field(m, "file_tolerance"), pbModel_Integer(m, "file_iterations", 0), pbModel_Integer(m, "file_ls_iterations", 0));
}

static void text_info(const cliRun *run) {
  const pbModel *m = run->model;
  put_name(run->model_path, 0);
  fprintf(cli_out, "\n\nsizes\n ");
  const char *size;
  for (int i = 0; (size = pbModel_SizeName(i)) != NULL; i++) {
    int count = pbModel_Size(m, size);
    if (count > 0) fprintf(cli_out, " %s %d", size, count);
  }

  const char *integrator = pbModel_OptionWord(m, "integrator"), *cone = pbModel_OptionWord(m, "cone");
  if (integrator && cone) fprintf(cli_out, "\n\noptions\n  integrator %s  cone %s", integrator, cone);
  text_solver(m);

  fprintf(cli_out, "\n\nstate\n");
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    fprintf(cli_out, "  %-16s  from %d, %d numbers\n", f.name, f.offset, f.size);
  }

  pbTable table;
  for (int i = 0; pbModel_TableAt(m, i, &table); i++) text_table(m, i, &table);
  text_deformables(run);
  text_policy(m);
  text_params(run);
}

pbStatus cliInfo_Run(cliApp *app) {
  cliRun run = {0};
  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok && app->args.text[opt_json])
    pbModel_Describe(app->ctx,
                     &(pbDescription){.model = run.model, .theta = run.theta, .path = run.model_path, .recompute = run.recompute},
                     &(pbJson){.out = cli_out});
  else if (status == pb_ok) text_info(&run);
  cliRun_End(&run);
  return status;
}
