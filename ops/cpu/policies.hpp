// Every policy that has a kernel.
#pragma once

#include <variant>

#include "place_clock.hpp"
#include "place_last_step.hpp"
#include "place_lru.hpp"
#include "place_s3_fifo.hpp"
#include "place_set_fifo.hpp"
#include "place_set_lru.hpp"
#include "place_sieve.hpp"
#include "place_unbounded.hpp"
#include "place_wide_clock.hpp"

namespace tierkv {

// One of them with its tables; monostate: none.
using AnyPolicy = std::variant<std::monostate, SetFifo, Clock, WideClock, Lru, SetLru, Sieve, S3Fifo, LastStep,
                               Unbounded>;

}  // namespace tierkv
