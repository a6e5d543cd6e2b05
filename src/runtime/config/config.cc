#include "runtime/config/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <variant>

#include "base/printable.h"
#include "runtime/config/host_port.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/secret_file.h"

namespace r2ccl {
namespace {

constexpr size_t kInterfaceNameBytesMax = 15;  // IFNAMSIZ without the NUL
constexpr size_t kHostIdTextBytesMax = 255;

// --- kinds of variables: each knows how to read a text and how to say what it takes -------------

struct Flag {
  bool Config::*field;
};
struct Seconds {
  TimeNs Config::*field;
  int64_t lowest;
  int64_t highest;
};
struct Text {
  std::string Config::*field;
  bool (*valid)(const std::string& text);
  const char* allowed;
};
// Text that is copied into locked memory only. No message shows it.
struct Secret {
  LockedBytes Config::*field;
};
struct Choice {
  std::span<const char* const> names;  // compared without case
  void (*set)(Config& config, size_t index);
};
using Kind = std::variant<Flag, Seconds, Text, Secret, Choice>;

struct Variable {
  const char* name;
  const char* nccl_name;  // read when `name` is not set; null: NCCL has none of the same meaning
  Kind kind;
  const char* when_unset;
  const char* meaning;
};

// --- checks of texts ----------------------------------------------------------------------------

bool is_interface_list(const std::string& text) {
  size_t at = 0;
  if (text[at] == '^') ++at;
  if (at < text.size() && text[at] == '=') ++at;
  while (true) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    if (name.empty() || name.size() > kInterfaceNameBytesMax ||
        name.find_first_of(" \t/^=") != std::string::npos) {
      return false;
    }
    if (comma == text.size()) return true;
    at = comma + 1;
  }
}

bool is_host_port(const std::string& text) {
  return parse_host_port(text).ok();
}
bool is_secret_size(size_t bytes) {
  return bytes >= kSecretTextBytesMin && bytes <= kSecretTextBytesMax;
}
bool is_host_id(const std::string& text) {
  // Messages show this text as the host's name.
  return text.size() <= kHostIdTextBytesMax && is_printable(text);
}
bool is_any(const std::string&) {
  return true;
}

// --- the table ----------------------------------------------------------------------------------

constexpr const char* kInterfaceList =
    "prefixes separated by commas; a leading = makes them whole names, a leading ^ excludes them; "
    "lo@127.0.1.1 makes an address a NIC of its own";
constexpr const char* kSecretTexts =
    "16 to 4096 characters that cannot be guessed, such as `r2ccl secret` makes";
constexpr std::array kFamilyNames = {"AF_INET", "AF_INET6"};
// In the order of LogLevel, then NCCL's ABORT, which sets INFO here.
constexpr std::array kDebugNames = {"NONE", "VERSION", "WARN", "INFO", "TRACE", "ABORT"};
// In the order of AlgorithmChoice.
constexpr std::array kAlgorithmNames = {
    "auto", "ring",  "hd", "rd", "hier", "direct", "nested", "split", "recursive_split",
    "leaf", "packed"};

// In the order of NcclDevices.
constexpr std::array kNcclDevicesNames = {"per-nic", "one"};

void set_family(Config& config, size_t index) {
  config.socket_family = index == 0 ? AddressFamily::ipv4 : AddressFamily::ipv6;
}
void set_debug(Config& config, size_t index) {
  config.debug = index == 5 ? LogLevel::info : static_cast<LogLevel>(index);
}
void set_algorithm(Config& config, size_t index) {
  config.algo = static_cast<AlgorithmChoice>(index);
}

void set_nccl_devices(Config& config, size_t index) {
  config.nccl_devices = static_cast<NcclDevices>(index);
}

const std::array kVariables = {
    Variable{"R2CCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
             Text{&Config::socket_ifname, is_interface_list, kInterfaceList},
             "all NICs that `r2ccl info` calls usable", "Which interfaces carry data."},
    Variable{"R2CCL_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", Choice{kFamilyNames, set_family}, "both",
             "Use only addresses of this family."},
    Variable{"R2CCL_OOB_IFNAME", "NCCL_OOB_NET_IFNAME",
             Text{&Config::oob_ifname, is_interface_list, kInterfaceList},
             "the data NICs and the interface that reaches the rendezvous",
             "Which interfaces carry the control channel."},
    Variable{"R2CCL_DEBUG", "NCCL_DEBUG", Choice{kDebugNames, set_debug}, "NONE",
             "How much is logged. ABORT is taken as INFO."},
    Variable{"R2CCL_DEBUG_FILE", "NCCL_DEBUG_FILE",
             Text{&Config::debug_file, is_any, "the name of a file that can be written"},
             "standard error",
             "Where the log goes; %h becomes the host's name, %p the process id."},
    Variable{"R2CCL_COMM_ID", "NCCL_COMM_ID",
             Text{&Config::comm_id, is_host_port,
                  "host:port with a port of 1 to 65535, an IPv6 address in brackets"},
             "the unique id, or the launcher's variables", "Where the ranks meet."},
    Variable{"R2CCL_SECRET", nullptr, Secret{&Config::secret},
             "the unique id's secret; without one the start of the job is open to strangers",
             "The proof that a process belongs to the job."},
    Variable{"R2CCL_SECRET_FILE", nullptr,
             Text{&Config::secret_file, is_any,
                  "the name of a file with 16 to 4096 bytes that no other user can read"},
             "see R2CCL_SECRET", "As R2CCL_SECRET, which every child process inherits; not both."},
    Variable{
        "R2CCL_REQUIRE_AUTH", nullptr, Flag{&Config::require_auth}, "0",
        "1: a process without R2CCL_SECRET cannot start a job, also not from a unique id, unless "
        "its config says trusted_id."},
    Variable{"R2CCL_CUTOFF_S", nullptr, Seconds{&Config::cutoff_ns, 1, 86400}, "300",
             "How long a host that all NICs lost is waited for before all ranks get an error, and "
             "how long "
             "finalize waits for ranks that do not."},
    Variable{"R2CCL_INIT_TIMEOUT_S", nullptr, Seconds{&Config::init_timeout_ns, 1, 86400}, "120",
             "How long all ranks may take to arrive."},
    Variable{
        "R2CCL_MONITOR", nullptr, Flag{&Config::monitor}, "1",
        "0: no timers, probes and mirrors; for measurements only, a dead NIC may go unnoticed."},
    Variable{
        "R2CCL_ALGO", nullptr, Choice{kAlgorithmNames, set_algorithm}, "auto",
        "The algorithm. Among all ranks alike: ring, halving and doubling (hd), recursive "
        "doubling (rd), or each with each (direct). Within each host and then among hosts: hier. "
        "For hosts of unequal bandwidth AllReduce also has rings that leave out slow hosts "
        "(nested, split, recursive_split, leaf), and trees for those that lost different rails "
        "(packed). A collective without a form of that name chooses as with "
        "auto: by the costs of "
        "messages and bytes that the ranks measure at the start. All ranks must set the same."},
    Variable{"R2CCL_REPRODUCIBLE", nullptr, Flag{&Config::reproducible}, "0",
             "1: floating-point reductions add in rank order, so that the bits of a result never "
             "depend on hosts, NICs, faults or measured costs. docs/numerics.md has the cost. All "
             "ranks must set the same."},
    Variable{"R2CCL_VIEWS", nullptr, Flag{&Config::views}, "1",
             "0: plans take all NICs of all hosts for whole. All ranks must have the same value."},
    Variable{"R2CCL_DAMPING", nullptr, Flag{&Config::damping}, "1",
             "0: a NIC that flaps is taken back at once every time."},
    Variable{"R2CCL_HOST_ID", nullptr,
             Text{&Config::host_id, is_host_id, "up to 255 printable characters"},
             "from the kernel, the network namespace and /dev/shm",
             "Tells hosts apart: ranks with the same text are taken to share a host."},
    Variable{"R2CCL_SHM", nullptr, Flag{&Config::shm}, "1",
             "0: ranks of one host exchange data over lo and not through shared memory."},
    Variable{"R2CCL_SHM_DIRECT", nullptr, Flag{&Config::shm_direct}, "1",
             "0: ranks of one host do not read large messages straight from each other's memory, "
             "where the kernel permits that."},
    Variable{"R2CCL_NCCL_DEVICES", nullptr, Choice{kNcclDevicesNames, set_nccl_devices}, "per-nic",
             "The devices that stock NCCL sees with the net plugin: one for each NIC, which takes "
             "the device's data first, or one for all."},
    Variable{
        "R2CCL_FAULT_FILE", nullptr,
        Text{&Config::fault_file, is_any, "a file name in a directory that exists"}, "no faults",
        "For tests and the demo: a file that says which NICs act as faulty, read again when it "
        "changes; one that is not there yet says none. docs/lab.md has the format."},
    Variable{"R2CCL_STATUS", nullptr, Flag{&Config::status}, "1",
             "0: `r2ccl status` does not find this process."},
    Variable{"XDG_RUNTIME_DIR", nullptr,
             Text{&Config::runtime_dir, is_any, "an absolute path; others are ignored"}, "/tmp",
             "Where the directory r2ccl-UID lies, which holds the sockets for `r2ccl status`."},
};

// --- reading ------------------------------------------------------------------------------------

std::string one_of(std::span<const char* const> names) {
  std::string list;
  for (const char* name : names) list += (list.empty() ? "" : ", ") + std::string(name);
  return "one of " + list;
}

std::string allowed(const Kind& kind) {
  struct Visitor {
    std::string operator()(const Flag&) const { return "0 or 1"; }
    std::string operator()(const Seconds& seconds) const {
      return "whole seconds, " + std::to_string(seconds.lowest) + " to " +
             std::to_string(seconds.highest);
    }
    std::string operator()(const Text& text) const { return text.allowed; }
    std::string operator()(const Secret&) const { return kSecretTexts; }
    std::string operator()(const Choice& choice) const { return one_of(choice.names); }
  };
  return std::visit(Visitor{}, kind);
}

bool equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

// Returns the place of the name, or none.
std::optional<size_t> find_name(std::span<const char* const> names, std::string_view text) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (equal_without_case(names[i], text)) return i;
  }
  return std::nullopt;
}

