// Streaming stores skip the caches: no line is read before it is overwritten, and the rows still
// wanted stay. Reading the result in order afterwards was as fast as after ordinary stores, also
// where it would have fit the caches.
//
// `stream_copy` and `stream_zero` do as many leading bytes as they can, and say how many. Streaming
// stores of x86 are not ordered by the locks that hand a result over: `stream_fence` orders them.
#pragma once

#include <cstddef>
#include <cstdint>

// ThreadSanitizer does not see these stores, so it gets ordinary ones.
#if defined(__SANITIZE_THREAD__)
#define TIERKV_NO_STREAM 1
#elif defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tierkv {

inline bool aligned(const void* to, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(to) % bytes == 0;
}

#if defined(TIERKV_NO_STREAM) || !(defined(__x86_64__) || defined(__aarch64__))

inline std::size_t stream_copy(std::uint8_t*, const std::uint8_t*, std::size_t) { return 0; }
inline std::size_t stream_zero(std::uint8_t*, std::size_t) { return 0; }
inline void stream_fence() {}

#elif defined(__x86_64__)

// Found once, as the module is loaded. 16 bytes a store reach 0.6 of the speed of 32; 64 are no
// faster than 32.
inline const bool kAvx2 = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}();

__attribute__((target("avx2"))) inline std::size_t stream_copy_avx2(std::uint8_t* to, const std::uint8_t* from,
                                                                    std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(source), b = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
  }
  return i;
}

inline std::size_t stream_copy_sse2(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 16 <= bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  return i;
}

inline std::size_t stream_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  if (kAvx2 && aligned(to, 32)) return stream_copy_avx2(to, from, bytes);
  return aligned(to, 16) ? stream_copy_sse2(to, from, bytes) : 0;
}

inline std::size_t stream_zero(std::uint8_t* to, std::size_t bytes) {
  std::size_t i = 0;
  if (!aligned(to, 16)) return 0;
  for (; i + 16 <= bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_setzero_si128());
  }
  return i;
}

inline void stream_fence() { _mm_sfence(); }

#else

inline void stream_pair(std::uint8_t* to, uint8x16_t a, uint8x16_t b) {
  asm volatile("stnp %q0, %q1, [%2]" : : "w"(a), "w"(b), "r"(to) : "memory");
}

inline std::size_t stream_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) stream_pair(to + i, vld1q_u8(from + i), vld1q_u8(from + i + 16));
  return i;
}

inline std::size_t stream_zero(std::uint8_t* to, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 32 <= bytes; i += 32) stream_pair(to + i, vdupq_n_u8(0), vdupq_n_u8(0));
  return i;
}

inline void stream_fence() {}  // stnp obeys the ordinary barriers

#endif

}  // namespace tierkv
