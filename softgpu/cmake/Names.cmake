# softgpu_names(<out-var> <mode> <argument>...): the names that names.sh prints, as a file in the current binary directory.
function(softgpu_names out)
  set(script ${PROJECT_SOURCE_DIR}/softgpu/cmake/names.sh)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/names.txt)
  execute_process(COMMAND bash ${script} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  set(${out} ${file} PARENT_SCOPE)
endfunction()
