# jemalloc for libebb alone: one object, EBB_JEMALLOC_OBJECT, that defines mallocx, dallocx, sallocx and mallctl; everything else
# in it is local, so that the process's malloc and free stay libc's.
#
#   * Its constructor is taken out: jemalloc starts at the first call, and a process without CUDA pays nothing.
#   * What it would read of the surroundings (MALLOC_CONF, /etc/malloc.conf, dlsym), what it would do at a fork, and what only its
#     profiler needs (libm, the unwinder: two libraries more in every process) is bound to jemalloc_seam.c.
find_path(EBB_JEMALLOC_INCLUDE_DIR jemalloc/jemalloc.h)
find_library(EBB_JEMALLOC_ARCHIVE libjemalloc_pic.a)
if(NOT EBB_JEMALLOC_ARCHIVE OR NOT EBB_JEMALLOC_INCLUDE_DIR)
  message(FATAL_ERROR "jemalloc's static archive (libjemalloc_pic.a) or header was not found: install libjemalloc-dev")
endif()

set(EBB_JEMALLOC_OBJECT ${CMAKE_CURRENT_BINARY_DIR}/jemalloc.o CACHE INTERNAL "")
set(_whole ${CMAKE_CURRENT_BINARY_DIR}/jemalloc_whole.o)
set(_keep malloc_conf mallocx dallocx sallocx mallctl)
set(_arguments --remove-section=.init_array --remove-section=.rela.init_array)
set(_wanted)
foreach(symbol ${_keep})
  list(APPEND _wanted -u ${symbol})
  list(APPEND _arguments --keep-global-symbol=${symbol})
endforeach()
foreach(symbol secure_getenv readlink dlsym pthread_atfork exp log round _Unwind_Backtrace _Unwind_GetIP)
  list(APPEND _arguments --redefine-sym ${symbol}=ebb_jemalloc_${symbol})
endforeach()
add_custom_command(OUTPUT ${EBB_JEMALLOC_OBJECT}
  COMMAND ${CMAKE_LINKER} -r ${_wanted} -o ${_whole} ${EBB_JEMALLOC_ARCHIVE}
  COMMAND ${CMAKE_OBJCOPY} ${_arguments} ${_whole} ${EBB_JEMALLOC_OBJECT}
  BYPRODUCTS ${_whole}
  DEPENDS ${EBB_JEMALLOC_ARCHIVE} ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "jemalloc with local symbols"
  VERBATIM)
add_custom_target(ebb_jemalloc_object DEPENDS ${EBB_JEMALLOC_OBJECT})
# Targets that link this have the object.
add_library(ebb_jemalloc INTERFACE)
target_include_directories(ebb_jemalloc SYSTEM INTERFACE ${EBB_JEMALLOC_INCLUDE_DIR})
target_link_libraries(ebb_jemalloc INTERFACE ${EBB_JEMALLOC_OBJECT})
add_dependencies(ebb_jemalloc ebb_jemalloc_object)
