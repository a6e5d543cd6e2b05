// Unique ids for the holders of certain handles: over a channel that strangers read and write, a
// process hands an id to those processes alone.
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
static_assert(R2CCL_SEALED_ID_BYTES == kUniqueIdBytes + crypto::kBoxBytes);

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

Status seal_for(std::span<const std::string_view> readers, const r2cclUniqueId& id,
                r2cclSealedId* sealed) {
  for (size_t place = 0; place < readers.size(); ++place) {
    const auto key = key_of_handle(readers[place]);
    if (!key || !process_key().seal(*key, std::as_bytes(std::span(id.internal)),
                                    std::as_writable_bytes(std::span(sealed[place].internal)))) {
      return {Code::invalid_argument,
              "the handle of rank " + std::to_string(place) + " has a key that no process makes"};
    }
  }
  return {};
}

Status make_sealed_ids(const char* const* handles, int count, const r2cclConfig_t* config,
                       r2cclSealedId* sealed) {
  const auto place = find_own(handles, count);
  if (!place.ok()) return place.status();
  auto made = make_unique_id(make_job_identity(), config);
  if (!made.ok()) return made.status();
  r2cclUniqueId id = made.value();
  const Status done = seal_for(texts_of(handles, count).value(), id, sealed);
  crypto::wipe(std::as_writable_bytes(std::span(id.internal)));
  return done;
}

Status open_sealed_id(const r2cclSealedId& sealed, std::string_view writer, r2cclUniqueId* id) {
  const auto key = key_of_handle(writer);
  if (!key) return {Code::invalid_argument, "the text given is no handle of a process of r2ccl"};
  if (!process_key().open(*key, std::as_bytes(std::span(sealed.internal)),
                          std::as_writable_bytes(std::span(id->internal)))) {
    return {Code::remote, "the process " + std::string(writer) +
                              " has not sealed this id for this process: another one has written "
                              "it, or it was made for another handle"};
  }
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

r2cclResult_t r2cclGetSealedIds(const char* const* handles, int count, const r2cclConfig_t* config,
                                r2cclSealedId* sealed) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclGetSealedIds";
  return guarded(kFunction, [&]() -> r2cclResult_t {
    if (sealed == nullptr) {
      return error(r2ccl::Code::invalid_argument, std::string(kFunction) + ": sealed is NULL");
    }
    const auto done = make_sealed_ids(handles, count, config, sealed);
    return done.ok() ? r2cclSuccess : result_of(done.with_context(kFunction));
  });
}

r2cclResult_t r2cclOpenSealedId(const r2cclSealedId* sealed, const char* writer,
                                r2cclUniqueId* id) {
  using namespace r2ccl::api;
  constexpr const char* kFunction = "r2cclOpenSealedId";
  return guarded(kFunction, [&]() -> r2cclResult_t {
    if (sealed == nullptr || writer == nullptr || id == nullptr) {
      return error(r2ccl::Code::invalid_argument,
                   std::string(kFunction) + ": sealed, writer or id is NULL");
    }
    const auto done = open_sealed_id(*sealed, {writer, strnlen(writer, R2CCL_HANDLE_BYTES)}, id);
    return done.ok() ? r2cclSuccess : result_of(done.with_context(kFunction));
  });
}

}  // extern "C"
