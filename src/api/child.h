// Communicators over the links of another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "api/handles.h"
#include "base/status.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/communicator.h"
#include "runtime/config/config.h"

namespace r2ccl::api {

// The words of a unique id in an exchange among the ranks of a communicator.
inline constexpr size_t kIdWords = kUniqueIdBytes / sizeof(int64_t);
// Returns the bytes of the id that the others get. They derive the secret from the communicator's
// key, so that it is on no wire.
UniqueIdBytes without_secret(const UniqueId& id);

// Returns a function for the meeting of a child: the error of the parent, once it has failed. A
// rank that fails there never comes to the meeting.
std::function<Status()> failure_of(CommObject& parent);

// Links have some settings for all communicators that use them. Returns whether these differ.
bool wants_own_links(const Config& parent, const Config& child);

// Sets this rank's place among `ranks` of the parent, which have it, and its inheritance. `view`:
// as Communicator::inherit.
void set_place(CommunicatorOptions& options, Communicator& parent, const std::vector<Rank>& ranks,
               const View& view);

// Makes the communicator of these ranks of the parent. Meets nobody.
Result<std::unique_ptr<Communicator>> make_child(Communicator& parent, CommunicatorOptions options,
                                                 ContextId context, const std::vector<Rank>& ranks);

}  // namespace r2ccl::api
