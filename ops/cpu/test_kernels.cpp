// The kernels alone, against the plainest code that could be right: no Python, no torch. For the
// sanitizers and for other machines:
//
//   python ops/cpu/generate_constants.py tierkv/constants.py build/constants.hpp
//   aarch64-linux-gnu-g++ -std=c++17 -O2 -static -pthread -Ibuild ops/cpu/test_kernels.cpp -o build/test_kernels
//   qemu-aarch64 build/test_kernels
//
// -DPLANT_OVERFLOW and -DPLANT_RACE put in a fault that a sanitizer must find.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "append.hpp"
#include "install.hpp"
#include "lookup.hpp"
#include "plan.hpp"
#include "policies.hpp"
#include "serve.hpp"

namespace {

using namespace tierkv;
using Bytes = std::vector<std::uint8_t>;
using Ints = std::vector<std::int32_t>;

#define CHECK(condition) \
  if (!(condition)) std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), std::exit(1)

// One group of lanes with its tables, and one batch of all lanes. Row i has lane i.
struct World {
  int lanes, queries, top_k, page_bits = 4, pages, slots, width, threads;
  int entries, positions;
  std::mt19937 random;
  std::vector<std::int16_t> slot_of;
  Ints id_at, block_table, ids, lane, kv_len, q_len, stable;
  Ints out_ids, index, length, miss_id, miss_from, miss_count, slot, count;
  std::vector<std::int8_t> kind;
  std::vector<std::int64_t> counters = std::vector<std::int64_t>(kCounterCount);
  Bytes pool, backing, selection, fresh;

  World(int lanes_, int queries_, int top_k_, int pages_, int slots_, int width_, int threads_, int seed)
      : lanes(lanes_), queries(queries_), top_k(top_k_), pages(pages_), slots(slots_), width(width_),
        threads(threads_), entries(queries_ * top_k_), positions(pages_ << page_bits), random(seed),
        slot_of(lanes * positions, -1), id_at(lanes * slots, -1), block_table(lanes * pages),
        ids(lanes * entries), lane(lanes), kv_len(lanes, positions), q_len(lanes, queries),
        stable(lanes, positions - queries), out_ids(ids), index(ids), length(lanes * queries),
        miss_id(ids), miss_from(ids), miss_count(lanes), slot(ids), count(lanes),
        kind(lanes * entries), pool(std::size_t(lanes) * slots * width),
        backing(std::size_t(lanes) * positions * width), selection(std::size_t(lanes) * entries * width),
        fresh(std::size_t(lanes) * queries * width) {
    for (int i = 0; i < lanes; ++i) lane[i] = i;
    for (int i = 0; i < lanes * pages; ++i) block_table[i] = lanes * pages - 1 - i;
    for (auto& byte : backing) byte = static_cast<std::uint8_t>(random());
    for (auto& byte : fresh) byte = static_cast<std::uint8_t>(random());
  }

  void draw() {
    for (auto& id : ids) id = static_cast<int>(random() % (positions + 4)) - 2;
  }

  SlotTable table() { return {slot_of.data(), false, positions, lanes, positions}; }

  PlanArgs plan_args() {
    PlanArgs a;
    a.rows = lanes, a.queries = queries, a.top_k = top_k;
    a.ids = ids.data(), a.ids_row = entries, a.ids_query = top_k;
    a.lanes = lane.data(), a.kv_len = kv_len.data(), a.q_len = q_len.data(), a.stable = stable.data();
    a.block_table = {block_table.data(), pages, lanes, pages};
    a.page_bits = page_bits, a.slot_of = table();
    a.out_ids = out_ids.data(), a.kind = kind.data(), a.index = index.data(), a.length = length.data();
    a.miss_id = miss_id.data(), a.miss_from = miss_from.data(), a.miss_count = miss_count.data();
    a.counters = counters.data();
    return a;
  }

  PlaceArgs place_args() {
    PlaceArgs a;
    a.rows = lanes, a.entries = entries, a.top_k = top_k;
    a.lanes = lane.data(), a.kind = kind.data(), a.index = index.data();
    a.miss_id = miss_id.data(), a.miss_from = miss_from.data(), a.miss_count = miss_count.data();
    a.slot_of = table(), a.id_at = {id_at.data(), slots, lanes, slots};
    a.slot = slot.data(), a.count = count.data(), a.counters = counters.data();
    return a;
  }

