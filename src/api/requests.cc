// The C edge: waiting for operations.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/errors.h"
#include "api/handles.h"
#include "r2ccl/r2ccl.h"
#include "runtime/collective/request_set.h"

namespace {

using r2ccl::Code;
using r2ccl::kNoRank;
using r2ccl::Request;
using r2ccl::Result;
using r2ccl::Status;
using r2ccl::WaitCause;
using r2ccl::api::error;
using r2ccl::api::from_parent;
using r2ccl::api::guarded;
using r2ccl::api::RequestObject;
using r2ccl::api::requests;
using r2ccl::api::result_of;

Status no_request(const char* function, r2cclRequest_t handle) {
  return {Code::invalid_argument,
          std::string(function) +
              (requests().was_given(handle)
                   ? ": this request is complete and was freed; another copy of it was waited for, "
                     "tested or aborted before"
                   : ": *request is no request: set it to NULL or start an operation with it")};
}

Result<std::shared_ptr<RequestObject>> find_request(const char* function, r2cclRequest_t handle) {
  auto found = requests().find(handle);
  if (found == nullptr) return no_request(function, handle);
  if (found->inherited()) return from_parent(function, "request");
  return found;
}

// --- several requests --------------------------------------------------------------------------

// A list of indices in words is no longer.
constexpr size_t kIndicesMax = 8;
// As many different errors are put into words.
constexpr size_t kErrorsMax = 4;

// The requests of an array of handles; null for a NULL handle.
using Operations = std::vector<std::shared_ptr<Request>>;

Result<Operations> find_all(const char* function, int count, const r2cclRequest_t* handles) {
  const std::string name(function);
  if (count < 0) {
    return Status(Code::invalid_argument,
                  name + ": count is " + std::to_string(count) + ", it must be 0 or more");
  }
  if (count > 0 && handles == nullptr) {
    return Status(Code::invalid_argument, name + ": requests is NULL");
  }
  Operations found(static_cast<size_t>(count));
  for (size_t i = 0; i < found.size(); ++i) {
    if (handles[i] == nullptr) continue;
    const auto object = find_request(function, handles[i]);
    if (!object.ok()) return object.status().with_context("requests[" + std::to_string(i) + "]");
    found[i] = object.value()->request;
  }
  return found;
}

// Puts the errors of many requests into one: the code is the first one's.
class Errors {
 public:
  void add(size_t index, const Status& error) {
    if (error.ok()) return;
    ++count_;
    const auto same = std::ranges::find(groups_, error, &Group::error);
    if (same != groups_.end()) {
      same->indices.push_back(index);
    } else if (groups_.size() < kErrorsMax) {
      groups_.push_back({error, {index}});
    }
  }

  Status status() const {
    if (groups_.empty()) return {};
    std::string text;
    size_t told = 0;
    for (const Group& group : groups_) {
      text += (text.empty() ? "" : "; ") + words_for(group.indices) + ": " + group.error.message();
      told += group.indices.size();
    }
    if (told < count_) text += "; and " + std::to_string(count_ - told) + " others";
    return groups_.front().error.with_message(text);
  }

 private:
  struct Group {
    Status error;
    std::vector<size_t> indices;
  };

  static std::string words_for(const std::vector<size_t>& indices) {
    std::string text = indices.size() == 1 ? "request " : "requests ";
    for (size_t i = 0; i < std::min(indices.size(), kIndicesMax); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(indices[i]);
    }
    if (indices.size() <= kIndicesMax) return text;
    return text + " and " + std::to_string(indices.size() - kIndicesMax) + " more";
  }

  std::vector<Group> groups_;
  size_t count_ = 0;
};

// Frees a request that is complete, and returns its result.
Status finish(const char* function, const std::shared_ptr<Request>& operation,
              r2cclRequest_t* handle) {
  const r2cclRequest_t ended = std::exchange(*handle, nullptr);
  if (requests().take(ended) == nullptr) return no_request(function, ended);
  return operation->status();
}

r2cclResult_t finish_all(const char* function, const Operations& operations,
                         r2cclRequest_t* handles) {
  Errors errors;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] != nullptr) errors.add(i, finish(function, operations[i], &handles[i]));
  }
  return result_of(errors.status().with_context(function));
}

Status check_timeout(const char* function, int64_t timeout_ms) {
  if (timeout_ms >= -1) return {};
  return {Code::invalid_argument, std::string(function) + ": timeout_ms is below -1"};
}

// Returns the bound of a wait, where the caller's -1 and any time beyond the clock's mean none.
r2ccl::TimeNs bound_of(int64_t timeout_ms) {
  constexpr int64_t kForeverMs = r2ccl::kNever / r2ccl::kMillisecond / 4;
  const bool bounded = timeout_ms >= 0 && timeout_ms < kForeverMs;
  return bounded ? timeout_ms * r2ccl::kMillisecond : r2ccl::kNever;
}

