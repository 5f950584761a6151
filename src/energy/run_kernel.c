// Runs a program over blocks of elements: every instruction is a loop over the lanes of a block.
//
// Memory. The caller's, of pbRun_WorkSize: a slot of PB_BLOCK numbers for each of the program's slots, and a number for each by
// which the origin of a fault is found. Constants have the first slots, are filled once a run, and are written by nobody; other
// slots are used again as soon as their value is dead (program.c). An instruction reads up to four slots and writes one, which
// may be one of them. So a block's values stay near the core, and the price of interpreting, one jump an instruction, is shared
// by 32 elements.
//
// In and out values are turned over, between rows of an element and slots of many elements: in tiles of four by four. Lanes
// beyond the last element of a short block repeat it, so that they are finite where it is. Cotangents are added element by
// element: sums do not depend on the size of blocks.
//
// What is not finite is looked for in inputs and outputs alone, by x * 0. An element with a fault is run once more by itself,
// instruction by instruction, to name the one that made it (diagnose); no run pays for that before. Choices by a comparison of
// NaN give NaN, so that no fault is lost on the way.
// Tests: tests/unit/test_energy.c, tests/unit/test_energy_oracle.c.
#include "energy/run.h"

#include <limits.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/mutate.h"
#include "elementary/elementary.h"
#include "elementary/hyperbolic.h"
#include "number/block.h"

typedef struct Slot {
  _Alignas(64) num lane[PB_BLOCK];
} Slot;

// Decisions are taken on real parts; comparisons of NaN are false both ways, and what chooses by one gives NaN.
static num sign_of(num x) {
  if (re(x) > 0) return 1;
  return re(x) < 0 ? -1 : num_make(re(x), 0);
}

// Real powers, and their derivatives by both: where only one operand moves the other's derivative may not exist.
static num power_of(num x, num p) {
  double v = pbPow(re(x), re(p));
  double dx = im(x) != 0 ? re(p) * pbPow(re(x), re(p) - 1) : 0, dp = im(p) != 0 ? v * pbLog(re(x)) : 0;
  return num_make(v, dx * im(x) + dp * im(p));
}

static num least(num a, num b) {
  if (re(a) <= re(b)) return a;
  return re(b) < re(a) ? b : num_make(NAN, 0);
}

static num largest(num a, num b) {
  if (re(a) >= re(b)) return a;
  return re(b) > re(a) ? b : num_make(NAN, 0);
}

static num less(num a, num b) {
  if (re(a) < re(b)) return 1;
  return re(a) >= re(b) ? 0 : NAN;
}

static num less_equal(num a, num b) {
  if (re(a) <= re(b)) return 1;
  return re(a) > re(b) ? 0 : NAN;
}

static num choose(num c, num a, num b) {
  if (re(c) > 0) return a;
  return re(c) <= 0 ? b : num_make(NAN, 0);
}

// pbOp_Stretch and its derivatives
static num stretch(num a, num b, num c) {
  double f = pbOp_Stretch(re(a), re(b), re(c)), r = f * f - re(a);
  if (!PB_IS_COMPLEX) return num_make(f, 0);
  return num_make(f, (0.5 * r * im(a) + im(b) + 2 * f * im(c)) / (f * r - 2 * re(c)));
}

// Functions of one number by value and slope; where nothing moves there need not be one.
#define CURVE(name, f, slope_at)                                 \
  static num name(num a) {                                       \
    double x = re(a), value = f(x);                              \
    if (!PB_IS_COMPLEX || im(a) == 0) return num_make(value, 0); \
    return num_make(value, im(a) * (slope_at));                  \
  }
CURVE(expm1_of, pbExpm1, pbExp(x))
CURVE(log1p_of, pbLog1p, 1 / (1 + x))
CURVE(sinh_of, pbSinh, pbCosh(x))
CURVE(cosh_of, pbCosh, pbSinh(x))
CURVE(tanh_of, pbTanh, (1 - value) * (1 + value))
CURVE(asinh_of, pbAsinh, 1 / sqrt(1 + x * x))
CURVE(acosh_of, pbAcosh, 1 / sqrt((x - 1) * (x + 1)))
CURVE(atanh_of, pbAtanh, 1 / ((1 - x) * (1 + x)))
CURVE(erf_of, pbErf, 2 / sqrt(M_PI) * pbExp(-x * x))
CURVE(erfc_of, pbErfc, -2 / sqrt(M_PI) * pbExp(-x * x))

