#include "loaded_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "report.h"

namespace r2ccl::emulated {

LoadedLibrary::LoadedLibrary(const std::string& path) : path_(path) {
  // RTLD_GLOBAL, so that programs find NCCL's functions by name.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == nullptr) fail(std::string("cannot load NCCL: ") + dlerror());
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) fail("cannot find " + path + " in memory");
  read_file(map->l_addr);
}

void LoadedLibrary::read_file(uintptr_t base) {
  std::ifstream file(path_, std::ios::binary);
  const auto read_at = [&file](size_t offset, void* target, size_t bytes) {
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes));
  };
  Elf64_Ehdr header;
  read_at(0, &header, sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  read_at(header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  const Elf64_Shdr* table = nullptr;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_SYMTAB) table = &section;
    const bool is_code = section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_EXECINSTR) != 0;
    if (is_code && section.sh_size > code_bytes_) {
      code_ = base + section.sh_addr;
      code_bytes_ = section.sh_size;
    }
  }
  if (!file || table == nullptr || code_ == 0) fail(path_ + " has no symbol table");
  std::vector<Elf64_Sym> entries(table->sh_size / sizeof(Elf64_Sym));
  read_at(table->sh_offset, entries.data(), table->sh_size);
  std::string names(sections[table->sh_link].sh_size, '\0');
  read_at(sections[table->sh_link].sh_offset, names.data(), names.size());
  if (!file) fail("cannot read " + path_);
  for (const Elf64_Sym& entry : entries) {
    const unsigned type = ELF64_ST_TYPE(entry.st_info);
    if (entry.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) continue;
    symbols_.push_back({names.c_str() + entry.st_name,
                        reinterpret_cast<char*>(base + entry.st_value), entry.st_size,
                        type == STT_FUNC});
  }
}

const void* LoadedLibrary::data(const std::string& name) const {
  for (const Symbol& symbol : symbols_) {
    if (!symbol.is_function && symbol.name == name) return symbol.address;
  }
  return nullptr;
}

void LoadedLibrary::make_code_writable(bool writable) const {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = code_ / page * page;
  const uintptr_t end = (code_ + code_bytes_ + page - 1) / page * page;
  const int access = PROT_READ | PROT_EXEC | (writable ? PROT_WRITE : 0);
  if (mprotect(reinterpret_cast<void*>(first), end - first, access) != 0) {
    fail("this machine does not let a process change its code");
  }
}

}  // namespace r2ccl::emulated
