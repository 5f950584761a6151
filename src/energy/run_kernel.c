// Runs a program over blocks of elements: every instruction is a loop over the lanes of a block.
#include "energy/run.h"

#include "base/arena.h"
#include "number/number.h"

typedef struct Slot {
  _Alignas(64) num lane[PB_BLOCK];
} Slot;

static num sign_of(num x) { return re(x) > 0 ? 1 : re(x) < 0 ? -1 : num_make(re(x), 0); }
static num power_of(num x, num p) {
  double v = pow(re(x), re(p)), dx = im(x) != 0 ? re(p) * pow(re(x), re(p) - 1) : 0, dp = im(p) != 0 ? v * log(re(x)) : 0;
  return num_make(v, dx * im(x) + dp * im(p));
}
static num least(num a, num b) { return re(a) <= re(b) ? a : re(b) < re(a) ? b : num_make(NAN, 0); }
static num most(num a, num b) { return re(a) >= re(b) ? a : re(b) > re(a) ? b : num_make(NAN, 0); }
static num less(num a, num b) { return re(a) < re(b) ? 1 : re(a) >= re(b) ? 0 : NAN; }
static num less_equal(num a, num b) { return re(a) <= re(b) ? 1 : re(a) > re(b) ? 0 : NAN; }
static num choose(num c, num a, num b) { return re(c) > 0 ? a : re(c) <= 0 ? b : num_make(NAN, 0); }

// Operands and result may be the same slot, lane by lane; they never overlap otherwise.
#define LANES(expression)                                                         \
  {                                                                               \
    _Pragma("GCC ivdep") for (int i = 0; i < PB_BLOCK; i++) to[i] = (expression); \
    break;                                                                        \
  }

static void execute(const pbInstruction *code, int count, Slot *slot) {
  for (const pbInstruction *at = code; at < code + count; at++) {
    num *to = slot[at->to].lane;
    const num *a = slot[at->of[0]].lane, *b = slot[at->of[1]].lane, *c = slot[at->of[2]].lane, *d = slot[at->of[3]].lane;
    switch ((pbCode)at->code) {
      case pb_opAdd_code: LANES(a[i] + b[i])
      case pb_opSub_code: LANES(a[i] - b[i])
      case pb_opMul_code: LANES(a[i] * b[i])
      case pb_mulAdd: LANES(a[i] * b[i] + c[i])
      case pb_mulSub: LANES(a[i] * b[i] - c[i])
      case pb_subMul: LANES(c[i] - a[i] * b[i])
      case pb_mulAddMul: LANES(a[i] * b[i] + c[i] * d[i])
      case pb_mulSubMul: LANES(a[i] * b[i] - c[i] * d[i])
      case pb_opDiv_code: LANES(a[i] / b[i])
      case pb_opNeg_code: LANES(-a[i])
      case pb_opSqrt_code: LANES(num_sqrt(a[i]))
      case pb_opLog_code: LANES(num_log(a[i]))
      case pb_opExp_code: LANES(num_exp(a[i]))
      case pb_opSin_code: LANES(num_sin(a[i]))
      case pb_opCos_code: LANES(num_cos(a[i]))
      case pb_opAsin_code: LANES(num_asin(a[i]))
      case pb_opAcos_code: LANES(num_acos(a[i]))
      case pb_opAtan2_code: LANES(num_atan2(a[i], b[i]))
      case pb_opPow_code: LANES(power_of(a[i], b[i]))
      case pb_opAbs_code: LANES(num_abs(a[i]))
      case pb_opSign_code: LANES(sign_of(a[i]))
      case pb_opMin_code: LANES(least(a[i], b[i]))
      case pb_opMax_code: LANES(most(a[i], b[i]))
      case pb_opLess_code: LANES(less(a[i], b[i]))
      case pb_opLessEqual_code: LANES(less_equal(a[i], b[i]))
      case pb_opSelect_code: LANES(choose(a[i], b[i], c[i]))
      case pb_opFreeze_code: LANES(a[i])
      case pb_opConstant_code:
      case pb_opInput_code:
      case pb_codeCount: break;
    }
  }
}

