// From nodes to instructions: products fused into sums, an order that keeps few values alive, and slots for them.
// Tests: tests/unit/test_energy.c, tests/unit/test_energy_formula.c.
#include "energy/program.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"

int pbCode_Operands(pbCode code) {
  if (code < (int)pb_opCount) return pbOp_Operands((pbOp)code);
  return code >= pb_mulAddMul ? 4 : 3;
}

static void *take_array(pbGraph *g, int count, size_t size) {
  void *a = pbContext_AllocArray(g->ctx, (size_t)count + 1, size);
  if (!a) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return a;
}

// While compiling: node i becomes step[i], whose operands are nodes.
typedef struct Step {
  int code, of[4];
  int uses;  // by other steps; outputs count as well
  int last;  // step in the order that reads it last
  int slot;  // -1: none yet
  bool is_root, done;
} Step;

typedef struct Compiler {
  pbGraph *g;
  Step *step;
  int *order, count;  // nodes in the order they are computed, without constants and inputs
  int *free_slot, free_count, slots;
} Compiler;

// ---- which instructions -----------------------------------------------------------------------------------------------
static void count_uses(Compiler *c, const int *output, int outputs) {
  // Outputs are used by the caller.
  for (int k = 0; k < outputs; k++) {
    c->step[output[k]].uses++;
    c->step[output[k]].is_root = true;
  }

  // From the last node to the first: a node is used when one that uses it is.
  for (int i = c->g->count - 1; i >= 0; i--) {
    const pbNode *n = &c->g->node[i];
    Step *s = &c->step[i];
    s->code = n->op;
    s->slot = -1;
    memcpy(s->of, n->of, sizeof n->of);
    if (!s->uses) continue;
    for (int k = 0; k < pbOp_Operands(n->op); k++) c->step[n->of[k]].uses++;
  }
}

static bool is_product(const Compiler *c, int i) { return c->step[i].code == pb_opMul_code && c->step[i].uses == 1; }

static void take_product(Compiler *c, Step *s, int at, int product) {
  s->of[at] = c->step[product].of[0];
  s->of[at + 1] = c->step[product].of[1];
  c->step[product].uses = 0;
}

// Products that one sum alone reads become part of it.
static void fuse_products(Compiler *c) {
  for (int i = 0; i < c->g->count; i++) {
    Step *s = &c->step[i];
    bool sum = s->code == pb_opAdd_code;

    if (!s->uses || (!sum && s->code != pb_opSub_code)) continue;
    int a = s->of[0], b = s->of[1];
    bool left = is_product(c, a), right = is_product(c, b);

    // a b + c, a b - c, c - a b, and both sides products.
    if (left) take_product(c, s, 0, a);
    if (right) take_product(c, s, left ? 2 : 0, b);
    if (left && right) s->code = sum ? pb_mulAddMul : pb_mulSubMul;
    else if (left) {
      s->of[2] = b;
      s->code = sum ? pb_mulAdd : pb_mulSub;
    } else if (right) {
      s->of[2] = a;
      s->code = sum ? pb_mulAdd : pb_subMul;
    }
  }
}

// ---- in which order ---------------------------------------------------------------------------------------------------
static bool is_leaf(const Step *s) { return s->code == pb_opConstant_code || s->code == pb_opInput_code; }

static void order_as_made(Compiler *c) {
  c->count = 0;

  for (int i = 0; i < c->g->count; i++) {
    if (c->step[i].uses && !is_leaf(&c->step[i])) c->order[c->count++] = i;
  }
}

// An operand that is not computed yet, or -1.
static int open_operand(const Compiler *c, const Step *s) {
  if (s->done) return -1;

  for (int j = 0; j < pbCode_Operands((pbCode)s->code); j++) {
    if (!c->step[s->of[j]].done) return s->of[j];
  }

  return -1;
}

