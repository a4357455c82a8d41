# cuda_object(<out-var> <file.cu>): compiles one .cu file with nvcc for the GPU into an object that a C target can link
# (with CUDA::cudart and stdc++). A custom command instead of CMake's CUDA language: that one wants a working link
# with NVIDIA's static runtime before it builds anything, which the toolkit's Python wheels do not have.
set(EBB_CUDA_ARCHITECTURES "80" CACHE STRING
    "compute capabilities to compile kernels for, separated by ';'; PTX of the last one is embedded as well. all: those of packages")
# What packages are built for, as far as the toolkit knows it: A100, the RTX 30 and 40 series and L4, H100 and H200, B200, RTX 50.
execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE _known COMMAND_ERROR_IS_FATAL ANY)
set(EBB_EVERY_ARCHITECTURE)
foreach(arch 80 86 89 90 100 120)
  if(_known MATCHES "sm_${arch}[^0-9]")
    list(APPEND EBB_EVERY_ARCHITECTURE ${arch})
  endif()
endforeach()
set(EBB_ARCHITECTURES ${EBB_CUDA_ARCHITECTURES})
if(EBB_CUDA_ARCHITECTURES STREQUAL "all")
  set(EBB_ARCHITECTURES ${EBB_EVERY_ARCHITECTURE})
endif()

# Device code takes longest of all, and is the same in a build with sanitizers.
set(EBB_DEVICE_CODE_FROM "" CACHE PATH
    "another build folder of these sources, finished: kernels are taken from there instead of being compiled once more")

# take_device_code(<file>...): makes these files of this build links to the other build's.
function(take_device_code)
  foreach(file ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_BINARY_DIR} ${file})
    add_custom_command(OUTPUT ${file} COMMAND ${CMAKE_COMMAND} -E create_symlink ${EBB_DEVICE_CODE_FROM}/${path} ${file}
      DEPENDS ${EBB_DEVICE_CODE_FROM}/${path} VERBATIM)
  endforeach()
endfunction()

set(EBB_NVCC_FLAGS -std=c++17 -O3 --generate-line-info -Xcompiler=-fPIC -Xcompiler=-Wall)
foreach(arch ${EBB_ARCHITECTURES})
  list(APPEND EBB_NVCC_GENCODE "-gencode=arch=compute_${arch},code=sm_${arch}")
  set(_last ${arch})
endforeach()
list(APPEND EBB_NVCC_GENCODE "-gencode=arch=compute_${_last},code=compute_${_last}")
set(EBB_NVCC_PTX_ARCH "-arch=compute_${_last}")

function(cuda_object out source)
  get_filename_component(source "${source}" ABSOLUTE)
  get_filename_component(name "${source}" NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  if(EBB_DEVICE_CODE_FROM)
    take_device_code(${object})
  else()
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${EBB_NVCC_FLAGS} ${EBB_NVCC_GENCODE} -cudart shared
              -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/softgpu/include -MD -MF ${object}.d -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "nvcc ${name}" VERBATIM)
  endif()
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${out} ${object} PARENT_SCOPE)
endfunction()

# cuda_fatbin(<out-var> <name> <file.cu>): <name>.fatbin in the current binary directory, for cuModuleLoad and cuModuleLoadData.
function(cuda_fatbin out name source)
  get_filename_component(source "${source}" ABSOLUTE)
  set(module ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  set(${out} ${module} PARENT_SCOPE)
  if(EBB_DEVICE_CODE_FROM)
    take_device_code(${module})
    return()
  endif()
  add_custom_command(
    OUTPUT ${module}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 ${EBB_NVCC_GENCODE} -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/softgpu/include
            -MD -MF ${module}.d -fatbin ${source} -o ${module}
    DEPENDS ${source} DEPFILE ${module}.d
    COMMENT "nvcc -fatbin ${name}" VERBATIM)
endfunction()

# cuda_every_architecture(<target> <file.cu>...): adds <target>, and it to `architectures`, which nothing builds by itself: the machine code of
# these files for every architecture of packages, and PTX for what comes after: that it compiles. One command for each file and generation,
# so that they run side by side; within a generation the compiler proper, which takes longest, runs once (kernels ask for no
# more than 8.0), and ptxas for each architecture.
function(cuda_every_architecture target)
  set(outputs)
  list(GET EBB_EVERY_ARCHITECTURE -1 last)
  foreach(source ${ARGN})
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME_WE)
    foreach(generation 80 90 100 120)
      set(code)
      foreach(arch ${EBB_EVERY_ARCHITECTURE})
        if(arch EQUAL generation OR (generation EQUAL 80 AND arch LESS 90))
          list(APPEND code sm_${arch})
        endif()
      endforeach()
      if(NOT code)
        continue()
      endif()
      if(generation EQUAL last)
        list(APPEND code compute_${last})
      endif()
      string(REPLACE ";" "," code "${code}")
      set(output ${CMAKE_CURRENT_BINARY_DIR}/architectures/${name}.${generation})
      add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/architectures
        COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${EBB_NVCC_FLAGS} --Ofast-compile=max
                -gencode=arch=compute_${generation},code=[${code}] -fatbin
                -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/softgpu/include -MD -MF ${output}.d ${source} -o ${output}
        DEPENDS ${source} DEPFILE ${output}.d
        COMMENT "nvcc ${name} for ${code}" VERBATIM)
      list(APPEND outputs ${output})
    endforeach()
  endforeach()
  add_custom_target(${target} DEPENDS ${outputs})
  if(NOT TARGET architectures)
    add_custom_target(architectures)
  endif()
  add_dependencies(architectures ${target})
endfunction()
