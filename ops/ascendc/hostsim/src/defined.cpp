// Which bytes of the unified buffer, and which bits of masks, hold values.
#include <vector>

#include "machine.h"
#include "ub.h"

namespace hostsim {
namespace {

struct Bits {
  uint32_t offset;
  uint8_t unknown;
};

// Bytes that are known in part only: the tail of a mask, nearly always none.
std::vector<Bits> UnknownBits(const Ub &ub, uint64_t bytes) {
  std::vector<Bits> found;
  if (core->unknown_bits.empty()) return found;
  for (uint64_t i = 0; i < bytes; ++i) {
    const auto byte = core->unknown_bits.find(static_cast<uint32_t>(ub.at + i));
    if (byte != core->unknown_bits.end()) found.push_back({static_cast<uint32_t>(i), byte->second});
  }
  return found;
}

void ForgetBits(const Ub &ub, uint64_t bytes) {
  if (core->unknown_bits.empty()) return;
  for (uint64_t i = 0; i < bytes; ++i) core->unknown_bits.erase(static_cast<uint32_t>(ub.at + i));
}

}  // namespace

void MarkKnown(const Ub &ub, uint64_t bytes) {
  ForgetBits(ub, bytes);
  ForMasks(ub, bytes, [](uint32_t &known, uint32_t mask, uint64_t) { known |= mask; });
}

void Instruction::Define(const Ub &target, uint64_t bytes) { MarkKnown(target, bytes); }

void Instruction::Undefine(const Ub &target, uint64_t bytes) {
  ForMasks(target, bytes, [](uint32_t &known, uint32_t mask, uint64_t) { known &= ~mask; });
}

bool Instruction::Defined(const Ub &source, uint64_t bytes) const {
  bool all = true;
  ForMasks(source, bytes, [&](uint32_t known, uint32_t mask, uint64_t) { all &= (known & mask) == mask; });
  return all;
}

// Operands are aligned, so that their cells match one to one.
void Instruction::Follow(const Ub &target, uint64_t bytes, const Ub &a, const Ub &b) {
  const std::vector<Bits> of_a = UnknownBits(a, bytes), of_b = UnknownBits(b, bytes);
  const uint64_t first = target.at / kCell;
  ForgetBits(target, bytes);
  ForMasks(target, bytes, [&](uint32_t &known, uint32_t mask, uint64_t cell) {
    const UbCell *from = core->cells + (cell - first);
    const uint32_t both = from[a.at / kCell].known & from[b.at / kCell].known;
    known = (known & ~mask) | (both & mask);
  });
  for (const auto *each : {&of_a, &of_b}) {
    for (const Bits &bits : *each) core->unknown_bits[target.at + bits.offset] |= bits.unknown;
  }
}

void Instruction::Require(const Ub &source, uint64_t bytes) {
  ForMasks(source, bytes, [&](uint32_t known, uint32_t mask, uint64_t cell) {
    if ((known & mask) != mask) {
      const std::string where = UbName(static_cast<uint32_t>(cell * kCell));
      AddFault("undefined", std::string(name_) + " uses bytes never written: " + where, site_, name_);
    }
  });
}

void Instruction::DefineBits(const Ub &byte, uint8_t known) {
  if (known == 0) return Undefine(byte, 1);
  Define(byte, 1);
  if (known != 0xff) core->unknown_bits[byte.at] = static_cast<uint8_t>(~known);
}

bool Instruction::DefinedBits(const Ub &mask, uint64_t from, uint64_t to) const {
  const Ub first = mask + from / 8;
  const uint64_t bytes = (to + 7) / 8 - from / 8;
  if (!Defined(first, bytes)) return false;
  for (const Bits &bits : UnknownBits(first, bytes)) {
    const uint64_t bit = (from / 8 + bits.offset) * 8;
    for (uint64_t k = 0; k < 8; ++k) {
      if (bits.unknown >> k & 1 && bit + k >= from && bit + k < to) return false;
    }
  }
  return true;
}

void Instruction::RequireBits(const Ub &mask, uint64_t bits) {
  Require(mask, (bits + 7) / 8);
  if (Defined(mask, (bits + 7) / 8) && !DefinedBits(mask, 0, bits)) {
    AddFault("undefined", std::string(name_) + " uses bits of a mask that stand for values never written: " +
                              UbName(mask.at), site_, name_);
  }
}

}  // namespace hostsim
