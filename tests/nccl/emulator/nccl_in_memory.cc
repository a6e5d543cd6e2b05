#include "nccl_in_memory.h"

#include <dlfcn.h>

#include <cstdlib>

#include "kernel.h"
#include "redirection.h"
#include "report.h"

namespace r2ccl::emulated {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) fail(std::string("the environment lacks ") + name);
  return value;
}

int nccl_version() {
  int version = 0;
  auto* function = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  if (function == nullptr || function(&version) != 0) fail("NCCL does not tell its version");
  return version;
}

}  // namespace

const NcclInMemory& NcclInMemory::get() {
  static const auto* instance = new NcclInMemory;  // threads use it until the process ends
  return *instance;
}

NcclInMemory::NcclInMemory()
    : layout_(setting("EMULATED_CUDA_LAYOUT")),
      library_(setting("EMULATED_CUDA_NCCL")),
      version_(nccl_version()),
      format_(layout_, version_),
      functions_(layout_, library_, version_) {
  redirect_runtime(library_);
  for (const Symbol& symbol : library_.symbols()) {
    if (symbol.is_function && symbol.name.find("Kernel_") != std::string::npos) {
      kernels_.emplace(symbol.address, symbol.name);
    }
  }
}

void NcclInMemory::expect_kernel(const void* function) const {
  const auto found = kernels_.find(function);
  if (found == kernels_.end()) unsupported("a kernel without a name");
  if (logs(LogLevel::kWork)) log(LogLevel::kWork, "launch of " + found->second);
}

void NcclInMemory::run_kernel(const char* parameters, unsigned blocks) const {
  emulated::run_kernel(format_, functions_, parameters, blocks);
}

namespace {

// The library patches NCCL when it is loaded, before any of NCCL's functions can be called.
[[gnu::constructor]] void start() {
  NcclInMemory::get();
}

}  // namespace
}  // namespace r2ccl::emulated
