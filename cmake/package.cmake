# Debian packages: `make deb`, or cpack in the build directory. The components of install.cmake become
# libr2ccl0 (the library), libr2ccl-dev (header, pkg-config, CMake files, man pages of the calls),
# libnccl-net-r2ccl (the net plugin for NCCL) and r2ccl-tools (the command with its man pages and
# completions).
set(R2CCL_MAINTAINER "r2ccl maintainers <r2ccl@localhost>" CACHE STRING
    "Maintainer of the Debian packages: name <address>")
# cpack installs what is built; without this it would build the tests first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME r2ccl)
set(CPACK_PACKAGE_VENDOR r2ccl)
set(CPACK_PACKAGE_CONTACT ${R2CCL_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime development nccl)
if(TARGET r2ccl_command)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${R2CCL_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(R2CCL_PACKAGE_ABOUT
    "AllReduce and other collectives over TCP, with a C API shaped like NCCL's.\nA job spreads its traffic over all NICs of its hosts, and goes on when a NIC,\ncable, switch port or rail fails.")
set(runtime libr2ccl${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/symbols
    ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION
    "collective communication that survives NIC failures\n${R2CCL_PACKAGE_ABOUT}\n\nThis package has the shared library.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libr2ccl-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${runtime} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS r2ccl-tools)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "collective communication that survives NIC failures (development)\n${R2CCL_PACKAGE_ABOUT}\n\nThis package has the header, the files for pkg-config and CMake, examples and\nthe man pages of the calls.")

set(CPACK_DEBIAN_NCCL_PACKAGE_NAME libnccl-net-r2ccl)
set(CPACK_DEBIAN_NCCL_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_NCCL_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_NCCL_DESCRIPTION
    "net plugin for NCCL that survives NIC failures\nNCCL_NET_PLUGIN=r2ccl makes NCCL load it: its traffic between hosts then\nspreads over all NICs, and goes on when a NIC, cable, switch port or rail\nfails.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME r2ccl-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${runtime} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "iproute2, nftables, ethtool")
set(CPACK_DEBIAN_TOOLS_DESCRIPTION
    "collective communication that survives NIC failures (command)\n${R2CCL_PACKAGE_ABOUT}\n\nThis package has the command r2ccl: benchmarks, the status of running jobs,\ntaking a NIC out of service, a lab of network namespaces, a simulator.")

# The date of an entry of the changelog: of the release where the packager names it, else the epoch,
# so that two builds give the same bytes.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  string(TIMESTAMP R2CCL_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
else()
  set(R2CCL_PACKAGE_DATE "Thu, 01 Jan 1970 00:00:00 +0000")
endif()
set(CPACK_R2CCL_DEBIAN_DIR ${PROJECT_SOURCE_DIR}/cmake/debian)
set(CPACK_R2CCL_CHANGELOG ${PROJECT_BINARY_DIR}/debian/changelog)
configure_file(cmake/debian/changelog.in ${CPACK_R2CCL_CHANGELOG} @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/stage.cmake)
include(CPack)