// Operands and result may be the same slot, lane by lane; they never overlap otherwise.
#define LANES(expression)                                                         \
  {                                                                               \
    _Pragma("GCC ivdep") for (int i = 0; i < PB_BLOCK; i++) to[i] = (expression); \
    break;                                                                        \
  }

// NOLINTNEXTLINE(readability-function-size): one line an instruction
static void execute(const pbInstruction *code, int count, Slot *slot) {
  for (const pbInstruction *at = code; at < code + count; at++) {
    // Operands that an instruction does not have are those of slot 0, and not read.
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
      case pb_opMax_code: LANES(largest(a[i], b[i]))
      case pb_opLess_code: LANES(less(a[i], b[i]))
      case pb_opLessEqual_code: LANES(less_equal(a[i], b[i]))
      case pb_opSelect_code: LANES(choose(a[i], b[i], c[i]))
      case pb_opStretch_code: LANES(stretch(a[i], b[i], c[i]))
      case pb_opFreeze_code: LANES(a[i])
      case pb_opExpm1_code: LANES(expm1_of(a[i]))
      case pb_opLog1p_code: LANES(log1p_of(a[i]))
      case pb_opSinh_code: LANES(sinh_of(a[i]))
      case pb_opCosh_code: LANES(cosh_of(a[i]))
      case pb_opTanh_code: LANES(tanh_of(a[i]))
      case pb_opAsinh_code: LANES(asinh_of(a[i]))
      case pb_opAcosh_code: LANES(acosh_of(a[i]))
      case pb_opAtanh_code: LANES(atanh_of(a[i]))
      case pb_opErf_code: LANES(erf_of(a[i]))
      case pb_opErfc_code: LANES(erfc_of(a[i]))
      case pb_opConstant_code:
      case pb_opInput_code:
      case pb_codeCount: break;
    }
  }
}

// ---- in ---------------------------------------------------------------------------------------------------------------
// What a call works with besides its arguments.
typedef struct Block {
  Slot *slot;
  int first, live;              // elements of the block; lanes beyond repeat the last one
  const int *vertex[PB_BLOCK];  // of the element in each lane
  double bad[PB_BLOCK];         // 0, or NaN where an input or an output is not finite
  int *origin;                  // of each slot, for find_origin
} Block;

// x * 0 is zero of a finite x, and NaN of others.
static void check_finite(double *restrict bad, const num *restrict x) {
  for (int i = 0; i < PB_BLOCK; i++) bad[i] += re(x[i]) * 0 + im(x[i]) * 0;
}

static void load_vertices(const Block *b, const num *from, const pbPort *port, num *to) {
  for (int i = 0; i < PB_BLOCK; i++) to[i] = from[3 * (size_t)b->vertex[i][port->index] + port->offset];
}

static void load_strided(const Block *b, const num *from, size_t stride, num *to) {
  if (!stride) {
    for (int i = 0; i < PB_BLOCK; i++) to[i] = from[0];
    return;
  }

  from += (size_t)b->first * stride;
  for (int i = 0; i < b->live; i++) to[i] = from[(size_t)i * stride];
  for (int i = b->live; i < PB_BLOCK; i++) to[i] = to[b->live - 1];
}

static void load_input(const pbRun *run, const pbPort *port, const Block *b, num *to) {
  if (port->group == pb_groupParameter) {
    // One parameter for all, or one in each stride.
    size_t stride = run->stride ? (size_t)run->stride[port->index] : 0;
    load_strided(b, (const num *)run->parameter[port->index] + port->offset, stride, to);
  } else if (port->group == pb_groupTimestep || port->group == pb_groupTime) {
    load_strided(b, run->vertices[port->group], 0, to);
  } else if (run->vertex) {
    // By the element's table of points, or in rows of a grid.
    load_vertices(b, run->vertices[port->group], port, to);
  } else {
    load_strided(b, (const num *)run->vertices[port->group] + 3 * (size_t)run->row[port->index] + port->offset, 3, to);
  }
}