  ServeArgs serve_args() {
    ServeArgs a;
    a.rows = lanes, a.queries = queries, a.entries = entries;
    a.lanes = lane.data(), a.kind = kind.data(), a.index = index.data();
    a.lane_count = lanes, a.slots = slots, a.backing_rows = std::int64_t{lanes} * positions;
    a.parts = 1;
    a.part[0] = {{fresh.data(), queries * width, width}, {pool.data(), slots * width, width},
                 {backing.data(), 0, width}, {selection.data(), entries * width, width},
                 static_cast<std::size_t>(width)};
#ifdef PLANT_OVERFLOW
    a.part[0].bytes += 1;
#endif
    return a;
  }

  InstallArgs install_args() {
    InstallArgs a;
    a.rows = lanes, a.entries = entries, a.lanes = lane.data(), a.miss_from = miss_from.data();
    a.miss_count = miss_count.data(), a.slot = slot.data(), a.lane_count = lanes, a.slots = slots;
    a.parts = 1;
    a.part[0] = {{selection.data(), entries * width, width}, {pool.data(), slots * width, width},
                 static_cast<std::size_t>(width)};
    return a;
  }
};

// Every valid id is served, in order, with the bytes of its position.
void check_selection(const World& w) {
  const auto equal = [&](const std::uint8_t* got, const std::uint8_t* expected) {
    return std::memcmp(got, expected, w.width) == 0;
  };
  const Bytes zero(w.width);
  for (int i = 0; i < w.lanes * w.queries; ++i) {
    const int lane = i / w.queries, position = w.positions - w.queries + i % w.queries;
    int n = 0;
    for (int k = 0; k < w.top_k; ++k) {
      const int id = w.ids[i * w.top_k + k];
      if (id < 0 || id > position) continue;
      const std::uint8_t* got = &w.selection[std::size_t(i * w.top_k + n++) * w.width];
      const int page = w.block_table[lane * w.pages + (id >> w.page_bits)];
      const std::size_t row = std::size_t(page << w.page_bits | (id & ((1 << w.page_bits) - 1)));
      const int query = id - (w.positions - w.queries);
      CHECK(equal(got, query < 0 ? &w.backing[row * w.width]
                                 : &w.fresh[std::size_t(lane * w.queries + query) * w.width]));
    }
    CHECK(w.length[i] == n);
    for (; n < w.top_k; ++n) CHECK(equal(&w.selection[std::size_t(i * w.top_k + n) * w.width], zero.data()));
  }
}

// slot_of and id_at are inverse, nothing unstable is resident, hits of the step were kept if asked.
void check_tables(const World& w, bool keeps_hits) {
  for (int lane = 0; lane < w.lanes; ++lane) {
    int resident = 0;
    for (int slot = 0; slot < w.slots; ++slot) {
      const int id = w.id_at[lane * w.slots + slot];
      CHECK(id < w.positions - w.queries);
      if (id >= 0) CHECK(w.slot_of[lane * w.positions + id] == slot);
      resident += id >= 0;
    }
    for (int id = 0; id < w.positions; ++id) resident -= w.slot_of[lane * w.positions + id] >= 0;
    CHECK(resident == 0);
    for (int i = lane * w.entries; keeps_hits && i < (lane + 1) * w.entries; ++i) {
      if (w.kind[i] == kKindHit) CHECK(w.slot_of[lane * w.positions + w.out_ids[i]] == w.index[i]);
    }
  }
}

template <class Policy>
void run_steps(World& w, const Policy& policy, bool keeps_hits, int steps) {
  for (int step = 0; step < steps; ++step) {
    w.draw();
    CHECK(plan(w.plan_args(), w.threads));
    CHECK(serve(w.serve_args(), w.threads));
    check_selection(w);
    CHECK(place(w.place_args(), policy, w.threads));
    check_tables(w, keeps_hits);
    CHECK(install(w.install_args(), w.threads));
  }
  CHECK(w.counters[kCounterSteps] == steps);
}

struct Queues {
  Ints items, at, ends;
  QueueTables tables;

  Queues(int lanes, int slots) : items(lanes * 2 * slots, -1), at(lanes * slots, -1), ends(lanes * 3) {
    tables.items = {items.data(), 2 * slots, lanes, 2 * slots};
    tables.at = {at.data(), slots, lanes, slots};
    tables.ends = {ends.data(), 3, lanes, 3};
  }
};

