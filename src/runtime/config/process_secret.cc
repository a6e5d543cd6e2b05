#include "runtime/config/process_secret.h"

#include <cstdlib>
#include <mutex>
#include <utility>

#include "protocol/wire/crypto.h"

namespace r2ccl {
namespace {

// The key that this process derived last. A process usually has one secret and one job, so only its
// first communicator pays for the derivation. One thread derives at a time: the other threads
// usually want the same key, and the process needs the memory only once.
class LastKey {
 public:
  Result<LockedBytes> get(const LockedBytes& text, std::span<const std::byte, kJobIdBytes> job_id) {
    std::lock_guard lock(mutex_);
    // The name is as secret as the text: it allows guesses at full speed.
    LockedBytes name = crypto::derive_key(crypto::hash("r2ccl secret 2: of job", job_id),
                                          "r2ccl secret 2: name", {text.bytes()});
    if (!key_.empty() && name == name_) return key_;
    Result<LockedBytes> key = derive_secret(text, job_id);
    if (!key.ok()) return key;
    name_ = std::move(name);
    key_ = key.value();
    return key;
  }
  void wipe() {
    std::lock_guard lock(mutex_);
    name_ = {};
    key_ = {};
  }

 private:
  std::mutex mutex_;  // guards the other members
  LockedBytes name_;  // derived from the text and the job of key_
  LockedBytes key_;
};

LastKey& last_key() {
  // Never destroyed, because another thread may still use it at exit. The exit wipes the key.
  static auto* const instance = [] {
    auto* const made = new LastKey;
    (void)std::atexit([] { last_key().wipe(); });
    return made;
  }();
  return *instance;
}

}  // namespace

Result<LockedBytes> process_secret(const LockedBytes& text,
                                   std::span<const std::byte, kJobIdBytes> job_id) {
  crypto::initialise();
  return last_key().get(text, job_id);
}

}  // namespace r2ccl
