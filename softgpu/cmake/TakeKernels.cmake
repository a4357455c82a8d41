# Script (cmake -P): a link to the kernel library that OBJECT, of the build folder BUILD, has in the build folder FROM.
file(RELATIVE_PATH path "${BUILD}" "${OBJECT}")
set(library "${FROM}/${path}.softgpu.so")
if(NOT EXISTS "${library}")
  message(FATAL_ERROR "${FROM} has no kernel library of ${path}: build it first")
endif()
file(CREATE_LINK "${library}" "${OBJECT}.softgpu.so" SYMBOLIC)
