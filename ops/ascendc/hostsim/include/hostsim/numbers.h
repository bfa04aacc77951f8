// The 16-bit float types that C++17 lacks.
#pragma once

#include <cstdint>
#include <cstring>

namespace hostsim {

inline float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t ToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 31) return FromBits(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * (1.0f / 16777216.0f);
    return sign ? -magnitude : magnitude;
  }
  return FromBits(sign | (exponent + 112) << 23 | fraction << 13);
}

// Round to nearest, ties to even; what is too large saturates, as the vector unit does by default.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = ToBits(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7bffu;
  if (magnitude < 0x38800000u) {
    const float scaled = FromBits(magnitude) * 16777216.0f;
    auto whole = static_cast<uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(whole);
    whole += rest > 0.5f || (rest == 0.5f && (whole & 1));
    return static_cast<uint16_t>(sign | whole);
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace hostsim

struct half {
  uint16_t bits;

  half() = default;
  half(float value) : bits(hostsim::FloatToHalf(value)) {}
  operator float() const { return hostsim::HalfToFloat(bits); }
};

struct bfloat16_t {
  uint16_t bits;
};