// ---- in ---------------------------------------------------------------------------------------------------------------
// 0 where the number is finite, else NaN
static double finite_sign(num x) { return re(x) * 0 + im(x) * 0; }

// An input of the elements e, e + 1, ...; lanes beyond `live` repeat the last.
static void load(const pbRun *run, const pbPort *port, int e, int live, num *to) {
  int stride = 0, last = live - 1;
  const num *from = NULL;
  switch ((pbGroup)port->group) {
    case pb_groupX:
    case pb_groupRest:
    case pb_groupPrevious:
    case pb_groupWeight: {
      from = (const num *)run->vertices[port->group] + port->offset;
      if (!run->vertex) {
        from += 3 * ((size_t)run->row[port->index] + (size_t)e);
        stride = 3;
        break;
      }
      const int *vertex = run->vertex + (size_t)e * (size_t)run->points + port->index;
      for (int i = 0; i < PB_BLOCK; i++) to[i] = from[3 * (size_t)vertex[(i < live ? i : last) * run->points]];
      return;
    }
    case pb_groupTimestep:
    case pb_groupTime: from = run->vertices[port->group]; break;
    case pb_groupParameter:
      if (run->stride) stride = run->stride[port->index];
      from = (const num *)run->parameter[port->index] + (size_t)e * (size_t)stride + port->offset;
      break;
  }
  for (int i = 0; i < PB_BLOCK; i++) to[i] = from[(size_t)(i < live ? i : last) * (size_t)stride];
}

static void load_block(const pbRun *run, int e, int live, Slot *slot, double *bad) {
  const pbProgram *p = run->program;
  for (int i = 0; i < PB_BLOCK; i++) bad[i] = 0;
  for (int k = 0; k < p->input_count; k++) {
    num *to = slot[p->input[k].slot].lane;
    load(run, &p->input[k], e, live, to);
    for (int i = 0; i < PB_BLOCK; i++) bad[i] += finite_sign(to[i]);
  }
}

// ---- out --------------------------------------------------------------------------------------------------------------
static void store_rows(const pbRun *run, const pbRows *rows, int e, int live, const Slot *slot) {
  const uint16_t *output = run->program->output + rows->first;
  for (int i = 0; i < live; i++) {
    num *to = (num *)rows->to + (size_t)(e + i) * (size_t)rows->n;
    for (int k = 0; k < rows->n; k++) to[k] = slot[output[k]].lane[i];
  }
}

static void spoil_rows(const pbRun *run, int e) {
  for (int r = 0; r < 3; r++) {
    const pbRows *rows = &run->rows[r];
    num *to = (num *)rows->to + (size_t)e * (size_t)rows->n;
    for (int k = 0; rows->to && k < rows->n; k++) to[k] = r == 0 ? INFINITY : 0;
  }
}

static size_t vertex_of(const pbRun *run, int point, int e) {
  return (size_t)(run->vertex ? run->vertex[(size_t)e * (size_t)run->points + (size_t)point] : run->row[point] + e);
}

// Element by element, so that sums do not depend on the size of blocks.
static void add_port(const pbRun *run, const pbPort *port, int e, int live, const num *from, const double *bad) {
  num *to =
      port->group == pb_groupParameter ? (run->parameter_bar ? run->parameter_bar[port->index] : NULL) : run->bar[port->group];
  if (!to) return;
  size_t stride = port->group == pb_groupParameter && run->stride ? (size_t)run->stride[port->index] : 0;
  for (int i = 0; i < live; i++) {
    if (bad[i] != 0) continue;
    size_t at = port->group <= pb_groupPrevious ? 3 * vertex_of(run, port->index, e + i) : (size_t)(e + i) * stride;
    to[at + port->offset] += from[i];
  }
}

