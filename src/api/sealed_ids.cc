// Unique ids for the holders of certain handles: over a channel that strangers read and write, a
// process hands an id to those processes alone.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"
#include "api/init.h"
#include "base/limits.h"
#include "protocol/wire/crypto.h"
#include "runtime/bootstrap/process_handle.h"

namespace r2ccl::api {
namespace {

static_assert(R2CCL_HANDLE_BYTES == kProcessHandleMax + 1);
static_assert(R2CCL_SEALED_ID_BYTES == crypto::kHashBytes + kUniqueIdBytes + crypto::kBoxBytes);

Result<std::vector<std::string_view>> texts_of(const char* const* handles, int count) {
  if (handles == nullptr || count < 1 || count > limits::kRanksMax) {
    return Status(Code::invalid_argument, "there must be 1 to " +
                                              std::to_string(limits::kRanksMax) +
                                              " handles, and there are " + std::to_string(count));
  }
  std::vector<std::string_view> texts;
  for (int place = 0; place < count; ++place) {
    if (handles[place] == nullptr) {
      return Status(Code::invalid_argument, "handle " + std::to_string(place) + " is NULL");
    }
    texts.emplace_back(handles[place], strnlen(handles[place], R2CCL_HANDLE_BYTES));
  }
  return texts;
}

Result<int> find_own(const char* const* handles, int count) {
  const auto texts = texts_of(handles, count);
  return texts.ok() ? find_own_handle(texts.value()) : texts.status();
}

// A box holds the id after a hash of all that says which meeting it is for. The key of a box is the
// same in both directions and for all meetings of two processes.
constexpr size_t kPlainBytes = crypto::kHashBytes + kUniqueIdBytes;
using Plain = crypto::Wiped<kPlainBytes>;

crypto::Hash meeting_of(std::span<const std::string_view> handles, size_t reader,
                        std::string_view purpose) {
  std::string text = std::to_string(reader);
  for (const std::string_view handle : handles) (text += '\n') += handle;
  (text += '\n') += purpose;
  return crypto::hash("r2ccl sealed id", std::as_bytes(std::span(text)));
}

Status seal_for(std::span<const std::string_view> readers, std::string_view purpose,
                const r2cclUniqueId& id, r2cclSealedId* sealed) {
  for (size_t place = 0; place < readers.size(); ++place) {
    Plain plain;
    const crypto::Hash meeting = meeting_of(readers, place, purpose);
    std::ranges::copy(meeting, plain.begin());
    std::memcpy(&plain[meeting.size()], id.internal, sizeof id.internal);
    const auto key = key_of_handle(readers[place]);
    if (!key || !process_key().seal(*key, plain,
                                    std::as_writable_bytes(std::span(sealed[place].internal)))) {
      return {Code::invalid_argument,
              "the handle of rank " + std::to_string(place) + " has a key that no process makes"};
    }
  }
  return {};
}

Status make_sealed_ids(const char* const* handles, int count, std::string_view purpose,
                       const r2cclConfig_t* config, r2cclSealedId* sealed) {
  const auto place = find_own(handles, count);
  if (!place.ok()) return place.status();
  if (place.value() != 0) {
    return {Code::invalid_argument,
            "this process is not the first of the list: that one makes the "
            "ids, and this one opens its own"};
  }
  const std::vector<std::string_view> readers = texts_of(handles, count).value();
  // Tried before the rendezvous opens, which stays open for the init bound.
  R2CCL_RETURN_IF_ERROR(seal_for(readers, purpose, r2cclUniqueId{}, sealed));
  auto made = make_unique_id(make_job_identity(), config);
  if (!made.ok()) return made.status();
  r2cclUniqueId id = made.value();
  const Status done = seal_for(readers, purpose, id, sealed);
  crypto::wipe(std::as_writable_bytes(std::span(id.internal)));
  return done;
}

Status open_sealed_id(const r2cclSealedId& sealed, const char* const* handles, int count,
                      std::string_view purpose, r2cclUniqueId* id) {
  const auto place = find_own(handles, count);
  if (!place.ok()) return place.status();
  const std::vector<std::string_view> all = texts_of(handles, count).value();
  Plain plain;
  const bool opened =
      process_key().open(*key_of_handle(all[0]), std::as_bytes(std::span(sealed.internal)), plain);
  const crypto::Hash meeting = meeting_of(all, static_cast<size_t>(place.value()), purpose);
  if (!opened || !crypto::equal(std::span(plain).first(meeting.size()), meeting)) {
    return {Code::remote, "the process " + std::string(all[0]) +
                              " has not sealed this id for this process and this meeting: another "
                              "process has written it, or has taken it from elsewhere"};
  }
  std::memcpy(id->internal, &plain[meeting.size()], sizeof id->internal);
  return {};
}

}  // namespace
}  // namespace r2ccl::api

extern "C" {

r2cclResult_t r2cclGetProcessHandle(char* handle) {
  using namespace r2ccl::api;
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (handle == nullptr) {
      return error(r2ccl::Code::invalid_argument, "r2cclGetProcessHandle: handle is NULL");
    }
    const std::string text = r2ccl::process_handle();
    std::memcpy(handle, text.c_str(), text.size() + 1);
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclFindProcessHandle(const char* const* handles, int count, int* place) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclFindProcessHandle";
  return guarded(kFunction, [&]() -> r2cclResult_t {
    if (place == nullptr) {
      return error(r2ccl::Code::invalid_argument, std::string(kFunction) + ": place is NULL");
    }
    const auto found = find_own(handles, count);
    if (!found.ok()) return result_of(found.status().with_context(kFunction));
    *place = found.value();
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclGetSealedIds(const char* const* handles, int count, const char* purpose,
                                const r2cclConfig_t* config, r2cclSealedId* sealed) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclGetSealedIds";
  return guarded(kFunction, [&]() -> r2cclResult_t {
    if (sealed == nullptr || purpose == nullptr) {
      return error(r2ccl::Code::invalid_argument,
                   std::string(kFunction) + ": sealed or purpose is NULL");
    }
    const auto done = make_sealed_ids(handles, count, purpose, config, sealed);
    return done.ok() ? r2cclSuccess : result_of(done.with_context(kFunction));
  });
}

r2cclResult_t r2cclOpenSealedId(const r2cclSealedId* sealed, const char* const* handles, int count,
                                const char* purpose, r2cclUniqueId* id) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclOpenSealedId";
  return guarded(kFunction, [&]() -> r2cclResult_t {
    if (sealed == nullptr || purpose == nullptr || id == nullptr) {
      return error(r2ccl::Code::invalid_argument,
                   std::string(kFunction) + ": sealed, purpose or id is NULL");
    }
    const auto done = open_sealed_id(*sealed, handles, count, purpose, id);
    return done.ok() ? r2cclSuccess : result_of(done.with_context(kFunction));
  });
}

}  // extern "C"
