# Script (cmake -P): writes OUT, a C++ file that holds the device code of SOURCE and, as TABLE, the kernels that PTX lists.
# Needs PTX, SOURCE, TABLE, OUT, CXXFILT.
cmake_minimum_required(VERSION 3.22)

file(READ "${PTX}" ptx)
file(READ "${SOURCE}" code)

# A launch, `kernel<<<g, b, s, t>>>(args)`, becomes the expression `kernel, softgpu::launch_configuration(g, b, s, t)(args)`.
# Brackets and semicolons mean something to CMake's lists, so the text is only ever handled as one string.
string(REGEX REPLACE "<<<([^;]*)>>>" ", softgpu::launch_configuration(\\1)" code "${code}")

string(REGEX MATCHALL "\\.entry [A-Za-z0-9_$]+" entries "${ptx}")
list(REMOVE_DUPLICATES entries)
set(rows "")
set(index "")
set(n 0)
foreach(entry ${entries})
  string(REPLACE ".entry " "" mangled "${entry}")
  execute_process(COMMAND ${CXXFILT} ${mangled} OUTPUT_VARIABLE pretty OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "^void " "" pretty "${pretty}")
  # The argument list is the last balanced (...) of the name; template arguments may hold parentheses of their own.
  string(LENGTH "${pretty}" end)
  set(depth 0)
  set(at ${end})
  string(SUBSTRING "${pretty}" 0 ${end} name)
  set(arguments "")
  if(pretty MATCHES "\\)$")
    while(at GREATER 0)
      math(EXPR at "${at} - 1")
      string(SUBSTRING "${pretty}" ${at} 1 c)
      if(c STREQUAL ")")
        math(EXPR depth "${depth} + 1")
      elseif(c STREQUAL "(")
        math(EXPR depth "${depth} - 1")
        if(depth EQUAL 0)
          string(SUBSTRING "${pretty}" 0 ${at} name)
          string(SUBSTRING "${pretty}" ${at} -1 arguments)
          break()
        endif()
      endif()
    endwhile()
  endif()
  if(arguments STREQUAL "")
    set(pointer "&${name}")
  else()
    set(pointer "static_cast<void (*)${arguments}>(&${name})")
  endif()
  string(APPEND rows "static constexpr softgpu_kernel_t row_${n} = softgpu::describe<${pointer}>(\"${mangled}\");\n")
  # The compiler for the GPU and the one for the CPU must agree on the argument block.
  string(REGEX MATCHALL "\\.param [^,\n]* ${mangled}_param_[0-9]+(\\[[0-9]+\\])?[,\n]" params "${ptx}")
  list(LENGTH params count)
  string(APPEND rows "static_assert(row_${n}.param_count == ${count}, \"${mangled}: parameters differ from the module's\");\n")
  foreach(param ${params})
    if(param MATCHES "_param_([0-9]+)\\[([0-9]+)\\]")
      string(APPEND rows "static_assert(row_${n}.params[${CMAKE_MATCH_1}].size_bytes == ${CMAKE_MATCH_2}, \"${mangled}: parameter ${CMAKE_MATCH_1}\");\n")
    endif()
  endforeach()
  string(APPEND index "    &row_${n},\n")
  math(EXPR n "${n} + 1")
endforeach()

set(text "// Generated from ${SOURCE}: its device code for the CPU, and the table of its kernels.\n#include \"softgpu/device.h\"\n#line 1 \"${SOURCE}\"\n")
string(APPEND text "${code}" "\n#line 1 \"${OUT}.table\"\n${rows}"
  "extern \"C\" const softgpu_kernel_t *const ${TABLE}[] = {\n${index}    nullptr\n};\n"
  "extern \"C\" const uint32_t ${TABLE}_count = ${n};\n")
file(WRITE "${OUT}" "${text}")
