#include "stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "report.h"

namespace r2ccl::emulated {
namespace {

// All streams of the process. They are never destroyed as a whole: their threads may run until the
// process ends.
struct Streams {
  std::mutex mutex;  // guards the member below
  std::vector<Stream*> all;
};

Streams& streams() {
  static auto* instance = new Streams;
  return *instance;
}

}  // namespace

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    more_.notify_one();
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    unsupported("a stream that its own work destroys");
  }
  thread_.join();
}

void Stream::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    is_busy_ = true;
    lock.unlock();
    work();
    work = nullptr;  // destroys the captured objects outside the lock
    lock.lock();
    is_busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

void Stream::push(std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(work));
  more_.notify_one();
}

void Stream::wait_until_idle() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && !is_busy_; });
}

bool Stream::is_idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty() && !is_busy_;
}

Stream* Stream::create() {
  auto* stream = new Stream;
  const std::lock_guard<std::mutex> lock(streams().mutex);
  streams().all.push_back(stream);
  return stream;
}

Stream& Stream::of(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number > 2) return *static_cast<Stream*>(handle);
  static Stream* default_stream = create();
  return *default_stream;
}

void Stream::destroy(void* handle) {
  auto* stream = static_cast<Stream*>(handle);
  {
    const std::lock_guard<std::mutex> lock(streams().mutex);
    std::erase(streams().all, stream);
  }
  delete stream;
}

void Stream::wait_for_all() {
  std::vector<Stream*> all;
  {
    const std::lock_guard<std::mutex> lock(streams().mutex);
    all = streams().all;
  }
  for (Stream* stream : all) stream->wait_until_idle();
}

uint64_t Event::last_record() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return recorded_;
}

void Event::reach(uint64_t record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reached_ = std::max(reached_, record);
  changed_.notify_all();
}

void Event::wait_for(uint64_t record) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, record] { return reached_ >= record; });
}

void Event::record(Stream& stream) {
  uint64_t record = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    record = ++recorded_;
  }
  stream.push([self = shared_from_this(), record] { self->reach(record); });
}

void Event::wait() {
  wait_for(last_record());
}

void Event::delay(Stream& stream) {
  stream.push([self = shared_from_this(), record = last_record()] { self->wait_for(record); });
}

bool Event::is_reached() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return reached_ >= recorded_;
}

}  // namespace r2ccl::emulated