// Sets the field and returns true. Returns false when the text is invalid.
struct Reader {
  const char* given;
  const std::string& text;  // `text`, hidden when the variable is a secret
  Config& config;

  bool operator()(const Flag& flag) const {
    if (text != "0" && text != "1") return false;
    config.*flag.field = text == "1";
    return true;
  }
  bool operator()(const Seconds& seconds) const {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end) return false;
    if (value < seconds.lowest || value > seconds.highest) return false;
    config.*seconds.field = value * kSecond;
    return true;
  }
  bool operator()(const Text& kind) const {
    if (!kind.valid(text)) return false;
    config.*kind.field = text;
    return true;
  }
  bool operator()(const Secret& kind) const {
    const std::string_view secret(given);
    if (!is_secret_size(secret.size())) return false;
    config.*kind.field = LockedBytes::copy_of(std::as_bytes(std::span(secret)));
    return true;
  }
  bool operator()(const Choice& choice) const {
    const auto index = find_name(choice.names, text);
    if (index) choice.set(config, *index);
    return index.has_value();
  }
};

void note_variable(const Variable& variable, const char* name, Config& config) {
  const auto* text = std::get_if<Text>(&variable.kind);
  if (text == nullptr) return;
  if (text->field == &Config::socket_ifname) config.socket_ifname_variable = name;
  if (text->field == &Config::oob_ifname) config.oob_ifname_variable = name;
  if (text->field == &Config::debug_file) config.debug_file_variable = name;
  if (text->field == &Config::comm_id) config.comm_id_variable = name;
}