// ---- faults -----------------------------------------------------------------------------------------------------------
// Step by step again: `origin` of a slot is the instruction that made it not finite from finite operands, counted from 1.
static int find_origin(const pbProgram *p, Slot *slot, int *origin) {
  for (int k = 0; k < p->slots; k++) origin[k] = 0;
  int last = 0;
  for (int at = 0; at < p->count; at++) {
    const pbInstruction *s = &p->code[at];
    int before = 0;
    double value[4] = {0};
    for (int k = 0; k < pbCode_Operands((pbCode)s->code); k++) value[k] = re(slot[s->of[k]].lane[0]);
    for (int k = 0; k < pbCode_Operands((pbCode)s->code) && !before; k++) {
      bool taken = s->code != pb_opSelect_code || k == 0 || (value[0] > 0) == (k == 1);
      if (taken) before = origin[s->of[k]];
    }
    execute(s, 1, slot);
    bool bad = finite_sign(slot[s->to].lane[0]) != 0;
    origin[s->to] = !bad ? 0 : before ? before : at + 1;
  }
  for (int k = 0; k < p->output_count && !last; k++) last = origin[p->output[k]];
  return last;
}

static void operands_at(const pbProgram *p, int at, Slot *slot, double *operand) {
  execute(p->code, at, slot);
  for (int k = 0; k < pbCode_Operands((pbCode)p->code[at].code); k++) operand[k] = re(slot[p->code[at].of[k]].lane[0]);
}

static void diagnose(const pbRun *run, int e, Slot *slot, double *bad, int *origin, pbEnergyFault *fault) {
  const pbProgram *p = run->program;
  double operand[4] = {0};
  *fault = (pbEnergyFault){.element = e};
  load_block(run, e, 1, slot, bad);
  for (int k = 0; k < p->input_count; k++) {
    num x = slot[p->input[k].slot].lane[0];
    if (finite_sign(x) != 0) {
      pbRun_ExplainInput(&p->input[k], re(x), fault);
      return;
    }
  }
  int at = find_origin(p, slot, origin) - 1;
  if (at < 0) return;
  load_block(run, e, 1, slot, bad);
  operands_at(p, at, slot, operand);
  pbRun_Explain(p, at, operand, fault);
}

// ---- all elements -----------------------------------------------------------------------------------------------------
int NUM(pbRun_Elements)(const pbRun *run, pbEnergyFault *fault) {
  const pbProgram *p = run->program;
  pbArena arena = pbArena_Over(run->work, (size_t)-1 / 2);
  Slot *slot = pbArena_Take(&arena, (size_t)p->slots, sizeof *slot);
  int *origin = pbArena_Take(&arena, (size_t)p->slots, sizeof *origin), first = -1;
  double bad[PB_BLOCK];
  for (int k = 0; k < p->constant_count; k++)
    for (int i = 0; i < PB_BLOCK; i++) slot[k].lane[i] = p->constant[k];
  for (int e = 0; e < run->count; e += PB_BLOCK) {
    int live = run->count - e < PB_BLOCK ? run->count - e : PB_BLOCK;
    load_block(run, e, live, slot, bad);
    execute(p->code, p->count, slot);
    for (int k = 0; k < p->output_count; k++)
      for (int i = 0; i < PB_BLOCK; i++) bad[i] += finite_sign(slot[p->output[k]].lane[i]);
    for (int r = 0; r < 3; r++)
      if (run->rows[r].to) store_rows(run, &run->rows[r], e, live, slot);
    for (int k = 0; p->port && k < p->output_count; k++) add_port(run, &p->port[k], e, live, slot[p->output[k]].lane, bad);
    for (int i = 0; i < live; i++) {
      if (bad[i] == 0) continue;
      spoil_rows(run, e + i);
      if (first < 0) first = e + i;
    }
  }
  if (fault) *fault = (pbEnergyFault){.element = -1};
  if (fault && first >= 0) diagnose(run, first, slot, bad, origin, fault);
  return first;
}
