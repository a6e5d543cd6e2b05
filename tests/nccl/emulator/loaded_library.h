// A shared library of this process, with the symbols that its file names but the dynamic linker
// does not know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace r2ccl::emulated {

struct Symbol {
  std::string name;
  char* address = nullptr;
  size_t bytes = 0;
  bool is_function = false;
};

class LoadedLibrary {
 public:
  // Loads the library for the rest of the process's life. Ends the process if that fails, or if the
  // file has no symbol table.
  explicit LoadedLibrary(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  // Returns a data object, or nullptr.
  const void* data(const std::string& name) const;

  // Makes the code writable, or executable again.
  void make_code_writable(bool writable) const;

 private:
  void read_file(uintptr_t base);

  std::string path_;
  std::vector<Symbol> symbols_;
  uintptr_t code_ = 0;
  size_t code_bytes_ = 0;
};

}  // namespace r2ccl::emulated