Status load_variable(const Variable& variable, const GetEnv& get_env, Config& config) {
  for (const char* name : {variable.name, variable.nccl_name}) {
    if (name == nullptr) continue;
    const char* value = get_env(name);
    if (value == nullptr || *value == '\0') continue;
    const bool secret = std::holds_alternative<Secret>(variable.kind);
    const std::string text = secret ? "" : value;
    const std::string shown = std::string(name) + (secret ? " is not valid" : "=" + text);
    if (std::visit(Reader{value, text, config}, variable.kind)) {
      note_variable(variable, name, config);
      config.notes.in_force.push_back(secret ? std::string(name) + " is set" : shown);
      return {};
    }
    const std::string complaint = ": allowed is " + allowed(variable.kind);
    if (name == variable.name) return {Code::invalid_argument, shown + complaint};
    // The variable is another library's, where this value may be valid.
    config.notes.warnings.push_back(shown + " is ignored" + complaint);
  }
  return {};
}

}  // namespace

Result<Config> load_config(const GetEnv& get_env) {
  Config config;
  for (const Variable& variable : kVariables) {
    R2CCL_RETURN_IF_ERROR(load_variable(variable, get_env, config));
  }
  if (!config.secret.empty() && !config.secret_file.empty()) {
    return Status(Code::invalid_argument,
                  "R2CCL_SECRET and R2CCL_SECRET_FILE are both set: set one of them");
  }
  return config;
}

