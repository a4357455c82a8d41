# cuda_object(<out-var> <file.cu>): compiles one .cu file with nvcc for the GPU into an object that a C target can link
# (with CUDA::cudart and stdc++). A custom command instead of CMake's CUDA language: that one wants a working link
# with NVIDIA's static runtime before it builds anything, which the toolkit's Python wheels do not have.
set(EBB_CUDA_ARCHITECTURES "80" CACHE STRING
    "compute capabilities to compile kernels for, separated by ';'; PTX of the last one is embedded as well")

set(EBB_NVCC_FLAGS -std=c++17 -O3 --generate-line-info -Xcompiler=-fPIC -Xcompiler=-Wall)
foreach(arch ${EBB_CUDA_ARCHITECTURES})
  list(APPEND EBB_NVCC_GENCODE "-gencode=arch=compute_${arch},code=sm_${arch}")
  set(_last ${arch})
endforeach()
list(APPEND EBB_NVCC_GENCODE "-gencode=arch=compute_${_last},code=compute_${_last}")
set(EBB_NVCC_PTX_ARCH "-arch=compute_${_last}")

function(cuda_object out source)
  get_filename_component(source "${source}" ABSOLUTE)
  get_filename_component(name "${source}" NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${EBB_NVCC_FLAGS} ${EBB_NVCC_GENCODE} -cudart shared
            -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/softgpu/include -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "nvcc ${name}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${out} ${object} PARENT_SCOPE)
endfunction()

# cuda_fatbin(<out-var> <name> <file.cu>): <name>.fatbin in the current binary directory, for cuModuleLoad and cuModuleLoadData.
function(cuda_fatbin out name source)
  get_filename_component(source "${source}" ABSOLUTE)
  set(module ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  add_custom_command(
    OUTPUT ${module}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 ${EBB_NVCC_GENCODE} -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/softgpu/include
            -MD -MF ${module}.d -fatbin ${source} -o ${module}
    DEPENDS ${source} DEPFILE ${module}.d
    COMMENT "nvcc -fatbin ${name}" VERBATIM)
  set(${out} ${module} PARENT_SCOPE)
endfunction()
