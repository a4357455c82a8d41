# softgpu_kernels(<target> SOURCES <file.cu>... | SAME_AS <other target>): builds the kernel library of an executable or shared library
# whose kernels are in these .cu files (softgpu/include/softgpu/kernel_abi.h tells how the driver finds it): <target's file>.softgpu.so.
# SAME_AS: the target links the same kernels as another one and shares its kernel library.
#
# cuda_module(<name> <file.cu>): builds <name>.fatbin, a module for cuModuleLoad, and its kernel library, in
# the current binary directory, as target <name>.
#
# With EBB_DEVICE_CODE_FROM (CudaObject.cmake) both make links to the other build's kernel libraries.
#
# For each file `nvcc -ptx` lists the kernels with their parameter sizes, and the variables; the host compiler then compiles
# the same source, with the table of those appended, for fast mode. Nobody runs that PTX: -G, without optimisation, is
# enough. For the other modes the library has the PTX that Clang makes of the source; without Clang, none.
set(SOFTGPU_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})

# Reassociation lets sums vectorise. Not -ffast-math: infinities are needed (masks), and gcc 12 would turn
# flush-to-zero on for the whole process if it were also on the link line. No peeling for alignment: the order of a sum
# must not depend on an address.
set(SOFTGPU_FAST_FLAGS -std=c++17 -march=${EBB_CPU} -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math
    -fno-extern-tls-init -ffunction-sections -fdata-sections -Wall -Wno-unused-function -Wno-unused-variable
    -Wno-unused-value -Wno-address -Wno-unknown-pragmas -Wno-uninitialized -Wno-maybe-uninitialized
    -Wno-psabi # gcc tells of each tensor map among parameters that gcc 4.5 passed it otherwise
    -O3 -mprefer-vector-width=512 -fassociative-math -fno-signed-zeros
    -freciprocal-math -fopenmp-simd --param=vect-max-peeling-for-alignment=0)
# Not -mtls-dialect=gnu2: a thread's first access to its __shared__ arrays would clobber live vector registers before glibc 2.40
# (sourceware bug 31372).
set(SOFTGPU_KERNEL_OPTIONS "" CACHE STRING "compiler options for kernel libraries, before those that they have")

execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../softgpu-clang++ --version RESULT_VARIABLE _no_clang OUTPUT_QUIET ERROR_QUIET)
string(COMPARE EQUAL "${_no_clang}" 0 SOFTGPU_HAS_CLANG)

option(SOFTGPU_KERNELS "build kernel libraries with their programs; off where programs will only run on a GPU" ON)

function(softgpu_kernels target)
  cmake_parse_arguments(ARG "" "SAME_AS" "SOURCES" ${ARGN})
  if(EBB_DEVICE_CODE_FROM)
    take_kernel_library(command $<TARGET_FILE:${target}>)
    add_custom_command(TARGET ${target} POST_BUILD ${command} VERBATIM)
    if(ARG_SOURCES)
      take_ptx(${target} ${ARG_SOURCES})
    endif()
    return()
  endif()
  if(ARG_SAME_AS)
    # By folder and name: TARGET_FILE would have it built, also where SOFTGPU_KERNELS is off.
    set(library ${ARG_SAME_AS}_softgpu)
    add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink
      "$<TARGET_FILE_DIR:${library}>/$<TARGET_FILE_NAME:${library}>" "$<TARGET_FILE:${target}>.softgpu.so" VERBATIM)
  else()
    softgpu_kernel_library(${target} "$<TARGET_FILE_DIR:${target}>" "$<TARGET_FILE_NAME:${target}>" ${ARG_SOURCES})
    set(ARG_SAME_AS ${target})
  endif()
  if(SOFTGPU_KERNELS)
    add_dependencies(${target} ${ARG_SAME_AS}_softgpu)
  endif()
endfunction()

function(cuda_module name source)
  get_filename_component(source "${source}" ABSOLUTE)
  cuda_fatbin(module ${name} ${source})
  if(EBB_DEVICE_CODE_FROM)
    take_kernel_library(command ${module})
    add_custom_target(${name} ${command} DEPENDS ${module} VERBATIM)
    return()
  endif()
  add_custom_target(${name} DEPENDS ${module})
  softgpu_kernel_library(${name} ${CMAKE_CURRENT_BINARY_DIR} ${name}.fatbin ${source})
  if(SOFTGPU_KERNELS)
    add_dependencies(${name} ${name}_softgpu)
  endif()
endfunction()

# take_kernel_library(<out-var> <object>): the command that makes a link to the kernel library that this object has in the other
# build (EBB_DEVICE_CODE_FROM).
function(take_kernel_library out object)
  set(${out} COMMAND ${CMAKE_COMMAND} -DOBJECT=${object} -DBUILD=${CMAKE_BINARY_DIR} -DFROM=${EBB_DEVICE_CODE_FROM}
    -P ${SOFTGPU_CMAKE_DIR}/TakeKernels.cmake PARENT_SCOPE)
endfunction()