std::vector<std::string> unknown_settings(std::span<const char* const> environment) {
  constexpr std::string_view kPrefix = "R2CCL_";
  // `r2ccl lab` sets it in the shells of a lab.
  std::vector<std::string_view> known = {"R2CCL_LAB"};
  for (const Variable& variable : kVariables) known.emplace_back(variable.name);
  std::vector<std::string> warnings;
  for (const std::string_view entry : environment) {
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || std::ranges::find(known, name) != known.end()) continue;
    std::vector<std::string_view> tails;
    for (const std::string_view each : known) {
      if (each.starts_with(kPrefix)) tails.push_back(each.substr(kPrefix.size()));
    }
    const std::string nearest = nearest_name(name.substr(kPrefix.size()), tails);
    warnings.push_back(std::string(name) + " is not a setting" +
                       (nearest.empty()
                            ? ", so it is ignored"
                            : "; did you mean " + std::string(kPrefix) + nearest + "?"));
  }
  return warnings;
}

Result<LockedBytes> load_secret(const Config& config) {
  if (config.secret_file.empty()) return config.secret;
  auto text = read_secret_file(config.secret_file);
  if (!text.ok()) return text.status().with_context("R2CCL_SECRET_FILE=" + config.secret_file);
  if (text.value().empty() || !is_secret_size(text.value().bytes().size())) {
    return Status(Code::invalid_argument, "R2CCL_SECRET_FILE=" + config.secret_file +
                                              ": the file must hold 16 to 4096 bytes");
  }
  return text;
}

const char* to_string(AlgorithmChoice algorithm) {
  return kAlgorithmNames[static_cast<size_t>(algorithm)];
}

Result<AlgorithmChoice> parse_algorithm(std::string_view name) {
  const auto index = find_name(kAlgorithmNames, name);
  if (index) return static_cast<AlgorithmChoice>(*index);
  return Status(Code::invalid_argument, "allowed is " + one_of(kAlgorithmNames));
}

std::string configuration_table() {
  std::string out =
      "| variable | also read | allowed | when not set | meaning |\n|---|---|---|---|---|\n";
  for (const Variable& variable : kVariables) {
    const std::string also =
        variable.nccl_name == nullptr ? "" : "`" + std::string(variable.nccl_name) + "`";
    out += "| `" + std::string(variable.name) + "` | " + also + " | " + allowed(variable.kind) +
           " | " + variable.when_unset + " | " + variable.meaning + " |\n";
  }
  return out;
}

}  // namespace r2ccl
