// What an exported policy computes with: the library's own elementary functions, word by word from their sources, so that they
// have the same bits.
// Tests: tests/unit/test_policy_c.c.
#include <string.h>

#include "io/controller/controller.h"

#ifdef PB_HAVE_ASSETS
extern const char pb_asset_elementary_bits_h[], pb_asset_elementary_tables_h[], pb_asset_elementary_exponential_c[];
extern const char pb_asset_elementary_hyperbolic_c[], pb_asset_elementary_angle_c[], pb_asset_policy_exponential_h[];
#else
static const char pb_asset_elementary_bits_h[] = "", pb_asset_elementary_tables_h[] = "",
                  pb_asset_elementary_exponential_c[] = "", pb_asset_elementary_hyperbolic_c[] = "";
static const char pb_asset_elementary_angle_c[] = "", pb_asset_policy_exponential_h[] = "";
#endif

static bool begins(const char *line, const char *with) { return strncmp(line, with, strlen(with)) == 0; }

// Without includes of ours; functions and tables are the file's own, and nobody has to call them.
static void put_source(FILE *out, const char *text) {
  for (size_t n; *text; text += n) {
    n = strcspn(text, "\n");
    n += text[n] != 0;
    if (begins(text, "#include \"") || begins(text, "// Tests:") || begins(text, "#include <")) continue;

    bool own = begins(text, "static ") || begins(text, "double pb") || begins(text, "void pb");
    if (own) fprintf(out, "UNUSED %s", begins(text, "static ") ? "" : "static ");
    fprintf(out, "%.*s", (int)n, text);
  }
  fprintf(out, "\n");
}

static const char guards[] =
    "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "#if defined(__FAST_MATH__)\n#error \"-ffast-math changes what comes out\"\n#endif\n"
    "// No products fused with sums: other bits.\n"
    "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n"
    "#elif defined(__GNUC__)\n#pragma GCC optimize(\"fp-contract=off\")\n#endif\n"
    "#if defined(__GNUC__)\n#define UNUSED __attribute__((unused))\n#else\n#define UNUSED\n#endif\n\n";

static const char product[] =
    "// y += W x, in the order of the columns\n"
    "UNUSED static void add_product(int rows, int cols, const real *w, const real *x, real *y) {\n"
    "  for (int i = 0; i < rows; i++) {\n"
    "    real sum = y[i];\n"
    "    for (int j = 0; j < cols; j++) sum += w[i * cols + j] * x[j];\n"
    "    y[i] = sum;\n"
    "  }\n}\n\n"
    "UNUSED static double clipped(double x, double limit) {\n"
    "  if (x > limit) return limit;\n  return x < -limit ? -limit : x;\n}\n\n";

// Comparisons of NaN are false both ways; what chooses by one gives NaN.
static const char choices[] =
    "UNUSED static double sign_of(double a) {\n  if (a > 0) return 1;\n  return a < 0 ? -1 : a;\n}\n"
    "UNUSED static double least(double a, double b) {\n  if (a <= b) return a;\n  return b < a ? b : NAN;\n}\n"
    "UNUSED static double largest(double a, double b) {\n  if (a >= b) return a;\n  return b > a ? b : NAN;\n}\n"
    "UNUSED static double less(double a, double b) {\n  if (a < b) return 1;\n  return a >= b ? 0 : NAN;\n}\n"
    "UNUSED static double less_equal(double a, double b) {\n  if (a <= b) return 1;\n  return a > b ? 0 : NAN;\n}\n"
    "UNUSED static double choose(double c, double a, double b) {\n  if (c > 0) return a;\n  return c <= 0 ? b : NAN;\n}\n"
    "// the largest root f of (f^2 - a)^2 - 8 c f - 4 b, by Newton's method from above\n"
    "UNUSED static double stretch(double a, double b, double c) {\n"
    "  double f = sqrt(3 * a);\n"
    "  for (int i = 0; i < 100; i++) {\n"
    "    double r = f * f - a, p = r * r - 8 * c * f - 4 * b, slope = 4 * f * r - 8 * c, step = p / slope;\n"
    "    if (!(slope > 0) || !(step > 1e-16 * f)) break;\n"
    "    f -= step;\n"
    "  }\n  return f;\n}\n\n";

void pbPrinted_Preamble(const pbPrinted *p) {
  bool single = strcmp(p->type, "float") == 0;
  fprintf(p->out, "%s%stypedef %s real;\n\n", guards, single ? "#define PB_SINGLE\n" : "", p->type);

  if (p->elementary) {
    put_source(p->out, pb_asset_elementary_bits_h);
    put_source(p->out, pb_asset_elementary_tables_h);
    put_source(p->out, pb_asset_elementary_exponential_c);
    put_source(p->out, pb_asset_elementary_hyperbolic_c);
    put_source(p->out, pb_asset_elementary_angle_c);
  }
  if (p->exponential) put_source(p->out, pb_asset_policy_exponential_h);
  fprintf(p->out, "%s", product);
  if (p->formulas) fprintf(p->out, "%s", choices);
}
