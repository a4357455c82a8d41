# sg_gate(<out-var> <names file>): every driver function that NVIDIA's headers declare goes through a gate (gate.h). What the files
# here define as cuMemAlloc_v2 is compiled under the name sg_impl_cuMemAlloc_v2 (gate_names.h, generated, says so to the
# preprocessor); the exported cuMemAlloc_v2 is the gate. What no file defines is a stub that returns CUDA_ERROR_NOT_SUPPORTED: weak, so
# that a definition wins. Generated into <out-var>, too: the table of gates, with their parameters for the call trace, and the
# forms that cuGetProcAddress chooses from. The symbols of a name, cuMemAlloc and cuMemAlloc_v2, are its forms in NVIDIA's
# cudaTypedefs.h in the order of their versions, PFN_cuMemAlloc_v2000 and PFN_cuMemAlloc_v3020.

# Those that answer questions about names are no calls of the device (procaddr.c).
set(SG_UNGATED cuGetProcAddress cuGetProcAddress_v2 cuGetErrorString cuGetErrorName)
# Found under their symbols alone: they take a context, and the runtime, which asks for CUDA 13's forms, calls those without.
set(SG_OTHER_NAME cuCtxGetDevice_v2 cuCtxSynchronize_v2)

# Forms under a second name: cuda.h defines cuGraphInstantiate as cuGraphInstantiateWithFlags, and cuda.bindings asks for that version of it.
set(SG_SECOND_NAME "{\"cuGraphInstantiate\", 11040, sg_at_cuGraphInstantiateWithFlags, NULL},")

# What drivers of CUDA 13.2 have beyond the headers of 13.0 (NVIDIA/cuda-python, issue 2365): a driver may be newer than what programs were built with.
set(SG_NEWER cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz)
set(versions_cuMemcpyWithAttributesAsync 13020)
set(parameters_cuMemcpyWithAttributesAsync_13020 "CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t size, CUmemcpyAttributes *attr, CUstream hStream")

function(sg_gate out names_file)
  find_file(SG_TYPEDEFS cudaTypedefs.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  file(STRINGS ${SG_TYPEDEFS} typedefs REGEX "PFN_cu[A-Za-z0-9_]+\\)\\(")
  foreach(line ${typedefs})
    if(line MATCHES "\\*PFN_(cu[A-Za-z0-9]+)_v([0-9]+)(_pt[ds][sz])?\\)\\((.*)\\)")
      set(parameters_${CMAKE_MATCH_1}_${CMAKE_MATCH_2} "${CMAKE_MATCH_4}")
      if(NOT CMAKE_MATCH_3)
        list(APPEND versions_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
      endif()
    endif()
  endforeach()
  file(STRINGS ${names_file} symbols)
  list(APPEND symbols ${SG_NEWER})
  foreach(symbol ${symbols})
    string(REGEX MATCH "^(cu[A-Za-z0-9]+)(_v[0-9]+)?(_pt[ds][sz])?$" _ ${symbol})
    list(APPEND names ${CMAKE_MATCH_1})
    if(CMAKE_MATCH_3)
      set(variant_${CMAKE_MATCH_1}${CMAKE_MATCH_2} ${symbol})
    else()
      list(APPEND symbols_${CMAKE_MATCH_1} ${symbol})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)

  set(defines "/* Generated (Gate.cmake): what is defined here under a public name is what stands behind its gate. */\n")
  set(gates "/* Generated (Gate.cmake). */\n#include \"softgpu/driver/api/gate.h\"\n")
  set(table "")
  set(forms "")
  set(n 0)
  foreach(name ${names})
    list(SORT versions_${name} COMPARE NATURAL)
    list(SORT symbols_${name} COMPARE NATURAL)
    foreach(symbol ${symbols_${name}})
      set(version 0) # of what cudaProfiler.h declares
      if(versions_${name})
        list(POP_FRONT versions_${name} version)
      endif()
      set(per_thread NULL)
      if(variant_${symbol})
        set(per_thread sg_at_${variant_${symbol}})
      endif()
      foreach(s ${symbol} ${variant_${symbol}})
        string(APPEND gates "extern void sg_at_${s}(void) __asm__(\"${s}\");\n")
        if(NOT s IN_LIST SG_UNGATED)
          string(APPEND defines "#define ${s} sg_impl_${s}\n")
          string(APPEND gates "SG_GATE(${s}, ${n})\n")
          string(APPEND table "    {\"${s}\", \"${parameters_${name}_${version}}\", sg_at_impl_${s}},\n")
          math(EXPR n "${n} + 1")
        endif()
      endforeach()
      set(asked ${name})
      if(symbol IN_LIST SG_OTHER_NAME)
        set(asked ${symbol})
      endif()
      string(APPEND forms "    {\"${asked}\", ${version}, sg_at_${symbol}, ${per_thread}},\n")
    endforeach()
    if(versions_${name})
      message(WARNING "${name}: cudaTypedefs.h has more forms than cuda.h")
    endif()
  endforeach()
  string(APPEND gates "const sg_gate_row_t sg_gate_table[] = {\n${table}};\nconst unsigned sg_gate_count = ${n};\n"
    "const sg_form_t sg_forms[] = {\n${forms}    ${SG_SECOND_NAME}\n    {0},\n};\n")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gate_names.h CONTENT "${defines}")
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gate_table.c CONTENT "${gates}")
  set(${out} ${CMAKE_CURRENT_BINARY_DIR}/gate_table.c PARENT_SCOPE)
endfunction()
