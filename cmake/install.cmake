# The places where `make install` puts the library, its headers, the command, and the files by which
# other projects find them (pkg-config r2ccl, find_package(R2CCL) with the target R2CCL::r2ccl).
# Every path in the installed files is relative to the file, so the tree can be moved or staged.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/R2CCL)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS r2ccl EXPORT R2CCLTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/r2ccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT R2CCLTargets NAMESPACE R2CCL:: DESTINATION ${cmake_dir})
target_include_directories(r2ccl INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/R2CCLConfig.cmake.in
  ${PROJECT_BINARY_DIR}/R2CCLConfig.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/R2CCLConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/R2CCLConfig.cmake ${PROJECT_BINARY_DIR}/R2CCLConfigVersion.cmake
  DESTINATION ${cmake_dir})

file(RELATIVE_PATH R2CCL_PC_TO_PREFIX /prefix/${pkgconfig_dir} /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/r2ccl.pc.in ${PROJECT_BINARY_DIR}/r2ccl.pc @ONLY)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/r2ccl)
install(FILES ${PROJECT_BINARY_DIR}/r2ccl.pc DESTINATION ${pkgconfig_dir})

if(TARGET r2ccl_command)
  file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(r2ccl_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS r2ccl_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
