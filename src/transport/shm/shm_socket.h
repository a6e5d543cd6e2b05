// The Unix-domain sockets of the shared-memory transport: names, connecting, and the other end's
// user. Functions that return an int return 0 or an errno value.
#pragma once

#include <sys/types.h>

#include "base/fork_guard.h"
#include "transport/endpoint.h"

namespace r2ccl {

// Returns an invalid descriptor, with errno set, when there is none left.
GuardedFd open_shm_socket();
// Listens at `local`. Chooses a free port for port 0, and sets it.
int listen_at(int socket, Endpoint& local);
// Connects at once or not at all. EACCES: another user's process listens there.
int connect_to(int socket, const Endpoint& remote);
// Returns whether the process at the other end, when it opened its socket, had this process's user.
bool peer_is_same_user(int socket);
// Returns the number of that process, as this one's namespace has it; 0: none.
pid_t peer_process(int socket);

}  // namespace r2ccl