void run_policies(int lanes, int top_k, int pages, int width, int threads, int steps, int seed) {
  const int queries = 3, ways = 1 + seed % 64, sets = 5, slots = sets * ways;
  const auto world = [&](int n) { return World(lanes, queries, top_k, pages, n, width, threads, seed); };
  Ints hand(lanes * sets);
  SetFifo fifo;
  fifo.hand = {hand.data(), sets, lanes, sets};
  World w = world(slots);
  run_steps(w, fifo, false, steps);

  std::vector<std::int64_t> visited(lanes * sets);
  Ints clock_hand(lanes * sets);
  Clock clock;
  clock.hand = {clock_hand.data(), sets, lanes, sets};
  clock.visited = {visited.data(), sets, lanes, sets};
  w = world(slots);
  run_steps(w, clock, false, steps);

  Queues order(lanes, slots);
  Lru lru;
  lru.order = order.tables;
  w = world(slots);
  run_steps(w, lru, true, steps);

  Queues arrivals(lanes, slots);
  std::vector<std::int8_t> marks(lanes * slots);
  Ints sieve_hand(lanes, -1);
  Sieve sieve;
  sieve.order = arrivals.tables;
  sieve.hand = {sieve_hand.data(), 1, lanes, 1};
  sieve.visited = {marks.data(), slots, lanes, slots};
  w = world(slots);
  run_steps(w, sieve, false, steps);

  Queues small(lanes, slots), main(lanes, slots);
  Ints ghost(lanes * 2 * slots, -1), ghost_at(lanes * (pages << w.page_bits), -1), ends(lanes * 10);
  S3Fifo s3;
  s3.small = small.tables, s3.main = main.tables;
  s3.small.at.data = s3.main.at.data = nullptr;
  s3.ghost.items = {ghost.data(), 2 * slots, lanes, 2 * slots};
  s3.ghost.at = {ghost_at.data(), pages << w.page_bits, lanes, pages << w.page_bits};
  s3.ghost.ends = s3.small.ends = s3.main.ends = {ends.data(), 10, lanes, 10};
  s3.main.end_from = 3, s3.ghost.end_from = 6;
  std::vector<std::int8_t> uses(lanes * slots);
  s3.uses = {uses.data(), slots, lanes, slots};
  w = world(slots);
  run_steps(w, s3, false, steps);

  Ints stamps(lanes * slots, -1), now(lanes);
  SetLru set_lru;
  set_lru.used = {stamps.data(), slots, lanes, slots};
  set_lru.now = {now.data(), 1, lanes, 1};
  set_lru.sets = sets, set_lru.ways = ways;
  w = world(slots);
  run_steps(w, set_lru, true, steps);

  const int wide_slots = slots + 65, words = (wide_slots + 63) / 64;
  std::vector<std::int64_t> bits(lanes * words);
  Ints wide_hand(lanes);
  WideClock wide;
  wide.hand = {wide_hand.data(), 1, lanes, 1};
  wide.visited = {bits.data(), words, lanes, words};
  wide.words = words;
  w = world(wide_slots);
  run_steps(w, wide, false, steps);

  w = world(top_k);
  run_steps(w, LastStep(), false, steps);
  w = world(pages << w.page_bits);
  run_steps(w, Unbounded(), true, steps);
}

void check_append() {
  World w(2, 2, 4, 2, 8, 48, 1, 7);
  const Ints rows = {3, -1, 60, 0};
  AppendArgs a;
  a.rows = 2, a.queries = 2, a.written = 1, a.place = rows.data(), a.backing_rows = 64;
  a.write[0] = {{w.fresh.data(), 96, 48}, {w.backing.data(), 0, 48}, 48};
  CHECK(append(a));
  for (int i : {0, 2, 3}) CHECK(std::memcmp(&w.backing[rows[i] * 48], &w.fresh[i * 48], 48) == 0);
  a.backing_rows = 60;
  CHECK(!append(a));
}

#ifdef PLANT_RACE
void race() {
  std::int64_t sum = 0;
  ThreadPool::shared().run(2, 1 << 20, [&](std::int64_t i) { sum += i; });
  std::printf("%ld\n", static_cast<long>(sum));
}
#endif

}  // namespace

int main() {
  ThreadPool::shared().reserve(2);
#ifdef PLANT_RACE
  race();
#endif
  check_append();
  for (int seed = 0; seed < 40; ++seed) run_policies(2, 1 + seed, 3 + seed % 5, 1 + seed * 7, 1, 4, seed);
  // Large enough for the pool of threads, and for rows that stream.
  for (int seed = 63; seed < 66; ++seed) run_policies(6, 1900, 200, 96, 2, 2, seed);
  std::printf("kernels: all good\n");
}
