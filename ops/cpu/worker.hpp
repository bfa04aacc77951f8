// One background thread that places and installs, in the order submitted, while the caller's thread
// computes attention. A bounded ring of jobs; nothing is allocated and no thread started in a call.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "background_thread.hpp"
#include "constants.hpp"
#include "install.hpp"
#include "policies.hpp"

namespace tierkv {

struct Job {
  AnyPolicy policy;  // monostate: the group has been placed by an earlier job
  PlaceArgs place;
  InstallArgs install;
  std::chrono::microseconds delay{0};  // lets a test hold the worker up
  bool deadly = false;  // lets a test end the thread
  int caller = -1;  // the core of the one who submitted it
  std::int64_t* failures = nullptr;  // gets the bits of kFailure...
};

inline void report(const Job& job, int failure) {
  if (job.failures != nullptr) {
    __atomic_fetch_or(job.failures, std::int64_t{1} << failure, __ATOMIC_RELAXED);
  }
}

struct PlaceWith {
  const Job& job;
  bool operator()(const std::monostate&) const { return true; }
  template <class Policy>
  bool operator()(const Policy& policy) const {
    return place(job.place, policy, 1);
  }
};

inline void run_job(const Job& job) {
  if (job.delay.count() > 0) std::this_thread::sleep_for(job.delay);
  const bool good = std::visit(PlaceWith{job}, job.policy) && install(job.install, 1);
  if (!good) report(job, kFailureBadArguments);
}

class Worker {
 public:
  // Never destroyed, and new after a fork: see ThreadPool::shared.
  static Worker& shared() {
    static const bool once = [] {
      instance() = new Worker;
      return pthread_atfork(nullptr, nullptr, [] { instance() = new Worker; }) == 0;
    }();
    static_cast<void>(once);
    return *instance();
  }

  // Start the thread, if it does not run yet. Waiting a little before sleeping only pays where
  // somebody else can run meanwhile.
  void start() {
    std::lock_guard<std::mutex> lock(mutex_);
    cpu_set_t cpus;
    spin_ = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1;
    wanted_ = true;
    if (!running_) begin();
  }

  // Give the job's number. Waits while the ring is full; without a thread the job runs here.
  std::int64_t submit(const Job& job) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    idle_.wait(lock, [&] { return submitted_.load() - done_.load() < kRing; });
    --waiting_;
    const std::int64_t number = submitted_.load(std::memory_order_relaxed) + 1;
    if (!wanted_) {
      run_job(job);
      submitted_ = number;
      done_ = number;
      return number;
    }
    if (!running_) begin();
    ring_[number % kRing] = job;
    ring_[number % kRing].caller = sched_getcpu();
    submitted_.store(number, std::memory_order_release);
    const bool asleep = asleep_;
    lock.unlock();
    if (asleep) wake_.notify_one();
    return number;
  }

  bool done(std::int64_t number) const { return done_.load(std::memory_order_acquire) >= number; }

  void wait_all() { wait(submitted_.load()); }

  // Return once job `number` and all before it are done.
  void wait(std::int64_t number) {
    if (reached(done_, number, kSpin)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    idle_.wait(lock, [&] { return done_.load() >= number; });
    --waiting_;
  }

 private:
  static constexpr std::int64_t kRing = 64;
  static constexpr std::chrono::microseconds kSpin{50};

  static Worker*& instance() {
    static Worker* worker = nullptr;
    return worker;
  }

  void begin() {
    running_ = true;
    std::thread([this, first = submitted_ + 1] { work(first); }).detach();
  }

  bool reached(const std::atomic<std::int64_t>& counter, std::int64_t number,
               std::chrono::microseconds patience) const {
    if (counter.load(std::memory_order_acquire) >= number) return true;
    if (!spin_.load(std::memory_order_relaxed)) return false;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < end) {
      if (counter.load(std::memory_order_acquire) >= number) return true;
    }
    return false;
  }

  // However the thread ends, by pthread_exit or pthread_cancel: what it has not done has failed, and
  // nobody waits for it. The next job gets a new thread.
  struct Ending {
    Worker& worker;
    ~Ending() {
      std::lock_guard<std::mutex> lock(worker.mutex_);
      for (std::int64_t number = worker.done_ + 1; number <= worker.submitted_; ++number) {
        report(worker.ring_[number % kRing], kFailureThreadEnded);
      }
      worker.done_ = worker.submitted_.load();
      worker.running_ = worker.asleep_ = false;
      worker.idle_.notify_all();
    }
  };

  void work(std::int64_t first) {
    const Ending ending{*this};
    BackgroundThread self;
    for (std::int64_t number = first;; ++number) {
      if (!reached(submitted_, number, kSpin)) {
        std::unique_lock<std::mutex> lock(mutex_);
        asleep_ = true;
        wake_.wait(lock, [&] { return submitted_.load() >= number; });
        asleep_ = false;
      }
      self.avoid(ring_[number % kRing].caller);
      if (ring_[number % kRing].deadly) pthread_exit(nullptr);
      run_job(ring_[number % kRing]);
      done_.store(number);  // sequentially consistent, as is waiting_: no wake-up is missed
      if (waiting_.load() > 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        idle_.notify_all();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::atomic<std::int64_t> submitted_{0}, done_{0};
  std::atomic<int> waiting_{0};
  std::atomic<bool> spin_{false};
  bool wanted_ = false, running_ = false, asleep_ = false;
  Job ring_[kRing];
};

}  // namespace tierkv
