// Random numbers of a training: seeds of generators, by what they are for. Tests: tests/unit/test_learn.c.
#include "learn/train.h"

// By what they are for, never by an order.
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t pbTrain_Draw(const pbTrain *t, uint64_t stream, uint64_t a, uint64_t b) {
  uint64_t z = mix(t->settings.seed + 0x9e3779b97f4a7c15u);
  z = mix(z ^ (stream + 1) * 0xd1342543de82ef95u);
  z = mix(z ^ (a + 1) * 0x9e3779b97f4a7c15u);

  return mix(z ^ (b + 1) * 0xda942042e4dd58b5u);
}