// Each output with what it alone needs right before it: depth first, with a stack instead of recursion.
static void order_by_need(Compiler *c, const int *output, int outputs, int *stack) {
  c->count = 0;
  for (int i = 0; i < c->g->count; i++) c->step[i].done = is_leaf(&c->step[i]);

  for (int k = 0; k < outputs; k++) {
    int depth = 0;
    PB_ASSERT(output[k] >= 0 && output[k] < c->g->count);
    stack[depth++] = output[k];

    // What is on top waits for its operands, one after the other; then it is next in the order.
    while (depth) {
      Step *s = &c->step[stack[depth - 1]];
      int open = open_operand(c, s);

      if (open >= 0) {
        PB_ASSERT(depth <= c->g->count);
        stack[depth++] = open;
        continue;
      }

      if (!s->done) c->order[c->count++] = stack[depth - 1];
      s->done = true;
      depth--;
    }
  }
}

// ---- which slots ------------------------------------------------------------------------------------------------------
static int take_slot(Compiler *c) {
  if (!c->free_count) return c->slots++;
  c->free_count--;
  return c->free_slot[c->free_count];
}

static void find_last_uses(Compiler *c) {
  // Outputs and constants are read after the last step.
  for (int i = 0; i < c->g->count; i++) {
    bool stays = c->step[i].is_root || c->step[i].code == pb_opConstant_code;
    c->step[i].last = stays ? c->count : -1;
  }

  for (int at = c->count - 1; at >= 0; at--) {
    const Step *s = &c->step[c->order[at]];
    for (int k = 0; k < pbCode_Operands((pbCode)s->code); k++) {
      if (c->step[s->of[k]].last < at) c->step[s->of[k]].last = at;
    }
  }
}

static void assign_slots(Compiler *c) {
  c->free_count = 0;
  c->slots = 0;
  find_last_uses(c);

  // Constants first, then inputs, where a run finds them by number.
  for (int leaf = pb_opConstant_code; leaf <= (int)pb_opInput_code; leaf++) {
    for (int i = 0; i < c->g->count; i++)
      if (c->step[i].uses && c->step[i].code == leaf) c->step[i].slot = take_slot(c);
  }

  // A step writes where an operand stood that nothing reads after it.
  for (int at = 0; at < c->count; at++) {
    Step *s = &c->step[c->order[at]];
    for (int k = 0; k < pbCode_Operands((pbCode)s->code); k++) {
      Step *operand = &c->step[s->of[k]];
      PB_ASSERT(operand->slot >= 0);  // computed before it is read
      if (operand->last != at) continue;
      c->free_slot[c->free_count++] = operand->slot;
      operand->last = -1;  // once, if it occurs twice
    }

    // Reuse of the slot just freed.
    s->slot = take_slot(c);
  }
}

// ---- the program ------------------------------------------------------------------------------------------------------
// Which number an input is: the group of its array, its index there and the entry.
static pbPort port_of(const pbInputs *in, int input) {
  const int starts[] = {0, in->rest, in->previous, in->timestep, in->time};
  PB_ASSERT(input >= 0 && input < in->count);

  // Arrays of points and the two single numbers: the last that begins before it.
  if (input < in->parameter[0]) {
    int group = pb_groupTime;
    while (input < starts[group]) group--;
    int at = input - starts[group];
    return (pbPort){.group = (uint8_t)group, .index = (uint8_t)(at / 3), .offset = (uint8_t)(at % 3)};
  }

  if (input >= in->weight) {
    int at = input - in->weight;
    return (pbPort){.group = pb_groupWeight, .index = (uint8_t)(at / 3), .offset = (uint8_t)(at % 3)};
  }

  int i = 0;
  while (input >= in->parameter[i + 1]) i++;
  return (pbPort){.group = pb_groupParameter, .index = (uint8_t)i, .offset = (uint8_t)(input - in->parameter[i])};
}

static void write_leaves(Compiler *c, pbProgram *p) {
  for (int i = 0; i < c->g->count; i++) {
    const Step *s = &c->step[i];
    if (!s->uses) continue;
    if (s->code == pb_opConstant_code) p->constant[p->constant_count++] = c->g->node[i].value;

    // Ports say where an input's numbers are, and the slot where they go.
    if (s->code == pb_opInput_code) {
      pbPort port = port_of(&c->g->inputs, c->g->node[i].of[0]);
      port.slot = (uint16_t)s->slot;
      p->input[p->input_count++] = port;
    }
  }
}

