# The library, the net plugin for NCCL and the command in the Python wheel (pyproject.toml), where scikit-build-core runs this
# build.
if(NOT SKBUILD)
  return()
endif()

# A wheel cannot hold symbolic links, so it has one file, under the name that the command loads.
# Installed as a file it is not stripped by `cmake --install`: the linker does it.
target_link_options(r2ccl PRIVATE LINKER:--strip-all)
install(FILES $<TARGET_FILE:r2ccl> DESTINATION . RENAME $<TARGET_SONAME_FILE_NAME:r2ccl>
        COMPONENT python
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
        WORLD_READ WORLD_EXECUTE)
# python/r2ccl/nccl.py prints its path.
target_link_options(r2ccl_nccl_plugin PRIVATE LINKER:--strip-all)
install(TARGETS r2ccl_nccl_plugin LIBRARY DESTINATION . COMPONENT python)
# python/r2ccl_autoload/command.py starts it.
target_link_options(r2ccl_command PRIVATE LINKER:--strip-all)
set_target_properties(r2ccl_command PROPERTIES INSTALL_RPATH "$ORIGIN/..")
install(TARGETS r2ccl_command RUNTIME DESTINATION bin COMPONENT python)