static void load_block(const pbRun *run, int first, int live, Block *b) {
  const pbProgram *p = run->program;
  PB_ASSERT(live > 0 && live <= PB_BLOCK && first + live <= run->count);
  b->first = first;
  b->live = live;

  // Lanes beyond the last element of a short block repeat it, so that they are finite where it is.
  for (int i = 0; i < PB_BLOCK; i++) {
    b->bad[i] = 0;
    if (run->vertex) b->vertex[i] = run->vertex + (size_t)(first + (i < live ? i : live - 1)) * (size_t)run->points;
  }

  for (int k = 0; k < p->input_count; k++) {
    num *to = b->slot[p->input[k].slot].lane;
    load_input(run, &p->input[k], b, to);
    check_finite(b->bad, to);
  }
}

// ---- out --------------------------------------------------------------------------------------------------------------
// Slots hold a value of many elements, rows many values of an element: transposed in tiles of four by four.
static void store_tile(const Slot *slot, const uint16_t *output, num *to, size_t n) {
  const num *a = slot[output[0]].lane, *b = slot[output[1]].lane, *c = slot[output[2]].lane, *d = slot[output[3]].lane;
  for (int i = 0; i < PB_BLOCK; i += 4, to += 4 * n) num_transpose4(a + i, b + i, c + i, d + i, to, n);
}

static void store_rows(const pbRun *run, const pbOutputRows *rows, const Block *b) {
  PB_ASSERT(rows->first + rows->n <= run->program->output_count);
  const uint16_t *output = run->program->output + rows->first;
  size_t n = (size_t)rows->n;
  num *to = (num *)rows->to + (size_t)b->first * n;
  int k = 0;

  if (b->live == PB_BLOCK) {
    for (; k + 4 <= rows->n; k += 4) store_tile(b->slot, output + k, to + k, n);
  }

  // What is left of full blocks, and all of short ones.
  for (; k < rows->n; k++) {
    for (int i = 0; i < b->live; i++) to[(size_t)i * n + (size_t)k] = b->slot[output[k]].lane[i];
  }
}

// Results of an element with a fault: an infinite value, no gradient and no Hessian.
static void spoil_rows(const pbRun *run, int e) {
  for (int r = 0; r < 3; r++) {
    const pbOutputRows *rows = &run->rows[r];
    num *to = rows->to;

    if (!to) continue;
    to += (size_t)e * (size_t)rows->n;
    for (int k = 0; k < rows->n; k++) to[k] = r == 0 ? INFINITY : 0;
  }
}

static size_t vertex_of(const pbRun *run, int point, int e) {
  return (size_t)(run->vertex ? run->vertex[(size_t)e * (size_t)run->points + (size_t)point] : run->row[point] + e);
}

// Where the cotangents of a port's array go; NULL: not wanted.
static num *cotangents_of(const pbRun *run, const pbPort *port) {
  if (port->group != pb_groupParameter) return run->bar[port->group];
  return run->parameter_bar ? run->parameter_bar[port->index] : NULL;
}

// Element by element, so that sums do not depend on the size of blocks.
static void add_port(const pbRun *run, const pbPort *port, const Block *b, const num *from) {
  bool parameter = port->group == pb_groupParameter;
  num *to = cotangents_of(run, port);
  if (!to) return;
  size_t stride = parameter && run->stride ? (size_t)run->stride[port->index] : 0;
  for (int i = 0; i < b->live; i++) {
    if (b->bad[i] != 0) continue;
    size_t at = port->group <= pb_groupPrevious ? 3 * vertex_of(run, port->index, b->first + i) : (size_t)(b->first + i) * stride;
    num bar = from[i];
    PB_MUTE(pb_muteEnergy, 1, &bar, 1);
    to[at + port->offset] += bar;
  }
}

