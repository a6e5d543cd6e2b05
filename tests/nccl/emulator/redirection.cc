#include "redirection.h"

#include <dlfcn.h>

#include <cctype>
#include <cstring>
#include <string>

#include "report.h"

namespace r2ccl::emulated {
namespace {

[[noreturn]] void missing_function(const char* name) {
  unsupported(name);
}

// Appends "jmp *0(%rip)", with the address behind it. The instruction changes no register, so the
// arguments of the call stay in place.
constexpr size_t kJumpBytes = 14;
void write_jump(char* code, const void* target) {
  constexpr unsigned char kInstruction[] = {0xff, 0x25, 0, 0, 0, 0};
  std::memcpy(code, kInstruction, sizeof kInstruction);
  std::memcpy(code + sizeof kInstruction, &target, sizeof target);
}

// Writes a call of missing_function(name): "movabs $name, %rdi", then a jump.
constexpr size_t kNamedJumpBytes = 10 + kJumpBytes;
void write_named_jump(char* code, const char* name) {
  constexpr unsigned char kInstruction[] = {0x48, 0xbf};
  std::memcpy(code, kInstruction, sizeof kInstruction);
  std::memcpy(code + sizeof kInstruction, &name, sizeof name);
  write_jump(code + 10, reinterpret_cast<void*>(&missing_function));
}

// "cudaMalloc", but not "__cudaRegisterFunction" or "cudart": the registration of kernels only
// builds lists, and may run as it is.
bool is_runtime_function(const Symbol& symbol) {
  return symbol.is_function && symbol.name.starts_with("cuda") && symbol.name.size() > 4 &&
         std::isupper(static_cast<unsigned char>(symbol.name[4])) != 0;
}

// Finds functions of the emulator itself, not those of another library with the same name.
class OwnFunctions {
 public:
  OwnFunctions() {
    Dl_info own;
    if (dladdr(reinterpret_cast<void*>(&missing_function), &own) == 0) fail("dladdr failed");
    path_ = own.dli_fname;
    base_ = own.dli_fbase;
    handle_ = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (handle_ == nullptr) fail("cannot open " + path_);
  }
  void* find(const char* name) const {
    void* function = dlsym(handle_, name);
    Dl_info found;
    if (function == nullptr || dladdr(function, &found) == 0) return nullptr;
    return found.dli_fbase == base_ ? function : nullptr;
  }

 private:
  std::string path_;
  void* base_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace

void redirect_runtime(const LoadedLibrary& nccl) {
  const OwnFunctions own;
  int redirected = 0;
  int stopped = 0;
  nccl.make_code_writable(true);
  for (const Symbol& symbol : nccl.symbols()) {
    if (!is_runtime_function(symbol)) continue;
    void* function = own.find(symbol.name.c_str());
    if (function != nullptr && symbol.bytes >= kJumpBytes) {
      write_jump(symbol.address, function);
      ++redirected;
    } else if (function == nullptr && symbol.bytes >= kNamedJumpBytes) {
      write_named_jump(symbol.address, strdup(symbol.name.c_str()));  // for as long as the code
      ++stopped;
    }
  }
  nccl.make_code_writable(false);
  log(LogLevel::kStart, nccl.path() + ": redirected " + std::to_string(redirected) +
                            " functions, stopped " + std::to_string(stopped));
}

}  // namespace r2ccl::emulated