r2cclResult_t timeout_of(const std::string& what, const WaitCause& cause) {
  const Status late(Code::timeout, what + (cause.text.empty() ? "" : ": " + cause.text));
  return result_of(cause.late == kNoRank ? late : late.with_ranks({cause.late}));
}

r2cclResult_t timed_out(const char* function, const Operations& operations, int64_t timeout_ms) {
  const auto pending = r2ccl::find_request(operations, false);
  const size_t first = pending.value_or(0);  // it may be complete by now
  const WaitCause cause = operations[first]->wait_cause();
  const auto complete = [](const auto& each) { return each == nullptr || each->done(); };
  const auto done = static_cast<size_t>(std::ranges::count_if(operations, complete));
  return timeout_of(std::string(function) + ": " + std::to_string(done) + " of " +
                        std::to_string(operations.size()) + " complete after " +
                        std::to_string(timeout_ms) + " ms; request " + std::to_string(first) +
                        " is not",
                    cause);
}

}  // namespace

extern "C" {

r2cclResult_t r2cclRequestTest(r2cclRequest_t* request, int* done) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr || done == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestTest: request or done is NULL");
    }
    *done = 1;
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestTest", *request);
    if (!found.ok()) return result_of(found.status());
    *done = found.value()->request->done() ? 1 : 0;
    return *done != 0 ? r2cclRequestWait(request, 0) : r2cclSuccess;
  });
}

r2cclResult_t r2cclRequestWait(r2cclRequest_t* request, int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestWait: request is NULL");
    }
    if (const Status valid = check_timeout("r2cclRequestWait", timeout_ms); !valid.ok()) {
      return result_of(valid);
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestWait", *request);
    if (!found.ok()) return result_of(found.status());
    const std::shared_ptr<Request>& operation = found.value()->request;
    if (!operation->wait(bound_of(timeout_ms))) {
      return timeout_of(
          "r2cclRequestWait: not complete after " + std::to_string(timeout_ms) + " ms",
          operation->wait_cause());
    }
    return result_of(finish("r2cclRequestWait", operation, request));
  });
}

r2cclResult_t r2cclRequestWaitAll(int count, r2cclRequest_t handles[], int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclRequestWaitAll";
    if (const Status valid = check_timeout(kName, timeout_ms); !valid.ok()) return result_of(valid);
    const auto found = find_all(kName, count, handles);
    if (!found.ok()) return result_of(found.status());
    if (!r2ccl::wait_all(found.value(), bound_of(timeout_ms))) {
      return timed_out(kName, found.value(), timeout_ms);
    }
    return finish_all(kName, found.value(), handles);
  });
}

r2cclResult_t r2cclRequestWaitAny(int count, r2cclRequest_t handles[], int* index,
                                  int64_t timeout_ms) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclRequestWaitAny";
    if (index == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestWaitAny: index is NULL");
    }
    *index = -1;
    if (const Status valid = check_timeout(kName, timeout_ms); !valid.ok()) return result_of(valid);
    const auto found = find_all(kName, count, handles);
    if (!found.ok()) return result_of(found.status());
    const Operations& all = found.value();
    if (std::ranges::all_of(all, [](const auto& each) { return each == nullptr; })) {
      return r2cclSuccess;
    }
    const auto complete = r2ccl::wait_any(all, bound_of(timeout_ms));
    if (!complete) return timed_out(kName, all, timeout_ms);
    *index = static_cast<int>(*complete);
    return result_of(finish(kName, all[*complete], &handles[*complete]));
  });
}

r2cclResult_t r2cclRequestTestAll(int count, r2cclRequest_t handles[], int* done) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    constexpr const char* kName = "r2cclRequestTestAll";
    if (done == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestTestAll: done is NULL");
    }
    *done = 1;
    const auto found = find_all(kName, count, handles);
    if (!found.ok()) return result_of(found.status());
    if (!r2ccl::find_request(found.value(), false))
      return finish_all(kName, found.value(), handles);
    *done = 0;
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclRequestAbort(r2cclRequest_t* request) {
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (request == nullptr) {
      return error(Code::invalid_argument, "r2cclRequestAbort: request is NULL");
    }
    if (*request == nullptr) return r2cclSuccess;
    const auto found = find_request("r2cclRequestAbort", *request);
    if (!found.ok()) return result_of(found.status());
    // A communicator that was freed has completed its requests.
    if (const auto comm = found.value()->comm.lock();
        comm != nullptr && !found.value()->request->done()) {
      comm->communicator->abort("r2cclRequestAbort was called");
    }
    (void)requests().take(std::exchange(*request, nullptr));
    return r2cclSuccess;
  });
}

}  // extern "C"