static void write_code(Compiler *c, const int *output, int outputs, pbProgram *p) {
  write_leaves(c, p);

  for (int at = 0; at < c->count; at++) {
    const Step *s = &c->step[c->order[at]];
    pbInstruction *to = &p->code[at];

    to->code = (uint16_t)s->code;
    to->to = (uint16_t)s->slot;
    for (int k = 0; k < pbCode_Operands((pbCode)s->code); k++) to->of[k] = (uint16_t)c->step[s->of[k]].slot;

    // The place in the formula that a fault of this instruction refers to.
    p->place[at] = c->g->node[c->order[at]].place;
  }

  // The same slot may be several outputs: stored says each once, to be checked.
  for (int k = 0; k < outputs; k++) {
    Step *s = &c->step[output[k]];
    PB_ASSERT(s->slot >= 0 && s->slot < c->slots);
    p->output[k] = (uint16_t)s->slot;
    if (s->is_root) p->stored[p->stored_count++] = (uint16_t)s->slot;
    s->is_root = false;
  }

  PB_ASSERT(p->stored_count <= outputs);
  p->count = c->count;
  p->slots = c->slots;
  p->output_count = outputs;
}

// Slots in the better of two orders: as the nodes were made, which keeps what derivatives share close, or by need. The fewer, the
// more of a block stays in cache.
static void choose_order(Compiler *c, const int *output, int outputs, int *stack) {
  count_uses(c, output, outputs);
  fuse_products(c);
  order_as_made(c);
  assign_slots(c);
  int as_made = c->slots;

  order_by_need(c, output, outputs, stack);
  assign_slots(c);
  if (c->slots <= as_made) return;

  order_as_made(c);
  assign_slots(c);
}

static void allocate_program(Compiler *c, int outputs, pbProgram *p) {
  pbGraph *g = c->g;
  int leaves = 0;

  for (int i = 0; i < g->count; i++) leaves += c->step[i].uses && is_leaf(&c->step[i]);
  p->code = take_array(g, c->count, sizeof *p->code);
  p->place = take_array(g, c->count, sizeof *p->place);
  p->constant = take_array(g, leaves, sizeof *p->constant);
  p->input = take_array(g, leaves, sizeof *p->input);
  p->output = take_array(g, outputs, sizeof *p->output);
  p->stored = take_array(g, outputs, sizeof *p->stored);
}

void pbProgram_Compile(pbGraph *g, const int *output, int outputs, pbProgram *p) {
  *p = (pbProgram){0};
  Compiler c = {.g = g, .step = take_array(g, g->count, sizeof(Step)), .order = take_array(g, g->count, sizeof(int))};
  c.free_slot = take_array(g, g->count, sizeof(int));
  int *stack = take_array(g, g->count, sizeof(int));

  if (!g->status) {
    choose_order(&c, output, outputs, stack);
    allocate_program(&c, outputs, p);
    if (c.slots > UINT16_MAX)
      pbGraph_Fail(g, pb_bad_input, "the formula is too large: more than %d values at a time", UINT16_MAX);
  }

  if (!g->status) write_code(&c, output, outputs, p);

  pbContext_Free(g->ctx, c.step);
  pbContext_Free(g->ctx, c.order);
  pbContext_Free(g->ctx, c.free_slot);
  pbContext_Free(g->ctx, stack);
}

void pbProgram_CompilePull(pbGraph *g, const int *node, int first, int last, pbProgram *p) {
  int *output = take_array(g, last - first, sizeof *output), count = 0, zero = pbGraph_Constant(g, 0);
  pbPort *port = take_array(g, last - first, sizeof *port);

  // Derivatives that vanish are no outputs.
  int end = g->status ? first : last;
  for (int i = first; i < end; i++) {
    if (node[i] == zero) continue;
    port[count] = port_of(&g->inputs, i);
    output[count] = node[i];
    count++;
  }

  *p = (pbProgram){0};
  if (!g->status) pbProgram_Compile(g, output, count, p);
  p->port = port;
  pbContext_Free(g->ctx, output);
}

void pbProgram_Destroy(pbContext *ctx, pbProgram *p) {
  pbContext_Free(ctx, p->code);
  pbContext_Free(ctx, p->place);
  pbContext_Free(ctx, p->constant);
  pbContext_Free(ctx, p->input);
  pbContext_Free(ctx, p->output);
  pbContext_Free(ctx, p->stored);
  pbContext_Free(ctx, p->port);
}
