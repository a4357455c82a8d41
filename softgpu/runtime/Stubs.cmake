# softgpu_stubs(<out-var> <names file> <handler>): generates a C file that defines every name of the list as a weak function,
# which says once that it is not provided and returns what <handler> does. A name that another file of the library defines
# is not weak there and wins. So every program that NVIDIA's library satisfies links and loads.
function(softgpu_stubs out names handler)
  get_filename_component(names "${names}" ABSOLUTE)
  get_filename_component(base "${CMAKE_CURRENT_BINARY_DIR}/${handler}s.c" ABSOLUTE)
  file(STRINGS ${names} list)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${names})
  string(CONCAT text "/* Generated from names.txt. */\nint ${handler}(const char *name, _Atomic int *said);\n"
    "#define STUB(name) \\\n    int name(void); \\\n    __attribute__((weak)) int name(void) \\\n    { \\\n"
    "        static _Atomic int said; \\\n        return ${handler}(#name, &said); \\\n    }\n")
  foreach(name ${list})
    string(APPEND text "STUB(${name})\n")
  endforeach()
  file(GENERATE OUTPUT ${base} CONTENT "${text}")
  set(${out} ${base} PARENT_SCOPE)
endfunction()

# softgpu_library(<target> <file name> <version script>): the properties of one of NVIDIA's library names: its SONAME, version
# node, and its neighbours found by RUNPATH (further directories may follow).
function(softgpu_library target name script)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX "" NO_SONAME TRUE
    LIBRARY_OUTPUT_DIRECTORY ${SOFTGPU_LIBRARY_DIR} BUILD_WITH_INSTALL_RPATH TRUE INSTALL_RPATH "$ORIGIN"
    LINK_DEPENDS ${script})
  target_compile_options(${target} PRIVATE ${EBB_WARNINGS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_options(${target} PRIVATE -Wl,-soname,${name} -Wl,--version-script=${script} -Wl,-Bsymbolic-functions
    -Wl,--enable-new-dtags -Wl,-z,defs)
  target_link_libraries(${target} PRIVATE softgpu_headers Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
