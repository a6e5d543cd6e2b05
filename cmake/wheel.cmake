# The library in the Python wheel (pyproject.toml), where scikit-build-core runs this build.
if(NOT SKBUILD)
  return()
endif()

# A wheel cannot hold symbolic links, so it has one file, without the version in its name. Installed
# as a file it is not stripped by `cmake --install`: the linker does it.
target_link_options(r2ccl PRIVATE LINKER:--strip-all)
install(FILES $<TARGET_FILE:r2ccl> DESTINATION . RENAME libr2ccl.so COMPONENT python
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
        WORLD_READ WORLD_EXECUTE)
