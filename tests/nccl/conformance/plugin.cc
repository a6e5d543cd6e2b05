#include "conformance/plugin.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace conformance {
namespace {

using namespace r2ccl::nccl;

std::mutex g_mutex;  // guards the lines
std::vector<std::string> g_warnings;

void log(int level, unsigned long, const char*, int, const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (std::getenv("CONFORMANCE_LOG") != nullptr) std::fprintf(stderr, "%d %s\n", level, line);
  if (level != kLogWarn) return;
  const std::lock_guard lock(g_mutex);
  g_warnings.push_back(line);
}

int common_of(const auto& properties, Properties* out) {
  out->name = properties.name;
  out->pointers = properties.ptrSupport;
  out->speed = properties.speed;
  out->comms_max = properties.maxComms;
  out->receives_max = properties.maxRecvs;
  if constexpr (requires { properties.netDeviceType; }) out->device_type = properties.netDeviceType;
  if constexpr (requires { properties.maxP2pBytes; }) out->message_max = properties.maxP2pBytes;
  return properties.maxRecvs;
}

template <typename Table>
class PluginOf final : public Plugin {
 public:
  explicit PluginOf(const Table& table) : table_(table) {}

  bool has_contexts() const override { return kContexts; }
  bool has_hint() const override { return kWide; }

  Outcome init() override {
    if constexpr (kContexts) {
      int config = -1;  // a traffic class that is not set
      return table_.init(&context_, 1, &config, log, nullptr);
    } else if constexpr (kProfiles) {
      return table_.init(log, nullptr);
    } else {
      return table_.init(log);
    }
  }
  Outcome finalize() override {
    if constexpr (kContexts) return table_.finalize(context_);
    return kSuccess;
  }
  Outcome devices(int* count) override { return table_.devices(count); }
  Outcome properties(int device, Properties* out) override {
    typename Members::Properties properties{};
    const Outcome outcome = table_.getProperties(device, &properties);
    if (outcome != kSuccess) return outcome;
    if constexpr (requires { properties.common; }) {
      common_of(properties.common, out);
    } else {
      common_of(properties, out);
    }
    return outcome;
  }
  Outcome listen(int device, void* handle, void** listener) override {
    if constexpr (kContexts) return table_.listen(context_, device, handle, listener);
    if constexpr (!kContexts) return table_.listen(device, handle, listener);
  }
  Outcome connect(int device, void* handle, void** comm) override {
    void* device_comm = nullptr;
    if constexpr (kContexts) {
      return table_.connect(context_, device, handle, comm, &device_comm);
    } else if constexpr (kProfiles) {
      int config = -1;
      return table_.connect(device, &config, handle, comm, &device_comm);
    } else if constexpr (kDevices) {
      return table_.connect(device, handle, comm, &device_comm);
    } else {
      return table_.connect(device, handle, comm);
    }
  }
  Outcome accept(void* listener, void** comm) override {
    void* device_comm = nullptr;
    if constexpr (kDevices) return table_.accept(listener, comm, &device_comm);
    if constexpr (!kDevices) return table_.accept(listener, comm);
  }
  Outcome register_memory(void* comm, void* data, size_t size, int type, void** memory) override {
    return table_.regMr(comm, data, static_cast<typename Members::RegisteredSize>(size), type,
                        memory);
  }
  Outcome deregister_memory(void* comm, void* memory) override {
    return table_.deregMr(comm, memory);
  }
  Outcome send(void* comm, void* data, size_t size, int tag, void** request) override {
    const auto count = static_cast<Size>(size);
    if constexpr (kProfiles) {
      return table_.isend(comm, data, count, tag, data, nullptr, request);
    } else {
      return table_.isend(comm, data, count, tag, data, request);
    }
  }
  Outcome receive(void* comm, int count, void** data, const size_t* sizes, int* tags,
                  void** request) override {
    std::vector<Size> own(sizes, sizes + count);
    if constexpr (kProfiles) {
      std::vector<void*> profiles(static_cast<size_t>(count));
      return table_.irecv(comm, count, data, own.data(), tags, data, profiles.data(), request);
    } else {
      return table_.irecv(comm, count, data, own.data(), tags, data, request);
    }
  }
  Outcome flush(void* comm, void* data, int size, void** request) override {
    return table_.iflush(comm, 1, &data, &size, &data, request);
  }
  Outcome test(void* request, int* done, int* sizes) override {
    return table_.test(request, done, sizes);
  }
  Outcome close_send(void* comm) override { return table_.closeSend(comm); }
  Outcome close_receive(void* comm) override { return table_.closeRecv(comm); }
  Outcome close_listener(void* listener) override { return table_.closeListen(listener); }

 private:
  static constexpr bool kContexts = requires(Table table) { table.finalize; };
  static constexpr bool kDevices = requires(Table table) { table.irecvConsumed; };
  // From version 9 on sizes are size_t, and the hint reaches the plugin.
  static constexpr bool kWide = requires(Table table) { table.makeVDevice; };
  static constexpr bool kProfiles = kContexts || std::is_same_v<Table, TableV10>;
  using Size = std::conditional_t<kWide, size_t, int>;

  // The types of arguments, by the functions that have them.
  template <typename GetProperties, typename Register>
  struct TypesOf;
  template <typename P, typename S>
  struct TypesOf<Outcome (*)(int, P*), Outcome (*)(void*, void*, S, int, void**)> {
    using Properties = P;
    using RegisteredSize = S;
  };
  using Members = TypesOf<decltype(Table::getProperties), decltype(Table::regMr)>;

  const Table& table_;
  void* context_ = nullptr;
};

template <typename Table>
std::unique_ptr<Plugin> table_of(void* library, int version) {
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
  const auto* table = static_cast<const Table*>(dlsym(library, symbol.c_str()));
  if (table == nullptr) throw std::runtime_error("there is no " + symbol);
  if (std::string(table->name) != "r2ccl") throw std::runtime_error("the name of " + symbol);
  return std::make_unique<PluginOf<Table>>(*table);
}

}  // namespace

std::unique_ptr<Plugin> load_plugin(const std::string& path, int version) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  switch (version) {
    case 6:
      return table_of<TableV6>(library, version);
    case 7:
      return table_of<TableV7>(library, version);
    case 8:
      return table_of<TableV8>(library, version);
    case 9:
      return table_of<TableV9>(library, version);
    case 10:
      return table_of<TableV10>(library, version);
    case 11:
      return table_of<TableV11>(library, version);
    case 12:
      return table_of<TableV12>(library, version);
    default:
      throw std::runtime_error("there is no table of this version");
  }
}

std::vector<std::string> take_warnings() {
  const std::lock_guard lock(g_mutex);
  return std::exchange(g_warnings, {});
}

}  // namespace conformance
