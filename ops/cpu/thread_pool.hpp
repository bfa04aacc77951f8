// A persistent, bounded pool of threads, shared by the process. No call starts a thread.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>

#include "background_thread.hpp"

namespace tierkv {

// Waking a helper takes as long as moving this many bytes; smaller jobs stay on the caller.
constexpr std::int64_t kParallelBytes = 512 << 10;

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 64;

  // The pool is never destroyed: at exit its threads may still be waiting. After a fork the child
  // has none of them, so it gets a fresh pool and works alone until `reserve`.
  static ThreadPool& shared() {
    static const bool once = [] {
      instance() = new ThreadPool;
      return pthread_atfork(nullptr, nullptr, [] { instance() = new ThreadPool; }) == 0;
    }();
    static_cast<void>(once);
    return *instance();
  }

  // Start what is missing so that `threads`, the caller included, can work at once.
  void reserve(int threads) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (; helpers_ + 1 < std::min(threads, kMaxThreads); ++helpers_) {
      std::thread([this, number = helpers_ + 1] { work(number); }).detach();
    }
  }

  // Call `f(chunk)` for each chunk below `chunks`, on the caller and at most `threads - 1` helpers.
  // One caller at a time has the helpers; another works alone rather than wait.
  template <class F>
  void run(int threads, std::int64_t chunks, F&& f) {
    std::unique_lock<std::mutex> owner(owner_, std::defer_lock);
    if (threads <= 1 || chunks <= 1 || !owner.try_lock()) {
      for (std::int64_t i = 0; i < chunks; ++i) f(i);
      return;
    }
    open({[](void* context, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(context))(i); },
          const_cast<void*>(static_cast<const void*>(&f)), chunks, threads - 1, sched_getcpu()});
    drain(job_);
    close();
  }

 private:
  struct Job {
    void (*call)(void*, std::int64_t) = nullptr;
    void* context = nullptr;
    std::int64_t chunks = 0;
    int helpers = 0;
    int caller = -1;  // the core it was on
  };

  static ThreadPool*& instance() {
    static ThreadPool* pool = nullptr;
    return pool;
  }

  void open(const Job& job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = job;
      next_.store(0, std::memory_order_relaxed);
      is_open_ = true;
      ++generation_;
    }
    wake_.notify_all();
  }

  // Whoever has not woken by now finds the job closed, so nobody is waited for in vain.
  void close() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_open_ = false;
    idle_.wait(lock, [this] { return active_ == 0; });
  }

  void drain(const Job& job) {
    for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < job.chunks;) {
      job.call(job.context, i);
    }
  }

  void work(int number) {
    BackgroundThread self;
    std::unique_lock<std::mutex> lock(mutex_);
    for (std::uint64_t seen = 0;;) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (!is_open_ || number > job_.helpers) continue;
      const Job job = job_;
      ++active_;
      lock.unlock();
      self.avoid(job.caller);
      drain(job);
      lock.lock();
      if (--active_ == 0) idle_.notify_one();
    }
  }

  std::mutex owner_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::atomic<std::int64_t> next_{0};
  Job job_;
  bool is_open_ = false;
  std::uint64_t generation_ = 0;
  int helpers_ = 0;
  int active_ = 0;
};

}  // namespace tierkv