# take_ptx(<target> <file.cu>...): what is otherwise a by-product.
function(take_ptx target)
  set(files)
  foreach(source ${ARGN})
    get_filename_component(name "${source}" NAME_WE)
    list(APPEND files ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.ptx)
  endforeach()
  take_device_code(${files})
  add_custom_target(${target}_ptx ALL DEPENDS ${files})
endfunction()

# Target <name>_softgpu: the kernel library of the object <folder>/<file>.
function(softgpu_kernel_library target output_folder output_name)
  get_filename_component(toolkit ${CUDAToolkit_BIN_DIR} DIRECTORY)
  set(sources)
  set(tables)
  set(scripts)
  foreach(source ${ARGN})
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME_WE)
    get_filename_component(folder "${source}" DIRECTORY)
    set(base ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name})
    add_custom_command(
      OUTPUT ${base}.ptx
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 ${EBB_NVCC_PTX_ARCH} -G -ccbin ${CMAKE_CXX_COMPILER}
              -I ${PROJECT_SOURCE_DIR}/softgpu/include -MD -MF ${base}.ptx.d -ptx ${source} -o ${base}.ptx
      DEPENDS ${source} DEPFILE ${base}.ptx.d
      COMMENT "nvcc -ptx ${name}.cu" VERBATIM)
    set(clang_ptx)
    if(SOFTGPU_HAS_CLANG)
      set(clang_ptx ${base}.clang.ptx)
      add_custom_command(
        OUTPUT ${clang_ptx}
        COMMAND ${CMAKE_COMMAND} -E env CUDA_HOME=${toolkit} ${PROJECT_SOURCE_DIR}/softgpu/softgpu-clang++ -std=c++17 -O2 -lineinfo
                -arch=sm_90 -w -I ${PROJECT_SOURCE_DIR}/softgpu/include -MD -MF ${clang_ptx}.d -MT ${clang_ptx} -ptx ${source} -o ${clang_ptx}
        DEPENDS ${source} ${PROJECT_SOURCE_DIR}/softgpu/softgpu-clang++ DEPFILE ${clang_ptx}.d
        COMMENT "softgpu-clang++ -ptx ${name}.cu" VERBATIM)
    endif()
    add_custom_command(
      OUTPUT ${base}.kernels.cpp ${base}.variables.ld
      COMMAND ${CMAKE_COMMAND} -DPTX=${base}.ptx -DSOURCE=${source} -DTABLE=softgpu_table_${name} -DOUT=${base}.kernels.cpp
              -DSCRIPT=${base}.variables.ld -DOBJECT=${target}.${name}.kernels.cpp.o -DCXXFILT=c++filt -DCLANG_PTX=${clang_ptx}
              -DDEPENDENCIES=${base}.ptx.d -DTOOLKIT=${toolkit}
              -P ${SOFTGPU_CMAKE_DIR}/KernelTable.cmake
      DEPENDS ${base}.ptx ${source} ${SOFTGPU_CMAKE_DIR}/KernelTable.cmake
      COMMENT "kernel table of ${name}.cu" VERBATIM)
    list(APPEND sources ${base}.kernels.cpp)
    list(APPEND scripts ${base}.variables.ld)
    set_property(SOURCE ${base}.kernels.cpp APPEND PROPERTY INCLUDE_DIRECTORIES ${folder})
    set_property(SOURCE ${base}.kernels.cpp APPEND PROPERTY OBJECT_DEPENDS "${clang_ptx}")
    list(APPEND tables softgpu_table_${name})
  endforeach()

  set(index ${CMAKE_CURRENT_BINARY_DIR}/${target}.index.cpp)
  set(text "// Generated by softgpu_kernels(): the kernel table of ${target}.\n#include \"softgpu/gather.h\"\n")
  foreach(table ${tables})
    string(APPEND text "extern \"C\" const softgpu_unit_t ${table};\n")
  endforeach()
  string(APPEND text "__attribute__((constructor)) static void gather()\n{\n")
  foreach(table ${tables})
    string(APPEND text "    softgpu::add_unit(${table});\n")
  endforeach()
  string(APPEND text "    softgpu::publish();\n}\n")
  file(GENERATE OUTPUT ${index} CONTENT "${text}")

  set(library ${target}_softgpu)
  add_library(${library} MODULE ${sources} ${index})
  set_target_properties(${library} PROPERTIES PREFIX "" OUTPUT_NAME "${output_name}.softgpu" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY "${output_folder}" LINK_DEPENDS "${scripts}")
  target_compile_options(${library} PRIVATE ${SOFTGPU_KERNEL_OPTIONS} ${SOFTGPU_FAST_FLAGS})
  # Several objects of one process export the table: each must see its own.
  target_link_options(${library} PRIVATE -Wl,--gc-sections -Wl,-Bsymbolic)
  foreach(script ${scripts})
    target_link_options(${library} PRIVATE -Wl,-T,${script})
  endforeach()
  target_link_libraries(${library} PRIVATE softgpu_headers)
endfunction()
