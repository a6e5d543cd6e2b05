# The errors of a missing compiler or library. They name the Debian packages that bring it, because
# `pip install .` shows them to people who have not read how r2ccl is built.
set(R2CCL_REMEDY "On Debian, as root:\n  apt-get install g++ make pkg-config libsodium-dev libhwy-dev \
libcli11-dev nlohmann-json3-dev libtomlplusplus-dev")

# r2ccl_require(FOUND THING): ends with an error where the variable FOUND is false.
function(r2ccl_require found thing)
  if(NOT ${found})
    message(FATAL_ERROR "r2ccl cannot be built without ${thing}. ${R2CCL_REMEDY}")
  endif()
endfunction()

# Ends with an error where there is no C++ compiler. For use before `project`, whose own error names
# no package.
function(r2ccl_require_compiler)
  if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX} AND NOT CMAKE_TOOLCHAIN_FILE)
    find_program(R2CCL_ANY_CXX NAMES c++ g++ clang++)
    r2ccl_require(R2CCL_ANY_CXX "a C++ compiler")
  endif()
endfunction()
