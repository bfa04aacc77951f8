// Conversions between element types.
#pragma once

#include <cmath>
#include <limits>

#include "hostsim/vector.h"

namespace hostsim {

// What Atlas A2 and A3 convert in one instruction.
template <typename To, typename From>
constexpr bool kCast =
    (std::is_same_v<From, float> && kOneOf<To, float, half, int64_t, int32_t, int16_t>) ||
    (std::is_same_v<From, half> && kOneOf<To, float, int32_t, int16_t, int8_t, uint8_t>) ||
    (std::is_same_v<From, int32_t> && kOneOf<To, float, int64_t, int16_t>) ||
    (std::is_same_v<From, int16_t> && kOneOf<To, float, half>) ||
    (kOneOf<From, int8_t, uint8_t> && std::is_same_v<To, half>) ||
    (std::is_same_v<From, int64_t> && kOneOf<To, float, int32_t>);

inline double Rounded(double value, AscendC::RoundMode mode) {
  using AscendC::RoundMode;
  switch (mode) {
    case RoundMode::CAST_FLOOR: return std::floor(value);
    case RoundMode::CAST_CEIL: return std::ceil(value);
    case RoundMode::CAST_ROUND: return std::round(value);
    case RoundMode::CAST_TRUNC: return std::trunc(value);
    default: return std::nearbyint(value);
  }
}

template <typename To, typename From>
To Converted(From from, AscendC::RoundMode mode) {
  if constexpr (kOneOf<To, half, float>) {
    const float value = static_cast<float>(from);
    return std::is_same_v<To, From> ? To(static_cast<float>(Rounded(value, mode))) : To(value);
  } else if constexpr (kOneOf<From, half, float>) {
    const double value = Rounded(static_cast<double>(static_cast<float>(from)), mode);
    if (!(value >= static_cast<double>(std::numeric_limits<To>::min()))) {
      return value != value ? To{0} : std::numeric_limits<To>::min();
    }
    if (value >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    if (from < std::numeric_limits<To>::min()) return std::numeric_limits<To>::min();
    if (from > std::numeric_limits<To>::max()) return std::numeric_limits<To>::max();
    return static_cast<To>(from);
  }
}

}  // namespace hostsim

namespace AscendC {

template <typename To, typename From>
inline void Cast(const LocalTensor<To> &dst, const LocalTensor<From> &src, const RoundMode &mode, uint32_t count,
                 HOSTSIM_SITE) {
  static_assert(hostsim::kCast<To, From>, "Cast: no such pair of types on this device");
  constexpr bool rounds = hostsim::kOneOf<From, float, half> && !hostsim::kOneOf<To, float, half, int8_t, uint8_t>;
  const uint64_t from = uint64_t{count} * sizeof(From), to = uint64_t{count} * sizeof(To);
  hostsim::Instruction op(hostsim::Pipe::kVector, "Cast", HOSTSIM_HERE);
  op.Cost(to, ((from > to ? from : to) + 255) / 256);
  if (!op.Check(!rounds || mode != RoundMode::CAST_NONE, "type", "CAST_NONE where a rounding mode is needed")) return;
  if (count == 0 || !op.Read(src.Memory(), from)) return;
  if (sizeof(To) == sizeof(From) ? !op.Write(dst.Memory(), to) : !op.WriteApart(dst.Memory(), to)) return;
  const bool all = op.Defined(src.Memory(), from);
  To *d = dst.Data();
  const From *s = src.Data();
#pragma GCC ivdep
  for (uint32_t i = 0; i < count; ++i) d[i] = hostsim::Converted<To>(s[i], mode);
  hostsim::Mark(op, dst.Memory(), sizeof(To), count, all, [&](uint64_t i) {
    return op.Defined(src.Memory(static_cast<uint32_t>(i)), sizeof(From));
  });
}

}  // namespace AscendC
