# Compiler settings and the one function that declares a layer of the source tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(R2CCL_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined")
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Werror)
# g++ 12 sees an overlap in every `"text" + std::string` (gcc bug 105651), and an overflow in bytes
# that are appended to a vector (as in gcc bug 118521).
add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
if(R2CCL_SANITIZE)
  # Tests are not optimized, and line numbers are all there is to debug with, or compiling would take
  # three times as long. r2ccl_layer() optimizes what the tests run.
  add_compile_options(-O0 -g1 -fsanitize=${R2CCL_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  # It looks at memory through a pipe, so that running out of descriptors looks like a bad object.
  add_compile_options(-fno-sanitize=vptr)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${R2CCL_SANITIZE})
  # gcc 12 reports this falsely once sanitizer checks are woven in; the release build has it on.
  add_compile_options(-Wno-maybe-uninitialized)
  if(R2CCL_SANITIZE MATCHES thread)
    add_compile_options(-Wno-tsan)
  endif()
endif()

# r2ccl_layer(NAME [DEPS layer...]): the static library r2ccl_NAME from src/NAME/**.cc, and from
# src/NAME/**_test.cc the test program NAME_test, each of whose tests ctest lists by itself.
function(r2ccl_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/empty_${name}.cc "")
    set(sources ${CMAKE_BINARY_DIR}/empty_${name}.cc)
  endif()
  add_library(r2ccl_${name} STATIC ${sources})
  target_include_directories(r2ccl_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(r2ccl_${name} PUBLIC Threads::Threads PkgConfig::SODIUM)
  if(R2CCL_SANITIZE)
    target_compile_options(r2ccl_${name} PRIVATE -O1)  # after -O0, so this one counts
  endif()
  foreach(dep ${ARG_DEPS})
    target_link_libraries(r2ccl_${name} PUBLIC r2ccl_${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY R2CCL_LAYER_TESTS ${name})
  set_property(GLOBAL PROPERTY R2CCL_TESTS_${name} "${tests}")
endfunction()
