// Formulas of a policy as C: the instructions that the engine runs, line by line, in their order.
// Tests: tests/unit/test_policy_c.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "energy/expression.h"
#include "energy/program.h"
#include "io/controller/controller.h"

// a, b, c, d stand for what an instruction takes.
static const char *const forms[pb_codeCount] = {[pb_opAdd_code] = "a + b",
                                                [pb_opSub_code] = "a - b",
                                                [pb_opMul_code] = "a * b",
                                                [pb_mulAdd] = "a * b + c",
                                                [pb_mulSub] = "a * b - c",
                                                [pb_subMul] = "c - a * b",
                                                [pb_mulAddMul] = "a * b + c * d",
                                                [pb_mulSubMul] = "a * b - c * d",
                                                [pb_opDiv_code] = "a / b",
                                                [pb_opNeg_code] = "-a",
                                                [pb_opSqrt_code] = "sqrt(a)",
                                                [pb_opLog_code] = "pbLog(a)",
                                                [pb_opExp_code] = "pbExp(a)",
                                                [pb_opSin_code] = "pbSin(a)",
                                                [pb_opCos_code] = "pbCos(a)",
                                                [pb_opAsin_code] = "pbAsin(a)",
                                                [pb_opAcos_code] = "pbAcos(a)",
                                                [pb_opAtan2_code] = "pbAtan2(a, b)",
                                                [pb_opPow_code] = "pbPow(a, b)",
                                                [pb_opAbs_code] = "fabs(a)",
                                                [pb_opSign_code] = "sign_of(a)",
                                                [pb_opMin_code] = "least(a, b)",
                                                [pb_opMax_code] = "largest(a, b)",
                                                [pb_opLess_code] = "less(a, b)",
                                                [pb_opLessEqual_code] = "less_equal(a, b)",
                                                [pb_opSelect_code] = "choose(a, b, c)",
                                                [pb_opStretch_code] = "stretch(a, b, c)",
                                                [pb_opExpm1_code] = "pbExpm1(a)",
                                                [pb_opLog1p_code] = "pbLog1p(a)",
                                                [pb_opSinh_code] = "pbSinh(a)",
                                                [pb_opCosh_code] = "pbCosh(a)",
                                                [pb_opTanh_code] = "pbTanh(a)",
                                                [pb_opAsinh_code] = "pbAsinh(a)",
                                                [pb_opAcosh_code] = "pbAcosh(a)",
                                                [pb_opAtanh_code] = "pbAtanh(a)",
                                                [pb_opErf_code] = "pbErf(a)",
                                                [pb_opErfc_code] = "pbErfc(a)"};

const char *pbPrinted_Operation(int code) { return (unsigned)code < pb_codeCount ? forms[code] : NULL; }

// The form with slots in place of single letters.
static void put_form(FILE *out, const char *form, const pbInstruction *code) {
  for (const char *at = form; *at;) {
    size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (word == 1 && *at >= 'a' && *at <= 'd') fprintf(out, "s[%d]", code->of[*at - 'a']);
    else fprintf(out, "%.*s", word ? (int)word : 1, at);
    at += word ? word : 1;
  }
}

void pbPrinted_Formula(pbPrinted *p, const char *name, const pbFormula *f) {
  const pbProgram *g = pbExpression_Program(f->expression);
  FILE *out = p->out;

  fprintf(out, "static double %s(const double *x) {\n  double s[%d], bad = 0;\n", name, g->slots > 0 ? g->slots : 1);
  for (int k = 0; k < g->constant_count; k++) {
    fprintf(out, "  s[%d] = ", k);
    pbPrinted_Number(out, g->constant[k], false);
    fprintf(out, ";\n");
  }

  // coordinate k % 3 of point k / 3 is number k
  for (int k = 0; k < g->input_count; k++) {
    int slot = g->input[k].slot;
    fprintf(out, "  s[%d] = x[%d];\n  bad += s[%d] * 0;\n", slot, 3 * g->input[k].index + g->input[k].offset, slot);
  }
  if (!g->input_count) fprintf(out, "  (void)x;\n");

  for (int k = 0; k < g->count; k++) {
    fprintf(out, "  s[%d] = ", g->code[k].to);
    PB_ASSERT(forms[g->code[k].code]);
    put_form(out, forms[g->code[k].code], &g->code[k]);
    fprintf(out, ";\n");
  }

  // what is outside of the domain, or too large, has no value
  fprintf(out, "  bad += s[%d] * 0;\n  return bad == 0 ? s[%d] : NAN;\n}\n\n", g->output[0], g->output[0]);
}
