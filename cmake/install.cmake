# The places where `make install` puts the library, its header, the command, and the files by which
# other projects find them (pkg-config r2ccl, find_package(R2CCL) with the target R2CCL::r2ccl).
# Every path in the installed files is relative to the file, so the tree can be moved or staged.
#
# Debian looks for libraries in lib/x86_64-linux-gnu below every prefix, and its packages must have
# theirs there. So this build serves `make install` and the packages of package.cmake alike.
if(CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Libraries, below the prefix")
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/R2CCL)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS r2ccl EXPORT R2CCLTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
        NAMELINK_COMPONENT development)
# NCCL loads it by its path, or by its name where the loader finds it.
install(TARGETS r2ccl_nccl_plugin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT nccl)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/r2ccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl
        USE_SOURCE_PERMISSIONS COMPONENT development)
# The pages that the header, the man pages and the messages name, and those that these link to.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl
        COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl
        COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/bench/RESULTS.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl/bench COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl/bench COMPONENT development)
install(EXPORT R2CCLTargets NAMESPACE R2CCL:: DESTINATION ${cmake_dir} COMPONENT development)
target_include_directories(r2ccl INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/R2CCLConfig.cmake.in
  ${PROJECT_BINARY_DIR}/R2CCLConfig.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/R2CCLConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/R2CCLConfig.cmake ${PROJECT_BINARY_DIR}/R2CCLConfigVersion.cmake
  DESTINATION ${cmake_dir} COMPONENT development)

file(RELATIVE_PATH R2CCL_PC_TO_PREFIX /prefix/${pkgconfig_dir} /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/r2ccl.pc.in ${PROJECT_BINARY_DIR}/r2ccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/r2ccl.pc DESTINATION ${pkgconfig_dir} COMPONENT development)
# The packages have Debian's copyright file in its place.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl
        COMPONENT licence)

if(TARGET r2ccl_command)
  file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(r2ccl_command PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib}")
  install(TARGETS r2ccl_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# Man pages and the completions of the command, made from the header and from the command's own help
# while they are installed. Without Python, or for another processor, they are left out.
find_package(Python3 COMPONENTS Interpreter)
function(r2ccl_install_made component)
  list(JOIN ARGN "\" \"" arguments)  # each in quotes
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" -B \"${arguments}\"
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
endfunction()
set(scripts ${PROJECT_SOURCE_DIR}/scripts)
set(share "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}")
set(documents "\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/r2ccl")
if(Python3_Interpreter_FOUND)
  r2ccl_install_made(development ${scripts}/api_reference.py --man ${share}/man/man3
                     --share ${documents})
  if(TARGET r2ccl_command AND NOT CMAKE_CROSSCOMPILING)
    r2ccl_install_made(tools ${scripts}/command_reference.py $<TARGET_FILE:r2ccl_command>
                       --man ${share}/man/man1
                       --bash ${share}/bash-completion/completions/r2ccl
                       --zsh ${share}/zsh/site-functions/_r2ccl)
  endif()
  set(docs ${PROJECT_SOURCE_DIR}/docs)
  r2ccl_install_made(tools ${scripts}/document_page.py ${docs}/configuration.md --name r2ccl
                     --summary "launchers and settings of jobs" --man ${share}/man/man7
                     --share ${documents})
  r2ccl_install_made(tools ${scripts}/document_page.py ${docs}/operations.md --name r2ccl-operations
                     --summary "running jobs: ports, sizing, alerts, messages"
                     --man ${share}/man/man7 --share ${documents})
  r2ccl_install_made(nccl ${scripts}/document_page.py ${docs}/nccl.md --name r2ccl-nccl
                     --summary "the net plugin for stock NCCL" --man ${share}/man/man7
                     --share ${documents})
endif()
