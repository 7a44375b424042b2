# layering.cmake: which folder may include which. Each rule is a folder, the headers of ours that it
# may include, and files of it that another rule has; a line that breaks one is an error with its
# place. Run as: cmake -DROOT=<source folder> -P layering.cmake
cmake_minimum_required(VERSION 3.25)

set(errors "")
set(checked 0)

# layer(FOLDER MAY regex... [EXCEPT folder...]): what stands in #include "..." in FOLDER must match
# one of the regexes. Names relative to the including file count as written.
function(layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 rule "" "" "MAY;EXCEPT")
  list(JOIN rule_MAY "|" allowed)
  file(GLOB_RECURSE files RELATIVE "${ROOT}"
    "${ROOT}/${folder}/*.h" "${ROOT}/${folder}/*.hpp" "${ROOT}/${folder}/*.cpp"
    "${ROOT}/${folder}/*.in" "${ROOT}/${folder}/*.comp" "${ROOT}/${folder}/*.glsl"
    "${ROOT}/${folder}/*.hip" "${ROOT}/${folder}/*.c")
  foreach(file IN LISTS files)
    set(skip FALSE)
    foreach(except IN LISTS rule_EXCEPT)
      if(file MATCHES "^${except}/")
        set(skip TRUE)
      endif()
    endforeach()
    if(skip)
      continue()
    endif()
    file(STRINGS "${ROOT}/${file}" includes REGEX "^[ \t]*#[ \t]*include[ \t]")
    foreach(line IN LISTS includes)
      math(EXPR checked "${checked} + 1")
      # Angle brackets are for others' headers; ours would hide in them.
      if(line MATCHES "include[ \t]+<((common|hip/kernels|tests|bench|tools|crossflash)/[^>]*)>")
        string(APPEND errors "  ${file} includes <${CMAKE_MATCH_1}>; ours stand in quotes\n")
      elseif(line MATCHES "include[ \t]+\"([^\"]+)\"")
        set(included "${CMAKE_MATCH_1}")
        if(NOT included MATCHES "^(${allowed})$")
          string(APPEND errors "  ${file} includes \"${included}\"\n")
        endif()
      endif()
    endforeach()
  endforeach()
  set(errors "${errors}" PARENT_SCOPE)
  set(checked "${checked}" PARENT_SCOPE)
endfunction()

layer(include MAY "crossflash/.*")
layer(common MAY "crossflash/.*" "common/.*" EXCEPT common/shared)
# The text that C++, HIP and GLSL share knows itself alone.
layer(common/shared MAY "[a-z_.]*\\.h")
layer(vulkan MAY "crossflash/.*" "common/.*" "vulkan/.*" "spirv\\.h" EXCEPT vulkan/shaders)
layer(vulkan/shaders MAY "(\\.\\./)+common/shared/[a-z_.]*" "lib/.*" "[a-z_]*\\.glsl")
layer(hip MAY "crossflash/.*" "common/.*" "hip/.*"
  EXCEPT hip/kernels hip/tile hip/arch)
# Kernels know the architectures' traits and the tile vocabulary, and of the host nothing.
layer(hip/kernels MAY "common/shared/.*" "hip/(kernels|tile|arch)/.*")
layer(hip/arch MAY "hip/(arch|tile)/.*")
layer(hip/tile MAY "common/shared/.*" "hip/tile/.*")

if(checked EQUAL 0)
  message(FATAL_ERROR "layering: no #include found below \"${ROOT}\"")
endif()
if(errors)
  message(FATAL_ERROR "layering: these break the direction of dependencies:\n${errors}")
endif()
message(STATUS "layering: ${checked} includes follow the direction of dependencies")
