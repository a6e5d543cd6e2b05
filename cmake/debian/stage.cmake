# Runs for each of cpack's packages after its files are staged, and before it is packed: what Debian's
# policy asks beyond `make install`.
foreach(component ${CPACK_COMPONENTS_ALL})
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})

  # Each package has its licence and its changelog.
  set(doc ${usr}/share/doc/${package})
  file(COPY ${CPACK_R2CCL_DEBIAN_DIR}/copyright ${CPACK_R2CCL_CHANGELOG} DESTINATION ${doc})

  # Pages are compressed without a time, so that two builds give the same bytes.
  file(GLOB_RECURSE texts ${usr}/share/man/*.[1-9] ${doc}/changelog)
  if(texts)
    execute_process(COMMAND gzip -9n ${texts} COMMAND_ERROR_IS_FATAL ANY)
  endif()

  # Debian keeps the completions of its packages apart from those that the administrator adds.
  if(EXISTS ${usr}/share/zsh/site-functions)
    file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
  endif()

  # The loader finds the library in the system's directory by itself.
  if(EXISTS ${usr}/bin/r2ccl)
    file(RPATH_REMOVE FILE ${usr}/bin/r2ccl)
  endif()
endforeach()