// ---- faults -----------------------------------------------------------------------------------------------------------
// Step by step again: `origin` of a slot is the instruction that made it not finite from finite operands, counted from 1.
static int find_origin(const pbProgram *p, Slot *slot, int *origin) {
  for (int k = 0; k < p->slots; k++) origin[k] = 0;

  for (int at = 0; at < p->count; at++) {
    const pbInstruction *s = &p->code[at];
    int before = 0;
    double value[4] = {0};

    for (int k = 0; k < pbCode_Operands((pbCode)s->code); k++) value[k] = re(slot[s->of[k]].lane[0]);

    // An operand that was not finite before; of a choice only what is taken counts.
    for (int k = 0; k < pbCode_Operands((pbCode)s->code) && !before; k++) {
      bool taken = s->code != pb_opSelect_code || k == 0 || (value[0] > 0) == (k == 1);
      if (taken) before = origin[s->of[k]];
    }

    execute(s, 1, slot);
    num result = slot[s->to].lane[0];
    bool bad = re(result) * 0 + im(result) * 0 != 0;
    origin[s->to] = 0;
    if (bad) origin[s->to] = before ? before : at + 1;
  }

  int last = 0;
  for (int k = 0; k < p->output_count && !last; k++) last = origin[p->output[k]];
  return last;
}

static void operands_at(const pbProgram *p, int at, Slot *slot, double *operand) {
  // All instructions before it.
  execute(p->code, at, slot);
  for (int k = 0; k < pbCode_Operands((pbCode)p->code[at].code); k++) operand[k] = re(slot[p->code[at].of[k]].lane[0]);
}

static bool diagnose_input(const pbProgram *p, const Block *b, pbEnergyFault *fault) {
  for (int k = 0; k < p->input_count; k++) {
    num x = b->slot[p->input[k].slot].lane[0];
    if (re(x) * 0 + im(x) * 0 == 0) continue;
    pbRun_ExplainInput(&p->input[k], re(x), fault);

    return true;
  }

  return false;
}

// Why an element has a fault: run once more, alone, instruction by instruction.
static void diagnose(const pbRun *run, int element, Block *b, pbEnergyFault *fault) {
  const pbProgram *p = run->program;
  double operand[4] = {0};

  fault->element = element;
  load_block(run, element, 1, b);
  if (diagnose_input(p, b, fault)) return;

  int at = find_origin(p, b->slot, b->origin) - 1;
  if (at < 0) return;

  // Its operands, before later instructions write over their slots.
  load_block(run, element, 1, b);
  operands_at(p, at, b->slot, operand);
  pbRun_Explain(p, at, operand, fault);
}

// ---- all elements -----------------------------------------------------------------------------------------------------
static void store_block(const pbRun *run, Block *b) {
  const pbProgram *p = run->program;
  for (int k = 0; k < p->stored_count; k++) check_finite(b->bad, b->slot[p->stored[k]].lane);

  for (int r = 0; r < 3; r++) {
    if (run->rows[r].to) store_rows(run, &run->rows[r], b);
  }

  if (p->port) {
    for (int k = 0; k < p->output_count; k++) add_port(run, &p->port[k], b, b->slot[p->output[k]].lane);
  }
}

int NUM(pbRun_Elements)(const pbRun *run, pbEnergyFault *fault) {
  const pbProgram *p = run->program;
  PB_ASSERT(p->constant_count + p->input_count <= p->slots);
  PB_VALIDATE(!run->vertex || pb_allWithin(run->vertex, run->count * run->points, 0, INT_MAX));
  pbArena arena = pbArena_Over(run->work, SIZE_MAX / 2);
  Block b = {.slot = pbArena_Take(&arena, (size_t)p->slots, sizeof(Slot)),
             .origin = pbArena_Take(&arena, (size_t)p->slots, sizeof(int))};
  int first_bad = -1;

  // Constants have the first slots, which nothing writes.
  for (int k = 0; k < p->constant_count; k++) {
    for (int i = 0; i < PB_BLOCK; i++) b.slot[k].lane[i] = p->constant[k];
  }

  for (int first = 0; first < run->count; first += PB_BLOCK) {
    // Load, run, store; what is not finite is found in inputs and outputs alone.
    load_block(run, first, run->count - first < PB_BLOCK ? run->count - first : PB_BLOCK, &b);
    execute(p->code, p->count, b.slot);
    store_block(run, &b);

    for (int i = 0; i < b.live; i++) {
      if (b.bad[i] == 0) continue;
      spoil_rows(run, first + i);
      if (first_bad < 0) first_bad = first + i;
    }
  }

  if (fault) *fault = (pbEnergyFault){.element = -1};

  if (fault && first_bad >= 0) diagnose(run, first_bad, &b, fault);
  return first_bad;
}
