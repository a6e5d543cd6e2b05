// CUDA's streams and events: a stream is a queue of work with one thread, an event a counter.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace r2ccl::emulated {

class Stream {
 public:
  Stream();
  // Runs the queued work first, as CUDA does.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void push(std::function<void()> work);
  void wait_until_idle();
  bool is_idle();

  // Returns the stream of a handle: nullptr, 1 and 2 stand for the default stream.
  static Stream& of(void* handle);
  static Stream* create();
  static void destroy(void* handle);
  static void wait_for_all();

 private:
  void run();

  std::mutex mutex_;  // guards the members below, but the thread
  std::condition_variable more_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> queue_;
  bool is_busy_ = false;
  bool ends_ = false;
  std::thread thread_;  // last, because it uses the others
};

// An event waits for the work that stood in a stream when it was recorded. Streams share it,
// because CUDA lets a program destroy an event that work still names.
class Event : public std::enable_shared_from_this<Event> {
 public:
  void record(Stream& stream);
  void wait();
  void delay(Stream& stream);  // the stream's later work
  bool is_reached();

 private:
  uint64_t last_record();
  void reach(uint64_t record);
  void wait_for(uint64_t record);

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t reached_ = 0;
};

}  // namespace r2ccl::emulated
